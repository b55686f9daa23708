/* Bytes of outputs that nothing can have written when all engines have gone as far as they can. */
#include "impl.h"

/* "[3, 64]": the element at a byte. */
static void put_index(const isa_tensor *t, uint64_t byte, isa_buf *out) {
  uint64_t at = byte / isa_dtype_bytes(t->dtype), below = t->bytes / isa_dtype_bytes(t->dtype);
  for (unsigned d = 0; d < t->ndim; d++) {
    below /= (uint64_t)t->shape[d];
    isa_buf_printf(out, "%s%llu", d ? ", " : "[", (unsigned long long)(at / below));
    at %= below;
  }
  isa_buf_puts(out, "]");
}

/* "rows 384..511 of `y` are", "`y`[0, 64] to [0, 127] are" */
static void put_hole(const isa_tensor *t, uint64_t lo, uint64_t hi, isa_buf *out) {
  unsigned size = isa_dtype_bytes(t->dtype);
  uint64_t row = t->ndim > 1 ? t->bytes / (uint64_t)t->shape[0] : 0;
  if (row && lo % row == 0 && hi % row == 0) {
    bool one = hi - lo == row;
    isa_buf_printf(out, "row%s %llu", one ? "" : "s", (unsigned long long)(lo / row));
    if (!one) isa_buf_printf(out, "..%llu", (unsigned long long)(hi / row - 1));
    isa_buf_printf(out, " of the output `%s` %s", t->name, one ? "is" : "are");
    return;
  }
  isa_buf_printf(out, "the output `%s`: ", t->name);
  put_index(t, lo, out);
  if (hi - lo > size) {
    isa_buf_puts(out, " to ");
    put_index(t, hi - 1, out);
  }
  isa_buf_puts(out, hi - lo > size ? " are" : " is");
}

static void report(lint *l, uint32_t tensor, uint64_t lo, uint64_t hi, uint64_t missing) {
  const isa_tensor *t = &l->p->tensors[tensor];
  isa_place at = {-1, -1, 0};
  isa_buf text;
  if (missing == t->bytes) {
    isa_lint_add(l, ISA_LINT_partial, at, "nothing writes the output `%s`", t->name);
    return;
  }
  isa_lint_writer(l, tensor, &at);
  isa_buf_init(&text, l->al);
  put_hole(t, lo, hi, &text);
  isa_buf_puts(&text, " never written");
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
