/* A job of the assembler's front half over texts in memory, for the tests of its parts. */
#ifndef TESTS_ASM_JOB_H
#define TESTS_ASM_JOB_H

#include "../../asm/text/as.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct mem_file {
  const char *name, *text;
} mem_file;

typedef struct job {
  as_job j;
  as_result r;
  as_options o;
  const mem_file *files; /* ended by a NULL name */
  isa_buf out, diags;
} job;

static bool mem_read(void *ud, const char *path, isa_buf *out) {
  for (const mem_file *f = ((job *)ud)->files; f && f->name; f++)
    if (strcmp(f->name, path) == 0) {
      isa_buf_puts(out, f->text);
      return true;
    }
  return false;
}

static void job_open(job *t, const as_options *o) {
  memset(t, 0, sizeof *t);
  if (o) t->o = *o;
  t->o.read = mem_read;
  t->o.read_ud = t;
  t->j.o = &t->o;
  t->j.out = &t->r;
  t->j.al = isa_alloc_default();
  isa_arena_init(&t->j.arena, &t->j.al);
  isa_arena_init(&t->r.arena, &t->j.al);
  isa_buf_init(&t->out, &t->j.al);
  isa_buf_init(&t->diags, &t->j.al);
}

static void job_close(job *t) {
  isa_buf_free(&t->out);
  isa_buf_free(&t->diags);
  as_intern_free(&t->j);
  isa_arena_free(&t->j.arena);
  isa_arena_free(&t->r.arena);
}

/* All diagnostics, one per line, as `line:col: error: text`; file: with the file. */
static const char *job_diags(job *t, bool file) {
  static const char *const names[] = {"note", "warning", "error", "fatal"};
  t->diags.len = 0;
  for (uint32_t i = 0; i < t->r.ndiags; i++) {
    const as_diag *d = &t->r.diags[i];
    if (file && d->file[0]) isa_buf_printf(&t->diags, "%s:", d->file);
    if (d->line) isa_buf_printf(&t->diags, "%u:%u: ", d->line, d->col);
    isa_buf_printf(&t->diags, "%s: %s\n", names[d->severity], d->text);
  }
  return isa_buf_str(&t->diags);
}

/* Preprocesses a text called "t.s" into t->out, a line for a line, no %line marks. */
static inline void job_preprocess(job *t, const char *text, size_t n) {
  if (setjmp(t->j.bail) != 0) return;
  as_diag_open(&t->j);
  as_pp *pp = as_pp_open(&t->j, as_src_text(&t->j, "t.s", text, n));
  for (as_line l; as_pp_line(pp, &l);) as_line_print(&l, &t->out);
}

#endif
