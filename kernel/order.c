/* Another order of the list: of the items that come next, and wait for none of the others, the one
 * that can begin first; of several the first of the list. Only a window of them is looked at, so
 * that the whole takes linear time. It reaches over a round of an attention (200 items), whose
 * matmuls else wait for copies of the same round: compilers let the next rounds begin.
 *
 * What conflicts stays in its order: items that share bytes or an engine's hidden state
 * (isa/state.def), one of which writes; those that the caller ordered. Nothing passes an
 * instruction of a sequencer, one that meets the other core, or the begin and the end of a loop at
 * run time. Weights and the matmuls that use them are a group: one group may come before another,
 * but they do not mix. So a transpose need not wait until the last one's copy has been multiplied.
 *
 * An item that comes early begins tiles early. It may only where there is room for them from here
 * to where they begin in the caller's order: then what is in use is never more than in that order,
 * or than `limit`. */
#include "pace.h"
#include "../isa/operand.h"

#include <stdlib.h>

/* Items in the window; how many are looked at of those that wait for none, at least; touches,
 * and waits between them, that there is room for. */
enum { WINDOW = 256, LOOKS = 32, WORDS = WINDOW / 64, TOUCHES = 4096, EDGES = 1 << 15 };

/* What an item in the window touches. They are numbered from 1; 0: nothing. */
typedef struct touch {
  as_k_bytes at; /* in its buffer; in its memory, where the tile has a fixed place */
  uint32_t item;
  uint32_t prev; /* the one before of the same buffer and kind */
} touch;

/* What waits for an item, and the next that does: 1 + its place; 0: none. */
typedef struct edge {
  uint32_t item, next;
} edge;

typedef struct slot {
  uint32_t item;
  uint32_t touches;     /* its first */
  uint32_t before, own; /* waits for others; those of them for items of its group */
  uint32_t after;       /* 1 + the first of its edges */
  uint32_t same;        /* 1 + the item before it with the same state */
  uint64_t ready[ISA_NENGINES + 1];
  uint32_t more[2];      /* bytes of a partition that others have here early, by memory */
  uint8_t state, access; /* of isa_insn_state */
  uint32_t group;        /* of what is loaded: 1 + the item that begins it; 0: none */
  uint8_t triggers;      /* the engine that triggers a transfer */
  bool open, known;      /* not taken yet; ready is known */
} slot;

/* By the item that begins it: what loads something and what uses it, to the next load. */
typedef struct group {
  uint32_t of;   /* by item: 1 + the one that begins its group; 0: it is in none */
  uint32_t last; /* that uses it */
  uint32_t left; /* of those, not taken yet */
  uint32_t next; /* 1 + the one that begins the next group of that state; 0: none in this run */
  bool opened;
} group;

typedef struct scheduler {
  as_kernel *k;
  as_k_pace pace;
  slot slots[WINDOW];
  touch touches[TOUCHES];
  edge edges[EDGES];
  uint32_t ntouches, unused; /* 1 + the first edge without use */
  uint32_t nunused;
  uint64_t waits_not[WORDS];  /* a bit for each slot whose item waits for none */
  uint32_t low, next, end;    /* items low .. next - 1 are in the window, of those before `end` */
  uint32_t *last[2];          /* by chain: the last access that only reads, and that writes */
  uint32_t same[ISA_NSTATES]; /* 1 + the last item with each state */
  uint32_t *room[2];          /* by item: bytes in use in the caller's order, SBUF and PSUM */
  bool *begun;                /* by buffer */
  bool placed;                /* tiles have their places already */
  bool near;                  /* what ran ahead before did not fit */
  group *groups;              /* by item */
  uint32_t first_group[ISA_NSTATES], open_group[ISA_NSTATES]; /* not opened; with users left */
  uint32_t *order, n, at_order;
} scheduler;

static slot *slot_of(scheduler *s, uint32_t item) { return &s->slots[item % WINDOW]; }
static touch *touch_of(scheduler *s, uint32_t number) { return &s->touches[number % TOUCHES]; }

/* ---- Conflicts ------------------------------------------------------------------------------ */

/* Whether other tiles may have the bytes of a buffer. */
static bool has_place(const scheduler *s, const as_k_buffer *b) {
  return b->fixed || (s->placed && b->space != ISA_HBM);
}
/* The chain of what touches an operand's buffer; tiles that have a place share one by memory. */
static uint32_t chain_of(const scheduler *s, const as_k_operand *o) {
  const as_k_buffer *b = as_k_buf(s->k, o->buffer);
  return has_place(s, b) ? s->k->nbuffers + o->space : o->buffer - 1;
}
static uint32_t nchains(const as_kernel *k) { return k->nbuffers + ISA_HBM + 1; }

static void bytes_of(const scheduler *s, const as_k_operand *o, as_k_bytes *x) {
  const as_k_buffer *b = as_k_buf(s->k, o->buffer);
  as_k_bytes_of(s->k, o, x);
  if (!has_place(s, b)) return;
  x->lo += b->offset;
  x->hi += b->offset;
}

static bool meet(const as_k_bytes *x, const as_k_bytes *y) {
  if (x->hi <= y->lo || y->hi <= x->lo || x->p1 <= y->p0 || y->p1 <= x->p0) return false;
  if (!x->set && !y->set) return true;
  isa_byteset all[2] = {{.run = x->hi - x->lo, .span = {x->hi - x->lo}},
                        {.run = y->hi - y->lo, .span = {y->hi - y->lo}}};
  return isa_byteset_meet_at(x->set ? x->set : &all[0], x->lo, y->set ? y->set : &all[1], y->lo);
}

/* t waits for an item of the window. */
static void wait_for(scheduler *s, slot *t, uint32_t item) {
  slot *o = slot_of(s, item);
  uint32_t place = s->unused - 1;
  edge *e = &s->edges[place];
  s->unused = e->next;
  s->nunused--;
  *e = (edge){.item = t->item, .next = o->after};
  o->after = place + 1;
  t->before++;
  t->own += t->group && o->group == t->group && o->state == t->state;
}

static bool covers(const as_k_bytes *x, const as_k_bytes *y) {
  return !x->set && x->lo <= y->lo && x->hi >= y->hi && x->p0 <= y->p0 && x->p1 >= y->p1;
}

/* For all of a chain, from `oldest` on, that touch bytes of x. Chains go back in the list. Returns
 * the number of a write of all of x, which has waited for what came before it: nothing is looked
 * at before that. For example the rounds of a loop over one tile, which else all meet: of those,
 * each then waits for the last two. Without such a write, `oldest`. */
static uint32_t wait_for_chain(scheduler *s, slot *t, bool writes, uint32_t chain, uint32_t oldest,
                               const as_k_bytes *x) {
  for (uint32_t number = s->last[writes][chain]; number && number >= oldest;) {
    const touch *a = touch_of(s, number);
    if (a->item != t->item && meet(&a->at, x)) {
      if (slot_of(s, a->item)->open) wait_for(s, t, a->item);
      /* Taken or not: what this write has waited for is taken no later. */
      if (writes && covers(&a->at, x)) return number;
    }
    number = a->prev;
  }
  return oldest;
}

/* For what has the same hidden state. Groups do not mix, and others keep their order, so that what
 * comes before the last write has been waited for. */
static void wait_for_state(scheduler *s, slot *t) {
  if (!t->state) return;
  t->same = s->same[t->state];
  s->same[t->state] = t->item + 1;
  /* Along the items with this state, the latest first, as far as the window reaches. */
  for (uint32_t i = t->same; i && i > s->low;) {
    const slot *o = slot_of(s, i - 1);
    /* is_open keeps groups apart. */
    if (t->group && o->group != t->group) return;
    if (o->open && ((o->access | t->access) & ISA_STATE_W)) wait_for(s, t, i - 1);
    /* This write has waited for all that came before it. */
    if (o->access & ISA_STATE_W) return;
    i = o->same;
  }
}

static void wait_for_orders(scheduler *s, slot *t) {
  const as_kernel *k = s->k;
  while (s->at_order < k->norders && k->orders[s->at_order].later < t->item) s->at_order++;
  for (uint32_t i = s->at_order; i < k->norders && k->orders[i].later == t->item; i++) {
    uint32_t earlier = k->orders[i].earlier;
    if (earlier >= s->low && earlier < t->item && slot_of(s, earlier)->open)
      wait_for(s, t, earlier);
  }
}

/* ---- The window ----------------------------------------------------------------------------- */

static void mark(scheduler *s, uint32_t item) {
  /* A whole window is a whole number of words, so an item's bit is the same in each round of the
   * ring. */
  s->waits_not[item % WINDOW / 64] |= UINT64_C(1) << item % 64;
}

static void enter(scheduler *s) {
  as_kernel *k = s->k;
  uint32_t item = s->next++;
  const as_k_item *it = &k->items[item];
  slot *t = slot_of(s, item);
  const as_k_use *uses;
  unsigned access, n = as_k_used(k, it, &uses);
  *t = (slot){.item = item, .open = true, .touches = s->ntouches + 1};
  t->state = (uint8_t)isa_insn_state(&as_k_verdict_of(k, it)->in, &access);
  t->access = (uint8_t)access;
  t->group = s->groups[item].of;
  for (unsigned u = 0; u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    uint32_t chain = chain_of(s, o), number = ++s->ntouches;
    touch *a = touch_of(s, number);
    bytes_of(s, o, &a->at);
    a->item = item;
    a->prev = s->last[uses[u].writes][chain];
    /* Accesses of dropped items may have been overwritten in the ring `touches`; those from the
     * oldest of the window on have not, and what came before them is done. */
    uint32_t oldest = wait_for_chain(s, t, true, chain, slot_of(s, s->low)->touches, &a->at);
    /* A read waits for writes alone, a write for reads as well. */
    if (uses[u].writes) wait_for_chain(s, t, false, chain, oldest, &a->at);
    s->last[uses[u].writes][chain] = number;
  }
  wait_for_state(s, t);
  wait_for_orders(s, t);
  if (!t->before) mark(s, item);
}

/* Whether one more item may come in: it needs its accesses, and edges for those that it meets. */
static bool may_enter(const scheduler *s) {
  if (s->next >= s->end || s->next >= s->low + WINDOW) return false;
  /* An empty window takes any item: nothing in it can use up the edges. */
  if (s->next == s->low) return true;
  uint32_t used = s->ntouches + 1 - s->slots[s->low % WINDOW].touches;
  /* The new item may wait for each access of the ring, and for one more item each of the window by
   * state. */
  return used + K_OPERANDS <= TOUCHES && s->nunused >= TOUCHES + WINDOW;
}

static void know(scheduler *s, slot *t) {
  const as_k_item *it = &s->k->items[t->item];
  unsigned mask = it->engine < ISA_NENGINES ? 1u << it->engine : as_k_verdict_of(s->k, it)->engines;
  unsigned dge;
  /* A transfer's data waits on no engine: the last place of `ready` is for it. */
  if (isa_op_is_dma(it->op)) {
    mask = 1u << ISA_NENGINES;
    t->triggers = (uint8_t)as_k_trigger_engine(s->k, it, s->pace.depth > 0, &dge);
  }
  for (; mask; mask &= mask - 1) {
    unsigned e = (unsigned)__builtin_ctz(mask);
    t->ready[e] = as_k_ready_at(&s->pace, e, it);
  }
  t->known = true;
}

static uint64_t begin_of(scheduler *s, slot *t) {
  const as_k_item *it = &s->k->items[t->item];
  if (!t->known) know(s, t);
  uint64_t ready = t->ready[ISA_NENGINES], free = s->pace.free[t->triggers];
  if (isa_op_is_dma(it->op)) return free > ready ? free : ready;
  return as_k_soonest(&s->pace, it, t->ready);
}

/* ---- Room ----------------------------------------------------------------------------------- */

/* Bytes of a partition that a tile takes. */
static uint32_t size_of(const as_k_buffer *b) {
  if (b->space != ISA_PSUM) return (b->bytes + K_ALIGN - 1) / K_ALIGN * K_ALIGN;
  return (b->bytes + ISA_PSUM_BANK - 1) / ISA_PSUM_BANK * ISA_PSUM_BANK;
}

/* What may be in use where the caller's order has `room` and an item begins a tile early. What lies
 * between tiles is lost. The further ahead the item is, the less of what is free it may take, and
 * loads half of that, so that what comes next finds room: where it does not, the caller's order is
 * all that is left. With shares that do not fall, adamw of AccelOpt takes 1.5 times as long. */
static uint32_t limit_of(const scheduler *s, uint32_t item, unsigned memory, uint32_t room) {
  const as_kernel *k = s->k;
  uint32_t all = as_k_room(k, memory ? ISA_PSUM : ISA_SBUF);
  if (memory) return all;
  all = all / 8 * (s->near ? 6 : 7);
  if (room >= all) return all;
  /* The square of how near the item is to the front: (all - room) * (left / WINDOW)^2. */
  uint32_t left = WINDOW - (item - s->low), share = (all - room) / WINDOW * left / WINDOW * left;
  return room + (isa_op_is_dma(k->items[item].op) ? share / 2 : share);
}

/* Whether an item may come now, where tiles that it begins must fit until the place where they
 * begin in the caller's order; `take`: it does. */
static bool has_room(scheduler *s, uint32_t item, bool take) {
  as_kernel *k = s->k;
  const as_k_item *it = &k->items[item];
  const as_k_use *uses;
  if (s->placed) return true;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
    uint32_t number = as_k_use_op(k, it, &uses[u])->buffer;
    const as_k_buffer *b = as_k_buf(k, number);
    /* Begun in the caller's order already, or early by another item: it takes no new room. */
    if (b->space == ISA_HBM || b->first < s->low || s->begun[number - 1]) continue;
    unsigned memory = b->space == ISA_PSUM;
    for (uint32_t i = s->low; i < b->first; i++) {
      slot *t = slot_of(s, i);
      if (take)
        t->more[memory] += size_of(b);
      else if (s->room[memory][i] + t->more[memory] + size_of(b) >
               limit_of(s, item, memory, s->room[memory][i]))
        return false;
    }
    if (take) s->begun[number - 1] = true;
  }
  return true;
}

/* ---- Groups --------------------------------------------------------------------------------- */

/* States of which an item loads a part, or that it changes: their items stay in their order. */
static void find_mixed(const as_kernel *k, uint32_t first, uint32_t end, bool *mixed) {
  for (uint32_t i = first; i < end; i++) {
    const isa_insn *in = &as_k_verdict_of(k, &k->items[i])->in;
    unsigned access, state = isa_insn_state(in, &access);
    if (access == ISA_STATE_RW || (state && as_k_is_partial(in))) mixed[state] = true;
  }
}

/* The groups of a run. What its first items use was loaded before it. */
static void find_groups(scheduler *s, uint32_t first, uint32_t end) {
  bool mixed[ISA_NSTATES] = {false};
  uint32_t last[ISA_NSTATES] = {0};
  memset(s->first_group, 0, sizeof s->first_group);
  memset(s->open_group, 0, sizeof s->open_group);
  find_mixed(s->k, first, end, mixed);
  for (uint32_t i = first; i < end; i++) {
    unsigned access, state = isa_insn_state(&as_k_verdict_of(s->k, &s->k->items[i])->in, &access);
    group *g = &s->groups[i];
    if (!state || !access || mixed[state]) continue;
    /* A load begins a group; so do the first users, of what an earlier run loaded. */
    bool loads = access == ISA_STATE_W;
    if (loads || !last[state]) {
      if (last[state]) s->groups[last[state] - 1].next = i + 1;
      last[state] = i + 1;
      /* Their load has come before this run. */
      g->opened = !loads;
      if (!loads) s->open_group[state] = i + 1;
      if (loads && !s->first_group[state]) s->first_group[state] = i + 1;
    }
    g->of = last[state];
    g = &s->groups[g->of - 1];
    if (!loads) g->left++;
    g->last = i;
  }
}

/* Whether all that use what an item loads are in the window and wait for nothing else. */
static bool can_open(scheduler *s, uint32_t item) {
  const group *g = &s->groups[item];
  if (!g->next || g->last >= s->next) return false; /* what comes after the run may use the last */
  for (uint32_t i = item; i <= g->last; i++)
    if (s->groups[i].of == item + 1) {
      const slot *t = slot_of(s, i);
      if (t->before > t->own || !has_room(s, i, false)) return false;
    }
  return true;
}

/* Whether an item may come now, by what its engine has loaded. */
static bool is_open(scheduler *s, const slot *t) {
  /* What belongs to no load is free of this. */
  if (!t->group) return true;
  uint32_t open = s->open_group[t->state];
  /* While users of what is loaded are left, only they come. */
  if (open) return t->group == open;
  /* Then the next load of the list, or another whose users can follow at once. */
  return s->first_group[t->state] == t->group || can_open(s, t->item);
}

static void note_group(scheduler *s, const slot *t) {
  uint32_t *first = &s->first_group[t->state];
  if (!t->group) return;
  group *g = &s->groups[t->group - 1];
  if (t->access == ISA_STATE_W) g->opened = true;
  if (t->access == ISA_STATE_R) g->left--;
  s->open_group[t->state] = g->left ? t->group : 0;
  /* Those that were opened out of their turn are skipped here. */
  while (*first && s->groups[*first - 1].opened) *first = s->groups[*first - 1].next;
}

/* ---- Choice --------------------------------------------------------------------------------- */

/* The item of the window that comes next. Where there is no room for any, the first of those that
 * wait for nothing. */
static uint32_t choose(scheduler *s) {
  uint32_t best = K_NONE, other = K_NONE;
  uint64_t least = UINT64_MAX;
  /* After LOOKS candidates the search goes on only as long as it has found nothing at all. */
  for (uint32_t i = s->low, left = LOOKS; i < s->next && (left || other == K_NONE); i++) {
    uint64_t word = s->waits_not[i % WINDOW / 64] >> i % 64;
    if (!word) {
      /* Nothing more in this word: on with the next. */
      i |= 63;
      continue;
    }
    i += (uint32_t)__builtin_ctzll(word);
    if (i >= s->next) break;
    slot *t = slot_of(s, i);
    left -= left > 0;
    uint64_t begin = begin_of(s, t);
    if (begin >= least || !is_open(s, t)) continue;
    if (other == K_NONE) other = i;
    /* The first of the window begins its tiles where the caller's order does. */
    if (i != s->low && !has_room(s, i, false)) continue;
    best = i;
    least = begin;
  }
  return best == K_NONE ? other : best;
}

/* What waits for an item waits no longer. */
static void release(scheduler *s, slot *t) {
  uint32_t next;
  for (uint32_t i = t->after; i; i = next) {
    edge *e = &s->edges[i - 1];
    slot *o = slot_of(s, e->item);
    o->own -= o->group && o->group == t->group && o->state == t->state;
    if (!--o->before) mark(s, e->item);
    next = e->next;
    e->next = s->unused;
    s->unused = i;
    s->nunused++;
  }
  t->after = 0;
  t->open = false;
  s->waits_not[t->item % WINDOW / 64] &= ~(UINT64_C(1) << t->item % 64);
}

static void take(scheduler *s, uint32_t item) {
  has_room(s, item, true);
  as_k_pace_take(&s->pace, &s->k->items[item]);
  s->k->figures.moved += item != s->low && !s->k->items[item].added;
  release(s, slot_of(s, item));
  note_group(s, slot_of(s, item));
  s->order[s->n++] = item;
  /* The window's front moves over all that have been taken. */
  while (s->low < s->next && !slot_of(s, s->low)->open) s->low++;
}

/* Whether nothing may pass an item. */
static bool is_fence(const as_kernel *k, const as_k_item *it) {
  return it->op >= ISA_NOPS || isa_op_is_control(it->op) || as_k_meeting_kind(k, it) != K_MEETINGS;
}

static void schedule_run(scheduler *s, uint32_t first, uint32_t end) {
  s->low = s->next = first;
  s->end = end;
  memset(s->same, 0, sizeof s->same);
  find_groups(s, first, end);
  while (s->low < end) {
    while (may_enter(s)) enter(s);
    take(s, choose(s));
  }
}

static void schedule_all(scheduler *s) {
  as_kernel *k = s->k;
  for (uint32_t i = 0; i < k->nitems;) {
    uint32_t end = i;
    while (end < k->nitems && !is_fence(k, &k->items[end])) end++;
    schedule_run(s, i, end);
    /* A fence is taken in its place, and so are those that follow it at once. */
    for (i = end; i < k->nitems && is_fence(k, &k->items[i]); i++) {
      as_k_pace_take(&s->pace, &k->items[i]);
      s->order[s->n++] = i;
    }
  }
}

/* ---- What is known before ------------------------------------------------------------------- */

static void find_room(scheduler *s, unsigned memory) {
  const as_kernel *k = s->k;
  uint32_t *room = s->room[memory];
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    const as_k_buffer *b = &k->buffers[i];
    if (b->space == ISA_HBM || (b->space == ISA_PSUM) != memory || !b->used) continue;
    room[b->first] += size_of(b);
    room[b->last + 1] -= size_of(b);
  }
  for (uint32_t i = 0; i < k->nitems; i++) room[i + 1] += room[i];
}

static int by_later(const void *a, const void *b) {
  const as_k_order *x = a, *y = b;
  return (x->later > y->later) - (x->later < y->later);
}

static bool make_order(scheduler *s) {
  as_kernel *k = s->k;
  size_t items = (size_t)k->nitems + 2, buffers = (size_t)k->nbuffers + 1;
  for (unsigned m = 0; m < 2; m++) s->room[m] = isa_zalloc(&k->al, items * sizeof(uint32_t));
  s->begun = isa_zalloc(&k->al, buffers * sizeof *s->begun);
  s->groups = isa_zalloc(&k->al, items * sizeof *s->groups);
  size_t chains = nchains(k) * sizeof(uint32_t);
  for (unsigned m = 0; m < 2; m++) s->last[m] = isa_zalloc(&k->al, chains);
  bool ok = s->begun && s->groups && s->room[0] && s->room[1] && s->last[0] && s->last[1];
  if (ok) {
    /* All edges are without use at first. */
    for (uint32_t i = 0; i < EDGES; i++) s->edges[i].next = i + 1 < EDGES ? i + 2 : 0;
    s->unused = 1;
    s->nunused = EDGES;
    for (unsigned m = 0; m < 2; m++) find_room(s, m);
    if (k->norders) qsort(k->orders, k->norders, sizeof *k->orders, by_later);
    schedule_all(s);
  }
  for (unsigned m = 0; m < 2; m++) isa_free(&k->al, s->room[m], items * sizeof(uint32_t));
  for (unsigned m = 0; m < 2; m++) isa_free(&k->al, s->last[m], chains);
  isa_free(&k->al, s->begun, buffers * sizeof *s->begun);
  isa_free(&k->al, s->groups, items * sizeof *s->groups);
  return ok || as_k_nomem(k);
}

static bool schedule(as_kernel *k, uint32_t **order, bool placed, bool near) {
  size_t size = ((size_t)k->nitems + 1) * sizeof **order;
  scheduler *s = isa_zalloc(&k->al, sizeof *s);
  *order = isa_zalloc(&k->al, size);
  bool ok = (s && *order) || as_k_nomem(k);
  if (ok) {
    s->k = k;
    s->order = *order;
    s->placed = placed;
    s->near = near;
    ok = as_k_lives(k) && as_k_pace_open(&s->pace, k) && make_order(s);
    if (s->pace.k) as_k_pace_close(&s->pace);
    ok = ok && as_k_renew(k, *order, k->nitems);
  }
  isa_free(&k->al, s, sizeof *s);
  return ok;
}

bool as_k_schedule(as_kernel *k, uint32_t **order) {
  if (!(k->o.passes & AS_PASS_ORDER)) return as_k_choose_engines(k);
  return schedule(k, order, false, false);
}

bool as_k_schedule_near(as_kernel *k, uint32_t **order) {
  const as_kernel_figures figures = k->figures;
  bool ok = schedule(k, order, false, true) && as_k_lives(k);
  uint64_t moved = k->figures.moved;
  k->figures = figures; /* they have been counted */
  k->figures.moved = moved;
  return ok;
}

/* Spills stand where the list needs them, so that loads would wait behind stores that are late. */
bool as_k_schedule_placed(as_kernel *k) {
  const as_kernel_figures figures = k->figures;
  uint32_t *order = NULL;
  if (!(k->o.passes & AS_PASS_ORDER)) return true;
  size_t size = ((size_t)k->nitems + 1) * sizeof *order;
  bool ok = schedule(k, &order, true, false) && as_k_lives(k);
  uint64_t moved = k->figures.moved;
  k->figures = figures; /* they have been counted */
  k->figures.moved = moved;
  isa_free(&k->al, order, size);
  return ok;
}
