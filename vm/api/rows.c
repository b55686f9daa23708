/* Tensors whose first dimension the host gives: `x tensor float32[r10 <= 1024, 64]`. A run has a
 * program of its own, in which these tensors have the size of that run; their shape stays the
 * declared one, so that patterns are read and printed as they were written. */
#include "impl.h"

#include <string.h>

/* Shapes are printed as they were declared, with the register. */
static void put_tensor(isa_buf *b, const isa_tensor *t) {
  isa_buf_printf(b, "tensor %s, %s", t->name, isa_dtypes[t->dtype].name);
  isa_print_shape(t, ", ", b);
}

/* Fails with "tensor x, float32[r10<=1024, 64]" and what follows. */
static soma_status refuse(soma_machine *m, const isa_tensor *t, const char *what) {
  isa_buf b;
  isa_buf_init(&b, &m->al);
  put_tensor(&b, t);
  soma_status s = soma_fail(m, SOMA_ARG, "%s%s", isa_buf_str(&b), what);
  isa_buf_free(&b);
  return s;
}

/* ---- What is given ------------------------------------------------------------------------ */

/* Also where a tensor has no data, as an output. */
soma_status soma_bind_rows(soma_machine *m, soma_program *p, const char *name, int64_t rows) {
  if (!soma_given(m, "p name", p, name)) return SOMA_ARG;
  int i = isa_program_find_tensor(p->p, name, strlen(name));
  if (i < 0) return soma_fail(m, SOMA_ARG, "the program has no tensor %s", name);
  const isa_tensor *t = &p->p->tensors[i];
  if (!t->rows) return refuse(m, t, ": its first dimension is not left to the run");
  if (rows < 1 || rows > t->shape[0])
    return soma_fail(m, SOMA_ARG, "tensor %s: its first dimension must be 1 to %lld, not %lld",
                     t->name, (long long)t->shape[0], (long long)rows);
  /* Data that were bound before must agree. */
  for (uint32_t k = 0; k < m->nbindings; k++) {
    const soma_bound_tensor *b = &m->bindings[k];
    if (b->p == p && b->tensor == (uint32_t)i && (b->data || b->device) && b->rows != rows)
      return soma_fail(m, SOMA_ARG, "tensor %s: its data have a first dimension of %lld, not %lld",
                       t->name, (long long)b->rows, (long long)rows);
  }
  int64_t shape[ISA_TENSOR_DIMS];
  memcpy(shape, t->shape, sizeof shape);
  shape[0] = rows;
  soma_bound_tensor *b;
  return soma_binding(m, p, name, (soma_dtype)t->dtype, t->ndim, shape, &b);
}

/* -1: a fixed shape. */
int soma_program_rows(const soma_program *p, uint32_t i) {
  return p && i < p->p->ntensors ? p->p->tensors[i].rows - 1 : -1;
}

/* Who gave a register its value. */
typedef struct source {
  int64_t rows; /* 0: nobody yet */
  uint32_t tensor;
} source;

/* What the bindings of p give; given: by register.
 * Tensors that share a register share its value. */
static soma_status collect(soma_machine *m, const soma_program *p, source *given) {
  for (uint32_t k = 0; k < m->nbindings; k++) {
    const soma_bound_tensor *b = &m->bindings[k];
    const isa_tensor *t = &p->p->tensors[b->tensor];
    if (b->p != p || !t->rows) continue;
    source *g = &given[t->rows - 1];
    if (g->rows && g->rows != b->rows)
      return soma_fail(m, SOMA_ARG,
                       "tensors %s and %s share the first dimension in r%d, but %s has %lld and "
                       "%s has %lld",
                       p->p->tensors[g->tensor].name, t->name, t->rows - 1,
                       p->p->tensors[g->tensor].name, (long long)g->rows, t->name,
                       (long long)b->rows);
    *g = (source){b->rows, b->tensor};
  }
  return SOMA_OK;
}

soma_status soma_find_rows(soma_machine *m, const soma_program *p, soma_run *r) {
  source given[ISA_NREGS] = {{0}};
  /* Most programs leave nothing to the run. */
  if (!isa_program_rows(p->p)) return SOMA_OK;
  soma_status s = collect(m, p, given);
  int64_t *rows = s == SOMA_OK ? isa_zalloc(&m->al, p->p->ntensors * sizeof *rows) : NULL;
  if (s == SOMA_OK && !rows) return soma_out_of_memory(m);
  for (uint32_t i = 0; i < p->p->ntensors && s == SOMA_OK; i++) {
    const isa_tensor *t = &p->p->tensors[i];
    if (!t->rows) continue;
    source *g = &given[t->rows - 1];
    /* Each tensor gets what its register has, given by whichever tensor. */
    rows[i] = g->rows;
    if (!g->rows)
      s = refuse(m, t,
                 ": nothing says what its first dimension is in this run: give it data, or "
                 "the size (rows)");
    else if (g->rows > t->shape[0])
      s = soma_fail(m, SOMA_ARG,
                    "tensor %s has a first dimension of at most %lld, but tensor %s, with "
                    "the same register r%d, is given one of %lld",
                    t->name, (long long)t->shape[0], p->p->tensors[g->tensor].name, t->rows - 1,
                    (long long)g->rows);
  }
  if (s == SOMA_OK) s = soma_size_run(m, p->p, rows, r);
  if (rows) isa_free(&m->al, rows, p->p->ntensors * sizeof *rows);
  return s;
}

/* ---- A run's program ---------------------------------------------------------------------- */
/* A copy of the program with tensors of its own, since other runs of it may have other
 * sizes. */

soma_status soma_size_run(soma_machine *m, const isa_program *p, const int64_t *rows, soma_run *r) {
  isa_program *own = isa_zalloc(&m->al, sizeof *own);
  isa_tensor *tensors = isa_zalloc(&m->al, p->ntensors * sizeof *tensors);
  if (!own || !tensors) {
    if (own) isa_free(&m->al, own, sizeof *own);
    if (tensors) isa_free(&m->al, tensors, p->ntensors * sizeof *tensors);
    return soma_out_of_memory(m);
  }
  *own = *p;
  own->tensors = memcpy(tensors, p->tensors, p->ntensors * sizeof *tensors);
  /* Bytes follow from the rows; the shape stays. */
  for (uint32_t i = 0; i < p->ntensors; i++)
    if (tensors[i].rows) tensors[i].bytes = isa_row_bytes(&tensors[i]) * (uint64_t)rows[i];
  r->sized = own;
  return SOMA_OK;
}

void soma_unsize_run(const isa_alloc *al, soma_run *r) {
  if (!r->sized) return;
  isa_free(al, r->sized->tensors, r->sized->ntensors * sizeof *r->sized->tensors);
  isa_free(al, r->sized, sizeof *r->sized);
  r->sized = NULL;
}

void soma_load_rows(soma_run *r) {
  for (uint32_t i = 0; r->sized && i < r->sized->ntensors; i++) {
    const isa_tensor *t = &r->sized->tensors[i];
    if (!t->rows) continue;
    for (unsigned k = 0; k < r->run.n; k++)
      for (unsigned e = 0; e < ISA_NENGINES; e++) {
        vm_core *c = r->run.cores[k];
        /* Each engine reads its own register. */
        c->eng[e].regs[t->rows - 1] = (uint32_t)isa_tensor_rows(t);
        /* Checks of first use know that the host has written it. */
        vm_tell_host_register(c, e, t->rows - 1u);
      }
  }
}

soma_status soma_run_tensor(const soma_run *r, uint32_t i, soma_tensor_info *out) {
  if (!r || !out) return SOMA_ARG;
  soma_status s = soma_program_tensor(r->p, i, out);
  if (s != SOMA_OK || !r->sized) return s;
  /* A run of fixed sizes has the program's. */
  const isa_tensor *t = &r->sized->tensors[i];
  out->bytes = t->bytes;
  if (t->rows) out->shape[0] = isa_tensor_rows(t);
  return SOMA_OK;
}

/* ---- Saved runs --------------------------------------------------------------------------- */

void soma_save_rows(vm_saver *s, const soma_run *r) {
  for (uint32_t i = 0; r->sized && i < r->sized->ntensors; i++) {
    uint64_t rows = (uint64_t)isa_tensor_rows(&r->sized->tensors[i]);
    if (r->sized->tensors[i].rows) vm_save_u64(s, &rows);
  }
}

/* The same numbers as save_rows has written, in the same order. */
soma_status soma_read_rows(soma_machine *m, const isa_program *p, vm_saver *s, soma_run *r) {
  uint64_t by_register[ISA_NREGS] = {0};
  if (!isa_program_rows(p)) return SOMA_OK;
  int64_t *rows = isa_zalloc(&m->al, p->ntensors * sizeof *rows);
  if (!rows) return soma_out_of_memory(m);
  for (uint32_t i = 0; i < p->ntensors && !s->failed; i++) {
    const isa_tensor *t = &p->tensors[i];
    uint64_t n = 0;
    if (!t->rows) continue;
    vm_save_u64(s, &n);
    uint64_t *same = &by_register[t->rows - 1];
    vm_saver_need(s, n >= 1 && n <= (uint64_t)t->shape[0] && (!*same || *same == n),
                  "the first dimension of a tensor is not valid");
    *same = n;
    rows[i] = (int64_t)n;
  }
  soma_status status = s->failed ? SOMA_FORMAT : soma_size_run(m, p, rows, r);
  isa_free(&m->al, rows, p->ntensors * sizeof *rows);
  return status;
}
