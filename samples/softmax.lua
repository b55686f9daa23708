-- y = softmax(x) by rows: maximum, exponential with its sum, reciprocal, scale. Checked against
-- NumPy's double-precision result, and against a Lua reference at the full width of 2048.
--   build/soma samples/softmax.lua
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"

local function softmax(rows, cols, x)
  local prog = soma.assemble_file(here .. "softmax.s", {defines = {ROWS = rows, COLS = cols}})
  return soma.core {}:run(prog, {x = x})
end

-- Three roundings and one activation, each within a unit in the last place, and a sum of `cols`.
local function check(run, want)
  local ok, report = soma.allclose(run.out.y, want, {rtol = 2e-6, atol = 1e-37})
  if not ok then error(report, 0) end
end

local run = softmax(256, 96, soma.load_npy(here .. "data/softmax_x.npy"))
check(run, soma.load_npy(here .. "data/softmax_y.npy"))
print(string.format("256 x 96 from NumPy's files: %.2f us, as NumPy within 2e-6", run.time_ns / 1000))

local x = soma.randn({512, 2048}, "float32", {seed = 5})
run = softmax(512, 2048, x)
local e = soma.exp(x - x:max(1, true))
check(run, e / e:sum(1, true))
print(string.format("512 x 2048: %.2f us", run.time_ns / 1000))
print()
print(run:summary())
