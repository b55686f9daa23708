/* The sandbox of the command: limits of memory, and the files of a script's results. The process
 * that it runs in is confine.c's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soma_sandbox.h"
#include "syscalls.h"

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
  /* The shift must not leave 48 bits. */
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

/* host.memory_refused(): whether something was refused for lack of memory since the limit was set.
 */
static int memory_refused(lua_State *L) {
  void *ud;
  bool ours = lua_getallocf(L, &ud) == lb_budget_alloc;
  lua_pushboolean(L, ours && ((lb_budget *)ud)->refused);
  return 1;
}

/* ---- Outputs ------------------------------------------------------------------------------- */

/* Whether what has that name is a plain file, or `absent` when there is nothing; else nil and a
 * message are pushed. A link is no plain file: what it leads to was not named. */
static bool is_plain(lua_State *L, const char *what, const char *path, bool absent) {
  struct stat st;
  if (lstat(path, &st) != 0) {
    if (absent) return true;
    lua_pushnil(L);
    lua_pushfstring(L, "cannot %s '%s': %s", what, path, strerror(errno));
    return false;
  }
  if (S_ISREG(st.st_mode)) return true;
  lua_pushnil(L);
  lua_pushfstring(L, "cannot %s '%s': it is %s, not a plain file", what, path,
                  S_ISLNK(st.st_mode)   ? "a symbolic link"
                  : S_ISDIR(st.st_mode) ? "a folder"
                                        : "a device or a pipe");
  return false;
}

/* host.check_source(path): true when what a stranger has handed in is a plain file; else nil and a
 * message. */
static int check_source(lua_State *L) {
  if (!is_plain(L, "read", lb_path(L, 1), false)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

/* host.check_output(path): true when a file can be written there; else nil and a message. */
static int check_output(lua_State *L) {
  const char *path = lb_path(L, 1);
  lb_file *f = is_plain(L, "write", path, true) ? lb_file_create(L, path) : NULL;
  if (f == NULL) return 2;
  /* Nothing is written: the file that was begun goes. */
  lb_file_close(f);
  lua_pushboolean(L, true);
  return 1;
}

/* host.save_output(file, path): copies an open file to a new one; true, or nil and a message. */
static int save_output(lua_State *L) {
  luaL_Stream *from = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  const char *path = lb_path(L, 2);
  lb_file *f = is_plain(L, "write", path, true) ? lb_file_create(L, path) : NULL;
  if (f == NULL) return 2;
  char chunk[1 << 14];
  rewind(from->f);
  /* An error of writing is found by lb_file_commit. */
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, from->f)) > 0;) fwrite(chunk, 1, n, f->f);
  if (ferror(from->f)) return luaL_error(L, "cannot read what the script has saved");
  if (!lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

/* host.forbid_files(names): see lb_forbid_files. */
static int forbid_files(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lb_forbid_files(L);
  return 0;
}

/* host.filter(): by what system calls are filtered, or nil in a build without a filter. */
static int filter(lua_State *L) {
  lua_pushstring(L, soma_filter_name());
  return 1;
}

const luaL_Reg soma_sandbox_functions[] = {{"bytes", bytes},
                                           {"limit_memory", limit_memory},
                                           {"check_source", check_source},
                                           {"check_output", check_output},
                                           {"save_output", save_output},
                                           {"forbid_files", forbid_files},
                                           {"memory_refused", memory_refused},
                                           {"filter", filter},
                                           {"confine", soma_confine},
                                           {NULL, NULL}};
