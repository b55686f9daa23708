/* Runs that are saved, resumed and compared with those that were not, and files to damage. */
#ifndef TESTS_SAVE_BED_H
#define TESTS_SAVE_BED_H

#include "../../isa/bytes.h"
#include "countdown.h"
#include "full.h"
#include "vm_bed.h"

enum { HEADER = 40, AT_HASH = 32, PATTERN = 1 << 22 };
static uint32_t pattern[PATTERN / 4];

/* Floats of both signs for most types; small numbers, which are indices too, for integers. */
static const void *data_for(const soma_tensor_info *t) {
  int integer = t->dtype <= SOMA_INT64;
  for (uint32_t i = 0; i < PATTERN / 4 && i * 4 < t->bytes; i++) {
    float x = (float)((int)(i * 37 % 201) - 100) * 0.03125f;
    memcpy(&pattern[i], &x, 4);
    if (integer) pattern[i] = i * 5 % 8;
  }
  if (t->bytes > PATTERN) fail_msg("%s is too large for this test", t->name);
  return pattern;
}

static inline void start(bed *b) {
  soma_tensor_info t;
  for (uint32_t i = 0; soma_program_tensor(b->p, i, &t) == SOMA_OK; i++) {
    if (t.role != SOMA_INPUT) continue;
    if (soma_bind(b->m, b->p, t.name, t.dtype, t.ndim, t.shape, data_for(&t)) != SOMA_OK)
      fail_msg("%s", soma_error(b->m));
  }
  bed_start(b);
}

static inline bed open_program(const soma_options *o, const char *text) {
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

static inline saved save(bed *b) {
  saved s;
  if (soma_run_save(b->r, &s.data, &s.n) != SOMA_OK) fail_msg("%s", soma_error(b->m));
  return s;
}

/* Resumes on the machine `m`, or on a new one. */
static inline bed resume_on(soma_machine *m, const soma_options *o, saved s) {
  bed b = {.m = m};
  if (!m) assert_int_equal(soma_machine_new(o, &b.m), SOMA_OK);
  if (soma_run_resume(b.m, s.data, s.n, &b.p, &b.r) != SOMA_OK) fail_msg("%s", soma_error(b.m));
  return b;
}

static inline bed resume(const soma_options *o, saved s) { return resume_on(NULL, o, s); }

/* ---- The same run --------------------------------------------------------------------------- */

static inline void same_stats(const bed *a, const bed *b) {
  soma_stats x = bed_stats(a), y = bed_stats(b);
  x.host_seconds = y.host_seconds = 0;
  assert_memory_equal(&x, &y, sizeof x);
}

static inline void same_memory(const bed *a, const bed *b, soma_memory mem, size_t n) {
  static uint8_t x[192 << 10], y[192 << 10];
  for (uint32_t p = 0; p < 128; p++) {
    assert_int_equal(soma_memory_read(a->m, mem, p, 0, x, n), SOMA_OK);
    assert_int_equal(soma_memory_read(b->m, mem, p, 0, y, n), SOMA_OK);
    if (memcmp(x, y, n) != 0) fail_msg("memory %d differs in partition %u", (int)mem, p);
  }
}

static inline void same_tensors(const bed *a, const bed *b) {
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

static inline void same_findings(const bed *a, const bed *b) {
  soma_finding x, y;
  soma_unsignalled u, v;
  assert_int_equal(soma_run_findings(a->r), soma_run_findings(b->r));
  for (uint32_t i = 0; soma_run_finding(a->r, i, &x) == SOMA_OK; i++) {
    assert_int_equal(soma_run_finding(b->r, i, &y), SOMA_OK);
    assert_string_equal(x.text, y.text);
    assert_true(x.check == y.check && x.engine == y.engine && x.pc == y.pc && x.time == y.time);
    soma_status known = soma_run_unsignalled(a->r, i, &u, sizeof u);
    assert_int_equal(soma_run_unsignalled(b->r, i, &v, sizeof v), known);
    if (known == SOMA_OK) assert_true(u.fix == v.fix && u.fix_end == v.fix_end);
  }
}

/* What all schedules do, in the same words, if anybody has asked. */
static inline void same_schedules(const bed *a, const bed *b) {
  soma_schedules x, y;
  soma_status s = soma_run_schedules(a->r, &x, sizeof x);
  assert_int_equal(soma_run_schedules(b->r, &y, sizeof y), s);
  if (s != SOMA_OK) return;
  assert_int_equal(x.verdict, y.verdict);
  assert_string_equal(x.text, y.text);
}

/* Both runs have ended: in the same way, with the same state. */
static inline void same_end(const bed *a, const bed *b) {
  soma_fault x, y;
  soma_run_fault(a->r, &x);
  soma_run_fault(b->r, &y);
  assert_int_equal(x.status, y.status);
  assert_string_equal(x.text, y.text);
  same_findings(a, b);
  same_schedules(a, b);
  same_stats(a, b);
  same_memory(a, b, SOMA_SBUF, 192 << 10);
  same_memory(a, b, SOMA_PSUM, 16 << 10);
  same_tensors(a, b);
}

static inline soma_status go_on(bed *b) { return soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0); }

/* Saves the run and resumes it: the first time on a new machine when nothing of the old one is
 * left, later on `*spare`, which has what an earlier part of the run left in it. */
static inline void move_run(bed *b, const soma_options *o, soma_machine **spare, const char *text) {
  saved s = save(b);
  soma_machine *next = *spare;
  if (!next) soma_machine_free(b->m);
  soma_run_free(b->r);
  soma_program_free(b->p);
  if (next) *spare = b->m;
  *b = resume_on(next, o, s);
  if (!next) assert_int_equal(soma_machine_new(o, spare), SOMA_OK);
  if (soma_run_ended(b->r) && soma_run_findings(b->r)) { /* no event was left: it is judged now */
    soma_bytes_free(s.data);
    return;
  }
  saved again = save(b);
  if (s.n != again.n || memcmp(s.data, again.data, s.n) != 0)
    fail_msg("%s: saved again it has other bytes", text);
  soma_bytes_free(s.data);
  soma_bytes_free(again.data);
}

/* Runs text, or the file of that name, without a stop and with saves after events, and compares. */
static inline void check_program(const soma_options *o, const char *text, uint32_t every) {
  bed whole = open_program(o, text), b = open_program(o, text);
  start(&whole);
  soma_status end = go_on(&whole);
  start(&b);
  soma_machine *spare = NULL;
  uint32_t points = 0, events = 0;
  for (; !soma_run_ended(b.r); events++) {
    if (events % every == 0) {
      move_run(&b, o, &spare, text);
      points++;
    }
    if (soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0) != SOMA_OK) break;
  }
  if (points < 2) fail_msg("%s has %u events", text, events);
  soma_status want = soma_run_findings(whole.r) ? SOMA_CHECK : SOMA_OK;
  if (end != want) fail_msg("%s: %s", text, soma_error(whole.m));
  assert_int_equal(go_on(&b), want);
  same_end(&whole, &b);
  bed_close(&b);
  bed_close(&whole);
  soma_machine_free(spare);
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

/* What is hard to carry over: sources that were overwritten after a start, operands by registers
 * and elements that have changed since, index vectors, static rings, states of engines. */
static const char *const programs[] = {
    /* two cores that write into each other's SBUF by a register, and tell each other */
    "target trn2\ns sem core=*\nq queue dge=hwdge, core=*\nx tensor float32[2, 16, 64], input\n"
    "y tensor float32[2, 16, 64], output\nt tile sbuf float32[16, 64]\nu tile sbuf float32[16, "
    "64]\n"
    "section sync core=*\n dma_copy t, x[CORE], queue=q $s\n mov r1, 0\n nop $s>=16\n"
    ".l: dma_copy u[:, r1:+32].peer, t[:, r1:+32], queue=q $peer.s\n add r1, r1, 32\n"
    " blt r1, 64, .l\n dma_copy y[CORE], u, queue=q $s>=49\n halt\n"
    "section vector core=1\n nop $s>=16 $peer.s++\n halt\n"
    "section vector\n nop $s>=16 $peer.s++\n halt\n",
    /* sendrecvs of both kinds by registers that continue at once; core 1 comes late */
    "target trn2\ns sem core=*\nd sem core=*\nq queue dge=hwdge, core=*, rings=4\n"
    "x tensor float32[2, 16, 64], input\ny tensor float32[2, 16, 64], output\n"
    "t tile sbuf float32[16, 64]\nu tile sbuf float32[16, 64]\n"
    "section sync core=1\n loop r0, 0, 600\n endloop\n"
    "section sync core=*\n dma_copy t, x[CORE], queue=q $s\n mov r1, 16 * CORE\n nop $s>=4\n"
    " sendrecv u[:, r1:+16], t[:, r1:+16], queue=q, pipe=1 $s\n add r1, r1, 32\n"
    " sendrecv u[:, r1:+16], t[:, r1:+16], queue=q, pipe=1 $s\n mov r1, 0\n"
    " dma_copy y[CORE], u, queue=q $d>=1\n halt\n"
    "section gpsimd core=*\n nop $s>=4\n mov r2, 16 - 16 * CORE\n"
    " sendrecv_gpsimd u[:, r2:+16], t[:, r2:+16], pipe=2\n add r2, r2, 32\n nop $s>=12\n"
    " sendrecv_gpsimd u[:, r2:+16], t[:, r2:+16], pipe=2 $d++\n mov r2, 0\n halt\n"
    "section vector\n nop $s>=4\n loop r0, 0, 30\n memset t[:, 0:8], 7.0\n endloop\n halt\n",
    /* a source that another engine overwrites while it is read */
    "target trn2\nt tile sbuf float32[128, 512]\nu tile sbuf float32[128, 512]\ns sem\n"
    "section vector\n memset t, 2.0 $s++\n halt\nsection gpsimd\n tensor_copy u, t $s>=1\n halt\n"
    "section scalar\n nop $s>=1\n activate t[:, 0:64], t[:, 0:64], fn=copy, scale=3.0\n halt\n",
    /* offsets and sizes in registers that continue at once */
    "target trn2\nt tile sbuf float32[128, 512]\ns sem\nsection vector\n mov r1, 0\n mov r3, 4\n"
    ".l: mov r4, 0x3f800000\n tensor_scalar t[:, r1:+8], t[:, r1:+8], op0=add, imm0=r4 $s++\n"
    " add r1, r1, 4\n mov r4, 0x40000000\n blt r1, 60, .l\n mov r1, 77\n halt\n"
    "section gpsimd\n iota t[:, 100:200], pattern=[[1, 100]], offset=0, multiplier=1\n halt\n",
    /* transfers of a loop, dynamic on both sides, into a ring that fills */
    "target trn2\na tensor float32[64, 32], input\nc tensor float32[64, 32], output\n"
    "t tile sbuf float32[64, 32]\ns sem\nq queue dge=hwdge, rings=2\nsection sync\n"
    " dma_copy t, a, queue=q $s\n nop $s>=2\n mov r1, 0\n"
    ".l: dma_copy c[:, r1:+1], t[:, r1:+1], queue=q\n add r1, r1, 1\n blt r1, 32, .l\n halt\n",
    /* gather, scatter with a sum, a transpose; the index vector is overwritten after the trigger
     */
    "target trn2\na tensor float32[10, 6], input\nc tensor float32[10, 6], output\n"
    "t tile sbuf float32[8, 6]\nix tile sbuf int32[8, 1]\ns sem\nq queue dge=swdge\n"
    "section gpsimd\n iota ix, pattern=[[0,1]], offset=2, multiplier=1\n"
    " dma_copy t, a.ap([[6,8],[1,6]]).gather(ix), queue=q $s\n memset ix, 0\n nop $s>=16\n"
    " iota ix, pattern=[[0,1]], offset=1, multiplier=1\n"
    " dma_compute c.ap([[6,8],[1,6]]).gather(ix), op=add, queue=q,"
    " srcs=[c.ap([[6,8],[1,6]]).gather(ix), t] $s\n memset ix, 3\n nop $s>=32\n halt\n",
    /* an element as offset, changed since; an address out of bounds that is left out */
    "target trn2\na tensor float32[1, 8], input\nx tile sbuf int32[1, 1]\nt tile sbuf float32[1, "
    "8]\n"
    "u tile sbuf float32[1, 1]\nq queue dge=swdge\nsection vector\n memset t, 1.0\n memset x, 5\n"
    " tensor_copy u, t[:, (x):+1]\n memset x, 3\n tensor_copy u, t[:, (x):+1]\n memset x, 1\n "
    "halt\n"
    "section gpsimd\n mov r1, 9\n dma_copy t[:, 0:2], a[:, r1:+2], queue=q, oob=skip\n mov r1, 2\n"
    " dma_copy t[:, 0:2], a[:, r1:+2], queue=q, oob=skip\n mov r1, 0\n halt\n",
    /* random numbers, stochastic rounding, a mask, weights of two tiles, match values */
    "target trn3\nt tile sbuf float32[128, 64]\nu tile sbuf bfloat16[128, 64]\n"
    "v tile sbuf uint32[128, 8]\nm tile sbuf float32[128, 8]\ns sem\nsection vector\n"
    " rng v\n tensor_copy u, t, round=stochastic $s++\n"
    " max8 m, t\n match_value_load m\n find_index8 v, t\n rng v\n"
    " tensor_copy u, t, round=stochastic\n find_index8 v, t\n halt\n",
    /* elements by an index: a gather whose index and source are overwritten while it is read, a
     * scatter, single elements, two operands of one index, a start in a register; the write after
     * the gather waits for what the index reaches */
    "target trn3\nx tile sbuf float32[32, 64]\ni tile sbuf uint8[32, 2]\nj tile sbuf uint8[32, 2]\n"
    "k tile sbuf uint8[32, 1]\no tile sbuf float32[32, 20]\nb tile sbuf float32[32, 8]\ns sem\n"
    "section gpsimd\n iota i, pattern=[[16, 2]], multiplier=1\n memset k, 5\n"
    " iota j, pattern=[[32, 2]], multiplier=2\n iota x, pattern=[[3, 64]], multiplier=100 $s++\n"
    " nop $s>=2\n memset i, 9\n memset x, 7.0\n memset x[:, 9:10], 4.0 $s++\n nop $s>=4\n"
    " memset j, 0\n memset k, 0\n halt\n"
    "r sem\nsection vector\n nop $s>=1\n tensor_copy o, x.indirect(i, 20) $s++@read\n nop $r>=1\n"
    " memset x[:, 12:13], 1.0\n nop $s>=3\n"
    " tensor_copy x.indirect(k, 1), o[:, 0:1]\n tensor_copy b[:, 0:1], x.indirect(k, 1)\n"
    " tensor_tensor x.indirect(j, 12), x.indirect(j, 12), o[:, 0:12], op=add\n"
    " mov r1, 4\n tensor_copy b[:, r1:+2], x[:, r1:+2].indirect(j) $s++@read\n mov r1, 0\n halt\n"
    "section sync\n mov r0, 7\n nop $s>=1\n nop\n tensor_store x[0:1, 3:4], r0\n nop $r++\n halt\n",
};

/* Far into a partition each has one way of writing: how far is noted where something writes. Zeros
 * are written too, which only the marks of `uninit` tell from nothing. */
#define FAR_TILE "target trn2\nt tile sbuf float32[100, 8], at=180000\n"
static const char *const far_writes[] = {
    FAR_TILE "section vector\n memset t, 0.0\n drain\n tensor_copy t[:, 0:4], t[:, 4:8]\n"
             " memset t[64:65, 2:3], 1.0\n nop\n halt\n",
    FAR_TILE "section sync\n mov r0, 7\n nop\n tensor_store t[3:4, 6:7], r0\n nop\n"
             " tensor_load r1, t[3:4, 6:7]\n nop\n halt\n",
    FAR_TILE "a tensor float32[100, 8], input\nc tensor float32[100, 8], output\ns sem\n"
             "q queue dge=hwdge\nsection sync\n dma_copy t, a, queue=q $s\n nop $s>=16\n"
             " dma_copy c, t, queue=q $s\n halt\n",
    "target trn2\np tile psum float32[100, 8], at=16000\nsection vector\n memset p, 0.0\n drain\n"
    " tensor_copy p[:, 0:4], p[:, 4:8]\n memset p[64:65, 2:3], 1.0\n nop\n halt\n",
    "target trn2\ns sem core=*\nq queue dge=hwdge, core=*\na tensor float32[100, 8], input\n"
    "c tensor float32[100, 8], output\nt tile sbuf float32[100, 8], at=180000\n"
    "section sync core=0\n dma_copy t.peer, a, queue=q $peer.s\n halt\n"
    "section sync core=1\n nop $s>=16\n dma_copy c, t, queue=q $s\n halt\n",
};

#define GATHER                                                                      \
  "target trn2\na tensor float32[10, 6], input\nc tensor float32[10, 6], output\n"  \
  "t tile sbuf float32[8, 6]\nix tile sbuf int32[8, 1]\ns sem\nq queue dge=swdge\n" \
  "section gpsimd\n iota ix, pattern=[[0,1]], offset=2, multiplier=1\n"             \
  " dma_copy t, a.ap([[6,8],[1,6]]).gather(ix), queue=q $s\n memset ix, 0\n nop $s>=16\n halt\n"

/* The file of a run in the middle of `text`. */
static inline saved midway(const soma_options *o, const char *text) {
  uint32_t n = count_events(o, text) / 2;
  bed b = open_program(o, text);
  start(&b);
  for (uint32_t i = 0; i < n; i++) soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0);
  saved s = save(&b);
  bed_close(&b);
  return s;
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static inline soma_machine *small_machine(void) {
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m;
  o.max_instructions = 2000;
  o.max_time = UINT64_C(100000000000);
  o.max_hbm_bytes = 1 << 22;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_OK);
  return m;
}

/* Resumes what may be damaged, and runs it when it is taken. Gives the status of the resuming. */
static inline soma_status try(soma_machine *m, const uint8_t *data, size_t n) {
  soma_program *p;
  soma_run *r;
  soma_status s = soma_run_resume(m, data, n, &p, &r);
  if ((s == SOMA_OK) != (p != NULL) || (s == SOMA_OK) != (r != NULL)) fail_msg("half a result");
  soma_schedules all;
  if (s == SOMA_OK && soma_run_until(r, SOMA_END, SOMA_SYNC, 0) == SOMA_OK)
    soma_run_schedules(r, &all, sizeof all);
  else if (s != SOMA_OK && !soma_error(m)[0])
    fail_msg("refused without a reason");
  soma_run_free(r);
  soma_program_free(p);
  return s;
}

static uint64_t hash(uint64_t h, const uint8_t *p, size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    uint8_t last[8] = {0};
    if (n - i < 8) memcpy(last, p + i, n - i);
    h = (h ^ isa_get64(n - i < 8 ? last : p + i)) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 29;
  }
  return h;
}

/* Makes the length and the hash right again, as vm/api/save.c has them. */
static inline void repair(uint8_t *p, size_t n) {
  isa_put64(p + 24, n);
  isa_put64(p + AT_HASH,
            hash(hash(UINT64_C(0xcbf29ce484222325), p, AT_HASH), p + HEADER, n - HEADER));
}

/* With a right hash nothing of the saved text that is cut off is taken, and nothing that is changed
 * does harm. */
static inline void must_do_no_harm(const soma_options *o, const char *text, unsigned *refused,
                                   unsigned *taken) {
  soma_machine *m = small_machine();
  saved s = midway(o, text);
  uint8_t *p = malloc(s.n);
  memcpy(p, s.data, s.n);
  for (size_t n = HEADER; n < s.n; n += s.n / full_or(40, 10) + 1) {
    repair(p, n);
    assert_int_equal(try(m, p, n), SOMA_FORMAT);
  }
  for (size_t i = 0; i < 400;
       i += full_or(1, 3)) { /* all over, and near the end, where the bytes mean most */
    size_t at = i < 200 ? HEADER + i * ((s.n - HEADER) / 200) : s.n - 1 - (i - 200) * 101 % s.n;
    p[at] ^= (uint8_t)(1 << at % 8);
    repair(p, s.n);
    *(try(m, p, s.n) == SOMA_OK ? taken : refused) += 1;
    p[at] ^= (uint8_t)(1 << at % 8);
  }
  free(p);
  soma_bytes_free(s.data);
  soma_machine_free(m);
}

/* ---- Allocations ----------------------------------------------------------------------------- */

/* Resumes and saves again with each allocation failing once. */
static inline void survive_allocations(const soma_options *options, const char *text) {
  saved s = midway(options, text);
  soma_status status = SOMA_NOMEM;
  for (long fail_at = 0; fail_at < 3000 && status != SOMA_OK; fail_at += full_or(1, 4)) {
    struct countdown c = {fail_at, 0};
    soma_options o = SOMA_OPTIONS_INIT;
    soma_machine *m = NULL;
    soma_program *p = NULL;
    soma_run *r = NULL;
    o.alloc = counting;
    o.alloc_ud = &c;
    status = soma_machine_new(&o, &m);
    if (status == SOMA_OK) status = soma_run_resume(m, s.data, s.n, &p, &r);
    saved again = {0};
    if (status == SOMA_OK) status = soma_run_save(r, &again.data, &again.n);
    if (status != SOMA_OK && status != SOMA_NOMEM)
      fail_msg("allocation %ld failing gives: %s", fail_at, soma_status_text(status));
    soma_bytes_free(again.data);
    soma_run_free(r);
    soma_program_free(p);
    soma_machine_free(m);
    if (c.alive) fail_msg("allocation %ld failing leaves %ld bytes", fail_at, c.alive);
  }
  assert_int_equal(status, SOMA_OK);
  soma_bytes_free(s.data);
}

#endif
