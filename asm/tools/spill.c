/* Hand-written programs whose tiles do not fit: followed as a list, which the builder places,
 * spills and synchronises anew. */
#include "cli.h"

#include "../../kernel/kernel.h"

#include <inttypes.h>

/* As compilers write a place, so that editors jump to it. */
static void put_place(const as_kernel *k, isa_line at, isa_buf *out) {
  const char *file = as_kernel_file_name(k, at.file);
  /* A program without a line table has no files. */
  if (file)
    isa_buf_printf(out, "%s:%" PRIu32, file, at.line);
  else
    isa_buf_puts(out, "an unknown line");
}

/* One line for each spill, so that the user sees what it costs and where. */
static void put_spills(const as_kernel *k, isa_buf *out) {
  as_kernel_spill s;
  for (uint32_t i = 0; as_kernel_get_spill(k, i, &s); i++) {
    /* After the line that wrote it, before the line that needs it again. */
    isa_buf_printf(out, "spilled `%s`: %" PRIu64 " bytes, ", s.name, s.bytes);
    isa_buf_puts(out, as_kernel_spill_text(&s, false));
    put_place(k, s.after, out);
    isa_buf_printf(out, ", %s", as_kernel_spill_text(&s, true));
    put_place(k, s.before, out);
    isa_buf_puts(out, "\n");
  }
}

isa_status as_spill(const isa_program *p, const isa_alloc *al, isa_program **out, isa_buf *text) {
  /* All other options stand as for a kernel that the builder makes. */
  as_kernel_options o = {.alloc = al, .target = p->target, .flags = AS_KERNEL_SPILL};
  /* The passes that an imported program goes through; the rest would change
   * instructions as well. */
  as_kernel_front("import", &o);
  as_kernel *k = as_kernel_new(&o);
  *out = NULL;
  if (!k) return ISA_NOMEM;
  if (as_kernel_import(k, p)) *out = as_kernel_finish(k);
  /* Valid until the builder is freed, so it is read before. */
  const as_kernel_error *e = as_kernel_last_error(k);
  isa_status s = *out ? ISA_OK : e->status;
  if (*out) {
    put_spills(k, text);
  } else {
    /* Only some errors belong to a line. */
    if (e->at.line) put_place(k, e->at, text);
    isa_buf_printf(text, "%serror: %s\n", e->at.line ? ": " : "", e->text);
  }
  as_kernel_free(k);
  /* Text that was lost for want of memory is an error of its own. */
  return text->failed ? ISA_NOMEM : s;
}
