/* Saved runs: one that is saved after any event and resumed in another machine ends as the one that
 * was never interrupted, bit by bit; what is not a saved run is refused. */
#include "../../isa/bytes.h"
#include "vm_bed.h"

enum { HEADER = 40, AT_HASH = 32, PATTERN = 1 << 22, POINTS = 10 };
static uint32_t pattern[PATTERN / 4];

/* Floats of both signs for most types; small numbers, which are indices too, for integers. */
static const void *data_for(const soma_tensor_info *t) {
  int integer = t->dtype <= SOMA_INT64;
  for (uint32_t i = 0; i < PATTERN / 4; i++) {
    float x = (float)((int)(i * 37 % 201) - 100) * 0.03125f;
    memcpy(&pattern[i], &x, 4);
    if (integer) pattern[i] = i * 5 % 8;
  }
  if (t->bytes > PATTERN) fail_msg("%s is too large for this test", t->name);
  return pattern;
}

static void start(bed *b) {
  soma_tensor_info t;
  for (uint32_t i = 0; soma_program_tensor(b->p, i, &t) == SOMA_OK; i++) {
    if (t.role != SOMA_INPUT) continue;
    if (soma_bind(b->m, b->p, t.name, t.dtype, t.ndim, t.shape, data_for(&t)) != SOMA_OK)
      fail_msg("%s", soma_error(b->m));
  }
  bed_start(b);
}

static bed open_program(const soma_options *o, const char *text) {
  if (strchr(text, '\n')) return bed_open(o, text);
  bed b = {0};
  assert_int_equal(soma_machine_new(o, &b.m), SOMA_OK);
  if (soma_assemble_file(b.m, text, NULL, &b.p, NULL) != SOMA_OK) fail_msg("%s", soma_error(b.m));
  return b;
}

typedef struct saved {
  void *data;
  size_t n;
} saved;

static saved save(bed *b) {
  saved s;
  if (soma_run_save(b->r, &s.data, &s.n) != SOMA_OK) fail_msg("%s", soma_error(b->m));
  return s;
}

static bed resume(const soma_options *o, saved s) {
  bed b = {0};
  assert_int_equal(soma_machine_new(o, &b.m), SOMA_OK);
  if (soma_run_resume(b.m, s.data, s.n, &b.p, &b.r) != SOMA_OK) fail_msg("%s", soma_error(b.m));
  return b;
}

/* ---- The same run --------------------------------------------------------------------------- */

static void same_stats(const bed *a, const bed *b) {
  soma_stats x = bed_stats(a), y = bed_stats(b);
  x.host_seconds = y.host_seconds = 0;
  assert_memory_equal(&x, &y, sizeof x);
}

static void same_memory(const bed *a, const bed *b, soma_memory mem, size_t n) {
  static uint8_t x[192 << 10], y[192 << 10];
  for (uint32_t p = 0; p < 128; p++) {
    assert_int_equal(soma_memory_read(a->m, mem, p, 0, x, n), SOMA_OK);
    assert_int_equal(soma_memory_read(b->m, mem, p, 0, y, n), SOMA_OK);
    if (memcmp(x, y, n) != 0) fail_msg("memory %d differs in partition %u", (int)mem, p);
  }
}

static void same_tensors(const bed *a, const bed *b) {
  soma_tensor_info t;
  for (uint32_t i = 0; soma_program_tensor(a->p, i, &t) == SOMA_OK; i++) {
    uint8_t *x = malloc(t.bytes), *y = malloc(t.bytes);
    assert_int_equal(soma_fetch(a->r, t.name, x, t.bytes), SOMA_OK);
    assert_int_equal(soma_fetch(b->r, t.name, y, t.bytes), SOMA_OK);
    if (memcmp(x, y, t.bytes) != 0) fail_msg("tensor %s differs", t.name);
    free(x);
    free(y);
  }
}

/* Both runs have ended: in the same way, with the same state. */
static void same_end(const bed *a, const bed *b) {
  same_stats(a, b);
  same_memory(a, b, SOMA_SBUF, 192 << 10);
  same_memory(a, b, SOMA_PSUM, 16 << 10);
  same_tensors(a, b);
}

static soma_status go_on(bed *b) {
  return soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0);
}

/* Runs text, or the file of that name, without a stop and with saves after events, and compares. */
static void check_program(const soma_options *o, const char *text, uint32_t every) {
  bed whole = open_program(o, text), b = open_program(o, text);
  start(&whole);
  soma_status end = go_on(&whole);
  start(&b);
  uint32_t points = 0, events = 0;
  for (; !soma_run_ended(b.r); events++) {
    if (events % every == 0) {
      saved s = save(&b);
      soma_machine_free(b.m); /* nothing of it is needed any more */
      soma_run_free(b.r);
      soma_program_free(b.p);
      b = resume(o, s);
      saved again = save(&b);
      if (s.n != again.n || memcmp(s.data, again.data, s.n) != 0)
        fail_msg("%s, event %u: saved again it has other bytes", text, events);
      soma_bytes_free(s.data);
      soma_bytes_free(again.data);
      points++;
    }
    if (soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0) != SOMA_OK) break;
  }
  if (points < 2) fail_msg("%s has %u events", text, events);
  assert_int_equal(go_on(&b), end);
  soma_fault f, g;
  soma_run_fault(whole.r, &f);
  soma_run_fault(b.r, &g);
  assert_string_equal(f.text, g.text);
  if (end == SOMA_OK) same_end(&whole, &b);
  bed_close(&b);
  bed_close(&whole);
}

static uint32_t count_events(const soma_options *o, const char *text) {
  uint32_t n = 0;
  bed b = open_program(o, text);
  start(&b);
  for (; !soma_run_ended(b.r); n++)
    if (soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0) != SOMA_OK) break;
  bed_close(&b);
  return n;
}

static void kernels(void **state) {
  (void)state;
  static const char *const files[] = {
      "samples/matmul.s",               "samples/softmax.s",
      "samples/vector_add.s",           "samples/vector_add_naive.s",
      "samples/vector_add_tiled.s",     "tests/conform/kernels/avgpool.s",
      "tests/conform/kernels/conv2d.s", "tests/conform/kernels/cumsum.s",
      "tests/conform/kernels/mlp.s",    "tests/conform/kernels/layernorm.s",
      "tests/conform/kernels/rope.s",   "tests/conform/kernels/rmsnorm.s",
      "tests/conform/kernels/topk.s",   "tests/conform/kernels/transpose.s"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    uint32_t n = count_events(NULL, files[i]);
    check_program(NULL, files[i], n / POINTS + 1);
  }
}

/* What is hard to carry over: sources that were overwritten after a start, operands by registers and
 * elements that have changed since, index vectors, static rings, states of engines. */
static const char *const programs[] = {
    /* a source that another engine overwrites while it is read */
    "target trn2\nt tile sbuf float32[128, 512]\nu tile sbuf float32[128, 512]\ns sem\n"
    "section vector\n memset t, 2.0 $s++\n halt\nsection gpsimd\n tensor_copy u, t $s>=1\n halt\n"
    "section scalar\n nop $s>=1\n activate t[:, 0:64], t[:, 0:64], fn=copy, scale=3.0\n halt\n",
    /* offsets and sizes in registers that go on at once */
    "target trn2\nt tile sbuf float32[128, 512]\ns sem\nsection vector\n mov r1, 0\n mov r3, 4\n"
    ".l: mov r4, 0x3f800000\n tensor_scalar t[:, r1:+8], t[:, r1:+8], op0=add, imm0=r4 $s++\n"
    " add r1, r1, 4\n mov r4, 0x40000000\n blt r1, 60, .l\n mov r1, 77\n halt\n"
    "section gpsimd\n iota t[:, 100:200], pattern=[[1, 100]], offset=0, multiplier=1\n halt\n",
    /* transfers of a loop, dynamic on both sides, into a ring that fills */
    "target trn2\na tensor float32[64, 32], input\nc tensor float32[64, 32], output\n"
    "t tile sbuf float32[64, 32]\ns sem\nq queue dge=hwdge, rings=2\nsection sync\n"
    " dma_copy t, a, queue=q $s\n nop $s>=2\n mov r1, 0\n"
    ".l: dma_copy c[r1:+1, :], t[r1:+1, :], queue=q\n add r1, r1, 1\n blt r1, 64, .l\n halt\n",
    /* gather, scatter with a sum, a transpose; the index vector is overwritten behind the trigger */
    "target trn2\na tensor float32[10, 6], input\nc tensor float32[10, 6], output\n"
    "t tile sbuf float32[8, 6]\nix tile sbuf int32[8, 1]\ns sem\nq queue dge=swdge\n"
    "section gpsimd\n iota ix, pattern=[[0,1]], offset=2, multiplier=1\n"
    " dma_copy t, a.ap([[6,8],[1,6]]).gather(ix), queue=q $s\n memset ix, 0\n nop $s>=16\n"
    " iota ix, pattern=[[0,1]], offset=1, multiplier=1\n"
    " dma_compute c.ap([[6,8],[1,6]]).gather(ix), op=add, queue=q,"
    " srcs=[c.ap([[6,8],[1,6]]).gather(ix), t] $s\n memset ix, 3\n nop $s>=32\n halt\n",
    /* random numbers, stochastic rounding, a mask, weights of two tiles, match values */
    "target trn3\nt tile sbuf float32[128, 64]\nu tile sbuf bfloat16[128, 64]\n"
    "v tile sbuf uint32[128, 8]\nm tile sbuf float32[128, 8]\ns sem\nsection vector\n"
    " rand t, dist=uniform\n tensor_copy u, t, round=stochastic $s++\n"
    " max8 m, t\n match_value_load m\n find_index8 v, t\n rand t, dist=uniform\n"
    " tensor_copy u, t, round=stochastic\n find_index8 v, t\n halt\n",
};

static void programs_of_every_kind(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
    check_program(NULL, programs[i], count_events(NULL, programs[i]) / 60 + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels),
      cmocka_unit_test(programs_of_every_kind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
