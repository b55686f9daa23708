/* soma_world_save and soma_world_resume. After what all files begin with (save.c):
 *
 *   ranks, lnc, algorithm + 1: u32 each
 *   the instance's name: length u32, bytes; "NAME x N" of several ends with a zero byte
 *   options of rank 0's run, by which collectives were planned
 *   programs: count u32, the length u64 and the .sbc bytes of each; u32 of each rank: its program
 *   changes of links: count u32, each
 *   of each rank what its run was started with, as in a saved run
 *   the state (vm/world/state.c) */
#include "world_impl.h"

#include "../save/save.h"

#include <stdio.h>
#include <string.h>

#define fail soma_world_fail

/* What tells whether a world fits the file. */
typedef struct head {
  uint32_t ranks, lnc, algorithm; /* algorithm: + 1; 0: by size */
  const isa_instance *instance;
  uint32_t instances;
  const char *name; /* of the world's, or in the file */
} head;

static head head_of(const soma_world *w) {
  return (head){w->o.ranks,  w->o.lnc,     (uint32_t)(w->algorithm + 1),
                w->instance, w->instances, w->o.instance};
}

/* Reads and writes: the same function walks both ways. */
static void walk_instance(vm_saver *s, head *h) {
  char name[64] = "";
  /* "NAME x N" has its zero byte in the file, which tells it from a plain name. */
  uint32_t n = h->name ? (uint32_t)strlen(h->name) + (h->instances > 1) : 0;
  vm_saver_count(s, &n, sizeof name - 1, 1, "letters of an instance");
  if (h->name) memcpy(name, h->name, n);
  const char *at = (const char *)s->at;
  vm_saver_bytes(s, name, n);
  if (!s->reads || s->failed) return;
  h->instance = soma_instance_named(name, &h->instances);
  vm_saver_need(s, h->instance && strlen(name) + (h->instances > 1) == n,
                "there is no instance of that name");
  /* Several instances keep the file's own text, which has "x N". */
  if (!s->failed) h->name = h->instances > 1 ? at : h->instance->name;
}

static void walk_head(vm_saver *s, head *h) {
  vm_save_u32(s, &h->ranks);
  vm_save_u32(s, &h->lnc);
  vm_save_below(s, &h->algorithm, VM_CC_NALGORITHMS + 1, "algorithm");
  walk_instance(s, h);
  if (!s->failed)
    /* What the head says must be possible by itself, before anything is made of it. */
    vm_saver_need(s,
                  h->ranks && h->ranks <= SOMA_MOST_RANKS && (h->lnc == 1 || h->lnc == 2) &&
                      h->ranks * h->lnc <= isa_instance_cores(h->instance) * h->instances,
                  "its ranks do not fit the instance");
}

/* ---- Saving ------------------------------------------------------------------------------- */

soma_status soma_world_check_savable(soma_world *w) {
  if (w->running) return fail(w, SOMA_BUSY, "a world cannot be saved from its own callback");
  if (!w->open) return fail(w, SOMA_ARG, "the world does not run: nothing is to be saved");
  /* A world that was stopped or came to its limit can go on; a fault is an end. */
  soma_status why = (soma_status)w->w.status;
  if (why != SOMA_OK && why != SOMA_STOPPED && why != SOMA_LIMIT)
    return fail(w, SOMA_ARG, "a world that ended with a fault cannot be saved (%s): %s",
                soma_status_text(why), isa_buf_str(&w->w.report));
  /* Parts of the ranks are in other processes. */
  if (w->w.far && !(w->ranks[0].run && w->ranks[0].run->run.ended))
    return fail(
        w, SOMA_UNBUILT,
        "a world that several processes move cannot be saved on its way: stop it at a time");
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    rank *x = &w->ranks[r];
    if (!x->run) return fail(w, SOMA_ARG, "the run of rank %u has been freed", r);
    soma_status s = soma_check_own_bytes(x->run);
    if (s != SOMA_OK) return fail(w, s, "rank %u: %s", r, soma_error(x->m));
  }
  return SOMA_OK;
}

/* number[r]: of rank r's program among those that differ, of which there are *n. */
static void number_programs(const soma_world *w, uint32_t *number, uint32_t *n) {
  *n = 0;
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    uint32_t k = 0;
    /* Those that are shared are written once. */
    while (w->ranks[k].started != w->ranks[r].started) k++;
    number[r] = k < r ? number[k] : (*n)++;
  }
}

static void put_programs(soma_world *w, vm_saver *s) {
  uint32_t *number = isa_zalloc(&w->al, w->o.ranks * sizeof *number), n, next = 0;
  if (!number) {
    s->out->failed = true;
    return;
  }
  number_programs(w, number, &n);
  /* The count comes first, then each program, then whose it is. */
  vm_save_u32(s, &n);
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    if (number[r] != next) continue;
    soma_put_program(s->out, w->ranks[r].started->p);
    next++;
  }
  for (uint32_t r = 0; r < w->o.ranks; r++) vm_save_u32(s, &number[r]);
  isa_free(&w->al, number, w->o.ranks * sizeof *number);
}

soma_status soma_world_save(soma_world *w, void **data, size_t *n) {
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  /* The caller frees the block, so it is from malloc. */
  if (!w || !data || !n) return SOMA_ARG;
  *data = NULL;
  *n = 0;
  /* The other processes' ranks are fetched. */
  soma_status status = soma_world_check_savable(w);
  if (status == SOMA_OK) status = soma_world_bring_all(w);
  if (status != SOMA_OK) return status;
  isa_buf_init(&b, &al);
  soma_begin_file(&b, &soma_world_file);
  vm_saver s = {.out = &b};
  head h = head_of(w);
  vm_save_options o = soma_save_options(&w->ranks[0].run->run);
  /* Changes of links are no part of any rank's run. */
  const vm_links_options *links = &w->w.links.o;
  uint32_t changes = links->nchanges;
  walk_head(&s, &h);
  vm_save_options_walk(&s, &o);
  put_programs(w, &s);
  vm_save_u32(&s, &changes);
  for (uint32_t i = 0; i < changes; i++) {
    vm_link_change c = links->changes[i];
    vm_world_walk_change(&s, &c);
  }
  for (uint32_t r = 0; r < w->o.ranks; r++) soma_save_head(&s, w->ranks[r].run);
  vm_world_walk(&w->w, &s);
  soma_end_file(&b);
  if (b.failed) {
    isa_buf_free(&b);
    return fail(w, SOMA_NOMEM, "%s", soma_status_text(SOMA_NOMEM));
  }
  *data = b.data; /* from malloc */
  *n = b.len;
  return SOMA_OK;
}

/* ---- Reading ------------------------------------------------------------------------------ */

static vm_saver reader(const void *data, size_t n, isa_error *e) {
  *e = (isa_error){.status = ISA_FORMAT};
  return vm_saver_of((const uint8_t *)data + SOMA_FILE_HEADER, n - SOMA_FILE_HEADER, e);
}

soma_status soma_world_saved(const void *data, size_t n, soma_world_options *o) {
  isa_error e = {0};
  head h = {0};
  /* Older callers have shorter options. */
  if (!data || !o || o->size < offsetof(soma_world_options, transport)) return SOMA_ARG;
  bool ok = soma_check_file(&soma_world_file, data, n, &e);
  if (ok) {
    vm_saver s = reader(data, n, &e);
    walk_head(&s, &h);
    ok = !s.failed;
  }
  if (!ok) return soma_tell(o->error, o->error_size, SOMA_FORMAT, e.text);
  o->ranks = h.ranks;
  o->lnc = h.lnc;
  /* The name points into the caller's data. */
  o->instance = h.name;
  o->algorithm = h.algorithm ? vm_cc_algorithm_names[h.algorithm - 1] : NULL;
  return SOMA_OK;
}

soma_status soma_world_saved_target(const void *data, size_t n, char *target, size_t size) {
  const isa_alloc al = isa_alloc_default();
  isa_error e = {0};
  head h = {0};
  vm_save_options o = {0};
  uint32_t programs = 0;
  uint64_t length = 0;
  /* The target is that of the first program. */
  if (!data || !target || !size) return SOMA_ARG;
  *target = 0;
  if (!soma_check_file(&soma_world_file, data, n, &e)) return SOMA_FORMAT;
  vm_saver s = reader(data, n, &e);
  walk_head(&s, &h);
  vm_save_options_walk(&s, &o);
  vm_save_u32(&s, &programs);
  vm_save_u64(&s, &length);
  if (s.failed || !programs || length > vm_saver_left(&s)) return SOMA_FORMAT;
  isa_program *p = isa_image_read(&al, s.at, (size_t)length, &e);
  if (!p) return SOMA_FORMAT;
  int need = snprintf(target, size, "%s", p->target->name);
  isa_program_free(p);
  return need >= 0 && (size_t)need < size ? SOMA_OK : SOMA_ARG;
}

static soma_status check_head(soma_world *w, const head *h) {
  /* All of it must agree: collectives were planned for this world. */
  head own = head_of(w);
  if (h->ranks == own.ranks && h->lnc == own.lnc && h->instance == own.instance &&
      h->instances == own.instances && h->algorithm == own.algorithm)
    return SOMA_OK;
  const char *theirs = h->algorithm ? vm_cc_algorithm_names[h->algorithm - 1] : "auto";
  const char *ours = own.algorithm ? vm_cc_algorithm_names[own.algorithm - 1] : "auto";
  return fail(w, SOMA_ARG,
              "the saved world has %u ranks of %u on %s, algorithm %s; this one has %u of %u on "
              "%s, algorithm %s",
              h->ranks, h->lnc, h->name, theirs, own.ranks, own.lnc, own.name, ours);
}

static soma_status not_valid(soma_world *w, soma_status s, const isa_error *e) {
  if (s == SOMA_FORMAT) return fail(w, s, "the saved world is not valid: %s", e->text);
  return fail(w, s, "%s", e->text[0] ? e->text : soma_status_text(s));
}

static soma_status read_program(soma_world *w, vm_saver *s, soma_program **p) {
  soma_machine *m = w->ranks[0].m;
  uint64_t n = 0;
  vm_save_u64(s, &n);
  /* A length from the file is never trusted. */
  if (s->failed || n > vm_saver_left(s))
    return fail(w, SOMA_FORMAT, "the saved world is cut off in a program");
  soma_status status = soma_program_load(m, s->at, (size_t)n, p);
  s->at += n;
  return status == SOMA_OK ? status : fail(w, status, "%s", soma_error(m));
}

static soma_status load_programs(soma_world *w, vm_saver *s, soma_program **p, uint32_t n) {
  soma_status status = SOMA_OK;
  for (uint32_t i = 0; i < n && status == SOMA_OK; i++) status = read_program(w, s, &p[i]);
  for (uint32_t r = 0; r < w->o.ranks && status == SOMA_OK; r++) {
    /* Each rank names one of the programs. */
    uint32_t k = 0;
    vm_save_below(s, &k, n, "program");
    status = s->failed ? not_valid(w, SOMA_FORMAT, s->err) : soma_world_load(w, r, p[k]);
  }
  return status;
}

static soma_status read_programs(soma_world *w, vm_saver *s) {
  uint32_t n = 0;
  /* At most one for each rank. */
  vm_saver_count(s, &n, w->o.ranks, 8, "programs");
  vm_saver_need(s, n > 0, "it has no program");
  if (s->failed) return not_valid(w, SOMA_FORMAT, s->err);
  soma_program **p = isa_zalloc(&w->al, n * sizeof *p);
  if (!p) return fail(w, SOMA_NOMEM, "%s", soma_status_text(SOMA_NOMEM));
  soma_status status = load_programs(w, s, p, n);
  /* Ranks hold their programs themselves from here on. */
  for (uint32_t i = 0; i < n; i++) soma_program_free(p[i]);
  isa_free(&w->al, p, n * sizeof *p);
  return status;
}

/* In place of those that the world has. */
static soma_status read_changes(soma_world *w, vm_saver *s) {
  uint32_t n = 0;
  vm_saver_count(s, &n, UINT32_MAX, 20, "changes of links");
  w->nchanges = 0;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!isa_array_grow(&w->al, &w->changes, i, &w->cap_changes, sizeof *w->changes))
      return fail(w, SOMA_NOMEM, "%s", soma_status_text(SOMA_NOMEM));
    vm_world_walk_change(s, &w->changes[i]);
    w->nchanges = i + 1;
  }
  return s->failed ? not_valid(w, SOMA_FORMAT, s->err) : SOMA_OK;
}

static soma_status read_run(soma_world *w, uint32_t r, vm_saver *s) {
  rank *x = &w->ranks[r];
  vm_memory mem[ISA_MAX_CORES] = {0};
  soma_status status = soma_run_check(x->m, x->p); /* it is made with constants of the file */
  if (status != SOMA_OK) return fail(w, status, "rank %u: %s", r, soma_error(x->m));
  soma_run *run = vm_pages_new(&x->m->al, sizeof *run);
  if (!run) return fail(w, SOMA_NOMEM, "%s", soma_status_text(SOMA_NOMEM));
  if (x->m->run) soma_release(x->m->run);
  status = soma_read_head(x->m, x->p->p, s, run, mem, NULL);
  if (status != SOMA_OK) {
    vm_pages_free(&x->m->al, run, sizeof *run);
    return status == SOMA_LIMIT
               ? fail(w, status, "rank %u: %s", r, isa_buf_str(&x->m->hbm->refused))
               : not_valid(w, status, s->err);
  }
  soma_adopt(x->m, x->p, run, mem);
  x->run = run;
  return SOMA_OK;
}

static soma_status read_state(soma_world *w, vm_saver *s) {
  vm_world_walk(&w->w, s);
  for (uint32_t r = 0; r < w->o.ranks; r++)
    if (w->ranks[r].run->run.fault.status == ISA_NOMEM)
      return fail(w, SOMA_NOMEM, "%s", soma_status_text(SOMA_NOMEM));
  vm_saver_need(s, s->failed || vm_saver_left(s) == 0, "bytes follow the end");
  return s->failed ? not_valid(w, (soma_status)s->err->status, s->err) : SOMA_OK;
}

/* What the machines ask for must be in the file. */
static soma_status check_options(soma_world *w) {
  isa_error e = {0};
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    const rank *x = &w->ranks[r];
    if (x->m->o.causes && !x->run->run.cores[0]->path)
      return fail(w, SOMA_ARG,
                  "causes are kept from a world's start on: this one was saved with none");
    if (!soma_has_checks(x->run, x->m->o.checks, &e)) return fail(w, SOMA_ARG, "%s", e.text);
  }
  return SOMA_OK;
}

static soma_status read_world(soma_world *w, vm_saver *s) {
  vm_save_options o = {0};
  vm_save_options_walk(s, &o);
  soma_status status = s->failed ? not_valid(w, SOMA_FORMAT, s->err) : read_programs(w, s);
  if (status == SOMA_OK) status = read_changes(w, s);
  /* By the constants of the file: its collectives were planned by them. */
  if (status == SOMA_OK) status = soma_world_plan(w, o.cost);
  for (uint32_t r = 0; r < w->o.ranks && status == SOMA_OK; r++) status = read_run(w, r, s);
  if (status == SOMA_OK) status = soma_world_connect(w, false);
  if (status == SOMA_OK) status = read_state(w, s);
  return status == SOMA_OK ? check_options(w) : status;
}

soma_status soma_world_resume(soma_world *w, const void *data, size_t n) {
  isa_error e = {0};
  head h = {0};
  if (!w) return SOMA_ARG;
  if (!data) return fail(w, SOMA_ARG, "data is NULL");
  soma_status status = soma_world_ready(w, false);
  if (status != SOMA_OK) return status;
  if (!soma_check_file(&soma_world_file, data, n, &e)) return fail(w, SOMA_FORMAT, "%s", e.text);
  vm_saver s = reader(data, n, &e);
  walk_head(&s, &h);
  if (s.failed) return not_valid(w, SOMA_FORMAT, &e);
  if ((status = check_head(w, &h)) != SOMA_OK) return status;
  soma_world_leave_ranks(w);
  soma_forget_findings(w);
  w->interrupted = 0;
  for (uint32_t r = 0; r < w->o.ranks; r++) soma_world_drop_run(&w->ranks[r]);
  status = read_world(w, &s);
  w->whole = true; /* each process has all of it */
  if (status == SOMA_OK) return status;
  soma_world_leave_ranks(w);
  for (uint32_t r = 0; r < w->o.ranks; r++) soma_world_drop_run(&w->ranks[r]);
  return status;
}
