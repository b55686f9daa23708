/* What is kept once: shapes of operands, classes of tiles, and what the verifier found. The body of
 * an unrolled loop appears again and again with other tiles and other rows of a tensor, and what is
 * legal for the first is legal for all. */
#include "called.h"
#include "../isa/operand.h"

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
  /* Its offsets are added to others later, and must not overflow. */
  if (!isa_ap_extent(&ap, &lo, &hi) || lo < -far || hi > far) return;
  for (unsigned d = 0; d < s->ndim; d++) /* one element has no step, whatever the record says */
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

/* Where a record names buffer number `buffer`, which is the i-th that it names. */
static int64_t key_word(const as_k_buffer *b, uint32_t buffer, uint32_t i) {
  return (int64_t)i << 32 | (b->space == ISA_HBM ? buffer : b->class);
}

void as_k_key_buffer(const as_kernel *k, as_k_key *key, size_t at, uint32_t buffer) {
  const as_k_buffer *b = as_k_buf(k, buffer);
  uint32_t i = 0;
  if (!key->n) return;
  while (i < key->nbuffers && key->buffers[i] != buffer) i++;
  bool again = i < key->nbuffers;
  /* Two operands of one tensor may overlap, which the key does not tell: it is verified each time.
   */
  if (i == K_KEY_BUFFERS || (again && b->space == ISA_HBM)) {
    key->n = 0;
    return;
  }
  if (!again) key->buffers[key->nbuffers++] = buffer;
  key->w[at] = key_word(b, buffer, i);
}

/* The verifier checks only whether an operand of HBM is aligned and within its tensor, as long as
 * no other operand is of that tensor. */
static bool offset_is_legal(const as_kernel *k, const as_k_operand *o) {
  const as_k_shape *s = as_k_shape_of(k, o);
  const int64_t far = INT64_C(1) << 48;
  if (o->offset < -far || o->offset > far) return false; /* of a record that nobody has read */
  int64_t lo = o->offset + s->set.start,
          bytes = (int64_t)as_k_buffer_bytes(k, as_k_buf(k, o->buffer));
  bool within = s->set.run && lo >= 0 && lo <= bytes && s->set.span[0] <= bytes - lo;
  return within && o->offset % (int64_t)isa_dtype_bytes(s->dtype) == 0;
}

void as_k_key_offset(const as_kernel *k, as_k_key *key, size_t at, const as_k_operand *o) {
  if (!key->n || o->space != ISA_HBM) return;
  if (offset_is_legal(k, o))
    key->w[at] = INT64_MIN; /* no offset has this value */
  else
    key->n = 0;
}

uint32_t as_k_find_verdict(const as_kernel *k, as_k_key *key) {
  uint32_t probe = 0, number;
  if (!key->n) return 0;
  key->hash = hash_words(key->w, key->n);
  while ((number = isa_index_next(&k->verdict_index, key->hash, &probe))) {
    const as_k_verdict *r = &k->verdicts[number - 1];
    if (r->words == key->n && memcmp(k->keys + r->key, key->w, key->n * sizeof *key->w) == 0)
      return number;
  }
  return 0;
}

static uint32_t new_verdict(as_kernel *k) {
  return K_GROW(k, verdicts, nverdicts, cap_verdicts) ? ++k->nverdicts : 0;
}

bool as_k_find_uses(as_kernel *k, as_k_verdict *r, uint32_t ops) {
  as_k_use found[K_OPERANDS];
  unsigned n = as_k_uses(k, &r->in, ops, found);
  while (k->cap_uses - k->nuses <= n) /* not NULL even without uses */
    if (!isa_array_room(&k->al, &k->uses, k->cap_uses, &k->cap_uses, sizeof *k->uses))
      return as_k_nomem(k);
  if (n) memcpy(&k->uses[k->nuses], found, n * sizeof *found);
  r->uses = k->nuses;
  r->nuses = (uint8_t)n;
  k->nuses += n;
  return true;
}

/* Whether no field is a register or a list. */
static bool is_plain(const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    const void *m = isa_member_c(in, f);
    if (f->kind == ISA_K_REG || (f->kind == ISA_K_INT && ((const isa_int *)m)->is_reg) ||
        (f->kind == ISA_K_NUM && ((const isa_num *)m)->kind == ISA_NUM_reg) ||
        (isa_kind_elem[f->kind] && ((const isa_ref *)m)->count))
      return false;
  }
  return true;
}

static bool add_key(as_kernel *k, const as_k_key *key, as_k_verdict *r, uint32_t number) {
  while (k->cap_keys - k->nkeys < key->n)
    if (!isa_array_room(&k->al, &k->keys, k->cap_keys, &k->cap_keys, sizeof *k->keys))
      return as_k_nomem(k);
  while (k->cap_sites - k->nsites <= key->nsites) /* likewise */
    if (!isa_array_room(&k->al, &k->sites, k->cap_sites, &k->cap_sites, sizeof *k->sites))
      return as_k_nomem(k);
  if (key->n && !add(k, &k->verdict_index, key->hash, number)) return false;
  r->key = k->nkeys;
  r->words = key->n;
  r->sites = k->nsites;
  r->nsites = (uint8_t)key->nsites;
  r->simple = key->simple;
  r->plain = r->simple && is_plain(&r->in);
  if (key->n) memcpy(k->keys + k->nkeys, key->w, key->n * sizeof *key->w);
  if (key->nsites) memcpy(k->sites + k->nsites, key->sites, key->nsites * sizeof *key->sites);
  k->nkeys += key->n;
  k->nsites += key->nsites;
  return true;
}

/* What is known of a verdict by its instruction alone. */
static bool look_at(as_kernel *k, as_k_verdict *r, uint32_t ops) {
  if (!as_k_find_uses(k, r, ops)) return false;
  as_k_find_ways(k, r, ops);
  r->has_acc = isa_insn_acc(&r->in) >= 0;
  r->avoid = (uint8_t)isa_op_avoids(r->in.op, k->target->gen);
  r->table = (uint8_t)(isa_insn_table(&r->in) + 1);
  if (isa_op_is_dma(r->in.op)) r->dma = as_k_dma_time(k, r, ops);
  return true;
}

bool as_k_add_other(as_kernel *k, const as_k_verdict *found, uint32_t ops, uint32_t number) {
  as_k_verdict r = *found;
  if (!look_at(k, &r, ops)) return false;
  uint32_t other = new_verdict(k);
  if (!other) return false;
  k->verdicts[other - 1] = r;
  k->verdicts[number - 1].other = other;
  return true;
}

bool as_k_add_verdict(as_kernel *k, const as_k_key *key, const as_k_verdict *found, uint32_t ops,
                      uint32_t *number) {
  as_k_verdict r = *found;
  if (!look_at(k, &r, ops)) return false;
  if (!add_key(k, key, &r, k->nverdicts + 1)) return false;
  *number = new_verdict(k);
  if (*number) k->verdicts[*number - 1] = r;
  return *number != 0;
}

/* ---- Rulings that are changed -------------------------------------------------------------- */

static as_k_verdict *copy_verdict(as_kernel *k, as_k_item *it) {
  uint32_t number = new_verdict(k);
  if (!number) return NULL;
  as_k_verdict *r = &k->verdicts[number - 1];
  *r = *as_k_verdict_of(k, it);
  r->words = 0;
  memset(r->with_acc, 0, sizeof r->with_acc);
  it->verdict = number;
  return r;
}

as_k_verdict *as_k_own_verdict(as_kernel *k, as_k_item *it) {
  as_k_verdict *r = copy_verdict(k, it);
  if (r) r->simple = r->plain = false;
  return r;
}

bool as_k_set_acc(as_kernel *k, as_k_item *it, unsigned acc) {
  uint32_t from = it->verdict, to = k->verdicts[from - 1].with_acc[acc];
  if (isa_insn_acc(&k->verdicts[from - 1].in) == (int)acc) return true;
  if (to) {
    it->verdict = to;
    return true;
  }
  /* The old ruling stays: other items have it. */
  as_k_verdict *r = copy_verdict(k, it);
  if (!r) return false;
  int i = isa_field_of(it->op, ISA_K_ENUM, ISA_SET_ACC);
  *(isa_t_ENUM *)isa_member(&r->in, &isa_form_of(it->op)->fields[i]) = (isa_t_ENUM)acc;
  k->verdicts[from - 1].with_acc[acc] = it->verdict;
  return as_k_find_uses(k, r, it->ops);
}

/* ---- Records that are alike ---------------------------------------------------------------- */

static bool same_words(const int64_t *w, const int64_t *key, size_t from, size_t to) {
  while (from < to && w[from] == key[from]) from++;
  return from == to;
}

/* Whether a buffer may stand where the key has `word`; seen: those of the words before. */
static bool same_buffer(const as_kernel *k, int64_t buffer, int64_t word, uint32_t *seen,
                        uint32_t *n) {
  uint32_t i = 0;
  if (buffer < 1 || buffer > k->nbuffers) return false;
  const as_k_buffer *b = as_k_buf(k, (uint32_t)buffer);
  while (i < *n && seen[i] != (uint32_t)buffer) i++;
  if (i == *n) seen[(*n)++] = (uint32_t)buffer;
  return !b->ended && word == key_word(b, (uint32_t)buffer, i);
}

/* Reads the operands of a record that is like a verdict's, into *to; false: it is not. */
static bool take_sites(const as_kernel *k, const as_k_verdict *r, const int64_t *w,
                       as_k_operand *to) {
  const int64_t *key = k->keys + r->key;
  uint32_t seen[K_KEY_BUFFERS], n = 0;
  size_t from = AS_REC_FIELDS;
  for (unsigned i = 0; i < r->nsites; i++, to++) {
    const as_k_site *s = &k->sites[r->sites + i];
    if (!same_words(w, key, from, s->at) || !same_buffer(k, w[s->at], key[s->at], seen, &n))
      return false;
    *to = s->operand;
    to->buffer = (uint32_t)w[s->at];
    from = s->at + 1u;
    if (s->operand.space != ISA_HBM) continue;
    size_t offset = s->at + (size_t)K_OFFSET_AT;
    to->offset = w[offset];
    if (!same_words(w, key, from, offset) || !offset_is_legal(k, to)) return false;
    from = offset + 1;
  }
  return same_words(w, key, from, r->words);
}

static bool take_item(as_kernel *k, uint32_t verdict, const int64_t *w, size_t n) {
  const as_k_verdict *r = &k->verdicts[verdict - 1];
  uint32_t ops = k->nops, first, units = r->nsites * (uint32_t)(sizeof(as_k_operand) / 8);
  as_k_operand *to = NULL;
  /* Up to the place in the file: records of another line may be alike. */
  if (!r->simple || !r->words || r->words > n || !same_words(w, k->keys + r->key, 0, AS_REC_FILE) ||
      w[AS_REC_FILE] < 0 || w[AS_REC_FILE] > k->nfiles || w[AS_REC_LINE] < 0 ||
      w[AS_REC_LINE] > UINT32_MAX || !K_GROW(k, items, nitems, cap_items))
    return false;
  if (units && !(to = as_k_take_units(k, units, &first))) return false;
  if (!take_sites(k, r, w, to)) {
    k->nops = ops;
    return false;
  }
  k->items[k->nitems] = (as_k_item){.at.file = (uint32_t)w[AS_REC_FILE],
                                    .at.line = (uint32_t)w[AS_REC_LINE],
                                    .number = k->nitems,
                                    .ops = ops,
                                    .verdict = verdict,
                                    .op = r->in.op,
                                    .queue = r->queue,
                                    .engine = r->engine,
                                    .flags = (uint8_t)w[AS_REC_FLAGS]};
  as_k_turn(k, k->items[k->nitems++].at);
  return true;
}

bool as_k_predict(as_kernel *k, const int64_t *w, size_t n) {
  /* The two that came after this one last: the next of a loop's body, and what follows the loop. */
  for (unsigned i = 0; i < 2 && k->last_verdict; i++) {
    uint32_t next = k->verdicts[k->last_verdict - 1].next[i];
    if (!next || !take_item(k, next, w, n)) continue;
    k->last_verdict = next;
    return true;
  }
  return false;
}

void as_k_note_verdict(as_kernel *k, uint32_t number) {
  as_k_verdict *last = k->last_verdict ? &k->verdicts[k->last_verdict - 1] : NULL;
  if (last && last->next[0] != number) {
    last->next[1] = last->next[0];
    last->next[0] = number;
  }
  k->last_verdict = number;
}
