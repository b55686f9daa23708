/* States of a run that stay in memory. A later state shares with an earlier one what has not
 * changed, so that many states of a large run take little memory. */
#include "../debug/debug.h"
#include "../save/save.h"
#include "world_impl.h"

#include <string.h>

/* Copies lie in slabs, which come from the kernel in huge pages: the first touch of a page costs
 * more than the copy of its bytes. */
enum { SLAB_FIRST = 1 << 20, SLAB_MOST = 8 << 20 };
typedef struct slab {
  uint8_t *data;
  size_t bytes, used;
  uint32_t alive; /* copies in it that have not been freed */
} slab;

/* A copy of VM_PIECE bytes or, at the end of a region, fewer. */
typedef struct chunk {
  uint32_t refs, n;
  uint64_t number; /* of the copies of its program's runs: the same number is the same bytes */
  uint8_t *data;
  slab *in;
} chunk;

/* A stretch of the run's memory, in the order of the walk. */
typedef struct region {
  uint64_t n;
  chunk **v;       /* NULL: zeros */
  uint32_t tensor; /* whose block it is; NO_TENSOR: none's */
} region;
#define NO_TENSOR UINT32_MAX

struct soma_snapshot {
  isa_alloc al;
  soma_program *p;
  isa_buf state; /* all but the memories */
  region *regions;
  uint32_t n, cap;
};

typedef struct walk {
  soma_snapshot *s;
  const soma_snapshot *before; /* that it may share with; NULL: none */
  soma_run *r;                 /* to be kept */
  slab *to;                    /* where the next copy goes; NULL: none has been made */
  size_t copied;
  uint32_t i, tensor; /* of the next region; the next tensor that may be one */
  bool failed;
} walk;

static size_t chunk_bytes(uint64_t n, size_t i) {
  return n - i * VM_PIECE < VM_PIECE ? (size_t)(n - i * VM_PIECE) : VM_PIECE;
}

/* ---- Copies ------------------------------------------------------------------------------- */

static slab *new_slab(const isa_alloc *al, size_t n) {
  slab *b = isa_zalloc(al, sizeof *b);
  /* From the kernel, in huge pages. */
  if (!b) return NULL;
  b->bytes = n;
  b->data = vm_pool_take(NULL, al, n, false);
  if (b->data) return b;
  isa_free(al, b, sizeof *b);
  return NULL;
}

static void drop_slab(const isa_alloc *al, slab *b) {
  /* The last copy in it frees it. */
  if (!b || b->alive) return;
  vm_pool_give(NULL, al, b->data, b->bytes);
  isa_free(al, b, sizeof *b);
}

static void drop_chunk(const isa_alloc *al, chunk *c) {
  if (!c || --c->refs) return;
  c->in->alive--;
  drop_slab(al, c->in);
  isa_free(al, c, sizeof *c);
}

/* Whether there is room for n bytes in the walk's slab. The first ones of a walk are small. */
static bool make_room(walk *w, size_t n) {
  if (w->to && w->to->bytes - w->to->used >= n) return true;
  /* As large as all that this walk has copied, so that few slabs are made. */
  size_t size = w->copied < SLAB_FIRST ? SLAB_FIRST : w->copied;
  w->to = new_slab(&w->s->al, size < SLAB_MOST ? size : SLAB_MOST);
  return w->to != NULL;
}

/* A copy of p's bytes with that number, 0: the next one. NULL: no memory. */
static chunk *new_chunk(walk *w, const uint8_t *p, size_t n, uint64_t number) {
  const isa_alloc *al = &w->s->al;
  chunk *c = isa_zalloc(al, sizeof *c);
  if (!c) return NULL;
  if (!make_room(w, n)) {
    isa_free(al, c, sizeof *c);
    return NULL;
  }
  /* 0 is unknown and 1 zeros: numbers of copies begin above. */
  if (!number) number = VM_PIECE_ZEROS + atomic_fetch_add(&w->s->p->pieces, 1) + 1;
  *c = (chunk){1, (uint32_t)n, number, w->to->data + w->to->used, w->to};
  memcpy(c->data, p, n);
  w->to->used += n;
  w->to->alive++;
  w->copied += n;
  return c;
}

/* p's bytes, of which `known` is what the run knows (vm_hbm_watch): one more holder of `old`, which
 * may be NULL, if it has the same, else a new copy. *zeros: none exists, they are zeros. */
static chunk *take(walk *w, chunk *old, const uint8_t *p, size_t n, uint64_t known, bool *zeros) {
  /* Known to the run, or compared. */
  *zeros = known ? known == VM_PIECE_ZEROS : p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
  if (*zeros) return NULL;
  /* The same number is the same bytes, without a look. */
  bool same = old && (known ? old->number == known : memcmp(old->data, p, n) == 0);
  if (!same) return new_chunk(w, p, n, known);
  old->refs++;
  return old;
}

/* ---- Regions ------------------------------------------------------------------------------ */

/* The tensor of c whose block p is, from *next on; NO_TENSOR: none's. */
static uint32_t tensor_at(const vm_core *c, const uint8_t *p, uint32_t *next) {
  /* Regions come in the order of tensors: the search goes on where it was. */
  for (uint32_t i = *next; i < c->prog->ntensors; i++) {
    if (c->run->blocks[i].data != p) continue;
    *next = i + 1;
    return i;
  }
  return NO_TENSOR;
}

/* Whether only the run writes b: not what is a tensor of the device, or what a result has. */
static bool is_own(const vm_block *b) { return !b->placed && !b->lent; }

/* One more region, of n bytes; NULL: no memory. */
static region *add_region(walk *w, uint64_t n, uint32_t tensor) {
  soma_snapshot *s = w->s;
  if (s->n == s->cap && !isa_array_grow(&s->al, &s->regions, s->n, &s->cap, sizeof *s->regions))
    return NULL;
  region *r = &s->regions[s->n];
  *r = (region){n, isa_zalloc(&s->al, (vm_pieces_of(n) + 1) * sizeof(chunk *)), tensor};
  if (!r->v) return NULL;
  s->n++;
  return r;
}

/* A vm_saver's pages: takes p's bytes. */
static void keep(void *ud, uint8_t *p, uint64_t n, uint64_t *reach) {
  walk *w = ud;
  const soma_snapshot *b = w->before;
  /* The same region of the snapshot before: the walk never changes. */
  const region *like = b && w->i < b->n && b->regions[w->i].n == n ? &b->regions[w->i] : NULL;
  vm_core *c = w->r->run.cores[0];
  uint32_t tensor = tensor_at(c, p, &w->tensor);
  bool own = tensor != NO_TENSOR && is_own(&c->run->blocks[tensor]);
  w->i++;
  region *r = w->failed ? NULL : add_region(w, n, tensor);
  /* From now on the run notes what is written (vm_hbm_wrote). */
  w->failed = !r || (own && !vm_hbm_watch(c, tensor));
  uint64_t *known = own ? c->run->blocks[tensor].pieces : NULL;
  /* Nothing has been written beyond `reach`. */
  size_t written = vm_pieces_of(n < *reach ? n : *reach);
  for (size_t i = 0; i < written && !w->failed; i++) {
    bool zeros;
    r->v[i] = take(w, like ? like->v[i] : NULL, p + i * VM_PIECE, chunk_bytes(n, i),
                   known ? known[i] : 0, &zeros);
    w->failed = !r->v[i] && !zeros;
    /* So that the next snapshot need not look. */
    if (known && !w->failed) known[i] = zeros ? VM_PIECE_ZEROS : r->v[i]->number;
  }
}

/* Likewise: fills p, which holds zeros as it was made so. Blocks that a run has lent come later. */
static void give(void *ud, uint8_t *p, uint64_t n, uint64_t *reach) {
  walk *w = ud;
  const soma_snapshot *s = w->s;
  if (w->i >= s->n || s->regions[w->i].n != n) return; /* the walk is always the same */
  const region *r = &s->regions[w->i++];
  /* Lent: soma_fill_blocks brings it up to date later, by numbers. */
  if (r->tensor != NO_TENSOR && w->r->run.blocks[r->tensor].data == p) return;
  for (size_t i = 0; i < vm_pieces_of(n); i++) {
    const chunk *c = r->v[i];
    if (!c) continue;
    memcpy(p + i * VM_PIECE, c->data, c->n);
    /* The reader must know how far there is something. */
    if (*reach < i * VM_PIECE + c->n) *reach = i * VM_PIECE + c->n;
  }
}

vm_block *soma_lend_blocks(const soma_run *r) {
  const vm_core *c = r->run.cores[0];
  uint32_t n = c->prog->ntensors;
  vm_block *v = n ? isa_zalloc(&c->al, n * sizeof *v) : NULL;
  for (uint32_t i = 0; v && i < n; i++) /* Blocks that others have are made anew. */
    if (!c->run->blocks[i].borrowed && !c->run->blocks[i].lent)
      v[i] = (vm_block){
          .data = c->run->blocks[i].data, .bytes = c->run->blocks[i].bytes, .lent = true};
  return v;
}

/* What of b is not as in the region. */
static void fill(vm_block *b, const region *r) {
  for (size_t i = 0; i < vm_pieces_of(r->n); i++) {
    const chunk *c = r->v[i];
    uint64_t number = c ? c->number : VM_PIECE_ZEROS;
    /* The piece is as it was then. */
    if (b->pieces && b->pieces[i] == number) continue;
    if (c)
      memcpy(b->data + i * VM_PIECE, c->data, c->n);
    else
      memset(b->data + i * VM_PIECE, 0, chunk_bytes(r->n, i));
    if (b->pieces) b->pieces[i] = number;
  }
}

void soma_fill_blocks(soma_run *r, soma_run *old, const soma_snapshot *s) {
  vm_core *c = r->run.cores[0];
  for (uint32_t i = 0; i < c->prog->ntensors; i++) {
    vm_block *b = &c->run->blocks[i], *from = &old->run.blocks[i];
    /* Only what was lent changes hands. */
    if (!b->lent) continue;
    b->lent = false;
    from->lent = true;
    b->pieces = from->pieces;
    from->pieces = NULL;
    if (b->pieces) c->run->watched = true;
  }
  for (uint32_t k = 0; k < s->n; k++) {
    const region *g = &s->regions[k];
    if (g->tensor != NO_TENSOR && old->run.blocks[g->tensor].data == c->run->blocks[g->tensor].data)
      fill(&c->run->blocks[g->tensor], g);
  }
}

void soma_snapshot_free(soma_snapshot *s) {
  if (!s) return;
  isa_alloc al = s->al;
  for (uint32_t k = 0; k < s->n; k++) {
    region *r = &s->regions[k];
    for (size_t i = 0; i < vm_pieces_of(r->n); i++) drop_chunk(&al, r->v[i]);
    isa_free(&al, r->v, (vm_pieces_of(r->n) + 1) * sizeof(chunk *));
  }
  isa_free(&al, s->regions, s->cap * sizeof *s->regions);
  isa_buf_free(&s->state);
  soma_program_free(s->p);
  isa_free(&al, s, sizeof *s);
}

uint64_t soma_snapshot_bytes(const soma_snapshot *s) {
  uint64_t bytes = s ? s->state.len : 0;
  for (uint32_t k = 0; s && k < s->n; k++)
    for (size_t i = 0; i < vm_pieces_of(s->regions[k].n); i++) {
      const chunk *c = s->regions[k].v[i];
      /* Shared pieces are divided among those who share. */
      if (c) bytes += c->n / c->refs;
    }
  return bytes;
}

static soma_snapshot *new_snapshot(soma_program *p) {
  isa_alloc al = isa_alloc_default();
  soma_snapshot *s = isa_zalloc(&al, sizeof *s);
  if (!s) return NULL;
  s->al = al;
  s->p = p;
  s->p->refs++;
  isa_buf_init(&s->state, &al);
  return s;
}

/* The state of r, which can be saved now. NULL: no memory. */
static soma_snapshot *snapshot_of(soma_run *r, const soma_snapshot *before) {
  soma_snapshot *s = new_snapshot(r->p);
  if (!s) return NULL;
  /* With another program nothing is the same. */
  walk w = {.s = s, .r = r, .before = before && before->p == r->p ? before : NULL};
  vm_saver saver = {.out = &s->state, .pages = keep, .pages_ud = &w};
  soma_save_head(&saver, r);
  vm_save_walk(&saver, &r->run);
  if (!w.failed && !saver.failed && !s->state.failed) return s;
  soma_snapshot_free(s);
  return NULL;
}

/* Reads s by w, of which the caller sets the run: the one before, whose blocks may be lent. */
static vm_saver reader_of(const soma_snapshot *s, walk *w, isa_error *e) {
  w->s = (soma_snapshot *)(uintptr_t)s;
  vm_saver saver = vm_saver_of(s->state.data, s->state.len, e);
  saver.pages = give;
  saver.pages_ud = w;
  return saver;
}

soma_status soma_run_snapshot(soma_run *r, const soma_snapshot *before, soma_snapshot **out) {
  if (!r || !r->m || !soma_given(r->m, "out", out)) return SOMA_ARG;
  *out = NULL;
  soma_status status = soma_check_savable(r);
  if (status != SOMA_OK) return status;
  *out = snapshot_of(r, before);
  return *out ? SOMA_OK : soma_out_of_memory(r->m);
}

soma_status soma_run_return(soma_run **r, const soma_snapshot *s) {
  if (!r || !*r || !(*r)->m || !soma_given((*r)->m, "snapshot", s)) return SOMA_ARG;
  if ((*r)->m->world)
    return soma_fail((*r)->m, SOMA_ARG, "a rank goes back with its world: soma_world_return");
  if (s->p != (*r)->p)
    return soma_fail((*r)->m, SOMA_ARG, "the snapshot is of a run of another program");
  isa_error e = {.status = ISA_FORMAT};
  walk w = {.r = *r};
  vm_saver saver = reader_of(s, &w, &e);
  return soma_state_read(r, &saver, s);
}

/* ---- Worlds ------------------------------------------------------------------------------- */

struct soma_world_snapshot {
  isa_alloc al;
  soma_snapshot **of; /* by rank */
  uint32_t ranks;
  isa_buf links;
};

void soma_world_snapshot_free(soma_world_snapshot *s) {
  if (!s) return;
  isa_alloc al = s->al;
  for (uint32_t r = 0; s->of && r < s->ranks; r++) soma_snapshot_free(s->of[r]);
  isa_free(&al, s->of, s->ranks * sizeof *s->of);
  isa_buf_free(&s->links);
  isa_free(&al, s, sizeof *s);
}

uint64_t soma_world_snapshot_bytes(const soma_world_snapshot *s) {
  uint64_t bytes = s ? s->links.len : 0;
  for (uint32_t r = 0; s && r < s->ranks; r++) bytes += soma_snapshot_bytes(s->of[r]);
  return bytes;
}

static bool keep_ranks(soma_world *w, const soma_world_snapshot *before, soma_world_snapshot *s) {
  bool like = before && before->ranks == s->ranks;
  vm_saver saver = {.out = &s->links};
  for (uint32_t r = 0; r < s->ranks; r++) /* Ranks share with their own earlier state. */
    if (!(s->of[r] = snapshot_of(w->ranks[r].run, like ? before->of[r] : NULL))) return false;
  vm_world_walk_links(&w->w, &saver);
  return !s->links.failed;
}

soma_status soma_world_keep(soma_world *w, const soma_world_snapshot *before,
                            soma_world_snapshot **out) {
  if (!w || !out) return SOMA_ARG;
  *out = NULL;
  soma_status status = soma_world_check_savable(w);
  if (status != SOMA_OK) return status;
  isa_alloc al = isa_alloc_default();
  soma_world_snapshot *s = isa_zalloc(&al, sizeof *s);
  if (!s) return soma_world_fail(w, SOMA_NOMEM, "no memory for a snapshot");
  *s = (soma_world_snapshot){.al = al, .ranks = w->o.ranks};
  isa_buf_init(&s->links, &al);
  s->of = isa_zalloc(&al, s->ranks * sizeof(soma_snapshot *));
  if (s->of && keep_ranks(w, before, s)) {
    *out = s;
    return SOMA_OK;
  }
  soma_world_snapshot_free(s);
  return soma_world_fail(w, SOMA_NOMEM, "no memory for a snapshot");
}

/* A rank on its way back. */
typedef struct back {
  soma_run *old;
  walk w;
  vm_saver s;
} back;

/* Makes a run that has what the old one was started with. */
static soma_status begin_rank(soma_world *w, uint32_t r, const soma_snapshot *s, back *b,
                              isa_error *e) {
  rank *x = &w->ranks[r];
  const isa_program *p = x->p->p;
  vm_memory mem[ISA_MAX_CORES] = {0};
  soma_run *run = vm_pages_new(&x->m->al, sizeof *run);
  vm_block *given = run ? soma_lend_blocks(b->old) : NULL;
  soma_status status = run && (given || !p->ntensors) ? SOMA_OK : SOMA_NOMEM;
  b->w.r = b->old;
  b->s = reader_of(s, &b->w, e);
  /* A rank's new run takes the old one's addresses. */
  soma_release(b->old); /* the new one takes the same addresses */
  if (status == SOMA_OK) status = soma_read_head(x->m, p, &b->s, run, mem, given);
  if (given) isa_free(&x->m->al, given, p->ntensors * sizeof *given);
  if (status != SOMA_OK) {
    if (run) vm_pages_free(&x->m->al, run, sizeof *run);
    return status;
  }
  soma_adopt(x->m, x->p, run, mem);
  run->log = b->old->log;
  run->log_ud = b->old->log_ud;
  vm_debug_move(run->run.cores[0], b->old->run.cores[0], run);
  x->run = run;
  return SOMA_OK;
}

static soma_status go_back(soma_world *w, const soma_world_snapshot *s, back *b, isa_error *e) {
  soma_status status = SOMA_OK;
  /* All old runs stay until all new ones are there. */
  for (uint32_t r = 0; r < s->ranks; r++) b[r].old = w->ranks[r].run;
  for (uint32_t r = 0; r < s->ranks && status == SOMA_OK; r++)
    status = begin_rank(w, r, s->of[r], &b[r], e);
  /* Peers by their new runs, before messages are read. */
  if (status == SOMA_OK) status = soma_world_connect(w, false);
  for (uint32_t r = 0; r < s->ranks && status == SOMA_OK; r++)
    status = soma_read_walk(&b[r].s, w->ranks[r].run);
  vm_saver links = vm_saver_of(s->links.data, s->links.len, e);
  if (status == SOMA_OK) vm_world_walk_links(&w->w, &links);
  if (links.failed) status = (soma_status)e->status;
  for (uint32_t r = 0; r < s->ranks && status == SOMA_OK; r++)
    soma_fill_blocks(w->ranks[r].run, b[r].old, s->of[r]);
  return status;
}

/* The runs before are freed; on failure first the new ones, which may have memory of those. */
static void end_back(soma_world *w, const back *b, bool ok) {
  /* The new ones first: they have blocks of the old ones. */
  if (!ok) soma_world_leave_ranks(w);
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    rank *x = &w->ranks[r];
    if (!ok && x->run != b[r].old) soma_run_free(x->run);
    soma_run_free(b[r].old); /* it is no run of the machine any more, or there is no other */
    x->taken = false;
  }
}

soma_status soma_world_return(soma_world *w, const soma_world_snapshot *s) {
  isa_error e = {.status = ISA_NOMEM};
  if (!w) return SOMA_ARG;
  if (!s) return soma_world_fail(w, SOMA_ARG, "the snapshot is NULL");
  if (w->running) return soma_world_fail(w, SOMA_BUSY, "soma_world_until is at work");
  bool same = s->ranks == w->o.ranks;
  /* Each rank must still have the run of that program. */
  for (uint32_t r = 0; r < w->o.ranks && same; r++)
    same = w->ranks[r].run && w->ranks[r].run->m && s->of[r]->p == w->ranks[r].p;
  if (!same)
    return soma_world_fail(w, SOMA_ARG, "the snapshot is of another world, or of an earlier start");
  back *b = isa_zalloc(&w->al, s->ranks * sizeof *b);
  if (!b) return soma_world_fail(w, SOMA_NOMEM, "no memory to go back");
  soma_world_leave_ranks(w);
  soma_forget_findings(w);
  soma_status status = go_back(w, s, b, &e);
  end_back(w, b, status == SOMA_OK);
  isa_free(&w->al, b, s->ranks * sizeof *b);
  if (status == SOMA_OK) return status;
  return soma_world_fail(w, status, "the world cannot go back: %s",
                         e.text[0] ? e.text : soma_status_text(status));
}
