/* Queues, rings and DMA engines. A trigger makes a transfer of up to sixteen shares, one per ring;
 * each DMA engine serves the heads of its rings by priority class and round robin, a packet at a
 * time. */
#include "../engine/engine.h"
#include "../message.h"
#include "../time/clock.h"
#include "dma.h"

#include <string.h>

struct vm_slab {
  struct vm_slab *next;
  size_t size;
};

/* ---- Shares and transfers come from slabs, so that stepping seldom allocates --------------- */

static void *slab_new(vm_core *c, size_t item, unsigned n) {
  /* A line apart: two shares that different DMA engines touch do not share one. */
  enum { LINE = 64 };
  size_t size = sizeof(struct vm_slab) + LINE + item * n;
  struct vm_slab *s = isa_zalloc(&c->al, size);
  if (!s) return NULL;
  s->next = c->slabs;
  s->size = size;
  c->slabs = s;
  return (void *)(((uintptr_t)(s + 1) + LINE - 1) / LINE * LINE);
}

/* That of ring r. */
static vm_share *new_share(vm_core *c, vm_transfer *t, unsigned r) {
  enum { AT_ONCE = 64 };
  /* Blocks of 64: a program with few transfers takes one, and none is freed before the run ends. */
  if (!c->free_shares) {
    vm_share *block = slab_new(c, sizeof *block, AT_ONCE);
    for (unsigned i = 0; block && i < AT_ONCE; i++) {
      block[i].next = c->free_shares;
      c->free_shares = &block[i];
    }
  }
  vm_share *s = c->free_shares;
  if (s) {
    c->free_shares = s->next;
    /* The boxes come last in the struct for this. */
    /* All but its boxes, which it gets with its first data: clearing them takes longer than the
     * rest of this. */
    memset(s, 0, offsetof(vm_share, item.dst));
    s->item.is_share = true;
    s->t = t;
    s->e0 = t->first[r];
    s->e1 = t->first[r + 1];
    s->bytes = (s->e1 - s->e0) * t->dst.esize;
  }
  return s;
}

/* Fewer than shares: a transfer has up to sixteen of them. */
vm_transfer *vm_dma_new_transfer(vm_core *c) {
  enum { AT_ONCE = 16 };
  if (!c->free_transfers) {
    vm_transfer *block = slab_new(c, sizeof *block, AT_ONCE);
    for (unsigned i = 0; block && i < AT_ONCE; i++) {
      block[i].next_free = c->free_transfers;
      c->free_transfers = &block[i];
    }
  }
  vm_transfer *t = c->free_transfers;
  if (t) {
    c->free_transfers = t->next_free;
    memset(t, 0, sizeof *t);
  }
  return t;
}

void vm_dma_release_transfer(vm_core *c, vm_transfer *t) {
  t->ended = true;
  /* The last of its shares whose bytes are still to move releases it. */
  if (t->late) return;
  vm_dma_unmake(c, t);
  t->next_free = c->free_transfers;
  c->free_transfers = t;
}

void vm_dma_release_share(vm_core *c, vm_share *s) {
  s->next = c->free_shares;
  c->free_shares = s;
}

void vm_dma_release_late(vm_core *c, vm_share *s) {
  vm_transfer *t = s->t;
  vm_dma_release_share(c, s);
  if (--t->late == 0 && t->ended) vm_dma_release_transfer(c, t);
}

vm_share *vm_dma_new_shares(vm_core *c, vm_transfer *t, unsigned n) {
  vm_share *first = NULL;
  /* From the last ring to the first, so that the chain begins at ring 0. */
  while (n-- > 0) {
    vm_share *s = new_share(c, t, n);
    if (!s) {
      /* All or none. */
      for (vm_share *next; first; first = next) {
        next = first->next;
        vm_dma_release_share(c, first);
      }
      return NULL;
    }
    s->next = first;
    first = s;
  }
  return first;
}

void vm_dma_free(vm_core *c) {
  for (unsigned q = 0; q < ISA_MAX_QUEUES; q++)
    for (unsigned r = 0; r < ISA_NDMA; r++)
      /* The blocks that transfers own; a transfer of several shares is met more than once, and
       * unmade once: vm_dma_unmake leaves NULL. */
      for (vm_share *s = c->rings[q][r].head; s; s = s->next) vm_dma_unmake(c, s->t);
  for (struct vm_slab *s = c->slabs, *next; s; s = next) {
    next = s->next;
    isa_free(&c->al, s, s->size);
  }
  c->slabs = NULL;
}

/* ---- Rings -------------------------------------------------------------------------------- */

/* Queues of a CC sequencer lie side by side, so what it pushes and what it adds meanwhile have DMA
 * engines of their own; all CC sequencers of a core have the same ones. All other queues begin at
 * engine 0. */
void vm_dma_assign_rings(vm_core *c) {
  unsigned next[ISA_NSEQS] = {0};
  for (unsigned q = 0; q < c->code->nqueues; q++) {
    const isa_queue *x = &c->code->queues[q];
    c->first_dma[q] = 0;
    /* Other queues use ring r on DMA engine r. */
    if (!isa_queue_is_cc(x)) continue;
    unsigned *at = &next[isa_queue_owner(x)];
    c->first_dma[q] = (uint8_t)(*at % c->target->dma);
    *at += x->rings;
  }
}

static void append(vm_core *c, vm_share *s, unsigned r) {
  vm_ring *ring = &c->rings[s->t->queue][r];
  if (ring->tail)
    ring->tail->next = s;
  else
    ring->head = s;
  ring->tail = s;
  /* So that pick looks only at queues that have work here. */
  c->dma[vm_dma_of_ring(c, s->t->queue, r)].queues |= 1u << s->t->queue;
  ring->n++;
  c->shares_alive++;
}

vm_share *vm_dma_restore_share(vm_core *c, vm_transfer *t, unsigned r) {
  vm_share *s = new_share(c, t, r);
  if (!s) return NULL;
  append(c, s, r);
  t->left++;
  /* A sendrecv's rings count as done until a share of theirs is read. */
  t->finished &= (uint16_t) ~(1u << r);
  uint32_t n = c->rings[t->queue][r].n;
  /* The number of the head share follows from this (number_of_head). */
  if (c->queued[t->queue] < n) c->queued[t->queue] = n;
  return s;
}

void vm_dma_enqueue(vm_core *c, vm_share *s, unsigned r) {
  append(c, s, r);
  unsigned dma = vm_dma_of_ring(c, s->t->queue, r);
  vm_dma_engine *d = &c->dma[dma];
  /* A busy engine looks for work itself when its packet ends; one event is enough otherwise. */
  if (!d->busy && (!d->armed || s->ready < d->armed_at)) {
    d->armed = true;
    d->armed_at = s->ready;
    vm_post(c, VM_E_DMA, dma, s->ready, 0);
  }
}

/* ---- Serving ------------------------------------------------------------------------------ */

/* Whether a CC sequencer has triggered it. */
static bool is_of_cc(const vm_transfer *t) { return t->engine >= ISA_NENGINES; }

/* Descriptors, one for each contiguous element, that begin within a share's next `bytes`. */
static uint64_t descriptors(const vm_share *s, uint64_t bytes) {
  uint64_t run = s->t->run_bytes;
  /* Descriptor k is needed when byte k * run_bytes begins: a packet pays for those that begin in
   * it. */
  return run ? (s->sent + bytes + run - 1) / run - (s->sent + run - 1) / run : 0;
}

/* Fills in t->packet for a share's next `bytes` at the rate of that many active DMA engines: this
 * takes divisions, and most packets of a transfer are alike. */
static void time_packet(const vm_core *c, const vm_share *s, uint64_t bytes, uint32_t sharing) {
  vm_transfer *t = s->t;
  uint64_t rate = t->rate, n = descriptors(s, bytes);
  /* Equal parts for all that are at work. hbm_bytes of traffic move dst.esize bytes of destination.
   */
  if (sharing) {
    uint64_t part =
        /* At least one byte, or the division below would be by zero. */
        (uint64_t)c->cost[VM_DMA_HBM] * t->dst.esize / ((uint64_t)sharing * t->hbm_bytes);
    rate = !part ? 1 : part < rate ? part : rate;
  }
  /* Packets after a share's first may have one descriptor more or fewer: they are computed anew. */
  t->packet.bytes = s->sent ? 0 : bytes; /* 0: no packet has as few */
  t->packet.sharing = sharing;
  t->packet.descriptors = n;
  /* In two steps: bytes * 10^9 would overflow 64 bits for transfers above 18 GB. */
  t->packet.moves = bytes / rate * 1000000000u + bytes % rate * 1000000000u / rate +
                    n * c->cost[VM_DMA_ELEMENT] * (VM_NS / 1000);
}

static uint32_t active_on(const vm_stack *s) {
  uint32_t n = 0;
  for (unsigned i = 0; i < s->n; i++) n += s->cores[i]->hbm_active;
  return n;
}

/* The engine's time for a share's next `bytes` at the current rate. Engines that are at work, of
 * all cores of a stack of HBM, have equal parts of it, whose reads and writes are one traffic; a
 * transfer's own shares count from the start, since a DGE's share is one packet. A static ring's
 * packets are no faster than the engine can take descriptors. A share ends with its semaphore
 * update. */
static vm_time packet_time(const vm_core *c, const vm_share *s, uint64_t bytes, bool opens,
                           bool last) {
  vm_transfer *t = s->t;
  /* A transfer on chip takes none of the stack's bandwidth. */
  uint32_t active = t->hbm_bytes ? active_on(c->run->stack) : 0;
  uint32_t sharing = !t->hbm_bytes ? 0 : active > t->shares ? active : t->shares;
  /* Not as the last time: a later packet, or another number of active engines. */
  if (s->sent || bytes != t->packet.bytes || sharing != t->packet.sharing)
    time_packet(c, s, bytes, sharing);
  vm_time moves = t->packet.moves;
  /* Once for a share: what its first descriptor costs beyond the others. */
  if (opens) moves += (vm_time)c->cost[VM_DMA_TRANSFER] * VM_NS;
  uint64_t n = t->packet.descriptors;
  /* A DGE's descriptors are not fetched from memory, and a CC sequencer's engines are not held up
   * by theirs. */
  vm_time taken = t->is_static && !is_of_cc(t) ? (n + last) * c->cost[VM_DMA_ENG_DESC] * VM_NS : 0;
  return moves > taken ? moves : taken;
}

/* When the descriptors of the next `bytes` of a ring's head are there: a static ring fetches one
 * every DMA_RING_DESC. The fetch of the semaphore update, the last of a share, delays the share
 * that follows. */
static vm_time fetch(const vm_core *c, vm_ring *ring, uint64_t bytes, bool last) {
  const vm_share *s = ring->head;
  vm_time each = (vm_time)c->cost[is_of_cc(s->t) ? VM_CC_RING_DESC : VM_DMA_RING_DESC] * VM_NS;
  /* A DGE writes its descriptors where the engine reads them: they are there when the share is
   * ready. */
  if (!s->t->is_static) return 0;
  /* A ring that was idle begins to fetch now. */
  if (s->sent == 0 && ring->fetched < c->now) ring->fetched = c->now;
  vm_time at = ring->fetched + descriptors(s, bytes) * each;
  /* The update's own descriptor is fetched before those of the next share. */
  ring->fetched = last ? at + each : at;
  return at;
}

/* Why a share starts now: its trigger, or the engine that was at work. */
/* Later than ready: another share was on the engine. */
static void note_cause(vm_core *c, unsigned dma, vm_share *s) {
  bool waited = c->now > s->ready;
  s->cause = (vm_cause){.node = waited ? c->dma[dma].last_node : s->t->node,
                        .why = waited ? VM_WHY_DMA : VM_WHY_TRIGGER,
                        .time = c->now};
}

static void first_data(vm_core *c, unsigned dma, vm_share *s) {
  note_cause(c, dma, s);
  s->started = true;
  s->item.start = c->now;
  /* Its boxes are only needed from now on: many shares wait long in their rings. */
  vm_dma_boxes(c, s);
  vm_item_touch(c, &s->item);
  vm_item_link(c, &s->item);
  if (c->shares_moving++ == 0) c->dma_since = c->now;
}

/* Bytes that a share reads from HBM and writes there. */
static void count_hbm(vm_core *c, const vm_share *s) {
  const vm_transfer *t = s->t;
  uint64_t elements = s->e1 - s->e0;
  /* By elements of each operand: sources may have other types than the destination. */
  if (t->src.space == ISA_HBM) c->hbm_read_bytes += elements * t->src.esize;
  for (unsigned i = 0; i + 1 < t->nsrc; i++)
    if (t->more[i].space == ISA_HBM) c->hbm_read_bytes += elements * t->more[i].esize;
  /* What goes to a peer is written in that rank's HBM, and counted there. */
  if (t->dst.space != ISA_HBM || t->put) return;
  c->hbm_write_bytes += elements * t->dst.esize;
  if (t->accumulates) c->hbm_read_bytes += elements * t->dst.esize;
}

static void wake_ringfull(vm_core *c, unsigned queue) {
  for (unsigned left = c->ring_waiters[queue]; left; left &= left - 1) {
    unsigned e = (unsigned)__builtin_ctz(left);
    c->eng[e].state = VM_READY;
    vm_path_set_cause(&c->eng[e], (vm_moment){c->now, c->cause}, VM_WHY_RING);
    vm_post(c, VM_E_SEQ, e, c->now, 0);
  }
  c->ring_waiters[queue] = 0;
}

/* The update of the semaphore by that ring's share of a transfer of c is on its way. */
static void signal(vm_core *c, const vm_transfer *t, unsigned ring) {
  int8_t dma = (int8_t)vm_dma_of_ring(c, t->queue, ring);
  vm_where by = {t->engine, dma, c->number, t->pc};
  isa_update u = {.kind = ISA_UPD_dma,
                  .core = t->sem_core,
                  .sem = t->sem,
                  .value = (uint32_t)t->queue * ISA_NDMA + ring};
  /* One update for each ring: a wait for all of a transfer counts them. */
  if (!t->signals) return;
  /* To the other core's semaphore for an update of a peer core. */
  vm_core *to = vm_sem_owner(c, &u);
  /* A write of the DMA engine (DMA_SEM), and until an engine sees it (DMA_RESUME). */
  vm_post_sem(to, c->now + (vm_time)(c->cost[VM_DMA_SEM] + c->cost[VM_DMA_RESUME]) * VM_NS, &u, by);
}

/* All of a transfer of that sequencer has left. */
static void note_left(vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  /* Only a CC sequencer at the end of its block waits for that. */
  if (--en->moving || en->state != VM_LEAVING) return;
  en->state = VM_READY;
  vm_path_set_cause(en, (vm_moment){c->now, c->cause}, VM_WHY_DMA);
  vm_post(c, VM_E_SEQ, e, c->now, 0);
}

/* A ring's share of t is done. For a sendrecv both cores learn this when the twin's share is done
 * as well: then what the core has sent has left, and what it gets is there. */
static void finish_ring(vm_core *c, vm_transfer *t, unsigned ring) {
  if (!t->twin) {
    signal(c, t, ring);
    if (--t->left) return;
    note_left(c, t->engine);
    vm_dma_release_transfer(c, t);
    return;
  }
  vm_core *peer = vm_core_at(c, t->met.core);
  t->finished |= (uint16_t)(1u << ring);
  if (t->twin->finished >> ring & 1) {
    /* Half of a meeting: the other direction's share of this ring may still be moving. */
    /* The other core may not have come as far: what follows happens there at this moment too. */
    peer->now = vm_time_later(peer->now, c->now);
    peer->cause = c->cause;
    signal(c, t, ring);
    signal(peer, t->twin, ring);
  }
  /* The two live as long as the later one, since each looks at the other. */
  if (--t->left || t->twin->left) return;
  vm_dma_release_transfer(peer, t->twin);
  vm_dma_release_transfer(c, t);
}

/* Each transfer has a share on each ring of its queue, in order: so the head of a ring is as many
 * transfers before the last one as the ring has shares after its head. */
static uint32_t number_of_head(const vm_core *c, unsigned queue, unsigned r) {
  return c->queued[queue] - c->rings[queue][r].n;
}

/* Where in the peer's tensor: relative, since addresses there are another process's. */
static int64_t offset_there(const vm_core *c, const vm_transfer *t) {
  return t->dst.at - vm_ap_base(c, &c->code->aps[t->put_ap - 1]);
}

/* A packet of a share that goes over links, where it waits for others': only the last one has the
 * bytes. Within a device nothing is shared. */
static void send_packet(vm_core *c, unsigned dma, const vm_share *s) {
  const vm_transfer *t = s->t;
  const vm_peers *x = c->run->peers;
  if (!t->put || !x->of_device || s->sent == s->bytes ||
      x->ranks[t->put - 1] / x->of_device == x->rank / x->of_device)
    return;
  vm_where by = {t->engine, (int8_t)dma, c->number, t->pc};
  vm_send_packet(c, s, by, offset_there(c, t), c->dma[dma].packet);
}

/* What a share sends to a peer: its bytes as they are now, and an update. */
static void send_share(vm_core *c, vm_share *s, vm_where by) {
  const vm_transfer *t = s->t;
  int64_t offset = t->put ? offset_there(c, t) : 0;
  uint8_t *data = NULL;
  if (t->put && s->bytes && !c->run->timing_only) {
    const isa_alloc *al = &c->run->peers->al;
    data = al->fn(al->ud, NULL, 0, (size_t)s->bytes);
    /* The run faults, as for any other memory that a transfer takes. */
    if (!data) {
      vm_fault(c, ISA_NOMEM, by, "no memory for the bytes of a message");
      return;
    }
    vm_dma_pack(c, s, data);
  }
  vm_send_share(c, s, by, offset, data);
}

/* The head share of a ring is done: its bytes arrive and its semaphore update is on its way. */
static void finish_share(vm_core *c, unsigned dma, unsigned queue) {
  unsigned r = vm_ring_of_dma(c, queue, dma);
  vm_ring *ring = &c->rings[queue][r];
  vm_share *s = ring->head;
  vm_transfer *t = s->t;
  vm_where by = {t->engine, (int8_t)dma, c->number, t->pc};
  /* Before the ring goes on to its next share. */
  uint32_t part = number_of_head(c, queue, r);
  bool late = false;
  /* A share without bytes never has first data; its cause is noted at its end. */
  if (!s->started) note_cause(c, dma, s);
  c->cause = vm_path_add(c, VM_N_SHARE, by, s->started ? s->item.start : c->now, c->now, s->cause);
  ring->head = s->next;
  if (!ring->head) {
    /* No share of that queue here: pick does not look at it any more. */
    ring->tail = NULL;
    c->dma[dma].queues &= ~(1u << queue);
  }
  ring->n--;
  if (s->bytes) {
    s->item.done = c->now;
    /* Before its bytes arrive: what has started and reads these keeps the old ones. */
    vm_protect(c, s->item.dst, s->item.ndst, &s->item);
    vm_tell_move(c, s);
    /* Only when bytes move: a run for times alone changes none. */
    if (!c->run->timing_only && !t->put) {
      vm_dma_use(c, s);
      /* `late`: the bytes move with other work, and then release the share (batch.c). */
      late = vm_batch_share(c, s);
    }
    vm_tell_moved(c, s);
    if (t->put || t->peer) send_share(c, s, by);
    vm_item_unlink(c, &s->item);
    vm_trace(c, &(vm_trace_event){.kind = VM_EV_DMA,
                                  .where = by,
                                  .id = queue,
                                  .start = s->item.start,
                                  .end = c->now,
                                  .bytes = s->bytes,
                                  .part = part});
    c->dma_bytes += s->bytes;
    count_hbm(c, s);
    /* The union of all shares at work, not their sum. */
    if (--c->shares_moving == 0) c->dma_active += c->now - c->dma_since;
  } else if (t->peer) {
    send_share(c, s, by);
  }
  vm_tell_ended(c, s, by);
  if (s->started) c->dma[dma].last_node = c->cause;
  /* Even a share that had nothing to move frees its place. */
  if (!late) vm_dma_release_share(c, s);
  c->shares_alive--;
  finish_ring(c, t, r);
  wake_ringfull(c, queue);
}

static vm_share *head_at(const vm_core *c, unsigned queue, unsigned dma) {
  return c->rings[queue][vm_ring_of_dma(c, queue, dma)].head;
}

static void end_packet(vm_core *c, unsigned dma) {
  vm_dma_engine *d = &c->dma[dma];
  /* Its descriptors may be late: the share then ends with an event of its own. */
  vm_share *s = head_at(c, d->serving, dma);
  d->busy = false;
  c->hbm_active -= s->t->hbm_bytes > 0;
  s->sent += d->packet;
  send_packet(c, dma, s);
  /* s->ready: when its last descriptors were there. */
  if (s->sent == s->bytes && s->ready <= c->now) finish_share(c, dma, d->serving);
}

/* The queue whose head share is ready: in the lowest priority class, round robin within it. If none
 * is, -1 and the earliest later time. */
static int pick(const vm_core *c, unsigned dma, vm_time *later) {
  const vm_dma_engine *d = &c->dma[dma];
  int best = -1;
  /* Queues from next_queue on, then those before it. */
  unsigned class = UINT8_MAX, first = d->queues & (~0u << d->next_queue);
  *later = UINT64_MAX;
  for (unsigned left = first ? first : d->queues, rest = d->queues & ~left; left;) {
    unsigned q = (unsigned)__builtin_ctz(left);
    const vm_share *s = head_at(c, (unsigned)q, dma);
    /* `<`: of the same class the first in turn. */
    if (s->ready <= c->now && s->t->prio < class) {
      best = (int)q;
      class = s->t->prio;
    } else if (s->ready > c->now && s->ready < *later) {
      *later = s->ready;
    }
    left &= left - 1;
    /* The second half of the turn. */
    if (!left) left = rest, rest = 0;
  }
  return best;
}

/* The most bytes of a packet of a static ring. */
static uint32_t packet_of(const vm_core *c, const vm_transfer *t) {
  return c->cost[is_of_cc(t) ? VM_CC_PACKET : VM_DMA_PACKET];
}

static void begin_packet(vm_core *c, unsigned dma, unsigned queue) {
  vm_dma_engine *d = &c->dma[dma];
  unsigned r = vm_ring_of_dma(c, queue, dma);
  vm_share *s = c->rings[queue][r].head;
  bool first = !s->started;
  uint64_t left = s->bytes - s->sent;
  /* The next packet begins its search after this queue. */
  d->next_queue = (uint8_t)(queue + 1 < c->code->nqueues ? queue + 1 : 0);
  d->serving = (uint8_t)queue;
  /* A DGE's share is one packet: it is not cut. */
  d->packet = left;
  if (s->t->is_static && left > packet_of(c, s->t)) d->packet = packet_of(c, s->t);
  if (first) first_data(c, dma, s);
  d->busy = true;
  c->hbm_active += s->t->hbm_bytes > 0;
  /* The last packet of the instruction on this ring also fetches the update. */
  bool last = d->packet == left && s->t->piece + 1 == s->t->pieces;
  bool opens = first && (s->t->opens >> r & 1);
  vm_time takes = vm_jitter(c, packet_time(c, s, d->packet, opens, last));
  vm_time fetched = fetch(c, &c->rings[queue][r], d->packet, last);
  d->ends = c->now + takes;
  /* Both the bytes and their descriptors must be there. */
  s->ready = fetched > d->ends ? fetched : d->ends;
  d->busy_time += takes;
  c->dma_packets++;
  vm_post(c, VM_E_DMA, dma, d->ends, 0);
}

void vm_dma_event(vm_core *c, unsigned dma) {
  vm_dma_engine *d = &c->dma[dma];
  vm_time later;
  if (d->busy && c->now < d->ends)
    return; /* it was armed for a share that came while a packet was moving */
  if (d->busy) end_packet(c, dma);
  /* An event that is still to come stays armed. */
  d->armed = d->armed && d->armed_at > c->now;
  for (int q; (q = pick(c, dma, &later)) >= 0 && !c->run->ended;) {
    /* Shares without bytes end at once, and the search goes on. */
    const vm_share *s = head_at(c, (unsigned)q, dma);
    if (s->sent < s->bytes) {
      begin_packet(c, dma, (unsigned)q);
      return;
    }
    finish_share(c, dma, (unsigned)q); /* an idle ring signals as well */
  }
  /* One event, for the earliest of what waits. */
  if (later != UINT64_MAX && (!d->armed || later < d->armed_at)) {
    d->armed = true;
    d->armed_at = later;
    vm_post(c, VM_E_DMA, dma, later, 0);
  }
}
