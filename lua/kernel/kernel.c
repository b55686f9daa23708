/* The builder as userdata, and the instruction set as tables, for the files in Lua. */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#include "../../vm/api/soma_kernel.h"
#include "../machine/machine.h"
#include "../tensor/tensor.h"
#include "view.h"

#define HANDLE "soma.kernel.handle"

static const lb_part parts[] = {
#include "parts.inc"
    {NULL, NULL}};

/* A closed kernel has no builder any more. */
typedef struct handle {
  soma_kernel *k;
  uint32_t file, line; /* of the call in the user's script that is at work */
  char *words;         /* int64_t: the record being emitted, kept between calls */
  size_t cap;
} handle;

/* All methods have the handle first. */
static handle *check(lua_State *L) {
  handle *h = luaL_checkudata(L, 1, HANDLE);
  luaL_argcheck(L, h->k != NULL, 1, "the kernel is closed");
  return h;
}

static int handle_gc(lua_State *L) {
  handle *h = luaL_checkudata(L, 1, HANDLE);
  soma_kernel_free(h->k);
  free(h->words);
  *h = (handle){0};
  return 0;
}

/* Raises the builder's message. Its place is in the user's script, so none is added.
 * Messages with a place begin with the user's file. */
static int fail(lua_State *L, const handle *h) {
  const char *file;
  uint32_t line;
  soma_kernel_error_place(h->k, &file, &line);
  lua_pushstring(L, soma_kernel_error(h->k));
  lua_pushboolean(L, file != NULL);
  return 2;
}

/* What the methods give: true and a number, or false, the message, and whether it has a place. */
static int give(lua_State *L, const handle *h, soma_status s, const uint32_t *number) {
  lua_pushboolean(L, s == SOMA_OK);
  if (s != SOMA_OK) return 1 + fail(L, h);
  lua_pushinteger(L, number ? *number : 0);
  return 2;
}

/* host.new(target or nil, flags, sbuf_bytes, core, cores, optimize, without, front_end or nil): a
 * handle; raises what soma_kernel_new says.
 * A machine is made for the call only: the builder keeps what it needs of it. */
static int new_kernel(lua_State *L) {
  soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
  soma_options mo = SOMA_OPTIONS_INIT;
  soma_machine *m;
  o.target = lb_target(L, "kernel", luaL_optstring(L, 1, NULL));
  o.flags = lb_u32(L, 2);
  o.sbuf_bytes = lb_u32(L, 3);
  o.core = lb_u32(L, 4);
  o.cores = lb_u32(L, 5);
  o.optimize = lb_u32(L, 6);
  o.without = lb_u32(L, 7);
  o.front_end = luaL_optstring(L, 8, NULL);
  handle *h = lua_newuserdatauv(L, sizeof *h, 0);
  *h = (handle){0};
  luaL_setmetatable(L, HANDLE);
  lb_use_budget(L, NULL, &mo.alloc, &mo.alloc_ud);
  soma_status s = soma_machine_new(&mo, &m);
  if (s != SOMA_OK) return lb_fail(L, "kernel", NULL, s);
  s = soma_kernel_new(m, &o, &h->k);
  if (s != SOMA_OK) {
    lua_pushstring(L, soma_error(m));
    soma_machine_free(m);
    return luaL_error(L, "kernel: %s", lua_tostring(L, -1));
  }
  soma_machine_free(m);
  return 1;
}

/* h:file(name): its number
 * Names are numbered once, and records hold the numbers. */
static int kernel_file(lua_State *L) {
  handle *h = check(L);
  uint32_t file = 0;
  return give(L, h, soma_kernel_file(h->k, luaL_checkstring(L, 2), &file), &file);
}

static int kernel_target(lua_State *L) {
  lua_pushstring(L, soma_kernel_target(check(L)->k));
  return 1;
}

/* h:tensor(name, dtype code, shape, role code) */
static int kernel_tensor(lua_State *L) {
  handle *h = check(L);
  int64_t shape[LT_DIMS];
  uint32_t buffer = 0;
  const char *name = luaL_checkstring(L, 2);
  unsigned ndim = lt_check_shape(L, 4, shape);
  return give(L, h,
              soma_kernel_tensor(h->k, name, (soma_dtype)lb_within(L, 3, 0, 255), ndim, shape,
                                 (soma_role)lb_within(L, 5, 0, 255), &buffer),
              &buffer);
}

/* h:constant(tensor)
 * Its bytes go into the program, so they have to be dense. */
static int kernel_constant(lua_State *L) {
  handle *h = check(L);
  uint32_t buffer = 0;
  const lt_tensor *t = lt_make_dense(L, 2);
  return give(L, h,
              soma_kernel_constant(h->k, (soma_dtype)t->dtype, t->ndim, t->shape, t->data, &buffer),
              &buffer);
}

/* h:tile(name or nil, memory code, dtype code, shape, partition, offset, file, line) */
static int kernel_tile(lua_State *L) {
  handle *h = check(L);
  int64_t shape[LT_DIMS];
  uint32_t buffer = 0;
  soma_kernel_tile_info t = SOMA_KERNEL_TILE_INIT;
  t.name = luaL_optstring(L, 2, NULL);
  t.memory = (soma_memory)lb_within(L, 3, 0, 255);
  t.dtype = (soma_dtype)lb_within(L, 4, 0, 255);
  t.ndim = lt_check_shape(L, 5, shape);
  luaL_argcheck(L, t.ndim >= 1 && t.ndim <= 5, 5, "a tile has 1 to 5 dimensions");
  for (unsigned d = 0; d < t.ndim; d++) /* Sizes of tiles have 32 bits. */
    if (shape[d] > UINT32_MAX)
      return luaL_argerror(L, 5,
                           lua_pushfstring(L, "dimension %d has %I elements: at most %I",
                                           (int)d + 1, (LUAI_UACINT)shape[d],
                                           (LUAI_UACINT)UINT32_MAX));
    else
      t.shape[d] = (uint32_t)shape[d];
  t.partition = lb_i32(L, 6);
  t.offset = lb_i32(L, 7);
  t.file = lb_u32(L, 8);
  t.line = lb_u32(L, 9);
  return give(L, h, soma_kernel_tile(h->k, &t, &buffer), &buffer);
}

/* h:queue(dge code, engine code, priority) */
static int kernel_queue(lua_State *L) {
  handle *h = check(L);
  uint32_t queue = 0;
  soma_status s = soma_kernel_queue(h->k, lb_u32(L, 2), (soma_engine)lb_within(L, 3, 0, 255),
                                    lb_u32(L, 4), &queue);
  return give(L, h, s, &queue);
}

/* The whole numbers of the list at index i, in memory of Lua's.
 * One more, since nothing may have size zero. */
static uint32_t *numbers_of(lua_State *L, int i, lua_Unsigned *n) {
  luaL_checktype(L, i, LUA_TTABLE);
  *n = lua_rawlen(L, i);
  uint32_t *out = lua_newuserdatauv(L, ((size_t)*n + 1) * sizeof *out, 0);
  for (lua_Unsigned k = 0; k < *n; k++) {
    lua_rawgeti(L, i, (lua_Integer)k + 1);
    out[k] = lb_u32(L, -1);
    lua_pop(L, 1);
  }
  return out;
}

/* h:group(sizes of the lists, ranks of all) */
static int kernel_group(lua_State *L) {
  handle *h = check(L);
  lua_Unsigned lists, all, sum = 0;
  uint32_t group = 0, *sizes = numbers_of(L, 2, &lists), *ranks = numbers_of(L, 3, &all);
  /* The sum protects from lists that do not go together. */
  for (lua_Unsigned i = 0; i < lists; i++) sum += sizes[i];
  luaL_argcheck(L, sum == all, 3, "there must be as many ranks as the lists have");
  return give(L, h, soma_kernel_group(h->k, (uint32_t)lists, sizes, ranks, &group), &group);
}

static int kernel_register(lua_State *L) {
  handle *h = check(L);
  uint32_t r = 0;
  return give(L, h, soma_kernel_register(h->k, &r), &r);
}

static int kernel_end(lua_State *L) {
  handle *h = check(L);
  return give(L, h, soma_kernel_end(h->k, lb_u32(L, 2)), NULL);
}

/* h:emit(words): a record as a sequence of integers */
static int kernel_emit(lua_State *L) {
  handle *h = check(L);
  uint32_t first = 0;
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t n = lua_rawlen(L, 2);
  /* Records are mostly short, so the block is seldom grown. */
  if (n > h->cap) {
    /* Twice the room, so that long records are rare. */
    char *more = realloc(h->words, 2 * n * sizeof(int64_t));
    if (!more) return luaL_error(L, "out of memory");
    h->words = more;
    h->cap = 2 * n;
  }
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    /* Floats that are whole are taken too. */
    int exact;
    int64_t word = lua_tointegerx(L, -1, &exact);
    if (!exact)
      return luaL_error(L, "word %d is no integer: %s", (int)i + 1, luaL_tolstring(L, -1, NULL));
    memcpy(h->words + i * sizeof word, &word, sizeof word);
    lua_pop(L, 1);
  }
  return give(L, h, soma_kernel_emit(h->k, (const int64_t *)(void *)h->words, n, &first), &first);
}

static int kernel_order(lua_State *L) {
  handle *h = check(L);
  return give(L, h, soma_kernel_order(h->k, lb_u32(L, 2), lb_u32(L, 3)), 0);
}

/* h:loop(start, stop, step, start register, stop register, file, line): the loop's register */
static int kernel_loop(lua_State *L) {
  handle *h = check(L);
  uint32_t reg = 0;
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  r.start = lb_i32(L, 2);
  r.stop = lb_i32(L, 3);
  r.step = lb_i32(L, 4);
  r.start_register = lb_u32(L, 5);
  /* 0: the bound is a number and no register. */
  r.stop_register = lb_u32(L, 6);
  r.file = lb_u32(L, 7);
  r.line = lb_u32(L, 8);
  return give(L, h, soma_kernel_loop(h->k, &r, &reg), &reg);
}

static int kernel_while(lua_State *L) {
  handle *h = check(L);
  /* The register, then the user's file and line. */
  return give(L, h, soma_kernel_while(h->k, lb_u32(L, 2), lb_u32(L, 3), lb_u32(L, 4)), NULL);
}

static int kernel_endloop(lua_State *L) {
  handle *h = check(L);
  return give(L, h, soma_kernel_endloop(h->k), NULL);
}

/* h:finish([the handle of core 1]): true and the program, or false, the message, and whether it has
 * a place */
static int kernel_finish(lua_State *L) {
  /* A second handle is that of core 1. */
  handle *h = check(L), *other = lua_isnoneornil(L, 2) ? NULL : luaL_checkudata(L, 2, HANDLE);
  soma_diagnostics *d = NULL;
  lua_pushboolean(L, 1);
  lb_program *p = lb_new_program(L);
  soma_status s = other ? soma_kernel_finish_pair(h->k, other->k, &p->p, &d)
                        : soma_kernel_finish(h->k, &p->p, &d);
  if (s == SOMA_OK) {
    /* Programs that are made here may show their sources. */
    p->own = true;
    const char *text = soma_diagnostics_text(d);
    if (text[0] != '\0') p->warnings = strdup(text);
    soma_diagnostics_free(d);
    return 2;
  }
  lua_pushboolean(L, 0);
  int n = fail(L, h);
  /* Diagnostics are the assembler's, whose places are lines of the script. */
  if (soma_diagnostics_count(d) > 0) { /* these have their places */
    lua_pop(L, n);
    lua_pushstring(L, soma_diagnostics_text(d));
    lua_pushboolean(L, 1);
    n = 2;
  }
  soma_diagnostics_free(d);
  return 1 + n;
}

static int kernel_report(lua_State *L) {
  handle *h = check(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  /* The text comes in pieces. */
  if (soma_kernel_report(h->k, lb_to_buffer, &b) != SOMA_OK)
    return luaL_error(L, "%s", soma_kernel_error(h->k));
  luaL_pushresult(&b);
  return 1;
}

/* h:figures(): a table; times in nanoseconds */
static int kernel_figures(lua_State *L) {
  /* What the program is bound by: an engine or the transfers. */
  static const char *const bounds[] = {"tensor", "vector", "scalar", "gpsimd", "sync", "dma"};
  soma_kernel_figures f;
  soma_kernel_get_figures(check(L)->k, &f, sizeof f);
  lua_newtable(L);
  lb_set_count(L, "instructions", f.instructions);
  lb_set_count(L, "made", f.made);
  lb_set_count(L, "nops", f.nops);
  lb_set_count(L, "dependences", f.dependences);
  lb_set_count(L, "waits", f.waits);
  lb_set_count(L, "reuse_waits", f.reuse_waits);
  lb_set_count(L, "copies", f.copies);
  lb_set_count(L, "transfers", f.transfers);
  lb_set_count(L, "queues", f.queues);
  lb_set_count(L, "semaphores", f.semaphores);
  lb_set_count(L, "tiles", f.tiles);
  lb_set_count(L, "sbuf_bytes", f.sbuf_bytes);
  lb_set_count(L, "psum_bytes", f.psum_bytes);
  lb_set_count(L, "spills", f.spills);
  lb_set_count(L, "spilled_bytes", f.spilled_bytes);
  lb_set_count(L, "versions", f.versions);
  lb_set_count(L, "left_out", f.left_out);
  lb_set_count(L, "trimmed", f.trimmed);
  lb_set_count(L, "moved", f.moved);
  /* By engine, in nanoseconds. */
  lua_newtable(L);
  for (unsigned e = 0; e < SOMA_ENGINES; e++)
    lb_set_ns(L, soma_engine_name((soma_engine)e), f.busy[e]);
  lb_set_ns(L, "dma", f.dma_busy);
  lua_setfield(L, -2, "busy_ns");
  lb_set_text(L, "bound", bounds[f.bound]);
  return 1;
}

/* h:policies(): those of optimize = 2 as {name, time_ns or nil, chosen}, nil if none was tried */
static int kernel_policies(lua_State *L) {
  handle *h = check(L);
  soma_kernel_policy p;
  for (uint32_t i = 0; soma_kernel_get_policy(h->k, i, &p, sizeof p) == SOMA_OK; i++) {
    /* The table is made with the first one. */
    if (i == 0) lua_newtable(L);
    lua_newtable(L);
    lb_set_text(L, "name", p.name);
    /* A policy that was given up has no time. */
    if (p.done) lb_set_ns(L, "time_ns", p.time);
    lb_set_flag(L, "chosen", p.chosen);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return lua_istable(L, -1) ? 1 : 0;
}

/* h:advice(): a list of tables, see kernel.lua */
static int kernel_advice(lua_State *L) {
  /* In the order of soma_advice_kind. */
  static const char *const kinds[] = {"engine", "load", "value", "tile", "unread", "rows", "order"};
  handle *h = check(L);
  soma_kernel_advice a;
  lua_newtable(L);
  for (uint32_t i = 0; soma_kernel_get_advice(h->k, i, &a, sizeof a) == SOMA_OK; i++) {
    lua_newtable(L);
    lb_set_text(L, "kind", kinds[a.kind]);
    lb_set_ns(L, "saved_ns", a.saved);
    lb_set_text(L, "text", a.text);
    lb_set_text(L, "file", a.file);
    lb_set_text(L, "name", a.name);
    lb_set_text(L, "instruction", a.instruction);
    /* Advice without an instruction is about the whole kernel. */
    if (a.instruction) {
      lb_set_count(L, "line", a.line);
      lb_set_count(L, "times", a.times);
    }
    if (a.kind == SOMA_ADVICE_ENGINE) lb_set_text(L, "engine", soma_engine_name(a.engine));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* h:life(buffer): {name, partition, partitions, offset, bytes, first, last, used} */
static int kernel_life(lua_State *L) {
  handle *h = check(L);
  soma_kernel_life life;
  /* Numbers of buffers are the builder's. */
  if (soma_kernel_get_life(h->k, lb_u32(L, 2), &life) != SOMA_OK)
    return luaL_argerror(L, 2, "there is no such buffer");
  lua_newtable(L);
  lb_set_text(L, "name", life.name);
  lb_set_count(L, "partition", life.partition);
  lb_set_count(L, "partitions", life.partitions);
  lb_set_count(L, "offset", life.offset);
  lb_set_count(L, "bytes", life.bytes);
  lb_set_count(L, "first", life.first);
  lb_set_count(L, "last", life.last);
  lb_set_flag(L, "used", life.used);
  return 1;
}

/* ---- The instruction set ------------------------------------------------------------------- */

/* The names of the codes of a field as {name = code}; of a field that has none nothing is set. */
static void push_values(lua_State *L, const soma_field *f) {
  /* Numbers and patterns have no words. */
  const char *name;
  if (f->kind != SOMA_FIELD_ENUM && f->kind != SOMA_FIELD_ALU && f->kind != SOMA_FIELD_ACTF) return;
  lua_newtable(L);
  /* Codes go up to the first one without a name. */
  for (uint32_t i = 0; i < 256; i++) {
    if ((name = soma_field_value(f, i)) == NULL) {
      if (i > 0) break; /* code 0 of operators and functions is "none" */
      continue;
    }
    lua_pushinteger(L, i);
    lua_setfield(L, -2, name);
  }
  lua_setfield(L, -2, "values");
}

/* Pushes {name, {engine = true}, fields = {{name, kind, mode, ...}}}. */
static void push_opcode(lua_State *L, const soma_opcode_info *op) {
  soma_field f;
  lua_newtable(L);
  lb_set_text(L, "name", op->name);
  lb_set_count(L, "number", op->number);
  lb_set_flag(L, "dma", op->dma);
  lb_set_flag(L, "recorded", op->recorded);
  /* By engine, whether it runs there. */
  for (unsigned e = 0; e < SOMA_ENGINES; e++)
    lb_set_flag(L, soma_engine_name((soma_engine)e), op->engines >> e & 1);
  lua_newtable(L);
  for (uint32_t i = 0; soma_opcode_field(op->number, i, &f) == SOMA_OK; i++) {
    lua_newtable(L);
    lb_set_text(L, "name", f.name);
    lb_set_text(L, "kind", soma_field_kind_name(f.kind));
    lb_set_flag(L, "positional", f.mode == SOMA_FIELD_POSITIONAL);
    lb_set_flag(L, "optional", f.mode == SOMA_FIELD_OPTIONAL);
    /* Fields that take words have them as `values`. */
    push_values(L, &f);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "fields");
}

/* host.opcodes: {name = ...} of all instructions. */
static void push_opcodes(lua_State *L) {
  soma_opcode_info op;
  lua_newtable(L);
  for (uint32_t i = 0; soma_opcode_row(i, &op) == SOMA_OK; i++) {
    /* The table has each instruction by its name. */
    push_opcode(L, &op);
    lua_setfield(L, -2, op.name);
  }
}

/* ---- The files in Lua ---------------------------------------------------------------------- */

enum { MODULE = 1, HOST }; /* upvalues of load_kernel */

/* Gives {kernel, spmd, jit}. */
static int load_kernel(lua_State *L) {
  static const char *const in_order[] = {"view", "record", "tiles", "loops", "kernel", NULL};
  /* Later parts use the earlier ones. */
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(MODULE));
  lua_pushvalue(L, lua_upvalueindex(HOST));
  push_opcodes(L);
  lua_setfield(L, HOST, "opcodes");
  for (int i = 0; in_order[i]; i++)
    lb_run_part(L, parts, in_order[i], "=soma.kernel", MODULE, HOST, HOST);
  lua_getfield(L, HOST, "kernel");
  return 1;
}

void lk_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"file", kernel_file},         {"target", kernel_target},     {"tensor", kernel_tensor},
      {"constant", kernel_constant}, {"tile", kernel_tile},         {"queue", kernel_queue},
      {"group", kernel_group},       {"register", kernel_register}, {"end_life", kernel_end},
      {"emit", kernel_emit},         {"order", kernel_order},       {"loop", kernel_loop},
      {"while_", kernel_while},      {"endloop", kernel_endloop},   {"finish", kernel_finish},
      {"report", kernel_report},     {"figures", kernel_figures},   {"life", kernel_life},
      {"policies", kernel_policies}, {"advice", kernel_advice},     {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", handle_gc}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"new", new_kernel}, {NULL, NULL}};
  int module = lua_gettop(L);
  lb_class(L, HANDLE, meta, methods);
  lua_pushvalue(L, module);
  lua_newtable(L);
  /* Methods and views are added before any part is loaded. */
  luaL_setfuncs(L, functions, 0);
  lk_add_views(L);
  lua_pushcclosure(L, load_kernel, 2);
  lb_load_later(L, module, "kernel spmd jit");
}
