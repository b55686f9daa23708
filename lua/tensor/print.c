/* Tensors as text, in the manner of NumPy: aligned columns, "..." in large ones. */
#include <string.h>

#include "tensor.h"

enum { EDGE = 3, FULL = 1000, TEXT = 32 };

typedef struct printer {
  luaL_Buffer b;
  const lt_tensor *t;
  int width, line; /* widest element; columns used of the present line */
  bool shorten;
} printer;

static void element_text(const lt_tensor *t, const unsigned char *p, char text[TEXT]) {
  if (t->dtype == ISA_bool) {
    snprintf(text, TEXT, "%s", *p ? "true" : "false");
  } else if (lt_class_of(t->dtype) == LT_FLOAT) {
    double v;
    lt_load_f64(t->dtype, p, 0, 1, &v);
    if (v != v)
      snprintf(text, TEXT, "nan");
    else
      snprintf(text, TEXT, "%.6g", v);
  } else if (lt_class_of(t->dtype) == LT_PACKED) {
    snprintf(text, TEXT, "0x%0*llx", (int)isa_dtype_bytes(t->dtype) * 2,
             (unsigned long long)lt_get_bits(p, isa_dtype_bytes(t->dtype)));
  } else {
    int64_t v;
    lt_load_i64(t->dtype, p, 0, 1, &v);
    if (t->dtype == ISA_uint64)
      snprintf(text, TEXT, "%llu", (unsigned long long)v);
    else
      snprintf(text, TEXT, "%lld", (long long)v);
  }
}

/* The next index after i that is shown; i + 1, or past the hidden middle. */
static int64_t next_shown(const printer *pr, unsigned d, int64_t i) {
  int64_t n = pr->t->shape[d];
  return pr->shorten && i + 1 == EDGE && n > 2 * EDGE ? n - EDGE : i + 1;
}

static void measure(printer *pr, unsigned d, const unsigned char *p) {
  /* Recursion by dimension, as in add_tensor. */
  const lt_tensor *t = pr->t;
  if (d == t->ndim) {
    char text[TEXT];
    element_text(t, p, text);
    /* The widest element decides for all, so that columns align. */
    if ((int)strlen(text) > pr->width) pr->width = (int)strlen(text);
    return;
  }
  for (int64_t i = 0; i < t->shape[d]; i = next_shown(pr, d, i))
    measure(pr, d + 1, p + i * t->stride[d]);
}

static void add_break(printer *pr, unsigned d, unsigned lines) {
  /* Indented by the brackets that are open. */
  for (unsigned i = 0; i < lines; i++) luaL_addchar(&pr->b, '\n');
  for (unsigned i = 0; i <= d; i++) luaL_addchar(&pr->b, ' ');
  pr->line = (int)d + 1;
}

static void add_tensor(printer *pr, unsigned d, const unsigned char *p) {
  const lt_tensor *t = pr->t;
  if (d == t->ndim) {
    char text[TEXT], padded[2 * TEXT];
    element_text(t, p, text);
    snprintf(padded, sizeof padded, "%*s", pr->width, text);
    luaL_addstring(&pr->b, padded);
    /* Two more for the comma and the blank. */
    pr->line += pr->width + 2;
    return;
  }
  luaL_addchar(&pr->b, '[');
  bool innermost = d + 1 == t->ndim;
  /* Every row begins a line of its own. */
  if (innermost) pr->line = (int)d + 1;
  for (int64_t i = 0; i < t->shape[d];) {
    add_tensor(pr, d + 1, p + i * t->stride[d]);
    int64_t next = next_shown(pr, d, i);
    /* Elements in the middle are left out. */
    bool hidden = next > i + 1;
    if (next < t->shape[d]) luaL_addstring(&pr->b, innermost ? hidden ? ", ..., " : ", " : ",");
    /* A row that is too long goes on in the next line. */
    if (innermost && next < t->shape[d] && pr->line + pr->width > 98) add_break(pr, d, 1);
    if (!innermost && next < t->shape[d]) {
      /* Between blocks of more dimensions there are more empty lines, as NumPy has it. */
      add_break(pr, d, hidden ? 1 : t->ndim - d - 1);
      if (hidden) {
        luaL_addstring(&pr->b, "...,");
        add_break(pr, d, t->ndim - d - 1);
      }
    }
    i = next;
  }
  luaL_addchar(&pr->b, ']');
}

/* tostring(t): its type, then its elements. */
int lt_tostring(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  printer pr = {.t = t, .shorten = t->size > FULL};
  const char *type = lt_push_type(L, t);
  if (t->size == 0) {
    lua_pushfstring(L, "%s []", type);
    return 1;
  }
  measure(&pr, 0, t->data);
  luaL_buffinit(L, &pr.b);
  luaL_addstring(&pr.b, type);
  luaL_addstring(&pr.b, t->ndim > 1 ? "\n" : " ");
  add_tensor(&pr, 0, t->data);
  luaL_pushresult(&pr.b);
  return 1;
}

const luaL_Reg lt_print_methods[] = {{"tostring", lt_tostring}, {NULL, NULL}};
