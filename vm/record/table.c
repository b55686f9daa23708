/* Tables as CSV or JSON lines. A row is written cell by cell; the header of a CSV file comes from
 * the same calls, of which it takes only the names. */
#include "table.h"

#include <string.h>

typedef vm_rec_table table;

const char *soma_table_name(soma_table t) {
  static const char *const names[SOMA_TABLES] = {"Instruction",   "DmaPacket", "SemaphoreUpdate",
                                                 "ActiveTime",    "Summary",   "CcOp",
                                                 "CcInstruction", "CcStream"};
  return (unsigned)t < SOMA_TABLES ? names[t] : NULL;
}

/* ---- Cells -------------------------------------------------------------------------------- */
/* A file of CSV and one of JSON lines have the same cells in the same order. */

/* Begins a cell; false if only the name was wanted. */
static bool cell(table *w, const char *name) {
  isa_buf *b = &w->out.b;
  /* The comma of CSV and the brace of an object both stand before a cell. */
  isa_buf_puts(b, w->first ? (w->mode == VM_REC_JSON_ROW ? "{" : "") : ",");
  w->first = false;
  if (w->mode == VM_REC_JSON_ROW)
    isa_buf_printf(b, "\"%s\":", name);
  else if (w->mode == VM_REC_HEADER)
    isa_buf_puts(b, name);
  return w->mode != VM_REC_HEADER;
}

void vm_rec_end_row(table *w) {
  isa_buf_puts(&w->out.b, w->mode == VM_REC_JSON_ROW ? "}\n" : "\n");
  w->first = true;
}

void vm_rec_cell_u64(table *w, const char *name, uint64_t v) {
  if (cell(w, name)) isa_buf_printf(&w->out.b, "%llu", (unsigned long long)v);
}

/* A value that a row does not have: an empty cell, or null. */
static void cell_none(table *w, const char *name) {
  if (cell(w, name) && w->mode == VM_REC_JSON_ROW) isa_buf_puts(&w->out.b, "null");
}

void vm_rec_cell_if(table *w, const char *name, bool known, uint64_t v) {
  if (known)
    vm_rec_cell_u64(w, name, v);
  else
    cell_none(w, name);
}

void vm_rec_text_if(table *w, const char *name, const char *s) {
  if (s)
    vm_rec_cell_str(w, name, s);
  else
    cell_none(w, name);
}

/* A time in units of 10^digits fs. */
static void put_units(table *w, const char *name, vm_time t, int digits) {
  if (cell(w, name)) vm_rec_put_time(&w->out.b, t, digits);
}

/* Without anything to divide by the ratio is 0, not a NaN, which CSV readers take for a
 * text. */
static void put_percent(table *w, const char *name, double num, double den) {
  if (cell(w, name)) isa_buf_printf(&w->out.b, "%.6g", den > 0 ? 100 * num / den : 0.0);
}

void vm_rec_cell_ratio(table *w, const char *name, double num, double den) {
  if (cell(w, name)) isa_buf_printf(&w->out.b, "%.6g", den > 0 ? num / den : 0.0);
}

void vm_rec_cell_str(table *w, const char *name, const char *s) {
  isa_buf *b = &w->out.b;
  if (!cell(w, name)) return;
  if (w->mode == VM_REC_JSON_ROW) {
    isa_buf_json(b, s);
  } else if (!s[strcspn(s, ",\"\r\n")]) {
    isa_buf_puts(b, s);
  } else {
    isa_buf_puts(b, "\"");
    for (; *s; s++) isa_buf_printf(b, *s == '"' ? "\"\"" : "%c", *s);
    isa_buf_puts(b, "\"");
  }
}

/* start_ts and similar columns: whole nanoseconds, so that end - start is the duration.
 * Rounded down one by one: a duration rounded by itself could differ from end - start. */
void vm_rec_cell_span(table *w, vm_time start, vm_time end) {
  vm_rec_cell_u64(w, "start_ts", start / VM_NS);
  vm_rec_cell_u64(w, "end_ts", end / VM_NS);
  vm_rec_cell_u64(w, "duration_ns", end / VM_NS - start / VM_NS);
}

/* In femtoseconds, as the clock has them; the columns before are the vendor's. */
void vm_rec_cell_exact(table *w, vm_time start, vm_time end) {
  vm_rec_cell_u64(w, "start_fs", start);
  vm_rec_cell_u64(w, "duration_fs", end - start);
}

/* ---- Rows --------------------------------------------------------------------------------- */

const char *vm_rec_place_text(table *w, const vm_rec_event *v) {
  isa_line at = vm_rec_line(&w->t, v);
  w->text.len = 0;
  if (!at.file) return "";
  isa_buf_printf(&w->text, "%s:%u", vm_rec_file(&w->t, at.file), at.line);
  return isa_buf_str(&w->text);
}

/* "S[3] (loaded)": number and name. */
static const char *sem_text(table *w, unsigned core, uint32_t id) {
  w->text.len = 0;
  isa_buf_printf(&w->text, "S[%u] (", id);
  vm_rec_put_sem(&w->t, core, id, &w->text);
  isa_buf_puts(&w->text, ")");
  return isa_buf_str(&w->text);
}

static const char *queue_text(table *w, const vm_rec_event *v) {
  w->text.len = 0;
  vm_rec_put_queue(&w->t, v->core, v->id, &w->text);
  return isa_buf_str(&w->text);
}

/* Columns of the transfer that a trigger started; v: NULL of an instruction that starts none. */
static void trigger_cells(table *w, uint32_t i, const vm_rec_event *v) {
  const isa_core *core = v ? &w->t.p->cores[v->core] : NULL;
  const vm_rec_transfer none = {0}, *x = v ? &w->transfers.v[w->transfers.of[i]] : &none;
  bool signals = v && vm_rec_trigger_signals(v);
  /* Shares may be left out by the recorder's filter: then their times are not known. */
  bool timed = x->shares > 0;
  vm_rec_cell_if(w, "packet_aggregation_id", v, v ? w->transfers.of[i] : 0);
  vm_rec_text_if(w, "queue_name", v ? queue_text(w, v) : NULL);
  vm_rec_cell_if(w, "dma_trigger_start_ts", timed, x->start / VM_NS);
  vm_rec_cell_if(w, "dma_trigger_end_ts", timed, x->end / VM_NS);
  vm_rec_cell_if(w, "dma_wait_time_ns", timed,
                 v && x->start > v->end ? x->start / VM_NS - v->end / VM_NS : 0);
  vm_rec_text_if(w, "semaphore_id",
                 signals ? sem_text(w, vm_rec_signal_core(v), v->value % ISA_NSEMS) : NULL);
  vm_rec_cell_if(w, "semaphore_increment", signals,
                 core && v->id < core->nqueues ? core->queues[v->id].rings : 0);
}

static void instruction_row(table *w, uint32_t i, const vm_rec_event *v) {
  uint32_t number;
  const isa_insn *in = vm_rec_insn(&w->t, v, &number);
  /* from: NULL while the header is written. */
  uint32_t wait = w->from ? w->from[i] : 0;
  const vm_rec_event *before = wait ? vm_rec_at(w->t.r, wait - 1) : v;
  vm_rec_cell_span(w, v->start, v->end);
  vm_rec_cell_str(w, "engine", v->engine < ISA_NSEQS ? isa_engines[v->engine].name : "?");
  vm_rec_cell_u64(w, "pcore_idx", v->core);
  vm_rec_cell_str(w, "opcode", in ? isa_ops[in->op].profile_name : "?");
  vm_rec_cell_str(w, "operands", vm_rec_operands(&w->t, v));
  vm_rec_cell_str(w, "compiler_opcode", in ? isa_ops[in->op].name : "?");
  vm_rec_cell_u64(w, "id", i);
  vm_rec_cell_u64(w, "pc", v->pc);
  vm_rec_cell_u64(w, "evt_wait_time_ns", wait ? (before->end - before->start) / VM_NS : 0);
  /* The number of the event, with which the other tables name it. */
  vm_rec_cell_str(w, "nki_source_location", vm_rec_place_text(w, v));
  vm_rec_cell_exact(w, v->start, v->end);
  trigger_cells(w, i, v->kind == VM_EV_TRIGGER && v->id < ISA_MAX_QUEUES ? v : NULL);
}

static const char *queue_type(const table *w, unsigned core, unsigned queue) {
  static const char *const names[] = {"data", "software_dynamic", "hardware_dynamic"};
  const isa_core *c = &w->t.p->cores[core];
  return queue < c->nqueues && c->queues[queue].dge < 3 ? names[c->queues[queue].dge] : "unknown";
}

/* The columns that are the same for a share and for the 4 bytes that its ring writes to a
 * semaphore. transfer: its number + 1, 0: unknown. */
typedef struct packet {
  vm_time start, end;
  uint64_t bytes;
  unsigned core, queue, ring;
  uint64_t transfer;
  const char *variable;
} packet;

/* A share or a semaphore's 4 bytes; the vendor's profiler calls both packets. */
static void packet_row(table *w, uint32_t id, const packet *k) {
  vm_rec_cell_span(w, k->start, k->end);
  vm_rec_cell_u64(w, "pcore_idx", k->core);
  vm_rec_cell_u64(w, "id", id);
  vm_rec_cell_u64(w, "packet_idx", k->ring);
  vm_rec_cell_if(w, "packet_aggregation_id", k->transfer, k->transfer - 1);
  vm_rec_cell_u64(w, "engine_idx", k->ring);
  vm_rec_cell_u64(w, "read_bytes", k->bytes);
  vm_rec_cell_u64(w, "write_bytes", k->bytes);
  vm_rec_cell_u64(w, "transfer_bytes", k->bytes);
  /* Bytes per second: times are in femtoseconds. */
  vm_rec_cell_ratio(w, "throughput", (double)k->bytes * 1e15, (double)(k->end - k->start));
  vm_rec_cell_str(w, "queue_type", queue_type(w, k->core, k->queue));
  vm_rec_cell_str(w, "variable", k->variable);
  /* An event with nothing but the queue, for its text. */
  vm_rec_event of_queue = {.core = k->core & 1, .id = k->queue};
  vm_rec_cell_str(w, "queue_name", queue_text(w, &of_queue));
  vm_rec_cell_u64(w, "queue_idx", k->queue);
  vm_rec_cell_exact(w, k->start, k->end);
}

/* When a ring wrote a semaphore: when its share was done, if it had one. */
static vm_time written_at(const table *w, const vm_rec_event *v) {
  vm_time seen = w->seen[v->core != v->by_core];
  return v->start > seen ? v->start - seen : 0;
}

static void dma_row(table *w, uint32_t i, const vm_rec_event *v) {
  packet k = {v->start, v->end, v->bytes, v->core, v->id, v->engine, 0, ""};
  /* A ring's write is an event of the semaphore; its share is another event. */
  if (vm_rec_written_by_ring(v, &k.queue, &k.ring)) {
    const vm_rec_event *share = w->from[i] ? vm_rec_at(w->t.r, w->from[i] - 1) : v;
    /* The write itself takes no time in the model. */
    k.start = k.end = written_at(w, v);
    k.bytes = 4;
    k.core = v->by_core;
    /* Ring r is served by DMA engine r. */
    k.transfer = share->kind == VM_EV_DMA ? w->transfers.of[w->from[i] - 1] + 1u : 0;
    k.variable = sem_text(w, v->core, v->id);
  } else {
    k.queue = v->id;
    k.ring = v->engine;
    k.transfer = w->transfers.of ? w->transfers.of[i] + 1u : 0;
    k.variable = w->transfers.of ? vm_rec_ends_of(&w->t, v).tensor : "";
  }
  packet_row(w, i, &k);
}

/* Names as the vendor's profiler has them. */
static const char *update_type(const isa_insn *in) {
  static const char *const names[ISA_NUPDS] = {
      [ISA_UPD_none] = "none",       [ISA_UPD_inc] = "sem_inc",     [ISA_UPD_dec] = "sem_dec",
      [ISA_UPD_add] = "sem_add_imm", [ISA_UPD_sub] = "sem_sub_imm", [ISA_UPD_write] = "sem_wr_imm",
      [ISA_UPD_dma] = "sem_inc",     [ISA_UPD_peer] = "sem_inc"};
  if (!in) return "unknown";
  if (in->op == ISA_OP_sem_range_clear) return "sem_wr_imm";
  return isa_op_is_dma(in->op) ? "sem_inc" : names[in->upd.kind % ISA_NUPDS];
}

static void update_row(table *w, uint32_t i, const vm_rec_event *v) {
  static const char *const sources[ISA_NENGINES] = {"Tensor", "Vector", "Scalar", "GpSimd", "Sync"};
  uint32_t number;
  const isa_insn *in = vm_rec_insn(&w->t, v, &number);
  (void)i;
  vm_rec_cell_u64(w, "timestamp", v->start / VM_NS);
  vm_rec_cell_str(w, "id", sem_text(w, v->core, v->id));
  vm_rec_cell_u64(w, "value", v->value);
  vm_rec_cell_str(w, "update_source",
                  /* AXI: the bus on which a DMA engine writes. */
                  in && isa_op_is_dma(in->op) ? "AXI"
                  : v->engine < ISA_NENGINES  ? sources[v->engine]
                  : v->engine < ISA_NSEQS     ? isa_engines[v->engine].name
                  : v->engine == VM_BY_PEER   ? "rank"
                                              : "host");
  vm_rec_cell_str(w, "update_operation_type", update_type(in));
  vm_rec_cell_str(w, "update_trigger_timing", !in ? "" : in->upd.at_read ? "read" : "complete");
  vm_rec_cell_u64(w, "pcore_idx", v->core);
  vm_rec_cell_u64(w, "timestamp_fs", v->start);
}

/* engine: numbered over both cores. */
static void active_row(table *w, unsigned engine, vm_time start, vm_time end) {
  vm_rec_cell_u64(w, "start_ts", start / VM_NS);
  vm_rec_cell_u64(w, "end_ts", end / VM_NS);
  vm_rec_cell_str(w, "engine", isa_engines[engine % ISA_NENGINES].name);
  vm_rec_cell_u64(w, "pcore_idx", engine / ISA_NENGINES);
  vm_rec_cell_u64(w, "duration_ns", end / VM_NS - start / VM_NS);
  vm_rec_cell_exact(w, start, end);
  vm_rec_end_row(w);
}

static void summary_engine(table *w, const vm_rec_summary *s, unsigned e, vm_time total) {
  static const char *const fields[ISA_NENGINES][5] = {
#define FIELDS(engine)                                                       \
  {engine "_engine_instruction_time", engine "_engine_active_time",          \
   engine "_engine_active_time_percent", engine "_engine_instruction_count", \
   engine "_engine_utilization_percent"}
      FIELDS("tensor"), FIELDS("vector"), FIELDS("scalar"), FIELDS("gpsimd"), FIELDS("sync")};
#undef FIELDS
  vm_time sum = 0, active = 0; /* of both cores, with the percentage of the total of both */
  uint64_t count = 0;
  /* Engine e of core 0, then the same one of core 1. */
  for (unsigned u = e; u < VM_REC_ENGINES; u += ISA_NENGINES) {
    sum += s->engine[u].sum;
    active += s->engine[u].active;
    count += s->engine[u].count;
  }
  put_units(w, fields[e][0], sum, 15);
  put_units(w, fields[e][1], active, 15);
  put_percent(w, fields[e][2], (double)active, (double)total * w->t.p->ncores);
  vm_rec_cell_u64(w, fields[e][3],
                  /* The figures of a run count every instruction; events may be only a
                   * part. */
                  w->t.r->has_stats ? w->t.r->stats.engine[e].instructions : count);
  if (!w->t.r->has_stats) return;
  soma_figures f;
  soma_stats_figures(&w->t.r->stats, &f, sizeof f);
  put_percent(w, fields[e][4], f.utilization[e], 1);
}

static void summary_dge(table *w, const vm_rec_summary *s, unsigned q, vm_time total) {
  static const char *const fields[VM_REC_QUEUES][6] = {
#define FIELDS(kind)                                                                   \
  {kind "_dma_active_time", kind "_dma_active_time_percent", kind "_dma_packet_count", \
   kind "_dma_size",        kind "_dma_packet_percent",      kind "_dma_size_percent"}
      FIELDS("static"), FIELDS("software_dynamic"), FIELDS("hardware_dynamic")};
#undef FIELDS
  put_units(w, fields[q][0], s->dge[q].active, 15);
  put_percent(w, fields[q][1], (double)s->dge[q].active, (double)total);
  vm_rec_cell_u64(w, fields[q][2], s->dge[q].count);
  vm_rec_cell_u64(w, fields[q][3], s->dge_bytes[q]);
  put_percent(w, fields[q][4], (double)s->dge[q].count, (double)s->dma_shares);
  put_percent(w, fields[q][5], (double)s->dge_bytes[q], (double)s->dma_bytes);
}

/* Ratios as the vendor's schema defines them; the peaks are those of 16-bit elements and of one
 * stack. */
static void summary_flops(table *w, const soma_stats *s) {
  soma_figures f;
  soma_stats_figures(s, &f, sizeof f);
  put_units(w, "launch_time", s->launch, 15);
  vm_rec_cell_u64(w, "hardware_flops", s->flops);
  vm_rec_cell_u64(w, "transpose_flops", s->transpose_flops);
  vm_rec_cell_u64(w, "adjusted_hardware_flops", s->adjusted_flops);
  vm_rec_cell_u64(w, "adjusted_transpose_flops", s->adjusted_transpose_flops);
  vm_rec_cell_ratio(w, "mm_arithmetic_intensity", f.intensity, 1);
  vm_rec_cell_ratio(w, "peak_flops_bandwidth_ratio", f.ridge, 1);
  vm_rec_cell_ratio(w, "peak_flops_per_second", f.peak_flops, 1);
  vm_rec_cell_ratio(w, "attainable_flops_per_second", f.attainable_flops, 1);
  put_percent(w, "hfu_estimated_percent", f.hfu, 1);
  put_percent(w, "mfu_estimated_percent", f.mfu, 1);
  put_percent(w, "mfu_max_achievable_estimated_percent", f.attainable_flops, f.peak_flops);
  put_percent(w, "mbu_estimated_percent", f.mbu, 1);
}

/* High-water marks, for two cores the larger one: bytes of a partition that were touched, and bytes
 * of all partitions in use by tiles at once. */
static void summary_memory(table *w, const uint64_t peak[2]) {
  const soma_stats *s = &w->t.r->stats;
  if (w->t.r->has_stats) {
    vm_rec_cell_u64(w, "sbuf_touched_partition_bytes", s->sbuf_touched);
    vm_rec_cell_u64(w, "psum_touched_partition_bytes", s->psum_touched);
  }
  vm_rec_cell_u64(w, "sbuf_live_peak_bytes", peak[0]);
  vm_rec_cell_u64(w, "psum_live_peak_bytes", peak[1]);
}

static void summary_row(table *w, const vm_rec_summary *s, const uint64_t peak[2]) {
  const soma_recorder *r = w->t.r;
  vm_time total = r->has_stats ? r->stats.time : w->t.total;
  put_units(w, "total_time", total, 15);
  put_units(w, "total_active_time", s->active, 15);
  put_percent(w, "total_active_time_percent", (double)s->active, (double)total);
  if (r->has_stats) summary_flops(w, &r->stats);
  vm_rec_cell_u64(w, "trace_count", w->t.n);
  vm_rec_cell_u64(w, "event_count", s->updates);
  put_units(w, "dma_active_time", s->dma_active, 15);
  put_percent(w, "dma_active_time_percent", (double)s->dma_active, (double)total);
  vm_rec_cell_ratio(w, "dma_transfer_average_bytes", (double)s->dma_bytes,
                    (double)s->dma_transfers);
  put_units(w, "dma_packet_time", s->dge[0].sum + s->dge[1].sum + s->dge[2].sum, 15);
  vm_rec_cell_u64(w, "dma_transfer_count",
                  r->has_stats ? r->stats.dma_transfers : s->dma_transfers);
  vm_rec_cell_u64(w, "dma_transfer_total_bytes", r->has_stats ? r->stats.dma_bytes : s->dma_bytes);
  vm_rec_cell_u64(w, "dma_queue_count", w->t.p->cores[0].nqueues + w->t.p->cores[1].nqueues);
  for (unsigned q = 0; q < VM_REC_QUEUES; q++) summary_dge(w, s, q, total);
  vm_rec_cell_u64(w, "hbm_read_bytes", r->has_stats ? r->stats.hbm_read_bytes : s->hbm_read);
  vm_rec_cell_u64(w, "hbm_write_bytes", r->has_stats ? r->stats.hbm_write_bytes : s->hbm_written);
  for (unsigned e = 0; e < ISA_NENGINES; e++) summary_engine(w, s, e, total);
  vm_rec_cell_u64(w, "matmul_instruction_count", s->matmuls);
  vm_rec_cell_u64(w, "activate_instruction_count", s->activations);
  put_units(w, "activate_instruction_time", s->activation_time, 15);
  summary_memory(w, peak);
  vm_rec_cell_u64(w, "dropped_events", r->dropped);
  vm_rec_end_row(w);
}

/* ---- Tables ------------------------------------------------------------------------------- */

typedef void row_fn(table *w, uint32_t i, const vm_rec_event *v);

static void header_row(table *w, row_fn *row) {
  /* An event of no kind of its own, for calls that only ask for names. */
  vm_rec_event none = {.engine = UINT8_MAX, .kind = VM_EV_DMA, .value = UINT32_MAX};
  uint32_t *from = w->from, *of = w->transfers.of;
  if (w->mode != VM_REC_HEADER) return;
  w->from = w->transfers.of = NULL; /* the row for no event: only names */
  row(w, 0, &none);
  w->from = from;
  w->transfers.of = of;
  vm_rec_end_row(w);
  w->mode = VM_REC_CSV_ROW;
}

/* A row for each event of these kinds: 1 << kind. */
static void event_rows(table *w, unsigned kinds, row_fn *row) {
  header_row(w, row);
  for (uint32_t k = 0; k < w->t.n && vm_rec_sink_row(&w->out); k++) {
    const vm_rec_event *v = vm_rec_at(w->t.r, w->order[k]);
    /* kinds: a bit for each. */
    if (!(kinds >> v->kind & 1)) continue;
    row(w, w->order[k], v);
    vm_rec_end_row(w);
  }
}

/* The event at place k of the order, or the first after it, that is a share or a ring's write. */
static const vm_rec_event *next_packet(const table *w, uint32_t *k, bool write) {
  unsigned queue, ring;
  for (; *k < w->t.n; ++*k) {
    const vm_rec_event *v = vm_rec_at(w->t.r, w->order[*k]);
    if (write ? vm_rec_written_by_ring(v, &queue, &ring) : v->kind == VM_EV_DMA) return v;
  }
  return NULL;
}

/* Shares, and the 4 bytes that each ring then writes, in order of their starts. */
static void packet_rows(table *w) {
  uint32_t share = 0, write = 0;
  header_row(w, dma_row);
  while (vm_rec_sink_row(&w->out)) {
    const vm_rec_event *a = next_packet(w, &share, false), *b = next_packet(w, &write, true);
    if (!a && !b) return;
    /* A share first where both come at once: its write follows from it. */
    if (a && (!b || a->start < written_at(w, b)))
      dma_row(w, w->order[share++], a);
    else
      dma_row(w, w->order[write++], b);
    vm_rec_end_row(w);
  }
}

static void active_rows(table *w) {
  if (w->mode == VM_REC_HEADER) {
    active_row(w, 0, 0, 0);
    w->mode = VM_REC_CSV_ROW;
  }
  /* For each engine by itself: spans of one are unions of its own events alone. */
  for (unsigned e = 0; e < VM_REC_ENGINES; e++) {
    vm_time start = 0, end = 0;
    bool open = false;
    for (uint32_t k = 0; k < w->t.n && vm_rec_sink_row(&w->out); k++) {
      const vm_rec_event *v = vm_rec_at(w->t.r, w->order[k]);
      if (!vm_rec_is_work(v) || vm_rec_track(v) != e) continue;
      /* Spans that touch are one. */
      if (open && v->start > end) active_row(w, e, start, end);
      start = open && v->start <= end ? start : v->start;
      end = open && end > v->end ? end : v->end;
      open = true;
    }
    if (open) active_row(w, e, start, end);
  }
}

/* The larger of the two cores' peaks: a partition's limit holds for each. */
static bool peaks(table *w, uint64_t peak[2]) {
  for (unsigned core = 0; core < w->t.p->ncores; core++) {
    vm_rec_usage use;
    if (!vm_rec_usage_of(&w->t, w->order, core, &use)) return false;
    for (unsigned m = 0; m < 2; m++) peak[m] = use.peak[m] > peak[m] ? use.peak[m] : peak[m];
    vm_rec_usage_free(&w->t, &use);
  }
  return true;
}

static void summary_rows(table *w) {
  vm_rec_summary s;
  uint64_t peak[2] = {0, 0};
  if (!vm_rec_summarise(&w->t, w->order, &s) || !peaks(w, peak)) {
    w->out.b.failed = true;
    return;
  }
  if (w->mode == VM_REC_HEADER) {
    /* Once for the names: summary_row knows which columns there are. */
    summary_row(w, &s, peak);
    w->mode = VM_REC_CSV_ROW;
  }
  summary_row(w, &s, peak);
}

static void rows(table *w, soma_table which) {
  switch (which) {
  case SOMA_TABLE_INSTRUCTION:
    event_rows(w, 1u << VM_EV_INSN | 1u << VM_EV_TRIGGER, instruction_row);
    return;
  case SOMA_TABLE_DMA_PACKET: packet_rows(w); return;
  case SOMA_TABLE_SEMAPHORE_UPDATE: event_rows(w, 1u << VM_EV_SEM, update_row); return;
  case SOMA_TABLE_ACTIVE_TIME: active_rows(w); return;
  case SOMA_TABLE_CC_OP: vm_rec_cc_ops(w); return;
  case SOMA_TABLE_CC_INSTRUCTION: vm_rec_cc_instructions(w); return;
  case SOMA_TABLE_CC_STREAM: vm_rec_cc_streams(w); return;
  default: summary_rows(w); return;
  }
}

soma_status soma_write_table(const soma_recorder *r, const soma_program *p, soma_table which,
                             soma_table_format format, soma_write_fn write, void *ud) {
  if (!r || !p || !write) return SOMA_ARG;
  /* Lines of JSON need no header. */
  table w = {.mode = format == SOMA_JSON_LINES ? VM_REC_JSON_ROW : VM_REC_HEADER, .first = true};
  if ((unsigned)which >= SOMA_TABLES || (unsigned)format > SOMA_JSON_LINES) return SOMA_ARG;
  if (!vm_rec_open(&w.t, r, p)) return SOMA_NOMEM;
  vm_rec_sink_open(&w.out, &w.t.al, write, ud);
  isa_buf_init(&w.text, &w.t.al);
  w.order = vm_rec_by_start(&w.t);
  w.from = vm_rec_links(&w.t);
  bool known = vm_rec_transfers_of(&w.t, &w.transfers) && w.order && w.from;
  if (known) {
    vm_rec_time_to_see(&w.t, w.from, w.seen);
    rows(&w, which);
  }
  if (!known || w.text.failed) w.out.b.failed = true;
  vm_rec_free_array(&w.t, w.order, sizeof *w.order);
  vm_rec_free_array(&w.t, w.from, sizeof *w.from);
  vm_rec_transfers_free(&w.t, &w.transfers);
  isa_buf_free(&w.text);
  soma_status s = vm_rec_sink_close(&w.out, &w.t);
  vm_rec_close(&w.t);
  return s;
}
