-- Moving a run, or all ranks of a world, on and back. Forward it runs in slices, and keeps a snapshot about every second of
-- host time; back it goes to the snapshot before and runs on from there, which gives the same run
-- again. While it does so, nothing is printed twice: callbacks are not called.
local _, host = ...
local place = host.place

-- All in seconds of the host, as that is what the user waits for.
local SECONDS, LONG, MOST = 0.25, 0.75, 32 -- between snapshots, at least; enough; of them
local BYTES = math.max(1 << 30, host.memory_bytes() // 4) -- of all of them
local SHARE = 4 -- the run takes this many times as long as its snapshots, unless that is over LONG
local EXPECTED = 2 -- seconds that a replay may take before it says so

-- Ranks of a program alone are one.
-- Calls fn for each engine of all ranks and cores.
local function each_engine(s, fn)
  for rank = 0, s.runs and #s.runs or 0 do
    local run = s.runs and s.runs[rank] or s.run
    for core = 0, s.cores - 1 do
      for _, name in ipairs(s.engines) do
        fn({rank = s.runs and rank, core = core, engine = name}, run:engine(name, {core = core}))
      end
    end
  end
end

-- Ranks, cores and engines in one text: a table's key.
local function key_of(e) return (e.rank or 0) .. " " .. e.core .. " " .. e.engine end

-- How far each engine had come, so that a snapshot can be found by it.
local function counts_of(s)
  local counts = {}
  each_engine(s, function(e, state) counts[key_of(e)] = state.instructions end)
  return counts
end

-- Snapshots share memory; each counts what it has by itself.
local function bytes_of(list)
  local bytes = 0
  for _, k in ipairs(list) do bytes = bytes + k.state.bytes end
  return bytes
end

-- The snapshot that is missed least: the gap that it leaves is the smallest for its distance from the
-- present. So they are dense near the present, where most ways back end. The first and the last stay.
local function least(list, seconds)
  local best, least_cost
  -- Neither the first nor the last is looked at.
  for i = 2, #list - 1 do
    local gap = list[i + 1].seconds - list[i - 1].seconds
    local cost = gap / math.sqrt(math.max(seconds - list[i].seconds, SECONDS))
    if not best or cost < least_cost then best, least_cost = i, cost end
  end
  return best
end

-- Its time counts as part of the session, as the user waits for it too.
local function keep(s)
  local started, list = host.seconds(), s.snapshots
  local at = #list + 1
  -- After going back there are snapshots of later times already; they stay, as the same run
  -- comes to them.
  while at > 1 and list[at - 1].time_ns > s.whole.time_ns do at = at - 1 end
  local ok, snapshot = pcall(s.whole.snapshot, s.whole, at > 1 and list[at - 1].state or nil)
  -- A run that is recorded, or too large: the session goes on without a way back.
  if not ok then
    s.no_way_back = tostring(snapshot):gsub("^.-snapshot: ", "")
    return
  end
  s.last = {state = snapshot, time_ns = s.whole.time_ns, seconds = s.seconds, counts = counts_of(s)}
  table.insert(list, at, s.last)
  s.kept = s.seconds
  -- Two always stay.
  while #list > 2 and (#list > MOST or bytes_of(list) > BYTES) do
    table.remove(list, least(list, list[#list].seconds)).state:close()
  end
  local took = host.seconds() - started
  -- A quarter second at least, and never more often than they take themselves.
  s.interval = math.max(SECONDS, math.min(SHARE * took, LONG), took)
end

-- A new session's first snapshot.
local function begin(s)
  -- Nanoseconds at first; the slice adapts itself.
  s.snapshots, s.seconds, s.kept, s.slice = {}, 0, 0, 1000
  if not s.whole.ended then keep(s) end
end

-- Keeps a snapshot when the last one is long past. One of an earlier way here counts too. A replay
-- keeps some only where they have become sparse.
local function keep_sometimes(s)
  -- Where the session cannot go back nothing is kept.
  if s.no_way_back or s.whole.ended then return end
  local last, list = #s.snapshots, s.snapshots
  while last > 1 and list[last].time_ns > s.whole.time_ns do last = last - 1 end
  if list[last] ~= s.last then s.last, s.kept = list[last], s.seconds end
  if s.seconds - s.kept > (s.replays and 2 or 1) * s.interval then keep(s) end
end

-- Runs until a stop of the run, its end, or that time (nil: none).
local function forward(s, until_ns)
  local run, cursor = s.whole, s.whole.time_ns
  repeat
    local started = host.seconds()
    cursor = math.max(cursor, run.time_ns) + s.slice
    -- The last slice ends at the time itself, not after it.
    local last = until_ns and cursor >= until_ns
    if last then run:until_time(until_ns)
    -- Beyond this the clock's range ends, so the rest is one move.
    elseif cursor < 1e12 then run:until_time(cursor)
    else run:continue() end
    local took = host.seconds() - started
    s.seconds = s.seconds + took
    -- Slices of 0.05 to 0.1 s: short enough for snapshots to lie near, long enough to cost
    -- little.
    if took < 0.05 then s.slice = math.min(s.slice * 4, 1e12) elseif took > 0.1 then s.slice = s.slice / 2 end
    keep_sometimes(s)
  until last or run.ended or #run.stopped > 0
end

-- ---- Back -----------------------------------------------------------------------------------

-- The latest snapshot that fits; raises where none exists.
-- From the last one on: the shortest way.
local function latest(s, fits)
  for i = #s.snapshots, 1, -1 do
    if fits(s.snapshots[i]) then return s.snapshots[i], i end
  end
  if s.no_way_back then place.refuse("this run cannot go back: %s", s.no_way_back) end
  place.refuse("the run cannot go back before %s, where the debugger began", host.show.ns(s.snapshots[1] and s.snapshots[1].time_ns or 0))
end

-- From a snapshot, without a sound, by fn, which moves on by `forward` or leaves s.seconds to others.
local function replay(s, snapshot, fn)
  local expected = s.seconds - snapshot.seconds
  -- It cannot take longer than the way from this snapshot to the next.
  for i, k in ipairs(s.snapshots) do -- its goal is before the next one
    local after = k == snapshot and s.snapshots[i + 1]
    if after then expected = math.min(expected, after.seconds - snapshot.seconds) end
  end
  if expected > EXPECTED then s.print(string.format("the replay takes about %.0f s", expected)) end
  -- Its own snapshot is restored, whatever time the run stands at.
  s.whole:restore(snapshot.state)
  s.whole:mute(true)
  s.seconds, s.kept, s.last = snapshot.seconds, snapshot.seconds, snapshot
  s.replays = true
  -- The sound comes back also after an error.
  local ok, message = pcall(fn)
  s.replays = false
  s.whole:mute(false)
  if not ok then error(message, 0) end
end

local function to_time(s, ns)
  local snapshot = latest(s, function(k) return k.time_ns <= ns end)
  replay(s, snapshot, function() forward(s, ns) end)
end

-- By instructions rather than time: several engines may issue at one moment.
-- To the moment at which the engine {core, engine} had issued n instructions.
local function to_count(s, e, n)
  local function had(k) return k.counts[key_of(e)] end
  -- With none issued, the first snapshot that knows the engine is good enough.
  local snapshot = latest(s, function(k) return had(k) < n or n == 0 and had(k) == 0 end)
  replay(s, snapshot, function()
    -- The snapshot is the moment already.
    if had(snapshot) == n then return end
    local stop = s.whole:add_stop {kind = "count", rank = e.rank, core = e.core, engine = e.engine, count = n}
    local ok, message = pcall(forward, s)
    -- The stop is this function's, and held only once.
    s.whole:remove_stop(stop)
    if not ok then error(message, 0) end
  end)
  -- It stands before its next instruction, where stops must not hold it again.
  s.whole:pass(e.engine, {rank = e.rank, core = e.core})
end

-- ---- Who -----------------------------------------------------------------------------------

-- Time alone may be that of several events; the hash tells which.
local function mark_of(run)
  local stats = run.stats
  return {hash = stats.trace_hash, instructions = stats.instructions, time_ns = stats.time_ns}
end

-- On to the very event of a mark.
local function to_mark(run, mark)
  -- To just before the time: several events may have it.
  run:until_time(math.max(0, mark.time_ns - 1e-5))
  while not run.ended do
    local now = run.stats
    if now.time_ns > mark.time_ns or now.trace_hash == mark.hash and now.instructions >= mark.instructions then return end
    run:step_event()
  end
end

-- The last hit of the watches in [a snapshot, stop), and how many; nil: none.
local function search(s, snapshot, watches, go)
  -- In a replay, so that the session stands where it stood afterwards.
  local ids, found, hits = {}, nil, 0
  replay(s, snapshot, function()
    for i, w in ipairs(watches) do
      -- Hits are counted and do not stop the run.
      w.quiet = true
      ids[i] = s.whole:add_stop(w)
    end
    go()
    for _, id in ipairs(ids) do
      local n, last = s.whole:stop_hits(id)
      hits = hits + n
      if last and (not found or last.time_ns >= found.time_ns) then found = last end
      s.whole:remove_stop(id)
    end
  end)
  return found, hits
end

-- The engines at whose next instruction the run has paused, which it then passes.
local function passed(s)
  local list = {}
  each_engine(s, function(e, state)
    if state.passes then list[#list + 1] = e end
  end)
  return list
end

-- Who touched the bytes of the watches last, up to now: a hit, or nil.
local function who(s, watches)
  -- All that is needed to come back to this very moment.
  local run, mark, faulted, seconds = s.whole, mark_of(s.whole), s.whole.fault ~= nil, s.seconds
  local last, i = latest(s, function(k) return k.time_ns <= mark.time_ns end)
  -- After a fault nothing can be kept; the end is found by running on.
  local here, passes = not faulted and run:snapshot(last.state) or nil, passed(s)
  local found, next_time = nil, nil
  local ok, message = pcall(function()
    -- Snapshot by snapshot backwards, each up to the beginning of the next.
    while i >= 1 and not found do
      local snapshot, stop = s.snapshots[i], next_time
      found = search(s, snapshot, watches, function()
        if stop then run:until_time(stop)
        elseif faulted then run:continue()
        else to_mark(run, mark) end
      end)
      next_time = snapshot.time_ns
      i = i - 1
    end
  end)
  if here then
    -- The run as it was, with all that it had.
    run:restore(here)
    here:close()
    -- Marks of engines that pass their stop are not part of a snapshot.
    for _, e in ipairs(passes) do run:pass(e.engine, {rank = e.rank, core = e.core}) end
  else
    -- A fault comes again, as it did before.
    replay(s, s.snapshots[#s.snapshots], function() run:continue() end)
  end
  -- The session's time has not gone on.
  s.seconds = seconds
  if not ok then error(message, 0) end
  return found
end

return {begin = begin, forward = forward, to_time = to_time, to_count = to_count, who = who}
