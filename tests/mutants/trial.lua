-- Runs a program under all checks and under schedules, and says what was wrong.
local soma = require "soma"
local source = require "mutants.source"
local M = {SCHEDULES = 8}

-- All but `port`, which reports lost time, never of a wrong result: nothing shall die of it.
local CHECKS = "uninit,race,psum,overlap,range"

-- The bits of a run's outputs; of a program without, of its tiles.
local function bits(core, run, prog)
  local all = {}
  for _, t in ipairs(prog:tensors()) do
    if t.role == "output" then all[#all + 1] = run.out[t.name]:bytes() end
  end
  for _, t in ipairs(#all == 0 and prog:tiles() or {}) do
    all[#all + 1] = core[t.memory]:read(t.name):bytes()
  end
  return table.concat(all)
end

local function run_once(prog, inputs, seed, limits, checks)
  local core <close> = soma.core {checks = checks or CHECKS, schedule = seed, max_time = limits.ns,
    max_instructions = limits.instructions, max_seconds = 20}
  local run = core:run(prog, inputs, {faults = "return"})
  if run.fault then return nil, run.fault.kind, tostring(run.fault) end
  return bits(core, run, prog), run.time_ns, run.stats.instructions
end

-- Whether all checks but `port` find nothing, and `port` only where engines of gen2 may meet: it is
-- right about them.
local function clean(prog, inputs, seed)
  local core <close> = soma.core {checks = "all", schedule = seed}
  local run = core:run(prog, inputs, {faults = "return"})
  for _, f in ipairs(run.findings) do
    if f.check ~= "port" then return nil, f.text end
  end
  if run.fault and run.fault.kind ~= "check" then return nil, tostring(run.fault) end
  return true, #run.findings > 0 and run.findings[1].text:match "^[^\n]*"
end

-- What an unmutated program gives: its bits, limits for its mutants and what `port` says of it; or
-- nil and what was wrong, which is a false report.
function M.base(subject)
  local prog = soma.assemble(subject.text, {name = "original"})
  local limits, want, port = {ns = 0, instructions = 0}, nil, nil
  for seed = 0, M.SCHEDULES do
    local ok, text = clean(prog, subject.inputs, seed)
    if not ok then return nil, string.format("schedule %d: %s", seed, text) end
    port = port or text
    local out, time, n = run_once(prog, subject.inputs, seed, {ns = 0, instructions = 0})
    if not out then return nil, string.format("schedule %d: %s: %s", seed, time, n) end
    if want and out ~= want then return nil, "schedule " .. seed .. ": other bits" end
    want = out
    limits.ns, limits.instructions = math.max(limits.ns, 4 * time), math.max(limits.instructions, 8 * n)
  end
  limits.instructions = limits.instructions + 1000
  return {bits = want, limits = limits, bytes = prog:bytes(), port = port}
end

-- What kills a mutant, "refused", "check", "deadlock", "fault", "limit", "schedule" (other bits
-- under another schedule), "output" (the bits of all runs are alike, and wrong), with its text; or
-- nil.
function M.kill(mutant, base, inputs)
  local ok, prog = pcall(function()
    if mutant.tile then return soma.load(source.move_tile(base.bytes, mutant.tile, mutant.delta)) end
    return soma.assemble(mutant.text, {name = "mutant"})
  end)
  if not ok then return "refused", tostring(prog) end
  local first
  for seed = 0, M.SCHEDULES do
    local ok, out, kind, text = pcall(run_once, prog, inputs, seed, base.limits)
    if not ok then return "refused", tostring(out) end
    if not out then return kind, text end
    if first and out ~= first then return "schedule", "seed " .. seed end
    first = first or out
  end
  if first ~= base.bits then return "output" end
end

return M
