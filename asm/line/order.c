/* Numbers what was added in the order of the source again, section by section. */
#include "../../isa/bytes.h"
#include "../../isa/operand.h"
#include "stmt.h"

#include <string.h>

/* Patterns, pool runs and files were added in the order of the source. The disassembler prints one
 * section after the other, so for its text to give the same bytes they are numbered again in that
 * order. */
typedef struct renumber {
  as_job *j;
  isa_program *p;
  unsigned core;
  isa_ap *old;
  uint32_t *to;     /* new number of each old pattern, 0: not yet */
  isa_program pool; /* the old pool */
  isa_peer *peers;  /* the old ones */
} renumber;

/* Peers get new numbers too, in the order of their first use. */
static uint32_t new_peer(renumber *r, uint32_t old) {
  uint32_t n = old ? isa_program_peer(r->p, &r->peers[old - 1]) : 0;
  if (old && n == 0) as_nomem(r->j);
  return n;
}

static uint32_t new_ap(void *ud, uint32_t old) {
  renumber *r = ud;
  if (old == 0) return 0;
  /* Once: patterns are shared by instructions. */
  if (r->to[old - 1]) return r->to[old - 1];
  isa_ap ap = r->old[old - 1];
  for (unsigned d = 0; d < ISA_MAX_DYN; d++) /* Those that it needs get their numbers first. */
    if (ap.dyn[d].kind == ISA_DYN_elem) ap.dyn[d].ap = new_ap(r, ap.dyn[d].ap);
  if (ap.index_kind) ap.index = new_ap(r, ap.index);
  /* A pattern's peer is 0 most often, which stays 0. */
  ap.rank = (uint16_t)new_peer(r, ap.rank);
  uint32_t n = isa_program_ap(r->p, r->core, &ap);
  if (n == 0) as_nomem(r->j);
  return r->to[old - 1] = n;
}

static void renumber_insn(renumber *r, isa_insn *in) {
  if (!isa_insn_take(r->p, &r->pool, in, new_ap, r)) as_nomem(r->j);
  if (in->upd.kind == ISA_UPD_peer) in->upd.value = new_peer(r, in->upd.value);
}

/* Calls, equal ones once: %line makes one for each line that came out of it. */
typedef struct calls {
  as_job *j;
  isa_program *p;
  isa_call *old;
  uint32_t *to;    /* new number of each old call, 0: not yet */
  uint32_t *table; /* an open hash table of new numbers */
  uint32_t size;
} calls;

/* The name is compared last: the numbers differ sooner. */
static bool same_call(const isa_call *a, const isa_call *b) {
  return a->file == b->file && a->line == b->line && a->outer == b->outer && a->round == b->round &&
         strcmp(a->name, b->name) == 0;
}

static uint32_t new_call(calls *k, uint32_t old) {
  if (old == 0 || k->to[old - 1]) return old ? k->to[old - 1] : 0;
  isa_call c = k->old[old - 1];
  /* A call's outer one first, as the file wants it. */
  c.outer = new_call(k, c.outer);
  uint32_t key[] = {c.file, c.line, c.outer, c.round};
  uint32_t at = (uint32_t)isa_fnv(ISA_FNV_START, key, sizeof key) & (k->size - 1);
  /* An equal call may be there. */
  while (k->table[at] && !same_call(&k->p->calls[k->table[at] - 1], &c))
    at = (at + 1) & (k->size - 1);
  /* No call is added, so the array is large enough. */
  if (!k->table[at]) {
    k->p->calls[k->p->ncalls] = c; /* no more than there were */
    k->table[at] = ++k->p->ncalls;
  }
  return k->to[old - 1] = k->table[at];
}

static void calls_in_order(as_job *j, isa_program *p) {
  calls k = {.j = j, .p = p, .size = 16};
  uint32_t n = p->ncalls;
  if (n == 0) return;
  /* Half empty, so that a search ends soon. */
  while (k.size / 2 < n) k.size *= 2;
  k.old = as_new(j, n * sizeof *k.old);
  k.to = as_new(j, n * sizeof *k.to);
  k.table = as_new(j, k.size * sizeof *k.table);
  memcpy(k.old, p->calls, n * sizeof *k.old);
  p->ncalls = 0;
  /* By section, as the disassembler prints them. */
  for (unsigned s = 0; s < AS_NSECTIONS; s++) {
    isa_code *code = &p->cores[as_core_of(s)].code[as_engine_of(s)];
    for (uint32_t i = 0; i < code->n && code->lines; i++)
      code->lines[i].call = new_call(&k, code->lines[i].call);
  }
}

static void number_file(uint32_t *to, uint32_t *n, uint32_t file) {
  if (file && to[file] == 0) to[file] = ++*n;
}

/* Files too, by the line tables of the sections.
 * 1-based, 0 for no file. */
static void files_in_order(as_job *j, isa_program *p) {
  uint32_t *to = as_new(j, ((size_t)p->nfiles + 1) * sizeof *to), n = 0;
  const char **old = as_new(j, ((size_t)p->nfiles + 1) * sizeof *old);
  for (unsigned s = 0; s < AS_NSECTIONS; s++) {
    isa_code *code = &p->cores[as_core_of(s)].code[as_engine_of(s)];
    for (uint32_t i = 0; i < code->n; i++) {
      isa_line *line = &code->lines[i];
      /* In the order of the first line of each. */
      number_file(to, &n, line->file);
      for (uint32_t c = line->call; c; c = p->calls[c - 1].outer)
        number_file(to, &n, p->calls[c - 1].file);
      line->file = to[line->file];
    }
  }
  for (uint32_t c = 0; c < p->ncalls; c++) p->calls[c].file = to[p->calls[c].file];
  for (uint32_t f = 0; f < p->nfiles; f++) old[f] = p->files[f];
  /* Files that no line names are dropped. */
  for (uint32_t f = 0; f < p->nfiles; f++)
    if (to[f + 1]) p->files[to[f + 1] - 1] = old[f];
  p->nfiles = n;
}

/* The old patterns were copied; the array is filled again from its start. */
static void forget_aps(isa_core *core) {
  core->naps = core->ap_indexed = 0;
  isa_index_clear(&core->ap_index);
}

static void forget_pool(isa_program *p) {
  p->pool.len = 0;
  p->npool_runs = 0;
  isa_index_clear(&p->pool_index);
}

static void order_core(renumber *r, isa_core *core) {
  uint32_t n = core->naps;
  r->old = as_new(r->j, ((size_t)n + 1) * sizeof *r->old);
  r->to = as_new(r->j, ((size_t)n + 1) * sizeof *r->to);
  /* memcpy of nothing from a NULL array is not defined. */
  if (n) memcpy(r->old, core->aps, n * sizeof *r->old);
  forget_aps(core);
  /* Static transfers are printed before the sections. */
  for (uint32_t q = 0; q < core->nqueues; q++)
    for (uint32_t i = 0; i < core->queues[q].nstatics; i++)
      renumber_insn(r, &core->queues[q].statics[i]);
  for (unsigned e = 0; e < ISA_NSEQS; e++)
    for (uint32_t i = 0; i < core->code[e].n; i++) renumber_insn(r, &core->code[e].insns[i]);
}

void as_order(as_job *j, isa_program *p) {
  renumber r = {.j = j, .p = p};
  r.pool.pool.data = as_new(j, p->pool.len + 8);
  r.pool.pool.len = p->pool.len;
  /* A copy: the pool is filled again. */
  if (p->pool.len) memcpy(r.pool.pool.data, p->pool.data, p->pool.len);
  forget_pool(p);
  r.peers = as_new(j, ((size_t)p->npeers + 1) * sizeof *r.peers);
  if (p->npeers) memcpy(r.peers, p->peers, p->npeers * sizeof *r.peers);
  p->npeers = 0;
  for (; r.core < p->ncores; r.core++) order_core(&r, &p->cores[r.core]);
  calls_in_order(j, p);
  files_in_order(j, p);
}
