/* An object's file is made of the program's: two or three entries more in its table, their
 * sections at the end. Reading takes them out again and leaves the rest to isa_image_read. */
#include "../../isa/operand.h"
#include "object.h"

#include "../../isa/image.h"

#include <string.h>

enum { NAME_RECORD = 24, RELOC_RECORD = 12, PLACE_RECORD = 8 };

/* ---- Writing ------------------------------------------------------------------------------ */

static void put32(isa_buf *b, uint32_t v) {
  uint8_t bytes[4];
  isa_put32(bytes, v);
  isa_buf_add(b, bytes, 4);
}

static void pad(isa_buf *b, size_t start, size_t align) {
  while ((b->len - start) % align != 0 && !b->failed) isa_buf_add(b, "", 1);
}

/* A record: kind, bind, fixed, core, engine; then index, align, room, the name. */
static void put_names(const as_object *o, isa_buf *b) {
  put32(b, o->nnames);
  for (uint32_t i = 0; i < o->nnames; i++) {
    const as_link_name *l = &o->names[i];
    /* Three zeros make the head 8 bytes. */
    uint8_t head[8] = {l->kind, l->bind, l->fixed, l->core, l->engine, 0, 0, 0};
    size_t n = strlen(l->name), start = b->len;
    isa_buf_add(b, head, sizeof head);
    put32(b, l->index);
    put32(b, l->align);
    put32(b, l->room);
    put32(b, (uint32_t)n);
    isa_buf_add(b, l->name, n);
    /* Records begin at multiples of 4. */
    pad(b, start, 4);
  }
}

/* A relocation: which instruction, and the number of its label's name. */
static void put_relocs(const as_object *o, isa_buf *b) {
  for (uint32_t i = 0; i < o->nrelocs; i++) {
    const as_reloc *r = &o->relocs[i];
    uint8_t head[4] = {r->core, r->engine, 0, 0};
    isa_buf_add(b, head, sizeof head);
    put32(b, r->pc);
    put32(b, r->name);
  }
}

/* As many places as names, in the same order. */
static void put_places(const as_object *o, isa_buf *b) {
  for (uint32_t i = 0; i < o->nnames; i++) {
    put32(b, o->names[i].file);
    put32(b, o->names[i].line);
  }
}

/* Appends a section's bytes and fills its entry.
 * Sections begin at multiples of 8, as in any image. */
static void put_section(isa_buf *out, size_t start, uint32_t entry, const char *tag,
                        const as_object *o, void (*put)(const as_object *, isa_buf *)) {
  pad(out, start, 8);
  size_t at = out->len;
  put(o, out);
  if (out->failed) return;
  uint8_t *e = (uint8_t *)out->data + start + IMAGE_TABLE + IMAGE_ENTRY * (size_t)entry;
  isa_put32(e, image_tag(tag));
  isa_put32(e + 4, 0);
  isa_put64(e + 8, at - start);
  isa_put64(e + 16, out->len - at);
}

/* The hash covers what follows it, so it is written last. */
static void rehash(uint8_t *file, size_t n) {
  isa_put64(file + 8, isa_fnv(ISA_FNV_START, file + IMAGE_HASHED, n - IMAGE_HASHED));
}

/* Copies an image with `more` entries more in its table (fewer, when negative).
 * Offsets in the table count from the file's start: it moves with the table's length. */
static void copy_image(const uint8_t *image, size_t n, int more, isa_buf *out) {
  size_t start = out->len;
  uint32_t old = isa_get32(image + 40), sections = (uint32_t)((int64_t)old + more);
  /* Entries are added and taken away at the end of the table: those before keep their numbers. */
  uint32_t kept = sections < old ? sections : old;
  size_t table = IMAGE_TABLE + (size_t)old * IMAGE_ENTRY;
  isa_buf_add(out, image, IMAGE_TABLE + (size_t)kept * IMAGE_ENTRY);
  static const uint8_t empty[IMAGE_ENTRY];
  for (uint32_t i = kept; i < sections; i++) isa_buf_add(out, empty, sizeof empty);
  isa_buf_add(out, image + table, n - table);
  if (out->failed) return;
  uint8_t *file = (uint8_t *)out->data + start;
  isa_put32(file + 40, sections);
  for (uint32_t i = 0; i < kept; i++) {
    uint8_t *e = file + IMAGE_TABLE + (size_t)i * IMAGE_ENTRY;
    /* The table has grown, so all sections lie as much further on. */
    isa_put64(e + 8, isa_get64(e + 8) + (uint64_t)((int64_t)more * IMAGE_ENTRY));
  }
}

/* EXTN, RELO if there is one, DECL. */
bool as_object_write(const as_object *o, isa_buf *out) {
  isa_buf image;
  size_t start = out->len;
  isa_buf_init(&image, &out->al);
  bool ok = isa_image_write(o->program, &image);
  /* RELO only where branches leave the object. */
  int more = o->nrelocs ? 3 : 2;
  if (ok) {
    /* The number of sections. */
    uint32_t n = isa_get32((const uint8_t *)image.data + 40);
    copy_image((const uint8_t *)image.data, image.len, more, out);
    put_section(out, start, n, "EXTN", o, put_names);
    if (o->nrelocs) put_section(out, start, n + 1, "RELO", o, put_relocs);
    put_section(out, start, n + (uint32_t)more - 1, "DECL", o, put_places);
  }
  isa_buf_free(&image);
  if (!ok || out->failed) return false;
  rehash((uint8_t *)out->data + start, out->len - start);
  return true;
}

/* ---- Reading ------------------------------------------------------------------------------ */

typedef struct reader {
  const uint8_t *data;
  size_t n;
  isa_arena *arena;
  as_object *o;
  isa_error *e;
} reader;

/* A part of the file, within its bytes. */
typedef struct piece {
  const uint8_t *at;
  size_t n;
} piece;

static bool bad(const reader *r, const char *why) {
  return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "not an object file: %s", why);
}

static bool no_memory(const reader *r) {
  return isa_fail(r->e, ISA_NOMEM, ISA_NOFIELD, "out of memory");
}

static bool tag_is(const reader *r, uint32_t entry, const char *tag) {
  return isa_get32(r->data + IMAGE_TABLE + (size_t)entry * IMAGE_ENTRY) == image_tag(tag);
}

/* Bounded before anything of it is read. */
static bool get_piece(const reader *r, uint32_t entry, piece *out) {
  const uint8_t *e = r->data + IMAGE_TABLE + (size_t)entry * IMAGE_ENTRY;
  uint64_t at = isa_get64(e + 8), n = isa_get64(e + 16);
  if (at > r->n || n > r->n - at || isa_get32(e + 4) != 0)
    return bad(r, "a section lies partly outside it");
  *out = (piece){r->data + at, (size_t)n};
  return true;
}

/* The sections of objects.
 * n: how many of these sections the file has. */
typedef struct pieces {
  piece names, relocs, places; /* at NULL: the file lacks it */
  uint32_t n;
} pieces;

/* Takes the section that is last of those not yet taken, if it has that tag.
 * They stand at the end of the table, so taking them away moves nothing else. */
static bool take_last(const reader *r, uint32_t sections, const char *tag, pieces *p, piece *out) {
  uint32_t entry = sections - p->n - 1;
  /* A program has at least one section of its own. */
  if (p->n + 1 >= sections || !tag_is(r, entry, tag)) return true;
  p->n++;
  return get_piece(r, entry, out);
}

/* Finds the sections of objects, and how many bytes of the file are the program's.
 * end: where the program's own bytes end. */
static bool split(const reader *r, pieces *p, size_t *end) {
  if (r->n < IMAGE_TABLE || memcmp(r->data, ISA_IMAGE_MAGIC, 4) != 0)
    return bad(r, "it does not begin with \\x7fSBC");
  uint32_t sections = isa_get32(r->data + 40);
  if (sections < 2 || sections > (r->n - IMAGE_TABLE) / IMAGE_ENTRY)
    return bad(r, "its table of sections is damaged");
  if (isa_fnv(ISA_FNV_START, r->data + IMAGE_HASHED, r->n - IMAGE_HASHED) != isa_get64(r->data + 8))
    return bad(r, "its content is damaged");
  *p = (pieces){0};
  /* From the last to the first, as put_section has written them. */
  if (!take_last(r, sections, "DECL", p, &p->places) ||
      !take_last(r, sections, "RELO", p, &p->relocs) ||
      !take_last(r, sections, "EXTN", p, &p->names))
    return false;
  /* Even an object that exports nothing has an EXTN section, an empty one. */
  if (!p->names.at) return bad(r, "a program, linked already");
  const uint8_t *last = r->data + IMAGE_TABLE + (size_t)(sections - p->n - 1) * IMAGE_ENTRY;
  /* The entries taken out move the sections back. */
  uint64_t at = isa_get64(last + 8), n = isa_get64(last + 16), moved = p->n * IMAGE_ENTRY;
  if (at > r->n || n > r->n - at || at < IMAGE_TABLE + (uint64_t)sections * IMAGE_ENTRY ||
      at < moved)
    return bad(r, "a section lies partly outside it");
  *end = (size_t)(at + n);
  return true;
}

/* Whether both cores have it: semaphores, under one number and name, and queues.
 * A name of both cores has an index on each: index, and for queues align. */
static bool on_both(const isa_program *p, const as_link_name *l) {
  if (p->ncores < ISA_MAX_CORES || l->engine >= ISA_NSEQS) return false;
  if (l->kind == AS_L_SEM) return l->index < ISA_NSEMS && isa_shared_sem(p, l->index);
  return l->kind == AS_L_QUEUE && l->index < p->cores[0].nqueues && l->align < p->cores[1].nqueues;
}

/* How many things of its kind a name may be of. */
static bool in_table(const isa_program *p, const as_link_name *l) {
  if (l->core == ISA_MAX_CORES) return on_both(p, l);
  if (l->core >= p->ncores || l->engine >= ISA_NSEQS) return false;
  const isa_core *c = &p->cores[l->core];
  switch (l->kind) {
  case AS_L_TENSOR: return l->index >= 1 && l->index <= p->ntensors;
  case AS_L_TILE: return l->index >= 1 && l->index <= p->ntiles;
  case AS_L_SEM: return l->index < ISA_NSEMS && c->sem_names[l->index];
  case AS_L_QUEUE: return l->index < c->nqueues;
  /* A label may be one past the last instruction. */
  default: return l->index <= c->code[l->engine].n;
  }
}

/* p moves on past the record. */
static bool get_name(const reader *r, piece *p, as_link_name *l) {
  if (p->n < NAME_RECORD) return bad(r, "EXTN ends early");
  const uint8_t *at = p->at;
  *l = (as_link_name){.kind = at[0],
                      .bind = at[1],
                      .fixed = at[2],
                      .core = at[3],
                      .engine = at[4],
                      .index = isa_get32(at + 8),
                      .align = isa_get32(at + 12),
                      .room = isa_get32(at + 16)};
  uint64_t n = isa_get32(at + 20), whole = image_align(NAME_RECORD + n, 4);
  /* A name may not have a 0 in it. */
  if (n == 0 || whole > p->n || memchr(at + NAME_RECORD, 0, (size_t)n))
    return bad(r, "a name in EXTN is damaged");
  l->name = isa_arena_strn(r->arena, (const char *)at + NAME_RECORD, (size_t)n);
  if (!l->name) return no_memory(r);
  if (l->kind >= AS_L_KINDS || l->bind >= AS_L_BINDS || l->fixed > 1 ||
      !in_table(r->o->program, l) || (l->kind == AS_L_TILE && !l->fixed && l->align == 0))
    return bad(r, "a record of EXTN is damaged");
  p->at += whole;
  p->n -= (size_t)whole;
  return true;
}

/* The count comes first. */
static bool get_names(const reader *r, piece p) {
  uint32_t n = p.n >= 4 ? isa_get32(p.at) : 0;
  /* So that the count is bounded by the bytes. */
  if (p.n < 4 || n > p.n / NAME_RECORD) return bad(r, "EXTN ends early");
  p.at += 4;
  p.n -= 4;
  r->o->names = isa_arena_alloc(r->arena, (n + (size_t)1) * sizeof *r->o->names);
  if (!r->o->names) return no_memory(r);
  for (uint32_t i = 0; i < n; i++)
    if (!get_name(r, &p, &r->o->names[i])) return false;
  r->o->nnames = n;
  return p.n == 0 || bad(r, "there are bytes after the names of EXTN");
}

/* Where the names are declared; older objects have no such section.
 * Messages then have no place. */
static bool get_places(const reader *r, piece p) {
  as_object *o = r->o;
  if (!p.at) return true;
  if (p.n != (size_t)o->nnames * PLACE_RECORD)
    return bad(r, "DECL does not have a place for each name");
  for (uint32_t i = 0; i < o->nnames; i++, p.at += PLACE_RECORD) {
    o->names[i].file = isa_get32(p.at);
    o->names[i].line = isa_get32(p.at + 4);
    if (o->names[i].file > o->program->nfiles) return bad(r, "a record of DECL is damaged");
  }
  return true;
}

/* Only a branch has a label to be filled in. */
static bool has_label(const isa_program *p, const as_reloc *l) {
  if (l->core >= p->ncores || l->engine >= ISA_NSEQS) return false;
  const isa_code *c = &p->cores[l->core].code[l->engine];
  if (l->pc >= c->n) return false;
  return isa_insn_target(&c->insns[l->pc]) >= 0;
}

/* A record for each branch that leaves the object. */
static bool get_relocs(const reader *r, piece p) {
  if (p.n % RELOC_RECORD) return bad(r, "RELO ends early");
  uint32_t n = (uint32_t)(p.n / RELOC_RECORD);
  as_object *o = r->o;
  o->relocs = isa_arena_alloc(r->arena, (n + (size_t)1) * sizeof *o->relocs);
  if (!o->relocs) return no_memory(r);
  for (uint32_t i = 0; i < n; i++) {
    const uint8_t *at = p.at + (size_t)i * RELOC_RECORD;
    as_reloc *l = &o->relocs[i];
    *l = (as_reloc){at[0], at[1], isa_get32(at + 4), isa_get32(at + 8)};
    /* It must be an extern label of that very section. */
    const as_link_name *to = l->name < o->nnames ? &o->names[l->name] : NULL;
    if (!has_label(o->program, l) || !to || to->kind != AS_L_LABEL || to->bind != AS_L_EXTERN ||
        to->core != l->core || to->engine != l->engine)
      return bad(r, "a record of RELO is damaged");
  }
  o->nrelocs = n;
  return true;
}

/* What is left after taking the sections away is a program's image. */
bool as_object_read(isa_arena *a, const void *data, size_t n, as_object *out, isa_error *e) {
  reader r = {data, n, a, out, e};
  pieces p;
  size_t end = 0;
  memset(out, 0, sizeof *out);
  if (!split(&r, &p, &end)) return false;
  isa_buf image;
  isa_buf_init(&image, &a->al);
  copy_image(data, end, -(int)p.n, &image);
  if (image.failed) {
    isa_buf_free(&image);
    return no_memory(&r);
  }
  /* The hash was checked in split; isa_image_read checks that of what is left. */
  rehash((uint8_t *)image.data, image.len);
  out->program = isa_image_read(&a->al, image.data, image.len, e);
  isa_buf_free(&image);
  if (!out->program) return false;
  if (get_names(&r, p.names) && get_relocs(&r, p.relocs) && get_places(&r, p.places)) return true;
  isa_program_free(out->program);
  out->program = NULL;
  return false;
}

/* An object that only uses the name has no thing to share. */
bool as_object_keeps(const as_object *o, const as_link_name *l) {
  const isa_program *p = o->program;
  unsigned core = l->core < ISA_MAX_CORES ? l->core : 0;
  if (core >= p->ncores) return false;
  const isa_core *c = &p->cores[core];
  for (uint32_t i = 0; i < o->nnames; i++) /* It uses the name itself, from elsewhere. */
    if (o->names[i].bind == AS_L_EXTERN && o->names[i].kind == l->kind &&
        strcmp(o->names[i].name, l->name) == 0)
      return false;
  bool has = false;
  for (uint32_t i = 0; l->kind == AS_L_LABEL && i < p->nsymbols; i++)
    has |= p->symbols[i].core == l->core && p->symbols[i].engine == l->engine &&
           strcmp(p->symbols[i].name, l->name) == 0;
  for (uint32_t i = 0; l->kind == AS_L_TENSOR && i < p->ntensors; i++)
    has |= strcmp(p->tensors[i].name, l->name) == 0;
  for (uint32_t i = 0; l->kind == AS_L_TILE && i < p->ntiles; i++)
    has |= strcmp(p->tiles[i].name, l->name) == 0;
  for (unsigned i = 0; l->kind == AS_L_SEM && i < ISA_NSEMS; i++)
    has |= c->sem_names[i] && strcmp(c->sem_names[i], l->name) == 0;
  for (uint32_t i = 0; l->kind == AS_L_QUEUE && i < c->nqueues; i++)
    has |= strcmp(c->queues[i].name, l->name) == 0;
  return has;
}
