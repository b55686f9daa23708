/* What is overwritten before anything reads it need not be done: a memset before what writes all of
 * its bytes, a copy or a transfer to a tile or a temporary likewise. The list is read from its end,
 * and of each buffer is known a box of bytes that are written later on before they are read. */
#include "simplify.h"

typedef struct box {
  int64_t lo, hi;
  uint16_t p0, p1; /* the same: nothing */
} box;

typedef struct backward {
  as_kernel *k;
  box *over; /* by buffer */
  bool *ordered, *gone;
} backward;

static bool is_in(const box *b, const as_k_bytes *x) {
  return b->lo <= x->lo && x->hi <= b->hi && b->p0 <= x->p0 && x->p1 <= b->p1;
}

static bool meets(const box *b, const as_k_bytes *x) {
  return b->p0 < b->p1 && b->lo < x->hi && x->lo < b->hi && b->p0 < x->p1 && x->p0 < b->p1;
}

/* Adds dense bytes where the two are one box together; keeps the larger one where they are not. */
static void add(box *b, const as_k_bytes *x) {
  box all = {b->lo < x->lo ? b->lo : x->lo, b->hi > x->hi ? b->hi : x->hi,
             b->p0 < x->p0 ? b->p0 : x->p0, b->p1 > x->p1 ? b->p1 : x->p1};
  bool rows = b->p0 == x->p0 && b->p1 == x->p1 && b->lo <= x->hi && x->lo <= b->hi;
  bool columns = b->lo == x->lo && b->hi == x->hi && b->p0 <= x->p1 && x->p0 <= b->p1;
  /* What was known is given up for the larger one: less is left out, never too much. */
  int64_t had = (b->hi - b->lo) * (b->p1 - b->p0), has = (x->hi - x->lo) * (x->p1 - x->p0);
  if (b->p0 < b->p1 && (rows || columns))
    *b = all;
  else if (b->p0 == b->p1 || has > had)
    *b = (box){x->lo, x->hi, x->p0, x->p1};
}

/* The pass that an instruction may go by if nothing reads what it writes: it only moves, so that
 * no check would have had anything to say of its values. A copy out of PSUM stays, as the one who
 * reads a sum there: the check `psum` asks for one. */
static unsigned pass_of(const as_kernel *k, const as_k_item *it) {
  if (it->op >= ISA_NOPS) return 0;
  if (isa_ops[it->op].cost == ISA_COST_SET) return AS_PASS_MEMSETS;
  if (it->op == ISA_OP_dma_copy) return AS_PASS_STORES;
  if (it->op != ISA_OP_tensor_copy) return 0;
  const as_k_use *uses;
  unsigned n = as_k_used(k, it, &uses);
  unsigned t = as_k_shape_of(k, as_k_use_op(k, it, &uses[0]))->dtype;
  for (unsigned u = 0; u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    if (as_k_shape_of(k, o)->dtype != t || (uses[u].reads && o->space == ISA_PSUM)) return 0;
  }
  return AS_PASS_STORES;
}

/* Whether others than the kernel see what is in a buffer, or find it there by its place. */
static bool is_seen(const as_kernel *k, const as_k_buffer *b) {
  return b->fixed || (b->space == ISA_HBM && k->scratch->tensors[b->tensor - 1].role != ISA_TEMP);
}

static bool is_dead(const backward *d, const as_k_item *it, uint32_t *buffer) {
  const as_kernel *k = d->k;
  const as_k_use *w = as_k_only_write(k, it);
  as_k_bytes x;
  if (!w || !as_k_covers(k, it, w)) return false;
  const as_k_operand *o = as_k_use_op(k, it, w);
  if (is_seen(k, as_k_buf(k, o->buffer))) return false;
  as_k_bytes_of(k, o, &x);
  *buffer = o->buffer;
  return is_in(&d->over[o->buffer - 1], &x);
}

/* What an item does to what is known: it overwrites, and it reads before that. */
static void note(const backward *d, const as_k_item *it, bool in_loop) {
  const as_kernel *k = d->k;
  const as_k_use *uses;
  as_k_bytes x;
  unsigned n = as_k_used(k, it, &uses);
  bool control = it->op < ISA_NOPS && isa_op_is_control(it->op);
  /* In a loop at run time an item may not run at all. */
  for (unsigned u = 0; u < n; u++) {
    if (control || in_loop || !as_k_covers(k, it, &uses[u])) continue;
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    as_k_bytes_of(k, o, &x);
    if (!x.set) add(&d->over[o->buffer - 1], &x);
  }
  for (unsigned u = 0; u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    box *b = &d->over[o->buffer - 1];
    if (!uses[u].reads && !control && !in_loop) continue;
    as_k_bytes_of(k, o, &x);
    if (in_loop || meets(b, &x)) *b = (box){0};
  }
}

static bool look_back(const backward *d) {
  as_kernel *k = d->k;
  uint32_t depth = 0, buffer;
  /* From the end: what comes later is known when an item is looked at. */
  for (uint32_t i = k->nitems; i-- > 0;) {
    const as_k_item *it = &k->items[i];
    depth += it->op == K_ENDLOOP;
    depth -= it->op == K_LOOP || it->op == K_WHILE;
    unsigned pass = depth || d->ordered[i] ? 0 : pass_of(k, it);
    d->gone[i] = as_k_may(k, it, pass) && is_dead(d, it, &buffer);
    if (!d->gone[i])
      note(d, it, depth > 0);
    else if (!as_k_leave(k, i, buffer, pass))
      return false;
  }
  return true;
}

bool as_k_drop_dead(as_kernel *k) {
  if (!as_k_asked(k, AS_PASS_MEMSETS | AS_PASS_STORES)) return true;
  size_t n = (size_t)k->nbuffers + 1, items = (size_t)k->nitems + 1;
  backward d = {.k = k};
  const as_k_array arrays[] = {K_ARRAY(d.over, n), K_ARRAY(d.gone, items),
                               K_ARRAY(d.ordered, items)};
  const unsigned narrays = sizeof arrays / sizeof *arrays;
  bool ok = as_k_make_arrays(k, arrays, narrays);
  if (ok) as_k_ordered(k, d.ordered);
  ok = ok && look_back(&d) && as_k_drop(k, d.gone);
  as_k_free_arrays(k, arrays, narrays);
  return ok;
}
