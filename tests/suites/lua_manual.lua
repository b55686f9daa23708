-- The manuals of the Lua module: every example of lua/README.md and lua/reference.md runs and gives
-- what it says, and every function, method and option of the module is in them. Ends with "N passed,
-- N failed".
local build = os.getenv "BUILD" or "build"
package.cpath = "./" .. build .. "/?.so;" .. package.cpath
local soma = require "soma"

local manual = ""
local passed, failed = 0, 0
local function verdict(ok, text)
  if ok then passed = passed + 1 return end
  failed = failed + 1
  print("FAILED " .. text)
end

-- ---- Examples: each fence is a chunk, globals are shared ------------------------------------------

-- Lines and runs of spaces count as one space: examples show a tensor on one line.
local function squeeze(s) return (s:gsub("%s*\n%s*", " "):gsub("%[ +", "["):gsub(" +", " ")) end

local file
local env = setmetatable({}, {__index = _G})
local function check(line, want, f)
  local results = table.pack(f())
  local texts = {}
  for i = 1, results.n do texts[i] = tostring(results[i]) end
  local got, open = squeeze(table.concat(texts, ", ")), want:match "^(.*)%.%.%.$"
  want = squeeze(want)
  local ok = got == want or open and got:sub(1, #open) == open
  verdict(ok, file .. ":" .. line .. ": got " .. got .. "\n  the manual says " .. want)
end

local function run(code, first)
  local lines, n = {}, first
  for line in code:gmatch "([^\n]*)\n" do
    local expression, want = line:match "^(.-)%s+%-%-> (.*)$"
    lines[#lines + 1] = expression and string.format("check(%d, %q, function() return %s end)", n, want, expression) or line
    n = n + 1
  end
  env.check = check
  local chunk, message = load(table.concat(lines, "\n"), "=manual", "t", env)
  if chunk then chunk, message = pcall(chunk) end
  verdict(chunk, file .. ", example at line " .. first .. ": " .. tostring(message))
end

for _, name in ipairs {"lua/README.md", "lua/reference.md"} do
  local f = assert(io.open(name))
  local text = f:read "a"
  f:close()
  file, manual = name, manual .. text
  local n, code, first = 0, nil, 0
  for line in text:gmatch "([^\n]*)\n" do
    n = n + 1
    if line == "```lua" then code, first = "", n + 1
    elseif line == "```" and code then run(code, first) code = nil
    elseif code then code = code .. line .. "\n" end
  end
end

-- ---- Nothing is missing ---------------------------------------------------------------------------

local function has(word) return manual:find("%f[%w_]" .. word .. "%f[^%w_]") ~= nil end
for name, v in pairs(soma) do verdict(has(name), "soma." .. name .. " is not in the manual") end

-- The methods of a class are the upvalue of its __index, or are its __index.
local function methods(object)
  local index = debug.getmetatable(object).__index
  if type(index) == "function" then index = select(2, debug.getupvalue(index, 1)) end
  return index
end
local core = env.core
for class, object in pairs {tensor = env.a, program = env.prog, core = core, run = env.run, memory = core.sbuf,
  ["tensor on a device"] = env.a:to "neuron:0", result = env.squares} do
  local n = 0
  for name in pairs(methods(object)) do
    n = n + 1
    verdict(has(name), "method " .. name .. " of a " .. class .. " is not in the manual")
  end
  verdict(n > 1, "no methods of a " .. class)
end

-- An unknown option's message lists the known ones.
local function options(call, ...)
  local _, message = pcall(call, ...)
  local list = tostring(message):match "it takes: (.*)$"
  verdict(list, "no list of options in: " .. tostring(message))
  for name in (list or ""):gmatch "[%w_]+" do verdict(has(name), "option " .. name .. " is not in the manual") end
end
local wrong = {["\0"] = 1}
options(soma.core, wrong)
options(soma.assemble, "", wrong)
options(core.run, core, env.prog, {}, wrong)
options(core.sbuf.read, core.sbuf, wrong)
options(core.sbuf.write, core.sbuf, wrong, env.a)
options(soma.zeros, 1, "int8", wrong)
options(soma.randn, 1, "float32", wrong)
options(soma.uniform, 1, "float32", wrong)
options(soma.load_npy, "x", wrong)
options(soma.load_npz, "x", wrong)
options(soma.load_safetensors, "x", wrong)
options(soma.save_npz, "x", {}, wrong)
options(soma.save_safetensors, "x", {}, wrong)
options(soma.allclose, env.a, env.a, wrong)
options(env.a.astype, env.a, "int8", wrong)
options(soma.sweep, wrong)
options(env.squares.plot, env.squares, wrong)
for name in pairs(env.squares) do verdict(has(name), "result." .. name .. " is not in the manual") end
for name in pairs(env.grown.rows[1]) do verdict(has(name), "value " .. name .. " of a row is not in the manual") end
-- The manual sends readers of further statistics to the table of them all.
local rows = " " .. io.open("vm/stats.def"):read "a" .. " "
local function told(name) return has(name) or rows:find("[( ]" .. name:gsub("_ns$", "") .. "[,)]") ~= nil end
for name in pairs(env.run.stats) do verdict(told(name), "run.stats." .. name .. " is not in the manual") end
for name in pairs(env.run.stats.engine.sync) do verdict(told(name), "figure " .. name .. " is not in the manual") end
for name in pairs(env.f) do verdict(has(name), "fault." .. name .. " is not in the manual") end
for name in pairs(soma.isa) do verdict(has(name), "soma.isa." .. name .. " is not in the manual") end

print(passed .. " passed, " .. failed .. " failed")
os.exit(failed == 0)
