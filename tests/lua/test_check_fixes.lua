-- A wait is taken out of a right program: what the first findings say to do is done to the source by
-- fix_apply.lua; then nothing is found any more, and no schedule changes anything. Classes are samples,
-- kernels, the right programs of tests/findings, and random programs: `random` without loops, `pipelines`
-- most of them with loops. `make advice COUNT=10000` tries so many removed waits of which something is
-- found. ONLY=CLASS takes one class; KEEP=FOLDER keeps the programs whose fix is wrong.
local soma = require "soma"
local harness = require "harness"
local source = require "mutants.source"
local fixes = require "fix_apply"
local finding_programs = require "finding_programs"

local CHECKS <const> = "uninit,race,psum,overlap"
local COUNT <const> = tonumber(os.getenv "COUNT" or "") or 250
local ONLY <const>, KEEP <const> = os.getenv "ONLY", os.getenv "KEEP"
local PART <const>, PARTS <const> = tonumber(os.getenv "PART" or 0), tonumber(os.getenv "PARTS" or 1)
local GOAL <const> = 0.97
local LIMITS <const> = {instructions = 400000, seconds = 20}

-- ---- Programs -----------------------------------------------------------------------------------

local function canonical(prog) return (prog:source():gsub("%%line[^\n]*\n", "")) end

local function inputs_of(prog)
  local inputs = {}
  for _, t in ipairs(prog:tensors()) do
    if t.role == "input" then inputs[t.name] = soma.randn(t.shape, "float32", {seed = 1}):astype(t.dtype) end
  end
  return inputs
end

-- Subjects of each class: an iterator of {name, text, inputs}, and whether it ends.
local classes = {}

local function listed(pattern)
  return function()
    local list, i = {}, 0
    for _, s in ipairs(require "mutants.subjects"()) do
      if s.name:find(pattern) and not s.slow then list[#list + 1] = s end
    end
    return function()
      i = i + 1
      local s = list[i]
      return s and {name = s.name, text = s.text:gsub("%%line[^\n]*\n", ""), inputs = s.inputs}
    end
  end
end
classes.samples = listed "^samples"
classes.kernels = listed "^kernels"

function classes.findings()
  local list, i = {}, 0
  for _, path in ipairs(finding_programs.files()) do
    local _, programs = finding_programs.parse(path)
    for _, p in ipairs(programs) do if p.kind == "right" then list[#list + 1] = p end end
  end
  return function()
    i = i + 1
    local p = list[i]
    return p and {name = "findings/" .. p.name, text = canonical(finding_programs.assemble(p)),
      inputs = finding_programs.inputs}
  end
end

local function endless(name, generate)
  return function()
    local seed = 0
    return function()
      seed = seed + 1
      local prog = soma.assemble(generate(seed), {name = "p.s"})
      return {name = name .. " " .. seed, text = canonical(prog), inputs = inputs_of(prog)}
    end
  end
end
classes.random = endless("random", function(seed) return require "random_program"(seed, seed % 2 == 0 and "trn2" or "trn3") end)
classes.pipelines = endless("pipeline", require "pipeline_program")

-- ---- Trials -------------------------------------------------------------------------------------

-- The program without the wait of line k; one that takes what it waits for goes as a whole.
local function without(p, k)
  local i = p.lines[k]
  local takes = i.op == "event_semaphore" and i.update and i.update.sem == i.wait.sem
  return source.text(p, {[k] = takes and "" or source.changed(i, {wait = false})}):gsub("\n\n+", "\n")
end

local function run(text, inputs, schedule)
  local ok, prog = pcall(soma.assemble, text, {name = "p.s"})
  if not ok then return nil, "refused: " .. tostring(prog) end
  local core <close> = soma.core {checks = CHECKS, schedule = schedule, max_instructions = LIMITS.instructions,
    max_seconds = LIMITS.seconds}
  local r = core:run(prog, inputs, {faults = "return"})
  local text_of = r.schedules and r.schedules.verdict == "depends" and r.schedules.text
  return {findings = r.findings, fault = r.fault, depends = text_of}
end

-- Why the fixes of a program are wrong; nil: they are right. And the program with them.
local function wrong(text, subject, findings)
  local fixed, why = fixes.apply(text, findings)
  if not fixed then return why end
  local r, refused = run(fixed, subject.inputs)
  if r and not r.fault then r = run(fixed, subject.inputs, "all") end
  if not r then return refused, fixed end
  if r.fault and r.fault.kind ~= "check" then return r.fault.kind, fixed end
  if #r.findings > 0 then return "a finding is left", fixed, r.findings[1].text end
  if r.depends then return "depends on timing", fixed, r.depends end
end

-- ---- All of them --------------------------------------------------------------------------------

local function keep(n, subject, text, findings, why, fixed, left)
  if not KEEP then return end
  local f <close> = assert(io.open(string.format("%s/%s.%d", KEEP, subject.name:gsub("%W+", "_"), n), "w"))
  f:write(why, "\n\n", text, "\n\n")
  for _, x in ipairs(findings) do f:write(x.text, "\n") end
  f:write("\n==== left\n", left or "", "\n==== fixed\n", fixed or "")
end

local function try_class(name, most, say)
  local tried, visited = 0, 0
  for subject in classes[name]() do
    local p = source.parse(subject.text)
    for k, i in ipairs(p.lines) do
      if tried >= most then return end
      visited = visited + 1
      if type(i) == "table" and i.wait and visited % PARTS == PART then
        local text = without(p, k)
        local r = run(text, subject.inputs)
        if r and #r.findings > 0 then
          tried = tried + 1
          local why, fixed, left = wrong(text, subject, r.findings)
          say(name, why)
          if why then keep(k, subject, text, r.findings, why, fixed, left) end
        end
      end
    end
  end
end

local order = {"samples", "kernels", "findings", "pipelines", "random"}
local total, right = 0, 0

local function judge_class(name, most)
  local tried, good, reasons, why = 0, 0, {}, {}
  try_class(name, most, function(_, reason)
    tried = tried + 1
    if reason then reasons[reason] = (reasons[reason] or 0) + 1 else good = good + 1 end
  end)
  for reason, times in pairs(reasons) do why[#why + 1] = times .. " " .. reason:gsub("[\n;].*", "") end
  table.sort(why)
  print(string.format("%-10s %6d removed waits, %6d right  %s", name, tried, good, table.concat(why, "; ")))
  total, right = total + tried, right + good
end

for n, name in ipairs(order) do
  if ONLY == name then judge_class(name, COUNT // PARTS)
  elseif not ONLY then judge_class(name, (COUNT // PARTS - total) // (#order - n + 1)) end
end
harness.case("97 of 100 fixes are right", function()
  if right < GOAL * total then error(right .. " of " .. total) end
end)
harness.case("there is something to fix", function() harness.eq(total > 0, true) end)
print(string.format("the first fixes are right in %d of %d", right, total))
harness.finish()
