/* Different machines in different threads, and runs that go over several threads of the host. `make
 * tsan` runs this under the thread sanitizer. */
#include "vm_bed.h"
#include "../../vm/work/work.h"
#include "full.h"

#include <dirent.h>
#include <dlfcn.h>
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

/* ---- One run over several threads --------------------------------------------------------- */

typedef struct seen { /* what a run with some number of threads shows */
  uint64_t hash, outputs;
  void *saved; /* in the middle */
  size_t n;
} seen;

static uint64_t mix(uint64_t h, const void *data, size_t n) {
  const uint8_t *p = data;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211u;
  return h;
}

static bed open_sample(const char *file, unsigned threads, unsigned checks) {
  bed b = {0};
  soma_options o = SOMA_OPTIONS_INIT;
  soma_diagnostics *d = NULL;
  o.threads = threads;
  o.checks = checks;
  assert_int_equal(soma_machine_new(&o, &b.m), SOMA_OK);
  if (soma_assemble_file(b.m, file, NULL, &b.p, &d) != SOMA_OK)
    fail_msg("%s%s", soma_error(b.m), soma_diagnostics_text(d));
  soma_diagnostics_free(d);
  return b;
}

/* Starts a run with numbers from -2 to 2 in every input. */
static void start_sample(bed *b) {
  soma_tensor_info t;
  void *held[8];
  uint32_t n = 0, seed = 1;
  for (uint32_t i = 0; soma_program_tensor(b->p, i, &t) == SOMA_OK; i++) {
    if (t.role != SOMA_INPUT) continue;
    size_t each = soma_dtype_size(t.dtype);
    assert_true(n < 8);
    uint8_t *data = held[n++] = malloc(t.bytes);
    for (uint64_t k = 0; k < t.bytes; k += each) {
      seed = seed * 1664525 + 1013904223;
      float v = (float)(seed >> 20) / 1024 - 2;
      memcpy(data + k, (uint8_t *)&v + (each == 2 ? 2 : 0), each);
    }
    if (soma_bind(b->m, b->p, t.name, t.dtype, t.ndim, t.shape, data) != SOMA_OK)
      fail_msg("%s", soma_error(b->m));
  }
  bed_start(b);
  while (n) free(held[--n]);
}

static void end_sample(bed *b, seen *s) {
  soma_tensor_info t;
  soma_status status = soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0);
  if (status != SOMA_OK && status != SOMA_CHECK) fail_msg("%s", soma_error(b->m));
  s->hash = bed_stats(b).trace_hash;
  s->outputs = 14695981039346656037u;
  for (uint32_t i = 0; soma_program_tensor(b->p, i, &t) == SOMA_OK; i++) {
    if (t.role != SOMA_OUTPUT) continue;
    void *data = malloc(t.bytes);
    assert_int_equal(soma_fetch(b->r, t.name, data, t.bytes), SOMA_OK);
    s->outputs = mix(s->outputs, data, t.bytes);
    free(data);
  }
}

static seen run_sample(const char *file, unsigned threads, unsigned checks, soma_time middle) {
  seen s = {0};
  bed b = open_sample(file, threads, checks);
  start_sample(&b);
  assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, middle), SOMA_OK);
  if (soma_run_save(b.r, &s.saved, &s.n) != SOMA_OK) fail_msg("%s", soma_error(b.m));
  end_sample(&b, &s);
  bed_close(&b);
  return s;
}

/* What one machine saved, another with that many threads continues. */
static void resume_sample(const char *file, const seen *from, unsigned threads, unsigned checks) {
  seen s = {0};
  bed b = open_sample(file, threads, checks);
  soma_program_free(b.p);
  if (soma_run_resume(b.m, from->saved, from->n, &b.p, &b.r) != SOMA_OK)
    fail_msg("%s", soma_error(b.m));
  end_sample(&b, &s);
  assert_int_equal(s.hash, from->hash);
  assert_int_equal(s.outputs, from->outputs);
  bed_close(&b);
}

static void same_with_any_threads(const char *file, unsigned checks) {
  static const unsigned numbers[] = {8, 3, 2};
  enum { MIDDLE_NS = 20000 };
  seen one = run_sample(file, 1, checks, (soma_time)MIDDLE_NS * 1000000);
  for (uint32_t i = 0; i < full_or(3, 1); i++) {
    seen s = run_sample(file, numbers[i], checks, (soma_time)MIDDLE_NS * 1000000);
    assert_int_equal(s.hash, one.hash);
    assert_int_equal(s.outputs, one.outputs);
    assert_int_equal(s.n, one.n);
    assert_memory_equal(s.saved, one.saved, s.n);
    soma_bytes_free(s.saved);
  }
  resume_sample(file, &one, 8, checks);
  soma_bytes_free(one.saved);
}

static void samples_over_threads(void **state) {
  (void)state;
  same_with_any_threads("samples/softmax.s", 0);
  same_with_any_threads("samples/matmul.s", 0);
  same_with_any_threads("samples/attention.s", 0);
  same_with_any_threads("samples/transpose.s", 0);
}

static void checks_over_threads(void **state) {
  (void)state;
  same_with_any_threads("samples/attention.s", 0x7f);
}

/* ---- The library unloaded ----------------------------------------------------------------- */

static const char *const wide =
    HEAD "x tile sbuf float32[128, 1024]\n"
         "section vector\n memset x, 1.5\n tensor_tensor x, x, x, op=add\n"
         " tensor_tensor x, x, x, op=mult\n halt\n";

static unsigned threads_alive(void) {
  DIR *d = opendir("/proc/self/task");
  unsigned n = 0;
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

#define CALL(name) ((__typeof__(&name))(uintptr_t)dlsym(lib, #name))

/* Its threads are gone with its last machine: code that they would return to is, too. */
static void library_unloaded(void **state) {
  (void)state;
  char path[256];
  const char *build = getenv("BUILD");
  snprintf(path, sizeof path, "%s/libsoma.so", build ? build : "build");
  unsigned before = threads_alive();
  for (int i = 0; i < 3; i++) {
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) skip();
    soma_machine *m;
    soma_program *p;
    soma_run *r;
    assert_int_equal(CALL(soma_machine_new)(NULL, &m), SOMA_OK);
    assert_int_equal(CALL(soma_assemble)(m, wide, strlen(wide), "wide.s", NULL, &p, NULL), SOMA_OK);
    assert_int_equal(CALL(soma_run_start)(m, p, &r), SOMA_OK);
    assert_int_equal(CALL(soma_run_until)(r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
    CALL(soma_machine_free)(m);
    CALL(soma_run_free)(r);
    CALL(soma_program_free)(p);
    dlclose(lib);
    assert_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
    for (int k = 0; k < 2000 && threads_alive() != before; k++)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(threads_alive(), before);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(machines_in_threads),   cmocka_unit_test(interrupted_from_another_thread),
      cmocka_unit_test(assembling_in_threads), cmocka_unit_test(samples_over_threads),
      cmocka_unit_test(checks_over_threads),   cmocka_unit_test(library_unloaded),
  };
  vm_work_pretend(8);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
