/* How the process of a world speaks with others that have the same world: each moves some of the
 * LPs. Whoever runs the world gives it; all processes call the same functions in the same order. */
#ifndef VM_WORLD_TRANSPORT_H
#define VM_WORLD_TRANSPORT_H

#include <stdint.h>

typedef struct vm_transport {
  uint32_t rank, size; /* this process, and how many there are */
  void *ud;
  /* `all` becomes what all give, `bytes` bytes each, in the order of processes. 0: it failed.
   */
  int (*share)(void *ud, const void *mine, uint32_t bytes, void *all);
  /* out[p], n[p] bytes, goes to process p; *in is what comes, that of process 0 first, from[p]
   * bytes each, until the next call. */
  int (*exchange)(void *ud, const void *const *out, const uint64_t *n, const void **in,
                  uint64_t *from);
} vm_transport;

#endif
