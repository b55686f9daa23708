/* The assembler as a library: text in, program and diagnostics out. The disassembler is
 * isa_print_program. Nothing here prints, exits, or keeps state between calls. */
#ifndef ASM_ASM_H
#define ASM_ASM_H

#include "../isa/lint/lint.h"

enum as_severity { AS_NOTE, AS_WARNING, AS_ERROR, AS_FATAL };

typedef struct as_diag {
  uint8_t severity;
  const char *file;   /* as given to the assembler or to %include; "" when there is no place */
  uint32_t line, col; /* 1-based, 0: none */
  const char *text;   /* without "error: " */
  const char *source; /* the source line, or NULL */
  uint32_t span;      /* columns the caret underlines, at least 1 */
  const char *name;   /* of a named warning, else NULL */
} as_diag;            /* a note belongs to the error or warning before it */

/* Reads a whole file: gives true and fills out (its allocator is set), else false. */
typedef bool (*as_read_fn)(void *ud, const char *path, isa_buf *out);

typedef struct as_define {
  const char *name, *value; /* value NULL: "1"; name with value "" and undefine set: %undef */
  bool undefine;
  bool include; /* name is a file that is included before the source */
} as_define;

typedef struct as_options {
  const isa_alloc *alloc; /* NULL: malloc */
  const char *target;     /* -t: default target when the source has no `target` line */
  const char *const *include_dirs;
  uint32_t ninclude_dirs;
  const as_define *defines;
  uint32_t ndefines;
  /* For a program of several sources: ndefines marks, set for what a source reads; with
   * more_sources those that nothing has read yet are no warning. NULL: it is the only source. */
  bool *defines_read;
  bool more_sources;
  as_read_fn read; /* NULL: fopen */
  void *read_ud;
  const char *(*env)(const char *name); /* as getenv, for %!NAME; NULL: the source may not ask */
  uint32_t max_errors;                  /* 0: 20 */
  bool warnings_are_errors;
  const char *const *warnings; /* "+name" or "-name", in order */
  uint32_t nwarnings;
  uint32_t tile_align; /* 0: 64 */
  bool want_listing, only_preprocess;
  bool missing_files; /* a file that cannot be read will be made: it is a dependency, and empty */
  bool relocatable;   /* -r: also fill `object` */
  bool spill;         /* tiles for which SBUF has no room lie past its end: see overflows */
  bool no_files;      /* the source may read no file: %include, incbin and npy are errors */
} as_options;

typedef struct as_result {
  isa_program *program; /* NULL when there were errors; the caller frees it */
  bool overflows;       /* with spill: some tiles are past the end of SBUF, so it cannot run yet */
  as_diag *diags;
  uint32_t ndiags, nerrors, nwarnings;
  isa_buf listing;      /* with want_listing */
  isa_buf object;       /* with relocatable: an object file, for as_link */
  isa_buf preprocessed; /* with only_preprocess: source that assembles to the same bytes */
  const char **deps;    /* files read, in order of first use */
  uint32_t ndeps;
  isa_arena arena; /* owns diags and their texts */
} as_result;

/* Assembles n bytes of text called name in messages. Always fills *out; free it with
 * as_result_free. Gives ISA_OK, ISA_SYNTAX (see the diagnostics), ISA_NOMEM or ISA_IO. */
isa_status as_assemble(const char *text, size_t n, const char *name, const as_options *o,
                       as_result *out);
/* The same for a file, read with o->read. */
isa_status as_assemble_file(const char *path, const as_options *o, as_result *out);
void as_result_free(as_result *r);

typedef struct as_file {
  const char *name; /* for messages */
  const void *data;
  size_t n;
} as_file;
/* Whether bytes begin like a program or object file; no source does. */
bool as_is_object(const void *data, size_t n);
/* Links object files to a program: sections one after the other, in the order of the files. Of o
 * only alloc, target (which the objects must have, when it is not NULL), tile_align, want_listing
 * and max_errors count. Fills *out as as_assemble does. */
isa_status as_link(const as_file *files, uint32_t n, const as_options *o, as_result *out);

/* The static checks of isa/lint/lint.h as diagnostics, in the order of the code: warnings and notes
 * under the names of lint.def. Of o (may be NULL) alloc, warnings and warnings_are_errors count.
 * Fills *out, without a program, as as_assemble does: ISA_OK, ISA_SYNTAX when there are errors, or
 * what the verifier says of a program that it refuses. */
isa_status as_lint(const isa_program *p, const as_options *o, as_result *out);

/* A diagnostic in the form `file:line:col: error: text`, the source line and a caret. */
void as_diag_print(const as_diag *d, bool color, isa_buf *out);

#endif
