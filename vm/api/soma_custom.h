/* The part of soma.h for custom operators; include that. */
#ifndef SOMA_CUSTOM_H
#define SOMA_CUSTOM_H

#include "soma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What `custom_op "NAME", dsts=[...], srcs=[...], imms=[...]` of gpsimd runs: a function of the
 * host's. It sees its operands, numbered from 0 with the dsts first, through the call alone: the
 * sources as they were when the instruction started, the destinations as they are when it is done.
 * What it stores reaches the tiles once it has returned SOMA_OK, at the instruction's done. Any
 * other status, an access outside of an operand, or soma_call_fail makes the instruction fault, and
 * then nothing is stored. Until it returns, what would run the machine, look into it, bind or
 * allocate gives SOMA_BUSY, and freeing the machine or its run does nothing. A run is reproducible
 * as far as the function's results depend on its operands alone. It must return: no longjmp, no C++
 * exception. The call is gone once it has returned. */
enum { SOMA_CUSTOM_OPERANDS = 16 }; /* most dsts, srcs, and imms */
typedef struct soma_call soma_call;
typedef soma_status (*soma_custom_fn)(void *ud, soma_call *call);
typedef struct soma_custom_op {
  size_t size; /* sizeof(soma_custom_op) */
  soma_custom_fn fn;
  void *ud;
  /* What it costs, in cycles of gpsimd: so many, and for each element of a partition of its longest
   * operand; the sum is rounded up. At most 2^30, and 2^20 an element. */
  uint64_t cycles;
  double cycles_per_element;
  int dsts, srcs, imms; /* how many it takes; -1: any */
  /* The types that operand i may have, 1u << soma_dtype each; 0: any. */
  uint32_t dst_types[SOMA_CUSTOM_OPERANDS], src_types[SOMA_CUSTOM_OPERANDS];
} soma_custom_op;
#define SOMA_CUSTOM_OP_INIT                                    \
  {                                                            \
    sizeof(soma_custom_op), 0, 0, 0, 0, -1, -1, -1, {0}, { 0 } \
  }

/* Registers an operator of m, in place of one of that name; op NULL takes it away. Both are copied;
 * ud must live as long as the registration. SOMA_BUSY while a run of m has not ended. */
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
/* Elements first .. first + n - 1 of a partition, counted from the operand's first one, as fp32 and
 * back, rounded once; packed types have none. SOMA_ARG, which also fails the call, for what is
 * outside of the operand and for a store to a source. */
soma_status soma_call_load(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                           uint64_t n, float *out);
soma_status soma_call_store(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                            uint64_t n, const float *in);
/* The same as the elements' bytes, of any type. */
soma_status soma_call_read(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                           uint64_t n, void *out);
soma_status soma_call_write(soma_call *c, uint32_t operand, uint32_t partition, uint64_t first,
                            uint64_t n, const void *in);
/* Leaves the text of the fault, cut to 159 bytes; the first one counts. Gives SOMA_FAULT, for
 * `return soma_call_fail(call, "...")`. */
soma_status soma_call_fail(soma_call *c, const char *text);

#ifdef __cplusplus
}
#endif
#endif
