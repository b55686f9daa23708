-- The mutations. Each mutant is {kind, at (a place for people), text = its source} or, of a tile
-- that was moved, {kind, at, tile, delta}; and what the rules of equal.lua look at: `line`,
-- `other`, the numbers of the lines concerned.
local source = require "mutants.source"

local function place(i) return i.section .. " " .. i.pc end

local kinds = {}

-- Each instruction with its number.
local function instructions(p, f)
  for k, i in ipairs(p.lines) do if type(i) == "table" then f(k, i) end end
end

kinds["drop wait"] = function(p, add)
  instructions(p, function(k, i)
    if i.wait then add {line = k, changes = {[k] = source.changed(i, {wait = false})}} end
  end)
end

kinds["drop update"] = function(p, add)
  instructions(p, function(k, i)
    if i.update then add {line = k, changes = {[k] = source.changed(i, {update = false})}} end
  end)
end

-- Transfers update by one for each ring: a step is one ring, and one transfer.
local function steps_of(p, sem)
  local steps = {1}
  instructions(p, function(_, i)
    if i.update and i.update.sem == sem and i.update.text == "" then steps[2] = 16 end
  end)
  return steps
end

local function lower(i, step)
  local w = i.wait
  local function wait(v) return {sem = w.sem, cond = w.cond, value = v} end
  if math.type(w.value) then
    if w.value < step then return end
    return source.changed(i, {wait = wait(w.value - step)})
  end
  return string.format("        sub r62, %s, %d\n        max r62, r62, 0\n        %s", w.value, step,
    i.head .. source.clauses {wait = wait "r62", update = i.update})
end

kinds["lower wait"] = function(p, add)
  instructions(p, function(k, i)
    for _, step in ipairs(i.wait and steps_of(p, i.wait.sem) or {}) do
      local l = lower(i, step)
      if l then add {line = k, step = step, at = " by " .. step, changes = {[k] = l}} end
    end
  end)
end

-- Registers that waits compare with begin one step lower.
kinds["lower register"] = function(p, add)
  local compared = {}
  instructions(p, function(_, i)
    if i.wait and not math.type(i.wait.value) then compared[i.section .. i.wait.value] = i.wait.sem end
  end)
  instructions(p, function(k, i)
    local r, v = i.head:match "^mov (r%d+), (%d+)$"
    local sem = r and compared[i.section .. r]
    for _, step in ipairs(sem and steps_of(p, sem) or {}) do
      if tonumber(v) >= step then
        local l = source.changed(i, {head = string.format("mov %s, %d", r, v - step)})
        add {line = k, at = " by " .. step, changes = {[k] = l}}
      end
    end
  end)
end

-- Updates of neighbours in a section, of one sort: a transfer's is a bare name.
kinds["swap updates"] = function(p, add)
  local last = {}
  instructions(p, function(k, i)
    if not i.update then return end
    local sort = i.section .. (i.update.text == "" and " dma" or "")
    local j = last[sort]
    last[sort] = k
    local other = j and p.lines[j]
    if not other or other.update.sem .. other.update.text == i.update.sem .. i.update.text then return end
    add {line = j, other = k, at = " and " .. i.pc, changes = {
      [j] = source.changed(other, {update = i.update}), [k] = source.changed(i, {update = other.update})}}
  end)
end

kinds["retarget update"] = function(p, add)
  local number = {}
  for n, s in ipairs(p.sems) do number[s] = n end
  instructions(p, function(k, i)
    local n = i.update and number[i.update.sem]
    if not n or #p.sems < 2 then return end
    local seen = {[n] = true}
    for _, d in ipairs {0, -2} do
      local m = (n + d) % #p.sems + 1
      if not seen[m] then
        seen[m] = true
        local u = {sem = p.sems[m], text = i.update.text}
        add {line = k, to = u.sem, at = " to " .. u.sem, changes = {[k] = source.changed(i, {update = u})}}
      end
    end
  end)
end

-- Onto the start of the next tile of its memory, onto the one before, and half over the next.
kinds["shift tile"] = function(p, add)
  for n, t in ipairs(p.tiles) do
    local before, after
    for m, u in ipairs(p.tiles) do
      if m ~= n and u.space == t.space then
        if u.offset < t.offset and (not before or u.offset > before.offset) then before = u end
        if u.offset > t.offset and (not after or u.offset < after.offset) then after = u end
      end
    end
    if after then
      local by = after.offset - t.offset
      add {tile = n, delta = by, at = t.name .. " onto " .. after.name}
      if by >= 128 then
        add {tile = n, delta = by // 2 // 64 * 64, at = t.name .. " half over " .. after.name}
      end
    end
    if before then
      add {tile = n, delta = before.offset - t.offset, at = t.name .. " onto " .. before.name}
    end
  end
end

-- acc=write becomes add, and auto; the first acc=auto, which is the default, of a tile becomes add.
kinds["drop first flag"] = function(p, add)
  local started = {}
  instructions(p, function(k, i)
    if i.op ~= "matmul" or i.head:find "transpose=true" then return end
    local tile = i.head:match "@psum%[[^%]]-,([^%],]+)%]"
    local function becomes(acc)
      local head = i.head:gsub(",? acc=%w+", "")
      add {line = k, acc = acc, at = " acc=" .. acc,
        changes = {[k] = source.changed(i, {head = head .. ", acc=" .. acc})}}
    end
    if i.head:find "acc=write" then
      becomes "add"
      becomes "auto"
    elseif not i.head:find "acc=add" and not started[tile] then
      becomes "add"
    end
    started[tile or ""] = true
  end)
end

-- memset and mov become nothing, with their clauses; the first transfer from HBM to each tile
-- becomes an instruction that updates the semaphore as the transfer would have.
kinds["drop initialisation"] = function(p, add)
  local loaded, queues, triggers = {}, {}, {}
  local function first(text)
    local tile = text:match "@sbuf%[[^%]]-,([^%],]+)%]"
    if not tile or loaded[tile] or not text:find "@hbm.*$" or text:find "@hbm.*@sbuf" then return end
    loaded[tile] = true
    return true
  end
  for k, l in ipairs(p.lines) do
    local q, operands = nil, nil
    if type(l) == "string" then q, operands = l:match "^dma (%S+), (.*)$" end
    if q then
      queues[q] = queues[q] or {}
      table.insert(queues[q], {line = k, first = first(operands)})
    end
  end
  instructions(p, function(k, i)
    local function signalled(changes)
      local u = i.update and {sem = i.update.sem, text = "+=16"}
      changes[k] = source.changed(i, {head = "nop", update = u})
      add {line = k, changes = changes}
    end
    if i.op == "memset" or i.op == "mov" then
      add {line = k, changes = {[k] = source.changed(i, {head = "nop"})}}
    elseif i.op == "dma_copy" and first(i.head) then
      signalled {}
    elseif i.op == "dma_trigger" then
      local q, n = i.head:match "^dma_trigger (%S+), 1$", (triggers[i.head] or 0) + 1
      triggers[i.head] = n
      local t = q and queues[q] and queues[q][n]
      if t and t.first then signalled {[t.line] = ""} end
    end
  end)
end

local order = {"drop wait", "drop update", "lower wait", "lower register", "swap updates",
  "retarget update", "shift tile", "drop first flag", "drop initialisation"}

-- All mutants of a parsed program.
local function mutants(p)
  local list = {}
  for _, kind in ipairs(order) do
    kinds[kind](p, function(m)
      m.kind = kind
      m.at = (m.line and place(p.lines[m.line]) or "") .. (m.at or "")
      if m.changes then m.text = source.text(p, m.changes) end
      list[#list + 1] = m
    end)
  end
  return list
end

return {mutants = mutants, kinds = order}
