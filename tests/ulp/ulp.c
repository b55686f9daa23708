/* make ulp: the worst error of each activation function against MPFR, as a markdown table.
 *
 *   ulp [points] [function]
 *
 * points (default 2^24) bit patterns, evenly spread over the valid range of each function, hence
 * about as many in each power of two, half of them where most functions bend. The default takes
 * about 20 minutes, 2^18 points about as many seconds. */
#include "exact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct worst {
  double ulps;
  float x, y;
} worst;

static void try_point(exact *e, unsigned fn, float x, worst *w) {
  float y = vm_actfn_f32(fn, x, 0.25f);
  exact_eval(e, fn, x, 0.25f);
  double d = exact_ulps(e, y);
  if (d > w->ulps) *w = (worst){d, x, y};
}

/* n magnitudes from lo to hi by their bits, and their negatives where the range has them. */
static void sweep(exact *e, unsigned fn, float lo, float hi, bool negative, uint32_t n, worst *w) {
  uint32_t first = isa_f32_bits(lo);
  uint64_t span = isa_f32_bits(hi) - first;
  for (uint32_t i = 0; i <= n; i++) {
    float x = isa_bits_f32(first + (uint32_t)(span * i / n));
    try_point(e, fn, x, w);
    if (negative) try_point(e, fn, -x, w);
  }
}

static worst measure(exact *e, unsigned fn, uint32_t points) {
  const isa_actfn_row *row = &isa_actfns[fn];
  const float largest = 0x1.fffffep+127f;
  bool negative = row->lo < 0 || fn == ISA_FN_reciprocal;
  float lo = row->lo > 0 ? row->lo : 0, hi = row->hi < largest ? row->hi : largest;
  float mid_lo = lo > 0x1p-12f ? lo : 0x1p-12f, mid_hi = hi < 128 ? hi : 128;
  uint32_t n = negative ? points / 4 : points / 2;
  worst w = {-1, 0, 0};
  sweep(e, fn, lo, hi, negative, n, &w);
  sweep(e, fn, mid_lo, mid_hi, negative, n, &w);
  return w;
}

int main(int argc, char **argv) {
  char *end = NULL;
  unsigned long points = argc > 1 ? strtoul(argv[1], &end, 0) : 1ul << 24;
  if (points < 4 || points > 1ul << 30 || (end && *end)) {
    fprintf(stderr, "usage: ulp [points (4 to 2^30)] [function]\n");
    return 2;
  }
  exact e;
  exact_init(&e);
  printf("| function | worst ulp | at x | result |\n|---|---|---|---|\n");
  int found = 0;
  for (unsigned fn = 0; fn < ISA_NACTFNS; fn++) {
    const char *name = isa_actfns[fn].name;
    if (argc > 2 && strcmp(argv[2], name) != 0) continue;
    worst w = measure(&e, fn, (uint32_t)points);
    printf("| %s | %.4f | %a | %a |\n", name, w.ulps, (double)w.x, (double)w.y);
    fflush(stdout);
    found = 1;
  }
  exact_free(&e);
  if (!found) fprintf(stderr, "ulp: no function named %s\n", argv[2]);
  return !found;
}
