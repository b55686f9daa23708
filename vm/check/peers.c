/* What ranks of a world know of one another, and what they write in one another's memory.
 *
 *   rank 0, cc0:    nop $ready.rank[1]    sends what cc0 of rank 0 knows, at epoch 7 of its OF_SEQ
 *   rank 1, cc0:    waits for $ready, then pushes into x of rank 0, and adds to $from there
 *   rank 0, vector: reads x
 *
 * The push comes after all that cc0 of rank 0 knew at its epoch 7, which rank 0 has kept: rank 1
 * only passes the 7 on. A read of x that cc0 did not know of then is in no order with the push; nor
 * is one that has not waited for $from. */
#include "../message.h"
#include "../saver.h"
#include "check.h"
#include "impl.h"

#include <string.h>

enum { RING = 24 }; /* of what comes with a message: its entry, and from that bit on its ring; */
enum { AT_ENTRY, AT_COUNT, NUMBERS };

/* ---- Entries ------------------------------------------------------------------------------ */

static const isa_program *program_of(const vm_core *c, uint32_t rank) {
  return c->run->peers->runs[rank]->prog;
}

static uint32_t cc_queues(const isa_core *core, uint32_t before) {
  uint32_t n = 0;
  for (uint32_t q = 0; q < before; q++) n += isa_queue_is_cc(&core->queues[q]);
  return n;
}

static uint32_t entry_of_seq(const vm_ck_peers *p, uint32_t rank, unsigned core, unsigned engine) {
  return p->of[ISA_MAX_CORES * rank + core] + engine - ISA_NENGINES;
}

static uint32_t own_entry(const vm_core *c, unsigned engine) {
  return entry_of_seq(&c->check->peers, c->check->peers.rank, c->number, engine);
}

static uint32_t entry_of_queue(const vm_core *c, unsigned queue) {
  const vm_ck_peers *p = &c->check->peers;
  return p->of[ISA_MAX_CORES * p->rank + c->number] + ISA_NCC + cc_queues(c->code, queue);
}

bool vm_ck_entry_is_own(const vm_core *c, uint32_t entry, unsigned *e, unsigned *queue) {
  const vm_ck_peers *p = &c->check->peers;
  for (unsigned i = 0; i < c->run->n; i++) {
    const vm_core *core = vm_core_at(c, i);
    const uint32_t *of = &p->of[ISA_MAX_CORES * p->rank + i], first = of[0];
    if (entry < first || entry >= of[1]) continue;
    *e = vm_ck_unit(core, ISA_NENGINES + entry - first);
    *queue = VM_CK_QUEUES;
    for (unsigned q = 0; entry - first >= ISA_NCC && q < core->code->nqueues; q++)
      if (isa_queue_is_cc(&core->code->queues[q]) && entry_of_queue(core, q) == entry)
        *queue = vm_ck_queue(core, q);
    return true;
  }
  return false;
}

/* ---- Channels ----------------------------------------------------------------------------- */

/* Whether an instruction of another rank sends something to this one. */
typedef struct sender {
  const vm_run *run;
  uint32_t to;
  bool sends;
} sender;

static bool is_slot_of(const sender *s, uint32_t slot) {
  return slot && s->run->peers->ranks[slot - 1] == s->to;
}

static void visit_slot(void *ud, const isa_operand *o) {
  sender *s = ud;
  s->sends |= is_slot_of(s, o->ap->rank);
}

static bool sends_here(sender *s, unsigned core, const isa_insn *in) {
  s->sends = in->upd.kind == ISA_UPD_peer && is_slot_of(s, in->upd.value);
  isa_each_operand(s->run->prog, &s->run->prog->cores[core], in, visit_slot, s);
  return s->sends;
}

static bool queue_sends_here(sender *s, unsigned core, unsigned queue) {
  const isa_core *code = &s->run->prog->cores[core];
  const isa_queue *q = &code->queues[queue];
  for (uint32_t i = 0; i < q->nstatics; i++)
    if (sends_here(s, core, &q->statics[i])) return true;
  const isa_code *of = &code->code[isa_queue_owner(q)];
  for (uint32_t pc = 0; pc < of->n; pc++)
    if (of->insns[pc].op == ISA_OP_dma_trigger && of->insns[pc].u.TRIGGER.queue == queue &&
        sends_here(s, core, &of->insns[pc]))
      return true;
  return false;
}

/* Numbers the entries of all ranks and the channels to this one. */
static bool open_entries(vm_core *c) {
  struct vm_check *k = c->check;
  vm_ck_peers *p = &k->peers;
  const vm_peers *peers = c->run->peers;
  uint32_t nof = p->nof = ISA_MAX_CORES * peers->nranks + 1;
  p->rank = peers->rank;
  if (!(p->of = isa_zalloc(&c->al, nof * sizeof *p->of))) return false;
  for (uint32_t i = 0; i + 1 < nof; i++) {
    const isa_program *prog = program_of(c, i / ISA_MAX_CORES);
    unsigned core = i % ISA_MAX_CORES;
    p->of[i] = p->n;
    if (core < prog->ncores)
      p->n += ISA_NCC + cc_queues(&prog->cores[core], prog->cores[core].nqueues);
  }
  p->of[nof - 1] = p->n;
  p->channel = isa_zalloc(&c->al, p->n * sizeof *p->channel);
  p->rings = isa_zalloc(&c->al, p->n);
  p->newest = isa_zalloc(&c->al, p->n * VM_CK_NEWEST * sizeof *p->newest);
  p->spoken = isa_zalloc(&c->al, p->n * sizeof *p->spoken);
  return p->channel && p->rings && p->newest && p->spoken;
}

static void open_channels(vm_core *c, uint32_t rank, unsigned core) {
  struct vm_check *k = c->check;
  vm_ck_peers *p = &k->peers;
  sender s = {.run = c->run->peers->runs[rank], .to = p->rank};
  const isa_core *code = &s.run->prog->cores[core];
  uint32_t entry = p->of[ISA_MAX_CORES * rank + core] + ISA_NCC;
  for (unsigned q = 0; q < code->nqueues; q++) {
    if (!isa_queue_is_cc(&code->queues[q])) continue;
    if (queue_sends_here(&s, core, q)) {
      p->channel[entry] = k->ncomps;
      p->rings[entry] = code->queues[q].rings;
      k->ncomps += ISA_NDMA;
    }
    entry++;
  }
}

bool vm_ck_peers_start(vm_core *c) {
  struct vm_check *k = c->check;
  const vm_peers *peers = c->run->peers;
  if (!peers) return true;
  if (!open_entries(c)) return false;
  for (uint32_t r = 0; r < peers->nranks; r++)
    for (unsigned core = 0; core < program_of(c, r)->ncores; core++) open_channels(c, r, core);
  k->peers.first = k->ncomps;
  k->ncomps += (k->peers.n + 3) / 4 * 4; /* vm_ck_join takes four at once */
  return k->ncomps < VM_CK_BOTH;
}

void vm_ck_peers_end(vm_core *c) {
  vm_ck_peers *p = &c->check->peers;
  if (!p->of) return;
  for (uint32_t i = 0; p->newest && i < p->n * VM_CK_NEWEST; i++) vm_ck_drop(c, p->newest[i].base);
  for (unsigned e = 0; e < VM_CK_ENGINES; e++) {
    for (uint32_t i = 0; i < p->nsent[e]; i++) vm_ck_drop(c, p->sent[e][i].base);
    isa_free(&c->al, p->sent[e], p->cap_sent[e] * sizeof **p->sent);
  }
  for (uint32_t i = 0; i < p->npush; i++) vm_ck_drop(c, p->push[i].base);
  for (uint32_t i = 0; i < p->nheard; i++) isa_free(&c->al, p->heard[i], p->n * sizeof **p->heard);
  isa_free(&c->al, p->heard, p->cap_heard * sizeof *p->heard);
  isa_free(&c->al, p->push, p->cap_push * sizeof *p->push);
  isa_free(&c->al, p->spoke, p->cap_spoke * sizeof *p->spoke);
  isa_free(&c->al, p->spoken, p->n * sizeof *p->spoken);
  isa_free(&c->al, p->newest, p->n * VM_CK_NEWEST * sizeof *p->newest);
  isa_free(&c->al, p->rings, p->n);
  isa_free(&c->al, p->channel, p->n * sizeof *p->channel);
  isa_free(&c->al, p->of, p->nof * sizeof *p->of);
}

/* ---- Regions ------------------------------------------------------------------------------ */

typedef struct pushed {
  vm_core *c;
  const vm_run *from;
} pushed;

static void note_pattern(const pushed *w, const isa_ap *ap) {
  struct vm_check *k = w->c->check;
  const vm_peers *there = w->from->peers;
  if (!ap->rank || there->ranks[ap->rank - 1] != k->peers.rank) return;
  uint32_t tensor = ap->space == ISA_HBM
                        ? there->tensors[(ap->rank - 1u) * w->from->prog->ntensors + ap->base - 1]
                        : 0;
  for (uint32_t i = 0; i < k->nregions; i++) {
    vm_ck_region *r = &k->regions[i];
    if (r->space == ap->space && (ap->space != ISA_HBM || r->tensor == tensor + 1))
      /* To uninit the bytes are written, though by nobody of this rank. */
      r->pushed = r->written = true;
  }
}

void vm_ck_note_pushed(vm_core *c) {
  const vm_peers *peers = c->run->peers;
  for (uint32_t r = 0; peers && c->check->peers.n && r < peers->nranks; r++) {
    const pushed w = {c, peers->runs[r]};
    const isa_program *p = w.from->prog;
    for (unsigned core = 0; core < p->ncores; core++)
      for (uint32_t i = 0; i < p->cores[core].naps; i++) note_pattern(&w, &p->cores[core].aps[i]);
  }
}

/* ---- Sending ------------------------------------------------------------------------------ */

static bool room(vm_core *c, void *array, uint32_t n, uint32_t *cap, size_t size) {
  if (n < *cap || isa_array_grow(&c->al, array, n, cap, size)) return true;
  vm_ck_out_of_memory(c);
  return false;
}

static void note_sent(vm_core *c, unsigned e, uint32_t epoch, vm_ck_snapshot *base, uint32_t step) {
  vm_ck_peers *p = &c->check->peers;
  if (!room(c, &p->sent[e], p->nsent[e], &p->cap_sent[e], sizeof **p->sent)) return;
  base->refs++;
  p->sent[e][p->nsent[e]++] = (vm_ck_sent){base, epoch, step};
}

const vm_ck_sent *vm_ck_sent_at(const struct vm_check *k, unsigned e, uint32_t epoch) {
  const vm_ck_peers *p = &k->peers;
  uint32_t lo = 0, hi = p->nsent[e];
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (p->sent[e][mid].epoch < epoch)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < p->nsent[e] && p->sent[e][lo].epoch == epoch ? &p->sent[e][lo] : NULL;
}

void vm_ck_pushes(vm_core *c, unsigned e, const vm_transfer *t, uint32_t count,
                  vm_ck_snapshot *base) {
  struct vm_check *k = c->check;
  vm_ck_peers *p = &k->peers;
  if (!p->n || !room(c, &p->push, p->npush, &p->cap_push, sizeof *p->push)) return;
  uint32_t epoch = vm_ck_clock(c, e)[vm_ck_comp(e, OF_SEQ)];
  base->refs++;
  p->push[p->npush++] = (vm_ck_push){base, t->number, count, epoch, t->left};
  note_sent(c, e, epoch, base, k->log.queue[vm_ck_queue(c, t->queue)]);
}

static vm_ck_push *push_of(vm_ck_peers *p, uint32_t transfer) {
  /* Few transfers to other ranks are on their way at a time. */
  for (uint32_t i = 0; i < p->npush; i++)
    if (p->push[i].transfer == transfer) return &p->push[i];
  return NULL;
}

void vm_check_ended(vm_core *c, const vm_share *s, vm_where by) {
  vm_ck_peers *p = &c->check->peers;
  (void)by;
  vm_ck_push *x = s->t->put || s->t->peer ? push_of(p, s->t->number) : NULL;
  if (!x || --x->left) return;
  vm_ck_drop(c, x->base);
  *x = p->push[--p->npush];
}

/* What a clock knows of all ranks: of a queue of another one whose channel is here, what all rings
 * have brought. */
static void put_numbers(const struct vm_check *k, const uint32_t *clock, uint32_t *to) {
  const vm_ck_peers *p = &k->peers;
  /* What a queue has brought is what its slowest ring has. */
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t all = p->rings[i] ? UINT32_MAX : 0;
    for (unsigned r = 0; r < p->rings[i]; r++)
      if (clock[p->channel[i] + r] < all) all = clock[p->channel[i] + r];
    to[i] = clock[p->first + i] > all ? clock[p->first + i] : all;
  }
}

/* What an instruction, or a transfer when it was triggered, knew. */
typedef struct knowledge {
  vm_ck_snapshot *base;
  uint32_t entry, count, epoch;
} knowledge;

static bool known_to_share(vm_core *c, const vm_share *s, vm_where by, knowledge *out) {
  const vm_ck_push *x = push_of(&c->check->peers, s->t->number);
  if (!x) return false;
  *out = (knowledge){x->base, entry_of_queue(c, s->t->queue), x->count, x->epoch};
  /* The caller drops its own; the transfer keeps it for its other shares. */
  out->base->refs++;
  out->entry |= vm_ring_of_dma(c, s->t->queue, (unsigned)by.dma) << RING;
  return true;
}

static bool known_to_insn(vm_core *c, unsigned e, knowledge *out) {
  uint32_t epoch = vm_ck_step_on(c, e);
  vm_ck_release r;
  if (!vm_ck_release_now(c, e, &r)) return false;
  note_sent(c, e, epoch, r.base, c->check->log.last[e]);
  *out = (knowledge){r.base, own_entry(c, e % ISA_NSEQS), epoch, epoch};
  return true;
}

void vm_check_send(vm_core *c, const vm_share *s, vm_where by, vm_parcel *to) {
  struct vm_check *k = c->check;
  const isa_alloc *al = &c->run->peers->al;
  unsigned e = vm_ck_unit(c, (unsigned)by.engine);
  knowledge x;
  if (!vm_ck_has(c, VM_CHECK_RACE) || !k->peers.n) return;
  if (!(s ? known_to_share(c, s, by, &x) : known_to_insn(c, e, &x))) return;
  to->nknown = NUMBERS + k->peers.n;
  /* From the world's allocator: the receiver frees it, on another thread. */
  to->known = al->fn(al->ud, NULL, 0, to->nknown * sizeof *to->known);
  if (!to->known) {
    to->nknown = 0;
    vm_ck_out_of_memory(c);
  } else {
    to->known[AT_ENTRY] = x.entry;
    to->known[AT_COUNT] = x.count;
    put_numbers(k, x.base->v, to->known + NUMBERS);
    /* Its own last step is not in the clock that it sent. */
    to->known[NUMBERS + own_entry(c, (unsigned)by.engine)] = x.epoch;
  }
  vm_ck_drop(c, x.base);
}

/* ---- Hearing ------------------------------------------------------------------------------ */

static void raise(uint32_t *v, uint32_t to) {
  if (*v < to) *v = to;
}

/* What the numbers of a message mean here. */
static void translate(const vm_core *c, const uint32_t *numbers, uint32_t *to) {
  const struct vm_check *k = c->check;
  const vm_ck_peers *p = &k->peers;
  unsigned e, queue;
  for (uint32_t i = 0; i < p->n; i++) {
    if (!numbers[i]) continue;
    if (!vm_ck_entry_is_own(c, i, &e, &queue)) {
      raise(&to[p->first + i], numbers[i]);
    } else if (queue < VM_CK_QUEUES) {
      for (unsigned r = 0; r < vm_ck_queue_row(c, queue)->rings; r++)
        raise(&to[vm_ck_ring_comp(k, queue, r)], numbers[i]);
    } else {
      /* What it knew at that step is known again, and not only its number. */
      const vm_ck_sent *x = vm_ck_sent_at(k, e, numbers[i]);
      if (x) vm_ck_join(to, x->base->v, k->ncomps);
      raise(&to[vm_ck_comp(e, OF_SEQ)], numbers[i]);
    }
  }
}

/* Keeps the numbers for the log; returns the step. */
static uint32_t log_numbers(vm_core *c, const uint32_t *numbers) {
  vm_ck_peers *p = &c->check->peers;
  if (!c->check->log.on || !room(c, &p->heard, p->nheard, &p->cap_heard, sizeof *p->heard))
    return 0;
  uint32_t *copy = isa_zalloc(&c->al, p->n * sizeof *copy);
  if (!copy) {
    vm_ck_out_of_memory(c);
    return 0;
  }
  memcpy(copy, numbers, p->n * sizeof *copy);
  p->heard[p->nheard++] = copy;
  return vm_ck_log_heard(c, p->nheard - 1);
}

/* The rings of one transfer bring the same. NULL after a fault. */
static const vm_ck_heard *hear(vm_core *c, uint32_t entry, uint32_t count,
                               const uint32_t *numbers) {
  /* A transfer's rings come close together: few transfers at a time are enough. */
  vm_ck_heard *h = &c->check->peers.newest[entry * VM_CK_NEWEST + count % VM_CK_NEWEST];
  if (h->base && h->count == count) return h;
  vm_ck_drop(c, h->base);
  *h = (vm_ck_heard){.base = vm_ck_make_snapshot(c), .count = count};
  if (!h->base) return NULL;
  translate(c, numbers, h->base->v);
  h->step = log_numbers(c, numbers);
  return h;
}

/* The number of a message's place. Most often that is the highest pc of its sequencer so far. */
static uint32_t place_of(vm_core *c, const vm_message *m) {
  vm_ck_peers *p = &c->check->peers;
  if (!room(c, &p->spoke, p->nspoke, &p->cap_spoke, sizeof *p->spoke)) return 0;
  uint32_t *at = &p->spoken[entry_of_seq(p, m->src, m->core, m->engine)];
  while (*at && p->spoke[*at - 1].pc > m->pc) at = &p->spoke[*at - 1].next;
  if (*at && p->spoke[*at - 1].pc == m->pc) return *at - 1;
  p->spoke[p->nspoke] = (vm_ck_spoke){m->src, m->pc, m->core, m->engine, *at};
  *at = ++p->nspoke;
  return p->nspoke - 1;
}

void vm_ck_hear(vm_core *c, const vm_parcel *from, const vm_view *v) {
  struct vm_check *k = c->check;
  const vm_ck_peers *p = &k->peers;
  const vm_message *m = &from->m;
  k->has_arriving = false;
  k->change_by = VM_CK_ENGINES;
  if (!vm_ck_has(c, VM_CHECK_RACE) || !p->n || !from->known) return;
  uint32_t entry = from->known[AT_ENTRY] & ((1u << RING) - 1);
  uint32_t ring = from->known[AT_ENTRY] >> RING, count = from->known[AT_COUNT];
  const vm_ck_heard *h = hear(c, entry, count, from->known + NUMBERS);
  if (!h || c->run->ended) return;
  uint32_t comp = p->rings[entry] ? p->channel[entry] + ring : p->first + entry;
  uint32_t place = place_of(c, m);
  vm_ck_access a = {.epoch = count,
                    .comp = (uint16_t)comp,
                    .engine = VM_CK_PEER,
                    .queue = VM_CK_QUEUES,
                    .ring = (uint8_t)ring,
                    .pc = place,
                    .writes = true,
                    .step = h->step,
                    .time = c->now};
  k->pushing = h->base->v;
  /* First, as a push of the same bytes by both cores is no race of the two. */
  if (v) vm_ck_twins_pushed(c, m, v, &a);
  if (v) vm_ck_race_pushed(c, v, m->first, m->n, &a);
  if (!m->updates || c->run->ended) return;
  unsigned sem = vm_ck_sem(c->number, m->sem);
  h->base->refs++;
  k->log.of_update = h->step + 1;
  vm_ck_note_update(c, sem, ISA_UPD_add, m->value, comp, count,
                    &(vm_ck_release){.base = h->base,
                                     .engine = VM_CK_PEER,
                                     .pc = place,
                                     .ring = (uint16_t)comp,
                                     .share = count});
  k->log.of_update = 0;
  vm_ck_arrived(c, sem, comp);
}

/* ---- In a saved run ------------------------------------------------------------------------ */

static void walk_spoke(vm_saver *s, vm_core *c, uint32_t number) {
  const vm_peers *peers = c->run->peers;
  vm_ck_spoke at = {0};
  if (!s->reads) at = c->check->peers.spoke[number];
  vm_save_below(s, &at.rank, peers->nranks, "rank");
  vm_save_u8(s, &at.core);
  vm_save_u8(s, &at.engine);
  vm_save_u32(s, &at.pc);
  if (!s->reads || s->failed) return;
  const isa_program *prog = program_of(c, at.rank);
  if (!vm_saver_need(s,
                     at.core < prog->ncores && at.engine >= ISA_NENGINES && at.engine < ISA_NSEQS &&
                         at.pc < prog->cores[at.core].code[at.engine].n,
                     "no CC sequencer of another rank has that instruction"))
    return;
  const vm_message m = {.src = at.rank, .core = at.core, .engine = at.engine, .pc = at.pc};
  vm_saver_need(s, place_of(c, &m) == number, "an instruction of another rank comes twice");
}

static void walk_heard(vm_saver *s, vm_core *c) {
  vm_ck_peers *p = &c->check->peers;
  uint32_t n = p->nheard;
  vm_saver_count(s, &n, UINT32_MAX / 2, 4, "messages of a check");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!vm_saver_room(s, &c->al, &p->heard, i, &p->cap_heard, sizeof *p->heard)) return;
    if (s->reads && !(p->heard[i] = isa_zalloc(&c->al, p->n * sizeof **p->heard))) {
      vm_saver_no_memory(s);
      return;
    }
    if (s->reads) p->nheard++;
    vm_saver_words(s, p->heard[i], p->n);
  }
}

static void walk_pushed(vm_saver *s, vm_core *c) {
  vm_ck_twins *w = &c->check->twins;
  uint32_t n = w->npushed;
  vm_saver_count(s, &n, UINT32_MAX / 2, 8, "pushes of other ranks");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!vm_saver_room(s, &c->al, &w->pushed, i, &w->cap_pushed, sizeof *w->pushed)) return;
    w->npushed += s->reads;
    vm_save_u64(s, &w->pushed[i]);
  }
}

static void walk_places(vm_saver *s, vm_core *c) {
  vm_ck_peers *p = &c->check->peers;
  uint32_t n = p->nspoke;
  if (!vm_ck_has(c, VM_CHECK_RACE) || !p->n) return;
  vm_saver_count(s, &n, UINT32_MAX / 2, 10, "instructions of other ranks");
  for (uint32_t i = 0; i < n && !s->failed; i++) walk_spoke(s, c, i);
  if (!s->failed) walk_heard(s, c);
  if (!s->failed) walk_pushed(s, c);
}

const vm_ck_part vm_ck_part_places = {.walk = walk_places};

/* A step of the log, which may have ended. */
static void walk_step(vm_ck_clock_walk *w, uint32_t *step) {
  const vm_ck_log *g = &w->c->check->log;
  if (!g->on) *step = 0;
  vm_save_below(w->s, step, g->on ? g->nsteps : 1, "step of a check");
}

static void walk_sent(vm_ck_clock_walk *w, unsigned e) {
  vm_ck_peers *p = &w->c->check->peers;
  uint32_t n = p->nsent[e];
  vm_saver_count(w->s, &n, UINT32_MAX / 2, 12, "messages of a CC sequencer");
  for (uint32_t i = 0; i < n && !w->s->failed; i++) {
    if (!vm_saver_room(w->s, &w->c->al, &p->sent[e], i, &p->cap_sent[e], sizeof **p->sent)) return;
    p->nsent[e] += w->s->reads;
    vm_ck_walk_snapshot(w, &p->sent[e][i].base);
    vm_save_u32(w->s, &p->sent[e][i].epoch);
    walk_step(w, &p->sent[e][i].step);
    vm_saver_need(w->s, p->sent[e][i].base, "a message of a CC sequencer knows nothing");
  }
}

static void walk_pushes(vm_ck_clock_walk *w) {
  vm_ck_peers *p = &w->c->check->peers;
  uint32_t n = p->npush;
  vm_saver_count(w->s, &n, UINT32_MAX / 2, 20, "transfers to other ranks");
  for (uint32_t i = 0; i < n && !w->s->failed; i++) {
    if (!vm_saver_room(w->s, &w->c->al, &p->push, i, &p->cap_push, sizeof *p->push)) return;
    p->npush += w->s->reads;
    vm_ck_push *x = &p->push[i];
    vm_ck_walk_snapshot(w, &x->base);
    vm_save_u32(w->s, &x->transfer);
    vm_save_u32(w->s, &x->count);
    vm_save_u32(w->s, &x->epoch);
    vm_save_u32(w->s, &x->left);
    vm_saver_need(w->s, x->base && x->left, "a transfer to another rank knows nothing");
  }
}

/* What comes with the messages that a core will get, in the order of their events. */
static void walk_coming(vm_saver *s, vm_core *c) {
  for (uint32_t i = 0; i < c->events.n && !s->failed; i++) {
    const vm_event *v = &c->events.v[c->events.first + i];
    if (v->kind == VM_E_PUT) vm_check_walk_known(s, c, &c->inbox->v[v->value]);
  }
}

void vm_ck_walk_peers(vm_ck_clock_walk *w) {
  vm_ck_peers *p = &w->c->check->peers;
  if (!p->n) return;
  for (uint32_t i = 0; i < p->n * VM_CK_NEWEST && !w->s->failed; i++) {
    vm_ck_walk_snapshot(w, &p->newest[i].base);
    vm_save_u32(w->s, &p->newest[i].count);
    walk_step(w, &p->newest[i].step);
  }
  for (unsigned e = 0; e < w->c->check->nengines && !w->s->failed; e++) walk_sent(w, e);
  if (!w->s->failed) walk_pushes(w);
  for (unsigned i = 0; i < w->c->run->n && !w->s->failed; i++)
    walk_coming(w->s, w->c->run->cores[i]);
}

void vm_check_walk_known(vm_saver *s, vm_core *c, vm_parcel *m) {
  const vm_ck_peers *p = &c->check->peers;
  const isa_alloc *al = &c->run->peers->al;
  bool knows = m->known != NULL;
  if (!vm_ck_has(c, VM_CHECK_RACE) || !p->n) return;
  vm_save_bool(s, &knows);
  if (!knows) return;
  if (s->reads) {
    m->known = al->fn(al->ud, NULL, 0, (NUMBERS + p->n) * sizeof *m->known);
    m->nknown = m->known ? NUMBERS + p->n : 0;
    if (!m->known) {
      vm_saver_no_memory(s);
      return;
    }
  }
  vm_saver_words(s, m->known, m->nknown);
  uint32_t entry = m->known[AT_ENTRY] & ((1u << RING) - 1), ring = m->known[AT_ENTRY] >> RING;
  vm_saver_need(s, entry < p->n && ring < (p->rings[entry] ? p->rings[entry] : ISA_NDMA),
                "what a message knows is of no CC sequencer");
}
