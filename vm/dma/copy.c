/* Moving the elements of a share: bit by bit if the types agree and nothing is computed, else
 * through fp32, in pieces. */
#include "../engine/engine.h"
#include "../work/work.h"
#include "dma.h"

#include <string.h>

enum { PIECE = 1024 }; /* elements that go through fp32 at once */
enum { ROW = 64 };     /* bytes from which on runs are copied as rows */
enum { FEW = 4 };      /* rows and columns from which on a transpose is done in blocks */

/* ---- Walks -------------------------------------------------------------------------------- */

static void open_src(const vm_transfer *t, unsigned k, vm_walk *w) {
  /* Only the indexed source goes by rows; the others by their steps. */
  vm_walk_open(w, k ? &t->more[k - 1] : &t->src, t->src_indexed == (int)k ? t->rows : NULL,
               t->row_dim);
  /* A piece of lists of buffers begins within its buffer. */
  w->from = t->from[1];
}

void vm_dma_open_walks(vm_transfer *t) {
  vm_walk_open(&t->walk[0], &t->dst, t->dst_indexed ? t->rows : NULL, t->row_dim);
  t->walk[0].from = t->from[0];
  open_src(t, 0, &t->walk[1]);
}

/* A walk that was opened, without the dimensions that it does not have. */
static void take_walk(vm_walk *w, const vm_walk *opened) {
  memcpy(w, opened, offsetof(vm_walk, dim) + (size_t)opened->n * sizeof *w->dim);
}

void vm_dma_walk_dst(const vm_transfer *t, vm_walk *w) { take_walk(w, &t->walk[0]); }

void vm_dma_walk_src(const vm_transfer *t, unsigned k, vm_walk *w) {
  /* Sources beyond the first are rare (dma_compute): their walks are opened when they are used. */
  if (k)
    open_src(t, k, w);
  else
    take_walk(w, &t->walk[1]);
}

/* ---- Bits --------------------------------------------------------------------------------- */

static inline void copy_strided(uint8_t *to, int64_t to_step, const uint8_t *from,
                                int64_t from_step, uint64_t n, unsigned esize) {
  for (uint64_t i = 0; i < n; i++) {
    memcpy(to, from, esize);
    to += to_step;
    from += from_step;
  }
}

/* Elements of constant size, so that each loop has plain loads and stores. */
static void copy_run(const vm_core *c, const vm_walk *d, const vm_walk *s, uint64_t n) {
  unsigned esize = d->esize;
  bool dense_dst = d->step == esize, dense_src = s->step == esize;
  /* memmove: what overlaps is in place, which the verifier allows. */
  if (n > 1 && dense_dst && dense_src) {
    memmove(d->at, s->at, n * esize);
  } else if (n > 8 && dense_dst) {
    c->run->kern.gather(d->at, s->at, (ptrdiff_t)s->step, n, esize);
  } else if (n > 8 && dense_src) {
    c->run->kern.scatter(d->at, (ptrdiff_t)d->step, s->at, n, esize);
  } else {
    switch (esize) {
    case 1: copy_strided(d->at, d->step, s->at, s->step, n, 1); break;
    case 2: copy_strided(d->at, d->step, s->at, s->step, n, 2); break;
    case 4: copy_strided(d->at, d->step, s->at, s->step, n, 4); break;
    default: copy_strided(d->at, d->step, s->at, s->step, n, 8); break;
    }
  }
}

/* How many runs of n elements follow one another from the walk's position on, *step bytes apart;
 * fewer than two: it is not at such a run. */
static uint64_t runs_of(const vm_walk *w, uint64_t n, int64_t *step) {
  const vm_walk_dim *outer = &w->dim[w->n < 2 ? 0 : w->n - 2];
  /* Only of the innermost dimension but one, and not by rows of an index: those have no constant
   * step. */
  *step = (int64_t)n * w->esize;
  /* One long run is several short ones that follow one another. */
  if (w->step == w->esize && w->left >= 2 * n) return w->left / n;
  if (w->n < 2 || w->row == w->n - 2 || w->left != n || w->dim[w->n - 1].num != n) return 0;
  *step = outer->step;
  return outer->num - outer->index;
}

static void skip(vm_walk *w, uint64_t n) {
  for (uint64_t m; n; n -= m) {
    m = w->left < n ? w->left : n;
    vm_walk_advance(w, m);
  }
}

/* If runs of one walk are columns of the other: moves as many of the n elements as it can as a
 * transpose, and returns how many. For example bfloat16[128, 2048] from the rows of bfloat16[2048,
 * 128]. */
static uint64_t turn_runs(vm_walk *d, vm_walk *s, uint64_t n) {
  const int64_t esize = d->esize;
  /* The run is along the side that is dense; the other side's elements are columns. */
  const uint64_t run = d->step == esize ? s->left : d->left;
  int64_t to, from;
  /* Below a few rows and columns the blocks of a transpose are mostly edges. */
  if (run < FEW || n < 2 * run) return 0;
  uint64_t k = runs_of(d, run, &to), ks = runs_of(s, run, &from);
  /* As many whole runs as both sides and n allow. */
  k = k < ks ? k : ks;
  k = k < n / run ? k : n / run;
  if (k < FEW) return 0;
  if (d->step == esize && from == esize)
    vm_kern_turn(d->at, (ptrdiff_t)to, s->at, (ptrdiff_t)s->step, (size_t)run, (size_t)k, d->esize);
  else if (s->step == esize && to == esize)
    vm_kern_turn(d->at, (ptrdiff_t)d->step, s->at, (ptrdiff_t)from, (size_t)k, (size_t)run,
                 d->esize);
  else
    return 0;
  /* The kernel has moved them: both walks follow. */
  skip(d, k * run);
  skip(s, k * run);
  return k * run;
}

/* k runs of n elements further, which are `step` bytes apart. */
static void skip_runs(vm_walk *w, uint64_t n, uint64_t k, int64_t step) {
  if (w->left >= k * n) { /* they follow one another */
    vm_walk_advance(w, k * n);
    return;
  }
  w->dim[w->n - 2].index += k - 1;
  w->run_at += (int64_t)(k - 1) * step;
  vm_walk_next_run(w);
}

/* What copies may know of their two ends. */
typedef enum ends {
  NEAR = 0,
  FAR_SOURCE = 1, /* probably in no cache of the host */
  LARGE = 2       /* the destination: vm_hbm_is_large */
} ends;

/* If both walks are at elements that follow one another in memory: copies as many of the n as it
 * can as rows, and returns how many. */
static uint64_t copy_rows(vm_walk *d, vm_walk *s, uint64_t n, unsigned how) {
  uint64_t run = d->left < s->left ? d->left : s->left, k = 1;
  int64_t to = 0, from = 0;
  run = run < n ? run : n;
  const size_t bytes = (size_t)run * d->esize;
  if (bytes < ROW || d->step != d->esize || s->step != s->esize) return 0;
  /* Several rows at once, if they are a constant step apart on both sides. */
  if (n >= 2 * run) {
    uint64_t ks = runs_of(s, run, &from), most = n / run;
    uint64_t kd = ks > 1 ? runs_of(d, run, &to) : 0;
    k = kd < ks ? kd : ks;
    k = k > most ? most : k ? k : 1;
  }
  /* One run alone. */
  if (k == 1 && !(how & LARGE)) { /* rows in any order */
    memmove(d->at, s->at, bytes);
    vm_walk_advance(d, run);
    vm_walk_advance(s, run);
    return run;
  }
  /* Past the host's caches where that pays; vm_kern_stream refuses what is not aligned for it. */
  if (!(how & LARGE) || !vm_kern_stream(d->at, (ptrdiff_t)to, s->at, (ptrdiff_t)from, k, bytes))
    vm_kern_copy(d->at, (ptrdiff_t)to, s->at, (ptrdiff_t)from, k, bytes, how & FAR_SOURCE);
  skip_runs(d, run, k, to);
  skip_runs(s, run, k, from);
  return k * run;
}

static void copy_bits(const vm_core *c, vm_walk *d, vm_walk *s, uint64_t n, unsigned how) {
  for (uint64_t m; n; n -= m) {
    /* With equal steps both go along a row; else one goes along a row and the other along a column.
     */
    m = d->step == s->step ? copy_rows(d, s, n, how) : turn_runs(d, s, n);
    if (m) continue;
    m = d->left < s->left ? d->left : s->left;
    m = m < n ? m : n;
    copy_run(c, d, s, m);
    vm_walk_advance(d, m);
    vm_walk_advance(s, m);
  }
}

/* n dense elements as a walk. */
static vm_walk dense_walk(uint8_t *at, const vm_walk *like, uint64_t n) {
  return (vm_walk){.at = at,
                   .run_at = at,
                   .left = n,
                   .step = like->esize,
                   .esize = like->esize,
                   .dtype = like->dtype,
                   .row = -1,
                   .n = 1,
                   .dim[0] = {.num = n, .step = like->esize}};
}

/* ---- fp32 --------------------------------------------------------------------------------- */

typedef struct buffers {
  float sum[PIECE], next[PIECE];
  uint8_t raw[8 * PIECE];
} buffers;

static bool is_dense(const vm_walk *w, uint64_t n) { return w->step == w->esize && w->left >= n; }

/* Where the walk's next n elements are fp32 in memory, else NULL. */
static float *floats_at(const vm_walk *w, uint64_t n) {
  bool fit = w->dtype == ISA_float32 && is_dense(w, n) && (uintptr_t)w->at % sizeof(float) == 0;
  return fit ? (float *)(void *)w->at : NULL;
}

/* n elements as fp32: in place, or in f. */
static const float *read_floats(const vm_core *c, vm_walk *w, float *f, uint8_t *raw, uint64_t n) {
  /* Before the walk moves on. */
  const float *there = floats_at(w, n);
  const uint8_t *from = w->at;
  if (is_dense(w, n)) {
    vm_walk_advance(w, n);
  } else {
    /* Not dense: gathered into raw first. */
    vm_walk to = dense_walk(raw, w, n);
    copy_bits(c, &to, w, n, NEAR);
    from = raw;
  }
  if (!there) c->run->kern.load[w->dtype](f, from, (size_t)n);
  return there ? there : f;
}

static void write_floats(const vm_core *c, vm_walk *w, const float *f, uint8_t *raw, uint64_t n) {
  /* Not dense: converted in raw, and scattered from there. */
  bool direct = is_dense(w, n);
  c->run->kern.store[w->dtype](direct ? w->at : raw, f, (size_t)n, c->eng[0].dp.cvt);
  if (direct) {
    vm_walk_advance(w, n);
  } else {
    vm_walk from = dense_walk(raw, w, n);
    copy_bits(c, w, &from, n, NEAR);
  }
}

/* ---- Shares ------------------------------------------------------------------------------- */

/* The operands of a share as walks from its first element on. */
typedef struct operands {
  vm_walk dst, src[16];
  unsigned nsrc, op; /* op bypass: a copy or a conversion */
  bool bits;         /* elements are copied as they are */
  unsigned how;      /* copies may be done: `ends` */
  bool guided;       /* some rows are skipped, by guide */
  vm_walk guide;
} operands;

/* A conversion of one source: straight into fp32 memory if that is the destination. */
static void convert_piece(const vm_core *c, operands *o, buffers *b, uint64_t n) {
  /* Without a second buffer where the destination is fp32 itself. */
  float *out = floats_at(&o->dst, n);
  const float *x = read_floats(c, &o->src[0], out ? out : b->sum, b->raw, n);
  /* The elements are fp32 on both sides, and read_floats has put them where they belong. */
  if (x == out)
    vm_walk_advance(&o->dst, n);
  else
    write_floats(c, &o->dst, x, b->raw, n);
}

/* All sources of a piece are read before it is written: one may be dst itself. */
static void compute_piece(const vm_core *c, operands *o, buffers *b, uint64_t n) {
  const float *sum = read_floats(c, &o->src[0], b->sum, b->raw, n);
  /* In the order of the operands: the result is the same bits on every host. */
  for (unsigned k = 1; k < o->nsrc; k++) {
    const float *x = read_floats(c, &o->src[k], b->next, b->raw, n);
    c->run->kern.alu_vv[o->op](b->sum, sum, x, (size_t)n);
    sum = b->sum;
  }
  write_floats(c, &o->dst, sum, b->raw, n);
}

static void move(const vm_core *c, operands *o, buffers *b, uint64_t n) {
  if (o->bits) {
    copy_bits(c, &o->dst, &o->src[0], n, o->how);
    return;
  }
  for (uint64_t m; n; n -= m) {
    /* At most as many as the buffers have. */
    m = n < PIECE ? n : PIECE;
    if (o->nsrc == 1)
      convert_piece(c, o, b, m);
    else
      compute_piece(c, o, b, m);
  }
}

/* Only rows that are not skipped. */
static void move_guided(const vm_core *c, operands *o, buffers *b, uint64_t n) {
  for (uint64_t m; n; n -= m) {
    /* A run of the guide is within one row of the index. */
    m = o->guide.left < n ? o->guide.left : n;
    if (!o->guide.skipped) {
      move(c, o, b, m);
    } else {
      skip(&o->dst, m);
      for (unsigned k = 0; k < o->nsrc; k++) skip(&o->src[k], m);
    }
    vm_walk_advance(&o->guide, m);
  }
}

bool vm_dma_skips_rows(const vm_transfer *t) {
  if (!t->rows) return false;
  const vm_view *v = t->dst_indexed   ? &t->dst
                     : t->src_indexed ? &t->more[t->src_indexed - 1]
                                      : &t->src;
  /* Looked at once for a share, not for each row. */
  for (uint32_t i = 0; i < v->num[t->row_dim]; i++)
    if (t->rows[i] == VM_NO_ROW) return true;
  return false;
}

/* Elements from e on of those of a share. */
static void open_operands(const vm_share *s, uint64_t e, operands *o) {
  const vm_transfer *t = s->t;
  uint8_t *kept = s->item.staged ? s->snap : NULL;
  o->nsrc = 0;
  o->op = t->op;
  vm_dma_walk_dst(t, &o->dst);
  vm_walk_seek(&o->dst, e);
  /* `dst = dst op src`: the destination is the first source. */
  if (t->accumulates) o->src[o->nsrc++] = o->dst;
  o->bits = t->op == ISA_ALU_bypass && t->dst.dtype == t->src.dtype;
  /* A copy aside was just made, and is in the caches. */
  o->how = (t->src.space == ISA_HBM && !kept ? FAR_SOURCE : NEAR) | (t->large ? LARGE : NEAR);
  o->guided = vm_dma_skips_rows(t);
  for (unsigned k = 0; k < t->nsrc; k++) {
    vm_walk *w = &o->src[o->nsrc++];
    /* Sources 1 .. nsrc - 1 share `from` with source 0 only for lists, which have one source. */
    vm_dma_walk_src(t, k, w);
    vm_walk_seek(w, e);
    if (o->guided && t->src_indexed == (int)k) o->guide = *w;
    if (!kept) continue;
    /* What was copied aside lies dense, source after source. */
    *w = dense_walk(kept + (e - s->e0) * w->esize, w, s->e1 - e);
    kept += (s->e1 - s->e0) * w->esize;
  }
  /* A destination's index guides: there is nothing of a skipped row to be read either. */
  if (o->guided && t->dst_indexed) o->guide = o->dst;
}

void vm_dma_move_elements(const vm_core *c, const vm_share *s, uint64_t e0, uint64_t e1) {
  operands o;
  buffers b;
  if (e0 >= e1) return;
  open_operands(s, e0, &o);
  if (o.guided)
    move_guided(c, &o, &b, e1 - e0);
  else
    move(c, &o, &b, e1 - e0);
  const vm_work *w =
      c->run->threads; /* one thread sees what it has written; see also vm_run_until */
  if (s->t->large && w && w->threads > 1) vm_kern_streamed();
}

void vm_dma_pack(vm_core *c, vm_share *s, uint8_t *to) {
  operands o;
  buffers b;
  uint64_t n = s->e1 - s->e0;
  /* Deferred writes that these bytes depend on come first. */
  vm_batch_settle(c, &s->item);
  vm_dma_use(c, s);
  open_operands(s, s->e0, &o);
  /* Into the message, in order; the destination's own pattern is applied by the receiver. */
  o.dst = dense_walk(to, &o.dst, n);
  o.how = NEAR;
  move(c, &o, &b, n);
}

void vm_dma_unpack(const vm_core *c, const vm_view *v, uint64_t first, uint64_t n, uint8_t *from) {
  vm_walk to;
  vm_walk_open(&to, v, NULL, 0);
  to.from = 0;
  vm_walk_seek(&to, first);
  vm_walk dense = dense_walk(from, &to, n);
  copy_bits(c, &to, &dense, n, NEAR);
}

static const vm_view *side_in_sbuf(const vm_transfer *t) {
  return t->dst.space == ISA_SBUF ? &t->dst : &t->src;
}

bool vm_dma_has_lanes(const vm_core *c, const vm_share *s) {
  const vm_transfer *t = s->t;
  /* One side in SBUF and one in HBM: then partition p of the one depends on no other partition, and
   * may be moved alone. */
  const vm_view *near = side_in_sbuf(t), *far = near == &t->dst ? &t->src : &t->dst;
  return t->nsrc == 1 && !t->rows && !t->permuted && !t->from[0] && !t->from[1] &&
         near->space == ISA_SBUF && far->space == ISA_HBM && near->core == c->number;
}

void vm_dma_move_lanes(const vm_core *c, const vm_share *s, uint32_t first, uint32_t end) {
  const vm_view *v = side_in_sbuf(s->t);
  /* Partitions before the tile's own have nothing. */
  uint64_t e0 = first < v->part ? 0 : (first - v->part) * v->elems;
  uint64_t e1 = end < v->part ? 0 : (end - v->part) * v->elems;
  vm_dma_move_elements(c, s, e0 > s->e0 ? e0 : s->e0, e1 < s->e1 ? e1 : s->e1);
}

/* The verifier has seen that elements of the destination are distinct, but for indices; what
 * overlaps it may be in place or not. */
bool vm_dma_in_any_order(const vm_share *s) {
  const vm_item *it = &s->item;
  /* Two indices may name one element: the later must win. */
  if (s->t->dst_indexed) return false;
  for (unsigned i = 0; i < it->nsrc && !it->staged; i++)
    /* Sources that were copied aside no longer overlap anything. */
    if (vm_box_meet(&it->dst[0], &it->src[i])) return false;
  return it->ndst == 1;
}

static uint64_t bytes_of(const vm_share *s) { return (s->e1 - s->e0) * s->t->dst.esize; }

/* Before a share moves, or its sources are copied aside. */
static void use_sources(vm_core *c, const vm_share *s) {
  for (unsigned i = 0; i < s->item.nsrc && s->t->stale[1]; i++)
    vm_hbm_use(c, &s->item.src[i], false);
}

/* Its destination is overwritten where it has all the bytes of its box. */
void vm_dma_use(vm_core *c, const vm_share *s) {
  const vm_transfer *t = s->t;
  const vm_box *dst = &s->item.dst[0];
  if (!s->item.staged) use_sources(c, s);
  if (!t->stale[0]) return;
  /* Zeros that are about to be overwritten need not be written. */
  vm_hbm_use(c, dst, !t->rows && !t->accumulates && dst->hi - dst->lo == bytes_of(s));
}

void vm_dma_stage(vm_core *c, vm_share *s) {
  const vm_transfer *t = s->t;
  uint64_t n = s->e1 - s->e0, bytes = 0;
  use_sources(c, s);
  /* One block for all sources, in order, as open_operands reads it. */
  for (unsigned k = 0; k < t->nsrc; k++) bytes += n * (k ? t->more[k - 1].esize : t->src.esize);
  uint8_t *at = s->snap = vm_item_block(c, &s->item, (size_t)bytes);
  for (unsigned k = 0; at && k < t->nsrc; k++) {
    vm_walk from;
    vm_dma_walk_src(t, k, &from);
    vm_walk_seek(&from, s->e0);
    vm_walk to = dense_walk(at, &from, n);
    copy_bits(c, &to, &from, n, NEAR);
    at += n * from.esize;
  }
}
