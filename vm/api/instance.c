/* Which instance, or instances, a world is on. */
#include "world_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define fail soma_world_fail

/* Cores in all, over however many instances. */
static uint32_t cores_of(const soma_world *w) { return w->o.ranks * w->o.lnc; }

/* Started as a failure, and the names are added to its text. */
static soma_status unknown_instance(soma_world *w) {
  const isa_instance *i;
  fail(w, SOMA_ARG, "unknown instance '%s'; there are: ", w->o.instance);
  for (unsigned k = 0; (i = isa_instance_at(k)); k++)
    isa_buf_printf(&w->error, k ? ", %s" : "%s", i->name);
  return SOMA_ARG;
}

/* Appends "; NAME has N" of the target's first instance with enough cores, else of its largest. */
static soma_status tell_instance(soma_world *w, const isa_target *t) {
  /* Without a first one that is large enough, the largest of the target. */
  const isa_instance *i = isa_instance_of(t, cores_of(w)), *x;
  for (unsigned k = 0; !i || isa_instance_cores(i) < cores_of(w); k++) {
    if (!(x = isa_instance_at(k))) break;
    if (x->target == t && (!i || isa_instance_cores(x) > isa_instance_cores(i))) i = x;
  }
  if (i) isa_buf_printf(&w->error, "; %s has %u", i->name, isa_instance_cores(i));
  return SOMA_ARG;
}

/* "trn2.48xlarge x 2" is two of them; a name alone is one. */
const isa_instance *soma_instance_named(const char *name, uint32_t *count) {
  enum { MOST = 256 };
  char own[64];
  const char *x = strstr(name, " x ");
  size_t n = x ? (size_t)(x - name) : strlen(name);
  *count = 1;
  /* No instance has a name of that length. */
  if (n >= sizeof own) return NULL;
  memcpy(own, name, n);
  own[n] = 0;
  if (!x) return isa_instance_find(own);
  char *end;
  unsigned long k = strtoul(x + 3, &end, 10);
  /* Digits only, without a sign or a zero before them. */
  if (x[3] < '1' || x[3] > '9' || *end || k > MOST) return NULL;
  *count = (uint32_t)k;
  return isa_instance_find(own);
}

static uint32_t cores_there(const soma_world *w, const isa_instance *i) {
  return isa_instance_cores(i) * w->instances;
}

/* The name that saved worlds and messages show. */
static void name_instance(soma_world *w) {
  w->o.instance = w->instance->name;
  if (w->instances == 1) return;
  snprintf(w->name, sizeof w->name, "%s x %u", w->instance->name, w->instances);
  w->o.instance = w->name;
}

soma_status soma_world_choose(soma_world *w, const char *target) {
  const isa_target *t = NULL;
  /* Until the name says otherwise. */
  w->instances = 1;
  const isa_instance *i = w->o.instance ? soma_instance_named(w->o.instance, &w->instances) : NULL;
  if (w->o.instance && !i) return unknown_instance(w);
  /* Without an instance and a target it is trn2, as elsewhere. */
  if (target || !i) {
    const char *name = target ? target : "trn2";
    isa_error e = {0};
    if (!isa_target_read(name, strlen(name), &w->target, &e))
      return fail(w, SOMA_ARG, "%s", e.text);
    t = isa_target_base(&w->target);
  }
  /* The first instance of the target that has room for all ranks. */
  if (!i && !(i = isa_instance_of(t, cores_of(w)))) {
    fail(w, SOMA_ARG, "no instance of %s has %u cores, for %u ranks of %u", t->name, cores_of(w),
         w->o.ranks, w->o.lnc);
    return tell_instance(w, t);
  }
  /* A hypothetical machine counts as the target that it is made from. */
  if (t && i->target != t)
    return fail(w, SOMA_ARG, "%s is of %s, but the target is %s", i->name, i->target->name,
                t->name);
  if (cores_of(w) > cores_there(w, i)) {
    fail(w, SOMA_ARG, "%s has %u cores, but %u ranks of %u need %u",
         w->o.instance ? w->o.instance : i->name, cores_there(w, i), w->o.ranks, w->o.lnc,
         cores_of(w));
    return tell_instance(w, i->target);
  }
  /* Messages between instances go over EFA. */
  if (w->instances > 1 && !i->efa)
    return fail(w, SOMA_ARG, "%s has no EFA, so several of them are not connected", i->name);
  w->instance = i;
  /* The instance decides where no target was given. */
  if (!t) w->target = *i->target;
  name_instance(w);
  return SOMA_OK;
}
