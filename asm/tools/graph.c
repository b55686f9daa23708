/* A program as a Graphviz digraph. */
#include "../dis/dis.h"
#include "../text/printer.h"

#include <string.h>

/* More would make the boxes taller than a page; the rest is counted in the last line. */
enum { MOST_LINES = 16 }; /* instructions shown of a block */

/* One section at a time; the leaders are made anew for each. */
typedef struct grapher {
  const isa_program *p;
  isa_buf *out;
  unsigned core, engine;
  const isa_code *code;
  uint8_t *leader; /* [n + 1], by pc: whether a block begins there */
  const as_printer *printer;
} grapher;

/* Such as vector0_12: unique in the program, and a word that needs no quotes in
 * Graphviz. */
static void put_node(const grapher *g, uint32_t pc) {
  isa_buf_printf(g->out, "%s%u_%u", isa_engines[g->engine].name, g->core, pc);
}

static void mark_leaders(grapher *g) {
  uint32_t n = g->code->n;
  /* The first instruction begins a block, jump to it or not. */
  g->leader[0] = 1;
  for (uint32_t pc = 0; pc < n; pc++) {
    const isa_insn *in = &g->code->insns[pc];
    /* A jump's target, -1 where the instruction has none. */
    int64_t to = as_dis_target(in);
    /* A jump to the end of the code is possible; no block is there to draw. */
    if (to >= 0 && to < n) g->leader[to] = 1;
    /* What follows a jump can only be reached as a block of its own.
     * leader has one more, so pc + 1 needs no test at the last instruction. */
    if (to >= 0 || isa_op_ends(in->op)) g->leader[pc + 1] = 1;
  }
}

/* Text inside the quotes of a label. */
static void put_escaped(isa_buf *out, const char *s) {
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') isa_buf_puts(out, "\\");
    isa_buf_add(out, s, 1);
  }
}

static void put_insn(const grapher *g, uint32_t pc) {
  isa_buf text;
  isa_buf_init(&text, &g->out->al);
  as_printer_insn(g->printer, g->core, g->engine, &g->code->insns[pc], &text);
  /* The number is what a jump without a label names. */
  isa_buf_printf(g->out, "%u: ", pc);
  put_escaped(g->out, isa_buf_str(&text));
  /* \l ends a line and sets it to the left. */
  isa_buf_puts(g->out, "\\l");
  g->out->failed = g->out->failed || text.failed;
  isa_buf_free(&text);
}

/* The labels at a pc, before its block's text. */
static void put_labels(const grapher *g, uint32_t pc) {
  const as_printer *pr = g->printer;
  /* The printer's index of labels by place: 1 + a symbol's number, 0 ends the list. */
  for (uint32_t i = pr->at[g->core][g->engine][pc]; i; i = pr->next[i]) {
    put_escaped(g->out, g->p->symbols[i - 1].name);
    isa_buf_puts(g->out, ":\\l");
  }
}

/* Draws the block at pc; gives the pc after it. */
static uint32_t put_block(const grapher *g, uint32_t pc) {
  /* A block ends where the next begins. */
  uint32_t end = pc + 1;
  while (end < g->code->n && !g->leader[end]) end++;
  isa_buf_puts(g->out, "    ");
  put_node(g, pc);
  isa_buf_puts(g->out, " [label=\"");
  put_labels(g, pc);
  /* In the order of the code, left-aligned as a listing. */
  for (uint32_t i = pc; i < end && i - pc < MOST_LINES; i++) put_insn(g, i);
  if (end - pc > MOST_LINES) isa_buf_printf(g->out, "... %u more\\l", end - pc - MOST_LINES);
  isa_buf_puts(g->out, "\"];\n");
  const isa_insn *last = &g->code->insns[end - 1];
  int64_t to = as_dis_target(last);
  /* Without a jump, or where it is not taken, the next block follows. */
  if (end < g->code->n && !isa_op_ends(last->op)) {
    isa_buf_puts(g->out, "    ");
    put_node(g, pc);
    isa_buf_puts(g->out, " -> ");
    put_node(g, end);
    isa_buf_puts(g->out, ";\n");
  }
  /* Both edges of a conditional jump are drawn; the second says which is taken. */
  if (to >= 0 && to < g->code->n) {
    isa_buf_puts(g->out, "    ");
    put_node(g, pc);
    isa_buf_puts(g->out, " -> ");
    put_node(g, (uint32_t)to);
    /* A call returns behind itself, so its block has the edge to the next as well. */
    isa_buf_puts(g->out, last->op == ISA_OP_call ? " [label=call];\n" : " [label=taken];\n");
  }
  return end;
}

/* An edge between a block and a semaphore, once for each block and direction.
 * Dashed, so that waiting is told from control flow at a glance. */
static void put_sem_edge(const grapher *g, uint32_t block, unsigned core, unsigned sem, bool wait) {
  isa_buf_puts(g->out, "  ");
  if (wait) isa_buf_printf(g->out, "sem%u_%u -> ", core, sem);
  put_node(g, block);
  if (!wait) isa_buf_printf(g->out, " -> sem%u_%u", core, sem);
  isa_buf_puts(g->out, " [style=dashed];\n");
}

static void put_block_sems(const grapher *g, uint32_t from, uint32_t end) {
  /* By direction, core and semaphore. */
  uint8_t seen[2][ISA_MAX_CORES][ISA_NSEMS];
  memset(seen, 0, sizeof seen);
  for (uint32_t pc = from; pc < end; pc++) {
    /* Waits point from the semaphore to the block, updates the other way. */
    const isa_wait *w = &g->code->insns[pc].wait;
    const isa_update *u = &g->code->insns[pc].upd;
    /* A program from a file may have a number beyond; it is checked elsewhere, here it
     * is passed over. */
    if (w->cond && w->core < ISA_MAX_CORES && !seen[1][w->core][w->sem]++)
      put_sem_edge(g, from, w->core, w->sem, true);
    if (u->kind && u->core < ISA_MAX_CORES && !seen[0][u->core][u->sem]++)
      put_sem_edge(g, from, u->core, u->sem, false);
  }
}

/* One node for each semaphore in use, above the clusters, since sections of several
 * cores may share it. */
static void put_sems(const isa_program *p, isa_buf *out) {
  uint8_t used[ISA_MAX_CORES][ISA_NSEMS];
  /* Those that nothing waits for or updates are not drawn. */
  memset(used, 0, sizeof used);
  for (unsigned c = 0; c < p->ncores; c++)
    for (unsigned e = 0; e < ISA_NSEQS; e++)
      for (uint32_t pc = 0; pc < p->cores[c].code[e].n; pc++) {
        const isa_insn *in = &p->cores[c].code[e].insns[pc];
        if (in->wait.cond && in->wait.core < ISA_MAX_CORES) used[in->wait.core][in->wait.sem] = 1;
        if (in->upd.kind && in->upd.core < ISA_MAX_CORES) used[in->upd.core][in->upd.sem] = 1;
      }
  for (unsigned c = 0; c < ISA_MAX_CORES; c++)
    for (unsigned s = 0; s < ISA_NSEMS; s++) {
      if (!used[c][s]) continue;
      /* The name is its owner's: a core's table names its own semaphores. */
      const char *name = c < p->ncores ? p->cores[c].sem_names[s] : NULL;
      isa_buf_printf(out, "  sem%u_%u [shape=ellipse, label=\"", c, s);
      if (name)
        put_escaped(out, name);
      else
        /* As the source would write one without a name. */
        isa_buf_printf(out, "S[%u,%u]", c, s);
      isa_buf_puts(out, "\"];\n");
    }
}

static void put_section(grapher *g) {
  const isa_alloc *al = &g->out->al;
  /* One more for the end of the code, which may be a leader too. */
  size_t n = (size_t)g->code->n + 1;
  /* Zeroed: no leaders yet. */
  g->leader = isa_zalloc(al, n);
  if (!g->leader) {
    g->out->failed = true;
    return;
  }
  mark_leaders(g);
  /* The prefix cluster is what makes Graphviz draw a box around it. */
  isa_buf_printf(g->out, "  subgraph cluster_%s%u {\n    label=\"%s", isa_engines[g->engine].name,
                 g->core, isa_engines[g->engine].name);
  /* Core 0 is the usual case, so it is not named. */
  isa_buf_printf(g->out, g->core ? " core=%u\";\n" : "\";\n", g->core);
  /* Blocks in order; put_block gives the start of the next. */
  for (uint32_t pc = 0; pc < g->code->n;) pc = put_block(g, pc);
  isa_buf_puts(g->out, "  }\n");
  /* Edges come after the cluster, since semaphores are outside of it. */
  for (uint32_t pc = 0; pc < g->code->n;) {
    uint32_t end = pc + 1;
    while (end < g->code->n && !g->leader[end]) end++;
    put_block_sems(g, pc, end);
    pc = end;
  }
  isa_free(al, g->leader, n);
}

void as_dis_graph(const isa_program *p, isa_buf *out) {
  as_printer printer;
  if (!as_printer_open(p, &out->al, &printer)) {
    as_printer_close(&printer);
    out->failed = true;
    return;
  }
  isa_buf_puts(out, "digraph program {\n  node [shape=box, fontname=monospace];\n");
  put_sems(p, out);
  for (unsigned c = 0; c < p->ncores; c++)
    for (unsigned e = 0; e < ISA_NSEQS; e++) {
      grapher g = {.p = p,
                   .out = out,
                   .core = c,
                   .engine = e,
                   .code = &p->cores[c].code[e],
                   .printer = &printer};
      /* Sequencers without code have no box. */
      if (g.code->n) put_section(&g);
    }
  isa_buf_puts(out, "}\n");
  as_printer_close(&printer);
}
