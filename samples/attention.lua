-- Attention of one head of 128: softmax(q^T k / sqrt(128)) v in bf16 with fp32 sums, checked against a
-- reference that rounds where the program does.
--   build/soma samples/attention.lua [QUERIES KEYS]
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"

local function attend(sq, s)
  local prog = soma.assemble_file(here .. "attention.s", {defines = {SQ = sq, S = s}})
  local q = soma.randn({128, sq}, "bfloat16", {seed = 1})
  local k = soma.randn({128, s}, "bfloat16", {seed = 2})
  local v = soma.randn({s, 128}, "bfloat16", {seed = 3})
  local run = soma.core {}:run(prog, {q = q, k = k, v = v})
  local scores = soma.matmul(q:transpose(), k) * (1 / math.sqrt(128))
  local p = soma.exp(scores - scores:max(1, true)) -- the program rounds p to bf16 for the product alone
  local want = soma.matmul(p:astype "bfloat16", v) / p:sum(1, true)
  local ok, report = soma.allclose(run.out.out, want, {rtol = 0, atol = 1e-4})
  if not ok then error(report, 0) end
  return run
end

local sizes = {{128, 512}, {256, 1024}, {512, 2048}}
if #arg >= 2 then sizes = {{tonumber(arg[1]), tonumber(arg[2])}} end
print("queries  keys   time us  TFLOP/s  tensor  vector  scalar")
for _, size in ipairs(sizes) do
  local run = attend(size[1], size[2])
  local function busy(engine) return 100 * run.stats.engine[engine].busy_ns / run.time_ns end
  print(string.format("%7d %5d %9.1f %8.2f %6.1f%% %6.1f%% %6.1f%%", size[1], size[2], run.time_ns / 1000,
    4 * 128 * size[1] * size[2] / (run.time_ns * 1000), busy "tensor", busy "vector", busy "scalar"))
end
