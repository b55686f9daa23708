-- Stops of a session and moving on between them: what a stop names, its condition, and what is said when
-- it holds.
local soma, host = ...
local place, show, replay = host.place, host.show, host.replay
local refuse, ns, core_name = place.refuse, show.ns, place.core_name

-- ---- Where it stands ------------------------------------------------------------------------

-- The state of an engine {core, engine}, and its next instruction.
-- In a world of the rank that e names.
local function state_of(s, e) return place.run_of(s, e):engine(e.engine, {core = e.core}) end
local function next_of(s, e)
  return show.at(s, e.core, e.engine, state_of(s, e).pc)
end

-- Macros and repetitions, the innermost first.
local function tell_calls(s, i)
  for _, call in ipairs(i.calls or {}) do s.print("    in " .. call) end
end

-- The line of the engine in focus, with what it waits for; before it the time, unless a stop has
-- told it.
local function tell_place(s, time_ns)
  local e = state_of(s, s.focus)
  -- An engine may be ahead of the run.
  local now = (s.runs or e.status == "halted") and s.whole.time_ns or math.max(s.whole.time_ns, e.time_ns)
  if not s.told then s.print("at " .. ns(time_ns or now)) end
  s.told = false
  local name = place.rank_name(s) .. core_name(s.focus.core, s.focus.engine)
  if e.status == "halted" or e.status == "idle" then
    -- There is no next instruction to show.
    s.print("  " .. name .. (e.status == "halted" and " has halted" or " has nothing to do: no collective has started"))
    return
  end
  local i = next_of(s, s.focus)
  s.print("  " .. place.rank_name(s) .. show.instruction(i))
  local line = show.source_line(s, i)
  -- A kernel's own line says more than its instruction.
  if line then s.print("    " .. line) end
  tell_calls(s, i)
  if e.status == "waiting" then
    s.print(string.format("    it waits for $%s%s%d, which is %d", e.semaphore_name or "S[" .. e.semaphore .. "]",
      e.condition, e.want, e.have))
  end
end

local function tell_end(s)
  local f, what = s.whole.fault, s.runs and "the world" or "the run"
  -- A fault has a text of its own.
  if not f then
    s.print(what .. " has ended well at " .. ns(s.whole.time_ns))
  else
    s.print(tostring(f))
    if f.engine then place.focus(s, {rank = f.rank, core = f.core or 0, engine = f.engine}) end
    s.print(what .. " has ended at " .. ns(s.whole.time_ns) .. (s.no_way_back and "" or "; back goes to before it"))
  end
end

-- ---- Stops ----------------------------------------------------------------------------------

-- What a condition and `lua` see: registers of the engine in focus, tiles and tensors, the module.
local function environment(s)
  -- One environment for a session: what `lua` sets stays.
  if s.environment then return s.environment end
  local env = {soma = soma, world = s.world, runs = s.runs}
  s.environment = env
  return setmetatable(env, {__index = function(_, name)
    -- r0 to r63.
    local r = math.tointeger(tonumber(tostring(name):match "^r(%d+)$" or ""))
    if r and r < 64 then return s.core:register(s.focus.engine, r, {core = s.focus.core}) end
    if name == "run" or name == "core" or name == "prog" or name == "rank" then return s[name] end
    if name == "time" then return s.whole.time_ns end
    if name == "engine" then return s.focus.engine end
    if name == "core_number" then return s.focus.core end
    if name == "sem" then return function(which) return place.semaphore_value(s, which) end end
    -- A name that is no tile falls through to Lua's own.
    local ok, m = pcall(place.memory, s, tostring(name))
    if ok then return place.read(s, m) end
    return _G[name]
  end})
end

-- An expression of Lua, in which $name is a semaphore's value, as a function.
local function expression(s, text)
  -- Both `$done` and `$peer.done`.
  -- The longer form first, which the other pattern would cut.
  local lua = text:gsub("%$(peer%.[%a_][%w_]*)", 'sem("%1")'):gsub("%$([%a_][%w_]*)", 'sem("%1")')
  local env = environment(s)
  local f, message = load("return " .. lua, "=expression", "t", env)
  -- Statements are not expressions, but are allowed.
  if not f then f, message = load(lua, "=expression", "t", env) end
  if not f then refuse("%s", message) end
  return f
end

-- "core 1 vector 3 (add.s:14)": an instruction.
local function spot(i, rank)
  return rank .. core_name(i.core, i.engine) .. " " .. i.pc .. (i.file and " (" .. show.where(i) .. ")" or "")
end

-- The instructions that a text names as stops, of all ranks unless one is given, and what to call them.
local function places_of(s, text)
  -- All ranks, or the one that was given.
  local stops, words, found, was = {}, {}, 0, s.rank
  local first, last = s.given_rank or 0, s.given_rank or s.runs and #s.runs or 0
  local wrong
  for rank = first, last do
    place.at_rank(s, rank)
    local ok, list = pcall(place.code, s, text)
    -- The error is told only if no rank has it.
    -- A label may stand in the program of one rank alone.
    if not ok then wrong = wrong or list end
    for _, i in ipairs(ok and list or {}) do
      stops[#stops + 1] = {kind = "pc", rank = s.rank, core = i.core, engine = i.engine, pc = i.pc}
      -- Three places are named, the others counted.
      if #stops <= 3 then words[#words + 1] = spot(i, place.rank_name(s)) end
    end
    found = found + (ok and 1 or 0)
  end
  place.at_rank(s, was)
  if found == 0 then error(wrong, 0) end
  if #stops > place.most then refuse("'%s' stands for more than %d places in the code of all ranks: begin with rank N", text, place.most) end
  return stops, table.concat(words, ", ") .. (#stops > 3 and " and " .. #stops - 3 .. " more" or "")
end

-- The stops of the run that a text names, and what to call them.
local function stops_of(s, text)
  -- The first word tells what kind of stop it is.
  local what = text:match "^write%s+(.+)$"
  if what then
    local m = place.memory(s, what)
    return place.watches(m, "write"), "a write to " .. m.text
  end
  what = text:match "^time%s+(.+)$"
  if what then
    -- Times are no stops of the run: the session goes to them.
    local t = place.time(what)
    return {}, "time " .. ns(t), t
  end
  local prefix, rest = place.core_of(s, text)
  -- With a prefix the semaphore is of that core.
  local sem, cond, value = rest:match "^%$([%w_.%[%]]+)%s*([<>=!]=?)%s*(%d+)$"
  if sem then
    local number, core = place.semaphore(s, sem, prefix)
    return {{kind = "semaphore", rank = s.rank, core = core, semaphore = number, condition = cond, value = math.tointeger(tonumber(value))}},
      place.rank_name(s) .. core_name(prefix or s.focus.core, "$" .. sem .. cond .. value)
  end
  if rest:match "^%$" then refuse("'%s' is not a condition of a semaphore: write $name>=4", rest) end
  return places_of(s, text)
end

-- What stands at a place that is watched.
local function value_of(s, b)
  local was = s.rank
  place.at_rank(s, b.rank)
  -- The slice may not exist in another rank's program.
  local ok, m = pcall(place.memory, s, b.shown)
  local text = ok and m.text .. " = " .. show.matrix(place.read(s, m))
  place.at_rank(s, was)
  if not ok then error(m, 0) end
  return text
end

-- shown: it is a watch, of what follows the word "write".
local function add_break(s, text, once, shown)
  -- A condition is all that follows the word if.
  local where, cond = text:match "^(.-)%s+if%s+(.+)$"
  where = (where or text):match "^%s*(.-)%s*$"
  if where == "" then refuse "break where? FILE:LINE, LINE, ENGINE:PC, a label, $sem>=n, write TILE, time T" end
  local stops, what, t = stops_of(s, where)
  -- The condition is compiled now, so that a mistake in it is told now.
  local b = {stops = stops, what = what, time_ns = t, once = once, hits = 0, cond = cond, test = cond and expression(s, cond)}
  if shown then
    b.shown, b.rank = where:match "^write%s+(.+)$", s.rank
  end
  for _, stop in ipairs(stops) do -- what cannot be is refused now
    s.whole:remove_stop(s.whole:add_stop(stop))
  end
  s.last_break = s.last_break + 1
  -- Numbers are never used again.
  b.number = s.last_break
  s.breaks[#s.breaks + 1] = b
  s.print(string.format("stop %d: %s%s%s", b.number, b.what, cond and " if " .. cond or "", once and ", once" or ""))
end

local function remove_break(s, b)
  -- Its stops in the run are gone already: they are there only while it moves.
  for i, k in ipairs(s.breaks) do
    if k == b then table.remove(s.breaks, i) end
  end
end

local function arm(s)
  s.armed = {}
  for _, b in ipairs(s.breaks) do
    for _, stop in ipairs(b.stops) do s.armed[s.whole:add_stop(stop)] = b end
  end
end
local function disarm(s)
  -- A stop may have gone with a snapshot that was restored.
  for id in pairs(s.armed) do pcall(s.whole.remove_stop, s.whole, id) end
  s.armed = {}
end

-- The time that the run has come to: there need be no event at it.
local function now(s) return math.max(s.whole.time_ns, s.came_to) end

-- The next stop by time; nil: none.
local function next_time(s)
  local best
  for _, b in ipairs(s.breaks) do
    if b.time_ns and b.time_ns > now(s) and (not best or b.time_ns < best.time_ns) then best = b end
  end
  return best
end

-- Whether the stop holds with its condition; tells of it.
local function holds(s, b, hit)
  local from = hit.from_rank or hit.rank -- of its instruction
  if hit.engine then place.focus(s, {rank = hit.rank, core = hit.core, engine = hit.from_rank and s.focus.engine or hit.engine}) end
  if b.test then
    -- A condition may read what does not exist at this moment.
    local ok, value = pcall(b.test)
    if not ok then
      s.print("stop " .. b.number .. ": its condition fails: " .. tostring(type(value) == "table" and value.message or value))
    elseif not value then
      return false
    end
  end
  -- Only hits whose condition holds are counted.
  b.hits = b.hits + 1
  s.told = true
  local at_pc = #b.stops > 1 and b.stops[1].kind == "pc" and hit.pc -- which of them it is
  s.print(string.format("stop %d at %s: %s", b.number, ns(b.time_ns or s.whole.time_ns),
    at_pc and spot(show.at(s, hit.core, hit.engine, hit.pc), place.rank_name(s, from)) or b.what))
  -- Once means: the first time that it holds.
  if b.once then remove_break(s, b) end
  return true
end

-- Tells of a write: who it was. The engine itself has gone on since.
local function tell_writer(s, hit)
  local was = s.rank
  place.at_rank(s, hit.from_rank or hit.rank)
  local i = show.at(s, hit.core, hit.engine, hit.pc)
  -- A message tells when its bytes came, a write from when to when.
  local how = hit.from_rank and ", whose bytes have come at " .. ns(hit.time_ns) or
    string.format("%s, from %s to %s", hit.dma_engine and ", DMA engine " .. hit.dma_engine or "", ns(hit.start_ns), ns(hit.time_ns))
  s.print(string.format("  written by %s%s%s%s", place.rank_name(s), show.instruction(i), how,
    hit.part and " (it may not have changed these bytes)" or ""))
  place.at_rank(s, was)
end

-- Runs on by `go(limit)` until a stop that holds, the end, or what go itself stops at, and says
-- where it stands. Own stops of the caller are in `mine`, by number: true when one has held.
local function move(s, go, mine)
  if s.whole.ended then
    refuse(s.whole.fault and "the run has ended with a fault; back goes to before it" or "the run has ended; back and until go back")
  end
  local done, own, before = false, false, {} -- before: what stands at places that are watched
  -- For `watch`: what is there before the move.
  for _, b in ipairs(s.breaks) do before[b] = b.shown and value_of(s, b) end
  s.told = false
  -- A condition is about the engine that was stopped; where none holds the user's focus returns.
  local focus = s.focus
  repeat
    -- Times and stops are both limits of this move.
    local timed = next_time(s)
    arm(s)
    local ok, message = pcall(go, timed and timed.time_ns)
    local hits = s.whole.stopped
    -- Stops are in the run only while it moves: commands that step must not hit them.
    local armed = s.armed
    disarm(s)
    -- Stops are taken away first, even after an error.
    if not ok then error(message, 0) end
    for _, hit in ipairs(hits) do
      if mine and mine[hit.stop] then done, own = true, true end
    end
    for _, hit in ipairs(hits) do
      local b = armed[hit.stop]
      if b and holds(s, b, hit) then
        done = true
        -- Who wrote it is the question that a stop at a write answers.
        if b.stops[1].kind == "write" and hit.engine then tell_writer(s, hit) end
        if b.shown then
          local value = value_of(s, b)
          s.print(value == before[b] and "  its numbers are the same as before" or value)
        end
        focus = s.focus
      end
    end
    -- Nothing else has held, and the time is that of the stop.
    local at_time = timed and #hits == 0 and not s.whole.ended and s.reached == timed.time_ns
    if at_time and holds(s, timed, {}) then done = true end
    -- Neither a stop nor a time: the move itself has come to its end.
    if #hits == 0 and not at_time then done = true end
  until done or s.whole.ended
  place.focus(s, focus)
  if s.whole.ended then tell_end(s) end
  return own
end

-- For move: to a time or the end, whichever limit comes first.
local function run_to(s, until_ns)
  return function(limit)
    local to = until_ns
    -- The nearer of the two limits.
    if limit and (not to or limit < to) then to = limit end
    s.reached = nil
    replay.forward(s, to)
    -- What the prompt tells, although no event need be at that time.
    if to and not s.whole.ended and #s.whole.stopped == 0 then s.reached, s.came_to = to, to end
  end
end

return {state_of = state_of, next_of = next_of, tell_place = tell_place, tell_end = tell_end, tell_writer = tell_writer, now = now,
        expression = expression, add = add_break, remove = remove_break, move = move, run_to = run_to}
