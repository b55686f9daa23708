/* Random numbers: rng, rand2, dropout, and the generators' state.
 *
 * gpsimd has one XORWOW state per lane (partition, counted from the operand's first), of the six
 * words x y z w v d. vector has four of them from gen4 on, state-major, and element i of an
 * instruction comes from state i mod 4. The generator of older vector engines is not published. In
 * its place there is a shift register of 32 bits per lane, word 0 of the lane: s ^= s << 13, s ^= s
 * >> 17, s ^= s << 5, and s is the number.
 *
 * A lane's words after set_rng_seed s: word i is mix(s + golden * (24 * lane + i + 1)), with 1 in
 * place of 0. A run starts as if the seed were 0. */
#include "op.h"

#include <string.h>

/* The finaliser of MurmurHash3: a bijection of 32-bit words. */
static uint32_t mix(uint32_t x) {
  x = (x ^ x >> 16) * 0x85ebca6b;
  x = (x ^ x >> 13) * 0xc2b2ae35;
  return x ^ x >> 16;
}

static void seed(vm_dp *d, uint32_t s) {
  for (uint32_t lane = 0; lane < ISA_PMAX; lane++) {
    for (uint32_t i = 0; i < VM_RNG; i++) {
      uint32_t x = mix(s + 0x9e3779b9 * (VM_RNG * lane + i + 1));
      /* A shift register of zeros would give zeros for ever. */
      d->rng[lane][i] = x ? x : 1;
    }
  }
  d->seeded = true;
}

static uint32_t xorwow(uint32_t s[VM_XORWOW]) {
  uint32_t t = s[0] ^ s[0] >> 2;
  memmove(s, s + 1, 4 * sizeof *s);
  s[4] = (s[4] ^ s[4] << 4) ^ (t ^ t << 1);
  s[5] += 362437;
  return s[4] + s[5];
}

static uint32_t shift_register(uint32_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 17;
  *s ^= *s << 5;
  return *s;
}

/* The numbers of the next n elements of an instruction, the first of them a multiple of 4. */
static void draw(vm_dp *d, uint32_t lane, uint32_t *out, size_t n) {
  uint32_t *s = d->rng[lane];
  if (!d->seeded) seed(d, 0);
  if (d->engine == ISA_ENG_gpsimd) {
    for (size_t i = 0; i < n; i++) out[i] = xorwow(s);
  } else if (d->target->gen < ISA_GEN4) {
    for (size_t i = 0; i < n; i++) out[i] = shift_register(s);
  } else {
    for (size_t i = 0; i < n; i++) out[i] = xorwow(s + i % 4 * VM_XORWOW);
  }
}

/* 24 random bits as a value in [0, 1). */
static float fraction(uint32_t x) { return (float)(x >> 8) * 0x1p-24f; }

/* ---- Numbers ------------------------------------------------------------------------------ */

vm_verdict vm_op_rng(vm_dp *d, const struct vm_DST *a) {
  uint32_t x[VM_ROW];
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      draw(d, p, x, n);
      vm_store_bits(&a->dst, p, i, x, n);
    }
  }
  return VM_RETIRE;
}

vm_verdict vm_op_rand2(vm_dp *d, const struct vm_RAND2 *a) {
  uint32_t x[VM_ROW];
  float *r = d->row[0];
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    float min = vm_num_at(d, &a->min, p, 0), max = vm_num_at(d, &a->max, p, 0);
    /* Not min >= max: that would let a NaN through. */
    if (!(min < max))
      return vm_dp_fault(d, "rand2: min %g is not below max %g in partition %u", (double)min,
                         (double)max, (unsigned)(a->dst.part + p));
    float width = vm_alu_f32(ISA_ALU_subtract, max, min);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      draw(d, p, x, n);
      for (size_t j = 0; j < n; j++) r[j] = fraction(x[j]);
      d->k->alu_vs[ISA_ALU_mult](r, r, width, n);
      d->k->alu_vs[ISA_ALU_add](r, r, min, n);
      vm_store(d, &a->dst, p, i, r, n);
    }
  }
  return VM_RETIRE;
}

/* A kept element keeps its bits, a dropped one is 0 whatever it was. Each element takes one number,
 * from the lane that reads it. */
vm_verdict vm_op_dropout(vm_dp *d, const struct vm_DROPOUT *a) {
  uint32_t x[VM_ROW], r[VM_ROW];
  bool is_keep_rate = a->threshold == ISA_DROP_keep_rate;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    float rate = vm_num_at(d, &a->prob, p, 0);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      draw(d, p, r, n);
      vm_load_bits(x, &a->src, p, i, n);
      for (size_t j = 0; j < n; j++) x[j] = (fraction(r[j]) < rate) == is_keep_rate ? x[j] : 0;
      vm_store_bits(&a->dst, p, i, x, n);
    }
  }
  return VM_RETIRE;
}

/* ---- State -------------------------------------------------------------------------------- */

vm_verdict vm_op_set_rng_seed(vm_dp *d, const struct vm_SRC *a) {
  uint32_t s;
  if (a->src.elems != 1 || a->src.num[0] != 1)
    return vm_dp_fault(d, "set_rng_seed: a seed is a single element");
  vm_load_bits(&s, &a->src, 0, 0, 1);
  seed(d, s);
  return VM_RETIRE;
}

static bool is_state(const vm_dp *d, const vm_view *v) {
  return v->elems == (d->engine == ISA_ENG_gpsimd ? VM_XORWOW : VM_RNG);
}

vm_verdict vm_op_rand_set_state(vm_dp *d, const struct vm_SRC *a) {
  if (!is_state(d, &a->src))
    return vm_dp_fault(d, "rand_set_state: %llu words are not a state",
                       (unsigned long long)a->src.elems);
  if (!d->seeded) seed(d, 0);
  for (uint32_t p = 0; p < a->src.num[0]; p++)
    vm_load_bits(d->rng[p], &a->src, p, 0, (size_t)a->src.elems);
  return VM_RETIRE;
}

vm_verdict vm_op_rand_get_state(vm_dp *d, const struct vm_DST *a) {
  if (!is_state(d, &a->dst))
    return vm_dp_fault(d, "rand_get_state: %llu words are not a state",
                       (unsigned long long)a->dst.elems);
  if (!d->seeded) seed(d, 0);
  for (uint32_t p = 0; p < a->dst.num[0]; p++)
    vm_store_bits(&a->dst, p, 0, d->rng[p], (size_t)a->dst.elems);
  return VM_RETIRE;
}
