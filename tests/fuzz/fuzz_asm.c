/* Text. Whatever the bytes, the assembler ends with a program or with diagnostics; and for a
 * program: what the disassembler prints assembles to the same bytes, what is read back from a file
 * is written as the same bytes, and -E gives a source of the same program. A second pass runs out
 * of memory somewhere. */
#include "../../asm/asm.h"
#include "fuzz.h"

#include <string.h>

const enum fuzz_kind fuzz_kind = FUZZ_TEXT;
fuzz_stat fuzz_stats[] = {
    {"inputs", 0, 0}, {"assembled", 3, 0}, {"passed the verifier", 2, 0}, {NULL, 0, 0}};
enum { INPUTS, ASSEMBLED, VERIFIED };
void fuzz_report(void) {}

/* ---- Memory -------------------------------------------------------------------------------- */

/* Counts what is allocated, so that each input must give all of it back, with the right sizes.
 * Fails at the call that `calls` counts down to, and over `most` bytes: a %rep can be long. */
typedef struct meter {
  size_t live;
  uint32_t calls; /* 0: no limit */
  size_t most;
} meter;
enum { FIRST = 8 << 20, LATER = 128 << 20 }; /* what assembles once must do so again */
static meter main_meter;

static void *metered(void *ud, void *p, size_t old, size_t n) {
  meter *m = ud;
  if (n > old && (m->live - old + n > m->most || m->calls == 1)) return NULL;
  if (n > old && m->calls) m->calls--;
  isa_alloc al = isa_alloc_default();
  void *q = al.fn(al.ud, p, old, n);
  if (q || n == 0) m->live = m->live - (p ? old : 0) + n;
  return q;
}

static isa_alloc heap(void) { return (isa_alloc){metered, &main_meter}; }

static void buffer(isa_buf *b) {
  isa_alloc al = heap();
  isa_buf_init(b, &al);
}

/* ---- Laws --------------------------------------------------------------------------------- */

/* The only files there are. */
static bool read_none(void *ud, const char *path, isa_buf *out) {
  (void)ud;
  if (strcmp(path, "half.s") == 0) {
    isa_buf_puts(out, "%define HALF 64\nhalf equ 64\n");
    return true;
  }
  if (strcmp(path, "five.bin") == 0) {
    isa_buf_add(out, "\1\2\3\4\5", 5);
    return true;
  }
  return false;
}

static void check_diags(const as_result *r, isa_status s) {
  isa_buf b;
  buffer(&b);
  for (uint32_t i = 0; i < r->ndiags; i++) {
    const as_diag *d = &r->diags[i];
    if (!d->text || !d->text[0]) fuzz_fail("a diagnostic without a text");
    if (d->source && d->col > strlen(d->source) + 1)
      fuzz_fail("column %u of a line of %zu: %s", d->col, strlen(d->source), d->text);
    as_diag_print(d, i & 1, &b);
  }
  isa_buf_free(&b);
  if ((s == ISA_OK) != (r->nerrors == 0 && s != ISA_NOMEM))
    fuzz_fail("status %d with %u errors", s, r->nerrors);
}

static isa_status assemble(const void *text, size_t n, bool preprocess, as_result *r) {
  isa_alloc al = heap();
  as_options o = {
      .alloc = &al, .read = read_none, .only_preprocess = preprocess, .want_listing = !preprocess};
  isa_status s = as_assemble(text, n, "t.s", &o, r);
  check_diags(r, s);
  return s;
}

static isa_buf image_of(isa_program *p) {
  isa_buf b;
  buffer(&b);
  if (!isa_image_write(p, &b)) fuzz_fail("a program cannot be written");
  return b;
}

static void same(const char *what, const isa_buf *a, const isa_buf *b, const isa_buf *text) {
  if (a->len == b->len && memcmp(a->data, b->data, a->len) == 0) return;
  if (text) fwrite(text->data, 1, text->len, stderr);
  fuzz_fail("%s: other bytes", what);
}

/* A text that must assemble to the image. */
static void assembles_to(const char *what, isa_buf *text, const isa_buf *image) {
  as_result r;
  isa_status s = assemble(isa_buf_str(text), text->len, false, &r);
  if (s != ISA_OK) {
    fwrite(text->data, 1, text->len, stderr);
    fuzz_fail("%s does not assemble: line %u: %s", what, r.ndiags ? r.diags[0].line : 0,
              r.ndiags ? r.diags[0].text : "");
  }
  isa_buf back = image_of(r.program);
  same(what, image, &back, text);
  isa_buf_free(&back);
  isa_program_free(r.program);
  as_result_free(&r);
}

static void check_printed(const isa_program *p, const isa_buf *image) {
  isa_buf text, again;
  isa_error e;
  buffer(&text);
  buffer(&again);
  isa_print_program(p, ISA_TEXT_NAMED, &text);
  assembles_to("the disassembly", &text, image);
  isa_buf_free(&text);
  buffer(&text);
  isa_print_program(p, ISA_TEXT_RAW, &text);
  assembles_to("the raw disassembly", &text, image);
  isa_alloc al = heap();
  isa_program *q = isa_image_read(&al, image->data, image->len, &e);
  if (!q) fuzz_fail("its own file is refused: %s", e.text);
  isa_buf bytes = image_of(q);
  same("read and written", image, &bytes, NULL);
  isa_print_program(q, ISA_TEXT_RAW, &again);
  same("printed after reading", &text, &again, &again);
  isa_program_free(q);
  isa_buf_free(&bytes);
  isa_buf_free(&text);
  isa_buf_free(&again);
}

static void check_preprocessed(const uint8_t *data, size_t n, const isa_buf *image) {
  as_result r;
  isa_status s = assemble(data, n, true, &r);
  if (s != ISA_OK) fuzz_fail("it assembles, but -E fails");
  assembles_to("-E", &r.preprocessed, image);
  as_result_free(&r);
}

/* ---- Out of memory ------------------------------------------------------------------------ */

static void without_memory(const uint8_t *data, size_t n) {
  uint32_t hash = 1;
  for (size_t i = 0; i < n; i++) hash = hash * 31 + data[i];
  meter m = {0, 1 + hash % 200, FIRST};
  isa_alloc al = {metered, &m};
  as_options o = {.alloc = &al, .read = read_none};
  as_result r;
  isa_status s = as_assemble((const char *)data, n, "t.s", &o, &r);
  if (s == ISA_NOMEM && r.program) fuzz_fail("out of memory, and a program");
  isa_program_free(r.program);
  as_result_free(&r);
  if (m.live) fuzz_fail("%zu bytes are not freed after a failed allocation", m.live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  as_result r;
  isa_place at;
  isa_error e;
  fuzz_stats[INPUTS].n++;
  main_meter.most = FIRST;
  isa_status s = assemble(data, n, false, &r);
  if (s == ISA_OK) {
    fuzz_stats[ASSEMBLED].n++;
    main_meter.most = LATER;
    fuzz_stats[VERIFIED].n += isa_check_program(r.program, &at, &e);
    isa_buf image = image_of(r.program);
    check_printed(r.program, &image);
    check_preprocessed(data, n, &image);
    isa_buf_free(&image);
  }
  isa_program_free(r.program);
  as_result_free(&r);
  if (main_meter.live) fuzz_fail("%zu bytes are not freed", main_meter.live);
  without_memory(data, n);
  return 0;
}
