-- A test file makes cases and ends with `t.finish()`, which prints the count and sets the status.
local t = {}
local passed, failed = 0, 0

-- case(name, f): f raises an error to fail.
function t.case(name, f)
  local ok, message = xpcall(f, function(m)
    return type(m) == "string" and m or tostring(m)
  end)
  if ok then passed = passed + 1 return end
  failed = failed + 1
  print("FAIL " .. name .. ": " .. message)
end

local function show(v)
  if type(v) == "table" then
    local parts = {}
    for i = 1, #v do parts[i] = show(v[i]) end
    return "{" .. table.concat(parts, ", ") .. "}"
  elseif math.type(v) == "float" then
    return string.format("%a", v)
  end
  return type(v) == "string" and string.format("%q", v) or tostring(v)
end

local function same(a, b)
  if type(a) == "table" and type(b) == "table" then
    if #a ~= #b then return false end
    for i = 1, #a do
      if not same(a[i], b[i]) then return false end
    end
    return true
  end
  if a ~= a and b ~= b then return true end
  if a == 0 and b == 0 and math.type(a) == "float" and math.type(b) == "float" then
    return 1 / a == 1 / b
  end
  return math.type(a) == math.type(b) and a == b
end

-- Equal values of one type (floats by sign of zero and NaN too), sequences element by element.
function t.eq(got, want, what)
  if same(got, want) then return end
  error((what and what .. ": " or "") .. "got " .. show(got) .. ", expected " .. show(want), 2)
end

-- A run on a core of these options that is saved after 5, 20, 80 ... events and resumed on another.
function t.in_parts(options, prog, inputs)
  local soma = require "soma"
  local path = os.tmpname()
  local run = soma.core(options):start(prog, inputs, {faults = "return"})
  local n = 5
  while not run.ended do
    for _ = 1, n do
      if not run.ended then run:step_event() end
    end
    n = n * 4
    if not run.ended then
      assert(run:save(path))
      run = soma.core(options):resume(path, {faults = "return"})
    end
  end
  os.remove(path)
  return run
end

-- Two runs with checks have ended alike: findings, in their order and words, and the fault.
function t.same_findings(a, b)
  t.eq(tostring(b.fault), tostring(a.fault))
  t.eq(#b.findings, #a.findings)
  for i, f in ipairs(a.findings) do
    local g = b.findings[i]
    t.eq({g.text, g.check, g.engine, g.pc, g.time_ns}, {f.text, f.check, f.engine, f.pc, f.time_ns})
  end
end

-- The static checks warn of nothing, but of parts of outputs that a run leaves unwritten as well:
-- run(checks) runs the program under these checks and gives its findings.
function t.no_warnings(prog, run)
  local findings
  for line in (prog:lint() or ""):gmatch "[^\n]*warning[^\n]*" do
    local output = line:match "output `([^`]+)`.*%[%-w%+partial%-output%]$"
    findings = findings or output and run "output"
    local agreed = false
    for _, f in ipairs(output and findings or {}) do
      agreed = agreed or f.text:find("output: tensor " .. output .. ":", 1, true) ~= nil
    end
    if not agreed then error(line, 0) end
  end
end

-- f(...) raises an error whose text contains `text`; of a string error also this caller's file.
function t.raises(text, f, ...)
  local ok, message = pcall(f, ...)
  if ok then error("no error, expected: " .. text, 2) end
  if not tostring(message):find(text, 1, true) then
    error("error is: " .. tostring(message) .. "\n  expected: " .. text, 2)
  end
  return message
end

-- f(...) raises an error whose text is exactly `text`, after the place of a string error.
function t.fails(text, f, ...)
  local ok, message = pcall(f, ...)
  if ok then error("no error, expected: " .. text, 2) end
  message = tostring(message):gsub("^[^\n:]+:%d+: ", "")
  if message ~= text then error("error is: " .. message .. "\n  expected: " .. text, 2) end
end

-- Numbers within a relative tolerance.
function t.near(got, want, tolerance, what)
  if got == want or math.abs(got - want) <= (tolerance or 1e-12) * math.abs(want) then return end
  error((what and what .. ": " or "") .. "got " .. got .. ", expected " .. want, 2)
end

local temporary = {}
-- A path for a file that is removed at the end; content, when given, is written to it.
function t.temp(content)
  local path = os.tmpname()
  temporary[#temporary + 1] = path
  if content then
    local f = assert(io.open(path, "wb"))
    f:write(content)
    f:close()
  end
  return path
end

function t.read(path)
  local f = assert(io.open(path, "rb"))
  local s = f:read("a")
  f:close()
  return s
end

-- Runs on to the end, in n equal steps of the run's time. Gives its snapshots, first that of now.
function t.snapshots(run, time_ns, n)
  local kept = {run:snapshot()}
  for k = 1, n do
    run:until_time(k * time_ns / n)
    if not run.ended then kept[#kept + 1] = run:snapshot() end
  end
  run:continue()
  return kept
end

function t.finish()
  for _, path in ipairs(temporary) do os.remove(path) end
  print(passed .. " passed, " .. failed .. " failed")
  os.exit(failed == 0, true)
end

return t
