/* Views as operands of records. */
#include <string.h>

#include "isa.h"
#include "view_impl.h"

/* Innermost last, as a record has them: (step, number) pairs, two words each. */
size_t soma_view_pairs(const soma_view_dim *dims, unsigned n, int merge, int64_t *pairs) {
  size_t made = 0;
  for (unsigned d = 0; d < n; d++) {
    int64_t num = dims[d].num, step = dims[d].step, span, *last = pairs + 2 * made;
    /* In a merged list a single element is left out. */
    if (merge && num == 1) continue;
    /* The outer dimension goes on where this one ends.
     * Not above 65535, which is the most that a pattern's dimension takes. */
    if (merge && made > 0 && isa_view_times(step, num, &span) && last[-2] == span &&
        isa_view_times(last[-1], num, &span) && span <= UINT16_MAX) {
      last[-2] = step;
      last[-1] = span;
      continue;
    }
    last[0] = step;
    last[1] = num;
    made++;
  }
  return made;
}

static int no_room(soma_view_error *e) {
  return isa_view_refuse(e, "%s: no room for its words", isa_view_name(e));
}

/* Appends the words of a part; how many, 0: refused.
 * A part known only at run time: a register's offset, an element's, a size or a gather. */
static size_t put_part(const soma_view *v, const soma_view_dyn *p, int64_t *words, size_t room,
                       soma_view_error *e) {
  size_t n = 0;
  if (room < 3) return (size_t)no_room(e);
  words[n++] = p->kind;
  if (p->kind == SOMA_DYN_SIZE || p->kind == SOMA_DYN_GATHER)
    words[n++] = (int64_t)p->dim - v->tile;
  if (p->kind == SOMA_DYN_ELEMENT) words[n++] = p->stride;
  if (p->kind == SOMA_DYN_REGISTER || p->kind == SOMA_DYN_SIZE) words[n++] = p->reg;
  if (p->kind == SOMA_DYN_REGISTER) words[n++] = p->stride;
  /* These two have a register alone; the others go on with the words of their operand. */
  if (!p->operand || p->kind == SOMA_DYN_REGISTER || p->kind == SOMA_DYN_SIZE) return n;
  size_t more = soma_view_words(p->operand, 0, words + n, room - n, e);
  return more ? n + more : 0;
}

size_t soma_view_words(const soma_view *v, int merge, int64_t *words, size_t room,
                       soma_view_error *e) {
  int64_t bytes;
  /* A part's number of a dimension must stay right, so nothing before it is merged. */
  unsigned fixed = isa_view_fixed(v), keep = fixed > v->tile ? fixed : v->tile;
  if (!isa_dtype_valid(v->dtype))
    return (size_t)isa_view_refuse(e, "%u is not a data type", v->dtype);
  /* A tile has its partitions at least. */
  if (v->ndim < v->tile)
    return (size_t)isa_view_refuse(e, "%s has no dimensions", isa_view_name(e));
  if (!isa_view_times(v->offset, isa_dtype_bytes(v->dtype), &bytes))
    return (size_t)isa_view_too_far(e);
  /* A pattern has a first partition and a count; nothing in it skips partitions. */
  if (v->tile && v->dim[0].num != 1 && v->dim[0].step != 1)
    return (size_t)isa_view_refuse(
        e,
        "the partitions of %s follow one another: their step must be 1, not "
        "%lld",
        isa_view_name(e), (long long)v->dim[0].step);
  /* The head and all dimensions fit then; parts ask for their own room. */
  if (room < SOMA_VIEW_WORDS) return (size_t)no_room(e);
  /* Parts name these dimensions by number: they stay as they are. */
  size_t dims = soma_view_pairs(v->dim + v->tile, keep - v->tile, 0, words + 7);
  dims += soma_view_pairs(v->dim + keep, v->ndim - keep, merge, words + 7 + 2 * dims);
  /* One element has a dimension of one. */
  if (dims == 0 && merge) {
    words[7] = words[8] = 1;
    dims = 1;
  }
  const int64_t head[] = {0,     v->buffer,    v->dtype, v->part, v->tile ? v->dim[0].num : 0,
                          bytes, (int64_t)dims};
  memcpy(words, head, sizeof head);
  size_t n = 7 + 2 * dims;
  for (unsigned i = 0; i < v->ndyn; i++) {
    size_t more = put_part(v, &v->dyn[i], words + n, room - n, e);
    if (!more) return 0;
    n += more;
  }
  /* The first word says how many follow. */
  words[0] = (int64_t)n - 1;
  return n;
}
