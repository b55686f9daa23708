/* The planner: collectives of ranks that do not belong together are refused by name. */
#include "vm_bed.h"
#include "../../vm/api/impl.h"
#include "../../vm/world/plan.h"

#define HEAD                                                                                       \
  "target trn2\n"                                                                                  \
  "tp group [[0, 1, 2, 3]]\n"                                                                      \
  "two group [[0, 2], [3, 1]]\n"                                                                   \
  "done sem\n"                                                                                     \
  "x tensor float32[6, 50]\ny tensor float32[6, 50]\nz tensor float32[24, 50]\n"                   \
  "big tensor float32[128, 4096]\nwide tensor bfloat16[64, 300]\nwider tensor bfloat16[64, 300]\n" \
  "a tile sbuf float32[96, 20]\nb tile sbuf float32[96, 20]\nc tile sbuf float32[96, 80]\n"        \
  "d tile sbuf float32[24, 20]\ne tile sbuf float32[96, 20]\n"                                     \
  "section gpsimd\n"

enum { RANKS = 4 };

/* Programs of two ranks that do not agree: what is said. */
static void refused(const char *one, const char *other, const char *text) {
  char source[2][4096];
  snprintf(source[0], sizeof source[0], HEAD "%s\nhalt\n", one);
  snprintf(source[1], sizeof source[1], HEAD "%s\nhalt\n", other);
  bed a = bed_open(NULL, source[0]), b = bed_on(a.m, source[1]);
  const isa_program *programs[RANKS] = {a.p->p, b.p->p, a.p->p, a.p->p};
  vm_plan_options o = {.programs = programs, .ranks = RANKS, .algorithm = -1};
  isa_error e = {.field = ISA_NOFIELD};
  vm_plan *plan = vm_plan_new(&a.m->al, &o, &e);
  assert_null(plan);
  if (!strstr(e.text, text)) fail_msg("`%s` is not in `%s`", text, e.text);
  soma_program_free(b.p);
  bed_close(&a);
}

static void test_disagreement(void **state) {
  (void)state;
  const char *sum = "all_reduce dsts=[y], srcs=[x], group=tp, op=add";
  refused(sum, "all_gather dsts=[z], srcs=[x], group=tp",
          "rank 0: all_reduce add float32[300] (test.s:17): it is number 1 of its ranks and "
          "stream, but rank 1 has all_gather float32[300] (test.s:17)");
  refused(sum, "all_reduce dsts=[y], srcs=[x], group=tp, op=max", "but rank 1 has all_reduce max");
  refused(sum, "all_reduce dsts=[z], srcs=[z], group=tp, op=add",
          "but rank 1 has all_reduce add float32[1200]");
  refused(sum, "nop", "and rank 1 has no such collective");
  refused("collective_permute dsts=[y], srcs=[x], pairs=[[0,7]]", "nop",
          "rank 7 in its pairs, the world has 0..3");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_disagreement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
