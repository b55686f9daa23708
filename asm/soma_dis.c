/* soma-dis: a program file as source that assembles to the same bytes. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#ifndef SOMA_VERSION
#define SOMA_VERSION "0.1.0"
#endif

static const char usage_text[] =
    "usage: soma-dis [options] in.sbc     (- is standard input or output)\n"
    "  -o FILE         output; default: standard output\n"
    "  --raw           without line marks and names of labels\n"
    "  --json          as JSON\n"
    "  --help, --version\n";

typedef struct cli {
  const char *in, *out;
  bool raw, json, done;
} cli;

static bool usage(const char *fmt, const char *a, const char *b) {
  fprintf(stderr, "soma-dis: ");
  fprintf(stderr, fmt, a, b);
  fprintf(stderr, "\ntry soma-dis --help\n");
  return false;
}

static bool option(cli *c, const char *arg) {
  static const char *const names[] = {"-o", "--raw", "--json", "--help", "--version"};
  char near[80];
  if (strcmp(arg, "--raw") == 0) return c->raw = true;
  if (strcmp(arg, "--json") == 0) return c->json = true;
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

static bool parse_args(int argc, char **argv, cli *c) {
  for (int i = 1; i < argc && !c->done; i++) {
    const char *arg = argv[i];
    if (strncmp(arg, "-o", 2) == 0) {
      if (!arg[2] && i + 1 == argc) return usage("-o needs a value%s%s", "", "");
      c->out = arg[2] ? arg + 2 : argv[++i];
    } else if (arg[0] == '-' && arg[1]) {
      if (!option(c, arg)) return false;
    } else if (c->in) {
      return usage("one file at a time: `%s` and `%s`", c->in, arg);
    } else {
      c->in = arg;
    }
  }
  return c->done || c->in || usage("no program file%s%s", "", "");
}

static void strip(isa_program *p) {
  isa_alloc al = p->arena.al;
  p->nsymbols = 0;
  for (unsigned core = 0; core < p->ncores; core++)
    for (unsigned e = 0; e < ISA_NENGINES; e++) {
      isa_code *code = &p->cores[core].code[e];
      isa_free(&al, code->lines, code->cap_lines * sizeof *code->lines);
      code->lines = NULL;
      code->cap_lines = 0;
    }
}

static bool disassemble(const cli *c, isa_buf *file, isa_buf *text, isa_error *e) {
  isa_alloc al = isa_alloc_default();
  if (!as_cli_read(c->in, file, e)) return false;
  isa_program *p = isa_image_read(&al, isa_buf_str(file), file->len, e);
  if (!p) {
    char why[sizeof e->text];
    memcpy(why, e->text, sizeof why);
    return isa_fail(e, e->status, ISA_NOFIELD, "%.100s: %.350s", c->in, why);
  }
  if (c->raw) strip(p);
  if (c->json)
    as_json_program(p, text);
  else
    isa_print_program(p, text);
  isa_program_free(p);
  if (text->failed) return isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "out of memory");
  as_cli_file out = {.path = c->out, .data = isa_buf_str(text), .n = text->len};
  return as_cli_write(&out, 1, e);
}

int main(int argc, char **argv) {
  cli c = {.out = "-"};
  if (!parse_args(argc, argv, &c)) return 2;
  if (c.done) return 0;
  isa_alloc al = isa_alloc_default();
  isa_buf file, text;
  isa_error e;
  isa_buf_init(&file, &al);
  isa_buf_init(&text, &al);
  bool ok = disassemble(&c, &file, &text, &e);
  if (!ok) fprintf(stderr, "soma-dis: %s\n", e.text);
  isa_buf_free(&file);
  isa_buf_free(&text);
  return ok ? 0 : 1;
}
