/* Worlds that are spread over processes: when the ranks have ended, every process gets the state of
 * those that others have moved, so that whatever is asked of a run is answered alike in all. */
#include "world_impl.h"

#include "../../isa/image.h"
#include "../save/save.h"

#include <string.h>

typedef struct given { /* what a walk over the state of a rank needs to know */
  soma_world *w;
  vm_run *run;
  const bool *kept; /* by tensor: its bytes are those that it began with */
  vm_saver s;
} given;

/* ---- One rank ------------------------------------------------------------------------------ */

/* Bytes that nothing has changed, and those of a run without values, stay away. */
static void walk_pages(void *ud, uint8_t *p, uint64_t n, uint64_t *reach) {
  given *g = ud;
  if (g->run->timing_only) return;
  for (uint32_t i = 0; i < g->run->prog->ntensors; i++)
    if (g->kept[i] && g->run->blocks[i].data == p) return;
  g->s.pages = NULL;
  vm_saver_pages(&g->s, p, n, reach);
  g->s.pages = walk_pages;
}

/* The reader's memory is zero where the file has nothing. */
static void clear_inputs(const given *g) {
  const isa_program *p = g->run->prog;
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
  h = good ? isa_fnv(h, image.data, image.len) : 0;
  isa_buf_free(&image);
  return h;
}

/* A hash of many bytes, at about the speed of memory. */
static uint64_t hash_bytes(uint64_t h, const uint8_t *p, uint64_t n) {
  enum { LANES = 4, STEP = LANES * sizeof(uint64_t) };
  const uint64_t odd = 0x9e3779b97f4a7c15u;
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

/* A hash of the bytes with which the ranks begin. */
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
  uint32_t numbers[] = {w->o.ranks, w->o.lnc, (uint32_t)w->algorithm};
  uint64_t h = isa_fnv(ISA_FNV_START, numbers, sizeof numbers);
  h = isa_fnv(h, w->o.instance, strlen(w->o.instance));
  for (uint32_t r = 0; r < w->o.ranks && h; r++) {
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
  bool first = w->w.windows == 0 && !w->w.far && !w->whole;
  for (uint32_t r = 0; r < w->o.ranks; r++) /* what checks and paths know stays in a process */
    if (w->ranks[r].m->o.checks || w->ranks[r].m->o.causes) first = false;
  w->whole = w->again = false;
  if (w->far.size < 2 || !first) return SOMA_OK;
  vm_world_spread(&w->w, &w->far);
  if (!w->w.far) return SOMA_OK;
  told mine = {hash_of(w), hash_inputs(w)}, *all = isa_zalloc(&w->al, w->far.size * sizeof *all);
  soma_status s = SOMA_OK;
  if (!mine.world || !all)
    s = soma_world_fail(w, SOMA_NOMEM, "out of memory");
  else if (!w->far.share(w->far.ud, &mine, sizeof mine, all))
    s = lost(w);
  for (uint32_t p = 0; s == SOMA_OK && p < w->far.size; p++)
    if (memcmp(&all[p], &all[0], sizeof mine) != 0)
      s = soma_world_fail(w, SOMA_ARG,
                          "process %u of %u has %s from process 0: a script must give the same in "
                          "all of them%s",
                          p, w->far.size,
                          all[p].world != all[0].world ? "a different world" : "different inputs",
                          all[p].world != all[0].world ? "" : ", so random numbers need a seed");
  isa_free(&w->al, all, w->far.size * sizeof *all);
  return s;
}

/* ---- All ------------------------------------------------------------------------------------- */

static bool put_rank(soma_world *w, uint32_t r, isa_buf *out) {
  bool *kept = find_kept(w, r);
  given g = {.w = w, .run = &w->ranks[r].run->run, .kept = kept};
  g.s = (vm_saver){.out = out, .pages = walk_pages, .pages_ud = &g};
  if (kept) vm_save_walk(&g.s, g.run);
  isa_free(&w->al, kept, kept ? w->ranks[r].p->p->ntensors + 1 : 0);
  return kept && !out->failed;
}

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
