/* Memory of tensors: of Lua's, pages of the host, and what others hand over. */
#include <string.h>
#include <sys/mman.h>

#include "tensor.h"

#define STORAGE "soma.storage"
/* Bytes from which on a tensor's memory is pages of its own, and from which on those may come in
 * huge ones: the first touches of small ones take longer than filling them. */
enum { PAGES_FROM = 1 << 20, HUGE_FROM = 4 << 20 };

/* Also for a storage that never got memory. */
static int storage_gc(lua_State *L) {
  lt_storage *s = luaL_checkudata(L, 1, STORAGE);
  if (s->data != NULL) s->release(s);
  s->data = NULL;
  return 0;
}

/* Empty until its maker fills it in. */
lt_storage *lt_push_storage(lua_State *L) {
  lt_storage *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (lt_storage){0};
  luaL_setmetatable(L, STORAGE);
  return s;
}

/* As the release function of mappings. */
void lt_unmap(lt_storage *s) { munmap(s->data, s->bytes); }

/* Anonymous pages are zero. */
static void *map_pages(size_t n) {
  void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* Pushes a storage of n zeroed bytes; false: the host has no more.
 * Accounted for before it is there, so that older tensors go first. */
static bool push_pages(lua_State *L, size_t n) {
  /* The collector sees a small userdata; it must know what hangs on it. */
  lb_account(L, n);
  lt_storage *s = lt_push_storage(L);
  s->bytes = n;
  s->release = lt_unmap;
  if ((s->data = map_pages(n)) == NULL) { /* what the program has dropped may still take it */
    lua_gc(L, LUA_GCCOLLECT);
    s->data = map_pages(n);
  }
#ifdef MADV_HUGEPAGE
  /* A hint: the kernel may not have huge pages. */
  if (s->data != NULL && n >= HUGE_FROM) madvise(s->data, n, MADV_HUGEPAGE);
#endif
  return s->data != NULL;
}

void *lt_push_zeros(lua_State *L, size_t n) {
  /* A limit counts what Lua's allocator gives, and pages are not among that.
   * Small tensors are faster from Lua's allocator. */
  if (n < PAGES_FROM || lb_is_limited(L)) return memset(lua_newuserdatauv(L, n, 0), 0, n);
  if (!push_pages(L, n)) luaL_error(L, "not enough memory for %I bytes", (LUAI_UACINT)n);
  return ((lt_storage *)lua_touserdata(L, -1))->data;
}

void lt_open_storage(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", storage_gc}, {NULL, NULL}};
  lb_class(L, STORAGE, meta, NULL);
}
