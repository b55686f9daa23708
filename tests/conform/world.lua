-- Cases of several ranks (`ranks`, see program.lua) as worlds.
local soma = require "soma"
local harness = require "harness"
local program = require "conform.program"
local M = {}

-- The programs by rank, and a function that gives a rank's inputs.
local function parts(case, target)
  local progs, inputs = {}, {}
  for r = 0, case.ranks - 1 do
    local source, all = program.build(case, target, nil, nil, r)
    progs[r] = type(case.body) == "function" and soma.assemble(source, {name = "case.s"}) or progs[0] or soma.assemble(source, {name = "case.s"})
    inputs[r] = {}
    for name, t in pairs(all) do inputs[r][name] = t[r] end
  end
  return progs, function(r) return inputs[r] end
end

local function open(case, target, checks)
  return soma.world {ranks = case.ranks, target = target, lnc = case.cores or 1, algorithm = case.algorithm, checks = checks, print = function() end}
end

-- Each output of all ranks as one tensor.
local function outputs(case, runs)
  local out = {}
  for name in pairs(runs[0].out) do
    local bytes, first = {}, runs[0].out[name]
    for r = 0, case.ranks - 1 do bytes[r + 1] = runs[r].out[name]:bytes() end
    local shape = {case.ranks}
    for i = 1, #first.shape do shape[i + 1] = first.shape[i] end
    out[name] = soma.frombytes(table.concat(bytes), first.dtype, shape)
  end
  return out
end

function M.start(case, target)
  local w <close> = open(case, target)
  w:start(parts(case, target))
end

-- Outputs, the program of rank 0, and the world's hash. The race check finds nothing.
function M.run(case, target)
  local w <close> = open(case, target)
  local progs, inputs = parts(case, target)
  local runs = w:run(progs, inputs)
  harness.no_warnings(progs[0], function(checks)
    local checked <close> = open(case, target, checks)
    return checked:run(progs, inputs, {faults = "return"}).findings
  end)
  local raced <close> = open(case, target, "race")
  raced:run(progs, inputs)
  return outputs(case, runs), progs[0], tostring(runs.hash)
end

-- Saved after 1, 2, 4 ... microseconds, and resumed in another world.
function M.run_saved(case, target)
  local path, w, runs, at = os.tmpname(), open(case, target), nil, 1000
  runs = w:start(parts(case, target))
  repeat
    w:continue {until_ns = at}
    local ended = true
    for r = 0, case.ranks - 1 do ended = ended and runs[r].ended end
    if not ended then
      assert(w:save(path))
      w:close()
      w, runs = soma.load_world(path)
      at = at * 2
    end
  until ended
  os.remove(path)
  local out = outputs(case, runs)
  w:close()
  return out
end

return M
