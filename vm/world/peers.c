/* Which ranks and tensors a program's peers are. */
#include "world.h"

#include <string.h>

/* ---- Ranks -------------------------------------------------------------------------------- */

/* Why a peer is no rank. */
static void tell_why(const isa_group *g, const isa_peer *peer, uint32_t rank, isa_error *e) {
  uint32_t n, place;
  if (!isa_group_list(g, rank, &n, &place))
    isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "rank %u is in no list of group %s", rank, g->name);
  else
    isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
             "group %s has %u ranks in the list of rank %u, no place %u", g->name, n, rank,
             peer->how == ISA_PEER_xor ? place ^ peer->value : peer->value);
}

/* The rank that a peer is for `rank`; UINT32_MAX with an error. */
static uint32_t rank_of(const isa_program *p, const isa_peer *peer, uint32_t rank, uint32_t nranks,
                        isa_error *e) {
  uint32_t of = isa_peer_rank(p, peer, rank);
  if (of < nranks) return of;
  /* Its group has no such place, or it is a rank beyond the world. */
  if (of == UINT32_MAX && peer->how != ISA_PEER_rank)
    tell_why(&p->groups[peer->group - 1], peer, rank, e);
  else
    isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "rank %u sends to rank %u; the world has %u ranks", rank,
             of, nranks);
  return UINT32_MAX;
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* The peer's tensor of the name of tensor i; UINT32_MAX with an error. */
static uint32_t tensor_there(const vm_world *w, uint32_t rank, uint32_t to, uint32_t i,
                             isa_error *e) {
  const isa_program *p = w->runs[rank]->prog, *q = w->runs[to]->prog;
  const isa_tensor *t = &p->tensors[i], *there = NULL;
  int at = isa_program_find_tensor(q, t->name, strlen(t->name));
  /* What the peer itself has at another rank is no memory of its own. */
  if (at >= 0 && q->tensors[at].role != ISA_REMOTE) there = &q->tensors[at];
  if (there && there->bytes == t->bytes && there->role != ISA_CONST) return (uint32_t)at;
  if (!there)
    isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "rank %u pushes to tensor %s of rank %u, which has none",
             rank, t->name, to);
  else if (there->role == ISA_CONST)
    isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "rank %u pushes to tensor %s of rank %u, which is const",
             rank, t->name, to);
  else
    isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
             "rank %u pushes to tensor %s of rank %u, which has %llu bytes there and %llu here",
             rank, t->name, to, (unsigned long long)there->bytes, (unsigned long long)t->bytes);
  return UINT32_MAX;
}

static bool find_tensors(vm_world *w, uint32_t rank, uint32_t *tensors, isa_error *e) {
  const isa_program *p = w->runs[rank]->prog;
  for (unsigned core = 0; core < p->ncores; core++)
    for (uint32_t a = 0; a < p->cores[core].naps; a++) {
      const isa_ap *ap = &p->cores[core].aps[a];
      /* Only operands at peers in HBM; those in SBUF are the same in all programs. */
      if (!ap->rank || ap->space != ISA_HBM) continue;
      /* A table of peers by tensors; most entries are of no use, and stay all ones. */
      uint32_t *at = &tensors[(ap->rank - 1u) * p->ntensors + ap->base - 1];
      *at = tensor_there(w, rank, w->peers[rank].ranks[ap->rank - 1], ap->base - 1, e);
      if (*at == UINT32_MAX) return false;
    }
  return true;
}

isa_status vm_world_connect(vm_world *w, uint32_t rank, isa_error *e) {
  const isa_program *p = w->runs[rank]->prog;
  vm_peers *x = &w->peers[rank];
  size_t n = (size_t)p->npeers * p->ntensors;
  if (!p->npeers) return ISA_OK;
  uint32_t *ranks = isa_zalloc(&w->al, p->npeers * sizeof *ranks);
  uint32_t *tensors = isa_zalloc(&w->al, (n ? n : 1) * sizeof *tensors);
  x->ranks = ranks;
  x->tensors = tensors;
  if (!ranks || !tensors) return ISA_NOMEM;
  memset(tensors, UINT8_MAX, n * sizeof *tensors);
  for (uint32_t i = 0; i < p->npeers; i++) {
    ranks[i] = rank_of(p, &p->peers[i], rank, w->nranks, e);
    if (ranks[i] == UINT32_MAX) return e->status;
  }
  return find_tensors(w, rank, tensors, e) ? ISA_OK : e->status;
}
