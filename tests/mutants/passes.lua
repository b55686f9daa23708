-- Mutants of the builder's passes: each lets a pass do what it may not. The tests of the builder must find every
-- one. `make pass-mutants [PATTERN=dead]`; the sources are changed in a copy, FOLDER.
--   lua5.4 tests/mutants/passes.lua FOLDER [PATTERN]
-- With --texts for a pattern it only looks whether the sources have each text once.
local folder, pattern = arg[1], arg[2] or "."

-- {file, what it ignores, text, what stands there instead}
local MUTANTS <const> = {
  {"value", "a write between", "if (e->when != when) {", "if (0) {"},
  {"value", "a second write of the tile", "return s->writes[b - 1] == 1 && !as_k", "return !as_k"},
  {"value", "a barrier", "(as_k_is_shared(k, b) ? s->met : 0)", "0"},
  {"value", "what the engine has loaded", "*state = kept ? s->state[kept] : 0;", "*state = 0;"},
  {"value", "an order of the caller's", "as_k_may(k, it, pass) && !s->ordered[item] &&", "as_k_may(k, it, pass) &&"},
  {"value", "a write to what was copied", "return s->until[item] > as_k_buf(k, to)->last && keep", "return keep"},
  {"value", "a write by the last that uses a copy", "s->until[item] > as_k_buf(k, to)->last", "s->until[item] >= as_k_buf(k, to)->last"},
  {"value", "that a copy's source changes later", "if (has != from && s->writes[has - 1] != 1) return false;", ""},
  {"value", "an order of copies", "if (!as_k_may(k, it, AS_PASS_LOADS) || s->ordered[item]) return false;", ""},
  {"value", "tiles at fixed places", "if (o->dyn || (b->fixed && b->space != ISA_HBM)) return false", "if (o->dyn) return false"},
  {"value", "a use of a computed value", "&& !reads[as_k_use_op(k, it, w)->buffer - 1]", ""},
  {"dead", "a part that is not overwritten", "return b->lo <= x->lo && x->hi <= b->hi && b->p0 <= x->p0 && x->p1 <= b->p1", "return b->lo <= x->lo && b->p0 <= x->p0 && b->p0 < b->p1 && x->p1 > 0"},
  {"dead", "a read between", "if (in_loop || meets(b, &x)) *b", "if (in_loop) *b"},
  {"dead", "the partitions of two parts", "bool rows = b->p0 == x->p0 && b->p1 == x->p1 &&", "bool rows ="},
  {"dead", "what the host sees", "return b->fixed || (b->space == ISA_HBM &&", "return b->fixed || (b->space == ISA_HBM && 0 &&"},
  {"dead", "tiles at fixed places", "return b->fixed || (b", "return (b"},
  {"dead", "elements between those written", "if (!x.set) add(", "add("},
  {"dead", "a loop at run time", "unsigned pass = depth || d->ordered[i]", "unsigned pass = d->ordered[i]"},
  {"dead", "an order of the caller's", "unsigned pass = depth || d->ordered[i] ?", "unsigned pass = depth ?"},
  {"version", "a loop at run time and fixed places", "|| as_k_buf(k, b)->pinned ||", "||"},
  {"version", "what the pass asks for", "as_k_may(k, it, AS_PASS_VERSIONS) &&\n        as_k_overwrites(k, it, &uses[u])", "as_k_may(k, it, AS_PASS_VERSIONS)"},
  {"renew", "bytes that are not overwritten", "bytes.lo > 0 ||\n      bytes.hi < (int64_t)b->bytes", "bytes.lo > 0"},
  {"renew", "partitions that are not overwritten", "bytes.p0 > b->part || bytes.p1 < b->part + b->nparts ||", ""},
  {"renew", "a read of what is overwritten", "if (uses[i].reads && as_k_use_op(k, it, &uses[i])->buffer == o->buffer) return false", ";"},
  {"order", "what an engine has loaded", "  if (!t->state) return;", "  return;"},
  {"order", "the weights that a matmul uses", "if (o->open && ((o->access | t->access)", "if (o->open && !t->group && ((o->access | t->access)"},
  {"order", "that weights are in use", "if (open) return t->group == open;", ";"},
  {"order", "what users of weights wait for", "if (t->before > t->own || !has_room", "if (!has_room"},
  {"order", "a part of the array", "(state && as_k_is_partial(in))", "0"},
  {"order", "what is used after a run", "if (!g->next || g->last >= s->next) return false;", "if (g->last >= s->next) return false;"},
  {"order", "a read before a write", "if (uses[u].writes) wait_for_chain(s, t, false, chain, oldest, &a->at);", "(void)oldest;"},
  {"order", "a write before a read", "uint32_t oldest = wait_for_chain(", "uint32_t oldest = !uses[u].writes ? slot_of(s, s->low)->touches : wait_for_chain("},
  {"order", "an order of the caller's", "  wait_for_orders(s, t);", ""},
  {"order", "a barrier", "|| as_k_meeting_kind(k, it) != K_MEETINGS", ""},
  {"order", "tiles at fixed places", "if (!has_place(s, b)) return;", "return;"},
  {"order", "bytes that are shared in part", "if (x->hi <= y->lo || y->hi <= x->lo ||", "if (x->lo != y->lo ||"},
  {"start", "a sum that overlaps in part", "if (!meet(b, bytes)) continue;", "continue;"},
  {"start", "a use between", "    if (!sums)\n      forget(s, b);", "    if (!sums)\n      ;"},
  {"start", "a sum that nothing has read", "return !psum || !read || ", "return !psum || "},
  {"start", "the half that nothing has read", "if (x->lo <= s->lo && x->hi > s->lo) s->lo = x->hi < s->hi ? x->hi : s->hi;", "s->lo = s->hi;"},
  {"start", "bytes that are not zero", "!as_k_overwrites(k, it, w) || begin", "begin"},
  {"start", "the value", "v->kind == ISA_NUM_imm && v->v == 0", "v->kind == ISA_NUM_imm"},
  {"start", "a loop at run time", "&& !as_k_buf(k, b)->pinned", ""},
  {"spill", "rows that changed", "if (x.lo < y.hi && y.lo < x.hi) return false;", ""},
  {"spill", "rows that the other core may write", "return shared && s->met[from] != s->met[to];", "return false;"},
  {"spill", "that a tile has changed", "    if (s->refs[r].writes) return 0;", "    ;"},
  {"spill", "that a temporary is older", "->kept_in = load ? 0 : kept;", "->kept_in = kept;"},
  {"spill", "pieces", "return again > 2 * dma_time(k, b, b->bytes) || ", "return "},
  {"spill", "a partial overlap of rows", "if (x.lo < y.hi && y.lo < x.hi) return false;", "if (x.lo == y.lo && y.hi == x.hi) return false;"},
  {"spill", "writes beyond those that it looks at", "if (r == most) return false;", "if (r == most) return true;"},
  {"kept", "what passes changed in operands", "  GIVE(ops, nops);\n", ""},
  {"kept", "where loops were", "  GIVE(loops, nloops);\n", ""},
  {"kept", "what was left out", "  k->nleft = k->nspilled = 0;\n", ""},
  {"merge", "a write between", "if (c->way[SRC] == ONE_BUFFER && m->writes[from] != c->wrote) return false;", ";"},
  {"merge", "a use between of where they go", "return m->uses[to] == c->used + c->n;", "return true;"},
  {"merge", "a read before the last one", "if (m->uses[side(k, i, DST)->buffer - 1] != 1) return false;", ";"},
  {"merge", "a barrier", "if (c->met != m->met) return false;", ";"},
  {"merge", "a partial overlap", "return !isa_byteset_meet_at(set, 0, set, c->step[which] * c->n);", "return true;"},
  {"merge", "tiles at fixed places", "&& !is_fixed_tile(m, a);", ";"},
  {"merge", "a tile at a fixed place", "b->pinned || b->fixed || b->shared || ", "b->shared || "},
  {"merge", "a second write of a tile", " || m->all_writes[o->buffer - 1] != 1)", ")"},
  {"merge", "bytes of a tile that one of them leaves", "return !x.set && x.lo == 0 && x.hi == b->bytes && b->part == 0 &&", "return b->part == 0 &&"},
  {"merge", "another distance", "(w != c->way[s] || step != c->step[s])", "w != c->way[s]"},
  {"merge", "an order of the caller's", " || m->ordered[item] ||", " ||"},
  {"merge", "a loop at run time", "if (m->depth || it->op", "if (it->op"},
  {"merge", "what has become a part itself", "for (uint32_t i = 0; i < k->nitems; i++)\n    for (unsigned u = 0, n = i < items", "for (uint32_t i = 0; i < items; i++)\n    for (unsigned u = 0, n = i < items"},
  {"trim", "the last columns", "if (x.hi > end[o->buffer - 1]) end[o->buffer - 1] = x.hi", "if (x.lo + 1 > end[o->buffer - 1]) end[o->buffer - 1] = x.lo + 1"},
}

local function quietly(command) return (os.execute(("cd %s && (%s) >mutant.log 2>&1"):format(folder, command))) end

local function read(path)
  local f <close> = assert(io.open(path))
  return f:read "a"
end
local function write(path, text)
  local f <close> = assert(io.open(path, "w"))
  f:write(text)
end

local TESTS <const> = { -- the quick ones first: {name, target, command}
  {"test_kernel_passes", "build/tests/test_kernel_passes", "build/tests/test_kernel_passes"},
  {"test_kernel_fronts", "build/tests/test_kernel_fronts", "build/tests/test_kernel_fronts"},
  {"test_kernel_merges", "build/soma", "LUA_PATH='./tests/lua/?.lua;;' build/soma tests/lua/test_kernel_merges.lua"},
  {"test_kernel_props", "build/tests/test_kernel_props", "SOMA_KERNEL_LISTS=400 build/tests/test_kernel_props"},
  {"test_kernel", "build/soma", "LUA_PATH='./tests/lua/?.lua;;' build/soma tests/lua/test_kernel.lua"},
  {"test_kernel_random", "build/soma", "KERNEL_RANDOM=40 LUA_PATH='./tests/lua/?.lua;;' build/soma tests/lua/test_kernel_random.lua"},
  {"test_kernel_pair", "build/soma", "PAIR_RANDOM=100 LUA_PATH='./tests/lua/?.lua;;' build/soma tests/lua/test_kernel_pair.lua"},
}

-- The first test that notices; nil if none does.
local function noticed()
  for _, test in ipairs(TESTS) do
    if not quietly("make OPT=-O1 WARN= " .. test[2]) then return "no test: it does not compile" end
    if not quietly("ulimit -t 120; " .. test[3]) then return test[1] end
  end
end

local function name_of(m) return m[1] .. ".c ignores " .. m[2] end
local function path_of(m) return folder .. "/kernel/" .. m[1] .. ".c" end

for _, m in ipairs(MUTANTS) do
  local text = read(path_of(m))
  local at, past = text:find(m[3], 1, true)
  assert(at and not text:find(m[3], past, true), name_of(m) .. ": its text is there once, not so: " .. m[3])
end
if pattern == "--texts" then os.exit(true) end

assert(not noticed(), "the sources as they are do not pass: see mutant.log")
local found, all = 0, 0
io.stdout:setvbuf "line"
for _, m in ipairs(MUTANTS) do
  local name, path = name_of(m), path_of(m)
  if name:find(pattern) then
    local text = read(path)
    local at, past = text:find(m[3], 1, true)
    write(path, text:sub(1, at - 1) .. m[4] .. text:sub(past + 1))
    local by = noticed()
    write(path, text)
    all, found = all + 1, found + (by and by:find "^test" and 1 or 0)
    print(("%-50s %s"):format(name, by or "NOT FOUND"))
  end
end
print(("%d of %d mutants of the builder's passes are found"):format(found, all))
os.exit(all > 0 and found == all)
