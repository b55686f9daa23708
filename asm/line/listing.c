/* The listing: the source with the place of each instruction, what macros and pseudo-instructions
 * became, then the tables of the program. */
#include "../text/printer.h"
#include "stmt.h"

#include <inttypes.h>

/* One entry for a line that made something, with the place of what it made. */
void as_list_insns(as_job *j, as_pos pos, unsigned section, uint32_t pc, uint32_t n, bool shown) {
  struct as_unit *u = j->unit;
  if (!j->o->want_listing) return;
  u->entries = as_grow(j, u->entries, u->nentries, 1, &u->cap_entries, sizeof *u->entries);
  /* The line in the file, not the one in the macro: it is what the listing shows. */
  as_pos outer = as_pos_outer(pos);
  u->entries[u->nentries++] = (as_entry){
      .pos = outer,
      .pc = pc,
      .n = n,
      .section = (uint8_t)section,
      /* Its instructions are shown below the line when they are not simply what it
       * says. */
      .shown = shown || as_pos_in_macro(pos) || (u->line && u->line->depth > 0),
  };
}

/* A line that defines something: it has no place in the code. */
void as_list_line(as_job *j, as_pos pos) { as_list_insns(j, pos, AS_NSECTIONS, 0, 0, false); }

enum { PLACE = 14 }; /* columns of the place of an instruction */

/* `vector:12`; of the second core `vector1:12`. */
static void put_section_place(isa_buf *out, unsigned section, uint32_t pc) {
  const char *name = isa_engines[as_engine_of(section)].name;
  if (as_core_of(section) == 0)
    isa_buf_printf(out, "%7s:%-6u", name, pc);
  else
    isa_buf_printf(out, "%6s%u:%-6u", name, as_core_of(section), pc);
}

static void put_place(isa_buf *out, uint32_t line, const as_entry *e, uint32_t pc) {
  if (line)
    isa_buf_printf(out, "%6u ", line);
  else
    isa_buf_puts(out, "       ");
  if (e && e->n)
    put_section_place(out, e->section, pc);
  else
    isa_buf_printf(out, "%*s", PLACE, "");
}

static void put_source(as_job *j, uint32_t file, uint32_t line, const as_entry *e) {
  isa_buf *out = &j->out->listing;
  uint32_t n = 0;
  const char *text = as_src_line(j, file, line, &n);
  put_place(out, line, e, e ? e->pc : 0);
  size_t start = out->len;
  isa_buf_puts(out, " ");
  if (text) isa_buf_add(out, text, n);
  while (out->len > start && out->data[out->len - 1] == ' ') out->len--;
  if (!e || !e->n) /* nothing but blanks before: an empty line keeps only its number */
    while (out->len > 0 && out->data[out->len - 1] == ' ') out->len--;
  isa_buf_puts(out, "\n");
}

/* " > " marks what the assembler made of the line above. */
static void put_code(as_job *j, const as_printer *pr, const as_entry *e) {
  isa_buf *out = &j->out->listing;
  const isa_code *code = as_code(j, e->section);
  for (uint32_t i = 0; i < e->n; i++) {
    put_place(out, 0, e, e->pc + i);
    isa_buf_puts(out, " > ");
    as_printer_insn(pr, as_core_of(e->section), as_engine_of(e->section), &code->insns[e->pc + i],
                    out);
    isa_buf_puts(out, "\n");
  }
}

/* Lines of the source that made nothing are printed before the next one that did. */
static void put_lines(as_job *j, const as_printer *pr) {
  struct as_unit *u = j->unit;
  /* Each source is printed up to a line, so that nothing of it is missing or twice. */
  uint32_t *last = as_new(j, ((size_t)j->nsources + 1) * sizeof *last); /* printed of each source */
  uint32_t file = UINT32_MAX;
  for (uint32_t i = 0; i < u->nentries; i++) {
    const as_entry *e = &u->entries[i];
    uint32_t f = e->pos.file, line = e->pos.line;
    if (f != file) {
      isa_buf_printf(&j->out->listing, "; %s\n", j->sources[f].name);
      file = f;
    }
    /* A line that made several entries, as a call of a macro, is printed once. */
    bool again = i > 0 && line == last[f] && u->entries[i - 1].pos.file == f && e->shown &&
                 u->entries[i - 1].shown;
    /* Comments and empty lines since the last entry. */
    while (last[f] + 1 < line) put_source(j, f, ++last[f], NULL);
    if (!again) put_source(j, f, line, e->shown ? NULL : e);
    last[f] = line;
    if (e->shown && e->n) put_code(j, pr, e);
  }
  /* A source that made nothing is printed as well. */
  if (file == UINT32_MAX) isa_buf_printf(&j->out->listing, "; %s\n", j->sources[0].name);
  uint32_t n, after;
  /* What follows the last line end is not a line if it is empty. */
  while (as_src_line(j, 0, last[0] + 1, &n) && (n > 0 || as_src_line(j, 0, last[0] + 2, &after)))
    put_source(j, 0, ++last[0], NULL);
}

/* ---- Tables ------------------------------------------------------------------------------- */

static void put_type(const isa_tile *t, isa_buf *out) {
  isa_buf_puts(out, isa_dtypes[t->dtype].name);
  for (unsigned d = 0; d < t->ndim; d++)
    isa_buf_printf(out, "%s%" PRIu32, d ? "," : "[", t->shape[d]);
  isa_buf_puts(out, "]");
}

/* The buffer's text; frees the buffer. */
static const char *text_of(as_job *j, isa_buf *b) {
  const char *text = b->failed ? NULL : as_intern(j, isa_buf_str(b), b->len);
  isa_buf_free(b);
  if (!text) as_nomem(j);
  return text;
}

const char *as_tensor_text(as_job *j, const isa_tensor *t) {
  isa_buf b;
  isa_buf_init(&b, &j->al);
  isa_buf_printf(&b, "a %s", isa_dtypes[t->dtype].name);
  isa_print_shape(t, ",", &b);
  return text_of(j, &b);
}

const char *as_tile_text(as_job *j, const isa_tile *t) {
  isa_buf b;
  isa_buf_init(&b, &j->al);
  isa_buf_printf(&b, "%s ", isa_space_name(t->space));
  put_type(t, &b);
  return text_of(j, &b);
}

static void put_tensors(const isa_program *p, isa_buf *out) {
  if (p->ntensors) isa_buf_puts(out, "\ntensors             bytes  role    type\n");
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const isa_tensor *t = &p->tensors[i];
    isa_buf_printf(out, "  %-12s %10llu  %-6s  ", t->name, (unsigned long long)t->bytes,
                   isa_role_name(t->role));
    isa_buf_puts(out, isa_dtypes[t->dtype].name);
    isa_print_shape(t, ",", out);
    isa_buf_puts(out, "\n");
  }
}

/* Ranges are inclusive, as a person counts. */
static void put_tile(const isa_tile *t, isa_buf *out) {
  isa_buf_printf(out, "  %-12s %s  %3u to %3u  %7u to %7u  %7u", t->name, isa_space_name(t->space),
                 t->part, t->part + t->shape[0] - 1, t->offset, t->offset + t->bytes - 1, t->bytes);
  /* The bank, which SBUF has not. */
  if (t->space == ISA_PSUM)
    isa_buf_printf(out, "  %4u", t->offset / ISA_PSUM_BANK);
  else
    isa_buf_puts(out, "     -");
  isa_buf_puts(out, "  ");
  put_type(t, out);
  if (t->overlay) isa_buf_printf(out, " overlay=%s", t->overlay);
  if (t->own) isa_buf_puts(out, " own");
  isa_buf_puts(out, "\n");
}

/* Bytes that a tile has in any partition.
 * Tiles of one group lie over one another: their bytes count once. */
static uint32_t taken(const as_regions *rs) {
  uint32_t end = 0, sum = 0;
  /* By address, so that what overlaps is counted once. */
  for (uint32_t i = 0; i < rs->n; i++) {
    uint32_t lo = rs->v[i].lo > end ? rs->v[i].lo : end;
    if (rs->v[i].hi > lo) sum += rs->v[i].hi - lo;
    if (rs->v[i].hi > end) end = rs->v[i].hi;
  }
  return sum;
}

/* Only usable bytes: what is beyond them no program may take. */
static void put_tiles(as_job *j, isa_buf *out) {
  const isa_program *p = j->program;
  if (p->ntiles == 0) return;
  isa_buf_puts(out, "\ntiles        mem   partitions               bytes     size  bank  type\n");
  for (uint32_t i = 0; i < p->ntiles; i++) put_tile(&p->tiles[i], out);
  isa_buf_printf(out, "  sbuf: %u of %u bytes of a partition taken; psum: %u of %u\n",
                 taken(&j->unit->sbuf), j->target->sbuf_usable, taken(&j->unit->psum),
                 j->target->psum_bytes);
}

/* " of core 1", when there are two. */
static const char *of_core(const isa_program *p, unsigned core) {
  return p->ncores < 2 ? "" : core ? " of core 1" : " of core 0";
}

/* By name: a semaphore without one is not listed. */
static void put_core(const isa_program *p, unsigned core, isa_buf *out) {
  const isa_core *c = &p->cores[core];
  bool any = false;
  for (unsigned s = 0; s < ISA_NSEMS; s++) {
    if (!c->sem_names[s]) continue;
    if (!any) isa_buf_printf(out, "\nsemaphores%s\n", of_core(p, core));
    any = true;
    isa_buf_printf(out, "  %3u  %s\n", s, c->sem_names[s]);
  }
  if (c->nqueues)
    isa_buf_printf(out, "\nqueues       rings  dge    owner   static transfers%s\n",
                   of_core(p, core));
  for (uint32_t q = 0; q < c->nqueues; q++) {
    const isa_queue *u = &c->queues[q];
    unsigned owner = isa_queue_owner(u);
    isa_buf_printf(out, "  %-12s %2u  %-5s  %-6s  %u\n", u->name, u->rings,
                   isa_set_item(ISA_SET_DGE, u->dge),
                   owner < ISA_NSEQS ? isa_engines[owner].name : "any", u->nstatics);
  }
}

static void put_sections(as_job *j, isa_buf *out) {
  isa_buf_puts(out, "\nsections     instructions\n");
  for (unsigned s = 0; s < AS_NSECTIONS; s++)
    if (as_code(j, s)->n)
      isa_buf_printf(out, "  %-13s %9u\n", as_section_name(j, s), as_code(j, s)->n);
}

static void put_tables(as_job *j, isa_buf *out) {
  put_tensors(j->program, out);
  put_tiles(j, out);
  as_tile_map(j, out);
  for (unsigned core = 0; core < j->program->ncores; core++) put_core(j->program, core, out);
  put_sections(j, out);
}

void as_listing(as_job *j) {
  isa_buf *out = &j->out->listing;
  as_printer pr;
  bool ok = as_printer_open(j->program, &j->al, &pr);
  if (ok) put_lines(j, &pr);
  as_printer_close(&pr);
  if (!ok) as_nomem(j);
  put_tables(j, out);
}

/* ---- Linked programs ---------------------------------------------------------------------- */

/* The instructions from pc to before end of a section, with the lines that they came from.
 * A linked program has no source lines of its own: code with labels and places. */
static void put_linked(as_job *j, const as_printer *pr, unsigned section, uint32_t pc,
                       uint32_t end) {
  isa_buf *out = &j->out->listing;
  const isa_program *p = j->program;
  const isa_code *code = as_code(j, section);
  const uint32_t *label = pr->at[as_core_of(section)][as_engine_of(section)];
  uint32_t file = 0;
  for (; pc < end; pc++) {
    isa_line line = code->lines ? code->lines[pc] : (isa_line){0};
    if (line.file && line.file != file) {
      file = line.file;
      isa_buf_printf(out, "; lines of %s\n", p->files[file - 1]);
    }
    for (uint32_t i = label[pc]; i; i = pr->next[i])
      isa_buf_printf(out, "%*s %s:\n", PLACE + 7, "", p->symbols[i - 1].name);
    as_entry e = {.section = (uint8_t)section, .n = 1};
    put_place(out, line.line, &e, pc);
    isa_buf_puts(out, " > ");
    as_printer_insn(pr, as_core_of(section), as_engine_of(section), &code->insns[pc], out);
    isa_buf_puts(out, "\n");
  }
}

/* base[i][s]: where object i's code begins in section s. */
void as_listing_linked(as_job *j, uint32_t n, const char *const *object,
                       const uint32_t (*base)[AS_NSECTIONS]) {
  isa_buf *out = &j->out->listing;
  as_printer pr;
  bool ok = as_printer_open(j->program, &j->al, &pr);
  for (unsigned s = 0; ok && s < j->program->ncores * ISA_NSEQS; s++)
    for (uint32_t i = 0; i < n; i++) {
      /* Each object's part of a section, in the order of linking. */
      uint32_t end = i + 1 < n ? base[i + 1][s] : as_code(j, s)->n;
      /* It has nothing in this section. */
      if (base[i][s] == end) continue;
      isa_buf_printf(out, "; section %s, %u to %u: %s\n", as_section_name(j, s), base[i][s],
                     end - 1, object[i]);
      put_linked(j, &pr, s, base[i][s], end);
    }
  as_printer_close(&pr);
  if (!ok) as_nomem(j);
  put_tables(j, out);
}
