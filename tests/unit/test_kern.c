/* The array kernels of every level that this host runs, against the scalar definitions (isa_to_f32,
 * vm_alu_f32, vm_fma; their own tests are test_dtype and test_alu) bit by bit. */
#include "../../vm/simd/loops.h"

#include "f32_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_LEVELS = 3, GUARD = 0x5a };

typedef struct levels {
  vm_kern k[MAX_LEVELS];
  unsigned n;
} levels;

static levels host_levels(void) {
  static const char *const names[MAX_LEVELS] = {"plain", "avx2", "avx512"};
  levels l = {.n = 0};
  for (unsigned i = 0; i < MAX_LEVELS; i++) {
    assert_true(vm_kern_select(names[i], &l.k[l.n]));
    if (strcmp(l.k[l.n].name, names[i]) == 0) l.n++;
  }
  return l;
}

static const uint32_t specials[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x3f800000, 0xbf800000, 0x3f7fffff, 0x3f800001, 0x40000000, 0xc0000000, 0x40400000, 0xc0490fdb,
    0x4b7fffff, 0xcb800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
    0x7f800001, 0xffabcdef, 0x3eaaaaab, 0x42280000, 0xc2280000, 0x5f000000, 0x20000000, 0xa0000001,
};
enum { NSPECIAL = sizeof specials / sizeof *specials };

static uint32_t next_random(uint32_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 17;
  *s ^= *s << 5;
  return *s;
}
/* Mostly values of moderate size, now and then a special one. */
static float some_float(uint32_t *s, bool with_specials) {
  uint32_t u = next_random(s);
  if (with_specials && u % 61 == 0) return isa_bits_f32(specials[next_random(s) % NSPECIAL]);
  return (float)(int32_t)u * 0x1p-30f;
}

static void same(const vm_kern *k, const char *what, size_t i, float got, float want) {
  uint32_t g = isa_f32_bits(got), w = isa_f32_bits(want);
  if (g != w) fail_msg("%s %s [%zu]: %08x, not %08x", k->name, what, i, g, w);
}

static void test_select(void **state) {
  vm_kern k = {.name = "before"};
  (void)state;
  assert_false(vm_kern_select("sse", &k));
  assert_false(vm_kern_select("", &k));
  assert_string_equal(k.name, "before");
  assert_true(vm_kern_select("plain", &k));
  assert_string_equal(k.name, "plain");
  assert_true(vm_kern_select(NULL, &k));
  for (unsigned t = 1; t < ISA_NDTYPES; t++) {
    bool fp32 = isa_dtypes[t].cls != ISA_PACK && isa_dtypes[t].bits <= 32;
    assert_true((k.load[t] != NULL) == fp32);
    assert_true((k.store[t] != NULL) == fp32);
  }
  for (unsigned op = 0; op < ISA_NALUOPS; op++) {
    bool arith = (isa_aluops[op].cls & ISA_OP_ARITH) != 0;
    assert_true((k.alu_vv[op] != NULL) == arith);
    assert_true((k.alu_rows[op] != NULL) == arith);
    assert_true((k.alu_vs[op] != NULL) == arith);
    assert_true((k.alu_sv[op] != NULL) == arith);
  }
  for (unsigned fn = 0; fn < ISA_NACTFNS; fn++) assert_non_null(k.actfn[fn]);
}

/* Every pattern of narrow types and the cases' of 32-bit ones, from an odd address. */
static void check_load(const vm_kern *k, unsigned type, const uint32_t *cases, size_t ncases) {
  size_t size = isa_dtype_bytes(type), n = size == 4 ? ncases : (size_t)1 << (8 * size);
  unsigned char *src = malloc(n * size + 1);
  float *dst = malloc((n + 1) * sizeof *dst);
  assert_non_null(src);
  assert_non_null(dst);
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = size == 4 ? cases[i] : (uint32_t)i;
    uint8_t b8 = (uint8_t)bits;
    uint16_t b16 = (uint16_t)bits;
    memcpy(src + 1 + i * size, size == 1 ? (void *)&b8 : size == 2 ? (void *)&b16 : &bits, size);
  }
  memset(dst, GUARD, (n + 1) * sizeof *dst);
  k->load[type](dst, src + 1, n);
  for (size_t i = 0; i < n; i++)
    same(k, isa_dtypes[type].name, i, dst[i], isa_to_f32(type, size == 4 ? cases[i] : (uint32_t)i));
  assert_int_equal(isa_f32_bits(dst[n]), 0x5a5a5a5a);
  free(src);
  free(dst);
}

static void check_store(const vm_kern *k, unsigned type, unsigned cvt, const uint32_t *cases,
                        size_t n) {
  size_t size = isa_dtype_bytes(type);
  unsigned char *dst = malloc(n * size + 2);
  float *src = malloc(n * sizeof *src);
  assert_non_null(src);
  assert_non_null(dst);
  memcpy(src, cases, n * sizeof *src);
  memset(dst, GUARD, n * size + 2);
  k->store[type](dst + 1, src, n, cvt);
  for (size_t i = 0; i < n; i++) {
    uint32_t want = isa_from_f32(type, src[i], cvt), got = 0;
    for (size_t j = 0; j < size; j++) got |= (uint32_t)dst[1 + i * size + j] << (8 * j);
    if (got != want)
      fail_msg("%s store %s of %08x: %x, not %x", k->name, isa_dtypes[type].name, cases[i], got,
               want);
  }
  assert_int_equal(dst[0], GUARD);
  assert_int_equal(dst[n * size + 1], GUARD);
  free(src);
  free(dst);
}

static void test_conversions(void **state) {
  levels l = host_levels();
  size_t n;
  uint32_t *cases = f32_cases(&n);
  (void)state;
  assert_non_null(cases);
  for (unsigned i = 0; i < l.n; i++)
    for (unsigned t = 1; t < ISA_NDTYPES; t++) {
      if (!l.k[i].load[t]) continue;
      check_load(&l.k[i], t, cases, n);
      check_store(&l.k[i], t, 0, cases, n);
      check_store(&l.k[i], t, ISA_CVT_saturate, cases, n);
    }
  free(cases);
}

/* Short rows: the loops' ends, and nothing past them. */
static void test_short_conversions(void **state) {
  levels l = host_levels();
  (void)state;
  for (unsigned i = 0; i < l.n; i++)
    for (unsigned t = 1; t < ISA_NDTYPES; t++) {
      if (!l.k[i].load[t]) continue;
      for (size_t n = 0; n < 140; n += n < 34 ? 1 : 7) {
        float src[140], back[141];
        unsigned char raw[141 * 4];
        size_t size = isa_dtype_bytes(t);
        for (size_t j = 0; j < 140; j++) src[j] = (float)(j % 8);
        memset(raw, GUARD, sizeof raw);
        l.k[i].store[t](raw, src, n, 0);
        assert_int_equal(raw[n * size], GUARD);
        back[n] = -7;
        l.k[i].load[t](back, raw, n);
        assert_true(back[n] == -7);
        for (size_t j = 0; j < n; j++)
          same(&l.k[i], "there and back", j, back[j], isa_to_f32(t, isa_from_f32(t, src[j], 0)));
      }
    }
}

static void check_alu(const vm_kern *k, unsigned op, const float *a, const float *b, size_t n) {
  float d[NSPECIAL * 2 + 1];
  const char *name = isa_aluops[op].name;
  d[n] = 42;
  k->alu_vv[op](d, a, b, n);
  for (size_t i = 0; i < n; i++) same(k, name, i, d[i], vm_alu_f32(op, a[i], b[i]));
  k->alu_vs[op](d, a, b[0], n);
  for (size_t i = 0; i < n; i++) same(k, name, i, d[i], vm_alu_f32(op, a[i], b[0]));
  k->alu_sv[op](d, b[0], a, n);
  for (size_t i = 0; i < n; i++) same(k, name, i, d[i], vm_alu_f32(op, b[0], a[i]));
  memcpy(d, a, n * sizeof *d);
  k->alu_vv[op](d, d, b, n);
  for (size_t i = 0; i < n; i++) same(k, name, i, d[i], vm_alu_f32(op, a[i], b[i]));
  memcpy(d, b, n * sizeof *d);
  k->alu_vv[op](d, a, d, n);
  for (size_t i = 0; i < n; i++) same(k, name, i, d[i], vm_alu_f32(op, a[i], b[i]));
  memcpy(d, a, n * sizeof *d);
  k->alu_vs[op](d, d, b[0], n);
  for (size_t i = 0; i < n; i++) same(k, name, i, d[i], vm_alu_f32(op, a[i], b[0]));
  assert_true(d[n] == 42);
}

/* Octets of rows: apart, all rows of b the same one, and in place; what lies between stays. */
static void check_rows(const vm_kern *k, unsigned op, const float *a, const float *b) {
  enum { ROWS = 5, D = 11, A = 9, B = 8 };
  const ptrdiff_t b_steps[] = {B, 0, B};
  const char *name = isa_aluops[op].name;
  for (unsigned way = 0; way < 3; way++) {
    float d[ROWS * D];
    for (unsigned i = 0; i < ROWS * D; i++) d[i] = way == 2 ? a[i] : 42;
    const ptrdiff_t step = way == 2 ? D : A;
    k->alu_rows[op](&(vm_octets){d, way == 2 ? d : a, b, D, step, b_steps[way], ROWS});
    for (unsigned r = 0; r < ROWS; r++)
      for (unsigned i = 0; i < D; i++) {
        float x = a[r * (unsigned)step + i], y = b[r * (unsigned)b_steps[way] + i];
        if (i < VM_OCTET)
          same(k, name, i, d[r * D + i], vm_alu_f32(op, x, y));
        else
          same(k, name, i, d[r * D + i], way == 2 ? x : 42);
      }
  }
}

/* The upper halves of a and b as bfloat16, at odd addresses and in place: the operator, then the
 * rounding. */
static void check_halves(const vm_kern *k, unsigned op, const float *a, const float *b, size_t n) {
  enum { TOP = 2 * NSPECIAL };
  unsigned char x[2 * TOP + 1], y[2 * TOP + 1], d[2 * TOP + 2];
  if (!k->alu_halves[op]) return;
  for (size_t i = 0; i < n; i++) {
    memcpy(x + 1 + 2 * i, (const unsigned char *)&a[i] + 2, 2);
    memcpy(y + 1 + 2 * i, (const unsigned char *)&b[i] + 2, 2);
  }
  for (int in_place = 0; in_place < 2; in_place++) {
    memset(d, GUARD, sizeof d);
    if (in_place) memcpy(d + 1, x + 1, 2 * n);
    k->alu_halves[op](d + 1, in_place ? d + 1 : x + 1, y + 1, n);
    for (size_t i = 0; i < n; i++) {
      uint16_t got;
      float r = vm_alu_f32(op, isa_bits_f32(isa_f32_bits(a[i]) & 0xffff0000),
                           isa_bits_f32(isa_f32_bits(b[i]) & 0xffff0000));
      memcpy(&got, d + 1 + 2 * i, 2);
      assert_int_equal(got, isa_from_f32(ISA_bfloat16, r, 0));
    }
    assert_int_equal(d[2 * n + 1], GUARD);
  }
}

static void test_alu(void **state) {
  levels l = host_levels();
  uint32_t seed = 88172645;
  (void)state;
  for (unsigned i = 0; i < l.n; i++)
    for (unsigned op = 0; op < ISA_NALUOPS; op++) {
      if (!l.k[i].alu_vv[op]) continue;
      float a[2 * NSPECIAL], b[2 * NSPECIAL];
      for (unsigned first = 0; first < NSPECIAL; first++) { /* each special with each */
        for (unsigned j = 0; j < NSPECIAL; j++) {
          a[j] = isa_bits_f32(specials[j]);
          b[j] = isa_bits_f32(specials[(first + j) % NSPECIAL]);
          a[NSPECIAL + j] = some_float(&seed, true);
          b[NSPECIAL + j] = isa_bits_f32(next_random(&seed));
        }
        check_alu(&l.k[i], op, a, b, 2 * NSPECIAL - first % 20);
        check_rows(&l.k[i], op, a, b);
        check_halves(&l.k[i], op, a, b, 2 * NSPECIAL - first % 20);
      }
    }
}

static void test_scale_bias(void **state) {
  levels l = host_levels();
  float x[NSPECIAL], d[NSPECIAL];
  (void)state;
  for (unsigned i = 0; i < l.n; i++)
    for (unsigned s = 0; s < NSPECIAL; s++)
      for (unsigned b = 0; b < NSPECIAL; b++) {
        float scale = isa_bits_f32(specials[s]), bias = isa_bits_f32(specials[b]);
        memcpy(x, specials, sizeof x);
        memcpy(d, specials, sizeof d);
        l.k[i].scale_bias(d, d, scale, bias, NSPECIAL);
        for (unsigned j = 0; j < NSPECIAL; j++) {
          float product = vm_alu_f32(ISA_ALU_mult, x[j], scale);
          same(&l.k[i], "scale_bias", j, d[j], vm_alu_f32(ISA_ALU_add, product, bias));
        }
        l.k[i].bias_scale(x, x, bias, scale, NSPECIAL);
        for (unsigned j = 0; j < NSPECIAL; j++) {
          float sum = vm_alu_f32(ISA_ALU_add, isa_bits_f32(specials[j]), bias);
          same(&l.k[i], "bias_scale", j, x[j], vm_alu_f32(ISA_ALU_mult, sum, scale));
        }
      }
}

static void test_partial(void **state) {
  static const unsigned ops[] = {ISA_ALU_add, ISA_ALU_mult, ISA_ALU_max, ISA_ALU_min};
  levels l = host_levels();
  uint32_t seed = 12345;
  float x[200];
  (void)state;
  for (unsigned i = 0; i < l.n; i++)
    for (unsigned o = 0; o < 4; o++)
      for (size_t n = 0; n < 200; n++) {
        float got[16], want[16];
        for (size_t j = 0; j < n; j++) x[j] = some_float(&seed, n % 3 == 0);
        for (unsigned j = 0; j < 16; j++) got[j] = want[j] = vm_kern_identity(ops[o]);
        if (n % 7 == 6) got[3] = want[3] = isa_bits_f32(0xffabcdef);
        if (n % 7 == 5) x[0] = -0.0f;
        for (size_t j = 0; j < n; j++) want[j % 16] = vm_alu_f32(ops[o], want[j % 16], x[j]);
        l.k[i].partial[ops[o]](got, x, n);
        for (unsigned j = 0; j < 16; j++)
          same(&l.k[i], isa_aluops[ops[o]].name, n, got[j], vm_alu_f32(ISA_ALU_bypass, want[j], 0));
      }
}

/* Rows at once give the bits of each row's own partials, whatever the rows' number and length. */
static void test_reduce(void **state) {
  static const unsigned ops[] = {ISA_ALU_add, ISA_ALU_mult, ISA_ALU_max, ISA_ALU_min};
  enum { ROWS = 150, MOST = 70 };
  levels l = host_levels();
  uint32_t seed = 99;
  float x[ROWS * MOST], got[ROWS + 1];
  (void)state;
  for (unsigned i = 0; i < l.n * 4 * MOST; i++) {
    unsigned op = ops[i % 4];
    size_t n = i / 4 % MOST + 1, rows = i % ROWS + 1;
    for (size_t j = 0; j < ROWS * MOST; j++) x[j] = some_float(&seed, j % 29 == i % 29);
    got[rows] = 7;
    const vm_kern *k = &l.k[i / 4 / MOST];
    k->reduce[op](got, x, MOST, rows, n);
    assert_true(got[rows] == 7);
    for (size_t r = 0; r < rows; r++) {
      float part[16];
      for (int j = 0; j < 16; j++) part[j] = vm_kern_identity(op);
      k->partial[op](part, x + r * MOST, n);
      if (isa_f32_bits(got[r]) != isa_f32_bits(vm_kern_combine(op, part)))
        fail_msg("%s %s: row %zu of %zu, %zu elements: %a, not %a", k->name, isa_aluops[op].name, r,
                 rows, n, (double)got[r], (double)vm_kern_combine(op, part));
    }
  }
}

static void test_spread(void **state) {
  levels l = host_levels();
  float s[128], d[128 * 16 + 1];
  (void)state;
  for (unsigned i = 0; i < 128; i++) s[i] = (float)i;
  for (unsigned i = 0; i < l.n * 16 * 128; i++) {
    size_t n = i % 16 + 1, rows = i / 16 % 128 + 1;
    d[rows * n] = -1;
    l.k[i / 16 / 128].spread(d, s, rows, n);
    for (size_t j = 0; j<rows * n; j += rows> 40 ? 7 : 1) assert_true(d[j] == s[j / n]);
    assert_true(d[rows * n] == -1);
  }
}

/* Rows of any size at any address; where the bytes go past the caches, lines are whole. */
static void test_copy(void **state) {
  enum { STEP = 512, ROWS = 6 };
  static _Alignas(64) uint8_t from[ROWS * STEP], to[ROWS * STEP], want[ROWS * STEP];
  uint32_t seed = 1;
  (void)state;
  for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * 167 + i / 251);
  for (int i = 0; i < 400; i++) {
    const bool whole = i & 1, even = i & 2;
    size_t bytes = whole ? (1 + next_random(&seed) % 6) * 64 : 1 + next_random(&seed) % 384;
    size_t step = even ? STEP - 64 : STEP - next_random(&seed) % 64;
    size_t at = even ? 64 : next_random(&seed) % 64, x = next_random(&seed) % 64;
    memset(to, 0xee, sizeof to);
    memset(want, 0xee, sizeof want);
    for (size_t r = 0; r < ROWS - 1; r++) memcpy(want + at + r * step, from + x + r * STEP, bytes);
    if (!vm_kern_stream(to + at, (ptrdiff_t)step, from + x, STEP, ROWS - 1, bytes))
      vm_kern_copy(to + at, (ptrdiff_t)step, from + x, STEP, ROWS - 1, bytes, i & 4);
    memset(want + x, 0, bytes);
    vm_kern_stream_zeros(to + x, bytes);
    vm_kern_streamed();
    assert_memory_equal(to, want, sizeof to);
  }
}

/* Tiles of every size that a block can leave over, at odd addresses; nothing else is written. */
static void test_turn(void **state) {
  enum { MOST = 70, ROW = 8 * MOST + 3 };
  static uint8_t from[MOST * ROW], to[MOST * ROW], want[MOST * ROW];
  static const size_t sizes[] = {1, 2, 3, 5, 16, 17, 31, 32, 33, 48, 70};
  const unsigned n = sizeof sizes / sizeof *sizes;
  (void)state;
  for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * 167 + i / 251);
  for (unsigned i = 0; i < n * n * 4; i++) {
    size_t rows = sizes[i % n], cols = sizes[i / n % n];
    unsigned esize = 1u << i / n / n;
    memset(to, 0xee, sizeof to);
    memset(want, 0xee, sizeof want);
    for (size_t r = 0; r < rows; r++)
      for (size_t c = 0; c < cols; c++)
        memcpy(want + c * ROW + r * esize, from + r * ROW + c * esize, esize);
    vm_kern_turn(to, ROW, from, ROW, rows, cols, esize);
    if (memcmp(to, want, sizeof to) != 0)
      fail_msg("%zu x %zu of %u bytes: not the transpose", rows, cols, esize);
  }
}

/* Sixteen partials of the elements x[half], x[half + 2], ..., combined pairwise. */
static float half_sum(const float *x, size_t n, unsigned half, const float mean[2], bool spread) {
  float p[16] = {0};
  for (size_t i = half; i < n; i += 2) {
    float away = x[i] - mean[half];
    p[i / 2 % 16] += spread ? away * away : x[i];
  }
  for (unsigned width = 8; width > 0; width /= 2)
    for (unsigned j = 0; j < width; j++) p[j] += p[j + width];
  return vm_alu_f32(ISA_ALU_bypass, p[0], 0);
}

static void test_bn_sums(void **state) {
  levels l = host_levels();
  uint32_t seed = 777;
  float x[140];
  (void)state;
  for (unsigned i = 0; i < l.n; i++)
    for (size_t n = 1; n < 140; n++)
      for (unsigned spread = 0; spread < 2; spread++) {
        float got[2], mean[2] = {some_float(&seed, n % 9 == 0), some_float(&seed, false)};
        for (size_t j = 0; j < n; j++) x[j] = some_float(&seed, n % 3 == 0);
        l.k[i].bn_sums(got, x, mean, spread, n);
        for (unsigned half = 0; half < 2; half++)
          same(&l.k[i], spread ? "bn spread" : "bn sum", n, got[half],
               half_sum(x, n, half, mean, spread));
      }
}

static void test_gather_scatter(void **state) {
  levels l = host_levels();
  enum { MID = 1000, MOST = 120 };
  static const ptrdiff_t steps[] = {0, 0, 1, 3, 8, 20, -12, -1};
  (void)state;
  for (unsigned i = 0; i < l.n; i++)
    for (unsigned esize = 1; esize <= 8; esize *= 2)
      for (unsigned s = 0; s < sizeof steps / sizeof *steps; s++)
        for (size_t n = 0; n < (s < 2 ? MOST : 20); n++) {
          unsigned char mem[4 * MID], row[MOST * 8 + 1], want[4 * MID];
          ptrdiff_t step = s < 2 ? (ptrdiff_t)(esize * (s + 1)) /* contiguous, every other */
                                 : steps[s] * (ptrdiff_t)esize / 4 + steps[s];
          for (unsigned j = 0; j < sizeof mem; j++) mem[j] = (unsigned char)(j * 37 + j / 256);
          row[n * esize] = GUARD;
          l.k[i].gather(row, mem + 2 * MID, step, n, esize);
          for (size_t j = 0; j < n; j++)
            assert_memory_equal(row + j * esize, mem + 2 * MID + (ptrdiff_t)j * step, esize);
          assert_int_equal(row[n * esize], GUARD);
          memset(mem, 0, sizeof mem);
          memset(want, 0, sizeof want);
          for (size_t j = 0; j < n; j++)
            memcpy(want + 2 * MID + (ptrdiff_t)j * step, row + j * esize, esize);
          l.k[i].scatter(mem + 2 * MID, step, row, n, esize);
          assert_memory_equal(mem, want, sizeof mem);
        }
}

static void test_rows(void **state) {
  levels l = host_levels();
  enum { STEP = 80, MOST = 11, BYTES = (MOST + 1) * STEP };
  (void)state;
  for (unsigned i = 0; i < l.n; i++)
    for (size_t bytes = 4; bytes <= 64; bytes++)
      for (size_t rows = 0; rows <= MOST; rows++) {
        unsigned char from[BYTES], to[BYTES] = {0}, want[BYTES] = {0};
        ptrdiff_t step = rows % 2 ? STEP : (ptrdiff_t)bytes;
        for (unsigned j = 0; j < BYTES; j++) from[j] = (unsigned char)(j * 37 + j / 256 + 1);
        for (size_t r = 0; r < rows; r++)
          memcpy(want + r * STEP + 1, from + (ptrdiff_t)r * step + 3, bytes);
        l.k[i].rows(to + 1, STEP, from + 3, step, rows, bytes);
        assert_memory_equal(to, want, BYTES);
        l.k[i].rows(to + 1, STEP, to + 1, STEP, rows, bytes);
        assert_memory_equal(to, want, BYTES);
      }
}

/* The definition: k ascending, fused, from +0. */
static void slow_matmul(float *out, size_t ldo, const float *w, size_t ldw, const float *x,
                        size_t ldx, unsigned k, unsigned m, unsigned n) {
  for (unsigned r = 0; r < m; r++)
    for (unsigned c = 0; c < n; c++) {
      float sum = 0;
      for (unsigned i = 0; i < k; i++) sum = vm_fma(w[i * ldw + r], x[i * ldx + c], sum);
      out[r * ldo + c] = sum;
    }
}

static void product(const vm_kern *k, float *out, size_t ldo, const float *w, size_t ldw,
                    const float *x, size_t ldx, const unsigned kmn[3]) {
  vm_product p = {.out = out,
                  .ldo = ldo,
                  .w = w,
                  .ldw = ldw,
                  .x = x,
                  .step = (ptrdiff_t)(ldx * sizeof *x),
                  .dtype = ISA_float32,
                  .k = kmn[0],
                  .m = kmn[1],
                  .n = kmn[2]};
  k->matmul(&p);
}

static void check_matmul(const levels *l, unsigned k, unsigned m, unsigned n, unsigned seed,
                         bool with_specials) {
  enum { LDW = 131, LDX = 210, LDO = 207, CELLS = 512 * LDX };
  float *w = malloc(4 * CELLS * sizeof *w), *x = w + CELLS, *got = x + CELLS, *want = got + CELLS;
  assert_non_null(w);
  for (unsigned i = 0; i < 2 * CELLS; i++) w[i] = some_float(&seed, false);
  if (with_specials)
    for (unsigned i = 0; i < 40; i++)
      w[next_random(&seed) % (2 * CELLS)] = isa_bits_f32(specials[next_random(&seed) % NSPECIAL]);
  memset(want, GUARD, CELLS * sizeof *want);
  slow_matmul(want, LDO, w, LDW, x, LDX, k, m, n);
  for (unsigned i = 0; i < l->n; i++) {
    memset(got, GUARD, CELLS * sizeof *got);
    product(&l->k[i], got, LDO, w, LDW, x, LDX, (const unsigned[]){k, m, n});
    for (unsigned j = 0; j < CELLS; j++) same(&l->k[i], "matmul", j, got[j], want[j]);
  }
  free(w);
}

/* The same with bfloat16 elements, on top of what is there. */
static void check_matmul_onto(const levels *l, unsigned k, unsigned m, unsigned n, unsigned seed) {
  enum { LDW = 133, LDX = 210, LDO = 207, CELLS = 256 * LDX };
  float *w = malloc(5 * CELLS * sizeof *w), *x = w + CELLS, *got = x + CELLS, *want = got + CELLS;
  uint16_t *bits = (uint16_t *)(void *)(want + CELLS);
  assert_non_null(w);
  for (unsigned i = 0; i < CELLS; i++) {
    w[i] = next_random(&seed) % 64 ? some_float(&seed, false)
                                   : isa_bits_f32(specials[next_random(&seed) % NSPECIAL]);
    bits[i] = (uint16_t)isa_from_f32(ISA_bfloat16, some_float(&seed, false), 0);
    if (i % 97 == 0) bits[i] = (uint16_t)(0x7f80 + i % 3); /* infinity, and NaNs as they come */
    x[i] = isa_to_f32(ISA_bfloat16, bits[i]);
  }
  for (unsigned i = 0; i < l->n; i++) {
    slow_matmul(want, LDO, w, LDW, x, LDX, k, m, n);
    for (unsigned j = 0; j < CELLS; j++) got[j] = x[CELLS - 1 - j];
    for (unsigned r = 0; r < m; r++)
      for (unsigned c = 0; c < n; c++) want[r * LDO + c] += got[r * LDO + c];
    vm_product p = {.out = got,
                    .ldo = LDO,
                    .w = w,
                    .ldw = LDW,
                    .x = bits,
                    .step = LDX * sizeof *bits,
                    .dtype = ISA_bfloat16,
                    .add = true,
                    .k = k,
                    .m = m,
                    .n = n};
    l->k[i].matmul(&p);
    for (unsigned r = 0; r < m; r++)
      for (unsigned c = 0; c < n; c++)
        same(&l->k[i], "matmul onto", r * LDO + c, got[r * LDO + c], want[r * LDO + c]);
    for (unsigned r = 0; r + 1 < m; r++)
      for (unsigned c = n; c < LDO; c++)
        assert_true(isa_f32_bits(got[r * LDO + c]) == isa_f32_bits(x[CELLS - 1 - r * LDO - c]));
  }
  free(w);
}

static void test_matmul(void **state) {
  static const unsigned sizes[][3] = {{1, 1, 1},    {128, 128, 200}, {0, 3, 5},    {7, 9, 47},
                                      {128, 1, 48}, {3, 128, 1},     {32, 8, 49},  {5, 127, 97},
                                      {64, 17, 16}, {128, 6, 15},    {17, 33, 64}, {2, 7, 65},
                                      {256, 9, 50}, {512, 13, 65}};
  levels l = host_levels();
  (void)state;
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    check_matmul(&l, sizes[i][0], sizes[i][1], sizes[i][2], 77 + i, false);
    check_matmul(&l, sizes[i][0], sizes[i][1], sizes[i][2], 99 + i, true);
    if (sizes[i][0] <= 256) check_matmul_onto(&l, sizes[i][0], sizes[i][1], sizes[i][2], 55 + i);
  }
}

/* Values by hand: two steps, a tie that only a fused step sees, NaN, and subnormals. */
static void test_matmul_by_hand(void **state) {
  levels l = host_levels();
  (void)state;
  for (unsigned i = 0; i < l.n; i++) {
    static const float w[2][2] = {{0x1p-149f, 0x1.001p0f}, {1, 0x1.001p0f}};
    static const float x[2][3] = {{0x1p-149f, 0x1p-140f, 1}, {0x1.001p0f, 1, 0}};
    float out[2][3];
    product(&l.k[i], out[0], 3, w[0], 2, x[0], 3, (const unsigned[]){2, 2, 3});
    assert_true(out[0][0] == 0x1.001p0f && out[0][1] == 1 && out[0][2] == 0x1p-149f);
    assert_true(out[1][0] == 0x1.002002p0f); /* a tie, raised by the tiny first product */
    assert_true(out[1][1] == 0x1.001p0f && out[1][2] == 0x1.001p0f);
    static const uint32_t inf = 0x7f800000, odd_nan = 0xffabcdef;
    float a[2] = {isa_bits_f32(inf), isa_bits_f32(odd_nan)}, zero_one[2] = {0, 1}, d[4];
    product(&l.k[i], d, 2, a, 2, zero_one, 2, (const unsigned[]){1, 2, 2});
    assert_int_equal(isa_f32_bits(d[0]), 0x7fc00000);
    assert_int_equal(isa_f32_bits(d[1]), inf);
    assert_int_equal(isa_f32_bits(d[2]), 0x7fc00000);
    assert_int_equal(isa_f32_bits(d[3]), 0x7fc00000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_select),
      cmocka_unit_test(test_conversions),
      cmocka_unit_test(test_short_conversions),
      cmocka_unit_test(test_alu),
      cmocka_unit_test(test_scale_bias),
      cmocka_unit_test(test_partial),
      cmocka_unit_test(test_reduce),
      cmocka_unit_test(test_spread),
      cmocka_unit_test(test_copy),
      cmocka_unit_test(test_turn),
      cmocka_unit_test(test_bn_sums),
      cmocka_unit_test(test_gather_scatter),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_matmul_by_hand),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
