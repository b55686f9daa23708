/* The back half of the assembler: names, statements, operands, layout. Private to asm/.
 *
 * One statement is parsed, matched and checked at a time, straight from its tokens: there is no
 * tree. What outlives a statement is a name (as_sym), an instruction in the program, a fixup of a
 * forward branch, and with a listing one as_entry. */
#ifndef ASM_STMT_H
#define ASM_STMT_H

#include "../../isa/operand.h"
#include "../text/as.h"

/* ---- Names (sym.c) ------------------------------------------------------------------------ */

enum as_sym_kind {
  AS_S_TENSOR,
  AS_S_TILE,
  AS_S_SEM,
  AS_S_QUEUE,
  AS_S_EQU,
  AS_S_LABEL,
  AS_S_GROUP,
  AS_S_KINDS
};
enum { AS_M_DATA = 1 << AS_S_TENSOR | 1 << AS_S_TILE }; /* of as_sym_need */

/* A section is one engine's code of one core: core * ISA_NSEQS + engine. */
enum { AS_NSECTIONS = ISA_MAX_CORES * ISA_NSEQS };
static inline unsigned as_engine_of(unsigned section) { return section % ISA_NSEQS; }
static inline unsigned as_core_of(unsigned section) { return section / ISA_NSEQS; }
/* The core of what `core=*` declares: of each core, under the same number. */
enum { AS_BOTH = ISA_MAX_CORES };

/* The scope of a label is its section + 1; that of every other name is 0. */
typedef struct as_sym {
  const char *name;          /* interned */
  struct as_sym *same;       /* of the same name in another scope */
  struct as_sym *next;       /* in order of declaration */
  uint8_t kind, scope, core; /* core: of a semaphore or queue, AS_BOTH: of each */
  bool defined, used, global;
  bool external;  /* another object defines it */
  bool placed;    /* a tile or semaphore whose place or number the source gives */
  bool bad;       /* an error in its definition was reported: uses are not */
  uint32_t index; /* tensor, tile: 1-based; sem: its number; queue: index; label: its pc */
  union {
    uint32_t
        ap[ISA_MAX_CORES]; /* pattern of the whole tensor or tile, once it is used so; else 0 */
    uint8_t queue[ISA_MAX_CORES]; /* of a queue: its index on each core that has it */
    struct as_sym *at_pc;         /* of a label, while they are sorted: another at its pc */
    const as_val *value;          /* of an equ */
  } u;
  as_pos pos; /* of the definition; of the first use while a label is not defined */
  uint32_t span;
} as_sym;

as_sym *as_sym_find(as_job *j, const char *interned, unsigned scope);
/* Finds or adds; a new one is undefined, of kind, at tok. */
as_sym *as_sym_get(as_job *j, const char *interned, unsigned scope, unsigned kind,
                   const as_tok *tok);
/* Adds a defined name; NULL after an error when it exists, or is not fit to be a name. */
as_sym *as_sym_define(as_job *j, unsigned kind, const as_tok *tok);
as_sym *as_sym_first(as_job *j);
const char *as_sym_kind_name(unsigned kind); /* "a tile" */
/* A name of one of the kinds in mask, or NULL after an error that names what was meant. */
as_sym *as_sym_need(as_job *j, const as_tok *tok, unsigned mask);
/* as_name_fn: equ constants, numbers of semaphores, attributes of tensors and tiles. */
enum as_known as_sym_value(as_job *j, const as_tok *name, const char *attr, const int64_t *index,
                           as_val *v);
const char *as_sym_near(as_job *j, const char *name, size_t n); /* as_near_fn */

/* What the first word of a statement is: an opcode, AS_WORD_PSEUDO + n, AS_WORD_DIRECTIVE + n, or
 * -1. Remembered with the name. */
enum { AS_WORD_PSEUDO = 1000, AS_WORD_DIRECTIVE = 2000 };
int as_word(as_job *j, const char *interned);
bool as_is_word(as_job *j, const char *interned); /* as_word_fn */
/* A mark on a text, false at first. */
bool *as_sym_mark(as_job *j, const char *interned);

/* The nearest of many names by edit distance, for "did you mean". */
typedef struct as_near {
  const char *want, *hit;
  size_t n;
  unsigned best;
} as_near;
as_near as_near_open(const char *want, size_t n);
void as_near_try(as_near *w, const char *name);
/* "; did you mean `x`?" or "", in the job's arena. */
const char *as_near_text(as_job *j, const as_near *w);

/* ---- Cursor helpers (parse.c) ------------------------------------------------------------- */

static inline bool as_at_punct(const as_cur *c, unsigned punct) {
  return c->t->kind == AS_T_PUNCT && c->t->punct == punct;
}
static inline bool as_at_name(const as_cur *c) { return c->t->kind == AS_T_NAME; }
static inline bool as_at_end(const as_cur *c) { return c->t->kind == AS_T_END; }
bool as_tok_is(const as_tok *t, const char *text);
bool as_take(as_cur *c, unsigned punct); /* true when it was there */
bool as_take_name(as_cur *c, const char *text);
bool as_need(as_cur *c, unsigned punct, const char *after); /* error: expected ... after ... */
bool as_need_end(as_cur *c, const char *after);
/* Columns from a token to the one before end. */
uint32_t as_span_of(const as_tok *from, const as_tok *end);
/* A register name: 0 to 63, or -1. */
int as_tok_reg(const as_tok *t);
/* `name =`, the start of a keyword operand. */
bool as_at_keyword(const as_cur *c);

/* ---- Operands (operand.c, operand_raw.c, operand_view.c) ---------------------------------- */

/* An operand while it is built: dim and ndim here stand for those of ap, because a tensor has
 * more dimensions than a pattern before it is sliced. ap.size_dim counts in dim. */
typedef struct as_operand {
  isa_ap ap;
  isa_dim dim[ISA_TENSOR_DIMS]; /* free dimensions of a tile, all of a tensor; outermost first */
  unsigned ndim, ndyn;
  int rows;         /* the register that gives the first dimension of a tensor, -1: none */
  const as_tok *at; /* its first token */
} as_operand;

/* Whether the next token starts a pattern: a tensor, a tile, or TYPE@. */
bool as_at_operand(const as_cur *c);
/* Parses a pattern with its slices and views, adds it to the program, gives its index. */
bool as_operand_parse(as_cur *c, uint32_t *index);
bool as_operand_raw(as_cur *c, as_operand *o);
/* `[...]` after a name. */
bool as_operand_slice(as_cur *c, as_operand *o);
/* `.view(...)` and the like, until none exists. */
bool as_operand_views(as_cur *c, as_operand *o);
/* `.rank[`, before a peer; and after its bracket `5]`, `tp.next]`, `tp.prev]`, `tp[3]]` or
 * `tp.xor 2]`: its 1-based number. (peer.c) */
bool as_at_rank(const as_cur *c);
bool as_peer(as_cur *c, uint32_t *slot);
/* Adds a dynamic offset; false after an error when there are too many. */
bool as_operand_dyn(as_cur *c, as_operand *o, isa_dyn d, const as_tok *at);
/* Makes a register the size of dimension dim (as isa_ap.size_dim). */
bool as_operand_size(as_cur *c, as_operand *o, unsigned dim, unsigned reg, const as_tok *at);
static inline bool as_operand_is_tile(const as_operand *o) { return o->ap.space != ISA_HBM; }
/* `rN<=bound`: gives true after filling both; *reg is -1 when it is a plain expression. */
bool as_size(as_cur *c, const char *what, int64_t hi, int *reg, int64_t *n);
/* `[[step,num],...]` in order, at most max pairs. */
bool as_steps(as_cur *c, int64_t (*out)[2], unsigned max, unsigned *n);
/* An integer expression from lo to hi; what names it in messages. */
bool as_int_in(as_cur *c, const char *what, int64_t lo, int64_t hi, int64_t *out);

/* ---- Statements --------------------------------------------------------------------------- */

/* An operand of an instruction or pseudo-instruction, and where its value goes. */
typedef struct as_slot {
  const isa_field *f;
  const char *name;   /* as written */
  uint8_t mode, part; /* isa_mode; index of the instruction */
  uint8_t owner;      /* index of the slot this one repeats, or its own */
  bool seen;
  bool is_int, is_float; /* a NUM that was written as the integer i, as a float */
  int64_t i;
  as_pos pos;
  uint32_t span;
} as_slot;

enum { AS_MAX_PARTS = 2, AS_MAX_SLOTS = 32 };

typedef struct as_stmt {
  const as_tok *name;
  isa_insn part[AS_MAX_PARTS];
  unsigned nparts;
  as_slot slot[AS_MAX_SLOTS];
  unsigned nslots;
  bool has_wait, has_update;
  as_tok wait_at, update_at;
  as_sym *label; /* of a branch */
  uint32_t label_span;
  as_pos label_pos;
} as_stmt;

/* match.c */
void as_match_insn(as_cur *c, int op); /* after the mnemonic, to the end of the line */
void as_match_pseudo(as_cur *c, int ps);
void as_match_dma(as_cur *c); /* the `dma` directive */
/* Operands and clauses of st from the cursor, then its rules. False after an error. */
bool as_match(as_cur *c, as_stmt *st);
/* Adds the parts of st to the current section. */
bool as_match_emit(as_job *j, as_stmt *st);

/* value.c: one operand by its kind into its member. */
bool as_value(as_cur *c, as_stmt *st, as_slot *s);
/* Warns where a number of the source is finite and beyond a float type's range. (value.c) */
void as_warn_infinite(as_job *j, as_pos pos, uint32_t span, double v, unsigned dtype);
/* An immediate written as an integer: a float, or for a bit operator or an integer to fill with its
 * bits. Once all operands are known. */
bool as_num_finish(as_job *j, as_stmt *st, as_slot *s);
bool as_int(as_cur *c, isa_int *out);

/* clause.c: `$...`. */
bool as_clauses(as_cur *c, as_stmt *st);
/* The number of a semaphore of the section's own core, written as in a clause, `$name` or `$S[n]`,
 * or without the `$`. False after an error. */
bool as_own_sem(as_cur *c, uint8_t *number);
/* block.c: which of the set COMPARE the sign at the cursor is, as `<`; -1: none is there. */
int as_comparison(const as_cur *c);
/* Notes what a barrier does with semaphores. */
void as_note_barrier(as_job *j, const isa_barrier *b, as_pos pos, uint32_t span);

/* pseudo.c */
int as_pseudo_find(const char *name, size_t n); /* -1 if none exists */
void as_pseudo_near(as_near *w);
const char *as_pseudo_name(int ps);    /* of the nth, NULL past the last */
int as_pseudo_here(as_job *j, int ps); /* the one that its name means in this section */
/* The one that an instruction's own name means when its line has reduce_res=, or -1. */
int as_pseudo_of(int op, const as_cur *c);
void as_pseudo_open(int ps, as_stmt *st); /* parts and slots */
/* Rules that no field states. False after an error. */
bool as_pseudo_finish(as_job *j, int ps, as_stmt *st);
void as_pseudo_emit(as_job *j, int ps, as_stmt *st);

/* block.c: `loop rN, start, stop, step` and `endloop`; `if rN, cond, b`, `else` and `endif`. */
void as_loop(as_cur *c);
void as_endloop(as_cur *c);
void as_if(as_cur *c);
void as_else(as_cur *c);
void as_endif(as_cur *c);
void as_blocks_end(as_job *j); /* reports blocks without an end */

/* directive.c */
int as_directive_find(const char *name); /* -1 if none exists */
void as_directive_near(as_near *w);
bool as_is_data(int word);                   /* times, incbin, npy */
bool as_is_code(int word);                   /* loop, align and so on: it stands in a section */
void as_directive(as_cur *c, int directive); /* at its name */
bool as_defines(as_job *j, const as_tok *t); /* the second word of a definition: tile, sem */
bool as_definition(as_cur *c); /* NAME tile ...; false when the line defines nothing */

/* data.c: what a const tensor holds, after `const`: `= ...`, or the lines that follow. */
void as_const(as_cur *c, isa_tensor *t, const as_tok *name);
void as_data_line(as_cur *c);  /* TYPE values, times, incbin or npy */
void as_data_close(as_job *j); /* before any other line, and at the end: is the tensor full? */

/* npy.c: where the elements of a .npy file begin, all bytes of t. False after an error at `at`. */
bool as_npy(as_job *j, const as_tok *at, const char *path, const uint8_t *file, size_t n,
            const isa_tensor *t, const uint8_t **elements);

/* TYPE[dimensions], each at least 1, at most max of them. *rows: the register that gives the first
 * one, `r10 <= 1024` in the source, and shape[0] the most; -1: none. rows is NULL where none can.
 */
bool as_parse_type(as_cur *c, unsigned *dtype, unsigned max, int64_t *shape, unsigned *ndim,
                   int *rows);

/* tile.c: after `NAME tile`. */
void as_tile(as_cur *c, const as_tok *name);
/* Places a tile of an object: at its place when fixed, else as it was asked for. */
bool as_tile_link(as_job *j, isa_tile *t, bool fixed, uint32_t align, uint32_t bytes);

/* parse.c: one line; in a section of `core=*` once for each core. */
void as_parse_line(as_job *j, const as_line *line);

/* layout.c */
as_sym *as_label_ref(as_cur *c); /* parses a label operand */
/* `gpsimd.sum`: a label of another section of the core. */
as_sym *as_place_ref(as_cur *c, unsigned *engine);
void as_label_define(as_job *j, const as_tok *first, const as_tok *local);
/* Appends one instruction to the current section. st has the label of its branch, or is NULL. */
void as_emit(as_job *j, const isa_insn *in, const as_stmt *st);
/* The program's number of a source, added on first use. */
uint32_t as_file_number(as_job *j, uint32_t source);
/* At the end of the source: branches, checks of the whole; then symbols and order of patterns. */
void as_layout(as_job *j);
/* A hwdge queue that no engine uses is sync's: the machine knows no other owners but scalar. */
void as_own_queues(isa_program *p);

/* uses.c: which instructions so far use each tile. */
typedef struct as_tile_use {
  bool read, written, by_static; /* by_static: a static transfer names it */
  struct {
    uint32_t first, last; /* pc + 1, 0: none */
  } in[AS_NSECTIONS];
} as_tile_use;
typedef struct as_uses {
  as_tile_use *tile;        /* by base */
  bool wrote_raw, read_raw; /* a pattern without a tile is: it may be any */
} as_uses;
const as_uses *as_uses_of(as_job *j);
/* "sync 0 to 12, vector 3", "" when nothing uses it. */
const char *as_use_text(as_job *j, const as_tile_use *u);

/* tilemap.c: the map of SBUF and PSUM in the listing. */
void as_tile_map(as_job *j, isa_buf *out);

/* warn.c: what only shows over the whole program. */
void as_warn_program(as_job *j);

/* order.c: numbers the patterns, pool runs and files of a program again, in the order of its
 * sections, as its text would: so the disassembler's text gives the same bytes. */
void as_order(as_job *j, isa_program *p);

/* extern.c: names between objects. */
struct as_fixup;
void as_global(as_cur *c, const as_tok *at);
bool as_extern(as_cur *c, const as_tok *at); /* true when it has listed its line */
/* Numbers the names that the linker must know; before the branches are fixed. */
void as_extern_number(as_job *j);
/* A branch to an extern label. */
void as_extern_branch(as_job *j, const struct as_fixup *f);
/* At the end: globals that are nowhere; of a relocatable object, its file. */
void as_extern_end(as_job *j);
void as_object_make(as_job *j);

/* listing.c */
void as_list_insns(as_job *j, as_pos pos, unsigned section, uint32_t pc, uint32_t n, bool shown);
void as_list_line(as_job *j, as_pos pos); /* without code */
void as_listing(as_job *j);
const char *as_tensor_text(as_job *j, const isa_tensor *t); /* "a float32[8,8]" */
const char *as_tile_text(as_job *j, const isa_tile *t);     /* "sbuf float32[8,8]" */
/* The listing of a linked program: its sections with the objects' code one after the other, and the
 * tables. object: their n names; base: for each, where its code begins in each section. */
void as_listing_linked(as_job *j, uint32_t n, const char *const *object,
                       const uint32_t (*base)[AS_NSECTIONS]);

/* ---- The unit: what the back half keeps between lines --------------------------------------- */

typedef struct as_fixup { /* a branch whose label was not defined yet */
  uint32_t pc, span;
  uint8_t section;
  as_sym *label;
  as_pos pos;
} as_fixup;

typedef struct as_region { /* bytes of a memory that a tile has */
  uint32_t tile;           /* 1-based */
  uint32_t lo, hi;         /* within a partition */
  uint16_t part, nparts;
  const char *overlay;
} as_region;

typedef struct as_regions { /* ascending lo */
  as_region *v;
  uint32_t n, cap;
} as_regions;

enum as_block_kind { AS_B_LOOP, AS_B_IF, AS_B_ELSE };
typedef struct as_block { /* an open loop or if */
  as_pos pos;
  uint32_t span;
  uint8_t kind, reg, section;
  bool bad; /* reported; its end is skipped */
  isa_int stop;
  int32_t step;
  uint32_t top;  /* pc of the first instruction of a loop's body */
  int64_t guard; /* pc of the branch around the block, -1: none exists */
} as_block;
enum { AS_MAX_BLOCKS = 64 };

typedef struct as_block_end { /* the furthest pc that the end of a block is branched to for */
  uint32_t pc;
  as_pos pos;
} as_block_end;

typedef struct as_sem_use {     /* of a semaphore, by `$` clauses */
  bool updated, waited, shared; /* shared: with other objects */
  as_pos wait, update; /* the first wait that a fresh semaphore does not satisfy; first update */
  uint32_t wait_span, update_span;
} as_sem_use;

typedef struct as_entry { /* a line of the listing */
  as_pos pos;
  uint32_t pc, n;
  uint8_t section; /* AS_NSECTIONS: no code */
  bool shown;      /* print the instructions too */
} as_entry;

typedef struct as_open_data { /* a const tensor whose data lines are being read */
  const as_tok *name;         /* copied; NULL: none is open */
  uint32_t tensor;            /* 1-based */
  uint8_t *bytes;
  uint64_t n, size; /* so far, of */
  bool bad;         /* an error was reported: further lines are read without messages */
} as_open_data;

typedef struct as_room { /* what the allocator was asked for a tile */
  uint32_t align, bytes;
} as_room;

struct as_unit {
  as_room *rooms; /* by tile, of a relocatable object */
  uint32_t cap_rooms;
  struct as_reloc *relocs;
  uint32_t nrelocs, cap_relocs;
  as_open_data data;
  bool target_fixed; /* something depends on it */
  unsigned section;  /* the current one, AS_NSECTIONS before the first */
  unsigned core;     /* whose patterns operands become: the section's */
  bool both;         /* the section is `core=*`: each line is for one core, then for the other */
  bool parsing;      /* a line is being parsed: CORE has its value */
  const char *base[AS_NSECTIONS]; /* last code label */
  as_fixup *fixups;
  uint32_t nfixups, cap_fixups;
  as_regions sbuf, psum;
  as_block blocks[ISA_MAX_CORES][AS_MAX_BLOCKS]; /* by core: the copies of a `core=*` section */
  unsigned nblocks[ISA_MAX_CORES];
  as_entry *entries;
  uint32_t nentries, cap_entries;
  as_pos last[AS_NSECTIONS]; /* of the last instruction of each section */
  as_block_end block_end[AS_NSECTIONS];
  bool ended[AS_NSECTIONS]; /* its last instruction goes elsewhere, and no label has come since */
  as_sem_use sems[ISA_MAX_CORES][ISA_NSEMS];
  const as_line *line; /* the current one */
  uint32_t *files;     /* the program's number of each source, 0: not added */
  uint32_t cap_files;
};

/* The program, made with the target on first use. */
isa_program *as_program(as_job *j);
/* The code of a section. */
static inline isa_code *as_code(as_job *j, unsigned section) {
  return &as_program(j)->cores[as_core_of(section)].code[as_engine_of(section)];
}
/* "vector", of the second core "vector core=1". */
const char *as_section_name(as_job *j, unsigned section);

#endif
