/* What the page of a world says of all ranks: links, messages on them, collectives, and the
 * critical path over ranks. Numbers are whole, so that no locale changes them; times are ps. */
#include "record.h"

static unsigned long long ps(vm_time t) { return (unsigned long long)(t / 1000); }
/* A rate as MB/s, from GB/s. */
static unsigned long long milli(double v) {
  return v > 0 ? (unsigned long long)(v * 1000 + 0.5) : 0;
}

/* [from, to, MB/s that it can carry, bytes, messages, most bytes waiting, busy, waited] of each
 * link: its ends are devices, or SOMA_SWITCH or SOMA_EFA. Then seven numbers for each message on
 * one: link, ranks from and to, bytes, when it came, from when to when its bytes went. */
static void put_links(vm_rec_sink *o, const soma_recorder *r) {
  isa_buf *b = &o->b;
  isa_buf_puts(b, ",\n\"links\":[");
  for (uint32_t i = 0; i < r->nlinks && vm_rec_sink_row(o); i++) {
    const soma_link_row *l = &r->links[i];
    isa_buf_printf(b, "%s[%d,%d,%llu,%llu,%llu,%llu,%llu,%llu]", i ? ",\n" : "\n", l->from, l->to,
                   milli(l->rate), (unsigned long long)l->bytes, (unsigned long long)l->messages,
                   (unsigned long long)l->waiting, ps(l->busy), ps(l->waited));
  }
  isa_buf_puts(b, "],\n\"passes\":[");
  for (uint32_t i = 0; i < r->npasses && vm_rec_sink_row(o); i++) {
    const soma_link_pass *x = &r->passes[i];
    isa_buf_printf(b, "%s%u,%u,%u,%llu,%llu,%llu,%llu", i ? ",\n" : "\n", x->link, x->from, x->to,
                   (unsigned long long)x->bytes, ps(x->came), ps(x->start), ps(x->end));
  }
  isa_buf_puts(b, "]");
}

/* [rank, core, op, algorithm, ranks, bytes, issued, end, algbw and busbw in MB/s, file, line]. */
static void put_collectives(vm_rec_sink *o, const soma_world *w) {
  isa_buf *b = &o->b;
  soma_collective c;
  const char *between = "\n";
  isa_buf_puts(b, ",\n\"collectives\":[");
  for (uint32_t r = 0; r < soma_world_ranks(w); r++)
    for (uint32_t i = 0; soma_world_collective(w, r, i, &c) == SOMA_OK && vm_rec_sink_row(o); i++) {
      isa_buf_printf(b, "%s[%u,%u,\"%s\",\"%s\",%u,%llu,%llu,%llu,%llu,%llu,", between, r, c.core,
                     c.op, c.algorithm, c.ranks, (unsigned long long)c.bytes, ps(c.issued),
                     ps(c.end), milli(c.algbw), milli(c.busbw));
      isa_buf_json(b, c.file ? c.file : "");
      isa_buf_printf(b, ",%u]", c.file ? c.line : 0);
      between = ",\n";
    }
  isa_buf_puts(b, "]");
}

/* ---- The critical path over ranks --------------------------------------------------------- */

/* The rank that ends last: its path is the world's. */
static uint32_t last_of(const soma_run *const *runs, uint32_t n) {
  uint32_t last = 0;
  for (uint32_t r = 1; r < n; r++)
    if (vm_run_now(&runs[r]->run) > vm_run_now(&runs[last]->run)) last = r;
  return last;
}

/* Seven numbers for each segment: rank, kind, engine (over both cores), queue (-1: none), pc,
 * number of its cause, and its end minus that of the one before; then mnemonics by segment as
 * numbers. */
static void put_segments(vm_rec_sink *o, const soma_path_segment *s, uint32_t n, uint32_t rank) {
  enum { CAUSES_MOST = 32 };
  const char *causes[CAUSES_MOST];
  unsigned ncauses = 0;
  unsigned long long last = 0;
  isa_buf *b = &o->b;
  isa_buf_printf(b, ",\n\"path\":{\"rank\":%u,\"steps\":[", rank);
  for (uint32_t i = 0; i < n && vm_rec_sink_row(o); i++) {
    unsigned cause = 0;
    while (cause < ncauses && causes[cause] != s[i].cause) cause++;
    if (cause == ncauses && ncauses < CAUSES_MOST) causes[ncauses++] = s[i].cause;
    isa_buf_printf(b, "%s%u,%d,%u,%d,%u,%u,%llu", i ? ",\n" : "\n",
                   s[i].rank < 0 ? rank : (unsigned)s[i].rank, (int)s[i].kind,
                   vm_rec_unit(s[i].core, (unsigned)s[i].engine), s[i].queue, s[i].pc, cause,
                   ps(s[i].end) - last);
    last = ps(s[i].end);
  }
  isa_buf_puts(b, "],\"causes\":[");
  for (unsigned i = 0; i < ncauses; i++) {
    isa_buf_puts(b, i ? "," : "");
    isa_buf_json(b, causes[i]);
  }
  isa_buf_puts(b, "]}");
}

/* Nothing where the world was started without causes. */
static void put_path(vm_rec_sink *o, const soma_run *const *runs, uint32_t ranks,
                     const isa_alloc *al) {
  uint32_t last = last_of(runs, ranks), n = 0;
  if (soma_critical_path(runs[last], NULL, 0, &n) != SOMA_OK) return;
  size_t size = (size_t)n * sizeof(soma_path_segment) + 1;
  soma_path_segment *s = isa_zalloc(al, size);
  if (!s) {
    o->b.failed = true;
    return;
  }
  soma_critical_path(runs[last], s, n, &n);
  put_segments(o, s, n, last);
  isa_free(al, s, size);
}

void vm_rec_html_world(vm_rec_sink *o, const soma_world *w, const soma_recorder *first,
                       const soma_run *const *runs) {
  isa_buf *b = &o->b;
  const vm_run *run = &runs[0]->run;
  isa_buf_puts(b, "{\"world\":{\"instance\":");
  isa_buf_json(b, soma_world_instance(w));
  isa_buf_puts(b, ",\"trust\":");
  isa_buf_json(b, soma_world_trust(w));
  isa_buf_printf(b, ",\"total\":%llu,\"latency\":%llu", ps(soma_world_time(w)),
                 (unsigned long long)run->cost_values[VM_LINK_LAT] * 1000);
  put_links(o, first);
  put_collectives(o, w);
  put_path(o, runs, soma_world_ranks(w), &first->al);
  isa_buf_puts(b, "},\n\"ranks\":[\n");
}
