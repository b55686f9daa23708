/* Every read lies within what was written before, by bytes; and what `acc` a matmul takes that left
 * it open. Tiles, and tensors of HBM that are temporary. */
#include "define.h"
#include "../isa/operand.h"
#include "called.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Items --------------------------------------------------------------------------------- */

static bool is_followed(const as_kernel *k, const as_k_buffer *b) {
  return b->space != ISA_HBM || k->scratch->tensors[b->tensor - 1].role == ISA_TEMP;
}

static const char *name_of(const as_kernel *k, const as_k_buffer *b, char out[K_TILE]) {
  if (b->space == ISA_HBM) return k->scratch->tensors[b->tensor - 1].name;
  return as_k_tile(k, b, "without a name", out, K_TILE);
}

/* The element that holds a byte, as `[1, 2]`. */
static const char *element_of(const as_kernel *k, const as_k_buffer *b, unsigned part, int64_t byte,
                              char *out, size_t n) {
  const isa_tensor *t = b->space == ISA_HBM ? &k->scratch->tensors[b->tensor - 1] : NULL;
  int64_t at[ISA_TENSOR_DIMS] = {0};
  int64_t rest = byte / isa_dtype_bytes(t ? t->dtype : b->dtype);
  unsigned ndim = t ? t->ndim : b->ndim;
  size_t used = 0;
  /* A tile's first dimension is its partitions, which the byte does not count. */
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
static bool note_unwritten(as_k_definer *d, const as_k_item *it, uint32_t buffer) {
  as_kernel *k = d->k;
  as_k_cover *c = as_k_make_cover(d, buffer);
  const char *text = isa_arena_strn(&k->arena, k->error.text, strlen(k->error.text));
  if (!c || !text || !K_GROW(k, unwritten, nunwritten, cap_unwritten)) return as_k_nomem(k);
  k->unwritten[k->nunwritten++] = (as_kernel_unwritten){buffer, text, it->at};
  c->vague = true;
  if (!c->writer) c->writer = (uint32_t)(it - k->items) + 1;
  return true;
}

static bool unwritten(as_k_definer *d, const as_k_item *it, const as_k_use *u, unsigned part,
                      int64_t byte) {
  as_kernel *k = d->k;
  const as_k_operand *o = as_k_use_op(k, it, u);
  const as_k_buffer *b = as_k_buf(k, o->buffer);
  const as_k_cover *c = as_k_cover_of(d, o->buffer);
  char where[160], element[160], tile[K_TILE], partition[40] = "";
  const char *field = isa_form_of(it->op)->fields[u->field].name;
  uint32_t writer = c ? c->writer : 0;
  isa_line at = writer ? k->items[writer - 1].at : b->at;
  if (b->space != ISA_HBM)
    snprintf(partition, sizeof partition, "partition %u of ", part - b->part);
  as_k_fail(k, ISA_ILLEGAL, it->at,
            "%s %s: reads byte %" PRId64 " of %s%s %.140s (element %s), which nothing has "
            "written before; %s %s",
            isa_ops[it->op].name, field, byte, partition, b->space == ISA_HBM ? "tensor" : "tile",
            name_of(k, b, tile), element_of(k, b, part, byte, element, sizeof element),
            writer ? "other bytes of it are written at" : "it is declared at",
            as_k_where(k, at, where, sizeof where));
  return note_unwritten(d, it, o->buffer);
}

/* Whether an instruction may leave some of an operand unread. */
static bool may_skip(const as_kernel *k, const as_k_item *it, const as_k_use *u) {
  const isa_field *f = &isa_form_of(it->op)->fields[u->field];
  bool pattern = f->kind == ISA_K_AP || f->kind == ISA_K_APS;
  return (pattern && (f->arg & AP_IN_PART)) || isa_skips_rows(&as_k_verdict_of(k, it)->in);
}

static bool check_read(as_k_definer *d, const as_k_item *it, const as_k_use *u) {
  as_kernel *k = d->k;
  const as_k_operand *o = as_k_use_op(k, it, u);
  as_k_bytes bytes;
  unsigned part;
  int64_t byte;
  if (d->numbers[o->buffer - 1] == K_NONE || !is_followed(k, as_k_buf(k, o->buffer))) return true;
  as_k_bytes_of(k, o, &bytes);
  int state = as_k_state_of(d, o->buffer, &bytes, &part, &byte);
  const as_k_cover *c = as_k_cover_of(d, o->buffer);
  /* Nobody knows which bytes such a read takes: that some are written is enough. */
  bool loose = o->dyn || (c && c->vague) || may_skip(k, it, u);
  const as_k_area *area = state == K_ALL ? NULL : as_k_area_of(d, o->buffer);
  if (area && state != K_FAILED)
    state = as_k_area_read(d, area, o->buffer, &bytes, &loose, &part, &byte);
  if (state == K_FAILED) return false;
  bool some = state == K_SOME || (c && c->writer) || (area && as_k_buf(k, o->buffer)->since);
  if (state == K_ALL || (loose && some)) return true;
  return unwritten(d, it, u, part, byte);
}

/* Whether bytes are all of a buffer, or a cover has all. */
static bool is_whole(const as_k_bytes *bytes, const as_k_bytes *all) {
  return !bytes->set && bytes->p0 <= all->p0 && all->p1 <= bytes->p1 && bytes->lo <= all->lo &&
         all->hi <= bytes->hi;
}
static bool has_all(const as_k_cover *c, const as_k_bytes *all) {
  return c->n == 0 ? as_k_in_box(c, all)
                   : c->n == 1 && c->strips[0].n == 1 && c->strips[0].runs[0].lo == 0 &&
                         c->strips[0].runs[0].hi == all->hi;
}

static bool note_write(as_k_definer *d, uint32_t item, const as_k_use *u) {
  as_kernel *k = d->k;
  const as_k_item *it = &k->items[item];
  const as_k_operand *o = as_k_use_op(k, it, u);
  as_k_buffer *b = as_k_buf(k, o->buffer);
  as_k_cover *c = NULL;
  as_k_bytes bytes;
  as_k_area *area = as_k_area_of(d, o->buffer);
  if ((d->numbers[o->buffer - 1] == K_NONE && !area) || !is_followed(k, b)) return true;
  uint16_t parts = b->space == ISA_HBM ? 1 : b->nparts;
  as_k_bytes all = {
      .p0 = b->part, .p1 = (uint16_t)(b->part + parts), .hi = (int64_t)as_k_buffer_bytes(k, b)};
  if (u->covers) as_k_bytes_of(k, o, &bytes);
  bool whole = u->covers && is_whole(&bytes, &all);
  if (area && !as_k_area_write(d, area, item, u->covers ? &bytes : NULL, whole)) return false;
  if (d->numbers[o->buffer - 1] == K_NONE) return true;
  if (!whole && !(c = as_k_make_cover(d, o->buffer))) return false;
  if (c) c->writer = item + 1;
  if (c && !u->covers) c->vague = true;
  if (c && u->covers && !as_k_write_bytes(d, c, o->buffer, &bytes)) return false;
  if (!whole && (!u->covers || !has_all(c, &all))) return true;
  /* From here on all of it is written, by whatever part. */
  if (!b->whole) b->whole = item + 1;
  as_k_drop_cover(d, o->buffer, K_NONE);
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
static bool ran_often(const as_k_definer *d, uint32_t loop) {
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
static bool mix(as_k_definer *d, as_k_item *it, uint32_t buffer, unsigned dtype) {
  as_kernel *k = d->k;
  const as_k_cover *c = as_k_cover_of(d, buffer);
  if (as_k_area_of(d, buffer))
    return as_k_fail(
        k, ISA_ILLEGAL, it->at,
        "%s dst: some of its bytes are written, and it shares bytes with another tile: "
        "give acc=write or acc=add",
        isa_ops[it->op].name);
  if (!c->first_matmul || ran_often(d, c->first_loop))
    return as_k_fail(k, ISA_ILLEGAL, it->at,
                     "%s dst: some of its bytes are written, but %s: give acc=write "
                     "or acc=add",
                     isa_ops[it->op].name, c->first_matmul ? "first in a loop" : "not by a matmul");
  as_k_item *first = &k->items[c->first_matmul - 1];
  isa_insn in = as_k_verdict_of(k, first)->in;
  uint32_t zero = *zero_of(&in);
  if (!as_k_set_acc(k, first, ISA_ACC_auto) || !as_k_set_acc(k, it, ISA_ACC_auto)) return false;
  if (zero) return true;
  if (!whole_tile(k, buffer, dtype, &zero)) return false;
  as_k_verdict *own = as_k_own_verdict(k, first);
  if (!own) return false;
  *zero_of(&own->in) = zero - first->ops;
  return as_k_find_uses(k, own, first->ops);
}

/* The outermost loop in whose later rounds more of a buffer is written than in the first. */
static uint32_t differing_loop(const as_k_definer *d, const as_k_buffer *b) {
  const as_kernel *k = d->k;
  uint32_t born = b->loop ? k->loops[b->loop - 1].origin : 0, found = 0;
  for (uint32_t l = d->open; l && k->loops[l - 1].origin != born; l = k->loops[l - 1].parent)
    if (!k->loops[l - 1].once && !k->loops[l - 1].rest) found = l;
  return found;
}

static bool refuse_while(as_k_definer *d, const as_k_item *it) {
  return as_k_fail(d->k, ISA_UNBUILT, it->at,
                   "%s: in a while at run time acc must be write or add: what is written of dst "
                   "differs from round to round",
                   isa_ops[it->op].name);
}

/* Sets the `acc` of a matmul that left it open. */
static bool choose_acc(as_k_definer *d, as_k_item *it, uint32_t buffer, const as_k_bytes *bytes,
                       unsigned dtype) {
  as_kernel *k = d->k;
  unsigned part;
  int64_t byte;
  int state = as_k_state_of(d, buffer, bytes, &part, &byte);
  if (state == K_FAILED) return false;
  uint32_t loop = state == K_ALL ? 0 : differing_loop(d, as_k_buf(k, buffer));
  if (loop && k->loops[loop - 1].is_while) return refuse_while(d, it);
  d->peel = loop;
  /* The loop is taken apart first, so that its first round has an `acc` of its own. */
  if (loop) return false;
  const as_k_cover *c = as_k_cover_of(d, buffer);
  if (state == K_SOME || (state == K_NOTHING && c && c->vague)) return mix(d, it, buffer, dtype);
  return as_k_set_acc(k, it, state == K_ALL ? ISA_ACC_add : ISA_ACC_write);
}

static bool define_matmul(as_k_definer *d, uint32_t item) {
  as_kernel *k = d->k;
  as_k_item *it = &k->items[item];
  const as_k_use *uses;
  isa_insn in = as_k_verdict_of(k, it)->in;
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
  as_k_cover *c = as_k_make_cover(d, o.buffer);
  if (!c) return false;
  if (!c->first_matmul) {
    c->first_matmul = item + 1;
    c->first_loop = d->open;
  }
  return true;
}

static bool define_item(as_k_definer *d, uint32_t item) {
  as_kernel *k = d->k;
  const as_k_item *it = &k->items[item];
  const as_k_use *uses;
  bool matmul = as_k_verdict_of(k, it)->has_acc;
  if (matmul && !define_matmul(d, item)) return false;
  /* The machine knows what is written where it is asked for. */
  bool asks = matmul && isa_insn_acc(&as_k_verdict_of(k, it)->in) == ISA_ACC_auto;
  unsigned n = as_k_used(k, it, &uses);
  for (unsigned u = 0; u < n; u++)
    if (uses[u].reads && !(asks && uses[u].writes) && !check_read(d, it, &uses[u])) return false;
  for (unsigned u = 0; u < n; u++)
    if (uses[u].writes && !note_write(d, item, &uses[u])) return false;
  return true;
}

/* What was declared in a loop begins anew with each part of it. */
static void enter(as_k_definer *d, uint32_t loop) {
  const as_kernel *k = d->k;
  uint32_t origin = k->loops[loop - 1].origin;
  d->open = loop;
  for (uint32_t i = 0; k->loops[loop - 1].rest && i < k->nbuffers; i++)
    if (k->buffers[i].loop && k->loops[k->buffers[i].loop - 1].origin == origin)
      as_k_drop_cover(d, i + 1, 0);
}

static bool define_items(as_k_definer *d) {
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
    as_k_definer d = {.k = k};
    d.numbers = isa_zalloc(&k->al, ((size_t)k->nbuffers + K_MEMORIES) * sizeof *d.numbers);
    bool ok = d.numbers ? as_k_open_areas(&d) && define_items(&d) : as_k_nomem(k);
    as_k_close_covers(&d);
    as_k_close_areas(&d);
    if (k->nunwritten) return fail_with_first(k);
    if (!d.peel || !as_k_peel(k, d.peel)) return ok;
    for (uint32_t i = 0; i < k->nbuffers; i++) k->buffers[i].whole = 0; /* items have moved */
  }
}
