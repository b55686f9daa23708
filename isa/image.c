/* Writes a program as an .sbc file. Every size but that of the strings, which come last, is known
 * from the counts, so the table goes out first and its sizes are filled in after each section. */
#include "image.h"

#include "target.h"

#include <string.h>

/* The pool is written as it lies in memory. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "isa/image.c: the program's pool is little endian"
#endif

const image_kind isa_image_kinds[IMAGE_NSECTIONS] = {
#define SECTION(tag, per, optional, record) {#tag, IMAGE_##per, optional, record},
    IMAGE_SECTIONS(SECTION)
#undef SECTION
};

typedef struct writer {
  const isa_program *p;
  isa_buf *out, strings;
  uint64_t data; /* of const tensors so far */
} writer;

/* n zeroed bytes at the end of the file, or scratch when memory is out (the buffer remembers).
 * The caller fills in what is not zero; reserved bytes are so in every record. */
static uint8_t *room(writer *w, uint8_t *scratch, size_t n) {
  uint8_t *at = (uint8_t *)isa_buf_grow(w->out, n);
  return memset(at ? at : scratch, 0, n);
}

static void pad_to(isa_buf *b, size_t start, size_t align) {
  static const char zeros[IMAGE_DATA_ALIGN];
  size_t n = b->len - start;
  isa_buf_add(b, zeros, (size_t)image_align(n, align) - n);
}

/* Place of a name in STRS, 0 for none.
 * Equal names are written twice: a name's place then follows from the order of the
 * records, and a program has one file. */
static uint32_t name(writer *w, const char *s) {
  if (!s) return 0;
  size_t at = w->strings.len;
  isa_buf_add(&w->strings, s, strlen(s) + 1);
  /* Places in STRS have 32 bits. */
  if (w->strings.len > UINT32_MAX) w->strings.failed = true;
  return (uint32_t)at;
}

static void put_u32(writer *w, uint32_t v) {
  uint8_t scratch[4];
  isa_put32(room(w, scratch, 4), v);
}

static void put_tensors(writer *w) {
  uint8_t scratch[88];
  for (uint32_t i = 0; i < w->p->ntensors; i++) {
    const isa_tensor *t = &w->p->tensors[i];
    uint8_t *r = room(w, scratch, sizeof scratch);
    isa_put32(r, name(w, t->name));
    r[4] = t->dtype;
    r[5] = t->role;
    r[6] = t->ndim;
    r[7] = t->rows;
    /* Dimensions past ndim stay zero. */
    for (unsigned d = 0; d < t->ndim && d < ISA_TENSOR_DIMS; d++)
      isa_put64(r + 8 + 8 * d, (uint64_t)t->shape[d]);
    isa_put64(r + 72, t->bytes);
    /* Only const tensors have bytes in the file. */
    if (t->data) {
      /* As put_data will place them: the two walk over the tensors in one order. */
      w->data = image_align(w->data, IMAGE_DATA_ALIGN);
      isa_put64(r + 80, w->data);
      w->data += t->bytes;
    }
  }
}

static void put_data(writer *w) {
  size_t start = w->out->len;
  for (uint32_t i = 0; i < w->p->ntensors; i++)
    if (w->p->tensors[i].data) {
      pad_to(w->out, start, IMAGE_DATA_ALIGN);
      isa_buf_add(w->out, w->p->tensors[i].data, (size_t)w->p->tensors[i].bytes);
    }
}

static void put_tiles(writer *w) {
  uint8_t scratch[48];
  for (uint32_t i = 0; i < w->p->ntiles; i++) {
    const isa_tile *t = &w->p->tiles[i];
    uint8_t *r = room(w, scratch, sizeof scratch);
    isa_put32(r, name(w, t->name));
    isa_put32(r + 4, name(w, t->overlay));
    r[8] = t->dtype;
    r[9] = t->space;
    r[10] = t->ndim;
    r[11] = t->own;
    isa_put16(r + 12, t->part);
    for (unsigned d = 0; d < t->ndim && d < ISA_TILE_DIMS; d++)
      isa_put32(r + 16 + 4 * d, t->shape[d]);
    isa_put32(r + 36, t->offset);
    isa_put32(r + 40, t->bytes);
  }
}

static void put_iterations(writer *w) {
  for (uint32_t i = 0; i < w->p->ntiles; i++) {
    put_u32(w, w->p->tiles[i].line);
    put_u32(w, w->p->tiles[i].iteration);
    put_u32(w, w->p->tiles[i].iterations << 1 | w->p->tiles[i].numbered);
  }
}

static void put_symbols(writer *w) {
  uint8_t scratch[12];
  for (uint32_t i = 0; i < w->p->nsymbols; i++) {
    const isa_symbol *s = &w->p->symbols[i];
    uint8_t *r = room(w, scratch, sizeof scratch);
    isa_put32(r, name(w, s->name));
    r[4] = s->core;
    r[5] = s->engine;
    r[6] = s->global;
    isa_put32(r + 8, s->pc);
  }
}

static void put_queues(writer *w, const isa_core *c) {
  uint8_t scratch[12];
  for (uint32_t i = 0; i < c->nqueues; i++) {
    const isa_queue *q = &c->queues[i];
    uint8_t *r = room(w, scratch, sizeof scratch);
    isa_put32(r, name(w, q->name));
    r[4] = q->dge;
    r[5] = q->rings;
    r[6] = q->owner;
    r[7] = q->prio;
    isa_put32(r + 8, q->nstatics);
  }
}

static void put_insns(writer *w, const isa_insn *in, uint32_t n) {
  uint8_t scratch[ISA_RECORD];
  for (uint32_t i = 0; i < n; i++) isa_encode(&in[i], room(w, scratch, sizeof scratch));
}

static void put_patterns(writer *w, const isa_core *c) {
  uint8_t scratch[ISA_AP_RECORD];
  for (uint32_t i = 0; i < c->naps; i++)
    isa_encode_ap(&c->aps[i], room(w, scratch, sizeof scratch));
}

static void put_section(writer *w, unsigned kind, unsigned core, unsigned engine) {
  const isa_program *p = w->p;
  const isa_core *c = &p->cores[core];
  const isa_code *code = &c->code[engine];
  switch (kind) {
  case IMAGE_FILE:
    for (uint32_t i = 0; i < p->nfiles; i++) put_u32(w, name(w, p->files[i]));
    break;
  case IMAGE_TNSR: put_tensors(w); break;
  case IMAGE_DATA: put_data(w); break;
  case IMAGE_TILE: put_tiles(w); break;
  case IMAGE_ITER: put_iterations(w); break;
  case IMAGE_GRPS: isa_image_put_groups(p, w->out); break;
  /* 1-based numbers, as in patterns and updates. */
  case IMAGE_PEER: isa_image_put_peers(p, w->out); break;
  case IMAGE_MACH: isa_buf_puts(w->out, p->target->name); break;
  case IMAGE_POOL: isa_buf_add(w->out, p->pool.data, p->pool.len); break;
  case IMAGE_SYMB: put_symbols(w); break;
  case IMAGE_PATS: put_patterns(w, c); break;
  case IMAGE_QUES: put_queues(w, c); break;
  case IMAGE_DESC:
    /* The transfers of all queues follow one another; QUES says how many each has. */
    for (uint32_t q = 0; q < c->nqueues; q++)
      put_insns(w, c->queues[q].statics, c->queues[q].nstatics);
    break;
  case IMAGE_SEMS:
    /* Only those that have a name, with their numbers. */
    for (uint32_t i = 0; i < ISA_NSEMS; i++)
      if (c->sem_names[i]) {
        put_u32(w, i);
        put_u32(w, name(w, c->sem_names[i]));
      }
    break;
  case IMAGE_CODE: put_insns(w, code->insns, code->n); break;
  case IMAGE_LINE:
    for (uint32_t i = 0; i < code->n; i++) {
      put_u32(w, code->lines[i].file);
      put_u32(w, code->lines[i].line);
    }
    break;
  case IMAGE_FROM:
    for (uint32_t i = 0; i < code->n; i++) put_u32(w, code->lines[i].call);
    break;
  case IMAGE_CALL: isa_image_put_calls(p, w->out); break;
  /* All names are known by now. */
  default: isa_buf_add(w->out, w->strings.data, w->strings.len);
  }
}

/* Whether the program has anything for a section; an empty one is left out.
 * The same questions in the same order for the count and for the writing. */
static bool present(const isa_program *p, unsigned kind, unsigned core, unsigned engine) {
  const isa_core *c = &p->cores[core];
  bool any = false;
  switch (kind) {
  /* Only such a machine has a text of its own. */
  case IMAGE_MACH: return p->target->hypothetical;
  case IMAGE_FILE: return p->nfiles > 0;
  case IMAGE_TNSR: return p->ntensors > 0;
  case IMAGE_DATA:
    for (uint32_t i = 0; i < p->ntensors; i++) any |= p->tensors[i].data != NULL;
    return any;
  case IMAGE_TILE: return p->ntiles > 0;
  case IMAGE_ITER: /* where a name stands for several tiles */
    for (uint32_t i = 0; i < p->ntiles && !any; i++) any = p->tiles[i].line > 0;
    return any;
  case IMAGE_GRPS: return p->ngroups > 0;
  case IMAGE_PEER: return p->npeers > 0;
  case IMAGE_POOL: return p->pool.len > 0;
  case IMAGE_SYMB: return p->nsymbols > 0;
  case IMAGE_PATS: return c->naps > 0;
  case IMAGE_QUES: return c->nqueues > 0;
  case IMAGE_DESC:
    for (uint32_t q = 0; q < c->nqueues; q++) any |= c->queues[q].nstatics > 0;
    return any;
  case IMAGE_SEMS:
    for (unsigned i = 0; i < ISA_NSEMS; i++) any |= c->sem_names[i] != NULL;
    return any;
  case IMAGE_CODE: return c->code[engine].n > 0;
  /* A line table may be missing: programs that were made without a source have none. */
  case IMAGE_LINE: return c->code[engine].n > 0 && c->code[engine].lines;
  case IMAGE_FROM:
    for (uint32_t i = 0; i < c->code[engine].n && c->code[engine].lines; i++)
      any |= c->code[engine].lines[i].call != 0;
    return any;
  case IMAGE_CALL: /* where a line came out of one */
    for (core = 0; core < p->ncores && !any; core++)
      for (engine = 0; engine < ISA_NSEQS && !any; engine++)
        any = present(p, IMAGE_FROM, core, engine);
    return any;
  default: return true; /* the strings */
  }
}

/* Writes one section and fills entry i of the table.
 * Padding comes before a section, so the file ends with the last byte that means
 * something. */
static void add_section(writer *w, size_t start, uint32_t i, unsigned kind, unsigned core,
                        unsigned engine) {
  const image_kind *k = &isa_image_kinds[kind];
  /* Sections begin at multiples of 8 bytes. */
  pad_to(w->out, start, 8);
  size_t at = w->out->len;
  put_section(w, kind, core, engine);
  if (w->out->failed) return;
  /* Found anew: the buffer may have moved. */
  uint8_t *entry = (uint8_t *)w->out->data + start + IMAGE_TABLE + IMAGE_ENTRY * (size_t)i;
  isa_put32(entry, image_tag(k->tag));
  isa_put32(entry + 4, k->optional | core << 8 | engine << 16);
  isa_put64(entry + 8, at - start);
  isa_put64(entry + 16, w->out->len - at);
}

/* Writes the sections that the program has, in file order; with w NULL only counts them. */
static uint32_t each_section(const isa_program *p, writer *w, size_t start) {
  uint32_t n = 0;
  for (unsigned kind = 0; kind < IMAGE_NSECTIONS; kind++) {
    const image_kind *k = &isa_image_kinds[kind];
    for (unsigned core = 0; core < image_cores(k, p->ncores); core++)
      for (unsigned engine = 0; engine < image_engines(k); engine++) {
        if (!present(p, kind, core, engine)) continue;
        if (w) add_section(w, start, n, kind, core, engine);
        n++;
      }
  }
  return n;
}

/* They are worked out from the contents, so a reader can compare them. */
uint32_t isa_image_features(const isa_program *p) {
  /* A reader that does not know one of them refuses the file. */
  uint32_t features = 0;
  for (uint32_t core = 0; core < p->ncores; core++)
    for (uint32_t i = 0; i < p->cores[core].naps; i++)
      if (p->cores[core].aps[i].peer) features |= IMAGE_SBUFS;
  if (isa_program_rows(p)) features |= IMAGE_ROWS;
  if (p->target->hypothetical) features |= IMAGE_MACHINE;
  if (isa_program_is_world(p)) features |= IMAGE_WORLD;
  return features;
}

/* The program is changed in its hash alone. */
bool isa_image_write(isa_program *p, isa_buf *out) {
  writer w = {.p = p, .out = out};
  size_t start = out->len;
  /* Counted first, for the size of the table. */
  uint32_t n = each_section(p, NULL, 0);
  size_t head = IMAGE_TABLE + (size_t)n * IMAGE_ENTRY;
  uint8_t *h = (uint8_t *)isa_buf_grow(out, head);
  if (!h) return false;
  memset(h, 0, head);
  memcpy(h, ISA_IMAGE_MAGIC, 4);
  isa_put16(h + 4, IMAGE_VERSION);
  /* A hypothetical machine names its base here, and itself in MACH. */
  const char *target = isa_target_base(p->target)->name;
  for (size_t i = 0; i < IMAGE_TARGET && target[i]; i++) h[16 + i] = (uint8_t)target[i];
  isa_put32(h + 32, isa_image_features(p));
  isa_put32(h + 36, p->ncores);
  isa_put32(h + 40, n);
  isa_buf_init(&w.strings, &p->arena.al);
  /* Place 0 stands for no name. */
  isa_buf_add(&w.strings, "", 1);
  each_section(p, &w, start);
  bool ok = !out->failed && !w.strings.failed;
  isa_buf_free(&w.strings);
  if (!ok) return false;
  h = (uint8_t *)out->data + start; /* the buffer has moved */
  /* Hashed is what comes after the hash. */
  p->hash = isa_fnv(ISA_FNV_START, h + IMAGE_HASHED, out->len - start - IMAGE_HASHED);
  isa_put64(h + 8, p->hash);
  return true;
}
