/* Whether a text is one JSON value (RFC 8259), for tests of what writes JSON. */
#ifndef TESTS_JSON_H
#define TESTS_JSON_H

#include <stdbool.h>
#include <string.h>

static inline const char *json_space(const char *s) { return s + strspn(s, " \t\r\n"); }

static inline const char *json_string(const char *s) {
  if (*s++ != '"') return NULL;
  for (; *s != '"'; s++) {
    if ((unsigned char)*s < 0x20) return NULL;
    if (*s != '\\') continue;
    s++;
    if (*s == 'u') {
      if (strspn(s + 1, "0123456789abcdefABCDEF") < 4) return NULL;
      s += 4;
    } else if (!*s || !strchr("\"\\/bfnrt", *s)) {
      return NULL;
    }
  }
  return s + 1;
}

static inline const char *json_number(const char *s) {
  s += *s == '-';
  size_t whole = strspn(s, "0123456789");
  if (whole == 0 || (whole > 1 && *s == '0')) return NULL;
  s += whole;
  if (*s == '.') {
    size_t part = strspn(s + 1, "0123456789");
    s = part ? s + 1 + part : NULL;
  }
  if (s && (*s == 'e' || *s == 'E')) {
    s += 1 + (s[1] == '+' || s[1] == '-');
    size_t part = strspn(s, "0123456789");
    s = part ? s + part : NULL;
  }
  return s;
}

/* What follows the value at s; NULL if none exists. */
static inline const char *json_value(const char *s, int depth) {
  s = json_space(s);
  if (depth > 32) return NULL;
  if (*s == '"') return json_string(s);
  if (*s != '{' && *s != '[') {
    for (int i = 0; i < 3; i++) {
      const char *word = (const char *[]){"true", "false", "null"}[i];
      if (strncmp(s, word, strlen(word)) == 0) return s + strlen(word);
    }
    return json_number(s);
  }
  char end = *s == '{' ? '}' : ']';
  s = json_space(s + 1);
  if (*s == end) return s + 1;
  for (;;) {
    if (end == '}') {
      s = json_string(json_space(s));
      s = s ? json_space(s) : NULL;
      if (!s || *s++ != ':') return NULL;
    }
    s = json_value(s, depth + 1);
    if (!s) return NULL;
    s = json_space(s);
    if (*s == end) return s + 1;
    if (*s++ != ',') return NULL;
  }
}

static inline bool json_ok(const char *s) {
  s = json_value(s, 0);
  return s && *json_space(s) == 0;
}

#endif
