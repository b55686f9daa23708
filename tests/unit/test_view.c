/* Views against lists of their elements: what each operation gives is worked out on the list. */
#include "../../isa/isa.h"
#include "../../isa/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t rnd(uint32_t *s, uint32_t n) {
  *s ^= *s << 13;
  *s ^= *s >> 17;
  *s ^= *s << 5;
  return *s % n;
}

enum { MOST = 2048, U8 = 1, U16 = 3, F32 = 17 };

/* The elements of a view in order, each as partition and byte. */
typedef struct place {
  int64_t part, byte;
} place;
typedef struct list {
  unsigned ndim;
  int64_t shape[SOMA_VIEW_DIMS];
  int64_t n;
  place at[MOST];
} list;

static int64_t size_of(const soma_view *v) { return isa_dtype_bytes(v->dtype); }

static void same(const soma_view *v, const list *l) {
  int64_t i[SOMA_VIEW_DIMS] = {0};
  assert_int_equal(v->ndim, l->ndim);
  for (unsigned d = 0; d < v->ndim; d++) assert_int_equal(v->dim[d].num, l->shape[d]);
  assert_int_equal(soma_view_elements(v), l->n);
  for (int64_t n = 0; n < l->n; n++) {
    place p = {v->part, v->offset};
    for (unsigned d = 0; d < v->ndim; d++)
      *(v->tile && d == 0 ? &p.part : &p.byte) += i[d] * v->dim[d].step;
    assert_int_equal(p.part, l->at[n].part);
    assert_int_equal(p.byte * size_of(v), l->at[n].byte);
    for (unsigned d = v->ndim; d-- > 0 && ++i[d] == v->dim[d].num;) i[d] = 0;
  }
}

/* The operand's words list the same elements, partition by partition. */
static void same_words(const soma_view *v, const list *l, int merge) {
  int64_t w[SOMA_VIEW_WORDS], i[SOMA_VIEW_DIMS] = {0};
  soma_view_error e = {0};
  size_t n = soma_view_words(v, merge, w, SOMA_VIEW_WORDS, &e);
  assert_true(n > 0);
  assert_int_equal(w[0], n - 1);
  assert_int_equal(w[1], v->buffer);
  assert_int_equal(w[2], v->dtype);
  assert_int_equal(n, 7 + 2 * w[6]);
  int64_t parts = v->tile ? w[4] : 1, free = 1;
  for (int64_t d = 0; d < w[6]; d++) free *= w[8 + 2 * d];
  if (!v->tile) assert_int_equal(w[4], 0);
  assert_int_equal(parts * free, l->n);
  for (int64_t k = 0; k < l->n; k++) {
    int64_t byte = w[5];
    for (int64_t d = 0; d < w[6]; d++) byte += i[d] * w[7 + 2 * d] * size_of(v);
    assert_int_equal(w[3] + k / free, l->at[k].part);
    assert_int_equal(byte, l->at[k].byte);
    for (int64_t d = w[6]; d-- > 0 && ++i[d] == w[8 + 2 * d];) i[d] = 0;
  }
}

/* ---- Operations on lists -----------------------------------------------------------------------
 */

static int64_t count_of(unsigned n, const int64_t *shape) {
  int64_t all = 1;
  for (unsigned d = 0; d < n; d++) all *= shape[d];
  return all;
}

/* A list of that shape; element i of it is element which[i] of the other. */
static void choose(list *l, unsigned ndim, const int64_t *shape, const int64_t *which) {
  static list old;
  old = *l;
  l->ndim = ndim;
  memmove(l->shape, shape, ndim * sizeof *shape);
  l->n = count_of(ndim, shape);
  for (int64_t i = 0; i < l->n; i++) l->at[i] = old.at[which[i]];
}

/* Index i of a list of that shape, dimension by dimension; and back. */
static void split_index(int64_t i, unsigned n, const int64_t *shape, int64_t *out) {
  for (unsigned d = n; d-- > 0;) {
    out[d] = i % shape[d];
    i /= shape[d];
  }
}
static int64_t join_index(unsigned n, const int64_t *shape, const int64_t *at) {
  int64_t i = 0;
  for (unsigned d = 0; d < n; d++) i = i * shape[d] + at[d];
  return i;
}

static void list_slice(list *l, unsigned d, int64_t start, int64_t count, int64_t step) {
  int64_t shape[SOMA_VIEW_DIMS], which[MOST], at[SOMA_VIEW_DIMS];
  memcpy(shape, l->shape, sizeof shape);
  shape[d] = count;
  for (int64_t i = 0; i < count_of(l->ndim, shape); i++) {
    split_index(i, l->ndim, shape, at);
    at[d] = start + at[d] * step;
    which[i] = join_index(l->ndim, l->shape, at);
  }
  choose(l, l->ndim, shape, which);
}

static void list_permute(list *l, const uint32_t *order) {
  int64_t shape[SOMA_VIEW_DIMS], which[MOST], at[SOMA_VIEW_DIMS], from[SOMA_VIEW_DIMS];
  for (unsigned d = 0; d < l->ndim; d++) shape[d] = l->shape[order[d]];
  for (int64_t i = 0; i < l->n; i++) {
    split_index(i, l->ndim, shape, at);
    for (unsigned d = 0; d < l->ndim; d++) from[order[d]] = at[d];
    which[i] = join_index(l->ndim, l->shape, from);
  }
  choose(l, l->ndim, shape, which);
}

static void list_broadcast(list *l, unsigned d, int64_t n) {
  int64_t shape[SOMA_VIEW_DIMS], which[MOST], at[SOMA_VIEW_DIMS];
  memcpy(shape, l->shape, sizeof shape);
  shape[d] = n;
  for (int64_t i = 0; i < count_of(l->ndim, shape); i++) {
    split_index(i, l->ndim, shape, at);
    at[d] = 0;
    which[i] = join_index(l->ndim, l->shape, at);
  }
  choose(l, l->ndim, shape, which);
}

static void list_shape(list *l, unsigned n, const int64_t *shape) {
  memmove(l->shape, shape, n * sizeof *shape);
  l->ndim = n;
}

/* Whether the elements in this shape are as far apart as one step for each dimension says. */
static bool has_steps(const list *l, unsigned n, const int64_t *shape, int tile, int64_t size) {
  int64_t step[SOMA_VIEW_DIMS] = {0}, at[SOMA_VIEW_DIMS], after = 1;
  for (unsigned d = n; d-- > (unsigned)tile; after *= shape[d])
    if (shape[d] > 1) step[d] = l->at[after].byte - l->at[0].byte;
  for (int64_t i = 0; i < l->n; i++) {
    int64_t byte = l->at[0].byte;
    split_index(i, n, shape, at);
    for (unsigned d = (unsigned)tile; d < n; d++) byte += at[d] * step[d];
    if (byte != l->at[i].byte || step[n - 1] % size) return false;
  }
  return true;
}

/* ---- Random sequences --------------------------------------------------------------------------
 */

static void start(uint32_t *s, soma_view *v, list *l) {
  static const unsigned types[] = {U8, U16, F32};
  unsigned tile = rnd(s, 2), n = 1 + rnd(s, 4), most = tile ? 4 : 5;
  int64_t shape[SOMA_VIEW_DIMS];
  soma_view_error e = {0};
  for (unsigned d = 0; d < n; d++) shape[d] = 1 + rnd(s, most);
  assert_true(soma_view_make(v, 7, types[rnd(s, 3)], (int)tile, n, shape, &e));
  list_shape(l, n, shape);
  l->n = count_of(n, shape);
  int64_t free = l->n / (tile ? shape[0] : 1);
  for (int64_t i = 0; i < l->n; i++) l->at[i] = (place){tile ? i / free : 0, i % free * size_of(v)};
}

static void try_slice(uint32_t *s, soma_view *v, list *l) {
  soma_view_error e = {0};
  unsigned d = rnd(s, v->ndim + 1u);
  int64_t num = d < v->ndim ? v->dim[d].num : 1, from = (int64_t)rnd(s, 8) - 1;
  int64_t count = rnd(s, 6), step = (int64_t)rnd(s, 5) - 2, last = from + (count - 1) * step;
  bool fine = d < v->ndim && count > 0 && step && from >= 0 && from < num && last >= 0 &&
              last < num && !(v->tile && d == 0 && step != 1 && count > 1);
  assert_int_equal(soma_view_slice(v, d, from, count, step, &e), fine);
  if (fine) list_slice(l, d, from, count, step);
}

static void try_index(uint32_t *s, soma_view *v, list *l) {
  soma_view_error e = {0};
  unsigned d = rnd(s, v->ndim + 1u);
  int64_t at = rnd(s, 4);
  bool fine = d < v->ndim && at < v->dim[d].num;
  int64_t shape[SOMA_VIEW_DIMS];
  assert_int_equal(soma_view_index(v, d, at, &e), fine);
  if (!fine) return;
  list_slice(l, d, at, 1, 1);
  if (v->tile && d == 0) return;
  memcpy(shape, l->shape, sizeof shape);
  memmove(shape + d, shape + d + 1, (l->ndim - d - 1) * sizeof *shape);
  list_shape(l, l->ndim - 1, shape);
}

static void try_permute(uint32_t *s, soma_view *v, list *l) {
  soma_view_error e = {0};
  uint32_t order[SOMA_VIEW_DIMS] = {0}, n = v->ndim;
  bool fine = true, wrong = rnd(s, 8) == 0;
  for (uint32_t d = 0; d < n; d++) order[d] = d;
  for (uint32_t d = n; d > 1; d--) {
    uint32_t k = rnd(s, d), swap = order[k];
    order[k] = order[d - 1];
    order[d - 1] = swap;
  }
  if (v->tile && order[0] != 0) fine = false;
  if (wrong && n > 1) order[n - 1] = order[0], fine = false;
  assert_int_equal(soma_view_permute(v, n, order, &e), fine);
  if (fine) list_permute(l, order);
}

/* Puts n as a product of random factors into shape; how many. */
static unsigned factors(uint32_t *s, int64_t n, int64_t *shape, unsigned most) {
  unsigned m = 0;
  while (m + 1 < most && rnd(s, 3)) {
    int64_t f = 1 + rnd(s, 4);
    if (n % f) continue;
    shape[m++] = f;
    n /= f;
  }
  shape[m++] = n;
  return m;
}

static void try_reshape(uint32_t *s, soma_view *v, list *l) {
  soma_view_error e = {0};
  int64_t shape[SOMA_VIEW_DIMS], tile = v->tile ? v->dim[0].num : 1;
  unsigned n = v->tile;
  if (v->tile) shape[0] = tile;
  n += factors(s, l->n / tile, shape + n, 6);
  bool fine = has_steps(l, n, shape, v->tile, size_of(v));
  if (rnd(s, 9) == 0) shape[n - 1]++, fine = false;
  assert_int_equal(soma_view_reshape(v, n, shape, &e), fine);
  if (fine) list_shape(l, n, shape);
}

static void try_split(uint32_t *s, soma_view *v, list *l) {
  soma_view_error e = {0};
  if (v->ndim == 0) return;
  unsigned d = rnd(s, v->ndim), n = 0;
  int64_t shape[2 * SOMA_VIEW_DIMS], sizes[SOMA_VIEW_DIMS];
  n = factors(s, v->dim[d].num, sizes, 3);
  bool fine = !(v->tile && d == 0 && n > 1) && v->ndim + n - 1 <= SOMA_VIEW_DIMS;
  if (rnd(s, 9) == 0) sizes[0]++, fine = false;
  memcpy(shape, l->shape, d * sizeof *shape);
  memcpy(shape + d, sizes, n * sizeof *shape);
  memcpy(shape + d + n, l->shape + d + 1, (l->ndim - d - 1) * sizeof *shape);
  assert_int_equal(soma_view_split(v, d, n, sizes, &e), fine);
  if (fine) list_shape(l, l->ndim + n - 1, shape);
}

static void try_merge(uint32_t *s, soma_view *v, list *l) {
  soma_view_error e = {0};
  if (v->ndim == 0) return;
  unsigned first = rnd(s, v->ndim), last = first + rnd(s, v->ndim - first);
  int64_t shape[SOMA_VIEW_DIMS];
  memcpy(shape, l->shape, sizeof shape);
  shape[first] = count_of(last - first + 1, l->shape + first);
  memmove(shape + first + 1, shape + last + 1, (l->ndim - last - 1) * sizeof *shape);
  unsigned n = l->ndim - (last - first);
  bool fine =
      first == last || (!(v->tile && first == 0) && has_steps(l, n, shape, v->tile, size_of(v)));
  assert_int_equal(soma_view_merge(v, first, last, &e), fine);
  if (fine) list_shape(l, n, shape);
}

static void try_ones(uint32_t *s, soma_view *v, list *l) {
  soma_view_error e = {0};
  unsigned d = rnd(s, v->ndim + 1u);
  int64_t shape[SOMA_VIEW_DIMS + 1], n = 1 + rnd(s, 4);
  memcpy(shape, l->shape, sizeof l->shape);
  if (rnd(s, 2)) {
    bool fine = !(v->tile && d == 0) && v->ndim < SOMA_VIEW_DIMS;
    assert_int_equal(soma_view_expand(v, d, &e), fine);
    memmove(shape + d + 1, shape + d, (l->ndim - d) * sizeof *shape);
    shape[d] = 1;
    if (fine) list_shape(l, l->ndim + 1, shape);
    return;
  }
  bool fine = d < v->ndim && !(v->tile && d == 0) && v->dim[d].num == 1;
  if (l->n * n > MOST) n = 1;
  if (rnd(s, 2)) {
    assert_int_equal(soma_view_broadcast(v, d, n, &e), fine);
    if (fine) list_broadcast(l, d, n);
    return;
  }
  assert_int_equal(soma_view_squeeze(v, d, &e), fine);
  if (!fine) return;
  memmove(shape + d, shape + d + 1, (l->ndim - d - 1) * sizeof *shape);
  list_shape(l, l->ndim - 1, shape);
}

/* Another type: the same bytes in the same order, where it is not refused. */
static void try_type(uint32_t *s, soma_view *v, list *l) {
  static const unsigned types[] = {U8, U16, F32};
  static list old;
  soma_view_error e = {0};
  int64_t from = size_of(v), to;
  unsigned dtype = types[rnd(s, 3)];
  old = *l;
  if (l->n * from > MOST || !soma_view_as(v, dtype, &e)) return;
  to = size_of(v);
  if (from == to) return;
  if (l->ndim == v->tile) l->shape[l->ndim++] = 1;
  l->shape[l->ndim - 1] = l->shape[l->ndim - 1] * from / to;
  l->n = l->n * from / to;
  for (int64_t b = 0; b < l->n * to; b++) {
    const place *p = &old.at[b / from];
    if (b % to == 0) l->at[b / to] = (place){p->part, p->byte + b % from};
    assert_int_equal(p->byte + b % from, l->at[b / to].byte + b % to);
  }
}

static void test_random(void **state) {
  static void (*const ops[])(uint32_t *, soma_view *, list *) = {
      try_slice, try_index, try_permute, try_reshape, try_split, try_merge, try_ones, try_type};
  static list l;
  (void)state;
  for (uint32_t round = 0; round < 12500; round++) {
    uint32_t s = round * 2654435761u + 1;
    soma_view v, before;
    start(&s, &v, &l);
    for (unsigned i = 0; i < 8; i++) {
      unsigned k = rnd(&s, 8);
      before = v;
      ops[k](&s, &v, &l);
      same(&v, &l);
      if (v.ndim != before.ndim || memcmp(v.dim, before.dim, v.ndim * sizeof *v.dim) != 0) {
        same_words(&v, &l, 0);
        same_words(&v, &l, 1);
      }
    }
  }
}

/* ---- What each refuses, and its words ----------------------------------------------------------
 */

static soma_view of(int tile, int64_t a, int64_t b) {
  soma_view v;
  soma_view_error e = {0};
  assert_true(soma_view_make(&v, 3, F32, tile, 2, (int64_t[]){a, b}, &e));
  return v;
}

static void says(int done, const soma_view_error *e, const char *text) {
  assert_false(done);
  assert_string_equal(e->text, text);
}

static void test_messages(void **state) {
  soma_view_error e = {.name = "x", .from = 1};
  soma_view x = of(0, 1000, 64), t = of(1, 128, 64), before = x;
  (void)state;
  says(soma_view_slice(&x, 0, 900, 128, 1, &e), &e,
       "900 to 1027 of dimension 1 of x[1000, 64]: it has 1000");
  says(soma_view_index(&x, 1, -1, &e), &e, "-1 to -1 of dimension 2 of x[1000, 64]: it has 64");
  says(soma_view_slice(&x, 2, 0, 1, 1, &e), &e, "x has dimensions 1 to 2, not 3");
  says(soma_view_slice(&t, 0, 0, 4, 2, &e), &e,
       "partitions of x are taken one after another, not by 2");
  says(soma_view_permute(&t, 2, (uint32_t[]){1, 0}, &e), &e,
       "permute: dimension 1 of x is the partitions, which stay the first");
  says(soma_view_reshape(&x, 1, (int64_t[]){63999}, &e), &e,
       "reshape of x[1000, 64] to [63999]: it has 64000 elements, not 63999");
  e.from = 0;
  e.name = NULL;
  says(soma_view_split(&x, 1, 3, (int64_t[]){64, 0, 64}, &e), &e,
       "dimension 1 of the view has 64 elements: [64, 0, 64] does not make these");
  says(soma_view_split(&x, 1, 2, (int64_t[]){INT64_MAX, 64}, &e), &e,
       "dimension 1 of the view has 64 elements: [9223372036854775807, 64] does not make these");
  says(soma_view_broadcast(&x, 0, 4, &e), &e, "dimension 0 of the view has 1000 elements, not 1");
  says(soma_view_as(&x, 22, &e), &e, "22 is not a data type");
  t.ndim = 0; /* which no call makes of a tile */
  says(soma_view_as(&t, 1, &e), &e, "the view has no dimensions");
  says(soma_view_reshape(&t, 1, (int64_t[]){t.dim[0].num}, &e), &e, "the view has no dimensions");
  assert_int_equal(soma_view_words(&t, 1, (int64_t[SOMA_VIEW_WORDS]){0}, SOMA_VIEW_WORDS, &e), 0);
  assert_memory_equal(&x, &before, sizeof x);
  assert_true(soma_view_permute(&x, 2, (uint32_t[]){1, 0}, &e));
  says(soma_view_reshape(&x, 1, (int64_t[]){64000}, &e), &e,
       "reshape of the view[64, 1000] with steps [1, 64] to [64000] needs a copy");
}

/* Numbers that are too large for anything are refused everywhere, and overflow nowhere. */
static void test_hostile(void **state) {
  static const int64_t far[] = {INT64_MIN,     INT64_MIN + 1,   -1, 0, 1, INT64_MAX,
                                INT64_MAX / 2, INT64_C(1) << 40};
  soma_view_error e = {0};
  uint32_t s = 5;
  (void)state;
  for (int i = 0; i < 100000; i++) {
    int64_t k[4];
    for (int j = 0; j < 4; j++) k[j] = far[rnd(&s, 8)];
    soma_view v = of((int)rnd(&s, 2), 4, 8);
    int64_t words[SOMA_VIEW_WORDS];
    unsigned d = rnd(&s, 40);
    soma_view_make(&v, 1, rnd(&s, 30), (int)rnd(&s, 2), 1 + rnd(&s, 2), k, &e);
    soma_view_slice(&v, d, k[0], k[1], k[2], &e);
    soma_view_slice_at(&v, d % 3, &(soma_view_dyn){SOMA_DYN_REGISTER, 0, 1, k[3], NULL}, k[0], k[1],
                       k[2], &e);
    soma_view_index(&v, d % 4, k[0], &e);
    soma_view_split(&v, d % 3, 1 + rnd(&s, 3), k, &e);
    soma_view_reshape(&v, d, (int64_t[40]){k[0], k[1], k[2], k[3]}, &e);
    soma_view_broadcast(&v, d % 3, k[0], &e);
    soma_view_ap(&v, k[2], 1, &(soma_view_dim){k[0], k[1]}, &e);
    soma_view_as(&v, 1 + rnd(&s, 20), &e);
    soma_view_merge(&v, d % 3, d % 5, &e);
    /* A caller may fill in anything. */
    v.dim[d % 3] = (soma_view_dim){k[rnd(&s, 4)], k[rnd(&s, 4)]};
    if (d % 7 == 0) v.bytes = k[2], v.part = k[3], v.offset = k[1];
    soma_view_reshape(&v, 2, (int64_t[]){v.dim[0].num, k[1]}, &e);
    soma_view_split(&v, d % 3, 2, (int64_t[]){k[1], k[2]}, &e);
    soma_view_slice(&v, d % 3, k[2], k[1], k[0], &e);
    soma_view_ap(&v, k[0], 2, (soma_view_dim[]){{k[1], 1}, {k[2], k[3]}}, &e);
    soma_view_merge(&v, 0, d % 3, &e);
    soma_view_as(&v, 1 + rnd(&s, 20), &e);
    (void)soma_view_dense(&v);
    soma_view_words(&v, 1, words, SOMA_VIEW_WORDS, &e);
  }
}

/* ---- Explicit dimensions, and parts known at run time ------------------------------------------
 */

static void test_ap(void **state) {
  soma_view_error e = {0};
  soma_view w = of(0, 4, 8), p = of(1, 16, 8);
  (void)state;
  assert_true(soma_view_ap(&w, 3, 2, (soma_view_dim[]){{2, 16}, {3, 2}}, &e));
  assert_int_equal(w.offset, 3);
  assert_int_equal(w.dim[0].step, 16);
  says(soma_view_ap(&w, 22, 1, (soma_view_dim[]){{8, 1}}, &e), &e,
       "elements 25 to 32 of the view: the tensor has 0 to 31");
  says(soma_view_ap(&w, -1, 1, (soma_view_dim[]){{4, -1}}, &e), &e,
       "elements -1 to 2 of the view: the tensor has 0 to 31");
  assert_true(soma_view_slice(&p, 0, 8, 4, 1, &e));
  assert_true(soma_view_ap(&p, 1, 2, (soma_view_dim[]){{8, 1}, {7, 1}}, &e));
  assert_int_equal(p.part, 8);
  says(soma_view_ap(&p, 0, 2, (soma_view_dim[]){{9, 1}, {7, 1}}, &e), &e,
       "9 partitions of the view from 8 on: it has 16");
  says(soma_view_ap(&p, 1, 2, (soma_view_dim[]){{8, 1}, {7, 1}}, &e), &e,
       "elements 2 to 8 of the view: a partition has 0 to 7");
}

/* A slice from a register on is the slice from where the register says. */
static void test_registers(void **state) {
  soma_view_error e = {0};
  uint32_t s = 77;
  (void)state;
  for (int i = 0; i < 2000; i++) {
    soma_view v = of((int)rnd(&s, 2), 8, 24), w;
    assert_true(soma_view_split(&v, 1, 2, (int64_t[]){6, 4}, &e));
    unsigned d = v.tile + rnd(&s, 3u - v.tile);
    int64_t scale = rnd(&s, 3), value = rnd(&s, 3), from = rnd(&s, 2), count = 1 + rnd(&s, 3);
    w = v;
    soma_view_dyn at = {SOMA_DYN_REGISTER, 0, 5, scale, NULL};
    assert_true(soma_view_slice_at(&w, d, &at, from, count, 1, &e));
    if (!soma_view_slice(&v, d, from + scale * value, count, 1, &e)) continue;
    assert_int_equal(w.ndyn, scale != 0);
    assert_int_equal(w.offset + (scale ? w.dyn[0].stride * value : 0), v.offset);
    assert_memory_equal(w.dim, v.dim, v.ndim * sizeof *v.dim);
  }
}

static void test_parts(void **state) {
  soma_view_error e = {.name = "x"};
  soma_view x = of(0, 64, 16), index = of(1, 32, 1), t = of(1, 128, 16);
  soma_view_dyn rows = {SOMA_DYN_GATHER, 0, 0, 0, &index}, size = {SOMA_DYN_SIZE, 0, 9, 0, NULL};
  soma_view_dyn move = {SOMA_DYN_REGISTER, 0, 4, 16, NULL};
  int64_t w[64];
  (void)state;
  assert_true(soma_view_add(&x, &rows, &e));
  says(soma_view_add(&x, &rows, &e), &e, "x has an index already");
  assert_true(soma_view_add(&index, &size, &e));
  says(soma_view_add(&t, &rows, &e), &e,
       "what x goes by is known only at run time itself: load it first");
  index.ndyn = 0;
  says(
      soma_view_slice(&x, 0, 0, 8, 1, &e), &e,
      "dimension 0 of x must stay as it is: a register gives a size, or an index chooses the rows");
  assert_true(soma_view_slice(&x, 0, 0, 64, 1, &e));
  assert_false(soma_view_permute(&x, 2, (uint32_t[]){1, 0}, &e));
  assert_true(soma_view_split(&x, 1, 2, (int64_t[]){4, 4}, &e));
  assert_true(soma_view_permute(&x, 3, (uint32_t[]){0, 2, 1}, &e));
  const int64_t want[] = {22, 3, F32, 0,   0, 0,  3, 16, 64, 1, 4, 4, 4, SOMA_DYN_GATHER,
                          0,  8, 3,   F32, 0, 32, 0, 1,  1,  1};
  size_t n = soma_view_words(&x, 1, w, 64, &e);
  assert_int_equal(n, 24);
  assert_int_equal(w[0], 23);
  assert_memory_equal(w + 1, want + 1, sizeof want - sizeof *want);
  assert_true(soma_view_add(&t, &size, &e));
  assert_true(soma_view_add(&t, &move, &e));
  assert_true(soma_view_as(&t, U16, &e));
  assert_int_equal(t.dyn[1].stride, 32);
  n = soma_view_words(&t, 1, w, 64, &e);
  const int64_t parts[] = {SOMA_DYN_SIZE, -1, 9, SOMA_DYN_REGISTER, 4, 32};
  assert_int_equal(n, 15);
  assert_memory_equal(w + 9, parts, sizeof parts);
  says(soma_view_words(&t, 1, w, 20, &e) != 0, &e, "x: no room for its words");
  size.dim = 1; /* what is dropped before it counts no more */
  x = of(0, 64, 16);
  assert_true(soma_view_add(&x, &size, &e));
  assert_false(soma_view_index(&x, 1, 0, &e));
  assert_true(soma_view_index(&x, 0, 5, &e));
  assert_int_equal(x.dyn[0].dim, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),    cmocka_unit_test(test_messages),
      cmocka_unit_test(test_hostile),   cmocka_unit_test(test_ap),
      cmocka_unit_test(test_registers), cmocka_unit_test(test_parts),
  };
  return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
