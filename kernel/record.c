/* Records: words into items. Nothing of a record is trusted. */
#include "../isa/operand.h"
#include "../isa/view.h"
#include "impl.h"

#include <inttypes.h>

typedef struct reader {
  as_kernel *k;
  as_k_draft *d;
  const int64_t *w;
  size_t at, n;      /* words read, words of the record */
  const char *field; /* that is read */
  unsigned nregs;
  as_k_key *key;
} reader;

static bool bad(reader *r, const char *rule, int64_t value) {
  unsigned op = r->d->in.op;
  return as_k_fail(r->k, ISA_ARG, r->d->it.at, "%s%s%s: %s (%" PRId64 ")",
                   op < ISA_NOPS ? isa_ops[op].name : "record", r->field ? " " : "",
                   r->field ? r->field : "", rule, value);
}

/* The next word, which lies between lo and hi. */
static inline bool word(reader *r, int64_t lo, int64_t hi, const char *what, int64_t *out) {
  bool there = r->at < r->n;
  /* Where the words end the value is 0, so that what reads it goes on safely to its error. */
  *out = there ? r->w[r->at++] : 0;
  if (there && *out >= lo && *out <= hi) return true;
  return there ? bad(r, what, *out)
               : bad(r, "the record ends before its last field; words", (int64_t)r->n);
}

static bool bits(reader *r, const char *what, uint32_t *out) {
  int64_t v;
  if (!word(r, INT32_MIN, UINT32_MAX, what, &v)) return false;
  *out = (uint32_t)v;
  return true;
}

static bool signed_word(reader *r, const char *what, int32_t *out) {
  int64_t v;
  if (!word(r, INT32_MIN, INT32_MAX, what, &v)) return false;
  *out = (int32_t)v;
  return true;
}

static bool register_number(reader *r, uint32_t *out) {
  int64_t v = 0;
  if (!word(r, 1, r->k->nregs, "the kernel has no register of that number", &v)) return false;
  *out = (uint32_t)v;
  return true;
}

/* ---- Operands ------------------------------------------------------------------------------ */

void *as_k_take_units(as_kernel *k, uint32_t n, uint32_t *number) {
  /* Grown as if it were full, until n more units fit. */
  while (k->cap_ops - k->nops < n)
    if (!isa_array_room(&k->al, &k->ops, k->cap_ops, &k->cap_ops, sizeof *k->ops)) {
      as_k_nomem(k);
      return NULL;
    }
  uint64_t *at = &k->ops[k->nops];
  *number = k->nops + 1;
  k->nops += n;
  return at;
}

/* Operands of an item are numbered from its own first one on. */
static uint32_t own_number(const reader *r, uint32_t number) { return number - r->d->it.ops; }

static bool operand(reader *r, bool inner, uint32_t *out);

/* An operand that another one goes by: it is there, and has no dynamic parts of its own. */
static bool inner_operand(reader *r, uint32_t *out) {
  if (!operand(r, true, out)) return false;
  return *out || bad(r, "an index or an element is left out", 0);
}

static bool dynamic_part(reader *r, as_k_dyn *d, unsigned ndim) {
  int64_t kind = 0, v = 0, most = (int64_t)1 << 40;
  if (!word(r, SOMA_DYN_REGISTER, SOMA_DYN_INDIRECT, "no dynamic part has this kind", &kind))
    return false;
  /* Each kind at most once: a place by register or element, a size, an index. */
  bool twice = kind <= SOMA_DYN_ELEMENT ? d->kind
               : kind == SOMA_DYN_SIZE  ? d->size_dim
                                        : d->index_kind;
  if (twice) return bad(r, "a dynamic part of this kind appears twice", kind);
  switch (kind) {
  case SOMA_DYN_REGISTER:
    d->kind = ISA_DYN_reg;
    return register_number(r, &d->reg) && word(r, -most, most, "a stride", &d->stride);
  case SOMA_DYN_ELEMENT:
    d->kind = ISA_DYN_elem;
    return word(r, -most, most, "a stride", &d->stride) && inner_operand(r, &d->elem);
  case SOMA_DYN_SIZE:
    if (!word(r, -1, (int64_t)ndim - 1, "the pattern has no such dimension", &v)) return false;
    /* 0 is none, 1 the partitions, from 2 on the free dimensions. */
    d->size_dim = (uint8_t)(v + 2);
    return register_number(r, &d->size_reg);
  case SOMA_DYN_GATHER:
    d->index_kind = ISA_INDEX_gather;
    if (!word(r, 0, (int64_t)ndim - 1, "the pattern has no such dimension", &v)) return false;
    d->index_dim = (uint8_t)v;
    return inner_operand(r, &d->index);
  default: d->index_kind = ISA_INDEX_indirect; return inner_operand(r, &d->index);
  }
}

static bool dynamic_parts(reader *r, size_t end, unsigned ndim, as_k_operand *o) {
  as_k_dyn d = {0};
  while (r->at < end)
    if (!dynamic_part(r, &d, ndim)) return false;
  /* The last part may have read beyond the operand's words, never beyond the record's. */
  if (r->at != end) return bad(r, "an operand's words do not end with a part; words", (int64_t)end);
  if (!K_GROW(r->k, dyns, ndyns, cap_dyns)) return false;
  r->k->dyns[r->k->ndyns++] = d;
  o->dyn = r->k->ndyns;
  return true;
}

static bool head(reader *r, as_k_operand *o, uint8_t *dtype, uint8_t *ndim) {
  int64_t v, far = (int64_t)1 << 48;
  as_kernel *k = r->k;
  if (!word(r, 1, k->nbuffers, "the kernel has no buffer of that number", &v)) return false;
  o->buffer = (uint32_t)v;
  /* In the key a class of buffers stands for it, so that like records have one verdict. */
  as_k_key_buffer(k, r->key, r->at - 1, o->buffer);
  const as_k_buffer *b = as_k_buf(k, o->buffer);
  if (b->ended) return bad(r, "its tile was ended; buffer", v);
  o->space = b->space;
  if (!word(r, 1, ISA_NDTYPES - 1, "no data type has this code", &v)) return false;
  *dtype = (uint8_t)v;
  if (!word(r, 0, ISA_PMAX - 1, "a start partition", &v)) return false;
  /* The caller's partitions count from the tile's first. */
  o->part = (uint8_t)(v + b->part);
  if (!word(r, 0, ISA_PMAX, "a number of partitions", &v)) return false;
  o->nparts = (uint8_t)v;
  if (!word(r, -far, far, "a byte offset", &o->offset)) return false;
  if (!word(r, 0, ISA_MAX_DIMS, "a number of free dimensions", &v)) return false;
  *ndim = (uint8_t)v;
  return true;
}

/* *out: its number, 0 when it is left out. */
static bool operand(reader *r, bool inner, uint32_t *out) {
  as_k_operand o = {0};
  isa_dim dims[ISA_MAX_DIMS];
  uint8_t dtype = 0, ndim = 0;
  int64_t length, num, far = (int64_t)1 << 40;
  *out = 0;
  if (!word(r, 0, (int64_t)r->n, "an operand's words", &length)) return false;
  size_t begin = r->at, end = r->at + (size_t)length;
  if (length == 0) return true;
  if (end > r->n) return bad(r, "an operand is longer than its record; words", length);
  if (!head(r, &o, &dtype, &ndim)) return false;
  for (unsigned d = 0; d < ndim; d++) {
    if (!word(r, -far, far, "a step", &dims[d].step) ||
        !word(r, 1, UINT32_MAX, "elements of a dimension", &num))
      return false;
    dims[d].num = (uint32_t)num;
  }
  /* Before the shape is looked up: dims beyond its words are not the operand's. */
  if (r->at > end) return bad(r, "an operand has more dimensions than words", length);
  o.shape = as_k_find_shape(r->k, dtype, ndim, dims);
  if (!o.shape) return false;
  if (r->at < end) {
    if (inner) return bad(r, "an index or an element has dynamic parts; words", length);
    if (!dynamic_parts(r, end, ndim, &o)) return false;
  } else {
    /* Without dynamic parts the offset is left out of the key as well. */
    as_k_key_offset(r->k, r->key, begin + K_OFFSET_AT, &o);
  }
  uint64_t *at = as_k_take_units(r->k, sizeof o / 8, out);
  if (!at) return false;
  memcpy(at, &o, sizeof o);
  return true;
}

/* An operand that is a field. */
static bool plain_operand(reader *r, uint32_t *out) {
  as_k_key *key = r->key;
  uint32_t number;
  size_t at = r->at + 1;
  *out = 0;
  if (!operand(r, false, &number)) return false;
  if (!number) return true;
  *out = own_number(r, number);
  const as_k_operand *o = as_k_op(r->k, number);
  /* A record with few enough simple operands is read again by its words alone; else in full. */
  key->simple = key->simple && !o->dyn && key->nsites < K_KEY_BUFFERS;
  if (key->simple)
    key->sites[key->nsites++] =
        (as_k_site){*o, (uint16_t)at, (uint16_t)((char *)out - (char *)&r->d->in)};
  return true;
}

/* ---- Lists --------------------------------------------------------------------------------- */

enum { MOST_ITEMS = 65536, MOST_PATTERNS = 16 };

static bool operands(reader *r, isa_ref *out) {
  int64_t n;
  uint32_t list[MOST_PATTERNS] = {0}, number;
  if (!word(r, 0, MOST_PATTERNS, "a list has at most 16 operands", &n)) return false;
  for (int64_t i = 0; i < n; i++) {
    if (!operand(r, false, &list[i])) return false;
    if (!list[i]) return bad(r, "an operand of a list is left out", i);
    list[i] = own_number(r, list[i]);
  }
  /* Operands in lists are not sites, so the record is read in full each time. */
  r->key->simple = false;
  *out = (isa_ref){0, 0};
  if (n == 0) return true;
  /* Two numbers to a unit of 8 bytes. */
  uint64_t *at = as_k_take_units(r->k, (uint32_t)(n + 1) / 2, &number);
  if (!at) return false;
  memcpy(at, list, (size_t)n * sizeof *list);
  *out = (isa_ref){own_number(r, number), (uint32_t)n};
  return true;
}

static bool list_item(reader *r, unsigned kind, void *to) {
  int64_t v, num;
  switch (kind) {
  case ISA_K_STR:
  case ISA_K_BYTES:
    if (!word(r, 0, 255, "a byte", &v)) return false;
    *(uint8_t *)to = (uint8_t)v;
    return true;
  case ISA_K_STEPS:
    if (!word(r, INT32_MIN, INT32_MAX, "a step", &v) ||
        !word(r, 1, UINT32_MAX, "elements of a dimension", &num))
      return false;
    *(isa_step *)to = (isa_step){(int32_t)v, (uint32_t)num};
    return true;
  case ISA_K_PAIRS:
    return bits(r, "a rank", &((isa_pair *)to)->from) && bits(r, "a rank", &((isa_pair *)to)->to);
  default: return bits(r, "32 bits", to);
  }
}

static bool list(reader *r, unsigned kind, isa_ref *out) {
  int64_t n;
  unsigned size = isa_kind_elem[kind];
  if (kind == ISA_K_APS) return operands(r, out);
  if (!word(r, 0, MOST_ITEMS, "a list's items", &n)) return false;
  /* Before anything is allocated: an item has at least one word. */
  if ((size_t)n > r->n - r->at) return bad(r, "a list is longer than its record; items", n);
  char *data = isa_zalloc(&r->k->al, (size_t)n * size + 8);
  if (!data) return as_k_nomem(r->k);
  bool ok = true;
  for (int64_t i = 0; i < n && ok; i++) ok = list_item(r, kind, data + i * size);
  if (ok && !isa_program_pool(r->k->scratch, data, (uint32_t)n, size, out)) ok = as_k_nomem(r->k);
  isa_free(&r->k->al, data, (size_t)n * size + 8);
  return ok;
}

/* ---- Fields -------------------------------------------------------------------------------- */

static bool int_field(reader *r, isa_int *out) {
  int64_t is_reg;
  uint32_t v;
  if (!word(r, 0, 1, "0 for a value, 1 for a register", &is_reg)) return false;
  if (is_reg) {
    if (!register_number(r, &v)) return false;
    *out = (isa_int){true, (int32_t)v};
    return true;
  }
  *out = (isa_int){false, 0};
  return signed_word(r, "a signed number of 32 bits", &out->v);
}

static bool num_field(reader *r, isa_num *out) {
  int64_t kind;
  *out = (isa_num){0, 0};
  if (!word(r, ISA_NUM_none, ISA_NUM_ap, "no number has this kind", &kind)) return false;
  out->kind = (uint8_t)kind;
  switch (kind) {
  case ISA_NUM_imm: return bits(r, "32 bits", &out->v);
  case ISA_NUM_reg: return register_number(r, &out->v);
  case ISA_NUM_ap:
    if (!plain_operand(r, &out->v)) return false;
    return out->v || bad(r, "an operand is left out", 0);
  default: return true;
  }
}

static bool queue_field(reader *r) {
  int64_t v;
  if (!word(r, -1, r->k->nqueues, "the kernel has no queue of that number", &v)) return false;
  if (v == 0) return bad(r, "queues are numbered from 1; -1 leaves the choice to the builder", v);
  r->d->it.queue = (uint16_t)(v < 0 ? 0 : v);
  return true;
}

static bool field(reader *r, const isa_field *f) {
  void *m = isa_member(&r->d->in, f);
  int64_t v;
  switch (f->kind) {
  /* At most two registers: & 1 keeps a bad table from writing further. */
  case ISA_K_REG: return register_number(r, &r->d->regs[r->nregs++ & 1]);
  case ISA_K_INT: return int_field(r, m);
  case ISA_K_NUM: return num_field(r, m);
  case ISA_K_AP: return plain_operand(r, m);
  case ISA_K_U8:
  case ISA_K_SEM:
  case ISA_K_ENUM:
  case ISA_K_ALU:
  case ISA_K_ACTF:
    if (!word(r, 0, 255, "this field has no such code", &v)) return false;
    *(uint8_t *)m = (uint8_t)v;
    return true;
  case ISA_K_GROUP:
    if (!word(r, 1, r->k->scratch->ngroups, "the kernel has no group of that number", &v))
      return false;
    *(isa_t_GROUP *)m = (isa_t_GROUP)(v - 1);
    return true;
  case ISA_K_U16:
    if (!word(r, 0, UINT16_MAX, "a value of this field", &v)) return false;
    *(uint16_t *)m = (uint16_t)v;
    return true;
  case ISA_K_U32:
    if (!word(r, 0, UINT32_MAX, "a value of this field", &v)) return false;
    *(uint32_t *)m = (uint32_t)v;
    return true;
  case ISA_K_I32: return signed_word(r, "a value of this field", m);
  case ISA_K_QUEUE: return queue_field(r);
  default: return list(r, f->kind, m);
  }
}

bool as_kernel_takes(unsigned op) {
  if (op >= ISA_NOPS) return false;
  if (isa_field_of(op, ISA_K_LABEL, 0) >= 0 || isa_field_of(op, ISA_K_PLACE, 0) >= 0) return false;
  switch (op) { /* what the builder makes itself, or could not go on from */
  case ISA_OP_halt:
  case ISA_OP_ret:
  case ISA_OP_event_semaphore:
  case ISA_OP_sem_range_clear:
  case ISA_OP_device_print_semaphore: /* the semaphores are the builder's own */
  case ISA_OP_drain:
  case ISA_OP_dma_trigger: return false;
  default: return true;
  }
}

static bool header(reader *r) {
  as_k_item *it = &r->d->it;
  as_kernel *k = r->k;
  int op = -1;
  if (r->n < AS_REC_FIELDS || r->w[0] < AS_REC_FIELDS || (uint64_t)r->w[0] > r->n)
    return bad(r, "words of a record, its header has 6", r->n ? r->w[0] : 0);
  /* Words after the record are the next record's. */
  r->n = (size_t)r->w[0];
  if (r->w[AS_REC_FILE] < 0 || r->w[AS_REC_FILE] > k->nfiles)
    return bad(r, "the kernel has no file of that number", r->w[AS_REC_FILE]);
  if (r->w[AS_REC_LINE] < 0 || r->w[AS_REC_LINE] > UINT32_MAX)
    return bad(r, "a line", r->w[AS_REC_LINE]);
  it->at = (isa_line){.file = (uint32_t)r->w[AS_REC_FILE], .line = (uint32_t)r->w[AS_REC_LINE]};
  if (r->w[AS_REC_OP] >= 0 && r->w[AS_REC_OP] <= UINT16_MAX)
    op = isa_op_by_number((unsigned)r->w[AS_REC_OP]);
  if (op < 0) return bad(r, "no instruction has this opcode", r->w[AS_REC_OP]);
  r->d->in.op = it->op = (uint16_t)op;
  /* 1: it may be emitted; 2: it may not; 0: not asked yet. */
  if (!k->takes[op]) k->takes[op] = as_kernel_takes((unsigned)op) ? 1 : 2;
  if (k->takes[op] == 2)
    return as_k_fail(k, ISA_ARG, it->at, "%s %s; it cannot be emitted", isa_ops[op].name,
                     isa_field_of((unsigned)op, ISA_K_PLACE, 0) < 0 ? "is made by the builder"
                                                                    : "is for CC sequencers alone");
  if (r->w[AS_REC_ENGINE] < -1 || r->w[AS_REC_ENGINE] >= ISA_NENGINES)
    return bad(r, "no engine has this number", r->w[AS_REC_ENGINE]);
  if (r->w[AS_REC_ENGINE] >= 0) it->engine = (uint8_t)r->w[AS_REC_ENGINE];
  /* Bits above the four flags are errors, so that they can mean something later. */
  if (r->w[AS_REC_FLAGS] & ~(int64_t)15) return bad(r, "flags", r->w[AS_REC_FLAGS]);
  it->flags = (uint8_t)r->w[AS_REC_FLAGS];
  r->at = AS_REC_FIELDS;
  return true;
}

static void begin_key(as_k_key *key, const int64_t *w, size_t n) {
  /* A longer record has no key. */
  key->n = n <= K_KEY_WORDS ? (uint32_t)n : 0;
  key->nbuffers = key->nsites = 0;
  key->simple = true;
  memcpy(key->w, w, key->n * sizeof *w);
  /* Where it stands in the source makes no difference. */
  key->w[AS_REC_FILE] = key->w[AS_REC_LINE] = 0;
}

/* Whether a record may end before field i: fields that may be left out need no words at its end, so
 * that older callers need not know new ones. */
static bool may_end(const isa_form *form, unsigned i) {
  while (i < form->nfields && form->fields[i].mode == ISA_MODE_D) i++;
  return i == form->nfields;
}

bool as_k_read_record(as_kernel *k, const int64_t *w, size_t n, as_k_draft *d, as_k_key *key) {
  reader r = {.k = k, .d = d, .w = w, .n = n, .key = key};
  memset(d, 0, sizeof *d);
  d->it.engine = ISA_NENGINES;
  d->it.ops = k->nops;
  d->in.op = ISA_NOPS;
  if (!header(&r)) return false;
  begin_key(key, w, r.n);
  const isa_form *form = isa_form_of(d->in.op);
  for (unsigned i = 0; i < form->nfields; i++) {
    r.field = form->fields[i].name;
    if (r.at == r.n && may_end(form, i)) break;
    if (!field(&r, &form->fields[i])) return false;
  }
  r.field = NULL;
  if (r.at != r.n) return bad(&r, "words after the last field", (int64_t)(r.n - r.at));
  return true;
}
