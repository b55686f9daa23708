/* Names of a program that its source may not have: equal ones, and words of the language. A file
 * may have both; its disassembly gives each thing a name of its own. */
#include "dis.h"
#include "../line/stmt.h"
#include "../../isa/bytes.h"

#include <stdio.h>
#include <string.h>

/* A name in its scope, and where the search for a fresh one goes on. */
typedef struct entry {
  const char *name;
  unsigned scope;
  uint32_t next; /* number to try next for another of that name */
} entry;

typedef struct names {
  isa_program *p;
  entry *v; /* an open hash table */
  size_t size;
  bool shared_sem[ISA_NSEMS];
  uint8_t shared_queue[ISA_MAX_QUEUES]; /* of core 1: core 0's, 1-based; 0: its own */
} names;

/* Whatever a core or the program declares has scope 0; a label belongs to its section. */
static unsigned scope_of(const isa_symbol *s) { return 1u + s->core * ISA_NSEQS + s->engine; }

/* Open addressing; half of the table is free, so the search ends. */
static entry *find(const names *t, const char *name, unsigned scope) {
  size_t i = (size_t)isa_fnv(ISA_FNV_START + scope, name, strlen(name)) & (t->size - 1);
  while (t->v[i].name && (t->v[i].scope != scope || strcmp(t->v[i].name, name) != 0))
    i = (i + 1) & (t->size - 1);
  return &t->v[i];
}

/* Whether it is a name at all (check_program.c has the same rule). */
static bool is_name(const char *s) {
  for (const char *p = s; *p; p++) {
    bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || strchr("_.@$?~#", *p);
    if (!letter && (*p < '0' || *p > '9' || p == s)) return false;
  }
  return *s != 0;
}

/* A dot belongs to labels, and words of the language to nothing. */
static bool may_be(const char *name, unsigned scope) {
  return (name[0] != '.' || scope) && !isa_is_word(name);
}

/* Keeps *name when nothing has it yet, else makes it name_2, name_3, ...; false without memory.
 * `what` stands in where there is no name that source could have. */
static bool take(names *t, const char **name, const char *what, unsigned scope) {
  const char *base = *name && is_name(*name) ? *name : what;
  entry *e = find(t, base, scope);
  if (!e->name && may_be(base, scope)) {
    *e = (entry){*name = base, scope, 2};
    return true;
  }
  char *fresh = isa_arena_alloc(&t->p->arena, strlen(base) + 16);
  uint32_t i = e->name ? e->next : 2;
  if (!fresh) return false;
  do sprintf(fresh, "%s_%u", base, i++);
  while (find(t, fresh, scope)->name);
  /* The numbers that are taken are not tried again. */
  if (e->name) e->next = i;
  *find(t, fresh, scope) = (entry){*name = fresh, scope, 2};
  return true;
}

/* What core 0 has as well keeps core 0's name on core 1.
 * In the order of the cores, so core 0 keeps its names. */
static bool take_core(names *t, unsigned c) {
  isa_core *core = &t->p->cores[c], *first = &t->p->cores[0];
  bool ok = true;
  for (unsigned s = 0; s < ISA_NSEMS && ok; s++) {
    if (c && t->shared_sem[s])
      core->sem_names[s] = first->sem_names[s];
    else if (core->sem_names[s])
      ok = take(t, &core->sem_names[s], "sem", 0);
  }
  for (uint32_t q = 0; q < core->nqueues && ok; q++) {
    if (c && t->shared_queue[q])
      core->queues[q].name = first->queues[t->shared_queue[q] - 1].name;
    else
      ok = take(t, &core->queues[q].name, "queue", 0);
  }
  return ok;
}

/* Before any name changes: what both cores have as one.
 * isa_shared_sem compares names, which change below. */
static void find_shared(names *t) {
  const isa_program *p = t->p;
  uint32_t next = 0;
  for (unsigned s = 0; s < ISA_NSEMS; s++) t->shared_sem[s] = isa_shared_sem(p, s) != NULL;
  for (uint32_t i = 0; p->ncores > 1 && i < p->cores[0].nqueues; i++) {
    uint32_t k = isa_shared_queue(p, i, next);
    if (k == p->cores[1].nqueues) continue;
    t->shared_queue[k] = (uint8_t)(i + 1);
    next = k + 1;
  }
}

/* The program's things first: labels are in scopes of their own. */
static bool take_all(names *t) {
  isa_program *p = t->p;
  bool ok = true;
  for (uint32_t i = 0; i < p->ntensors; i++) ok = ok && take(t, &p->tensors[i].name, "tensor", 0);
  for (uint32_t i = 0; i < p->ntiles; i++) ok = ok && take(t, &p->tiles[i].name, "tile", 0);
  for (uint32_t i = 0; i < p->ngroups; i++) ok = ok && take(t, &p->groups[i].name, "group", 0);
  for (unsigned c = 0; c < p->ncores; c++) ok = ok && take_core(t, c);
  for (uint32_t i = 0; i < p->nsymbols; i++)
    ok = ok && take(t, &p->symbols[i].name, "label", scope_of(&p->symbols[i]));
  return ok;
}

/* Files of other builders may have any names; the text must assemble again. */
bool as_dis_names(isa_program *p) {
  const isa_alloc al = p->arena.al;
  size_t n = (size_t)p->ntensors + p->ntiles + p->ngroups + p->nsymbols +
             ISA_MAX_CORES * (size_t)(ISA_NSEMS + ISA_MAX_QUEUES);
  names t = {.p = p, .size = 64};
  /* At most half of the table is used. */
  while (t.size < 2 * n) t.size *= 2;
  t.v = isa_zalloc(&al, t.size * sizeof *t.v);
  find_shared(&t);
  bool ok = t.v && take_all(&t);
  isa_free(&al, t.v, t.size * sizeof *t.v);
  return ok;
}
