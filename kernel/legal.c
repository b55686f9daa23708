/* Instructions that break a rule which a copy repairs, for clients that allow copies. There is no
 * list of rules here: operands are staged in tiles of their own, one, then two, then all of them,
 * until the verifier has nothing to say. A source is copied before, a destination after.
 *
 *   tensor_tensor d, p, q   with p and q in PSUM     tensor_copy t, p;  tensor_tensor d, t, q
 *   dma_copy p, x           with p in PSUM           dma_copy t, x;     tensor_copy p, t */
#include "impl.h"
#include "../isa/operand.h"

enum { MOST_OPERANDS = 8, MOST_PIECES = 256 };

/* How an operand may be staged, in the order tried. */
enum { PLAIN, OTHER_TYPE, SPREAD, WAYS };

typedef struct place { /* of an operand in the item */
  uint32_t *at;        /* the field that names it */
  const isa_field *field;
  uint32_t number, staged;
  bool reads, writes;
} place;

typedef struct repairer {
  as_kernel *k;
  as_k_draft d;
  place places[MOST_OPERANDS];
  unsigned n;
  as_kernel_error error; /* of the instruction as it was given */
} repairer;

static const as_k_shape *shape_at(const as_kernel *k, uint32_t number) {
  return as_k_shape_of(k, as_k_op(k, number));
}

/* The operands of m->it that may be staged: those that move no other operand. */
static void find_places(repairer *m) {
  const isa_form *form = isa_form_of(m->d.in.op);
  as_k_use uses[K_OPERANDS];
  unsigned nuses = as_k_uses(m->k, &m->d.in, m->d.it.ops, uses);
  m->n = 0;
  for (unsigned i = 0; i < form->nfields && m->n < MOST_OPERANDS; i++) {
    const isa_field *f = &form->fields[i];
    uint32_t *at = f->kind == ISA_K_AP ? isa_member(&m->d.in, f) : NULL;
    isa_num *num = isa_member(&m->d.in, f);
    if (f->kind == ISA_K_NUM && num->kind == ISA_NUM_ap) at = &num->v;
    if (!at || !*at || (f->kind == ISA_K_AP && (f->arg & AP_FREED))) continue;
    place p = {.at = at, .field = f, .number = m->d.it.ops + *at};
    for (unsigned u = 0; u < nuses; u++) {
      if (uses[u].operand != *at) continue;
      p.writes = p.writes || uses[u].writes;
      p.reads = p.reads || uses[u].reads;
    }
    if (f->kind == ISA_K_AP && (f->arg & AP_IN_PART)) p.reads = true; /* what it leaves as it is */
    m->places[m->n++] = p;
  }
}

/* ---- Staged operands ----------------------------------------------------------------------- */

bool as_k_put_operand(as_kernel *k, as_k_operand o, uint8_t dtype, unsigned ndim,
                      const isa_dim *dim, uint32_t *number) {
  o.shape = as_k_find_shape(k, dtype, (uint8_t)ndim, dim);
  uint64_t *at = o.shape ? as_k_take_units(k, sizeof o / 8, number) : NULL;
  if (at) memcpy(at, &o, sizeof o);
  return at != NULL;
}

/* The dimensions of a staged operand, dense, from the outermost free one; how many. In HBM the
 * first dimension is that of the partitions. Outer ones are joined until there are at most `most`.
 */
static unsigned dense_dims(const as_k_shape *s, bool hbm, unsigned most, isa_dim *out) {
  unsigned first = hbm && s->ndim > 0, n = s->ndim - first;
  for (unsigned d = 0; d < n; d++) out[d].num = s->dim[first + d].num;
  for (; n > most; n--) {
    out[1].num *= out[0].num;
    memmove(out, out + 1, (n - 1) * sizeof *out);
  }
  int64_t step = 1;
  for (unsigned d = n; d-- > 0; step *= out[d].num) out[d].step = step;
  return n;
}

/* A tile for the elements of an operand, and the operand that is all of it. */
static bool stage(repairer *m, const place *p, unsigned parts, uint8_t dtype, uint32_t *number) {
  as_kernel *k = m->k;
  const as_k_operand *x = as_k_op(k, p->number);
  const as_k_shape *s = shape_at(k, p->number);
  bool hbm = x->space == ISA_HBM, pattern = p->field->kind == ISA_K_AP;
  uint32_t arg = pattern ? p->field->arg : AP_S | 4;
  uint64_t bytes = isa_dtype_bytes(dtype);
  isa_dim dim[ISA_MAX_DIMS];
  for (unsigned d = hbm; d < s->ndim && bytes <= as_k_room(k, ISA_SBUF); d++)
    bytes *= s->dim[d].num;
  if (parts == 0 || parts > ISA_PMAX || bytes > as_k_room(k, ISA_SBUF)) return false;
  unsigned n = dense_dims(s, hbm, arg & AP_DIMS ? arg & AP_DIMS : 1, dim);
  as_kernel_tile t = {.name = as_k_buf(k, x->buffer)->name,
                      .space = arg & AP_S ? ISA_SBUF : ISA_PSUM,
                      .dtype = dtype,
                      .ndim = 2,
                      .shape = {parts, (uint32_t)(bytes / isa_dtype_bytes(dtype))},
                      .part = -1,
                      .offset = -1,
                      .at = m->d.it.at};
  as_k_operand o = {.nparts = (uint8_t)parts, .space = t.space};
  return as_kernel_tile_new(k, &t, &o.buffer) && as_k_put_operand(k, o, dtype, n, dim, number);
}

static unsigned parts_of(const as_kernel *k, uint32_t number) {
  const as_k_operand *x = as_k_op(k, number);
  if (x->space != ISA_HBM) return x->nparts;
  const as_k_shape *s = as_k_shape_of(k, x);
  return s->ndim ? s->dim[0].num > ISA_PMAX ? 0 : s->dim[0].num : 1;
}

/* The type, or the number of partitions, that the other operands have and this one has not. */
static bool other(const repairer *m, const place *p, unsigned way, unsigned *parts,
                  uint8_t *dtype) {
  for (unsigned i = 0; i < m->n; i++) {
    uint8_t type = shape_at(m->k, m->places[i].number)->dtype;
    unsigned n = parts_of(m->k, m->places[i].number);
    if (way == OTHER_TYPE && type != *dtype) {
      *dtype = type;
      return true;
    }
    if (way == SPREAD && *parts == 1 && n > 1 && p->reads && !p->writes) {
      *parts = n;
      return true;
    }
  }
  return way == PLAIN;
}

static bool stage_in_way(repairer *m, place *p, unsigned way) {
  unsigned parts = parts_of(m->k, p->number);
  uint8_t dtype = shape_at(m->k, p->number)->dtype;
  const as_k_operand *x = as_k_op(m->k, p->number);
  const as_k_dyn *d = x->dyn ? &m->k->dyns[x->dyn - 1] : NULL;
  if (d && (d->index_kind || d->size_dim)) return false;
  if (isa_insn_acc(&m->d.in) >= 0 && p->reads && p->writes) return false; /* a sum stays in place */
  return other(m, p, way, &parts, &dtype) && stage(m, p, parts, dtype, &p->staged);
}

/* ---- Copies --------------------------------------------------------------------------------- */

static bool put_copy(repairer *m, unsigned op, uint32_t dst, uint32_t src) {
  as_k_draft c = {.it = {.engine = ISA_NENGINES, .at = m->d.it.at, .added = true}};
  as_k_key key = {.n = 0};
  c.in.op = (uint16_t)op;
  const isa_form *form = isa_form_of(op);
  *(isa_t_AP *)isa_member(&c.in, &form->fields[isa_field_of(op, ISA_K_AP, AP_W)]) = dst;
  *(isa_t_AP *)isa_member(&c.in, &form->fields[isa_field_of(op, ISA_K_AP, AP_R)]) = src;
  return as_k_verify(m->k, &c, &key) && as_k_add_item(m->k, &c.it);
}

static bool copy_whole(repairer *m, uint32_t dst, uint32_t src) {
  return put_copy(m, ISA_OP_tensor_copy, dst, src) || put_copy(m, ISA_OP_dma_copy, dst, src);
}

/* Element i of the outermost free dimension. */
static bool piece(as_kernel *k, uint32_t number, uint32_t i, uint32_t *out) {
  as_k_operand o = *as_k_op(k, number);
  as_k_shape s = *as_k_shape_of(k, &o);
  o.offset += s.dim[0].step * i * (int64_t)isa_dtype_bytes(s.dtype);
  return as_k_put_operand(k, o, s.dtype, s.ndim - 1u, s.dim + 1, out);
}

/* The dense side is cut like the other one, by blocks of its elements. */
static bool dense_piece(as_kernel *k, uint32_t number, uint32_t i, uint32_t of, uint32_t *out) {
  as_k_operand o = *as_k_op(k, number);
  const as_k_shape *s = as_k_shape_of(k, &o);
  uint8_t dtype = s->dtype;
  uint64_t n = 1;
  for (unsigned d = 0; d < s->ndim; d++) n *= s->dim[d].num;
  isa_dim all = {1, (uint32_t)(n / of)};
  o.offset += (int64_t)(n / of * i * isa_dtype_bytes(dtype));
  return as_k_put_operand(k, o, dtype, 1, &all, out);
}

/* Between a staged operand and the one it stands for; in: to the staged one. */
static bool copy(repairer *m, uint32_t staged, uint32_t number, bool in) {
  as_kernel *k = m->k;
  uint32_t items = k->nitems;
  if (copy_whole(m, in ? staged : number, in ? number : staged)) return true;
  const as_k_operand *x = as_k_op(k, number);
  uint32_t n =
      x->space != ISA_HBM && as_k_shape_of(k, x)->ndim > 1 ? as_k_shape_of(k, x)->dim[0].num : 0;
  for (uint32_t i = 0; i < n && n <= MOST_PIECES; i++) {
    uint32_t part, dense;
    if (!piece(k, number, i, &part) || !dense_piece(k, staged, i, n, &dense) ||
        !copy_whole(m, in ? dense : part, in ? part : dense)) {
      k->nitems = items;
      return false;
    }
  }
  return n > 0 && n <= MOST_PIECES;
}

/* One partition to all of a staged operand: by way of HBM, of which a row can be read again. */
static bool spread(repairer *m, uint32_t staged, uint32_t number) {
  as_kernel *k = m->k;
  const as_k_operand t = *as_k_op(k, staged);
  const as_k_shape s = *as_k_shape_of(k, &t);
  as_k_operand row = {.space = ISA_HBM};
  as_k_buffer one = *as_k_buf(k, t.buffer);
  isa_dim dim[2] = {{0, t.nparts}, {1, one.bytes / isa_dtype_bytes(s.dtype)}};
  uint32_t once, again, dense, from = number;
  int src = isa_field_of(ISA_OP_tensor_copy, ISA_K_AP, AP_R);
  place p = {.field = &isa_form_of(ISA_OP_tensor_copy)->fields[src], .number = number};
  one.nparts = 1;
  if (!as_k_temporary(k, "row", &one, &k->last_row, &row.buffer) ||
      !as_k_put_operand(k, row, s.dtype, 1, dim + 1, &once) ||
      !as_k_put_operand(k, row, s.dtype, 2, dim, &again) || !dense_piece(k, staged, 0, 1, &dense))
    return false;
  if (!put_copy(m, ISA_OP_dma_copy, once, number) &&
      !(stage(m, &p, 1, s.dtype, &from) && copy(m, from, number, true) &&
        put_copy(m, ISA_OP_dma_copy, once, from)))
    return false;
  return put_copy(m, ISA_OP_dma_copy, dense, again);
}

/* ---- Trials -------------------------------------------------------------------------------- */

static bool bring(repairer *m, const place *p) {
  if (parts_of(m->k, p->number) == 1 && as_k_op(m->k, p->staged)->nparts > 1)
    return spread(m, p->staged, p->number);
  return copy(m, p->staged, p->number, true);
}

/* The item with its staged operands, between their copies. */
static bool put_all(repairer *m) {
  as_kernel *k = m->k;
  as_k_key key = {.n = 0};
  uint32_t items = k->nitems;
  as_k_draft d = m->d;
  bool ok = as_k_verify(k, &d, &key);
  for (unsigned i = 0; i < m->n && ok; i++)
    if (m->places[i].staged && m->places[i].reads) ok = bring(m, &m->places[i]);
  ok = ok && as_k_add_item(k, &d.it);
  for (unsigned i = 0; i < m->n && ok; i++)
    if (m->places[i].staged && m->places[i].writes)
      ok = copy(m, m->places[i].staged, m->places[i].number, false);
  if (!ok) {
    k->nitems = items;
    return false;
  }
  k->figures.copies += k->nitems - items - 1;
  k->error.status = ISA_OK;
  return true;
}

/* Tries with the operands of a mask staged, the first of them in that way. */
static bool attempt(repairer *m, unsigned mask, unsigned way) {
  as_kernel *k = m->k;
  uint32_t ops = k->nops; /* tiles of a trial that fails stay, unused */
  bool ok = true;
  for (unsigned i = 0; i < m->n && ok; i++) {
    place *p = &m->places[i];
    p->staged = 0;
    if (!(mask >> i & 1)) continue;
    ok = stage_in_way(m, p, way);
    if (ok) *p->at = p->staged - m->d.it.ops;
  }
  ok = ok && put_all(m);
  for (unsigned i = 0; i < m->n; i++) *m->places[i].at = m->places[i].number - m->d.it.ops;
  if (!ok) k->nops = ops;
  return ok;
}

/* In the order tried: which operands are staged, and how; false past the last. */
static bool trial(const repairer *m, unsigned i, unsigned *mask, unsigned *way) {
  unsigned n = m->n;
  if (n == 0) return false;
  *way = i < WAYS * n ? i / n : PLAIN;
  if (i < WAYS * n) {
    *mask = 1u << i % n;
    return true;
  }
  i -= WAYS * n;
  *mask = 1u << i / n | 1u << i % n;
  if (i >= n * n) *mask = (1u << n) - 1;
  return i <= n * n && n > 1;
}

bool as_k_repair(as_kernel *k, const as_k_draft *d) {
  repairer m = {.k = k, .d = *d, .error = k->error};
  unsigned mask, way;
  if (isa_op_is_control(d->in.op) || k->error.status != ISA_ILLEGAL) return false;
  find_places(&m);
  for (unsigned i = 0; trial(&m, i, &mask, &way); i++) {
    if (attempt(&m, mask, way)) return true;
    if (k->error.status == ISA_NOMEM) return false;
  }
  k->error = m.error;
  return false;
}
