/* A process for what is not trusted, which the system's limits and a filter of system calls bound.
 *
 * It is a copy of this process, which has read the inputs, and has an open file without a name for
 * each output. The copy can open nothing; this process has nothing of the script's in it. It passes
 * on what the copy prints, ends it when its time is over or it prints too much, and says how it
 * ended. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "lines.h"
#include "soma_sandbox.h"
#include "syscalls.h"

/* How it ended, as its exit status says it; 0 to OWN - 1 are the script's. lua/README.md has them.

 * Above the script's own statuses, so that a caller can tell the two apart; 2 is a
 * fault of the command line. */
enum { OWN = 100, TIME = 101, MEMORY = 102, OUTPUT = 103, CRASH = 104, HOST = 2 };

/* Its pipes: what it prints, and what it says of its end.
 * The pipe of its end is apart from what it prints, so that a script cannot forge an
 * end. */
enum { PRINTED, ERRORS, ENDING, PIPES };

typedef struct confinement {
  double seconds, cpu_seconds; /* the second: 0, no limit */
  lua_Integer memory, output;
  bool filtered, hooked, captured;
} confinement;

static const char interrupted[] = "interrupted";
static const char too_long[] = "the time limit of --max-seconds is reached";
static const char too_much[] = "the limit of processor time of --max-cpu-seconds is reached";

/* ---- The script's process ------------------------------------------------------------------ */

static volatile sig_atomic_t expired; /* the signal of the clock whose time is over */

/* Only this, since little else is safe in a signal handler. */
static void on_alarm(int sig) { expired = sig; }

static const char *expired_text(void) { return expired == SIGPROF ? too_much : too_long; }

/* Runs at every call and every thousand instructions of each coroutine; once the time is over, at
 * every instruction, so that no pcall continues. */
static void watch(lua_State *L, lua_Debug *ar) {
  (void)ar;
  /* Checked often and cheaply: mostly the time is not over. */
  if (!expired) return;
  /* From here on at every instruction: a pcall cannot go on. */
  lua_sethook(L, watch, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
  luaL_where(L, 0);
  lua_pushstring(L, expired_text());
  lua_concat(L, 2);
  lua_error(L);
}

/* Lowers a limit for good. */
#define LIMIT(resource, n) (setrlimit((resource), &(struct rlimit){(n), (n)}) == 0)

/* Whether the system's limit of processor time comes from --max-cpu-seconds.
 * Otherwise the limit of seconds bounds processor time too. */
static bool cpu_bounds(const confinement *c) {
  return c->cpu_seconds > 0 && c->cpu_seconds < c->seconds;
}

/* What the system refuses to whatever gets out of Lua. Address space is a bound far above that of
 * the allocators, for what does not go through them. */
static bool lower_limits(const confinement *c) {
  rlim_t memory = (rlim_t)c->memory, space = 2 * memory + ((rlim_t)1 << 29);
  /* Half a second more, so that the clock of the process itself comes first. */
  rlim_t cpu = (rlim_t)(cpu_bounds(c) ? ceil(c->cpu_seconds + 0.5) : c->seconds + 3);
  /* No file can be opened from here on; those that are open stay so. */
  bool good = LIMIT(RLIMIT_NOFILE, 0) && LIMIT(RLIMIT_CORE, 0);
  struct rlimit now;
  /* A limit may be lowered, not raised. */
  if (getrlimit(RLIMIT_FSIZE, &now) == 0 && now.rlim_max > memory)
    good = LIMIT(RLIMIT_FSIZE, memory) && good;
  if (getrlimit(RLIMIT_CPU, &now) == 0 && now.rlim_max > cpu) /* SIGXCPU first, then SIGKILL */
    good = setrlimit(RLIMIT_CPU, &(struct rlimit){cpu, cpu + 1}) == 0 && good;
/* No second process or thread. */
#if defined(RLIMIT_NPROC)
  good = LIMIT(RLIMIT_NPROC, 0) && good;
#endif
#if defined(RLIMIT_AS)
  if (!SOMA_SANITIZED && getrlimit(RLIMIT_AS, &now) == 0 && now.rlim_max > space)
    good = LIMIT(RLIMIT_AS, space) && good;
#else
  (void)space;
#endif
  return good;
}

/* A clock that fires once. */
static void start_clock(int clock, int sig, double seconds) {
  struct itimerval t = {{0, 0}, {(time_t)seconds, (suseconds_t)(fmod(seconds, 1) * 1e6)}};
  /* A time of 0 would stop the clock. */
  if (t.it_value.tv_sec == 0 && t.it_value.tv_usec == 0) t.it_value.tv_usec = 1;
  sigaction(sig, &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART}, NULL);
  setitimer(clock, &t, NULL);
}

/* Whether fd is of an open file in the table at index 2.
 * The table holds open files by names that do not matter here. */
static bool is_lent(lua_State *L, int fd) {
  bool found = false;
  lua_pushnil(L);
  while (lua_next(L, 2) != 0) {
    const luaL_Stream *s = luaL_testudata(L, -1, LUA_FILEHANDLE);
    found = found || (s != NULL && s->closef != NULL && fileno(s->f) == fd);
    lua_pop(L, 1);
  }
  /* A closed file in the table has no descriptor any more. */
  return found;
}

/* Closes what whoever started this process has left open.
 * The pipe of its end has to stay open. */
static void close_others(lua_State *L, int keep) {
  enum { MOST = 65536 };
  DIR *d = opendir("/proc/self/fd");
  /* Without /proc all numbers are tried. */
  if (d == NULL) {
    for (int fd = STDERR_FILENO + 1; fd < MOST; fd++)
      if (fd != keep && !is_lent(L, fd)) close(fd);
    return;
  }
  for (const struct dirent *e; (e = readdir(d)) != NULL;) {
    /* "." and ".." give 0, which is not above standard error. */
    int fd = atoi(e->d_name);
    /* Not the folder that is being read. */
    if (fd > STDERR_FILENO && fd != keep && fd != dirfd(d) && !is_lent(L, fd)) close(fd);
  }
  closedir(d);
}

/* The walls, outermost last: nothing opens a file after them. What went wrong, or NULL. */
static const char *close_walls(lua_State *L, const confinement *c, int (*fd)[2]) {
  static char at_exit[1 << 12], printed[1 << 14];
  bool terminal = isatty(STDOUT_FILENO) && !c->captured;
  /* The handlers of the command would go on with what the script is not to do. */
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  signal(SIGXFSZ, SIG_IGN); /* the write fails instead */
  /* Nothing reads the terminal for a script that is not trusted. */
  close(STDIN_FILENO);
  /* From here on all that it prints goes through the parent. */
  if (dup2(fd[PRINTED][1], STDOUT_FILENO) < 0 || dup2(fd[ERRORS][1], STDERR_FILENO) < 0)
    return strerror(errno);
  /* A terminal shows each line at once. */
  setvbuf(stdout, printed, terminal ? _IOLBF : _IOFBF, sizeof printed);
  setvbuf(stderr, at_exit, _IOLBF, sizeof at_exit);
  close_others(L, fd[ENDING][1]);
  /* Before the limits, since it opens a file. */
  tzset(); /* reads the time zone's file */
  if (!lower_limits(c)) return strerror(errno);
  /* A thousand instructions between looks cost little and stop soon enough. */
  if (c->hooked) lua_sethook(L, watch, LUA_MASKCALL | LUA_MASKCOUNT, 1000);
  start_clock(ITIMER_REAL, SIGALRM, c->seconds);
  if (c->cpu_seconds > 0) start_clock(ITIMER_PROF, SIGPROF, c->cpu_seconds);
  /* The last wall: the calls before it would be refused. */
  if (!c->filtered || soma_filter_load() == 0) return NULL;
  return "this system lets no filter of system calls be set; --no-filter runs without one";
}

static void tell(int fd, const char *text) {
  /* More than a pipe holds would block, and the parent may not be reading yet. */
  size_t n = strlen(text);
  enum { MOST = 1 << 14 }; /* that the pipe holds at once */
  ssize_t k = write(fd, text, n < MOST ? n : MOST);
  (void)k;
}

/* Calls the function on the top, which gives an exit status and, if it is known, why; ends the
 * process without the exit handlers and finalisers of the one it is a copy of. */
static void run_child(lua_State *L, const confinement *c, pid_t parent, int (*fd)[2]) {
#if defined(__linux__)
  /* Whoever kills the command does not leave the script behind. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  /* A filter without privileges needs this. */
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#endif
  int ending = fd[ENDING][1], status = 1;
  /* Its parent has ended before the signal was asked for. */
  if (getppid() != parent) _exit(HOST);
  const char *wrong = close_walls(L, c, fd), *why = NULL;
  if (wrong != NULL) {
    tell(ending, "the sandbox cannot be closed: ");
    tell(ending, wrong);
    _exit(HOST);
  }
  if (lua_pcall(L, 0, 2, 0) == LUA_OK) {
    /* The low byte is all that the system passes on. */
    status = (int)lua_tointeger(L, -2) & 255;
    why = lua_tostring(L, -1);
  } else
    wrong = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error without a message";
  /* The hook must not stop what is done from here on. */
  lua_sethook(L, NULL, 0, 0);
  void *budget;
  /* A refused allocation and an error that names memory: then the limit was the cause. */
  bool refused = lua_getallocf(L, &budget) == lb_budget_alloc && ((lb_budget *)budget)->refused;
  if (expired) {
    /* Over the time is over the time, even if the script ended well. */
    status = TIME;
    if (wrong == NULL) wrong = expired_text();
  } else if (wrong != NULL && refused && strstr(wrong, "memory") != NULL)
    status = MEMORY;
  if (wrong == NULL) wrong = why;
  /* Its own words, if there are any, or those of the function. */
  if (wrong != NULL) tell(ending, wrong);
  /* What it printed could not be passed on. */
  if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0) status = 1;
  fflush(stderr);
  /* Not exit: handlers of the parent's would run a second time. */
  _exit(status);
}

/* ---- The process that waits ---------------------------------------------------------------- */

enum { GRACE_MS = 1000 }; /* for the script's own process to end in order, when its time is over */

typedef struct child {
  pid_t pid;
  int fd[PIPES];       /* to read; -1: closed */
  isa_buf got[PIPES];  /* what is kept of it */
  lua_Integer left;    /* bytes that it may still print */
  const char *why;     /* it has been ended */
  int verdict;         /* with this status; 0: it ended itself */
  struct rusage usage; /* when it has ended */
  int status;          /* as waitpid gives it */
} child;

/* The first reason stays: an end by time is not turned into one of output. */
static void end_child(child *c, int verdict, const char *why) {
  if (c->verdict != 0) return;
  kill(c->pid, SIGKILL);
  c->verdict = verdict;
  c->why = why;
}

/* Takes what is there to be read, and passes it on or keeps it; closes the pipe at its end. Whether
 * there may be more. */
static bool take(child *c, int i, bool captured) {
  static FILE *const *const to[] = {&stdout, &stderr};
  enum { LONGEST = 1 << 16 }; /* of what it says of its end */
  /* Less than a pipe holds, so several turns may be needed for one burst. */
  char chunk[1 << 14];
  ssize_t n = read(c->fd[i], chunk, sizeof chunk);
  /* Not an end: a signal has come in between. */
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno == EAGAIN) return false;
  /* The end of the pipe, or an error that reading again would not mend. */
  if (n <= 0) {
    close(c->fd[i]);
    c->fd[i] = -1;
    return false;
  }
  /* What it says of its end does not count as printed. */
  lua_Integer room = i == ENDING ? LONGEST - (lua_Integer)c->got[i].len : c->left;
  size_t fits = n < room ? (size_t)n : (size_t)room;
  if (i != ENDING) c->left -= (lua_Integer)fits;
  if (i == ENDING || captured) {
    isa_buf_add(&c->got[i], chunk, fits);
  } else {
    fwrite(chunk, 1, fits, *to[i]);
    /* At once, as a user watches it. */
    fflush(*to[i]);
  }
  /* What is over the limit is dropped. */
  if (fits < (size_t)n) end_child(c, OUTPUT, "it has printed more than --max-output allows");
  return fits == (size_t)n;
}

/* Waits for the end of a process that has closed its pipes, or was ended. */
static void reap(child *c, double end) {
  for (;;) {
    /* It may have closed its pipes and run on.
     * Ended by this process it will end soon, so this waits; otherwise time is watched
     * as well. */
    pid_t got = wait4(c->pid, &c->status, c->verdict == 0 ? WNOHANG : 0, &c->usage);
    if (got == c->pid || (got < 0 && errno != EINTR)) return;
    if (lb_host_seconds() > end) end_child(c, TIME, too_long);
    if (soma_interrupted()) end_child(c, CRASH, interrupted);
    /* A millisecond, so that an end is seen soon without a busy wait. */
    if (got == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
}

/* Passes on what it prints until it has ended; after its time, and at a Ctrl-C, ends it. */
static void watch_child(child *c, const confinement *w) {
  /* The process has time to end in order before it is killed. */
  double end = lb_host_seconds() + w->seconds + GRACE_MS * 1e-3;
  /* Until all three pipes are closed, which is the case when the process has ended. */
  while (c->verdict == 0 && (c->fd[PRINTED] >= 0 || c->fd[ERRORS] >= 0 || c->fd[ENDING] >= 0)) {
    struct pollfd p[PIPES];
    double left = fmax(0, end - lb_host_seconds());
    for (int i = 0; i < PIPES; i++) p[i] = (struct pollfd){c->fd[i], POLLIN, 0};
    /* At least a millisecond, at most a second. */
    int n = poll(p, PIPES, (int)(fmin(left, 1000) * 1e3) + 1);
    for (int i = 0; i < PIPES && n > 0; i++)
      if (p[i].revents != 0) take(c, i, w->captured);
    if (left <= 0) end_child(c, TIME, too_long);
    if (soma_interrupted()) end_child(c, CRASH, interrupted);
  }
  reap(c, end);
  for (int i = 0; i < PIPES; i++) { /* what stood in the pipes when it was ended */
    if (c->fd[i] < 0) continue;
    fcntl(c->fd[i], F_SETFL, O_NONBLOCK);
    /* An end by output stops the reading: the rest may be endless. */
    while (c->verdict != OUTPUT && take(c, i, w->captured)) continue;
    if (c->fd[i] >= 0) close(c->fd[i]);
  }
}

static void set_text(lua_State *L, const char *key, const isa_buf *b) {
  lua_pushlstring(L, b->len > 0 ? b->data : "", b->len);
  lua_setfield(L, -2, key);
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

/* Pushes why it ended, or nil.
 * A signal that ended the process says more than its status. */
static void push_reason(lua_State *L, const child *c, const confinement *w) {
  int sig = WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0;
  if (c->why != NULL) /* A verdict of this process comes first. */
    lua_pushstring(L, c->why);
  else if (sig == SIGXCPU)
    /* The system's limit of processor time may be either of two. */
    lua_pushstring(L, cpu_bounds(w) ? too_much : too_long);
  else if (sig == SIGSYS)
    lua_pushliteral(L, "it has made a system call that a sandbox does not allow");
  /* Any other signal, as that of a fault in memory. */
  else if (sig != 0)
    lua_pushfstring(L, "its process was ended by signal %d", sig);
  else if (c->got[ENDING].len > 0)
    lua_pushlstring(L, c->got[ENDING].data, c->got[ENDING].len);
  else
    lua_pushnil(L);
}

/* Leaves a table {status, interrupted, message, stdout, stderr, seconds, cpu_seconds,
 * memory_bytes}. */
static void push_end(lua_State *L, const child *c, const confinement *w, double seconds) {
  /* The same order of causes as in push_reason. */
  int sig = WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0;
  int status = c->verdict != 0  ? c->verdict
               : sig == SIGXCPU ? TIME
               : sig != 0       ? CRASH
                                : WEXITSTATUS(c->status);
  lua_newtable(L);
  lb_set_count(L, "status", (uint64_t)status);
  lb_set_flag(L, "interrupted", c->why == interrupted);
  push_reason(L, c, w);
  lua_setfield(L, -2, "message");
  /* Empty texts unless they were captured. */
  set_text(L, "stdout", &c->got[PRINTED]);
  set_text(L, "stderr", &c->got[ERRORS]);
  lb_set_number(L, "seconds", seconds);
  lb_set_number(L, "cpu_seconds", seconds_of(c->usage.ru_utime) + seconds_of(c->usage.ru_stime));
  /* Linux counts kibibytes. */
  lb_set_count(L, "memory_bytes", (uint64_t)c->usage.ru_maxrss * 1024);
}

static bool open_pipes(int (*fd)[2]) {
  /* All pipes or none. */
  for (int i = 0; i < PIPES; i++)
    if (pipe(fd[i]) != 0) {
      for (int k = 0; k < i; k++) close(fd[k][0]), close(fd[k][1]);
      return false;
    }
  return true;
}

static confinement take_options(lua_State *L) {
  static const char *const known[] = {"seconds", "cpu_seconds", "memory",  "output",
                                      "filter",  "hook",        "capture", NULL};
  /* Far above any machine's memory, and still a number of Lua. */
  const lua_Integer most = (lua_Integer)1 << 48;
  lb_options(L, 1, "confine", known);
  return (confinement){.seconds = lb_number(L, 1, "confine", "seconds", 0),
                       .cpu_seconds = lb_number(L, 1, "confine", "cpu_seconds", 0),
                       .memory = lb_integer(L, 1, "confine", "memory", 1, most, 1),
                       .output = lb_integer(L, 1, "confine", "output", 1, most, 1),
                       .filtered = lb_bool(L, 1, "confine", "filter", true),
                       .hooked = lb_bool(L, 1, "confine", "hook", true),
                       .captured = lb_bool(L, 1, "confine", "capture", false)};
}

/* host.confine({seconds, cpu_seconds, memory, output, filter, hook, capture}, files, f): f, which
 * gives an exit status, runs in a process that can open no file, start no process, use only the
 * open files of the table, write no more than `memory` bytes to one, and print no more than
 * `output` bytes, which are passed on or, with capture, kept. After so many seconds, of the host or
 * of its processors, it is ended; with hook Lua itself is. Gives a table that says how it ended. */
int soma_confine(lua_State *L) {
  confinement w = take_options(L);
  int fd[PIPES][2];
  const isa_alloc al = isa_alloc_default();
  child c = {.left = w.output};
  pid_t self = getpid();
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  /* A build without a filter runs without one. */
  if (w.filtered && soma_filter_name() == NULL) w.filtered = false;
  if (!open_pipes(fd)) return luaL_error(L, "cannot make a pipe: %s", strerror(errno));
  for (int i = 0; i < PIPES; i++) isa_buf_init(&c.got[i], &al);
  fflush(NULL); /* what is in the buffers is printed once, by this process */
  double start = lb_host_seconds();
  c.pid = fork();
  /* Never comes back. */
  if (c.pid == 0) run_child(L, &w, self, fd);
  /* What follows may change errno. */
  int error = errno;
  for (int i = 0; i < PIPES; i++) {
    close(fd[i][1]);
    c.fd[i] = fd[i][0];
  }
  if (c.pid > 0) watch_child(&c, &w);
  if (c.pid > 0) push_end(L, &c, &w, lb_host_seconds() - start);
  for (int i = 0; i < PIPES; i++) {
    isa_buf_free(&c.got[i]);
    if (c.pid < 0) close(c.fd[i]);
  }
  if (c.pid < 0) return luaL_error(L, "cannot start a process: %s", strerror(error));
  return 1;
}
