/* Advice: variants of a kernel, each built and run without values. What saves less than a hundredth
 * of the time is not told. */
#include "advice.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_BUILT = 2000000, LEAST_SAVED = 100 }; /* instructions; a part of the time */

/* ---- Trials --------------------------------------------------------------------------------- */

bool soma_try(soma_trials *t, soma_recipe *const r[], const soma_choice *c, soma_time *time,
              as_kernel_figures *f) {
  soma_made made;
  /* What all trials build is bounded: a long kernel has fewer of them. */
  if (t->left < r[0]->items) {
    t->a->all = false;
    return false;
  }
  /* Counted in instructions, built or not. */
  t->left -= r[0]->items;
  t->a->trials++;
  bool ok = soma_make(r, t->cores, c, &made) && (!time || soma_time_made(t->timer, &made));
  if (ok && time) *time = made.time;
  if (ok && f) *f = *as_kernel_get_figures(made.k[0]);
  soma_made_free(&made);
  return ok;
}

/* "": the recipe has no name for it. */
static const char *buffer_name(const soma_recipe *r, int64_t buffer) {
  soma_entry e;
  if ((r->o.flags & AS_KERNEL_COPIES) || !soma_recipe_buffer(r, buffer, &e)) return "";
  size_t bytes = e.kind == SOMA_RECIPE_TILE ? sizeof(as_kernel_tile) : sizeof(isa_tensor);
  size_t head = (bytes + 7) / 8;
  return e.n > head ? (const char *)(e.words + head) : "";
}

/* Only what saves at least a hundredth gets into the list. */
void soma_advise_that(soma_trials *t, const soma_group *g, soma_kernel_advice_kind kind,
                      soma_time time, const char *text, ...) {
  soma_advisor *a = t->a;
  if (time >= a->time || (a->time - time) * LEAST_SAVED < a->time) return;
  /* Without memory a piece of advice is left out. */
  if (!isa_array_room(&a->al, &a->list, a->n, &a->cap, sizeof *a->list)) return;
  soma_advised *x = &a->list[a->n++];
  *x = (soma_advised){.a = {.kind = kind, .saved = a->time - time}};
  va_list args;
  va_start(args, text);
  vsnprintf(x->text, sizeof x->text, text, args);
  va_end(args);
  /* Advice about the whole kernel has no line. */
  if (!g) return;
  x->a.instruction = isa_ops[g->op].name;
  x->a.times = g->count;
  x->a.line = g->at[0].line;
  x->a.file = soma_recipe_file_name(t->r[0], g->at[0].file);
  const int64_t *first = soma_record_operand(g->record, 0);
  if (first) snprintf(x->name, sizeof x->name, "%s", buffer_name(t->r[0], first[SOMA_AP_BUFFER]));
}

/* ---- Passes that are off --------------------------------------------------------------------- */

/* The pass works on the lines of this group alone. */
static bool try_extra(soma_trials *t, const soma_group *g, uint32_t passes, soma_time *time,
                      as_kernel_figures *f) {
  soma_choice c = t->c;
  c.extra = passes & ~t->c.passes;
  for (unsigned i = 0; i < ISA_MAX_CORES; i++) c.at[i] = g->at[i];
  return soma_try(t, t->r, &c, time, f);
}

/* A line whose tile would have a version for each round, and a line whose instructions give what is
 * there already: which may need versions to be seen. */
static void try_tiles(soma_trials *t, const soma_group *g, uint32_t passes) {
  /* Without versions the time is that of the kernel as it is. */
  soma_time time = t->a->time, again;
  as_kernel_figures f;
  bool dma = isa_op_is_dma(g->op);
  uint32_t pass = dma ? AS_PASS_LOADS : AS_PASS_VALUES;
  /* More versions than before: the pass has found something there. */
  if ((passes & AS_PASS_VERSIONS) && try_extra(t, g, AS_PASS_VERSIONS, &time, &f) &&
      f.versions > t->figures.versions)
    soma_advise_that(t, g, SOMA_ADVICE_TILE, time,
                     "it overwrites a tile that is still in use: make one for each time, in the "
                     "loop");
  if (!(passes & (pass | AS_PASS_FAR)) ||
      !try_extra(t, g, AS_PASS_VERSIONS | AS_PASS_FAR | pass, &again, &f))
    return;
  /* It must do something, and save more than versions alone. */
  if (f.left_out <= t->figures.left_out || again >= time) return;
  uint64_t n = f.left_out - t->figures.left_out;
  soma_advise_that(t, g, dma ? SOMA_ADVICE_LOAD : SOMA_ADVICE_VALUE, again,
                   dma ? "%u times, %" PRIu64 " of them of what a tile has: load it once, before "
                         "the loop"
                       : "%u times, %" PRIu64 " of them the same again: once, before the loop",
                   (unsigned)g->count, n);
}

static void try_unread(soma_trials *t, const soma_group *g) {
  soma_time time;
  as_kernel_figures f;
  /* The figures tell whether anything was left out. */
  if (!try_extra(t, g, AS_PASS_MEMSETS | AS_PASS_STORES, &time, &f)) return;
  if (f.left_out <= t->figures.left_out) return;
  soma_advise_that(t, g, SOMA_ADVICE_UNREAD, time,
                   "%" PRIu64 " of %u write what is overwritten before anything reads it: leave "
                   "them out",
                   f.left_out - t->figures.left_out, (unsigned)g->count);
}

/* The passes that are off and would do something. Values and loads may need versions to be seen.
 * Each row is built once, so that passes which find nothing are not tried line by line. */
static uint32_t useful_passes(soma_trials *t) {
  static const struct {
    uint32_t passes, found;
  } rows[] = {{AS_PASS_VERSIONS, AS_PASS_VERSIONS},
              {AS_PASS_VERSIONS | AS_PASS_LOADS, AS_PASS_LOADS},
              {AS_PASS_VERSIONS | AS_PASS_VALUES, AS_PASS_VALUES},
              {AS_PASS_VERSIONS | AS_PASS_LOADS | AS_PASS_VALUES | AS_PASS_FAR, AS_PASS_FAR},
              {AS_PASS_MEMSETS | AS_PASS_STORES, AS_PASS_MEMSETS | AS_PASS_STORES}};
  uint32_t found = 0;
  /* A list keeps its order, and so all that these passes would change. */
  if (t->r[0]->o.flags & AS_KERNEL_KEEP_ORDER) return 0;
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    soma_choice c = t->c;
    as_kernel_figures f;
    uint32_t off = rows[i].passes & ~t->c.passes;
    c.passes |= rows[i].passes;
    if (!off || !soma_try(t, t->r, &c, NULL, &f)) continue;
    bool does = rows[i].found == AS_PASS_VERSIONS ? f.versions > t->figures.versions
                                                  : f.left_out > t->figures.left_out;
    if (does) found |= off & rows[i].found;
  }
  return found;
}

/* Tried for all of the kernel: an order is of all lines. */
static void try_order(soma_trials *t) {
  soma_choice c = t->c;
  soma_time time;
  if ((c.passes & AS_PASS_ORDER) || (t->r[0]->o.flags & AS_KERNEL_KEEP_ORDER)) return;
  c.passes |= AS_PASS_ORDER;
  if (soma_try(t, t->r, &c, &time, NULL))
    soma_advise_that(
        t, NULL, SOMA_ADVICE_ORDER, time,
        "the order: what is ready before what waits, as the next loads before the work "
        "on the last ones");
}

/* ---- Engines --------------------------------------------------------------------------------- */

/* In the recipes themselves, which the caller then sets back. */
static void set_engine(const soma_trials *t, const soma_group *g, int engine) {
  for (unsigned core = 0; core < t->cores; core++) {
    soma_entry e;
    for (uint32_t at = 0; soma_recipe_at(t->r[core], at, &e); at = e.next)
      for (uint32_t i = 0; e.kind == SOMA_RECIPE_RECORDS && i < e.n; i += (uint32_t)e.words[i])
        if (soma_is_of(e.words + i, g, core)) e.words[i + AS_REC_ENGINE] = engine;
  }
}

static void try_engines(soma_trials *t, const soma_group *g) {
  soma_time time;
  /* Nothing to choose from: one engine, which the line has already. */
  bool one = !(g->engines & (g->engines - 1)) && (g->engine < 0 || g->engines >> g->engine == 1);
  if (g->engine < -1 || one || (g->engine >= 0 && !(g->engines >> g->engine & 1))) return;
  for (int e = 0; e < ISA_NENGINES; e++) {
    /* Every engine that can run all instructions of the line. */
    if (!(g->engines >> e & 1) || e == g->engine) continue;
    set_engine(t, g, e);
    if (soma_try(t, t->r, &t->c, &time, NULL)) {
      uint32_t before = t->a->n;
      soma_advise_that(t, g, SOMA_ADVICE_ENGINE, time, "engine=%s", isa_engines[e].name);
      if (t->a->n > before) t->a->list[before].a.engine = (soma_engine)e;
    }
    /* As it was, for the next trial. */
    set_engine(t, g, g->engine);
  }
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* The order of the list among equals, so that qsort decides nothing. */
static int by_time(const void *a, const void *b) {
  const soma_group *x = a, *y = b;
  if (x->time != y->time) return x->time > y->time ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static int by_saved(const void *a, const void *b) {
  const soma_kernel_advice *x = &((const soma_advised *)a)->a, *y = &((const soma_advised *)b)->a;
  if (x->saved != y->saved) return x->saved > y->saved ? -1 : 1;
  if (x->line != y->line) return x->line < y->line ? -1 : 1;
  return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : (int)x->engine - (int)y->engine;
}

static void try_all(soma_trials *t) {
  uint32_t passes = useful_passes(t);
  try_order(t);
  /* Trials end when enough is built, so the costly lines come first. */
  qsort(t->groups, t->ngroups, sizeof *t->groups, by_time);
  for (uint32_t i = 0; i < t->ngroups; i++) {
    /* The costliest groups first, while there is room for trials. */
    const soma_group *g = &t->groups[i];
    bool dma = isa_op_is_dma(g->op);
    /* A line that runs once has nothing to share between rounds. */
    if (g->count > 1) try_tiles(t, g, passes);
    if (passes & (AS_PASS_MEMSETS | AS_PASS_STORES)) try_unread(t, g);
    if (dma)
      soma_try_rows(t, g);
    else
      try_engines(t, g);
  }
}

soma_advisor *soma_advise(soma_recipe *const r[], unsigned cores, const soma_choice *c) {
  soma_advisor *a = isa_zalloc(&r[0]->al, sizeof *a);
  /* Without memory there is no advice, and the kernel is built all the same. */
  if (!a) return NULL;
  *a = (soma_advisor){.al = r[0]->al, .all = true};
  soma_trials t = {.a = a, .r = r, .cores = cores, .c = *c, .left = MOST_BUILT};
  t.timer = r[0]->keeps ? soma_timer(r[0]) : NULL;
  /* The first trial is the kernel itself, whose time all others are held against. */
  if (t.timer && soma_try(&t, r, c, &a->time, &t.figures) && soma_find_groups(&t)) try_all(&t);
  soma_machine_free(t.timer);
  isa_free(&a->al, t.groups, t.cap_groups * sizeof *t.groups);
  if (a->n) qsort(a->list, a->n, sizeof *a->list, by_saved);
  /* Texts lie in the list, which does not grow any more. */
  for (uint32_t i = 0; i < a->n; i++) {
    a->list[i].a.text = a->list[i].text;
    a->list[i].a.name = a->list[i].name[0] ? a->list[i].name : NULL;
  }
  return a;
}

void soma_advisor_free(soma_advisor *a) {
  if (!a) return;
  isa_alloc al = a->al;
  isa_free(&al, a->list, a->cap * sizeof *a->list);
  isa_free(&al, a, sizeof *a);
}

/* "       12.345  rms.py:35 (t): tensor_copy: engine=vector" */
static void print_one(const soma_kernel_advice *a, isa_buf *out) {
  /* Femtoseconds as microseconds. */
  isa_buf_printf(out, "  %12.3f  ", (double)a->saved * 1e-9);
  if (a->instruction) {
    if (a->file) isa_buf_printf(out, "%.120s:%u", a->file, (unsigned)a->line);
    if (!a->file) isa_buf_printf(out, "line %u", (unsigned)a->line);
    if (a->name) isa_buf_printf(out, " (%s)", a->name);
    isa_buf_printf(out, ": %s: ", a->instruction);
  }
  isa_buf_printf(out, "%s\n", a->text);
}

void soma_advisor_print(const soma_advisor *a, isa_buf *out) {
  /* A time of 0: not even the kernel itself could be timed. */
  if (!a->time) {
    isa_buf_printf(out,
                   "\nadvice: nothing was tried: the kernel has more than %d instructions, or does "
                   "not end with zeros\n",
                   SOMA_RECIPE_MOST);
    return;
  }
  const char *most = a->all ? "" : "; there are more, which were not tried";
  if (!a->n)
    isa_buf_printf(out, "\nadvice: none of %u variants saves time%s\n", (unsigned)a->trials, most);
  else
    isa_buf_printf(out, "\nadvice, us that each saves alone, of %.3f (%u variants%s):\n",
                   (double)a->time * 1e-9, (unsigned)a->trials, most);
  for (uint32_t i = 0; i < a->n; i++) print_one(&a->list[i].a, out);
}
