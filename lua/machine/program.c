/* Programs: assembled from text, loaded and saved; what tensors and tiles they have. */
#include <stdlib.h>
#include <string.h>

#include "../../isa/program.h"
#include "machine.h"

#define JOB_CLASS "soma.job"

/* What a call needs from libsoma for its own time; freed by the collector if an error is raised. */
typedef struct job {
  soma_machine *m;
  soma_diagnostics *d;
  void *bytes;
} job;

/* Each may be missing: the job ends wherever it has come to. */
static void job_end(job *j) {
  soma_diagnostics_free(j->d);
  soma_bytes_free(j->bytes);
  soma_machine_free(j->m);
  /* Zeroed, since the collector ends it once more. */
  *j = (job){0};
}

static int job_gc(lua_State *L) {
  job_end(luaL_checkudata(L, 1, JOB_CLASS));
  return 0;
}

/* A machine of its own, because assembling needs a target and a place for messages. */
static job *new_job(lua_State *L, const char *what, const char *target) {
  soma_options o = SOMA_OPTIONS_INIT;
  job *j = lua_newuserdatauv(L, sizeof *j, 0);
  *j = (job){0};
  luaL_setmetatable(L, JOB_CLASS);
  o.target = lb_target(L, what, target);
  lb_use_budget(L, NULL, &o.alloc, &o.alloc_ud);
  soma_status s = soma_machine_new(&o, &j->m);
  if (s != SOMA_OK) lb_fail(L, what, NULL, s);
  return j;
}

lb_program *lb_new_program(lua_State *L) {
  lb_program *p = lua_newuserdatauv(L, sizeof *p, LB_PROGRAM_SLOTS);
  /* With a metatable from the start, so that an error frees what it gets. */
  *p = (lb_program){0};
  luaL_setmetatable(L, LB_PROGRAM);
  return p;
}

lb_program *lb_check_program(lua_State *L, int arg) {
  lb_program *p = luaL_checkudata(L, arg, LB_PROGRAM);
  /* A closed program may be in use by a run, but not by new calls. */
  luaL_argcheck(L, !p->closed, arg, "the program is closed");
  return p;
}

/* prog:close(): of no use from then on. A run of it, and the names in its trace, may still need
 * the program itself: that goes when the collector finds that nobody refers to it. */
static int program_close(lua_State *L) {
  lb_program *p = luaL_checkudata(L, 1, LB_PROGRAM);
  p->closed = true;
  /* Constants on devices take HBM, so they go at once. */
  lb_drop_constants(L);
  return 0;
}

static int program_gc(lua_State *L) {
  lb_program *p = luaL_checkudata(L, 1, LB_PROGRAM);
  lb_drop_constants(L);
  /* The program itself goes last: the constants are found by it. */
  soma_program_free(p->p);
  free(p->warnings);
  free(p->name);
  *p = (lb_program){.closed = true};
  return 0;
}

/* ---- Assembling ---------------------------------------------------------------------------- */

/* Pushes "name=value" for the pair at -2, -1. */
static const char *push_define(lua_State *L, const char *what) {
  /* A list has numbers as keys. */
  if (lua_type(L, -2) == LUA_TNUMBER && lua_type(L, -1) == LUA_TSTRING) {
    lua_pushvalue(L, -1); /* a sequence of "name=value" */
  } else if (lua_type(L, -2) != LUA_TSTRING) {
    luaL_error(L, "%s: option 'defines' must be {NAME = value, ...} or {\"NAME=value\", ...}",
               what);
  } else if (lua_type(L, -1) == LUA_TBOOLEAN && lua_toboolean(L, -1)) {
    lua_pushvalue(L, -2);
  } else if (lua_type(L, -1) == LUA_TNUMBER || lua_type(L, -1) == LUA_TSTRING) {
    const char *name = lua_tostring(L, -2);
    lua_pushfstring(L, "%s=%s", name, luaL_tolstring(L, -1, NULL));
    /* luaL_tolstring gives numbers as Lua writes them. */
    lua_remove(L, -2);
  } else {
    luaL_error(L, "%s: define '%s' is a %s, not a string, a number or true", what,
               lua_tostring(L, -2), luaL_typename(L, -1));
  }
  return lua_tostring(L, -1);
}

/* The strings of options 'defines' and 'include' as arrays. Leaves on the stack a table that
 * holds the strings and a userdata that holds the arrays. */
static soma_assemble_options read_options(lua_State *L, int arg, const char *what) {
  /* One array for both, with the strings in a table. */
  soma_assemble_options o = {.size = sizeof o};
  size_t n = 0, count = 0;
  lua_newtable(L);
  int keep = lua_gettop(L);
  int type = lb_option(L, arg, "defines");
  if (type != LUA_TNIL && type != LUA_TTABLE)
    luaL_error(L, "%s: option 'defines' must be a table", what);
  if (type == LUA_TTABLE)
    for (lua_pushnil(L); lua_next(L, keep + 1) != 0; lua_pop(L, 1)) {
      push_define(L, what);
      lua_rawseti(L, keep, (lua_Integer)++n);
    }
  /* The defines come first, then the folders. */
  o.ndefines = (uint32_t)n;
  type = lb_option(L, arg, "include");
  /* One folder may be given without a table. */
  if (type == LUA_TSTRING) {
    lua_pushvalue(L, -1);
    lua_rawseti(L, keep, (lua_Integer)++n);
  } else if (type == LUA_TTABLE) {
    for (size_t i = 1; i <= lua_rawlen(L, -1); i++) {
      if (lua_rawgeti(L, -1, (lua_Integer)i) != LUA_TSTRING)
        luaL_error(L, "%s: option 'include' must hold strings", what);
      lua_rawseti(L, keep, (lua_Integer)++n);
    }
  } else if (type != LUA_TNIL) {
    luaL_error(L, "%s: option 'include' must be a string or a sequence of strings", what);
  }
  o.ninclude_dirs = (uint32_t)n - o.ndefines;
  lua_settop(L, keep);
  /* One more, since nothing may have size zero. */
  const char **array = lua_newuserdatauv(L, (n + 1) * sizeof *array, 0);
  /* Pointers to the strings that the table keeps. */
  for (; count < n; count++) {
    lua_rawgeti(L, keep, (lua_Integer)count + 1);
    array[count] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  o.defines = array;
  o.include_dirs = array + o.ndefines;
  return o;
}

/* The diagnostics without their last newline are pushed. */
static const char *push_diagnostics(lua_State *L, const soma_diagnostics *d) {
  /* Without diagnostics the text is empty. */
  const char *text = d != NULL ? soma_diagnostics_text(d) : "";
  size_t n = strlen(text);
  while (n > 0 && text[n - 1] == '\n') n--;
  return lua_pushlstring(L, text, n);
}

/* soma.assemble(text, {name, defines, include, target}) and soma.assemble_file(path, ...): a
 * program. Raises the assembler's diagnostics. */
static const char *environment(const char *name) { return getenv(name); }

/* What the source may read besides its own text. */
static void read_access(lua_State *L, const char *what, soma_assemble_options *o) {
  o->no_files = lb_files_forbidden(L);
  /* An environment is read only when it is asked for.
   * A program that a script assembles does not depend on the shell's variables. */
  if (!lb_bool(L, 2, what, "env", false)) return;
  if (o->no_files) luaL_error(L, "%s: option 'env': a sandbox has no environment", what);
  o->env = environment;
}

/* Raises the errors of a job that failed; the warnings of one that did not stay with p. */
static void end_assembly(lua_State *L, const char *what, job *j, soma_status s, lb_program *p) {
  const char *diagnostics = push_diagnostics(L, j->d);
  /* An error without a diagnostic is a failure of another kind, such as of memory. */
  if (s == SOMA_SYNTAX && diagnostics[0] != '\0') {
    int errors = (int)soma_diagnostics_errors(j->d);
    luaL_error(L, "%s: %d error%s\n%s", what, errors, errors == 1 ? "" : "s", diagnostics);
  }
  if (s != SOMA_OK) lb_fail(L, what, j->m, s);
  /* Warnings go with the program.
   * A failure of strdup loses only the warnings. */
  if (diagnostics[0] != '\0') p->warnings = strdup(diagnostics);
  job_end(j);
  p->own = true;
}

static int assemble(lua_State *L, const char *what, bool is_file) {
  static const char *const known[] = {"defines", "env", "include", "name", "target", NULL};
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  if (is_file) lb_need_files(L, lb_path(L, 1));
  lua_settop(L, 2);
  lb_options(L, 2, what, known);
  /* The name stands in messages and in lines of the program. */
  const char *name = lb_string(L, 2, what, "name");
  soma_assemble_options o = read_options(L, 2, what);
  read_access(L, what, &o);
  lb_program *p = lb_new_program(L);
  int result = lua_gettop(L);
  job *j = new_job(L, what, lb_string(L, 2, what, "target"));
  /* A file's name comes with it. */
  soma_status s = is_file ? soma_assemble_file(j->m, text, &o, &p->p, &j->d)
                          : soma_assemble(j->m, text, n, name, &o, &p->p, &j->d);
  end_assembly(L, what, j, s, p);
  lua_settop(L, result);
  if (!is_file) { /* the page shows it */
    p->name = strdup(name != NULL ? name : "text");
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, result, LB_PROGRAM_TEXT);
  }
  return 1;
}

static int assemble_text(lua_State *L) { return assemble(L, "assemble", false); }
static int assemble_file(lua_State *L) { return assemble(L, "assemble_file", true); }

/* The file of the path or {name, text} at -1; leaves its bytes there. */
static soma_file linked_file(lua_State *L, int i) {
  size_t n;
  soma_file f = {0};
  if (lua_type(L, -1) == LUA_TSTRING) {
    f.name = lb_path(L, -1); /* the caller's table has it */
    lb_need_files(L, f.name);
    if (!lb_read_file(L, f.name)) luaL_error(L, "link: %s", lua_tostring(L, -1));
    lua_remove(L, -2);
  } else if (lua_type(L, -1) == LUA_TTABLE && lua_getfield(L, -1, "name") == LUA_TSTRING &&
             lua_getfield(L, -2, "text") == LUA_TSTRING) {
    f.name = lua_tostring(L, -2);
    /* The table goes, its text stays in its place. */
    lua_replace(L, -3);
    lua_pop(L, 1);
  } else {
    /* Also a table without one of the two. */
    luaL_error(L, "link: file %d must be a path or {name = ..., text = ...}", i);
  }
  /* The bytes may contain zeros: an object or a program. */
  f.data = lua_tolstring(L, -1, &n);
  f.n = n;
  return f;
}

/* soma.link({path or {name, text}, ...}, {defines, include, target, env}): one program of several
 * sources and objects. Raises the diagnostics. */
static int link_files(lua_State *L) {
  static const char *const known[] = {"defines", "env", "include", "target", NULL};
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  lb_options(L, 2, "link", known);
  lua_Unsigned n = lua_rawlen(L, 1);
  /* Files are numbered with sixteen bits. */
  luaL_argcheck(L, n > 0 && n <= UINT16_MAX, 1, "no files, or more than 65535");
  soma_assemble_options o = read_options(L, 2, "link");
  read_access(L, "link", &o);
  soma_file *files = lua_newuserdatauv(L, n * sizeof *files, 0);
  lua_createtable(L, (int)n, 0); /* holds the bytes */
  for (lua_Unsigned i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    files[i] = linked_file(L, (int)i + 1);
    /* The table at the top keeps the bytes until all is linked. */
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lb_program *p = lb_new_program(L);
  int result = lua_gettop(L);
  job *j = new_job(L, "link", lb_string(L, 2, "link", "target"));
  soma_status s = soma_link(j->m, files, (uint32_t)n, &o, &p->p, &j->d);
  end_assembly(L, "link", j, s, p);
  lua_settop(L, result);
  return 1;
}

/* ---- Loading and saving -------------------------------------------------------------------- */

/* The program of the path or bytes at 1: 1; else nil and a message are pushed, and 2. */
static int load_program(lua_State *L, const char *what) {
  size_t n, nmagic = strlen(ISA_IMAGE_MAGIC);
  const char *data = luaL_checklstring(L, 1, &n);
  lua_settop(L, 1);
  /* It does not begin like a program, so it is a path.
   * A program's first bytes are never those of a path. */
  if (n < nmagic || memcmp(data, ISA_IMAGE_MAGIC, nmagic) != 0) {
    /* Bytes with a zero among them cannot be a path either. */
    if (strlen(data) != n)
      return luaL_error(L, "%s: neither a path nor the bytes of a program", what);
    what = data;
    if (!lb_read_file(L, data)) return 2;
    data = lua_tolstring(L, -1, &n);
  }
  lb_program *p = lb_new_program(L);
  int result = lua_gettop(L);
  /* Errors name the file, or the function where there is no file. */
  job *j = new_job(L, what, NULL);
  soma_status s = soma_program_load(j->m, data, n, &p->p);
  if (s != SOMA_OK) return lb_fail(L, what, j->m, s);
  job_end(j);
  lua_settop(L, result);
  return 1;
}

/* soma.load(path or bytes): a program from a .sbc file, or from a string with its contents; nil
 * and a message when the file cannot be opened. Raises when it is not a valid program. */
static int load(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 2), 2, "load takes no options");
  return load_program(L, "load");
}

typedef enum image { IMAGE_BYTES, IMAGE_SOURCE, IMAGE_DISASSEMBLY } image;

/* Errors are raised with the job still open: the collector ends it. */
static void push_image(lua_State *L, lb_program *p, image as) {
  size_t n = 0;
  job *j = new_job(L, "program", NULL);
  char *text = NULL;
  soma_status s = as == IMAGE_BYTES    ? soma_program_save(j->m, p->p, &j->bytes, &n)
                  : as == IMAGE_SOURCE ? soma_program_print(j->m, p->p, &text, &n)
                                       : soma_disassemble(j->m, p->p, &text, &n);
  if (as != IMAGE_BYTES) j->bytes = text;
  if (s != SOMA_OK) lb_fail(L, "program", j->m, s);
  /* A copy in Lua before the block is freed. */
  lua_pushlstring(L, j->bytes, n);
  job_end(j);
}

/* prog:bytes(): the contents of its .sbc file. */
static int program_bytes(lua_State *L) {
  push_image(L, lb_check_program(L, 1), IMAGE_BYTES);
  return 1;
}

/* prog:source(): text that assembles to the same program. */
static int program_source(lua_State *L) {
  push_image(L, lb_check_program(L, 1), IMAGE_SOURCE);
  return 1;
}

/* soma.disassemble(program, path or bytes): what soma-dis prints; nil and a message when the file
 * cannot be opened. Raises when it is not a valid program. */
static int disassemble(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 2), 2, "disassemble takes no options");
  /* A path or bytes is loaded first, as a program would be. */
  if (luaL_testudata(L, 1, LB_PROGRAM) == NULL) {
    if (lua_type(L, 1) != LUA_TSTRING) return luaL_typeerror(L, 1, "program or string");
    if (load_program(L, "disassemble") != 1) return 2;
    lua_replace(L, 1);
  }
  push_image(L, lb_check_program(L, 1), IMAGE_DISASSEMBLY);
  return 1;
}

/* prog:save(path): true; nil and a message when the file cannot be written. */
static int program_save(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 3), 3, "save takes no options");
  lb_program *p = lb_check_program(L, 1);
  const char *path = lb_path(L, 2);
  size_t n;
  push_image(L, p, IMAGE_BYTES);
  const char *bytes = lua_tolstring(L, -1, &n);
  /* The name has to fit what is written: .gz and so on are for text. */
  lb_file *f = lb_fits_name(L, path, false) ? lb_file_create(L, path) : NULL;
  if (f != NULL) fwrite(bytes, 1, n, f->f);
  if (f == NULL || !lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

/* ---- What it has --------------------------------------------------------------------------- */

int lb_program_tensor(const soma_program *p, const char *name, soma_tensor_info *info) {
  for (uint32_t i = 0; soma_program_tensor(p, i, info) == SOMA_OK; i++)
    if (strcmp(info->name, name) == 0) return (int)i;
  return -1;
}

/* Names of tiles are unique. */
bool lb_program_tile(const soma_program *p, const char *name, soma_tile_info *info) {
  for (uint32_t i = 0; soma_program_tile(p, i, info) == SOMA_OK; i++)
    if (strcmp(info->name, name) == 0) return true;
  return false;
}

/* prog:tensors(): {name, dtype, role, shape, bytes} of each, in order of declaration; rows_register
 * too where the first dimension is left to the run, and shape and bytes have the most. */
static int program_tensors(lua_State *L) {
  static const char *const roles[] = {"temp", "input", "output", "const"};
  const soma_program *p = lb_check_program(L, 1)->p;
  soma_tensor_info t;
  lua_newtable(L);
  for (uint32_t i = 0; soma_program_tensor(p, i, &t) == SOMA_OK; i++) {
    lua_createtable(L, 0, 5);
    lb_set_text(L, "name", t.name);
    lb_set_text(L, "dtype", soma_dtype_name(t.dtype));
    /* In the order of the machine's roles. */
    lb_set_text(L, "role", (unsigned)t.role < 4 ? roles[t.role] : "?");
    lb_set_count(L, "bytes", t.bytes);
    lb_push_shape(L, t.ndim, t.shape);
    lua_setfield(L, -2, "shape");
    /* Most tensors have a fixed shape. */
    int rows = soma_program_rows(p, i);
    if (rows >= 0) lb_set_count(L, "rows_register", (uint64_t)rows);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* prog:tiles(): {name, memory, dtype, shape, partition, offset, bytes} of each, and `origin` of
 * those that the source calls by one name. */
static int program_tiles(lua_State *L) {
  const soma_program *p = lb_check_program(L, 1)->p;
  soma_tile_info t;
  char origin[80];
  lua_newtable(L);
  for (uint32_t i = 0; soma_program_tile(p, i, &t) == SOMA_OK; i++) {
    /* As the functions for shapes take them. */
    int64_t shape[5];
    for (uint32_t d = 0; d < t.ndim; d++) shape[d] = t.shape[d];
    lua_createtable(L, 0, 7);
    lb_set_text(L, "name", t.name);
    lb_set_text(L, "memory", t.memory == SOMA_SBUF ? "sbuf" : "psum");
    lb_set_text(L, "dtype", soma_dtype_name(t.dtype));
    if (soma_program_tile_origin(p, i, origin, sizeof origin) == SOMA_OK && origin[0])
      lb_set_text(L, "origin", origin);
    lb_set_count(L, "partition", t.partition);
    lb_set_count(L, "offset", t.offset);
    lb_set_count(L, "bytes", t.bytes);
    lb_push_shape(L, t.ndim, shape);
    lua_setfield(L, -2, "shape");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* prog:warnings(): the assembler's warnings, or nil. */
static int program_warnings(lua_State *L) {
  /* lua_pushstring gives nil for NULL. */
  lua_pushstring(L, lb_check_program(L, 1)->warnings);
  return 1;
}

/* prog:lint(): what the static checks find, as text, and how many of it are warnings; nil when
 * there is nothing.
 * A machine is made for the call; the program need not have run. */
static int program_lint(lua_State *L) {
  lb_program *p = lb_check_program(L, 1);
  job *j = new_job(L, "lint", NULL);
  soma_status s = soma_lint(j->m, p->p, &j->d);
  if (s != SOMA_OK) return lb_fail(L, "lint", j->m, s);
  /* No diagnostics: there was nothing to find. */
  if (j->d != NULL) {
    lua_pushstring(L, soma_diagnostics_text(j->d));
    lua_pushinteger(L, soma_diagnostics_count(j->d));
  } else {
    lua_pushnil(L);
    lua_pushinteger(L, 0);
  }
  job_end(j);
  return 2;
}

/* prog:target() */
static int program_target(lua_State *L) {
  lua_pushstring(L, soma_program_target(lb_check_program(L, 1)->p));
  return 1;
}

static int program_tostring(lua_State *L) {
  lb_program *p = luaL_checkudata(L, 1, LB_PROGRAM);
  if (p->closed)
    lua_pushliteral(L, "soma.program (closed)");
  else
    lua_pushfstring(L, "soma.program for %s", soma_program_target(p->p));
  return 1;
}

const luaL_Reg lb_program_functions[] = {
    {"assemble", assemble_text},  {"assemble_file", assemble_file},
    {"link", link_files},         {"load", load},
    {"disassemble", disassemble}, {NULL, NULL}};

void lb_open_program(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", program_gc},
                                  {"__close", program_close},
                                  {"__tostring", program_tostring},
                                  {NULL, NULL}};
  static const luaL_Reg methods[] = {{"tensors", program_tensors},
                                     {"tiles", program_tiles},
                                     {"lint", program_lint},
                                     {"bytes", program_bytes},
                                     {"source", program_source},
                                     {"save", program_save},
                                     {"warnings", program_warnings},
                                     {"target", program_target},
                                     {"instructions", lb_program_instructions},
                                     {"loop", lb_program_loop},
                                     {"semaphores", lb_program_semaphores},
                                     {"queues", lb_program_queues},
                                     {"close", program_close},
                                     {"move_to_device", lb_move_to_device},
                                     {"drop_from_device", lb_drop_from_device},
                                     {NULL, NULL}};
  /* A job has no methods: scripts never see one. */
  static const luaL_Reg job_meta[] = {{"__gc", job_gc}, {NULL, NULL}};
  lb_class(L, LB_PROGRAM, meta, methods);
  lb_class(L, JOB_CLASS, job_meta, NULL);
}
