/* Chrome's trace event format. Times are microseconds, written exactly (nine decimals). */
#include "chrome.h"

#include <string.h>

/* Track numbers of an engine: the data path's lanes, the triggers', then its waits. */
enum { TRACKS = 32, TRIGGERS = 16 };
_Static_assert((int)VM_REC_LANES <= TRIGGERS && TRIGGERS + (int)VM_REC_LANES < TRACKS,
               "tracks of an engine");

/* A viewer shows tracks by their numbers, so each engine has a range of its own; 0 is
 * no track. */
static unsigned engine_track(unsigned engine, unsigned lane) { return 1 + engine * TRACKS + lane; }
static unsigned wait_track(unsigned engine) { return engine_track(engine, TRACKS - 1); }
/* The tracks of a queue, and of a DMA engine. */
static unsigned queue_track(unsigned queue, unsigned lane) { return 1 + queue * TRACKS + lane; }
static unsigned dma_track(unsigned dma, unsigned lane) { return 1 + dma * TRACKS + lane; }

/* An event's process and thread, as the format calls a group of tracks and a track. */
static void track_of(const chrome *c, uint32_t i, unsigned *pid, unsigned *tid) {
  const vm_rec_event *v = vm_rec_at(c->t.r, i);
  *pid = pid_of(c, v->by_core, v->kind == VM_EV_DMA ? PID_DMA_ENGINES : PID_ENGINES);
  *tid = v->kind == VM_EV_DMA       ? dma_track(v->engine, c->lanes[i])
         : vm_rec_is_work(v)        ? engine_track(v->engine, c->lanes[i])
         : v->kind == VM_EV_TRIGGER ? engine_track(v->engine, TRIGGERS + c->lanes[i])
                                    : wait_track(v->engine);
}

static void put_process(chrome *c, unsigned core, unsigned kind, const char *name) {
  unsigned pid = pid_of(c, core, kind);
  isa_buf *b = begin(c);
  isa_buf_printf(b, "\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"", pid);
  if (c->of_ranks) isa_buf_printf(b, "rank %u ", c->rank);
  isa_buf_printf(b, "%s%s\"}}", vm_rec_core(c->t.p, core), name);
  /* Without an index viewers sort processes by name. */
  isa_buf_printf(
      begin(c),
      "\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}", pid,
      pid);
}

/* Names a track; tracks of a process are shown in the order of their numbers. name is JSON. */
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

/* Names a track and those next to it, for slices that overlap.
 * A format's slices on one track must nest: those that overlap go next to one another. */
static void put_lanes(chrome *c, unsigned pid, unsigned tid, const char *title, unsigned lanes) {
  isa_buf plain, name;
  isa_buf_init(&plain, &c->t.al);
  isa_buf_init(&name, &c->t.al);
  for (unsigned l = 0; l < lanes; l++) {
    plain.len = name.len = 0;
    isa_buf_puts(&plain, title);
    if (l) isa_buf_printf(&plain, " (overlap %u)", l);
    isa_buf_json(&name, isa_buf_str(&plain));
    put_thread(c, pid, tid + l, isa_buf_str(&name));
  }
  vm_rec_sink_part(&c->out, &plain);
  vm_rec_sink_part(&c->out, &name);
}

static void put_engine_tracks(chrome *c, unsigned core) {
  unsigned pid = pid_of(c, core, PID_ENGINES);
  isa_buf name;
  isa_buf_init(&name, &c->t.al);
  for (unsigned e = 0; e < ISA_NSEQS; e++) {
    unsigned u = vm_rec_unit(core, e);
    put_lanes(c, pid, engine_track(e, 0), isa_engines[e].name, c->used[u]);
    name.len = 0;
    isa_buf_printf(&name, "%s: DMA triggers", isa_engines[e].name);
    put_lanes(c, pid, engine_track(e, TRIGGERS), isa_buf_str(&name), c->used[VM_REC_TRIGGERS + u]);
    name.len = 0;
    isa_buf_printf(&name, "%s sequencer: waits", isa_engines[e].name);
    put_lanes(c, pid, wait_track(e), isa_buf_str(&name), c->waits[u]);
  }
  vm_rec_sink_part(&c->out, &name);
}

static void put_dma_tracks(chrome *c, unsigned core) {
  isa_buf name;
  isa_buf_init(&name, &c->t.al);
  for (unsigned q = 0; q < ISA_MAX_QUEUES; q++) {
    name.len = 0;
    vm_rec_put_queue(&c->t, core, q, &name);
    put_lanes(c, pid_of(c, core, PID_DMA), queue_track(q, 0), isa_buf_str(&name),
              c->queue_lanes[vm_rec_queue(core, q)]);
  }
  for (unsigned d = 0; d < ISA_NDMA; d++) {
    name.len = 0;
    isa_buf_printf(&name, "DMA engine %u", d);
    put_lanes(c, pid_of(c, core, PID_DMA_ENGINES), dma_track(d, 0), isa_buf_str(&name),
              c->used[VM_REC_DMA_ENGINES + core * ISA_NDMA + d]);
  }
  vm_rec_sink_part(&c->out, &name);
}

/* The first lane of its queue in which each transfer is alone.
 * Transfers come by queue, and those of a queue in the order of their triggers. */
static void find_transfer_lanes(chrome *c) {
  vm_time ends[ISA_MAX_CORES * ISA_MAX_QUEUES][VM_REC_LANES] = {{0}};
  for (uint32_t k = 0; k < c->transfers.n; k++) {
    const vm_rec_transfer *x = &c->transfers.v[k];
    /* Nothing of it was recorded. */
    if (!x->share) continue;
    const vm_rec_event *v = vm_rec_at(c->t.r, x->share - 1);
    unsigned q = vm_rec_queue(v->core, v->id);
    uint32_t l = 0;
    /* The last lane takes what fits in none. */
    while (l + 1 < VM_REC_LANES && l < c->queue_lanes[q] && ends[q][l] > x->start) l++;
    ends[q][l] = x->end;
    c->queue_lanes[q] = l + 1 > c->queue_lanes[q] ? l + 1 : c->queue_lanes[q];
    c->transfer_lanes[k] = (uint8_t)l;
  }
}

static void put_tracks(chrome *c) {
  for (uint32_t i = 0; i < c->t.n; i++) {
    const vm_rec_event *v = vm_rec_at(c->t.r, i);
    unsigned queue, ring;
    if ((vm_rec_is_wait(v) || v->kind == VM_EV_NOTIFY) && v->engine < ISA_NSEQS)
      c->waits[vm_rec_track(v)] = true;
    if (!vm_rec_written_by_ring(v, &queue, &ring)) continue;
    /* A ring that moved nothing writes on its engine's track as well.
     * Its lane exists even where no share was recorded, or the write would have no
     * track. */
    uint32_t *lanes = &c->used[VM_REC_DMA_ENGINES + (unsigned)v->by_core * ISA_NDMA + ring];
    *lanes = *lanes ? *lanes : 1;
  }
  for (unsigned core = 0; core < c->t.p->ncores; core++) {
    put_process(c, core, PID_ENGINES, "engines");
    put_process(c, core, PID_DMA, "DMA queues");
    put_process(c, core, PID_DMA_ENGINES, "DMA engines");
    put_process(c, core, PID_SEMS, "semaphores");
    put_process(c, core, PID_MEMORY, "memory");
    put_engine_tracks(c, core);
    put_dma_tracks(c, core);
  }
}

/* "args" of a slice: place in the source, operands, pc; the caller adds more, and two braces. */
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

/* What a person looks for: the tensor of a share, the semaphore of a wait, else the
 * mnemonic. */
static void put_name(chrome *c, const vm_rec_event *v) {
  uint32_t number;
  const isa_insn *in = vm_rec_insn(&c->t, v, &number);
  isa_buf plain;
  isa_buf_init(&plain, &c->t.al);
  if (v->kind == VM_EV_MEET) {
    isa_buf_printf(&plain, "wait for the other core's %s", in ? isa_ops[in->op].name : "sendrecv");
  } else if (v->kind == VM_EV_WAIT) {
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

static void put_string(chrome *c, const char *key, isa_buf *plain) {
  isa_buf_printf(&c->out.b, ",\"%s\":", key);
  isa_buf_json(&c->out.b, isa_buf_str(plain));
}

/* What a trigger starts: its queue, the bytes, and the semaphore with what all rings together add
 * to it. */
static void put_trigger_args(chrome *c, const vm_rec_event *v) {
  const isa_core *core = &c->t.p->cores[v->core];
  isa_buf plain;
  put_args(c, v);
  isa_buf_init(&plain, &c->t.al);
  vm_rec_put_queue(&c->t, v->core, v->id, &plain);
  put_string(c, "queue", &plain);
  isa_buf_printf(&c->out.b, ",\"bytes\":%llu", (unsigned long long)v->bytes);
  if (vm_rec_trigger_signals(v)) {
    plain.len = 0;
    vm_rec_put_signal(&c->t, v, &plain);
    put_string(c, "semaphore", &plain);
    isa_buf_printf(&c->out.b, ",\"increment\":%u",
                   v->id < core->nqueues ? core->queues[v->id].rings : 0);
  }
  vm_rec_sink_part(&c->out, &plain);
}

/* A share names its queue and the semaphore to which its ring then writes 4 bytes; the instruction
 * is named once, by the trigger to which the share is bound. */
static void put_share_args(chrome *c, uint32_t i, const vm_rec_event *v) {
  isa_buf plain;
  isa_buf_init(&plain, &c->t.al);
  vm_rec_put_queue(&c->t, v->core, v->id, &plain);
  /* One number joins a trigger, its transfer and the shares; those of the next rank follow. */
  isa_buf_printf(&c->out.b, ",\"bind_id\":\"0x%x\",\"flow_in\":true,\"args\":{\"bytes\":%llu",
                 /* Flow numbers are from 1 on: viewers take 0 as none. */
                 c->flows + c->transfers.of[i] + 1, (unsigned long long)v->bytes);
  put_string(c, "queue", &plain);
  uint32_t trigger = c->transfers.v[c->transfers.of[i]].trigger;
  const vm_rec_event *by = trigger ? vm_rec_at(c->t.r, trigger - 1) : NULL;
  plain.len = 0;
  if (by && vm_rec_trigger_signals(by)) {
    vm_rec_put_signal(&c->t, by, &plain);
    put_string(c, "4 B to", &plain);
  }
  vm_rec_sink_part(&c->out, &plain);
}

static void put_slice(chrome *c, uint32_t i) {
  const vm_rec_event *v = vm_rec_at(c->t.r, i);
  /* By kind, in the order of VM_EV_. */
  static const char *const cats[] = {"", "insn", "dma", "", "", "wait", "table", "trigger", "wait"};
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
  if (v->kind == VM_EV_TRIGGER && v->id < ISA_MAX_QUEUES) {
    isa_buf_printf(b, ",\"bind_id\":\"0x%x\",\"flow_out\":true", c->flows + c->transfers.of[i] + 1);
    put_trigger_args(c, v);
  } else if (v->kind == VM_EV_DMA) {
    put_share_args(c, i, v);
  } else {
    put_args(c, v);
  }
  isa_buf_puts(b, "}}");
}

/* The 4 bytes that a ring without a share writes to a semaphore. */
static void put_write(chrome *c, uint32_t i) {
  const vm_rec_event *v = vm_rec_at(c->t.r, i);
  /* [1]: writes to the other core's semaphores take longer to be seen. */
  vm_time seen = c->seen[v->core != v->by_core];
  unsigned queue, ring;
  /* After a share its own end shows the write. */
  bool after_share = c->from[i] && vm_rec_at(c->t.r, c->from[i] - 1)->kind == VM_EV_DMA;
  if (after_share || !vm_rec_written_by_ring(v, &queue, &ring)) return;
  isa_buf plain;
  isa_buf *b = begin(c);
  isa_buf_init(&plain, &c->t.al);
  isa_buf_puts(&plain, "4 B to ");
  vm_rec_put_sem(&c->t, v->core, v->id, &plain);
  isa_buf_printf(b, "\"ph\":\"i\",\"s\":\"t\",\"pid\":%u,\"tid\":%u,\"name\":",
                 pid_of(c, v->by_core, PID_DMA_ENGINES), dma_track(ring, 0));
  isa_buf_json(b, isa_buf_str(&plain));
  isa_buf_puts(b, ",\"ts\":");
  /* The event is when the write is seen; the ring wrote it before. */
  vm_rec_put_time(b, v->start > seen ? v->start - seen : 0, 9);
  isa_buf_puts(b, "}");
  vm_rec_sink_part(&c->out, &plain);
}

static void put_counter(chrome *c, const vm_rec_event *v) {
  isa_buf plain;
  isa_buf *b = begin(c);
  isa_buf_init(&plain, &c->t.al);
  vm_rec_put_sem(&c->t, v->core, v->id, &plain);
  isa_buf_printf(b, "\"ph\":\"C\",\"pid\":%u,\"name\":", pid_of(c, v->core, PID_SEMS));
  isa_buf_json(b, isa_buf_str(&plain));
  isa_buf_puts(b, ",\"ts\":");
  vm_rec_put_time(b, v->start, 9);
  isa_buf_printf(b, ",\"args\":{\"value\":%u}}", v->value);
  vm_rec_sink_part(&c->out, &plain);
}

static void put_notify(chrome *c, const vm_rec_event *v) {
  isa_buf *b = begin(c);
  isa_buf_printf(b, "\"ph\":\"i\",\"s\":\"t\",\"pid\":%u,\"tid\":%u,\"name\":\"notify %u\",\"ts\":",
                 pid_of(c, v->core, PID_ENGINES), wait_track(v->engine), v->id);
  vm_rec_put_time(b, v->start, 9);
  put_args(c, v);
  isa_buf_puts(b, "}}");
}

/* One end of an arrow, on a track at a time.
 * "s" is where a flow starts, "f" where it ends; bp e binds it to the slice around it. */
static void put_flow(chrome *c, unsigned pid, unsigned tid, vm_time at, const char *how) {
  isa_buf_printf(
      begin(c),
      "%s,\"id\":%llu,\"pid\":%u,\"tid\":%u,\"cat\":\"signal\",\"name\":\"signal\",\"ts\":", how,
      (unsigned long long)c->arrows, pid, tid);
  vm_rec_put_time(&c->out.b, at, 9);
  isa_buf_puts(&c->out.b, "}");
}
static const char leaves[] = "\"ph\":\"s\"", arrives[] = "\"ph\":\"f\",\"bp\":\"e\"";

/* Just inside the end of a slice, so that a viewer binds an arrow to that slice. */
static vm_time inside(const vm_rec_event *v) {
  /* At most a nanosecond inside; in a short slice its middle. */
  vm_time length = v->end - v->start;
  return v->end - (length / 2 < VM_NS ? length / 2 : VM_NS);
}

static void put_arrow_end(chrome *c, uint32_t i, const char *how) {
  unsigned pid, tid;
  track_of(c, i, &pid, &tid);
  put_flow(c, pid, tid, inside(vm_rec_at(c->t.r, i)), how);
}

/* ---- Arrows from rank to rank ------------------------------------------------------------- */

static void add_over(chrome *c, vm_rec_over_list *l, const vm_rec_over_end *e) {
  if (!vm_rec_over_add(l, &c->out.b.al, e)) c->out.b.failed = true;
}

/* A share that pushes, or an update by another rank.
 * The arrows themselves are drawn at the end, when all ranks' events are known. */
static void note_over(chrome *c, uint32_t i) {
  const vm_rec_event *v = vm_rec_at(c->t.r, i);
  vm_rec_over_end e;
  if (v->kind == VM_EV_DMA && vm_rec_pushes(&c->t, &c->transfers, i, c->rank, &e)) {
    track_of(c, i, &e.pid, &e.tid);
    e.at = inside(v);
    add_over(c, &c->over.pushed, &e);
  } else if (v->kind == VM_EV_SEM && v->engine == VM_BY_PEER && v->id < ISA_NSEMS) {
    e = (vm_rec_over_end){.from = v->pc,
                          .to = c->rank,
                          .sem = (uint16_t)vm_rec_sem(v->core, v->id),
                          .time = v->start};
    add_over(c, &c->over.came, &e);
    c->came[i] = c->over.came.n;
  }
}

/* A wait that an update by another rank has ended. */
static void note_wait(chrome *c, uint32_t wait, uint32_t update) {
  /* came is 0 where no other rank did it. */
  if (!c->came[update] || c->out.b.failed) return;
  vm_rec_over_end *e = &c->over.came.v[c->came[update] - 1];
  track_of(c, wait, &e->pid, &e->tid);
  e->at = inside(vm_rec_at(c->t.r, wait));
  e->ends_wait = true;
}

static void put_over(void *ud, const vm_rec_over_end *push, const vm_rec_over_end *wait) {
  chrome *c = ud;
  c->arrows++;
  put_flow(c, push->pid, push->tid, push->at, leaves);
  put_flow(c, wait->pid, wait->tid, wait->at, arrives);
  vm_rec_sink_row(&c->out);
}

/* ---- Events ------------------------------------------------------------------------------- */

/* From the instruction or share after a wait's update to the wait; from the later core's sendrecv.
 */
static void put_arrow(chrome *c, uint32_t wait) {
  bool meets = vm_rec_at(c->t.r, wait)->kind == VM_EV_MEET;
  uint32_t update = c->from[wait];
  if (update && c->of_ranks && !meets) note_wait(c, wait, update - 1);
  /* A meeting follows from the other core's directly, a wait through its update.
   * The update itself is a counter, which has no slice: the arrow leaves what made it. */
  uint32_t source = update && !meets ? c->from[update - 1] : update;
  if (!source) return;
  uint8_t kind = vm_rec_at(c->t.r, source - 1)->kind;
  /* Control instructions have no slice from which an arrow could leave. */
  if (kind != VM_EV_INSN && kind != VM_EV_DMA && kind != VM_EV_MEET) return;
  c->arrows++;
  put_arrow_end(c, source - 1, leaves);
  put_arrow_end(c, wait, arrives);
}

static void put_event(chrome *c, uint32_t i) {
  const vm_rec_event *v = vm_rec_at(c->t.r, i);
  if (c->of_ranks) note_over(c, i);
  if (v->kind == VM_EV_SEM) {
    put_counter(c, v);
    put_write(c, i);
  } else if (v->kind == VM_EV_DMA && v->engine < ISA_NDMA && v->id < ISA_MAX_QUEUES)
    put_slice(c, i);
  else if (v->engine >= ISA_NSEQS)
    return;
  else if (v->kind == VM_EV_NOTIFY)
    put_notify(c, v);
  else if (v->kind != VM_EV_DMA)
    put_slice(c, i);
  if (vm_rec_is_wait(v)) put_arrow(c, i);
}

/* ---- Transfers ---------------------------------------------------------------------------- */

/* From the first share to the last. */
static void put_transfer(chrome *c, uint32_t k) {
  const vm_rec_transfer *x = &c->transfers.v[k];
  if (!x->share) return;
  const vm_rec_event *v = vm_rec_at(c->t.r, x->share - 1);
  isa_buf *b = begin(c);
  isa_buf_printf(b, "\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"cat\":\"transfer\",\"name\":",
                 pid_of(c, v->core, PID_DMA), queue_track(v->id, c->transfer_lanes[k]));
  put_name(c, v);
  isa_buf_puts(b, ",\"ts\":");
  vm_rec_put_time(b, x->start, 9);
  isa_buf_puts(b, ",\"dur\":");
  vm_rec_put_time(b, x->end - x->start, 9);
  isa_buf_printf(b, ",\"bind_id\":\"0x%x\",\"flow_in\":true", c->flows + k + 1);
  /* The trigger shows place and operands already.
   * Two braces are open: of "args" and of the event. */
  if (x->trigger)
    isa_buf_puts(b, ",\"args\":{");
  else
    put_args(c, v);
  isa_buf_printf(b, "%s\"bytes\":%llu,\"shares\":%u,\"triggered by\":\"%s\"}}",
                 x->trigger ? "" : ",", (unsigned long long)x->bytes, x->shares,
                 v->value < ISA_NSEQS ? isa_engines[v->value].name : "?");
}

static void put_head(chrome *c, const isa_program *p, uint64_t dropped, vm_time total) {
  isa_buf_printf(&c->out.b,
                 "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"soma %s\",\"target\":"
                 "\"%s\",\"dropped_events\":%llu,\"total_us\":",
                 SOMA_VERSION, p->target->name, (unsigned long long)dropped);
  vm_rec_put_time(&c->out.b, total, 9);
  isa_buf_puts(&c->out.b, "},\"traceEvents\":[");
}

/* Names of tracks first: a viewer that reads a stream knows them then. */
static void put_trace(chrome *c) {
  put_tracks(c);
  for (uint32_t i = 0; i < c->t.n && vm_rec_sink_row(&c->out); i++) put_event(c, i);
  for (uint32_t k = 0; k < c->transfers.n && vm_rec_sink_row(&c->out); k++) put_transfer(c, k);
  for (unsigned core = 0; core < c->t.p->ncores; core++)
    if (!vm_rec_chrome_counts(c, core)) c->out.b.failed = true;
}

/* False: out of memory. */
static bool prepare(chrome *c) {
  memset(c->waits, 0, sizeof c->waits);
  memset(c->queue_lanes, 0, sizeof c->queue_lanes);
  /* Zeroed here, so that the release below is safe wherever this stops. */
  c->lanes = c->transfer_lanes = NULL;
  c->transfers = (vm_rec_transfers){0};
  c->order = vm_rec_by_start(&c->t);
  c->from = vm_rec_links(&c->t);
  c->came = vm_rec_new_array(&c->t, sizeof *c->came);
  c->lanes = c->order ? vm_rec_lanes(&c->t, c->order, c->used) : NULL;
  if (!vm_rec_transfers_of(&c->t, &c->transfers)) return false;
  c->transfer_lanes = isa_zalloc(&c->t.al, (size_t)c->transfers.n + 1);
  if (!c->transfer_lanes || !c->from || !c->lanes || !c->came) return false;
  find_transfer_lanes(c);
  vm_rec_time_to_see(&c->t, c->from, c->seen);
  return true;
}

/* ---- Links -------------------------------------------------------------------------------- */

static void put_end(int end, isa_buf *out) {
  if (end == SOMA_SWITCH || end == SOMA_EFA)
    isa_buf_puts(out, end == SOMA_EFA ? "efa" : "switch");
  else
    isa_buf_printf(out, "%d", end);
}

/* "link 0-1: 9.02 GB/s, 18.8 % of 48". */
static void put_link_track(chrome *c, unsigned pid, unsigned tid, const soma_link_row *l) {
  isa_buf plain, name;
  isa_buf_init(&plain, &c->out.b.al);
  isa_buf_init(&name, &c->out.b.al);
  isa_buf_puts(&plain, "link ");
  put_end(l->from, &plain);
  isa_buf_puts(&plain, "-");
  put_end(l->to, &plain);
  isa_buf_printf(&plain, ": %.2f GB/s, %.1f %% of %.0f", l->gbs, l->percent, l->rate);
  isa_buf_json(&name, isa_buf_str(&plain));
  put_thread(c, pid, tid, isa_buf_str(&name));
  vm_rec_sink_part(&c->out, &plain);
  vm_rec_sink_part(&c->out, &name);
}

/* One more process, after those of the ranks: what went over each link. */
static void put_links(chrome *c, const soma_recorder *r) {
  /* The number after those of the last rank. */
  unsigned pid = pid_of(c, 0, 0) + 1;
  /* Without recorded passes there are rates, but nothing to draw. */
  if (!r->npasses) return;
  isa_buf_printf(begin(c),
                 "\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"links\"}}",
                 pid);
  for (uint32_t i = 0; i < r->nlinks; i++)
    if (r->links[i].messages) put_link_track(c, pid, i + 1, &r->links[i]);
  for (uint32_t i = 0; i < r->npasses && vm_rec_sink_row(&c->out); i++) {
    const soma_link_pass *x = &r->passes[i];
    isa_buf *b = begin(c);
    isa_buf_printf(b, "\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":\"rank %u to %u\",\"ts\":", pid,
                   x->link + 1, x->from, x->to);
    vm_rec_put_time(b, x->start, 9);
    isa_buf_puts(b, ",\"dur\":");
    vm_rec_put_time(b, x->end - x->start, 9);
    isa_buf_printf(b, ",\"args\":{\"bytes\":%llu,\"waited_us\":", (unsigned long long)x->bytes);
    vm_rec_put_time(b, x->end > x->came ? x->end - x->came : 0, 9);
    isa_buf_puts(b, "}}");
  }
}

static void put_rank(chrome *c, const soma_recorder *r, const soma_program *p) {
  if (!vm_rec_open(&c->t, r, p)) {
    c->out.b.failed = true;
    return;
  }
  if (prepare(c))
    put_trace(c);
  else
    c->out.b.failed = true;
  /* Flows of the next rank have other numbers. */
  c->flows += c->transfers.n;
  vm_rec_free_array(&c->t, c->order, sizeof *c->order);
  vm_rec_free_array(&c->t, c->from, sizeof *c->from);
  vm_rec_free_array(&c->t, c->came, sizeof *c->came);
  vm_rec_free_array(&c->t, c->lanes, 1);
  isa_free(&c->t.al, c->transfer_lanes, (size_t)c->transfers.n + 1);
  vm_rec_transfers_free(&c->t, &c->transfers);
  if (c->t.failed) c->out.b.failed = true;
  vm_rec_close(&c->t);
}

static soma_status write_ranks(const soma_recorder *const *r, const soma_program *const *p,
                               uint32_t n, bool of_ranks, soma_write_fn write, void *ud) {
  chrome c = {.first = true, .of_ranks = of_ranks};
  vm_time total = 0;
  uint64_t dropped = 0;
  /* First what all ranks have together: the head comes before the events. */
  for (uint32_t i = 0; i < n; i++) {
    if (!vm_rec_open(&c.t, r[i], p[i])) return SOMA_NOMEM;
    total = c.t.total > total ? c.t.total : total;
    dropped += r[i]->dropped;
    vm_rec_close(&c.t);
  }
  vm_rec_sink_open(&c.out, &r[0]->al, write, ud);
  put_head(&c, p[0]->p, dropped, total);
  for (; c.rank < n && vm_rec_sink_row(&c.out); c.rank++) put_rank(&c, r[c.rank], p[c.rank]);
  /* Pairs need both ranks, so they come after the last one. */
  vm_rec_over_pairs(&c.over, put_over, &c);
  vm_rec_over_free(&c.over, &c.out.b.al);
  if (of_ranks) put_links(&c, r[0]);
  isa_buf_puts(&c.out.b, "\n]}\n");
  return vm_rec_sink_close(&c.out, NULL);
}

soma_status soma_write_chrome(const soma_recorder *r, const soma_program *p, soma_write_fn write,
                              void *ud) {
  if (!r || !p || !write) return SOMA_ARG;
  return write_ranks(&r, &p, 1, false, write, ud);
}

soma_status soma_write_world_chrome(const soma_recorder *const *r, const soma_program *const *p,
                                    uint32_t ranks, soma_write_fn write, void *ud) {
  if (!r || !p || !write || !ranks) return SOMA_ARG;
  for (uint32_t i = 0; i < ranks; i++)
    if (!r[i] || !p[i]) return SOMA_ARG;
  return write_ranks(r, p, ranks, true, write, ud);
}
