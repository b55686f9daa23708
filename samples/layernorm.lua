-- Layer normalisation with soma.kernel: (x - mean) / sqrt(variance + eps) * gain + shift, by rows. The
-- statistics are the vector engine's own instructions. Checked in double precision.
--   build/soma samples/layernorm.lua
local soma = require "soma"
local EPS = 1e-5

local layernorm = soma.jit(function(k, x, gain, shift)
  local rows, cols = x.shape[1], x.shape[2]
  local y = k:output("y", "float32", {rows, cols})
  local g, s = k:load(gain, {partitions = 128}), k:load(shift, {partitions = 128})
  for r = 0, rows - 1, 128 do
    local t = k:load(x[{r, 128}])
    local chunks = cols // 512 -- bn_stats takes 512 elements at most, bn_aggr joins what it gives
    local stats, both = k:tile("float32", {128, 6 * chunks}), k:tile("float32", {128, 2})
    for c = 0, chunks - 1 do
      k.vector.bn_stats(stats[{{}, {6 * c, 6}}], t[{{}, {512 * c, 512}}])
    end
    k.vector.bn_aggr(both, stats)
    local deviation = k:sqrt(k:add(both[{{}, {1, 1}}], EPS))
    local centred = k:sub(t, both[{{}, {0, 1}}])
    k:store(y[{r, 128}], k:add(k:mul(k:mul(centred, k:reciprocal(deviation)), g), s))
  end
  return y
end, {target = "trn2"})

local rows, cols = 256, 1024
local x = soma.randn({rows, cols}, "float32", {seed = 1}) * 3 + 1
local gain, shift = soma.randn({1, cols}, "float32", {seed = 2}), soma.randn({1, cols}, "float32", {seed = 3})
local y = layernorm(x, gain, shift)
local d = x:astype "float32"
local mean = d:mean(1, true)
local variance = ((d - mean) * (d - mean)):mean(1, true)
local ok, report = soma.allclose(y, (d - mean) / soma.sqrt(variance + EPS) * gain + shift, {rtol = 1e-4, atol = 2e-5})
if not ok then error(report, 0) end
assert(#layernorm:check().findings == 0)
print(string.format("%d x %d: %.2f us, no finding of race, uninit, psum, overlap, port", rows, cols, layernorm.run.time_ns / 1000))
print()
print((layernorm:report():match "^[^\n]*\n[^\n]*\n"))
