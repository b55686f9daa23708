-- ldweights and matmul.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

-- Small integers over powers of two: every product and sum is exact in a double, so the fused
-- multiply-adds of the definition are one rounding of an exact value.
local function grid(n, seed, scale)
  return util.map(function(x) return math.floor(x * 2) / scale end, ref.tame(n, seed))
end

-- out[m][n] over k ascending, one rounding a step.
local function product(w, x, K, M, N)
  local out = {}
  for m = 1, M do
    for n = 1, N do
      local s = 0.0
      for k = 0, K - 1 do s = ref.round(s + w[k * M + m] * x[k * N + n]) end
      out[(m - 1) * N + n] = s
    end
  end
  return out
end

local function case(suite, insn, name, K, M, N, t, u, extra)
  local w, x = ref.tensor(grid(K * M, 1, 8), t, {K, M}), ref.tensor(grid(K * N, 2, 4), u, {K, N})
  local c = {
    insn = insn, name = name, engine = "tensor", inputs = {w = w, x = x},
    outputs = {o = {"float32", {M, N}}}, psum = {o = true},
    body = " ldweights w\n matmul o, x",
    expect = {o = ref.tensor(product(ref.list(w), ref.list(x), K, M, N), "float32", {M, N})},
  }
  for k, v in pairs(extra or {}) do c[k] = v end
  suite:case(c)
end

local types = {"bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float8_e3m4"}

return function(suite)
  for _, insn in ipairs {"ldweights", "matmul"} do
    for i, t in ipairs(types) do
      case(suite, insn, t .. " by " .. types[i % #types + 1], 5, 3, 7, t, types[i % #types + 1])
    end
    for _, t in ipairs {"float32", "tfloat32"} do
      case(suite, insn, t, 6, 4, 9, t, t)
      case(suite, insn, t .. ", ones and zeros hinted", 6, 4, 9, t, t,
        {body = " ldweights w, onezero=true\n matmul o, x, onezero=true"})
    end
    case(suite, insn, "float32 by tfloat32", 6, 4, 9, "float32", "tfloat32")
    case(suite, insn, "float8_e4m3fn", 6, 4, 9, "float8_e4m3fn", "float8_e4m3fn", {targets = util.since(4)})
    case(suite, insn, "128 by 128 by 5", 128, 128, 5, "bfloat16", "bfloat16")
    case(suite, insn, "one by one by one", 1, 1, 1, "bfloat16", "bfloat16")
  end
  local K, M, N = 4, 3, 6
  local w, x = ref.tensor(grid(K * M, 3, 8), "bfloat16", {K, M}), ref.tensor(grid(K * N, 4, 4), "bfloat16", {K, N})
  local once = product(ref.list(w), ref.list(x), K, M, N)
  local twice = util.map(function(v) return ref.round(v + v) end, once)
  local function modes(name, body, want)
    suite:case {
      insn = "matmul", name = name, engine = "tensor", inputs = {w = w, x = x}, psum = {o = true},
      outputs = {o = {"float32", {M, N}}}, body = body, expect = {o = ref.tensor(want, "float32", {M, N})},
    }
  end
  modes("write twice", " ldweights w\n matmul o, x, acc=write\n matmul o, x, acc=write", once)
  modes("write, then add", " ldweights w\n matmul o, x, acc=write\n matmul o, x, acc=add", twice)
  modes("auto: the first overwrites", " ldweights w\n matmul o, x\n matmul o, x", twice)
  modes("auto after psum_zero", " ldweights w\n matmul o, x\n matmul o, x, psum_zero=o", once)
  -- overlapping ranges: columns 0..3 of one product, 2..5 of the next, as a convolution does
  local half = {}
  for m = 0, M - 1 do
    for n = 0, 5 do
      local first, second = n <= 3 and once[m * N + n + 1], n >= 2 and once[m * N + n - 2 + 1]
      half[m * 6 + n + 1] = first and second and ref.round(first + second) or first or second
    end
  end
  modes("auto on overlapping ranges",
    " ldweights w\n matmul o[:, 0:4], x[:, 0:4]\n matmul o[:, 2:6], x[:, 0:4]", half)
  local special = {ref.nan, math.huge, -math.huge, 0.0, -0.0, 1.0}
  local s = ref.tensor(special, "float32", {1, 6})
  suite:case {
    insn = "matmul", name = "NaN, infinities, zeros", engine = "tensor", psum = {o = true},
    inputs = {w = soma.ones({1, 1}, "float32"), x = s}, outputs = {o = {"float32", {1, 6}}},
    body = " ldweights w\n matmul o, x", expect = {o = ref.tensor({ref.nan, math.huge, -math.huge, 0.0, 0.0, 1.0}, "float32", {1, 6})},
  }
  suite:case {
    insn = "matmul", name = "bfloat16 sums", engine = "tensor", targets = util.since(4), psum = {o = true},
    inputs = {w = w, x = x}, outputs = {o = {"bfloat16", {M, N}}},
    body = " ldweights w\n matmul o, x, acc=write\n matmul o, x, acc=add",
    expect = {o = ref.tensor(util.map(function(v)
      local kept = ref.decode("bfloat16", ref.encode("bfloat16", v))
      return ref.round(kept + v)
    end, once), "bfloat16", {M, N})},
  }
  local function refused(name, inputs, outputs, psum, body, text, targets)
    suite:case {insn = "matmul", name = "refused: " .. name, engine = "tensor", inputs = inputs, outputs = outputs,
      psum = psum, body = body, refuse = text, targets = targets}
  end
  local ones = soma.ones
  refused("a result in SBUF", {w = ones({4, 4}, "bfloat16"), x = ones({4, 4}, "bfloat16")},
    {o = {"float32", {4, 4}}}, {}, " ldweights w\n matmul o, x", "sbuf")
  refused("integers", {w = ones({4, 4}, "int8"), x = ones({4, 4}, "int8")},
    {o = {"float32", {4, 4}}}, {o = true}, " ldweights w\n matmul o, x", "int8")
  refused("bf16 sums before gen4", {w = ones({4, 4}, "bfloat16"), x = ones({4, 4}, "bfloat16")},
    {o = {"bfloat16", {4, 4}}}, {o = true}, " ldweights w\n matmul o, x", "float32", {"trn1", "inf2", "trn2"})
  refused("129 stationary columns", {w = ones({4, 129}, "bfloat16"), x = ones({4, 4}, "bfloat16")},
    {o = {"float32", {4, 4}}}, {o = true}, " ldweights w\n matmul o, x", "129")
end
