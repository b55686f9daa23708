/* Tensors in a machine's HBM that outlive runs. */
#include "../engine/engine.h"
#include "impl.h"

#include <stdio.h>
#include <string.h>

/* Bytes of a dense tensor; false if there is no such type or shape.
 * A tensor of no dimensions has one element. */
static bool size_of(soma_dtype dtype, uint32_t ndim, const int64_t *shape, uint64_t *bytes) {
  if (!isa_dtype_valid((unsigned)dtype) || ndim > ISA_TENSOR_DIMS) return false;
  *bytes = isa_dtype_bytes((unsigned)dtype);
  for (uint32_t d = 0; d < ndim; d++) {
    /* The product must not overflow, and no dimension is empty. */
    if (shape[d] < 1 || *bytes > (uint64_t)INT64_MAX / (uint64_t)shape[d]) return false;
    *bytes *= (uint64_t)shape[d];
  }
  return true;
}

/* "float32[4, 2]", cut off if it does not fit.
 * The name that lists of HBM show until there is a better one. */
static void name_by_type(soma_tensor *t) {
  size_t size = sizeof t->name, n = 0;
  n += (size_t)snprintf(t->name, size, "%s[", isa_dtypes[t->dtype].name);
  for (uint32_t d = 0; d < t->ndim && n < size; d++)
    n += (size_t)snprintf(t->name + n, size - n, "%s%lld", d ? ", " : "", (long long)t->shape[d]);
  if (n < size) snprintf(t->name + n, size - n, "]");
}

void soma_tensor_name(soma_tensor *t, const char *name) {
  if (t && name) snprintf(t->name, sizeof t->name, "%s", name);
}

/* Address and host memory. */
static soma_status place(soma_machine *m, soma_tensor *t, vm_hbm_owner owner) {
  vm_block *b = &t->block;
  /* The name stays with the block for messages about a full HBM. */
  isa_status s = vm_hbm_alloc(m->hbm, b->bytes, owner, t->name, t, &b->address);
  if (s == ISA_LIMIT) return soma_fail(m, SOMA_LIMIT, "%s", isa_buf_str(&m->hbm->refused));
  if (s != ISA_OK) return soma_out_of_memory(m);
  b->data = vm_pool_take(m->pool, &m->al, b->bytes, true);
  if (b->data) return SOMA_OK;
  /* Address and memory together, or neither. */
  vm_hbm_release(m->hbm, b->address);
  return soma_out_of_memory(m);
}

/* A tensor without a place; NULL: out of memory.
 * One reference: the caller's. */
static soma_tensor *new_handle(soma_machine *m, soma_dtype dtype, uint32_t ndim,
                               const int64_t *shape, uint64_t bytes) {
  soma_tensor *t = isa_zalloc(&m->al, sizeof *t);
  if (!t) return NULL;
  t->m = m;
  t->al = m->al;
  t->block.bytes = bytes;
  t->dtype = dtype;
  t->ndim = ndim;
  t->refs = 1;
  if (ndim) memcpy(t->shape, shape, ndim * sizeof *shape);
  name_by_type(t);
  return t;
}

/* The machine's list, in which the newest is the first. */
static void enlist(soma_machine *m, soma_tensor *t) {
  t->next = m->tensors;
  if (t->next) t->next->prev = t;
  m->tensors = t;
}

soma_status soma_tensor_place(soma_machine *m, soma_dtype dtype, uint32_t ndim,
                              const int64_t *shape, vm_hbm_owner owner, const char *name,
                              soma_tensor **out) {
  uint64_t bytes;
  *out = NULL;
  if (!size_of(dtype, ndim, shape, &bytes))
    return soma_fail(m, SOMA_ARG,
                     "a tensor in HBM has a type, at most %d dimensions, and at least one "
                     "element",
                     ISA_TENSOR_DIMS);
  soma_tensor *t = new_handle(m, dtype, ndim, shape, bytes);
  if (!t) return soma_out_of_memory(m);
  /* Constants have the program's names. */
  if (name) soma_tensor_name(t, name);
  soma_status s = place(m, t, owner);
  if (s != SOMA_OK) {
    isa_free(&m->al, t, sizeof *t);
    return s;
  }
  enlist(m, t);
  *out = t;
  return SOMA_OK;
}

soma_status soma_tensor_new(soma_machine *m, soma_dtype dtype, uint32_t ndim, const int64_t *shape,
                            soma_tensor **out) {
  /* A number needs no shape. */
  if (!soma_given(m, "t", out) || (ndim && !soma_given(m, "shape", shape))) return SOMA_ARG;
  *out = NULL;
  soma_status s = soma_not_calling(m);
  if (s != SOMA_OK) return s;
  return soma_tensor_place(m, dtype, ndim, shape, VM_HBM_TENSOR, NULL, out);
}

soma_status soma_tensor_view(soma_tensor *base, uint64_t offset, soma_dtype dtype, uint32_t ndim,
                             const int64_t *shape, soma_tensor **out) {
  uint64_t bytes;
  if (out) *out = NULL;
  /* A view of a tensor whose machine is gone would have no address. */
  if (!base || !base->m) return SOMA_ARG;
  soma_machine *m = base->m;
  if (!soma_given(m, "view", out) || (ndim && !soma_given(m, "shape", shape))) return SOMA_ARG;
  soma_status s = soma_not_calling(m);
  if (s != SOMA_OK) return s;
  /* bytes first: the difference must not wrap.
   * Its place must be one that HBM can address for that type. */
  bool fits = size_of(dtype, ndim, shape, &bytes) && bytes <= base->block.bytes &&
              offset <= base->block.bytes - bytes && offset % isa_dtype_bytes((unsigned)dtype) == 0;
  if (!fits)
    return soma_fail(
        m, SOMA_ARG,
        "a view must lie in its tensor's %llu bytes and begin at a multiple of its element's "
        "size, not at byte %llu",
        (unsigned long long)base->block.bytes, (unsigned long long)offset);
  soma_tensor *t = new_handle(m, dtype, ndim, shape, bytes);
  if (!t) return soma_out_of_memory(m);
  /* A part of the base's memory: nothing is placed. */
  t->block.address = base->block.address + offset;
  t->block.data = base->block.data + offset;
  t->base = base;
  /* The base lives as long as its last view. */
  base->refs++;
  enlist(m, t);
  *out = t;
  return SOMA_OK;
}

void soma_tensor_free(soma_tensor *t) {
  /* A run may still hold it. */
  if (!t || --t->refs > 0) return;
  if (t->next) t->next->prev = t->prev;
  if (t->prev) /* Out of the machine's list, if it is still there. */
    t->prev->next = t->next;
  else if (t->m)
    t->m->tensors = t->next;
  /* A view has no place of its own. */
  if (t->m && !t->base) vm_hbm_release(t->m->hbm, t->block.address);
  isa_alloc al = t->al;
  /* Memory goes back to the pool, where the next tensor finds it. */
  if (!t->base) vm_pool_give(t->m ? t->m->pool : NULL, &al, t->block.data, t->block.bytes);
  /* A view's reference. */
  soma_tensor_free(t->base);
  isa_free(&al, t, sizeof *t);
}

/* Sizes are of the caller, so each is checked by itself. */
static soma_status check_part(soma_tensor *t, uint64_t offset, uint64_t n) {
  if (!t || !t->m) return SOMA_ARG;
  if (soma_not_calling(t->m) != SOMA_OK) return SOMA_BUSY;
  /* n is compared with what is left: offset + n could wrap. */
  if (offset > t->block.bytes || n > t->block.bytes - offset)
    return soma_fail(t->m, SOMA_ARG, "%llu bytes from byte %llu: the tensor has %llu",
                     (unsigned long long)n, (unsigned long long)offset,
                     (unsigned long long)t->block.bytes);
  return SOMA_OK;
}

/* The host is about to write n bytes of t: what has started reads them first. */
static soma_status begin_write(soma_tensor *t, uint64_t offset, uint64_t n) {
  soma_status s = check_part(t, offset, n);
  /* A run's callback may not write. */
  if (s != SOMA_OK || (s = soma_not_running(t->m)) != SOMA_OK) return s;
  if (!t->m->run) return SOMA_OK;
  /* Boxes of HBM go by the host's address. */
  uint64_t at = (uint64_t)(uintptr_t)t->block.data + offset;
  const vm_box box = {.space = ISA_HBM, .p1 = 1, .lo = at, .hi = at + n};
  vm_touch_by_host(t->m->run->run.cores[0], &box);
  return SOMA_OK;
}

static soma_status check_whole(soma_tensor *t, const void *data, size_t n) {
  if (!t || !t->m || !soma_given(t->m, "data", data)) return SOMA_ARG;
  if (soma_not_calling(t->m) != SOMA_OK) return SOMA_BUSY;
  if (n == t->block.bytes) return SOMA_OK;
  return soma_fail(t->m, SOMA_ARG, "the tensor has %llu bytes, not %zu",
                   (unsigned long long)t->block.bytes, n);
}

soma_status soma_tensor_write_part(soma_tensor *t, uint64_t offset, const void *data, size_t n) {
  if (!t || !t->m || !soma_given(t->m, "data", data)) return SOMA_ARG;
  soma_status s = begin_write(t, offset, n);
  if (s != SOMA_OK) return s;
  memcpy(t->block.data + offset, data, n);
  /* Counted as traffic to the device. */
  t->m->to_device += n;
  return SOMA_OK;
}

soma_status soma_tensor_read_part(soma_tensor *t, uint64_t offset, void *data, size_t n) {
  if (!t || !t->m || !soma_given(t->m, "data", data)) return SOMA_ARG;
  soma_status s = check_part(t, offset, n);
  if (s != SOMA_OK) return s;
  memcpy(data, t->block.data + offset, n);
  t->m->to_host += n;
  return SOMA_OK;
}

soma_status soma_tensor_write(soma_tensor *t, const void *data, size_t n) {
  soma_status s = check_whole(t, data, n);
  return s == SOMA_OK ? soma_tensor_write_part(t, 0, data, n) : s;
}

soma_status soma_tensor_read(soma_tensor *t, void *data, size_t n) {
  soma_status s = check_whole(t, data, n);
  return s == SOMA_OK ? soma_tensor_read_part(t, 0, data, n) : s;
}

soma_status soma_tensor_fill(soma_tensor *t, uint64_t offset, const void *element, size_t size,
                             uint64_t count) {
  if (!t || !t->m || !soma_given(t->m, "element", element)) return SOMA_ARG;
  /* count * size must not wrap. */
  if (size == 0 || count > t->block.bytes / size)
    return soma_fail(t->m, SOMA_ARG, "%llu elements of %zu bytes: the tensor has %llu bytes",
                     (unsigned long long)count, size, (unsigned long long)t->block.bytes);
  soma_status s = begin_write(t, offset, count * size);
  uint8_t *p = t->block.data + offset;
  uint64_t have = size, n = count * size;
  if (s != SOMA_OK || n == 0) return s;
  memcpy(p, element, size);
  /* Doubling: each step copies what is there already. */
  for (; have < n; have *= 2) memcpy(p + have, p, (size_t)(n - have < have ? n - have : have));
  return SOMA_OK;
}

soma_status soma_bind_tensor(soma_machine *m, soma_program *p, const char *name, soma_tensor *t) {
  if (!soma_given(m, "p name t", p, name, t)) return SOMA_ARG;
  if (t->m != m)
    return soma_fail(m, SOMA_ARG, "tensor %s: what it is bound to is in another machine's HBM",
                     name);
  soma_bound_tensor *b;
  soma_status s = soma_binding(m, p, name, t->dtype, t->ndim, t->shape, &b);
  if (s != SOMA_OK) return s;
  /* First, as it may be the tensor that is bound already. */
  t->refs++;
  soma_tensor_free(b->device);
  b->device = t;
  b->data = NULL;
  b->shared = false;
  return SOMA_OK;
}

void soma_traffic(const soma_machine *m, uint64_t *to_device, uint64_t *to_host) {
  if (to_device) *to_device = m->to_device;
  if (to_host) *to_host = m->to_host;
}
