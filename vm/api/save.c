/* soma_run_save and soma_run_resume: the file around a run's state.
 *
 *   0  MAGIC   8 SOMA_VERSION, 14 bytes, zero-padded   22 LAYOUT u16   24 length of all u64
 *  32  hash u64: of every other byte
 *  40  the program: length u64, then its .sbc bytes; u64 of each first dimension that it leaves
 *      to the run; bytes copied to and from the host, u64 each
 *  ..  options, then the state (save.c) */
#include "impl.h"

#include "../check/check.h"
#include "../debug/debug.h"
#include "../save/save.h"

#include <string.h>

const soma_file_kind soma_run_file = {"SomaRun\n", "run", 5};
const soma_file_kind soma_world_file = {"SomaWld\n", "world", 1};
enum {
  AT_VERSION = 8,
  VERSION_BYTES = 14,
  AT_LAYOUT = 22,
  AT_LENGTH = 24,
  AT_HASH = 32,
  HEADER = SOMA_FILE_HEADER
};

_Static_assert(sizeof SOMA_VERSION <= VERSION_BYTES, "the version has no room in the header");

/* Eight bytes per step; each step is a bijection of what came before, so that no single change is
 * lost. */
/* The order of bytes matters: it is not a sum. */
static uint64_t hash_bytes(uint64_t h, const uint8_t *p, size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    uint8_t last[8] = {0};
    if (n - i < 8) memcpy(last, p + i, n - i);
    h = (h ^ isa_get64(n - i < 8 ? last : p + i)) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 29;
  }
  return h;
}

static uint64_t hash_of(const uint8_t *p, size_t n) {
  /* All but the hash itself. */
  return hash_bytes(hash_bytes(ISA_FNV_START, p, AT_HASH), p + HEADER, n - HEADER);
}

void soma_begin_file(isa_buf *b, const soma_file_kind *kind) {
  uint8_t header[HEADER] = {0};
  memcpy(header, kind->magic, AT_VERSION);
  memcpy(header + AT_VERSION, SOMA_VERSION, sizeof SOMA_VERSION - 1);
  isa_put16(header + AT_LAYOUT, kind->layout);
  isa_buf_add(b, header, sizeof header);
}

void soma_end_file(isa_buf *b) {
  if (b->failed) return;
  isa_put64((uint8_t *)b->data + AT_LENGTH, b->len);
  isa_put64((uint8_t *)b->data + AT_HASH, hash_of((uint8_t *)b->data, b->len));
}

/* ---- Saving -------------------------------------------------------------------------------- */

static bool overlap(const soma_tensor *a, const soma_tensor *b) {
  return a && b && a->block.address < b->block.address + b->block.bytes &&
         b->block.address < a->block.address + a->block.bytes;
}

soma_status soma_check_own_bytes(soma_run *r) {
  /* Few tensors are bound: pairs are compared one by one. */
  const isa_program *p = r->p->p;
  for (uint32_t i = 0; r->device && i < p->ntensors; i++)
    for (uint32_t k = 0; k < i; k++)
      if (overlap(r->device[i], r->device[k]))
        return soma_fail(r->m, SOMA_ARG,
                         "a run cannot be saved while one device tensor is bound to two of its "
                         "tensors, `%s` and `%s`",
                         p->tensors[k].name, p->tensors[i].name);
  return SOMA_OK;
}

soma_status soma_check_savable(soma_run *r) {
  const vm_run *run = &r->run;
  soma_status why = (soma_status)run->fault.status;
  /* A run without a machine has lost its memories. */
  if (!r->m) return SOMA_ARG;
  /* In the middle of an event the state is in no order. */
  if (run->running)
    return soma_fail(r->m, SOMA_BUSY, "the run cannot be saved from its own callback");
  if (r->m->world)
    return soma_fail(r->m, SOMA_ARG, "a rank is saved with its world: world:save, soma_world_save");
  if (r->m->away) return soma_bring_memories(r->m);
  /* Stopped and limited runs can go on. */
  if (why == SOMA_OK || why == SOMA_STOPPED || why == SOMA_LIMIT) return soma_check_own_bytes(r);
  return soma_fail(r->m, SOMA_ARG, "a run that ended with a fault cannot be saved (%s): %s",
                   soma_status_text(why), run->fault.text.data ? run->fault.text.data : "");
}

vm_save_options soma_save_options(const vm_run *r) {
  const vm_core *c = r->cores[0];
  vm_save_options o = {.cvt = c->eng[0].dp.cvt,
                       .timing_only = r->timing_only,
                       .causes = c->path != NULL,
                       .rounding_seed = c->eng[0].dp.rounding_seed};
  memcpy(o.cost, r->cost_values, sizeof o.cost);
  return o;
}

void soma_put_program(isa_buf *b, isa_program *p) {
  /* The length comes before the bytes that it counts. */
  uint8_t length[8] = {0};
  size_t at = b->len;
  isa_buf_add(b, length, sizeof length);
  isa_buf image; /* offsets within an image are relative to it */
  isa_buf_init(&image, &b->al);
  if (!isa_image_write(p, &image) || image.failed) b->failed = true;
  isa_buf_add(b, image.data, image.len);
  if (!b->failed) isa_put64((uint8_t *)b->data + at, image.len);
  isa_buf_free(&image);
}

void soma_save_head(vm_saver *s, const soma_run *r) {
  vm_save_options o = soma_save_options(&r->run);
  uint64_t to_device = r->to_device;
  uint64_t to_host = r->to_host - r->fetched_late; /* whoever resumes the run fetches them again */
  soma_save_rows(s, r);
  vm_save_u64(s, &to_device);
  vm_save_u64(s, &to_host);
  vm_save_options_walk(s, &o);
}

soma_status soma_state_write(soma_run *r, vm_saver *s) {
  soma_status status = soma_check_savable(r);
  if (status != SOMA_OK) return status;
  soma_save_head(s, r);
  vm_save_walk(s, &r->run);
  return s->out->failed ? soma_out_of_memory(r->m) : SOMA_OK;
}

soma_status soma_run_save(soma_run *r, void **data, size_t *n) {
  if (!r || !data || !n) return SOMA_ARG;
  *data = NULL;
  *n = 0;
  isa_alloc al = isa_alloc_default();
  /* What whoever resumes would fetch again is not counted twice. */
  isa_buf b;
  isa_buf_init(&b, &al);
  soma_begin_file(&b, &soma_run_file);
  soma_put_program(&b, r->p->p);
  soma_status status = soma_state_write(r, &(vm_saver){.out = &b});
  if (status != SOMA_OK) {
    isa_buf_free(&b);
    return status;
  }
  soma_end_file(&b);
  /* isa_buf with the default allocator. */
  *data = b.data; /* from malloc */
  *n = b.len;
  return SOMA_OK;
}

/* ---- Resuming ------------------------------------------------------------------------------ */

/* Whether its magic is that of the kind; else what it is. */
static bool check_magic(const soma_file_kind *kind, const uint8_t *p, size_t n, isa_error *e) {
  /* A file of the other kind is the likeliest mistake. */
  const soma_file_kind *other = kind == &soma_run_file ? &soma_world_file : &soma_run_file;
  if (n >= HEADER && memcmp(p, kind->magic, AT_VERSION) == 0) return true;
  if (n >= HEADER && memcmp(p, other->magic, AT_VERSION) == 0)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "this is a saved %s, not a saved %s", other->what,
                    kind->what);
  return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "this is not a saved %s", kind->what);
}

bool soma_check_file(const soma_file_kind *kind, const void *data, size_t n, isa_error *e) {
  const uint8_t *p = data;
  const char *what = kind->what;
  if (!check_magic(kind, p, n, e)) return false;
  char version[VERSION_BYTES + 1] = {0};
  memcpy(version, p + AT_VERSION, VERSION_BYTES);
  /* Only what can be shown. */
  for (unsigned i = 0; version[i]; i++)
    if (version[i] < ' ' || version[i] > '~') version[i] = '?';
  if (strcmp(version, SOMA_VERSION) != 0)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD,
                    "the %s was saved by version %s, this is version %s: a %s is resumed by "
                    "the version that saved it",
                    what, version, SOMA_VERSION, what);
  if (isa_get16(p + AT_LAYOUT) != kind->layout)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD,
                    "the %s was saved in layout %u of version %s, this one reads layout %u: a %s "
                    "is resumed by the version that saved it",
                    what, isa_get16(p + AT_LAYOUT), version, kind->layout, what);
  /* A file that was cut off, or has something after it. */
  uint64_t length = isa_get64(p + AT_LENGTH);
  if (length != n)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD,
                    "the saved %s has %zu bytes, but was written with %llu", what, n,
                    (unsigned long long)length);
  return isa_get64(p + AT_HASH) == hash_of(p, n) ||
         isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "the saved %s is damaged: its hash does not match",
                  what);
}

static soma_status check_header(soma_machine *m, const void *data, size_t n) {
  isa_error e = {0};
  return soma_check_file(&soma_run_file, data, n, &e) ? SOMA_OK
                                                      : soma_fail(m, SOMA_FORMAT, "%s", e.text);
}

void soma_free_memories(soma_machine *m, vm_memory *mem) {
  for (unsigned i = 0; i < ISA_MAX_CORES; i++)
    if (mem[i].sbuf) vm_memory_free(&m->al, &mem[i]);
}

/* Starts r->run in memories of its own, like the run's that was saved; `given`, if it is not NULL:
 * blocks for tensors. On failure r holds nothing, and mem is to be freed. */
static soma_status start_cores(soma_machine *m, const isa_program *p, soma_run *r, vm_memory *mem,
                               const vm_save_options *o, vm_block *given, isa_error *e) {
  for (uint32_t i = 0; given && i < p->ntensors; i++) /* the run may have had other sizes */
    /* Not those of this run's sizes: new ones are made. */
    if (given[i].bytes != p->tensors[i].bytes) given[i] = (vm_block){0};
  soma_status s = soma_start_cores(m, r, p, mem, given, o->cvt, e);
  if (s != SOMA_OK) return s;
  memcpy(r->run.cost_values, o->cost, sizeof o->cost);
  r->run.timing_only = o->timing_only;
  soma_seed_rounding(r, o->rounding_seed);
  if (!o->causes || vm_path_start(&r->run)) return SOMA_OK;
  vm_run_end(&r->run);
  return SOMA_NOMEM;
}

bool soma_has_checks(const soma_run *r, unsigned checks, isa_error *e) {
  const vm_core *c = r->run.cores[0];
  /* Only the public ones: twins and the judges of schedules are no choice of the caller. */
  unsigned mask = vm_check_mask(c) & ((1u << VM_NCHECKS) - 1);
  if (!checks || vm_check_possible(c, checks) == mask) return true;
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  isa_buf_init(&b, &al);
  for (unsigned i = 0; vm_check_name(i); i++)
    if (mask >> i & 1) isa_buf_printf(&b, "%s%s", b.len ? "," : "", vm_check_name(i));
  isa_fail(e, ISA_ARG, ISA_NOFIELD,
           "checks are chosen when a run starts: this one was saved with %s",
           /* The caller's run goes on as it was. */
           b.len ? isa_buf_str(&b) : "none");
  isa_buf_free(&b);
  return false;
}

soma_status soma_read_head(soma_machine *m, const isa_program *p, vm_saver *s, soma_run *r,
                           vm_memory *mem, vm_block *given) {
  vm_save_options o = {0};
  soma_status status = soma_read_rows(m, p, s, r);
  if (status != SOMA_OK) return status;
  vm_save_u64(s, &r->to_device);
  vm_save_u64(s, &r->to_host);
  vm_save_options_walk(s, &o);
  /* A file that cannot be read ends here, before memory is taken for it. */
  status = s->failed ? SOMA_FORMAT : start_cores(m, soma_sized(r, p), r, mem, &o, given, s->err);
  if (status == SOMA_OK) return status;
  soma_free_memories(m, mem);
  soma_unsize_run(&m->al, r);
  return status;
}

soma_status soma_read_walk(vm_saver *s, soma_run *r) {
  vm_save_walk(s, &r->run);
  soma_status status = (soma_status)r->run.fault.status;
  if (!s->failed && status == SOMA_OK) return status;
  /* What ran out of memory while reading is no mistake of the file. */
  return status == SOMA_NOMEM ? status : (soma_status)s->err->status;
}

/* The state after the program; mem is empty, and `given` as start_cores has it. On failure r and
 * mem hold nothing. */
static soma_status read_run(soma_machine *m, const isa_program *p, vm_saver *s, soma_run *r,
                            vm_memory *mem, vm_block *given) {
  soma_status status = soma_read_head(m, p, s, r, mem, given);
  if (status != SOMA_OK) return status;
  status = soma_read_walk(s, r);
  /* A whole file and nothing else. */
  if (status == SOMA_OK && !vm_saver_need(s, vm_saver_left(s) == 0, "bytes follow the end"))
    status = (soma_status)s->err->status;
  if (status == SOMA_OK && soma_has_checks(r, m->o.checks, s->err)) return SOMA_OK;
  if (status == SOMA_OK) status = (soma_status)s->err->status;
  vm_run_end(&r->run);
  soma_free_memories(m, mem);
  soma_unsize_run(&m->al, r);
  return status;
}

static soma_status read_program(soma_machine *m, vm_saver *s, soma_program **p) {
  uint64_t n = 0;
  vm_save_u64(s, &n);
  if (s->failed || n > vm_saver_left(s)) /* The program's own reader checks it. */
    return soma_fail(m, SOMA_FORMAT, "the saved run is cut off in its program");
  soma_status status = soma_program_load(m, s->at, (size_t)n, p);
  s->at += n;
  return status == SOMA_OK ? soma_run_check(m, *p) : status;
}

void soma_adopt(soma_machine *m, soma_program *p, soma_run *r, const vm_memory *mem) {
  r->m = m;
  r->p = p;
  p->refs++;
  if (m->run) m->run->m = NULL;
  m->run = r;
  /* Memories of the old run, which has ended. */
  for (unsigned i = 0; i < ISA_MAX_CORES; i++) {
    if (!mem[i].sbuf) continue;
    if (m->mem[i].sbuf) vm_memory_free(&m->al, &m->mem[i]);
    m->mem[i] = mem[i];
  }
  m->away = false;
  soma_run_options(r);
}

/* A run that had ended when it was saved, or was about to end, ends. */
static void settle(soma_run *r) {
  /* Without events nothing is left to do but to say how it ended. */
  if (vm_run_is_idle(&r->run) && vm_check_count(r->run.cores[0]) == 0)
    soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
}

soma_status soma_run_resume(soma_machine *m, const void *data, size_t n, soma_program **p,
                            soma_run **out) {
  if (!soma_given(m, "data p r", data, p, out)) return SOMA_ARG;
  isa_error e = {.status = ISA_FORMAT};
  *out = NULL;
  *p = NULL;
  if (m->run && !m->run->run.ended)
    return soma_fail(m, SOMA_BUSY, "the machine has a run that has not ended");
  soma_status status = check_header(m, data, n);
  if (status != SOMA_OK) return status;
  vm_saver s = vm_saver_of((const uint8_t *)data + HEADER, n - HEADER, &e);
  status = read_program(m, &s, p);
  soma_run *r = status == SOMA_OK ? vm_pages_new(&m->al, sizeof *r) : NULL;
  /* Its addresses become free for the new run. */
  if (r && m->run) soma_release(m->run);
  vm_memory mem[ISA_MAX_CORES] = {0};
  if (r && (status = read_run(m, (*p)->p, &s, r, mem, NULL)) == SOMA_OK) {
    soma_adopt(m, *p, r, mem);
    settle(r);
    *out = r;
    return SOMA_OK;
  }
  if (r) {
    vm_pages_free(&m->al, r, sizeof *r);
    const char *why = status == SOMA_LIMIT ? isa_buf_str(&m->hbm->refused) : e.text;
    soma_fail(m, status, "%s%s", status == SOMA_FORMAT ? "the saved run is not valid: " : "",
              why[0] ? why : soma_status_text(status));
  } else if (status == SOMA_OK) {
    status = soma_out_of_memory(m);
  }
  soma_program_free(*p);
  *p = NULL;
  return status;
}

/* ---- Going back ---------------------------------------------------------------------------- */

/* Whether the bytes at s begin with the program of r; then s is after it. */
static soma_status same_program(soma_run *r, vm_saver *s) {
  isa_alloc al = isa_alloc_default();
  isa_buf image;
  isa_buf_init(&image, &al);
  soma_put_program(&image, r->p->p);
  /* Byte for byte: names of another program could mean something else. */
  bool same =
      !image.failed && image.len <= vm_saver_left(s) && memcmp(image.data, s->at, image.len) == 0;
  soma_status status = SOMA_OK;
  if (image.failed)
    status = soma_out_of_memory(r->m);
  else if (!same)
    status = soma_fail(r->m, SOMA_ARG, "the saved run is of another program");
  s->at += same ? image.len : 0;
  isa_buf_free(&image);
  return status;
}

static soma_status check_restorable(soma_run *r) {
  soma_machine *m = r->m;
  soma_status status = soma_not_running(m);
  if (status != SOMA_OK) return status;
  /* A device tensor is shared with others: its bytes cannot go back. */
  for (uint32_t i = 0; r->device && i < r->p->p->ntensors; i++)
    if (r->device[i] && r->p->p->tensors[i].role != ISA_CONST)
      return soma_fail(m, SOMA_ARG, "a run cannot go back while tensor %s is a device tensor",
                       r->p->p->tensors[i].name);
  return SOMA_OK;
}

soma_status soma_run_restore(soma_run **run, const void *data, size_t n) {
  if (!run || !*run) return SOMA_ARG;
  soma_machine *m = (*run)->m;
  isa_error e = {.status = ISA_FORMAT};
  if (!m || !soma_given(m, "data", data)) return SOMA_ARG;
  soma_status status = check_restorable(*run);
  if (status == SOMA_OK) status = check_header(m, data, n);
  if (status != SOMA_OK) return status;
  vm_saver s = vm_saver_of((const uint8_t *)data + HEADER, n - HEADER, &e);
  status = same_program(*run, &s);
  return status == SOMA_OK ? soma_state_read(run, &s, NULL) : status;
}

soma_status soma_state_read(soma_run **run, vm_saver *s, const soma_snapshot *from) {
  soma_run *old = *run;
  soma_machine *m = old->m;
  const isa_program *ip = old->p->p;
  soma_status status = check_restorable(old);
  if (status != SOMA_OK) return status;
  soma_run *r = vm_pages_new(&m->al, sizeof *r);
  /* Blocks that only the run has are kept, and only what changed is copied. */
  vm_block *given = r && from ? soma_lend_blocks(old) : NULL;
  if (!r || (from && ip->ntensors && !given)) {
    vm_pages_free(&m->al, r, sizeof *r);
    return soma_out_of_memory(m);
  }
  /* If it fails the old run has lost its addresses, but not its bytes. */
  soma_release(old); /* the new one takes the same addresses */
  vm_memory mem[ISA_MAX_CORES] = {0};
  status = read_run(m, ip, s, r, mem, given);
  if (given) isa_free(&m->al, given, ip->ntensors * sizeof *given);
  if (status != SOMA_OK) {
    vm_pages_free(&m->al, r, sizeof *r);
    return soma_fail(m, status, "the run cannot go back: %s",
                     s->err->text[0] ? s->err->text : soma_status_text(status));
  }
  soma_program *p = old->p;
  soma_adopt(m, p, r, mem);
  r->log = old->log;
  r->log_ud = old->log_ud;
  /* Stops and their counts go over. */
  vm_debug_move(r->run.cores[0], old->run.cores[0], r);
  /* Now that the old run is no longer needed. */
  if (from) soma_fill_blocks(r, old, from);
  soma_run_free(old);
  *run = r;
  settle(r);
  return SOMA_OK;
}
