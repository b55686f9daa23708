/* The list of items: instructions, loops, orders; and the queues and registers they name. */
#include "../isa/operand.h"
#include "called.h"
#include "pace.h"

#include <stdio.h>

unsigned as_k_meeting_kind(const as_kernel *k, const as_k_item *it) {
  if (it->op == ISA_OP_core_barrier) return K_BARRIERS;
  int pipe = it->op < ISA_NOPS ? isa_insn_pipe(&as_k_verdict_of(k, it)->in) : -1;
  return pipe < 0 ? (unsigned)K_MEETINGS : (unsigned)pipe;
}

bool as_k_add_item(as_kernel *k, const as_k_item *it) {
  if (!K_GROW(k, items, nitems, cap_items)) return false;
  k->items[k->nitems] = *it;
  k->items[k->nitems].number = k->nitems;
  as_k_turn(k, it->at);
  k->nitems++;
  return true;
}

static bool emit_one(as_kernel *k, const int64_t *w, size_t n) {
  as_k_draft d;
  as_k_key key;
  if (as_k_predict(k, w, n)) return true;
  if (!as_k_read_record(k, w, n, &d, &key)) return false;
  if (as_k_verify(k, &d, &key)) {
    as_k_note_verdict(k, d.it.verdict);
    return as_k_add_item(k, &d.it);
  }
  return (k->o.flags & AS_KERNEL_COPIES) && as_k_repair(k, &d);
}

bool as_kernel_emit(as_kernel *k, const int64_t *records, size_t words, uint32_t *first) {
  uint32_t items = k->nitems, ops = k->nops, dyns = k->ndyns;
  if (!as_k_is_open(k, (isa_line){0})) return false;
  for (size_t at = 0; at < words;) {
    if (emit_one(k, records + at, words - at)) {
      at += (size_t)records[at];
      continue;
    }
    k->nitems = items;
    k->nops = ops;
    k->ndyns = dyns;
    return false;
  }
  while (items < k->nitems && k->items[items].added) items++; /* copies before it */
  if (first) *first = items;
  return true;
}

/* "a queue with dge=2, engine=9: ...": the numbers that there are, with their names. */
static bool no_such_queue(as_kernel *k, unsigned dge, unsigned engine) {
  char dges[80] = "", engines[120] = "";
  size_t n = 0;
  for (unsigned i = 0; isa_set_item(ISA_SET_DGE, i) && n < sizeof dges; i++)
    n += (size_t)snprintf(dges + n, sizeof dges - n, " %u %s", i, isa_set_item(ISA_SET_DGE, i));
  n = 0;
  for (unsigned i = 0; i < ISA_NENGINES && n < sizeof engines; i++)
    n += (size_t)snprintf(engines + n, sizeof engines - n, " %u %s", i, isa_engines[i].name);
  return as_k_fail(k, ISA_ARG, (isa_line){0},
                   "a queue with dge %u of engine %u: give a dge of%s, and an engine of%s", dge,
                   engine, dges, engines);
}

bool as_kernel_queue(as_kernel *k, unsigned dge, unsigned engine, unsigned prio, uint32_t *queue) {
  isa_line none = {0};
  as_k_queue q = {
      .dge = (uint8_t)dge, .engine = (uint8_t)engine, .prio = (uint8_t)prio, .users = true};
  if (!as_k_is_open(k, none)) return false;
  if (dge > ISA_DGE_hwdge || engine >= ISA_NENGINES) return no_such_queue(k, dge, engine);
  if (dge == ISA_DGE_swdge && engine != ISA_ENG_gpsimd)
    return as_k_fail(k, ISA_ILLEGAL, none, "a queue with dge=swdge belongs to gpsimd, not to %s",
                     isa_engines[engine].name);
  if (dge == ISA_DGE_hwdge && !k->target->hwdge)
    return as_k_fail(k, ISA_ILLEGAL, none, "dge=hwdge: %s has no hardware DGE", k->target->name);
  if (dge == ISA_DGE_hwdge && engine != ISA_ENG_sync && engine != ISA_ENG_scalar)
    return as_k_fail(k, ISA_ILLEGAL, none,
                     "a queue with dge=hwdge belongs to sync or scalar, not to %s",
                     isa_engines[engine].name);
  if (prio > 3 || (prio && k->target->gen < ISA_GEN4))
    return as_k_fail(k, ISA_ILLEGAL, none, "prio=%u: it can be 0 to 3, and only on gen4", prio);
  if (k->nqueues == ISA_ENGINE_QUEUES)
    return as_k_fail(k, ISA_LIMIT, none, "a core has at most %d queues", ISA_ENGINE_QUEUES);
  if (!K_GROW(k, queues, nqueues, cap_queues)) return false;
  k->queues[k->nqueues] = q;
  *queue = ++k->nqueues;
  return true;
}

bool as_kernel_register(as_kernel *k, uint32_t *reg) {
  if (!as_k_is_open(k, (isa_line){0})) return false;
  *reg = ++k->nregs;
  return true;
}

bool as_kernel_order(as_kernel *k, uint32_t earlier, uint32_t later) {
  isa_line none = {0};
  if (!as_k_is_open(k, none)) return false;
  if (earlier >= later || later >= k->nitems)
    return as_k_fail(k, ISA_ARG, none,
                     "instruction %u cannot wait for instruction %u: the kernel has %u",
                     (unsigned)later, (unsigned)earlier, (unsigned)k->nitems);
  if (k->items[earlier].op >= ISA_NOPS || k->items[later].op >= ISA_NOPS)
    return as_k_fail(k, ISA_ARG, none, "a loop's begin or end is not an instruction");
  if (!K_GROW(k, orders, norders, cap_orders)) return false;
  k->orders[k->norders++] = (as_k_order){later, earlier};
  return true;
}

/* ---- Loops --------------------------------------------------------------------------------- */

static bool reg_ok(as_kernel *k, uint32_t reg, isa_line at) {
  return reg <= k->nregs || as_k_fail(k, ISA_ARG, at, "there is no register %u: the kernel has %u",
                                      (unsigned)reg, (unsigned)k->nregs);
}

static bool open_loop(as_kernel *k, const as_k_loop *l, uint32_t op) {
  as_k_item it = {.at = l->range.at, .engine = ISA_NENGINES};
  if (!K_GROW(k, loops, nloops, cap_loops)) return false;
  it.op = (uint16_t)op;
  it.loop = k->nloops + 1;
  if (!as_k_add_item(k, &it)) return false;
  k->loops[k->nloops] = *l;
  k->loops[k->nloops].first = k->nitems - 1;
  k->loops[k->nloops].parent = k->open_loop;
  k->loops[k->nloops].origin = k->nloops + 1;
  k->open_loop = ++k->nloops;
  return true;
}

/* What the variable of a loop with known bounds is when it ends. */
static int64_t end_of(const as_kernel_range *r) {
  int64_t span = r->step > 0 ? (int64_t)r->stop - r->start : (int64_t)r->start - r->stop;
  int64_t by = r->step > 0 ? r->step : -(int64_t)r->step;
  return r->start + (span > 0 ? (span + by - 1) / by * r->step : 0);
}

bool as_kernel_loop(as_kernel *k, const as_kernel_range *r, uint32_t *reg) {
  as_k_loop l = {.range = *r, .reg = k->nregs + 1};
  if (!as_k_is_open(k, r->at) || !as_k_place_ok(k, r->at) || !reg_ok(k, r->start_reg, r->at) ||
      !reg_ok(k, r->stop_reg, r->at))
    return false;
  if (r->step == 0) return as_k_fail(k, ISA_ARG, r->at, "a loop with step 0 never ends");
  /* With a register nobody knows the end. */
  int64_t end = r->start_reg || r->stop_reg ? 0 : end_of(r);
  if (end < INT32_MIN || end > INT32_MAX)
    return as_k_fail(k, ISA_ARG, r->at,
                     "a loop from %d to %d by %d: its register would end at %lld, which does not "
                     "fit in 32 bits",
                     (int)r->start, (int)r->stop, (int)r->step, (long long)end);
  if (!open_loop(k, &l, K_LOOP)) return false;
  *reg = ++k->nregs;
  return true;
}

bool as_kernel_while(as_kernel *k, uint32_t reg, isa_line at) {
  as_k_loop l = {.range.at = at, .reg = reg, .is_while = true};
  if (!as_k_is_open(k, at) || !as_k_place_ok(k, at)) return false;
  if (reg == 0) return as_k_fail(k, ISA_ARG, at, "a while needs a register");
  return reg_ok(k, reg, at) && open_loop(k, &l, K_WHILE);
}

bool as_kernel_endloop(as_kernel *k) {
  as_k_item it = {.engine = ISA_NENGINES, .loop = k->open_loop};
  if (!as_k_is_open(k, (isa_line){0})) return false;
  if (!k->open_loop) return as_k_fail(k, ISA_ARG, (isa_line){0}, "no loop is open");
  as_k_loop *l = &k->loops[k->open_loop - 1];
  it.op = K_ENDLOOP;
  it.at = l->range.at;
  if (!as_k_add_item(k, &it)) return false;
  l->last = k->nitems - 1;
  k->open_loop = l->parent;
  return true;
}

/* ---- The program --------------------------------------------------------------------------- */

/* What only the passes before the program need. */
static void forget(as_kernel *k) {
  isa_free(&k->al, k->snaps, (size_t)k->cap_snaps * k->nsources * sizeof *k->snaps);
  /* Snapshots of clocks are large, and only solve.c reads them. */
  k->snaps = NULL;
  k->cap_snaps = k->nsnaps = 0;
}

/* Frees the unused room in the arrays of the list; they may grow again. */
static void trim(as_kernel *k) {
  isa_array_trim(&k->al, &k->items, k->nitems, &k->cap_items, sizeof *k->items);
  isa_array_trim(&k->al, &k->ops, k->nops, &k->cap_ops, sizeof *k->ops);
  isa_array_trim(&k->al, &k->buffers, k->nbuffers, &k->cap_buffers, sizeof *k->buffers);
}

/* The list as it was before it got an order. */
static bool take_back(as_kernel *k, const uint32_t *order) {
  size_t size = ((size_t)k->nitems + 1) * sizeof(uint32_t);
  uint32_t *place = isa_zalloc(&k->al, size);
  if (!place) return as_k_nomem(k);
  for (uint32_t i = 0; i < k->nitems; i++) place[order[i]] = i;
  bool ok = as_k_renew(k, place, k->nitems) && as_k_lives(k);
  isa_free(&k->al, place, size);
  k->figures.moved = 0;
  return ok;
}

/* Without spills: in one ring, else with large tiles apart. */
static bool place_all(as_kernel *k) {
  uint32_t flags = k->o.flags;
  k->o.flags &= ~(uint32_t)AS_KERNEL_SPILL;
  bool ok = as_k_place(k);
  if (!ok && k->error.status == ISA_LIMIT) {
    k->error.status = ISA_OK;
    k->sides = true;
    ok = as_k_place(k);
    k->sides = false;
  }
  k->o.flags = flags;
  return ok;
}

/* Another order, of the list as it was: `done` where its tiles fit, else the list is that again. */
static bool place_near(as_kernel *k, bool *done) {
  uint32_t *order = NULL;
  size_t size = ((size_t)k->nitems + 1) * sizeof *order;
  bool ok = as_k_schedule_near(k, &order);
  *done = ok && place_all(k);
  if (ok && !*done) {
    ok = k->error.status == ISA_LIMIT;
    if (ok) {
      k->error.status = ISA_OK;
      ok = take_back(k, order);
    }
  }
  isa_free(&k->al, order, size);
  return ok;
}

/* Places the tiles. What does not fit in an order of the builder's is placed in one that runs less
 * far ahead, else in the caller's, and only there it spills, or says what does not fit. */
static bool place(as_kernel *k, const uint32_t *order) {
  if (place_all(k)) return true;
  if (k->error.status != ISA_LIMIT) return false;
  if (order) {
    bool done;
    k->error.status = ISA_OK;
    if (!take_back(k, order) || !place_near(k, &done)) return false;
    if (done || place_all(k)) return true;
    if (k->error.status != ISA_LIMIT) return false;
  }
  k->error.status = ISA_OK;
  return as_k_place(k) && (!k->nspilled || as_k_schedule_placed(k));
}

/* From the list as it was recorded to where its tiles lie. */
static bool arrange(as_kernel *k) {
  uint32_t *order = NULL;
  bool ok = as_k_copy_bounds(k) && as_k_trim_tiles(k) && as_k_define(k) && as_k_simplify(k) &&
            as_k_choose_store_engine(k) && as_k_schedule(k, &order);
  size_t size = order ? ((size_t)k->nitems + 1) * sizeof *order : 0; /* spills add items */
  ok = ok && as_k_lives(k) && as_k_choose_queues(k) && place(k, order);
  isa_free(&k->al, order, size);
  return ok;
}

/* Passes that rename, move and keep may need more room than there is where the list as it was
 * recorded fits. Then those are left out, and if need be all. */
static bool arrange_all(as_kernel *k) {
  const uint32_t room = AS_PASS_VERSIONS | AS_PASS_LOADS | AS_PASS_VALUES | AS_PASS_ORDER |
                        AS_PASS_FAR | AS_PASS_MERGES;
  const uint32_t passes[] = {~room, AS_PASS_CHOICES};
  as_k_list kept = {0};
  bool ok = as_k_keep_list(k, &kept) && arrange(k);
  for (unsigned i = 0; !ok && k->error.status == ISA_LIMIT && i < 2; i++) {
    if (!((k->o.passes | k->o.extra) & ~passes[i])) continue;
    ok = as_k_give_list(k, &kept, passes[i]) && arrange(k);
  }
  as_k_forget_list(k, &kept);
  return ok;
}

bool as_k_prepare(as_kernel *k) {
  if (!as_k_is_open(k, (isa_line){0})) return false;
  if (k->open_loop)
    return as_k_fail(k, ISA_ARG, k->loops[k->open_loop - 1].range.at, "a loop is not ended");
  k->finished = true;
  trim(k);
  bool ok = arrange_all(k) && as_k_registers(k) && as_k_solve(k) && as_k_semaphores(k);
  forget(k);
  return ok;
}
