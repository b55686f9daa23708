-- tensor_copy, tensor_tensor, tensor_scalar, memset, reciprocal.
local soma = require "soma"
local ref = require "conform.ref"

local function tt(op)
  local r = ref.round
  local b = function(x) return x and 1.0 or 0.0 end
  local f = {
    add = function(x, y) return r(x + y) end,
    subtract = function(x, y) return r(x - y) end,
    mult = function(x, y) return r(x * y) end,
    is_equal = function(x, y) return b(x == y) end,
    not_equal = function(x, y) return b(x ~= y) end,
    is_ge = function(x, y) return b(x >= y) end,
    is_gt = function(x, y) return b(x > y) end,
    is_le = function(x, y) return b(x <= y) end,
    is_lt = function(x, y) return b(x < y) end,
  }
  return f[op]
end

return function(suite)
  local n = 4 * 16
  local x, y = ref.values(n, 3), ref.values(n, 7)
  table.sort(y, function(p, q) return tostring(p) < tostring(q) end)
  for op, f in pairs {add = 1, subtract = 1, mult = 1, is_equal = 1, not_equal = 1, is_ge = 1, is_gt = 1, is_le = 1, is_lt = 1} do
    local want = {}
    for i = 1, n do want[i] = tt(op)(x[i], y[i]) end
    suite:case {
      insn = "tensor_tensor", name = op, engine = "vector",
      inputs = {a = ref.tensor(x, "float32", {4, 16}), b = ref.tensor(y, "float32", {4, 16})},
      outputs = {o = {"float32", {4, 16}}},
      body = " tensor_tensor o, a, b, op=" .. op,
      expect = {o = ref.tensor(want, "float32", {4, 16})},
    }
  end
end
