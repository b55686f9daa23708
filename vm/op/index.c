/* GpSimd instructions whose results are positions: sequence_bounds, nonzero_with_count, topk. */
#include "op.h"

#include <string.h>

/* ---- sequence_bounds ---------------------------------------------------------------------- */

/* Segment ids of a piece and of its neighbours, as words that are equal when the ids are, 0 for
 * padding. Of a float id, NAN_ID is a NaN, which equals nothing. */
typedef struct ids {
  uint32_t id[VM_ROW + 2]; /* id[1] is the piece's first */
} ids;
enum { NAN_ID = 0x7fc00000 };

static bool same_segment(uint32_t a, uint32_t b, bool is_float) {
  return a == b && !(is_float && a == NAN_ID);
}

static void load_ids(const vm_dp *d, ids *s, const vm_view *v, uint64_t first, size_t n) {
  /* One more element on either side, where the row has it: the neighbours decide where segments
   * begin and end. */
  uint64_t lo = first ? first - 1 : 0, hi = first + n < v->elems ? first + n + 1 : v->elems;
  /* Without a left neighbour id[0] stays unused, and the piece begins at id[1] all the same. */
  uint32_t *to = s->id + (first ? 0 : 1);
  float x[VM_ROW + 2];
  if (v->dtype == ISA_int32) {
    vm_load_raw(to, v, 0, lo, (size_t)(hi - lo));
    return;
  }
  vm_load_raw(x, v, 0, lo, (size_t)(hi - lo));
  d->k->alu_vs[ISA_ALU_add](x, x, 0, (size_t)(hi - lo)); /* -0 to +0, NaN to the canonical one */
  memcpy(to, x, (size_t)(hi - lo) * sizeof *x);
}

/* Bounds are far below 2^24: exact in either type. */
static void store_bounds(const vm_dp *d, const vm_view *dst, uint64_t first, const int32_t *bound,
                         size_t n) {
  uint32_t bits[VM_ROW];
  float x[VM_ROW];
  if (dst->dtype == ISA_int32) {
    memcpy(bits, bound, n * sizeof *bits);
    vm_store_bits(dst, 0, first, bits, n);
    return;
  }
  for (size_t i = 0; i < n; i++) x[i] = (float)bound[i];
  vm_store(d, dst, 0, first, x, n);
}

/* Start of each element's segment, from the front; for padding it is the number of elements. */
static void starts(const vm_dp *d, const struct vm_UNARY *a) {
  int32_t bound[VM_ROW], start = 0, total = (int32_t)a->src.elems;
  bool is_float = a->src.dtype == ISA_float32;
  ids s;
  for (uint64_t i = 0; i < a->src.elems; i += VM_ROW) {
    size_t n = vm_piece(a->src.elems, i);
    load_ids(d, &s, &a->src, i, n);
    /* The element before decides whether a segment begins, also where it is in the piece before. */
    for (size_t j = 0; j < n; j++) {
      if (i + j == 0 || !same_segment(s.id[j + 1], s.id[j], is_float)) start = (int32_t)(i + j);
      bound[j] = s.id[j + 1] ? start : total;
    }
    store_bounds(d, &a->dst, i, bound, n);
  }
}

/* End of each element's segment, from the back, one past its last; padding ends at -1. */
static void ends(const vm_dp *d, const struct vm_UNARY *a) {
  int32_t bound[VM_ROW], end = 0;
  bool is_float = a->src.dtype == ISA_float32;
  uint64_t total = a->src.elems;
  ids s;
  /* Pieces from the last to the first, and elements in each likewise: an end is known only from
   * behind. */
  for (uint64_t piece = (total + VM_ROW - 1) / VM_ROW; piece-- > 0;) {
    uint64_t i = piece * VM_ROW;
    size_t n = vm_piece(total, i);
    load_ids(d, &s, &a->src, i, n);
    for (size_t j = n; j-- > 0;) {
      if (i + j + 1 == total || !same_segment(s.id[j + 1], s.id[j + 2], is_float))
        end = (int32_t)(i + j + 1);
      bound[j] = s.id[j + 1] ? end : -1;
    }
    /* The second half of dst has the ends. */
    store_bounds(d, &a->dst, total + i, bound, n);
  }
}

vm_verdict vm_op_sequence_bounds(vm_dp *d, const struct vm_UNARY *a) {
  if (a->src.elems == 0 || a->src.num[0] == 0) return VM_RETIRE;
  if (a->dst.elems != 2 * a->src.elems || a->dst.num[0] != 1 || a->src.num[0] != 1)
    return vm_dp_fault(d, "sequence_bounds: the shapes of dst and src do not fit");
  starts(d, a);
  ends(d, a);
  return VM_RETIRE;
}

/* ---- nonzero_with_count ------------------------------------------------------------------- */

/* Stores the indices of the nonzero elements among first .. first + n - 1, which are x, after the
 * `found` ones before; returns how many there are now. */
static uint64_t store_indices(const struct vm_NONZERO *a, uint32_t p, uint64_t found,
                              uint64_t first, const uint32_t *x, size_t n) {
  /* The sign of a float zero does not count. */
  uint32_t index[VM_ROW], magnitude = a->src.dtype == ISA_float32 ? 0x7fffffff : UINT32_MAX;
  size_t hits = 0;
  for (size_t i = 0; i < n; i++) {
    /* Written in any case, counted only if it is a hit: no branch for each element. */
    index[hits] = (uint32_t)(first + i) + (uint32_t)a->index_offset;
    hits += (x[i] & magnitude) != 0;
  }
  /* Compacted: the hits of a piece follow those before it. */
  if (hits) vm_store_bits(&a->dst, p, found, index, hits);
  return found + hits;
}

static void store_padding(const struct vm_NONZERO *a, uint32_t p, uint64_t from) {
  uint32_t pad[VM_ROW];
  for (size_t i = 0; i < VM_ROW; i++) pad[i] = (uint32_t)a->padding;
  /* What no index fills up to the end of the row; its last element is the count. */
  for (; from < a->src.elems; from += VM_ROW)
    vm_store_bits(&a->dst, p, from, pad, vm_piece(a->src.elems, from));
}

vm_verdict vm_op_nonzero_with_count(vm_dp *d, const struct vm_NONZERO *a) {
  uint32_t x[VM_ROW];
  if (a->dst.elems != a->src.elems + 1 || a->dst.num[0] != a->src.num[0])
    return vm_dp_fault(d, "nonzero_with_count: the shapes of dst and src do not fit");
  /* One partition of each core of gpsimd has data: the first of its sixteen. */
  for (uint32_t p = 0; p < a->src.num[0]; p += ISA_GP_PARTS) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < a->src.elems; i += VM_ROW) {
      size_t n = vm_piece(a->src.elems, i);
      vm_load_bits(x, &a->src, p, i, n);
      found = store_indices(a, p, found, i, x, n);
    }
    store_padding(a, p, found);
    uint32_t count = (uint32_t)found;
    vm_store_bits(&a->dst, p, a->src.elems, &count, 1);
  }
  return VM_RETIRE;
}

/* ---- topk --------------------------------------------------------------------------------- */

/* A snake: element i of a core's list is in partition i % 16, column i / 16. Sorting uses words
 * with a value's rank in the high half and its index in the low one; every NaN ranks below
 * -infinity and -0 below +0. */
enum { TOPK_MAX = 65536 };

static uint32_t rank_of(uint32_t bf16) {
  /* A NaN of either sign: the least rank, so that it is never among the k unless there is nothing
   * else. */
  if ((bf16 & 0x7fff) > 0x7f80) return 0;
  /* Negative numbers in reverse order below the positive ones: words then compare as the values do.
   */
  return bf16 & 0x8000 ? 0xffff - bf16 : bf16 + 0x8000;
}

/* From the last element to the first, so that of equal values the later one sorts first. */
static void load_snake(uint32_t *key, const vm_view *src, uint32_t core, uint32_t n) {
  /* Its length in partition q: elements q, q + 16, q + 32 ... */
  uint32_t x[VM_ROW];
  for (uint32_t q = 0; q < ISA_GP_PARTS; q++) {
    uint32_t columns = n > q ? (n - q - 1) / ISA_GP_PARTS + 1 : 0;
    for (uint32_t c = 0; c < columns; c += VM_ROW) {
      size_t m = vm_piece(columns, c);
      vm_load_bits(x, src, ISA_GP_PARTS * core + q, c, m);
      for (uint32_t j = 0; j < m; j++) {
        uint32_t i = ISA_GP_PARTS * (c + j) + q;
        /* The index in the low half: sorting moves it along, and it fits since n is below TOPK_MAX.
         */
        key[n - 1 - i] = rank_of(x[j]) << 16 | i;
      }
    }
  }
}

/* One stable pass by the byte at `shift`. */
static void sort_pass(uint32_t *to, const uint32_t *from, uint32_t n, unsigned shift) {
  /* A counting sort: at[b] becomes the place of the first word with byte b. */
  uint32_t at[257] = {0};
  for (uint32_t i = 0; i < n; i++) at[(from[i] >> shift & 255) + 1]++;
  for (unsigned b = 0; b < 256; b++) at[b + 1] += at[b];
  for (uint32_t i = 0; i < n; i++) to[at[from[i] >> shift & 255]++] = from[i];
}

/* The k last keys, as a snake of values and one of indices. */
static void store_snakes(const struct vm_TOPK *a, uint32_t core, const uint32_t *key, uint32_t k) {
  uint32_t value[VM_ROW], index[VM_ROW], x;
  for (uint32_t q = 0; q < ISA_GP_PARTS && q < k; q++) {
    uint32_t columns = (k - q - 1) / ISA_GP_PARTS + 1;
    for (uint32_t c = 0; c < columns; c += VM_ROW) {
      size_t m = vm_piece(columns, c);
      for (uint32_t j = 0; j < m; j++) {
        index[j] = key[ISA_GP_PARTS * (c + j) + q] & 0xffff;
        /* The value from the source, not from its rank: every NaN has the same rank. */
        vm_load_bits(&x, &a->src, ISA_GP_PARTS * core + index[j] % ISA_GP_PARTS,
                     index[j] / ISA_GP_PARTS, 1);
        value[j] = x;
      }
      vm_store_bits(&a->val_dst, ISA_GP_PARTS * core + q, c, value, m);
      vm_store_bits(&a->idx_dst, ISA_GP_PARTS * core + q, c, index, m);
    }
  }
}

vm_verdict vm_op_topk(vm_dp *d, const struct vm_TOPK *a) {
  /* The two halves of the scratch: 2 * 65536 words (VM_SCRATCH). */
  uint32_t *key = (uint32_t *)(void *)d->scratch, *other = key + TOPK_MAX;
  uint64_t k = a->val_dst.elems;
  uint32_t parts = a->src.num[0];
  if (k == 0 || parts == 0) return VM_RETIRE;
  if (a->n >= TOPK_MAX || k > a->n || a->idx_dst.elems != k || parts % ISA_GP_PARTS ||
      (a->n + ISA_GP_PARTS - 1) / ISA_GP_PARTS > a->src.elems || a->val_dst.num[0] != parts ||
      a->idx_dst.num[0] != parts)
    return vm_dp_fault(d, "topk: %llu of %u elements: the shapes of the operands do not fit",
                       (unsigned long long)k, (unsigned)a->n);
  for (uint32_t core = 0; core < parts / ISA_GP_PARTS; core++) {
    load_snake(key, &a->src, core, a->n);
    /* Only the rank is sorted by, in two bytes: both passes are stable, so that equal values keep
     * the order in which load_snake put them. */
    sort_pass(other, key, a->n, 16);
    sort_pass(key, other, a->n, 24);
    /* Ascending: the k largest are the last. */
    store_snakes(a, core, key + (a->n - k), (uint32_t)k);
  }
  return VM_RETIRE;
}
