/* The state of a run as the host sees and changes it: semaphores, registers, memories. */
#include "../check/check.h"
#include "../engine/engine.h"
#include "impl.h"

#include <string.h>

soma_status soma_need_core(soma_machine *m, unsigned core, bool changes, vm_core **out) {
  *out = NULL;
  /* A callback may look, but not change. */
  soma_status s = changes ? soma_not_running(m) : soma_not_calling(m);
  if (s != SOMA_OK) return s;
  if (!m->run) return soma_fail(m, SOMA_ARG, "the machine has no run");
  if (core >= m->run->run.n)
    return soma_fail(m, SOMA_ARG, "core %u does not exist: the program of the run has %u", core,
                     m->run->run.n);
  *out = m->run->run.cores[core];
  return SOMA_OK;
}

soma_status soma_core_semaphore_get(soma_machine *m, unsigned core, uint32_t id, uint32_t *value) {
  vm_core *c;
  if (!soma_given(m, "value", value)) return SOMA_ARG;
  /* Any core has as many semaphores. */
  if (id >= ISA_NSEMS) return soma_fail(m, SOMA_ARG, "semaphore %u: a core has %d", id, ISA_NSEMS);
  soma_status s = soma_need_core(m, core, false, &c);
  /* Even a failed call leaves a value. */
  *value = s == SOMA_OK ? c->sem[id] : 0;
  return s;
}

soma_status soma_semaphore_get(soma_machine *m, uint32_t id, uint32_t *value) {
  return soma_core_semaphore_get(m, 0, id, value);
}

soma_status soma_core_semaphore_set(soma_machine *m, unsigned core, uint32_t id, uint32_t value) {
  vm_core *c;
  if (!soma_given(m, "")) return SOMA_ARG;
  if (id >= ISA_NSEMS) return soma_fail(m, SOMA_ARG, "semaphore %u: a core has %d", id, ISA_NSEMS);
  if (value > ISA_SEM_MAX)
    return soma_fail(m, SOMA_ARG, "semaphore %u: %u is over the largest value %d", id, value,
                     ISA_SEM_MAX);
  soma_status s = soma_need_core(m, core, true, &c);
  if (s != SOMA_OK) return s;
  /* The host is no node of the path. */
  c->cause = 0; /* no instruction's */
  /* Checks see who has written it. */
  vm_tell_applied(c, VM_BY_HOST, id, ISA_UPD_write);
  /* As an instruction's update, so that waiting engines go on. */
  vm_sem_apply(c, &(isa_update){.kind = ISA_UPD_write, .sem = (uint8_t)id, .value = value},
               vm_at_pc(c, VM_BY_HOST, 0));
  return s;
}

soma_status soma_semaphore_set(soma_machine *m, uint32_t id, uint32_t value) {
  return soma_core_semaphore_set(m, 0, id, value);
}

static soma_status check_register(soma_machine *m, soma_engine e, uint32_t r) {
  /* Both cores of a program have the same engines.
   * Before a run there are only the engines. */
  const vm_core *c = m->run ? m->run->run.cores[0] : NULL;
  unsigned n = c ? c->nseqs : ISA_NENGINES;
  if ((unsigned)e < n && r < ISA_NREGS) return SOMA_OK;
  return soma_fail(m, SOMA_ARG, "register %u of engine %d: there are %u engines of %d registers", r,
                   (int)e, n, ISA_NREGS);
}

soma_status soma_core_register_get(soma_machine *m, unsigned core, soma_engine e, uint32_t r,
                                   uint32_t *value) {
  vm_core *c;
  if (!soma_given(m, "value", value)) return SOMA_ARG;
  /* A value even where it fails. */
  *value = 0;
  soma_status s = check_register(m, e, r);
  if (s == SOMA_OK) s = soma_need_core(m, core, false, &c);
  if (s == SOMA_OK) *value = c->eng[e].regs[r];
  return s;
}

soma_status soma_register_get(soma_machine *m, soma_engine e, uint32_t r, uint32_t *value) {
  return soma_core_register_get(m, 0, e, r, value);
}

soma_status soma_core_register_set(soma_machine *m, unsigned core, soma_engine e, uint32_t r,
                                   uint32_t value) {
  vm_core *c;
  if (!soma_given(m, "")) return SOMA_ARG;
  soma_status s = check_register(m, e, r);
  if (s == SOMA_OK) s = soma_need_core(m, core, true, &c);
  if (s != SOMA_OK) return s;
  /* The next instruction sees it. */
  vm_engine *en = &c->eng[e];
  en->regs[r] = value;
  vm_tell_host_register(c, (unsigned)e, r);
  c->cause = 0;                /* no instruction's */
  if (en->state == VM_WAITING) /* it may be waiting for that register's value */
    vm_wake(c, vm_wait_of(c, en).sem);
  return s;
}

soma_status soma_register_set(soma_machine *m, soma_engine e, uint32_t r, uint32_t value) {
  return soma_core_register_set(m, 0, e, r, value);
}

/* Host address of n bytes of a partition; NULL with a message if they are outside. */
static uint8_t *memory_at(soma_machine *m, unsigned core, soma_memory mem, uint32_t partition,
                          uint64_t offset, size_t n) {
  /* A core's memories exist from the first program that used it.
   * Also after the run: the memories are the machine's. */
  bool sbuf = mem == SOMA_SBUF;
  const vm_memory *of = &m->mem[core < ISA_MAX_CORES ? core : 0];
  if (core >= ISA_MAX_CORES || (core && !of->sbuf)) {
    soma_fail(m, SOMA_ARG, "core %u: no program that the machine has run has this core", core);
    return NULL;
  }
  if (!m->target) {
    soma_fail(m, SOMA_ARG, "the machine has no memories before its target is known");
    /* A machine without a target has no partition size. */
    return NULL;
  }
  uint64_t size = sbuf ? m->target->sbuf_bytes : m->target->psum_bytes;
  if (!sbuf && mem != SOMA_PSUM) {
    soma_fail(m, SOMA_ARG, "memory %d is neither SBUF nor PSUM", (int)mem);
    return NULL;
  }
  /* offset first: the difference must not wrap. */
  if (partition >= ISA_PMAX || offset > size || n > size - offset) {
    soma_fail(m, SOMA_ARG, "%zu bytes at byte %llu of partition %u: %s has %d partitions of %llu",
              n, (unsigned long long)offset, partition, isa_space_name((unsigned)mem), ISA_PMAX,
              (unsigned long long)size);
    return NULL;
  }
  return sbuf ? of->sbuf + partition * of->sbuf_pitch + offset
              : of->psum + partition * of->psum_pitch + offset;
}

soma_status soma_core_memory_read(soma_machine *m, unsigned core, soma_memory mem,
                                  uint32_t partition, uint64_t offset, void *data, size_t n) {
  if (!soma_given(m, "data", data)) return SOMA_ARG;
  /* In a world another process may have them. */
  if (soma_not_calling(m) != SOMA_OK) return SOMA_BUSY;
  soma_status s = soma_bring_memories(m);
  if (s != SOMA_OK) return s;
  const uint8_t *at = memory_at(m, core, mem, partition, offset, n);
  if (!at) return SOMA_ARG;
  memcpy(data, at, n);
  return SOMA_OK;
}

soma_status soma_memory_read(soma_machine *m, soma_memory mem, uint32_t partition, uint64_t offset,
                             void *data, size_t n) {
  return soma_core_memory_read(m, 0, mem, partition, offset, data, n);
}

soma_status soma_core_memory_write(soma_machine *m, unsigned core, soma_memory mem,
                                   uint32_t partition, uint64_t offset, const void *data,
                                   size_t n) {
  if (!soma_given(m, "data", data)) return SOMA_ARG;
  /* A callback must not change what its run reads. */
  if (soma_not_running(m) != SOMA_OK) return SOMA_BUSY;
  soma_status s = soma_bring_memories(m);
  if (s != SOMA_OK) return s;
  uint8_t *at = memory_at(m, core, mem, partition, offset, n);
  if (!at) return SOMA_ARG;
  /* Where the write is, for all that keep copies or facts of these bytes. */
  const vm_box box = {.space = (uint8_t)mem,
                      .core = (uint8_t)core,
                      .p0 = (uint16_t)partition,
                      .p1 = (uint16_t)(partition + 1),
                      .lo = offset,
                      .hi = offset + n};
  /* Instructions that have started keep what they have read, and checks learn of it. */
  if (m->run && core < m->run->run.prog->ncores) { /* what has started has read its sources */
    vm_core *c = m->run->run.cores[core];
    vm_touch_by_host(c, &box);
  }
  vm_memory_wrote(&m->mem[core], &box);
  memcpy(at, data, n);
  return SOMA_OK;
}

soma_status soma_memory_write(soma_machine *m, soma_memory mem, uint32_t partition, uint64_t offset,
                              const void *data, size_t n) {
  return soma_core_memory_write(m, 0, mem, partition, offset, data, n);
}
