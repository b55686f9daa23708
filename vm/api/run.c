/* Runs of the facade: binding, starting, stepping, fetching, looking at the machine's state. */
#include "../time/clock.h"
#include "../engine/engine.h"
#include "../check/check.h"
#include "impl.h"
#include "../world/plan.h"

#include <inttypes.h>
#include <string.h>

static void put_type(isa_buf *b, const isa_tensor *t) {
  isa_buf_puts(b, isa_dtypes[t->dtype].name);
  isa_print_shape(t, ", ", b);
}

static soma_status wrong_shape(soma_machine *m, const isa_tensor *t, soma_dtype dtype,
                               uint32_t ndim, const int64_t *shape) {
  isa_buf b;
  isa_tensor given = {.dtype = (uint8_t)dtype, .ndim = (uint8_t)ndim};
  if (ndim) memcpy(given.shape, shape, ndim * sizeof *shape);
  isa_buf_init(&b, &m->al);
  isa_buf_printf(&b, "tensor %s is ", t->name);
  put_type(&b, t);
  isa_buf_puts(&b, ", but the data given is ");
  put_type(&b, &given);
  soma_status s = soma_fail(m, SOMA_ARG, "%s", isa_buf_str(&b));
  isa_buf_free(&b);
  return s;
}

static bool has_data(const soma_bound_tensor *b) { return b && (b->data || b->device); }

static soma_bound_tensor *find_binding(const soma_machine *m, const soma_program *p,
                                       uint32_t tensor) {
  for (uint32_t b = 0; b < m->nbindings; b++)
    if (m->bindings[b].p == p && m->bindings[b].tensor == tensor) return &m->bindings[b];
  return NULL;
}

static bool same_shape(const isa_tensor *t, uint32_t ndim, const int64_t *shape) {
  unsigned fixed = t->rows ? 1 : 0;
  return t->ndim == ndim && (!fixed || (shape[0] >= 1 && shape[0] <= t->shape[0])) &&
         (ndim <= fixed ||
          memcmp(t->shape + fixed, shape + fixed, (ndim - fixed) * sizeof *shape) == 0);
}

soma_status soma_binding(soma_machine *m, soma_program *p, const char *name, soma_dtype dtype,
                         uint32_t ndim, const int64_t *shape, soma_bound_tensor **out) {
  soma_status busy = soma_not_calling(m);
  if (busy != SOMA_OK) return busy;
  int i = isa_program_find_tensor(p->p, name, strlen(name));
  if (i < 0) return soma_fail(m, SOMA_ARG, "the program has no tensor %s", name);
  const isa_tensor *t = &p->p->tensors[i];
  if (t->role == ISA_CONST)
    return soma_fail(m, SOMA_ARG, "tensor %s is const: its data come with the program", name);
  if (!isa_dtype_valid((unsigned)dtype) || ndim > ISA_TENSOR_DIMS)
    return soma_fail(m, SOMA_ARG, "tensor %s: no such type or shape (dtype %d, %u dimensions)",
                     name, (int)dtype, ndim);
  if (t->dtype != (unsigned)dtype || !same_shape(t, ndim, shape))
    return wrong_shape(m, t, dtype, ndim, shape);
  *out = find_binding(m, p, (uint32_t)i);
  if (*out && ndim) (*out)->rows = shape[0];
  if (*out) return SOMA_OK;
  if (m->nbindings == m->cap_bindings &&
      !isa_array_grow(&m->al, &m->bindings, m->nbindings, &m->cap_bindings, sizeof *m->bindings))
    return soma_out_of_memory(m);
  *out = &m->bindings[m->nbindings++];
  **out = (soma_bound_tensor){.p = p, .tensor = (uint32_t)i, .rows = ndim ? shape[0] : 0};
  p->refs++;
  return SOMA_OK;
}

static bool can_bind(soma_machine *m, const soma_program *p, const char *name, uint32_t ndim,
                     const int64_t *shape, const void *data) {
  if (!soma_given(m, "p name", p, name)) return false;
  if (ndim && !soma_given(m, "shape", shape)) return false;
  if (!data) soma_fail(m, SOMA_ARG, "tensor %s is bound to no data (NULL)", name);
  return data != NULL;
}

static soma_status bind(soma_bound_tensor *b, const void *data, bool shared) {
  soma_tensor_free(b->device);
  b->device = NULL;
  b->data = data;
  b->shared = shared;
  return SOMA_OK;
}

soma_status soma_bind(soma_machine *m, soma_program *p, const char *name, soma_dtype dtype,
                      uint32_t ndim, const int64_t *shape, const void *data) {
  soma_bound_tensor *b;
  if (!can_bind(m, p, name, ndim, shape, data)) return SOMA_ARG;
  soma_status s = soma_binding(m, p, name, dtype, ndim, shape, &b);
  return s == SOMA_OK ? bind(b, data, false) : s;
}

soma_status soma_bind_shared(soma_machine *m, soma_program *p, const char *name, soma_dtype dtype,
                             uint32_t ndim, const int64_t *shape, const void *data) {
  soma_bound_tensor *b;
  if (!can_bind(m, p, name, ndim, shape, data)) return SOMA_ARG;
  soma_status s = soma_binding(m, p, name, dtype, ndim, shape, &b);
  return s == SOMA_OK ? bind(b, data, true) : s;
}

void soma_unbind(soma_machine *m, const soma_program *p) {
  if (!m) return;
  uint32_t kept = 0;
  for (uint32_t b = 0; b < m->nbindings; b++) {
    if (p && m->bindings[b].p != p) {
      m->bindings[kept++] = m->bindings[b];
      continue;
    }
    soma_tensor_free(m->bindings[b].device);
    soma_program_free(m->bindings[b].p);
  }
  m->nbindings = kept;
}

void soma_rebind(soma_machine *m, soma_program *p, soma_program *to) {
  for (uint32_t b = 0; b < m->nbindings && p != to; b++) {
    if (m->bindings[b].p != p) continue;
    m->bindings[b].p = to;
    to->refs++;
    soma_program_free(p);
  }
}

soma_status soma_fit_target(soma_machine *m, const isa_target *t) {
  if (isa_target_same(m->target, t)) return SOMA_OK;
  if (m->target)
    return soma_fail(m, SOMA_ARG, "the program is for %s, but the machine is a %s", t->name,
                     m->target->name);
  isa_error e = {0};
  vm_costs costs = m->costs;
  if (!vm_costs_of_target(&costs, t, &e)) return soma_fail(m, SOMA_ARG, "%s", e.text);
  if (!vm_hbm_fit(m->hbm, t, m->o.max_hbm_bytes))
    return soma_fail(m, SOMA_LIMIT, "tensors of the machine lie beyond the HBM of %s, %u GiB",
                     t->name, t->hbm_gib);
  if (!vm_memory_new(&m->al, t, &m->mem[0])) return soma_out_of_memory(m);
  m->target = isa_target_keep(t, &m->own_target);
  m->costs = costs;
  return SOMA_OK;
}

static soma_status refuse(soma_machine *m, const isa_program *p, const isa_place *at,
                          const isa_error *e) {
  if (at->engine < 0) return soma_fail(m, (soma_status)e->status, "%s", e->text);
  const isa_code *code = &p->cores[at->core].code[at->engine];
  isa_buf insn;
  isa_buf_init(&insn, &m->al);
  if (at->pc < code->n)
    isa_print_insn(p, (unsigned)at->core, (unsigned)at->engine, &code->insns[at->pc], &insn);
  uint32_t file = code->lines && at->pc < code->n ? code->lines[at->pc].file : 0;
  const char *core = at->core ? "core 1 " : "", *engine = isa_engines[at->engine].name;
  soma_status s = file ? soma_fail(m, (soma_status)e->status, "%s:%u: %s\n  %s (%s%s, pc %u)",
                                   p->files[file - 1], code->lines[at->pc].line, e->text,
                                   isa_buf_str(&insn), core, engine, at->pc)
                       : soma_fail(m, (soma_status)e->status, "%s%s, pc %u: %s\n  %s", core, engine,
                                   at->pc, e->text, isa_buf_str(&insn));
  isa_buf_free(&insn);
  return s;
}

soma_status soma_run_check(soma_machine *m, const soma_program *p) {
  isa_error e = {0};
  isa_place at;
  soma_status s = soma_fit_target(m, p->p->target);
  if (s != SOMA_OK) return s;
  if ((p->planned || isa_check_program(p->p, &at, &e)) && soma_customs_check(m, p->p, &at, &e) &&
      soma_world_check(m, p->p, &at, &e))
    return SOMA_OK;
  return refuse(m, p->p, &at, &e);
}

static void forward_event(vm_core *at_core, const vm_trace_event *ev) {
  const soma_run *r = at_core->run->hooks.event_ud;
  const isa_core *at = &r->p->p->cores[ev->core];
  const isa_core *code = &r->p->p->cores[ev->where.core];
  bool dma = ev->kind == VM_EV_DMA;
  unsigned by = (unsigned)ev->where.engine; /* the engine whose instruction it is */
  uint32_t pc = ev->where.pc;
  soma_event e = {.kind = ev->kind,
                  .engine = dma ? (unsigned)ev->where.dma : by,
                  .pc = pc,
                  .id = ev->id,
                  .start = ev->start,
                  .end = ev->end,
                  .bytes = ev->bytes,
                  .value = dma ? by : ev->value,
                  .core = ev->core,
                  .by_core = ev->where.core,
                  .part = ev->part};
  const isa_code *c = by < ISA_NSEQS ? &code->code[by] : NULL; /* NULL: the host or a peer */
  if (c && c->lines && pc < c->n && c->lines[pc].file) {
    e.line = c->lines[pc].line;
    e.file = r->p->p->files[c->lines[pc].file - 1];
  }
  if ((ev->kind == VM_EV_INSN || ev->kind == VM_EV_MEET) && c)
    e.name = isa_ops[c->insns[pc].op].name;
  else if (ev->kind == VM_EV_DMA || ev->kind == VM_EV_TRIGGER)
    e.name = at->queues[ev->id].name;
  else if (ev->kind == VM_EV_SEM || ev->kind == VM_EV_WAIT)
    e.name = at->sem_names[ev->id];
  r->m->o.event(r->m->o.event_ud, &e);
}

static const vm_watch to_host = {.event = forward_event};

void soma_run_options(soma_run *r) {
  const soma_options *o = &r->m->o;
  vm_run *run = &r->run;
  run->hooks = (vm_hooks){.event_ud = r,
                          .print = o->print,
                          .print_ud = o->print_ud,
                          .progress = o->progress,
                          .progress_ud = o->progress_ud};
  run->limits = (vm_limits){.instructions = o->max_instructions,
                            .time = o->max_time,
                            .seconds = o->max_seconds,
                            .cpu_seconds = o->max_cpu_seconds};
  if (o->event) vm_watch_add(run, &to_host);
  run->hooks.custom_cycles = soma_custom_cycles;
  run->hooks.custom_ud = r;
  for (unsigned i = 0; i < run->n; i++) {
    vm_dp *d = &run->cores[i]->eng[ISA_ENG_gpsimd].dp;
    d->custom = soma_custom_run;
    d->custom_ud = r;
  }
  run->interrupt = &r->m->interrupted;
  r->m->interrupted = 0;
}

static soma_status not_bound(soma_machine *m, const isa_tensor *t) {
  isa_buf b;
  isa_buf_init(&b, &m->al);
  isa_buf_printf(&b, "input tensor %s is not bound; it takes ", t->name);
  put_type(&b, t);
  soma_status s = soma_fail(m, SOMA_ARG, "%s", isa_buf_str(&b));
  isa_buf_free(&b);
  return s;
}

static soma_status check_inputs(soma_machine *m, const soma_program *sp) {
  const isa_program *p = sp->p;
  for (uint32_t i = 0; i < p->ntensors && !m->o.timing_only; i++)
    if (p->tensors[i].role == ISA_INPUT && !has_data(find_binding(m, sp, i)))
      return not_bound(m, &p->tensors[i]);
  return SOMA_OK;
}

/* Copies inputs that are not on the device to it, and constants; for data that is used in place
 * only the bytes are counted. */
static void copy_inputs(soma_run *r) {
  for (uint32_t i = 0; i < r->p->p->ntensors; i++) {
    const soma_bound_tensor *b = find_binding(r->m, r->p, i);
    const vm_block *to = &r->run.blocks[i];
    bool is_const = r->p->p->tensors[i].role == ISA_CONST; /* it was copied when it was placed */
    if (to->placed || (!has_data(b) && !is_const)) continue;
    if (b && to->data != b->data) memcpy(to->data, b->data, (size_t)to->bytes);
    r->to_device += to->bytes;
    r->m->to_device += to->bytes;
  }
}

/* Takes a reference, for r, to each device tensor that p's tensors are bound to or that holds a
 * constant; false: out of memory. */
static bool hold_device_tensors(soma_machine *m, soma_program *p, soma_run *r) {
  uint32_t n = p->p->ntensors;
  soma_tensor *const *consts = soma_residents(m, p);
  for (uint32_t i = 0; i < n; i++) {
    const soma_bound_tensor *b = find_binding(m, p, i);
    soma_tensor *t = b ? b->device : consts ? consts[i] : NULL;
    if (!t) continue;
    if (!r->device && !(r->device = isa_zalloc(&m->al, n * sizeof *r->device))) return false;
    r->device[i] = t;
    t->refs++;
  }
  return true;
}

/* Device tensors, and its own sizes. */
static void drop_what_it_holds(const isa_alloc *al, const soma_program *p, soma_run *r) {
  uint32_t n = p->p->ntensors;
  for (uint32_t i = 0; r->device && i < n; i++) soma_tensor_free(r->device[i]);
  if (r->device) isa_free(al, r->device, n * sizeof *r->device);
  soma_unsize_run(al, r);
}

static bool has_shared(const soma_machine *m, const soma_program *p) {
  for (uint32_t k = 0; k < m->nbindings; k++)
    if (m->bindings[k].p == p && m->bindings[k].shared) return true;
  return false;
}

/* Host data: shared data that p does not write is used in place, the rest will be copied. */
static bool give_host(const soma_machine *m, const soma_program *p, const soma_run *r,
                      vm_block *given) {
  uint32_t n = p->p->ntensors;
  bool *written = has_shared(m, p) ? isa_zalloc(&m->al, n * sizeof *written) : NULL;
  if (written)
    soma_mark_written(p->p, written);
  else if (has_shared(m, p))
    return false;
  for (uint32_t k = 0; k < m->nbindings; k++) {
    const soma_bound_tensor *b = &m->bindings[k];
    if (b->p != p || !b->data) continue;
    if (b->shared && !written[b->tensor])
      given[b->tensor] = (vm_block){.data = (uint8_t *)(uintptr_t)b->data, /* never written */
                                    .bytes = soma_sized(r, p->p)->tensors[b->tensor].bytes,
                                    .borrowed = true};
    else
      given[b->tensor].filled = true;
  }
  if (written) isa_free(&m->al, written, n * sizeof *written);
  return true;
}

/* *given is what p's tensors already have, n of them, or NULL; the caller frees it. */
static bool give_blocks(const soma_machine *m, const soma_program *p, const soma_run *r,
                        vm_block **given) {
  uint32_t n = p->p->ntensors;
  *given = NULL;
  if (!r->device && !m->nbindings) return true;
  if (!(*given = isa_zalloc(&m->al, n * sizeof **given))) return false;
  for (uint32_t i = 0; r->device && i < n; i++)
    if (r->device[i]) {
      (*given)[i] = r->device[i]->block;
      (*given)[i].borrowed = (*given)[i].placed = true;
    }
  return give_host(m, p, r, *given);
}

soma_status soma_start_cores(soma_machine *m, soma_run *r, const isa_program *p, vm_memory *mem,
                             const vm_block *given, unsigned cvt, isa_error *e) {
  const vm_host h = {.al = m->al,
                     .kern = &m->kern,
                     .cvt = cvt,
                     .stack = m->stack,
                     .threads = &m->threads,
                     .pool = m->pool,
                     .given = given};
  for (unsigned i = 0; i < p->ncores; i++)
    if (!mem[i].sbuf && !vm_memory_new(&m->al, p->target, &mem[i])) return SOMA_NOMEM;
  return (soma_status)vm_run_start(&r->run, &h, p, mem, e);
}

void soma_seed_rounding(soma_run *r, uint64_t seed) {
  for (unsigned i = 0; i < r->run.n; i++)
    for (unsigned e = 0; e < ISA_NENGINES; e++) r->run.cores[i]->eng[e].dp.rounding_seed = seed;
}

/* Starts r with device tensors and shared data in place. */
static soma_status start_cores(soma_machine *m, const soma_program *p, soma_run *r, isa_error *e) {
  vm_block *given;
  soma_status s = SOMA_NOMEM;
  if (give_blocks(m, p, r, &given))
    s = soma_start_cores(m, r, soma_sized(r, p->p), m->mem, given,
                         m->o.saturate ? ISA_CVT_saturate : 0, e);
  if (given) isa_free(&m->al, given, p->p->ntensors * sizeof *given);
  return s;
}

void soma_release(soma_run *r) { vm_run_release(&r->run); }

bool soma_start_checks(const soma_machine *m, vm_run *run) {
  bool all = m->o.schedule == SOMA_SCHEDULE_ALL;
  unsigned checks = m->o.checks & SOMA_CHECK_ALL;
  checks |= (unsigned)all << VM_CHECK_LEGAL;
  bool shares = run->n > 1 || run->peers; /* its HBM with another core, or what others push */
  if (checks && shares && !m->o.no_twins) checks |= 1u << VM_CHECK_TWINS;
  return vm_check_start(run->cores[0], checks);
}

static soma_status start(soma_machine *m, soma_program *p, soma_run **out) {
  isa_error e = {0};
  if (m->run && !m->run->run.ended)
    return soma_fail(m, SOMA_BUSY, "the machine has a run that has not ended");
  if (m->away && !m->world) return soma_bring_memories(m);
  soma_status s = soma_fit_target(m, p->p->target);
  if (s != SOMA_OK || (s = check_inputs(m, p)) != SOMA_OK || (s = soma_run_check(m, p)) != SOMA_OK)
    return s;
  soma_run *r = vm_pool_take(m->pool, &m->al, sizeof *r, true);
  if (!r) return soma_out_of_memory(m);
  if ((s = soma_find_rows(m, p, r)) != SOMA_OK) {
    vm_pages_free(&m->al, r, sizeof *r);
    return s;
  }
  if (m->run) soma_release(m->run);
  s = hold_device_tensors(m, p, r) ? start_cores(m, p, r, &e) : SOMA_NOMEM;
  if (s != SOMA_OK) {
    drop_what_it_holds(&m->al, p, r);
    vm_pages_free(&m->al, r, sizeof *r);
    if (s == SOMA_LIMIT) return soma_fail(m, s, "%s", isa_buf_str(&m->hbm->refused));
    if (s == SOMA_UNBUILT) return s;
    return soma_fail(m, s, "%s", e.text[0] ? e.text : soma_status_text(s));
  }
  vm_run *run = &r->run;
  memcpy(run->cost_values, m->costs.v[p->p->target->gen - ISA_GEN2], sizeof run->cost_values);
  run->timing_only = m->o.timing_only != 0;
  run->jitter = m->o.schedule == SOMA_SCHEDULE_ALL ? 0 : m->o.schedule;
  soma_seed_rounding(r, m->o.rounding_seed);
  if ((!m->world && !soma_start_checks(m, run)) || (m->o.causes && !vm_path_start(run))) {
    vm_run_end(run);
    drop_what_it_holds(&m->al, p, r);
    vm_pages_free(&m->al, r, sizeof *r);
    return soma_out_of_memory(m);
  }
  r->m = m;
  r->p = p;
  p->refs++;
  if (m->run) m->run->m = NULL; /* a run that has ended stays readable without its machine */
  m->run = r;
  soma_run_options(r);
  soma_load_rows(r);
  copy_inputs(r);
  soma_unbind(m, p);
  *out = r;
  return SOMA_OK;
}

/* The program of a machine that is no rank of a world: one rank alone, whose collectives are of
 * itself. *out has a reference. */
static soma_status plan_alone(soma_machine *m, soma_program *p, soma_program **out) {
  isa_error e = {.status = ISA_NOMEM};
  const isa_program *one = p->p;
  vm_plan_options o = {.programs = &one,
                       .ranks = 1,
                       .algorithm = -1,
                       .rings = p->p->target->dma,
                       .link_rings = p->p->target->dma,
                       .of_device = 1};
  vm_plan *plan = vm_plan_new(&m->al, &o, &e);
  isa_program *planned = plan ? vm_plan_program(plan, 0, &e) : NULL;
  vm_plan_free(plan);
  if (planned) return soma_wrap(m, planned, out);
  if (e.status != ISA_ILLEGAL) return soma_fail(m, (soma_status)e.status, "%s", e.text);
  return soma_fail(m, SOMA_ILLEGAL,
                   "%s\n  This run is a rank alone. Ranks that run together are a world: "
                   "soma.world in Lua and Python, soma_world_new in C, `soma --ranks N`.",
                   e.text);
}

/* Whether CC sequencers have something to do in a program. */
static bool has_collectives(const isa_program *p) {
  for (unsigned c = 0; c < p->ncores; c++)
    for (unsigned s = ISA_NENGINES; s < ISA_NSEQS; s++)
      if (p->cores[c].code[s].n) return true;
  return vm_plan_needed(p);
}

soma_status soma_run_start(soma_machine *m, soma_program *p, soma_run **out) {
  if (!soma_given(m, "p r", p, out)) return SOMA_ARG;
  soma_program *planned = NULL;
  *out = NULL;
  const char *what = m->world ? NULL : soma_not_for_ranks(&m->o);
  if (what && has_collectives(p->p))
    return soma_fail(m, SOMA_UNBUILT, "the program has collectives: %s", what);
  if (!m->world && m->o.event && has_collectives(p->p))
    return soma_fail(m, SOMA_UNBUILT,
                     "the program has collectives: its trace is built for a rank of a world only");
  if (m->world || !vm_plan_needed(p->p)) return start(m, p, out);
  soma_status s = soma_run_check(m, p);
  if (s != SOMA_OK || (s = plan_alone(m, p, &planned)) != SOMA_OK) return s;
  soma_rebind(m, p, planned);
  s = start(m, planned, out);
  soma_rebind(m, planned, p);
  soma_program_free(planned);
  return s;
}

/* The fault's text; if there was no memory for it, the kind of fault. */
static const char *fault_text(const soma_run *r) {
  const vm_fault_record *f = &r->run.fault;
  return f->text.failed || !f->text.data ? soma_status_text((soma_status)f->status) : f->text.data;
}

/* A finding names its places itself. */
static void fail_at_fault(const soma_run *r, soma_status s) {
  soma_fault f;
  soma_run_fault(r, &f);
  if (f.file && s != SOMA_CHECK)
    soma_fail(r->m, s, "%s:%" PRIu32 ": %s", f.file, f.line, f.text);
  else
    soma_fail(r->m, s, "%s", fault_text(r));
}

static soma_status run_until(soma_run *r, unsigned core, soma_until what, soma_engine engine,
                             soma_time time) {
  if ((unsigned)what > SOMA_TIME || (unsigned)engine >= ISA_NENGINES)
    return r->m ? soma_fail(r->m, SOMA_ARG,
                            "soma_run_until: what is %u and engine %u: the limits are %u and %u",
                            (unsigned)what, (unsigned)engine, SOMA_TIME + 1u, ISA_NENGINES + 0u)
                : SOMA_ARG;
  if (!r->m) return r->run.fault.status == ISA_OK ? SOMA_OK : (soma_status)r->run.fault.status;
  soma_status s = soma_not_running(r->m);
  if (s != SOMA_OK) return s;
  soma_machine *m = r->m;
  if (m->world)
    return soma_fail(m, SOMA_ARG, "the run is a rank of a world: soma_world_until moves it");
  m->running = true;
  s = (soma_status)vm_run_until(r->run.cores[core], (vm_until)what, (unsigned)engine, time);
  m->running = false;
  if (s != SOMA_OK) fail_at_fault(r, s);
  if (r->run.ended && s != SOMA_STOPPED) soma_release(r);
  return s;
}

soma_status soma_run_until(soma_run *r, soma_until what, soma_engine engine, soma_time time) {
  return r ? run_until(r, 0, what, engine, time) : SOMA_ARG;
}

soma_status soma_core_issue(soma_run *r, unsigned core, soma_engine engine) {
  if (!r) return SOMA_ARG;
  if (core < r->run.n) return run_until(r, core, SOMA_ISSUE, engine, 0);
  return r->m ? soma_fail(r->m, SOMA_ARG, "core %u does not exist: the program of the run has %u",
                          core, r->run.n)
              : SOMA_ARG;
}

int soma_run_ended(const soma_run *r) { return !r || r->run.ended; }

soma_status soma_find_tensor(soma_run *r, const char *name, uint32_t *i) {
  if (r->m && soma_not_calling(r->m) != SOMA_OK) return SOMA_BUSY;
  int at = isa_program_find_tensor(r->p->p, name, strlen(name));
  *i = (uint32_t)at;
  if (at >= 0) return SOMA_OK;
  return r->m ? soma_fail(r->m, SOMA_ARG, "the program has no tensor %s", name) : SOMA_ARG;
}

void soma_count_to_host(soma_run *r, uint64_t n) {
  r->to_host += n;
  if (r->run.ended) r->fetched_late += n;
  if (r->m) r->m->to_host += n;
}

soma_status soma_fetch(soma_run *r, const char *name, void *data, size_t n) {
  uint32_t i;
  if (!r || (r->m && !soma_given(r->m, "name data", name, data))) return SOMA_ARG;
  if (!name || !data) return SOMA_ARG;
  soma_status s = soma_find_tensor(r, name, &i);
  if (s != SOMA_OK || (s = soma_bring_tensor(r, i)) != SOMA_OK) return s;
  if (n != r->run.blocks[i].bytes)
    return r->m ? soma_fail(r->m, SOMA_ARG, "tensor %s has %llu bytes, not %zu", name,
                            (unsigned long long)r->run.blocks[i].bytes, n)
                : SOMA_ARG;
  vm_hbm_use_all(r->run.cores[0], i);
  memcpy(data, r->run.blocks[i].data, n);
  soma_count_to_host(r, n);
  return SOMA_OK;
}

void soma_run_leave(soma_run *r) {
  r->m = NULL;
  soma_release(r);
  if (!r->run.ended)
    vm_fault(r->run.cores[0], ISA_STOPPED, VM_NOWHERE,
             "the machine was freed before the run ended");
}

void soma_run_free(soma_run *r) {
  if (!r || (r->m && (r->m->calling || r->m->running))) return;
  if (r->m && r->m->world) soma_world_leave(r->m->world, r);
  isa_alloc al = r->run.al;
  vm_pool *pool = r->run.pool;
  vm_pool_hold(pool);
  if (r->m && r->m->run == r) r->m->run = NULL;
  isa_buf_free(&r->schedules.text);
  soma_drop_found(r);
  vm_run_end(&r->run);
  soma_drop_results(&al, r);
  drop_what_it_holds(&al, r->p, r);
  soma_program_free(r->p);
  vm_pool_give(pool, &al, r, sizeof *r);
  vm_pool_drop(pool);
}

unsigned soma_run_fault_core(const soma_run *r) { return r ? r->run.fault.core : 0; }

void soma_run_fault(const soma_run *r, soma_fault *out) {
  if (!out) return;
  *out = (soma_fault){
      .status = SOMA_ARG, .engine = -1, .dma_engine = -1, .instruction = "", .text = ""};
  if (!r) return;
  const vm_fault_record *f = &r->run.fault;
  *out = (soma_fault){.status = (soma_status)f->status,
                      .engine = f->engine,
                      .dma_engine = f->dma_engine,
                      .pc = f->pc,
                      .time = f->time,
                      .instruction = f->insn.data ? f->insn.data : "",
                      .text = f->status == ISA_OK ? "" : fault_text(r)};
  if (f->engine < 0 || f->status == ISA_OK) return;
  const isa_code *code = &r->p->p->cores[f->core].code[f->engine];
  if (code->lines && f->pc < code->n && code->lines[f->pc].file) {
    out->line = code->lines[f->pc].line;
    out->file = r->p->p->files[code->lines[f->pc].file - 1];
  }
}
