/* Which bytes of SBUF, PSUM and of tensors without contents something can have written when an
 * engine reads them. */
#include "impl.h"

#include <string.h>

enum {
  MOST_RUNS = 1 << 16, /* of a pattern in a partition; more are taken as their hull */
  MOST_WORK = 1 << 22, /* runs of all patterns of a pass; registers do not move the ones after */
  MOST_BYTES = 1 << 28 /* of a tensor: larger ones are not looked at */
};

/* ---- Bits ---------------------------------------------------------------------------------- */

static size_t row_bytes(const lint *l, unsigned space) {
  return (space == ISA_SBUF ? l->p->target->sbuf_bytes : l->p->target->psum_bytes) / 8;
}

/* Whether a tensor is looked at: what the host gives contents is not. */
static bool is_empty(const isa_tensor *t) {
  return (t->role == ISA_TEMP || t->role == ISA_OUTPUT) && t->bytes <= MOST_BYTES;
}

static void set_bits(uint8_t *r, size_t at, size_t n) {
  /* Single bits up to a whole byte, then bytes, then the rest. */
  for (; n && at % 8; at++, n--) r[at / 8] |= (uint8_t)(1u << at % 8);
  memset(r + at / 8, 0xff, n / 8);
  for (at += n / 8 * 8, n %= 8; n; at++, n--) r[at / 8] |= (uint8_t)(1u << at % 8);
}

/* The first of n bits from `at` that is not as `want`, or at + n.
 * Bytes at a time where all eight are as wanted: a tile is most often one or the other. */
static size_t first_other(const uint8_t *r, size_t at, size_t n, bool want) {
  size_t end = at + n;
  uint8_t all = want ? 0xff : 0;
  while (at < end) {
    if (at % 8 == 0 && r[at / 8] == all && end - at >= 8) /* Eight at once. */
      at += 8;
    else if ((r[at / 8] >> at % 8 & 1) == want)
      at++;
    else
      break;
  }
  return at;
}

static size_t tensor_bits(const lint *l, uint32_t i) {
  return (size_t)l->p->tensors[i].bytes / 8 + 1;
}

static bool open_tensors(lint *l) {
  uint32_t n = l->p->ntensors;
  if (n && !(l->hbm = isa_zalloc(l->al, n * sizeof *l->hbm))) return false;
  for (uint32_t i = 0; i < n; i++)
    if (is_empty(&l->p->tensors[i]) && !(l->hbm[i] = isa_zalloc(l->al, tensor_bits(l, i))))
      return false;
  return true;
}

bool isa_lint_memory_open(lint *l) {
  bool ok = true;
  for (unsigned c = 0; c < l->p->ncores; c++)
    for (unsigned k = 0; k < 2; k++) {
      /* A bit for each byte of each partition. */
      size_t n = row_bytes(l, k ? ISA_PSUM : ISA_SBUF) * ISA_PMAX;
      /* Not cleared here: on trn2 it is 3.5 MiB, of which most passes look at little. */
      l->written[c][k] = l->al->fn(l->al->ud, NULL, 0, n); /* make_bits clears what is used */
      ok = ok && l->written[c][k];
    }
  return ok && open_tensors(l);
}

void isa_lint_memory_close(lint *l) {
  for (unsigned c = 0; c < l->p->ncores; c++)
    for (unsigned k = 0; k < 2; k++)
      if (l->written[c][k])
        isa_free(l->al, l->written[c][k], row_bytes(l, k ? ISA_PSUM : ISA_SBUF) * ISA_PMAX);
  for (uint32_t i = 0; l->hbm && i < l->p->ntensors; i++)
    if (l->hbm[i]) isa_free(l->al, l->hbm[i], tensor_bits(l, i));
  if (l->hbm) isa_free(l->al, l->hbm, l->p->ntensors * sizeof *l->hbm);
}

/* made 0: no byte has its bit yet, so nothing is written. */
void isa_lint_memory_reset(lint *l) {
  memset(l->made, 0, sizeof l->made);
  for (uint32_t i = 0; i < l->p->ntensors; i++)
    if (l->hbm[i]) memset(l->hbm[i], 0, tensor_bits(l, i));
}

/* ---- Patterns as bytes --------------------------------------------------------------------- */

typedef struct region { /* the same bytes of some partitions, or of a tensor */
  unsigned core, space, part, nparts;
  uint32_t tensor; /* of HBM: its index */
  isa_byteset bytes;
  uint64_t work; /* of a pattern that registers have moved: what it takes to go through it */
  bool hull;     /* there are bytes between those of the pattern */
} region;

static uint8_t *row(const lint *l, const region *r, unsigned partition) {
  if (r->space == ISA_HBM) return l->hbm[r->tensor];
  return l->written[r->core][r->space == ISA_PSUM] + partition * row_bytes(l, r->space);
}

static size_t made(const lint *l, const region *r) {
  return r->space == ISA_HBM ? SIZE_MAX : l->made[r->core][r->space == ISA_PSUM];
}

/* Gives the first n bytes of each partition their bits: few programs use more than a part of them,
 * and to clear the bits of all takes longer than most passes. */
static void make_bits(lint *l, const region *r, size_t n) {
  size_t from = made(l, r), most = 8 * row_bytes(l, r->space);
  if (n <= from) return;
  /* It doubles, so that this is done seldom.
   * In steps of 512, so that growth is seldom and the rest of a byte never matters. */
  if (n < 2 * from) n = 2 * from;
  n = n < most ? (n + 511) / 512 * 512 : most;
  for (unsigned p = 0; p < ISA_PMAX; p++) memset(row(l, r, p) + from / 8, 0, (n - from) / 8);
  l->made[r->core][r->space == ISA_PSUM] = n;
}

/* All that a pattern with parts known only at run time can touch: its tile, or its memory. */
static void whole(const lint *l, const isa_ap *ap, region *r) {
  if (ap->space == ISA_HBM) {
    isa_byteset_make(0, (int64_t)l->p->tensors[r->tensor].bytes, NULL, 0, &r->bytes);
    return;
  }
  const isa_tile *t = ap->base ? &l->p->tiles[ap->base - 1] : NULL;
  int64_t end = ap->space == ISA_PSUM ? l->p->target->psum_bytes : l->p->target->sbuf_bytes;
  /* A pattern stays in its tile, wherever a register moves it; without one it may be
   * anywhere. */
  r->part = t ? t->part : 0;
  r->nparts = t ? t->shape[0] : ISA_PMAX;
  isa_byteset_make(t ? t->offset : 0, t ? t->bytes : end, NULL, 0, &r->bytes);
}

bool isa_lint_follows(const lint *l) { return l->work < MOST_WORK; }

/* The bytes of a static pattern; false when it has none. */
static bool bytes_of(const isa_ap *ap, region *r) {
  isa_dim dims[ISA_MAX_DIMS];
  int64_t size = isa_dtype_bytes(ap->dtype);
  /* A register may make the size 0. */
  if (isa_ap_elems(ap) == 0) return false;
  for (unsigned d = 0; d < ap->ndim; d++)
    dims[d] = (isa_dim){ap->dim[d].num > 1 ? ap->dim[d].step * size : 0, ap->dim[d].num};
  isa_byteset_make(ap->offset, size, dims, ap->ndim, &r->bytes);
  uint64_t runs = 1;
  for (unsigned d = 0; d < r->bytes.n; d++) runs *= (uint64_t)r->bytes.num[d];
  /* Too many runs: what lies between them counts as well. */
  r->hull = runs > MOST_RUNS;
  if (r->hull) isa_byteset_make(r->bytes.start, r->bytes.span[0], NULL, 0, &r->bytes);
  /* A cost in comparisons: 16 for the pattern, then its runs in each partition. */
  r->work = 16 + (r->hull ? 1 : runs) * r->nparts * (1 + (uint64_t)r->bytes.run / 4096);
  return true;
}

/* Where a pattern lies, as the registers of s have it (NULL: whatever registers hold). False when
 * that is nowhere, or in a tensor that is not looked at. */
static bool region_of(const lint *l, unsigned core, const lint_stream *s, const isa_ap *ap,
                      region *r) {
  isa_ap still;
  bool hbm = ap->space == ISA_HBM, fixed = isa_ap_is_static(ap);
  /* Once the pass has looked at too much, registers are not asked any more: a pattern
   * that moves is then the whole of its tile. */
  bool moved = !fixed && s && isa_lint_follows(l) && isa_lint_still(l, s, ap, &still);
  if (hbm && (!ap->base || !l->hbm[ap->base - 1])) return false;
  if (moved) ap = &still;
  *r =
      /* .peer is the other core's SBUF. */
      (region){.core = core ^ ap->peer, .space = ap->space, .part = ap->part, .nparts = ap->nparts};
  if (hbm) r->tensor = ap->base - 1;
  if (hbm) r->part = 0, r->nparts = 1;
  if (isa_ap_is_static(ap)) {
    bool some = bytes_of(ap, r) && r->nparts;
    /* What does not move is gone through once. */
    if (fixed) r->work = 0;
    return some;
  }
  whole(l, ap, r);
  return true;
}

/* Moves to the next run of a set: i counts each dimension, *at is where it begins. */
static bool next_run(const isa_byteset *b, int64_t *i, int64_t *at) {
  for (unsigned d = b->n; d-- > 0;) {
    *at += b->step[d];
    if (++i[d] < b->num[d]) return true;
    /* This dimension begins again, and the one around it moves. */
    *at -= b->step[d] * b->num[d];
    i[d] = 0;
  }
  return false;
}

static void mark(lint *l, const region *r) {
  for (unsigned p = r->part; p < r->part + r->nparts; p++) {
    int64_t i[ISA_MAX_DIMS] = {0}, at = r->bytes.start;
    do {
      make_bits(l, r, (size_t)(at + r->bytes.run));
      set_bits(row(l, r, p), (size_t)at, (size_t)r->bytes.run);
    } while (next_run(&r->bytes, i, &at));
  }
}

/* The first of n bytes of a partition that is not as `want`, or at + n. */
static size_t first_byte(const lint *l, const region *r, unsigned partition, size_t at, size_t n,
                         bool want) {
  /* Bytes that have no bits yet are not written. */
  size_t end = made(l, r), there = end <= at ? 0 : end - at < n ? end - at : n;
  size_t hit = first_other(row(l, r, partition), at, there, want);
  return hit < at + there || want ? hit : at + n;
}

/* The first byte of r that is not as `want`; false when all are. */
static bool find(const lint *l, const region *r, bool want, unsigned *partition, int64_t *byte) {
  for (unsigned p = r->part; p < r->part + r->nparts; p++) {
    int64_t i[ISA_MAX_DIMS] = {0}, at = r->bytes.start;
    do {
      size_t from = (size_t)at, n = (size_t)r->bytes.run;
      size_t hit = first_byte(l, r, p, from, n, want);
      if (hit == from + n) continue;
      *partition = p;
      *byte = (int64_t)hit;
      return true;
    } while (next_run(&r->bytes, i, &at));
  }
  return false;
}

/* ---- Who writes a byte --------------------------------------------------------------------- */

typedef struct search {
  const lint *l;
  unsigned core; /* whose patterns are looked at */
  region point;
  /* Any byte that is written already, or any that is not: the caller says which it
   * looks for. */
  bool found, moves; /* moves: it depends on registers or an index whether it does */
} search;

static void match_writer(void *ud, const isa_operand *o) {
  search *s = ud;
  region r;
  if (!(o->flags & AP_W) || s->found) return;
  /* Wherever registers may put it. */
  if (!region_of(s->l, s->core, NULL, o->ap, &r)) return;
  bool there = r.space == s->point.space && r.tensor == s->point.tensor &&
               (r.space == ISA_HBM || r.core == s->point.core);
  s->found = there && s->point.part >= r.part && s->point.part < r.part + r.nparts &&
             isa_byteset_meet(&r.bytes, &s->point.bytes);
  s->moves = !isa_ap_is_static(o->ap);
}

/* An instruction of the core that writes bytes of the point, were it ever to run; a static transfer
 * has no place of its own: engine -1. */
static bool find_writer(search *s, isa_place *at) {
  const isa_core *c = &s->l->p->cores[s->core];
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (uint32_t pc = 0; pc < c->code[e].n; pc++) {
      isa_each_pattern(s->l->p, c, &c->code[e].insns[pc], match_writer, s);
      *at = (isa_place){(int)s->core, (int)e, pc};
      if (s->found) return true;
    }
  for (unsigned q = 0; q < c->nqueues; q++)
    for (uint32_t k = 0; k < c->queues[q].nstatics; k++)
      isa_each_pattern(s->l->p, c, &c->queues[q].statics[k], match_writer, s);
  *at = (isa_place){(int)s->core, -1, 0};
  return s->found;
}

/* The first of them that writes the byte: of its own core, then of the other. */
static bool writer_of(const lint *l, const region *r, unsigned partition, int64_t byte,
                      isa_place *at, bool *moves) {
  search s = {.l = l, .point = *r};
  s.point.part = partition;
  s.point.nparts = 1;
  isa_byteset_make(byte, 1, NULL, 0, &s.point.bytes);
  for (unsigned i = 0; i < l->p->ncores; i++) {
    /* Its own core comes first. */
    s.core = i ^ (l->p->ncores > 1 ? r->core : 0);
    if (find_writer(&s, at)) break;
  }
  *moves = s.moves;
  return s.found;
}

void isa_lint_writer(const lint *l, uint32_t tensor, isa_place *at) {
  search s = {.l = l, .point = {.space = ISA_HBM, .nparts = 1, .tensor = tensor}};
  isa_place found = {.engine = -1};
  isa_byteset_make(0, (int64_t)l->p->tensors[tensor].bytes, NULL, 0, &s.point.bytes);
  for (s.core = 0; s.core < l->p->ncores && !s.found; s.core++) find_writer(&s, &found);
  if (s.found && found.engine >= 0) *at = found;
}

/* ---- Accesses ------------------------------------------------------------------------------ */

typedef struct access {
  lint *l;
  const lint_stream *s;
  const lint_stream *regs; /* s, or NULL where its registers are not what they will be */
  bool skips;              /* rows of a transfer may be left out */
} access;

/* "byte 4 of partition 0 of `a`": at is from the tile's or tensor's first. */
static void name_byte(const lint *l, const isa_ap *ap, unsigned partition, int64_t byte,
                      isa_buf *out) {
  const isa_tile *t = ap->space != ISA_HBM && ap->base ? &l->p->tiles[ap->base - 1] : NULL;
  if (ap->space == ISA_HBM)
    isa_buf_printf(out, "byte %lld of the tensor `%s`", (long long)byte,
                   l->p->tensors[ap->base - 1].name);
  else
    isa_buf_printf(out, "byte %lld of partition %u of `%s`",
                   (long long)(byte - (t ? t->offset : 0)), partition - (t ? t->part : 0),
                   t ? t->name : isa_space_name(ap->space));
}

static void report(const access *a, const isa_ap *ap, const region *r, unsigned partition,
                   int64_t byte) {
  lint *l = a->l;
  char place[LINT_NAME];
  isa_place writer, here = isa_lint_here(a->s);
  isa_buf what;
  /* One finding for each tile or tensor. */
  uint8_t *reported = ap->base ? &l->reported[ap->base - 1] : NULL;
  if (reported && ap->space == ISA_HBM) reported += l->p->ntiles;
  if (reported && *reported) return;
  if (reported) *reported = 1;
  isa_buf_init(&what, l->al);
  name_byte(l, ap, partition, byte, &what);
  bool moves, written = writer_of(l, r, partition, byte, &writer, &moves);
  bool self = written && writer.engine == here.engine && writer.pc == here.pc;
  if (!written)
    isa_lint_add(l, ap->space == ISA_HBM ? ISA_LINT_empty : ISA_LINT_unwritten, here,
                 "%s is read here, and nothing writes it", isa_buf_str(&what));
  else if (self || writer.engine < 0)
    isa_lint_add(l, ISA_LINT_early, here, "%s is read here before %s can have written it",
                 isa_buf_str(&what), self ? "anything but this instruction" : "a static transfer");
  else if (moves)
    isa_lint_add(l, ISA_LINT_early, here,
                 "%s is read here, and %s, which writes where a register says, has not written it",
                 isa_buf_str(&what), isa_lint_place(l, writer, place));
  else
    isa_lint_add(l, ISA_LINT_early, here,
                 "%s is read here before anything can have written it; it is written at %s",
                 isa_buf_str(&what), isa_lint_place(l, writer, place));
  l->failed = l->failed || what.failed;
  isa_buf_free(&what);
}

static void check_read(void *ud, const isa_operand *o) {
  const access *a = ud;
  const isa_ap *ap = o->ap;
  region r;
  unsigned partition;
  int64_t byte;
  if (!(o->flags & AP_R) || o->flags & (AP_W | AP_HOST)) return;
  if (!region_of(a->l, a->s->core, a->regs, ap, &r)) return;
  /* Fixed, or moved by registers that are known. */
  bool all = isa_ap_is_static(ap) || r.work;
  a->l->work += r.work;
  /* All of it must be there, else some byte of it. */
  if (all && !r.hull && !a->skips && !(o->flags & AP_IN_PART)) {
    if (find(a->l, &r, true, &partition, &byte)) report(a, ap, &r, partition, byte);
  } else if (ap->base && !find(a->l, &r, false, &partition, &byte)) {
    report(a, ap, &r, r.part, r.bytes.start); /* wherever it reads, nothing is there */
  }
}

/* A destination that is read too. */
static void check_sum(access *a, uint32_t index) {
  isa_operand o = {.ap = &a->l->p->cores[a->s->core].aps[index - 1], .index = index, .flags = AP_R};
  check_read(a, &o);
}

static void note_write(void *ud, const isa_operand *o) {
  const access *a = ud;
  region r;
  if (!(o->flags & AP_W)) return;
  if (!region_of(a->l, a->s->core, a->regs, o->ap, &r)) return;
  a->l->work += r.work;
  mark(a->l, &r);
}

void isa_lint_write_only(lint *l, const lint_stream *s, const isa_insn *in) {
  access a = {l, s, NULL, false};
  isa_each_pattern(l->p, &l->p->cores[s->core], in, note_write, &a);
}

void isa_lint_access(lint *l, const lint_stream *s, const isa_insn *in) {
  access a = {l, s, s, isa_skips_rows(in)};
  bool reads = s == l->at;
  if (reads) isa_each_pattern(l->p, &l->p->cores[s->core], in, check_read, &a);
  if (reads && isa_reads_destination(in)) check_sum(&a, in->u.DMA_COPY.dst);
  isa_each_pattern(l->p, &l->p->cores[s->core], in, note_write, &a);
}

/* ---- Outputs ------------------------------------------------------------------------------- */

bool isa_lint_hole(const lint *l, uint32_t tensor, uint64_t *lo, uint64_t *hi, uint64_t *missing) {
  const uint8_t *bits = l->hbm[tensor];
  size_t n = (size_t)l->p->tensors[tensor].bytes;
  if (!bits) return false;
  size_t at = first_other(bits, 0, n, true), end = first_other(bits, at, n - at, false);
  *lo = at;
  *hi = end;
  /* All holes count, the first one is named. */
  for (*missing = 0; at < n; at = first_other(bits, end, n - end, true)) {
    end = first_other(bits, at, n - at, false);
    *missing += end - at;
  }
  return *missing != 0;
}
