/* Every read lies within what was written before, by bytes; and what `acc` a matmul takes that left
 * it open. Tiles, and tensors of HBM that are temporary. */
#include "impl.h"
#include "../isa/operand.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_RUNS = 1 << 16 };

typedef struct run {
  int64_t lo, hi;
} run;

/* Partitions p0 .. p1 - 1 of a buffer have the same bytes written: runs by place, apart. */
typedef struct band {
  uint16_t p0, p1;
  uint32_t n, cap;
  run *runs;
} band;

/* What is written of a buffer, when it is some of it: most often one box, else bands by partition,
 * together all of it. */
typedef struct cover {
  int64_t lo, hi;  /* of the box */
  uint16_t p0, p1; /* the same: nothing is written */
  band *bands;     /* n > 0: the box is in them as well, and does not count */
  uint32_t n, cap;
  uint32_t next;         /* of one that is free: the next free one */
  uint32_t writer;       /* 1 + item that wrote it last */
  uint32_t first_matmul; /* 1 + item */
  uint32_t first_loop;   /* that it is in, 0: none */
  bool vague;            /* something wrote it at places known only at run time */
} cover;

/* Most buffers are written as a whole by their first write, so that few have a cover at once. */
typedef struct definer {
  as_kernel *k;
  uint32_t *numbers; /* by buffer: of its cover, from 1 on; 0: nothing is written; K_NONE: all is */
  cover *covers;
  uint32_t ncovers, cap_covers, free; /* free: the first one that no buffer has */
  uint32_t open;                      /* the loop that items are in */
  uint32_t peel; /* a loop whose first round differs from the others; 0: none was met */
} definer;

/* ---- Covers -------------------------------------------------------------------------------- */

/* The cover of a buffer; NULL when nothing or all of it is written. */
static cover *cover_of(const definer *d, uint32_t buffer) {
  uint32_t number = d->numbers[buffer - 1];
  return number && number != K_NONE ? &d->covers[number - 1] : NULL;
}

/* The same of one that is not all written, made when it is not there; NULL: memory is out. It lies
 * there until the next one is made. */
static cover *make_cover(definer *d, uint32_t buffer) {
  cover *c = cover_of(d, buffer);
  if (c) return c;
  uint32_t number = d->free;
  if (number) {
    d->free = d->covers[number - 1].next;
  } else if (isa_array_room(&d->k->al, &d->covers, d->ncovers, &d->cap_covers, sizeof *c)) {
    number = ++d->ncovers;
  } else {
    as_k_nomem(d->k);
    return NULL;
  }
  d->numbers[buffer - 1] = number;
  d->covers[number - 1] = (cover){0};
  return &d->covers[number - 1];
}

static void free_bands(const definer *d, cover *c) {
  for (uint32_t b = 0; b < c->n; b++)
    isa_free(&d->k->al, c->bands[b].runs, c->bands[b].cap * sizeof(run));
  isa_free(&d->k->al, c->bands, c->cap * sizeof *c->bands);
  c->n = c->cap = 0;
  c->bands = NULL;
}

/* A buffer has no cover from here on: `number` is 0 or K_NONE. */
static void drop_cover(definer *d, uint32_t buffer, uint32_t number) {
  cover *c = cover_of(d, buffer);
  if (c) {
    free_bands(d, c);
    c->next = d->free;
    d->free = d->numbers[buffer - 1];
  }
  d->numbers[buffer - 1] = number;
}

/* ---- Bands and runs ------------------------------------------------------------------------ */

static bool split(definer *d, cover *c, uint32_t i, uint16_t at) {
  if (!isa_array_room(&d->k->al, &c->bands, c->n, &c->cap, sizeof *c->bands))
    return as_k_nomem(d->k);
  memmove(&c->bands[i + 1], &c->bands[i], (c->n - i) * sizeof *c->bands);
  c->n++;
  band *low = &c->bands[i], *high = &c->bands[i + 1];
  low->p1 = high->p0 = at;
  high->cap = high->n;
  high->runs = NULL;
  if (!high->n) return true;
  high->runs = isa_zalloc(&d->k->al, high->n * sizeof *high->runs);
  if (!high->runs) {
    high->n = high->cap = 0;
    return as_k_nomem(d->k);
  }
  memcpy(high->runs, low->runs, high->n * sizeof *high->runs);
  return true;
}

/* Cuts the bands so that [p0, p1) is made of whole ones. */
static bool cut(definer *d, cover *c, const as_k_buffer *b, uint16_t p0, uint16_t p1) {
  if (c->n == 0) {
    if (!isa_array_room(&d->k->al, &c->bands, 0, &c->cap, sizeof *c->bands))
      return as_k_nomem(d->k);
    bool hbm = b->space == ISA_HBM;
    c->bands[0] = (band){.p0 = hbm ? 0 : b->part, .p1 = hbm ? 1 : (uint16_t)(b->part + b->nparts)};
    c->n = 1;
  }
  for (uint32_t i = 0; i < c->n; i++) {
    if (c->bands[i].p0 < p0 && p0 < c->bands[i].p1 && !split(d, c, i, p0)) return false;
    if (c->bands[i].p0 < p1 && p1 < c->bands[i].p1 && !split(d, c, i, p1)) return false;
  }
  return true;
}

/* The first run of a band that ends at lo or later. */
static uint32_t find(const band *b, int64_t lo) {
  uint32_t low = 0, high = b->n;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (b->runs[mid].hi < lo)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static bool add_run(definer *d, band *b, run r) {
  uint32_t at = find(b, r.lo), end = at;
  for (; end < b->n && b->runs[end].lo <= r.hi; end++) {
    if (b->runs[end].lo < r.lo) r.lo = b->runs[end].lo;
    if (b->runs[end].hi > r.hi) r.hi = b->runs[end].hi;
  }
  if (end == at) {
    if (!isa_array_room(&d->k->al, &b->runs, b->n, &b->cap, sizeof *b->runs))
      return as_k_nomem(d->k);
    memmove(&b->runs[at + 1], &b->runs[at], (b->n - at) * sizeof *b->runs);
    b->n++;
  } else {
    memmove(&b->runs[at + 1], &b->runs[end], (b->n - end) * sizeof *b->runs);
    b->n -= end - at - 1;
  }
  b->runs[at] = r;
  return true;
}

/* Bytes of [lo, hi) that a band has. */
static int64_t had(const band *b, int64_t lo, int64_t hi) {
  int64_t n = 0;
  for (uint32_t i = find(b, lo); i < b->n && b->runs[i].lo < hi; i++) {
    int64_t from = b->runs[i].lo > lo ? b->runs[i].lo : lo;
    int64_t to = b->runs[i].hi < hi ? b->runs[i].hi : hi;
    if (to > from) n += to - from;
  }
  return n;
}

/* Goes on to the next run of some bytes: i counts each dimension, *at is where it begins. */
static bool next_run(const isa_byteset *b, int64_t *i, int64_t *at) {
  for (unsigned d = b ? b->n : 0; d-- > 0;) {
    *at += b->step[d];
    if (++i[d] < b->num[d]) return true;
    *at -= b->step[d] * b->num[d];
    i[d] = 0;
  }
  return false;
}

static bool too_many_runs(const isa_byteset *s) {
  int64_t n = 1;
  for (unsigned d = 0; s && d < s->n; d++) n = n > MOST_RUNS ? n : n * s->num[d];
  return n > MOST_RUNS;
}

/* The box as bands. */
static bool unpack(definer *d, cover *c, const as_k_buffer *b) {
  if (c->n || c->p0 == c->p1) return true;
  if (!cut(d, c, b, c->p0, c->p1)) return false;
  for (uint32_t i = 0; i < c->n; i++)
    if (c->bands[i].p0 == c->p0 && !add_run(d, &c->bands[i], (run){c->lo, c->hi})) return false;
  return true;
}

static bool in_box(const cover *c, const as_k_bytes *b) {
  return c->lo <= b->lo && b->hi <= c->hi && c->p0 <= b->p0 && b->p1 <= c->p1;
}

/* Adds dense bytes to the box when the two together are one. */
static bool grow_box(cover *c, const as_k_bytes *b) {
  if (c->p0 == c->p1 || (b->lo <= c->lo && c->hi <= b->hi && b->p0 <= c->p0 && c->p1 <= b->p1)) {
    c->lo = b->lo;
    c->hi = b->hi;
    c->p0 = b->p0;
    c->p1 = b->p1;
  } else if (c->p0 == b->p0 && c->p1 == b->p1 && b->lo <= c->hi && c->lo <= b->hi) {
    c->lo = b->lo < c->lo ? b->lo : c->lo;
    c->hi = b->hi > c->hi ? b->hi : c->hi;
  } else if (c->lo == b->lo && c->hi == b->hi && b->p0 <= c->p1 && c->p0 <= b->p1) {
    c->p0 = b->p0 < c->p0 ? b->p0 : c->p0;
    c->p1 = b->p1 > c->p1 ? b->p1 : c->p1;
  } else {
    return in_box(c, b);
  }
  return true;
}

static int64_t run_of(const as_k_bytes *b) { return b->set ? b->set->run : b->hi - b->lo; }

static bool write_bytes(definer *d, cover *c, const as_k_buffer *b, const as_k_bytes *bytes) {
  const isa_byteset *s = too_many_runs(bytes->set) ? NULL : bytes->set;
  int64_t length = s ? s->run : bytes->hi - bytes->lo;
  if (!c->n && (in_box(c, bytes) || (!s && grow_box(c, bytes)))) return true;
  if (!unpack(d, c, b) || !cut(d, c, b, bytes->p0, bytes->p1)) return false;
  for (uint32_t i = 0; i < c->n; i++) {
    int64_t at = bytes->lo, index[ISA_MAX_DIMS] = {0};
    if (c->bands[i].p0 < bytes->p0 || c->bands[i].p1 > bytes->p1) continue;
    do
      if (!add_run(d, &c->bands[i], (run){at, at + length})) return false;
    while (next_run(s, index, &at));
  }
  return true;
}

enum { NOTHING, SOME, ALL, FAILED };

/* The first byte of [lo, hi) that a band lacks; hi: it has them all. */
static int64_t lacks(const band *b, int64_t lo, int64_t hi) {
  for (uint32_t i = find(b, lo); i < b->n && b->runs[i].lo <= lo; i++)
    if (b->runs[i].hi > lo) lo = b->runs[i].hi;
  return lo < hi ? lo : hi;
}

/* How much of the bytes is written; *part, *byte: partition and byte of the first that is not.
 * FAILED: memory is out. */
static int state_of(definer *d, uint32_t buffer, const as_k_bytes *bytes, unsigned *part,
                    int64_t *byte) {
  cover *c = cover_of(d, buffer);
  *part = bytes->p0;
  *byte = bytes->lo;
  if (d->numbers[buffer - 1] == K_NONE) return ALL;
  if (!c || (!c->n && c->p0 == c->p1)) return NOTHING;
  if (!c->n && in_box(c, bytes)) return ALL;
  if (!unpack(d, c, as_k_buf(d->k, buffer))) return FAILED;
  bool some = false, all = c->n > 0;
  int64_t length = run_of(bytes);
  if (too_many_runs(bytes->set)) return c->writer ? ALL : NOTHING;
  for (uint32_t i = 0; i < c->n; i++) {
    const band *b = &c->bands[i];
    int64_t at = bytes->lo, index[ISA_MAX_DIMS] = {0};
    if (b->p1 <= bytes->p0 || b->p0 >= bytes->p1) continue;
    do {
      int64_t n = had(b, at, at + length);
      some = some || n > 0;
      if (n == length || !all) continue;
      all = false;
      *part = b->p0 > bytes->p0 ? b->p0 : bytes->p0;
      *byte = lacks(b, at, at + length);
    } while ((all || !some) && next_run(bytes->set, index, &at));
  }
  return all ? ALL : some ? SOME : NOTHING;
}

/* ---- Items --------------------------------------------------------------------------------- */

static bool is_followed(const as_kernel *k, const as_k_buffer *b) {
  return b->space != ISA_HBM || k->scratch->tensors[b->tensor - 1].role == ISA_TEMP;
}

static const char *name_of(const as_kernel *k, const as_k_buffer *b) {
  if (b->space == ISA_HBM) return k->scratch->tensors[b->tensor - 1].name;
  return b->name ? b->name : "without a name";
}

/* The element that holds a byte, as `[1, 2]`. */
static const char *element_of(const as_kernel *k, const as_k_buffer *b, unsigned part, int64_t byte,
                              char *out, size_t n) {
  const isa_tensor *t = b->space == ISA_HBM ? &k->scratch->tensors[b->tensor - 1] : NULL;
  int64_t at[ISA_TENSOR_DIMS] = {0};
  int64_t rest = byte / isa_dtype_bytes(t ? t->dtype : b->dtype);
  unsigned ndim = t ? t->ndim : b->ndim;
  size_t used = 0;
  for (unsigned i = ndim; i-- > (t ? 0u : 1u);) {
    int64_t size = t ? t->shape[i] : b->shape[i];
    at[i] = rest % size;
    rest /= size;
  }
  if (!t) at[0] = part - b->part;
  for (unsigned i = 0; i < ndim && used < n; i++)
    used += (size_t)snprintf(out + used, n - used, "%s%" PRId64, i ? ", " : "[", at[i]);
  if (used < n) snprintf(out + used, n - used, "]");
  return out;
}

/* Notes a tile or tensor that is read before it is written, and goes on as if it were: those that
 * follow are noted in the same pass. False: memory is out. */
static bool note_unwritten(definer *d, const as_k_item *it, uint32_t buffer) {
  as_kernel *k = d->k;
  cover *c = make_cover(d, buffer);
  const char *text = isa_arena_strn(&k->arena, k->error.text, strlen(k->error.text));
  if (!c || !text || !K_GROW(k, unwritten, nunwritten, cap_unwritten)) return as_k_nomem(k);
  k->unwritten[k->nunwritten++] = (as_kernel_unwritten){buffer, text, it->at};
  c->vague = true;
  if (!c->writer) c->writer = (uint32_t)(it - k->items) + 1;
  return true;
}

static bool unwritten(definer *d, const as_k_item *it, const as_k_use *u, unsigned part,
                      int64_t byte) {
  as_kernel *k = d->k;
  const as_k_operand *o = as_k_use_op(k, it, u);
  const as_k_buffer *b = as_k_buf(k, o->buffer);
  const cover *c = cover_of(d, o->buffer);
  char where[160], element[160], partition[40] = "";
  const char *field = isa_form_of(it->op)->fields[u->field].name;
  uint32_t writer = c ? c->writer : 0;
  isa_line at = writer ? k->items[writer - 1].at : b->at;
  if (b->space != ISA_HBM)
    snprintf(partition, sizeof partition, "partition %u of ", part - b->part);
  as_k_fail(k, ISA_ILLEGAL, it->at,
            "%s %s: reads byte %" PRId64 " of %s%s %.60s (element %s), which nothing has "
            "written before; %s %s",
            isa_ops[it->op].name, field, byte, partition, b->space == ISA_HBM ? "tensor" : "tile",
            name_of(k, b), element_of(k, b, part, byte, element, sizeof element),
            writer ? "other bytes of it are written at" : "it is declared at",
            as_k_where(k, at, where, sizeof where));
  return note_unwritten(d, it, o->buffer);
}

/* Whether an instruction may leave some of an operand unread. */
static bool may_skip(const as_kernel *k, const as_k_item *it, const as_k_use *u) {
  const isa_field *f = &isa_form_of(it->op)->fields[u->field];
  bool pattern = f->kind == ISA_K_AP || f->kind == ISA_K_APS;
  return (pattern && (f->arg & AP_IN_PART)) || isa_skips_rows(&as_k_ruling_of(k, it)->in);
}

static bool check_read(definer *d, const as_k_item *it, const as_k_use *u) {
  as_kernel *k = d->k;
  const as_k_operand *o = as_k_use_op(k, it, u);
  as_k_bytes bytes;
  unsigned part;
  int64_t byte;
  if (d->numbers[o->buffer - 1] == K_NONE || !is_followed(k, as_k_buf(k, o->buffer))) return true;
  as_k_bytes_of(k, o, &bytes);
  int state = state_of(d, o->buffer, &bytes, &part, &byte);
  if (state == FAILED) return false;
  const cover *c = cover_of(d, o->buffer);
  bool loose = o->dyn || (c && c->vague) || may_skip(k, it, u);
  if (state == ALL || (loose && (state == SOME || (c && c->writer)))) return true;
  return unwritten(d, it, u, part, byte);
}

/* Whether bytes are all of a buffer, or a cover has all. */
static bool is_whole(const as_k_bytes *bytes, const as_k_bytes *all) {
  return !bytes->set && bytes->p0 <= all->p0 && all->p1 <= bytes->p1 && bytes->lo <= all->lo &&
         all->hi <= bytes->hi;
}
static bool has_all(const cover *c, const as_k_bytes *all) {
  return c->n == 0 ? in_box(c, all)
                   : c->n == 1 && c->bands[0].n == 1 && c->bands[0].runs[0].lo == 0 &&
                         c->bands[0].runs[0].hi == all->hi;
}

static bool note_write(definer *d, uint32_t item, const as_k_use *u) {
  as_kernel *k = d->k;
  const as_k_item *it = &k->items[item];
  const as_k_operand *o = as_k_use_op(k, it, u);
  as_k_buffer *b = as_k_buf(k, o->buffer);
  cover *c = NULL;
  as_k_bytes bytes;
  if (d->numbers[o->buffer - 1] == K_NONE || !is_followed(k, b)) return true;
  uint16_t parts = b->space == ISA_HBM ? 1 : b->nparts;
  as_k_bytes all = {
      .p0 = b->part, .p1 = (uint16_t)(b->part + parts), .hi = (int64_t)as_k_buffer_bytes(k, b)};
  if (u->covers) as_k_bytes_of(k, o, &bytes);
  bool whole = u->covers && is_whole(&bytes, &all);
  if (!whole && !(c = make_cover(d, o->buffer))) return false;
  if (c) c->writer = item + 1;
  if (c && !u->covers) c->vague = true;
  if (c && u->covers && !write_bytes(d, c, b, &bytes)) return false;
  if (!whole && (!u->covers || !has_all(c, &all))) return true;
  if (!b->whole) b->whole = item + 1;
  drop_cover(d, o->buffer, K_NONE);
  return true;
}

/* ---- Matmuls that left it open ------------------------------------------------------------- */

/* The number of a matmul's operand that it marks as fresh; 0: it has none. */
static uint32_t *zero_of(isa_insn *in) {
  return isa_member(in, &isa_form_of(in->op)->fields[isa_field_of(in->op, ISA_K_AP, AP_FREED)]);
}

/* An operand that is the whole of a tile, of a type. */
static bool whole_tile(as_kernel *k, uint32_t buffer, unsigned dtype, uint32_t *out) {
  const as_k_buffer *b = as_k_buf(k, buffer);
  isa_dim all = {1, b->bytes / isa_dtype_bytes(dtype)};
  as_k_operand o = {.buffer = buffer,
                    .shape = as_k_find_shape(k, (uint8_t)dtype, 1, &all),
                    .part = (uint8_t)b->part,
                    .nparts = (uint8_t)b->nparts,
                    .space = b->space};
  uint64_t *at = o.shape ? as_k_take_units(k, sizeof o / 8, out) : NULL;
  if (at) memcpy(at, &o, sizeof o);
  return at != NULL;
}

/* Whether a loop whose end has come, or another part of one, ran it in each of its rounds. */
static bool ran_often(const definer *d, uint32_t loop) {
  const as_k_loop *loops = d->k->loops;
  for (uint32_t l = loop; l; l = loops[l - 1].parent) {
    for (uint32_t o = d->open; o; o = loops[o - 1].parent)
      if (o == l) return false;
    if (!loops[l - 1].once) return true;
  }
  return false;
}

/* Some of dst is written: the first matmul of the tile marks all of it as fresh, and from there on
 * the machine knows what is. */
static bool mix(definer *d, as_k_item *it, uint32_t buffer, unsigned dtype) {
  as_kernel *k = d->k;
  const cover *c = cover_of(d, buffer);
  if (!c->first_matmul || ran_often(d, c->first_loop))
    return as_k_fail(k, ISA_ILLEGAL, it->at,
                     "%s dst: some of its bytes are written, but %s: give acc=write "
                     "or acc=add",
                     isa_ops[it->op].name, c->first_matmul ? "first in a loop" : "not by a matmul");
  as_k_item *first = &k->items[c->first_matmul - 1];
  isa_insn in = as_k_ruling_of(k, first)->in;
  uint32_t zero = *zero_of(&in);
  if (!as_k_set_acc(k, first, ISA_ACC_auto) || !as_k_set_acc(k, it, ISA_ACC_auto)) return false;
  if (zero) return true;
  if (!whole_tile(k, buffer, dtype, &zero)) return false;
  as_k_ruling *own = as_k_own_ruling(k, first);
  if (!own) return false;
  *zero_of(&own->in) = zero - first->ops;
  return as_k_find_uses(k, own, first->ops);
}

/* The outermost loop in whose later rounds more of a buffer is written than in the first. */
static uint32_t differing_loop(const definer *d, const as_k_buffer *b) {
  const as_kernel *k = d->k;
  uint32_t born = b->loop ? k->loops[b->loop - 1].origin : 0, found = 0;
  for (uint32_t l = d->open; l && k->loops[l - 1].origin != born; l = k->loops[l - 1].parent)
    if (!k->loops[l - 1].once && !k->loops[l - 1].rest) found = l;
  return found;
}

static bool refuse_while(definer *d, const as_k_item *it) {
  return as_k_fail(d->k, ISA_UNBUILT, it->at,
                   "%s: in a while at run time acc must be write or add: what is written of dst "
                   "differs from round to round",
                   isa_ops[it->op].name);
}

/* Sets the `acc` of a matmul that left it open. */
static bool choose_acc(definer *d, as_k_item *it, uint32_t buffer, const as_k_bytes *bytes,
                       unsigned dtype) {
  as_kernel *k = d->k;
  unsigned part;
  int64_t byte;
  int state = state_of(d, buffer, bytes, &part, &byte);
  if (state == FAILED) return false;
  uint32_t loop = state == ALL ? 0 : differing_loop(d, as_k_buf(k, buffer));
  if (loop && k->loops[loop - 1].is_while) return refuse_while(d, it);
  d->peel = loop;
  if (loop) return false;
  const cover *c = cover_of(d, buffer);
  if (state == SOME || (state == NOTHING && c && c->vague)) return mix(d, it, buffer, dtype);
  return as_k_set_acc(k, it, state == ALL ? ISA_ACC_add : ISA_ACC_write);
}

static bool define_matmul(definer *d, uint32_t item) {
  as_kernel *k = d->k;
  as_k_item *it = &k->items[item];
  const as_k_use *uses;
  isa_insn in = as_k_ruling_of(k, it)->in;
  unsigned u = 0, n = as_k_used(k, it, &uses);
  as_k_bytes bytes;
  while (u < n && !uses[u].writes) u++;
  if (u == n) return true;
  const as_k_operand o = *as_k_use_op(k, it, &uses[u]);
  as_k_bytes_of(k, &o, &bytes);
  bool open =
      (it->flags & AS_REC_ACCUMULATE) || (isa_insn_acc(&in) == ISA_ACC_auto && !*zero_of(&in));
  if (open && !choose_acc(d, it, o.buffer, &bytes, as_k_shape_of(k, &o)->dtype)) return false;
  if (d->numbers[o.buffer - 1] == K_NONE) return true;
  cover *c = make_cover(d, o.buffer);
  if (!c) return false;
  if (!c->first_matmul) {
    c->first_matmul = item + 1;
    c->first_loop = d->open;
  }
  return true;
}

static bool define_item(definer *d, uint32_t item) {
  as_kernel *k = d->k;
  const as_k_item *it = &k->items[item];
  const as_k_use *uses;
  bool matmul = as_k_ruling_of(k, it)->has_acc;
  if (matmul && !define_matmul(d, item)) return false;
  /* The machine knows what is written where it is asked for. */
  bool asks = matmul && isa_insn_acc(&as_k_ruling_of(k, it)->in) == ISA_ACC_auto;
  unsigned n = as_k_used(k, it, &uses);
  for (unsigned u = 0; u < n; u++)
    if (uses[u].reads && !(asks && uses[u].writes) && !check_read(d, it, &uses[u])) return false;
  for (unsigned u = 0; u < n; u++)
    if (uses[u].writes && !note_write(d, item, &uses[u])) return false;
  return true;
}

static void close_covers(definer *d) {
  for (uint32_t i = 0; i < d->ncovers; i++) free_bands(d, &d->covers[i]);
  isa_free(&d->k->al, d->covers, d->cap_covers * sizeof *d->covers);
  isa_free(&d->k->al, d->numbers, ((size_t)d->k->nbuffers + 1) * sizeof *d->numbers);
}

/* What was declared in a loop begins anew with each part of it. */
static void enter(definer *d, uint32_t loop) {
  const as_kernel *k = d->k;
  uint32_t origin = k->loops[loop - 1].origin;
  d->open = loop;
  for (uint32_t i = 0; k->loops[loop - 1].rest && i < k->nbuffers; i++)
    if (k->buffers[i].loop && k->loops[k->buffers[i].loop - 1].origin == origin)
      drop_cover(d, i + 1, 0);
}

static bool define_items(definer *d) {
  as_kernel *k = d->k;
  for (uint32_t i = 0; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    if (it->op == K_LOOP || it->op == K_WHILE) enter(d, it->loop);
    if (it->op == K_ENDLOOP) d->open = k->loops[it->loop - 1].parent;
    if (it->op < ISA_NOPS && !define_item(d, i)) return false;
  }
  return true;
}

/* The error is the first of what was read unwritten, whatever came after it. */
static bool fail_with_first(as_kernel *k) {
  const as_kernel_unwritten *first = &k->unwritten[0];
  if (k->error.status == ISA_NOMEM) return false;
  k->error.status = ISA_ILLEGAL;
  k->error.at = first->at;
  snprintf(k->error.text, sizeof k->error.text, "%s", first->text);
  return false;
}

/* Once more for each loop that is taken apart. */
bool as_k_define(as_kernel *k) {
  for (;;) {
    definer d = {.k = k};
    d.numbers = isa_zalloc(&k->al, ((size_t)k->nbuffers + 1) * sizeof *d.numbers);
    bool ok = d.numbers ? define_items(&d) : as_k_nomem(k);
    close_covers(&d);
    if (k->nunwritten) return fail_with_first(k);
    if (!d.peel || !as_k_peel(k, d.peel)) return ok;
    for (uint32_t i = 0; i < k->nbuffers; i++) k->buffers[i].whole = 0; /* items have moved */
  }
}
