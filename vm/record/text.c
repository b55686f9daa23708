/* The timeline as text: a column is a slice of time, and its character shows how much of it was
 * busy. */
#include "record.h"

enum { LABEL = 10, SHARE = 9, NARROW = 40, WIDE = 1000 };
/* Rows of a core: its engines, then its queues. */
enum { OF_CORE = ISA_NSEQS + ISA_MAX_QUEUES, ROWS = ISA_MAX_CORES * OF_CORE };

typedef struct timeline {
  vm_rec_view t;
  vm_rec_sink out;
  vm_time from, span;
  uint32_t columns;
  vm_time *busy, *waits; /* [row][column]: time in it; for a queue summed over its rings */
  vm_time total[ROWS];   /* union of an engine's, sum of a queue's */
  vm_time until[ROWS];   /* of the union */
  uint32_t seen[ROWS];   /* instructions, shares or waits */
  uint16_t rings[ROWS];  /* mask of the rings that moved anything */
} timeline;

static vm_time column_start(const timeline *l, uint32_t c) {
  /* In two parts, so that no product leaves 64 bits. */
  uint64_t whole = l->span / l->columns, rest = l->span % l->columns;
  return l->from + whole * c + rest * c / l->columns;
}

/* Adds [start, end) to a row, column by column. */
static void add_span(const timeline *l, vm_time *row, vm_time start, vm_time end) {
  uint32_t lo = 0, hi = l->columns; /* the last column that starts at or before start */
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (column_start(l, mid) <= start)
      lo = mid;
    else
      hi = mid;
  }
  for (uint32_t c = lo; c < l->columns && start < end; c++) {
    vm_time stop = column_start(l, c + 1);
    stop = stop < end ? stop : end;
    row[c] += stop > start ? stop - start : 0;
    start = stop > start ? stop : start;
  }
}

static bool is_queue(uint32_t row) { return row % OF_CORE >= ISA_NSEQS; }

static void add_event(timeline *l, const vm_rec_event *v) {
  uint32_t first = v->by_core * OF_CORE, own = first + v->engine; /* own: of an engine's event */
  if (v->kind == VM_EV_DMA && v->id < ISA_MAX_QUEUES) {
    uint32_t row = first + ISA_NSEQS + v->id;
    l->seen[row]++;
    l->total[row] += v->end - v->start;
    l->rings[row] |= (uint16_t)(1u << v->engine % ISA_NDMA);
    add_span(l, l->busy + (size_t)row * l->columns, v->start, v->end);
  } else if (vm_rec_is_wait(v) && v->engine < ISA_NSEQS) {
    l->seen[own]++;
    add_span(l, l->waits + (size_t)own * l->columns, v->start, v->end);
  } else if (vm_rec_is_work(v) && v->engine < ISA_NSEQS) {
    /* Instructions overlap: their union counts. */
    vm_time *until = &l->until[own], start = v->start > *until ? v->start : *until;
    l->seen[own]++;
    if (v->end <= start) return;
    *until = v->end;
    l->total[own] += v->end - start;
    add_span(l, l->busy + (size_t)own * l->columns, start, v->end);
  }
}

/* Engines: share of the column. Queues: mean number of rings at work, 1 to 9, then a to g. */
static char mark_of(const timeline *l, uint32_t row, uint32_t c) {
  size_t at = (size_t)row * l->columns + c;
  vm_time width = column_start(l, c + 1) - column_start(l, c), busy = l->busy[at];
  if (is_queue(row)) {
    uint64_t rings = width ? (busy + width / 2) / width : 0;
    return !busy ? ' ' : rings == 0 ? '.' : "0123456789abcdefg"[rings < 16 ? rings : 16];
  }
  /* Seven eighths of a column count as all of it. */
  if (width && busy >= width - width / 8) return '#';
  if (busy >= width / 2 && busy) return '+';
  if (busy) return '-';
  return l->waits[at] ? '.' : ' ';
}

static void put_ruler(timeline *l) {
  isa_buf *b = &l->out.b, tick;
  isa_buf_init(&tick, &l->t.al);
  isa_buf_printf(b, "%*s", LABEL + 1, "");
  uint32_t step = l->columns >= 100 ? 20 : l->columns >= 60 ? 16 : 14, used = 0;
  for (uint32_t c = 0; c + step / 2 < l->columns; c += step) {
    tick.len = 0;
    isa_buf_puts(&tick, "|");
    vm_rec_put_span(&tick, column_start(l, c));
    isa_buf_printf(b, "%*s%s", (int)(c - used), "", isa_buf_str(&tick));
    used = c + (uint32_t)tick.len;
  }
  isa_buf_puts(b, "\n");
  vm_rec_sink_part(&l->out, &tick);
}

static void put_row(timeline *l, uint32_t row) {
  isa_buf *b = &l->out.b, name;
  isa_buf_init(&name, &l->t.al);
  if (!is_queue(row))
    isa_buf_puts(&name, isa_engines[row % OF_CORE].name);
  else
    vm_rec_put_queue(&l->t, row / OF_CORE, row % OF_CORE - ISA_NSEQS, &name);
  isa_buf_printf(b, "%-*.*s|", LABEL, LABEL, isa_buf_str(&name));
  vm_rec_sink_part(&l->out, &name);
  for (uint32_t c = 0; c < l->columns; c++) {
    char mark = mark_of(l, row, c);
    isa_buf_add(b, &mark, 1);
  }
  vm_time whole = l->span;
  /* A queue's share is that of the rings that moved something. */
  for (uint32_t d = 1, n = 0; is_queue(row) && d <= 0x8000; d <<= 1)
    if (l->rings[row] & d && n++) whole += l->span;
  isa_buf_printf(b, "| %5.1f %%\n", whole ? 100.0 * (double)l->total[row] / (double)whole : 0.0);
}

static void put_timeline(timeline *l) {
  isa_buf *b = &l->out.b;
  put_ruler(l);
  bool queues = false;
  for (uint32_t row = 0; row < ROWS && vm_rec_sink_row(&l->out); row++) {
    if (l->t.p->ncores > 1 && row % OF_CORE == 0)
      isa_buf_printf(b, "core %u\n", row / (uint32_t)OF_CORE);
    if (!l->seen[row]) continue;
    put_row(l, row);
    queues = queues || is_queue(row);
  }
  isa_buf_printf(b, "%*sengines: # busy, + at least half of the column, - less, . waiting\n",
                 LABEL + 1, "");
  if (queues)
    isa_buf_printf(b,
                   "%*squeues: rings at work, 1-9 a-g (16), . less than one; %% of these rings\n",
                   LABEL + 1, "");
  isa_buf_printf(b, "%*s", LABEL + 1, "");
  vm_rec_put_span(b, l->t.total);
  isa_buf_puts(b, " in all, a column is ");
  vm_rec_put_span(b, l->span / l->columns);
  if (l->t.p->target->hypothetical) isa_buf_printf(b, ", on %s", l->t.p->target->name);
  isa_buf_puts(b, "\n");
  if (l->t.r->dropped)
    isa_buf_printf(b, "%*s%llu events were not kept\n", LABEL + 1, "",
                   (unsigned long long)l->t.r->dropped);
}

soma_status soma_write_timeline(const soma_recorder *r, const soma_program *p, unsigned width,
                                soma_write_fn write, void *ud) {
  if (!r || !p || !write) return SOMA_ARG;
  timeline l = {0};
  width = width == 0 ? 80 : width < NARROW ? NARROW : width > WIDE ? WIDE : width;
  l.columns = width - LABEL - SHARE - 2;
  if (!vm_rec_open(&l.t, r, p)) return SOMA_NOMEM;
  l.from = r->dropped || r->o.from ? l.t.begin : 0;
  l.span = l.t.total > l.from ? l.t.total - l.from : 1;
  size_t size = (size_t)ROWS * l.columns * sizeof *l.busy;
  uint32_t *order = vm_rec_by_start(&l.t);
  l.busy = isa_zalloc(&l.t.al, size);
  l.waits = isa_zalloc(&l.t.al, size);
  vm_rec_sink_open(&l.out, &l.t.al, write, ud);
  if (order && l.busy && l.waits) {
    for (uint32_t k = 0; k < l.t.n; k++) add_event(&l, vm_rec_at(r, order[k]));
    put_timeline(&l);
  } else {
    l.out.b.failed = true;
  }
  vm_rec_free_array(&l.t, order, sizeof *order);
  isa_free(&l.t.al, l.busy, size);
  isa_free(&l.t.al, l.waits, size);
  soma_status s = vm_rec_sink_close(&l.out, &l.t);
  vm_rec_close(&l.t);
  return s;
}
