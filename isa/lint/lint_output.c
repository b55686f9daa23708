/* Bytes of outputs that nothing can have written when all engines have gone as far as they can. */
#include "../slice.h"
#include "impl.h"

static void report(lint *l, uint32_t tensor, uint64_t lo, uint64_t hi, uint64_t missing) {
  const isa_tensor *t = &l->p->tensors[tensor];
  isa_place at = {-1, -1, 0};
  isa_buf text;
  if (missing == t->bytes) {
    isa_lint_add(l, ISA_LINT_partial, at, "nothing writes the output `%s`", t->name);
    return;
  }
  if (t->rows) return; /* a run may have fewer */
  isa_lint_writer(l, tensor, &at);
  isa_buf_init(&text, l->al);
  isa_buf_printf(&text, "the output `%s`: ", t->name);
  bool many = isa_slice_put_bytes(t, lo, hi, &text);
  isa_buf_printf(&text, " %s never written", many ? "are" : "is");
  /* There are other holes, too. */
  if (missing > hi - lo)
    isa_buf_printf(&text, "; of its %llu bytes %llu are missing", (unsigned long long)t->bytes,
                   (unsigned long long)missing);
  isa_lint_add(l, ISA_LINT_partial, at, "%s", isa_buf_str(&text));
  l->failed = l->failed || text.failed;
  isa_buf_free(&text);
}

/* Whether something keeps an engine from its end: what it would have written is missing as well. */
static bool is_stopped(const lint *l) {
  for (unsigned i = 0; i < LINT_STREAMS; i++)
    if (l->s[i].state == LINT_WAITS) return true;
  for (uint32_t i = 0; i < l->out->n; i++)
    if (l->out->v[i].kind == ISA_LINT_bounds) return true;
  return false;
}

void isa_lint_judge_outputs(lint *l) {
  uint64_t lo, hi, missing;
  if (is_stopped(l)) return;
  for (uint32_t i = 0; i < l->p->ntensors && !l->failed; i++)
    if (l->p->tensors[i].role == ISA_OUTPUT && isa_lint_hole(l, i, &lo, &hi, &missing))
      report(l, i, lo, hi, missing);
}
