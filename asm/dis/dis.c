/* Cross-references: the disassembler's text, line by line, with comments after instructions (their
 * pc), labels and semaphores. */
#include "../../isa/operand.h"
#include "dis.h"

#include <string.h>

enum { MOST = 8, COLUMN = 40 }; /* references shown; where comments begin */
enum { BOTH = ISA_MAX_CORES };  /* the core of `core=*` */

/* A hostile opcode has no form to look into. */
int64_t as_dis_target(const isa_insn *in) { return in->op < ISA_NOPS ? isa_insn_target(in) : -1; }

/* Which pcs lead to each pc of a section: lists in order, by counting.
 * Counting sort: as many lists as pcs, in one array. */
typedef struct sources {
  uint32_t *first; /* [n + 2]: where the list of a pc begins in from */
  uint32_t *from, n, nfrom;
} sources;

static bool sources_open(const isa_alloc *al, const isa_code *code, sources *s) {
  *s = (sources){.n = code->n};
  s->first = isa_zalloc(al, ((size_t)code->n + 2) * sizeof *s->first);
  /* How many lead to each pc, then where each list begins, then the lists. */
  for (uint32_t pc = 0; s->first && pc < code->n; pc++) {
    int64_t to = as_dis_target(&code->insns[pc]);
    if (to < 0 || to > code->n) continue;
    s->first[to + 1]++;
    s->nfrom++;
  }
  s->from = isa_zalloc(al, ((size_t)s->nfrom + 1) * sizeof *s->from);
  /* at moves on as a list fills; first stays. */
  uint32_t *at = isa_zalloc(al, ((size_t)code->n + 2) * sizeof *at);
  bool ok = s->first && s->from && at;
  for (uint32_t pc = 0; ok && pc <= code->n; pc++) at[pc + 1] = s->first[pc + 1] += s->first[pc];
  for (uint32_t pc = 0; ok && pc < code->n; pc++) {
    int64_t to = as_dis_target(&code->insns[pc]);
    if (to >= 0 && to <= code->n) s->from[at[to]++] = pc;
  }
  isa_free(al, at, ((size_t)code->n + 2) * sizeof *at);
  return ok;
}

static void sources_close(const isa_alloc *al, sources *s) {
  isa_free(al, s->first, ((size_t)s->n + 2) * sizeof *s->first);
  isa_free(al, s->from, ((size_t)s->nfrom + 1) * sizeof *s->from);
}

/* At least one space, also after a long line. */
static void to_column(isa_buf *out, size_t line) {
  do isa_buf_puts(out, " ");
  while (!out->failed && out->len - line < COLUMN);
}

/* pc of a label: where the list of its sources is. */
static void put_sources(const sources *s, uint32_t pc, isa_buf *out, size_t line) {
  /* Without memory there are no references. */
  if (!s->first || pc > s->n) return;
  uint32_t from = s->first[pc], end = s->first[pc + 1], shown = 0;
  if (from == end) return;
  to_column(out, line);
  isa_buf_puts(out, "; from");
  for (uint32_t i = from; i < end && shown < MOST; i++, shown++)
    isa_buf_printf(out, "%s %u", shown ? "," : "", s->from[i]);
  if (end - from > MOST) isa_buf_printf(out, " and %u more", end - from - MOST);
}

/* ---- Semaphores --------------------------------------------------------------------------- */

/* Barriers of both cores use one semaphore under one number. */
static bool waits(const isa_wait *w, unsigned core, unsigned sem) {
  return w->cond && w->sem == sem && (core == BOTH || w->core == core);
}
static bool updates(const isa_update *u, unsigned core, unsigned sem) {
  return u->kind && u->sem == sem && (core == BOTH || u->core == core);
}

/* Whether an instruction of core `here` waits for the semaphore, or updates it.
 * A barrier waits, and updates the other core's; its take back is not shown. */
static bool uses(const isa_insn *in, unsigned here, unsigned core, unsigned sem, bool wait) {
  isa_barrier b;
  if (isa_insn_barrier(in, here, &b) &&
      (wait ? waits(&b.wait, core, sem) : updates(&b.give, core, sem)))
    return true;
  return wait ? waits(&in->wait, core, sem) : updates(&in->upd, core, sem);
}

/* The first instructions that wait for a semaphore, or update it.
 * Up to eight; more say only that there are more. */
static void put_uses(const isa_program *p, unsigned core, unsigned sem, bool wait, isa_buf *out) {
  unsigned shown = 0;
  for (unsigned c = 0; c < p->ncores; c++)
    for (unsigned e = 0; e < ISA_NSEQS; e++) {
      const isa_code *code = &p->cores[c].code[e];
      bool named = false;
      for (uint32_t pc = 0; pc < code->n; pc++) {
        if (!uses(&code->insns[pc], c, core, sem, wait)) continue;
        if (shown == MOST) {
          isa_buf_puts(out, ", ...");
          return;
        }
        isa_buf_puts(out, shown ? ", " : wait ? "waited for by " : "updated by ");
        /* Core and engine are said once for several instructions. */
        if (!named && c) isa_buf_printf(out, "core %u ", c);
        if (!named) isa_buf_printf(out, "%s ", isa_engines[e].name);
        isa_buf_printf(out, "%u", pc);
        named = true;
        shown++;
      }
    }
}

/* "; updated by sync 4; waited for by vector 2, 9" */
static void put_sem(const isa_program *p, unsigned core, unsigned sem, isa_buf *out, size_t line) {
  isa_buf updates, waits;
  isa_buf_init(&updates, &out->al);
  isa_buf_init(&waits, &out->al);
  put_uses(p, core, sem, false, &updates);
  put_uses(p, core, sem, true, &waits);
  if (updates.len || waits.len) {
    to_column(out, line);
    isa_buf_printf(out, "; %s%s%s", isa_buf_str(&updates), updates.len && waits.len ? "; " : "",
                   isa_buf_str(&waits));
  }
  if (updates.failed || waits.failed) out->failed = true;
  isa_buf_free(&updates);
  isa_buf_free(&waits);
}

/* ---- Lines -------------------------------------------------------------------------------- */

/* Where the text is: which section, and which instruction comes next. */
typedef struct state {
  const isa_program *p;
  sources s;
  unsigned core;
  uint32_t pc;
  bool in_section;
} state;

static bool starts(const char *line, size_t n, const char *with) {
  return n >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

/* The lines are the program's own text, so they are read as they were printed. */
static void open_section(state *st, const char *line, size_t n, isa_buf *out) {
  const isa_alloc *al = &out->al;
  if (st->in_section) sources_close(al, &st->s);
  /* The section's line is as print_program.c writes it. */
  st->core = n > 7 && memcmp(line + n - 7, " core=1", 7) == 0;
  st->pc = 0;
  st->in_section = true;
  for (unsigned e = 0; e < ISA_NSEQS; e++)
    if (starts(line + 8, n - 8, isa_engines[e].name) &&
        !sources_open(al, &st->p->cores[st->core].code[e], &st->s))
      out->failed = true;
}

/* `NAME sem 12[, core=1]`: the number, or -1; core BOTH of `, core=*`.
 * The declaration of a semaphore, which has no indent. */
static int sem_number(const char *line, size_t n, unsigned *core) {
  const char *at = memchr(line, ' ', n);
  size_t left = at ? n - (size_t)(at - line) : 0;
  if (!at || !starts(at, left, " sem ")) return -1;
  int v = 0;
  const char *end = line + n, *p = at + 5;
  for (; p < end && *p >= '0' && *p <= '9' && v < ISA_NSEMS; p++) v = v * 10 + (*p - '0');
  bool more = end - p >= 8 && memcmp(p, ", core=", 7) == 0;
  *core = !more ? 0 : p[7] == '*' ? BOTH : 1;
  return v < ISA_NSEMS ? v : -1;
}

/* Instructions, labels and declarations are told apart by how they begin and end. */
static void put_line(state *st, const char *line, size_t n, isa_buf *out) {
  size_t start = out->len;
  unsigned core = 0;
  isa_buf_add(out, line, n);
  if (starts(line, n, "section ")) {
    open_section(st, line, n, out);
  } else if (st->in_section && starts(line, n, "        ")) {
    to_column(out, start);
    /* Lines of instructions are indented. */
    isa_buf_printf(out, "; pc %u", st->pc++);
  } else if (st->in_section && n > 0 && line[n - 1] == ':') {
    put_sources(&st->s, st->pc, out, start);
  } else {
    int sem = line[0] == ' ' ? -1 : sem_number(line, n, &core);
    if (sem >= 0 && (core == BOTH || core < st->p->ncores))
      put_sem(st->p, core, (unsigned)sem, out, start);
  }
  isa_buf_puts(out, "\n");
}

/* The whole text is made first: comments need a line's length. */
void as_dis_text(const isa_program *p, isa_buf *out) {
  isa_buf text;
  state st = {.p = p};
  isa_buf_init(&text, &out->al);
  isa_print_program(p, ISA_TEXT_NAMED, &text);
  const char *line = isa_buf_str(&text), *end = line + strlen(line); /* none if it failed */
  for (const char *nl; line < end; line = nl + 1) {
    nl = memchr(line, '\n', (size_t)(end - line));
    if (!nl) nl = end;
    put_line(&st, line, (size_t)(nl - line), out);
  }
  if (st.in_section) sources_close(&out->al, &st.s);
  if (text.failed) out->failed = true;
  isa_buf_free(&text);
}
