/* The .sbc file: there and back, the same bytes each time, and hostile input. */
#include "../../isa/program.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Counts what is live and its peak; fails at call number fail_at. */
typedef struct meter {
  size_t live, peak, calls, fail_at;
} meter;

static void *meter_fn(void *ud, void *p, size_t old, size_t n) {
  meter *m = ud;
  if (n == 0) {
    m->live -= old;
    free(p);
    return NULL;
  }
  if (++m->calls == m->fail_at) return NULL;
  void *q = realloc(p, n);
  if (q) m->live += n - old;
  if (m->live > m->peak) m->peak = m->live;
  return q;
}

static uint64_t fnv(const char *p, size_t n) {
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < n; i++) {
    h ^= (unsigned char)p[i];
    h *= 1099511628211u;
  }
  return h;
}

static void put(char *at, uint64_t v, unsigned n) {
  for (unsigned i = 0; i < n; i++) at[i] = (char)(v >> (8 * i) & 255);
}

static uint64_t get(const char *at, unsigned n) {
  uint64_t v = 0;
  for (unsigned i = n; i-- > 0;) v = v << 8 | (unsigned char)at[i];
  return v;
}

static void fix_hash(char *file, size_t n) {
  if (n >= 16) put(file + 8, fnv(file + 16, n - 16), 8);
}

/* Entry of the first section with that tag. */
static char *entry(char *file, const char *tag) {
  for (uint64_t i = 0; i < get(file + 40, 4); i++)
    if (memcmp(file + 48 + 24 * i, tag, 4) == 0) return file + 48 + 24 * i;
  fail_msg("no section %s", tag);
  return NULL;
}
static char *section(char *file, const char *tag) { return file + get(entry(file, tag) + 8, 8); }

/* ---- A program with something in every section -------------------------------------------- */

static void add_tables(isa_program *p) {
  static const uint8_t data[] = {1, 2, 3, 4, 5, 6};
  const isa_tensor a = {.name = "a",
                        .dtype = ISA_float32,
                        .role = ISA_INPUT,
                        .ndim = 2,
                        .shape = {512, 2048},
                        .bytes = 4194304};
  const isa_tensor k = {.name = "k",
                        .dtype = ISA_uint8,
                        .role = ISA_CONST,
                        .ndim = 1,
                        .shape = {6},
                        .bytes = 6,
                        .data = data};
  const isa_tensor l = {.name = "l",
                        .dtype = ISA_int16,
                        .role = ISA_CONST,
                        .ndim = 2,
                        .shape = {1, 3},
                        .bytes = 6,
                        .data = data};
  assert_int_equal(isa_program_tensor(p, &a), 1);
  assert_int_equal(isa_program_tensor(p, &k), 2);
  assert_int_equal(isa_program_tensor(p, &l), 3);
  assert_int_equal(isa_program_file(p, "main.s"), 1);
  assert_int_equal(isa_program_file(p, "lib/mac.inc"), 2);
  const isa_tile t = {.name = "ta",
                      .dtype = ISA_float32,
                      .space = ISA_SBUF,
                      .ndim = 2,
                      .shape = {128, 2048},
                      .offset = 64,
                      .bytes = 8192,
                      .overlay = "group",
                      .own = true};
  const isa_tile u = {.name = "acc",
                      .dtype = ISA_float32,
                      .space = ISA_PSUM,
                      .ndim = 1,
                      .part = 32,
                      .shape = {32},
                      .offset = 2048,
                      .bytes = 4};
  assert_int_equal(isa_program_tile(p, &t), 1);
  assert_int_equal(isa_program_tile(p, &u), 2);
  p->cores[0].sem_names[0] = "loaded";
  p->cores[0].sem_names[255] = "stored";
  p->cores[1].sem_names[7] = "other";
}

static void add_patterns(isa_program *p, unsigned core) {
  isa_ap h = {.dtype = ISA_float32, .space = ISA_HBM, .base = 1, .ndim = 2, .offset = 8192};
  h.dim[0] = (isa_dim){2048, 128};
  h.dim[1] = (isa_dim){1, 2048};
  h.dyn[0] = (isa_dyn){ISA_DYN_reg, 5, 0, 2048};
  isa_ap s = {.dtype = ISA_float32,
              .space = ISA_SBUF,
              .base = 1,
              .ndim = 1,
              .nparts = 128,
              .offset = 64,
              .size_dim = 2,
              .size_reg = 9};
  s.dim[0] = (isa_dim){-1, 2048};
  isa_ap d = s;
  d.dyn[0] = (isa_dyn){ISA_DYN_elem, 0, 2, -7};
  assert_int_equal(isa_program_ap(p, core, &h), 1);
  assert_int_equal(isa_program_ap(p, core, &s), 2);
  assert_int_equal(isa_program_ap(p, core, &d), 3);
}

static void add_code(isa_program *p, unsigned core) {
  isa_insn in;
  memset(&in, 0, sizeof in);
  in.op = ISA_OP_dma_copy;
  in.upd = (isa_update){ISA_UPD_dma, 0, 0, 0, 0};
  in.u.DMA_COPY.dst = 2;
  in.u.DMA_COPY.src = 1;
  in.u.DMA_COPY.queue = 1;
  assert_int_equal(
      isa_program_queue(
          p, core,
          &(isa_queue){.name = "qload", .dge = ISA_DGE_hwdge, .rings = 16, .owner = ISA_ENG_sync}),
      1);
  assert_int_equal(
      isa_program_queue(p, core,
                        &(isa_queue){.name = "qs", .rings = 4, .prio = 2, .owner = ISA_NENGINES}),
      2);
  assert_true(isa_program_static(p, core, 1, &in));
  assert_true(isa_program_static(p, core, 1, &in));
  assert_true(isa_program_insn(p, core, ISA_ENG_sync, &in, (isa_line){1, 10, 0}));
  in.op = ISA_OP_halt;
  memset(&in.u, 0, sizeof in.u);
  in.upd = (isa_update){0};
  assert_true(isa_program_insn(p, core, ISA_ENG_sync, &in, (isa_line){2, 11, 0}));
  in.op = ISA_OP_device_print;
  assert_true(isa_program_pool(p, "x = ", 4, 1, &in.u.PRINT.prefix));
  in.u.PRINT.src = 3;
  assert_true(isa_program_insn(p, core, ISA_ENG_vector, &in, (isa_line){0}));
  memset(&in.u, 0, sizeof in.u);
  in.op = ISA_OP_custom_op;
  assert_true(isa_program_pool(p, "f", 1, 1, &in.u.CUSTOM.name));
  assert_true(isa_program_pool(p, (uint32_t[]){2, 3}, 2, 4, &in.u.CUSTOM.dsts));
  assert_true(isa_program_insn(p, core, ISA_ENG_gpsimd, &in, (isa_line){1, 12, 0}));
  in.op = ISA_OP_activate;
  memset(&in.u, 0, sizeof in.u);
  in.u.ACTIVATE.dst = in.u.ACTIVATE.src = 2;
  in.u.ACTIVATE.bias = (isa_num){ISA_NUM_ap, 3};
  assert_true(isa_program_insn(p, core, ISA_ENG_scalar, &in, (isa_line){1, 13, 0}));
}

static isa_program *sample(void) {
  isa_alloc al = isa_alloc_default();
  isa_program *p = isa_program_new(&al, &isa_targets[ISA_trn2]);
  assert_non_null(p);
  p->ncores = 2;
  add_tables(p);
  for (unsigned core = 0; core < 2; core++) {
    add_patterns(p, core);
    add_code(p, core);
  }
  assert_int_equal(isa_program_symbol(p, &(isa_symbol){"main", 0, ISA_ENG_sync, 1, 0}), 1);
  assert_int_equal(isa_program_symbol(p, &(isa_symbol){"end", 1, ISA_ENG_sync, 0, 2}), 2);
  return p;
}

static isa_buf image_of(isa_program *p) {
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  isa_buf_init(&b, &al);
  assert_true(isa_image_write(p, &b));
  return b;
}

static isa_buf sample_image(void) {
  isa_program *p = sample();
  isa_buf b = image_of(p);
  isa_program_free(p);
  return b;
}

/* Reads a copy that ends where its block of memory ends, so that a sanitizer sees overruns. */
static isa_program *read_copy(const char *data, size_t n, isa_error *e) {
  isa_alloc al = isa_alloc_default();
  char *copy = malloc(n ? n : 1);
  assert_non_null(copy);
  memcpy(copy, data, n);
  isa_program *p = isa_image_read(&al, copy, n, e);
  free(copy);
  return p;
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void test_round_trip(void **state) {
  (void)state;
  isa_program *p = sample();
  isa_buf a = image_of(p);
  isa_error e = {ISA_OK, 0, ""};
  isa_program *q = read_copy(a.data, a.len, &e);
  if (!q) fail_msg("%s", e.text);
  isa_buf b = image_of(q);
  assert_int_equal(a.len, b.len);
  assert_memory_equal(a.data, b.data, a.len);
  assert_true(p->hash == q->hash && p->hash == fnv(a.data + 16, a.len - 16));
  assert_string_equal(q->target->name, "trn2");
  assert_int_equal(q->ncores, 2);
  assert_int_equal(q->ntensors, 3);
  assert_string_equal(q->tensors[2].name, "l");
  assert_int_equal(q->tensors[0].bytes, 512 * 2048 * 4);
  assert_null(q->tensors[0].data);
  assert_memory_equal(q->tensors[2].data, "\1\2\3\4\5\6", 6);
  assert_string_equal(q->tiles[0].overlay, "group");
  assert_true(q->tiles[0].own && !q->tiles[1].own);
  assert_null(q->tiles[1].overlay);
  assert_int_equal(q->tiles[1].part, 32);
  assert_int_equal(q->tiles[1].offset, 2048);
  assert_string_equal(q->files[1], "lib/mac.inc");
  assert_string_equal(q->symbols[1].name, "end");
  assert_int_equal(q->symbols[1].pc, 2);
  const isa_core *c = &q->cores[1];
  assert_string_equal(c->sem_names[7], "other");
  assert_string_equal(q->cores[0].sem_names[255], "stored");
  assert_null(c->sem_names[0]);
  assert_string_equal(c->queues[1].name, "qs");
  assert_int_equal(c->queues[1].nstatics, 2);
  assert_int_equal(c->queues[1].statics[1].u.DMA_COPY.src, 1);
  assert_int_equal(c->queues[0].rings, 16);
  assert_int_equal(c->naps, 3);
  assert_int_equal(c->aps[2].dyn[0].stride, -7);
  assert_int_equal(c->code[ISA_ENG_sync].n, 2);
  assert_int_equal(c->code[ISA_ENG_sync].insns[1].op, ISA_OP_halt);
  assert_int_equal(c->code[ISA_ENG_sync].lines[1].line, 11);
  assert_int_equal(c->code[ISA_ENG_tensor].n, 0);
  /* a program that was read can grow: its patterns are found again */
  isa_ap same = c->aps[1];
  assert_int_equal(isa_program_ap(q, 1, &same), 2);
  isa_program_free(p);
  isa_program_free(q);
  isa_buf_free(&a);
  isa_buf_free(&b);
}

static void test_deterministic(void **state) {
  (void)state;
  isa_program *p = sample();
  isa_buf a = image_of(p), b = sample_image();
  uint64_t hash = p->hash;
  assert_int_equal(a.len, b.len);
  assert_memory_equal(a.data, b.data, a.len);
  isa_buf_puts(&b, "behind"); /* an image may follow other bytes */
  size_t start = b.len;
  assert_true(isa_image_write(p, &b));
  assert_true(p->hash == hash);
  assert_int_equal(b.len - start, a.len);
  assert_memory_equal(b.data + start, a.data, a.len);
  p->tensors[1].data = p->tensors[2].data; /* the same data elsewhere: the same bytes */
  b.len = 0;
  assert_true(isa_image_write(p, &b));
  assert_memory_equal(b.data, a.data, a.len);
  isa_program_free(p);
  isa_buf_free(&a);
  isa_buf_free(&b);
}

/* The smallest file, byte by byte from the head of image.h. */
static void test_smallest(void **state) {
  (void)state;
  isa_alloc al = isa_alloc_default();
  isa_program *p = isa_program_new(&al, &isa_targets[ISA_trn1]);
  isa_buf b = image_of(p);
  char want[73] = "\x7fSBC\1";
  memcpy(want + 16, "trn1", 4);
  put(want + 36, 1, 4);
  put(want + 40, 1, 4);
  memcpy(want + 48, "STRS", 4);
  put(want + 56, 72, 8);
  put(want + 64, 1, 8);
  fix_hash(want, sizeof want);
  assert_int_equal(b.len, sizeof want);
  assert_memory_equal(b.data, want, sizeof want);
  isa_program_free(p);
  isa_buf_free(&b);
}

/* The file of a hypothetical machine names it; other texts for it are refused. */
static void test_hypothetical(void **state) {
  (void)state;
  static const char text[] = "hypothetical trn2, sbuf_kib=384, DMA_R_IN=20000";
  static const struct {
    unsigned at;
    const char *to, *said;
  } wrong[] = {{0, "Hypo", "section MACH"},        {13, "trn3", "changes another target"},
               {13, "trn9", "is not the text"},    {28, "000", "is not the text"},
               {28, "224", "is not the text"},     {19, "tbuf", "is not the text"},
               {17, "  ", "is not the text"},      {33, " dma_r_in", "is not the text"},
               {43, " 0", "is not the text"}};
  isa_alloc al = isa_alloc_default();
  isa_target t;
  isa_error e = {ISA_OK, 0, ""};
  assert_true(isa_target_read(text, sizeof text - 1, &t, &e));
  isa_program *p = isa_program_new(&al, &t);
  memset(&t, 0, sizeof t); /* the program has a copy */
  isa_buf b = image_of(p);
  isa_program *q = read_copy(b.data, b.len, &e);
  assert_non_null(q);
  assert_string_equal(q->target->name, text);
  assert_int_equal(q->target->sbuf_usable, 384 * 1024);
  char *at = b.data + get(b.data + 48 + 8, 8);
  assert_memory_equal(at, text, sizeof text - 1);
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char old[16];
    size_t n = strlen(wrong[i].to);
    memcpy(old, at + wrong[i].at, n);
    memcpy(at + wrong[i].at, wrong[i].to, n);
    fix_hash(b.data, b.len);
    isa_program *r = read_copy(b.data, b.len, &e);
    if (r || !strstr(e.text, wrong[i].said)) fail_msg("%u: %s", i, e.text);
    memcpy(at + wrong[i].at, old, n);
  }
  isa_program_free(q);
  isa_program_free(p);
  isa_buf_free(&b);
}

static void test_truncation(void **state) {
  (void)state;
  isa_buf a = sample_image();
  for (size_t n = 0; n < a.len; n++) {
    isa_error e = {ISA_OK, 0, ""};
    char *cut = malloc(n ? n : 1);
    assert_non_null(cut);
    memcpy(cut, a.data, n);
    assert_null(read_copy(cut, n, &e));
    assert_int_equal(e.status, ISA_FORMAT);
    fix_hash(cut, n);
    assert_null(read_copy(cut, n, &e));
    assert_true(e.text[0] != 0);
    free(cut);
  }
  isa_buf_puts(&a, "!");
  fix_hash(a.data, a.len);
  assert_null(read_copy(a.data, a.len, NULL));
  isa_buf_free(&a);
}

/* Each byte changed in several ways under a right hash: no crash, and what is still accepted
 * can be written and read again. */
static void test_corruption(void **state) {
  (void)state;
  isa_buf a = sample_image();
  int accepted = 0, refused = 0;
  for (size_t i = 0; i < a.len; i++)
    for (int way = 0; way < 4; way++) {
      static const unsigned char flips[] = {1, 0x80, 0xff, 0x10};
      isa_error e = {ISA_OK, 0, ""};
      char old = a.data[i];
      a.data[i] = (char)(old ^ flips[way]);
      if (i >= 16) {
        assert_null(read_copy(a.data, a.len, &e)); /* the hash sees it */
        assert_non_null(strstr(e.text, "hash"));
        fix_hash(a.data, a.len);
      }
      isa_program *p = read_copy(a.data, a.len, &e);
      accepted += p != NULL;
      refused += p == NULL;
      assert_true(p || (e.status == ISA_FORMAT && e.text[0]));
      if (p) {
        isa_buf b = image_of(p);
        isa_program *q = read_copy(b.data, b.len, &e);
        assert_non_null(q);
        isa_program_free(q);
        isa_buf_free(&b);
      }
      isa_program_free(p);
      a.data[i] = old;
      fix_hash(a.data, a.len);
    }
  assert_true(accepted > 100 && refused > 1000);
  isa_buf_free(&a);
}

/* One number of a file replaced, and what the refusal must say. */
static void refuse(isa_buf *a, char *at, uint64_t value, unsigned bytes, const char *text) {
  uint64_t old = get(at, bytes);
  isa_error e = {ISA_OK, 0, ""};
  put(at, value, bytes);
  fix_hash(a->data, a->len);
  isa_program *p = read_copy(a->data, a->len, &e);
  if (p || !strstr(e.text, text)) fail_msg("wanted \"%s\", got \"%s\"", text, e.text);
  put(at, old, bytes);
}

static void test_refusals(void **state) {
  (void)state;
  isa_buf a = sample_image();
  char *f = a.data, want[80];
  unsigned long long tile = get(entry(f, "TILE") + 8, 8);
  refuse(&a, f, 0, 1, "x7fSBC");
  refuse(&a, f + 4, 2, 2, "format version 2");
  refuse(&a, f + 6, 1, 2, "byte 0x6");
  refuse(&a, f + 16, 'x', 1, "no such target");
  refuse(&a, f + 25, 'x', 1, "after the target's name");
  refuse(&a, f + 32, 16, 4, "unknown feature bits 0x10");
  refuse(&a, f + 32, 8, 4, "has feature bits 0x8, but the contents need");
  refuse(&a, f + 36, 3, 4, "3 cores: a program has 1 or 2");
  refuse(&a, f + 36, 0, 4, "0 cores: a program has 1 or 2");
  refuse(&a, f + 36, 1, 4, "flags");
  refuse(&a, f + 40, UINT32_MAX, 4, "do not fit");
  refuse(&a, f + 44, 1, 4, "byte 0x2c");
  refuse(&a, entry(f, "TILE"), get("WHAT", 4), 4, "unknown section");
  refuse(&a, entry(f, "TILE"), get("TNSR", 4), 4, "section TNSR at byte 0x");
  refuse(&a, entry(f, "FILE"), get("EXTN", 4), 4, "unresolved external symbols: link it first");
  refuse(&a, entry(f, "FILE"), get("RELO", 4), 4, "unresolved external symbols: link it first");
  refuse(&a, entry(f, "TILE") + 4, 0x100, 4, "flags 0x100");
  refuse(&a, entry(f, "TILE") + 4, 1, 4, "flags 0x1");
  refuse(&a, entry(f, "PATS") + 24 + 5, 0, 1, "a second one; the first is at byte 0x");
  refuse(&a, entry(f, "TILE") + 8, tile + 8, 8, "should begin at");
  refuse(&a, entry(f, "TILE") + 8, tile - 8, 8, "should begin at");
  refuse(&a, entry(f, "TILE") + 16, UINT64_MAX, 8, "should begin at");
  refuse(&a, entry(f, "TILE") + 16, UINT64_MAX - tile + 1, 8, "should begin at");
  refuse(&a, entry(f, "TILE") + 16, 0, 8, "not be empty");
  snprintf(want, sizeof want, "section TILE at byte 0x%llx: 92 bytes is not a multiple of 48",
           tile);
  refuse(&a, entry(f, "TILE") + 16, 92, 8, want);
  refuse(&a, section(f, "STRS"), 'x', 1, "strings begin with an empty one");
  refuse(&a, section(f, "STRS") + 1, '\n', 1, "control character 10");
  refuse(&a, section(f, "FILE"), 0, 4, "no name at offset 0");
  refuse(&a, section(f, "FILE"), 1 << 20, 4, "no name at offset 1048576");
  refuse(&a, section(f, "TNSR") + 4, 0, 1, "tensor 0: invalid type 0");
  refuse(&a, section(f, "TNSR") + 6, 9, 1, "9 dimensions");
  refuse(&a, section(f, "TNSR") + 7, 65, 1, "dimensions or rows 65");
  refuse(&a, section(f, "TNSR") + 7, 64, 1, "feature bits 0x0, but the contents need 0x2");
  refuse(&a, f + 32, 2, 4, "feature bits 0x2, but the contents need 0x0");
  refuse(&a, section(f, "TNSR") + 8, 513, 8, "4194304 bytes, but its shape and type make 4202496");
  refuse(&a, section(f, "TNSR") + 8, 0, 8, "dimension 0 has size 0");
  refuse(&a, section(f, "TNSR") + 8, INT64_MAX / 2, 8, "more than 2^63 bytes");
  refuse(&a, section(f, "TNSR") + 8, UINT64_MAX, 8, "has size -1");
  refuse(&a, section(f, "TNSR") + 80, 8, 8, "only a const tensor has data");
  refuse(&a, section(f, "TNSR") + 88 + 80, 64, 8, "they should be at 0x0");
  refuse(&a, section(f, "TNSR") + 5, ISA_CONST, 1, "of data at 0x0");
  refuse(&a, section(f, "DATA") + 63, 1, 1, "padding at 0x3f");
  refuse(&a, section(f, "TILE") + 9, ISA_HBM, 1, "tile 0: invalid type 17, memory 3");
  refuse(&a, section(f, "TILE") + 10, 6, 1, "6 dimensions");
  refuse(&a, section(f, "TILE") + 24, 1, 4, "dimension 2 of 2 has size 1");
  refuse(&a, section(f, "SYMB") + 8, 3, 4, "symbol 0: pc 3, but the engine has 2");
  refuse(&a, section(f, "SYMB") + 4, 2, 1, "core 2");
  refuse(&a, section(f, "PATS") + 12, 4, 4, "pattern 1: it names tensor 4, but there are 3");
  refuse(&a, section(f, "PATS") + 128 + 12, 3, 4, "pattern 2: it names tile 3, but there are 2");
  refuse(&a, section(f, "PATS") + 256 + 96, 3, 4, "names pattern 3, which is not before it");
  refuse(&a, section(f, "PATS") + 7, 1, 1, "pattern 1: pattern, byte 7");
  refuse(&a, section(f, "TNSR") + 88, 1, 4, "record 1: no name at offset 1; the next one is at");
  refuse(&a, section(f, "STRS") + get(entry(f, "STRS") + 16, 8) - 2, 0, 1,
         "nothing uses the names");
  refuse(&a, entry(f, "CODE") + 6, ISA_ENG_gpsimd, 1, "after a section that it should come before");
  refuse(&a, section(f, "QUES") + 5, 17, 1, "17 rings");
  refuse(&a, section(f, "QUES") + 8, UINT32_MAX, 4, "queue 0: 4294967295 static transfers");
  refuse(&a, section(f, "QUES") + 8, 1, 4, "queue 1: 2 static transfers, but section DESC has 1");
  refuse(&a, section(f, "QUES") + 12 + 8, 1, 4, "2 transfers, but the queues have 1");
  refuse(&a, section(f, "DESC") + 64 + 20, 4, 1, "transfer 1: operand src: pattern 4 of only 3");
  refuse(&a, section(f, "SEMS") + 8, 0, 4, "semaphore 0: it should be 1 to 255");
  refuse(&a, section(f, "SEMS") + 8, 256, 4, "semaphore 256");
  refuse(&a, section(f, "LINE"), 3, 4, "file 3, but there are 2");
  refuse(&a, entry(f, "LINE") + 6, ISA_ENG_tensor, 1, "1 lines for 0 instructions");
  isa_buf_free(&a);
}

/* Names of section, core, engine and pc before what the decoder says. The sections CODE come in
 * the order vector, scalar, gpsimd, sync. */
static void test_code_refusals(void **state) {
  (void)state;
  isa_buf a = sample_image();
  char *f = a.data, *vector = section(f, "CODE");
  char *scalar = f + get(entry(f, "CODE") + 24 + 8, 8);
  char *gpsimd = f + get(entry(f, "CODE") + 48 + 8, 8);
  char *sync = f + get(entry(f, "CODE") + 72 + 8, 8);
  char *pool = section(f, "POOL");
  refuse(&a, vector, 0x7fff, 2, "section CODE of core 0, vector at byte 0x");
  refuse(&a, vector, 0x7fff, 2, ": pc 0: byte 0: no instruction has the opcode 0x7fff");
  refuse(&a, vector + 20, 100, 4, "operand prefix: 100 elements at offset 0 of the pool");
  refuse(&a, vector + 24, 4, 4, "operand src: pattern 4 of only 3");
  refuse(&a, scalar + 31, 4, 4, "operand bias: pattern 4 of only 3");
  refuse(&a, sync + 24, 2, 1, "operand queue: queue 2 of only 2");
  refuse(&a, sync + 64, 0, 2, "sync at byte 0x");
  refuse(&a, sync + 64, 0, 2, "pc 1: byte 0");
  refuse(&a, gpsimd + 28, 17, 4, "operand dsts: 17 elements");
  refuse(&a, pool + 16, 0, 4, "operand dsts: pattern 0 in a list");
  refuse(&a, pool + 20, 4, 4, "operand dsts: pattern 4 of only 3");
  isa_buf_free(&a);
}

static void test_optional_section(void **state) {
  (void)state;
  isa_buf a = sample_image();
  put(entry(a.data, "LINE"), get("MINE", 4), 4); /* flags stay: optional */
  fix_hash(a.data, a.len);
  isa_error e = {ISA_OK, 0, ""};
  isa_program *p = read_copy(a.data, a.len, &e);
  assert_non_null(p);
  assert_null(p->cores[0].code[ISA_ENG_vector].lines);
  assert_non_null(p->cores[0].code[ISA_ENG_sync].lines);
  isa_insn in = p->cores[0].code[ISA_ENG_vector].insns[0];
  assert_true(isa_program_insn(p, 0, ISA_ENG_vector, &in, (isa_line){1, 1, 0}));
  assert_null(p->cores[0].code[ISA_ENG_vector].lines);
  isa_program_free(p);
  isa_buf_free(&a);
}

/* A program whose two lines came out of a macro in a round of a %rep. */
static isa_buf image_with_calls(void) {
  isa_alloc al = isa_alloc_default();
  isa_program *p = isa_program_new(&al, &isa_targets[ISA_trn2]);
  isa_insn in = {.op = ISA_OP_nop};
  isa_buf b;
  isa_buf_init(&b, &al);
  assert_int_equal(isa_program_file(p, "a.s"), 1);
  assert_int_equal(isa_program_call(p, &(isa_call){"", 1, 30, 0, 2}), 1);
  assert_int_equal(isa_program_call(p, &(isa_call){"LOAD", 1, 31, 1, 0}), 2);
  for (unsigned i = 0; i < 2; i++)
    assert_true(isa_program_insn(p, 0, ISA_ENG_sync, &in, (isa_line){1, 12 + i, 2 - i}));
  assert_true(isa_image_write(p, &b));
  isa_program_free(p);
  return b;
}

static void test_calls(void **state) {
  (void)state;
  isa_buf a = image_with_calls(), text;
  isa_alloc al = isa_alloc_default();
  isa_error e = {ISA_OK, 0, ""};
  isa_program *p = read_copy(a.data, a.len, &e);
  assert_non_null(p);
  assert_int_equal(p->ncalls, 2);
  isa_buf_init(&text, &al);
  isa_print_calls(p, p->cores[0].code[ISA_ENG_sync].lines[0], &text);
  assert_string_equal(isa_buf_str(&text), " (macro LOAD from a.s:31, round 2 of %rep at a.s:30)");
  isa_buf_free(&text);
  isa_program_free(p);
  /* Any byte of the sections changed: refused with the section's name, or a program. */
  unsigned refused = 0;
  for (size_t at = 48; at < a.len; at++)
    for (unsigned bit = 0; bit < 8; bit++) {
      a.data[at] = (char)(a.data[at] ^ 1 << bit);
      fix_hash(a.data, a.len);
      p = read_copy(a.data, a.len, &e);
      refused += !p;
      isa_program_free(p);
      a.data[at] = (char)(a.data[at] ^ 1 << bit);
    }
  assert_true(refused > 1000);
  isa_buf_free(&a);
}

static void test_out_of_memory(void **state) {
  (void)state;
  isa_buf a = sample_image();
  isa_program *p = NULL;
  for (size_t fail_at = 1; !p; fail_at++) {
    meter m = {0, 0, 0, fail_at};
    isa_alloc al = {meter_fn, &m};
    isa_error e = {ISA_OK, 0, ""};
    p = isa_image_read(&al, a.data, a.len, &e);
    if (p) break;
    assert_int_equal(e.status, ISA_NOMEM);
    assert_int_equal(m.live, 0);
    assert_true(fail_at < 100);
  }
  p->arena.al = isa_alloc_default(); /* the meter is gone; both use malloc */
  p->pool.al = p->arena.al;
  bool done = false;
  for (size_t fail_at = 1; !done; fail_at++) {
    meter m = {0, 0, 0, fail_at};
    isa_alloc al = {meter_fn, &m};
    isa_buf b;
    isa_buf_init(&b, &al);
    done = isa_image_write(p, &b);
    assert_true(done == (m.calls < fail_at));
    isa_buf_free(&b);
    assert_int_equal(m.live, 0);
  }
  isa_program_free(p);
  isa_buf_free(&a);
}

/* Counts that promise much: memory stays near the size of the file, as before any promise. */
static void test_memory_bound(void **state) {
  (void)state;
  isa_buf a = sample_image();
  meter whole = {0, 0, 0, 0};
  isa_alloc al = {meter_fn, &whole};
  isa_program_free(isa_image_read(&al, a.data, a.len, NULL));
  assert_true(whole.peak < sizeof(isa_program) + 4096 + 4 * a.len);
  assert_int_equal(whole.live, 0);
  for (size_t i = 16; i + 4 <= a.len; i += 4) {
    uint64_t old = get(a.data + i, 4);
    meter m = {0, 0, 0, 0};
    al.ud = &m;
    put(a.data + i, 0x7fffffff, 4);
    fix_hash(a.data, a.len);
    isa_program_free(isa_image_read(&al, a.data, a.len, NULL));
    assert_true(m.peak <= whole.peak);
    assert_int_equal(m.live, 0);
    put(a.data + i, old, 4);
  }
  isa_buf_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_deterministic),
      cmocka_unit_test(test_smallest),      cmocka_unit_test(test_truncation),
      cmocka_unit_test(test_corruption),    cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_code_refusals), cmocka_unit_test(test_optional_section),
      cmocka_unit_test(test_calls),         cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_memory_bound),  cmocka_unit_test(test_hypothetical),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
