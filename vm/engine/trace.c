/* Every event of a run goes through here: into the run's hash, and to who listens. */
#include "engine.h"

static uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v;
  h *= 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

void vm_trace(vm_core *c, unsigned kind, unsigned engine, uint32_t pc, uint32_t id, vm_time start,
              vm_time end, uint64_t bytes, uint32_t value) {
  uint64_t h = mix(c->trace_hash, ((uint64_t)kind << 56) | ((uint64_t)engine << 48) | pc);
  h = mix(h, ((uint64_t)id << 32) | value);
  h = mix(h, start);
  c->trace_hash = mix(mix(h, end), bytes);
  if (c->hooks.event)
    c->hooks.event(c->hooks.event_ud, kind, engine, pc, id, start, end, bytes, value);
}
