/* Random programs: one run of the race check against the judges of all schedules, and the judges
 * against one another. JUDGE_COUNT programs of each sort (300), from number JUDGE_FIRST on; `make
 * judge COUNT=100000`. */
#include "vm_bed.h"
#include "judge_bed.h"
#include "../../vm/api/impl.h"
#include "../../vm/check/impl.h"

#include <stdlib.h>

enum { MOST_STATES = 1000000, SHOWN = 20 };

typedef struct tally {
  uint64_t tried, faulty, right, twins, missed, accused, unknown, unlike;
} tally;

static uint64_t number_of(const char *name, uint64_t otherwise) {
  const char *s = getenv(name);
  return s ? strtoull(s, NULL, 10) : otherwise;
}

static int shown;
static void show(const char *what, uint64_t seed, const char *text, const char *verdict,
                 const soma_run *r) {
  soma_finding f = {.text = "the check finds nothing"};
  soma_run_finding(r, 0, &f);
  if (shown++ < SHOWN)
    fprintf(stderr, "program %llu: %s\n%sjudge: %s\ncheck: %s\n\n", (unsigned long long)seed, what,
            text, verdict, f.text);
}

/* Whether the other judge says the same. */
static bool judges_agree(soma_run *r, vm_legal_verdict count) {
  vm_legal_result res;
  vm_legal_states(r->run.cores[0]->check->legal, MOST_STATES, &res);
  bool same = res.verdict == count || res.verdict == VM_LEGAL_UNKNOWN;
  vm_legal_result_free(&res);
  return same;
}

static void judge_one(soma_machine *m, uint64_t seed, int mixed, int cores, int twins, tally *t) {
  char text[JUDGE_TEXT];
  soma_program *p = NULL;
  soma_run *r = NULL;
  judge_program(seed, mixed, cores, twins, text);
  if (soma_assemble(m, text, strlen(text), "p.s", NULL, &p, NULL) != SOMA_OK)
    fail_msg("program %llu: %s\n%s", (unsigned long long)seed, soma_error(m), text);
  assert_int_equal(soma_run_start(m, p, &r), SOMA_OK);
  soma_status s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
  soma_schedules all;
  if (s == SOMA_OK || s == SOMA_CHECK) {
    bool found = soma_run_findings(r) > 0;
    assert_int_equal(soma_run_schedules(r, &all, sizeof all), SOMA_OK);
    t->tried++;
    if (all.verdict == SOMA_TIMING_UNKNOWN) {
      t->unknown++;
    } else if (all.verdict == SOMA_TIMING_DEPENDS) {
      t->faulty++;
      if (!found) t->missed++, show("a fault is missed", seed, text, all.text, r);
    } else {
      t->right++;
      t->twins += strstr(all.text, "twins aside") != NULL;
      if (found) t->accused++, show("it is accused", seed, text, all.text, r);
    }
    vm_legal *l = r->run.cores[0]->check->legal;
    if (vm_legal_counts(l) &&
        !judges_agree(r, all.verdict == SOMA_TIMING_DEPENDS ? VM_LEGAL_RACE : VM_LEGAL_SAME))
      t->unlike++, show("the judges differ", seed, text, all.text, r);
  }
  soma_run_free(r);
  soma_program_free(p);
}

static tally judge_many(int mixed, int cores, int twins) {
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m = NULL;
  tally t = {0};
  uint64_t count = number_of("JUDGE_COUNT", 300), seed = number_of("JUDGE_FIRST", 1);
  o.checks = 1u << SOMA_CHECK_RACE;
  o.schedule = SOMA_SCHEDULE_ALL;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_OK);
  for (; t.tried < count; seed++) judge_one(m, seed, mixed, cores, twins, &t);
  soma_machine_free(m);
  fprintf(
      stderr,
      "# %s, cores %d%s: %llu programs, %llu faulty, %llu right, %llu of them only by twins; %llu "
      "missed, %llu accused, %llu not decided; the judges differ on %llu\n",
      mixed ? "all waits and updates" : "semaphores that count", cores, twins ? ", twins" : "",
      (unsigned long long)t.tried, (unsigned long long)t.faulty, (unsigned long long)t.right,
      (unsigned long long)t.twins, (unsigned long long)t.missed, (unsigned long long)t.accused,
      (unsigned long long)t.unknown, (unsigned long long)t.unlike);
  /* A few programs may all be of one sort. */
  if (count >= 100) assert_true(t.faulty >= t.tried / 10 && t.right >= t.tried / 20);
  assert_int_equal(t.unlike, 0);
  return t;
}

static void counting(void **state) {
  (void)state;
  tally t = judge_many(0, 1, 0);
  assert_int_equal(t.missed, 0);
  assert_int_equal(t.accused, 0);
  assert_int_equal(t.unknown, 0);
}

static void all_kinds(void **state) {
  (void)state;
  tally t = judge_many(1, 1, 0);
  assert_int_equal(t.unknown, 0);
  assert_int_equal(t.missed, 0);
  assert_true(t.accused * 1000 <= t.right);
}

/* core_barrier takes what it has waited for. */
static void two_cores(void **state) {
  (void)state;
  tally t = judge_many(0, 2, 0);
  assert_int_equal(t.missed, 0);
  assert_int_equal(t.accused, 0);
  assert_int_equal(t.unknown, 0);
}

static void two_cores_all_kinds(void **state) {
  (void)state;
  tally t = judge_many(1, 2, 0);
  assert_int_equal(t.unknown, 0);
  assert_int_equal(t.missed, 0);
  assert_true(t.accused * 1000 <= t.right);
}

/* Writes of one line by both cores, of the same bytes and of others. */
static void twins(void **state) {
  (void)state;
  tally t = judge_many(0, 2, 1);
  assert_int_equal(t.missed, 0);
  assert_int_equal(t.accused, 0);
  assert_int_equal(t.unknown, 0);
  assert_true(t.tried < 100 || t.twins * 20 >= t.right);
}

static void twins_all_kinds(void **state) {
  (void)state;
  tally t = judge_many(1, 2, 1);
  assert_int_equal(t.missed, 0);
  assert_true(t.accused * 1000 <= t.right);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counting),  cmocka_unit_test(all_kinds),
      cmocka_unit_test(two_cores), cmocka_unit_test(two_cores_all_kinds),
      cmocka_unit_test(twins),     cmocka_unit_test(twins_all_kinds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
