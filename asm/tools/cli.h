/* What the commands share: files written whole or not at all, argument files, JSON. Nothing here
 * prints. */
#ifndef ASM_CLI_H
#define ASM_CLI_H

#include "../asm.h"

/* Reads a file of at most 256 MiB, or standard input when path is "-", to the end of out
 * (initialised). */
bool as_cli_read(const char *path, isa_buf *out, isa_error *e);

typedef struct as_cli_file {
  const char *path; /* "-": standard output, written last */
  const void *data;
  size_t n;
  char *temp; /* private */
} as_cli_file;

/* Writes all files, each under a temporary name beside its own, then renames them. On a failure
 * none of them is changed and nothing is left behind; e names the file. A path that is not a
 * regular file (a terminal, a pipe) is written as it is. */
bool as_cli_write(as_cli_file *files, unsigned n, isa_error *e);

/* Whether two paths name one regular file, or one that is not there yet. "-" names none. */
bool as_cli_same(const char *a, const char *b);
/* Flushes standard output; false with a message in e if not all of it could be
 * written. */
bool as_cli_flush(isa_error *e);

/* Whether a file begins as an object or a program does. */
bool as_cli_is_object(const char *path);

/* Splits the text of an argument file at blanks, quotes kept together, and appends the words,
 * terminated and in the arena, to *argv with *argc of them. False if out of memory. */
bool as_cli_split(isa_arena *a, const char *text, size_t n, const char ***argv, uint32_t *argc,
                  uint32_t *cap);

/* A file's name as make reads it, where these letters mean something else without a backslash; the
 * backslashes before such a letter are doubled. Make has no way to write `=`, `;` or `|`. */
void as_cli_make_name(const char *name, const char *special, isa_buf *out);
/* Whether the n bytes at s can be the name of a macro. */
bool as_cli_name(const char *s, size_t n);

/* "; did you mean `x`?" for an unknown option, or "": out has room for 80. */
void as_cli_near(const char *want, const char *const *names, unsigned n, char *out);

/* What to write instead of an option of NASM's that is not built, or NULL. */
const char *as_cli_refused(const char *arg);

/* Takes the lines of the source out of a program: -g keeps them. */
void as_cli_drop_lines(isa_program *p);

/* A program as one JSON object: target, tensors, tiles, semaphores, queues with their transfers,
 * and sections with the text, label and place of each instruction. */
void as_json_program(const isa_program *p, isa_buf *out);
/* What the tables say of an instruction, pseudo-instruction or directive; false with a message in
 * out if none has that name. */
bool as_explain(const char *name, isa_buf *out);
/* (explain_names.c) The same of every other name: operators, functions, types, targets, operands,
 * words of the preprocessor, warnings; each of its meanings. False: the word has no meaning. */
bool as_explain_name(const char *name, isa_buf *out);
/* What a field takes, as text. */
void as_put_kind(const isa_field *fd, isa_buf *out);
/* "from gen3 (trn2, trn3)": the generations that have a thing. */
void as_put_from(unsigned gen, isa_buf *out);
/* The same for every instruction, as the text of isa/manual.md. */
void as_manual(isa_buf *out);
/* Every word of the language with its class, one on a line, in the order of the tables. */
void as_words(isa_buf *out);

/* A diagnostic as one JSON object, without a newline. */
void as_json_diag(const as_diag *d, isa_buf *out);

/* spill.c */
/* Makes a program that fits from one that overflows: the tile whose next use is furthest away goes
 * to HBM and comes back. The program is followed as it would run, and gets new semaphores. One that
 * cannot be followed (it branches on the contents of memory, or uses static queues, overlays or two
 * cores) gives ISA_UNBUILT. text: a line for each spill, or the error. */
isa_status as_spill(const isa_program *p, const isa_alloc *al, isa_program **out, isa_buf *text);
/* "trn1, inf2, trn2 or trn3" in text, which is given back. */
const char *as_cli_targets(char text[static 64]);

#endif
