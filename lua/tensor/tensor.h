/* Host tensors: n-dimensional arrays of every machine dtype, as Lua userdata.
 *
 * Shapes and indices count from 0 as on the machine; strides are in bytes and may be 0
 * (broadcast). Tensors that are slices or reshapes of one another share memory. */
#ifndef LUA_TENSOR_H
#define LUA_TENSOR_H

#include "../base/base.h"

#define LT_NAME "soma.tensor"
enum { LT_DIMS = 8, LT_CHUNK = 256 };

typedef struct lt_tensor {
  unsigned char *data; /* first element, inside the storage of user value 1 */
  int64_t size;        /* elements */
  int64_t shape[LT_DIMS], stride[LT_DIMS];
  unsigned dtype, ndim;
} lt_tensor;

/* ---- Memory (storage.c) -----------------------------------------------------------------------
 */

/* Memory of tensors that Lua's allocator did not give: a userdata that releases it when it goes. */
typedef struct lt_storage {
  void *data; /* NULL: nothing yet, or nothing more */
  size_t bytes;
  void *owner; /* for release */
  void (*release)(struct lt_storage *s);
} lt_storage;
/* Pushes an empty one. */
lt_storage *lt_push_storage(lua_State *L);
/* Pages of the host, to release. */
void lt_unmap(lt_storage *s);
/* Pushes n zeroed bytes, 1 and more, as a userdata or a storage: 1 MiB and more are pages that are
 * taken as they are touched, where the state's memory has no limit. */
void *lt_push_zeros(lua_State *L, size_t n);
void lt_open_storage(lua_State *L);

/* ---- Objects (tensor.c) -------------------------------------------------------------------- */

/* Pushes a new dense tensor, zeroed. Raises when the size does not fit a machine. */
lt_tensor *lt_new(lua_State *L, unsigned dtype, unsigned ndim, const int64_t *shape);
/* Pushes a dense tensor on data inside the storage, a userdata at that absolute stack position. */
lt_tensor *lt_new_on(lua_State *L, unsigned dtype, unsigned ndim, const int64_t *shape, int storage,
                     unsigned char *data);
/* Pushes a tensor on the storage of the one at index, to be narrowed by the caller. */
lt_tensor *lt_alias(lua_State *L, int index);
lt_tensor *lt_check(lua_State *L, int arg);
lt_tensor *lt_test(lua_State *L, int arg);
bool lt_dense(const lt_tensor *t);
/* t itself when dense; else a dense copy replaces the value at stack position arg. */
lt_tensor *lt_make_dense(lua_State *L, int arg);
/* Sets row-major strides and the size from dtype and shape. False on overflow. */
bool lt_layout(lt_tensor *t);
/* Reads a shape argument: a sequence of integers, or one integer. Returns its ndim. */
unsigned lt_check_shape(lua_State *L, int arg, int64_t *shape);
/* "float32[2, 3]" is pushed. */
const char *lt_push_type(lua_State *L, const lt_tensor *t);
/* An axis argument, negative ones counted from the end; -1 when nil. */
int lt_check_axis(lua_State *L, int arg, const lt_tensor *t);

/* ---- Elements (element.c) ------------------------------------------------------------------ */

/* How elements of a type are computed with: as double or as 64-bit integers. */
enum lt_class { LT_FLOAT = 1, LT_INT, LT_PACKED };
enum lt_class lt_class_of(unsigned dtype);
bool lt_is_unsigned(unsigned dtype);

/* n elements at p, stride bytes apart, to and from double; stores round once to nearest even,
 * to integers with saturation (NaN: 0). Not for packed types. */
void lt_load_f64(unsigned dtype, const unsigned char *p, int64_t stride, size_t n, double *out);
void lt_store_f64(unsigned dtype, unsigned char *p, int64_t stride, size_t n, const double *in);
/* The same for integer types and bool; uint64 as its bit pattern. Stores keep the low bits. */
void lt_load_i64(unsigned dtype, const unsigned char *p, int64_t stride, size_t n, int64_t *out);
void lt_store_i64(unsigned dtype, unsigned char *p, int64_t stride, size_t n, const int64_t *in);
/* Raw bits of an element, and back. */
uint64_t lt_get_bits(const unsigned char *p, unsigned bytes);
void lt_put_bits(unsigned char *p, unsigned bytes, uint64_t bits);
/* fp32 that lies on the same side of every rounding boundary of a narrower type as x does:
 * rounding it to such a type gives what rounding x would. */
float lt_round_odd(double x);
uint32_t lt_narrow(unsigned dtype, double x, unsigned cvt);

/* Pushes an element as a Lua value: integer, float or boolean; packed ones as their bits. */
void lt_push_element(lua_State *L, unsigned dtype, const unsigned char *p);
/* Stores the Lua value at index; raises an error when it does not fit: integers must be exact
 * and in range, floats are rounded. */
void lt_set_element(lua_State *L, int index, unsigned dtype, unsigned char *p);

/* ---- Iteration (element.c) ----------------------------------------------------------------- */

/* Walks up to four tensors of one (broadcast) shape together, an inner run of n elements at a
 * time, in row-major order. Use:  lt_walk_init(..); while (lt_walk_next(&w)) { w.p[i], w.n } */
enum { LT_OPERANDS = 4 };
typedef struct lt_walk {
  unsigned nop, ndim;
  int64_t shape[LT_DIMS + 1], index[LT_DIMS + 1];
  int64_t stride[LT_OPERANDS][LT_DIMS + 1];
  unsigned char *p[LT_OPERANDS];
  int64_t step[LT_OPERANDS]; /* of the inner run, in bytes */
  size_t n;
  bool started, empty;
} lt_walk;
void lt_walk_init(lt_walk *w, unsigned ndim, const int64_t *shape, unsigned nop,
                  const lt_tensor *const *ops);
bool lt_walk_next(lt_walk *w);
/* The common shape of two broadcast tensors; raises an error that shows both. */
unsigned lt_broadcast(lua_State *L, const char *what, const lt_tensor *a, const lt_tensor *b,
                      int64_t *shape);
/* Copies src, broadcast to dst's shape, converting as astype does. cvt: enum isa_cvt. */
void lt_copy(lua_State *L, const lt_tensor *dst, const lt_tensor *src, unsigned cvt);
/* Elements that lie stride bytes apart. */
typedef struct lt_run {
  unsigned dtype;
  unsigned char *p;
  int64_t stride;
} lt_run;
/* Converts n elements: the machine's conversions. Not for packed types. */
void lt_convert(lt_run dst, lt_run src, size_t n, unsigned cvt);

/* ---- Views (view.c) ------------------------------------------------------------------------ */

/* An index of dimension d at a stack position. */
int64_t lt_check_index(lua_State *L, int index, const lt_tensor *t, unsigned d);
/* Where the element lies at the n indices from stack position first, or in the table there: bytes
 * from the first element. */
int64_t lt_element_at(lua_State *L, const lt_tensor *t, int first, int n);
/* Pushes row i of the tensor t at 1; i is at 2. Returns 1. */
int lt_row(lua_State *L, const lt_tensor *t);

/* ---- Devices (tensor.c) -------------------------------------------------------------------- */

/* What this room asks of the one that has devices. `what` begins the text of an error. */
typedef struct lt_devices {
  /* Moves the host tensor on the top of the stack to a device. */
  void (*move)(lua_State *L, int device, const char *what);
  /* Pushes a new tensor on a device, zeroed or, with an element, filled with it. */
  void (*make)(lua_State *L, int device, const char *what, const lt_tensor *as,
               const void *element);
  bool (*is_device)(lua_State *L, int arg);
  /* Type, shape and strides of the device tensor at arg, NULL if it is not one; raises an error
   * when it is closed. */
  const lt_tensor *(*layout)(lua_State *L, int arg);
  /* Pushes a view of it, whose first element is `shift` bytes after its own. */
  void (*view)(lua_State *L, int arg, const lt_tensor *as, int64_t shift);
  /* Calls the device tensors' method of that name with the n arguments from 1 on; one result. */
  void (*call)(lua_State *L, const char *name, int n);
} lt_devices;
const lt_devices *lt_get_devices(lua_State *L);
/* Moves the host tensor on the top to the device, if it is one. Returns 1. */
int lt_place(lua_State *L, int device, const char *what);
/* When an argument is a tensor on a device, calls its method of that name and leaves the result. */
bool lt_call_device(lua_State *L, const char *name);
/* Pushes shape, dtype, ndim, size or nbytes; false when key is not one of them. */
bool lt_push_property(lua_State *L, const lt_tensor *t, const char *key);

/* ---- What the module is made of ------------------------------------------------------------ */

/* Functions of the module and methods of tensors, each list ended by a NULL name. */
extern const luaL_Reg lt_make_functions[], lt_op_functions[], lt_math_functions[],
    lt_reduce_functions[], lt_compare_functions[], lt_npy_functions[];
extern const luaL_Reg lt_op_methods[], lt_math_methods[], lt_reduce_methods[], lt_view_methods[],
    lt_print_methods[], lt_npy_methods[], lt_op_meta[];
int lt_tostring(lua_State *L);
int lt_negate(lua_State *L);
int lt_bnot(lua_State *L);
int lt_binary_type(lua_State *L); /* (ops.c) */
/* Tensors have these methods as well. */
void lt_open(lua_State *L, const luaL_Reg *methods, const lt_devices *devices);

#endif
