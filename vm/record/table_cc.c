/* The tables of collectives: CcOp, CcInstruction, CcStream. */
#include "table.h"

#include "../../isa/operand.h"

#include <ctype.h>
#include <stdlib.h>

/* NULL for a pc that the program does not have: recorders can be shown with another
 * program. */
static const isa_insn *insn_at(const vm_rec_table *w, unsigned core, unsigned engine, uint32_t pc) {
  const isa_code *code = &w->t.p->cores[core].code[engine];
  return pc < code->n ? &code->insns[pc] : NULL;
}

/* ---- CcOp --------------------------------------------------------------------------------- */

/* "AllReduce" of all_reduce.
 * The profiler's spelling of our mnemonic. */
static const char *camel(vm_rec_table *w, const char *name) {
  bool begins = true;
  w->text.len = 0;
  for (; *name; name++) {
    bool joint = *name == '_' || *name == '-';
    if (!joint) isa_buf_printf(&w->text, "%c", begins ? toupper((unsigned char)*name) : *name);
    begins = joint;
  }
  return isa_buf_str(&w->text);
}

/* Elements of all patterns of a list, and their type.
 * As many on each rank, whatever shape the patterns have. */
static uint64_t elements(const vm_rec_table *w, unsigned core, isa_ref list, unsigned *dtype) {
  const uint32_t *of = isa_program_list(w->t.p, list, ISA_K_APS);
  uint64_t n = 0;
  for (uint32_t i = 0; i < list.count; i++) {
    const isa_ap *ap = &w->t.p->cores[core].aps[of[i] - 1];
    n += isa_ap_elems(ap) * (ap->space == ISA_HBM ? 1 : ap->nparts);
    *dtype = ap->dtype;
  }
  return n;
}

/* "[[0, 1], [2, 3]]" of a group. */
static const char *lists_text(vm_rec_table *w, const isa_group *g) {
  const uint32_t *rank = g->ranks;
  w->text.len = 0;
  for (uint32_t i = 0; i < g->nlists; i++) {
    isa_buf_puts(&w->text, i ? "], [" : "[[");
    for (uint32_t k = 0; k < g->sizes[i]; k++) isa_buf_printf(&w->text, k ? ", %u" : "%u", *rank++);
  }
  isa_buf_puts(&w->text, "]]");
  return isa_buf_str(&w->text);
}

/* c: NULL, only names.
 * All that is not recorded is worked out from the program's instruction. */
static void op_row(vm_rec_table *w, const soma_collective *c, uint32_t id) {
  const soma_collective none = {.op = "", .algorithm = ""};
  const isa_insn *in = c ? insn_at(w, c->core, c->engine, c->pc) : NULL;
  isa_collective u = in ? isa_collective_of(in) : (isa_collective){.group = -1};
  /* 1: some type, so that the header has names. */
  unsigned dtype = 1;
  if (!c) c = &none;
  uint64_t src = elements(w, c->core, u.srcs, &dtype), dst = elements(w, c->core, u.dsts, &dtype);
  const uint64_t size = isa_dtype_bytes(dtype);
  vm_rec_cell_span(w, c->issued, c->end);
  vm_rec_cell_str(w, "operation", camel(w, c->op));
  vm_rec_cell_str(w, "algorithm", camel(w, c->algorithm));
  vm_rec_cell_u64(w, "num_elements", src > dst ? src : dst);
  vm_rec_cell_str(w, "dtype", isa_dtypes[dtype].name);
  vm_rec_cell_u64(w, "op_id", id);
  /* The same stream of two cores is two streams. */
  vm_rec_cell_u64(w, "stream_id", c->core * 256u + u.stream);
  vm_rec_cell_u64(w, "stream_index", u.stream);
  vm_rec_cell_str(w, "trigger_engine", isa_engines[c->engine].name);
  vm_rec_cell_u64(w, "input_size", src * size);
  vm_rec_cell_u64(w, "output_size", dst * size);
  /* Without bytes there is no bandwidth; the header has all names. */
  if (c->bytes || c == &none) {
    vm_rec_cell_ratio(w, "algorithm_bandwidth", c->algbw * 1e9, 1);
    vm_rec_cell_ratio(w, "bus_bandwidth", c->busbw * 1e9, 1);
  } else {
    vm_rec_text_if(w, "algorithm_bandwidth", NULL);
    vm_rec_text_if(w, "bus_bandwidth", NULL);
  }
  vm_rec_cell_u64(w, "trigger_start_ts", c->issued / VM_NS);
  vm_rec_cell_if(w, "replica_group_id", u.group >= 0, (uint64_t)u.group);
  vm_rec_text_if(w, "replica_group", u.group >= 0 ? lists_text(w, &w->t.p->groups[u.group]) : NULL);
  vm_rec_cell_u64(w, "pcore_idx", c->core);
  vm_rec_event at = {
      .kind = VM_EV_INSN, .engine = c->engine & 255, .core = c->core & 1, .pc = c->pc};
  at.by_core = at.core;
  vm_rec_cell_str(w, "nki_source_location", vm_rec_place_text(w, &at));
  vm_rec_cell_exact(w, c->issued, c->end);
  vm_rec_end_row(w);
}

static void header(vm_rec_table *w, void (*row)(vm_rec_table *w)) {
  if (w->mode != VM_REC_HEADER) return;
  row(w);
  w->mode = VM_REC_CSV_ROW;
}

static void op_names(vm_rec_table *w) { op_row(w, NULL, 0); }

void vm_rec_cc_ops(vm_rec_table *w) {
  const soma_recorder *r = w->t.r;
  header(w, op_names);
  for (uint32_t i = 0; i < r->nccs && vm_rec_sink_row(&w->out); i++) op_row(w, &r->ccs[i], i);
}

/* ---- CcInstruction ------------------------------------------------------------------------ */
/* A row for each wait and trigger of a CC sequencer. */

/* What is looked for at each event of a CC sequencer. */
typedef struct places {
  isa_point *of[ISA_MAX_CORES][ISA_NCC]; /* by pc: the collective whose block it is in */
  const soma_collective **v;             /* by core, engine, pc and time of issue */
  uint32_t n;
} places;

static int compare_places(const soma_collective *a, const soma_collective *b) {
  if (a->core != b->core) return a->core < b->core ? -1 : 1;
  if (a->engine != b->engine) return a->engine < b->engine ? -1 : 1;
  return a->pc < b->pc ? -1 : a->pc > b->pc;
}

/* Sorted once, so that each event finds its collective by halving. */
static int by_place(const void *x, const void *y) {
  const soma_collective *a = *(const soma_collective *const *)x,
                        *b = *(const soma_collective *const *)y;
  int order = compare_places(a, b);
  return order ? order : a->issued < b->issued ? -1 : a->issued > b->issued;
}

static const isa_code *cc_code(const vm_rec_table *w, unsigned core, unsigned k) {
  return &w->t.p->cores[core].code[ISA_NENGINES + k];
}

static bool find_blocks(const vm_rec_table *w, unsigned core, unsigned k, places *x) {
  const isa_code *code = cc_code(w, core, k);
  isa_point at = {0};
  if (!(x->of[core][k] = isa_zalloc(&w->t.al, code->n * sizeof at))) return code->n == 0;
  for (uint32_t pc = 0; pc < code->n; pc++) {
    /* A block reaches to the next wait_start.
     * Up to its wait_start a sequencer belongs to the block before, or to none. */
    if (code->insns[pc].op == ISA_OP_wait_start) at = code->insns[pc].u.BLOCK.of;
    x->of[core][k][pc] = at;
  }
  return true;
}

static void close_places(const vm_rec_table *w, places *x) {
  for (unsigned core = 0; core < w->t.p->ncores; core++)
    for (unsigned k = 0; k < ISA_NCC; k++)
      isa_free(&w->t.al, x->of[core][k], cc_code(w, core, k)->n * sizeof **x->of[core]);
  isa_free(&w->t.al, x->v, w->t.r->nccs * sizeof *x->v);
}

static bool open_places(const vm_rec_table *w, places *x) {
  const soma_recorder *r = w->t.r;
  bool ok = true;
  *x = (places){.n = r->nccs};
  for (unsigned core = 0; core < w->t.p->ncores; core++)
    for (unsigned k = 0; k < ISA_NCC; k++) ok = ok && find_blocks(w, core, k, x);
  if (r->nccs) x->v = isa_zalloc(&w->t.al, r->nccs * sizeof *x->v);
  for (uint32_t i = 0; x->v && i < r->nccs; i++) x->v[i] = &r->ccs[i];
  if (x->v) qsort(x->v, x->n, sizeof *x->v, by_place);
  return ok && (x->v || !r->nccs);
}

/* The block in which the sequencer's instruction stands. */
static isa_point block_of(const vm_rec_table *w, const places *x, const vm_rec_event *v) {
  unsigned k = v->engine - (unsigned)ISA_NENGINES;
  return v->pc < cc_code(w, v->by_core, k)->n ? x->of[v->by_core][k][v->pc] : (isa_point){0};
}

/* The last collective of a place that was issued by then.
 * A place in a loop is issued many times: the latest before the event is the one
 * served. */
static const soma_collective *issued_by(const places *x, unsigned core, isa_point of, vm_time t) {
  const soma_collective at = {
      .core = core, .engine = (soma_engine)of.engine, .pc = of.pc, .issued = t};
  uint32_t lo = 0, hi = x->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    int order = compare_places(x->v[mid], &at);
    if (order < 0 || (order == 0 && x->v[mid]->issued <= t))
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo && compare_places(x->v[lo - 1], &at) == 0 ? x->v[lo - 1] : NULL;
}

/* v: NULL, only names. */
static void instruction_row(vm_rec_table *w, const places *x, const vm_rec_event *v) {
  const vm_rec_event none = {.engine = ISA_NENGINES};
  const isa_insn *in = v ? insn_at(w, v->by_core, v->engine, v->pc) : NULL;
  isa_point of = v ? block_of(w, x, v) : (isa_point){0};
  const soma_collective *c = v ? issued_by(x, v->by_core, of, v->start) : NULL;
  if (!v) v = &none;
  vm_rec_cell_span(w, v->start, v->end);
  vm_rec_cell_u64(w, "core_idx", v->engine - (unsigned)ISA_NENGINES);
  vm_rec_cell_str(w, "description", in ? isa_ops[in->op].name : "?");
  vm_rec_cell_str(w, "trigger_engine", isa_engines[of.engine].name);
  vm_rec_cell_if(w, "trigger_start_ts", c, c ? c->issued / VM_NS : 0);
  vm_rec_cell_str(w, "kind", v->kind == VM_EV_WAIT ? "wait" : "trigger");
  vm_rec_cell_str(w, "operands", in ? vm_rec_operands(&w->t, v) : "");
  vm_rec_cell_u64(w, "pc", v->pc);
  vm_rec_cell_u64(w, "pcore_idx", v->by_core);
  vm_rec_cell_exact(w, v->start, v->end);
  vm_rec_end_row(w);
}

static void instruction_names(vm_rec_table *w) { instruction_row(w, NULL, NULL); }

void vm_rec_cc_instructions(vm_rec_table *w) {
  /* The recorder may have no collectives: columns are then empty. */
  places x;
  header(w, instruction_names);
  if (!open_places(w, &x)) w->t.failed = true;
  for (uint32_t k = 0; k < w->t.n && !w->t.failed && vm_rec_sink_row(&w->out); k++) {
    const vm_rec_event *v = vm_rec_at(w->t.r, w->order[k]);
    bool of_cc = v->engine >= ISA_NENGINES && v->engine < ISA_NSEQS;
    if (of_cc && (v->kind == VM_EV_TRIGGER || v->kind == VM_EV_WAIT)) instruction_row(w, &x, v);
  }
  close_places(w, &x);
}

/* ---- CcStream ----------------------------------------------------------------------------- */

static void stream_row(vm_rec_table *w, unsigned core, unsigned stream, unsigned ccs) {
  w->text.len = 0;
  for (unsigned k = 0; k < ISA_NCC; k++)
    if (ccs >> k & 1) isa_buf_printf(&w->text, w->text.len ? ",%u" : "[%u", k);
  isa_buf_puts(&w->text, w->text.len ? "]" : "[]");
  vm_rec_cell_u64(w, "stream_id", core * 256u + stream);
  vm_rec_cell_u64(w, "stream_index", stream);
  vm_rec_cell_str(w, "cc_core_ids", isa_buf_str(&w->text));
  vm_rec_cell_u64(w, "pcore_idx", core);
  vm_rec_end_row(w);
}

static void stream_names(vm_rec_table *w) { stream_row(w, 0, 0, 0); }

/* Finds for each stream the CC sequencers with a block for one of its collectives; 0: none has.
 * Streams have a number of one byte. */
static void find_streams(const vm_rec_table *w, unsigned core, unsigned ccs[256]) {
  for (unsigned k = 0; k < ISA_NCC; k++) {
    const isa_code *code = &w->t.p->cores[core].code[ISA_NENGINES + k];
    for (uint32_t pc = 0; pc < code->n; pc++) {
      if (code->insns[pc].op != ISA_OP_wait_start) continue;
      isa_point of = code->insns[pc].u.BLOCK.of;
      const isa_insn *in = insn_at(w, core, of.engine, of.pc);
      if (in) ccs[isa_collective_of(in).stream] |= 1u << k;
    }
  }
}

void vm_rec_cc_streams(vm_rec_table *w) {
  header(w, stream_names);
  for (unsigned core = 0; core < w->t.p->ncores; core++) {
    unsigned ccs[256] = {0};
    find_streams(w, core, ccs);
    for (unsigned s = 0; s < 256; s++)
      if (ccs[s]) stream_row(w, core, s, ccs[s]);
  }
}
