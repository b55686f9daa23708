/* HBM's addresses: placement, stacks, alignment, coalescing, reports; random takes and gives
 * against a map of single units. And what soma.h shows of it: usage, listing, constants that stay,
 * data used in place. */
#include "../../vm/dma/hbm.h"
#include "vm_bed.h"

#define GIB ((uint64_t)1 << 30)

static const isa_target *target(const char *name) {
  return &isa_targets[isa_target_find(name, strlen(name))];
}

static vm_hbm make(const char *name, uint64_t limit) {
  vm_hbm h;
  isa_alloc al = isa_alloc_default();
  vm_hbm_init(&h, &al, target(name), limit);
  return h;
}

static uint64_t take(vm_hbm *h, uint64_t bytes, const void *who) {
  uint64_t at = UINT64_MAX;
  assert_int_equal(vm_hbm_alloc(h, bytes, VM_HBM_TENSOR, "x", who, &at), ISA_OK);
  return at;
}

static void targets(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t stacks;
    uint64_t each;
  } want[] = {
      {"trn1", 2, 16 * GIB}, {"inf2", 2, 16 * GIB}, {"trn2", 4, 24 * GIB}, {"trn3", 4, 36 * GIB}};
  for (unsigned i = 0; i < 4; i++) {
    vm_hbm h = make(want[i].name, 0);
    assert_int_equal(h.stacks, want[i].stacks);
    assert_int_equal(h.capacity, want[i].stacks * want[i].each);
    for (uint32_t s = 0; s < h.stacks; s++)
      assert_int_equal(vm_hbm_stack_capacity(&h, s), want[i].each);
    vm_hbm_free(&h);
  }
  vm_hbm h = make("trn2", 30 * GIB); /* less by an option: the first stacks */
  assert_int_equal(vm_hbm_stack_capacity(&h, 0), 24 * GIB);
  assert_int_equal(vm_hbm_stack_capacity(&h, 1), 6 * GIB);
  assert_int_equal(vm_hbm_stack_capacity(&h, 2), 0);
  vm_hbm_free(&h);
}

static void placement(void **state) {
  (void)state;
  vm_hbm h = make("trn2", 0);
  assert_int_equal(take(&h, 1, NULL), 0);
  assert_int_equal(take(&h, 64, NULL), 64);
  assert_int_equal(take(&h, 65, NULL), 128);
  assert_int_equal(take(&h, 10, NULL), 256);
  assert_int_equal(take(&h, 24 * GIB, NULL), 24 * GIB); /* the next whole stack */
  assert_int_equal(take(&h, 8, NULL), 320);             /* still the lowest address */
  assert_int_equal(take(&h, 30 * GIB, NULL), 48 * GIB); /* more than a stack: over its end */
  assert_int_equal(vm_hbm_stack_used(&h, 0), 148);
  assert_int_equal(vm_hbm_stack_used(&h, 2), 24 * GIB);
  assert_int_equal(vm_hbm_stack_used(&h, 3), 6 * GIB);
  assert_int_equal(h.used, 148 + 54 * GIB);
  assert_true(vm_hbm_fit(&h, target("trn3"), 0));
  assert_false(vm_hbm_fit(&h, target("trn1"), 0));
  assert_int_equal(h.capacity, 144 * GIB);
  vm_hbm_free(&h);
}

/* Three blocks: freed in any order, the middle joins its neighbours. */
static void coalescing(void **state) {
  (void)state;
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (int o = 0; o < 6; o++) {
    vm_hbm h = make("trn2", 4 * 64);
    uint64_t at[4];
    for (int i = 0; i < 4; i++) at[i] = take(&h, 64, NULL);
    for (int i = 0; i < 3; i++) vm_hbm_release(&h, at[orders[o][i]]);
    vm_hbm_blocks b = vm_hbm_free_blocks(&h);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.largest, 192);
    assert_int_equal(take(&h, 192, NULL), 0);
    vm_hbm_free(&h);
  }
}

static void fragmentation(void **state) {
  (void)state;
  vm_hbm h = make("trn2", 640);
  uint64_t at = 0;
  int who;
  for (int i = 0; i < 10; i++) take(&h, 64, i % 2 ? &who : NULL);
  assert_int_equal(h.high_water, 640);
  vm_hbm_release_all(&h, &who);
  vm_hbm_blocks b = vm_hbm_free_blocks(&h);
  assert_int_equal(b.n, 5);
  assert_int_equal(b.free, 320);
  assert_int_equal(b.largest, 64);
  assert_int_equal(vm_hbm_alloc(&h, 65, VM_HBM_PROGRAM, "big", NULL, &at), ISA_LIMIT);
  assert_string_equal(isa_buf_str(&h.refused),
                      "tensor big needs 65 bytes of HBM; 320 of 640 are taken, the largest of 5 "
                      "free blocks has 64\n"
                      "  64 bytes at 0x0: device tensor x\n  64 bytes at 0x80: device tensor x\n"
                      "  64 bytes at 0x100: device tensor x\n  64 bytes at 0x180: device tensor x\n"
                      "  64 bytes at 0x200: device tensor x");
  assert_int_equal(take(&h, 64, NULL), 64);
  assert_int_equal(h.high_water, 640);
  vm_hbm_free(&h);
}

/* The report lists the eight largest, by falling size and rising address, and counts the rest. */
static void report(void **state) {
  (void)state;
  vm_hbm h = make("trn2", 1 << 20);
  uint64_t at;
  char want[1024], name[16][16];
  for (int i = 0; i < 12; i++) {
    snprintf(name[i], sizeof name[i], "t%d", i);
    assert_int_equal(vm_hbm_alloc(&h, (uint64_t)(i % 6 + 1) * 64,
                                  i % 2 ? VM_HBM_RING : VM_HBM_CONST, name[i], NULL, &at),
                     ISA_OK);
  }
  assert_int_equal(vm_hbm_alloc(&h, 1 << 20, VM_HBM_TENSOR, "y", NULL, &at), ISA_LIMIT);
  /* sizes 64 .. 384 twice, from 0 and from 1344; 6, 6, 5, 5, 4, 4, 3, 3 units are listed */
  int n = snprintf(want, sizeof want,
                   "device tensor y needs 1048576 bytes of HBM; 2688 of 1048576 are taken, the "
                   "largest of 1 free block has 1045888");
  for (int units = 6; units > 2; units--)
    for (int half = 0; half < 2; half++) {
      int i = half * 6 + units - 1;
      n += snprintf(want + n, sizeof want - (size_t)n, "\n  %d bytes at 0x%x: %s t%d", units * 64,
                    half * 1344 + units * (units - 1) / 2 * 64, i % 2 ? "ring" : "device const", i);
    }
  snprintf(want + n, sizeof want - (size_t)n, "\n  and 4 more of 384 bytes");
  assert_string_equal(isa_buf_str(&h.refused), want);
  vm_hbm_free(&h);
}

static uint32_t rnd(uint32_t *s) {
  *s = *s * 1664525u + 1013904223u;
  return *s >> 8;
}

enum { UNITS = 96, STACK = UNITS / 4 };

/* The lowest run of n free units of the map, within one stack if there is such a run. */
static int lowest(const uint8_t *map, int n) {
  for (int one = 1; one >= 0; one--)
    for (int at = 0; at + n <= UNITS; at++) {
      int k = 0;
      while (k < n && !map[at + k]) k++;
      if (k == n && (!one || at / STACK == (at + n - 1) / STACK)) return at;
    }
  return -1;
}

static void random_takes(void **state) {
  (void)state;
  uint32_t s = 7;
  for (int round = 0; round < 200; round++) {
    vm_hbm h = make("trn2", 0);
    uint8_t map[UNITS] = {0};
    int from[UNITS], units[UNITS], n = 0;
    uint64_t unit = 96 * GIB / UNITS; /* a GiB: stacks are 24 units */
    for (int step = 0; step < 60; step++) {
      if (n && rnd(&s) % 5 < 2) {
        int k = (int)(rnd(&s) % (uint32_t)n);
        vm_hbm_release(&h, (uint64_t)from[k] * unit);
        memset(map + from[k], 0, (size_t)units[k]);
        n--;
        from[k] = from[n];
        units[k] = units[n];
        continue;
      }
      int want = (int)(rnd(&s) % (rnd(&s) % 8 ? 9 : 40)) + 1, at = lowest(map, want);
      uint64_t got, bytes = (uint64_t)want * unit - rnd(&s) % VM_HBM_ALIGN;
      assert_int_equal(vm_hbm_alloc(&h, bytes, VM_HBM_TENSOR, "x", NULL, &got),
                       at < 0 ? ISA_LIMIT : ISA_OK);
      if (at < 0) continue;
      assert_int_equal(got, (uint64_t)at * unit);
      memset(map + at, 1, (size_t)want);
      from[n] = at;
      units[n++] = want;
    }
    uint64_t taken = 0, largest = 0, blocks = 0;
    for (int i = 0, run = 0; i < UNITS; i++) {
      taken += map[i];
      run = map[i] ? 0 : run + 1;
      blocks += run == 1;
      if ((uint64_t)run > largest) largest = (uint64_t)run;
    }
    vm_hbm_blocks b = vm_hbm_free_blocks(&h);
    assert_int_equal(b.free, (UNITS - taken) * unit);
    assert_int_equal(b.largest, largest * unit);
    assert_int_equal(b.n, blocks);
    assert_int_equal(h.n, n);
    vm_hbm_free(&h);
  }
}

/* ---- Through soma.h ----------------------------------------------------------------------- */

static const char with_const[] = "        target  trn2\n"
                                 "x       tensor  float32[2, 4], input\n"
                                 "w       tensor  float32[2, 4], const = [1, 2, 3, 4, 5, 6, 7, 8]\n"
                                 "tmp     tensor  float32[2, 2]\n"
                                 "y       tensor  float32[2, 4], output\n"
                                 "t       tile    sbuf float32[2, 4]\n"
                                 "q       queue   dge=none\n"
                                 "section sync\n"
                                 "        dma_compute  y, srcs=[x, w], op=add, queue=q\n"
                                 "        dma_trigger  q, 1\n"
                                 "        halt\n";
static const float x_data[8] = {10, 20, 30, 40, 50, 60, 70, 80};

static soma_hbm_usage usage(const bed *b) {
  soma_hbm_usage u;
  soma_hbm_stats(b->m, &u, sizeof u);
  return u;
}

static void expect_block(const bed *b, uint32_t i, const char *name, soma_hbm_owner owner,
                         uint64_t address, uint64_t bytes) {
  soma_hbm_block k;
  assert_int_equal(soma_hbm_allocation(b->m, i, &k), SOMA_OK);
  assert_string_equal(k.name, name);
  assert_int_equal(k.owner, owner);
  assert_int_equal(k.address, address);
  assert_int_equal(k.bytes, bytes);
  assert_int_equal(k.stack, 0);
}

static void expect_sum(bed *b) {
  float y[8];
  assert_int_equal(soma_fetch(b->r, "y", y, sizeof y), SOMA_OK);
  for (int i = 0; i < 8; i++) assert_true(y[i] == x_data[i] + (float)(i + 1));
}

static void run_sum(bed *b) {
  bed_bind(b, "x", SOMA_FLOAT32, 2, 4, x_data);
  bed_run(b, SOMA_OK);
  expect_sum(b);
}

/* What a run has in HBM, and that it goes when the run ends though its tensors can be read. */
static void listing(void **state) {
  (void)state;
  bed b = bed_open(NULL, with_const);
  soma_tensor *t;
  soma_hbm_block k;
  assert_int_equal(soma_tensor_new(b.m, SOMA_UINT8, 1, (int64_t[]){100}, &t), SOMA_OK);
  bed_bind(&b, "x", SOMA_FLOAT32, 2, 4, x_data);
  bed_start(&b);
  expect_block(&b, 0, "uint8[100]", SOMA_HBM_TENSOR, 0, 100);
  expect_block(&b, 1, "x", SOMA_HBM_PROGRAM, 128, 32);
  expect_block(&b, 2, "w", SOMA_HBM_PROGRAM, 192, 32);
  expect_block(&b, 3, "tmp", SOMA_HBM_PROGRAM, 256, 16);
  expect_block(&b, 4, "y", SOMA_HBM_PROGRAM, 320, 32);
  expect_block(&b, 5, "q", SOMA_HBM_RING, 384, 128); /* a descriptor of 64 bytes for each source */
  assert_int_equal(soma_hbm_allocation(b.m, 6, &k), SOMA_ARG);
  soma_hbm_usage u = usage(&b);
  assert_int_equal(u.capacity, 96 * GIB);
  assert_int_equal(u.used, 340);
  assert_int_equal(u.high_water, 340);
  assert_int_equal(u.free, 96 * GIB - 512);
  assert_int_equal(u.largest_free, 96 * GIB - 512);
  assert_int_equal(u.blocks, 6);
  assert_int_equal(u.free_blocks, 1);
  assert_int_equal(u.stacks, 4);
  assert_int_equal(u.stack[0].used, 340);
  assert_int_equal(u.stack[3].capacity, 24 * GIB);
  assert_int_equal(bed_stats(&b).hbm_bytes, 340);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  expect_sum(&b);
  assert_int_equal(soma_hbm_used(b.m), 100);
  soma_tensor_name(t, "kept");
  expect_block(&b, 0, "kept", SOMA_HBM_TENSOR, 0, 100);
  soma_tensor_free(t);
  assert_int_equal(usage(&b).blocks, 0);
  assert_int_equal(usage(&b).high_water, 340);
  uint64_t first = 0;
  soma_hbm_stats(b.m, (soma_hbm_usage *)(void *)&first,
                 sizeof first); /* an older, shorter struct */
  assert_int_equal(first, 96 * GIB);
  bed_close(&b);
}

/* A tensor of 64 GiB costs the host what is touched of it. */
static void sparse(void **state) {
  (void)state;
  bed b =
      bed_open(NULL, "target trn2\n big tensor float32[131072, 131072], temp\n"
                     "a tensor float32[1, 4], input\nc tensor float32[1, 4], output\n"
                     "q queue dge=hwdge\ns sem\nsection sync\n"
                     " dma_copy big[131071:131072, 131068:131072], a, queue=q $s\n"
                     " dma_copy c, big[131071:131072, 131068:131072], queue=q $s>=16 $s\n halt\n");
  float c[4];
  bed_bind(&b, "a", SOMA_FLOAT32, 1, 4, x_data);
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_fetch(b.r, "c", c, sizeof c), SOMA_OK);
  assert_memory_equal(c, x_data, sizeof c);
  assert_int_equal(usage(&b).high_water, 64 * GIB + 32);
  bed_close(&b);
}

/* Tensors made before the target is known must lie in the HBM of that which comes. */
static void target_comes_later(void **state) {
  (void)state;
  bed b = bed_open(NULL, "target trn1\nsection sync\n halt\n");
  soma_tensor *t;
  assert_int_equal(soma_tensor_new(b.m, SOMA_UINT8, 1, (int64_t[]){40 * (int64_t)GIB}, &t),
                   SOMA_OK);
  assert_int_equal(soma_run_start(b.m, b.p, &b.r), SOMA_LIMIT);
  assert_string_equal(soma_error(b.m), "tensors of the machine lie beyond the HBM of trn1, 32 GiB");
  assert_int_equal(usage(&b).capacity, 96 * GIB);
  soma_tensor_free(t);
  bed_run(&b, SOMA_OK);
  assert_int_equal(usage(&b).capacity, 32 * GIB);
  assert_int_equal(usage(&b).stacks, 2);
  bed_close(&b);
}

/* A run that follows one that ended takes its addresses; the older one stays readable. */
static void runs_follow(void **state) {
  (void)state;
  soma_options o = SOMA_OPTIONS_INIT;
  o.max_hbm_bytes = 384; /* of one run: four tensors and a ring of 128 */
  bed b = bed_open(&o, with_const);
  run_sum(&b);
  soma_run *first = b.r;
  run_sum(&b);
  soma_run *second = b.r;
  b.r = first;
  expect_sum(&b);
  soma_run_free(first);
  b.r = second;
  assert_int_equal(usage(&b).high_water, 240);
  bed_close(&b);
  o.max_hbm_bytes = 383;
  b = bed_open(&o, with_const);
  bed_bind(&b, "x", SOMA_FLOAT32, 2, 4, x_data);
  assert_int_equal(soma_run_start(b.m, b.p, &b.r), SOMA_LIMIT);
  assert_int_equal(soma_hbm_used(b.m), 0);
  bed_close(&b);
}

static void interrupt(void *ud, const soma_event *e) {
  soma_machine **m = ud;
  (void)e;
  if (*m) soma_machine_interrupt(*m);
}

/* A run that was stopped may continue, so it keeps its addresses, until another takes its place. */
static void stopped_run(void **state) {
  (void)state;
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m = NULL;
  o.max_hbm_bytes = 384;
  o.event = interrupt;
  o.event_ud = &m;
  bed b = bed_open(&o, with_const);
  m = b.m;
  bed_bind(&b, "x", SOMA_FLOAT32, 2, 4, x_data);
  bed_run(&b, SOMA_STOPPED);
  assert_int_equal(soma_hbm_used(b.m), 240);
  soma_run *first = b.r;
  m = NULL;
  run_sum(&b);
  assert_int_equal(soma_hbm_used(b.m), 0);
  soma_run_free(first);
  bed_close(&b);
}

/* Copied by each run, and counted each time; once when they are moved to the device. */
static void constants(void **state) {
  (void)state;
  bed b = bed_open(NULL, with_const);
  uint64_t in;
  run_sum(&b);
  assert_int_equal(bed_stats(&b).host_to_device, 64); /* x and w */
  soma_run_free(b.r);
  assert_int_equal(soma_move_to_device(b.m, b.p), SOMA_OK);
  assert_int_equal(soma_move_to_device(b.m, b.p), SOMA_OK); /* they are there */
  expect_block(&b, 0, "w", SOMA_HBM_CONST, 0, 32);
  soma_traffic(b.m, &in, NULL);
  assert_int_equal(in, 64 + 32);
  for (int i = 0; i < 2; i++) {
    run_sum(&b);
    assert_int_equal(bed_stats(&b).host_to_device, 32);
    soma_run_free(b.r);
  }
  soma_traffic(b.m, &in, NULL);
  assert_int_equal(in, 64 + 32 + 2 * 32);
  assert_int_equal(soma_hbm_used(b.m), 32);
  bed_bind(&b, "x", SOMA_FLOAT32, 2, 4, x_data);
  bed_start(&b);
  soma_drop_from_device(b.m, b.p); /* the run keeps what it uses */
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  expect_sum(&b);
  soma_run_free(b.r);
  b.r = NULL;
  assert_int_equal(soma_hbm_used(b.m), 0);
  soma_drop_from_device(b.m, b.p);
  run_sum(&b);
  bed_close(&b);
}

/* All or none; no room means no change. They go with the machine when nobody drops them. */
static void constants_without_room(void **state) {
  (void)state;
  static const char two[] = "target trn2\nv tensor float32[16], const = [times 16 1]\n"
                            "w tensor float32[17], const = [times 17 1]\nsection sync\n halt\n";
  soma_options o = SOMA_OPTIONS_INIT;
  o.max_hbm_bytes = 128;
  bed b = bed_open(&o, two);
  assert_int_equal(soma_move_to_device(b.m, b.p), SOMA_LIMIT);
  assert_string_equal(soma_error(b.m), "device const w needs 68 bytes of HBM; 64 of 128 are taken, "
                                       "the largest of 1 free block has 64\n"
                                       "  64 bytes at 0x0: device const v");
  assert_int_equal(soma_hbm_used(b.m), 0);
  bed_close(&b);
  o.max_hbm_bytes = 192;
  b = bed_open(&o, two);
  assert_int_equal(soma_move_to_device(b.m, b.p), SOMA_OK);
  soma_program_free(b.p); /* the machine holds it */
  soma_machine_free(b.m);
  b = bed_open(NULL, "target trn2\nsection sync\n halt\n");
  assert_int_equal(soma_move_to_device(b.m, b.p), SOMA_OK); /* none at all */
  bed_close(&b);
}

/* ---- Data in place ------------------------------------------------------------------------ */

typedef struct counted {
  size_t now, most;
  long countdown; /* calls until one fails; 0: none does */
} counted;

static void *count(void *ud, void *p, size_t old, size_t n) {
  counted *c = ud;
  if (n && c->countdown && --c->countdown == 0) return NULL;
  void *q = NULL;
  if (n == 0)
    free(p);
  else if (!(q = realloc(p, n)))
    return NULL;
  c->now = c->now - (p ? old : 0) + n;
  if (c->now > c->most) c->most = c->now;
  return q;
}

enum { ROWS = 1 << 13, COLS = 128, INPUT = ROWS * COLS * 4 }; /* 4 MiB */
static const char big_source[] =
    "target trn2\na tensor float32[8192, 128], input\n"
    "c tensor float32[128, 128], output\nt tile sbuf float32[128, 128]\n"
    "s sem\nq queue dge=hwdge\nsection sync\n"
    " dma_copy t, a[8064:8192, :], queue=q $s\n"
    " dma_copy c, t, queue=q $s>=16 $s\n halt\n";
/* The same, but it writes to its input. */
static const char big_writer[] =
    "target trn2\na tensor float32[8192, 128], input\n"
    "c tensor float32[128, 128], output\nt tile sbuf float32[128, 128]\n"
    "s sem\nq queue dge=hwdge\nsection sync\n"
    " dma_copy t, a[8064:8192, :], queue=q $s\n"
    " dma_copy c, t, queue=q $s>=16 $s\n mov r1, 7\n"
    " tensor_store a[0, 0], r1 $s>=32\n halt\n";

/* Host memory that a run of text takes while a is bound by `how`. The data stay as they are. */
static size_t host_bytes(const char *text,
                         soma_status (*how)(soma_machine *, soma_program *, const char *,
                                            soma_dtype, uint32_t, const int64_t *, const void *)) {
  static const int64_t shape[2] = {ROWS, COLS};
  counted c = {0};
  soma_options o = SOMA_OPTIONS_INIT;
  o.target = "trn2";
  o.alloc = count;
  o.alloc_ud = &c;
  float *a = malloc(INPUT), *out = malloc(128 * 128 * 4);
  for (int i = 0; i < ROWS * COLS; i++) a[i] = (float)i;
  bed b = bed_open(&o, text);
  size_t before = c.now;
  assert_int_equal(how(b.m, b.p, "a", SOMA_FLOAT32, 2, shape, a), SOMA_OK);
  bed_run(&b, SOMA_OK);
  assert_int_equal(bed_stats(&b).host_to_device, INPUT);
  assert_int_equal(bed_stats(&b).hbm_bytes, INPUT + 128 * 128 * 4);
  assert_int_equal(soma_fetch(b.r, "c", out, 128 * 128 * 4), SOMA_OK);
  assert_memory_equal(out, a + (ROWS - 128) * COLS, 128 * 128 * 4);
  for (int i = 0; i < ROWS * COLS; i++) assert_true(a[i] == (float)i);
  bed_close(&b);
  assert_int_equal(c.now, 0);
  free(a);
  free(out);
  return c.most - before;
}

static void in_place(void **state) {
  (void)state;
  assert_true(host_bytes(big_source, soma_bind_shared) < INPUT / 4);
  assert_true(host_bytes(big_source, soma_bind) >= INPUT);
  assert_true(host_bytes(big_writer, soma_bind_shared) >= INPUT);
}

/* Every instruction that can write HBM keeps the caller's data from being used in place. */
static void writers(void **state) {
  (void)state;
  static const char *const lines[] = {
      "q queue dge=hwdge\nsection sync\n dma_copy a, b, queue=q\n halt\n",
      "q queue dge=none\nsection sync\n dma_copy a, b, queue=q\n dma_trigger q, 1\n halt\n",
      "q queue dge=none\nsection sync\n dma_compute a, srcs=[b, b], op=add, queue=q\n"
      " dma_trigger q, 1\n halt\n",
      "section sync\n mov r1, 5\n tensor_store a[0, 0], r1\n halt\n",
      "t tile sbuf float32[2, 4]\nq queue dge=hwdge\nsection sync\n dma_copy a, t, queue=q\n "
      "halt\n",
  };
  for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
    static const int64_t shape[2] = {2, 4};
    char text[512];
    snprintf(text, sizeof text,
             "target trn2\na tensor float32[2, 4], input\nb tensor float32[2, 4], input\n%s",
             lines[i]);
    bed b = bed_open(NULL, text);
    float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, got[8];
    unsigned char off[sizeof a + 1] = {0}; /* an odd address will do */
    memcpy(off + 1, x_data, sizeof x_data);
    assert_int_equal(soma_bind_shared(b.m, b.p, "a", SOMA_FLOAT32, 2, shape, a), SOMA_OK);
    assert_int_equal(soma_bind_shared(b.m, b.p, "b", SOMA_FLOAT32, 2, shape, off + 1), SOMA_OK);
    bed_run(&b, SOMA_OK);
    for (int k = 0; k < 8; k++) assert_true(a[k] == (float)(k + 1));
    assert_int_equal(soma_fetch(b.r, "a", got, sizeof got), SOMA_OK);
    assert_true(memcmp(got, a, sizeof a) != 0);
    assert_int_equal(soma_fetch(b.r, "b", got, sizeof got), SOMA_OK);
    assert_memory_equal(got, x_data, sizeof got);
    bed_close(&b);
  }
}

/* A failing allocation anywhere leaves nothing behind and says so. */
static void failing_allocator(void **state) {
  (void)state;
  static const int64_t shape[2] = {2, 4};
  counted c = {0};
  soma_options o = SOMA_OPTIONS_INIT;
  o.target = "trn2";
  o.alloc = count;
  o.alloc_ud = &c;
  bed b = bed_open(&o, with_const);
  size_t before = 0;
  for (long k = 1, failed = 1; failed; k++) {
    soma_status s;
    before = c.now;
    c.countdown = k;
    failed = (s = soma_move_to_device(b.m, b.p)) != SOMA_OK;
    if (!failed)
      failed = (s = soma_bind_shared(b.m, b.p, "x", SOMA_FLOAT32, 2, shape, x_data)) != SOMA_OK;
    if (!failed) failed = (s = soma_run_start(b.m, b.p, &b.r)) != SOMA_OK;
    c.countdown = 0;
    if (failed) assert_int_equal(s, SOMA_NOMEM);
    if (failed) assert_true(soma_hbm_used(b.m) == 0 || soma_hbm_used(b.m) == 32);
    assert_true(k < 1000);
  }
  assert_true(before > 0);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  expect_sum(&b);
  bed_close(&b);
  assert_int_equal(c.now, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(targets),
                                     cmocka_unit_test(placement),
                                     cmocka_unit_test(coalescing),
                                     cmocka_unit_test(fragmentation),
                                     cmocka_unit_test(report),
                                     cmocka_unit_test(random_takes),
                                     cmocka_unit_test(listing),
                                     cmocka_unit_test(sparse),
                                     cmocka_unit_test(constants),
                                     cmocka_unit_test(constants_without_room),
                                     cmocka_unit_test(in_place),
                                     cmocka_unit_test(writers),
                                     cmocka_unit_test(failing_allocator),
                                     cmocka_unit_test(target_comes_later),
                                     cmocka_unit_test(runs_follow),
                                     cmocka_unit_test(stopped_run)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
