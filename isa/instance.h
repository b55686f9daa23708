/* Instances: machines of one or more devices (instances.def). */
#ifndef ISA_INSTANCE_H
#define ISA_INSTANCE_H

#include "isa.h"

typedef enum isa_links { ISA_LINKS_NONE, ISA_LINKS_TORUS, ISA_LINKS_SWITCH } isa_links;

typedef enum isa_figures { ISA_FIGURES_FITTED, ISA_FIGURES_LIKE, ISA_FIGURES_NONE } isa_figures;

typedef struct isa_instance {
  const char *name;
  const isa_target *target;
  uint32_t devices;
  isa_links links;
  uint32_t x, y, z;           /* devices in each dimension */
  uint32_t rate, z_rate, efa; /* MBNS, of a link and direction; efa 0: none */
  isa_figures figures;
  const char *tag, *source; /* tag: DOC or ASM */
} isa_instance;

/* In the order of the table; NULL past the last. */
const isa_instance *isa_instance_at(unsigned i);
/* The instance of that name; the first of a target with at least that many cores. NULL: there is
 * none. */
const isa_instance *isa_instance_find(const char *name);
const isa_instance *isa_instance_of(const isa_target *t, uint32_t cores);
/* How far times of its collectives may be trusted. */
const char *isa_instance_trust(const isa_instance *i);
static inline uint32_t isa_instance_cores(const isa_instance *i) {
  return i->devices * i->target->cores;
}

#endif
