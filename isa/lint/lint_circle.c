/* Engines that wait for one another. Of the engines that are stuck, each waits for updates that
 * others, or it itself, make only after their own waits. Such a circle is reported by itself,
 * unless one in it also waits for an engine outside. */
#include "impl.h"

#include <string.h>

typedef struct graph { /* of stuck streams */
  bool stuck[LINT_STREAMS];
  bool to[LINT_STREAMS][LINT_STREAMS]; /* whether i gets on, in the end, only by j's updates */
} graph;

static bool changes(const lint_stream *s, const isa_insn *in, const isa_wait *w) {
  isa_barrier b;
  /* A barrier that has given does not give again. */
  if (isa_insn_barrier(in, s->core, &b) && b.give.sem == w->sem && b.give.core == w->core &&
      !(s->given && in == &s->code->insns[s->pc]))
    return true;
  const struct isa_SEM_RANGE *a = &in->u.SEM_RANGE;
  if (in->op == ISA_OP_sem_range_clear)
    return w->core == s->core && w->sem >= a->first && w->sem < (unsigned)a->first + a->count;
  return in->upd.kind != ISA_UPD_none && in->upd.sem == w->sem && in->upd.core == w->core;
}

/* Whether stream s, from where it is, updates what w waits for. */
static bool updates(lint *l, const lint_stream *s, const isa_wait *w) {
  const isa_core *core = &l->p->cores[s->core];
  uint8_t *seen = isa_zalloc(l->al, s->code->n);
  bool found = false;
  if (!seen || !isa_flow_reach(l->al, s->code, s->pc, seen)) l->failed = true;
  for (uint32_t pc = 0; !l->failed && !found && pc < s->code->n; pc++) {
    const isa_insn *in = &s->code->insns[pc];
    if (!seen[pc]) continue;
    found = changes(s, in, w);
    /* The transfers that it starts may update it, too. */
    if (in->op != ISA_OP_dma_trigger) continue;
    const isa_queue *q = &core->queues[in->u.TRIGGER.queue];
    for (uint32_t k = 0; k < q->nstatics && !found; k++) found = changes(s, &q->statics[k], w);
  }
  if (seen) isa_free(l->al, seen, s->code->n);
  return found;
}

static void build(lint *l, graph *g) {
  for (unsigned i = 0; i < LINT_STREAMS; i++) g->stuck[i] = l->s[i].state == LINT_WAITS;
  for (unsigned i = 0; i < LINT_STREAMS; i++) {
    if (!g->stuck[i]) continue;
    const isa_wait w = isa_lint_wait(&l->s[i]);
    /* It is impossible by itself, and reported so. */
    if (!isa_lint_can_hold(l, &l->s[i], &w, &l->total[isa_lint_key(w.core, w.sem)])) continue;
    for (unsigned j = 0; j < LINT_STREAMS; j++)
      g->to[i][j] = g->stuck[j] && updates(l, &l->s[j], &w);
  }
  /* Whom each depends on in the end. */
  for (unsigned k = 0; k < LINT_STREAMS; k++)
    for (unsigned i = 0; i < LINT_STREAMS; i++)
      for (unsigned j = 0; j < LINT_STREAMS; j++)
        g->to[i][j] = g->to[i][j] || (g->to[i][k] && g->to[k][j]);
}

/* Whether i is the first of a circle that depends on nobody else. */
static bool leads_circle(const graph *g, unsigned i) {
  if (!g->to[i][i]) return false;
  for (unsigned j = 0; j < LINT_STREAMS; j++) {
    /* It also waits for one outside. */
    if (g->to[i][j] && !g->to[j][i]) return false;
    /* Another one of the circle is its first. */
    if (j < i && g->to[i][j]) return false;
  }
  return true;
}

static void put_stuck(const lint *l, const lint_stream *s, bool first, isa_buf *out) {
  const isa_wait w = isa_lint_wait(s);
  char name[LINT_NAME], place[LINT_NAME];
  uint32_t want;
  isa_lint_wait_value(s, &w, &want);
  isa_buf_printf(out, "%s%s%s (%s) waits for %s%s%u", first ? "" : ", ", s->core ? "core 1 " : "",
                 isa_engines[s->engine].name, isa_lint_place(l, isa_lint_here(s), place),
                 isa_lint_sem_name(l, w.core, w.sem, name), isa_cond_text(w.cond), want);
}

static void report_circle(lint *l, const graph *g, unsigned first) {
  isa_buf all;
  isa_buf_init(&all, l->al);
  for (unsigned j = first; j < LINT_STREAMS; j++)
    if (g->to[first][j]) put_stuck(l, &l->s[j], j == first, &all);
  isa_lint_add(l, ISA_LINT_circular, isa_lint_here(&l->s[first]),
               "these wait for updates that come after one another's waits: %s", isa_buf_str(&all));
  l->failed = l->failed || all.failed;
  isa_buf_free(&all);
}

void isa_lint_judge_circles(lint *l) {
  graph g;
  memset(&g, 0, sizeof g);
  build(l, &g);
  for (unsigned i = 0; i < LINT_STREAMS && !l->failed; i++)
    if (g.stuck[i] && leads_circle(&g, i)) report_circle(l, &g, i);
}
