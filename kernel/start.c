/* A memset of 0 in PSUM before matmuls that add: the first one of each place writes instead, since
 * what it would add to is zero, and the memset is dead.
 *
 *   memset p, 0                            matmul p, a, acc=write
 *   matmul p, a, acc=add                   matmul p, b, acc=add
 *   matmul p, b, acc=add
 *
 * One thing differs: where all products of a sum are too small for float32 and negative, the sum is
 * -0 and not 0. A matmul that adds where none has begun a sum is undefined on the machine, and the
 * check `psum` says so; after this pass it is not there. */
#include "simplify.h"
#include "../isa/operand.h"

enum { MOST_BEGUN = 16 };

typedef struct zeros { /* of a tile that was set to zero and not touched since, but by sums */
  uint32_t n, next;
  as_k_bytes begun[MOST_BEGUN];
} zeros;

typedef struct hull { /* around all sums of a tile that nothing has read; lo == hi: none */
  int64_t lo, hi;
  uint16_t p0, p1;
} hull;

typedef struct starter {
  as_kernel *k;
  uint32_t *of; /* by buffer: 1 + its place in all; 0: not known to be zero */
  hull *unread; /* by buffer */
  zeros *all;
  uint32_t n, cap, free; /* free: 1 + the first that no tile has any more */
} starter;

static bool sets_zero(const as_k_verdict *r) {
  const isa_num *v = &r->in.u.MEMSET.value;
  return r->in.op == ISA_OP_memset && v->kind == ISA_NUM_imm && v->v == 0;
}

static bool meet(const as_k_bytes *a, const as_k_bytes *b) {
  return a->lo < b->hi && b->lo < a->hi && a->p0 < b->p1 && b->p0 < a->p1;
}

static void forget(starter *s, uint32_t buffer) {
  uint32_t number = s->of[buffer - 1];
  s->of[buffer - 1] = 0;
  s->all[number - 1].next = s->free;
  s->free = number;
}

static bool begin(starter *s, uint32_t buffer) {
  as_kernel *k = s->k;
  uint32_t number = s->free; /* one that another tile gave back, else a new one */
  if (number)
    s->free = s->all[number - 1].next;
  else if (isa_array_room(&k->al, &s->all, s->n, &s->cap, sizeof *s->all))
    number = ++s->n;
  else
    return as_k_nomem(k);
  s->all[number - 1].n = 0;
  s->of[buffer - 1] = number;
  return true;
}

/* A matmul that adds to some bytes: it writes them if no matmul did. */
static bool add(starter *s, as_k_item *it, uint32_t buffer, const as_k_bytes *bytes) {
  zeros *z = &s->all[s->of[buffer - 1] - 1];
  for (uint32_t i = 0; i < z->n; i++) {
    const as_k_bytes *b = &z->begun[i];
    /* The same place once more: this one adds, as it should. */
    if (b->lo == bytes->lo && b->hi == bytes->hi && b->p0 == bytes->p0 && b->p1 == bytes->p1)
      return true;
    /* Some bytes of it: which of the two begins them cannot be told here. */
    if (!meet(b, bytes)) continue;
    forget(s, buffer);
    return true;
  }
  if (z->n == MOST_BEGUN || bytes->set) {
    forget(s, buffer);
    return true;
  }
  z->begun[z->n++] = *bytes;
  return as_k_set_acc(s->k, it, ISA_ACC_write);
}

static void add_unread(hull *s, const as_k_bytes *x) {
  bool none = s->lo == s->hi;
  if (none || x->lo < s->lo) s->lo = x->lo;
  if (none || x->hi > s->hi) s->hi = x->hi;
  if (none || x->p0 < s->p0) s->p0 = x->p0;
  if (none || x->p1 > s->p1) s->p1 = x->p1;
}

/* Takes off what is read from one of the two ends on, as pieces are read one after another. */
static void take_read(hull *s, const as_k_bytes *x) {
  /* Only where all partitions of the hull are read does an end move. */
  if (x->set || x->p0 > s->p0 || x->p1 < s->p1) return;
  if (x->lo <= s->lo && x->hi > s->lo) s->lo = x->hi < s->hi ? x->hi : s->hi;
  if (x->hi >= s->hi && x->lo < s->hi) s->hi = x->lo > s->lo ? x->lo : s->lo;
}

/* Keeps account of sums that nothing has read. To begin another one over them is a finding of the
 * check `psum`, which the memset between the two would not be. */
static void note_sums(starter *s, const as_k_item *it) {
  const as_kernel *k = s->k;
  const as_k_use *uses;
  as_k_bytes x;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    if (o->space != ISA_PSUM) continue;
    as_k_bytes_of(k, o, &x);
    if (as_k_verdict_of(k, it)->has_acc && uses[u].writes)
      add_unread(&s->unread[o->buffer - 1], &x);
    else if (uses[u].reads)
      take_read(&s->unread[o->buffer - 1], &x);
  }
}

static bool look_at(starter *s, uint32_t item) {
  as_kernel *k = s->k;
  as_k_item *it = &k->items[item];
  const as_k_use *uses, *w = as_k_only_write(k, it);
  unsigned n = as_k_used(k, it, &uses);
  const as_k_verdict *r = it->op < ISA_NOPS ? as_k_verdict_of(k, it) : NULL;
  as_k_bytes bytes;
  for (unsigned u = 0; u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    uint32_t b = o->buffer;
    /* A plain sum at a place that is known. */
    bool sums = r->has_acc && &uses[u] == w && isa_insn_acc(&r->in) == ISA_ACC_add && !o->dyn &&
                !isa_insn_turns(&r->in);
    if (!s->of[b - 1]) continue;
    as_k_bytes_of(k, o, &bytes);
    if (!sums)
      forget(s, b);
    else if (!add(s, it, b, &bytes))
      return false;
    as_k_used(k, it, &uses); /* a new verdict has uses of its own */
    w = as_k_only_write(k, it);
    r = as_k_verdict_of(k, it);
  }
  note_sums(s, it);
  if (!r || !w || !sets_zero(r)) return true;
  uint32_t b = as_k_use_op(k, it, w)->buffer;
  /* A tile that a loop uses, or at a fixed place, is left as it is. */
  bool psum = as_k_buf(k, b)->space == ISA_PSUM && !as_k_buf(k, b)->pinned;
  bool read = s->unread[b - 1].lo == s->unread[b - 1].hi;
  return !psum || !read || !as_k_overwrites(k, it, w) || begin(s, b);
}

bool as_k_start_sums(as_kernel *k) {
  if (!(k->o.passes & AS_PASS_MEMSETS)) return true;
  starter s = {.k = k};
  size_t n = (size_t)k->nbuffers + 1;
  s.of = isa_zalloc(&k->al, n * sizeof *s.of);
  s.unread = isa_zalloc(&k->al, n * sizeof *s.unread);
  bool ok = (s.of && s.unread) || as_k_nomem(k);
  for (uint32_t i = 0; ok && i < k->nitems; i++) ok = look_at(&s, i);
  isa_free(&k->al, s.of, n * sizeof *s.of);
  isa_free(&k->al, s.unread, n * sizeof *s.unread);
  isa_free(&k->al, s.all, s.cap * sizeof *s.all);
  return ok;
}
