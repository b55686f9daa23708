/* Tensors in the HBM of a device, and views of them. What computes with them is in
 * ../arithmetic.lua.
 */
#include <string.h>

#include "machine.h"

struct lb_device_tensor {
  soma_tensor *t;   /* NULL after close. Of a view that is not dense: all from its first element to
                       its last, as one dimension */
  lb_core *core;    /* kept reachable by user value 1 */
  lt_tensor layout; /* without data */
};
enum { CORE = 1, ROOT }; /* user values. ROOT: the tensor that a view is of, or nil */

/* For functions that take tensors of both kinds. */
lb_device_tensor *lb_test_device_tensor(lua_State *L, int arg) {
  return luaL_testudata(L, arg, LB_DEVICE_TENSOR);
}

/* A closed tensor has a layout, but nothing to compute with. */
static lb_device_tensor *check(lua_State *L, int arg) {
  lb_device_tensor *d = luaL_checkudata(L, arg, LB_DEVICE_TENSOR);
  luaL_argcheck(L, d->t != NULL, arg, "the tensor is closed");
  return d;
}

soma_tensor *lb_device_tensor_handle(const lb_device_tensor *d) { return d->t; }
lb_core *lb_device_tensor_core(const lb_device_tensor *d) { return d->core; }
/* A tensor of no dimensions counts as one row. */
int64_t lb_device_tensor_rows(const lb_device_tensor *d) {
  return d->layout.ndim ? d->layout.shape[0] : 1;
}
bool lb_device_tensor_dense(const lb_device_tensor *d) { return lt_dense(&d->layout); }

/* As if all elements lay together, which views of a larger tensor do not. */
static size_t bytes_of(const lt_tensor *t) { return (size_t)t->size * isa_dtype_bytes(t->dtype); }

/* Pushes one without a handle, of the core at core_index. */
static lb_device_tensor *push(lua_State *L, int core_index, const char *what,
                              const lt_tensor *layout) {
  core_index = lua_absindex(L, core_index);
  lb_core *core = lua_touserdata(L, core_index);
  lb_device_tensor *d = lua_newuserdatauv(L, sizeof *d, 2);
  *d = (lb_device_tensor){.core = core, .layout = *layout};
  /* The data is on the device. */
  d->layout.data = NULL;
  luaL_setmetatable(L, LB_DEVICE_TENSOR);
  lua_pushvalue(L, core_index);
  lua_setiuservalue(L, -2, CORE);
  /* The core object stays after a close; its machine does not. */
  if (core->m == NULL) luaL_error(L, "%s: the core of neuron:%d is closed", what, core->device);
  return d;
}

/* Its strides are those of a dense tensor of that shape. */
lb_device_tensor *lb_new_device_tensor(lua_State *L, int core_index, const char *what,
                                       unsigned dtype, unsigned ndim, const int64_t *shape) {
  lt_tensor layout = {.dtype = dtype, .ndim = ndim};
  if (ndim > 0) memcpy(layout.shape, shape, ndim * sizeof *shape);
  lt_layout(&layout);
  lb_device_tensor *d = push(L, core_index, what, &layout);
  soma_machine *m = d->core->m;
  soma_status s = soma_tensor_new(m, (soma_dtype)dtype, ndim, shape, &d->t);
  if (s == SOMA_LIMIT) { /* what the program has dropped may still take HBM */
    lua_gc(L, LUA_GCCOLLECT);
    s = soma_tensor_new(m, (soma_dtype)dtype, ndim, shape, &d->t);
  }
  if (s != SOMA_OK) lb_fail(L, what, m, s);
  /* What the collector sees is small; it is told of the HBM behind it. */
  lb_account(L, bytes_of(&d->layout));
  return d;
}

/* ---- Parts that lie one after another ------------------------------------------------------- */

/* Elements of a layout in row-major order, as many at a time as lie together. */
typedef struct parts {
  const lt_tensor *t;
  unsigned outer; /* dimensions that are walked; those after them lie together */
  int64_t index[LT_DIMS];
  size_t bytes; /* of a part */
  bool ended;
} parts;

/* From the last dimension on, as long as each one continues the bytes of those after
 * it. */
static parts parts_of(const lt_tensor *t) {
  parts p = {.t = t, .outer = t->ndim, .bytes = isa_dtype_bytes(t->dtype)};
  for (; p.outer > 0; p.outer--) {
    unsigned d = p.outer - 1;
    /* A dimension of one element never takes its step. */
    if (t->shape[d] != 1 && t->stride[d] != (int64_t)p.bytes) break;
    p.bytes *= (size_t)t->shape[d];
  }
  return p;
}

/* Bytes from the first element to the next part; false after the last.
 * Like an odometer: the last of the outer dimensions turns fastest. */
static bool next_part(parts *p, uint64_t *at) {
  if (p->ended) return false;
  *at = 0;
  for (unsigned d = 0; d < p->outer; d++) *at += (uint64_t)(p->t->stride[d] * p->index[d]);
  /* Ended, until a dimension has another index. */
  p->ended = true;
  for (unsigned d = p->outer; d-- > 0 && p->ended;) {
    /* Carries into the next dimension when one is through. */
    p->ended = ++p->index[d] == p->t->shape[d];
    if (p->ended) p->index[d] = 0;
  }
  return true;
}

/* Errors of a tensor whose core is closed say so, since the machine has no message
 * then. */
static void check_done(lua_State *L, const char *what, const lb_device_tensor *d, soma_status s) {
  if (s == SOMA_OK) return;
  if (d->core->m == NULL)
    luaL_error(L, "%s: the core of neuron:%d is closed", what, d->core->device);
  lb_fail(L, what, d->core->m, s);
}

static void fill(lua_State *L, const lb_device_tensor *d, const char *what, const void *element) {
  uint64_t at;
  size_t each = isa_dtype_bytes(d->layout.dtype);
  /* One call of the machine for each part. */
  for (parts p = parts_of(&d->layout); next_part(&p, &at);)
    check_done(L, what, d, soma_tensor_fill(d->t, at, element, each, p.bytes / each));
}

/* ---- For the room of tensors ---------------------------------------------------------------- */

/* The tensor on the top, which is on the host, is replaced by its copy. */
static void move_tensor(lua_State *L, int device, const char *what) {
  int at = lua_gettop(L);
  /* Copied in one piece, so it has to be dense. */
  const lt_tensor *t = lt_make_dense(L, at);
  const lb_core *core = lb_push_device(L, device);
  const lb_device_tensor *d = lb_new_device_tensor(L, -1, what, t->dtype, t->ndim, t->shape);
  soma_status s = soma_tensor_write(d->t, t->data, bytes_of(t));
  if (s != SOMA_OK) lb_fail(L, what, core->m, s);
  lua_replace(L, at);
  lua_settop(L, at);
}

static void make(lua_State *L, int device, const char *what, const lt_tensor *as,
                 const void *element) {
  /* New tensors are zeroed: without an element nothing is to be filled. */
  lb_push_device(L, device);
  const lb_device_tensor *d = lb_new_device_tensor(L, -1, what, as->dtype, as->ndim, as->shape);
  lua_remove(L, -2);
  if (element != NULL) fill(L, d, what, element);
}

/* These functions are called through lt_devices, as lua/tensor does not know this
 * folder. */
static bool is_device(lua_State *L, int arg) { return lb_test_device_tensor(L, arg) != NULL; }

static const lt_tensor *layout_at(lua_State *L, int arg) {
  return is_device(L, arg) ? &check(L, arg)->layout : NULL;
}

/* From the first byte of its first element to the last byte of its last. */
static int64_t span_of(const lt_tensor *t) {
  int64_t bytes = isa_dtype_bytes(t->dtype);
  for (unsigned d = 0; d < t->ndim; d++) bytes += (t->shape[d] - 1) * t->stride[d];
  return bytes;
}

/* Pushes a view of the device tensor at arg. */
static void push_view(lua_State *L, int arg, const lt_tensor *as, int64_t shift) {
  const lb_device_tensor *from = check(L, arg);
  int64_t each = isa_dtype_bytes(as->dtype);
  arg = lua_absindex(L, arg);
  /* Nothing of it would have an address. */
  if (as->size == 0)
    luaL_error(L, "%s: a view of a tensor on a device must have at least one element",
               lt_push_type(L, as));
  /* HBM is addressed in whole elements. */
  bool whole = shift % each == 0;
  for (unsigned d = 0; d < as->ndim; d++)
    whole = whole && (as->shape[d] == 1 || as->stride[d] % each == 0);
  if (!whole)
    luaL_error(L, "%s: a view of a tensor on a device must step by whole elements of its type",
               lt_push_type(L, as));
  lua_getiuservalue(L, arg, CORE);
  lb_device_tensor *d = push(L, -1, "view", as);
  lua_remove(L, -2);
  /* Views of a view are of the tensor itself.
   * A chain of views would keep all of its links. */
  if (lua_getiuservalue(L, arg, ROOT) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushvalue(L, arg);
  }
  lua_setiuservalue(L, -2, ROOT);
  /* The shape is that of the bytes it reaches over; its layout stays in the object. */
  int64_t span[1] = {span_of(as) / each};
  /* One that is not dense has its bytes as one dimension. */
  bool dense = lt_dense(as);
  check_done(L, "view", d,
             soma_tensor_view(from->t, (uint64_t)shift, (soma_dtype)as->dtype, dense ? as->ndim : 1,
                              dense ? as->shape : span, &d->t));
}

/* A method that is written in Lua and added to the table by arithmetic.lua. */
static void call_method(lua_State *L, const char *name, int n) {
  lua_getfield(L, LUA_REGISTRYINDEX, LB_DEVICE_METHODS);
  if (lua_getfield(L, -1, name) == LUA_TNIL)
    luaL_error(L, "%s is not built for tensors on a device; t:to \"cpu\" has it", name);
  lua_remove(L, -2);
  /* The arguments are at 1 to n. */
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  lua_call(L, n, 1);
}

const lt_devices lb_tensor_devices = {move_tensor, make,      is_device,
                                      layout_at,   push_view, call_method};

/* ---- Methods -------------------------------------------------------------------------------- */

/* Replaces the device tensor on the top by a copy on the host.
 * Part by part into a dense tensor. */
static void move_to_host(lua_State *L, const lb_device_tensor *d) {
  lt_tensor *t = lt_new(L, d->layout.dtype, d->layout.ndim, d->layout.shape);
  unsigned char *to = t->data;
  uint64_t at;
  for (parts p = parts_of(&d->layout); next_part(&p, &at); to += p.bytes)
    check_done(L, "to", d, soma_tensor_read_part(d->t, at, to, p.bytes));
  /* The host's copy takes the place. */
  lua_replace(L, -2);
}

/* t:to(device): t itself when it is there, else a copy there. */
static int tensor_to(lua_State *L) {
  /* A conversion has a method of its own. */
  luaL_argcheck(L, lua_isnoneornil(L, 3), 3, "to takes a device and no options");
  int device = lb_device(L, "to", luaL_checkstring(L, 2));
  lua_settop(L, 1);
  if (lb_test_device_tensor(L, 1) != NULL) {
    const lb_device_tensor *d = check(L, 1);
    /* It is there already. */
    if (device == d->core->device && d->core->m != NULL) return 1;
    move_to_host(L, d);
  } else {
    lt_check(L, 1);
  }
  /* From the host to whatever device was asked for. */
  return lt_place(L, device, "to");
}

/* t:get(i, j, ...): an element, which is copied to the host. */
static int push_element(lua_State *L, int64_t at) {
  /* The largest type has eight bytes. */
  const lb_device_tensor *d = check(L, 1);
  unsigned char element[8];
  check_done(L, "get", d,
             soma_tensor_read_part(d->t, (uint64_t)at, element, isa_dtype_bytes(d->layout.dtype)));
  lt_push_element(L, d->layout.dtype, element);
  return 1;
}
/* The indices begin behind the tensor. */
static int tensor_get(lua_State *L) {
  return push_element(L, lt_element_at(L, &check(L, 1)->layout, 2, lua_gettop(L) - 1));
}

/* t:fill(value) */
static int tensor_fill(lua_State *L) {
  const lb_device_tensor *d = check(L, 1);
  /* The value is turned into bytes once. */
  unsigned char element[8];
  lt_set_element(L, 2, d->layout.dtype, element);
  fill(L, d, "fill", element);
  lua_settop(L, 1);
  return 1;
}

/* t:close(): gives its HBM back when no run and no view needs it; also by <close> and the
 * collector.
 */
static int device_close(lua_State *L) {
  /* Closing twice is fine. */
  lb_device_tensor *d = luaL_checkudata(L, 1, LB_DEVICE_TENSOR);
  soma_tensor_free(d->t);
  /* The machine frees the memory when nobody uses it any more. */
  d->t = NULL;
  return 0;
}

static int device_tostring(lua_State *L) {
  /* Also of one that is closed: messages print it. */
  const lb_device_tensor *d = luaL_checkudata(L, 1, LB_DEVICE_TENSOR);
  lua_pushfstring(L, "%s on neuron:%d%s", lt_push_type(L, &d->layout), d->core->device,
                  d->t == NULL         ? " (closed)"
                  : d->core->m == NULL ? " (which is closed)"
                                       : "");
  return 1;
}

/* t.property, t.method, t[i], t[{i, j}] */
static int device_index(lua_State *L) {
  const lb_device_tensor *d = luaL_checkudata(L, 1, LB_DEVICE_TENSOR);
  int type = lua_type(L, 2);
  /* A row of a matrix is a view, as on the host. */
  if (type == LUA_TNUMBER && d->layout.ndim > 1) return lt_row(L, &check(L, 1)->layout);
  if (type == LUA_TNUMBER || type == LUA_TTABLE)
    return push_element(L, lt_element_at(L, &check(L, 1)->layout, 2, 1));
  const char *key = type == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "device") == 0) {
    lb_push_device_name(L, d->core->device);
    return 1;
  }
  if (lt_push_property(L, &d->layout, key)) return 1;
  lua_pushvalue(L, 2);
  if (lua_gettable(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  return luaL_error(L, "a tensor on a device has no field or method '%s'; t:to \"cpu\" has more",
                    luaL_tolstring(L, 2, NULL));
}

/* Each element would be a copy of its own. */
static int device_newindex(lua_State *L) {
  return luaL_error(L,
                    "a tensor on a device cannot be written by elements: use t:fill, t:assign or "
                    "t:to \"cpu\"");
}

/* As of a table: # counts rows. */
static int device_len(lua_State *L) {
  const lb_device_tensor *d = luaL_checkudata(L, 1, LB_DEVICE_TENSOR);
  if (d->layout.ndim == 0) return luaL_error(L, "a tensor of no dimensions has no length");
  lua_pushinteger(L, d->layout.shape[0]);
  return 1;
}

/* ---- For arithmetic.lua --------------------------------------------------------------------- */

/* host.on_device(t): whether it is a tensor on a device. */
static int on_device(lua_State *L) {
  lua_pushboolean(L, is_device(L, 1));
  return 1;
}

/* host.steps(t): for each dimension how many elements lie between neighbours, a sequence. */
static int steps(lua_State *L) {
  const lt_tensor *t = &check(L, 1)->layout;
  int64_t step[LT_DIMS];
  /* Views step by whole elements, so nothing is lost. */
  for (unsigned d = 0; d < t->ndim; d++) step[d] = t->stride[d] / isa_dtype_bytes(t->dtype);
  lb_push_shape(L, t->ndim, step);
  return 1;
}

/* host.flat(t): all from its first element to its last as one dimension, a view. */
static int flat(lua_State *L) {
  const lt_tensor *t = &check(L, 1)->layout;
  int64_t each = isa_dtype_bytes(t->dtype);
  /* From the first element, so with no shift. */
  lt_tensor as = {.dtype = t->dtype, .ndim = 1, .shape = {span_of(t) / each}};
  lt_layout(&as);
  push_view(L, 1, &as, 0);
  return 1;
}

/* host.new(t, dtype, shape, what): a new tensor on t's device. */
static int new_beside(lua_State *L) {
  const char *what = luaL_checkstring(L, 4);
  int64_t shape[LT_DIMS];
  unsigned dtype = lb_dtype(L, 2), ndim = lt_check_shape(L, 3, shape);
  check(L, 1);
  /* The core of t, whose HBM gets it. */
  lua_getiuservalue(L, 1, CORE);
  lb_new_device_tensor(L, -1, what, dtype, ndim, shape);
  return 1;
}

/* host.share(a, b): whether one is a view of the other, or both of a third. */
static int share(lua_State *L) {
  for (int i = 1; i <= 2; i++) /* One that has no root is its own. */
    if (lua_getiuservalue(L, i, ROOT) != LUA_TUSERDATA) {
      lua_pop(L, 1);
      lua_pushvalue(L, i);
    }
  /* By identity: two objects on the same tensor are one here. */
  lua_pushboolean(L, lua_rawequal(L, -1, -2));
  return 1;
}

/* host.core(t): its core; nil when t is closed, false when the core is. */
static int core_of(lua_State *L) {
  const lb_device_tensor *d = luaL_checkudata(L, 1, LB_DEVICE_TENSOR);
  if (d->t == NULL)
    lua_pushnil(L);
  else if (d->core->m == NULL)
    lua_pushboolean(L, false);
  else
    lua_getiuservalue(L, 1, CORE);
  return 1;
}

/* host.busy(core): whether a run of it has not ended. */
static int busy(lua_State *L) {
  /* An operator must not start a second run on its core. */
  const lb_core *core = lb_check_core(L, 1);
  lua_pushboolean(L, core->current != NULL && core->current->r != NULL &&
                         !soma_run_ended(core->current->r));
  return 1;
}

/* host.count(core, assembled, ns): a run of arithmetic is done. */
static int count(lua_State *L) {
  lb_core *core = lb_check_core(L, 1);
  core->arithmetic.runs++;
  /* 1 if it had to be assembled, 0 if an earlier one was used again. */
  core->arithmetic.programs += lua_toboolean(L, 2);
  core->arithmetic.ns += luaL_checknumber(L, 3);
  return 0;
}

const luaL_Reg lb_arithmetic_functions[] = {{"on_device", on_device},
                                            {"steps", steps},
                                            {"flat", flat},
                                            {"new", new_beside},
                                            {"share", share},
                                            {"core", core_of},
                                            {"busy", busy},
                                            {"count", count},
                                            {"binary_type", lt_binary_type},
                                            {NULL, NULL}};

const luaL_Reg lb_tensor_methods[] = {{"to", tensor_to}, {NULL, NULL}};

void lb_open_device(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", device_close},          {"__close", device_close},
                                  {"__tostring", device_tostring}, {"__newindex", device_newindex},
                                  {"__len", device_len},           {NULL, NULL}};
  static const luaL_Reg methods[] = {{"to", tensor_to},
                                     {"close", device_close},
                                     {"get", tensor_get},
                                     {"fill", tensor_fill},
                                     {NULL, NULL}};
  /* Views are made by the methods that host tensors have. */
  static const luaL_Reg *const lists[] = {methods, lt_view_methods, NULL};
  lb_object(L, LB_DEVICE_TENSOR, meta, device_index, lists);
  luaL_getmetatable(L, LB_DEVICE_TENSOR);
  lua_pushliteral(L, "tensor on a device: use t:to \"cpu\"");
  lua_setfield(L, -2, "__name"); /* what messages about wrong arguments call it */
  lua_pop(L, 1);
}
