/* A statement to instructions: operands in the order of the form, then keywords, then `$` clauses,
 * then the rules of the machine. The parts of a pseudo-instruction go the same way. */
#include "stmt.h"

#include <stdio.h>
#include <string.h>

/* The place is kept for messages of the rules, which come later. */
static bool slot_fill(as_cur *c, as_stmt *st, as_slot *s) {
  const as_tok *at = c->t;
  s->seen = true;
  s->pos = at->pos;
  if (!as_value(c, st, s)) return false;
  s->span = as_span_of(at, c->t);
  return true;
}

/* Clauses come last: at the first $ the operands are over. */
static bool at_clause(const as_cur *c) { return as_at_end(c) || as_at_punct(c, '$'); }

static void note_operands(as_job *j, const as_stmt *st) {
  char text[400];
  size_t n = 0;
  for (unsigned i = 0; i < st->nslots && n + 40 < sizeof text; i++) {
    const as_slot *o = &st->slot[i];
    /* A slot that repeats another has no name of its own.
     * Room for one more name. */
    if (o->owner != i) continue;
    int k = snprintf(text + n, sizeof text - n, "%s%s%s%s%s", n > 0 ? ", " : "",
                     o->mode == ISA_MODE_D ? "[" : "", o->name, o->mode == ISA_MODE_P ? "" : "=",
                     o->mode == ISA_MODE_D ? "]" : "");
    n += (size_t)k;
  }
  if (n) as_note(j, (as_pos){0}, "its operands: %s", text);
}

/* The message is at the mnemonic: nothing stands where the operand should be. */
static bool missing(as_cur *c, const as_stmt *st, const as_slot *s) {
  bool keyword = s->mode != ISA_MODE_P;
  as_error(c->j, st->name->pos, st->name->len, "`%s` needs %s`%s%s`", st->name->text,
           keyword ? "the keyword operand " : "the operand ", s->name, keyword ? "=" : "");
  note_operands(c->j, st);
  return false;
}

/* Whether slot i is a comparison and is written as a sign, without commas: `r3 < 10`. Takes it. */
static bool compares(as_cur *c, as_stmt *st, unsigned i) {
  as_slot *s = &st->slot[i];
  if (i >= st->nslots || s->f->kind != ISA_K_ENUM || s->f->arg != ISA_SET_COMPARE) return false;
  int sign = as_comparison(c);
  if (sign < 0) return false;
  /* The field is a byte: an enum's code. */
  *(uint8_t *)isa_member(&st->part[s->part], s->f) = (uint8_t)sign;
  s->seen = true;
  s->pos = c->t->pos;
  s->span = c->t++->len;
  return true;
}

static bool positional(as_cur *c, as_stmt *st, bool *first) {
  for (unsigned i = 0; i < st->nslots; i++) {
    /* Positional slots in the order of the form. */
    as_slot *s = &st->slot[i];
    if (s->mode != ISA_MODE_P) continue;
    if (at_clause(c) || as_at_keyword(c)) return true; /* may still be given by name */
    if (!*first && !as_need(c, ',', "an operand")) return false;
    *first = true; /* no comma is due before what comes */
    if (as_at_keyword(c)) return true;
    /* What was written by position is seen, so a keyword for it is a repetition. */
    *first = false;
    if (!slot_fill(c, st, s)) return false;
    /* The sign was the next operand, and no comma follows it. */
    if (compares(c, st, i + 1)) {
      *first = true;
      i++;
      continue;
    }
    if (!at_clause(c) && !as_at_punct(c, ','))
      return as_expected(c->j, c->t, "`,` after `%s`", s->name);
  }
  return true;
}

static as_slot *slot_named(as_stmt *st, const char *name) {
  for (unsigned i = 0; i < st->nslots; i++) /* Slots that repeat another are not written. */
    if (st->slot[i].owner == i && strcmp(st->slot[i].name, name) == 0) return &st->slot[i];
  return NULL;
}

static bool unknown_keyword(as_cur *c, const as_stmt *st) {
  as_near w = as_near_open(c->t->text, strlen(c->t->text));
  for (unsigned i = 0; i < st->nslots; i++) as_near_try(&w, st->slot[i].name);
  as_error(c->j, c->t->pos, c->t->len, "`%s` has no operand `%s=`%s", st->name->text, c->t->text,
           as_near_text(c->j, &w));
  note_operands(c->j, st);
  return false;
}

/* A flag may stand alone: `negate` is `negate=true`. */
static bool bare_flag(as_cur *c, as_stmt *st) {
  as_slot *s = as_at_name(c) ? slot_named(st, c->t->text) : NULL;
  /* Only flags may stand without a value. */
  if (s && s->f->kind == ISA_K_ENUM && s->f->arg == ISA_SET_BOOL && !s->seen) {
    *(uint8_t *)isa_member(&st->part[s->part], s->f) = ISA_BOOL_true;
    s->seen = true;
    s->pos = c->t->pos;
    s->span = c->t->len;
    c->t++;
    return true;
  }
  as_error(c->j, c->t->pos, c->t->len, "`%s` takes no more operands without a name; %s",
           st->name->text, st->nslots ? "the others are written `name=value`" : "it has none");
  note_operands(c->j, st);
  return false;
}

static bool keyword(as_cur *c, as_stmt *st) {
  if (!as_at_keyword(c)) return bare_flag(c, st);
  as_slot *s = slot_named(st, c->t->text);
  if (!s) return unknown_keyword(c, st);
  if (s->seen) {
    as_error(c->j, c->t->pos, c->t->len, "`%s` is given twice", s->name);
    as_note(c->j, s->pos, "the first is here");
    return false;
  }
  /* Past the name and the sign. */
  c->t += 2;
  return slot_fill(c, st, s);
}

static bool operands(as_cur *c, as_stmt *st) {
  bool first = true;
  if (!positional(c, st, &first)) return false;
  /* Keywords in any order. */
  while (!at_clause(c)) {
    if (!first && !as_need(c, ',', "an operand")) return false;
    first = false;
    if (!keyword(c, st)) return false;
    if (!at_clause(c) && !as_at_punct(c, ','))
      return as_expected(c->j, c->t, "`,` after an operand");
  }
  /* All that must be given has to be there. */
  for (unsigned i = 0; i < st->nslots; i++)
    if (!st->slot[i].seen && st->slot[i].mode != ISA_MODE_D && st->slot[i].owner == i)
      return missing(c, st, &st->slot[i]);
  return true;
}

/* Bytes of a field's member in isa_insn. */
static const uint8_t kind_size[ISA_NKINDS] = {
#define KIND(name, type, bytes) sizeof(type),
    ISA_KINDS(KIND)
#undef KIND
};

/* A slot that repeats another gets its value in its own part. */
static void repeat(as_stmt *st) {
  for (unsigned i = 0; i < st->nslots; i++) {
    /* nc_matmul's tile_row is one operand, and a field of two instructions. */
    as_slot *s = &st->slot[i];
    const as_slot *o = &st->slot[s->owner];
    /* An owner that was left out leaves the other out. */
    if (s->owner == i || !o->seen) continue;
    memcpy(isa_member(&st->part[s->part], s->f), isa_member(&st->part[o->part], o->f),
           kind_size[s->f->kind]);
    s->seen = true;
    s->pos = o->pos;
    s->span = o->span;
  }
}

bool as_match(as_cur *c, as_stmt *st) {
  /* Clauses before the numbers: only then all of the line is known to be well formed. */
  if (!operands(c, st) || !as_clauses(c, st)) return false;
  repeat(st);
  for (unsigned i = 0; i < st->nslots; i++)
    if (!as_num_finish(c->j, st, &st->slot[i])) return false;
  return true;
}

/* ---- Rules -------------------------------------------------------------------------------- */

/* The owner of a queue that does not say it is the first engine that uses it.
 * An object's queues get theirs when it is linked, if no engine used them. */
static void own_queue(isa_program *p, unsigned core, unsigned engine, const isa_insn *in) {
  int queue = isa_op_is_dma(in->op) ? isa_insn_queue(in) : -1;
  if (queue < 0) return;
  isa_queue *q = &p->cores[core].queues[queue];
  bool may = engine == ISA_ENG_sync || engine == ISA_ENG_scalar;
  /* Others may not own it; the rules refuse them with their own words. */
  if (q->dge == ISA_DGE_hwdge && q->owner == ISA_ANY_OWNER && may) q->owner = (uint8_t)engine;
}

/* Reports a refusal at the operand it speaks of. */
static void refuse(as_job *j, const as_stmt *st, unsigned part, const isa_error *e) {
  as_pos pos = st->name->pos;
  uint32_t span = st->name->len;
  const isa_form *f = isa_form_of(st->part[part].op);
  /* Not a mistake of the program. */
  if (e->status == ISA_NOMEM) as_nomem(j);
  /* A pseudo-instruction has fields of two forms: the part tells which. */
  if (e->field >= 0 && e->field < f->nfields) /* The slot of the field that the verifier names. */
    for (unsigned i = 0; i < st->nslots; i++)
      if (st->slot[i].part == part && st->slot[i].seen && st->slot[i].f == &f->fields[e->field]) {
        pos = st->slot[i].pos;
        span = st->slot[i].span;
      }
  as_error(j, pos, span, "%s", e->text);
}

/* Whether -w-no-hardware-op, or -w-all, is the last word on it. */
static bool allows_ir_ops(const as_options *o) {
  bool allowed = false;
  /* "+w": the sign and the name of a warning. */
  for (uint32_t i = 0; i < o->nwarnings; i++) {
    const char *w = o->warnings[i];
    /* The last option wins, as for all warnings. */
    if (strcmp(w + 1, "no-hardware-op") == 0 || strcmp(w + 1, "all") == 0) allowed = w[0] == '-';
  }
  return allowed;
}

/* Operators that the IR has and no hardware has are refused; those that no public reference has
 * give a warning. */
static bool in_hardware(as_job *j, const as_stmt *st) {
  for (unsigned i = 0; i < st->nslots; i++) {
    const as_slot *s = &st->slot[i];
    if (s->f->kind != ISA_K_ALU || !s->seen) continue;
    /* What is left out is bypass, which all engines have. */
    const isa_insn *in = &st->part[s->part];
    unsigned op = *(const uint8_t *)isa_member_c(in, s->f);
    const char *unsupported = isa_op_unsupported(in->op, op);
    if (unsupported)
      as_warning(j, "unsupported-op", s->pos, s->span, "%s with the operator %s: %s",
                 isa_ops[in->op].name, isa_aluops[op].name, unsupported);
    if (isa_aluops[op].in_hardware || allows_ir_ops(j->o)) continue;
    as_error(j, s->pos, s->span, "no hardware has the operator %s", isa_aluops[op].name);
    as_note(j, (as_pos){0}, "-w-no-hardware-op allows it");
    return false;
  }
  return true;
}

/* Outside of a section nobody would run it. */
static bool need_section(as_job *j, const as_stmt *st) {
  if (j->unit->section < AS_NSECTIONS) return true;
  as_error(j, st->name->pos, st->name->len,
           "`%s` is not in a section; write `section %s` before it", st->name->text,
           /* A guess that is often right: data-path code on vector, the rest on sync. */
           isa_ops[st->part[0].op].engines & ISA_MASK_V ? "vector" : "sync");
  return false;
}

static bool legal(as_job *j, const as_stmt *st, unsigned part) {
  isa_error e;
  isa_program *p = as_program(j);
  unsigned core = as_core_of(j->unit->section), engine = as_engine_of(j->unit->section);
  own_queue(p, core, engine, &st->part[part]);
  /* 0: labels may still come. */
  if (isa_check_insn(p, core, engine, &st->part[part], 0, &e)) return true;
  refuse(j, st, part, &e);
  return false;
}

bool as_match_emit(as_job *j, as_stmt *st) {
  if (!need_section(j, st) || !in_hardware(j, st)) return false;
  /* A product without its load would be worse than no line. */
  for (unsigned i = 0; i < st->nparts; i++) /* Nothing is emitted unless all parts are legal. */
    if (!legal(j, st, i)) return false;
  struct as_unit *u = j->unit;
  uint32_t pc = as_code(j, u->section)->n;
  for (unsigned i = 0; i < st->nparts; i++) as_emit(j, &st->part[i], st);
  /* The listing shows what became of it, where that is not what was written.
   * dma_copy that became a dma_trigger, say. */
  bool other = st->nparts > 1 || as_word(j, st->name->text) != (int)st->part[0].op;
  as_list_insns(j, st->name->pos, u->section, pc, st->nparts, other);
  return true;
}

/* ---- Entries ------------------------------------------------------------------------------ */

static void open_insn(as_stmt *st, const as_tok *name, int op) {
  const isa_form *f = isa_form_of((unsigned)op);
  st->name = name;
  st->nparts = 1;
  st->part[0].op = (uint16_t)op;
  st->nslots = f->nfields;
  for (unsigned i = 0; i < f->nfields; i++)
    st->slot[i] = (as_slot){.f = &f->fields[i],
                            .name = f->fields[i].name,
                            .mode = f->fields[i].mode,
                            .owner = (uint8_t)i};
}

/* A static transfer into its queue; st has it in part 0. */
static bool emit_static(as_job *j, const as_stmt *st, unsigned queue) {
  /* The queue's owner starts it, so it is checked as that engine's. */
  isa_program *p = as_program(j);
  isa_error e;
  struct as_unit *u = j->unit;
  unsigned engine = isa_queue_owner(&p->cores[u->core].queues[queue]);
  /* With no owner it is checked as of this section. */
  if (engine == ISA_NSEQS) /* its dma_trigger reports another */
    engine = u->section < AS_NSECTIONS ? as_engine_of(u->section) : ISA_ENG_sync;
  if (!in_hardware(j, st)) return false;
  if (!isa_check_insn(p, u->core, engine, &st->part[0], 0, &e)) {
    refuse(j, st, 0, &e);
    return false;
  }
  if (!isa_program_static(p, u->core, queue, &st->part[0])) as_nomem(j);
  return true;
}

/* dma_copy on a queue with dge=none: the transfer joins the queue, one dma_trigger stays. */
static bool copy_to_static(as_job *j, as_stmt *st) {
  const isa_insn *in = &st->part[0];
  /* A sendrecv's half is not a transfer of a list. */
  if (isa_ops[in->op].runs != ISA_RUNS_DMA || isa_insn_pipe(in) >= 0 ||
      isa_ops[in->op].status != ISA_DONE)
    return false;
  unsigned queue = (unsigned)isa_insn_queue(in);
  if (as_program(j)->cores[j->unit->core].queues[queue].dge != ISA_DGE_none) return false;
  if (!need_section(j, st)) return true;
  /* The clauses are the trigger's: the transfer itself waits for nothing.
   * The trigger comes where the line stands, and carries its clauses. */
  isa_wait wait = in->wait;
  isa_update upd = in->upd;
  st->part[0].wait = (isa_wait){0};
  st->part[0].upd = (isa_update){0};
  if (!emit_static(j, st, queue)) return true;
  as_stmt trigger;
  memset(&trigger, 0, sizeof trigger);
  open_insn(&trigger, st->name, ISA_OP_dma_trigger);
  trigger.part[0].wait = wait;
  trigger.part[0].upd = upd;
  trigger.part[0].u.TRIGGER.queue = (uint8_t)queue;
  trigger.part[0].u.TRIGGER.count.v = 1;
  const isa_queue *q = &as_program(j)->cores[j->unit->core].queues[queue];
  /* A CC sequencer's program may branch: the trigger names its transfer. */
  if (isa_queue_is_cc(q)) trigger.part[0].u.TRIGGER.first = q->nstatics; /* in whatever order */
  as_match_emit(j, &trigger);
  return true;
}

/* `dma_copy dsts=[a, b], srcs=[x, y]` is a dma_copy_lists. */
static int over_lists(const as_cur *c) {
  if (!as_at_keyword(c)) return ISA_OP_dma_copy;
  /* Both lists are keywords; a dma_copy has its operands by position. */
  bool lists = as_tok_is(c->t, "dsts") || as_tok_is(c->t, "srcs");
  return lists ? (int)ISA_OP_dma_copy_lists : (int)ISA_OP_dma_copy;
}

/* Whether a register or an expression stands here, and not an operand in memory, nor a name that
 * nothing has. */
static bool at_value(const as_cur *c) {
  /* A number, a bracket or a sign begins a value. */
  if (!as_at_name(c)) return c->t->kind != AS_T_END && c->t->kind != AS_T_STR;
  if (as_tok_reg(c->t) >= 0) return true;
  if (as_at_operand(c)) return false;
  const as_sym *s = as_sym_find(c->j, c->t->text, 0);
  /* A function or a name of the assembler's own is a number. */
  bool call = c->t[1].kind == AS_T_PUNCT && c->t[1].punct == '(';
  return s ? s->kind == AS_S_EQU
           /* __LINE__ and the like. */
           : call || as_tok_is(c->t, "CORE") || strncmp(c->t->text, "__", 2) == 0;
}

/* Whether an operand is given by that name. */
static bool has_keyword(as_cur c, const char *name) {
  for (; c.t->kind != AS_T_END; c.t++)
    if (as_tok_is(c.t, name) && as_at_keyword(&c)) return true;
  return false;
}

/* `device_print "text"`, `"prefix", r3`, `"prefix", $done`, `"prefix", tile`. */
static int printed(as_cur c) {
  if (has_keyword(c, "text")) return ISA_OP_device_print_text;
  if (has_keyword(c, "value")) return ISA_OP_device_print_value;
  if (has_keyword(c, "semaphore")) return ISA_OP_device_print_semaphore;
  if (c.t->kind != AS_T_STR) return ISA_OP_device_print;
  /* Without a keyword what comes second decides. */
  c.t++;
  if (!as_take(&c, ',')) return at_clause(&c) ? ISA_OP_device_print_text : ISA_OP_device_print;
  const as_sym *s = as_at_name(&c) ? as_sym_find(c.j, c.t->text, 0) : NULL;
  if (as_at_keyword(&c) && as_tok_is(c.t, "to")) return ISA_OP_device_print_text;
  if (as_at_punct(&c, '$') || (s && s->kind == AS_S_SEM)) return ISA_OP_device_print_semaphore;
  return at_value(&c) ? ISA_OP_device_print_value : ISA_OP_device_print;
}

/* The instruction that a mnemonic with these operands is. */
static int by_operands(const as_cur *c, int op) {
  switch (op) {
  case ISA_OP_dma_copy: return over_lists(c);
  case ISA_OP_device_print: return printed(*c);
  /* Named alike by the source, told apart by what is printed or tested. */
  case ISA_OP_device_assert:
    return as_at_operand(c) ? ISA_OP_device_assert_all : ISA_OP_device_assert;
  default: return op;
  }
}

void as_match_insn(as_cur *c, int op) {
  as_stmt st;
  op = by_operands(c, op);
  /* Some instructions are written by a pseudo-instruction's name. */
  int ps = as_pseudo_of(op, c);
  if (ps >= 0) {
    as_match_pseudo(c, ps);
    return;
  }
  memset(&st, 0, sizeof st);
  /* Copies into a static queue are two things: the transfer, and its trigger. */
  open_insn(&st, c->t - 1, op);
  if (!as_match(c, &st)) return;
  if (isa_op_is_dma((unsigned)op) && copy_to_static(c->j, &st)) return;
  as_match_emit(c->j, &st);
}

void as_match_pseudo(as_cur *c, int ps) {
  as_stmt st;
  memset(&st, 0, sizeof st);
  st.name = c->t - 1;
  ps = as_pseudo_here(c->j, ps);
  as_pseudo_open(ps, &st);
  if (as_match(c, &st) && as_pseudo_finish(c->j, ps, &st)) as_pseudo_emit(c->j, ps, &st);
}

/* `dma q, dst, src, key=value...`; with srcs= it is a dma_compute, with dsts= a dma_copy_lists.
 * `dma q, dma_transpose dst, src` names the instruction. */
void as_match_dma(as_cur *c) {
  as_stmt st;
  memset(&st, 0, sizeof st);
  const as_tok *name = c->t++;
  if (!as_at_name(c)) {
    as_expected(c->j, c->t, "a queue after `dma`");
    return;
  }
  const as_sym *q = as_sym_need(c->j, c->t, 1 << AS_S_QUEUE);
  if (!q) return;
  /* One of both cores: the one whose section this is. */
  unsigned core = q->core == AS_BOTH ? c->j->unit->core : q->core;
  if (as_program(c->j)->cores[core].queues[q->u.queue[core]].dge != ISA_DGE_none) {
    as_error(c->j, c->t->pos, c->t->len,
             "`dma` adds a static transfer, but `%s` does not have dge=none", q->name);
    as_note(c->j, q->pos, "`%s` was declared here", q->name);
    return;
  }
  c->t++;
  if (!as_need(c, ',', "the queue")) return;
  int op = has_keyword(*c, "dsts")   ? ISA_OP_dma_copy_lists
           : has_keyword(*c, "srcs") ? ISA_OP_dma_compute
                                     : ISA_OP_dma_copy;
  const as_tok *queue = c->t - 2;
  if (as_tok_is(c->t, isa_ops[ISA_OP_dma_transpose].name)) {
    op = ISA_OP_dma_transpose;
    c->t++;
  }
  open_insn(&st, name, op);
  /* The queue comes first on this line: its operand is filled in.
   * It stands before the operands, though the form has it elsewhere. */
  for (unsigned i = 0; i < st.nslots; i++)
    if (st.slot[i].f->kind == ISA_K_QUEUE) {
      *(uint8_t *)isa_member(&st.part[0], st.slot[i].f) = q->u.queue[core];
      st.slot[i].seen = true;
      st.slot[i].pos = queue->pos;
      st.slot[i].span = queue->len;
    }
  struct as_unit *u = c->j->unit;
  unsigned here = u->core;
  /* Its operands are those of the queue's core.
   * Tiles may lie at different places of the two cores. */
  u->core = core;
  bool ok = as_match(c, &st);
  if (ok && (st.has_wait || st.has_update)) {
    const as_tok *at = st.has_wait ? &st.wait_at : &st.update_at;
    as_error(c->j, at->pos, at->len, "a static transfer has no `$` clause; its dma_trigger has it");
    ok = false;
  }
  ok = ok && emit_static(c->j, &st, q->u.queue[core]);
  u->core = here;
  if (ok) as_list_line(c->j, name->pos);
}
