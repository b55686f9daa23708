/* Code in its sections: labels, branches to labels that come later, and at the end the order of
 * everything in the program and the checks of the program as a whole. */
#include "stmt.h"

#include <stdlib.h>
#include <string.h>

isa_program *as_program(as_job *j) {
  if (j->program) return j->program;
  j->unit->target_fixed = true;
  j->program = isa_program_new(&j->al, j->target);
  if (!j->program) as_nomem(j);
  return j->program;
}

/* ---- Labels ------------------------------------------------------------------------------- */

/* The whole name: a local one belongs to its section's last code label, or to the section. */
static const char *label_name(as_job *j, const as_tok *t, const as_tok *local) {
  const char *head = t->text, *tail = NULL;
  if (local) {
    tail = local->text;
  } else if (t->text[0] == '.' && t->text[1] != '.') {
    const char *base = j->unit->base[j->unit->engine];
    head = base ? base : isa_engines[j->unit->engine].name;
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
  if (u->engine == ISA_NENGINES) {
    as_error(j, t->pos, t->len, "the label `%s` is not in a section", t->text);
    return;
  }
  if (as_tok_reg(t) >= 0) {
    as_error(j, t->pos, t->len, "`%s` is the name of a register; choose another", t->text);
    return;
  }
  const char *name = label_name(j, t, local);
  as_sym *s = as_sym_get(j, name, u->engine + 1, AS_S_LABEL, t);
  if (!local && t->text[0] != '.') u->base[u->engine] = name;
  if (s->defined) {
    as_error(j, t->pos, t->len, "the label `%s` is already in section %s", name,
             isa_engines[u->engine].name);
    as_note(j, s->pos, "it was defined here");
    return;
  }
  s->defined = true;
  u->ended[u->engine] = false;
  s->index = as_program(j)->cores[0].code[u->engine].n;
  s->pos = t->pos;
  s->span = t->len;
}

as_sym *as_label_ref(as_cur *c) {
  const as_tok *t = c->t, *local = NULL;
  if (!as_at_name(c)) {
    as_error(c->j, t->pos, t->len, "expected a label, not %s", as_tok_show(c->j, t));
    return NULL;
  }
  if (as_tok_reg(t) >= 0) {
    as_error(c->j, t->pos, t->len, "expected a label, not the register `%s`", t->text);
    return NULL;
  }
  if (c->j->unit->engine == ISA_NENGINES) {
    as_error(c->j, t->pos, t->len, "the label `%s` is not in a section", t->text);
    return NULL;
  }
  c->t++;
  if (as_at_punct(c, '.') && c->t[1].kind == AS_T_NAME) {
    local = c->t + 1;
    c->t += 2;
  }
  as_sym *s = as_sym_get(c->j, label_name(c->j, t, local), c->j->unit->engine + 1, AS_S_LABEL, t);
  s->used = true;
  return s;
}

/* ---- Code --------------------------------------------------------------------------------- */

/* The program's number of a source, added on first use. */
static uint32_t file_number(as_job *j, uint32_t source) {
  struct as_unit *u = j->unit;
  if (source >= u->nfiles) {
    uint32_t n = source + 16, *files = as_new(j, n * sizeof *files);
    if (u->nfiles) memcpy(files, u->files, u->nfiles * sizeof *files);
    u->files = files;
    u->nfiles = n;
  }
  if (u->files[source] == 0) {
    u->files[source] = isa_program_file(as_program(j), j->sources[source].name);
    if (u->files[source] == 0) as_nomem(j);
  }
  return u->files[source];
}

static uint32_t *label_member(isa_insn *in) {
  const isa_form *f = isa_form_of(in->op);
  for (unsigned i = 0; i < f->nfields; i++)
    if (f->fields[i].kind == ISA_K_LABEL) return isa_member(in, &f->fields[i]);
  return NULL;
}

static void add_fixup(as_job *j, as_sym *label, as_pos pos, uint32_t span, uint32_t pc) {
  struct as_unit *u = j->unit;
  if (u->nfixups == u->cap_fixups) {
    as_fixup *old = u->fixups;
    u->cap_fixups = u->cap_fixups ? u->cap_fixups * 2 : 256;
    u->fixups = as_new(j, u->cap_fixups * sizeof *u->fixups);
    if (old) memcpy(u->fixups, old, u->nfixups * sizeof *old);
  }
  u->fixups[u->nfixups++] = (as_fixup){pc, span, (uint8_t)u->engine, label, pos};
}

void as_emit(as_job *j, const isa_insn *in, const as_stmt *st) {
  struct as_unit *u = j->unit;
  isa_program *p = as_program(j);
  const isa_code *code = &p->cores[0].code[u->engine];
  isa_insn copy = *in;
  as_pos at = u->line->pos;
  isa_line line = {file_number(j, at.file), at.line};
  if (st && st->label) {
    if (st->label->defined)
      *label_member(&copy) = st->label->index;
    else
      add_fixup(j, st->label, st->label_pos, st->label_span, code->n);
  }
  if (code->n == UINT32_MAX - 1) as_fatal(j, at, "a section has too many instructions");
  if (!isa_program_insn(p, 0, u->engine, &copy, line)) as_nomem(j);
  u->last[u->engine] = at;
  if (u->ended[u->engine] && st)
    as_warning(j, "unreachable-code", st->name->pos, st->name->len,
               "nothing leads to this `%s`: no label after `%s`", isa_ops[in->op].name,
               isa_ops[code->insns[code->n - 2].op].name);
  u->ended[u->engine] = in->op == ISA_OP_halt || in->op == ISA_OP_jmp || in->op == ISA_OP_ret;
}

/* `L12`, as the disassembler prints a target without a name: the pc, -1 for another name. */
static int64_t numbered_label(const char *name) {
  int64_t pc = 0;
  if (name[0] != 'L' || name[1] < '0' || name[1] > '9') return -1;
  for (const char *s = name + 1; *s && *s != '_'; s++) {
    if (*s < '0' || *s > '9') return -1;
    pc = pc * 10 + (*s - '0');
    if (pc > UINT32_MAX) return -1;
  }
  for (const char *s = strchr(name, '_'); s && *s; s++)
    if (*s != '_') return -1;
  return pc;
}

static void unknown_label(as_job *j, const as_fixup *f) {
  as_near w = as_near_open(f->label->name, strlen(f->label->name));
  const as_sym *other = NULL;
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (s->kind != AS_S_LABEL || !s->defined) continue;
    if (s->scope == f->engine + 1)
      as_near_try(&w, s->name);
    else if (s->name == f->label->name)
      other = s;
  }
  if (other) {
    as_error(j, f->pos, f->span, "the label `%s` is in section %s; a branch stays in its section",
             other->name, isa_engines[other->scope - 1].name);
    as_note(j, other->pos, "it is defined here");
    return;
  }
  as_error(j, f->pos, f->span, "there is no label `%s` in section %s%s", f->label->name,
           isa_engines[f->engine].name, as_near_text(j, &w));
}

static void fix(as_job *j, const as_fixup *f) {
  isa_code *code = &j->program->cores[0].code[f->engine];
  int64_t pc = f->label->index;
  if (!f->label->defined && (pc = numbered_label(f->label->name)) < 0) {
    unknown_label(j, f);
    return;
  }
  if (pc >= code->n) {
    as_error(j, f->pos, f->span,
             "`%s` is behind the last instruction of section %s; a branch there leaves it",
             f->label->name, isa_engines[f->engine].name);
    return;
  }
  *label_member(&code->insns[f->pc]) = (uint32_t)pc;
}

/* ---- Symbols ------------------------------------------------------------------------------ */

static int by_place(const void *a, const void *b) {
  const as_sym *x = *(as_sym *const *)a, *y = *(as_sym *const *)b;
  if (x->scope != y->scope) return x->scope < y->scope ? -1 : 1;
  if (x->index != y->index) return x->index < y->index ? -1 : 1;
  return x->order < y->order ? -1 : 1;
}

/* Labels into the program by section and pc: the order of the source's sections does not show. */
static void add_symbols(as_job *j) {
  uint32_t n = 0, order = 0;
  for (as_sym *s = as_sym_first(j); s; s = s->next) n += s->kind == AS_S_LABEL && s->defined;
  as_sym **v = as_new(j, ((size_t)n + 1) * sizeof *v);
  n = 0;
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (s->kind != AS_S_LABEL || !s->defined) continue;
    if (numbered_label(s->name) == s->index && !s->global) continue;
    s->order = order++;
    v[n++] = s;
  }
  bool sorted = true; /* as a rule they are */
  for (uint32_t i = 1; i < n && sorted; i++) sorted = by_place(&v[i - 1], &v[i]) < 0;
  if (!sorted) qsort(v, n, sizeof *v, by_place);
  for (uint32_t i = 0; i < n; i++) {
    isa_symbol sym = {.name = v[i]->name,
                      .engine = (uint8_t)(v[i]->scope - 1),
                      .global = v[i]->global,
                      .pc = v[i]->index};
    if (isa_program_symbol(j->program, &sym) == 0) as_nomem(j);
  }
}

/* ---- Order of patterns and pool ------------------------------------------------------------- */

/* Patterns, pool runs and files were added in the order of the source. The disassembler prints one
 * section after the other, so for its text to give the same bytes they are numbered again in that
 * order. */
typedef struct renumber {
  as_job *j;
  isa_ap *old;
  uint32_t *to;     /* new number of each old pattern, 0: not yet */
  isa_program pool; /* the old pool, for isa_program_list */
} renumber;

static uint32_t new_ap(renumber *r, uint32_t old) {
  if (old == 0) return 0;
  if (r->to[old - 1]) return r->to[old - 1];
  isa_ap ap = r->old[old - 1];
  for (unsigned d = 0; d < ISA_MAX_DYN; d++)
    if (ap.dyn[d].kind == ISA_DYN_elem) ap.dyn[d].ap = new_ap(r, ap.dyn[d].ap);
  if (ap.index_kind) ap.index = new_ap(r, ap.index);
  uint32_t n = isa_program_ap(r->j->program, 0, &ap);
  if (n == 0) as_nomem(r->j);
  return r->to[old - 1] = n;
}

static void new_list(renumber *r, isa_ref *ref, unsigned kind) {
  if (ref->count == 0) return;
  const void *data = isa_program_list(&r->pool, *ref, kind);
  uint32_t *aps = NULL;
  if (kind == ISA_K_APS) {
    aps = as_new(r->j, ref->count * sizeof *aps);
    memcpy(aps, data, ref->count * sizeof *aps);
    for (uint32_t i = 0; i < ref->count; i++) aps[i] = new_ap(r, aps[i]);
    data = aps;
  }
  if (!isa_program_pool(r->j->program, data, ref->count, isa_kind_elem[kind], ref)) as_nomem(r->j);
}

static void renumber_insn(renumber *r, isa_insn *in) {
  const isa_form *f = isa_form_of(in->op);
  for (unsigned i = 0; i < f->nfields; i++) {
    const isa_field *fd = &f->fields[i];
    void *m = isa_member(in, fd);
    if (fd->kind == ISA_K_AP) {
      isa_t_AP *ap = m;
      *ap = new_ap(r, *ap);
    } else if (fd->kind == ISA_K_NUM) {
      isa_num *num = m;
      if (num->kind == ISA_NUM_ap) num->v = new_ap(r, num->v);
    } else if (isa_kind_elem[fd->kind]) {
      new_list(r, m, fd->kind);
    }
  }
}

static void forget(isa_program *p, isa_core *core) {
  core->naps = 0;
  if (core->ap_table) memset(core->ap_table, 0, core->ap_table_size * sizeof *core->ap_table);
  p->pool.len = 0;
  p->npool_runs = 0;
  if (p->pool_table) memset(p->pool_table, 0, p->pool_table_size * sizeof *p->pool_table);
}

/* Files too, by the line tables of the sections. */
static void files_in_order(as_job *j) {
  isa_program *p = j->program;
  uint32_t *to = as_new(j, ((size_t)p->nfiles + 1) * sizeof *to), n = 0;
  const char **old = as_new(j, ((size_t)p->nfiles + 1) * sizeof *old);
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    isa_code *code = &p->cores[0].code[e];
    for (uint32_t i = 0; i < code->n; i++) {
      uint32_t *file = &code->lines[i].file;
      if (to[*file] == 0) to[*file] = ++n;
      *file = to[*file];
    }
  }
  for (uint32_t f = 0; f < p->nfiles; f++) old[f] = p->files[f];
  for (uint32_t f = 0; f < p->nfiles; f++)
    if (to[f + 1]) p->files[to[f + 1] - 1] = old[f];
  p->nfiles = n;
}

static void put_in_order(as_job *j) {
  isa_program *p = j->program;
  isa_core *core = &p->cores[0];
  renumber r = {.j = j};
  uint32_t n = core->naps;
  r.old = as_new(j, ((size_t)n + 1) * sizeof *r.old);
  r.to = as_new(j, ((size_t)n + 1) * sizeof *r.to);
  if (n) memcpy(r.old, core->aps, n * sizeof *r.old);
  r.pool.pool.data = as_new(j, p->pool.len + 8);
  r.pool.pool.len = p->pool.len;
  if (p->pool.len) memcpy(r.pool.pool.data, p->pool.data, p->pool.len);
  forget(p, core);
  for (uint32_t q = 0; q < core->nqueues; q++)
    for (uint32_t i = 0; i < core->queues[q].nstatics; i++)
      renumber_insn(&r, &core->queues[q].statics[i]);
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (uint32_t i = 0; i < core->code[e].n; i++) renumber_insn(&r, &core->code[e].insns[i]);
}

/* ---- The whole ---------------------------------------------------------------------------- */

static void check_ends(as_job *j) {
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    const isa_code *code = &j->program->cores[0].code[e];
    if (code->n == 0) continue;
    unsigned op = code->insns[code->n - 1].op;
    if (op == ISA_OP_halt || op == ISA_OP_jmp || op == ISA_OP_ret) continue;
    as_error(j, j->unit->last[e], 1,
             "section %s falls off its end: after `%s` comes nothing; end it with halt, jmp or ret",
             isa_engines[e].name, isa_ops[op].name);
  }
}

void as_layout(as_job *j) {
  as_program(j);
  as_loops_end(j);
  for (uint32_t i = 0; i < j->unit->nfixups; i++) fix(j, &j->unit->fixups[i]);
  check_ends(j);
  if (j->errors) return;
  as_warn_program(j);
  add_symbols(j);
  put_in_order(j);
  files_in_order(j);
}
