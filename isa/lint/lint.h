/* Static checks of a whole program: what is wrong under every timing, found without running it.
 *
 * Registers begin at zero and branches depend only on registers, so an engine's path is known
 * until it branches on what it loaded. The path of each engine is followed; at a wait the engine
 * stops if no order of the updates that can have run makes it hold. So everything that can run is
 * followed, and what stays stuck is certainly stuck. An engine whose path is not known, or longer
 * than the limit, may do anything that its code can reach, any number of times.
 *
 * Assumed: the host sets neither semaphores nor registers, writes no tile before the run, and gives
 * an output no contents. */
#ifndef ISA_LINT_H
#define ISA_LINT_H

#include "../program.h"

enum { ISA_LINT_STEPS = 1 << 20, ISA_MAX_FINDINGS = 64 };

enum isa_lint_kind {
#define LINT(id, name, note) ISA_LINT_##id,
#include "lint.def"
  ISA_NLINTS
};
typedef struct isa_lint_row {
  const char *name;
  bool note;
} isa_lint_row;
extern const isa_lint_row isa_lints[ISA_NLINTS];

typedef struct isa_finding {
  uint8_t kind;
  isa_place at;
  const char *text; /* names the values; ends with "; fix: ..." if the fix is obvious */
} isa_finding;
typedef struct isa_findings {
  isa_finding v[ISA_MAX_FINDINGS]; /* in order of core, engine and pc, the program's own first */
  uint32_t n;
  isa_arena arena; /* owns the texts */
} isa_findings;

/* Follows each engine for `steps` instructions, 0: ISA_LINT_STEPS. Fills *out, to be freed with
 * isa_findings_free whatever the result. ISA_OK; ISA_NOMEM; or what isa_check_program says of a
 * program that it refuses, with its text in e (may be NULL). */
isa_status isa_lint(const isa_program *p, uint64_t steps, const isa_alloc *al, isa_findings *out,
                    isa_error *e);
void isa_findings_free(isa_findings *f);

#endif
