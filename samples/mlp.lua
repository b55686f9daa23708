-- The MLP of a language model that generates a token, on one core and on the two of a logical core:
-- y = (silu(x gate) * (x up)) down for a few tokens. Its time goes into reading the weights, so that two
-- cores with half of them each take little more than half of it. Each core multiplies its half of the
-- hidden dimension, and `sendrecv` gives it the other core's partial sums. One core does the same halves
-- one after the other: the bits are equal.
--   build/soma samples/mlp.lua [FOLDER]     draws the chart into the folder
local soma = require "soma"

-- Sums of x[p, t, j] w[p, j, i] over p and j, as [t, i]: one tile of PSUM for each 512 columns.
local function multiply(k, x, w, blocks, columns)
  local n, sums = w.shape[2], {}
  for j0 = 0, n - 1, blocks do
    local m = math.min(blocks, n - j0)
    local part = k:load(w:slice(2, j0, m))
    for j = 0, m - 1 do
      for c = 0, columns - 1, 512 do
        local tile = part[{{}, j, {c, math.min(512, columns - c)}}]
        sums[c] = k:matmul(x[{{}, {}, j0 + j}], tile, {into = sums[c]})
      end
    end
  end
  return sums
end

-- x [T, H], gate and up [H, I], down [I, H]; with `norm` x is divided by the root of its mean square.
local function mlp(k, x, gate, up, down, norm)
  local T, H, I = x.shape[1], x.shape[2], gate.shape[2]
  local n = H // 256 -- element (s * 128 + p) * n + j of the hidden dimension is in half s and partition p
  local y = k:output("y", "bfloat16", {T, H})
  local halves, mine = {}, k.cores == 2 and {k.core} or {0, 1}
  for s = 0, 1 do
    if norm or k.cores == 1 or s == k.core then
      halves[s] = k:load(x:reshape {T, 2, 128, n}:permute {2, 3, 1, 4}[s])
    end
  end
  if norm then
    local ones, total = k:fill("float32", {128, 128}, 1 / H)
    for s = 0, 1 do
      local squares = k:mul(halves[s], halves[s], {dtype = "float32"})
      local row = k:tile("float32", {128, T})
      k.vector.tensor_reduce(row, squares, {op = "add", axes = 1})
      total = k:matmul(ones, row, {into = total})
    end
    local scale = k:reciprocal(k:activate("sqrt", total, {dtype = "float32"}))
    for s = 0, 1 do halves[s] = k:mul(halves[s], scale:reshape {128, T, 1}:broadcast(3, n)) end
  end
  -- Partial sums of each half, gate's in the first I columns and up's in the others.
  local parts, blocks = {}, math.max(1, 8192 // (2 * I))
  for _, s in ipairs(mine) do
    parts[s] = k:tile("float32", {T, 2 * I})
    for at, w in ipairs {gate, up} do
      for c, sums in pairs(multiply(k, halves[s], w:reshape {2, 128, n, I}[s], blocks, I)) do
        k.any.tensor_copy(parts[s][{{}, {(at - 1) * I + c, sums.shape[2]}}], sums)
      end
    end
  end
  if k.cores == 2 then
    parts[1 - k.core] = k:tile("float32", {T, 2 * I})
    k.any.sendrecv(parts[1 - k.core], parts[k.core])
  end
  local sums = k:add(parts[0], parts[1])
  local hidden = k:mul(k:silu(sums[{{}, {0, I}}]), sums[{{}, {I, I}}], {dtype = "bfloat16"})
  local turned = {}
  for i = 0, I - 1, 128 do
    turned[i] = k:copy(k:transpose(hidden[{{}, {i, math.min(128, I - i)}}]), {memory = "sbuf"})
  end
  for _, s in ipairs(mine) do
    for c0 = 0, H // 2 - 1, 2048 do
      local first, columns, outs = s * H // 2 + c0, math.min(2048, H // 2 - c0), {}
      for i = 0, I - 1, 128 do
        local w = k:load(down[{{i, math.min(128, I - i)}, {first, columns}}])
        for c = 0, columns - 1, 512 do
          outs[c] = k:matmul(turned[i], w[{{}, {c, math.min(512, columns - c)}}], {into = outs[c]})
        end
      end
      local row = k:tile("bfloat16", {T, columns})
      for c = 0, columns - 1, 512 do k.any.tensor_copy(row[{{}, {c, outs[c].shape[2]}}], outs[c]) end
      k:store(y[{{}, {first, columns}}], row)
    end
  end
  return y
end

-- Latencies of this MLP on two cores of trn2 that nki-library's tests state (test_mlp_tkg.py, without
-- quantization or bias): tokens, sizes, with the norm, microseconds.
local published = {
  {64, 3072, 135, true, 50.378}, {4, 5120, 128, false, 34.008}, {1, 2048, 512, true, 42.469},
  {1, 7168, 364, false, 50.261}, {1, 4096, 896, true, 66.800}, {1, 8192, 448, true, 62.157},
  {40, 8192, 896, true, 115.811}, {1, 8448, 1408, false, 135.270}, {5, 16384, 832, false, 153.948},
  {28, 16384, 832, true, 157.359}, {5, 20480, 832, false, 179.771}, {5, 32768, 896, false, 292.074},
}

-- Simulated microseconds of a row, values left out.
local function time_us(row, cores)
  local T, H, I, norm = table.unpack(row)
  local k = soma.kernel({target = "trn2", cores = cores}, function(k)
    mlp(k, k:input("x", "bfloat16", {T, H}), k:input("gate", "bfloat16", {H, I}),
        k:input("up", "bfloat16", {H, I}), k:input("down", "bfloat16", {I, H}), norm)
  end)
  return soma.core {timing_only = true}:run(k:program(), {}).time_ns / 1000
end
if ... == "timing" then return published, time_us end -- for tests/timing/mlp.lua

local function some(shape, seed, scale) return (soma.randn(shape, "float32", {seed = seed}) * scale):astype "bfloat16" end
local one, two = soma.jit(mlp, {target = "trn2"}), soma.jit(mlp, {target = "trn2", cores = 2})
for _, norm in ipairs {false, true} do
  local T, H, I = 4, 1024, 320
  local x, gate, up, down = some({T, H}, 1, 1), some({H, I}, 2, H ^ -0.5), some({H, I}, 3, H ^ -0.5), some({I, H}, 4, I ^ -0.5)
  local got = two(x, gate, up, down, norm)
  assert(soma.equal(got, one(x, gate, up, down, norm)))
  local f = x:astype "float32"
  if norm then f = f / soma.sqrt((f * f):mean(1, true)) end
  local g, u = soma.matmul(f, gate:astype "float32"), soma.matmul(f, up:astype "float32")
  local want = soma.matmul(g * soma.sigmoid(g) * u, down:astype "float32")
  assert(soma.allclose(got:astype "float32", want, {rtol = 2e-2, atol = 3e-2}))
end
print "one core and two give equal bits, which are right\n"

local result = soma.sweep {
  variants = (function()
    local rows = {}
    for i = 1, #published do rows[i] = {row = i} end
    return rows
  end)(),
  run = function(v)
    local row = published[v.row]
    local T, H, I, norm, us = table.unpack(row)
    local a, b = time_us(row, 1), time_us(row, 2)
    return {tokens = T, H = H, I = I, norm = norm, weights_MB = 6 * H * I / 1e6, one_us = a, two_us = b,
            times = a / b, published_us = us}
  end,
  columns = {"tokens", "H", "I", "norm", "weights_MB", "one_us", "two_us", "times", "published_us"},
}:check()
print(result)
local last = result.rows[#result.rows]
assert(last.times > 1.7, "two cores are not much faster where the weights are many")

if arg and arg[1] then
  local points = {label = "published, two cores"}
  for i, row in ipairs(result.rows) do points[i] = {row.weights_MB, row.published_us} end
  assert(result:plot {
    x = "weights_MB", y = {"one_us", "two_us"}, file = arg[1] .. "/mlp.svg",
    title = "An MLP for a few tokens, on one core and on two",
    xlabel = "weights, MB", ylabel = "time, us; published with its launch",
    labels = {one_us = "one core, simulated", two_us = "two cores, simulated"}, points = {points},
  })
end
