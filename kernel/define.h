/* What is written of each buffer, for define.c. */
#ifndef KERNEL_DEFINE_H
#define KERNEL_DEFINE_H

#include "impl.h"

typedef struct as_k_run {
  int64_t lo, hi;
} as_k_run;

/* Partitions p0 .. p1 - 1 of a buffer have the same bytes written: runs by place, apart. */
typedef struct as_k_strip {
  uint16_t p0, p1;
  uint32_t n, cap;
  as_k_run *runs;
} as_k_strip;

/* What is written of a buffer, when it is some of it: most often one box, else strips by partition,
 * together all of it. */
typedef struct as_k_cover {
  int64_t lo, hi;     /* of the box */
  uint16_t p0, p1;    /* the same: nothing is written */
  as_k_strip *strips; /* n > 0: the box is in them as well, and does not count */
  uint32_t n, cap;
  uint32_t next;         /* of one that is free: the next free one */
  uint32_t writer;       /* 1 + item that wrote it last */
  uint32_t first_matmul; /* 1 + item */
  uint32_t first_loop;   /* that it is in, 0: none */
  bool vague;            /* something wrote it at places known only at run time */
} as_k_cover;

/* A place of fixed tiles, in its memory. */
typedef struct as_k_area {
  uint8_t space;
  bool shared; /* several tiles have bytes of it */
  bool meant;  /* tiles of several lines have all of it, or others some of it */
  bool vague;  /* something wrote it at places known only at run time */
  uint16_t p0, p1;
  uint32_t lo, hi;
  uint32_t tile;  /* the first one */
  uint32_t since; /* 1 + the first item whose bytes may still be there; 0: nothing wrote it */
} as_k_area;

/* SBUF and PSUM have numbers after those of the buffers: what is written there through fixed tiles
 * that share bytes. */
enum { K_MEMORIES = 2 };

/* Most buffers are written as a whole by their first write, so that few have a cover at once. */
typedef struct as_k_definer {
  as_kernel *k;
  uint32_t *numbers; /* by buffer: of its cover, from 1 on; 0: nothing is written; K_NONE: all is */
  as_k_cover *covers;
  uint32_t ncovers, cap_covers, free; /* free: the first one that no buffer has */
  uint32_t open;                      /* the loop that items are in */
  as_k_area *areas;                   /* by space and place */
  uint32_t nareas, cap_areas;
  uint32_t *area_of; /* by buffer, 1-based; 0: it has no fixed place. NULL: none has */
  uint32_t peel;     /* a loop whose first round differs from the others; 0: none was met */
} as_k_definer;

/* ---- cover.c ---- */

/* The cover of a buffer; NULL when nothing or all of it is written. */
as_k_cover *as_k_cover_of(const as_k_definer *d, uint32_t buffer);
/* The same of one that is not all written, made when it is not there; NULL: memory is out. It lies
 * there until the next one is made. */
as_k_cover *as_k_make_cover(as_k_definer *d, uint32_t buffer);
/* A buffer has no cover from here on: `number` is 0 or K_NONE. */
void as_k_drop_cover(as_k_definer *d, uint32_t buffer, uint32_t number);
bool as_k_in_box(const as_k_cover *c, const as_k_bytes *b);
bool as_k_write_bytes(as_k_definer *d, as_k_cover *c, uint32_t buffer, const as_k_bytes *bytes);
enum { K_NOTHING, K_SOME, K_ALL, K_FAILED };
/* How much of the bytes is written; *part, *byte: partition and byte of the first that is not.
 * K_FAILED: memory is out. */
int as_k_state_of(as_k_definer *d, uint32_t buffer, const as_k_bytes *bytes, unsigned *part,
                  int64_t *byte);
void as_k_close_covers(as_k_definer *d);

/* ---- areas.c ---- */

bool as_k_open_areas(as_k_definer *d);
void as_k_close_areas(as_k_definer *d);
/* The area of a tile that shares bytes with others; else NULL. */
as_k_area *as_k_area_of(const as_k_definer *d, uint32_t buffer);
/* Notes what an item writes; bytes: of its tile, NULL: known only at run time; whole: they are all
 * of the tile. */
bool as_k_area_write(as_k_definer *d, as_k_area *a, uint32_t item, const as_k_bytes *bytes,
                     bool whole);
/* A read through a tile of what other tiles may have written: like as_k_state_of. The tile lives
 * from their items on. Sets *vague if some are written at places known only at run time. */
int as_k_area_read(as_k_definer *d, const as_k_area *a, uint32_t buffer, const as_k_bytes *bytes,
                   bool *vague, unsigned *part, int64_t *byte);

#endif
