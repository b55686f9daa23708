/* The planner: which collectives of the ranks belong together, and what they need. */
#include "plan_impl.h"

#include "../../isa/operand.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Calls -------------------------------------------------------------------------------- */

static vm_cc_op does(unsigned op) {
  switch (op) {
  case ISA_OP_all_reduce: return VM_CC_ALL_REDUCE;
  case ISA_OP_all_gather:
  case ISA_OP_all_gather_v: return VM_CC_ALL_GATHER;
  case ISA_OP_reduce_scatter: return VM_CC_REDUCE_SCATTER;
  case ISA_OP_all_to_all:
  case ISA_OP_all_to_all_v: return VM_CC_ALL_TO_ALL;
  default: return VM_CC_PERMUTE;
  }
}

static cc_call read_call(const isa_insn *in, const isa_collective *u) {
  unsigned form = isa_ops[in->op].form;
  return (cc_call){.op = in->op,
                   .does = does(in->op),
                   .by_channel = form == ISA_FORM_RING || form == ISA_FORM_RING_REDUCE,
                   .joins = form == ISA_FORM_RING_REDUCE,
                   .variable = form == ISA_FORM_COLLECTIVE_V,
                   .tells = !u->counts_known,
                   .placed = u->has_rdispls,
                   .metadata = u->metadata,
                   .alu = u->op,
                   .dim = u->dim,
                   .stream = u->stream,
                   .prio = u->prio,
                   .both = u->both};
}

const isa_ap *cc_ap(const vm_plan *p, uint32_t rank, const cc_call *x, uint32_t ap) {
  return &p->ranks[rank].p->cores[x->core].aps[ap - 1];
}

uint64_t cc_elems(const isa_ap *ap) {
  return isa_ap_elems(ap) * (ap->space == ISA_HBM ? 1 : ap->nparts);
}

void cc_put_call(const vm_plan *p, uint32_t rank, const cc_call *x, isa_buf *out) {
  const isa_program *prog = p->ranks[rank].p;
  const isa_code *code = &prog->cores[x->core].code[x->engine];
  isa_buf_printf(out, "%s", isa_ops[x->op].name);
  if (x->alu != ISA_ALU_bypass) isa_buf_printf(out, " %s", isa_aluops[x->alu].name);
  /* Four operands at most: a call may have many. */
  for (uint32_t i = 0; i < x->n && i < 4; i++)
    isa_buf_printf(out, "%s%s[%" PRIu64 "]", i ? ", " : " ", isa_dtypes[x->dtype].name,
                   cc_elems(cc_ap(p, rank, x, x->src[i])));
  if (x->n && cc_ap(p, rank, x, x->src[0])->space == ISA_SBUF) isa_buf_puts(out, " in sbuf");
  if (x->placed) isa_buf_puts(out, " with has_rdispls");
  if (x->both) isa_buf_puts(out, " of both cores");
  if (x->dim) isa_buf_printf(out, " along dimension %u", (unsigned)x->dim);
  isa_line at = code->lines ? code->lines[x->pc] : (isa_line){0};
  /* Where the program has no lines, the place in its code. */
  if (at.file)
    isa_buf_printf(out, " (%s:%" PRIu32 ")", prog->files[at.file - 1], at.line);
  else
    isa_buf_printf(out, " (%s pc %" PRIu32 ")", isa_engines[x->engine].name, x->pc);
}

bool cc_refuse(const vm_plan *p, isa_error *e, uint32_t rank, const cc_call *x, const char *fmt,
               ...) {
  isa_buf b;
  va_list args;
  isa_buf_init(&b, &p->al);
  isa_buf_printf(&b, "rank %" PRIu32 ": ", rank);
  cc_put_call(p, rank, x, &b);
  isa_buf_puts(&b, ": ");
  va_start(args, fmt);
  isa_buf_vprintf(&b, fmt, args);
  va_end(args);
  isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%s", isa_buf_str(&b));
  isa_buf_free(&b);
  return false;
}

void cc_put_ranks(const uint32_t *ranks, uint32_t n, isa_buf *out) {
  enum { MOST = 16 };
  for (uint32_t i = 0; i < n && i < MOST; i++)
    isa_buf_printf(out, "%s%" PRIu32, i ? ", " : "", ranks[i]);
  if (n > MOST) isa_buf_puts(out, " ...");
}

/* The group's lists say more than its name, which may be made up. */
static bool refuse_group(const vm_plan *p, isa_error *e, uint32_t rank, const cc_call *x,
                         const isa_group *g, const char *fmt, ...) ISA_PRINTF(6, 7);
static bool refuse_group(const vm_plan *p, isa_error *e, uint32_t rank, const cc_call *x,
                         const isa_group *g, const char *fmt, ...) {
  enum { MOST = 8 };
  const uint32_t *ranks = g->ranks;
  isa_buf b;
  va_list args;
  isa_buf_init(&b, &p->al);
  isa_buf_puts(&b, "[");
  for (uint32_t i = 0; i < g->nlists && i < MOST; ranks += g->sizes[i++]) {
    isa_buf_puts(&b, i ? ", [" : "[");
    cc_put_ranks(ranks, g->sizes[i], &b);
    isa_buf_puts(&b, "]");
  }
  isa_buf_puts(&b, g->nlists > MOST ? " ...] " : "] ");
  va_start(args, fmt);
  isa_buf_vprintf(&b, fmt, args);
  va_end(args);
  cc_refuse(p, e, rank, x, "the group %s", isa_buf_str(&b));
  isa_buf_free(&b);
  return false;
}

/* The list of a group in which the rank is. */
static bool find_list(const vm_plan *p, uint32_t rank, cc_call *x, const isa_group *g,
                      isa_error *e) {
  for (uint32_t i = 0; i < g->nranks; i++)
    if (g->ranks[i] >= p->n)
      return refuse_group(p, e, rank, x, g, "has rank %" PRIu32 ", the world has 0..%" PRIu32,
                          g->ranks[i], p->n - 1);
  x->ranks = isa_group_list(g, rank, &x->ranks_n, &x->place);
  if (x->ranks) return true;
  return refuse_group(p, e, rank, x, g, "does not have rank %" PRIu32, rank);
}

static bool find_pairs(const vm_plan *p, uint32_t rank, cc_call *x, isa_ref pairs, isa_error *e) {
  x->ranks = isa_program_list(p->ranks[rank].p, pairs, ISA_K_PAIRS);
  /* Pairs as numbers one after another: from, to. */
  x->ranks_n = 2 * pairs.count;
  x->place = rank;
  for (uint32_t i = 0; i < x->ranks_n; i++)
    if (x->ranks[i] >= p->n)
      return cc_refuse(p, e, rank, x, "rank %" PRIu32 " in its pairs, the world has 0..%" PRIu32,
                       x->ranks[i], p->n - 1);
  return true;
}

/* Whether two calls of one rank, or of two, are of one list and stream. */
static bool same_list(const cc_call *a, const cc_call *b) {
  return a->core == b->core && a->stream == b->stream && a->ranks_n == b->ranks_n &&
         (isa_ops[a->op].form == ISA_FORM_PERMUTE) == (isa_ops[b->op].form == ISA_FORM_PERMUTE) &&
         memcmp(a->ranks, b->ranks, a->ranks_n * sizeof *a->ranks) == 0;
}

static bool add_call(vm_plan *p, uint32_t rank, unsigned core, unsigned engine, uint32_t pc,
                     isa_error *e) {
  cc_rank *r = &p->ranks[rank];
  const isa_insn *in = &r->p->cores[core].code[engine].insns[pc];
  isa_collective u = isa_collective_of(in);
  cc_call x = read_call(in, &u);
  x.core = (uint8_t)core;
  x.engine = (uint8_t)engine;
  x.pc = pc;
  x.n = u.dsts.count;
  x.dst = isa_program_list(r->p, u.dsts, ISA_K_APS);
  x.src = isa_program_list(r->p, u.srcs, ISA_K_APS);
  x.src1 = x.joins ? isa_program_list(r->p, u.srcs1, ISA_K_APS) : NULL;
  /* All operands of a call have one type, as verification has seen. */
  x.dtype = cc_ap(p, rank, &x, x.dst[0])->dtype;
  if (u.group >= 0 ? !find_list(p, rank, &x, &r->p->groups[u.group], e)
                   : !find_pairs(p, rank, &x, u.pairs, e))
    return false;
  x.number = r->n;
  /* Its number among those of its list, by which ranks' calls belong together. */
  for (uint32_t i = 0; i < r->n; i++) x.nth += same_list(&r->calls[i], &x);
  if (!isa_array_grow(&p->al, &r->calls, r->n, &r->cap, sizeof x))
    return isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "no memory for the collectives of a rank");
  r->calls[r->n++] = x;
  return true;
}

/* Those for which a CC sequencer of the program has a block are the user's. */
static bool is_planned(const isa_core *c, unsigned engine, uint32_t pc) {
  for (unsigned k = ISA_NENGINES; k < ISA_NSEQS; k++)
    for (uint32_t i = 0; i < c->code[k].n; i++) {
      const isa_insn *in = &c->code[k].insns[i];
      if (in->op == ISA_OP_wait_start && in->u.BLOCK.of.engine == engine && in->u.BLOCK.of.pc == pc)
        return true;
    }
  return false;
}

/* The next collective, from *at on, that the planner has to serve; false: none is left. */
static bool next_call(const isa_program *p, isa_place *at) {
  for (; at->core < (int)p->ncores; at->core++, at->engine = 0)
    for (; at->engine < ISA_NENGINES; at->engine++, at->pc = 0) {
      const isa_core *c = &p->cores[at->core];
      /* Code of engines alone: CC sequencers run what is planned. */
      const isa_code *code = &c->code[at->engine];
      for (; at->pc < code->n; at->pc++)
        if (isa_op_is_collective(code->insns[at->pc].op) &&
            !is_planned(c, (unsigned)at->engine, at->pc))
          return true;
    }
  return false;
}

static bool find_calls(vm_plan *p, uint32_t rank, isa_error *e) {
  for (isa_place at = {0}; next_call(p->ranks[rank].p, &at); at.pc++)
    if (!add_call(p, rank, (unsigned)at.core, (unsigned)at.engine, at.pc, e)) return false;
  return true;
}

bool vm_plan_needed(const isa_program *p) {
  isa_place at = {0};
  return next_call(p, &at);
}

/* ---- Matching ----------------------------------------------------------------------------- */

const cc_call *cc_match(const vm_plan *p, const cc_call *x, uint32_t rank) {
  const cc_rank *r = &p->ranks[rank];
  for (uint32_t i = 0; i < r->n; i++) { /* most often it is the one with the same number */
    const cc_call *y = &r->calls[(x->number + i) % r->n];
    if (y->nth == x->nth && same_list(y, x)) return y;
  }
  return NULL;
}

uint32_t cc_rings(const vm_plan *p, const cc_call *x) {
  for (uint32_t i = 1; i < x->ranks_n; i++)
    /* Some are on another device: their pushes go over links. */
    if (x->ranks[i] / p->of_device != x->ranks[0] / p->of_device) return p->link_rings;
  return p->rings;
}

uint32_t cc_peer(const cc_call *x, uint32_t peer) {
  return x->ranks && isa_ops[x->op].form != ISA_FORM_PERMUTE ? x->ranks[peer] : peer;
}

/* ---- Semaphores --------------------------------------------------------------------------- */

static void mark_insn(void *ud, const isa_insn *in, unsigned engine, uint32_t pc) {
  bool *used = ud;
  (void)engine, (void)pc;
  if (in->wait.cond != ISA_WAIT_none) used[in->wait.sem] = true;
  if (in->upd.kind != ISA_UPD_none) used[in->upd.sem] = true;
  if (in->op == ISA_OP_sem_range_clear)
    for (unsigned i = 0; i < in->u.SEM_RANGE.count; i++) used[in->u.SEM_RANGE.first + i] = true;
  int f = isa_field_of(in->op, ISA_K_SEM, 0);
  if (f >= 0) used[*(const isa_t_SEM *)isa_member_c(in, &isa_form_of(in->op)->fields[f])] = true;
}

static void mark_program(const isa_program *p, bool *used) {
  for (unsigned c = 0; c < p->ncores; c++) {
    for (unsigned i = 0; i < ISA_NSEMS; i++) used[i] |= p->cores[c].sem_names[i] != NULL;
    isa_each_insn(&p->cores[c], mark_insn, used);
  }
}

static void find_spare(vm_plan *p) {
  bool used[ISA_NSEMS] = {false};
  for (uint32_t r = 0; r < p->n; r++)
    /* Ranks of one program one after another are looked at once. */
    if (r == 0 || p->ranks[r].p != p->ranks[r - 1].p) mark_program(p->ranks[r].p, used);
  /* From the last one on, since programs take the first. */
  for (unsigned i = ISA_NSEMS; i-- > 0;)
    if (!used[i]) p->spare[p->nspare++] = (uint8_t)i;
}

static bool same_ready(const cc_ready *k, const cc_call *x, const vm_cc_shape *s) {
  return k->algorithm == s->algorithm && k->rings == (s->order[1] != NULL) &&
         k->groups == s->groups && k->n == x->ranks_n && k->stream == x->stream &&
         k->by_channel == x->by_channel && k->pairs == (isa_ops[x->op].form == ISA_FORM_PERMUTE) &&
         memcmp(k->ranks, x->ranks, k->n * sizeof *k->ranks) == 0;
}

const cc_ready *cc_ready_of(const vm_plan *p, const cc_call *x, const vm_cc_shape *s) {
  for (uint32_t i = 0; i < p->nready; i++)
    if (same_ready(&p->ready[i], x, s)) return &p->ready[i];
  return NULL;
}

static bool share_rank(const cc_ready *a, const cc_ready *b) {
  for (uint32_t i = 0; i < a->n; i++)
    for (uint32_t k = 0; k < b->n; k++)
      if (a->ranks[i] == b->ranks[k]) return true;
  return false;
}

/* Lists without a common rank can have the same ones. */
static uint32_t first_free(const vm_plan *p, const cc_ready *k) {
  uint32_t at = p->ncc * CC_SEMS;
  for (uint32_t i = 0; i < p->nready; i++) {
    const cc_ready *o = &p->ready[i];
    uint32_t end = o->first + o->count * p->ncc;
    if (end > at && o->first < at + k->count * p->ncc && share_rank(o, k)) {
      /* Behind what it meets; that may meet another one. */
      at = end;
      i = UINT32_MAX; /* from the beginning */
    }
  }
  return at;
}

static bool need_ready(vm_plan *p, uint32_t rank, const cc_call *x, const vm_cc_shape *s,
                       uint32_t count, isa_error *e) {
  if (cc_ready_of(p, x, s)) return true;
  cc_ready k = {.ranks = x->ranks,
                .n = x->ranks_n,
                .count = count,
                .algorithm = (uint8_t)s->algorithm,
                .rings = s->order[1] != NULL,
                .groups = s->groups,
                .stream = x->stream,
                .by_channel = x->by_channel,
                .pairs = isa_ops[x->op].form == ISA_FORM_PERMUTE};
  k.first = first_free(p, &k);
  /* In the first semaphores are those of the CC sequencers themselves. */
  if (k.first + count * p->ncc > p->nspare)
    return cc_refuse(p, e, rank, x,
                     "it needs %" PRIu32 " semaphores, and the programs leave %" PRIu32 " of %d",
                     k.first + count * p->ncc, p->nspare, ISA_NSEMS);
  if (!isa_array_grow(&p->al, &p->ready, p->nready, &p->cap_ready, sizeof k))
    return isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "no memory for semaphores of collectives");
  p->ready[p->nready++] = k;
  return true;
}

/* Counts what a shape needs: all places of a list need as much, so it is made for the first alone.
 */
static bool count_steps(vm_plan *p, const vm_cc_shape *s, isa_error *e) {
  /* A shape with another place has other steps, but as many. */
  vm_cc_shape like = *s;
  like.place = 0;
  bool same = s->op != VM_CC_PERMUTE && memcmp(&like, &p->counted, sizeof like) == 0;
  if (same) return true;
  if (!vm_cc_make(&p->al, s, &p->steps))
    return isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "no memory for the steps of a collective");
  p->counted = like;
  p->count_ready = p->steps.ready;
  p->count_from = p->steps.from;
  p->count_land = p->steps.land;
  return true;
}

/* What a call needs of semaphores and of memory in which things land. */
static bool need(vm_plan *p, uint32_t rank, const cc_call *x, isa_error *e) {
  uint64_t land[ISA_NCC] = {0};
  cc_call group;
  /* The orders come before the shapes, which use them. */
  if (!cc_add_order(p, x) || (cc_ring_groups(p, x, &group) && !cc_add_order(p, &group)))
    return isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "no memory for rings");
  const char *why = cc_no_pairs(p, x);
  if (why && cc_algorithm_of(p, rank, x) == VM_CC_PAIRS)
    return cc_refuse(p, e, rank, x, "%s: %s", vm_cc_algorithm_names[VM_CC_PAIRS], why);
  for (unsigned k = 0; k < cc_parts(p, rank, x); k++) {
    cc_part part = cc_part_of(p, rank, x, k);
    uint64_t bytes = 0;
    bool ok = count_steps(p, &part.shape, e);
    /* A semaphore for each push that may be on its way, of which CC_FROM are there. */
    if (ok && p->count_from > CC_FROM)
      ok = cc_refuse(p, e, rank, x, "%" PRIu32 " ranks by %s: more than the planner has built",
                     part.shape.n, vm_cc_algorithm_names[part.shape.algorithm]);
    ok = ok && need_ready(p, rank, x, &part.shape, p->count_ready, e);
    for (uint32_t i = part.first; ok && i < part.first + part.n; i++)
      bytes += cc_land_bytes(p, rank, x, &part, i) * p->count_land;
    if (!ok) return false;
    /* Parts of one CC sequencer follow one another, so each has memory of its own. */
    land[k % p->ncc] += bytes;
  }
  for (unsigned k = 0; k < p->ncc; k++)
    if (p->land[k] < land[k]) p->land[k] = land[k];
  return true;
}

/* ---- The world ---------------------------------------------------------------------------- */

static bool plan_all(vm_plan *p, isa_error *e) {
  for (uint32_t r = 0; r < p->n; r++)
    if (!find_calls(p, r, e)) return false;
  find_spare(p);
  for (uint32_t r = 0; r < p->n; r++)
    for (uint32_t i = 0; i < p->ranks[r].n; i++)
      if (!cc_check_match(p, r, &p->ranks[r].calls[i], e) ||
          !cc_check_overlap(p, r, &p->ranks[r].calls[i], e))
        return false;
  for (uint32_t r = 0; r < p->n; r++)
    for (uint32_t i = 0; i < p->ranks[r].n; i++) cc_find_dense(p, r, &p->ranks[r].calls[i]);
  for (uint32_t r = 0; r < p->n; r++)
    for (uint32_t i = 0; i < p->ranks[r].n; i++)
      if (!need(p, r, &p->ranks[r].calls[i], e)) return false;
  return true;
}

vm_plan *vm_plan_new(const isa_alloc *al, const vm_plan_options *o, isa_error *e) {
  vm_plan *p = isa_zalloc(al, sizeof *p);
  if (p) {
    p->al = *al;
    p->n = o->ranks;
    p->algorithm = o->algorithm;
    /* As many CC sequencers as the machine has, and the planner uses. */
    p->ncc = o->programs[0]->target->cc < CC_PARTS ? o->programs[0]->target->cc : CC_PARTS;
    p->rings = o->rings;
    p->link_rings = o->link_rings;
    p->of_device = o->of_device;
    p->instance = o->instance;
    isa_buf_init(&p->image, al);
    p->ranks = isa_zalloc(al, p->n * sizeof *p->ranks);
  }
  if (!p || !p->ranks) {
    isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "no memory for a plan of collectives");
    vm_plan_free(p);
    return NULL;
  }
  for (uint32_t r = 0; r < p->n; r++) p->ranks[r].p = o->programs[r];
  if (plan_all(p, e)) return p;
  vm_plan_free(p);
  return NULL;
}

void vm_plan_free(vm_plan *p) {
  if (!p) return;
  isa_alloc al = p->al;
  for (uint32_t r = 0; p->ranks && r < p->n; r++)
    isa_free(&al, p->ranks[r].calls, p->ranks[r].cap * sizeof *p->ranks[r].calls);
  isa_free(&al, p->ranks, p->n * sizeof *p->ranks);
  cc_free_orders(p);
  vm_cc_free(&al, &p->steps);
  isa_free(&al, p->ready, p->cap_ready * sizeof *p->ready);
  isa_buf_free(&p->image);
  isa_free(&al, p, sizeof *p);
}

uint32_t vm_plan_rows(const vm_plan *p, uint32_t rank) { return p->ranks[rank].n; }

bool vm_plan_row_at(const vm_plan *p, uint32_t rank, isa_place at, vm_plan_row *out) {
  const cc_rank *r = &p->ranks[rank];
  for (uint32_t i = 0; i < r->n; i++) {
    const cc_call *x = &r->calls[i];
    if (x->pc != at.pc || x->engine != at.engine || x->core != at.core) continue;
    *out = (vm_plan_row){cc_part_of(p, rank, x, 0).shape, cc_bytes_of(p, rank, x)};
    return true;
  }
  return false;
}

/* ---- A rank's program --------------------------------------------------------------------- */

/* A copy: by way of its file, which the ranks of one program share. */
static isa_program *copy_of(vm_plan *p, const isa_program *from, isa_error *e) {
  if (p->of != from) {
    /* The written form is kept for the next rank with the same program. */
    p->image.len = 0;
    p->of = NULL;
    if (!isa_image_write((isa_program *)(uintptr_t)from, &p->image)) {
      isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "no memory for the copy of a program");
      return NULL;
    }
    p->of = from;
  }
  return isa_image_read(&p->al, p->image.data, p->image.len, e);
}

static void name_semaphore(isa_program *out, uint32_t sem, const char *fmt, unsigned a,
                           unsigned b) {
  char name[32];
  int n = snprintf(name, sizeof name, fmt, a, b);
  /* Both cores' names, as they are one program's. */
  for (unsigned c = 0; c < out->ncores && n > 0; c++)
    out->cores[c].sem_names[sem] = isa_arena_strn(&out->arena, name, (size_t)n);
}

static void name_semaphores(vm_plan *p, isa_program *out) {
  uint32_t first = p->ncc * CC_SEMS, end = first;
  for (unsigned k = 0; k < p->ncc; k++) {
    for (unsigned f = 0; f < CC_FROM; f++)
      name_semaphore(out, cc_sem_from(p, k, f), "cc%u_from%u", k, f);
    name_semaphore(out, cc_sem_done(p, k), "cc%u_done", k, 0);
    name_semaphore(out, cc_sem_both(p, k), "cc%u_both", k, 0);
  }
  for (uint32_t i = 0; i < p->nready; i++) {
    uint32_t last = p->ready[i].first + p->ready[i].count * p->ncc;
    end = last > end ? last : end;
  }
  for (uint32_t i = first; i < end; i++)
    name_semaphore(out, p->spare[i], "cc_ready%u", i - first, 0);
}

isa_program *vm_plan_program(vm_plan *p, uint32_t rank, isa_error *e) {
  const cc_rank *r = &p->ranks[rank];
  isa_program *out = copy_of(p, r->p, e);
  /* Without collectives the copy is as it was. */
  if (!out || r->n == 0) return out;
  bool ok = true;
  for (uint32_t i = 0; ok && i < r->n; i++)
    /* A CC sequencer with no part has nothing to wait for. */
    for (unsigned k = 0; ok && k < p->ncc && k < cc_parts(p, rank, &r->calls[i]); k++)
      ok = cc_emit(p, out, rank, &r->calls[i], k, e);
  if (ok) name_semaphores(p, out);
  if (ok) return out;
  isa_program_free(out);
  return NULL;
}
