-- Random pipelines that are right: a load, one or two engines, a store; between two stages one to
-- three slots that are used in turn; in a loop at run time or unrolled; with semaphores that only
-- count, or that are taken, or with slots that are given back as credit.
local random = math.random

local HEAD <const> = [[
        target trn2
x       tensor float32[128, %d], input
y       tensor float32[128, %d], output
q       queue  rings=%d, dge=hwdge
q2      queue  rings=%d, dge=%s
]]
local WIDTH <const> = 32

local function pick(list) return list[random(#list)] end

local function add(t, form, ...) t[#t + 1] = select("#", ...) > 0 and form:format(...) or form end

-- Stages {engine, queue?, updates}: what a completion adds to the stage's semaphore.
local function stages_of(rings)
  local last = pick {"scalar", "gpsimd"}
  local free = {"vector", last == "scalar" and "gpsimd" or "scalar"}
  local list = {{engine = "sync", queue = "q", updates = rings[1]}}
  for _ = 1, random(2) do list[#list + 1] = {engine = table.remove(free, random(#free)), updates = 1} end
  list[#list + 1] = {engine = last, queue = "q2", updates = rings[2]}
  return list
end

-- The operation of a stage from place `from` to place `to`, without clauses.
local function operation(s, from, to)
  if s.queue then return string.format(" dma_copy %s, %s, queue=%s", to, from, s.queue) end
  if s.engine == "gpsimd" then return string.format(" tensor_copy %s, %s", to, from) end
  return string.format(" tensor_scalar %s, %s, op0=add, imm0=%d.0", to, from, random(9))
end

local function place(k, list, n)
  if n == 1 then return string.format("x[:, %s:+%d]", k, WIDTH) end
  if n == #list + 1 then return string.format("y[:, %s:+%d]", k, WIDTH) end
  return string.format("b%d[:, %s:+%d]", n, k, WIDTH)
end

-- Clauses and instructions around the operation of stage n: what it waits for and what it tells.
local ways = {}

local function over(list, n, value)
  if not list[n].queue then return {" drain"} end
  return {string.format(" nop $d%d>=%s", n, value(1, list[n].updates))}
end

-- The semaphore of each stage counts what it has completed; both neighbours wait for it. Of two
-- transfers on one semaphore it would not tell which is over: they come one after another.
function ways.count(list, n, value)
  local before, prev, next = {}, list[n - 1], list[n + 1]
  if next then
    before[1] = {text = string.format(" nop $d%d>=%s", n + 1, value(1 - next.slots, next.updates)), from = next.slots}
  end
  local clause = prev and string.format(" $d%d>=%s", n - 1, value(1, prev.updates)) or ""
  return before, clause .. (list[n].queue and " $d" .. n or " $d" .. n .. "++"), list[n].queue and over(list, n, value) or {}
end

-- A semaphore for each slot: the completion of round j of stage n is the value that its slot's has then.
local function reached(list, n, j)
  local slots = list[n + 1] and list[n + 1].slots or list[n].slots
  return string.format("$d%ds%d>=%d", n, j % slots, (j // slots + 1) * list[n].updates), j % slots
end

function ways.slots(list, n, _, k)
  local before, next = {}, list[n + 1]
  if next and k >= next.slots then before[1] = {text = " nop " .. reached(list, n + 1, k - next.slots), from = 0} end
  local clause = list[n - 1] and " " .. reached(list, n - 1, k) or ""
  local _, slot = reached(list, n, k)
  return before, string.format("%s $d%ds%d%s", clause, n, slot, list[n].queue and "" or "++"), {}
end

-- Each neighbour has a semaphore of its own, and takes what it has waited for.
function ways.take(list, n, value)
  local before = {}
  if list[n + 1] then before[1] = {text = string.format(" event_semaphore $c%d>=1 $c%d-=1", n, n), from = list[n + 1].slots} end
  if list[n - 1] then before[#before + 1] = {text = string.format(" event_semaphore $f%d>=1 $f%d-=1", n - 1, n - 1), from = 0} end
  local after = over(list, n, value)
  if list[n + 1] then add(after, " nop $f%d++", n) end
  if list[n - 1] then add(after, " nop $c%d++", n - 1) end
  return before, list[n].queue and " $d" .. n or "", after
end

-- A stage begins with as much credit as there are slots behind it.
function ways.credit(list, n, value)
  local before = {}
  if list[n + 1] then before[1] = {text = string.format(" nop $c%d>=%s", n, value(1, 1)), from = 0} end
  if list[n - 1] then before[#before + 1] = {text = string.format(" nop $f%d>=%s", n - 1, value(1, 1)), from = 0} end
  local after = over(list, n, value)
  if list[n + 1] then add(after, " nop $f%d++", n) end
  if list[n - 1] then add(after, " nop $c%d++", n - 1) end
  return before, list[n].queue and " $d" .. n or "", after
end

local function unrolled(p, list, n, out)
  for k = 0, p.rounds - 1 do
    local function value(from, step) return math.max((k + from) * step, 0) end
    local before, clauses, after = ways[p.way](list, n, value, k)
    for _, b in ipairs(before) do if k >= (b.from or 0) then add(out, b.text) end end
    local s = list[n]
    local from = place((s.slots and k % s.slots or k) * WIDTH, list, n)
    local to = place((list[n + 1] and k % list[n + 1].slots or k) * WIDTH, list, n + 1)
    add(out, operation(s, from, to) .. clauses)
    for _, a in ipairs(after) do add(out, a) end
  end
end

-- Registers: 0 the round, 1 and 2 places, from 10 on values to wait for.
local function looped(p, list, n, out)
  local starts, steps, reg = {}, {}, 10
  local function value(from, step)
    local r = reg
    reg = reg + 1
    add(starts, " mov r%d, %d", r, math.max(from * step, step))
    steps[#steps + 1] = {r, step, from > 0 and 0 or 1 - from}
    return "r" .. r
  end
  local before, clauses, after = ways[p.way](list, n, value)
  local next, s = list[n + 1], list[n]
  for _, l in ipairs(starts) do add(out, l) end
  for r = 0, 2 do add(out, " mov r%d, 0", r) end
  add(out, "s%d:", n)
  for i, b in ipairs(before) do
    local skips = (b.from or 0) > 0
    if skips then add(out, " blt r0, %d, s%dskip%d", b.from, n, i) end
    add(out, b.text)
    local r = b.text:match ">=r(%d+)"
    for _, st in ipairs(steps) do
      if tostring(st[1]) == r then add(out, " add r%d, r%d, %d", r, r, st[2]) st.done = true end
    end
    if skips then add(out, "s%dskip%d:", n, i) end
  end
  add(out, operation(s, place("r1", list, n), place("r2", list, n + 1)) .. clauses)
  for _, a in ipairs(after) do add(out, a) end
  for _, st in ipairs(steps) do if not st.done then add(out, " add r%d, r%d, %d", st[1], st[1], st[2]) end end
  add(out, " add r0, r0, 1")
  for i, slots in ipairs {s.slots or p.rounds, next and next.slots or p.rounds} do
    add(out, " add r%d, r%d, %d", i, i, WIDTH)
    add(out, " blt r%d, %d, s%dw%d", i, slots * WIDTH, n, i)
    add(out, " mov r%d, 0", i)
    add(out, "s%dw%d:", n, i)
  end
  add(out, " blt r0, %d, s%d", p.rounds, n)
end

-- Stage n + 1 has `slots` slots in front of it.
return function(seed)
  math.randomseed(seed)
  local rings = {pick {4, 16}, pick {4, 16}}
  local list = stages_of(rings)
  local body = pick {unrolled, looped}
  local p = {rounds = random(3, 6), way = pick {"count", "take", "credit", body == unrolled and "slots" or "count"}}
  local out = {(HEAD:format(p.rounds * WIDTH, p.rounds * WIDTH, rings[1], rings[2],
    list[#list].engine == "gpsimd" and "swdge" or "hwdge"))}
  for n = 2, #list do
    list[n].slots = random(3)
    add(out, "b%d tile sbuf float32[128, %d]", n, list[n].slots * WIDTH)
  end
  for n = 1, #list do for _, s in ipairs {"d", "f", "c", "d%ds0", "d%ds1", "d%ds2"} do
    add(out, (s:find "%%" and s:format(n) or s .. n) .. " sem")
  end end
  for n, s in ipairs(list) do
    add(out, "section %s", s.engine)
    if n > 1 and p.way == "credit" then add(out, " nop $c%d+=%d", n - 1, s.slots) end
    body(p, list, n, out)
    add(out, " halt")
  end
  return table.concat(out, "\n") .. "\n"
end
