/* What a run achieved, compared with what the machine can do. */
#include "../check/check.h"
#include "../time/clock.h"
#include "impl.h"

#include <string.h>

/* Adds the work of core c. */
static void add_core(const vm_core *c, soma_stats *s) {
/* Everything that simply adds up, by the list of counters. */
#define COUNTER(name, unit, layout, text) s->name += c->name;
#include "../stats.def"
  s->table_loads += c->eng[ISA_ENG_scalar].tables;
  /* A transfer in progress counts up to now. */
  s->dma_active += c->dma_active + (c->shares_moving ? c->now - c->dma_since : 0);
  for (unsigned i = 0; i < 2; i++) {
    uint64_t *touched = i ? &s->psum_touched : &s->sbuf_touched;
    /* The cores have memories of their own: the fuller one says how full. */
    *touched = *touched > c->touched[i] ? *touched : c->touched[i];
  }
  /* Cores add up their peaks. */
  s->peak_flops += vm_cost_peak_flops(c->target);
  /* DMA engines of a core's own. */
  for (unsigned d = 0; d < ISA_NDMA; d++) s->dma_busy += c->dma[d].busy_time;
  s->cores++;
}

/* Called after add_core: s->cores counts core c already. */
static void add_engine(const vm_core *c, unsigned e, soma_stats *s) {
  const vm_engine *en = &c->eng[e];
  soma_engine_stats *to = &s->engine[e];
  to->instructions += en->instructions;
  to->data_instructions += en->data_instructions;
  to->busy += en->busy;
  to->waiting += en->waiting;
  /* Halted only if both cores' engines are. */
  to->halted = en->state == VM_HALTED && (s->cores == 1 || to->halted);
  if (s->cores == 1) to->pc = en->pc;
  s->streaming[e] += en->streaming;
  s->sbuf_read[e] += en->traffic[0][0];
  s->sbuf_written[e] += en->traffic[0][1];
  s->psum_read[e] += en->traffic[1][0];
  s->psum_written[e] += en->traffic[1][1];
}

/* The time of that many bytes over the host's link, one way. */
static vm_time host_time(const vm_core *c, uint64_t bytes) {
  uint64_t rate = c->cost[VM_HOST_LINK];
  /* Without bytes there is no latency either. */
  if (!bytes) return 0;
  /* Whole parts first: bytes * 10^9 would overflow. The rate is in MB/s. */
  return (vm_time)c->cost[VM_HOST_LATENCY] * VM_NS + bytes / rate * 1000000000u +
         bytes % rate * 1000000000u / rate;
}

/* For the cores first .. last - 1 of a run.
 * Some numbers are the whole run's, whatever cores are asked for. */
static soma_stats stats_of(const soma_run *r, unsigned first, unsigned last) {
  const vm_run *run = &r->run;
  const vm_core *c = run->cores[0];
  soma_stats s = {.time = vm_run_now(run),
                  .host_to_device = r->to_device,
                  .device_to_host = r->to_host,
                  .host = host_time(c, r->to_device) + host_time(c, r->to_host),
                  .hbm_bytes = run->hbm_bytes,
                  .host_seconds = run->host_seconds,
                  .trace_hash = run->trace_hash,
                  .launch = (vm_time)c->cost[run->n > 1 ? VM_LAUNCH_LNC2 : VM_LAUNCH] * VM_NS,
                  .sbuf_size = c->target->sbuf_bytes,
                  .psum_size = c->target->psum_bytes,
                  .twins = vm_check_twins(c),
                  .dma_engines = c->target->dma,
                  .peak_hbm = (uint64_t)c->cost[VM_HBM_PEAK] * 1000000};
  for (unsigned i = first; i < last; i++) {
    add_core(run->cores[i], &s);
    for (unsigned e = 0; e < ISA_NENGINES; e++) add_engine(run->cores[i], e, &s);
  }
  /* Useful work, without the transposes. */
  uint64_t model = s.adjusted_flops - s.adjusted_transpose_flops;
  if (c->target->gen >= ISA_GEN4) /* transposes have a lane of their own */
    s.overlapped_flops = model < s.adjusted_transpose_flops ? model : s.adjusted_transpose_flops;
  return s;
}

void soma_run_stats(const soma_run *r, soma_stats *out, size_t n) {
  if (!r || !out) return;
  soma_stats s = stats_of(r, 0, r->run.n);
  /* Older callers have shorter structs. */
  memcpy(out, &s, n < sizeof s ? n : sizeof s);
}

soma_status soma_core_stats(const soma_run *r, unsigned core, soma_stats *out, size_t n) {
  if (!r || !out || core >= r->run.n) return SOMA_ARG;
  soma_stats s = stats_of(r, core, core + 1);
  memcpy(out, &s, n < sizeof s ? n : sizeof s);
  return SOMA_OK;
}

/* ---- The fields ---------------------------------------------------------------------------- */

#define ROW(type, at, script, unit, text, n) \
  {#at, #script, unit, text, offsetof(OF, at), sizeof(type), n},
#define COUNT "count"
#define BYTES "bytes"
#define FLOPS "flops"
#define TIME "time"
#define SECONDS "seconds"
#define RATE "rate"
#define HASH "hash"
#define FLAG "flag"

static const soma_stat stat_rows[] = {
#define OF soma_stats
#define COUNTER(name, unit, layout, text) ROW(uint64_t, name, name, unit, text, 1)
#define STAT(type, name, unit, text) ROW(type, name, name, unit, text, 1)
#define STATS(type, name, unit, script, text) ROW(type, name, script, unit, text, SOMA_ENGINES)
#include "../stats.def"
#undef OF
};
static const soma_stat engine_rows[] = {
#define OF soma_engine_stats
#define ENGINE(type, name, unit, text) ROW(type, name, name, unit, text, 1)
#include "../stats.def"
#undef OF
};

/* Lists of fields, so that front ends need not name them again. */
soma_status soma_stats_field(int of_engine, uint32_t i, soma_stat *out) {
  size_t n =
      of_engine ? sizeof engine_rows / sizeof *engine_rows : sizeof stat_rows / sizeof *stat_rows;
  if (!out || i >= n) return SOMA_ARG;
  *out = of_engine ? engine_rows[i] : stat_rows[i];
  return SOMA_OK;
}

/* ---- Ratios --------------------------------------------------------------------------------- */

/* A ratio to nothing is 0. */
static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

void soma_stats_figures(const soma_stats *s, soma_figures *out, size_t n) {
  if (!s || !out) return;
  /* Femtoseconds. */
  double time = (double)s->time, seconds = time * 1e-15;
  double model = (double)(s->flops - s->transpose_flops);
  double adjusted = (double)(s->adjusted_flops - s->adjusted_transpose_flops);
  double hbm = (double)(s->hbm_read_bytes + s->hbm_write_bytes);
  double peak = (double)s->peak_flops, bandwidth = (double)s->peak_hbm;
  soma_figures f = {.mfu = ratio(adjusted, peak * seconds),
                    .hfu = ratio((double)(s->adjusted_flops - s->overlapped_flops), peak * seconds),
                    .mbu = ratio(hbm, bandwidth * seconds),
                    .intensity = ratio(model, hbm),
                    /* The peak of the types that were multiplied, by the time of each. */
                    .peak_flops = adjusted > 0 ? peak * model / adjusted : peak,
                    .model_flops = ratio(model, seconds),
                    .dma_active = ratio((double)s->dma_active, time),
                    .dma_average_bytes = ratio((double)s->dma_bytes, (double)s->dma_transfers)};
  /* A core alone counts as one. */
  double cores = s->cores > 1 ? s->cores : 1;
  f.dma_active /= cores;
  f.ridge = ratio(f.peak_flops, bandwidth);
  /* Below the ridge memory is the limit. */
  bool memory_bound = hbm > 0 && f.intensity < f.ridge;
  f.attainable_flops = memory_bound ? f.intensity * bandwidth : f.peak_flops;
  for (unsigned e = 0; e < SOMA_ENGINES; e++) {
    f.active[e] = ratio((double)s->engine[e].busy, time * cores);
    /* The tensor engine is measured by its arithmetic, the others by their streaming. */
    f.utilization[e] = e == SOMA_TENSOR ? f.hfu : ratio((double)s->streaming[e], time * cores);
  }
  memcpy(out, &f, n < sizeof f ? n : sizeof f);
}
