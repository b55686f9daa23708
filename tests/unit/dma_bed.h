/* What the DMA tests share: the shares of a run, and refusals. */
#ifndef TESTS_DMA_BED_H
#define TESTS_DMA_BED_H

#include "../../isa/isa.h"
#include "vm_bed.h"

enum { SHARES = 4096 };
typedef struct shares { /* of the transfers of a run, in order of completion */
  struct share {
    unsigned dma, queue;
    soma_time start, end;
    uint64_t bytes;
  } v[SHARES];
  unsigned n;
} shares;

static void note_share(void *ud, const soma_event *e) {
  shares *s = ud;
  if (e->kind == SOMA_EV_DMA && s->n < SHARES)
    s->v[s->n++] = (struct share){e->engine, e->id, e->start, e->end, e->bytes};
}

/* A bed whose shares are noted in s. */
static inline bed bed_open_shares(shares *s, const char *text) {
  soma_options o = SOMA_OPTIONS_INIT;
  s->n = 0;
  o.event = note_share;
  o.event_ud = s;
  return bed_open(&o, text);
}

static inline uint64_t bytes_of_engine(const shares *s, unsigned dma) {
  uint64_t n = 0;
  for (unsigned i = 0; i < s->n; i++) n += s->v[i].dma == dma ? s->v[i].bytes : 0;
  return n;
}

static inline void tile_write(bed *b, const char *name, uint32_t p, uint32_t col, size_t esize,
                              const void *from, size_t n) {
  soma_tile_info t;
  for (uint32_t i = 0; i < soma_program_tiles(b->p); i++) {
    assert_int_equal(soma_program_tile(b->p, i, &t), SOMA_OK);
    if (strcmp(t.name, name) == 0) {
      assert_int_equal(soma_memory_write(b->m, SOMA_SBUF, t.partition + p, t.offset + col * esize,
                                         from, n * esize),
                       SOMA_OK);
      return;
    }
  }
  fail_msg("no tile %s", name);
}

/* Assembling text fails with a message that has part. */
static inline void refused(const char *text, const char *part) {
  soma_machine *m;
  soma_program *p = NULL;
  soma_diagnostics *d = NULL;
  assert_int_equal(soma_machine_new(NULL, &m), SOMA_OK);
  soma_status s = soma_assemble(m, text, strlen(text), "test.s", NULL, &p, &d);
  if (s != SOMA_SYNTAX) fail_msg("assembled, though it should say \"%s\":\n%s", part, text);
  if (!strstr(soma_diagnostics_text(d), part))
    fail_msg("says:\n%snot \"%s\"", soma_diagnostics_text(d), part);
  soma_diagnostics_free(d);
  soma_program_free(p);
  soma_machine_free(m);
}

#endif
