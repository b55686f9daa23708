/* Worlds that are spread over processes: when the ranks have ended, every process gets the state of
 * those that others have moved, so that whatever is asked of a run is answered alike in all. */
#include "world_impl.h"

#include "../save/save.h"

#include <string.h>

typedef struct given { /* what a walk over the state of a rank needs to know */
  soma_world *w;
  vm_run *run;
  const bool *kept; /* by tensor: its bytes are those that it began with */
  vm_saver s;
} given;

/* ---- One rank ------------------------------------------------------------------------------ */

/* As pointers into one block. */
static bool within(const uint8_t *p, const uint8_t *of, size_t n) { return p >= of && p < of + n; }

/* Tensors that only the program uses. */
static bool comes_later(const isa_tensor *t) {
  return t->role != ISA_INPUT && t->role != ISA_OUTPUT && t->role != ISA_CONST;
}

/* Bytes that nothing has changed, those of a run without values, and those that come when they are
 * asked for are not sent. */
static bool stays(const given *g, const uint8_t *p) {
  const vm_run *run = g->run;
  for (uint32_t i = 0; i < run->prog->ntensors; i++)
    /* What the run began with lies in every process. */
    if (run->blocks[i].data == p) return g->kept[i] || comes_later(&run->prog->tensors[i]);
  for (unsigned i = 0; i < run->n; i++) {
    const vm_memory *m = &run->cores[i]->mem;
    /* Memories of the cores come when they are asked for. */
    if (within(p, m->sbuf, m->sbuf_size) || within(p, m->psum, m->psum_size)) return true;
  }
  return false;
}

static void walk_pages(void *ud, uint8_t *p, uint64_t n, uint64_t *reach) {
  given *g = ud;
  /* Without values there is nothing to send. */
  if (g->run->timing_only || stays(g, p)) return;
  g->s.pages = NULL;
  vm_saver_pages(&g->s, p, n, reach);
  g->s.pages = walk_pages;
}

/* The reader's memory is zero where the file has nothing. */
static void clear_inputs(const given *g) {
  const isa_program *p = g->run->prog;
  /* Only what will come: what is kept has its bytes already. */
  for (uint32_t i = 0; i < p->ntensors && !g->run->timing_only; i++)
    if (p->tensors[i].role == ISA_INPUT && !g->kept[i])
      memset(g->run->blocks[i].data, 0, (size_t)g->run->blocks[i].bytes);
}

/* Inputs that no rank writes are not sent: every process has bound the same. Ranks with programs of
 * their own may write one another's, which is not looked at. */
static bool *find_kept(const soma_world *w, uint32_t r) {
  const isa_program *p = w->ranks[r].p->p;
  bool *kept = isa_zalloc(&w->al, p->ntensors + 1);
  bool one = true;
  if (!kept) return NULL;
  /* With one program for all, what is written can be told from it. */
  for (uint32_t k = 1; k < w->o.ranks; k++) one &= w->ranks[k].given == w->ranks[0].given;
  soma_mark_written(p, kept);
  for (uint32_t i = 0; i < p->ntensors; i++)
    kept[i] = one && p->tensors[i].role == ISA_INPUT && !kept[i];
  return kept;
}

/* ---- The same world ----------------------------------------------------------------------------
 */

static uint64_t hash_program(const soma_world *w, uint64_t h, isa_program *p) {
  isa_buf image;
  isa_buf_init(&image, &w->al);
  bool good = isa_image_write(p, &image) && !image.failed;
  /* 0: no hash could be made. */
  h = good ? isa_fnv(h, image.data, image.len) : 0;
  isa_buf_free(&image);
  return h;
}

/* A hash of many bytes, at about the speed of memory. */
static uint64_t hash_bytes(uint64_t h, const uint8_t *p, uint64_t n) {
  enum { LANES = 4, STEP = LANES * sizeof(uint64_t) };
  const uint64_t odd = 0x9e3779b97f4a7c15u;
  /* Four sums side by side, which do not wait for one another's multiplications. */
  uint64_t lanes[LANES] = {h, h + odd, h + 2 * odd, h + 3 * odd};
  for (; n >= STEP; p += STEP, n -= STEP) {
    uint64_t words[LANES];
    memcpy(words, p, STEP);
    for (unsigned i = 0; i < LANES; i++) {
      lanes[i] = (lanes[i] ^ words[i]) * odd;
      lanes[i] ^= lanes[i] >> 29;
    }
  }
  return isa_fnv(isa_fnv(h, lanes, sizeof lanes), p, n);
}

/* A hash of the bytes with which the ranks begin.
 * Each process has bound its own, which have to be equal. */
static uint64_t hash_inputs(const soma_world *w) {
  uint64_t h = ISA_FNV_START;
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    const vm_run *run = &w->ranks[r].run->run;
    for (uint32_t i = 0; i < run->prog->ntensors && !run->timing_only; i++) {
      if (run->prog->tensors[i].role != ISA_INPUT) continue;
      vm_hbm_use_all(run->cores[0], i);
      h = hash_bytes(h, run->blocks[i].data, run->blocks[i].bytes);
    }
  }
  return h;
}

/* A hash of what the processes must agree on. 0: out of memory. */
static uint64_t hash_of(const soma_world *w) {
  /* Everything that decides what the world does. */
  uint32_t numbers[] = {w->o.ranks, w->o.lnc, (uint32_t)w->algorithm};
  uint64_t h = isa_fnv(ISA_FNV_START, numbers, sizeof numbers);
  h = isa_fnv(h, w->o.instance, strlen(w->o.instance));
  for (uint32_t r = 0; r < w->o.ranks && h; r++) {
    /* The same program is hashed once. */
    bool same = r > 0 && w->ranks[r].given == w->ranks[r - 1].given;
    h = isa_fnv(h, &w->ranks[r].m->o.timing_only, sizeof w->ranks[r].m->o.timing_only);
    if (!same) h = hash_program(w, h, w->ranks[r].given->p);
  }
  return h;
}

typedef struct told { /* hashes, by which processes know that they have the same */
  uint64_t world, inputs;
} told;

static soma_status lost(soma_world *w) {
  return soma_world_fail(w, SOMA_FAULT, "another process of the world is lost");
}

soma_status soma_world_meet(soma_world *w) {
  /* Nothing may have moved yet: all processes must begin at the same state. */
  bool first = w->w.windows == 0 && !w->w.far && !w->whole;
  for (uint32_t r = 0; r < w->o.ranks; r++) /* what checks and paths know stays in a process */
    if (w->ranks[r].m->o.checks || w->ranks[r].m->o.causes) first = false;
  w->whole = w->again = false;
  /* A process alone has nobody to meet. */
  if (w->far.size < 2 || !first) return SOMA_OK;
  vm_world_spread(&w->w, &w->far);
  if (!w->w.far) return SOMA_OK;
  told mine = {hash_of(w), hash_inputs(w)}, *all = isa_zalloc(&w->al, w->far.size * sizeof *all);
  soma_status s = SOMA_OK;
  /* Nothing was sent yet, so the others are not left waiting with half of a message. */
  if (!mine.world || !all)
    s = soma_world_fail(w, SOMA_NOMEM, "out of memory");
  else if (!w->far.share(w->far.ud, &mine, sizeof mine, all))
    s = lost(w);
  /* Every process compares, and so all of them stop. */
  for (uint32_t p = 0; s == SOMA_OK && p < w->far.size; p++)
    if (memcmp(&all[p], &all[0], sizeof mine) != 0)
      s = soma_world_fail(w, SOMA_ARG,
                          "process %u of %u has %s from process 0: a script must give the same in "
                          "all of them%s",
                          p, w->far.size,
                          all[p].world != all[0].world ? "a different world" : "different inputs",
                          all[p].world != all[0].world ? "" : ", so random numbers need a seed");
  isa_free(&w->al, all, w->far.size * sizeof *all);
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    rank *x = &w->ranks[r];
    /* Ranks that this process moves. */
    x->here = vm_world_has(&w->w, r);
    /* SBUF, PSUM and temporary tensors come when they are asked for: few scripts look. */
    x->m->away = x->run->away = !x->m->o.timing_only;
  }
  return s;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* Written by the walk that saves runs. */
static bool put_rank(soma_world *w, uint32_t r, isa_buf *out) {
  bool *kept = find_kept(w, r);
  given g = {.w = w, .run = &w->ranks[r].run->run, .kept = kept};
  g.s = (vm_saver){.out = out, .pages = walk_pages, .pages_ud = &g};
  if (kept) vm_save_walk(&g.s, g.run);
  isa_free(&w->al, kept, kept ? w->ranks[r].p->p->ntensors + 1 : 0);
  return kept && !out->failed;
}

/* Read by the same walk, into the run that stands here. */
static bool take_rank(soma_world *w, uint32_t r, const uint8_t **at, const uint8_t *end) {
  isa_error e = {0};
  bool *kept = find_kept(w, r);
  if (!kept) return false;
  given g = {.w = w, .run = &w->ranks[r].run->run, .kept = kept};
  g.s = (vm_saver){
      .at = *at, .end = end, .reads = true, .err = &e, .pages = walk_pages, .pages_ud = &g};
  clear_inputs(&g);
  vm_save_walk(&g.s, g.run);
  g.run->ended = true;
  *at = g.s.at;
  isa_free(&w->al, kept, w->ranks[r].p->p->ntensors + 1);
  if (!g.s.failed) return true;
  soma_world_fail(w, SOMA_FORMAT, "the state of rank %u from another process is not valid: %s", r,
                  e.text);
  return false;
}

/* The ranks of a process come in their order. */
static bool take_ranks(void *ud, uint32_t process, const uint8_t *at, uint64_t n) {
  soma_world *w = ud;
  const uint8_t *end = at + n;
  (void)process;
  /* The rank's number, then its state. */
  while (at < end) {
    uint32_t r;
    memcpy(&r, at, sizeof r);
    at += sizeof r;
    if (!take_rank(w, r, &at, end)) return false;
  }
  return true;
}

soma_status soma_world_gather(soma_world *w) {
  const vm_transport *far = w->w.far;
  isa_buf mine, *to = isa_zalloc(&w->al, far->size * sizeof *to);
  bool good = to != NULL;
  isa_buf_init(&mine, &w->al);
  for (uint32_t r = 0; good && r < w->o.ranks; r++) {
    if (!vm_world_has(&w->w, r)) continue;
    isa_buf_add(&mine, &r, sizeof r);
    good = put_rank(w, r, &mine);
  }
  /* The message of a failure is put there by take_rank. */
  w->error.len = 0;
  for (uint32_t p = 0; good && p < far->size; p++)
    if (p != far->rank) to[p] = mine;
  bool came = good && vm_world_share(&w->al, far, to, take_ranks, w);
  isa_buf_free(&mine);
  isa_free(&w->al, to, far->size * sizeof *to);
  if (came) return SOMA_OK;
  if (w->error.len) return SOMA_FORMAT;
  return good ? lost(w) : soma_world_fail(w, SOMA_NOMEM, "out of memory for the ranks of others");
}

/* ---- What is away ---------------------------------------------------------------------------- */

/* To or from a process: memories that are not sent when the ranks have ended.
 * A reader's memory is zero where nothing comes. */
static void walk_rest(vm_saver *s, vm_run *run) {
  for (unsigned i = 0; i < run->n && !s->failed; i++) {
    if (s->reads) vm_memory_clear(&run->cores[i]->mem);
    vm_save_memories(s, run->cores[i]);
  }
  for (uint32_t i = 0; i < run->prog->ntensors && !s->failed; i++) {
    if (!comes_later(&run->prog->tensors[i])) continue;
    vm_hbm_use_all(run->cores[0], i);
    if (s->reads) memset(run->blocks[i].data, 0, (size_t)run->blocks[i].bytes);
    vm_saver_pages(s, run->blocks[i].data, run->blocks[i].bytes, NULL);
  }
}

static bool take_rest(void *ud, uint32_t process, const uint8_t *at, uint64_t n) {
  isa_error e = {0};
  (void)process;
  vm_saver s = vm_saver_of(at, n, &e);
  if (n) walk_rest(&s, ud);
  return !s.failed;
}

/* Every process asks for the same rank.
 * All processes must ask, since all take part in the exchange. */
static soma_status agree(soma_world *w, uint32_t r) {
  uint32_t *all = isa_zalloc(&w->al, w->far.size * sizeof *all);
  soma_status s = all ? SOMA_OK : soma_world_fail(w, SOMA_NOMEM, "out of memory");
  if (s == SOMA_OK && !w->far.share(w->far.ud, &r, sizeof r, all)) s = lost(w);
  for (uint32_t p = 0; s == SOMA_OK && p < w->far.size; p++)
    if (all[p] != all[0])
      s = soma_world_fail(w, SOMA_ARG,
                          "process %u of %u asks for memories of rank %u, process 0 for those of "
                          "rank %u: a script must do the same in all of them",
                          p, w->far.size, all[p], all[0]);
  isa_free(&w->al, all, w->far.size * sizeof *all);
  return s;
}

static soma_status bring(soma_world *w, uint32_t r) {
  rank *x = &w->ranks[r];
  vm_run *run = x->run ? &x->run->run : NULL;
  if (!run) return soma_world_fail(w, SOMA_ARG, "the memories of rank %u went with its run", r);
  soma_status s = agree(w, r);
  if (s != SOMA_OK) return s;
  isa_buf mine, *to = isa_zalloc(&w->al, w->far.size * sizeof *to);
  /* The rank's own process sends, the others only read. */
  bool good = to != NULL;
  isa_buf_init(&mine, &w->al);
  if (good && x->here) walk_rest(&(vm_saver){.out = &mine}, run);
  for (uint32_t p = 0; good && p < w->far.size; p++)
    if (p != w->far.rank) to[p] = mine;
  bool came = good && vm_world_share(&w->al, &w->far, to, take_rest, run);
  isa_buf_free(&mine);
  isa_free(&w->al, to, w->far.size * sizeof *to);
  if (!came) return good ? lost(w) : soma_world_fail(w, SOMA_NOMEM, "out of memory");
  x->m->away = x->run->away = false;
  return SOMA_OK;
}

/* Those that are here already are passed over. */
soma_status soma_world_bring_all(soma_world *w) {
  soma_status s = SOMA_OK;
  for (uint32_t r = 0; r < w->o.ranks && s == SOMA_OK; r++)
    if (w->ranks[r].m->away) s = bring(w, r);
  return s;
}

soma_status soma_bring_memories(soma_machine *m) {
  soma_world *w = m->world;
  uint32_t r = 0;
  if (!m->away) return SOMA_OK;
  if (!w)
    return soma_fail(m, SOMA_ARG,
                     "SBUF and PSUM of this rank are in a process of its world, which is closed");
  /* The machine is one of the world's. */
  while (w->ranks[r].m != m) r++;
  soma_status s = bring(w, r);
  return s == SOMA_OK ? s : soma_fail(m, s, "%s", soma_world_error(w));
}

soma_status soma_bring_tensor(soma_run *r, uint32_t tensor) {
  const isa_tensor *t = &r->run.prog->tensors[tensor];
  /* Inputs and outputs have come with the end of the run. */
  if (!r->away || !comes_later(t)) return SOMA_OK;
  if (r->m && r->m->run == r && r->m->away) return soma_bring_memories(r->m);
  return r->m ? soma_fail(r->m, SOMA_ARG,
                          "tensor %s is in a process of its world, which has run on since", t->name)
              : SOMA_ARG;
}
