/* The sequencers: one loop for all engines and CC sequencers. Register instructions run in a fast
 * loop ahead of the event queue, since nothing outside an engine sees its registers; whatever
 * touches shared state leaves that loop and runs when simulated time has come. */
#include "../../isa/flow.h"
#include "cc.h"
#include "../message.h"
#include "../time/clock.h"
#include "../dma/dma.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 1 << 20 }; /* register instructions between two checks of the limits */

/* Runs register instructions from e's pc, at most `budget`, until one that is slow or divides by
 * zero. Returns how many ran. Each instruction jumps to the code of the next (an extension of gcc
 * and clang), which takes half the instructions of a switch in a loop and is predicted better; each
 * has two labels, for b in the instruction and in a register. */
static uint64_t fast_loop(vm_engine *e, uint64_t budget) {
#define LABELS(name)                                            \
  [VM_U_OP(ISA_OP_##name, 0)] = __extension__ && name##_number, \
                          [VM_U_OP(ISA_OP_##name, 1)] = __extension__ && name##_register,
#define ALU(name, result) LABELS(name)
#define DIVIDE(name, result) LABELS(name)
#define BRANCH(name, taken) LABELS(name)
  static const void *const codes[] = {
#include "../../isa/registers.def"
      [VM_U_OP(ISA_OP_jmp, 0)] = __extension__ && jmp,
      [VM_U_OP(ISA_OP_call, 0)] = __extension__ && call,
      [VM_U_OP(ISA_OP_nop, 0)] = __extension__ && nop,
      [VM_U_STOP] = __extension__ && stop};
#define NEXT(at)                            \
  do {                                      \
    u = (at);                               \
    if (--left == 0) goto stop;             \
    __extension__({ goto *codes[u->op]; }); \
  } while (0)
#define ONE(label, from, ...)                       \
  label : {                                         \
    const uint32_t a = r[u->ra], b = (from);        \
    const int32_t sa = (int32_t)a, sb = (int32_t)b; \
    (void)a, (void)sa, (void)sb;                    \
    __VA_ARGS__;                                    \
    NEXT(u + 1);                                    \
  }
#define BOTH(name, ...)                           \
  ONE(name##_number, (uint32_t)u->b, __VA_ARGS__) \
  ONE(name##_register, r[u->b], __VA_ARGS__)
#define ALU(name, result) BOTH(name, r[u->rd] = result)
#define DIVIDE(name, result) BOTH(name, if (b == 0) goto stop; r[u->rd] = result)
#define BRANCH(name, taken) BOTH(name, if (taken) NEXT(code + u->to))
  uint32_t *const r = e->regs;
  const vm_uop *const code = e->uops, *u;
  /* One more than the budget: NEXT counts before it jumps, so that 0 means that the budget is used
   * up. */
  uint64_t left = budget + 1;
  NEXT(code + e->pc);
#include "../../isa/registers.def"
jmp:
  NEXT(code + u->to);
call:
  r[u->rd] = (uint32_t)(u + 1 - code);
  NEXT(code + u->to);
nop:
  NEXT(u + 1);
stop:
  e->pc = (uint32_t)(u - code);
  return budget - left;
#undef BOTH
#undef ONE
#undef NEXT
#undef LABELS
}

/* The same for those who watch each instruction, at its time. */
static uint64_t told_loop(vm_core *c, unsigned e, uint64_t budget, vm_time cycle) {
  /* No watcher asks for single steps: most do not. */
  vm_engine *en = &c->eng[e];
  if (!vm_watch_steps(c, e)) return fast_loop(en, budget);
  vm_time begin = en->now;
  uint64_t n = 0;
  for (; n < budget; n++) {
    en->now = begin + n * cycle;
    if (en->uops[en->pc].op != VM_U_STOP) vm_watch_step(c, e, en->pc);
    /* It has not run: it is slow, or divides by zero. */
    if (fast_loop(en, 1) == 0) break;
  }
  en->now = begin;
  return n;
}

static bool is_fast(unsigned op) { return isa_ops[op].runs == ISA_RUNS_REG; }

vm_uop vm_uop_of(const isa_insn *in) {
  vm_uop u = {0};
  bool in_register = false;
  /* In other instructions only the opcode matters: they stop the loop. */
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields && is_fast(in->op); i++) {
    const isa_field *f = &form->fields[i];
    const void *at = isa_member_c(in, f);
    /* Register forms have one source by name (ra) and at most one integer; what else is a register
     * is the destination. */
    if (f->kind == ISA_K_REG && strcmp(f->name, "ra") == 0)
      u.ra = *(const uint8_t *)at;
    else if (f->kind == ISA_K_REG)
      u.rd = *(const uint8_t *)at;
    else if (f->kind == ISA_K_LABEL)
      memcpy(&u.to, at, 4);
    else if (f->kind == ISA_K_INT) {
      const isa_int *v = at;
      u.b = v->v;
      in_register = v->is_reg;
    }
  }
  /* Kept even if it stops: the instruction then runs by it once its clauses have been dealt with
   * (slow_step). */
  if (is_fast(in->op)) u.reg_op = (uint8_t)VM_U_OP(in->op, in_register);
  bool stops = !is_fast(in->op) || in->wait.cond != ISA_WAIT_none || in->upd.kind != ISA_UPD_none;
  u.op = stops ? VM_U_STOP : u.reg_op;
  return u;
}

/* ---- Instructions that meet the rest of the machine ---------------------------------------- */

static vm_time cycles(const vm_core *c, vm_cost_id id) {
  return vm_cost_time(c, ISA_ENG_sync, c->cost[id]); /* sync's clock is the base clock */
}

/* The time of a register instruction: kept, since every instruction asks for it. */
static inline vm_time cycle_of(vm_core *c) {
  if (c->reg_cycle == 0) c->reg_cycle = cycles(c, VM_REG_CYC);
  return c->reg_cycle;
}

vm_verdict vm_stall(vm_core *c, unsigned e, vm_moment until, vm_why why) {
  /* It is tried again at that time, from its beginning: nothing has changed. */
  c->eng[e].now = until.time;
  vm_path_set_cause(&c->eng[e], until, why);
  vm_post(c, VM_E_SEQ, e, until.time, 0);
  return VM_STALL;
}

/* The one operand of an instruction of the sequencer, once the engine's own data path no longer
 * touches its bytes. */
static vm_verdict resolve_one(vm_core *c, unsigned e, uint32_t ap, bool writes, vm_view *v) {
  isa_error err = {0};
  vm_box box;
  vm_resolver r = {.c = c, .e = &c->eng[e], .err = &err};
  bool ok = vm_resolve_ap(&r, ap, v);
  /* An element that gives an offset is still being written: even a failure may be due to its old
   * value. */
  if (r.ready.time > c->now) return vm_stall(c, e, r.ready, VM_WHY_HAZARD);
  if (!ok) {
    vm_fault(c, err.status, vm_at_pc(c, e, c->eng[e].pc), "%s", err.text);
    return VM_FAULT;
  }
  vm_view_box(c, v, &box);
  const vm_boxes one = {&box, 1}, none = {0};
  vm_moment free = vm_own_hazard(c, e, writes ? none : one, writes ? one : none, c->now);
  return free.time > c->now ? vm_stall(c, e, free, VM_WHY_HAZARD) : VM_RETIRE;
}

/* A register holds the element's value as a 32-bit integer, a float as its fp32 bits. */
static uint32_t register_of(const vm_view *v) {
  /* Zero-extended: signed types are extended here, others are right as they are. */
  uint32_t bits;
  vm_load_bits(&bits, v, 0, 0, 1);
  switch (v->dtype) {
  case ISA_int8: return (uint32_t)(int32_t)(int8_t)bits;
  case ISA_int16: return (uint32_t)(int32_t)(int16_t)bits;
  default: break;
  }
  if (isa_dtypes[v->dtype].cls == ISA_FLOAT) return isa_f32_bits(isa_to_f32(v->dtype, bits));
  return bits;
}

static vm_verdict do_tensor_load(vm_core *c, unsigned e, const isa_insn *in) {
  vm_view v;
  vm_verdict ready = resolve_one(c, e, in->u.TENSOR_LOAD.src, false, &v);
  if (ready != VM_RETIRE) return ready;
  vm_touch(c, e, &v, false);
  c->eng[e].regs[in->u.TENSOR_LOAD.rd] = register_of(&v);
  vm_tell_accessed(c, e, &v, false);
  c->eng[e].now += cycles(c, VM_REG_MEM);
  return VM_RETIRE;
}

static vm_verdict do_tensor_store(vm_core *c, unsigned e, const isa_insn *in) {
  vm_view v;
  vm_verdict ready = resolve_one(c, e, in->u.TENSOR_STORE.dst, true, &v);
  if (ready != VM_RETIRE) return ready;
  vm_touch(c, e, &v, true);
  uint32_t value = c->eng[e].regs[in->u.TENSOR_STORE.ra];
  /* As a data path stores it: rounded, saturated by the run's option; bool is 0 or 1. */
  if (isa_dtypes[v.dtype].cls == ISA_FLOAT)
    value = isa_from_f32(v.dtype, isa_bits_f32(value), c->eng[e].dp.cvt);
  else if (v.dtype == ISA_bool)
    value = value != 0;
  vm_store_bits(&v, 0, 0, &value, 1);
  vm_tell_accessed(c, e, &v, true);
  c->eng[e].now += cycles(c, VM_REG_MEM);
  return VM_RETIRE;
}

static vm_verdict do_print(vm_core *c, unsigned e, const isa_insn *in) {
  vm_view v;
  const struct isa_PRINT *a = &in->u.PRINT;
  vm_verdict ready = resolve_one(c, e, a->src, false, &v);
  if (ready != VM_RETIRE) return ready;
  vm_touch(c, e, &v, false);
  vm_print(c, isa_program_list(c->prog, a->prefix, ISA_K_STR), a->prefix.count, &v,
           a->to == ISA_STREAM_stderr);
  return VM_RETIRE;
}

static int32_t int_value(const vm_core *c, unsigned e, isa_int v) {
  return v.is_reg ? (int32_t)c->eng[e].regs[v.v] : v.v;
}

static vm_verdict print_line(vm_core *c, isa_ref text, const int64_t *value, unsigned to) {
  vm_print_line(c, isa_program_list(c->prog, text, ISA_K_STR), text.count, value,
                to == ISA_STREAM_stderr);
  return VM_RETIRE;
}

static vm_verdict do_print_value(vm_core *c, unsigned e, const isa_insn *in) {
  const struct isa_PRINT_VALUE *a = &in->u.PRINT_VALUE;
  int64_t value = int_value(c, e, a->value);
  return print_line(c, a->prefix, &value, a->to);
}

static vm_verdict do_print_sem(vm_core *c, const isa_insn *in) {
  const struct isa_PRINT_SEM *a = &in->u.PRINT_SEM;
  int64_t value = c->sem[a->semaphore];
  return print_line(c, a->prefix, &value, a->to);
}

/* "device_assert: TEXT: " and the value that is wrong. */
static vm_verdict fail_assert(vm_core *c, unsigned e, isa_ref text, const char *what) {
  const char *said = isa_program_list(c->prog, text, ISA_K_STR);
  vm_fault(c, ISA_FAULT, vm_at_pc(c, e, c->eng[e].pc), "device_assert: %.*s%s%s",
           said ? (int)text.count : 0, said ? said : "", text.count && what[0] ? ": " : "", what);
  return VM_FAULT;
}

static vm_verdict do_assert(vm_core *c, unsigned e, const isa_insn *in) {
  const struct isa_ASSERT *a = &in->u.ASSERT;
  int32_t x = int_value(c, e, a->a), y = int_value(c, e, a->b);
  if (isa_compare_holds(a->cond, (uint32_t)x, (uint32_t)y)) return VM_RETIRE;
  char what[64];
  int n = 0;
  what[0] = '\0';
  if (a->a.is_reg) n = snprintf(what, sizeof what, "r%d is %d", a->a.v, x);
  if (a->b.is_reg && !(a->a.is_reg && a->a.v == a->b.v))
    snprintf(what + n, sizeof what - (size_t)n, "%sr%d is %d", n ? ", " : "", a->b.v, y);
  return fail_assert(c, e, a->text, what);
}

static vm_verdict do_assert_all(vm_core *c, unsigned e, const isa_insn *in) {
  const struct isa_ASSERT_ALL *a = &in->u.ASSERT_ALL;
  vm_view v;
  uint32_t p;
  uint64_t i;
  vm_verdict ready = resolve_one(c, e, a->src, false, &v);
  if (ready != VM_RETIRE) return ready;
  vm_touch(c, e, &v, false);
  if (!vm_first_zero(&v, &p, &i)) return VM_RETIRE;
  isa_buf what;
  isa_buf_init(&what, &c->al);
  isa_buf_printf(&what, "element [%" PRIu32 ", %" PRIu64 "] of ", p, i);
  isa_print_operand(c->prog, c->number, a->src, &what);
  isa_buf_puts(&what, " is 0");
  if (what.failed)
    vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for the text of a device_assert");
  else
    fail_assert(c, e, a->text, isa_buf_str(&what));
  isa_buf_free(&what);
  return VM_FAULT;
}

static vm_verdict do_ret(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  uint32_t to = en->regs[in->u.REG.r];
  if (to >= en->code->n) {
    vm_fault(c, ISA_FAULT, vm_at_pc(c, e, en->pc), "ret to pc %u; the section has %u instructions",
             to, en->code->n);
    return VM_FAULT;
  }
  en->pc = to - 1; /* the common retirement adds one */
  return VM_RETIRE;
}

static vm_verdict do_drain(vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  /* The data path, the rest of its last issue, and the generator of descriptors. */
  vm_moment idle = vm_later(vm_later(en->last_done, en->issue_free), en->dge_free);
  if (idle.time > c->now) return vm_stall(c, e, idle, VM_WHY_DRAIN);
  vm_tell_drain(c, e);
  return VM_RETIRE;
}

static vm_verdict do_event_semaphore(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  const isa_update *u = &in->upd;
  /* An event_semaphore's own time (SEM_SELF) passes before its update is seen. */
  en->now += (vm_time)c->cost[VM_SEM_SELF] * VM_NS;
  c->cause = vm_path_add(c, VM_N_SEQ, vm_at_pc(c, e, en->pc), c->now, en->now, en->cause);
  /* Subtracting what was waited for is part of the same step: two waiters must not both see it. */
  if (in->wait.cond != ISA_WAIT_none && u->kind != ISA_UPD_none && u->sem == in->wait.sem &&
      u->core == c->number) {
    vm_tell_applied(c, e, u->sem, u->kind);
    vm_sem_apply(c, u, vm_at_pc(c, e, en->pc));
  } else if (u->kind != ISA_UPD_none) {
    vm_tell_update(c, e, u);
    vm_sem_post(c, u, en->now, vm_at_pc(c, e, en->pc));
  }
  return VM_RETIRE;
}

static vm_verdict do_sem_range(vm_core *c, unsigned e, const isa_insn *in) {
  const struct isa_SEM_RANGE *a = &in->u.SEM_RANGE;
  c->cause =
      vm_path_add(c, VM_N_SEQ, vm_at_pc(c, e, c->eng[e].pc), c->now, c->now, c->eng[e].cause);
  for (uint32_t s = a->first; s < (uint32_t)a->first + a->count; s++) {
    vm_tell_applied(c, e, s, ISA_UPD_write);
    vm_sem_apply(c, &(isa_update){.kind = ISA_UPD_write, .sem = (uint8_t)s},
                 vm_at_pc(c, e, c->eng[e].pc));
  }
  c->eng[e].now += (vm_time)c->cost[VM_SEM_SELF] * VM_NS;
  return VM_RETIRE;
}

/* One instruction that the fast loop leaves; c->now is its time. */
static vm_verdict slow_step(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  /* A sendrecv_gpsimd uses the data path too, but first it has to meet the other core's. */
  if (isa_ops[in->op].runs == ISA_RUNS_PATH && in->op != ISA_OP_sendrecv_gpsimd)
    return vm_issue(c, e, in);
  switch (in->op) {
  case ISA_OP_nop: return VM_RETIRE;
  case ISA_OP_halt: en->state = VM_HALTED; return VM_RETIRE;
  case ISA_OP_ret: return do_ret(c, e, in);
  case ISA_OP_drain: return do_drain(c, e);
  case ISA_OP_event_semaphore: return do_event_semaphore(c, e, in);
  case ISA_OP_sem_range_clear: return do_sem_range(c, e, in);
  case ISA_OP_tensor_load: return do_tensor_load(c, e, in);
  case ISA_OP_tensor_store: return do_tensor_store(c, e, in);
  case ISA_OP_device_print: return do_print(c, e, in);
  case ISA_OP_device_print_text:
    return print_line(c, in->u.PRINT_TEXT.text, NULL, in->u.PRINT_TEXT.to);
  case ISA_OP_device_print_value: return do_print_value(c, e, in);
  case ISA_OP_device_print_semaphore: return do_print_sem(c, in);
  case ISA_OP_device_assert: return do_assert(c, e, in);
  case ISA_OP_device_assert_all: return do_assert_all(c, e, in);
  case ISA_OP_notify: {
    const isa_int *id = &in->u.NOTIFY.id;
    vm_trace(c, &(vm_trace_event){.kind = VM_EV_NOTIFY,
                                  .where = vm_at_pc(c, e, en->pc),
                                  .id = id->is_reg ? en->regs[id->v] : (uint32_t)id->v,
                                  .start = c->now,
                                  .end = c->now});
    return VM_RETIRE;
  }
  case ISA_OP_core_barrier: return vm_barrier(c, e, in);
  case ISA_OP_sendrecv_gpsimd: return vm_meet(c, e, in);
  case ISA_OP_rank_id:
    /* Outside a world there is one rank, 0. */
    en->regs[in->u.RANK.rd] = c->run->peers ? c->run->peers->rank : 0;
    return VM_RETIRE;
  case ISA_OP_current_processing_rank_id: return vm_cc_rank_of_round(c, e, in);
  case ISA_OP_wait_start: return vm_cc_wait_start(c, e, in);
  case ISA_OP_complete: return vm_cc_complete(c, e, in);
  default: break;
  }
  if (isa_op_is_collective(in->op))
    /* For both cores: the engines meet once, then each issues its part (triggered). */
    return isa_collective_of(in).both && c->run->n > 1 && !en->triggered
               ? vm_meet_collective(c, e, in)
               : vm_cc_issue(c, e, in);
  if (isa_op_is_dma(in->op)) return vm_dma_trigger(c, e, in);
  /* A register instruction that carries a semaphore clause. */
  /* For one instruction it is let into the fast loop. */
  vm_uop *u = &c->uops[e][en->pc];
  u->op = u->reg_op;
  bool ok = fast_loop(en, 1) == 1;
  u->op = VM_U_STOP;
  if (!ok) {
    vm_fault(c, ISA_FAULT, vm_at_pc(c, e, en->pc), "division by zero");
    return VM_FAULT;
  }
  en->pc--; /* retirement adds one */
  return VM_RETIRE;
}

bool vm_blocked(vm_core *c, unsigned e, const isa_wait *w) {
  vm_engine *en = &c->eng[e];
  if (w->cond == ISA_WAIT_none) return false;
  if (vm_wait_holds(c, en, w)) {
    /* It had to wait before: the wait ends here, and is reported once. */
    if (en->wait_noted) {
      en->waiting += c->now - en->wait_since;
      vm_trace(c, &(vm_trace_event){.kind = VM_EV_WAIT,
                                    .where = vm_at_pc(c, e, en->pc),
                                    .id = w->sem,
                                    .start = en->wait_since,
                                    .end = c->now});
    }
    return false;
  }
  /* Woken in vain: the wait began at the first try. */
  if (!en->wait_noted) {
    en->wait_noted = true;
    en->wait_since = c->now;
  }
  en->state = VM_WAITING;
  /* vm_wake tries it again when the semaphore changes. */
  c->sem_waiters[w->sem] |= (uint16_t)(1u << e);
  return true;
}

/* Whether there is nothing to wait for, and no wait to report. */
static inline bool passes(const vm_core *c, const vm_engine *en, const isa_wait *w) {
  return w->cond == ISA_WAIT_none || (!en->wait_noted && vm_wait_holds(c, en, w));
}

/* True if simulated time can continue to t without another event running first. */
static inline bool nothing_before(const vm_core *c, vm_time t) {
  const vm_event *ev = vm_next_event(c);
  if (ev && ev->time <= t) return false; /* most often */
  const vm_stack *s = c->run->stack;
  /* The other core of the stack may have an earlier event. */
  for (unsigned i = 0; s->n > 1 && i < s->n; i++) {
    ev = vm_next_event(s->cores[i]);
    if (ev && ev->time <= t) return false;
  }
  return true;
}

/* Brings simulated time to the engine's own. False: an event was posted for it. */
static inline bool catch_up(vm_core *c, unsigned e, bool single) {
  vm_engine *en = &c->eng[e];
  if (en->now <= c->now) return true;
  /* Nothing happens before: time moves on without an event, which is what makes slow instructions
   * cheap. */
  if (!single && nothing_before(c, en->now) && en->now <= c->horizon) {
    c->now = en->now;
    return true;
  }
  vm_post(c, VM_E_SEQ, e, en->now, 0);
  return false;
}

/* Runs one slow instruction. False when the engine leaves its loop. */
static bool slow(vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  const isa_insn *in = &en->code->insns[en->pc];
  /* After a stall the wait is not checked again: it has held, and another update may have followed.
   */
  if (!en->waited) {
    /* A breakpoint: the instruction is tried again when the run goes on. */
    if (c->watchers && vm_watch_before(c, e)) {
      vm_post(c, VM_E_SEQ, e, c->now, 0);
      return false;
    }
    if (!passes(c, en, &in->wait) && vm_blocked(c, e, &in->wait)) return false;
    vm_tell_begin(c, e, in);
  }
  en->waited = true;
  uint32_t pc = en->pc;
  if (slow_step(c, e, in) != VM_RETIRE) return false;
  uint32_t next = en->pc + 1; /* a ret and a branch have moved it */
  en->pc = pc;                /* this instruction makes the update */
  /* Other instructions post their updates themselves: those of a data path at their end, transfers
   * when their bytes are there. */
  bool posts = in->upd.kind != ISA_UPD_none && isa_op_is_control(in->op) &&
               in->op != ISA_OP_event_semaphore && !isa_op_is_dma(in->op) &&
               !isa_op_is_collective(in->op);
  en->now += cycle_of(c);
  if (posts) {
    vm_tell_update(c, e, &in->upd);
    c->cause = vm_path_add(c, VM_N_SEQ, vm_at_pc(c, e, pc), c->now, en->now, en->cause);
    vm_sem_post(c, &in->upd, en->now, vm_at_pc(c, e, pc));
  }
  en->waited = en->wait_noted = false;
  en->triggered = 0;
  en->instructions++;
  c->instructions++;
  if (!c->watchers ||
      vm_uop_of(in).op == VM_U_STOP) { /* otherwise it only stops here to be checked */
    en->shared_at = en->instructions;
    en->ran[pc] += en->state != VM_HALTED;
  }
  vm_tell_issued(c, e, pc);
  if (en->state == VM_IDLE) {
    vm_cc_next(c, e);
    return false;
  }
  if (en->state == VM_HALTED) {
    vm_path_add(c, VM_N_SEQ, vm_at_pc(c, e, pc), c->now, c->now, en->cause);
    return false;
  }
  en->pc = next;
  return true;
}

/* What counts against the limit: a dma_trigger counts as often as it starts a transfer, so that
 * work is bounded. */
static uint64_t repeats(const vm_run *r) {
  uint64_t n = 0;
  for (unsigned i = 0; i < r->n; i++) n += r->cores[i]->repeats;
  return n;
}
static uint64_t counted(const vm_run *r) { return vm_run_instructions(r) + repeats(r); }

bool vm_at_limit(vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  if (!c->run->limits.instructions || counted(c->run) < c->run->limits.instructions) return false;
  /* Else a saved run would have no event for this engine. */
  vm_post(c, VM_E_SEQ, e, en->now, 0); /* so that it can continue once it is saved */
  vm_fault(c, ISA_LIMIT, vm_at_pc(c, e, en->pc), "%llu instructions%s have run, which is the limit",
           (unsigned long long)counted(c->run),
           repeats(c->run) ? " and transfers of dma_trigger" : "");
  return true;
}

/* Register instructions that engine e may run ahead: at most one past the horizon. */
static uint64_t budget_of(const vm_core *c, unsigned e, bool single, vm_time cycle) {
  /* At most BATCH at a time: the limits of host time are looked at in between. */
  uint64_t left =
      c->run->limits.instructions ? c->run->limits.instructions - counted(c->run) : BATCH;
  left = left < BATCH ? left : BATCH;
  if (c->watchers && vm_watch_budget(c, e) < left) left = vm_watch_budget(c, e);
  vm_time now = c->eng[e].now;
  /* No limit in time, or register instructions that take none. */
  if (c->horizon == UINT64_MAX || cycle == 0) return single ? 1 : left;
  /* The instruction that reaches the horizon is included. */
  uint64_t room = now < c->horizon ? (c->horizon - now) / cycle + 1 : 1;
  return single ? 1 : left < room ? left : room;
}

/* Runs the register instructions at e's pc; true if as many ran as may. */
static bool run_ahead(vm_core *c, unsigned e, bool single, vm_time cycle) {
  vm_engine *en = &c->eng[e];
  uint64_t budget = budget_of(c, e, single, cycle), n;
  n = c->watchers ? told_loop(c, e, budget, cycle) : fast_loop(en, budget);
  en->instructions += n;
  c->instructions += n;
  en->now += n * cycle;
  return n == budget;
}

void vm_seq_run(vm_core *c, unsigned e, bool single) {
  vm_engine *en = &c->eng[e];
  vm_time cycle = cycle_of(c);
  en->state = VM_READY;
  en->now = en->now > c->now ? en->now : c->now;
  for (uint32_t turns = 0; !c->run->ended; turns++) {
    if (c->run->limits.instructions && vm_at_limit(c, e)) return;
    if (c->watchers && vm_watch_budget(c, e) == 0) { /* the others reach its time first */
      if (!catch_up(c, e, single)) return;
      vm_watch_reached(c, e);
      vm_post(c, VM_E_SEQ, e, en->now, 0);
      return;
    }
    /* An engine that issues without end would keep the loop from its limits. */
    bool ends = turns == BATCH / 64;
    if (en->uops[en->pc].op != VM_U_STOP) ends |= run_ahead(c, e, single, cycle);
    if (ends) { /* the loop checks the limits and the host's clock */
      c->run->until_clock = 1;
      vm_post(c, VM_E_SEQ, e, en->now, 0);
      return;
    }
    if (!catch_up(c, e, single)) return;
    /* The fast loop has stopped at an instruction that does not stop it: only a division does that.
     */
    if (en->uops[en->pc].op != VM_U_STOP) {
      vm_fault(c, ISA_FAULT, vm_at_pc(c, e, en->pc), "division by zero");
      return;
    }
    if (!slow(c, e)) return;
    if (single || c->run->paused) {
      vm_post(c, VM_E_SEQ, e, en->now, 0);
      return;
    }
  }
}
