/* What the files of views share. */
#ifndef ISA_VIEW_IMPL_H
#define ISA_VIEW_IMPL_H

#include <stdbool.h>

#include "view.h"

/* Numbers of a view stay below this, so that sums of two do not overflow. */
#define ISA_VIEW_FAR (INT64_C(1) << 61)

static inline bool isa_view_times(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out) && *out > -ISA_VIEW_FAR && *out < ISA_VIEW_FAR;
}
static inline bool isa_view_plus(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out) && *out > -ISA_VIEW_FAR && *out < ISA_VIEW_FAR;
}
static inline const char *isa_view_name(const soma_view_error *e) {
  return e->name ? e->name : "the view";
}

/* Gives 0, with a message. */
int isa_view_refuse(soma_view_error *e, const char *text, ...)
    __attribute__((format(printf, 2, 3)));
int isa_view_too_far(soma_view_error *e);
/* Dimensions, from the first on, that stay as they are for a size or an index at run time. */
unsigned isa_view_fixed(const soma_view *v);
/* The message of dimension d, which is one of them. */
int isa_view_is_fixed(unsigned d, soma_view_error *e);

#endif
