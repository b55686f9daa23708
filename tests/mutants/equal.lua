-- Equivalent mutants: the rules, each with the reason why a mutant that it accepts computes what the
-- original computes under every legal timing. tests/README.md lists them.
local order = require "mutants.order"
local source = require "mutants.source"
local M = {}

local cache = {}
local function original(subject)
  if not cache[subject] then
    local all, why = order.analyse(subject.text)
    local conflicts = all and order.conflicts(all)
    cache[subject] = {all = all, conflicts = conflicts, why = why}
  end
  return cache[subject]
end

local function same_set(a, b)
  for k in pairs(a) do if not b[k] then return false end end
  for k in pairs(b) do if not a[k] then return false end end
  return true
end

-- Same order: the conflicting accesses are those of the original, all are ordered by what cannot
-- fail to hold, and in the original's way.
local function same_order(mutant, subject)
  if mutant.tile or mutant.kind == "drop first flag" or mutant.kind == "drop initialisation" then return false end
  local o = original(subject)
  local all = o.conflicts and order.analyse(mutant.text)
  local conflicts = all and #all == #o.all and order.conflicts(all)
  return conflicts and same_set(conflicts, o.conflicts) or false
end

-- The text of a program with a tile and all that lies in it moved.
local function moved(subject, mutant)
  local p = source.parse(subject.text)
  local t = p.tiles[mutant.tile]
  local out, n = {}, 0
  for line in source.text(p):gmatch "[^\n]+" do
    out[#out + 1] = line:gsub("(@" .. t.space .. "%[%d+,%d+,)(%d+)([^,%]]*," .. t.name:gsub("%p", "%%%0") .. "[%],])",
      function(a, at, b)
        n = n + 1
        return a .. math.tointeger(tonumber(at)) + mutant.delta .. b
      end)
  end
  return table.concat(out, "\n"), t.name
end

-- Dead bytes: all conflicts are ordered, with the moved tile's new ones, and between a write to one
-- of two tiles that now share bytes and a later read of the other lies a write that covers the
-- bytes in question: every read finds what it found.
local function dead_bytes(mutant, subject)
  if not mutant.tile or not original(subject).conflicts then return false end
  local text, tile = moved(subject, mutant)
  local all = order.analyse(text)
  local crossing = {}
  local ok = all and order.conflicts(all, function(x, y)
    if x.a.writes and y.a.reads and x.a.name ~= y.a.name and (x.a.name == tile or y.a.name == tile) then
      crossing[#crossing + 1] = {x, y}
    end
  end)
  if not ok then return false end
  for _, c in ipairs(crossing) do
    local x, y, between = c[1], c[2], {}
    for _, w in ipairs(all) do
      if w.a.writes and w.a.name == y.a.name and w.a.where == y.a.where and order.before(x, w) and order.before(w, y) then
        between[#between + 1] = w.a
      end
    end
    if not order.covered(x.a, y.a, between) then return false end
  end
  return true
end

-- Fresh bank: acc=auto adds to nothing where no instruction has written since load. The tile is
-- written by matmuls alone, this one runs once and is the first of them, and no other tile or raw
-- pattern reaches its bytes, since tiles do not overlap and all patterns name a tile.
local function fresh_bank(mutant, subject)
  if mutant.kind ~= "drop first flag" or mutant.acc ~= "auto" then return false end
  local all = original(subject).all
  local p = source.parse(subject.text)
  local i = p.lines[mutant.line]
  local tile = i.head:match "@psum%[[^%]]-,([^%],]+)%]"
  if not all or not tile then return false end
  for k = mutant.line, #p.lines do -- in no loop: no branch back in the section from here on
    local l = p.lines[k]
    if type(l) == "table" and l.section == i.section and (l.op == "jmp" or l.op:find "^b..?$" or l.op == "call") then return false end
  end
  for k, l in ipairs(p.lines) do
    if type(l) == "table" and k ~= mutant.line then
      local first = l.head:match "^%S+%s+(%S+@psum%b[])"
      local writes = first and first:find("," .. tile .. "]", 1, true)
      if writes and (l.op ~= "matmul" or l.section ~= i.section or k < mutant.line) then return false end
    end
  end
  return true
end

M.rules = {{"same order", same_order}, {"dead bytes", dead_bytes}, {"fresh bank", fresh_bank}}

-- The name of the rule by which a mutant is equivalent, or nil.
function M.rule(mutant, subject)
  for _, r in ipairs(M.rules) do if r[2](mutant, subject) then return r[1] end end
end

return M
