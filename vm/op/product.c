/* A product on several threads. It is cut into pieces of ROWS rows, and these into blocks of
 * COLUMNS columns, whole numbers of the panels of every SIMD level. Of two threads, each has half
 * of the weights and of the result's partitions, as in a batch of other instructions: these stay in
 * its core's cache.
 *
 * The handler need not wait for the result: while other threads compute it, the caller simulates
 * what comes next, for example the ldweights of the next product. */
#include "pe.h"

enum { COLUMNS = 48, ROWS = ISA_PMAX / VM_PE_PIECES };
/* Nanoseconds of one thread from which on cutting is worthwhile, and multiplications in one. */
enum { WORTH = 10000, MULTIPLIES = 100 };

static unsigned blocks_of(const vm_product *p) { return (p->n + COLUMNS - 1) / COLUMNS; }

static unsigned rows_of(const vm_product *p, unsigned piece) {
  return p->m - piece * ROWS < ROWS ? p->m - piece * ROWS : ROWS;
}

/* The first thread that comes to a piece converts its weights, where they are still raw. */
static void convert_piece(vm_pe_job *j, unsigned piece) {
  if (atomic_load_explicit(&j->done[piece], memory_order_acquire)) return;
  if (atomic_exchange(&j->begun[piece], true)) {
    vm_work_wait(&j->done[piece]);
    return;
  }
  vm_pe_convert(j->d, j->row, j->col, piece * ROWS, rows_of(&j->p, piece));
  atomic_store_explicit(&j->done[piece], true, memory_order_release);
}

static void multiply_part(void *job, uint32_t number, void *room) {
  vm_pe_job *j = job;
  vm_product p = j->p;
  unsigned piece = number / blocks_of(&p), first = number % blocks_of(&p) * COLUMNS;
  (void)room;
  convert_piece(j, piece);
  p.m = rows_of(&p, piece);
  p.n = p.n - first < COLUMNS ? p.n - first : COLUMNS;
  p.w += piece * ROWS;
  p.x = (const uint8_t *)p.x + first * isa_dtype_bytes(p.dtype);
  p.out += piece * ROWS * p.ldo + first;
  j->d->k->matmul(&p);
}

void vm_pe_finish(vm_pe_job *j) {
  if (!j || !j->open) return;
  j->open = false;
  vm_work_finish(&j->task, NULL);
}

/* Begins it; its weights are all converted then, and what was raw may be overwritten. */
static void begin(vm_pe_job *j, const vm_dp *d, unsigned row, unsigned col, const vm_product *p) {
  vm_stationary *t = vm_pe_tile(d, row, col);
  unsigned pieces = (p->m + ROWS - 1) / ROWS;
  j->d = d;
  j->p = *p;
  j->row = row;
  j->col = col;
  for (unsigned i = 0; i < VM_PE_PIECES; i++) {
    atomic_init(&j->begun[i], false);
    atomic_init(&j->done[i], !t->raw);
  }
  vm_work_begin(d->threads, &j->task, multiply_part, j, blocks_of(p) * pieces);
  for (unsigned i = 0; i < pieces; i++) convert_piece(j, i);
  t->raw = false;
  j->open = true;
}

void vm_pe_multiply(vm_dp *d, unsigned row, unsigned col, const vm_product *p, bool stays) {
  vm_pe_job here;
  vm_pe_finish(d->job);
  const uint64_t ns = (uint64_t)p->k * p->m * p->n / MULTIPLIES;
  vm_work_did(d->threads, ns);
  if (!vm_work_ready(d->threads, ns, WORTH)) {
    vm_pe_ready(d, row, col);
    d->k->matmul(p);
  } else if (d->job && stays) {
    begin(d->job, d, row, col, p);
    d->job->number++;
  } else {
    begin(&here, d, row, col, p);
    vm_pe_finish(&here);
  }
}
