/* When tiles do not fit in SBUF: the one whose next use is furthest away goes to a temporary in
 * HBM, unless that holds it already, and comes back before that use as another tile. Tiles of PSUM
 * and those with fixed places stay where they are. */
#include "impl.h"

#include <stdio.h>

enum { MOST_SPILLS = 100000 };

/* ---- The list ------------------------------------------------------------------------------ */

static bool insert_item(as_kernel *k, uint32_t at, const as_k_item *it) {
  uint32_t number = k->items[at < k->nitems ? at : k->nitems - 1].number;
  if (!as_k_open_gap(k, at, 1)) return false;
  k->items[at] = *it;
  k->items[at].number = number;
  k->items[at].added = true;
  return true;
}

static bool uses(const as_kernel *k, const as_k_item *it, uint32_t buffer, bool writes) {
  const as_k_use *u = as_k_used(k, it);
  for (unsigned i = 0; it->in.op < ISA_NOPS && i < it->nuses; i++)
    if (as_k_op(k, u[i].operand)->buffer == buffer && (u[i].writes || !writes)) return true;
  return false;
}

/* Items from `first` on use `to` instead of `from`. */
static void rename_uses(as_kernel *k, uint32_t first, uint32_t from, uint32_t to) {
  for (uint32_t i = first; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    const as_k_use *u = as_k_used(k, it);
    for (unsigned n = 0; it->in.op < ISA_NOPS && n < it->nuses; n++) {
      as_k_operand *o = (as_k_operand *)(void *)&k->ops[u[n].operand - 1];
      if (o->buffer == from) o->buffer = to;
    }
  }
}

/* ---- Transfers ----------------------------------------------------------------------------- */

bool as_k_temporary(as_kernel *k, const char *base, const as_k_buffer *b, uint32_t *buffer) {
  char name[32];
  uint64_t i = k->figures.spills;
  do snprintf(name, sizeof name, "%s%llu", base, (unsigned long long)++i);
  while (isa_program_find_tensor(k->scratch, name, strlen(name)) >= 0);
  isa_tensor t = {.name = name, .dtype = b->dtype, .role = ISA_TEMP, .ndim = 2};
  t.shape[0] = b->nparts;
  t.shape[1] = b->bytes / isa_dtype_bytes(b->dtype);
  t.bytes = (uint64_t)b->bytes * b->nparts;
  uint32_t n = isa_program_tensor(k->scratch, &t);
  as_k_buffer own = {.space = ISA_HBM, .dtype = b->dtype, .tensor = n, .written = true};
  if (!n || !K_GROW(k, buffers, nbuffers, cap_buffers)) return as_k_nomem(k);
  k->buffers[k->nbuffers] = own;
  *buffer = ++k->nbuffers;
  return true;
}

/* Words of an operand that is the whole of a tile, or of its temporary. */
static size_t whole(const as_kernel *k, uint32_t buffer, const as_k_buffer *tile, int64_t *w) {
  bool hbm = as_k_buf(k, buffer)->space == ISA_HBM;
  int64_t n = tile->bytes / isa_dtype_bytes(tile->dtype);
  int64_t dims[] = {n, tile->nparts, 1, n};
  size_t words = hbm ? 10 : 8;
  int64_t head[] = {(int64_t)words, buffer, tile->dtype, 0, hbm ? 0 : tile->nparts, 0, hbm ? 2 : 1};
  memcpy(w, head, sizeof head);
  memcpy(w + 7, hbm ? dims : dims + 2, (words - 6) * sizeof *w);
  return words + 1;
}

/* A transfer of all of a tile before item `at`. */
static bool transfer(as_kernel *k, uint32_t at, uint32_t dst, uint32_t src) {
  int64_t w[40] = {0};
  const as_k_buffer tile =
      as_k_buf(k, dst)->space == ISA_HBM ? *as_k_buf(k, src) : *as_k_buf(k, dst);
  as_k_item it;
  as_k_key key;
  as_k_use found[K_OPERANDS];
  size_t n = AS_REC_FIELDS;
  uint32_t near = at < k->nitems ? at : k->nitems - 1;
  w[AS_REC_OP] = isa_ops[ISA_OP_dma_copy].number;
  w[AS_REC_ENGINE] = -1;
  w[AS_REC_FILE] = k->items[near].at.file;
  w[AS_REC_LINE] = k->items[near].at.line;
  n += whole(k, dst, &tile, w + n);
  n += whole(k, src, &tile, w + n);
  w[n] = -1; /* the queue is chosen */
  n += 4;
  w[AS_REC_WORDS] = (int64_t)n;
  if (!as_k_read_record(k, w, n, &it, &key) || !as_k_verify(k, &it, &key) ||
      !as_k_choose_queue(k, &it) || !as_k_keep_uses(k, &it, found, as_k_uses(k, &it, found)))
    return false;
  k->engines |= 1u << it.engine;
  k->figures.spills++;
  k->figures.spilled_bytes += (uint64_t)tile.bytes * tile.nparts;
  return insert_item(k, at, &it);
}

/* ---- Choice -------------------------------------------------------------------------------- */

/* The outermost loop at run time that an item is in: its first and last item; else the item. */
static void whole_loop(const as_kernel *k, uint32_t item, uint32_t *first, uint32_t *last) {
  *first = *last = item;
  for (uint32_t l = 0; l < k->nloops; l++)
    if (!k->loops[l].parent && k->loops[l].first <= item && item <= k->loops[l].last) {
      *first = k->loops[l].first;
      *last = k->loops[l].last;
    }
}

/* The next item after `item` that uses a buffer, or the begin of the loop that it is in. */
static uint32_t next_use(const as_kernel *k, uint32_t item, uint32_t buffer) {
  uint32_t first, last;
  for (uint32_t i = item + 1; i < k->nitems; i++)
    if (uses(k, &k->items[i], buffer, false)) {
      whole_loop(k, i, &first, &last);
      return first;
    }
  return K_NONE;
}

static uint32_t last_use(const as_kernel *k, uint32_t item, uint32_t buffer) {
  uint32_t first, last = K_NONE;
  for (uint32_t i = item; i-- > 0;)
    if (uses(k, &k->items[i], buffer, false)) {
      whole_loop(k, i, &first, &last);
      return last;
    }
  return last;
}

static bool may_go(const as_kernel *k, uint32_t number, uint32_t item) {
  const as_k_buffer *b = as_k_buf(k, number);
  return !b->fixed && b->first < item && b->last > item && b->whole && b->whole <= item;
}

/* The tile of those that live where one did not fit whose next use is furthest away. */
static uint32_t victim(const as_kernel *k, uint32_t *next) {
  const as_k_buffer *wants = as_k_buf(k, k->crowd_for);
  uint32_t best = 0, end, first;
  *next = 0;
  whole_loop(k, wants->first, &first, &end);
  /* One that comes back is needed at once: who is needed as early cannot make room for it. */
  if (wants->kept_in) *next = next_use(k, wants->first, k->crowd_for) + 1;
  for (uint32_t i = 0; i < k->ncrowd; i++) {
    uint32_t number = k->crowd[i];
    if (!may_go(k, number, first) || as_k_buf(k, number)->last <= end) continue;
    bool here = false;
    for (uint32_t n = first; n <= end && !here; n++) here = uses(k, &k->items[n], number, false);
    uint32_t at = here ? K_NONE : next_use(k, end, number);
    if (at == K_NONE || at < *next) continue;
    if (best && at == *next && as_k_buf(k, number)->bytes <= as_k_buf(k, best)->bytes) continue;
    best = number;
    *next = at;
  }
  return best;
}

/* Whether the tile has been written since it came back from its temporary. */
static bool is_dirty(const as_kernel *k, uint32_t number, uint32_t item) {
  const as_k_buffer *b = as_k_buf(k, number);
  if (!b->kept_in) return true;
  for (uint32_t i = b->first + 1; i < item; i++)
    if (uses(k, &k->items[i], number, true)) return true;
  return false;
}

static as_k_spilled note(const as_kernel *k, uint32_t number, uint32_t last, uint32_t next,
                         bool stored) {
  const as_k_buffer *b = as_k_buf(k, number);
  return (as_k_spilled){.name = b->name ? b->name : "?",
                        .bytes = (uint64_t)b->bytes * b->nparts,
                        .after = k->items[last].at,
                        .before = k->items[next].at,
                        .stored = stored};
}

bool as_k_spill(as_kernel *k) {
  uint32_t next, again, first, end;
  if (k->figures.spills >= MOST_SPILLS || !k->ncrowd) return false;
  uint32_t number = victim(k, &next);
  if (!number) return false; /* the error of the placement stands */
  whole_loop(k, as_k_buf(k, k->crowd_for)->first, &first, &end);
  uint32_t kept = as_k_buf(k, number)->kept_in, last = last_use(k, first, number);
  bool dirty = is_dirty(k, number, first);
  if (!K_GROW(k, spilled, nspilled, cap_spilled)) return false;
  k->spilled[k->nspilled++] = note(k, number, last, next, dirty);
  as_k_buf(k, number)->ended = false; /* an end that the caller gave lies after its last use */
  if (!kept && !as_k_temporary(k, "spilled", as_k_buf(k, number), &kept)) return false;
  if (dirty) {
    if (!transfer(k, last + 1, kept, number)) return false;
    next++;
  }
  if (!K_GROW(k, buffers, nbuffers, cap_buffers)) return false;
  k->buffers[k->nbuffers] = *as_k_buf(k, number);
  again = ++k->nbuffers;
  as_k_buf(k, again)->kept_in = kept;
  as_k_buf(k, again)->whole = 1;
  rename_uses(k, next, number, again);
  return transfer(k, next, again, kept) && as_k_lives(k);
}

bool as_kernel_get_spill(const as_kernel *k, uint32_t i, as_kernel_spill *out) {
  if (i >= k->nspilled) return false;
  const as_k_spilled *s = &k->spilled[i];
  *out = (as_kernel_spill){s->name, s->bytes, s->after, s->before, s->stored};
  return true;
}
