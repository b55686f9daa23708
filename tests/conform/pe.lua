-- Modes of the tensor engine: transpose, double_row, row and column tiling, and what it finds wrong
-- only when it runs.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local g3 = util.since(3)
local pair = {"ldweights", "matmul"}

-- Finite bits when `finite`, else every pattern: NaN payloads, infinities, subnormals.
local function bits(n, t, seed, finite)
  local list = {}
  for i = 1, n do
    local u = ((i + seed) * 0x9E3779B1 ~ i << 9) & (1 << 8 * ref.bytes(t)) - 1
    if finite then u = ref.encode(t, ((i * 37 + seed) % 101 - 50) / 8) end
    list[i] = u
  end
  return list
end
local function turned(list, K, M)
  local out = {}
  for k = 0, K - 1 do for m = 0, M - 1 do out[m * K + k + 1] = list[k * M + m + 1] end end
  return out
end
-- Row k of the moving operand has its one in column at[k].
local function ones(K, at)
  local list = {}
  for i = 1, K * K do list[i] = 0.0 end
  for k = 0, K - 1 do list[k * K + at(k) + 1] = 1.0 end
  return list
end

local function transposes(suite)
  local same = function(k) return k end
  local types = {
    {"float32", "float32", {"float32", "uint32"}}, {"float32", "tfloat32", {"float32"}}, {"tfloat32", "float32", {"int32", "tfloat32"}},
    {"bfloat16", "bfloat16", {"bfloat16", "uint16"}}, {"float16", "bfloat16", {"float16", "int16"}},
    {"bfloat16", "float8_e4m3", {"bfloat16"}}, {"float8_e4m3", "bfloat16", {"uint16"}}, {"float8_e5m2", "float8_e5m2", {"uint16", "float16"}},
    {"float8_e3m4", "float16", {"uint16"}}, {"float8_e4m3fn", "float8_e4m3fn", {"uint16"}, 4},
  }
  for _, row in ipairs(types) do
    local t, u, outs, gen = table.unpack(row)
    for _, out in ipairs(outs) do -- fp8 gives 16 bits, the upper half zero
      for _, s in ipairs {{6, 10}, {1, 1}, {128, 3}} do
        local K, M = s[1], s[2]
        local list = bits(K * M, t, K)
        for _, insn in ipairs(pair) do
          suite:case {
            insn = insn, name = string.format("transpose %s %d x %d into %s, %s moves", t, K, M, out, u), engine = "tensor",
            targets = util.since(gen or 3), psum = {o = true},
            inputs = {w = ref.from_bits(list, t, s), i = ref.tensor(ones(K, same), u, {K, K})}, outputs = {o = {out, {M, K}}},
            body = " ldweights w, transpose=true\n matmul o, i, transpose=true",
            expect = {o = ref.from_bits(turned(list, K, M), out, {M, K})},
          }
        end
      end
    end
  end
  local list, K, M = bits(8 * 5, "bfloat16", 3), 8, 5
  local back, shifted = {}, turned(list, K, M)
  for m = 0, M - 1 do for k = 0, K - 1 do back[m * K + (k + 3) % K + 1] = shifted[m * K + k + 1] end end
  suite:case {
    insn = "matmul", name = "transpose by a permutation, over what is there", engine = "tensor", targets = g3, psum = {o = true},
    inputs = {w = ref.from_bits(list, "bfloat16", {K, M}), i = ref.tensor(ones(K, function(k) return (k + 3) % K end), "bfloat16", {K, K})},
    outputs = {o = {"bfloat16", {M, K}}},
    body = " ldweights w, transpose=true\n matmul o, i, transpose=true\n matmul o, i, transpose=true",
    expect = {o = ref.from_bits(back, "bfloat16", {M, K})},
  }
  for _, t in ipairs {"float32", "bfloat16", "float16", "float8_e4m3"} do -- before gen3 it multiplies
    local finite = bits(6 * 10, t, 6, true)
    for _, insn in ipairs(pair) do
      suite:case {
        insn = insn, name = "transpose of " .. t .. " as a product", engine = "tensor", targets = {"trn1", "inf2"}, psum = {o = true},
        inputs = {w = ref.from_bits(finite, t, {6, 10}), i = ref.tensor(ones(6, same), t, {6, 6})}, outputs = {o = {"float32", {10, 6}}},
        body = " ldweights w, transpose=true\n matmul o, i, transpose=true",
        expect = {o = ref.tensor(turned(util.map(function(u) return ref.decode(t, u) end, finite), 6, 10), "float32", {10, 6})},
      }
    end
  end
end

-- Small multiples of 1/4, exact in every fp8.
local function grid(n, seed) return util.map(function(x) return math.floor(x) / 2 end, ref.tame(n, seed)) end

-- out[m][n], the contraction going over the rows of w [R, M] and x [R, N] in the order given.
local function product(w, x, order, M, N)
  local out = {}
  for m = 1, M do
    for n = 1, N do
      local s = 0.0
      for _, r in ipairs(order) do s = ref.round(s + w[r * M + m] * x[r * N + n]) end
      out[(m - 1) * N + n] = s
    end
  end
  return out
end

local function double_rows(suite)
  for _, types in ipairs {{"float8_e4m3", "float8_e4m3"}, {"float8_e5m2", "float8_e4m3"}, {"float8_e4m3", "float8_e5m2"},
    {"float8_e4m3fn", "float8_e4m3fn", 4}, {"float8_e5m2", "float8_e4m3fn", 4}} do
    for _, s in ipairs {{5, 3, 7}, {128, 128, 4}, {1, 1, 1}} do
      local K, M, N = table.unpack(s)
      local w, x = ref.tensor(grid(2 * K * M, 3), types[1], {K, 2, M}), ref.tensor(grid(2 * K * N, 4), types[2], {K, 2, N})
      local order = {} -- partitions ascending, then the two
      for r = 0, 2 * K - 1 do order[r + 1] = r end
      local want = product(ref.list(w), ref.list(x), order, M, N)
      for _, insn in ipairs(pair) do
        suite:case {
          insn = insn, name = string.format("double_row, %s by %s, %d x 2 x %d x %d", types[1], types[2], K, M, N), engine = "tensor",
          targets = util.since(types[3] or 3), psum = {o = true}, inputs = {w = w, x = x}, outputs = {o = {"float32", {M, N}}},
          body = " ldweights w, perf=double_row\n matmul o, x, perf=double_row", expect = {o = ref.tensor(want, "float32", {M, N})},
        }
      end
      if K <= 64 then
        suite:case {
          insn = "matmul", name = string.format("double_row in a tile of 64 rows, %s by %s, %d", types[1], types[2], K), engine = "tensor",
          targets = util.since(types[3] or 3), psum = {o = true}, inputs = {w = w, x = x},
          outputs = {o = {"float32", {M, N}}},
          body = " ldweights w, perf=double_row, tile_row=64, tile_rows=64\n matmul o, x, perf=double_row, tile_row=64, tile_rows=64",
          expect = {o = ref.tensor(want, "float32", {M, N})},
        }
      end
    end
  end
end

-- Tiles of the array hold operands of their own; every product goes to its own place.
local function tiles(suite)
  local function tiled(name, gen, R, C)
    local K, M, N = math.min(R, 20), math.min(C, 12), 5
    local inputs, outputs, psum, expect, load, multiply = {}, {}, {}, {}, {}, {}
    local order = {}
    for r = 0, K - 1 do order[r + 1] = r end
    for row = 0, 128 - R, R do
      for col = 0, 128 - C, C do
        local id = string.format("%d_%d", row, col)
        local w, x = ref.tensor(grid(K * M, row + col + 1), "bfloat16", {K, M}), ref.tensor(grid(K * N, row + 2 * col + 7), "bfloat16", {K, N})
        inputs["w" .. id], inputs["x" .. id] = w, x
        local at = string.format(", tile_row=%d, tile_col=%d, tile_rows=%d, tile_cols=%d", row, col, R, C)
        load[#load + 1] = " ldweights w" .. id .. at
        if row == 0 or col == 0 then -- at most seven: PSUM has eight banks
          outputs["o" .. id], psum["o" .. id] = {"float32", {M, N}}, true
          multiply[#multiply + 1] = " matmul o" .. id .. ", x" .. id .. at
          expect["o" .. id] = ref.tensor(product(ref.list(w), ref.list(x), order, M, N), "float32", {M, N})
        end
      end
    end
    for _, insn in ipairs(pair) do
      suite:case {
        insn = insn, name = name, engine = "tensor", targets = util.since(gen), psum = psum, inputs = inputs, outputs = outputs,
        body = table.concat(load, "\n") .. "\n" .. table.concat(multiply, "\n"), expect = expect,
      }
    end
  end
  tiled("two tiles of 64 rows", 2, 64, 128)
  tiled("two tiles of 64 columns", 2, 128, 64)
  tiled("four tiles of 64 x 64", 2, 64, 64)
  tiled("four tiles of 32 rows", 3, 32, 128)
  tiled("tiles of 32 x 32", 3, 32, 32)
  tiled("the whole array, named", 2, 128, 128)
end

local function faults(suite)
  local one = soma.ones
  local function fault(name, inputs, outputs, body, text, targets)
    suite:case {
      insn = "matmul", name = "fails: " .. name, engine = "tensor", targets = targets, inputs = inputs, outputs = outputs,
      psum = {o = true}, body = body, fault = text,
    }
  end
  local out = {o = {"float32", {4, 4}}}
  local function operands(t, u) return {w = one({4, 4}, t), x = one({4, 4}, u)} end
  fault("nothing is loaded", {x = one({4, 4}, "bfloat16")}, out, " matmul o, x", "no stationary operand")
  fault("float32 by bfloat16", operands("float32", "bfloat16"), out, " ldweights w\n matmul o, x", "a 32-bit type needs a 32-bit type")
  fault("float8_e4m3 by float8_e4m3fn", operands("float8_e4m3", "float8_e4m3fn"), out, " ldweights w\n matmul o, x", "do not mix",
    util.since(4))
  fault("other partitions", {w = one({5, 4}, "bfloat16"), x = one({4, 4}, "bfloat16")}, out, " ldweights w\n matmul o, x", "5")
  fault("other columns", {w = one({4, 3}, "bfloat16"), x = one({4, 4}, "bfloat16")}, out, " ldweights w\n matmul o, x", "3 columns")
  fault("another tile size", operands("bfloat16", "bfloat16"), out, " ldweights w, tile_rows=64, tile_cols=128\n matmul o, x", "64 x 128")
  fault("a tile that is not loaded", operands("bfloat16", "bfloat16"), out,
    " ldweights w, tile_rows=64, tile_cols=128\n matmul o, x, tile_row=64, tile_rows=64, tile_cols=128", "(64, 0)")
  fault("double_row on one side", {w = one({4, 2, 4}, "float8_e4m3"), x = one({4, 4}, "float8_e4m3")}, out,
    " ldweights w, perf=double_row\n matmul o, x", "double_row", g3)
end

return function(suite)
  transposes(suite)
  double_rows(suite)
  tiles(suite)
  faults(suite)
end
