#include "filler.h"
#include "../dma/dma.h"
#include "../engine/engine.h"
#include "shadow.h"

#include <stdio.h>
#include <string.h>

/* ---- Fillers of the program --------------------------------------------------------------- */

static bool is_filler(const isa_insn *in) { return in->op == ISA_OP_memset && in->u.MEMSET.filler; }

static bool same_line(const vm_core *c, unsigned a, uint32_t pc, unsigned b, uint32_t other) {
  const isa_code *x = vm_ck_code(c, a), *y = vm_ck_code(c, b);
  if (a == b && pc == other) return true;
  /* Two instructions of one line are one filler to the author. */
  return x->lines && y->lines && x->lines[pc].file && x->lines[pc].file == y->lines[other].file &&
         x->lines[pc].line == y->lines[other].line;
}

/* The number of a filler: those of one line have one. */
static uint32_t number_of(const vm_core *c, unsigned unit, uint32_t pc) {
  const vm_ck_fillers *k = &c->check->fillers;
  uint32_t i = 0;
  while (i < k->n && !same_line(c, unit, pc, k->unit[i], k->pc[i])) i++;
  return i;
}

static bool find_fillers(vm_core *c) {
  vm_ck_fillers *k = &c->check->fillers;
  for (unsigned e = 0; e < c->prog->ncores * ISA_NSEQS; e++) {
    const isa_code *code = vm_ck_code(c, e);
    for (uint32_t pc = 0; pc < code->n; pc++) {
      if (!is_filler(&code->insns[pc])) continue;
      k->any = true;
      /* Too many: the last mark stands for the rest (report). */
      if (k->n == VM_CK_FILLS || number_of(c, e, pc) < k->n) continue;
      k->unit[k->n] = (uint8_t)e;
      k->pc[k->n++] = pc;
    }
  }
  return true;
}

/* ---- Grids -------------------------------------------------------------------------------- */

static bool open_grid(vm_core *c, uint32_t parts, uint64_t elems, vm_ck_grid *g) {
  *g = (vm_ck_grid){parts, elems, NULL};
  if (!parts || !elems) return false;
  /* A mark for each element, not for each byte: operands may have other types. */
  g->at = isa_zalloc(&c->al, parts * elems);
  if (!g->at) vm_ck_out_of_memory(c);
  return g->at != NULL;
}

static void close_grid(vm_core *c, vm_ck_grid *g) {
  isa_free(&c->al, g->at, g->parts * g->elems);
  *g = (vm_ck_grid){0};
}

static void drop(vm_core *c) {
  vm_ck_fillers *k = &c->check->fillers;
  for (unsigned i = 0; i < k->ngrids; i++) close_grid(c, &k->grid[i]);
  k->ngrids = 0;
  isa_free(&c->al, k->share, k->nshare);
  k->share = NULL;
}

static void end_fillers(vm_core *c) {
  drop(c);
  for (unsigned core = 0; core < ISA_MAX_CORES; core++)
    close_grid(c, &c->check->fillers.weights[core]);
}

static bool any_fill(const uint8_t *at, size_t n) {
  bool found = false;
  for (size_t i = 0; i < n; i++) found |= vm_ck_is_fill(at[i]);
  return found;
}

bool vm_ck_has_fill(const vm_core *c, const vm_view *v) {
  if (!v->at || !v->elems) return false;
  vm_view s = vm_ck_shadow_of(c, v);
  for (uint32_t p = 0; s.at && p < v->num[0]; p++) {
    const uint8_t *row = vm_row_at(&s, p, 0);
    /* Dense rows are scanned; others element by element. */
    if (row && any_fill(row, (size_t)s.elems * s.esize)) return true;
    for (uint64_t i = 0; !row && i < s.elems; i++)
      if (vm_ck_is_fill(*vm_at(&s, p, i))) return true;
  }
  return false;
}

uint8_t vm_ck_fill_at(const vm_core *c, const vm_view *v, uint32_t p, uint64_t i) {
  vm_view s = vm_ck_shadow_of(c, v);
  uint8_t mark = s.at ? *vm_at(&s, p, i) : 0;
  return vm_ck_is_fill(mark) ? mark : 0;
}

static bool grid_of(vm_core *c, const vm_view *v, vm_ck_grid *g) {
  vm_view s = vm_ck_shadow_of(c, v);
  if (!s.at || !open_grid(c, v->num[0], v->elems, g)) return false;
  for (uint32_t p = 0; p < g->parts; p++)
    for (uint64_t i = 0; i < g->elems; i++) {
      uint8_t mark = *vm_at(&s, p, i);
      g->at[p * g->elems + i] = vm_ck_is_fill(mark) ? mark : 0;
    }
  return true;
}

/* ---- Findings ----------------------------------------------------------------------------- */

typedef struct use {
  vm_core *c;
  unsigned unit;
  uint32_t pc;
  vm_time t;
  uint8_t mark;        /* of the element; 0: nothing is reported of it */
  const vm_view *view; /* where the element is, NULL: not known */
  uint32_t p;
  uint64_t i;
} use;

static void report(const use *u, const char *what) {
  vm_core *c = u->c;
  const vm_ck_fillers *k = &c->check->fillers;
  uint32_t n = (uint8_t)(u->mark - VM_CK_FILL);
  if (!u->mark || !vm_ck_has(c, VM_CHECK_UNINIT)) return;
  /* So a mark may be beyond what the program has. */
  if (n >= k->n) n = k->n - 1; /* the last stands for more; and a saved run need not be right */
  vm_finding *f = vm_ck_found(c, VM_CHECK_UNINIT, u->unit, u->pc, k->unit[n], k->pc[n]);
  if (!f) return;
  vm_ck_put_place(c, u->unit, u->pc, &f->text);
  isa_buf_printf(&f->text, ": uninit: %s", what);
  vm_ck_put_insn(c, u->unit, u->pc, u->t, &f->text);
  if (u->view) {
    isa_buf_puts(&f->text, "\n    reads ");
    vm_ck_put_view(c, u->view, &f->text);
    isa_buf_puts(&f->text, "; one is ");
    vm_ck_put_element(c, u->view, u->p, u->i, &f->text);
  }
  isa_buf_puts(&f->text, "\n  it was left out at ");
  vm_ck_put_place(c, k->unit[n], k->pc[n], &f->text);
  isa_buf_puts(&f->text, ": zero here, anything on the machine");
}

/* ---- What an instruction makes of marks --------------------------------------------------- */

typedef struct job {
  use u;
  const vm_flight *f;
  vm_view in[VM_LIST], out[VM_CK_TAINTS];
  unsigned nin, nout;
  unsigned chosen; /* the source of which another operand chooses parts; nin: no source */
} job;

static void sort_operand(void *ud, const vm_view *v, unsigned flags) {
  job *j = ud;
  if (!v->at || !v->elems) return;
  /* The operand of which another chooses has marks by what was chosen. */
  if (flags & AP_CHOSEN) j->chosen = j->nin;
  if ((flags & AP_R) && j->nin < VM_LIST) j->in[j->nin++] = *v;
  /* Bytes that are given up are no result. */
  if ((flags & AP_W) && !(flags & AP_FREED) && j->nout < VM_CK_TAINTS) j->out[j->nout++] = *v;
}

/* The elements of a source from which one of a result is made. */
typedef struct span {
  uint32_t p0, p1;
  uint64_t i0, i1;
} span;

static span span_of(const job *j, const vm_ck_grid *s, const vm_ck_grid *d, uint32_t q,
                    uint64_t i) {
  span w = {0, s->parts, 0, s->elems};
  uint64_t each = s->elems / d->elems;
  /* The same partitions: lane by lane. */
  if (s->parts == d->parts) w.p0 = q, w.p1 = q + 1;
  if (s->elems == d->elems) w.i0 = i, w.i1 = i + 1;
  /* A reduction: as many elements as one result is made of. */
  if (j->f->in->op == ISA_OP_tensor_reduce && each > 1 && each * d->elems == s->elems)
    w.i0 = i * each, w.i1 = w.i0 + each;
  /* A block of 32 x 32, turned in place. */
  if (j->f->in->op == ISA_OP_transpose32 && s->elems == d->elems && s->parts == d->parts) {
    w.p0 = q / 32 * 32 + (uint32_t)(i % 32);
    w.i0 = i / 32 * 32 + q % 32;
    if (w.p0 >= s->parts || w.i0 >= s->elems) w.p0 = 0, w.i0 = 0;
    w.p1 = w.p0 + 1;
    w.i1 = w.i0 + 1;
  }
  return w;
}

/* The mark of what is made of a span; one that is mixed with known elements is noted. */
static uint8_t mark_of(job *j, const vm_view *v, const vm_ck_grid *s, span w) {
  uint8_t mark = 0;
  uint32_t at_p = 0;
  uint64_t at_i = 0;
  bool known = false;
  for (uint32_t p = w.p0; p < w.p1; p++)
    for (uint64_t i = w.i0; i < w.i1; i++) {
      uint8_t m = s->at[p * s->elems + i];
      known |= !m;
      /* The first one is told. */
      if (!m || mark) continue;
      mark = m;
      at_p = p;
      at_i = i;
    }
  /* All of it left out: the result is, too. All known: it is known. */
  if (!mark || !known) return mark;
  /* The first mixture of the instruction is what is reported. */
  if (!j->u.mark) {
    j->u.mark = mark;
    j->u.view = v;
    j->u.p = at_p;
    j->u.i = at_i;
  }
  return 0;
}

static void join_source(job *j, const vm_view *v, const vm_ck_grid *s, const vm_ck_grid *d) {
  span last = {1, 0, 0, 0};
  uint8_t mark = 0;
  for (uint32_t q = 0; q < d->parts; q++)
    for (uint64_t i = 0; i < d->elems; i++) {
      uint8_t *to = &d->at[q * d->elems + i];
      span w = span_of(j, s, d, q, i);
      /* Neighbours often have one span, for example a column: it is looked at once. */
      if (w.p0 != last.p0 || w.p1 != last.p1 || w.i0 != last.i0 || w.i1 != last.i1)
        mark = mark_of(j, v, s, w);
      last = w;
      /* A mark of an earlier source stays. */
      if (!*to) *to = mark;
    }
}

/* A running result needs all elements before it. */
static void carry_on(const vm_ck_grid *d) {
  for (uint32_t q = 0; q < d->parts; q++)
    for (uint64_t i = 1; i < d->elems; i++) {
      uint8_t *to = &d->at[q * d->elems + i];
      if (!*to) *to = to[-1];
    }
}

static bool is_running(unsigned op) {
  return op == ISA_OP_tensor_tensor_scan || op == ISA_OP_tensor_scalar_cumulative;
}

/* The result's grid; NULL if memory is out. */
static vm_ck_grid *result_of(job *j, unsigned o) {
  vm_ck_fillers *k = &j->u.c->check->fillers;
  vm_ck_grid *d = &k->grid[k->ngrids];
  k->view[k->ngrids] = j->out[o];
  if (!open_grid(j->u.c, j->out[o].num[0], j->out[o].elems, d)) return NULL;
  k->ngrids++;
  return d;
}

static void join_all(job *j) {
  vm_core *c = j->u.c;
  const vm_ck_grid *first = NULL;
  for (unsigned o = 0; o < j->nout; o++) {
    vm_ck_grid *d = result_of(j, o);
    if (!d) return;
    /* The destination's elements are those that another operand chose. */
    if (o == 0 && j->chosen < j->nin)
      vm_ck_chosen_marks(c, j->u.unit % ISA_NSEQS, j->f, &j->in[j->chosen], d->at);
    /* A second result is made of the first one's elements. */
    if (first) join_source(j, &j->out[0], first, d);
    for (unsigned i = 0; i < j->nin; i++) {
      vm_ck_grid s;
      if (i == j->chosen || !vm_ck_has_fill(c, &j->in[i]) || !grid_of(c, &j->in[i], &s)) continue;
      join_source(j, &j->in[i], &s, d);
      close_grid(c, &s);
    }
    if (is_running(j->f->in->op)) carry_on(d);
    if (j->chosen < j->nin) first = &c->check->fillers.grid[0];
  }
}

/* ---- The tensor engine -------------------------------------------------------------------- */

static void load_weights(job *j) {
  vm_core *c = j->u.c;
  vm_ck_grid *w = &c->check->fillers.weights[c->number];
  const struct isa_LDWEIGHTS *in = &j->f->in->u.LDWEIGHTS;
  /* The weights of before are gone, whatever comes. */
  close_grid(c, w);
  /* Pairs and MX are not followed: their marks are dropped. */
  if (j->f->in->op != ISA_OP_ldweights || in->perf) return;
  if (vm_ck_has_fill(c, &j->in[0])) grid_of(c, &j->in[0], w);
}

/* The mark of the sum over all rows k of weight m times moving column n. */
static uint8_t sum_of(job *j, const vm_ck_grid *w, const vm_ck_grid *x, uint64_t m, uint64_t n,
                      uint32_t rows) {
  uint8_t mark = 0;
  bool known = false;
  for (uint32_t k = 0; k < rows; k++) {
    uint8_t a = w->at ? w->at[k * w->elems + m] : 0, b = x->at ? x->at[k * x->elems + n] : 0;
    /* A product of known factors only is a known summand. */
    known |= !a && !b;
    if (a || b) mark = a ? a : b;
  }
  if (mark && known && !j->u.mark) j->u.mark = mark;
  return known ? 0 : mark;
}

/* A transpose takes what one operand has where the other, an identity, has its ones. */
static uint8_t turned(const vm_ck_grid *w, const vm_ck_grid *x, uint64_t m, uint64_t n) {
  if (w->at && n < w->parts && m < w->elems) return w->at[n * w->elems + m];
  return x->at && m < x->parts && n < x->elems ? x->at[m * x->elems + n] : 0;
}

static void multiply(job *j) {
  vm_core *c = j->u.c;
  const vm_ck_grid *w = &c->check->fillers.weights[c->number];
  const struct isa_MATMUL *in = &j->f->in->u.MATMUL;
  vm_ck_grid x = {0};
  if (j->f->in->op != ISA_OP_matmul || in->perf || !j->nin || !j->nout) return;
  bool has = vm_ck_has_fill(c, &j->in[0]);
  uint32_t rows = j->in[0].num[0];
  /* The stationary operand must be of the shape that the matmul uses. */
  if ((!has && !w->at) || (w->at && (w->parts != rows || w->elems < j->out[0].num[0]))) return;
  vm_ck_grid *d = result_of(j, 0);
  if (!d || (has && !grid_of(c, &j->in[0], &x))) return;
  for (uint32_t m = 0; m < d->parts; m++)
    for (uint64_t n = 0; n < d->elems; n++)
      d->at[m * d->elems + n] = in->transpose ? turned(w, &x, m, n) : sum_of(j, w, &x, m, n, rows);
  close_grid(c, &x);
}

/* ---- Flights ------------------------------------------------------------------------------ */

void vm_ck_fill_execute(vm_core *c, unsigned e, const vm_flight *f) {
  unsigned unit = vm_ck_unit(c, e);
  job j = {.u = {c, unit, f->pc, f->item.start, 0, NULL, 0, 0}, .f = f, .chosen = VM_LIST};
  bool any = false;
  drop(c);
  /* A staged flight was looked at when it was copied; a filler gets its marks when it has run. */
  if (is_filler(f->in) || f->item.staged) return;
  vm_ck_each_part(c, f, sort_operand, &j);
  if (isa_ops[f->in->op].cost == ISA_COST_LDW) {
    if (j.nin) load_weights(&j);
    return;
  }
  if (isa_ops[f->in->op].cost == ISA_COST_MM) {
    multiply(&j);
  } else {
    for (unsigned i = 0; i < j.nin && !any; i++) any = vm_ck_has_fill(c, &j.in[i]);
    if (any) join_all(&j);
  }
  report(&j.u, "a result is made of elements that are written and of others that nothing has "
               "written");
}

static void put_marks(const vm_core *c, const vm_view *v, const vm_ck_grid *g) {
  vm_view s = vm_ck_shadow_of(c, v);
  for (uint32_t p = 0; s.at && p < g->parts; p++)
    for (uint64_t i = 0; i < g->elems; i++) {
      uint8_t mark = g->at ? g->at[p * g->elems + i] : 0;
      /* 0: the instruction's own mark stays, which uninit has set. */
      if (mark) memset(vm_at(&s, p, i), mark, s.esize);
    }
}

static void put_filler(void *ud, const vm_view *v, unsigned flags) {
  const use *u = ud;
  vm_view s = vm_ck_shadow_of(u->c, v);
  if (!(flags & AP_W) || !s.at) return;
  for (uint32_t p = 0; p < v->num[0]; p++)
    for (uint64_t i = 0; i < v->elems; i++) memset(vm_at(&s, p, i), u->mark, s.esize);
}

void vm_ck_fill_executed(vm_core *c, unsigned e, const vm_flight *f) {
  vm_ck_fillers *k = &c->check->fillers;
  if (is_filler(f->in)) {
    uint32_t n = number_of(c, vm_ck_unit(c, e), f->pc);
    use u = {.c = c, .mark = (uint8_t)(VM_CK_FILL + (n < k->n ? n : VM_CK_FILLS - 1))};
    /* All of its destination. */
    vm_ck_each_operand(c, f, put_filler, &u);
  }
  for (unsigned i = 0; i < k->ngrids; i++) put_marks(c, &k->view[i], &k->grid[i]);
  drop(c);
}

void vm_ck_fill_access(vm_core *c, unsigned unit, uint32_t pc, const vm_view *v) {
  use u = {.c = c, .unit = unit, .pc = pc, .t = c->now, .view = v};
  /* The first one is enough for a finding. */
  if (!vm_ck_has_fill(c, v)) return;
  for (u.p = 0; u.p < v->num[0]; u.p++)
    for (u.i = 0; u.i < v->elems; u.i++)
      if ((u.mark = vm_ck_fill_at(c, v, u.p, u.i)) != 0) {
        report(&u, "a register or an index is an element that nothing has written");
        return;
      }
}

/* ---- Transfers ---------------------------------------------------------------------------- */

/* Notes the marks of a share's elements on one side. */
static void note_side(vm_core *c, const vm_share *s, int side) {
  vm_ck_fillers *k = &c->check->fillers;
  vm_walk w, guide;
  bool guided = vm_ck_share_walk(c, s, side, &w, &guide);
  /* No shadow: nothing can be left out there. */
  if (!w.base) return;
  for (uint64_t e = s->e0; e < s->e1;) {
    uint64_t n = w.left < s->e1 - e ? w.left : s->e1 - e;
    if (guided && guide.left < n) n = guide.left;
    for (uint64_t i = 0; !(guided && guide.skipped) && i < n; i++) {
      uint8_t mark = w.at[(int64_t)i * w.step], *to = &k->share[e - s->e0 + i];
      /* A mark of one operand is enough. */
      if (!*to && vm_ck_is_fill(mark)) *to = mark;
    }
    e += n;
    if (e >= s->e1) break;
    vm_walk_seek(&w, e);
    if (guided) vm_walk_seek(&guide, e);
  }
}

/* Whether a transfer's destination is what the host gets. */
static bool is_handed_out(const vm_core *c, const vm_view *v) {
  for (uint32_t i = 0; i < c->prog->ntensors && v->space == ISA_HBM; i++) {
    uint64_t off = (uint64_t)(uintptr_t)v->at - (uint64_t)(uintptr_t)c->run->blocks[i].data;
    if (off < c->run->blocks[i].bytes) return c->prog->tensors[i].role != ISA_TEMP;
  }
  return false;
}

/* False only if no side of a transfer holds one. Views say what is read only where nothing else
 * does: an index, a list of pieces, a permutation. */
static bool may_have_fill(const vm_core *c, const vm_transfer *t) {
  if (t->rows || t->permuted || t->pieces > 1) return true;
  bool any = vm_ck_has_fill(c, &t->src) || (t->accumulates && vm_ck_has_fill(c, &t->dst));
  for (int i = 1; i < t->nsrc && !any; i++) any = vm_ck_has_fill(c, &t->more[i - 1]);
  return any;
}

void vm_ck_fill_move(vm_core *c, const vm_share *s) {
  vm_ck_fillers *k = &c->check->fillers;
  const vm_transfer *t = s->t;
  drop(c);
  /* Only shares with a filler need a note of each element. */
  if (s->item.staged || s->e1 <= s->e0 || !may_have_fill(c, t)) return;
  k->nshare = (size_t)(s->e1 - s->e0);
  k->share = isa_zalloc(&c->al, k->nshare);
  if (!k->share) {
    vm_ck_out_of_memory(c);
    return;
  }
  for (int side = t->accumulates ? -1 : 0; side < t->nsrc; side++) note_side(c, s, side);
  size_t i = 0;
  while (i < k->nshare && !k->share[i]) i++;
  /* What stays on the device may hold fillers. */
  if (i == k->nshare || !is_handed_out(c, &t->dst)) return;
  /* The first one. */
  use u = {c, vm_ck_unit(c, t->engine), t->pc, s->item.start, k->share[i], NULL, 0, 0};
  if (!t->permuted && !t->rows && t->src.elems) {
    u.view = &t->src;
    u.p = (uint32_t)((s->e0 + i) / t->src.elems);
    u.i = (s->e0 + i) % t->src.elems;
  }
  report(&u, "a transfer stores elements that nothing has written");
}

void vm_ck_fill_moved(vm_core *c, const vm_share *s) {
  vm_ck_fillers *k = &c->check->fillers;
  vm_walk w, guide;
  /* A transfer that hands them out has reported them. */
  if (!k->share || is_handed_out(c, &s->t->dst)) {
    drop(c);
    return;
  }
  bool guided = vm_ck_share_walk(c, s, -1, &w, &guide);
  for (uint64_t e = s->e0; w.base && e < s->e1;) {
    uint64_t n = w.left < s->e1 - e ? w.left : s->e1 - e;
    if (guided && guide.left < n) n = guide.left;
    for (uint64_t i = 0; !(guided && guide.skipped) && i < n; i++) {
      uint8_t mark = k->share[e - s->e0 + i];
      if (mark) memset(w.at + (int64_t)i * w.step, mark, w.esize);
    }
    e += n;
    if (e >= s->e1) break;
    vm_walk_seek(&w, e);
    if (guided) vm_walk_seek(&guide, e);
  }
  drop(c);
}

/* ---- In a saved run ------------------------------------------------------------------------ */

static void walk_weights(vm_saver *s, vm_core *c) {
  if (!c->check->fillers.any || !c->check->shadowed) return;
  for (unsigned core = 0; core < c->prog->ncores && !s->failed; core++) {
    vm_ck_grid *w = &c->check->fillers.weights[core];
    uint32_t elems = w->at ? (uint32_t)w->elems : 0;
    vm_save_below(s, &w->parts, ISA_PMAX + 1, "rows of weights");
    vm_save_below(s, &elems, ISA_PSUM_BYTES, "columns of weights");
    if (s->failed || !elems || !w->parts) continue;
    w->elems = elems;
    if (s->reads && !(w->at = isa_zalloc(&c->al, w->parts * elems))) vm_saver_no_memory(s);
    if (w->at) vm_saver_bytes(s, w->at, w->parts * elems);
  }
}

const vm_ck_part vm_ck_part_fillers = {.start = find_fillers};

const vm_ck_part vm_ck_part_weights = {.walk = walk_weights, .end = end_fillers};
