-- Whole kernels on every target: kernels/NAME.s against a reference here. Where no activation function is
-- in the way, the reference follows the same roundings and the bits must agree.
local ref = require "conform.ref"
local util = require "conform.util"
local functions = require "conform.functions".functions

local here = package.searchpath("conform.kernels", package.path):gsub("%.lua$", "/")
local r = ref.round

local function kernel(suite, name, inputs, expect, rtol, atol)
  local f = assert(io.open(here .. name .. ".s"))
  local source = f:read "a"
  f:close()
  suite:case {insn = "kernel", name = name, source = source, inputs = inputs, expect = expect, rtol = rtol, atol = atol}
end

local function tensor(list, shape, dtype) return ref.tensor(list, dtype or "float32", shape) end

local function norms(suite)
  local R, C = 256, 96
  local x, g, b, want = ref.tame(R * C, 1), ref.tame(C, 2), ref.tame(C, 3), {}
  for p = 0, R - 1 do
    local mean, var = 0.0, 0.0
    for i = 1, C do mean = mean + x[p * C + i] / C end
    for i = 1, C do var = var + (x[p * C + i] - mean) ^ 2 / C end
    for i = 1, C do want[p * C + i] = r((x[p * C + i] - mean) / math.sqrt(var + 1e-5) * g[i] + b[i]) end
  end
  kernel(suite, "layernorm", {x = tensor(x, {R, C}), g = tensor(g, {C}), b = tensor(b, {C})}, {y = tensor(want, {R, C})}, 2e-6, 2e-6)
  R, C = 128, 80
  local a, w, out = tensor(ref.tame(R * C, 4), {R, C}, "bfloat16"), ref.tame(C, 5), {}
  local v = ref.list(a)
  for p = 0, R - 1 do
    local sum = 0.0
    for i = 1, C do sum = sum + v[p * C + i] ^ 2 end
    for i = 1, C do out[p * C + i] = r(v[p * C + i] / math.sqrt(sum / C + 1e-6) * w[i]) end
  end
  kernel(suite, "rmsnorm", {x = a, g = tensor(w, {C})}, {y = tensor(out, {R, C}, "bfloat16")}, 0x1p-8)
end

local function transpose(suite)
  local x, out = ref.tame(64 * 96, 6), {}
  for p = 0, 63 do for i = 0, 95 do out[i * 64 + p + 1] = x[p * 96 + i + 1] end end
  local want = tensor(out, {96, 64})
  kernel(suite, "transpose", {a = tensor(x, {64, 96})}, {pe = want, dve = want, dma = want})
end

local function avgpool(suite)
  local x, out, sixth = ref.tame(64 * 12 * 15, 7), {}, r(1 / 6)
  for c = 0, 63 do
    for i = 0, 5 do
      for j = 0, 4 do
        local window = {}
        for u = 0, 1 do for v = 1, 3 do window[#window + 1] = x[(c * 12 + 2 * i + u) * 15 + 3 * j + v] end end
        out[#out + 1] = r(ref.sixteen("add", window) * sixth)
      end
    end
  end
  kernel(suite, "avgpool", {x = tensor(x, {64, 12, 15})}, {y = tensor(out, {64, 6, 5})})
end

-- Products of bfloat16 of like size: every sum is exact in a double before its one rounding.
local function conv2d(suite)
  local C, H, W, K, M = 24, 7, 9, 3, 40
  local tx, tw = tensor(ref.tame(C * H * W, 8), {C, H, W}, "bfloat16"), tensor(ref.tame(C * K * K * M, 9), {C, K, K, M}, "bfloat16")
  local x, w, OH, OW, out = ref.list(tx), ref.list(tw), H + K - 1, W + K - 1, {}
  for u = 0, K - 1 do
    for v = 0, K - 1 do
      for m = 0, M - 1 do
        for i = 0, H - 1 do
          for j = 0, W - 1 do
            local s, at = 0.0, (m * OH + i + u) * OW + j + v + 1
            for c = 0, C - 1 do
              s = r(s + w[((c * K + u) * K + v) * M + m + 1] * x[(c * H + i) * W + j + 1])
            end
            out[at] = out[at] and r(out[at] + s) or s
          end
        end
      end
    end
  end
  kernel(suite, "conv2d", {x = tx, w = tw}, {y = tensor(out, {M, OH, OW})})
end

local function mlp(suite)
  local K, H, M, N = 96, 256, 48, 64
  local function small(n, seed) return util.map(function(v) return r(v / 16) end, ref.tame(n, seed)) end
  local x, w1, b1, w2, b2 = ref.tame(K * N, 1), small(K * H, 2), ref.tame(H, 3), small(H * M, 4), ref.tame(M, 5)
  local hidden, out = {}, {}
  for h = 0, H - 1 do
    for n = 1, N do
      local s = b1[h + 1]
      for k = 0, K - 1 do s = s + w1[k * H + h + 1] * x[k * N + n] end
      hidden[h * N + n] = functions.gelu(s)
    end
  end
  for m = 1, M do
    for n = 1, N do
      local s = b2[m]
      for h = 0, H - 1 do s = s + w2[h * M + m] * hidden[h * N + n] end
      out[(m - 1) * N + n] = r(s)
    end
  end
  kernel(suite, "mlp", {x = tensor(x, {K, N}), w1 = tensor(w1, {K, H}), b1 = tensor(b1, {H, 1}), w2 = tensor(w2, {H, M}),
    b2 = tensor(b2, {M, 1})}, {y = tensor(out, {M, N})}, 1e-5, 1e-5)
end

local function cumsum(suite)
  local P, F = 100, 256
  local x, rows, cols = ref.tame(P * F, 10), {}, {}
  for p = 0, P - 1 do
    local s = 0.0
    for i = p * F + 1, (p + 1) * F do
      s = r(s + x[i])
      rows[i], cols[i] = s, p == 0 and x[i] or r(cols[i - F] + x[i])
    end
  end
  kernel(suite, "cumsum", {x = tensor(x, {P, F})}, {r = tensor(rows, {P, F}), c = tensor(cols, {P, F})})
end

local function topk(suite)
  local P, F, k = 128, 200, 24
  local x, v, places = ref.tame(P * F, 11), {}, {} -- from 65 values: equal ones in every row
  for i = 1, P * F do x[i] = math.floor(x[i] * 8) / 8 end
  for p = 0, P - 1 do
    local order = {}
    for i = 0, F - 1 do order[i + 1] = i end
    table.sort(order, function(i, j)
      local a, b = x[p * F + i + 1], x[p * F + j + 1]
      return a > b or (a == b and i < j)
    end)
    for i = 1, k do
      v[p * k + i], places[p * k + i] = x[p * F + order[i] + 1], order[i] + 0.0
    end
  end
  kernel(suite, "topk", {x = tensor(x, {P, F})}, {v = tensor(v, {P, k}), i = tensor(places, {P, k}, "uint32")})
end

local function rope(suite)
  local P, heads = 128, 4
  local x, c, s, out = ref.tame(P * heads * 64, 12), {}, {}, {}
  for p = 0, P - 1 do
    for i = 0, 31 do
      local angle = p * 10000 ^ (-i / 32)
      c[p * 32 + i + 1], s[p * 32 + i + 1] = r(math.cos(angle)), r(math.sin(angle))
    end
    for h = 0, heads - 1 do
      for i = 1, 32 do
        local at, co, si = (p * heads + h) * 64 + i, c[p * 32 + i], s[p * 32 + i]
        local a, b = x[at], x[at + 32]
        out[at], out[at + 32] = r(r(a * co) - r(b * si)), r(r(b * co) + r(a * si))
      end
    end
  end
  kernel(suite, "rope", {x = tensor(x, {P, heads * 64}), c = tensor(c, {P, 32}), s = tensor(s, {P, 32})},
    {y = tensor(out, {P, heads * 64})})
end

return function(suite)
  norms(suite)
  transpose(suite)
  avgpool(suite)
  conv2d(suite)
  mlp(suite)
  cumsum(suite)
  topk(suite)
  rope(suite)
end
