-- Random worlds of ranks: what their tensors hold, against a reference; one hash, time and result for any number of
-- threads and wherever windows end, with the race check and without. COUNT=1000 tests more, SEED=17 begins with another one.
local soma = require "soma"
local t = require "harness"
local make = require "random_world"
local case = t.case

local count, first = tonumber(os.getenv "COUNT" or 30), tonumber(os.getenv "SEED" or 1)
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

local function go(x, progs, window, threads, checks)
  local o = {window_ns = window, threads = threads, checks = checks}
  for k, v in pairs(x.options) do o[k] = v end
  local w <close> = soma.world(o)
  local runs = w:run(progs, function(r)
    local inputs = {}
    for name, v in pairs(x.inputs[r]) do inputs[name] = soma.tensor(v, x.dtype):reshape {x.rows, x.columns} end
    return inputs
  end)
  local bytes = {}
  for r = 0, x.options.ranks - 1 do
    for name in pairs(x.want[r]) do
      if name:sub(-1) ~= "x" then bytes[#bytes + 1] = r .. name .. runs[r].out[name]:bytes() end
    end
  end
  table.sort(bytes)
  return runs, ("%s at %s"):format(runs.hash, runs.time_ns), table.concat(bytes)
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
end

for seed = first, first + count - 1 do
  case("world of seed " .. seed, function() try(seed) end)
end
t.finish()
