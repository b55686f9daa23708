/* Expands the .def tables and looks names up in them. */
#include "isa.h"

#include <math.h>
#include <string.h>

/* The rows of opcodes.def, aluops.def and actfns.def name generations so. */
#define GEN2 ISA_GEN2
#define GEN3 ISA_GEN3
#define GEN4 ISA_GEN4

/* CC sequencers are no engines of the profile: their rows are here, behind those of
 * engines.def. */
const isa_engine_row isa_engines[ISA_NSEQS] = {
#define ENGINE(name, hw) {#name, hw},
#include "engines.def"
    {"cc0", "cc0"}, {"cc1", "cc1"}, {"cc2", "cc2"}};

/* The row's columns in the order of isa_target; the last two are the same in each
 * generation. */
const isa_target isa_targets[ISA_NTARGETS] = {
#define TARGET(name, gen, sbuf, usable, cores, stacks, gib, dma, rings, kt, kv, ks, kg, kb, hw, \
               mf, mb, cc)                                                                      \
  {#name, ISA_##name,           false, gen, sbuf, usable, cores,          stacks,  gib, dma,    \
   rings, {kt, kv, ks, kg, kb}, hw,    mf,  mb,   cc,     ISA_PSUM_BYTES, ISA_NDMA},
#include "targets.def"
};

const isa_way isa_ways[ISA_NWAYS] = {
#define WAY(first, last, a, b, space, bank, ordered) \
  {first, last, {ISA_ENG_##a, ISA_ENG_##b}, ISA_##space, bank, ordered},
#include "ways.def"
};

/* Code 0 has no row, so a zeroed field is no type. */
const isa_dtype_row isa_dtypes[ISA_NDTYPES] = {
#define DTYPE(name, code, bits, cls, e, m, lanes) \
  [code] = {#name, bits / 8, bits, ISA_##cls, e, m, lanes},
#include "dtypes.def"
};

const isa_aluop_row isa_aluops[ISA_NALUOPS] = {
#define ALUOP(name, code, cls, arity, red, eng, gen, hw) \
  [code] = {#name, ISA_OP_##cls, arity, ISA_MASK_##eng, gen, red, hw},
#include "aluops.def"
};

const isa_actfn_row isa_actfns[ISA_NACTFNS] = {
#define TABLE true
#define NO_TABLE false
#define ACTFN(name, code, lo, hi, gen, table) [code] = {#name, lo, hi, gen, table},
#include "actfns.def"
#undef TABLE
#undef NO_TABLE
};

/* enums.def is read twice: here for the names of the sets, below for their items. */
static const char *const set_names[ISA_NSETS] = {
#define SET(id, prose) prose,
#include "enums.def"
};

static const struct {
  uint8_t set;
  const char *name;
} set_items[] = {
#define ITEM(set, name) {ISA_SET_##set, #name},
#include "enums.def"
};

const uint8_t isa_kind_bytes[ISA_NKINDS] = {
#define KIND(name, type, bytes) bytes,
    ISA_KINDS(KIND)
#undef KIND
};

/* Lists lie in the pool; what is 0 here lies in the record itself. */
const uint8_t isa_kind_elem[ISA_NKINDS] = {
    [ISA_K_STR] = 1,  [ISA_K_BYTES] = 1, [ISA_K_STEPS] = 8, [ISA_K_APS] = 4,
    [ISA_K_F32S] = 4, [ISA_K_I32S] = 4,  [ISA_K_PAIRS] = 8,
};

/* Byte places: a struct of byte arrays has no padding, so offsetof in it is the running sum. */
#define FORM(id) struct place_##id {
#define FIELD(form, name, kind, mode, arg) uint8_t name[ISA_BYTES_##kind];
#define END(id) \
  uint8_t end_; \
  }             \
  ;
#define KIND(name, type, bytes) ISA_BYTES_##name = bytes,
enum { ISA_KINDS(KIND) ISA_BYTES_END };
#undef KIND
#include "forms.def"

/* Where operands begin in the record of an instruction, and how many bytes they may take. */
enum { OPERANDS_AT = 16, OPERAND_BYTES = 48 };
#define END(id) \
  _Static_assert(sizeof(struct place_##id) - 1 <= OPERAND_BYTES, #id " does not fit in a record");
#include "forms.def"

/* An ENUM field's arg is written as the set's name, any other kind's as flags or a number. */
#define ARG_ENUM(arg) ISA_SET_##arg
#define ARG_OTHER(arg) arg
#define ARG_REG ARG_OTHER
#define ARG_INT ARG_OTHER
#define ARG_NUM ARG_OTHER
#define ARG_AP ARG_OTHER
#define ARG_U8 ARG_OTHER
#define ARG_U16 ARG_OTHER
#define ARG_U32 ARG_OTHER
#define ARG_I32 ARG_OTHER
#define ARG_ALU ARG_OTHER
#define ARG_ACTF ARG_OTHER
#define ARG_LABEL ARG_OTHER
#define ARG_QUEUE ARG_OTHER
#define ARG_STR ARG_OTHER
#define ARG_BYTES ARG_OTHER
#define ARG_STEPS ARG_OTHER
#define ARG_APS ARG_OTHER
#define ARG_F32S ARG_OTHER
#define ARG_I32S ARG_OTHER
#define ARG_SEM ARG_OTHER
#define ARG_GROUP ARG_OTHER
#define ARG_PAIRS ARG_OTHER
#define ARG_PLACE ARG_OTHER

#define FORM(id) static const isa_field fields_##id[] = {
#define FIELD(form, name, kind, mode, arg)                                \
  {#name,                                                                 \
   ISA_K_##kind,                                                          \
   ISA_MODE_##mode,                                                       \
   (uint8_t)(OPERANDS_AT + offsetof(struct place_##form, name)),          \
   (uint16_t)(offsetof(isa_insn, u) + offsetof(struct isa_##form, name)), \
   (uint32_t)(ARG_##kind(arg))},
#define END(id)           \
  { NULL, 0, 0, 0, 0, 0 } \
  }                       \
  ;
#include "forms.def"

/* Numbers of fields, and masks of those that may name memory and of the ENUMs. */
#define FORM(id) enum {
#define FIELD(form, name, kind, mode, arg) FIELD_##form##_##name,
#define END(id)   \
  FIELD_##id##_N, \
  }               \
  ;               \
  _Static_assert(FIELD_##id##_N <= 16, "a mask of 16 fields");
#include "forms.def"
#define NAMES_MEMORY(kind) ((kind) == ISA_K_AP || (kind) == ISA_K_NUM || (kind) == ISA_K_APS)
#define FORM(id) enum { MEMORY_##id = 0
#define FIELD(form, name, kind, mode, arg) | NAMES_MEMORY(ISA_K_##kind) << FIELD_##form##_##name
#define END(id) \
  }             \
  ;
#include "forms.def"
#define FORM(id) enum { ENUMS_##id = 0
#define FIELD(form, name, kind, mode, arg) | (ISA_K_##kind == ISA_K_ENUM) << FIELD_##form##_##name
#define END(id) \
  }             \
  ;
#include "forms.def"

const isa_form isa_forms[ISA_NFORMS] = {
#define FORM(id) {#id, fields_##id, FIELD_##id##_N, MEMORY_##id, ENUMS_##id},
#include "forms.def"
};

/* The two lists of manual.def, each from a reading of its own. */
static const char *const pseudo[ISA_NOPS] = {
#define PSEUDO(name, lines) [ISA_OP_##name] = lines,
#include "manual.def"
};
static const char *const decided[ISA_NOPS] = {
#define DECIDED(name, lines) [ISA_OP_##name] = lines,
#include "manual.def"
};

static const char *const cost_texts[ISA_NCOSTS] = {
#define TIME(name, function, modes, lines) lines,
#include "times.def"
};

static const struct {
  const char *types, *lines;
} rules[ISA_NRULES] = {
#define RULE(name, function, types, lines) {types, lines},
#include "rules.def"
};

const char *isa_op_pseudo(unsigned op) { return op < ISA_NOPS ? pseudo[op] : NULL; }
const char *isa_op_decided(unsigned op) { return op < ISA_NOPS ? decided[op] : NULL; }

const char *isa_op_unsupported(unsigned op, unsigned alu) {
  /* ISA_OP_ANY: a row for all instructions, as unsupported.def writes it. */
  enum { ISA_OP_ANY = ISA_NOPS };
  static const struct {
    unsigned op, alu;
    const char *text;
  } rows[] = {
#define UNSUPPORTED(insn, operator, text) {ISA_OP_##insn, ISA_ALU_##operator, text },
#include "unsupported.def"
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].alu == alu && (rows[i].op == ISA_OP_ANY || rows[i].op == op)) return rows[i].text;
  return NULL;
}
const char *isa_rule_text(unsigned rule) { return rule < ISA_NRULES ? rules[rule].lines : NULL; }
const char *isa_rule_types(unsigned rule) { return rule < ISA_NRULES ? rules[rule].types : NULL; }
const char *isa_cost_text(unsigned cost) { return cost < ISA_NCOSTS ? cost_texts[cost] : NULL; }

const isa_state_use isa_state_uses[ISA_NOPS] = {
#define STATE(op, state, access, by_reduce) \
  [ISA_OP_##op] = {ISA_STATE_##state, ISA_STATE_##access, by_reduce},
#include "state.def"
};

/* Example: gpsimd has tensor_tensor too, but compiled kernels leave it to vector. */
unsigned isa_op_avoids(unsigned op, int gen) {
  static const struct {
    uint16_t op;
    uint8_t engine, first, last;
  } rows[] = {
#define AVOID(op, engine, first, last) {ISA_OP_##op, ISA_ENG_##engine, ISA_##first, ISA_##last},
#include "choice.def"
  };
  unsigned mask = 0;
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == op && gen >= rows[i].first && gen <= rows[i].last)
      mask |= 1u << rows[i].engine;
  return mask;
}

const isa_op_row isa_ops[ISA_NOPS] = {
#define INSN(name, number, eng, gen, form, rule, runs, cost, status, prof, text) \
  {#name,                                                                        \
   prof,                                                                         \
   text,                                                                         \
   number,                                                                       \
   ISA_MASK_##eng,                                                               \
   gen,                                                                          \
   ISA_FORM_##form,                                                              \
   ISA_RULE_##rule,                                                              \
   ISA_RUNS_##runs,                                                              \
   ISA_COST_##cost,                                                              \
   ISA_##status},
#include "opcodes.def"
};

int isa_op_by_number(unsigned number) {
  switch (number) { /* a number used twice is a compile error here */
#define INSN(name, number, eng, gen, form, rule, runs, cost, status, prof, text) \
  case number:                                                                   \
    return ISA_OP_##name;
#include "opcodes.def"
#undef INSN
  default: return -1;
  }
}

/* The name is not terminated: it is a part of the source text. */
static bool same(const char *row, const char *name, size_t n) {
  return row && strlen(row) == n && memcmp(row, name, n) == 0;
}

/* One loop for each table: the largest has about a hundred rows. */
#define FIND(fn, table, count)                    \
  int fn(const char *name, size_t n) {            \
    for (int i = 0; i < (int)(count); i++)        \
      if (same(table[i].name, name, n)) return i; \
    return -1;                                    \
  }
FIND(isa_target_find, isa_targets, ISA_NTARGETS)
FIND(isa_dtype_find, isa_dtypes, ISA_NDTYPES)
FIND(isa_aluop_find, isa_aluops, ISA_NALUOPS)
FIND(isa_actfn_find, isa_actfns, ISA_NACTFNS)
FIND(isa_op_find, isa_ops, ISA_NOPS)

/* 0 is no memory, as in a zeroed pattern. */
const char *isa_space_name(unsigned space) {
  static const char *const names[] = {"?", "sbuf", "psum", "hbm"};
  return names[space <= ISA_HBM ? space : 0];
}

const char *isa_set_name(unsigned set) { return set < ISA_NSETS ? set_names[set] : NULL; }

/* Items of all sets lie in one array, set after set. */
const char *isa_set_item(unsigned set, unsigned item) {
  /* item counts down over those of the set. */
  for (size_t i = 0; i < sizeof set_items / sizeof set_items[0]; i++)
    if (set_items[i].set == set && item-- == 0) return set_items[i].name;
  return NULL;
}

int isa_set_find(unsigned set, const char *name, size_t n) {
  const char *item;
  for (unsigned i = 0; (item = isa_set_item(set, i)) != NULL; i++)
    if (same(item, name, n)) return (int)i;
  return -1;
}

/* Directives, registers and types: a label or tile of that name could not be told from
 * them. */
bool isa_is_word(const char *s) {
  static const char *const words[] = {
#define WORD(word, is, text) #word,
#include "words.def"
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(words[i], s) == 0) return true;
  /* r0 to r63 are registers. */
  size_t digits = s[0] == 'r' ? strspn(s + 1, "0123456789") : 0;
  /* No leading zero: r07 is a name like any other. */
  bool two = digits == 2 && s[1] != '0' && (s[1] - '0') * 10 + s[2] - '0' < ISA_NREGS;
  bool reg = (digits == 1 || two) && !s[1 + digits];
  return reg || isa_dtype_find(s, strlen(s)) >= 0;
}

unsigned isa_edit_distance(const char *a, size_t na, const char *b, size_t nb, unsigned limit) {
  /* Names are shorter, and a hint for a longer one would not help. */
  enum { LONGEST = 64 };
  unsigned row[LONGEST + 1];
  /* Too long, or the lengths alone differ by more. */
  if (na > LONGEST || nb > LONGEST || (na > nb ? na - nb : nb - na) > limit) return limit + 1;
  for (size_t j = 0; j <= nb; j++) row[j] = (unsigned)j;
  /* Only the last row of the usual table is kept. */
  for (size_t i = 1; i <= na; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= nb; j++) {
      /* The old diagonal is the entry above to the left. */
      unsigned change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      unsigned gap = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
      row[j] = change < gap ? change : gap;
    }
  }
  return row[nb] <= limit ? row[nb] : limit + 1;
}
