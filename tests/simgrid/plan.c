/* A collective of a world as the judge of links takes it: its devices, routes, and what the CC
 * sequencers of each rank do. Then the time that Soma takes for it, with transfers that cost next
 * to nothing: what is left is links. plan INSTANCE RANKS STRIDE LNC ALGORITHM OP ELEMENTS [RATE] of
 * ranks 0, STRIDE, 2 STRIDE ...; RATE: thousandths of a byte per ns at which a DMA ring sends. */
#include "../../vm/api/world_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char costs[] =
    "DMA_R_IN 100000000\nDMA_HBM 100000000\nDMA_SUM 1000\nDMA_ELEMENT 0\n"
    "DMA_TRANSFER 0\nDMA_STATIC 0\nDMA_FIRST 0\nDMA_STAGGER 0\nDMA_SEM 0\nDMA_RESUME 0\n"
    "DMA_RING_DESC 0\nDMA_ENG_DESC 0\nCC_RING_DESC 0\nCC_START 0\nCC_STEP 0\nCC_PACKET 4096\nCC_RINGS 12\n"
    "SEM_SEEN 0\nSEM_PEER 0\nSEM_SELF 0\nLINK_LAT 200\nLINK_HOP 200\n";

static soma_world *w;

static void die(const char *what, const char *text) {
  fprintf(stderr, "%s: %s\n", what, text);
  exit(1);
}

/* What a rank of the list runs, or what the others run. */
static char *source(int ranks, int stride, int lnc, const char *op, long elems) {
  char *text = malloc(4096 + 8 * (size_t)ranks);
  bool gathers = strcmp(op, "all_gather") == 0, scatters = strcmp(op, "reduce_scatter") == 0;
  int n = sprintf(text, "tp group [[0");
  for (int r = stride; r < ranks; r += stride) n += sprintf(text + n, ",%d", r);
  ranks /= stride;
  sprintf(
      text + n,
      "]]\nx tensor float32[%ld], input\ny tensor float32[%ld], output\ndone sem core=*\n"
      "section gpsimd core=*\n%s dsts=[y], srcs=[x], group=tp%s%s $done++\nnop $done>=1\nhalt\n",
      gathers ? elems / ranks : elems, scatters ? elems / ranks : elems, op,
      gathers || strcmp(op, "all_to_all") == 0 ? "" : ", op=add", lnc == 2 ? ", both=true" : "");
  for (char *at = text; lnc == 1 && (at = strstr(at, " core=*"));) memset(at, ' ', 7);
  return text;
}

static void put_links(void) {
  const vm_links *l = &w->w.links;
  uint32_t devices = (w->o.ranks - 1) / l->o.ranks_of_device + 1;
  printf("devices %u %u\n", devices, l->o.ranks_of_device);
  for (uint32_t i = 0; i < l->n; i++) printf("link %u %u\n", i, l->v[i].rate);
  for (uint32_t a = 0; a < devices; a++)
    for (uint32_t b = 0; b < devices; b++) {
      const vm_link *x = a == b ? NULL : vm_links_route(l, a, b);
      if (!x) continue;
      printf("route %u %u", a, b);
      for (; x; x = vm_links_after(l, x, b)) printf(" %u", (unsigned)(x - l->v));
      printf("\n");
    }
}

static unsigned rank_of(const isa_program *p, uint32_t slot) { return p->peers[slot - 1].value; }

/* A push raises by 1 for each of its rings. */
static void put_trigger(const isa_program *p, const isa_core *c, const isa_insn *in) {
  const isa_queue *q = &c->queues[in->u.TRIGGER.queue];
  for (int i = 0; i < in->u.TRIGGER.count.v; i++) {
    const isa_insn *t = &q->statics[in->u.TRIGGER.first - 1 + (uint32_t)i];
    if (in->upd.kind != ISA_UPD_peer) {
      printf("add %u %u %u\n", in->upd.core, in->upd.sem, q->rings);
      continue;
    }
    const isa_ap *ap = &c->aps[t->u.DMA_COPY.dst - 1];
    printf("push %u %u %u %llu\n", rank_of(p, ap->rank), in->upd.sem, q->rings,
           (unsigned long long)(isa_ap_elems(ap) * isa_dtype_bytes(ap->dtype)));
  }
}

static void put_sequencer(const isa_program *p, uint32_t rank, unsigned core, unsigned k) {
  const isa_core *c = &p->cores[core];
  const isa_code *code = &c->code[ISA_NENGINES + k];
  if (!code->n) return;
  printf("sequencer %u %u\n", rank, core);
  for (uint32_t pc = 0; pc < code->n; pc++) {
    const isa_insn *in = &code->insns[pc];
    if (in->op == ISA_OP_dma_trigger)
      put_trigger(p, c, in);
    else if (in->wait.cond == ISA_WAIT_ge)
      printf("wait %u %u\n", in->wait.sem, in->wait.value);
    else if (in->upd.kind == ISA_UPD_peer)
      printf("push %u %u 1 64\n", rank_of(p, in->upd.value), in->upd.sem);
    else if (in->upd.kind == ISA_UPD_inc)
      printf("add %u %u 1\n", in->upd.core, in->upd.sem);
  }
}

static soma_program *assemble(const char *text, const char *name) {
  soma_program *p;
  soma_diagnostics *d = NULL;
  if (soma_assemble(soma_world_machine(w, 0), text, strlen(text), name, NULL, &p, &d) != SOMA_OK)
    die("assemble", soma_diagnostics_text(d));
  soma_diagnostics_free(d);
  return p;
}

int main(int argc, char **argv) {
  if (argc != 8 && argc != 9) die("plan", "INSTANCE RANKS STRIDE LNC ALGORITHM OP ELEMENTS [RATE]");
  const char *rate = argc == 9 ? argv[8] : "100000000";
  const int stride = atoi(argv[3]);
  const char *op = argv[6], *nothing = "section gpsimd core=*\nhalt\n";
  char error[512] = "";
  soma_options m = SOMA_OPTIONS_INIT;
  m.timing_only = 1;
  char all[sizeof costs + 64];
  snprintf(all, sizeof all, "%sDMA_R_OUT %s\n", costs, rate);
  m.costs = all;
  soma_world_options o = {.size = sizeof o,
                          .instance = argv[1],
                          .ranks = (uint32_t)atoi(argv[2]),
                          .lnc = (uint32_t)atoi(argv[4]),
                          .algorithm = argv[5],
                          .machine = &m,
                          .threads = 1,
                          .error = error,
                          .error_size = sizeof error};
  if (soma_world_new(&o, &w) != SOMA_OK) die("world", error);
  char *text = source((int)o.ranks, stride, (int)o.lnc, op, atol(argv[7]));
  soma_program *p = assemble(text, op),
               *idle = assemble(o.lnc == 2 ? nothing : "section gpsimd\nhalt\n", "idle");
  for (uint32_t r = 0; r < o.ranks; r++)
    if (soma_world_load(w, r, r % (uint32_t)stride ? idle : p) != SOMA_OK)
      die("load", soma_world_error(w));
  if (soma_world_start(w) != SOMA_OK) die("start", soma_world_error(w));
  printf("source %s\n", rate);
  put_links();
  for (uint32_t r = 0; r < o.ranks; r++) {
    soma_program *planned = soma_world_program(w, r);
    for (unsigned c = 0; c < o.lnc; c++)
      for (unsigned k = 0; k < ISA_NCC; k++) put_sequencer(planned->p, r, c, k);
    soma_program_free(planned);
  }
  if (soma_world_until(w, SOMA_TIME_END) != SOMA_OK) die("run", soma_world_error(w));
  soma_collective x;
  soma_time end = 0, first = UINT64_MAX;
  for (uint32_t r = 0; r < o.ranks; r += (uint32_t)stride) {
    if (soma_world_collective(w, r, 0, &x) != SOMA_OK) die("collective", soma_world_error(w));
    if (x.end > end) end = x.end;
    if (x.issued < first) first = x.issued;
  }
  printf("soma %s %.3f\n", x.algorithm, (double)(end - first) / VM_NS);
  soma_program_free(p);
  soma_program_free(idle);
  soma_world_free(w);
  free(text);
  return 0;
}
