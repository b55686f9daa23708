/* The facade: soma.h over the assembler and the VM. It and assemble.c use both. */
#include "../time/clock.h"
#include "impl.h"

#include "../../asm/dis/dis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The public numbers are those of the tables.
 * Tables may be reordered, public numbers may not; these stop a build that would
 * differ. */
#define SAME(public_name, own) \
  _Static_assert((int)(public_name) == (int)(own), #public_name " differs from the table")
SAME(SOMA_OK, ISA_OK);
SAME(SOMA_NOMEM, ISA_NOMEM);
SAME(SOMA_IO, ISA_IO);
SAME(SOMA_FAULT, ISA_FAULT);
SAME(SOMA_BUSY, ISA_BUSY);
SAME(SOMA_UINT8, ISA_uint8);
SAME(SOMA_FLOAT8_E4M3FN, ISA_float8_e4m3fn);
SAME(SOMA_FLOAT32, ISA_float32);
SAME(SOMA_BOOL, ISA_bool);
SAME(SOMA_TENSOR, ISA_ENG_tensor);
SAME(SOMA_SYNC, ISA_ENG_sync);
SAME(SOMA_TEMP, ISA_TEMP);
SAME(SOMA_CONST, ISA_CONST);
SAME(SOMA_SBUF, ISA_SBUF);
SAME(SOMA_PSUM, ISA_PSUM);
SAME(SOMA_EV_WAIT, VM_EV_WAIT);
SAME(SOMA_EV_MEET, VM_EV_MEET);
SAME(SOMA_EV_TABLE, VM_EV_TABLE);
SAME(SOMA_TIME, VM_UNTIL_TIME);
SAME(SOMA_CUSTOM_OPERANDS, VM_LIST);

/* A number that stands for nothing has no name (NULL) and no size (0). */
const char *soma_version(void) { return SOMA_VERSION; }
const char *soma_status_text(soma_status s) { return isa_status_text((int)s); }
const char *soma_dtype_name(soma_dtype t) {
  return isa_dtype_valid((unsigned)t) ? isa_dtypes[t].name : NULL;
}
size_t soma_dtype_size(soma_dtype t) {
  return isa_dtype_valid((unsigned)t) ? isa_dtypes[t].bytes : 0;
}
const char *soma_engine_name(soma_engine e) {
  return (unsigned)e < ISA_NSEQS ? isa_engines[e].name : NULL;
}

/* Every message goes through here, and stays until the next one. */
soma_status soma_fail(soma_machine *m, soma_status s, const char *fmt, ...) {
  isa_buf b;
  va_list ap;
  isa_buf_init(&b, &m->al);
  va_start(ap, fmt);
  isa_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  /* A message that did not fit into memory is replaced by its status. */
  const char *text = b.failed ? soma_status_text(s) : isa_buf_str(&b);
  size_t n = strlen(text);
  n = n < sizeof m->error ? n : sizeof m->error - 1;
  memcpy(m->error, text, n);
  m->error[n] = 0;
  isa_buf_free(&b);
  return s;
}

/* names: words with blanks between them, as many as there are pointers. */
bool soma_given(soma_machine *m, const char *names, ...) {
  va_list ap;
  bool all = m != NULL;
  va_start(ap, names);
  while (all && *names) {
    int n = (int)strcspn(names, " ");
    all = va_arg(ap, const void *) != NULL;
    if (!all) soma_fail(m, SOMA_ARG, "%.*s is NULL", n, names);
    names += n;
    names += *names == ' ';
  }
  va_end(ap);
  return all;
}

soma_status soma_not_running(soma_machine *m) {
  /* A custom operator is called within a run, and may do less. */
  if (!m->running) return soma_not_calling(m);
  return soma_fail(m, SOMA_BUSY,
                   "soma_run_until is at work: a callback may read the run, not change it");
}

soma_status soma_out_of_memory(soma_machine *m) {
  return soma_fail(m, SOMA_NOMEM, "out of memory");
}

/* ---- Machines ----------------------------------------------------------------------------- */

/* "unknown WHAT 'NAME'; there are: a, b": each gives the names. */
static soma_status unknown_name(soma_machine *m, const char *what, const char *name,
                                const char *(*each)(unsigned i)) {
  isa_buf b;
  isa_buf_init(&b, &m->al);
  /* Until `each` gives NULL. */
  for (unsigned i = 0; each(i); i++) isa_buf_printf(&b, i ? ", %s" : "%s", each(i));
  soma_status s =
      soma_fail(m, SOMA_ARG, "unknown %s '%s'; there are: %s", what, name, isa_buf_str(&b));
  isa_buf_free(&b);
  return s;
}
static const char *level_name(unsigned i) { return vm_kern_levels[i]; }

/* The costs, those of a hypothetical machine before those of the options. */
static soma_status take_costs(soma_machine *m) {
  isa_error e = {0};
  const char *text = m->o.costs;
  vm_costs_default(&m->costs);
  /* The machine's own changes first, so that options of the call win. */
  if (m->target && !vm_costs_of_target(&m->costs, m->target, &e))
    return soma_fail(m, SOMA_ARG, "%s", e.text);
  if (text && !vm_costs_read(&m->costs, text, strlen(text), &e))
    return soma_fail(m, SOMA_ARG, "%s", e.text);
  return SOMA_OK;
}

static soma_status take_target(soma_machine *m) {
  isa_error e = {0};
  const char *text = m->o.target;
  if (!text) return SOMA_OK;
  if (!isa_target_read(text, strlen(text), &m->own_target, &e))
    return soma_fail(m, (soma_status)e.status, "%s", e.text);
  /* The text is the machine's from here on; its name is made of it. */
  m->target = isa_target_keep(&m->own_target, &m->own_target);
  m->o.target = m->target->name; /* the caller's string need not stay */
  return SOMA_OK;
}

static soma_status take_options(soma_machine *m) {
  const soma_options *o = &m->o;
  if (o->checks >> VM_NCHECKS)
    return soma_fail(m, SOMA_ARG, "checks is %#x; it has bits up to %#x", o->checks,
                     (unsigned)SOMA_CHECK_ALL);
  /* Written so that a NaN is refused, too. */
  if (!(o->max_seconds >= 0))
    return soma_fail(m, SOMA_ARG, "max_seconds is %g; it is 0 or more", o->max_seconds);
  if (!(o->max_cpu_seconds >= 0))
    return soma_fail(m, SOMA_ARG, "max_cpu_seconds is %g; it is 0 or more", o->max_cpu_seconds);
  if (o->threads > VM_WORK_THREADS)
    return soma_fail(m, SOMA_ARG, "threads is %u; it is 0 to %d", o->threads, VM_WORK_THREADS);
  soma_status s = take_target(m);
  if (s != SOMA_OK || (s = take_costs(m)) != SOMA_OK) return s;
  if (!vm_kern_select(o->simd, &m->kern)) return unknown_name(m, "simd level", o->simd, level_name);
  return SOMA_OK;
}

/* Cut off where the caller's buffer is short. */
soma_status soma_tell(char *to, size_t size, soma_status s, const char *text) {
  if (!to || !size) return s;
  size_t n = strlen(text);
  n = n < size ? n : size - 1;
  memcpy(to, text, n);
  to[n] = 0;
  return s;
}

/* Tells the caller of soma_machine_new why there is no machine; "" if there is one. */
static soma_status tell(const soma_options *o, soma_status s, const char *text) {
  return soma_tell(o->error, o->error_size, s, text);
}

/* Copies what the caller has of the options. An older caller has less of them; one that is newer is
 * refused with a text, but not one whose size is no size at all. */
static soma_status read_options(const soma_options *from, soma_options *o) {
  enum { LEAST = offsetof(soma_options, max_instructions), NEWER = 4096 };
  char text[160];
  if (from->size >= LEAST && from->size <= sizeof *o) {
    memcpy(o, from, from->size);
    return SOMA_OK;
  }
  /* What is no size at all may be a pointer to something else: nothing of it is read, not even
   * `error`. */
  if (from->size < LEAST || from->size > NEWER) return SOMA_ARG;
  snprintf(text, sizeof text,
           "soma_options.size is %zu; version %s of the library takes %d to %zu bytes", from->size,
           SOMA_VERSION, LEAST, sizeof *o);
  return tell(from, SOMA_ARG, text);
}

soma_status soma_machine_new(const soma_options *options, soma_machine **out) {
  soma_options o = SOMA_OPTIONS_INIT;
  if (!out) return SOMA_ARG;
  *out = NULL;
  if (options && read_options(options, &o) != SOMA_OK) return SOMA_ARG;
  /* The buffer has no old text. */
  tell(&o, SOMA_OK, "");
  isa_alloc al = o.alloc ? (isa_alloc){o.alloc, o.alloc_ud} : isa_alloc_default();
  soma_machine *m = isa_zalloc(&al, sizeof *m);
  /* No handle has the message yet: the caller's buffer gets it. */
  if (!m) return tell(&o, SOMA_NOMEM, soma_status_text(SOMA_NOMEM));
  m->o = o;
  m->o.error = NULL; /* it is the caller's only for this call */
  m->al = al;
  soma_status s = take_options(m);
  /* The memories of a machine whose target is known are made at once: the first run should not fail
   * for them. */
  if (s == SOMA_OK && m->target && !vm_memory_new(&m->al, m->target, &m->mem[0]))
    s = soma_out_of_memory(m);
  if (s != SOMA_OK) {
    tell(&o, s, m->error);
    isa_free(&al, m, sizeof *m);
    return s;
  }
  /* A world may let several machines share one HBM. */
  m->hbm = &m->own_hbm;
  m->stack = &m->own_stack;
  /* Tensors may be made before the target is known: as on trn2, and soma_fit_target moves the
   * limit. */
  vm_hbm_init(m->hbm, &m->al, m->target ? m->target : &isa_targets[isa_target_find("trn2", 4)],
              o.max_hbm_bytes);
  m->stack->addresses = m->hbm;
  /* A caller's allocator may want its memory back at once. */
  if (!o.alloc) m->pool = vm_pool_new(&al);
  vm_work_open(&m->threads, o.threads, sizeof(vm_workspace));
  *out = m;
  return SOMA_OK;
}

void soma_machine_free(soma_machine *m) {
  /* From a callback nothing is freed. */
  if (!m || m->calling || m->running) return;
  /* The order is that of who refers to whom: world, run, bindings, tensors.
   * A world without one of its machines cannot go on. */
  if (m->world) soma_world_lose(m->world, m);
  if (m->run) soma_run_leave(m->run);
  soma_customs_free(m);
  soma_unbind(m, NULL);
  soma_drop_from_device(m, NULL);
  /* Tensors that the caller still has live on without HBM. */
  for (soma_tensor *t = m->tensors; t; t = t->next) t->m = NULL;
  for (unsigned i = 0; i < ISA_MAX_CORES; i++)
    if (m->mem[i].sbuf) vm_memory_free(&m->al, &m->mem[i]);
  vm_pool_close(m->pool);
  vm_work_close(&m->threads);
  vm_hbm_free(&m->own_hbm);
  isa_free(&m->al, m->bindings, m->cap_bindings * sizeof *m->bindings);
  isa_free(&m->al, m->residents, m->cap_residents * sizeof *m->residents);
  isa_free(&m->al, m, sizeof *m);
}

/* From the next run on. */
soma_status soma_set_schedule(soma_machine *m, uint64_t schedule) {
  if (!m) return SOMA_ARG;
  m->o.schedule = schedule;
  return SOMA_OK;
}

soma_status soma_machine_clear(soma_machine *m) {
  if (!m) return SOMA_ARG;
  /* Memories of a run at work are not the host's. */
  if (m->run && !m->run->run.ended)
    return soma_fail(m, SOMA_BUSY, "the machine has a run that has not ended");
  /* Both cores' memories, where they exist. */
  for (unsigned i = 0; i < ISA_MAX_CORES; i++)
    if (m->mem[i].sbuf) vm_memory_clear(&m->mem[i]);
  m->away = false;
  return SOMA_OK;
}

/* Never NULL, so that callers can print it. */
const char *soma_error(const soma_machine *m) { return m ? m->error : "the machine is NULL"; }
const char *soma_target(const soma_machine *m) { return m && m->target ? m->target->name : NULL; }
static soma_status tell_target(const isa_target *t, soma_target_info *out, size_t n) {
  soma_target_info all = {t->name,       (uint32_t)t->gen, t->cores,        t->sbuf_bytes,
                          t->psum_bytes, t->dma,           t->hypothetical, 0};
  /* An older caller has a shorter struct. */
  memcpy(out, &all, n < sizeof all ? n : sizeof all);
  return SOMA_OK;
}
soma_status soma_target_row(uint32_t i, soma_target_info *out, size_t n) {
  if (!out || i >= ISA_NTARGETS) return SOMA_ARG;
  const isa_target *t = &isa_targets[i];
  return tell_target(t, out, n);
}
soma_status soma_machine_target(const soma_machine *m, soma_target_info *out, size_t n) {
  return m && m->target && out ? tell_target(m->target, out, n) : SOMA_ARG;
}
void soma_machine_interrupt(soma_machine *m) {
  /* From any thread: one store. */
  if (m) m->interrupted = 1;
}

/* From the next run on; runs keep the costs that they began with. */
soma_status soma_costs_set(soma_machine *m, const char *text, size_t n) {
  if (!soma_given(m, "text", text)) return SOMA_ARG;
  isa_error e = {0};
  if (vm_costs_read(&m->costs, text, n, &e)) return SOMA_OK;
  return soma_fail(m, SOMA_ARG, "%s", e.text);
}

/* ---- Programs ----------------------------------------------------------------------------- */

soma_program *soma_program_of(const isa_alloc *al, isa_program *ip) {
  soma_program *sp = isa_zalloc(al, sizeof *sp);
  if (!sp) {
    /* The program is the callee's in any case. */
    isa_program_free(ip);
    return NULL;
  }
  sp->p = ip;
  sp->al = *al;
  sp->refs = 1;
  return sp;
}

soma_status soma_wrap(soma_machine *m, isa_program *ip, soma_program **p) {
  *p = soma_program_of(&m->al, ip);
  return *p ? SOMA_OK : soma_out_of_memory(m);
}

soma_status soma_program_load(soma_machine *m, const void *data, size_t n, soma_program **p) {
  if (!soma_given(m, "data p", data, p)) return SOMA_ARG;
  /* NULL on every failure. */
  isa_error e = {0};
  *p = NULL;
  isa_program *ip = isa_image_read(&m->al, data, n, &e);
  if (!ip) return soma_fail(m, (soma_status)e.status, "%s", e.text);
  return soma_wrap(m, ip, p);
}

/* Returns a buffer's bytes as a block from malloc. */
static soma_status give_buffer(soma_machine *m, isa_buf *b, void **data, size_t *n) {
  /* malloc, whatever the machine's allocator is: the caller frees it by soma_bytes_free. */
  *data = b->failed ? NULL : malloc(b->len + 1);
  if (!*data) {
    isa_buf_free(b);
    return soma_out_of_memory(m);
  }
  memcpy(*data, isa_buf_str(b), b->len);
  ((char *)*data)[b->len] = 0;
  /* A zero after the bytes, for those who take them as text. */
  *n = b->len;
  isa_buf_free(b);
  return SOMA_OK;
}

soma_status soma_program_save(soma_machine *m, soma_program *p, void **data, size_t *n) {
  if (!soma_given(m, "p data n", p, data, n)) return SOMA_ARG;
  isa_buf b;
  isa_buf_init(&b, &m->al);
  *data = NULL;
  if (!isa_image_write(p->p, &b)) b.failed = true;
  return give_buffer(m, &b, data, n);
}

/* Source and disassembly differ only in the printer. */
static soma_status print_program(soma_machine *m, const soma_program *p, char **text, size_t *n,
                                 void (*print)(const isa_program *p, isa_buf *out)) {
  isa_buf b;
  void *data;
  isa_buf_init(&b, &m->al);
  print(p->p, &b);
  soma_status s = give_buffer(m, &b, &data, n);
  *text = data;
  return s;
}

static void print_source(const isa_program *p, isa_buf *out) {
  isa_print_program(p, ISA_TEXT_RAW, out);
}

soma_status soma_program_print(soma_machine *m, soma_program *p, char **text, size_t *n) {
  if (!soma_given(m, "p text n", p, text, n)) return SOMA_ARG;
  return print_program(m, p, text, n, print_source);
}

soma_status soma_disassemble(soma_machine *m, const soma_program *p, char **text, size_t *n) {
  if (!soma_given(m, "p text n", p, text, n)) return SOMA_ARG;
  *text = NULL;
  soma_program *own; /* with names of its own: the file may give one name twice */
  void *image;
  size_t bytes;
  /* Names are made in a copy, through its file. */
  soma_status s = soma_program_save(m, (soma_program *)(uintptr_t)p, &image, &bytes);
  if (s != SOMA_OK) return s;
  s = soma_program_load(m, image, bytes, &own);
  soma_bytes_free(image);
  if (s != SOMA_OK) return s;
  s = as_dis_names(own->p) ? print_program(m, own, text, n, as_dis_text) : soma_out_of_memory(m);
  soma_program_free(own);
  return s;
}

soma_status soma_costs_print(soma_machine *m, const char *target, char **text, size_t *n) {
  if (!soma_given(m, "text n", text, n)) return SOMA_ARG;
  const isa_target *t = m->target ? m->target : &isa_targets[isa_target_find("trn2", 4)];
  isa_buf b;
  void *data;
  *text = NULL;
  isa_error e = {0};
  isa_target asked;
  vm_costs costs = m->costs;
  if (target) {
    /* A target that is asked for brings its own constants. */
    if (!isa_target_read(target, strlen(target), &asked, &e) ||
        !vm_costs_of_target(&costs, &asked, &e))
      return soma_fail(m, SOMA_ARG, "%s", e.text);
    t = &asked;
  }
  isa_buf_init(&b, &m->al);
  vm_costs_print(&costs, (unsigned)t->gen - ISA_GEN2, &b);
  soma_status s = give_buffer(m, &b, &data, n);
  *text = data;
  return s;
}

void soma_bytes_free(void *data) { free(data); }

void soma_program_free(soma_program *p) {
  if (!p || --p->refs) return;
  isa_alloc al = p->al;
  isa_program_free(p->p);
  isa_free(&al, p, sizeof *p);
}

const char *soma_program_target(const soma_program *p) { return p ? p->p->target->name : NULL; }
uint32_t soma_program_tensors(const soma_program *p) { return p ? p->p->ntensors : 0; }
unsigned soma_program_cores(const soma_program *p) { return p ? p->p->ncores : 0; }
uint32_t soma_program_tiles(const soma_program *p) { return p ? p->p->ntiles : 0; }

soma_status soma_program_tensor(const soma_program *p, uint32_t i, soma_tensor_info *out) {
  if (!p || !out || i >= p->p->ntensors) return SOMA_ARG;
  const isa_tensor *t = &p->p->tensors[i];
  memset(out, 0, sizeof *out);
  out->name = t->name;
  out->dtype = (soma_dtype)t->dtype;
  out->role = (soma_role)t->role;
  out->ndim = t->ndim;
  memcpy(out->shape, t->shape, sizeof out->shape);
  out->bytes = t->bytes;
  return SOMA_OK;
}

soma_status soma_program_tile(const soma_program *p, uint32_t i, soma_tile_info *out) {
  if (!p || !out || i >= p->p->ntiles) return SOMA_ARG;
  const isa_tile *t = &p->p->tiles[i];
  memset(out, 0, sizeof *out);
  out->name = t->name;
  out->memory = (soma_memory)t->space;
  out->dtype = (soma_dtype)t->dtype;
  out->ndim = t->ndim;
  memcpy(out->shape, t->shape, sizeof out->shape);
  out->partition = t->part;
  out->offset = t->offset;
  out->bytes = t->bytes;
  return SOMA_OK;
}

soma_status soma_program_tile_origin(const soma_program *p, uint32_t i, char *out, size_t n) {
  char text[ISA_ITERATION];
  if (!p || !out || !n || i >= p->p->ntiles) return SOMA_ARG;
  size_t len = strlen(isa_iteration(&p->p->tiles[i], text, sizeof text));
  /* Without the space and the parentheses around it. */
  snprintf(out, n, "%.*s", len ? (int)len - 3 : 0, text + (len ? 2 : 0));
  return SOMA_OK;
}

int soma_program_core_semaphore(const soma_program *p, unsigned core, const char *name) {
  /* Names of the other core are others. */
  if (!p || !name || core >= p->p->ncores) return -1;
  const char *const *names = p->p->cores[core].sem_names;
  for (int i = 0; i < ISA_NSEMS; i++)
    if (names[i] && strcmp(names[i], name) == 0) return i;
  return -1;
}

int soma_program_semaphore(const soma_program *p, const char *name) {
  return soma_program_core_semaphore(p, 0, name);
}
