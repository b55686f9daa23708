/* Results: the memory of a run's tensor, handed over when the run has ended. */
#include "impl.h"

#include <string.h>

struct soma_result {
  isa_alloc al;
  vm_pool *pool;
  atomic_uint refs; /* the caller's handles; the run, if it can still be read */
  uint8_t *data;
  uint64_t bytes;
};

/* Results outlive runs and machines, so they hold what they need. */
static soma_result *new_result(const soma_run *r, uint64_t bytes) {
  soma_result *x = isa_zalloc(&r->run.al, sizeof *x);
  if (!x) return NULL;
  x->al = r->run.al;
  x->pool = r->run.pool;
  x->bytes = bytes;
  atomic_init(&x->refs, 1);
  vm_pool_hold(x->pool);
  return x;
}

void soma_result_free(soma_result *x) {
  /* From any thread: the count is atomic, and so is the pool. */
  if (!x || atomic_fetch_sub(&x->refs, 1) > 1) return;
  /* A copy: the result itself is freed below. */
  isa_alloc al = x->al;
  vm_pool_give(x->pool, &al, x->data, x->bytes);
  vm_pool_drop(x->pool);
  isa_free(&al, x, sizeof *x);
}

/* NULL of nothing, as free takes it. */
void *soma_result_data(soma_result *x) { return x ? x->data : NULL; }
size_t soma_result_size(const soma_result *x) { return x ? (size_t)x->bytes : 0; }

/* The run's own references; callers may still have theirs. */
void soma_drop_results(const isa_alloc *al, soma_run *r) {
  uint32_t n = r->p->p->ntensors;
  for (uint32_t i = 0; r->results && i < n; i++) soma_result_free(r->results[i]);
  if (r->results) isa_free(al, r->results, n * sizeof *r->results);
}

/* The block of tensor i passes from the run to a result, which both then hold. */
static soma_result *hand_over(soma_run *r, uint32_t i) {
  /* One result for a tensor, however often it is asked for. */
  vm_block *b = &r->run.blocks[i];
  uint32_t n = r->p->p->ntensors;
  /* Room for one result of each tensor. */
  if (!r->results && !(r->results = isa_zalloc(&r->run.al, n * sizeof *r->results))) return NULL;
  soma_result *x = r->results[i];
  if (!x && (x = r->results[i] = new_result(r, b->bytes)) != NULL) {
    x->data = b->data;
    /* The run's end does not free it then. */
    b->lent = true;
  }
  /* The caller's handle, besides the run's. */
  if (x) atomic_fetch_add(&x->refs, 1);
  return x;
}

/* A run that goes on keeps its memory, and the caller gets what is there now. */
static soma_result *copy(const soma_run *r, uint32_t i) {
  const vm_block *b = &r->run.blocks[i];
  soma_result *x = new_result(r, b->bytes);
  if (!x) return NULL;
  x->data = vm_pool_take(x->pool, &x->al, b->bytes, false);
  if (x->data) {
    memcpy(x->data, b->data, (size_t)b->bytes);
    return x;
  }
  soma_result_free(x);
  return NULL;
}

soma_status soma_take(soma_run *r, const char *name, soma_result **out) {
  uint32_t i;
  /* A run without a machine has nobody to keep a message. */
  if (!r || (r->m && !soma_given(r->m, "name out", name, out)) || !name || !out) return SOMA_ARG;
  *out = NULL;
  soma_status s = soma_find_tensor(r, name, &i);
  if (s != SOMA_OK || (s = soma_bring_tensor(r, i)) != SOMA_OK) return s;
  vm_hbm_use_all(r->run.cores[0], i);
  /* Only a run that will not write any more gives its memory away. */
  bool final = r->run.ended && r->run.fault.status == ISA_OK;
  *out = final && !r->run.blocks[i].borrowed ? hand_over(r, i) : copy(r, i);
  if (!*out) return r->m ? soma_out_of_memory(r->m) : SOMA_NOMEM;
  soma_count_to_host(r, r->run.blocks[i].bytes);
  return SOMA_OK;
}
