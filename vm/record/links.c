/* Which event each event follows from. Events come in the order of their ends, and carry the place
 * (engine and pc) of their instruction; this pairs them up.
 *
 *   wait <- update         the last one of its semaphore
 *   update <- instruction  of the same place: the last that had ended, or that had started if
 *                          the update is @read
 *   update <- share        a share's update arrives a fixed time after its end; the trace
 *                          itself shows this time; rings without a share's bytes only signal
 *   share <- trigger       of the same transfer
 *   instruction, trigger <- wait   the last of the same place before its start, unless an earlier
 *                          one of that place has started since
 *
 * A share whose trigger was not recorded follows from a wait likewise, unless an earlier share of
 * that ring does. */
#include "record.h"

#include <stdlib.h>

typedef struct place { /* index + 1 of the latest event of a kind; 0: none yet */
  uint32_t wait, insn, sem, trigger;
  uint32_t dma, dma_tail; /* first share without its update; last share */
  uint32_t ring[ISA_NDMA];
  vm_time last_dma, last_sem[2]; /* of last_sem: on its own core, on the other one */
} place;

typedef struct links {
  const vm_rec_view *t;
  vm_rec_transfers transfers;
  place *places;
  uint32_t *from, *chain; /* chain: the event before (for shares: after) of the same place */
  uint32_t sem[ISA_MAX_CORES * ISA_NSEMS];
  vm_time delay[2]; /* from a share's end to its update: on its own core, on the other one */
} links;

static const vm_rec_event *at(const links *l, uint32_t index1) {
  return vm_rec_at(l->t->r, index1 - 1);
}

/* Sorted, equal differences lie next to one another. */
static int by_value(const void *a, const void *b) {
  vm_time x = *(const vm_time *)a, y = *(const vm_time *)b;
  return x < y ? -1 : x > y;
}

/* An update of the other core's semaphore takes another time. */
static bool is_remote(const vm_rec_event *v) { return v->core != v->by_core; }

static void note_last(links *l) {
  uint32_t number;
  for (uint32_t i = 0; i < l->t->n; i++) {
    const vm_rec_event *v = vm_rec_at(l->t->r, i);
    const isa_insn *in = vm_rec_insn(l->t, v, &number);
    /* The last share of each instruction, and the last update by one of its rings.
     * Overwritten by each one: what stays is the last. */
    if (in && v->kind == VM_EV_DMA)
      l->places[number].last_dma = v->end;
    else if (in && v->kind == VM_EV_SEM && isa_op_is_dma(in->op))
      l->places[number].last_sem[is_remote(v)] = v->start;
  }
}

/* Most places end with the update of their last share: the most common difference is the delay.
 * The most frequent one: a place whose last share was not recorded gives a wrong one. */
static bool find_delay(links *l, bool remote) {
  uint32_t places = l->t->base[VM_REC_UNITS], n = 0, best = 0;
  vm_time *diff = isa_zalloc(&l->t->al, ((size_t)places + 1) * sizeof *diff);
  if (!diff) return false;
  for (uint32_t k = 0; k < places; k++) {
    const place *p = &l->places[k];
    /* An update before the last share belongs to an earlier one. */
    if (p->last_dma && p->last_sem[remote] >= p->last_dma)
      diff[n++] = p->last_sem[remote] - p->last_dma;
  }
  qsort(diff, n, sizeof *diff, by_value);
  for (uint32_t i = 0, run = 0; i < n; i++) {
    run = i && diff[i] == diff[i - 1] ? run + 1 : 1;
    if (run > best) {
      best = run;
      l->delay[remote] = diff[i];
    }
  }
  isa_free(&l->t->al, diff, ((size_t)places + 1) * sizeof *diff);
  return true;
}

/* The wait of this place that ended last before `start`, if it ended after `since`. */
static uint32_t wait_before(const links *l, const place *p, vm_time start, uint32_t previous) {
  uint32_t w = p->wait;
  /* Waits that ended later belong to a later round. */
  while (w && at(l, w)->end > start) w = l->chain[w - 1];
  return w && (!previous || at(l, previous)->start < at(l, w)->end) ? w : 0;
}

/* Shares signal in the order of their ends, so the first that fits is the one. */
static uint32_t share_of_update(links *l, place *p, const vm_rec_event *v) {
  vm_time delay = l->delay[is_remote(v)], t = v->start;
  /* Shares whose updates were not recorded are passed. */
  while (p->dma && at(l, p->dma)->end + delay < t) p->dma = l->chain[p->dma - 1];
  if (!p->dma || at(l, p->dma)->end + delay != t) return 0;
  uint32_t share = p->dma;
  p->dma = l->chain[share - 1];
  return share;
}

static uint32_t update_from(links *l, place *p, const isa_insn *in, const vm_rec_event *v) {
  if (isa_op_is_dma(in->op)) return share_of_update(l, p, v);
  /* A data path's update follows from its instruction. */
  if (!isa_op_is_control(in->op)) return p->insn;
  /* A control instruction has no event: its update follows from the wait before it. */
  bool later = !p->sem || (p->wait && at(l, p->wait)->end > at(l, p->sem)->start);
  return later ? p->wait : 0;
}

/* A later round of the same place must not take the wait of an earlier one. */
static void link_insn(links *l, place *p, const isa_insn *in, uint32_t i, const vm_rec_event *v) {
  l->from[i] = wait_before(l, p, v->start, p->insn);
  if (in->upd.at_read) /* Its @read updates came before its end: they are linked now. */
    for (uint32_t s = p->sem; s && at(l, s)->start >= v->start; s = l->chain[s - 1])
      l->from[s - 1] = i + 1;
  l->chain[i] = p->insn;
  p->insn = i + 1;
}

static void link_share(links *l, place *p, uint32_t i, const vm_rec_event *v) {
  /* Rings run beside one another: each follows from its own last share. */
  uint32_t *ring = &p->ring[v->engine % ISA_NDMA];
  uint32_t trigger = l->transfers.v[l->transfers.of[i]].trigger;
  l->from[i] = trigger ? trigger : wait_before(l, p, v->start, *ring);
  *ring = i + 1;
  /* Shares are chained forwards, since their updates come in that order. */
  if (p->dma_tail) l->chain[p->dma_tail - 1] = i + 1;
  p->dma_tail = i + 1;
  if (!p->dma) p->dma = i + 1;
}

/* The previous event is the other core's, if that one came later to the sendrecv. */
static uint32_t later_of_meeting(const links *l, uint32_t i, const vm_rec_event *v) {
  const vm_rec_event *w = i ? at(l, i) : v;
  return w->kind == VM_EV_MEET && w->core != v->core && w->engine == v->part && w->pc == v->value
             ? i
             : 0;
}

static void link_event(links *l, uint32_t i) {
  const vm_rec_event *v = vm_rec_at(l->t->r, i);
  /* Semaphores of both cores in one array. */
  uint32_t *sem = v->id < ISA_NSEMS ? &l->sem[vm_rec_sem(v->core, v->id)] : NULL;
  uint32_t number;
  const isa_insn *in = vm_rec_insn(l->t, v, &number);
  place *p = in ? &l->places[number] : NULL;
  /* The order of the cases is that of the table at the top of the file. */
  if (vm_rec_is_wait(v)) {
    l->from[i] = v->kind == VM_EV_MEET ? later_of_meeting(l, i, v) : sem ? *sem : 0;
    if (p) {
      l->chain[i] = p->wait;
      p->wait = i + 1;
    }
  } else if (v->kind == VM_EV_SEM) {
    if (p) {
      l->from[i] = update_from(l, p, in, v);
      l->chain[i] = p->sem;
      p->sem = i + 1;
    }
    if (sem) *sem = i + 1;
  } else if (p && v->kind == VM_EV_INSN) {
    link_insn(l, p, in, i, v);
  } else if (p && v->kind == VM_EV_TRIGGER) {
    l->from[i] = wait_before(l, p, v->start, p->trigger);
    p->trigger = i + 1;
  } else if (p && v->kind == VM_EV_DMA && v->id < ISA_MAX_QUEUES) {
    link_share(l, p, i, v);
  }
}

uint32_t *vm_rec_links(const vm_rec_view *t) {
  links l = {.t = t};
  size_t places = ((size_t)t->base[VM_REC_UNITS] + 1) * sizeof *l.places;
  l.places = isa_zalloc(&t->al, places);
  l.from = vm_rec_new_array(t, sizeof *l.from);
  l.chain = vm_rec_new_array(t, sizeof *l.from);
  bool known = vm_rec_transfers_of(t, &l.transfers);
  /* Two passes: the delay must be known before updates can be given to shares. */
  if (l.places && l.from && l.chain) note_last(&l);
  if (known && l.places && l.from && l.chain && find_delay(&l, false) && find_delay(&l, true)) {
    for (uint32_t i = 0; i < t->n; i++) link_event(&l, i);
  } else {
    vm_rec_free_array(t, l.from, sizeof *l.from);
    l.from = NULL;
  }
  vm_rec_transfers_free(t, &l.transfers);
  isa_free(&t->al, l.places, places);
  vm_rec_free_array(t, l.chain, sizeof *l.chain);
  return l.from;
}

void vm_rec_time_to_see(const vm_rec_view *t, const uint32_t *from, vm_time seen[2]) {
  seen[0] = seen[1] = 0;
  for (uint32_t i = 0; i < t->n && !(seen[0] && seen[1]); i++) {
    const vm_rec_event *v = vm_rec_at(t->r, i);
    const vm_rec_event *share = from[i] ? vm_rec_at(t->r, from[i] - 1) : v;
    if (v->kind == VM_EV_SEM && share->kind == VM_EV_DMA && v->start > share->end)
      seen[is_remote(v)] = v->start - share->end;
  }
}
