/* Saved runs. The input chooses a program of random valid instructions (gen.h), with checks or
 * without, how far it runs, and how its file is damaged. Undamaged, the resumed run must end as the
 * one that continued, with the same findings; damaged, with length and hash made right again, it is
 * refused with a reason, or it runs to an end or a limit. */
#include "../../vm/api/impl.h"
#include "fuzz.h"
#include "gen.h"
#include "saved.h"

const enum fuzz_kind fuzz_kind = FUZZ_CHOICES;
fuzz_stat fuzz_stats[] = {{"inputs", 0, 0},
                          {"saved", 30, 0},
                          {"ended alike", 5, 0}, /* 9 of 100: most random programs have findings */
                          {"damaged", 15, 0},
                          {"taken and ran", 5, 0},
                          {"refused", 2, 0},
                          {"saved with checks", 10, 0},
                          {"with findings, ended alike", 3, 0},
                          {"saved with .indirect under way", 1, 0},
                          {"saved with two cores", 5, 0},
                          {"saved with sizes of the run", 3, 0},
                          {NULL, 0, 0}};
enum { INPUTS, SAVED, ALIKE, DAMAGED, TAKEN, REFUSED, CHECKED, FOUND, INDIRECT, PAIRED, SIZED };
void fuzz_report(void) {}

enum { MOST_INSNS = 10 };

/* ---- Programs ------------------------------------------------------------------------------ */

/* Registers that are not 0, and often the transfers and instructions that stay in flight. */
static void fill_engine(gen *g, unsigned engine) {
  for (uint8_t r = 0; r < 4; r++) {
    isa_insn in;
    memset(&in, 0, sizeof in);
    in.op = ISA_OP_mov;
    in.u.MOV.rd = r;
    in.u.MOV.a.v = (int32_t)gen_below(g, 12) - 1;
    gen_put(g->prog, engine, &in);
  }
  for (uint32_t n = gen_below(g, MOST_INSNS); n > 0; n--) {
    bool dma = gen_one_in(g, 3);
    unsigned list[ISA_NOPS], count = 0;
    for (unsigned op = 0; op < ISA_NOPS; op++)
      if ((isa_ops[op].engines & 1u << engine) && isa_ops[op].gen <= g->prog->target->gen &&
          isa_op_is_dma(op) == dma && !isa_op_is_control(op) && isa_ops[op].status == ISA_DONE)
        list[count++] = op;
    if (count) (void)gen_add(g, list[gen_below(g, count)], engine);
  }
}

/* Whether an operand of an instruction goes by an index. */
static bool goes_by_an_index(const isa_core *c, const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++) {
    uint32_t ap = 0;
    if (form->fields[i].kind == ISA_K_AP)
      ap = *(const uint32_t *)isa_member_c(in, &form->fields[i]);
    if (ap && c->aps[ap - 1].index_kind == ISA_INDEX_indirect) return true;
  }
  return false;
}

/* An instruction of vector whose operands go by an index, before all others. */
static void add_indirect(gen *g) {
  static const uint16_t ops[] = {ISA_OP_tensor_copy, ISA_OP_tensor_tensor, ISA_OP_tensor_scalar};
  const isa_core *c = &g->prog->cores[0];
  const isa_code *code = &c->code[ISA_ENG_vector];
  g->indirect = true;
  for (int i = 0; i < 8; i++) {
    uint32_t n = code->n;
    (void)gen_add(g, GEN_OF(g, ops), ISA_ENG_vector);
    if (code->n > n && goes_by_an_index(c, &code->insns[code->n - 2])) break;
  }
  g->indirect = false;
}

/* Leaves first dimensions to the run. */
static void open_tensors(gen *g) {
  for (uint32_t i = 0; i < g->prog->ntensors; i++) {
    isa_tensor *t = &g->prog->tensors[i];
    if (t->role != ISA_CONST && gen_one_in(g, 2)) t->rows = (uint8_t)(40 + gen_below(g, 3));
  }
}

static isa_program *make_program(gen *g) {
  isa_alloc al = isa_alloc_default();
  bool by_index = gen_one_in(g, 3);
  unsigned target = by_index ? ISA_trn3 : gen_below(g, ISA_NTARGETS);
  g->pair = isa_targets[target].gen >= ISA_GEN3 && gen_one_in(g, 3);
  if (!gen_program(g, &al, &isa_targets[target])) return NULL;
  for (uint32_t i = 0; i < g->prog->ntiles; i++) /* an overlap that nobody has declared */
    if (gen_one_in(g, 8)) g->prog->tiles[i].overlay = NULL;
  if (by_index) add_indirect(g);
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (!gen_one_in(g, 3)) fill_engine(g, e);
  if (gen_one_in(g, 5)) open_tensors(g);
  if (g->pair && !gen_twin(g->prog)) fuzz_fail("no memory");
  return g->prog;
}

/* ---- Machines ------------------------------------------------------------------------------ */

typedef struct bed {
  soma_machine *m;
  soma_program *p;
  soma_run *r;
} bed;

static bed new_bed(unsigned checks) {
  bed b = {0};
  soma_options o = SOMA_OPTIONS_INIT;
  o.checks = checks;
  o.max_instructions = 300;
  o.max_time = UINT64_C(100000000000); /* 100 us */
  o.max_hbm_bytes = 64 << 20;
  if (soma_machine_new(&o, &b.m) != SOMA_OK) fuzz_fail("no machine");
  return b;
}

static void finish(bed *b) {
  soma_run_free(b->r);
  soma_program_free(b->p);
  soma_machine_free(b->m);
}

/* The size that a run of b gives tensor i, whose declared size is `most`: one of each register,
 * from the bytes of its program. */
static int64_t rows_of(const bed *b, const isa_buf *image, uint32_t i, int64_t most) {
  int reg = soma_program_rows(b->p, i);
  soma_tensor_info t;
  for (uint32_t k = 0; soma_program_tensor(b->p, k, &t) == SOMA_OK && reg >= 0; k++)
    if (soma_program_rows(b->p, k) == reg && t.shape[0] < most) most = t.shape[0];
  return reg < 0 || (uint8_t)image->data[8] % 3 ? most : 1 + (uint8_t)image->data[9] % most;
}

static bool start(bed *b, const isa_buf *image) {
  static uint8_t data[1 << 16];
  for (size_t i = 0; i < sizeof data; i++) data[i] = i % 4 ? 0 : (uint8_t)(i / 4 % 5);
  if (soma_program_load(b->m, image->data, image->len, &b->p) != SOMA_OK)
    fuzz_fail("not loaded: %s", soma_error(b->m));
  for (uint32_t i = 0; i < soma_program_tensors(b->p); i++) {
    soma_tensor_info t;
    soma_program_tensor(b->p, i, &t);
    t.shape[0] = rows_of(b, image, i, t.shape[0]);
    if (soma_program_rows(b->p, i) >= 0) soma_bind_rows(b->m, b->p, t.name, t.shape[0]);
    if (t.role != SOMA_INPUT) continue;
    if (t.bytes > sizeof data) return false;
    soma_bind(b->m, b->p, t.name, t.dtype, t.ndim, t.shape, data);
  }
  return soma_run_start(b->m, b->p, &b->r) == SOMA_OK;
}

/* Small numbers where an index may be. */
static void fill_memory(bed *b) {
  uint8_t row[64];
  for (uint32_t p = 0; p < 128; p++) {
    for (uint32_t i = 0; i < sizeof row; i++) row[i] = (uint8_t)((p + 16 * i) % 48);
    soma_memory_write(b->m, SOMA_SBUF, p, 0, row, sizeof row);
  }
}

static bool index_under_way(const soma_run *r) {
  const vm_core *c = r->run.cores[0];
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (uint32_t i = 0; i < c->eng[e].nflights; i++)
      if (goes_by_an_index(c->code, c->eng[e].flights[(c->eng[e].first + i) % VM_FLIGHTS].in))
        return true;
  return false;
}

/* ---- Laws ---------------------------------------------------------------------------------- */

static void same_tensors(const bed *a, const bed *b) {
  for (uint32_t i = 0; i < soma_program_tensors(a->p); i++) {
    soma_tensor_info t, u;
    soma_run_tensor(a->r, i, &t);
    soma_run_tensor(b->r, i, &u);
    if (t.bytes != u.bytes) fuzz_fail("tensor %s has another size", t.name);
    uint8_t *x = malloc(t.bytes), *y = malloc(t.bytes);
    if (x && y && soma_fetch(a->r, t.name, x, t.bytes) == SOMA_OK &&
        soma_fetch(b->r, t.name, y, t.bytes) == SOMA_OK && memcmp(x, y, t.bytes) != 0)
      fuzz_fail("tensor %s differs", t.name);
    free(x);
    free(y);
  }
}

static void same_findings(const bed *a, const bed *b) {
  soma_finding x, y;
  if (soma_run_findings(a->r) != soma_run_findings(b->r))
    fuzz_fail("%llu findings, resumed %llu", (unsigned long long)soma_run_findings(a->r),
              (unsigned long long)soma_run_findings(b->r));
  for (uint32_t i = 0; soma_run_finding(a->r, i, &x) == SOMA_OK; i++)
    if (soma_run_finding(b->r, i, &y) != SOMA_OK || strcmp(x.text, y.text) != 0)
      fuzz_fail("finding %u is\n%s\nresumed\n%s", i, x.text, y.text);
  if (soma_run_findings(a->r)) fuzz_stats[FOUND].n++;
}

/* a continues; what was saved of it continues in a machine of its own. */
static void must_end_alike(bed *a, const void *data, size_t n) {
  bed b = new_bed(0);
  soma_stats x, y;
  soma_fault f, g;
  if (soma_run_resume(b.m, data, n, &b.p, &b.r) != SOMA_OK)
    fuzz_fail("its own file is refused: %s", soma_error(b.m));
  soma_status s = soma_run_until(a->r, SOMA_END, SOMA_SYNC, 0);
  soma_status t = soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0);
  soma_run_fault(a->r, &f);
  soma_run_fault(b.r, &g);
  if (s != t || strcmp(f.text, g.text) != 0)
    fuzz_fail("status %d (%s), resumed %d (%s)", (int)s, f.text, (int)t, g.text);
  soma_run_stats(a->r, &x, sizeof x);
  soma_run_stats(b.r, &y, sizeof y);
  x.host_seconds = y.host_seconds = 0;
  if (memcmp(&x, &y, sizeof x) != 0)
    fuzz_fail("other figures: %llu fs and hash %llx, resumed %llu and %llx",
              (unsigned long long)x.time, (unsigned long long)x.trace_hash,
              (unsigned long long)y.time, (unsigned long long)y.trace_hash);
  same_tensors(a, &b);
  same_findings(a, &b);
  fuzz_stats[ALIKE].n++;
  finish(&b);
}

static void must_do_no_harm(const uint8_t *data, size_t n) {
  bed b = new_bed(0);
  fuzz_stats[DAMAGED].n++;
  soma_status s = soma_run_resume(b.m, data, n, &b.p, &b.r);
  if (s == SOMA_OK) {
    void *again;
    size_t length;
    fuzz_stats[TAKEN].n++;
    s = soma_run_save(b.r, &again, &length);
    if (s == SOMA_OK)
      soma_bytes_free(again);
    else if (!soma_run_ended(b.r)) /* one that ends with a fault at once has nothing to save */
      fuzz_fail("taken, but not saved again: %s", soma_error(b.m));
    s = soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0);
    if (!soma_run_ended(b.r)) fuzz_fail("it came back before the end: %d", (int)s);
  } else {
    fuzz_stats[REFUSED].n++;
    if (!soma_error(b.m)[0]) fuzz_fail("refused without a reason");
    if (b.p || b.r) fuzz_fail("refused, with a handle");
  }
  finish(&b);
}

static void run(gen *g, const isa_buf *image) {
  static const unsigned masks[] = {SOMA_CHECK_ALL, 1u << SOMA_CHECK_RACE,
                                   1u << SOMA_CHECK_RACE | 1u << SOMA_CHECK_OVERLAP};
  unsigned checks = gen_one_in(g, 2) ? GEN_OF(g, masks) : 0;
  bed a = new_bed(checks);
  void *data;
  size_t n;
  soma_status s = SOMA_OK;
  bool started = start(&a, image);
  if (started && gen_one_in(g, 2)) fill_memory(&a);
  for (uint32_t k = gen_below(g, gen_one_in(g, 2) ? 10 : 60); started && k > 0 && s == SOMA_OK; k--)
    s = soma_run_until(a.r, SOMA_EVENT, SOMA_SYNC, 0);
  if (started && s == SOMA_OK) {
    if (soma_run_save(a.r, &data, &n) != SOMA_OK) fuzz_fail("not saved: %s", soma_error(a.m));
    fuzz_stats[SAVED].n++;
    fuzz_stats[PAIRED].n += g->pair;
    fuzz_stats[CHECKED].n += checks != 0;
    fuzz_stats[SIZED].n += a.r->sized != NULL;
    fuzz_stats[INDIRECT].n += index_under_way(a.r);
    if (gen_one_in(g, 3)) {
      must_end_alike(&a, data, n);
    } else {
      size_t left = saved_damage(g, data, n);
      must_do_no_harm(data, left);
    }
    soma_bytes_free(data);
  }
  finish(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  gen g = {.p = data, .end = data + n, .more = n};
  isa_alloc al = isa_alloc_default();
  isa_buf image;
  fuzz_stats[INPUTS].n++;
  for (size_t i = 0; i < n; i++) g.more = g.more * 31 + data[i];
  if (!make_program(&g)) return 0;
  isa_buf_init(&image, &al);
  if (!isa_image_write(g.prog, &image)) fuzz_fail("a program cannot be written");
  run(&g, &image);
  isa_buf_free(&image);
  isa_program_free(g.prog);
  return 0;
}
