-- What the checks say of small programs: tests/findings/*.txt.
--
--   lua5.4 tests/findings.lua [PATTERN]           the programs whose name contains this
--   lua5.4 tests/findings.lua update [PATTERN]    writes what was found into the files
--
-- A file begins with what its programs are about. A program looks like this:
--
--   wrong: a load that nothing waits for
--       sync:   dma_copy ta, a, queue=q $loaded
--       vector: tensor_copy tb, ta
--   > line 2: race: vector reads what a transfer of queue q writes, and nothing orders the two
--   > ...
--
-- ENGINE: opens its section, which ends with a halt, `core 1 ENGINE:` that of core 1, `core * ENGINE:`
-- both; lines before the first are declarations. What
-- check_tiles.lua declares, and MORE in finding_programs.lua, is in front of all. Lines are numbered from the one after the name. What follows `>` is the
-- first finding without its times and operands, and how many more there are. A program that is
-- `right:` has none, its bits are the same under every schedule, and the lint warns of nothing but of
-- outputs that it leaves unwritten.
-- After the name may stand a target, and `output` when that check is to run too: [trn3 output].
local soma = require "soma"
local harness = require "harness"
local programs_of = require "finding_programs"

local MOST_CHECKS <const> = "uninit,race,psum,overlap,range,port"
local SCHEDULES <const> = 8

local update = arg[1] == "update"
local pattern = arg[update and 2 or 1] or ""
local inputs = programs_of.inputs

-- ---- Files --------------------------------------------------------------------------------------

local function text_of(front, programs)
  local out = {table.concat(front, "\n"), "\n"}
  for i, p in ipairs(programs) do
    if i > 1 then out[#out + 1] = "\n" end
    local options = p.options == "" and "" or " [" .. p.options .. "]"
    out[#out + 1] = string.format("%s: %s%s\n", p.kind, p.name, options)
    for _, line in ipairs(p.lines) do out[#out + 1] = "    " .. line .. "\n" end
    for _, line in ipairs(p.found) do out[#out + 1] = "> " .. line .. "\n" end
  end
  return table.concat(out)
end

-- ---- Programs -----------------------------------------------------------------------------------

local function options_of(p, seed)
  return {checks = p.options:find "output" and "all" or MOST_CHECKS, max_instructions = 200000, schedule = seed}
end

local function run(p, prog, seed)
  local r = soma.core(options_of(p, seed)):run(prog, inputs, {faults = "return"})
  if r.fault and r.fault.kind ~= "check" then error(tostring(r.fault)) end
  return r, r.out.c:bytes()
end

-- The lines of the first finding without times and operands, and how many more there are.
local function brief(findings)
  local list = {}
  for line in findings[1].text:gmatch "[^\n]+" do
    line = line:gsub("line:(%d+)", "line %1"):gsub(", at [%d.]+ ns: ([%w_]+)[^\n]*$", ": %1")
    list[#list + 1] = line
  end
  if #findings > 1 then list[#list + 1] = "(" .. #findings - 1 .. " more)" end
  return list
end

local checks = {}
function checks.wrong(p, prog)
  local r = run(p, prog, 0)
  if #r.findings == 0 then error "nothing is found" end
  local found = brief(r.findings)
  if update then
    p.found = found
  else
    harness.eq(table.concat(found, "\n"), table.concat(p.found, "\n"))
  end
  harness.same_findings(r, harness.in_parts(options_of(p, 0), prog, inputs))
  for seed = 1, 3 do harness.eq(#run(p, prog, seed).findings > 0, true, "a finding under schedule " .. seed) end
end

function checks.right(p, prog)
  local want
  for seed = 0, SCHEDULES do
    local r, bits = run(p, prog, seed)
    harness.eq(r.fault and tostring(r.fault), nil, "schedule " .. seed)
    want = want or bits
    harness.eq(bits == want, true, "the bits under schedule " .. seed)
  end
  harness.no_warnings(prog, function(checks)
    return soma.core({checks = checks}):run(prog, inputs, {faults = "return"}).findings
  end)
end

local count, names = {wrong = 0, right = 0}, {}
for _, path in ipairs(programs_of.files()) do
  local front, programs = programs_of.parse(path)
  for _, p in ipairs(programs) do
    if p.name:find(pattern, 1, true) then
      count[p.kind] = count[p.kind] + 1
      harness.case(path .. ": " .. p.kind .. ": " .. p.name, function()
        harness.eq(names[p.name], nil, "another program of this name")
        names[p.name] = true
        checks[p.kind](p, programs_of.assemble(p))
      end)
    end
  end
  if update then
    local f = assert(io.open(path, "wb"))
    f:write(text_of(front, programs))
    f:close()
  end
end
print(count.wrong .. " faulty programs, " .. count.right .. " right ones")
harness.finish()
