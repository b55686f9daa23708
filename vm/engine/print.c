/* device_print: values as text, through the run's hook. device_assert_all: whether one is 0. */

#include "engine.h"
#include <inttypes.h>

enum { SHOWN = 8 }; /* values of a row, and rows; the rest is shown as an ellipsis */

static void put_value(isa_buf *out, const vm_view *v, uint32_t p, uint64_t i) {
  uint32_t bits = 0;
  /* No number of C holds it: its bytes, the most significant first. */
  if (v->esize > 4 || isa_dtypes[v->dtype].cls == ISA_PACK) {
    const uint8_t *at = vm_at(v, p, i);
    isa_buf_puts(out, "0x");
    for (unsigned b = v->esize; b-- > 0;) isa_buf_printf(out, "%02x", at[b]);
    return;
  }
  vm_load_bits(&bits, v, p, i, 1);
  if (v->dtype == ISA_uint32)
    isa_buf_printf(out, "%" PRIu32, bits);
  else if (v->dtype == ISA_int32)
    isa_buf_printf(out, "%" PRId32, (int32_t)bits);
  else
    /* Nine digits are enough to read a float32 back. */
    isa_buf_printf(out, "%.9g", (double)isa_to_f32(v->dtype, bits));
}

static void begin(vm_core *c, isa_buf *out, const char *text, size_t n) {
  isa_buf_init(out, &c->al);
  /* Both cores write to one stream. */
  if (c->run->n > 1) isa_buf_printf(out, "core %u: ", c->number);
  isa_buf_add(out, text, n);
}

/* Whoever gets the text may read the machine's memory. */
static void end(vm_core *c, isa_buf *out, bool to_stderr) {
  vm_batch_settle(c, NULL);
  if (out->failed)
    vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for the text of a device_print");
  else
    c->run->hooks.print(c->run->hooks.print_ud, to_stderr, isa_buf_str(out), out->len);
  isa_buf_free(out);
}

void vm_print_line(vm_core *c, const char *text, size_t n, const int64_t *value, bool to_stderr) {
  isa_buf out;
  /* Nobody listens: no text is made. */
  if (!c->run->hooks.print) return;
  begin(c, &out, text, n);
  if (value) isa_buf_printf(&out, "%s%" PRId64, n ? " " : "", *value);
  isa_buf_puts(&out, "\n");
  end(c, &out, to_stderr);
}

void vm_print(vm_core *c, const char *prefix, size_t n, const vm_view *v, bool to_stderr) {
  isa_buf out;
  if (!c->run->hooks.print) return;
  begin(c, &out, prefix, n);
  isa_buf_printf(&out, "%s%s[%u, %" PRIu64 "]", n ? " " : "", isa_dtypes[v->dtype].name, v->num[0],
                 v->elems);
  /* A corner of the tile: what a person reads. */
  for (uint32_t p = 0; p < v->num[0] && p < SHOWN; p++) {
    isa_buf_puts(&out, "\n ");
    for (uint64_t i = 0; i < v->elems && i < SHOWN; i++) {
      isa_buf_puts(&out, " ");
      put_value(&out, v, p, i);
    }
    isa_buf_puts(&out, v->elems > SHOWN ? " ..." : "");
  }
  isa_buf_puts(&out, v->num[0] > SHOWN ? "\n  ...\n" : "\n");
  end(c, &out, to_stderr);
}

bool vm_first_zero(const vm_view *v, uint32_t *p, uint64_t *i) {
  /* -0 counts as 0, which its bits do not say. */
  bool is_float = isa_dtypes[v->dtype].cls == ISA_FLOAT;
  for (*p = 0; *p < v->num[0]; ++*p)
    for (*i = 0; *i < v->elems; ++*i) {
      uint32_t bits = 0;
      vm_load_bits(&bits, v, *p, *i, 1);
      if (is_float ? isa_to_f32(v->dtype, bits) == 0 : bits == 0) return true;
    }
  return false;
}
