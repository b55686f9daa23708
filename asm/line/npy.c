/* .npy files of const tensors. */
#include "stmt.h"
#include "../../isa/npy.h"

#include <stdio.h>
#include <string.h>

/* Whether the file's elements are elements of a type: a name says it; NumPy's own types by kind;
 * the others as ml_dtypes saves them, V1 V2 V4, or by their bits, u1 u2 u4. */
static bool type_matches(const isa_npy *h, unsigned dtype) {
  const isa_dtype_row *t = &isa_dtypes[dtype];
  /* One byte has no order.
   * A named type is one that NumPy lacks, such as bfloat16. */
  if (h->named >= 0) return (unsigned)h->named == dtype && !(h->big && t->bytes > 1);
  /* The program's data are little endian. */
  if (h->bytes != t->bytes || h->big) return false;
  bool own = dtype == ISA_float32 || dtype == ISA_float16;
  switch (t->cls) {
  case ISA_UINT: return h->kind == 'u';
  case ISA_INT: return h->kind == 'i';
  case ISA_BOOL: return h->kind == 'b';
  default:
    if (own) return h->kind == 'f';
    /* The bits of other types, whatever kind NumPy says. */
    return h->kind == 'V' || h->kind == 'u' || (dtype == ISA_tfloat32 && h->kind == 'f');
  }
}

static bool same_shape(const isa_npy *h, const isa_tensor *t) {
  return h->ndim == t->ndim && memcmp(h->shape, t->shape, t->ndim * sizeof *t->shape) == 0;
}

/* "(2, 3)" */
static void show_shape(const int64_t *shape, unsigned ndim, char *out, size_t room) {
  size_t n = 0;
  out[0] = 0;
  for (unsigned d = 0; d < ndim && n + 24 < room; d++)
    n += (size_t)snprintf(out + n, room - n, "%s%lld", d ? "," : "", (long long)shape[d]);
}

static bool fits(as_job *j, const as_tok *at, const char *path, const isa_npy *h,
                 const isa_tensor *t) {
  char got[200], want[200];
  /* Columns first: the elements would have to be moved. */
  if (h->fortran) {
    as_error(j, at->pos, at->len, "`%s` is in Fortran order; save it with the last axis innermost",
             path);
    return false;
  }
  if (!type_matches(h, t->dtype))
    return as_error(j, at->pos, at->len, "`%s` has elements of `%s`, but `%s` is %s", path,
                    h->named < 0 ? h->descr : isa_dtypes[h->named].name, t->name,
                    isa_dtypes[t->dtype].name);
  if (same_shape(h, t)) return true;
  show_shape(h->shape, h->ndim, got, sizeof got);
  show_shape(t->shape, t->ndim, want, sizeof want);
  return as_error(j, at->pos, at->len, "`%s` has the shape [%s], but `%s` has [%s]", path, got,
                  t->name, want);
}

static bool bad(as_job *j, const as_tok *at, const char *path, const char *why) {
  return as_error(j, at->pos, at->len, "`%s` is not a .npy file: %s", path, why);
}

bool as_npy(as_job *j, const as_tok *at, const char *path, const uint8_t *file, size_t n,
            const isa_tensor *t, const uint8_t **elements) {
  isa_npy h;
  isa_error e = {0};
  size_t head = isa_npy_begin(file, n, &e);
  if (!head) return bad(j, at, path, e.text);
  if (n < head) return bad(j, at, path, "it ends within its header");
  int64_t len = isa_npy_length(file, &e);
  if (len < 0) return bad(j, at, path, e.text);
  size_t begin = head + (size_t)len;
  if (begin > n) return bad(j, at, path, "it ends within its header");
  if (!isa_npy_text((const char *)file + head, (size_t)len, &h, &e))
    return bad(j, at, path, e.text);
  if (!fits(j, at, path, &h, t)) return false;
  *elements = file + begin;
  /* Neither more nor less than the shape says. */
  if (n - begin == t->bytes) return true;
  return as_error(j, at->pos, at->len, "`%s` has %llu bytes of elements, but `%s` needs %llu", path,
                  (unsigned long long)(n - begin), t->name, (unsigned long long)t->bytes);
}
