/* Tables of numbers, strings, booleans and tables as lines of JSON, for the journal of a sweep.
 * What JSON has no word for keeps its value: {"float": "inf"}, {"bytes": "ff00"} of a string that
 * is not UTF-8. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

enum { DEEP = 8 }; /* tables within tables */

/* Tables are within tables. */
static json_t *value_at(lua_State *L, int index, int depth);

/* JSON has text in UTF-8 only. */
static json_t *text_of(lua_State *L, int index) {
  size_t n;
  const char *s = lua_tolstring(L, index, &n);
  json_t *text = json_stringn(s, n);
  if (text) return text;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  /* Two digits a byte. */
  for (size_t i = 0; i < n; i++) {
    luaL_addchar(&b, "0123456789abcdef"[(unsigned char)s[i] >> 4]);
    luaL_addchar(&b, "0123456789abcdef"[(unsigned char)s[i] & 15]);
  }
  luaL_pushresult(&b);
  text = json_pack("{s:s}", "bytes", lua_tostring(L, -1));
  lua_pop(L, 1);
  return text;
}

/* Integers keep all their bits. */
static json_t *number_of(lua_State *L, int index) {
  if (lua_isinteger(L, index)) return json_integer((json_int_t)lua_tointeger(L, index));
  /* JSON has neither infinities nor NaN. */
  double v = lua_tonumber(L, index);
  if (isfinite(v)) return json_real(v);
  return json_pack("{s:s}", "float",
                   isnan(v) ? (signbit(v) ? "-nan" : "nan")
                   : v < 0  ? "-inf"
                            : "inf");
}

/* A sequence becomes an array, another table an object; its keys are strings. */
static json_t *table_of(lua_State *L, int index, int depth) {
  /* An empty table could be either; it becomes an object. */
  lua_Integer n = (lua_Integer)lua_rawlen(L, index);
  json_t *t = n ? json_array() : json_object();
  luaL_checkstack(L, 4, "json");
  for (lua_Integer i = 1; i <= n && t; i++) {
    lua_rawgeti(L, index, i);
    if (json_array_append_new(t, value_at(L, lua_gettop(L), depth + 1)) != 0)
      json_decref(t), t = NULL;
    lua_pop(L, 1);
  }
  if (n) return t;
  /* In an object only strings can be keys: others make the value one without a text. */
  for (lua_pushnil(L); t && lua_next(L, index); lua_pop(L, 1)) {
    bool fits = lua_type(L, -2) == LUA_TSTRING;
    json_t *v = fits ? value_at(L, lua_gettop(L), depth + 1) : NULL;
    if (v && json_object_set_new(t, lua_tostring(L, -2), v) == 0) continue;
    json_decref(t), t = NULL;
    lua_pop(L, 2);
    break;
  }
  return t;
}

/* A table too deep, or a value that is none, has no text. */
static json_t *value_at(lua_State *L, int index, int depth) {
  switch (lua_type(L, index)) {
  case LUA_TNUMBER: return number_of(L, index);
  case LUA_TSTRING: return text_of(L, index);
  case LUA_TBOOLEAN: return json_boolean(lua_toboolean(L, index));
  case LUA_TTABLE: return depth < DEEP ? table_of(L, index, depth) : NULL;
  default: return NULL;
  }
}

/* host.json(value): its text on one line; nil of what has none. */
static int to_text(lua_State *L) {
  luaL_checkany(L, 1);
  json_t *v = value_at(L, 1, 0);
  /* Sorted, so that equal tables give equal lines; 17 digits give back every double. */
  char *s =
      v ? json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17))
        : NULL;
  json_decref(v);
  lua_pushstring(L, s);
  free(s);
  return 1;
}

static bool push(lua_State *L, const json_t *v, int depth);

static bool push_bytes(lua_State *L, const json_t *hex) {
  /* Lower case, as they are written above. */
  const char *s = json_string_value(hex);
  size_t n = s ? strlen(s) : 1;
  /* Without a string the length is odd, and refused. */
  if (n % 2 || strspn(s, "0123456789abcdef") != n) return false;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < n; i += 2) {
    const char pair[] = {s[i], s[i + 1], 0};
    /* Each pair of digits is a byte. */
    luaL_addchar(&b, (char)strtoul(pair, NULL, 16));
  }
  luaL_pushresult(&b);
  return true;
}

static bool push_object(lua_State *L, const json_t *v, int depth) {
  const char *key;
  /* An object of one of these two members stands for a value. */
  json_t *item, *number = json_object_get(v, "float"), *hex = json_object_get(v, "bytes");
  if (json_object_size(v) == 1 && json_is_string(number)) {
    lua_pushnumber(L, strtod(json_string_value(number), NULL));
    return true;
  }
  if (json_object_size(v) == 1 && json_is_string(hex)) return push_bytes(L, hex);
  lua_newtable(L);
  json_object_foreach((json_t *)v, key, item) {
    if (!push(L, item, depth + 1)) return false;
    lua_setfield(L, -2, key);
  }
  return true;
}

static bool push(lua_State *L, const json_t *v, int depth) {
  luaL_checkstack(L, 4, "json");
  switch (json_typeof(v)) {
  case JSON_STRING: lua_pushlstring(L, json_string_value(v), json_string_length(v)); return true;
  case JSON_INTEGER: lua_pushinteger(L, (lua_Integer)json_integer_value(v)); return true;
  case JSON_REAL: lua_pushnumber(L, json_real_value(v)); return true;
  case JSON_TRUE: lua_pushboolean(L, true); return true;
  case JSON_FALSE: lua_pushboolean(L, false); return true;
  case JSON_OBJECT: return depth < DEEP && push_object(L, v, depth);
  case JSON_ARRAY:
    /* Deeper than what host.json writes. */
    if (depth >= DEEP) return false;
    lua_createtable(L, (int)json_array_size(v), 0);
    for (size_t i = 0; i < json_array_size(v); i++) {
      if (!push(L, json_array_get(v, i), depth + 1)) return false;
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return true;
  default: return false;
  }
}

/* host.value(line): what host.json made a text of; nil of another text. */
static int to_value(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  /* What cannot be read is no value, whatever is wrong with it. */
  json_t *v = json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
  bool good = v && push(L, v, 0);
  json_decref(v);
  if (!good) lua_pushnil(L);
  return 1;
}

const luaL_Reg lb_row_functions[] = {{"json", to_text}, {"value", to_value}, {NULL, NULL}};
