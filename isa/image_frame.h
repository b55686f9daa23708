/* A program file that is being read: its sections, and refusals that name them. image_frame.c finds
 * the sections, image_read.c reads what is in them. */
#ifndef ISA_IMAGE_FRAME_H
#define ISA_IMAGE_FRAME_H

#include "image.h"

typedef struct isa_section {
  const uint8_t *at; /* NULL: not in the file */
  uint64_t offset, size;
  uint32_t n; /* records, where a record is more than a byte */
  uint8_t kind, core, engine;
} isa_section;

typedef struct isa_image {
  const uint8_t *data;
  size_t n;
  uint32_t nsections, features;
  isa_program *p;
  isa_error *e;
  const char *strings; /* STRS, copied to the arena */
  size_t nstrings, next_name;
  uint32_t next_section; /* the first that may come, numbered by kind, core and engine */
  isa_section s[IMAGE_NSECTIONS][ISA_MAX_CORES][ISA_NSEQS];
} isa_image;

/* Reads the header and the table of sections; false: im->e says what is wrong. */
bool isa_image_frame(isa_image *im);
/* Refuses a section; false. */
bool isa_image_bad(const isa_image *im, const isa_section *s, const char *fmt, ...)
    ISA_PRINTF(3, 4);

#endif
