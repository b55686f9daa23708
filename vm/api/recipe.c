/* Recipes of kernels, and what is made of them. */
#include "recipe.h"

#include <string.h>

/* ---- Life ---------------------------------------------------------------------------------- */

/* The builder asks for an instruction's time without knowing the clock. */
static uint64_t busy(void *ud, unsigned engine, const isa_program *p, const isa_insn *in) {
  return vm_cost_static(ud, engine, p, in);
}

/* Ratios that hold for all transfers: the time of a trigger, and the bytes of a microsecond. */
static as_kernel_costs costs_of(const vm_costs *costs, const isa_target *t, vm_cost_model *model) {
  /* The constants of that generation. */
  const uint32_t *v = costs->v[t->gen - ISA_GEN2];
  as_kernel_costs c = {.ud = model, .busy = busy};
  c.trigger[ISA_DGE_none] = (uint64_t)v[VM_DMA_STATIC] * VM_NS;
  c.trigger[ISA_DGE_swdge] =
      (uint64_t)v[VM_DMA_SW_BASE] * VM_NS + (uint64_t)v[VM_DMA_SW_ROW] * ISA_PMAX * (VM_NS / 1000);
  c.trigger[ISA_DGE_hwdge] = (uint64_t)v[VM_DMA_HWDGE] * VM_NS;
  c.delay = (uint64_t)v[VM_SEM_SEEN] * VM_NS;
  c.table = (uint64_t)v[VM_ACT_TABLE] * VM_NS;
  c.transfer = (uint64_t)(v[VM_DMA_FIRST] + v[VM_DMA_SEM] + v[VM_DMA_RESUME]) * VM_NS;
  c.piece = (uint64_t)v[VM_DMA_ELEMENT] * (VM_NS / 1000);
  /* Each engine's two constants: until the result is there, and until the engine is
   * free. */
  static const uint8_t last[][2] = {{VM_LAT_TENSOR, VM_OVH_TENSOR},
                                    {VM_LAT_VECTOR, VM_OVH_VECTOR},
                                    {VM_LAT_SCALAR, VM_OVH_SCALAR},
                                    {VM_LAT_GPSIMD, VM_OVH_GPSIMD}};
  for (unsigned e = 0; e < sizeof last / sizeof *last; e++) {
    uint32_t lat = v[last[e][0]], ovh = v[last[e][1]];
    /* 10^12 over kHz: femtoseconds of a cycle. What follows an instruction can begin when it is
     * free, and needs its result later. */
    c.latency[e] = lat > ovh ? (uint64_t)(lat - ovh) * 1000000000000u / t->khz[e] : 0;
  }
  c.dma_byte_rate = v[VM_DMA_R_IN];
  return c;
}

/* The target may be the caller's; the recipe keeps its own. */
soma_recipe *soma_recipe_new(const isa_alloc *al, const as_kernel_options *o,
                             const vm_costs *costs) {
  soma_recipe *r = isa_zalloc(al, sizeof *r);
  if (!r) return NULL;
  r->refs = 1;
  r->al = *al;
  r->o = *o;
  r->o.target = isa_target_keep(o->target, &r->own_target);
  r->o.alloc = &r->al;
  r->costs = *costs;
  r->model = vm_cost_model_new(al, r->o.target, costs);
  /* Without a model no costs are known. */
  if (!r->model) {
    isa_free(al, r, sizeof *r);
    return NULL;
  }
  r->o.costs = costs_of(costs, r->o.target, r->model);
  return r;
}

/* The entries go, the recipe itself stays: nothing can be made again. */
static void forget(soma_recipe *r) {
  isa_free(&r->al, r->units, (size_t)r->cap_units * sizeof *r->units);
  r->units = NULL;
  r->nunits = r->cap_units = 0;
  r->plain = 0;
  r->keeps = false;
}

void soma_recipe_free(soma_recipe *r) {
  /* Others may still have it. */
  if (!r || --r->refs) return;
  isa_alloc al = r->al;
  forget(r);
  vm_cost_model_free(r->model);
  isa_free(&al, r, sizeof *r);
}

soma_recipe *soma_recipe_copy(const soma_recipe *r) {
  soma_recipe *copy = soma_recipe_new(&r->al, &r->o, &r->costs);
  if (!copy) return NULL;
  copy->keeps = r->keeps;
  copy->plain = r->plain;
  copy->items = r->items;
  copy->buffers = r->buffers;
  copy->files = r->files;
  /* The entries are copied as they are, packed or not. */
  if (isa_array_reserve(&r->al, &copy->units, r->nunits, &copy->cap_units, sizeof *r->units)) {
    if (r->nunits) memcpy(copy->units, r->units, (size_t)r->nunits * sizeof *r->units);
    copy->nunits = r->nunits;
    return copy;
  }
  soma_recipe_free(copy);
  return NULL;
}

/* ---- Entries ------------------------------------------------------------------------------- */

enum { KIND_SHIFT = 56, MOST_UNITS = 1 << 25 }; /* 256 MiB: constants are kept too */

/* One head of eight bytes, then the entry's words. */
static soma_entry entry_at(const soma_recipe *r, uint32_t at) {
  uint64_t head = r->units[at];
  return (soma_entry){.kind = (soma_recipe_kind)(head >> KIND_SHIFT),
                      .words = (int64_t *)(void *)(r->units + at + 1),
                      .n = (uint32_t)head,
                      .next = at + 1 + (uint32_t)head};
}

static uint32_t units_of(size_t bytes) { return (uint32_t)((bytes + 7) / 8); }

/* The last unit may be filled in part: it is cleared first. */
static void put_part(soma_recipe *r, const void *data, size_t bytes) {
  uint64_t *to = r->units + r->nunits;
  uint32_t n = units_of(bytes);
  if (!n) return;
  to[n - 1] = 0;
  memcpy(to, data, bytes);
  r->nunits += n;
}

/* Makes room for an entry of n units and its head, if entries are kept. */
static bool reserve(soma_recipe *r, uint64_t n) {
  uint64_t want = r->nunits + n + 1;
  /* A recipe that was given up takes nothing more. */
  if (!r->keeps) return false;
  /* Too large to be kept: the kernel is built once, without tuning. */
  if (r->plain + n + 1 > MOST_UNITS) {
    forget(r);
    return false;
  }
  if (want <= r->cap_units) return true;
  /* Room grows by doubling. */
  uint32_t twice = r->cap_units < UINT32_MAX / 2 ? 2 * r->cap_units : UINT32_MAX;
  if (isa_array_reserve(&r->al, &r->units, want > twice ? (uint32_t)want : twice, &r->cap_units,
                        sizeof *r->units))
    return true;
  forget(r);
  r->nomem = true;
  return false;
}

/* The kind in the high byte, how many units follow in the rest. */
static uint64_t head_of(soma_recipe_kind kind, uint64_t n) {
  return (uint64_t)kind << KIND_SHIFT | n;
}

/* An entry of up to three parts, each of which begins at a unit. */
static void put(soma_recipe *r, soma_recipe_kind kind, const void *const part[3],
                const size_t bytes[3]) {
  uint64_t n = 0;
  for (unsigned i = 0; i < 3; i++) n += (bytes[i] + 7) / 8;
  if (!reserve(r, n)) return;
  r->plain += n + 1;
  r->units[r->nunits++] = head_of(kind, n);
  for (unsigned i = 0; i < 3; i++) put_part(r, part[i], bytes[i]);
}

#define PUT(r, kind, a, na, b, nb, c, nc) \
  put(r, kind, (const void *const[3]){a, b, c}, (const size_t[3]){na, nb, nc})

static size_t text_bytes(const char *s) { return s ? strlen(s) + 1 : 0; }

/* A name is an entry only the first time. */
void soma_recipe_file(soma_recipe *r, const char *name, uint32_t file) {
  if (file <= r->files) return;
  r->files = file;
  PUT(r, SOMA_RECIPE_FILE, name, text_bytes(name), NULL, 0, NULL, 0);
}

/* A constant that is there already has its number, and needs no entry. */
void soma_recipe_tensor(soma_recipe *r, const isa_tensor *t, uint32_t buffer) {
  if (!r->keeps || buffer <= r->buffers) return;
  r->buffers = buffer;
  /* All of its elements, where the program has its data. */
  size_t bytes = 1;
  for (unsigned d = 0; d < t->ndim; d++) bytes *= (size_t)t->shape[d];
  PUT(r, SOMA_RECIPE_TENSOR, t, sizeof *t, t->name, text_bytes(t->name), t->data,
      t->data ? bytes * isa_dtype_bytes(t->dtype) : 0);
}

void soma_recipe_tile(soma_recipe *r, const as_kernel_tile *t, uint32_t buffer) {
  if (!r->keeps) return;
  r->buffers = buffer;
  PUT(r, SOMA_RECIPE_TILE, t, sizeof *t, t->name, text_bytes(t->name), NULL, 0);
}

/* ---- Records like others --------------------------------------------------------------------- */

/* Longer records are put whole. */
enum { LIKE_BITS = 64, LIKE_WORDS = 2 * LIKE_BITS };

enum { LIKE_REF, LIKE_MASK, LIKE_CHANGED = LIKE_MASK + 2 }; /* words of such an entry */

/* Puts which words differ, as bits, and those words; how many there are. */
static uint32_t differing(const uint64_t *old, const uint64_t *new, size_t n, uint64_t *to) {
  enum { STRIDE = 4 }; /* words that are looked at together: most are the same */
  uint64_t *bits = to + LIKE_MASK, *changed = to + LIKE_CHANGED;
  bits[0] = bits[1] = 0;
  for (size_t i = 0; i < n;) {
    size_t end = i + STRIDE;
    if (end <= n && !((old[i] ^ new[i]) | (old[i + 1] ^ new[i + 1]) | (old[i + 2] ^ new[i + 2]) |
                      (old[i + 3] ^ new[i + 3]))) {
      i = end;
      continue;
    }
    for (; i < end && i < n; i++) {
      if (old[i] == new[i]) continue;
      bits[i / LIKE_BITS] |= UINT64_C(1) << i % LIKE_BITS;
      *changed++ = new[i];
    }
  }
  return (uint32_t)(changed - to - LIKE_CHANGED);
}

/* Puts records as what differs from those of their line before; false: they are to be put whole. A
 * loop's records differ in a few words, and their memory is most of what keeping them costs. */
static bool put_like(soma_recipe *r, const int64_t *words, size_t n) {
  /* Records without the usual head, or too long, are not compared. */
  if (!r->packed || n < AS_REC_FIELDS || n > LIKE_WORDS) return false;
  if (!reserve(r, n + LIKE_CHANGED)) return true; /* nor are whole ones kept any more */
  /* Records of one line and instruction are likely to be like. */
  uint64_t key = (uint64_t)words[AS_REC_LINE] * 31 + (uint64_t)words[AS_REC_OP] * 7 + n;
  uint64_t *to = r->units + r->nunits;
  uint32_t *like = &r->like[key % SOMA_RECIPE_LIKES];
  const uint64_t *old = *like ? r->units + *like : NULL;
  if (old && old[-1] == head_of(SOMA_RECIPE_RECORDS, n)) {
    uint32_t k = differing(old, (const uint64_t *)words, n, to + 1);
    /* Worth it only if half of the words are saved. */
    if (k + LIKE_CHANGED <= n / 2) {
      to[0] = head_of(SOMA_RECIPE_LIKE, LIKE_CHANGED + k);
      to[1 + LIKE_REF] = *like - 1;
      r->nunits += 1 + LIKE_CHANGED + k;
      r->plain += 1 + n;
      return true;
    }
  }
  *like = r->nunits + 1; /* where they are put now */
  return false;
}

/* Puts the words of an entry; how many there are. */
static uint32_t put_plain(const soma_recipe *r, const soma_entry *e, uint64_t *to) {
  bool like = e->kind == SOMA_RECIPE_LIKE;
  soma_entry old = like ? entry_at(r, (uint32_t)e->words[LIKE_REF]) : *e;
  const int64_t *changed = e->words + LIKE_CHANGED;
  /* The record before, and then the words that differ. */
  if (old.n) memcpy(to, old.words, old.n * sizeof *to);
  for (unsigned part = 0; like && part < 2; part++)
    for (uint64_t bits = (uint64_t)e->words[LIKE_MASK + part]; bits; bits &= bits - 1)
      to[part * LIKE_BITS + (unsigned)__builtin_ctzll(bits)] = (uint64_t)*changed++;
  return old.n;
}

bool soma_recipe_unpack(soma_recipe *r) {
  soma_entry e;
  uint32_t n = 0;
  if (!r->packed) return true;
  r->packed = false;
  if (!r->nunits) return true;
  uint64_t *units = isa_zalloc(&r->al, r->plain * sizeof *units);
  /* A second array, since entries grow. */
  for (uint32_t at = 0; units && soma_recipe_at(r, at, &e); at = e.next) {
    uint32_t words = put_plain(r, &e, units + n + 1);
    soma_recipe_kind kind = e.kind == SOMA_RECIPE_LIKE ? SOMA_RECIPE_RECORDS : e.kind;
    units[n] = head_of(kind, words);
    n += 1 + words;
  }
  isa_free(&r->al, r->units, (size_t)r->cap_units * sizeof *r->units);
  r->units = units;
  r->nunits = n;
  r->cap_units = units ? (uint32_t)r->plain : 0;
  if (!units) forget(r);
  r->nomem = r->nomem || !units;
  return units;
}

/* Copies that did not help leave their tiles behind: so a record that was refused is kept too.
 * Taken: the builder has accepted it. */
void soma_recipe_records(soma_recipe *r, bool taken, const int64_t *words, size_t n,
                         uint32_t items) {
  /* Without AS_KERNEL_COPIES a record that is refused leaves nothing behind. */
  if (!taken && !(r->o.flags & AS_KERNEL_COPIES)) return;
  r->items = items;
  if (items > SOMA_RECIPE_MOST) forget(r);
  if (taken && put_like(r, words, n)) return;
  /* What was refused has no likes. */
  PUT(r, taken ? SOMA_RECIPE_RECORDS : SOMA_RECIPE_REFUSED, words, n * sizeof *words, NULL, 0, NULL,
      0);
}

void soma_recipe_group(soma_recipe *r, const isa_group *g) {
  int64_t n[3] = {g->nlists, g->nranks, 0};
  PUT(r, SOMA_RECIPE_GROUP, n, sizeof n, g->sizes, g->nlists * sizeof *g->sizes, g->ranks,
      g->nranks * sizeof *g->ranks);
}

void soma_recipe_loop(soma_recipe *r, const as_kernel_range *range) {
  PUT(r, SOMA_RECIPE_LOOP, range, sizeof *range, NULL, 0, NULL, 0);
}

void soma_recipe_numbers(soma_recipe *r, soma_recipe_kind kind, int64_t a, int64_t b, int64_t c) {
  int64_t n[3] = {a, b, c};
  PUT(r, kind, n, sizeof n, NULL, 0, NULL, 0);
}

void soma_recipe_entry(soma_recipe *r, const soma_entry *e) {
  PUT(r, e->kind, e->words, (size_t)e->n * sizeof *e->words, NULL, 0, NULL, 0);
}

/* The entry's words stay where they are until something is added. */
bool soma_recipe_at(const soma_recipe *r, uint32_t at, soma_entry *e) {
  if (at >= r->nunits) return false;
  *e = entry_at(r, at);
  return true;
}

/* Buffers count from 1, over tensors and tiles together. */
bool soma_recipe_buffer(const soma_recipe *r, int64_t buffer, soma_entry *e) {
  for (uint32_t at = 0; soma_recipe_at(r, at, e); at = e->next)
    if ((e->kind == SOMA_RECIPE_TILE || e->kind == SOMA_RECIPE_TENSOR) && !--buffer) return true;
  return false;
}

const char *soma_recipe_file_name(const soma_recipe *r, uint32_t file) {
  soma_entry e;
  for (uint32_t at = 0; file && soma_recipe_at(r, at, &e); at = e.next)
    if (e.kind == SOMA_RECIPE_FILE && !--file) return (const char *)e.words;
  return NULL;
}

/* ---- Making it ------------------------------------------------------------------------------ */

static bool make_tensor(as_kernel *k, const soma_entry *e) {
  isa_tensor t;
  uint32_t buffer, n = units_of(sizeof t);
  memcpy(&t, e->words, sizeof t);
  /* In the order in which put has written the parts. */
  const char *name = (const char *)(e->words + n);
  /* Pointers into the caller's memory become pointers into the entry. */
  if (t.data) t.data = (const void *)(e->words + n + (t.name ? units_of(strlen(name) + 1) : 0));
  if (t.name) t.name = name;
  return as_kernel_tensor(k, &t, &buffer);
}

static bool make_tile(as_kernel *k, const soma_entry *e) {
  as_kernel_tile t;
  uint32_t buffer;
  memcpy(&t, e->words, sizeof t);
  if (t.name) t.name = (const char *)(e->words + units_of(sizeof t));
  return as_kernel_tile_new(k, &t, &buffer);
}

static bool make_loop(as_kernel *k, const soma_entry *e) {
  as_kernel_range range;
  uint32_t reg;
  memcpy(&range, e->words, sizeof range);
  return as_kernel_loop(k, &range, &reg);
}

static bool make_group(as_kernel *k, const soma_entry *e) {
  /* Sizes, then the ranks of all lists. */
  const int64_t *sizes = e->words + 3;
  isa_group g = {.name = SOMA_GROUP_NAME, .nlists = (uint32_t)e->words[0]};
  uint32_t number;
  g.nranks = (uint32_t)e->words[1];
  g.sizes = (const uint32_t *)(const void *)sizes;
  g.ranks = (const uint32_t *)(const void *)(sizes + units_of(g.nlists * sizeof *g.sizes));
  return as_kernel_group(k, &g, &number);
}

bool soma_recipe_apply(as_kernel *k, const soma_entry *e) {
  uint32_t number;
  const int64_t *w = e->words;
  switch (e->kind) {
  case SOMA_RECIPE_FILE: return as_kernel_file(k, (const char *)w, &number);
  case SOMA_RECIPE_TENSOR: return make_tensor(k, e);
  case SOMA_RECIPE_TILE: return make_tile(k, e);
  case SOMA_RECIPE_RECORDS: return as_kernel_emit(k, w, e->n, NULL);
  /* Refused as the first time, with what that leaves behind. */
  case SOMA_RECIPE_REFUSED: return as_kernel_emit(k, w, e->n, NULL), true;
  case SOMA_RECIPE_LOOP: return make_loop(k, e);
  case SOMA_RECIPE_WHILE:
    return as_kernel_while(k, (uint32_t)w[0],
                           (isa_line){.file = (uint32_t)w[1], .line = (uint32_t)w[2]});
  case SOMA_RECIPE_ENDLOOP: return as_kernel_endloop(k);
  case SOMA_RECIPE_END: return as_kernel_end(k, (uint32_t)w[0]);
  case SOMA_RECIPE_QUEUE:
    return as_kernel_queue(k, (unsigned)w[0], (unsigned)w[1], (unsigned)w[2], &number);
  case SOMA_RECIPE_GROUP: return make_group(k, e);
  case SOMA_RECIPE_REGISTER: return as_kernel_register(k, &number);
  case SOMA_RECIPE_ORDER: return as_kernel_order(k, (uint32_t)w[0], (uint32_t)w[1]);
  case SOMA_RECIPE_LIKE: break; /* only a packed recipe has those */
  }
  return false;
}

/* The kernel of a recipe, all that it was told; NULL: out of memory, or it was refused. */
static as_kernel *make_one(const soma_recipe *r, const soma_choice *c, unsigned core, bool *nomem) {
  as_kernel_options o = r->o;
  o.passes = c->passes;
  o.flags = c->flags;
  o.extra = c->extra;
  o.extra_at = c->at[core];
  as_kernel *k = as_kernel_new(&o);
  bool ok = k != NULL;
  soma_entry e;
  for (uint32_t at = 0; ok && soma_recipe_at(r, at, &e); at = e.next) ok = soma_recipe_apply(k, &e);
  if (ok) return k;
  *nomem = !k || as_kernel_last_error(k)->status == ISA_NOMEM;
  as_kernel_free(k);
  return NULL;
}

bool soma_make(soma_recipe *const r[], unsigned cores, const soma_choice *c, soma_made *out) {
  *out = (soma_made){0};
  for (unsigned i = 0; i < cores; i++)
    if (!(out->k[i] = make_one(r[i], c, i, &out->nomem))) return false;
  out->failed = out->k[0];
  out->p = cores > 1 ? as_kernel_finish_pair(out->k[0], out->k[1], &out->failed)
                     : as_kernel_finish(out->k[0]);
  out->nomem = !out->p && as_kernel_last_error(out->failed)->status == ISA_NOMEM;
  return out->p != NULL;
}

void soma_made_free(soma_made *x) {
  for (unsigned i = 0; i < ISA_MAX_CORES; i++) as_kernel_free(x->k[i]);
  isa_program_free(x->p);
  *x = (soma_made){0};
}

/* ---- Timing it ------------------------------------------------------------------------------ */

enum { MOST_RUN = 4000000 }; /* instructions: a loop may depend on what is not there */

soma_machine *soma_timer(const soma_recipe *r) {
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m;
  o.target = r->o.target->name;
  o.timing_only = 1;
  o.threads = 1;
  o.max_instructions = MOST_RUN;
  o.alloc = r->al.fn;
  o.alloc_ud = r->al.ud;
  if (soma_machine_new(&o, &m) != SOMA_OK) return NULL;
  /* Constants of the machine on which the kernel is to run. */
  m->costs = r->costs;
  return m;
}

bool soma_time_made(soma_machine *timer, soma_made *x) {
  soma_program *p;
  soma_run *run = NULL;
  soma_stats stats;
  isa_program *ip = x->p;
  x->p = NULL; /* the handle takes it over */
  soma_status s = soma_wrap(timer, ip, &p);
  x->nomem = s == SOMA_NOMEM;
  if (s != SOMA_OK) return false;
  s = soma_run_start(timer, p, &run);
  if (s == SOMA_OK) s = soma_run_until(run, SOMA_END, SOMA_SYNC, 0);
  bool ok = s == SOMA_OK;
  x->nomem = s == SOMA_NOMEM;
  if (ok) soma_run_stats(run, &stats, sizeof stats);
  if (ok) x->time = stats.time;
  soma_run_free(run);
  x->p = p->p; /* and gives it back */
  p->p = NULL;
  soma_program_free(p);
  return ok;
}
