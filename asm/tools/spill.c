/* Hand-written programs whose tiles do not fit: followed as a list, which the builder places,
 * spills and synchronises anew. */
#include "cli.h"

#include "../../kernel/kernel.h"

#include <inttypes.h>

static void put_place(const as_kernel *k, isa_line at, isa_buf *out) {
  const char *file = as_kernel_file_name(k, at.file);
  if (file)
    isa_buf_printf(out, "%s:%" PRIu32, file, at.line);
  else
    isa_buf_puts(out, "an unknown line");
}

static void put_spills(const as_kernel *k, isa_buf *out) {
  as_kernel_spill s;
  for (uint32_t i = 0; as_kernel_get_spill(k, i, &s); i++) {
    isa_buf_printf(out, "spilled `%s`: %" PRIu64 " bytes, ", s.name, s.bytes);
    isa_buf_puts(out, as_kernel_spill_text(&s, false));
    put_place(k, s.after, out);
    isa_buf_printf(out, ", %s", as_kernel_spill_text(&s, true));
    put_place(k, s.before, out);
    isa_buf_puts(out, "\n");
  }
}

isa_status as_spill(const isa_program *p, const isa_alloc *al, isa_program **out, isa_buf *text) {
  as_kernel_options o = {.alloc = al, .target = p->target, .flags = AS_KERNEL_SPILL};
  as_kernel_passes("import", &o.passes);
  as_kernel *k = as_kernel_new(&o);
  *out = NULL;
  if (!k) return ISA_NOMEM;
  if (as_kernel_import(k, p)) *out = as_kernel_finish(k);
  const as_kernel_error *e = as_kernel_last_error(k);
  isa_status s = *out ? ISA_OK : e->status;
  if (*out) {
    put_spills(k, text);
  } else {
    if (e->at.line) put_place(k, e->at, text);
    isa_buf_printf(text, "%serror: %s\n", e->at.line ? ": " : "", e->text);
  }
  as_kernel_free(k);
  return text->failed ? ISA_NOMEM : s;
}
