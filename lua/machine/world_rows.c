/* What a world's run has as rows: collectives, links, findings. */
#include "machine.h"

#include <string.h>

/* Pushes the collectives of all ranks: {rank, op, algorithm, bytes, ...}, rank by rank. */
void lb_push_collectives(lua_State *L, const soma_world *w) {
  lua_Integer n = 0;
  lua_newtable(L);
  for (uint32_t r = 0; r < soma_world_ranks(w); r++) {
    /* i counts the collectives of one rank. */
    soma_collective c;
    for (uint32_t i = 0; soma_world_collective(w, r, i, &c) == SOMA_OK; i++) {
      lua_createtable(L, 0, 13);
      lb_set_count(L, "rank", r);
      lb_set_count(L, "core", c.core);
      lb_set_count(L, "ranks", c.ranks);
      lb_set_count(L, "bytes", c.bytes);
      /* Issue to end, as the rank saw it. */
      lb_set_count(L, "pc", c.pc);
      lb_set_ns(L, "start_ns", c.issued);
      lb_set_ns(L, "end_ns", c.end);
      lb_set_ns(L, "ns", c.end - c.issued);
      lb_set_text(L, "op", c.op);
      lb_set_text(L, "algorithm", c.algorithm);
      /* Without a line table there is no place. */
      if (c.file) lua_pushfstring(L, "%s:%d", c.file, (int)c.line);
      if (c.file) lua_setfield(L, -2, "place");
      lb_set_number(L, "algbw", c.algbw);
      lb_set_number(L, "busbw", c.busbw);
      lua_rawseti(L, -2, ++n);
    }
  }
}

/* Devices by number, everything else by a word. */
static void push_end(lua_State *L, int end) {
  if (end >= 0)
    lua_pushinteger(L, end);
  else
    lua_pushstring(L, end == SOMA_EFA ? "efa" : "switch");
}

/* Pushes the links between the devices: {from, to, bytes, waiting, ...}. */
void lb_push_links(lua_State *L, const soma_world *w) {
  soma_link_row r;
  lua_newtable(L);
  /* All links, also those that carried nothing. */
  for (uint32_t i = 0; soma_world_link(w, i, &r) == SOMA_OK; i++) {
    lua_createtable(L, 0, 10);
    push_end(L, r.from);
    lua_setfield(L, -2, "from");
    push_end(L, r.to);
    lua_setfield(L, -2, "to");
    lb_set_count(L, "bytes", r.bytes);
    lb_set_count(L, "messages", r.messages);
    lb_set_count(L, "waiting", r.waiting);
    lb_set_ns(L, "busy_ns", r.busy);
    lb_set_ns(L, "waited_ns", r.waited);
    lb_set_number(L, "rate", r.rate);
    lb_set_number(L, "gbs", r.gbs);
    lb_set_number(L, "percent", r.percent);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* Pushes what the checks have found, each once: {check, text, file, line, ranks}. */
void lb_push_world_findings(lua_State *L, const soma_world *w) {
  soma_world_finding f;
  lua_newtable(L);
  for (uint32_t i = 0; soma_world_finding_at(w, i, &f, sizeof f) == SOMA_OK; i++) {
    lua_createtable(L, 0, 5);
    lb_set_text(L, "check", soma_check_name(f.first.check));
    /* Text of a finding ends with a newline. */
    lua_pushlstring(L, f.first.text, strlen(f.first.text) - 1); /* without the newline */
    lua_setfield(L, -2, "text");
    lb_set_text(L, "file", f.first.file);
    if (f.first.line) lb_set_count(L, "line", f.first.line);
    /* The ranks in which it was found. */
    lua_createtable(L, (int)f.nranks, 0);
    for (uint32_t r = 0; r < f.nranks; r++) {
      lua_pushinteger(L, (lua_Integer)f.ranks[r]);
      lua_rawseti(L, -2, (lua_Integer)r + 1);
    }
    lua_setfield(L, -2, "ranks");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}
