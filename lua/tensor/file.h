/* Tensors in files: what .npy, .npz and safetensors share. Files are read as hostile input; every
 * function here raises a Lua error that names the file, the rule and the values. */
#ifndef LUA_TENSOR_FILE_H
#define LUA_TENSOR_FILE_H

#include "tensor.h"

/* ---- Reading (file.c) ---------------------------------------------------------------------- */

/* Where bytes come from: a file, or a member of an archive. */
typedef struct lt_source {
  lua_State *L;
  const char *path, *format; /* for messages: "x.npz: member 'a'", ".npy" */
  int64_t length, at;        /* bytes in all, -1 when not known (a pipe); bytes read so far */
  size_t (*read)(struct lt_source *s, void *to, size_t n); /* fewer at the end or on an error */
  const char *(*error)(struct lt_source *s); /* after a short read; NULL: it was the end */
  void *from;                                /* FILE *, zip_file_t * */
  int map; /* stack position of the mapping of the whole file, or 0 */
} lt_source;
lt_source lt_file_source(lua_State *L, const lb_file *f, const char *path, const char *format);
/* Raises "PATH: not a valid FORMAT file: " and the text. */
int lt_format_error(const lt_source *s, const char *fmt, ...);
/* The next n bytes. False if there are fewer. */
bool lt_read(lt_source *s, void *to, size_t n);

/* Options of a loader. map: 1 and 0 as the user says, -1 by size. */
typedef struct lt_loading {
  const char *what; /* the function's name */
  int arg, device, map;
} lt_loading;
/* Reads the option table at arg; `known` lists what the function takes. */
lt_loading lt_loading_options(lua_State *L, int arg, const char *what, const char *const *known);
/* The option `dtype`, a name or a table of names by tensor, for this tensor; 0 when not given. */
unsigned lt_loading_dtype(lua_State *L, const lt_loading *o, const char *name);
/* The option `names`, a sequence of strings, or the names at stack position all if none exists:
 * pushed. Raises an error when one is not among them. */
void lt_loading_names(lua_State *L, const lt_loading *o, const char *path, int all);

/* Maps the source, a regular file, when it is large or o says so: tensors then share its pages, and
 * pages that are written to become private. Pushes one value, which stays where it is as long as s
 * is used. A file that cannot be mapped is read. */
void lt_map(lt_source *s, const lt_loading *o);

/* How a file holds the elements of one tensor. */
typedef struct lt_stored {
  char kind; /* b i u f V, as NumPy has them */
  bool big, fortran;
  int named; /* the dtype, if the file gives its name; else -1 */
  unsigned bytes, ndim;
  int64_t shape[LT_DIMS];
} lt_stored;
/* The dtype of the result: the file's, or the one asked for (0: none) where the file has raw bits
 * or float64. */
unsigned lt_stored_dtype(const lt_source *s, const lt_stored *e, unsigned asked);
/* Bytes of the tensor in the file; raises an error when no host could hold it. */
int64_t lt_stored_size(const lt_source *s, const lt_stored *e);
/* Pushes the tensor whose data is the next lt_stored_size bytes of s. */
void lt_read_tensor(lt_source *s, const lt_stored *e, unsigned dtype);

/* Pushes the tensor of a whole .npy file or member (npy.c). */
void lt_read_npy(lt_source *s, unsigned asked);

/* ---- Writing ------------------------------------------------------------------------------- */

typedef struct lt_named {
  const char *name; /* without zero bytes */
  const lt_tensor *t;
} lt_named;
/* The table {name = tensor} at arg in the order of the names' bytes. Pushes a table that holds
 * dense tensors, and then the array. */
lt_named *lt_check_named(lua_State *L, int arg, const char *what, size_t *n);

/* The bytes of a .npy file before its data (npy.c); returns how many. */
enum { LT_NPY_HEAD = 576 };
size_t lt_npy_head(const lt_tensor *t, unsigned char out[LT_NPY_HEAD]);

/* ---- The formats --------------------------------------------------------------------------- */

extern const luaL_Reg lt_npz_functions[], lt_safetensors_functions[];
void lt_open_npz(lua_State *L);
void lt_open_safetensors(lua_State *L);

#endif
