/* An instruction over several of the host's threads: parts of its partitions, each with operands of
 * its own. For example an activate of [128, 512] as eight of [16, 512]. Nothing that a program or
 * its owner sees depends on it. */
#include "engine.h"
#include "../work/work.h"

#include <string.h>

/* Nanoseconds of one thread from which on an instruction is cut, and of a part: another thread
 * comes within 0.6 us if it has a core. */
enum { WORTH = 3000, PART = 600 };
/* An instruction without an operand of at least that many bytes takes less time than that. */
enum { SMALL = 4096 };

/* By opcode, see lanes.def; least 0: the instruction stays whole. */
static const struct {
  uint8_t least;
  uint16_t ns;
} lanes[ISA_NOPS] = {
#define LANES(name, least, ns) [ISA_OP_##name] = {least, ns},
#include "../op/lanes.def"
};

typedef struct parts {
  vm_dp *d;
  const vm_flight *f;
  size_t size;         /* bytes of its operands */
  uint32_t rows, each; /* partitions, and those of a part */
  vm_verdict verdict;  /* of the first part, with its number of rounding instructions */
  uint64_t rounding_count;
} parts;

/* The view of a field of that kind at its place in the operands; NULL: it has none. */
static vm_view *view_of(unsigned kind, void *at) {
  vm_view *v = kind == ISA_K_AP ? at : kind == ISA_K_NUM ? &((vm_num *)at)->v : NULL;
  return v && v->at ? v : NULL;
}

static void take_part(const parts *s, vm_operands *a, uint32_t first, uint32_t n) {
  const isa_form *form = isa_form_of(s->f->in->op);
  memcpy(a, &s->f->a, s->size);
  for (unsigned i = 0; i < form->nfields; i++) {
    vm_view *v = view_of(form->fields[i].kind, vm_operand_at(s->f->in, a, i));
    if (!v || v->num[0] != s->rows) continue; /* one partition, for all parts */
    v->at += (int64_t)first * v->step[0];
    v->part = (uint16_t)(v->part + first);
    v->num[0] = n;
  }
}

/* What a handler of lanes.def needs of its engine. */
static void lend(vm_dp *d, const vm_dp *from, vm_workspace *w, uint32_t first, uint32_t n) {
  d->k = from->k;
  d->target = from->target;
  d->engine = from->engine;
  d->cvt = from->cvt;
  d->row = w->row;
  d->scratch = w->scratch;
  d->threads = NULL;
  d->stochastic = false;
  d->rounding_seed = from->rounding_seed;
  d->rounding_count = from->rounding_count;
  d->lane = first;
  memcpy(d->acc, from->acc + first, n * sizeof *d->acc);
}

static void do_part(void *job, uint32_t number, void *room) {
  parts *s = job;
  vm_workspace *w = room;
  uint32_t first = number * s->each, n = s->rows - first;
  n = n < s->each ? n : s->each;
  lend(&w->dp, s->d, w, first, n);
  take_part(s, &w->operands, first, n);
  vm_verdict verdict = vm_run_handler(&w->dp, s->f->in->op, &w->operands);
  memcpy(s->d->acc + first, w->dp.acc, n * sizeof *w->dp.acc);
  if (number) return;
  s->verdict = verdict;
  s->rounding_count = w->dp.rounding_count;
  if (verdict == VM_FAULT) memcpy(s->d->fault, w->dp.fault, sizeof w->dp.fault);
}

/* Whether the parts are independent of one another: what overlaps a destination has the same
 * partitions. */
static bool are_apart(const vm_item *it) {
  for (unsigned i = 0; i < it->ndst; i++) {
    const vm_box *d = &it->dst[i];
    for (unsigned k = 0; k < it->nsrc; k++)
      if (vm_box_meet(d, &it->src[k]) && (d->p0 != it->src[k].p0 || d->p1 != it->src[k].p1))
        return false;
    for (unsigned k = 0; k < i; k++)
      if (vm_box_meet(d, &it->dst[k])) return false;
  }
  return true;
}

/* The number of partitions of an instruction: each operand has that many, or one; 0: it is not
 * cut. */
static uint32_t rows_of(const vm_flight *f, uint64_t *largest) {
  const isa_form *form = isa_form_of(f->in->op);
  uint32_t rows = 0;
  *largest = 0;
  for (unsigned i = 0; i < form->nfields; i++) {
    vm_operands *a = (vm_operands *)(uintptr_t)&f->a;
    const vm_view *v = view_of(form->fields[i].kind, vm_operand_at(f->in, a, i));
    if (!v || v->num[0] == 1) continue;
    if (rows && v->num[0] != rows) return 0;
    rows = v->num[0];
    if (v->elems * rows > *largest) *largest = v->elems * rows;
  }
  return rows;
}

static uint64_t bytes_of(const vm_box *b) { return (b->hi - b->lo) * (uint64_t)(b->p1 - b->p0); }

static bool may_be_large(const vm_item *it) {
  for (unsigned i = 0; i < it->ndst; i++)
    if (bytes_of(&it->dst[i]) >= SMALL) return true;
  for (unsigned i = 0; i < it->nsrc; i++)
    if (bytes_of(&it->src[i]) >= SMALL) return true;
  return false;
}

static bool plan(const vm_core *c, const vm_flight *f, parts *s) {
  const vm_work *w = c->mem.threads;
  unsigned op = f->in->op, least = lanes[op].least;
  uint64_t elems, ns;
  if (!least || !w || w->threads < 2 || !(w->eager || may_be_large(&f->item))) return false;
  s->rows = rows_of(f, &elems);
  ns = elems * lanes[op].ns / 1024;
  if (s->rows <= least || !vm_work_ready(w, ns, WORTH)) return false;
  uint64_t rows = w->eager ? least : s->rows * (uint64_t)PART / (ns + 1) + least;
  s->each = (uint32_t)(rows / least * least);
  return s->each < s->rows && are_apart(&f->item);
}

vm_verdict vm_run_parts(vm_core *c, vm_dp *d, const vm_flight *f) {
  parts s;
  if (!plan(c, f, &s)) return vm_run_handler(d, f->in->op, &f->a);
  s.d = d;
  s.f = f;
  s.size = vm_operands_size(f->in->op);
  vm_work_do(c->mem.threads, do_part, &s, (s.rows + s.each - 1) / s.each, c->mem.work);
  d->rounding_count = s.rounding_count;
  return s.verdict;
}
