/* Whether waits end in every order of the updates. A wait ends for certain if, whenever all else
 * has come to a standstill, the value is one that it waits for. All else goes on through waits that
 * end for certain, so each wait that is found helps to find others; a sendrecv counts as a wait. */
#include "mixed.h"

#include <string.h>

#define NEVER UINT32_MAX

typedef struct engine_waits {
  uint32_t *steps; /* in order */
  uint32_t *next;  /* of each, a later one before which all are certain; 0: not known */
  uint32_t n;
} engine_waits;

/* States of a semaphore, by the node that is next in each chain of waits. */
typedef struct standing {
  uint32_t *first; /* of each node, a state + 1; 0: none exists */
  uint32_t *next;  /* of each chain and state, the next such state + 1 */
} standing;

enum { LISTS = VM_CK_SEMS * VM_CK_SOURCES }; /* updates of each semaphore by each engine */

typedef struct lucky {
  vm_core *c;
  const vm_ck_log *g;
  const vm_ck_mixed *x;
  const vm_ck_must *m;
  engine_waits of[VM_CK_ENGINES];
  bool *certain;                  /* of each step */
  uint32_t nsteps, value;         /* value: at which the last wait stood that may not end */
  uint32_t stands[VM_CK_ENGINES]; /* how far sequencers come for certain */
  uint32_t *list;                 /* updates by semaphore and engine, in order */
  uint32_t *start;                /* where each list begins; one more for the end */
  int64_t *sum;                   /* sums of the updates of a list, up to each */
  standing *at;                   /* of each semaphore */
} lucky;

/* A step at which an engine may stand: a wait or a sendrecv. */
static bool is_wait(const vm_ck_step *s) {
  return s->kind == VM_CK_WAIT || s->kind == VM_CK_HELD || s->kind == VM_CK_MEET;
}

/* ---- How far an engine goes ---------------------------------------------------------------- */

/* The first wait from number i on that is not certain. */
static uint32_t first_open(lucky *y, unsigned e, uint32_t i) {
  engine_waits *w = &y->of[e];
  uint32_t at = i;
  while (at < w->n && y->certain[w->steps[at]]) at = w->next[at] > at ? w->next[at] : at + 1;
  for (uint32_t to; i < at; i = to) { /* the next search is shorter */
    to = w->next[i] > i ? w->next[i] : i + 1;
    w->next[i] = at;
  }
  return at;
}

/* The first wait of engine e after epoch seq of its sequencer. */
static uint32_t wait_after(const lucky *y, unsigned e, uint32_t seq) {
  const engine_waits *w = &y->of[e];
  uint32_t lo = 0, hi = w->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (y->g->steps[w->steps[mid]].seq <= seq)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* How far engine e certainly comes after it has come to epoch seq: to before this epoch. */
static uint32_t comes_to(lucky *y, unsigned e, uint32_t seq) {
  const engine_waits *w = &y->of[e];
  uint32_t at = first_open(y, e, wait_after(y, e, seq));
  return at < w->n ? y->g->steps[w->steps[at]].seq : NEVER;
}

/* ---- Semaphores that count ----------------------------------------------------------------- */

/* What engine e adds to a semaphore before epoch `stands` of its sequencer. */
static int64_t added(const lucky *y, unsigned sem, unsigned e, uint32_t stands) {
  uint32_t from = y->start[sem * VM_CK_SOURCES + e], lo = from;
  uint32_t hi = y->start[sem * VM_CK_SOURCES + e + 1];
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (y->g->updates[y->list[mid]].own[OF_SEQ] < stands)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo > from ? y->sum[lo - 1] : 0;
}

static bool ends_counting(lucky *y, const vm_ck_step *s) {
  const uint32_t *known = vm_ck_must_clock(y->m, s->prev);
  int64_t sum = 0;
  for (unsigned e = 0; e < y->c->check->nengines; e++) {
    uint32_t from = known[vm_ck_comp(e, OF_SEQ)];
    /* Its own updates after the wait cannot help it. */
    sum += added(y, s->sem, e, e == s->engine ? s->seq : comes_to(y, e, from));
  }
  return sum >= s->want;
}

static unsigned list_of(const vm_ck_signal *u) {
  return (unsigned)u->sem * VM_CK_SOURCES + u->engine;
}

static bool list_updates(lucky *y) {
  const isa_alloc *al = &y->c->al;
  uint32_t n = y->g->nupdates, *at;
  y->list = isa_zalloc(al, (n + 1) * sizeof *y->list);
  y->sum = isa_zalloc(al, (n + 1) * sizeof *y->sum);
  y->start = isa_zalloc(al, (LISTS + 2) * sizeof *y->start);
  if (!y->list || !y->sum || !y->start) return false;
  at = y->start + 1; /* where each list ends so far; at last, where it begins */
  for (uint32_t i = 0; i < n; i++) at[list_of(&y->g->updates[i]) + 1]++;
  for (uint32_t i = 1; i <= LISTS; i++) at[i] += at[i - 1];
  for (uint32_t i = 0; i < n; i++) y->list[at[list_of(&y->g->updates[i])]++] = i;
  for (uint32_t i = 0; i < n; i++) {
    const vm_ck_signal *u = &y->g->updates[y->list[i]];
    y->sum[i] = u->delta + (i > y->start[list_of(u)] ? y->sum[i - 1] : 0);
  }
  return true;
}

/* ---- Others -------------------------------------------------------------------------------- */

/* Whether an engine comes to its next wait on the semaphore, or to the value that it sets at once,
 * and can go on there. */
static bool goes_on(const lucky *y, const mixed_sem *s, const mixed_chain *h, const uint32_t *at,
                    uint32_t stands) {
  uint32_t k = at[h - s->chains];
  if (k == h->n) return false;
  const mixed_node *d = &h->v[k];
  uint32_t seq = vm_ck_mixed_seq(y->x, d);
  if (seq > stands) return false;
  if (seq < stands || !d->wait) return true;
  const vm_ck_step *w = &y->g->steps[d->wait - 1];
  return isa_cond_holds(w->cond, at[s->nchains], w->value);
}

/* Whether all has come to a standstill in a state in which engine e waits at step `step`. */
static bool is_still(lucky *y, const mixed_sem *s, uint32_t step, const uint32_t *at) {
  const vm_ck_step *w = &y->g->steps[step];
  const uint32_t *cut = vm_ck_mixed_cut(y->x, s, at), *known = vm_ck_must_clock(y->m, w->prev);
  for (unsigned e = 0; e < y->c->check->nengines; e++) {
    unsigned seq = vm_ck_comp(e, OF_SEQ);
    uint32_t from = cut[seq] > known[seq] ? cut[seq] : known[seq];
    y->stands[e] = e == w->engine ? w->seq : comes_to(y, e, from);
  }
  for (uint32_t i = 0; i < s->nchains; i++) {
    const mixed_chain *h = &s->chains[i];
    uint32_t k = at[i] / h->rings;
    unsigned e = h->flow ? 0 : vm_ck_engine_of(h->comp);
    if (!h->flow && e != w->engine && goes_on(y, s, h, at, y->stands[e])) return false;
    const vm_ck_signal *u = h->flow && k < h->n ? h->v[k].update : NULL;
    /* An update of a sequencer that comes past it would still change the value. */
    if (u && u->own[OF_SEQ] < y->stands[u->engine]) return false; /* it comes */
  }
  return true;
}

/* Lists the states of each semaphore by where its waits stand. */
static bool list_states(lucky *y) {
  const isa_alloc *al = &y->c->al;
  y->at = isa_zalloc(al, y->x->nsems * sizeof *y->at);
  for (uint32_t i = 0; y->at && i < y->x->nsems; i++) {
    const mixed_sem *s = &y->x->sems[i];
    standing *to = &y->at[i];
    if (s->open) continue;
    to->first = isa_zalloc(al, (s->nnodes + 1) * sizeof *to->first);
    to->next = isa_zalloc(al, ((size_t)s->nchains * s->nstates + 1) * sizeof *to->next);
    if (!to->first || !to->next) return false;
    for (uint32_t c = 0; c < s->nchains; c++)
      /* Backwards, so that each list has the lower states first. */
      for (uint32_t k = s->nstates; k-- > 0 && !s->chains[c].flow;) {
        uint32_t node = vm_ck_mixed_state(s, k)[c];
        if (node == s->chains[c].n) continue;
        uint32_t *first = &to->first[s->chains[c].first + node];
        to->next[(size_t)c * s->nstates + k] = *first;
        *first = k + 1;
      }
  }
  return y->at != NULL;
}

static void free_states(lucky *y) {
  const isa_alloc *al = &y->c->al;
  for (uint32_t i = 0; y->at && i < y->x->nsems; i++) {
    const mixed_sem *s = &y->x->sems[i];
    standing *of = &y->at[i];
    if (of->first) isa_free(al, of->first, (s->nnodes + 1) * sizeof *of->first);
    if (of->next) isa_free(al, of->next, ((size_t)s->nchains * s->nstates + 1) * sizeof *of->next);
  }
  if (y->at) isa_free(al, y->at, y->x->nsems * sizeof *y->at);
}

/* The node of a wait in its chain. */
static uint32_t node_of(const lucky *y, const mixed_chain *h, const vm_ck_step *w) {
  uint32_t lo = 0, hi = h->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (vm_ck_mixed_seq(y->x, &h->v[mid]) < w->seq)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

static bool ends_mixed(lucky *y, uint32_t step) {
  const vm_ck_step *w = &y->g->steps[step];
  uint32_t i = 0, c = 0;
  while (i < y->x->nsems && y->x->sems[i].sem != w->sem) i++;
  const mixed_sem *s = &y->x->sems[i];
  if (i == y->x->nsems || s->open) return true; /* what the run showed has already been reported */
  while (s->chains[c].flow || vm_ck_engine_of(s->chains[c].comp) != w->engine) c++;
  const mixed_chain *h = &s->chains[c];
  uint32_t k = node_of(y, h, w), *next = y->at[i].next + (size_t)c * s->nstates;
  for (uint32_t of = k < h->n ? y->at[i].first[h->first + k] : 0; of; of = next[of - 1]) {
    const uint32_t *at = vm_ck_mixed_state(s, of - 1);
    /* In this state the wait ends. */
    if (isa_cond_holds(w->cond, at[s->nchains], w->value)) continue;
    if (!vm_ck_mixed_met(s, h, k, at) || !is_still(y, s, step, at)) continue;
    y->value = at[s->nchains];
    return false;
  }
  return true;
}

/* A sendrecv ends when the other core's engine certainly comes to its own half, whose step is next
 * to this one. */
static bool ends_meeting(lucky *y, uint32_t step) {
  const vm_ck_step *s = &y->g->steps[step], *other = s + 1;
  if (step + 1 == y->nsteps || other->kind != VM_CK_MEET || other->other != s->prev) other = s - 1;
  uint32_t from = vm_ck_must_clock(y->m, s->prev)[vm_ck_comp(other->engine, OF_SEQ)];
  return comes_to(y, other->engine, from) >= other->seq;
}

static bool ends(lucky *y, uint32_t step) {
  const vm_ck_step *s = &y->g->steps[step];
  if (s->kind == VM_CK_MEET) return ends_meeting(y, step);
  return s->kind == VM_CK_WAIT ? ends_counting(y, s) : ends_mixed(y, step);
}

/* ---- All of them --------------------------------------------------------------------------- */

/* Whether step i says more than `first` about what may not end; a sendrecv waits for what another
 * engine waits for. */
static bool is_found(const lucky *y, uint32_t first, uint32_t i) {
  if (y->g->steps[i].kind == VM_CK_MEET) return false;
  return first == NEVER || y->g->steps[first].kind == VM_CK_WAIT;
}

/* Finds waits that certainly end until there are no more; gives the first that may not; NEVER:
 * none.
 */
static uint32_t find_certain(lucky *y) {
  uint32_t first = NEVER;
  for (bool more = true; more;) {
    more = false;
    first = NEVER;
    for (uint32_t i = 0; i < y->nsteps; i++) {
      if (!is_wait(&y->g->steps[i]) || y->certain[i]) continue;
      if (ends(y, i))
        more = y->certain[i] = true;
      else if (is_found(y, first, i))
        first = i;
    }
  }
  return first;
}

/* One of the waits that may not end: one that may not even if all others do, else the first. */
static uint32_t find_cause(lucky *y, uint32_t first) {
  uint32_t found = NEVER;
  bool *certain = y->certain;
  bool *all = isa_zalloc(&y->c->al, y->nsteps + 1);
  if (!all) return first;
  memset(all, true, y->nsteps);
  /* These shortcuts were of the waits found before. */
  for (unsigned e = 0; e < y->c->check->nengines; e++)
    memset(y->of[e].next, 0, y->of[e].n * sizeof *y->of[e].next);
  y->certain = all;
  for (uint32_t i = 0; i < y->nsteps && found == NEVER; i++)
    if (y->g->steps[i].kind == VM_CK_HELD && !certain[i] && !ends(y, i)) found = i;
  y->certain = certain;
  isa_free(&y->c->al, all, y->nsteps + 1);
  return found == NEVER ? first : found;
}

static bool find_waits(lucky *y) {
  const isa_alloc *al = &y->c->al;
  y->certain = isa_zalloc(al, y->nsteps + 1);
  for (uint32_t i = 0; i < y->nsteps; i++)
    if (is_wait(&y->g->steps[i])) y->of[y->g->steps[i].engine].n++;
  for (unsigned e = 0; e < y->c->check->nengines; e++) {
    engine_waits *w = &y->of[e];
    w->steps = isa_zalloc(al, 2 * (w->n + 1) * sizeof *w->steps);
    if (!w->steps || !y->certain) return false;
    w->next = w->steps + w->n + 1;
    w->n = 0;
  }
  for (uint32_t i = 0; i < y->nsteps; i++) {
    if (!is_wait(&y->g->steps[i])) continue;
    engine_waits *w = &y->of[y->g->steps[i].engine];
    w->steps[w->n++] = i;
  }
  return true;
}

static void free_waits(lucky *y) {
  const isa_alloc *al = &y->c->al;
  for (unsigned e = 0; e < y->c->check->nengines; e++)
    if (y->of[e].steps) isa_free(al, y->of[e].steps, 2 * (y->of[e].n + 1) * sizeof(uint32_t));
  if (y->certain) isa_free(al, y->certain, y->nsteps + 1);
  if (y->list) isa_free(al, y->list, (y->g->nupdates + 1) * sizeof *y->list);
  if (y->sum) isa_free(al, y->sum, (y->g->nupdates + 1) * sizeof *y->sum);
  if (y->start) isa_free(al, y->start, (LISTS + 2) * sizeof *y->start);
  free_states(y);
}

/* ---- Findings ------------------------------------------------------------------------------ */

static bool is_told(const struct vm_check *k, unsigned sem) {
  for (uint32_t i = 0; i < k->nfindings; i++)
    if (k->findings[i].sem == sem + 1) return true;
  return false;
}

static bool is_of(const void *ud, const vm_finding *f) {
  const mixed_sem *s = ud;
  return f->sem == s->sem + 1;
}

static void tell(lucky *y, uint32_t stuck) {
  struct vm_check *k = y->c->check;
  const vm_ck_step *w = stuck == NEVER ? NULL : &y->g->steps[stuck];
  for (uint32_t i = 0; i < y->x->nsems; i++) {
    const mixed_sem *s = &y->x->sems[i];
    if (s->open) continue;
    /* It holds in every order: what the run's order made a finding is taken back. */
    if (!s->below && !(w && w->sem == s->sem)) vm_ck_take_back(y->c, is_of, s);
    if (s->below && !is_told(k, s->sem)) vm_ck_report_too_low(y->c, s->below);
  }
  if (w && !is_told(k, w->sem)) vm_ck_report_stuck(y->c, w, y->value);
}

void vm_ck_judge_waits(vm_core *c, const vm_ck_must *m) {
  lucky y = {.c = c, .g = &c->check->log, .x = vm_ck_must_mixed(m), .m = m};
  if (y.x->nsems == 0 || !y.x->whole) return;
  y.nsteps = y.x->nsteps;
  if (find_waits(&y) && list_updates(&y) && list_states(&y)) {
    uint32_t stuck = find_certain(&y);
    if (stuck != NEVER) stuck = find_cause(&y, stuck);
    tell(&y, stuck);
  } else {
    vm_ck_out_of_memory(c);
  }
  free_waits(&y);
}
