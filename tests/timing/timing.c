/* Published times against simulated ones: assembles each program of this directory, runs it for
 * its time only, and prints published, simulated, error, then the median and the worst.
 * Usage: timing [directory of the programs]. Exit status 1 when a program fails to run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../vm/api/soma.h"

typedef enum what {
  DURATION, /* of the engine's last instruction */
  INTERVAL, /* between the starts of its last two */
  ELAPSED,  /* from the start of its first instruction to the end of its last */
  SHARE,    /* the longest share of a transfer */
  ROUND,    /* between the starts of its last instruction and of the last but two */
  SPAN,     /* from the first data of all transfers to the last */
  STORED,   /* from the start, which triggers, to the last data; of a DGE's transfers, two of one
               size, from when the first descriptors are made */
  RESUMED,  /* from the start, which triggers, until a waiting engine continues; of a DGE's transfer
               from when its descriptors are made */
  WAKE,     /* as STORED, but until a waiting engine continues */
  WHOLE,    /* the run */
  LAUNCHED, /* the run and its launch */
  BUSY,     /* the engine's data path */
  MOVING    /* the DMA engines, summed over the sixteen */
} what;

typedef struct figure {
  const char *target, *name, *file;
  const char *defines; /* separated by spaces */
  what what;
  soma_engine engine;
  double ns;
} figure;

/* Those that constants of the clock were taken from or fitted on. */
static const figure figures[] = {
    {"trn2", "activate exp [4,4096] bf16", "activate.s", "TYPE=bfloat16 P=4 N=4096 COUNT=1",
     DURATION, SOMA_SCALAR, 3710},
    {"trn2", "activate exp [128,128] bf16", "activate.s", "TYPE=bfloat16 P=128 N=128 COUNT=1",
     DURATION, SOMA_SCALAR, 400},
    {"trn2", "tensor_tensor fp32 512, PSUM + SBUF", "tensor_tensor.s", "N=512 SECOND=psum COUNT=1",
     DURATION, SOMA_VECTOR, 685},
    {"trn2", "the same, initiation interval", "tensor_tensor.s", "N=512 SECOND=psum COUNT=8",
     INTERVAL, SOMA_VECTOR, 604},
    {"trn2", "fp32 matmul pass 512, interval", "matmul_pass.s",
     "TYPE=float32 N=512 COUNT=8 ONEZERO", INTERVAL, SOMA_TENSOR, 429},
    {"trn2", "the same, latency", "matmul_pass.s", "TYPE=float32 N=512 COUNT=1 ONEZERO", DURATION,
     SOMA_TENSOR, 590},
    {"trn1", "activate fp32 1", "activate.s", "TYPE=float32 P=128 N=1 COUNT=1", DURATION,
     SOMA_SCALAR, 159},
    {"trn1", "the same in a dependent chain", "activate.s", "TYPE=float32 P=128 N=1 COUNT=8 CHAIN",
     INTERVAL, SOMA_SCALAR, 189},
    {"trn1", "tensor_tensor fp32 8192, SBUF + SBUF", "tensor_tensor.s",
     "N=8192 SECOND=sbuf COUNT=1", DURATION, SOMA_VECTOR, 14990},
    {"trn1", "matmul bf16 128 with 1 column", "matmul_pass.s", "TYPE=bfloat16 N=128 COUNT=1 COLS=1",
     DURATION, SOMA_TENSOR, 188},
    {"trn1", "load of weights, 1 column", "matmul_pass.s", "TYPE=bfloat16 N=128 COUNT=0 COLS=1",
     DURATION, SOMA_TENSOR, 67},
    /* the three kernels whose matmuls follow one another: instruction time of the tensor engine
     * (the mean, 51.17 ms) less 65536 matmuls of 590 ns, for each load of weights */
    {"trn2", "load of weights, fp32 pass", "matmul_pass.s", "TYPE=float32 N=512 COUNT=0", DURATION,
     SOMA_TENSOR, 190.8},
    /* a 3x3 convolution of 224 x 224 images, measured; no public page shows it */
    {"trn2", "fp32 matmul 222, new weights 144 bytes apart", "matmul_pass.s",
     "TYPE=float32 N=222 COUNT=18 RELOAD FAR", ROUND, SOMA_TENSOR, 478},
    {"trn2", "one DMA engine loads 4 x 8 KiB", "load.s", "P=4 BYTES=8192 DGE=none", SHARE,
     SOMA_VECTOR, 1416},
    {"trn2", "one DMA engine stores 4 x 8 KiB", "load.s", "P=4 BYTES=8192 DGE=none STORE", SHARE,
     SOMA_VECTOR, 1224},
    {"trn2", "that load, trigger to waiting engine", "load.s", "P=4 BYTES=8192 DGE=none", RESUMED,
     SOMA_VECTOR, 2741},
    {"trn2", "load [128,128] bf16, trigger to engine", "load.s", "P=128 BYTES=256 DGE=swdge",
     RESUMED, SOMA_VECTOR, 1502},
    {"trn1", "32 KiB stored, sixteen engines busy", "load.s", "P=128 BYTES=4096 DGE=none STORE",
     SHARE, SOMA_VECTOR, 1810},
    {"trn1", "matmul bf16 4096x8192x8192, tiled", "matmul_static.s", "", WHOLE, SOMA_TENSOR,
     51.80e6},
    {"trn1", "the same, loads hoisted", "matmul_static.s", "HOIST", WHOLE, SOMA_TENSOR, 42.96e6},
    {"trn2", "matmul fp32 4096x8192x8192, tiled", "matmul_swdge.s", "", WHOLE, SOMA_TENSOR,
     39.89e6},
    {"trn1", "mamba 4096 x 512, vector busy", "mamba.s", "", BUSY, SOMA_VECTOR, 1.57e6},
    {"trn2", "vector add 25600, FREE_DIM=200", "vector_add.s", "ROWS=128 COLS=200 PART=128",
     LAUNCHED, SOMA_VECTOR, 15e3},
    {"trn2", "vector add 25600 by rows of 1", "vector_add.s", "ROWS=25600 COLS=1 PART=1", WHOLE,
     SOMA_VECTOR, 37.3e6},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

/* Whole kernels of the introduction to DMA, trigger to end: no constant was made from these, but
 * from parts of the same two profiles, which are figures above. */
static const figure parts[] = {
    {"trn2", "exp of [4,4096], trigger to last byte", "exp.s", "P=4 N=4096 DGE=none STATIC", STORED,
     SOMA_VECTOR, 9936},
    {"trn2", "the same, trigger to waiting engine", "exp.s", "P=4 N=4096 DGE=none STATIC", WAKE,
     SOMA_VECTOR, 10288},
    {"trn2", "exp of [128,128], trigger to last byte", "exp.s", "P=128 N=128 DGE=swdge", STORED,
     SOMA_VECTOR, 4982},
    {"trn2", "the same, trigger to waiting engine", "exp.s", "P=128 N=128 DGE=swdge", WAKE,
     SOMA_VECTOR, 5371},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* Held back: no constant was made from these. */
static const figure held[] = {
    /* matrix multiplication tutorial, an earlier edition: the last lines of its table of versions
     */
    {"trn1", "matmul bf16, free dimensions blocked", "matmul_static.s", "HOIST BM=2", WHOLE,
     SOMA_TENSOR, 22.07e6},
    {"trn1", "matmul bf16, all dimensions blocked", "matmul_blocked.s", "", WHOLE, SOMA_TENSOR,
     6.97e6},
    /* guide to the optimization of a kernel: summaries of the profiles */
    {"trn2", "matmul fp32 tiled, sum of DMA engines", "matmul_swdge.s", "", MOVING, SOMA_TENSOR,
     519.58e6},
    {"trn2", "matmul fp32 tiled, tensor busy", "matmul_swdge.s", "", BUSY, SOMA_TENSOR, 34.82e6},
    {"trn2", "matmul fp32, loads hoisted", "matmul_swdge.s", "HOIST", WHOLE, SOMA_TENSOR, 28.20e6},
    {"trn2", "the same, sum of DMA engines", "matmul_swdge.s", "HOIST", MOVING, SOMA_TENSOR,
     402.07e6},
    {"trn2", "the same, tensor busy", "matmul_swdge.s", "HOIST", BUSY, SOMA_TENSOR, 28.16e6},
    /* device trace viewer: details of an instruction */
    {"trn2", "transpose fp32 128 x 128", "matmul_pass.s", "TYPE=float32 N=128 COUNT=1 TRANSPOSE",
     DURATION, SOMA_TENSOR, 272},
    /* introduction to DMA: the profile of its second example */
    {"trn2", "load [128,128] bf16, an engine's 2 KiB", "load.s", "P=128 BYTES=256 DGE=swdge", SHARE,
     SOMA_VECTOR, 97},
    {"trn2", "the same, first data to last", "load.s", "P=128 BYTES=256 DGE=swdge", SPAN,
     SOMA_VECTOR, 468},
    {"trn2", "its store, first data to last", "load.s", "P=128 BYTES=256 DGE=swdge STORE", SPAN,
     SOMA_VECTOR, 240}, /* read off the axis, to 2 ns */
    /* design of rmsnorm-quant: its profiles, read off the axis to 30 ns */
    {"trn2", "activate square with sum, 16384", "quantize.s", "N=16384 SQUARE", DURATION,
     SOMA_SCALAR, 13.95e3},
    {"trn2", "scalar_tensor_tensor 512, one in PSUM", "quantize.s", "N=512 SCALE COUNT=1", DURATION,
     SOMA_VECTOR, 748},
    {"trn2", "the same, initiation interval", "quantize.s", "N=512 SCALE COUNT=8", INTERVAL,
     SOMA_VECTOR, 659},
    {"trn2", "tensor_reduce max 16384 bf16", "quantize.s", "N=16384 MAX", DURATION, SOMA_VECTOR,
     17.26e3},
    {"trn2", "tensor_scalar 16384 to 8 bits", "quantize.s", "N=16384", DURATION, SOMA_VECTOR,
     8.83e3},
    /* mamba tutorial: the text, and the selection summary of the first profile */
    {"trn1", "mamba 4096 x 512, the run", "mamba.s", "", WHOLE, SOMA_VECTOR, 1.61e6},
    {"trn1", "mamba 256 x 512, du again, vector busy", "mamba.s", "TILES=2 AGAIN MOVED=13", BUSY,
     SOMA_VECTOR, 148.99e3},
    {"trn1", "mamba 4096 x 512, du again, vector busy", "mamba.s", "AGAIN", BUSY, SOMA_VECTOR,
     2.12e6},
    {"trn1", "mamba 4096 x 8192 by 512, vector busy", "mamba.s", "TILES=512 CARRY", BUSY,
     SOMA_VECTOR, 26.26e6},
    /* performance guide: figures 10, 18, 17 and 30; the first and last are read off the axis; then
     * 26 and 20 */
    {"trn1", "activate fp32 8192", "activate.s", "TYPE=float32 P=128 N=8192 COUNT=2", INTERVAL,
     SOMA_SCALAR, 6.05e3},
    {"trn1", "tensor_tensor fp32 8192, 64 partitions", "tensor_tensor.s",
     "P=64 N=8192 SECOND=sbuf COUNT=1", DURATION, SOMA_VECTOR, 14968},
    {"trn1", "matmul bf16 128, 96 columns", "matmul_pass.s", "TYPE=bfloat16 N=128 COUNT=1 COLS=96",
     DURATION, SOMA_TENSOR, 219},
    {"trn1", "eight loads of 32 KiB an engine", "load.s", "P=128 BYTES=4096 DGE=swdge COUNT=8",
     SPAN, SOMA_VECTOR, 16.2e3},
    {"trn1", "transpose bf16 128 x 128", "matmul_pass.s", "TYPE=bfloat16 N=128 COUNT=1 TRANSPOSE",
     DURATION, SOMA_TENSOR, 195},
    {"trn1", "load of weights, 1 column, and its matmul", "matmul_pass.s",
     "TYPE=bfloat16 N=128 COUNT=1 COLS=1", ELAPSED, SOMA_TENSOR, 214},
};
enum { HELD = sizeof held / sizeof held[0] };

/* Throughput of a load of 128 partitions while its engines work, as a part of that of 32 KiB. */
static const struct {
  unsigned bytes;
  double part;
} curve[] = {{32, 0.013},   {64, 0.026},   {128, 0.052},  {256, 0.103},  {512, 0.207},
             {1024, 0.423}, {2048, 0.813}, {4096, 0.966}, {8192, 0.983}, {16384, 0.990}};
enum { CURVE = sizeof curve / sizeof curve[0] };

typedef struct seen {
  soma_engine engine;
  double first, start, before, second, end; /* of the engine's instructions: the first's start; the
                                     last's start, those of the two before it, and its end */
  double share, resumed;
  double from, to; /* of all data */
} seen;

static void see(void *ud, const soma_event *e) {
  seen *s = ud;
  double start = (double)e->start * 1e-6, end = (double)e->end * 1e-6;
  if (e->kind == SOMA_EV_INSN && e->engine == (unsigned)s->engine) {
    if (s->end == 0) s->first = start;
    s->second = s->before;
    s->before = s->start;
    s->start = start;
    s->end = end;
  } else if (e->kind == SOMA_EV_DMA) {
    if (end - start > s->share) s->share = end - start;
    if (s->to == 0 || start < s->from) s->from = start;
    if (end > s->to) s->to = end;
  } else if (e->kind == SOMA_EV_WAIT) {
    s->resumed = end;
  }
}

static const char *directory = "tests/timing";
static double host_seconds;

/* Runs a program; the process ends with a message when it does not. */
static soma_stats run(const figure *f, const char *defines, seen *s) {
  soma_machine *m = NULL;
  soma_program *p = NULL;
  soma_diagnostics *d = NULL;
  soma_run *r = NULL;
  soma_stats stats;
  soma_options o = SOMA_OPTIONS_INIT;
  soma_assemble_options ao = {.size = sizeof ao};
  const char *words[16];
  char text[256], path[512];
  snprintf(text, sizeof text, "TARGET=%s %s", f->target, defines);
  snprintf(path, sizeof path, "%s/%s", directory, f->file);
  for (char *w = strtok(text, " "); w && ao.ndefines < 16; w = strtok(NULL, " "))
    words[ao.ndefines++] = w;
  ao.defines = words;
  s->engine = f->engine;
  o.timing_only = 1;
  if (f->what < WHOLE) {
    o.event = see;
    o.event_ud = s;
  }
  if (soma_machine_new(&o, &m) != SOMA_OK || soma_assemble_file(m, path, &ao, &p, &d) != SOMA_OK ||
      soma_run_start(m, p, &r) != SOMA_OK || soma_run_until(r, SOMA_END, SOMA_SYNC, 0) != SOMA_OK) {
    fprintf(stderr, "%s: %s\n%s", f->name, m ? soma_error(m) : "no machine",
            soma_diagnostics_text(d));
    exit(1);
  }
  soma_run_stats(r, &stats, sizeof stats);
  host_seconds += stats.host_seconds;
  soma_run_free(r);
  soma_program_free(p);
  soma_diagnostics_free(d);
  soma_machine_free(m);
  return stats;
}

static double measure(const figure *f) {
  seen s = {0};
  soma_stats stats = run(f, f->defines, &s);
  double made = (double)stats.engine[SOMA_GPSIMD].busy * 1e-6; /* descriptors */
  switch (f->what) {
  case DURATION: return s.end - s.start;
  case INTERVAL: return s.start - s.before;
  case ELAPSED: return s.end - s.first;
  case SHARE: return s.share;
  case ROUND: return s.start - s.second;
  case SPAN: return s.to - s.from;
  case STORED: return s.to - made / 2;
  case RESUMED: return s.resumed - made;
  case WAKE: return s.resumed - made / 2;
  case WHOLE: return (double)stats.time * 1e-6;
  case LAUNCHED: return (double)(stats.time + stats.launch) * 1e-6;
  case BUSY: return (double)stats.engine[f->engine].busy * 1e-6;
  case MOVING: return (double)stats.dma_busy * 1e-6;
  }
  return 0;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void summary(const char *of, double *error, int n) {
  double largest;
  qsort(error, (size_t)n, sizeof *error, by_size);
  largest = error[n - 1];
  printf("%-44s median error %5.1f %%, worst %5.1f %%\n\n", of,
         (n % 2 ? error[n / 2] : (error[n / 2 - 1] + error[n / 2]) / 2), largest);
}

static void show_figures(const char *title, const figure *f, int n) {
  double error[FIGURES + HELD];
  printf("%-44s %14s %14s %8s\n", title, "published ns", "simulated ns", "error %");
  for (int i = 0; i < n; i++, f++) {
    double got = measure(f), off = 100 * (got / f->ns - 1);
    error[i] = fabs(off);
    printf("%s %-39s %14.0f %14.1f %+8.1f\n", f->target, f->name, f->ns, got, off);
  }
  summary(title, error, n);
}

/* Bytes per ns of one load, by the time its DMA engines are at it. */
static double throughput(unsigned bytes) {
  static const figure load = {"trn1", "throughput", "load.s", "", SHARE, SOMA_VECTOR, 0};
  char defines[64];
  seen s = {0};
  snprintf(defines, sizeof defines, "P=128 BYTES=%u DGE=none", bytes);
  run(&load, defines, &s);
  return 128.0 * bytes / s.share;
}

static void show_curve(void) {
  double error[CURVE], most = throughput(32768);
  printf("%-44s %14s %14s %8s\n", "throughput of a load, bytes per partition", "published",
         "simulated", "error %");
  for (int i = 0; i < CURVE; i++) {
    double got = throughput(curve[i].bytes) / most, off = 100 * (got / curve[i].part - 1);
    error[i] = fabs(off);
    printf("trn1 %-39u %14.3f %14.3f %+8.1f\n", curve[i].bytes, curve[i].part, got, off);
  }
  summary("throughput", error, CURVE);
}

int main(int argc, char **argv) {
  if (argc > 1) directory = argv[1];
  show_figures("figures", figures, FIGURES);
  show_figures("fitted in parts", parts, PARTS);
  show_figures("held back", held, HELD);
  show_curve();
  printf("%.2f s of simulation\n", host_seconds);
  return 0;
}
