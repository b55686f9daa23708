/* Names: a hash table over (interned name, scope), in order of declaration, and what to suggest
 * for a name that does not exist. */
#include "stmt.h"

#include <ctype.h>
#include <string.h>

struct as_symtab {
  as_sym *first, *last;
};

static const char *const kind_names[AS_S_KINDS] = {
    [AS_S_TENSOR] = "a tensor",        [AS_S_TILE] = "a tile",    [AS_S_SEM] = "a semaphore",
    [AS_S_QUEUE] = "a queue",          [AS_S_EQU] = "a constant", [AS_S_LABEL] = "a label",
    [AS_S_GROUP] = "a group of ranks",
};

const char *as_sym_kind_name(unsigned kind) { return kind_names[kind]; }

static struct as_symtab *table(as_job *j) {
  if (!j->syms) j->syms = as_new(j, sizeof *j->syms);
  return j->syms;
}

/* j is the job whose names these are; the table hangs on the interned text itself. */
as_sym *as_sym_find(as_job *j, const char *interned, unsigned scope) {
  (void)j;
  as_sym *s = as_name_of(interned)->sym;
  while (s && s->scope != scope) s = s->same;
  return s;
}

static as_sym *add(as_job *j, const char *interned, unsigned scope) {
  as_name *n = as_name_of(interned);
  as_sym *s = as_new(j, sizeof *s);
  s->name = interned;
  s->scope = (uint8_t)scope;
  s->same = n->sym;
  /* Labels of different sections may have one name: they stand in a list, told apart by
   * scope. */
  n->sym = s;
  return s;
}

as_sym *as_sym_get(as_job *j, const char *interned, unsigned scope, unsigned kind,
                   const as_tok *tok) {
  as_sym *s = as_sym_find(j, interned, scope);
  if (s) return s;
  /* Declared in the order of the source: messages and symbols follow it. */
  struct as_symtab *t = table(j);
  s = add(j, interned, scope);
  s->kind = (uint8_t)kind;
  s->pos = tok->pos;
  s->span = tok->len;
  if (t->last)
    t->last->next = s;
  else
    t->first = s;
  t->last = s;
  return s;
}

int as_word(as_job *j, const char *interned) {
  (void)j;
  as_name *name = as_name_of(interned);
  /* Looked up for each line of a program, so the answer stays with the text. */
  if (name->word == 0) {
    /* 0: not looked up yet; kept as word + 2, so that none is 1. */
    size_t n = name->len;
    int op = isa_op_find(interned, n), ps = op < 0 ? as_pseudo_find(interned, n) : -1;
    int dir = op < 0 && ps < 0 ? as_directive_find(interned) : -1;
    int word = op >= 0    ? op
               : ps >= 0  ? AS_WORD_PSEUDO + ps
               : dir >= 0 ? AS_WORD_DIRECTIVE + dir
                          : -1;
    name->word = (uint16_t)(word + 2);
  }
  return name->word - 2;
}

/* For callers that want to say something once about a name. */
bool *as_sym_mark(as_job *j, const char *interned) {
  (void)j;
  return &as_name_of(interned)->mark;
}

bool as_is_word(as_job *j, const char *interned) { return as_word(j, interned) >= 0; }

as_sym *as_sym_first(as_job *j) { return table(j)->first; }

as_sym *as_sym_define(as_job *j, unsigned kind, const as_tok *tok) {
  as_sym *old = as_sym_find(j, tok->text, 0);
  if (old) {
    /* The note shows the other place: it may be in another file. */
    as_error(j, tok->pos, tok->len, "`%s` is already %s", tok->text, kind_names[old->kind]);
    as_note(j, old->pos, "`%s` was declared here", tok->text);
    return NULL;
  }
  /* A dot belongs to labels, which are local to the one before. */
  if (tok->text[0] == '.') {
    as_error(j, tok->pos, tok->len, "`%s` is a local name; %s needs a name without a dot",
             tok->text, kind_names[kind]);
    return NULL;
  }
  const char *other = as_tok_reg(tok) >= 0                       ? "register"
                      : isa_dtype_find(tok->text, tok->len) >= 0 ? "data type"
                      : as_directive_find(tok->text) >= 0        ? "directive"
                                                                 : NULL;
  /* It would be read as that wherever it stands. */
  if (other) {
    as_error(j, tok->pos, tok->len, "`%s` is the name of a %s; choose another", tok->text, other);
    return NULL;
  }
  as_sym *s = as_sym_get(j, tok->text, 0, kind, tok);
  s->defined = true;
  return s;
}

/* ---- Did you mean ------------------------------------------------------------------------- */

/* The longer the name, the more slips it may have: 1, 2 or 3. */
as_near as_near_open(const char *want, size_t n) {
  return (as_near){.want = want, .n = n, .best = n < 5 ? 1 : n < 9 ? 2 : 3};
}

/* Two neighbours exchanged: the commonest slip, and two edits by distance. */
static bool swapped(const char *a, const char *b, size_t n) {
  /* Up to the first difference. */
  size_t i = 0;
  while (i < n && a[i] == b[i]) i++;
  return i + 1 < n && a[i] == b[i + 1] && a[i + 1] == b[i] &&
         memcmp(a + i + 2, b + i + 2, n - i - 2) == 0;
}

/* What other languages call a thing, with our word: fp32 is float32. */
static const char *const foreign_names[][2] = {
#define FOREIGN(theirs, ours) {#theirs, #ours},
#include "foreign.def"
};

static bool is_foreign_name(const char *want, size_t n, const char *name) {
  for (size_t i = 0; i < sizeof foreign_names / sizeof *foreign_names; i++)
    if (strlen(foreign_names[i][0]) == n && memcmp(foreign_names[i][0], want, n) == 0 &&
        strcmp(foreign_names[i][1], name) == 0)
      return true;
  return false;
}

static bool same_but_case(const char *a, const char *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i])) return false;
  return true;
}

void as_near_try(as_near *w, const char *name) {
  size_t n = strlen(name);
  /* Nothing is nearer than a hit, and an empty name is near to all. */
  if (w->best == 0 || n == 0) return;
  if (is_foreign_name(w->want, w->n, name) || (n == w->n && same_but_case(w->want, name, n))) {
    w->best = 0;
    w->hit = name;
    return;
  }
  bool swap = n == w->n && swapped(w->want, name, n);
  /* Two letters exchanged count as one slip, not as two changes. */
  unsigned d = swap ? 1 : isa_edit_distance(w->want, w->n, name, n, w->best);
  /* A name that shares nothing with the wanted one does not help. */
  if (d > w->best || d >= n || d >= w->n) return;
  if (w->hit && d == w->best) return; /* the first of equals */
  w->best = d;
  w->hit = name;
}

/* In the job's arena: messages are short, and live as long as it. */
const char *as_near_text(as_job *j, const as_near *w) {
  if (!w->hit) return "";
  size_t n = strlen(w->hit);
  static const char head[] = "; did you mean `", tail[] = "`?";
  char *out = as_new(j, sizeof head + n + sizeof tail);
  memcpy(out, head, sizeof head - 1);
  memcpy(out + sizeof head - 1, w->hit, n);
  memcpy(out + sizeof head - 1 + n, tail, sizeof tail);
  return out;
}

/* "a tile or tensor", for what was expected. */
static const char *mask_name(unsigned mask) {
  if (mask == AS_M_DATA) return "tile or tensor";
  /* Without the article: "a tile" becomes "tile". */
  for (unsigned k = 0; k < AS_S_KINDS; k++)
    if (mask == 1u << k) return kind_names[k] + 2;
  return "name";
}

as_sym *as_sym_need(as_job *j, const as_tok *tok, unsigned mask) {
  as_sym *s = as_sym_find(j, tok->text, 0);
  /* Used also where it is bad: it is no unused name. */
  if (s && (mask >> s->kind & 1)) {
    s->used = true;
    /* It was reported where it was declared. */
    return s->bad ? NULL : s;
  }
  if (s) {
    as_error(j, tok->pos, tok->len, "`%s` is %s, not a %s", tok->text, kind_names[s->kind],
             mask_name(mask));
    as_note(j, s->pos, "`%s` was declared here", tok->text);
    return NULL;
  }
  as_near w = as_near_open(tok->text, strlen(tok->text));
  /* Only names that would be right here. */
  for (as_sym *o = as_sym_first(j); o; o = o->next)
    if (o->scope == 0 && (mask >> o->kind & 1)) as_near_try(&w, o->name);
  as_error(j, tok->pos, tok->len, "unknown %s `%s`%s", mask_name(mask), tok->text,
           as_near_text(j, &w));
  /* queue=hwdge: the mode was given in place of a queue's name. */
  if (mask == 1 << AS_S_QUEUE && isa_set_find(ISA_SET_DGE, tok->text, strlen(tok->text)) >= 0)
    as_note(j, (as_pos){0}, "a queue has a name: declare `q queue dge=%s` and write queue=q",
            tok->text);
  return NULL;
}

const char *as_sym_near(as_job *j, const char *name, size_t n) {
  as_near w = as_near_open(name, n);
  for (as_sym *o = as_sym_first(j); o; o = o->next)
    /* Labels are not values; all other names could have been meant. */
    if (o->kind != AS_S_LABEL) as_near_try(&w, o->name);
  return w.hit;
}

/* ---- Values of names ---------------------------------------------------------------------- */

/* What an attribute asks for: the shape as numbers, and plain numbers by name. */
typedef struct facts {
  int64_t shape[ISA_TENSOR_DIMS];
  unsigned ndim;
  int64_t bytes, itemsize, part, offset; /* bytes: of a tile, in each partition */
  int rows; /* the register that gives the first dimension of a tensor, -1: none */
} facts;

static void facts_of(as_job *j, const as_sym *s, facts *f) {
  const isa_program *p = as_program(j);
  *f = (facts){.rows = -1};
  /* Tensors lie in HBM and have no partition or offset. */
  if (s->kind == AS_S_TENSOR) {
    const isa_tensor *t = &p->tensors[s->index - 1];
    f->ndim = t->ndim;
    f->rows = t->rows - 1;
    memcpy(f->shape, t->shape, sizeof f->shape);
    f->bytes = (int64_t)t->bytes;
    f->itemsize = (int64_t)isa_dtype_bytes(t->dtype);
    return;
  }
  const isa_tile *t = &p->tiles[s->index - 1];
  f->ndim = t->ndim;
  for (unsigned d = 0; d < t->ndim; d++) f->shape[d] = t->shape[d];
  f->bytes = t->bytes;
  f->itemsize = (int64_t)isa_dtype_bytes(t->dtype);
  f->part = t->part;
  f->offset = t->offset;
}

/* An object's tiles and semaphores get their places when it is linked. */
static bool known_now(as_job *j, const as_tok *name, const as_sym *s) {
  bool moves = s->kind == AS_S_TILE || s->kind == AS_S_SEM;
  /* Only an object lacks them, and there only what the source has not placed. */
  if (!j->o || !j->o->relocatable || s->placed || !moves) return true;
  as_error(j, name->pos, name->len, "the %s of `%s` is not known before linking",
           s->kind == AS_S_TILE ? "address" : "number", name->text);
  as_note(j, s->pos, s->kind == AS_S_TILE ? "`at=` sets it" : "a number after `sem` sets it");
  return false;
}

static enum as_known attribute(as_job *j, const as_tok *name, const as_sym *s, const char *attr,
                               const int64_t *index, int64_t *out) {
  facts f;
  facts_of(j, s, &f);
  /* Only the first dimension may come from the host, so all other sizes are known.
   * .shape[0] alone: x.shape[1] is known. */
  bool first = strcmp(attr, "shape") == 0 && index && *index == 0;
  if (f.rows >= 0 && (first || strcmp(attr, "bytes") == 0 || strcmp(attr, "sizeof") == 0)) {
    /* Sizes in bytes go by the first dimension, too. */
    as_error(j, name->pos, name->len,
             "the first dimension of `%s` is in r%d when the program runs; what is known now is "
             "that it is at most %lld",
             name->text, f.rows, (long long)f.shape[0]);
    return AS_REPORTED;
  }
  if (strcmp(attr, "shape") == 0) {
    /* A register gives the first size, so bytes too depend on it. */
    if (index && *index >= 0 && *index < f.ndim) {
      *out = f.shape[*index];
      return AS_KNOWN;
    }
    as_error(j, name->pos, name->len, "`%s.shape` takes an index from 0 to %u, as in `%s.shape[0]`",
             name->text, f.ndim - 1, name->text);
    return AS_REPORTED;
  }
  bool address = strcmp(attr, "offset") == 0 || strcmp(attr, "addr") == 0;
  if (address && !known_now(j, name, s)) return AS_REPORTED;
  const struct {
    const char *name;
    int64_t v;
  } plain[] = {{"ndim", f.ndim},         {"bytes", f.bytes}, {"sizeof", f.bytes},
               {"itemsize", f.itemsize}, {"part", f.part},   {"offset", f.offset},
               {"addr", f.offset}};
  /* Near names are gathered while it is looked for. */
  as_near w = as_near_open(attr, strlen(attr));
  for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++) {
    if (strcmp(attr, plain[i].name) == 0 && !index) {
      *out = plain[i].v;
      return AS_KNOWN;
    }
    as_near_try(&w, plain[i].name);
  }
  as_error(j, name->pos, name->len, "`%s` is %s and has no number `%s`%s", name->text,
           kind_names[s->kind], attr, as_near_text(j, &w));
  return AS_REPORTED;
}

/* The preprocessor reads a line once for both cores, so that it has no value there. */
static enum as_known value_of_core(as_job *j, const as_tok *name, as_val *v) {
  /* In a section of both cores the line is parsed once for each. */
  if (!j->unit->parsing || as_program(j)->ncores < 2) {
    as_error(j, name->pos, name->len,
             "`CORE` has a value only in the instructions of a program for two cores; the "
             "preprocessor does not know it");
    return AS_REPORTED;
  }
  *v = (as_val){.kind = AS_V_INT, .i = j->unit->core};
  return AS_KNOWN;
}

enum as_known as_sym_value(as_job *j, const as_tok *name, const char *attr, const int64_t *index,
                           as_val *v) {
  as_sym *s = as_sym_find(j, name->text, 0);
  if (!s && !attr && strcmp(name->text, "CORE") == 0) return value_of_core(j, name, v);
  if (!s) return AS_UNKNOWN;
  /* A constant that only an expression names is used. */
  s->used = true;
  *v = (as_val){.kind = AS_V_INT};
  /* Nobody else will report it: the line is not assembled. */
  if (s->bad && j->o && j->o->only_preprocess)
    as_error(j, name->pos, name->len, "`%s` has no value: an error is in the line that declares it",
             name->text);
  if (s->bad) return AS_REPORTED;
  bool data = s->kind == AS_S_TENSOR || s->kind == AS_S_TILE;
  /* x.bytes, a.shape[0]: numbers of declared things. */
  if (data && attr) return attribute(j, name, s, attr, index, &v->i);
  if (attr || data || s->kind == AS_S_QUEUE || s->kind == AS_S_GROUP) {
    as_error(j, name->pos, name->len, "`%s` is %s%s", name->text, kind_names[s->kind],
             attr ? " and has no attributes" : ", not a number");
    if (s->kind == AS_S_TILE && !attr)
      as_note(j, (as_pos){0},
              "addr(%s) is its address; tensor_load takes an element of it into a register",
              name->text);
    return AS_REPORTED;
  }
  if (!known_now(j, name, s)) return AS_REPORTED;
  if (s->kind == AS_S_EQU)
    *v = *s->u.value;
  else
    /* A semaphore is its number. */
    v->i = s->index;
  return AS_KNOWN;
}
