/* The map of SBUF and PSUM in the listing: who has which bytes, the first and last instruction of
 * each engine that uses them, and what is free in all partitions. */
#include "stmt.h"

#include <stdlib.h>

static int by_address(const void *a, const void *b) {
  const isa_tile *x = *(const isa_tile *const *)a, *y = *(const isa_tile *const *)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  if (x->part != y->part) return x->part < y->part ? -1 : 1;
  /* Two at one place: in the order of declaration. */
  return x < y ? -1 : x > y;
}

/* Ranges are inclusive; sizes are counted. */
static void put_range(isa_buf *out, unsigned space, uint32_t lo, uint32_t hi) {
  isa_buf_printf(out, "  %7u to %7u  %7u  ", lo, hi - 1, hi - lo);
  if (space != ISA_PSUM) return;
  uint32_t first = lo / ISA_PSUM_BANK, last = (hi - 1) / ISA_PSUM_BANK;
  if (first == last)
    isa_buf_printf(out, "bank %u     ", first);
  else
    isa_buf_printf(out, "banks %u-%u  ", first, last);
}

/* Nothing between two tiles, or they overlap. */
static void put_free(isa_buf *out, unsigned space, uint32_t lo, uint32_t hi) {
  if (lo >= hi) return;
  put_range(out, space, lo, hi);
  isa_buf_puts(out, "free\n");
}

static void put_taken(as_job *j, isa_buf *out, const isa_tile *t, const as_uses *u) {
  const char *text = as_use_text(j, &u->tile[t - j->program->tiles + 1]);
  put_range(out, t->space, t->offset, t->offset + t->bytes);
  isa_buf_printf(out, "%-12s %3u to %3u  %s\n", t->name, t->part, t->part + t->shape[0] - 1,
                 /* A tile without a use is told, since its bytes could be somebody
                  * else's. */
                 text[0] ? text : "not used");
}

static void put_space(as_job *j, isa_buf *out, unsigned space, const as_uses *u) {
  const isa_program *p = j->program;
  const isa_tile **v = as_new(j, ((size_t)p->ntiles + 1) * sizeof *v);
  uint32_t n = 0, end = 0;
  for (uint32_t i = 0; i < p->ntiles; i++)
    if (p->tiles[i].space == space) v[n++] = &p->tiles[i];
  /* A memory without tiles has no map. */
  if (n == 0) return;
  qsort(v, n, sizeof *v, by_address);
  isa_buf_printf(out, "\nmap of %s     size  %stile         partitions  used by\n",
                 isa_space_name(space), space == ISA_PSUM ? "           " : "");
  for (uint32_t i = 0; i < n; i++) {
    put_free(out, space, end, v[i]->offset);
    put_taken(j, out, v[i], u);
    /* Tiles may overlap: what is free begins after the longest. */
    if (v[i]->offset + v[i]->bytes > end) end = v[i]->offset + v[i]->bytes;
  }
  put_free(out, space, end, space == ISA_PSUM ? j->target->psum_bytes : j->target->sbuf_usable);
}

void as_tile_map(as_job *j, isa_buf *out) {
  if (j->program->ntiles == 0) return;
  const as_uses *u = as_uses_of(j);
  put_space(j, out, ISA_SBUF, u);
  put_space(j, out, ISA_PSUM, u);
}
