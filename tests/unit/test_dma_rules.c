/* What the verifier refuses of DMA instructions, and with which words. */
#include "dma_bed.h"

/* Tensors, tiles and queues that the lines below name: q* is a queue by its DGE. */
#define NAMES                                                                                     \
  "a tensor float32[128, 64]\nc tensor float32[128, 64], output\nh tensor bfloat16[128, 64]\n"    \
  "x tensor float8_e4m3fn_x4[128, 16]\nw tensor int64[128, 32]\ne tensor bfloat16[5, 8, 4, 16]\n" \
  "t tile sbuf float32[128, 64]\nu tile sbuf bfloat16[64, 128]\nv tile sbuf bfloat16[128, 64]\n"  \
  "p tile psum float32[128, 64]\nix tile sbuf uint32[128, 1]\niy tile sbuf int32[128, 2]\n"       \
  "iz tile sbuf uint16[128, 1]\nik tile sbuf uint32[16, 2]\nf tile sbuf bfloat16[16, 8, 4, 5]\n"  \
  "qn queue dge=none\nqs queue dge=swdge\n"

typedef struct rule_case {
  const char *target, *section, *line, *part;
} rule_case;

static const rule_case cases[] = {
#define CASE(target, section, line, part) {target, section, line, part},
#include "dma_rule_cases.def"
#undef CASE
};

/* A case whose part is NULL assembles. */
static void each_rule(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const rule_case *k = &cases[i];
    char text[2000];
    snprintf(text, sizeof text, "target %s\n" NAMES "%ssection %s\n %s\n halt\n", k->target,
             strcmp(k->target, "trn1") ? "qh queue dge=hwdge, owner=sync\n" : "", k->section,
             k->line);
    if (k->part) {
      refused(text, k->part);
    } else {
      bed b = bed_open(NULL, text);
      bed_close(&b);
    }
  }
}

/* Static transfers print as source that assembles to the same bytes. */
static void static_transfers_print(void **state) {
  (void)state;
  char *text;
  size_t n;
  void *data[2];
  size_t size[2];
  bed b = bed_open(
      NULL, "target trn2\n" NAMES "section vector\n dma_transpose u, v, queue=qn\n"
            " dma_compute c, srcs=[a, t], op=max, queue=qn\n dma_copy t, c, queue=qn\n halt\n");
  assert_int_equal(soma_program_save(b.m, b.p, &data[0], &size[0]), SOMA_OK);
  assert_int_equal(soma_program_print(b.m, b.p, &text, &n), SOMA_OK);
  assert_non_null(strstr(text, "dma qn, dma_transpose bfloat16@sbuf["));
  bed again = bed_open(NULL, text);
  assert_int_equal(soma_program_save(again.m, again.p, &data[1], &size[1]), SOMA_OK);
  char *second;
  assert_int_equal(soma_program_print(again.m, again.p, &second, &n), SOMA_OK);
  assert_string_equal(text, second);
  soma_bytes_free(text);
  soma_bytes_free(second);
  soma_bytes_free(data[0]);
  soma_bytes_free(data[1]);
  bed_close(&again);
  bed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_rule),
      cmocka_unit_test(static_transfers_print),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
