/* Every event of a run goes through here: into the run's hash, and to the hook. A trigger, a
 * meeting and the number of a transfer say nothing that shares and instructions do not say: they
 * are left out of the hash, which therefore equals that of a run that was saved before they
 * existed. */
#include "engine.h"

static uint64_t mix(uint64_t h, uint64_t v) {
  /* Any change of order or of a number changes all that follows. */
  h ^= v;
  h *= 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

static void tell(vm_core *c, const vm_trace_event *ev) {
  /* Nobody to tell, which is most often so. */
  if (!c->watchers) return;
  vm_trace_event told = *ev;
  told.core = c->number;
  vm_watch_event(c, &told);
}

void vm_trace(vm_core *c, const vm_trace_event *ev) {
  bool dma = ev->kind == VM_EV_DMA;
  /* The DMA engine for a transfer's end, the engine for others. */
  uint64_t who = (uint64_t)(uint16_t)(dma ? ev->where.dma : ev->where.engine);
  vm_run *r = c->run;
  if (c->number) who |= 1u << 7; /* no DMA engine or engine has that bit */
  /* The engine that triggered it takes the value's place: a DMA event has no value. */
  uint32_t value = dma ? (uint32_t)ev->where.engine : ev->value;
  uint64_t h = mix(r->trace_hash, ((uint64_t)ev->kind << 56) | (who << 48) | ev->where.pc);
  h = mix(h, ((uint64_t)ev->id << 32) | value);
  h = mix(h, ev->start);
  /* The order of the parts is fixed: saved runs and golden traces hold hashes. */
  r->trace_hash = mix(mix(h, ev->end), ev->bytes);
  tell(c, ev);
}

void vm_trace_beside(vm_core *c, const vm_trace_event *ev) { tell(c, ev); }
