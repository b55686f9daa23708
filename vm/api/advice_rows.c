/* Rows of transfers that are short: several tiles at once, or tiles whose elements lie one after
 * another in HBM. */
#include "advice.h"

#include <string.h>

enum { SHORT_ROW = 512, LONG_ROW = 2048, MOST_RECORDS = 4096 };

/* One record of the group, in the order of the list. */
typedef struct row {
  const int64_t *record, *hbm, *tile;
  uint32_t head; /* the first of those that become one */
  uint32_t piece;
} row;

typedef struct rows {
  soma_trials *t;
  const soma_group *g;
  row *row;
  uint32_t n, cap;
  int64_t size, tile_bytes, tensor_bytes; /* of an element, of a tile in a partition, of all */
  bool load;
  bool apart; /* each has a tile of its own */
} rows;

static bool is_hbm(const int64_t *ap) { return ap[SOMA_AP_PARTS] == 0; }

/* The bytes of a tensor of the caller's; 0: it is another buffer. What is written in one order and
 * read in another one would be other bytes. */
static int64_t callers_bytes(const soma_recipe *r, int64_t buffer) {
  soma_entry e;
  isa_tensor t;
  if (!soma_recipe_buffer(r, buffer, &e) || e.kind == SOMA_RECIPE_TILE) return 0;
  memcpy(&t, e.words, sizeof t);
  int64_t bytes = isa_dtype_bytes(t.dtype);
  for (unsigned d = 0; d < t.ndim; d++) bytes *= t.shape[d];
  return t.role == ISA_INPUT || t.role == ISA_OUTPUT ? bytes : 0;
}

static bool add_row(rows *x, const int64_t *record) {
  const int64_t *dst = soma_record_operand(record, 0), *src = soma_record_operand(record, 1);
  if (!dst || !src || is_hbm(dst) == is_hbm(src) || soma_ap_moves(dst) || soma_ap_moves(src))
    return false;
  row r = {.record = record, .hbm = is_hbm(dst) ? dst : src, .tile = is_hbm(dst) ? src : dst};
  const int64_t *first = x->n ? x->row[0].hbm : r.hbm;
  if (x->n >= MOST_RECORDS || r.hbm[SOMA_AP_N] != first[SOMA_AP_N]) return false;
  if (r.hbm[SOMA_AP_BUFFER] != first[SOMA_AP_BUFFER] || !r.hbm[SOMA_AP_DIMS]) return false;
  if (!isa_array_room(&x->t->a->al, &x->row, x->n, &x->cap, sizeof *x->row)) return false;
  x->load = is_hbm(src);
  r.head = x->n;
  x->row[x->n++] = r;
  return true;
}

/* False if the records of the group are not such transfers, all alike. */
static bool find_rows(rows *x) {
  soma_entry e;
  const soma_recipe *r = x->t->r[0];
  for (uint32_t at = 0; soma_recipe_at(r, at, &e); at = e.next) {
    if (e.kind == SOMA_RECIPE_LOOP || e.kind == SOMA_RECIPE_WHILE || e.kind == SOMA_RECIPE_ORDER)
      return false; /* rounds are not told apart, and orders name instructions by number */
    for (uint32_t i = 0; e.kind == SOMA_RECIPE_RECORDS && i < e.n; i += (uint32_t)e.words[i])
      if (soma_is_of(e.words + i, x->g, 0) && !add_row(x, e.words + i)) return false;
  }
  x->size = x->n ? (int64_t)isa_dtype_bytes((unsigned)x->row[0].hbm[SOMA_AP_TYPE]) : 0;
  x->tensor_bytes = x->n ? callers_bytes(r, x->row[0].hbm[SOMA_AP_BUFFER]) : 0;
  return x->tensor_bytes != 0;
}

/* ---- The list with other transfers ----------------------------------------------------------- */

/* The words of a record with another operand i, 0 or 1, which has n words after its first. */
static void put_operand(int64_t *out, const int64_t *record, unsigned i, const int64_t *ap) {
  const int64_t *old = soma_record_operand(record, i);
  size_t head = (size_t)(old - record), words = (size_t)ap[0] + 1;
  size_t rest = (size_t)record[AS_REC_WORDS] - head - (size_t)old[0] - 1;
  memcpy(out, record, head * sizeof *out);
  memcpy(out + head, ap, words * sizeof *out);
  memcpy(out + head + words, old + old[0] + 1, rest * sizeof *out);
  out[AS_REC_WORDS] = (int64_t)(head + words + rest);
}

enum { WORDS = 512, AP_WORDS = 64 };

/* Adds record i of the group as it becomes. */
typedef void put_row(const rows *x, soma_rewrite *w, uint32_t i);

/* The kernel with the group's transfers changed, timed. */
static bool try_rewritten(const rows *x, const soma_recipe *from, put_row *put, soma_rewrite *w,
                          soma_time *time) {
  soma_trials *t = x->t;
  soma_entry e;
  uint32_t n = 0;
  for (uint32_t at = 0; soma_recipe_at(from, at, &e); at = e.next) {
    if (e.kind != SOMA_RECIPE_RECORDS) {
      soma_rewrite_entry(w, &e);
      continue;
    }
    for (uint32_t i = 0; i < e.n; i += (uint32_t)e.words[i])
      if (soma_is_of(e.words + i, x->g, 0))
        put(x, w, n++);
      else
        soma_rewrite_record(w, e.words + i);
  }
  soma_recipe *const r[] = {w->out};
  return w->out->keeps && soma_try(t, r, &t->c, time, NULL);
}

/* ---- Elements one after another -------------------------------------------------------------- */

/* Record i takes the i-th part of the tensor. */
static void put_dense(const rows *x, soma_rewrite *w, uint32_t i) {
  const row *r = &x->row[i];
  int64_t all = soma_ap_elements(r->hbm), cols = all / r->tile[SOMA_AP_PARTS];
  int64_t ap[AP_WORDS] = {10}, out[WORDS];
  memcpy(ap + 1, r->hbm + 1, SOMA_AP_OFFSET * sizeof *ap);
  int64_t parts = x->tensor_bytes / (all * x->size);
  /* Several records may read the same part, one in each round. */
  ap[SOMA_AP_OFFSET] = i % parts * all * x->size;
  ap[SOMA_AP_DIMS] = 2;
  ap[SOMA_AP_FIRST] = cols;
  ap[SOMA_AP_FIRST + 1] = r->tile[SOMA_AP_PARTS];
  ap[SOMA_AP_FIRST + 2] = 1;
  ap[SOMA_AP_FIRST + 3] = cols;
  put_operand(out, r->record, x->load ? 1 : 0, ap);
  soma_rewrite_record(w, out);
}

static void try_dense(rows *x, int64_t run, int64_t row_bytes) {
  soma_rewrite w;
  soma_time time;
  if (!soma_rewrite_open(&w, x->t->r[0])) return;
  if (try_rewritten(x, x->t->r[0], put_dense, &w, &time))
    soma_advise_that(x->t, x->g, SOMA_ADVICE_ROWS, time,
                     "rows of %lld bytes in HBM: a tensor in which the elements of a partition's "
                     "row, %lld bytes, lie one after another",
                     (long long)run, (long long)row_bytes);
  soma_rewrite_close(&w);
}

/* ---- Several tiles at once ------------------------------------------------------------------- */

/* Whether b continues a's rows, in tiles of the same kind. */
static bool continues(const rows *x, const row *a, const row *b) {
  size_t dims = (size_t)(a->hbm[SOMA_AP_N] - SOMA_AP_OFFSET);
  size_t tile = (size_t)(a->tile[SOMA_AP_N] - SOMA_AP_TYPE + 1);
  return memcmp(a->hbm + SOMA_AP_DIMS, b->hbm + SOMA_AP_DIMS, dims * sizeof *a->hbm) == 0 &&
         a->hbm[SOMA_AP_TYPE] == b->hbm[SOMA_AP_TYPE] && a->tile[SOMA_AP_N] == b->tile[SOMA_AP_N] &&
         memcmp(a->tile + SOMA_AP_TYPE, b->tile + SOMA_AP_TYPE, tile * sizeof *a->tile) == 0 &&
         b->hbm[SOMA_AP_OFFSET] == a->hbm[SOMA_AP_OFFSET] + x->tile_bytes;
}

/* Whether each record has a tile that no other one of them has. */
static bool are_apart(const rows *x) {
  bool apart = true;
  uint32_t buffers = x->t->r[0]->buffers + 1;
  bool *seen = isa_zalloc(&x->t->a->al, buffers);
  if (!seen) return false;
  for (uint32_t i = 0; i < x->n; i++) {
    bool *s = &seen[x->row[i].tile[SOMA_AP_BUFFER]];
    apart = apart && !*s;
    *s = true;
  }
  isa_free(&x->t->a->al, seen, buffers);
  return apart;
}

/* Puts up to `most` records together, each with the one after it; the most that are. */
static uint32_t chain(rows *x, uint32_t most) {
  uint32_t longest = 1;
  for (uint32_t i = 1; i < x->n; i++) {
    row *a = &x->row[i - 1], *b = &x->row[i];
    if (a->piece + 1 >= most || !continues(x, a, b)) continue;
    b->head = a->head;
    b->piece = a->piece + 1;
    if (b->piece + 1 > longest) longest = b->piece + 1;
  }
  return longest;
}

static uint32_t length(const rows *x, uint32_t head) {
  uint32_t n = 1;
  while (head + n < x->n && x->row[head + n].head == head) n++;
  return n;
}

/* The first of those together moves all of them for a load, the last one for a store. */
static void put_wide(const rows *x, soma_rewrite *w, uint32_t i) {
  const row *r = &x->row[i], *head = &x->row[r->head];
  uint32_t n = length(x, r->head);
  uint32_t buffer = (uint32_t)r->tile[SOMA_AP_BUFFER];
  if (!x->apart) /* one tile: what uses it from here on uses this piece */
    w->shift[buffer] = r->piece * x->tile_bytes;
  /* A load must be before the first use of any tile, a store after the last write. */
  if (r->piece != (x->load ? 0 : n - 1)) return;
  int64_t ap[AP_WORDS], half[WORDS], out[WORDS], last;
  for (unsigned side = 0; side < 2; side++) {
    const int64_t *old = (side == 0) == x->load ? head->tile : head->hbm;
    memcpy(ap, old, (size_t)(old[0] + 1) * sizeof *ap);
    last = SOMA_AP_FIRST + 2 * old[SOMA_AP_DIMS] - 1;
    ap[last] *= n;
    put_operand(side ? out : half, side ? half : head->record, side, ap);
  }
  soma_rewrite_record(w, out);
}

/* Lets the tiles of those that go together be parts of the first one's. */
static void join(const rows *x, soma_rewrite *w) {
  w->out->buffers = x->t->r[0]->buffers;
  for (uint32_t b = 1; b <= w->out->buffers; b++) w->map[b] = b;
  for (uint32_t i = 0; i < x->n; i++) {
    int64_t tile = x->row[i].tile[SOMA_AP_BUFFER];
    if (x->apart) w->shift[tile] = x->row[i].piece * x->tile_bytes;
    w->map[tile] = w->map[x->row[x->row[i].head].tile[SOMA_AP_BUFFER]];
  }
}

/* Makes the tiles of those that are first so many times wider. */
static bool widen(rows *x, soma_recipe *r, uint32_t most) {
  soma_entry e;
  uint32_t number = 0;
  bool *wide = isa_zalloc(&r->al, r->buffers + 1);
  for (uint32_t i = 0; wide && i < x->n; i++)
    if (x->row[i].head == i) wide[x->row[i].tile[SOMA_AP_BUFFER]] = true;
  for (uint32_t at = 0; wide && soma_recipe_at(r, at, &e); at = e.next) {
    as_kernel_tile t;
    if (e.kind != SOMA_RECIPE_TILE && e.kind != SOMA_RECIPE_TENSOR) continue;
    if (!wide[++number] || e.kind != SOMA_RECIPE_TILE) continue;
    memcpy(&t, e.words, sizeof t);
    t.shape[1] *= most;
    memcpy(e.words, &t, sizeof t);
  }
  isa_free(&r->al, wide, wide ? r->buffers + 1 : 0);
  return wide != NULL;
}

/* The bytes of a tile in a partition, 0 if the record does not fill it from its first byte on. */
static int64_t whole_tile(const soma_recipe *r, const int64_t *ap) {
  soma_entry e;
  as_kernel_tile t;
  if (!soma_recipe_buffer(r, ap[SOMA_AP_BUFFER], &e) || e.kind != SOMA_RECIPE_TILE) return 0;
  memcpy(&t, e.words, sizeof t);
  int64_t bytes = isa_dtype_bytes(t.dtype);
  for (unsigned d = 1; d < t.ndim; d++) bytes *= t.shape[d];
  bool whole = t.space == ISA_SBUF && t.ndim == 2 && t.offset < 0 && !ap[SOMA_AP_OFFSET] &&
               t.dtype == ap[SOMA_AP_TYPE] && ap[SOMA_AP_DIMS] == 1 && ap[SOMA_AP_FIRST] == 1 &&
               ap[SOMA_AP_FIRST + 1] == t.shape[1];
  return whole ? bytes : 0;
}

static void try_wide(rows *x, int64_t row_bytes) {
  soma_rewrite w;
  soma_time time;
  soma_trials *t = x->t;
  const int64_t *hbm = x->row[0].hbm;
  x->tile_bytes = whole_tile(t->r[0], x->row[0].tile);
  x->apart = are_apart(x);
  if (x->tile_bytes != row_bytes || (!x->apart && !x->load)) return;
  /* Only what is dense along the row can go on into the next tile. */
  if (hbm[SOMA_AP_FIRST + 2 * (hbm[SOMA_AP_DIMS] - 1)] != 1) return;
  uint32_t n = chain(x, (uint32_t)(LONG_ROW / row_bytes));
  soma_recipe *wide = n > 1 ? soma_recipe_copy(t->r[0]) : NULL;
  if (!wide) return;
  if (widen(x, wide, n) && soma_rewrite_open(&w, wide)) {
    join(x, &w);
    if (try_rewritten(x, wide, put_wide, &w, &time))
      soma_advise_that(t, x->g, SOMA_ADVICE_ROWS, time,
                       "rows of %lld bytes: %u tiles in one transfer, rows of %lld bytes",
                       (long long)row_bytes, (unsigned)n, (long long)(row_bytes * n));
    soma_rewrite_close(&w);
  }
  soma_recipe_free(wide);
}

void soma_try_rows(soma_trials *t, const soma_group *g) {
  rows x = {.t = t, .g = g};
  if (g->op != ISA_OP_dma_copy || t->cores > 1 || (t->r[0]->o.flags & AS_KERNEL_COPIES)) return;
  if (find_rows(&x)) {
    int64_t run = soma_ap_run(x.row[0].hbm) * x.size, bytes = soma_ap_run(x.row[0].tile) * x.size;
    if (run < SHORT_ROW && run < bytes)
      try_dense(&x, run, bytes);
    else if (bytes < SHORT_ROW)
      try_wide(&x, bytes);
  }
  isa_free(&t->a->al, x.row, x.cap * sizeof *x.row);
}
