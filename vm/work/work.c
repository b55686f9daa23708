/* A caller puts its task into the boxes of idle threads, works on it itself, and takes it back from
 * those that have not begun. Each chunk is claimed separately, so that a thread that the host does
 * not run delays one chunk at most. Thread i of n begins with the i-th of n equal parts of the
 * chunks and then takes the last chunks of other threads: jobs of one kind mostly find in a core's
 * cache what the job before left there (a product of [128, 128] and [128, 512] on two cores: 0.53
 * to 0.67 of one thread's time, and 0.69 to 0.84 with chunks from one counter). */
#define _GNU_SOURCE /* sched_getaffinity */
#include "work.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* An idle thread looks for work this long before it sleeps: waking takes the caller 2 to 5 us and
 * the thread 30 to 50. */
enum { SPIN_NS = 60000 };
/* During this time it yields its core to others this often. */
enum { LOOKS = 64 };

enum { BEGUN = 1, QUITS = 2 }; /* in a box: added to the address of a task; instead of one */
typedef struct vm_worker {     /* a thread */
  atomic_uintptr_t box;        /* 0: idle */
  atomic_bool asleep;          /* it waits for `wake`, or is about to */
  sem_t wake;
  pthread_t thread;
  void *room;
  unsigned number; /* 1 .. */
} worker;

/* The one thing that machines share. */
static struct threads {
  pthread_mutex_t lock;
  unsigned users, pretended;
  bool absent;         /* for tests: nothing is offered to them */
  bool refused;        /* the host gave no more threads */
  bool watches_forks;  /* pthread_atfork has been called */
  atomic_uint started; /* workers in v */
  worker *v[VM_WORK_THREADS];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void pause_core(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

unsigned vm_work_cores(void) {
  cpu_set_t set;
  unsigned n = all.pretended;
  if (!n && sched_getaffinity(0, sizeof set, &set) == 0) n = (unsigned)CPU_COUNT(&set);
  return n < 1 ? 1 : n < VM_WORK_THREADS ? n : VM_WORK_THREADS;
}

void vm_work_pretend(unsigned n) { all.pretended = n; }
void vm_work_absent(bool absent) { all.absent = absent; }

/* ---- A thread ----------------------------------------------------------------------------- */

static void rest(worker *k) {
  atomic_store(&k->asleep, true);
  /* Something has come meanwhile: but who brought it may have posted already. */
  if (atomic_load(&k->box) && atomic_exchange(&k->asleep, false)) return;
  while (sem_wait(&k->wake)) continue; /* a signal */
}

static void call(worker *k) {
  if (atomic_load(&k->asleep) && atomic_exchange(&k->asleep, false)) sem_post(&k->wake);
}

/* The next task, which has begun; NULL: the thread must end. */
static vm_work_task *next_task(worker *k) {
  int64_t until = now() + SPIN_NS;
  for (unsigned looks = 1;; looks++) {
    uintptr_t box = atomic_load_explicit(&k->box, memory_order_acquire);
    if (box == QUITS) return NULL;
    if (box && atomic_compare_exchange_strong(&k->box, &box, box | BEGUN))
      return (vm_work_task *)box;
    pause_core();
    if (looks % LOOKS) continue;
    sched_yield();
    if (now() < until) continue;
    rest(k);
    until = now() + SPIN_NS;
  }
}

/* Does chunks until none is left: those of its own part upwards, and then all others downwards. */
static void work_on(vm_work_task *t, unsigned thread, void *room) {
  const uint32_t n = t->chunks, i = thread % t->threads;
  const uint32_t first = i * n / t->threads, own = (i + 1) * n / t->threads - first;
  for (uint32_t k = 0; k < n && atomic_load_explicit(&t->left, memory_order_relaxed); k++) {
    uint32_t chunk = k < own ? first + k : (first + n - 1 - (k - own)) % n;
    if (atomic_load_explicit(&t->taken[chunk], memory_order_relaxed) ||
        atomic_exchange_explicit(&t->taken[chunk], true, memory_order_relaxed))
      continue;
    atomic_fetch_sub_explicit(&t->left, 1, memory_order_relaxed);
    t->fn(t->job, chunk, room);
  }
}

static void *serve(void *arg) {
  worker *k = arg;
  for (vm_work_task *t; (t = next_task(k));) {
    fesetenv(&t->arithmetic);
    work_on(t, k->number, k->room);
    atomic_store_explicit(&k->box, 0, memory_order_release);
  }
  return NULL;
}

/* Signals are for the host's own threads. */
static int start_thread(worker *k) {
  sigset_t none, old;
  sigfillset(&none);
  pthread_sigmask(SIG_SETMASK, &none, &old);
  int error = pthread_create(&k->thread, NULL, serve, k);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return error;
}

static void worker_free(worker *k) {
  sem_destroy(&k->wake);
  free(k->room);
  free(k);
}

static worker *worker_new(size_t room, unsigned number) {
  worker *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  k->room = malloc(room);
  k->number = number;
  sem_init(&k->wake, 0, 0);
  if (k->room && start_thread(k) == 0) return k;
  worker_free(k);
  return NULL;
}

static void worker_end(worker *k) {
  atomic_store(&k->box, QUITS);
  call(k);
  pthread_join(k->thread, NULL);
  worker_free(k);
}

/* ---- All of them -------------------------------------------------------------------------- */

/* A child of fork has none of the threads: it forgets them and starts its own. */
static void before_fork(void) { pthread_mutex_lock(&all.lock); }
static void parent_of_fork(void) { pthread_mutex_unlock(&all.lock); }
static void child_of_fork(void) {
  atomic_store(&all.started, 0);
  all.refused = false;
  pthread_mutex_init(&all.lock, NULL);
}

void vm_work_open(vm_work *w, unsigned threads, size_t room) {
  unsigned cores = vm_work_cores();
  *w = (vm_work){.threads = threads && threads < cores ? threads : cores,
                 .eager = all.pretended != 0,
                 .room = room,
                 .since = now()};
  pthread_mutex_lock(&all.lock);
  if (!all.watches_forks)
    all.watches_forks = pthread_atfork(before_fork, parent_of_fork, child_of_fork) == 0;
  all.users++;
  pthread_mutex_unlock(&all.lock);
}

void vm_work_close(vm_work *w) {
  pthread_mutex_lock(&all.lock);
  bool last = --all.users == 0;
  for (unsigned n = atomic_load(&all.started); last && n-- > 0;) worker_end(all.v[n]);
  if (last) {
    atomic_store(&all.started, 0);
    all.refused = false;
  }
  pthread_mutex_unlock(&all.lock);
  w->threads = 0;
}

/* How many threads there are besides the caller, after missing ones have been started. */
static unsigned helpers(const vm_work *w) {
  unsigned n = atomic_load_explicit(&all.started, memory_order_acquire);
  if (n + 1 >= w->threads) return n;
  pthread_mutex_lock(&all.lock);
  while ((n = atomic_load(&all.started)) + 1 < w->threads && !all.refused) {
    all.v[n] = worker_new(w->room, n + 1);
    all.refused = !all.v[n];
    if (!all.refused) atomic_store_explicit(&all.started, n + 1, memory_order_release);
  }
  pthread_mutex_unlock(&all.lock);
  return n;
}

/* ---- A job -------------------------------------------------------------------------------- */

bool vm_work_alone(const vm_work *w) {
  return !w || w->threads < 2 || (w->pace.alone && !w->eager);
}

bool vm_work_ready(const vm_work *w, uint64_t ns, uint64_t least) {
  return !vm_work_alone(w) && (ns >= least || w->eager);
}

void vm_work_resume(vm_work *w) {
  if (w && w->threads > 1) w->since = now() - w->host_ns;
}

void vm_work_pause(vm_work *w) {
  if (w && w->threads > 1) w->host_ns = now() - w->since;
}

/* Rounds before a trial: the first time, and after many trials that changed nothing; and of a
 * trial. */
enum { FIRST_TRIAL = 4, LAST_TRIAL = 64, TRIAL = 2 };
/* A virtual core may be away for 7 ms now and then. So a round counts at most as this many times
 * the average, and this part of it. */
static const double at_most = 2, part = 0.25;
/* Working alone is preferred only if it takes less than this part of the time. */
static const double clear = 0.96;

/* Whether the costs favour the other way than the one that is preferred. */
static bool is_other_better(const vm_pace *p) {
  const double *cost = p->cost;
  if (cost[!p->prefers_alone] == 0) return false;
  return p->prefers_alone ? cost[false] < cost[true] : cost[true] < clear * cost[false];
}

void vm_work_end_round(vm_pace *p, uint64_t host_ns) {
  double cost = (double)host_ns / (double)p->work, *average = &p->cost[p->alone];
  bool trial = p->alone != p->prefers_alone;
  unsigned wait = p->wait ? p->wait : FIRST_TRIAL;
  p->work = 0;
  /* The first round after a change may pay for threads that slept, and the very first one for fresh
   * memory: only later ones count, unless there is none yet. */
  if (trial || *average == 0 || (p->rounds == 1 && p->cost[!p->alone] == 0))
    *average = cost;
  else if (p->rounds)
    *average += part * ((cost < at_most * *average ? cost : at_most * *average) - *average);
  /* The cost of the other way may be an old one, of other work: that is a reason for a trial. */
  bool changes = is_other_better(p);
  if (++p->rounds < (trial ? TRIAL : wait) && (trial || !changes)) return;
  if (trial) {
    p->prefers_alone ^= changes;
    p->wait = changes ? FIRST_TRIAL : 2 * wait < LAST_TRIAL ? 2 * wait : LAST_TRIAL;
  }
  p->alone = trial ? p->prefers_alone : !p->prefers_alone;
  p->rounds = 0;
}

void vm_work_did(vm_work *w, uint64_t ns) {
  if (!w || w->threads < 2 || (w->pace.work += ns) < VM_PACE_ROUND) return;
  int64_t began = w->since;
  w->since = now();
  vm_work_end_round(&w->pace, (uint64_t)(w->since - began));
}

/* Puts the task into the boxes of idle threads. */
static void offer(const vm_work *w, vm_work_task *t) {
  unsigned there = helpers(w), most = w->threads - 1;
  /* A thread that gets no second chunk costs more than it saves. */
  if (most > t->chunks / 2) most = t->chunks / 2;
  for (unsigned i = 0; i < there && t->offered < most; i++) {
    uintptr_t idle = 0;
    if (!atomic_compare_exchange_strong(&all.v[i]->box, &idle, (uintptr_t)t)) continue;
    call(all.v[i]);
    t->by[t->offered++] = all.v[i];
  }
}

/* Takes it back, or waits for the threads that have begun. */
static void withdraw(vm_work_task *t, worker *k) {
  uintptr_t box = (uintptr_t)t;
  if (atomic_compare_exchange_strong(&k->box, &box, 0)) return;
  for (unsigned looks = 1;
       atomic_load_explicit(&k->box, memory_order_acquire) == ((uintptr_t)t | BEGUN); looks++) {
    pause_core();
    if (looks % LOOKS == 0) sched_yield();
  }
}

void vm_work_begin(vm_work *w, vm_work_task *t, vm_work_fn *fn, void *job, uint32_t chunks) {
  t->fn = fn;
  t->job = job;
  t->chunks = chunks;
  fegetenv(&t->arithmetic);
  t->threads = w->threads < 1 ? 1 : w->threads < chunks ? w->threads : chunks;
  t->offered = 0;
  atomic_init(&t->left, chunks);
  for (uint32_t i = 0; i < chunks; i++) atomic_init(&t->taken[i], false);
  if (chunks > 1 && w->threads > 1 && !all.absent) offer(w, t);
}

bool vm_work_is_done(const vm_work_task *t) {
  if (atomic_load_explicit(&t->left, memory_order_relaxed)) return false;
  for (unsigned i = 0; i < t->offered; i++)
    if (atomic_load_explicit(&t->by[i]->box, memory_order_relaxed) == ((uintptr_t)t | BEGUN))
      return false;
  return true;
}

void vm_work_finish(vm_work_task *t, void *room) {
  work_on(t, 0, room);
  for (unsigned i = 0; i < t->offered; i++) withdraw(t, t->by[i]);
}

void vm_work_do(vm_work *w, vm_work_fn *fn, void *job, uint32_t chunks, void *room) {
  vm_work_task t;
  vm_work_begin(w, &t, fn, job, chunks);
  vm_work_finish(&t, room);
}
