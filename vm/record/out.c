/* The writers' sink, and numbers and strings as they write them. */
#include "record.h"

#include <string.h>

enum { GATHER = 32768 };

void vm_rec_sink_open(vm_rec_sink *o, const isa_alloc *al, soma_write_fn fn, void *ud) {
  isa_buf_init(&o->b, al);
  o->fn = fn;
  o->ud = ud;
  o->refused = false;
}

static void pass_on(vm_rec_sink *o) {
  if (!o->refused && !o->b.failed && o->b.len) o->refused = o->fn(o->ud, o->b.data, o->b.len) != 0;
  o->b.len = 0;
}

bool vm_rec_sink_row(vm_rec_sink *o) {
  if (o->b.len >= GATHER) pass_on(o);
  return !o->refused && !o->b.failed;
}

void vm_rec_sink_part(vm_rec_sink *o, isa_buf *part) {
  if (part->failed) o->b.failed = true;
  isa_buf_free(part);
}

soma_status vm_rec_sink_close(vm_rec_sink *o, const vm_rec_view *t) {
  if (t && t->failed) o->b.failed = true;
  pass_on(o);
  soma_status s = o->b.failed ? SOMA_NOMEM : o->refused ? SOMA_IO : SOMA_OK;
  isa_buf_free(&o->b);
  return s;
}

void vm_rec_put_time(isa_buf *b, vm_time t, int digits) {
  vm_time unit = 1;
  for (int i = 0; i < digits; i++) unit *= 10;
  isa_buf_printf(b, "%llu", (unsigned long long)(t / unit));
  vm_time part = t % unit;
  if (!part) return;
  for (; part % 10 == 0; digits--) part /= 10;
  isa_buf_printf(b, ".%0*llu", digits, (unsigned long long)part);
}

void vm_rec_put_span(isa_buf *b, vm_time t) {
  static const struct {
    vm_time unit;
    const char *name;
  } units[] = {
      {1000000000000000u, "s"}, {1000000000000u, "ms"}, {1000000000u, "us"}, {1000000u, "ns"}};
  unsigned u = 0;
  while (u < 3 && t < units[u].unit) u++;
  if (t == 0) {
    isa_buf_puts(b, "0 ns");
    return;
  }
  /* Rounded, as printf rounds: the same time has the same digits wherever it is shown. */
  vm_time unit = units[u].unit, step = unit / 100, n = t / step;
  unsigned tens = 100, digits = 2;
  if (n >= 100 * 100 - 1 && t >= unit * 100 - step / 2) {
    step = unit / 10;
    n = t / step;
    tens = 10;
    digits = 1;
  }
  n += t % step >= step - t % step;
  isa_buf_printf(b, "%llu.%0*llu %s", (unsigned long long)(n / tens), (int)digits,
                 (unsigned long long)(n % tens), units[u].name);
}
