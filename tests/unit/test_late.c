/* Work that waits (vm/engine/batch.c): nothing that looks at memory while it waits can tell. Each
 * program has something else touch a transfer's bytes at many moments, and has instructions that
 * follow one another in a batch, or must not. With a listener each step is done at once; without
 * one, on one thread and on several, the run must give the same. */
#include "vm_bed.h"
#include "../../vm/work/work.h"
#include "full.h"

#define HEAD                                                                                \
  "target trn2\n"                                                                           \
  "a tensor int32[128, 64], input\nc tensor int32[128, 64], output\n"                       \
  "d tensor int32[128, 64], output\n"                                                       \
  "t tile sbuf int32[128, 64]\nu tile sbuf int32[128, 64]\n"                                \
  "one tile sbuf int32[128, 1]\nq queue rings=16, dge=hwdge\nw queue rings=16, dge=hwdge\n" \
  "g queue rings=16, dge=swdge\n"                                                           \
  "ready sem\nloaded sem\nseen sem\ncopied sem\nout sem\n"
/* The last of t's bytes and what the observer made go to the outputs. */
#define STORES                                 \
  " dma_copy c, t, queue=q $loaded>=16 $out\n" \
  " dma_copy d, u, queue=q $seen>=1 $out\n halt\n"
#define LOAD "section sync\n dma_copy t, a, queue=q $ready>=1 $loaded\n" STORES
#define WAIT " mov r7, %u\n.d: sub r7, r7, 1\n bgt r7, 0, .d\n"
#define LATE_LOAD /* for transfers, which take as long to begin */                  \
  "section sync\n nop $ready>=1\n mov r7, 500\n.d: sub r7, r7, 1\n bgt r7, 0, .d\n" \
  " dma_copy t, a, queue=q $loaded\n" STORES
#define VECTOR "section vector\n memset u, 7\n memset t, 9\n drain\n nop $ready++\n" WAIT
/* A product of tiles that hold t and u; `end` of the tensor engine follows it, and signals $copied.
 */
#define PRODUCT(rounds, end)                                                            \
  HEAD "x tile sbuf float32[128, 128]\np tile psum float32[128, 128]\n"                 \
       "h tile sbuf float8_e4m3[128, 2, 64]\n"                                          \
       "section sync\n dma_copy t, a, queue=q $loaded\n" STORES                         \
       "section tensor\n nop $ready>=1\n mov r7, " rounds                               \
       "\n.d: sub r7, r7, 1\n bgt r7, 0, .d\n ldweights x\n matmul p, x, acc=write" end \
       " $copied++\n halt\n"
#define OPERANDS                                                                 \
  "section vector\n memset u, 7\n memset h, 2.0\n tensor_copy x[:, 64:128], u\n" \
  " tensor_copy x[:, 0:64], t $loaded>=16\n drain\n nop $ready++\n"
/* A transpose of x, and some time later `second`, which may be another one of the same weights. */
#define TURNS(rounds, second)                                                               \
  HEAD "x tile sbuf float32[128, 128]\nid tile sbuf float32[128, 128]\n"                    \
       "p tile psum float32[128, 2, 128]\n"                                                 \
       "section sync\n dma_copy t, a, queue=q $loaded\n" STORES                             \
       "section gpsimd\n memset id, 1.0\n affine_select id, id, 0.0, pattern=[[-1, 128]], " \
       "multiplier=1, cmp=is_equal $ready++\n halt\n"                                       \
       "section tensor\n nop $ready>=2\n mov r7, " rounds                                   \
       "\n.d: sub r7, r7, 1\n bgt r7, 0, .d\n ldweights x\n"                                \
       " matmul p[:, 0, :], id, transpose=true\n mov r7, 250\n"                             \
       ".e: sub r7, r7, 1\n bgt r7, 0, .e\n" second " $copied++\n halt\n"
#define SAME " matmul p[:, 1, :], id, transpose=true"
#define CORNER ", tile_rows=32, tile_cols=32, tile_col=0, tile_row="
#define TURNED                                                   \
  "section vector\n memset u, 7\n tensor_copy x[:, 64:128], u\n" \
  " tensor_copy x[:, 0:64], t $loaded>=16\n nop $ready>=1\n drain\n nop $ready++\n" WAIT
#define TURNED_RESULT                                    \
  " tensor_copy u[:, 0:32], p[:, 0, 16:48] $copied>=1\n" \
  " tensor_copy u[:, 32:64], p[:, 1, 16:48] $seen++\n halt\n"
#define RESULT " tensor_copy u, p[:, 0:64] $copied>=1 $seen++\n halt\n"

static const struct {
  const char *name, *text;
} programs[] = {
    {"an instruction reads the destination", HEAD LOAD VECTOR " tensor_copy u, t $seen++\n halt\n"},
    {"an instruction writes the destination",
     HEAD LOAD VECTOR " memset t, 3\n drain\n nop $seen++\n halt\n"},
    {"an instruction writes the source",
     HEAD "section sync\n dma_copy t, a, queue=q $loaded\n dma_copy c, t, queue=q $seen>=1 $out\n"
          " dma_copy d, u, queue=q $out>=16 $out\n halt\n"
          "section vector\n memset u, 7 $loaded>=16\n drain\n nop $seen++\n" WAIT
          " memset t, 3\n halt\n"},
    {"a sequencer reads",
     HEAD LOAD VECTOR " tensor_load r1, t[125:126, 63:64]\n tensor_store u[0:1, 0:1], r1\n"
                      " tensor_load r1, t[3:4, 63:64]\n tensor_store u[1:2, 0:1], r1\n"
                      " nop $seen++\n halt\n"},
    {"a sequencer writes", HEAD LOAD VECTOR " mov r1, 5\n tensor_store t[125:126, 63:64], r1\n"
                                            " tensor_store t[2:3, 0:1], r1\n nop $seen++\n halt\n"},
    {"another transfer reads the destination",
     HEAD LATE_LOAD VECTOR " halt\nsection scalar\n nop $ready>=1\n" WAIT
                           " dma_copy u[0:64, :], t[64:128, :], queue=w $copied\n nop "
                           "$copied>=16\n nop $seen++\n halt\n"},
    {"another transfer writes the destination",
     HEAD LATE_LOAD VECTOR " nop $seen++\n halt\nsection scalar\n nop $ready>=1\n" WAIT
                           " dma_copy t, d, queue=w\n halt\n"},
    {"an index is read", HEAD LOAD VECTOR
     " halt\nsection gpsimd\n nop $ready>=1\n" WAIT
     " dma_copy u, a[0:128, :].gather(int32@sbuf[0,128,252,t][1][1]), queue=g, oob=skip $copied\n"
     " nop $copied>=16\n nop $seen++\n halt\n"},
    {"a row is made of other partitions", HEAD
     "r tile sbuf int32[1, 32]\n" LOAD VECTOR " transpose32 r, t[32:64, 5:6] $copied++\n halt\n"
     "section scalar\n activate u[0:1, 0:32], r, fn=copy $copied>=1 $seen++\n halt\n"},
    {"an element that gives an offset is read", HEAD LOAD VECTOR
     " tensor_copy u[:, 0:1], int32@sbuf[0,128,0+(int32@sbuf[3,1,252,t][1][1])*1,t][1][1]\n"
     " nop $seen++\n halt\n"},
    {"instructions follow in the same partitions",
     HEAD LOAD VECTOR " tensor_copy u, t\n tensor_tensor u, u, t, op=add\n"
                      " tensor_reduce one, u, op=max, axes=1\n"
                      " tensor_copy u[64:128, 1:2], one[64:128, :] $seen++\n halt\n"},
    {"an instruction takes bytes to other partitions",
     HEAD LOAD VECTOR " tensor_copy u, t\n tensor_copy u[0:64, :], u[64:128, :]\n"
                      " tensor_tensor u, u, t, op=add $seen++\n halt\n"},
    {"sums go to other partitions",
     HEAD "f tile sbuf float32[128, 64]\n" LOAD
          "section scalar\n nop $ready>=1\n activate f[64:128, :], t[64:128, :], fn=copy, "
          "reduce=reset_reduce $loaded>=9\n act_read_acc f[0:64, 0:1]\n"
          " activate f, f, fn=copy, reduce=reduce\n act_read_acc f[:, 1:2]\n"
          " activate u, f, fn=copy $seen++\n halt\n" VECTOR " memset t, 5\n halt\n"},
    {"roundings are counted",
     HEAD "h tile sbuf bfloat16[128, 64]\n" LOAD VECTOR
          " tensor_scalar h, t, op0=mult, imm0=1.0078, round=stochastic\n"
          " tensor_scalar h[96:128, :], t[96:128, :], op0=mult, imm0=77.77, round=stochastic\n"
          " tensor_scalar h[0:64, :], h[0:64, :], op0=mult, imm0=1.0078, round=stochastic\n"
          " tensor_copy u, h $seen++\n halt\n"},
    {"a transfer reads what another one wrote to HBM",
     HEAD LATE_LOAD VECTOR " halt\nsection scalar\n nop $ready>=1\n" WAIT
                           " dma_copy d, t, queue=w $copied\n dma_copy u[0:127, :], d[1:128, :], "
                           "queue=w $copied>=16 $copied\n nop $copied>=32\n nop $seen++\n halt\n"},
    {"an instruction writes what a product reads",
     PRODUCT("500", "") OPERANDS WAIT " memset x, 3\n" RESULT},
    {"an instruction reads what a product writes",
     PRODUCT("350", "") OPERANDS WAIT " tensor_copy u, p[:, 64:128]\n nop $seen++\n halt\n"},
    {"what reads a product is handed over",
     PRODUCT("350", "") OPERANDS WAIT " tensor_copy u, p[:, 64:128]\n tensor_copy t[64:128, 1:2], "
                                      "u[64:128, 1:2]\n nop $seen++\n halt\n"},
    {"an instruction writes what a product writes",
     PRODUCT("400", "") OPERANDS WAIT " memset p, 3\n drain\n" RESULT},
    {"a sequencer writes what a product reads",
     PRODUCT("500", "") OPERANDS WAIT " mov r1, 5\n tensor_store x[125:126, 63:64], r1\n" RESULT},
    {"a transfer writes what a product reads", PRODUCT("900", "") OPERANDS RESULT
     "section scalar\n nop $ready>=1\n" WAIT
     " dma_copy x[0:32, 0:64], x[32:64, 64:128], queue=w\n halt\n"},
    {"what a product wrote is read, and written meanwhile", PRODUCT("400", "") OPERANDS RESULT
     "section scalar\n nop $ready>=1\n" WAIT " activate p, x, fn=copy\n halt\n"},
    {"other weights follow a product",
     PRODUCT("500", "\n ldweights h, perf=double_row\n matmul p[0:64, 64:128], h, perf=double_row, "
                    "acc=add\n ldweights x[:, 0:64]\n matmul p[0:64, :], x, acc=add") OPERANDS WAIT
     " memset x[0:64, :], 3\n memset h, 1.0\n" RESULT},
    {"an instruction writes what a transpose turns",
     TURNS("450", SAME) TURNED " memset x[0:64, 0:32], 3.0\n" TURNED_RESULT},
    {"an instruction writes the identity of transposes",
     TURNS("450", SAME) TURNED " memset id[0:32, :], 0.0\n" TURNED_RESULT},
    {"a sequencer writes what a transpose turns",
     TURNS("450", SAME) TURNED " mov r1, 5\n tensor_store x[20:21, 127:128], r1\n" TURNED_RESULT},
    {"a sequencer writes the identity of transposes",
     TURNS("450", SAME) TURNED " mov r1, 0\n tensor_store id[20:21, 20:21], r1\n" TURNED_RESULT},
    {"a transfer writes the identity and what a transpose turns",
     TURNS("1000", SAME) TURNED TURNED_RESULT
     "section scalar\n nop $ready>=2\n" WAIT " dma_copy x[0:32, 0:64], x[32:64, 64:128], queue=w\n"
     " dma_copy id[0:64, 0:64], id[64:128, 0:64], queue=w\n halt\n"},
    {"other weights follow a transpose",
     TURNS("450", " ldweights x[0:32, 0:32]" CORNER "0\n ldweights x[32:64, 0:32]" CORNER "32\n"
                  " matmul p[0:32, 1, 0:32], id[0:32, 0:32], transpose=true" CORNER "0") TURNED
     " memset x[0:64, 0:32], 3.0\n" TURNED_RESULT},
    {"device_print", HEAD LOAD VECTOR " device_print \"t\", t[0:128, 0:1]\n nop $seen++\n halt\n"},
    {"whoever gets a text reads memory",
     HEAD LOAD VECTOR " device_print \"now\"\n nop $seen++\n halt\n"},
};

/* Each activate is enough for the other threads; what follows it depends on it. */
#define LARGE                                                                          \
  "target trn2\na tensor int32[128, 64], input\nc tensor float32[128, 64], output\n"   \
  "d tensor float32[128, 64], output\ni tile sbuf int32[128, 64]\n"                    \
  "t tile sbuf float32[128, 4096]\nv tile sbuf float32[128, 4096]\n"                   \
  "s tile sbuf float32[128, 64]\nb tile sbuf float32[128, 1]\n"                        \
  "e tile sbuf float32[128, 1]\nq queue rings=16, dge=hwdge\n"                         \
  "w queue rings=16, dge=hwdge\nloaded sem\nready sem\nmoved sem\ndone sem\nout sem\n" \
  "section sync\n dma_copy i, a, queue=q $loaded\n nop $done>=1\n"                     \
  " dma_copy c, s, queue=q $out\n dma_copy d, v[:, 4032:4096], queue=q $out\n"         \
  " nop $out>=32\n halt\n"                                                             \
  "section vector\n memset t[:, 64:4096], 0.5\n memset b, 0.25\n memset e, 0.125\n"    \
  " memset v, 0.0\n memset s, 0.0\n tensor_copy t[:, 0:64], i $loaded>=16\n drain\n"   \
  " nop $ready++\n halt\n"                                                             \
  "section scalar\n nop $ready>=1\n"
#define AGAIN "\n add r0, r0, 1\n blt r0, 40, .l\n drain\n nop $done++\n halt\n"

static const struct {
  const char *name, *text;
} large[] = {
    {"a sum is read",
     LARGE ".l: activate v, t, fn=copy, reduce=reduce\n act_read_acc s[:, r0:+1]" AGAIN},
    {"some elements are read",
     LARGE ".l: activate v, t, fn=copy, bias=b\n tensor_copy b, v[:, 4095:4096]\n"
           " tensor_copy s[:, r0:+1], b" AGAIN},
    {"some elements are written",
     LARGE ".l: activate v, t, fn=copy, bias=b\n tensor_copy v[:, 4095:4096], b\n"
           " tensor_copy b, v[:, 4000:4001]\n tensor_copy s[:, r0:+1], b" AGAIN},
    {"a small transfer reads",
     LARGE ".l: activate v, t, fn=copy, bias=b\n drain\n"
           " dma_copy e, v[:, 4095:4096], queue=w $moved\n add r1, r1, 16\n"
           " nop $moved>=r1\n tensor_copy b, e\n tensor_copy s[:, r0:+1], b" AGAIN},
    {"a small transfer writes",
     LARGE ".l: activate v, t, fn=copy, bias=b\n drain\n"
           " dma_copy v[:, 4095:4096], e, queue=w $moved\n add r1, r1, 16\n"
           " nop $moved>=r1\n tensor_copy b, v[:, 4000:4001]\n"
           " tensor_copy s[:, r0:+1], v[:, 4095:4096]" AGAIN},
    {"a sequencer reads",
     LARGE ".l: activate v, t, fn=copy, bias=b\n drain\n tensor_load r2, v[127:128, 4095:4096]\n"
           " tensor_store s[3:4, r0:+1], r2\n tensor_copy b, v[:, 4095:4096]" AGAIN},
    {"engines alternate",
     LARGE ".l: activate v, t, fn=copy, bias=b, reduce=reduce\n activate t, v, fn=copy, "
           "scale=0.5\n act_read_acc s[:, r0:+1]\n tensor_copy b, v[:, 70:71]" AGAIN},
};

/* The first transpose finds the identity, so that the next ones may wait. What is then in p goes to
 * the outputs. */
#define TURN                                                                                    \
  HEAD "z tensor float32[128, 64], output\nx tile sbuf float32[128, 128]\n"                     \
       "y tile sbuf float32[128, 128]\nid tile sbuf float32[128, 128]\n"                        \
       "h tile sbuf float8_e4m3[128, 128]\none16 tile sbuf bfloat16[128, 128]\n"                \
       "p tile psum float32[128, 3, 128]\nb tile psum bfloat16[128, 128]\nk tile sbuf "         \
       "float32[128, 1]\n"                                                                      \
       "section sync\n dma_copy t, a, queue=q $loaded\n dma_copy c, t, queue=q $seen>=1 $out\n" \
       " dma_copy d, u, queue=q $out>=16 $out\n halt\n"                                         \
       "section gpsimd\n memset id, 1.0\n"                                                      \
       " affine_select id, id, 0.0, pattern=[[-1, 128]], multiplier=1, cmp=is_equal\n"          \
       " tensor_copy one16, id $ready++\n halt\n"                                               \
       "section tensor\n nop $ready>=2\n ldweights x\n matmul p[:, 2, :], id, transpose=true\n"
#define TURN_X " ldweights x\n matmul p[:, 0, :], id, transpose=true $copied++\n"
#define TURN_OPERANDS                                                                      \
  "section vector\n tensor_copy x[:, 0:64], t $loaded>=16\n tensor_copy x[:, 64:128], t\n" \
  " tensor_scalar y, x, op0=add, imm0=70.0\n tensor_copy h, x\n memset p, 5.0\n drain\n"   \
  " nop $ready++\n nop $copied>=1\n"
#define TURN_RESULT                                                                      \
  " tensor_copy t, p[:, 0, 0:64]\n tensor_tensor t, t, x[:, 0:64], op=add\n"             \
  " tensor_copy u, p[:, 0, 64:128]\n tensor_tensor u, u, p[:, 1, 64:128], op=subtract\n" \
  " drain\n nop $seen++\n halt\n"

static const struct {
  const char *name, *text;
} turns[] = {
    {"an instruction writes what is turned",
     TURN TURN_X " halt\n" TURN_OPERANDS " memset x[0:96, 0:64], 3.0\n" TURN_RESULT},
    {"a transfer loads over what is turned", TURN TURN_X
     " halt\n" TURN_OPERANDS " nop $copied>=17\n" TURN_RESULT
     "section scalar\n nop $copied>=1\n dma_copy x[:, 0:64], z, queue=w $copied\n halt\n"},
    {"a transfer within SBUF writes what is turned", TURN TURN_X
     " halt\n" TURN_OPERANDS " nop $copied>=17\n" TURN_RESULT "section scalar\n nop $copied>=1\n"
     " dma_copy x[0:32, 0:128], y[96:128, 0:128], queue=w $copied\n halt\n"},
    {"a sequencer writes what is turned",
     TURN TURN_X " halt\n" TURN_OPERANDS " mov r1, 5\n tensor_store x[99:100, 1:2], r1\n"
                 " tensor_store x[3:4, 99:100], r1\n" TURN_RESULT},
    {"a transpose after a transpose", TURN TURN_X
     " ldweights y\n matmul p[:, 1, :], id, transpose=true $copied++\n halt\n" TURN_OPERANDS
     " memset y[0:96, 0:64], 3.0 $copied>=2\n" TURN_RESULT},
    {"a product after a transpose",
     TURN TURN_X " ldweights y\n matmul p[:, 1, :], id, acc=write\n matmul p[:, 0, :], x, acc=add\n"
                 " matmul p[:, 1, :], x $copied++\n halt\n" TURN_OPERANDS
                 " nop $copied>=2\n memset x[0:96, 0:64], 3.0\n" TURN_RESULT},
    {"products add to what was turned", TURN TURN_X
     " matmul p[:, 0, :], id $copied++\n halt\n" TURN_OPERANDS " nop $copied>=2\n" TURN_RESULT},
    {"a transpose makes elements fresh",
     TURN " ldweights y\n matmul p[:, 1, :], id\n ldweights x\n"
          " matmul p[:, 0, :], id, transpose=true, psum_zero=p[:, 1, :]\n"
          " matmul p[:, 1, :], id $copied++\n halt\n" TURN_OPERANDS TURN_RESULT},
    {"a permutation where an identity is known",
     TURN " ldweights x\n matmul p[:, 0, :], id.ap([[1, 64], [64, 2]]), transpose=true $copied++\n"
          " halt\n" TURN_OPERANDS TURN_RESULT},
    {"a row is read by other partitions, and then turned over",
     TURN " ldweights y\n matmul p[:, 0, :], id, transpose=true $copied++\n nop $ready>=3\n"
          " ldweights x\n matmul p[:, 0, :], id, transpose=true $copied++\n halt\n" TURN_OPERANDS
          " transpose32 k[32:64, :], p[0:1, 0, 32:64] $ready++\n nop $copied>=2\n"
          " tensor_copy p[32:64, 1, 64:65], k[32:64, :]\n" TURN_RESULT},
    {"a transpose of bytes", TURN
     " ldweights one16\n matmul b, one16, transpose=true\n ldweights h\n matmul b, one16, "
     "transpose=true $copied++\n halt\n" TURN_OPERANDS " tensor_copy p[:, 1, :], b\n" TURN_RESULT},
    {"a transpose of other weights than the last",
     TURN " ldweights x[0:32, 0:32]" CORNER "0\n"
          " matmul p[0:32, 1, 0:32], id[0:32, 0:32], transpose=true" CORNER "0\n"
          " ldweights y[32:64, 0:32]" CORNER "32\n"
          " matmul p[0:32, 0, 0:32], id[0:32, 0:32], transpose=true" CORNER "0\n"
          " matmul p[0:32, 0, 32:64], id[32:64, 32:64], transpose=true" CORNER "32\n"
          " ldweights x[0:32, 32:64]" CORNER "0\n"
          " matmul p[0:32, 1, 0:32], id[0:32, 0:32], transpose=true" CORNER "0\n"
          " ldweights y[0:32, 0:32], tile_rows=32, tile_cols=32, tile_row=0, tile_col=32\n"
          " matmul p[0:32, 0, 64:96], id[0:32, 0:32], transpose=true" CORNER "0 $copied++\n"
          " halt\n" TURN_OPERANDS TURN_RESULT},
};

static uint64_t mix(uint64_t h, const void *data, size_t n) {
  const uint8_t *p = data;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211u;
  return h;
}

typedef struct printed {
  soma_machine *m;
  uint64_t hash;
} printed;

/* The text, and what the machine has in memory meanwhile. */
static void add_print(void *ud, int to_stderr, const char *text, size_t n) {
  static uint8_t bytes[2048];
  printed *to = ud;
  (void)to_stderr;
  to->hash = mix(to->hash, text, n);
  assert_int_equal(soma_memory_read(to->m, SOMA_SBUF, 127, 0, bytes, sizeof bytes), SOMA_OK);
  to->hash = mix(to->hash, bytes, sizeof bytes);
}

typedef struct seen {
  uint64_t values,
      trace; /* hashes: of outputs, texts and, if the run stops once, its state there */
} seen;

static void ignore(void *ud, const soma_event *e) { (void)ud, (void)e; }

/* Numbers of threads. HOST: the host's own cores, and only what is worth it waits. ABSENT: the
 * other threads do nothing until all that they have got is needed. */
enum { PRETENDED = 8, HOST = 2, ABSENT = 64, ALL = 5 };
static const unsigned threads[ALL] = {1, HOST, PRETENDED, HOST | ABSENT, PRETENDED | ABSENT};

/* how 0: one thread, and a listener. At `stop`, if there is one, the host writes a partition. */
static seen run(const char *form, unsigned delay, unsigned how, soma_time stop) {
  static int32_t a[128 * 64], x[128 * 64];
  static const uint8_t zeros[2048]; /* all tiles of a partition */
  char text[4096];
  uint64_t h = 14695981039346656037u;
  printed out = {.hash = h};
  soma_options o = SOMA_OPTIONS_INIT;
  o.threads = how ? how & ~(unsigned)ABSENT : 1;
  o.event = how ? NULL : ignore;
  o.print = add_print;
  o.print_ud = &out;
  for (int i = 0; i < 128 * 64; i++) a[i] = i % 61;
  snprintf(text, sizeof text, form, delay, delay);
  vm_work_pretend((how & ~(unsigned)ABSENT) == HOST ? 0 : PRETENDED);
  vm_work_absent(how & ABSENT);
  bed b = bed_open(&o, text);
  out.m = b.m;
  bed_bind(&b, "a", SOMA_INT32, 128, 64, a);
  bed_start(&b);
  if (stop) {
    void *saved;
    size_t n;
    assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, stop), SOMA_OK);
    assert_int_equal(soma_run_save(b.r, &saved, &n), SOMA_OK);
    h = mix(h, saved, n);
    soma_bytes_free(saved);
    assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, 20, 0, zeros, sizeof zeros), SOMA_OK);
  }
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(soma_fetch(b.r, i ? "d" : "c", x, sizeof x), SOMA_OK);
    h = mix(h, x, sizeof x);
  }
  h = mix(h, &out.hash, sizeof out.hash);
  seen s = {h, bed_stats(&b).trace_hash};
  bed_close(&b);
  return s;
}

static bool same(seen a, seen b) { return a.values == b.values && a.trace == b.trace; }

enum { FIRST = 350, LAST = 700 }; /* rounds of the wait: the transfer ends in between */
/* The thread sanitizer makes a run fifty times slower: it gets every third of them. */
#ifdef __SANITIZE_THREAD__
enum { EVERY = 3 };
#else
enum { EVERY = 1 };
#endif

/* What one thread with a listener gives, and all others must. */
static seen run_all_ways(const char *name, const char *form, unsigned delay) {
  seen want = run(form, delay, 0, 0);
  for (size_t k = 0; k < ALL; k++)
    if (!same(run(form, delay, threads[k], 0), want))
      fail_msg("%s: after %u rounds %u threads%s give something else", name, delay,
               threads[k] & ~(unsigned)ABSENT, threads[k] & ABSENT ? ", absent," : "");
  return want;
}

static void nothing_sees_what_waits(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    unsigned kinds = 0;
    uint64_t last = 0;
    for (unsigned delay = FIRST; delay < LAST; delay += full_or(5, 14 * EVERY)) {
      seen want = run_all_ways(programs[i].name, programs[i].text, delay);
      kinds += want.values != last;
      last = want.values;
    }
    if (kinds < 2) fail_msg("%s: it always comes before or after the transfer", programs[i].name);
  }
}

static void nothing_overtakes_what_was_handed_over(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    run_all_ways(large[i].name, large[i].text, 0);
}

static void transposes_wait(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
    run_all_ways(turns[i].name, turns[i].text, 0);
}

/* A transpose of core 1 waits when a transfer of core 0 writes what it turns, at the same place in
 * the other core's SBUF. */
static void transposes_of_the_other_core_wait(void **state) {
  static const char text[] =
      "target trn2\na tensor int32[128, 64], input\nc tensor int32[128, 64], output\n"
      "d tensor int32[128, 64], output\nx tile sbuf float32[128, 128]\n"
      "y tile sbuf float32[128, 128]\nid tile sbuf float32[128, 128]\n"
      "t tile sbuf int32[128, 64]\np tile psum float32[128, 2, 128]\n"
      "q queue rings=16, dge=hwdge, core=*\nloaded sem core=*\nready sem core=*\n"
      "section sync core=1\n dma_copy t, a, queue=q $loaded\n"
      " dma_copy c, t, queue=q $ready>=4 $loaded\n halt\n"
      "section gpsimd core=1\n memset id, 1.0\n affine_select id, id, 0.0, pattern=[[-1, 128]], "
      "multiplier=1, cmp=is_equal $ready++\n halt\n"
      "section vector core=1\n tensor_copy x[:, 0:64], t $loaded>=16\n"
      " tensor_copy x[:, 64:128], t $ready++\n tensor_copy t, p[:, 1, 32:96] $ready>=3\n"
      " drain\n nop $ready++\n halt\n"
      "section tensor core=1\n nop $ready>=2\n ldweights x\n"
      " matmul p[:, 0, :], id, transpose=true\n ldweights x\n"
      " matmul p[:, 1, :], id, transpose=true $peer.ready++\n halt\n"
      "section sync\n dma_copy x[32:64, :].peer, y[0:32, :], queue=q $ready>=1 $loaded\n"
      " nop $loaded>=16\n nop $peer.ready++\n halt\n";
  (void)state;
  run_all_ways("a transfer of the other core writes what is turned", text, 0);
}

static void stops_see_all_that_has_ended(void **state) {
  (void)state;
  const char *text = programs[0].text;
  for (soma_time ns = 1500; ns < 3000; ns += full_or(11, 53 * EVERY))
    assert_true(same(run(text, LAST, 8, ns * 1000000), run(text, LAST, 0, ns * 1000000)));
}

static void the_host_writes_what_transposes_read(void **state) {
  static const char text[] = TURNS("450", SAME) TURNED TURNED_RESULT;
  (void)state;
  for (soma_time ns = 2000; ns < 4000; ns += full_or(11, 53 * EVERY))
    assert_true(same(run(text, FIRST, 1, ns * 1000000), run(text, FIRST, 0, ns * 1000000)));
}

/* A machine that stays, and with it the threads: to start them takes longer than most programs
 * here. */
static int hold_threads(void **state) {
  soma_options o = SOMA_OPTIONS_INIT;
  return soma_machine_new(&o, (soma_machine **)state) != SOMA_OK;
}

static int let_go(void **state) {
  soma_machine_free(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_sees_what_waits),
      cmocka_unit_test(nothing_overtakes_what_was_handed_over),
      cmocka_unit_test(transposes_wait),
      cmocka_unit_test(transposes_of_the_other_core_wait),
      cmocka_unit_test(stops_see_all_that_has_ended),
      cmocka_unit_test(the_host_writes_what_transposes_read),
  };
  return cmocka_run_group_tests(tests, hold_threads, let_go);
}
