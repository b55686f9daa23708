/* The recorder: events in blocks that do not move; when it is full it becomes a ring. */
#include "record.h"

#include <string.h>

/* max is lowered when memory runs out, so clearing sets it again. */
static void set_limit(soma_recorder *r) {
  uint64_t most = UINT32_MAX - 1; /* an index + 1 fits in 32 bits */
  r->max = (uint32_t)(r->o.max_events && r->o.max_events < most ? r->o.max_events : most);
}

soma_status soma_recorder_new(const soma_recorder_options *options, soma_recorder **out) {
  if (!out) return SOMA_ARG;
  soma_recorder_options o = SOMA_RECORDER_OPTIONS_INIT;
  *out = NULL;
  if (options) {
    /* An older caller has a shorter struct. */
    if (options->size < offsetof(soma_recorder_options, kinds) || options->size > sizeof o)
      return SOMA_ARG;
    memcpy(&o, options, options->size);
  }
  isa_alloc al = o.alloc ? (isa_alloc){o.alloc, o.alloc_ud} : isa_alloc_default();
  soma_recorder *r = isa_zalloc(&al, sizeof *r);
  if (!r) return SOMA_NOMEM;
  r->o = o;
  r->al = al;
  set_limit(r);
  *out = r;
  return SOMA_OK;
}

/* Copies of the world's rows, which the recorder owns.
 * The world may be freed before the recorder: rows are copied. */
static void forget_links(soma_recorder *r) {
  isa_free(&r->al, r->links, r->nlinks * sizeof *r->links);
  isa_free(&r->al, r->passes, r->npasses * sizeof *r->passes);
  r->links = NULL;
  r->passes = NULL;
  r->nlinks = r->npasses = 0;
}

static void forget_collectives(soma_recorder *r) {
  isa_free(&r->al, r->ccs, r->nccs * sizeof *r->ccs);
  r->ccs = NULL;
  r->nccs = 0;
}

soma_status soma_recorder_collectives(soma_recorder *r, const struct soma_world *w, uint32_t rank) {
  if (!r || !w || rank >= soma_world_ranks(w)) return SOMA_ARG;
  forget_collectives(r);
  uint32_t n = soma_world_collectives(w, rank);
  if (!n) return SOMA_OK;
  if (!(r->ccs = isa_zalloc(&r->al, n * sizeof *r->ccs))) return SOMA_NOMEM;
  r->nccs = n;
  for (uint32_t i = 0; i < n; i++) {
    soma_world_collective(w, rank, i, &r->ccs[i]);
    r->ccs[i].file = NULL; /* which may be gone later: the program's own lines are taken */
  }
  return SOMA_OK;
}

soma_status soma_recorder_links(soma_recorder *r, const struct soma_world *w) {
  if (!r || !w) return SOMA_ARG;
  forget_links(r);
  uint32_t n = soma_world_links(w), k = soma_world_passes(w);
  if (!n || !k) return SOMA_OK;
  r->nlinks = n;
  r->npasses = k;
  /* Set before the allocation: on failure forget_links frees what there is. */
  r->links = isa_zalloc(&r->al, n * sizeof *r->links);
  r->passes = isa_zalloc(&r->al, k * sizeof *r->passes);
  if (!r->links || !r->passes) {
    forget_links(r);
    return SOMA_NOMEM;
  }
  for (uint32_t i = 0; i < n; i++) soma_world_link(w, i, &r->links[i]);
  for (uint32_t i = 0; i < k; i++) soma_world_pass(w, i, &r->passes[i]);
  return SOMA_OK;
}

void soma_recorder_free(soma_recorder *r) {
  if (!r) return;
  isa_alloc al = r->al;
  forget_links(r);
  forget_collectives(r);
  for (uint32_t i = 0; i < r->nblocks; i++)
    isa_free(&al, r->blocks[i], VM_REC_BLOCK * sizeof **r->blocks);
  isa_free(&al, r->blocks, r->cap_blocks * sizeof *r->blocks);
  isa_free(&al, r, sizeof *r);
}

/* Blocks stay: the next run will need them again. */
void soma_recorder_clear(soma_recorder *r) {
  if (!r) return;
  r->n = r->first = 0;
  r->dropped = 0;
  r->has_stats = false;
  forget_links(r);
  forget_collectives(r);
  set_limit(r);
}

uint64_t soma_recorder_count(const soma_recorder *r) { return r ? r->n : 0; }
uint64_t soma_recorder_dropped(const soma_recorder *r) { return r ? r->dropped : 0; }

/* Filters are asked before anything is stored. */
static bool wanted(const soma_recorder_options *o, const soma_event *e) {
  /* A share is filtered by the engine that triggered it. */
  uint32_t engine = e->kind == SOMA_EV_DMA ? e->value : e->engine;
  /* Kinds and cores are indices below, so an unknown one is left out. */
  if (e->kind < SOMA_EV_INSN || e->kind > SOMA_EV_MEET)
    return false; /* a kind of a later version */
  if (e->core >= ISA_MAX_CORES || e->by_core >= ISA_MAX_CORES) return false;
  if (o->kinds && !(o->kinds & (1u << e->kind))) return false;
  if (o->engines && (engine >= ISA_NSEQS || !(o->engines & (1u << engine)))) return false;
  /* Those that overlap the time that was asked for. */
  return e->end >= o->from && (!o->until || e->start < o->until);
}

static bool add_block(soma_recorder *r) {
  /* Blocks do not move, so a recorder of gigabytes never copies itself. */
  if (r->nblocks == r->cap_blocks &&
      !isa_array_grow(&r->al, &r->blocks, r->nblocks, &r->cap_blocks, sizeof *r->blocks))
    return false;
  r->blocks[r->nblocks] = isa_zalloc(&r->al, VM_REC_BLOCK * sizeof **r->blocks);
  if (!r->blocks[r->nblocks]) return false;
  r->nblocks++;
  return true;
}

/* Where the next event goes; NULL when it is dropped. */
static vm_rec_event *next_place(soma_recorder *r) {
  uint32_t at = r->n;
  if (at < r->max && at == r->nblocks * (uint32_t)VM_REC_BLOCK && !add_block(r))
    r->max = at; /* it is full from now on */
  if (at < r->max) {
    r->n++;
  } else {
    r->dropped++;
    /* Without keep_last the first events stay; a limit that memory has set may be 0. */
    if (!r->o.keep_last || !r->max) return NULL;
    /* The oldest makes room.
     * The ring: first moves on, and what it pointed to is written over. */
    at = r->first;
    r->first = at + 1 < r->max ? at + 1 : 0;
  }
  return &r->blocks[at / VM_REC_BLOCK][at % VM_REC_BLOCK];
}

void soma_recorder_event(void *recorder, const soma_event *e) {
  soma_recorder *r = recorder;
  vm_rec_event *v = r && e && wanted(&r->o, e) ? next_place(r) : NULL;
  /* Fields are narrowed to the event's bits; what they hold has been checked above. */
  if (v)
    *v = (vm_rec_event){.start = e->start,
                        .end = e->end,
                        .bytes = e->bytes,
                        .pc = e->pc,
                        .id = e->id,
                        .value = e->value,
                        .kind = e->kind & 15,
                        .engine = e->engine & 255,
                        .core = e->core & 1,
                        .by_core = e->by_core & 1,
                        .part = e->part & 0xffff};
}

void soma_recorder_stats(soma_recorder *r, const soma_stats *s, size_t n) {
  /* A shorter struct leaves the later figures 0. */
  if (!r || !s) return;
  memset(&r->stats, 0, sizeof r->stats);
  /* The callers' struct may be shorter or longer. */
  memcpy(&r->stats, s, n < sizeof r->stats ? n : sizeof r->stats);
  r->has_stats = true;
}

static const char *name_of(const isa_program *p, const vm_rec_event *v) {
  const isa_core *core = &p->cores[v->core], *by = &p->cores[v->by_core];
  /* By what it is: a queue, a semaphore, or an instruction. */
  if (vm_rec_moves(v)) return v->id < core->nqueues ? core->queues[v->id].name : NULL;
  if (v->kind == VM_EV_SEM || v->kind == VM_EV_WAIT)
    return v->id < ISA_NSEMS ? core->sem_names[v->id] : NULL;
  if (v->kind == VM_EV_TABLE) return isa_ops[ISA_OP_load_act_table].name;
  if ((v->kind == VM_EV_INSN || v->kind == VM_EV_MEET) && v->engine < ISA_NSEQS &&
      /* A program other than the recorded one may be shorter. */
      v->pc < by->code[v->engine].n)
    return isa_ops[by->code[v->engine].insns[v->pc].op].name;
  return NULL;
}

soma_status soma_recorder_get(const soma_recorder *r, const soma_program *p, uint64_t i,
                              soma_event *out) {
  if (!r || !p || !out) return SOMA_ARG;
  /* Events are numbered from the oldest that is kept. */
  if (i >= r->n) return SOMA_ARG;
  const vm_rec_event *v = vm_rec_at(r, (uint32_t)i);
  vm_rec_view t = {.r = r, .p = p->p};
  isa_line at = vm_rec_line(&t, v);
  *out = (soma_event){.kind = v->kind,
                      .engine = v->engine,
                      .pc = v->pc,
                      .id = v->id,
                      .start = v->start,
                      .end = v->end,
                      .bytes = v->bytes,
                      .value = v->value,
                      .core = v->core,
                      .by_core = v->by_core,
                      .line = at.line,
                      .name = name_of(p->p, v),
                      .file = at.file ? p->p->files[at.file - 1] : NULL};
  return SOMA_OK;
}
