/* What a run achieved of what the machine can do. */
#include "../time/clock.h"
#include "impl.h"

#include <string.h>

void soma_run_work(const vm_core *c, soma_stats *s) {
  s->transpose_flops = c->transpose_flops.logical;
  s->adjusted_flops = c->flops.adjusted;
  s->adjusted_transpose_flops = c->transpose_flops.adjusted;
  uint64_t model = s->adjusted_flops - s->adjusted_transpose_flops;
  if (c->target->gen >= ISA_GEN4) /* transposes have a lane of their own */
    s->overlapped_flops = model < s->adjusted_transpose_flops ? model : s->adjusted_transpose_flops;
  s->hbm_read_bytes = c->hbm_read;
  s->hbm_write_bytes = c->hbm_written;
  s->dma_active = c->dma_active + (c->shares_moving ? c->now - c->dma_since : 0);
  s->sbuf_touched = c->touched[0];
  s->psum_touched = c->touched[1];
  s->sbuf_size = c->target->sbuf_bytes;
  s->psum_size = ISA_PSUM_BYTES;
  s->peak_flops = vm_cost_peak_flops(c->target);
  s->peak_hbm = (uint64_t)c->cost[VM_HBM_PEAK] * 1000000;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    s->streaming[e] = c->eng[e].streaming;
    s->sbuf_read[e] = c->eng[e].traffic[0][0];
    s->sbuf_written[e] = c->eng[e].traffic[0][1];
    s->psum_read[e] = c->eng[e].traffic[1][0];
    s->psum_written[e] = c->eng[e].traffic[1][1];
  }
}

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

void soma_stats_figures(const soma_stats *s, soma_figures *out, size_t n) {
  double time = (double)s->time, seconds = time * 1e-15;
  double model = (double)(s->flops - s->transpose_flops);
  double adjusted = (double)(s->adjusted_flops - s->adjusted_transpose_flops);
  double hbm = (double)(s->hbm_read_bytes + s->hbm_write_bytes);
  double peak = (double)s->peak_flops, bandwidth = (double)s->peak_hbm;
  soma_figures f = {.mfu = ratio(adjusted, peak * seconds),
                    .hfu = ratio((double)(s->adjusted_flops - s->overlapped_flops), peak * seconds),
                    .mbu = ratio(hbm, bandwidth * seconds),
                    .intensity = ratio(model, hbm),
                    .peak_flops = adjusted > 0 ? peak * model / adjusted : peak,
                    .model_flops = ratio(model, seconds),
                    .dma_active = ratio((double)s->dma_active, time),
                    .dma_average_bytes = ratio((double)s->dma_bytes, (double)s->dma_transfers)};
  f.ridge = ratio(f.peak_flops, bandwidth);
  bool memory_bound = hbm > 0 && f.intensity < f.ridge;
  f.attainable_flops = memory_bound ? f.intensity * bandwidth : f.peak_flops;
  for (unsigned e = 0; e < SOMA_ENGINES; e++) {
    f.active[e] = ratio((double)s->engine[e].busy, time);
    f.utilization[e] = e == SOMA_TENSOR ? f.hfu : ratio((double)s->streaming[e], time);
  }
  memcpy(out, &f, n < sizeof f ? n : sizeof f);
}
