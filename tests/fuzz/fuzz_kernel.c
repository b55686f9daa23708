/* Words as records: an input says what buffers a kernel has, and the rest are records, as they come
 * and mended so that more of them pass. No words crash the builder; what it finishes passes the
 * verifier and runs without a race, to an end or a limit. */
#include "../../vm/api/soma.h"
#include "fuzz.h"

#include <string.h>

const enum fuzz_kind fuzz_kind = FUZZ_CHOICES;
fuzz_stat fuzz_stats[] = {{"inputs", 0, 0},
                          {"with a record that passed", 3, 0},
                          {"finished", 1, 0},
                          {"ran", 1, 0},
                          {NULL, 0, 0}};
enum { INPUTS, PASSED, FINISHED, RAN };
void fuzz_report(void) {}

typedef struct bytes {
  const uint8_t *p;
  size_t n;
} bytes;

static uint32_t take(bytes *b) {
  if (b->n == 0) return 0;
  b->n--;
  return *b->p++;
}

enum { TENSORS = 4, TILES = 6, REGS = 2 };

static int buffers(soma_kernel *k, bytes *b) {
  static const char *const names[TENSORS] = {"a", "b", "c", "d"};
  static const soma_role roles[] = {SOMA_INPUT, SOMA_OUTPUT, SOMA_TEMP, SOMA_INPUT};
  int64_t shape[2] = {256, 64};
  uint32_t id;
  for (int i = 0; i < TENSORS; i++)
    if (soma_kernel_tensor(k, names[i], SOMA_FLOAT32, 2, shape, roles[i], &id) != SOMA_OK) return 0;
  for (int i = 0; i < TILES; i++) {
    soma_kernel_tile_info t = SOMA_KERNEL_TILE_INIT;
    t.memory = take(b) % 3 == 0 ? SOMA_PSUM : SOMA_SBUF;
    t.dtype = take(b) % 4 == 0 ? (soma_dtype)(take(b) % 24) : SOMA_FLOAT32;
    t.shape[0] = 1 + take(b) % 130;
    t.shape[1] = take(b) * 4;
    if (take(b) % 4 == 0) t.offset = (int32_t)take(b) * 16;
    if (soma_kernel_tile(k, &t, &id) != SOMA_OK) {
      t = (soma_kernel_tile_info)SOMA_KERNEL_TILE_INIT;
      t.shape[0] = 128;
      t.shape[1] = 64;
      if (soma_kernel_tile(k, &t, &id) != SOMA_OK) return 0;
    }
  }
  for (int i = 0; i < REGS; i++)
    if (soma_kernel_register(k, &id) != SOMA_OK) return 0;
  return 1;
}

/* A word: mostly a small number, now and then one of many bytes. */
static int64_t word(bytes *b) {
  uint32_t first = take(b);
  uint64_t v = 0;
  if (first < 224) return (int64_t)first % 67 - 1;
  if (first < 240) return (int64_t)take(b) * 4;
  for (int i = 0; i < 8; i++) v = v << 8 | take(b);
  return (int64_t)v;
}

static size_t operand(bytes *b, int64_t *w, const soma_field *f) {
  size_t n = 0;
  int hbm = f->hbm && take(b) % 2;
  int64_t dims = hbm ? 2 : 1, wild = take(b) % 16 == 0;
  w[n++] = hbm ? 10 : 8;
  w[n++] = hbm ? 1 + take(b) % TENSORS : 1 + TENSORS + take(b) % TILES;
  w[n++] = wild ? word(b) : SOMA_FLOAT32;
  w[n++] = wild ? word(b) : hbm ? 0 : 32 * (take(b) % 4);
  w[n++] = hbm ? 0 : 1 + take(b) % 32;
  w[n++] = wild ? word(b) : 4 * (take(b) % 32);
  w[n++] = dims;
  if (hbm) w[n++] = 64;
  if (hbm) w[n++] = 1 + take(b) % 32;
  w[n++] = wild ? word(b) : 1 + take(b) % 2;
  w[n++] = f->column || f->element ? 1 : 1 + take(b) % 8;
  if (take(b) % 8 == 0) { /* dynamic parts */
    size_t from = n;
    w[n++] = 1 + take(b) % 5;
    w[n++] = 1 + take(b) % REGS;
    w[n++] = take(b) % 8;
    w[0] += (int64_t)(n - from);
  }
  return n;
}

/* A record of any instruction, with fields of the right size. */
static size_t record(bytes *b, int64_t *w, size_t most) {
  soma_opcode_info op;
  soma_field f;
  size_t n = 6;
  if (soma_opcode_row(take(b) % 90, &op) != SOMA_OK) return 0;
  w[1] = op.number;
  w[2] = take(b) % 8 < 6 ? -1 : (int64_t)(take(b) % 5);
  w[3] = take(b) % 8 ? 0 : take(b) % 16;
  w[4] = w[5] = 0;
  for (uint32_t i = 0; soma_opcode_field(op.number, i, &f) == SOMA_OK && n + 32 < most; i++) {
    switch (f.kind) {
    case SOMA_FIELD_AP:
      if (f.mode == SOMA_FIELD_OPTIONAL && take(b) % 4)
        w[n++] = 0;
      else
        n += operand(b, w + n, &f);
      break;
    case SOMA_FIELD_REG: w[n++] = 1 + take(b) % REGS; break;
    case SOMA_FIELD_INT:
      w[n++] = take(b) % 2;
      w[n++] = 1 + take(b) % REGS;
      break;
    case SOMA_FIELD_NUM:
      w[n] = take(b) % 3;
      if (w[n++]) w[n++] = 1 + take(b) % REGS;
      break;
    case SOMA_FIELD_QUEUE: w[n++] = -1; break;
    default: w[n++] = take(b) % 3 ? 0 : take(b) % 40; break;
    }
  }
  return n;
}

static int records(soma_kernel *k, bytes *b) {
  int64_t w[512];
  int passed = 0;
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  uint32_t reg;
  while (b->n > 4) {
    size_t n = 0;
    switch (take(b) % 8) {
    case 0: /* words as they come */
      for (n = take(b) % 40; n > 0; n--) w[n - 1] = word(b);
      n = 40;
      break;
    case 1:
      r.stop = (int32_t)(take(b) % 4);
      soma_kernel_loop(k, &r, &reg);
      continue;
    case 2: soma_kernel_endloop(k); continue;
    default: n = record(b, w, sizeof w / sizeof *w); break;
    }
    if (n == 0) continue;
    if (take(b) % 32) w[0] = (int64_t)n;
    uint32_t before = soma_kernel_count(k);
    soma_status s = soma_kernel_emit(k, w, n, NULL);
    if (s == SOMA_OK) passed = 1;
    if (s != SOMA_OK && !soma_kernel_error(k)[0])
      fuzz_fail("refused without a reason: status %d, opcode %d", (int)s, (int)w[1]);
    if (s != SOMA_OK && soma_kernel_count(k) != before) fuzz_fail("a refused record stays");
  }
  return passed;
}

/* Says what a finished program breaks, after its source. */
_Noreturn static void broken(soma_machine *m, soma_program *p, const char *law, const char *text) {
  char *source = NULL;
  size_t n;
  if (soma_program_print(m, p, &source, &n) == SOMA_OK) fputs(source, stderr);
  fuzz_fail("a finished program %s: %s", law, text);
}

static void run(soma_machine *m, soma_program *p) {
  static const uint8_t zeros[256 * 64 * 4];
  int64_t shape[2] = {256, 64};
  soma_run *r = NULL;
  soma_finding f;
  soma_fault fault;
  soma_bind(m, p, "a", SOMA_FLOAT32, 2, shape, zeros);
  soma_bind(m, p, "d", SOMA_FLOAT32, 2, shape, zeros);
  soma_status s = soma_run_start(m, p, &r);
  if (s != SOMA_OK && s != SOMA_NOMEM && s != SOMA_LIMIT && s != SOMA_ILLEGAL)
    broken(m, p, "does not start", soma_error(m));
  if (s == SOMA_ILLEGAL && !strstr(soma_error(m), "custom"))
    broken(m, p, "is refused", soma_error(m));
  if (s == SOMA_OK) {
    s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
    fuzz_stats[RAN].n++;
    if (s == SOMA_DEADLOCK) {
      soma_run_fault(r, &fault);
      broken(m, p, "waits for ever", fault.text);
    }
    if (s == SOMA_CHECK && soma_run_finding(r, 0, &f) == SOMA_OK)
      broken(m, p, "fails a check", f.text);
  }
  soma_run_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const targets[] = {"trn1", "trn2", "trn3"};
  bytes b = {data, n};
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m = NULL;
  soma_kernel *k = NULL;
  soma_program *p = NULL;
  soma_kernel_options ko = SOMA_KERNEL_OPTIONS_INIT;
  fuzz_stats[INPUTS].n++;
  o.target = targets[take(&b) % 3];
  o.max_instructions = 3000;
  o.checks = 1 << SOMA_CHECK_RACE;
  unsigned how = take(&b);
  ko.flags = how % 4 == 0 ? SOMA_KERNEL_KEEP_ORDER : 0;
  if (how / 4 % 2) ko.flags |= SOMA_KERNEL_COPIES;
  if (take(&b) % 4 == 0) {
    ko.flags |= SOMA_KERNEL_SPILL;
    ko.sbuf_bytes = 256 + 16 * take(&b);
  }
  if (soma_machine_new(&o, &m) != SOMA_OK || soma_kernel_new(m, &ko, &k) != SOMA_OK) {
    soma_machine_free(m);
    return 0;
  }
  if (buffers(k, &b)) fuzz_stats[PASSED].n += (unsigned)records(k, &b);
  soma_status s = soma_kernel_finish(k, &p, NULL);
  if (s == SOMA_OK) {
    fuzz_stats[FINISHED].n++;
    run(m, p);
  } else if (!soma_kernel_error(k)[0]) {
    fuzz_fail("not finished, without a reason");
  }
  soma_program_free(p);
  soma_kernel_free(k);
  soma_machine_free(m);
  return 0;
}
