/* Operands in memory: walking a view's elements, as raw bytes, as bits and as fp32. */
#include "../../isa/bytes.h"
#include "walk.h"

#include <stdio.h>
#include <string.h>

enum { RAW = 4 * VM_ROW };      /* bytes of a piece that is gathered before it is converted */
enum { FEW = 8 };               /* elements that take less time than a kernel's call */
enum { NARROW = 4, WIDE = 64 }; /* bytes of a row that vm_kern moves together with others */

vm_verdict vm_dp_fault(vm_dp *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(d->fault, sizeof d->fault, fmt, ap);
  va_end(ap);
  return VM_FAULT;
}

void vm_view_runs(vm_view *v) {
  v->run = 1;
  v->run_step = v->esize;
  for (unsigned i = v->ndim; i-- > 1;) {
    if (v->num[i] == 1) continue;
    /* The innermost dimension that has more than one element gives the step; the ones around it
     * belong to the run as long as they go on at that step. */
    if (v->run == 1)
      v->run_step = v->step[i];
    else if (v->step[i] != (int64_t)v->run * v->run_step)
      return;
    v->run *= v->num[i];
    if (v->run == 0) return; /* no elements at all */
  }
}

void vm_view_dense(vm_view *out, const vm_view *v, uint8_t *at) {
  *out = *v;
  out->at = at;
  out->place = NULL;
  out->lo = out->hi = 0;
  int64_t step = v->esize;
  for (unsigned d = v->ndim; d-- > 0;) { /* keeps the dimensions: some instructions look at them */
    out->step[d] = step;
    step *= v->num[d];
  }
  vm_view_runs(out);
}

static void copy_one(uint8_t *dst, const uint8_t *src, unsigned esize) { memcpy(dst, src, esize); }

/* Copies n elements of esize bytes between strided places, which may be the same bytes. The
 * calls have constant sizes so that each becomes a loop of plain loads and stores. */
static void copy_run(const vm_kern *k, uint8_t *dst, int64_t dst_step, const uint8_t *src,
                     int64_t src_step, size_t n, unsigned esize) {
  /* memmove: an instruction may work in place, or a few elements further. */
  if (dst_step == esize && src_step == esize) {
    memmove(dst, src, n * esize);
    return;
  }
  /* One of the two is dense: nobody copies between two strided places directly. */
  /* A kernel has a vector for each size of element; a loop of single loads is faster only below
   * FEW. */
  if (k && n >= FEW) {
    if (dst_step == esize)
      k->gather(dst, src, (ptrdiff_t)src_step, n, esize);
    else
      k->scatter(dst, (ptrdiff_t)dst_step, src, n, esize);
    return;
    /* A macro with constant sizes: with `esize` as a variable each copy would be a call of memcpy.
     */
  }
#define EACH(bytes)                                                               \
  for (; n > 0; n--, dst += dst_step, src += src_step) copy_one(dst, src, bytes); \
  break
  switch (esize) {
  case 1: EACH(1);
  case 2: EACH(2);
  case 4: EACH(4);
  default: EACH(8);
  }
#undef EACH
}

static size_t piece(const vm_walk *w, size_t n) { return w->left < n ? (size_t)w->left : n; }

/* How many of the next n elements' runs are short, whole, and a constant step apart. */
static size_t short_rows(const vm_kern *k, const vm_view *v, const vm_walk *w, size_t n) {
  size_t bytes = (size_t)v->run * v->esize, rows = v->run ? n / (size_t)v->run : 0, left;
  /* Two levels at least, each run dense and whole, and no index vector, whose rows are nowhere at a
   * constant step. */
  if (!k || w->n != 2 || w->row >= 0 || v->run_step != v->esize || w->left != v->run ||
      bytes < NARROW || bytes > WIDE || rows < 2)
    return 0;
  left = (size_t)(w->dim[0].num - w->dim[0].index);
  return rows < left ? rows : left;
}

/* Moves a walk past all but the last of n runs of its outer dimension. */
static void pass_rows(vm_walk *w, size_t n) {
  w->dim[0].index += n - 1;
  w->run_at += (int64_t)(n - 1) * w->dim[0].step;
}

/* Address of an element of a partition that is one run: most are, and need no walk. */
static inline uint8_t *in_run(const vm_view *v, uint32_t p, uint64_t first) {
  /* With `place` each element has its own offset. */
  if (v->run != v->elems || v->place) return NULL;
  return v->at + (int64_t)p * v->step[0] + (int64_t)first * v->run_step;
}

/* k: gathers and scatters; NULL: none exist. */
static void load_raw(const vm_kern *k, void *dst, const vm_view *v, uint32_t p, uint64_t first,
                     size_t n) {
  uint8_t *out = dst, *at = in_run(v, p, first);
  vm_walk w;
  if (at) {
    copy_run(k, out, v->esize, at, v->run_step, n, v->esize);
    return;
  }
  vm_walk_partition(&w, v, p);
  for (vm_walk_seek(&w, first);; vm_walk_next_run(&w)) {
    /* Short rows one after another: the kernel moves all of them in one call, where copy_run would
     * be called for each. */
    size_t rows = short_rows(k, v, &w, n), m = rows ? rows * (size_t)v->run : piece(&w, n);
    size_t bytes = (size_t)v->run * v->esize;
    if (rows) {
      k->rows(out, (int64_t)bytes, w.at, w.dim[0].step, rows, bytes);
      pass_rows(&w, rows);
    } else {
      copy_run(k, out, v->esize, w.at, v->run_step, m, v->esize);
    }
    if ((n -= m) == 0) return;
    out += m * v->esize;
  }
}

static void store_raw(const vm_kern *k, const vm_view *v, uint32_t p, uint64_t first,
                      const void *src, size_t n) {
  const uint8_t *in = src;
  uint8_t *at = in_run(v, p, first);
  vm_walk w;
  if (at) {
    copy_run(k, at, v->run_step, in, v->esize, n, v->esize);
    return;
  }
  vm_walk_partition(&w, v, p);
  for (vm_walk_seek(&w, first);; vm_walk_next_run(&w)) {
    size_t rows = short_rows(k, v, &w, n), m = rows ? rows * (size_t)v->run : piece(&w, n);
    size_t bytes = (size_t)v->run * v->esize;
    if (rows) {
      k->rows(w.at, w.dim[0].step, in, (int64_t)bytes, rows, bytes);
      pass_rows(&w, rows);
    } else {
      copy_run(k, w.at, v->run_step, in, v->esize, m, v->esize);
    }
    if ((n -= m) == 0) return;
    in += m * v->esize;
  }
}

void vm_load_raw(void *dst, const vm_view *v, uint32_t p, uint64_t first, size_t n) {
  load_raw(NULL, dst, v, p, first, n);
}

void vm_store_raw(const vm_view *v, uint32_t p, uint64_t first, const void *src, size_t n) {
  store_raw(NULL, v, p, first, src, n);
}

uint8_t *vm_at(const vm_view *v, uint32_t p, uint64_t i) {
  vm_walk w;
  vm_walk_partition(&w, v, p);
  vm_walk_seek(&w, i);
  return w.at;
}

uint8_t *vm_row_at(const vm_view *v, uint32_t p, uint64_t first) {
  if (v->run != v->elems || v->run_step != v->esize) return NULL;
  return v->at + (int64_t)p * v->step[0] + (int64_t)first * v->esize;
}

/* The elements themselves, if in memory they are the contiguous fp32 that a kernel wants. */
static float *f32_at(const vm_view *v, uint32_t p, uint64_t first) {
  if (v->dtype != ISA_float32) return NULL;
  uint8_t *at = vm_row_at(v, p, first);
  return (uintptr_t)at % sizeof(float) == 0 ? (float *)(void *)at : NULL;
}

bool vm_rows_at(const vm_view *v, vm_rows *r) {
  r->at = f32_at(v, 0, 0);
  r->step = (ptrdiff_t)(v->step[0] / (int64_t)sizeof(float));
  return r->at && v->step[0] % (int64_t)sizeof(float) == 0;
}

bool vm_dense_at(const vm_view *v, vm_dense *r) {
  r->at = v->place ? NULL : vm_row_at(v, 0, 0);
  r->step = (ptrdiff_t)v->step[0];
  r->direct = v->dtype == ISA_float32 && (uintptr_t)r->at % sizeof(float) == 0 &&
              r->step % (ptrdiff_t)sizeof(float) == 0;
  return r->at && v->elems <= VM_ROW;
}

void vm_load(const vm_dp *d, float *dst, const vm_view *v, uint32_t p, uint64_t first, size_t n) {
  const uint8_t *row = vm_row_at(v, p, first);
  if (row) {
    d->k->load[v->dtype](dst, row, n);
    return;
  }
  /* A broadcast operand: one conversion for all. */
  if (v->run == v->elems && v->run_step == 0) { /* one element, repeated */
    d->k->load[v->dtype](dst, vm_at(v, p, 0), 1);
    for (size_t i = 1; i < n; i++) dst[i] = dst[0];
    return;
  }
  uint32_t raw[RAW / 4];
  /* fp32 needs no conversion, so no buffer either: the elements are gathered where they are wanted.
   */
  if (v->dtype == ISA_float32) {
    load_raw(d->k, dst, v, p, first, n);
    return;
  }
  load_raw(d->k, raw, v, p, first, n);
  d->k->load[v->dtype](dst, raw, n);
}

/* ---- Stochastic rounding ------------------------------------------------------------------ */

void vm_round_begin(vm_dp *d, unsigned round) {
  d->stochastic = round == ISA_ROUND_stochastic;
  /* The count makes each instruction round in its own way; the seed makes a run repeatable. */
  if (d->stochastic)
    d->rounding_key = isa_mix(isa_mix(d->rounding_seed + d->engine) + ++d->rounding_count);
}

void vm_round_end(vm_dp *d) { d->stochastic = false; }

static void store_stochastic(const vm_dp *d, const vm_view *v, uint32_t p, uint64_t first,
                             const float *src, size_t n) {
  uint32_t random[VM_ROW], bits[VM_ROW];
  /* By partition, not by call: a part of an instruction on another thread rounds as the whole does.
   */
  uint32_t from = (uint32_t)(isa_mix(d->rounding_key + d->lane + p) >> 32);
  d->k->random(random, from + (uint32_t)first * 0x9e3779b9u, n);
  /* Only bfloat16 has a kernel. */
  if (v->dtype == ISA_bfloat16) {
    uint8_t *row = vm_row_at(v, p, first);
    d->k->store_bf16_sr(row ? row : (uint8_t *)bits, src, random, n);
    if (!row) vm_store_raw(v, p, first, bits, n);
    return;
  }
  for (size_t i = 0; i < n; i++) bits[i] = isa_from_f32_sr(v->dtype, src[i], d->cvt, random[i]);
  vm_store_bits(v, p, first, bits, n);
}

void vm_store(const vm_dp *d, const vm_view *v, uint32_t p, uint64_t first, const float *src,
              size_t n) {
  if (d->stochastic) {
    store_stochastic(d, v, p, first, src, n);
    return;
  }
  uint8_t *row = vm_row_at(v, p, first);
  if (row) {
    d->k->store[v->dtype](row, src, n, d->cvt);
    return;
  }
  uint32_t raw[RAW / 4];
  d->k->store[v->dtype](raw, src, n, d->cvt);
  store_raw(d->k, v, p, first, raw, n);
}

const float *vm_in(const vm_dp *d, float *buf, const vm_view *v, uint32_t p, uint64_t first,
                   /* A dense fp32 row costs nothing: the kernel reads the tile itself. */
                   size_t n) {
  const float *row = f32_at(v, p, first);
  if (row) return row;
  vm_load(d, buf, v, p, first, n);
  return buf;
}

float *vm_out(float *buf, const vm_view *v, uint32_t p, uint64_t first) {
  float *row = f32_at(v, p, first);
  return row ? row : buf;
}

void vm_out_done(const vm_dp *d, const vm_view *v, uint32_t p, uint64_t first, const float *out,
                 size_t n) {
  /* The kernel has written where the elements are. */
  if (f32_at(v, p, first) == out) return;
  if (v->dtype == ISA_float32)
    store_raw(d->k, v, p, first, out, n); /* canonical, as when it is computed in place */
  else
    vm_store(d, v, p, first, out, n);
}

/* Bytes and half words to and from words: in blocks, which compilers vectorise. */
enum { BLOCK = 16 };

static void widen(uint32_t *dst, const uint8_t *src, size_t n, unsigned esize) {
  uint16_t half[BLOCK];
  size_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK, src += BLOCK * esize, dst += BLOCK) {
    if (esize == 1) {
      for (size_t j = 0; j < BLOCK; j++) dst[j] = src[j];
    } else {
      memcpy(half, src, sizeof half);
      for (size_t j = 0; j < BLOCK; j++) dst[j] = half[j];
    }
  }
  for (; i < n; i++, src += esize) {
    if (esize == 1)
      half[0] = *src;
    else
      memcpy(half, src, 2);
    *dst++ = half[0];
  }
}

static void narrow(uint8_t *dst, const uint32_t *src, size_t n, unsigned esize) {
  uint16_t half[BLOCK];
  size_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK, dst += BLOCK * esize, src += BLOCK) {
    if (esize == 1) {
      for (size_t j = 0; j < BLOCK; j++) dst[j] = (uint8_t)src[j];
    } else {
      for (size_t j = 0; j < BLOCK; j++) half[j] = (uint16_t)src[j];
      memcpy(dst, half, sizeof half);
    }
  }
  for (; i < n; i++, dst += esize) {
    half[0] = (uint16_t)*src++;
    if (esize == 1)
      *dst = (uint8_t)half[0];
    else
      memcpy(dst, half, 2);
  }
}

void vm_load_bits(uint32_t *dst, const vm_view *v, uint32_t p, uint64_t first, size_t n) {
  uint32_t raw[RAW / 4];
  const uint8_t *row = vm_row_at(v, p, first);
  if (v->esize == 4) {
    if (row)
      memcpy(dst, row, n * sizeof *dst);
    else
      vm_load_raw(dst, v, p, first, n);
    return;
  }
  if (!row) vm_load_raw(raw, v, p, first, n);
  widen(dst, row ? row : (const uint8_t *)raw, n, v->esize);
}

void vm_store_bits(const vm_view *v, uint32_t p, uint64_t first, const uint32_t *src, size_t n) {
  uint32_t raw[RAW / 4];
  uint8_t *row = vm_row_at(v, p, first);
  if (v->esize == 4) {
    vm_store_raw(v, p, first, src, n);
    return;
  }
  narrow(row ? row : (uint8_t *)raw, src, n, v->esize);
  if (!row) vm_store_raw(v, p, first, raw, n);
}

float vm_num_at(const vm_dp *d, const vm_num *n, uint32_t p, float absent) {
  float x;
  /* A register's or an immediate's value is the same for all partitions. */
  if (!n->given) return absent;
  if (!n->v.at) return n->imm;
  vm_load(d, &x, &n->v, p, 0, 1);
  return x;
}

void vm_alu_scalar(const vm_dp *d, unsigned op, float *o, const float *x, float s, bool reverse,
                   size_t n) {
  /* An operator of one argument has no other side to swap with. */
  if (reverse && isa_aluops[op].arity == 2)
    d->k->alu_sv[op](o, s, x, n);
  else
    d->k->alu_vs[op](o, x, s, n);
}

void vm_accumulate(float *acc, unsigned cmd, unsigned op, float init, float row) {
  /* In this order: reset_reduce resets, then reduces. */
  if (cmd == ISA_CMD_reset || cmd == ISA_CMD_reset_reduce) *acc = vm_kern_identity(op);
  if (cmd == ISA_CMD_load_reduce) *acc = init;
  if (vm_cmd_reduces(cmd)) *acc = vm_alu_f32(op, *acc, row);
}

void vm_partials_start(unsigned op, float part[16]) {
  float start = vm_kern_identity(op);
  for (int i = 0; i < 16; i++) part[i] = start;
  /* One operator's identity for all sixteen: combining partials that got nothing changes nothing.
   */
}

static void copy_partition(const vm_kern *k, const vm_view *dst, const vm_view *src, uint32_t p) {
  uint32_t raw[RAW / 4];
  uint8_t *to = vm_row_at(dst, p, 0);
  const uint8_t *from = vm_row_at(src, p, 0);
  /* As many elements as the buffer has bytes for. */
  size_t step = RAW / dst->esize;
  for (uint64_t i = 0; i < dst->elems; i += step) {
    size_t n = dst->elems - i < step ? (size_t)(dst->elems - i) : step;
    void *piece_at = to ? (void *)(to + i * dst->esize) : raw;
    /* One side dense: no buffer between. Most copies are from or to a dense tile. */
    if (from) {
      store_raw(k, dst, p, i, from + i * src->esize, n);
      continue;
    }
    load_raw(k, piece_at, src, p, i, n);
    if (!to) store_raw(k, dst, p, i, raw, n);
  }
}

void vm_copy_bits(const vm_kern *k, const vm_view *dst, const vm_view *src) {
  uint8_t *to = vm_row_at(dst, 0, 0);
  const uint8_t *from = vm_row_at(src, 0, 0);
  size_t bytes = (size_t)dst->elems * dst->esize;
  if (to && from && bytes <= RAW) { /* one piece per row, and nothing to look up for each row */
    if (bytes >= NARROW && bytes <= WIDE) {
      k->rows(to, dst->step[0], from, src->step[0], dst->num[0], bytes);
      return;
    }
    for (uint32_t p = 0; p < dst->num[0]; p++, to += dst->step[0], from += src->step[0])
      memmove(to, from, bytes);
    return;
  }
  for (uint32_t p = 0; p < dst->num[0]; p++) copy_partition(k, dst, src, p);
}

bool vm_tile_as_row(vm_view *out, const vm_view *v) {
  /* Only where the elements of a partition are one run can a partition be a dimension of one row.
   */
  if (v->num[0] < 2 || v->elems == 0 || v->elems > VM_FEW || v->run != v->elems || v->place)
    return false;
  *out = *v;
  /* Dimension 0 is the partitions of a view: now there is one, and theirs are dimension 1. */
  out->ndim = 3;
  out->num[0] = 1;
  out->num[1] = v->num[0];
  out->step[1] = v->step[0];
  out->num[2] = (uint32_t)v->run;
  out->step[2] = v->run_step;
  out->elems = v->num[0] * v->elems;
  vm_view_runs(out);
  return true;
}

/* ---- Partitions as lanes ------------------------------------------------------------------ */

void vm_load_block(const vm_dp *d, float *block, const vm_view *v, uint64_t i, size_t n) {
  uint32_t lanes = v->num[0];
  vm_rows x;
  if (vm_rows_at(v, &x)) {
    x.at += i;
  } else {
    /* Not fp32 where it is: converted row by row into the scratch, and turned from there. */
    x = (vm_rows){d->scratch, VM_BLOCK};
    for (uint32_t p = 0; p < lanes; p++) vm_load(d, x.at + p * VM_BLOCK, v, p, i, n);
  }
  vm_kern_turn(block, lanes * (ptrdiff_t)sizeof *block, x.at, x.step * (ptrdiff_t)sizeof *block,
               lanes, n, sizeof *block);
}

void vm_store_block(const vm_dp *d, const vm_view *v, uint64_t i, const float *block, size_t n) {
  uint32_t lanes = v->num[0];
  vm_rows o;
  bool there = vm_rows_at(v, &o);
  o = there ? (vm_rows){o.at + i, o.step} : (vm_rows){d->scratch, VM_BLOCK};
  vm_kern_turn(o.at, o.step * (ptrdiff_t)sizeof *block, block, lanes * (ptrdiff_t)sizeof *block, n,
               lanes, sizeof *block);
  /* Each row as vm_out_done stores it: a NaN of arithmetic has one form, whichever way it went. */
  for (uint32_t p = 0; p < lanes && !there; p++) vm_out_done(d, v, p, i, o.at + p * VM_BLOCK, n);
}

void vm_nums_spread(const vm_dp *d, float *out, const vm_num *n, uint32_t lanes, size_t elems) {
  float x[ISA_PMAX];
  vm_nums(d, x, n, lanes, 0);
  d->k->spread(out, x, lanes, elems);
}

void vm_nums(const vm_dp *d, float *out, const vm_num *n, uint32_t lanes, float absent) {
  vm_view row;
  /* A column of one value for each partition: one load instead of one for each. */
  if (n->v.at && n->v.elems == 1 && n->v.num[0] == lanes && vm_tile_as_row(&row, &n->v)) {
    vm_load(d, out, &row, 0, 0, lanes);
    return;
  }
  for (uint32_t p = 0; p < lanes; p++) out[p] = vm_num_at(d, n, p, absent);
}
