/* The assembler as a library: one job from text to program. The only place where a failed job
 * lands: everything a job has is in its arena, the program, or the result. */
#include "stmt.h"

#include <string.h>

/* Reads a line for what it declares, which the preprocessor's expressions may name. Its errors are
 * those of assembling it. */
static void read_names(as_job *j, const as_line *line) {
  uint32_t errors = j->errors;
  j->quiet = true;
  as_parse_line(j, line);
  j->quiet = false;
  j->errors = errors;
}

static void run_preprocess(as_job *j, as_pp *pp) {
  as_line line;
  as_marks marks = {0};
  while (as_pp_line(pp, &line)) {
    /* Printed before it is read: reading may change what names mean. */
    as_line_print_marked(j, &line, &marks, &j->out->preprocessed);
    read_names(j, &line);
  }
  if (j->out->preprocessed.failed) as_nomem(j);
}

static void run_assemble(as_job *j, as_pp *pp) {
  as_line line;
  while (as_pp_line(pp, &line)) as_parse_line(j, &line);
  as_layout(j);
  if (j->errors == 0 && j->o->want_listing) as_listing(j);
  if (j->out->listing.failed) as_nomem(j);
  if (j->errors == 0 && j->o->relocatable) as_object_make(j);
}

/* trn2, unless the caller or the source says something else. */
static void choose_target(as_job *j) {
  const char *name = j->o->target ? j->o->target : "trn2";
  isa_error e;
  if (!isa_target_read(name, strlen(name), &j->asked_target, &e))
    as_fatal(j, (as_pos){0}, "%s", e.text);
  j->target = isa_target_keep(&j->asked_target, &j->own_target);
}

/* path NULL: text is the source. */
static void run(as_job *j, const char *path, const char *text, size_t n, const char *name) {
  /* Where as_fatal and as_nomem go.
   * Nothing is freed on the way: the arena, the program and the result have all of it. */
  if (setjmp(j->bail)) return;
  as_diag_open(j);
  j->unit = as_new(j, sizeof *j->unit);
  /* No section yet: code before one is an error. */
  j->unit->section = AS_NSECTIONS;
  /* text/ and pp/ know names only through these four. */
  j->name_value = as_sym_value;
  j->name_near = as_sym_near;
  j->is_word = as_is_word;
  j->list_line = as_list_line;
  choose_target(j);
  uint32_t source;
  if (!path)
    source = as_src_text(j, name, text, n);
  else if (!as_src_load(j, (as_pos){0}, 1, path, &source))
    return;
  as_pp *pp = as_pp_open(j, source);
  if (j->o->only_preprocess)
    run_preprocess(j, pp);
  else
    run_assemble(j, pp);
  /* Only then has everything been read that reads the given names.
   * A given name that nothing read is a mistake of the caller. */
  if (j->errors == 0) as_pp_close_given(pp);
}

static isa_status assemble(const char *path, const char *text, size_t n, const char *name,
                           const as_options *o, as_result *out) {
  static const as_options none = {0};
  as_job job;
  memset(&job, 0, sizeof job);
  memset(out, 0, sizeof *out);
  job.o = o ? o : &none;
  job.out = out;
  job.al = job.o->alloc ? *job.o->alloc : isa_alloc_default();
  isa_arena_init(&job.arena, &job.al);
  isa_arena_init(&out->arena, &job.al);
  isa_buf_init(&out->listing, &job.al);
  isa_buf_init(&out->preprocessed, &job.al);
  isa_buf_init(&out->object, &job.al);
  /* Errors are in the result, whatever happens. */
  run(&job, path, text, n, name);
  /* A job with errors has no program, though it may have built most of one. */
  if (job.status == ISA_OK && job.errors) job.status = ISA_SYNTAX;
  if (job.status == ISA_OK && !job.o->only_preprocess) {
    out->program = job.program;
    /* It is the result's now. */
    job.program = NULL;
  }
  isa_program_free(job.program);
  as_intern_free(&job);
  isa_arena_free(&job.arena);
  return job.status;
}

isa_status as_assemble(const char *text, size_t n, const char *name, const as_options *o,
                       as_result *out) {
  return assemble(NULL, text, n, name, o, out);
}

isa_status as_assemble_file(const char *path, const as_options *o, as_result *out) {
  return assemble(path, NULL, 0, path, o, out);
}

void as_result_free(as_result *r) {
  isa_buf_free(&r->listing);
  isa_buf_free(&r->preprocessed);
  isa_buf_free(&r->object);
  isa_arena_free(&r->arena);
  memset(r, 0, sizeof *r);
}
