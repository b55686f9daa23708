/* What the page says about the time of a run: utilisation figures, the critical path, idle
 * gaps, the fault that ended it, findings of checks. Numbers are whole, so that no locale
 * changes them. */
#include "record.h"

/* The page lists what a person can look through; sums have all. */
enum { GAPS_MOST = 200 }; /* the most that are listed; all are in the sums */

static unsigned long long ps(vm_time t) { return (unsigned long long)(t / 1000); }

/* ---- Figures ------------------------------------------------------------------------------ */

/* Negative figures do not exist; what is unknown is 0. */
static unsigned long long times(double v, double by) {
  return v > 0 ? (unsigned long long)(v * by + 0.5) : 0;
}

/* For each engine. The recorder has what both cores did together; the run knows what each did.
 * Figures of one core need that core's statistics. */
static void put_utilization(vm_rec_html *h, const soma_figures *both) {
  isa_buf *b = &h->out.b;
  unsigned cores = h->t.p->ncores;
  for (unsigned c = 0; c < cores; c++) {
    soma_figures f = *both;
    soma_stats s;
    if (cores > 1 && (!h->run || soma_core_stats(h->run, c, &s, sizeof s) != SOMA_OK)) return;
    if (cores > 1) soma_stats_figures(&s, &f, sizeof f);
    for (unsigned e = 0; e < ISA_NENGINES; e++)
      isa_buf_printf(b, "%s%llu", c || e ? "," : "", times(f.utilization[e], 1e6));
  }
}

/* Ratios in millionths, flops and bytes per second, intensities in thousandths.
 * Numbers without a fraction: JSON of any locale. */
static void put_figures(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  const soma_stats *s = &h->t.r->stats;
  soma_figures f;
  if (!h->t.r->has_stats) return;
  soma_stats_figures(s, &f, sizeof f);
  isa_buf_printf(b, ",\n\"figures\":{\"mfu\":%llu,\"hfu\":%llu,\"mbu\":%llu", times(f.mfu, 1e6),
                 times(f.hfu, 1e6), times(f.mbu, 1e6));
  isa_buf_printf(b, ",\"intensity\":%llu,\"ridge\":%llu", times(f.intensity, 1e3),
                 times(f.ridge, 1e3));
  isa_buf_printf(b, ",\"model\":%llu,\"attainable\":%llu,\"peak\":%llu,\"bandwidth\":%llu",
                 times(f.model_flops, 1), times(f.attainable_flops, 1), times(f.peak_flops, 1),
                 (unsigned long long)s->peak_hbm);
  isa_buf_printf(b, ",\"hbm\":[%llu,%llu],\"transfer\":%llu,\"launch\":%llu,\"time\":%llu",
                 (unsigned long long)s->hbm_read_bytes, (unsigned long long)s->hbm_write_bytes,
                 times(f.dma_average_bytes, 1), ps(s->launch), ps(s->time));
  isa_buf_printf(b, ",\"touched\":[%llu,%llu],\"size\":[%llu,%llu],\"utilization\":[",
                 (unsigned long long)s->sbuf_touched, (unsigned long long)s->psum_touched,
                 (unsigned long long)s->sbuf_size, (unsigned long long)s->psum_size);
  put_utilization(h, &f);
  isa_buf_puts(b, "]}");
}

/* ---- Critical path ------------------------------------------------------------------------ */

static size_t path_bytes(uint32_t n) { return (size_t)n * sizeof(soma_path_segment) + 1; }

/* The page has one rank's events: what lies on other ranks between two of its own segments becomes
 * a wait of the second one. How many are left. */
static uint32_t own_segments(soma_path_segment *v, uint32_t all) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < all; i++) {
    soma_path_segment s = v[i];
    bool away = n && v[n - 1].rank >= 0;
    /* Segments of other ranks in a row become one.
     * Both on other ranks: the page shows one step "other ranks". */
    if (s.rank >= 0 && away) {
      v[n - 1].end = s.end;
      continue;
    }
    if (away) {
      /* The wait belongs to the segment that follows it. */
      v[n - 1].engine = s.engine;
      v[n - 1].core = s.core;
      v[n - 1].pc = s.pc;
    }
    /* It has no engine of this rank's. */
    if (s.rank >= 0) {
      s.kind = SOMA_PATH_DELAY;
      s.dma_engine = s.queue = s.semaphore = -1;
      s.cause = "other ranks";
    }
    v[n++] = s;
  }
  return n;
}

bool vm_rec_html_open_path(vm_rec_html *h) {
  /* Without causes the page has no path. */
  if (!h->run || soma_critical_path(h->run, NULL, 0, &h->npath) != SOMA_OK) return true;
  h->path = isa_zalloc(&h->t.al, path_bytes(h->npath));
  if (!h->path) return false;
  h->room = h->npath;
  soma_critical_path(h->run, h->path, h->npath, &h->npath);
  h->npath = own_segments(h->path, h->npath);
  return true;
}

void vm_rec_html_drop_path(vm_rec_html *h) { isa_free(&h->t.al, h->path, path_bytes(h->room)); }

/* The page names a step by its instruction, as it names an event. */
static vm_rec_event instruction_of(const soma_path_segment *s) {
  return (vm_rec_event){.kind = VM_EV_INSN,
                        .core = s->core & 1u,
                        .by_core = s->core & 1u,
                        .engine = (unsigned)s->engine & 255,
                        .pc = s->pc};
}

void vm_rec_html_path_code(vm_rec_html *h) {
  for (uint32_t i = 0; h->path && i < h->npath && vm_rec_sink_row(&h->out); i++) {
    vm_rec_event v = instruction_of(&h->path[i]);
    vm_rec_html_code(h, &v);
  }
}

/* The number of a cause among those seen; there are about a dozen. */
enum { CAUSES_MOST = 32 };
static unsigned number_of(const char *cause, const char *seen[CAUSES_MOST], unsigned *n) {
  unsigned i = 0;
  while (i < *n && seen[i] != cause) i++;
  /* Causes are static strings: their addresses tell them apart.
   * More than 32 causes would all have the number 32: there are a dozen. */
  if (i == *n && *n < CAUSES_MOST) seen[(*n)++] = cause;
  return i;
}

/* Eight numbers for each step: kind, engine, DMA engine, queue, semaphore (-1: none), instruction,
 * cause, and its end minus that of the step before in ps. */
static void put_path(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  const char *seen[CAUSES_MOST];
  unsigned n = 0;
  unsigned long long last = 0;
  if (!h->path) return;
  isa_buf_puts(b, ",\n\"path\":{\"steps\":[");
  for (uint32_t i = 0; i < h->npath && vm_rec_sink_row(&h->out); i++) {
    const soma_path_segment *s = &h->path[i];
    vm_rec_event v = instruction_of(s);
    int queue = s->queue < 0 ? -1 : (int)vm_rec_queue(s->core, (unsigned)s->queue);
    int sem = s->semaphore < 0 ? -1 : (int)vm_rec_sem(s->core, (unsigned)s->semaphore);
    isa_buf_printf(b, "%s%d,%u,%d,%d,%d,%ld,%u,%llu", i ? ",\n" : "\n", (int)s->kind,
                   vm_rec_unit(s->core, (unsigned)s->engine), s->dma_engine, queue, sem,
                   vm_rec_html_code_of(h, &v), number_of(s->cause, seen, &n), ps(s->end) - last);
    last = ps(s->end);
  }
  isa_buf_puts(b, "],\"causes\":[");
  /* Only the causes that were seen, in the order of their numbers. */
  for (unsigned i = 0; i < n; i++) {
    isa_buf_puts(b, i ? "," : "");
    isa_buf_json(b, seen[i]);
  }
  /* Repeats of the path: (first step, steps, rounds). */
  isa_buf_puts(b, "],\"blocks\":[");
  vm_rec_fold fold;
  if (!vm_rec_fold_path(&h->t.al, h->path, h->npath, &fold)) b->failed = true;
  for (uint32_t i = 0; i < fold.n && vm_rec_sink_row(&h->out); i++)
    isa_buf_printf(b, "%s%u,%u,%u", i ? "," : "", fold.v[i].first, fold.v[i].n, fold.v[i].repeats);
  vm_rec_fold_free(&h->t.al, &fold);
  isa_buf_puts(b, "]}");
}

/* ---- Idle gaps ---------------------------------------------------------------------------- */

/* [engine, for whom (as vm_rec_gap_for), ps, gaps] for every pair that has gaps. */
static void put_idle_sums(vm_rec_html *h, const soma_idle_gap *g, uint32_t n) {
  isa_buf *b = &h->out.b;
  const char *between = "";
  for (unsigned e = 0; e < VM_REC_ENGINES; e++) {
    vm_time idle[VM_REC_FOR_ALL] = {0};
    uint32_t count[VM_REC_FOR_ALL] = {0};
    for (uint32_t i = 0; i < n; i++) {
      if (vm_rec_unit(g[i].core, g[i].engine) != e) continue;
      idle[vm_rec_gap_for(&g[i])] += g[i].end - g[i].start;
      count[vm_rec_gap_for(&g[i])]++;
    }
    /* Pairs without a gap are left out: there are about a hundred. */
    for (unsigned w = 0; w < VM_REC_FOR_ALL; w++) {
      if (!count[w]) continue;
      isa_buf_printf(b, "%s[%u,%u,%llu,%u]", between, e, w, ps(idle[w]), count[w]);
      between = ",";
    }
  }
}

/* [engine, for whom, start, length, waited (ps), semaphore, condition, value reached, instruction
 * that waited, instruction that was late]; the largest first. */
static void put_gap(vm_rec_html *h, const soma_idle_gap *g) {
  isa_buf *b = &h->out.b;
  vm_rec_event waited = {.kind = VM_EV_INSN,
                         .core = g->core & 1u,
                         .by_core = g->core & 1u,
                         .engine = (unsigned)g->engine & 255,
                         .pc = g->pc},
               /* Made from the same struct, with the other place. */
      late = waited;
  late.core = late.by_core = g->late_core & 1u;
  late.engine = (unsigned)g->late_engine & 255;
  late.pc = g->late_pc;
  int sem = g->semaphore < 0 ? -1 : (int)vm_rec_sem(g->core, (unsigned)g->semaphore);
  isa_buf_printf(b, "[%u,%u,%llu,%llu,%llu,%d,\"%s\",%u,%ld,%ld]", vm_rec_unit(g->core, g->engine),
                 vm_rec_gap_for(g), ps(g->start), ps(g->end) - ps(g->start), ps(g->waited), sem,
                 /* Without a wait nothing waited; -1 there. */
                 g->condition, g->reached, g->waited ? vm_rec_html_code_of(h, &waited) : -1,
                 g->late_engine < 0 ? -1 : vm_rec_html_code_of(h, &late));
}

static bool put_gaps(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  uint32_t n = 0;
  if (soma_idle_gaps(h->t.r, h->program, NULL, 0, &n) != SOMA_OK) return false;
  size_t size = (size_t)n * sizeof(soma_idle_gap) + 1;
  soma_idle_gap *g = isa_zalloc(&h->t.al, size);
  bool ok = g && soma_idle_gaps(h->t.r, h->program, g, n, &n) == SOMA_OK;
  isa_buf_puts(b, ",\n\"idle\":{\"sums\":[");
  if (ok) put_idle_sums(h, g, n);
  isa_buf_printf(b, "],\"count\":%u,\"firstEngine\":%d,\"afterEngines\":%d,\"gaps\":[", n,
                 VM_REC_FOR_ENGINE, VM_REC_FOR_HOST);
  for (uint32_t i = 0; ok && i < n && i < GAPS_MOST; i++) {
    isa_buf_puts(b, i ? ",\n" : "\n");
    put_gap(h, &g[i]);
  }
  isa_buf_puts(b, "]}");
  isa_free(&h->t.al, g, size);
  return ok;
}

/* ---- Faults and findings ------------------------------------------------------------------ */

/* [what, engine, ps, file, line, text, places], a place being [engine, pc, ps]. */
typedef struct mark {
  const char *what, *file, *text;
  int engine;
  vm_time time;
  uint32_t line;
  const vm_finding *found; /* NULL: a fault */
} mark;

static void put_mark(isa_buf *b, const mark *m) {
  const vm_finding *f = m->found;
  isa_buf_printf(b, "[\"%s\",%d,%llu,", m->what, m->engine, ps(m->time));
  isa_buf_json(b, m->file ? m->file : "");
  isa_buf_printf(b, ",%u,", m->file ? m->line : 0);
  isa_buf_json(b, m->text);
  isa_buf_puts(b, ",[");
  if (f) isa_buf_printf(b, "[%u,%u,%llu]", f->engine, f->pc, ps(f->time));
  /* A race has two places, most findings one. */
  if (f && f->other_engine < VM_REC_UNITS)
    isa_buf_printf(b, ",[%u,%u,%llu]", f->other_engine, f->other_pc, ps(f->other_time));
  isa_buf_puts(b, "]]");
}

/* If checks have found something, the run's fault is the first finding, which is shown once. */
static void put_marks(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  const char *between = "";
  soma_fault fault;
  soma_finding f;
  if (!h->run) return;
  soma_run_fault(h->run, &fault);
  isa_buf_printf(b, ",\n\"findings\":%llu,\"marks\":[",
                 (unsigned long long)soma_run_findings(h->run));
  /* SOMA_CHECK: the findings follow, and the first of them is the fault. */
  if (fault.status != SOMA_OK && fault.status != SOMA_CHECK) {
    int engine = fault.engine < 0
                     ? -1
                     : (int)vm_rec_unit(soma_run_fault_core(h->run), (unsigned)fault.engine);
    put_mark(b, &(mark){"fault", fault.file, fault.text, engine, fault.time, fault.line, NULL});
    between = ",\n";
  }
  for (uint32_t i = 0; soma_run_finding(h->run, i, &f) == SOMA_OK; i++, between = ",\n") {
    isa_buf_puts(b, between);
    int engine = (int)vm_rec_unit(soma_run_finding_core(h->run, i), f.engine);
    const char *text = soma_found_text(h->run, i);
    put_mark(b, &(mark){soma_check_name(f.check), f.file, text, engine, f.time, f.line,
                        vm_check_finding(h->run->run.cores[0], i)});
  }
  isa_buf_puts(b, "]");
}

/* Engines that issued an instruction, numbered over both cores. */
static void put_ran(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  const char *between = "";
  isa_buf_puts(b, ",\n\"ran\":[");
  for (unsigned c = 0; c < h->t.p->ncores; c++) {
    soma_stats s = h->t.r->stats;
    if (h->run) soma_core_stats(h->run, c, &s, sizeof s);
    /* Without the run only the sum over cores is known, which tells nothing of each. */
    else if (h->t.p->ncores > 1 || !h->t.r->has_stats)
      continue;
    for (unsigned e = 0; e < ISA_NENGINES; e++) {
      if (!s.engine[e].instructions) continue;
      isa_buf_printf(b, "%s%u", between, vm_rec_unit(c, e));
      between = ",";
    }
  }
  isa_buf_puts(b, "]");
}

bool vm_rec_html_why(vm_rec_html *h) {
  put_figures(h);
  put_path(h);
  put_marks(h);
  put_ran(h);
  return put_gaps(h);
}
