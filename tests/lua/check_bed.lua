-- Programs for the checks in few lines: "ENGINE: instruction; instruction ..." opens a section, which
-- ends with a halt; lines in front of the first are declarations.
local soma = require "soma"
local harness = require "harness"
local tiles = require "check_tiles"

-- What these programs have beside the declarations of check_tiles.
local MORE <const> = [[
b       tensor float32[128, 512], input
h       tensor float32[128, 512]
h2      tensor float32[128, 512]
free    sem
q2      queue  rings=16, dge=DGE
]]
local inputs = {
  a = tiles.inputs.a,
  b = soma.randn({128, 512}, "float32", {seed = 2}),
}
local engines = {tensor = true, vector = true, scalar = true, gpsimd = true, sync = true}

local function source(body)
  local lines, open = {}, false
  for line in body:gsub(";%s*", "\n"):gmatch "[^\n]+" do
    local engine, rest = line:match "^(%l+): *(.*)"
    if engine and engines[engine] then
      if open then lines[#lines + 1] = " halt" end
      lines[#lines + 1] = "section " .. engine
      open, line = true, rest
    end
    lines[#lines + 1] = line:find "^%." and line or open and " " .. line or line
  end
  lines[#lines + 1] = " halt\n"
  return table.concat(lines, "\n")
end

-- All but `output`: few of these programs write their output.
local bed = {CHECKS = "uninit,race,psum,overlap,range,port"}

-- The program of a body, with the inputs it has.
function bed.assemble(body, target)
  return tiles.assemble(tiles.declare(MORE, target) .. source(body), target), inputs
end

-- The program, assembled, and a function that runs it with all checks under a schedule.
function bed.load(body, target)
  local prog = bed.assemble(body, target)
  return prog, function(seed)
    local core = soma.core {checks = bed.CHECKS, max_instructions = 200000, schedule = seed}
    return core:run(prog, inputs, {faults = "return"})
  end
end

-- A faulty program: `text` is in a finding, whatever the timing (every schedule finds something).
function bed.bad(name, text, body, target)
  harness.case(name, function()
    local _, run = bed.load(body, target)
    local all = {}
    for seed = 0, 3 do
      local r = run(seed)
      if r.fault and r.fault.kind ~= "check" then error(tostring(r.fault)) end
      harness.eq(#r.findings > 0, true, "a finding under schedule " .. seed)
      for _, f in ipairs(r.findings) do all[#all + 1] = f.text end
    end
    all = table.concat(all, "\n")
    harness.eq(all:find(text, 1, true) and text or all, text)
  end)
end

-- A right one: clean, and with the same bits, under eight schedules; lint has no warning either.
function bed.good(name, body, target)
  harness.case(name, function()
    local prog, run = bed.load(body, target)
    local want
    for seed = 0, 8 do
      local r = run(seed)
      harness.eq(r.fault and tostring(r.fault), nil)
      want = want or r.out.c:bytes()
      harness.eq(r.out.c:bytes() == want, true, "the bits under schedule " .. seed)
    end
    harness.eq((prog:lint() or ""):match "[^\n]*warning[^\n]*", nil)
  end)
end

return bed
