/* Section CALL: macro calls and rounds of %rep that gave instructions. A count u32, then of each
 * call: file, line, outer and round u32 as in isa_call, then the names, each with its final 0. */
#include "image.h"

#include <string.h>

enum { HEAD = 4, RECORD = 16 };

/* Section CALL exists only where a line comes from a macro (image.c). */
void isa_image_put_calls(const isa_program *p, isa_buf *out) {
  uint8_t r[RECORD];
  isa_put32(r, p->ncalls);
  isa_buf_add(out, (const char *)r, HEAD);
  for (uint32_t i = 0; i < p->ncalls; i++) {
    const isa_call *c = &p->calls[i];
    isa_put32(r, c->file);
    isa_put32(r + 4, c->line);
    isa_put32(r + 8, c->outer);
    isa_put32(r + 12, c->round);
    isa_buf_add(out, (const char *)r, RECORD);
  }
  for (uint32_t i = 0; i < p->ncalls; i++)
    isa_buf_add(out, p->calls[i].name, strlen(p->calls[i].name) + 1);
}

/* Names are shown in messages: a control character has no place in one. */
const char *isa_image_name(const char **at, const char *end) {
  const char *name = *at, *zero = end > name ? memchr(name, 0, (size_t)(end - name)) : NULL;
  for (const char *s = name; zero && s < zero; s++)
    if ((unsigned char)*s < 32 || *s == 127) return NULL;
  if (zero) *at = zero + 1;
  return zero ? name : NULL;
}

const char *isa_image_get_calls(isa_program *p, const uint8_t *data, size_t n) {
  uint64_t count = n < HEAD ? 0 : isa_get32(data);
  /* A name has its final 0 at least. */
  if (count == 0 || count > (n - HEAD) / (RECORD + 1)) return "the count of calls does not fit";
  const char *at = (const char *)data + HEAD + RECORD * (size_t)count;
  const char *end = (const char *)data + n;
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *r = data + HEAD + RECORD * (size_t)i;
    isa_call c = {isa_image_name(&at, end), isa_get32(r), isa_get32(r + 4), isa_get32(r + 8),
                  isa_get32(r + 12)};
    if (!c.name) return "a call has no name, or one with a control character";
    if (c.file > p->nfiles) return "the file of a call is not in the table";
    /* What it comes from is before it, so that following them ends. */
    if (c.outer > i) return "a call comes from one that is not before it";
    /* Rounds are numbered from 1, and have no name. */
    if ((c.name[0] == 0) != (c.round > 0)) return "a call must be a macro's or a round of a %rep";
    if (!isa_program_call(p, &c)) return "";
  }
  return at == end ? NULL : "bytes after the names";
}
