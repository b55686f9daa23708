/* Files: whole ones read into strings, and new ones that appear complete or not at all. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

#define FILE_CLASS "soma.file"

/* nil and a message, as Lua's own functions give them. */
static void push_error(lua_State *L, const char *what, const char *path, int error) {
  lua_pushnil(L);
  lua_pushfstring(L, "cannot %s '%s': %s", what, path, strerror(error));
}

/* ---- Files being written ------------------------------------------------------------------ */

/* What the handler of a signal finds: an entry is whole before it is reached. */
typedef struct half_written {
  struct half_written *volatile next;
  char *volatile temp; /* NULL: free */
} half_written;
static bool tracks;
static half_written *volatile being_written;

void lb_track_files(void) { tracks = true; }

/* Called from a handler: unlink is allowed there. */
void lb_unlink_files(void) {
  for (half_written *h = being_written; h != NULL; h = h->next)
    if (h->temp != NULL) unlink(h->temp);
}

static void track(char *temp) {
  half_written *h = being_written;
  /* A library in someone's process does not catch signals, and tracks nothing. */
  if (!tracks) return;
  /* A free entry, else a new one in front. */
  while (h != NULL && h->temp != NULL) h = h->next;
  if (h == NULL) {
    h = malloc(sizeof *h); /* kept for the next file */
    if (h == NULL) return;
    h->temp = NULL;
    h->next = being_written;
    being_written = h;
  }
  h->temp = temp;
}

/* Before a name is freed: it is no longer to be removed. */
static void forget(const char *temp) {
  for (half_written *h = being_written; h != NULL; h = h->next)
    if (h->temp == temp) h->temp = NULL;
}

/* Also a file that was never opened. */
static void discard(lb_file *f) {
  if (f->temp != NULL) forget(f->temp);
  lb_text_end(f, false);
  if (f->f != NULL && !f->lent) fclose(f->f);
  if (f->temp != NULL) unlink(f->temp);
  free(f->temp);
  free(f->path);
  free(f->name);
  *f = (lb_file){0};
}

static int file_gc(lua_State *L) {
  discard(luaL_checkudata(L, 1, FILE_CLASS));
  return 0;
}

static lb_file *new_file(lua_State *L) {
  lb_file *f = lua_newuserdatauv(L, sizeof *f, 0);
  *f = (lb_file){0};
  luaL_setmetatable(L, FILE_CLASS);
  return f;
}

/* A new file next to path, its name in f->temp. Its mode follows the umask.
 * In the same folder, so that it can be renamed. */
static int open_temp(lb_file *f) {
  size_t n = strlen(f->path) + 48;
  f->temp = malloc(n);
  if (f->temp == NULL) return -1;
  /* A name may be left from a process that was killed. */
  for (unsigned i = 0; i < 100; i++) {
    snprintf(f->temp, n, "%s.%ld.%u.tmp", f->path, (long)getpid(), i);
    int fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
      track(f->temp);
      return fd;
    }
    if (errno != EEXIST) break;
  }
  /* errno must outlive what frees. */
  int error = errno;
  free(f->temp);
  f->temp = NULL;
  errno = error;
  return -1;
}

/* A path is text without a zero byte. */
const char *lb_path(lua_State *L, int arg) {
  size_t n;
  luaL_checktype(L, arg, LUA_TSTRING);
  const char *path = lua_tolstring(L, arg, &n);
  luaL_argcheck(L, n > 0, arg, "the path is empty");
  luaL_argcheck(L, strlen(path) == n, arg, "the path has a zero byte");
  return path;
}

/* A table of open files by name; there only in a sandbox. */
static const char no_files[] = "soma.no_files"; /* in the registry */

void lb_forbid_files(lua_State *L) { lua_setfield(L, LUA_REGISTRYINDEX, no_files); }

bool lb_files_forbidden(lua_State *L) {
  bool forbidden = lua_getfield(L, LUA_REGISTRYINDEX, no_files) != LUA_TNIL;
  lua_pop(L, 1);
  return forbidden;
}

/* For functions that would open any file. */
void lb_need_files(lua_State *L, const char *path) {
  if (!lb_files_forbidden(L)) return;
  luaL_error(L, "'%s': a sandbox opens no files except those that its options name", path);
}

/* Pushes the open file that the table of lb_forbid_files has under that name; false when there is
 * no such table. */
static bool push_lent_file(lua_State *L, const char *name) {
  int top = lua_gettop(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, no_files) == LUA_TNIL) {
    lua_pop(L, 1);
    return false;
  }
  lua_pushstring(L, name);
  lua_rawget(L, -2);
  luaL_Stream *s = luaL_testudata(L, -1, LUA_FILEHANDLE);
  lua_settop(L, top); /* the table keeps it */
  /* What is not in the table must not be opened. */
  if (s == NULL) {
    lb_need_files(L, name);
    return false;
  }
  lb_file *f = new_file(L);
  f->lent = true;
  f->f = s->f;
  f->name = strdup(name);
  /* Each reading begins at the beginning. */
  rewind(f->f);
  errno = 0;
  if (f->name == NULL) luaL_error(L, "cannot open '%s': %s", name, strerror(errno));
  return true;
}

/* The same to be written from its beginning. */
static bool push_lent_output(lua_State *L, const char *name) {
  if (!push_lent_file(L, name)) return false;
  const lb_file *f = lua_touserdata(L, -1);
  /* An earlier result may have been longer. */
  if (ftruncate(fileno(f->f), 0) != 0)
    luaL_error(L, "cannot write '%s': %s", name, strerror(errno));
  return true;
}

/* A new descriptor of the file that the process writes to already, where path is a name of one: the
 * file after it is not replaced, and what goes there continues where the last write ended. -1 of
 * others. */
static int standard_output(const char *path) {
  bool out = strcmp(path, "/dev/stdout") == 0;
  if (!out && strcmp(path, "/dev/stderr") != 0) return -1;
  /* What is in the buffer comes before what is written here. */
  fflush(out ? stdout : stderr);
  return dup(out ? STDOUT_FILENO : STDERR_FILENO);
}

lb_file *lb_file_create(lua_State *L, const char *path) {
  if (push_lent_output(L, path)) return lua_touserdata(L, -1);
  /* Processes of a job other than the first write nothing. */
  lua_getfield(L, LUA_REGISTRYINDEX, LB_NO_OUTPUT);
  if (lua_toboolean(L, -1)) path = "/dev/null";
  lua_pop(L, 1);
  lb_file *f = new_file(L);
  struct stat st;
  /* What is there decides how it is written. */
  bool exists = stat(path, &st) == 0;
  f->name = strdup(path);
  f->path = exists ? realpath(path, NULL) : strdup(path); /* a link keeps pointing at its file */
  int fd = standard_output(path);
  if (fd < 0 && f->name != NULL && f->path != NULL)
    /* Devices and pipes cannot be replaced by a new file. */
    fd = exists && !S_ISREG(st.st_mode) ? open(path, O_WRONLY | O_CLOEXEC) : open_temp(f);
  if (fd >= 0) f->f = fdopen(fd, "wb");
  if (f->f != NULL) {
    errno = 0; /* lb_file_commit finds the error of a failed write there */
    return f;
  }
  /* Closing may change errno. */
  int error = errno;
  if (fd >= 0) close(fd);
  discard(f);
  push_error(L, "write", path, error);
  return NULL;
}

bool lb_file_commit(lua_State *L, lb_file *f) {
  /* A compressed text has its end still to write. */
  lb_text_end(f, true);
  bool good = !ferror(f->f);
  int error = good ? 0 : errno != 0 ? errno : EIO;
  /* A lent file stays open: whoever lent it closes it. */
  if ((f->lent ? fflush(f->f) : fclose(f->f)) != 0 && good) {
    error = errno;
    good = false;
  }
  f->f = NULL;
  /* Only now the file has its name, and is complete. */
  if (good && f->temp != NULL && rename(f->temp, f->path) != 0) {
    error = errno;
    good = false;
  }
  /* The temporary file goes with discard. */
  if (!good) push_error(L, "write", f->name, error);
  if (good) {
    if (f->temp != NULL) forget(f->temp);
    free(f->temp);
    f->temp = NULL;
  }
  discard(f);
  return good;
}

lb_file *lb_file_open(lua_State *L, const char *path) {
  /* In a sandbox only what was lent. */
  if (push_lent_file(L, path)) return lua_touserdata(L, -1);
  lb_file *f = new_file(L);
  f->f = fopen(path, "rb");
  if (f->f != NULL) return f;
  push_error(L, "read", path, errno);
  return NULL;
}

int64_t lb_file_length(const lb_file *f) {
  struct stat st;
  if (!f->lent)
    return fstat(fileno(f->f), &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
  /* By seeking, and back to where it was. */
  off_t at = ftello(f->f), end = -1; /* a sandbox may not ask more */
  if (at >= 0 && fseeko(f->f, 0, SEEK_END) == 0) end = ftello(f->f);
  return fseeko(f->f, at, SEEK_SET) == 0 ? (int64_t)end : -1;
}

void lb_file_close(lb_file *f) { discard(f); }

bool lb_read_file(lua_State *L, const char *path) {
  lb_file *s = lb_file_open(L, path);
  if (s == NULL) return false;
  luaL_Buffer b;
  size_t n;
  luaL_buffinit(L, &b);
  do {
    /* As much as a buffer of Lua's holds, until less comes. */
    char *p = luaL_prepbuffer(&b);
    n = fread(p, 1, LUAL_BUFFERSIZE, s->f);
    luaL_addsize(&b, n);
  } while (n == LUAL_BUFFERSIZE);
  int error = ferror(s->f) ? errno : 0;
  luaL_pushresult(&b);
  discard(s);
  if (error != 0) push_error(L, "read", path, error);
  return error == 0;
}

void lb_open_file(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", file_gc}, {NULL, NULL}};
  lb_class(L, FILE_CLASS, meta, NULL);
}
