/* Child processes for sweeps: a Lua function runs in a copy of this process; what it gives and
 * what it prints come back through pipes. Only sweep.lua uses this, by the table `host`. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "module.h"

#define PROCESS_CLASS "soma.process"

/* The result is what the function gives, kept apart from what it prints. */
enum { RESULT, PRINTED, PIPES };
enum { PATIENCE_MS = 200 }; /* between looks at a Ctrl-C that came just before poll */

typedef struct process {
  pid_t pid, owner; /* pid 0: ended; owner: who may end it, not a copy of that process */
  int fd[PIPES];    /* to read; -1: closed */
  isa_buf got[PIPES];
  int status; /* as waitpid gives it */
} process;

/* Objects of another class are refused. */
static process *check(lua_State *L, int arg) { return luaL_checkudata(L, arg, PROCESS_CLASS); }

static void close_fd(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

/* Waits for the end, also where a signal comes in between. */
static void reap(process *p) {
  while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR) continue;
  p->pid = 0;
}

/* process:close(), also by the collector: ends it at once. */
static int process_close(lua_State *L) {
  process *p = check(L, 1);
  for (int i = 0; i < PIPES; i++) {
    close_fd(&p->fd[i]);
    isa_buf_free(&p->got[i]);
  }
  /* A copy of the object in a child must not end its parent's processes. */
  if (p->pid > 0 && p->owner == getpid()) {
    kill(p->pid, SIGKILL);
    reap(p);
  }
  return 0;
}

/* ---- The child ----------------------------------------------------------------------------- */

/* A pipe takes what it has room for. */
static bool write_all(int fd, const char *s, size_t n) {
  while (n > 0) {
    ssize_t k = write(fd, s, n);
    if (k < 0 && errno != EINTR) return false;
    if (k > 0) {
      s += k;
      n -= (size_t)k;
    }
  }
  return true;
}

/* Calls the function at 1, which gives a string, and ends the process without the parent's exit
 * handlers and finalisers. */
static void run_child(lua_State *L, pid_t parent, int result, int printed) {
  size_t n = 0;
#if defined(__linux__)
  /* A child whose parent is gone would compute on for nobody. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  /* The parent's handlers serve its own loop; a child just ends. */
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  /* A hook of the parent, such as that of an interrupt, has nothing to do here. */
  lua_sethook(L, NULL, 0, 0);
  lua_pushnil(L); /* a world of a variant is this process's alone, and so are its files */
  lua_setfield(L, LUA_REGISTRYINDEX, LB_TRANSPORT);
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, LB_NO_OUTPUT);
  /* The parent may have gone before the call of prctl. */
  bool good = getppid() == parent && dup2(printed, STDOUT_FILENO) >= 0;
  lua_settop(L, 1);
  good = good && lua_pcall(L, 0, 1, 0) == LUA_OK;
  const char *s = good ? lua_tolstring(L, -1, &n) : NULL;
  /* What was printed is in the buffers still. */
  good = s != NULL && write_all(result, s, n) && fflush(NULL) == 0;
  _exit(good ? 0 : 1);
}

/* ---- The parent ---------------------------------------------------------------------------- */

/* All pipes or none. */
static bool open_pipes(int fd[PIPES][2]) {
  for (int i = 0; i < PIPES; i++)
    if (pipe(fd[i]) != 0) {
      for (int k = 0; k < i; k++) close(fd[k][0]), close(fd[k][1]);
      return false;
    }
  /* What the program starts must not hold the pipes open. */
  for (int i = 0; i < PIPES; i++)
    for (int k = 0; k < 2; k++) fcntl(fd[i][k], F_SETFD, FD_CLOEXEC);
  /* take() reads until nothing is there, and must not wait for more. */
  for (int i = 0; i < PIPES; i++) fcntl(fd[i][0], F_SETFL, O_NONBLOCK);
  return true;
}

/* host.start(f): a process that calls f; nil and a message when there can be none now. */
static int start(lua_State *L) {
  int fd[PIPES][2];
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (lb_files_forbidden(L)) return luaL_error(L, "a sandbox cannot start processes");
  lua_settop(L, 1);
  /* The object is there before the fork, so that nothing is lost on an error. */
  process *p = lua_newuserdatauv(L, sizeof *p, 0);
  *p = (process){.owner = getpid(), .fd = {-1, -1}};
  const isa_alloc al = isa_alloc_default();
  for (int i = 0; i < PIPES; i++) isa_buf_init(&p->got[i], &al);
  luaL_setmetatable(L, PROCESS_CLASS);
  bool good = open_pipes(fd);
  if (good) {
    fflush(NULL); /* what is in the buffers is printed once, by this process */
    p->pid = fork();
    if (p->pid == 0) run_child(L, p->owner, fd[RESULT][1], fd[PRINTED][1]);
    /* errno is kept for the message, as close may change it. */
    good = p->pid > 0;
    int error = errno;
    for (int i = 0; i < PIPES; i++) {
      /* A child that is started later would else hold this one's pipe open after its end. */
      close(fd[i][1]);
      p->fd[i] = fd[i][0];
    }
    errno = error;
  }
  if (good) return 1;
  /* There is no process to be ended. */
  p->pid = 0;
  lua_pushnil(L);
  lua_pushstring(L, strerror(errno));
  return 2;
}

/* Takes what is there to be read; false at the end of the pipe.
 * Until the pipe is empty, which is no end. */
static bool take(process *p, int i) {
  char chunk[4096];
  ssize_t k;
  while ((k = read(p->fd[i], chunk, sizeof chunk)) > 0) isa_buf_add(&p->got[i], chunk, (size_t)k);
  return k < 0 && (errno == EAGAIN || errno == EINTR);
}

/* The pipe of its output may be closed already. */
static bool ended(process *p, const struct pollfd *seen) {
  if (p->fd[PRINTED] >= 0 && seen[PRINTED].revents && !take(p, PRINTED)) close_fd(&p->fd[PRINTED]);
  /* The end of the result is the child's end; its output may be held open by what it started. */
  if (!seen[RESULT].revents || take(p, RESULT)) return false;
  close_fd(&p->fd[RESULT]);
  reap(p);
  if (p->fd[PRINTED] >= 0) take(p, PRINTED);
  close_fd(&p->fd[PRINTED]);
  return true;
}

/* host.wait(processes [, milliseconds]): the index of one that has ended, of those in the sequence;
 * nil when none has for that while, or a signal came. */
static int wait_any(lua_State *L) {
  /* The sequence may be empty: then it only waits. */
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Unsigned n = lua_rawlen(L, 1);
  struct pollfd *fds = lua_newuserdatauv(L, (n + 1) * PIPES * sizeof *fds, 0);
  process **list = lua_newuserdatauv(L, (n + 1) * sizeof(process *), 0);
  for (lua_Unsigned i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    list[i] = check(L, -1);
    for (int k = 0; k < PIPES; k++)
      fds[i * PIPES + (unsigned)k] = (struct pollfd){list[i]->fd[k], POLLIN, 0};
    lua_pop(L, 1);
  }
  int patience = (int)luaL_optinteger(L, 2, PATIENCE_MS);
  /* 0 is the end of the time, less a signal. */
  if (poll(fds, (nfds_t)(n * PIPES), patience) <= 0) return 0;
  for (lua_Unsigned i = 0; i < n; i++)
    if (list[i]->pid != 0 && ended(list[i], fds + i * PIPES)) {
      lua_pushinteger(L, (lua_Integer)i + 1);
      return 1;
    }
  return 0;
}

/* host.collect(process), which has ended: what its function gave and what it printed, strings; or
 * nil, what it printed, how it ended, and the number of the signal that ended it, if one did. */
static int collect(lua_State *L) {
  process *p = check(L, 1);
  /* Both stay in the object until it is closed. */
  const isa_buf *result = &p->got[RESULT], *printed = &p->got[PRINTED];
  /* A child that fails gives no result; its status alone could be that of os.exit. */
  bool good = WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0 && result->len > 0;
  if (good && !result->failed)
    lua_pushlstring(L, result->data, result->len);
  else
    lua_pushnil(L);
  lua_pushlstring(L, printed->len > 0 ? printed->data : "", printed->len);
  if (result->failed)
    lua_pushliteral(L, "memory ran out");
  else if (WIFSIGNALED(p->status))
    lua_pushfstring(L, "its process was ended by signal %d", WTERMSIG(p->status));
  else
    lua_pushfstring(L, "its process ended early, with status %d", WEXITSTATUS(p->status));
  if (!WIFSIGNALED(p->status)) return 3;
  lua_pushinteger(L, WTERMSIG(p->status));
  return 4;
}

/* host.processors(): how many there are. */
static int processors(lua_State *L) {
  /* At least one, whatever the system says. */
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  lua_pushinteger(L, n > 0 ? n : 1);
  return 1;
}

const luaL_Reg lb_process_functions[] = {{"start", start},
                                         {"wait", wait_any},
                                         {"collect", collect},
                                         {"processors", processors},
                                         {NULL, NULL}};

void lb_open_process(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", process_close}, {"__close", process_close}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"close", process_close}, {NULL, NULL}};
  lb_class(L, PROCESS_CLASS, meta, methods);
}
