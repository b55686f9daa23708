/* Choices for the generator of gen.h: up to PROGRAMS programs of random valid instructions, written
 * as files, sometimes damaged, loaded and run one after another on two machines: one goes straight
 * to the end with the plain kernels on one thread, the other step by step with the best ones on two
 * to eight, some of them with every check, a recorder and the critical path. Both must end in the
 * same way with the same bytes everywhere. Some schedules are others than the machine's own; a
 * third machine sometimes computes nothing. */
#include "../../vm/api/impl.h"
#include "../../vm/world/plan.h"
#include "../../vm/api/soma.h"
#include "../../vm/work/work.h"
#include "fuzz.h"
#include "gen.h"

const enum fuzz_kind fuzz_kind = FUZZ_CHOICES;
fuzz_stat fuzz_stats[] = {{"programs", 0, 0},
                          {"read", 80, 0},
                          {"passed the verifier and ran", 30, 0},
                          {"ran to the end", 5, 0},
                          {"faulted", 0, 0},
                          {"deadlocked", 0, 0},
                          {"reached a limit", 0, 0},
                          {"checked", 0, 0},
                          {"with findings", 0, 0},
                          {"on another schedule", 0, 0},
                          {"on two cores", 0, 0},
                          {NULL, 0, 0}};
enum { MADE, READ, RAN, ENDED, FAULTED, DEADLOCKED, LIMITED, CHECKED, FOUND, SCHEDULED, PAIRED };
static uint64_t placed[ISA_NOPS];

enum {
  PROGRAMS = 8,
  MOST_INSNS = 10,
  PATTERN = 4096,
  LOW_SBUF = 12288,
  LOW_PSUM = 4096,
  HASH = 8,
  HASHED = 16
};

void fuzz_report(void) {
  if (!getenv("FUZZ_VERBOSE")) return;
  for (unsigned op = 0; op < ISA_NOPS; op++)
    printf("%12llu %s\n", (unsigned long long)placed[op], isa_ops[op].name);
}

/* ---- The program -------------------------------------------------------------------------- */

/* Adds one instruction, unless none of the draws is legal. */
static void add_insn(gen *g, unsigned op, unsigned engine) {
  if (gen_add(g, op, engine)) placed[op]++;
}

/* Registers that are not 0, so that dynamic parts differ. */
static void add_movs(gen *g, unsigned engine) {
  for (uint8_t r = 0; r < 4; r++) {
    isa_insn in;
    memset(&in, 0, sizeof in);
    in.op = ISA_OP_mov;
    in.u.MOV.rd = r;
    in.u.MOV.a.v = (int32_t)gen_below(g, 40) - 4;
    gen_put(g->prog, engine, &in);
  }
}

/* Mostly of the data path: control instructions end runs early. */
static unsigned choose_op(gen *g, unsigned engine) {
  bool control = gen_one_in(g, 6);
  unsigned list[ISA_NOPS], n = 0;
  for (unsigned op = 0; op < ISA_NOPS; op++)
    if ((isa_ops[op].engines & 1u << engine) && isa_ops[op].gen <= g->prog->target->gen &&
        isa_op_is_control(op) == control && isa_ops[op].status == ISA_DONE)
      list[n++] = op;
  return n ? list[gen_below(g, n)] : ISA_OP_nop;
}

static const char operator_name[] = "fuzz";

/* All name the one operator that is registered. */
static void name_operators(isa_program *p) {
  isa_code *code = &p->cores[0].code[ISA_ENG_gpsimd];
  for (uint32_t i = 0; i < code->n; i++)
    if (code->insns[i].op == ISA_OP_custom_op)
      isa_program_pool(p, operator_name, sizeof operator_name - 1, 1,
                       &code->insns[i].u.CUSTOM.name);
}

static isa_program *make_program(gen *g, const isa_target *target) {
  isa_alloc al = isa_alloc_default();
  if (!gen_program(g, &al, target)) return NULL;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    if (gen_one_in(g, 3)) continue;
    add_movs(g, e);
    for (uint32_t n = gen_below(g, MOST_INSNS); n > 0; n--) add_insn(g, choose_op(g, e), e);
  }
  name_operators(g->prog);
  if (g->pair && !gen_twin(g->prog)) fuzz_fail("no memory");
  return g->prog;
}

/* Some bits change; the hash is made right again. */
static void damage(gen *g, isa_buf *b) {
  for (uint32_t n = 1 + gen_below(g, 3); n > 0; n--)
    b->data[HASHED + gen_below(g, (uint32_t)b->len - HASHED)] ^= (char)(1 << gen_below(g, 8));
  uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, as isa/image.h says */
  for (size_t i = HASHED; i < b->len; i++)
    hash = (hash ^ (uint8_t)b->data[i]) * UINT64_C(0x100000001b3);
  for (unsigned i = 0; i < 8; i++) b->data[HASH + i] = (char)(hash >> 8 * i);
}

/* ---- The machines ------------------------------------------------------------------------- */

typedef struct bed {
  soma_machine *m;
  soma_program *p;
  soma_run *r;
  soma_status status; /* of the end */
} bed;

/* What the machines of an input have in common, and what is looked at. */
typedef struct terms {
  const isa_target *target;
  const uint8_t *pattern;
  uint64_t schedule;
  uint32_t
      stride; /* of the partitions that are filled and compared: all, or a few, which is quick */
  unsigned checks; /* of the second machine */
  bool record, timing_only;
} terms;

/* Bytes for inputs and memories: floats of every kind, and noise. */
static void fill(gen *g, uint8_t *out, size_t n) {
  for (size_t i = 0; i + 4 <= n; i += 4) {
    uint32_t v = i % 64 ? isa_f32_bits((float)((int)(i * 37 % 201) - 100) * 0.25f) : gen_float(g);
    memcpy(out + i, &v, 4);
  }
}

static void preset(soma_machine *m, const terms *t) {
  for (uint32_t p = 0; p < ISA_PMAX; p += t->stride) {
    soma_memory_write(m, SOMA_SBUF, p, 0, t->pattern + 16 * (p % 8), PATTERN - 128);
    soma_memory_write(m, SOMA_PSUM, p, 0, t->pattern + 16 * (p % 4), PATTERN / 2);
  }
}

/* Every destination gets the bytes of all operands, as far as it has room; numbers where there are
 * any are moved too. */
static soma_status mixes(void *ud, soma_call *call) {
  soma_operand d, s;
  uint8_t bytes[64];
  float x[8];
  (void)ud;
  for (uint32_t i = 0; soma_call_operand(call, i, &d) == SOMA_OK && d.writable; i++)
    for (uint32_t k = 0; soma_call_operand(call, k, &s) == SOMA_OK; k++)
      for (uint32_t p = 0; p < d.partitions && p < s.partitions; p++) {
        uint64_t n = d.elements < s.elements ? d.elements : s.elements;
        size_t wide = soma_dtype_size(s.dtype);
        n = n < 8 ? n : 8;
        if (wide == soma_dtype_size(d.dtype)) {
          if (soma_call_read(call, k, p, s.elements - n, n, bytes) != SOMA_OK ||
              soma_call_write(call, i, p, 0, n, bytes) != SOMA_OK)
            fuzz_fail("an operand's own elements are refused");
        } else if (wide <= 4 && s.dtype <= SOMA_FLOAT32 && d.dtype <= SOMA_FLOAT32) {
          soma_call_load(call, k, p, 0, n, x);
          soma_call_store(call, i, p, d.elements - n, n, x);
        }
      }
  return soma_call_imm(call, 0) == 1.0f ? soma_call_fail(call, "as it was asked") : SOMA_OK;
}

static soma_options options(const terms *t) {
  soma_options o = SOMA_OPTIONS_INIT;
  o.max_instructions = 300;
  o.max_time = UINT64_C(100000000000); /* 100 us */
  o.max_hbm_bytes = 64 << 20;
  o.target = t->target->name;
  o.schedule = t->schedule;
  return o;
}

static void open_machine(bed *b, const soma_options *o, const terms *t) {
  if (soma_machine_new(o, &b->m) != SOMA_OK) fuzz_fail("no machine");
  preset(b->m, t);
  soma_custom_op op = SOMA_CUSTOM_OP_INIT;
  op.fn = mixes;
  op.cycles = 100;
  op.cycles_per_element = 0.75;
  if (soma_custom_set(b->m, operator_name, &op) != SOMA_OK) fuzz_fail("not registered");
}

/* False when the program is refused, which only a damaged one may be, or one whose rings are more
 * than the machine's HBM. */
static bool start(bed *b, const isa_buf *image, bool damaged, const uint8_t *pattern) {
  if (soma_program_load(b->m, image->data, image->len, &b->p) != SOMA_OK) {
    if (damaged) return false;
    fuzz_fail("not loaded: %s", soma_error(b->m));
  }
  for (uint32_t i = 0; i < soma_program_tensors(b->p); i++) {
    soma_tensor_info t;
    soma_program_tensor(b->p, i, &t);
    if (t.role != SOMA_INPUT) continue;
    if (t.bytes > 1 << 16) return false;
    soma_bind(b->m, b->p, t.name, t.dtype, t.ndim, t.shape, pattern);
  }
  soma_status s = soma_run_start(b->m, b->p, &b->r);
  if (s == SOMA_OK || s == SOMA_LIMIT) return s == SOMA_OK;
  if (vm_plan_needed(b->p->p)) return false; /* the ranks, or what is planned, may not fit */
  if (!damaged) fuzz_fail("not started: %s", soma_error(b->m));
  return false;
}

static void finish(bed *b) {
  soma_run_free(b->r);
  soma_program_free(b->p);
  b->r = NULL;
  b->p = NULL;
}

static void straight(bed *b) {
  b->status = soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0);
  if (!soma_run_ended(b->r)) fuzz_fail("it came back before the end: %d", (int)b->status);
}

static void stepwise(gen *g, bed *b) {
  soma_time t = 0;
  b->status = SOMA_OK;
  for (int i = 0; i < 200 && b->status == SOMA_OK && !soma_run_ended(b->r); i++) {
    soma_until what = (soma_until)(1 + gen_below(g, 3));
    t += UINT64_C(1000000) << gen_below(g, 12);
    b->status = soma_run_until(b->r, what, (soma_engine)gen_below(g, SOMA_ENGINES), t);
  }
  if (b->status == SOMA_OK) b->status = soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0);
}

/* ---- Laws --------------------------------------------------------------------------------- */

static void same_memory(const bed *a, const bed *b, unsigned core, soma_memory mem, size_t n,
                        uint32_t stride) {
  static uint8_t x[LOW_SBUF], y[LOW_SBUF];
  for (uint32_t p = 0; p < ISA_PMAX; p += stride) {
    soma_core_memory_read(a->m, core, mem, p, 0, x, n);
    soma_core_memory_read(b->m, core, mem, p, 0, y, n);
    for (size_t i = 0; memcmp(x, y, n) != 0; i++)
      if (x[i] != y[i])
        fuzz_fail("core %u, memory %d, partition %u, byte %zu: %02x, stepwise %02x", core, (int)mem,
                  p, i, x[i], y[i]);
  }
}

static void same_tensors(const bed *a, const bed *b) {
  for (uint32_t i = 0; i < soma_program_tensors(a->p); i++) {
    soma_tensor_info t;
    soma_program_tensor(a->p, i, &t);
    uint8_t *x = malloc(t.bytes), *y = malloc(t.bytes);
    if (x && y && soma_fetch(a->r, t.name, x, t.bytes) == SOMA_OK &&
        soma_fetch(b->r, t.name, y, t.bytes) == SOMA_OK && memcmp(x, y, t.bytes) != 0)
      fuzz_fail("tensor %s differs", t.name);
    free(x);
    free(y);
  }
}

static void check_end(const bed *b) {
  soma_fault f;
  soma_run_fault(b->r, &f);
  if (f.status != b->status) fuzz_fail("status %d, the fault's %d", (int)b->status, (int)f.status);
  if (b->status != SOMA_OK && !f.text[0]) fuzz_fail("a fault without a text");
  if (soma_run_findings(b->r)) fuzz_fail("findings without checks");
  switch (b->status) {
  case SOMA_OK: fuzz_stats[ENDED].n++; break;
  case SOMA_FAULT: fuzz_stats[FAULTED].n++; break;
  case SOMA_DEADLOCK: fuzz_stats[DEADLOCKED].n++; break;
  case SOMA_LIMIT: fuzz_stats[LIMITED].n++; break;
  default: fuzz_fail("ended with status %d: %s", (int)b->status, f.text);
  }
}

/* Findings have texts and places, and are what ends a run that would have ended well; its status is
 * then as it would be without them. */
static void look_at_findings(bed *b, const terms *t) {
  soma_finding f;
  uint64_t n = soma_run_findings(b->r), kept = n < 64 ? n : 64;
  if (n && !t->checks) fuzz_fail("findings without checks");
  if (b->status == SOMA_OK && n) fuzz_fail("%llu findings, and all is well", (unsigned long long)n);
  if (b->status == SOMA_CHECK && !n) fuzz_fail("nothing was found");
  for (uint32_t i = 0; i < kept; i++) {
    if (soma_run_finding(b->r, i, &f) != SOMA_OK) fuzz_fail("finding %u cannot be had", i);
    if (!strstr(f.text, soma_check_name(f.check))) fuzz_fail("a finding without its name");
  }
  if (soma_run_finding(b->r, (uint32_t)kept, &f) != SOMA_ARG) fuzz_fail("a finding too many");
  fuzz_stats[CHECKED].n += t->checks != 0;
  fuzz_stats[FOUND].n += n != 0;
  if (b->status == SOMA_CHECK) b->status = SOMA_OK;
}

static int swallow(void *ud, const char *p, size_t n) {
  size_t *left = ud;
  if (n && !p) fuzz_fail("a writer writes from nowhere");
  if (n > *left) return 1;
  *left -= n;
  return 0;
}

/* Everything that is made of a recorded run; the output is refused somewhere. */
static void look_at_record(gen *g, const bed *b, soma_recorder *rec) {
  soma_path_segment seg[8];
  uint32_t n = 0;
  size_t left = (size_t)1 << gen_below(g, 24);
  if (soma_critical_path(b->r, seg, 8, &n) != SOMA_OK) fuzz_fail("no critical path");
  for (uint32_t i = 1; i < n && i < 8; i++)
    if (seg[i].start != seg[i - 1].end) fuzz_fail("a gap in the critical path");
  soma_stats s;
  soma_run_stats(b->r, &s, sizeof s);
  soma_recorder_stats(rec, &s, sizeof s);
  switch (gen_below(g, 4)) {
  case 0: soma_write_chrome(rec, b->p, swallow, &left); break;
  case 1: soma_write_timeline(rec, b->p, 40 + gen_below(g, 200), swallow, &left); break;
  case 2: soma_write_html(rec, b->p, b->r, "fuzz", swallow, &left); break;
  default:
    soma_write_table(rec, b->p, (soma_table)gen_below(g, SOMA_TABLES),
                     (soma_table_format)gen_below(g, 2), swallow, &left);
  }
}

static void same_end(const bed *a, const bed *b, uint32_t stride) {
  soma_stats x, y;
  soma_fault f, h;
  soma_run_fault(a->r, &f);
  soma_run_fault(b->r, &h);
  /* Register instructions run ahead, so which is the last below a limit depends on the steps. */
  if (a->status == SOMA_LIMIT || b->status == SOMA_LIMIT) return;
  if (a->status != b->status)
    fuzz_fail("status %d (%s), stepwise %d (%s)", (int)a->status, f.text, (int)b->status, h.text);
  if (a->status != SOMA_OK && strcmp(f.text, h.text) != 0)
    fuzz_fail("%s\nstepwise: %s", f.text, h.text);
  soma_run_stats(a->r, &x, sizeof x);
  soma_run_stats(b->r, &y, sizeof y);
  /* At a fault other engines may be ahead with register instructions. */
  if (x.time != y.time || (a->status == SOMA_OK && x.instructions != y.instructions))
    fuzz_fail("%llu fs and %llu instructions, stepwise %llu and %llu", (unsigned long long)x.time,
              (unsigned long long)x.instructions, (unsigned long long)y.time,
              (unsigned long long)y.instructions);
  if (x.trace_hash != y.trace_hash) fuzz_fail("other events stepwise");
  for (unsigned core = 0; core < soma_program_cores(a->p); core++) {
    same_memory(a, b, core, SOMA_SBUF, LOW_SBUF, stride);
    same_memory(a, b, core, SOMA_PSUM, LOW_PSUM, stride);
  }
  same_tensors(a, b);
}

static terms choose_terms(gen *g) {
  static uint8_t pattern[1 << 16];
  terms t = {.target = &isa_targets[gen_below(g, ISA_NTARGETS)], .pattern = pattern};
  fill(g, pattern, sizeof pattern);
  t.stride = gen_one_in(g, 8) ? 1 : 9;
  if (gen_one_in(g, 3)) t.schedule = 1 + gen_u32(g);
  if (gen_below(g, 2)) t.checks = gen_one_in(g, 4) ? gen_below(g, SOMA_CHECK_ALL) : SOMA_CHECK_ALL;
  t.record = gen_one_in(g, 6);
  t.timing_only = gen_one_in(g, 12);
  g->pair = t.target->gen >= ISA_GEN3 && gen_one_in(g, 3);
  return t;
}

/* The machine that only keeps time, with every check: its results mean nothing, its end may. */
static void run_timing_only(const isa_buf *image, bool damaged, const terms *t) {
  bed b = {0};
  soma_options o = options(t);
  o.timing_only = 1;
  o.checks = SOMA_CHECK_ALL;
  open_machine(&b, &o, t);
  if (start(&b, image, damaged, t->pattern)) straight(&b);
  finish(&b);
  soma_machine_free(b.m);
}

/* Both machines run the program. False when they may differ from now on. */
static bool run(gen *g, const isa_buf *image, bool damaged, const terms *t, bed *a, bed *b,
                soma_recorder *rec) {
  if (!start(a, image, damaged, t->pattern)) {
    finish(a);
    return true;
  }
  if (!start(b, image, damaged, t->pattern)) {
    /* With checks or a trace a rank alone has no collectives. */
    if (!vm_plan_needed(a->p->p)) fuzz_fail("it starts only once");
    finish(a);
    finish(b);
    return true;
  }
  fuzz_stats[RAN].n++;
  fuzz_stats[SCHEDULED].n += t->schedule != 0;
  fuzz_stats[PAIRED].n += g->pair;
  straight(a);
  check_end(a);
  stepwise(g, b);
  look_at_findings(b, t);
  same_end(a, b, t->stride);
  if (rec) look_at_record(g, b, rec);
  if (t->timing_only) run_timing_only(image, damaged, t);
  bool alike = a->status != SOMA_LIMIT && b->status != SOMA_LIMIT;
  finish(b);
  finish(a);
  return alike;
}

/* For a look at what failed: FUZZ_PRINT=1 fuzz_run KEPT. */
static void print(const isa_program *p) {
  isa_alloc al = isa_alloc_default();
  isa_buf text;
  isa_buf_init(&text, &al);
  isa_print_program(p, ISA_TEXT_RAW, &text);
  fputs(isa_buf_str(&text), stderr);
  isa_buf_free(&text);
}

/* One program: made, written, read and run. False when the machines may differ from now on. */
static bool one_program(gen *g, const terms *t, bed *a, bed *b, soma_recorder *rec) {
  isa_alloc al = isa_alloc_default();
  isa_error e = {0};
  isa_buf image;
  bool go_on = true;
  fuzz_stats[MADE].n++;
  if (!make_program(g, t->target)) return true;
  isa_buf_init(&image, &al);
  if (!isa_image_write(g->prog, &image)) fuzz_fail("a program cannot be written");
  bool damaged = gen_one_in(g, 8);
  if (damaged) damage(g, &image);
  isa_program *back = isa_image_read(&al, image.data, image.len, &e);
  if (!back && !damaged) fuzz_fail("its own file is refused: %s", e.text);
  if (back) {
    fuzz_stats[READ].n++;
    if (getenv("FUZZ_PRINT")) print(back);
    go_on = run(g, &image, damaged, t, a, b, rec);
  }
  isa_program_free(back);
  isa_buf_free(&image);
  isa_program_free(g->prog);
  return go_on;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  gen g = {.p = data, .end = data + n, .more = n};
  bed a = {0}, b = {0};
  soma_recorder *rec = NULL;
  for (size_t i = 0; i < n; i++) g.more = g.more * 31 + data[i];
  terms t = choose_terms(&g);
  vm_work_pretend(8);
  soma_options o = options(&t);
  o.simd = "plain";
  o.threads = 1;
  open_machine(&a, &o, &t);
  o.simd = NULL;
  o.threads = 2 + (unsigned)n % 7;
  o.checks = t.checks;
  o.causes = t.record;
  if (t.record && soma_recorder_new(NULL, &rec) != SOMA_OK) fuzz_fail("no recorder");
  o.event = rec ? soma_recorder_event : NULL;
  o.event_ud = rec;
  open_machine(&b, &o, &t);
  bool go_on = true;
  for (int i = 0; go_on && i < (rec ? 1 : PROGRAMS); i++) go_on = one_program(&g, &t, &a, &b, rec);
  soma_machine_free(b.m);
  soma_machine_free(a.m);
  soma_recorder_free(rec);
  return 0;
}
