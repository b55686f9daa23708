/* The tensor engine: matmul, and its way into PSUM. weights.c has the other operand. */
#include "pe.h"

#include <string.h>

/* ---- Fresh elements of PSUM --------------------------------------------------------------- */

/* The slot that holds the element at `at`, and which of its halves the element fills: for example a
 * bfloat16 at byte 2 of a bank's first word is the high half of slot 0. */
static uint8_t *slot_at(const vm_dp *d, const vm_view *v, uint32_t p, const uint8_t *at,
                        uint8_t *mask) {
  uint32_t part = v->part + p;
  size_t byte = (size_t)(at - d->psum) - part * d->psum_pitch;
  *mask = (uint8_t)(v->esize == 4 ? VM_BOTH_HALVES : 1 << (byte / 2 % 2));
  return d->psum_written + vm_psum_slot(part, byte);
}

/* The slots of n elements of a dense row that fill whole consecutive slots of one bank, and how
 * many there are; else NULL. */
static uint8_t *dense_slots(const vm_dp *d, const vm_view *v, uint32_t p, uint64_t first,
                            uint64_t n, size_t *count) {
  uint8_t mask, *slots;
  const uint8_t *at = vm_row_at(v, p, first);
  if (!at || (v->esize != 4 && v->esize != 2)) return NULL;
  slots = slot_at(d, v, p, at, &mask);
  if (v->esize == 2 && (n % 2 || mask != 1)) return NULL; /* begins or ends within a slot */
  *count = (size_t)n * v->esize / 4;
  if ((size_t)(slots - d->psum_written) % VM_BANK_SLOTS + *count > VM_BANK_SLOTS) return NULL;
  return slots;
}

enum fresh_state { ALL_FRESH, NONE_FRESH, SOME_FRESH };

static enum fresh_state state_of(const uint8_t *slots, size_t count) {
  /* All slots alike: a row compares equal with itself moved by one. A slot of which one half is
   * written counts as mixed. */
  if ((*slots && *slots != VM_BOTH_HALVES) || memcmp(slots, slots + 1, count - 1) != 0)
    return SOME_FRESH;
  return *slots ? NONE_FRESH : ALL_FRESH;
}

/* Marks n elements as written; fresh[i]: element i was not. */
static enum fresh_state take_fresh(const vm_dp *d, const vm_view *v, uint32_t p, uint64_t first,
                                   size_t n, bool *fresh) {
  size_t count;
  uint8_t mask, *slots = dense_slots(d, v, p, first, n, &count);
  /* Almost every product writes rows of whole slots: one memset, and no array of flags. */
  enum fresh_state state = slots ? state_of(slots, count) : SOME_FRESH;
  if (state != SOME_FRESH) {
    memset(slots, VM_BOTH_HALVES, count);
    return state;
  }
  for (size_t i = 0; i < n; i++) {
    uint8_t *s = slot_at(d, v, p, vm_at(v, p, first + i), &mask);
    fresh[i] = (*s & mask) != mask;
    *s |= mask;
  }
  return SOME_FRESH;
}

/* The slots of n elements of a result's first row, if those of the other rows have the same layout,
 * each row's VM_BANK_SLOTS after those of the row before; else NULL. */
static uint8_t *whole_slots(const vm_dp *d, const vm_view *v, uint64_t first, size_t n,
                            size_t *count) {
  /* The slots of a row are VM_BANK_SLOTS after those of the row before only if the rows are in
   * neighbouring partitions. */
  if (v->step[0] != (int64_t)d->psum_pitch) return NULL;
  return dense_slots(d, v, 0, first, n, count);
}

static void mark_whole(uint8_t *slots, uint32_t rows, size_t count) {
  for (uint32_t p = 0; p < rows; p++) memset(slots + p * VM_BANK_SLOTS, VM_BOTH_HALVES, count);
}

/* Whether n elements of every row of a result are consecutive fp32, and all are to be overwritten
 * or all to be added to: *add. They are then marked as written. */
static bool take_whole(const vm_dp *d, const vm_view *v, unsigned acc, uint64_t first, size_t n,
                       bool *add) {
  size_t count;
  uint8_t *slots = v->dtype == ISA_float32 ? whole_slots(d, v, first, n, &count) : NULL;
  if (!slots) return false;
  enum fresh_state all = state_of(slots, count);
  /* Only `auto` needs to know each row: `write` and `add` do the same whatever was there. */
  for (uint32_t p = 0; acc == ISA_ACC_auto && p < v->num[0]; p++) {
    enum fresh_state state = state_of(slots + p * VM_BANK_SLOTS, count);
    if (state == SOME_FRESH || state != all) return false;
  }
  /* From here on it cannot fail: marks are set only when all rows are known to agree. */
  mark_whole(slots, v->num[0], count);
  *add = acc == ISA_ACC_auto ? all == NONE_FRESH : acc != ISA_ACC_write;
  return true;
}

void vm_pe_set_fresh(const vm_dp *d, const vm_view *v) {
  for (uint32_t p = 0; p < v->num[0]; p++) {
    size_t count;
    uint8_t mask, *slots = dense_slots(d, v, p, 0, v->elems, &count);
    /* Whole slots are cleared at once; a bfloat16 at an odd place clears one half only. */
    if (slots) {
      memset(slots, 0, count);
      continue;
    }
    for (uint64_t i = 0; i < v->elems; i++) {
      uint8_t *s = slot_at(d, v, p, vm_at(v, p, i), &mask);
      *s &= (uint8_t)~mask;
    }
  }
}

/* ---- matmul ------------------------------------------------------------------------------- */

static bool is_wide(unsigned dtype) { return dtype == ISA_float32 || dtype == ISA_tfloat32; }

/* What the verifier cannot know: which stationary operand is loaded, and sizes in registers. */
static vm_verdict check_loaded(vm_dp *d, const struct vm_MATMUL *a, const vm_stationary *t) {
  unsigned pairs = a->perf == ISA_PERF_double_row, lanes = pairs ? 2 : 1;
  const char *moving = isa_dtypes[a->src.dtype].name, *loaded = isa_dtypes[t->dtype].name;
  if (t->k == 0)
    return vm_dp_fault(d, "matmul: no stationary operand is loaded at tile (%u, %u)", a->tile_row,
                       a->tile_col);
  if (t->rows != vm_pe_size(a->tile_rows) || t->cols != vm_pe_size(a->tile_cols))
    return vm_dp_fault(d, "matmul: tile of %u x %u, but ldweights used %u x %u",
                       vm_pe_size(a->tile_rows), vm_pe_size(a->tile_cols), t->rows, t->cols);
  if (t->mx) return vm_dp_fault(d, "matmul: the stationary operand was loaded by ldweights_mx");
  if (t->pairs != pairs)
    return vm_dp_fault(d, "matmul: perf=double_row must be the same as in ldweights");
  if (a->src.num[0] * lanes != t->k)
    return vm_dp_fault(d, "matmul: the moving operand has %u partitions, the stationary one %u",
                       (unsigned)a->src.num[0], t->k / lanes);
  if (a->dst.num[0] != t->m)
    return vm_dp_fault(d, "matmul: dst has %u partitions, the stationary operand %u columns",
                       (unsigned)a->dst.num[0], t->m);
  if (a->dst.elems * lanes != a->src.elems)
    return vm_dp_fault(d, "matmul: dst has %llu columns, the moving operand %llu",
                       (unsigned long long)a->dst.elems, (unsigned long long)a->src.elems / lanes);
  if (is_wide(a->src.dtype) != is_wide(t->dtype))
    return vm_dp_fault(d,
                       "matmul: moving %s with stationary %s: a 32-bit type needs a 32-bit type on "
                       "both sides",
                       moving, loaded);
  if ((a->src.dtype == ISA_float8_e4m3 && t->dtype == ISA_float8_e4m3fn) ||
      (a->src.dtype == ISA_float8_e4m3fn && t->dtype == ISA_float8_e4m3))
    return vm_dp_fault(d, "matmul: moving %s with stationary %s: the two do not mix", moving,
                       loaded);
  return VM_RETIRE;
}

/* Columns first .. first + p->n - 1 of the moving operand: in place, or in the scratch. */
static void moving_block(const vm_dp *d, const struct vm_MATMUL *a, uint64_t first, vm_product *p) {
  const vm_view *v = &a->src;
  unsigned lanes = a->perf == ISA_PERF_double_row ? 2 : 1;
  uint64_t columns = v->elems / lanes;
  size_t n = p->n;
  p->dtype = v->dtype;
  p->step = (ptrdiff_t)v->step[0];
  /* The kernels read fp32 and bfloat16 where they are. PSUM and pairs need a copy: of pairs the two
   * rows of a partition follow one another in its elements. */
  p->x = lanes == 1 && v->space == ISA_SBUF ? vm_row_at(v, 0, first) : NULL;
  if (p->x && (v->dtype == ISA_float32 || v->dtype == ISA_bfloat16)) return;
  /* Row lanes * i + j of the contraction: the pair of a partition stays together, as
   * vm_op_ldweights put its weights. */
  for (uint32_t i = 0; i < v->num[0]; i++)
    for (unsigned j = 0; j < lanes; j++)
      vm_load(d, d->scratch + (lanes * i + j) * n, v, i, j * columns + first, n);
  p->dtype = ISA_float32;
  p->step = (ptrdiff_t)(n * sizeof *d->scratch);
  p->x = d->scratch;
}

/* Stores n finished sums of row m from element `first` on: over the old values, or added to them,
 * according to acc (ISA_ACC_...). n is at most VM_COLUMNS. */
static void put_row(vm_dp *d, const vm_view *dst, unsigned acc, uint32_t m, uint64_t first,
                    const float *sum, size_t n) {
  bool fresh[VM_COLUMNS];
  enum fresh_state state = take_fresh(d, dst, m, first, n, fresh);
  /* Nothing old is needed: the sum is the result. */
  if (acc == ISA_ACC_write || (acc == ISA_ACC_auto && state == ALL_FRESH)) {
    vm_store(d, dst, m, first, sum, n);
    return;
  }
  const float *old = vm_in(d, d->row[0], dst, m, first, n);
  float *out = vm_out(d->row[1], dst, m, first);
  /* Some elements are new: all are added into a buffer, and the new ones take the sum alone, since
   * what is in PSUM there means nothing (it may be a NaN). */
  if (acc == ISA_ACC_auto && state == SOME_FRESH) {
    d->k->alu_vv[ISA_ALU_add](d->row[1], old, sum, n);
    for (size_t i = 0; i < n; i++) out[i] = fresh[i] ? sum[i] : d->row[1][i];
  } else {
    d->k->alu_vv[ISA_ALU_add](out, old, sum, n);
  }
  vm_out_done(d, dst, m, first, out, n);
}

void vm_pe_product(vm_dp *d, unsigned row, unsigned col, vm_product *p, const vm_view *dst,
                   unsigned acc, uint64_t first) {
  const vm_stationary *t = vm_pe_tile(d, row, col);
  p->w = vm_pe_weights(d, row, col);
  p->ldw = VM_WEIGHTS;
  p->k = t->k;
  p->m = t->m;
  /* The usual case: the kernel accumulates in PSUM itself, and the product may go on in other
   * threads (stays). */
  if (take_whole(d, dst, acc, first, p->n, &p->add)) {
    p->out = (float *)(void *)vm_row_at(dst, 0, first);
    p->ldo = d->psum_pitch / sizeof *p->out;
    vm_pe_multiply(d, row, col, p, p->x != d->scratch);
    return;
  }
  /* Else the sums are made beside the operand in the scratch, and each row goes its own way. */
  p->out = d->scratch + ISA_PMAX * VM_COLUMNS;
  p->ldo = p->n;
  p->add = false;
  vm_pe_multiply(d, row, col, p, false);
  for (uint32_t m = 0; m < p->m; m++) put_row(d, dst, acc, m, first, p->out + m * p->ldo, p->n);
}

static void multiply(vm_dp *d, const struct vm_MATMUL *a, const vm_stationary *t) {
  /* Pairs take two rows of the scratch for a partition: half as many columns fit. */
  size_t most = t->pairs ? VM_COLUMNS / 2 : VM_COLUMNS;
  for (uint64_t i = 0; i < a->dst.elems; i += most) {
    vm_product p = {.n = (unsigned)(a->dst.elems - i < most ? a->dst.elems - i : most)};
    moving_block(d, a, i, &p);
    vm_pe_product(d, a->tile_row, a->tile_col, &p, &a->dst, a->acc, i);
  }
}

/* from[j] = k where x[j] is not zero. In blocks, which compilers vectorise. */
static void take_row(uint32_t *from, const float *x, uint32_t k, size_t n) {
  enum { BLOCK = 16 };
  size_t j = 0;
  for (; j + BLOCK <= n; j += BLOCK)
    for (size_t i = j; i < j + BLOCK; i++) from[i] = x[i] != 0 ? k : from[i];
  for (; j < n; j++) from[j] = x[j] != 0 ? k : from[j];
}

/* Whether the rows of a dense operand are those of an identity, or of one times a number. Only
 * their bits are compared: other zeros and numbers are left to take_row. */
static bool is_diagonal(const vm_dp *d, const vm_view *v) {
  uint8_t line[2 * 4 * ISA_PMAX] = {0}; /* a row that moves one to the left from each row to the
                                           next */
  const uint8_t *row = v->at, *want = line + 4 * ISA_PMAX;
  const size_t bytes = (size_t)v->elems * v->esize;
  float one;
  /* The factor is the first element: row 0 of a diagonal has it in column 0. */
  d->k->load[v->dtype](&one, row, 1);
  /* A zero there: no diagonal, or one whose rows are all zeros, which choose_rows handles. */
  if (one == 0) return false;
  memcpy(line + 4 * ISA_PMAX, row, v->esize);
  /* Row k must be the line seen through a window that moves one element to the left: the factor is
   * then at column k. */
  for (uint32_t k = 0; k < v->num[0]; k++, row += v->step[0], want -= v->esize)
    if (memcmp(row, want, bytes) != 0) return false;
  return true;
}

/* Whether the moving operand is an identity. That holds until it is written: programs have one
 * identity for all transposes. */
static bool is_identity(const vm_dp *d, const vm_view *v) {
  vm_unchanged *known = &d->weights->identity;
  if (vm_pe_is_noted(known, v)) return true;
  /* More columns than rows: the columns beyond have no row with a one. */
  if (!vm_row_at(v, 0, 0) || v->elems > v->num[0] || !is_diagonal(d, v)) return false;
  /* Noted only where somebody watches for writes (vm_pe_overwrite): SBUF of a run whose products
   * may stay open. */
  if (d->job && v->space == ISA_SBUF) vm_pe_note(known, v);
  return true;
}

/* The rows that become columns i .. i + n - 1 of the result, one after another in the scratch: for
 * each, the stationary elements of the first partition whose moving element is not zero. */
static void choose_rows(const vm_dp *d, const struct vm_MATMUL *a, const vm_stationary *t,
                        uint64_t i, size_t n) {
  uint32_t from[VM_COLUMNS], k = t->k;
  uint8_t *to = (uint8_t *)d->scratch;
  int64_t step;
  const uint8_t *first = vm_pe_raw(d->weights, a->tile_row, a->tile_col, &step);
  const unsigned esize = isa_dtype_bytes(t->dtype);
  /* k: no partition has a nonzero there, the column is zeros. */
  for (size_t j = 0; j < n; j++) from[j] = k;
  /* From the last partition to the first, so that the first one is the one that stays. */
  while (k-- > 0) take_row(from, vm_in(d, d->row[0], &a->src, k, i, n), k, n);
  for (size_t j = 0; j < n; j++, to += VM_RAW_ROW) {
    memset(to, 0, VM_RAW_ROW);
    if (from[j] == t->k) continue;
    const uint8_t *raw = first + from[j] * step;
    /* fp8 becomes 16 bits: every second byte stays 0. */
    for (unsigned m = 0; esize == 1 && m < t->m; m++) to[2 * m] = raw[m];
    if (esize > 1) memcpy(to, raw, t->m * esize);
  }
}

/* Transpose mode moves bits: element n of row m is the stationary element of the partition whose
 * moving element n is not zero (of the first one; none: 0). fp8 becomes 16 bits with the upper half
 * zero. It overwrites. */
static vm_verdict transpose(vm_dp *d, const struct vm_MATMUL *a, const vm_stationary *t) {
  enum { OUT_ROW = 4 * VM_COLUMNS };
  const unsigned esize = isa_dtype_bytes(t->dtype), bytes = esize == 1 ? 2 : esize;
  /* The half of the scratch that choose_rows does not use. */
  uint8_t *out = (uint8_t *)(d->scratch + ISA_PMAX * VM_COLUMNS);
  if (a->dst.esize != bytes)
    return vm_dp_fault(d, "matmul: transposing %s gives elements of %u bytes, dst is %s",
                       isa_dtypes[t->dtype].name, bytes, isa_dtypes[a->dst.dtype].name);
  for (uint64_t i = 0; i < a->dst.elems; i += VM_COLUMNS) {
    size_t n = a->dst.elems - i < VM_COLUMNS ? (size_t)(a->dst.elems - i) : VM_COLUMNS;
    int64_t step;
    size_t count;
    uint8_t *slots = whole_slots(d, &a->dst, i, n, &count);
    const uint8_t *from = vm_pe_raw(d->weights, a->tile_row, a->tile_col, &step);
    /* By an identity the rows are in order already; fp8 needs its zero bytes, so that it goes
     * through the scratch in any case. */
    if (esize == 1 || !is_identity(d, &a->src)) {
      choose_rows(d, a, t, i, n);
      from = (const uint8_t *)d->scratch;
      step = VM_RAW_ROW;
    }
    /* A dense result is turned straight into PSUM. */
    if (slots) {
      mark_whole(slots, t->m, count);
      vm_kern_turn(vm_row_at(&a->dst, 0, i), (ptrdiff_t)a->dst.step[0], from, (ptrdiff_t)step, n,
                   t->m, bytes);
      continue;
    }
    vm_kern_turn(out, OUT_ROW, from, (ptrdiff_t)step, n, t->m, bytes);
    for (uint32_t m = 0; m < t->m; m++) {
      bool fresh[VM_COLUMNS];
      /* The marks alone: a transpose overwrites, so that `fresh` is not looked at. */
      take_fresh(d, &a->dst, m, i, n, fresh);
      vm_store_raw(&a->dst, m, i, out + m * OUT_ROW, n);
    }
  }
  return VM_RETIRE;
}

static bool is_transpose(const vm_dp *d, const struct vm_MATMUL *a, const vm_stationary *t) {
  /* gen2 has no transpose mode: there it is an ordinary product. */
  return a->transpose && d->target->gen >= ISA_GEN3 && !t->pairs;
}

vm_verdict vm_op_matmul(vm_dp *d, const struct vm_MATMUL *a) {
  /* Even if nothing is multiplied: the operand says what a later `auto` finds. */
  if (a->psum_zero.at) vm_pe_set_fresh(d, &a->psum_zero);
  if (a->src.elems == 0 || a->src.num[0] == 0) return VM_RETIRE;
  const vm_stationary *t = vm_pe_tile(d, a->tile_row, a->tile_col);
  vm_verdict verdict = check_loaded(d, a, t);
  if (verdict != VM_RETIRE) return verdict;
  if (is_transpose(d, a, t)) return transpose(d, a, t);
  multiply(d, a, t);
  return VM_RETIRE;
}
