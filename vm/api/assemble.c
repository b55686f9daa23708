/* The assembler and the linker as soma.h offers them, and what they say. */
#include "impl.h"

#include "../../asm/asm.h"

#include <inttypes.h>
#include <string.h>

struct soma_diagnostics {
  isa_alloc al;
  isa_buf text;
  uint32_t count, errors;
};

soma_diagnostics *soma_diagnostics_of(const isa_alloc *al, const char *text) {
  /* NULL: out of memory. */
  soma_diagnostics *d = isa_zalloc(al, sizeof *d);
  if (!d) return NULL;
  d->al = *al;
  isa_buf_init(&d->text, al);
  isa_buf_printf(&d->text, "%s\n", text);
  /* One error: the text that is given. */
  d->count = d->errors = 1;
  return d;
}

/* Adds what r says to *d, which is NULL before the first; without memory it is left out. */
static void keep_diagnostics(soma_machine *m, const as_result *r, soma_diagnostics **to) {
  soma_diagnostics *d = *to;
  /* Nothing said is no diagnostics at all. */
  if (!r->ndiags) return;
  if (!d) {
    d = *to = isa_zalloc(&m->al, sizeof *d);
    /* The program is there all the same. */
    if (!d) return;
    d->al = m->al;
    isa_buf_init(&d->text, &m->al);
  }
  for (uint32_t i = 0; i < r->ndiags; i++) {
    /* Notes belong to the diagnostic before them. */
    as_diag_print(&r->diags[i], false, &d->text);
    d->count += r->diags[i].severity != AS_NOTE;
  }
  /* The assembler has counted its errors itself. */
  d->errors += r->nerrors;
}

/* "name=value" split into the assembler's form; the copies live in the arena. */
static as_define *split_defines(isa_arena *arena, const soma_assemble_options *o) {
  /* One more, since nothing may have size zero. */
  as_define *defs = isa_arena_alloc(arena, (o->ndefines + 1) * sizeof *defs);
  for (uint32_t i = 0; defs && i < o->ndefines; i++) {
    const char *eq = strchr(o->defines[i], '=');
    /* "name" alone has no value. */
    size_t n = eq ? (size_t)(eq - o->defines[i]) : strlen(o->defines[i]);
    defs[i].name = isa_arena_strn(arena, o->defines[i], n);
    defs[i].value = eq ? eq + 1 : NULL;
    if (!defs[i].name) return NULL;
  }
  return defs;
}

/* The caller's options as the assembler's; what they need lives in the arena, which the caller
 * frees also after an error. */
static soma_status read_options(soma_machine *m, const soma_assemble_options *so, isa_arena *arena,
                                as_options *o) {
  soma_assemble_options own = {.size = sizeof own};
  /* An older caller has a shorter struct. */
  if (so && (so->size < offsetof(soma_assemble_options, no_files) || so->size > sizeof own))
    return soma_fail(m, SOMA_ARG, "soma_assemble_options.size is %zu, not %zu", so->size,
                     sizeof own);
  /* What the caller's struct does not have keeps its default. */
  if (so) memcpy(&own, so, so->size);
  *o = (as_options){.alloc = &m->al,
                    .target = m->o.target,
                    .include_dirs = own.include_dirs,
                    .ninclude_dirs = own.ninclude_dirs,
                    .ndefines = own.ndefines,
                    .no_files = own.no_files != 0,
                    .env = own.env};
  o->defines = split_defines(arena, &own);
  return o->defines ? SOMA_OK : soma_out_of_memory(m);
}

/* The status of a job on the file of that name, with its message in m. */
static soma_status job_status(soma_machine *m, isa_status s, const char *name, const as_result *r) {
  if (s == ISA_OK) return SOMA_OK;
  /* The first error is what the call says; all of them are in d. */
  const as_diag *d = r->diags, *end = d + r->ndiags;
  while (d < end && d->severity < AS_ERROR) d++;
  /* Without an error in the text: memory, or a file that cannot be read. */
  if (d == end) return soma_fail(m, (soma_status)s, "%s: %s", name, isa_status_text((int)s));
  /* Some errors have no line. */
  if (!d->line) return soma_fail(m, (soma_status)s, "%s: %s", name, d->text);
  return soma_fail(m, (soma_status)s, "%s:%" PRIu32 ":%" PRIu32 ": %s", d->file, d->line, d->col,
                   d->text);
}

static soma_status assemble(soma_machine *m, const char *text, size_t n, const char *name,
                            const soma_assemble_options *so, soma_program **p,
                            soma_diagnostics **d) {
  as_options o;
  as_result r;
  isa_arena arena;
  *p = NULL;
  if (d) *d = NULL;
  isa_arena_init(&arena, &m->al);
  soma_status result = read_options(m, so, &arena, &o);
  if (result == SOMA_OK) {
    isa_status s = text ? as_assemble(text, n, name, &o, &r) : as_assemble_file(name, &o, &r);
    if (d) keep_diagnostics(m, &r, d);
    result = job_status(m, s, name, &r);
    if (result == SOMA_OK) result = soma_wrap(m, r.program, p);
    as_result_free(&r);
  }
  isa_arena_free(&arena);
  return result;
}

soma_status soma_assemble(soma_machine *m, const char *text, size_t n, const char *name,
                          const soma_assemble_options *options, soma_program **p,
                          soma_diagnostics **d) {
  if (!soma_given(m, "text p", text, p)) return SOMA_ARG;
  return assemble(m, text, n, name ? name : "text", options, p, d);
}

soma_status soma_assemble_file(soma_machine *m, const char *path,
                               const soma_assemble_options *options, soma_program **p,
                               soma_diagnostics **d) {
  if (!soma_given(m, "path p", path, p)) return SOMA_ARG;
  return assemble(m, NULL, 0, path, options, p, d);
}

/* ---- Several sources ---------------------------------------------------------------------- */

/* An object of one of the files: its own bytes, or in *made what a source becomes. */
static soma_status to_object(soma_machine *m, const as_options *o, as_file *f, isa_buf *made,
                             soma_diagnostics **d) {
  as_result r;
  /* It is linked as it is. */
  if (as_is_object(f->data, f->n)) return SOMA_OK;
  isa_status s = as_assemble(f->data, f->n, f->name, o, &r);
  if (d) keep_diagnostics(m, &r, d);
  soma_status result = job_status(m, s, f->name, &r);
  /* The buffer changes hands. */
  if (result == SOMA_OK) {
    isa_buf none = *made;
    *made = r.object;
    r.object = none;
    f->data = made->data;
    f->n = made->len;
  }
  isa_program_free(r.program);
  as_result_free(&r);
  return result;
}

static soma_status link_objects(soma_machine *m, as_options *o, const as_file *files, uint32_t n,
                                soma_program **p, soma_diagnostics **d) {
  as_result r;
  o->target = NULL; /* the objects' */
  isa_status s = as_link(files, n, o, &r);
  if (d) keep_diagnostics(m, &r, d);
  soma_status result = job_status(m, s, files[0].name, &r);
  if (result == SOMA_OK) result = soma_wrap(m, r.program, p);
  as_result_free(&r);
  return result;
}

static soma_status link_files(soma_machine *m, as_options *o, as_file *files, isa_buf *made,
                              uint32_t n, soma_program **p, soma_diagnostics **d) {
  uint32_t last = n; /* of the sources */
  soma_status s = SOMA_OK;
  for (uint32_t i = 0; i < n; i++) {
    isa_buf_init(&made[i], &m->al);
    /* Whether a define was read is only known after the last source. */
    if (!as_is_object(files[i].data, files[i].n)) last = i;
  }
  o->relocatable = true;
  for (uint32_t i = 0; s == SOMA_OK && i < n; i++) {
    o->more_sources = i != last;
    s = to_object(m, o, &files[i], &made[i], d);
  }
  if (s == SOMA_OK) s = link_objects(m, o, files, n, p, d);
  for (uint32_t i = 0; i < n; i++) isa_buf_free(&made[i]);
  return s;
}

soma_status soma_link(soma_machine *m, const soma_file *files, uint32_t n,
                      const soma_assemble_options *options, soma_program **p,
                      soma_diagnostics **d) {
  if (!soma_given(m, "files p", files, p)) return SOMA_ARG;
  *p = NULL;
  if (d) *d = NULL;
  if (n == 0 || n > UINT16_MAX)
    return soma_fail(m, SOMA_ARG, "%u files; 1 to %d link", n, UINT16_MAX);
  for (uint32_t i = 0; i < n; i++)
    if (!files[i].name || !files[i].data)
      return soma_fail(m, SOMA_ARG, "files[%u].%s is NULL", i, files[i].name ? "data" : "name");
  isa_arena arena;
  as_options o;
  isa_arena_init(&arena, &m->al);
  soma_status s = read_options(m, options, &arena, &o);
  if (s == SOMA_OK) {
    as_file *own = isa_arena_alloc(&arena, n * sizeof *own);
    isa_buf *made = isa_arena_alloc(&arena, n * sizeof *made);
    o.defines_read = isa_arena_alloc(&arena, o.ndefines + 1);
    if (own && made && o.defines_read) {
      /* One place for all sources: a define that any of them reads is used. */
      memset(o.defines_read, 0, o.ndefines + 1);
      for (uint32_t i = 0; i < n; i++) own[i] = (as_file){files[i].name, files[i].data, files[i].n};
      s = link_files(m, &o, own, made, n, p, d);
    } else {
      s = soma_out_of_memory(m);
    }
  }
  isa_arena_free(&arena);
  return s;
}

/* ---- Static checks, diagnostics ------------------------------------------------------------- */

/* The program is not changed, and need not have run. */
soma_status soma_lint(soma_machine *m, const soma_program *p, soma_diagnostics **d) {
  if (!soma_given(m, "p d", p, d)) return SOMA_ARG;
  as_options o = {.alloc = &m->al};
  as_result r;
  *d = NULL;
  isa_status s = as_lint(p->p, &o, &r);
  if (s == ISA_OK) keep_diagnostics(m, &r, d);
  /* There was no memory for them. */
  if (s == ISA_OK && r.ndiags && !*d) s = ISA_NOMEM;
  if (s != ISA_OK)
    soma_fail(m, (soma_status)s, "%s", r.ndiags ? r.diags[0].text : isa_status_text((int)s));
  as_result_free(&r);
  return (soma_status)s;
}

uint32_t soma_diagnostics_count(const soma_diagnostics *d) { return d ? d->count : 0; }
uint32_t soma_diagnostics_errors(const soma_diagnostics *d) { return d ? d->errors : 0; }
/* A text that is not whole is not shown. */
const char *soma_diagnostics_text(const soma_diagnostics *d) {
  return d && !d->text.failed ? d->text.data : "";
}
void soma_diagnostics_free(soma_diagnostics *d) {
  if (!d) return;
  isa_alloc al = d->al;
  isa_buf_free(&d->text);
  isa_free(&al, d, sizeof *d);
}
