/* soma-dis: a program file as source that assembles to the same bytes. */
#include "cli.h"
#include "../dis/dis.h"

#include <stdio.h>
#include <string.h>

static const char usage_text[] =
    "usage: soma-dis [options] in.sbc     (- is standard input or output)\n"
    "  -o FILE         output; default: standard output\n"
    "  --engine ENGINE only this engine's section: tensor vector scalar gpsimd sync\n"
    "  --raw           without line marks, names of labels, comments and slices\n"
    "  --json          as JSON\n"
    "  --graph         control flow and semaphores as a Graphviz digraph\n"
    "  --help, --version\n";

/* What the arguments ask for. `done`: --help or --version has answered already. */
typedef struct cli {
  const char *in, *out;
  int engine; /* -1: all */
  bool raw, json, graph, done;
} cli;

/* Two arguments for every format, so that one function serves all messages; unused ones
 * are "". */
static bool usage(const char *fmt, const char *a, const char *b) {
  fprintf(stderr, "soma-dis: ");
  fprintf(stderr, fmt, a, b);
  fprintf(stderr, "\ntry soma-dis --help\n");
  return false;
}

static bool option(cli *c, const char *arg) {
  /* For suggestions; the comparisons below stand on their own. */
  static const char *const names[] = {"-o",       "--raw",  "--json",   "--graph",
                                      "--engine", "--help", "--version"};
  char near[80];
  if (strcmp(arg, "--raw") == 0) return c->raw = true;
  if (strcmp(arg, "--json") == 0) return c->json = true;
  if (strcmp(arg, "--graph") == 0) return c->graph = true;
  if (strcmp(arg, "--help") == 0) {
    fputs(usage_text, stdout);
    return c->done = true;
  }
  if (strcmp(arg, "--version") == 0) {
    puts("soma-dis " SOMA_VERSION);
    return c->done = true;
  }
  as_cli_near(arg, names, sizeof names / sizeof *names, near);
  return usage("unknown option `%s`%s", arg, near);
}

/* The list of engines shows when no name is near: there are few. */
static bool set_engine(cli *c, const char *name) {
  const char *names[ISA_NSEQS];
  char near[80], list[160] = "; there are";
  for (int e = 0; e < ISA_NSEQS; e++) {
    names[e] = isa_engines[e].name;
    if (strcmp(name, names[e]) == 0) c->engine = e;
    size_t n = strlen(list);
    snprintf(list + n, sizeof list - n, "%s %s", e ? "," : "", names[e]);
  }
  /* Given before or now: a second --engine replaces the first only if it names one. */
  if (c->engine >= 0) return true;
  as_cli_near(name, names, ISA_NSEQS, near);
  return usage("no engine is called `%s`%s", name, near[0] ? near : list);
}

static bool parse_args(int argc, char **argv, cli *c) {
  /* --help ends the reading, so what follows it is not looked at. */
  for (int i = 1; i < argc && !c->done; i++) {
    const char *arg = argv[i];
    /* Both -oFILE and -o FILE, as the assembler takes them. */
    if (strncmp(arg, "-o", 2) == 0) {
      if (!arg[2] && i + 1 == argc) return usage("-o needs a value%s%s", "", "");
      c->out = arg[2] ? arg + 2 : argv[++i];
    } else if (strncmp(arg, "--engine=", 9) == 0) {
      if (!set_engine(c, arg + 9)) return false;
    } else if (strcmp(arg, "--engine") == 0) {
      if (i + 1 == argc) return usage("--engine needs a value%s%s", "", "");
      if (!set_engine(c, argv[++i])) return false;
    } else if (arg[0] == '-' && arg[1]) {
      if (!option(c, arg)) return false;
    } else if (c->in) {
      return usage("one file at a time: `%s` and `%s`", c->in, arg);
    } else {
      c->in = arg;
    }
  }
  if (c->done) return true;
  if (!c->in) return usage("no program file%s%s", "", "");
  if (c->json && c->graph) return usage("give either --json or --graph, not both%s%s", "", "");
  /* The file would be emptied before it is read. */
  if (as_cli_same(c->in, c->out)) return usage("the output %s is the program file%s", c->out, "");
  return true;
}

/* Without labels, jumps are printed by number. */
static void strip(isa_program *p) {
  as_cli_drop_lines(p);
  p->nsymbols = 0;
}

/* Leaves the code of one engine only.
 * Tensors, tiles and semaphores stay, since the code that is left names them. */
static void choose(isa_program *p, unsigned engine) {
  for (unsigned core = 0; core < p->ncores; core++)
    for (unsigned e = 0; e < ISA_NSEQS; e++)
      if (e != engine) p->cores[core].code[e].n = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->nsymbols; i++)
    if (p->symbols[i].engine == engine) p->symbols[n++] = p->symbols[i];
  p->nsymbols = n;
}

static bool disassemble(const cli *c, isa_buf *file, isa_buf *text, isa_error *e) {
  isa_alloc al = isa_alloc_default();
  /* The whole file at once: an image is checked before any of it is printed. */
  if (!as_cli_read(c->in, file, e)) return false;
  isa_program *p = isa_image_read(&al, isa_buf_str(file), file->len, e);
  if (!p) {
    /* The message is copied out first, since it is made anew in the same place with the
     * file's name before it. */
    char why[sizeof e->text];
    memcpy(why, e->text, sizeof why);
    return isa_fail(e, e->status, ISA_NOFIELD, "%.100s: %.350s", c->in, why);
  }
  /* Stripped before the code is chosen: both edit the program that was read. */
  if (c->raw) strip(p);
  if (c->engine >= 0) choose(p, (unsigned)c->engine);
  /* JSON keeps the names of the file as they are; text needs names that can be
   * assembled. */
  if (!c->json && !as_dis_names(p)) text->failed = true;
  if (c->json)
    as_json_program(p, text);
  else if (c->graph)
    as_dis_graph(p, text);
  else if (c->raw)
    /* Raw text is printed by the library that reads images, without names. */
    isa_print_program(p, ISA_TEXT_RAW, text);
  else
    as_dis_text(p, text);
  isa_program_free(p);
  if (text->failed) return isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "out of memory");
  /* Written only when all of it is there, so a failure leaves an older output alone. */
  as_cli_file out = {.path = c->out, .data = isa_buf_str(text), .n = text->len};
  return as_cli_write(&out, 1, e);
}

int main(int argc, char **argv) {
  /* Standard output when there is no -o. */
  cli c = {.out = "-", .engine = -1};
  /* 2 for a wrong command line, 1 for a file that cannot be disassembled, as usual in
   * Unix. */
  if (!parse_args(argc, argv, &c)) return 2;
  isa_alloc al = isa_alloc_default();
  isa_buf file, text;
  isa_error e;
  isa_buf_init(&file, &al);
  isa_buf_init(&text, &al);
  /* After --help, a full disk still has to show: the flush tells. */
  bool ok = c.done ? as_cli_flush(&e) : disassemble(&c, &file, &text, &e);
  if (!ok) fprintf(stderr, "soma-dis: %s\n", e.text);
  isa_buf_free(&file);
  isa_buf_free(&text);
  return ok ? 0 : 1;
}
