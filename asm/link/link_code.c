/* The linker's second half: what objects hold, with the numbers that the program has. */
#include "linker.h"

#include "../../isa/operand.h"

#include <stdio.h>
#include <string.h>

/* ---- Code --------------------------------------------------------------------------------- */

/* The program's number of an object's peer, whose group has another number there.
 * Equal peers of two objects become one. */
static uint32_t copied_peer(as_linker *k, const as_link_unit *u, uint32_t slot) {
  if (slot == 0 || slot > u->o.program->npeers) return 0;
  isa_peer peer = u->o.program->peers[slot - 1];
  /* 0: the peer is a rank itself, without a group. */
  if (peer.group) peer.group = u->group[peer.group - 1] + 1u;
  uint32_t n = isa_program_peer(k->j->program, &peer);
  if (n == 0) as_nomem(k->j);
  return n;
}

/* to[i]: the program's number of the object's pattern i; to[0] stays 0. */
static void copy_aps(as_linker *k, as_link_unit *u, unsigned core) {
  const isa_core *c = &u->o.program->cores[core];
  uint32_t *to = u->ap[core] = as_new(k->j, ((size_t)c->naps + 1) * sizeof *to);
  for (uint32_t i = 0; i < c->naps; i++) {
    isa_ap ap = c->aps[i];
    if (ap.space == ISA_HBM) {
      ap.base = u->tensor[ap.base];
    } else if (ap.base) {
      /* An offset beyond 64 bits is refused by check_code.
       * INT64_MIN is outside of any tile. */
      if (__builtin_add_overflow(ap.offset, u->moved[ap.base], &ap.offset)) ap.offset = INT64_MIN;
      ap.base = u->tile[ap.base];
    }
    ap.rank = (uint16_t)copied_peer(k, u, ap.rank);
    ap.index = to[ap.index]; /* a pattern names only those before it */
    for (unsigned d = 0; d < ISA_MAX_DYN; d++) ap.dyn[d].ap = to[ap.dyn[d].ap];
    to[i + 1] = isa_program_ap(k->j->program, core, &ap);
    if (to[i + 1] == 0) as_nomem(k->j);
  }
}

/* Numbers of patterns in the form that isa_insn_take wants. */
static uint32_t copied_ap(void *aps, uint32_t ap) { return ((const uint32_t *)aps)[ap]; }

/* Everything that is a number of something: semaphores, queues, groups, places, labels,
 * patterns. */
static isa_insn copy_insn(as_linker *k, const as_link_unit *u, unsigned core, unsigned section,
                          const isa_insn *from) {
  isa_insn in = *from;
  isa_t_QUEUE *queue = isa_member_of(&in, ISA_K_QUEUE);
  isa_t_LABEL *label = isa_member_of(&in, ISA_K_LABEL);
  isa_point *place = isa_member_of(&in, ISA_K_PLACE);
  isa_t_SEM *sem = isa_member_of(&in, ISA_K_SEM);
  isa_t_GROUP *group = isa_member_of(&in, ISA_K_GROUP);
  if (sem) *sem = u->sem[core][*sem];
  if (group) *group = u->group[*group];
  if (in.wait.cond) in.wait.sem = u->sem[in.wait.core][in.wait.sem];
  if (in.upd.kind) in.upd.sem = u->sem[in.upd.core][in.upd.sem];
  if (!isa_insn_take(k->j->program, u->o.program, &in, copied_ap, u->ap[core])) as_nomem(k->j);
  if (in.upd.kind == ISA_UPD_peer) in.upd.value = copied_peer(k, u, in.upd.value);
  /* The object's transfers follow those of the objects before it. */
  if (in.op == ISA_OP_dma_trigger && in.u.TRIGGER.first)
    in.u.TRIGGER.first += u->statics[core][*queue];
  if (queue) *queue = u->queue[core][*queue];
  if (label) *label += u->base[section];
  /* Blocks of collectives name an instruction of another section. */
  if (place) place->pc += u->base[core * ISA_NSEQS + place->engine];
  return in;
}

/* One file of two objects has two numbers here; as_order makes them one. */
static void copy_files(as_linker *k, const as_link_unit *u, uint32_t *to) {
  for (uint32_t i = 0; i < u->o.program->nfiles; i++) {
    to[i + 1] = isa_program_file(k->j->program, u->o.program->files[i]);
    if (to[i + 1] == 0) as_nomem(k->j);
  }
}

/* Gives what is added to the number of a call.
 * Calls refer to earlier ones, so all of them are moved by the same amount. */
static uint32_t copy_calls(as_linker *k, const as_link_unit *u, const uint32_t *files) {
  isa_program *p = k->j->program;
  uint32_t before = p->ncalls;
  for (uint32_t i = 0; i < u->o.program->ncalls; i++) {
    isa_call c = u->o.program->calls[i];
    c.file = files[c.file];
    /* 0 stands for none. */
    c.outer += c.outer ? before : 0;
    if (!isa_program_call(p, &c)) as_nomem(k->j);
  }
  return before;
}

/* The object's code follows that of the objects before it. */
static void copy_section(as_linker *k, as_link_unit *u, unsigned section, const uint32_t *files,
                         uint32_t calls) {
  unsigned core = as_core_of(section), engine = as_engine_of(section);
  const isa_code *code = &u->o.program->cores[core].code[engine];
  u->base[section] = as_code(k->j, section)->n;
  for (uint32_t pc = 0; pc < code->n; pc++) {
    isa_insn in = copy_insn(k, u, core, section, &code->insns[pc]);
    isa_line line = {0};
    if (code->lines) {
      line = code->lines[pc];
      line.file = files[line.file];
      line.call += line.call ? calls : 0;
    }
    if (!isa_program_insn(k->j->program, core, engine, &in, line)) as_nomem(k->j);
  }
}

/* Before the code: triggers name transfers by their number in the queue. */
static void copy_statics(as_linker *k, as_link_unit *u, unsigned core) {
  const isa_core *c = &u->o.program->cores[core];
  for (uint32_t q = 0; q < c->nqueues; q++) {
    /* Where the object's own transfers begin. */
    u->statics[core][q] = k->j->program->cores[core].queues[u->queue[core][q]].nstatics;
    for (uint32_t i = 0; i < c->queues[q].nstatics; i++) {
      isa_insn in = copy_insn(k, u, core, core * ISA_NSEQS, &c->queues[q].statics[i]);
      if (!isa_program_static(k->j->program, core, u->queue[core][q], &in)) as_nomem(k->j);
    }
  }
}

void as_link_code(as_linker *k, as_link_unit *u) {
  uint32_t *files = as_new(k->j, ((size_t)u->o.program->nfiles + 1) * sizeof *files);
  copy_files(k, u, files);
  uint32_t calls = copy_calls(k, u, files);
  for (unsigned core = 0; core < u->o.program->ncores; core++) {
    copy_aps(k, u, core);
    copy_statics(k, u, core);
  }
  for (unsigned s = 0; s < u->o.program->ncores * ISA_NSEQS; s++)
    copy_section(k, u, s, files, calls);
}

/* Branches to labels of other objects, once all code has its place. */
void as_link_branches(as_linker *k, as_link_unit *u) {
  for (uint32_t i = 0; i < u->o.nrelocs; i++) {
    const as_reloc *r = &u->o.relocs[i];
    const as_export *e = as_link_export(k, u, &u->o.names[r->name]);
    if (!e) continue;
    unsigned section = (unsigned)r->core * ISA_NSEQS + r->engine;
    isa_insn *in = &as_code(k->j, section)->insns[u->base[section] + r->pc];
    isa_t_LABEL *label = isa_member_of(in, ISA_K_LABEL);
    if (label) *label = e->owner->base[section] + e->link->index;
  }
}

/* Labels by section and pc; the objects' are so, and the objects follow one another.
 * Local names of two objects may be equal; the later one gets the object's number
 * behind it. */
void as_link_symbols(as_linker *k) {
  as_job *j = k->j;
  for (unsigned s = 0; s < AS_NSECTIONS; s++)
    for (uint32_t i = 0; i < k->n; i++) {
      const as_link_unit *u = &k->units[i];
      for (uint32_t y = 0; y < u->o.program->nsymbols; y++) {
        isa_symbol sym = u->o.program->symbols[y];
        if ((unsigned)sym.core * ISA_NSEQS + sym.engine != s) continue;
        as_tok tok = {.text = as_intern(j, sym.name, strlen(sym.name))};
        as_sym *known = as_sym_find(j, tok.text, s + 1);
        /* It is this object's own global name. */
        bool mine = sym.global && known && k->exports[known->index].owner == u;
        while (known && !mine) { /* a name of another object in this section */
          char *text = as_new(j, strlen(tok.text) + 16);
          snprintf(text, strlen(tok.text) + 16, "%s_%u", sym.name, i + 1);
          sym.name = text;
          tok.text = as_intern(j, text, strlen(text));
          known = as_sym_find(j, tok.text, s + 1);
        }
        if (!known) as_sym_get(j, tok.text, s + 1, AS_S_LABEL, &tok)->index = 0;
        sym.name = tok.text;
        sym.pc += u->base[s];
        if (isa_program_symbol(j->program, &sym) == 0) as_nomem(j);
      }
    }
}
