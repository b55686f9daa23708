/* What is kept once: shapes of operands, classes of tiles, and what the verifier found. The body of
 * an unrolled loop appears again and again with other tiles and other rows of a tensor, and what is
 * legal for the first is legal for all. */
#include "impl.h"

static bool add(as_kernel *k, isa_index *t, uint32_t hash, uint32_t number) {
  return isa_index_add(&k->al, t, hash, number) || as_k_nomem(k);
}

static uint64_t mix(uint64_t h, int64_t w) {
  h = (h ^ (uint64_t)w) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

/* Four words at a time, none of which waits for another. */
static uint32_t hash_words(const int64_t *w, size_t n) {
  uint64_t a = n, b = 1, c = 2, d = 3;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    a = mix(a, w[i]);
    b = mix(b, w[i + 1]);
    c = mix(c, w[i + 2]);
    d = mix(d, w[i + 3]);
  }
  for (; i < n; i++) a = mix(a, w[i]);
  a = mix(mix(mix(a, (int64_t)b), (int64_t)c), (int64_t)d);
  return (uint32_t)(a ^ a >> 32);
}

/* ---- Shapes -------------------------------------------------------------------------------- */

/* Its bytes, unless they reach further than differences of places may. */
static void find_set(as_k_shape *s) {
  isa_ap ap = {.dtype = s->dtype, .ndim = s->ndim};
  int64_t lo, hi, far = INT64_MAX / 4, size = isa_dtype_bytes(s->dtype);
  isa_dim dim[ISA_MAX_DIMS];
  memcpy(ap.dim, s->dim, sizeof ap.dim);
  if (!isa_ap_extent(&ap, &lo, &hi) || lo < -far || hi > far) return;
  for (unsigned d = 0; d < s->ndim; d++)
    dim[d] = (isa_dim){s->dim[d].num > 1 ? s->dim[d].step * size : 0, s->dim[d].num};
  isa_byteset_make(0, size, dim, s->ndim, &s->set);
}

uint32_t as_k_find_shape(as_kernel *k, uint8_t dtype, uint8_t ndim, const isa_dim *dim) {
  int64_t w[1 + 2 * ISA_MAX_DIMS] = {(int64_t)dtype << 8 | ndim};
  uint32_t probe = 0, number;
  for (unsigned d = 0; d < ndim; d++) {
    w[1 + 2 * d] = dim[d].step;
    w[2 + 2 * d] = dim[d].num;
  }
  uint32_t hash = hash_words(w, 1 + 2 * (size_t)ndim);
  while ((number = isa_index_next(&k->shape_index, hash, &probe))) {
    const as_k_shape *s = &k->shapes[number - 1];
    bool same = s->dtype == dtype && s->ndim == ndim;
    for (unsigned d = 0; d < ndim && same; d++)
      same = s->dim[d].step == dim[d].step && s->dim[d].num == dim[d].num;
    if (same) return number;
  }
  if (!K_GROW(k, shapes, nshapes, cap_shapes) || !add(k, &k->shape_index, hash, k->nshapes + 1))
    return 0;
  as_k_shape *s = &k->shapes[k->nshapes++];
  *s = (as_k_shape){.dtype = dtype, .ndim = ndim};
  for (unsigned d = 0; d < ndim; d++) s->dim[d] = dim[d];
  find_set(s);
  return k->nshapes;
}

/* ---- Classes of tiles ---------------------------------------------------------------------- */

static bool same_class(const as_k_buffer *a, const as_k_buffer *b) {
  return a->space == b->space && a->dtype == b->dtype && a->ndim == b->ndim && a->part == b->part &&
         a->nparts == b->nparts && a->bytes == b->bytes && a->fixed == b->fixed &&
         a->offset == b->offset && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

void as_k_classify(as_kernel *k, as_k_buffer *b, uint32_t number) {
  int64_t w[] = {(int64_t)b->space << 8 | b->dtype, (int64_t)b->part << 16 | b->nparts, b->bytes,
                 b->fixed ? (int64_t)b->offset : -1};
  uint32_t hash = hash_words(w, sizeof w / sizeof *w), probe = 0, like;
  while ((like = isa_index_next(&k->classes, hash, &probe)))
    if (same_class(as_k_buf(k, like), b)) {
      b->class = like;
      return;
    }
  b->class = number;
  isa_index_add(&k->al, &k->classes, hash, number); /* there is room */
}

/* ---- Rulings ------------------------------------------------------------------------------- */

void as_k_key_buffer(const as_kernel *k, as_k_key *key, size_t at, uint32_t buffer) {
  const as_k_buffer *b = as_k_buf(k, buffer);
  uint32_t i = 0;
  if (!key->n) return;
  while (i < key->nbuffers && key->buffers[i] != buffer) i++;
  bool again = i < key->nbuffers;
  if (i == K_KEY_BUFFERS || (again && b->space == ISA_HBM)) {
    key->n = 0;
    return;
  }
  if (!again) key->buffers[key->nbuffers++] = buffer;
  key->w[at] = (int64_t)i << 32 | (b->space == ISA_HBM ? buffer : b->class);
}

/* The verifier checks only whether an operand of HBM is aligned and within its tensor, as long as
 * no other operand is of that tensor. */
void as_k_key_offset(const as_kernel *k, as_k_key *key, size_t at, const as_k_operand *o) {
  const as_k_shape *s = as_k_shape_of(k, o);
  if (!key->n || o->space != ISA_HBM) return;
  int64_t lo = o->offset + s->set.start,
          bytes = (int64_t)as_k_buffer_bytes(k, as_k_buf(k, o->buffer));
  bool within = s->set.run && lo >= 0 && lo <= bytes && s->set.span[0] <= bytes - lo;
  if (within && o->offset % (int64_t)isa_dtype_bytes(s->dtype) == 0)
    key->w[at] = INT64_MIN; /* no offset has this value */
  else
    key->n = 0;
}

uint32_t as_k_find_ruling(const as_kernel *k, as_k_key *key) {
  uint32_t probe = 0, number;
  if (!key->n) return 0;
  key->hash = hash_words(key->w, key->n);
  while ((number = isa_index_next(&k->ruling_index, key->hash, &probe))) {
    const as_k_ruling *r = &k->rulings[number - 1];
    if (r->words == key->n && memcmp(k->keys + r->key, key->w, key->n * sizeof *key->w) == 0)
      return number;
  }
  return 0;
}

bool as_k_add_ruling(as_kernel *k, const as_k_key *key, const as_k_ruling *found,
                     uint32_t *number) {
  if (!K_GROW(k, rulings, nrulings, cap_rulings)) return false;
  while (k->cap_keys - k->nkeys < key->n)
    if (!isa_array_room(&k->al, &k->keys, k->cap_keys, &k->cap_keys, sizeof *k->keys))
      return as_k_nomem(k);
  if (key->n && !add(k, &k->ruling_index, key->hash, k->nrulings + 1)) return false;
  as_k_ruling *r = &k->rulings[k->nrulings];
  *r = *found;
  r->key = k->nkeys;
  r->words = key->n;
  if (key->n) memcpy(k->keys + k->nkeys, key->w, key->n * sizeof *key->w);
  k->nkeys += key->n;
  *number = ++k->nrulings;
  return true;
}
