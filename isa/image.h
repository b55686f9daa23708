/* The layout of an .sbc file, shared by its writer and its reader. All numbers little endian.
 *
 *   0  ISA_IMAGE_MAGIC   4 version u16   6 zero u16   8 hash u64: FNV-1a of every byte from 16 on
 *  16  target's name, 16 bytes, zero-padded; of a hypothetical machine that of its base
 *  32  feature bits u32   36 cores u32   40 sections u32   44 zero u32
 *  48  section table, 24 bytes each: tag, flags u32, offset, size u64
 *  ..  sections, each at the next multiple of 8 after the one before it, zero-padded between;
 *      the file ends with the last one. No section is empty or appears twice; they are ordered by
 *      kind as below, then core, then engine.
 *
 * A section's flags: bit 0 optional (a reader that does not know it skips it), bits 8-15 core,
 * bits 16-23 engine, if the section belongs to one. Names are offsets into STRS; 0: no name. */
#ifndef ISA_IMAGE_H
#define ISA_IMAGE_H

#include "bytes.h"
#include "program.h"

enum {
  IMAGE_VERSION = 1,
  IMAGE_HASHED = 16,    /* where the hash begins */
  IMAGE_TARGET = 16,    /* bytes of the target's name */
  IMAGE_TABLE = 48,     /* where the section table is */
  IMAGE_ENTRY = 24,     /* bytes of an entry of it */
  IMAGE_OPTIONAL = 1,   /* flag */
  IMAGE_DATA_ALIGN = 64 /* of a const tensor within DATA */
};

/* Feature bits: what a reader must know to understand the file. */
enum image_feature {
  IMAGE_SBUFS = 1,   /* patterns of the other core's SBUF */
  IMAGE_ROWS = 2,    /* tensors whose first dimension the host gives */
  IMAGE_WORLD = 4,   /* sections of CC sequencers, and what they name of other ranks */
  IMAGE_MACHINE = 8, /* for a hypothetical machine: section MACH */
  IMAGE_FEATURES = IMAGE_SBUFS | IMAGE_ROWS | IMAGE_WORLD | IMAGE_MACHINE
};
uint32_t isa_image_features(const isa_program *p);

enum image_per { IMAGE_PROGRAM, IMAGE_CORE, IMAGE_ENGINE };

/* SECTION(tag, owner, optional, bytes of a record)
 * MACH the text of a hypothetical machine, as isa_target_read has it
 * FILE names u32
 * TNSR name u32, dtype role ndim rows u8, 8 shape i64, bytes u64, offset in DATA u64
 * DATA of const tensors in order, each at a multiple of IMAGE_DATA_ALIGN, zero-padded
 * TILE name overlay u32, dtype space ndim own u8, part zero u16, 5 shape u32, offset bytes u32,
 *      zero u32
 * ITER line u32, iteration u32, iterations u31, numbered u1: as many as TILE
 * GRPS replica groups (image_groups.c)
 * PEER group value u32, how zero zero zero u8
 * POOL bytes
 * PATS patterns (codec.c)
 * QUES name u32, dge rings owner prio u8, static transfers u32
 * DESC static transfers of all queues in order (codec.c)
 * SEMS number u32, name u32, by rising number
 * CODE instructions (codec.c)
 * LINE file u32, line u32: as many as CODE
 * FROM the call u32 that produced each line, 0 none: as many as LINE
 * CALL macro calls and rounds of %rep (image_calls.c)
 * SYMB name u32, core engine global zero u8, pc u32
 * STRS strings, each with its final 0: an empty one, then the names in the order in which the
 *      sections use them, equal ones too, so that a program has one file */
#define IMAGE_SECTIONS(SECTION)         \
  SECTION(MACH, PROGRAM, 0, 1)          \
  SECTION(FILE, PROGRAM, 1, 4)          \
  SECTION(TNSR, PROGRAM, 0, 88)         \
  SECTION(DATA, PROGRAM, 0, 1)          \
  SECTION(TILE, PROGRAM, 0, 48)         \
  SECTION(ITER, PROGRAM, 1, 12)         \
  SECTION(GRPS, PROGRAM, 0, 1)          \
  SECTION(PEER, PROGRAM, 0, 12)         \
  SECTION(POOL, PROGRAM, 0, 1)          \
  SECTION(PATS, CORE, 0, ISA_AP_RECORD) \
  SECTION(QUES, CORE, 0, 12)            \
  SECTION(DESC, CORE, 0, ISA_RECORD)    \
  SECTION(SEMS, CORE, 0, 8)             \
  SECTION(CODE, ENGINE, 0, ISA_RECORD)  \
  SECTION(LINE, ENGINE, 1, 8)           \
  SECTION(FROM, ENGINE, 1, 4)           \
  SECTION(CALL, PROGRAM, 1, 1)          \
  SECTION(SYMB, PROGRAM, 0, 12)         \
  SECTION(STRS, PROGRAM, 0, 1)

enum image_section {
#define SECTION(tag, per, optional, record) IMAGE_##tag,
  IMAGE_SECTIONS(SECTION)
#undef SECTION
      IMAGE_NSECTIONS
};

typedef struct image_kind {
  char tag[5];
  uint8_t per, optional, record;
} image_kind;
extern const image_kind isa_image_kinds[IMAGE_NSECTIONS];

/* image_calls.c: section CALL. Getting gives NULL, what is wrong with the bytes, or "" when memory
 * is out. */
void isa_image_put_calls(const isa_program *p, isa_buf *out);
const char *isa_image_get_calls(isa_program *p, const uint8_t *data, size_t n);

/* image_groups.c: section GRPS, likewise. */
void isa_image_put_groups(const isa_program *p, isa_buf *out);
const char *isa_image_get_groups(isa_program *p, const uint8_t *data, size_t n);
/* Section MACH: what is wrong, or NULL. */
const char *isa_image_get_machine(isa_program *p, const uint8_t *data, size_t size);
/* Section PEER, likewise. */
void isa_image_put_peers(const isa_program *p, isa_buf *out);
const char *isa_image_get_peers(isa_program *p, const uint8_t *data, size_t n);
/* The name at *at, which moves past it; NULL when none ends there. (image_calls.c) */
const char *isa_image_name(const char **at, const char *end);

/* A section's tag as the number in the table: the four characters in file order. */
static inline uint32_t image_tag(const char tag[5]) { return isa_get32((const uint8_t *)tag); }

static inline uint64_t image_align(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* How many cores and engines a kind of section has at most: loop bounds. */
static inline unsigned image_cores(const image_kind *k, unsigned ncores) {
  return k->per == IMAGE_PROGRAM ? 1 : ncores;
}
static inline unsigned image_engines(const image_kind *k) {
  return k->per == IMAGE_ENGINE ? ISA_NSEQS : 1;
}

#endif
