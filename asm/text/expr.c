/* Expressions: precedence climbing over a line's tokens, evaluated as they are read. */
#include "as.h"

#include <math.h>
#include <string.h>

/* The parser calls itself: deeper expressions could use up the host's stack. */
enum { MAX_DEPTH = 200, MAX_ARGS = 16 };

typedef struct eval {
  as_cur *c;
  unsigned depth;
  unsigned dead; /* > 0: the side of && || ?: that does not count is only parsed */
} eval;

static bool whole(eval *e, as_val *out);

/* Values carry their kind: an operator decides by both. */
static as_val int_val(int64_t i) { return (as_val){.kind = AS_V_INT, .i = i}; }
static as_val float_val(double f) { return (as_val){.kind = AS_V_FLOAT, .f = f}; }
static double as_double(const as_val *v) { return v->kind == AS_V_INT ? (double)v->i : v->f; }

static bool at(const eval *e, unsigned punct) {
  return e->c->t->kind == AS_T_PUNCT && e->c->t->punct == punct;
}

static bool take(eval *e, unsigned punct) {
  if (!at(e, punct)) return false;
  e->c->t++;
  return true;
}

/* Reports an error at a token unless the value does not count, and gives e->dead.
 * In `x != 0 && 10 / x` the right side must not fail for 0. */
static bool complain(eval *e, const as_tok *t, const char *text) {
  if (e->dead) return true;
  return as_error(e->c->j, t->pos, t->len, "%s", text);
}

static bool expected(eval *e, const char *what) {
  return as_expected(e->c->j, e->c->t, "%s", what);
}

/* Through memory: a cast of more than INT64_MAX is the compiler's choice. */
static int64_t wrap(uint64_t u) {
  int64_t i;
  memcpy(&i, &u, sizeof i);
  return i;
}

/* ---- Operators ---------------------------------------------------------------------------- */

enum { LEVEL_OR = 1, LEVEL_XOR, LEVEL_AND };
/* The level of an operator, 1 binds loosest; 0 when t is not one.
 * As in C, with ^^ between || and &&; // and %% are / and %. */
static unsigned level_of(const as_tok *t) {
  if (t->kind != AS_T_PUNCT) return 0;
  switch (t->punct) {
  case AS_P_OROR: return LEVEL_OR;
  case AS_P_XORXOR: return LEVEL_XOR;
  case AS_P_ANDAND: return LEVEL_AND;
  case '|': return 4;
  case '^': return 5;
  case '&': return 6;
  case '=':
  case AS_P_EQ:
  case AS_P_NE: return 7;
  case '<':
  case '>':
  case AS_P_LE:
  case AS_P_GE:
  case AS_P_CMP: return 8;
  case AS_P_SHL:
  case AS_P_SHR: return 9;
  case '+':
  case '-': return 10;
  case '*':
  case '/':
  case '%':
  case AS_P_IDIV:
  case AS_P_IMOD: return 11;
  default: return 0;
  }
}

/* A string is true if it has a character. */
static bool truth(const as_val *v) {
  return v->kind == AS_V_STR ? v->slen > 0 : v->kind == AS_V_INT ? v->i != 0 : v->f != 0;
}

static bool divide(eval *e, const as_tok *op, int64_t a, int64_t b, int64_t *out) {
  bool quotient = op->punct == '/' || op->punct == AS_P_IDIV;
  *out = 0;
  if (b == 0) return complain(e, op, "division by zero");
  /* INT64_MIN / -1 overflows, which C leaves undefined and x86 answers with a trap. */
  if (b == -1)
    *out = quotient ? wrap(0 - (uint64_t)a) : 0;
  else
    *out = quotient ? a / b : a % b;
  return true;
}

/* Shifts by 64 or more leave nothing, or the sign.
 * 1 << 64 is 0 here, not whatever the host's shifter gives. */
static bool shift(eval *e, const as_tok *op, int64_t a, int64_t b, int64_t *out) {
  *out = 0;
  if (b < 0) return complain(e, op, "shift by a negative count");
  if (op->punct == AS_P_SHL) {
    *out = b > 63 ? 0 : wrap((uint64_t)a << b);
  } else {
    uint64_t sign = a < 0 ? UINT64_MAX : 0;
    /* C's >> of a negative number is the compiler's choice; this one keeps the sign everywhere. */
    *out = b > 63 ? wrap(sign) : b == 0 ? a : wrap((uint64_t)a >> b | sign << (64 - b));
  }
  return true;
}

/* Sums wrap around, as 64-bit registers do. */
static bool int_op(eval *e, const as_tok *op, int64_t a, int64_t b, int64_t *out) {
  uint64_t x = (uint64_t)a, y = (uint64_t)b;
  switch (op->punct) {
  case '|': *out = wrap(x | y); return true;
  case '^': *out = wrap(x ^ y); return true;
  case '&': *out = wrap(x & y); return true;
  case '=':
  case AS_P_EQ: *out = a == b; return true;
  case AS_P_NE: *out = a != b; return true;
  case '<': *out = a < b; return true;
  case '>': *out = a > b; return true;
  case AS_P_LE: *out = a <= b; return true;
  case AS_P_GE: *out = a >= b; return true;
  case AS_P_CMP: *out = (a > b) - (a < b); return true;
  case AS_P_SHL:
  case AS_P_SHR: return shift(e, op, a, b, out);
  case '+': *out = wrap(x + y); return true;
  case '-': *out = wrap(x - y); return true;
  case '*': *out = wrap(x * y); return true;
  default: return divide(e, op, a, b, out);
  }
}

/* Comparisons give integers, so that %if can use them. */
static bool float_op(eval *e, const as_tok *op, double a, double b, as_val *out) {
  *out = float_val(0);
  switch (op->punct) {
  case '=':
  case AS_P_EQ: *out = int_val(a == b); return true;
  case AS_P_NE: *out = int_val(a != b); return true;
  case '<': *out = int_val(a < b); return true;
  case '>': *out = int_val(a > b); return true;
  case AS_P_LE: *out = int_val(a <= b); return true;
  case AS_P_GE: *out = int_val(a >= b); return true;
  case AS_P_CMP: *out = int_val((a > b) - (a < b)); return true;
  case '+': out->f = a + b; return true;
  case '-': out->f = a - b; return true;
  case '*': out->f = a * b; return true;
  case '/':
    /* An infinity here is a mistake more often than it is meant: `inf` says that one is. */
    if (b == 0) return complain(e, op, "division by zero");
    out->f = a / b;
    return true;
  default: return complain(e, op, "this operator needs integers");
  }
}

/* 'a' is both: a number, and a text of one character. */
static bool is_text(const as_val *v) { return v->kind == AS_V_STR || v->s; }

static bool apply(eval *e, const as_tok *op, const as_val *a, const as_val *b, as_val *out) {
  *out = int_val(0);
  if (a->kind == AS_V_STR || b->kind == AS_V_STR) {
    if (!is_text(a) || !is_text(b)) return complain(e, op, "a string and a number");
    bool equal = op->punct == AS_P_EQ || op->punct == '=';
    if (!equal && op->punct != AS_P_NE) return complain(e, op, "strings have only == and !=");
    bool same = a->slen == b->slen && memcmp(a->s, b->s, a->slen) == 0;
    /* Both are 0 or 1: equal, and whether that was asked. */
    out->i = same == equal;
    return true;
  }
  /* One float makes both floats, as in C. */
  if (a->kind == AS_V_FLOAT || b->kind == AS_V_FLOAT)
    return float_op(e, op, as_double(a), as_double(b), out);
  return int_op(e, op, a->i, b->i, &out->i);
}

/* ---- Built-in functions ------------------------------------------------------------------- */

/* align_up(a, b) and ceil_div(a, b): b is positive, and a as well for a result without surprise.
 * ceil_div(10, 4) is 3, align_up(10, 4) is 12. */
static bool round_up(eval *e, const as_tok *name, int64_t a, int64_t b, bool align, as_val *out) {
  if (a < 0 || b <= 0) return complain(e, name, "needs a >= 0 and b > 0");
  int64_t q = a / b + (a % b != 0);
  /* q * b is at least a, but may be beyond 64 bits although a is not. */
  if (align && q > INT64_MAX / b) return complain(e, name, "the result is beyond 64 bits");
  *out = int_val(align ? q * b : q);
  return true;
}

static bool fn_extreme(eval *e, const as_tok *name, const as_val *v, unsigned n, bool max,
                       as_val *out) {
  /* Compared as `<` compares, so that integers and floats may be mixed. */
  as_tok less = {.kind = AS_T_PUNCT, .punct = '<', .pos = name->pos, .len = name->len};
  *out = v[0];
  for (unsigned i = 1; i < n; i++) {
    as_val r;
    if (!apply(e, &less, max ? out : &v[i], max ? &v[i] : out, &r)) return false;
    if (r.i) *out = v[i];
  }
  return true;
}

/* terms.def has the functions with their text for the manual. */
enum fn {
#define CALL(id, name, least, most, takes, text) FN_##id,
#include "terms.def"
  FN_N
};
static const struct {
  const char *name;
  uint8_t least, most;
  uint8_t takes; /* kind of the arguments, 0: any number */
} fns[FN_N] = {
#define NUMBER 0
#define INT AS_V_INT
#define TEXT AS_V_STR
#define CALL(id, name, least, most, takes, text) {name, least, most, takes},
#include "terms.def"
#undef NUMBER
#undef INT
#undef TEXT
};

/* Few functions: a search by name is enough. */
static int find_fn(const as_tok *t) {
  for (int i = 0; i < FN_N; i++)
    if (strcmp(t->text, fns[i].name) == 0) return i;
  return -1;
}

static bool call_fn(eval *e, const as_tok *name, enum fn fn, const as_val *v, unsigned n,
                    as_val *out) {
  *out = int_val(0);
  switch (fn) {
  case FN_MIN: return fn_extreme(e, name, v, n, false, out);
  case FN_MAX: return fn_extreme(e, name, v, n, true, out);
  case FN_ABS:
    if (v->kind == AS_V_FLOAT)
      *out = float_val(v->f < 0 ? -v->f : v->f);
    else
      *out = int_val(v->i < 0 ? wrap(0 - (uint64_t)v->i) : v->i);
    return true;
  case FN_CEIL_DIV:
  case FN_ALIGN_UP: return round_up(e, name, v[0].i, v[1].i, fn == FN_ALIGN_UP, out);
  case FN_STRLEN: out->i = v->slen; return true;
  case FN_INT:
    /* -2^63 and 2^63: the conversion of anything beyond them is undefined in C. */
    if (v->kind == AS_V_INT)
      *out = *v;
    else if (v->f > -9223372036854775808.0 && v->f < 9223372036854775808.0)
      out->i = (int64_t)v->f;
    else
      return complain(e, name, "the value does not fit in 64 bits");
    return true;
  default: /* log2, rounded down */
    if (v->i <= 0) return complain(e, name, "needs a positive value");
    for (uint64_t u = (uint64_t)v->i; u > 1; u >>= 1) out->i++;
    return true;
  }
}

/* Also on a side that does not count: a wrong number of arguments is wrong anyway. */
static bool check_args(eval *e, const as_tok *name, enum fn fn, const as_val *v, unsigned n) {
  as_job *j = e->c->j;
  if (n < fns[fn].least || n > fns[fn].most)
    return as_error(j, name->pos, name->len, "`%s` takes %u argument%s%s, not %u", name->text,
                    fns[fn].least, fns[fn].least == 1 ? "" : "s",
                    fns[fn].most > fns[fn].least ? " or more" : "", n);
  for (unsigned i = 0; i < n && !e->dead; i++) {
    bool ok = fns[fn].takes == AS_V_STR ? is_text(&v[i])
              : fns[fn].takes           ? v[i].kind == fns[fn].takes
                                        : v[i].kind != AS_V_STR;
    if (ok) continue;
    return as_error(j, name->pos, name->len, "argument %u of `%s` is not %s", i + 1, name->text,
                    fns[fn].takes == AS_V_INT ? "an integer"
                    : fns[fn].takes           ? "a string"
                                              : "a number");
  }
  return true;
}

static bool function(eval *e, const as_tok *name, enum fn fn, as_val *out) {
  /* More are counted, and refused after the parenthesis. */
  as_val v[MAX_ARGS] = {{0}};
  unsigned n = 0;
  e->c->t += 2; /* name and parenthesis */
  if (!at(e, ')')) {
    do {
      as_val arg;
      if (!whole(e, &arg)) return false;
      /* Counted even if there is no room, so that the message has the number. */
      if (n < MAX_ARGS) v[n] = arg;
      n++;
    } while (take(e, ','));
  }
  if (!at(e, ')')) return expected(e, "`)` after the arguments");
  e->c->t++;
  return check_args(e, name, fn, v, n) && (e->dead || call_fn(e, name, fn, v, n, out));
}

/* ---- Names -------------------------------------------------------------------------------- */

/* A target line may come later, so its parameters have no value before. */
static bool need_target(eval *e, const as_tok *name) {
  if (e->c->j->target) return true;
  /* The side that does not count reports nothing. */
  return !e->dead && as_error(e->c->j, name->pos, name->len,
                              "`%s` needs a target: none is known yet", name->text);
}

/* A parameter of the machine: 0 not one, 1 filled, -1 reported. */
static int builtin(eval *e, const as_tok *name, as_val *out) {
  const isa_target *T = e->c->j->target;
  if (strcmp(name->text, "inf") == 0)
    *out = float_val((double)INFINITY);
  else if (strcmp(name->text, "nan") == 0)
    *out = float_val((double)NAN);
  /* All parameters begin with two underscores: others need no search. */
  else if (name->text[0] != '_' || name->text[1] != '_')
    return 0;
  else if (strcmp(name->text, "__TARGET__") == 0) {
    if (!need_target(e, name)) return -1;
    *out = (as_val){.kind = AS_V_STR, .s = T->name, .slen = (uint32_t)strlen(T->name)};
  }
#define BUILTIN(id, value) else if (strcmp(name->text, #id) == 0) *out = int_val(value);
#define TARGET_BUILTIN(id, value)          \
  else if (strcmp(name->text, #id) == 0) { \
    if (!need_target(e, name)) return -1;  \
    *out = int_val((int64_t)(value));      \
  }
#include "builtins.def"
  else
    return 0;
  return 1;
}

static bool unknown_name(eval *e, const as_tok *name) {
  as_job *j = e->c->j;
  const char *near = j->name_near ? j->name_near(j, name->text, name->len) : NULL;
  as_error(j, name->pos, name->len,
           near ? "`%s` is not defined; did you mean `%s`?" : "`%s` is not defined", name->text,
           near);
  return false;
}

/* attr: after the dot, or the query's own name. */
static bool look_up(eval *e, const as_tok *name, const char *attr, const int64_t *index,
                    as_val *out) {
  as_job *j = e->c->j;
  /* Callers that go on after an error have an integer. */
  *out = int_val(0);
  /* The side that does not count may name what does not exist. */
  if (e->dead) return true;
  enum as_known k = j->name_value ? j->name_value(j, name, attr, index, out) : AS_UNKNOWN;
  /* Types have a size too, unless the program has something of that name. */
  if (k == AS_UNKNOWN && attr && strcmp(attr, "sizeof") == 0) {
    int d = isa_dtype_find(name->text, name->len);
    if (d > 0) *out = int_val(isa_dtype_bytes((unsigned)d));
    if (d > 0) return true;
  }
  return k == AS_KNOWN || (k == AS_UNKNOWN && unknown_name(e, name));
}

/* `sizeof(name)`, `addr(name)`.
 * sizeof(x) and x.sizeof are the same question. */
static bool query(eval *e, const as_tok *fn, as_val *out) {
  e->c->t += 2;
  const as_tok *name = e->c->t;
  if (name->kind != AS_T_NAME) return expected(e, "a name");
  e->c->t++;
  if (!at(e, ')')) return expected(e, "`)` after the name");
  e->c->t++;
  return look_up(e, name, fn->text, NULL, out);
}

static bool attribute(eval *e, const as_tok *name, as_val *out) {
  e->c->t++;
  const as_tok *attr = e->c->t;
  if (attr->kind != AS_T_NAME) return expected(e, "an attribute after `.`");
  e->c->t++;
  if (!take(e, '[')) return look_up(e, name, attr->text, NULL, out);
  as_val index;
  if (!whole(e, &index)) return false;
  if (!at(e, ']')) return expected(e, "`]` after the index");
  if (index.kind != AS_V_INT && !complain(e, e->c->t, "the index is not an integer")) return false;
  e->c->t++;
  return look_up(e, name, attr->text, &index.i, out);
}

/* A function needs its parenthesis: max alone is a name like any other. */
static bool name_value(eval *e, as_val *out) {
  const as_tok *name = e->c->t;
  /* A line ends with AS_T_END, so that there is a token after a name. */
  bool call = name[1].kind == AS_T_PUNCT && name[1].punct == '(';
  if (call && (strcmp(name->text, "sizeof") == 0 || strcmp(name->text, "addr") == 0))
    return query(e, name, out);
  int fn = call ? find_fn(name) : -1;
  if (fn >= 0) return function(e, name, (enum fn)fn, out);
  e->c->t++;
  if (at(e, '.')) return attribute(e, name, out);
  *out = int_val(0); /* for the side that does not count */
  int b = builtin(e, name, out);
  if (b < 0 && e->dead) return true;
  return b ? b > 0 : look_up(e, name, NULL, NULL, out);
}

/* ---- Grammar ------------------------------------------------------------------------------ */

/* In single quotes up to 8 bytes are also a number, little endian.
 * 'ab' is 0x6261: the first byte is the lowest. */
static as_val text_val(const as_tok *t) {
  as_val v = {.kind = AS_V_STR, .s = t->text, .slen = t->len};
  if (t->punct != '\'' || t->len == 0 || t->len > 8) return v;
  uint64_t bits = 0;
  for (uint32_t i = t->len; i-- > 0;) bits = bits << 8 | (unsigned char)t->text[i];
  v.kind = AS_V_INT;
  v.i = wrap(bits);
  return v;
}

static bool primary(eval *e, as_val *out) {
  const as_tok *t = e->c->t;
  switch (t->kind) {
  case AS_T_INT: *out = int_val(t->v.ival); break;
  case AS_T_FLOAT: *out = float_val(t->v.fval); break;
  case AS_T_STR: *out = text_val(t); break;
  case AS_T_NAME: return name_value(e, out);
  default:
    /* NASM's sign for the address of the present line. */
    if (at(e, '$'))
      return as_error(e->c->j, t->pos, 1,
                      "`$` does not stand for the address of this code: write a label");
    if (!take(e, '(')) return expected(e, "an expression");
    if (!whole(e, out)) return false;
    if (!at(e, ')')) return expected(e, "`)`");
  }
  e->c->t++;
  return true;
}

/* + takes no part below: it only asks for a number. */
static bool negate(eval *e, const as_tok *op, as_val *v) {
  if (v->kind == AS_V_STR && op->punct != '!') {
    *v = int_val(0);
    return complain(e, op, "this operator needs a number");
  }
  /* A character with a sign is a number and nothing else. */
  v->s = NULL;
  if (op->punct == '!')
    *v = int_val(!truth(v));
  else if (op->punct == '~' && v->kind == AS_V_FLOAT) {
    *v = int_val(0);
    return complain(e, op, "this operator needs an integer");
  } else if (op->punct == '~')
    v->i = wrap(~(uint64_t)v->i);
  else if (op->punct == '-' && v->kind == AS_V_FLOAT)
    v->f = -v->f;
  else if (op->punct == '-')
    v->i = wrap(0 - (uint64_t)v->i);
  return true;
}

/* Signs in a row are calls in a row: their depth is bounded. */
static bool unary(eval *e, as_val *out) {
  const as_tok *op = e->c->t;
  bool prefix = op->kind == AS_T_PUNCT && op->punct < 256 && strchr("+-~!", op->punct) != NULL;
  if (!prefix) return primary(e, out);
  e->c->t++;
  if (++e->depth > MAX_DEPTH)
    return as_error(e->c->j, op->pos, 1, "the expression is nested deeper than %d", MAX_DEPTH);
  bool ok = unary(e, out) && negate(e, op, out);
  e->depth--;
  return ok;
}

static bool binary(eval *e, unsigned level, as_val *out);

/* && and ||: the right side counts only when the left one does not decide. ^^ needs both.
 * The left side alone may decide; the other one is still parsed. */
static bool logical(eval *e, const as_tok *op, as_val *left) {
  bool is_or = op->punct == AS_P_OROR, is_xor = op->punct == AS_P_XORXOR;
  bool decided = !is_xor && truth(left) == is_or, other = is_xor && truth(left);
  as_val right;
  e->dead += decided;
  /* One level up, as these operators take their left side first. */
  bool ok = binary(e, level_of(op) + 1, &right);
  e->dead -= decided;
  *left = int_val(decided ? is_or : ok && truth(&right) != other);
  return ok;
}

/* Climbing: an operator that binds tighter than `level` takes what follows. */
static bool binary(eval *e, unsigned level, as_val *out) {
  if (++e->depth > MAX_DEPTH)
    return as_error(e->c->j, e->c->t->pos, 1, "the expression is nested deeper than %d", MAX_DEPTH);
  bool ok = unary(e, out);
  /* Left to right: a - b - c is (a - b) - c. */
  for (unsigned l; ok && (l = level_of(e->c->t)) >= level;) {
    const as_tok *op = e->c->t++;
    as_val left = *out, right;
    if (l <= LEVEL_AND)
      ok = logical(e, op, out);
    else
      ok = binary(e, l + 1, &right) && apply(e, op, &left, &right, out);
  }
  e->depth--;
  return ok;
}

/* `condition ? a : b`, from the right; the value that is not chosen is only parsed.
 * Only one of a and b is computed: the other may divide by zero. */
static bool whole(eval *e, as_val *out) {
  if (!binary(e, LEVEL_OR, out)) return false;
  if (!at(e, '?')) return true;
  bool yes = truth(out);
  as_val a, b;
  if (++e->depth > MAX_DEPTH)
    return as_error(e->c->j, e->c->t->pos, 1, "the expression is nested deeper than %d", MAX_DEPTH);
  e->c->t++;
  e->dead += !yes;
  bool ok = whole(e, &a);
  e->dead -= !yes;
  if (ok && !take(e, ':')) return expected(e, "`:` of `? :`");
  e->dead += yes;
  ok = ok && whole(e, &b);
  e->dead -= yes;
  e->depth--;
  if (ok) *out = yes ? a : b;
  return ok;
}

bool as_expr(as_cur *c, as_val *out) {
  eval e = {.c = c};
  *out = (as_val){0};
  return whole(&e, out);
}

/* For sizes, counts and places, which are whole. */
bool as_expr_int(as_cur *c, int64_t *out) {
  const as_tok *start = c->t;
  as_val v;
  if (!as_expr(c, &v)) return false;
  if (v.kind == AS_V_INT) {
    *out = v.i;
    return true;
  }
  as_error(c->j, start->pos, start->len, "expected an integer, not a %s",
           v.kind == AS_V_STR ? "string" : "float");
  if (start->kind == AS_T_STR && start->punct == '\'')
    as_note(c->j, (as_pos){0}, "in single quotes 1 to 8 bytes are a number");
  return false;
}
