/* Views: which elements of a tensor or a tile an operand of an instruction is, in which order.
 * The part of soma_kernel.h for it; it needs nothing else.
 *
 *   soma_view x, w;
 *   soma_view_make(&x, buffer, SOMA_FLOAT32, 0, 2, shape, &e);  all of x, float32[1000, 64] in HBM
 *   w = x;
 *   soma_view_slice(&w, 0, 128, 128, 1, &e);                    rows 128 to 255
 *   soma_view_permute(&w, 2, order, &e);                        columns first
 *   n = soma_view_words(&w, 0, words, room, &e);                as an operand of a record
 *
 * A view is a value: copy it by `=`. It owns nothing. Nothing moves: it is where the elements lie.
 * The view of a tile has its partitions as dimension 0. All calls that may refuse give 1 when done;
 * else 0, with the rule and the values in e->text, and change nothing. */
#ifndef SOMA_VIEW_H
#define SOMA_VIEW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SOMA_VIEW_DIMS = 16,
  SOMA_VIEW_DYNS = 3,
  SOMA_VIEW_WORDS = 7 + 2 * SOMA_VIEW_DIMS, /* of an operand without dynamic parts, at most */
  SOMA_VIEW_TEXT = 360
};

typedef struct soma_view_error {
  const char *name; /* given by the caller: what messages call the view; NULL: "the view" */
  uint32_t from;    /* and the number that its language gives the first dimension: 0 or 1 */
  char text[SOMA_VIEW_TEXT];
} soma_view_error;

typedef struct soma_view_dim {
  int64_t num, step; /* elements, and how far apart: in elements, of partitions in partitions */
} soma_view_dim;

/* Parts of an operand that are known only at run time, and their words in a record. */
enum { SOMA_DYN_REGISTER = 1, SOMA_DYN_ELEMENT, SOMA_DYN_SIZE, SOMA_DYN_GATHER, SOMA_DYN_INDIRECT };
typedef struct soma_view_dyn {
  uint8_t kind;
  uint8_t dim;                     /* SIZE, GATHER: of the view */
  uint32_t reg;                    /* REGISTER, SIZE: of soma_kernel_register */
  int64_t stride;                  /* REGISTER, ELEMENT: elements for each 1 of the value */
  const struct soma_view *operand; /* ELEMENT, GATHER, INDIRECT: has no such parts itself; the
                                      caller keeps it as long as it makes words of the view */
} soma_view_dyn;

typedef struct soma_view {
  uint32_t buffer; /* of soma_kernel_tensor or soma_kernel_tile; the caller may set it later */
  uint8_t tile;    /* it is in SBUF or PSUM: dimension 0 is its partitions */
  uint8_t dtype;   /* a soma_dtype; offset and steps count elements of it */
  uint8_t ndim, ndyn;
  int64_t part;   /* first partition, from that of the tile; 0 in HBM */
  int64_t offset; /* first element: of the tensor, or in each partition of the tile */
  int64_t bytes;  /* of what it lies in: the tensor, or a partition of the tile */
  int64_t parts;  /* partitions of the tile; 0 in HBM */
  soma_view_dim dim[SOMA_VIEW_DIMS]; /* outermost first */
  soma_view_dyn dyn[SOMA_VIEW_DYNS];
} soma_view;

/* ---- Making one --------------------------------------------------------------------------- */

/* All of a tensor or a tile of that shape, outermost dimension first. */
int soma_view_make(soma_view *v, uint32_t buffer, unsigned dtype, int tile, unsigned ndim,
                   const int64_t *shape, soma_view_error *e);
/* Elements of the view, saturating at INT64_MAX. */
int64_t soma_view_elements(const soma_view *v);
/* Whether they lie one after another: in HBM all, of a tile those of each partition. */
int soma_view_dense(const soma_view *v);

/* ---- Other views of it -------------------------------------------------------------------- */

/* `count` elements of dimension d from `start` on, each `step` after the one before. */
int soma_view_slice(soma_view *v, unsigned d, int64_t start, int64_t count, int64_t step,
                    soma_view_error *e);
/* One element of dimension d, which is dropped; of a tile's partitions one is left. */
int soma_view_index(soma_view *v, unsigned d, int64_t at, soma_view_error *e);
/* A new dimension of one element before dimension d; the same dropped. */
int soma_view_expand(soma_view *v, unsigned d, soma_view_error *e);
int soma_view_squeeze(soma_view *v, unsigned d, soma_view_error *e);
/* Dimension order[0] first, and so on; partitions stay the first. */
int soma_view_permute(soma_view *v, unsigned n, const uint32_t *order, soma_view_error *e);
/* The same elements in the same order in another shape; partitions stay. Refused where that would
 * need a copy. */
int soma_view_reshape(soma_view *v, unsigned n, const int64_t *shape, soma_view_error *e);
/* Dimension d as several; dimensions `first` to `last` as one. */
int soma_view_split(soma_view *v, unsigned d, unsigned n, const int64_t *sizes, soma_view_error *e);
int soma_view_merge(soma_view *v, unsigned first, unsigned last, soma_view_error *e);
/* Dimension d, which has one element, as n times that one. */
int soma_view_broadcast(soma_view *v, unsigned d, int64_t n, soma_view_error *e);
/* The same bytes as elements of another type; the last dimension counts accordingly. */
int soma_view_as(soma_view *v, unsigned dtype, soma_view_error *e);
/* Explicit dimensions, from v's own start moved by `offset` elements; all must lie in the tensor or
 * the tile. The first dimension of a tile is its partitions. */
int soma_view_ap(soma_view *v, int64_t offset, unsigned n, const soma_view_dim *dims,
                 soma_view_error *e);

/* ---- Index expressions -------------------------------------------------------------------- */

/* at + the sum over n axes of coef * (0 .. size - 1): arange(4)[:, None] * 64 + 3 is 3 with the
 * axes {64, 4} and {0, 1}. Two expressions answer one another from the last axis on; an axis of
 * size 1 is as long as the other's. */
typedef struct soma_view_axis {
  int64_t coef, size;
} soma_view_axis;
typedef struct soma_view_expr {
  int64_t at;
  uint32_t n;
  const soma_view_axis *axis;
  const char *name; /* what messages call it; NULL: "an index" */
} soma_view_expr;

/* Least and greatest value; 0 if they do not fit. */
int soma_view_bounds(const soma_view_expr *x, int64_t *low, int64_t *high);
/* x + sign * y, into as many axes as the longer one has; x * times + plus. */
int soma_view_sum(const soma_view_expr *x, const soma_view_expr *y, int sign, soma_view_axis *axes,
                  int64_t *at, soma_view_error *e);
int soma_view_scale(const soma_view_expr *x, int64_t times, int64_t plus, soma_view_axis *axes,
                    int64_t *at, soma_view_error *e);
/* x // by or x % by, rounded down, where that is an index expression again. */
int soma_view_divide(const soma_view_expr *x, int64_t by, int rest, soma_view_axis *axes,
                     int64_t *at, soma_view_error *e);
/* v[keys]: dimension d by keys[d]. Its axes are the dimensions of the view; those of a tile's
 * partitions vary along axis 0 alone, by 1. n: as many as v has dimensions. An index that leaves
 * its dimension d is refused if past is NULL; else *past has bit d, and a mask must limit it. */
int soma_view_take(soma_view *v, unsigned n, const soma_view_expr *keys, uint32_t *past,
                   soma_view_error *e);
/* For which numbers of an axis `x >= 0` holds, as a comparison asks: x must vary along that axis
 * alone. Gives how many axes it varies along; with 1, *axis is that one, and low to high - 1 the
 * numbers (none if low == high); with 0, low == high if it never holds. */
unsigned soma_view_limit(const soma_view_expr *x, unsigned *axis, int64_t *low, int64_t *high);

/* ---- What is known only at run time ------------------------------------------------------- */

/* As soma_view_slice, from start + value * at->stride on, where value is at's register or element.
 * Whether that lies in the dimension is known only at run time. */
int soma_view_slice_at(soma_view *v, unsigned d, const soma_view_dyn *at, int64_t start,
                       int64_t count, int64_t step, soma_view_error *e);
/* Adds a part: SIZE: dimension part->dim has as many elements as the register says, at most its
 * own; GATHER: an index vector chooses its rows; INDIRECT: an index chooses free elements. A view
 * has one part that moves it, one size and one index. That dimension and those before it then stay
 * as they are. */
int soma_view_add(soma_view *v, const soma_view_dyn *part, soma_view_error *e);

/* ---- As an operand ------------------------------------------------------------------------ */

/* The words of the operand, as in a record of soma_kernel_emit; merge: dimensions are joined, and
 * those of one element left out, where the elements are the same. Gives their number; 0: refused,
 * or more than `room`. */
size_t soma_view_words(const soma_view *v, int merge, int64_t *words, size_t room,
                       soma_view_error *e);
/* The pairs of step and num among them, for n dimensions; how many pairs, n at most. */
size_t soma_view_pairs(const soma_view_dim *dims, unsigned n, int merge, int64_t *pairs);

#ifdef __cplusplus
}
#endif

#endif
