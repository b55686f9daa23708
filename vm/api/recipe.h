/* What a kernel was made of, kept so that it can be made again: with other choices, or changed. */
#ifndef VM_SOMA_RECIPE_H
#define VM_SOMA_RECIPE_H

#include "../../kernel/kernel.h"
#include "impl.h"
#include "soma_kernel.h"

#define SOMA_GROUP_NAME "ranks"     /* of replica groups, in the program */
enum {
  SOMA_RECIPE_MOST = 100000, /* instructions; of more none are kept */
  SOMA_RECIPE_LIKES = 64
};

/* Entries, each a call that succeeded, in their order. */
typedef enum soma_recipe_kind {
  SOMA_RECIPE_FILE,     /* its name */
  SOMA_RECIPE_TENSOR,   /* isa_tensor, its name, the data of a constant */
  SOMA_RECIPE_TILE,     /* as_kernel_tile, its name */
  SOMA_RECIPE_RECORDS,  /* words */
  SOMA_RECIPE_REFUSED,  /* words: of a call that failed */
  SOMA_RECIPE_LOOP,     /* as_kernel_range */
  SOMA_RECIPE_WHILE,    /* numbers: register, file, line */
  SOMA_RECIPE_ENDLOOP,  /* numbers: none */
  SOMA_RECIPE_END,      /* numbers: buffer */
  SOMA_RECIPE_QUEUE,    /* numbers: dge, engine, prio */
  SOMA_RECIPE_GROUP,    /* numbers: lists, ranks, 0; sizes, ranks */
  SOMA_RECIPE_REGISTER, /* numbers: none */
  SOMA_RECIPE_ORDER,    /* numbers: earlier, later */
  SOMA_RECIPE_LIKE      /* of a packed recipe: records like an earlier entry, what differs */
} soma_recipe_kind;

typedef struct soma_recipe {
  uint32_t refs; /* of its kernel, and of that of the other core */
  isa_alloc al;
  as_kernel_options o; /* of the kernel */
  uint32_t without;    /* AS_PASS_ that no choice has */
  isa_target own_target; /* o.target, of a hypothetical machine */
  vm_costs costs;
  vm_cost_model *model;
  bool nomem;              /* none are kept, since memory was out */
  bool keeps;              /* entries are kept */
  bool packed;             /* records like others have only the words that differ */
  uint32_t items;          /* instructions in them */
  uint32_t buffers, files; /* the highest numbers that calls gave */
  uint64_t *units;         /* 8 bytes each: of each entry a head, then what it has */
  uint32_t nunits, cap_units;
  uint64_t plain; /* units of the entries where none is packed */
  uint32_t like[SOMA_RECIPE_LIKES]; /* 1 + the entry that records like it are compared with */
} soma_recipe;

/* An entry of a recipe; words: what it has, n of them. */
typedef struct soma_entry {
  soma_recipe_kind kind;
  int64_t *words;
  uint32_t n, next; /* next: where the one after it begins */
} soma_entry;

/* A recipe without entries, for kernels with those options and costs; NULL: out of memory. */
soma_recipe *soma_recipe_new(const isa_alloc *al, const as_kernel_options *o,
                             const vm_costs *costs);
soma_recipe *soma_recipe_copy(const soma_recipe *r); /* NULL: out of memory */
void soma_recipe_free(soma_recipe *r);               /* gives back a reference */

/* What to add after a call has succeeded; nothing if no entries are kept. Where memory or room is
 * out, none are kept from then on. */
void soma_recipe_file(soma_recipe *r, const char *name, uint32_t file);
void soma_recipe_tensor(soma_recipe *r, const isa_tensor *t, uint32_t buffer);
void soma_recipe_tile(soma_recipe *r, const as_kernel_tile *t, uint32_t buffer);
void soma_recipe_records(soma_recipe *r, bool taken, const int64_t *words, size_t n,
                         uint32_t items);
void soma_recipe_group(soma_recipe *r, const isa_group *g);
void soma_recipe_loop(soma_recipe *r, const as_kernel_range *range);
void soma_recipe_numbers(soma_recipe *r, soma_recipe_kind kind, int64_t a, int64_t b, int64_t c);
void soma_recipe_entry(soma_recipe *r, const soma_entry *e);

/* A packed recipe becomes one whose entries are whole, which all below needs. False: out of memory,
 * and no entries are kept any more. */
bool soma_recipe_unpack(soma_recipe *r);

/* The entry at `at`, 0 for the first; false past the last. */
bool soma_recipe_at(const soma_recipe *r, uint32_t at, soma_entry *e);

/* The entry of a buffer, of a recipe without AS_KERNEL_COPIES: copies have numbers too. */
bool soma_recipe_buffer(const soma_recipe *r, int64_t buffer, soma_entry *e);

/* Does to a kernel what an entry says; false where the kernel refuses it. */
bool soma_recipe_apply(as_kernel *k, const soma_entry *e);

/* The name of a file; NULL if it has none. */
const char *soma_recipe_file_name(const soma_recipe *r, uint32_t file);

/* What is chosen when a kernel is made of a recipe. */
typedef struct soma_choice {
  uint32_t passes, flags; /* of as_kernel_options */
  uint32_t extra;         /* passes on the instructions of a line, by core */
  isa_line at[ISA_MAX_CORES];
} soma_choice;

/* The kernels of a program, one for each core, and the program. */
typedef struct soma_made {
  as_kernel *k[ISA_MAX_CORES], *failed; /* failed: the one that has the error */
  isa_program *p;
  soma_time time; /* of a run without values */
  bool nomem;     /* why it is not there */
} soma_made;
/* Makes the program of one recipe, or of two; whether it is there. To be freed in any case. */
bool soma_make(soma_recipe *const r[], unsigned cores, const soma_choice *c, soma_made *out);
void soma_made_free(soma_made *x);

/* A machine that times programs made of r; NULL: out of memory. */
soma_machine *soma_timer(const soma_recipe *r);
/* Runs what was made, without values, and notes its time; false if it does not end well. */
bool soma_time_made(soma_machine *timer, soma_made *x);

#endif
