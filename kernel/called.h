/* Which of the tiles that the source calls by one name a tile is. A buffer's `called` is the number
 * of what they share, 0: it has no name; `iteration`, from 1, which of them it is; `iterations` how
 * many, since merges make several one. Both are 0 where those do not come one after another. */
#ifndef ASM_KERNEL_CALLED_H
#define ASM_KERNEL_CALLED_H

#include "impl.h"

/* Tiles of one name that one line declares, or those that it overwrites. */
typedef struct as_k_called {
  const char *name;
  isa_line at;
  uint32_t count, turn; /* turn: of the lines, at the last of them */
  bool declared;
  bool again; /* two came in one turn: the line may have made both at once */
} as_k_called;

/* An item or a tile of that line comes next. Gives the number of its turn. */
static inline uint32_t as_k_turn(as_kernel *k, isa_line at) {
  k->turn += at.line != k->turn_at.line || at.file != k->turn_at.file;
  k->turn_at = at;
  return k->turn;
}
/* Counts a tile with a name among those of its name that a line declares or overwrites; turn: of
 * that line. */
bool as_k_begin_tile(as_kernel *k, as_k_buffer *b, bool declared, isa_line at, uint32_t turn);
/* Which of those it is, for the program made. */
void as_k_iteration(const as_kernel *k, const as_k_buffer *b, isa_tile *t);
/* The same as text: "xT (of line 29, iteration 3)"; `none` stands for no name. */
enum { K_TILE = 60 + ISA_ITERATION };
const char *as_k_tile(const as_kernel *k, const as_k_buffer *b, const char *none, char *out,
                      size_t n);

/* Whether tiles of both cores may be one of the program: as is all but its name. */
bool as_k_same_tile(const isa_tile *a, const isa_tile *b);

#endif
