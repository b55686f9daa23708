/* soma-as: assembles a source file, or links objects. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: soma-as [options] in.s        (- is standard input or output)\n"
    "       soma-as [-o FILE] a.o b.s ... (links objects, and sources as -r makes them)\n"
    "  -o FILE         output; default: in.sbc, or standard output for - and -E\n"
    "  -f sbc|lst|json format of the output: program file, listing, or JSON\n"
    "  -l FILE         also write a listing\n"
    "  -t TARGET       default target: @\n"
    "  -g              keep the line table\n"
    "  -r              make an object (in.o), with extern names for the linker\n"
    "  -I DIR          search DIR for included files; may be repeated; also -i\n"
    "  -D NAME[=VALUE] define a macro; also -d\n"
    "  -U NAME         undefine one; also -u\n"
    "  -p FILE         include FILE before the source; also -P\n"
    "  -E              preprocess only; also -e\n"
    "  -s              messages go to standard output\n"
    "  -M              print the make rule of the files read, and nothing else\n"
    "  -MG             the same; files that do not exist yet are taken as empty\n"
    "  -MD FILE        also write that rule\n"
    "  -w+NAME -w-NAME switch a class of warnings on or off; -Werror makes them errors\n"
    "  --lint          check the program as a whole; an output only with -o\n"
    "  --spill         keep tiles that do not fit in SBUF in HBM for a while; list them\n"
    "  -@ FILE         more arguments from FILE\n"
    "  --error-format=text|json  how messages are printed\n"
    "  --explain NAME  print the reference of an instruction, or explain another name\n"
    "  --manual        print the reference of all instructions, as in isa/manual.md\n"
    "  --words         every word of the language with its class\n"
    "  -h, --help      print this; -v, --version the version\n";

typedef struct cli {
  isa_arena arena;
  const char **argv; /* after argument files are read in */
  uint32_t argc, cap, at;
  const char **inputs;
  uint32_t ninputs, cap_inputs;
  const char *in, *out, *list, *deps, *format; /* in: the first input */
  bool preprocess, only_deps, lines, json_errors, done, is_object, lint, to_stdout;
  uint32_t lint_warnings; /* of o.warnings, those that were given */
  as_options o;
  const char **include_dirs, **warnings;
  as_define *defines;
  uint32_t cap_dirs, cap_warnings, cap_defines;
} cli;

static bool usage(const char *fmt, const char *a, const char *b) {
  fprintf(stderr, "soma-as: ");
  fprintf(stderr, fmt, a, b);
  fprintf(stderr, "\ntry soma-as --help\n");
  return false;
}

static bool no_memory(void) {
  fprintf(stderr, "soma-as: out of memory\n");
  return false;
}

/* The value of an option: after its letters, or the next argument. */
static const char *value(cli *c, const char *arg, size_t letters) {
  if (arg[letters]) return arg + letters;
  if (c->at < c->argc) return c->argv[c->at++];
  usage("%s needs a value%s", arg, "");
  return NULL;
}

static bool add_string(cli *c, const char ***list, uint32_t *n, uint32_t *cap, const char *s) {
  if (!isa_array_grow(&c->arena.al, list, *n, cap, sizeof **list)) return no_memory();
  (*list)[(*n)++] = s;
  return true;
}

static bool grow_defines(cli *c) {
  return isa_array_grow(&c->arena.al, &c->defines, c->o.ndefines, &c->cap_defines,
                        sizeof *c->defines) ||
         no_memory();
}

static bool add_include(cli *c, const char *path) {
  if (!grow_defines(c)) return false;
  c->defines[c->o.ndefines++] = (as_define){.name = path, .include = true};
  return true;
}

static bool add_define(cli *c, const char *text, bool undefine) {
  if (!grow_defines(c)) return false;
  size_t n = strcspn(text, "=");
  char *name = isa_arena_strn(&c->arena, text, n);
  if (!name) return no_memory();
  if (!as_cli_name(text, n) || (undefine && text[n]))
    return usage("-%s: `%s` is not a name", undefine ? "U" : "D", undefine || !n ? text : name);
  c->defines[c->o.ndefines++] =
      (as_define){.name = name, .value = text[n] ? text + n + 1 : NULL, .undefine = undefine};
  return true;
}

/* Reads an argument file into the place of the argument. */
static bool splice(cli *c, const char *path) {
  isa_buf text;
  isa_error e;
  isa_buf_init(&text, &c->arena.al);
  bool ok = as_cli_read(path, &text, &e);
  if (!ok) fprintf(stderr, "soma-as: %s\n", e.text);
  /* The arguments that are still to come; those before `at` are done. */
  const char **rest = c->argv;
  uint32_t n = c->argc, cap = c->cap, at = c->at;
  c->argv = NULL;
  c->argc = c->cap = c->at = 0;
  if (ok) ok = as_cli_split(&c->arena, isa_buf_str(&text), text.len, &c->argv, &c->argc, &c->cap);
  for (; ok && at < n; at++) ok = add_string(c, &c->argv, &c->argc, &c->cap, rest[at]);
  isa_free(&c->arena.al, rest, cap * sizeof *rest);
  isa_buf_free(&text);
  return ok;
}

static bool set_format(cli *c, const char *f) {
  if (strcmp(f, "sbc") != 0 && strcmp(f, "lst") != 0 && strcmp(f, "json") != 0)
    return usage("unknown format `%s`: sbc, lst or json%s", f, "");
  c->format = f;
  return true;
}

static bool set_target(cli *c, const char *t) {
  isa_error e;
  isa_target read;
  if (!isa_target_read(t, strlen(t), &read, &e)) return usage("%s%s", e.text, "");
  c->o.target = t;
  return true;
}

static bool explain(cli *c, const char *name) {
  isa_buf b;
  isa_buf_init(&b, &c->arena.al);
  c->done = as_explain(name, &b);
  if (c->done)
    fputs(isa_buf_str(&b), stdout);
  else
    fprintf(stderr, "soma-as: %s\n", isa_buf_str(&b));
  isa_buf_free(&b);
  return c->done;
}

static bool manual(cli *c) {
  isa_buf b;
  isa_buf_init(&b, &c->arena.al);
  as_manual(&b);
  fputs(isa_buf_str(&b), stdout);
  isa_buf_free(&b);
  return c->done = true;
}

static bool words(cli *c) {
  isa_buf b;
  isa_buf_init(&b, &c->arena.al);
  as_words(&b);
  fputs(isa_buf_str(&b), stdout);
  isa_buf_free(&b);
  return c->done = true;
}

static bool help(cli *c) {
  const char *at = strchr(usage_text, '@');
  char known[64];
  printf("%.*s%s%s", (int)(at - usage_text), usage_text, as_cli_targets(known), at + 1);
  return c->done = true;
}

static bool version(cli *c) {
  puts("soma-as " SOMA_VERSION);
  return c->done = true;
}

static bool long_option(cli *c, const char *arg) {
  static const char *const names[] = {"--help",
                                      "--version",
                                      "--error-format=text",
                                      "--error-format=json",
                                      "--explain",
                                      "--manual",
                                      "--words",
                                      "--lint",
                                      "--spill"};
  if (strcmp(arg, "--lint") == 0) return c->lint = true;
  if (strcmp(arg, "--spill") == 0) return c->o.spill = true;
  if (strcmp(arg, "--words") == 0) return words(c);
  if (strcmp(arg, "--manual") == 0) return manual(c);
  if (strncmp(arg, "--explain=", 10) == 0) return explain(c, arg + 10);
  if (strcmp(arg, "--explain") == 0) {
    const char *name = value(c, arg, 9);
    return name && explain(c, name);
  }
  char near[80];
  if (strcmp(arg, "--help") == 0) return help(c);
  if (strcmp(arg, "--version") == 0) return version(c);
  if (strcmp(arg, names[2]) == 0 || strcmp(arg, names[3]) == 0) {
    c->json_errors = strcmp(arg, names[3]) == 0;
    return true;
  }
  if (strncmp(arg, "--error-format", 14) == 0 && (arg[14] == '=' || !arg[14]))
    return usage("%s: write --error-format=text or --error-format=json%s", arg, "");
  const char *instead = as_cli_refused(arg);
  if (instead) return usage("%s is not built: %s", arg, instead);
  as_cli_near(arg, names, sizeof names / sizeof *names, near);
  return usage("unknown option `%s`%s", arg, near);
}

static bool unknown_option(const char *arg) {
  static const char *const names[] = {"-o", "-f", "-l",     "-t",       "-g",  "-I",
                                      "-D", "-U", "-E",     "-M",       "-MD", "-Werror",
                                      "-@", "-r", "--help", "--version"};
  char near[80];
  const char *instead = as_cli_refused(arg);
  if (instead) return usage("%s is not built: %s", arg, instead);
  if (strncmp(arg, "-W", 2) == 0)
    return usage(
        "unknown option `%s`; warnings are turned on and off by -w+NAME, -w-NAME, -w+all, and "
        "-Werror makes them errors%s",
        arg, "");
  as_cli_near(arg, names, sizeof names / sizeof *names, near);
  return usage("unknown option `%s`%s", arg, near);
}

static bool with_value(cli *c, const char *arg) {
  const char *v = value(c, arg, 2);
  if (!v) return false;
  switch (arg[1]) {
  case 'o': c->out = v; return true;
  case 'l': c->list = v; return true;
  case 'f': return set_format(c, v);
  case 't': return set_target(c, v);
  case 'I':
  case 'i': return add_string(c, &c->include_dirs, &c->o.ninclude_dirs, &c->cap_dirs, v);
  case 'P':
  case 'p': return add_include(c, v);
  case 'D':
  case 'd': return add_define(c, v, false);
  case 'U':
  case 'u': return add_define(c, v, true);
  default: return splice(c, v);
  }
}

static bool option(cli *c, const char *arg) {
  if (strcmp(arg, "-E") == 0 || strcmp(arg, "-e") == 0) return c->preprocess = true;
  if (strcmp(arg, "-h") == 0) return help(c);
  if (strcmp(arg, "-v") == 0) return version(c);
  if (strcmp(arg, "-s") == 0) return c->to_stdout = true;
  if (strcmp(arg, "-M") == 0) return c->only_deps = true;
  if (strcmp(arg, "-MG") == 0) return c->only_deps = c->o.missing_files = true;
  if (strcmp(arg, "-MD") == 0) return (c->deps = value(c, arg, 3)) != NULL;
  if (strcmp(arg, "-g") == 0) return c->lines = true;
  if (strcmp(arg, "-r") == 0) return c->o.relocatable = true;
  if (strcmp(arg, "-Werror") == 0) return c->o.warnings_are_errors = true;
  if (strncmp(arg, "-w", 2) == 0 && (arg[2] == '+' || arg[2] == '-') && arg[3])
    return add_string(c, &c->warnings, &c->o.nwarnings, &c->cap_warnings, arg + 2);
  if (strncmp(arg, "--", 2) == 0) return long_option(c, arg);
  if (arg[1] && strchr("oftlIiDdUuPp@", arg[1])) return with_value(c, arg);
  return unknown_option(arg);
}

/* The assembler's own warnings that the checks of a whole program make better. */
static bool leave_to_lint(cli *c) {
  static const char *const names[] = {"-never-signalled", "-never-waited", "-unreachable-code",
                                      "-unwritten-tile",  "-unused-tile",  "-unread-tile"};
  c->lint_warnings = c->o.nwarnings;
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (!add_string(c, &c->warnings, &c->o.nwarnings, &c->cap_warnings, names[i])) return false;
  return true;
}

static const char *environment(const char *name) { return getenv(name); }

static bool parse_args(cli *c) {
  unsigned steps = 0;
  while (c->at < c->argc && !c->done) {
    const char *arg = c->argv[c->at++];
    /* A file that names itself would go on for ever. */
    if (++steps > 100000) return usage("the argument files include one another%s%s", "", "");
    if (arg[0] == '-' && arg[1]) {
      if (!option(c, arg)) return false;
    } else if (!add_string(c, &c->inputs, &c->ninputs, &c->cap_inputs, arg)) {
      return false;
    }
  }
  if (c->done) return true;
  c->in = c->ninputs ? c->inputs[0] : NULL;
  if (!c->in) return usage("no source file%s%s", "", "");
  if (c->preprocess && c->format) return usage("-E and -f %s do not go together%s", c->format, "");
  if (c->lint && (c->preprocess || c->only_deps || c->o.relocatable))
    return usage("--lint is for programs: not with -E, -M or -r%s%s", "", "");
  if (c->lint && !leave_to_lint(c)) return false;
  if (c->o.spill && (c->preprocess || c->only_deps || c->o.relocatable || c->ninputs > 1 ||
                     c->list || (c->format && strcmp(c->format, "lst") == 0)))
    return usage("--spill is for one source: not with -E, -M, -r, -l or -f lst%s%s", "", "");
  c->o.env = environment;
  c->o.include_dirs = c->include_dirs;
  c->o.warnings = c->warnings;
  c->o.defines = c->defines;
  c->o.only_preprocess = c->preprocess || c->only_deps; /* which reads the files of data as well */
  c->o.want_listing = c->list || (c->format && strcmp(c->format, "lst") == 0);
  return true;
}

/* in.s -> in.sbc beside it. */
static const char *default_out(cli *c) {
  if (strcmp(c->in, "-") == 0 || c->preprocess) return "-";
  bool many = c->ninputs > 1;
  const char *ext = c->format          ? c->format
                    : c->o.relocatable ? "o"
                                       : "sbc",
             *slash = strrchr(c->in, '/');
  const char *dot = strrchr(slash ? slash : c->in, '.');
  size_t n = dot && dot != (slash ? slash + 1 : c->in) ? (size_t)(dot - c->in) : strlen(c->in);
  char *s = isa_arena_alloc(&c->arena, n + strlen(ext) + 2);
  if (!s) return NULL;
  memcpy(s, c->in, n);
  s[n] = '.';
  memcpy(s + n + 1, ext, strlen(ext) + 1);
  if (many) snprintf(s, n + strlen(ext) + 2, "a.%s", ext);
  /* An input called in.sbc must not be written over. */
  return !many && strcmp(s, c->in) == 0 ? "a.sbc" : s;
}

static void put_rule(const cli *c, const as_result *r, isa_buf *out) {
  as_cli_make_name(c->out, " #:%", out);
  isa_buf_puts(out, ":");
  for (uint32_t i = 0; i < r->ndeps; i++) {
    isa_buf_puts(out, " ");
    as_cli_make_name(r->deps[i], " #:*?[", out);
  }
  isa_buf_puts(out, "\n");
}

static void print_diags(const cli *c, const as_result *r) {
  isa_buf b;
  isa_buf_init(&b, &c->arena.al);
  const char *no_color = getenv("NO_COLOR");
  bool color = isatty(c->to_stdout ? 1 : 2) && !(no_color && *no_color);
  for (uint32_t i = 0; i < r->ndiags; i++) {
    if (c->json_errors) {
      as_json_diag(&r->diags[i], &b);
      isa_buf_puts(&b, "\n");
    } else {
      as_diag_print(&r->diags[i], color, &b);
    }
  }
  if (!b.failed) fwrite(isa_buf_str(&b), 1, b.len, c->to_stdout ? stdout : stderr);
  isa_buf_free(&b);
}

/* Fills the main output. */
static bool make_output(const cli *c, as_result *r, isa_buf *out) {
  if (c->preprocess) {
    isa_buf_add(out, r->preprocessed.data, r->preprocessed.len);
  } else if (c->format && strcmp(c->format, "lst") == 0) {
    isa_buf_add(out, r->listing.data, r->listing.len);
  } else if (c->o.relocatable && !c->format) {
    isa_buf_add(out, r->object.data, r->object.len);
  } else {
    if (!c->lines) as_cli_drop_lines(r->program);
    if (c->format && strcmp(c->format, "json") == 0)
      as_json_program(r->program, out);
    else if (!isa_image_write(r->program, out))
      return false;
  }
  return !out->failed;
}

static void add_file(as_cli_file *files, unsigned *n, const char *path, isa_buf *data) {
  files[*n] = (as_cli_file){.path = path, .data = isa_buf_str(data), .n = data->len};
  ++*n;
}

/* What is read must not be written over, nor two outputs go to one file. */
static bool check_outputs(const cli *c, const as_result *r, const as_cli_file *files, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    bool read = false;
    for (uint32_t k = 0; k < c->ninputs; k++) read |= as_cli_same(files[i].path, c->inputs[k]);
    for (uint32_t k = 0; k < r->ndeps; k++) read |= as_cli_same(files[i].path, r->deps[k]);
    if (read) return usage("the output %s is a file that is read%s", files[i].path, "");
    for (unsigned k = 0; k < i; k++)
      if (as_cli_same(files[i].path, files[k].path))
        return usage("two outputs go to %s%s", files[i].path, "");
  }
  return true;
}

static int write_outputs(const cli *c, as_result *r) {
  isa_buf out, rule;
  isa_error e;
  as_cli_file files[3];
  unsigned n = 0;
  isa_buf_init(&out, &c->arena.al);
  isa_buf_init(&rule, &c->arena.al);
  put_rule(c, r, &rule);
  int status = 1;
  bool ok = c->only_deps || make_output(c, r, &out);
  if (!ok || rule.failed) {
    no_memory();
  } else {
    if (c->deps) add_file(files, &n, c->deps, &rule);
    if (c->list && !c->only_deps) add_file(files, &n, c->list, &r->listing);
    add_file(files, &n, c->only_deps ? "-" : c->out, c->only_deps ? &rule : &out);
    if (!check_outputs(c, r, files, n))
      status = 2;
    else if (as_cli_write(files, n, &e))
      status = 0;
    else
      fprintf(stderr, "soma-as: %s\n", e.text);
  }
  isa_buf_free(&rule);
  isa_buf_free(&out);
  return status;
}

static bool lint(const cli *c, const isa_program *p) {
  as_options o = c->o;
  as_result r;
  o.nwarnings = c->lint_warnings;
  isa_status s = as_lint(p, &o, &r);
  print_diags(c, &r);
  if (s == ISA_NOMEM) no_memory();
  as_result_free(&r);
  return s == ISA_OK;
}

/* What does not fit is spilled; what fits stays as it is. */
static isa_status spill(const cli *c, as_result *r) {
  isa_buf text;
  isa_program *p;
  if (!r->overflows) return ISA_OK;
  isa_buf_init(&text, &c->arena.al);
  isa_status s = as_spill(r->program, &c->arena.al, &p, &text);
  fputs(s == ISA_NOMEM ? "soma-as: out of memory\n" : isa_buf_str(&text), stderr);
  isa_buf_free(&text);
  isa_program_free(r->program);
  r->program = p;
  if (s != ISA_OK) r->nerrors++;
  return s;
}

/* Prints what there is to say of a result, writes the outputs, frees it; gives the exit status. */
static int finish(const cli *c, isa_status s, as_result *r) {
  print_diags(c, r);
  if (s == ISA_OK) s = spill(c, r);
  int exit_status = 1;
  if (s == ISA_OK && c->lint && !lint(c, r->program))
    exit_status = 1;
  else if (s == ISA_OK)
    exit_status = c->out ? write_outputs(c, r) : 0;
  else if (r->nerrors == 0)
    fprintf(stderr, "soma-as: %s\n", isa_status_text((int)s));
  isa_program_free(r->program);
  as_result_free(r);
  return exit_status;
}

static isa_status assemble_text(const char *path, const isa_buf *text, const as_options *o,
                                as_result *r) {
  const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
  return as_assemble(text->data ? text->data : "", text->len, name, o, r);
}

static bool read_input(const char *path, isa_buf *text) {
  isa_error e;
  if (as_cli_read(path, text, &e)) return true;
  fprintf(stderr, "soma-as: %s\n", e.text);
  return false;
}

/* A source among the inputs of a link becomes an object in memory. read: as_options.defines_read.
 */
static bool to_object(const cli *c, const char *path, isa_buf *text, bool *read, bool last) {
  as_options o = c->o;
  o.defines_read = read;
  o.more_sources = !last;
  as_result r;
  o.relocatable = true;
  o.want_listing = false;
  isa_status s = assemble_text(path, text, &o, &r);
  print_diags(c, &r);
  if (s != ISA_OK && r.nerrors == 0) fprintf(stderr, "soma-as: %s\n", isa_status_text((int)s));
  isa_buf old = *text;
  *text = r.object;
  r.object = old;
  isa_program_free(r.program);
  as_result_free(&r);
  return s == ISA_OK;
}

static int link_inputs(const cli *c, isa_buf *texts) {
  as_file *files = isa_zalloc(&c->arena.al, c->ninputs * sizeof *files);
  bool *read = isa_zalloc(&c->arena.al, c->o.ndefines + 1), ok = files && read;
  uint32_t last = 0;
  as_options o = c->o;
  as_result r;
  o.target = NULL; /* the objects' */
  if (!ok) no_memory();
  for (uint32_t i = 0; i < c->ninputs; i++)
    if (!as_is_object(texts[i].data, texts[i].len)) last = i;
  for (uint32_t i = 0; ok && i < c->ninputs; i++) {
    if (!as_is_object(texts[i].data, texts[i].len))
      ok = to_object(c, c->inputs[i], &texts[i], read, i == last);
    if (ok) files[i] = (as_file){c->inputs[i], isa_buf_str(&texts[i]), texts[i].len};
  }
  int status = ok ? finish(c, as_link(files, c->ninputs, &o, &r), &r) : 1;
  isa_free(&c->arena.al, files, c->ninputs * sizeof *files);
  isa_free(&c->arena.al, read, c->o.ndefines + 1);
  return status;
}

static int run_texts(const cli *c, isa_buf *texts) {
  bool one = c->ninputs == 1, objects = false;
  for (uint32_t i = 0; i < c->ninputs; i++) {
    if (!read_input(c->inputs[i], &texts[i])) return 1;
    objects = objects || as_is_object(texts[i].data, texts[i].len);
  }
  if (one && !objects) {
    as_result r;
    isa_status s = assemble_text(c->in, &texts[0], &c->o, &r);
    return finish(c, s, &r);
  }
  isa_error e;
  isa_program *p = one && c->lint && !c->out
                       ? isa_image_read(&c->arena.al, isa_buf_str(texts), texts->len, &e)
                       : NULL; /* an object is no program */
  if (p) {
    int status = lint(c, p) ? 0 : 1;
    isa_program_free(p);
    return status;
  }
  if (c->o.relocatable || c->preprocess || c->only_deps || c->deps) {
    usage("linking takes only -o, -f, -l, -g and the options for sources%s%s", "", "");
    return 2;
  }
  return link_inputs(c, texts);
}

static int run(const cli *c) {
  const isa_alloc *al = &c->arena.al;
  if (c->ninputs == 1 && strcmp(c->in, "-") != 0 && !c->is_object) {
    as_result r; /* the library reads it, so that it is a dependency */
    isa_status s = as_assemble_file(c->in, &c->o, &r);
    return finish(c, s, &r);
  }
  isa_buf *texts = isa_zalloc(al, c->ninputs * sizeof *texts);
  int status = 1;
  if (!texts) {
    no_memory();
    return 1;
  }
  for (uint32_t i = 0; i < c->ninputs; i++) isa_buf_init(&texts[i], al);
  status = run_texts(c, texts);
  for (uint32_t i = 0; i < c->ninputs; i++) isa_buf_free(&texts[i]);
  isa_free(al, texts, c->ninputs * sizeof *texts);
  return status;
}

/* -s with an output that goes where the messages go. */
static bool mixed(const cli *c) {
  if (!c->to_stdout || !(c->only_deps || (c->out && strcmp(c->out, "-") == 0))) return false;
  return !usage("-s and an output on standard output do not go together%s%s", "", "");
}

static int end_output(void) {
  isa_error e;
  if (as_cli_flush(&e)) return 0;
  fprintf(stderr, "soma-as: %s\n", e.text);
  return 1;
}

int main(int argc, char **argv) {
  cli c;
  isa_alloc al = isa_alloc_default();
  memset(&c, 0, sizeof c);
  isa_arena_init(&c.arena, &al);
  int status = 2;
  bool ok = true;
  for (int i = 1; ok && i < argc; i++) ok = add_string(&c, &c.argv, &c.argc, &c.cap, argv[i]);
  if (ok && parse_args(&c)) {
    if (!c.done && c.ninputs == 1 && strcmp(c.in, "-") != 0) c.is_object = as_cli_is_object(c.in);
    if (!c.done && !c.out && !c.lint) c.out = default_out(&c);
    if (!c.done && mixed(&c))
      status = 2;
    else
      status = c.done ? end_output() : c.out || c.lint ? run(&c) : 1;
  }
  isa_free(&al, c.argv, c.cap * sizeof *c.argv);
  isa_free(&al, c.inputs, c.cap_inputs * sizeof *c.inputs);
  isa_free(&al, c.include_dirs, c.cap_dirs * sizeof *c.include_dirs);
  isa_free(&al, c.warnings, c.cap_warnings * sizeof *c.warnings);
  isa_free(&al, c.defines, c.cap_defines * sizeof *c.defines);
  isa_arena_free(&c.arena);
  return status;
}
