-- The conformance suite. Each file of tests/conform/ holds the cases of some instructions; every
-- case is a small program for one instruction, its inputs, and the outputs that an independent
-- reference expects, bit for bit. Ends with "N passed, N failed".
--   lua5.4 tests/conform.lua [--dut COMMAND] [--saved] [--list] [--digest] [PATTERN...]
-- --digest also prints a hash of all results, messages and traces, to compare builds by.
-- --dut drives another implementation instead (tests/README.md has the protocol); --saved saves
-- every run on its way and resumes it on another core.
local soma = require "soma"
local harness = require "harness"
local files = require "conform.files"
local program = require "conform.program"
local coverage = require "conform.coverage"
local world = require "conform.world"

local patterns, matched, dut, list, saved, digest = {}, {}, nil, false, false, nil
do
  local i = 1
  while arg[i] do
    if arg[i] == "--dut" then dut, i = assert(arg[i + 1], "--dut needs a command"), i + 1
    elseif arg[i] == "--list" then list = true
    elseif arg[i] == "--saved" then saved = true
    elseif arg[i] == "--digest" then digest = 0
    else patterns[#patterns + 1] = arg[i] end
    i = i + 1
  end
end
local everything = #patterns == 0
-- Whether the name of a case matches one of the patterns; there are none: each does.
local function wanted(name)
  local any = everything
  for _, pattern in ipairs(patterns) do
    if name:find(pattern) then any, matched[pattern] = true, true end
  end
  return any
end

local passed, failed = 0, 0
local function verdict(name, ok, why)
  if ok then passed = passed + 1 return end
  failed = failed + 1
  print("FAILED " .. name .. ": " .. tostring(why))
end

-- The messages of a refusal, without the places and source lines around them.
local function messages(why)
  local list = {}
  for text in why:gmatch("error: ([^\n]*)") do list[#list + 1] = text end
  return #list > 0 and table.concat(list, "\n") or why
end

-- What differs between two tensors of one type and shape: the first places, as numbers and bits.
local function difference(got, want)
  if got.dtype ~= want.dtype then return "type " .. got.dtype .. ", not " .. want.dtype end
  local n, report = 0, {}
  local a, b = got:reshape {got.size}, want:reshape {want.size}
  local bytes = got.size > 0 and #got:bytes() // got.size or 0
  local ga, gb = got:bytes(), want:bytes()
  for i = 0, got.size - 1 do
    local x, y = ga:sub(i * bytes + 1, (i + 1) * bytes), gb:sub(i * bytes + 1, (i + 1) * bytes)
    if x ~= y then
      n = n + 1
      if n <= 4 then
        local hex = function(s) return (s:reverse():gsub(".", function(ch) return string.format("%02x", ch:byte()) end)) end
        report[n] = string.format("[%d] %s (%s), expected %s (%s)", i, tostring(a:get(i)), hex(x),
          tostring(b:get(i)), hex(y))
      end
    end
  end
  return string.format("%d of %d differ: %s", n, got.size, table.concat(report, "; "))
end

-- Whether every element is within n units in the last place, ordered as signed magnitudes.
local function within(got, want, n)
  if got.dtype ~= want.dtype or got.size ~= want.size then return false end
  local bytes = #got:bytes() // math.max(got.size, 1)
  local top = 1 << (8 * bytes - 1)
  local a, b, fmt = got:bytes(), want:bytes(), "<I" .. bytes
  for i = 1, #a, bytes do
    local x, y = string.unpack(fmt, a, i), string.unpack(fmt, b, i)
    x = x & top ~= 0 and top - x or x
    y = y & top ~= 0 and top - y or y
    if math.abs(x - y) > n then return false end
  end
  return true
end

-- Adds a hash of the string: a sum, because some cases are made in no fixed order.
local function digest_add(s)
  local h = 0xcbf29ce484222325
  s = s .. ("\0"):rep(-#s % 8)
  for i = 1, #s, 8 do h = (h ~ string.unpack("<i8", s, i)) * 0x100000001b3 end
  digest = digest + h
end

local function digest_run(run)
  local names, all = {}, {}
  for k in pairs(run.out) do names[#names + 1] = k end
  table.sort(names)
  for _, k in ipairs(names) do all[#all + 1] = run.out[k]:bytes() end
  digest_add(table.concat(all) .. run.stats.trace_hash)
end

local function core_for(case, checks)
  local core = soma.core {print = function() end, checks = checks}
  for name, op in pairs(case.custom or {}) do core:custom(name, op) end
  return core
end

-- What runs well has no warning of the static checks, but of outputs that it leaves unwritten.
local function run_here(source, inputs, case, target)
  if case.ranks then
    local out, prog, hash = world.run(case, target)
    if digest then digest_run({out = out, stats = {trace_hash = hash}}) end
    return out, prog
  end
  local prog = soma.assemble(source, {name = "case.s"})
  local run = core_for(case):run(prog, inputs)
  if digest then digest_run(run) end
  harness.no_warnings(prog, function(checks)
    return core_for(case, checks):run(prog, inputs, {faults = "return"}).findings
  end)
  return run.out, prog
end

-- Saved after 1, 2, 4 ... events.
local function run_saved(source, inputs, case, target)
  if case.ranks then return world.run_saved(case, target) end
  local path = os.tmpname()
  local core = core_for(case)
  local run = core:start(soma.assemble(source, {name = "case.s"}), inputs)
  local at = 1
  while not run.ended do
    for _ = 1, at do run:step_event() end
    at = at * 2
    if run.ended then break end
    assert(run:save(path))
    core:close()
    core = core_for(case)
    run = core:resume(path)
  end
  os.remove(path)
  return run.out
end

local function run_dut(source, inputs)
  return require("conform.dut").run(dut, source, inputs)
end

local function run_case(insn, case, target)
  local name = string.format("%s/%s on %s", insn, case.name, target)
  if dut and (case.refuse or case.custom or case.ranks) then return end -- the assembler's; this host's functions
  local source, inputs = program.build(case, target)
  if case.refuse then
    local ok, why = pcall(function()
      if case.ranks then return world.start(case, target) end
      local prog = soma.assemble(source, {name = "case.s"})
      core_for(case):start(prog, inputs)
    end)
    local text = messages(tostring(why))
    verdict(name, not ok and text:find(case.refuse, 1, true),
      ok and "it is accepted" or "refused with\n" .. text .. "\nnot with: " .. case.refuse)
    coverage.refused(case)
    return
  end
  local ok, out, prog = pcall(dut and run_dut or saved and run_saved or run_here, source, inputs, case, target)
  if digest and not ok then digest_add(tostring(out)) end
  if case.fault then
    verdict(name, not ok and (dut or tostring(out):find(case.fault, 1, true)),
      ok and "it runs" or "failed with\n" .. tostring(out) .. "\nnot with: " .. case.fault)
    coverage.refused(case)
    return
  end
  if not ok then return verdict(name, false, tostring(out) .. "\n" .. source) end
  coverage.ran(case, target, source, prog)
  local want = case.expect
  if type(want) == "function" then want = want(target) end
  for k, expected in pairs(want) do
    local got = out[program.output_name(k)]
    local ok = got and (soma.equal(got, expected) or case.ulp and within(got, expected, case.ulp)
      or case.rtol and (soma.allclose(got, expected, {rtol = case.rtol, atol = case.atol})))
    verdict(name .. " " .. k, ok, got and difference(got, expected) or "no output")
  end
end

for _, file in ipairs(files) do
  local cases = {}
  local suite = {case = function(_, c) cases[#cases + 1] = c end}
  require("conform." .. file)(suite)
  for _, case in ipairs(cases) do
    local insn = assert(case.insn, file .. ": a case without an instruction")
    if wanted(insn .. "/" .. case.name) then
      for _, target in ipairs(program.targets(case)) do
        if list then print(insn .. "/" .. case.name .. " on " .. target)
        else run_case(insn, case, target) end
      end
    end
  end
end

for _, pattern in ipairs(patterns) do
  if not matched[pattern] then verdict(pattern, false, "no case has this name") end
end
if everything and not list and not dut then
  for _, gap in ipairs(coverage.gaps()) do verdict("coverage", false, gap) end
  for _, text in ipairs(coverage.manual()) do verdict("manual", false, text) end
  print(coverage.summary())
end
if digest then print(string.format("digest %016x", digest)) end
print(string.format("%d passed, %d failed", passed, failed))
os.exit(failed == 0 and passed > 0 or list)
