/* A main for a harness where there is no libFuzzer: replays files, then runs inputs that it makes
 * itself from them. The same seed gives the same inputs.
 *
 *   fuzz_X [-n COUNT] [-s SEED] [-i FIRST] [-d DICTIONARY] [-k KEEP] [FILE...]
 *
 * -i starts with that input of the series, -n 1 -i 77 runs one alone. When an input crashes, breaks
 * a law, computes for 30 s or waits for 300, it is written to KEEP (default fuzz-kept). Ends with
 * the statistics of the harness and `N passed, N failed`. Inputs are those of one process; nothing
 * is a thread. */
#include "fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST = 1 << 16, MOST_FRESH = 3000, MOST_FILES = 4096 };
enum { COMPUTE_SECONDS = 30, WAIT_SECONDS = 300 }; /* on a busy host thirty seconds may be five */

typedef struct text {
  uint8_t *p;
  size_t n;
} text;

static text files[MOST_FILES], words[MOST_FILES];
static uint32_t nfiles, nwords;
static uint8_t input[MOST]; /* the one that runs: the handler saves it */
static size_t input_n;
static uint64_t input_number;
static const char *keep = "fuzz-kept";

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void) { return "abort_on_error=1:allocator_may_return_null=1"; }
const char *__ubsan_default_options(void) { return "abort_on_error=1:print_stacktrace=1"; }

/* ---- When it goes wrong ------------------------------------------------------------------- */

static void say(const char *s) {
  if (write(2, s, strlen(s)) < 0) return;
}

static void on_signal(int sig) {
  char digits[24];
  unsigned at = sizeof digits - 1;
  uint64_t v = input_number;
  digits[at] = 0;
  do digits[--at] = (char)('0' + v % 10);
  while (v /= 10);
  say(sig == SIGALRM || sig == SIGPROF ? "hang at input " : "crash at input ");
  say(digits + at);
  int fd = open(keep, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0 && write(fd, input, input_n) == (ssize_t)input_n) {
    say(", kept as ");
    say(keep);
  }
  say("\n0 passed, 1 failed\n");
  _exit(1);
}

static void run(void) {
  struct itimerval limit = {.it_value.tv_sec = COMPUTE_SECONDS}, none = {.it_value.tv_sec = 0};
  alarm(WAIT_SECONDS);
  setitimer(ITIMER_PROF, &limit, NULL);
  LLVMFuzzerTestOneInput(input, input_n);
  setitimer(ITIMER_PROF, &none, NULL);
  alarm(0);
}

/* ---- Files -------------------------------------------------------------------------------- */

static void *need(void *p) {
  if (p) return p;
  say("out of memory\n");
  exit(2);
}

static text read_file(const char *path) {
  text t = {need(malloc(MOST)), 0};
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    exit(2);
  }
  t.n = fread(t.p, 1, MOST, f);
  fclose(f);
  return t;
}

/* The dictionary of libFuzzer and AFL: "word" a line, # comments; no escapes but \" and \\. */
static void read_words(const char *path) {
  text t = read_file(path);
  for (size_t i = 0; i < t.n && nwords < MOST_FILES; i++) {
    size_t end = i;
    while (end < t.n && t.p[end] != '\n') end++;
    if (t.p[i] == '"') {
      text w = {need(malloc(end - i + 1)), 0};
      for (size_t k = i + 1; k < end && t.p[k] != '"'; k++) {
        if (t.p[k] == '\\' && k + 1 < end) k++;
        w.p[w.n++] = t.p[k];
      }
      words[nwords++] = w;
    }
    i = end;
  }
  free(t.p);
}

/* ---- Changes ------------------------------------------------------------------------------ */

/* Replaces cut bytes at `at` by n others; what does not fit is dropped. */
static void splice(size_t at, size_t cut, const uint8_t *p, size_t n) {
  static uint8_t copy[MOST];
  if (at > input_n) at = input_n;
  if (cut > input_n - at) cut = input_n - at;
  if (n > MOST - (input_n - cut)) n = MOST - (input_n - cut);
  memcpy(copy, p, n);
  memmove(input + at + n, input + at + cut, input_n - at - cut);
  memcpy(input + at, copy, n);
  input_n += n - cut;
}

static size_t place(uint64_t *s) { return fuzz_below(s, (uint32_t)input_n + 1); }

static text line_at(const text *t, size_t at) {
  size_t from = at < t->n ? at : t->n, to = from;
  while (from > 0 && t->p[from - 1] != '\n') from--;
  while (to < t->n && t->p[to] != '\n') to++;
  return (text){t->p + from, to - from + (to < t->n)};
}

static int wordy(uint8_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* One word for another: of the dictionary, or a number. */
static void change_word(uint64_t *s) {
  static const char *const numbers[] = {"0",
                                        "1",
                                        "-1",
                                        "2",
                                        "127",
                                        "128",
                                        "129",
                                        "255",
                                        "65536",
                                        "2147483648",
                                        "0x7fffffffffffffff",
                                        "1e39",
                                        "r1",
                                        "[:]"};
  size_t from = place(s), to;
  while (from > 0 && wordy(input[from - 1])) from--;
  for (to = from; to < input_n && wordy(input[to]);) to++;
  const char *number = numbers[fuzz_below(s, sizeof numbers / sizeof *numbers)];
  text w = {(uint8_t *)(uintptr_t)number, strlen(number)};
  if (nwords && fuzz_below(s, 3)) w = words[fuzz_below(s, nwords)];
  splice(from, to - from, w.p, w.n);
}

static void change_text(uint64_t *s) {
  text self = {input, input_n}, l;
  switch (fuzz_below(s, 8)) {
  case 0: /* a line goes */
    l = line_at(&self, place(s));
    splice((size_t)(l.p - input), l.n, l.p, 0);
    break;
  case 1: /* a line twice, or elsewhere */
    l = line_at(&self, place(s));
    splice((size_t)(line_at(&self, place(s)).p - input), 0, l.p, l.n);
    break;
  case 2: /* a line of another file */
    if (!nfiles) break;
    self = files[fuzz_below(s, nfiles)];
    l = line_at(&self, fuzz_below(s, (uint32_t)self.n + 1));
    self = (text){input, input_n};
    splice((size_t)(line_at(&self, place(s)).p - input), 0, l.p, l.n);
    break;
  case 3: /* a byte */
    if (input_n) input[place(s) % input_n] = (uint8_t)(32 + fuzz_below(s, 95));
    break;
  case 4:
    if (nwords) {
      l = words[fuzz_below(s, nwords)];
      splice(place(s), 0, l.p, l.n);
    }
    break;
  default: change_word(s);
  }
}

static void change_bytes(uint64_t *s) {
  static const uint8_t edges[] = {0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 63, 64, 127, 128, 255};
  if (!input_n) return;
  size_t at = place(s) % input_n, n = fuzz_below(s, 64);
  switch (fuzz_below(s, 16)) {
  case 0: splice(at, n, input, 0); break;
  case 1: splice(at, 0, input + place(s) % input_n / 2, n < input_n / 2 ? n : 0); break;
  case 2: input[at] = (uint8_t)(input[at] + 1 + fuzz_below(s, 2) * 254); break;
  case 3: input[at] = (uint8_t)fuzz_next(s); break;
  case 4:
  case 5:
  case 6:
  case 7: input[at] = edges[fuzz_below(s, sizeof edges)]; break;
  default: input[at] = (uint8_t)(input[at] ^ 1u << fuzz_below(s, 8));
  }
}

static void make(uint64_t *s) {
  input_n = 0;
  if (fuzz_kind == FUZZ_CHOICES ? fuzz_below(s, 8) > 0 || !nfiles : !nfiles) {
    input_n = 1 + fuzz_below(s, MOST_FRESH);
    for (size_t i = 0; i < input_n; i++) input[i] = (uint8_t)(fuzz_next(s) >> 40);
    return;
  }
  const text *from = &files[fuzz_below(s, nfiles)];
  memcpy(input, from->p, from->n);
  input_n = from->n;
  for (uint32_t i = 1 + fuzz_below(s, 1 + fuzz_below(s, 6)); i > 0; i--)
    (fuzz_kind == FUZZ_TEXT ? change_text : change_bytes)(s);
}

/* ---- The whole ---------------------------------------------------------------------------- */

static int finish(uint64_t count) {
  const fuzz_stat *all = fuzz_stats;
  int poor = 0;
  for (const fuzz_stat *t = fuzz_stats; t->name; t++) {
    double percent = all->n ? 100.0 * (double)t->n / (double)all->n : 0;
    printf("%12llu %5.1f %%  %s\n", (unsigned long long)t->n, percent, t->name);
    if (count >= 100 && percent < t->least) {
      printf("too few: at least %u %% should get there\n", t->least);
      poor++;
    }
  }
  fuzz_report();
  printf("%llu passed, %d failed\n", (unsigned long long)all->n, poor);
  return poor ? 1 : 0;
}

int main(int argc, char **argv) {
  uint64_t count = 0, seed = 1, first = 0;
  const char *dictionary = NULL;
  int c;
  while ((c = getopt(argc, argv, "n:s:i:d:k:")) != -1) {
    switch (c) {
    case 'n': count = strtoull(optarg, NULL, 10); break;
    case 's': seed = strtoull(optarg, NULL, 10); break;
    case 'i': first = strtoull(optarg, NULL, 10); break;
    case 'd': dictionary = optarg; break;
    case 'k': keep = optarg; break;
    default: return 2;
    }
  }
  if (dictionary) read_words(dictionary);
  for (; optind < argc && nfiles < MOST_FILES; optind++) files[nfiles++] = read_file(argv[optind]);
  signal(SIGABRT, on_signal);
  signal(SIGALRM, on_signal);
  signal(SIGPROF, on_signal);
  for (uint32_t i = 0; i < nfiles; i++) {
    memcpy(input, files[i].p, files[i].n);
    input_n = files[i].n;
    input_number = i;
    run();
  }
  for (uint64_t i = first; i < first + count; i++) {
    uint64_t s = (seed * UINT64_C(0x9e3779b97f4a7c15) + i) * UINT64_C(0xbf58476d1ce4e5b9) | 1;
    for (int warm = 0; warm < 4; warm++) fuzz_next(&s);
    input_number = i;
    make(&s);
    run();
  }
  return finish(count);
}
