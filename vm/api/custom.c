/* Custom operators of the facade: the machine's list of them, what a program needs of it, and the
 * calls. A function sees its operands only through a soma_call: sources as they were at the start
 * of the instruction, destinations as copies that are stored once it has succeeded. */
#include "impl.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CYCLES = 1 << 30, MAX_RATE = 1 << 20 };

/* Names are bytes with a length, as in a program. */
static soma_custom_entry *find(const soma_machine *m, const void *name, size_t n) {
  for (uint32_t i = 0; i < m->ncustoms; i++)
    if (m->customs[i].n == n && memcmp(m->customs[i].name, name, n) == 0) return &m->customs[i];
  return NULL;
}

static void forget(soma_machine *m, soma_custom_entry *x) {
  isa_free(&m->al, x->name, x->n + 1);
  /* The last one takes its place: their order does not matter. */
  *x = m->customs[--m->ncustoms];
}

/* -1: any number. */
static bool count_ok(int n) { return n >= -1 && n <= SOMA_CUSTOM_OPERANDS; }

static soma_status check_op(soma_machine *m, const char *name, const soma_custom_op *op) {
  if (op->size != sizeof *op)
    return soma_fail(m, SOMA_ARG, "soma_custom_op.size is %zu, not %zu", op->size, sizeof *op);
  if (!op->fn) return soma_fail(m, SOMA_ARG, "operator \"%s\" has no function", name);
  /* Written so that a NaN is refused. */
  if (op->cycles > MAX_CYCLES ||
      !(op->cycles_per_element >= 0 && op->cycles_per_element <= MAX_RATE))
    return soma_fail(m, SOMA_ARG,
                     "operator \"%s\": its cost is at most %d cycles, and 0 to %d per element",
                     name, MAX_CYCLES, MAX_RATE);
  if (!count_ok(op->dsts) || !count_ok(op->srcs) || !count_ok(op->imms))
    return soma_fail(m, SOMA_ARG, "operator \"%s\": a count of operands is 0 to %d, or -1 for any",
                     name, SOMA_CUSTOM_OPERANDS);
  return SOMA_OK;
}

/* NULL instead of an operator takes the name away. */
soma_status soma_custom_set(soma_machine *m, const char *name, const soma_custom_op *op) {
  if (!soma_given(m, "name", name)) return SOMA_ARG;
  /* A run has found its operators already. */
  if (m->calling || m->running || (m->run && !m->run->run.ended))
    return soma_fail(m, SOMA_BUSY, "operators cannot change while the machine has a run");
  size_t n = strlen(name);
  if (n == 0 || n > 255)
    return soma_fail(m, SOMA_ARG, "an operator's name has 1 to 255 bytes, not %zu", n);
  soma_custom_entry *x = find(m, name, n);
  if (!op) {
    if (!x) return soma_fail(m, SOMA_ARG, "no operator \"%s\" is registered", name);
    forget(m, x);
    return SOMA_OK;
  }
  soma_status s = check_op(m, name, op);
  if (s != SOMA_OK) return s;
  if (!x) {
    /* The name is copied: the caller's need not stay. */
    char *copy;
    if (m->ncustoms == m->cap_customs &&
        !isa_array_grow(&m->al, &m->customs, m->ncustoms, &m->cap_customs, sizeof *m->customs))
      return soma_out_of_memory(m);
    if (!(copy = isa_zalloc(&m->al, n + 1))) return soma_out_of_memory(m);
    memcpy(copy, name, n);
    x = &m->customs[m->ncustoms++];
    *x = (soma_custom_entry){.name = copy, .n = n};
  }
  /* An operator of that name is replaced. */
  x->op = *op;
  return SOMA_OK;
}

void soma_customs_free(soma_machine *m) {
  while (m->ncustoms) forget(m, &m->customs[0]);
  isa_free(&m->al, m->customs, m->cap_customs * sizeof *m->customs);
}

soma_status soma_not_calling(soma_machine *m) {
  if (!m->calling) return SOMA_OK;
  return soma_fail(m, SOMA_BUSY, "a custom operator is being called: it may use only its operands");
}

/* ---- What a program asks for -------------------------------------------------------------- */

static bool check_count(isa_error *e, const char *name, const char *what, int want, uint32_t n) {
  if (want < 0 || n == (uint32_t)want) return true;
  return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "operator \"%s\" takes %d %s, not %u", name, want,
                  what, (unsigned)n);
}

/* A use of an operator by an instruction of that core. */
typedef struct use {
  const isa_program *p;
  unsigned core;
  const struct isa_CUSTOM *u;
  isa_error *e;
} use;

static bool check_types(const use *x, const char *name, const char *what, const uint32_t *types,
                        isa_ref list) {
  for (uint32_t i = 0; i < list.count; i++) {
    uint32_t ap;
    memcpy(&ap, (const uint8_t *)isa_program_list(x->p, list, ISA_K_APS) + 4 * i, 4);
    unsigned dtype = x->p->cores[x->core].aps[ap - 1].dtype;
    /* 0: any type. */
    if (types[i] && !(types[i] >> dtype & 1))
      return isa_fail(x->e, ISA_ILLEGAL, ISA_NOFIELD, "operator \"%s\" does not take %s as %s%u",
                      name, isa_dtypes[dtype].name, what, (unsigned)i);
  }
  return true;
}

static bool check_use(const soma_machine *m, const use *at) {
  const struct isa_CUSTOM *u = at->u;
  isa_error *e = at->e;
  const char *name = isa_program_list(at->p, u->name, ISA_K_STR);
  /* By name, at each start: a program does not know what will be registered. */
  const soma_custom_entry *x = find(m, name, u->name.count);
  if (!x)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "no operator \"%.*s\" is registered",
                    (int)u->name.count, name);
  return check_count(e, x->name, "dsts", x->op.dsts, u->dsts.count) &&
         check_count(e, x->name, "srcs", x->op.srcs, u->srcs.count) &&
         check_count(e, x->name, "imms", x->op.imms, u->imms.count) &&
         check_types(at, x->name, "dst", x->op.dst_types, u->dsts) &&
         check_types(at, x->name, "src", x->op.src_types, u->srcs);
}

/* Only gpsimd calls operators. */
static bool check_core(const soma_machine *m, const isa_program *p, unsigned core, isa_place *at,
                       isa_error *e) {
  const isa_code *code = &p->cores[core].code[ISA_ENG_gpsimd];
  for (uint32_t pc = 0; pc < code->n; pc++) {
    if (code->insns[pc].op != ISA_OP_custom_op) continue;
    *at = (isa_place){.core = (int)core, .engine = ISA_ENG_gpsimd, .pc = pc};
    if (!check_use(m, &(use){p, core, &code->insns[pc].u.CUSTOM, e})) return false;
  }
  return true;
}

bool soma_customs_check(const soma_machine *m, const isa_program *p, isa_place *at, isa_error *e) {
  for (unsigned core = 0; core < p->ncores; core++)
    if (!check_core(m, p, core, at, e)) return false;
  return true;
}

uint64_t soma_custom_cycles(void *ud, const struct vm_CUSTOM *a) {
  const soma_run *r = ud;
  /* The run has checked that there is one; 0 otherwise. */
  const soma_custom_entry *x = find(r->m, a->name.p, a->name.n);
  uint64_t n = 0;
  /* The longest operand, as for the machine's own instructions. */
  for (uint32_t i = 0; i < a->dsts.n; i++) n = a->dsts.v[i].elems > n ? a->dsts.v[i].elems : n;
  for (uint32_t i = 0; i < a->srcs.n; i++) n = a->srcs.v[i].elems > n ? a->srcs.v[i].elems : n;
  /* Cycles per element may be a fraction. */
  double cycles = x ? x->op.cycles_per_element * (double)n : 0;
  uint64_t whole = (uint64_t)cycles;
  /* Rounded up. */
  return (x ? x->op.cycles : 0) + whole + ((double)whole < cycles);
}

/* ---- Calls -------------------------------------------------------------------------------- */

struct soma_call {
  soma_machine *m;
  vm_dp *dp;
  const struct vm_CUSTOM *a;
  vm_view dst[SOMA_CUSTOM_OPERANDS]; /* dense copies */
  char text[160];                    /* the first thing that went wrong; "" if nothing has */
};

/* Views of dst in a block of their own. *size: of the block; NULL if it is empty. */
static uint8_t *copy_dsts(soma_call *c, size_t *size, bool *ok) {
  /* The size first, then the block, then the views in it. */
  size_t at = 0;
  *size = 0;
  for (uint32_t i = 0; i < c->a->dsts.n; i++) {
    const vm_view *v = &c->a->dsts.v[i];
    /* Room for the alignment of each. */
    *size += (size_t)v->num[0] * (size_t)v->elems * v->esize + 8;
  }
  uint8_t *block = isa_zalloc(&c->m->al, *size);
  *ok = block != NULL;
  for (uint32_t i = 0; block && i < c->a->dsts.n; i++) {
    const vm_view *v = &c->a->dsts.v[i];
    at = (at + 7) / 8 * 8; /* wide enough for any element */
    vm_view_dense(&c->dst[i], v, block + at);
    /* What the function does not write stays as it was. */
    vm_copy_bits(c->dp->k, &c->dst[i], v);
    at += (size_t)v->num[0] * (size_t)v->elems * v->esize;
  }
  return block;
}

vm_verdict soma_custom_run(void *ud, vm_dp *d, const struct vm_CUSTOM *a) {
  soma_run *r = ud;
  soma_call c = {.m = r->m, .dp = d, .a = a};
  const soma_custom_entry *x = find(r->m, a->name.p, a->name.n);
  size_t size;
  bool ok;
  /* It was there when the run began. */
  if (!x) return vm_dp_fault(d, "no operator \"%.*s\"", (int)a->name.n, (const char *)a->name.p);
  uint8_t *block = copy_dsts(&c, &size, &ok);
  if (!ok) {
    d->no_memory = true;
    return vm_dp_fault(d, "custom_op \"%.60s\": no memory for its results", x->name);
  }
  /* Calls on the machine are refused from now on. */
  r->m->calling = true;
  soma_status s = x->op.fn(x->op.ud, &c);
  r->m->calling = false;
  ok = s == SOMA_OK && !c.text[0];
  /* Only a function that has succeeded changes anything. */
  for (uint32_t i = 0; ok && i < a->dsts.n; i++) vm_copy_bits(d->k, &a->dsts.v[i], &c.dst[i]);
  isa_free(&r->m->al, block, size);
  if (ok) return VM_RETIRE;
  return vm_dp_fault(d, "custom_op \"%.60s\": %s", x->name,
                     c.text[0] ? c.text : soma_status_text(s));
}

/* ---- What a function may do --------------------------------------------------------------- */

/* What it gives is for the function to return. */
soma_status soma_call_fail(soma_call *c, const char *text) {
  if (!c) return SOMA_ARG;
  /* The first mistake is the one to read. */
  if (!c->text[0]) snprintf(c->text, sizeof c->text, "%s", text && text[0] ? text : "it failed");
  return SOMA_FAULT;
}

static soma_status misuse(soma_call *c, const char *fmt, ...) ISA_PRINTF(2, 3);
/* The function is told at once, and the run fails even if the function goes on. */
static soma_status misuse(soma_call *c, const char *fmt, ...) {
  char text[sizeof c->text];
  va_list ap;
  if (!c) return SOMA_ARG;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  soma_call_fail(c, text);
  return SOMA_ARG;
}

/* NULL has no operands. */
uint32_t soma_call_dsts(const soma_call *c) { return c ? c->a->dsts.n : 0; }
uint32_t soma_call_srcs(const soma_call *c) { return c ? c->a->srcs.n : 0; }
uint32_t soma_call_imms(const soma_call *c) { return c ? c->a->imms.n : 0; }
float soma_call_imm(const soma_call *c, uint32_t i) {
  float x = 0;
  if (c && i < c->a->imms.n) memcpy(&x, (const char *)c->a->imms.p + 4 * (size_t)i, 4);
  return x;
}

static const vm_view *view_of(const soma_call *c, uint32_t operand) {
  if (!c) return NULL;
  /* Destinations come first in the numbering. */
  if (operand < c->a->dsts.n) return &c->dst[operand];
  operand -= c->a->dsts.n;
  return operand < c->a->srcs.n ? &c->a->srcs.v[operand] : NULL;
}

soma_status soma_call_operand(const soma_call *c, uint32_t operand, soma_operand *out) {
  const vm_view *v = view_of(c, operand);
  if (!out) return SOMA_ARG;
  memset(out, 0, sizeof *out);
  if (!v) return SOMA_ARG;
  /* Names as messages and the manual have them: dst0, src1. */
  out->writable = operand < c->a->dsts.n;
  unsigned number = out->writable ? operand : operand - c->a->dsts.n;
  snprintf(out->name, sizeof out->name, "%s%u", out->writable ? "dst" : "src", number);
  out->dtype = (soma_dtype)v->dtype;
  out->partition = v->part;
  out->partitions = v->num[0];
  out->elements = v->elems;
  out->ndim = v->ndim;
  for (unsigned i = 0; i < v->ndim && i < sizeof out->shape / sizeof *out->shape; i++)
    out->shape[i] = v->num[i];
  return SOMA_OK;
}

/* The view of an operand if elements first .. first + n - 1 of that partition are in it. */
static const vm_view *range(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                            uint64_t n, bool stores) {
  const vm_view *v = view_of(c, operand);
  if (!c) return NULL;
  if (!v) {
    misuse(c, "operand %u does not exist: there are %u", (unsigned)operand,
           (unsigned)(c->a->dsts.n + c->a->srcs.n));
    return NULL;
  }
  if (stores && operand >= c->a->dsts.n) {
    misuse(c, "src%u is a source: it cannot be stored to", (unsigned)(operand - c->a->dsts.n));
    return NULL;
  }
  /* n against what is left: first + n could wrap. */
  if (partition >= v->num[0] || first > v->elems || n > v->elems - first) {
    misuse(c, "%llu elements from element %llu of partition %u: operand %u has %u x %llu",
           (unsigned long long)n, (unsigned long long)first, (unsigned)partition, (unsigned)operand,
           (unsigned)v->num[0], (unsigned long long)v->elems);
    return NULL;
  }
  return v;
}

/* Packed types hold several numbers in an element. */
static const vm_view *numbers(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                              uint64_t n, bool stores) {
  const vm_view *v = range(c, operand, partition, first, n, stores);
  if (!v || isa_dtypes[v->dtype].cls != ISA_PACK) return v;
  misuse(c, "operand %u is %s: a packed element is not a number", (unsigned)operand,
         isa_dtypes[v->dtype].name);
  return NULL;
}

soma_status soma_call_load(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                           uint64_t n, float *out) {
  const vm_view *v = numbers(c, operand, partition, first, n, false);
  if (!v) return SOMA_ARG;
  /* In pieces that a row of the machine holds. */
  for (uint64_t i = 0; i < n; i += VM_ROW)
    vm_load(c->dp, out + i, v, partition, first + i, vm_piece(n, i));
  return SOMA_OK;
}

soma_status soma_call_store(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                            uint64_t n, const float *in) {
  const vm_view *v = numbers(c, operand, partition, first, n, true);
  if (!v) return SOMA_ARG;
  for (uint64_t i = 0; i < n; i += VM_ROW)
    vm_store(c->dp, v, partition, first + i, in + i, vm_piece(n, i));
  return SOMA_OK;
}

/* Raw bytes, of any type. */
soma_status soma_call_read(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                           uint64_t n, void *out) {
  const vm_view *v = range(c, operand, partition, first, n, false);
  if (!v) return SOMA_ARG;
  if (n) vm_load_raw(out, v, partition, first, (size_t)n);
  return SOMA_OK;
}

soma_status soma_call_write(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                            uint64_t n, const void *in) {
  const vm_view *v = range(c, operand, partition, first, n, true);
  if (!v) return SOMA_ARG;
  if (n) vm_store_raw(v, partition, first, in, (size_t)n);
  return SOMA_OK;
}
