-- c = a^T b in bf16 with fp32 sums, tiled and double-buffered; checked against NumPy's result on a
-- small case and against a Lua reference on larger ones.
--   build/soma samples/matmul.lua [M N K]
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"

local function multiply(m, n, k, a, b)
  local prog = soma.assemble_file(here .. "matmul.s", {defines = {M = m, N = n, K = k}})
  return soma.core {}:run(prog, {a = a, b = b})
end

-- Sums of K products of unit variance differ from the double-precision ones by fp32 rounding only.
local function check(run, want, k)
  local ok, report = soma.allclose(run.out.c, want, {rtol = 1e-5, atol = 1e-6 * k})
  if not ok then error(report, 0) end
end

local a = soma.load_npy(here .. "data/matmul_a.npy", {dtype = "bfloat16"})
local b = soma.load_npy(here .. "data/matmul_b.npy", {dtype = "bfloat16"})
local run = multiply(128, 512, 256, a, b)
check(run, soma.load_npy(here .. "data/matmul_c.npy"), 256)
print(string.format("128 x 512 x 256 from NumPy's files: %.2f us, as NumPy within fp32 rounding",
  run.time_ns / 1000))

local sizes = {{128, 512, 128}, {256, 1024, 512}, {512, 1024, 1024}}
if #arg >= 3 then sizes = {{tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])}} end
print("\n   M     N     K    time us  TFLOP/s  tensor busy   host s")
for _, s in ipairs(sizes) do
  local m, n, k = table.unpack(s)
  a = soma.randn({k, m}, "bfloat16", {seed = 1})
  b = soma.randn({k, n}, "bfloat16", {seed = 2})
  run = multiply(m, n, k, a, b)
  check(run, soma.matmul(a:transpose(), b), k)
  print(string.format("%5d %5d %5d %9.1f %8.2f %11.1f%% %8.3f", m, n, k, run.time_ns / 1000,
    2 * m * n * k / run.time_ns / 1000, 100 * run.stats.engine.tensor.busy_ns / run.time_ns,
    run.stats.host_seconds))
end
