-- A session's whole: what moves, stops and goes back, with the methods of a run. Of a program alone it is
-- the run; of a world this object moves all ranks, and a stop or an engine has the field `rank`.
local KEY <const> = 1 << 32 -- numbers of stops are those of their rank's run, with the rank above them

-- What stopped a world, as the fault of a run.
local function fault_of(runs)
  -- Text and time are the world's, as the fault may be of several ranks.
  local f = {kind = runs.kind, time_ns = runs.time_ns, text = runs.fault}
  for r = 0, #runs do
    local own = runs[r].fault
    -- The first rank with a fault of the same kind has the place; the others were only stopped
    -- by it.
    if own and own.kind == runs.kind then
      f.rank, f.core, f.engine, f.pc, f.time_ns = r, own.core, own.engine, own.pc, own.time_ns
      break
    end
  end
  -- Printed as the world words it.
  return setmetatable(f, {__tostring = function() return runs.fault end})
end

-- Fields by name, as a run has them.
local get = {}
function get.time_ns(w) return w.runs.time_ns end
function get.fault(w) return w.runs.fault and fault_of(w.runs) or nil end
function get.ended(w)
  -- A world has ended when all of its ranks have, or one has faulted.
  if w.runs.fault then return true end
  for r = 0, #w.runs do
    if not w.runs[r].ended then return false end
  end
  return true
end
function get.stopped(w)
  -- Hits get the number by which this object knows the stop.
  local hits = {}
  for i, hit in ipairs(w.runs.stopped) do
    hits[i] = setmetatable({stop = hit.rank * KEY + hit.stop}, {__index = hit})
  end
  return hits
end
function get.stats(w)
  -- Instructions of all ranks; the hash is of the whole world.
  local n = 0
  for r = 0, #w.runs do n = n + w.runs[r].stats.instructions end
  return {trace_hash = w.runs.hash, instructions = n, time_ns = w.runs.time_ns}
end

local returns <const> = {faults = "return"}
-- Ctrl-C leaves all ranks where they were.
local function moved(w)
  if w.runs.kind == "stopped" then error("interrupted", 0) end
end

local methods = {}
function methods.continue(w) w.world:continue(returns) moved(w) end
function methods.until_time(w, ns) w.world:until_time(ns, returns) moved(w) end
function methods.step_event(w) w.world:step_event(returns) moved(w) end
function methods.step(w, engine, at) w.world:step(at.rank, engine, {core = at.core, faults = "return"}) moved(w) end
-- Shares what an earlier snapshot has.
function methods.snapshot(w, before) return w.world:snapshot(before) end
function methods.restore(w, state) w.world:restore(state) end
function methods.save(w, path) return w.world:save(path) end
function methods.mute(w, on)
  for r = 0, #w.runs do w.runs[r]:mute(on) end
end
function methods.log_lines(w, print)
  -- Lines of all ranks come in one stream, so each has its rank.
  for r = 0, #w.runs do
    w.runs[r]:log_lines(print and function(text) print("rank " .. r .. "  " .. text) end)
  end
end
function methods.pass(w, engine, at) w.runs[at.rank]:pass(engine, {core = at.core}) end
function methods.add_stop(w, stop)
  -- The run itself knows no ranks.
  local own = {}
  for k, v in pairs(stop) do own[k] = v end
  own.rank = nil
  -- Ranks and numbers in one integer, so that a stop is one value.
  return stop.rank * KEY + w.runs[stop.rank]:add_stop(own)
end
function methods.remove_stop(w, key) w.runs[key // KEY]:remove_stop(key % KEY) end
function methods.stop_hits(w, key)
  local n, last = w.runs[key // KEY]:stop_hits(key % KEY)
  -- The rank's own hit, with the rank in it.
  if last then last.rank = key // KEY end
  return n, last
end

-- The whole of a world whose runs have been started.
local function whole_of(world, runs)
  return setmetatable({world = world, runs = runs}, {__index = function(w, name)
    if get[name] then return get[name](w) end
    return methods[name]
  end})
end

return {whole_of = whole_of}
