/* soma_critical_path: the record of causes as segments for the caller. */
#include "../message.h"
#include "../time/clock.h"
#include "impl.h"

/* In words that a reader of the explanation understands. */
static const char *const causes[] = {
    [VM_WHY_START] = "start of the run",
    [VM_WHY_SEM] = "semaphore",
    [VM_WHY_ENGINE] = "data path busy",
    [VM_WHY_HAZARD] = "same bytes in flight",
    [VM_WHY_WEIGHTS] = "weights loading",
    [VM_WHY_PORT] = "memory port taken",
    [VM_WHY_TABLE] = "activation table loading",
    [VM_WHY_DEPTH] = "sequencer far ahead",
    [VM_WHY_DRAIN] = "drain",
    [VM_WHY_TRIGGER] = "DMA trigger",
    [VM_WHY_DMA] = "DMA engine busy",
    [VM_WHY_RING] = "ring full",
    [VM_WHY_GENERATOR] = "descriptor generator busy",
    [VM_WHY_MEET] = "other core's sendrecv",
    [VM_WHY_PEER] = "on the way to another rank",
};

typedef struct segments {
  const soma_run *r;
  soma_path_segment *out;
  uint32_t n, max, total; /* total: 0 while counting */
} segments;

static void add_segment(void *ud, const vm_core *of, const vm_node *n, vm_time from, vm_time until,
                        bool gap) {
  static const uint8_t kinds[] = {[VM_N_INSN] = SOMA_PATH_DATA,
                                  [VM_N_SEQ] = SOMA_PATH_SEQUENCER,
                                  [VM_N_SHARE] = SOMA_PATH_TRANSFER,
                                  [VM_N_TABLE] = SOMA_PATH_DELAY};
  /* A table is a segment of its own, and what follows it has waited for it. */
  vm_why why = gap || n->kind != VM_N_TABLE ? (vm_why)n->why : VM_WHY_TABLE;
  segments *s = ud;
  /* Counted first, so that the earliest can be put in front. */
  uint32_t at = s->total - 1 - s->n++; /* they come latest first */
  /* While counting nothing is written. */
  if (!s->total || at >= s->max) return;
  const isa_core *core = &of->prog->cores[n->core];
  const isa_code *code = &core->code[n->by];
  soma_path_segment *o = &s->out[at];
  *o = (soma_path_segment){.kind = gap ? SOMA_PATH_DELAY : (soma_path_kind)kinds[n->kind],
                           .engine = n->by,
                           .core = n->core,
                           .dma_engine = n->kind == VM_N_SHARE ? n->who : -1,
                           .pc = n->pc,
                           .cause = causes[why],
                           .start = from,
                           .end = until,
                           .queue = -1,
                           .semaphore = why == VM_WHY_SEM ? n->sem : -1,
                           /* Segments of this rank have none. */
                           .rank = of == s->r->run.cores[0] ? -1 : (int)of->run->peers->rank};
  if (why == VM_WHY_SEM) o->semaphore_name = core->sem_names[n->sem];
  /* A halted engine has no instruction at its pc. */
  if (n->pc >= code->n) return;
  o->queue = isa_insn_queue(&code->insns[n->pc]);
  if (o->queue >= 0) o->queue_name = core->queues[o->queue].name;
  o->name = isa_ops[code->insns[n->pc].op].name;
  /* Without a line table there is no place. */
  if (code->lines && code->lines[n->pc].file) {
    o->line = code->lines[n->pc].line;
    o->file = of->prog->files[code->lines[n->pc].file - 1];
  }
}

soma_status soma_critical_path(const soma_run *r, soma_path_segment *out, uint32_t max,
                               uint32_t *n) {
  if (!r || !n || (max && !out)) return SOMA_ARG;
  segments s = {.r = r, .out = out, .max = max};
  *n = 0;
  /* The run was started without `causes`. */
  if (!r->run.cores[0]->path) return SOMA_ARG;
  /* Twice: the first time to count, the second time to fill in. */
  vm_path_walk(r->run.cores[0], add_segment, &s);
  *n = s.total = s.n;
  s.n = 0;
  vm_path_walk(r->run.cores[0], add_segment, &s);
  return SOMA_OK;
}
