/* What the verifier refuses of DMA instructions, and with which words. */
#include "dma_bed.h"

/* Tensors, tiles and queues that the lines below name: q* is a queue by its DGE. */
#define NAMES                                                                                   \
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
    /* memories, owners, generations */
    {"trn2", "sync", "dma_copy p, a, queue=qh", "DMA does not reach psum: copy to or from sbuf with an engine first"},
    {"trn2", "sync", "dma_copy a, p, queue=qn", "DMA does not reach psum"},
    {"trn2", "vector", "dma_copy t, a, queue=qh", "queue qh belongs to the sync engine, not to vector"},
    {"trn2", "sync", "dma_copy t, a, queue=qs", "queue qs belongs to the gpsimd engine, not to sync"},
    {"trn1", "sync", "dma_transpose u, v, queue=qn", "dma_transpose needs gen3: trn1 is gen2"},
    {"trn1", "gpsimd", "dma_copy t, a.gather(ix), queue=qs", ".gather needs a queue with dge=swdge and gen3"},
    {"trn2", "sync", "dma_copy t, a.gather(ix), queue=qh", ".gather needs a queue with dge=swdge and gen3"},
    {"trn2", "sync", "dma_copy t, a, queue=qn, prio=2", "prio=2 needs gen4: trn2 is gen3"},
    {"trn2", "sync", "dma_transpose u, v, queue=qn, prio=2", "prio=2 needs gen4"},
    {"trn2", "sync", "dma_compute c, srcs=[a, t], op=add, queue=qn, prio=1", "prio=1 needs gen4"},
    /* types and sizes */
    {"trn2", "sync", "dma_copy t, h, queue=qh", "bfloat16 to float32: a queue with dge=hwdge does not convert"},
    {"trn2", "sync", "dma_copy t[:, 0:16], x, queue=qn", "float8_e4m3fn_x4 to float32: packed and 64-bit types are copied, not converted"},
    {"trn2", "sync", "dma_copy t[:, 0:32], w, queue=qn", "int64 to float32: packed and 64-bit"},
    {"trn2", "sync", "dma_copy t, a[0:64, :], queue=qn", "4096 elements: dst has 8192"},
    /* dynamic parts */
    {"trn2", "sync", "dma_copy t[0:2, :], a[r0:+2, :], queue=qn", "transfers of a queue with dge=none are made at load"},
    {"trn2", "sync", "dma_copy t, a, queue=qn, oob=skip", "oob=skip needs a dynamic transfer: the queue has dge=none"},
    {"trn2", "sync", "dma_copy t, a, queue=qh, oob=skip", "oob=skip without an index vector or a dynamic address"},
    /* index vectors */
    {"trn2", "gpsimd", "dma_copy t[0:2, :], a[r0:+2, :].gather(ix[0:2, :]), queue=qs", ".gather and a dynamic offset in one pattern"},
    {"trn2", "gpsimd", "dma_copy c.gather(ix), a.gather(ix), queue=qs", ".gather on both sides"},
    {"trn2", "gpsimd", "dma_copy c, c.gather(ix), queue=qs", ".gather of tensor c, which is the other operand as well"},
    {"trn2", "gpsimd", "dma_copy t, a.gather(iz), queue=qs", "the index vector of .gather is uint16: it must be uint32 or int32"},
    {"trn2", "gpsimd", "dma_copy t, a.gather(iy), queue=qs", "the index vector of .gather is 128 x 2: dimension 0 has 128 rows, so it must be 128 x 1"},
    {"trn2", "gpsimd", "dma_copy t, a.gather(ix[0:64, :]), queue=qs", "is 64 x 1: dimension 0 has 128 rows"},
    {"trn2", "gpsimd", "dma_copy t, a.gather(ix, 2), queue=qs", ".gather of dimension 2: the pattern has 2"},
    {"trn2", "gpsimd", "dma_copy a, t.gather(ix), queue=qs", ".gather of sbuf: the indexed tensor is in hbm"},
    {"trn2", "gpsimd", "dma_copy t, a.ap([[64,128],[1,64]], offset=1).gather(ix), queue=qs", NULL},
    {"trn2", "gpsimd", "dma_copy t, a.ap([[64,128],[1,64]], offset=8129).gather(ix), queue=qs", "tensor a has 0..32767"},
    /* accumulation */
    {"trn2", "sync", "dma_copy t, a, queue=qn, op=add", "op=add with dge=none: only on gen4, into sbuf"},
    {"trn2", "sync", "dma_copy t, a, queue=qh, op=add", "op=add with dge=hwdge: only on gen4, into sbuf"},
    {"trn3", "sync", "dma_copy t, a, queue=qh, op=add", NULL},
    {"trn3", "sync", "dma_copy c, t, queue=qh, op=add", "op=add with dge=hwdge"},
    {"trn2", "gpsimd", "dma_copy t, a, queue=qs, op=max", "op=max: dma_copy accumulates with add only"},
    {"trn2", "gpsimd", "dma_copy w, w, queue=qs, op=add", "op=add of int64: packed and 64-bit types are copied, not added"},
    /* dma_transpose */
    {"trn2", "sync", "dma_transpose u, v[0:64, :], queue=qn", "dimension 1 has 128: dimension 0 of src comes there, which has 64"},
    {"trn2", "sync", "dma_transpose f, v, queue=qn", "4 dimensions: src has 2"},
    {"trn2", "sync", "dma_transpose f, e, queue=qn", NULL},
    {"trn2", "sync", "dma_transpose a, t, queue=qn", "dma_transpose does not take an hbm operand here"},
    {"trn2", "sync", "dma_transpose u, a, queue=qn", "float32 to bfloat16: a transpose converts nothing"},
    {"trn2", "sync", "dma_transpose t[0:64, :], t[64:128, :], queue=qn", NULL},
    {"trn2", "sync", "dma_transpose t[0:64, :], t[0:64, :], queue=qn", "overlaps src: a transpose is never in place"},
    {"trn2", "sync", "dma_transpose t[0:16, 0:16], a[0:16, 0:16], queue=qh", "float32 has 4 bytes: a transpose with dge=hwdge takes 2"},
    {"trn2", "sync", "dma_transpose u[0:64, 0:32], h[0:32, :], queue=qh", "dimension 0 has 32: with dge=hwdge it must have 16"},
    {"trn2", "sync", "dma_transpose f, e, queue=qh", "dimension 0 has 5: with dge=hwdge it must have 1, 2, 4, 8 or 16"},
    {"trn2", "sync", "dma_transpose f[:, :, :, 0:2], e[0:2, :, :, :], queue=qh", "dimension 0 has 2, the last but one 4: with dge=hwdge their product must be a multiple of 16"},
    {"trn2", "sync", "dma_transpose f[:, :, :, 0:4], e[0:4, :, :, :], queue=qh", NULL},
    {"trn2", "sync", "dma_transpose v[0:1, 0:16], h.ap([[1,16],[1,1]]), queue=qh", NULL},
    {"trn2", "gpsimd", "dma_transpose u, h, queue=qs", "a transpose without .gather: a queue with dge=swdge makes only gather-transposes"},
    {"trn2", "gpsimd", "dma_transpose u, h.gather(ix), queue=qs", NULL},
    {"trn2", "gpsimd", "dma_transpose u, h.gather(iy), queue=qs", "the index vector of a transpose is int32: it must be uint32"},
    {"trn2", "gpsimd", "dma_transpose u[:, 0:32], h.ap([[64,32],[1,64]]).gather(ik), queue=qs", "is 16 x 2: its partitions must be a multiple of 16, with more than one column 128"},
    {"trn2", "gpsimd", "dma_transpose u[:, 0:64], h.ap([[64,64],[1,64]]).gather(ix[0:32, :]), queue=qs", "dimension 0 has 64: it must be a multiple of 16 and at most the 32 indices"},
    {"trn2", "gpsimd", "dma_transpose u[:, 0:24], h.ap([[64,24],[1,64]]).gather(ix), queue=qs", "dimension 0 has 24: it must be a multiple of 16"},
    {"trn2", "gpsimd", "dma_transpose u, h.gather(ix, 1), queue=qs", ".gather of dimension 1: a transpose takes dimension 0"},
    {"trn2", "sync", "dma_transpose v[0:1, 0:16], h.ap([[1,16],[1,1]]), queue=qh, oob=skip", "oob=skip without"},
    {"trn2", "sync", "dma_transpose u[0:64, 0:16], h[r0:+16, :], queue=qh, oob=skip", NULL},
    /* dma_compute */
    {"trn2", "sync", "dma_compute c, srcs=[a, t], op=add, queue=qh", "the queue has dge=hwdge: without .gather dma_compute needs dge=none"},
    {"trn2", "sync", "dma_compute c, srcs=[a, t], op=mult, queue=qn", "op=mult: dma_compute has add, min and max"},
    {"trn2", "sync", "dma_compute c, srcs=[a, t], op=add, queue=qn, scales=[1.0, 2.0]", "scale 1 is 2: every scale must be 1.0"},
    {"trn2", "sync", "dma_compute c, srcs=[a, t], op=add, queue=qn, scales=[1.0]", "1 scales: there are 2 sources"},
    {"trn2", "sync", "dma_compute c, srcs=[a, t[:, 0:32]], op=add, queue=qn", "4096 elements: dst has 8192"},
    {"trn2", "sync", "dma_compute c, srcs=[a, x], op=add, queue=qn", "dma_compute does not take the packed type"},
    {"trn2", "sync", "dma_compute a[0:64, :], srcs=[a[32:96, :], t[0:64, :]], op=add, queue=qn", "overlaps source 0"},
    {"trn2", "sync", "dma_compute a, srcs=[c, a], op=add, queue=qn, oob=skip", "oob=skip needs a dynamic transfer"},
    {"trn2", "gpsimd", "dma_compute a.gather(ix), srcs=[a.gather(ix), t, t], op=add, queue=qs", "3 sources: with .gather there are exactly 2"},
    {"trn2", "gpsimd", "dma_compute a.gather(ix), srcs=[a.gather(ix), t], op=max, queue=qs", "op=max: with .gather it is add"},
    {"trn2", "gpsimd", "dma_compute a.gather(ix), srcs=[c, t], op=add, queue=qs", "no source is dst: with .gather one is"},
    {"trn2", "gpsimd", "dma_compute a.gather(ix), srcs=[a.gather(ix), c], op=add, queue=qs", "one side of the sum is indexed, and the other is in sbuf"},
    {"trn2", "gpsimd", "dma_compute t, srcs=[t, a.gather(ix)], op=add, queue=qs, oob=skip", NULL},
    {"trn2", "gpsimd", "dma_compute t, srcs=[t, a.gather(iy)], op=add, queue=qs", "is 128 x 2"},
};

/* A case whose part is NULL assembles. */
static void each_rule(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const rule_case *k = &cases[i];
    char text[2000];
    snprintf(text, sizeof text, "target %s\n" NAMES "%ssection %s\n %s\n halt\n", k->target,
             strcmp(k->target, "trn1") ? "qh queue dge=hwdge, owner=sync\n" : "", k->section, k->line);
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
  bed b = bed_open(NULL, "target trn2\n" NAMES "section vector\n dma_transpose u, v, queue=qn\n"
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
