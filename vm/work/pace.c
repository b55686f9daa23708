#include "pace.h"

/* Rounds before a trial: the first time, and after many trials that changed nothing; and of a
 * trial. The first round after a change does not count: it may pay for threads that slept, and the
 * very first one for fresh memory. */
enum { FIRST = 4, LAST = 64, TRIAL = 2 };
/* A virtual core may be away for 7 ms now and then. So a round counts at most as this many times
 * the average, and this part of it. */
static const double most = 2, part = 0.25;
/* Working alone is preferred only if it takes less than this part of the time. */
static const double clear = 0.96;

/* Whether the costs favour the other way than the one that is preferred. */
static bool is_other_better(const vm_pace *p) {
  const double *cost = p->cost;
  if (cost[!p->prefers_alone] == 0) return false;
  return p->prefers_alone ? cost[false] < cost[true] : cost[true] < clear * cost[false];
}

static void end_trial_round(vm_pace *p, double cost) {
  p->cost[p->alone] = cost;
  if (++p->rounds < TRIAL) return;
  bool changes = is_other_better(p);
  p->prefers_alone ^= changes;
  p->alone = p->prefers_alone;
  p->wait = changes ? FIRST : p->wait < LAST / 2 ? 2 * p->wait : LAST;
  p->rounds = 0;
}

static void end_usual_round(vm_pace *p, double cost) {
  double *average = &p->cost[p->alone];
  if (p->wait == 0) p->wait = FIRST;
  if (p->rounds < 2 && p->cost[!p->alone] == 0)
    *average = cost;
  else if (p->rounds > 0)
    *average += part * ((cost < most * *average ? cost : most * *average) - *average);
  /* The cost of the other way may be an old one, of other work: that is a reason for a trial. */
  if (++p->rounds < p->wait && !is_other_better(p)) return;
  p->alone = !p->prefers_alone;
  p->rounds = 0;
}

void vm_work_end_round(vm_pace *p, uint64_t host_ns) {
  double cost = (double)host_ns / (double)p->work;
  p->work = 0;
  if (p->alone != p->prefers_alone)
    end_trial_round(p, cost);
  else
    end_usual_round(p, cost);
}
