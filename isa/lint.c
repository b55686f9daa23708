/* Findings of a program as it stands. Each instruction is known to run never, at most once, or
 * perhaps many times; what cannot be told is taken for many. */
#include "lint.h"

#include "flow.h"

#include <inttypes.h>
#include <string.h>

enum { NEVER, ONCE, MANY };

typedef struct sem_facts {
  uint64_t most;             /* sum of the increments that run once */
  uint32_t step;             /* of all increments alike, 0: they differ */
  bool updated, many, falls; /* falls: is set, taken or decremented somewhere */
} sem_facts;
typedef struct tile_facts {
  bool named, read, written;
  bool by_others; /* written by a transfer, or by more engines than `writer` */
  uint8_t writer; /* engine, ISA_NENGINES: none yet */
  uint32_t first; /* its first writing instruction */
} tile_facts;

typedef struct lint {
  const isa_program *p;
  const isa_core *core;
  uint8_t *runs[ISA_NENGINES];
  sem_facts sem[ISA_NSEMS];
  tile_facts *tile;           /* 1-based */
  bool reads_raw, writes_raw; /* patterns of a whole memory: any tile may be meant */
  isa_lint_fn tell;
  void *ud;
  isa_buf text;
} lint;

static void tell_at(lint *l, unsigned engine, uint32_t pc) {
  isa_place at = {0, (int)engine, pc};
  l->tell(l->ud, &at, isa_buf_str(&l->text));
  l->text.len = 0;
}
static void tell_program(lint *l) {
  isa_place at = {0, -1, 0};
  l->tell(l->ud, &at, isa_buf_str(&l->text));
  l->text.len = 0;
}

static void put_sem(lint *l, unsigned sem) {
  if (l->core->sem_names[sem])
    isa_buf_printf(&l->text, "$%s", l->core->sem_names[sem]);
  else
    isa_buf_printf(&l->text, "$S[%u]", sem);
}

/* ---- How often ---------------------------------------------------------------------------- */

/* What lies between a branch back and its target may run many times, and all where there are calls.
 */
static bool find_runs(lint *l, const isa_alloc *al, unsigned e) {
  const isa_code *code = &l->core->code[e];
  if (!code->n) return true;
  uint8_t *runs = l->runs[e] = isa_zalloc(al, code->n);
  if (!runs || !isa_flow_reach(al, code, 0, runs)) return false;
  for (uint32_t pc = 0; pc < code->n; pc++) {
    int64_t to = isa_flow_target(&code->insns[pc]);
    if (!runs[pc] || to < 0) continue;
    bool call = code->insns[pc].op == ISA_OP_call;
    for (uint32_t i = call ? 0 : (uint32_t)to; i < (call ? code->n : pc + 1); i++)
      if (runs[i]) runs[i] = MANY;
  }
  return true;
}

static void find_unreachable(lint *l, unsigned e) {
  const isa_code *code = &l->core->code[e];
  for (uint32_t pc = 0; pc < code->n; pc++) {
    if (l->runs[e][pc] != NEVER || (pc > 0 && l->runs[e][pc - 1] == NEVER)) continue;
    isa_buf_puts(&l->text, "this code is never reached");
    tell_at(l, e, pc);
  }
}

/* ---- Semaphores --------------------------------------------------------------------------- */

static void add_rise(sem_facts *s, uint64_t by, uint32_t step, unsigned runs) {
  s->step = !s->updated || s->step == step ? step : 0;
  s->updated = true;
  s->many = s->many || runs == MANY;
  s->most += by;
}

static void add_update(lint *l, const isa_insn *in, unsigned runs, unsigned rings) {
  const isa_update *u = &in->upd;
  sem_facts *s = &l->sem[u->sem];
  switch (u->kind) {
  case ISA_UPD_inc: add_rise(s, 1, 1, runs); break;
  case ISA_UPD_add: add_rise(s, u->value, u->value, runs); break;
  case ISA_UPD_dma: add_rise(s, rings, 1, runs); break;
  case ISA_UPD_none: break;
  default: s->falls = s->updated = true; break;
  }
}

static unsigned rings_of(const lint *l, const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++)
    if (form->fields[i].kind == ISA_K_QUEUE)
      return l->core->queues[*(const uint8_t *)isa_member_c(in, &form->fields[i])].rings;
  return 0;
}

static void find_updates(lint *l, unsigned e) {
  const isa_code *code = &l->core->code[e];
  for (uint32_t pc = 0; pc < code->n; pc++) {
    const isa_insn *in = &code->insns[pc];
    if (l->runs[e][pc] == NEVER) continue;
    bool trigger = in->op == ISA_OP_dma_trigger; /* as many transfers as its count says */
    add_update(l, in, trigger ? MANY : l->runs[e][pc], rings_of(l, in));
    if (in->op != ISA_OP_sem_range_clear) continue;
    const struct isa_SEM_RANGE *a = &in->u.SEM_RANGE;
    for (unsigned s = a->first; s < (unsigned)a->first + a->count && s < ISA_NSEMS; s++)
      l->sem[s].falls = l->sem[s].updated = true;
  }
}

static void find_static_updates(lint *l) {
  for (uint32_t q = 0; q < l->core->nqueues; q++)
    for (uint32_t i = 0; i < l->core->queues[q].nstatics; i++)
      add_update(l, &l->core->queues[q].statics[i], MANY, l->core->queues[q].rings);
}

static void check_wait(lint *l, unsigned e, uint32_t pc) {
  const isa_wait *w = &l->core->code[e].insns[pc].wait;
  const sem_facts *s = &l->sem[w->sem];
  uint64_t need = (uint64_t)w->value + (w->cond == ISA_WAIT_gt);
  bool rises = w->cond == ISA_WAIT_ge || w->cond == ISA_WAIT_gt || w->cond == ISA_WAIT_eq;
  if (w->is_reg || !rises || need == 0) return;
  if (!s->updated) {
    put_sem(l, w->sem);
    isa_buf_printf(&l->text, " is waited for to be %" PRIu64 ", and nothing updates it", need);
    tell_at(l, e, pc);
  } else if (!s->falls && !s->many && need > s->most) {
    put_sem(l, w->sem);
    isa_buf_printf(&l->text,
                   " is waited for to be %" PRIu64 ", and its updates come to %" PRIu64 " in all",
                   need, s->most);
    tell_at(l, e, pc);
  } else if (w->cond == ISA_WAIT_eq && !s->falls && s->step > 1 && need % s->step) {
    put_sem(l, w->sem);
    isa_buf_printf(&l->text, " is waited for to be %" PRIu64 ", and it rises by %u at a time", need,
                   s->step);
    tell_at(l, e, pc);
  } else if (w->cond != ISA_WAIT_eq && !s->falls && s->many && l->runs[e][pc] == MANY) {
    put_sem(l, w->sem);
    isa_buf_printf(&l->text,
                   " never falls, so that this wait for %" PRIu64 " holds at once from the "
                   "second turn of the loop on: count in a register, or take what was "
                   "waited for",
                   need);
    tell_at(l, e, pc);
  }
}

static void check_waits(lint *l, unsigned e) {
  const isa_code *code = &l->core->code[e];
  for (uint32_t pc = 0; pc < code->n; pc++)
    if (l->runs[e][pc] != NEVER && code->insns[pc].wait.cond != ISA_WAIT_none) check_wait(l, e, pc);
}

/* ---- Tiles -------------------------------------------------------------------------------- */

static void add_use(lint *l, uint32_t ap, unsigned flags, unsigned e, uint32_t pc, bool transfer) {
  const isa_ap *a = ap ? &l->core->aps[ap - 1] : NULL;
  if (!a || a->space == ISA_HBM) return;
  if (!a->base) {
    l->reads_raw = l->reads_raw || (flags & AP_R);
    l->writes_raw = l->writes_raw || (flags & AP_W);
    return;
  }
  tile_facts *t = &l->tile[a->base];
  t->named = true;
  if (flags & AP_R) t->read = true;
  if (!(flags & AP_W)) return;
  t->by_others = t->by_others || transfer || (t->written && t->writer != e);
  if (!t->written) {
    t->writer = (uint8_t)e;
    t->first = pc;
  }
  t->written = true;
}

/* Whether an instruction also reduces into registers: its elements may be wanted for that alone. */
static bool reduces(const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++)
    if (form->fields[i].kind == ISA_K_ENUM && form->fields[i].arg == ISA_SET_CMD)
      return *(const uint8_t *)isa_member_c(in, &form->fields[i]) != ISA_CMD_idle;
  return false;
}

/* Calls add_use for each pattern of an instruction, index vectors and addresses included. */
static void add_uses(lint *l, const isa_insn *in, unsigned e, uint32_t pc) {
  const isa_form *form = isa_form_of(in->op);
  bool transfer = isa_op_is_dma(in->op);
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    const void *at = isa_member_c(in, f);
    isa_ref list = {0, 0};
    uint32_t ap = 0;
    if (f->kind == ISA_K_AP) memcpy(&ap, at, sizeof ap);
    if (f->kind == ISA_K_NUM && ((const isa_num *)at)->kind == ISA_NUM_ap) {
      add_use(l, ((const isa_num *)at)->v, AP_R, e, pc, transfer);
      continue;
    }
    if (f->kind == ISA_K_APS) memcpy(&list, at, sizeof list);
    const uint8_t *aps = list.count ? isa_program_list(l->p, list, ISA_K_APS) : NULL;
    for (uint32_t k = 0; k < (ap ? 1 : list.count); k++) {
      if (aps) memcpy(&ap, aps + 4 * k, 4);
      add_use(l, ap, f->arg, e, pc, transfer);
      if (reduces(in) && ap && l->core->aps[ap - 1].space != ISA_HBM)
        l->tile[l->core->aps[ap - 1].base].read = true;
    }
  }
}

/* Patterns that others go by are read, whoever it is. */
static void add_inner_uses(lint *l) {
  for (uint32_t i = 0; i < l->core->naps; i++) {
    const isa_ap *a = &l->core->aps[i];
    if (a->index_kind != ISA_INDEX_none) add_use(l, a->index, AP_R, 0, 0, true);
    for (unsigned d = 0; d < ISA_MAX_DYN; d++)
      if (a->dyn[d].kind == ISA_DYN_elem) add_use(l, a->dyn[d].ap, AP_R, 0, 0, true);
  }
}

static void find_uses(lint *l) {
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (uint32_t pc = 0; pc < l->core->code[e].n; pc++)
      if (l->runs[e][pc] != NEVER) add_uses(l, &l->core->code[e].insns[pc], e, pc);
  for (uint32_t q = 0; q < l->core->nqueues; q++)
    for (uint32_t i = 0; i < l->core->queues[q].nstatics; i++)
      add_uses(l, &l->core->queues[q].statics[i], 0, 0);
  add_inner_uses(l);
}

/* Whether another tile shares bytes with tile i, so that its uses count for both. */
static bool shares(const lint *l, uint32_t i) {
  const isa_tile *t = &l->p->tiles[i - 1];
  for (uint32_t k = 0; k < l->p->ntiles; k++) {
    const isa_tile *o = &l->p->tiles[k];
    if (o != t && o->space == t->space && o->offset < t->offset + t->bytes &&
        t->offset < o->offset + o->bytes && o->part < t->part + t->shape[0] &&
        t->part < o->part + o->shape[0])
      return true;
  }
  return false;
}

static void check_tiles(lint *l) {
  for (uint32_t i = 1; i <= l->p->ntiles; i++) {
    const tile_facts *t = &l->tile[i];
    const char *what = !t->named                                  ? "nothing names it"
                       : t->read && !t->written && !l->writes_raw ? "it is read and never written"
                       : t->written && !t->read && !l->reads_raw  ? "it is written and never read"
                                                                  : NULL;
    if (!what || shares(l, i) || (!t->named && (l->reads_raw || l->writes_raw))) continue;
    isa_buf_printf(&l->text, "tile %s: %s", l->p->tiles[i - 1].name, what);
    tell_program(l);
  }
}

static bool reads_tile(const lint *l, const isa_insn *in, uint32_t tile) {
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    uint32_t ap =
        f->kind == ISA_K_AP && (f->arg & AP_R) ? *(const uint32_t *)isa_member_c(in, f) : 0;
    if (ap && l->core->aps[ap - 1].base == tile) return true;
  }
  return false;
}

/* A tile that one engine alone writes, and reads before in code that runs once. */
static void check_order(lint *l, uint32_t tile) {
  const tile_facts *t = &l->tile[tile];
  if (!t->read || !t->written || t->by_others || l->writes_raw || shares(l, tile)) return;
  const isa_code *code = &l->core->code[t->writer];
  for (uint32_t pc = 0; pc < t->first; pc++) {
    if (l->runs[t->writer][pc] != ONCE || !reads_tile(l, &code->insns[pc], tile)) continue;
    isa_buf_printf(&l->text, "tile %s is read here, and written only later",
                   l->p->tiles[tile - 1].name);
    tell_at(l, t->writer, pc);
    return;
  }
}

/* ---- All ---------------------------------------------------------------------------------- */

static bool look(lint *l, const isa_alloc *al) {
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (!find_runs(l, al, e)) return false;
  for (unsigned e = 0; e < ISA_NENGINES; e++) find_updates(l, e);
  find_static_updates(l);
  find_uses(l);
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    find_unreachable(l, e);
    check_waits(l, e);
  }
  for (uint32_t i = 1; i <= l->p->ntiles; i++) check_order(l, i);
  check_tiles(l);
  return !l->text.failed;
}

bool isa_lint(const isa_alloc *al, const isa_program *p, isa_lint_fn tell, void *ud) {
  size_t bytes = (p->ntiles + 1) * sizeof(tile_facts);
  lint *l = isa_zalloc(al, sizeof *l);
  if (!l) return false;
  l->p = p;
  l->core = &p->cores[0];
  l->tell = tell;
  l->ud = ud;
  isa_buf_init(&l->text, al);
  l->tile = isa_zalloc(al, bytes);
  bool ok = l->tile && look(l, al);
  for (unsigned e = 0; e < ISA_NENGINES; e++) isa_free(al, l->runs[e], l->core->code[e].n);
  isa_free(al, l->tile, bytes);
  isa_buf_free(&l->text);
  isa_free(al, l, sizeof *l);
  return ok;
}

struct printed {
  const isa_program *p;
  isa_buf *out;
};

static void print_one(void *ud, const isa_place *at, const char *text) {
  const struct printed *d = ud;
  const isa_code *code = at->engine < 0 ? NULL : &d->p->cores[at->core].code[at->engine];
  if (code && code->lines && code->lines[at->pc].file)
    isa_buf_printf(d->out, "%s:%u: ", d->p->files[code->lines[at->pc].file - 1],
                   code->lines[at->pc].line);
  else if (code)
    isa_buf_printf(d->out, "%s pc %u: ", isa_engines[at->engine].name, at->pc);
  isa_buf_printf(d->out, "lint: %s\n", text);
}

bool isa_lint_print(const isa_alloc *al, const isa_program *p, isa_buf *out) {
  struct printed d = {p, out};
  return isa_lint(al, p, print_one, &d) && !out->failed;
}
