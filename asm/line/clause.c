/* The `$` clauses after the operands: one wait, one update.
 *   $name>=n  $name>=r1 (> == <= < !=)
 *   $name++ $name-- $name+=n $name-=n $name=n, with @read or @complete after
 *   $name on a DMA line: its completion semaphore    $S[12] and $S[1,12] by number
 *   $peer.name: the semaphore of that number on the other core, of `name sem core=*`
 *   $name.rank[tp.next]: that of another rank, in the section of a CC sequencer */
#include "stmt.h"

#include <string.h>

typedef struct sem {
  const as_tok *at;
  uint8_t core, number;
  uint32_t rank; /* 1-based peer, 0: of this rank */
  bool each;     /* of the rank that each transfer writes */
} sem;

/* `S[12]`, `S[1,12]` */
static bool numbered(as_cur *c, sem *s) {
  /* Past `S` and `[`. */
  int64_t a, b;
  c->t += 2;
  if (!as_expr_int(c, &a)) return false;
  /* One number is a semaphore of this core, two are the core and its semaphore. */
  b = a;
  a = c->j->unit->core;
  if (as_take(c, ',')) {
    a = b;
    if (!as_expr_int(c, &b)) return false;
  }
  if (a < 0 || a >= ISA_MAX_CORES || b < 0 || b >= ISA_NSEMS) {
    as_error(c->j, s->at->pos, as_span_of(s->at, c->t),
             "there is no semaphore %lld of core %lld; cores are 0 and 1, semaphores 0 to %d",
             (long long)b, (long long)a, ISA_NSEMS - 1);
    return false;
  }
  s->core = (uint8_t)a;
  s->number = (uint8_t)b;
  return as_need(c, ']', "the number of a semaphore");
}

/* `name`, or `peer.name` of the other core.
 * A name of both cores is this core's, unless peer. stands before it. */
static bool named(as_cur *c, sem *s) {
  unsigned own = c->j->unit->core;
  bool peer = as_tok_is(c->t, "peer") && c->t[1].kind == AS_T_PUNCT && c->t[1].punct == '.';
  if (peer) c->t += 2;
  if (!as_at_name(c)) return as_expected(c->j, c->t, "the name of a semaphore after `peer.`");
  const as_sym *y = as_sym_need(c->j, c->t, 1 << AS_S_SEM);
  if (!y) return false;
  const as_tok *name = c->t++;
  s->core = (uint8_t)(y->core == AS_BOTH ? own : y->core);
  s->number = (uint8_t)y->index;
  if (!peer) return true;
  /* There are two cores. */
  if (y->core == AS_BOTH) {
    s->core = (uint8_t)(1 - own);
    return true;
  }
  as_error(c->j, s->at->pos, as_span_of(s->at, c->t),
           "`peer` needs a semaphore that both cores have; `%s` belongs only to core %u", y->name,
           y->core);
  as_note(c->j, y->pos, "`%s sem core=*` gives it to both", name->text);
  return false;
}

/* A semaphore of this rank, by name or number. */
static bool parse_own(as_cur *c, sem *s) {
  if (!as_at_name(c)) return as_expected(c->j, c->t, "the name of a semaphore after `$`");
  if (as_tok_is(c->t, "S") && c->t[1].kind == AS_T_PUNCT && c->t[1].punct == '[') {
    if (!numbered(c, s)) return false;
    /* The linker gives semaphores their numbers.
     * By number it could be another object's. */
    if (c->j->o->relocatable) {
      as_error(c->j, s->at->pos, as_span_of(s->at, c->t),
               "an object cannot use a semaphore by number; declare it, as in `x sem %d`",
               s->number);
      return false;
    }
    return true;
  }
  return named(c, s);
}

static bool parse_sem(as_cur *c, sem *s) {
  *s = (sem){.at = c->t};
  /* The $ may be left out where only a semaphore can stand. */
  as_take(c, '$');
  if (!parse_own(c, s)) return false;
  if (!as_at_rank(c)) return true;
  /* Past `.` and `rank`: the bracket is next. */
  c->t += 2;
  /* In place of a peer, and then the end of the brackets. */
  s->each = as_tok_is(c->t + 1, "dst") && c->t[2].kind == AS_T_PUNCT && c->t[2].punct == ']';
  if (s->each) c->t += 3;
  return s->each || as_peer(c, &s->rank);
}

/* For operands that are semaphores, such as the one that device_print_semaphore shows. */
bool as_own_sem(as_cur *c, uint8_t *number) {
  sem s;
  unsigned own = c->j->unit->core;
  if (!parse_sem(c, &s)) return false;
  *number = s.number;
  if (s.rank || s.each)
    return as_error(c->j, s.at->pos, as_span_of(s.at, c->t),
                    "this must be a semaphore of its own rank");
  if (s.core == own) return true;
  return as_error(c->j, s.at->pos, as_span_of(s.at, c->t),
                  "the semaphore belongs to core %u, but this section to core %u", s.core, own);
}

/* Which wait the sign begins; none of these: it may be an update. */
static unsigned wait_cond(const as_cur *c) {
  if (c->t->kind != AS_T_PUNCT) return ISA_WAIT_none;
  switch (c->t->punct) {
  case AS_P_GE: return ISA_WAIT_ge;
  case '>': return ISA_WAIT_gt;
  case AS_P_EQ: return ISA_WAIT_eq;
  case AS_P_LE: return ISA_WAIT_le;
  case '<': return ISA_WAIT_lt;
  case AS_P_NE: return ISA_WAIT_ne;
  default: return ISA_WAIT_none;
  }
}

/* A single `=` writes the number, it does not compare. */
static unsigned update_kind(const as_cur *c) {
  if (c->t->kind != AS_T_PUNCT) return ISA_UPD_none;
  switch (c->t->punct) {
  case AS_P_INC: return ISA_UPD_inc;
  case AS_P_DEC: return ISA_UPD_dec;
  case AS_P_ADDEQ: return ISA_UPD_add;
  case AS_P_SUBEQ: return ISA_UPD_sub;
  case '=': return ISA_UPD_write;
  default: return ISA_UPD_none;
  }
}

/* A second wait or update: an error at it, a note at the first. */
static bool only_one(as_cur *c, bool had, const as_tok *first, const sem *s, const char *what) {
  if (!had) return true;
  /* `nop` has clauses of its own, so a second one always finds a place. */
  as_error(c->j, s->at->pos, as_span_of(s->at, c->t), "an instruction can have only one %s", what);
  as_note(c->j, first->pos, "the first %s is here; a `nop` %s it can have the other", what,
          strcmp(what, "wait") == 0 ? "before" : "after");
  return false;
}

/* Whether a semaphore that nobody touched passes; with a register it may.
 * For a warning: a wait that no update ends, unless 0 satisfies it. */
static bool passes_at_zero(const isa_wait *w) {
  switch (w->cond) {
  case ISA_WAIT_ge:
  case ISA_WAIT_eq: return w->is_reg || w->value == 0;
  case ISA_WAIT_le: return true;
  case ISA_WAIT_lt: return w->is_reg || w->value > 0;
  case ISA_WAIT_ne: return w->is_reg || w->value != 0;
  default: return false;
  }
}

static void note_wait(as_job *j, const isa_wait *w, as_pos pos, uint32_t span) {
  as_sem_use *use = &j->unit->sems[w->core][w->sem];
  use->waited = true;
  /* The first wait that needs an update is the one of the message. */
  if (use->wait.line || passes_at_zero(w)) return;
  use->wait = pos;
  use->wait_span = span;
}

static void note_update(as_job *j, const isa_update *u, as_pos pos, uint32_t span) {
  as_sem_use *use = &j->unit->sems[u->core][u->sem];
  /* And the first update. */
  if (use->updated) return;
  use->updated = true;
  use->update = pos;
  use->update_span = span;
}

/* Both halves of a barrier: it tells the other core, and waits for it. */
void as_note_barrier(as_job *j, const isa_barrier *b, as_pos pos, uint32_t span) {
  note_update(j, &b->give, pos, span);
  note_wait(j, &b->wait, pos, span);
}

static bool parse_wait(as_cur *c, as_stmt *st, const sem *s, unsigned cond) {
  /* Waits are the first part's, updates the last part's: between them all parts run. */
  c->t++;
  isa_wait *w = &st->part[0].wait;
  if (!only_one(c, st->has_wait, &st->wait_at, s, "wait")) return false;
  if (s->rank || s->each) {
    as_error(c->j, s->at->pos, as_span_of(s->at, c->t),
             "a wait must be on a semaphore of its own rank; let the other rank update one");
    return false;
  }
  /* The other core's semaphores are out of its sight, their updates are not. */
  if (s->core != c->j->unit->core) {
    as_error(c->j, s->at->pos, as_span_of(s->at, c->t),
             "a wait must be on a semaphore of its own core, %u; let core %u update one of those",
             c->j->unit->core, s->core);
    return false;
  }
  st->has_wait = true;
  st->wait_at = *s->at;
  *w = (isa_wait){.cond = (uint8_t)cond, .core = s->core, .sem = s->number};
  int reg = as_tok_reg(c->t);
  /* The value is the number of a register or the number itself. */
  int64_t v = reg;
  if (reg >= 0) {
    c->t++;
    w->is_reg = 1;
  } else if (!as_int_in(c, "the value to wait for", 0, ISA_SEM_MAX, &v)) {
    return false;
  }
  w->value = (uint32_t)v;
  note_wait(c->j, w, s->at->pos, as_span_of(s->at, c->t));
  return true;
}

static bool parse_when(as_cur *c, isa_update *u) {
  if (!as_take(c, '@')) return true;
  /* The default, said aloud. */
  if (as_take_name(c, "complete")) return true;
  if (as_take_name(c, "read")) {
    u->at_read = 1;
    return true;
  }
  return as_expected(c->j, c->t, "read or complete after `@`");
}

static bool parse_update(as_cur *c, as_stmt *st, const sem *s, unsigned kind) {
  isa_update *u = &st->part[st->nparts - 1].upd;
  /* A completion has no sign to pass. */
  if (kind != ISA_UPD_dma) c->t++;
  if (!only_one(c, st->has_update, &st->update_at, s, "update")) return false;
  st->has_update = true;
  st->update_at = *s->at;
  *u = (isa_update){.kind = (uint8_t)kind, .core = s->core, .sem = s->number};
  if (kind == ISA_UPD_add || kind == ISA_UPD_sub || kind == ISA_UPD_write) {
    int64_t v;
    /* An update's value has no flag for a register, unlike a wait's. */
    if (as_tok_reg(c->t) >= 0)
      return as_error(c->j, c->t->pos, c->t->len, "an update takes a number, not a register");
    if (!as_int_in(c, "the value of an update", 0, ISA_SEM_MAX, &v)) return false;
    u->value = (uint32_t)v;
  }
  note_update(c->j, u, s->at->pos, as_span_of(s->at, c->t));
  return parse_when(c, u);
}

/* `$ready.rank[tp.prev]`: of another rank. */
static bool parse_remote(as_cur *c, as_stmt *st, const sem *s, unsigned kind) {
  if (!only_one(c, st->has_update, &st->update_at, s, "update")) return false;
  /* name.rank[...]++ is not written so. */
  if (kind)
    return as_error(
        c->j, c->t->pos, c->t->len,
        "the update of another rank's semaphore has no sign: it adds 1, after a transfer 1 "
        "for each ring");
  st->has_update = true;
  st->update_at = *s->at;
  st->part[st->nparts - 1].upd =
      (isa_update){.kind = ISA_UPD_peer, .core = s->core, .sem = s->number, .value = s->rank};
  /* Other ranks update it or wait for it.
   * No warning then: this program alone does not show who uses it. */
  c->j->unit->sems[s->core][s->number].shared = true;
  return true;
}

static bool parse_bare(as_cur *c, as_stmt *st, const sem *s) {
  /* Which instruction it is decides: a DMA has a completion. */
  unsigned op = st->part[st->nparts - 1].op;
  if (isa_op_is_dma(op)) return parse_update(c, st, s, ISA_UPD_dma);
  as_error(c->j, s->at->pos, as_span_of(s->at, c->t),
           "a `$` name alone is the completion semaphore of a DMA instruction; `%s` is not one",
           isa_ops[op].name);
  as_note(c->j, (as_pos){0}, "an update is `$name++` or `$name+=n`, a wait `$name>=n`");
  return false;
}

bool as_clauses(as_cur *c, as_stmt *st) {
  while (!as_at_end(c)) {
    if (!as_at_punct(c, '$')) return as_expected(c->j, c->t, "a `$` clause or the end of the line");
    sem s;
    if (!parse_sem(c, &s)) return false;
    unsigned cond = wait_cond(c), kind = update_kind(c);
    /* `=>` and `=<` would be read as a write of nothing.
     * A person means >=; as a write of "> 3" the message would help nobody. */
    if (kind == ISA_UPD_write && c->t[1].kind == AS_T_PUNCT &&
        (c->t[1].punct == '>' || c->t[1].punct == '<')) {
      as_error(c->j, c->t->pos, 2, "there is no comparison `=%c`; did you mean `%c=`?",
               (char)c->t[1].punct, (char)c->t[1].punct);
      return false;
    }
    bool ok = cond               ? parse_wait(c, st, &s, cond)
              : s.rank || s.each ? parse_remote(c, st, &s, kind)
              : kind             ? parse_update(c, st, &s, kind)
                                 : parse_bare(c, st, &s);
    if (!ok) return false;
  }
  return true;
}
