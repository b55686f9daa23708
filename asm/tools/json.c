/* Programs and diagnostics as JSON. */
#include "cli.h"
#include "../text/printer.h"

/* "name": with what separates it from the member before.
 * Written without a tree in memory: each function prints its own commas. */
static void key(isa_buf *out, const char *name, bool first) {
  isa_buf_printf(out, "%s\"%s\": ", first ? "" : ", ", name);
}

/* A string's value is escaped by isa_buf_json; names in the tables need no more than
 * that. */
static void member(isa_buf *out, const char *name, const char *value, bool first) {
  key(out, name, first);
  isa_buf_json(out, value);
}

static void number(isa_buf *out, const char *name, uint64_t v) {
  /* Never the first member. */
  isa_buf_printf(out, ", \"%s\": %llu", name, (unsigned long long)v);
}

/* Tensors are all that a host has to give to a program, so they come first. */
static void put_tensors(const isa_program *p, isa_buf *out) {
  isa_buf_puts(out, ",\n \"tensors\": [");
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const isa_tensor *t = &p->tensors[i];
    isa_buf_puts(out, i ? ",\n  {" : "\n  {");
    member(out, "name", t->name, true);
    member(out, "dtype", isa_dtypes[t->dtype].name, false);
    member(out, "role", isa_role_name(t->role), false);
    /* An array always has its bracket from the first dimension on: tensors have at
     * least one. */
    key(out, "shape", false);
    for (unsigned d = 0; d < t->ndim; d++)
      isa_buf_printf(out, "%s%lld", d ? ", " : "[", (long long)t->shape[d]);
    isa_buf_puts(out, "]");
    number(out, "bytes", t->bytes);
    /* 1 + a register's number; 0: the tensor has a fixed number of rows. */
    if (t->rows) number(out, "rows_register", t->rows - 1u);
    isa_buf_puts(out, "}");
  }
  isa_buf_puts(out, "]");
}

/* Tiles have no role and no rows; they have a place in memory instead. */
static void put_tiles(const isa_program *p, isa_buf *out) {
  isa_buf_puts(out, ",\n \"tiles\": [");
  for (uint32_t i = 0; i < p->ntiles; i++) {
    const isa_tile *t = &p->tiles[i];
    isa_buf_puts(out, i ? ",\n  {" : "\n  {");
    member(out, "name", t->name, true);
    member(out, "space", isa_space_name(t->space), false);
    member(out, "dtype", isa_dtypes[t->dtype].name, false);
    key(out, "shape", false);
    for (unsigned d = 0; d < t->ndim; d++) isa_buf_printf(out, "%s%u", d ? ", " : "[", t->shape[d]);
    isa_buf_puts(out, "]");
    number(out, "partition", t->part);
    number(out, "offset", t->offset);
    number(out, "bytes", t->bytes);
    /* Absent rather than null: a reader asks whether the member is there. */
    if (t->overlay) member(out, "overlay", t->overlay, false);
    /* Memory of one core rather than what all cores of the file share by name. */
    if (t->own) key(out, "own", false), isa_buf_puts(out, "true");
    isa_buf_puts(out, "}");
  }
  isa_buf_puts(out, "]");
}

static void put_text(const as_printer *pr, unsigned core, unsigned engine, const isa_insn *in,
                     /* A buffer of its own, since the text is escaped as a whole. */
                     isa_buf *out) {
  isa_buf text;
  isa_buf_init(&text, &out->al);
  as_printer_insn(pr, core, engine, in, &text);
  isa_buf_json(out, isa_buf_str(&text));
  /* Out of memory shows at the end, once for the whole file. */
  out->failed = out->failed || text.failed;
  isa_buf_free(&text);
}

/* Names of semaphores and queues are of a core, as their numbers are. */
static void put_names(const as_printer *pr, unsigned core, isa_buf *out) {
  const isa_program *p = pr->p;
  const isa_core *c = &p->cores[core];
  bool first = true;
  isa_buf_puts(out, "\"semaphores\": [");
  for (unsigned s = 0; s < ISA_NSEMS; s++) {
    /* Semaphores without a name are in the instructions' text by number. */
    if (!c->sem_names[s]) continue;
    isa_buf_puts(out, first ? "{" : ", {");
    member(out, "name", c->sem_names[s], true);
    number(out, "number", s);
    isa_buf_puts(out, "}");
    first = false;
  }
  isa_buf_puts(out, "],\n  \"queues\": [");
  for (uint32_t q = 0; q < c->nqueues; q++) {
    const isa_queue *u = &c->queues[q];
    /* ISA_NSEQS and above: any engine may start its transfers. */
    unsigned owner = isa_queue_owner(u);
    isa_buf_puts(out, q ? ", {" : "{");
    member(out, "name", u->name, true);
    member(out, "dge", isa_set_item(ISA_SET_DGE, u->dge), false);
    number(out, "rings", u->rings);
    member(out, "owner", owner < ISA_NSEQS ? isa_engines[owner].name : "any", false);
    number(out, "prio", u->prio);
    key(out, "transfers", false);
    isa_buf_puts(out, "[");
    /* Transfers a queue has from the start, as text, like the instructions of a
     * section. */
    for (uint32_t i = 0; i < u->nstatics; i++) {
      isa_buf_puts(out, i ? ", " : "");
      /* The printer needs some engine; transfers read the same for each. */
      put_text(pr, core, ISA_ENG_sync, &u->statics[i], out);
    }
    isa_buf_puts(out, "]}");
  }
  isa_buf_puts(out, "]");
}

/* The labels come before the code, so that a reader can name targets in one pass. */
static void put_labels(const isa_program *p, unsigned core, unsigned engine, isa_buf *out) {
  bool first = true;
  key(out, "labels", true);
  isa_buf_puts(out, "[");
  for (uint32_t i = 0; i < p->nsymbols; i++) {
    const isa_symbol *s = &p->symbols[i];
    /* Symbols are of the whole program; here only those of one section. */
    if (s->core != core || s->engine != engine) continue;
    isa_buf_puts(out, first ? "{" : ", {");
    member(out, "name", s->name, true);
    number(out, "pc", s->pc);
    isa_buf_puts(out, s->global ? ", \"global\": true}" : "}");
    first = false;
  }
  isa_buf_puts(out, "]");
}

/* "text" is what the disassembler prints, so it can be assembled again. */
static void put_section(const as_printer *pr, unsigned core, unsigned engine, isa_buf *out) {
  const isa_program *p = pr->p;
  const isa_code *c = &p->cores[core].code[engine];
  isa_buf_puts(out, "{");
  put_labels(p, core, engine, out);
  isa_buf_puts(out, ",\n    \"code\": [");
  for (uint32_t pc = 0; pc < c->n; pc++) {
    isa_buf_printf(out, "%s{\"pc\": %u", pc ? ",\n     " : "\n     ", pc);
    member(out, "op", isa_ops[c->insns[pc].op].name, false);
    key(out, "text", false);
    put_text(pr, core, engine, &c->insns[pc], out);
    /* Without marks of lines, as after --raw, the members are left out. Files are
     * numbered from 1. */
    if (c->lines && c->lines[pc].file && c->lines[pc].file <= p->nfiles) {
      member(out, "file", p->files[c->lines[pc].file - 1], false);
      number(out, "line", c->lines[pc].line);
    }
    isa_buf_puts(out, "}");
  }
  isa_buf_puts(out, "]}");
}

void as_json_program(const isa_program *p, isa_buf *out) {
  as_printer pr;
  /* Part of it may have been made before memory ran out. */
  if (!as_printer_open(p, &out->al, &pr)) {
    as_printer_close(&pr);
    out->failed = true;
    return;
  }
  isa_buf_puts(out, "{");
  member(out, "target", p->target->name, true);
  put_tensors(p, out);
  put_tiles(p, out);
  isa_buf_puts(out, ",\n \"cores\": [");
  /* An array by number: core 0 first, with cores without code in their place. */
  for (unsigned core = 0; core < p->ncores; core++) {
    isa_buf_puts(out, core ? ",\n {" : "\n {");
    put_names(&pr, core, out);
    isa_buf_puts(out, ",\n  \"sections\": {");
    bool first = true;
    for (unsigned e = 0; e < ISA_NSEQS; e++) {
      /* Sequencers without code are left out. */
      if (p->cores[core].code[e].n == 0) continue;
      isa_buf_printf(out, "%s\n   \"%s\": ", first ? "" : ",", isa_engines[e].name);
      put_section(&pr, core, e, out);
      first = false;
    }
    isa_buf_puts(out, "}}");
  }
  isa_buf_puts(out, "]}\n");
  as_printer_close(&pr);
}

void as_json_diag(const as_diag *d, isa_buf *out) {
  /* In the order of as_diag's severities. */
  static const char *const names[] = {"note", "warning", "error", "fatal"};
  isa_buf_puts(out, "{");
  member(out, "severity", names[d->severity & 3], true);
  /* Diagnostics of a command line have no file; the member is there all the same, for a
   * simpler reader. */
  member(out, "file", d->file ? d->file : "", false);
  number(out, "line", d->line);
  number(out, "column", d->col);
  number(out, "span", d->span);
  member(out, "text", d->text, false);
  /* Source is the line as it was written, for editors that show it. */
  if (d->source) member(out, "source", d->source, false);
  /* The name that -w+ and -w- take. */
  if (d->name) member(out, "warning", d->name, false);
  isa_buf_puts(out, "}");
}
