/* Methods of views that change their shape or type. */
#include "view_impl.h"

#include <string.h>

#include "../tensor/tensor.h"

/* v:broadcast(dimension, n): a dimension of one element, n times. */
int lk_view_broadcast(lua_State *L) {
  soma_view_error e;
  bool fine = true;
  lua_settop(L, 3);
  lk_view_check(L, 1);
  int64_t n = lk_number_or(L, 3, 0, &fine);
  /* The text of what was given is made only for the message. */
  if (!fine || n < 1 || n > INT32_MAX)
    return lk_view_refuse_text(L, 1,
                               lua_pushfstring(L,
                                               "broadcast takes a dimension and a whole number of "
                                               "times, not %s",
                                               luaL_tolstring(L, 3, NULL)));
  unsigned d = lk_view_dimension(L, 2);
  lk_view *w = lk_view_begin(L, 1, &e);
  return lk_view_finish(L, soma_view_broadcast(&w->v, d, n, &e), &e);
}

/* So many dimensions; too many are one too many, which soma_view refuses. */
static unsigned given(lua_Unsigned n) {
  return n > SOMA_VIEW_DIMS ? SOMA_VIEW_DIMS + 1 : (unsigned)n;
}

/* v:permute{2, 1}: dimensions in another order; the partitions of a tile stay the first. */
int lk_view_permute(lua_State *L) {
  soma_view_error e;
  uint32_t order[SOMA_VIEW_DIMS];
  lua_settop(L, 2);
  lk_view_check(L, 1);
  if (!lk_is_list(L, 2))
    return lk_view_refuse_text(L, 1,
                               lua_pushfstring(L, "permute takes a list of dimensions, not %s",
                                               luaL_tolstring(L, 2, NULL)));
  lua_Unsigned n = lua_rawlen(L, 2);
  /* No more than there is room for: the rest is refused below. */
  for (lua_Unsigned i = 0; i < n && i < SOMA_VIEW_DIMS; i++) {
    lua_geti(L, 2, (lua_Integer)i + 1);
    order[i] = lk_view_dimension(L, 3);
    lua_settop(L, 2);
  }
  lk_view *w = lk_view_begin(L, 1, &e);
  return lk_view_finish(L, soma_view_permute(&w->v, given(n), order, &e), &e);
}

/* v:reshape{...}: the same elements in the same order; those of a tile's partitions stay. */
int lk_view_reshape(lua_State *L) {
  soma_view_error e;
  int64_t shape[SOMA_VIEW_DIMS];
  lua_settop(L, 2);
  lk_view_check(L, 1);
  /* What is no list has no dimensions. */
  lua_Unsigned n = lk_is_list(L, 2) ? lua_rawlen(L, 2) : 0;
  bool fine = n > 0;
  for (lua_Unsigned i = 0; i < n && i < SOMA_VIEW_DIMS && fine; i++) {
    lua_geti(L, 2, (lua_Integer)i + 1);
    shape[i] = lk_number_or(L, 3, 0, &fine);
    fine = fine && shape[i] > 0;
    lua_settop(L, 2);
  }
  if (!fine)
    return lk_view_refuse_text(L, 1, "reshape takes a list of whole numbers of at least 1");
  lk_view *w = lk_view_begin(L, 1, &e);
  return lk_view_finish(L, soma_view_reshape(&w->v, given(n), shape, &e), &e);
}

/* v:ap({{step, num}, ...} [, offset]): dimensions as they are given, in elements. */
int lk_view_ap(lua_State *L) {
  soma_view_error e;
  soma_view_dim dims[SOMA_VIEW_DIMS];
  bool fine = true;
  lua_settop(L, 3);
  lk_view_check(L, 1);
  int64_t offset = lk_number_or(L, 3, 0, &fine);
  lua_Unsigned n = lk_is_list(L, 2) ? lua_rawlen(L, 2) : 0;
  for (lua_Unsigned i = 0; i < n && i < SOMA_VIEW_DIMS && fine; i++) {
    lua_geti(L, 2, (lua_Integer)i + 1);
    /* A step and a count, or it is refused. */
    if (!lk_is_list(L, 4)) break;
    for (int k = 1; k <= 2; k++) {
      lua_geti(L, 4, k);
      fine = lk_integer_at(L, 4 + k, k == 1 ? &dims[i].step : &dims[i].num) && fine;
    }
    lua_settop(L, 3);
  }
  /* Something is left on the stack where the loop has broken off. */
  if (!fine || n == 0 || lua_gettop(L) > 3)
    return lk_view_refuse_text(L, 1,
                               "ap takes a list of {step, num} and an offset, in whole numbers");
  lk_view *w = lk_view_begin(L, 1, &e);
  return lk_view_finish(L, soma_view_ap(&w->v, offset, given(n), dims, &e), &e);
}

/* v:view(dtype): the same bytes as another type. */
int lk_view_as(lua_State *L) {
  soma_view_error e;
  lua_settop(L, 2);
  lk_view_check(L, 1);
  /* Other values have no name that could be a type. */
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  int dtype = isa_dtype_find(name, strlen(name));
  const char *shown = luaL_tolstring(L, 2, NULL);
  if (dtype < 0)
    return lk_view_refuse_text(L, 1, lua_pushfstring(L, "'%s' is not a data type", shown));
  lua_pop(L, 1);
  lk_view *w = lk_view_begin(L, 1, &e);
  return lk_view_finish(L, soma_view_as(&w->v, (unsigned)dtype, &e), &e);
}
