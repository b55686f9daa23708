/* A world of two processes, of which the test is one, when the way to the other one breaks. The
 * other one agrees with all that is said, and sends nothing. */
#include "../../vm/api/soma_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct way {
  unsigned calls, fails; /* fails: at that call, from 1 on; 0: at none */
} way;

static bool works(void *ud) {
  way *w = ud;
  return ++w->calls != w->fails;
}

static int share(void *ud, const void *mine, uint32_t bytes, void *all) {
  memcpy(all, mine, bytes);
  memcpy((char *)all + bytes, mine, bytes);
  return works(ud);
}

static int exchange(void *ud, const void *const *out, const uint64_t *n, const void **in,
                    uint64_t *from) {
  (void)n;
  *in = out;
  from[0] = from[1] = 0;
  return works(ud);
}

/* A byte of SBUF of a rank, which stayed in the process that moved the rank. */
static soma_status look(soma_world *w, uint32_t rank, char *text) {
  uint8_t byte = 1;
  soma_machine *m = soma_world_machine(w, rank);
  soma_status s = soma_memory_read(m, SOMA_SBUF, 0, 0, &byte, 1);
  snprintf(text, 256, "%s", s == SOMA_OK ? "" : soma_error(m));
  assert_true(s != SOMA_OK || byte == 0);
  return s;
}

/* Four ranks on two stacks, with nothing to tell one another; text: room for 256 bytes. */
static soma_status run(way *to, char *text) {
  static const char source[] = "target trn2\nsection gpsimd\n nop\n halt\n";
  const soma_transport t = {.size = 2, .ud = to, .share = share, .exchange = exchange};
  const soma_world_options o = {.size = sizeof o, .ranks = 4, .threads = 1, .transport = &t};
  soma_world *w;
  soma_program *p;
  assert_int_equal(soma_world_new(&o, &w), SOMA_OK);
  assert_int_equal(
      soma_assemble(soma_world_machine(w, 0), source, strlen(source), "t.s", NULL, &p, NULL),
      SOMA_OK);
  for (uint32_t r = 0; r < 4; r++) assert_int_equal(soma_world_load(w, r, p), SOMA_OK);
  assert_int_equal(soma_world_start(w), SOMA_OK);
  soma_status s = soma_world_until(w, SOMA_TIME_END);
  snprintf(text, 256, "%s", s == SOMA_OK ? "" : soma_world_error(w));
  if (s == SOMA_OK) s = look(w, 0, text);
  if (s == SOMA_OK) s = look(w, 3, text);
  soma_program_free(p);
  soma_world_free(w);
  return s;
}

static void test_lost(void **state) {
  way all = {0};
  char text[256];
  (void)state;
  assert_int_equal(run(&all, text), SOMA_OK);
  assert_true(all.calls > 7);
  for (unsigned i = 1; i <= all.calls; i++) {
    way to = {.fails = i};
    assert_int_equal(run(&to, text), SOMA_FAULT);
    assert_string_equal(text, "another process of the world is lost");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lost)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
