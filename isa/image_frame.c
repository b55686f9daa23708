/* The frame of an .sbc file: its header, and where its sections are. Hostile input, as in
 * image_read.c. */
#include "image_frame.h"

#include <stdio.h>
#include <string.h>

bool isa_image_bad(const isa_image *im, const isa_section *s, const char *fmt, ...) {
  static const char *const owners[ISA_MAX_CORES] = {" of core 0", " of core 1"};
  const image_kind *k = &isa_image_kinds[s->kind];
  char text[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "section %s%s%s%s at byte 0x%llx: %s", k->tag,
                  k->per == IMAGE_PROGRAM ? "" : owners[s->core],
                  k->per == IMAGE_ENGINE ? ", " : "",
                  k->per == IMAGE_ENGINE ? isa_engines[s->engine].name : "",
                  (unsigned long long)s->offset, text);
}

static bool bad_head(const isa_image *im, unsigned at, const char *text) {
  return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "byte 0x%x: %s", at, text);
}

static bool read_header(isa_image *im) {
  const uint8_t *h = im->data;
  if (im->n >= 4 && memcmp(h, ISA_IMAGE_MAGIC, 4) != 0)
    return bad_head(im, 0, "not a program file: it does not begin with \\x7fSBC");
  if (im->n < IMAGE_TABLE)
    return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "%zu bytes: a program file has at least %d",
                    im->n, IMAGE_TABLE);
  if (isa_get16(h + 4) != IMAGE_VERSION)
    return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "format version %u: this reader knows %d",
                    isa_get16(h + 4), IMAGE_VERSION);
  if (isa_get16(h + 6) != 0) return bad_head(im, 6, "reserved, must be 0");
  uint64_t hash = isa_fnv(ISA_FNV_START, h + IMAGE_HASHED, im->n - IMAGE_HASHED);
  if (hash != isa_get64(h + 8))
    return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD,
                    "the content's hash is %016llx, the header says %016llx: the file is damaged",
                    (unsigned long long)hash, (unsigned long long)isa_get64(h + 8));
  const char *name = (const char *)h + 16;
  const char *end = memchr(name, 0, IMAGE_TARGET);
  size_t len = end ? (size_t)(end - name) : IMAGE_TARGET;
  int target = isa_target_find(name, len);
  if (target < 0) return bad_head(im, 16, "no such target");
  for (size_t i = len; i < IMAGE_TARGET; i++)
    if (name[i] != 0) return bad_head(im, 16, "bytes after the target's name");
  if (isa_get32(h + 32) & ~(uint32_t)IMAGE_FEATURES)
    return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "unknown feature bits 0x%x",
                    isa_get32(h + 32) & ~(uint32_t)IMAGE_FEATURES);
  im->features = isa_get32(h + 32);
  uint32_t ncores = isa_get32(h + 36);
  if (ncores < 1 || ncores > ISA_MAX_CORES)
    return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "byte 0x24: %u cores: a program has 1 or 2",
                    ncores);
  if (isa_get32(h + 44) != 0) return bad_head(im, 44, "reserved, must be 0");
  im->nsections = isa_get32(h + 40);
  im->p->target = &isa_targets[target];
  im->p->ncores = ncores;
  im->p->hash = hash;
  return true;
}

/* The kind of a tag, or IMAGE_NSECTIONS. */
static unsigned find_kind(uint32_t tag) {
  unsigned kind = 0;
  while (kind < IMAGE_NSECTIONS && image_tag(isa_image_kinds[kind].tag) != tag) kind++;
  return kind;
}

/* A section of no kind that is known: fine when it says so itself. */
static bool unknown_section(isa_image *im, uint32_t tag, uint32_t flags) {
  if (tag == image_tag("EXTN") || tag == image_tag("RELO"))
    return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "unresolved external symbols: link it first");
  if (flags & IMAGE_OPTIONAL) return true;
  return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "unknown section with tag 0x%08x", tag);
}

static bool known_section(isa_image *im, unsigned kind, uint32_t flags, uint64_t offset,
                          uint64_t size) {
  const image_kind *k = &isa_image_kinds[kind];
  isa_section s = {im->data + offset, offset, size, 0, (uint8_t)kind, 0, 0};
  uint32_t core = flags >> 8 & 255, engine = flags >> 16 & 255;
  if (core >= image_cores(k, im->p->ncores) || engine >= image_engines(k) || flags >> 24 != 0 ||
      (flags & 255) != k->optional)
    return isa_image_bad(im, &s, "flags 0x%x do not fit this kind of section", flags);
  s.core = (uint8_t)core;
  s.engine = (uint8_t)engine;
  isa_section *slot = &im->s[kind][core][engine];
  uint32_t order = (uint32_t)(slot - &im->s[0][0][0]);
  if (slot->at)
    return isa_image_bad(im, &s, "a second one; the first is at byte 0x%llx",
                         (unsigned long long)slot->offset);
  if (order < im->next_section)
    return isa_image_bad(im, &s, "it comes after a section that it should come before");
  im->next_section = order + 1;
  if (size % k->record != 0)
    return isa_image_bad(im, &s, "%llu bytes is not a multiple of %u", (unsigned long long)size,
                         k->record);
  if (k->record > 1 && size / k->record > UINT32_MAX)
    return isa_image_bad(im, &s, "too many records");
  s.n = k->record > 1 ? (uint32_t)(size / k->record) : 0;
  *slot = s;
  return true;
}

/* Sections follow one another without overlap or room, so each place is known before it is
 * read; the gap to a multiple of 8 is zero. */
static bool read_table(isa_image *im) {
  if (im->nsections > (im->n - IMAGE_TABLE) / IMAGE_ENTRY)
    return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD, "%u sections do not fit in %zu bytes",
                    im->nsections, im->n);
  uint64_t end = IMAGE_TABLE + (uint64_t)im->nsections * IMAGE_ENTRY;
  for (uint32_t i = 0; i < im->nsections; i++) {
    const uint8_t *entry = im->data + IMAGE_TABLE + (size_t)i * IMAGE_ENTRY;
    uint64_t offset = isa_get64(entry + 8), size = isa_get64(entry + 16);
    uint64_t want = image_align(end, 8);
    if (offset != want || offset > im->n || size == 0 || size > im->n - offset)
      return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD,
                      "section %u: %llu bytes at 0x%llx; it should begin at 0x%llx and not be "
                      "empty, and the file has %zu bytes",
                      i, (unsigned long long)size, (unsigned long long)offset,
                      (unsigned long long)want, im->n);
    for (; end < want; end++)
      if (im->data[end] != 0)
        return bad_head(im, (unsigned)end, "padding between sections must be 0");
    uint32_t tag = isa_get32(entry), flags = isa_get32(entry + 4);
    unsigned kind = find_kind(tag);
    if (kind == IMAGE_NSECTIONS ? !unknown_section(im, tag, flags)
                                : !known_section(im, kind, flags, offset, size))
      return false;
    end = offset + size;
  }
  if (end != im->n)
    return isa_fail(im->e, ISA_FORMAT, ISA_NOFIELD,
                    "the last section ends at byte 0x%llx, but the file has %zu bytes",
                    (unsigned long long)end, im->n);
  return true;
}

bool isa_image_frame(isa_image *im) { return read_header(im) && read_table(im); }
