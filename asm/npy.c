/* The header of a .npy file (NumPy's format 1.0, 2.0 and 3.0): a magic, the header's length, and
 * a Python dict with exactly the keys descr, fortran_order and shape. Read strictly; the file is
 * hostile. */
#include "stmt.h"

#include <stdio.h>
#include <string.h>

enum { MAX_HEADER = 65536 };

typedef struct npy {
  const char *p, *end; /* what is left of the header */
  char descr[24];
  bool fortran;
  int64_t shape[ISA_TENSOR_DIMS];
  unsigned ndim;
} npy;

static void blanks(npy *h) {
  while (h->p < h->end && (*h->p == ' ' || *h->p == '\n' || *h->p == '\t')) h->p++;
}

static bool take(npy *h, char c) {
  blanks(h);
  if (h->p == h->end || *h->p != c) return false;
  h->p++;
  return true;
}

static bool take_word(npy *h, const char *word) {
  size_t n = strlen(word);
  blanks(h);
  if ((size_t)(h->end - h->p) < n || memcmp(h->p, word, n) != 0) return false;
  h->p += n;
  return true;
}

static bool printable(char c) { return (unsigned char)c >= ' ' && (unsigned char)c < 0x7f; }

static bool string(npy *h, char *out, size_t room) {
  blanks(h);
  if (h->p == h->end || (*h->p != '\'' && *h->p != '"')) return false;
  char quote = *h->p++;
  size_t n = 0;
  for (; h->p < h->end && *h->p != quote; h->p++) {
    if (n + 1 == room || *h->p == '\\' || !printable(*h->p)) return false;
    out[n++] = *h->p;
  }
  out[n] = 0;
  return take(h, quote);
}

static bool dimension(npy *h) {
  int64_t v = 0;
  blanks(h);
  const char *from = h->p;
  for (; h->p < h->end && *h->p >= '0' && *h->p <= '9'; h->p++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *h->p - '0', &v))
      return false;
  if (h->p == from || h->ndim == ISA_TENSOR_DIMS) return false;
  h->shape[h->ndim++] = v;
  return true;
}

static bool tuple(npy *h) {
  if (!take(h, '(')) return false;
  while (!take(h, ')')) {
    if (h->ndim > 0 && !take(h, ',')) return false;
    if (h->ndim > 0 && take(h, ')')) return true; /* the comma of (3,) */
    if (!dimension(h)) return false;
  }
  return true;
}

static bool dict(npy *h) {
  unsigned seen = 0;
  if (!take(h, '{')) return false;
  while (!take(h, '}')) {
    char key[24];
    unsigned bit = 0;
    if (!string(h, key, sizeof key) || !take(h, ':')) return false;
    if (strcmp(key, "descr") == 0 && string(h, h->descr, sizeof h->descr)) {
      bit = 1;
    } else if (strcmp(key, "fortran_order") == 0) {
      h->fortran = take_word(h, "True");
      bit = h->fortran || take_word(h, "False") ? 2 : 0;
    } else if (strcmp(key, "shape") == 0 && tuple(h)) {
      bit = 4;
    }
    if (bit == 0 || (seen & bit)) return false;
    seen |= bit;
    take(h, ',');
  }
  blanks(h);
  return seen == 7 && h->p == h->end;
}

/* Whether elements of a descr are elements of a type: NumPy's own types by name; the others as
 * ml_dtypes saves them, V1 V2 V4, or by their bits, u1 u2 u4. */
static bool type_matches(const char *descr, unsigned dtype) {
  const isa_dtype_row *t = &isa_dtypes[dtype];
  char order = descr[0], kind = order ? descr[1] : 0;
  char size[4];
  snprintf(size, sizeof size, "%u", t->bytes);
  if (!kind || strcmp(descr + 2, size) != 0) return false;
  if (order != '<' && !(order == '|' && (t->bytes == 1 || kind == 'V'))) return false;
  bool own = dtype == ISA_float32 || dtype == ISA_float16;
  switch (t->cls) {
  case ISA_UINT: return kind == 'u';
  case ISA_INT: return kind == 'i';
  case ISA_BOOL: return kind == 'b';
  default:
    return own ? kind == 'f' : kind == 'V' || kind == 'u' || (dtype == ISA_tfloat32 && kind == 'f');
  }
}

static bool same_shape(const npy *h, const isa_tensor *t) {
  return h->ndim == t->ndim && memcmp(h->shape, t->shape, t->ndim * sizeof *t->shape) == 0;
}

/* "(2, 3)" */
static void show_shape(const int64_t *shape, unsigned ndim, char *out, size_t room) {
  size_t n = 0;
  out[0] = 0;
  for (unsigned d = 0; d < ndim && n + 24 < room; d++)
    n += (size_t)snprintf(out + n, room - n, "%s%lld", d ? "," : "", (long long)shape[d]);
}

static bool fits(as_job *j, const as_tok *at, const char *path, const npy *h, const isa_tensor *t) {
  char got[200], want[200];
  if (h->fortran) {
    as_error(j, at->pos, at->len, "`%s` is in Fortran order; save it with the last axis innermost",
             path);
    return false;
  }
  if (!type_matches(h->descr, t->dtype)) {
    as_error(j, at->pos, at->len, "`%s` has elements of `%s`, `%s` is %s", path, h->descr, t->name,
             isa_dtypes[t->dtype].name);
    return false;
  }
  if (same_shape(h, t)) return true;
  show_shape(h->shape, h->ndim, got, sizeof got);
  show_shape(t->shape, t->ndim, want, sizeof want);
  as_error(j, at->pos, at->len, "`%s` has the shape [%s], `%s` has [%s]", path, got, t->name, want);
  return false;
}

static bool bad(as_job *j, const as_tok *at, const char *path, const char *why) {
  as_error(j, at->pos, at->len, "`%s` is not a .npy file: %s", path, why);
  return false;
}

bool as_npy(as_job *j, const as_tok *at, const char *path, const uint8_t *file, size_t n,
            const isa_tensor *t, const uint8_t **elements) {
  if (n < 10 || memcmp(file, "\x93NUMPY", 6) != 0)
    return bad(j, at, path, "it does not begin with \\x93NUMPY");
  unsigned major = file[6];
  if (major < 1 || major > 3 || file[7] != 0) return bad(j, at, path, "its version is not 1 to 3");
  size_t head = major == 1 ? 10 : 12;
  if (n < head) return bad(j, at, path, "it ends in its header");
  size_t len = (size_t)file[8] | (size_t)file[9] << 8;
  if (major > 1) len |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
  if (len > MAX_HEADER || len > n - head) return bad(j, at, path, "it ends in its header");
  npy h = {.p = (const char *)file + head, .end = (const char *)file + head + len};
  if (!dict(&h)) return bad(j, at, path, "its header is not what NumPy writes");
  if (!fits(j, at, path, &h, t)) return false;
  *elements = file + head + len;
  if (n - head - len == t->bytes) return true;
  as_error(j, at->pos, at->len, "`%s` has %llu bytes of elements, `%s` needs %llu", path,
           (unsigned long long)(n - head - len), t->name, (unsigned long long)t->bytes);
  return false;
}
