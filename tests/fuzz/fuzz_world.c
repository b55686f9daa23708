/* Worlds, and saved ones. The input chooses ranks, groups, collectives of all forms, a section of a
 * CC sequencer by hand, an algorithm, checks and causes, how far the world runs, where windows end,
 * and how its file is damaged. A world starts or says why not; what its ranks run prints as text of the same
 * program. Undamaged, the resumed world must end as the one that continued; damaged, with length
 * and hash made right again, it is refused with a reason, or it runs to an end or a limit. */
#include "../../vm/api/impl.h"
#include "fuzz.h"
#include "saved.h"

const enum fuzz_kind fuzz_kind = FUZZ_CHOICES;
fuzz_stat fuzz_stats[] = {
    {"inputs", 0, 0},         {"saved", 60, 0},        {"ended alike", 10, 0},
    {"damaged", 30, 0},       {"taken and ran", 5, 0}, {"refused", 10, 0},
    {"with two cores", 5, 0}, {"with links", 10, 0},   {"with a section", 10, 0},
    {"not started", 0, 0},    {"ended well", 5, 0},    {"with checks", 10, 0},
    {"with findings", 1, 0},  {"with causes", 10, 0},  {NULL, 0, 0}};
enum {
  INPUTS,
  SAVED,
  ALIKE,
  DAMAGED,
  TAKEN,
  REFUSED,
  PAIRED,
  LINKED,
  OWN,
  UNSTARTED,
  WELL,
  CHECKED,
  FOUND,
  CAUSED
};
void fuzz_report(void) {}

/* ---- Programs ------------------------------------------------------------------------------ */

/* What a program of this input is of. */
typedef struct form {
  uint32_t ranks, lnc;
  const char *target, *type;
  unsigned columns;
  bool own; /* a section of cc0 serves its first collective */
} form;

/* "[[2, 0, 1]]": lists of ranks, each once. */
static void put_lists(gen *g, isa_buf *b, uint32_t ranks, uint32_t each) {
  uint32_t order[8];
  for (uint32_t i = 0; i < ranks; i++) {
    uint32_t at = gen_below(g, i + 1);
    order[i] = order[at];
    order[at] = i;
  }
  for (uint32_t i = 0; i < ranks; i++)
    isa_buf_printf(b, "%s%u", i == 0 ? "[[" : i % each == 0 ? "], [" : ", ", (unsigned)order[i]);
  isa_buf_puts(b, "]]\n");
}

/* x and y have a row for each rank, z a row for each two of them. SBUF: u, v and, for all rows, t.
 */
static void put_collective(gen *g, isa_buf *b, const form *f) {
  static const char *const ops[] = {"add", "min", "max"};
  const char *op = GEN_OF(g, ops), *group = gen_one_in(g, 4) && f->ranks % 2 == 0 ? "two" : "tp";
  unsigned n = group[1] == 'w' ? 2 : f->ranks, last = f->ranks - 1;
  bool in_sbuf = gen_one_in(g, 3);
  const char *y = in_sbuf ? "v" : "y", *x = in_sbuf ? "u" : "x";
  switch (gen_below(g, 9)) {
  case 0:
    isa_buf_printf(b, "all_reduce dsts=[%s], srcs=[%s], group=%s, op=%s", y, x, group, op);
    break;
  case 1:
    isa_buf_printf(b, "all_to_all dsts=[y[0:%u]], srcs=[x[0:%u]], group=%s", n, n, group);
    break;
  case 2:
    isa_buf_printf(b, "reduce_scatter dsts=[%s[0:1, :]], srcs=[%s[0:%u, :]], group=%s, op=%s", y, x,
                   n, group, op);
    break;
  case 3:
    isa_buf_printf(b, "all_gather dsts=[%s[0:%u, :]], srcs=[%s[0:1, :]], group=%s", y, n, x, group);
    break;
  case 4:
    isa_buf_printf(b, "collective_permute_implicit dsts=[%s], srcs=[%s], group=%s", y, x, group);
    break;
  case 5:
    isa_buf_printf(
        b, "collective_permute_implicit_reduce dsts=[%s], srcs0=[%s], srcs1=[%s], group=%s, op=%s",
        y, x, x, group, op);
    break;
  case 6:
    isa_buf_printf(b,
                   "collective_permute_implicit dsts=[y[0], y[1]], srcs=[x[1], x[0]], group=%s, "
                   "channels=[0, 1]",
                   group);
    break;
  case 7:
    isa_buf_printf(b, "all_to_all_v dsts=[y], srcs=[x], group=%s, metadata=m.ap([[1, %u]])%s%s",
                   group, (f->target[3] == '3' ? 4u : 3u) * n,
                   gen_one_in(g, 2) ? ", recv_counts_known=true" : "",
                   f->target[3] == '3' ? ", has_rdispls=true" : "");
    break;
  default:
    isa_buf_printf(b, "collective_permute dsts=[y], srcs=[x], pairs=[[0, %u], [%u, 0]]", last,
                   last);
  }
  if (gen_one_in(g, 4)) isa_buf_puts(b, ", stream=1");
}

static void put_peer(gen *g, isa_buf *b, const form *f) {
  static const char *const near[] = {"tp.next", "tp.prev", "tp.xor 1", "tp[0]", "tp[1]"};
  if (gen_one_in(g, 4))
    isa_buf_printf(b, ".rank[%u]", (unsigned)gen_below(g, f->ranks + gen_one_in(g, 16)));
  else
    isa_buf_printf(b, ".rank[%s]", GEN_OF(g, near));
}

static void put_step(gen *g, isa_buf *b, const form *f) {
  uint32_t row = gen_below(g, f->ranks), n = 1 + gen_below(g, 3);
  switch (gen_below(g, 8)) {
  case 0:
    isa_buf_puts(b, "  nop $ready");
    put_peer(g, b, f);
    break;
  case 1:
    isa_buf_printf(b, "  event_semaphore $ready>=%u $ready-=%u", (unsigned)n, (unsigned)n);
    break;
  case 2:
  case 3:
    isa_buf_printf(b, "  dma_copy %s[%u:%u, :]", gen_one_in(g, 3) ? "v" : "y", (unsigned)row,
                   (unsigned)row + 1);
    put_peer(g, b, f);
    isa_buf_printf(b, ", x[%u:%u, :], queue=qcc $came", (unsigned)row, (unsigned)row + 1);
    put_peer(g, b, f);
    break;
  case 4:
    isa_buf_printf(b, "  event_semaphore $came>=%u $came-=%u", 4 * (unsigned)n, 4 * (unsigned)n);
    break;
  case 5: isa_buf_puts(b, "  dma_trigger qcc, 1, first=1 $came.rank[dst]"); break;
  case 6:
    isa_buf_printf(b, "  dma_compute y[%u], srcs=[x[%u], z[0]], op=add, queue=qcc $moved",
                   (unsigned)row, (unsigned)row);
    break;
  default: isa_buf_puts(b, "  event_semaphore $moved>=4 $moved-=4");
  }
  isa_buf_puts(b, "\n");
}

/* A section for the first collective: mostly one with which nobody waits for ever. */
static void put_section(gen *g, isa_buf *b, const form *f) {
  isa_buf_puts(b, "section cc0\n  wait_start gpsimd.first\n");
  if (gen_below(g, 3)) {
    isa_buf_puts(
        b, "  nop $ready.rank[tp.prev]\n  event_semaphore $ready>=1 $ready-=1\n"
           "  dma_trigger qcc, 1, first=1 $came.rank[dst]\n  event_semaphore $came>=4 $came-=4\n");
  } else {
    for (uint32_t i = 1 + gen_below(g, 5); i > 0; i--) put_step(g, b, f);
  }
  isa_buf_puts(b, "  complete gpsimd.first\n");
}

static void put_tables(gen *g, isa_buf *b, const form *f) {
  unsigned rows = f->ranks, n = f->columns;
  const char *core = f->lnc == 2 ? " core=*" : "", *cores = f->lnc == 2 ? ", core=*" : "";
  isa_buf_printf(b, "target %s\ntp group ", f->target);
  put_lists(g, b, f->ranks, f->ranks);
  if (f->ranks % 2 == 0) {
    isa_buf_puts(b, "two group ");
    put_lists(g, b, f->ranks, 2);
  }
  isa_buf_printf(b, "x tensor %s[%u, %u], input\ny tensor %s[%u, %u], output\n", f->type, rows, n,
                 f->type, rows, n);
  isa_buf_printf(b, "z tensor %s[%u, %u]\nm tensor uint32[%u], input\n", f->type, rows, n,
                 4 * rows);
  isa_buf_printf(b, "u tile sbuf %s[%u, %u]\nv tile sbuf %s[%u, %u]\n", f->type, rows, n, f->type,
                 rows, n);
  isa_buf_printf(b, "done sem%s\nready sem%s\ncame sem%s\nmoved sem%s\n", core, core, core, core);
  isa_buf_printf(b, "qcc queue dge=none, owner=cc0, rings=4%s\n", cores);
  isa_buf_puts(b, "  dma qcc, z[0].rank[tp.next], x[1]\n");
}

/* A few collectives, one after another, of each core; some are of both. */
static void put_program(gen *g, isa_buf *b, const form *f) {
  isa_buf both;
  uint32_t n = 1 + gen_below(g, 3);
  bool shared = f->lnc == 2 && gen_one_in(g, 2);
  isa_buf_init(&both, &b->al);
  put_tables(g, b, f);
  for (uint32_t c = 0; c < f->lnc; c++) {
    isa_buf_printf(b, "section gpsimd core=%u\n", (unsigned)c);
    if (c == 0) {
      isa_buf_puts(&both, "  ");
      put_collective(g, &both, f);
    }
    if (shared) isa_buf_printf(b, "%s, both=true\n", isa_buf_str(&both));
    for (uint32_t i = 1; i <= n && c == 0; i++) {
      isa_buf_puts(b, i == 1 && f->own ? "first: " : "  ");
      put_collective(g, b, f);
      isa_buf_printf(b, " $done++\n  nop $done>=%u\n", (unsigned)i);
    }
    isa_buf_puts(b, "  halt\n");
  }
  if (f->own) put_section(g, b, f);
  isa_buf_free(&both);
}

/* ---- Worlds -------------------------------------------------------------------------------- */

typedef struct bed {
  soma_world *w;
  soma_world_options o;
  soma_options m;
} bed;

static bed new_bed(uint32_t ranks, uint32_t lnc, const char *target, const char *algorithm) {
  static const soma_options machine = SOMA_OPTIONS_INIT;
  bed b = {.m = machine};
  b.m.target = target;
  b.m.max_instructions = 3000;
  b.m.max_time = UINT64_C(10000000000000); /* 10 ms */
  b.m.max_hbm_bytes = 64 << 20;
  b.o =
      (soma_world_options){.size = sizeof b.o, .ranks = ranks, .lnc = lnc, .algorithm = algorithm};
  b.o.threads = 1;
  return b;
}

static void open_bed(bed *b) {
  b->o.machine = &b->m;
  if (soma_world_new(&b->o, &b->w) != SOMA_OK) fuzz_fail("no world");
}

/* False: it says why not. */
static bool start(bed *b, const isa_buf *text, soma_program **p) {
  static uint8_t data[1 << 18];
  static uint32_t counts[32];
  soma_machine *m = soma_world_machine(b->w, 0);
  if (soma_assemble(m, text->data, text->len, "world.s", NULL, p, NULL) != SOMA_OK) {
    fwrite(text->data, 1, text->len, stderr);
    fuzz_fail("not assembled: %s", soma_error(m));
  }
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i % 13);
  for (uint32_t i = 0; i < 32; i++) counts[i] = i % 3;
  for (uint32_t r = 0; r < b->o.ranks; r++) {
    soma_tensor_info t;
    if (soma_world_load(b->w, r, *p) != SOMA_OK)
      fuzz_fail("not loaded: %s", soma_world_error(b->w));
    soma_program_tensor(*p, 0, &t);
    soma_bind(soma_world_machine(b->w, r), *p, "x", t.dtype, t.ndim, t.shape, data + 4 * r);
    soma_program_tensor(*p, 3, &t);
    soma_bind(soma_world_machine(b->w, r), *p, "m", t.dtype, t.ndim, t.shape, counts);
  }
  if (soma_world_start(b->w) == SOMA_OK) return true;
  if (!soma_world_error(b->w)[0]) fuzz_fail("not started, without a reason");
  return false;
}

/* ---- Laws ---------------------------------------------------------------------------------- */

/* What is told of a world's ranks: findings, and the segments of their critical paths. */
static void tell(const bed *b, isa_buf *out) {
  static soma_path_segment path[1 << 14];
  soma_world_finding f;
  const isa_alloc al = isa_alloc_default();
  isa_buf_init(out, &al);
  for (uint32_t i = 0; i < soma_world_findings(b->w); i++)
    if (soma_world_finding_at(b->w, i, &f, sizeof f) == SOMA_OK) isa_buf_puts(out, f.first.text);
  for (uint32_t r = 0; b->m.causes && r < b->o.ranks; r++) {
    soma_run *run = soma_world_run(b->w, r);
    uint32_t n = 0;
    soma_status s = soma_critical_path(run, path, sizeof path / sizeof *path, &n);
    isa_buf_printf(out, "status %d, %u segments\n", (int)s, (unsigned)n);
    for (uint32_t i = 0; i < n && i < sizeof path / sizeof *path; i++)
      isa_buf_printf(out, "%llu %llu %d\n", (unsigned long long)path[i].start,
                     (unsigned long long)path[i].end, path[i].rank);
    soma_run_free(run);
  }
}

static void must_tell_alike(const bed *a, const bed *b) {
  isa_buf x, y;
  tell(a, &x);
  tell(b, &y);
  if (strcmp(isa_buf_str(&x), isa_buf_str(&y)) != 0)
    fuzz_fail("it tells:\n%s\nresumed:\n%s", isa_buf_str(&x), isa_buf_str(&y));
  fuzz_stats[FOUND].n += soma_world_findings(a->w) > 0;
  isa_buf_free(&x);
  isa_buf_free(&y);
}

/* a continues; what was saved of it continues in a world of its own. */
static void must_end_alike(bed *a, const void *data, size_t n) {
  bed b = new_bed(a->o.ranks, a->o.lnc, a->m.target, a->o.algorithm);
  b.m.checks = a->m.checks;
  b.m.causes = a->m.causes;
  b.o.window = a->o.window ? 0 : 700000000;
  open_bed(&b);
  if (soma_world_resume(b.w, data, n) != SOMA_OK)
    fuzz_fail("its own file is refused: %s", soma_world_error(b.w));
  soma_status s = soma_world_until(a->w, SOMA_TIME_END), t = soma_world_until(b.w, SOMA_TIME_END);
  if (s != t || soma_world_hash(a->w) != soma_world_hash(b.w) ||
      soma_world_time(a->w) != soma_world_time(b.w))
    fuzz_fail("status %d, hash %llx; resumed %d, %llx", (int)s,
              (unsigned long long)soma_world_hash(a->w), (int)t,
              (unsigned long long)soma_world_hash(b.w));
  must_tell_alike(a, &b);
  fuzz_stats[ALIKE].n++;
  fuzz_stats[WELL].n += s == SOMA_OK;
  soma_world_free(b.w);
}

static void must_do_no_harm(bed *a, const void *data, size_t n) {
  bed b = new_bed(a->o.ranks, a->o.lnc, a->m.target, a->o.algorithm);
  open_bed(&b);
  fuzz_stats[DAMAGED].n++;
  if (soma_world_resume(b.w, data, n) == SOMA_OK) {
    fuzz_stats[TAKEN].n++;
    soma_world_until(b.w, SOMA_TIME_END);
    isa_buf told;
    b.m.causes = a->m.causes;
    tell(&b, &told);
    isa_buf_free(&told);
  } else {
    fuzz_stats[REFUSED].n++;
    if (!soma_world_error(b.w)[0]) fuzz_fail("refused without a reason");
    if (soma_world_run(b.w, 0)) fuzz_fail("refused, with a run");
  }
  soma_world_free(b.w);
}

/* What a rank runs, its CC sequencers' programs too, prints as text of a program that prints so. */
static void must_print(bed *a, uint32_t rank) {
  soma_machine *m = soma_world_machine(a->w, rank);
  soma_program *p = soma_world_program(a->w, rank), *again = NULL;
  char *text[2] = {NULL, NULL};
  size_t n[2];
  if (!p || soma_program_print(m, p, &text[0], &n[0]) != SOMA_OK) fuzz_fail("it does not print");
  if (soma_assemble(m, text[0], n[0], "again.s", NULL, &again, NULL) != SOMA_OK)
    fuzz_fail("what it prints does not assemble: %s", soma_error(m));
  if (soma_program_print(m, again, &text[1], &n[1]) != SOMA_OK) fuzz_fail("it prints once");
  if (n[0] != n[1] || memcmp(text[0], text[1], n[0]) != 0)
    fuzz_fail("printed, assembled and printed: another text\n%s", text[0]);
  for (unsigned i = 0; i < 2; i++) soma_bytes_free(text[i]);
  soma_program_free(again);
  soma_program_free(p);
}

static void run(gen *g, bed *a, const isa_buf *text) {
  soma_program *p = NULL;
  void *data;
  size_t n;
  open_bed(a);
  if (a->m.target[3] == '1' && gen_one_in(g, 4)) soma_world_slow_link(a->w, 0, 1, 0.3, 0);
  if (!start(a, text, &p)) {
    fuzz_stats[UNSTARTED].n++;
    soma_program_free(p);
    soma_world_free(a->w);
    return;
  }
  must_print(a, gen_below(g, a->o.ranks));
  soma_time until = (soma_time)gen_below(g, 40000) * 1000000;
  if (soma_world_until(a->w, until) == SOMA_OK) {
    if (soma_world_save(a->w, &data, &n) != SOMA_OK)
      fuzz_fail("not saved: %s", soma_world_error(a->w));
    fuzz_stats[SAVED].n++;
    fuzz_stats[PAIRED].n += a->o.lnc == 2;
    fuzz_stats[LINKED].n += soma_world_links(a->w) > 0;
    fuzz_stats[CHECKED].n += a->m.checks != 0;
    fuzz_stats[CAUSED].n += a->m.causes != 0;
    if (gen_one_in(g, 4)) {
      must_end_alike(a, data, n);
    } else {
      size_t left = saved_damage(g, data, n);
      must_do_no_harm(a, data, left);
    }
    soma_bytes_free(data);
  }
  soma_program_free(p);
  soma_world_free(a->w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const algorithms[] = {NULL, "ring", "mesh", "rdh"};
  gen g = {.p = data, .end = data + n, .more = n};
  isa_alloc al = isa_alloc_default();
  isa_buf text;
  fuzz_stats[INPUTS].n++;
  for (size_t i = 0; i < n; i++) g.more = g.more * 31 + data[i];
  static const char *const targets[] = {"trn1", "trn2", "trn2", "trn3"};
  static const char *const types[] = {"float32", "float32", "bfloat16", "int8"};
  static const uint32_t columns[] = {3, 64, 700};
  form f = {.ranks = 2 + gen_below(&g, 3), .lnc = 1, .target = GEN_OF(&g, targets)};
  f.type = GEN_OF(&g, types);
  f.columns = GEN_OF(&g, columns);
  if (f.target[3] != '1' && gen_one_in(&g, 3)) f.lnc = 2;
  f.own = f.lnc == 1 && gen_one_in(&g, 3);
  fuzz_stats[OWN].n += f.own;
  bed a = new_bed(f.ranks, f.lnc, f.target, GEN_OF(&g, algorithms));
  if (gen_one_in(&g, 2)) a.o.window = 137000000;
  if (gen_one_in(&g, 3)) a.m.checks = SOMA_CHECK_ALL;
  if (gen_one_in(&g, 3)) a.m.causes = 1;
  isa_buf_init(&text, &al);
  put_program(&g, &text, &f);
  run(&g, &a, &text);
  isa_buf_free(&text);
  return 0;
}
