/* The writers' sink, and numbers and strings as they write them. */
#include "record.h"

/* Writers add small pieces: they go out in blocks of 32 KiB. */
enum { GATHER = 32768 };

void vm_rec_sink_open(vm_rec_sink *o, const isa_alloc *al, soma_write_fn fn, void *ud) {
  isa_buf_init(&o->b, al);
  o->fn = fn;
  o->ud = ud;
  o->refused = false;
}

/* After a failure nothing more goes out, and the buffer does not grow. */
static void pass_on(vm_rec_sink *o) {
  if (!o->refused && !o->b.failed && o->b.len) o->refused = o->fn(o->ud, o->b.data, o->b.len) != 0;
  o->b.len = 0;
}

/* Between rows: a row goes out as a whole. */
bool vm_rec_sink_row(vm_rec_sink *o) {
  if (o->b.len >= GATHER) pass_on(o);
  return !o->refused && !o->b.failed;
}

void vm_rec_sink_part(vm_rec_sink *o, isa_buf *part) {
  if (part->failed) o->b.failed = true;
  isa_buf_free(part);
}

/* Memory comes before the caller's refusal: half a buffer was not offered at all. */
soma_status vm_rec_sink_close(vm_rec_sink *o, const vm_rec_view *t) {
  if (t && t->failed) o->b.failed = true;
  pass_on(o);
  soma_status s = o->b.failed ? SOMA_NOMEM : o->refused ? SOMA_IO : SOMA_OK;
  isa_buf_free(&o->b);
  return s;
}

/* Exact: whole units, then the rest without zeros at its end. */
void vm_rec_put_time(isa_buf *b, vm_time t, int digits) {
  vm_time unit = 1;
  for (int i = 0; i < digits; i++) unit *= 10;
  isa_buf_printf(b, "%llu", (unsigned long long)(t / unit));
  vm_time part = t % unit;
  if (!part) return;
  for (; part % 10 == 0; digits--) part /= 10;
  isa_buf_printf(b, ".%0*llu", digits, (unsigned long long)part);
}

/* "1.50 us", "123.4 us": three or four digits, in the largest unit that is not above
 * the time. */
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
  /* 99.995 would be rounded to 100.00: it is shown with one place less. */
  if (n >= 100 * 100 - 1 && t >= unit * 100 - step / 2) {
    step = unit / 10;
    n = t / step;
    tens = 10;
    digits = 1;
  }
  /* Half a step and more goes up; written so that nothing overflows. */
  n += t % step >= step - t % step;
  isa_buf_printf(b, "%llu.%0*llu %s", (unsigned long long)(n / tens), (int)digits,
                 (unsigned long long)(n % tens), units[u].name);
}
