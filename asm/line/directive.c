/* Directives: lines that define a name, and lines that start with a directive's word. */
#include "stmt.h"

#include <stdio.h>
#include <string.h>

enum directive {
#define WORD(name, is, text) DIR_##name,
#include "../../isa/words.def"
  NDIRECTIVES
};

/* words.def says of each whether it names something, stands in a section, or is data. */
enum { REST, NAMES, CODE, DATA }; /* what a directive is: words.def */
static const struct {
  const char *word;
  uint8_t is;
} directives[NDIRECTIVES] = {
#define WORD(name, is, text) {#name, is},
#include "../../isa/words.def"
};

int as_directive_find(const char *name) {
  for (int i = 0; i < NDIRECTIVES; i++)
    if (strcmp(directives[i].word, name) == 0) return i;
  return -1;
}

/* Words of statements are numbered in ranges (as_word). */
static bool is(int word, unsigned what) {
  int d = word - AS_WORD_DIRECTIVE;
  return d >= 0 && d < NDIRECTIVES && directives[d].is == what;
}
bool as_is_data(int word) { return is(word, DATA); }
bool as_is_code(int word) { return is(word, CODE); }

void as_directive_near(as_near *w) {
  for (int i = 0; i < NDIRECTIVES; i++) as_near_try(w, directives[i].word);
}

/* One of several words; gives its index, -1 after an error.
 * what begins with its article: "a role". */
static int choose(as_cur *c, const char *what, const char *const *words, int n) {
  bool named = as_at_name(c);
  as_near w = as_near_open(named ? c->t->text : "", named ? strlen(c->t->text) : 0);
  for (int i = 0; i < n; i++) {
    if (named && strcmp(c->t->text, words[i]) == 0) {
      c->t++;
      return i;
    }
    as_near_try(&w, words[i]);
  }
  char list[160] = "";
  size_t at = 0;
  /* All words are listed only where none is near. */
  for (int i = 0; i < n && !w.hit && at < sizeof list; i++)
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "; one of ", words[i]);
  if (named)
    as_error(c->j, c->t->pos, c->t->len, "unknown %s `%s`%s", strchr(what, ' ') + 1, c->t->text,
             w.hit ? as_near_text(c->j, &w) : list);
  else
    as_error(c->j, c->t->pos, c->t->len, "expected %s, not %s%s", what, as_tok_show(c->j, c->t),
             list);
  return -1;
}

/* An engine or a CC sequencer.
 * The table has all sequencers; a target may have fewer. */
static int choose_engine(as_cur *c) {
  const char *words[ISA_NSEQS];
  const as_tok *at = c->t;
  const isa_target *t = c->j->target;
  for (int i = 0; i < ISA_NSEQS; i++) words[i] = isa_engines[i].name;
  int e = choose(c, "an engine", words, ISA_NSEQS);
  /* -1 is below it: an error was reported already. */
  if (e < (int)(ISA_NENGINES + t->cc)) return e;
  as_error(c->j, at->pos, at->len, "a core of %s has %u CC sequencers, from cc0 on", t->name,
           t->cc);
  return -1;
}

/* One size; a register can give the first of a tensor. */
static bool parse_dimension(as_cur *c, bool first, int64_t *n, int *rows) {
  const as_tok *at = c->t;
  if (as_tok_reg(at) < 0) return as_int_in(c, "a dimension", 1, UINT32_MAX, n);
  /* The bound after <= is the most that the register may hold. */
  if (rows && first) return as_size(c, "the largest size of a dimension", INT32_MAX, rows, n);
  return as_error(c->j, at->pos, at->len,
                  rows ? "a register can give only the first dimension, not this one: `%s`"
                       : "the size of a tile is a number, not the register `%s`",
                  at->text);
}

bool as_parse_type(as_cur *c, unsigned *dtype, unsigned max, int64_t *shape, unsigned *ndim,
                   int *rows) {
  const as_tok *t = c->t;
  int d = as_at_name(c) ? isa_dtype_find(t->text, strlen(t->text)) : -1;
  if (d < 0) {
    as_near w = as_near_open(as_at_name(c) ? t->text : "", as_at_name(c) ? strlen(t->text) : 0);
    for (unsigned i = 1; i < ISA_NDTYPES; i++) as_near_try(&w, isa_dtypes[i].name);
    return as_error(c->j, t->pos, t->len, "expected a data type, not %s%s", as_tok_show(c->j, t),
                    as_near_text(c->j, &w));
  }
  *dtype = (unsigned)d;
  c->t++;
  if (!as_need(c, '[', "the data type")) return false;
  /* At least one dimension. */
  for (*ndim = 0; *ndim == 0 || as_take(c, ',');) {
    if (*ndim == max) return as_error(c->j, c->t->pos, c->t->len, "more than %u dimensions", max);
    if (!parse_dimension(c, *ndim == 0, &shape[*ndim], rows)) return false;
    ++*ndim;
  }
  return as_need(c, ']', "the last dimension");
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* NAME tensor TYPE[...], role. */
static void define_tensor(as_cur *c, const as_tok *name) {
  const char *roles[ISA_NROLES];
  isa_tensor t = {.name = name->text};
  unsigned dtype, ndim;
  const as_tok *at = c->t;
  int rows = -1;
  if (!as_parse_type(c, &dtype, ISA_TENSOR_DIMS, t.shape, &ndim, &rows)) return;
  t.dtype = (uint8_t)dtype;
  t.rows = (uint8_t)(rows + 1);
  t.ndim = (uint8_t)ndim;
  t.bytes = isa_dtype_bytes(dtype);
  for (unsigned d = 0; d < ndim; d++) /* 2^47: what a process of a 64-bit host can map. */
    if (__builtin_mul_overflow(t.bytes, (uint64_t)t.shape[d], &t.bytes) || t.bytes >> 47) {
      as_error(c->j, at->pos, as_span_of(at, c->t), "the tensor is larger than 2^47 bytes");
      return;
    }
  if (as_take(c, ',')) {
    for (unsigned i = 0; i < ISA_NROLES; i++) roles[i] = isa_role_name(i);
    int role = choose(c, "a role", roles, ISA_NROLES);
    if (role < 0) return;
    t.role = (uint8_t)role;
  }
  if (t.role == ISA_CONST && t.rows) {
    as_error(c->j, at->pos, as_span_of(at, c->t),
             "a const tensor has its size: a register cannot give it");
    return;
  }
  /* Its values follow on this line, or on those below. */
  if (t.role == ISA_CONST) {
    as_const(c, &t, name);
    return;
  }
  if (!as_need_end(c, "a tensor")) return;
  as_sym *s = as_sym_define(c->j, AS_S_TENSOR, name);
  if (!s) return;
  s->index = isa_program_tensor(as_program(c->j), &t);
  if (s->index == 0) as_nomem(c->j);
}

/* ---- Cores -------------------------------------------------------------------------------- */

/* `core=N`, or `core=*`: AS_BOTH. The program has a core once something belongs to it. */
static bool core_option(as_cur *c, int64_t *core) {
  as_cur start = *c;
  c->t++;
  if (!as_take(c, '=') || as_at_end(c))
    return as_error(c->j, start.t->pos, as_span_of(start.t, c->t),
                    "`core` takes the number of a core or *: core=0, core=1 or core=*");
  if (as_take(c, '*'))
    *core = AS_BOTH;
  else if (!as_int_in(c, "core", 0, ISA_MAX_CORES - 1, core))
    return false;
  isa_program *p = as_program(c->j);
  if (*core && p->target->gen < ISA_GEN3) {
    as_error(c->j, start.t->pos, as_span_of(start.t, c->t),
             "two cores as one need gen3; %s is gen%d", p->target->name, p->target->gen);
    return false;
  }
  /* core=1 makes two cores, core=* as well. */
  uint32_t n = *core == AS_BOTH ? AS_BOTH : (uint32_t)*core + 1;
  /* A program has as many cores as something names. */
  if (n > p->ncores) p->ncores = n;
  return true;
}

static unsigned first_core(int64_t core) { return core == AS_BOTH ? 0 : (unsigned)core; }
static unsigned last_core(int64_t core) { return core == AS_BOTH ? AS_BOTH - 1 : (unsigned)core; }

/* ---- Semaphores, queues, constants -------------------------------------------------------- */

/* The name that semaphore n has already on a core, or on either core; NULL: it is free.
 * A name of both cores needs a number that is free on both. */
static const char *sem_name(const isa_program *p, int64_t core, int64_t n) {
  const char *name = NULL;
  for (unsigned k = first_core(core); k <= last_core(core) && !name; k++)
    name = p->cores[k].sem_names[n];
  return name;
}

static int64_t free_sem(const isa_program *p, int64_t core) {
  int64_t n = 0;
  while (n < ISA_NSEMS && sem_name(p, core, n)) n++;
  return n;
}

/* `NAME sem [number][, core=N]` */
static void define_sem(as_cur *c, const as_tok *name) {
  isa_program *p = as_program(c->j);
  int64_t n = -1, core = 0;
  const as_tok *at = c->t;
  bool alone = as_tok_is(at, "core"), placed;
  /* `core` may also be the name of a constant: `x sem core` then is the semaphore of that number.
   */
  if (alone && !as_at_keyword(c)) alone = !as_sym_find(c->j, at->text, 0); /* a constant's name */
  if (!as_at_end(c) && !alone && !as_int_in(c, "the number of a semaphore", 0, ISA_NSEMS - 1, &n))
    return;
  if ((alone || as_take(c, ',')) && !core_option(c, &core)) return;
  if (!as_need_end(c, "a semaphore")) return;
  /* For an object: a number that the source gives stays. */
  placed = n >= 0;
  /* The lowest that is free, on both cores for a name of both. */
  if (!placed) n = free_sem(p, core);
  if (n == ISA_NSEMS) {
    as_error(c->j, name->pos, name->len, "all %d semaphores have names", ISA_NSEMS);
    return;
  }
  const char *taken = sem_name(p, core, n);
  if (taken) {
    as_error(c->j, at->pos, as_span_of(at, c->t), "semaphore %lld is already `%s`", (long long)n,
             taken);
    return;
  }
  as_sym *s = as_sym_define(c->j, AS_S_SEM, name);
  if (!s) return;
  s->index = (uint32_t)n;
  s->core = (uint8_t)core;
  s->placed = placed;
  /* One copy serves both cores. */
  const char *copy = isa_arena_strn(&p->arena, name->text, strlen(name->text));
  if (!copy) as_nomem(c->j);
  for (unsigned k = first_core(core); k <= last_core(core); k++) p->cores[k].sem_names[n] = copy;
}

static bool queue_option(as_cur *c, isa_queue *q) {
  static const char *const keys[] = {"rings", "dge", "owner", "prio"};
  static const char *const dges[] = {"none", "swdge", "hwdge"};
  int64_t v;
  int k = choose(c, "a queue option", keys, 4);
  if (k < 0 || !as_need(c, '=', "the name of an option")) return false;
  switch (k) {
  /* At most one ring for each DMA engine. */
  case 0:
    if (!as_int_in(c, "rings", 1, c->j->target->dma, &v)) return false;
    q->rings = (uint8_t)v;
    return true;
  case 1:
    k = choose(c, "a descriptor generation mode", dges, 3);
    q->dge = (uint8_t)k;
    break;
  case 2:
    k = choose_engine(c);
    if (k >= 0) q->owner = isa_owner_of((unsigned)k);
    break;
  default:
    if (!as_int_in(c, "prio", 0, 3, &v)) return false;
    q->prio = (uint8_t)v;
    return true;
  }
  return k >= 0;
}

/* owned: the line says owner=. */
static bool queue_legal(as_cur *c, const as_tok *name, isa_queue *q, bool owned) {
  const isa_target *t = as_program(c->j)->target;
  const char *why = NULL;
  if (q->dge == ISA_DGE_hwdge && !t->hwdge)
    why = "has no hardware descriptor generation";
  else if (q->prio && t->gen < ISA_GEN4)
    why = "has no queue priorities";
  if (why) return as_error(c->j, name->pos, name->len, "%s %s", t->name, why);
  /* Its descriptors are made by gpsimd, so it owns the queue unless another owner is wrongly given.
   */
  if (q->dge == ISA_DGE_swdge && !owned) q->owner = ISA_ENG_gpsimd;
  if (q->dge == ISA_DGE_swdge && q->owner != ISA_ENG_gpsimd)
    why = "swdge must be owned by gpsimd";
  else if (q->dge == ISA_DGE_hwdge && owned && q->owner != ISA_ENG_sync &&
           q->owner != ISA_ENG_scalar)
    why = "hwdge must be owned by sync or scalar";
  if (!why) return true;
  return as_error(c->j, name->pos, name->len, "a queue with dge=%s, not by %s", why,
                  isa_engines[isa_queue_owner(q)].name);
}

static bool queue_fits(as_cur *c, const as_tok *name, const isa_core *core, const isa_queue *q) {
  unsigned most = isa_queue_limit(core, q);
  if (most)
    as_error(c->j, name->pos, name->len, "a core has at most %u queues%s", most,
             isa_queue_is_cc(q) ? " of CC sequencers" : "");
  return !most;
}

static void define_queue(as_cur *c, const as_tok *name) {
  /* All rings, of any engine, unless the line says otherwise.
   * Said once for the defaults of all options. */
  isa_queue q = {.name = name->text, .rings = (uint8_t)c->j->target->dma, .owner = ISA_ANY_OWNER};
  bool more = !as_at_end(c);
  int64_t core = 0;
  while (more) {
    if (!(as_tok_is(c->t, "core") ? core_option(c, &core) : queue_option(c, &q))) return;
    more = as_take(c, ',');
  }
  isa_program *p = as_program(c->j);
  if (!as_need_end(c, "a queue") || !queue_legal(c, name, &q, q.owner != ISA_ANY_OWNER)) return;
  /* Nothing is added before both cores have room.
   * isa_program_queue could add to one core and fail at the other. */
  for (unsigned k = first_core(core); k <= last_core(core); k++)
    if (!queue_fits(c, name, &p->cores[k], &q)) return;
  as_sym *s = as_sym_define(c->j, AS_S_QUEUE, name);
  if (!s) return;
  s->core = (uint8_t)core;
  for (unsigned k = first_core(core); k <= last_core(core); k++) {
    uint32_t index = isa_program_queue(p, k, &q);
    if (index == 0) as_nomem(c->j);
    s->u.queue[k] = (uint8_t)(index - 1);
  }
  /* The first core's number stands for it where one is needed. */
  s->index = s->u.queue[first_core(core)];
}

/* NAME equ EXPRESSION: evaluated here, once. */
static void define_equ(as_cur *c, const as_tok *name) {
  as_val *v = as_new(c->j, sizeof *v);
  if (!as_expr(c, v) || !as_need_end(c, "a constant")) return;
  as_sym *s = as_sym_define(c->j, AS_S_EQU, name);
  if (s) s->u.value = v;
}

/* A growing list of numbers. */
typedef struct rank_words {
  uint32_t *v;
  uint32_t n, cap;
} rank_words;

static void add_word(as_job *j, rank_words *w, uint32_t v) {
  w->v = as_grow(j, w->v, w->n, 1, &w->cap, sizeof *w->v);
  w->v[w->n++] = v;
}

/* `[0, 1]`: ranks, and how many they were. */
static bool ranks(as_cur *c, rank_words *all, rank_words *sizes) {
  /* How many there were is counted by difference. */
  uint32_t before = all->n;
  if (!as_need(c, '[', "the start of a list of ranks")) return false;
  do {
    int64_t rank;
    if (all->n == ISA_MAX_RANKS)
      return as_error(c->j, c->t->pos, c->t->len, "more than %d ranks", ISA_MAX_RANKS);
    if (!as_int_in(c, "a rank", 0, INT32_MAX, &rank)) return false;
    add_word(c->j, all, (uint32_t)rank);
  } while (as_take(c, ','));
  add_word(c->j, sizes, all->n - before);
  return as_need(c, ']', "the last rank");
}

/* `NAME group [[0, 1], [2, 3]]` */
static void define_group(as_cur *c, const as_tok *name) {
  rank_words all = {0}, sizes = {0};
  if (!as_need(c, '[', "`group`")) return;
  do
    if (!ranks(c, &all, &sizes)) return;
  while (as_take(c, ','));
  if (!as_need(c, ']', "the last list of ranks") || !as_need_end(c, "the replica groups")) return;
  isa_program *p = as_program(c->j);
  isa_group g = {name->text, sizes.n, all.n, sizes.v, all.v};
  isa_error e;
  /* The same rules as for a program's file. */
  if (!isa_check_group(&g, &e)) {
    as_error(c->j, name->pos, name->len, "%s", e.text);
    return;
  }
  if (p->ngroups == ISA_MAX_GROUPS) {
    as_error(c->j, name->pos, name->len, "a program has at most %d replica groups", ISA_MAX_GROUPS);
    return;
  }
  as_sym *s = as_sym_define(c->j, AS_S_GROUP, name);
  if (!s) return;
  s->index = isa_program_group(p, &g);
  /* Numbered from 1 there, from 0 here. */
  if (s->index-- == 0) as_nomem(c->j);
}

bool as_defines(as_job *j, const as_tok *t) {
  int d = t->kind == AS_T_NAME ? as_word(j, t->text) - AS_WORD_DIRECTIVE : -1;
  /* After `jmp` a section's name begins a label of it. */
  bool label = d >= 0 && t[1].kind == AS_T_PUNCT && t[1].punct == '.'; /* jmp tensor.x */
  return d >= 0 && directives[d].is == NAMES && !label;
}

bool as_definition(as_cur *c) {
  const as_tok *name = c->t;
  /* Both words matter: `sem sem` defines nothing. */
  if (!as_defines(c->j, &name[1]) || as_word(c->j, name->text) >= AS_WORD_DIRECTIVE) return false;
  int d = as_word(c->j, name[1].text) - AS_WORD_DIRECTIVE;
  /* In the order of the directives that define names. */
  static const uint8_t kinds[] = {AS_S_TENSOR, AS_S_TILE, AS_S_SEM,
                                  AS_S_QUEUE,  AS_S_EQU,  AS_S_GROUP};
  uint32_t errors = c->j->errors;
  bool again = as_sym_find(c->j, name->text, 0) != NULL;
  c->t += 2;
  switch (d) {
  case DIR_tensor: define_tensor(c, name); break;
  case DIR_tile: as_tile(c, name); break;
  case DIR_sem: define_sem(c, name); break;
  case DIR_queue: define_queue(c, name); break;
  case DIR_group: define_group(c, name); break;
  default: define_equ(c, name); break;
  }
  /* Errors are counted: some definitions fail without adding a name. */
  bool failed = c->j->errors > errors; /* or it failed for a name whose own error was reported */
  if (!failed) as_list_line(c->j, name->pos);
  /* What was meant to be defined is: else each use of the name would be an error of its own. */
  if (!again && (failed || !as_sym_find(c->j, name->text, 0)))
    as_sym_get(c->j, name->text, 0, kinds[d], name)->bad = true;
  return true;
}

/* ---- The others --------------------------------------------------------------------------- */

/* `target trn2`: the hypothetical machine of that base if the caller has named one. */
static bool one_target(as_cur *c, isa_target *out) {
  const char *words[ISA_NTARGETS];
  for (int i = 0; i < ISA_NTARGETS; i++) words[i] = isa_targets[i].name;
  int t = choose(c, "a target", words, ISA_NTARGETS);
  if (t < 0) return false;
  /* The caller's constants and clocks stay. */
  bool other = c->j->asked_target.hypothetical && isa_target_base(&c->j->asked_target)->id == t;
  /* The base is what the line names; all else stays as the caller gave it. */
  *out = other ? c->j->asked_target : isa_targets[t];
  return true;
}

/* `target trn2, sbuf_kib=384`, as isa_target_read has it; soma-dis writes `hypothetical` before. */
static bool read_target(as_cur *c, isa_target *out) {
  const as_tok *first = c->t;
  isa_error e = {.text = "out of memory"};
  isa_buf b;
  isa_buf_init(&b, &c->j->al);
  for (; c->t->kind != AS_T_END; c->t++) {
    /* The text as it was written: values of a machine have dots and units. */
    if (c->t->space_before && c->t != first) isa_buf_puts(&b, " ");
    as_tok_print(c->t, &b);
  }
  bool ok = !b.failed && isa_target_read(isa_buf_str(&b), b.len, out, &e);
  isa_buf_free(&b);
  if (!ok) as_error(c->j, first->pos, as_span_of(first, c->t), "%s", e.text);
  return ok;
}

static void do_target(as_cur *c, const as_tok *at) {
  isa_target t;
  /* A single word is a name of the table, with a guess if it is none; else the text is a machine's.
   */
  bool one = !as_at_name(c) || c->t[1].kind == AS_T_END;
  if (!(one ? one_target(c, &t) : read_target(c, &t)) || !as_need_end(c, "a target")) return;
  /* Two equal lines are fine: an included file may repeat it. */
  if (c->j->unit->target_fixed && !isa_target_same(c->j->target, &t)) {
    as_error(c->j, at->pos, as_span_of(at, c->t),
             "`target` comes too late: lines before it were assembled for %s", c->j->target->name);
    return;
  }
  if (!c->j->unit->target_fixed) c->j->target = isa_target_keep(&t, &c->j->own_target);
}

static void do_section(as_cur *c) {
  int64_t core = 0;
  int e = choose_engine(c);
  if (e < 0) return;
  if (as_tok_is(c->t, "core") && !core_option(c, &core)) return;
  if (!as_need_end(c, "a section")) return;
  /* Lines of a section of both cores are read twice. */
  c->j->unit->both = core == AS_BOTH;
  /* A section of both cores is the first one's; lines are parsed again for the other. */
  c->j->unit->core = first_core(core);
  c->j->unit->section = first_core(core) * ISA_NSEQS + (unsigned)e;
}

static bool in_section(as_cur *c, const as_tok *at) {
  if (c->j->unit->section < AS_NSECTIONS) return true;
  return as_error(c->j, at->pos, at->len, "`%s` belongs in a section", at->text);
}

/* Pads the section with nop to a multiple of n instructions. */
static void do_align(as_cur *c, const as_tok *at) {
  int64_t n;
  if (!in_section(c, at) || !as_int_in(c, "the alignment", 1, 65536, &n) ||
      !as_need_end(c, "an alignment"))
    return;
  unsigned section = c->j->unit->section;
  const isa_code *code = as_code(c->j, section);
  uint32_t pc = code->n;
  isa_insn nop;
  /* A nop has no operand, so zeros are all of it. */
  memset(&nop, 0, sizeof nop);
  nop.op = ISA_OP_nop;
  while (code->n % n != 0) as_emit(c->j, &nop, NULL);
  as_list_insns(c->j, at->pos, section, pc, code->n - pc, true);
}

void as_directive(as_cur *c, int directive) {
  const as_tok *at = c->t++;
  /* Errors decide whether the line appears in the listing. */
  uint32_t errors = c->j->errors;
  switch (directive) {
  case DIR_target: do_target(c, at); break;
  case DIR_section: do_section(c); break;
  case DIR_align: do_align(c, at); return;
  case DIR_global: as_global(c, at); break;
  case DIR_extern:
    /* A declaration has listed its line itself. */
    if (as_extern(c, at)) return;
    break;
  case DIR_dma:
    /* These read their own word. */
    c->t--;
    as_match_dma(c);
    return;
  case DIR_loop:
    c->t--;
    as_loop(c);
    return;
  case DIR_endloop:
    c->t--;
    as_endloop(c);
    return;
  case DIR_if:
    c->t--;
    as_if(c);
    return;
  case DIR_else:
    c->t--;
    as_else(c);
    return;
  case DIR_endif:
    c->t--;
    as_endif(c);
    return;
  case DIR_times:
  case DIR_incbin:
  case DIR_npy:
    c->t--;
    as_data_line(c);
    return;
  default:
    as_error(c->j, at->pos, at->len, "`%s` needs a name before it, as in `name %s ...`", at->text,
             at->text);
  }
  if (c->j->errors == errors) as_list_line(c->j, at->pos);
}
