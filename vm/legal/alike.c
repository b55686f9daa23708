/* Writes of the two cores that the caller gives one key, because they write the same bytes. Both
 * may be open at once. A read may be open together with the other core's write if its own core's
 * write alike has ended by then in every execution, and nothing orders the two writes
 * (../check/twins.c says why that is enough). */
#include "model.h"

#include <stdlib.h>

/* Looks at pairs, in all: it bounds the time that a loop of thousands of such writes takes.
 * After so many looks the judge gives up rather than goes on. */
enum { MOST_LOOKS = 1 << 28 };

/* Engines are numbered core by core. */
static unsigned core_of(const vm_lg_access *a) { return a->a.engine >= ISA_NSEQS; }

/* By the run's order among equals, so that the result does not depend on qsort. */
static int by_key(const void *x, const void *y) {
  const vm_lg_alike *a = x, *b = y;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->access < b->access ? -1 : a->access > b->access;
}

static uint64_t key_of(const vm_legal *l, const vm_lg_access *a) {
  const vm_lg_item *it = vm_lg_item_of(l, a);
  /* Only transfers have keys.
   * 0 stands for writes that no key was given to. */
  if (!a->a.writes || !it->transfer) return 0;
  return l->key(l->key_ud, vm_lg_step_of(l, it), it->transfer, a->a.region);
}

/* Keeps only keys that both cores have. */
static void number_all(vm_legal *l) {
  uint32_t n = 0;
  for (uint32_t i = 0, end; i < l->nalike; i = end) {
    bool has[2] = {false, false};
    /* Runs of equal keys, since they are sorted. */
    for (end = i; end < l->nalike && l->alike[end].key == l->alike[i].key; end++)
      has[core_of(&l->accesses[l->alike[end].access])] = true;
    /* Written over what has been looked at: n does not overtake x.
     * The list shrinks in place. */
    for (uint32_t x = i; x < end && has[0] && has[1]; x++) {
      l->alike[n++] = l->alike[x];
      /* From 1 on; 0 is no number. */
      l->accesses[l->alike[n - 1].access].alike = n;
    }
  }
  l->nalike = n;
}

bool vm_lg_find_alike(vm_legal *l) {
  /* Without keys from the caller no write is like another. */
  if (!l->key) return true;
  for (uint32_t i = 0; i < l->naccesses; i++) {
    uint64_t key = key_of(l, &l->accesses[i]);
    if (!key) continue;
    if (l->nalike == l->cap_alike &&
        !isa_array_grow(&l->al, &l->alike, l->nalike, &l->cap_alike, sizeof *l->alike))
      return false;
    l->alike[l->nalike++] = (vm_lg_alike){key, i};
  }
  /* Nothing to sort is nothing to pass on. */
  if (l->nalike) qsort(l->alike, l->nalike, sizeof *l->alike, by_key);
  number_all(l);
  return true;
}

bool vm_lg_are_alike(const vm_legal *l, const vm_lg_access *a, const vm_lg_access *b) {
  /* Two writes of one core are in that core's hands: they need an order as any others. */
  return a->alike && b->alike && core_of(a) != core_of(b) &&
         l->alike[a->alike - 1].key == l->alike[b->alike - 1].key;
}

static bool saves(const vm_legal *l, vm_lg_excuse *x, uint32_t i, const vm_lg_access *write,
                  const vm_lg_access *read) {
  /* Its own core's write has put the same bytes there already. */
  const vm_lg_access *mine = &l->accesses[l->alike[i].access];
  x->looks++;
  /* All three must overlap: the own write where it is read, and where the other core
   * writes. */
  return core_of(mine) == core_of(read) && vm_lg_meet(&mine->a, &read->a) &&
         vm_lg_meet(&mine->a, &write->a) && x->saves(x->ud, mine, write, read);
}

static bool is_saved(const vm_legal *l, vm_lg_excuse *x, const vm_lg_access *write,
                     const vm_lg_access *read) {
  const uint64_t key = l->alike[write->alike - 1].key;
  /* The one that helped the last read of this core is tried first. */
  uint32_t *last = &x->last[core_of(read)], i = write->alike - 1;
  /* Reads of one line often share one write. */
  if (l->alike[*last].key == key && saves(l, x, *last, write, read)) return true;
  /* Back to the first with this key. */
  while (i > 0 && l->alike[i - 1].key == key) i--;
  for (; i < l->nalike && l->alike[i].key == key && x->looks < MOST_LOOKS; i++)
    if (saves(l, x, i, write, read)) {
      *last = i;
      return true;
    }
  return false;
}

bool vm_lg_excused(const vm_legal *l, vm_lg_excuse *x, const vm_lg_access *a,
                   const vm_lg_access *b) {
  /* At least one of the two writes, or they would not be compared. */
  const vm_lg_access *write = a->a.writes ? a : b, *read = a->a.writes ? b : a;
  if (!write->alike || core_of(a) == core_of(b)) return false;
  /* Beyond the bound everything is excused, and the judge says that it is not sure. */
  x->tired |= x->looks >= MOST_LOOKS;
  if (x->tired) return true;
  /* Each comparison is a look as well: pairs of writes count. */
  x->looks++;
  /* Two writes with one key, or a read beside a write whose like has come before. */
  bool excused = read->a.writes ? vm_lg_are_alike(l, a, b) : is_saved(l, x, write, read);
  x->tired |= x->looks >= MOST_LOOKS;
  x->any |= excused;
  return excused || x->tired;
}
