/* The command soma-mpi: a process of an MPI job, every one of which runs the script. What a sweep
 * says to whom stands in lua/share.lua; this file carries it. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "job.h"

enum { TAG = 1 };
static const char goodbye[] = {'e', 'n', 'd', ' '};
static int rank, size;

static int job_send(lua_State *L) {
  size_t n;
  lua_Integer to = luaL_checkinteger(L, 1);
  const char *s = luaL_checklstring(L, 2, &n);
  luaL_argcheck(L, to >= 0 && to < size, 1, "no process of the job");
  if (n > INT_MAX) return luaL_error(L, "a message of %d bytes is too long for MPI", n);
  MPI_Send(s, (int)n, MPI_BYTE, (int)to, TAG, MPI_COMM_WORLD);
  return 0;
}

static int job_receive(lua_State *L) {
  int there = 0, n = 0;
  MPI_Status from;
  MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &there, &from);
  if (!there) return 0;
  MPI_Get_count(&from, MPI_BYTE, &n);
  luaL_Buffer b;
  char *s = luaL_buffinitsize(L, &b, (size_t)n);
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
    char *s = malloc((size_t)n + 1);
    if (!s) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Recv(s, n, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ended = n == sizeof goodbye && s[0] == goodbye[0];
    free(s);
  }
}

static void end(int status) {
  fflush(NULL);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  if (rank != 0) await_goodbye();
  for (int p = 1; rank == 0 && p < size; p++)
    MPI_Send(goodbye, sizeof goodbye, MPI_BYTE, p, TAG, MPI_COMM_WORLD);
  MPI_Finalize();
}

static int job_leave(lua_State *L) {
  (void)L;
  MPI_Finalize();
  exit(0);
}

static const luaL_Reg functions[] = {
    {"send", job_send}, {"receive", job_receive}, {"leave", job_leave}, {NULL, NULL}};

static const char help[] =
    "usage: mpirun -n N soma-mpi SCRIPT.lua [ARGUMENT...]\n"
    "Runs a script in N processes; soma.sweep hands its variants out over them.\n"
    "\n"
    "  --help      this text\n"
    "  --version   the version\n";

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return fputs(help, stdout) < 0;
  if (argc == 2 && strcmp(argv[1], "--version") == 0)
    return printf("soma-mpi %s\n", soma_version()) < 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != 0 && !freopen("/dev/null", "w", stdout)) MPI_Abort(MPI_COMM_WORLD, 1);
  int status = soma_main(argc, argv, &(soma_job){rank, size, functions, end});
  end(status);
  return status;
}
