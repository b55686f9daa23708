/* Random programs for the judges of all schedules: engines, transfers of one to three rings, shared
 * semaphores; of two cores also remote updates, transfers into the other core's SBUF, barriers,
 * sendrecvs and, if asked for, writes of one line by both cores to one tensor. Each is written down
 * in an order that one execution has, so that most of them end. */
#ifndef TESTS_JUDGE_BED_H
#define TESTS_JUDGE_BED_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { JUDGE_TILES = 5, JUDGE_SEMS = 4, JUDGE_LINES = 12, JUDGE_TEXT = 1 << 15 };
enum { JUDGE_VECTOR, JUDGE_SCALAR, JUDGE_GPSIMD, JUDGE_SYNC, JUDGE_ENGINES };

typedef struct judge_gen {
  uint64_t state;
  int mixed;       /* waits with ==, !=, <, <=, and updates with -= and = too */
  int cores, core; /* how many, and the one that is written for */
  int twins;       /* both cores write one tensor, often the same bytes from one line */
  int tiles, sems, rings[JUDGE_ENGINES];
  int64_t value[2][JUDGE_SEMS]; /* when all that is written down has happened */
  char text[2][JUDGE_ENGINES][JUDGE_LINES * 256];
} judge_gen;

static uint32_t judge_random(judge_gen *g, uint32_t n) {
  g->state += 0x9e3779b97f4a7c15u;
  uint64_t z = g->state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ z >> 31) % n);
}

static void judge_add(judge_gen *g, int e, const char *what) {
  char *text = g->text[g->core][e];
  size_t n = strlen(text);
  snprintf(text + n, sizeof g->text[0][0] - n, "%s", what);
}

/* A wait that holds now. */
static void judge_wait(judge_gen *g, int e, int sem) {
  static const char *const conds[] = {"==", "!=", "<", "<="};
  int64_t v = g->value[g->core][sem];
  uint32_t k = judge_random(g, 4);
  char clause[40];
  if (!g->mixed || judge_random(g, 3)) {
    if (v == 0) return;
    uint32_t want = judge_random(g, 3) ? (uint32_t)v : 1 + judge_random(g, (uint32_t)v);
    snprintf(clause, sizeof clause, judge_random(g, 6) ? " $s%d>=%u" : " $s%d>%u", sem, want);
    if (strchr(clause, '=') == NULL) snprintf(clause, sizeof clause, " $s%d>%u", sem, want - 1);
  } else {
    int64_t want = k == 0 ? v : k == 1 ? v + 1 - 2 * (v > 0 && judge_random(g, 2)) : v + (k == 2);
    snprintf(clause, sizeof clause, " $s%d%s%lld", sem, conds[k], (long long)want);
  }
  judge_add(g, e, clause);
}

/* Whose semaphore an update is for, as text; the other core's now and then. */
static const char *judge_whose(judge_gen *g, int *core) {
  if (g->cores < 2 || judge_random(g, 3)) return "";
  *core = !*core;
  return "peer.";
}

static void judge_update(judge_gen *g, int e, int sem, int data) {
  char clause[40];
  uint32_t k = judge_random(g, 8);
  int to_core = g->core;
  const char *of = judge_whose(g, &to_core);
  int64_t *value = &g->value[to_core][sem];
  if (g->mixed && k == 0 && *value > 0) {
    snprintf(clause, sizeof clause, " $%ss%d-=1", of, sem);
    --*value;
  } else if (g->mixed && k == 1) {
    uint32_t to = judge_random(g, 3);
    snprintf(clause, sizeof clause, " $%ss%d=%u", of, sem, to);
    *value = to;
  } else if (k == 2) {
    snprintf(clause, sizeof clause, " $%ss%d+=2", of, sem);
    *value += 2;
  } else {
    snprintf(clause, sizeof clause, " $%ss%d++", of, sem);
    ++*value;
  }
  judge_add(g, e, clause);
  if (data && judge_random(g, 8) == 0) judge_add(g, e, "@read");
}

/* All of a tile, or half of its partitions. */
static const char *judge_tile(judge_gen *g, char at[24], uint32_t half) {
  snprintf(at, 24, "t%u%s", judge_random(g, (uint32_t)g->tiles),
           half == 0   ? "[0:64]"
           : half == 1 ? "[64:128]"
                       : "");
  return at;
}

static int judge_any_sem(judge_gen *g) { return (int)judge_random(g, (uint32_t)g->sems); }

static void judge_barrier(judge_gen *g, int e) {
  char line[32];
  snprintf(line, sizeof line, " core_barrier b%d", e);
  judge_add(g, e, line);
  if (judge_random(g, 4) == 0) judge_wait(g, e, judge_any_sem(g));
  if (judge_random(g, 4) == 0) judge_update(g, e, judge_any_sem(g), 0);
  judge_add(g, e, "\n");
}

/* A barrier of an engine that both cores have, or a sendrecv, mostly with a queue of its own. */
static void judge_meeting(judge_gen *g) {
  char line[96];
  int e = (int)judge_random(g, JUDGE_ENGINES), other = e;
  uint32_t half = judge_random(g, 3), kind = judge_random(g, 4), pipe;
  if (kind && judge_random(g, 4) == 0) other = (int)judge_random(g, JUDGE_ENGINES);
  if (kind == 1) e = other = JUDGE_GPSIMD;
  if (kind > 1 && g->rings[other] != g->rings[e]) other = e;
  pipe = judge_random(g, 6) ? (uint32_t)(4 * e + other) : 0;
  for (int i = 0; i < 2; i++) {
    uint32_t to = judge_random(g, (uint32_t)g->tiles);
    uint32_t from = (to + 1 + judge_random(g, (uint32_t)g->tiles - 1)) % (uint32_t)g->tiles;
    const char *part = half == 0 ? "[0:64]" : half == 1 ? "[64:128]" : "";
    int sem = (int)judge_random(g, (uint32_t)g->sems), at = i ? other : e;
    g->core = i;
    if (kind == 0) {
      judge_barrier(g, at);
      continue;
    }
    if (kind == 1)
      snprintf(line, sizeof line, " sendrecv_gpsimd t%u%s, t%u%s, pipe=%u", to, part, from, part,
               pipe);
    else
      snprintf(line, sizeof line, " sendrecv t%u%s, t%u%s, queue=%c%d, pipe=%u", to, part, from,
               part, at != JUDGE_VECTOR && judge_random(g, 3) == 0 ? 'q' : 'x', at, pipe);
    judge_add(g, at, line);
    if (judge_random(g, 3)) judge_wait(g, at, (int)judge_random(g, (uint32_t)g->sems));
    if (kind == 1 && judge_random(g, 4)) {
      snprintf(line, sizeof line, " $s%d++", sem);
      judge_add(g, at, line);
      g->value[i][sem]++;
    } else if (kind > 1 && judge_random(g, 4)) {
      int whose = i;
      snprintf(line, sizeof line, " $%ss%d", judge_whose(g, &whose), sem);
      judge_add(g, at, line);
      g->value[whose][sem] += g->rings[at];
    }
    judge_add(g, at, "\n");
  }
}

static int judge_queue(judge_gen *g) {
  return JUDGE_SCALAR + (int)judge_random(g, JUDGE_ENGINES - JUDGE_SCALAR);
}

/* A write of y from a line of its own, by both cores or by one, and mostly a read after it; or a
 * tile is filled, often with other values than the other core's. */
static void judge_twins(judge_gen *g) {
  static const char *const parts[] = {"", "", "[0:64]", "[64:128]"};
  const char *part = parts[judge_random(g, 4)];
  char line[96], a[24];
  int e = judge_queue(g), by = judge_queue(g), sem = (int)judge_random(g, (uint32_t)g->sems);
  uint32_t number = 1 + judge_random(g, 3), alone = judge_random(g, 8);
  for (int i = 0; i < 2; i++) {
    g->core = i;
    if (alone == 0 && i) return;
    if (judge_random(g, 8) == 0) {
      snprintf(line, sizeof line, " memset t%u, %u.0\n", judge_random(g, (uint32_t)g->tiles),
               judge_random(g, 2));
      judge_add(g, JUDGE_VECTOR, line);
    }
    snprintf(line, sizeof line, "%%line %u \"y.s\"\n dma_copy y%s, t%u%s, queue=q%d $s%d\n", number,
             part, judge_random(g, (uint32_t)g->tiles), part, e, sem);
    judge_add(g, e, line);
    g->value[i][sem] += g->rings[e];
    if (judge_random(g, 4) == 0) continue;
    snprintf(line, sizeof line, " dma_copy %s, y, queue=q%d", judge_tile(g, a, 2), by);
    judge_add(g, by, line);
    judge_wait(g, by, sem);
    judge_add(g, by, "\n");
  }
}

static void judge_line(judge_gen *g) {
  char line[96], a[24], b[24];
  if (g->cores > 1) {
    if (g->twins && judge_random(g, 3) == 0) {
      judge_twins(g);
      return;
    }
    if (judge_random(g, 4) == 0) {
      judge_meeting(g);
      return;
    }
    g->core = (int)judge_random(g, 2);
  }
  int e = (int)judge_random(g, JUDGE_ENGINES), sem = (int)judge_random(g, (uint32_t)g->sems);
  int wait = (int)judge_random(g, (uint32_t)g->sems), waits = judge_random(g, 3) > 0;
  uint32_t half = judge_random(g, 6), kind = judge_random(g, 16);
  if (e == JUDGE_SYNC ? kind < 10 : (e != JUDGE_VECTOR && kind < 4)) {
    uint32_t far = g->cores > 1 ? judge_random(g, 4) : 2;
    snprintf(line, sizeof line, " dma_copy %s%s, %s%s, queue=q%d", judge_tile(g, a, half),
             far == 0 ? ".peer" : "", judge_tile(g, b, half), far == 1 ? ".peer" : "", e);
    judge_add(g, e, line);
    if (waits) judge_wait(g, e, wait);
    if (judge_random(g, 4)) {
      int to = g->core;
      snprintf(line, sizeof line, " $%ss%d", judge_whose(g, &to), sem);
      judge_add(g, e, line);
      g->value[to][sem] += g->rings[e];
    }
    judge_add(g, e, "\n");
    return;
  }
  int data = e != JUDGE_SYNC && kind < 14;
  if (data)
    snprintf(line, sizeof line, " tensor_copy %s, %s", judge_tile(g, a, half),
             judge_tile(g, b, half));
  else
    snprintf(line, sizeof line, "%s",
             kind == 14 && e != JUDGE_SYNC ? " drain" : " event_semaphore");
  if (!data && line[1] == 'e' && g->value[g->core][wait] > 0 && judge_random(g, 4) == 0) {
    snprintf(line, sizeof line, " event_semaphore $s%d>=1 $s%d+=2\n", wait, wait);
    g->value[g->core][wait] += 2;
    judge_add(g, e, line);
    return;
  }
  if (!data && line[1] == 'e' && g->mixed && g->value[g->core][wait] > 0 && judge_random(g, 2)) {
    snprintf(line, sizeof line, " event_semaphore $s%d>=1 $s%d-=1\n", wait, wait);
    g->value[g->core][wait]--;
    judge_add(g, e, line);
    return;
  }
  judge_add(g, e, line);
  if (waits && wait != sem) judge_wait(g, e, wait);
  if (judge_random(g, 4) || line[1] == 'e') judge_update(g, e, sem, data);
  judge_add(g, e, "\n");
}

/* Program number `seed` for one core or two. */
static void judge_program(uint64_t seed, int mixed, int cores, int twins, char out[JUDGE_TEXT]) {
  static const char *const names[] = {"vector", "scalar", "gpsimd", "sync"};
  static const char *const dge[] = {"", "hwdge", "swdge", "hwdge"};
  judge_gen g = {.state = seed, .mixed = mixed, .cores = cores, .twins = twins};
  const char *both = cores > 1 ? " core=*" : "", *comma = cores > 1 ? "," : "";
  size_t n = 0;
  uint32_t lines = 2 + judge_random(&g, JUDGE_LINES - 1);
  g.tiles = 2 + (int)judge_random(&g, JUDGE_TILES - 1);
  g.sems = 1 + (int)judge_random(&g, JUDGE_SEMS);
  for (int e = 0; e < JUDGE_ENGINES; e++) g.rings[e] = 1 + (int)judge_random(&g, 3);
  for (uint32_t i = 0; i < lines; i++) judge_line(&g);
  n += (size_t)snprintf(out + n, JUDGE_TEXT - n, " target trn2\n");
  for (int i = 0; i < g.tiles; i++)
    n += (size_t)snprintf(out + n, JUDGE_TEXT - n, "t%d tile sbuf float32[128, 2]\n", i);
  for (int i = 0; i < g.sems; i++)
    n += (size_t)snprintf(out + n, JUDGE_TEXT - n, "s%d sem%s\n", i, both);
  for (int e = JUDGE_SCALAR; e < JUDGE_ENGINES; e++)
    n += (size_t)snprintf(out + n, JUDGE_TEXT - n, "q%d queue rings=%d, dge=%s, owner=%s%s%s\n", e,
                          g.rings[e], dge[e], names[e], comma, both);
  for (int e = 0; e < JUDGE_ENGINES && cores > 1; e++)
    n += (size_t)snprintf(out + n, JUDGE_TEXT - n,
                          "x%d queue rings=%d, dge=none, core=*\nb%d sem core=*\n", e, g.rings[e],
                          e);
  if (twins) n += (size_t)snprintf(out + n, JUDGE_TEXT - n, "y tensor float32[128, 2]\n");
  for (int core = 0; core < cores; core++)
    for (int e = 0; e < JUDGE_ENGINES; e++)
      n += (size_t)snprintf(out + n, JUDGE_TEXT - n, "section %s core=%d\n%s halt\n", names[e],
                            core, g.text[core][e]);
}

#endif
