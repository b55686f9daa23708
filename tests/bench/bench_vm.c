/* What a simulated instruction costs the host: register instructions, semaphores, tiny data-path
 * instructions, transfers. Prints rates and their ratio to a plain C loop of the same run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../vm/api/soma.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Instructions a second of a program, the best of three runs. */
static double rate(const char *text) {
  double best = 0;
  for (int i = 0; i < 3; i++) {
    soma_machine *m = NULL;
    soma_program *p = NULL;
    soma_diagnostics *d = NULL;
    soma_run *r = NULL;
    soma_stats s;
    soma_options o = SOMA_OPTIONS_INIT;
    o.threads = 1;
    if (soma_machine_new(&o, &m) != SOMA_OK ||
        soma_assemble(m, text, strlen(text), "bench.s", NULL, &p, &d) != SOMA_OK ||
        soma_run_start(m, p, &r) != SOMA_OK ||
        soma_run_until(r, SOMA_END, SOMA_SYNC, 0) != SOMA_OK) {
      fprintf(stderr, "%s%s", soma_diagnostics_text(d), m ? soma_error(m) : "no machine");
      exit(1);
    }
    soma_run_stats(r, &s, sizeof s);
    double got = (double)s.instructions / s.host_seconds;
    best = got > best ? got : best;
    soma_run_free(r);
    soma_program_free(p);
    soma_diagnostics_free(d);
    soma_machine_free(m);
  }
  return best;
}

/* A chain of dependent additions: what one simple operation costs this host. */
static double host_rate(void) {
  enum { N = 200000000 };
  volatile unsigned seed = 1;
  unsigned x = seed;
  double t = now();
  for (unsigned i = 0; i < N; i++) x = (x ^ i) + 3;
  t = now() - t;
  seed = x;
  return N / t;
}

int main(void) {
  static const struct {
    const char *name, *text;
  } cases[] = {
      {"register: 8 ALU and a branch",
       "target trn2\nsection sync\n.l: add r1, r1, 3\n xor r2, r2, r1\n sub r3, r2, r1\n"
       " shl r4, r3, 2\n or r5, r4, r1\n and r6, r5, 0xff\n max r7, r6, r1\n add r0, r0, 1\n"
       " blt r0, 20000000, .l\n halt\n"},
      {"semaphore ping-pong of two engines",
       "target trn2\na sem\nb sem\nsection sync\n mov r1, 1\n.l: nop $a++\n nop $b>=r1\n"
       " add r1, r1, 1\n ble r1, 200000, .l\n halt\nsection vector\n mov r1, 1\n"
       ".l: nop $a>=r1\n nop $b++\n add r1, r1, 1\n ble r1, 200000, .l\n halt\n"},
      {"tensor_tensor [128, 1]",
       "target trn2\nx tile sbuf float32[128, 1]\ny tile sbuf float32[128, 1]\nsection vector\n"
       ".l: tensor_tensor x, x, y, op=add\n add r0, r0, 1\n blt r0, 200000, .l\n halt\n"},
      {"activate exp [128, 512]",
       "target trn2\nx tile sbuf float32[128, 512]\ny tile sbuf float32[128, 512]\nsection scalar\n"
       ".l: activate x, y, fn=exp\n add r0, r0, 1\n blt r0, 3000, .l\n halt\n"},
      {"matmul 128x128x512 bf16",
       "target trn2\nw tile sbuf bfloat16[128, 128]\nx tile sbuf bfloat16[128, 512]\n"
       "y tile psum float32[128, 512]\nsection tensor\n"
       ".l: ldweights w\n matmul y, x, acc=write\n add r0, r0, 1\n blt r0, 1000, .l\n halt\n"},
      {"dma_copy [128, 512], 16 rings",
       "target trn2\nh tensor float32[128, 512]\nx tile sbuf float32[128, 512]\ns sem\n"
       "q queue dge=hwdge\nsection sync\n mov r1, 16\n"
       ".l: dma_copy x, h, queue=q $s\n nop $s>=r1\n add r1, r1, 16\n ble r1, 160000, .l\n halt\n"},
  };
  double host = host_rate();
  printf("%-40s %12s %12s\n", "instructions a second", "rate", "host / rate");
  printf("%-40s %12.3g %12.2f\n", "a dependent addition on the host", host, 1.0);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double r = rate(cases[i].text);
    printf("%-40s %12.3g %12.2f\n", cases[i].name, r, host / r);
  }
  return 0;
}
