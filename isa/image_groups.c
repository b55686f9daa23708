/* Section MACH: a hypothetical machine. Section PEER: other ranks, by image.h.
 * Section GRPS: replica groups. A count u32, then of
 * each: lists u32, ranks u32, the lists' sizes and the ranks u32 each; then the names, each with
 * its final 0. */
#include "image.h"

#include <string.h>

enum { HEAD = 4, RECORD = 8, PEER_RECORD = 12 };

static void put_words(isa_buf *out, const uint32_t *words, uint32_t n) {
  uint8_t r[4];
  for (uint32_t i = 0; i < n; i++) {
    isa_put32(r, words[i]);
    isa_buf_add(out, (const char *)r, sizeof r);
  }
}

/* Names stand last, as records have no fixed size and names none at all. */
void isa_image_put_groups(const isa_program *p, isa_buf *out) {
  put_words(out, &p->ngroups, 1);
  for (uint32_t i = 0; i < p->ngroups; i++) {
    const isa_group *g = &p->groups[i];
    put_words(out, &g->nlists, 1);
    put_words(out, &g->nranks, 1);
    put_words(out, g->sizes, g->nlists);
    put_words(out, g->ranks, g->nranks);
  }
  for (uint32_t i = 0; i < p->ngroups; i++)
    isa_buf_add(out, p->groups[i].name, strlen(p->groups[i].name) + 1);
}

/* Where the record of the next group is, NULL when this one does not fit. */
static const uint8_t *next_record(const uint8_t *r, const uint8_t *end) {
  if (end - r < RECORD) return NULL;
  uint64_t lists = isa_get32(r), ranks = isa_get32(r + 4);
  /* There are no empty lists, so no more lists than ranks.
   * Bounded by 65,536 ranks, so the sum below fits. */
  if (lists == 0 || lists > ranks || ranks > ISA_MAX_RANKS) return NULL;
  uint64_t bytes = RECORD + 4 * (lists + ranks);
  return bytes <= (uint64_t)(end - r) ? r + bytes : NULL;
}

/* Copied to words of the host: the bytes of the file need not be aligned. */
static bool get_group(isa_program *p, const uint8_t *r, const char *name) {
  isa_group g = {.name = name, .nlists = isa_get32(r), .nranks = isa_get32(r + 4)};
  size_t n = (size_t)g.nlists + g.nranks;
  uint32_t *words = isa_zalloc(&p->arena.al, n * sizeof *words);
  if (!words) return false;
  for (size_t i = 0; i < n; i++) words[i] = isa_get32(r + RECORD + 4 * i);
  g.sizes = words;
  g.ranks = words + g.nlists;
  bool ok = isa_program_group(p, &g) != 0;
  isa_free(&p->arena.al, words, n * sizeof *words);
  return ok;
}

/* The records are walked twice: the names' place is only known after the last one. */
const char *isa_image_get_groups(isa_program *p, const uint8_t *data, size_t n) {
  uint32_t count = n < HEAD ? 0 : isa_get32(data);
  const uint8_t *end = data + n, *r = data + HEAD;
  if (count == 0 || count > ISA_MAX_GROUPS) return "1 to 256 replica groups";
  for (uint32_t i = 0; i < count; i++) /* The names come after all records. */
    if (!(r = next_record(r, end))) return "lists and ranks of replica groups do not fit";
  const char *at = (const char *)r;
  r = data + HEAD;
  for (uint32_t i = 0; i < count; i++, r = next_record(r, end)) {
    const char *name = isa_image_name(&at, (const char *)end);
    if (!name) return "replica groups have no name, or one with a control character";
    if (!get_group(p, r, name)) return "";
  }
  return at == (const char *)end ? NULL : "bytes after the names";
}

/* The machine's text is its own name, so that a program has one file.
 * isa_target_read makes a name of what it has read; the section must be that very name. */
const char *isa_image_get_machine(isa_program *p, const uint8_t *data, size_t size) {
  isa_target *own = &p->own_target;
  if (!isa_target_read((const char *)data, size, own, NULL) || !own->hypothetical ||
      strlen(own->name) != size || memcmp(own->name, data, size) != 0)
    return "it is not the text of a hypothetical machine";
  /* The header has named its base. */
  if (isa_target_base(own) != p->target) return "it changes another target than the header's";
  p->target = own;
  return NULL;
}

void isa_image_put_peers(const isa_program *p, isa_buf *out) {
  for (uint32_t i = 0; i < p->npeers; i++) {
    const isa_peer *r = &p->peers[i];
    uint32_t record[] = {r->group, r->value, r->how};
    put_words(out, record, 3);
  }
}

/* The section's size is a multiple of a record's: read_table has compared them. */
const char *isa_image_get_peers(isa_program *p, const uint8_t *data, size_t size) {
  size_t n = size / PEER_RECORD;
  if (n > ISA_MAX_PEERS) return "more than 65535 peers";
  for (size_t i = 0; i < n; i++) {
    const uint8_t *r = data + PEER_RECORD * i;
    uint32_t how = isa_get32(r + 8);
    isa_peer peer = {.how = (uint8_t)how, .group = isa_get32(r), .value = isa_get32(r + 4)};
    if (how >= ISA_NPEERS || peer.group > p->ngroups) return "a peer has no such kind or group";
    uint32_t slot = isa_program_peer(p, &peer);
    if (slot == 0) return "";
    /* An equal one gives the number of the first. */
    if (slot <= i) return "a peer comes twice";
  }
  return NULL;
}
