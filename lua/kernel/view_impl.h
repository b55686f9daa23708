/* For the files that make views: view.c, shape.c. */
#ifndef LUA_KERNEL_VIEW_IMPL_H
#define LUA_KERNEL_VIEW_IMPL_H

#include "../../vm/api/soma_kernel.h"
#include "view.h"

enum { KERNEL = 1, NAME, PARTS, USER_VALUES = PARTS };

typedef struct lk_view {
  soma_view v;
  int memory;                    /* in memories */
  int64_t steps[SOMA_VIEW_DIMS]; /* of all of its tensor; 0: there is no such dimension */
} lk_view;

/* Raises a text at the user's line. */
int lk_view_refuse_text(lua_State *L, int view, const char *text);
bool lk_is_list(lua_State *L, int i);
lk_view *lk_view_check(lua_State *L, int i);
/* Pushes a copy of the view at index `from`, and fills what its messages need. */
lk_view *lk_view_begin(lua_State *L, int from, soma_view_error *e);
int lk_view_finish(lua_State *L, int done, const soma_view_error *e);
/* A whole number, not a string or a float that could be one. */
bool lk_integer_at(lua_State *L, int i, int64_t *out);
/* Dimension d of the view at index 1, as the value at index i says it, from 1 on. */
unsigned lk_view_dimension(lua_State *L, int i);
/* A whole number at index i; `other` where i has none. */
int64_t lk_number_or(lua_State *L, int i, int64_t other, bool *fine);

/* shape.c: methods. */
int lk_view_broadcast(lua_State *L);
int lk_view_permute(lua_State *L);
int lk_view_reshape(lua_State *L);
int lk_view_ap(lua_State *L);
int lk_view_as(lua_State *L);

#endif
