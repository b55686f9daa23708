-- The solutions of the tutorial's exercises (samples/TUTORIAL.md, section 10), each under all
-- checks and compared with the same in Lua.
--   build/soma samples/solutions.lua
local soma = require "soma"

local here = (arg and arg[0] and arg[0]:match("^(.*/)") or "samples/") .. "solutions/"

local function run(file, defines, inputs, want)
  local prog = soma.assemble_file(here .. file, {defines = defines})
  local r = soma.core {checks = "all"}:run(prog, inputs)
  local ok, report = soma.allclose(r.out.y, want, {rtol = 1e-5})
  if not ok then error(file .. ": " .. report, 0) end
  return r.time_ns / 1000
end

local x = soma.randn({4096, 512}, "float32", {seed = 1})
local first = x:slice {0, 1024}
for _, bufs in ipairs {2, 8} do
  local short = run("rows.s", {ROWS = 1024, BUFS = bufs}, {x = first}, first * first)
  local long = run("rows.s", {BUFS = bufs}, {x = x}, x * x)
  local text = "rows.s, %d buffers: 1024 rows %.2f us, 4096 rows %.2f us, a further block %.2f us"
  print(text:format(bufs, short, long, (long - short) / 24))
end

local b = soma.randn({128, 512}, "float32", {seed = 2})
local want = soma.empty({1024, 512}, "float32")
for r = 0, 1023, 128 do
  local rows = first:slice {r, r + 128}
  want:slice({r, r + 128}):assign(rows * rows + b)
end
print(("block.s: %.2f us"):format(run("block.s", nil, {x = first, b = b}, want)))
print(("engines.s: %.2f us"):format(run("engines.s", nil, {x = first}, first * first)))
