-- A convolution with bias and 2 x 2 max pooling fused, written with soma.kernel. Each of the filter's nine
-- places is a matmul over the channels, added up in PSUM; the pooling reads PSUM before it is stored.
-- Checked against loops in double precision.
--   build/soma samples/conv2d.lua
local soma = require "soma"
local F = 3 -- size of the filter

-- x[C, H, W], w[F, F, C, M], bias[M, 1]; out[M, (H - 2) / 2, (W - 2) / 2]
local conv = soma.jit(function(k, x, w, bias)
  local h, width = x.shape[2] - F + 1, x.shape[3] - F + 1
  local m = w.shape[4]
  local out = k:output("out", "float32", {m, h // 2, width // 2})
  local image, shift = k:load(x), k:load(bias)
  local taps = {}
  for i = 0, F - 1 do
    for j = 0, F - 1 do taps[#taps + 1] = {i = i, j = j, w = k:load(w[i][j])} end
  end
  local rows = 512 // width // 2 * 2 -- of one bank of PSUM, whole pairs
  for r = 0, h - 1, rows do
    local n, sum = math.min(rows, h - r), nil
    for _, tap in ipairs(taps) do
      sum = k:matmul(tap.w, image[{{}, {r + tap.i, n}, {tap.j, width}}], {into = sum})
    end
    -- [M, n, width] as [M, n / 2, width / 2, 2, 2]: the last two are a window
    local windows = sum:reshape {m, n // 2, 2, width // 2, 2}:permute {1, 2, 4, 3, 5}
    local pooled = k:tile("float32", {m, n // 2, width // 2})
    k.vector.tensor_reduce(pooled, windows, {op = "max", axes = 2})
    k:store(out[{{}, {r // 2, n // 2}}], k:activate("copy", pooled, {bias = shift}))
  end
  return out
end, {target = "trn2"})

local C, H, W, M = 32, 18, 26, 64
local x = soma.randn({C, H, W}, "bfloat16", {seed = 1})
local w = soma.randn({F, F, C, M}, "bfloat16", {seed = 2})
local bias = soma.randn({M, 1}, "float32", {seed = 3})
local out = conv(x, w, bias)

local h, width, sum = H - F + 1, W - F + 1, nil
for i = 0, F - 1 do
  for j = 0, F - 1 do
    local part = soma.matmul(w:slice(i, j):transpose(), x:slice({}, {i, i + h}, {j, j + width}):reshape {C, h * width})
    sum = sum and sum + part or part
  end
end
local full, want = sum:reshape {M, h, width}, nil
for i = 0, 1 do
  for j = 0, 1 do
    local corner = full:slice({}, {i, h, 2}, {j, width, 2})
    want = want and soma.maximum(want, corner) or corner
  end
end
local ok, report = soma.allclose(out, want + bias:reshape {M, 1, 1}, {rtol = 1e-5, atol = 1e-3})
if not ok then error(report, 0) end
assert(#conv:check().findings == 0)
print(string.format("%d x %d x %d, %d filters of %d x %d, pooled: %.2f us, tensor busy %.1f %%", C, H, W, M, F, F,
  conv.run.time_ns / 1000, 100 * conv.run.stats.engine.tensor.busy_ns / conv.run.time_ns))
