/* What the tables say: one instruction for --explain, all words for editors. */
#include "cli.h"
#include "../line/stmt.h"

#include <stdio.h>
#include <string.h>

/* ---- One instruction ---------------------------------------------------------------------- */

/* For readers of --explain and of the manual, so in words of the language rather than
 * of the tables. */
static const char *const kind_text[ISA_NKINDS] = {
    [ISA_K_REG] = "register",
    [ISA_K_INT] = "32-bit integer or register",
    [ISA_K_NUM] = "float, register (its bits) or [P, 1] pattern",
    [ISA_K_AP] = "pattern",
    [ISA_K_U8] = "number",
    [ISA_K_U16] = "number",
    [ISA_K_U32] = "number",
    [ISA_K_I32] = "signed number",
    [ISA_K_ENUM] = "word",
    [ISA_K_ALU] = "operator",
    [ISA_K_ACTF] = "activation function",
    [ISA_K_LABEL] = "label",
    [ISA_K_QUEUE] = "queue",
    [ISA_K_STR] = "string",
    [ISA_K_BYTES] = "list of bytes",
    [ISA_K_STEPS] = "list of [step, num]",
    [ISA_K_APS] = "list of patterns",
    [ISA_K_F32S] = "list of floats",
    [ISA_K_I32S] = "list of integers",
    [ISA_K_SEM] = "semaphore",
    [ISA_K_GROUP] = "replica groups",
    [ISA_K_PAIRS] = "list of [from, to]",
    [ISA_K_PLACE] = "engine.label",
};

/* How a kind of more than a code lies in its bytes. */
static const char *const layout_text[ISA_NKINDS] = {
    [ISA_K_INT] = "first byte 0: a number, 1: a register; the other four hold it",
    [ISA_K_NUM] = "first byte 0: none, 1: a float's bits, 2: a register, 3: a pattern; the other "
                  "four hold it",
    [ISA_K_AP] = "number of a record of PATS from 1, 0: none",
    [ISA_K_ENUM] = "its place in the list, from 0",
    [ISA_K_ALU] = "its code, in the table of operators",
    [ISA_K_ACTF] = "its code, in the table of functions",
    [ISA_K_LABEL] = "number of an instruction of the section",
    [ISA_K_STR] = "byte offset in POOL, count",
    [ISA_K_BYTES] = "byte offset in POOL, count",
    [ISA_K_STEPS] = "byte offset in POOL, count; an item is step i32, num u32",
    [ISA_K_APS] = "byte offset in POOL, count; an item is a pattern's number u32",
    [ISA_K_F32S] = "byte offset in POOL, count",
    [ISA_K_I32S] = "byte offset in POOL, count",
    [ISA_K_GROUP] = "number in GRPS, from 0",
    [ISA_K_PAIRS] = "byte offset in POOL, count; an item is two ranks u32",
    [ISA_K_PLACE] = "the engine's number, then four bytes: the number of its instruction",
};

/* The common rules apply to operands of the engines' data paths.
 * Control flow and DMA have operands of the same kinds, but no lanes, for which the
 * common rules are written. */
static bool has_data_path(unsigned op) { return isa_ops[op].runs == ISA_RUNS_PATH; }

/* Lines of prose after a heading, which stands before the first. */
static void put_prose(const char *heading, const char *lines, isa_buf *out) {
  for (const char *at = lines; at && *at; heading = "") {
    size_t n = strcspn(at, "\n");
    isa_buf_printf(out, "  %-10s %.*s\n", heading, (int)n, at);
    at += n + (at[n] == '\n');
  }
}

/* A keyword shows as name=..., one that may be left out in brackets, as the man pages write
 * options. No default: fields have one of the three modes. */
static const char *const mode_format[] = {
    [ISA_MODE_P] = "%s%s", [ISA_MODE_K] = "%s%s=...", [ISA_MODE_D] = "%s[%s=...]"};

/* Positional operands come first, as the source has them, whatever their place in the form. */
static void put_syntax(unsigned op, isa_buf *out) {
  const isa_form *f = isa_form_of(op);
  const char *before = " ";
  isa_buf_printf(out, "%s", isa_ops[op].name);
  /* Two passes over the fields: the positional ones, then those by name. */
  for (int keywords = 0; keywords < 2; keywords++)
    for (unsigned i = 0; i < f->nfields; i++) {
      const isa_field *fd = &f->fields[i];
      if ((fd->mode != ISA_MODE_P) != keywords) continue;
      isa_buf_printf(out, mode_format[fd->mode], before, fd->name);
      before = ", ";
    }
  isa_buf_puts(out, "\n");
}

/* In the order of the engines, which is that of their sections in a program file. */
static void put_engine_names(unsigned mask, isa_buf *out) {
  for (unsigned e = 0, n = 0; e < ISA_NENGINES; e++)
    if (mask >> e & 1) isa_buf_printf(out, "%s%s", n++ ? ", " : "", isa_engines[e].name);
}

/* Targets are named as well, because users pick a target rather than a generation. */
void as_put_from(unsigned gen, isa_buf *out) {
  isa_buf_printf(out, "  from       gen%u (", gen);
  for (unsigned t = 0, n = 0; t < ISA_NTARGETS; t++)
    if (isa_targets[t].gen >= (int)gen)
      isa_buf_printf(out, "%s%s", n++ ? ", " : "", isa_targets[t].name);
  isa_buf_puts(out, ")\n");
}

/* Which part of an operand is read or written, where it is not all. */
static const struct {
  uint32_t flag;
  const char *text;
} in_part[] = {
    {AP_CHOSEN, "only the elements that are chosen"}, {AP_KEEPS, "the rest keeps its values"},
    {AP_SIXTEENTH, "only every sixteenth partition"}, {AP_SNAKE, "a list over sixteen partitions"},
    {AP_SCALES, "four partitions of each quadrant"},  {AP_FREED, "nothing: the bytes are given up"},
    {AP_HOST, "what the host's function touches"},
};

/* "written in sbuf or psum, at most 4 free dimensions" */
static void put_access(uint32_t arg, isa_buf *out) {
  static const struct {
    uint32_t bit;
    const char *name;
  } spaces[] = {{AP_S, "sbuf"}, {AP_M, "psum"}, {AP_H, "hbm"}};
  /* Neither read nor written: only the place of the operand counts. */
  isa_buf_puts(out, arg & AP_W ? ", written in" : arg & AP_R ? ", read from" : ", named, in");
  for (unsigned i = 0, n = 0; i < 3; i++)
    if (arg & spaces[i].bit) isa_buf_printf(out, "%s %s", n++ ? " or" : "", spaces[i].name);
  /* One element and one per partition are limits on free dimensions already, so no
   * number follows. */
  if (arg & AP_ELEM)
    isa_buf_puts(out, ", one element");
  else if (arg & AP_COL)
    isa_buf_puts(out, ", one element per partition");
  else
    isa_buf_printf(out, ", at most %u free dimension%s", arg & AP_DIMS,
                   (arg & AP_DIMS) == 1 ? "" : "s");
  if (arg & AP_IND) isa_buf_puts(out, ", .indirect from gen4");
  if (arg & AP_GATHER) isa_buf_puts(out, ", .gather");
  for (size_t i = 0; i < sizeof in_part / sizeof in_part[0]; i++)
    if (arg & in_part[i].flag) isa_buf_printf(out, ", %s", in_part[i].text);
}

/* A row of the encoding: bytes at .. end - 1, by their bits. */
static void put_bits(unsigned at, unsigned end, const char *name, isa_buf *out) {
  /* As long as "12345-12345" twice; a record has ISA_RECORD bytes, so the numbers are
   * small. */
  char bits[24];
  snprintf(bits, sizeof bits, "%u-%u", 8 * at, 8 * end - 1);
  isa_buf_printf(out, "  %-9s %-16s ", bits, name);
}

void as_put_kind(const isa_field *fd, isa_buf *out) {
  isa_buf_puts(out, kind_text[fd->kind]);
  switch (fd->kind) {
  case ISA_K_AP:
  case ISA_K_APS: put_access(fd->arg, out); break;
  /* The place in the list is also the code, which is why the order is kept. */
  case ISA_K_ENUM:
    for (unsigned i = 0; isa_set_item(fd->arg, i); i++)
      isa_buf_printf(out, "%s%s", i ? ", " : ": ", isa_set_item(fd->arg, i));
    break;
  /* arg is the greatest value for numbers and the greatest count for lists; both read
   * as "at most". */
  case ISA_K_U8:
  case ISA_K_U16:
  case ISA_K_U32:
  case ISA_K_STEPS:
  case ISA_K_BYTES: isa_buf_printf(out, ", at most %u", fd->arg); break;
  /* The rest of the kinds has limits that are not of one field: a register's number, a
   * label's section. */
  default: break;
  }
}

static void put_field(const isa_field *fd, isa_buf *out) {
  put_bits(fd->at, fd->at + isa_kind_bytes[fd->kind], fd->name, out);
  as_put_kind(fd, out);
  isa_buf_puts(out, fd->mode == ISA_MODE_D ? "; may be left out\n" : "\n");
}

static void put_encoding(unsigned op, isa_buf *out) {
  const isa_form *f = isa_form_of(op);
  isa_buf_printf(out, "  form       %s\n\n  bits      field\n", f->name);
  /* The first sixteen bytes are the same for all instructions: opcode, wait and update
   * of semaphores. */
  isa_buf_printf(out, "  0-15      opcode           0x%04x\n", isa_ops[op].number);
  isa_buf_puts(out, "  16-19     wait             0 none, 1 >=, 2 >, 3 ==, 4 <=, 5 <, 6 !=\n"
                    "  20                         the value is a register\n"
                    "  21-23                      core of the semaphore\n"
                    "  24-27     update           0 none, 1 ++, 2 --, 3 +=, 4 -=, 5 =, 6 of a DMA\n"
                    "  28                         at read\n"
                    "  29-31                      core of the semaphore\n"
                    "  32-47     semaphores       of the wait, of the update\n"
                    "  48-63                      0\n"
                    "  64-127    values           of the wait, of the update\n");
  /* Where the fields begin: after the common sixteen bytes. */
  unsigned end = 16;
  uint32_t kinds = 0;
  for (unsigned i = 0; i < f->nfields; i++) {
    put_field(&f->fields[i], out);
    /* Fields are in order of their bytes, so the last one tells where padding begins. */
    end = f->fields[i].at + isa_kind_bytes[f->fields[i].kind];
    /* Each kind is explained once below, however many fields have it. */
    kinds |= (uint32_t)1 << f->fields[i].kind;
  }
  if (end < ISA_RECORD) {
    put_bits(end, ISA_RECORD, "", out);
    isa_buf_puts(out, "0\n");
  }
  for (unsigned k = 0; k < ISA_NKINDS; k++)
    if ((kinds >> k & 1) && layout_text[k])
      isa_buf_printf(out, "  %s: %s\n", kind_text[k], layout_text[k]);
}

/* Whether some operand may be one element per partition: a number's pattern, or a
 * pattern that is one column. */
static bool reads_column(unsigned op) {
  const isa_form *f = isa_form_of(op);
  for (unsigned i = 0; i < f->nfields; i++) {
    const isa_field *fd = &f->fields[i];
    if (fd->kind == ISA_K_NUM || (fd->kind == ISA_K_AP && (fd->arg & AP_COL) && (fd->arg & AP_R)))
      return true;
  }
  return false;
}

/* The streaming time of a data path, and what each engine adds to it. */
static void put_time(unsigned op, isa_buf *out) {
  put_prose("time", isa_cost_text(isa_ops[op].cost), out);
  /* Loads of weights and of tables have a time of their own, which the text of the cost
   * has in full. */
  if (!has_data_path(op) || isa_ops[op].cost == ISA_COST_LDW || isa_ops[op].cost == ISA_COST_TABLE)
    return;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    char name[16] = "";
    if (!(isa_ops[op].engines >> e & 1)) continue;
    /* Constants of the clock are written in capitals: OVH_VECTOR for the engine
     * `vector`. */
    for (size_t n = 0; isa_engines[e].name[n] && n + 1 < sizeof name; n++)
      name[n] = (char)(isa_engines[e].name[n] - 'a' + 'A');
    isa_buf_printf(out, "             %s: free after stream + OVH_%s, done after stream + LAT_%s\n",
                   isa_engines[e].name, name, name);
    if (e == ISA_ENG_vector && reads_column(op))
      isa_buf_puts(out, "               both COLUMN later with a [P, 1] operand\n");
  }
}

static void explain_op(unsigned op, isa_buf *out) {
  const isa_op_row *o = &isa_ops[op];
  put_syntax(op, out);
  isa_buf_printf(out, "  meaning    %s\n", o->meaning);
  isa_buf_puts(out, "  engines    ");
  put_engine_names(o->engines, out);
  isa_buf_puts(out, "\n");
  as_put_from(o->gen, out);
  isa_buf_printf(out, "  profiler   %s\n", o->profile_name);
  isa_buf_printf(out, "  status     %s\n",
                 o->status == ISA_DONE ? "built" : "assembled; a machine refuses it as not built");
  if (o->status == ISA_DONE) {
    /* What it does is said only where a machine does it; the encoding follows in any
     * case. */
    put_prose("does", isa_op_pseudo(op), out);
    put_prose("types", isa_rule_types(o->rule), out);
    /* Most instructions have rules of their own before those that all data paths share. */
    if (o->rule != ISA_RULE_NONE) put_prose("rules", isa_rule_text(o->rule), out);
    if (has_data_path(op)) put_prose("operands", isa_rule_text(ISA_RULE_NONE), out);
    put_prose("decided", isa_op_decided(op), out);
    put_time(op, out);
  }
  put_encoding(op, out);
}

/* The codes that operands have. */
static void put_tables(isa_buf *out) {
  isa_buf_puts(out, "\n## Operators\n\nNot in hardware: assembled with `-w-no-hardware-op`.\n\n"
                    "| code | operator | on | operands | reduces | engines | from | in hardware |\n"
                    "|---|---|---|---|---|---|---|---|\n");
  for (unsigned i = 0; i < ISA_NALUOPS; i++) {
    const isa_aluop_row *r = &isa_aluops[i];
    /* "on": what the operator needs of its operands, whichever engine runs it. */
    isa_buf_printf(out, "| %u | %s | %s | %u | %s | ", i, r->name,
                   r->cls == ISA_OP_BIT     ? "bits"
                   : r->cls == ISA_OP_ARITH ? "numbers"
                                            : "both",
                   r->arity, r->reduces ? "yes" : "");
    put_engine_names(r->engines, out);
    /* Operators without an instruction of their own: ISA_NOPS asks for the operator in
     * all instructions. */
    const char *unsupported = isa_op_unsupported(ISA_NOPS, i);
    isa_buf_printf(out, " | gen%u | %s%s%s |\n", r->gen, r->in_hardware ? "yes" : "no",
                   unsupported ? "; " : "", unsupported ? unsupported : "");
  }
  isa_buf_puts(
      out, "\n## Activation functions\n\nThe limits of reciprocal are those of the magnitude.\n\n| "
           "code | function | least valid | greatest | from |\n"
           "|---|---|---|---|---|\n");
  for (unsigned i = 0; i < ISA_NACTFNS; i++)
    /* As hexadecimal floats, which give back the same bits: the limits are not round in
     * decimal. */
    isa_buf_printf(out, "| %u | %s | %a | %a | gen%u |\n", i, isa_actfns[i].name,
                   (double)isa_actfns[i].lo, (double)isa_actfns[i].hi, isa_actfns[i].gen);
  isa_buf_puts(out, "\n## Types\n\n| code | type | bits |\n|---|---|---|\n");
  /* Code 0 stands for no type. */
  for (unsigned i = 1; i < ISA_NDTYPES; i++)
    isa_buf_printf(out, "| %u | %s | %u |\n", i, isa_dtypes[i].name, isa_dtypes[i].bits);
}

void as_manual(isa_buf *out) {
  isa_buf_puts(out, "# Instructions\n\nMade by `soma-as --manual` from the tables of this folder; "
                    "[README.md](README.md) has what is common to all.\n");
  /* In order of the table, so that the text changes only where the table does. */
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    isa_buf_printf(out, "\n## %s\n\n```\n", isa_ops[op].name);
    explain_op(op, out);
    isa_buf_puts(out, "```\n");
  }
  put_tables(out);
}

/* ---- Pseudo-instructions and directives --------------------------------------------------- */

static void explain_pseudo(int ps, isa_buf *out) {
  as_stmt st;
  memset(&st, 0, sizeof st);
  /* All operands at their defaults, to ask which slots there are. */
  as_pseudo_open(ps, &st);
  isa_buf_puts(out, as_pseudo_name(ps));
  for (unsigned i = 0, n = 0; i < st.nslots; i++) {
    const as_slot *s = &st.slot[i];
    /* Two parts can share a slot, as the destination of one that is the source of the
     * next; it shows once. */
    if (s->owner != i) continue;
    isa_buf_printf(out, mode_format[s->mode], n++ ? ", " : " ", s->name);
  }
  isa_buf_puts(out, "\n  becomes    ");
  for (unsigned i = 0; i < st.nparts; i++)
    isa_buf_printf(out, "%s%s", i ? ", " : "", isa_ops[st.part[i].op].name);
  isa_buf_puts(out, "\n");
  /* Here each slot shows, so that a shared one tells all the fields it fills. */
  for (unsigned i = 0; i < st.nslots; i++)
    isa_buf_printf(out, "  %-18s is %s of %s\n", st.slot[i].name, st.slot[i].f->name,
                   isa_ops[st.part[st.slot[i].part].op].name);
}

/* The words of a section: directives and what else begins a line. */
static const struct {
  const char *name, *text;
} words[] = {
#define WORD(name, is, text) {#name, text},
#include "../../isa/words.def"
};
enum { NWORDS = sizeof words / sizeof words[0] };

static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A word of a directive, such as `rings` of queue: the directives that have it.
 * The length is at least two: one letter would be found in too many places. */
static bool explain_keyword(const char *name, size_t n, isa_buf *out) {
  bool any = false;
  for (int i = 0; i < NWORDS && n > 1; i++) {
    const char *text = words[i].text, *at = text;
    /* Occurrences inside of a longer word are passed over; the loop ends at a whole
     * one, or at none. */
    while ((at = strstr(at, name)) != NULL &&
           /* Only whole words: `ring` is in `rings`. */
           ((at > text && is_name_char(at[-1])) || is_name_char(at[n])))
      at++;
    if (!at) continue;
    isa_buf_printf(out, "%s of `%s`: %s\n", name, words[i].name, text);
    any = true;
  }
  return any;
}

bool as_explain(const char *text, isa_buf *out) {
  /* Longer names do not exist; what is cut off would not be found either. */
  char name[128];
  size_t n = strlen(text);
  if (n > 1 && text[n - 1] == '=') n--; /* an operand as it is written */
  snprintf(name, sizeof name, "%.*s", (int)n, text);
  n = strlen(name);
  /* A pseudo-instruction never has the name of an instruction, so the second is asked
   * only without the first. */
  int op = isa_op_find(name, n), ps = op < 0 ? as_pseudo_find(name, n) : -1;
  bool found = op >= 0 || ps >= 0;
  if (op >= 0)
    explain_op((unsigned)op, out);
  else if (ps >= 0)
    explain_pseudo(ps, out);
  for (int i = 0; i < NWORDS && !found; i++)
    if ((found = strcmp(words[i].name, name) == 0)) isa_buf_printf(out, "%s\n", words[i].text);
  /* All meanings are shown, for `add` may be an operator and part of another list too. */
  if (as_explain_name(name, out) || found || explain_keyword(name, n, out)) return true;
  /* Nothing found: the nearest name of any sort, as diagnostics suggest one. */
  as_near w = as_near_open(name, n);
  for (unsigned i = 0; i < ISA_NOPS; i++) as_near_try(&w, isa_ops[i].name);
  as_pseudo_near(&w);
  for (int i = 0; i < NWORDS; i++) as_near_try(&w, words[i].name);
  for (unsigned i = 0; i < ISA_NALUOPS; i++) as_near_try(&w, isa_aluops[i].name);
  for (unsigned i = 0; i < ISA_NACTFNS; i++) as_near_try(&w, isa_actfns[i].name);
  for (unsigned i = 1; i < ISA_NDTYPES; i++) as_near_try(&w, isa_dtypes[i].name);
  isa_buf_printf(out, "nothing is called `%.60s`", name);
  if (w.hit) isa_buf_printf(out, "; did you mean `%s`?", w.hit);
  /* The other command explains the machine's words; it is named where no spelling is
   * near. */
  if (!w.hit) isa_buf_puts(out, "; soma --explain has constants of the clock and checks");
  return false;
}

/* ---- All words ---------------------------------------------------------------------------- */

/* Only the names: a target's own values are not known without -t. */
static const char *const builtins[] = {
#define BUILTIN(name, value) #name,
#define TARGET_BUILTIN(name, value) #name,
#include "../text/builtins.def"
};

/* One word a line with its class before it: editors' grammars are made of these lines. */
static void word(isa_buf *out, const char *class, const char *name) {
  if (name) isa_buf_printf(out, "%s %s\n", class, name);
}

/* Names of operands, each once. */
static void operand_words(isa_buf *out) {
  for (unsigned f = 0; f < ISA_NFORMS; f++)
    for (unsigned i = 0; i < isa_forms[f].nfields; i++) {
      const isa_field *fd = &isa_forms[f].fields[i];
      /* Positional operands are never written by name. */
      bool seen = fd->mode == ISA_MODE_P;
      /* Quadratic, but there are few forms and it runs once. */
      for (unsigned g = 0; g <= f && !seen; g++)
        for (unsigned k = 0; k < (g < f ? isa_forms[g].nfields : i) && !seen; k++)
          seen = isa_forms[g].fields[k].mode != ISA_MODE_P &&
                 strcmp(isa_forms[g].fields[k].name, fd->name) == 0;
      if (!seen) word(out, "operand", fd->name);
    }
}

/* Functions of the preprocessor may share a name with a directive, which has shown it
 * then. */
static bool is_directive(const char *name) {
  static const char *const names[] = {
#define DIRECTIVE(id, name) name,
#include "../pp/directives.def"
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

void as_words(isa_buf *out) {
  for (unsigned i = 0; i < ISA_NOPS; i++) word(out, "instruction", isa_ops[i].name);
  /* Pseudo-instructions of several shapes have rows one after the other under one name. */
  for (int i = 0; as_pseudo_name(i); i++)
    if (i == 0 || strcmp(as_pseudo_name(i), as_pseudo_name(i - 1)) != 0)
      word(out, "pseudo", as_pseudo_name(i));
  /* The conditions come as six words each: %if, %ifn, %elif, %elifn and the functions
   * %is and %isn. */
  for (unsigned i = 0; i < NWORDS; i++) word(out, "directive", words[i].name);
#define DIRECTIVE(id, name) word(out, "preprocessor", name);
#define CONDITION(id, name)                \
  word(out, "preprocessor", "if" name);    \
  word(out, "preprocessor", "ifn" name);   \
  word(out, "preprocessor", "elif" name);  \
  word(out, "preprocessor", "elifn" name); \
  word(out, "preprocessor", "is" name);    \
  word(out, "preprocessor", "isn" name);
#define FUNCTION(id, name, least, most) \
  if (!is_directive(name)) word(out, "preprocessor", name);
#include "../pp/directives.def"
  for (unsigned i = 1; i < ISA_NDTYPES; i++) word(out, "type", isa_dtypes[i].name);
  for (unsigned i = 0; i < ISA_NALUOPS; i++) word(out, "operator", isa_aluops[i].name);
  for (unsigned i = 0; i < ISA_NACTFNS; i++) word(out, "function", isa_actfns[i].name);
  for (unsigned s = 0; s < ISA_NSETS; s++)
    for (unsigned i = 0; isa_set_item(s, i); i++) word(out, "value", isa_set_item(s, i));
  for (unsigned i = 0; i < ISA_NENGINES; i++) word(out, "engine", isa_engines[i].name);
  for (unsigned i = 0; i < ISA_NTARGETS; i++) word(out, "target", isa_targets[i].name);
  for (unsigned i = 1; i <= ISA_HBM; i++) word(out, "memory", isa_space_name(i));
  operand_words(out);
  for (unsigned i = 0; i < sizeof builtins / sizeof *builtins; i++)
    word(out, "builtin", builtins[i]);
}
