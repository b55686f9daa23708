/* The contents of a machine's HBM, constants that stay there, and the tensors that a program
 * writes. */
#include "impl.h"

#include <string.h>

_Static_assert((int)SOMA_HBM_PROGRAM == VM_HBM_PROGRAM && (int)SOMA_HBM_RING == VM_HBM_RING,
               "the public numbers are the allocator's own");
_Static_assert(sizeof((soma_hbm_usage *)0)->stack / sizeof(soma_hbm_stack) == VM_HBM_STACKS,
               "a stack of any target has its place");

uint64_t soma_hbm_used(const soma_machine *m) { return m ? m->hbm->used : 0; }

void soma_hbm_stats(const soma_machine *m, soma_hbm_usage *out, size_t n) {
  if (!m || !out) return;
  /* A copy of numbers, as the allocator goes on. */
  const vm_hbm *h = m->hbm;
  vm_hbm_blocks b = vm_hbm_free_blocks(h);
  soma_hbm_usage u = {.capacity = h->capacity,
                      .used = h->used,
                      .high_water = h->high_water,
                      .free = b.free,
                      .largest_free = b.largest,
                      .blocks = h->n,
                      .free_blocks = b.n,
                      .stacks = h->stacks};
  for (uint32_t i = 0; i < h->stacks; i++)
    u.stack[i] = (soma_hbm_stack){vm_hbm_stack_capacity(h, i), vm_hbm_stack_used(h, i)};
  memcpy(out, &u, n < sizeof u ? n : sizeof u);
}

/* In the order of addresses. */
soma_status soma_hbm_allocation(const soma_machine *m, uint32_t i, soma_hbm_block *out) {
  if (!m || !out) return SOMA_ARG;
  if (i >= m->hbm->n) return SOMA_ARG;
  const vm_hbm_range *r = &m->hbm->v[i];
  *out = (soma_hbm_block){.name = r->name,
                          .owner = (soma_hbm_owner)r->owner,
                          .stack = (uint32_t)(r->at / m->hbm->stack_size),
                          .address = r->at,
                          .bytes = r->bytes};
  return SOMA_OK;
}

/* ---- Constants ---------------------------------------------------------------------------- */

/* NULL: the program's constants are not there. */
soma_tensor *const *soma_residents(const soma_machine *m, const soma_program *p) {
  for (uint32_t i = 0; i < m->nresidents; i++)
    /* An array of the program's tensors, with NULL where one is not const. */
    if (m->residents[i].p == p) return m->residents[i].consts;
  return NULL;
}

static void drop(soma_machine *m, soma_resident *r) {
  uint32_t n = r->p->p->ntensors;
  for (uint32_t i = 0; i < n; i++) soma_tensor_free(r->consts[i]);
  isa_free(&m->al, r->consts, n * sizeof *r->consts);
  /* The machine's reference: programs may be freed before. */
  soma_program_free(r->p);
}

/* NULL: those of all programs. */
void soma_drop_from_device(soma_machine *m, const soma_program *p) {
  if (!m) return;
  /* The list is closed up over those that go. */
  uint32_t kept = 0;
  for (uint32_t i = 0; i < m->nresidents; i++) {
    if (p && m->residents[i].p != p)
      m->residents[kept++] = m->residents[i];
    else
      drop(m, &m->residents[i]);
  }
  m->nresidents = kept;
}

static soma_status place_constants(soma_machine *m, const isa_program *p, soma_tensor **consts) {
  soma_status s = SOMA_OK;
  for (uint32_t i = 0; i < p->ntensors && s == SOMA_OK; i++) {
    const isa_tensor *t = &p->tensors[i];
    /* Only constants have data of the program's own. */
    if (t->role != ISA_CONST) continue;
    s = soma_tensor_place(m, (soma_dtype)t->dtype, t->ndim, t->shape, VM_HBM_CONST, t->name,
                          &consts[i]);
    if (s == SOMA_OK) memcpy(consts[i]->block.data, t->data, (size_t)t->bytes);
  }
  return s;
}

soma_status soma_move_to_device(soma_machine *m, soma_program *p) {
  if (!soma_given(m, "p", p)) return SOMA_ARG;
  soma_status s = soma_not_calling(m);
  /* Moved already: nothing to do. */
  if (s != SOMA_OK || soma_residents(m, p)) return s;
  if ((s = soma_fit_target(m, p->p->target)) != SOMA_OK) return s;
  uint32_t n = p->p->ntensors;
  if (m->nresidents == m->cap_residents && !isa_array_grow(&m->al, &m->residents, m->nresidents,
                                                           &m->cap_residents, sizeof *m->residents))
    return soma_out_of_memory(m);
  /* Counted only when all of it is there. */
  soma_resident *r = &m->residents[m->nresidents];
  *r = (soma_resident){.p = p};
  /* A program without tensors has nothing to keep there. */
  if (n == 0) return SOMA_OK;
  if (!(r->consts = isa_zalloc(&m->al, n * sizeof *r->consts))) return soma_out_of_memory(m);
  p->refs++;
  s = place_constants(m, p->p, r->consts);
  if (s != SOMA_OK) {
    drop(m, r);
    return s;
  }
  /* A copy from the host, as any other. */
  for (uint32_t i = 0; i < n; i++)
    if (r->consts[i]) m->to_device += r->consts[i]->block.bytes;
  m->nresidents++;
  return SOMA_OK;
}

/* ---- What a program writes ---------------------------------------------------------------- */

struct written {
  const isa_program *p;
  const isa_core *core;
  bool *tensor;
};
static void mark_operand(void *ud, const isa_operand *o) {
  const struct written *w = ud;
  /* Tensors are numbered from 1 in patterns. */
  if ((o->flags & AP_W) && o->ap->space == ISA_HBM) w->tensor[o->ap->base - 1] = true;
}
static void mark_insn(void *ud, const isa_insn *in, unsigned engine, uint32_t pc) {
  const struct written *w = ud;
  (void)engine, (void)pc;
  isa_each_operand(w->p, w->core, in, mark_operand, ud);
}

void soma_mark_written(const isa_program *p, bool *written) {
  for (uint32_t i = 0; i < p->ncores; i++) {
    struct written w = {p, &p->cores[i], written};
    isa_each_insn(w.core, mark_insn, &w);
  }
}
