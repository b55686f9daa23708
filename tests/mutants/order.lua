-- The order that a program's semaphores give to its accesses, found from its text alone, for every
-- legal timing at once: control flow is followed with the registers' values, then
--
--   an update is sure to have come before a wait when without it (and those after it from the same
--   engine or ring) the updates that can come before the wait do not make up its value;
--   an update cannot come before a wait when it is known to follow it.
--
-- Both grow from program order to a fixed point. Nothing here is shared with the machine's own race
-- check, which watches one run. Only waits for `>=` and updates that add are understood, and no
-- instruction that goes by data; of anything else M.analyse gives nil and why.
local source = require "mutants.source"
local M = {}

local SIZES = {float32 = 4, int32 = 4, uint32 = 4, bfloat16 = 2, float16 = 2, uint8 = 1, int8 = 1}
local STEPS = 20000 -- instructions that an engine may run

-- ---- Accesses -----------------------------------------------------------------------------------

local function offset_of(text, regs, size)
  local at = 0
  for term in text:gmatch "[^+]+" do
    local r, k = term:match "^r(%d+)%*(%-?%d+)$"
    if r then at = at + regs[tonumber(r)] * tonumber(k) * size else at = at + assert(tonumber(term), term) end
  end
  return at
end

-- Runs {lo, hi} of bytes, sorted, that do not touch.
local function runs_of(at, size, steps, nums)
  local starts, k = {at}, 0
  local s, n = {}, {}
  for v in steps:gmatch "%-?%d+" do s[#s + 1] = tonumber(v) end
  for v in nums:gmatch "%d+" do n[#n + 1] = tonumber(v) end
  assert(#s == #n, "dimensions")
  local run = size
  for d = 1, #s do
    if s[d] * size == run and k == 0 then run = run * n[d]
    elseif n[d] > 1 then
      k = k + 1
      local more = {}
      for _, a in ipairs(starts) do
        for i = 0, n[d] - 1 do more[#more + 1] = a + i * s[d] * size end
      end
      starts = more
      assert(#starts <= STEPS, "too many runs")
    end
  end
  table.sort(starts)
  local runs = {}
  for _, a in ipairs(starts) do
    local last = runs[#runs]
    if last and a <= last[2] then last[2] = math.max(last[2], a + run) else runs[#runs + 1] = {a, a + run} end
  end
  return runs
end

local reads_only = {ldweights = true, match_value_load = true}

-- Appends to `list` what the operands in `text` access: {where, p0, p1, runs, writes, reads, name}.
local function accesses(op, text, regs, list)
  local n = 0
  for dtype, space, where, steps, nums in text:gmatch "([%w_]+)@(%w+)%[([^%]]*)%]%[([^%]]*)%]%[([^%]]*)%]" do
    n = n + 1
    local size = assert(SIZES[dtype], dtype)
    local a = {writes = n == 1 and not reads_only[op], p0 = 0, p1 = 1}
    a.reads = not a.writes or (op == "matmul" and not text:find "acc=write")
    if space == "hbm" then
      local tensor, offset = where:match "^([^,]+),(.+)$"
      a.where, a.name, a.runs = "hbm " .. tensor, tensor, runs_of(offset_of(offset, regs, size), size, steps, nums)
    else
      local p, np, offset, tile = where:match "^(%d+),(%d+),([^,]+),([^,]+)$"
      a.where, a.name, a.p0, a.p1 = space, tile, tonumber(p), tonumber(p) + tonumber(np)
      a.runs = runs_of(offset_of(offset, regs, size), size, steps, nums)
    end
    list[#list + 1] = a
  end
  assert(n == select(2, text:gsub("@", "")), "an operand of another kind")
  return list
end

-- ---- Unrolling ----------------------------------------------------------------------------------

local function value(regs, text) -- a register or an integer
  local r = text:match "^r(%d+)$"
  return r and assert(regs[tonumber(r)], "a register that nobody wrote") or assert(math.tointeger(tonumber(text)), text)
end

local compute = {
  mov = function(a) return a end, add = function(a, b) return a + b end, sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end, max = math.max, min = math.min,
}
local branch = {
  blt = function(a, b) return a < b end, ble = function(a, b) return a <= b end, beq = function(a, b) return a == b end,
  bgt = function(a, b) return a > b end, bge = function(a, b) return a >= b end, bne = function(a, b) return a ~= b end,
}
local control = {nop = true, event_semaphore = true, drain = true}

-- The steps of one section, in order: {wait, update, accesses?, queue?, data?, drain?}.
local function unroll(code, labels, section, static)
  local steps, regs, pc, ran = {}, {}, 1, 0
  while true do
    local i = assert(code[pc], "past the end")
    ran = ran + 1
    assert(ran < STEPS, "too long")
    pc = pc + 1
    local rest = i.head:sub(#i.op + 2)
    local args = {}
    for a in rest:gmatch "[^,%s]+" do args[#args + 1] = a end
    local s = {}
    if i.wait then
      assert(i.wait.cond == ">=", "another condition")
      s.wait = {sem = i.wait.sem, value = value(regs, tostring(i.wait.value))}
    end
    if i.update then
      local by = i.update.text == "++" and 1 or i.update.text == "" and 0 or tonumber(i.update.text:match "^%+=(%d+)$")
      s.update = {sem = i.update.sem, by = assert(by, "another update")}
    end
    if i.op == "halt" then return steps end
    if compute[i.op] then regs[tonumber(args[1]:match "%d+")] = compute[i.op](value(regs, args[2]), args[3] and value(regs, args[3]))
    elseif branch[i.op] then
      if branch[i.op](value(regs, args[1]), value(regs, args[2])) then pc = assert(labels[section .. args[3]], args[3]) end
    elseif i.op == "jmp" then pc = assert(labels[section .. args[1]])
    elseif i.op == "dma_trigger" then
      assert(args[2] == "1", "several at once")
      local q = static[args[1]]
      s.queue, s.accesses = args[1], accesses("dma", q[q.next], regs, {})
      q.next = q.next % #q + 1
    elseif i.op:find "^dma" then s.queue, s.accesses = assert(rest:match "queue=([%w_]+)"), accesses("dma", rest, regs, {})
    elseif control[i.op] then s.drain = i.op == "drain"
    else
      assert(not (i.op == "ldweights" and i.update), "weights that signal")
      s.data, s.accesses = true, accesses(i.op, rest, regs, {})
    end
    steps[#steps + 1] = s
  end
end

local function trace(text)
  local p = source.parse(text)
  local code, labels, static, rings = {}, {}, {}, {}
  local section
  for _, l in ipairs(p.lines) do
    if type(l) == "table" then
      assert(l.section == section)
      table.insert(code[section], l)
    elseif l:find "^section" then
      section = l:match "^section (%S+)"
      code[section] = {}
    else
      local q, operands = l:match "^dma (%S+), (.*)$"
      if q then
        static[q] = static[q] or {next = 1}
        table.insert(static[q], operands)
      end
      local name, n = l:match "^(%S+) queue rings=(%d+)"
      if name then rings[name] = tonumber(n) end
      local label = section and l:match "^(%S+):"
      if label then labels[section .. label] = #code[section] + 1 end
    end
  end
  local engines = {}
  for name, c in pairs(code) do engines[#engines + 1] = {name = name, steps = unroll(c, labels, name, static)} end
  table.sort(engines, function(a, b) return a.name < b.name end)
  return engines, rings
end

-- ---- Clocks -------------------------------------------------------------------------------------

-- Gives each step its number, each data instruction and transfer its place in its chain, and lists
-- the updates of each semaphore by source.
local function number(engines, rings)
  local chains, n, sems, user = {}, 0, {}, {}
  local function chain(key)
    if not chains[key] then n = n + 1; chains[key] = n end
    return chains[key]
  end
  local counts = {}
  local function source_of(sem, key)
    sems[sem] = sems[sem] or {}
    for _, s in ipairs(sems[sem]) do if s.key == key then return s end end
    local s = {key = key, rings = rings[key] or false}
    table.insert(sems[sem], s)
    return s
  end
  for _, e in ipairs(engines) do
    e.seq, e.done = chain("seq " .. e.name), chain("done " .. e.name)
    for k, s in ipairs(e.steps) do
      s.at, s.clock = k, {}
      local key = s.queue or "done " .. e.name
      if s.queue then
        assert(not user[key] or user[key] == e, "two engines trigger one queue")
        user[key] = e
      end
      s.chain = s.accesses and chain(key)
      if s.accesses then
        counts[key] = (counts[key] or 0) + 1
        s.place = counts[key]
      end
      if s.drain then s.drained = counts[key] or 0 end
      local u = s.update
      if u then
        u.step, u.engine = s, e
        table.insert(source_of(u.sem, s.queue or (s.data and "done " or "seq ") .. e.name), u)
      end
    end
  end
  return n, sems
end

local function join(a, b)
  local more = false
  for c, v in pairs(b) do
    if v > (a[c] or 0) then a[c], more = v, true end
  end
  return more
end

-- What whoever sees step s's update knows.
local function release(e, s)
  local r = {}
  join(r, s.clock)
  r[e.seq] = s.at
  if s.accesses then r[s.chain] = s.place end
  return r
end

local function acquire(e, s, sources)
  local before, sum = {}, 0 -- of each source the updates that can come before; their sum
  for k, src in ipairs(sources or {}) do
    local n, own = 0, 0
    for _, u in ipairs(src) do
      if u.engine == e and u.step.at >= s.at or (u.step.clock[e.seq] or 0) >= s.at then break end
      n, own = n + 1, own + (src.rings and 1 or u.by)
    end
    before[k] = {n = n, own = own}
    sum = sum + own * (src.rings or 1)
  end
  assert(sum >= s.wait.value, "a wait that nothing satisfies")
  local more = false
  for k, src in ipairs(sources or {}) do
    local need, i = s.wait.value - (sum - before[k].own), 0
    while need > 0 and i < before[k].n do
      i = i + 1
      need = need - (src.rings and 1 or src[i].by)
    end
    if i > 0 then more = join(s.clock, release(src[i].engine, src[i].step)) or more end
  end
  return more
end

local function fixed_point(engines, sems)
  repeat
    local more = false
    for _, e in ipairs(engines) do
      local last = {}
      for _, s in ipairs(e.steps) do
        more = join(s.clock, last) or more
        if s.wait then more = acquire(e, s, sems[s.wait.sem]) or more end
        if s.drain and s.drained > (s.clock[e.done] or 0) then s.clock[e.done], more = s.drained, true end
        last = s.clock
      end
    end
  until not more
  for _, e in ipairs(engines) do
    for _, s in ipairs(e.steps) do s.clock[e.seq] = s.at end
  end
end

local function analyse(text)
  local engines, rings = trace(text)
  local _, sems = number(engines, rings)
  fixed_point(engines, sems)
  local all = {}
  for _, e in ipairs(engines) do
    local n = 0
    for _, s in ipairs(e.steps) do
      if s.accesses then
        n = n + 1
        for k, a in ipairs(s.accesses) do all[#all + 1] = {a = a, s = s, e = e, id = e.name .. " " .. n .. " " .. k} end
      end
    end
  end
  return all
end

-- All accesses of a program: a sequence of {a, s (its step), e (its engine), id}; nil and why.
function M.analyse(text)
  local ok, all = pcall(analyse, text)
  if ok then return all end
  return nil, all
end

-- ---- Pairs --------------------------------------------------------------------------------------

local function meet(a, b)
  if a.where ~= b.where or a.p0 >= b.p1 or b.p0 >= a.p1 then return false end
  local i, j = 1, 1
  while a.runs[i] and b.runs[j] do
    local x, y = a.runs[i], b.runs[j]
    if x[1] < y[2] and y[1] < x[2] then return true end
    if x[2] <= y[1] then i = i + 1 else j = j + 1 end
  end
  return false
end

-- Whether x is sure to be complete when y begins.
function M.before(x, y)
  if x.s.data and y.s.data and x.e == y.e then return x.s.place < y.s.place end
  return (y.s.clock[x.s.chain] or 0) >= x.s.place
end

-- The conflicts of a program: a table "id id" -> true, the earlier first; nil and why when some two
-- are not ordered. visit(x, y), if given, is called for each.
function M.conflicts(all, visit)
  local by, pairs_ = {}, {}
  for _, x in ipairs(all) do
    by[x.a.where] = by[x.a.where] or {}
    table.insert(by[x.a.where], x)
  end
  for _, list in pairs(by) do
    for i, x in ipairs(list) do
      for j = i + 1, #list do
        local y = list[j]
        if x.s ~= y.s and (x.a.writes or y.a.writes) and meet(x.a, y.a) then
          local first, second = x, y
          if M.before(y, x) then first, second = y, x
          elseif not M.before(x, y) then return nil, x.id .. " and " .. y.id .. " are not ordered" end
          pairs_[first.id .. " < " .. second.id] = true
          if visit then visit(first, second) end
        end
      end
    end
  end
  return pairs_
end

-- Bytes that two accesses share, as runs.
local function shared(x, y)
  local runs, i, j = {}, 1, 1
  while x.runs[i] and y.runs[j] do
    local a, b = x.runs[i], y.runs[j]
    local lo, hi = math.max(a[1], b[1]), math.min(a[2], b[2])
    if lo < hi then runs[#runs + 1] = {lo, hi} end
    if a[2] <= b[2] then i = i + 1 else j = j + 1 end
  end
  return runs
end

local function without(runs, gone)
  for _, g in ipairs(gone) do
    local left = {}
    for _, r in ipairs(runs) do
      if g[2] <= r[1] or g[1] >= r[2] then left[#left + 1] = r
      else
        if r[1] < g[1] then left[#left + 1] = {r[1], g[1]} end
        if g[2] < r[2] then left[#left + 1] = {g[2], r[2]} end
      end
    end
    runs = left
  end
  return runs
end

-- Whether the bytes that x and y share lie within what the accesses of `writes` write together,
-- each of them in all of the shared partitions.
function M.covered(x, y, writes)
  local runs = shared(x, y)
  for _, w in ipairs(writes) do
    if w.p0 <= math.max(x.p0, y.p0) and w.p1 >= math.min(x.p1, y.p1) then runs = without(runs, w.runs) end
  end
  return #runs == 0
end

return M
