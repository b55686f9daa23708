/* `NAME tile sbuf TYPE[...]`: places a tile.
 *
 * A tile without at= goes to the lowest place that is free in all its partitions, in order of
 * declaration: in SBUF aligned to 64 bytes (options), in PSUM whole banks. The tiles of one
 * overlay group do not stand in each other's way, and none of the others may share bytes. */
#include "stmt.h"

#include <string.h>

typedef struct request {
  const as_tok *name;
  isa_tile t;
  int64_t at_part, at_offset, banks, align, bytes; /* -1: not given */
} request;

/* at=1024, or at=[32,1024] with the partition. */
static bool parse_at(as_cur *c, request *r) {
  if (!as_take(c, '[')) return as_int_in(c, "the address", 0, UINT32_MAX, &r->at_offset);
  return as_int_in(c, "the partition", 0, ISA_PMAX - 1, &r->at_part) &&
         as_need(c, ',', "the partition") &&
         as_int_in(c, "the address", 0, UINT32_MAX, &r->at_offset) &&
         as_need(c, ']', "the address");
}

/* of=[29], of=[29, 3, 1]: the line of the source, and the first iteration and how many. */
static bool parse_of(as_cur *c, request *r) {
  int64_t line, iteration = 0, iterations = 0;
  if (!as_need(c, '[', "of=") || !as_int_in(c, "the line", 1, UINT32_MAX, &line)) return false;
  if (as_take(c, ',') && (!as_int_in(c, "the iteration", 1, UINT32_MAX, &iteration) ||
                          !as_need(c, ',', "the iteration") ||
                          !as_int_in(c, "the count of iterations", 1, INT32_MAX, &iterations)))
    return false;
  r->t.line = (uint32_t)line;
  r->t.iteration = (uint32_t)iteration;
  r->t.iterations = (uint32_t)iterations;
  return as_need(c, ']', "of=");
}

static const char *nearest_option(const as_cur *c, const as_tok *key) {
  static const char *const keys[] = {"at",      "part", "banks", "align",   "bytes",
                                     "overlay", "own",  "of",    "numbered"};
  if (key->kind != AS_T_NAME) return "";
  as_near w = as_near_open(key->text, strlen(key->text));
  for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) as_near_try(&w, keys[i]);
  return as_near_text(c->j, &w);
}

static bool parse_option(as_cur *c, request *r) {
  const as_tok *key = c->t;
  /* A flag without a value; own= something is refused below. */
  if (as_at_name(c) && strcmp(key->text, "own") == 0 && !as_at_keyword(c)) {
    c->t++;
    return r->t.own = true;
  }
  if (as_at_name(c) && strcmp(key->text, "numbered") == 0 && r->t.iteration) {
    c->t++;
    return r->t.numbered = true;
  }
  if (!as_at_keyword(c))
    return as_error(c->j, key->pos, key->len, "expected an option of a tile, not %s%s",
                    as_tok_show(c->j, key), nearest_option(c, key));
  c->t += 2;
  if (strcmp(key->text, "at") == 0) return parse_at(c, r);
  if (strcmp(key->text, "part") == 0)
    return as_int_in(c, "the partition", 0, ISA_PMAX - 1, &r->at_part);
  if (strcmp(key->text, "banks") == 0)
    return as_int_in(c, "banks", 1, c->j->target->psum_bytes / ISA_PSUM_BANK, &r->banks);
  if (strcmp(key->text, "align") == 0) return as_int_in(c, "the alignment", 1, 65536, &r->align);
  if (strcmp(key->text, "bytes") == 0) return as_int_in(c, "bytes", 1, UINT32_MAX, &r->bytes);
  if (strcmp(key->text, "of") == 0) return parse_of(c, r);
  /* Left over is overlay; any other word is a mistake. */
  if (strcmp(key->text, "overlay") != 0) {
    as_error(c->j, key->pos, key->len, "a tile has no option `%s`%s", key->text,
             nearest_option(c, key));
    if (strcmp(key->text, "core") == 0)
      as_note(c->j, (as_pos){0},
              "a tile is at the same place of both cores; `NAME.peer` is the other core's");
    return false;
  }
  if (!as_at_name(c)) return as_expected(c->j, c->t, "the name of an overlay group");
  r->t.overlay = c->t++->text;
  return true;
}

static bool parse_shape(as_cur *c, request *r) {
  /* Shapes are checked in 64 bits before they are kept in 32. */
  int64_t shape[ISA_TILE_DIMS];
  unsigned dtype, ndim;
  const as_tok *at = c->t;
  if (!as_parse_type(c, &dtype, ISA_TILE_DIMS, shape, &ndim, NULL)) return false;
  r->t.dtype = (uint8_t)dtype;
  r->t.ndim = (uint8_t)ndim;
  if (shape[0] > ISA_PMAX) {
    as_error(c->j, at->pos, as_span_of(at, c->t),
             "the tile has %lld partitions; the first dimension is at most %d", (long long)shape[0],
             ISA_PMAX);
    return false;
  }
  uint64_t bytes = isa_dtype_bytes(dtype);
  /* The first dimension is the partitions: bytes are of one of them. */
  for (unsigned d = 0; d < ndim; d++) {
    r->t.shape[d] = (uint32_t)shape[d];
    if (d > 0 && (__builtin_mul_overflow(bytes, (uint64_t)shape[d], &bytes) || bytes > UINT32_MAX))
      return as_error(c->j, at->pos, as_span_of(at, c->t),
                      "the tile has more than 2^32 bytes in a partition");
  }
  r->t.bytes = (uint32_t)bytes;
  return true;
}

/* All of PSUM, but only what programs may use of SBUF. */
static uint32_t space_bytes(const as_job *j, unsigned space) {
  return space == ISA_PSUM ? j->target->psum_bytes : j->target->sbuf_usable;
}

/* ---- Free and taken places ---------------------------------------------------------------- */

/* Two regions meet if both their bytes and their partitions do, unless a group allows
 * it. */
static bool hits(const as_region *r, uint32_t lo, uint32_t hi, unsigned part, unsigned nparts,
                 const char *overlay) {
  /* The names of groups are interned: equal names are one pointer. */
  return r->lo < hi && lo < r->hi && r->part < part + nparts && part < r->part + r->nparts &&
         !(overlay && overlay == r->overlay);
}

/* limit: it fits nowhere. */
static uint32_t round_up(uint32_t x, uint32_t align, uint32_t limit) {
  uint64_t up = ((uint64_t)x + align - 1) / align * align;
  return up < limit ? (uint32_t)up : limit;
}

/* The lowest free multiple of align with room for n bytes; limit when none exists. */
static uint32_t first_fit(const as_regions *rs, const as_region *want, uint32_t n, uint32_t align,
                          uint32_t limit) {
  /* From 0 upwards: the lowest place. */
  uint32_t lo = 0;
  /* It would fit nowhere. */
  if (n > limit) return limit;
  for (uint32_t i = 0; i < rs->n && rs->v[i].lo < limit; i++) {
    const as_region *r = &rs->v[i];
    /* Regions are sorted by their first byte. */
    if (r->lo >= lo + n) break; /* all others start later */
    if (hits(r, lo, lo + n, want->part, want->nparts, want->overlay))
      lo = round_up(r->hi, align, limit);
    /* It does not fit before the end. */
    if (n > limit - lo) return limit;
  }
  return lo <= limit - n ? lo : limit;
}

/* The first tile in the way: one is enough for a message. */
static const as_region *conflict(const as_regions *rs, const as_region *want) {
  for (uint32_t i = 0; i < rs->n && rs->v[i].lo < want->hi; i++)
    if (hits(&rs->v[i], want->lo, want->hi, want->part, want->nparts, want->overlay))
      return &rs->v[i];
  return NULL;
}

/* Keeps the regions in order of lo. A region within one of its own group adds nothing. */
static void take(as_job *j, as_regions *rs, const as_region *r) {
  uint32_t at = rs->n;
  /* Most tiles come in the order of their addresses, so the search is short. */
  while (at > 0 && rs->v[at - 1].lo > r->lo) at--;
  /* A loop that declares thousands of tiles of one overlay would else make the list as long. */
  if (r->overlay && at > 0) {
    const as_region *o = &rs->v[at - 1];
    if (o->overlay == r->overlay && o->hi >= r->hi && o->part <= r->part &&
        o->part + o->nparts >= r->part + r->nparts)
      return;
  }
  rs->v = as_grow(j, rs->v, rs->n, 1, &rs->cap, sizeof *rs->v);
  memmove(&rs->v[at + 1], &rs->v[at], (rs->n - at) * sizeof *rs->v);
  rs->v[at] = *r;
  rs->n++;
}

/* With who uses it: then one sees which tile could go. */
static void note_tile(as_job *j, const as_region *r, const as_uses *u) {
  const isa_tile *t = &as_program(j)->tiles[r->tile - 1];
  const char *live = as_use_text(j, &u->tile[r->tile]);
  as_note(j, (as_pos){0}, "%s `%s` has partitions %u to %u, bytes %u to %u%s%s",
          isa_space_name(t->space), t->name, r->part, r->part + r->nparts - 1u, r->lo, r->hi - 1,
          live[0] ? "; used by " : "", live);
}

/* The longest run of bytes that no tile has in the partitions of a request. */
static void note_free(as_job *j, const request *r, const as_regions *rs) {
  /* For the message: how much would have fitted. */
  uint32_t end = 0, lo = 0, most = 0, limit = space_bytes(j, r->t.space);
  /* One round more, for what is after the last tile. */
  for (uint32_t i = 0; i <= rs->n; i++) {
    uint32_t next = i < rs->n ? rs->v[i].lo : limit;
    /* Tiles in other partitions leave these bytes free. */
    if (i < rs->n && !hits(&rs->v[i], 0, limit, r->t.part, r->t.shape[0], r->t.overlay)) continue;
    if (next > end && next - end > most) {
      most = next - end;
      lo = end;
    }
    if (i < rs->n && rs->v[i].hi > end) end = rs->v[i].hi;
  }
  if (most)
    as_note(j, (as_pos){0}, "the longest free run has %u bytes, %u to %u", most, lo, lo + most - 1);
  else
    as_note(j, (as_pos){0}, "nothing is free in these partitions");
}

/* A memory of hundreds of tiles: the first twelve, then a number. */
enum { MAX_NOTES = 12 };

static void no_room(as_job *j, const request *r, const as_regions *rs, uint32_t n) {
  uint32_t limit = space_bytes(j, r->t.space), shown = 0, more = 0;
  const as_uses *u = as_uses_of(j);
  as_error(j, r->name->pos, r->name->len,
           "no room for `%s` in %s: %u bytes in each of partitions %u to %u, of %u", r->name->text,
           isa_space_name(r->t.space), n, r->t.part, r->t.part + r->t.shape[0] - 1, limit);
  for (uint32_t i = 0; i < rs->n; i++) {
    /* Those of its own group, too: they are shown for what they take. */
    if (!hits(&rs->v[i], 0, limit, r->t.part, r->t.shape[0], NULL)) continue;
    if (shown++ < MAX_NOTES)
      note_tile(j, &rs->v[i], u);
    else
      more++;
  }
  if (more) as_note(j, (as_pos){0}, "and %u more", more);
  note_free(j, r, rs);
}

/* ---- Placing ------------------------------------------------------------------------------ */

/* Bytes that a tile keeps from others: in PSUM whole banks. False after an error. */
static bool reserve(as_job *j, const request *r, uint32_t *n) {
  *n = r->t.bytes;
  if (r->t.space != ISA_PSUM) {
    if (r->banks < 0) return true;
    as_error(j, r->name->pos, r->name->len, "banks= is for PSUM tiles; `%s` is in SBUF",
             r->name->text);
    return false;
  }
  /* A tile has one bank unless it asks for more. */
  uint32_t banks = r->banks < 0 ? 1 : (uint32_t)r->banks;
  uint64_t need = ((uint64_t)r->t.bytes + ISA_PSUM_BANK - 1) / ISA_PSUM_BANK;
  if (need > banks && r->at_offset < 0) {
    as_error(j, r->name->pos, r->name->len,
             "`%s` has %u bytes in a partition; %u bank%s of PSUM ha%s %u", r->name->text,
             r->t.bytes, banks, banks == 1 ? "" : "s", banks == 1 ? "s" : "ve",
             /* banks=2 is offered only if there are so many. */
             banks * ISA_PSUM_BANK);
    if (need <= j->target->psum_bytes / ISA_PSUM_BANK)
      as_note(j, (as_pos){0}, "banks=%u gives it room", (unsigned)need);
    return false;
  }
  /* With at= the author counts bytes, and several tiles may share a bank. */
  if (r->at_offset < 0) *n = banks * ISA_PSUM_BANK;
  return true;
}

/* An object's tiles are placed again by the linker, with the same wishes. */
static void remember(as_job *j, uint32_t tile, uint32_t align, uint32_t bytes) {
  struct as_unit *u = j->unit;
  u->rooms = as_grow(j, u->rooms, tile, 1, &u->cap_rooms, sizeof *u->rooms);
  /* The linker places it again. */
  u->rooms[tile] = (as_room){align, bytes};
}

static bool place(as_job *j, request *r) {
  as_regions *rs = r->t.space == ISA_PSUM ? &j->unit->psum : &j->unit->sbuf;
  uint32_t limit = space_bytes(j, r->t.space), n;
  bool fixed = r->at_offset >= 0;
  if (!reserve(j, r, &n)) return false;
  /* A bank belongs to one tile, in all partitions.
   * at= is the author's: then only the bytes count. */
  bool banked = r->t.space == ISA_PSUM && !fixed;
  as_region want = {.part = banked ? 0 : r->t.part,
                    .nparts = (uint16_t)(banked ? ISA_PMAX : r->t.shape[0]),
                    .overlay = r->t.overlay};
  /* at=, align=, the option, or 64: the first that is given. */
  uint32_t align = r->align >= 0            ? (uint32_t)r->align
                   : r->t.space == ISA_PSUM ? ISA_PSUM_BANK
                   : j->o->tile_align       ? j->o->tile_align
                                            : 64;
  bool past = false;
  want.lo = fixed ? (uint32_t)r->at_offset : first_fit(rs, &want, n, align, limit);
  bool none = want.lo >= limit || n > limit - want.lo;
  /* The caller will spill tiles: this one gets a place beyond the memory, its own, to be told
   * apart.
   * Only what can fit at all is placed beyond: a tile larger than SBUF stays an error. */
  if (none && !fixed && j->o->spill && r->t.space == ISA_SBUF && n <= limit) {
    past = j->out->overflows = true;
    want.lo = limit + 64 * as_program(j)->ntiles;
  } else if (none) {
    if (fixed)
      as_error(j, r->name->pos, r->name->len, "`%s` has bytes %u to %llu; %s has %u in a partition",
               r->name->text, want.lo, (unsigned long long)want.lo + n - 1,
               isa_space_name(r->t.space), limit);
    else
      no_room(j, r, rs, n);
    return false;
  }
  want.hi = want.lo + n;
  const as_region *other = past ? NULL : conflict(rs, &want);
  if (other) {
    as_error(j, r->name->pos, r->name->len, "`%s` shares bytes with `%s`", r->name->text,
             as_program(j)->tiles[other->tile - 1].name);
    note_tile(j, other, as_uses_of(j));
    as_note(j, (as_pos){0}, "tiles of one overlay= group may share bytes");
    return false;
  }
  r->t.offset = want.lo;
  want.tile = as_program(j)->ntiles + 1;
  /* It is beyond the memory, and takes nothing of it. */
  if (!past) take(j, rs, &want);
  if (j->o->relocatable) remember(j, want.tile, align, n);
  return true;
}

/* The same allocator, with a tile that was parsed in another file. */
bool as_tile_link(as_job *j, isa_tile *t, bool fixed, uint32_t align, uint32_t bytes) {
  as_tok name = {.text = t->name};
  request r = {.name = &name,
               .t = *t,
               .at_part = t->part,
               .at_offset = fixed ? (int64_t)t->offset : -1,
               /* Banks follow from the bytes that it kept in its object. */
               .banks = -1,
               .align = fixed ? -1 : (int64_t)align,
               .bytes = -1};
  /* Rounded up: a tile of a few bytes has its bank for itself. */
  if (!fixed && t->space == ISA_PSUM)
    r.banks = ((int64_t)bytes + ISA_PSUM_BANK - 1) / ISA_PSUM_BANK;
  if (!place(j, &r)) return false;
  t->offset = r.t.offset;
  return true;
}

static bool finish_request(as_job *j, request *r) {
  /* part= moves the tile down; partitions are counted from there. */
  r->t.part = (uint16_t)(r->at_part < 0 ? 0 : r->at_part);
  if (r->t.part + r->t.shape[0] > ISA_PMAX) {
    as_error(j, r->name->pos, r->name->len, "`%s` has partitions %u to %u; the last is %d",
             r->name->text, r->t.part, r->t.part + r->t.shape[0] - 1, ISA_PMAX - 1);
    return false;
  }
  /* bytes= may only make it larger: its shape must fit. */
  if (r->bytes < 0) return true;
  if (r->bytes < r->t.bytes)
    return as_error(j, r->name->pos, r->name->len, "bytes=%lld is less than the %u of its shape",
                    (long long)r->bytes, r->t.bytes);
  r->t.bytes = (uint32_t)r->bytes;
  return true;
}

void as_tile(as_cur *c, const as_tok *name) {
  request r = {.name = name, .at_part = -1, .at_offset = -1, .banks = -1, .align = -1, .bytes = -1};
  r.t.name = name->text;
  as_program(c->j);
  if (as_take_name(c, "sbuf")) {
    r.t.space = ISA_SBUF;
  } else if (as_take_name(c, "psum")) {
    r.t.space = ISA_PSUM;
  } else {
    as_error(c->j, c->t->pos, c->t->len, "a tile is in sbuf or psum, not in %s",
             as_tok_show(c->j, c->t));
    return;
  }
  if (!parse_shape(c, &r)) return;
  while (as_take(c, ','))
    if (!parse_option(c, &r)) return;
  if (!as_need_end(c, "a tile") || !finish_request(c->j, &r)) return;
  /* The name first: a name twice is told before the room. */
  as_sym *s = as_sym_define(c->j, AS_S_TILE, name);
  if (!s || !place(c->j, &r)) return;
  s->placed = r.at_offset >= 0;
  s->index = isa_program_tile(as_program(c->j), &r.t);
  if (s->index == 0) as_nomem(c->j);
}
