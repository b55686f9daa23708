/* Runs that share a stack of HBM, moved by one loop: for programs of the machine's own rooms, such
 * as what simulates several ranks. */
#include "vm_bed.h"
#include "../../vm/api/impl.h"
#include "../../vm/engine/engine.h"

enum { RUNS = 2 };

/* One stack, and runs of b's program (or of programs) on it, each with a memory of its own. */
typedef struct stacked {
  bed b[RUNS];
  vm_hbm hbm;
  vm_stack stack;
  vm_memory mem[RUNS][ISA_MAX_CORES];
  vm_run run[RUNS];
  unsigned n;
} stacked;

static isa_status start_one(stacked *s, unsigned i, isa_error *e) {
  const soma_machine *m = s->b[i].m;
  const isa_program *p = s->b[i].p->p;
  const vm_host h = {.al = m->al, .kern = &m->kern, .stack = &s->stack};
  for (unsigned c = 0; c < p->ncores; c++)
    if (!s->mem[i][c].sbuf) assert_true(vm_memory_new(&m->al, p->target, &s->mem[i][c]));
  isa_status got = vm_run_start(&s->run[i], &h, p, s->mem[i], e);
  if (got == ISA_OK) vm_batch_begin(&s->run[i]);
  return got;
}

static void stack_open(stacked *s, unsigned n, const char *const *texts) {
  isa_error e = {0};
  *s = (stacked){.n = n};
  for (unsigned i = 0; i < n; i++) s->b[i] = bed_open(NULL, texts[i]);
  isa_alloc al = isa_alloc_default();
  vm_hbm_init(&s->hbm, &al, s->b[0].p->p->target, 0);
  s->stack.addresses = &s->hbm;
  for (unsigned i = 0; i < n; i++) assert_int_equal(start_one(s, i, &e), ISA_OK);
}

static void stack_close(stacked *s) {
  for (unsigned i = 0; i < s->n; i++) {
    vm_batch_end(&s->run[i]);
    vm_run_end(&s->run[i]);
    for (unsigned c = 0; c < ISA_MAX_CORES; c++)
      if (s->mem[i][c].sbuf) vm_memory_free(&s->b[i].m->al, &s->mem[i][c]);
    bed_close(&s->b[i]);
  }
  assert_int_equal(s->stack.n, 0);
  assert_int_equal(s->hbm.used, 0);
  vm_hbm_free(&s->hbm);
}

/* What a core does with much of the stack's bandwidth; CORE: the section's core. */
#define LOADS(core)                                                          \
  "section sync" core "\n%rep 8\n dma_copy g, h, queue=q $loaded\n%endrep\n" \
  " nop $loaded>=128\n halt\nsection vector" core                            \
  "\n tensor_tensor t, t, t, op=add $loaded>=128 $added++\n halt\n"
#define HEAD(core, queue)                                                               \
  "target trn2\nh tensor float32[128, 8192]\ng tensor float32[128, 8192]\nt tile sbuf " \
  "float32[128, 8192]\n"                                                                \
  "loaded sem" core "\nadded sem" core "\nq queue rings=16, dge=hwdge, core=" queue "\n"
#define ONE HEAD("", "0") LOADS("")
#define TWO HEAD(" core=*", "*") LOADS(" core=*")

static vm_time time_of(const char *text) {
  bed b = bed_open(NULL, text);
  bed_run(&b, SOMA_OK);
  vm_time t = bed_stats(&b).time;
  bed_close(&b);
  return t;
}

static void finish(stacked *s) {
  for (unsigned i = 0; i < s->n; i++) {
    vm_run_finish(&s->run[i]);
    assert_int_equal(s->run[i].fault.status, ISA_OK);
    assert_true(s->run[i].ended);
  }
}

/* Two programs of one core take as long as one program of two, and longer than each alone. */
static void bandwidth_is_shared(void **state) {
  (void)state;
  stacked s;
  stack_open(&s, 2, (const char *const[]){ONE, ONE});
  assert_int_equal(vm_stack_advance(&s.stack, UINT64_MAX), VM_HALT_IDLE);
  finish(&s);
  vm_time alone = time_of(ONE), pair = time_of(TWO);
  vm_time first = vm_run_now(&s.run[0]), second = vm_run_now(&s.run[1]);
  assert_true(vm_time_later(first, second) == pair);
  assert_true(alone + alone / 2 < pair);
  stack_close(&s);
}

/* In steps as in one go, whether what waits is done at each of them or not. */
static void steps_change_nothing(void **state) {
  (void)state;
  static const vm_time steps[] = {UINT64_MAX, 37000 * (vm_time)VM_NS, 1013 * (vm_time)VM_NS};
  uint64_t hash[3][RUNS];
  for (unsigned k = 0; k < 3; k++) {
    stacked s;
    vm_halt how = VM_HALT_TIME;
    stack_open(&s, 2, (const char *const[]){ONE, ONE "section scalar\n nop $added>=1\n halt\n"});
    for (vm_time t = steps[k]; how == VM_HALT_TIME; t += steps[k]) {
      how = vm_stack_advance(&s.stack, t);
      if (k == 1) vm_batch_settle(s.run[0].cores[0], NULL);
    }
    assert_int_equal(how, VM_HALT_IDLE);
    finish(&s);
    for (unsigned i = 0; i < RUNS; i++) hash[k][i] = s.run[i].trace_hash;
    stack_close(&s);
  }
  assert_memory_equal(hash[0], hash[1], sizeof hash[0]);
  assert_memory_equal(hash[0], hash[2], sizeof hash[0]);
}

/* A run without events is not at its end while somebody outside may send it one. */
static void an_update_comes_from_outside(void **state) {
  (void)state;
  static const char text[] = "target trn2\ngo sem\nsection sync\n nop $go>=1\n halt\n";
  stacked s;
  stack_open(&s, 1, (const char *const[]){text});
  vm_run *r = &s.run[0];
  assert_int_equal(vm_stack_advance(&s.stack, UINT64_MAX), VM_HALT_IDLE);
  assert_false(r->ended);
  const isa_update u = {.kind = ISA_UPD_inc};
  vm_post_sem(r->cores[0], 5000 * (vm_time)VM_NS, &u, vm_at_pc(r->cores[0], UINT8_MAX, 0));
  assert_int_equal(vm_stack_advance(&s.stack, 4999 * (vm_time)VM_NS), VM_HALT_TIME);
  assert_int_equal(vm_stack_advance(&s.stack, UINT64_MAX), VM_HALT_IDLE);
  vm_run_finish(r);
  assert_int_equal(r->fault.status, ISA_OK);
  assert_int_equal(vm_run_now(r) / VM_NS, 5000);
  stack_close(&s);
  stack_open(&s, 1, (const char *const[]){text}); /* nobody does */
  assert_int_equal(vm_stack_advance(&s.stack, UINT64_MAX), VM_HALT_IDLE);
  vm_run_finish(&s.run[0]);
  assert_int_equal(s.run[0].fault.status, ISA_DEADLOCK);
  stack_close(&s);
}

/* One that has ended takes no bandwidth from the other, which goes on. */
static void a_fault_ends_one_run(void **state) {
  (void)state;
  static const char bad[] = HEAD("", "0") "section sync\n%rep 8\n dma_copy g, h, queue=q $loaded\n"
                                          "%endrep\n nop $loaded>=16\n mov r1, 0\n"
                                          " div r1, r1, r1\n halt\n";
  stacked s;
  stack_open(&s, 2, (const char *const[]){ONE, bad});
  assert_int_equal(vm_stack_advance(&s.stack, UINT64_MAX), VM_HALT_RUN);
  assert_int_equal(s.run[1].fault.status, ISA_FAULT);
  vm_run_release(&s.run[1]);
  assert_int_equal(s.stack.n, 1);
  assert_int_equal(vm_stack_advance(&s.stack, UINT64_MAX), VM_HALT_IDLE);
  vm_run_finish(&s.run[0]);
  assert_int_equal(s.run[0].fault.status, ISA_OK);
  vm_time t = vm_run_now(&s.run[0]);
  assert_true(time_of(ONE) < t && t + t / 4 < time_of(TWO));
  stack_close(&s);
}

/* A stop of one run moves both as far; its end is its own. */
static void until_the_end_of_one(void **state) {
  (void)state;
  static const char brief[] = "target trn2\nsection sync\n nop\n halt\n";
  stacked s;
  stack_open(&s, 2, (const char *const[]){ONE, brief});
  assert_int_equal(vm_run_until(s.run[1].cores[0], VM_UNTIL_END, 0, 0), ISA_OK);
  assert_true(s.run[1].ended && !s.run[0].ended);
  vm_time t = 20000 * (vm_time)VM_NS;
  assert_int_equal(vm_run_until(s.run[0].cores[0], VM_UNTIL_TIME, 0, t), ISA_OK);
  assert_true(!s.run[0].ended && vm_run_now(&s.run[0]) <= t);
  assert_int_equal(vm_run_until(s.run[0].cores[0], VM_UNTIL_END, 0, 0), ISA_OK);
  assert_true(s.run[0].ended && vm_run_now(&s.run[0]) == time_of(ONE));
  stack_close(&s);
}

/* No more cores than a stack has. */
static void a_stack_is_full(void **state) {
  (void)state;
  isa_error e = {0};
  stacked s;
  stack_open(&s, 1, (const char *const[]){TWO});
  s.b[1] = bed_open(NULL, ONE);
  assert_int_equal(start_one(&s, 1, &e), ISA_ARG);
  assert_string_equal(e.text, "the stack of HBM serves other cores already");
  for (unsigned c = 0; c < ISA_MAX_CORES; c++)
    if (s.mem[1][c].sbuf) vm_memory_free(&s.b[1].m->al, &s.mem[1][c]);
  bed_close(&s.b[1]);
  stack_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bandwidth_is_shared),          cmocka_unit_test(steps_change_nothing),
      cmocka_unit_test(an_update_comes_from_outside), cmocka_unit_test(a_fault_ends_one_run),
      cmocka_unit_test(until_the_end_of_one),         cmocka_unit_test(a_stack_is_full),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
