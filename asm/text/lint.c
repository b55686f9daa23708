/* The findings of isa_lint as diagnostics. */
#include "../asm.h"

#include <string.h>

/* Whether the options leave a kind on: the last that names it, or all, decides.
 * The same options as for warnings of the assembler. */
static bool wanted(const as_options *o, const char *name) {
  bool on = true;
  for (uint32_t i = 0; i < o->nwarnings; i++) {
    const char *w = o->warnings[i];
    bool sign = w[0] == '+' || w[0] == '-';
    if (strcmp(w + sign, name) == 0 || strcmp(w + sign, "all") == 0) on = w[0] != '-';
  }
  return on;
}

/* The place of a finding, or in words before its text where no line is known. */
static bool place(const isa_program *p, const isa_finding *f, as_result *out, as_diag *d) {
  isa_buf text;
  const isa_line *line = NULL;
  isa_buf_init(&text, &out->arena.al);
  d->file = "";
  d->span = 1;
  /* A finding of the whole program has no place. */
  if (f->at.core >= 0 && f->at.engine >= 0) {
    const isa_code *code = &p->cores[f->at.core].code[f->at.engine];
    line = code->lines ? &code->lines[f->at.pc] : NULL;
    if (line && line->file) {
      const char *file = p->files[line->file - 1];
      d->file = isa_arena_strn(&out->arena, file, strlen(file));
      d->line = line->line;
    } else {
      isa_buf_printf(&text, "%s pc %u: ", isa_engines[f->at.engine].name, f->at.pc);
    }
  }
  isa_buf_puts(&text, f->text);
  /* What macros the line came out of. */
  if (line) isa_print_calls(p, *line, &text);
  d->text = text.failed ? NULL : isa_arena_strn(&out->arena, isa_buf_str(&text), text.len);
  isa_buf_free(&text);
  return d->text && d->file;
}

/* Notes are not warnings, and never errors. */
static bool add(const isa_program *p, const isa_finding *f, const as_options *o, as_result *out) {
  const isa_lint_row *row = &isa_lints[f->kind];
  as_diag *d = &out->diags[out->ndiags];
  if (!wanted(o, row->name)) return true;
  d->severity = row->note ? AS_NOTE : o->warnings_are_errors ? AS_ERROR : AS_WARNING;
  d->name = row->name;
  out->nwarnings += d->severity == AS_WARNING;
  out->nerrors += d->severity == AS_ERROR;
  out->ndiags++;
  return place(p, f, out, d);
}

/* A program that the verifier refuses is not checked. */
static isa_status refused(const isa_error *e, as_result *out) {
  out->diags[0] = (as_diag){.severity = AS_ERROR, .file = "", .span = 1};
  out->diags[0].text = isa_arena_strn(&out->arena, e->text, strlen(e->text));
  out->ndiags = out->nerrors = 1;
  return out->diags[0].text ? e->status : ISA_NOMEM;
}

isa_status as_lint(const isa_program *p, const as_options *o, as_result *out) {
  static const as_options none;
  isa_alloc al = o && o->alloc ? *o->alloc : isa_alloc_default();
  isa_error e = {0};
  o = o ? o : &none;
  memset(out, 0, sizeof *out);
  isa_arena_init(&out->arena, &al);
  isa_buf_init(&out->listing, &al);
  isa_buf_init(&out->object, &al);
  isa_buf_init(&out->preprocessed, &al);
  isa_findings *f = isa_zalloc(&al, sizeof *f);
  if (!f) return ISA_NOMEM;
  isa_status s = isa_lint(p, 0, &al, f, &e);
  /* One more than the findings, for the error of a program that is refused.
   * All findings may be shown, so there is room for all. */
  out->diags = isa_arena_alloc(&out->arena, (f->n + 1) * sizeof *out->diags);
  if (!out->diags) s = ISA_NOMEM;
  if (s != ISA_OK && s != ISA_NOMEM) s = refused(&e, out);
  for (uint32_t i = 0; s == ISA_OK && i < f->n; i++)
    if (!add(p, &f->v[i], o, out)) s = ISA_NOMEM;
  isa_findings_free(f);
  isa_free(&al, f, sizeof *f);
  return s == ISA_OK && out->nerrors ? ISA_SYNTAX : s;
}
