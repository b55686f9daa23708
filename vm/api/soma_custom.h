/* The part of soma.h for custom operators; include that. */
#ifndef SOMA_CUSTOM_H
#define SOMA_CUSTOM_H

#include "soma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `custom_op "NAME", dsts=[...], srcs=[...], imms=[...]` on gpsimd runs a function of the host. The
 * function sees its operands, numbered from 0 with the dsts first, only through the call: the
 * sources as they were when the instruction started, the destinations as they are when it is done.
 * What it stores appears in the tiles after it has returned SOMA_OK, when the instruction is done.
 * Any other status, an access outside an operand, or soma_call_fail makes the instruction fault,
 * and then nothing is stored. Until it returns, calls that would run the machine, read it, bind or
 * allocate give SOMA_BUSY, and freeing the machine or its run does nothing. A run is reproducible
 * if the function's results depend only on its operands. It must return: no longjmp, no C++
 * exception. The call is not valid after it has returned. */
enum { SOMA_CUSTOM_OPERANDS = 16 }; /* most dsts, srcs, and imms */
typedef struct soma_call soma_call;
typedef soma_status (*soma_custom_fn)(void *ud, soma_call *call);
typedef struct soma_custom_op {
  size_t size; /* sizeof(soma_custom_op) */
  soma_custom_fn fn;
  void *ud;
  /* The cost in cycles of gpsimd: a fixed part, and a part for each element of a partition of its
   * longest operand; the sum is rounded up. At most 2^30, and 2^20 per element. */
  uint64_t cycles;
  double cycles_per_element;
  int dsts, srcs, imms; /* how many it takes; -1: any */
  /* The types that operand i may have, 1u << soma_dtype for each; 0: any. */
  uint32_t dst_types[SOMA_CUSTOM_OPERANDS], src_types[SOMA_CUSTOM_OPERANDS];
} soma_custom_op;
#define SOMA_CUSTOM_OP_INIT                                    \
  {                                                            \
    sizeof(soma_custom_op), 0, 0, 0, 0, -1, -1, -1, {0}, { 0 } \
  }

/* Registers an operator of m, instead of one of the same name; NULL removes it. name and *op are
 * copied; ud must live as long as the registration. SOMA_BUSY while a run of m has not ended. */
soma_status soma_custom_set(soma_machine *m, const char *name, const soma_custom_op *op);

typedef struct soma_operand {
  char name[8]; /* "dst0", "src1" */
  int writable; /* nonzero: a destination */
  soma_dtype dtype;
  uint32_t partition, partitions; /* the first one, and how many */
  uint64_t elements;              /* of a partition */
  uint32_t ndim, shape[5];        /* partitions first */
} soma_operand;
uint32_t soma_call_dsts(const soma_call *c);
uint32_t soma_call_srcs(const soma_call *c);
uint32_t soma_call_imms(const soma_call *c);
/* Immediate i, 0 past the last. */
float soma_call_imm(const soma_call *c, uint32_t i);
/* SOMA_ARG past the last operand. */
soma_status soma_call_operand(const soma_call *c, uint32_t operand, soma_operand *out);
/* Elements first .. first + n - 1 of a partition, counted from the operand's first one, converted
 * to fp32 and back, rounded once; not for packed types. An access outside the operand and a store
 * to a source give SOMA_ARG and fail the call. */
soma_status soma_call_load(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                           uint64_t n, float *out);
soma_status soma_call_store(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                            uint64_t n, const float *in);
/* The same as the elements' bytes, of any type. */
soma_status soma_call_read(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                           uint64_t n, void *out);
soma_status soma_call_write(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                            uint64_t n, const void *in);
/* Sets the text of the fault, of which 159 bytes are kept; the first call counts. Gives SOMA_FAULT,
 * for `return soma_call_fail(call, "...")`. */
soma_status soma_call_fail(soma_call *c, const char *text);

#ifdef __cplusplus
}
#endif
#endif
