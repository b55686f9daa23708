/* The judge that goes through all states. A move is made at once if it makes nothing impossible and
 * ends nothing that a later access could overlap: each execution has an equal one that makes the
 * move there. */
#include "../../isa/bytes.h"
#include "model.h"

#include <string.h>

#define NONE UINT32_MAX

typedef struct state {
  uint32_t from;   /* the state before */
  vm_lg_move move; /* that was chosen there */
} state;

typedef struct search {
  vm_legal *l;
  const uint32_t *state; /* in which accesses are compared */
  uint32_t *v, *next;    /* the state that is being looked at, and one after it */
  uint16_t *live;        /* words that tell states apart */
  uint32_t nlive, words;
  uint32_t *kept; /* nlive for each state */
  state *states;
  uint32_t n, cap_kept, cap_states;
  uint32_t *table, ntable; /* state + 1 by hash */
  /* For each item, accesses of others that overlap its own: mine, other. */
  uint32_t *meets, *first, nmeets, cap_meets;
  vm_lg_path *path; /* where moves are noted, NULL: nowhere */
  uint32_t at;      /* the state that is looked at, and the move that was last chosen there */
  vm_lg_move chosen;
  const vm_lg_access *race[2];
  bool below, no_memory;
  /* For each two writes that are alike, a bit: whether both have been open at once; whether a read
   * has no order with one of them only if they can be. */
  uint8_t *seen, *wanted;
  bool again; /* all that can be open at once has been seen */
  vm_lg_excuse excuse;
} search;

/* ---- Accesses that meet -------------------------------------------------------------------- */

static void add_meeting(search *x, uint32_t mine, uint32_t other) {
  /* A meeting is two numbers. */
  if (x->nmeets + 2 > x->cap_meets &&
      !isa_array_grow(&x->l->al, &x->meets, x->cap_meets, &x->cap_meets, sizeof *x->meets)) {
    x->no_memory = true;
    return;
  }
  x->meets[x->nmeets++] = mine;
  x->meets[x->nmeets++] = other;
}

static void add_meetings(void *ud, const vm_lg_class *a, const vm_lg_class *b) {
  search *x = ud;
  const vm_legal *l = x->l;
  if (vm_lg_same_source(vm_lg_access_of(l, a, 0)->comp, vm_lg_access_of(l, b, 0)->comp)) return;
  for (uint32_t i = 0; i < a->n; i++)
    for (uint32_t j = 0; j < b->n && !x->no_memory; j++) {
      uint32_t p = l->sorted[a->first + i], q = l->sorted[b->first + j];
      /* Both ways: either may be the one that starts. */
      add_meeting(x, p, q);
      add_meeting(x, q, p);
    }
}

/* Orders the meetings by item: first[item] .. first[item + 1] - 1. */
static bool index_meetings(search *x) {
  const vm_legal *l = x->l;
  uint32_t n = x->nmeets / 2, *by = isa_zalloc(&l->al, (x->nmeets + 1) * sizeof *by);
  x->first = isa_zalloc(&l->al, (l->nitems + 2) * sizeof *x->first);
  if (!by || !x->first) {
    if (by) isa_free(&l->al, by, (x->nmeets + 1) * sizeof *by);
    return false;
  }
  uint32_t *at = x->first + 1;
  /* A counting sort by item. */
  for (uint32_t i = 0; i < n; i++) at[l->accesses[x->meets[2 * i]].item]++;
  for (uint32_t i = 0, sum = 0; i <= l->nitems; i++) {
    uint32_t count = at[i];
    at[i] = sum;
    sum += count;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t to = at[l->accesses[x->meets[2 * i]].item]++;
    memcpy(by + 2 * (size_t)to, x->meets + 2 * (size_t)i, 2 * sizeof *by);
  }
  if (x->nmeets) memcpy(x->meets, by, x->nmeets * sizeof *by);
  isa_free(&l->al, by, (x->nmeets + 1) * sizeof *by);
  return true;
}

/* ---- Writes that are alike ------------------------------------------------------------------ */

enum { MOST_ALIKE = 1 << 13 }; /* a bit for each pair */
static size_t bytes_of_pairs(const vm_legal *l) { return (size_t)l->nalike * l->nalike / 8 + 1; }

static bool has_pair(const search *x, const uint8_t *set, const vm_lg_access *a,
                     const vm_lg_access *b) {
  size_t bit = (size_t)(a->alike - 1) * x->l->nalike + b->alike - 1;
  return set[bit / 8] >> bit % 8 & 1;
}

static void add_pair(const search *x, uint8_t *set, const vm_lg_access *a, const vm_lg_access *b) {
  size_t bit = (size_t)(a->alike - 1) * x->l->nalike + b->alike - 1;
  set[bit / 8] |= (uint8_t)(1u << bit % 8);
}

/* A write alike has ended before a read that is open. It does so in every execution: else the two
 * are a race. The first time all is gone through, it is taken for granted that neither of the
 * writes has to come first. */
static bool saves(void *ud, const vm_lg_access *mine, const vm_lg_access *write,
                  const vm_lg_access *read) {
  search *x = ud;
  (void)read;
  if (!vm_lg_ended(x->l, x->state, mine)) return false;
  /* In the second round only what has really been open together counts. */
  if (x->again) return has_pair(x, x->seen, mine, write);
  add_pair(x, x->wanted, mine, write);
  return true;
}

static bool has_seen_all(const search *x) {
  for (size_t i = 0; i < bytes_of_pairs(x->l); i++)
    if (x->wanted[i] & ~x->seen[i]) return false;
  return true;
}

static bool open_pairs(search *x) {
  const vm_legal *l = x->l;
  x->excuse = (vm_lg_excuse){.saves = saves, .ud = x};
  /* Too many for a bit each: explore_all gives up. */
  if (l->nalike > MOST_ALIKE) return true;
  x->seen = isa_zalloc(&l->al, bytes_of_pairs(l));
  x->wanted = isa_zalloc(&l->al, bytes_of_pairs(l));
  return x->seen && x->wanted;
}

static void close_pairs(search *x) {
  if (x->seen) isa_free(&x->l->al, x->seen, bytes_of_pairs(x->l));
  if (x->wanted) isa_free(&x->l->al, x->wanted, bytes_of_pairs(x->l));
}

/* Whether two accesses that are open at once in x->state are no race. */
static bool excused(search *x, const vm_lg_access *a, const vm_lg_access *b) {
  if (!vm_lg_excused(x->l, &x->excuse, a, b)) return false;
  if (a->alike && b->alike) {
    add_pair(x, x->seen, a, b);
    add_pair(x, x->seen, b, a);
  }
  return true;
}

/* An item has started: whether another one that it overlaps is open. */
static void look(search *x, const uint32_t *v, uint32_t item) {
  if (item == NONE) return;
  for (uint32_t i = x->first[item]; i < x->first[item + 1] && !x->race[0]; i++) {
    const vm_lg_access *mine = &x->l->accesses[x->meets[2 * i]],
                       *other = &x->l->accesses[x->meets[2 * i + 1]];
    x->state = v;
    if (!vm_lg_open(x->l, v, other) || excused(x, mine, other)) continue;
    x->race[0] = other;
    x->race[1] = mine;
  }
}

/* Whether all items that could overlap this one have started, and so have ended. */
static bool met_all(const search *x, const uint32_t *v, uint32_t item) {
  for (uint32_t i = x->first[item]; i < x->first[item + 1]; i++)
    if (!vm_lg_started(x->l, v, vm_lg_item_of(x->l, &x->l->accesses[x->meets[2 * i + 1]])))
      return false;
  return true;
}

/* ---- Moves --------------------------------------------------------------------------------- */

static void start_flights(search *x, uint32_t *v, unsigned e) {
  for (uint32_t item; (item = vm_lg_start(x->l, v, e)) != NONE;) look(x, v, item);
}

/* What starts after a move of an engine. */
static void look_after(search *x, uint32_t *v, const vm_lg_move *m) {
  const vm_legal *l = x->l;
  start_flights(x, v, m->who);
  if (m->what != LG_STEP || l->eng[m->who].steps[m->number].kind != VM_LEGAL_TRIGGER) return;
  const vm_lg_queue *q = &l->queues[l->eng[m->who].steps[m->number].queue];
  for (unsigned r = 0; r < q->rings; r++) look(x, v, vm_lg_open_share(l, v, q->first + r));
}

/* Makes a move and looks at what it starts. */
static void make(search *x, uint32_t *v, const vm_lg_move *m) {
  const vm_legal *l = x->l;
  if (x->path) vm_lg_path_add(x->l, x->path, m);
  /* The move took a semaphore below zero. */
  if (!vm_lg_do(l, v, m)) {
    x->below = true;
    return;
  }
  if (m->what == LG_SHARE) {
    look(x, v, vm_lg_open_share(l, v, m->who));
  } else if (m->what != LG_ARRIVE) {
    look_after(x, v, m);
    vm_lg_move twin;
    if (vm_lg_twin(l, m, &twin)) look_after(x, v, &twin);
  }
  for (unsigned e = 0; e < x->l->nengines; e++)
    if (l->eng[e].touches) look(x, v, vm_lg_open_touch(l, v, e));
}

/* Whether what ends by a move updates a semaphore that another of the engine's components updates
 * too: then the order of the ends decides which comes first. */
static bool has_rival(const vm_legal *l, const vm_legal_step *s, unsigned comp) {
  if (s->update == ISA_UPD_none || !l->mixed[s->to]) return false;
  for (uint32_t i = 0; i < l->nflows; i++)
    if (l->flows[i].sem == s->to && l->flows[i].comp != comp && l->flows[i].comp < LG_FIRST_RING &&
        vm_lg_same_source(l->flows[i].comp, comp))
      return true;
  return false;
}

/* Whether a move that can happen needs no choice; for a sendrecv's, this half of it. */
static bool half_at_once(const search *x, const uint32_t *v, const vm_lg_move *m) {
  const vm_legal *l = x->l;
  /* An arrival changes what waits see. */
  if (m->what == LG_ARRIVE) return false;
  if (m->what == LG_SHARE) return met_all(x, v, vm_lg_open_share(l, v, m->who));
  const vm_lg_engine *en = &l->eng[m->who];
  if (m->what != LG_STEP) {
    uint32_t item = en->flights[m->number - 1];
    bool rival = has_rival(l, vm_lg_step_of(l, &l->items[item]), vm_lg_comp_of(m));
    return !rival && met_all(x, v, item);
  }
  const vm_legal_step *s = &en->steps[m->number];
  /* Such a wait may hold now and not later. */
  if (s->cond != ISA_WAIT_none && l->mixed[s->sem]) return false;
  /* Everybody sees an update at once. */
  if (s->at_once && s->update != ISA_UPD_none) return false;
  return en->open[m->number] == NONE || met_all(x, v, en->open[m->number]);
}

static bool at_once(const search *x, const uint32_t *v, const vm_lg_move *m) {
  vm_lg_move twin;
  return half_at_once(x, v, m) && (!vm_lg_twin(x->l, m, &twin) || half_at_once(x, v, &twin));
}

/* Calls fn for each move that can happen, until it gives false. */
static bool each_move(search *x, const uint32_t *v, bool (*fn)(search *x, const vm_lg_move *m)) {
  const vm_legal *l = x->l;
  vm_lg_move m;
  for (unsigned e = 0; e < x->l->nengines; e++)
    for (unsigned what = LG_STEP; what <= LG_LOADED && l->eng[e].nsteps; what++) {
      m = (vm_lg_move){.what = (uint8_t)what, .who = (uint16_t)e};
      if (vm_lg_can(l, v, &m) && !fn(x, &m)) return false;
    }
  for (uint32_t r = 0; r < l->nrings; r++) {
    m = (vm_lg_move){.what = LG_SHARE, .who = (uint16_t)r};
    if (vm_lg_can(l, v, &m) && !fn(x, &m)) return false;
  }
  for (uint32_t f = 0; f < l->nflows; f++) {
    m = (vm_lg_move){.what = LG_ARRIVE, .who = (uint16_t)f};
    if (vm_lg_can(l, v, &m) && !fn(x, &m)) return false;
  }
  return true;
}

static bool stopped(const search *x) { return x->race[0] || x->below || x->no_memory; }

static bool make_at_once(search *x, const vm_lg_move *m) {
  if (!at_once(x, x->next, m)) return true;
  make(x, x->next, m);
  return false;
}

/* Makes all moves that need no choice in x->next. */
static void settle(search *x) {
  while (!stopped(x) && !each_move(x, x->next, make_at_once)) continue;
}

/* ---- States -------------------------------------------------------------------------------- */

static bool grow_table(search *x) {
  uint32_t n = x->ntable ? 2 * x->ntable : 1024, *old = x->table, nold = x->ntable;
  uint32_t *table = isa_zalloc(&x->l->al, n * sizeof *table);
  if (!table) return false;
  for (uint32_t s = 0; s < x->n; s++) {
    /* At most half of it is used (room_for_state). */
    uint64_t h = isa_hash_words(x->kept + (size_t)s * x->nlive, x->nlive);
    while (table[h % n]) h++;
    table[h % n] = s + 1;
  }
  if (old) isa_free(&x->l->al, old, nold * sizeof *old);
  x->table = table;
  x->ntable = n;
  return true;
}

static bool room_for_state(search *x) {
  const isa_alloc *al = &x->l->al;
  if (2 * (x->n + 1) > x->ntable && !grow_table(x)) return false;
  if (x->n == x->cap_states &&
      !isa_array_grow(al, &x->states, x->n, &x->cap_states, sizeof *x->states))
    return false;
  return x->n < x->cap_kept ||
         isa_array_grow(al, &x->kept, x->n, &x->cap_kept, (x->nlive + 1) * sizeof *x->kept);
}

/* Keeps x->next, unless it has been there. */
static void keep(search *x, uint32_t from, const vm_lg_move *m) {
  if (!room_for_state(x)) {
    x->no_memory = true;
    return;
  }
  uint32_t *to = x->kept + (size_t)x->n * x->nlive;
  /* Words that never change are in no state. */
  for (uint32_t i = 0; i < x->nlive; i++) to[i] = x->next[x->live[i]];
  uint64_t h = isa_hash_words(to, x->nlive);
  for (; x->table[h % x->ntable]; h++) {
    uint32_t s = x->table[h % x->ntable] - 1;
    if (memcmp(x->kept + (size_t)s * x->nlive, to, x->nlive * sizeof *to) == 0) return;
  }
  x->table[h % x->ntable] = x->n + 1;
  x->states[x->n++] = (state){from, *m};
}

static void load(const search *x, uint32_t s, uint32_t *v) {
  memset(v, 0, x->words * sizeof *v);
  for (uint32_t i = 0; i < x->nlive; i++) v[x->live[i]] = x->kept[(size_t)s * x->nlive + i];
}

/* Words that can change and do not follow from others. */
static bool find_live(search *x) {
  const vm_legal *l = x->l;
  x->live = isa_zalloc(&l->al, (x->words + 1) * sizeof *x->live);
  for (unsigned e = 0; e < x->l->nengines && x->live; e++) {
    const vm_lg_engine *en = &l->eng[e];
    const bool has[LG_WORDS] = {[LG_POS] = en->nsteps > 0,
                                [LG_S] = en->nflights > 0,
                                [LG_R] = en->last_read > 0,
                                [LG_D] = en->next_main[0] != NONE,
                                [LG_W] = en->next_load[0] != NONE};
    for (unsigned w = 0; w < LG_WORDS; w++)
      if (has[w]) x->live[x->nlive++] = (uint16_t)(LG_WORDS * e + w);
  }
  for (uint32_t i = LG_WORDS * x->l->nengines; i < x->words && x->live; i++)
    x->live[x->nlive++] = (uint16_t)i;
  return x->live != NULL;
}

/* ---- The search ---------------------------------------------------------------------------- */

static bool follow(search *x, const vm_lg_move *m) {
  memcpy(x->next, x->v, x->words * sizeof *x->v);
  x->chosen = *m;
  make(x, x->next, m);
  settle(x);
  if (!stopped(x)) keep(x, x->at, m);
  return !stopped(x);
}

static bool any(search *x, const vm_lg_move *m) {
  (void)x, (void)m;
  return false;
}

static void begin(search *x) {
  memset(x->next, 0, x->words * sizeof *x->next);
  for (unsigned e = 0; e < x->l->nengines; e++) start_flights(x, x->next, e);
  for (unsigned e = 0; e < x->l->nengines; e++)
    look(x, x->next, vm_lg_open_touch(x->l, x->next, e));
  settle(x);
}

/* The moves to state s, and then move m. */
static void find_path(search *x, uint32_t s, const vm_lg_move *m, vm_lg_path *p) {
  vm_lg_path back = {0};
  /* From the last state back to the first. */
  for (; s != 0; s = x->states[s].from) vm_lg_path_add(x->l, &back, &x->states[s].move);
  x->race[0] = x->race[1] = NULL;
  x->below = false;
  x->path = p;
  begin(x);
  for (uint32_t i = back.n; i-- > 0 && !stopped(x);) {
    make(x, x->next, &back.v[i]);
    settle(x);
  }
  if (m && !stopped(x)) {
    make(x, x->next, m);
    settle(x);
  }
  x->no_memory |= back.failed || p->failed;
  vm_lg_path_free(x->l, &back);
}

/* A step that an engine has not passed: that of the first engine that waits for a semaphore; else
 * the first. */
static vm_legal_place standing(const vm_legal *l, const uint32_t *v) {
  const vm_legal_step *first = NULL;
  for (unsigned e = 0; e < l->nengines; e++) {
    if (v[LG_WORDS * e + LG_POS] >= l->eng[e].nsteps) continue;
    const vm_legal_step *s = &l->eng[e].steps[v[LG_WORDS * e + LG_POS]];
    bool waits = s->cond != ISA_WAIT_none &&
                 !isa_cond_holds(s->cond, v[vm_lg_value_at(l, s->sem)], s->value);
    if (waits) return (vm_legal_place){.step = s, .ring = -1};
    if (!first) first = s;
  }
  return (vm_legal_place){.step = first, .ring = -1};
}

static void tell(search *x, uint32_t s, const vm_lg_move *m, vm_legal_result *out) {
  vm_lg_path path = {0};
  bool below = x->below;
  find_path(x, s, m, &path);
  if (x->no_memory) {
    out->verdict = VM_LEGAL_NOMEM;
  } else if (x->race[0]) {
    vm_lg_report_race(x->l, &path, x->race[0], x->race[1], out);
  } else {
    const vm_lg_move *last = path.n ? &path.v[path.n - 1] : NULL;
    out->verdict = below ? VM_LEGAL_BELOW : VM_LEGAL_LUCKY;
    out->place[0] = standing(x->l, x->next);
    if (below && last && last->what == LG_ARRIVE) {
      const vm_lg_update *u = &x->l->flows[last->who].v[last->number];
      out->place[0] = (vm_legal_place){.step = &x->l->eng[u->engine].steps[u->step], .ring = -1};
    } else if (below && last && last->what == LG_STEP) {
      out->place[0] =
          (vm_legal_place){.step = &x->l->eng[last->who].steps[last->number], .ring = -1};
    }
    vm_lg_put_order(x->l, path.v, path.n, &out->order[0]);
    if (out->order[0].failed) out->verdict = VM_LEGAL_NOMEM;
  }
  vm_lg_path_free(x->l, &path);
}

/* Forgets all but what has been open at once. */
static void start_again(search *x) {
  x->again = true;
  x->n = 0;
  if (x->table) memset(x->table, 0, x->ntable * sizeof *x->table);
}

static void explore(search *x, uint32_t most, vm_legal_result *out) {
  begin(x);
  if (!stopped(x)) keep(x, 0, &(vm_lg_move){0});
  if (x->race[0] || x->below) tell(x, 0, NULL, out);
  for (x->at = 0; x->at < x->n && !stopped(x); x->at++) {
    load(x, x->at, x->v);
    /* Too many states: nothing is decided. */
    if (x->n > most) {
      out->verdict = VM_LEGAL_UNKNOWN;
      out->place[0] = standing(x->l, x->v);
      return;
    }
    if (each_move(x, x->v, any)) { /* none exists */
      /* Every engine has come to its end. */
      if (vm_lg_halted(x->l, x->v)) continue;
      tell(x, x->at, NULL, out);
      return;
    }
    if (each_move(x, x->v, follow) || x->no_memory) continue;
    tell(x, x->at, &x->chosen, out);
    return;
  }
}

static void explore_all(search *x, uint32_t most, vm_legal_result *out) {
  bool fits = x->l->nalike <= MOST_ALIKE;
  if (fits) explore(x, most, out);
  /* An order was taken for granted that was never seen: once more without it. */
  if (fits && out->verdict == VM_LEGAL_SAME && !has_seen_all(x)) {
    start_again(x);
    explore(x, most, out);
  }
  out->states = x->n;
  out->alike = x->excuse.any;
  if (out->verdict != VM_LEGAL_SAME || (fits && !x->excuse.tired)) return;
  out->verdict = VM_LEGAL_UNKNOWN;
  out->why = VM_LG_TIRED;
}

static bool open_search(search *x, vm_legal *l) {
  *x = (search){
      .l = l, .words = vm_lg_words(l), .v = vm_lg_new_state(l), .next = vm_lg_new_state(l)};
  if (!x->v || !x->next || !find_live(x)) return false;
  vm_lg_each_meeting(l, add_meetings, x);
  return !x->no_memory && index_meetings(x) && open_pairs(x);
}

static void close_search(search *x) {
  const isa_alloc *al = &x->l->al;
  vm_lg_free_state(x->l, x->v);
  vm_lg_free_state(x->l, x->next);
  close_pairs(x);
  if (x->live) isa_free(al, x->live, (x->words + 1) * sizeof *x->live);
  if (x->kept) isa_free(al, x->kept, x->cap_kept * (x->nlive + 1) * sizeof *x->kept);
  if (x->states) isa_free(al, x->states, x->cap_states * sizeof *x->states);
  if (x->table) isa_free(al, x->table, x->ntable * sizeof *x->table);
  if (x->meets) isa_free(al, x->meets, x->cap_meets * sizeof *x->meets);
  if (x->first) isa_free(al, x->first, (x->l->nitems + 2) * sizeof *x->first);
}

void vm_legal_states(vm_legal *l, uint32_t most, vm_legal_result *out) {
  search x = {0};
  vm_lg_clear_result(l, out);
  if (vm_lg_prepare(l) && open_search(&x, l)) {
    explore_all(&x, most, out);
  } else {
    x.no_memory = true;
  }
  if (x.no_memory) out->verdict = VM_LEGAL_NOMEM;
  if (x.l) close_search(&x);
}

void vm_legal_judge(vm_legal *l, vm_legal_result *out) {
  vm_lg_clear_result(l, out);
  if (!vm_lg_prepare(l)) {
    out->verdict = VM_LEGAL_NOMEM;
  } else if (l->why) {
    out->verdict = VM_LEGAL_UNKNOWN;
    out->why = l->why;
  } else if (vm_legal_counts(l)) {
    vm_legal_count(l, out);
  } else {
    vm_legal_states(l, VM_LEGAL_STATES, out);
  }
}
