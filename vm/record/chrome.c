/* Chrome's trace event format. Times are microseconds, written exactly (nine decimals). */
#include "record.h"

/* Processes; core 1 has its own, as many further on. */
enum { PID_ENGINES = 1, PID_DMA, PID_SEMS, PID_MEMORY };
enum { TRACKS = 32 }; /* track numbers of an engine: the data path's lanes, then its waits */

typedef struct chrome {
  vm_rec_view t;
  vm_rec_sink out;
  uint32_t *order, *from;
  uint8_t *lanes;
  uint32_t used[VM_REC_ENGINES];
  bool waits[VM_REC_ENGINES], rings[ISA_MAX_CORES * ISA_MAX_QUEUES][ISA_NDMA];
  uint64_t arrows;
  bool first;
} chrome;

/* Begins an event: comma, newline, brace. */
static isa_buf *begin(chrome *c) {
  isa_buf_puts(&c->out.b, c->first ? "\n{" : ",\n{");
  c->first = false;
  return &c->out.b;
}

static unsigned pid_of(unsigned core, unsigned pid) { return core * PID_MEMORY + pid; }
static unsigned engine_track(unsigned engine, unsigned lane) { return 1 + engine * TRACKS + lane; }
static unsigned wait_track(unsigned engine) { return engine_track(engine, TRACKS - 1); }
static unsigned ring_track(const vm_rec_event *v) { return 1 + v->id * ISA_NDMA + v->engine; }

static void track_of(const chrome *c, uint32_t i, unsigned *pid, unsigned *tid) {
  const vm_rec_event *v = vm_rec_at(c->t.r, i);
  *pid = pid_of(v->by_core, v->kind == VM_EV_DMA ? PID_DMA : PID_ENGINES);
  *tid = v->kind == VM_EV_DMA ? ring_track(v)
         : vm_rec_is_work(v)  ? engine_track(v->engine, c->lanes[i])
                              : wait_track(v->engine);
}

static void put_process(chrome *c, unsigned core, unsigned kind, const char *name) {
  unsigned pid = pid_of(core, kind);
  isa_buf_printf(begin(c),
                 "\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"%s%s\"}}",
                 pid, vm_rec_core(c->t.p, core), name);
  isa_buf_printf(
      begin(c),
      "\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}", pid,
      pid);
}

/* Names a track; tracks of a process stand in the order of their numbers. name is JSON. */
static void put_thread(chrome *c, unsigned pid, unsigned tid, const char *name) {
  isa_buf_printf(
      begin(c),
      "\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":%s}}", pid,
      tid, name);
  isa_buf_printf(begin(c),
                 "\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_sort_index\","
                 "\"args\":{\"sort_index\":%u}}",
                 pid, tid, tid);
}

static void put_engine_tracks(chrome *c, unsigned core) {
  unsigned pid = pid_of(core, PID_ENGINES);
  isa_buf name;
  isa_buf_init(&name, &c->t.al);
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    unsigned u = vm_rec_unit(core, e);
    for (unsigned l = 0; l < c->used[u]; l++) {
      name.len = 0;
      isa_buf_printf(&name, l ? "\"%s (overlap %u)\"" : "\"%s\"", isa_engines[e].name, l);
      put_thread(c, pid, engine_track(e, l), isa_buf_str(&name));
    }
    name.len = 0;
    isa_buf_printf(&name, "\"%s sequencer: waits\"", isa_engines[e].name);
    if (c->waits[u]) put_thread(c, pid, wait_track(e), isa_buf_str(&name));
  }
  vm_rec_sink_part(&c->out, &name);
}

static void put_ring_tracks(chrome *c, unsigned core) {
  isa_buf plain, name;
  isa_buf_init(&plain, &c->t.al);
  isa_buf_init(&name, &c->t.al);
  for (unsigned q = 0; q < ISA_MAX_QUEUES; q++)
    for (unsigned d = 0; d < ISA_NDMA; d++) {
      if (!c->rings[vm_rec_queue(core, q)][d]) continue;
      plain.len = name.len = 0;
      vm_rec_put_queue(&c->t, core, q, &plain);
      isa_buf_printf(&plain, " ring %u", d);
      isa_buf_json(&name, isa_buf_str(&plain));
      put_thread(c, pid_of(core, PID_DMA), 1 + q * ISA_NDMA + d, isa_buf_str(&name));
    }
  vm_rec_sink_part(&c->out, &plain);
  vm_rec_sink_part(&c->out, &name);
}

static void put_tracks(chrome *c) {
  for (uint32_t i = 0; i < c->t.n; i++) {
    const vm_rec_event *v = vm_rec_at(c->t.r, i);
    if ((v->kind == VM_EV_WAIT || v->kind == VM_EV_NOTIFY) && v->engine < ISA_NENGINES)
      c->waits[vm_rec_track(v)] = true;
    else if (v->kind == VM_EV_DMA && v->id < ISA_MAX_QUEUES && v->engine < ISA_NDMA)
      c->rings[vm_rec_queue(v->core, v->id)][v->engine] = true;
  }
  for (unsigned core = 0; core < c->t.p->ncores; core++) {
    put_process(c, core, PID_ENGINES, "engines");
    put_process(c, core, PID_DMA, "DMA");
    put_process(c, core, PID_SEMS, "semaphores");
    put_process(c, core, PID_MEMORY, "memory");
    put_engine_tracks(c, core);
    put_ring_tracks(c, core);
  }
}

/* "args" of a slice: place in the source, operands, pc; the caller adds more and two braces. */
static void put_args(chrome *c, const vm_rec_event *v) {
  isa_buf *b = &c->out.b, place;
  isa_line at = vm_rec_line(&c->t, v);
  isa_buf_puts(b, ",\"args\":{");
  if (at.file) {
    isa_buf_init(&place, &c->t.al);
    isa_buf_printf(&place, "%s:%u", vm_rec_file(&c->t, at.file), at.line);
    isa_buf_puts(b, "\"source\":");
    isa_buf_json(b, isa_buf_str(&place));
    isa_buf_puts(b, ",");
    vm_rec_sink_part(&c->out, &place);
  }
  isa_buf_puts(b, "\"operands\":");
  isa_buf_json(b, vm_rec_operands(&c->t, v));
  isa_buf_printf(b, ",\"pc\":%u", v->pc);
}

static void put_name(chrome *c, const vm_rec_event *v) {
  uint32_t number;
  const isa_insn *in = vm_rec_insn(&c->t, v, &number);
  isa_buf plain;
  isa_buf_init(&plain, &c->t.al);
  if (v->kind == VM_EV_WAIT) {
    isa_buf_puts(&plain, "wait ");
    vm_rec_put_sem(&c->t, v->core, v->id, &plain);
  } else if (v->kind == VM_EV_DMA && vm_rec_ends_of(&c->t, v).tensor[0]) {
    isa_buf_puts(&plain, vm_rec_ends_of(&c->t, v).tensor);
  } else if (v->kind == VM_EV_TABLE) {
    isa_buf_puts(&plain, isa_ops[ISA_OP_load_act_table].name);
  } else {
    isa_buf_puts(&plain, in ? isa_ops[in->op].name : "?");
  }
  isa_buf_json(&c->out.b, isa_buf_str(&plain));
  vm_rec_sink_part(&c->out, &plain);
}

static void put_slice(chrome *c, uint32_t i) {
  const vm_rec_event *v = vm_rec_at(c->t.r, i);
  static const char *const cats[] = {"", "insn", "dma", "", "", "wait", "table"};
  unsigned pid, tid;
  isa_buf *b = begin(c);
  track_of(c, i, &pid, &tid);
  isa_buf_printf(b, "\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"cat\":\"%s\",\"name\":", pid, tid,
                 cats[v->kind]);
  put_name(c, v);
  isa_buf_puts(b, ",\"ts\":");
  vm_rec_put_time(b, v->start, 9);
  isa_buf_puts(b, ",\"dur\":");
  vm_rec_put_time(b, v->end - v->start, 9);
  put_args(c, v);
  if (v->kind == VM_EV_DMA)
    isa_buf_printf(b, ",\"bytes\":%llu,\"triggered by\":\"%s\"", (unsigned long long)v->bytes,
                   v->value < ISA_NENGINES ? isa_engines[v->value].name : "?");
  isa_buf_puts(b, "}}");
}

static void put_counter(chrome *c, const vm_rec_event *v) {
  isa_buf plain;
  isa_buf *b = begin(c);
  isa_buf_init(&plain, &c->t.al);
  vm_rec_put_sem(&c->t, v->core, v->id, &plain);
  isa_buf_printf(b, "\"ph\":\"C\",\"pid\":%u,\"name\":", pid_of(v->core, PID_SEMS));
  isa_buf_json(b, isa_buf_str(&plain));
  isa_buf_puts(b, ",\"ts\":");
  vm_rec_put_time(b, v->start, 9);
  isa_buf_printf(b, ",\"args\":{\"value\":%u}}", v->value);
  vm_rec_sink_part(&c->out, &plain);
}

static void put_notify(chrome *c, const vm_rec_event *v) {
  isa_buf *b = begin(c);
  isa_buf_printf(b, "\"ph\":\"i\",\"s\":\"t\",\"pid\":%u,\"tid\":%u,\"name\":\"notify %u\",\"ts\":",
                 pid_of(v->core, PID_ENGINES), wait_track(v->engine), v->id);
  vm_rec_put_time(b, v->start, 9);
  put_args(c, v);
  isa_buf_puts(b, "}}");
}

/* One end of an arrow: just inside the end of slice i, where a viewer takes it for the slice's. */
static void put_arrow_end(chrome *c, uint32_t i, const char *how) {
  const vm_rec_event *v = vm_rec_at(c->t.r, i);
  vm_time length = v->end - v->start, back = length / 2 < VM_NS ? length / 2 : VM_NS;
  unsigned pid, tid;
  track_of(c, i, &pid, &tid);
  isa_buf_printf(
      begin(c),
      "%s,\"id\":%llu,\"pid\":%u,\"tid\":%u,\"cat\":\"signal\",\"name\":\"signal\",\"ts\":", how,
      (unsigned long long)c->arrows, pid, tid);
  vm_rec_put_time(&c->out.b, v->end - back, 9);
  isa_buf_puts(&c->out.b, "}");
}

/* From the instruction or share after a wait's update to the wait. */
static void put_arrow(chrome *c, uint32_t wait) {
  uint32_t update = c->from[wait], source = update ? c->from[update - 1] : 0;
  if (!source) return;
  uint8_t kind = vm_rec_at(c->t.r, source - 1)->kind;
  if (kind != VM_EV_INSN && kind != VM_EV_DMA) return;
  c->arrows++;
  put_arrow_end(c, source - 1, "\"ph\":\"s\"");
  put_arrow_end(c, wait, "\"ph\":\"f\",\"bp\":\"e\"");
}

static void put_event(chrome *c, uint32_t i) {
  const vm_rec_event *v = vm_rec_at(c->t.r, i);
  if (v->kind == VM_EV_SEM)
    put_counter(c, v);
  else if (v->kind == VM_EV_DMA && v->engine < ISA_NDMA && v->id < ISA_MAX_QUEUES)
    put_slice(c, i);
  else if (v->engine >= ISA_NENGINES)
    return;
  else if (v->kind == VM_EV_NOTIFY)
    put_notify(c, v);
  else if (v->kind != VM_EV_DMA)
    put_slice(c, i);
  if (v->kind == VM_EV_WAIT) put_arrow(c, i);
}

static bool put_use(chrome *c, unsigned core) {
  vm_rec_usage use;
  if (!vm_rec_usage_of(&c->t, c->order, core, &use)) return false;
  for (uint32_t i = 0; i < use.n && vm_rec_sink_row(&c->out); i++)
    for (int m = 0; m < 2; m++) {
      isa_buf *b = begin(c);
      isa_buf_printf(b, "\"ph\":\"C\",\"pid\":%u,\"name\":\"%s bytes\",\"ts\":",
                     pid_of(core, PID_MEMORY), m ? "PSUM" : "SBUF");
      vm_rec_put_time(b, use.v[i].t, 9);
      isa_buf_printf(b, ",\"args\":{\"in use\":%llu}}", (unsigned long long)use.v[i].bytes[m]);
    }
  vm_rec_usage_free(&c->t, &use);
  return true;
}

static void put_trace(chrome *c) {
  isa_buf_printf(&c->out.b,
                 "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"soma %s\",\"target\":"
                 "\"%s\",\"dropped_events\":%llu},\"traceEvents\":[",
                 SOMA_VERSION, c->t.p->target->name, (unsigned long long)c->t.r->dropped);
  c->first = true;
  put_tracks(c);
  for (uint32_t i = 0; i < c->t.n && vm_rec_sink_row(&c->out); i++) put_event(c, i);
  for (unsigned core = 0; core < c->t.p->ncores; core++)
    if (!put_use(c, core)) c->out.b.failed = true;
  isa_buf_puts(&c->out.b, "\n]}\n");
}

soma_status soma_write_chrome(const soma_recorder *r, const soma_program *p, soma_write_fn write,
                              void *ud) {
  if (!r || !p || !write) return SOMA_ARG;
  chrome c = {.first = true};
  if (!vm_rec_open(&c.t, r, p)) return SOMA_NOMEM;
  vm_rec_sink_open(&c.out, &c.t.al, write, ud);
  c.order = vm_rec_by_start(&c.t);
  c.from = vm_rec_links(&c.t);
  c.lanes = c.order ? vm_rec_lanes(&c.t, c.order, c.used) : NULL;
  if (c.order && c.from && c.lanes)
    put_trace(&c);
  else
    c.out.b.failed = true;
  vm_rec_free_array(&c.t, c.order, sizeof *c.order);
  vm_rec_free_array(&c.t, c.from, sizeof *c.from);
  vm_rec_free_array(&c.t, c.lanes, 1);
  soma_status s = vm_rec_sink_close(&c.out, &c.t);
  vm_rec_close(&c.t);
  return s;
}
