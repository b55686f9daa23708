/* The program, from the steps: for each engine its instructions, with waits and updates. */
#include "../isa/operand.h"
#include "called.h"
#include "names.h"

#include <stdio.h>

enum { TEMP_REG = ISA_NREGS - 1, MOST_BASES = 8, AHEAD = 4 };

/* In a loop the values of semaphores are a register plus a constant: one register for each amount
 * that one of them rises by in a round. A loop in a loop has one more, which counts its rounds from
 * the beginning of the outermost one. */
typedef struct bases {
  uint32_t by[MOST_BASES];
  uint8_t reg[MOST_BASES];
  unsigned n;
  uint8_t rounds; /* that register; 0: it has none, as place 0 is a kernel register's */
  uint8_t first;  /* register that was free before it */
  uint32_t top;   /* pc of the loop's branch to its end */
} bases;

typedef struct maker {
  as_kernel *k;
  isa_program *p;
  as_k_binder bind;
  as_k_names *names;
  const as_k_names *before; /* of core 0, when this is core 1 */
  unsigned core;
  unsigned engine;
  uint32_t *files; /* by the kernel's number: that of the program, 0 not yet */
  bases *loops;    /* by scope, of this engine */
  uint32_t *order, first[ISA_NENGINES + 1]; /* steps by engine: those of e from first[e] on */
  uint8_t next_base;
} maker;

static bool out_of_memory(maker *m) { return as_k_nomem(m->k); }

/* The program's number of a file, which core 0 may have used already; 0: memory is out. */
static uint32_t file_number(isa_program *p, const char *name) {
  for (uint32_t i = 0; i < p->nfiles; i++)
    if (strcmp(p->files[i], name) == 0) return i + 1;
  return isa_program_file(p, name);
}

/* The next instruction of the engine, to be filled where it lies; NULL: memory is out. */
static isa_insn *next_insn(maker *m, isa_line at) {
  if (at.file && !m->files[at.file])
    m->files[at.file] = file_number(m->p, m->k->files[at.file - 1]);
  bool known = !at.file || m->files[at.file];
  at.file = at.file ? m->files[at.file] : 0;
  isa_insn *in = known ? isa_program_next_insn(m->p, m->core, m->engine, at) : NULL;
  if (!in) out_of_memory(m);
  m->k->figures.made++;
  return in;
}

/* Semaphores are the core's own. */
static void set_events(const maker *m, isa_insn *in, isa_wait wait, isa_update upd) {
  if (wait.cond != ISA_WAIT_none) wait.core = (uint8_t)m->core;
  if (upd.kind != ISA_UPD_none) upd.core = (uint8_t)m->core;
  in->wait = wait;
  in->upd = upd;
}

static bool put(maker *m, const isa_insn *in, isa_line at) {
  isa_insn *to = next_insn(m, at);
  if (!to) return false;
  *to = *in;
  set_events(m, to, in->wait, in->upd);
  return true;
}

static uint32_t pc_of(const maker *m) { return m->p->cores[m->core].code[m->engine].n; }

/* ---- Register instructions ----------------------------------------------------------------- */

static bool put_mov(maker *m, uint8_t rd, isa_int a, isa_line at) {
  isa_insn in = {.op = ISA_OP_mov};
  in.u.MOV.rd = rd;
  in.u.MOV.a = a;
  return put(m, &in, at);
}

static bool put_alu(maker *m, unsigned op, uint8_t rd, uint8_t ra, int32_t b, isa_line at) {
  isa_insn in = {.op = (uint16_t)op};
  in.u.REGALU.rd = rd;
  in.u.REGALU.ra = ra;
  in.u.REGALU.b = (isa_int){false, b};
  return put(m, &in, at);
}

static uint8_t place_of(const maker *m, uint32_t reg) {
  return m->k->reg_places[(size_t)reg * ISA_NENGINES + m->engine];
}

/* ---- Waits --------------------------------------------------------------------------------- */

/* What a step's semaphore rises by in a round of its loop. */
static uint32_t rise_of(const as_kernel *k, const as_k_step *t) {
  return t->source >= K_QUEUE ? k->target->dma : k->scopes[t->scope].count[t->source];
}

static bool no_register(maker *m, isa_line at) {
  return as_k_fail(m->k, ISA_LIMIT, at,
                   "loops are nested too deeply: %s has no register left for them",
                   isa_engines[m->engine].name);
}

static bool add_base(maker *m, bases *b, uint32_t by, isa_line at) {
  for (unsigned i = 0; i < b->n; i++)
    if (b->by[i] == by) return true;
  if (b->n == MOST_BASES || m->next_base >= TEMP_REG) return no_register(m, at);
  b->by[b->n] = by;
  b->reg[b->n++] = m->next_base++;
  return true;
}

static uint8_t base_of(const bases *b, uint32_t by) {
  unsigned i = 0;
  while (i + 1 < b->n && b->by[i] != by) i++;
  return b->reg[i];
}

static bool find_wait(maker *m, const as_k_wait *w, isa_line at, isa_wait *out) {
  const as_k_step *t = &m->k->steps[w->step];
  *out = (isa_wait){.cond = ISA_WAIT_ge, .sem = (uint8_t)t->sem, .value = t->value};
  if (!t->scope) return true;
  uint32_t rise = rise_of(m->k, t);
  uint8_t base = base_of(&m->loops[t->scope], rise);
  int32_t add = (int32_t)t->value - (w->before ? (int32_t)rise : 0);
  out->is_reg = true;
  out->value = add ? TEMP_REG : base;
  if (add && !put_alu(m, ISA_OP_add, TEMP_REG, base, add, at)) return false;
  /* In the first round there is nothing to wait for, and values are not negative. */
  return add >= 0 || put_alu(m, ISA_OP_max, TEMP_REG, TEMP_REG, 0, at);
}

/* A wait of step s for the next instruction: of waits, or K_NONE. */
static bool take_wait(maker *m, const as_k_step *s, uint32_t wait, isa_line at, isa_wait *out) {
  as_kernel *k = m->k;
  as_k_wait w = as_k_wait_of(k, s, wait);
  if (!find_wait(m, &w, at, out) || !K_GROW(k, waited, nwaited, cap_waited)) return false;
  k->waited[k->nwaited++] = (as_k_waited){pc_of(m), (uint32_t)(s - k->steps), wait};
  k->figures.waits++;
  k->figures.reuse_waits += w.reuse;
  return true;
}

static bool put_nop(maker *m, isa_wait wait, isa_line at) {
  isa_insn *in = next_insn(m, at);
  if (!in) return false;
  *in = (isa_insn){.op = ISA_OP_nop};
  set_events(m, in, wait, (isa_update){0});
  m->k->figures.nops++;
  return true;
}

/* The waits of a step: the last goes to *own, when it is not NULL, others to nops. */
static bool put_waits(maker *m, const as_k_step *s, isa_line at, isa_wait *own) {
  uint32_t left = s->nwaits + (s->reuse ? 1u : 0u);
  for (uint32_t w = s->reuse ? K_NONE : s->waits; left; left--) {
    isa_wait wait;
    if (!take_wait(m, s, w, at, &wait)) return false;
    if (own && left == 1)
      *own = wait;
    else if (!put_nop(m, wait, at))
      return false;
    w = w == K_NONE ? s->waits : w + 1;
  }
  return true;
}

/* ---- Steps --------------------------------------------------------------------------------- */

static void set_queue(const maker *m, const as_k_item *it, isa_insn *in) {
  isa_t_QUEUE *queue = isa_member_of(in, ISA_K_QUEUE);
  if (queue) *queue = m->k->queues[it->queue - 1].number;
}

static bool is_static(const as_kernel *k, const as_k_item *it) {
  return isa_op_is_dma(it->op) && k->queues[it->queue - 1].dge == ISA_DGE_none &&
         isa_insn_pipe(&as_k_verdict_of(k, it)->in) < 0;
}

static bool put_item(maker *m, const as_k_step *s) {
  as_kernel *k = m->k;
  const as_k_item *it = &k->items[s->item];
  bool transfer = isa_op_is_dma(it->op);
  isa_wait wait = {0};
  isa_update upd = {0};
  isa_insn *in = put_waits(m, s, it->at, &wait) ? next_insn(m, it->at) : NULL;
  if (!in) return false;
  if (is_static(k, it)) {
    *in = (isa_insn){.op = ISA_OP_dma_trigger};
    in->u.TRIGGER.queue = k->queues[it->queue - 1].number;
    in->u.TRIGGER.count = (isa_int){false, 1};
  } else if (!as_k_bind(&m->bind, as_k_verdict_of(k, it), it->ops, in)) {
    return out_of_memory(m);
  } else if (transfer) {
    set_queue(m, it, in);
  } else if (in->op == ISA_OP_core_barrier) {
    in->u.BARRIER.semaphore = (uint8_t)k->barrier;
  }
  if (s->signals)
    upd = (isa_update){.kind = transfer ? ISA_UPD_dma : ISA_UPD_inc, .sem = (uint8_t)s->sem};
  set_events(m, in, wait, upd);
  return true;
}

static bool put_event(maker *m, isa_wait wait, isa_update upd, isa_line at) {
  isa_insn in = {.op = ISA_OP_event_semaphore, .wait = wait, .upd = upd};
  return put(m, &in, at);
}

/* The first engine waits for the others and lets them go. */
static bool put_first(maker *m, const as_k_item *it, unsigned others, isa_line at) {
  as_kernel *k = m->k;
  const as_k_loop *l = &k->loops[it->loop - 1];
  uint8_t arrived = (uint8_t)k->meet_arrive[as_k_depth(k, l)];
  isa_wait all = {.cond = ISA_WAIT_ge, .sem = arrived, .value = others};
  isa_update taken = {.kind = ISA_UPD_sub, .sem = arrived, .value = others};
  if (others && !put_event(m, all, taken, at)) return false;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    isa_update go = {.kind = ISA_UPD_inc, .sem = (uint8_t)k->meet_go[e]};
    bool other = (as_k_meeting(k, l) >> e & 1) && e != m->engine;
    if (other && !put_event(m, (isa_wait){0}, go, at)) return false;
  }
  return true;
}

static bool put_meet(maker *m, const as_k_step *s) {
  as_kernel *k = m->k;
  const as_k_item *it = &k->items[s->item];
  isa_insn drain = {.op = ISA_OP_drain};
  const as_k_loop *l = &k->loops[it->loop - 1];
  unsigned others = 0, first = ISA_NENGINES, all = as_k_meeting(k, l);
  for (unsigned e = ISA_NENGINES; e-- > 0;)
    if (all >> e & 1) {
      others++;
      first = e;
    }
  if (!put_waits(m, s, it->at, NULL) || !put(m, &drain, it->at)) return false;
  if (it->op == K_ENDLOOP && (l->engines >> m->engine & 1)) /* its registers are free again */
    m->next_base = m->loops[it->loop].first;
  if (m->engine == first) return put_first(m, it, others - 1, it->at);
  isa_update arrive = {.kind = ISA_UPD_inc, .sem = (uint8_t)k->meet_arrive[as_k_depth(k, l)]};
  isa_wait go = {.cond = ISA_WAIT_ge, .sem = (uint8_t)k->meet_go[m->engine], .value = 1};
  isa_update gone = {.kind = ISA_UPD_dec, .sem = (uint8_t)k->meet_go[m->engine]};
  return put_event(m, (isa_wait){0}, arrive, it->at) && put_event(m, go, gone, it->at);
}

/* Registers for the values that this engine waits for in the loop. */
static bool find_bases(maker *m, uint32_t scope, isa_line at) {
  const as_kernel *k = m->k;
  const as_k_scope *s = &k->scopes[scope];
  bases *b = &m->loops[scope];
  b->n = 0;
  b->first = m->next_base;
  for (uint32_t i = s->first; i < s->left; i++) {
    const as_k_step *t = &k->steps[i];
    if (t->dead || t->engine != m->engine) continue;
    for (unsigned w = 0; w < t->nwaits; w++) {
      const as_k_step *on = &k->steps[k->waits[t->waits + w].step];
      if (on->scope == scope && !add_base(m, b, rise_of(k, on), at)) return false;
    }
  }
  return true;
}

/* The registers of an outermost loop for the rounds of those in it. */
static bool begin_rounds(maker *m, const as_k_loop *l) {
  const as_kernel *k = m->k;
  for (uint32_t i = l->first + 1; i < l->last; i++) {
    const as_k_item *it = &k->items[i];
    bool inner = it->op == K_LOOP || it->op == K_WHILE;
    if (!inner || !(k->loops[it->loop - 1].engines >> m->engine & 1)) continue;
    uint8_t next = m->next_base;
    if (!find_bases(m, it->loop, it->at)) return false;
    m->next_base = next;
    m->loops[it->loop].rounds = 0;
    if (m->loops[it->loop].n == 0) continue;
    if (m->next_base >= TEMP_REG) return no_register(m, it->at);
    m->loops[it->loop].rounds = m->next_base++;
    if (!put_mov(m, m->loops[it->loop].rounds, (isa_int){false, 0}, it->at)) return false;
  }
  return true;
}

/* What the values of a loop's semaphores begin at. */
static bool begin_bases(maker *m, const bases *b, bool inner, isa_line at) {
  for (unsigned i = 0; i < b->n; i++) {
    bool ok = inner ? put_alu(m, ISA_OP_mul, b->reg[i], b->rounds, (int32_t)b->by[i], at)
                    : put_mov(m, b->reg[i], (isa_int){false, 0}, at);
    if (!ok) return false;
  }
  return true;
}

static bool put_top(maker *m, const as_k_step *s) {
  const as_k_loop *l = &m->k->loops[m->k->items[s->item].loop - 1];
  isa_line at = l->range.at;
  bases *b = &m->loops[s->scope];
  uint32_t start = l->range.start_reg, stop = l->range.stop_reg;
  isa_insn in = {.op = ISA_OP_beq};
  if (!find_bases(m, s->scope, at) || !begin_bases(m, b, l->parent != 0, at)) return false;
  if (!l->parent && !begin_rounds(m, l)) return false;
  isa_int first = {start != 0, start ? place_of(m, start) : l->range.start};
  if (!l->is_while && !put_mov(m, place_of(m, l->reg), first, at)) return false;
  in.u.BRANCH.ra = place_of(m, l->reg);
  if (!l->is_while) {
    in.op = l->range.step > 0 ? ISA_OP_bge : ISA_OP_ble;
    in.u.BRANCH.b = (isa_int){stop != 0, stop ? place_of(m, stop) : l->range.stop};
  }
  b->top = pc_of(m);
  return put(m, &in, at);
}

static bool put_bottom(maker *m, const as_k_step *s) {
  const as_k_loop *l = &m->k->loops[m->k->items[s->item].loop - 1];
  isa_line at = l->range.at;
  bases *b = &m->loops[s->scope];
  uint8_t reg = place_of(m, l->reg);
  isa_insn in = {.op = ISA_OP_jmp};
  for (unsigned i = 0; i < b->n; i++)
    if (!put_alu(m, ISA_OP_add, b->reg[i], b->reg[i], (int32_t)b->by[i], at)) return false;
  bool counts = l->parent && b->n;
  if (counts && !put_alu(m, ISA_OP_add, b->rounds, b->rounds, 1, at)) return false;
  if (!l->is_while && !put_alu(m, ISA_OP_add, reg, reg, l->range.step, at)) return false;
  in.u.JUMP.to = b->top;
  if (!put(m, &in, at)) return false;
  m->p->cores[m->core].code[m->engine].insns[b->top].u.BRANCH.to = pc_of(m);
  return true;
}

/* The steps of each engine in their order, and room for them and the nops before them; loops take
 * some more. */
static bool sort_steps(maker *m) {
  const as_kernel *k = m->k;
  uint32_t room[ISA_NENGINES] = {0}, at[ISA_NENGINES + 1] = {0};
  for (uint32_t i = 0; i < k->nsteps; i++) {
    const as_k_step *s = &k->steps[i];
    unsigned waits = s->nwaits + (s->reuse ? 1u : 0u);
    if (s->dead) continue;
    at[s->engine + 1]++;
    room[s->engine] += waits > 1 ? waits : 1;
  }
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    at[e + 1] += at[e];
    if (room[e] && !isa_program_reserve(m->p, m->core, e, room[e] + 1)) return out_of_memory(m);
  }
  memcpy(m->first, at, sizeof at);
  m->order = k->al.fn(k->al.ud, NULL, 0, ((size_t)k->nsteps + 1) * sizeof *m->order);
  if (!m->order) return out_of_memory(m);
  for (uint32_t i = 0; i < k->nsteps; i++)
    if (!k->steps[i].dead) m->order[at[k->steps[i].engine]++] = i;
  return true;
}

static bool put_engine(maker *m, unsigned e) {
  as_kernel *k = m->k;
  isa_insn halt = {.op = ISA_OP_halt};
  m->engine = m->bind.engine = e;
  m->next_base = k->reg_free[e];
  for (uint32_t i = m->first[e]; i < m->first[e + 1]; i++) {
    const as_k_step *s = &k->steps[m->order[i]];
    if (m->first[e + 1] - i > 2 * AHEAD) { /* an engine's items lie apart */
      __builtin_prefetch(&k->steps[m->order[i + 2 * AHEAD]]);
      const as_k_item *next = &k->items[k->steps[m->order[i + AHEAD]].item];
      __builtin_prefetch(next);
      __builtin_prefetch((const char *)next + 64);
    }
    bool ok = s->kind == K_STEP_ITEM   ? put_item(m, s)
              : s->kind == K_STEP_MEET ? put_meet(m, s)
              : s->kind == K_STEP_TOP  ? put_top(m, s)
                                       : put_bottom(m, s);
    if (!ok) return false;
  }
  return pc_of(m) == 0 || put(m, &halt, (isa_line){0});
}

/* ---- Tables -------------------------------------------------------------------------------- */

static bool same_queue(const isa_queue *a, const isa_queue *b) {
  return a->dge == b->dge && a->owner == b->owner && a->prio == b->prio;
}

/* What is about to have a name: a tile, or the queue or semaphore of a number. */
typedef struct named {
  unsigned kind;  /* K_NAMES_ */
  uint32_t index; /* set where core 0 has the same tile under that name */
  const isa_tile *tile;
  const isa_queue *queue;
} named;

/* Whether what core 0 has under a name is the same as what this core has: then they share it. */
static bool is_same(const maker *m, const as_k_name *other, named *what) {
  if (other->kind != what->kind) return false;
  if (what->kind == K_NAMES_TILE) {
    what->index = other->index;
    return as_k_same_tile(&m->p->tiles[other->index - 1], what->tile);
  }
  return other->index == what->index &&
         (!what->queue || same_queue(&m->p->cores[0].queues[other->index], what->queue));
}

/* A name like base that nothing in the program has, but for the same of core 0; *shared says which
 * it is. NULL when memory is out. */
static const char *take_name(maker *m, const char *base, named *what, bool *shared) {
  for (;;) {
    const char *name = as_k_names_take(m->names, base);
    const as_k_name *other = name && m->before ? as_k_names_find(m->before, name) : NULL;
    *shared = other && is_same(m, other, what);
    if (!name || !other || *shared) return name;
  }
}

/* The tensor of the program that this one is too: the same constant, or the same input or output of
 * core 0; 0: the program has no such tensor yet. */
static uint32_t shared_tensor(const isa_program *p, const isa_tensor *t) {
  if (t->role == ISA_TEMP) return 0;
  if (t->role != ISA_CONST)
    return (uint32_t)(isa_program_find_tensor(p, t->name, strlen(t->name)) + 1);
  for (uint32_t i = 0; i < p->ntensors; i++)
    if (as_k_same_constant(&p->tensors[i], t)) return i + 1;
  return 0;
}

bool as_k_put_tensors(as_kernel *k, isa_program *p, as_k_names *names) {
  const isa_program *s = k->scratch;
  k->nplaced = s->ntensors;
  k->placed = isa_zalloc(&k->al, k->nplaced * sizeof *k->placed);
  if (!k->placed && k->nplaced) return as_k_nomem(k);
  for (uint32_t i = 0; i < s->ntensors; i++) {
    isa_tensor t = s->tensors[i];
    k->placed[i] = k->o.core ? shared_tensor(p, &t) : 0;
    if (k->placed[i]) continue;
    const char *name = as_k_names_take(names, t.name);
    bool taken = k->o.core && isa_program_find_tensor(p, t.name, strlen(t.name)) >= 0;
    if (taken) t.name = name;
    k->placed[i] = name ? isa_program_tensor(p, &t) : 0;
    if (!k->placed[i]) return as_k_nomem(k);
  }
  return true;
}

static bool is_used_tile(const as_k_buffer *b) { return b->space != ISA_HBM && b->used; }

/* Room for the tiles, their names and about as many patterns, for they are many. */
static bool reserve_tiles(maker *m) {
  const as_kernel *k = m->k;
  isa_program *p = m->p;
  isa_core *c = &p->cores[m->core];
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->nbuffers; i++) n += is_used_tile(&k->buffers[i]);
  return (as_k_names_reserve(m->names, n) &&
          isa_array_reserve(&k->al, &p->tiles, p->ntiles + n, &p->cap_tiles, sizeof *p->tiles) &&
          isa_array_reserve(&k->al, &c->aps, c->naps + n, &c->cap_aps, sizeof *c->aps)) ||
         out_of_memory(m);
}

static bool put_tiles(maker *m) {
  as_kernel *k = m->k;
  bool shared;
  if (!reserve_tiles(m)) return false;
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    as_k_buffer *b = &k->buffers[i];
    if (!is_used_tile(b)) continue;
    isa_tile t = {.dtype = b->dtype,
                  .space = b->space,
                  .ndim = b->ndim,
                  .part = b->part,
                  .offset = b->offset,
                  .bytes = b->bytes,
                  .overlay = "tiles",
                  .own = !b->shared};
    named what = {.kind = K_NAMES_TILE, .tile = &t};
    memcpy(t.shape, b->shape, sizeof t.shape);
    as_k_iteration(k, b, &t);
    t.name = take_name(m, b->name ? b->name : "t", &what, &shared);
    /* A name that was taken, by another line. */
    if (b->called && t.name && strcmp(t.name, b->name) != 0)
      t.line = k->called[b->called - 1].at.line;
    b->tile = !t.name ? 0 : shared ? what.index : isa_program_tile(m->p, &t);
    if (!b->tile) return out_of_memory(m);
    as_k_names_mark(m->names, K_NAMES_TILE, b->tile);
    b->name = t.name;
    k->figures.tiles++;
  }
  return true;
}

static bool put_queues(maker *m) {
  as_kernel *k = m->k;
  static const char *const names[] = {"static", "swdge", "hwdge"};
  char name[40];
  bool shared;
  for (uint32_t i = 0; i < k->nqueues; i++) {
    as_k_queue *q = &k->queues[i];
    if (!q->count) continue;
    if (q->pipe)
      snprintf(name, sizeof name, "q_pipe%u_%s", q->pipe - 1u, isa_engines[q->engine].name);
    else
      snprintf(name, sizeof name, q->stream ? "q_%s_%s%u" : "q_%s_%s", names[q->dge],
               isa_engines[q->engine].name, q->stream + 1u);
    isa_queue row = {.dge = q->dge, .owner = q->engine, .prio = q->prio};
    row.rings = (uint8_t)k->target->dma;
    named what = {K_NAMES_QUEUE, m->p->cores[m->core].nqueues, NULL, &row};
    row.name = take_name(m, name, &what, &shared);
    uint32_t n = row.name ? isa_program_queue(m->p, m->core, &row) : 0;
    if (!n) return out_of_memory(m);
    as_k_names_mark(m->names, K_NAMES_QUEUE, n - 1);
    q->number = (uint8_t)(n - 1);
    k->figures.queues++;
  }
  return true;
}

/* Queue after queue, as a source has them: it assembles to the same bytes. */
static bool put_statics_of(maker *m, uint32_t q) {
  const as_kernel *k = m->k;
  for (uint32_t i = 0; i < k->nsteps; i++) {
    const as_k_step *s = &k->steps[i];
    const as_k_item *it = &k->items[s->item];
    isa_insn in;
    if (s->kind != K_STEP_ITEM || s->dead || !is_static(k, it) || it->queue != q + 1) continue;
    m->bind.engine = s->engine;
    if (!as_k_bind(&m->bind, as_k_verdict_of(k, it), it->ops, &in)) return out_of_memory(m);
    set_queue(m, it, &in);
    if (!isa_program_static(m->p, m->core, k->queues[q].number, &in)) return out_of_memory(m);
  }
  return true;
}

static bool put_statics(maker *m) {
  const as_kernel *k = m->k;
  bool ok = true;
  for (uint32_t q = 0; q < k->nqueues && ok; q++)
    if (k->queues[q].dge == ISA_DGE_none) ok = put_statics_of(m, q);
  return ok;
}

static bool name_sem(maker *m, unsigned sem, const char *name) {
  const char **at = &m->p->cores[m->core].sem_names[sem];
  named what = {.kind = K_NAMES_SEM, .index = sem};
  bool shared;
  if (*at) return true;
  const char *taken = take_name(m, name, &what, &shared);
  if (!taken) return out_of_memory(m);
  as_k_names_mark(m->names, K_NAMES_SEM, sem);
  *at = isa_arena_strn(&m->p->arena, taken, strlen(taken));
  return *at || out_of_memory(m);
}

static bool put_sem_names(maker *m) {
  const as_kernel *k = m->k;
  char name[40];
  for (uint32_t i = 0; i < k->nsteps; i++) {
    const as_k_step *s = &k->steps[i];
    unsigned source = s->source;
    if (!s->signals || s->dead || m->p->cores[m->core].sem_names[s->sem]) continue;
    if (source >= K_QUEUE)
      snprintf(name, sizeof name, "moved%u", (unsigned)s->sem);
    else
      snprintf(name, sizeof name, "%s_%s", isa_engines[s->engine].name,
               source == K_COLLECTIVES ? "collected"
               : source >= K_SEQ       ? "stepped"
               : source == K_WEIGHTS   ? "loaded"
                                       : "done");
    if (!name_sem(m, s->sem, name)) return false;
  }
  if (k->barrier != K_NO_SEM && !name_sem(m, k->barrier, "barrier")) return false;
  if (!k->nloops) return true;
  for (unsigned d = 0; d < K_DEPTH && k->meet_arrive[d] != K_NO_SEM; d++)
    if (!name_sem(m, k->meet_arrive[d], "arrived")) return false;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    snprintf(name, sizeof name, "go_%s", isa_engines[e].name);
    if ((k->engines >> e & 1) && !name_sem(m, k->meet_go[e], name)) return false;
  }
  return true;
}

bool as_k_make_core(as_kernel *k, isa_program *p, as_k_names *names, const as_k_names *before) {
  maker m = {.k = k, .p = p, .names = names, .before = before, .core = k->o.core};
  size_t files = (size_t)k->nfiles + 1, scopes = (size_t)k->nloops + 1;
  m.bind = (as_k_binder){.k = k, .p = m.p, .final = true};
  m.files = isa_zalloc(&k->al, files * sizeof *m.files);
  m.loops = isa_zalloc(&k->al, scopes * sizeof *m.loops);
  bool ok = m.files && m.loops &&
            isa_array_reserve(&k->al, &k->waited, k->nwaits, &k->cap_waited, sizeof *k->waited);
  if (!ok) as_k_nomem(k);
  ok = ok && put_tiles(&m) && put_queues(&m) && put_sem_names(&m) && put_statics(&m) &&
       sort_steps(&m);
  for (unsigned e = 0; e < ISA_NENGINES && ok; e++) ok = put_engine(&m, e);
  isa_program_index_anew(p, m.core);
  isa_free(&k->al, m.order, ((size_t)k->nsteps + 1) * sizeof *m.order);
  isa_free(&k->al, m.files, files * sizeof *m.files);
  isa_free(&k->al, m.loops, scopes * sizeof *m.loops);
  return ok;
}
