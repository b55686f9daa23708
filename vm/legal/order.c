/* Executions as lists of moves, and their text for a reader. */
#include "model.h"

#include <string.h>

/* Both bounds are for readers and for time: trimming replays all moves once for each. */
enum {
  MOST_TRIMMED = 256, /* moves of an execution for which leaving each one out is tried */
  MOST_SHOWN = 24
};

/* The failure is kept, and asked for once at the end. */
void vm_lg_path_add(vm_legal *l, vm_lg_path *p, const vm_lg_move *m) {
  if (p->n == p->cap && !isa_array_grow(&l->al, &p->v, p->n, &p->cap, sizeof *p->v)) {
    p->failed = true;
    return;
  }
  p->v[p->n++] = *m;
}

void vm_lg_path_free(vm_legal *l, vm_lg_path *p) {
  /* All of the room is given back, not only what is used. */
  if (p->v) isa_free(&l->al, p->v, p->cap * sizeof *p->v);
}

uint32_t *vm_lg_new_state(const vm_legal *l) {
  /* One word more, since nothing may be of size zero. */
  return isa_zalloc(&l->al, (vm_lg_words(l) + 1) * sizeof(uint32_t));
}

void vm_lg_free_state(const vm_legal *l, uint32_t *v) {
  if (v) isa_free(&l->al, v, (vm_lg_words(l) + 1) * sizeof *v);
}

bool vm_lg_open(const vm_legal *l, const uint32_t *v, const vm_lg_access *a) {
  const vm_lg_item *it = vm_lg_item_of(l, a);
  /* Shares and flights start and end by counters; a touch is open while its engine
   * stands before it. */
  if (it->kind == VM_LEGAL_FLIGHT || it->ring >= 0)
    return vm_lg_started(l, v, it) && !vm_lg_ended(l, v, a);
  return vm_lg_open_touch(l, v, it->engine) == a->item;
}

/* Empty buffers, so that the caller can free a result of any verdict. */
void vm_lg_clear_result(const vm_legal *l, vm_legal_result *out) {
  *out = (vm_legal_result){.verdict = VM_LEGAL_SAME};
  isa_buf_init(&out->order[0], &l->al);
  isa_buf_init(&out->order[1], &l->al);
}

vm_legal_place vm_lg_place_of(const vm_legal *l, const vm_lg_access *a) {
  const vm_lg_item *it = vm_lg_item_of(l, a);
  return (vm_legal_place){
      .step = vm_lg_step_of(l, it),
      /* Within its queue, as the user numbers rings. */
      .ring = it->ring < 0 ? -1 : (int16_t)(it->ring - l->queues[l->ring_queue[it->ring]].first),
      .access = &a->a};
}

/* ---- The moves that matter ----------------------------------------------------------------- */

/* Starts follow at once in every execution; see machine.c. */
static void start_all(const vm_legal *l, uint32_t *v) {
  for (unsigned e = 0; e < l->nengines; e++)
    while (vm_lg_start(l, v, e) != UINT32_MAX) continue;
}

/* Makes all moves except number `without`; false: one of them cannot happen then. */
static bool replay(const vm_legal *l, uint32_t *v, const vm_lg_path *p, uint32_t without) {
  /* Zero is the beginning for each word of a state. */
  memset(v, 0, vm_lg_words(l) * sizeof *v);
  for (uint32_t i = 0; i < p->n; i++) {
    vm_lg_move m = p->v[i];
    /* A move is left out by its place, not by what it is: the same move may happen
     * several times. */
    if (i == without) continue;
    /* The number tells whether it is the same move as before: without an earlier one it
     * would be another. */
    if (!vm_lg_can(l, v, &m) || m.number != p->v[i].number || !vm_lg_do(l, v, &m)) return false;
    start_all(l, v);
  }
  return true;
}

/* Drops moves without which the two accesses are open too. */
static void trim(const vm_legal *l, uint32_t *v, vm_lg_path *p, const vm_lg_access *a,
                 /* Long executions stay as they are. */
                 const vm_lg_access *b) {
  /* From the end, because later moves depend on earlier ones. */
  if (p->n > MOST_TRIMMED) return;
  for (uint32_t i = p->n; i-- > 0;) {
    if (!replay(l, v, p, i) || !vm_lg_open(l, v, a) || !vm_lg_open(l, v, b)) continue;
    /* The order of the rest is kept; the numbers too, as replay has just shown. */
    memmove(p->v + i, p->v + i + 1, (p->n - i - 1) * sizeof *p->v);
    p->n--;
  }
}

/* Moves until an open access has ended. */
static void end_access(vm_legal *l, uint32_t *v, vm_lg_path *p, const vm_lg_access *a) {
  /* All three kinds of ends: the reading must have ended before the end itself can. */
  static const uint8_t ends[] = {LG_LOADED, LG_READ_END, LG_END};
  const vm_lg_item *it = vm_lg_item_of(l, a);
  for (bool more = true; more && !vm_lg_ended(l, v, a);) {
    more = false;
    for (unsigned i = 0; i < 3 && !more; i++) {
      vm_lg_move m = {.what = ends[i], .who = it->engine};
      /* A ring has only shares to end. */
      if (it->ring >= 0) m = (vm_lg_move){.what = LG_SHARE, .who = (uint16_t)it->ring};
      /* A step that touches bytes ends when its engine goes on. */
      if (it->ring < 0 && it->kind != VM_LEGAL_FLIGHT) m.what = LG_STEP;
      more = vm_lg_can(l, v, &m) && vm_lg_do(l, v, &m);
      if (more) vm_lg_path_add(l, p, &m);
    }
  }
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void put_step(const vm_legal *l, const vm_legal_step *s, isa_buf *out) {
  /* The caller knows lines of the source; without one, the number of the instruction
   * says it. */
  if (l->name)
    l->name(l->name_ud, s, out);
  else
    isa_buf_printf(out, "%s pc %u", isa_engines[s->engine].name, s->pc);
}

/* The step of a sendrecv that a move is about. */
static const vm_legal_step *half_of(const vm_legal *l, const vm_lg_move *m) {
  if (m->what == LG_STEP) return &l->eng[m->who].steps[m->number];
  return vm_lg_step_of(l, &l->items[l->eng[m->who].flights[m->number - 1]]);
}

static void put_move(const vm_legal *l, const vm_lg_move *m, isa_buf *out) {
  /* Steps are told by what they do, so they have no word here. */
  static const char *const does[] = {[LG_END] = "ends",
                                     [LG_READ_END] = "has read",
                                     [LG_LOADED] = "has loaded",
                                     [LG_SHARE] = "ends",
                                     [LG_ARRIVE] = "is seen"};
  /* Rings and flows are numbered apart from engines. */
  const vm_lg_engine *en = m->what < LG_SHARE ? &l->eng[m->who] : NULL;
  /* Two halves of a sendrecv are one event, so they share one line. */
  vm_lg_move twin;
  if (vm_lg_twin(l, m, &twin)) {
    put_step(l, half_of(l, m), out);
    isa_buf_puts(out, " and ");
    put_step(l, half_of(l, &twin), out);
    isa_buf_puts(out, m->what == LG_STEP ? " meet" : " end");
    return;
  }
  if (m->what == LG_STEP) {
    const vm_legal_step *s = &en->steps[m->number];
    put_step(l, s, out);
    isa_buf_puts(out, s->kind == VM_LEGAL_FLIGHT    ? " starts"
                      : s->kind == VM_LEGAL_TRIGGER ? " triggers"
                                                    : " goes on");
    return;
  }
  /* Only ends are left: of shares, updates and flights. */
  const vm_legal_step *s;
  if (m->what == LG_SHARE) {
    const vm_lg_queue *q = &l->queues[l->ring_queue[m->who]];
    s = vm_lg_step_of(l, &l->items[q->items[m->number]]);
    /* Rings differ only by their number, so it is said. */
    isa_buf_printf(out, "ring %u of ", m->who - q->first);
  } else if (m->what == LG_ARRIVE) {
    const vm_lg_update *u = &l->flows[m->who].v[m->number];
    s = &l->eng[u->engine].steps[u->step];
    isa_buf_puts(out, "the update of ");
  } else {
    s = vm_lg_step_of(l, &l->items[en->flights[m->number - 1]]);
  }
  put_step(l, s, out);
  isa_buf_printf(out, " %s", does[m->what]);
}

/* Consecutive moves of all rings of one transfer are shown as one.
 * A queue with sixteen rings would fill the text otherwise. */
static bool same_transfer(const vm_legal *l, const vm_lg_move *a, const vm_lg_move *b) {
  return a->what == LG_SHARE && b->what == LG_SHARE && a->number == b->number &&
         l->ring_queue[a->who] == l->ring_queue[b->who];
}

void vm_lg_put_order(const vm_legal *l, const vm_lg_move *v, uint32_t n, isa_buf *out) {
  /* The last moves lead to the race; the earlier ones are only counted. */
  uint32_t from = n > MOST_SHOWN ? n - MOST_SHOWN : 0;
  if (from) isa_buf_printf(out, "%u moves; ", from);
  for (uint32_t i = from; i < n; i++) {
    if (i > from) isa_buf_puts(out, "; ");
    uint32_t same = 1;
    while (i + same < n && same_transfer(l, &v[i], &v[i + same])) same++;
    if (same > 1) {
      const vm_lg_queue *q = &l->queues[l->ring_queue[v[i].who]];
      isa_buf_printf(out, "%u rings of ", same);
      put_step(l, vm_lg_step_of(l, &l->items[q->items[v[i].number]]), out);
      isa_buf_puts(out, " end");
      i += same - 1;
    } else {
      put_move(l, &v[i], out);
    }
  }
}

void vm_lg_report_race(vm_legal *l, vm_lg_path *p, const vm_lg_access *a, const vm_lg_access *b,
                       vm_legal_result *out) {
  /* In the order of the run, as the user knows it. */
  const vm_lg_access *of[2] = {a->at <= b->at ? a : b, a->at <= b->at ? b : a};
  uint32_t *v = vm_lg_new_state(l);
  out->verdict = VM_LEGAL_RACE;
  /* Triggers and pipes have no bytes; the message names the queue or the pipe instead. */
  out->triggers = vm_lg_item_of(l, a)->kind == VM_LEGAL_TRIGGER && vm_lg_item_of(l, a)->ring < 0;
  out->pipes = a->a.region >= LG_PIPE_REGION && a->a.region < LG_QUEUE_REGION;
  for (unsigned i = 0; i < 2; i++) out->place[i] = vm_lg_place_of(l, of[i]);
  if (!v || p->failed) {
    out->verdict = VM_LEGAL_NOMEM;
    vm_lg_free_state(l, v);
    return;
  }
  /* Both accesses are open after these moves; now one of them ends first, then the
   * other. */
  trim(l, v, p, a, b);
  uint32_t both = p->n;
  for (unsigned i = 0; i < 2; i++) {
    p->n = both;
    /* A full replay: the second round must not see the ends of the first. */
    replay(l, v, p, UINT32_MAX);
    end_access(l, v, p, of[i]);
    uint32_t first = p->n;
    end_access(l, v, p, of[!i]);
    /* Up to the end of the second access's first move: what follows tells nothing new. */
    vm_lg_put_order(l, p->v, p->n > first ? first + 1 : first, &out->order[i]);
  }
  if (p->failed || out->order[0].failed || out->order[1].failed) out->verdict = VM_LEGAL_NOMEM;
  vm_lg_free_state(l, v);
}
