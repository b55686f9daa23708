/* The list after passes that leave items out or move them, and what they ask of an item. */
#include "simplify.h"

/* ---- The list ------------------------------------------------------------------------------- */

/* For each buffer, the item after which all of it is written: the last of those that wrote it up to
 * there; if those are gone, the first that overwrites it (a memset before it has gone), else the
 * last of all. */
static void find_whole(as_kernel *k, const uint32_t *old, uint32_t n, uint32_t *whole) {
  const as_k_use *uses;
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    whole[i] = k->buffers[i].whole;
    k->buffers[i].whole = 0;
  }
  for (uint32_t i = 0; i < n; i++)
    for (unsigned u = 0, of = as_k_used(k, &k->items[i], &uses); u < of; u++) {
      uint32_t b = as_k_use_op(k, &k->items[i], &uses[u])->buffer;
      as_k_buffer *t = as_k_buf(k, b);
      if (!uses[u].writes || !whole[b - 1]) continue;
      bool gone = !t->whole && old[i] >= whole[b - 1];
      if (old[i] < whole[b - 1] || gone) t->whole = i + 1;
      if (gone && as_k_overwrites(k, &k->items[i], &uses[u])) {
        whole[b - 1] = 0;
        continue;
      }
      /* None up to the old place is left: from here on each write counts, to the last. */
      if (t->whole == i + 1 && old[i] >= whole[b - 1]) whole[b - 1] = K_NONE;
    }
}

/* moved: by old item its new number. */
static void move_numbers(as_kernel *k, const uint32_t *moved) {
  for (uint32_t l = 0; l < k->nloops; l++) {
    k->loops[l].first = moved[k->loops[l].first];
    k->loops[l].last = moved[k->loops[l].last];
  }
  for (uint32_t o = 0; o < k->norders; o++) {
    k->orders[o].earlier = moved[k->orders[o].earlier];
    k->orders[o].later = moved[k->orders[o].later];
  }
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    as_k_buffer *b = &k->buffers[i];
    if (b->since) b->since = moved[b->since - 1] + 1; /* nothing of fixed places goes */
  }
}

bool as_k_renew(as_kernel *k, const uint32_t *order, uint32_t n) {
  size_t old = (size_t)k->nitems + 1, buffers = (size_t)k->nbuffers + 1;
  uint32_t *moved = isa_zalloc(&k->al, old * sizeof *moved);
  uint32_t *whole = isa_zalloc(&k->al, buffers * sizeof *whole);
  as_k_item *items = isa_zalloc(&k->al, ((size_t)n + 1) * sizeof *items);
  bool ok = moved && whole && items;
  if (ok) {
    for (uint32_t i = 0; i < n; i++) {
      items[i] = k->items[order[i]];
      moved[order[i]] = i;
    }
    isa_free(&k->al, k->items, (size_t)k->cap_items * sizeof *k->items);
    k->items = items;
    k->nitems = n;
    k->cap_items = n + 1;
    move_numbers(k, moved);
    find_whole(k, order, n, whole);
  } else {
    isa_free(&k->al, items, ((size_t)n + 1) * sizeof *items);
  }
  isa_free(&k->al, moved, old * sizeof *moved);
  isa_free(&k->al, whole, buffers * sizeof *whole);
  return ok || as_k_nomem(k);
}

bool as_k_drop(as_kernel *k, const bool *gone) {
  uint32_t n = 0, items = k->nitems;
  size_t size = ((size_t)items + 1) * sizeof(uint32_t);
  uint32_t *order = isa_zalloc(&k->al, size);
  if (!order) return as_k_nomem(k);
  for (uint32_t i = 0; i < items; i++) /* those that stay, in their order */
    if (!gone[i]) order[n++] = i;
  bool ok = n == items || as_k_renew(k, order, n);
  isa_free(&k->al, order, size);
  return ok;
}

/* ---- Items ---------------------------------------------------------------------------------- */

const as_k_use *as_k_only_write(const as_kernel *k, const as_k_item *it) {
  const as_k_use *uses, *found = NULL;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
    if (!uses[u].writes) continue;
    if (found) return NULL;
    found = &uses[u];
  }
  return found;
}

bool as_k_covers(const as_kernel *k, const as_k_item *it, const as_k_use *u) {
  return u->covers && !isa_skips_rows(&as_k_verdict_of(k, it)->in);
}

bool as_k_overwrites(const as_kernel *k, const as_k_item *it, const as_k_use *u) {
  const as_k_operand *o = as_k_use_op(k, it, u);
  const as_k_buffer *b = as_k_buf(k, o->buffer);
  const as_k_use *uses;
  as_k_bytes bytes;
  if (!as_k_covers(k, it, u) || b->space == ISA_HBM) return false;
  as_k_bytes_of(k, o, &bytes);
  /* No gaps, and from the first partition to the last. */
  if (bytes.set || bytes.p0 > b->part || bytes.p1 < b->part + b->nparts || bytes.lo > 0 ||
      bytes.hi < (int64_t)b->bytes)
    return false;
  for (unsigned i = 0, n = as_k_used(k, it, &uses); i < n; i++)
    if (uses[i].reads && as_k_use_op(k, it, &uses[i])->buffer == o->buffer) return false;
  return true;
}

void as_k_ordered(const as_kernel *k, bool *ordered) {
  for (uint32_t o = 0; o < k->norders; o++)
    ordered[k->orders[o].earlier] = ordered[k->orders[o].later] = true;
}

void as_k_pin(as_kernel *k) {
  uint32_t depth = 0;
  const as_k_use *uses;
  for (uint32_t i = 0; i < k->nbuffers; i++) k->buffers[i].pinned = k->buffers[i].fixed;
  /* Without loops nothing is pinned but what is fixed. */
  for (uint32_t i = 0; i < k->nitems && k->nloops; i++) {
    const as_k_item *it = &k->items[i];
    depth += it->op == K_LOOP || it->op == K_WHILE;
    depth -= it->op == K_ENDLOOP;
    for (unsigned u = 0, n = depth ? as_k_used(k, it, &uses) : 0; u < n; u++)
      as_k_buf(k, as_k_use_op(k, it, &uses[u])->buffer)->pinned = true;
  }
}

void as_k_rename(as_kernel *k, const as_k_item *it, const uint32_t *now, uint32_t n) {
  const as_k_use *uses;
  for (unsigned u = 0, of = as_k_used(k, it, &uses); u < of; u++) {
    as_k_operand *o = (as_k_operand *)(void *)&k->ops[it->ops + uses[u].operand - 1];
    /* Tiles that have been added since have numbers above n, and stand for themselves. */
    if (o->buffer <= n) o->buffer = now[o->buffer - 1];
  }
}
