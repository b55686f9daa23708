/* The part of soma.h for worlds of ranks; include that.
 *
 * A rank is a logical core with a program, as of a machine. A world has several, which send one
 * another messages by collectives: by all_reduce and the like, and by `section cc0`. For example
 *
 *   soma_world_options o = {.size = sizeof o, .ranks = 4};
 *   soma_world_new(&o, &w);
 *   for (r = 0; r < 4; r++) {
 *     soma_world_load(w, r, p);
 *     soma_bind(soma_world_machine(w, r), p, "x", SOMA_FLOAT32, 2, shape, x[r]);
 *   }
 *   soma_world_start(w);
 *   if (soma_world_until(w, SOMA_TIME_END) != SOMA_OK) puts(soma_world_error(w));
 *   soma_fetch(soma_world_run(w, 2), "y", y, sizeof y); */
#ifndef SOMA_WORLD_H
#define SOMA_WORLD_H

#include "soma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the process speaks with the others of a job (MPI, for example) that run the same world: each
 * moves some of the ranks. All make the same calls on the same worlds in the same order. The
 * functions return 0 if they fail, and the world with them. */
typedef struct soma_transport {
  uint32_t rank, size; /* this process, from 0 on, and how many there are */
  void *ud;
  /* Makes `all` what all processes give, `bytes` bytes each, in their order. */
  int (*share)(void *ud, const void *mine, uint32_t bytes, void *all);
  /* Sends out[p], n[p] bytes, to each process p; *in is what has come, that of process 0 first,
   * from[p] bytes of each, until the next call. */
  int (*exchange)(void *ud, const void *const *out, const uint64_t *n, const void **in,
                  uint64_t *from);
} soma_transport;

typedef struct soma_world_options {
  size_t size;         /* sizeof(soma_world_options), so that older callers keep working */
  uint32_t ranks, lnc; /* lnc: cores of a rank, 1 or 2; 0: 1 */
  /* As "trn2.48xlarge", or "trn2.48xlarge x 4"; NULL: the smallest that holds the ranks. */
  const char *instance;
  /* Options of the machine of each rank; NULL: as for soma_machine_new. Without a target it is the
   * instance's, else trn2. Limits are of each rank, that of seconds is rank 0's for all. */
  const soma_options *machine;
  /* Or a machine for each rank, which stay the caller's: then `machine` is not looked at. In a
   * world they use one thread, and ranks that share a stack of HBM share its addresses. NULL: none.
   */
  soma_machine *const *machines;
  unsigned threads;      /* of the host, that run ranks; 0: as many as the process has cores */
  const char *algorithm; /* of all collectives: "ring", "mesh" ...; NULL: by their size */
  /* For tests: windows also end at multiples of it. No result depends on it; 0: where they must. */
  soma_time window;
  char *error; /* as in soma_options */
  size_t error_size;
  /* NULL: this process alone; else it is there as long as the world. A world whose ranks call the
   * host (events, prints, checks, custom operators), and one that is stopped at a time, run whole
   * in every process. SBUF, PSUM and tensors that are neither inputs nor outputs stay in the
   * process that moves their rank until they are read, by all processes alike. */
  const soma_transport *transport;
} soma_world_options;

typedef struct soma_world soma_world;
#define SOMA_TIME_END UINT64_MAX

/* SOMA_ARG if no instance holds the ranks; the error says which do. */
soma_status soma_world_new(const soma_world_options *options, soma_world **w);
/* Frees it and its machines. Programs and runs that were asked for may outlive it. */
void soma_world_free(soma_world *w);
/* The message of the last call that failed. */
const char *soma_world_error(const soma_world *w);
const char *soma_world_instance(const soma_world *w);
/* How far the times of collectives there may be trusted, as text. */
const char *soma_world_trust(const soma_world *w);
uint32_t soma_world_ranks(const soma_world *w);
/* A rank's machine, for what soma_bind and others need one; runs of it are started only by
 * soma_world_start. NULL: there is no such rank. */
soma_machine *soma_world_machine(soma_world *w, uint32_t rank);
/* The program that a rank will run, which stays until another one is given. Ranks may share one. */
soma_status soma_world_load(soma_world *w, uint32_t rank, soma_program *p);
/* Starts all ranks: checks that their collectives agree, gives their CC sequencers programs, and
 * starts a run for each as soma_run_start does. SOMA_BUSY while the ranks before have not ended. */
soma_status soma_world_start(soma_world *w);
/* Runs until all ranks have ended or simulated time has come. SOMA_OK, or the status of what
 * stopped it: of the first rank with a fault, SOMA_DEADLOCK if ranks wait for one another,
 * SOMA_LIMIT, SOMA_STOPPED. */
soma_status soma_world_until(soma_world *w, soma_time time);
/* The same, one event after another in the order of time and rank, so that all ranks stand at one
 * moment wherever it stops: at a stop of any of them (soma_run_stop_add; soma_run_hits of each says
 * which), at the world's end (SOMA_END), after an event, after an instruction of an engine of a
 * rank has issued, or at a time. rank, core, engine: of SOMA_ISSUE; time: of SOMA_TIME. While a
 * rank has stops or a log, soma_world_until moves the world like this. */
soma_status soma_world_step(soma_world *w, soma_until what, uint32_t rank, unsigned core,
                            soma_engine engine, soma_time time);
/* The world as it is, for going back often within a process: it shares with an earlier snapshot of
 * it, `before`, which may be NULL, the memory that has not changed since. As of runs, see
 * soma_run_snapshot. */
typedef struct soma_world_snapshot soma_world_snapshot;
soma_status soma_world_keep(soma_world *w, const soma_world_snapshot *before,
                            soma_world_snapshot **out);
/* Takes the world back (or forward) to it, also after a fault. Its ranks have other runs then, with
 * the stops and logs of those before, which are freed: ask again for soma_world_run. On failure,
 * when memory is out, the world has no runs. */
soma_status soma_world_return(soma_world *w, const soma_world_snapshot *s);
/* Bytes of the host that it takes, those that it shares divided among their holders. */
uint64_t soma_world_snapshot_bytes(const soma_world_snapshot *s);
void soma_world_snapshot_free(soma_world_snapshot *s);
/* 1 where the last world was spread over processes and has failed: its next start runs it whole in
 * this process. It fails in the same way, and then all that is asked of its ranks is known here,
 * and the whole report. */
int soma_world_again(soma_world *w);
/* The calls of the last world's transport, and the bytes of messages that came by it; 0 if it
 * was not spread. */
void soma_world_traffic(const soma_world *w, uint64_t *calls, uint64_t *bytes);
/* A rank's run, for soma_fetch, soma_run_stats and so on; the caller frees it. Before the world's
 * end only the world moves it. NULL before soma_world_start. */
soma_run *soma_world_run(soma_world *w, uint32_t rank);
/* The program that it runs: that of soma_world_load with those of its CC sequencers; the caller
 * frees it. NULL before soma_world_start. */
soma_program *soma_world_program(soma_world *w, uint32_t rank);
/* A collective that is complete, as a rank saw it. Sizes and rates are nccom-test's: bytes of the
 * whole result, algbw is bytes / time, and busbw that times 2 (n - 1) / n of an all_reduce of n
 * ranks, (n - 1) / n of those that gather or scatter, 1 of a permute. */
typedef struct soma_collective {
  const char *op, *algorithm; /* algorithm: "section" of the program's own `section cc0` */
  const char *file;           /* NULL: not known; as long as the world's programs */
  uint32_t line, pc, core, ranks;
  soma_engine engine;
  uint64_t bytes;        /* 0 of the program's own sections, as the rates */
  soma_time issued, end; /* until its update was posted */
  double algbw, busbw;   /* GB/s */
} soma_collective;
/* How many a rank has completed, of a world that runs or has ended, and the i-th of them in the
 * order of their ends. A collective of both cores counts once, as core 0's. SOMA_ARG past
 * the last. */
uint32_t soma_world_collectives(const soma_world *w, uint32_t rank);
soma_status soma_world_collective(const soma_world *w, uint32_t rank, uint32_t i,
                                  soma_collective *out);
/* What goes between two devices goes over links, which it shares with all else on its route. Each
 * has two directions. Devices are numbered as instances are built: device 5 of a 4x4 torus is in
 * row 1, column 1, beside 4, 6, 1 and 9. The ends of a link are devices, or one of these. */
enum { SOMA_SWITCH = -1, SOMA_EFA = -2 };
typedef struct soma_link_row {
  int from, to;
  uint64_t bytes, messages; /* sent */
  uint64_t waiting;         /* bytes that had come and not gone, most at once */
  soma_time busy, waited;   /* waited: of all messages, behind others, together */
  double rate, gbs;         /* GB/s: the link's, and bytes / time of the world */
  double percent;           /* busy / time of the world */
} soma_link_row;
/* The links of a world that runs or has run, one for each direction, and the i-th of them. */
uint32_t soma_world_links(const soma_world *w);
soma_status soma_world_link(const soma_world *w, uint32_t i, soma_link_row *out);
/* A message on a link: its last byte came, behind others perhaps; its bytes went from start to end.
 */
typedef struct soma_link_pass {
  uint32_t link, from, to; /* from, to: ranks */
  uint64_t bytes;
  soma_time came, start, end;
} soma_link_pass;
/* The first 2^20 of them, where a rank's machine has soma_options.event. */
uint32_t soma_world_passes(const soma_world *w);
soma_status soma_world_pass(const soma_world *w, uint32_t i, soma_link_pass *out);
/* What if a link is slow or fails, in both directions, or a rank begins late? These hold for all
 * that soma_world_start starts from now on. From the time `at` on a link has `factor`, 0 to 1, of
 * its rate; 0: it has failed. Messages take routes without the links that fail at time 0, and
 * soma_world_start refuses a rank that sends to another one to which no route is left. A link that
 * fails later stops the messages that come to it. SOMA_ARG if there is no such link; the error
 * lists those of device a. */
soma_status soma_world_slow_link(soma_world *w, int a, int b, double factor, soma_time at);
soma_status soma_world_fail_link(soma_world *w, int a, int b, soma_time at);
soma_status soma_world_delay_rank(soma_world *w, uint32_t rank, soma_time by);
/* What the checks of all ranks have found, once the world has ended: each pair of lines once, with
 * the ranks that have it. The texts begin with the first of these. SOMA_ARG past the last. */
typedef struct soma_world_finding {
  soma_finding first;      /* of rank ranks[0]; text: of the whole */
  const uint32_t *ranks;   /* nranks, ascending */
  uint32_t nranks, number; /* number: among the findings of the run of ranks[0] */
} soma_world_finding;
uint32_t soma_world_findings(const soma_world *w);
soma_status soma_world_finding_at(const soma_world *w, uint32_t i, soma_world_finding *out,
                                  size_t n);
/* The world as it is, in a file, of which soma_world_resume makes one that goes on as this one
 * will; data: to be freed with soma_bytes_free. Between two calls of soma_world_until, however they
 * came to their ends, but for faults and deadlocks. */
soma_status soma_world_save(soma_world *w, void **data, size_t *n);
/* What options a saved world was made with: sets ranks, lnc, instance (which may be a part of data)
 * and algorithm. SOMA_FORMAT if
 * the data are no saved world; o->error then has the text. */
soma_status soma_world_saved(const void *data, size_t n, soma_world_options *o);
/* The target of its ranks, which may be a hypothetical machine, for soma_options.target of what
 * goes on: writes at most size bytes, with a zero at the end. SOMA_ARG if it has not enough. */
soma_status soma_world_saved_target(const void *data, size_t n, char *target, size_t size);
/* w, of such options, becomes that world, as after soma_world_start: it has the programs, the
 * constants of the clock, and the changes of links. */
soma_status soma_world_resume(soma_world *w, const void *data, size_t n);
/* The time that the last rank has reached; a hash of everything that has happened; windows. */
soma_time soma_world_time(const soma_world *w);
uint64_t soma_world_hash(const soma_world *w);
uint64_t soma_world_windows(const soma_world *w);
/* Stops the world after its window, from any thread or a signal handler. */
void soma_world_interrupt(soma_world *w);

#ifdef __cplusplus
}
#endif
#endif
