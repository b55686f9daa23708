/* optimize=2: the kernel is built by each policy, each program is run without values, and the
 * fastest is kept. Nothing depends on the host's clock: the same kernel gives the same program. */
#include "tune.h"

/* In the order in which they are tried: ties go to the earlier one. */
static const struct {
  const char *name;
  uint32_t passes, flags;
} policies[] = {
/* Each also without merges, which is another choice only where the front end has them. */
#define POLICY(name, passes, flags) \
  {name, passes, flags}, {name ", transfers apart", (passes) & ~(uint32_t)AS_PASS_MERGES, flags},
#include "policies.def"
};
enum { NPOLICIES = sizeof policies / sizeof *policies };
_Static_assert((int)NPOLICIES < (int)SOMA_POLICIES, "there is room for every policy");

/* What a policy is for a recipe: what its caller asks for stays. */
static soma_choice choice_of(const soma_recipe *r, unsigned i) {
  /* What the front end decides for itself is no policy's business: the engines that are taken, and
   * whether transfers are merged, which a policy may only leave out. */
  uint32_t usual = r->o.passes & AS_PASS_USUAL, apart = ~r->o.passes & AS_PASS_MERGES;
  soma_choice c = {.flags = r->o.flags | policies[i].flags};
  /* A list keeps its order, so that passes have nothing to choose. */
  bool listed = r->o.flags & AS_KERNEL_KEEP_ORDER;
  c.passes = (listed ? 0 : policies[i].passes & ~(r->without | apart)) | usual;
  return c;
}

/* Whether the front end, or a policy before this one, is the same choice.
 * The same choice would give the same program. */
static bool is_known(const soma_recipe *r, unsigned i) {
  soma_choice c = choice_of(r, i);
  if (c.passes == r->o.passes && c.flags == r->o.flags) return true;
  for (unsigned k = 0; k < i; k++) {
    soma_choice o = choice_of(r, k);
    if (o.passes == c.passes && o.flags == c.flags) return true;
  }
  return false;
}

/* Also what did not come to an end, for the report. */
static void note(soma_tried *t, const char *name, bool done, soma_time time) {
  t->policy[t->n++] = (soma_kernel_policy){.name = name, .done = done, .time = time};
}

/* Tries a policy; what is faster becomes *made. False when memory is out. */
static bool try_policy(soma_recipe *const r[], unsigned cores, unsigned i, soma_machine *timer,
                       soma_made *made, soma_tried *t) {
  soma_choice c = choice_of(r[0], i);
  soma_made other;
  /* Memory is the only failure that ends the search. */
  bool done = soma_make(r, cores, &c, &other) && soma_time_made(timer, &other), nomem = other.nomem;
  note(t, policies[i].name, done, other.time);
  if (done && other.time < made->time) {
    soma_made slower = *made;
    *made = other;
    other = slower;
    t->best = t->n - 1;
    t->choice = c;
  }
  soma_made_free(&other);
  return !nomem;
}

bool soma_tune(soma_recipe *const r[], unsigned cores, soma_made *made, soma_tried **out) {
  /* One machine times all programs. */
  soma_machine *timer = soma_timer(r[0]);
  soma_tried *t = *out = isa_zalloc(&r[0]->al, sizeof *t);
  bool ok = timer && t;
  if (t) t->al = r[0]->al;
  if (ok) {
    t->choice = (soma_choice){.passes = r[0]->o.passes, .flags = r[0]->o.flags};
    bool timed = soma_time_made(timer, made);
    /* The program of the front end is the one to beat. */
    note(t, "as the front end says", timed, made->time);
    ok = !made->nomem;
    for (unsigned i = 0; ok && timed && i < NPOLICIES; i++)
      if (!is_known(r[0], i)) ok = try_policy(r, cores, i, timer, made, t);
    t->policy[t->best].chosen = 1;
  }
  soma_machine_free(timer);
  return ok;
}

void soma_tried_free(soma_tried *t) {
  if (!t) return;
  isa_alloc al = t->al;
  isa_free(&al, t, sizeof *t);
}

/* In the order of the attempts, the chosen one marked with what it saves. */
void soma_tried_print(const soma_tried *t, isa_buf *out) {
  soma_time first = t->policy[0].time;
  isa_buf_puts(out, "\npolicies, us of a run:\n");
  for (uint32_t i = 0; i < t->n; i++) {
    const soma_kernel_policy *p = &t->policy[i];
    isa_buf_printf(out, "  %-46s ", p->name);
    if (!p->done) {
      isa_buf_puts(out, "  it gives no program that ends\n");
      continue;
    }
    isa_buf_printf(out, "%12.3f%s", (double)p->time * 1e-9, p->chosen ? "  chosen" : "");
    if (p->chosen && p->time < first)
      isa_buf_printf(out, ", %.1f %% less", 100.0 * (1.0 - (double)p->time / (double)first));
    isa_buf_puts(out, "\n");
  }
}
