-- Random worlds of ranks: what their tensors hold, against a reference; one hash, time and result for any number of
-- threads and wherever windows end, with the race check and without; saved in the middle, one file for all of these, and the same end;
-- and moved by single events, with stops, forward and back. Half of them are saved, and go back, with the race check and causes.
-- COUNT=1000 tests more, SEED=17 begins with another one.
local soma = require "soma"
local t = require "harness"
local make = require "random_world"
local case = t.case

local count, first = tonumber(os.getenv "COUNT" or 30), tonumber(os.getenv "SEED" or 1)
local stopped = 0
local also = {{137, 1}, {1000, 2}, {5000, 3}, {0, 8}, {0, 2}}

local function compare(x, r, run)
  for name, rows in pairs(x.want[r]) do
    local got = name:sub(-1) ~= "x" and run.out[name]:tolist() or nil
    for i = 1, got and x.rows or 0 do
      local row = rows[i - 1]
      local half = #row[1]
      for k, v in ipairs(got[i]) do
        local want = k <= half and row[1][k] or row[2][k - half]
        if v ~= want then error(("rank %d, %s[%d, %d] is %s, not %s"):format(r, name, i - 1, k - 1, v, want), 0) end
      end
    end
  end
  for name, turns in pairs(x.turns[r]) do
    local v = run.out[name]
    if v[0][0] ~= turns or v[63][7] ~= turns then error(("rank %d, %s is %s, not %d"):format(r, name, v[0][0], turns), 0) end
  end
end

local function results(x, runs)
  local bytes = {}
  for r = 0, x.options.ranks - 1 do
    for name in pairs(x.want[r]) do
      if name:sub(-1) ~= "x" then bytes[#bytes + 1] = r .. name .. runs[r].out[name]:bytes() end
    end
  end
  table.sort(bytes)
  return runs, ("%s at %s"):format(runs.hash, runs.time_ns), table.concat(bytes)
end

local function inputs_of(x)
  return function(r)
    local all = {}
    for name, v in pairs(x.inputs[r]) do all[name] = soma.tensor(v, v.dtype or x.dtype):reshape(v.shape or {x.rows, x.columns}) end
    return all
  end
end

-- stop: the world is saved at that time, and goes on from the file, whose bytes come last.
local function go(x, progs, window, threads, checks, stop)
  local o = {window_ns = window, threads = threads, checks = checks, causes = checks and stop ~= nil}
  for k, v in pairs(x.options) do o[k] = v end
  local w <close> = soma.world(o)
  local inputs = inputs_of(x)
  if not stop then return results(x, w:run(progs, inputs)) end
  local path = t.temp()
  w:start(progs, inputs)
  w:continue {until_ns = stop}
  assert(w:save(path))
  w:close()
  local again <close>, runs = soma.load_world(path, {window_ns = window, threads = threads})
  again:continue() -- the checks find nothing, or this would fail
  local _, told, bytes = results(x, runs)
  return runs, told, bytes, t.read(path)
end

-- By single events to a time, where the file is that of windows; then twice to the end, with stops of all kinds of engines.
local function debugged(x, progs, seed, stop, checks)
  local o = {checks = checks, causes = checks ~= nil}
  for k, v in pairs(x.options) do o[k] = v end
  local w <close> = soma.world(o)
  local path, runs = t.temp(), w:start(progs, inputs_of(x))
  w:until_time(stop)
  for r = 0, x.options.ranks - 1 do assert(runs[r].time_ns <= stop) end
  assert(w:save(path))
  local file, there <close> = t.read(path), w:snapshot()
  w:continue()
  local _, told, bytes = results(x, runs)
  w:restore(there)
  assert(w:save(path))
  assert(t.read(path) == file, "the world has not come back")
  local stops, rng = 0, seed
  for r = 0, x.options.ranks - 1 do
    for core = 0, (x.options.lnc or 1) - 1 do
      for _, i in ipairs(w:program(r):instructions {core = core}) do
        rng = (rng * 1103515245 + 12345) % 2147483648
        if rng // 65536 % 7 == 0 then runs[r]:add_stop {kind = "pc", core = core, engine = i.engine, pc = i.pc} end
      end
    end
  end
  repeat
    w:continue()
    stops = stops + #runs.stopped
    local at = runs.stopped[1]
    for r = 0, at and x.options.ranks - 1 or -1 do
      assert(runs[r].time_ns <= at.time_ns, "a rank is ahead of a stop")
    end
  until runs[0].ended
  local _, told2, bytes2 = results(x, runs)
  assert(told2 == told and bytes2 == bytes, "with stops: " .. told2 .. ", not " .. told)
  return told, bytes, file, stops
end

local function try(seed)
  local x, progs = make(seed), {}
  for r = 0, x.options.ranks - 1 do progs[r] = soma.assemble(x.source[r]) end
  local runs, told, bytes = go(x, progs, 0, 1)
  for r = 0, x.options.ranks - 1 do compare(x, r, runs[r]) end
  for i = 1, count > 100 and 2 or #also do
    local a = also[(seed + i) % #also + 1]
    local _, told2, bytes2 = go(x, progs, a[1], a[2], i == 1 and "race" or nil) -- and no finding
    if told2 ~= told then error(("window_ns=%d, threads=%d: %s, not %s"):format(a[1], a[2], told2, told), 0) end
    if bytes2 ~= bytes then error(("window_ns=%d, threads=%d: other results"):format(a[1], a[2]), 0) end
  end
  local stop, file = math.tointeger(runs.time_ns * (seed * 37 % 101) // 100)
  local checks = seed % 2 == 0 and "race" or nil
  for i = 0, count > 100 and 1 or 2 do
    local a = also[(seed + i) % #also + 1]
    local _, told2, bytes2, saved = go(x, progs, a[1], a[2], checks, stop)
    if told2 ~= told or bytes2 ~= bytes then error(("saved at %d ns, window_ns=%d, threads=%d: %s, not %s"):format(stop, a[1], a[2], told2, told), 0) end
    if file and saved ~= file then error(("saved at %d ns, window_ns=%d, threads=%d: another file"):format(stop, a[1], a[2]), 0) end
    file = saved
  end
  local told2, bytes2, saved, stops = debugged(x, progs, seed, stop, checks)
  if told2 ~= told or bytes2 ~= bytes then error(("by single events: %s, not %s"):format(told2, told), 0) end
  if saved ~= file then error(("saved at %d ns, by single events: another file"):format(stop), 0) end
  stopped = stopped + stops
end

for seed = first, first + count - 1 do
  case("world of seed " .. seed, function() try(seed) end)
end
t.finish()
