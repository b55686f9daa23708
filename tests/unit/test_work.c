/* The host's threads: every chunk once, threads that come and go, a child of fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../vm/engine/engine.h"
#include "../../vm/work/work.h"

#include <dirent.h>
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 4096 };

typedef struct job {
  atomic_uint calls[VM_WORK_CHUNKS];
  atomic_uint strangers; /* calls with a room that is not the caller's */
  void *room;
  unsigned slow; /* nanoseconds that each chunk sleeps */
} job;

/* Writes all of its room, which nobody else may have meanwhile. */
static void count(void *arg, uint32_t chunk, void *room) {
  job *j = arg;
  memset(room, (int)chunk, ROOM);
  if (j->slow) nanosleep(&(struct timespec){.tv_nsec = j->slow}, NULL);
  for (unsigned i = 0; i < ROOM; i += 64)
    if (((uint8_t *)room)[i] != chunk) return;
  atomic_fetch_add(&j->calls[chunk], 1);
  if (room != j->room) atomic_fetch_add(&j->strangers, 1);
}

static void do_job(vm_work *w, job *j, uint32_t chunks) {
  uint8_t room[ROOM];
  j->room = room;
  vm_work_do(w, count, j, chunks, room);
  for (uint32_t i = 0; i < VM_WORK_CHUNKS; i++) assert_int_equal(j->calls[i], i < chunks);
}

static void every_chunk_once(void **state) {
  (void)state;
  for (unsigned threads = 1; threads <= 8; threads++) {
    vm_work w;
    vm_work_open(&w, threads, ROOM);
    assert_int_equal(w.threads, threads);
    for (uint32_t chunks = 1; chunks <= VM_WORK_CHUNKS; chunks += 1 + chunks / 3) {
      job j = {0};
      do_job(&w, &j, chunks);
      if (threads == 1 || chunks == 1) assert_int_equal(j.strangers, 0);
    }
    vm_work_close(&w);
  }
}

/* Chunks that sleep leave the others time to come, however busy the host is. */
static void others_take_part(void **state) {
  (void)state;
  vm_work w;
  vm_work_open(&w, 4, ROOM);
  job j = {.slow = 3000000};
  do_job(&w, &j, 40);
  assert_true(j.strangers > 0);
  vm_work_close(&w);
}

static unsigned threads_alive(void) {
  DIR *d = opendir("/proc/self/task");
  unsigned n = 0;
  if (!d) skip();
  while (readdir(d)) n++;
  closedir(d);
  return n - 2; /* without . and .. */
}

static void threads_end_with_the_last(void **state) {
  (void)state;
  unsigned before = threads_alive();
  vm_work a, b;
  vm_work_open(&a, 4, ROOM);
  vm_work_open(&b, 3, ROOM);
  assert_int_equal(threads_alive(), before); /* none before the first job */
  job j = {0}, k = {0};
  do_job(&a, &j, 16);
  assert_int_equal(threads_alive(), before + 3);
  do_job(&b, &k, 16);
  assert_int_equal(threads_alive(), before + 3); /* the same ones */
  vm_work_close(&a);
  assert_int_equal(threads_alive(), before + 3);
  vm_work_close(&b);
  /* A thread that has been joined may be listed a little longer. */
  for (int i = 0; i < 2000 && threads_alive() != before; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(threads_alive(), before);
}

static void a_child_of_fork_has_its_own(void **state) {
  (void)state;
#ifdef __SANITIZE_THREAD__ /* which starts no threads after a fork */
  skip();
#endif
  int status = -1;
  vm_work w;
  vm_work_open(&w, 3, ROOM);
  job j = {0};
  do_job(&w, &j, 16);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    job k = {.slow = 3000000};
    do_job(&w, &k, 40);
    bool good = k.strangers > 0;
    vm_work_close(&w);
    _exit(good ? 0 : 1);
  }
  waitpid(child, &status, 0);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  job again = {0};
  do_job(&w, &again, 16);
  vm_work_close(&w);
}

static float a_third(void) {
  volatile float one = 1, three = 3;
  return one / three;
}

static void note_rounding(void *arg, uint32_t chunk, void *room) {
  (void)room;
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  ((float *)arg)[chunk] = a_third();
}

/* Threads that have started with other modes of arithmetic take the caller's. */
static void arithmetic_of_the_caller(void **state) {
  (void)state;
  static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TONEAREST};
  vm_work w;
  vm_work_open(&w, 4, ROOM);
  for (int i = 0; i < 4; i++) {
    float seen[32];
    fesetround(modes[i]);
    float want = a_third();
    vm_work_do(&w, note_rounding, seen, 32, NULL);
    fesetround(FE_TONEAREST);
    for (int k = 0; k < 32; k++) assert_memory_equal(&seen[k], &want, sizeof want);
  }
  vm_work_close(&w);
}

static void bounds(void **state) {
  (void)state;
  vm_work w;
  vm_work_open(&w, 0, ROOM);
  assert_int_equal(w.threads, 8); /* as many as there are cores */
  vm_work_close(&w);
  vm_work_open(&w, 9, ROOM);
  assert_int_equal(w.threads, 8); /* never more */
  assert_true(vm_work_ready(&w, 1, 1));
  vm_work_close(&w);
  vm_work_pretend(0);
  vm_work_open(&w, 2, ROOM);
  assert_int_equal(w.threads, vm_work_cores() < 2 ? 1 : 2);
  assert_false(vm_work_ready(&w, 1, 2));
  assert_int_equal(vm_work_ready(&w, 2, 2), w.threads == 2);
  w.pace.alone = true;
  assert_false(vm_work_ready(&w, 2, 2));
  assert_false(vm_work_ready(NULL, 2, 2));
  vm_work_close(&w);
  vm_work_pretend(8);
}

/* So many rounds of work: each costs `alone`, or `with` others, a fifth more after others have done
 * nothing, and ten times for one in `away` (0: none). How many were done alone. */
static unsigned rounds_alone(vm_pace *p, unsigned rounds, double with, double alone,
                             unsigned away) {
  unsigned n = 0;
  bool was_alone = true;
  for (unsigned i = 1; i <= rounds; i++) {
    double cost = (p->alone ? alone : with) * (away && i % away == 0 ? 10 : 1);
    if (was_alone && !p->alone) cost *= 1.2;
    n += was_alone = p->alone;
    p->work = VM_PACE_ROUND;
    vm_work_end_round(p, (uint64_t)(cost * VM_PACE_ROUND));
  }
  return n;
}

static void what_gains_is_found_out(void **state) {
  vm_pace p = {0};
  (void)state;
  assert_in_range(rounds_alone(&p, 1000, 0.6, 1, 0), 1, 50); /* others gain: trials only */
  assert_in_range(rounds_alone(&p, 1000, 0.6, 1, 50), 1, 150);
  assert_false(p.prefers_alone);
  assert_in_range(rounds_alone(&p, 20, 1.3, 1, 0), 10, 19); /* they have begun to cost */
  assert_in_range(rounds_alone(&p, 1000, 1.3, 1, 0), 900, 999);
  assert_in_range(rounds_alone(&p, 100, 0.6, 1, 0), 0, 70); /* and gain again, soon after a trial */
  assert_false(p.prefers_alone);
  p = (vm_pace){0};
  assert_in_range(rounds_alone(&p, 20, 1.3, 1, 0), 10, 19);
  p = (vm_pace){0};
  assert_in_range(rounds_alone(&p, 1000, 0.96, 0.95, 0), 1, 50); /* hardly a difference */
  rounds_alone(&p, 100, 1.3, 1, 0);
  assert_in_range(rounds_alone(&p, 200, 0.9, 1, 0), 1, 90);
}

/* Users in several threads at once share the others. */
static void *use(void *arg) {
  vm_work w;
  (void)arg;
  for (int i = 0; i < 20; i++) {
    vm_work_open(&w, 4, ROOM);
    for (int k = 0; k < 20; k++) {
      job j = {0};
      do_job(&w, &j, 24);
    }
    vm_work_close(&w);
  }
  return NULL;
}

static void users_in_threads(void **state) {
  (void)state;
  pthread_t t[6];
  for (int i = 0; i < 6; i++) assert_int_equal(pthread_create(&t[i], NULL, use, NULL), 0);
  for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
}

/* What runs whole, on one thread, since its partitions depend on one another, on the engine's state
 * or on random numbers that are drawn in their order; products of the tensor engine are split in
 * another way (op/product.c). An instruction that is in neither list has been forgotten. */
static bool is_whole(unsigned op) {
  switch (op) {
  case ISA_OP_ldweights:
  case ISA_OP_matmul:
  case ISA_OP_ldweights_mx:
  case ISA_OP_matmul_mx:
  case ISA_OP_load_act_table:
  case ISA_OP_match_value_load:
  case ISA_OP_find_index8:
  case ISA_OP_match_replace8:
  case ISA_OP_load_mask_register:
  case ISA_OP_shuffle:
  case ISA_OP_dropout:
  case ISA_OP_rng:
  case ISA_OP_set_rng_seed:
  case ISA_OP_rand2:
  case ISA_OP_rand_set_state:
  case ISA_OP_rand_get_state:
  case ISA_OP_quantize_mx:
  case ISA_OP_local_gather:
  case ISA_OP_n_gather:
  case ISA_OP_partition_reduce:
  case ISA_OP_sequence_bounds:
  case ISA_OP_nonzero_with_count:
  case ISA_OP_topk:
  case ISA_OP_custom_op:
  case ISA_OP_sendrecv_gpsimd: return true;
  default: return false;
  }
}

static void instructions_have_lanes_or_run_whole(void **state) {
  (void)state;
  unsigned forgotten = 0;
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    const isa_op_row *r = &isa_ops[op];
    if (r->runs != ISA_RUNS_PATH || r->status != ISA_DONE) continue;
    if (is_whole(op) != (vm_lanes_rows[op].least > 0)) continue;
    print_error("%s: a row of vm/op/lanes.def, or a line here if it cannot be split\n", r->name);
    forgotten++;
  }
  assert_int_equal(forgotten, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_chunk_once),          cmocka_unit_test(others_take_part),
      cmocka_unit_test(threads_end_with_the_last), cmocka_unit_test(a_child_of_fork_has_its_own),
      cmocka_unit_test(arithmetic_of_the_caller),  cmocka_unit_test(bounds),
      cmocka_unit_test(what_gains_is_found_out),   cmocka_unit_test(users_in_threads),
      cmocka_unit_test(instructions_have_lanes_or_run_whole),
  };
  vm_work_pretend(8);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
