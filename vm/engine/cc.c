/* Collectives as programs of CC sequencers: triggers, blocks, and when one is complete. */
#include "cc.h"
#include "../message.h"
#include "../time/clock.h"

static vm_time ns(const vm_core *c, vm_cost_id id) { return (vm_time)c->cost[id] * VM_NS; }
static vm_cc *cc_of(const vm_core *c, unsigned e) { return &c->ccs->cc[e - ISA_NENGINES]; }

/* ---- Blocks ------------------------------------------------------------------------------- */

static bool load_blocks(vm_core *c, unsigned e) {
  const isa_code *code = &c->code->code[e];
  vm_cc *cc = cc_of(c, e);
  uint32_t n = 0;
  /* As many blocks as wait_starts. */
  for (uint32_t pc = 0; pc < code->n; pc++) n += code->insns[pc].op == ISA_OP_wait_start;
  if (n && !(cc->blocks = isa_zalloc(&c->al, n * sizeof *cc->blocks))) return false;
  cc->nblocks = n;
  for (uint32_t pc = 0, i = 0; pc < code->n; pc++) {
    const isa_insn *in = &code->insns[pc];
    if (in->op == ISA_OP_wait_start)
      cc->blocks[i++] = (vm_cc_block){in->u.BLOCK.of.engine, in->u.BLOCK.of.pc, pc};
  }
  return true;
}

bool vm_cc_load(vm_core *c) {
  c->ccs = isa_zalloc(&c->al, sizeof *c->ccs);
  if (!c->ccs) return false;
  for (unsigned e = ISA_NENGINES; e < c->nseqs; e++)
    if (!load_blocks(c, e)) return false;
  return true;
}

void vm_cc_unload(vm_core *c) {
  if (!c->ccs) return;
  for (unsigned k = 0; k < ISA_NCC; k++)
    /* Blocks are an array for each CC sequencer, NULL if it has no code. */
    isa_free(&c->al, c->ccs->cc[k].blocks, c->ccs->cc[k].nblocks * sizeof(vm_cc_block));
  isa_free(&c->al, c->ccs->done, c->ccs->cap_done * sizeof *c->ccs->done);
  isa_free(&c->al, c->ccs, sizeof *c->ccs);
  c->ccs = NULL;
}

static const vm_cc_block *block_for(const vm_cc *cc, unsigned engine, uint32_t pc) {
  for (uint32_t i = 0; i < cc->nblocks; i++)
    if (cc->blocks[i].engine == engine && cc->blocks[i].pc == pc) return &cc->blocks[i];
  return NULL;
}

bool vm_cc_serves(const vm_core *c, unsigned e, const vm_collective *x) {
  return block_for(cc_of(c, e), x->engine, x->pc) != NULL;
}

/* ---- Engines ------------------------------------------------------------------------------ */

static int free_slot(const vm_ccs *s) {
  for (int i = 0; s->used < VM_COLLECTIVES && i < VM_COLLECTIVES; i++)
    if (!s->v[i].used) return i;
  return -1;
}

unsigned vm_cc_servers(const vm_core *c, unsigned e, uint32_t pc) {
  unsigned set = 0;
  for (unsigned k = ISA_NENGINES; c->ccs && k < c->nseqs; k++)
    if (block_for(cc_of(c, k), e, pc)) set |= 1u << k;
  return set;
}

bool vm_cc_rests(const vm_core *c) { return !c->ccs || !c->ccs->used; }

static vm_verdict begin(vm_core *c, unsigned e, unsigned slot) {
  vm_engine *en = &c->eng[e];
  vm_collective *x = &c->ccs->v[slot];
  /* The trigger reaches the CC sequencers CC_START later. */
  vm_time at = c->now + ns(c, VM_CC_START);
  *x = (vm_collective){.used = true, .engine = (uint8_t)e, .pc = en->pc, .issued = c->now};
  x->node = vm_path_add(c, VM_N_SEQ, vm_at_pc(c, e, en->pc), c->now, at, en->cause);
  c->ccs->used++;
  for (unsigned k = ISA_NENGINES; k < c->nseqs; k++) {
    /* Only those that have a block for this instruction take part. */
    if (!block_for(cc_of(c, k), e, en->pc)) continue;
    x->left++;
    vm_post(c, VM_E_START, k, at, slot);
  }
  vm_tell_collective(c, e, slot);
  return VM_RETIRE;
}

vm_verdict vm_cc_issue(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  if (!vm_cc_servers(c, e, en->pc)) {
    vm_fault(c, ISA_FAULT, vm_at_pc(c, e, en->pc),
             "no CC sequencer has a program for this %s: it runs in a world of ranks, which "
             "`soma --ranks N` and soma.world start",
             isa_ops[in->op].name);
    return VM_FAULT;
  }
  /* VM_COLLECTIVES at a time, as many as a fifo holds. */
  int slot = free_slot(c->ccs);
  if (slot >= 0) return begin(c, e, (unsigned)slot);
  /* It is tried again when one is complete. */
  en->state = VM_CROWDED;
  c->ccs->crowded |= (uint8_t)(1u << e);
  return VM_STALL;
}

/* Round i of a ring has the data of the rank i places before. */
vm_verdict vm_cc_rank_of_round(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  const struct isa_RING_RANK *a = &in->u.RING_RANK;
  const isa_group *g = &c->prog->groups[a->group];
  uint32_t own = c->run->peers ? c->run->peers->rank : 0, n, place;
  const uint32_t *list = isa_group_list(g, own, &n, &place);
  /* A register's round may be negative, or beyond the ring: it counts around it. */
  int64_t round = a->iteration.is_reg ? (int32_t)en->regs[a->iteration.v] : a->iteration.v;
  if (list) {
    int64_t at = (place - round) % n;
    /* % of a negative number is negative in C. */
    en->regs[a->rd] = list[at < 0 ? at + n : at];
    return VM_RETIRE;
  }
  vm_fault(c, ISA_FAULT, vm_at_pc(c, e, en->pc), "rank %u is in no list of group %s", own, g->name);
  return VM_FAULT;
}

static void wake_crowded(vm_core *c) {
  for (unsigned left = c->ccs->crowded; left; left &= left - 1) {
    unsigned e = (unsigned)__builtin_ctz(left);
    c->eng[e].state = VM_READY;
    /* All that waited: the first takes the slot, the others wait again. */
    vm_post(c, VM_E_SEQ, e, c->now, 0);
  }
  c->ccs->crowded = 0;
}

/* ---- CC sequencers ------------------------------------------------------------------------- */

const vm_collective *vm_cc_at_work(const vm_core *c, unsigned e) {
  const vm_cc *cc = cc_of(c, e);
  return cc->n ? &c->ccs->v[cc->fifo[cc->first]] : NULL;
}

/* Goes to the block of the first trigger; at: when. */
static void enter(vm_core *c, unsigned e, vm_time at) {
  vm_engine *en = &c->eng[e];
  const vm_collective *x = vm_cc_at_work(c, e);
  en->pc = block_for(cc_of(c, e), x->engine, x->pc)->at;
  en->state = VM_READY;
  vm_path_set_cause(en, (vm_moment){at, x->node}, VM_WHY_START);
  vm_tell_enter(c, e, (uint32_t)(x - c->ccs->v));
  vm_post(c, VM_E_SEQ, e, at, 0);
}

void vm_cc_start(vm_core *c, unsigned e, uint32_t slot) {
  vm_cc *cc = cc_of(c, e);
  /* In order of arrival; it begins at once if nothing is at work. */
  cc->fifo[(cc->first + cc->n++) % VM_COLLECTIVES] = (uint8_t)slot;
  if (c->eng[e].state == VM_IDLE) enter(c, e, c->now);
}

void vm_cc_next(vm_core *c, unsigned e) {
  if (cc_of(c, e)->n) enter(c, e, c->eng[e].now);
}

/* Whether the instruction is about the collective at work; if not, the run faults. */
static bool is_about(vm_core *c, unsigned e, const isa_insn *in) {
  const vm_collective *x = vm_cc_at_work(c, e);
  if (x && x->engine == in->u.BLOCK.of.engine && x->pc == in->u.BLOCK.of.pc) return true;
  /* The text names the place of the other collective. */
  isa_buf text;
  isa_buf_init(&text, &c->al);
  if (x) vm_put_place(c, x->engine, x->pc, &text);
  vm_fault(c, ISA_FAULT, vm_at_pc(c, e, c->eng[e].pc), "%s of another collective than that at %s",
           isa_ops[in->op].name, isa_buf_str(&text));
  isa_buf_free(&text);
  return false;
}

vm_verdict vm_cc_wait_start(vm_core *c, unsigned e, const isa_insn *in) {
  if (!is_about(c, e, in)) return VM_FAULT;
  c->eng[e].now += ns(c, VM_CC_STEP);
  return VM_RETIRE;
}

static void note_done(vm_core *c, const vm_collective *x, vm_time end) {
  vm_ccs *s = c->ccs;
  if (isa_array_grow(&c->al, &s->done, s->ndone, &s->cap_done, sizeof *s->done))
    s->done[s->ndone++] = (vm_cc_done){x->engine, x->pc, x->issued, end};
  else
    vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory to note a collective");
}

/* The last sequencer posts the instruction's own update. */
static void complete(vm_core *c, unsigned e, vm_collective *x) {
  vm_engine *en = &c->eng[e];
  const isa_update *u = &c->code->code[x->engine].insns[x->pc].upd;
  /* The update is the engine's own, made on its behalf. */
  const vm_where by = vm_at_pc(c, x->engine, x->pc);
  c->cause = vm_path_add(c, VM_N_SEQ, vm_at_pc(c, e, en->pc), c->now, en->now, en->cause);
  if (u->kind != ISA_UPD_none) vm_sem_post(c, u, en->now, by);
  note_done(c, x, en->now);
  x->used = false;
  c->ccs->used--;
  wake_crowded(c);
}

vm_verdict vm_cc_complete(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  vm_cc *cc = cc_of(c, e);
  if (!is_about(c, e, in)) return VM_FAULT;
  /* Until what its transfers read has left: note_left of dma/queue.c wakes it. */
  if (en->moving) {
    en->state = VM_LEAVING;
    return VM_STALL;
  }
  vm_collective *x = &c->ccs->v[cc->fifo[cc->first]];
  en->now += ns(c, VM_CC_STEP);
  cc->first = (cc->first + 1) % VM_COLLECTIVES;
  cc->n--;
  /* left: other CC sequencers of the core that still work on it. */
  vm_tell_complete(c, e, (uint32_t)(x - c->ccs->v), --x->left == 0);
  if (x->left == 0) complete(c, e, x);
  /* vm_cc_next begins the next trigger once this instruction has retired. */
  en->state = VM_IDLE;
  return VM_RETIRE;
}
