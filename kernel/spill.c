/* When tiles do not fit, while they are placed. In SBUF the one whose next use is furthest away
 * goes to a temporary in HBM, unless that holds it already or it can be loaded once more from where
 * it came, and comes back before that use as another tile. In PSUM it is copied to a tile in SBUF,
 * which serves all that comes after, where that may read it there. Tiles with fixed places stay
 * where they are.
 *
 * The list stays as it is meanwhile: the transfers are put in when all tiles of a memory have their
 * place, so that the whole takes about the time of one pass over the list. */
#include "called.h"
#include "simplify.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_SPILLS = 1000000 };

typedef struct ref { /* a use of a buffer, in the order of the list */
  uint32_t item, operand;
  bool writes;
} ref;
typedef struct span { /* the uses of a buffer in refs; tried: the search that it could not serve */
  uint32_t from, to, tried;
  bool written; /* by any of them */
} span;
typedef struct stretch { /* an outermost loop at run time */
  uint32_t first, last;
} stretch;
typedef struct edit { /* what is put in before an item; what takes away before what brings back */
  uint32_t before, rank;
  as_k_item item;
} edit;

struct as_k_spiller {
  as_kernel *k;
  ref *refs;
  size_t refs_bytes;
  span *spans; /* by buffer */
  uint32_t nspans, cap_spans;
  stretch *loops;
  uint32_t nloops;
  uint32_t *met; /* by item: meetings with the other core before it; NULL: there is none */
  size_t met_bytes;
  edit *edits;
  uint32_t nedits, cap_edits, search;
};

/* ---- Uses and loops ------------------------------------------------------------------------ */

static bool cover_buffers(as_k_spiller *s) {
  for (; s->nspans < s->k->nbuffers; s->nspans++) {
    if (!isa_array_room(&s->k->al, &s->spans, s->nspans, &s->cap_spans, sizeof *s->spans))
      return as_k_nomem(s->k);
    s->spans[s->nspans] = (span){0};
  }
  return true;
}

static span *span_of(const as_k_spiller *s, uint32_t buffer) { return &s->spans[buffer - 1]; }

static bool find_refs(as_k_spiller *s) {
  const as_kernel *k = s->k;
  /* Counted, summed up, filled in; `to` serves for all three. */
  const as_k_use *uses;
  uint32_t n = 0;
  if (!cover_buffers(s)) return false;
  for (uint32_t i = 0; i < k->nitems; i++)
    for (unsigned u = 0, of = as_k_used(k, &k->items[i], &uses); u < of; u++)
      /* The number of its uses. */
      span_of(s, as_k_use_op(k, &k->items[i], &uses[u])->buffer)->to++;
  for (uint32_t b = 0; b < s->nspans; b++) {
    s->spans[b].from = n;
    n += s->spans[b].to;
    s->spans[b].to = s->spans[b].from;
  }
  s->refs_bytes = ((size_t)n + 1) * sizeof *s->refs;
  s->refs = isa_zalloc(&k->al, s->refs_bytes);
  if (!s->refs) return as_k_nomem(s->k);
  for (uint32_t i = 0; i < k->nitems; i++)
    for (unsigned u = 0, of = as_k_used(k, &k->items[i], &uses); u < of; u++) {
      span *p = span_of(s, as_k_use_op(k, &k->items[i], &uses[u])->buffer);
      s->refs[p->to++] = (ref){i, k->items[i].ops + uses[u].operand, uses[u].writes};
      p->written = p->written || uses[u].writes;
    }
  return true;
}

static bool find_meetings(as_k_spiller *s) {
  const as_kernel *k = s->k;
  if (k->o.cores < 2) return true;
  s->met_bytes = ((size_t)k->nitems + 1) * sizeof *s->met;
  s->met = isa_zalloc(&k->al, s->met_bytes);
  for (uint32_t i = 0; s->met && i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    s->met[i + 1] = s->met[i] + (it->op < ISA_NOPS && as_k_meeting_kind(k, it) != K_MEETINGS);
  }
  return s->met || as_k_nomem(s->k);
}

static int by_first(const void *a, const void *b) {
  const stretch *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

static bool find_loops(as_k_spiller *s) {
  const as_kernel *k = s->k;
  s->loops = isa_zalloc(&k->al, ((size_t)k->nloops + 1) * sizeof *s->loops);
  if (!s->loops) return as_k_nomem(s->k);
  for (uint32_t l = 0; l < k->nloops; l++)
    if (!k->loops[l].parent) s->loops[s->nloops++] = (stretch){k->loops[l].first, k->loops[l].last};
  qsort(s->loops, s->nloops, sizeof *s->loops, by_first);
  return true;
}

/* The outermost loop at run time that an item is in; else the item. */
static stretch whole_loop(const as_k_spiller *s, uint32_t item) {
  uint32_t lo = 0, hi = s->nloops;
  while (lo < hi) { /* the first that begins after the item */
    uint32_t mid = lo + (hi - lo) / 2;
    if (s->loops[mid].first <= item)
      lo = mid + 1;
    else
      hi = mid;
  }
  /* The last that begins at or before it may hold it. */
  if (lo && s->loops[lo - 1].last >= item) return s->loops[lo - 1];
  return (stretch){item, item};
}

/* The first use of a buffer at or after an item; the end of its uses when it has no such use. */
static uint32_t first_ref(const as_k_spiller *s, uint32_t buffer, uint32_t item) {
  uint32_t lo = span_of(s, buffer)->from, hi = span_of(s, buffer)->to;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (s->refs[mid].item < item)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* ---- What is put in ------------------------------------------------------------------------ */

enum { AWAY, BACK };

static bool put(as_k_spiller *s, uint32_t before, uint32_t rank, as_k_item *it) {
  as_kernel *k = s->k;
  if (!isa_array_room(&k->al, &s->edits, s->nedits, &s->cap_edits, sizeof *s->edits))
    return as_k_nomem(k);
  it->added = true;
  it->number = k->items[before < k->nitems ? before : k->nitems - 1].number;
  k->engines |= 1u << it->engine;
  /* rank: even numbers take away and odd ones bring back, in the order in which they came. */
  s->edits[s->nedits] = (edit){before, 2 * s->nedits + rank, *it};
  s->nedits++;
  return true;
}

bool as_k_temporary(as_kernel *k, const char *base, const as_k_buffer *b, uint64_t *last,
                    uint32_t *buffer) {
  char name[32];
  /* The first name of the kind that no tensor has. */
  do snprintf(name, sizeof name, "%s%llu", base, (unsigned long long)++*last);
  while (as_k_find_tensor(k, name));
  isa_tensor t = {.name = name, .dtype = b->dtype, .role = ISA_TEMP, .ndim = 2};
  t.shape[0] = b->nparts;
  t.shape[1] = b->bytes / isa_dtype_bytes(b->dtype);
  t.bytes = (uint64_t)b->bytes * b->nparts;
  as_k_buffer own = {.space = ISA_HBM, .dtype = b->dtype, .written = true};
  return as_k_add_tensor(k, &t, &own, buffer);
}

/* Words of an operand that is the whole of a tile, or of its temporary. */
static size_t whole(const as_kernel *k, uint32_t buffer, const as_k_buffer *tile, int64_t *w) {
  bool hbm = as_k_buf(k, buffer)->space == ISA_HBM;
  /* HBM: [partitions, elements] in C order; a tile: its partitions and one free dimension. */
  int64_t n = tile->bytes / isa_dtype_bytes(tile->dtype);
  int64_t dims[] = {n, tile->nparts, 1, n};
  size_t words = hbm ? 10 : 8;
  int64_t head[] = {(int64_t)words, buffer, tile->dtype, 0, hbm ? 0 : tile->nparts, 0, hbm ? 2 : 1};
  memcpy(w, head, sizeof head);
  memcpy(w + 7, hbm ? dims : dims + 2, (words - 6) * sizeof *w);
  return words + 1;
}

/* Reads an instruction that moves all of a tile, which is like `tile`; tail: its words after dst
 * and src, which are 0 but for the first. */
static bool read_move(as_k_spiller *s, unsigned op, uint32_t before, const as_k_buffer *tile,
                      const uint32_t ends[2], int64_t tail, as_k_item *it) {
  as_kernel *k = s->k;
  int64_t w[40] = {0};
  as_k_key key;
  as_k_draft d;
  size_t n = AS_REC_FIELDS;
  isa_line at = k->items[before < k->nitems ? before : k->nitems - 1].at;
  w[AS_REC_OP] = isa_ops[op].number;
  w[AS_REC_ENGINE] = -1;
  w[AS_REC_FILE] = at.file;
  w[AS_REC_LINE] = at.line;
  n += whole(k, ends[0], tile, w + n);
  n += whole(k, ends[1], tile, w + n);
  w[n] = tail;
  n += op == ISA_OP_dma_copy ? 4 : 1;
  w[AS_REC_WORDS] = (int64_t)n;
  if (!as_k_read_record(k, w, n, &d, &key)) return false;
  if (op != ISA_OP_dma_copy) key.n = 0; /* the copy has its class of PSUM still */
  if (!as_k_verify(k, &d, &key)) return false;
  *it = d.it;
  return true;
}

/* A transfer of all of a tile before an item. */
static bool transfer(as_k_spiller *s, uint32_t before, uint32_t rank, uint32_t dst, uint32_t src) {
  as_kernel *k = s->k;
  const uint32_t ends[2] = {dst, src};
  const as_k_buffer tile = *as_k_buf(k, rank == BACK ? dst : src);
  as_k_item it;
  if (!read_move(s, ISA_OP_dma_copy, before, &tile, ends, -1, &it) || !as_k_choose_queue(k, &it))
    return false;
  k->figures.spills++;
  k->figures.spilled_bytes += (uint64_t)tile.bytes * tile.nparts;
  return put(s, before, rank, &it);
}

/* A copy of a tile of PSUM to one in SBUF, on the least busy of the engines that may. */
static bool copy_out(as_k_spiller *s, uint32_t before, uint32_t dst, uint32_t src) {
  as_kernel *k = s->k;
  const uint32_t ends[2] = {dst, src};
  const as_k_buffer tile = *as_k_buf(k, src);
  as_k_item it;
  if (!read_move(s, ISA_OP_tensor_copy, before, &tile, ends, 0, &it)) return false;
  const as_k_verdict *r = as_k_verdict_of(k, &it);
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if ((r->engines >> e & 1) &&
        (it.engine == ISA_NENGINES || k->figures.busy[e] < k->figures.busy[it.engine]))
      it.engine = (uint8_t)e;
  k->figures.busy[it.engine] += (uint64_t)r->busy[it.engine] * 1000;
  k->figures.copies++;
  return put(s, before, AWAY, &it);
}

/* ---- Choice -------------------------------------------------------------------------------- */

/* So many items away from the last use of what goes, and to its next, there is time for transfers
 * while engines work. */
enum { APART = 256 };

/* Where a tile does not fit, the one that makes room: of those that live there, the one whose next
 * use, at `at` in refs, is furthest away; rather one that is not in use around here, since what
 * comes in its place would wait for it. 0 when none can go. */
static uint32_t victim(const as_k_spiller *s, const uint32_t *live, uint32_t n, uint32_t wanted,
                       uint32_t *at) {
  const as_kernel *k = s->k;
  stretch here = whole_loop(s, as_k_buf(k, wanted)->first);
  uint32_t best = 0, next = 0;
  bool best_apart = false;
  for (uint32_t i = 0; i < n; i++) {
    const as_k_buffer *b = as_k_buf(k, live[i]);
    const span *p = span_of(s, live[i]);
    /* It lives before and after here, is written whole by now, and has not been tried for this
     * tile. */
    if (b->fixed || b->first >= here.first || b->last <= here.last || !b->whole ||
        b->whole > here.first || p->tried == s->search)
      continue;
    uint32_t r = first_ref(s, live[i], here.first);
    /* It has been used before and will be again, but not here. */
    if (r == p->from || r == p->to || s->refs[r].item <= here.last) continue;
    uint32_t then = whole_loop(s, s->refs[r].item).first;
    bool apart = s->refs[r - 1].item + APART < here.first && here.first + APART < then;
    /* The furthest next use; of equal ones the largest. */
    if (best_apart && !apart) continue;
    if (apart == best_apart &&
        (then < next || (best && then == next && b->bytes <= as_k_buf(k, best)->bytes)))
      continue;
    best = live[i];
    best_apart = apart;
    next = then;
    *at = r;
  }
  return best;
}

static bool note(as_k_spiller *s, uint32_t number, uint32_t last, uint32_t next, uint8_t to) {
  as_kernel *k = s->k;
  const as_k_buffer *b = as_k_buf(k, number);
  char tile[K_TILE];
  as_k_tile(k, b, "?", tile, sizeof tile);
  const char *name = isa_arena_strn(&k->arena, tile, strlen(tile));
  if (!name) return as_k_nomem(k);
  if (!K_GROW(k, spilled, nspilled, cap_spilled)) return false;
  k->spilled[k->nspilled++] = (as_k_spilled){.name = name,
                                             .bytes = (uint64_t)b->bytes * b->nparts,
                                             .after = k->items[last].at,
                                             .before = k->items[next].at,
                                             .to = to};
  return true;
}

/* The tile that stands for another one in its uses from `at` in refs on. */
static uint32_t successor(as_k_spiller *s, uint32_t number, uint32_t at) {
  as_kernel *k = s->k;
  if (!K_GROW(k, buffers, nbuffers, cap_buffers)) return 0;
  k->buffers[k->nbuffers] = *as_k_buf(k, number);
  uint32_t again = ++k->nbuffers;
  as_k_buf(k, again)->whole = 1;
  if (!cover_buffers(s)) return 0;
  span *p = span_of(s, number);
  *span_of(s, again) = (span){.from = at, .to = p->to};
  /* The uses are split in two at `at`. */
  p->to = at;
  return again;
}

/* Lets the uses of a buffer name it, wherever it is. */
static void rename_uses(const as_k_spiller *s, uint32_t buffer) {
  const span *p = span_of(s, buffer);
  for (uint32_t r = p->from; r < p->to; r++) {
    as_k_operand *o = (as_k_operand *)(void *)&s->k->ops[s->refs[r].operand - 1];
    o->buffer = buffer;
    o->space = as_k_buf(s->k, buffer)->space;
  }
}

/* ---- What can be loaded once more ----------------------------------------------------------- */

/* An item that loads all of a tile from HBM, with nothing that is known at run time alone. */
static bool is_load(const as_k_spiller *s, uint32_t item) {
  const as_kernel *k = s->k;
  const as_k_item *it = &k->items[item];
  const as_k_use *uses, *w = as_k_only_write(k, it);
  if (!isa_op_is_dma(it->op) || as_k_meeting_kind(k, it) != K_MEETINGS || !w) return false;
  if (!as_k_verdict_of(k, it)->plain || !as_k_overwrites(k, it, w)) return false;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++)
    if (!uses[u].writes && as_k_use_op(k, it, &uses[u])->space != ISA_HBM) return false;
  return whole_loop(s, item).first == item;
}

enum { MOST_WRITES = 64 }; /* that are looked at: all others count as writes of the same bytes */

static bool is_unchanged(const as_k_spiller *s, const as_k_operand *o, uint32_t from, uint32_t to) {
  const as_kernel *k = s->k;
  const span *p = span_of(s, o->buffer);
  as_k_bytes x, y;
  if (!p->written) return true;
  as_k_bytes_of(k, o, &x);
  uint32_t r = first_ref(s, o->buffer, from), most = r + MOST_WRITES;
  for (; r < p->to && s->refs[r].item < to; r++) {
    if (r == most) return false;
    if (!s->refs[r].writes) continue;
    as_k_bytes_of(k, as_k_op(k, s->refs[r].operand), &y);
    if (x.lo < y.hi && y.lo < x.hi) return false;
  }
  return true;
}

/* Whether the other core may write between two items what an item reads. */
static bool others_write(const as_k_spiller *s, const as_k_item *it, uint32_t from, uint32_t to) {
  const as_kernel *k = s->k;
  const as_k_use *uses;
  bool shared = false;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++)
    shared = shared || as_k_is_shared(k, as_k_buf(k, as_k_use_op(k, it, &uses[u])->buffer));
  return shared && s->met[from] != s->met[to];
}

/* The bytes of elements that lie one after another. */
static uint64_t run_of(const as_k_shape *s) {
  uint64_t n = 1;
  /* From the innermost dimension out, as long as each step is the size of what is within. */
  for (unsigned d = s->ndim; d-- > 0 && s->dim[d].step == (int64_t)n;) n *= s->dim[d].num;
  return n * isa_dtype_bytes(s->dtype);
}

/* What the DMA engines take for all bytes of a tile in pieces of `run` bytes, or of its rows. */
static uint64_t dma_time(const as_kernel *k, const as_k_buffer *tile, uint64_t run) {
  uint64_t bytes = (uint64_t)tile->bytes * tile->nparts;
  uint64_t pieces = bytes / (run < tile->bytes ? run : tile->bytes);
  return bytes * (1000000000 / k->target->dma) / k->o.costs.dma_byte_rate +
         pieces * k->o.costs.piece / k->target->dma;
}

/* 1 + the item that loaded what a tile has, from bytes that are the same until `next`, where that
 * is not slower than to store it and load that; 0: none. at: of the next use in refs. */
static uint32_t loader_of(const as_k_spiller *s, uint32_t number, uint32_t at, uint32_t next) {
  const as_kernel *k = s->k;
  const as_k_buffer *b = as_k_buf(k, number);
  uint32_t r = span_of(s, number)->from, load = b->loaded;
  /* A first use that is a load; after it nothing may write. */
  if (!load && s->refs[r].writes && is_load(s, s->refs[r].item)) load = s->refs[r++].item + 1;
  for (; load && r < at; r++)
    if (s->refs[r].writes) return 0;
  if (!load) return 0;
  const as_k_item *it = &k->items[load - 1];
  const as_k_use *uses;
  uint64_t again = 0;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    if (uses[u].writes) continue;
    if (!is_unchanged(s, o, load, next)) return 0;
    /* Small pieces take longer. */
    again += dma_time(k, b, run_of(as_k_shape_of(k, o)));
  }
  /* A store and a load of whole rows are the other way. */
  return again > 2 * dma_time(k, b, b->bytes) || others_write(s, it, load, next) ? 0 : load;
}

/* The load of an item once more, into another tile. */
static bool load_again(as_k_spiller *s, uint32_t before, uint32_t item, uint32_t dst) {
  as_kernel *k = s->k;
  as_k_item it = k->items[item];
  const as_k_use *uses;
  uint32_t units = 0, first, from = it.ops;
  unsigned n = as_k_used(k, &it, &uses);
  /* All operands of the item, in units from its first one. */
  for (unsigned u = 0; u < n; u++) {
    uint32_t end = uses[u].operand - 1 + (uint32_t)sizeof(as_k_operand) / 8;
    if (end > units) units = end;
  }
  uint64_t *to = as_k_take_units(k, units, &first);
  if (!to) return false;
  memcpy(to, &k->ops[from], units * sizeof *to);
  it.ops = first - 1;
  it.at = k->items[before < k->nitems ? before : k->nitems - 1].at;
  for (unsigned u = 0; u < n; u++)
    if (uses[u].writes)
      ((as_k_operand *)(void *)&k->ops[it.ops + uses[u].operand - 1])->buffer = dst;
  k->figures.spilled_bytes += (uint64_t)as_k_buf(k, dst)->bytes * as_k_buf(k, dst)->nparts;
  k->figures.spills++;
  return as_k_choose_queue(k, &it) && put(s, before, BACK, &it);
}

/* ---- To HBM --------------------------------------------------------------------------------- */

/* Whether a tile, which came back from a temporary, has been written since. */
static bool is_dirty(const as_k_spiller *s, uint32_t number, uint32_t at) {
  bool dirty = !as_k_buf(s->k, number)->kept_in;
  for (uint32_t r = span_of(s, number)->from; r < at && !dirty; r++) dirty = s->refs[r].writes;
  return dirty;
}

static bool to_hbm(as_k_spiller *s, uint32_t number, uint32_t at, uint32_t *again) {
  as_kernel *k = s->k;
  uint32_t next = whole_loop(s, s->refs[at].item).first;
  uint32_t last = whole_loop(s, s->refs[at - 1].item).last, kept = as_k_buf(k, number)->kept_in;
  uint64_t spills = k->figures.spills;
  bool dirty = is_dirty(s, number, at);
  uint32_t load = dirty ? loader_of(s, number, at, next) : 0;
  /* It is loaded again, stored, or is in HBM already. */
  uint8_t to = load ? AS_SPILL_LOADED : dirty ? AS_SPILL_STORED : AS_SPILL_KEPT;
  if (!note(s, number, last, next, to)) return false;
  as_k_buf(k, number)->ended = false; /* an end that the caller gave lies after its last use */
  if (!load && !kept && !as_k_temporary(k, "spilled", as_k_buf(k, number), &spills, &kept))
    return false;
  *again = successor(s, number, at);
  if (!*again || (!load && dirty && !transfer(s, last + 1, AWAY, kept, number))) return false;
  rename_uses(s, *again);
  as_k_buf(k, number)->last = last;
  as_k_buf(k, *again)->first = next;
  as_k_buf(k, *again)->kept_in = load ? 0 : kept; /* what a temporary has may be older */
  as_k_buf(k, *again)->loaded = load;
  if (load) return load_again(s, next, load - 1, *again);
  return transfer(s, next, BACK, *again, kept);
}

/* ---- From PSUM to SBUF ----------------------------------------------------------------------- */

/* Whether all that uses a buffer may, where it is now; with `keep` their costs are those of it. */
static bool all_legal(as_k_spiller *s, uint32_t buffer, bool keep) {
  as_kernel *k = s->k;
  const span *p = span_of(s, buffer);
  for (uint32_t r = p->from; r < p->to; r++) {
    as_k_draft d = {.it = k->items[s->refs[r].item]};
    as_k_key key = {.n = 0};
    d.in = as_k_verdict_of(k, &d.it)->in;
    memcpy(d.regs, as_k_verdict_of(k, &d.it)->regs, sizeof d.regs);
    if (!as_k_verify(k, &d, &key)) return false;
    if (keep) k->items[s->refs[r].item].verdict = d.it.verdict;
  }
  return true;
}

/* again: 0 when some use needs it in PSUM. */
static bool to_sbuf(as_k_spiller *s, uint32_t number, uint32_t at, uint32_t *again) {
  as_kernel *k = s->k;
  uint32_t last = whole_loop(s, s->refs[at - 1].item).last;
  uint32_t next = whole_loop(s, s->refs[at].item).first;
  as_k_buf(k, number)->ended = false;
  *again = successor(s, number, at);
  if (!*again) return false;
  as_k_buf(k, *again)->space = ISA_SBUF;
  rename_uses(s, *again);
  if (!all_legal(s, *again, false)) {
    /* Out of memory is no reason to look further. */
    if (k->error.status == ISA_NOMEM) return false;
    k->error.status = ISA_OK;
    /* Undone: the uses are one span again, and the new tile has none. */
    span_of(s, number)->to = span_of(s, *again)->to;
    *span_of(s, *again) = (span){0};
    as_k_buf(k, *again)->used = false;
    rename_uses(s, number);
    *again = 0;
    return true;
  }
  as_k_buf(k, number)->last = last;
  return all_legal(s, *again, true) && note(s, number, last, next, AS_SPILL_SBUF) &&
         copy_out(s, last + 1, *again, number);
}

/* ---- The whole ------------------------------------------------------------------------------ */

as_k_spiller *as_k_spill_open(as_kernel *k) {
  as_k_spiller *s = isa_zalloc(&k->al, sizeof *s);
  if (!s) {
    as_k_nomem(k);
    return NULL;
  }
  s->k = k;
  if (find_refs(s) && find_meetings(s) && find_loops(s)) return s;
  as_k_spill_close(s);
  return NULL;
}

bool as_k_spill(as_k_spiller *s, const uint32_t *live, uint32_t n, uint32_t wanted,
                uint32_t *again) {
  uint32_t at = 0, number;
  s->search++;
  if (s->k->nspilled >= MOST_SPILLS) return false;
  /* Each search tries a tile at most once, so that this ends. */
  while ((number = victim(s, live, n, wanted, &at)) != 0) {
    span_of(s, number)->tried = s->search;
    if (as_k_buf(s->k, number)->space == ISA_SBUF) return to_hbm(s, number, at, again);
    if (!to_sbuf(s, number, at, again)) return false;
    if (*again) return true;
  }
  return false;
}

static int by_place(const void *a, const void *b) {
  const edit *x = a, *y = b;
  /* What takes away comes before what brings back, at one place. */
  uint32_t p = x->rank & 1, q = y->rank & 1;
  if (x->before != y->before) return x->before < y->before ? -1 : 1;
  if (p != q) return p < q ? -1 : 1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

bool as_k_spill_apply(as_k_spiller *s) {
  as_kernel *k = s->k;
  uint32_t old = k->nitems, n = old + s->nedits, e = 0;
  if (!s->nedits) return true;
  as_k_item *items = isa_zalloc(&k->al, (size_t)n * sizeof *items);
  uint32_t *moved = isa_zalloc(&k->al, ((size_t)old + 1) * sizeof *moved);
  if (items && moved) {
    qsort(s->edits, s->nedits, sizeof *s->edits, by_place);
    /* moved[i]: where item i goes, after all that is put in before it. */
    for (uint32_t i = 0; i <= old; i++) {
      for (; e < s->nedits && s->edits[e].before <= i; e++) items[i + e] = s->edits[e].item;
      moved[i] = i + e;
      if (i < old) items[i + e] = k->items[i];
    }
    for (uint32_t l = 0; l < k->nloops; l++) {
      k->loops[l].first = moved[k->loops[l].first];
      k->loops[l].last = moved[k->loops[l].last];
    }
    /* All that names items by number. */
    for (uint32_t i = 0; i < k->nbuffers; i++)
      if (k->buffers[i].since) k->buffers[i].since = 1 + moved[k->buffers[i].since - 1];
    for (uint32_t o = 0; o < k->norders; o++) {
      k->orders[o].earlier = moved[k->orders[o].earlier];
      k->orders[o].later = moved[k->orders[o].later];
    }
    as_k_item *before = k->items;
    uint32_t cap = k->cap_items;
    k->items = items;
    k->nitems = k->cap_items = n;
    items = before;
    n = cap;
  }
  bool ok = items && moved;
  isa_free(&k->al, items, (size_t)n * sizeof *items);
  isa_free(&k->al, moved, ((size_t)old + 1) * sizeof *moved);
  return ok ? as_k_lives(k) : as_k_nomem(k);
}

void as_k_spill_close(as_k_spiller *s) {
  if (!s) return;
  as_kernel *k = s->k;
  isa_free(&k->al, s->refs, s->refs_bytes);
  isa_free(&k->al, s->spans, s->cap_spans * sizeof *s->spans);
  isa_free(&k->al, s->loops, ((size_t)k->nloops + 1) * sizeof *s->loops);
  isa_free(&k->al, s->met, s->met_bytes);
  isa_free(&k->al, s->edits, s->cap_edits * sizeof *s->edits);
  isa_free(&k->al, s, sizeof *s);
}
