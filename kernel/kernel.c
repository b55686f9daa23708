/* A kernel: its handle, buffers, registers, queues, loops. */
#include "called.h"

#include "../isa/bytes.h"

#include <stdio.h>

/* ---- Errors -------------------------------------------------------------------------------- */

bool as_k_fail(as_kernel *k, isa_status s, isa_line at, const char *fmt, ...) {
  va_list ap;
  char *text = k->error.text;
  size_t room = sizeof k->error.text, n = 0;
  k->error.status = s;
  k->error.at = at;
  if (k->o.cores > 1) n = (size_t)snprintf(text, room, "core %u: ", k->o.core);
  va_start(ap, fmt);
  vsnprintf(text + n, room - n, fmt, ap);
  va_end(ap);
  return false;
}

bool as_k_nomem(as_kernel *k) { return as_k_fail(k, ISA_NOMEM, (isa_line){0}, "out of memory"); }

const char *as_kernel_file_name(const as_kernel *k, uint32_t file) {
  return file && file <= k->nfiles ? k->files[file - 1] : NULL;
}

const char *as_k_where(const as_kernel *k, isa_line at, char *out, size_t n) {
  const char *file = as_kernel_file_name(k, at.file);
  if (file)
    snprintf(out, n, "%.120s:%u", file, (unsigned)at.line);
  else if (at.line)
    snprintf(out, n, "line %u", (unsigned)at.line);
  else
    snprintf(out, n, "an unknown line");
  return out;
}

const as_kernel_error *as_kernel_last_error(const as_kernel *k) { return &k->error; }
const isa_target *as_kernel_target(const as_kernel *k) { return k->target; }
uint32_t as_kernel_count(const as_kernel *k) { return k->nitems; }
const as_kernel_figures *as_kernel_get_figures(const as_kernel *k) { return &k->figures; }

bool as_kernel_front(const char *front_end, as_kernel_options *o) {
  static const struct {
    const char *name;
    uint32_t kept, passes;
  } fronts[] = {
#define FRONT(name, kept, passes) {name, kept, passes},
#include "fronts.def"
#undef FRONT
  };
  for (unsigned i = 0; i < sizeof fronts / sizeof *fronts; i++)
    if (!front_end || strcmp(front_end, fronts[i].name) == 0) {
      o->passes = fronts[i].passes;
      o->sbuf_kept = fronts[i].kept;
      return true;
    }
  return false;
}

bool as_kernel_may_spill(as_kernel *k) {
  if (!as_k_is_open(k, (isa_line){0})) return false;
  k->o.flags |= AS_KERNEL_SPILL;
  return true;
}

/* ---- Life ---------------------------------------------------------------------------------- */

as_kernel *as_kernel_new(const as_kernel_options *o) {
  isa_alloc al = o->alloc ? *o->alloc : isa_alloc_default();
  as_kernel *k = isa_zalloc(&al, sizeof *k);
  if (!k) return NULL;
  k->al = al;
  k->o = *o;
  k->o.alloc = NULL;
  if (k->o.flags & AS_KERNEL_KEEP_ORDER) {
    k->o.passes &= AS_PASS_CHOICES;
    k->o.extra = 0;
  }
  /* A rate to reckon with where the client gives no costs: 20 GB/s. */
  if (!k->o.costs.dma_byte_rate) k->o.costs.dma_byte_rate = 20000;
  k->turn = 1; /* 0: of nothing yet */
  k->target = isa_target_keep(o->target, &k->own_target);
  k->o.target = k->target;
  isa_arena_init(&k->arena, &al);
  if (!k->o.cores) k->o.cores = 1;
  k->scratch = isa_program_new(&al, k->target);
  if (!k->scratch) {
    isa_free(&al, k, sizeof *k);
    return NULL;
  }
  k->scratch->ncores = k->o.cores;
  return k;
}

#define FREE(array, cap) isa_free(&al, k->array, (size_t)k->cap * sizeof *k->array)
void as_kernel_free(as_kernel *k) {
  if (!k) return;
  isa_alloc al = k->al;
  isa_program_free(k->scratch);
  FREE(buffers, cap_buffers);
  FREE(called, cap_called);
  FREE(files, cap_files);
  FREE(ops, cap_ops);
  FREE(dyns, cap_dyns);
  FREE(items, cap_items);
  FREE(loops, cap_loops);
  FREE(queues, cap_queues);
  FREE(orders, cap_orders);
  isa_index_free(&al, &k->constants);
  isa_index_free(&al, &k->classes);
  isa_index_free(&al, &k->shape_index);
  isa_index_free(&al, &k->verdict_index);
  isa_index_free(&al, &k->names);
  isa_index_free(&al, &k->tensors);
  FREE(shapes, cap_shapes);
  FREE(verdicts, cap_verdicts);
  FREE(uses, cap_uses);
  FREE(sites, cap_sites);
  FREE(keys, cap_keys);
  FREE(steps, cap_steps);
  FREE(waits, cap_waits);
  FREE(scopes, cap_scopes);
  FREE(waited, cap_waited);
  FREE(unwritten, cap_unwritten);
  FREE(spilled, cap_spilled);
  FREE(left, cap_left);
  isa_free(&al, k->placed, ((size_t)k->nplaced) * sizeof *k->placed);
  isa_free(&al, k->reg_needs, (size_t)k->nregs + 1);
  isa_free(&al, k->reg_places, ((size_t)k->nregs + 1) * ISA_NENGINES);
  isa_arena_free(&k->arena);
  isa_free(&al, k, sizeof *k);
}
#undef FREE

bool as_k_is_open(as_kernel *k, isa_line at) {
  k->error.status = ISA_OK;
  return !k->finished || as_k_fail(k, ISA_ARG, at, "the kernel is finished: nothing can be added");
}

static bool own(as_kernel *k, const char **s) {
  if (!*s) return true;
  *s = isa_arena_strn(&k->arena, *s, strlen(*s));
  return *s || as_k_nomem(k);
}

bool as_kernel_file(as_kernel *k, const char *name, uint32_t *file) {
  /* From the last: most records are of the file that came last. */
  for (uint32_t i = k->nfiles; i-- > 0;)
    if (strcmp(k->files[i], name) == 0) {
      *file = i + 1;
      return true;
    }
  if (!as_k_is_open(k, (isa_line){0}) || !own(k, &name) || !K_GROW(k, files, nfiles, cap_files))
    return false;
  k->files[k->nfiles++] = name;
  *file = k->nfiles;
  return true;
}

bool as_k_place_ok(as_kernel *k, isa_line at) {
  return at.file <= k->nfiles || as_k_fail(k, ISA_ARG, (isa_line){.line = at.line},
                                           "there is no file %u: the kernel has %u",
                                           (unsigned)at.file, (unsigned)k->nfiles);
}

/* ---- Tensors ------------------------------------------------------------------------------- */

static uint32_t name_hash(const char *name) {
  uint64_t h = isa_fnv(ISA_FNV_START, name, strlen(name));
  return (uint32_t)(h ^ h >> 32);
}

static const isa_tensor *tensor_of(const as_kernel *k, uint32_t buffer) {
  return &k->scratch->tensors[as_k_buf(k, buffer)->tensor - 1];
}

const isa_tensor *as_k_find_tensor(const as_kernel *k, const char *name) {
  uint32_t hash = name_hash(name), probe = 0, number;
  do number = isa_index_next(&k->tensors, hash, &probe);
  while (number && strcmp(tensor_of(k, number)->name, name) != 0);
  return number ? tensor_of(k, number) : NULL;
}

static bool add_buffer(as_kernel *k, const as_k_buffer *b, uint32_t *buffer) {
  if (!K_GROW(k, buffers, nbuffers, cap_buffers)) return false;
  k->buffers[k->nbuffers] = *b;
  k->buffers[k->nbuffers].loop = k->open_loop;
  *buffer = ++k->nbuffers;
  return true;
}

static bool size_of(as_kernel *k, isa_tensor *t) {
  uint64_t n = 1;
  isa_line none = {0};
  if (!isa_dtype_valid(t->dtype))
    return as_k_fail(k, ISA_ARG, none, "tensor %.60s: no data type has code %d", t->name, t->dtype);
  if (t->ndim == 0 || t->ndim > ISA_TENSOR_DIMS)
    return as_k_fail(k, ISA_ARG, none, "tensor %.60s has %d dimensions; it must have 1 to %d",
                     t->name, t->ndim, ISA_TENSOR_DIMS);
  for (int d = 0; d < t->ndim; d++) {
    if (t->shape[d] < 1)
      return as_k_fail(k, ISA_ARG, none,
                       "tensor %.60s: dimension %d has %lld elements; it must have at least 1",
                       t->name, d, (long long)t->shape[d]);
    /* Elements have up to 8 bytes. */
    if ((uint64_t)t->shape[d] > (uint64_t)INT64_MAX / 8 / n)
      return as_k_fail(k, ISA_ARG, none, "tensor %.60s: its size overflows", t->name);
    n *= (uint64_t)t->shape[d];
  }
  t->bytes = n * isa_dtype_bytes(t->dtype);
  if (t->bytes > (uint64_t)k->target->hbm_gib << 30)
    return as_k_fail(k, ISA_LIMIT, none, "tensor %.60s does not fit: %s has %u GiB of hbm", t->name,
                     k->target->name, (unsigned)k->target->hbm_gib);
  return true;
}

static bool name_ok(as_kernel *k, const char *s) {
  isa_line none = {0};
  for (const char *c = s; *c; c++) {
    bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
    if (!letter && (c == s || ((*c < '0' || *c > '9') && *c != '.')))
      return as_k_fail(
          k, ISA_ARG, none,
          "a tensor's name must be letters, digits and _: character %d of %.60s is not",
          (int)(c - s) + 1, s);
  }
  if (!s[0]) return as_k_fail(k, ISA_ARG, none, "a tensor has no name");
  if (as_k_find_tensor(k, s)) return as_k_fail(k, ISA_ARG, none, "two tensors are called %.60s", s);
  return true;
}

bool as_k_add_tensor(as_kernel *k, const isa_tensor *t, const as_k_buffer *b, uint32_t *buffer) {
  if (!isa_index_room(&k->al, &k->tensors)) return as_k_nomem(k);
  if (!K_GROW(k, buffers, nbuffers, cap_buffers)) return false;
  uint32_t n = isa_program_tensor(k->scratch, t);
  if (!n) return as_k_nomem(k);
  k->buffers[k->nbuffers] = *b;
  k->buffers[k->nbuffers].tensor = n;
  *buffer = ++k->nbuffers;
  return isa_index_add(&k->al, &k->tensors, name_hash(t->name), *buffer);
}

static bool add_tensor(as_kernel *k, const isa_tensor *t, uint32_t *buffer) {
  as_k_buffer b = {.space = ISA_HBM, .dtype = t->dtype, .first = K_NONE, .loop = k->open_loop};
  return as_k_add_tensor(k, t, &b, buffer);
}

bool as_k_same_constant(const isa_tensor *a, const isa_tensor *b) {
  return a->role == ISA_CONST && a->dtype == b->dtype && a->ndim == b->ndim &&
         a->bytes == b->bytes && memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0 &&
         memcmp(a->data, b->data, (size_t)a->bytes) == 0;
}

static uint32_t hash_of(const isa_tensor *t) {
  uint64_t h = isa_fnv(ISA_FNV_START, t->data, (size_t)t->bytes);
  return (uint32_t)(h ^ h >> 32);
}

static bool add_constant(as_kernel *k, isa_tensor *t, uint32_t *buffer) {
  uint32_t hash = hash_of(t), probe = 0, like;
  while ((like = isa_index_next(&k->constants, hash, &probe)))
    if (as_k_same_constant(tensor_of(k, like), t)) {
      *buffer = like;
      return true;
    }
  char name[32];
  do snprintf(name, sizeof name, "const%u", (unsigned)++k->nconsts);
  while (as_k_find_tensor(k, name));
  t->name = name;
  if (!isa_index_room(&k->al, &k->constants)) return as_k_nomem(k);
  return add_tensor(k, t, buffer) && isa_index_add(&k->al, &k->constants, hash, *buffer);
}

bool as_kernel_tensor(as_kernel *k, const isa_tensor *given, uint32_t *buffer) {
  isa_tensor t = *given;
  bool constant = t.role == ISA_CONST;
  if (!as_k_is_open(k, (isa_line){0})) return false;
  if (t.role >= ISA_NROLES)
    return as_k_fail(k, ISA_ARG, (isa_line){0}, "no role has code %d", t.role);
  if (constant) t.name = "constant";
  if (constant && !t.data) return as_k_fail(k, ISA_ARG, (isa_line){0}, "a constant needs data");
  if (!constant && !name_ok(k, t.name)) return false;
  if (!size_of(k, &t)) return false;
  if (constant) return add_constant(k, &t, buffer);
  t.data = NULL;
  return add_tensor(k, &t, buffer);
}

/* ---- Tiles --------------------------------------------------------------------------------- */

uint32_t as_k_memory(const as_kernel *k, unsigned space) {
  if (space == ISA_PSUM) return k->target->psum_bytes;
  uint32_t usable = k->target->sbuf_usable;
  return k->o.sbuf_bytes && k->o.sbuf_bytes < usable ? k->o.sbuf_bytes : usable;
}

uint32_t as_k_room(const as_kernel *k, unsigned space) {
  uint32_t all = as_k_memory(k, space), kept = k->o.sbuf_kept;
  if (space == ISA_PSUM) return all;
  /* A hypothetical machine may have less than the toolchain keeps. */
  uint32_t usable = k->target->sbuf_usable;
  usable -= kept < usable / 8 ? kept : usable / 8;
  return all < usable ? all : usable;
}

static bool tile_shape(as_kernel *k, const as_kernel_tile *t, uint32_t *bytes) {
  const char *name = t->name ? t->name : "?";
  uint64_t n, room = t->space == ISA_PSUM ? k->target->psum_bytes : k->target->sbuf_usable;
  if (t->space != ISA_SBUF && t->space != ISA_PSUM)
    return as_k_fail(k, ISA_ARG, t->at, "tile %.60s: a tile must be in sbuf or psum", name);
  if (!isa_dtype_valid(t->dtype))
    return as_k_fail(k, ISA_ARG, t->at, "tile %.60s: no data type has code %d", name, t->dtype);
  if (t->ndim == 0 || t->ndim > ISA_TILE_DIMS)
    return as_k_fail(k, ISA_ARG, t->at, "tile %.60s has %d dimensions; it must have 1 to %d", name,
                     t->ndim, ISA_TILE_DIMS);
  if (t->shape[0] == 0 || t->shape[0] > ISA_PMAX)
    return as_k_fail(k, ISA_ILLEGAL, t->at, "tile %.60s has %u partitions; it must have 1 to %d",
                     name, (unsigned)t->shape[0], ISA_PMAX);
  n = isa_dtype_bytes(t->dtype);
  for (int d = 1; d < t->ndim; d++) {
    if (t->shape[d] == 0)
      return as_k_fail(k, ISA_ARG, t->at, "tile %.60s: dimension %d has 0 elements", name, d);
    n *= t->shape[d];
    if (n > room)
      return as_k_fail(k, ISA_LIMIT, t->at,
                       "tile %.60s needs %llu bytes or more in each partition: %s has %llu in %s",
                       name, (unsigned long long)n, k->target->name, (unsigned long long)room,
                       isa_space_name(t->space));
  }
  *bytes = (uint32_t)n;
  return true;
}

static bool tile_place(as_kernel *k, const as_kernel_tile *t, uint32_t bytes) {
  const char *name = t->name ? t->name : "?";
  uint32_t room = t->space == ISA_PSUM ? k->target->psum_bytes : k->target->sbuf_usable;
  if (t->part >= 0 && (t->part >= ISA_PMAX || (uint32_t)t->part + t->shape[0] > ISA_PMAX))
    return as_k_fail(k, ISA_ILLEGAL, t->at,
                     "tile %.60s: %u partitions from %d on, but a memory has %d", name,
                     (unsigned)t->shape[0], (int)t->part, ISA_PMAX);
  if (t->offset >= 0 && ((uint32_t)t->offset > room || bytes > room - (uint32_t)t->offset))
    return as_k_fail(k, ISA_ILLEGAL, t->at,
                     "tile %.60s: bytes %d..%lld, but a %s partition of %s has %u", name,
                     (int)t->offset, (long long)t->offset + bytes - 1, isa_space_name(t->space),
                     k->target->name, (unsigned)room);
  if (t->offset >= 0 && (uint32_t)t->offset % isa_dtype_bytes(t->dtype))
    return as_k_fail(k, ISA_ILLEGAL, t->at, "tile %.60s: offset %d, but %s needs a multiple of %u",
                     name, (int)t->offset, isa_dtypes[t->dtype].name, isa_dtype_bytes(t->dtype));
  return true;
}

/* A tile that is known to be good. Those of one name and line have one copy of the name. */
static bool add_tile(as_kernel *k, as_k_buffer *b, uint32_t *buffer) {
  if (!isa_index_room(&k->al, &k->classes)) return as_k_nomem(k);
  if (!K_GROW(k, buffers, nbuffers, cap_buffers)) return false;
  if (b->name && !as_k_begin_tile(k, b, true, b->at, as_k_turn(k, b->at))) return false;
  as_k_classify(k, b, k->nbuffers + 1);
  return add_buffer(k, b, buffer);
}

bool as_kernel_tile_new(as_kernel *k, const as_kernel_tile *t, uint32_t *buffer) {
  uint32_t bytes = 0;
  if (!as_k_is_open(k, t->at) || !as_k_place_ok(k, t->at) || !tile_shape(k, t, &bytes) ||
      !tile_place(k, t, bytes))
    return false;
  as_k_buffer b = {.name = t->name,
                   .space = t->space,
                   .dtype = t->dtype,
                   .ndim = t->ndim,
                   .fixed = t->offset >= 0,
                   .part = (uint16_t)(t->part < 0 ? 0 : t->part),
                   .nparts = (uint16_t)t->shape[0],
                   .bytes = bytes,
                   .offset = t->offset < 0 ? 0 : (uint32_t)t->offset,
                   .first = K_NONE,
                   .at = t->at};
  memcpy(b.shape, t->shape, sizeof b.shape);
  for (unsigned d = t->ndim; d < ISA_TILE_DIMS; d++) b.shape[d] = 0;
  if (!add_tile(k, &b, buffer)) return false;
  uint32_t *loop = &as_k_buf(k, *buffer)->loop;
  /* Declared further out than where it is recorded. */
  for (uint32_t n = t->outside; n && *loop; n--) *loop = k->loops[*loop - 1].parent;
  return true;
}

bool as_kernel_end(as_kernel *k, uint32_t buffer) {
  if (!as_k_is_open(k, (isa_line){0})) return false;
  if (buffer == 0 || buffer > k->nbuffers || as_k_buf(k, buffer)->space == ISA_HBM)
    return as_k_fail(k, ISA_ARG, (isa_line){0}, "buffer %u is not a tile", (unsigned)buffer);
  as_k_buf(k, buffer)->ended = true;
  return true;
}
