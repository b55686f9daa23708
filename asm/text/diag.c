/* Diagnostics: collecting them with the source line and the macro backtrace, and their text. */
#include "as.h"

#include <stdio.h>
#include <string.h>

enum {
  DEFAULT_MAX_ERRORS = 20,
  MAX_WARNINGS = 1000, /* kept; more are counted only */
  MAX_REPORTED = 64,   /* errors that are not reported again when a loop repeats them */
  MAX_REPEATS = 10000, /* of those; then the assembler gives up */
  MAX_TRACE = 8,       /* macro calls shown of a backtrace */
  MAX_SOURCE = 400     /* columns of a source line that is shown */
};

static const struct {
  const char *name;
  bool on;
} classes[] = {
#define WARNING(id, name, on, text) {name, on},
#include "warnings.def"
};
enum { NCLASSES = sizeof classes / sizeof classes[0] };

struct as_warn_state {
  bool on[NCLASSES];
  struct {
    as_pos at;
    const char *text;
  } reported[MAX_REPORTED];
  uint32_t nreported, repeats;
  uint32_t cap;    /* of the diagnostics' array */
  uint32_t trace;  /* index of the first note of the last backtrace: other notes go before it */
  bool last_shown; /* notes of a warning that is off, or past a limit, vanish with it */
};

/* A class is a warning's name, which -w+NAME and -w-NAME switch. */
static int find_class(const char *name) {
  for (int i = 0; i < NCLASSES; i++)
    if (strcmp(classes[i].name, name) == 0) return i;
  return -1;
}

/* The class whose name is nearly this, or NULL. */
static const char *near_class(const char *name) {
  unsigned best = 3;
  const char *near = NULL;
  for (int i = 0; i < NCLASSES; i++) {
    unsigned d =
        isa_edit_distance(name, strlen(name), classes[i].name, strlen(classes[i].name), best);
    if (d >= best) continue;
    best = d;
    near = classes[i].name;
  }
  return near;
}

/* ---- Adding ------------------------------------------------------------------------------- */

/* In the result's arena: messages outlive the job. */
static char *format(as_job *j, const char *fmt, va_list ap) {
  va_list again;
  /* It is formatted twice: for its length, then for good. */
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  char *s = n < 0 ? NULL : isa_arena_alloc(&j->out->arena, (size_t)n + 1);
  if (!s) as_nomem(j);
  vsnprintf(s, (size_t)n + 1, fmt, ap);
  return s;
}

/* Grown in the arena: notes come one by one. */
static void reserve(as_job *j) {
  struct as_warn_state *w = j->warn_state;
  as_result *r = j->out;
  as_diag *d = isa_arena_grow(&r->arena, r->diags, r->ndiags, 1, &w->cap, sizeof *d);
  if (!d) as_nomem(j);
  r->diags = d;
}

/* Fills in the place of a diagnostic: the result must not point into the job's arena. */
static void locate(as_job *j, as_diag *d, as_pos at, uint32_t span) {
  d->file = "";
  /* Line 0: the message is about no place, as an option's. */
  if (at.line == 0 || at.file >= j->nsources) return;
  const char *name = j->sources[at.file].name;
  uint32_t len;
  const char *text = as_src_line(j, at.file, at.line, &len);
  d->file = isa_arena_strn(&j->out->arena, name, strlen(name));
  d->line = at.line;
  d->col = at.col;
  d->span = span ? span : 1;
  /* Where the column is off the line no caret can stand.
   * One past the last column: "expected something at the end". */
  bool show = text && at.col && at.col <= len + 1 && at.col <= MAX_SOURCE;
  if (show) d->source = isa_arena_strn(&j->out->arena, text, len < MAX_SOURCE ? len : MAX_SOURCE);
  if (!d->file || (show && !d->source)) as_nomem(j);
}

static void add(as_job *j, uint32_t index, unsigned severity, as_pos at, uint32_t span,
                const char *text) {
  as_diag d = {.severity = (uint8_t)severity, .text = text, .span = 1};
  locate(j, &d, at, span);
  /* index: at the end, or before a backtrace. */
  reserve(j);
  /* Notes are put before the backtrace of what they belong to. */
  as_diag *to = j->out->diags + index;
  memmove(to + 1, to, (j->out->ndiags - index) * sizeof *to);
  *to = d;
  j->out->ndiags++;
}

static char *note_text(as_job *j, const char *fmt, ...) ISA_PRINTF(2, 3);
static char *note_text(as_job *j, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *s = format(j, fmt, ap);
  va_end(ap);
  return s;
}

/* The innermost calls, then the outermost; how many are left out is said between them.
 * At most eight: the seven innermost and the outermost. */
static void backtrace(as_job *j, as_pos at) {
  uint32_t depth = 0, i = 0;
  for (const as_expansion *e = at.expansion; e; e = e->call.expansion) depth++;
  for (const as_expansion *e = at.expansion; e; e = e->call.expansion, i++) {
    if (depth > MAX_TRACE && i >= MAX_TRACE - 1 && i + 1 < depth) {
      /* Said once, in the middle. */
      if (i == MAX_TRACE - 1)
        add(j, j->out->ndiags, AS_NOTE, (as_pos){0}, 1,
            note_text(j, "%u more expansions are not shown", depth - MAX_TRACE));
      continue;
    }
    as_pos call = e->call;
    add(j, j->out->ndiags, AS_NOTE, call, e->round ? 4 : (uint32_t)strlen(e->macro),
        e->round ? note_text(j, "in round %u of this %%rep", e->round)
                 : note_text(j, "in the expansion of macro `%s`", e->macro));
  }
}

/* The message, then its trace; notes go between the two. */
static void report(as_job *j, unsigned severity, as_pos at, uint32_t span, char *text) {
  j->warn_state->last_shown = true;
  add(j, j->out->ndiags, severity, at, span, text);
  j->warn_state->trace = j->out->ndiags;
  backtrace(j, at);
}

/* ---- Errors ------------------------------------------------------------------------------- */

/* Both counts: the job's decides, the result's is told. */
static void count_error(as_job *j) {
  j->status = ISA_SYNTAX;
  j->errors++;
  j->out->nerrors++;
}

/* Called before an error is added, so that the notes of the last one are complete.
 * Twenty errors by default: the others are most often their consequences. */
static void stop_when_full(as_job *j) {
  uint32_t most = j->o && j->o->max_errors ? j->o->max_errors : DEFAULT_MAX_ERRORS;
  if (j->errors < most) return;
  add(j, j->out->ndiags, AS_NOTE, (as_pos){0}, 1,
      note_text(j, "stopped after %u error%s", most, most == 1 ? "" : "s"));
  longjmp(j->bail, 1);
}

/* Calls count: the same line of a macro in two calls are two places. */
static bool same_place(as_pos a, as_pos b) {
  for (;; a = a.expansion->call, b = b.expansion->call) {
    if (a.file != b.file || a.line != b.line || a.col != b.col) return false;
    /* All calls must be the same. */
    if (!a.expansion || !b.expansion) return a.expansion == b.expansion;
  }
}

/* An error that an earlier round of a loop has reported: it counts once. */
static bool reported_before(as_job *j, as_pos at, const char *text) {
  struct as_warn_state *w = j->warn_state;
  for (uint32_t i = 0; i < w->nreported; i++)
    if (same_place(w->reported[i].at, at) && strcmp(w->reported[i].text, text) == 0) {
      w->last_shown = false;
      if (++w->repeats < MAX_REPEATS) return true;
      /* A loop that repeats one error without end. */
      add(j, j->out->ndiags, AS_NOTE, (as_pos){0}, 1,
          note_text(j, "stopped after %u more errors of the same kind and place", w->repeats));
      longjmp(j->bail, 1);
    }
  /* Past the limit errors are reported again, which only costs length. */
  if (w->nreported == MAX_REPORTED) return false;
  w->reported[w->nreported].at = at;
  w->reported[w->nreported++].text = text;
  return false;
}

bool as_error(as_job *j, as_pos at, uint32_t span, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  /* read_names asks so: the line is only looked at for its names. */
  if (j->quiet) {
    va_end(ap);
    /* It still counts, for who has asked for quiet. */
    j->errors++;
    j->warn_state->last_shown = false;
    return false;
  }
  char *text = format(j, fmt, ap);
  va_end(ap);
  if (reported_before(j, at, text)) return false;
  stop_when_full(j);
  count_error(j);
  report(j, AS_ERROR, at, span, text);
  return false;
}

bool as_expected(as_job *j, const as_tok *t, const char *what, ...) {
  va_list ap;
  va_start(ap, what);
  const char *wanted = format(j, what, ap);
  va_end(ap);
  return as_error(j, t->pos, t->len, "expected %s, not %s", wanted, as_tok_show(j, t));
}

void as_warning(as_job *j, const char *name, as_pos at, uint32_t span, const char *fmt, ...) {
  int cls = find_class(name);
  bool error = j->o && j->o->warnings_are_errors;
  j->warn_state->last_shown = false;
  if (j->hush || j->quiet) return;
  if (cls >= 0 && !j->warn_state->on[cls]) return;
  /* With warnings as errors their number is limited as that of errors. */
  if (error) stop_when_full(j);
  if (!error) {
    j->warnings++;
    j->out->nwarnings++;
    if (j->warnings > MAX_WARNINGS) return;
  }
  va_list ap;
  va_start(ap, fmt);
  char *text = format(j, fmt, ap);
  va_end(ap);
  if (error) count_error(j);
  uint32_t index = j->out->ndiags;
  report(j, error ? AS_ERROR : AS_WARNING, at, span, text);
  /* The class that switches it on or off. */
  j->out->diags[index].name = cls >= 0 ? classes[cls].name : NULL;
}

/* A note without its message would hang in the air. */
void as_note(as_job *j, as_pos at, const char *fmt, ...) {
  if (!j->warn_state->last_shown) return;
  va_list ap;
  va_start(ap, fmt);
  char *text = format(j, fmt, ap);
  va_end(ap);
  add(j, j->warn_state->trace, AS_NOTE, at, 1, text);
  j->warn_state->trace++;
}

/* A remark is a note that stands alone, as %note makes. */
void as_remark(as_job *j, as_pos at, uint32_t span, const char *fmt, ...) {
  if (j->quiet) return;
  va_list ap;
  va_start(ap, fmt);
  char *text = format(j, fmt, ap);
  va_end(ap);
  report(j, AS_NOTE, at, span, text);
}

/* Always the last message: the job ends here. */
void as_fatal(as_job *j, as_pos at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *text = format(j, fmt, ap);
  va_end(ap);
  count_error(j);
  report(j, AS_FATAL, at, 1, text);
  longjmp(j->bail, 1);
}

/* No message: there may be no memory for one. */
void as_nomem(as_job *j) {
  j->status = ISA_NOMEM;
  longjmp(j->bail, 1);
}

/* ---- Options ------------------------------------------------------------------------------ */

/* -w+all, -w-all */
static bool set_class(struct as_warn_state *w, const char *name, bool on) {
  bool all = strcmp(name, "all") == 0;
  for (int i = 0; i < NCLASSES; i++)
    if (all || strcmp(classes[i].name, name) == 0) w->on[i] = on;
  return all || find_class(name) >= 0;
}

/* The options in order: the last one that names a class wins. */
void as_diag_open(as_job *j) {
  struct as_warn_state *w = isa_arena_alloc(&j->arena, sizeof *w);
  if (!w) as_nomem(j);
  j->warn_state = w;
  for (int i = 0; i < NCLASSES; i++) w->on[i] = classes[i].on;
  for (uint32_t i = 0; j->o && i < j->o->nwarnings; i++) {
    const char *opt = j->o->warnings[i];
    bool sign = opt[0] == '+' || opt[0] == '-';
    if (set_class(w, opt + sign, opt[0] != '-')) continue;
    const char *near = near_class(opt + sign);
    as_error(j, (as_pos){0}, 1, "no warning is called `%.60s`%s%s%s", opt + sign,
             near ? "; did you mean `" : "", near ? near : "", near ? "`?" : "");
  }
}

/* ---- Text --------------------------------------------------------------------------------- */

static const struct {
  const char *name, *color;
} severities[] = {{"note", "\033[1;36m"},
                  {"warning", "\033[1;35m"},
                  {"error", "\033[1;31m"},
                  {"fatal error", "\033[1;31m"}};

/* Bytes after the first of a UTF-8 character. */
static bool continuation(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* A line of a source, fit for a terminal. */
static void print_source(const char *s, isa_buf *out) {
  isa_buf_puts(out, "  ");
  for (; *s; s++) {
    bool control = (unsigned char)*s < 0x20 || *s == 0x7f;
    /* A control character would do something to the terminal. */
    isa_buf_add(out, control && *s != '\t' ? "?" : s, 1);
  }
  isa_buf_puts(out, "\n  ");
}

/* The caret stands under column col: a tab stays a tab, a UTF-8 character is one column. */
static void print_caret(const as_diag *d, bool color, isa_buf *out) {
  size_t n = strlen(d->source), at = d->col - 1;
  for (size_t i = 0; i < at && i < n; i++)
    /* A tab stays one, so that the caret stands under its character. */
    if (!continuation(d->source[i])) isa_buf_puts(out, d->source[i] == '\t' ? "\t" : " ");
  if (color) isa_buf_puts(out, "\033[1;32m");
  isa_buf_puts(out, "^");
  for (size_t i = at + 1; i < n && i - at < d->span; i++)
    if (!continuation(d->source[i])) isa_buf_puts(out, "~");
  if (color) isa_buf_puts(out, "\033[0m");
  isa_buf_puts(out, "\n");
}

/* FILE:LINE:COLUMN: severity: text [class], as compilers write it. */
void as_diag_print(const as_diag *d, bool color, isa_buf *out) {
  unsigned s = d->severity <= AS_FATAL ? d->severity : AS_ERROR;
  if (color) isa_buf_puts(out, "\033[1m");
  if (d->file[0]) {
    isa_buf_printf(out, "%s:", d->file);
    if (d->line) isa_buf_printf(out, "%u:", d->line);
    if (d->col) isa_buf_printf(out, "%u:", d->col);
    isa_buf_puts(out, " ");
  }
  isa_buf_printf(out, "%s%s:%s %s", color ? severities[s].color : "", severities[s].name,
                 color ? "\033[0m" : "", d->text);
  if (d->name) isa_buf_printf(out, " [-w+%s]", d->name);
  isa_buf_puts(out, "\n");
  if (!d->source || d->col == 0) return;
  print_source(d->source, out);
  print_caret(d, color, out);
}
