/* Static checks: what is made, in which order, and findings. */
#include "impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const isa_lint_row isa_lints[ISA_NLINTS] = {
#define LINT(id, name, note) {name, note},
#include "lint.def"
};

/* ---- Findings ------------------------------------------------------------------------------ */

void isa_lint_add(lint *l, unsigned kind, isa_place at, const char *fmt, ...) {
  isa_findings *f = l->out;
  isa_buf b;
  va_list ap;
  /* A list as long as the program helps nobody.
   * The rest would be of the same kind most often. */
  if (f->n == ISA_MAX_FINDINGS || l->failed) return;
  isa_buf_init(&b, l->al);
  va_start(ap, fmt);
  isa_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  /* Findings live as long as their list, beside which the program may be gone. */
  char *text = b.failed ? NULL : isa_arena_strn(&f->arena, isa_buf_str(&b), b.len);
  isa_buf_free(&b);
  if (text)
    f->v[f->n++] = (isa_finding){(uint8_t)kind, at, text};
  else
    l->failed = true;
}

/* $S[3] for a semaphore without a name, $S[1,3] for one of the other core. */
const char *isa_lint_sem_name(const lint *l, unsigned core, unsigned sem, char buf[LINT_NAME]) {
  const char *name = core < l->p->ncores ? l->p->cores[core].sem_names[sem] : NULL;
  if (name)
    snprintf(buf, LINT_NAME, "$%s", name);
  else if (core)
    snprintf(buf, LINT_NAME, "$S[%u,%u]", core, sem);
  else
    snprintf(buf, LINT_NAME, "$S[%u]", sem);
  return buf;
}

const char *isa_lint_place(const lint *l, isa_place at, char buf[LINT_NAME]) {
  const isa_code *code = &l->p->cores[at.core].code[at.engine];
  /* With lines a person finds it in the source, without by its pc. */
  if (code->lines && code->lines[at.pc].file)
    snprintf(buf, LINT_NAME, "%.60s:%u", l->p->files[code->lines[at.pc].file - 1],
             code->lines[at.pc].line);
  else
    snprintf(buf, LINT_NAME, "%s pc %u", isa_engines[at.engine].name, at.pc);
  return buf;
}

isa_place isa_lint_here(const lint_stream *s) {
  return (isa_place){(int)s->core, (int)s->engine, s->pc};
}

/* Findings come from several passes: sorted, the order does not tell which. */
static int by_place(const void *a, const void *b) {
  const isa_finding *x = a, *y = b;
  if (x->at.core != y->at.core) return x->at.core < y->at.core ? -1 : 1;
  if (x->at.engine != y->at.engine) return x->at.engine < y->at.engine ? -1 : 1;
  if (x->at.pc != y->at.pc) return x->at.pc < y->at.pc ? -1 : 1;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  return strcmp(x->text, y->text);
}

/* ---- Code that nothing reaches ------------------------------------------------------------- */

/* What another part of a linked program may call is not dead code.
 * global names are entries from outside. */
static bool reach(const lint *l, const lint_stream *s, uint8_t *seen) {
  bool ok = isa_flow_reach(l->al, s->code, 0, seen);
  for (uint32_t i = 0; ok && i < l->p->nsymbols; i++) {
    const isa_symbol *y = &l->p->symbols[i];
    if (y->global && y->core == s->core && y->engine == s->engine)
      ok = isa_flow_reach(l->al, s->code, y->pc, seen);
  }
  return ok;
}

static void judge_code(lint *l, const lint_stream *s) {
  uint32_t n = s->code->n;
  uint8_t *seen = isa_zalloc(l->al, n);
  if (!seen || !reach(l, s, seen)) l->failed = true;
  for (uint32_t pc = 0, end; !l->failed && pc < n; pc = end) {
    /* A run of dead instructions is one finding. */
    for (end = pc; end < n && !seen[end] && end - pc < n; end++) {
    }
    uint32_t dead = end - pc;
    isa_place at = {(int)s->core, (int)s->engine, pc};
    if (dead == 1)
      isa_lint_add(l, ISA_LINT_unreachable, at, "nothing leads to this instruction");
    else if (dead > 1)
      isa_lint_add(l, ISA_LINT_unreachable, at, "nothing leads to these %u instructions", dead);
    /* A step over a live instruction. */
    end += dead == 0;
  }
  if (seen) isa_free(l->al, seen, n);
}

/* ---- All together -------------------------------------------------------------------------- */

static bool open(lint *l) {
  const isa_program *p = l->p;
  for (unsigned c = 0; c < p->ncores; c++) {
    /* CC sequencers are not followed (isa_lint_scan_cc). */
    for (unsigned e = 0; e < ISA_NENGINES; e++) {
      lint_stream *s = &l->s[c * ISA_NENGINES + e];
      *s = (lint_stream){.code = &p->cores[c].code[e], .core = c, .engine = e};
      if (s->code->n) s->count = isa_zalloc(l->al, s->code->n * sizeof *s->count);
      /* Counts and marks for each instruction; a section without code has none. */
      if (s->code->n) s->moves = isa_zalloc(l->al, s->code->n);
      if (s->code->n && (!s->count || !s->moves)) return false;
      for (uint32_t pc = 0; pc < s->code->n; pc++)
        s->moves[pc] = isa_lint_moves(l, s, &s->code->insns[pc]) ? LINT_MOVES : 0;
    }
    for (unsigned q = 0; q < p->cores[c].nqueues; q++) {
      uint32_t n = p->cores[c].queues[q].nstatics;
      if (n) l->statics_done[c][q] = isa_zalloc(l->al, n);
      if (n && !l->statics_done[c][q]) return false;
    }
  }
  /* One mark for each tile and each tensor: the first bad read of each is told. */
  uint32_t places = p->ntiles + p->ntensors;
  if (places) l->reported = isa_zalloc(l->al, places);
  return (l->reported || !places) && isa_lint_memory_open(l);
}

static void close(lint *l) {
  const isa_program *p = l->p;
  for (unsigned i = 0; i < LINT_STREAMS; i++) {
    const lint_stream *s = &l->s[i];
    if (s->count) isa_free(l->al, s->count, s->code->n * sizeof *s->count);
    if (s->moves) isa_free(l->al, s->moves, s->code->n);
  }
  for (unsigned c = 0; c < p->ncores; c++)
    for (unsigned q = 0; q < p->cores[c].nqueues; q++)
      if (l->statics_done[c][q])
        isa_free(l->al, l->statics_done[c][q], p->cores[c].queues[q].nstatics);
  if (l->reported) isa_free(l->al, l->reported, p->ntiles + p->ntensors);
  isa_lint_memory_close(l);
}

/* One pass without waits, for totals and loops, and one that compares each wait with these; then
 * one for each engine, in which that engine goes last, so that all that can be written before it
 * reads has been. Any of those tells who is stuck. */
static void run(lint *l) {
  isa_lint_scan_text(l);
  /* Without waits each engine runs to its end, so totals are the most that can ever be. */
  l->free = true;
  if (!isa_lint_pass(l)) return;
  memcpy(l->total, l->sem, sizeof l->total);
  /* Loops are judged on the totals of that pass. */
  isa_lint_judge_balance(l);
  l->judges = true;
  if (!isa_lint_pass(l)) return;
  l->judges = l->free = false;
  for (unsigned i = 0; i < LINT_STREAMS; i++) {
    if (!l->s[i].code || l->s[i].code->n == 0) continue;
    judge_code(l, &l->s[i]);
    l->at = &l->s[i];
    if (!isa_lint_pass(l)) return;
  }
  /* Where the last pass has ended: who is stuck, and what is written. */
  if (l->at) {
    isa_lint_judge_circles(l);
    isa_lint_judge_outputs(l);
  }
  isa_lint_judge_unwaited(l);
  isa_lint_judge_tiles(l);
}

isa_status isa_lint(const isa_program *p, uint64_t steps, const isa_alloc *al, isa_findings *out,
                    isa_error *e) {
  isa_place at;
  /* Places are given to it piece by piece; on failure the caller still frees the list. */
  isa_error none = {0};
  out->n = 0;
  isa_arena_init(&out->arena, al);
  /* The caller may not want the message. */
  e = e ? e : &none;
  *e = (isa_error){.field = ISA_NOFIELD};
  /* Only a legal program is followed: indices need no more checks below. */
  if (!isa_check_program(p, &at, e)) return e->status;
  lint *l = isa_zalloc(al, sizeof *l);
  if (!l) return ISA_NOMEM;
  l->p = p;
  l->al = al;
  l->out = out;
  l->steps = steps ? steps : ISA_LINT_STEPS;
  if (open(l))
    run(l);
  else
    l->failed = true;
  bool failed = l->failed;
  close(l);
  isa_free(al, l, sizeof *l);
  qsort(out->v, out->n, sizeof *out->v, by_place);
  return failed ? ISA_NOMEM : ISA_OK;
}

void isa_findings_free(isa_findings *f) { isa_arena_free(&f->arena); }
