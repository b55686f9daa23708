/* What conflicts with what, by bytes. Accesses lie in the pages that they touch: 2 KiB of SBUF and
 * PSUM, at least a 256th of a tensor. Those of a tensor that touch many, as rows that are far apart
 * do, lie in one page more, which is looked at once. A write removes what it covers, since whoever
 * conflicts with that later conflicts with the write as well; a read removes an earlier one of the
 * same source. */
#include "impl.h"

enum { PAGE_SHIFT = 11, TENSOR_PAGES = 256, MANY = 8 };

bool as_k_table_open(as_k_table *t, as_kernel *k) {
  *t = (as_k_table){.k = k, .nregions = 2 + k->scratch->ntensors};
  t->regions = isa_zalloc(&k->al, t->nregions * sizeof *t->regions);
  if (!t->regions) return as_k_nomem(k);
  for (uint32_t i = 0; i < t->nregions; i++) {
    as_k_region *r = &t->regions[i];
    int64_t bytes = i == 0   ? k->target->sbuf_bytes
                    : i == 1 ? k->target->psum_bytes
                             : (int64_t)k->scratch->tensors[i - 2].bytes;
    r->page_shift = PAGE_SHIFT;
    /* Tensors may have any size: their pages grow, so that there are never too many. */
    while (i >= 2 && bytes >> r->page_shift > TENSOR_PAGES) r->page_shift++;
    r->npages = (uint32_t)((bytes - 1) >> r->page_shift) + 2; /* with that of wide accesses */
    r->wide = i < 2 ? r->npages : MANY;
  }
  return true;
}

static void free_pages(as_k_table *t, as_k_region *r) {
  const isa_alloc *al = &t->k->al;
  for (uint32_t p = 0; r->pages && p < r->npages; p++)
    isa_free(al, r->pages[p].entries, r->pages[p].cap * sizeof(as_k_entry));
  isa_free(al, r->pages, r->npages * sizeof *r->pages);
  r->pages = NULL;
}

void as_k_table_close(as_k_table *t) {
  if (!t->k) return; /* it was not opened */
  const isa_alloc *al = &t->k->al;
  for (uint32_t i = 0; t->regions && i < t->nregions; i++) free_pages(t, &t->regions[i]);
  isa_free(al, t->regions, t->nregions * sizeof *t->regions);
  isa_free(al, t->accesses, t->cap_accesses * sizeof *t->accesses);
}

void as_k_table_clear(as_k_table *t) {
  for (uint32_t i = 0; i < t->nregions; i++)
    for (uint32_t p = 0; t->regions[i].pages && p < t->regions[i].npages; p++)
      t->regions[i].pages[p].n = 0;
  t->naccesses = t->free = 0;
}

/* ---- One access ---------------------------------------------------------------------------- */

static void box_of(const as_k_table *t, uint32_t operand, bool writes, as_k_box *b) {
  const as_kernel *k = t->k;
  const as_k_operand *o = as_k_op(k, operand);
  const as_k_buffer *f = as_k_buf(k, o->buffer);
  bool hbm = o->space == ISA_HBM;
  as_k_bytes_of(k, o, &b->at);
  b->at.lo += hbm ? 0 : f->offset;
  b->at.hi += hbm ? 0 : f->offset;
  b->region = &t->regions[hbm ? f->tensor + 1 : o->space == ISA_PSUM];
  b->operand = operand;
  b->writes = writes;
  b->moves = o->dyn != 0;
  b->constant = hbm && !f->written;
  b->first = (uint32_t)(b->at.lo >> b->region->page_shift);
  b->last = (uint32_t)((b->at.hi - 1) >> b->region->page_shift);
}

static bool holds(const as_k_box *b, const as_k_access *a) {
  return !b->at.set && b->at.lo <= a->lo && b->at.hi >= a->hi && b->at.p0 <= a->p0 &&
         b->at.p1 >= a->p1;
}

/* The same bytes, though not dense: the same pattern. */
static bool same(const as_k_table *t, const as_k_box *b, const as_k_access *a) {
  if (b->at.lo != a->lo || b->at.hi != a->hi || b->at.p0 != a->p0 || b->at.p1 != a->p1)
    return false;
  if (b->operand == a->operand) return true;
  const as_k_operand *o = as_k_op(t->k, a->operand);
  return !b->moves && !o->dyn && as_k_op(t->k, b->operand)->shape == o->shape;
}

static bool sets_meet(const as_k_table *t, const as_k_box *b, const as_k_access *a) {
  isa_byteset all[2] = {{.run = b->at.hi - b->at.lo, .span = {b->at.hi - b->at.lo}},
                        {.run = a->hi - a->lo, .span = {a->hi - a->lo}}};
  const as_k_shape *s = as_k_shape_of(t->k, as_k_op(t->k, a->operand));
  return isa_byteset_meet_at(b->at.set ? b->at.set : &all[0], b->at.lo,
                             a->dense ? &all[1] : &s->set, a->lo);
}

static inline bool meet(const as_k_table *t, const as_k_box *b, const as_k_access *a) {
  if (b->at.hi <= a->lo || a->hi <= b->at.lo || b->at.p1 <= a->p0 || a->p1 <= b->at.p0)
    return false;
  return (!b->at.set && a->dense) || sets_meet(t, b, a);
}

static bool is_wide(const as_k_box *b) { return b->last - b->first >= b->region->wide; }

/* The bytes of a box in page p, as an entry has them. */
static inline as_k_entry within(const as_k_box *b, uint32_t p) {
  int64_t page = (int64_t)p << b->region->page_shift, most = INT64_C(1) << b->region->page_shift;
  int64_t lo = b->at.lo - page, hi = b->at.hi - page;
  return (as_k_entry){.lo = (uint32_t)(lo > 0 ? lo : 0), .hi = (uint32_t)(hi < most ? hi : most)};
}

static void drop(as_k_table *t, uint32_t id) {
  as_k_access *a = &t->accesses[id];
  a->alive = false;
  if (--a->refs) return;
  a->step = t->free; /* the free list */
  t->free = id + 1;
}

/* Those of a page that lie between lo and hi of it, but for those that began before `begin`. */
static void find_in_page(as_k_table *t, const as_k_box *b, uint32_t p, as_k_entry here,
                         int64_t begin, as_k_needs *needs) {
  const as_k_page *page = &b->region->pages[p];
  for (uint32_t i = 0; i < page->n; i++) {
    const as_k_entry *e = &page->entries[i];
    if (e->hi <= here.lo || here.hi <= e->lo) continue;
    const as_k_access *a = &t->accesses[e->id];
    bool seen = a->lo < begin; /* on the page before */
    /* Reads alone never conflict. */
    if (seen || !(b->writes || a->writes) || !meet(t, b, a)) continue;
    t->k->figures.dependences++;
    as_k_need(needs, a->source, a->ordinal, a->step, a->buffer);
  }
}

static const as_k_entry all_of_it = {.hi = UINT32_MAX};

void as_k_table_find(as_k_table *t, uint32_t operand, bool writes, as_k_box *b, as_k_needs *needs) {
  box_of(t, operand, writes, b);
  if (b->constant || !b->region->pages) return;
  for (uint32_t p = b->first; p <= b->last; p++) {
    int64_t begin = p == b->first ? INT64_MIN : (int64_t)p << b->region->page_shift;
    find_in_page(t, b, p, within(b, p), begin, needs);
  }
  find_in_page(t, b, b->region->npages - 1, all_of_it, INT64_MIN, needs);
}

static bool new_access(as_k_table *t, uint32_t *id) {
  if (t->free) {
    /* A place of an access that no page has any more. */
    *id = t->free - 1;
    t->free = t->accesses[*id].step;
    return true;
  }
  if (!isa_array_room(&t->k->al, &t->accesses, t->naccesses, &t->cap_accesses, sizeof *t->accesses))
    return as_k_nomem(t->k);
  *id = t->naccesses++;
  return true;
}

/* Whether an access need not be kept beside the new one: whoever conflicts with it later conflicts
 * with the new one too, and who waits for that knows the old one complete. */
static bool replaced(const as_k_table *t, const as_k_box *b, const as_k_access *a, unsigned source,
                     bool kills) {
  if (!holds(b, a) && !same(t, b, a)) return false;
  return b->writes ? kills || a->source == source : !a->writes && a->source == source;
}

/* Drops what an access replaces in a page, in which it lies at `here`. */
static void drop_in_page(as_k_table *t, const as_k_box *b, as_k_page *page, as_k_entry here,
                         bool kills) {
  const as_k_access *own = &t->accesses[here.id];
  uint32_t n = 0;
  for (uint32_t i = 0; i < page->n; i++) {
    const as_k_entry *e = &page->entries[i];
    if (e->lo < here.hi && here.lo < e->hi) {
      as_k_access *a = &t->accesses[e->id];
      if (a->alive && a->step != own->step && replaced(t, b, a, own->source, kills))
        a->alive = false;
      if (!a->alive) {
        drop(t, e->id);
        continue;
      }
    }
    page->entries[n++] = *e;
  }
  page->n = n;
}

static bool add_to_page(as_k_table *t, as_k_page *page, as_k_entry here) {
  if (!isa_array_room(&t->k->al, &page->entries, page->n, &page->cap, sizeof here))
    return as_k_nomem(t->k);
  page->entries[page->n++] = here;
  t->accesses[here.id].refs++;
  return true;
}

bool as_k_table_note(as_k_table *t, const as_k_box *b, uint32_t step, bool kills) {
  uint32_t id = 0;
  const as_k_step *s = &t->k->steps[step];
  as_k_region *r = b->region;
  if (b->constant) return true;
  if (!r->pages && !(r->pages = isa_zalloc(&t->k->al, r->npages * sizeof *r->pages)))
    return as_k_nomem(t->k);
  if (!new_access(t, &id)) return false;
  t->accesses[id] = (as_k_access){.lo = b->at.lo,
                                  .hi = b->at.hi,
                                  .step = step,
                                  .ordinal = s->ordinal,
                                  .operand = b->operand,
                                  .buffer = as_k_op(t->k, b->operand)->buffer,
                                  .p0 = b->at.p0,
                                  .p1 = b->at.p1,
                                  .source = s->source,
                                  .writes = b->writes,
                                  .dense = !b->at.set,
                                  .alive = true};
  as_k_entry here = all_of_it;
  as_k_page *wide = is_wide(b) ? &r->pages[r->npages - 1] : NULL;
  here.id = id;
  if (wide) drop_in_page(t, b, wide, here, kills);
  if (wide && !add_to_page(t, wide, here)) return false;
  for (uint32_t p = b->first; p <= b->last; p++) {
    here = within(b, p);
    here.id = id;
    drop_in_page(t, b, &r->pages[p], here, kills);
    if (!wide && !add_to_page(t, &r->pages[p], here)) return false;
  }
  return true;
}
