/* The lines of a kernel: which instructions they have, how long these take, and which engines could
 * run them. */
#include "advice.h"

#include <string.h>

enum { MOST_GROUPS = 1000 };

/* Records of a line come one after another or in turn, so the search begins after the
 * last one found. */
static soma_group *find(soma_trials *t, const int64_t *record, uint32_t *last) {
  for (uint32_t i = 0; i < t->ngroups; i++) {
    uint32_t g = (*last + 1 + i) % t->ngroups;
    if (soma_is_of(record, &t->groups[g], 0)) return &t->groups[*last = g];
  }
  /* Beyond the limit the lines are too many for advice. */
  if (t->ngroups >= MOST_GROUPS ||
      !isa_array_grow(&t->a->al, &t->groups, t->ngroups, &t->cap_groups, sizeof *t->groups))
    return NULL;
  soma_group *g = &t->groups[ *last = t->ngroups++];
  /* All engines are possible until a record says otherwise. */
  *g = (soma_group){.op = (unsigned)isa_op_by_number((unsigned)record[AS_REC_OP]),
                    .engine = (int)record[AS_REC_ENGINE],
                    .engines = UINT32_MAX,
                    .record = record};
  g->at[0] =
      (isa_line){.file = (uint32_t)record[AS_REC_FILE], .line = (uint32_t)record[AS_REC_LINE]};
  return g;
}

/* The file of that name of the other core's kernel, 0: it has none. */
static uint32_t file_of(const soma_recipe *r, const char *name) {
  const char *other;
  for (uint32_t i = 1; name && (other = soma_recipe_file_name(r, i)); i++)
    if (strcmp(other, name) == 0) return i;
  return 0;
}

/* Emits a record as if any engine might run it, and notes which can, and what it takes. */
static bool survey(soma_trials *t, as_kernel *k, int64_t *any, const int64_t *record,
                   uint32_t *last) {
  soma_group *g = find(t, record, last);
  uint64_t busy[ISA_NENGINES];
  uint32_t item;
  unsigned op = (unsigned)isa_op_by_number((unsigned)record[AS_REC_OP]);
  /* Transfers and control instructions stay on their engine. */
  if (!isa_op_is_dma(op) && !isa_op_is_control(op)) any[AS_REC_ENGINE] = -1;
  if (!as_kernel_emit(k, any, (size_t)any[AS_REC_WORDS], &item)) return false;
  /* A line beyond the limit is emitted all the same: later ones may need what it makes. */
  if (!g) return true;
  uint32_t engines = as_kernel_engines(k, item, busy);
  g->count++;
  g->engines &= engines;
  /* -2: the line's records are for several engines. */
  if (g->engine != (int)record[AS_REC_ENGINE]) g->engine = -2;
  /* The engine that the record names, or the first that can run it. */
  unsigned e = record[AS_REC_ENGINE] >= 0 && !isa_op_is_dma(op) ? (unsigned)record[AS_REC_ENGINE]
               : engines                                        ? (unsigned)__builtin_ctz(engines)
                                                                : 0;
  g->time += busy[e];
  return true;
}

bool soma_find_groups(soma_trials *t) {
  /* The copy is changed: its records name no engine. */
  soma_recipe *any = soma_recipe_copy(t->r[0]);
  as_kernel *k = any ? as_kernel_new(&any->o) : NULL;
  bool ok = k != NULL;
  uint32_t last = 0;
  soma_entry e, to;
  for (uint32_t at = 0; ok && soma_recipe_at(t->r[0], at, &e); at = e.next) {
    soma_recipe_at(any, at, &to);
    /* Everything but records is made as it stands. */
    if (e.kind != SOMA_RECIPE_RECORDS) {
      ok = soma_recipe_apply(k, &to);
      continue;
    }
    for (uint32_t i = 0; ok && i < e.n; i += (uint32_t)e.words[i]) {
      /* A new group begins at this entry. */
      uint32_t groups = t->ngroups;
      ok = survey(t, k, to.words + i, e.words + i, &last);
      if (t->ngroups > groups) t->groups[groups].first = at;
    }
  }
  as_kernel_free(k);
  soma_recipe_free(any);
  /* The other core has numbers of its own for the same files. */
  for (uint32_t i = 0; i < t->ngroups && t->cores > 1; i++) {
    soma_group *g = &t->groups[i];
    uint32_t file = file_of(t->r[1], soma_recipe_file_name(t->r[0], g->at[0].file));
    if (file) g->at[1] = (isa_line){.file = file, .line = g->at[0].line};
  }
  return ok;
}
