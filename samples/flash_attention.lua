-- Flash attention written with soma.kernel: softmax(q k^T / sqrt(128)) v over blocks of 512 keys, with a
-- running maximum and sum, so that no row of scores is ever whole. Causal and not, checked in double
-- precision. No semaphore, address or queue is written here.
--   build/soma samples/flash_attention.lua [POSITIONS]     a multiple of 512; the check reads all scores
local soma = require "soma"
local D, Q, K = 128, 128, 512 -- size of the head, queries and keys of a block
local checks = "race,uninit,psum,overlap,port"

-- q[D, S] and k[D, S] have their positions in the free dimension, v[S, D] in the partitions.
local function flash(k, q, keys, v, causal)
  local s = q.shape[2]
  local out = k:output("out", "float32", {s, D})
  local scale = 1 / math.sqrt(D)
  for q0 = 0, s - 1, Q do
    local query = k:load(q[{{}, {q0, Q}}])
    local top, total = k:fill("float32", {Q, 1}, -1e30), k:fill("float32", {Q, 1}, 0.0)
    local sum = k:fill("float32", {Q, D}, 0.0)
    for k0 = 0, causal and q0 or s - 1, K do
      local scores = k:activate("copy", k:matmul(query, k:load(keys[{{}, {k0, K}}])), {scale = scale, dtype = "float32"})
      if causal and k0 + K > q0 then -- position q0 + partition sees the keys up to its own
        k.gpsimd.affine_select(scores, scores, -1e30, {pattern = {{-1, K}}, offset = q0 - k0, multiplier = 1, cmp = "is_ge"})
      end
      local higher = k:maximum(top, k:max(scores))
      local less = k:mul(higher, -1.0)
      local p, row = k:exp(scores, {bias = less, sum = true, dtype = "bfloat16"})
      local shrink = k:exp(top, {bias = less})
      k.vector.scalar_tensor_tensor(total, total, row, {op0 = "mult", imm0 = shrink, op1 = "add"})
      local part
      for i = 0, K - 1, 128 do
        local turned = k:copy(k:transpose(p[{{}, {i, 128}}]), {memory = "sbuf"})
        part = k:matmul(turned, k:load(v[{k0 + i, 128}]), {into = part})
      end
      k.vector.scalar_tensor_tensor(sum, sum, part, {op0 = "mult", imm0 = shrink, op1 = "add"})
      top = higher
    end
    k:store(out[{q0, Q}], k:mul(sum, k:reciprocal(total)))
  end
  return out
end

-- The same in double precision, of one block of queries at a time.
local function reference(q, keys, v, causal, q0)
  local s = q.shape[2]
  local rows = {}
  for i = 0, Q - 1 do
    local row = {}
    for j = 0, s - 1 do row[j + 1] = (causal and j > q0 + i) and -1e30 or 0 end
    rows[i + 1] = row
  end
  local scores = soma.matmul(q:slice({0, D}, {q0, q0 + Q}):transpose(), keys) * (1 / math.sqrt(D)) + soma.tensor(rows, "float32")
  local p = soma.exp(scores - scores:max(1, true))
  return soma.matmul(p, v:astype "float32") / p:sum(1, true)
end

local sizes = arg[1] and {tonumber(arg[1])} or {512, 1024}
print("positions  causal  instructions  time us  TFLOP/s  tensor busy")
for _, s in ipairs(sizes) do
  for _, causal in ipairs {false, true} do
    local attend = soma.jit(flash, {target = "trn2"})
    local q, keys = soma.randn({D, s}, "bfloat16", {seed = 1}), soma.randn({D, s}, "bfloat16", {seed = 2})
    local v = soma.randn({s, D}, "bfloat16", {seed = 3})
    local out = attend(q, keys, v, causal)
    for q0 = 0, s - 1, math.max(Q, s // 4) do
      -- p is rounded to bfloat16 for the product: 2^-9 of a weighted mean of v
      local ok, report = soma.allclose(out:slice {q0, q0 + Q}, reference(q, keys, v, causal, q0), {rtol = 0, atol = 1e-2})
      if not ok then error(report, 0) end
    end
    if s <= 1024 then assert(#attend:check(checks).findings == 0) end
    local run, pairs_of = attend.run, causal and s * (s + 1) / 2 or s * s
    print(string.format("%9d  %6s  %12d %8.1f %8.2f %11.1f%%", s, causal, run.stats.instructions, run.time_ns / 1000,
      4 * D * pairs_of / (run.time_ns * 1000), 100 * run.stats.engine.tensor.busy_ns / run.time_ns))
  end
end
