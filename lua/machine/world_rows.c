/* What a world's run has as rows: collectives, links, findings. */
#include "machine.h"

/* Pushes the collectives of all ranks: {rank, op, algorithm, bytes, ...}, rank by rank. */
void lb_push_collectives(lua_State *L, const soma_world *w) {
  lua_Integer n = 0;
  lua_newtable(L);
  for (uint32_t r = 0; r < soma_world_ranks(w); r++) {
    soma_collective c;
    for (uint32_t i = 0; soma_world_collective(w, r, i, &c) == SOMA_OK; i++) {
      lua_createtable(L, 0, 13);
      lb_set_count(L, "rank", r);
      lb_set_count(L, "core", c.core);
      lb_set_count(L, "ranks", c.ranks);
      lb_set_count(L, "bytes", c.bytes);
      lb_set_count(L, "pc", c.pc);
      lb_set_ns(L, "start_ns", c.issued);
      lb_set_ns(L, "end_ns", c.end);
      lb_set_ns(L, "ns", c.end - c.issued);
      lua_pushstring(L, c.op);
      lua_setfield(L, -2, "op");
      lua_pushstring(L, c.algorithm);
      lua_setfield(L, -2, "algorithm");
      if (c.file) lua_pushfstring(L, "%s:%d", c.file, (int)c.line);
      if (c.file) lua_setfield(L, -2, "place");
      lua_pushnumber(L, c.algbw);
      lua_setfield(L, -2, "algbw");
      lua_pushnumber(L, c.busbw);
      lua_setfield(L, -2, "busbw");
      lua_rawseti(L, -2, ++n);
    }
  }
}

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
    lua_pushnumber(L, r.rate);
    lua_setfield(L, -2, "rate");
    lua_pushnumber(L, r.gbs);
    lua_setfield(L, -2, "gbs");
    lua_pushnumber(L, r.percent);
    lua_setfield(L, -2, "percent");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* Pushes what the checks have found, each once: {check, text, file, line, ranks}. */
void lb_push_world_findings(lua_State *L, const soma_world *w) {
  soma_world_finding f;
  lua_newtable(L);
  for (uint32_t i = 0; soma_world_finding_at(w, i, &f, sizeof f) == SOMA_OK; i++) {
    lua_createtable(L, 0, 5);
    lua_pushstring(L, soma_check_name(f.first.check));
    lua_setfield(L, -2, "check");
    lua_pushstring(L, f.first.text);
    lua_setfield(L, -2, "text");
    lua_pushstring(L, f.first.file);
    lua_setfield(L, -2, "file");
    if (f.first.line) lb_set_count(L, "line", f.first.line);
    lua_createtable(L, (int)f.nranks, 0);
    for (uint32_t r = 0; r < f.nranks; r++) {
      lua_pushinteger(L, (lua_Integer)f.ranks[r]);
      lua_rawseti(L, -2, (lua_Integer)r + 1);
    }
    lua_setfield(L, -2, "ranks");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}
