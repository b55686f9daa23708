/* Every read lies within what was written before, by bytes; and what `acc` a matmul takes that left
 * it open. Tiles, and tensors of HBM that are temporary. */
#include "impl.h"
#include "../../isa/operand.h"

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

/* What is written of a buffer: most often one box, else bands by partition, together all of it. */
typedef struct cover {
  int64_t lo, hi;  /* of the box */
  uint16_t p0, p1; /* the same: nothing is written */
  band *bands;     /* n > 0: the box is in them as well, and does not count */
  uint32_t n, cap;
  uint32_t writer;       /* 1 + item that wrote it last */
  uint32_t first_matmul; /* 1 + item */
  uint32_t first_loop;   /* that it is in, 0: none */
  bool vague;            /* something wrote it at places known only at run time */
} cover;

typedef struct definer {
  as_kernel *k;
  cover *covers;
  uint32_t open; /* the loop that items are in */
  uint32_t peel; /* a loop whose first round differs from the others; 0: none was met */
} definer;

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
static int state_of(definer *d, cover *c, const as_k_buffer *buffer, const as_k_bytes *bytes,
                    unsigned *part, int64_t *byte) {
  *part = bytes->p0;
  *byte = bytes->lo;
  if (!c->n && c->p0 == c->p1) return NOTHING;
  if (!c->n && in_box(c, bytes)) return ALL;
  if (!unpack(d, c, buffer)) return FAILED;
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
  cover *c = &d->covers[buffer - 1];
  const char *text = isa_arena_strn(&k->arena, k->error.text, strlen(k->error.text));
  if (!text || !K_GROW(k, unwritten, nunwritten, cap_unwritten)) return as_k_nomem(k);
  k->unwritten[k->nunwritten++] = (as_kernel_unwritten){buffer, text, it->at};
  c->vague = true;
  if (!c->writer) c->writer = (uint32_t)(it - k->items) + 1;
  return true;
}

static bool unwritten(definer *d, const as_k_item *it, const as_k_use *u, unsigned part,
                      int64_t byte) {
  as_kernel *k = d->k;
  const as_k_operand *o = as_k_op(k, u->operand);
  const as_k_buffer *b = as_k_buf(k, o->buffer);
  const cover *c = &d->covers[o->buffer - 1];
  char where[160], element[160], partition[40] = "";
  const char *field = isa_form_of(it->in.op)->fields[u->field].name;
  isa_line at = c->writer ? k->items[c->writer - 1].at : b->at;
  if (b->space != ISA_HBM)
    snprintf(partition, sizeof partition, "partition %u of ", part - b->part);
  as_k_fail(k, ISA_ILLEGAL, it->at,
            "%s %s: reads byte %" PRId64 " of %s%s %.60s (element %s), which nothing has "
            "written before; %s %s",
            isa_ops[it->in.op].name, field, byte, partition,
            b->space == ISA_HBM ? "tensor" : "tile", name_of(k, b),
            element_of(k, b, part, byte, element, sizeof element),
            c->writer ? "other bytes of it are written at" : "it is declared at",
            as_k_where(k, at, where, sizeof where));
  return note_unwritten(d, it, o->buffer);
}

/* Whether an instruction may leave some of an operand unread. */
static bool may_skip(const as_k_item *it, const as_k_use *u) {
  const isa_field *f = &isa_form_of(it->in.op)->fields[u->field];
  bool pattern = f->kind == ISA_K_AP || f->kind == ISA_K_APS;
  return (pattern && (f->arg & AP_IN_PART)) || isa_skips_rows(&it->in);
}

static bool check_read(definer *d, const as_k_item *it, const as_k_use *u) {
  as_kernel *k = d->k;
  const as_k_operand *o = as_k_op(k, u->operand);
  const as_k_buffer *b = as_k_buf(k, o->buffer);
  cover *c = &d->covers[o->buffer - 1];
  const as_k_dyn *dyn = o->dyn ? &k->dyns[o->dyn - 1] : NULL;
  as_k_bytes bytes;
  unsigned part;
  int64_t byte;
  if (!is_followed(k, b)) return true;
  as_k_bytes_of(k, o, &bytes);
  int state = state_of(d, c, b, &bytes, &part, &byte);
  if (state == FAILED) return false;
  bool loose = dyn || c->vague || may_skip(it, u);
  if (state == ALL || (loose && (state == SOME || c->writer))) return true;
  return unwritten(d, it, u, part, byte);
}

static bool note_write(definer *d, uint32_t item, const as_k_use *u) {
  as_kernel *k = d->k;
  const as_k_operand *o = as_k_op(k, u->operand);
  const as_k_buffer *b = as_k_buf(k, o->buffer);
  cover *c = &d->covers[o->buffer - 1];
  as_k_bytes bytes;
  if (!is_followed(k, b)) return true;
  c->writer = item + 1;
  if (!u->covers) {
    c->vague = true;
    return true;
  }
  as_k_bytes_of(k, o, &bytes);
  if (!write_bytes(d, c, b, &bytes)) return false;
  as_k_bytes all = {.p0 = b->part, .p1 = (uint16_t)(b->part + b->nparts), .hi = b->bytes};
  bool whole = c->n == 0 ? in_box(c, &all)
                         : c->n == 1 && c->bands[0].n == 1 && c->bands[0].runs[0].lo == 0 &&
                               c->bands[0].runs[0].hi == b->bytes;
  if (whole && !b->whole) as_k_buf(k, o->buffer)->whole = item + 1;
  return true;
}

/* ---- Matmuls that left it open ------------------------------------------------------------- */

static void *member_of(as_k_item *it, unsigned kind, uint32_t arg) {
  int i = it->in.op < ISA_NOPS ? isa_field_of(it->in.op, kind, arg) : -1;
  return i < 0 ? NULL : isa_member(&it->in, &isa_form_of(it->in.op)->fields[i]);
}
static isa_t_ENUM *acc_of(as_k_item *it) { return member_of(it, ISA_K_ENUM, ISA_SET_ACC); }
static uint32_t *zero_of(as_k_item *it) { return member_of(it, ISA_K_AP, AP_FREED); }

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
static bool mix(definer *d, as_k_item *it, cover *c, uint32_t buffer, unsigned dtype) {
  as_kernel *k = d->k;
  if (!c->first_matmul || ran_often(d, c->first_loop))
    return as_k_fail(k, ISA_ILLEGAL, it->at,
                     "%s dst: some of its bytes are written, but %s: give acc=write "
                     "or acc=add",
                     isa_ops[it->in.op].name,
                     c->first_matmul ? "first in a loop" : "not by a matmul");
  as_k_item *first = &k->items[c->first_matmul - 1];
  uint32_t *zero = zero_of(first);
  if (!*zero && !whole_tile(k, buffer, dtype, zero)) return false;
  *acc_of(first) = ISA_ACC_auto;
  *acc_of(it) = ISA_ACC_auto;
  if (first == it) return true;
  as_k_use uses[K_OPERANDS];
  return as_k_keep_uses(k, first, uses, as_k_uses(k, first, uses));
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
                   isa_ops[it->in.op].name);
}

static bool choose_acc(definer *d, uint32_t item, const as_k_use *uses, unsigned n) {
  as_kernel *k = d->k;
  as_k_item *it = &k->items[item];
  isa_t_ENUM *acc = acc_of(it);
  unsigned u = 0, part;
  int64_t byte;
  as_k_bytes bytes;
  while (u < n && !uses[u].writes) u++;
  if (!acc || u == n) return true;
  const as_k_operand *o = as_k_op(k, uses[u].operand);
  cover *c = &d->covers[o->buffer - 1];
  as_k_bytes_of(k, o, &bytes);
  bool open = (it->flags & AS_REC_ACCUMULATE) || (*acc == ISA_ACC_auto && !*zero_of(it));
  if (open) {
    int state = state_of(d, c, as_k_buf(k, o->buffer), &bytes, &part, &byte);
    if (state == FAILED) return false;
    uint32_t loop = state == ALL ? 0 : differing_loop(d, as_k_buf(k, o->buffer));
    if (loop && k->loops[loop - 1].is_while) return refuse_while(d, it);
    d->peel = loop;
    if (loop) return false;
    if (state != ALL && c->vague) state = SOME;
    if (state == SOME && !mix(d, it, c, o->buffer, as_k_shape_of(k, o)->dtype)) return false;
    if (state != SOME) *acc = state == ALL ? ISA_ACC_add : ISA_ACC_write;
  }
  if (!c->first_matmul) {
    c->first_matmul = item + 1;
    c->first_loop = d->open;
  }
  return true;
}

static bool define_item(definer *d, uint32_t item) {
  as_kernel *k = d->k;
  as_k_use uses[K_OPERANDS];
  as_k_item *it = &k->items[item];
  isa_t_ENUM *acc = acc_of(it);
  unsigned n = as_k_uses(k, it, uses);
  if (acc) {
    if (!choose_acc(d, item, uses, n)) return false;
    n = as_k_uses(k, it, uses); /* one that adds reads as well */
  }
  for (unsigned u = 0; u < n; u++) {
    bool fresh = acc && uses[u].writes && *acc == ISA_ACC_auto; /* the machine knows what is */
    if (uses[u].reads && !fresh && !check_read(d, it, &uses[u])) return false;
  }
  for (unsigned u = 0; u < n; u++)
    if (uses[u].writes && !note_write(d, item, &uses[u])) return false;
  return as_k_keep_uses(k, it, uses, n);
}

static void forget(definer *d, cover *c) {
  for (uint32_t b = 0; b < c->n; b++)
    isa_free(&d->k->al, c->bands[b].runs, c->bands[b].cap * sizeof(run));
  isa_free(&d->k->al, c->bands, c->cap * sizeof *c->bands);
  memset(c, 0, sizeof *c);
}

static void close_covers(definer *d) {
  for (uint32_t i = 0; d->covers && i < d->k->nbuffers; i++) forget(d, &d->covers[i]);
  isa_free(&d->k->al, d->covers, ((size_t)d->k->nbuffers + 1) * sizeof *d->covers);
}

/* What was declared in a loop begins anew with each part of it. */
static void enter(definer *d, uint32_t loop) {
  const as_kernel *k = d->k;
  uint32_t origin = k->loops[loop - 1].origin;
  d->open = loop;
  for (uint32_t i = 0; k->loops[loop - 1].rest && i < k->nbuffers; i++)
    if (k->buffers[i].loop && k->loops[k->buffers[i].loop - 1].origin == origin)
      forget(d, &d->covers[i]);
}

static bool define_items(definer *d) {
  as_kernel *k = d->k;
  for (uint32_t i = 0; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    if (it->in.op == K_LOOP || it->in.op == K_WHILE) enter(d, it->loop);
    if (it->in.op == K_ENDLOOP) d->open = k->loops[it->loop - 1].parent;
    if (it->in.op < ISA_NOPS && !define_item(d, i)) return false;
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
    d.covers = isa_zalloc(&k->al, ((size_t)k->nbuffers + 1) * sizeof *d.covers);
    bool ok = d.covers ? define_items(&d) : as_k_nomem(k);
    close_covers(&d);
    if (k->nunwritten) return fail_with_first(k);
    if (!d.peel || !as_k_peel(k, d.peel)) return ok;
    k->nuses = 0;
  }
}
