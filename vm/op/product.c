/* A product on several threads. It is cut into pieces of ROWS rows, and these into blocks of
 * COLUMNS columns, whole numbers of the panels of every SIMD level. Of two threads, each has half
 * of the weights and of the result's partitions, as in a list of other instructions (batch.c):
 * these stay in its core's cache.
 *
 * The handler need not wait for the result: while other threads compute it, the caller simulates
 * what comes next, for example the ldweights of the next product. */
#include "pe.h"

enum { COLUMNS = 48, ROWS = ISA_PMAX / 2 };
/* Nanoseconds of one thread from which on cutting is worthwhile, and multiplications in one. */
enum { WORTH = 10000, MULTIPLIES = 100 };

static unsigned blocks_of(const vm_product *p) { return (p->n + COLUMNS - 1) / COLUMNS; }

static void multiply_part(void *job, uint32_t number, void *room) {
  const vm_pe_job *j = job;
  vm_product p = j->p;
  unsigned row = number / blocks_of(&p) * ROWS, column = number % blocks_of(&p) * COLUMNS;
  (void)room;
  p.m = p.m - row < ROWS ? p.m - row : ROWS;
  p.n = p.n - column < COLUMNS ? p.n - column : COLUMNS;
  p.w += row;
  p.x = (const uint8_t *)p.x + column * isa_dtype_bytes(p.dtype);
  p.out += row * p.ldo + column;
  j->k->matmul(&p);
}

void vm_pe_finish(vm_pe_job *j) {
  if (!j || !j->open) return;
  j->open = false;
  vm_work_finish(j->task, NULL);
}

void vm_pe_multiply(vm_dp *d, unsigned row, unsigned col, const vm_product *p, bool stays) {
  vm_work_task task;
  vm_pe_job here = {.task = &task}, *j = d->job && stays ? d->job : &here;
  const uint64_t ns = (uint64_t)p->k * p->m * p->n / MULTIPLIES;
  vm_pe_finish(d->job);
  vm_pe_ready(d, row, col); /* what was raw may then be overwritten */
  vm_work_did(d->threads, ns);
  if (!vm_work_ready(d->threads, ns, WORTH)) {
    d->k->matmul(p);
    return;
  }
  j->k = d->k;
  j->p = *p;
  j->open = true;
  vm_work_begin(d->threads, j->task, multiply_part, j, blocks_of(p) * ((p->m + ROWS - 1) / ROWS));
  if (j == &here) vm_pe_finish(j);
}
