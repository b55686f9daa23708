/* Views of a kernel's tensors and tiles in Lua: soma_view with a name. A view never changes; each
 * operation gives another one. User values: its kernel, its name, and what its parts known at run
 * time go by (registers and views, by number of part), whose numbers count when a record is made.
 */
#include "view_impl.h"

#include <string.h>

#include "../tensor/tensor.h"

#define VIEW "soma.kernel.view"
#define REGISTER "soma.kernel.register"
#define AFFINE "soma.kernel.affine"

/* Number 0 is HBM, so that every other one is a tile's. */
static const char *const memories[] = {"hbm", "sbuf", "psum", NULL};

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Raises a text at the user's line.
 * By the kernel's own method, which knows cores and lines. */
int lk_view_refuse_text(lua_State *L, int view, const char *text) {
  lua_getiuservalue(L, view, KERNEL);
  lua_getfield(L, -1, "refuse");
  lua_insert(L, -2);
  lua_pushstring(L, text);
  lua_call(L, 2, 0);
  return luaL_error(L, "%s", text); /* only if the script has another `refuse` */
}

/* The same of a text with the view's name first: `%s` in the format, then that of the value at
 * `value` if that is not 0. */
static int refuse(lua_State *L, int view, const char *format, int value) {
  lua_getiuservalue(L, view, NAME);
  const char *name = lua_tostring(L, -1);
  const char *shown = value ? luaL_tolstring(L, value, NULL) : "";
  return lk_view_refuse_text(L, view, lua_pushfstring(L, format, name, shown));
}

/* A table with a metatable is something else: a register, a view. */
bool lk_is_list(lua_State *L, int i) {
  if (!lua_istable(L, i)) return false;
  bool plain = !lua_getmetatable(L, i);
  if (!plain) lua_pop(L, 1);
  return plain;
}

/* ---- Making one ------------------------------------------------------------------------------ */

lk_view *lk_view_check(lua_State *L, int i) { return luaL_checkudata(L, i, VIEW); }

/* Pushes a copy of the view at index `from`, and fills what its messages need. */
lk_view *lk_view_begin(lua_State *L, int from, soma_view_error *e) {
  const lk_view *v = lk_view_check(L, from);
  memset(e, 0, sizeof *e);
  /* Messages count from 1, as Lua does. */
  e->from = 1;
  lua_getiuservalue(L, from, NAME); /* stays: the message's */
  e->name = lua_tostring(L, -1);
  lk_view *w = lua_newuserdatauv(L, sizeof *w, USER_VALUES);
  *w = *v;
  /* Kernel, name and parts are those of the view it comes from. */
  for (int i = 1; i <= USER_VALUES; i++) {
    lua_getiuservalue(L, from, i);
    lua_setiuservalue(L, -2, i);
  }
  luaL_setmetatable(L, VIEW);
  return w;
}

/* All operations end here: the copy is on the top. */
int lk_view_finish(lua_State *L, int done, const soma_view_error *e) {
  return done ? 1 : lk_view_refuse_text(L, 1, e->text);
}

/* whole(kernel, buffer, name, memory, dtype, shape): all of a tensor or a tile */
static int whole(lua_State *L) {
  soma_view_error e = {.from = 1};
  int64_t shape[LT_DIMS];
  uint32_t buffer = lb_u32(L, 2);
  e.name = luaL_checkstring(L, 3);
  int memory = luaL_checkoption(L, 4, NULL, memories);
  unsigned dtype = lb_dtype(L, 5), ndim = lt_check_shape(L, 6, shape);
  lk_view *v = lua_newuserdatauv(L, sizeof *v, USER_VALUES);
  v->memory = memory;
  /* Padding is compared by nobody, but should be the same each time. */
  memset(v->steps, 0, sizeof v->steps);
  int done = soma_view_make(&v->v, buffer, dtype, memory != 0, ndim, shape, &e);
  if (!done) return luaL_error(L, "%s", e.text);
  /* The steps of the whole tensor are kept, for index vectors. */
  for (unsigned d = 0; d < v->v.ndim; d++) v->steps[d] = v->v.dim[d].step;
  for (int i = KERNEL; i <= NAME; i++) {
    lua_pushvalue(L, i == KERNEL ? 1 : 3);
    lua_setiuservalue(L, -2, i);
  }
  luaL_setmetatable(L, VIEW);
  return 1;
}

/* Remembers what the view's last part goes by: the value at index `by`. The view is on the top. */
static void remember(lua_State *L, const lk_view *w, int by) {
  lua_createtable(L, SOMA_VIEW_DYNS, 0);
  /* The parts of the view before, which the new one shares. */
  lua_getiuservalue(L, -2, PARTS);
  for (int i = 1; i < w->v.ndyn && lua_istable(L, -1); i++) {
    lua_geti(L, -1, i);
    lua_seti(L, -3, i);
  }
  lua_pop(L, 1);
  lua_pushvalue(L, by);
  lua_seti(L, -2, w->v.ndyn);
  lua_setiuservalue(L, -2, PARTS);
}

/* ---- Numbers that a register gives ----------------------------------------------------------- */

/* A whole number, not a string or a float that could be one. */
bool lk_integer_at(lua_State *L, int i, int64_t *out) {
  bool fine = lua_isinteger(L, i);
  *out = fine ? lua_tointeger(L, i) : 0;
  return fine;
}

/* By metatable, as both classes are tables. */
static bool has_class(lua_State *L, int i, const char *class) {
  if (!lua_istable(L, i) || !lua_getmetatable(L, i)) return false;
  luaL_getmetatable(L, class);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

static bool field(lua_State *L, int i, const char *name, int64_t *out) {
  lua_getfield(L, i, name);
  bool fine = lk_integer_at(L, -1, out);
  lua_pop(L, 1);
  return fine;
}

/* Where a slice begins: a whole number, or register * scale + number. Pushes the register, or nil.
 * False if it is neither. */
static bool start_of(lua_State *L, int i, int64_t *number, soma_view_dyn *at) {
  /* A register alone is once itself. */
  *at = (soma_view_dyn){.kind = SOMA_DYN_REGISTER, .stride = 1};
  *number = 0;
  if (has_class(L, i, REGISTER)) {
    lua_pushvalue(L, i);
    return true;
  }
  if (has_class(L, i, AFFINE)) {
    lua_getfield(L, i, "register");
    return field(L, i, "scale", &at->stride) && field(L, i, "constant", number);
  }
  lua_pushnil(L);
  /* Numbers are known now, so nothing is left for the run. */
  return lk_integer_at(L, i, number);
}

/* ---- Slices ---------------------------------------------------------------------------------- */

/* Dimension d of the view at index 1, as the value at index i says it, from 1 on. */
unsigned lk_view_dimension(lua_State *L, int i) {
  const lk_view *v = lk_view_check(L, 1);
  int64_t d;
  /* Dimensions count from 1 in Lua, from 0 in C. */
  if (lk_integer_at(L, i, &d) && d >= 1 && d <= v->v.ndim) return (unsigned)d - 1;
  lua_pushfstring(L, "%%s has dimensions 1 to %d, not %%s", v->v.ndim);
  return (unsigned)refuse(L, 1, lua_tostring(L, -1), i);
}

/* A whole number at index i; `other` where i has none. */
int64_t lk_number_or(lua_State *L, int i, int64_t other, bool *fine) {
  int64_t x;
  /* What is left out is not wrong. */
  if (lua_isnoneornil(L, i)) return other;
  *fine = lk_integer_at(L, i, &x) && *fine;
  return x;
}

/* Slices dimension d of w, a copy of view 1, on the top: `count` by `step` from the value at index
 * `from` on. */
static void slice_by(lua_State *L, lk_view *w, unsigned d, int from, int64_t count, int64_t step) {
  soma_view_error e = {.from = 1};
  int top = lua_gettop(L);
  soma_view_dyn at;
  int64_t start;
  if (!start_of(L, from, &start, &at))
    refuse(L, 1, "a slice of %s must start at a whole number or a register, not at %s", from);
  lua_getiuservalue(L, 1, NAME);
  e.name = lua_tostring(L, -1);
  unsigned parts = w->v.ndyn;
  /* Whether a register was pushed. */
  bool moves = !lua_isnil(L, top + 1);
  int done = moves ? soma_view_slice_at(&w->v, d, &at, start, count, step, &e)
                   : soma_view_slice(&w->v, d, start, count, step, &e);
  if (!done) lk_view_finish(L, 0, &e);
  /* Only a new part has to be remembered. */
  if (w->v.ndyn > parts) {
    lua_pushvalue(L, top);
    remember(L, w, top + 1);
  }
  lua_settop(L, top);
}

/* The same with {start, count, step} in the values from index `from` on. */
static void slice_values(lua_State *L, lk_view *w, unsigned d, int from) {
  bool fine = true;
  int64_t count = lk_number_or(L, from + 1, 0, &fine), step = lk_number_or(L, from + 2, 1, &fine);
  /* A step of 0 would be one element many times. */
  if (!fine || count < 1 || step == 0)
    refuse(L, 1,
           "a slice of %s must be {start, count} or {start, count, step} in whole numbers, count "
           "at least 1",
           0);
  slice_by(L, w, d, from, count, step);
}

/* The same with these in a list at index i. */
static void slice_list(lua_State *L, lk_view *w, unsigned d, int i) {
  int top = lua_gettop(L);
  /* What is not in the list is nil, and so has its default. */
  for (int k = 1; k <= 3; k++) lua_geti(L, i, k);
  lua_pushvalue(L, top);
  slice_values(L, w, d, top + 1);
  lua_settop(L, top);
}

/* One element of dimension d, which is dropped but for a tile's partitions. */
static void index_by(lua_State *L, lk_view *w, unsigned d, int from) {
  soma_view_error e = {.from = 1};
  slice_by(L, w, d, from, 1, 1);
  /* A tile keeps its partitions, even if there is only one. */
  if (!(w->v.tile && d == 0) && !soma_view_squeeze(&w->v, d, &e)) lk_view_finish(L, 0, &e);
}

/* v[{...}] with a list in the key: one entry for each dimension, a number or a list. */
static void by_dimension(lua_State *L, lk_view *w, int key) {
  unsigned d = 0;
  lua_Integer n = luaL_len(L, key);
  for (lua_Integer i = 1; i <= n; i++) {
    int top = lua_gettop(L);
    lua_geti(L, key, i);
    bool list = lk_is_list(L, top + 1), all = list && lua_rawlen(L, top + 1) == 0;
    /* More entries than dimensions. */
    if (d >= w->v.ndim) refuse(L, 1, "%s has fewer dimensions than the key has entries", 0);
    lua_pushvalue(L, top); /* w */
    if (!list)
      index_by(L, w, d, top + 1);
    else if (!all)
      slice_list(L, w, d, top + 1);
    /* A number drops the dimension, so that the next entry is for the same place. */
    if (list || (w->v.tile && d == 0)) d++;
    lua_settop(L, top);
  }
}

/* v[key] of what is no name: see view.lua */
static int subscript(lua_State *L) {
  soma_view_error e;
  bool lists = false;
  lua_settop(L, 2);
  lk_view *w = lk_view_begin(L, 1, &e);
  /* A number by itself is an index of the first dimension. */
  if (!lk_is_list(L, 2)) {
    if (w->v.ndim == 0) lk_view_dimension(L, 2);
    index_by(L, w, 0, 2);
    return 1;
  }
  for (lua_Integer i = 1, n = luaL_len(L, 2); i <= n; i++) {
    lua_geti(L, 2, i);
    lists = lists || lk_is_list(L, -1);
    lua_pop(L, 1);
  }
  /* A list of numbers is one slice of the first dimension. */
  if (lists)
    by_dimension(L, w, 2);
  else
    slice_list(L, w, 0, 2);
  return 1;
}

/* v:slice(dimension, start, count [, step]); dimensions count from 1. */
static int view_slice(lua_State *L) {
  soma_view_error e;
  lua_settop(L, 5);
  unsigned d = lk_view_dimension(L, 2);
  lk_view *w = lk_view_begin(L, 1, &e);
  slice_values(L, w, d, 3);
  return 1;
}

/* v:block(i, n): rows i * n to i * n + n - 1, or fewer at the end. */
static int view_block(lua_State *L) {
  soma_view_error e;
  bool fine = true;
  lua_settop(L, 3);
  const lk_view *v = lk_view_check(L, 1);
  int64_t rows = v->v.ndim ? v->v.dim[0].num : 0;
  int64_t i = lk_number_or(L, 2, -1, &fine), n = lk_number_or(L, 3, 0, &fine);
  /* Also what is no number, or a view without dimensions. */
  if (!fine || i < 0 || n < 1 || rows < 1 || i > (rows - 1) / n) {
    lua_getiuservalue(L, 1, NAME);
    return lk_view_refuse_text(
        L, 1,
        lua_pushfstring(L, "block %s of %s rows: %s has %I", luaL_tolstring(L, 2, NULL),
                        luaL_tolstring(L, 3, NULL), lua_tostring(L, 4), (LUAI_UACINT)rows));
  }
  lk_view *w = lk_view_begin(L, 1, &e);
  int64_t left = rows - i * n;
  return lk_view_finish(L, soma_view_slice(&w->v, 0, i * n, n < left ? n : left, 1, &e), &e);
}

/* ---- What is known only at run time ---------------------------------------------------------- */

/* Each part takes part in the address when the program runs. */
static int add_part(lua_State *L, soma_view_dyn part) {
  soma_view_error e;
  lk_view *w = lk_view_begin(L, 1, &e);
  if (!soma_view_add(&w->v, &part, &e)) return lk_view_finish(L, 0, &e);
  remember(L, w, 2);
  return 1;
}

static void check_index(lua_State *L, const char *what) {
  static const char text[] = "%s takes a view of whole numbers in SBUF, not %s";
  /* Anything else would have no elements to go by. */
  if (luaL_testudata(L, 2, VIEW)) return;
  lk_view_refuse_text(L, 1, lua_pushfstring(L, text, what, luaL_tolstring(L, 2, NULL)));
}

/* v:gather(index [, dimension]): of a DMA: that dimension (1) goes by an index vector of SBUF. */
static int view_gather(lua_State *L) {
  lua_settop(L, 3);
  lk_view_check(L, 1);
  check_index(L, "gather");
  unsigned d = lua_isnil(L, 3) ? 0 : lk_view_dimension(L, 3);
  const lk_view *v =
      lk_view_check(L, 1); /* an index is multiplied by the step of all of the tensor */
  if (v->memory == 0 && d < v->v.ndim && v->v.dim[d].step != v->steps[d])
    return refuse(L, 1, "an index vector goes by a dimension of all of %s, with its step", 0);
  return add_part(L, (soma_view_dyn){.kind = SOMA_DYN_GATHER,
                                     .dim = (uint8_t)d,
                                     .operand = &lk_view_check(L, 2)->v});
}

/* v:indirect(index): on trn3, free elements at places that the index gives. */
static int view_indirect(lua_State *L) {
  lua_settop(L, 2);
  lk_view_check(L, 1);
  check_index(L, "indirect");
  return add_part(L,
                  (soma_view_dyn){.kind = SOMA_DYN_INDIRECT, .operand = &lk_view_check(L, 2)->v});
}

/* v:bound(register): as many partitions of a tile (rows of a tensor) as the register says, at most
 * those of the view. */
static int view_bound(lua_State *L) {
  lua_settop(L, 2);
  lk_view_check(L, 1);
  const char *shown = luaL_tolstring(L, 2, NULL);
  if (!has_class(L, 2, REGISTER))
    return lk_view_refuse_text(L, 1, lua_pushfstring(L, "bound takes a register, not %s", shown));
  lua_pop(L, 1);
  return add_part(L, (soma_view_dyn){.kind = SOMA_DYN_SIZE});
}

/* ---- As an operand --------------------------------------------------------------------------- */

/* The view at index i with its registers' numbers; refused if it is not of the kernel at `kernel`.

 * A copy, whose registers get the numbers that they have now. */
static soma_view settled(lua_State *L, int i, int kernel) {
  soma_view v = lk_view_check(L, i)->v;
  lua_getiuservalue(L, i, KERNEL);
  if (!lua_rawequal(L, -1, kernel)) {
    lua_getiuservalue(L, i, NAME);
    lua_pushfstring(L, "%s belongs to another kernel", lua_tostring(L, -1));
    lua_getfield(L, kernel, "refuse");
    lua_pushvalue(L, kernel);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 0);
    luaL_error(L, "a view belongs to another kernel");
  }
  lua_pop(L, 1);
  /* The parts are in the order in which they were added. */
  lua_getiuservalue(L, i, PARTS);
  int parts = lua_gettop(L);
  for (int p = 0; p < v.ndyn; p++) {
    int64_t id = 0;
    lua_geti(L, parts, p + 1);
    /* A register whose loop has ended has the number 0. */
    if (lua_istable(L, -1) && field(L, lua_gettop(L), "id", &id) && id > 0 && id <= UINT32_MAX)
      v.dyn[p].reg = (uint32_t)id;
    else if (v.dyn[p].operand)
      /* Views that are indices may be of another kernel as well. */
      settled(L, lua_gettop(L), kernel);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return v;
}

/* put_operand(words, view, kernel): appends the operand's words, as in a record, to a list. */
static int put_operand(lua_State *L) {
  soma_view_error e = {.from = 1};
  int64_t words[4 * SOMA_VIEW_WORDS];
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 3);
  soma_view v = settled(L, 2, 3);
  lua_getiuservalue(L, 2, NAME);
  e.name = lua_tostring(L, -1);
  size_t n = soma_view_words(&v, 0, words, sizeof words / sizeof *words, &e);
  if (n == 0) return lk_view_refuse_text(L, 2, e.text);
  /* The words go to the end of the list. */
  lua_Integer at = (lua_Integer)lua_rawlen(L, 1);
  for (size_t i = 0; i < n; i++) {
    lua_pushinteger(L, words[i]);
    lua_rawseti(L, 1, at + (lua_Integer)i + 1);
  }
  return 0;
}

/* same_as(view): a text that two views share if they are the same elements in the same order. */
static int same_as(lua_State *L) {
  soma_view_error e = {.from = 1};
  int64_t words[4 * SOMA_VIEW_WORDS];
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, KERNEL);
  soma_view v = settled(L, 1, 2);
  /* The words say everything about the elements. */
  size_t n = soma_view_words(&v, 0, words, sizeof words / sizeof *words, &e);
  luaL_Buffer b;
  luaL_tolstring(L, 1, NULL);
  luaL_buffinit(L, &b);
  /* The first word is the number of words. */
  for (size_t i = 1; i < n; i++) {
    lua_pushfstring(L, " %I", (LUAI_UACINT)words[i]);
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
  lua_concat(L, 2);
  return 1;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static int view_text(lua_State *L) {
  const lk_view *v = lk_view_check(L, 1);
  luaL_Buffer b;
  lua_getiuservalue(L, 1, NAME);
  const char *name = lua_tostring(L, -1);
  luaL_buffinit(L, &b);
  lua_pushfstring(L, "%s %s[", name, isa_dtypes[v->v.dtype].name);
  luaL_addvalue(&b);
  for (unsigned d = 0; d < v->v.ndim; d++) {
    lua_pushfstring(L, d ? ", %I" : "%I", (LUAI_UACINT)v->v.dim[d].num);
    luaL_addvalue(&b);
  }
  luaL_addstring(&b, "] in ");
  luaL_addstring(&b, memories[v->memory]);
  luaL_pushresult(&b);
  return 1;
}

static int view_index(lua_State *L) {
  const lk_view *v = lk_view_check(L, 1);
  /* A name is a field or a method; everything else is a subscript. */
  if (lua_type(L, 2) != LUA_TSTRING) return subscript(L);
  const char *key = lua_tostring(L, 2);
  bool steps = strcmp(key, "steps") == 0;
  if (steps || strcmp(key, "shape") == 0) {
    int64_t all[SOMA_VIEW_DIMS];
    for (unsigned d = 0; d < v->v.ndim; d++) all[d] = steps ? v->v.dim[d].step : v->v.dim[d].num;
    lb_push_shape(L, v->v.ndim, all);
  } else if (strcmp(key, "dtype") == 0) {
    lua_pushstring(L, isa_dtypes[v->v.dtype].name);
  } else if (strcmp(key, "memory") == 0) {
    lua_pushstring(L, memories[v->memory]);
  } else if (strcmp(key, "buffer") == 0) {
    lua_pushinteger(L, v->v.buffer);
  } else if (strcmp(key, "name") == 0) {
    lua_getiuservalue(L, 1, NAME);
  } else if (strcmp(key, "_k") == 0) {
    lua_getiuservalue(L, 1, KERNEL);
  } else {
    lua_pushvalue(L, 2);
    /* Methods are in the upvalue. */
    lua_rawget(L, lua_upvalueindex(1));
  }
  return 1;
}

static int is_view(lua_State *L) {
  lua_pushboolean(L, luaL_testudata(L, 1, VIEW) != NULL);
  return 1;
}

void lk_add_views(lua_State *L) {
  static const luaL_Reg functions[] = {{"whole", whole},
                                       {"is_view", is_view},
                                       {"put_operand", put_operand},
                                       {"same_as", same_as},
                                       {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__tostring", view_text}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"slice", view_slice},
                                     {"block", view_block},
                                     {"broadcast", lk_view_broadcast},
                                     {"permute", lk_view_permute},
                                     {"reshape", lk_view_reshape},
                                     {"view", lk_view_as},
                                     {"ap", lk_view_ap},
                                     {"gather", view_gather},
                                     {"indirect", view_indirect},
                                     {"bound", view_bound},
                                     {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  lb_object(L, VIEW, meta, view_index, (const luaL_Reg *const[]){methods, NULL});
  /* Registers and affine values are tables of view.lua, known here by their metatables. */
  luaL_newmetatable(L, REGISTER);
  lua_setfield(L, -2, "Register");
  luaL_newmetatable(L, AFFINE);
  lua_setfield(L, -2, "Affine");
}
