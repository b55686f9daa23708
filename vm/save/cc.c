/* CC sequencers and messages of other ranks, in a saved run. */
#include "../../isa/operand.h"
#include "../check/check.h"
#include "../engine/cc.h"
#include "../message.h"
#include "save.h"

/* ---- Collectives -------------------------------------------------------------------------- */

static void walk_instruction(vm_saver *s, const vm_core *c, uint8_t *engine, uint32_t *pc) {
  uint32_t e = *engine;
  /* Only engines issue collectives. */
  vm_save_below(s, &e, ISA_NENGINES, "engine of a collective");
  vm_save_below(s, pc, c->code->code[e].n, "instruction of a collective");
  *engine = (uint8_t)e;
  if (!s->failed)
    vm_saver_need(s, isa_op_is_collective(c->code->code[e].insns[*pc].op),
                  "what was started is no collective");
}

static void walk_slot(vm_saver *s, vm_core *c, vm_collective *x) {
  vm_save_bool(s, &x->used);
  if (!x->used || s->failed) return;
  walk_instruction(s, c, &x->engine, &x->pc);
  vm_save_u8(s, &x->left);
  vm_save_node(s, c, &x->node);
  vm_save_time(s, &x->issued);
  /* Counted while reading. */
  c->ccs->used += s->reads;
}

bool vm_save_trigger_fits(const vm_core *c, unsigned e, uint32_t slot) {
  if (e < ISA_NENGINES || e >= c->nseqs || slot >= VM_COLLECTIVES || !c->ccs->v[slot].used)
    return false;
  const vm_cc *cc = &c->ccs->cc[e - ISA_NENGINES];
  for (uint32_t i = 0; i < cc->n; i++) /* At work or waiting already. */
    if (cc->fifo[(cc->first + i) % VM_COLLECTIVES] == slot) return false;
  return vm_cc_serves(c, e, &c->ccs->v[slot]);
}

/* The triggers of a sequencer, the one at work first. */
static void walk_triggers(vm_saver *s, vm_core *c, unsigned e) {
  vm_cc *cc = &c->ccs->cc[e - ISA_NENGINES];
  uint32_t n = cc->n;
  vm_saver_count(s, &n, VM_COLLECTIVES, 1, "triggers of a CC sequencer");
  if (s->reads) cc->first = cc->n = 0;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    uint8_t slot = cc->fifo[(cc->first + i) % VM_COLLECTIVES];
    vm_save_u8(s, &slot);
    if (!s->reads || !vm_saver_need(s, vm_save_trigger_fits(c, e, slot), "a trigger is not valid"))
      continue;
    cc->fifo[cc->n++] = slot;
  }
  bool rests = c->eng[e].state == VM_IDLE || c->eng[e].state == VM_HALTED;
  /* At rest exactly if nothing is to be done. */
  vm_saver_need(s, rests == (n == 0), "a CC sequencer works on no collective");
}

static void walk_done(vm_saver *s, vm_core *c) {
  vm_ccs *x = c->ccs;
  uint32_t n = x->ndone;
  vm_saver_count(s, &n, UINT32_MAX, 21, "complete collectives");
  if (s->reads) x->ndone = 0;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!vm_saver_room(s, &c->al, &x->done, i, &x->cap_done, sizeof *x->done)) return;
    walk_instruction(s, c, &x->done[i].engine, &x->done[i].pc);
    vm_save_time(s, &x->done[i].issued);
    vm_save_time(s, &x->done[i].ended);
    /* Durations are differences. */
    vm_saver_need(s, x->done[i].issued <= x->done[i].ended, "a collective ends before it begins");
    if (s->reads) x->ndone++;
  }
}

void vm_save_ccs(vm_saver *s, vm_core *c) {
  if (!c->ccs) return;
  if (s->reads) c->ccs->used = 0;
  for (unsigned i = 0; i < VM_COLLECTIVES && !s->failed; i++) walk_slot(s, c, &c->ccs->v[i]);
  for (unsigned e = ISA_NENGINES; e < c->nseqs && !s->failed; e++) walk_triggers(s, c, e);
  if (!s->failed) walk_done(s, c);
  for (unsigned e = 0; e < ISA_NENGINES && s->reads && !s->failed; e++) {
    if (c->eng[e].state != VM_CROWDED) continue;
    c->ccs->crowded |= (uint8_t)(1u << e);
    /* Else nothing would wake it. */
    vm_saver_need(s, c->ccs->used > 0, "an engine waits for a collective, but none is at work");
  }
}

void vm_save_check_ccs(vm_saver *s, const vm_core *c, const uint64_t *coming) {
  for (uint32_t i = 0; c->ccs && i < VM_COLLECTIVES && !s->failed; i++) {
    unsigned left = 0;
    if (!c->ccs->v[i].used) continue;
    for (unsigned e = ISA_NENGINES; e < c->nseqs; e++)
      left += (coming[e] >> i & 1) ||
              (vm_cc_serves(c, e, &c->ccs->v[i]) && !vm_save_trigger_fits(c, e, i));
    /* As many sequencers as still have its trigger, or will get it. */
    vm_saver_need(s, left > 0 && left == c->ccs->v[i].left,
                  "a collective is not what its CC sequencers work on");
  }
}

/* ---- Messages ----------------------------------------------------------------------------- */

static void walk_fields(vm_saver *s, vm_message *m) {
  uint64_t offset = (uint64_t)m->offset;
  vm_save_u32(s, &m->src);
  vm_save_u64(s, &m->seq);
  vm_save_u8(s, &m->updates);
  vm_save_u8(s, &m->sem);
  vm_save_u8(s, &m->engine);
  vm_save_u32(s, &m->pc);
  vm_save_u32(s, &m->ap);
  vm_save_u32(s, &m->tensor);
  vm_save_u64(s, &offset);
  vm_save_u64(s, &m->first);
  vm_save_u32(s, &m->n);
  vm_save_u32(s, &m->value);
  m->offset = (int64_t)offset;
}

/* The part of a pattern with its first n elements; of one whose size a register gives, and which
 * may then begin where the whole would not fit. */
static isa_ap first_of(const isa_ap *ap, uint64_t n) {
  isa_ap part = *ap;
  /* An empty part, or a size that is fixed. */
  if (ap->size_dim < 2 || n == 0) return part;
  isa_dim *d = &part.dim[ap->size_dim - 2];
  uint64_t each = isa_ap_elems(ap) / d->num; /* it is the outermost */
  d->num = (uint32_t)((n + each - 1) / each);
  return part;
}

/* Whether its bytes have a place here: those of a pattern of the sender's program for this rank. */
static bool bytes_fit(const vm_core *c, const vm_run *from, const vm_message *m) {
  const isa_core *code = &from->prog->cores[c->number];
  /* No pattern of the sender has that number. */
  if (m->ap > code->naps) return false;
  const isa_ap *ap = &code->aps[m->ap - 1];
  /* It must be a push to this rank. */
  if (!ap->rank || from->peers->ranks[ap->rank - 1] != c->run->peers->rank) return false;
  uint64_t elems = isa_ap_elems(ap) * (ap->space == ISA_HBM ? 1 : ap->nparts), size;
  int64_t lo, hi, end;
  size = c->target->sbuf_bytes;
  /* The tensor that the sender's peer table says, and no other. */
  if (ap->space == ISA_HBM) {
    uint32_t at = (ap->rank - 1u) * from->prog->ntensors + ap->base - 1;
    if (from->peers->tensors[at] != m->tensor) return false;
    size = c->run->blocks[m->tensor].bytes;
  }
  /* Elements within the pattern, and not before the tensor. */
  if (!m->n || m->first > elems || m->n > elems - m->first || m->offset < 0) return false;
  const isa_ap part = first_of(ap, m->first + m->n);
  return isa_ap_extent(&part, &lo, &hi) && m->offset + lo >= 0 &&
         !__builtin_add_overflow(m->offset, hi, &end) && (uint64_t)end <= size;
}

static bool message_fits(const vm_core *c, const vm_message *m) {
  const vm_peers *here = c->run->peers;
  if (!here || m->src >= here->nranks || m->seq >> VM_MESSAGE_SEQ || m->updates > VM_MESSAGE_PACKET)
    return false;
  const vm_run *from = here->runs[m->src];
  if (c->number >= from->n || m->engine >= ISA_NSEQS ||
      m->pc >= from->prog->cores[c->number].code[m->engine].n)
    return false;
  /* A message without bytes must at least update. */
  return m->ap ? bytes_fit(c, from, m) : m->updates == 1;
}

static bool read_bytes(vm_saver *s, vm_core *c, vm_parcel *p) {
  const isa_alloc *al = &c->run->peers->al;
  bool last = p->m.updates != VM_MESSAGE_PACKET; /* which has the bytes */
  p->bytes = c->run->timing_only || !last ? 0 : vm_message_bytes(c->run->peers->runs, &p->m);
  if (p->bytes == 0) return true;
  /* Before memory is taken. */
  if (!vm_saver_need(s, p->bytes <= vm_saver_left(s), "the bytes of a message are cut off"))
    return false;
  p->data = al->fn(al->ud, NULL, 0, (size_t)p->bytes);
  if (!p->data) return vm_saver_no_memory(s);
  vm_saver_bytes(s, p->data, (size_t)p->bytes);
  return true;
}

void vm_save_parcel(vm_saver *s, vm_core *c, vm_parcel *p) {
  walk_fields(s, &p->m);
  if (c->path) vm_save_u32(s, &p->node);
  if (!s->reads) {
    if (p->data) vm_saver_bytes(s, p->data, (size_t)p->bytes);
    return;
  }
  /* Both sides have the same core's number. */
  p->m.core = c->number;
  p->m.dst = c->run->peers ? c->run->peers->rank : 0;
  p->data = NULL;
  if (!s->failed && vm_saver_need(s, message_fits(c, &p->m), "a message is not valid"))
    read_bytes(s, c, p);
}

void vm_save_known(vm_saver *s, vm_core *c, vm_parcel *p) {
  if (c->check) vm_check_walk_known(s, c, p);
}

void vm_save_message(vm_saver *s, vm_core *c, const vm_event *v) {
  vm_parcel p = {0};
  if (!s->reads) {
    vm_save_parcel(s, c, &c->inbox->v[v->value]);
    return;
  }
  vm_save_parcel(s, c, &p);
  vm_saver_need(s, s->failed || p.m.updates != VM_MESSAGE_PACKET, "a packet has left its links");
  p.m.time = v->time;
  if (s->failed) return;
  vm_receive(c->run, &p);
  /* vm_receive faults in that case. */
  if (c->events.n == 0) return; /* out of memory, which the run says */
  const vm_event *last = &c->events.v[c->events.first + c->events.n - 1];
  uint64_t rank = ((uint64_t)p.m.src << VM_MESSAGE_SEQ) | p.m.seq;
  /* Its place among the events is that of the file. */
  vm_saver_need(s, last->kind == VM_E_PUT && last->time == v->time && last->rank == rank,
                "an event comes before the one before it");
}
