/* The command, alone or as one process of an MPI job. */
#ifndef LUA_SOMA_JOB_H
#define LUA_SOMA_JOB_H

#include "../module.h"

/* How a process speaks with the others of its job. */
typedef struct soma_job {
  int rank, size;
  /* job.send(rank, string); job.receive(): who sent and what, nothing when nothing has come;
   * job.leave(), of a process but the first: ends it once the job ends well. Not NULL; ends with
   * an empty entry. */
  const luaL_Reg *functions;
  /* The script has ended with that status: of the first process it ends the job. Returns once all
   * have ended, of a status other than 0 not at all. */
  void (*end)(int status);
  const soma_transport *transport; /* of worlds */
} soma_job;

/* The command's main; job NULL: the process is alone. Gives the exit status. */
int soma_main(int argc, char **argv, const soma_job *job);
/* The main of a command that is one part of it, such as "ccom", whatever its arguments. */
int soma_part_main(int argc, char **argv, const char *part);

#endif
