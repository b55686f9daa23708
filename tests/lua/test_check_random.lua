-- Random programs over four engines and three queues. One in which each instruction waits for every
-- earlier one that touches its bytes is right: no check finds anything, and all schedules give the
-- same bits. Where waits are left out, whatever changes a bit under some schedule must be found.
local soma = require "soma"
local harness = require "harness"
local source = require "random_program"
local eq = harness.eq

local a = soma.randn({128, 512}, "float32", {seed = 1})

local function program(...) return soma.assemble(source(...), {name = "p.s"}) end

-- Whether anything was found and whether the bits differ, over some schedules.
local function try(prog)
  local found, differ, want
  for seed = 0, 3 do
    local core = soma.core {checks = "uninit,race,psum,overlap", schedule = seed}
    local run = core:run(prog, {a = a}, {faults = "return"})
    found = found or run.fault and tostring(run.fault)
    local bits = run.out.c:bytes() .. run.out.c2:bytes()
    want = want or bits
    differ = differ or bits ~= want
  end
  return found, differ
end

for seed = 1, 40 do
  local target = seed % 2 == 0 and "trn2" or "trn3"
  harness.case("right program " .. seed, function()
    local prog = program(seed, target)
    local found, differ = try(prog)
    eq(found, nil)
    eq(differ, false)
    harness.no_warnings(prog, function(checks)
      return soma.core({checks = checks}):run(prog, {a = a}, {faults = "return"}).findings
    end)
  end)
end

harness.case("programs that lack some waits", function()
  local wrong = 0
  for seed = 1, 60 do
    local found, differ = try(program(seed, "trn2", 4))
    if differ then wrong = wrong + 1 end
    eq(differ and not found, false, "bits of program " .. seed .. " depend on the schedule")
  end
  eq(wrong >= 20, true, wrong .. " of 60 programs are visibly wrong")
end)

harness.finish()
