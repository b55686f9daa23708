/* core.sbuf and core.psum: the on-chip memories as tensors. */
#include <string.h>

#include "machine.h"

#define MEMORY_CLASS "soma.memory"
/* A bound for options, so that a product cannot overflow; the machine has the exact
 * one. */
enum { MAX_BYTES = 1 << 20 }; /* more than a partition of any target has */

/* One value that says which memory; the core is a user value. */
void lb_push_memory(lua_State *L, int index, soma_memory which) {
  soma_memory *m = lua_newuserdatauv(L, sizeof *m, 1);
  *m = which;
  lua_pushvalue(L, index);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, MEMORY_CLASS);
}

static const char *memory_name(soma_memory m) { return m == SOMA_SBUF ? "sbuf" : "psum"; }

/* A rectangle: bytes bytes at offset of n partitions from `partition`. */
typedef struct place {
  soma_machine *m;
  soma_memory which;
  unsigned core;
  uint32_t partition, n;
  uint64_t offset, bytes;
} place;

/* Pushes the core, which the memory object keeps reachable. */
static place check_memory(lua_State *L) {
  const soma_memory *which = luaL_checkudata(L, 1, MEMORY_CLASS);
  /* The core is left on the stack, as find_tile needs its program. */
  lua_getiuservalue(L, 1, 1);
  const lb_core *core = lua_touserdata(L, -1);
  if (core->m == NULL) luaL_error(L, "%s: the core is closed", memory_name(*which));
  if (core->running != NULL)
    luaL_error(L, "%s: the core is running: do not call this from its own callback",
               memory_name(*which));
  return (place){.m = core->m, .which = *which};
}

/* Tiles are found in the program of the run that started last. */
static soma_tile_info find_tile(lua_State *L, const char *name, place *at) {
  soma_tile_info info = {0};
  lua_getiuservalue(L, -1, LB_CORE_PROGRAM);
  const lb_program *p = lua_touserdata(L, -1);
  if (p == NULL || p->p == NULL) luaL_error(L, "tile '%s': the core has no program yet", name);
  if (!lb_program_tile(p->p, name, &info)) luaL_error(L, "the program has no tile '%s'", name);
  /* A name of the other memory is more likely a mistake than a wish. */
  if (info.memory != at->which)
    luaL_error(L, "tile '%s' is in %s, not in %s", name, memory_name(info.memory),
               memory_name(at->which));
  at->partition = info.partition;
  at->n = info.shape[0];
  at->offset = info.offset;
  at->bytes = info.bytes;
  return info;
}

/* As the tile's bytes lie: dense in each partition. */
static lt_tensor tile_layout(const soma_tile_info *info) {
  lt_tensor t = {.dtype = (unsigned)info->dtype, .ndim = info->ndim};
  for (uint32_t d = 0; d < info->ndim; d++) t.shape[d] = info->shape[d];
  lt_layout(&t);
  return t;
}

/* Partition by partition, since each has its own bytes. */
static void transfer(lua_State *L, const place *at, unsigned char *data, bool write) {
  soma_status s = SOMA_OK;
  for (uint32_t i = 0; i < at->n && s == SOMA_OK; i++, data += at->bytes)
    s = write ? soma_core_memory_write(at->m, at->core, at->which, at->partition + i, at->offset,
                                       data, (size_t)at->bytes)
              : soma_core_memory_read(at->m, at->core, at->which, at->partition + i, at->offset,
                                      data, (size_t)at->bytes);
  if (s != SOMA_OK) lb_fail(L, memory_name(at->which), at->m, s);
}

/* A pair has two of each memory. */
static unsigned core_option(lua_State *L, int arg, const char *what) {
  return (unsigned)lb_integer(L, arg, what, "core", 0, ISA_MAX_CORES - 1, 0);
}

/* memory:read("tile"[, {core=0}]) with the tile's shape and dtype, or memory:read{partition,
 * partitions=1, offset=0, dtype="uint8", count or bytes, core=0}, which gives [partitions, count].
 */
static int memory_read(lua_State *L) {
  static const char *const known[] = {"partition", "partitions", "offset", "dtype",
                                      "count",     "bytes",      "core",   NULL};
  lua_settop(L, 3);
  /* With a tile the core is in a table of its own. */
  unsigned core = lua_type(L, 2) == LUA_TSTRING ? lb_core_number(L, 3, "read") : 0;
  /* Nothing but the memory and the place is left. */
  lua_settop(L, 2);
  place at = check_memory(L);
  at.core = core;
  lt_tensor want = {.dtype = ISA_uint8, .ndim = 2};
  if (lua_type(L, 2) == LUA_TSTRING) {
    soma_tile_info info = find_tile(L, lua_tostring(L, 2), &at);
    want = tile_layout(&info);
  } else {
    luaL_checktype(L, 2, LUA_TTABLE);
    lb_options(L, 2, "read", known);
    at.core = core_option(L, 2, "read");
    at.partition = (uint32_t)lb_integer(L, 2, "read", "partition", 0, ISA_PMAX - 1, 0);
    at.n = (uint32_t)lb_integer(L, 2, "read", "partitions", 0, ISA_PMAX, 1);
    at.offset = (uint64_t)lb_integer(L, 2, "read", "offset", 0, INT32_MAX, 0);
    want.dtype = lb_dtype_option(L, 2, "read", ISA_uint8);
    lua_Integer each = isa_dtype_bytes(want.dtype);
    /* Without a count; with one it is not used. */
    lua_Integer bytes = lb_integer(L, 2, "read", "bytes", 0, MAX_BYTES, 0);
    /* A count, or so many bytes. */
    lua_Integer count = lb_integer(L, 2, "read", "count", 0, MAX_BYTES, bytes / each);
    if (bytes % each != 0)
      return luaL_error(L, "read: %I bytes are not a whole number of %s", (LUAI_UACINT)bytes,
                        isa_dtypes[want.dtype].name);
    want.shape[0] = at.n;
    want.shape[1] = count;
    at.bytes = (uint64_t)(count * each);
  }
  /* The tensor is made first: an error in the transfer frees it. */
  lt_tensor *t = lt_new(L, want.dtype, want.ndim, want.shape);
  transfer(L, &at, t->data, false);
  return 1;
}

/* memory:write("tile", tensor[, {core=0}]) of the tile's shape and dtype, or
 * memory:write({partition, offset=0, core=0}, tensor): a tensor of one dimension goes to one
 * partition, of more dimensions its first counts partitions. */
static int memory_write(lua_State *L) {
  static const char *const known[] = {"partition", "offset", "core", NULL};
  lua_settop(L, 4);
  /* With a place the core is an option of the place. */
  unsigned core = lua_type(L, 2) == LUA_TSTRING ? lb_core_number(L, 4, "write") : 0;
  lua_settop(L, 3);
  const lt_tensor *t = lt_make_dense(L, 3);
  place at = check_memory(L);
  at.core = core;
  if (lua_type(L, 2) == LUA_TSTRING) {
    soma_tile_info info = find_tile(L, lua_tostring(L, 2), &at);
    lt_tensor want = tile_layout(&info);
    /* Type and shape must agree, as nothing here converts. */
    if (t->dtype != want.dtype || t->ndim != want.ndim ||
        memcmp(t->shape, want.shape, t->ndim * sizeof *t->shape) != 0)
      return luaL_error(L, "write: tile '%s' is %s, the tensor %s", lua_tostring(L, 2),
                        lt_push_type(L, &want), lt_push_type(L, t));
  } else {
    luaL_checktype(L, 2, LUA_TTABLE);
    lb_options(L, 2, "write", known);
    at.core = core_option(L, 2, "write");
    at.partition = (uint32_t)lb_integer(L, 2, "write", "partition", 0, ISA_PMAX - 1, 0);
    at.offset = (uint64_t)lb_integer(L, 2, "write", "offset", 0, INT32_MAX, 0);
    /* A vector is one partition's bytes. */
    int64_t rows = t->ndim > 1 ? t->shape[0] : 1;
    if (rows > ISA_PMAX)
      return luaL_error(L, "write: %s has more rows than the memory's 128 partitions",
                        lt_push_type(L, t));
    /* An empty tensor writes nothing. */
    at.n = t->size > 0 ? (uint32_t)rows : 0;
    /* An empty tensor has no rows to divide by. */
    at.bytes = rows > 0 ? (uint64_t)(t->size / rows * isa_dtype_bytes(t->dtype)) : 0;
  }
  transfer(L, &at, t->data, true);
  return 0;
}

void lb_open_memory(lua_State *L) {
  static const luaL_Reg methods[] = {{"read", memory_read}, {"write", memory_write}, {NULL, NULL}};
  lb_class(L, MEMORY_CLASS, NULL, methods);
}
