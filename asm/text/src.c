/* Source texts: reading files, finding them, their lines. */
#include "as.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const size_t max_source = (size_t)1 << 30;

/* ---- Reading ------------------------------------------------------------------------------ */

/* For callers that give no function of their own. */
static bool read_stdio(void *ud, const char *path, isa_buf *out) {
  (void)ud;
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  size_t n = 0;
  bool ok = true;
  do {
    /* In pieces, since a pipe does not say how long it is. */
    char *to = isa_buf_grow(out, 65536);
    n = to ? fread(to, 1, 65536, f) : 0;
    if (to) out->len -= 65536 - n;
    ok = to && !ferror(f) && out->len <= max_source;
  } while (ok && n > 0);
  fclose(f);
  return ok;
}

/* The bytes of a file in the arena, a 0 after them; NULL when it cannot be read: then *why is
 * the system's number for the reason, or 0. */
static char *read_file(as_job *j, const char *path, size_t *n, int *why) {
  isa_buf b;
  isa_buf_init(&b, &j->al);
  /* The caller may read from memory, or refuse. */
  as_read_fn read = j->o && j->o->read ? j->o->read : read_stdio;
  errno = 0;
  bool ok = read(j->o ? j->o->read_ud : NULL, path, &b);
  *why = ok ? 0 : errno;
  bool lost = b.failed;
  *n = b.len;
  char *text = NULL;
  if (ok && !lost) {
    text = isa_arena_alloc(&j->arena, b.len + 1);
    lost = text == NULL;
    if (text && b.len) memcpy(text, b.data, b.len);
  }
  isa_buf_free(&b);
  if (lost) as_nomem(j);
  return text;
}

/* Files that were read, for -M. */
static void add_dep(as_job *j, const char *path) {
  as_result *r = j->out;
  const char **deps = isa_arena_grow(&r->arena, r->deps, r->ndeps, 1, &j->cap_deps, sizeof *deps);
  if (deps) r->deps = deps;
  char *s = isa_arena_strn(&r->arena, path, strlen(path));
  if (!deps || !s) as_nomem(j);
  r->deps[r->ndeps++] = s;
}

/* dir/path, with one slash between them. */
static const char *join(as_job *j, const char *dir, size_t n, const char *path) {
  size_t m = strlen(path);
  bool slash = n > 0 && dir[n - 1] != '/';
  char *s = as_new(j, n + slash + m + 1);
  memcpy(s, dir, n);
  if (slash) s[n] = '/';
  memcpy(s + n + slash, path, m);
  return s;
}

/* The directory of the file that asks, with its slash; 0 bytes for the current one. */
static size_t dir_len(const char *name) {
  const char *slash = strrchr(name, '/');
  return slash ? (size_t)(slash - name) + 1 : 0;
}

/* A file's text in the arena, or one that a source has already. */
typedef struct found {
  const char *path, *text;
  size_t n;
  int why; /* the last reason other than that there is no such file */
} found;

/* By its full name: the same file by two names is two sources. */
static bool try_path(as_job *j, const char *path, bool source, found *f) {
  as_name *name = as_name_of(as_intern(j, path, strlen(path)));
  f->path = name->text;
  /* A file that is included again is not read again. */
  if (source && name->source && j->sources[name->source - 1].text) {
    f->text = j->sources[name->source - 1].text;
    return true;
  }
  int why;
  f->text = read_file(j, path, &f->n, &why);
  /* The name is tried in several directories, and is absent from most. */
  if (why != 0 && why != ENOENT) f->why = why;
  if (!f->text) return false;
  if (!name->read) add_dep(j, name->text);
  name->read = true;
  return true;
}

/* Next to the file that asks, then in each -I directory. */
static bool find(as_job *j, as_pos at, uint32_t span, const char *path, bool source, found *f) {
  f->why = 0;
  /* A file that the command line names, at line 0, is always allowed. */
  if (at.line != 0 && j->o && j->o->no_files)
    return as_error(j, at, span, "cannot read `%s`: this source may not read files", path);
  const char *from = at.line && at.file < j->nsources ? j->sources[at.file].name : "";
  /* An absolute path is not searched for. */
  bool fixed = path[0] == '/' || at.line == 0;
  size_t d = dir_len(from);
  if (try_path(j, fixed ? path : join(j, from, d, path), source, f)) return true;
  uint32_t dirs = !fixed && j->o ? j->o->ninclude_dirs : 0;
  for (uint32_t i = 0; i < dirs; i++) {
    const char *dir = j->o->include_dirs[i];
    if (try_path(j, join(j, dir, strlen(dir), path), source, f)) return true;
  }
  /* For -MG: what is missing will be made by the rule that this line helps to write. */
  if (j->o && j->o->missing_files && at.line != 0) {
    as_src_depend(j, path);
    *f = (found){.path = as_intern(j, path, strlen(path)), .text = ""};
    return true;
  }
  as_error(j, at, span, "cannot read `%s`%s%s", path, f->why ? ": " : "",
           f->why ? strerror(f->why) : "");
  /* Where it was looked for is what a person needs to mend it. */
  if (!fixed) as_note(j, (as_pos){0}, "looked in `%.*s`", d ? (int)d : 1, d ? from : ".");
  for (uint32_t i = 0; i < dirs; i++)
    as_note(j, (as_pos){0}, "looked in `%s`", j->o->include_dirs[i]);
  return false;
}

void as_src_depend(as_job *j, const char *path) {
  as_name *name = as_name_of(as_intern(j, path, strlen(path)));
  if (!name->read) add_dep(j, name->text);
  name->read = true;
}

/* Whether a file can be read; nothing of it is kept. */
static bool readable(as_job *j, const char *path) {
  isa_buf b;
  isa_buf_init(&b, &j->al);
  as_read_fn read = j->o && j->o->read ? j->o->read : read_stdio;
  bool ok = read(j->o ? j->o->read_ud : NULL, path, &b);
  isa_buf_free(&b);
  return ok;
}

/* As find looks, but nothing of the file is kept. */
const char *as_src_search(as_job *j, as_pos at, uint32_t span, const char *path) {
  if (j->o && j->o->no_files) {
    as_error(j, at, span, "cannot look for `%s`: this source may not read files", path);
    return NULL;
  }
  if (path[0] == '/') return path;
  const char *from = at.file < j->nsources ? j->sources[at.file].name : "";
  const char *full = join(j, from, dir_len(from), path);
  if (readable(j, full)) return full;
  for (uint32_t i = 0; j->o && i < j->o->ninclude_dirs; i++) {
    const char *dir = j->o->include_dirs[i];
    full = join(j, dir, strlen(dir), path);
    if (readable(j, full)) return full;
  }
  return path;
}

const char *as_src_read(as_job *j, as_pos at, uint32_t span, const char *path, size_t *n,
                        const char **found_path) {
  found f;
  if (!find(j, at, span, path, false, &f)) return NULL;
  *n = f.n;
  *found_path = f.path;
  return f.text;
}

/* ---- Lines -------------------------------------------------------------------------------- */

/* The places of lines are needed for messages and listings. */
static void index_lines(as_job *j, as_source *s) {
  /* Counted first, so that the index takes what it needs of the arena and no more. */
  uint32_t lines = 1;
  const char *end = s->text + s->n, *nl;
  for (const char *p = s->text; (nl = memchr(p, '\n', (size_t)(end - p))) != NULL; p = nl + 1)
    lines++;
  s->line_at = as_new(j, lines * sizeof *s->line_at);
  for (const char *p = s->text; (nl = memchr(p, '\n', (size_t)(end - p))) != NULL; p = nl + 1)
    s->line_at[++s->nlines] = (uint32_t)(nl + 1 - s->text);
  s->nlines++;
}

/* Sources are numbered; a line's place is (number, line). */
static uint32_t add_source(as_job *j, const char *name) {
  j->sources = as_grow(j, j->sources, j->nsources, 1, &j->cap_sources, sizeof *j->sources);
  j->sources[j->nsources] = (as_source){.name = as_intern(j, name, strlen(name))};
  return j->nsources++;
}

/* Takes a text that is in the arena. */
static uint32_t own_text(as_job *j, const char *name, const char *text, size_t n) {
  uint32_t index = add_source(j, name);
  as_source *s = &j->sources[index];
  if (n > max_source) as_fatal(j, (as_pos){0}, "`%s` is larger than 1 GiB", name);
  s->text = text;
  s->n = n;
  index_lines(j, s);
  /* The lexer takes a zero byte for the end: all after it would be lost. */
  const char *nul = memchr(text, 0, n);
  if (!nul) return index;
  uint32_t line = 1;
  while (line < s->nlines && s->line_at[line] <= (size_t)(nul - text)) line++;
  uint32_t col = (uint32_t)(nul - text) - s->line_at[line - 1] + 1;
  as_fatal(j, (as_pos){index, line, col, NULL}, "byte 0x00 is not text");
}

/* Text that the caller has: it is copied, as tokens point into it. */
uint32_t as_src_text(as_job *j, const char *name, const char *text, size_t n) {
  if (n > max_source) as_fatal(j, (as_pos){0}, "`%s` is larger than 1 GiB", name);
  return own_text(j, name, as_strn(j, text, n), n);
}

/* For %line: a source of that name, without a text. */
uint32_t as_src_name(as_job *j, const char *name) {
  as_name *entry = as_name_of(as_intern(j, name, strlen(name)));
  if (!entry->source) entry->source = add_source(j, name) + 1;
  return entry->source - 1;
}

bool as_src_load(as_job *j, as_pos at, uint32_t span, const char *path, uint32_t *index) {
  found f;
  if (!find(j, at, span, path, true, &f)) return false;
  as_name *name = as_name_of(f.path);
  /* A name may be known from a line mark alone, without a text. */
  if (!name->source || !j->sources[name->source - 1].text)
    name->source = own_text(j, f.path, f.text, f.n) + 1;
  *index = name->source - 1;
  return true;
}

/* Without its end; a carriage return belongs to the end. */
const char *as_src_line(const as_job *j, uint32_t file, uint32_t line, uint32_t *len) {
  if (file >= j->nsources || line == 0 || line > j->sources[file].nlines) return NULL;
  const as_source *s = &j->sources[file];
  const char *p = s->text + s->line_at[line - 1], *end = strchr(p, '\n');
  size_t n = end ? (size_t)(end - p) : strlen(p);
  if (n > 0 && p[n - 1] == '\r') n--;
  *len = (uint32_t)n;
  return p;
}
