/* The program that a job makes, and the names of its sections: what all files here may ask. */
#include "stmt.h"

#include <stdio.h>

isa_program *as_program(as_job *j) {
  if (j->program) return j->program;
  j->unit->target_fixed = true;
  j->program = isa_program_new(&j->al, j->target);
  if (!j->program) as_nomem(j);
  return j->program;
}

const char *as_section_name(as_job *j, unsigned section) {
  const char *name = isa_engines[as_engine_of(section)].name;
  if (as_core_of(section) == 0) return name;
  char *s = as_new(j, 32);
  snprintf(s, 32, "%s core=%u", name, as_core_of(section));
  return s;
}
