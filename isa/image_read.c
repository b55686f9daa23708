/* Reads an .sbc file as hostile input. Nothing is allocated before its size has been compared
 * with the bytes that are there, so memory stays within a small multiple of the file's size, and
 * no table entry points outside its table. What the fields mean together is for
 * verify/check_program.c. */
#include "image_frame.h"

#include <string.h>

enum { MOST_PATTERNS = 16 }; /* in one APS list: what a handler has room for */

/* Absent sections have at == NULL and n == 0, so a loop over their records does
 * nothing. */
static const isa_section *program_section(const isa_image *im, unsigned kind) {
  return &im->s[kind][0][0];
}
static const isa_section *core_section(const isa_image *im, unsigned kind, unsigned core) {
  return &im->s[kind][core][0];
}

static bool no_memory(const isa_image *im) {
  return isa_fail(im->e, ISA_NOMEM, ISA_NOFIELD, "out of memory");
}

/* A record's own refusal, with the record's place put before it. */
static bool bad_record(const isa_image *im, const isa_section *s, const char *what, uint32_t i,
                       const isa_error *inner) {
  isa_image_bad(im, s, "%s %u: %s", what, i, inner->text);
  if (im->e) im->e->field = inner->field;
  return false;
}

/* ---- Strings and arrays ------------------------------------------------------------------- */

static bool read_strings(isa_image *im) {
  const isa_section *s = program_section(im, IMAGE_STRS);
  if (!s->at) return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "section STRS is missing");
  im->nstrings = (size_t)s->size;
  /* With these two, every place in STRS begins a string that ends inside. */
  if (s->at[0] != 0 || s->at[im->nstrings - 1] != 0)
    return isa_image_bad(im, s, "strings begin with an empty one and end with 0");
  for (size_t i = 0; i < im->nstrings; i++)
    /* Names go to terminals and into source text; tabs and escapes do not belong there. */
    if ((s->at[i] != 0 && s->at[i] < 32) || s->at[i] == 127)
      return isa_image_bad(im, s, "control character %u at 0x%zx of the names", s->at[i], i);
  im->next_name = 1;
  im->strings = isa_arena_strn(&im->p->arena, (const char *)s->at, im->nstrings);
  return im->strings || no_memory(im);
}

/* The name at an offset of STRS; names lie there in the order in which they are read.
 * Only that name: two records cannot share one, and none is left out. */
static bool get_name(isa_image *im, const isa_section *s, uint32_t i, uint32_t at,
                     const char **out) {
  if (at != im->next_name || at >= im->nstrings || im->strings[at] == 0)
    return isa_image_bad(
        im, s, "record %u: no name at offset %u; the next one is at %zu, STRS has %zu bytes", i, at,
        im->next_name, im->nstrings);
  *out = im->strings + at;
  im->next_name += strlen(*out) + 1;
  return true;
}

/* Zeroed room for n elements, of which the section's size bounds n; cap is set to n.
 * n was bounded by the file's size when the table of sections was read. */
static bool get_array(const isa_image *im, void *array_ptr, uint32_t n, uint32_t *cap,
                      size_t size) {
  if (n == 0) return true;
  void *a = n <= SIZE_MAX / size ? isa_zalloc(&im->p->arena.al, n * size) : NULL;
  if (!a) return no_memory(im);
  memcpy(array_ptr, &a, sizeof a);
  *cap = n;
  return true;
}

static bool read_files(isa_image *im) {
  const isa_section *s = program_section(im, IMAGE_FILE);
  isa_program *p = im->p;
  if (!get_array(im, &p->files, s->n, &p->cap_files, sizeof(char *))) return false;
  for (uint32_t i = 0; i < s->n; i++)
    if (!get_name(im, s, i, isa_get32(s->at + 4 * (size_t)i), &p->files[i])) return false;
  p->nfiles = s->n;
  return true;
}

/* ---- Tensors, tiles, symbols -------------------------------------------------------------- */

static bool get_shape(const isa_image *im, const isa_section *s, uint32_t i, const uint8_t *r,
                      isa_tensor *t) {
  uint64_t bytes = isa_dtype_bytes(t->dtype);
  for (unsigned d = 0; d < ISA_TENSOR_DIMS; d++) {
    uint64_t size = isa_get64(r + 8 + 8 * d);
    if (d >= t->ndim ? size != 0 : size == 0 || size > INT64_MAX)
      return isa_image_bad(im, s, "tensor %u: dimension %u has size %lld; it should be %s", i, d,
                           (long long)size, d < t->ndim ? "at least 1" : "0");
    if (d < t->ndim && bytes > (uint64_t)INT64_MAX / size)
      return isa_image_bad(im, s, "tensor %u: more than 2^63 bytes", i);
    bytes *= d < t->ndim ? size : 1;
    t->shape[d] = (int64_t)size;
  }
  t->bytes = isa_get64(r + 72);
  if (t->bytes != bytes)
    return isa_image_bad(im, s, "tensor %u: %llu bytes, but its shape and type make %llu", i,
                         (unsigned long long)t->bytes, (unsigned long long)bytes);
  return true;
}

/* Where the data of a const tensor must lie: after those before it. end: where they end. */
static bool get_data(const isa_image *im, const isa_section *s, uint32_t i, const uint8_t *r,
                     const uint8_t *data, uint64_t *end, isa_tensor *t) {
  const isa_section *ds = program_section(im, IMAGE_DATA);
  uint64_t at = isa_get64(r + 80);
  if (t->role != ISA_CONST)
    return at == 0 || isa_image_bad(im, s, "tensor %u: only a const tensor has data", i);
  uint64_t want = image_align(*end, IMAGE_DATA_ALIGN);
  if (at != want || at > ds->size || t->bytes > ds->size - at)
    return isa_image_bad(im, s,
                         "tensor %u: %llu bytes of data at 0x%llx; they should be at 0x%llx, and "
                         "DATA has %llu bytes",
                         i, (unsigned long long)t->bytes, (unsigned long long)at,
                         (unsigned long long)want, (unsigned long long)ds->size);
  for (; *end < want; ++*end)
    if (data[*end] != 0)
      return isa_image_bad(im, ds, "padding at 0x%llx must be 0", (unsigned long long)*end);
  *end = at + t->bytes;
  t->data = data + at;
  return true;
}

static bool read_tensors(isa_image *im) {
  const isa_section *s = program_section(im, IMAGE_TNSR), *ds = program_section(im, IMAGE_DATA);
  isa_program *p = im->p;
  uint8_t *data = NULL;
  uint64_t end = 0;
  if (!get_array(im, &p->tensors, s->n, &p->cap_tensors, sizeof(isa_tensor))) return false;
  if (ds->at) {
    data = isa_arena_alloc(&p->arena, (size_t)ds->size);
    if (!data) return no_memory(im);
    memcpy(data, ds->at, (size_t)ds->size);
  }
  for (uint32_t i = 0; i < s->n; i++) {
    const uint8_t *r = s->at + 88 * (size_t)i;
    isa_tensor *t = &p->tensors[i];
    t->dtype = r[4];
    t->role = r[5];
    t->ndim = r[6];
    t->rows = r[7];
    if (!isa_dtype_valid(t->dtype) || t->role >= ISA_NROLES || t->ndim > ISA_TENSOR_DIMS ||
        t->rows > ISA_NREGS)
      return isa_image_bad(im, s, "tensor %u: invalid type %u, role %u, %u dimensions or rows %u",
                           i, t->dtype, t->role, t->ndim, t->rows);
    if (!get_name(im, s, i, isa_get32(r), &t->name) || !get_shape(im, s, i, r, t) ||
        !get_data(im, s, i, r, data, &end, t))
      return false;
  }
  p->ntensors = s->n;
  if (end != ds->size)
    return isa_image_bad(im, ds, "%llu bytes, but const tensors have %llu",
                         (unsigned long long)ds->size, (unsigned long long)end);
  return true;
}

static bool get_tile(isa_image *im, const isa_section *s, uint32_t i, isa_tile *t) {
  const uint8_t *r = s->at + 48 * (size_t)i;
  /* Every tile has 48 bytes; read_table has compared the section's size. */
  uint32_t overlay = isa_get32(r + 4);
  t->dtype = r[8];
  t->space = r[9];
  t->ndim = r[10];
  t->part = isa_get16(r + 12);
  t->offset = isa_get32(r + 36);
  t->bytes = isa_get32(r + 40);
  t->own = r[11] == 1;
  if (r[11] > 1 || isa_get16(r + 14) != 0 || isa_get32(r + 44) != 0)
    return isa_image_bad(im, s, "tile %u: reserved bytes must be 0", i);
  if (!isa_dtype_valid(t->dtype) || (t->space != ISA_SBUF && t->space != ISA_PSUM) || t->ndim < 1 ||
      t->ndim > ISA_TILE_DIMS || t->part >= ISA_PMAX)
    return isa_image_bad(im, s,
                         "tile %u: invalid type %u, memory %u, %u dimensions or partition %u", i,
                         t->dtype, t->space, t->ndim, t->part);
  /* A size where there is a dimension, and nowhere else. */
  for (unsigned d = 0; d < ISA_TILE_DIMS; d++) {
    t->shape[d] = isa_get32(r + 16 + 4 * d);
    if ((t->shape[d] == 0) == (d < t->ndim))
      return isa_image_bad(im, s, "tile %u: dimension %u of %u has size %u", i, d, t->ndim,
                           t->shape[d]);
  }
  return get_name(im, s, i, isa_get32(r), &t->name) &&
         (overlay == 0 || get_name(im, s, i, overlay, &t->overlay));
}

static bool read_tiles(isa_image *im) {
  const isa_section *s = program_section(im, IMAGE_TILE);
  isa_program *p = im->p;
  if (!get_array(im, &p->tiles, s->n, &p->cap_tiles, sizeof(isa_tile))) return false;
  for (uint32_t i = 0; i < s->n; i++)
    if (!get_tile(im, s, i, &p->tiles[i])) return false;
  p->ntiles = s->n;
  return true;
}

/* Numbers for messages: what they say need not be true. */
static bool read_iterations(isa_image *im) {
  const isa_section *s = program_section(im, IMAGE_ITER);
  isa_program *p = im->p;
  if (!s->at) return true;
  if (s->n != p->ntiles) return isa_image_bad(im, s, "%u rows for %u tiles", s->n, p->ntiles);
  for (uint32_t i = 0; i < s->n; i++) {
    const uint8_t *r = s->at + 12 * (size_t)i;
    isa_tile *t = &p->tiles[i];
    t->line = isa_get32(r);
    t->iteration = isa_get32(r + 4);
    t->iterations = isa_get32(r + 8) >> 1;
    t->numbered = r[8] & 1;
    if ((t->iteration == 0) != (t->iterations == 0) || (t->iteration && !t->line) ||
        (t->numbered && !t->iteration))
      return isa_image_bad(im, s, "tile %u: line %u, iteration %u of %u iterations", i, t->line,
                           t->iteration, t->iterations);
  }
  return true;
}

static bool read_symbols(isa_image *im) {
  const isa_section *s = program_section(im, IMAGE_SYMB);
  isa_program *p = im->p;
  if (!get_array(im, &p->symbols, s->n, &p->cap_symbols, sizeof(isa_symbol))) return false;
  for (uint32_t i = 0; i < s->n; i++) {
    const uint8_t *r = s->at + 12 * (size_t)i;
    isa_symbol *y = &p->symbols[i];
    *y = (isa_symbol){NULL, r[4], r[5], r[6], isa_get32(r + 8)};
    if (y->core >= p->ncores || y->engine >= ISA_NSEQS || y->global > 1 || r[7] != 0)
      return isa_image_bad(im, s, "symbol %u: invalid core %u, engine %u, global %u or reserved %u",
                           i, y->core, y->engine, y->global, r[7]);
    /* pc may be one past the last: a label at the end of a section. */
    if (y->pc > p->cores[y->core].code[y->engine].n)
      return isa_image_bad(im, s, "symbol %u: pc %u, but the engine has %u instructions", i, y->pc,
                           p->cores[y->core].code[y->engine].n);
    if (!get_name(im, s, i, isa_get32(r), &y->name)) return false;
  }
  p->nsymbols = s->n;
  return true;
}

static bool read_pool(isa_image *im) {
  const isa_section *s = program_section(im, IMAGE_POOL);
  if (s->at) isa_buf_add(&im->p->pool, s->at, (size_t)s->size);
  return !im->p->pool.failed || no_memory(im);
}

/* ---- Patterns, queues, code --------------------------------------------------------------- */
/* Here only that a number has a row; what a row means is for the verifier. */

/* A pattern names only patterns before it, so that following them ends. */
static bool ap_in_tables(const isa_program *p, const isa_ap *ap, uint32_t i, isa_error *e) {
  uint32_t bases = ap->space == ISA_HBM ? p->ntensors : p->ntiles;
  if (ap->base > bases)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "it names %s %u, but there are %u",
                    ap->space == ISA_HBM ? "tensor" : "tile", ap->base, bases);
  if (ap->rank > p->npeers)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "it names peer %u: not there", ap->rank);
  /* The greatest of what it names: if that one is before it, all are. */
  uint32_t named = ap->index;
  for (unsigned d = 0; d < ISA_MAX_DYN; d++)
    if (ap->dyn[d].ap > named) named = ap->dyn[d].ap;
  if (named >= i)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "it names pattern %u, which is not before it",
                    named);
  return true;
}

static bool read_patterns(isa_image *im, unsigned core) {
  const isa_section *s = core_section(im, IMAGE_PATS, core);
  isa_core *c = &im->p->cores[core];
  isa_error e;
  if (!get_array(im, &c->aps, s->n, &c->cap_aps, sizeof(isa_ap))) return false;
  for (uint32_t i = 0; i < s->n; i++)
    if (!isa_decode_ap(s->at + ISA_AP_RECORD * (size_t)i, &c->aps[i], &e) ||
        !ap_in_tables(im->p, &c->aps[i], i + 1, &e))
      return bad_record(im, s, "pattern", i + 1, &e);
  c->naps = s->n;
  return true;
}

/* Number 0 passes: the codec has refused it where a pattern must be given. */
static bool pattern_exists(const isa_core *c, const isa_field *f, int field, uint32_t ap,
                           isa_error *e) {
  return ap <= c->naps ||
         isa_fail(e, ISA_FORMAT, field, "operand %s: pattern %u of only %u", f->name, ap, c->naps);
}

static bool list_in_pool(const isa_program *p, const isa_core *c, const isa_field *f, int field,
                         isa_ref ref, isa_error *e) {
  const uint8_t *list = isa_program_list(p, ref, f->kind);
  if (!list)
    return isa_fail(e, ISA_FORMAT, field,
                    "operand %s: %u elements at offset %u of the pool, "
                    "which has %zu bytes",
                    f->name, ref.count, ref.offset, p->pool.len);
  if (f->kind != ISA_K_APS) return true;
  /* Handlers keep what an instruction names in arrays of this size. */
  if (ref.count > MOST_PATTERNS)
    return isa_fail(e, ISA_FORMAT, field, "operand %s: %u patterns: at most %d", f->name, ref.count,
                    MOST_PATTERNS);
  for (uint32_t i = 0; i < ref.count; i++) {
    uint32_t ap = isa_get32(list + 4 * (size_t)i);
    if (ap == 0) return isa_fail(e, ISA_FORMAT, field, "operand %s: pattern 0 in a list", f->name);
    if (!pattern_exists(c, f, field, ap, e)) return false;
  }
  return true;
}

/* Every pattern, list and queue that an instruction names is there. */
static bool insn_in_tables(const isa_program *p, const isa_core *c, const isa_insn *in,
                           isa_error *e) {
  const isa_form *form = isa_form_of(in->op);
  if (in->upd.kind == ISA_UPD_peer && in->upd.value > p->npeers)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "update of peer %u: not there", in->upd.value);
  /* Fields of other kinds are bounded by the codec. */
  for (int i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    const void *m = isa_member_c(in, f);
    isa_num num = {0, 0};
    uint32_t ap = 0;
    isa_ref ref;
    if (f->kind == ISA_K_NUM) memcpy(&num, m, sizeof num);
    if (f->kind == ISA_K_AP) memcpy(&ap, m, sizeof ap);
    if (num.kind == ISA_NUM_ap) ap = num.v;
    if (!pattern_exists(c, f, i, ap, e)) return false;
    if (f->kind == ISA_K_QUEUE && *(const uint8_t *)m >= c->nqueues)
      return isa_fail(e, ISA_FORMAT, i, "operand %s: queue %u of only %u", f->name,
                      *(const uint8_t *)m, c->nqueues);
    if (f->kind == ISA_K_GROUP && *(const uint8_t *)m >= p->ngroups)
      return isa_fail(e, ISA_FORMAT, i, "operand %s: replica groups %u of only %u", f->name,
                      *(const uint8_t *)m, p->ngroups);
    if (isa_kind_elem[f->kind] == 0) continue;
    memcpy(&ref, m, sizeof ref);
    if (!list_in_pool(p, c, f, i, ref, e)) return false;
  }
  return true;
}

/* Records first .. first + n - 1 of a section; what names one in a message. */
static bool read_insns(const isa_image *im, const isa_section *s, const char *what, uint32_t first,
                       uint32_t n, isa_insn *out) {
  /* A pattern's number is one of the section's own core. */
  isa_error e;
  for (uint32_t i = 0; i < n; i++)
    if (!isa_decode(s->at + ISA_RECORD * ((size_t)first + i), &out[i], &e) ||
        !insn_in_tables(im->p, &im->p->cores[s->core], &out[i], &e))
      return bad_record(im, s, what, first + i, &e);
  return true;
}

static bool get_queue(isa_image *im, const isa_section *s, uint32_t i, isa_queue *q) {
  const uint8_t *r = s->at + 12 * (size_t)i;
  q->dge = r[4];
  q->rings = r[5];
  q->owner = r[6];
  q->prio = r[7];
  if (!isa_set_item(ISA_SET_DGE, q->dge) || q->rings < 1 || q->rings > ISA_NDMA ||
      q->owner > ISA_NSEQS || q->prio > 3)
    return isa_image_bad(im, s, "queue %u: invalid dge %u, %u rings, owner %u or priority %u", i,
                         q->dge, q->rings, q->owner, q->prio);
  return get_name(im, s, i, isa_get32(r), &q->name);
}

static bool read_queues(isa_image *im, unsigned core) {
  const isa_section *s = core_section(im, IMAGE_QUES, core);
  const isa_section *ds = core_section(im, IMAGE_DESC, core);
  isa_core *c = &im->p->cores[core];
  if (s->n > ISA_MAX_QUEUES)
    return isa_image_bad(im, s, "%u queues: at most %d", s->n, ISA_MAX_QUEUES);
  /* All queues first: a transfer may name any of them by its number. */
  for (uint32_t i = 0; i < s->n; i++)
    if (!get_queue(im, s, i, &c->queues[i])) return false;
  c->nqueues = s->n;
  uint32_t first = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    isa_queue *q = &c->queues[i];
    uint32_t n = isa_get32(s->at + 12 * (size_t)i + 8);
    if (n > ds->n - first)
      return isa_image_bad(im, s, "queue %u: %u static transfers, but section DESC has %u more", i,
                           n, ds->n - first);
    if (!get_array(im, &q->statics, n, &q->cap_statics, sizeof(isa_insn)) ||
        !read_insns(im, ds, "transfer", first, n, q->statics))
      return false;
    q->nstatics = n;
    /* Transfers of a queue follow those of the queue before it. */
    first += n;
  }
  return first == ds->n ||
         isa_image_bad(im, ds, "%u transfers, but the queues have %u", ds->n, first);
}

static bool read_sems(isa_image *im, unsigned core) {
  /* Rising numbers, so that the same names give the same bytes. */
  const isa_section *s = core_section(im, IMAGE_SEMS, core);
  uint32_t next = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const uint8_t *r = s->at + 8 * (size_t)i;
    uint32_t sem = isa_get32(r);
    if (sem < next || sem >= ISA_NSEMS)
      return isa_image_bad(im, s, "semaphore %u: it should be %u to %d", sem, next, ISA_NSEMS - 1);
    if (!get_name(im, s, i, isa_get32(r + 4), &im->p->cores[core].sem_names[sem])) return false;
    next = sem + 1;
  }
  return true;
}

static bool read_lines(const isa_image *im, const isa_section *s, isa_code *code) {
  /* Without a line table messages say pcs. */
  if (!s->at) return true;
  if (s->n != code->n) return isa_image_bad(im, s, "%u lines for %u instructions", s->n, code->n);
  if (!get_array(im, &code->lines, s->n, &code->cap_lines, sizeof(isa_line))) return false;
  for (uint32_t i = 0; i < s->n; i++) {
    const uint8_t *r = s->at + 8 * (size_t)i;
    code->lines[i] = (isa_line){isa_get32(r), isa_get32(r + 4), 0};
    if (code->lines[i].file > im->p->nfiles)
      return isa_image_bad(im, s, "pc %u: file %u, but there are %u", i, code->lines[i].file,
                           im->p->nfiles);
  }
  return true;
}

/* A section of the program that a function reads as a whole (image.h). */
static bool read_by(isa_image *im, unsigned kind,
                    const char *(*get)(isa_program *p, const uint8_t *data, size_t n)) {
  /* NULL: read; "": no memory; else what is wrong with the bytes. */
  const isa_section *s = program_section(im, kind);
  const char *wrong = s->at ? get(im->p, s->at, (size_t)s->size) : NULL;
  return !wrong || (*wrong ? isa_image_bad(im, s, "%s", wrong) : no_memory(im));
}

/* What the lines came out of.
 * A call is of a line, so there is no FROM without LINE. */
static bool read_from(const isa_image *im, const isa_section *s, isa_code *code) {
  if (!s->at) return true;
  if (!code->lines || s->n != code->n)
    return isa_image_bad(im, s, "%u calls for %u lines", s->n, code->lines ? code->n : 0);
  for (uint32_t i = 0; i < s->n; i++) {
    code->lines[i].call = isa_get32(s->at + 4 * (size_t)i);
    if (code->lines[i].call > im->p->ncalls)
      return isa_image_bad(im, s, "pc %u: call %u, but there are %u", i, code->lines[i].call,
                           im->p->ncalls);
  }
  return true;
}

static bool read_code(isa_image *im, unsigned core, unsigned engine) {
  const isa_section *s = &im->s[IMAGE_CODE][core][engine];
  isa_code *code = &im->p->cores[core].code[engine];
  if (!get_array(im, &code->insns, s->n, &code->cap, sizeof(isa_insn)) ||
      !read_insns(im, s, "pc", 0, s->n, code->insns))
    return false;
  code->n = s->n;
  return read_lines(im, &im->s[IMAGE_LINE][core][engine], code) &&
         read_from(im, &im->s[IMAGE_FROM][core][engine], code);
}

/* Names are read in the order in which they are written: queues of all cores, then semaphores.
 * Code comes last: its patterns, queues and lists must be there to be compared with. */
static bool read_cores(isa_image *im) {
  unsigned n = im->p->ncores;
  bool ok = true;
  for (unsigned core = 0; core < n; core++)
    ok = ok && read_patterns(im, core) && read_queues(im, core);
  for (unsigned core = 0; core < n; core++) ok = ok && read_sems(im, core);
  for (unsigned core = 0; core < n; core++)
    for (unsigned engine = 0; engine < ISA_NSEQS; engine++) ok = ok && read_code(im, core, engine);
  return ok;
}

static bool read_image(isa_image *im) {
  if (!isa_image_frame(im) || !read_by(im, IMAGE_MACH, isa_image_get_machine) ||
      !read_strings(im) || !read_files(im) || !read_tensors(im) || !read_tiles(im) ||
      !read_iterations(im) || !read_by(im, IMAGE_GRPS, isa_image_get_groups) ||
      !read_by(im, IMAGE_PEER, isa_image_get_peers) || !read_pool(im) ||
      !read_by(im, IMAGE_CALL, isa_image_get_calls) || !read_cores(im) || !read_symbols(im))
    return false;
  /* Bits that are set without need would make a second file of the same program. */
  if (isa_image_features(im->p) != im->features)
    return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD,
                    "the header has feature bits 0x%x, but the contents need 0x%x", im->features,
                    isa_image_features(im->p));
  const isa_section *s = program_section(im, IMAGE_STRS);
  /* Names that nothing uses could hide anything. */
  return im->next_name == im->nstrings ||
         isa_image_bad(im, s, "nothing uses the names from offset %zu on", im->next_name);
}

isa_program *isa_image_read(const isa_alloc *al, const void *data, size_t n, isa_error *e) {
  isa_image im = {.data = data, .n = n, .e = e};
  /* The header names the target; until then the program has none. */
  im.p = isa_program_new(al, NULL);
  if (!im.p)
    no_memory(&im);
  else if (read_image(&im))
    return im.p;
  isa_program_free(im.p);
  return NULL;
}
