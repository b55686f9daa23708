/* Different machines in different threads: nothing is shared, so nothing needs a lock. `make tsan`
 * runs this under the thread sanitizer. */
#include "vm_bed.h"

#include <pthread.h>
#include <time.h>

#define HEAD "target trn2\n"

static const char *const add_text = HEAD
    "a tensor float32[4, 8], input\nc tensor float32[4, 8], output\n"
    "ta tile sbuf float32[4, 8]\ntc tile sbuf float32[4, 8]\n"
    "in sem\ndone sem\nout sem\nq queue rings=16, dge=hwdge\n"
    "section sync\n dma_copy ta, a, queue=q $in\n dma_copy c, tc, queue=q $done>=1 $out\n halt\n"
    "section vector\n tensor_tensor tc, ta, ta, op=add $in>=16 $done++\n halt\n";

static const char *const forever = HEAD "section sync\n.l: add r0, r0, 1\n jmp .l\n";

enum { THREADS = 8, MACHINES = 8 }; /* of each thread */

/* Opens all its machines before it runs the first, so that 64 are alive at once. */
static void *run_machines(void *arg) {
  float a[32], c[32];
  uint64_t *hash = arg;
  bed b[MACHINES];
  for (int i = 0; i < 32; i++) a[i] = (float)i;
  for (int k = 0; k < MACHINES; k++) {
    b[k] = bed_open(NULL, add_text);
    bed_bind(&b[k], "a", SOMA_FLOAT32, 4, 8, a);
  }
  for (int k = 0; k < MACHINES; k++) {
    bed_run(&b[k], SOMA_OK);
    assert_int_equal(soma_fetch(b[k].r, "c", c, sizeof c), SOMA_OK);
    hash[k] = bed_stats(&b[k]).trace_hash;
  }
  for (int k = 0; k < MACHINES; k++) bed_close(&b[k]);
  return NULL;
}

static void machines_in_threads(void **state) {
  (void)state;
  pthread_t t[THREADS];
  uint64_t hash[THREADS][MACHINES];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&t[i], NULL, run_machines, hash[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < THREADS * MACHINES; i++)
    assert_int_equal(hash[i / MACHINES][i % MACHINES], hash[0][0]);
}

/* One program run by a machine in each thread; each is interrupted from here. */
struct shared {
  soma_program *p;
  soma_machine *m;
  soma_status status;
};
static void *run_until_interrupted(void *arg) {
  struct shared *s = arg;
  soma_run *r;
  s->status = soma_run_start(s->m, s->p, &r);
  while (s->status == SOMA_OK) /* an interruption before the start does not stop the run */
    s->status = soma_run_until(r, SOMA_EVENT, SOMA_SYNC, 0);
  soma_run_free(r);
  return NULL;
}

static void interrupted_from_another_thread(void **state) {
  (void)state;
  enum { SHARERS = 4 };
  pthread_t t[SHARERS];
  struct shared s[SHARERS];
  soma_options o = SOMA_OPTIONS_INIT;
  o.max_seconds = 20;
  bed b = bed_open(NULL, forever);
  for (int i = 0; i < SHARERS; i++) {
    s[i].p = b.p;
    assert_int_equal(soma_machine_new(&o, &s[i].m), SOMA_OK);
    assert_int_equal(pthread_create(&t[i], NULL, run_until_interrupted, &s[i]), 0);
  }
  nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  for (int i = 0; i < SHARERS; i++) {
    soma_machine_interrupt(s[i].m);
    pthread_join(t[i], NULL);
    assert_int_equal(s[i].status, SOMA_STOPPED);
    soma_machine_free(s[i].m);
  }
  bed_close(&b);
}

/* Assembles, saves, loads and prints in every thread at once; the bytes are the same. */
enum { ROUNDS = 20 };
static void *assemble_and_print(void *arg) {
  uint64_t *sum = arg;
  for (int i = 0; i < ROUNDS; i++) {
    bed b = bed_open(NULL, add_text);
    soma_program *again = NULL;
    void *data;
    char *text;
    size_t n;
    assert_int_equal(soma_program_save(b.m, b.p, &data, &n), SOMA_OK);
    assert_int_equal(soma_program_load(b.m, data, n, &again), SOMA_OK);
    soma_bytes_free(data);
    assert_int_equal(soma_program_print(b.m, again, &text, &n), SOMA_OK);
    for (size_t k = 0; k < n; k++) *sum = *sum * 31 + (uint8_t)text[k];
    soma_bytes_free(text);
    soma_program_free(again);
    bed_close(&b);
  }
  return NULL;
}

static void assembling_in_threads(void **state) {
  (void)state;
  pthread_t t[THREADS];
  uint64_t sum[THREADS] = {0};
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&t[i], NULL, assemble_and_print, &sum[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
  for (int i = 1; i < THREADS; i++) assert_int_equal(sum[i], sum[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(machines_in_threads),
      cmocka_unit_test(interrupted_from_another_thread),
      cmocka_unit_test(assembling_in_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
