/* What the checks of a world have found: each once, with the ranks that have it. */
#include "world_impl.h"

#include "../check/check.h"

#include <string.h>

/* A finding of the world: that of the first rank, and who has it as well. */
typedef struct item {
  soma_finding first;
  uint32_t *ranks, nranks, cap;
  const soma_run *run; /* of ranks[0], and its number there */
  uint32_t number;
  isa_buf text;
} item;
struct soma_found {
  item *v;
  uint32_t n, cap;
};

/* ---- Which are the same ------------------------------------------------------------------- */

typedef struct place {
  const char *file;
  uint32_t line, pc, core;
  int engine; /* -1: there is no such place */
  bool there; /* of another rank */
} place;

/* other: the second place, where a finding has two. */
static place place_of(const soma_run *r, uint32_t i, bool other) {
  const vm_finding *f = vm_check_finding(r->run.cores[0], i);
  const struct vm_finding_peer *p = &f->peer[other];
  soma_finding own;
  soma_place second;
  /* Without a file, the pc tells instructions apart. */
  if (p->rank) return (place){p->file, p->line, p->file ? 0 : p->pc, p->core, (int)p->engine, true};
  if (!other && soma_run_finding(r, i, &own) == SOMA_OK)
    return (place){own.file,        own.line, own.file ? 0 : own.pc, soma_run_finding_core(r, i),
                   (int)own.engine, false};
  if (other && soma_run_finding_other(r, i, &second, sizeof second) == SOMA_OK)
    return (place){second.file, second.line,        second.file ? 0 : second.pc,
                   second.core, (int)second.engine, false};
  return (place){.engine = -1};
}

/* Two files without a name are one. */
static bool same_place(place a, place b) {
  bool named = a.file && b.file;
  return a.engine == b.engine && a.core == b.core && a.line == b.line && a.pc == b.pc &&
         a.there == b.there && (named ? strcmp(a.file, b.file) == 0 : a.file == b.file);
}

/* By kind and both places; texts are not compared. */
static bool is_same(const item *x, const soma_run *r, uint32_t i, const soma_finding *f) {
  return x->first.check == f->check &&
         same_place(place_of(x->run, x->number, false), place_of(r, i, false)) &&
         same_place(place_of(x->run, x->number, true), place_of(r, i, true));
}

/* ---- The list ----------------------------------------------------------------------------- */

static bool add_rank(soma_world *w, item *x, uint32_t of) {
  /* A rank counts once, however many findings are the same.
   * Ranks come in order, so the last one tells. */
  if (x->nranks && x->ranks[x->nranks - 1] == of) return true;
  if (!isa_array_grow(&w->al, &x->ranks, x->nranks, &x->cap, sizeof *x->ranks)) return false;
  x->ranks[x->nranks++] = of;
  return true;
}

/* A finding that cannot be read is passed over. False: out of memory. */
static bool add(soma_world *w, struct soma_found *all, uint32_t of, uint32_t i) {
  const soma_run *r = w->ranks[of].run;
  soma_finding f;
  if (soma_run_finding(r, i, &f) != SOMA_OK) return true;
  for (uint32_t k = 0; k < all->n; k++)
    if (is_same(&all->v[k], r, i, &f)) return add_rank(w, &all->v[k], of);
  if (!isa_array_grow(&w->al, &all->v, all->n, &all->cap, sizeof *all->v)) return false;
  item *x = &all->v[all->n++];
  *x = (item){.first = f, .run = r, .number = i};
  isa_buf_init(&x->text, &w->al);
  return add_rank(w, x, of);
}

static void put_text(item *x) {
  enum { SHOWN = 16 };
  /* The text of the first rank. */
  isa_buf_printf(&x->text, "rank %u: %s", x->ranks[0], soma_found_text(x->run, x->number));
  if (x->nranks > 1) isa_buf_printf(&x->text, "\n  also in rank%s ", x->nranks > 2 ? "s" : "");
  /* All but the first, which the text begins with. */
  for (uint32_t i = 1; i < x->nranks && i <= SHOWN; i++)
    isa_buf_printf(&x->text, i > 1 ? ", %u" : "%u", x->ranks[i]);
  /* Longer lists are cut: the call has all ranks. */
  if (x->nranks > SHOWN + 1) isa_buf_printf(&x->text, " and %u more", x->nranks - SHOWN - 1);
  isa_buf_puts(&x->text, "\n");
  x->first.text = isa_buf_str(&x->text);
}

/* Texts that were given out end here. */
void soma_forget_findings(soma_world *w) {
  struct soma_found *all = w->found;
  for (uint32_t i = 0; all && i < all->n; i++) {
    isa_free(&w->al, all->v[i].ranks, all->v[i].cap * sizeof *all->v[i].ranks);
    isa_buf_free(&all->v[i].text);
  }
  if (!all) return;
  isa_free(&w->al, all->v, all->cap * sizeof *all->v);
  isa_free(&w->al, all, sizeof *all);
  w->found = NULL;
}

bool soma_merge_findings(soma_world *w) {
  soma_forget_findings(w);
  /* Made anew each time: ranks may have found more. */
  struct soma_found *all = w->found = isa_zalloc(&w->al, sizeof *all);
  for (uint32_t r = 0; all && r < w->o.ranks; r++)
    for (uint32_t i = 0; w->ranks[r].run && i < VM_FINDINGS; i++)
      if (!add(w, all, r, i)) return false;
  for (uint32_t i = 0; all && i < all->n; i++) {
    put_text(&all->v[i]);
    if (all->v[i].text.failed) return false;
  }
  return all != NULL;
}

uint32_t soma_world_findings(const soma_world *w) { return w && w->found ? w->found->n : 0; }

soma_status soma_world_finding_at(const soma_world *w, uint32_t i, soma_world_finding *out,
                                  size_t n) {
  if (!out || i >= soma_world_findings(w)) return SOMA_ARG;
  /* The struct may be of an older caller. */
  const item *x = &w->found->v[i];
  const soma_world_finding all = {x->first, x->ranks, x->nranks, x->number};
  memcpy(out, &all, n < sizeof all ? n : sizeof all);
  return SOMA_OK;
}
