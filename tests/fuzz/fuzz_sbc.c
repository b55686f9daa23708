/* The bytes of a program file, as they are and with the hash repaired. What is read is written as
 * the same bytes; what passes the verifier runs, with its inputs zero, to an end or a limit. */
#include "../../isa/lint/lint.h"
#include "../../vm/api/soma.h"
#include "../../vm/api/soma_world.h"
#include "fuzz.h"

#include <string.h>

const enum fuzz_kind fuzz_kind = FUZZ_BYTES;
fuzz_stat fuzz_stats[] = {{"inputs", 0, 0}, {"read", 3, 0},         {"passed the verifier", 1, 0},
                          {"ran", 1, 0},    {"of two cores", 0, 0}, {"in a world", 0, 0},
                          {NULL, 0, 0}};
enum { INPUTS, READ, VERIFIED, RAN, PAIRED, WORLDS };
void fuzz_report(void) {}

enum { HASH = 8, HASHED = 16, HEADER = 48, MOST_TENSOR = 1 << 20 };

/* The static checks of a program that has passed the verifier, and that its findings are texts. */
static void look_into(const isa_program *p) {
  isa_alloc al = isa_alloc_default();
  isa_error e;
  isa_findings *f = calloc(1, sizeof *f);
  if (!f) return;
  isa_status s = isa_lint(p, 2000, &al, f, &e);
  if (s != ISA_OK && s != ISA_NOMEM) fuzz_fail("verified, but lint says: %s", e.text);
  for (uint32_t i = 0; i < f->n; i++)
    if (!f->v[i].text[0]) fuzz_fail("a finding without a text");
  isa_findings_free(f);
  free(f);
}

/* A law of the codec: the file has one form. And everything that prints must cope. */
static int read_and_write(const uint8_t *data, size_t n) {
  isa_alloc al = isa_alloc_default();
  isa_error e = {0};
  isa_place at;
  isa_buf b;
  isa_program *p = isa_image_read(&al, data, n, &e);
  if (!p) {
    if (e.status != ISA_FORMAT && e.status != ISA_NOMEM)
      fuzz_fail("refused with status %d", e.status);
    if (!e.text[0]) fuzz_fail("refused without a reason");
    return 0;
  }
  fuzz_stats[READ].n++;
  isa_buf_init(&b, &al);
  if (!isa_image_write(p, &b)) fuzz_fail("a program cannot be written");
  /* A section that is unknown and optional is dropped. */
  if (b.len == n && memcmp(b.data, data, n) != 0) fuzz_fail("read and written: other bytes");
  if (b.len > n) fuzz_fail("read and written: %zu bytes, not %zu", b.len, n);
  b.len = 0;
  isa_print_program(p, ISA_TEXT_NAMED, &b);
  int ok = isa_check_program(p, &at, &e);
  if (!ok && !e.text[0]) fuzz_fail("the verifier refuses without a reason");
  fuzz_stats[VERIFIED].n += (unsigned)ok;
  if (ok) look_into(p);
  isa_buf_free(&b);
  isa_program_free(p);
  return ok;
}

static int bind_inputs(soma_machine *m, soma_program *p) {
  static uint8_t zeros[MOST_TENSOR];
  for (uint32_t i = 0; i < soma_program_tensors(p); i++) {
    soma_tensor_info t;
    soma_program_tensor(p, i, &t);
    if (t.role != SOMA_INPUT) continue;
    if (t.bytes > sizeof zeros) return 0;
    if (soma_bind(m, p, t.name, t.dtype, t.ndim, t.shape, zeros) != SOMA_OK &&
        soma_bind(m, p, t.name, t.dtype, t.ndim, t.shape, zeros) != SOMA_ARG)
      fuzz_fail("bind: %s", soma_error(m));
  }
  return 1;
}

static void run_to_end(soma_machine *m, soma_run *r) {
  soma_fault fault;
  soma_stats stats;
  soma_status s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
  if (!soma_run_ended(r)) fuzz_fail("it came back before the end, with status %d", (int)s);
  soma_run_fault(r, &fault);
  soma_run_stats(r, &stats, sizeof stats);
  if (fault.status != s) fuzz_fail("status %d, but the fault says %d", (int)s, (int)fault.status);
  if (s != SOMA_OK && (!fault.text[0] || !soma_error(m)[0])) fuzz_fail("a fault without a text");
  if (s != SOMA_OK && s != SOMA_FAULT && s != SOMA_DEADLOCK && s != SOMA_LIMIT && s != SOMA_NOMEM)
    fuzz_fail("ended with status %d: %s", (int)s, fault.text);
}

/* Two ranks run it, or the world says why not. */
static void run_ranks(const soma_options *o, soma_program *p) {
  soma_world_options wo = {
      .size = sizeof wo, .ranks = 2, .lnc = soma_program_cores(p), .threads = 1};
  soma_world *w = NULL;
  soma_options machine = *o;
  machine.target = soma_program_target(p);
  wo.machine = &machine;
  if (soma_world_new(&wo, &w) != SOMA_OK) fuzz_fail("no world");
  int ok = 1;
  for (uint32_t r = 0; r < 2 && ok; r++)
    ok = soma_world_load(w, r, p) == SOMA_OK && bind_inputs(soma_world_machine(w, r), p);
  if (ok && soma_world_start(w) == SOMA_OK) {
    fuzz_stats[WORLDS].n++;
    soma_status s = soma_world_until(w, SOMA_TIME_END);
    if (s != SOMA_OK && !soma_world_error(w)[0]) fuzz_fail("a world fails without a text");
  } else if (ok && !soma_world_error(w)[0]) {
    fuzz_fail("a world is refused without a text");
  }
  soma_world_free(w);
}

static void run(const uint8_t *data, size_t n) {
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m = NULL;
  soma_program *p = NULL;
  soma_run *r = NULL;
  o.max_instructions = 2000;
  o.max_time = UINT64_C(1000000000000); /* 1 ms */
  o.max_hbm_bytes = 64 << 20;
  if (soma_machine_new(&o, &m) != SOMA_OK) fuzz_fail("no machine");
  if (soma_program_load(m, data, n, &p) != SOMA_OK) fuzz_fail("not loaded: %s", soma_error(m));
  if (bind_inputs(m, p)) {
    soma_status s = soma_run_start(m, p, &r);
    if (s == SOMA_OK) {
      fuzz_stats[RAN].n++;
      fuzz_stats[PAIRED].n += soma_program_cores(p) > 1;
      run_to_end(m, r);
    } else if (strstr(soma_error(m), "a rank alone") || strstr(soma_error(m), "of a world")) {
      run_ranks(&o, p);
    } else if (s != SOMA_LIMIT && s != SOMA_NOMEM && s != SOMA_ARG && s != SOMA_UNBUILT) {
      fuzz_fail("verified, but not started: %s", soma_error(m));
    }
  }
  soma_run_free(r);
  soma_program_free(p);
  soma_machine_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_stats[INPUTS].n++;
  if (read_and_write(data, n)) run(data, n);
  if (n < HEADER) return 0;
  uint8_t *repaired = malloc(n);
  if (!repaired) return 0;
  memcpy(repaired, data, n);
  uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, as isa/image.h says */
  for (size_t i = HASHED; i < n; i++) hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
  for (unsigned i = 0; i < 8; i++) repaired[HASH + i] = (uint8_t)(hash >> 8 * i);
  if (memcmp(repaired, data, n) != 0 && read_and_write(repaired, n)) run(repaired, n);
  free(repaired);
  return 0;
}
