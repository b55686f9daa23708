/* Words as records: an input says what buffers a kernel has, and the rest are records, as they come
 * and mended so that more of them pass, loops, and calls with wrong arguments. No words crash the
 * builder; what it finishes passes the verifier and runs without a race, to an end or a limit. Two
 * kernels may be of two cores: these may wait for each other for ever, and race, as their lists
 * say. */
#include "../../vm/api/soma.h"
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

const enum fuzz_kind fuzz_kind = FUZZ_CHOICES;
fuzz_stat fuzz_stats[] = {{"inputs", 0, 0},
                          {"with a record that passed", 3, 0},
                          {"finished", 5, 0},
                          {"with a loop", 1, 0},
                          {"with a tile that was spilled", 1, 0},
                          {"with a tile that left psum", 1, 0},
                          {"ran", 4, 0},
                          {"of two cores", 2, 0},
                          {"on two ranks", 0, 0},
                          {NULL, 0, 0}};
enum { INPUTS, PASSED, FINISHED, LOOPED, SPILLED, LEFT_PSUM, RAN, PAIRS, RANKS };
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

enum { TENSORS = 4, TILES = 6, REGS = 2, MOST_BYTES = 448, RUN_EVERY = 8, PSUM_ROOM = 8192 };

/* room: that spilling leaves of SBUF, for some of its tiles, or for some that have left PSUM, in
 * which two fit then; 0: all of it. */
static int buffers(soma_kernel *k, bytes *b, uint32_t room, uint32_t parts[TILES],
                   uint32_t cols[TILES]) {
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
    t.shape[1] = room == 0                                    ? take(b) * 4
                 : room == PSUM_ROOM && t.memory == SOMA_PSUM ? 1024 + 8 * (take(b) % 64)
                                                              : 16 + take(b) % 48;
    if (take(b) % 4 == 0) t.offset = (int32_t)take(b) * 16;
    if (soma_kernel_tile(k, &t, &id) != SOMA_OK) {
      t = (soma_kernel_tile_info)SOMA_KERNEL_TILE_INIT;
      t.shape[0] = 128;
      t.shape[1] = 64;
      if (soma_kernel_tile(k, &t, &id) != SOMA_OK) return 0;
    }
    parts[i] = t.shape[0];
    cols[i] = t.shape[1] * (uint32_t)soma_dtype_size(t.dtype) / 4;
  }
  for (int i = 0; i < REGS; i++)
    if (soma_kernel_register(k, &id) != SOMA_OK) return 0;
  static const uint32_t ranks[] = {1, 0}, both[] = {2}, each[] = {1, 1};
  return soma_kernel_group(k, 1, both, ranks, &id) == SOMA_OK &&
         soma_kernel_group(k, 2, each, ranks, &id) == SOMA_OK;
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

/* An operand of a collective: a part of a tensor, whole rows. */
static size_t rows_of(bytes *b, int64_t *w) {
  int64_t rows = take(b) % 4 ? 2 : 4, at = take(b) % 8;
  const int64_t v[] = {
      10, 1 + take(b) % TENSORS, SOMA_FLOAT32, 0, 0, 256 * 16 * at, 2, 64, 8 * rows, 1, 64};
  memcpy(w, v, sizeof v);
  return sizeof v / sizeof *v;
}

/* A list of operands, of pairs or of channels. */
static size_t list(bytes *b, int64_t *w, const soma_field *f) {
  size_t n = 0;
  int64_t items = take(b) % 8 ? 1 : take(b) % 4;
  w[n++] = items;
  for (int64_t i = 0; i < items; i++) {
    if (f->kind == SOMA_FIELD_APS) n += take(b) % 4 ? rows_of(b, w + n) : operand(b, w + n, f);
    if (f->kind != SOMA_FIELD_APS) w[n++] = i % 2;
    if (f->kind == SOMA_FIELD_PAIRS) w[n++] = take(b) % 2;
  }
  return n;
}

/* The row of all_reduce; those of the others follow. */
static uint32_t first_collective(void) {
  static uint32_t row;
  soma_opcode_info op;
  while (soma_opcode_row(row, &op) == SOMA_OK && strcmp(op.name, "all_reduce") != 0) row++;
  return row;
}

/* A record of any instruction, with fields of the right size. */
static size_t record(bytes *b, int64_t *w, size_t most) {
  soma_opcode_info op;
  soma_field f;
  size_t n = 6;
  uint32_t row = take(b) % 112;
  if (take(b) % 16 == 0) row = first_collective() + row % 9;
  if (soma_opcode_row(row, &op) != SOMA_OK) return 0;
  w[1] = op.number;
  w[2] = take(b) % 8 < 6 ? -1 : (int64_t)(take(b) % 5);
  w[3] = take(b) % 8 ? 0 : take(b) % 16;
  w[4] = w[5] = 0;
  for (uint32_t i = 0; soma_opcode_field(op.number, i, &f) == SOMA_OK && n + 64 < most; i++) {
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
    case SOMA_FIELD_GROUP: w[n++] = 1 + take(b) % 2; break;
    case SOMA_FIELD_PAIRS:
    case SOMA_FIELD_I32S:
    case SOMA_FIELD_APS: n += list(b, w + n, &f); break;
    case SOMA_FIELD_ALU: w[n++] = take(b) % 3 ? (int64_t)(take(b) % 12) : 0; break;
    default: w[n++] = take(b) % 3 ? 0 : take(b) % 40; break;
    }
  }
  return n;
}

/* Every tile is written first, and the registers are: then more lists are finished. */
static void fill(soma_kernel *k, const uint32_t parts[TILES], const uint32_t cols[TILES]) {
  int64_t set[] = {17, soma_opcode("memset"), -1, 0, 0, 0, 8, 0, SOMA_FLOAT32, 0, 0, 0, 1, 1, 0, 1,
                   0};
  int64_t mov[] = {9, soma_opcode("mov"), -1, 0, 0, 0, 0, 0, 2};
  for (int i = 0; i < TILES; i++) {
    set[7] = 1 + TENSORS + i;
    set[10] = parts[i];
    set[14] = cols[i];
    soma_kernel_emit(k, set, 17, NULL);
  }
  for (int i = 0; i < REGS; i++) {
    mov[6] = 1 + i;
    soma_kernel_emit(k, mov, 9, NULL);
  }
}

/* Every tile is used once more: they all live until then, which is what spilling is for. */
static void use_all(soma_kernel *k, const uint32_t parts[TILES], const uint32_t cols[TILES]) {
  int64_t w[] = {25,
                 soma_opcode("tensor_copy"),
                 -1,
                 0,
                 0,
                 0,
                 8,
                 0,
                 SOMA_FLOAT32,
                 0,
                 0,
                 0,
                 1,
                 1,
                 0,
                 8,
                 0,
                 SOMA_FLOAT32,
                 0,
                 0,
                 0,
                 1,
                 1,
                 0,
                 0};
  for (int i = 0; i < TILES; i++) {
    w[7] = w[16] = 1 + TENSORS + i;
    w[10] = w[19] = parts[i];
    w[14] = w[23] = cols[i];
    soma_kernel_emit(k, w, 25, NULL);
  }
}

/* Calls that are mostly wrong: each is refused with a reason, and changes nothing. */
static void misuse(soma_kernel *k, bytes *b) {
  int64_t shape[8] = {word(b), word(b), 2, 2, 2, 1, 1, 1};
  uint8_t data[64] = {0};
  uint32_t id, before = soma_kernel_count(k), n = take(b) % 7;
  soma_kernel_tile_info t = SOMA_KERNEL_TILE_INIT;
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  soma_status s = SOMA_OK;
  switch (take(b) % 13) {
  case 0: s = soma_kernel_tensor(k, "a", SOMA_FLOAT32, n, shape, SOMA_INPUT, &id); break;
  case 1: s = soma_kernel_tensor(k, n ? "?" : NULL, (soma_dtype)n, n, shape, SOMA_TEMP, &id); break;
  case 2:
    shape[0] = take(b) % 8;
    shape[1] = take(b) % 2;
    s = soma_kernel_constant(k, (soma_dtype)(take(b) % 4), n % 3, shape, n ? data : NULL, &id);
    break;
  case 3:
    t.memory = (soma_memory)(take(b) % 5);
    t.ndim = n;
    t.shape[0] = (uint32_t)word(b);
    t.shape[1] = (uint32_t)word(b);
    t.partition = (int32_t)word(b);
    t.offset = (int32_t)word(b);
    t.size = take(b) % 4 ? sizeof t : (size_t)word(b);
    t.file = take(b) % 4;
    s = soma_kernel_tile(k, &t, &id);
    break;
  case 4: s = soma_kernel_end(k, (uint32_t)word(b)); break;
  case 5: s = soma_kernel_queue(k, n, (soma_engine)(take(b) % 7), take(b) % 5, &id); break;
  case 12: {
    uint32_t sizes[2] = {take(b) % 3, take(b) % 3}, ranks[4] = {take(b) % 4, take(b) % 4, 2, 3};
    s = soma_kernel_group(k, n % 3, sizes, ranks, &id);
    break;
  }
  case 6: s = soma_kernel_order(k, (uint32_t)word(b), (uint32_t)word(b)); break;
  case 7:
    r.start_register = (uint32_t)word(b);
    r.stop_register = (uint32_t)word(b);
    r.step = (int32_t)word(b);
    r.size = take(b) % 2 ? sizeof r : (size_t)word(b);
    r.file = 9;
    s = soma_kernel_loop(k, &r, &id);
    before += s == SOMA_OK; /* of a size that leaves out the file */
    break;
  case 8: s = soma_kernel_while(k, (uint32_t)word(b) | 1u << 20, 0, 0); break;
  case 9: s = soma_kernel_file(k, n ? "f.py" : NULL, &id); break;
  case 10: s = soma_kernel_emit(k, shape, n % 5, NULL); break;
  default: soma_kernel_order(k, take(b) % 32, take(b) % 32); break;
  }
  if (s != SOMA_OK && !soma_kernel_error(k)[0]) fuzz_fail("refused without a reason: %d", (int)s);
  if (soma_kernel_count(k) != before) fuzz_fail("a call that emits nothing has emitted");
}

/* A loop, or the end of one; a while ends when its register is 0, or at the limit of the run. */
static void loop(soma_kernel *k, bytes *b) {
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  uint32_t reg;
  switch (take(b) % 4) {
  case 0: soma_kernel_while(k, 1 + take(b) % REGS, 0, 0); break;
  case 1:
    r.start = (int32_t)(take(b) % 3);
    r.stop_register = 1 + take(b) % REGS;
    soma_kernel_loop(k, &r, &reg);
    break;
  default:
    r.stop = (int32_t)(take(b) % 4);
    r.step = take(b) % 8 ? 1 : (int32_t)(take(b) % 4) - 2;
    soma_kernel_loop(k, &r, &reg);
  }
}

static int records(soma_kernel *k, bytes *b) {
  int64_t w[512];
  int passed = 0, open = 0;
  while (b->n > 4) {
    size_t n = 0;
    switch (take(b) % 16) {
    case 0: /* words as they come */
      for (n = take(b) % 40; n > 0; n--) w[n - 1] = word(b);
      n = 40;
      break;
    case 1:
      loop(k, b);
      open++;
      continue;
    case 2:
    case 3: open -= soma_kernel_endloop(k) == SOMA_OK; continue;
    case 4: misuse(k, b); continue;
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
  fuzz_stats[LOOPED].n += open != 0;
  while (soma_kernel_endloop(k) == SOMA_OK) continue;
  return passed;
}

/* Says what a finished program breaks, after its source. */
_Noreturn static void broken(soma_machine *m, soma_program *p, const char *law, const char *text) {
  char *source = NULL;
  size_t n;
  if (soma_program_print(m, p, &source, &n) == SOMA_OK) fputs(source, stderr);
  fuzz_fail("a finished program %s: %s", law, text);
}

/* Its source assembles to the same bytes; what it is made of has no lines. */
static void assemble_again(soma_machine *m, soma_program *p) {
  static const char no_lines[] = "%line 0\n";
  char *source = NULL, *text = NULL;
  void *first = NULL, *second = NULL;
  size_t n, nfirst, nsecond;
  soma_program *q = NULL;
  if (soma_program_print(m, p, &source, &n) == SOMA_OK) {
    text = malloc(n + sizeof no_lines);
    if (!text) abort();
    memcpy(text, no_lines, sizeof no_lines);
    memcpy(text + strlen(no_lines), source, n);
    if (soma_assemble(m, text, strlen(no_lines) + n, "again.s", NULL, &q, NULL) != SOMA_OK)
      broken(m, p, "does not assemble again", soma_error(m));
    if (soma_program_save(m, p, &first, &nfirst) == SOMA_OK &&
        soma_program_save(m, q, &second, &nsecond) == SOMA_OK &&
        (nfirst != nsecond || memcmp(first, second, nfirst) != 0))
      broken(m, p, "assembles again", "to other bytes");
  }
  free(text);
  soma_bytes_free(source);
  soma_bytes_free(first);
  soma_bytes_free(second);
  soma_program_free(q);
}

static void bind(soma_machine *m, soma_program *p) {
  static const uint8_t zeros[256 * 64 * 4];
  int64_t shape[2] = {256, 64};
  soma_bind(m, p, "a", SOMA_FLOAT32, 2, shape, zeros);
  soma_bind(m, p, "d", SOMA_FLOAT32, 2, shape, zeros);
}

/* On two ranks, or the world says why not; they have no race. They may wait for one another for
 * ever, where a loop depends on the rank. */
static void run_ranks(soma_machine *m, soma_program *p) {
  soma_options o = SOMA_OPTIONS_INIT;
  soma_world_options wo = {
      .size = sizeof wo, .ranks = 2, .lnc = soma_program_cores(p), .threads = 1, .machine = &o};
  soma_world *w = NULL;
  o.target = soma_program_target(p);
  o.max_instructions = 3000;
  o.checks = 1 << SOMA_CHECK_RACE;
  if (soma_world_new(&wo, &w) != SOMA_OK) fuzz_fail("no world");
  for (uint32_t r = 0; r < 2; r++) {
    if (soma_world_load(w, r, p) != SOMA_OK) broken(m, p, "is not loaded", soma_world_error(w));
    bind(soma_world_machine(w, r), p);
  }
  if (soma_world_start(w) == SOMA_OK) {
    soma_status s = soma_world_until(w, SOMA_TIME_END);
    fuzz_stats[RANKS].n++;
    if (s == SOMA_CHECK && wo.lnc == 1) broken(m, p, "on two ranks", soma_world_error(w));
  } else if (!soma_world_error(w)[0]) {
    broken(m, p, "is refused without a reason", "");
  }
  soma_world_free(w);
}

static void run(soma_machine *m, soma_program *p) {
  soma_run *r = NULL;
  soma_finding f;
  soma_fault fault;
  bind(m, p);
  soma_status s = soma_run_start(m, p, &r);
  bool pair = soma_program_cores(p) > 1;
  if (s != SOMA_OK &&
      (strstr(soma_error(m), "a rank alone") || strstr(soma_error(m), "of a world"))) {
    run_ranks(m, p);
    return;
  }
  if (s != SOMA_OK && s != SOMA_NOMEM && s != SOMA_LIMIT && s != SOMA_ILLEGAL && s != SOMA_UNBUILT)
    broken(m, p, "does not start", soma_error(m));
  if (s == SOMA_ILLEGAL && !strstr(soma_error(m), "custom"))
    broken(m, p, "is refused", soma_error(m));
  if (s == SOMA_OK) {
    s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
    fuzz_stats[RAN].n++;
    if (s == SOMA_DEADLOCK && !pair) {
      soma_run_fault(r, &fault);
      broken(m, p, "waits for ever", fault.text);
    }
    if (s == SOMA_CHECK && !pair && soma_run_finding(r, 0, &f) == SOMA_OK)
      broken(m, p, "fails a check", f.text);
  }
  soma_run_free(r);
}

/* Whether a report speaks of a tile that has left PSUM. */
static int look_for(void *ud, const char *p, size_t n) {
  static const char text[] = "from PSUM to SBUF";
  for (size_t i = 0; i + sizeof text <= n; i++)
    if (memcmp(p + i, text, sizeof text - 1) == 0) *(bool *)ud = true;
  return n == 0;
}

/* After the end nothing is added, and every question has an answer. */
static void look(soma_kernel *k, unsigned cores, bytes *b) {
  soma_kernel_life l;
  soma_kernel_wait w;
  soma_kernel_figures f;
  soma_program *again = NULL;
  uint32_t id;
  const char *file;
  bool left = false;
  soma_kernel_report(k, look_for, &left);
  for (uint32_t i = 0; i < 12; i++) soma_kernel_get_life(k, i, &l);
  for (uint32_t i = 0; soma_kernel_get_wait(k, i, &w) == SOMA_OK; i++)
    if (w.earlier >= soma_kernel_count(k)) fuzz_fail("a wait for what is not there");
  soma_kernel_get_figures(k, &f, take(b) % 2 ? sizeof f : take(b));
  soma_kernel_get_figures(k, &f, sizeof f);
  fuzz_stats[SPILLED].n += f.spills != 0;
  fuzz_stats[LEFT_PSUM].n += left;
  if (cores == 1 && soma_kernel_finish(k, &again, NULL) == SOMA_OK) fuzz_fail("finished twice");
  if (soma_kernel_register(k, &id) == SOMA_OK) fuzz_fail("a register after the end");
  if (soma_kernel_endloop(k) == SOMA_OK) fuzz_fail("a loop ends after the end");
  if (!soma_kernel_error_place(k, &file, &id)[0]) fuzz_fail("refused without a reason");
}

/* The machine of a target: made once, since its memories take longer than an input. */
static soma_machine *machine_of(unsigned target) {
  static const char *const targets[] = {"trn1", "trn2", "trn3"};
  static soma_machine *machines[3];
  soma_options o = SOMA_OPTIONS_INIT;
  o.target = targets[target];
  o.max_instructions = 3000;
  o.checks = 1 << SOMA_CHECK_RACE;
  if (!machines[target] && soma_machine_new(&o, &machines[target]) != SOMA_OK) return NULL;
  return machines[target];
}

/* A kernel of what the bytes say; NULL when memory is out. */
static soma_kernel *kernel_of(soma_machine *m, const soma_kernel_options *o, bytes *b) {
  uint32_t parts[TILES], cols[TILES];
  soma_kernel *k = NULL;
  if (soma_kernel_new(m, o, &k) != SOMA_OK) return NULL;
  if (buffers(k, b, o->sbuf_bytes, parts, cols)) {
    if (take(b) % 4) fill(k, parts, cols);
    fuzz_stats[PASSED].n += (unsigned)records(k, b);
    if (o->sbuf_bytes) use_all(k, parts, cols);
  }
  return k;
}

/* The same of core 1, of fewer bytes, and the program of both. */
static soma_status finish_pair(soma_machine *m, soma_kernel_options *o, soma_kernel *first,
                               bytes *b, soma_program **p) {
  o->core = 1;
  soma_kernel *second = kernel_of(m, o, b);
  if (!second) return SOMA_NOMEM;
  soma_status s = soma_kernel_finish_pair(first, second, p, NULL);
  fuzz_stats[PAIRS].n += s == SOMA_OK;
  if (s == SOMA_OK && soma_program_cores(*p) != 2) fuzz_fail("a pair of one core");
  if (s == SOMA_OK) look(second, 2, b);
  soma_kernel_free(second);
  return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  bytes b = {data, n < MOST_BYTES ? n : MOST_BYTES}, half = b;
  soma_machine *m = NULL;
  soma_program *p = NULL;
  soma_kernel_options ko = SOMA_KERNEL_OPTIONS_INIT;
  fuzz_stats[INPUTS].n++;
  unsigned target = take(&b) % 3, how = take(&b);
  m = machine_of(target);
  ko.cores = target && how / 8 % 4 == 0 ? 2 : 1;
  ko.flags = how % 4 == 0 ? SOMA_KERNEL_KEEP_ORDER : 0;
  if (how / 4 % 2) ko.flags |= SOMA_KERNEL_COPIES;
  if (take(&b) % 3 == 0) {
    ko.flags |= SOMA_KERNEL_SPILL;
    uint32_t room = take(&b);
    ko.sbuf_bytes = room < 96 ? 192 + 32 * (room % 4) : PSUM_ROOM;
  }
  soma_kernel *k = m ? kernel_of(m, &ko, &b) : NULL;
  if (!k) return 0;
  soma_status s =
      ko.cores > 1 ? finish_pair(m, &ko, k, &half, &p) : soma_kernel_finish(k, &p, NULL);
  if (s == SOMA_OK) {
    fuzz_stats[FINISHED].n++;
    look(k, ko.cores, &b);
    assemble_again(m, p);
    if (n && data[n - 1] % RUN_EVERY == 0) run(m, p);
  } else if (!soma_kernel_error(k)[0]) {
    fuzz_fail("not finished, without a reason");
  } else if (ko.cores == 1) {
    look(k, 1, &b);
  }
  soma_program_free(p);
  soma_kernel_free(k);
  return 0;
}
