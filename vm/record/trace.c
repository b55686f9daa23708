/* A recorder's events seen with their program: instructions, lines, texts, lanes, transfers. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

/* Memory of the view is the recorder's, so it has its allocator. */
bool vm_rec_open(vm_rec_view *t, const soma_recorder *r, const soma_program *p) {
  memset(t, 0, sizeof *t);
  t->r = r;
  t->p = p->p;
  t->al = r->al;
  t->n = r->n;
  /* Numbers of instructions run over all units: base is where each begins. */
  for (unsigned u = 0; u < VM_REC_UNITS; u++)
    t->base[u + 1] = t->base[u] + t->p->cores[vm_rec_unit_core(u)].code[vm_rec_unit_seq(u)].n;
  isa_arena_init(&t->arena, &t->al);
  t->text = isa_arena_alloc(&t->arena, (t->base[VM_REC_UNITS] + 1) * sizeof *t->text);
  if (!t->text) {
    isa_arena_free(&t->arena);
    return false;
  }
  t->begin = t->n ? UINT64_MAX : 0;
  for (uint32_t i = 0; i < t->n; i++) {
    const vm_rec_event *v = vm_rec_at(r, i);
    t->begin = v->start < t->begin ? v->start : t->begin;
    t->total = v->end > t->total ? v->end : t->total;
  }
  /* With a filter the last event need not be the run's end. */
  t->part = r->dropped || r->o.from || r->o.until || r->o.kinds || r->o.engines;
  /* A run may end after its last event: a ring without bytes is no event. */
  if (!t->part && r->has_stats && r->stats.time > t->total) t->total = r->stats.time;
  return true;
}

void vm_rec_close(vm_rec_view *t) { isa_arena_free(&t->arena); }

/* The program may be another one than was recorded: places are compared first. */
const isa_insn *vm_rec_insn(const vm_rec_view *t, const vm_rec_event *v, uint32_t *number) {
  unsigned e = vm_rec_engine(v);
  *number = UINT32_MAX;
  if (e >= ISA_NSEQS || v->pc >= t->p->cores[v->by_core].code[e].n) return NULL;
  *number = t->base[vm_rec_unit(v->by_core, e)] + v->pc;
  return &t->p->cores[v->by_core].code[e].insns[v->pc];
}

isa_line vm_rec_line(const vm_rec_view *t, const vm_rec_event *v) {
  unsigned e = vm_rec_engine(v);
  if (e >= ISA_NSEQS) return (isa_line){0};
  const isa_code *c = &t->p->cores[v->by_core].code[e];
  return c->lines && v->pc < c->n ? c->lines[v->pc] : (isa_line){0};
}

const char *vm_rec_file(const vm_rec_view *t, uint32_t file) {
  return file ? t->p->files[file - 1] : "";
}

/* Made when asked for, and once: a loop's instruction has thousands of events. */
const char *vm_rec_operands(vm_rec_view *t, const vm_rec_event *v) {
  uint32_t number;
  const isa_insn *in = vm_rec_insn(t, v, &number);
  if (!in) return "";
  if (!t->text[number]) {
    isa_buf b;
    isa_buf_init(&b, &t->al);
    isa_print_insn(t->p, v->by_core, vm_rec_engine(v), in, &b);
    const char *s = isa_buf_str(&b);
    /* Without the mnemonic, which has a column of its own. */
    s += strcspn(s, " ");
    s += strspn(s, " ");
    t->text[number] = b.failed ? NULL : isa_arena_strn(&t->arena, s, strlen(s));
    if (!t->text[number]) t->failed = true;
    isa_buf_free(&b);
  }
  return t->text[number] ? t->text[number] : "";
}

void vm_rec_put_sem(const vm_rec_view *t, unsigned core, uint32_t id, isa_buf *out) {
  const char *name = id < ISA_NSEMS ? t->p->cores[core].sem_names[id] : NULL;
  if (name)
    isa_buf_puts(out, name);
  else
    isa_buf_printf(out, "sem%u", id);
}

void vm_rec_put_queue(const vm_rec_view *t, unsigned core, uint32_t id, isa_buf *out) {
  const isa_core *of = &t->p->cores[core];
  if (id < of->nqueues && of->queues[id].name)
    isa_buf_puts(out, of->queues[id].name);
  else
    isa_buf_printf(out, "queue%u", id);
}

/* ---- Order and lanes ---------------------------------------------------------------------- */

/* qsort is not stable, so the place in the recording is a part of the key. */
typedef struct start_key {
  vm_time start;
  uint32_t i;
} start_key;

static int by_start(const void *a, const void *b) {
  const start_key *x = a, *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return x->i < y->i ? -1 : 1;
}

uint32_t *vm_rec_by_start(const vm_rec_view *t) {
  start_key *keys = isa_zalloc(&t->al, ((size_t)t->n + 1) * sizeof *keys);
  uint32_t *out = vm_rec_new_array(t, sizeof *out);
  if (keys && out) {
    for (uint32_t i = 0; i < t->n; i++) keys[i] = (start_key){vm_rec_at(t->r, i)->start, i};
    qsort(keys, t->n, sizeof *keys, by_start);
    for (uint32_t i = 0; i < t->n; i++) out[i] = keys[i].i;
  } else {
    vm_rec_free_array(t, out, sizeof *out);
    out = NULL;
  }
  isa_free(&t->al, keys, ((size_t)t->n + 1) * sizeof *keys);
  return out;
}

/* The track on which the event could overlap others; VM_REC_TRACKS: it cannot. */
static unsigned lane_track(const vm_rec_event *v) {
  unsigned e = vm_rec_track(v);
  if (v->kind == VM_EV_DMA && v->engine < ISA_NDMA)
    return VM_REC_DMA_ENGINES + (unsigned)v->core * ISA_NDMA + v->engine;
  if (e < VM_REC_UNITS && v->kind == VM_EV_TRIGGER) return VM_REC_TRIGGERS + e;
  return e < VM_REC_UNITS && vm_rec_is_work(v) ? e : (unsigned)VM_REC_TRACKS;
}

uint8_t *vm_rec_lanes(const vm_rec_view *t, const uint32_t *order, uint32_t used[VM_REC_TRACKS]) {
  vm_time ends[VM_REC_TRACKS][VM_REC_LANES] = {{0}};
  uint8_t *lanes = vm_rec_new_array(t, 1);
  memset(used, 0, VM_REC_TRACKS * sizeof *used);
  for (uint32_t k = 0; lanes && k < t->n; k++) {
    const vm_rec_event *v = vm_rec_at(t->r, order[k]);
    unsigned e = lane_track(v);
    uint32_t l = 0;
    /* Events without a lane stay 0. */
    if (e >= VM_REC_TRACKS) continue;
    /* The last lane takes what fits in none. */
    while (l + 1 < VM_REC_LANES && l < used[e] && ends[e][l] > v->start) l++;
    ends[e][l] = v->end;
    used[e] = l + 1 > used[e] ? l + 1 : used[e];
    lanes[order[k]] = (uint8_t)l;
  }
  return lanes;
}

/* ---- Operands ----------------------------------------------------------------------------- */

struct accesses {
  const isa_core *core;
  vm_rec_access *out;
  uint32_t n;
};
static void add_access(void *ud, const isa_operand *o) {
  struct accesses *a = ud;
  uint32_t index = o->ap->index_kind ? o->ap->index : 0;
  /* Room for an operand and its index.
   * Further operands are left out rather than written past the array. */
  if (a->n + 2 > VM_REC_APS) return;
  a->out[a->n++] = (vm_rec_access){o->ap, o->flags & AP_W};
  if (index && index <= a->core->naps)
    a->out[a->n++] = (vm_rec_access){&a->core->aps[index - 1], false};
}

uint32_t vm_rec_accesses(const isa_program *p, unsigned core, const isa_insn *in,
                         vm_rec_access out[VM_REC_APS]) {
  struct accesses a = {&p->cores[core], out, 0};
  isa_each_operand(p, a.core, in, add_access, &a);
  return a.n;
}

/* ---- DMA ---------------------------------------------------------------------------------- */

static const char *tensor_name(const isa_program *p, const isa_ap *ap) {
  const char *name = NULL;
  if (ap->base && ap->space == ISA_HBM && ap->base <= p->ntensors)
    name = p->tensors[ap->base - 1].name;
  else if (ap->base && ap->space != ISA_HBM && ap->base <= p->ntiles)
    name = p->tiles[ap->base - 1].name;
  return name ? name : "";
}

static vm_rec_ends ends_of(const isa_program *p, unsigned core, const isa_insn *in) {
  vm_rec_access a[VM_REC_APS];
  vm_rec_ends ends = {0, 0, ""};
  uint32_t n = vm_rec_accesses(p, core, in, a);
  for (uint32_t i = 0; i < n; i++) {
    uint8_t *end = a[i].writes ? &ends.dst : &ends.src;
    if (*end) continue; /* an index vector, or a further source */
    *end = a[i].ap->space;
    /* HBM's name says more: there is one tensor, but tiles come and go. */
    if (!ends.tensor[0] || a[i].ap->space == ISA_HBM) ends.tensor = tensor_name(p, a[i].ap);
  }
  return ends;
}

vm_rec_ends vm_rec_ends_of(const vm_rec_view *t, const vm_rec_event *v) {
  uint32_t number;
  const isa_insn *in = vm_rec_insn(t, v, &number);
  vm_rec_ends none = {0, 0, ""};
  if (!in || !isa_op_is_dma(in->op)) return none;
  const isa_core *core = &t->p->cores[v->by_core];
  if (in->op != ISA_OP_dma_trigger) return ends_of(t->p, v->by_core, in);
  if (v->id >= core->nqueues || !core->queues[v->id].nstatics) return none;
  /* The event does not say which of the queue's transfers it belonged to. */
  const isa_queue *q = &core->queues[v->id];
  /* What all of them have in common is true for each. */
  vm_rec_ends ends = ends_of(t->p, v->by_core, &q->statics[0]);
  for (uint32_t i = 1; i < q->nstatics; i++) {
    vm_rec_ends other = ends_of(t->p, v->by_core, &q->statics[i]);
    ends.src = ends.src == other.src ? ends.src : 0;
    ends.dst = ends.dst == other.dst ? ends.dst : 0;
    ends.tensor = strcmp(ends.tensor, other.tensor) == 0 ? ends.tensor : "";
  }
  return ends;
}
