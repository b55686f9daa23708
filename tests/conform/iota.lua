-- iota and affine_select.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local function wrap(v) v = v & 0xffffffff return v >= 0x80000000 and v - 0x100000000 or v end

-- Values of a pattern for P partitions, row-major; pattern outermost first.
local function affine(P, pattern, offset, multiplier)
  local out = {}
  local function walk(p, d, base)
    if d > #pattern then out[#out + 1] = wrap(base) return end
    for i = 0, pattern[d][2] - 1 do walk(p, d + 1, base + i * pattern[d][1]) end
  end
  for p = 0, P - 1 do walk(p, 1, offset + p * multiplier) end
  return out
end
local function text(pattern)
  local t = {}
  for i, s in ipairs(pattern) do t[i] = string.format("[%d, %d]", s[1], s[2]) end
  return "[" .. table.concat(t, ", ") .. "]"
end
-- A 32-bit integer goes to a 32-bit integer type as it is, to any other through fp32.
local function tensor(list, dtype, shape)
  if dtype == "int32" or dtype == "uint32" then
    return ref.from_bits(util.map(function(v) return v & 0xffffffff end, list), dtype, shape)
  end
  return ref.tensor(util.map(function(v) return ref.round(v + 0.0) end, list), dtype, shape)
end

return function(suite)
  local P = 5
  local patterns = {
    {{{1, 12}}, 0, 0}, {{{-3, 12}}, 7, 100}, {{{100, 3}, {1, 4}}, -50, -1},
    {{{1000, 2}, {0, 2}, {7, 3}}, 16777213, 3}, {{{1, 2}, {10, 1}, {100, 2}, {1000, 3}}, 2147483000, 200},
  }
  for i, q in ipairs(patterns) do
    for _, t in ipairs(ref.types) do
      suite:case {
        insn = "iota", name = string.format("pattern %d as %s", i, t), engine = "gpsimd", outputs = {o = {t, {P, 12}}},
        body = string.format(" iota o, pattern=%s, offset=%d, multiplier=%d", text(q[1]), q[2], q[3]),
        expect = {o = tensor(affine(P, table.unpack(q)), t, {P, 12})},
      }
    end
  end
  for t, want in pairs {
    uint32 = {0xfffffffe, 0xffffffff, 0, 1}, int32 = {-2, -1, 0, 1}, uint16 = {0, 0, 0, 1}, uint8 = {0, 0, 0, 1},
    int8 = {-2, -1, 0, 1}, float32 = {-2.0, -1.0, 0.0, 1.0},
  } do
    suite:case {
      insn = "iota", name = "numbers below zero as " .. t, engine = "gpsimd", outputs = {o = {t, {1, 4}}},
      body = " iota o, pattern=[[1, 4]], offset=-2", expect = {o = soma.tensor({want}, t)},
    }
  end
  suite:case {
    insn = "iota", name = "offset from a register", engine = "gpsimd", outputs = {o = {"int32", {128, 3}}},
    body = " mov r7, -20\n iota o, pattern=[[2, 3]], offset=r7, multiplier=1",
    expect = {o = tensor(affine(128, {{2, 3}}, -20, 1), "int32", {128, 3})},
  }
  suite:case {
    insn = "iota", name = "refused: counts differ", engine = "gpsimd", outputs = {o = {"int32", {4, 3}}},
    body = " iota o, pattern=[[2, 4]]", refuse = "4",
  }
  local tests = {
    is_equal = function(v) return v == 0 end, not_equal = function(v) return v ~= 0 end,
    is_ge = function(v) return v >= 0 end, is_gt = function(v) return v > 0 end,
    is_le = function(v) return v <= 0 end, is_lt = function(v) return v < 0 end,
  }
  for op, holds in pairs(tests) do
    local x, v, want = ref.values(P * 12, 4), affine(P, {{1, 12}}, -6, 2), {}
    for i = 1, P * 12 do want[i] = holds(v[i]) and x[i] or -9984.0 end
    suite:case {
      insn = "affine_select", name = op, engine = "gpsimd", inputs = {a = ref.tensor(x, "float32", {P, 12})},
      outputs = {o = {"float32", {P, 12}}},
      body = " affine_select o, a, -9984.0, pattern=[[1, 12]], offset=-6, multiplier=2, cmp=" .. op,
      expect = {o = ref.tensor(want, "float32", {P, 12})},
    }
  end
  for k = 1, #ref.types do
    local t, u = util.types(k)
    for _, to in ipairs {t, u} do
      local a = ref.tensor(ref.values(P * 12, k), t, {P, 12})
      local x, bits, v, want = ref.list(a), ref.bits(a), affine(P, {{1, 12}}, -3, -2), {}
      for i = 1, P * 12 do -- equal types keep their bits
        if v[i] < 0 then want[i] = ref.encode(to, 2.5)
        else want[i] = t == to and bits[i] or ref.encode(to, x[i]) end
      end
      suite:case {
        insn = "affine_select", name = t .. " to " .. to, engine = "gpsimd", inputs = {a = a},
        outputs = {o = {to, {P, 12}}},
        body = " affine_select o, a, 2.5, pattern=[[1, 12]], offset=-3, multiplier=-2, cmp=is_ge",
        expect = {o = ref.from_bits(want, to, {P, 12})},
      }
    end
  end
  suite:case {
    insn = "affine_select", name = "refused: no comparison", engine = "gpsimd",
    inputs = {a = soma.ones({4, 3}, "float32")}, outputs = {o = {"float32", {4, 3}}},
    body = " affine_select o, a, 0.0, pattern=[[1, 3]], cmp=add", refuse = "not a comparison",
  }
  suite:case {
    insn = "affine_select", name = "refused: PSUM is out of gpsimd's reach", engine = "gpsimd", psum = {a = true},
    inputs = {a = soma.ones({4, 3}, "float32")}, outputs = {o = {"float32", {4, 3}}},
    body = " affine_select o, a, 0.0, pattern=[[1, 3]], cmp=is_ge", refuse = "psum",
  }
end
