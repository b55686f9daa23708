/* Writes the viewer's page of a run, for the browser tests.
 * Usage: page PROGRAM.s OUT.html [name=value ...]   inputs are zeros */
#include "../../vm/soma.h"

#include <stdio.h>
#include <stdlib.h>

static int put(void *ud, const char *p, size_t n) { return fwrite(p, 1, n, ud) != n; }

static soma_status bind_zeros(soma_machine *m, soma_program *p) {
  soma_tensor_info t;
  soma_status s = SOMA_OK;
  for (uint32_t i = 0; s == SOMA_OK && soma_program_tensor(p, i, &t) == SOMA_OK; i++)
    if (t.role == SOMA_INPUT)
      s = soma_bind(m, p, t.name, t.dtype, t.ndim, t.shape, calloc(1, (size_t)t.bytes));
  return s;
}

int main(int argc, char **argv) {
  soma_recorder *rec;
  soma_machine *m;
  soma_program *p;
  soma_run *r;
  soma_stats stats;
  soma_options o = SOMA_OPTIONS_INIT;
  soma_assemble_options ao = {sizeof ao, NULL, 0, (const char *const *)(argv + 3), 0};
  if (argc < 3 || soma_recorder_new(NULL, &rec) != SOMA_OK) return 2;
  ao.ndefines = (uint32_t)(argc - 3);
  o.event = soma_recorder_event;
  o.event_ud = rec;
  if (soma_machine_new(&o, &m) != SOMA_OK) return 2;
  FILE *f = fopen(argv[2], "w");
  if (!f || soma_assemble_file(m, argv[1], &ao, &p, NULL) != SOMA_OK ||
      bind_zeros(m, p) != SOMA_OK || soma_run_start(m, p, &r) != SOMA_OK ||
      soma_run_until(r, SOMA_END, SOMA_SYNC, 0) != SOMA_OK) {
    fprintf(stderr, "%s\n", soma_error(m));
    return 1;
  }
  soma_run_stats(r, &stats, sizeof stats);
  soma_recorder_stats(rec, &stats, sizeof stats);
  if (soma_write_html(rec, p, "a run", put, f) != SOMA_OK || fclose(f) != 0) return 1;
  printf("%llu\n", (unsigned long long)soma_recorder_count(rec));
  return 0;
}
