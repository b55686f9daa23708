/* The choices of a random program, and its tables: tensors, tiles, queues, semaphores, groups. */
#ifndef TESTS_FUZZ_GEN_TABLES_H
#define TESTS_FUZZ_GEN_TABLES_H

#include "../../isa/program.h"

#include <stdlib.h>
#include <string.h>

enum {
  GEN_TENSORS = 5,
  GEN_TILES = 8,
  GEN_QUEUES = 4,
  GEN_SEMS = 4,
  GEN_GROUPS = 3,
  GEN_TRIES = 12
};

typedef struct gen {
  const uint8_t *p, *end; /* choices left */
  uint64_t more;          /* where choices come from after the end; 0: all are 0 */
  isa_program *prog;
  unsigned op, engine;
  /* The shape of the instruction. */
  unsigned dtype, ndim;
  uint32_t part, nparts, num[4];
  bool tame; /* no dynamic parts, no odd strides */
  bool is_static;
  bool indirect; /* operands go by an index where they may */
  bool pair;     /* the program has a second core: gen_twin */
} gen;

/* ---- Choices ------------------------------------------------------------------------------ */

static uint8_t gen_byte(gen *g) {
  if (g->p < g->end) return *g->p++;
  if (!g->more) return 0;
  g->more ^= g->more >> 12;
  g->more ^= g->more << 25;
  g->more ^= g->more >> 27;
  return (uint8_t)((g->more * UINT64_C(0x2545f4914f6cdd1d)) >> 56);
}

static uint32_t gen_u32(gen *g) {
  uint32_t v = gen_byte(g);
  for (int i = 0; i < 3; i++) v = v << 8 | gen_byte(g);
  return v;
}

static uint32_t gen_below(gen *g, uint32_t n) {
  if (n <= 1) return 0;
  return n <= 256 ? gen_byte(g) % n : gen_u32(g) % n;
}

static bool gen_one_in(gen *g, uint32_t n) { return gen_below(g, n) == n - 1; }

#define GEN_OF(g, array) (array)[gen_below(g, sizeof(array) / sizeof *(array))]

static uint32_t gen_value(gen *g) {
  static const uint32_t edges[] = {0, 1, 2, 127, 128, 512, 0x7fffffff, 0x80000000, UINT32_MAX};
  return gen_one_in(g, 3) ? gen_u32(g) : GEN_OF(g, edges);
}

static uint32_t gen_float(gen *g) {
  static const uint32_t edges[] = {0,          0x80000000, 0x3f800000, 0xbf000000, 0x42f70000,
                                   0x7f800000, 0xff800000, 0x7fc00000, 1,          0x7f7fffff};
  return gen_one_in(g, 4) ? gen_u32(g) : GEN_OF(g, edges);
}

/* ---- Tables ------------------------------------------------------------------------------- */

static unsigned gen_dtype(gen *g) {
  static const uint8_t often[] = {ISA_float32, ISA_float32, ISA_bfloat16, ISA_float16,
                                  ISA_int32,   ISA_uint32,  ISA_uint16,   ISA_uint8};
  return gen_one_in(g, 3) ? 1 + gen_below(g, ISA_NDTYPES - 1) : GEN_OF(g, often);
}

static void gen_tensor(gen *g, unsigned i) {
  static const int64_t sizes[] = {128, 64, 32, 16, 1, 2, 3, 40};
  uint8_t data[1 << 16];
  char name[8] = {'t', (char)('0' + i), 0};
  isa_tensor t = {
      .name = name, .dtype = (uint8_t)gen_dtype(g), .ndim = (uint8_t)(1 + gen_below(g, 3))};
  t.role = i == 0 ? ISA_INPUT : i == 1 ? ISA_OUTPUT : (uint8_t)gen_below(g, ISA_NROLES);
  t.bytes = isa_dtype_bytes(t.dtype);
  for (unsigned d = 0; d < t.ndim; d++) {
    t.shape[d] = GEN_OF(g, sizes);
    if (t.bytes * (uint64_t)t.shape[d] > sizeof data) t.shape[d] = 1;
    t.bytes *= (uint64_t)t.shape[d];
  }
  for (uint64_t k = 0; t.role == ISA_CONST && k < t.bytes; k++) data[k] = gen_byte(g);
  t.data = t.role == ISA_CONST ? data : NULL;
  isa_program_tensor(g->prog, &t);
}

static void gen_tile(gen *g, unsigned i) {
  static const uint32_t parts[] = {128, 128, 64, 32, 16, 1, 33, 100};
  static const uint32_t sizes[] = {1, 2, 8, 16, 32, 64, 5, 128};
  char name[8] = {'k', (char)('0' + i), 0};
  isa_tile t = {
      .name = name, .dtype = (uint8_t)gen_dtype(g), .ndim = (uint8_t)(2 + gen_below(g, 3))};
  t.space = gen_one_in(g, 3) ? ISA_PSUM : ISA_SBUF;
  t.shape[0] = GEN_OF(g, parts);
  if (t.shape[0] <= 32) t.part = (uint16_t)(32 * gen_below(g, 4));
  t.bytes = isa_dtype_bytes(t.dtype);
  for (unsigned d = 1; d < t.ndim; d++) t.bytes *= t.shape[d] = t.bytes < 12 ? GEN_OF(g, sizes) : 1;
  /* The last is at the end of its memory, the others apart, or in a group below 1 KiB. */
  uint32_t room = t.space == ISA_PSUM ? ISA_PSUM_BYTES : g->prog->target->sbuf_usable;
  t.offset = i == GEN_TILES - 1 ? (room - t.bytes) / 64 * 64 : 1024 + 1536 * i;
  if (i < GEN_TILES - 1 && t.bytes <= 512 && gen_below(g, 2)) {
    t.offset = 64 * gen_below(g, 8);
    t.overlay = t.space == ISA_PSUM ? "group" : "shared";
  }
  isa_program_tile(g->prog, &t);
}

static void gen_tables(gen *g) {
  static const isa_queue queues[GEN_QUEUES] = {
      {.name = "q0", .dge = ISA_DGE_none, .rings = 16, .owner = ISA_NENGINES},
      {.name = "q1", .dge = ISA_DGE_swdge, .rings = 4, .owner = ISA_ENG_gpsimd},
      {.name = "q2", .dge = ISA_DGE_hwdge, .rings = 16, .owner = ISA_ENG_sync},
      {.name = "q3", .dge = ISA_DGE_hwdge, .rings = 1, .owner = ISA_ENG_scalar}};
  static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7}, sizes[][2] = {{1}, {2, 2}, {4, 4}};
  static const isa_group groups[GEN_GROUPS] = {
      {"g0", 1, 1, sizes[0], ranks}, {"g1", 2, 4, sizes[1], ranks}, {"g2", 2, 8, sizes[2], ranks}};
  static const char *const sems[GEN_SEMS] = {"s0", "s1", "s2", "s3"};
  for (unsigned i = 0; i < GEN_TENSORS; i++) gen_tensor(g, i);
  for (unsigned i = 0; i < GEN_TILES; i++) gen_tile(g, i);
  for (unsigned i = 0; i < (g->prog->target->hwdge ? GEN_QUEUES : 2u); i++)
    isa_program_queue(g->prog, 0, &queues[i]);
  for (unsigned i = 0; i < GEN_SEMS; i++) g->prog->cores[0].sem_names[i] = sems[i];
  for (unsigned i = 0; i < GEN_GROUPS; i++) isa_program_group(g->prog, &groups[i]);
}

/* ---- Taking back -------------------------------------------------------------------------- */

typedef struct gen_mark {
  uint32_t naps, nruns;
  size_t pool;
} gen_mark;

static gen_mark gen_here(const gen *g) {
  return (gen_mark){g->prog->cores[0].naps, g->prog->npool_runs, g->prog->pool.len};
}

/* Patterns and lists since the mark go; the tables that find equal ones are made anew. */
static void gen_back(gen *g, gen_mark m) {
  isa_program *p = g->prog;
  isa_core *c = &p->cores[0];
  c->naps = m.naps;
  p->npool_runs = m.nruns;
  p->pool.len = m.pool;
  isa_program_index_anew(p, 0);
  isa_index_clear(&p->pool_index);
}

#endif
