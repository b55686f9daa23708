/* The rules of the vector, scalar and tensor instructions: a line of assembly for each documented
 * constraint with the exact refusal, and one for each that is at the edge of what is allowed. */
#include "vm_bed.h"

/* Tiles that the lines use; sbuf holds them all on every target. */
static const char tiles[] =
    "a tile sbuf float32[128, 64]\nb tile sbuf float32[128, 64]\nc tile sbuf float32[128, 64]\n"
    "h tile sbuf bfloat16[128, 64]\ng tile sbuf bfloat16[128, 64]\ni tile sbuf int32[128, 64]\n"
    "t tile sbuf tfloat32[128, 64]\ns tile sbuf int16[128, 64]\nu tile sbuf uint8[128, 64]\n"
    "u16 tile sbuf uint16[128, 64]\nu32 tile sbuf uint32[128, 64]\nn tile sbuf float32[64, 64]\n"
    "v tile sbuf float32[128, 1]\nw tile sbuf float32[128, 1]\nvh tile sbuf bfloat16[128, 1]\n"
    "vn tile sbuf float32[64, 1]\ne tile sbuf float32[128, 8]\nf tile sbuf uint16[128, 8]\n"
    "f6 tile sbuf float32[128, 6]\nf2 tile sbuf float32[128, 2]\nd tile sbuf float32[128, 513]\n"
    "d3 tile sbuf float32[128, 4, 4, 4]\nbig tile sbuf uint8[128, 16385]\n"
    "big4 tile sbuf uint8[128, 16384]\ne3 tile sbuf float32[128, 2, 2, 2]\n"
    "q8 tile sbuf float8_e4m3[128, 2, 64]\nq3 tile sbuf float8_e3m4[128, 2, 64]\n"
    "q1 tile sbuf float8_e5m2[128, 128]\nqm tile sbuf float8_e5m2[128, 2, 64]\n"
    "w8 tile sbuf float8_e4m3[64, 2, 64]\nh64 tile sbuf bfloat16[64, 64]\n"
    "h32 tile sbuf bfloat16[32, 32]\nfn8 tile sbuf float8_e4m3fn[128, 64]\n"
    "p tile psum float32[128, 64]\np2 tile psum float32[128, 64]\npu tile psum uint8[128, 64]\n"
    "ph tile psum bfloat16[64, 64]\nps tile psum float32[64, 64]\np32 tile psum float32[32, 64]\n";

/* What a line of that target gives: all diagnostics of its line as "col: error: text". */
static void diagnose(const char *target, const char *engine, const char *line, char *out,
                     size_t size) {
  char text[4000];
  soma_machine *m;
  soma_program *p = NULL;
  soma_diagnostics *d = NULL;
  snprintf(text, sizeof text, "target %s\n%ssection %s\n %s\n halt\n", target, tiles, engine, line);
  assert_int_equal(soma_machine_new(NULL, &m), SOMA_OK);
  soma_assemble(m, text, strlen(text), "t", NULL, &p, &d);
  out[0] = 0;
  for (const char *at = soma_diagnostics_text(d); at && (at = strstr(at, ": error: ")); at += 9) {
    const char *col = at, *end = strchr(at, '\n');
    while (col[-1] != ':') col--;
    size_t n = strlen(out);
    snprintf(out + n, size - n, "%.*s", (int)(end - col), col);
  }
  soma_diagnostics_free(d);
  soma_program_free(p);
  soma_machine_free(m);
}

/* A `!` in the line stands before the operand that is refused, and is not part of the text. */
static unsigned unmark(const char *line, char *out) {
  const char *mark = strchr(line, '!');
  if (mark && mark[1] == '=') mark = NULL;
  size_t n = mark ? (size_t)(mark - line) : strlen(line);
  memcpy(out, line, n);
  strcpy(out + n, mark ? mark + 1 : "");
  return mark ? (unsigned)n + 2 : 0; /* diagnose puts a blank in front; columns count from 1 */
}

typedef struct refusal {
  const char *target, *engine, *line, *text;
} refusal;
typedef struct accepted {
  const char *target, *engine, *line;
} accepted;

static const refusal refusals[] = {
#define BAD(target, engine, line, text) {#target, #engine, line, text},
#define OK(target, engine, line)
#include "rules_vector_cases.def"
#undef BAD
#undef OK
};
static const accepted accepts[] = {
#define BAD(target, engine, line, text)
#define OK(target, engine, line) {#target, #engine, line},
#include "rules_vector_cases.def"
#undef BAD
#undef OK
};

static void test_refused(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const refusal *r = &refusals[i];
    char line[400], got[600], want[600];
    unsigned col = unmark(r->line, line);
    diagnose(r->target, r->engine, line, got, sizeof got);
    const char *text = strstr(got, ": error: ");
    if (col) {
      snprintf(want, sizeof want, "%u: error: %s", col, r->text);
      if (strcmp(got, want) == 0) continue;
    } else if (text && strcmp(text + 9, r->text) == 0) {
      continue;
    }
    print_error("%s: %s\n  got  %s\n  want %u: error: %s\n", r->target, line, got, col, r->text);
    wrong++;
  }
  assert_int_equal(wrong, 0);
}

static void test_accepted(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof accepts / sizeof *accepts; i++) {
    char got[600];
    diagnose(accepts[i].target, accepts[i].engine, accepts[i].line, got, sizeof got);
    if (!got[0]) continue;
    print_error("%s: %s\n  got %s\n", accepts[i].target, accepts[i].line, got);
    wrong++;
  }
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_accepted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
