/* The sandbox of the command: a process of its own for a script, with limits of the system around
 * those of the Lua state; and the files of its results.
 *
 * The script runs in a copy of this process, which has read the inputs, and has an open file
 * without a name for each output. The copy can open nothing; this process has nothing of the
 * script's in it, waits, ends the copy when its time is over, and names the files. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "soma_sandbox.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* whose shadow memory needs address space without end */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- Memory -------------------------------------------------------------------------------- */

/* host.bytes(text): "4096", "64K", "512M", "2G" as a number; nil when it is not from 1 to 2^48. */
static int bytes(lua_State *L) {
  static const char units[] = "KMG";
  const char *s = luaL_checkstring(L, 1);
  char *end;
  errno = 0;
  unsigned long long n = *s >= '0' && *s <= '9' ? strtoull(s, &end, 10) : 0;
  const char *unit = n > 0 && *end != '\0' ? strchr(units, *end) : NULL;
  unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
  if (n == 0 || errno != 0 || end[unit != NULL] != '\0' || n > (UINT64_C(1) << 48) >> shift)
    return 0;
  lua_pushinteger(L, (lua_Integer)(n << shift));
  return 1;
}

/* host.limit_memory(bytes): of this Lua state and of the machines that it makes from now on. */
static int limit_memory(lua_State *L) {
  void *ud;
  lua_Integer n = luaL_checkinteger(L, 1);
  if (lua_getallocf(L, &ud) != lb_budget_alloc) return luaL_error(L, "the state has no budget");
  ((lb_budget *)ud)->limit = (size_t)n;
  return 0;
}

/* ---- Outputs ------------------------------------------------------------------------------- */

/* Whether a new file may get that name; else nil and a message are pushed. A link may not: what it
 * leads to was not named. */
static bool may_write(lua_State *L, const char *path) {
  struct stat st;
  if (lstat(path, &st) != 0 || S_ISREG(st.st_mode)) return true;
  lua_pushnil(L);
  lua_pushfstring(L, "cannot write '%s': it is %s, not a plain file", path,
                  S_ISLNK(st.st_mode)   ? "a symbolic link"
                  : S_ISDIR(st.st_mode) ? "a folder"
                                        : "a device or a pipe");
  return false;
}

/* host.check_output(path): true when a file can be written there; else nil and a message. */
static int check_output(lua_State *L) {
  const char *path = lb_path(L, 1);
  lb_file *f = may_write(L, path) ? lb_file_create(L, path) : NULL;
  if (f == NULL) return 2;
  lb_file_close(f);
  lua_pushboolean(L, true);
  return 1;
}

/* host.save_output(file, path): copies an open file to a new one; true, or nil and a message. */
static int save_output(lua_State *L) {
  luaL_Stream *from = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  const char *path = lb_path(L, 2);
  lb_file *f = may_write(L, path) ? lb_file_create(L, path) : NULL;
  if (f == NULL) return 2;
  char chunk[1 << 14];
  rewind(from->f);
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, from->f)) > 0;) fwrite(chunk, 1, n, f->f);
  if (ferror(from->f)) return luaL_error(L, "cannot read what the script has saved");
  if (!lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

/* ---- The script's process ------------------------------------------------------------------ */

static volatile sig_atomic_t expired;
static const char too_long[] = "the time limit of --max-seconds is reached";

static void on_alarm(int sig) {
  (void)sig;
  expired = 1;
}

/* Runs at every call and every thousand instructions of each coroutine; once the time is over, at
 * every instruction, so that no pcall continues. */
static void watch(lua_State *L, lua_Debug *ar) {
  (void)ar;
  if (!expired) return;
  lua_sethook(L, watch, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
  luaL_where(L, 0);
  lua_pushstring(L, too_long);
  lua_concat(L, 2);
  lua_error(L);
}

/* Lowers a limit for good. */
#define LIMIT(resource, n) (setrlimit((resource), &(struct rlimit){(n), (n)}) == 0)

/* The second wall: what the system refuses to whatever gets out of Lua. Address space is a bound
 * far above that of the allocators, for what does not go through them. */
static bool lower_limits(double seconds, lua_Integer memory) {
  rlim_t cpu = (rlim_t)seconds + 3, space = 2 * (rlim_t)memory + ((rlim_t)1 << 29);
  bool good = LIMIT(RLIMIT_NOFILE, 0) && LIMIT(RLIMIT_CORE, 0);
  struct rlimit now;
  if (getrlimit(RLIMIT_FSIZE, &now) == 0 && now.rlim_max > (rlim_t)memory)
    good = LIMIT(RLIMIT_FSIZE, (rlim_t)memory) && good;
  if (getrlimit(RLIMIT_CPU, &now) == 0 && now.rlim_max > cpu) good = LIMIT(RLIMIT_CPU, cpu) && good;
#if defined(RLIMIT_NPROC)
  good = LIMIT(RLIMIT_NPROC, 0) && good;
#endif
#if defined(RLIMIT_AS)
  if (!SANITIZED && getrlimit(RLIMIT_AS, &now) == 0 && now.rlim_max > space)
    good = LIMIT(RLIMIT_AS, space) && good;
#else
  (void)space;
#endif
  return good;
}

static void start_clock(double seconds) {
  struct itimerval t = {{0, 0}, {(time_t)seconds, (suseconds_t)(fmod(seconds, 1) * 1e6)}};
  if (t.it_value.tv_sec == 0 && t.it_value.tv_usec == 0) t.it_value.tv_usec = 1;
  sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART}, NULL);
  setitimer(ITIMER_REAL, &t, NULL);
}

/* Calls the function on the top, which gives an exit status, and ends the process without the
 * exit handlers and finalisers of the one it is a copy of. */
static void run_child(lua_State *L, pid_t parent, double seconds, lua_Integer memory) {
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#endif
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  signal(SIGXFSZ, SIG_IGN); /* the write fails instead */
  close(STDIN_FILENO);
  if (getppid() != parent || !lower_limits(seconds, memory)) {
    fprintf(stderr, "soma: the sandbox cannot be closed: %s\n", strerror(errno));
    _exit(1);
  }
  lua_sethook(L, watch, LUA_MASKCALL | LUA_MASKCOUNT, 1000);
  start_clock(seconds);
  int status = 1;
  const char *wrong = NULL;
  if (lua_pcall(L, 0, 1, 0) == LUA_OK)
    status = (int)lua_tointeger(L, -1) & 255;
  else
    wrong = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error without a message";
  lua_sethook(L, NULL, 0, 0);
  if (expired) {
    if (wrong == NULL) wrong = too_long;
    status = 1;
  }
  bool memory_out = wrong != NULL && strcmp(wrong, "not enough memory") == 0;
  if (wrong != NULL) fprintf(stderr, "soma: %s%s\n", wrong, memory_out ? ": see --max-memory" : "");
  if (fflush(stdout) != 0 || ferror(stdout)) status = status != 0 ? status : 1;
  _exit(status);
}

/* ---- The process that waits ---------------------------------------------------------------- */

enum { GRACE_MS = 1000 }; /* for the script's own process to end in order, when its time is over */

/* Waits until the other end of the pipe is closed, which is when the process ends, at most so long;
 * then, and at a Ctrl-C, ends it. */
static int wait_for(pid_t pid, int fd, double seconds, bool *late) {
  struct pollfd p = {fd, POLLIN, 0};
  int status = 0;
  double end = lb_host_seconds() + seconds + GRACE_MS * 1e-3;
  do {
    double left = end - lb_host_seconds();
    *late = left <= 0;
    if (*late) break;
    int n = poll(&p, 1, (int)(fmin(left, 1000) * 1e3) + 1);
    if (n > 0 || (n < 0 && errno == EINTR)) break;
  } while (true);
  if (!p.revents) kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

static int push_ending(lua_State *L, int status, bool late) {
  if (WIFEXITED(status)) {
    lua_pushinteger(L, WEXITSTATUS(status));
    return 1;
  }
  lua_pushnil(L);
  if (late || WTERMSIG(status) == SIGXCPU)
    lua_pushstring(L, too_long);
  else
    lua_pushfstring(L, "the script's process was ended by signal %d", WTERMSIG(status));
  return 2;
}

/* host.confine(seconds, memory, f): f, which gives an exit status, runs in a process that can open
 * no file, start no process, and write no more than `memory` bytes to a file; after so many
 * seconds it is ended. The status; or nil and how it ended. */
static int confine(lua_State *L) {
  double seconds = luaL_checknumber(L, 1);
  lua_Integer memory = luaL_checkinteger(L, 2);
  int fd[2];
  bool late = false;
  pid_t self = getpid();
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  if (pipe(fd) != 0) return luaL_error(L, "cannot make a pipe: %s", strerror(errno));
  fflush(NULL); /* what is in the buffers is printed once, by this process */
  pid_t pid = fork();
  if (pid == 0) run_child(L, self, seconds, memory);
  int error = errno;
  close(fd[1]);
  int status = pid > 0 ? wait_for(pid, fd[0], seconds, &late) : 0;
  close(fd[0]);
  if (pid < 0) return luaL_error(L, "cannot start a process: %s", strerror(error));
  return push_ending(L, status, late);
}

/* host.forbid_files(names): see lb_forbid_files. */
static int forbid_files(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lb_forbid_files(L);
  return 0;
}

const luaL_Reg soma_sandbox_functions[] = {{"bytes", bytes},
                                           {"limit_memory", limit_memory},
                                           {"check_output", check_output},
                                           {"save_output", save_output},
                                           {"forbid_files", forbid_files},
                                           {"confine", confine},
                                           {NULL, NULL}};
