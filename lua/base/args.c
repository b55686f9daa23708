/* Argument and option checks, the step from soma_status to Lua errors, the clock. */
#include "base.h"

#include <string.h>
#include <time.h>

/* A distance of 3 is too far to be meant. */
enum { FAR = 3 }; /* two slips at most */

/* Takes a known name if it is nearer than `least`. */
static void look_nearer(const char *name, const char *known, unsigned *least, const char **best) {
  unsigned d = isa_edit_distance(name, strlen(name), known, strlen(known), *least);
  if (d >= *least) return;
  *least = d;
  *best = known;
}

/* nil at the end of the list. */
const char *lb_nearest(const char *name, const char *const *known) {
  const char *best = NULL;
  unsigned least = FAR;
  for (; *known != NULL; known++) look_nearer(name, *known, &least, &best);
  return best;
}

/* The same for a table of names. */
int lb_nearest_named(lua_State *L) {
  const char *name = luaL_checkstring(L, 1), *best = NULL;
  unsigned least = FAR;
  luaL_checktype(L, 2, LUA_TTABLE);
  for (lua_Integer i = 1; lua_rawgeti(L, 2, i) == LUA_TSTRING; i++) {
    look_nearer(name, lua_tostring(L, -1), &least, &best);
    lua_pop(L, 1); /* the table keeps it */
  }
  lua_pushstring(L, best);
  return 1;
}

/* The key is at -2, its value on the top. */
static int unknown_option(lua_State *L, const char *what, const char *const *known) {
  luaL_Buffer b;
  const char *name = luaL_tolstring(L, -2, NULL), *near = lb_nearest(name, known);
  luaL_buffinit(L, &b);
  for (size_t i = 0; known[i] != NULL; i++) {
    if (i > 0) luaL_addstring(&b, ", ");
    luaL_addstring(&b, known[i]);
  }
  luaL_pushresult(&b);
  const char *all = lua_tostring(L, -1);
  if (near != NULL)
    return luaL_error(L, "%s: unknown option '%s' (did you mean '%s'?); it takes: %s", what, name,
                      near, all);
  return luaL_error(L, "%s: unknown option '%s'; it takes: %s", what, name, all);
}

bool lb_options(lua_State *L, int arg, const char *what, const char *const *known) {
  if (lua_isnoneornil(L, arg)) return false;
  luaL_checktype(L, arg, LUA_TTABLE);
  luaL_checkstack(L, 8, what);
  lua_pushnil(L);
  while (lua_next(L, arg) != 0) {
    /* Keys that are no strings are unknown as well. */
    bool found = false;
    for (size_t i = 0; known[i] != NULL && !found; i++)
      found = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), known[i]) == 0;
    if (!found) unknown_option(L, what, known);
    lua_pop(L, 1);
  }
  return true;
}

/* Without metamethods: options are plain tables. */
int lb_option(lua_State *L, int arg, const char *name) {
  if (lua_isnoneornil(L, arg)) {
    lua_pushnil(L);
    /* A missing option is nil, as one of no table. */
    return LUA_TNIL;
  }
  lua_pushstring(L, name);
  return lua_rawget(L, arg);
}

static int wrong_type(lua_State *L, const char *what, const char *name, const char *expected) {
  return luaL_error(L, "%s: option '%s' must be %s, not %s", what, name, expected,
                    luaL_typename(L, -1));
}

/* The string lives as long as the table does. */
const char *lb_string(lua_State *L, int arg, const char *what, const char *name) {
  int type = lb_option(L, arg, name);
  if (type != LUA_TNIL && type != LUA_TSTRING) wrong_type(L, what, name, "a string");
  const char *s = lua_tostring(L, -1);
  lua_pop(L, 1);
  return s;
}

bool lb_bool(lua_State *L, int arg, const char *what, const char *name, bool fallback) {
  int type = lb_option(L, arg, name);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN) wrong_type(L, what, name, "a boolean");
  bool v = type == LUA_TNIL ? fallback : lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return v;
}

/* Integers are numbers, too. */
double lb_number(lua_State *L, int arg, const char *what, const char *name, double fallback) {
  int type = lb_option(L, arg, name);
  if (type != LUA_TNIL && type != LUA_TNUMBER) wrong_type(L, what, name, "a number");
  double v = type == LUA_TNIL ? fallback : lua_tonumber(L, -1);
  lua_pop(L, 1);
  /* A NaN would pass every comparison. */
  if (v != v) luaL_error(L, "%s: option '%s' is not a number (NaN)", what, name);
  return v;
}

lua_Integer lb_integer(lua_State *L, int arg, const char *what, const char *name, lua_Integer lo,
                       lua_Integer hi, lua_Integer fallback) {
  /* A float that is whole is taken. */
  int type = lb_option(L, arg, name), exact = 1;
  if (type != LUA_TNIL && type != LUA_TNUMBER) wrong_type(L, what, name, "an integer");
  lua_Integer v = type == LUA_TNIL ? fallback : lua_tointegerx(L, -1, &exact);
  if (!exact || (type != LUA_TNIL && (v < lo || v > hi)))
    luaL_error(L, "%s: option '%s' is %s, not an integer from %I to %I", what, name,
               luaL_tolstring(L, -1, NULL), (LUAI_UACINT)lo, (LUAI_UACINT)hi);
  lua_pop(L, 1);
  return v;
}

/* For arguments rather than options. */
lua_Integer lb_within(lua_State *L, int arg, lua_Integer lo, lua_Integer hi) {
  lua_Integer v = luaL_checkinteger(L, arg);
  if (v < lo || v > hi)
    luaL_argerror(L, arg,
                  lua_pushfstring(L, "%I is not an integer from %I to %I", (LUAI_UACINT)v,
                                  (LUAI_UACINT)lo, (LUAI_UACINT)hi));
  return v;
}

static int find_dtype(lua_State *L, int index) {
  size_t n;
  const char *name = lua_tolstring(L, index, &n);
  return isa_dtype_find(name, n);
}

static const char *unknown_dtype(lua_State *L, const char *name) {
  /* Number 0 is no type. */
  const char *known[ISA_NDTYPES];
  for (unsigned d = 1; d < ISA_NDTYPES; d++) known[d - 1] = isa_dtypes[d].name;
  known[ISA_NDTYPES - 1] = NULL;
  const char *near = lb_nearest(name, known);
  if (near == NULL) return lua_pushfstring(L, "'%s' is not a dtype (soma.dtypes lists them)", name);
  return lua_pushfstring(L, "'%s' is not a dtype (did you mean '%s'?)", name, near);
}

/* A nearest name is worked out only for a message. */
unsigned lb_dtype(lua_State *L, int arg) {
  luaL_checktype(L, arg, LUA_TSTRING);
  int d = find_dtype(L, arg);
  if (d < 0) luaL_argerror(L, arg, unknown_dtype(L, lua_tostring(L, arg)));
  return (unsigned)d;
}

unsigned lb_dtype_or(lua_State *L, int arg, unsigned fallback) {
  return lua_isnoneornil(L, arg) ? fallback : lb_dtype(L, arg);
}

unsigned lb_dtype_option(lua_State *L, int arg, const char *what, unsigned fallback) {
  int type = lb_option(L, arg, "dtype");
  if (type != LUA_TNIL && type != LUA_TSTRING) wrong_type(L, what, "dtype", "a string");
  int d = type == LUA_TNIL ? (int)fallback : find_dtype(L, -1);
  if (d < 0) luaL_error(L, "%s: %s", what, unknown_dtype(L, lua_tostring(L, -1)));
  lua_pop(L, 1);
  return (unsigned)d;
}

const char *lb_type_name(lua_State *L, int index) {
  if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING) return lua_tostring(L, -1);
  /* Other values are called by Lua's own name of the type. */
  return luaL_typename(L, index);
}

int lb_fail(lua_State *L, const char *what, const soma_machine *m, soma_status s) {
  const char *text = m != NULL ? soma_error(m) : "";
  /* The machine's message says more than the status. */
  if (text[0] == '\0') text = soma_status_text(s);
  return luaL_error(L, "%s: %s", what, text);
}

/* The engines that run instructions. */
int lb_engine_named(const char *name) {
  for (int e = 0; e < SOMA_ENGINES; e++)
    if (strcmp(name, soma_engine_name((soma_engine)e)) == 0) return e;
  return -1;
}

/* Those and the CC sequencers. */
int lb_sequencer_named(const char *name) {
  const char *known;
  for (int e = 0; (known = soma_engine_name((soma_engine)e)) != NULL; e++)
    if (strcmp(name, known) == 0) return e;
  return -1;
}

int lb_sequencer(lua_State *L, int arg) {
  const char *name = luaL_checkstring(L, arg);
  int e = lb_sequencer_named(name);
  return e >= 0 ? e : luaL_argerror(L, arg, lua_pushfstring(L, LB_NO_SEQUENCER, name));
}

int lb_engine(lua_State *L, int arg) {
  const char *name = luaL_checkstring(L, arg);
  int e = lb_engine_named(name);
  return e >= 0 ? e : luaL_argerror(L, arg, lua_pushfstring(L, LB_NO_ENGINE, name));
}

void lb_push_shape(lua_State *L, uint32_t n, const int64_t *shape) {
  lua_createtable(L, (int)n, 0);
  for (uint32_t d = 0; d < n; d++) {
    lua_pushinteger(L, shape[d]);
    lua_rawseti(L, -2, (lua_Integer)d + 1);
  }
}

/* Fields of a table on the top of the stack. */
void lb_set_ns(lua_State *L, const char *key, soma_time t) {
  /* From femtoseconds. */
  lb_set_number(L, key, (lua_Number)t * 1e-6);
}

void lb_set_count(lua_State *L, const char *key, uint64_t v) {
  lua_pushinteger(L, (lua_Integer)v);
  lua_setfield(L, -2, key);
}

void lb_set_number(lua_State *L, const char *key, double v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, key);
}

void lb_set_flag(lua_State *L, const char *key, bool v) {
  lua_pushboolean(L, v);
  lua_setfield(L, -2, key);
}

void lb_set_text(lua_State *L, const char *key, const char *v) {
  lua_pushstring(L, v);
  lua_setfield(L, -2, key);
}

/* Left out when there is nothing to say. */
void lb_set_words(lua_State *L, const char *key, const char *v) {
  if (v != NULL && v[0] != '\0') lb_set_text(L, key, v);
}

/* One line at a time, as the parts are arrays of lines. */
static const char *next_line(lua_State *L, void *ud, size_t *n) {
  const char *const **line = ud;
  (void)L;
  if (**line == NULL) return NULL;
  *n = strlen(**line);
  return *(*line)++;
}

int lb_load_part(lua_State *L, const lb_part *parts, const char *name, const char *chunk) {
  while (parts->name != NULL && strcmp(parts->name, name) != 0) parts++;
  const char *const *line = parts->lines;
  /* Text only, never bytecode. */
  if (parts->name != NULL) return lua_load(L, next_line, &line, chunk, "t");
  lua_pushfstring(L, "there is no part '%s'", name);
  return LUA_ERRRUN;
}

void lb_run_part(lua_State *L, const lb_part *parts, const char *name, const char *chunk,
                 int module, int host, int into) {
  if (lb_load_part(L, parts, name, chunk) != LUA_OK) lua_error(L);
  lua_pushvalue(L, module);
  lua_pushvalue(L, host);
  lua_call(L, 2, 1);
  lua_setfield(L, into, name);
}

/* A Lua function calls the real one in its own place, so that levels of errors stay those of the
 * caller. */
static const char *const later_lines[] = {
    "local into, load, names = ...\n",
    "local real\n",
    "for name in names:gmatch '%S+' do\n",
    "  local function first(...)\n",
    "    real = real or load()\n",
    "    if into[name] == first then into[name] = real[name] end\n",
    "    return real[name](...)\n",
    "  end\n",
    "  into[name] = first\n",
    "end\n",
    NULL,
};

/* Loads nothing before one of the names is called. */
void lb_load_later(lua_State *L, int into, const char *names) {
  const char *const *line = later_lines;
  into = lua_absindex(L, into);
  if (lua_load(L, next_line, &line, "=soma.later", "t") != LUA_OK) lua_error(L);
  lua_pushvalue(L, into);
  /* The function that loads the real ones, which the caller has pushed. */
  lua_pushvalue(L, -3);
  lua_pushstring(L, names);
  lua_call(L, 3, 0);
  lua_pop(L, 1);
}

/* The class is left in the registry. */
void lb_class(lua_State *L, const char *name, const luaL_Reg *meta, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  if (meta != NULL) luaL_setfuncs(L, meta, 0);
  if (methods != NULL) {
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
  }
  /* So that a script cannot change the methods of all objects. */
  lua_pushliteral(L, "protected");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

void lb_object(lua_State *L, const char *name, const luaL_Reg *meta, lua_CFunction index,
               const luaL_Reg *const *lists) {
  lb_class(L, name, meta, NULL);
  luaL_getmetatable(L, name);
  lua_newtable(L);
  for (; *lists != NULL; lists++) luaL_setfuncs(L, *lists, 0);
  lua_pushfstring(L, "%s methods", name);
  lua_pushvalue(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_pushcclosure(L, index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

/* Read only to find what is wrong with it. */
const char *lb_target(lua_State *L, const char *what, const char *name) {
  isa_target t;
  isa_error e;
  if (name != NULL && !isa_target_read(name, strlen(name), &t, &e))
    luaL_error(L, "%s: %s", what, e.text);
  return name;
}

/* A clock that nobody sets. */
double lb_host_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Names of devices ----------------------------------------------------------------------- */

static int parse_name(const char *name) {
  static const char *const prefixes[] = {"neuron:", "privateuseone:"};
  if (strcmp(name, "cpu") == 0) return LB_CPU;
  for (int i = 0; i < 2; i++) {
    size_t n = strlen(prefixes[i]);
    /* The prefix without its colon is the first device. */
    if (strncmp(name, prefixes[i], n - 1) == 0 && name[n - 1] == '\0') return 0;
    if (strncmp(name, prefixes[i], n) != 0) continue;
    const char *digits = name + n;
    size_t m = strspn(digits, "0123456789");
    /* One number has one name: no zeros before it. */
    if (m < 1 || m > 2 || digits[m] != '\0' || (m == 2 && digits[0] == '0')) break;
    int device = m == 1 ? digits[0] - '0' : (digits[0] - '0') * 10 + digits[1] - '0';
    if (device < LB_DEVICES) return device;
  }
  /* Below every device, and no host. */
  return LB_CPU - 1;
}

int lb_device(lua_State *L, const char *what, const char *name) {
  int device = name == NULL ? LB_CPU : parse_name(name);
  if (device < LB_CPU)
    luaL_error(L, "%s: '%s' is not a device; there are: cpu, neuron:0 to neuron:%d", what, name,
               LB_DEVICES - 1);
  return device;
}

int lb_device_option(lua_State *L, int arg, const char *what) {
  return lb_device(L, what, lb_string(L, arg, what, "device"));
}

const char *lb_push_device_name(lua_State *L, int device) {
  return device == LB_CPU ? lua_pushliteral(L, "cpu") : lua_pushfstring(L, "neuron:%d", device);
}
