/* Saved worlds. The input chooses ranks, collectives, an algorithm, how far the world runs, where
 * windows end, and how its file is damaged. Undamaged, the resumed world must end as the one that
 * continued; damaged, with length and hash made right again, it is refused with a reason, or it
 * runs to an end or a limit. */
#include "../../vm/api/impl.h"
#include "fuzz.h"
#include "saved.h"

const enum fuzz_kind fuzz_kind = FUZZ_CHOICES;
fuzz_stat fuzz_stats[] = {{"inputs", 0, 0},         {"saved", 60, 0},        {"ended alike", 10, 0},
                          {"damaged", 30, 0},       {"taken and ran", 5, 0}, {"refused", 10, 0},
                          {"with two cores", 5, 0}, {"with links", 10, 0},   {NULL, 0, 0}};
enum { INPUTS, SAVED, ALIKE, DAMAGED, TAKEN, REFUSED, PAIRED, LINKED };
void fuzz_report(void) {}

/* ---- Programs ------------------------------------------------------------------------------ */

static void put_collective(gen *g, isa_buf *b, uint32_t ranks) {
  const char *type = gen_one_in(g, 4) ? "group=tp, op=add" : "group=tp, op=max";
  switch (gen_below(g, 5)) {
  case 0: isa_buf_printf(b, "  all_reduce dsts=[y], srcs=[x], %s", type); break;
  case 1: isa_buf_puts(b, "  all_to_all dsts=[y], srcs=[x], group=tp"); break;
  case 2: isa_buf_printf(b, "  reduce_scatter dsts=[y[0]], srcs=[x], %s", type); break;
  case 3: isa_buf_puts(b, "  all_gather dsts=[y], srcs=[x[0]], group=tp"); break;
  default:
    isa_buf_printf(b, "  collective_permute dsts=[y], srcs=[x], pairs=[[0, %u], [%u, 0]]",
                   (unsigned)ranks - 1, (unsigned)ranks - 1);
  }
}

/* A few collectives, one after another, of each core. */
static void put_program(gen *g, isa_buf *b, const char *target, uint32_t ranks, uint32_t lnc) {
  static const uint32_t columns[] = {3, 64, 700};
  unsigned n = GEN_OF(g, columns);
  isa_buf_printf(b, "target %s\ntp group [[", target);
  for (uint32_t r = 0; r < ranks; r++) isa_buf_printf(b, r ? ", %u" : "%u", (unsigned)r);
  isa_buf_printf(b, "]]\nx tensor float32[%u, %u], input\ny tensor float32[%u, %u], output\n",
                 (unsigned)ranks, n, (unsigned)ranks, n);
  isa_buf_printf(b, "done sem%s\n", lnc == 2 ? " core=*" : "");
  for (uint32_t c = 0; c < lnc; c++) {
    isa_buf_printf(b, "section gpsimd core=%u\n", (unsigned)c);
    for (uint32_t i = 1; c == 0 && i <= 3; i++) {
      put_collective(g, b, ranks);
      isa_buf_printf(b, " $done++\n  nop $done>=%u\n", (unsigned)i);
    }
    isa_buf_puts(b, "  halt\n");
  }
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

static void start(bed *b, const isa_buf *text, soma_program **p) {
  static float data[1 << 16];
  soma_machine *m = soma_world_machine(b->w, 0);
  if (soma_assemble(m, text->data, text->len, "world.s", NULL, p, NULL) != SOMA_OK)
    fuzz_fail("not assembled: %s", soma_error(m));
  for (size_t i = 0; i < sizeof data / sizeof *data; i++) data[i] = (float)(i % 13);
  for (uint32_t r = 0; r < b->o.ranks; r++) {
    soma_tensor_info t;
    soma_program_tensor(*p, 0, &t);
    if (soma_world_load(b->w, r, *p) != SOMA_OK)
      fuzz_fail("not loaded: %s", soma_world_error(b->w));
    soma_bind(soma_world_machine(b->w, r), *p, "x", t.dtype, t.ndim, t.shape, data + r);
  }
  if (soma_world_start(b->w) != SOMA_OK) fuzz_fail("not started: %s", soma_world_error(b->w));
}

/* ---- Laws ---------------------------------------------------------------------------------- */

/* a continues; what was saved of it continues in a world of its own. */
static void must_end_alike(bed *a, const void *data, size_t n) {
  bed b = new_bed(a->o.ranks, a->o.lnc, a->m.target, a->o.algorithm);
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
  fuzz_stats[ALIKE].n++;
  soma_world_free(b.w);
}

static void must_do_no_harm(bed *a, const void *data, size_t n) {
  bed b = new_bed(a->o.ranks, a->o.lnc, a->m.target, a->o.algorithm);
  open_bed(&b);
  fuzz_stats[DAMAGED].n++;
  if (soma_world_resume(b.w, data, n) == SOMA_OK) {
    fuzz_stats[TAKEN].n++;
    soma_world_until(b.w, SOMA_TIME_END);
  } else {
    fuzz_stats[REFUSED].n++;
    if (!soma_world_error(b.w)[0]) fuzz_fail("refused without a reason");
    if (soma_world_run(b.w, 0)) fuzz_fail("refused, with a run");
  }
  soma_world_free(b.w);
}

static void run(gen *g, bed *a, const isa_buf *text) {
  soma_program *p = NULL;
  void *data;
  size_t n;
  open_bed(a);
  if (a->m.target[3] == '1' && gen_one_in(g, 4)) soma_world_slow_link(a->w, 0, 1, 0.3, 0);
  start(a, text, &p);
  soma_time until = (soma_time)gen_below(g, 40000) * 1000000;
  if (soma_world_until(a->w, until) == SOMA_OK) {
    if (soma_world_save(a->w, &data, &n) != SOMA_OK)
      fuzz_fail("not saved: %s", soma_world_error(a->w));
    fuzz_stats[SAVED].n++;
    fuzz_stats[PAIRED].n += a->o.lnc == 2;
    fuzz_stats[LINKED].n += soma_world_links(a->w) > 0;
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
  bool small = gen_one_in(&g, 2);
  uint32_t ranks = 2 + gen_below(&g, 3), lnc = !small && gen_one_in(&g, 2) ? 2 : 1;
  bed a = new_bed(ranks, lnc, small ? "trn1" : "trn2", GEN_OF(&g, algorithms));
  if (gen_one_in(&g, 2)) a.o.window = 137000000;
  isa_buf_init(&text, &al);
  put_program(&g, &text, a.m.target, ranks, lnc);
  run(&g, &a, &text);
  isa_buf_free(&text);
  return 0;
}
