/* Relocatable objects: a program file with more sections at its end, which a loader refuses,
 * and the linker that makes one program of many. Private to asm/.
 *
 *   EXTN u32 count, then for each name: kind bind fixed core engine zero zero zero u8, index align
 *        room u32, length of the name u32, the name, zeros to a multiple of 4. core 2: of both, a
 *        semaphore or a queue; align is then a queue's index on core 1
 *   RELO of each branch to an extern label: core engine zero zero u8, pc u32, name u32 (from 0); it
 *        may be missing
 *   DECL of each name: file (1-based, 0 unknown) and line of its declaration u32; it may be missing
 */
#ifndef ASM_OBJECT_H
#define ASM_OBJECT_H

#include "../asm.h"

enum as_link_kind { AS_L_TENSOR, AS_L_TILE, AS_L_SEM, AS_L_QUEUE, AS_L_LABEL, AS_L_KINDS };
enum as_link_bind { AS_L_LOCAL, AS_L_GLOBAL, AS_L_EXTERN, AS_L_BINDS };

typedef struct as_link_name {
  const char *name;
  uint8_t kind, bind;
  uint8_t fixed;        /* of a tile or semaphore: its place or number is the source's */
  uint8_t core, engine; /* engine: of a label */
  uint32_t index;       /* tensor, tile: 1-based; semaphore: number; queue: index; label: pc */
  uint32_t align, room; /* of a tile that is not fixed: as the allocator needs them; align of a
                         * queue of both cores: its index on core 1 */
  uint32_t file, line;  /* of its declaration; file of the program's, from 1, 0: unknown */
} as_link_name;

typedef struct as_reloc { /* a branch to names[name] */
  uint8_t core, engine;
  uint32_t pc, name;
} as_reloc;

typedef struct as_object {
  isa_program *program; /* whoever reads it frees it */
  as_link_name *names;
  as_reloc *relocs;
  uint32_t nnames, nrelocs;
} as_object;

/* Appends the object's file. False if out of memory. */
bool as_object_write(const as_object *o, isa_buf *out);
/* Reads an object's file as hostile input; names and relocs are in the arena. False on refusal. */
bool as_object_read(isa_arena *a, const void *data, size_t n, as_object *out, isa_error *e);
/* Whether an object has something of l's kind, name and core (a label: engine) that is its own. */
bool as_object_keeps(const as_object *o, const as_link_name *l);

#endif
