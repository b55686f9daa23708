-- Twins: both cores write the same bytes from one line. The race check, and the judges of all timings.
local soma = require "soma"
local t = require "harness"
local two = require "two_cores"
local case, eq = t.case, t.eq

local inputs = {x = soma.randn({2, 128, 64}, "float32", {seed = 1})}
local function check(source, options)
  options.checks = options.checks or "all"
  return soma.core(options):run(soma.assemble(source, {name = "p.s"}), inputs, {faults = "return"})
end

-- Both cores write y; each reads it back.
local same = two.head("end loaded", "t", true) .. [[
section sync core=*
        dma_copy  t, x[0], queue=q           $loaded
        dma_copy  y[0], t, queue=q           $loaded>=16 $end
        dma_copy  t, y[0], queue=q           $end>=16
        halt
]]

case("twins are no race, and are counted", function()
  local run = check(same, {checks = "race"})
  eq(#run.findings, 0)
  eq(run.stats.twins, 3) -- of the writes, and of each read with the other core's
  eq(run:summary():find("twins         3 pairs", 1, true) ~= nil, true)
  eq(check(same, {}).stats.twins, 3)
  eq(soma.core {}:run(soma.assemble(same), inputs).stats.twins, 0)
end)

case("twins are a race where the rule is off, or no values are there", function()
  local run = check(same, {checks = "race", twins = false})
  eq({#run.findings > 0, run.stats.twins}, {true, 0})
  run = check(same, {checks = "race", timing_only = true})
  eq({#run.findings > 0, run.stats.twins}, {true, 0})
end)

case("a saved run finds the same twins", function()
  local prog = soma.assemble(same)
  for _, on in ipairs {true, false} do
    local options = {checks = "race", twins = on}
    local whole = soma.core(options):run(prog, inputs, {faults = "return"})
    local parts = t.in_parts(options, prog, inputs)
    t.same_findings(whole, parts)
    eq(parts.stats.twins, on and 3 or 0)
  end
end)

-- The same with one ring, and more before the write and before the read. `count`: the semaphores only
-- count up, which the one judge needs; else the other goes through all states.
local function program(count, before, between)
  return [[
target  trn2
loaded  sem     core=*
end     sem     core=*
go      sem     core=*
other   sem     core=*
q       queue   rings=1, dge=hwdge, core=*
x       tensor  float32[2, 128, 64], input
y       tensor  float32[128, 64]
t       tile    sbuf float32[128, 64]
u       tile    sbuf float32[128, 64]
section sync core=*
        dma_copy  t, x[0], queue=q           $loaded
]] .. (before or "") .. [[
        dma_copy  y, t, queue=q              $loaded>=1 $end
]] .. (between or "") .. [[
        dma_copy  u, y, queue=q              $end>=1
]] .. (count and "" or "        nop $other=0\n") .. "        halt\n"
end

-- What the check and both judges say of a program.
local function all_say(verdict, before, between, options)
  for _, count in ipairs {true, false} do
    local source = program(count, before, between)
    local o = {schedule = "all", checks = "race"}
    for k, v in pairs(options or {}) do o[k] = v end
    local run = check(source, o)
    local all = run.schedules
    eq({all.verdict, #run.findings > 0}, {verdict, verdict ~= "same"}, all.text)
    o.checks = nil
    local alone = soma.core(o):run(soma.assemble(source), inputs)
    eq(alone.schedules.verdict, verdict, alone.schedules.text)
  end
end

case("all timings: a pair of twins, each read by its own core", function()
  all_say "same"
  for _, count in ipairs {true, false} do
    local all = check(program(count), {schedule = "all"}).schedules
    eq(all.text, "does not depend on timing, twins aside (" .. all.states .. " states)")
  end
  all_say("depends", nil, nil, {twins = false})
  all_say("depends", nil, nil, {timing_only = true})
end)

case("all timings: a write that differs", function()
  for _, count in ipairs {true, false} do
    local run = check(program(count):gsub("x%[0%]", "x[CORE]"), {schedule = "all", checks = "race"})
    eq({run.schedules.verdict, #run.findings > 0}, {"depends", true}, run.schedules.text)
  end
end)

case("all timings: a third write", function()
  -- before its own twin, but not before the other core's
  all_say("depends", "        dma_copy y, x[1], queue=q $loaded\n        nop $loaded>=2\n")
  -- after a meeting of the cores each write has an order with both twins
  all_say("same", "        dma_copy y[CORE*64:CORE*64+64], x[1, CORE*64:CORE*64+64], queue=q $loaded\n        nop $loaded>=2\n" ..
    "        core_barrier go\n")
end)

case("all timings: a read before its own twin", function()
  all_say("depends", "        dma_copy u, y, queue=q $loaded\n")
end)

case("all timings: where one twin comes first, the other core's read needs an order", function()
  local first = "        nop $go>=CORE\n"
  local after = "        nop $end>=1\n        nop $peer.go++\n"
  all_say("depends", first, after)
  all_say("same", first, after .. "        nop $go>=1-CORE\n")
end)

case("all timings: a saved run has the same twins", function()
  for _, count in ipairs {true, false} do
    local prog = soma.assemble(program(count))
    for _, on in ipairs {true, false} do
      local options = {schedule = "all", twins = on}
      local whole = soma.core(options):run(prog, inputs, {faults = "return"})
      local parts = t.in_parts(options, prog, inputs)
      eq({parts.schedules.verdict, parts.schedules.text}, {whole.schedules.verdict, whole.schedules.text})
      eq(parts.schedules.verdict, on and "same" or "depends")
    end
  end
end)

t.finish()
