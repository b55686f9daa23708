/* Schedules: the same program under other timings that are as legal. A correctly synchronised
 * program gives the same bits under each. */
#include "../../isa/bytes.h"
#include "clock.h"

#include "../message.h"

/* Three of four spans change by up to a half. Of the others some shrink to a quarter and some grow
 * to four times, so that events that only a margin keeps in order come out of order. */
uint32_t vm_jitter_pace(vm_core *c) {
  const vm_run *run = c->run;
  /* The published times: no schedule. */
  if (!run->jitter) return VM_PACE;
  /* Ranks that run one program must not change alike: none would then be before another. */
  uint64_t other = run->peers ? isa_mix(run->peers->rank) : 0; /* 0 of rank 0 */
  /* A hash, not a sequence: which span gets which factor does not depend on other cores. */
  uint64_t r = isa_mix(isa_mix(run->jitter + other + c->number) + ++c->jitters);
  uint32_t f = r % VM_PACE;
  /* One in 16 shrinks and three in 16 grow: the mean is 1.24. */
  switch (r >> 60) {
  case 0: return VM_PACE / 4 + f / 4;
  case 1:
  case 2:
  case 3: return VM_PACE + 3 * f;
  default: return VM_PACE / 2 + f;
  }
}
