-- A wait is taken out of a sample or a kernel, or made too low: where the first finding is a race,
-- its fix names the engine and the semaphore of that wait, in nine of ten at least.
local soma = require "soma"
local harness = require "harness"
local source = require "mutants.source"
local mutate = require "mutants.mutate"

local CHECKS <const> = "uninit,race,psum,overlap,range"

-- The first finding's fix for a mutant; nil when that is no race.
local function fix_of(core, mutant, subject)
  local run = core:run(soma.assemble(mutant.text, {name = "p.s"}), subject.inputs, {faults = "return"})
  local first = run.findings[1]
  return first and first.check == "race" and (first.text:match "fix: ([^\n]*)" or "no fix")
end

local races, named, others = {}, {}, {}
for _, subject in ipairs(require "mutants.subjects"()) do
  if not subject.name:find " on " or subject.name:find " on trn2$" then
    local p = source.parse((subject.text:gsub("%%line[^\n]*\n", "")))
    local core <close> = soma.core {checks = CHECKS, max_instructions = 2000000}
    for _, m in ipairs(mutate.mutants(p)) do
      local fix = (m.kind == "drop wait" or m.kind == "lower wait" and not subject.slow) and fix_of(core, m, subject)
      if fix then
        local i = p.lines[m.line]
        local wait = i.section .. " must wait for $" .. i.wait.sem .. " "
        local kind = fix:find(wait, 1, true) and named or others
        kind[#kind + 1] = string.format("%s: %s, %s: %s", subject.name, m.kind, m.at, fix)
        races[m.kind] = (races[m.kind] or 0) + 1
      end
    end
  end
end

harness.case("there is something to name", function()
  harness.eq({races["drop wait"] >= 200, races["lower wait"] >= 150}, {true, true})
end)
harness.case("nine of ten are named", function()
  if 10 * #named < 9 * (#named + #others) then
    error(#named .. " of " .. #named + #others .. " are named; not these:\n  " .. table.concat(others, "\n  "))
  end
end)

print(string.format("the first fix names the broken wait in %d of %d", #named, #named + #others))
harness.finish()
