/* Targets: rows of targets.def, and hypothetical machines, which are such a row with other values:
 *   trn2, sbuf_kib=384, pe_clock_ghz=2.8, DMA_R_IN=40000 */
#include "target.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The table has a value in the unit of its key; isa_target keeps bytes, banks' bytes or
 * kHz. */
typedef enum unit { N, KIB, BANK, GHZ } unit; /* the factors below */
typedef struct key {
  const char *name;
  size_t at; /* of its uint32_t in isa_target */
  unit unit;
  double least, most;
  const char *what;
} key;

static const key keys[] = {
#define KEY(name, member, unit, least, most, what) \
  {#name, offsetof(isa_target, member), unit, least, most, what},
#include "target_keys.def"
};
enum { NKEYS = sizeof keys / sizeof *keys };
static const uint32_t factors[] = {[N] = 1, [KIB] = 1024, [BANK] = ISA_PSUM_BANK, [GHZ] = 1000000};

static const char mark[] = "hypothetical";

/* ---- Words --------------------------------------------------------------------------------- */

/* A text of bounded length; full: something did not fit.
 * Names have a limit; a machine's name that reaches it is refused, not cut. */
typedef struct text {
  char s[400];
  size_t n;
  bool full;
} text;

static void put(text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, ap);
  va_end(ap);
  t->full |= n < 0 || (size_t)n >= sizeof t->s - t->n;
  if (!t->full) t->n += (size_t)n;
}

typedef struct reader {
  const char *at, *end;
  isa_target *t;
  bool based;
  uint32_t given; /* mask of keys */
  text constants;
  isa_error *e;
} reader;

typedef struct word {
  const char *p;
  size_t n;
} word;

static bool is_end(char c) { return c == ',' || c == '\n'; }
static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next item: up to a comma or the line's end, without a comment and the space around it.
 * A file has an item in a line, a command's option has commas: both are read alike. */
static word next_item(reader *r) {
  word w = {r->at, 0};
  bool comment = false;
  for (; r->at < r->end && !(comment ? *r->at == '\n' : is_end(*r->at)); r->at++) {
    comment |= *r->at == '#' || *r->at == ';';
    if (!comment) w.n++;
  }
  /* Over the separator. */
  if (r->at < r->end) r->at++;
  while (w.n && is_blank(*w.p)) w.p++, w.n--;
  while (w.n && is_blank(w.p[w.n - 1])) w.n--;
  return w;
}

static word trimmed(const char *p, const char *end) {
  while (p < end && is_blank(*p)) p++;
  while (p < end && is_blank(end[-1])) end--;
  /* A value may be in quotes. */
  if (end - p >= 2 && *p == '"' && end[-1] == '"') p++, end--;
  return (word){p, (size_t)(end - p)};
}

/* A word as a message shows it. */
static const char *shown(word w, char out[static 48]) {
  size_t n = w.n < 47 ? w.n : 47;
  for (size_t i = 0; i < n; i++) out[i] = w.p[i] >= ' ' && w.p[i] < 0x7f ? w.p[i] : '?';
  out[n] = 0;
  return out;
}

/* A decimal number with up to six places, in millionths.
 * Whole numbers only, in millionths: 2.8 is 2800000, without a rounding of the host. */
static bool number(word w, uint64_t *out) {
  int places = -1;
  *out = 0;
  for (size_t i = 0; i < w.n; i++) {
    if (w.p[i] == '.' && places < 0 && i > 0) {
      places = 0;
      continue;
    }
    /* The second condition keeps the product below from wrapping. */
    if (w.p[i] < '0' || w.p[i] > '9' || *out > UINT32_MAX * 100000ull || places == 6) return false;
    *out = *out * 10 + (uint64_t)(w.p[i] - '0');
    if (places >= 0) places++;
  }
  for (int i = places < 0 ? 0 : places; i < 6; i++) {
    if (*out > UINT64_MAX / 10) return false;
    *out *= 10;
  }
  /* "2." and "" are no numbers. */
  return w.n > 0 && w.p[w.n - 1] != '.';
}

/* ---- Items --------------------------------------------------------------------------------- */

#define REFUSE(r, ...) isa_fail((r)->e, ISA_ARG, ISA_NOFIELD, "target: " __VA_ARGS__)

static bool take_base(reader *r, word w) {
  char name[48];
  int t = isa_target_find(w.p, w.n);
  if (t < 0) {
    text names = {.n = 0};
    for (unsigned i = 0; i < ISA_NTARGETS; i++)
      put(&names, "%s%s", i ? ", " : "", isa_targets[i].name);
    return isa_fail(r->e, ISA_ARG, ISA_NOFIELD, "unknown target '%s'; there are: %s",
                    shown(w, name), names.s);
  }
  if (r->based) /* The base is first, since it sets all values that the keys then change. */
    return REFUSE(r, "its base is %s, and then %s; it has one base", r->t->name,
                  isa_targets[t].name);
  r->based = true;
  *r->t = isa_targets[t];
  return true;
}

static bool take_key(reader *r, const key *k, word value) {
  char is[48];
  uint64_t v;
  uint32_t number_of = (uint32_t)(k - keys);
  bool whole = k->unit != GHZ; /* a clock may have a fraction */
  /* Twice the same key is most often a mistake in a long list. */
  if (r->given >> number_of & 1) return REFUSE(r, "%s is given twice", k->name);
  if (!number(value, &v) || (whole && v % 1000000) || (double)v < k->least * 1e6 ||
      (double)v > k->most * 1e6)
    return REFUSE(r, "%s is %s; it is a%s number from %g to %g: %s", k->name, shown(value, is),
                  whole ? " whole" : "", k->least, k->most, k->what);
  r->given |= 1u << number_of;
  /* v is in millionths. */
  uint32_t kept = (uint32_t)(v * factors[k->unit] / 1000000);
  memcpy((char *)r->t + k->at, &kept, sizeof kept);
  return true;
}

/* The form of DMA_R_IN: a name of at most 24 characters. */
static bool is_constant(word w) {
  for (size_t i = 0; i < w.n; i++)
    if (!(w.p[i] >= 'A' && w.p[i] <= 'Z') && w.p[i] != '_' &&
        !(i && w.p[i] >= '0' && w.p[i] <= '9'))
      return false;
  return w.n > 0 && w.n <= 24;
}

/* A constant of the clock. The machine knows their names; here it only has their form. */
static bool take_constant(reader *r, word name, word value) {
  char of[48], is[48];
  uint64_t v;
  if (!number(value, &v) || v % 1000000 || v / 1000000 > UINT32_MAX)
    return REFUSE(r, "%s is %s; a constant of the clock is a whole number", shown(name, of),
                  shown(value, is));
  /* Kept as text: costs are applied when a run starts (isa_target_constant). */
  put(&r->constants, ", %s=%llu", shown(name, of), (unsigned long long)(v / 1000000));
  return true;
}

/* All keys in the message: there are few. */
static bool unknown_key(reader *r, word name) {
  char of[48];
  text names = {.n = 0};
  for (unsigned i = 0; i < NKEYS; i++) put(&names, ", %s", keys[i].name);
  return REFUSE(r, "there is no '%s'; there are base%s, and the constants of the clock",
                shown(name, of), names.s);
}

static bool take_item(reader *r, word w) {
  const char *equals = memchr(w.p, '=', w.n);
  size_t n = sizeof mark - 1;
  /* The name by which such a machine is shown begins so. */
  if (!equals && w.n > n && memcmp(w.p, mark, n) == 0 && is_blank(w.p[n])) {
    /* Then what follows is the base, as in the name. */
    w = trimmed(w.p + n, w.p + w.n);
  }
  if (!equals) return take_base(r, w);
  word name = trimmed(w.p, equals), value = trimmed(equals + 1, w.p + w.n);
  if (name.n == 4 && memcmp(name.p, "base", 4) == 0) return take_base(r, value);
  if (!r->based) return REFUSE(r, "it begins with the target that it changes, as base = trn2");
  for (unsigned i = 0; i < NKEYS; i++)
    if (strlen(keys[i].name) == name.n && memcmp(keys[i].name, name.p, name.n) == 0)
      return take_key(r, &keys[i], value);
  return is_constant(name) ? take_constant(r, name, value) : unknown_key(r, name);
}

/* ---- Targets ------------------------------------------------------------------------------- */

static void put_value(text *out, const key *k, uint32_t v) {
  /* Six places without zeros at the end: 2.8, as it was given. */
  if (k->unit != GHZ) {
    put(out, ", %s=%u", k->name, v / factors[k->unit]);
    return;
  }
  put(out, ", %s=%u", k->name, v / 1000000);
  if (v % 1000000 == 0) return;
  put(out, ".%06u", v % 1000000);
  while (out->s[out->n - 1] == '0') out->s[--out->n] = 0;
}

/* The name by which a hypothetical machine is shown, and read again: what differs from its base. */
static bool name_it(reader *r) {
  const isa_target *base = isa_target_base(r->t);
  text name = {.n = 0}, changes = {.n = 0};
  /* Only what differs: machines that are alike have one name. */
  for (unsigned i = 0; i < NKEYS; i++) {
    uint32_t v, was;
    memcpy(&v, (const char *)r->t + keys[i].at, sizeof v);
    memcpy(&was, (const char *)base + keys[i].at, sizeof was);
    if (v != was) put_value(&changes, &keys[i], v);
  }
  put(&changes, "%s", r->constants.s);
  if (!changes.n) return true; /* it is the base */
  put(&name, "%s %s%s", mark, base->name, changes.s);
  if (changes.full || name.full || r->constants.full || name.n >= sizeof r->t->name)
    return REFUSE(r,
                  "what it changes takes more than %zu characters; constants of the clock may "
                  "also be given as costs",
                  sizeof r->t->name - 1);
  r->t->hypothetical = true;
  memcpy(r->t->name, name.s, name.n + 1);
  return true;
}

/* On refusal *out is as it was. */
bool isa_target_read(const char *from, size_t n, isa_target *out, isa_error *e) {
  isa_target made;
  reader r = {.at = from, .end = from + n, .t = &made, .e = e};
  while (r.at < r.end) {
    word w = next_item(&r);
    if (w.n && !take_item(&r, w)) return false;
  }
  /* Nothing was given: it is refused as an unknown target. */
  if (!r.based && !take_base(&r, (word){from, n})) return false;
  /* A partition of another size is free for programs as a whole. */
  if (made.sbuf_bytes != isa_target_base(&made)->sbuf_bytes) made.sbuf_usable = made.sbuf_bytes;
  if (!name_it(&r)) return false;
  *out = made;
  return true;
}

/* Real machines are rows that last; only a made-up one has to be copied. */
const isa_target *isa_target_keep(const isa_target *t, isa_target *own) {
  if (!t || !t->hypothetical) return t ? isa_target_base(t) : NULL;
  if (own != t) *own = *t;
  return own;
}

/* By name, which says all that differs. */
bool isa_target_same(const isa_target *a, const isa_target *b) {
  return a == b || (a && b && strcmp(a->name, b->name) == 0);
}

const isa_target *isa_target_base(const isa_target *t) { return &isa_targets[t->id]; }

/* from: where the last one began, NULL for the first. */
const char *isa_target_constant(const isa_target *t, const char *from, size_t *n) {
  const char *at = from ? from : t->hypothetical ? t->name : NULL;
  /* Constants are in capitals, keys are not. */
  while (at && (at = strstr(at, ", "))) {
    at += 2;
    if (*at < 'A' || *at > 'Z') continue;
    *n = strcspn(at, ",");
    return at;
  }
  return NULL;
}
