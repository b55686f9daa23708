/* Custom operators in Lua: core:custom registers a function, which a run then calls with tensors.
 *
 * The table at LB_CORE_CUSTOM holds an operator by its name and by its address. An operator is a
 * userdata whose user value is the function. */
#include <string.h>

#include "machine.h"

/* The address tells operators apart; the core is where a call finds Lua. */
typedef struct lb_operator {
  lb_core *core;
} lb_operator;

/* ---- Registration -------------------------------------------------------------------------- */

static uint32_t one_type(lua_State *L, const char *key) {
  size_t n = 0;
  /* Also the sequence's items, which are looked at one by one. */
  const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : "";
  int d = isa_dtype_find(name, n);
  if (d < 0)
    return (uint32_t)luaL_error(
        L, "custom: option '%s' has a %s; expected a dtype, a sequence of dtypes or \"any\"", key,
        n ? lua_pushfstring(L, "'%s'", name) : luaL_typename(L, -1));
  /* A bit for each type. */
  return UINT32_C(1) << d;
}

/* The types of the value on the top, which goes: a dtype, "any", or a sequence of dtypes. */
static uint32_t types_of(lua_State *L, const char *key) {
  uint32_t mask = 0;
  /* 0 stands for any. */
  if (lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "any") == 0) {
    lua_pop(L, 1);
    return 0;
  }
  /* One type stands for a list of one. */
  if (!lua_istable(L, -1)) {
    mask = one_type(L, key);
    lua_pop(L, 1);
    return mask;
  }
  for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
    mask |= one_type(L, key);
    lua_pop(L, 1);
  }
  /* 0 would be any type, which is not what an empty list says. */
  if (mask == 0) luaL_error(L, "custom: option '%s' has an empty sequence of dtypes", key);
  lua_pop(L, 2);
  return mask;
}

/* Option `key`: nil, a count, or a sequence of the operands' types. Returns the count, -1 any.
 * types: one mask for each operand, filled in only from a sequence. */
static int operands(lua_State *L, const char *key, uint32_t *types) {
  int type = lb_option(L, 3, key), n = 0;
  if (type == LUA_TTABLE) {
    for (; lua_rawgeti(L, -1, n + 1) != LUA_TNIL; n++) {
      if (n == SOMA_CUSTOM_OPERANDS)
        luaL_error(L, "custom: option '%s' has more than %d operands", key, n);
      /* types_of takes the value off the stack. */
      types[n] = types_of(L, key);
    }
    lua_pop(L, 2);
    return n;
  }
  /* A count: its types may be any. */
  lua_pop(L, 1);
  return (int)lb_integer(L, 3, "custom", key, 0, SOMA_CUSTOM_OPERANDS, -1);
}

/* Defined below, with the calls. */
static soma_status call(void *ud, soma_call *c);

static void read_options(lua_State *L, soma_custom_op *op) {
  static const char *const known[] = {"fn",   "cycles", "cycles_per_element", "dsts", "srcs",
                                      "imms", NULL};
  lb_options(L, 3, "custom", known);
  /* The table at 3 keeps the function until it has a place of its own. */
  if (lb_option(L, 3, "fn") != LUA_TFUNCTION)
    luaL_error(L, "custom: option 'fn' must be a function, not %s", luaL_typename(L, -1));
  lua_pop(L, 1);
  /* Cycles are per call; the other ones come on top for each element. */
  op->cycles = (uint64_t)lb_integer(L, 3, "custom", "cycles", 0, LUA_MAXINTEGER, 0);
  op->cycles_per_element = lb_number(L, 3, "custom", "cycles_per_element", 0);
  op->dsts = operands(L, "dsts", op->dst_types);
  op->srcs = operands(L, "srcs", op->src_types);
  op->imms = (int)lb_integer(L, 3, "custom", "imms", 0, SOMA_CUSTOM_OPERANDS, -1);
}

/* Pushes the core's table of operators, made when none exists yet.
 * A core without operators has none. */
static void push_table(lua_State *L) {
  if (lua_getiuservalue(L, 1, LB_CORE_CUSTOM) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, LB_CORE_CUSTOM);
}

/* The operator at address x of the table at index is no longer called. */
static void release(lua_State *L, int table, const void *x) {
  /* Without an entry the collector takes the operator. */
  lua_pushnil(L);
  lua_rawsetp(L, table, x);
}

/* core:custom(name, {fn, cycles, cycles_per_element, dsts, srcs, imms}), or nil instead of the
 * table to take it away. */
int lb_core_custom(lua_State *L) {
  soma_custom_op op = SOMA_CUSTOM_OP_INIT;
  lua_settop(L, 3);
  lb_core *core = lb_check_core(L, 1);
  size_t n;
  const char *name = luaL_checklstring(L, 2, &n);
  /* The machine compares names as C strings. */
  luaL_argcheck(L, strlen(name) == n, 2, "an operator's name must not have a zero byte");
  bool given = !lua_isnil(L, 3);
  if (given) read_options(L, &op);
  push_table(L); /* 4 */
  lua_pushvalue(L, 2);
  lua_rawget(L, 4);
  /* The operator that had the name before, if any. */
  const void *old = lua_touserdata(L, 5);
  /* Also made to take a name away, since op.ud has to be something. */
  lb_operator *x = lua_newuserdatauv(L, sizeof *x, 1); /* 6 */
  x->core = core;
  if (given) {
    lua_getfield(L, 3, "fn");
    lua_setiuservalue(L, 6, 1);
    lua_pushvalue(L, 6);
    lua_rawsetp(L, 4, x); /* kept before it can be called */
  }
  op.fn = call;
  op.ud = x;
  /* The machine may refuse, while the old operator stays. */
  soma_status s = soma_custom_set(core->m, name, given ? &op : NULL);
  if (s != SOMA_OK) {
    release(L, 4, x);
    return lb_fail(L, "custom", core->m, s);
  }
  lua_pushvalue(L, 2);
  if (given) lua_pushvalue(L, 6);
  /* nil takes the name out of the table. */
  else
    lua_pushnil(L);
  lua_rawset(L, 4);
  /* The old one is no longer called. */
  if (old != NULL) release(L, 4, old);
  return 0;
}

/* ---- Calls --------------------------------------------------------------------------------- */

/* Pushes a tensor with what the operand holds.
 * Its values are copied, since the function may keep the tensor. */
static lt_tensor *push_operand(lua_State *L, soma_call *c, uint32_t i) {
  soma_operand o;
  int64_t shape[LT_DIMS];
  soma_call_operand(c, i, &o);
  for (uint32_t d = 0; d < o.ndim; d++) shape[d] = o.shape[d];
  /* As wide as a partition's elements lie together. */
  lt_tensor *t = lt_new(L, (unsigned)o.dtype, o.ndim, shape);
  size_t row = (size_t)o.elements * soma_dtype_size(o.dtype);
  for (uint32_t p = 0; p < o.partitions; p++)
    soma_call_read(c, i, p, 0, o.elements, t->data + p * row);
  return t;
}

static void store_operand(soma_call *c, uint32_t i, const lt_tensor *t) {
  /* Back to where the operand is: what the function left in the tensor. */
  soma_operand o;
  soma_call_operand(c, i, &o);
  size_t row = (size_t)o.elements * soma_dtype_size(o.dtype);
  for (uint32_t p = 0; p < o.partitions; p++)
    soma_call_write(c, i, p, 0, o.elements, t->data + p * row);
}

/* What call hands to call_function through one pointer. */
typedef struct pending {
  const lb_operator *x;
  soma_call *call;
} pending;

/* core, pending: calls fn(dst ..., src ..., imm ...). What it returns is assigned to the dsts. */
static int call_function(lua_State *L) {
  const pending *p = lua_touserdata(L, 2);
  lt_tensor *dst[SOMA_CUSTOM_OPERANDS];
  uint32_t dsts = soma_call_dsts(p->call), n = dsts + soma_call_srcs(p->call);
  uint32_t imms = soma_call_imms(p->call);
  /* Tensors twice over: once to keep them, once as arguments. */
  luaL_checkstack(L, (int)(2 * dsts + n + imms) + 8, "operands");
  /* Destinations come first, with what they held before. */
  for (uint32_t i = 0; i < dsts; i++) dst[i] = push_operand(L, p->call, i);
  int first = lua_gettop(L) - (int)dsts + 1;
  lua_getiuservalue(L, 1, LB_CORE_CUSTOM);
  /* By address: the name may have got another function since. */
  lua_rawgetp(L, -1, p->x);
  lua_getiuservalue(L, -1, 1);
  int base = lua_gettop(L);
  for (uint32_t i = 0; i < dsts; i++) lua_pushvalue(L, first + (int)i);
  for (uint32_t i = dsts; i < n; i++) push_operand(L, p->call, i);
  for (uint32_t i = 0; i < imms; i++) lua_pushnumber(L, (lua_Number)soma_call_imm(p->call, i));
  /* As many results as it likes, which are counted below. */
  lua_call(L, (int)(n + imms), LUA_MULTRET);
  int results = lua_gettop(L) - base + 1;
  if (results > (int)dsts)
    return luaL_error(L, "it returns %d values for %d destinations", results, (int)dsts);
  for (int i = 0; i < results; i++) {
    /* nil leaves the destination as the function changed it. */
    if (lua_isnil(L, base + i)) continue;
    if (lt_test(L, base + i) == NULL)
      return luaL_error(L, "it returns a %s for dst%d; expected a tensor or nil",
                        lb_type_name(L, base + i), i);
    /* assign checks shape and type, as in Lua. */
    lua_getfield(L, first + i, "assign");
    lua_pushvalue(L, first + i);
    lua_pushvalue(L, base + i);
    lua_call(L, 2, 0);
  }
  /* All destinations are stored, also those that were changed in place. */
  for (uint32_t i = 0; i < dsts; i++) store_operand(p->call, i, dst[i]);
  return 0;
}

/* The error of a function as text: of a table what its __tostring says. */
static int error_text(lua_State *L) {
  /* A string has its place before it already. */
  if (lua_type(L, 1) != LUA_TSTRING && luaL_getmetafield(L, 1, "__tostring") == LUA_TNIL)
    lua_pushfstring(L, "an error that is a %s, not a string", luaL_typename(L, 1));
  else
    luaL_tolstring(L, 1, NULL);
  return 1;
}

/* Protected: an error becomes the fault's text. */
static soma_status call(void *ud, soma_call *c) {
  const lb_operator *x = ud;
  lb_core *core = x->core;
  lua_State *L = core->running;
  pending p = {x, c};
  /* Without a state that runs nobody can call Lua. */
  if (L == NULL || !lua_checkstack(L, 8)) return soma_call_fail(c, "Lua has no stack left");
  int top = lua_gettop(L);
  soma_status s = SOMA_OK;
  lua_pushcfunction(L, error_text);
  lua_pushcfunction(L, call_function);
  lua_pushvalue(L, core->index);
  lua_pushlightuserdata(L, &p);
  /* The handler makes a text of whatever the function raises. */
  if (lua_pcall(L, 2, 0, top + 1) != LUA_OK) {
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    s = soma_call_fail(c, text != NULL ? text : "an error that is not a string");
  }
  /* The stack is as it was, whatever happened. */
  lua_settop(L, top);
  return s;
}
