/* The table of instances. */
#include "instance.h"

#include <string.h>

static const isa_instance instances[] = {
#define INSTANCE(name, target, devices, links, x, y, rate, z, z_rate, efa, figures, tag, source) \
  {#name,                                                                                        \
   &isa_targets[ISA_##target],                                                                   \
   devices,                                                                                      \
   ISA_LINKS_##links,                                                                            \
   x,                                                                                            \
   y,                                                                                            \
   z,                                                                                            \
   rate,                                                                                         \
   z_rate,                                                                                       \
   efa,                                                                                          \
   ISA_FIGURES_##figures,                                                                        \
   #tag,                                                                                         \
   source},
#include "instances.def"
};
enum { COUNT = sizeof instances / sizeof instances[0] };

/* Said beside each time of a world, so that nobody takes an assumption for a
 * measurement. */
const char *isa_instance_trust(const isa_instance *i) {
  switch (i->figures) {
  case ISA_FIGURES_FITTED:
    return "fitted to published times of this instance: other large messages may be off by a "
           "fifth, those below 64 KiB by half";
  case ISA_FIGURES_LIKE:
    return "no time of this instance is published: those of others of its generation are taken";
  case ISA_FIGURES_NONE: break;
  }
  return "assumed: no time of its generation is published";
}

const isa_instance *isa_instance_at(unsigned i) { return i < COUNT ? &instances[i] : NULL; }

const isa_instance *isa_instance_find(const char *name) {
  for (unsigned i = 0; i < COUNT; i++)
    if (strcmp(instances[i].name, name) == 0) return &instances[i];
  return NULL;
}

/* The first row that is large enough: instances.def has them by size. */
const isa_instance *isa_instance_of(const isa_target *t, uint32_t cores) {
  for (unsigned i = 0; i < COUNT; i++)
    if (instances[i].target == t && isa_instance_cores(&instances[i]) >= cores)
      return &instances[i];
  return NULL;
}
