/* When an instruction of the data path starts, when it is done, and what that does to the next.
 *
 *   start      = the latest of: now, the data path free, hazards, weights, tables, ports
 *   issue_free = start + max(MIN, stream) + OVH
 *   done       = start + stream + LAT
 *
 * Times of instructions that are still to start are known, so that ports are reserved in the
 * order of issue. */
#include "../engine/engine.h"
#include "clock.h"

/* A start, and what determines it so far. */
typedef struct bound {
  vm_time time;
  vm_cause cause;
} bound;

/* The later one decides; of equal times the first that was noted. */
static void not_before(bound *b, vm_moment m, vm_why why) {
  if (m.time <= b->time) return;
  b->time = m.time;
  b->cause = (vm_cause){.node = m.node, .why = (uint8_t)why, .time = m.time};
}

/* ---- Tensor -------------------------------------------------------------------------------- */

/* Cells of the array that an instruction takes. */
static uint16_t cells_of(const vm_flight *f) {
  unsigned row = 0, rows = 0, col = 0, cols = 0; /* a size of 0 is the whole array */
  switch (isa_ops[f->in->op].form) {
  case ISA_FORM_LDWEIGHTS:
    row = f->a.LDWEIGHTS.tile_row, rows = f->a.LDWEIGHTS.tile_rows;
    col = f->a.LDWEIGHTS.tile_col, cols = f->a.LDWEIGHTS.tile_cols;
    break;
  case ISA_FORM_MATMUL:
    row = f->a.MATMUL.tile_row, rows = f->a.MATMUL.tile_rows;
    col = f->a.MATMUL.tile_col, cols = f->a.MATMUL.tile_cols;
    break;
  case ISA_FORM_LDWEIGHTS_MX:
    row = f->a.LDWEIGHTS_MX.tile_row, rows = f->a.LDWEIGHTS_MX.tile_rows;
    break;
  case ISA_FORM_MATMUL_MX: row = f->a.MATMUL_MX.tile_row, rows = f->a.MATMUL_MX.tile_rows; break;
  default: break;
  }
  /* In cells of 32: a tile of part of a cell takes all of it. */
  unsigned row_end = rows ? (row + rows + 31) / 32 : 4, col_end = cols ? (col + cols + 31) / 32 : 4;
  uint16_t cells = 0;
  for (unsigned r = row / 32; r < row_end && r < 4; r++)
    for (unsigned k = col / 32; k < col_end && k < 4; k++) cells |= (uint16_t)(1u << (4 * r + k));
  return cells;
}

/* Weights load in the background of a running matmul, into the second set that every element has.
 * The loader takes one tile at a time, and instructions start in order. The weights move through
 * the array ahead of the matmul, which may start before the last of them has arrived, as soon as an
 * instruction may follow another. */
static void clock_ldweights(vm_core *c, vm_flight *f, bound *b) {
  vm_pe_clock *pe = &c->eng[ISA_ENG_tensor].pe;
  uint16_t cells = cells_of(f);
  /* Instructions of the array start in order, whatever their tiles. */
  not_before(b, pe->started, VM_WHY_ENGINE);
  not_before(b, pe->load_free, VM_WHY_ENGINE);
  uint32_t pace = vm_jitter_pace(c);
  uint64_t follow = c->cost[VM_MIN_MATMUL] + c->cost[VM_OVH_TENSOR];
  f->item.start = b->time;
  f->streamed = b->time + vm_paced(f->effort.stream, pace);
  f->read = b->time + vm_paced(f->effort.read, pace);
  f->item.done = b->time + vm_paced(f->effort.latency, pace);
  pe->done = vm_time_later(f->item.done, pe->done); /* no matmul is done before its weights */
  f->node = vm_path_add(c, VM_N_INSN, vm_at_pc(c, ISA_ENG_tensor, f->pc), b->time, f->item.done,
                        b->cause);
  pe->load_free = (vm_moment){f->streamed, f->node};
  pe->started = (vm_moment){b->time, f->node};
  vm_time loaded = b->time + vm_paced(vm_cost_time(c, ISA_ENG_tensor, follow), pace);
  /* float32 weights that are far apart do not load behind a pass that is shorter than MIN_FP32. */
  if (f->in->op == ISA_OP_ldweights && f->a.LDWEIGHTS.src.dtype == ISA_float32 &&
      vm_cost_far(&f->a.LDWEIGHTS.src))
    loaded = vm_time_later(loaded, pe->pass);
  /* A cell is loaded when the last of its weights has gone in. */
  for (unsigned k = 0; k < VM_CELLS; k++)
    if (cells >> k & 1) {
      pe->loaded[k] = (vm_moment){vm_time_later(loaded, f->streamed), f->node};
    }
}

/* Time is cut into windows of PE_WARMUP from the run's start on. The array runs at half rate in a
 * window before which it has not been used for PE_KEEP of the time. */
static void enter_window(const vm_core *c, vm_pe_clock *pe, vm_time t, vm_time size) {
  /* Half: `used` counts double, see vm_pe_clock. */
  vm_time used = pe->used / 2;
  /* Still in the same window. */
  if (t < pe->window + size) return;
  /* an idle window lies between: cold again */
  bool warm = t < pe->window + 2 * size && used >= size / 1000 * c->cost[VM_PE_KEEP];
  pe->window = t - t % size;
  /* Bit 0: whether this window runs at the full rate. */
  pe->used = warm;
}

static bool is_cold(const vm_core *c, vm_pe_clock *pe, vm_time start) {
  /* 0 switches all of it off (costs.def). */
  vm_time size = (vm_time)c->cost[VM_PE_WARMUP] * VM_NS;
  if (!size) return false;
  enter_window(c, pe, start, size);
  return !(pe->used & 1);
}

/* Counts a stream; what a cold array does in a time a warm one does in half of it. A stream is
 * shorter than a window: one that is not counts for the next window alone. */
static void count_stream(const vm_core *c, vm_pe_clock *pe, vm_time from, vm_time to, bool cold) {
  vm_time size = (vm_time)c->cost[VM_PE_WARMUP] * VM_NS, edge = pe->window + size;
  if (!size) return;
  /* What lies beyond the window counts for the next one, whose rate is decided at its edge. */
  if (to > edge) {
    pe->used += (edge - from) * (cold ? 1 : 2) & ~(vm_time)1;
    enter_window(c, pe, edge, size);
    from = edge;
    to = to < edge + size ? to : edge + size;
  }
  pe->used += (to - from) * (cold ? 1 : 2) & ~(vm_time)1;
}

/* Passes of a float32 matmul through the array, each with weights of its own; 0 for other types. */
static unsigned fp32_passes(const vm_flight *f) {
  if (f->in->op != ISA_OP_matmul || f->a.MATMUL.src.dtype != ISA_float32) return 0;
  /* float32 goes through the array twice; zeros and ones, and what is only turned, once. */
  return f->a.MATMUL.onezero || f->a.MATMUL.transpose ? 1 : 2;
}

/* From the start of a matmul's stream to that of the next on the same elements, without the stream:
 * an instruction may follow at once, or the array needs a gap. */
static vm_time gap_after(const vm_core *c, const vm_flight *f, vm_time overhead) {
  /* Each of the times that float32 streams has a gap of its own (PE_GAP_FP32). */
  unsigned passes = 2 * fp32_passes(f);
  uint64_t gap = passes ? (uint64_t)passes * c->cost[VM_PE_GAP_FP32] : c->cost[VM_PE_GAP];
  return vm_time_later(overhead, vm_cost_time(c, ISA_ENG_tensor, gap));
}

/* The times of a matmul while the array is cold: the stream takes twice as long. */
static vm_effort slowed(const vm_core *c, const vm_effort *x) {
  vm_effort cold = *x;
  /* The latency behind the stream is not slower: it is not the array's. */
  uint64_t stream = 2 * x->span.stream, latency = x->span.latency - x->span.stream;
  cold.stream = vm_cost_time(c, ISA_ENG_tensor, stream);
  cold.read = vm_cost_time(c, ISA_ENG_tensor, stream + latency / 2);
  cold.latency = vm_cost_time(c, ISA_ENG_tensor, stream + latency);
  cold.issue = vm_cost_time(c, ISA_ENG_tensor, stream + x->span.issue - x->span.stream);
  return cold;
}

static void clock_matmul(vm_core *c, vm_flight *f, bound *b) {
  vm_pe_clock *pe = &c->eng[ISA_ENG_tensor].pe;
  uint16_t cells = cells_of(f);
  /* gen4 has a second way through the array for transposes. */
  unsigned lane = c->target->gen >= ISA_GEN4 && isa_insn_turns(f->in);
  not_before(b, pe->started, VM_WHY_ENGINE);
  not_before(b, pe->issue_free, VM_WHY_ENGINE);
  for (unsigned k = 0; k < VM_CELLS; k++) /* Free, and with its weights. */
    if (cells >> k & 1) {
      not_before(b, pe->free[lane][k], VM_WHY_ENGINE);
      not_before(b, pe->loaded[k], VM_WHY_WEIGHTS);
    }
  vm_effort cold;
  const vm_effort *x = &f->effort;
  bool half = is_cold(c, pe, b->time);
  if (half) {
    /* A copy: the flight keeps its own effort for its next round. */
    cold = slowed(c, x);
    x = &cold;
  }
  uint32_t pace = vm_jitter_pace(c);
  f->item.start = b->time;
  f->streamed = b->time + vm_paced(x->stream, pace);
  count_stream(c, pe, b->time, f->streamed, half);
  f->read = b->time + vm_paced(x->read, pace);
  /* Matmuls end in order, and not before the weights of any. */
  f->item.done = pe->done = vm_time_later(b->time + vm_paced(x->latency, pace), pe->done);
  f->node = vm_path_add(c, VM_N_INSN, vm_at_pc(c, ISA_ENG_tensor, f->pc), b->time, f->item.done,
                        b->cause);
  pe->issue_free = (vm_moment){b->time + x->overhead, f->node};
  uint64_t passes = fp32_passes(f) * (uint64_t)c->cost[VM_MIN_FP32];
  pe->pass = passes ? b->time + vm_cost_time(c, ISA_ENG_tensor, passes) : b->time;
  pe->started = (vm_moment){b->time, f->node};
  /* The gap replaces the overhead if it is longer. */
  vm_time interval = x->issue - x->overhead + gap_after(c, f, x->overhead);
  vm_moment free = {b->time + vm_paced(interval, pace), f->node};
  for (unsigned k = 0; k < VM_CELLS; k++)
    if (cells >> k & 1) pe->free[lane][k] = free;
}

/* ---- Ports --------------------------------------------------------------------------------- */

static uint16_t ports_of_box(const vm_box *b) {
  if (b->space == ISA_SBUF) return VM_PORT_SBUF;
  if (b->space != ISA_PSUM) return 0;
  unsigned first = (unsigned)(b->lo / ISA_PSUM_BANK),
           /* A box never has hi 0: an operand has elements. */
      last = (unsigned)((b->hi - 1) / ISA_PSUM_BANK);
  uint16_t ports = 0;
  for (unsigned bank = first; bank <= last && bank < 8; bank++) ports |= (uint16_t)(0x100u << bank);
  return ports;
}

static uint16_t ports_of(const vm_item *it) {
  uint16_t ports = 0;
  for (unsigned i = 0; i < it->nsrc; i++) ports |= ports_of_box(&it->src[i]);
  for (unsigned i = 0; i < it->ndst; i++) ports |= ports_of_box(&it->dst[i]);
  return ports;
}

static uint16_t ports_of_way(const isa_way *w) {
  return w->space == ISA_SBUF ? VM_PORT_SBUF : VM_PORT_PSUM;
}

static bool collide(const isa_way *w, uint16_t a, uint16_t b) {
  uint16_t ports = ports_of_way(w);
  /* Some ways collide only in the same bank of PSUM, others whatever part of the memory is used. */
  return w->bank ? (a & b & ports) != 0 : (a & ports) && (b & ports);
}

static const vm_flight *flight_at(const vm_engine *en, uint32_t i) {
  return &en->flights[(en->first + i) % VM_FLIGHTS];
}

/* Moves b to after every reservation of `other` that f would collide with while it streams. */
static bool wait_for_way(vm_core *c, unsigned e, const vm_flight *f, const isa_way *w,
                         unsigned other, vm_time stream, bound *b) {
  const vm_engine *en = &c->eng[other];
  vm_time before = b->time;
  for (uint32_t i = 0; i < en->nflights; i++) {
    const vm_flight *g = flight_at(en, i);
    /* g does not stream at that time. */
    if (!collide(w, f->ports, g->ports) || g->item.start >= b->time + stream ||
        b->time >= g->streamed)
      continue;
    /* Told to the checks: programs must order such accesses themselves. */
    if (w->ordered) vm_tell_port(c, e, f, w, g, b->time, g->streamed - b->time);
    not_before(b, (vm_moment){g->streamed, g->node}, VM_WHY_PORT);
  }
  return b->time != before;
}

static void find_port(vm_core *c, unsigned e, const vm_flight *f, vm_time stream, bound *b) {
  bool moved = true;
  /* A later start may collide with another reservation: until none moves it. */
  while (moved) {
    moved = false;
    for (unsigned i = 0; i < ISA_NWAYS; i++) {
      if (!(f->ports & ports_of_way(&isa_ways[i]))) continue;
      unsigned other = isa_way_other(&isa_ways[i], c->target->gen, e);
      if (other < ISA_NENGINES) moved |= wait_for_way(c, e, f, &isa_ways[i], other, stream, b);
      /* This engine is not on that way. */
    }
  }
}

/* Vector's modes of 2 and 4 elements per cycle need a port that gpsimd uses too (from gen3 on):
 * while gpsimd streams, vector takes one per cycle. Turns `stream`, the time at full speed, into
 * the time from `start` on beside what gpsimd has issued by now; slow_vector does the rest. */
static vm_time beside_gpsimd(const vm_core *c, vm_time start, uint64_t cycles, uint64_t elems,
                             vm_time stream) {
  const vm_engine *gp = &c->eng[ISA_ENG_gpsimd];
  /* From the start on: stretches without gpsimd at full speed, stretches with it at one element per
   * cycle. */
  vm_time t = start, left = stream;
  /* In the order of their starts, which is that of issue. */
  for (uint32_t i = 0; i < gp->nflights && left; i++) {
    const vm_flight *g = flight_at(gp, i);
    if (g->streamed <= t) continue;
    if (g->item.start > t) {
      vm_time fast = g->item.start - t < left ? g->item.start - t : left;
      t += fast;
      left -= fast;
    }
    vm_time done = (g->streamed - t) / elems * cycles; /* the work done during the overlap */
    /* It ends while gpsimd still streams. */
    if (done >= left) return t + left / cycles * elems - start;
    t = g->streamed;
    left -= done;
  }
  return t + left - start;
}

/* The time that vector's f loses to g of gpsimd, which issues when f is already under way. */
static vm_time lost_to(const vm_flight *f, const vm_flight *g) {
  /* Elements per cycle at full speed: elems / cycles. */
  uint64_t cycles = f->effort.span.stream, elems = f->effort.fast;
  vm_time from = vm_time_later(f->item.start, g->item.start);
  if (!elems || f->streamed <= from || g->streamed <= from) return 0;
  vm_time left = f->streamed - from, done = (g->streamed - from) / elems * cycles;
  /* What is left takes elems / cycles times as long beside g. */
  return done >= left ? left / cycles * elems - left : g->streamed - from - done;
}

/* g of gpsimd slows what vector has issued: the result does not depend on how gpsimd's work is cut.
 * What vector has issued after it is later by the same time. */
static void slow_vector(vm_core *c, const vm_flight *g) {
  vm_engine *en = &c->eng[ISA_ENG_vector];
  vm_time slow = 0;
  for (uint32_t i = 0; i < en->nflights; i++) {
    uint32_t slot = (en->first + i) % VM_FLIGHTS;
    vm_flight *f = &en->flights[slot];
    /* It has ended: nothing of it can be later any more. */
    if (f->finished) continue;
    vm_time before = slow;
    /* All that was issued after a slower one starts later by the same time. */
    f->item.start += before;
    f->streamed += before;
    slow += lost_to(f, g);
    if (!slow) continue;
    f->streamed += slow - before;
    /* The event of its @read update is in the queue for the old time. */
    if (f->in->upd.at_read) vm_event_delay_read(c, ISA_ENG_vector, f->pc, f->read, slow);
    f->read += slow;
    f->item.done += slow;
    vm_event_delay_done(c, ISA_ENG_vector, slot, f->item.done);
    vm_path_delay(c, f->node, f->item.start, f->item.done);
    en->busy += slow - before; /* what comes later moves with it, and so do the gaps between */
    en->busy_until = vm_time_later(en->busy_until, f->item.done);
  }
  en->issue_free.time += slow;
  en->last_done.time += slow;
}

/* ---- Vector, scalar, gpsimd ---------------------------------------------------------------- */

/* Loads a table at b, but not before the data path is free; returns when it is loaded. */
static vm_time load_table(vm_core *c, int table, bound *b) {
  vm_engine *en = &c->eng[ISA_ENG_scalar];
  not_before(b, en->issue_free, VM_WHY_ENGINE);
  /* Which table is loaded is known at once: instructions are issued in order. */
  en->table = table;
  en->tables++;
  return b->time + vm_jitter(c, (vm_time)c->cost[VM_ACT_TABLE] * VM_NS);
}

/* As a profile shows it: the load of a table is an instruction before the activate and after the
 * activate's wait. */
static void need_table(vm_core *c, vm_flight *f, bound *b) {
  int table = isa_insn_table(f->in);
  if (table < 0 || table == c->eng[ISA_ENG_scalar].table) return;
  f->table_until = load_table(c, table, b);
  f->table_from = b->time;
  uint32_t node = vm_path_add(c, VM_N_TABLE, vm_at_pc(c, ISA_ENG_scalar, f->pc), f->table_from,
                              f->table_until, b->cause);
  not_before(b, (vm_moment){f->table_until, node}, VM_WHY_TABLE);
}

/* Results of a data path appear in order, and so do its sources' ends of use. */
/* Jitter gives each instruction its own pace: without this a later one could end first. */
static void keep_order(const vm_engine *en, vm_flight *f) {
  const vm_flight *last = en->nflights ? flight_at(en, en->nflights - 1) : NULL;
  f->item.done = vm_time_later(f->item.done, en->last_done.time);
  if (last) f->read = vm_time_later(f->read, last->read);
}

static void clock_pipeline(vm_core *c, unsigned e, vm_flight *f, bound *b) {
  const vm_effort *x = &f->effort;
  vm_engine *en = &c->eng[e];
  uint32_t pace = vm_jitter_pace(c);
  vm_time stream = vm_paced(x->stream, pace);
  if (e == ISA_ENG_scalar) need_table(c, f, b);
  not_before(b, en->issue_free, VM_WHY_ENGINE);
  const vm_boxes reads = {f->item.src, f->item.nsrc}, writes = {f->item.dst, f->item.ndst};
  /* The hazard looks only at times after what is known so far. */
  not_before(b, vm_chain_hazard(c, e, reads, writes, b->time), VM_WHY_HAZARD);
  f->ports = ports_of(&f->item);
  /* The ports come last: only when all else is ready is a place in time sought. */
  find_port(c, e, f, stream, b);
  vm_time slower = 0;
  if (x->fast) slower = beside_gpsimd(c, b->time, x->span.stream, x->fast, stream) - stream;
  f->item.start = b->time;
  f->streamed = b->time + slower + stream;
  f->read = b->time + slower + vm_paced(x->read, pace);
  f->item.done = b->time + slower + vm_paced(x->latency, pace);
  if (c->run->jitter) keep_order(en, f);
  f->node = vm_path_add(c, VM_N_INSN, vm_at_pc(c, e, f->pc), b->time, f->item.done, b->cause);
  en->issue_free = (vm_moment){b->time + slower + vm_paced(x->issue, pace), f->node};
  if (e == ISA_ENG_gpsimd) slow_vector(c, f);
}

/* load_act_table: the activate after it finds the table loaded. */
static void clock_table(vm_core *c, vm_flight *f, bound *b) {
  vm_engine *en = &c->eng[ISA_ENG_scalar];
  vm_time done = load_table(c, f->in->u.ACT_TABLE.fn, b);
  f->item.start = b->time;
  f->streamed = f->read = f->item.done = done;
  if (c->run->jitter) keep_order(en, f);
  f->node = vm_path_add(c, VM_N_INSN, vm_at_pc(c, ISA_ENG_scalar, f->pc), b->time, f->item.done,
                        b->cause);
  en->issue_free = (vm_moment){f->item.done, f->node};
}

void vm_clock(vm_core *c, unsigned e, vm_flight *f) {
  bound b = {c->now, c->eng[e].cause};
  /* gen2's load_act_table has no stream, only the table's time. */
  if (isa_ops[f->in->op].cost == ISA_COST_TABLE)
    clock_table(c, f, &b);
  else if (e != ISA_ENG_tensor)
    clock_pipeline(c, e, f, &b);
  else if (isa_ops[f->in->op].cost == ISA_COST_LDW)
    clock_ldweights(c, f, &b);
  else
    clock_matmul(c, f, &b);
}
