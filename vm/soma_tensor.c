/* Tensors in a machine's HBM that outlive runs. */
#include "soma_impl.h"

#include <string.h>

uint64_t soma_hbm_used(const soma_machine *m) {
  return m->tensor_bytes + (m->run && !m->run->core.ended ? m->run->own_hbm : 0);
}

static uint64_t capacity(const soma_machine *m) {
  const isa_target *t = m->target ? m->target : &isa_targets[isa_target_find("trn2", 4)];
  uint64_t all = (uint64_t)t->hbm_gib << 30;
  return m->o.max_hbm_bytes && m->o.max_hbm_bytes < all ? m->o.max_hbm_bytes : all;
}

/* Bytes of a dense tensor; false when there is no such type or shape. */
static bool size_of(soma_dtype dtype, uint32_t ndim, const int64_t *shape, uint64_t *bytes) {
  if (!isa_dtype_valid((unsigned)dtype) || ndim > ISA_TENSOR_DIMS) return false;
  *bytes = isa_dtype_bytes((unsigned)dtype);
  for (uint32_t d = 0; d < ndim; d++) {
    if (shape[d] < 1 || *bytes > (uint64_t)INT64_MAX / (uint64_t)shape[d]) return false;
    *bytes *= (uint64_t)shape[d];
  }
  return true;
}

soma_status soma_tensor_new(soma_machine *m, soma_dtype dtype, uint32_t ndim, const int64_t *shape,
                            soma_tensor **out) {
  uint64_t bytes, limit = capacity(m), used = soma_hbm_used(m);
  *out = NULL;
  if (!size_of(dtype, ndim, shape, &bytes))
    return soma_fail(m, SOMA_ARG,
                     "a tensor in HBM has a type, at most %d dimensions, and at least one "
                     "element",
                     ISA_TENSOR_DIMS);
  if (used > limit || bytes > limit - used)
    return soma_fail(m, SOMA_LIMIT, "a tensor needs %llu bytes of HBM; %llu of %llu are taken",
                     (unsigned long long)bytes, (unsigned long long)used,
                     (unsigned long long)limit);
  soma_tensor *t = isa_zalloc(&m->al, sizeof *t);
  if (!t) return soma_out_of_memory(m);
  t->block.data = vm_pages_new(&m->al, bytes, &t->block.mapped);
  if (!t->block.data) {
    isa_free(&m->al, t, sizeof *t);
    return soma_out_of_memory(m);
  }
  t->m = m;
  t->al = m->al;
  t->block.bytes = bytes;
  t->dtype = dtype;
  t->ndim = ndim;
  t->refs = 1;
  if (ndim) memcpy(t->shape, shape, ndim * sizeof *shape);
  t->next = m->tensors;
  if (t->next) t->next->prev = t;
  m->tensors = t;
  m->tensor_bytes += bytes;
  *out = t;
  return SOMA_OK;
}

void soma_tensor_free(soma_tensor *t) {
  if (!t || --t->refs > 0) return;
  if (t->next) t->next->prev = t->prev;
  if (t->prev)
    t->prev->next = t->next;
  else if (t->m)
    t->m->tensors = t->next;
  if (t->m) t->m->tensor_bytes -= t->block.bytes;
  isa_alloc al = t->al;
  vm_pages_free(&al, t->block.data, t->block.bytes, t->block.mapped);
  isa_free(&al, t, sizeof *t);
}

static soma_status check_copy(soma_tensor *t, size_t n) {
  if (!t->m) return SOMA_ARG;
  if (n != t->block.bytes)
    return soma_fail(t->m, SOMA_ARG, "the tensor has %llu bytes, not %zu",
                     (unsigned long long)t->block.bytes, n);
  return SOMA_OK;
}

soma_status soma_tensor_write(soma_tensor *t, const void *data, size_t n) {
  soma_status s = check_copy(t, n);
  if (s != SOMA_OK) return s;
  memcpy(t->block.data, data, n);
  t->m->to_device += n;
  return SOMA_OK;
}

soma_status soma_tensor_read(soma_tensor *t, void *data, size_t n) {
  soma_status s = check_copy(t, n);
  if (s != SOMA_OK) return s;
  memcpy(data, t->block.data, n);
  t->m->to_host += n;
  return SOMA_OK;
}

soma_status soma_bind_tensor(soma_machine *m, soma_program *p, const char *name, soma_tensor *t) {
  if (t->m != m)
    return soma_fail(m, SOMA_ARG, "tensor %s: what it is bound to is in another machine's HBM",
                     name);
  binding *b;
  soma_status s = soma_binding(m, p, name, t->dtype, t->ndim, t->shape, &b);
  if (s != SOMA_OK) return s;
  t->refs++;
  soma_tensor_free(b->device);
  b->device = t;
  b->data = NULL;
  return SOMA_OK;
}

void soma_traffic(const soma_machine *m, uint64_t *to_device, uint64_t *to_host) {
  if (to_device) *to_device = m->to_device;
  if (to_host) *to_host = m->to_host;
}
