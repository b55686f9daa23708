/* The planner: the programs of CC sequencers that it makes are legal, agree with one another, and
 * what does not belong together is refused by name. */
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

static const char *const lines[] = {
    "all_reduce dsts=[y], srcs=[x], group=tp, op=add",
    "all_reduce dsts=[x], srcs=[x], group=two, op=max",
    "all_reduce dsts=[big], srcs=[big], group=tp, op=add",
    "all_reduce dsts=[y, z], srcs=[x, z], group=tp, op=add",
    "all_reduce dsts=[wide[:, 10:110]], srcs=[wider[:, 10:110]], group=tp, op=min",
    "all_reduce dsts=[b], srcs=[a], group=tp, op=add",
    "all_gather dsts=[z], srcs=[x], group=tp",
    "all_gather dsts=[c], srcs=[a], group=tp, dim=1",
    "all_gather dsts=[b], srcs=[d], group=tp",
    "reduce_scatter dsts=[x], srcs=[z], group=tp, op=add",
    "reduce_scatter dsts=[d], srcs=[a], group=tp, op=add",
    "all_to_all dsts=[z[0:12]], srcs=[z[12:24]], group=tp",
    "collective_permute dsts=[y], srcs=[x], pairs=[[0,1],[1,3],[2,2]]",
    "collective_permute_implicit dsts=[y], srcs=[x], group=two",
    "collective_permute_implicit dsts=[y, z[0:6], z[6:12]], srcs=[x, z[12:18], z[18:24]], "
    "group=tp, channels=[0,1,2]",
    "collective_permute_implicit_reduce dsts=[y], srcs0=[x], srcs1=[x], group=tp, op=add",
};

/* Each instruction, static transfer and pattern is legal. */
static void check_all(const isa_program *p, const char *line) {
  isa_error e = {.field = ISA_NOFIELD};
  for (unsigned c = 0; c < p->ncores; c++) {
    const isa_core *core = &p->cores[c];
    for (uint32_t i = 1; i <= core->naps; i++)
      if (!isa_check_ap(p, c, i, &e)) fail_msg("%s: pattern %u: %s", line, i, e.text);
    for (unsigned g = 0; g < ISA_NSEQS; g++)
      for (uint32_t pc = 0; pc < core->code[g].n; pc++)
        if (!isa_check_insn(p, c, g, &core->code[g].insns[pc], core->code[g].n, &e))
          fail_msg("%s: %s pc %u: %s", line, isa_engines[g].name, pc, e.text);
    for (uint32_t q = 0; q < core->nqueues; q++)
      for (uint32_t i = 0; i < core->queues[q].nstatics; i++)
        if (!isa_check_insn(p, c, isa_queue_owner(&core->queues[q]), &core->queues[q].statics[i], 0,
                            &e))
          fail_msg("%s: queue %s: %s", line, core->queues[q].name, e.text);
  }
}

static uint32_t count(const isa_program *p, unsigned op) {
  uint32_t n = 0;
  for (unsigned k = ISA_NENGINES; k < ISA_NSEQS; k++)
    for (uint32_t pc = 0; pc < p->cores[0].code[k].n; pc++)
      n += p->cores[0].code[k].insns[pc].op == op;
  return n;
}

static void test_each(void **state) {
  (void)state;
  char text[4096];
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    for (int a = -1; a < VM_CC_NALGORITHMS; a++) {
      snprintf(text, sizeof text, HEAD "%s $done++\nhalt\n", lines[i]);
      bed b = bed_open(NULL, text);
      const isa_program *programs[RANKS] = {b.p->p, b.p->p, b.p->p, b.p->p};
      vm_plan_options o = {.programs = programs,
                           .ranks = RANKS,
                           .algorithm = a,
                           .rings = 6,
                           .link_rings = 2,
                           .of_device = 2};
      isa_error e = {.field = ISA_NOFIELD};
      vm_plan *plan = vm_plan_new(&b.m->al, &o, &e);
      if (!plan) fail_msg("%s: %s", lines[i], e.text);
      for (uint32_t r = 0; r < RANKS; r++) {
        isa_program *p = vm_plan_program(plan, r, &e);
        if (!p) fail_msg("%s: rank %u: %s", lines[i], r, e.text);
        check_all(p, lines[i]);
        assert_true(count(p, ISA_OP_wait_start) >= 1);
        assert_int_equal(count(p, ISA_OP_wait_start), count(p, ISA_OP_complete));
        isa_program_free(p);
      }
      vm_plan_free(plan);
      bed_close(&b);
    }
}

/* Programs of two ranks that do not agree: what is said. */
static void refused(const char *one, const char *other, const char *text) {
  char source[2][4096];
  snprintf(source[0], sizeof source[0], HEAD "%s\nhalt\n", one);
  snprintf(source[1], sizeof source[1], HEAD "%s\nhalt\n", other);
  bed a = bed_open(NULL, source[0]), b = bed_on(a.m, source[1]);
  const isa_program *programs[RANKS] = {a.p->p, b.p->p, a.p->p, a.p->p};
  vm_plan_options o = {.programs = programs,
                       .ranks = RANKS,
                       .algorithm = -1,
                       .rings = 6,
                       .link_rings = 2,
                       .of_device = 2};
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
      cmocka_unit_test(test_each),
      cmocka_unit_test(test_disagreement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
