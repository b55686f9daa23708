/* The soma command: runs a Lua script with the module at hand, or a program by driver.lua. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lualib.h>

#include "lines.h"
#include "soma_sandbox.h"
#include "job.h"

/* The command's own files in Lua. */
static const lb_part parts[] = {
#include "parts.inc"
    {NULL, NULL}};

static const soma_job *job;    /* NULL: the process is alone */
static const char *only;       /* the part that the command is; NULL: any of them */
static lua_State *interrupted; /* where Ctrl-C goes; the command has one state */
static volatile sig_atomic_t was_interrupted, by_signal;
static volatile sig_atomic_t attended, ending; /* somebody is; a signal ends all that they do */
static volatile int64_t first_interrupt;
enum {
  INTERRUPTED = 128 + SIGINT, /* exit status, as shells give it */
  MOST_STATUS = 255           /* of those that the system does not cut to eight bits */
};

/* Set as a hook by the signal, so that it runs where Lua is in order. */
static void stop(lua_State *L, lua_Debug *ar) {
  (void)ar;
  /* At a signal that ends the command the hook stays, so that no pcall goes on. */
  if (!ending) lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted");
}

/* Milliseconds of a clock that only goes on. */
static int64_t clock_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* As the stock interpreter does it: an error is raised at the next call, which during a run is
 * the one that reports progress. A pattern that is matched for ever makes no call: the second ends
 * the process at once. One that comes with the first is not the second: a program that passes the
 * signal on to its group, such as timeout, makes one Ctrl-C two. */
static void on_interrupt(int sig) {
  enum { APART = 200 };
  /* Prepared text, since a handler cannot format any. */
  static const char ended[] = "\nsoma: interrupted twice: ended at once, files are not written\n";
  int64_t now = clock_ms();
  by_signal = sig;
  if (was_interrupted && now - first_interrupt >= APART) {
    /* Half-written temporary files would stay behind. */
    lb_unlink_files();
    ssize_t n = write(STDERR_FILENO, ended, sizeof ended - 1);
    (void)n;
    /* As if nobody had caught it: the exit status tells. */
    signal(sig, SIG_DFL);
    raise(sig);
  }
  if (!was_interrupted) first_interrupt = now;
  was_interrupted = 1;
  /* Where somebody is attended Ctrl-C ends what runs, and the others the command. */
  if (attended && sig != SIGINT) ending = 1;
  /* At every event, so that it is the very next one. */
  lua_sethook(interrupted, stop, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

/* host.part(name, ...): what the part gives for these arguments */
static int part(lua_State *L) {
  if (lb_load_part(L, parts, luaL_checkstring(L, 1), "=soma") != LUA_OK) return lua_error(L);
  lua_replace(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

/* host.listen(): a Ctrl-C before this does not count any more. */
static int listen_again(lua_State *L) {
  soma_listen(L);
  return 0;
}

void soma_listen(lua_State *L) {
  /* Nothing is listened to any more. */
  if (ending) luaL_error(L, "interrupted");
  /* From here on a Ctrl-C is the first again. */
  was_interrupted = 0;
  lua_sethook(L, NULL, 0, 0);
}

bool soma_interrupted(void) { return was_interrupted; }

bool soma_attend(bool on) {
  static const int signals[] = {SIGTERM, SIGHUP};
  bool before = attended;
  attended = on;
  for (int i = 0; i < 2; i++) {
    struct sigaction a;
    /* Only if they are caught at all. */
    if (sigaction(signals[i], NULL, &a) != 0 || a.sa_handler != on_interrupt) continue;
    a.sa_flags = on ? 0 : SA_RESTART; /* it ends a read, too */
    sigaction(signals[i], &a, NULL);
  }
  return before;
}

/* host.fits_name(path, text): whether a text, or data, may be written there; else nil and why. */
static int fits_name(lua_State *L) {
  if (!lb_fits_name(L, luaL_checkstring(L, 1), lua_toboolean(L, 2))) return 2;
  lua_pushboolean(L, true);
  return 1;
}

/* host.dtype_hint(name): the name where a .npy file holds such elements as plain bits, else nil. */
static int dtype_hint(lua_State *L) {
  unsigned d = lb_dtype(L, 1);
  /* NumPy lacks the others. */
  bool numpy_has_it = isa_dtypes[d].cls == ISA_INT || isa_dtypes[d].cls == ISA_UINT ||
                      isa_dtypes[d].cls == ISA_BOOL || d == ISA_float16 || d == ISA_float32;
  lua_pushstring(L, numpy_has_it ? NULL : isa_dtypes[d].name);
  return 1;
}

/* host.pid(); host.pending(fd): whether there is something to read. */
static int pid_of(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}
static int pending(lua_State *L) {
  /* No waiting: 0 milliseconds. */
  struct pollfd p = {.fd = (int)luaL_checkinteger(L, 1), .events = POLLIN};
  lua_pushboolean(L, poll(&p, 1, 0) > 0);
  return 1;
}

/* The table `host` and the arguments after the command's name, as driver.lua wants them. */
static void push_driver_arguments(lua_State *L, int argc, char **argv) {
  static const luaL_Reg functions[] = {{"nearest", lb_nearest_named},
                                       {"fits_name", fits_name},
                                       {"part", part},
                                       {"listen", listen_again},
                                       {"dtype_hint", dtype_hint},
                                       {"pid", pid_of},
                                       {"pending", pending},
                                       {NULL, NULL}};
  const char *no_color = getenv("NO_COLOR");
  lua_newtable(L);
  lb_set_flag(L, "terminal", isatty(STDERR_FILENO));
  lb_set_flag(L, "input_terminal", isatty(STDIN_FILENO));
  lb_set_flag(L, "color", isatty(STDERR_FILENO) && (no_color == NULL || no_color[0] == '\0'));
  luaL_setfuncs(L, functions, 0);
  luaL_setfuncs(L, soma_sandbox_functions, 0);
  luaL_setfuncs(L, lb_row_functions, 0);
  lua_newtable(L);
  /* Without the command's own name. */
  for (int i = 1; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i);
  }
}

static int traceback(lua_State *L) {
  /* A table may have a method for its text. */
  const char *text = luaL_tolstring(L, 1, NULL);
  if (lua_type(L, 1) == LUA_TSTRING) luaL_traceback(L, L, text, 1);
  return 1; /* an error that is a table, such as a fault, speaks for itself */
}

/* Prints an error. Where several processes run the script, those but the first wait first: mostly
 * the first has the same error, and ends them. */
static void complain(const char *text) {
  struct timespec while_first = {.tv_nsec = 300000000};
  if (job && job->rank) nanosleep(&while_first, NULL);
  if (job)
    fprintf(stderr, "soma-mpi: process %d of %d: %s\n", job->rank, job->size, text);
  else
    fprintf(stderr, "soma: %s\n", text);
}

/* os.exit as Lua has it (the upvalue), but an error of a status that the system would wrap. */
static int checked_exit(lua_State *L) {
  if (lua_isnumber(L, 1)) {
    /* A status beyond eight bits would come out as another one. */
    lua_Integer status = luaL_checkinteger(L, 1);
    if (status < 0 || status > MOST_STATUS)
      return luaL_argerror(L, 1,
                           lua_pushfstring(L, "an exit status is 0 to %d, not %I", MOST_STATUS,
                                           (LUAI_UACINT)status));
  }
  bool failed = lua_isboolean(L, 1) && !lua_toboolean(L, 1);
  /* In a job all processes are ended. */
  if (job) job->end(lua_isinteger(L, 1) ? (int)lua_tointeger(L, 1) : failed);
  /* Lua's own function ends the process. */
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  return 0;
}

static void check_exits(lua_State *L) {
  lua_getglobal(L, "os");
  lua_getfield(L, -1, "exit");
  lua_pushcclosure(L, checked_exit, 1);
  lua_setfield(L, -2, "exit");
}

/* Calls what is on the stack with nargs arguments; prints an error and gives its exit status. */
static int call(lua_State *L, int nargs) {
  /* The traceback goes below the function and its arguments. */
  int base = lua_gettop(L) - nargs;
  lua_pushcfunction(L, traceback);
  lua_insert(L, base);
  if (lua_pcall(L, nargs, 1, base) == LUA_OK) {
    if (!lua_isinteger(L, -1)) return 0;
    lua_Integer status = lua_tointeger(L, -1);
    if (status >= 0 && status <= MOST_STATUS) return (int)status;
    fprintf(stderr, "soma: the script returned %lld: an exit status is 0 to %d\n",
            (long long)status, MOST_STATUS);
    return 1;
  }
  /* The hook of an interrupt must not stop what follows. */
  lua_sethook(L, NULL, 0, 0);
  complain(ending ? "interrupted" : lua_tostring(L, -1));
  return was_interrupted ? INTERRUPTED : 1;
}

static int run_script(lua_State *L, int argc, char **argv) {
  lua_newtable(L);
  /* Index -1 is the command, 0 the script, as in the stock interpreter. */
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_setglobal(L, "arg");
  if (luaL_loadfile(L, argv[1]) != LUA_OK) {
    complain(lua_tostring(L, -1));
    return 1;
  }
  /* Each argument is a value on the stack. */
  luaL_checkstack(L, argc, "the script has too many arguments");
  for (int i = 2; i < argc; i++) lua_pushstring(L, argv[i]);
  return call(L, argc - 2);
}

static int run_part(lua_State *L, const char *name, int argc, char **argv) {
  if (lb_load_part(L, parts, name, "=soma") != LUA_OK) {
    fprintf(stderr, "soma: %s\n", lua_tostring(L, -1));
    return 1;
  }
  push_driver_arguments(L, argc, argv);
  return call(L, 2);
}

/* Whether --sandbox stands before the script; after it, it is the script's. */
static bool wants_sandbox(int argc, char **argv) {
  /* The first of the two decides. */
  for (int i = 1; i < argc; i++) {
    size_t n = strlen(argv[i]);
    if (strcmp(argv[i], "--sandbox") == 0) return true;
    if (n > 4 && strcmp(argv[i] + n - 4, ".lua") == 0) return false;
  }
  return false;
}

/* soma --dap: the adapter is soma-nki's, which is beside this command or in PATH. Comes back only
 * if it cannot be started. */
static int start_adapter(void) {
  static char name_of[] = "soma-nki", option[] = "--dap";
  char *words[] = {name_of, option, NULL};
  char path[4096];
  /* The command's own folder first.
   * Room is left for the name that replaces the last part. */
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof name_of);
  path[n > 0 ? n : 0] = '\0';
  char *name = strrchr(path, '/');
  if (name) {
    memcpy(name + 1, name_of, sizeof name_of);
    execv(path, words);
  }
  /* Then the folders of PATH. */
  execvp(words[0], words);
  fprintf(stderr, "soma: --dap needs the command soma-nki, which is neither beside soma nor in "
                  "PATH (Debian: python3-soma)\n");
  return 1;
}

/* Everything that may raise an error happens in here. */
static int protected_main(lua_State *L) {
  /* Passed as an integer and a pointer, since a C function of Lua has no others. */
  int argc = (int)lua_tointeger(L, 1);
  char **argv = lua_touserdata(L, 2);
  lua_settop(L, 0);
  luaL_openlibs(L);
  check_exits(L);
  /* `require "soma"` is this module, wherever a script stands. */
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_soma);
  lua_setfield(L, -2, "soma");
  lua_settop(L, 0);
  soma_preload_lines(L);
  if (job) {
    lua_newtable(L);
    luaL_setfuncs(L, job->functions, 0);
    lb_set_count(L, "rank", (uint64_t)job->rank);
    lb_set_count(L, "size", (uint64_t)job->size);
    lua_setfield(L, LUA_REGISTRYINDEX, LB_JOB);
    lua_pushlightuserdata(L, (void *)(uintptr_t)job->transport);
    /* Kept as light userdata, because Lua knows nothing of it. */
    lua_setfield(L, LUA_REGISTRYINDEX, LB_TRANSPORT);
    lua_pushboolean(L, job->rank != 0);
    lua_setfield(L, LUA_REGISTRYINDEX, LB_NO_OUTPUT);
  }
  /* In this order: a part that is the command, an adapter, a sandbox, code, a script, a
   * program. */
  size_t n = argc > 1 ? strlen(argv[1]) : 0;
  int status;
  bool script = n > 4 && strcmp(argv[1] + n - 4, ".lua") == 0;
  if (only) {
    status = run_part(L, only, argc, argv);
  } else if (job && !script) {
    complain("it runs a script: mpirun -n N soma-mpi SCRIPT.lua [ARGUMENT...]");
    status = 2;
  } else if (argc > 2 && strncmp(argv[1], "--dap=", 6) == 0)
    status = run_part(L, "dap", argc, argv);
  else if (wants_sandbox(argc, argv))
    status = run_part(L, "sandbox", argc, argv);
  else if (n == 2 && (strcmp(argv[1], "-e") == 0 || strcmp(argv[1], "-i") == 0))
    status = run_part(L, "prompt", argc, argv);
  else if (script)
    status = run_script(L, argc, argv);
  else
    status = run_part(L, "driver", argc, argv);
  lua_pushinteger(L, status);
  return 1;
}

/* Whoever ends the command lets it remove what it has half written. nohup stays nohup. */
static void catch_signals(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  for (int i = 0; i < 3; i++)
    if (signal(signals[i], on_interrupt) == SIG_IGN && signals[i] == SIGHUP)
      signal(signals[i], SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* too large a file is an error of write */
}

int soma_part_main(int argc, char **argv, const char *part) {
  only = part;
  return soma_main(argc, argv, NULL);
}

int soma_main(int argc, char **argv, const soma_job *of) {
  job = of;
  if (!of && !only && argc == 2 && strcmp(argv[1], "--dap") == 0) return start_adapter();
  lua_State *L = luaL_newstate();
  if (L == NULL) {
    fprintf(stderr, "soma: out of memory\n");
    return 1;
  }
  /* What the state has used before the budget was set. */
  lb_budget memory = {.used =
                          (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB)};
  lua_setallocf(L, lb_budget_alloc, &memory); /* which does with its blocks as the state's own */
  interrupted = L;
  /* So that an end by a signal removes what is half written. */
  lb_track_files();
  catch_signals();
  lua_pushcfunction(L, protected_main);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  int status = 1;
  if (lua_pcall(L, 2, 1, 0) == LUA_OK)
    status = (int)lua_tointeger(L, -1);
  else
    fprintf(stderr, "soma: %s\n", lua_tostring(L, -1));
  lua_close(L);
  /* The signal's own number, as shells give it. */
  if (status == INTERRUPTED && by_signal) status = 128 + by_signal;
  /* A script that has printed to a full disk has failed. */
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fprintf(stderr, "soma: cannot write to standard output\n");
  return status != 0 ? status : 1;
}
