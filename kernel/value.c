/* What is there already is not made again: bytes that another tile has, of HBM or of a tile that
 * does not change while its copy is used; what an instruction computed of the same operands. Values
 * are numbered in the order of the list: of a tile that one instruction writes, and nothing after
 * it, by that instruction and what it reads; of other buffers by how often they have been written.
 * Then each item whose value a tile still has, or may keep meanwhile, goes, and what used its tile
 * uses that one. What only such items used goes last. */
#include "simplify.h"
#include "../isa/operand.h"

typedef struct entry {
  uint32_t item, value; /* the first item that made it, its number */
  uint64_t when;        /* of all that it reads how often that was written, together */
  uint32_t state;       /* what it reads beside memory */
} entry;

/* The items of one place in the caller's source. */
typedef struct place {
  uint32_t item, value;  /* the last of them, what it made */
  bool repeats, goes_on; /* one made what others than the last had made; a new value came then */
} place;

typedef struct sharer {
  as_kernel *k;
  uint32_t *writes; /* by buffer: uses that write it */
  uint32_t *value;  /* by buffer: number of what it holds, 0: not one value */
  uint32_t *times;  /* by buffer: how often it has been written so far */
  uint32_t *number; /* by item: of the value that it makes, 0: none */
  bool *again;      /* by item: an earlier one makes the same */
  bool *ordered, *gone;
  entry *entries;
  uint32_t nentries, cap_entries;
  isa_index index;
  place *places;
  uint32_t nplaces, cap_places;
  isa_index lines;   /* places */
  bool same_sources; /* of the item numbered last and the one that made its value */
  bool *computed;    /* by buffer: it has what was computed before of the same tiles */
  uint32_t *far;     /* by item: its place, where an earlier round than the last made the same */
  uint32_t *until;   /* by item that copies a tile: the next one that writes its source */
  uint32_t state[ISA_NSTATES], nvalues, met;
} sharer;

/* ---- Numbers of values ---------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t w) {
  h = (h ^ w) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

/* What an operand that is read stands for: its value, else its buffer. */
static uint64_t source_of(const sharer *s, const as_k_operand *o) {
  uint32_t value = s->value[o->buffer - 1];
  /* Values lie above all buffers. */
  return value ? (uint64_t)value << 32 : o->buffer;
}

static bool same_place(const as_k_operand *a, const as_k_operand *b) {
  return a->shape == b->shape && a->part == b->part && a->nparts == b->nparts &&
         a->offset == b->offset;
}

static bool same_item(const sharer *s, const as_k_item *a, const as_k_item *b) {
  const as_k_use *uses;
  if (a->verdict != b->verdict) return false;
  for (unsigned u = 0, n = as_k_used(s->k, a, &uses); u < n; u++) {
    const as_k_operand *x = as_k_use_op(s->k, a, &uses[u]), *y = as_k_use_op(s->k, b, &uses[u]);
    /* What is written may be another tile of the same kind. */
    bool same = uses[u].writes
                    ? as_k_buf(s->k, x->buffer)->class == as_k_buf(s->k, y->buffer)->class
                    : source_of(s, x) == source_of(s, y);
    if (!same || !same_place(x, y)) return false;
  }
  return true;
}

/* Whether all that an item reads are bytes known now, and nobody else's business; its hash, and how
 * often they have been written. */
static bool reads_values(const sharer *s, const as_k_item *it, uint64_t *hash, uint64_t *when) {
  const as_kernel *k = s->k;
  const as_k_use *uses;
  *hash = it->verdict;
  *when = 0;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    const as_k_buffer *b = as_k_buf(k, o->buffer);
    /* A tile at a fixed place may share bytes with others. */
    if (o->dyn || (b->fixed && b->space != ISA_HBM)) return false;
    *hash = mix(*hash, (uint64_t)o->shape << 32 | (uint64_t)o->part << 8 | o->nparts);
    *hash = mix(*hash, (uint64_t)o->offset);
    if (uses[u].writes) continue;
    *hash = mix(*hash, source_of(s, o));
    /* What the other core may write counts as written at each meeting. */
    *when += s->times[o->buffer - 1] + (as_k_is_shared(k, b) ? s->met : 0);
  }
  return true;
}

static bool has_registers(const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++) /* whose values are not known here */
    if (isa_field_register(in, &form->fields[i]) >= 0) return true;
  return false;
}

/* Whether what an item leaves behind is told by what it reads: it writes one whole tile, or the
 * weights or the mask. *state: of what it reads beside memory. */
static bool is_value(const sharer *s, const as_k_item *it, const as_k_use *w, uint32_t *state) {
  const as_kernel *k = s->k;
  const as_k_verdict *r = as_k_verdict_of(k, it);
  unsigned access, kept = isa_insn_state(&r->in, &access);
  bool known = kept == ISA_STATE_WEIGHTS || kept == ISA_STATE_MASK;
  *state = kept ? s->state[kept] : 0;
  if (isa_op_is_control(it->op) || as_k_meeting_kind(k, it) != K_MEETINGS || has_registers(&r->in))
    return false;
  if (kept && (!known || access == ISA_STATE_RW)) return false;
  /* What it keeps in the engine must be all that it writes. */
  if (access == ISA_STATE_W) {
    /* Unless it loads a part, what was there before does not matter. */
    if (!as_k_is_partial(&r->in)) *state = 0;
    return r->nuses == 0 || !w;
  }
  if (!w || !as_k_overwrites(k, it, w)) return false;
  uint32_t b = as_k_use_op(k, it, w)->buffer;
  /* The only write of a tile that is free to be another. */
  return s->writes[b - 1] == 1 && !as_k_buf(k, b)->pinned;
}

/* Whether what b reads are the tiles that a reads, or what was computed of the same tiles: not what
 * was loaded again. */
static bool of_same_buffers(const sharer *s, const as_k_item *a, const as_k_item *b) {
  const as_k_use *uses;
  for (unsigned u = 0, n = as_k_used(s->k, a, &uses); u < n; u++) {
    uint32_t x = as_k_use_op(s->k, a, &uses[u])->buffer, y = as_k_use_op(s->k, b, &uses[u])->buffer;
    if (uses[u].reads && x != y && !s->computed[y - 1]) return false;
  }
  return true;
}

/* The number of an item's value, which others like it have too; 0: memory is out. */
static uint32_t find_value(sharer *s, uint32_t item, uint64_t h, uint64_t when, uint32_t state) {
  as_kernel *k = s->k;
  uint32_t hash = (uint32_t)(h ^ h >> 32) ^ state, probe = 0, n;
  while ((n = isa_index_next(&s->index, hash, &probe))) {
    entry *e = &s->entries[n - 1];
    if (!same_item(s, &k->items[e->item], &k->items[item]) || e->state != state) continue;
    if (e->when != when) { /* written since: this is what there is from now on */
      /* The entry is for the newest bytes. */
      *e = (entry){item, ++s->nvalues, when, state};
      return e->value;
    }
    s->again[item] = true;
    s->same_sources = of_same_buffers(s, &k->items[e->item], &k->items[item]);
    return e->value;
  }
  if (!isa_array_room(&k->al, &s->entries, s->nentries, &s->cap_entries, sizeof *s->entries)) {
    as_k_nomem(k);
    return 0;
  }
  s->entries[s->nentries++] = (entry){item, ++s->nvalues, when, state};
  if (isa_index_add(&k->al, &s->index, hash, s->nentries)) return s->nvalues;
  as_k_nomem(k);
  return 0;
}

/* ---- Which loop it repeats in --------------------------------------------------------------- */

/* Whether two items are of one place, as far as that can be told. */
static bool are_of_one_place(const sharer *s, const as_k_item *a, const as_k_item *b) {
  const as_k_use *uses;
  if (a->verdict != b->verdict || a->at.line != b->at.line || a->at.file != b->at.file)
    return false;
  for (unsigned u = 0, n = as_k_used(s->k, a, &uses); u < n; u++) {
    const as_k_operand *x = as_k_use_op(s->k, a, &uses[u]), *y = as_k_use_op(s->k, b, &uses[u]);
    /* A tile of SBUF may be another in each round, a tensor not. */
    if (x->space == ISA_HBM && x->buffer != y->buffer) return false;
  }
  return true;
}

static void note_round(sharer *s, uint32_t number, uint32_t item) {
  place *p = &s->places[number - 1];
  if (!s->again[item]) /* after a repetition something new: the loop around it goes on */
    p->goes_on |= p->repeats;
  /* Not the value of the round before, but of an earlier one: a loop within repeats it. */
  else if (p->value != s->number[item]) {
    p->repeats = true;
    s->far[item] = number;
    s->again[item] = s->same_sources;
  }
  p->item = item;
  p->value = s->number[item];
}

/* Notes the value of an item with those of its place. */
static bool note_place(sharer *s, uint32_t item) {
  as_kernel *k = s->k;
  const as_k_item *it = &k->items[item];
  uint32_t hash = (uint32_t)mix(mix(it->verdict, it->at.line), it->at.file), probe = 0, n;
  while ((n = isa_index_next(&s->lines, hash, &probe)))
    if (are_of_one_place(s, &k->items[s->places[n - 1].item], it)) {
      note_round(s, n, item);
      return true;
    }
  if (!isa_array_room(&k->al, &s->places, s->nplaces, &s->cap_places, sizeof *s->places))
    return as_k_nomem(k);
  s->places[s->nplaces++] = (place){.item = item, .value = s->number[item]};
  return isa_index_add(&k->al, &s->lines, hash, s->nplaces) || as_k_nomem(k);
}

/* In for m, for n, for k: what depends on n and k alone, or on m and n alone, is made once; what
 * depends on m and k is made for each n, and so is what is computed of tiles that are made again,
 * unless AS_PASS_FAR is on. */
static void keep_middle(sharer *s) {
  for (uint32_t i = 0; i < s->k->nitems; i++)
    if (s->far[i] && s->places[s->far[i] - 1].goes_on) s->again[i] = false;
}

static bool number_item(sharer *s, uint32_t item, bool in_loop) {
  as_kernel *k = s->k;
  const as_k_item *it = &k->items[item];
  const as_k_use *uses, *w = as_k_only_write(k, it);
  uint64_t hash, when;
  uint32_t state = 0;
  unsigned n = as_k_used(k, it, &uses), access = 0, kept = ISA_STATE_none;
  if (it->op < ISA_NOPS) kept = isa_insn_state(&as_k_verdict_of(k, it)->in, &access);
  bool value = it->op < ISA_NOPS && !in_loop && is_value(s, it, w, &state) &&
               reads_values(s, it, &hash, &when);
  if (value && !(s->number[item] = find_value(s, item, hash, when, state))) return false;
  if (value && !as_k_may(k, it, AS_PASS_FAR) && !note_place(s, item)) return false;
  if (value && w) {
    uint32_t b = as_k_use_op(k, it, w)->buffer;
    s->value[b - 1] = s->number[item];
    s->computed[b - 1] = s->again[item] && !isa_op_is_dma(it->op);
  }
  /* Whatever leaves a state behind has a number of its own. */
  if (access & ISA_STATE_W) s->state[kept] = value ? s->number[item] : ++s->nvalues;
  for (unsigned u = 0; u < n; u++)
    if (uses[u].writes) s->times[as_k_use_op(k, it, &uses[u])->buffer - 1]++;
  /* From here on the other core or the collective may have written. */
  if (it->op < ISA_NOPS && (as_k_is_collective(it) || as_k_meeting_kind(k, it) != K_MEETINGS))
    s->met++;
  return true;
}

static bool number_items(sharer *s) {
  as_kernel *k = s->k;
  uint32_t depth = 0;
  const as_k_use *uses;
  /* How often each buffer is written at all, before anything is numbered. */
  for (uint32_t i = 0; i < k->nitems; i++)
    for (unsigned u = 0, n = as_k_used(k, &k->items[i], &uses); u < n; u++)
      s->writes[as_k_use_op(k, &k->items[i], &uses[u])->buffer - 1] += uses[u].writes;
  for (uint32_t i = 0; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    depth += it->op == K_LOOP || it->op == K_WHILE;
    depth -= it->op == K_ENDLOOP;
    if (!number_item(s, i, depth > 0)) return false;
  }
  keep_middle(s);
  return true;
}

/* ---- Which tile serves ----------------------------------------------------------------------- */

typedef struct keeper {
  sharer *s;
  as_k_room_use room[2]; /* of SBUF, PSUM */
  uint32_t *tile;        /* by value: that has it */
  uint32_t *now;         /* by buffer: that stands for it */
} keeper;

/* Three quarters of SBUF: loads that run ahead need room too. PSUM is too small to keep things. */
static int64_t limit_of(const as_kernel *k, unsigned space) {
  return space == ISA_PSUM ? 0 : (int64_t)as_k_memory(k, space) / 4 * 3;
}

/* Whether a tile may hold its value until `item` and then as long as another one would; if so it
 * does. */
static bool keep(keeper *p, uint32_t tile, uint32_t item, uint32_t other) {
  as_kernel *k = p->s->k;
  as_k_buffer *b = as_k_buf(k, tile);
  const as_k_buffer *o = as_k_buf(k, other);
  as_k_room_use *r = &p->room[b->space == ISA_PSUM];
  bool alive = b->last >= item;
  /* It lives already, or there is room from its end to the item. */
  if (!alive && as_k_room_most(r, b->last + 1, item) + b->bytes > limit_of(k, b->space))
    return false;
  if (!alive && item > b->last + 1) as_k_room_add(r, b->last + 1, item - 1, b->bytes);
  /* It lives on as long as the one that it stands for. */
  if (b->last < o->last) b->last = o->last;
  return true;
}

/* Whether an item reads a sum whose instruction stays since it stands in an order: then the reader
 * stays too, for the check `psum`. */
static bool reads_sum(const as_kernel *k, const as_k_item *it) {
  const as_k_use *uses;
  for (unsigned u = 0, n = k->norders ? as_k_used(k, it, &uses) : 0; u < n; u++)
    if (as_k_use_op(k, it, &uses[u])->space == ISA_PSUM) return true;
  return false;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* The tile of SBUF that an item copies all of to an equal one, element by element; 0: none. */
static uint32_t copied_by(const as_kernel *k, const as_k_item *it) {
  const as_k_use *uses;
  const as_k_operand *to = NULL, *from = NULL;
  if (it->op != ISA_OP_tensor_copy) return 0;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++)
    /* The two operands of a copy, told apart by what they do. */
    *(uses[u].writes ? &to : &from) = as_k_use_op(k, it, &uses[u]);
  if (!to || !from || from->space != ISA_SBUF || !same_place(to, from)) return 0;
  const as_k_buffer *a = as_k_buf(k, from->buffer);
  return as_k_buf(k, to->buffer)->class == a->class && !a->pinned ? from->buffer : 0;
}

static void find_writes(sharer *s) {
  const as_kernel *k = s->k;
  const as_k_use *uses;
  uint32_t *next = s->times, from; /* by buffer: 1 + the next item that writes it; 0: none does */
  memset(next, 0, k->nbuffers * sizeof *next);
  /* Backwards: the next write of each buffer is known. */
  for (uint32_t i = k->nitems; i-- > 0;) {
    const as_k_item *it = &k->items[i];
    if ((from = copied_by(k, it))) s->until[i] = next[from - 1] ? next[from - 1] - 1 : K_NONE;
    for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++)
      if (uses[u].writes) next[as_k_use_op(k, it, &uses[u])->buffer - 1] = i + 1;
  }
}

/* Whether an item's copy may be its source, `from`, which serves as long as the copy is used. The
 * source of a copy that is one may change after its last use. */
static bool may_be_source(keeper *p, uint32_t item, uint32_t from, uint32_t to) {
  const sharer *s = p->s;
  as_kernel *k = s->k;
  const as_k_item *it = &k->items[item];
  /* The source's own stand-in has to stay as it is too. */
  uint32_t has = p->now[from - 1];
  if (has != from && s->writes[has - 1] != 1) return false;
  if (!as_k_may(k, it, AS_PASS_LOADS) || s->ordered[item]) return false;
  return s->until[item] > as_k_buf(k, to)->last && keep(p, has, item, to);
}

static bool share_item(keeper *p, uint32_t item) {
  sharer *s = p->s;
  as_kernel *k = s->k;
  const as_k_item *it = &k->items[item];
  const as_k_use *w = as_k_only_write(k, it);
  uint32_t value = s->number[item];
  if (!value || !w) return true;
  uint32_t b = as_k_use_op(k, it, w)->buffer, has = p->tile[value], from = copied_by(k, it);
  if (from && may_be_source(p, item, from, b)) {
    p->now[b - 1] = p->now[from - 1];
    s->gone[item] = true;
    return as_k_leave(k, item, b, AS_PASS_LOADS);
  }
  unsigned pass = isa_op_is_dma(it->op) ? AS_PASS_LOADS : AS_PASS_VALUES;
  bool may =
      s->again[item] && has && as_k_may(k, it, pass) && !s->ordered[item] && !reads_sum(k, it);
  if (!may || !keep(p, has, item, b)) {
    p->tile[value] = b; /* from here on */
    return true;
  }
  p->now[b - 1] = has;
  s->gone[item] = true;
  return as_k_leave(k, item, b, pass);
}

static bool share_items(keeper *p) {
  sharer *s = p->s;
  as_kernel *k = s->k;
  for (uint32_t i = 0; i < k->nitems; i++) {
    if (!share_item(p, i)) return false;
    if (!s->gone[i]) as_k_rename(k, &k->items[i], p->now, k->nbuffers);
  }
  return true;
}

/* ---- What only they used --------------------------------------------------------------------- */

/* An item that makes a value again, for items alone that are gone, goes; so do weights and masks
 * that nothing uses before the next. */
static bool drop_unused(sharer *s) {
  as_kernel *k = s->k;
  const as_k_use *uses;
  bool unused[ISA_NSTATES] = {false};
  uint32_t *reads = s->times; /* from here on: uses that read a buffer */
  memset(reads, 0, k->nbuffers * sizeof *reads);
  /* Backwards: all readers come before the maker. */
  for (uint32_t i = k->nitems; i-- > 0;) {
    const as_k_item *it = &k->items[i];
    if (s->gone[i]) continue;
    const as_k_use *w = as_k_only_write(k, it);
    unsigned n = as_k_used(k, it, &uses), access = 0, kept = ISA_STATE_none;
    if (it->op < ISA_NOPS) kept = isa_insn_state(&as_k_verdict_of(k, it)->in, &access);
    bool made = w && s->again[i] && s->number[i] && !reads[as_k_use_op(k, it, w)->buffer - 1];
    bool set = !w && s->number[i] && access == ISA_STATE_W && unused[kept];
    if ((made || set) && as_k_may(k, it, AS_PASS_VALUES) && !s->ordered[i]) {
      s->gone[i] = true;
      uint32_t b = w ? as_k_use_op(k, it, w)->buffer : 0;
      if (!as_k_leave(k, i, b, AS_PASS_VALUES)) return false;
      continue;
    }
    /* What a loop does is not looked at: all may be used there. */
    if (it->op >= ISA_NOPS) memset(unused, 0, sizeof unused);
    if (access & ISA_STATE_R)
      unused[kept] = false;
    else if (access && !(it->op < ISA_NOPS && as_k_is_partial(&as_k_verdict_of(k, it)->in)))
      unused[kept] = true;
    for (unsigned u = 0; u < n; u++)
      if (uses[u].reads) reads[as_k_use_op(k, it, &uses[u])->buffer - 1]++;
  }
  return true;
}

static bool share(sharer *s) {
  as_kernel *k = s->k;
  keeper p = {.s = s};
  size_t n = (size_t)k->nbuffers + 1, values = (size_t)s->nvalues + 1;
  p.tile = isa_zalloc(&k->al, values * sizeof *p.tile);
  p.now = isa_zalloc(&k->al, n * sizeof *p.now);
  bool ok = (p.tile && p.now) || as_k_nomem(k);
  /* At first each stands for itself. */
  for (uint32_t i = 0; ok && i < k->nbuffers; i++) p.now[i] = i + 1;
  ok = ok && as_k_lives(k) && as_k_room_open(k, ISA_SBUF, &p.room[0]) &&
       as_k_room_open(k, ISA_PSUM, &p.room[1]);
  if (ok) find_writes(s);
  ok = ok && share_items(&p) && drop_unused(s);
  for (unsigned m = 0; m < 2; m++) as_k_room_close(k, &p.room[m]);
  isa_free(&k->al, p.tile, values * sizeof *p.tile);
  isa_free(&k->al, p.now, n * sizeof *p.now);
  return ok && as_k_drop(k, s->gone);
}

/* Whether anything was numbered twice, or is a copy. */
static bool any_again(const sharer *s) {
  for (uint32_t i = 0; i < s->k->nitems; i++)
    if (s->again[i] || (s->number[i] && copied_by(s->k, &s->k->items[i]))) return true;
  return false;
}

bool as_k_share_values(as_kernel *k) {
  if (!as_k_asked(k, AS_PASS_LOADS | AS_PASS_VALUES)) return true;
  sharer s = {.k = k};
  size_t n = (size_t)k->nbuffers + 1, items = (size_t)k->nitems + 1;
  const as_k_array arrays[] = {
      K_ARRAY(s.writes, n), K_ARRAY(s.value, n), K_ARRAY(s.times, n), K_ARRAY(s.number, items),
      K_ARRAY(s.again, items), K_ARRAY(s.far, items), K_ARRAY(s.until, items),
      K_ARRAY(s.computed, n), K_ARRAY(s.gone, items), K_ARRAY(s.ordered, items)};
  const unsigned narrays = sizeof arrays / sizeof *arrays;
  bool ok = as_k_make_arrays(k, arrays, narrays);
  if (ok) as_k_ordered(k, s.ordered);
  ok = ok && number_items(&s) && (!any_again(&s) || share(&s));
  as_k_free_arrays(k, arrays, narrays);
  isa_index_free(&k->al, &s.index);
  isa_index_free(&k->al, &s.lines);
  isa_free(&k->al, s.places, s.cap_places * sizeof *s.places);
  isa_free(&k->al, s.entries, s.cap_entries * sizeof *s.entries);
  return ok;
}
