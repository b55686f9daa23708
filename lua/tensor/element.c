/* Elements of every dtype as Lua values, doubles and 64-bit integers; iteration over tensors. */
#include <string.h>

#include "dmath.h"
#include "tensor.h"

enum lt_class lt_class_of(unsigned dtype) {
  switch (isa_dtypes[dtype].cls) {
  case ISA_FLOAT: return LT_FLOAT;
  case ISA_PACK: return LT_PACKED;
  default: return LT_INT;
  }
}

bool lt_is_unsigned(unsigned dtype) {
  return isa_dtypes[dtype].cls == ISA_UINT || isa_dtypes[dtype].cls == ISA_BOOL;
}

uint64_t lt_get_bits(const unsigned char *p, unsigned bytes) {
  uint64_t v = 0;
  for (unsigned i = 0; i < bytes; i++) v |= (uint64_t)p[i] << (8 * i);
  return v;
}

void lt_put_bits(unsigned char *p, unsigned bytes, uint64_t bits) {
  for (unsigned i = 0; i < bytes; i++) p[i] = (unsigned char)(bits >> (8 * i));
}

float lt_round_odd(double x) {
  float f = (float)x; /* to nearest even; step back to truncation, then set the last bit */
  if (x != x || (double)f == x) return f;
  uint32_t u = isa_f32_bits(f);
  /* Magnitudes tell whether the first rounding went away from zero. */
  double fa = dm_abs((double)f), xa = dm_abs(x);
  if (fa > xa) u--; /* also from infinity to the largest finite value */
  return isa_bits_f32(u | 1);
}

uint32_t lt_narrow(unsigned dtype, double x, unsigned cvt) {
  /* To fp32 itself one rounding is enough, and it is to nearest. */
  if (dtype == ISA_float32) return isa_from_f32(dtype, (float)x, cvt);
  return isa_from_f32(dtype, lt_round_odd(x), cvt);
}

/* Integers that a double holds, without bool, which is nonzero and not rounded. */
static bool is_small_int(unsigned dtype) {
  return lt_class_of(dtype) == LT_INT && isa_dtypes[dtype].bits <= 32 && dtype != ISA_bool;
}

/* ---- Arrays of elements -------------------------------------------------------------------- */

/* The same 64 bits mean another number. */
static double int_to_f64(unsigned dtype, int64_t v) {
  return dtype == ISA_uint64 ? (double)(uint64_t)v : (double)v;
}

/* One case for each type, so that the loops have no branches. */
void lt_load_i64(unsigned dtype, const unsigned char *p, int64_t stride, size_t n, int64_t *out) {
#define LOAD(type)                              \
  for (size_t i = 0; i < n; i++, p += stride) { \
    type v;                                     \
    memcpy(&v, p, sizeof v);                    \
    out[i] = (int64_t)v;                        \
  }                                             \
  break
  switch (dtype) {
  case ISA_int8: LOAD(int8_t);
  case ISA_uint16: LOAD(uint16_t);
  case ISA_int16: LOAD(int16_t);
  case ISA_uint32: LOAD(uint32_t);
  case ISA_int32: LOAD(int32_t);
  case ISA_uint64: LOAD(uint64_t);
  case ISA_int64: LOAD(int64_t);
  case ISA_bool:
    for (size_t i = 0; i < n; i++, p += stride) out[i] = *p != 0;
    break;
  default: LOAD(uint8_t);
  }
#undef LOAD
}

/* The low bits are the same for signed and unsigned types. */
void lt_store_i64(unsigned dtype, unsigned char *p, int64_t stride, size_t n, const int64_t *in) {
  if (dtype == ISA_bool) {
    for (size_t i = 0; i < n; i++, p += stride) *p = in[i] != 0;
    return;
  }
#define STORE(type)                             \
  for (size_t i = 0; i < n; i++, p += stride) { \
    type v = (type)in[i];                       \
    memcpy(p, &v, sizeof v);                    \
  }                                             \
  break
  /* Only the width matters. */
  switch (isa_dtype_bytes(dtype)) {
  case 1: STORE(uint8_t);
  case 2: STORE(uint16_t);
  case 4: STORE(uint32_t);
  default: STORE(uint64_t);
  }
#undef STORE
}

void lt_load_f64(unsigned dtype, const unsigned char *p, int64_t stride, size_t n, double *out) {
  if (dtype == ISA_float32) {
    for (size_t i = 0; i < n; i++, p += stride) {
      float v;
      memcpy(&v, p, sizeof v);
      out[i] = (double)v;
    }
  } else if (lt_class_of(dtype) == LT_FLOAT) {
    /* Through fp32, which holds every element of the small types exactly. */
    unsigned bytes = isa_dtype_bytes(dtype);
    for (size_t i = 0; i < n; i++, p += stride)
      out[i] = (double)isa_to_f32(dtype, (uint32_t)lt_get_bits(p, bytes));
  } else {
    /* By way of integers, a chunk at a time. */
    int64_t v[LT_CHUNK];
    for (size_t i = 0, part; i < n; i += part) {
      part = n - i < LT_CHUNK ? n - i : LT_CHUNK;
      lt_load_i64(dtype, p + (int64_t)i * stride, stride, part, v);
      for (size_t k = 0; k < part; k++) out[i + k] = int_to_f64(dtype, v[k]);
    }
  }
}

/* To nearest even and saturated to 64 bits; NaN gives 0.
 * Limits that doubles can tell: 2^63 and 2^64 themselves are beyond the types. */
static uint64_t wide_from_f64(bool is_unsigned, double x) {
  if (x != x) return 0;
  x = dm_rint(x);
  if (is_unsigned) return x <= 0 ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
  int64_t v = x < -0x1p63 ? INT64_MIN : x >= 0x1p63 ? INT64_MAX : (int64_t)x;
  return (uint64_t)v;
}

static int64_t highest(unsigned dtype) { /* of an integer type of up to 32 bits */
  return ((int64_t)1 << (isa_dtypes[dtype].bits - !lt_is_unsigned(dtype))) - 1;
}

/* 64 bits hold whatever they hold. */
static int64_t clamp_int(unsigned dtype, int64_t v) {
  if (isa_dtypes[dtype].bits == 64) return v;
  int64_t hi = highest(dtype), lo = lt_is_unsigned(dtype) ? 0 : -hi - 1;
  return v < lo ? lo : v > hi ? hi : v;
}

/* To an integer type of up to 32 bits: as wide_from_f64 and clamp_int, many at a time. */
static void store_ints(unsigned dtype, unsigned char *p, int64_t stride, size_t n,
                       const double *in) {
  const double hi = (double)highest(dtype), lo = lt_is_unsigned(dtype) ? 0 : -hi - 1;
  /* Adding and subtracting it rounds to nearest even. */
  const double half = 0x1.8p52; /* sums with it are integers */
  int64_t v[LT_CHUNK];
  for (size_t i = 0, part; i < n; i += part) {
    part = n - i < LT_CHUNK ? n - i : LT_CHUNK;
    for (size_t k = 0; k < part; k++) {
      double x = in[i + k] < lo ? lo : in[i + k] > hi ? hi : in[i + k];
      /* A NaN becomes half - half, 0. */
      v[k] = (int64_t)((x == x ? x + half : half) - half);
    }
    lt_store_i64(dtype, p + (int64_t)i * stride, stride, part, v);
  }
}

/* Rounds once.
 * Each class by its own rule. */
static uint64_t element_from_f64(unsigned dtype, double x) {
  if (lt_class_of(dtype) == LT_FLOAT) return lt_narrow(dtype, x, 0);
  if (dtype == ISA_bool) return x != 0;
  if (isa_dtypes[dtype].bits == 64) return wide_from_f64(dtype == ISA_uint64, x);
  return (uint64_t)clamp_int(dtype, (int64_t)wide_from_f64(false, x));
}

void lt_store_f64(unsigned dtype, unsigned char *p, int64_t stride, size_t n, const double *in) {
  if (dtype == ISA_float32) {
    for (size_t i = 0; i < n; i++, p += stride) {
      float v = (float)in[i];
      /* Whatever bits a NaN had, the host's processor does not decide those of the result. */
      if (v != v) v = isa_bits_f32(0x7fc00000);
      memcpy(p, &v, sizeof v);
    }
    return;
  }
  if (dtype == ISA_bool) {
    for (size_t i = 0; i < n; i++, p += stride) *p = in[i] != 0;
    return;
  }
  if (is_small_int(dtype)) {
    store_ints(dtype, p, stride, n, in);
    return;
  }
  /* What is left: narrow floats and wide integers. */
  unsigned bytes = isa_dtype_bytes(dtype);
  for (size_t i = 0; i < n; i++, p += stride) lt_put_bits(p, bytes, element_from_f64(dtype, in[i]));
}

/* ---- Conversions --------------------------------------------------------------------------- */

static uint64_t convert_int(unsigned dd, unsigned sd, int64_t v, unsigned cvt) {
  /* Integers become floats by way of fp32, as on the machine. */
  if (lt_class_of(dd) == LT_FLOAT)
    return isa_from_f32(dd, sd == ISA_uint64 ? (float)(uint64_t)v : (float)v, cvt);
  if (dd == ISA_bool) return v != 0;
  /* Negative numbers saturate at 0. */
  if (dd == ISA_uint64) return sd != ISA_uint64 && v < 0 ? 0 : (uint64_t)v;
  /* A uint64 that int64 cannot hold; the limits of dd then clamp it. */
  if (sd == ISA_uint64 && v < 0) v = INT64_MAX;
  return (uint64_t)clamp_int(dd, v);
}

/* Copies, or repeats one element that has no stride. */
static void copy_elements(lt_run dst, lt_run src, size_t n) {
  unsigned bytes = isa_dtype_bytes(dst.dtype);
  /* Dense on both sides: one copy. */
  if (dst.stride == bytes && src.stride == bytes) {
    memcpy(dst.p, src.p, n * bytes);
  } else if (dst.stride == bytes && src.stride == 0 && n > 0) {
    size_t done = bytes, all = n * bytes;
    memcpy(dst.p, src.p, bytes);
    /* What is filled so far is the source of the next copy, so that each is twice as long. */
    for (; done < all; done *= 2)
      memcpy(dst.p + done, dst.p, done < all - done ? done : all - done);
  } else {
    for (size_t i = 0; i < n; i++, dst.p += dst.stride, src.p += src.stride)
      memcpy(dst.p, src.p, bytes);
  }
}

/* To float32, bool and integers of up to 32 bits, from types of up to 32 bits: through fp32. */
static void convert_narrow(lt_run dst, lt_run src, size_t n) {
  double v[LT_CHUNK];
  for (size_t part; n > 0; n -= part) {
    part = n < LT_CHUNK ? n : LT_CHUNK;
    lt_load_f64(src.dtype, src.p, src.stride, part, v);
    /* The machine computes in fp32: an int32 loses its low bits here, as it does there. */
    for (size_t k = 0; k < part; k++) v[k] = (double)(float)v[k];
    lt_store_f64(dst.dtype, dst.p, dst.stride, part, v);
    src.p += (int64_t)part * src.stride;
    dst.p += (int64_t)part * dst.stride;
  }
}

void lt_convert(lt_run dst, lt_run src, size_t n, unsigned cvt) {
  unsigned dd = dst.dtype, sd = src.dtype, db = isa_dtype_bytes(dd), sb = isa_dtype_bytes(sd);
  unsigned char *d = dst.p;
  const unsigned char *s = src.p;
  /* Wide types have paths of their own, as doubles do not hold them. */
  bool wide_to_narrow = isa_dtypes[sd].bits == 64, to_wide = isa_dtypes[dd].bits == 64;
  if (dd == sd) {
    copy_elements(dst, src, n);
    return;
  }
  if (!wide_to_narrow && (dd == ISA_float32 || dd == ISA_bool || is_small_int(dd))) {
    convert_narrow(dst, src, n);
    return;
  }
  for (size_t i = 0; i < n; i++, d += dst.stride, s += src.stride) {
    uint64_t bits;
    /* Integer to integer, or from wide to anything: without floats in between. */
    if (wide_to_narrow || (to_wide && lt_class_of(sd) == LT_INT)) {
      int64_t v;
      lt_load_i64(sd, s, src.stride, 1, &v);
      bits = convert_int(dd, sd, v, cvt);
    } else {
      /* From a float, or from a small integer to a narrow float. */
      float x = isa_to_f32(sd, (uint32_t)lt_get_bits(s, sb));
      bits = to_wide ? wide_from_f64(dd == ISA_uint64, (double)x) : isa_from_f32(dd, x, cvt);
    }
    lt_put_bits(d, db, bits);
  }
}

/* ---- Lua values ---------------------------------------------------------------------------- */

/* As Lua would write the value. */
void lt_push_element(lua_State *L, unsigned dtype, const unsigned char *p) {
  if (dtype == ISA_bool)
    lua_pushboolean(L, *p != 0);
  else if (lt_class_of(dtype) == LT_FLOAT) {
    double v;
    lt_load_f64(dtype, p, 0, 1, &v);
    lua_pushnumber(L, v);
  } else if (lt_class_of(dtype) == LT_PACKED)
    lua_pushinteger(L, (lua_Integer)lt_get_bits(p, isa_dtype_bytes(dtype)));
  else {
    int64_t v;
    lt_load_i64(dtype, p, 0, 1, &v);
    lua_pushinteger(L, v);
  }
}

static void set_integer(lua_State *L, int index, unsigned dtype, unsigned char *p) {
  const isa_dtype_row *row = &isa_dtypes[dtype];
  int exact;
  /* 2.0 is exact, 2.5 is not. */
  lua_Integer v = lua_tointegerx(L, index, &exact);
  if (!exact) luaL_error(L, "%s has no element %s", row->name, luaL_tolstring(L, index, NULL));
  bool fits = row->cls == ISA_PACK  ? v >= 0 && v <= ((lua_Integer)1 << row->bits) - 1
              : dtype == ISA_uint64 ? v >= 0
                                    : clamp_int(dtype, v) == v;
  /* Unlike stores, which wrap or saturate: a script's constant is checked. */
  if (!fits) luaL_error(L, "%s cannot hold %I", row->name, (LUAI_UACINT)v);
  lt_put_bits(p, row->bytes, (uint64_t)v);
}

void lt_set_element(lua_State *L, int index, unsigned dtype, unsigned char *p) {
  int type = lua_type(L, index);
  /* true and false are elements of bool only. */
  if (type == LUA_TBOOLEAN && dtype == ISA_bool) {
    *p = lua_toboolean(L, index) != 0;
    return;
  }
  if (type != LUA_TNUMBER)
    luaL_error(L, "an element of %s must be a %s, not %s", isa_dtypes[dtype].name,
               dtype == ISA_bool ? "boolean" : "number", luaL_typename(L, index));
  if (dtype == ISA_bool) {
    lua_Number v = lua_tonumber(L, index);
    /* Numbers 0 and 1 are taken, too. */
    if (v != 0 && v != 1) luaL_error(L, "bool cannot hold %f", v);
    *p = v != 0;
  } else if (lt_class_of(dtype) == LT_FLOAT) {
    /* An integer beyond 2^53 is rounded once to double, then to the type. */
    double v = lua_isinteger(L, index) ? (double)lua_tointeger(L, index) : lua_tonumber(L, index);
    lt_store_f64(dtype, p, 0, 1, &v);
  } else {
    set_integer(L, index, dtype, p);
  }
}

/* ---- Iteration ----------------------------------------------------------------------------- */

void lt_walk_init(lt_walk *w, unsigned ndim, const int64_t *shape, unsigned nop,
                  const lt_tensor *const *ops) {
  memset(w, 0, sizeof *w);
  w->nop = nop;
  for (unsigned k = 0; k < nop; k++) w->p[k] = ops[k]->data;
  /* Dimensions that follow each other are joined where all operands allow it. */
  for (unsigned d = 0; d < ndim; d++) {
    if (shape[d] == 0) w->empty = true;
    /* One element, whatever its stride. */
    if (shape[d] == 1) continue;
    bool joins = w->ndim > 0;
    int64_t stride[LT_OPERANDS];
    for (unsigned k = 0; k < nop; k++) { /* missing leading and unit dimensions repeat */
      int at = (int)d - (int)(ndim - ops[k]->ndim);
      stride[k] = at < 0 || ops[k]->shape[at] == 1 ? 0 : ops[k]->stride[at];
      /* A step of the outer dimension is a whole run of this one: together they are one run. */
      if (joins && w->stride[k][w->ndim - 1] != stride[k] * shape[d]) joins = false;
    }
    if (!joins) w->ndim++;
    unsigned last = w->ndim - 1;
    w->shape[last] = joins ? w->shape[last] * shape[d] : shape[d];
    for (unsigned k = 0; k < nop; k++) w->stride[k][last] = stride[k];
  }
  /* No dimensions, or only single elements. */
  if (w->ndim == 0) {
    w->ndim = 1;
    w->shape[0] = 1;
  }
  w->n = (size_t)w->shape[w->ndim - 1];
  /* The caller steps through the inner run itself. */
  for (unsigned k = 0; k < nop; k++) w->step[k] = w->stride[k][w->ndim - 1];
}

bool lt_walk_next(lt_walk *w) {
  if (w->empty) return false;
  if (!w->started) return w->started = true;
  /* The last dimension is the inner run, which the caller walks. */
  for (unsigned d = w->ndim - 1; d-- > 0;) {
    /* On to the next of this dimension, or back to its start. */
    for (unsigned k = 0; k < w->nop; k++) w->p[k] += w->stride[k][d];
    if (++w->index[d] < w->shape[d]) return true;
    for (unsigned k = 0; k < w->nop; k++) w->p[k] -= w->stride[k][d] * w->shape[d];
    w->index[d] = 0;
  }
  return false;
}

unsigned lt_broadcast(lua_State *L, const char *what, const lt_tensor *a, const lt_tensor *b,
                      int64_t *shape) {
  unsigned ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (unsigned d = 0; d < ndim; d++) {
    /* Aligned at the last dimension. */
    int ia = (int)d - (int)(ndim - a->ndim), ib = (int)d - (int)(ndim - b->ndim);
    int64_t na = ia < 0 ? 1 : a->shape[ia], nb = ib < 0 ? 1 : b->shape[ib];
    if (na != nb && na != 1 && nb != 1)
      luaL_error(L, "%s: shapes %s and %s do not broadcast: %I and %I in dimension %d", what,
                 lt_push_type(L, a), lt_push_type(L, b), (LUAI_UACINT)na, (LUAI_UACINT)nb, (int)d);
    /* A dimension of one repeats, also to zero elements. */
    shape[d] = na == 1 ? nb : na;
  }
  return ndim;
}

void lt_copy(lua_State *L, const lt_tensor *dst, const lt_tensor *src, unsigned cvt) {
  /* Equal packed types are copied bit by bit. */
  if (dst->dtype != src->dtype &&
      (lt_class_of(dst->dtype) == LT_PACKED || lt_class_of(src->dtype) == LT_PACKED))
    luaL_error(L, "cannot copy %s to %s: use astype", lt_push_type(L, src), lt_push_type(L, dst));
  const lt_tensor *ops[] = {dst, src};
  lt_walk w;
  lt_walk_init(&w, dst->ndim, dst->shape, 2, ops);
  while (lt_walk_next(&w))
    lt_convert((lt_run){dst->dtype, w.p[0], w.step[0]}, (lt_run){src->dtype, w.p[1], w.step[1]},
               w.n, cvt);
}
