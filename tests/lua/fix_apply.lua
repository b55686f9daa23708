-- Does to the source of a program what the fixes of findings say. The source is canonical text: an
-- instruction a line, without macros, so that a place `p.s:12` is one instruction.
local source = require "mutants.source"
local M = {}

-- ---- What a fix says ----------------------------------------------------------------------------

-- ", in round 3, and for 16 more in each round after it": the first round, and by how much it rises.
local function rounds_of(text)
  local first = tonumber(text:match "^ in round (%d+)" or 1)
  local more = text:match "^ in round %d+, and for (%S+) more in each round" or
    text:match "^, and for (%S+) more in each round"
  if text:find "^[^;.]*in each round" and not tonumber(more) then return nil end
  return first, tonumber(more or 0)
end

-- The steps that a fix asks for, or nil.
local function parse(finding)
  local fix = finding:match "\n  fix: ([^\n]*)"
  local at = tonumber(finding:match "^p%.s:(%d+)")
  if not fix then return nil, "no fix" end
  fix = fix:gsub("^p%.s:%d+ overwrites too early what p%.s:%d+ reads: ", "")
  fix = fix:gsub("^what .- can hold before p%.s:%d+ is over: ", "")
  fix = fix:gsub("^p%.s:%d+ signals before p%.s:%d+ is over: ", "")
  fix = fix:gsub("^p%.s:%d+ adds to its semaphore before p%.s:%d+ is over: ", "")
  if fix:find "must drain before it triggers the transfer" then return {kind = "drain", at = at} end
  local drain = tonumber(fix:match "^[%w ]+ must drain before p%.s:(%d+)")
  if drain then return {kind = "drain", at = drain} end
  fix = fix:gsub("(%$[%w_]+) of core %d", "%1")
  local sem, value, line, rest = fix:match "must wait for %$([%w_]+) >= (%d+) before p%.s:(%d+)(.*)"
  if sem then
    local take = fix:match "and take it: (event_semaphore .*)$"
    if take then return {kind = "take", at = tonumber(line), text = take} end
    local old, more_of_it = fix:match "it waits for %d+ at p%.s:(%d+)%. One way: (event_semaphore .*)$"
    if old then return {kind = "raise", at = tonumber(old), text = more_of_it} end
    local place
    local wrong = rest:match "it waits for [<=!]=? ?%d+(.*)"
    if wrong then
      place = tonumber(wrong:match "^ at p%.s:(%d+)") or tonumber(line)
      return {kind = "instead", at = place, sem = sem, value = tonumber(value)}
    end
    local first, more = rounds_of(rest)
    if not first then return nil, "no number for each round" end
    return {kind = "wait", sem = sem, value = tonumber(value), at = tonumber(line), first = first, more = more}
  end
  local take_it = fix:match "^wait for the value and take it at once: (event_semaphore .*)$"
  if take_it then return {kind = "raise", at = at, text = take_it} end
  local trigger, waits = fix:match "^[%w ]+ must update a semaphore after p%.s:(%d+), and [%w ]+ wait for it before p%.s:(%d+)"
  if trigger then
    return {kind = "signal", by = tonumber(trigger), how = "after", at = tonumber(waits), first = 1, more = 0}
  end
  local drained, wanted, rounds = fix:match "must drain and update a semaphore of its own after p%.s:(%d+), and [%w ]+ wait for it before p%.s:(%d+)(.*)"
  if drained then
    local first, more = rounds_of(rounds)
    return {kind = "signal", by = tonumber(drained), how = "drain", at = tonumber(wanted), first = first, more = more}
  end
  local by, how, to, after = fix:match "^p%.s:(%d+) must (.-), and [%w ]+ wait for it before p%.s:(%d+)(.*)"
  if by and how:find "update" then
    local first, more = rounds_of(after)
    if not first then return nil, "no number for each round" end
    return {kind = "signal", by = tonumber(by), how = how, at = tonumber(to), first = first, more = more}
  end
  return nil, "cannot be applied"
end

-- ---- Doing it -----------------------------------------------------------------------------------

local Edit = {}
Edit.__index = Edit

local function edit(text)
  local e = setmetatable({lines = {}, before = {}, after = {}, starts = {}, made = 0}, Edit)
  for l in text:gmatch "[^\n]+" do e.lines[#e.lines + 1] = l end
  return e
end

-- The line that opens the section of a line.
function Edit:section(at)
  while not self.lines[at]:find "^section" do at = at - 1 end
  return at
end

-- A register that the section of a line does not name.
function Edit:register(at)
  local from, used = self:section(at), {}
  for k = from + 1, #self.lines do
    if self.lines[k]:find "^section" then break end
    for r in self.lines[k]:gmatch "%f[%w]r(%d+)" do used[tonumber(r)] = true end
  end
  self.taken = self.taken or {}
  for r = 61, 0, -1 do
    local key = from .. " " .. r
    if not used[r] and not self.taken[key] then
      self.taken[key] = true
      return "r" .. r
    end
  end
end

function Edit:add(where, at, text)
  self[where][at] = (self[where][at] or "") .. text .. "\n"
end

-- A wait for `value` before a line from round `first` on, and for `more` more in each round after it.
function Edit:wait(sem, value, at, first, more)
  if first == 1 and more == 0 then
    self:add("before", at, string.format("        nop $%s>=%d", sem, value))
    return
  end
  local n, v = self:register(at), self:register(at)
  self.made = self.made + 1
  local label = "fix" .. self.made
  self:add("starts", self:section(at), string.format("        mov %s, 0", n))
  self:add("before", at, string.format([[
        add %s, %s, 1
        blt %s, %d, %s
        sub %s, %s, %d
        mul %s, %s, %d
        add %s, %s, %d
        nop $%s>=%s
%s:]], n, n, n, first, label, v, n, first, v, v, more, v, v, value, sem, v, label))
end

-- Rings of the queue that a transfer uses; 0: no transfer.
function Edit:rings(head)
  local q = head:match "^dma.*queue=([%w_]+)" or head:match "^dma_trigger ([%w_]+)"
  for _, l in ipairs(q and self.lines or {}) do
    local n = l:match("^" .. q .. " queue rings=(%d+)")
    if n then return tonumber(n) end
  end
  return q and 16 or 0
end

local does = {}

function does.wait(e, f) e:wait(f.sem, f.value, f.at, f.first, f.more) end

function does.instead(e, f)
  e.lines[f.at] = e.lines[f.at]:gsub("%$" .. f.sem .. "[<=!]=?%d+", "$" .. f.sem .. ">=" .. f.value, 1)
end

function does.drain(e, f) e:add("before", f.at, "        drain") end

function does.take(e, f) e:add("before", f.at, "        " .. f.text) end

function does.raise(e, f) e.lines[f.at] = "        " .. f.text end

function does.signal(e, f)
  local sem, head = "fix_" .. e.made, e.lines[f.by]
  local i = source.parse("section x\n" .. head).lines[2]
  local rings = e:rings(i.head)
  e.made = e.made + 1
  if f.how == "update its semaphore when it is complete, without @read" then
    e.lines[f.by] = head:gsub("@read", "")
    return
  end
  local count = rings > 0 and rings or 1
  local mark = rings > 0 and " $" .. sem or " $" .. sem .. "++"
  if f.how == "drain" or f.how == "after" then
    e:add("after", f.by, (f.how == "drain" and "        drain\n" or "") .. "        nop $" .. sem .. "++")
    e.declared = (e.declared or "") .. sem .. " sem\n"
    e:wait(sem, 1, f.at, f.first, f.more)
    return
  end
  if i.update then return "it has an update already" end
  e.lines[f.by] = head .. mark
  e.declared = (e.declared or "") .. sem .. " sem\n"
  e:wait(sem, count, f.at, f.first, f.more * count)
end

function Edit:text()
  local out = {}
  for k, l in ipairs(self.lines) do
    if l:find "^section" and self.declared then
      out[#out + 1], self.declared = self.declared, nil
    end
    out[#out + 1] = (self.before[k] or "") .. l .. "\n" .. (self.after[k] or "") .. (self.starts[k] or "")
  end
  return table.concat(out)
end

-- The text with the fixes of findings made: the first, and of the others all that can be. nil and
-- why if the first cannot.
function M.apply(text, findings)
  local e = edit(text)
  for n, f in ipairs(findings) do
    local step, why = parse(f.text)
    why = step and does[step.kind](e, step) or why
    if why and n == 1 then return nil, why end
  end
  return e:text()
end

return M
