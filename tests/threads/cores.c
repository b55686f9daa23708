/* Linked into the command for tests: it then finds SOMA_CORES cores, and cuts every job that it
 * can, however small, so that programs of tests go over as many threads as there are on a large
 * host. */
#include "../../vm/work/work.h"

#include <stdlib.h>

__attribute__((constructor)) static void pretend(void) {
  const char *n = getenv("SOMA_CORES");
  if (n) vm_work_pretend((unsigned)atoi(n));
}
