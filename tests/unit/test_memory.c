/* What a core costs: its SBUF and PSUM, and less than 4 MiB. */
#include "vm_bed.h"

typedef struct tally {
  size_t now, most;
} tally;

static void *counted(void *ud, void *p, size_t old, size_t n) {
  tally *t = ud;
  void *q = n ? realloc(p, n) : NULL;
  if (n && !q) return NULL;
  if (!n) free(p);
  t->now += n;
  t->now -= p ? old : 0;
  t->most = t->now > t->most ? t->now : t->most;
  return q;
}

/* Every engine at work, with weights, random numbers, a sort and transfers in flight. */
static const char *const text = "t     tile sbuf float32[128, 512]\n"
                                "w     tile sbuf bfloat16[128, 128]\n"
                                "x     tile sbuf bfloat16[128, 512]\n"
                                "v     tile sbuf bfloat16[128, 64]\n"
                                "k     tile sbuf bfloat16[128, 64]\n"
                                "i     tile sbuf uint32[128, 64]\n"
                                "p     tile psum float32[128, 512]\n"
                                "h     tensor float32[128, 512]\n"
                                "q     queue rings=16, dge=hwdge\n"
                                "s     sem\n"
                                "section tensor\n ldweights w\n matmul p, x\n halt\n"
                                "section vector\n rng i\n halt\n"
                                "section scalar\n activate t, t, fn=exp\n halt\n"
                                "section gpsimd\n topk k, i, v, n=1024\n halt\n"
                                "section sync\n mov r0, 0\n.l: dma_copy h, t, queue=q $s\n"
                                " add r0, r0, 1\n blt r0, 40, .l\n halt\n";

static void a_core_is_small(void **state) {
  (void)state;
  static const struct {
    const char *name;
    size_t sbuf; /* bytes of a partition */
  } targets[] = {{"trn2", 224 << 10}, {"trn3", 256 << 10}};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    tally t = {0, 0};
    soma_options o = SOMA_OPTIONS_INIT;
    o.target = targets[i].name;
    o.alloc = counted;
    o.alloc_ud = &t;
    bed b = bed_open(&o, text);
    t.most = t.now; /* what assembling took is gone */
    bed_run(&b, SOMA_OK);
    size_t tensor = 128 * 512 * 4, memories = 128 * (targets[i].sbuf + (16 << 10));
    assert_true(t.most > memories + tensor);
    assert_true(t.most < memories + tensor + (4 << 20));
    bed_close(&b);
    assert_int_equal(t.now, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_core_is_small)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
