/* --explain of names that are not instructions: operators, functions, types, operands, words of the
 * preprocessor, warnings. A name may be several of them. */
#include "../line/stmt.h"
#include "cli.h"

#include <stdio.h>
#include <string.h>

/* Names here are whole words; those of instructions are compared elsewhere. */
static bool same(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* A list that goes on in further lines. */
typedef struct list {
  const char *heading;
  size_t column; /* 0: nothing yet */
} list;

/* Lines end near column 90; a continuation begins under the first item. */
static void put_item(list *l, const char *text, isa_buf *out) {
  size_t n = strlen(text);
  if (l->column == 0)
    isa_buf_printf(out, "  %-10s %s", l->heading, text);
  else if (l->column + n + 2 > 90)
    isa_buf_printf(out, ",\n  %-10s %s", "", text);
  else
    isa_buf_printf(out, ", %s", text);
  /* 13 is the width of the heading with its blanks; 2 that of the comma and the blank
   * after it. */
  l->column = l->column == 0 || l->column + n + 2 > 90 ? 13 + n : l->column + n + 2;
}

static void end_list(const list *l, isa_buf *out) {
  if (l->column) isa_buf_puts(out, "\n");
}

/* Ends at a blank, a comma or a colon: "max" is not in "maxval". */
static bool has_word(const char *s, size_t n, const char *word) {
  size_t len = strlen(word);
  for (size_t i = 0; i + len <= n; i++) {
    bool begins = i == 0 || s[i - 1] == ' ';
    bool ends = i + len == n || strchr(" ,:", s[i + len]);
    if (begins && ends && memcmp(s + i, word, len) == 0) return true;
  }
  return false;
}

/* What a clause of rules.def, as in "op1: add, mult, max or min", says of an operator: REFUSED,
 * NAMED, or nothing. */
enum { REFUSED = 1, NAMED = 2 };
static unsigned clause_says(const char *s, size_t n, unsigned alu) {
  const isa_aluop_row *r = &isa_aluops[alu];
  /* The words are those of the manual's rules, written by people; only these few are
   * understood. */
  if (has_word(s, n, "arithmetic") && !(r->cls & ISA_OP_ARITH)) return REFUSED;
  if (has_word(s, n, "two operands") && !has_word(s, n, "if") && r->arity != 2) return REFUSED;
  if (has_word(s, n, "reduction")) return r->reduces ? 0 : REFUSED;
  if (has_word(s, n, "comparison")) /* The comparisons are one run in the table of operators. */
    return alu >= ISA_ALU_is_equal && alu <= ISA_ALU_is_lt ? 0 : REFUSED;
  if (has_word(s, n, r->name)) return NAMED;
  /* A clause that lists other operators rules out those it does not list. */
  for (unsigned i = 0; i < ISA_NALUOPS; i++)
    if (has_word(s, n, isa_aluops[i].name)) return REFUSED;
  return 0;
}

/* "gpsimd: only op0=rsqrt" takes the engine away from all other operators.
 * The clause's head names the engine, its rest the only operator. */
static unsigned without_engine(const char *s, size_t head, size_t n, const isa_field *fd,
                               unsigned alu) {
  char place[64];
  /* As the rules write it: field=operator. */
  snprintf(place, sizeof place, "%s=%s", fd->name, isa_aluops[alu].name);
  for (unsigned e = 0; e < ISA_NENGINES && head < n; e++)
    if (has_word(s, head, isa_engines[e].name) && has_word(s, n, "only") && !has_word(s, n, place))
      return 1u << e;
  return 0;
}

/* Whether operator alu can stand in a field, by the engines that have both, and the manual's rules
 * of the instruction, which may say no or name it. Types may rule it out still. */
static bool takes_operator(unsigned op, const isa_field *fd, unsigned alu) {
  bool path = !isa_op_is_dma(op) && !isa_op_is_control(op);
  /* DMA and control instructions have no engines of their own for operators: all bits
   * are kept. */
  unsigned engines = path ? isa_ops[op].engines & isa_aluops[alu].engines : ~0u, says = 0;
  /* Clauses end with a semicolon or the line. */
  for (const char *s = isa_rule_text(isa_ops[op].rule); s && *s;) {
    size_t n = strcspn(s, ";\n"), head = strcspn(s, ":;\n");
    if (strncmp(s, "no ", 3) == 0 && has_word(s, n, fd->name)) return false;
    engines &= ~without_engine(s, head, n, fd, alu);
    /* A clause about another field of the same instruction says nothing here. */
    if (head < n && has_word(s, head, fd->name)) says |= clause_says(s + head, n - head, alu);
    s += n + strspn(s + n, ";\n ");
  }
  /* Named in a rule counts as a yes, even where the table of engines has nothing in
   * common. */
  return !(says & REFUSED) && (says || engines);
}

/* The operands, as "op0 of tensor_scalar", that take such a word: of a kind, of a set, or this
 * operator.
 * -1 for set or alu: any. */
static void put_places(unsigned kind, int set, int alu, isa_buf *out) {
  list l = {.heading = "stands in"};
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    const isa_form *f = isa_form_of(op);
    for (unsigned i = 0; i < f->nfields; i++) {
      /* The longest names of a field and an instruction fit. */
      char text[96];
      const isa_field *fd = &f->fields[i];
      if (fd->kind != kind || (set >= 0 && fd->arg != (uint32_t)set)) continue;
      if (alu >= 0 && !takes_operator(op, fd, (unsigned)alu)) continue;
      snprintf(text, sizeof text, "%s of %s", fd->name, isa_ops[op].name);
      put_item(&l, text, out);
    }
  }
  end_list(&l, out);
}

/* Fields are printed in the manual's style: a word in a column, then its text. */
static bool explain_operator(const char *name, isa_buf *out) {
  int i = isa_aluop_find(name, strlen(name));
  if (i < 0) return false;
  const isa_aluop_row *r = &isa_aluops[i];
  /* Asked for the operator in all instructions: ISA_NOPS. */
  const char *unsupported = isa_op_unsupported(ISA_NOPS, (unsigned)i);
  isa_buf_printf(out, "%s\n  is         an operator on %s, of %u operand%s%s\n", name,
                 r->cls == ISA_OP_BIT     ? "bits"
                 : r->cls == ISA_OP_ARITH ? "numbers"
                                          : "bits or numbers",
                 r->arity, r->arity == 1 ? "" : "s", r->reduces ? "; reductions take it" : "");
  list l = {.heading = "engines"};
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (r->engines >> e & 1) put_item(&l, isa_engines[e].name, out);
  end_list(&l, out);
  as_put_from(r->gen, out);
  /* Both may hold: an operator of the model only, and one that some machine refuses. */
  if (!r->in_hardware)
    isa_buf_puts(out, "  but        no hardware has it: an error without -w-no-hardware-op\n");
  if (unsupported) isa_buf_printf(out, "  but        %s\n", unsupported);
  put_places(ISA_K_ALU, -1, i, out);
  return true;
}

static bool explain_function(const char *name, isa_buf *out) {
  int i = isa_actfn_find(name, strlen(name));
  if (i < 0) return false;
  const isa_actfn_row *r = &isa_actfns[i];
  isa_buf_printf(out, "%s\n  is         an activation function of the scalar engine, %s\n", name,
                 r->table ? "from a table that is loaded before its first use" : "without a table");
  /* In decimal here, for people; the manual's table has the exact bits. */
  isa_buf_printf(out, "  valid      inputs from %g to %g\n", (double)r->lo, (double)r->hi);
  as_put_from(r->gen, out);
  put_places(ISA_K_ACTF, -1, -1, out);
  return true;
}

static bool explain_type(const char *name, isa_buf *out) {
  int i = isa_dtype_find(name, strlen(name));
  if (i < 0) return false;
  /* The number is the code in a program file, as in the manual's table. */
  isa_buf_printf(out, "%s\n  is         a type of %u bits, number %d", name, isa_dtypes[i].bits, i);
  if (isa_dtypes[i].lanes > 1)
    isa_buf_printf(out, ", %u small floats in each element", isa_dtypes[i].lanes);
  isa_buf_puts(out, "\n");
  return true;
}

static bool explain_target(const char *name, isa_buf *out) {
  int i = isa_target_find(name, strlen(name));
  if (i < 0) return false;
  /* What differs between targets; what all have is with the words of memory. */
  const isa_target *t = &isa_targets[i];
  isa_buf_printf(
      out,
      "%s\n  is         a target of generation %d\n"
      "  memory     SBUF %u partitions of %u bytes, PSUM %u bytes of each, HBM %u GiB "
      "in %u stacks\n"
      "  DMA        %u engines per device, %u rings each, %s\n  cores      %u per device\n",
      name, t->gen, (unsigned)ISA_PMAX, t->sbuf_bytes, t->psum_bytes, t->hbm_gib, t->hbm_stacks,
      t->dma_engines, t->dma_rings, t->hwdge ? "dge=hwdge as well" : "no dge=hwdge", t->cores);
  /* Engines differ in their clocks, so cycles of two are not the same time. */
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    isa_buf_printf(out, "  clock      %s %.2f GHz\n", isa_engines[e].name, t->khz[e] / 1e6);
  return true;
}

/* An engine's name is also a section's, which is where people meet it. */
static bool explain_engine(const char *name, isa_buf *out) {
  unsigned e = 0;
  while (e < ISA_NENGINES && !same(isa_engines[e].name, name)) e++;
  if (e == ISA_NENGINES) return false;
  isa_buf_printf(out, "%s\n  is         an engine; its code follows `section %s`\n", name, name);
  list l = {.heading = "runs"};
  for (unsigned op = 0; op < ISA_NOPS; op++)
    if (isa_ops[op].engines >> e & 1) put_item(&l, isa_ops[op].name, out);
  end_list(&l, out);
  return true;
}

static bool explain_memory(const char *name, isa_buf *out) {
  static const char *const text[] = {
      [ISA_SBUF] = "128 partitions on the chip, where engines compute: NAME tile sbuf TYPE[...]",
      [ISA_PSUM] = "128 partitions of 16 KiB in banks of 2 KiB, where matmuls add up: NAME tile "
                   "psum TYPE[...]",
      [ISA_HBM] = "the device's main memory, which the DMA engines reach: NAME tensor TYPE[...]"};
  for (unsigned i = 1; i <= ISA_HBM; i++)
    if (same(isa_space_name(i), name)) {
      isa_buf_printf(out, "%s\n  is         %s\n", name, text[i]);
      return true;
    }
  return false;
}

/* A word that an operand takes, of each set that has it.
 * The same word may be in several sets, with the operands of each. */
static bool explain_value(const char *name, isa_buf *out) {
  bool any = false;
  for (unsigned s = 0; s < ISA_NSETS; s++) {
    if (isa_set_find(s, name, strlen(name)) < 0) continue;
    isa_buf_printf(out, "%s\n  is         a %s; there are:", name, isa_set_name(s));
    for (unsigned i = 0; isa_set_item(s, i); i++)
      isa_buf_printf(out, "%s %s", i ? "," : "", isa_set_item(s, i));
    isa_buf_puts(out, "\n");
    /* The set is what the field's arg holds for words. */
    put_places(ISA_K_ENUM, (int)s, -1, out);
    any = true;
  }
  return any;
}

/* An operand, with the instructions that have it, by what they take there.
 * Instructions with the same kind and limits share one list; others follow with their
 * own. */
static bool explain_operand(const char *name, isa_buf *out) {
  bool any = false, done[ISA_NOPS] = {false};
  for (unsigned first = 0; first < ISA_NOPS; first++) {
    const isa_field *a = isa_field_named(first, name);
    if (!a || done[first]) continue;
    if (!any) isa_buf_printf(out, "%s\n  is         an operand\n", name);
    any = true;
    isa_buf_puts(out, "  takes      ");
    as_put_kind(a, out);
    isa_buf_puts(out, "\n");
    list l = {.heading = "in"};
    for (unsigned op = first; op < ISA_NOPS; op++) {
      const isa_field *b = isa_field_named(op, name);
      /* arg too: a limit or a set that differs is another meaning. */
      if (!b || b->kind != a->kind || b->arg != a->arg) continue;
      done[op] = true;
      put_item(&l, isa_ops[op].name, out);
    }
    end_list(&l, out);
  }
  return any;
}

/* ---- Words of the preprocessor, builtins, warnings ------------------------------------------ */

/* With its %, as it is written; without, the name may be an operand. */
static bool explain_directive(const char *name, isa_buf *out) {
  static const struct {
    const char *name, *text;
  } directives[] = {
#define DIRECTIVE(id, name) {name, "a directive of the preprocessor"},
#define CONDITION(id, name)                                                                 \
  {"if" name, "a condition of the preprocessor"}, {"ifn" name, "the opposite of %if" name}, \
      {"elif" name, "else, %if" name}, {"elifn" name, "else, %ifn" name},                   \
      {"is" name, "the condition %if" name " as a function: 0 or 1"},                       \
      {"isn" name, "the condition %ifn" name " as a function: 0 or 1"},
#define FUNCTION(id, name, least, most) {name, "a function of the preprocessor: %" name "(...)"},
#define REFUSED(name, instead) {name, "a directive of NASM that is not built; instead: " instead},
#define REFUSED_FUNCTION(name, instead) \
  {name, "a function of NASM that is not built; instead: " instead},
#include "../pp/directives.def"
  };
  /* A name may be both a directive and a function; both are shown. */
  bool any = false;
  if (*name != '%') return false;
  for (size_t i = 0; i < sizeof directives / sizeof *directives; i++) {
    if (!same(directives[i].name, name + 1)) continue;
    isa_buf_printf(out, "%s\n  is         %s\n", name, directives[i].text);
    any = true;
  }
  if (any) isa_buf_puts(out, "  more       asm/reference.md, Preprocessor\n");
  return any;
}

static bool explain_builtin(const char *name, isa_buf *out) {
  static const struct {
    const char *name;
    int64_t value;
  } constants[] = {
#define BUILTIN(name, value) {#name, value},
/* -1: there is no value without a target. No other builtin is negative. */
#define TARGET_BUILTIN(name, value) {#name, -1},
#include "../text/builtins.def"
  };
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    if (!same(constants[i].name, name)) continue;
    isa_buf_printf(out, "%s\n  is         a number that expressions may name: ", name);
    if (constants[i].value >= 0)
      isa_buf_printf(out, "%lld\n", (long long)constants[i].value);
    else
      isa_buf_puts(out, "the target's\n");
    return true;
  }
  return false;
}

/* Functions and words of expressions, with one line each. */
static bool explain_term(const char *name, isa_buf *out) {
  static const struct {
    const char *name, *text;
  } terms[] = {
#define CALL(id, name, least, most, takes, text) {name, text},
#define TERM(name, text) {name, text},
#include "../text/terms.def"
  };
  bool any = false;
  for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
    if (!same(terms[i].name, name)) continue;
    isa_buf_printf(out, "%s\n  in         an expression or after an operand: %s\n", name,
                   terms[i].text);
    any = true;
  }
  return any;
}

static bool explain_warning(const char *name, isa_buf *out) {
  static const struct {
    const char *name, *text;
    bool on;
  } warnings[] = {
#define WARNING(id, name, on, text) {name, text, on},
#include "../text/warnings.def"
  };
  /* The option may be given whole, as copied from a command line. */
  if (strncmp(name, "-w+", 3) == 0 || strncmp(name, "-w-", 3) == 0) name += 3;
  for (size_t i = 0; i < sizeof warnings / sizeof *warnings; i++) {
    if (!same(warnings[i].name, name)) continue;
    /* Where it is on, only turning it off is worth telling, and the other way round. */
    isa_buf_printf(out, "%s\n  is         a warning: %s\n  turn %-4s  -w%s%s\n", name,
                   warnings[i].text, warnings[i].on ? "off" : "on", warnings[i].on ? "-" : "+",
                   name);
    return true;
  }
  return false;
}

/* What other languages call a thing.
 * *i goes on behind the last one found: one name may have several meanings. */
static const char *next_meaning(const char *name, size_t *i) {
  static const struct {
    const char *theirs, *ours;
  } foreign[] = {
#define FOREIGN(theirs, ours) {#theirs, #ours},
#include "../line/foreign.def"
  };
  for (; *i < sizeof foreign / sizeof *foreign; ++*i)
    if (same(foreign[*i].theirs, name)) return foreign[(*i)++].ours;
  return NULL;
}

static bool is_register(const char *name) {
  unsigned n;
  char rest;
  /* `rest` catches what follows the number: r12x is no register. */
  return name[0] == 'r' && sscanf(name + 1, "%2u%c", &n, &rest) == 1 && n < ISA_NREGS;
}

bool as_explain_name(const char *name, isa_buf *out) {
  /* Every one is asked, since a name may be several things at once. */
  static bool (*const explain[])(const char *, isa_buf *) = {
      explain_operator,  explain_function, explain_type,    explain_target,
      explain_engine,    explain_memory,   explain_value,   explain_operand,
      explain_directive, explain_builtin,  explain_warning, explain_term};
  bool any = false;
  for (size_t i = 0; i < sizeof explain / sizeof *explain; i++) any |= explain[i](name, out);
  if (is_register(name)) {
    isa_buf_printf(out, "%s\n  is         a register of 32 bits; each engine has r0 to r%d\n", name,
                   ISA_NREGS - 1);
    any = true;
  }
  const char *ours;
  for (size_t i = 0; (ours = next_meaning(name, &i)) != NULL;) {
    isa_buf_printf(out, "%s\n  is         what others call `%s`: soma-as --explain %s\n", name,
                   ours, ours);
    any = true;
  }
  return any;
}
