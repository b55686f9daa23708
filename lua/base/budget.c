/* Limits of memory: allocators that count what Lua states and machines take. */
#include <stdlib.h>

#include "base.h"

static bool has_room(lb_budget *b, size_t more) {
  /* Each limit around it counts as well. */
  for (; b != NULL; b = b->parent)
    if (b->limit != 0 && (b->used > b->limit || more > b->limit - b->used)) {
      b->refused = true;
      return false;
    }
  return true;
}

/* Lua's rules: n == 0 frees, old is the size of the block at p. */
void *lb_budget_alloc(void *ud, void *p, size_t old, size_t n) {
  lb_budget *b = ud;
  void *q = NULL;
  if (p == NULL) old = 0; /* Lua gives the kind of the object there */
  /* Only growing needs room. */
  if (n > old && !has_room(b, n - old)) return NULL;
  if (n == 0)
    free(p);
  else if ((q = realloc(p, n)) == NULL) {
    b->refused = true;
    return NULL;
  }
  /* All limits around it count the same bytes. */
  for (lb_budget *c = b; c != NULL; c = c->parent) c->used = c->used - old + n;
  /* The last block of a budget that nobody uses any more. */
  if (b->dropped && b->used == 0) free(b);
  return q;
}

/* Only a state whose memory is counted has one. */
static lb_budget *state_budget(lua_State *L) {
  void *ud;
  return lua_getallocf(L, &ud) == lb_budget_alloc ? ud : NULL;
}

bool lb_is_limited(lua_State *L) {
  const lb_budget *b = state_budget(L);
  return b != NULL && b->limit != 0;
}

lb_budget *lb_budget_new(lua_State *L, size_t limit) {
  /* Within the budget of the state that makes it. */
  lb_budget *b = malloc(sizeof *b);
  if (b != NULL) *b = (lb_budget){.limit = limit, .parent = state_budget(L)};
  return b;
}

/* Machines and runs may still have blocks of it; the last one frees it. */
void lb_budget_drop(lb_budget *b) {
  if (b == NULL) return;
  b->dropped = true;
  if (b->used == 0) free(b);
}

/* Without a budget the machine's own allocator stays. */
void lb_use_budget(lua_State *L, lb_budget *b, soma_alloc_fn *fn, void **ud) {
  if (b == NULL) b = state_budget(L);
  if (b == NULL || b->limit == 0) return;
  *fn = lb_budget_alloc;
  *ud = b;
}

/* Bytes from which on they are many; and as a multiple of Lua's own, so that collections take a
 * small part of the time in which so much is filled. Little enough that the second run of a large
 * program finds the blocks of the first: new pages take as long as a run of softmax. */
enum { MANY = 16 << 20, MULTIPLE = 8 };

void lb_account(lua_State *L, uint64_t n) {
  static const char key = 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key);
  /* What was accounted for since the last collection. */
  uint64_t since = (uint64_t)lua_tointeger(L, -1) + n;
  lua_pop(L, 1);
  /* The collector counts in units of 1024. */
  uint64_t own = (uint64_t)lua_gc(L, LUA_GCCOUNT) << 10;
  /* A state that has stopped its collector is left alone. */
  if (since >= MANY && since / MULTIPLE >= own && lua_gc(L, LUA_GCISRUNNING)) {
    lua_gc(L, LUA_GCCOLLECT);
    since = 0;
  }
  lua_pushinteger(L, (lua_Integer)since);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
}
