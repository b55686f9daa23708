/* Where the time of a run went, as text: shares, the critical path with its repeats folded, and the
 * idle gaps of the engines. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

/* A path may have a million steps: its head and tail are shown, and of each engine's
 * gaps the largest. */
enum { HEAD_ROWS = 60, TAIL_ROWS = 20, GAPS_OF_ENGINE = 3 };

typedef struct part {         /* the time that equal segments took together */
  const soma_path_segment *s; /* one of them; NULL: the time after the path's end */
  soma_time time;
} part;

typedef struct explain {
  const soma_run *run;
  const soma_recorder *rec;
  vm_rec_sink out;
  isa_alloc al;
  soma_path_segment *s;
  uint32_t n;
  soma_time total;
  part *parts;
  uint32_t nparts, cap_parts;
  vm_rec_fold fold;
  uint32_t row; /* of the path: the end of what has been written so far */
} explain;

static const char *core_of(const explain *x, unsigned core) {
  return vm_rec_core(x->run->p->p, core);
}

/* "rank 3 core 1 " before what a segment is of. */
static void put_where(const explain *x, const soma_path_segment *s, isa_buf *b) {
  if (s->rank >= 0) isa_buf_printf(b, "rank %d ", s->rank);
  isa_buf_puts(b, core_of(x, s->core));
}

/* ---- Shares ------------------------------------------------------------------------------- */

/* Shares of one kind are added up: "vector: data path" is one line, however often it
 * was on the path. */
static bool same_share(const soma_path_segment *a, const soma_path_segment *b) {
  if (a->kind != b->kind || a->core != b->core || a->rank != b->rank) return false;
  switch (a->kind) {
  case SOMA_PATH_TRANSFER: return a->queue == b->queue;
  case SOMA_PATH_DELAY:
    /* Delays are told apart by what was waited for. */
    if (a->semaphore >= 0 || b->semaphore >= 0) return a->semaphore == b->semaphore;
    return a->cause == b->cause && a->queue == b->queue && a->engine == b->engine;
  default: return a->engine == b->engine;
  }
}

static bool add_part(explain *x, const soma_path_segment *s, soma_time time) {
  uint32_t i = 0;
  /* There are few parts: a path repeats itself. */
  while (i < x->nparts && (!s || !x->parts[i].s || !same_share(s, x->parts[i].s))) i++;
  if (i == x->nparts) {
    if (i == x->cap_parts && !isa_array_grow(&x->al, &x->parts, i, &x->cap_parts, sizeof *x->parts))
      return false;
    x->parts[x->nparts++] = (part){s, 0};
  }
  x->parts[i].time += time;
  return true;
}

static int by_time(const void *a, const void *b) {
  const part *x = a, *y = b;
  if (x->time != y->time) return x->time > y->time ? -1 : 1;
  if (!x->s || !y->s) return x->s ? -1 : 1;
  /* Equal times: a stable order, whatever qsort does. */
  return x->s < y->s ? -1 : 1; /* the one that comes earlier on the path */
}

static void put_name(isa_buf *b, const char *name, const char *otherwise, int number) {
  if (name)
    isa_buf_puts(b, name);
  else
    isa_buf_printf(b, "%s%d", otherwise, number);
}

/* What the line of a share says it is of. */
static void put_share(explain *x, const soma_path_segment *s) {
  isa_buf *b = &x->out.b;
  if (!s) {
    isa_buf_puts(b, "after the path: completions that nothing waits for");
    return;
  }
  const char *engine = isa_engines[s->engine].name;
  put_where(x, s, b);
  switch (s->kind) {
  case SOMA_PATH_DATA: isa_buf_printf(b, "%s: data path", engine); return;
  case SOMA_PATH_SEQUENCER: isa_buf_printf(b, "%s: sequencer", engine); return;
  case SOMA_PATH_TRANSFER:
    put_name(b, s->queue_name, "queue", s->queue);
    isa_buf_puts(b, ": moving data");
    return;
  default: break;
  }
  if (s->semaphore >= 0) {
    isa_buf_puts(b, "wait: until semaphore ");
    put_name(b, s->semaphore_name, "sem", s->semaphore);
    isa_buf_puts(b, " was seen");
  } else if (s->queue >= 0) {
    put_name(b, s->queue_name, "queue", s->queue);
    isa_buf_printf(b, ": wait: %s", s->cause);
  } else {
    isa_buf_printf(b, "%s: wait: %s", engine, s->cause);
  }
}

/* Spaces from `at` up to a width; at least one unless the width is 0.
 * Columns are for a person: what is longer than the width moves the rest. */
static void pad(isa_buf *b, size_t at, size_t width) {
  if (width) isa_buf_puts(b, " ");
  while (!b->failed && b->len - at < width) isa_buf_puts(b, " ");
}

static void put_span_column(isa_buf *b, soma_time t, size_t width) {
  size_t at = b->len;
  vm_rec_put_span(b, t);
  pad(b, at, width);
}

/* Tenths of a percent. Each is the difference of two rounded sums, so that all add up to 100
 * percent. */
static void put_shares(explain *x) {
  isa_buf *b = &x->out.b;
  soma_time sum = 0;
  /* Rounding each share by itself could give 100.1 in all. */
  uint64_t before = 0;
  isa_buf_puts(b, "shares of the critical path\n");
  for (uint32_t i = 0; i < x->nparts; i++) {
    sum += x->parts[i].time;
    uint64_t now = (uint64_t)((double)sum / (double)x->total * 1000 + 0.5);
    isa_buf_printf(b, "  %3u.%u%%  ", (unsigned)((now - before) / 10),
                   (unsigned)((now - before) % 10));
    before = now;
    put_span_column(b, x->parts[i].time, 10);
    put_share(x, x->parts[i].s);
    isa_buf_puts(b, "\n");
  }
}

static bool make_shares(explain *x) {
  for (uint32_t i = 0; i < x->n; i++)
    if (!add_part(x, &x->s[i], x->s[i].end - x->s[i].start)) return false;
  /* The time from the end of the path to the end of the run. */
  soma_time end = x->n ? x->s[x->n - 1].end : 0;
  /* What runs on after the path's end is a part, too. */
  if (end < x->total && !add_part(x, NULL, x->total - end)) return false;
  if (x->nparts) qsort(x->parts, x->nparts, sizeof *x->parts, by_time);
  return true;
}

/* ---- The path ----------------------------------------------------------------------------- */

static void put_step(explain *x, const soma_path_segment *s) {
  isa_buf *b = &x->out.b;
  put_where(x, s, b);
  size_t at = b->len;
  switch (s->kind) {
  case SOMA_PATH_DATA:
  case SOMA_PATH_SEQUENCER: isa_buf_puts(b, isa_engines[s->engine].name); break;
  case SOMA_PATH_TRANSFER: put_name(b, s->queue_name, "queue", s->queue); break;
  default: isa_buf_puts(b, "wait");
  }
  pad(b, at, 9);
  if (s->kind == SOMA_PATH_DELAY) {
    if (s->semaphore < 0) {
      isa_buf_puts(b, s->cause);
    } else {
      isa_buf_puts(b, "semaphore ");
      put_name(b, s->semaphore_name, "sem", s->semaphore);
    }
    isa_buf_puts(b, ", for ");
  }
  isa_buf_puts(b, s->name ? s->name : "?");
  if (s->kind == SOMA_PATH_SEQUENCER) isa_buf_puts(b, " (sequencer)");
  if (s->file) isa_buf_printf(b, "  %s:%u", s->file, s->line);
  isa_buf_puts(b, "\n");
}

/* At most 80 rows: the first 60 and the last 20; what is between is counted. */
static bool shown(const explain *x, uint32_t row) {
  return x->fold.rows <= HEAD_ROWS + TAIL_ROWS || row < HEAD_ROWS ||
         row >= x->fold.rows - TAIL_ROWS;
}

static void put_block(explain *x, const vm_rec_block *k) {
  isa_buf *b = &x->out.b;
  uint32_t last = k->first + k->n * k->repeats - 1;
  if (k->repeats > 1 && shown(x, x->row)) {
    isa_buf_printf(b, "  x %-7u ", k->repeats);
    put_span_column(b, x->s[last].end - x->s[k->first].start, 0);
    isa_buf_puts(b, " in all:\n");
  }
  for (uint32_t i = 0; i < k->n; i++, x->row++) {
    soma_time time = 0;
    if (!shown(x, x->row)) {
      /* Said once, where the list is cut. */
      if (x->row == HEAD_ROWS)
        isa_buf_printf(b, "  ... %u more\n", x->fold.rows - HEAD_ROWS - TAIL_ROWS);
      continue;
    }
    /* The time of this step in all rounds.
     * Steps i, i + n, i + 2n ... are this step of all rounds. */
    for (uint32_t j = k->first + i; j <= last; j += k->n) time += x->s[j].end - x->s[j].start;
    isa_buf_puts(b, k->repeats > 1 ? "  | " : "  ");
    put_span_column(b, time, k->repeats > 1 ? 10 : 12);
    put_step(x, &x->s[k->first + i]);
  }
}

/* ---- Gaps --------------------------------------------------------------------------------- */

static void put_late(explain *x, const soma_idle_gap *g) {
  isa_buf *b = &x->out.b;
  if (g->kind == SOMA_GAP_MEETING) {
    isa_buf_puts(b, ", waiting for the other core's sendrecv");
  } else {
    isa_buf_puts(b, ", waiting for $");
    put_name(b, g->semaphore_name, "sem", g->semaphore);
    isa_buf_puts(b, g->condition);
  }
  /* The text of the condition names a register, not its value. */
  if (strchr(g->condition, 'r')) isa_buf_printf(b, " (%u)", g->reached);
  /* The wait took a part of the gap only: then how long is said too. */
  if (g->waited < g->end - g->start) {
    isa_buf_puts(b, " for ");
    vm_rec_put_span(b, g->waited);
  }
  if (g->late_engine < 0) return;
  isa_buf_printf(b, ": %s", core_of(x, g->late_core));
  if (g->late_queue >= 0) {
    isa_buf_puts(b, "queue ");
    put_name(b, g->queue_name, "", g->late_queue);
  } else {
    isa_buf_puts(b, isa_engines[g->late_engine].name);
  }
  isa_buf_printf(b, " was late (%s", g->late_name ? g->late_name : "?");
  if (g->late_file) isa_buf_printf(b, " at %s:%u", g->late_file, g->late_line);
  isa_buf_puts(b, ")");
}

static void put_gap(explain *x, const soma_idle_gap *g) {
  isa_buf *b = &x->out.b;
  isa_buf_printf(b, "  %s%s idle ", core_of(x, g->core), isa_engines[g->engine].name);
  vm_rec_put_span(b, g->end - g->start);
  isa_buf_puts(b, " from ");
  vm_rec_put_span(b, g->start);
  if (g->kind == SOMA_GAP_SEMAPHORE || g->kind == SOMA_GAP_MEETING)
    put_late(x, g);
  else
    isa_buf_puts(b, g->kind == SOMA_GAP_END
                        ? ", after its last instruction"
                        : ", its own doing: control instructions, hazards, tables");
  isa_buf_puts(b, "\n");
}

static void put_waited_for(explain *x, unsigned who) {
  isa_buf *b = &x->out.b;
  /* Queues of both cores come first in that numbering, then engines. */
  unsigned queue = who % ISA_MAX_QUEUES, core = who / ISA_MAX_QUEUES;
  unsigned unit = who - VM_REC_FOR_ENGINE;
  if (who < VM_REC_FOR_ENGINE) {
    const isa_core *of = &x->run->p->p->cores[core];
    isa_buf_puts(b, core_of(x, core));
    put_name(b, queue < of->nqueues ? of->queues[queue].name : NULL, "queue", (int)queue);
  } else if (who < VM_REC_FOR_HOST)
    isa_buf_printf(b, "%s%s", core_of(x, vm_rec_unit_core(unit)),
                   isa_engines[vm_rec_unit_seq(unit)].name);
  else
    isa_buf_puts(b, who == VM_REC_FOR_END      ? "after its last instruction"
                    : who == VM_REC_FOR_ITSELF ? "its own doing"
                                               : "an update that was not recorded");
}

/* The idle time of engine e (numbered over both cores) in all, and what it waited for: the longest
 * first. */
static void put_idle(explain *x, unsigned e, const soma_idle_gap *g, uint32_t n) {
  isa_buf *b = &x->out.b;
  soma_time idle[VM_REC_FOR_ALL] = {0}, all = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (vm_rec_unit(g[i].core, g[i].engine) != e) continue;
    idle[vm_rec_gap_for(&g[i])] += g[i].end - g[i].start;
    all += g[i].end - g[i].start;
    count++;
  }
  isa_buf_printf(b, "  %s%s idle ", core_of(x, e / ISA_NENGINES),
                 isa_engines[e % ISA_NENGINES].name);
  vm_rec_put_span(b, all);
  isa_buf_printf(b, " in %u gaps", count);
  for (const char *between = ": ";; between = ", ") {
    unsigned most = 0;
    /* The largest that is left, until none is: there are few.
     * 0 is a queue like any other: it is the first candidate. */
    for (unsigned w = 1; w < VM_REC_FOR_ALL; w++) most = idle[w] > idle[most] ? w : most;
    if (!idle[most]) break;
    isa_buf_puts(b, between);
    vm_rec_put_span(b, idle[most]);
    isa_buf_puts(b, most < VM_REC_FOR_ITSELF ? " for " : " ");
    put_waited_for(x, most);
    idle[most] = 0;
  }
  isa_buf_puts(b, "\n");
}

static bool put_gaps(explain *x) {
  isa_buf *b = &x->out.b;
  uint32_t n = 0;
  /* Asked twice: for the number, then for the gaps. */
  if (soma_idle_gaps(x->rec, x->run->p, NULL, 0, &n) != SOMA_OK) return false;
  soma_idle_gap *g = isa_zalloc(&x->al, n * sizeof *g + 1);
  bool ok = g && soma_idle_gaps(x->rec, x->run->p, g, n, &n) == SOMA_OK;
  isa_buf_puts(b, "idle gaps, the largest of each engine\n");
  /* CC sequencers have no data path, and so no gaps. */
  for (unsigned e = 0; ok && e < VM_REC_ENGINES; e++) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < n; i++) {
      if (vm_rec_unit(g[i].core, g[i].engine) != e) continue;
      if (seen++ < GAPS_OF_ENGINE) put_gap(x, &g[i]);
    }
    /* A single gap has said all of it. */
    if (seen > 1) put_idle(x, e, g, n);
  }
  if (!n) isa_buf_puts(b, "  none\n");
  isa_free(&x->al, g, n * sizeof *g + 1);
  return ok;
}

/* ---- The whole ---------------------------------------------------------------------------- */

static bool put_path(explain *x) {
  isa_buf *b = &x->out.b;
  isa_buf_puts(b, "the path, earliest first\n");
  for (uint32_t i = 0; i < x->fold.n && vm_rec_sink_row(&x->out); i++) put_block(x, &x->fold.v[i]);
  /* Gaps need recorded events; the path needs only the causes, which the run keeps. */
  return !x->rec || put_gaps(x);
}

static bool put_all(explain *x) {
  soma_stats stats;
  soma_run_stats(x->run, &stats, sizeof stats);
  x->total = stats.time;
  /* No event took time, so no share could be divided by the total. */
  if (!x->total) {
    isa_buf_puts(&x->out.b, "critical path: nothing took time\n");
    return true;
  }
  if (!make_shares(x) || !vm_rec_fold_path(&x->al, x->s, x->n, &x->fold)) return false;
  isa_buf *b = &x->out.b;
  isa_buf_puts(b, "critical path: ");
  vm_rec_put_span(b, stats.time);
  isa_buf_printf(b, " in %u steps\n", x->n);
  put_shares(x);
  return put_path(x);
}

soma_status soma_write_explanation(const soma_run *r, const soma_recorder *rec, soma_write_fn write,
                                   void *ud) {
  if (!r || !write) return SOMA_ARG;
  explain x = {.run = r, .rec = rec, .al = r->run.al};
  /* Without a record of causes there is nothing to explain.
   * SOMA_ARG: the run was started without causes. */
  if (soma_critical_path(r, NULL, 0, &x.n) != SOMA_OK) return SOMA_ARG;
  size_t size = (size_t)x.n * sizeof *x.s + 1;
  x.s = isa_zalloc(&x.al, size);
  if (!x.s) return SOMA_NOMEM;
  soma_critical_path(r, x.s, x.n, &x.n);
  vm_rec_sink_open(&x.out, &x.al, write, ud);
  if (!put_all(&x)) x.out.b.failed = true;
  isa_free(&x.al, x.s, size);
  isa_free(&x.al, x.parts, x.cap_parts * sizeof *x.parts);
  vm_rec_fold_free(&x.al, &x.fold);
  return vm_rec_sink_close(&x.out, NULL);
}
