/* The command soma-mpi: a process of an MPI job, every one of which runs the script. What a sweep
 * says to whom stands in lua/share.lua, what processes of a world say in vm/world/process.c; this
 * file carries both, worlds by a communicator of their own. */
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "job.h"

/* Messages of scripts and of ends do not meet: each has its tag. */
enum { TAG = 1, TAG_ENDED }; /* TAG_ENDED: to process 0, from one that has come to its end */
/* The message of lua/share.lua after which nothing follows. */
static const char goodbye[] = {'e', 'n', 'd', ' '};
static int rank, size;

/* realloc; without memory the job ends, since others wait for this process.
 * Also malloc, with NULL. */
static void *grown(void *p, size_t n) {
  p = realloc(p, n);
  if (p) return p;
  fprintf(stderr, "soma-mpi: process %d of %d: no memory for a message of %zu bytes\n", rank, size,
          n);
  MPI_Abort(MPI_COMM_WORLD, 1);
  return NULL;
}

/* send(process, bytes): waits until MPI has taken it, not until it has arrived. */
static int job_send(lua_State *L) {
  size_t n;
  lua_Integer to = luaL_checkinteger(L, 1);
  const char *s = luaL_checklstring(L, 2, &n);
  luaL_argcheck(L, to >= 0 && to < size, 1, "no process of the job");
  /* MPI counts in int. */
  if (n > INT_MAX)
    return luaL_error(L, "a message of %I bytes is too long for MPI", (LUAI_UACINT)n);
  MPI_Send(s, (int)n, MPI_BYTE, (int)to, TAG, MPI_COMM_WORLD);
  return 0;
}

/* receive(): the sender and its bytes, or nothing when no message is there. */
static int job_receive(lua_State *L) {
  int there = 0, n = 0;
  MPI_Status from;
  MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &there, &from);
  /* Never waits: a sweep has other work while nothing has come. */
  if (!there) return 0;
  MPI_Get_count(&from, MPI_BYTE, &n);
  luaL_Buffer b;
  char *s = luaL_buffinitsize(L, &b, (size_t)n);
  /* From the process that was looked at, since another one's message may have come
   * meanwhile. */
  MPI_Recv(s, n, MPI_BYTE, from.MPI_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  luaL_pushresultsize(&b, (size_t)n);
  lua_pushinteger(L, from.MPI_SOURCE);
  lua_insert(L, -2);
  return 2;
}

/* Waits without work: a look every millisecond, since MPI's own waiting takes a whole core. */
static void await_goodbye(void) {
  struct timespec ms = {.tv_nsec = 1000000};
  for (bool ended = false; !ended;) {
    int there = 0, n = 0;
    MPI_Status from;
    MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &there, &from);
    if (!there) {
      nanosleep(&ms, NULL);
      continue;
    }
    MPI_Get_count(&from, MPI_BYTE, &n);
    char *s = grown(NULL, (size_t)n + 1);
    /* Other messages are dropped: nobody asks for them any more. */
    MPI_Recv(s, n, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    /* By length and first byte. */
    ended = n == sizeof goodbye && s[0] == goodbye[0];
    free(s);
  }
}

/* Called with the script's exit status, which decides for all processes. */
static void end(int status) {
  char none = 0;
  fflush(NULL);
  /* A failure ends the job at once: the others may wait for this process. */
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  /* The first process waits for nobody: it says goodbye to all. */
  if (rank != 0) MPI_Send(&none, 0, MPI_BYTE, 0, TAG_ENDED, MPI_COMM_WORLD);
  if (rank != 0) await_goodbye();
  for (int p = 1; rank == 0 && p < size; p++)
    MPI_Send(goodbye, sizeof goodbye, MPI_BYTE, p, TAG, MPI_COMM_WORLD);
  MPI_Finalize();
}

/* For a process that was told to end by a sweep: its own script does not go on. */
static int job_leave(lua_State *L) {
  (void)L;
  MPI_Finalize();
  exit(0);
}

/* ---- Worlds -------------------------------------------------------------------------------- */

static MPI_Comm worlds;
static uint8_t *came; /* what the last exchange has brought */
static uint64_t room;

/* A process that has come to the end of its script will never come to this world, unless it has
 * done its part: what it has sent last may still be on its way, so this one looks on for a while.
 */
static void look_for_ends(int *looks) {
  /* 20000 looks with pauses of 50 microseconds. */
  enum { LAST = 20000 }; /* a second */
  int there = 0;
  MPI_Status from;
  /* The first process sees the ends of all others; they only see its goodbye. */
  MPI_Iprobe(rank ? 0 : MPI_ANY_SOURCE, rank ? TAG : TAG_ENDED, MPI_COMM_WORLD, &there, &from);
  if (!there || (*looks)++ < LAST) return;
  fprintf(
      stderr,
      "soma-mpi: process %d of %d: process %d has ended its script, but this one runs a world: a "
      "script must give the same in all of them\n",
      rank, size, from.MPI_SOURCE);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Waits for what the processes do together: others may compute for long, or need this core.
 * Eager at first, because exchanges within a machine take microseconds. */
static void await(MPI_Request *r, int n) {
  enum { EAGER = 2000 }; /* looks without a pause */
  struct timespec pause = {.tv_nsec = 50000};
  /* Looks without a pause are counted up to a limit. */
  for (int looks = 0, done = 0, after = 0;; looks += looks < EAGER) {
    MPI_Testall(n, r, &done, MPI_STATUSES_IGNORE);
    if (done) return;
    if (looks < EAGER) {
      /* Another process of this core may be the one that is waited for. */
      sched_yield();
      continue;
    }
    look_for_ends(&after);
    nanosleep(&pause, NULL);
  }
}

static int world_share(void *ud, const void *mine, uint32_t bytes, void *all) {
  MPI_Request r;
  (void)ud;
  /* 0: it could not be shared. */
  if (bytes > INT_MAX) return 0;
  MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, worlds, &r);
  await(&r, 1);
  return 1;
}

/* Sends and receives between all pairs, in pieces that MPI can count. */
static void exchange_bytes(const void *const *out, const uint64_t *n, const uint64_t *from) {
  enum { PIECE = 1 << 30 };
  MPI_Request *r = NULL;
  int count = 0, cap = 0;
  /* Parts from all processes lie one after the other in `came`. */
  uint64_t at = 0;
  for (int p = 0; p < size; p++) {
    const uint8_t *to = out[p];
    /* As many as both loops make.
     * Nothing to send or receive makes no request. */
    uint64_t pieces = (n[p] + PIECE - 1) / PIECE + (from[p] + PIECE - 1) / PIECE;
    if (count + (int)pieces > cap) {
      cap = 2 * (count + (int)pieces);
      r = grown(r, (size_t)cap * sizeof *r);
    }
    for (uint64_t i = 0; i < from[p]; i += PIECE)
      MPI_Irecv(came + at + i, (int)(from[p] - i < PIECE ? from[p] - i : PIECE), MPI_BYTE, p, TAG,
                worlds, &r[count++]);
    for (uint64_t i = 0; i < n[p]; i += PIECE)
      MPI_Isend(to + i, (int)(n[p] - i < PIECE ? n[p] - i : PIECE), MPI_BYTE, p, TAG, worlds,
                &r[count++]);
    at += from[p];
  }
  await(r, count);
  free(r);
}

static int world_exchange(void *ud, const void *const *out, const uint64_t *n, const void **in,
                          uint64_t *from) {
  MPI_Request r;
  uint64_t sum = 0;
  (void)ud;
  /* How much comes from whom is told first, so that there is room for it. */
  MPI_Ialltoall(n, 1, MPI_UINT64_T, from, 1, MPI_UINT64_T, worlds, &r);
  await(&r, 1);
  for (int p = 0; p < size; p++) sum += from[p];
  if (sum > room || room / 8 > sum + (1 << 20)) { /* not for ever what came at the end of a world */
    free(came);
    /* A quarter more, so that a slowly growing world does not ask for memory each time. */
    room = sum + sum / 4;
    came = grown(NULL, room + 1);
  }
  exchange_bytes(out, n, from);
  *in = came;
  return 1;
}

static const luaL_Reg functions[] = {
    {"send", job_send}, {"receive", job_receive}, {"leave", job_leave}, {NULL, NULL}};

static const char help[] = "usage: mpirun -n N soma-mpi SCRIPT.lua [ARGUMENT...]\n"
                           "Runs a script in N processes; soma.sweep hands its variants out over "
                           "them, and the ranks of a\n"
                           "soma.world are moved by all of them.\n"
                           "\n"
                           "  --help      this text\n"
                           "  --version   the version\n";

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return fputs(help, stdout) < 0;
  if (argc == 2 && strcmp(argv[1], "--version") == 0)
    return printf("soma-mpi %s\n", soma_version()) < 0;
  int level;
  /* Calls come from one thread only, whatever the host's threads simulate. */
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  /* Only the first process prints.
   * Errors of the others are still seen: standard error stays. */
  if (rank != 0 && !freopen("/dev/null", "w", stdout)) MPI_Abort(MPI_COMM_WORLD, 1);
  /* Messages of worlds must not meet those of sweeps. */
  MPI_Comm_dup(MPI_COMM_WORLD, &worlds);
  soma_transport t = {.rank = (uint32_t)rank,
                      .size = (uint32_t)size,
                      .share = world_share,
                      .exchange = world_exchange};
  int status = soma_main(argc, argv, &(soma_job){rank, size, functions, end, &t});
  end(status);
  return status;
}
