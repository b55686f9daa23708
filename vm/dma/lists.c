/* A transfer over lists of buffers. It is made of pieces, a transfer each, that are cut where
 * either list goes on to its next buffer; in each ring they follow one another, and the last one
 * signals.
 *
 *   dsts     |   a: 4 elements   |         b: 6          |
 *   srcs     |             x: 7            |    y: 3     |
 *   pieces   |         0         |    1    |      2      | */
#include "dma.h"

typedef struct list {
  const uint32_t *ap;
  uint32_t n, i;
  uint64_t from, left; /* elements of buffer i */
} list;

static uint64_t elements_of(const vm_core *c, uint32_t index) {
  /* Elements in all: of SBUF those of every partition. */
  const isa_ap *ap = &c->code->aps[index - 1];
  return isa_ap_elems(ap) * (ap->space == ISA_HBM ? 1 : ap->nparts);
}

static list open_list(const vm_core *c, isa_ref r) {
  /* The verifier refuses empty lists. */
  list l = {.ap = isa_program_list(c->prog, r, ISA_K_APS), .n = r.count};
  l.left = elements_of(c, l.ap[0]);
  return l;
}

static void go_on(const vm_core *c, list *l, uint64_t n) {
  l->from += n;
  l->left -= n;
  /* The last buffer has been used up: the piece that used it up is the last one. */
  if (l->left || ++l->i == l->n) return;
  l->from = 0;
  l->left = elements_of(c, l->ap[l->i]);
}

vm_dma_ops vm_dma_ops_of_piece(const vm_core *c, const isa_insn *in, unsigned piece) {
  const struct isa_DMA_LISTS *u = &in->u.DMA_LISTS;
  /* The pieces are counted even after the wanted one: rings need to know which is the last. */
  vm_dma_ops o = {.nsrc = 1, .queue = u->queue, .prio = u->prio};
  list dst = open_list(c, u->dsts), src = open_list(c, u->srcs);
  while (dst.i < dst.n && src.i < src.n) {
    /* A piece ends where either buffer ends. */
    uint64_t n = dst.left < src.left ? dst.left : src.left;
    if (o.pieces++ == piece) {
      o.dst = dst.ap[dst.i];
      o.src[0] = src.ap[src.i];
      o.elems = n;
      o.from[0] = dst.from;
      o.from[1] = src.from;
    }
    go_on(c, &dst, n);
    go_on(c, &src, n);
  }
  return o;
}

/* ---- What registers have moved ------------------------------------------------------------ */

typedef struct buffer {
  isa_ap ap; /* where it is now */
  bool moved;
} buffer;

/* Buffers that do not resolve are reported when their piece is made. */
static uint32_t resolve_list(vm_core *c, const vm_engine *e, isa_ref r, buffer *out) {
  const uint32_t *index = isa_program_list(c->prog, r, ISA_K_APS);
  uint32_t n = 0;
  for (uint32_t i = 0; i < r.count; i++) {
    const isa_ap *ap = &c->code->aps[index[i] - 1];
    vm_resolver quiet = {.c = c, .e = e};
    vm_view v;
    if (!vm_resolve_ap(&quiet, index[i], &v)) continue;
    out[n++] = (buffer){vm_resolved_pattern(c, ap, &v), !isa_ap_is_static(ap)};
  }
  return n;
}

bool vm_dma_lists_apart(vm_core *c, const vm_engine *e, const isa_insn *in, isa_error *err) {
  const struct isa_DMA_LISTS *u = &in->u.DMA_LISTS;
  buffer b[2 * 16]; /* dsts, then srcs */
  uint32_t ndst = resolve_list(c, e, u->dsts, b), n = ndst;
  n += resolve_list(c, e, u->srcs, b + ndst);
  for (uint32_t i = 0; i < ndst; i++)
    for (uint32_t k = i + 1; k < n; k++)
      /* Two that no register moves were compared when the program was verified. */
      if ((b[i].moved || b[k].moved) && isa_ap_overlap(&b[i].ap, &b[k].ap))
        return isa_fail(err, ISA_FAULT, 0,
                        "a buffer at bytes %lld.. shares bytes with one of %s, at bytes %lld..: "
                        "what is written must not overlap anything else",
                        (long long)b[i].ap.offset, k < ndst ? "dsts" : "srcs",
                        (long long)b[k].ap.offset);
  return true;
}

void vm_dma_open_rings(const vm_core *c, vm_transfer *const *t, unsigned n) {
  /* `opened` grows piece by piece: a ring pays DMA_TRANSFER once, with its first elements of all.
   */
  unsigned rings = c->code->queues[t[0]->queue].rings, opened = 0;
  for (unsigned k = 0; k < n; k++) {
    unsigned has = 0;
    for (unsigned r = 0; r < rings; r++)
      has |= (unsigned)(t[k]->first[r + 1] > t[k]->first[r]) << r;
    t[k]->opens = (uint16_t)(has & ~opened);
    opened |= has;
  }
  /* All pieces count the same rings: those share the stack's bandwidth for the whole instruction.
   */
  for (unsigned k = 0; k < n; k++)
    if (t[k]->hbm_bytes) t[k]->shares = (uint8_t)__builtin_popcount(opened);
}
