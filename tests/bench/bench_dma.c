/* Host time of DMA transfers inside a run, against plain C on the same number of bytes. Prints,
 * asserts nothing. */
#include "../../vm/api/soma.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEW = 4, MANY = 36, REPEAT = 7, BYTES = 4 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *t) {
  qsort(t, REPEAT, sizeof *t, ascending);
  return t[REPEAT / 2];
}

static void check(soma_machine *m, soma_status s, const soma_diagnostics *d) {
  if (s == SOMA_OK) return;
  fprintf(stderr, "%s\n%s\n", soma_error(m), d ? soma_diagnostics_text(d) : "");
  exit(1);
}

/* Host seconds of a run of n transfers. */
static double run(const char *names, const char *transfer, int n) {
  char text[1000];
  soma_machine *m;
  soma_program *p;
  soma_run *r;
  soma_diagnostics *d = NULL;
  soma_stats s;
  snprintf(text, sizeof text,
           "target trn2\n%ss sem\nqs queue dge=swdge\nqn queue dge=none\nsection gpsimd\n"
           " mov r0, 16\n.l: %s $s\n nop $s>=r0\n add r0, r0, 16\n ble r0, %d, .l\n halt\n",
           names, transfer, 16 * n);
  soma_options o = SOMA_OPTIONS_INIT;
  o.threads = 1;
  check(NULL, soma_machine_new(&o, &m), NULL);
  check(m, soma_assemble(m, text, strlen(text), "bench.s", NULL, &p, &d), d);
  soma_diagnostics_free(d);
  check(m, soma_run_start(m, p, &r), NULL);
  check(m, soma_run_until(r, SOMA_END, SOMA_SYNC, 0), NULL);
  soma_run_stats(r, &s, sizeof s);
  soma_run_free(r);
  soma_program_free(p);
  soma_machine_free(m);
  return s.host_seconds;
}

/* Seconds of one transfer when its memory has been touched. */
static double transfer_time(const char *names, const char *transfer) {
  double t[REPEAT];
  for (int i = 0; i < REPEAT; i++)
    t[i] = (run(names, transfer, MANY) - run(names, transfer, FEW)) / (MANY - FEW);
  return median(t);
}

/* Plain C: bytes copied, and every other 4-byte element gathered. */
static double plain_time(int strided, const uint32_t *a, uint32_t *c) {
  double t[REPEAT];
  for (int i = 0; i < REPEAT; i++) {
    double start = now();
    for (int k = 0; k < MANY; k++) {
      if (strided)
        for (size_t j = 0; j < BYTES / 8; j++) c[j] = a[2 * j];
      else
        memcpy(c, a, BYTES);
      __asm__ volatile("" : : "r"(c) : "memory");
    }
    t[i] = (now() - start) / MANY;
  }
  return median(t);
}

typedef struct row {
  const char *name, *names, *transfer;
  double bytes; /* read and written */
  double want;  /* of memcpy's bandwidth; 0: nothing is asked */
} row;

#define MIB 1048576.0
static const row rows[] = {
    {"4 MiB HBM to HBM", "a tensor uint32[1048576]\nc tensor uint32[1048576]\n",
     "dma_copy c, a, queue=qs", 8 * MIB, 0.6},
    {"4 MiB HBM to SBUF", "a tensor uint32[128, 8192]\nt tile sbuf uint32[128, 8192]\n",
     "dma_copy t, a, queue=qs", 8 * MIB, 0.6},
    {"4 MiB SBUF to HBM", "c tensor uint32[128, 8192]\nt tile sbuf uint32[128, 8192]\n",
     "dma_copy c, t, queue=qs", 8 * MIB, 0.6},
    {"bfloat16 to float32, 1 M elements", "a tensor bfloat16[1048576]\nc tensor float32[1048576]\n",
     "dma_copy c, a, queue=qs", 6 * MIB, 0.5},
    {"float32 to bfloat16, 1 M elements", "a tensor float32[1048576]\nc tensor bfloat16[1048576]\n",
     "dma_copy c, a, queue=qs", 6 * MIB, 0.5},
    {"float32 sum of two, 1 M elements", "a tensor float32[1048576]\nc tensor float32[1048576]\n",
     "dma_copy c, a, queue=qs, op=add", 12 * MIB, 0},
    {"2-byte transpose of [2048, 128]",
     "a tensor uint16[2048, 128]\nt tile sbuf uint16[128, 2048]\n", "dma_transpose t, a, queue=qn",
     1 * MIB, 0},
    {"gather of 128 rows of 2 KiB",
     "a tensor uint32[4096, 512]\nt tile sbuf uint32[128, 512]\nix tile sbuf uint32[128, 1]\n",
     "dma_copy t, a.ap([[512,128],[1,512]]).gather(ix), queue=qs", 0.5 * MIB, 0},
};

int main(void) {
  uint32_t *a = malloc(BYTES), *c = malloc(BYTES);
  if (!a || !c) return 1;
  memset(a, 1, BYTES);
  memset(c, 2, BYTES);
  double copy = plain_time(0, a, c);
  printf("memcpy of 4 MiB: %.0f us, %.1f GB/s read and written\n", copy * 1e6,
         2 * BYTES / copy * 1e-9);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    double t = transfer_time(rows[i].names, rows[i].transfer);
    double share = rows[i].bytes / t / (2 * BYTES / copy);
    printf("%-36s %8.0f us  %5.2f of memcpy's bandwidth", rows[i].name, t * 1e6, share);
    if (rows[i].want > 0) printf(" (wanted %.2f)", rows[i].want);
    printf("\n");
  }
  double loop = plain_time(1, a, c);
  double t = transfer_time("a tensor uint32[1048576]\nc tensor uint32[524288]\n",
                           "dma_copy c, a.ap([[2,524288]]), queue=qs");
  printf("%-36s %8.0f us  %5.2f of a plain loop's time (wanted at most 3)\n",
         "4 bytes of 8, 512 K elements", t * 1e6, t / loop);
  free(a);
  free(c);
  return 0;
}
