/* Files and arguments of the commands. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a file: no program comes near it, and a device never ends. */
#define MOST ((size_t)1 << 28)

bool as_cli_read(const char *path, isa_buf *out, isa_error *e) {
  bool std = strcmp(path, "-") == 0;
  FILE *f = std ? stdin : fopen(path, "rb");
  if (!f) return isa_fail(e, ISA_IO, ISA_NOFIELD, "cannot read %.300s: %s", path, strerror(errno));
  /* Read in pieces, since a pipe has no size to ask for. */
  char chunk[16384];
  size_t n;
  /* fread need not set errno at the end of a file; only an error does. */
  errno = 0;
  while (out->len <= MOST && !out->failed && (n = fread(chunk, 1, sizeof chunk, f)) > 0)
    isa_buf_add(out, chunk, n);
  bool bad = ferror(f) != 0;
  int why = errno;
  /* Standard input is not this function's to close. */
  if (!std) fclose(f);
  if (bad) return isa_fail(e, ISA_IO, ISA_NOFIELD, "cannot read %.300s: %s", path, strerror(why));
  /* One chunk beyond the limit has been read at most. */
  if (out->len > MOST)
    return isa_fail(e, ISA_LIMIT, ISA_NOFIELD, "%.300s is larger than %zu MiB, the limit", path,
                    MOST >> 20);
  return out->failed ? isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "out of memory") : true;
}

static bool is_std(const as_cli_file *f) { return strcmp(f->path, "-") == 0; }

/* True when path names something that a rename would replace by a file of another kind.
 * /dev/null and pipes are given as outputs on purpose; a regular file may not be there
 * yet. */
static bool special(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* By device and inode, so that a link or another spelling of the path is seen too. */
bool as_cli_same(const char *a, const char *b) {
  /* Standard input and output are never taken for one file. */
  struct stat x, y;
  if (strcmp(a, "-") == 0 || strcmp(b, "-") == 0) return false;
  bool has_x = stat(a, &x) == 0, has_y = stat(b, &y) == 0;
  /* Files that do not exist yet are one if their names are. */
  if (!has_x || !has_y) return !has_x && !has_y && strcmp(a, b) == 0;
  /* Two names of one terminal or of /dev/null do no harm. */
  return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* write may take less than it is given, as into a full pipe. */
static bool write_all(int fd, const char *p, size_t n) {
  while (n > 0) {
    ssize_t k = write(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

/* The name as the user gave it, never that of the temporary file. */
static bool cannot_write(const as_cli_file *f, int why, isa_error *e) {
  return isa_fail(e, ISA_IO, ISA_NOFIELD, "cannot write %.300s: %s",
                  is_std(f) ? "standard output" : f->path, strerror(why));
}

static bool write_fd(const as_cli_file *f, int fd, isa_error *e) {
  bool ok = write_all(fd, f->data, f->n);
  /* Kept before close can change it. */
  int why = errno;
  /* Standard output stays open: messages may go there.
   * Some file systems report a full disk only when the file is closed. */
  if (fd > 2 && close(fd) != 0 && ok) {
    ok = false;
    why = errno;
  }
  return ok || cannot_write(f, why, e);
}

bool as_cli_flush(isa_error *e) {
  const as_cli_file out = {.path = "-"};
  /* A write that failed earlier is remembered by the stream. */
  if (fflush(stdout) == 0 && !ferror(stdout)) return true;
  return cannot_write(&out, errno, e); /* of the write that failed first, or of the flush */
}

/* New files that do not have their name yet: a signal that ends the process removes them.
 * An assembler run has three outputs at most: dependencies, listing, program. */
enum { UNNAMED = 4 };
static const char *volatile unnamed[UNNAMED];

static void on_signal(int sig) {
  /* Only calls that a signal handler may make: unlink, signal, raise. */
  for (int i = 0; i < UNNAMED; i++)
    if (unnamed[i]) unlink(unnamed[i]);
  /* The default action now, so that the exit status tells of the signal. */
  signal(sig, SIG_DFL);
  raise(sig);
}

static void catch_signals(void) {
  /* What a user's shell or a closed pipe sends; not those that tell of a fault in the
   * program itself. */
  static const int sigs[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  for (size_t i = 0; i < sizeof sigs / sizeof *sigs; i++)
    if (signal(sigs[i], on_signal) == SIG_IGN) signal(sigs[i], SIG_IGN); /* as nohup wants it */
  signal(SIGXFSZ, SIG_IGN); /* too large a file is an error of write */
}

static bool write_temp(as_cli_file *f, unsigned slot, isa_error *e) {
  /* Room for the process's number, the try and the ending. */
  size_t n = strlen(f->path) + 48;
  f->temp = malloc(n);
  if (!f->temp) return isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "out of memory");
  int fd = -1;
  /* A process of the same number may have left one behind. */
  for (unsigned i = 0; i < 100 && fd < 0 && (i == 0 || errno == EEXIST); i++) {
    snprintf(f->temp, n, "%s.%ld.%u.tmp", f->path, (long)getpid(), i);
    /* O_EXCL: a file of another process is never taken over. In the same folder, or the
     * rename could cross file systems. */
    fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL, 0666);
  }
  /* From here on a signal removes it. */
  if (fd >= 0) unnamed[slot] = f->temp;
  if (fd < 0) {
    int why = errno;
    unnamed[slot] = NULL;
    free(f->temp);
    f->temp = NULL;
    return cannot_write(f, why, e);
  }
  return write_fd(f, fd, e);
}

static bool write_direct(as_cli_file *f, isa_error *e) {
  /* Without O_CREAT: it is there, or it would have had a temporary name. */
  int fd = is_std(f) ? 1 : open(f->path, O_WRONLY);
  return fd < 0 ? cannot_write(f, errno, e) : write_fd(f, fd, e);
}

bool as_cli_write(as_cli_file *files, unsigned n, isa_error *e) {
  /* The temporary names have slots for signals, one for each file. */
  bool ok = n <= UNNAMED || isa_fail(e, ISA_ARG, ISA_NOFIELD, "more than %d files", UNNAMED);
  for (unsigned i = 0; i < n; i++) files[i].temp = NULL;
  catch_signals();
  /* All is written before anything gets its name: an error leaves every old file as it was. */
  for (unsigned i = 0; ok && i < n; i++)
    if (!is_std(&files[i]) && !special(files[i].path)) ok = write_temp(&files[i], i, e);
  /* What cannot be undone comes after all that can fail before it. */
  for (unsigned i = 0; ok && i < n; i++)
    if (!files[i].temp) ok = write_direct(&files[i], e);
  for (unsigned i = 0; i < n; i++) {
    as_cli_file *f = &files[i];
    if (!f->temp) continue;
    /* A rename that fails leaves the earlier files renamed; no way is known to take
     * that back. */
    if (ok && rename(f->temp, f->path) != 0) ok = cannot_write(f, errno, e);
    if (!ok) unlink(f->temp);
    unnamed[i] = NULL;
    free(f->temp);
    f->temp = NULL;
  }
  return ok;
}

bool as_cli_is_object(const char *path) {
  char head[4];
  /* A file that cannot be read is no object; who opens it next reports why. */
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(head, 1, sizeof head, f) : 0;
  if (f) fclose(f);
  return as_is_object(head, n);
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool as_cli_split(isa_arena *a, const char *text, size_t n, const char ***argv, uint32_t *argc,
                  uint32_t *cap) {
  for (size_t i = 0; i < n;) {
    if (blank(text[i])) {
      i++;
      continue;
    }
    /* Without quotes it is the rest at most.
     * A quote may begin in the middle of a word, as in -DNAME="a b". */
    char *word = isa_arena_alloc(a, n - i + 1), quote = 0;
    size_t len = 0;
    if (!word) return false;
    for (; i < n && (quote || !blank(text[i])); i++) {
      if (quote ? text[i] == quote : text[i] == '"' || text[i] == '\'')
        quote = quote ? 0 : text[i];
      else
        word[len++] = text[i];
    }
    /* The word is terminated: the arena gives cleared memory. */
    if (!isa_array_grow(&a->al, argv, *argc, cap, sizeof **argv)) return false;
    (*argv)[(*argc)++] = word;
  }
  return true;
}

void as_cli_make_name(const char *name, const char *special, isa_buf *out) {
  /* Backslashes first: before a special letter make reads two as one. */
  while (*name) {
    size_t n = strspn(name, "\\");
    bool quoted = name[n] && strchr(special, name[n]);
    isa_buf_add(out, name, n);
    if (quoted) isa_buf_add(out, name, n);
    name += n;
    if (!*name) return;
    if (quoted) isa_buf_puts(out, "\\");
    /* A dollar sign is doubled, not escaped by a backslash. */
    if (*name == '$') isa_buf_puts(out, "$");
    isa_buf_add(out, name++, 1);
  }
}

/* What the preprocessor takes as a macro's name, so that -D can refuse the rest early. */
bool as_cli_name(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isalpha((unsigned char)s[i]) && !strchr("_.?@$", s[i]) &&
        (i == 0 || !isdigit((unsigned char)s[i])))
      return false;
  return n > 0;
}

void as_cli_near(const char *want, const char *const *names, unsigned n, char *out) {
  /* At most two letters may differ, as with other suggestions. */
  unsigned best = 3;
  size_t len = strlen(want);
  const char *hit = NULL;
  for (unsigned i = 0; i < n; i++) {
    unsigned d = isa_edit_distance(want, len, names[i], strlen(names[i]), best);
    /* To a short word everything is near. */
    if (d >= best || d + 1 >= len) continue;
    best = d;
    hit = names[i];
  }
  out[0] = 0;
  if (hit) snprintf(out, 80, "; did you mean `%.50s`?", hit);
}

const char *as_cli_refused(const char *arg) {
  static const struct {
    /* The options are NASM's; with the way to the same end here, where there is one. */
    const char *option, *instead; /* of one letter: with its value as well */
  } refused[] = {{"-a", "every source is preprocessed"},
                 {"-F", "write -g for the line table"},
                 {"-L", "write -l FILE"},
                 {"-MF", "write -MD FILE"},
                 {"-MP", "write the empty rules into the makefile"},
                 {"-MQ", "write -o with the name, which the rule has"},
                 {"-MT", "write -o with the name, which the rule has"},
                 {"-O", "instructions stay as they are written"},
                 {"-X", "write --error-format=text or json"},
                 {"-Z", "write 2>FILE, or -s"},
                 {"-k", "a failed run writes no file"},
                 {"-n", "write the source without its %line"},
                 {"-y", "write -g for the line table"},
                 {"--before", "write the lines into a file, and -p FILE"},
                 {"--bits", "a target is named by -t"},
                 {"--debug", "write --lint, or soma --check"},
                 {"--gpostfix", "names stay as they are written"},
                 {"--gprefix", "names stay as they are written"},
                 {"--include", "write -p FILE"},
                 {"--keep-all", "a failed run writes no file"},
                 {"--limit-", "the limits are fixed"},
                 {"--lpostfix", "names stay as they are written"},
                 {"--lprefix", "names stay as they are written"},
                 {"--no-line", "write the source without its %line"},
                 {"--postfix", "names stay as they are written"},
                 {"--pragma", "pragmas mean nothing here"},
                 {"--prefix", "names stay as they are written"},
                 {"--reproducible", "equal sources always give equal files"},
                 {"--suffix", "names stay as they are written"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const char *o = refused[i].option;
    size_t n = strlen(o);
    /* One letter may be followed by its value; a long option stands alone or before =,
     * or ends in - and goes on. */
    bool whole = arg[n] == 0 || arg[n] == '=' || o[1] != '-' || o[n - 1] == '-';
    if (strncmp(arg, o, n) == 0 && whole) return refused[i].instead;
  }
  return NULL;
}

void as_cli_drop_lines(isa_program *p) {
  isa_alloc al = p->arena.al;
  /* Calls tell from which macro or repetition a line came; without lines they mean
   * nothing. */
  p->ncalls = 0;
  for (unsigned core = 0; core < p->ncores; core++)
    for (unsigned e = 0; e < ISA_NSEQS; e++) {
      isa_code *code = &p->cores[core].code[e];
      /* Allocated apart from the arena, because lines are taken out as a whole. */
      isa_free(&al, code->lines, code->cap_lines * sizeof *code->lines);
      code->lines = NULL;
      code->cap_lines = 0;
    }
  p->nfiles = 0;
}

const char *as_cli_targets(char text[static 64]) {
  size_t n = 0;
  for (int i = 0; i < ISA_NTARGETS && n < 64; i++) {
    /* The last one comes after "or". */
    const char *between = i + 1 == ISA_NTARGETS ? " or " : ", ";
    n += (size_t)snprintf(text + n, 64 - n, "%s%.15s", i ? between : "", isa_targets[i].name);
  }
  return text;
}
