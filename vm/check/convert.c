/* Conversions that lose a number: a copy or a transfer to a type that cannot hold it, and sums that
 * transfers make. For example 300 to int8, 1e6 to float16. */
#include "../dma/dma.h"
#include "../engine/engine.h"
#include "check.h"
#include "shadow.h"

#include <math.h>
#include <string.h>

enum { PIECE = 256 };

/* ---- Numbers ------------------------------------------------------------------------------ */

static bool is_packed(unsigned type) { return isa_dtypes[type].cls == ISA_PACK; }

/* An integer as it is in memory; a larger one than INT64_MAX as that. */
static int64_t integer_at(unsigned type, const uint8_t *raw) {
  unsigned bits = 8 * isa_dtype_bytes(type);
  uint64_t v = 0;
  memcpy(&v, raw, bits / 8); /* little endian, as all hosts are */
  if (isa_dtypes[type].cls == ISA_UINT) return v > INT64_MAX ? INT64_MAX : (int64_t)v;
  /* Sign-extended from its width. */
  return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* The first of n dense numbers that an integer type does not hold, or n. NaNs are such numbers. */
static size_t outside_integers(const vm_core *c, unsigned from, const uint8_t *raw, size_t n,
                               unsigned to) {
  const int64_t least = isa_dtype_least(to), greatest = isa_dtype_greatest(to);
  /* A piece is at most PIECE elements. */
  float x[PIECE];
  size_t i = 0;
  if (isa_dtype_is_int(from)) {
    for (int64_t v; i < n; i++) {
      v = integer_at(from, raw + i * isa_dtype_bytes(from));
      if (v < least || v > greatest) break;
    }
    return i;
  }
  c->run->kern.load[from](x, raw, n);
  /* As doubles, so that the bounds of int32 are exact; rounding to nearest keeps what is less than
   * one beyond them. */
  while (i < n && (double)x[i] > (double)least - 1 && (double)x[i] < (double)greatest + 1) i++;
  return i;
}

/* The same of a float type: finite numbers that become something else. */
static size_t outside_floats(const vm_core *c, unsigned from, const uint8_t *raw, size_t n,
                             unsigned to) {
  float x[PIECE], back[PIECE];
  uint8_t there[PIECE * sizeof(float)];
  size_t i = 0;
  c->run->kern.load[from](x, raw, n);
  c->run->kern.store[to](there, x, n, c->eng[0].dp.cvt);
  c->run->kern.load[to](back, there, n);
  /* A number became an infinity or a NaN; one that was none stays what it is. */
  while (i < n && (isfinite(back[i]) || !isfinite(x[i]))) i++;
  return i;
}

static size_t first_outside(const vm_core *c, unsigned from, const uint8_t *raw, size_t n,
                            unsigned to) {
  return isa_dtype_is_int(to) ? outside_integers(c, from, raw, n, to)
                              : outside_floats(c, from, raw, n, to);
}

/* "300 does not fit in int8, which holds -128 to 127". */
static void put_outside(const vm_core *c, unsigned from, const uint8_t *raw, unsigned to,
                        isa_buf *out) {
  float x;
  c->run->kern.load[from](&x, raw, 1);
  if (isa_dtype_is_int(from))
    isa_buf_printf(out, ": range: %lld", (long long)integer_at(from, raw));
  else
    isa_buf_printf(out, ": range: %.9g", (double)x);
  isa_buf_printf(out, " does not fit in %s", isa_dtypes[to].name);
  if (isa_dtype_is_int(to))
    isa_buf_printf(out, ", which holds %lld to %lld", (long long)isa_dtype_least(to),
                   (long long)isa_dtype_greatest(to));
  else {
    uint8_t there[sizeof(float)];
    c->run->kern.store[to](there, &x, 1, c->eng[0].dp.cvt);
    c->run->kern.load[to](&x, there, 1);
    isa_buf_printf(out, ", and becomes %s", isnan(x) ? "a NaN" : "an infinity");
  }
}

/* ---- Copies by engines -------------------------------------------------------------------- */

static void report_copy(vm_core *c, unsigned e, const vm_flight *f, const uint8_t *raw, uint32_t p,
                        uint64_t i) {
  const vm_view *src = &f->a.COPY.src;
  vm_finding *r = vm_ck_found(c, VM_CHECK_RANGE, vm_ck_unit(c, e), f->pc, VM_CK_ENGINES, 4);
  if (!r) return;
  vm_ck_put_place(c, vm_ck_unit(c, e), f->pc, &r->text);
  put_outside(c, src->dtype, raw, f->a.COPY.dst.dtype, &r->text);
  vm_ck_put_insn(c, vm_ck_unit(c, e), f->pc, f->item.start, &r->text);
  isa_buf_puts(&r->text, "\n    reads ");
  vm_ck_put_element(c, src, p, i, &r->text);
  isa_buf_printf(&r->text, ", %s", isa_dtypes[src->dtype].name);
}

/* What becomes an infinity is told when it is there (value.c). */
void vm_ck_convert_execute(vm_core *c, unsigned e, const vm_flight *f) {
  const vm_view *src = &f->a.COPY.src, *dst = &f->a.COPY.dst;
  uint8_t raw[PIECE * sizeof(float)];
  /* Equal types move bits: nothing is lost. */
  if (f->in->op != ISA_OP_tensor_copy || src->dtype == dst->dtype || is_packed(src->dtype)) return;
  if (!isa_dtype_is_int(dst->dtype)) return;
  for (uint32_t p = 0; p < src->num[0]; p++)
    for (uint64_t i = 0, n; i < src->elems; i += n) {
      n = src->elems - i < PIECE ? src->elems - i : PIECE;
      vm_load_raw(raw, src, p, i, (size_t)n);
      for (size_t j = 0; j < n; j++) {
        const uint8_t *at = raw + j * src->esize;
        j += first_outside(c, src->dtype, at, (size_t)n - j, dst->dtype);
        /* What a kernel leaves out is anybody's: no number was lost. */
        if (j >= n || vm_ck_left_out(c, src, p, i + j)) continue;
        report_copy(c, e, f, raw + j * src->esize, p, i + j);
        /* One finding for an instruction: the others have the same cause. */
        return;
      }
    }
}

/* ---- Transfers ---------------------------------------------------------------------------- */

/* Elements of a side of a share that follow one another in its walk; those of number `first` on. */
typedef struct piece {
  vm_walk w;
  uint64_t first;
  size_t n;
  uint8_t raw[8 * PIECE];
} piece;

/* Calls fn for all elements of a side (-1: the destination) that are moved; stops when it gives
 * true. */
static bool each_piece(const vm_core *c, const vm_share *s, int side,
                       bool (*fn)(void *ud, const piece *p), void *ud) {
  piece p;
  vm_walk guide, shadow;
  if (side < 0)
    vm_dma_walk_dst(s->t, &p.w);
  else
    vm_dma_walk_src(s->t, (unsigned)side, &p.w);
  vm_walk_seek(&p.w, s->e0);
  bool guided = vm_ck_share_walk(c, s, side, &shadow, &guide);
  for (p.first = s->e0; p.first < s->e1;) {
    uint64_t n = s->e1 - p.first < p.w.left ? s->e1 - p.first : p.w.left;
    if (guided && guide.left < n) n = guide.left;
    p.n = n < PIECE ? (size_t)n : PIECE;
    /* Rows that the index skips are not moved. */
    if (!(guided && guide.skipped)) {
      for (size_t i = 0; i < p.n; i++)
        memcpy(p.raw + i * p.w.esize, p.w.at + (int64_t)i * p.w.step, p.w.esize);
      if (fn(ud, &p)) return true;
    }
    p.first += p.n;
    /* Nothing is left, and a seek to the end would leave the last run. */
    if (p.first >= s->e1) break;
    vm_walk_seek(&p.w, p.first);
    if (guided) vm_walk_seek(&guide, p.first);
  }
  return false;
}

typedef struct transfer {
  vm_core *c;
  const vm_share *s;
  unsigned kinds, had;
} transfer;

/* Whether a kernel leaves out element e of the transfer, as filler.c has noted for this share. */
static bool is_filler(const transfer *m, uint64_t e) {
  const vm_ck_fillers *k = &m->c->check->fillers;
  return k->share && e - m->s->e0 < k->nshare && k->share[e - m->s->e0] != 0;
}

static vm_finding *found(const transfer *m, unsigned what) {
  const vm_transfer *t = m->s->t;
  unsigned unit = vm_ck_unit(m->c, t->engine);
  vm_finding *r = vm_ck_found(m->c, VM_CHECK_RANGE, unit, t->pc, VM_CK_ENGINES, what);
  if (r) vm_ck_put_place(m->c, unit, t->pc, &r->text);
  return r;
}

static void put_rest(const transfer *m, vm_finding *r, const char *verb, const vm_view *v,
                     const uint8_t *at) {
  const vm_transfer *t = m->s->t;
  vm_ck_put_insn(m->c, vm_ck_unit(m->c, t->engine), t->pc, m->s->item.start, &r->text);
  isa_buf_printf(&r->text, "\n    %s ", verb);
  vm_ck_put_element_at(m->c, v, at, &r->text);
  isa_buf_printf(&r->text, ", %s", isa_dtypes[v->dtype].name);
}

static bool look_at_conversion(void *ud, const piece *p) {
  transfer *m = ud;
  const vm_transfer *t = m->s->t;
  for (size_t i = 0; i < p->n; i++) {
    i += first_outside(m->c, t->src.dtype, p->raw + i * p->w.esize, p->n - i, t->dst.dtype);
    if (i >= p->n || is_filler(m, p->first + i)) continue;
    vm_finding *r = found(m, 4);
    if (!r) return true;
    put_outside(m->c, t->src.dtype, p->raw + i * p->w.esize, t->dst.dtype, &r->text);
    put_rest(m, r, "reads", &t->src, p->w.at + (int64_t)i * p->w.step);
    return true;
  }
  return false;
}

static bool converts(const vm_transfer *t) {
  unsigned to = t->dst.dtype;
  /* Sums are looked at by their results, copies by their sources. */
  return t->nsrc == 1 && !t->accumulates && t->src.dtype != to && !is_packed(to) &&
         !is_packed(t->src.dtype) && isa_dtypes[to].cls != ISA_BOOL;
}

static bool computes(const vm_transfer *t) {
  return (t->nsrc > 1 || t->accumulates) && isa_dtypes[t->dst.dtype].cls == ISA_FLOAT;
}

static unsigned kinds_at(const vm_core *c, unsigned type, const uint8_t *raw, size_t n) {
  float x[PIECE];
  unsigned kinds = 0;
  c->run->kern.load[type](x, raw, n);
  for (size_t i = 0; i < n; i++)
    if (!isfinite(x[i])) kinds |= isnan(x[i]) ? 2u : 1u;
  return kinds;
}

static bool note_kinds(void *ud, const piece *p) {
  transfer *m = ud;
  m->kinds |= kinds_at(m->c, p->w.dtype, p->raw, p->n);
  /* Both kinds have been seen: no need to look further. */
  return m->kinds == 3;
}

static bool look_at_sum(void *ud, const piece *p) {
  transfer *m = ud;
  for (size_t i = 0; i < p->n; i++) {
    unsigned kinds = kinds_at(m->c, p->w.dtype, p->raw + i * p->w.esize, 1);
    /* What some operand had may be in the result. */
    if (!(kinds & ~m->had) || is_filler(m, p->first + i)) continue;
    vm_finding *r = found(m, kinds);
    if (!r) return true;
    isa_buf_printf(&r->text, ": range: the result has %s, and no operand had one",
                   kinds & 2 ? "a NaN" : "an infinity");
    put_rest(m, r, "writes", &m->s->t->dst, p->w.at + (int64_t)i * p->w.step);
    return true;
  }
  return false;
}

void vm_ck_convert_move(vm_core *c, const vm_share *s) {
  transfer m = {.c = c, .s = s};
  const vm_transfer *t = s->t;
  /* 3: nothing new can be found. */
  c->check->transfer_had = 3;
  if (s->item.staged) return; /* looked at when it was copied; its sum may be of other bytes */
  if (converts(t)) each_piece(c, s, 0, look_at_conversion, &m);
  if (!computes(t)) return;
  /* The destination of an accumulating transfer is an operand, too. */
  for (int side = t->accumulates ? -1 : 0; side < t->nsrc; side++)
    each_piece(c, s, side, note_kinds, &m);
  c->check->transfer_had = m.kinds;
}

void vm_ck_convert_moved(vm_core *c, const vm_share *s) {
  transfer m = {.c = c, .s = s, .had = c->check->transfer_had};
  if (m.had != 3 && computes(s->t)) each_piece(c, s, -1, look_at_sum, &m);
}
