/* One operand by the kind of its field, into the member of the instruction. */
#include "stmt.h"

#include <string.h>

enum { MAX_LIST = 4096 }; /* the longest list of any form */

/* The word is shown as written, with the nearest that is known. */
static bool bad_name(as_cur *c, const char *what, const as_near *w) {
  return as_error(c->j, c->t->pos, c->t->len, "unknown %s %s%s", what, as_tok_show(c->j, c->t),
                  w->hit ? as_near_text(c->j, w) : "");
}

static bool need_name(as_cur *c, const char *what) {
  if (as_at_name(c)) return true;
  return as_expected(c->j, c->t, "%s", what);
}

static bool value_reg(as_cur *c, uint8_t *out) {
  int reg = as_tok_reg(c->t);
  if (reg < 0) return as_expected(c->j, c->t, "a register (r0 to r%d)", ISA_NREGS - 1);
  c->t++;
  *out = (uint8_t)reg;
  return true;
}

bool as_int(as_cur *c, isa_int *out) {
  int reg = as_tok_reg(c->t);
  if (reg >= 0) {
    c->t++;
    *out = (isa_int){true, reg};
    return true;
  }
  int64_t v;
  /* -1 and 0xffffffff are the same 32 bits. */
  if (!as_int_in(c, "the immediate", INT32_MIN, UINT32_MAX, &v)) return false;
  uint32_t bits = (uint32_t)v;
  *out = (isa_int){.is_reg = false};
  memcpy(&out->v, &bits, sizeof bits);
  return true;
}

/* Whether an integer has at most 24 significant bits. */
static bool exact_in_f32(int64_t v) {
  /* Without overflow for the least integer. */
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  /* Zeros at its end are the exponent's. */
  while (u > (1u << 24) && (u & 1) == 0) u >>= 1;
  return u <= (1u << 24);
}

static uint32_t f32_of(as_val v) {
  uint32_t bits = isa_f32_bits(v.kind == AS_V_INT ? (float)v.i : (float)v.f);
  /* A NaN gets the bits that the machine gives one, and keeps its sign. */
  return (bits & 0x7fffffff) > 0x7f800000 ? (bits & 0x80000000) | 0x7fc00000 : bits;
}

static void warn_inexact(as_job *j, as_pos pos, uint32_t span, int64_t v) {
  if (exact_in_f32(v)) return;
  as_warning(j, "inexact-float", pos, span, "%lld is not a float32; it becomes %.9g", (long long)v,
             (double)(float)v);
}

void as_warn_infinite(as_job *j, as_pos pos, uint32_t span, double v, unsigned dtype) {
  /* The largest double: what is beyond it was infinite before. */
  const double most = 1.7976931348623157e308;
  float f = isa_to_f32(dtype, isa_from_f32(dtype, (float)v, 0));
  /* One that is infinite or a NaN itself was meant. */
  if (v < -most || v > most || v != v || (f - f) == 0) return;
  as_warning(j, "inexact-float", pos, span, "%.9g is beyond the range of %s; it becomes %g", v,
             isa_dtypes[dtype].name, (double)f);
}

/* A number, or float(0x7fc00001): the bits themselves. *v is of kind NONE after the latter. */
static bool f32_value(as_cur *c, as_val *v, uint32_t *bits) {
  const as_tok *at = c->t;
  /* The form in which soma-dis writes a NaN with bits of its own. */
  if (as_tok_is(at, "float") && at[1].kind == AS_T_PUNCT && at[1].punct == '(') {
    int64_t i;
    *v = (as_val){.kind = AS_V_NONE};
    c->t += 2;
    if (!as_int_in(c, "the bits of a float", 0, UINT32_MAX, &i)) return false;
    *bits = (uint32_t)i;
    return as_need(c, ')', "the bits of a float");
  }
  if (!as_expr(c, v)) return false;
  if (v->kind != AS_V_INT && v->kind != AS_V_FLOAT)
    return as_error(c->j, at->pos, as_span_of(at, c->t), "expected a number, not %s",
                    as_tok_show(c->j, at));
  *bits = f32_of(*v);
  /* An integer is told about when its use is known (as_num_finish). */
  if (v->kind == AS_V_FLOAT)
    as_warn_infinite(c->j, at->pos, as_span_of(at, c->t), v->f, ISA_float32);
  return true;
}

static bool value_num(as_cur *c, as_slot *s, isa_num *out) {
  int reg = as_tok_reg(c->t);
  if (reg >= 0) {
    c->t++;
    *out = (isa_num){ISA_NUM_reg, (uint32_t)reg};
    return true;
  }
  if (as_at_operand(c)) {
    out->kind = ISA_NUM_ap;
    return as_operand_parse(c, &out->v);
  }
  /* `none`: the operand is left out. */
  if (as_take_name(c, "none")) return true;
  as_val v;
  if (!f32_value(c, &v, &out->v)) return false;
  out->kind = ISA_NUM_imm;
  /* What is_int means is decided once the operator and the type are known. */
  s->is_int = v.kind == AS_V_INT;
  s->is_float = v.kind == AS_V_FLOAT;
  s->i = v.i;
  return true;
}

/* The operator that an immediate goes to: imm0 has op0, imm has op. Gives its code, -1: none. */
static int operator_of(const as_stmt *st, const as_slot *s) {
  const isa_form *f = isa_form_of(st->part[s->part].op);
  /* Only immediates go through an operator.
   * imm0 belongs to op0, imm1 to op1. */
  if (strncmp(s->f->name, "imm", 3) != 0) return -1;
  for (unsigned i = 0; i < f->nfields; i++)
    if (f->fields[i].kind == ISA_K_ALU && strncmp(f->fields[i].name, "op", 2) == 0 &&
        strcmp(f->fields[i].name + 2, s->f->name + 3) == 0)
      return *(const uint8_t *)isa_member_c(&st->part[s->part], &f->fields[i]);
  return -1;
}

/* The type of what a memset fills, 0 of other instructions. The verifier refuses 64 bits. */
static unsigned filled_type(as_job *j, const as_stmt *st, const as_slot *s) {
  const isa_insn *in = &st->part[s->part];
  uint32_t dst = in->op == ISA_OP_memset ? in->u.MEMSET.dst : 0;
  /* The destination comes first in the line, so its pattern is there already. */
  unsigned type = dst ? as_program(j)->cores[j->unit->core].aps[dst - 1].dtype : 0;
  return isa_dtype_bytes(type) > 4 ? 0 : type;
}

static bool finish_filling(as_job *j, const as_slot *s, isa_num *n, unsigned type) {
  const char *name = isa_dtypes[type].name;
  /* The value is checked against the type that it fills. */
  int64_t least = isa_dtype_least(type), greatest = isa_dtype_greatest(type);
  if (s->is_float)
    as_error(j, s->pos, s->span, "%s is filled with an integer, not %.9g", name,
             /* Filling int8 with 0.5 would be a rounding that nobody asked for. */
             (double)isa_bits_f32(n->v));
  else if (s->i < least || s->i > greatest)
    as_error(j, s->pos, s->span, "%lld: %s holds %lld to %lld", (long long)s->i, name,
             (long long)least, (long long)greatest);
  n->v = (uint32_t)s->i;
  return !s->is_float && s->i >= least && s->i <= greatest;
}

bool as_num_finish(as_job *j, as_stmt *st, as_slot *s) {
  /* A register, a pattern or bits: there is nothing to convert. */
  if (!s->is_int && !s->is_float) return true;
  isa_num *n = isa_member(&st->part[s->part], s->f);
  unsigned type = filled_type(j, st, s);
  if (type && isa_fills_bits(type)) return finish_filling(j, s, n, type);
  /* A float stays what it is; for bits it was written as float(0x...). */
  if (s->is_float) return true;
  int op = operator_of(st, s);
  /* An operator on bits takes the integer's bits, all others its value. */
  if (op < 0 || isa_aluops[op].cls != ISA_OP_BIT) {
    warn_inexact(j, s->pos, s->span, s->i);
    return true;
  }
  if (s->i < INT32_MIN || s->i > UINT32_MAX)
    return as_error(j, s->pos, s->span, "%lld does not fit the 32 bits that %s works on",
                    (long long)s->i, isa_aluops[op].name);
  n->v = (uint32_t)s->i;
  return true;
}

static bool value_uint(as_cur *c, const as_slot *s, int64_t lo, int64_t hi, int64_t *out) {
  const as_tok *at = c->t;
  /* A frequent slip: other operands of the same line take registers. */
  if (as_tok_reg(at) >= 0) {
    as_error(c->j, at->pos, at->len, "%s is a number in the instruction; it cannot be a register",
             s->name);
    return false;
  }
  if (!as_expr_int(c, out)) return false;
  if (*out >= lo && *out <= hi) return true;
  as_error(c->j, at->pos, as_span_of(at, c->t), "%s is %lld; it must be from %lld to %lld", s->name,
           (long long)*out, (long long)lo, (long long)hi);
  return false;
}

static bool value_enum(as_cur *c, const as_slot *s, uint8_t *out) {
  unsigned set = s->f->arg;
  /* 0 and 1 stand for false and true, as macros compute them. */
  if (set == ISA_SET_BOOL && c->t->kind == AS_T_INT && (uint64_t)c->t->v.ival <= 1) {
    *out = (uint8_t)c->t++->v.ival;
    return true;
  }
  if (!need_name(c, isa_set_name(set))) return false;
  int item = isa_set_find(set, c->t->text, strlen(c->t->text));
  /* The table's item is its code. */
  if (item < 0) {
    /* All members: the sets are small. */
    char list[160] = "";
    size_t n = 0;
    for (unsigned i = 0; isa_set_item(set, i) && n + 40 < sizeof list; i++) {
      const char *name = isa_set_item(set, i);
      if (i > 0) n += (size_t)(strcpy(list + n, ", "), 2);
      memcpy(list + n, name, strlen(name) + 1);
      n += strlen(name);
    }
    as_error(c->j, c->t->pos, c->t->len, "unknown %s `%s`; one of %s", isa_set_name(set),
             c->t->text, list);
    return false;
  }
  c->t++;
  *out = (uint8_t)item;
  return true;
}

static bool value_alu(as_cur *c, uint8_t *out) {
  if (!need_name(c, "an operator")) return false;
  int op = isa_aluop_find(c->t->text, strlen(c->t->text));
  if (op < 0) {
    as_near w = as_near_open(c->t->text, strlen(c->t->text));
    /* Code numbers without a row have no name. */
    for (unsigned i = 0; i < ISA_NALUOPS; i++)
      if (isa_aluops[i].name) as_near_try(&w, isa_aluops[i].name);
    return bad_name(c, "operator", &w);
  }
  c->t++;
  *out = (uint8_t)op;
  return true;
}

static bool value_fn(as_cur *c, uint8_t *out) {
  if (!need_name(c, "an activation function")) return false;
  int fn = isa_actfn_find(c->t->text, strlen(c->t->text));
  if (fn < 0) {
    as_near w = as_near_open(c->t->text, strlen(c->t->text));
    for (unsigned i = 0; i < ISA_NACTFNS; i++)
      if (isa_actfns[i].name) as_near_try(&w, isa_actfns[i].name);
    return bad_name(c, "activation function", &w);
  }
  c->t++;
  *out = (uint8_t)fn;
  return true;
}

static bool value_queue(as_cur *c, uint8_t *out) {
  if (!need_name(c, "a queue")) return false;
  const as_sym *s = as_sym_need(c->j, c->t, 1 << AS_S_QUEUE);
  if (!s) return false;
  /* A queue of core 0 does not exist for an engine of core 1. */
  if (s->core != c->j->unit->core && s->core != AS_BOTH)
    return as_error(c->j, c->t->pos, c->t->len,
                    "the queue `%s` belongs to core %u, but this section to core %u", s->name,
                    s->core, c->j->unit->core);
  c->t++;
  /* One of both cores may have different numbers on them. */
  *out = s->u.queue[c->j->unit->core];
  return true;
}

static bool value_group(as_cur *c, uint8_t *out) {
  if (!need_name(c, "replica groups")) return false;
  const as_sym *s = as_sym_need(c->j, c->t, 1 << AS_S_GROUP);
  if (!s) return false;
  c->t++;
  *out = (uint8_t)s->index;
  return true;
}

/* The semaphore of a barrier, which both cores have, by name or by number. */
static bool value_sem(as_cur *c, const as_stmt *st, const as_slot *s, uint8_t *out) {
  const as_tok *at = c->t;
  int64_t v;
  /* A constant of the same value is a number, and not this. */
  const as_sym *y = as_at_name(c) ? as_sym_find(c->j, at->text, 0) : NULL;
  if (y && y->kind == AS_S_SEM && y->core != AS_BOTH) {
    as_error(c->j, at->pos, at->len,
             "the semaphore of a barrier must belong to both cores; `%s` belongs to core %u",
             y->name, y->core);
    as_note(c->j, y->pos, "`%s sem core=*` gives it to both", y->name);
    return false;
  }
  /* A name alone; else it is a number in an expression. */
  as_cur after = {c->j, c->t + 1};
  bool named = y && y->kind == AS_S_SEM &&
               (as_at_end(&after) || as_at_punct(&after, ',') || as_at_punct(&after, '$'));
  if (named) {
    as_sym_need(c->j, c->t++, 1 << AS_S_SEM); /* it is used */
    v = y->index;
  } else if (!value_uint(c, s, 0, ISA_NSEMS - 1, &v)) {
    return false;
    /* The linker gives semaphores their numbers: one by number could get somebody else's. */
  } else if (c->j->o->relocatable) {
    /* The linker gives semaphores their numbers, and would not see this one. */
    as_error(c->j, at->pos, as_span_of(at, c->t),
             "an object cannot use a semaphore by number; declare it, as in `x sem %lld, core=*`",
             (long long)v);
    return false;
  }
  *out = (uint8_t)v;
  isa_barrier b;
  if (isa_insn_barrier(&st->part[s->part], c->j->unit->core, &b))
    as_note_barrier(c->j, &b, at->pos, as_span_of(at, c->t));
  return true;
}

static bool value_label(as_cur *c, as_stmt *st) {
  const as_tok *at = c->t;
  st->label = as_label_ref(c);
  /* Fixed when the label is defined, or at the end of the source. */
  st->label_pos = at->pos;
  st->label_span = as_span_of(at, c->t);
  return st->label != NULL;
}

/* `gpsimd.sum`: its label becomes known as a branch's does. */
static bool value_place(as_cur *c, as_stmt *st, isa_point *out) {
  const as_tok *at = c->t;
  unsigned engine;
  st->label = as_place_ref(c, &engine);
  st->label_pos = at->pos;
  st->label_span = as_span_of(at, c->t);
  if (!st->label) return false;
  out->engine = (uint8_t)engine;
  return true;
}

/* ---- Lists -------------------------------------------------------------------------------- */

static bool to_pool(as_cur *c, const void *data, uint32_t n, unsigned kind, isa_ref *out) {
  /* Equal lists are one place of the pool. */
  if (!isa_program_pool(as_program(c->j), data, n, isa_kind_elem[kind], out)) as_nomem(c->j);
  return true;
}

static bool value_string(as_cur *c, const as_slot *s, isa_ref *out) {
  if (c->t->kind != AS_T_STR)
    return as_error(c->j, c->t->pos, c->t->len, "%s is a string in quotes, not %s", s->name,
                    as_tok_show(c->j, c->t));
  const as_tok *t = c->t++;
  return to_pool(c, t->text, t->len, ISA_K_STR, out);
}

static bool value_steps(as_cur *c, const as_slot *s, isa_ref *out) {
  int64_t pair[16][2];
  isa_step step[16];
  unsigned n, max = s->f->arg && s->f->arg < 16 ? s->f->arg : 16;
  if (!as_steps(c, pair, max, &n)) return false;
  /* Padding is cleared: equal lists must be equal bytes. */
  memset(step, 0, sizeof step);
  for (unsigned i = 0; i < n; i++) step[i] = (isa_step){(int32_t)pair[i][0], (uint32_t)pair[i][1]};
  return to_pool(c, step, n, ISA_K_STEPS, out);
}

static bool f32_item(as_cur *c, uint32_t *out) {
  const as_tok *at = c->t;
  as_val v;
  if (!f32_value(c, &v, out)) return false;
  if (v.kind == AS_V_INT) warn_inexact(c->j, at->pos, as_span_of(at, c->t), v.i);
  return true;
}

/* `[0, 1]` of ranks. */
static bool pair_item(as_cur *c, uint32_t out[2]) {
  int64_t from, to;
  if (!as_need(c, '[', "the start of a list of [from, to] pairs") ||
      !as_int_in(c, "a rank", 0, INT32_MAX, &from) || !as_need(c, ',', "the rank that sends") ||
      !as_int_in(c, "a rank", 0, INT32_MAX, &to) || !as_need(c, ']', "the rank that receives"))
    return false;
  out[0] = (uint32_t)from;
  out[1] = (uint32_t)to;
  return true;
}

/* One element of a list, as its bytes in the low end of *out. */
static bool list_item(as_cur *c, const as_slot *s, uint32_t out[2]) {
  /* Two words: pairs need both, all other lists the first. */
  int64_t v = 0;
  switch (s->f->kind) {
  case ISA_K_PAIRS: return pair_item(c, out);
  case ISA_K_APS: return as_operand_parse(c, out);
  case ISA_K_F32S: return f32_item(c, out);
  case ISA_K_BYTES:
    if (!value_uint(c, s, 0, UINT8_MAX, &v)) return false;
    break;
  default:
    if (!value_uint(c, s, INT32_MIN, INT32_MAX, &v)) return false;
  }
  *out = (uint32_t)v;
  return true;
}

static bool value_list(as_cur *c, const as_slot *s, isa_ref *out) {
  unsigned kind = s->f->kind, size = isa_kind_elem[kind];
  uint32_t n = 0, cap = 0;
  uint8_t *data = NULL;
  bool ok = as_need(c, '[', s->name);
  /* An empty list is `[]`. */
  while (ok && !as_take(c, ']')) {
    uint32_t v[2];
    if (n > 0 && !as_need(c, ',', "an element of the list")) return false;
    if (n == MAX_LIST)
      return as_error(c->j, c->t->pos, c->t->len, "%s has more than %d elements", s->name,
                      MAX_LIST);
    if (!list_item(c, s, v)) return false;
    data = as_grow(c->j, data, n, 1, &cap, size);
    /* Bytes are one each, all others 32-bit numbers.
     * Little endian: the low byte of the word is the value. */
    uint8_t byte = (uint8_t)v[0];
    memcpy(data + (size_t)n++ * size, size == 1 ? (void *)&byte : (void *)v, size);
  }
  return ok && to_pool(c, data, n, kind, out);
}

/* ---- By kind ------------------------------------------------------------------------------ */

static bool value_number(as_cur *c, const as_slot *s, void *to) {
  int64_t v;
  /* Without a limit of its own the field is as wide as its kind. */
  int64_t hi = s->f->kind == ISA_K_U8    ? UINT8_MAX
               : s->f->kind == ISA_K_U16 ? UINT16_MAX
               : s->f->kind == ISA_K_U32 ? UINT32_MAX
                                         : INT32_MAX;
  /* The form's own limit may be lower. */
  if (s->f->arg && (int64_t)s->f->arg < hi) hi = s->f->arg;
  if (!value_uint(c, s, s->f->kind == ISA_K_I32 ? INT32_MIN : 0, hi, &v)) return false;
  if (s->f->kind == ISA_K_U8)
    *(uint8_t *)to = (uint8_t)v;
  else if (s->f->kind == ISA_K_U16)
    *(uint16_t *)to = (uint16_t)v;
  else if (s->f->kind == ISA_K_U32)
    *(uint32_t *)to = (uint32_t)v;
  else
    *(int32_t *)to = (int32_t)v;
  return true;
}

bool as_value(as_cur *c, as_stmt *st, as_slot *s) {
  void *to = isa_member(&st->part[s->part], s->f);
  switch (s->f->kind) {
  case ISA_K_REG: return value_reg(c, to);
  case ISA_K_INT: return as_int(c, to);
  case ISA_K_NUM: return value_num(c, s, to);
  case ISA_K_AP:
    if (as_take_name(c, "none")) return true;
    return as_operand_parse(c, to);
  case ISA_K_ENUM: return value_enum(c, s, to);
  case ISA_K_ALU: return value_alu(c, to);
  case ISA_K_ACTF: return value_fn(c, to);
  case ISA_K_LABEL: return value_label(c, st);
  case ISA_K_PLACE: return value_place(c, st, to);
  case ISA_K_QUEUE: return value_queue(c, to);
  case ISA_K_GROUP: return value_group(c, to);
  case ISA_K_SEM:
    /* A semaphore that is printed may have its $, as in a clause; a barrier's has none. */
    if (!s->f->arg && (as_at_name(c) || as_at_punct(c, '$'))) return as_own_sem(c, to);
    return value_sem(c, st, s, to);
  case ISA_K_STR: return value_string(c, s, to);
  case ISA_K_STEPS: return value_steps(c, s, to);
  case ISA_K_BYTES:
  case ISA_K_APS:
  case ISA_K_F32S:
  case ISA_K_PAIRS:
  case ISA_K_I32S: return value_list(c, s, to);
  default: return value_number(c, s, to);
  }
}
