/* Moving the elements of a share. */
#include "vm.h"

#include <string.h>

enum { PIECE = 1024 }; /* elements of a cast's buffer */

/* Elements from i on that lie in one strided run of the view. */
static uint64_t run_left(const vm_view *v, uint64_t i) { return v->run - i % v->run; }

static void cast_run(vm_core *c, const vm_view *dst, uint8_t *to, const vm_view *src,
                     const uint8_t *from, uint64_t n) {
  float f[PIECE];
  uint32_t raw[PIECE * 2]; /* up to eight bytes an element */
  for (uint64_t i = 0; i < n; i += PIECE) {
    size_t m = n - i < PIECE ? (size_t)(n - i) : PIECE;
    c->kern.gather(raw, from + (int64_t)i * src->run_step, (ptrdiff_t)src->run_step, m, src->esize);
    c->kern.load[src->dtype](f, raw, m);
    c->kern.store[dst->dtype](raw, f, m, c->eng[0].dp.cvt);
    c->kern.scatter(to + (int64_t)i * dst->run_step, (ptrdiff_t)dst->run_step, raw, m, dst->esize);
  }
}

static void copy_run(vm_core *c, const vm_view *dst, uint8_t *to, const vm_view *src,
                     const uint8_t *from, uint64_t n) {
  unsigned esize = dst->esize;
  if (dst->run_step == esize && src->run_step == esize) {
    memmove(to, from, n * esize);
  } else if (dst->run_step == esize) {
    c->kern.gather(to, from, (ptrdiff_t)src->run_step, n, esize);
  } else if (src->run_step == esize) {
    c->kern.scatter(to, (ptrdiff_t)dst->run_step, from, n, esize);
  } else {
    for (uint64_t i = 0; i < n; i++)
      memcpy(to + (int64_t)i * dst->run_step, from + (int64_t)i * src->run_step, esize);
  }
}

void vm_dma_move(vm_core *c, const vm_view *dst, const vm_view *src, uint64_t e0, uint64_t e1) {
  bool casts = dst->dtype != src->dtype;
  for (uint64_t i = e0, n; i < e1; i += n) {
    uint64_t di = i % dst->elems, si = i % src->elems;
    uint8_t *to = vm_at(dst, (uint32_t)(i / dst->elems), di);
    const uint8_t *from = vm_at(src, (uint32_t)(i / src->elems), si);
    n = run_left(dst, di);
    n = n < run_left(src, si) ? n : run_left(src, si);
    n = n < e1 - i ? n : e1 - i;
    if (casts)
      cast_run(c, dst, to, src, from, n);
    else
      copy_run(c, dst, to, src, from, n);
  }
}
