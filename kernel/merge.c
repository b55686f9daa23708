/* Transfers and copies of one line, round after round, become one:
 *
 *   load a, x[0]; load b, x[1]; load c, x[2]     load abc, x[0:3]; a, b, c are its parts
 *
 * where each operand is either the same buffer at even distances, or in each round a whole tile
 * that one instruction writes. Loads come where the first of them stood, all else where the last
 * one stood; nothing between may touch those bytes. */
#include "simplify.h"
#include "../isa/operand.h"

enum { SRC, DST, SIDES };

/* How an operand goes on from round to round. */
typedef enum way { ONE_BUFFER = 1, TILES } way;

typedef struct chain {
  uint32_t first, last, n;           /* items */
  uint32_t latest;                   /* of a line's first chain: the number of its last one */
  uint32_t met, wrote, used;         /* before the first: meetings, writes of src, uses of dst */
  uint32_t begin[SIDES], end[SIDES]; /* the life of what is to be one tile */
  way way[SIDES];
  int64_t step[SIDES]; /* bytes from round to round */
} chain;

typedef struct merger {
  as_kernel *k;
  chain *chains;
  uint32_t nchains, cap_chains, met, depth;
  isa_index lines;              /* of each line its first chain */
  uint32_t *next;               /* by item: that of the next round */
  uint32_t *writes, *uses;      /* by buffer: so far */
  uint32_t *all_writes;         /* by buffer: in the whole list */
  uint32_t *now;                /* by buffer: the tile that it is a part of, 0: none */
  int64_t *shift;               /* by buffer: where in that */
  uint32_t *joined;             /* by item: the first of a chain, 1 + what stands for all of it */
  bool *ordered, *gone, *taken; /* taken: by buffer */
  as_k_room_use room[2];        /* of SBUF, PSUM */
  uint32_t old;                 /* buffers before */
} merger;

/* The most bytes of a partition that one instruction moves so; 0: it stays as it is. */
static uint32_t most_of(unsigned op) {
  switch (op) {
#define MERGE(name, bytes) \
  case ISA_OP_##name:      \
    return bytes;
#include "merge.def"
#undef MERGE
  default: return 0;
  }
}

static const as_k_operand *side(const as_kernel *k, uint32_t item, unsigned which) {
  const as_k_use *uses;
  for (unsigned u = 0, n = as_k_used(k, &k->items[item], &uses); u < n; u++)
    if (uses[u].writes == (which == DST)) return as_k_use_op(k, &k->items[item], &uses[u]);
  return NULL;
}

/* Whether a transfer moves rows of HBM element by element, as one that transposes does. That takes
 * long for each round: one for all would keep the first round waiting for the last. */
static bool is_scattered(const as_kernel *k, uint32_t item) {
  const as_k_operand *o = side(k, item, side(k, item, SRC)->space == ISA_HBM ? SRC : DST);
  const as_k_shape *s = as_k_shape_of(k, o);
  return o->space == ISA_HBM && s->ndim > 1 && s->dim[s->ndim - 1].step != 1;
}

/* Whether an item moves elements from one operand to another, and is the builder's to arrange. */
static bool may_merge(const merger *m, uint32_t item) {
  const as_kernel *k = m->k;
  const as_k_item *it = &k->items[item];
  const as_k_use *uses;
  if (m->depth || it->op >= ISA_NOPS || !most_of(it->op) || !as_k_may(k, it, AS_PASS_MERGES))
    return false;
  const as_k_verdict *r = as_k_verdict_of(k, it);
  unsigned n = as_k_used(k, it, &uses);
  if (n != SIDES || !r->plain || r->queue || m->ordered[item] || isa_skips_rows(&r->in))
    return false;
  for (unsigned u = 0; u < n; u++)
    if (uses[u].reads == uses[u].writes) return false;
  return side(k, item, SRC) && side(k, item, DST) && !is_scattered(k, item);
}

/* ---- Whether a round goes on ----------------------------------------------------------------- */

/* Whether an operand is all of a tile that can become a part of another one. */
static bool is_whole_tile(const merger *m, const as_k_operand *o) {
  const as_k_buffer *b = as_k_buf(m->k, o->buffer);
  as_k_bytes x;
  if (o->space == ISA_HBM || b->pinned || b->fixed || b->shared || m->taken[o->buffer - 1] ||
      b->ndim >= ISA_TILE_DIMS || b->bytes % K_ALIGN || m->all_writes[o->buffer - 1] != 1)
    return false;
  as_k_bytes_of(m->k, o, &x);
  return !x.set && x.lo == 0 && x.hi == b->bytes && b->part == 0 && x.p0 == 0 && x.p1 == b->nparts;
}

static bool is_fixed_tile(const merger *m, const as_k_operand *o) {
  return o->space != ISA_HBM && as_k_buf(m->k, o->buffer)->fixed;
}

static bool relate(const merger *m, const as_k_operand *a, const as_k_operand *b, way *w,
                   int64_t *step) {
  int64_t size = (int64_t)isa_dtype_bytes(as_k_shape_of(m->k, a)->dtype);
  if (a->shape != b->shape || a->part != b->part || a->nparts != b->nparts) return false;
  *w = a->buffer == b->buffer ? ONE_BUFFER : TILES;
  *step = b->offset - a->offset;
  /* at a fixed place another tile may write the same bytes, which nothing here counts */
  if (*w == ONE_BUFFER) return *step > 0 && *step % size == 0 && !is_fixed_tile(m, a);
  return *step == 0 && as_k_buf(m->k, a->buffer)->class == as_k_buf(m->k, b->buffer)->class;
}

/* Whether a chain stands where its first item does: what it reads is there already, and nobody has
 * use for the place of what it writes. */
static bool is_early(const merger *m, const chain *c) {
  if (c->way[SRC] != ONE_BUFFER) return false;
  return c->way[DST] == TILES || side(m->k, c->first, SRC)->space == ISA_HBM;
}

/* Whether others have left alone what a chain moves. */
static bool is_untouched(const merger *m, const chain *c) {
  const as_kernel *k = m->k;
  uint32_t from = side(k, c->first, SRC)->buffer - 1, to = side(k, c->first, DST)->buffer - 1;
  if (c->met != m->met) return false;
  if (c->way[SRC] == ONE_BUFFER && m->writes[from] != c->wrote) return false;
  if (c->way[DST] == ONE_BUFFER) return m->uses[to] == c->used + c->n;
  for (uint32_t i = c->first, n = c->n; !is_early(m, c) && n; i = m->next[i], n--)
    if (m->uses[side(k, i, DST)->buffer - 1] != 1) return false;
  return true;
}

/* Whether the bytes of its rounds in one buffer are apart. */
static bool is_apart(const merger *m, const chain *c, unsigned which) {
  const isa_byteset *set = &as_k_shape_of(m->k, side(m->k, c->first, which))->set;
  if (!set->run) return false;
  return !isa_byteset_meet_at(set, 0, set, c->step[which] * c->n);
}

/* Whether there is room for all parts from when the first of them begins until the last one ends:
 * three quarters of the memory, as for values that are kept. */
static bool take_room(merger *m, chain *c, unsigned which, uint32_t item) {
  const as_kernel *k = m->k;
  const as_k_buffer *b = as_k_buf(k, side(k, item, which)->buffer);
  as_k_room_use *r = &m->room[b->space == ISA_PSUM];
  int64_t had = (int64_t)c->n * b->bytes;
  uint32_t begin = c->begin[which], end = c->end[which];
  uint32_t from = b->first < begin ? b->first : begin, to = b->last > end ? b->last : end;
  if (as_k_room_most(r, from, to) + had > (int64_t)as_k_memory(k, b->space) / 4 * 3) return false;
  if (from < begin) as_k_room_add(r, from, begin - 1, had);
  if (to > end) as_k_room_add(r, end + 1, to, had);
  if (b->first > from) as_k_room_add(r, from, b->first - 1, b->bytes);
  if (b->last < to) as_k_room_add(r, b->last + 1, to, b->bytes);
  c->begin[which] = from;
  c->end[which] = to;
  return true;
}

/* Bytes of a partition that an item moves, on its side outside of HBM. */
static uint64_t bytes_of(const merger *m, uint32_t item) {
  const as_k_operand *o = side(m->k, item, DST);
  if (o->space == ISA_HBM) o = side(m->k, item, SRC);
  const as_k_shape *s = as_k_shape_of(m->k, o);
  uint64_t bytes = isa_dtype_bytes(s->dtype);
  for (unsigned d = o->space == ISA_HBM; d < s->ndim; d++) bytes *= s->dim[d].num;
  return bytes;
}

/* Whether an item goes on as the rounds before did; the second one says how that is. */
static bool goes_on(const merger *m, chain *c, uint32_t item) {
  const as_kernel *k = m->k;
  for (unsigned s = 0; s < SIDES; s++) {
    const as_k_operand *x = side(k, c->last, s), *y = side(k, item, s);
    int64_t step = 0;
    way w = TILES;
    if (!relate(m, x, y, &w, &step)) return false;
    if (c->n > 1 && (w != c->way[s] || step != c->step[s])) return false;
    if (w == TILES && (!is_whole_tile(m, y) || (c->n == 1 && !is_whole_tile(m, x)))) return false;
    /* a source is there; nothing can have read a destination, which this item alone writes */
    if (w == TILES && s == SRC && m->writes[y->buffer - 1] != 1) return false;
    c->way[s] = w;
    c->step[s] = step;
  }
  return is_untouched(m, c) && (c->way[SRC] != ONE_BUFFER || is_apart(m, c, SRC)) &&
         (c->way[DST] != ONE_BUFFER || is_apart(m, c, DST));
}

static bool add_round(merger *m, chain *c, uint32_t item) {
  as_kernel *k = m->k;
  chain was = *c;
  if (bytes_of(m, item) * (c->n + 1) > most_of(k->items[item].op)) return false;
  bool ok = goes_on(m, c, item);
  for (unsigned s = 0; s < SIDES && ok; s++)
    if (c->way[s] == TILES) ok = take_room(m, c, s, item);
  if (!ok) {
    *c = was;
    return false;
  }
  for (unsigned s = 0; s < SIDES; s++)
    if (c->way[s] == TILES)
      m->taken[side(k, c->last, s)->buffer - 1] = m->taken[side(k, item, s)->buffer - 1] = true;
  m->next[c->last] = item;
  c->last = item;
  c->n++;
  return true;
}

/* ---- Chains --------------------------------------------------------------------------------- */

/* line: the number of its first chain, 0 if it has no chain. */
static bool begin_chain(merger *m, uint32_t item, uint32_t hash, uint32_t line) {
  as_kernel *k = m->k;
  chain *last = line ? &m->chains[m->chains[line - 1].latest - 1] : NULL;
  chain c = {.first = item, .last = item, .n = 1, .met = m->met};
  c.wrote = m->writes[side(k, item, SRC)->buffer - 1];
  c.used = m->uses[side(k, item, DST)->buffer - 1];
  for (unsigned s = 0; s < SIDES; s++) {
    c.begin[s] = as_k_buf(k, side(k, item, s)->buffer)->first;
    c.end[s] = as_k_buf(k, side(k, item, s)->buffer)->last;
  }
  if (last && last->n == 1) { /* one alone leaves its place */
    c.latest = last->latest;
    *last = c;
    return true;
  }
  if (!isa_array_room(&k->al, &m->chains, m->nchains, &m->cap_chains, sizeof *m->chains))
    return as_k_nomem(k);
  m->chains[m->nchains++] = c;
  m->chains[(line ? line : m->nchains) - 1].latest = m->nchains;
  return line || isa_index_add(&k->al, &m->lines, hash, m->nchains) || as_k_nomem(k);
}

/* Whether two items differ at most in where their operands lie. */
static bool is_of_line(const as_kernel *k, uint32_t a, uint32_t b) {
  const as_k_item *x = &k->items[a], *y = &k->items[b];
  const as_k_operand *s = side(k, a, SRC), *t = side(k, b, SRC);
  const as_k_verdict *u = as_k_verdict_of(k, x), *v = as_k_verdict_of(k, y);
  bool same = x->verdict == y->verdict ||
              (memcmp(&u->in, &v->in, sizeof u->in) == 0 && u->engine == v->engine);
  return same && x->at.line == y->at.line && x->at.file == y->at.file && x->flags == y->flags &&
         (s->space != ISA_HBM || s->buffer == t->buffer);
}

/* A line has as many chains as its rounds need: only the first is looked for, however many. */
static bool note_item(merger *m, uint32_t item) {
  as_kernel *k = m->k;
  const as_k_item *it = &k->items[item];
  uint32_t hash = it->at.file * UINT32_C(0x9e3779b1) ^ it->at.line * UINT32_C(0x85ebca6b);
  uint32_t line, probe = 0;
  while ((line = isa_index_next(&m->lines, hash, &probe)))
    if (is_of_line(k, m->chains[line - 1].first, item)) break;
  if (line && add_round(m, &m->chains[m->chains[line - 1].latest - 1], item)) return true;
  return begin_chain(m, item, hash, line);
}

static bool find_chains(merger *m) {
  as_kernel *k = m->k;
  const as_k_use *uses;
  for (uint32_t i = 0; i < k->nitems; i++)
    for (unsigned u = 0, n = as_k_used(k, &k->items[i], &uses); u < n; u++)
      m->all_writes[as_k_use_op(k, &k->items[i], &uses[u])->buffer - 1] += uses[u].writes;
  for (uint32_t i = 0; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    m->depth += it->op == K_LOOP || it->op == K_WHILE;
    m->depth -= it->op == K_ENDLOOP;
    if (may_merge(m, i) && !note_item(m, i)) return false;
    /* What cannot be looked into stands between rounds: nothing is merged across it. */
    if (it->op >= ISA_NOPS || isa_op_is_control(it->op) || as_k_is_collective(it) ||
        as_k_meeting_kind(k, it) != K_MEETINGS)
      m->met++;
    for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
      uint32_t b = as_k_use_op(k, it, &uses[u])->buffer - 1;
      m->uses[b]++;
      m->writes[b] += uses[u].writes;
    }
  }
  return true;
}

/* ---- What stands for a chain ---------------------------------------------------------------- */

/* A tile of n parts like b. */
static uint32_t new_tile(as_kernel *k, uint32_t like, uint32_t n) {
  if (!K_GROW(k, buffers, nbuffers, cap_buffers)) return 0;
  if (!isa_index_room(&k->al, &k->classes)) {
    as_k_nomem(k);
    return 0;
  }
  as_k_buffer *b = &k->buffers[k->nbuffers];
  *b = *as_k_buf(k, like);
  memmove(b->shape + 2, b->shape + 1, (ISA_TILE_DIMS - 2) * sizeof *b->shape);
  b->shape[1] = n;
  b->ndim++;
  b->bytes *= n;
  b->next = b->whole = 0;
  b->iterations = n;
  as_k_classify(k, b, ++k->nbuffers);
  return k->nbuffers;
}

/* Lets the outermost dimension of an operand of HBM be that of the partitions: rows that lie one
 * after another may have been joined. */
static bool split_parts(as_k_shape *s, unsigned parts) {
  if (s->ndim && s->dim[0].num == parts) return true;
  /* From HBM to HBM there are no partitions. */
  if (!parts) return false;
  uint32_t row = s->ndim ? s->dim[0].num / parts : 0;
  if (!row || s->dim[0].num % parts || s->ndim == ISA_MAX_DIMS) return false;
  memmove(s->dim + 1, s->dim, s->ndim++ * sizeof *s->dim);
  s->dim[0] = (isa_dim){s->dim[1].step * row, parts};
  s->dim[1].num = row;
  return true;
}

/* The operand of all rounds: that of the first, with the rounds as its outermost free dimension. */
static bool all_rounds(merger *m, const chain *c, unsigned which, uint32_t tile, uint32_t *out) {
  as_kernel *k = m->k;
  as_k_operand o = *side(k, c->first, which);
  as_k_shape s = *as_k_shape_of(k, &o);
  unsigned parts = side(k, c->first, which == SRC ? DST : SRC)->nparts;
  unsigned at = o.space == ISA_HBM; /* after HBM's partitions */
  int64_t step = tile ? as_k_buf(k, o.buffer)->bytes : c->step[which];
  if ((at && !split_parts(&s, parts)) || s.ndim == ISA_MAX_DIMS) return false;
  memmove(s.dim + at + 1, s.dim + at, (s.ndim - at) * sizeof *s.dim);
  s.dim[at] = (isa_dim){step / (int64_t)isa_dtype_bytes(s.dtype), c->n};
  if (tile) o.buffer = tile;
  return as_k_put_operand(k, o, s.dtype, s.ndim + 1u, s.dim, out);
}

/* Adds the item of a chain at the end of the list. *made: 1 + its number, 0: it is not legal. */
static bool make_item(merger *m, const chain *c, const uint32_t tile[SIDES], uint32_t *made) {
  as_kernel *k = m->k;
  const as_k_item first = k->items[c->first];
  uint32_t ops = k->nops, at[SIDES];
  as_k_draft d = {.it = first, .in = as_k_verdict_of(k, &first)->in};
  as_k_key key = {.n = 0};
  const isa_form *form = isa_form_of(first.op);
  d.it.ops = ops;
  d.it.engine = as_k_verdict_of(k, &first)->engine;
  *made = 0;
  for (unsigned s = 0; s < SIDES; s++) {
    int f = isa_field_of(first.op, ISA_K_AP, s == SRC ? AP_R : AP_W);
    if (f < 0 || !all_rounds(m, c, s, tile[s], &at[s])) goto refused;
    *(isa_t_AP *)isa_member(&d.in, &form->fields[f]) = at[s] - ops;
  }
  if (!as_k_verify(k, &d, &key)) goto refused;
  if (!as_k_add_item(k, &d.it)) return false;
  k->items[k->nitems - 1].number = first.number;
  *made = k->nitems;
  return true;
refused:
  k->nops = ops;
  if (k->error.status == ISA_NOMEM) return false;
  k->error.status = ISA_OK;
  return true;
}

/* Lets the parts of a chain's tile be that. */
static void name_parts(merger *m, const chain *c, unsigned which, uint32_t tile) {
  as_kernel *k = m->k;
  bool apart = false;
  for (uint32_t i = c->first, n = 0; n < c->n; i = m->next[i], n++) {
    uint32_t b = side(k, i, which)->buffer, whole = as_k_buf(k, b)->whole;
    /* The latest whole write of the parts is that of the tile. */
    if (whole > as_k_buf(k, tile)->whole) as_k_buf(k, tile)->whole = whole;
    /* As where a line makes two tiles in a round, and one of them goes. */
    if (as_k_buf(k, b)->iteration != as_k_buf(k, tile)->iteration + n) apart = true;
    m->now[b - 1] = tile;
    m->shift[b - 1] = (int64_t)n * as_k_buf(k, b)->bytes;
  }
  if (apart) as_k_buf(k, tile)->iteration = as_k_buf(k, tile)->iterations = 0;
}

static bool join(merger *m, const chain *c) {
  as_kernel *k = m->k;
  uint32_t tile[SIDES] = {0}, made;
  for (unsigned s = 0; s < SIDES; s++)
    if (c->way[s] == TILES && !(tile[s] = new_tile(k, side(k, c->first, s)->buffer, c->n)))
      return false;
  if (!make_item(m, c, tile, &made)) return false;
  if (!made) return true; /* its tiles stay, unused */
  for (unsigned s = 0; s < SIDES; s++)
    if (tile[s]) name_parts(m, c, s, tile[s]);
  if (tile[DST]) as_k_buf(k, tile[DST])->whole = made;
  uint32_t stands = is_early(m, c) ? c->first : c->last;
  m->joined[stands] = made;
  for (uint32_t i = c->first, n = 0; n < c->n; i = m->next[i], n++) {
    m->gone[i] = true;
    if (i != stands && !as_k_leave(k, i, side(k, i, DST)->buffer, AS_PASS_MERGES)) return false;
  }
  return true;
}

/* items: before. What came since may move bytes of a tile that has become a part meanwhile. */
static void name_all_parts(merger *m, uint32_t items) {
  as_kernel *k = m->k;
  const as_k_use *uses;
  for (uint32_t i = 0; i < k->nitems; i++)
    for (unsigned u = 0, n = i < items && m->gone[i] ? 0 : as_k_used(k, &k->items[i], &uses); u < n;
         u++) {
      as_k_operand *o = (as_k_operand *)(void *)&k->ops[k->items[i].ops + uses[u].operand - 1];
      if (o->buffer > m->old || !m->now[o->buffer - 1]) continue;
      o->offset += m->shift[o->buffer - 1];
      o->buffer = m->now[o->buffer - 1];
    }
}

/* The list with the new items, which stand at its end, in their places. */
static bool put_items(merger *m, uint32_t items) {
  as_kernel *k = m->k;
  size_t size = ((size_t)k->nitems + 1) * sizeof(uint32_t);
  uint32_t *order = isa_zalloc(&k->al, size), n = 0;
  if (!order) return as_k_nomem(k);
  for (uint32_t i = 0; i < items; i++) {
    if (m->joined[i])
      order[n++] = m->joined[i] - 1;
    else if (!m->gone[i])
      order[n++] = i;
  }
  bool ok = as_k_renew(k, order, n);
  isa_free(&k->al, order, size);
  return ok;
}

static bool merge(merger *m) {
  as_kernel *k = m->k;
  uint32_t items = k->nitems;
  bool ok = find_chains(m);
  for (uint32_t c = 0; ok && c < m->nchains; c++)
    if (m->chains[c].n > 1) ok = join(m, &m->chains[c]);
  if (!ok || k->nitems == items) return ok;
  name_all_parts(m, items);
  return put_items(m, items);
}

bool as_k_merge(as_kernel *k) {
  if (!as_k_asked(k, AS_PASS_MERGES)) return true;
  merger m = {.k = k, .old = k->nbuffers};
  size_t n = (size_t)k->nbuffers + 1, items = (size_t)k->nitems + 1;
  const as_k_array arrays[] = {K_ARRAY(m.next, items), K_ARRAY(m.joined, items),
                               K_ARRAY(m.gone, items), K_ARRAY(m.writes, n),
                               K_ARRAY(m.uses, n),     K_ARRAY(m.all_writes, n),
                               K_ARRAY(m.now, n),      K_ARRAY(m.shift, n),
                               K_ARRAY(m.taken, n),    K_ARRAY(m.ordered, items)};
  const unsigned narrays = sizeof arrays / sizeof *arrays;
  bool ok = as_k_make_arrays(k, arrays, narrays);
  if (ok) as_k_ordered(k, m.ordered);
  ok = ok && as_k_lives(k) && as_k_room_open(k, ISA_SBUF, &m.room[0]) &&
       as_k_room_open(k, ISA_PSUM, &m.room[1]) && merge(&m);
  for (unsigned r = 0; r < 2; r++) as_k_room_close(k, &m.room[r]);
  as_k_free_arrays(k, arrays, narrays);
  isa_free(&k->al, m.chains, m.cap_chains * sizeof *m.chains);
  isa_index_free(&k->al, &m.lines);
  return ok;
}
