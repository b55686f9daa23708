/* Other ranks, as the section of a CC sequencer names them. */
#include "stmt.h"

bool as_at_rank(const as_cur *c) {
  return as_at_punct(c, '.') && as_tok_is(c->t + 1, "rank") && c->t[2].kind == AS_T_PUNCT &&
         c->t[2].punct == '[';
}

/* The world's size is known when it runs: here only the most. */
static bool number(as_cur *c, const char *what, uint32_t *out) {
  int64_t v;
  if (!as_int_in(c, what, 0, ISA_MAX_RANKS - 1, &v)) return false;
  *out = (uint32_t)v;
  return true;
}

/* After the group's name. */
static bool of_group(as_cur *c, isa_peer *p) {
  /* In the order of the cases below. */
  static const char *const words[] = {"next", "prev", "xor"};
  if (as_take(c, '[')) {
    p->how = ISA_PEER_place;
    return number(c, "a place in the list", &p->value) && as_need(c, ']', "a place in the list");
  }
  if (!as_need(c, '.', "a group")) return false;
  if (as_take_name(c, words[0])) {
    p->how = ISA_PEER_next;
    return true;
  }
  if (as_take_name(c, words[1])) {
    p->how = ISA_PEER_prev;
    return true;
  }
  if (as_take_name(c, words[2])) {
    p->how = ISA_PEER_xor;
    return number(c, "what the place is combined with", &p->value);
  }
  return as_expected(c->j, c->t, "next, prev or xor after a group");
}

bool as_peer(as_cur *c, uint32_t *slot) {
  isa_peer p = {.how = ISA_PEER_rank};
  if (!as_need(c, '[', "`rank`")) return false;
  /* A number is a rank; a group's name begins a place in it. */
  const as_sym *s = as_at_name(c) ? as_sym_find(c->j, c->t->text, 0) : NULL;
  if (s && s->kind == AS_S_GROUP) {
    /* The group is used, and may be bad. */
    if (!as_sym_need(c->j, c->t++, 1 << AS_S_GROUP)) return false;
    p.group = s->index + 1;
    if (!of_group(c, &p)) return false;
  } else if (!number(c, "a rank", &p.value)) {
    return false;
  }
  if (!as_need(c, ']', "a rank")) return false;
  *slot = isa_program_peer(as_program(c->j), &p);
  if (*slot) return true;
  /* Equal peers share a number, so this takes 65,536 different ones. */
  return as_error(c->j, c->t->pos, c->t->len, "a program has at most %d peers", ISA_MAX_PEERS);
}
