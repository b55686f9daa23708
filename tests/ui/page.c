/* Writes the viewer's page of a run, for the browser tests.
 * Usage: page FLAGS PROGRAM.s OUT.html [name=value ...]   inputs are zeros
 * FLAGS are letters: c with causes, k with checks, t timing only, l the last 1000 events, r without
 * the run and the source, e prints the explanation of the time, - none. Prints the number of
 * events. The run may fault. */
#include "../../vm/api/soma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int put(void *ud, const char *p, size_t n) { return fwrite(p, 1, n, ud) != n; }

/* *zeros is what all inputs are bound to until the run has started; the caller frees it. */
static soma_status bind_zeros(soma_machine *m, soma_program *p, void **zeros) {
  soma_tensor_info t;
  soma_status s = SOMA_OK;
  uint64_t most = 1;
  for (uint32_t i = 0; soma_program_tensor(p, i, &t) == SOMA_OK; i++)
    if (t.role == SOMA_INPUT && t.bytes > most) most = t.bytes;
  *zeros = calloc(1, (size_t)most);
  if (!*zeros) return SOMA_NOMEM;
  for (uint32_t i = 0; s == SOMA_OK && soma_program_tensor(p, i, &t) == SOMA_OK; i++)
    if (t.role == SOMA_INPUT) s = soma_bind(m, p, t.name, t.dtype, t.ndim, t.shape, *zeros);
  return s;
}

/* One file's text at a time. */
static const char *source(void *ud, const char *name, size_t *n) {
  static char text[1 << 20];
  FILE *f = fopen(name, "r");
  (void)ud;
  if (!f) return NULL;
  *n = fread(text, 1, sizeof text, f);
  fclose(f);
  return text;
}

static soma_status write_page(soma_recorder *rec, soma_program *p, soma_run *r, const char *file) {
  soma_page_options o = {sizeof o, "a run", source, NULL};
  soma_stats stats;
  FILE *f = fopen(file, "w");
  if (!f) return SOMA_IO;
  if (r) {
    soma_run_stats(r, &stats, sizeof stats);
    soma_recorder_stats(rec, &stats, sizeof stats);
  }
  soma_status s =
      r ? soma_write_page(rec, p, r, &o, put, f) : soma_write_html(rec, p, r, "a run", put, f);
  return fclose(f) == 0 ? s : SOMA_IO;
}

int main(int argc, char **argv) {
  soma_recorder_options ro = SOMA_RECORDER_OPTIONS_INIT;
  soma_options o = SOMA_OPTIONS_INIT;
  soma_recorder *rec;
  soma_machine *m;
  soma_program *p;
  soma_run *r;
  void *zeros = NULL;
  if (argc < 4) return 2;
  const char *flags = argv[1];
  soma_assemble_options ao = {.size = sizeof ao,
                              .defines = (const char *const *)(argv + 4),
                              .ndefines = (uint32_t)(argc - 4)};
  ro.max_events = strchr(flags, 'l') ? 1000 : 0;
  ro.keep_last = 1;
  if (soma_recorder_new(&ro, &rec) != SOMA_OK) return 2;
  o.event = soma_recorder_event;
  o.event_ud = rec;
  o.causes = strchr(flags, 'c') != NULL;
  o.checks = strchr(flags, 'k') ? SOMA_CHECK_ALL : 0;
  o.timing_only = strchr(flags, 't') != NULL;
  if (soma_machine_new(&o, &m) != SOMA_OK) return 2;
  if (soma_assemble_file(m, argv[2], &ao, &p, NULL) != SOMA_OK ||
      bind_zeros(m, p, &zeros) != SOMA_OK || soma_run_start(m, p, &r) != SOMA_OK) {
    fprintf(stderr, "%s\n", soma_error(m));
    return 1;
  }
  soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
  if (write_page(rec, p, strchr(flags, 'r') ? NULL : r, argv[3]) != SOMA_OK) return 1;
  if (strchr(flags, 'e') && soma_write_explanation(r, NULL, put, stdout) != SOMA_OK) return 1;
  printf("%llu\n", (unsigned long long)soma_recorder_count(rec));
  free(zeros);
  soma_run_free(r);
  soma_program_free(p);
  soma_machine_free(m);
  soma_recorder_free(rec);
  return 0;
}
