/* The viewer's page with a trace in it. The page, its style and its script are in viewer/ and
 * are turned into bytes when the library is built; the page has marks where the others and the
 * data go. */
#include "record.h"

#include <string.h>

static const unsigned char page[] = {
#include "viewer.html.inc"
};
static const unsigned char style[] = {
#include "viewer.css.inc"
};
static const unsigned char script[] = {
#include "script.js.inc"
};

/* The page counts in picoseconds: whole numbers below 2^53, which JavaScript keeps
 * exactly, for runs of up to two and a half hours. */
static unsigned long long ps(vm_time t) { return (unsigned long long)(t / 1000); }

/* [number, name, kind, rings] of each queue, [number, name] of each semaphore.
 * Numbers are those over both cores, as in the events. */
static void put_names_of_core(vm_rec_html *h, unsigned c, isa_buf *queues, isa_buf *sems) {
  const isa_core *core = &h->t.p->cores[c];
  isa_buf name;
  isa_buf_init(&name, &h->t.al);
  for (uint32_t q = 0; q < core->nqueues; q++) {
    name.len = 0;
    vm_rec_put_queue(&h->t, c, q, &name);
    isa_buf_printf(queues, "%s[%u,", queues->len ? "," : "", vm_rec_queue(c, q));
    isa_buf_json(queues, isa_buf_str(&name));
    isa_buf_printf(queues, ",\"%s\",%u]", isa_set_item(ISA_SET_DGE, core->queues[q].dge),
                   core->queues[q].rings);
  }
  for (uint32_t s = 0; s < ISA_NSEMS; s++) {
    if (!core->sem_names[s]) continue;
    isa_buf_printf(sems, "%s[%u,", sems->len ? "," : "", vm_rec_sem(c, s));
    isa_buf_json(sems, core->sem_names[s]);
    isa_buf_puts(sems, "]");
  }
  vm_rec_sink_part(&h->out, &name);
}

/* The text of each file, null if it is not known or is not text.
 * The caller reads files, as the library opens none. */
static void put_sources(vm_rec_html *h) {
  isa_buf *b = &h->out.b, text;
  isa_buf_puts(b, ",\n\"sources\":[");
  for (uint32_t f = 1; f <= h->t.p->nfiles && vm_rec_sink_row(&h->out); f++) {
    size_t n = 0;
    const char *s = h->source ? h->source(h->source_ud, vm_rec_file(&h->t, f), &n) : NULL;
    isa_buf_puts(b, f > 1 ? ",\n" : "");
    isa_buf_init(&text, &h->t.al);
    /* A zero byte: this is no text. */
    if (s && n && !memchr(s, 0, n)) {
      isa_buf_add(&text, s, n);
      isa_buf_json(b, isa_buf_str(&text));
    } else {
      isa_buf_puts(b, "null");
    }
    vm_rec_sink_part(&h->out, &text);
  }
  isa_buf_puts(b, "]");
}

/* What the page knows by number: engines, queues, semaphores, files. */
static void put_names(vm_rec_html *h) {
  isa_buf *b = &h->out.b, queues, sems;
  isa_buf_init(&queues, &h->t.al);
  isa_buf_init(&sems, &h->t.al);
  isa_buf_printf(b, ",\n\"cores\":%u,\"engines\":[", h->t.p->ncores);
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    isa_buf_printf(b, "%s\"%s\"", e ? "," : "", isa_engines[e].name);
  isa_buf_printf(b, "],\"firstCc\":%d,\"ccs\":[", VM_REC_ENGINES);
  for (unsigned e = ISA_NENGINES; e < ISA_NSEQS; e++)
    isa_buf_printf(b, "%s\"%s\"", e > ISA_NENGINES ? "," : "", isa_engines[e].name);
  for (unsigned c = 0; c < h->t.p->ncores; c++) put_names_of_core(h, c, &queues, &sems);
  isa_buf_printf(b, "],\n\"queuesOfCore\":%d,\"queues\":[%s],\n\"semsOfCore\":%d,\"sems\":[%s]",
                 ISA_MAX_QUEUES, isa_buf_str(&queues), ISA_NSEMS, isa_buf_str(&sems));
  isa_buf_puts(b, ",\n\"files\":[");
  for (uint32_t f = 1; f <= h->t.p->nfiles; f++) {
    isa_buf_puts(b, f > 1 ? "," : "");
    isa_buf_json(b, vm_rec_file(&h->t, f));
  }
  isa_buf_puts(b, "]");
  vm_rec_sink_part(&h->out, &queues);
  vm_rec_sink_part(&h->out, &sems);
}

static const char *space_name(unsigned space) { return space ? isa_space_name(space) : ""; }

/* -1: the program has no instruction there. */
long vm_rec_html_code_of(const vm_rec_html *h, const vm_rec_event *v) {
  uint32_t number;
  return vm_rec_insn(&h->t, v, &number) ? (long)h->code[number] - 1 : -1;
}

/* Each instruction once, however often it ran: events then name it by its place in the
 * list. */
void vm_rec_html_code(vm_rec_html *h, const vm_rec_event *v) {
  isa_buf *b = &h->out.b;
  uint32_t number;
  const isa_insn *in = vm_rec_insn(&h->t, v, &number);
  if (!in || h->code[number]) return;
  vm_rec_ends ends = vm_rec_ends_of(&h->t, v);
  isa_line at = vm_rec_line(&h->t, v);
  isa_buf_printf(b, "%s\n[%u,%u,\"%s\",", h->ncode ? "," : "",
                 vm_rec_unit(v->by_core, vm_rec_engine(v)), v->pc, isa_ops[in->op].name);
  /* 0 is not yet written, so numbers are kept plus 1. */
  isa_buf_json(b, vm_rec_operands(&h->t, v));
  isa_buf_printf(b, ",%u,%u,", at.file, at.line);
  isa_buf_json(b, ends.tensor);
  isa_buf_printf(b, ",\"%s\",\"%s\"]", space_name(ends.src), space_name(ends.dst));
  h->code[number] = ++h->ncode;
}

/* Engines, queues and semaphores are numbered over both cores.
 * The instructions that events and the critical path are about:
 * [engine, pc, mnemonic, operands, file or 0, line, tensor of a DMA, its source, its destination]
 */
static void put_code(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  isa_buf_puts(b, ",\n\"code\":[");
  for (uint32_t i = 0; i < h->t.n && vm_rec_sink_row(&h->out); i++)
    vm_rec_html_code(h, vm_rec_at(h->t.r, i));
  vm_rec_html_path_code(h);
  isa_buf_puts(b, "]");
}

typedef struct numbers { /* of an event: engine (for a share: its DMA engine), id, value */
  unsigned engine, id, value;
} numbers;
static numbers numbers_of(const vm_rec_event *v) {
  numbers n = {v->engine, v->id, v->value};
  /* DMA engines have numbers of their own. */
  if (v->kind != VM_EV_DMA && v->engine < ISA_NSEQS) n.engine = vm_rec_unit(v->by_core, n.engine);
  if (v->kind == VM_EV_DMA) {
    n.id = vm_rec_queue(v->core, v->id);
    n.value = vm_rec_unit(v->by_core, v->value);
  } else if (v->kind == VM_EV_SEM || v->kind == VM_EV_WAIT) {
    n.id = vm_rec_sem(v->core, v->id);
  } else if (v->kind == VM_EV_TRIGGER) {
    n.id = vm_rec_queue(v->core, v->id);
    if (vm_rec_trigger_signals(v))
      n.value = vm_rec_sem(vm_rec_signal_core(v), v->value % ISA_NSEMS);
  }
  return n;
}

/* Its instruction; -1: none; of an update by another rank -2 minus that. */
static long code_of(const vm_rec_html *h, const vm_rec_event *v) {
  if (v->kind == VM_EV_SEM && v->engine == VM_BY_PEER) return -2 - (long)v->pc;
  return vm_rec_html_code_of(h, v);
}

/* Nine numbers for each event: kind, engine, instruction (as code_of), id, value, end minus the end
 * of the event before and length in ps, bytes (for a semaphore: part, as in soma_event), and how
 * many events ago the one was that it follows from (0: none). The value of a trigger is the
 * semaphore of its transfer. */
static void put_events(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  unsigned long long last = 0;
  isa_buf_puts(b, ",\n\"events\":[");
  for (uint32_t i = 0; i < h->t.n && vm_rec_sink_row(&h->out); i++) {
    const vm_rec_event *v = vm_rec_at(h->t.r, i);
    long code = code_of(h, v);
    /* Backwards, so that the numbers stay small. */
    long long ago = h->from[i] ? (long long)i + 1 - h->from[i] : 0;
    numbers n = numbers_of(v);
    isa_buf_printf(b, "%s%u,%u,%ld,%u,%u,%lld,%llu,%llu,%lld", i ? ",\n" : "\n", v->kind, n.engine,
                   code, n.id, n.value, (long long)(ps(v->end) - last), ps(v->end) - ps(v->start),
                   /* A semaphore's event has no bytes: its slot carries the part. */
                   (unsigned long long)(v->kind == VM_EV_SEM ? v->part : v->bytes), ago);
    last = ps(v->end);
  }
  isa_buf_puts(b, "]");
}

/* Memory in use on a core: time since the point before in ps, bytes of SBUF, of PSUM.
 * Differences instead of times: shorter text, and the page adds them up. */
static bool put_use_of(vm_rec_html *h, unsigned core, uint64_t peak[2]) {
  isa_buf *b = &h->out.b;
  vm_rec_usage use;
  vm_time last = 0;
  if (!vm_rec_usage_of(&h->t, h->order, core, &use)) return false;
  isa_buf_puts(b, core ? ",[" : "[");
  for (uint32_t i = 0; i < use.n && vm_rec_sink_row(&h->out); i++) {
    isa_buf_printf(b, "%s%llu,%llu,%llu", i ? ",\n" : "\n", ps(use.v[i].t) - ps(last),
                   (unsigned long long)use.v[i].bytes[0], (unsigned long long)use.v[i].bytes[1]);
    last = use.v[i].t;
  }
  isa_buf_puts(b, "]");
  for (unsigned m = 0; m < 2; m++) peak[m] = use.peak[m];
  vm_rec_usage_free(&h->t, &use);
  return true;
}

static bool put_use(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  uint64_t peak[ISA_MAX_CORES][2];
  isa_buf_puts(b, ",\n\"use\":[");
  for (unsigned core = 0; core < h->t.p->ncores; core++)
    if (!put_use_of(h, core, peak[core])) return false;
  isa_buf_printf(b, "],\n\"capacity\":[%llu,%llu],\"peak\":[",
                 (unsigned long long)h->t.p->target->sbuf_bytes * ISA_PMAX,
                 (unsigned long long)h->t.p->target->psum_bytes * ISA_PMAX);
  for (unsigned core = 0; core < h->t.p->ncores; core++)
    isa_buf_printf(b, "%s[%llu,%llu]", core ? "," : "", (unsigned long long)peak[core][0],
                   (unsigned long long)peak[core][1]);
  isa_buf_puts(b, "]");
  return true;
}

static bool put_summary(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  const soma_recorder *r = h->t.r;
  vm_rec_summary s;
  if (!vm_rec_summarise(&h->t, h->order, &s)) return false;
  isa_buf_printf(b, ",\n\"summary\":{\"active\":%llu,\"updates\":%llu,", ps(s.active),
                 (unsigned long long)s.updates);
  if (r->has_stats) /* Instructions and flops are known from the run's figures alone. */
    isa_buf_printf(b, "\"instructions\":%llu,\"flops\":%llu,",
                   (unsigned long long)r->stats.instructions, (unsigned long long)r->stats.flops);
  isa_buf_puts(b, "\"engines\":[");
  for (unsigned e = 0; e < h->t.p->ncores * ISA_NENGINES; e++)
    isa_buf_printf(b, "%s[%llu,%llu,%llu]", e ? "," : "", (unsigned long long)s.engine[e].count,
                   ps(s.engine[e].active), ps(s.engine[e].waiting));
  isa_buf_puts(b, "],\"ccs\":[");
  for (unsigned e = VM_REC_ENGINES; e < VM_REC_UNITS; e++)
    isa_buf_printf(b, "%s[%llu,%llu,%llu]", e > VM_REC_ENGINES ? "," : "",
                   (unsigned long long)s.engine[e].count, ps(s.engine[e].active),
                   ps(s.engine[e].waiting));
  isa_buf_printf(b,
                 "],\"dma\":{\"transfers\":%llu,\"shares\":%llu,\"bytes\":%llu,\"active\":%llu,"
                 "\"read\":%llu,\"written\":%llu}}",
                 (unsigned long long)s.dma_transfers, (unsigned long long)s.dma_shares,
                 (unsigned long long)s.dma_bytes, ps(s.dma_active), (unsigned long long)s.hbm_read,
                 (unsigned long long)s.hbm_written);
  return true;
}

static void put_data(vm_rec_html *h) {
  isa_buf *b = &h->out.b;
  isa_buf_printf(b, "{\"soma\":\"%s\",\"target\":\"%s\",\"title\":", SOMA_VERSION,
                 h->t.p->target->name);
  isa_buf_json(b, h->title);
  /* A trace that lacks its beginning begins later. */
  isa_buf_printf(b, ",\"begin\":%llu,\"total\":%llu,\"dropped\":%llu",
                 ps(h->t.r->dropped || h->t.r->o.from ? h->t.begin : 0), ps(h->t.total),
                 (unsigned long long)h->t.r->dropped);
  put_names(h);
  put_sources(h);
  put_code(h);
  put_events(h);
  if (!put_use(h) || !put_summary(h) || !vm_rec_html_why(h)) b->failed = true;
  isa_buf_puts(b, "}\n");
}

/* Writes the page from *at on up to a mark, and leaves *at after the mark.
 * "@style", "@data" and "@script" stand in viewer.html. */
static void put_page_to(vm_rec_html *h, size_t *at, const char *mark) {
  size_t n = strlen(mark), i = *at;
  while (i + n <= sizeof page && memcmp(page + i, mark, n) != 0) i++;
  /* The rest of the page, if the mark is missing. */
  i = i + n <= sizeof page ? i : sizeof page;
  isa_buf_add(&h->out.b, page + *at, i - *at);
  *at = i < sizeof page ? i + n : i;
}

/* What the page shows: a run, or of a world the runs of all ranks. */
typedef struct shown {
  const soma_world *world; /* NULL: one run */
  const soma_recorder *const *r;
  const soma_program *const *p;
  const soma_run *const *run;
  uint32_t n;
} shown;

/* Everything that belongs to one run is set again: h is used for all ranks. */
static void put_run(vm_rec_html *h, const shown *x, uint32_t i) {
  h->program = x->p[i];
  h->run = x->run[i];
  h->ncode = h->npath = h->room = 0;
  h->path = NULL;
  if (!vm_rec_open(&h->t, x->r[i], x->p[i])) {
    h->out.b.failed = true;
    return;
  }
  /* A number for each instruction of the program. */
  size_t codes = ((size_t)h->t.base[VM_REC_UNITS] + 1) * sizeof *h->code;
  h->order = vm_rec_by_start(&h->t);
  h->from = vm_rec_links(&h->t);
  h->code = isa_zalloc(&h->t.al, codes);
  if (h->order && h->from && h->code && vm_rec_html_open_path(h))
    put_data(h);
  else
    h->out.b.failed = true;
  vm_rec_html_drop_path(h);
  vm_rec_free_array(&h->t, h->order, sizeof *h->order);
  vm_rec_free_array(&h->t, h->from, sizeof *h->from);
  isa_free(&h->t.al, h->code, codes);
  if (h->t.failed) h->out.b.failed = true;
  vm_rec_close(&h->t);
}

/* Style, data, then the scripts in the order in which they use one another. */
static void put_all(vm_rec_html *h, const shown *x) {
  size_t at = 0;
  put_page_to(h, &at, "@style");
  isa_buf_add(&h->out.b, style, sizeof style);
  put_page_to(h, &at, "@data");
  if (x->world) vm_rec_html_world(&h->out, x->world, x->r[0], x->run);
  for (uint32_t i = 0; i < x->n && vm_rec_sink_row(&h->out); i++) {
    isa_buf_puts(&h->out.b, i ? ",\n" : "");
    put_run(h, x, i);
  }
  if (x->world) isa_buf_puts(&h->out.b, "]}\n");
  put_page_to(h, &at, "@script");
  isa_buf_add(&h->out.b, script, sizeof script);
  isa_buf_add(&h->out.b, page + at, sizeof page - at);
}

static soma_status write_shown(const shown *x, const soma_page_options *options,
                               soma_write_fn write, void *ud) {
  soma_page_options o = SOMA_PAGE_OPTIONS_INIT;
  /* An older caller has a shorter struct.
   * size itself must be there, and no more than this version knows. */
  if (options && (options->size < sizeof(size_t) || options->size > sizeof o)) return SOMA_ARG;
  if (options) memcpy(&o, options, options->size);
  vm_rec_html h = {.title = o.title ? o.title : "", .source = o.source, .source_ud = o.source_ud};
  vm_rec_sink_open(&h.out, &x->r[0]->al, write, ud);
  put_all(&h, x);
  return vm_rec_sink_close(&h.out, NULL);
}

soma_status soma_write_page(const soma_recorder *r, const soma_program *p, const soma_run *run,
                            const soma_page_options *options, soma_write_fn write, void *ud) {
  if (!r || !p || !write) return SOMA_ARG;
  return write_shown(&(shown){NULL, &r, &p, &run, 1}, options, write, ud);
}

soma_status soma_write_world_page(const struct soma_world *w, const soma_recorder *const *r,
                                  const soma_program *const *p, const soma_run *const *run,
                                  const soma_page_options *options, soma_write_fn write, void *ud) {
  if (!w || !r || !p || !run || !write) return SOMA_ARG;
  uint32_t n = soma_world_ranks(w);
  for (uint32_t i = 0; i < n; i++)
    if (!r[i] || !p[i] || !run[i]) return SOMA_ARG;
  return write_shown(&(shown){w, r, p, run, n}, options, write, ud);
}

soma_status soma_write_html(const soma_recorder *r, const soma_program *p, const soma_run *run,
                            const char *title, soma_write_fn write, void *ud) {
  soma_page_options o = SOMA_PAGE_OPTIONS_INIT;
  o.title = title;
  return soma_write_page(r, p, run, &o, write, ud);
}
