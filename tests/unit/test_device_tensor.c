/* Device tensors of libsoma: placement in place, lifetimes, HBM's limit, counted bytes. */
#include "../../vm/api/soma.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char source[] = "        target  trn2\n"
                             "a       tensor  float32[4, 2], input\n"
                             "c       tensor  float32[4, 2], output\n"
                             "t       tile    sbuf float32[4, 2]\n"
                             "loaded  sem\n"
                             "added   sem\n"
                             "q       queue   dge=hwdge\n"
                             "section sync\n"
                             "        dma_copy  t, a, queue=q   $loaded\n"
                             "        dma_copy  c, t, queue=q   $added>=1\n"
                             "        halt\n"
                             "section vector\n"
                             "        tensor_tensor t, t, t, op=add   $loaded>=16 $added++\n"
                             "        halt\n";
static const int64_t shape[2] = {4, 2};
static const float ones[8] = {1, 2, 3, 4, 5, 6, 7, 8};

typedef struct bed {
  soma_machine *m;
  soma_program *p;
} bed;

static bed start(uint64_t hbm) {
  bed b = {0};
  soma_options o = SOMA_OPTIONS_INIT;
  o.max_hbm_bytes = hbm;
  assert_int_equal(soma_machine_new(&o, &b.m), SOMA_OK);
  assert_int_equal(soma_assemble(b.m, source, sizeof source - 1, "x.s", NULL, &b.p, NULL), SOMA_OK);
  return b;
}

static void end(bed *b) {
  soma_program_free(b->p);
  soma_machine_free(b->m);
}

static soma_tensor *make(soma_machine *m) {
  soma_tensor *t;
  assert_int_equal(soma_tensor_new(m, SOMA_FLOAT32, 2, shape, &t), SOMA_OK);
  return t;
}

static void expect(soma_tensor *t, float factor) {
  float v[8];
  assert_int_equal(soma_tensor_read(t, v, sizeof v), SOMA_OK);
  for (int i = 0; i < 8; i++) assert_true(v[i] == factor * ones[i]);
}

static void run_to_end(bed *b) {
  soma_run *r;
  soma_stats s;
  assert_int_equal(soma_run_start(b->m, b->p, &r), SOMA_OK);
  assert_int_equal(soma_run_until(r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  soma_run_stats(r, &s, sizeof s);
  assert_int_equal(s.host_to_device, 0);
  soma_run_free(r);
}

/* y = 2x, then x = 2y, in place: nothing is copied between the runs. */
static void chains(void **state) {
  (void)state;
  bed b = start(0);
  uint64_t in, out;
  soma_tensor *x = make(b.m), *y = make(b.m);
  expect(x, 0);
  assert_int_equal(soma_tensor_write(x, ones, sizeof ones), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", x), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "c", y), SOMA_OK);
  run_to_end(&b);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", y), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "c", x), SOMA_OK);
  run_to_end(&b);
  soma_traffic(b.m, &in, &out);
  assert_int_equal(in, sizeof ones);
  assert_int_equal(out, sizeof ones);
  expect(x, 4);
  expect(y, 2);
  assert_int_equal(soma_hbm_used(b.m), 2 * sizeof ones);
  soma_tensor_free(x);
  soma_tensor_free(y);
  assert_int_equal(soma_hbm_used(b.m), 0);
  end(&b);
}

/* The last binding counts; what it replaces, and what soma_unbind drops, is let go. */
static void rebinding(void **state) {
  (void)state;
  bed b = start(0);
  soma_run *r;
  float c[8];
  soma_tensor *x = make(b.m);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", x), SOMA_OK);
  soma_tensor_free(x);
  assert_int_equal(soma_hbm_used(b.m), sizeof ones);
  assert_int_equal(soma_bind(b.m, b.p, "a", SOMA_FLOAT32, 2, shape, ones), SOMA_OK);
  assert_int_equal(soma_hbm_used(b.m), 0);
  assert_int_equal(soma_run_start(b.m, b.p, &r), SOMA_OK);
  assert_int_equal(soma_run_until(r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(soma_fetch(r, "c", c, sizeof c), SOMA_OK);
  assert_true(c[7] == 16);
  soma_run_free(r);
  x = make(b.m);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", x), SOMA_OK);
  soma_tensor_free(x);
  soma_unbind(b.m, b.p);
  assert_int_equal(soma_hbm_used(b.m), 0);
  assert_int_equal(soma_run_start(b.m, b.p, &r), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "input tensor a is not bound; it takes float32[4, 2]");
  end(&b);
}

/* A run keeps its tensors, tensors outlive their machine as handles. */
static void lifetimes(void **state) {
  (void)state;
  bed b = start(0);
  soma_run *r;
  float c[8];
  soma_tensor *x = make(b.m), *y = make(b.m), *z = make(b.m);
  assert_int_equal(soma_tensor_write(x, ones, sizeof ones), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", x), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "c", y), SOMA_OK);
  assert_int_equal(soma_run_start(b.m, b.p, &r), SOMA_OK);
  soma_tensor_free(x);
  soma_tensor_free(y);
  assert_int_equal(soma_run_until(r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(soma_fetch(r, "c", c, sizeof c), SOMA_OK);
  assert_true(c[0] == 2);
  end(&b);
  soma_run_free(r); /* a run outlives its machine, and is freed by whoever started it */
  assert_int_equal(soma_tensor_read(z, c, sizeof c), SOMA_ARG);
  assert_int_equal(soma_tensor_write(z, c, sizeof c), SOMA_ARG);
  soma_tensor_free(z);
  soma_tensor_free(NULL);
}

/* A view is a part of a tensor: what a run does with it happens to the tensor. */
static void views(void **state) {
  (void)state;
  bed b = start(0);
  soma_run *r;
  int64_t two[1] = {2}, four[2] = {4, 4};
  float v[16], seven = 7;
  void *data;
  size_t n;
  uint64_t in, out;
  soma_tensor *t, *half, *first, *pair;
  assert_int_equal(soma_tensor_new(b.m, SOMA_FLOAT32, 2, four, &t), SOMA_OK);
  assert_int_equal(soma_tensor_view(t, 32, SOMA_FLOAT32, 2, shape, &half), SOMA_OK);
  assert_int_equal(soma_tensor_view(t, 0, SOMA_FLOAT32, 2, shape, &first), SOMA_OK);
  assert_int_equal(soma_tensor_view(half, 24, SOMA_FLOAT32, 1, two, &pair), SOMA_OK);
  assert_int_equal(soma_hbm_used(b.m), 64);
  assert_int_equal(soma_tensor_write(first, ones, sizeof ones), SOMA_OK);
  soma_tensor_free(t); /* its memory stays as long as a view does */
  assert_int_equal(soma_hbm_used(b.m), 64);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", first), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "c", half), SOMA_OK);
  assert_int_equal(soma_run_start(b.m, b.p, &r), SOMA_OK);
  assert_int_equal(soma_run_save(r, &data, &n), SOMA_OK); /* they do not overlap */
  soma_bytes_free(data);
  assert_int_equal(soma_run_until(r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  soma_run_free(r);
  expect(half, 2);
  soma_traffic(b.m, &in, &out);
  assert_int_equal(soma_tensor_fill(half, 24, &seven, sizeof seven, 2), SOMA_OK);
  assert_int_equal(soma_tensor_read_part(half, 20, v, 12), SOMA_OK);
  assert_true(v[0] == 2 * ones[5] && v[1] == 7 && v[2] == 7);
  assert_int_equal(soma_tensor_write_part(half, 28, ones, 4), SOMA_OK);
  assert_int_equal(soma_tensor_read(pair, v, 8), SOMA_OK);
  assert_true(v[0] == 7 && v[1] == ones[0]);
  uint64_t in2, out2;
  soma_traffic(b.m, &in2, &out2);
  assert_int_equal(in2 - in, 4);
  assert_int_equal(out2 - out, 20);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", half), SOMA_OK);
  soma_tensor_free(half);
  soma_tensor_free(first);
  soma_tensor_free(pair);
  assert_int_equal(soma_hbm_used(b.m), 64);
  soma_unbind(b.m, NULL);
  assert_int_equal(soma_hbm_used(b.m), 0);
  end(&b);
}

static void wrong_views(void **state) {
  (void)state;
  bed b = start(0);
  soma_run *r;
  soma_tensor *t, *v, *w;
  void *data;
  size_t n;
  assert_int_equal(soma_tensor_new(b.m, SOMA_FLOAT32, 1, (int64_t[]){16}, &t), SOMA_OK);
  static const int64_t five[1] = {5};
  assert_int_equal(soma_tensor_view(t, 48, SOMA_FLOAT32, 1, five, &v), SOMA_ARG);
  assert_null(v);
  assert_string_equal(soma_error(b.m),
                      "a view must lie in its tensor's 64 bytes and begin at a multiple of its "
                      "element's size, not at byte 48");
  assert_int_equal(soma_tensor_view(t, 2, SOMA_FLOAT32, 1, five, &v), SOMA_ARG);
  assert_int_equal(soma_tensor_view(t, UINT64_MAX, SOMA_FLOAT32, 1, five, &v), SOMA_ARG);
  float one = 1;
  assert_int_equal(soma_tensor_fill(t, 4, &one, 4, 16), SOMA_ARG);
  assert_int_equal(soma_tensor_fill(t, 0, &one, 4, UINT64_MAX / 4), SOMA_ARG);
  assert_int_equal(soma_tensor_fill(t, 0, &one, 0, 1), SOMA_ARG);
  assert_int_equal(soma_tensor_read_part(t, 61, &one, 4), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "4 bytes from byte 61: the tensor has 64");
  assert_int_equal(soma_tensor_view(t, 0, SOMA_FLOAT32, 2, shape, &v), SOMA_OK);
  assert_int_equal(soma_tensor_view(t, 16, SOMA_FLOAT32, 2, shape, &w), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", v), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "c", w), SOMA_OK);
  assert_int_equal(soma_run_start(b.m, b.p, &r), SOMA_OK);
  assert_int_equal(soma_run_save(r, &data, &n), SOMA_ARG); /* they overlap */
  soma_run_free(r);
  soma_tensor_free(t);
  soma_tensor_free(v);
  end(&b);
  assert_int_equal(soma_tensor_view(w, 0, SOMA_FLOAT32, 2, shape, &v), SOMA_ARG);
  assert_null(v);
  soma_tensor_free(w); /* the last: its machine is gone */
}

static void limits(void **state) {
  (void)state;
  bed b = start(150); /* addresses are multiples of 64: 22 bytes are left after two tensors */
  soma_tensor *x = make(b.m), *y = make(b.m), *t;
  soma_run *r;
  assert_int_equal(soma_tensor_new(b.m, SOMA_FLOAT32, 2, shape, &t), SOMA_LIMIT);
  assert_null(t);
  assert_string_equal(soma_error(b.m),
                      "device tensor float32[4, 2] needs 32 bytes of HBM; 64 of 150 are taken, the "
                      "largest of 1 free block has 22\n"
                      "  32 bytes at 0x0: device tensor float32[4, 2]\n"
                      "  32 bytes at 0x40: device tensor float32[4, 2]");
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", x), SOMA_OK);
  assert_int_equal(soma_run_start(b.m, b.p, &r), SOMA_LIMIT);
  assert_string_equal(soma_error(b.m),
                      "tensor c needs 32 bytes of HBM; 64 of 150 are taken, the largest of 1 free "
                      "block has 22\n"
                      "  32 bytes at 0x0: device tensor float32[4, 2]\n"
                      "  32 bytes at 0x40: device tensor float32[4, 2]");
  soma_tensor_free(y);
  assert_int_equal(soma_tensor_new(b.m, SOMA_UINT8, 1, (int64_t[]){87}, &t), SOMA_LIMIT);
  assert_int_equal(soma_tensor_new(b.m, SOMA_UINT8, 1, (int64_t[]){86}, &t), SOMA_OK);
  soma_tensor_free(t);
  assert_int_equal(soma_tensor_new(b.m, SOMA_UINT8, 2, (int64_t[]){INT64_MAX, 4}, &t), SOMA_ARG);
  assert_int_equal(soma_tensor_new(b.m, SOMA_UINT8, 1, (int64_t[]){0}, &t), SOMA_ARG);
  assert_int_equal(soma_tensor_new(b.m, SOMA_UINT8, 9, shape, &t), SOMA_ARG);
  assert_int_equal(soma_tensor_new(b.m, (soma_dtype)99, 1, shape, &t), SOMA_ARG);
  soma_tensor_free(x);
  end(&b);
}

static void refusals(void **state) {
  (void)state;
  bed b = start(0), other = start(0);
  float v[8] = {0};
  soma_tensor *x = make(b.m), *bytes;
  assert_int_equal(soma_tensor_new(b.m, SOMA_UINT8, 2, shape, &bytes), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", bytes), SOMA_ARG);
  assert_string_equal(soma_error(b.m),
                      "tensor a is float32[4, 2], but the data given is uint8[4, 2]");
  assert_int_equal(soma_bind_tensor(b.m, b.p, "z", x), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "the program has no tensor z");
  assert_int_equal(soma_bind_tensor(other.m, other.p, "a", x), SOMA_ARG);
  assert_int_equal(soma_tensor_write(x, v, 31), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "the tensor has 32 bytes, not 31");
  assert_int_equal(soma_tensor_read(x, v, 33), SOMA_ARG);
  soma_tensor_free(x);
  soma_tensor_free(bytes);
  end(&b);
  end(&other);
}

/* When the share of each DMA engine starts and is done; engine i moves rows 8 i to 8 i + 7. */
typedef struct times {
  soma_time start[16], done[16];
} times;

static void note(void *ud, const soma_event *e) {
  times *t = ud;
  if (e->kind != SOMA_EV_DMA) return;
  t->start[e->engine] = e->start;
  t->done[e->engine] = e->end;
}

/* A transfer reads when its share starts, also a tensor that the host writes to on the way. */
static void written_under_a_transfer(void **state) {
  (void)state;
  static const char text[] = "target trn2\nx tensor float32[128, 2], input\n"
                             "y tensor float32[128, 2], output\ns sem\nq queue dge=hwdge\n"
                             "section sync\n dma_copy y, x, queue=q $s\n nop $s>=16\n halt\n";
  static const int64_t rows[2] = {128, 2};
  float old[256], new[256], y[256];
  times t = {{0}, {0}}, again;
  soma_options o = SOMA_OPTIONS_INIT;
  o.event = note;
  o.event_ud = &t;
  for (int i = 0; i < 256; i++) old[i] = (float)i, new[i] = -old[i] - 1;
  soma_machine *m;
  soma_program *p;
  soma_tensor *x;
  soma_run *r;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_OK);
  assert_int_equal(soma_assemble(m, text, sizeof text - 1, "x.s", NULL, &p, NULL), SOMA_OK);
  assert_int_equal(soma_tensor_new(m, SOMA_FLOAT32, 2, rows, &x), SOMA_OK);
  for (int round = 0; round < 2; round++) {
    soma_time middle = (t.start[5] + t.done[5]) / 2;
    again = t;
    assert_int_equal(soma_tensor_write(x, old, sizeof old), SOMA_OK);
    assert_int_equal(soma_bind_tensor(m, p, "x", x), SOMA_OK);
    assert_int_equal(soma_run_start(m, p, &r), SOMA_OK);
    if (round) {
      assert_int_equal(soma_run_until(r, SOMA_TIME, SOMA_SYNC, middle), SOMA_OK);
      assert_int_equal(soma_tensor_write(x, new, sizeof new), SOMA_OK);
    }
    assert_int_equal(soma_run_until(r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
    assert_int_equal(soma_fetch(r, "y", y, sizeof y), SOMA_OK);
    for (int e = 0; e < 16; e++) {
      bool before = !round || again.start[e] < middle;
      assert_true(again.start[e] != middle || !round);
      assert_memory_equal(y + 16 * e, (before ? old : new) + 16 * e, 16 * sizeof *y);
    }
    soma_run_free(r);
  }
  soma_tensor_free(x);
  soma_program_free(p);
  soma_machine_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains),      cmocka_unit_test(rebinding),
      cmocka_unit_test(lifetimes),   cmocka_unit_test(views),
      cmocka_unit_test(wrong_views), cmocka_unit_test(limits),
      cmocka_unit_test(refusals),    cmocka_unit_test(written_under_a_transfer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
