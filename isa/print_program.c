/* A whole program as source; the grammar is at the top of print.c. */
#include "operand.h"
#include "print.h"

#include <inttypes.h>
#include <string.h>

static const char *or_unknown(const char *s) { return s ? s : "?"; }

static void put_type(isa_buf *out, unsigned dtype) {
  isa_buf_puts(out, isa_dtype_valid(dtype) ? isa_dtypes[dtype].name : "?");
}

enum { BOTH = ISA_MAX_CORES }; /* the core of what each core has under the same name */

/* Names of core 1 and of both say so. */
static void put_core(isa_buf *out, unsigned core) {
  if (core == BOTH)
    isa_buf_puts(out, ", core=*");
  else if (core)
    isa_buf_printf(out, ", core=%u", core);
}

/* ---- Names of memory ---------------------------------------------------------------------- */

static void put_data(const isa_tensor *t, isa_buf *out) {
  unsigned size = isa_dtype_bytes(t->dtype);
  /* Eight elements in a line: a file of weights stays readable, and lines short. */
  enum { PER_LINE = 8 };
  isa_buf_puts(out, " = {");
  for (uint64_t i = 0; size && i < t->bytes / size; i++) {
    if (i) isa_buf_puts(out, i % PER_LINE ? "," : ", \\\n        ");
    isa_buf_puts(out, "0x");
    for (unsigned b = size; b-- > 0;) /* elements are little-endian */
      isa_buf_printf(out, "%02x", t->data[i * size + b]);
  }
  isa_buf_puts(out, "}");
}

void isa_print_shape(const isa_tensor *t, const char *between, isa_buf *out) {
  isa_buf_puts(out, "[");
  if (t->rows) isa_buf_printf(out, "r%d<=", t->rows - 1);
  for (int d = 0; d < t->ndim && d < ISA_TENSOR_DIMS; d++)
    isa_buf_printf(out, "%s%" PRId64, d ? between : "", t->shape[d]);
  isa_buf_puts(out, "]");
}

static void put_tensor(const isa_tensor *t, isa_buf *out) {
  isa_buf_printf(out, "%s tensor ", or_unknown(t->name));
  put_type(out, t->dtype);
  isa_print_shape(t, ",", out);
  isa_buf_printf(out, ", %s", isa_role_name(t->role));
  if (t->role == ISA_CONST && t->data) put_data(t, out);
  isa_buf_puts(out, "\n");
}

static void put_tile(const isa_tile *t, isa_buf *out) {
  uint64_t bytes = isa_dtype_valid(t->dtype) ? isa_dtype_bytes(t->dtype) : 0;
  isa_buf_printf(out, "%s tile %s ", or_unknown(t->name), isa_space_name(t->space));
  put_type(out, t->dtype);
  for (int d = 0; d < t->ndim && d < ISA_TILE_DIMS; d++) {
    isa_buf_printf(out, "%s%" PRIu32, d ? "," : "[", t->shape[d]);
    /* d 0 is the partitions, which take no bytes of one. */
    bytes *= d ? t->shape[d] : 1;
  }
  isa_buf_printf(out, "], at=[%d,%" PRIu32 "]", t->part, t->offset);
  /* Only where it is not what shape and type make. */
  if (bytes != t->bytes) isa_buf_printf(out, ", bytes=%" PRIu32, t->bytes);
  if (t->overlay) isa_buf_printf(out, ", overlay=%s", t->overlay);
  if (t->own) isa_buf_puts(out, ", own");
  if (t->line) isa_buf_printf(out, ", of=[%" PRIu32, t->line);
  if (t->line && t->iteration)
    isa_buf_printf(out, ",%" PRIu32 ",%" PRIu32, t->iteration, t->iterations);
  if (t->line) isa_buf_puts(out, t->numbered ? "], numbered" : "]");
  isa_buf_puts(out, "\n");
}

/* `NAME group [[0,1],[2,3]]` */
static void put_group(const isa_group *g, isa_buf *out) {
  const uint32_t *rank = g->ranks;
  isa_buf_printf(out, "%s group [", or_unknown(g->name));
  for (uint32_t i = 0; i < g->nlists; i++) {
    for (uint32_t k = 0; k < g->sizes[i] && rank < g->ranks + g->nranks; k++)
      isa_buf_printf(out, "%s%" PRIu32, k ? "," : i ? ",[" : "[", *rank++);
    isa_buf_puts(out, "]");
  }
  isa_buf_puts(out, "]\n");
}

/* ---- Names of a core ---------------------------------------------------------------------- */

/* Only what is not the default is written: it is how a person would have written it. */
static void put_queue(isa_buf *out, const isa_queue *q, unsigned core) {
  const char *dge = isa_set_item(ISA_SET_DGE, q->dge);
  isa_buf_printf(out, "%s queue rings=%d, dge=%s", or_unknown(q->name), q->rings, or_unknown(dge));
  unsigned owner = isa_queue_owner(q);
  if (owner < ISA_NSEQS) isa_buf_printf(out, ", owner=%s", isa_engines[owner].name);
  if (q->prio) isa_buf_printf(out, ", prio=%d", q->prio);
  put_core(out, core);
  isa_buf_puts(out, "\n");
}

/* What differs would be two queues of one name: they are printed apart. */
static bool same_queue(const isa_queue *a, const isa_queue *b) {
  return a->name && b->name && strcmp(a->name, b->name) == 0 && a->dge == b->dge &&
         a->rings == b->rings && a->owner == b->owner && a->prio == b->prio;
}

uint32_t isa_shared_queue(const isa_program *p, uint32_t i, uint32_t from) {
  const isa_core *c = &p->cores[1];
  uint32_t n = p->ncores > 1 ? c->nqueues : 0;
  while (from < n && !same_queue(&p->cores[0].queues[i], &c->queues[from])) from++;
  return from < n ? from : n;
}

/* Queues of both cores so that each keeps its number: what core 1 has before a shared one comes
 * before it. */
static void put_queues(const isa_program *p, isa_buf *out) {
  const isa_core *a = &p->cores[0], *b = &p->cores[1];
  uint32_t next = 0, n = p->ncores > 1 ? b->nqueues : 0;
  for (uint32_t i = 0; i < a->nqueues; i++) {
    uint32_t k = isa_shared_queue(p, i, next);
    for (; k < n && next < k; next++) put_queue(out, &b->queues[next], 1);
    put_queue(out, &a->queues[i], k < n ? BOTH : 0);
    if (k < n) next = k + 1;
  }
  for (; next < n; next++) put_queue(out, &b->queues[next], 1);
}

static void put_sems(const isa_program *p, isa_buf *out) {
  for (unsigned core = 0; core < p->ncores; core++)
    for (unsigned s = 0; s < ISA_NSEMS; s++) {
      /* Both cores' semaphore is named in the first core's turn. */
      bool shared = isa_shared_sem(p, s) != NULL;
      /* What both have is printed once. */
      if (!p->cores[core].sem_names[s] || (core && shared)) continue;
      isa_buf_printf(out, "%s sem %u", p->cores[core].sem_names[s], s);
      put_core(out, shared ? BOTH : core);
      isa_buf_puts(out, "\n");
    }
}

static void put_section_name(const isa_pr *pr, unsigned engine) {
  isa_buf_printf(pr->out, "\nsection %s", isa_engines[engine].name);
  if (pr->core) isa_buf_printf(pr->out, " core=%u", pr->core);
  isa_buf_puts(pr->out, "\n");
}

static void put_statics(const isa_pr *pr, const isa_queue *q) {
  for (uint32_t i = 0; i < q->nstatics; i++) {
    if (q->statics[i].op >= ISA_NOPS) continue;
    isa_buf_printf(pr->out, "dma %s, %s", or_unknown(q->name),
                   q->statics[i].op == ISA_OP_dma_transpose ? "dma_transpose " : "");
    isa_pr_operands(pr, &q->statics[i], false);
    isa_buf_puts(pr->out, "\n");
  }
}

/* Static transfers of a core; a section before them says which core's, where both have queues. */
static void put_core_statics(const isa_pr *pr) {
  const isa_core *c = &pr->p->cores[pr->core];
  uint32_t n = 0;
  for (uint32_t q = 0; q < c->nqueues; q++) n += c->queues[q].nstatics;
  if (n && pr->p->ncores > 1) put_section_name(pr, ISA_ENG_sync);
  for (uint32_t q = 0; q < c->nqueues; q++) put_statics(pr, &c->queues[q]);
}

/* ---- Sections ----------------------------------------------------------------------------- */

/* Labels of one section: the symbols at each pc as lists in the order of the table, and which
 * pcs a branch goes to.
 * All of one section: searching them for each pc would take too long. */
typedef struct labels {
  uint32_t *first, *next; /* 1-based symbols: [n + 1] by pc, [nsymbols] */
  uint8_t *target;        /* [n + 1] */
  uint32_t n;
} labels;

static bool labels_init(const isa_pr *pr, const isa_code *code, labels *l) {
  const isa_program *p = pr->p;
  const isa_alloc *al = &pr->out->al;
  size_t n = (size_t)code->n + 1, nsymbols = (size_t)p->nsymbols + 1;
  l->n = code->n;
  l->first = isa_zalloc(al, n * sizeof *l->first);
  l->next = isa_zalloc(al, nsymbols * sizeof *l->next);
  l->target = isa_zalloc(al, n);
  if (!l->first || !l->next || !l->target) return false;
  /* From the last, so that the lists are in the order of the table.
   * Backwards: each is put before those that are there. */
  for (uint32_t i = p->nsymbols; i > 0; i--) {
    const isa_symbol *s = &p->symbols[i - 1];
    if (s->core != pr->core || s->engine != pr->engine || s->pc > code->n || !s->name) continue;
    l->next[i] = l->first[s->pc];
    l->first[s->pc] = i;
  }
  for (uint32_t pc = 0; pc < code->n; pc++) {
    const isa_insn *in = &code->insns[pc];
    int64_t to = in->op < ISA_NOPS ? isa_insn_target(in) : -1;
    if (to >= 0 && to <= code->n) l->target[to] = 1;
  }
  return true;
}

static void labels_free(const isa_pr *pr, labels *l) {
  const isa_alloc *al = &pr->out->al;
  size_t n = (size_t)l->n + 1;
  isa_free(al, l->first, n * sizeof *l->first);
  isa_free(al, l->next, ((size_t)pr->p->nsymbols + 1) * sizeof *l->next);
  isa_free(al, l->target, n);
}

static void put_labels(const isa_pr *pr, const labels *l, uint32_t pc) {
  for (uint32_t i = l->first[pc]; i; i = l->next[i]) {
    const isa_symbol *s = &pr->p->symbols[i - 1];
    if (s->global) isa_buf_printf(pr->out, "global %s\n", s->name);
    isa_buf_printf(pr->out, "%s:\n", s->name);
  }
  /* A branch goes there, so it needs one.
   * L12, where the source has no name for it. */
  if (!l->first[pc] && l->target[pc]) {
    isa_pr_label(pr, pc);
    isa_buf_puts(pr->out, ":\n");
  }
}

/* Innermost first, as a compiler tells where a template was used. */
void isa_print_calls(const isa_program *p, isa_line at, isa_buf *out) {
  enum { SHOWN = 4 };
  const char *between = " (";
  uint32_t n = 0;
  for (uint32_t i = at.call; i && i <= p->ncalls; i = p->calls[i - 1].outer, n++) {
    const isa_call *c = &p->calls[i - 1];
    /* The innermost ones, and the outermost, which is a place in a file. */
    if (n >= SHOWN && c->outer) {
      between = n == SHOWN ? ", ..., " : between;
      continue;
    }
    bool known = c->file && c->file <= p->nfiles;
    isa_buf_puts(out, between);
    if (c->round)
      isa_buf_printf(out, "round %" PRIu32 " of %%rep at ", c->round);
    else
      isa_buf_printf(out, "macro %s from ", c->name);
    isa_buf_printf(out, "%s:%" PRIu32, known ? p->files[c->file - 1] : "?", c->line);
    between = ", ";
  }
  isa_buf_puts(out, n ? ")" : "");
}

/* ` from LOAD 30 "a.s"` and ` round 2 29 "a.s"`, innermost first: what a line came out of. */
static void put_calls(const isa_pr *pr, isa_line at) {
  const isa_program *p = pr->p;
  /* To the outermost: the assembler needs all of them to make the same tables. */
  for (uint32_t i = at.call; i && i <= p->ncalls; i = p->calls[i - 1].outer) {
    const isa_call *c = &p->calls[i - 1];
    if (c->file == 0 || c->file > p->nfiles) return;
    if (c->round)
      isa_buf_printf(pr->out, " round %" PRIu32, c->round);
    else
      isa_buf_printf(pr->out, " from %s", c->name);
    isa_buf_printf(pr->out, " %" PRIu32 " ", c->line);
    isa_pr_str(pr->out, p->files[c->file - 1], strlen(p->files[c->file - 1]));
  }
}

static void put_line(const isa_pr *pr, isa_line at) {
  const isa_program *p = pr->p;
  if (at.file == 0 || at.file > p->nfiles || !p->files[at.file - 1]) {
    /* One mark for a program of many files, so that a line without a place does not
     * inherit the last. */
    if (p->nfiles) isa_buf_puts(pr->out, "%line 0\n"); /* else one is enough for all */
    return;
  }
  isa_buf_printf(pr->out, "%%line %" PRIu32 " ", at.line);
  isa_pr_str(pr->out, p->files[at.file - 1], strlen(p->files[at.file - 1]));
  put_calls(pr, at);
  isa_buf_puts(pr->out, "\n");
}

static void put_section(const isa_pr *pr, const isa_code *code, const labels *l) {
  put_section_name(pr, pr->engine);
  for (uint32_t pc = 0; pc < code->n; pc++) {
    put_labels(pr, l, pc);
    if (code->lines) put_line(pr, code->lines[pc]);
    isa_buf_puts(pr->out, "        ");
    isa_pr_insn(pr, &code->insns[pc]);
    isa_buf_puts(pr->out, "\n");
  }
  /* A label may come after the last instruction.
   * A loop may end a section: its label stands after the last instruction. */
  put_labels(pr, l, code->n);
}

static void print_section(isa_pr pr) {
  const isa_code *code = &pr.p->cores[pr.core].code[pr.engine];
  labels l = {0};
  if (!labels_init(&pr, code, &l)) {
    pr.out->failed = true;
  } else if (code->n || l.first[0]) {
    pr.symbol_at = l.first;
    pr.npcs = code->n;
    put_section(&pr, code, &l);
  }
  labels_free(&pr, &l);
}

/* Whether instructions have marks for their lines, and all of them say that there is no place.
 * One "%line 0" at the top then stands for all of them. */
static bool is_nowhere(const isa_program *p) {
  bool marked = false;
  for (unsigned core = 0; core < p->ncores && core < ISA_MAX_CORES; core++)
    for (unsigned e = 0; e < ISA_NSEQS; e++) marked |= p->cores[core].code[e].lines != NULL;
  return marked && !p->nfiles;
}

void isa_print_program(const isa_program *p, enum isa_operand_text operands, isa_buf *out) {
  isa_pr pr = {.p = p, .out = out, .named = operands == ISA_TEXT_NAMED};
  isa_buf_printf(out, "target %s\n", p->target ? p->target->name : "?");
  if (is_nowhere(p)) isa_buf_puts(out, "%line 0\n");
  for (uint32_t i = 0; i < p->ntensors; i++) put_tensor(&p->tensors[i], out);
  for (uint32_t i = 0; i < p->ntiles; i++) put_tile(&p->tiles[i], out);
  for (uint32_t i = 0; i < p->ngroups; i++) put_group(&p->groups[i], out);
  put_sems(p, out);
  put_queues(p, out);
  for (pr.core = 0; pr.core < p->ncores && pr.core < ISA_MAX_CORES; pr.core++) {
    put_core_statics(&pr);
    size_t before = out->len;
    for (pr.engine = 0; pr.engine < ISA_NSEQS; pr.engine++) print_section(pr);
    /* A program of two cores in which the second one does nothing. */
    if (pr.core && out->len == before) /* the program has the core all the same */
      isa_buf_printf(out, "\nsection %s core=%u\n", isa_engines[0].name, pr.core);
  }
}
