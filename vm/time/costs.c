/* The constants of the clock as a machine has them: the table of costs.def, changed by text. */

#include "../../isa/target.h"
#include "clock.h"
#include <stdio.h>
#include <string.h>

void vm_costs_default(vm_costs *out) {
  for (unsigned g = 0; g < 3; g++)
    for (unsigned i = 0; i < VM_NCOSTS; i++) out->v[g][i] = vm_cost_rows[i].value[g];
}

/* The unit of a row decides what may be written there, so that no row needs a rule of its own. */
/* The values that a unit allows: no count, size or rate is 0. */
typedef struct range {
  const char *unit;
  uint32_t least, most;
} range;
static const range ranges[] = {
    {"CYC", 0, 1000000}, {"NS", 0, 1000000},    {"PS", 0, 1000000000}, {"MBNS", 1000, 100000000},
    {"N", 1, 65535},     {"B", 64, 1000000000}, {"PM", 1, 1000},       {"PCT", 1, 10000},
};

/* Each row's unit is in the list. */
static const range *range_of(const char *unit) {
  const range *r = ranges;
  while (strcmp(r->unit, unit) != 0) r++;
  return r;
}

bool vm_cost_allows(vm_cost_id id, uint32_t value) {
  const range *r = range_of(vm_cost_rows[id].unit);
  return value >= r->least && value <= r->most;
}

typedef struct word {
  const char *p;
  size_t n;
} word;

static bool is_space(char ch) { return ch == ' ' || ch == '\t' || ch == '\r'; }

/* Splits a line into at most `most` words up to a comment; returns how many there are. */
static unsigned words_of(const char *line, size_t n, word *w, unsigned most) {
  unsigned count = 0;
  for (size_t i = 0; i < n && line[i] != ';' && line[i] != '#';) {
    if (is_space(line[i])) {
      i++;
      continue;
    }
    size_t first = i;
    while (i < n && !is_space(line[i]) && line[i] != ';' && line[i] != '#') i++;
    /* More words than fit are counted, so that the message can say so. */
    if (count < most) w[count] = (word){line + first, i - first};
    count++;
  }
  return count;
}

static bool word_is(word w, const char *text) {
  return strlen(text) == w.n && memcmp(w.p, text, w.n) == 0;
}

static int cost_named(word w) {
  for (int i = 0; i < VM_NCOSTS; i++)
    if (word_is(w, vm_cost_rows[i].name)) return i;
  return -1;
}

/* Mask of the generations that a word names, 0 if it names none. */
static unsigned generations(word w) {
  static const char *const names[] = {"gen2", "gen3", "gen4"};
  for (unsigned g = 0; g < 3; g++)
    if (word_is(w, names[g])) return 1u << g;
  /* A target stands for its generation. */
  int t = isa_target_find(w.p, w.n);
  return t < 0 ? 0 : 1u << (isa_targets[t].gen - ISA_GEN2);
}

static bool number(word w, uint64_t *out) {
  *out = 0;
  for (size_t i = 0; i < w.n; i++) {
    /* Stops long before the number can overflow. */
    if (w.p[i] < '0' || w.p[i] > '9' || *out > UINT32_MAX) return false;
    *out = *out * 10 + (uint64_t)(w.p[i] - '0');
  }
  return w.n > 0;
}

/* A word in a message: its first 63 bytes, with '?' for those that are not text. */
typedef struct shown {
  char s[64];
} shown;

static shown show(word w) {
  shown out = {""};
  /* Never the raw bytes of a hostile text. */
  for (size_t i = 0; i < w.n && i + 1 < sizeof out.s; i++)
    out.s[i] = w.p[i] > ' ' && w.p[i] < 0x7f ? w.p[i] : '?';
  return out;
}

static bool read_line(vm_costs *out, unsigned line, const word *w, unsigned n, isa_error *e) {
  unsigned mask = 7;
  uint64_t value;
  int i = cost_named(w[0]);
  if (i < 0)
    return isa_fail(e, ISA_ARG, ISA_NOFIELD, "costs, line %u: there is no constant %s", line,
                    show(w[0]).s);
  const vm_cost_row *row = &vm_cost_rows[i];
  if (n != 2 && n != 3)
    return isa_fail(
        e, ISA_ARG, ISA_NOFIELD,
        "costs, line %u: %s with %u words after it: expected `NAME value` or `NAME gen value`",
        line, row->name, n - 1);
  /* Without a generation: all three. */
  if (n == 3 && !(mask = generations(w[1])))
    return isa_fail(e, ISA_ARG, ISA_NOFIELD,
                    "costs, line %u: %s is not a generation: gen2, gen3, gen4 or a target", line,
                    show(w[1]).s);
  const range *r = range_of(row->unit);
  if (!number(w[n - 1], &value) || value < r->least || value > r->most)
    return isa_fail(e, ISA_ARG, ISA_NOFIELD,
                    "costs, line %u: %s is %s, not a whole number from %u to %u (unit %s)", line,
                    row->name, show(w[n - 1]).s, r->least, r->most, row->unit);
  for (unsigned g = 0; g < 3; g++)
    if (mask >> g & 1) out->v[g][i] = (uint32_t)value;
  return true;
}

bool vm_costs_read(vm_costs *out, const char *text, size_t n, isa_error *e) {
  /* All lines or none. */
  vm_costs changed = *out;
  unsigned line = 1;
  for (size_t at = 0; at < n; line++) {
    const char *end = memchr(text + at, '\n', n - at);
    size_t length = end ? (size_t)(end - text) - at : n - at;
    word w[3];
    unsigned count = words_of(text + at, length, w, 3);
    if (count && !read_line(&changed, line, w, count, e)) return false;
    /* The last line may lack its newline. */
    at += length + 1;
  }
  *out = changed;
  return true;
}

bool vm_costs_of_target(vm_costs *out, const isa_target *t, isa_error *e) {
  size_t n;
  for (const char *c = NULL; (c = isa_target_constant(t, c, &n));) {
    char line[64];
    int name = (int)strcspn(c, "=");
    int len = snprintf(line, sizeof line, "%.*s gen%d %.*s", name, c, t->gen, (int)n - name - 1,
                       /* As a line of a cost file, so that there is one reader and one set of
                        * messages. */
                       c + name + 1);
    if (!vm_costs_read(out, line, (size_t)len, e)) return false;
  }
  return true;
}

void vm_costs_print(const vm_costs *costs, unsigned gen, isa_buf *out) {
  for (unsigned i = 0; i < VM_NCOSTS; i++) {
    const vm_cost_row *r = &vm_cost_rows[i];
    uint32_t value = costs->v[gen][i];
    isa_buf_printf(out, "%-14s %8u  # %-4s %-4s %s\n", r->name, value, r->unit,
                   /* A value that the user has set is marked as such, with the source of the one it
                    * replaces. */
                   value == r->value[gen] ? r->tag[gen] : "SET", r->source);
  }
}
