/* Stops, the log, and what the engines of a run do. */
#include "../debug/debug.h"
#include "../dma/dma.h"
#include "impl.h"

#include <stdio.h>
#include <string.h>

/* SOMA_OK for a run that a caller may look at outside its callbacks. */
static soma_status check_run(const soma_run *r) {
  return r && r->m ? soma_not_running(r->m) : SOMA_ARG;
}

/* That core of r; NULL: its program has none. */
static const vm_core *core_of(const soma_run *r, unsigned core) {
  if (!r || core >= r->run.prog->ncores) return NULL;
  return r->run.cores[core];
}

/* ---- Stops -------------------------------------------------------------------------------- */
/* Each kind of stop has a function that turns the caller's description into the
 * machine's. */

static soma_status place_engine(const soma_run *r, const soma_stop *s, vm_stop *out) {
  if ((unsigned)s->engine >= core_of(r, s->core)->nseqs)
    return soma_fail(r->m, SOMA_ARG, "engine %d does not exist: there are %u", (int)s->engine,
                     core_of(r, s->core)->nseqs);
  const isa_code *code = &core_of(r, s->core)->code->code[s->engine];
  /* A count of instructions has no place. */
  if (s->kind != SOMA_STOP_COUNT && s->pc >= code->n)
    return soma_fail(r->m, SOMA_ARG, "pc %u: %s has %u instructions", s->pc,
                     isa_engines[s->engine].name, code->n);
  /* A place is passed each time; others are counted down. */
  if (s->kind != SOMA_STOP_PC && s->count == 0)
    return soma_fail(r->m, SOMA_ARG, "a stop that counts needs a count of 1 or more");
  out->engine = (uint8_t)s->engine;
  out->pc = s->pc;
  out->count = s->count;
  return SOMA_OK;
}

static soma_status place_semaphore(const soma_run *r, const soma_stop *s, vm_stop *out) {
  if (s->semaphore >= ISA_NSEMS)
    return soma_fail(r->m, SOMA_ARG, "semaphore %u: a core has %d", s->semaphore, ISA_NSEMS);
  /* By its text, as in a program.
   * 0 is no condition, so an unknown text leaves it. */
  for (unsigned k = ISA_WAIT_ge; k <= ISA_WAIT_ne; k++)
    if (s->condition && strcmp(s->condition, isa_cond_text(k)) == 0) out->cond = (uint8_t)k;
  if (out->cond == ISA_WAIT_none)
    return soma_fail(r->m, SOMA_ARG,
                     "'%s' is not a condition: >= > == <= < !=", s->condition ? s->condition : "");
  out->sem = (uint8_t)s->semaphore;
  out->value = s->value;
  return SOMA_OK;
}

static soma_status place_bytes(const soma_run *r, const soma_stop *s, vm_region *out) {
  const isa_program *p = r->run.prog;
  /* A tensor is one partition of bytes. */
  uint64_t size, parts = ISA_PMAX;
  if (s->tensor) {
    int i = isa_program_find_tensor(p, s->tensor, strlen(s->tensor));
    if (i < 0) return soma_fail(r->m, SOMA_ARG, "the program has no tensor %s", s->tensor);
    out->space = ISA_HBM;
    out->tensor = (uint32_t)i;
    size = p->tensors[i].bytes;
    parts = 1;
  } else if (s->memory == SOMA_SBUF || s->memory == SOMA_PSUM) {
    out->space = (uint8_t)s->memory;
    size = s->memory == SOMA_SBUF ? p->target->sbuf_bytes : p->target->psum_bytes;
  } else {
    return soma_fail(r->m, SOMA_ARG, "memory %d is neither SBUF nor PSUM", (int)s->memory);
  }
  /* p1 may wrap, which p0 < p1 then finds. */
  out->p0 = s->tensor ? 0 : s->partition;
  out->p1 = s->tensor ? 1 : s->partition + s->partitions;
  out->lo = s->offset;
  out->hi = s->offset + s->bytes;
  /* Each bound by itself, so that no sum can wrap. */
  bool fits = s->partition < parts && out->p0 < out->p1 && out->p1 <= parts && s->offset < size &&
              s->bytes > 0 && s->bytes <= size - s->offset;
  return fits ? SOMA_OK
              : soma_fail(r->m, SOMA_ARG,
                          "%llu bytes from byte %llu of partitions %u..%u: %s has "
                          "%llu partitions of %llu",
                          (unsigned long long)s->bytes, (unsigned long long)s->offset, out->p0,
                          out->p1 - 1, s->tensor ? s->tensor : isa_space_name(out->space),
                          (unsigned long long)parts, (unsigned long long)size);
}

soma_status soma_run_stop_add(soma_run *r, const soma_stop *given, size_t n, uint32_t *id) {
  /* All stops of a run are with core 0, whatever core they are of. */
  soma_stop s;
  soma_status status = check_run(r);
  if (status != SOMA_OK) return status;
  if (!soma_given(r->m, "stop id", given, id)) return SOMA_ARG;
  /* An older caller's struct is shorter: what is missing is 0. */
  soma_give(&s, sizeof s, given, n);
  if (!core_of(r, s.core))
    return soma_fail(r->m, SOMA_ARG, "core %u does not exist: the program of the run has %u",
                     s.core, r->run.prog->ncores);
  vm_stop stop = {.kind = (uint8_t)s.kind, .core = (uint8_t)s.core, .quiet = s.quiet != 0};
  switch (s.kind) {
  case SOMA_STOP_PC:
  case SOMA_STOP_COUNT:
  case SOMA_STOP_DONE: status = place_engine(r, &s, &stop); break;
  case SOMA_STOP_SEMAPHORE: status = place_semaphore(r, &s, &stop); break;
  case SOMA_STOP_WRITE:
  case SOMA_STOP_READ: status = place_bytes(r, &s, &stop.region); break;
  default: status = soma_fail(r->m, SOMA_ARG, "%d is not a kind of stop", (int)s.kind);
  }
  if (status != SOMA_OK) return status;
  return vm_debug_add(r->run.cores[0], &stop, id) ? SOMA_OK : soma_out_of_memory(r->m);
}

soma_status soma_run_stop_remove(soma_run *r, uint32_t id) {
  soma_status status = check_run(r);
  if (status != SOMA_OK) return status;
  if (!vm_debug_find(r->run.cores[0], id))
    return soma_fail(r->m, SOMA_ARG, "the run has no stop %u", id);
  vm_debug_remove(r->run.cores[0], id);
  return SOMA_OK;
}

/* Numbers that do not apply are -1. */
static soma_status give_hit(const vm_hit *h, soma_hit *out, size_t n) {
  soma_hit hit = {.stop = h->stop,
                  .engine = h->where.engine < ISA_NSEQS ? h->where.engine : -1,
                  .dma_engine = h->where.dma,
                  .pc = h->where.pc,
                  .start = h->start,
                  .time = h->time,
                  .value = h->value,
                  .part = h->part,
                  .from_rank = h->from_rank,
                  .core = h->where.core};
  return soma_give(out, n, &hit, sizeof hit);
}

soma_status soma_run_stop_last(const soma_run *r, uint32_t id, uint64_t *hits, soma_hit *last,
                               size_t n) {
  const vm_stop *s = r ? vm_debug_find(r->run.cores[0], id) : NULL;
  if (!s || !hits || !last) return SOMA_ARG;
  *hits = s->hits;
  return give_hit(&s->last, last, n);
}

uint32_t soma_run_hits(const soma_run *r) {
  return r && r->run.cores[0]->debug ? r->run.cores[0]->debug->nhits : 0;
}

/* The caller's struct may be of an older version. */
soma_status soma_run_hit(const soma_run *r, uint32_t i, soma_hit *out, size_t n) {
  if (!out || i >= soma_run_hits(r)) return SOMA_ARG;
  return give_hit(&r->run.cores[0]->debug->hit[i], out, n);
}

/* ---- What the engines do ------------------------------------------------------------------ */

soma_status soma_core_engine(const soma_run *r, unsigned core, soma_engine e,
                             soma_engine_state *out, size_t n) {
  static const soma_engine_status status[] = {
      [VM_READY] = SOMA_ENGINE_READY,     [VM_WAITING] = SOMA_ENGINE_WAITING,
      [VM_RINGFULL] = SOMA_ENGINE_RING,   [VM_HALTED] = SOMA_ENGINE_HALTED,
      [VM_MEETING] = SOMA_ENGINE_MEETING, [VM_IDLE] = SOMA_ENGINE_IDLE,
      [VM_LEAVING] = SOMA_ENGINE_LEAVING, [VM_CROWDED] = SOMA_ENGINE_CROWDED};
  const vm_core *c = core_of(r, core);
  if (!c || !out || (unsigned)e >= c->nseqs) return SOMA_ARG;
  const vm_engine *en = &c->eng[e];
  soma_engine_state s = {.status = status[en->state],
                         .pc = en->pc,
                         .instructions = en->instructions,
                         .time = en->now,
                         .since = en->wait_since,
                         .semaphore = -1,
                         .condition = "",
                         .queue = en->state == VM_RINGFULL ? (int)en->ring_queue : -1,
                         .in_flight = en->nflights,
                         .passes = vm_debug_passes(c, e)};
  /* An engine that has halted may stand after its last instruction. */
  const isa_wait w = en->pc < en->code->n ? vm_wait_of(c, en) : (isa_wait){0};
  if (w.cond != ISA_WAIT_none && en->state != VM_HALTED && en->state != VM_IDLE) {
    s.semaphore = w.sem;
    s.condition = isa_cond_text(w.cond);
    /* The value may be in a register, which is read as it is now. */
    s.want = w.is_reg ? en->regs[w.value] : w.value;
    s.have = c->sem[w.sem];
  }
  return soma_give(out, n, &s, sizeof s);
}

soma_status soma_core_pass(soma_run *r, unsigned core, soma_engine e) {
  soma_status status = check_run(r);
  if (status != SOMA_OK) return status;
  if (!core_of(r, core) || (unsigned)e >= core_of(r, core)->nseqs)
    return soma_fail(r->m, SOMA_ARG, "core %u has no engine %d", core, (int)e);
  vm_debug_stepped(r->run.cores[core], (unsigned)e);
  return SOMA_OK;
}

soma_status soma_run_engine(const soma_run *r, soma_engine e, soma_engine_state *out, size_t n) {
  return soma_core_engine(r, 0, e, out, n);
}

soma_status soma_core_flight(const soma_run *r, unsigned core, soma_engine e, uint32_t i,
                             soma_flight *out, size_t n) {
  const vm_core *c = core_of(r, core);
  if (!c || !out || (unsigned)e >= ISA_NENGINES || i >= c->eng[e].nflights) return SOMA_ARG;
  const vm_engine *en = &c->eng[e];
  /* Flights are in a ring; `first` is the oldest one. */
  const vm_flight *f = &en->flights[(en->first + i) % VM_FLIGHTS];
  soma_flight flight = {.pc = f->pc, .start = f->item.start, .done = f->item.done};
  return soma_give(out, n, &flight, sizeof flight);
}

soma_status soma_run_flight(const soma_run *r, soma_engine e, uint32_t i, soma_flight *out,
                            size_t n) {
  return soma_core_flight(r, 0, e, i, out, n);
}

/* A queue's transfers are in its rings, and each ring has a share of every one, in order: the ring
 * that is furthest behind has them all. */
static const vm_ring *longest_ring(const vm_core *c, unsigned queue) {
  const vm_ring *most = &c->rings[queue][0];
  for (unsigned d = 1; d < ISA_NDMA; d++)
    if (c->rings[queue][d].n > most->n) most = &c->rings[queue][d];
  return most;
}

static void add_shares(const vm_core *c, unsigned queue, const vm_transfer *t, soma_transfer *out) {
  /* Shares that are done have left their rings. */
  for (unsigned d = 0; d < ISA_NDMA; d++)
    for (const vm_share *s = c->rings[queue][d].head; s; s = s->next) {
      if (s->t != t) continue;
      out->shares++;
      out->bytes += s->bytes;
      out->moved += s->sent;
    }
}

soma_status soma_core_transfer(const soma_run *r, unsigned core, uint32_t i, soma_transfer *out,
                               size_t n) {
  const vm_core *c = core_of(r, core);
  if (!c || !out) return SOMA_ARG;
  /* A queue may be empty. */
  for (unsigned q = 0; q < c->code->nqueues; q++) /* those of CC sequencers too */
    for (const vm_share *s = longest_ring(c, q)->head; s; s = s->next) {
      /* Transfers of all queues have one numbering, in the order of queues. */
      if (i-- > 0) continue;
      soma_transfer t = {.engine = (soma_engine)s->t->engine,
                         .pc = s->t->pc,
                         .queue = q,
                         .semaphore = s->t->signals ? s->t->sem : -1,
                         .semaphore_core = s->t->sem_core};
      add_shares(c, q, s->t, &t);
      return soma_give(out, n, &t, sizeof t);
    }
  return SOMA_ARG;
}

soma_status soma_run_transfer(const soma_run *r, uint32_t i, soma_transfer *out, size_t n) {
  return soma_core_transfer(r, 0, i, out, n);
}

soma_status soma_write_waits(const soma_run *r, soma_write_fn write, void *ud) {
  if (!r || !write) return SOMA_ARG;
  isa_buf b;
  isa_buf_init(&b, &r->run.al);
  /* The same text as in the report of a deadlock. */
  vm_put_waits(&r->run, &b);
  soma_status s = b.failed ? SOMA_NOMEM : SOMA_OK;
  if (s == SOMA_OK && b.len && write(ud, b.data, b.len)) s = SOMA_IO;
  isa_buf_free(&b);
  return s;
}

/* ---- The log ------------------------------------------------------------------------------ */

/* The machine's own event becomes the caller's. */
static void log_done(void *ud, const vm_done *d) {
  const soma_run *r = ud;
  soma_logged l = {.engine = (soma_engine)d->where.engine,
                   .pc = d->where.pc,
                   .start = d->start,
                   .end = d->end,
                   .waited = d->waited,
                   .reg = d->reg,
                   .value = d->value,
                   .elements = d->elements,
                   .nans = d->nans,
                   .min = (double)d->min,
                   .max = (double)d->max,
                   .core = d->where.core};
  r->log(r->log_ud, &l);
}

soma_status soma_run_log(soma_run *r, soma_log_fn fn, void *ud) {
  soma_status status = check_run(r);
  if (status != SOMA_OK) return status;
  /* NULL turns the log off. */
  r->log = fn;
  r->log_ud = ud;
  return vm_debug_tell(r->run.cores[0], fn ? log_done : NULL, r) ? SOMA_OK
                                                                 : soma_out_of_memory(r->m);
}

/* A time in ns, without trailing zeros. */
static void put_ns(isa_buf *b, soma_time t) {
  isa_buf_printf(b, "%.3f", (double)t * 1e-6);
  /* "12.500" becomes "12.5". */
  while (b->data && b->data[b->len - 1] == '0') b->len--;
  if (b->data && b->data[b->len - 1] == '.') b->len--;
  isa_buf_puts(b, " ns");
}

static void put_logged(const isa_program *p, const soma_logged *l, isa_buf *b) {
  const isa_code *code = &p->cores[l->core].code[l->engine];
  /* Without a line table there is no place. */
  const isa_line *at = code->lines ? &code->lines[l->pc] : NULL;
  char name[32];
  snprintf(name, sizeof name, "%s%s", l->core ? "core 1 " : "", isa_engines[l->engine].name);
  /* One width for all names, so that lines align. */
  isa_buf_printf(b, "%12.3f  %-*s %5u  ", (double)l->end * 1e-6, p->ncores > 1 ? 13 : 6, name,
                 l->pc);
  if (at && at->file) isa_buf_printf(b, "%s:%u", p->files[at->file - 1], at->line);
  isa_buf_puts(b, "  ");
  isa_print_insn(p, l->core, (unsigned)l->engine, &code->insns[l->pc], b);
  if (l->waited) {
    isa_buf_puts(b, " ; waited ");
    put_ns(b, l->waited);
  }
  /* A register instruction has a result of its own. */
  if (l->reg >= 0) isa_buf_printf(b, " ; r%d = %d", l->reg, (int)(int32_t)l->value);
  if (l->elements == 0) return;
  isa_buf_puts(b, " ; ");
  /* All NaN: there is no least. */
  if (l->min <= l->max) isa_buf_printf(b, "min %.6g max %.6g ", l->min, l->max);
  isa_buf_printf(b, "NaN %llu", (unsigned long long)l->nans);
}

soma_status soma_write_logged(const soma_program *p, const soma_logged *given, size_t n,
                              soma_write_fn write, void *ud) {
  soma_logged l;
  if (!p || !given || !write) return SOMA_ARG;
  soma_give(&l, sizeof l, given, n);
  /* A hostile pc or core. */
  if (l.pc >= soma_program_instructions(p, l.core, l.engine)) return SOMA_ARG;
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  isa_buf_init(&b, &al);
  put_logged(p->p, &l, &b);
  soma_status s = b.failed ? SOMA_NOMEM : write(ud, b.data, b.len) ? SOMA_IO : SOMA_OK;
  isa_buf_free(&b);
  return s;
}
