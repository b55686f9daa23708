/* soma_kernel.h over the builder of kernel. */
#include "impl.h"

#include "advice.h"
#include "tune.h"

#include <string.h>

#define SAME(public_name, own) \
  _Static_assert((int)(public_name) == (int)(own), #public_name " differs from the builder's")
SAME(SOMA_KERNEL_SPILL, AS_KERNEL_SPILL);
SAME(SOMA_KERNEL_KEEP_ORDER, AS_KERNEL_KEEP_ORDER);
SAME(SOMA_KERNEL_FIXED_ENGINES, AS_KERNEL_FIXED_ENGINES);
SAME(SOMA_KERNEL_COPIES, AS_KERNEL_COPIES);
SAME(SOMA_KERNEL_STATIC, AS_KERNEL_STATIC);
SAME(SOMA_PASS_MEMSETS, AS_PASS_MEMSETS);
SAME(SOMA_PASS_STORES, AS_PASS_STORES);
SAME(SOMA_PASS_VERSIONS, AS_PASS_VERSIONS);
SAME(SOMA_PASS_LOADS, AS_PASS_LOADS);
SAME(SOMA_PASS_VALUES, AS_PASS_VALUES);
SAME(SOMA_PASS_ORDER, AS_PASS_ORDER);
SAME(SOMA_PASS_USUAL, AS_PASS_USUAL);
SAME(SOMA_PASS_TRIM, AS_PASS_TRIM);
SAME(SOMA_PASS_FAR, AS_PASS_FAR);
SAME(SOMA_PASS_SWDGE, AS_PASS_SWDGE);
SAME(SOMA_PASS_MERGES, AS_PASS_MERGES);
SAME(SOMA_RECORD_ACCUMULATE, AS_REC_ACCUMULATE);
SAME(SOMA_RECORD_STATIC, AS_REC_STATIC);
SAME(SOMA_RECORD_SWDGE, AS_REC_SWDGE);
SAME(SOMA_RECORD_HWDGE, AS_REC_HWDGE);
SAME(SOMA_BOUND_TENSOR, ISA_ENG_tensor);
SAME(SOMA_BOUND_SYNC, ISA_ENG_sync);
SAME(SOMA_BOUND_DMA, AS_BOUND_DMA);
#define KIND(name, type, bytes) SAME(SOMA_FIELD_##name, ISA_K_##name);
ISA_KINDS(KIND)
#undef KIND
SAME(SOMA_FIELD_OPTIONAL, ISA_MODE_D);

struct soma_kernel {
  as_kernel *k;
  isa_alloc al;
  soma_recipe *recipe, *other; /* other: of the other core's kernel, once it is finished */
  soma_tried *tried;           /* NULL: nothing was */
  soma_choice choice;          /* by which it was built */
  soma_advisor *advisor;       /* NULL: not asked yet */
  bool advises, done;          /* done: it has become a program */
  uint32_t optimize;
  const as_kernel *failed; /* whose error is reported: k, or the other core's kernel */
  char error[1280];
  bool own_error; /* an argument was wrong before the builder saw it */
};

/* ---- Results ------------------------------------------------------------------------------- */

/* OK, or the error that one of the builder's kernels has. */
static soma_status result_of(soma_kernel *k, const as_kernel *failed, bool ok) {
  const as_kernel_error *e = as_kernel_last_error(failed);
  const char *file = as_kernel_file_name(failed, e->at.file);
  k->failed = failed;
  isa_buf b;
  k->error[0] = 0;
  k->own_error = false;
  if (ok) return SOMA_OK;
  isa_buf_init(&b, &k->al);
  if (file)
    isa_buf_printf(&b, "%.200s:%u: ", file, (unsigned)e->at.line);
  else if (e->at.line)
    isa_buf_printf(&b, "line %u: ", (unsigned)e->at.line);
  isa_buf_puts(&b, e->text);
  const char *text = b.failed ? soma_status_text((soma_status)e->status) : isa_buf_str(&b);
  size_t n = strlen(text);
  n = n < sizeof k->error ? n : sizeof k->error - 1;
  memcpy(k->error, text, n);
  k->error[n] = 0;
  isa_buf_free(&b);
  return e->status ? (soma_status)e->status : SOMA_ARG;
}

static soma_status result(soma_kernel *k, bool ok) { return result_of(k, k->k, ok); }

/* The same of a call that is noted in the recipe by its numbers. */
static soma_status noted(soma_kernel *k, bool ok, soma_recipe_kind kind, int64_t a, int64_t b,
                         int64_t c) {
  if (ok) soma_recipe_numbers(k->recipe, kind, a, b, c);
  return result(k, ok);
}

static soma_status bad_argument(soma_kernel *k, const char *text) {
  if (!k) return SOMA_ARG;
  size_t n = strlen(text);
  n = n < sizeof k->error ? n : sizeof k->error - 1;
  memcpy(k->error, text, n);
  k->error[n] = 0;
  k->own_error = true;
  return SOMA_ARG;
}

const char *soma_kernel_error(const soma_kernel *k) { return k ? k->error : "the kernel is NULL"; }

const char *soma_kernel_error_place(const soma_kernel *k, const char **file, uint32_t *line) {
  if (!k) return "the kernel is NULL";
  const as_kernel_error *e = as_kernel_last_error(k->failed);
  bool placed = k->error[0] && !k->own_error;
  if (file) *file = placed ? as_kernel_file_name(k->failed, e->at.file) : NULL;
  if (line) *line = placed ? e->at.line : 0;
  return placed ? e->text : k->error;
}

/* ---- Life ---------------------------------------------------------------------------------- */

static const isa_target *default_target(const soma_machine *m) {
  return m->target ? m->target : &isa_targets[isa_target_find("trn2", 4)];
}

soma_status soma_kernel_new(soma_machine *m, const soma_kernel_options *options,
                            soma_kernel **out) {
  if (!m || !out) return SOMA_ARG;
  soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
  *out = NULL;
  if (options) {
    if (options->size < offsetof(soma_kernel_options, flags) || options->size > sizeof o)
      return soma_fail(m, SOMA_ARG, "soma_kernel_options.size is %zu, not %zu", options->size,
                       sizeof o);
    memcpy(&o, options, options->size);
  }
  /* Advice is the highest of the flags below those that are measured. */
  if ((o.flags & ~(uint32_t)AS_KERNEL_MEASURED) >= 2 * SOMA_KERNEL_ADVICE)
    return soma_fail(m, SOMA_ARG, "soma_kernel_options.flags is %#x", (unsigned)o.flags);
  isa_error e = {0};
  isa_target asked;
  vm_costs costs = m->costs;
  if (o.target && (!isa_target_read(o.target, strlen(o.target), &asked, &e) ||
                   !vm_costs_of_target(&costs, &asked, &e)))
    return soma_fail(m, SOMA_ARG, "%s", e.text);
  as_kernel_options ko = {.alloc = &m->al,
                          .flags = o.flags & ~(uint32_t)SOMA_KERNEL_ADVICE,
                          .sbuf_bytes = o.sbuf_bytes,
                          .core = o.core,
                          .cores = o.cores ? o.cores : 1};
  ko.target = o.target ? &asked : default_target(m);
  if (!as_kernel_front(o.front_end, &ko))
    return soma_fail(m, SOMA_ARG, "there is no front end %.40s", o.front_end);
  if (o.optimize > 2) return soma_fail(m, SOMA_ARG, "optimize is %u: 0, 1 or 2", o.optimize);
  /* Engines and descriptors are the toolchain's at each level: they change nothing of the list. */
  bool listed = !o.optimize || (o.flags & SOMA_KERNEL_KEEP_ORDER);
  ko.passes &= listed ? AS_PASS_CHOICES : ~o.without;
  if (ko.cores > ISA_MAX_CORES || ko.core >= ko.cores)
    return soma_fail(m, SOMA_ARG, "core %u of %u: a program has one core or two, 0 and 1", ko.core,
                     ko.cores);
  if (ko.cores > 1 && ko.target->gen < ISA_GEN3)
    return soma_fail(m, SOMA_ARG, "two cores as one need gen3; %s is gen2", ko.target->name);
  soma_kernel *k = isa_zalloc(&m->al, sizeof *k);
  if (!k) return soma_out_of_memory(m);
  k->al = m->al;
  k->optimize = o.optimize;
  k->recipe = soma_recipe_new(&m->al, &ko, &costs);
  k->k = k->recipe ? as_kernel_new(&k->recipe->o) : NULL;
  if (!k->k) {
    soma_kernel_free(k);
    return soma_out_of_memory(m);
  }
  k->choice = (soma_choice){.passes = ko.passes, .flags = ko.flags};
  k->advises = (o.flags & SOMA_KERNEL_ADVICE) != 0;
  k->recipe->without = o.without;
  k->recipe->keeps = o.optimize > 1 || (o.flags & SOMA_KERNEL_ADVICE);
  k->recipe->packed = true;
  k->failed = k->k;
  *out = k;
  return SOMA_OK;
}

void soma_kernel_free(soma_kernel *k) {
  if (!k) return;
  isa_alloc al = k->al;
  as_kernel_free(k->k);
  soma_recipe_free(k->recipe);
  soma_recipe_free(k->other);
  soma_tried_free(k->tried);
  soma_advisor_free(k->advisor);
  isa_free(&al, k, sizeof *k);
}

const char *soma_kernel_target(const soma_kernel *k) {
  return k ? as_kernel_target(k->k)->name : NULL;
}

/* ---- What a kernel is made of -------------------------------------------------------------- */

soma_status soma_kernel_file(soma_kernel *k, const char *name, uint32_t *file) {
  if (!k || !file) return bad_argument(k, "file is NULL");
  if (!name) return bad_argument(k, "a file needs a name");
  bool ok = as_kernel_file(k->k, name, file);
  if (ok) soma_recipe_file(k->recipe, name, *file);
  return result(k, ok);
}

static soma_status tensor(soma_kernel *k, const isa_tensor *t, const int64_t *shape,
                          uint32_t *buffer) {
  isa_tensor row = *t;
  if (!shape) return bad_argument(k, "a tensor has no shape");
  if (row.ndim > 0 && row.ndim <= ISA_TENSOR_DIMS)
    memcpy(row.shape, shape, row.ndim * sizeof *shape);
  bool ok = as_kernel_tensor(k->k, &row, buffer);
  if (ok) soma_recipe_tensor(k->recipe, &row, *buffer);
  return result(k, ok);
}

/* What is beyond a byte becomes 255, which the builder refuses. */
static uint8_t byte_of(uint32_t v) { return (uint8_t)(v > 255 ? 255 : v); }

soma_status soma_kernel_tensor(soma_kernel *k, const char *name, soma_dtype dtype, uint32_t ndim,
                               const int64_t *shape, soma_role role, uint32_t *buffer) {
  if (!k || !buffer) return bad_argument(k, "buffer is NULL");
  isa_tensor t = {.name = name ? name : "",
                  .dtype = byte_of((uint32_t)dtype),
                  .role = byte_of((uint32_t)role),
                  .ndim = byte_of(ndim)};
  if (role == SOMA_CONST)
    return bad_argument(k, "a constant needs data: make it with soma_kernel_constant");
  return tensor(k, &t, shape, buffer);
}

soma_status soma_kernel_constant(soma_kernel *k, soma_dtype dtype, uint32_t ndim,
                                 const int64_t *shape, const void *data, uint32_t *buffer) {
  if (!k || !buffer || !data) return bad_argument(k, "buffer or data is NULL");
  isa_tensor t = {
      .dtype = byte_of((uint32_t)dtype), .role = ISA_CONST, .ndim = byte_of(ndim), .data = data};
  return tensor(k, &t, shape, buffer);
}

soma_status soma_kernel_tile(soma_kernel *k, const soma_kernel_tile_info *info, uint32_t *buffer) {
  if (!k || !buffer) return bad_argument(k, "buffer is NULL");
  soma_kernel_tile_info i = SOMA_KERNEL_TILE_INIT;
  if (!info) return bad_argument(k, "soma_kernel_tile_info is NULL");
  if (info->size < offsetof(soma_kernel_tile_info, file) || info->size > sizeof i)
    return bad_argument(k, "soma_kernel_tile_info.size is not that of the struct");
  memcpy(&i, info, info->size);
  as_kernel_tile t = {.name = i.name,
                      .space = byte_of((uint32_t)i.memory),
                      .dtype = byte_of((uint32_t)i.dtype),
                      .ndim = byte_of(i.ndim),
                      .part = i.partition < 0 ? -1 : i.partition,
                      .offset = i.offset < 0 ? -1 : i.offset,
                      .outside = i.outside,
                      .at = {.file = i.file, .line = i.line}};
  memcpy(t.shape, i.shape, sizeof t.shape);
  bool ok = as_kernel_tile_new(k->k, &t, buffer);
  if (ok) soma_recipe_tile(k->recipe, &t, *buffer);
  return result(k, ok);
}

soma_status soma_kernel_end(soma_kernel *k, uint32_t buffer) {
  if (!k) return SOMA_ARG;
  return noted(k, as_kernel_end(k->k, buffer), SOMA_RECIPE_END, buffer, 0, 0);
}

soma_status soma_kernel_queue(soma_kernel *k, uint32_t dge, soma_engine engine, uint32_t prio,
                              uint32_t *queue) {
  if (!k || !queue) return bad_argument(k, "queue is NULL");
  bool ok = as_kernel_queue(k->k, dge, (unsigned)engine, prio, queue);
  return noted(k, ok, SOMA_RECIPE_QUEUE, dge, (int64_t)engine, prio);
}

soma_status soma_kernel_group(soma_kernel *k, uint32_t lists, const uint32_t *sizes,
                              const uint32_t *ranks, uint32_t *group) {
  isa_group g = {.name = SOMA_GROUP_NAME, .nlists = lists, .sizes = sizes, .ranks = ranks};
  uint64_t all = 0;
  if (!k || !group) return bad_argument(k, "group is NULL");
  if (!sizes || !ranks) return bad_argument(k, "sizes or ranks is NULL");
  /* Added up in 64 bits: sizes that overflow are refused, and not taken for few. */
  for (uint32_t i = 0; i < lists; i++) all += sizes[i];
  g.nranks = all < UINT32_MAX ? (uint32_t)all : UINT32_MAX;
  bool ok = as_kernel_group(k->k, &g, group);
  if (ok) soma_recipe_group(k->recipe, &g);
  return result(k, ok);
}

soma_status soma_kernel_register(soma_kernel *k, uint32_t *reg) {
  if (!k || !reg) return bad_argument(k, "reg is NULL");
  return noted(k, as_kernel_register(k->k, reg), SOMA_RECIPE_REGISTER, 0, 0, 0);
}

soma_status soma_kernel_emit(soma_kernel *k, const int64_t *records, size_t words,
                             uint32_t *first) {
  if (!k) return SOMA_ARG;
  if (!records && words) return bad_argument(k, "records is NULL");
  bool ok = as_kernel_emit(k->k, records, words, first);
  /* Only what may be built again needs its records. */
  if (k->recipe->keeps) soma_recipe_records(k->recipe, ok, records, words, as_kernel_count(k->k));
  return result(k, ok);
}

uint32_t soma_kernel_count(const soma_kernel *k) { return k ? as_kernel_count(k->k) : 0; }

soma_status soma_kernel_order(soma_kernel *k, uint32_t earlier, uint32_t later) {
  if (!k) return SOMA_ARG;
  return noted(k, as_kernel_order(k->k, earlier, later), SOMA_RECIPE_ORDER, earlier, later, 0);
}

soma_status soma_kernel_may_spill(soma_kernel *k) {
  if (!k) return SOMA_ARG;
  return result(k, as_kernel_may_spill(k->k));
}

soma_status soma_kernel_loop(soma_kernel *k, const soma_kernel_range *range, uint32_t *reg) {
  if (!k || !reg) return bad_argument(k, "reg is NULL");
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  if (!range) return bad_argument(k, "soma_kernel_range is NULL");
  if (range->size < offsetof(soma_kernel_range, file) || range->size > sizeof r)
    return bad_argument(k, "soma_kernel_range.size is not that of the struct");
  memcpy(&r, range, range->size);
  as_kernel_range own = {r.start,          r.stop,          r.step,
                         r.start_register, r.stop_register, {.file = r.file, .line = r.line}};
  bool ok = as_kernel_loop(k->k, &own, reg);
  if (ok) soma_recipe_loop(k->recipe, &own);
  return result(k, ok);
}

soma_status soma_kernel_while(soma_kernel *k, uint32_t reg, uint32_t file, uint32_t line) {
  if (!k) return SOMA_ARG;
  bool ok = as_kernel_while(k->k, reg, (isa_line){.file = file, .line = line});
  return noted(k, ok, SOMA_RECIPE_WHILE, reg, file, line);
}

soma_status soma_kernel_endloop(soma_kernel *k) {
  if (!k) return SOMA_ARG;
  return noted(k, as_kernel_endloop(k->k), SOMA_RECIPE_ENDLOOP, 0, 0, 0);
}

/* ---- The program --------------------------------------------------------------------------- */

/* What the builder made, or the error that `failed` has. */
static soma_status finish(soma_kernel *k, const as_kernel *failed, isa_program *ip,
                          soma_program **p, soma_diagnostics **d) {
  *p = NULL;
  if (d) *d = NULL;
  soma_status s = result_of(k, failed, ip != NULL);
  if (s != SOMA_OK) {
    if (d) *d = soma_diagnostics_of(&k->al, k->error);
    return s;
  }
  *p = soma_program_of(&k->al, ip);
  return *p ? SOMA_OK : (bad_argument(k, "out of memory"), SOMA_NOMEM);
}

/* Makes the recipes ready to be read; false: out of memory. */
static bool unpack(soma_kernel *k) {
  return soma_recipe_unpack(k->recipe) && (!k->other || soma_recipe_unpack(k->other));
}

/* The program of the fastest policy, and the kernels that it is of, in place of the first ones.
 * NULL: out of memory. */
static isa_program *tune(soma_kernel *k, soma_kernel *second, isa_program *ip) {
  soma_recipe *r[] = {k->recipe, k->other};
  soma_made made = {.p = ip};
  bool nomem = !unpack(k) || k->recipe->nomem || (second && second->recipe->nomem);
  made.k[0] = k->k;
  if (second) made.k[1] = second->k;
  /* A kernel that is too long for a recipe stays as it was built. */
  if (!nomem && (!k->recipe->keeps || (second && !k->other))) return ip;
  if (!nomem) nomem = !soma_tune(r, second ? 2 : 1, &made, &k->tried);
  if (k->tried) k->choice = k->tried->choice;
  k->failed = k->k = made.k[0];
  if (second) second->failed = second->k = made.k[1];
  if (!nomem) return made.p;
  isa_program_free(made.p);
  return NULL;
}

/* What it gives. */
static soma_status tuned(soma_kernel *k, soma_kernel *second, isa_program *ip, soma_program **p,
                         soma_diagnostics **d) {
  if ((ip = tune(k, second, ip))) return finish(k, k->k, ip, p, d);
  *p = NULL;
  if (d) *d = NULL;
  k->done = false;
  bad_argument(k, "out of memory");
  return SOMA_NOMEM;
}

/* What is made of the recipe may spill if the kernel had to. */
static void learn_spills(soma_kernel *k, const soma_kernel *spilled) {
  as_kernel_spill first;
  if (!as_kernel_get_spill(spilled->k, 0, &first)) return;
  k->recipe->o.flags |= AS_KERNEL_SPILL;
  k->choice.flags |= AS_KERNEL_SPILL;
}

soma_status soma_kernel_finish(soma_kernel *k, soma_program **p, soma_diagnostics **d) {
  if (!k || !p) return bad_argument(k, "p is NULL");
  isa_program *ip = as_kernel_finish(k->k);
  k->done = ip != NULL;
  learn_spills(k, k);
  if (ip && k->optimize > 1) return tuned(k, NULL, ip, p, d);
  return finish(k, k->k, ip, p, d);
}

soma_status soma_kernel_finish_pair(soma_kernel *first, soma_kernel *second, soma_program **p,
                                    soma_diagnostics **d) {
  if (!first || !p) return bad_argument(first, "p is NULL");
  *p = NULL;
  if (d) *d = NULL;
  if (!second || first == second)
    return bad_argument(first, "a program of two cores needs a kernel for each core");
  as_kernel *failed = first->k;
  isa_program *ip = as_kernel_finish_pair(first->k, second->k, &failed);
  first->done = ip != NULL;
  learn_spills(first, first);
  learn_spills(first, second);
  if (ip && first->recipe->keeps && second->recipe->keeps) {
    /* The second kernel may be freed before the first is asked for advice. */
    first->other = second->recipe;
    first->other->refs++;
  }
  if (ip && first->optimize > 1 && second->optimize > 1) return tuned(first, second, ip, p, d);
  return finish(first, failed, ip, p, d);
}

/* What there is to say, tried when it is first asked for; NULL: nothing is. */
static const soma_advisor *advisor_of(soma_kernel *k) {
  soma_recipe *r[] = {k->recipe, k->other};
  if (!k->advises || !k->done || (k->recipe->o.cores > 1 && !k->other)) return NULL;
  if (!k->advisor && !unpack(k)) return NULL;
  if (!k->advisor) k->advisor = soma_advise(r, k->recipe->o.cores, &k->choice);
  return k->advisor;
}

soma_status soma_kernel_get_advice(soma_kernel *k, uint32_t i, soma_kernel_advice *out, size_t n) {
  const soma_advisor *a = k && out ? advisor_of(k) : NULL;
  if (!a || i >= a->n) return SOMA_ARG;
  return soma_give(out, n, &a->list[i].a, sizeof a->list[i].a);
}

soma_status soma_kernel_report(const soma_kernel *k, soma_write_fn write, void *ud) {
  if (!k || !write) return SOMA_ARG;
  isa_buf b;
  isa_buf_init(&b, &k->al);
  as_kernel_report(k->k, &b);
  if (k->tried) soma_tried_print(k->tried, &b);
  const soma_advisor *a = advisor_of((soma_kernel *)(uintptr_t)k); /* it only remembers them */
  if (a) soma_advisor_print(a, &b);
  soma_status s = b.failed ? SOMA_NOMEM : write(ud, isa_buf_str(&b), b.len) ? SOMA_IO : SOMA_OK;
  isa_buf_free(&b);
  return s;
}

void soma_kernel_get_figures(const soma_kernel *k, soma_kernel_figures *out, size_t n) {
  if (!k || !out) return;
  const as_kernel_figures *f = as_kernel_get_figures(k->k);
  soma_kernel_figures own = {.instructions = f->instructions,
                             .made = f->made,
                             .nops = f->nops,
                             .dependences = f->dependences,
                             .waits = f->waits,
                             .reuse_waits = f->reuse_waits,
                             .transfers = f->transfers,
                             .queues = f->queues,
                             .semaphores = f->semaphores,
                             .tiles = f->tiles,
                             .sbuf_bytes = f->sbuf_bytes,
                             .psum_bytes = f->psum_bytes,
                             .spills = f->spills,
                             .spilled_bytes = f->spilled_bytes,
                             .dma_busy = f->dma_busy,
                             .bound = (soma_kernel_bound)f->bound,
                             .copies = f->copies,
                             .versions = f->versions,
                             .left_out = f->left_out,
                             .trimmed = f->trimmed,
                             .moved = f->moved};
  memcpy(own.busy, f->busy, sizeof own.busy);
  memcpy(out, &own, n < sizeof own ? n : sizeof own);
}

soma_status soma_kernel_get_life(const soma_kernel *k, uint32_t buffer, soma_kernel_life *out) {
  if (!k || !out) return SOMA_ARG;
  as_kernel_life l;
  if (!as_kernel_get_life(k->k, buffer, &l)) return SOMA_ARG;
  *out = (soma_kernel_life){
      l.name, (soma_memory)l.space, l.part, l.parts, l.offset, l.bytes, l.first, l.last, l.used};
  return SOMA_OK;
}

soma_status soma_kernel_get_wait(const soma_kernel *k, uint32_t i, soma_kernel_wait *out) {
  if (!k || !out) return SOMA_ARG;
  as_kernel_wait w;
  if (!as_kernel_get_wait(k->k, i, &w)) return SOMA_ARG;
  *out = (soma_kernel_wait){(soma_engine)w.engine, w.pc, w.later, w.earlier, w.buffer, w.reuse};
  return SOMA_OK;
}

soma_status soma_kernel_get_policy(const soma_kernel *k, uint32_t i, soma_kernel_policy *out,
                                   size_t n) {
  if (!k || !out || !k->tried || i >= k->tried->n) return SOMA_ARG;
  return soma_give(out, n, &k->tried->policy[i], sizeof *k->tried->policy);
}

soma_status soma_kernel_get_unwritten(const soma_kernel *k, uint32_t i,
                                      soma_kernel_unwritten *out) {
  if (!k || !out) return SOMA_ARG;
  as_kernel_unwritten u;
  if (!as_kernel_get_unwritten(k->k, i, &u)) return SOMA_ARG;
  *out = (soma_kernel_unwritten){u.buffer, u.text, as_kernel_file_name(k->k, u.at.file), u.at.line};
  return SOMA_OK;
}

soma_status soma_kernel_get_left(const soma_kernel *k, uint32_t i, soma_kernel_left *out) {
  if (!k || !out) return SOMA_ARG;
  as_kernel_left l;
  if (!as_kernel_get_left(k->k, i, &l)) return SOMA_ARG;
  *out = (soma_kernel_left){isa_ops[l.op].number,
                            l.at.line,
                            as_kernel_file_name(k->k, l.at.file),
                            l.name,
                            l.left,
                            l.of,
                            l.why};
  return SOMA_OK;
}

/* ---- The instruction set ------------------------------------------------------------------- */

int soma_opcode(const char *name) {
  if (!name) return -1;
  int op = isa_op_find(name, strlen(name));
  return op < 0 ? -1 : isa_ops[op].number;
}

soma_status soma_opcode_row(uint32_t i, soma_opcode_info *out) {
  if (!out) return SOMA_ARG;
  if (i >= ISA_NOPS) return SOMA_ARG;
  const isa_op_row *r = &isa_ops[i];
  *out = (soma_opcode_info){.name = r->name,
                            .meaning = r->meaning,
                            .number = r->number,
                            .engines = r->engines,
                            .generation = r->gen,
                            .fields = isa_form_of(i)->nfields,
                            .control = isa_op_is_control(i),
                            .dma = isa_op_is_dma(i),
                            .recorded = as_kernel_takes(i)};
  return SOMA_OK;
}

soma_status soma_opcode_field(uint32_t opcode, uint32_t i, soma_field *out) {
  int op = isa_op_by_number(opcode);
  if (op < 0 || i >= isa_form_of((unsigned)op)->nfields) return SOMA_ARG;
  const isa_field *f = &isa_form_of((unsigned)op)->fields[i];
  memset(out, 0, sizeof *out);
  out->name = f->name;
  out->kind = (soma_field_kind)f->kind;
  out->mode = f->mode;
  switch (f->kind) {
  case ISA_K_AP:
  case ISA_K_APS:
    out->reads = (f->arg & AP_R) != 0;
    out->writes = (f->arg & AP_W) != 0;
    out->sbuf = (f->arg & AP_S) != 0;
    out->psum = (f->arg & AP_M) != 0;
    out->hbm = (f->arg & AP_H) != 0;
    out->column = (f->arg & AP_COL) != 0;
    out->element = (f->arg & AP_ELEM) != 0;
    out->dims = f->arg & AP_DIMS;
    break;
  case ISA_K_ENUM: out->set = f->arg; break;
  default: out->most = f->arg; break;
  }
  return SOMA_OK;
}

const char *soma_field_kind_name(soma_field_kind kind) {
  static const char *const names[] = {
#define KIND(name, type, bytes) #name,
      ISA_KINDS(KIND)
#undef KIND
  };
  return (unsigned)kind < ISA_NKINDS ? names[kind] : NULL;
}

const char *soma_field_value(const soma_field *f, uint32_t i) {
  if (!f) return NULL;
  switch (f->kind) {
  case SOMA_FIELD_ENUM: return isa_set_item(f->set, i);
  case SOMA_FIELD_ALU: return i < ISA_NALUOPS ? isa_aluops[i].name : NULL;
  case SOMA_FIELD_ACTF: return i < ISA_NACTFNS ? isa_actfns[i].name : NULL;
  default: return NULL;
  }
}

int soma_field_code(const soma_field *f, const char *name) {
  if (!f || !name) return -1;
  switch (f->kind) {
  case SOMA_FIELD_ENUM: return isa_set_find(f->set, name, strlen(name));
  case SOMA_FIELD_ALU: return isa_aluop_find(name, strlen(name));
  case SOMA_FIELD_ACTF: return isa_actfn_find(name, strlen(name));
  default: return -1;
  }
}

int soma_is_word(const char *name) { return name && isa_is_word(name); }
