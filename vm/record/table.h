/* Inside the tables: a table being written, and its cells (table.c). */
#ifndef VM_RECORD_TABLE_H
#define VM_RECORD_TABLE_H

#include "record.h"

typedef enum vm_rec_mode { VM_REC_HEADER, VM_REC_CSV_ROW, VM_REC_JSON_ROW } vm_rec_mode;
typedef struct vm_rec_table {
  vm_rec_view t;
  vm_rec_sink out;
  uint32_t *order, *from;
  vm_rec_transfers transfers;
  vm_time seen[2]; /* from a ring's write of a semaphore to its new value; on the other core */
  isa_buf text;    /* of the current cell */
  vm_rec_mode mode;
  bool first; /* cell of the row */
} vm_rec_table;

/* A cell, of which a header has only the name. _if: an empty one, or null, of what is not known. */
void vm_rec_cell_u64(vm_rec_table *w, const char *name, uint64_t v);
void vm_rec_cell_if(vm_rec_table *w, const char *name, bool known, uint64_t v);
void vm_rec_text_if(vm_rec_table *w, const char *name, const char *s);
void vm_rec_cell_ratio(vm_rec_table *w, const char *name, double num, double den);
void vm_rec_cell_str(vm_rec_table *w, const char *name, const char *s);
/* start_ts and similar columns: whole nanoseconds, so that end - start is the duration; start_fs
 * and duration_fs. */
void vm_rec_cell_span(vm_rec_table *w, vm_time start, vm_time end);
void vm_rec_cell_exact(vm_rec_table *w, vm_time start, vm_time end);
void vm_rec_end_row(vm_rec_table *w);
/* "a.s:3" of an event's instruction, until the next cell. */
const char *vm_rec_place_text(vm_rec_table *w, const vm_rec_event *v);

/* table_cc.c */
void vm_rec_cc_ops(vm_rec_table *w);
void vm_rec_cc_instructions(vm_rec_table *w);
void vm_rec_cc_streams(vm_rec_table *w);

#endif
