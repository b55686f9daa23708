/* Code in its sections: labels, branches to labels that come later, and at the end the order of
 * everything in the program and the checks of the program as a whole. */
#include "../../isa/operand.h"
#include "stmt.h"

#include <string.h>

/* ---- Labels ------------------------------------------------------------------------------- */

/* The whole name: a local one belongs to its section's last code label, or to the section.
 * `.loop` after `main:` is main.loop, so each function may have its own .loop. */
static const char *label_name(as_job *j, const as_tok *t, const as_tok *local) {
  const char *head = t->text, *tail = NULL;
  if (local) {
    tail = local->text;
  } else if (t->text[0] == '.' && t->text[1] != '.') {
    /* Two dots begin a name that is not local. */
    const char *base = j->unit->base[j->unit->section];
    head = base ? base : isa_engines[as_engine_of(j->unit->section)].name;
    tail = t->text + 1;
  }
  if (!tail) return head;
  size_t n = strlen(head), m = strlen(tail);
  char *s = as_new(j, n + m + 2);
  memcpy(s, head, n);
  s[n] = '.';
  memcpy(s + n + 1, tail, m);
  return as_intern(j, s, n + m + 1);
}

void as_label_define(as_job *j, const as_tok *t, const as_tok *local) {
  struct as_unit *u = j->unit;
  /* Outside of a section there is no pc that it could stand for. */
  if (u->section == AS_NSECTIONS) {
    as_error(j, t->pos, t->len, "the label `%s` is not in a section", t->text);
    return;
  }
  if (as_tok_reg(t) >= 0) {
    as_error(j, t->pos, t->len, "`%s` is the name of a register; choose another", t->text);
    return;
  }
  /* Refused where it is defined: the line would be read as a definition. */
  if (as_defines(j, t)) { /* `jmp sem` would define a semaphore */
    as_error(j, t->pos, t->len, "`%s` defines names and cannot be a label; choose another",
             t->text);
    return;
  }
  const char *name = label_name(j, t, local);
  as_sym *s = as_sym_get(j, name, u->section + 1, AS_S_LABEL, t);
  /* Local labels after it belong to it. */
  if (!local && t->text[0] != '.') u->base[u->section] = name;
  if (s->defined) {
    as_error(j, t->pos, t->len, "the label `%s` is already in section %s", name,
             as_section_name(j, u->section));
    as_note(j, s->pos, "it was defined here");
    return;
  }
  s->defined = true;
  /* A label may be jumped to, so what follows can be reached again. */
  u->ended[u->section] = false;
  s->index = as_code(j, u->section)->n;
  s->pos = t->pos;
  s->span = t->len;
}

/* The label may come later: it is made here, and defined there. */
as_sym *as_label_ref(as_cur *c) {
  const as_tok *t = c->t, *local = NULL;
  if (!as_at_name(c)) {
    as_expected(c->j, t, "a label");
    return NULL;
  }
  if (as_tok_reg(t) >= 0) {
    as_error(c->j, t->pos, t->len, "expected a label, not the register `%s`", t->text);
    return NULL;
  }
  if (c->j->unit->section == AS_NSECTIONS) {
    as_error(c->j, t->pos, t->len, "the label `%s` is not in a section", t->text);
    return NULL;
  }
  c->t++;
  /* main.loop: another label's local one. */
  if (as_at_punct(c, '.') && c->t[1].kind == AS_T_NAME) {
    local = c->t + 1;
    c->t += 2;
  }
  as_sym *s = as_sym_get(c->j, label_name(c->j, t, local), c->j->unit->section + 1, AS_S_LABEL, t);
  s->used = true;
  return s;
}

as_sym *as_place_ref(as_cur *c, unsigned *engine) {
  struct as_unit *u = c->j->unit;
  const as_tok *t = c->t;
  unsigned e = 0, here = u->section;
  while (e < ISA_NENGINES && !as_tok_is(t, isa_engines[e].name)) e++;
  if (e == ISA_NENGINES || t[1].kind != AS_T_PUNCT || t[1].punct != '.') {
    as_expected(c->j, t, /* gpsimd.sum needs its dot; a label alone would be of this section. */
                "an engine and a label of its section, as in `gpsimd.sum`");
    return NULL;
  }
  c->t += 2;
  *engine = e;
  /* The label is looked up as if it stood in that engine's section. */
  u->section = u->core * ISA_NSEQS + e;
  as_sym *s = as_label_ref(c);
  u->section = here;
  return s;
}

/* ---- Code --------------------------------------------------------------------------------- */

uint32_t as_file_number(as_job *j, uint32_t source) {
  struct as_unit *u = j->unit;
  /* Most programs have one file; numbers are kept by source. */
  u->files = as_grow(j, u->files, source, 1, &u->cap_files, sizeof *u->files);
  if (u->files[source] == 0) {
    u->files[source] = isa_program_file(as_program(j), j->sources[source].name);
    if (u->files[source] == 0) as_nomem(j);
  }
  return u->files[source];
}

/* The label's place in the source as well: errors are told there. */
static void add_fixup(as_job *j, as_sym *label, as_pos pos, uint32_t span, uint32_t pc) {
  struct as_unit *u = j->unit;
  u->fixups = as_grow(j, u->fixups, u->nfixups, 1, &u->cap_fixups, sizeof *u->fixups);
  u->fixups[u->nfixups++] = (as_fixup){pc, span, (uint8_t)u->section, label, pos};
}

/* The program's number of what a line came out of, added on first use. */
static uint32_t call_number(as_job *j, as_expansion *e) {
  if (!e || e->number) return e ? e->number : 0;
  /* A round of %rep has its number, a macro its name. */
  isa_call c = {.name = e->macro, .line = e->call.line, .round = e->round};
  c.outer = call_number(j, e->call.expansion); /* PP_MAX_DEPTH deep at most */
  c.file = as_file_number(j, e->call.file);
  e->number = isa_program_call(as_program(j), &c);
  if (e->number == 0) as_nomem(j);
  return e->number;
}

/* The label of an instruction is at pc.
 * A branch has its target in the operands, wait_start in the place that it names. */
static void set_target(isa_insn *in, uint32_t pc) {
  isa_t_LABEL *label = isa_member_of(in, ISA_K_LABEL);
  isa_point *place = isa_member_of(in, ISA_K_PLACE);
  if (label) *label = pc;
  if (place) place->pc = pc;
}

void as_emit(as_job *j, const isa_insn *in, const as_stmt *st) {
  struct as_unit *u = j->unit;
  isa_program *p = as_program(j);
  const isa_code *code = as_code(j, u->section);
  isa_insn copy = *in;
  as_pos at = u->line->pos;
  isa_line line = {0};
  /* Lines without a source come from the C API. */
  if (at.line) line = (isa_line){as_file_number(j, at.file), at.line, call_number(j, at.expansion)};
  if (st && st->label) {
    if (st->label->defined)
      set_target(&copy, st->label->index);
    else
      /* Only forward branches need a second look. */
      add_fixup(j, st->label, st->label_pos, st->label_span, code->n);
  }
  /* A pc has 32 bits, and one past the last must be one as well. */
  if (code->n == UINT32_MAX - 1) as_fatal(j, at, "a section has too many instructions");
  if (!isa_program_insn(p, as_core_of(u->section), as_engine_of(u->section), &copy, line))
    as_nomem(j);
  u->last[u->section] = at;
  /* Instructions that no line names, as the nop of align, do not count. */
  if (u->ended[u->section] && st)
    as_warning(j, "unreachable-code", st->name->pos, st->name->len,
               "nothing leads to this `%s`: no label after `%s`", isa_ops[in->op].name,
               isa_ops[code->insns[code->n - 2].op].name);
  /* The next instruction is only reached through a label. */
  u->ended[u->section] = isa_op_ends(in->op);
}

/* `L12`, as the disassembler prints a target without a name: the pc, -1 for another name. */
static int64_t numbered_label(const char *name) {
  int64_t pc = 0;
  if (name[0] != 'L' || name[1] < '0' || name[1] > '9') return -1;
  for (const char *s = name + 1; *s && *s != '_'; s++) {
    /* The number, then any underscores that made it another name. */
    if (*s < '0' || *s > '9') return -1;
    pc = pc * 10 + (*s - '0');
    if (pc > UINT32_MAX) return -1;
  }
  for (const char *s = strchr(name, '_'); s && *s; s++)
    if (*s != '_') return -1;
  return pc;
}

static void unknown_label(as_job *j, const as_fixup *f) {
  /* A label with a slip in it is in the same section most often. */
  as_near w = as_near_open(f->label->name, strlen(f->label->name));
  const as_sym *other = NULL;
  /* Labels of this section may be misspelt; in another one the name must be equal. */
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (s->kind != AS_S_LABEL || !s->defined) continue;
    if (s->scope == f->label->scope)
      as_near_try(&w, s->name);
    else if (s->name == f->label->name)
      other = s;
  }
  if (other && f->label->scope == f->section + 1) {
    as_error(j, f->pos, f->span, "the label `%s` is in section %s; a branch stays in its section",
             other->name, as_section_name(j, other->scope - 1u));
    as_note(j, other->pos, "it is defined here");
    return;
  }
  as_error(j, f->pos, f->span, "there is no label `%s` in section %s%s", f->label->name,
           as_section_name(j, f->label->scope - 1u), as_near_text(j, &w));
}

static void fix(as_job *j, const as_fixup *f) {
  /* Else it is the place of a wait_start, in an engine's section. */
  bool branch = f->label->scope == f->section + 1u;
  if (f->label->external && !branch) {
    as_error(j, f->pos, f->span, "`%s` must be in the same object as its block", f->label->name);
    return;
  }
  /* The linker fills it in. */
  if (f->label->external) {
    as_extern_branch(j, f);
    return;
  }
  const isa_code *code = as_code(j, f->label->scope - 1u);
  int64_t pc = f->label->index;
  /* soma-dis prints L12 for a target without a label, so such text assembles again. */
  if (!f->label->defined && (pc = numbered_label(f->label->name)) < 0) {
    unknown_label(j, f);
    return;
  }
  /* One past the last is where a label may be, but nothing to jump to. */
  if (pc >= code->n) {
    as_error(j, f->pos, f->span,
             branch ? "`%s` is after the last instruction of section %s; a branch there leaves it"
                    : "`%s` is after the last instruction of section %s",
             f->label->name, as_section_name(j, f->label->scope - 1u));
    return;
  }
  set_target(&as_code(j, f->section)->insns[f->pc], (uint32_t)pc);
}

/* ---- Symbols ------------------------------------------------------------------------------ */

/* The program keeps names for listings, messages and the debugger. */
static void add_symbol(as_job *j, const as_sym *s) {
  isa_symbol sym = {.name = s->name,
                    .core = (uint8_t)as_core_of(s->scope - 1u),
                    .engine = (uint8_t)as_engine_of(s->scope - 1u),
                    .global = s->global,
                    .pc = s->index};
  if (isa_program_symbol(j->program, &sym) == 0) as_nomem(j);
}

/* Labels into the program by section and pc: the order of the source's sections does not show.
 * Those of one pc stay in order; their lists are built backwards. */
static void add_symbols(as_job *j) {
  /* By pc: no sorting, and the order of equal ones is that of the source. */
  as_sym **at[AS_NSECTIONS];
  for (unsigned i = 0; i < AS_NSECTIONS; i++)
    at[i] = as_new(j, ((size_t)as_code(j, i)->n + 1) * sizeof *at[i]);
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (s->kind != AS_S_LABEL || !s->defined) continue;
    /* As the disassembler prints it: it needs no symbol. */
    if (numbered_label(s->name) == s->index && !s->global) continue;
    as_sym **head = &at[s->scope - 1][s->index];
    s->u.at_pc = *head;
    *head = s;
  }
  for (unsigned i = 0; i < AS_NSECTIONS; i++)
    for (uint32_t pc = 0; pc <= as_code(j, i)->n; pc++) {
      as_sym *first = NULL;
      /* Turned around: the last one was first. */
      for (as_sym *s = at[i][pc], *next; s; s = next) {
        next = s->u.at_pc;
        s->u.at_pc = first;
        first = s;
      }
      for (; first; first = first->u.at_pc) add_symbol(j, first);
    }
}

/* ---- The whole ---------------------------------------------------------------------------- */

/* A section may only end with what goes elsewhere. */
static void check_ends(as_job *j) {
  for (unsigned s = 0; s < AS_NSECTIONS; s++) {
    const isa_code *code = as_code(j, s);
    if (code->n == 0) continue;
    unsigned op = code->insns[code->n - 1].op;
    /* The block's end would go on past its last instruction. */
    if (j->unit->block_end[s].pc == code->n)
      as_error(j, j->unit->block_end[s].pos, 1,
               "control falls off the end of section %s: nothing comes after this block",
               as_section_name(j, s));
    if (isa_op_ends(op) || as_engine_of(s) >= ISA_NENGINES) continue; /* blocks: rules_block.c */
    as_error(j, j->unit->last[s], 1,
             "control falls off the end of section %s: nothing comes after `%s`; end it with halt, "
             "jmp or ret",
             as_section_name(j, s), isa_ops[op].name);
  }
}

void as_own_queues(isa_program *p) {
  for (uint32_t core = 0; core < p->ncores; core++)
    for (uint32_t i = 0; i < p->cores[core].nqueues; i++) {
      isa_queue *q = &p->cores[core].queues[i];
      if (q->dge == ISA_DGE_hwdge && q->owner == ISA_ANY_OWNER) q->owner = ISA_ENG_sync;
    }
}

void as_layout(as_job *j) {
  as_program(j);
  as_data_close(j);
  as_blocks_end(j);
  /* Extern labels need numbers before branches to them are fixed. */
  if (j->o->relocatable) as_extern_number(j);
  for (uint32_t i = 0; i < j->unit->nfixups; i++) fix(j, &j->unit->fixups[i]);
  check_ends(j);
  as_extern_end(j);
  /* What follows needs a program that is whole. */
  if (j->errors) return;
  /* The linker knows which objects use a queue; here it is known now. */
  if (!j->o->relocatable) as_own_queues(j->program); /* in an object another may decide */
  as_warn_program(j);
  add_symbols(j);
  as_order(j, j->program);
}
