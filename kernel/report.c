/* What was decided, as figures and as text. */
#include "called.h"

#include <inttypes.h>

bool as_kernel_get_life(const as_kernel *k, uint32_t buffer, as_kernel_life *out) {
  memset(out, 0, sizeof *out);
  if (buffer == 0 || buffer > k->nbuffers || as_k_buf(k, buffer)->space == ISA_HBM) return false;
  const as_k_buffer *b = as_k_buf(k, buffer);
  while (!b->used && b->next) b = as_k_buf(k, b->next); /* of a tile with versions the first */
  if (!b->used || !k->made) return true;
  *out = (as_kernel_life){b->name,
                          b->space,
                          b->part,
                          b->nparts,
                          b->offset,
                          b->bytes,
                          k->items[b->first].number,
                          k->items[b->last].number,
                          true};
  return true;
}

bool as_kernel_get_wait(const as_kernel *k, uint32_t i, as_kernel_wait *out) {
  if (i >= k->nwaited) return false;
  const as_k_waited *e = &k->waited[i];
  const as_k_step *s = &k->steps[e->step];
  as_k_wait w = as_k_wait_of(k, s, e->wait);
  /* Numbers of the caller's instructions, not of items. */
  *out = (as_kernel_wait){.engine = s->engine,
                          .pc = e->pc,
                          .later = k->items[s->item].number,
                          .earlier = k->items[k->steps[w.step].item].number,
                          .buffer = w.buffer,
                          .way = w.way,
                          .reuse = w.reuse};
  return true;
}

bool as_kernel_get_unwritten(const as_kernel *k, uint32_t i, as_kernel_unwritten *out) {
  if (i >= k->nunwritten) return false;
  *out = k->unwritten[i];
  return true;
}

static void print_item(const as_kernel *k, uint32_t item, isa_buf *out) {
  char where[160];
  const as_k_item *it = &k->items[item];
  isa_buf_printf(out, "%s %s", it->op < ISA_NOPS ? isa_ops[it->op].name : "loop",
                 as_k_where(k, it->at, where, sizeof where));
}

static void print_loads(const as_kernel *k, isa_buf *out) {
  const as_kernel_figures *f = &k->figures;
  isa_buf_printf(
      out,
      "%" PRIu64 " instructions, %" PRIu64 " in the program; %" PRIu64 " dependences, %" PRIu64
      " waits (%" PRIu64 " protect the reuse of a semaphore), %" PRIu64 " on a nop; %" PRIu64
      " semaphores\n",
      f->instructions, f->made, f->dependences, f->waits, f->reuse_waits, f->nops, f->semaphores);
  isa_buf_printf(out,
                 "%" PRIu64 " transfers on %" PRIu64 " queues; %" PRIu64
                 " tiles, up to byte %" PRIu64 " of sbuf and %" PRIu64 " of psum\n",
                 f->transfers, f->queues, f->tiles, f->sbuf_bytes, f->psum_bytes);
  if (f->versions || f->left_out || f->moved)
    isa_buf_printf(out,
                   "%" PRIu64 " tiles are versions of others that are overwritten; %" PRIu64
                   " instructions are left out, %" PRIu64 " come before earlier ones\n",
                   f->versions, f->left_out, f->moved);
  if (k->no_room)
    isa_buf_puts(out, "nothing is renamed, shared or moved: the tiles would not fit then\n");
  if (f->copies) isa_buf_printf(out, "%" PRIu64 " copies make instructions legal\n", f->copies);
  double rate = (double)k->o.costs.dma_byte_rate * k->target->dma;
  if (f->spills)
    isa_buf_printf(out, "%" PRIu64 " of them spill tiles: %" PRIu64 " bytes, %.3f us of dma\n",
                   f->spills, f->spilled_bytes, (double)f->spilled_bytes / rate);
  isa_buf_puts(out, "\nload, estimated, without waits:\n");
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (k->engines >> e & 1)
      isa_buf_printf(out, "  %-8s %12.3f us\n", isa_engines[e].name, (double)f->busy[e] * 1e-9);
  isa_buf_printf(out, "  %-8s %12.3f us\n", "dma", (double)f->dma_busy * 1e-9);
  isa_buf_printf(out, "the bound is %s\n",
                 f->bound < ISA_NENGINES ? isa_engines[f->bound].name : "dma");
}

/* ---- Tiles over time ----------------------------------------------------------------------- */

enum { STRETCHES = 16, BAR = 24 };

/* live[i]: bytes of a partition that tiles of a memory have while item i runs. */
static void find_live(const as_kernel *k, unsigned space, int64_t *live) {
  memset(live, 0, ((size_t)k->nitems + 1) * sizeof *live);
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    const as_k_buffer *b = &k->buffers[i];
    if (b->space != space || !b->used) continue;
    live[b->first] += b->bytes;
    live[b->last + 1] -= b->bytes;
  }
  for (uint32_t i = 0; i < k->nitems; i++) live[i + 1] += live[i];
}

static uint32_t most_of(const int64_t *live, uint32_t from, uint32_t to) {
  uint32_t most = from;
  for (uint32_t i = from; i < to; i++)
    if (live[i] > live[most]) most = i;
  return most;
}

static void print_memory(const as_kernel *k, unsigned space, const int64_t *live, isa_buf *out) {
  char where[160];
  /* Stretches are of equal length but for the last. */
  uint32_t n = k->nitems, most = most_of(live, 0, n), step = (n + STRETCHES - 1) / STRETCHES;
  /* All of the memory: tiles at places of the source may lie where the toolchain keeps its own. */
  uint32_t room = as_k_memory(k, space);
  if (!live[most]) return;
  isa_buf_printf(out,
                 "\n%s over time, most bytes of a partition in use out of %" PRIu32 " by "
                 "instruction:\n",
                 isa_space_name(space), room);
  for (uint32_t i = 0; i < n; i += step) {
    uint32_t end = n - i < step ? n : i + step;
    /* Rounded up, so that what is there is seen. */
    int64_t bytes = live[most_of(live, i, end)], bar = (bytes * BAR + room - 1) / room;
    isa_buf_printf(out, "  %8" PRIu32 "..%-8" PRIu32 " %8" PRId64 "%s", k->items[i].number,
                   k->items[end - 1].number, bytes, bar ? "  " : "");
    for (int64_t b = 0; b < bar; b++) isa_buf_puts(out, "#");
    isa_buf_puts(out, "\n");
  }
  isa_buf_printf(out, "  most, %" PRId64 " bytes, at instruction %" PRIu32 ", %s\n", live[most],
                 k->items[most].number, as_k_where(k, k->items[most].at, where, sizeof where));
}

static void print_memories(const as_kernel *k, isa_buf *out) {
  size_t bytes = ((size_t)k->nitems + 1) * sizeof(int64_t);
  int64_t *live = k->nitems ? isa_zalloc(&k->al, bytes) : NULL;
  for (unsigned space = ISA_SBUF; live && space <= ISA_PSUM; space++) {
    find_live(k, space, live);
    print_memory(k, space, live, out);
  }
  isa_free(&k->al, live, bytes);
}

/* Which of the tiles of its name a tile of the program is. */
static const char *iteration_of(const as_kernel *k, const as_k_buffer *b, char *out, size_t n) {
  isa_tile t = {.line = 0};
  as_k_iteration(k, b, &t);
  return isa_iteration(&t, out, n);
}

static void print_tiles(const as_kernel *k, isa_buf *out) {
  char where[160], iteration[ISA_ITERATION];
  isa_buf_puts(out, "\ntiles: place, instructions that use it first and last, declared at\n");
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    const as_k_buffer *b = &k->buffers[i];
    /* A tile that nothing uses has no place. */
    if (b->space == ISA_HBM || !b->used) continue;
    isa_buf_printf(out,
                   "  %-16s %s partitions %u..%u bytes %" PRIu32 "..%" PRIu32 "  %" PRIu32
                   "..%" PRIu32 "  %s%s\n",
                   b->name ? b->name : "?", isa_space_name(b->space), (unsigned)b->part,
                   (unsigned)b->part + b->nparts - 1u, b->offset, b->offset + b->bytes - 1,
                   k->items[b->first].number, k->items[b->last].number,
                   as_k_where(k, b->at, where, sizeof where),
                   iteration_of(k, b, iteration, sizeof iteration));
  }
}

static void print_spills(const as_kernel *k, isa_buf *out) {
  char after[160], before[160];
  if (k->nspilled) isa_buf_puts(out, "\nspills:\n");
  as_kernel_spill s;
  for (uint32_t i = 0; as_kernel_get_spill(k, i, &s); i++) {
    isa_buf_printf(out, "  %s: %" PRIu64 " bytes, %s%s, %s%s\n", s.name, s.bytes,
                   as_kernel_spill_text(&s, false), as_k_where(k, s.after, after, sizeof after),
                   as_kernel_spill_text(&s, true), as_k_where(k, s.before, before, sizeof before));
  }
}

/* "tensor_copy w.py:40 (w): 31 of 32 left out: it was computed already" */
static void print_left(const as_kernel *k, isa_buf *out) {
  char where[160];
  as_kernel_left l;
  if (k->nleft) isa_buf_puts(out, "\nleft out:\n");
  for (uint32_t i = 0; as_kernel_get_left(k, i, &l); i++)
    isa_buf_printf(out, "  %s %s%s%.60s%s: %" PRIu32 " of %" PRIu32 ": %s\n", isa_ops[l.op].name,
                   as_k_where(k, l.at, where, sizeof where), l.name ? " (" : "",
                   l.name ? l.name : "", l.name ? ")" : "", l.left, l.of,
                   as_kernel_left_text(l.why));
}

static void print_waits(const as_kernel *k, isa_buf *out) {
  char iteration[ISA_ITERATION];
  isa_buf_puts(out, "\nwaits:\n");
  for (uint32_t i = 0; i < k->nwaited; i++) {
    const as_k_step *s = &k->steps[k->waited[i].step];
    as_k_wait w = as_k_wait_of(k, s, k->waited[i].wait);
    const as_k_buffer *b = w.buffer ? as_k_buf(k, w.buffer) : NULL;
    isa_buf_printf(out, "  %s %" PRIu32 ": ", isa_engines[s->engine].name, k->waited[i].pc);
    print_item(k, s->item, out);
    isa_buf_puts(out, " waits for ");
    print_item(k, k->steps[w.step].item, out);
    if (w.reuse)
      isa_buf_puts(out, ", whose semaphore is reused");
    else if (w.way)
      isa_buf_printf(out, ": only one of them at a time may use %s", isa_space_name(w.way));
    else if (b && b->space == ISA_HBM)
      isa_buf_printf(out, " (%s)", k->scratch->tensors[b->tensor - 1].name);
    else if (b)
      isa_buf_printf(out, " (%s%s)", b->name, iteration_of(k, b, iteration, sizeof iteration));
    isa_buf_puts(out, "\n");
  }
}

void as_kernel_report(const as_kernel *k, isa_buf *out) {
  if (!k->made) {
    isa_buf_puts(out, k->finished ? "the kernel was refused\n" : "the kernel is not finished\n");
    return;
  }
  print_loads(k, out);
  print_left(k, out);
  print_memories(k, out);
  print_tiles(k, out);
  print_spills(k, out);
  print_waits(k, out);
}

bool as_kernel_get_spill(const as_kernel *k, uint32_t i, as_kernel_spill *out) {
  if (i >= k->nspilled) return false;
  const as_k_spilled *s = &k->spilled[i];
  *out = (as_kernel_spill){s->name, s->bytes, s->after, s->before, s->to};
  return true;
}

const char *as_kernel_spill_text(const as_kernel_spill *s, bool before) {
  static const char *const went[] = {"which HBM has already, left after ", "to HBM after ",
                                     "from PSUM to SBUF after ", "left after "};
  if (before && s->to == AS_SPILL_LOADED) return "loaded again before ";
  if (before) return s->to == AS_SPILL_SBUF ? "read there from " : "back before ";
  return went[s->to];
}
