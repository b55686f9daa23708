/* Counters of a Chrome trace: bytes in use, transfers that are pending, throughput. */
#include "chrome.h"

enum { WINDOWS = 2000 }; /* of throughput */

static bool put_use(chrome *c, unsigned core) {
  vm_rec_usage use;
  if (!vm_rec_usage_of(&c->t, c->order, core, &use)) return false;
  for (uint32_t i = 0; i < use.n && vm_rec_sink_row(&c->out); i++)
    for (int m = 0; m < 2; m++) {
      isa_buf *b = begin(c);
      isa_buf_printf(b, "\"ph\":\"C\",\"pid\":%u,\"name\":\"%s bytes\",\"ts\":",
                     pid_of(c, core, PID_MEMORY), m ? "PSUM" : "SBUF");
      vm_rec_put_time(b, use.v[i].t, 9);
      isa_buf_printf(b, ",\"args\":{\"in use\":%llu}}", (unsigned long long)use.v[i].bytes[m]);
    }
  vm_rec_usage_free(&c->t, &use);
  return true;
}

static isa_buf *begin_count(chrome *c, unsigned core, const char *name, vm_time t) {
  isa_buf *b = begin(c);
  isa_buf_printf(b, "\"ph\":\"C\",\"pid\":%u,\"name\":\"%s\",\"ts\":", pid_of(c, core, PID_DMA),
                 name);
  vm_rec_put_time(b, t, 9);
  return b;
}

static bool put_pending(chrome *c, unsigned core) {
  vm_rec_pending p;
  if (!vm_rec_pending_of(&c->t, &c->transfers, core, &p)) return false;
  for (uint32_t i = 0; i < p.n && vm_rec_sink_row(&c->out); i++)
    isa_buf_printf(begin_count(c, core, "pending transfers", p.v[i].t),
                   ",\"args\":{\"pending\":%lld}}", (long long)p.v[i].n);
  vm_rec_pending_free(&c->t, &p);
  return true;
}

/* Means over windows of whole nanoseconds, in hundredths of a GB/s. */
static bool put_throughput(chrome *c, unsigned core) {
  vm_time width = (c->t.total / WINDOWS / VM_NS + 1) * VM_NS;
  uint32_t n = (uint32_t)(c->t.total / width + 1);
  double *bytes = isa_zalloc(&c->t.al, (n + 1) * sizeof *bytes);
  unsigned long long last = 0;
  if (!bytes) return false;
  vm_rec_moved(&c->t, core, width, n, bytes);
  for (uint32_t k = 0; k <= n && vm_rec_sink_row(&c->out); k++) {
    unsigned long long rate =
        (unsigned long long)(bytes[k] * 100 / ((double)width / (double)VM_NS) + 0.5);
    if (rate != last)
      isa_buf_printf(begin_count(c, core, "GB/s", k * width), ",\"args\":{\"GB/s\":%llu.%02llu}}",
                     rate / 100, rate % 100);
    last = rate;
  }
  isa_free(&c->t.al, bytes, (n + 1) * sizeof *bytes);
  return true;
}

bool vm_rec_chrome_counts(chrome *c, unsigned core) {
  return put_use(c, core) && put_pending(c, core) && put_throughput(c, core);
}
