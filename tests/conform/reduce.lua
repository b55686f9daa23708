-- tensor_reduce.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

-- The reduction of a list as the definition has it.
local function reduce(op, list)
  if op == "subtract" then
    return ref.ops.subtract(list[1], ref.sixteen("add", {table.unpack(list, 2)}))
  elseif op == "add" or op == "mult" or op == "max" or op == "min" then
    return ref.sixteen(op, list)
  end
  local acc = list[1] -- logical reductions do not depend on the order
  if #list == 1 and op:match("^logical") then acc = acc ~= 0 and 1.0 or 0.0 end
  for i = 2, #list do acc = ref.ops[op](acc, list[i]) end
  return acc
end

return function(suite)
  local P, F = 3, 50
  for _, o in ipairs(soma.isa.aluops) do
    if o.reduces and o.class == "arith" then
      for _, negate in ipairs {"false", "true"} do
        local x = o.name == "mult" and ref.tame(P * F, 3) or ref.values(P * F, 5)
        local want = {}
        for p = 0, P - 1 do
          local v = reduce(o.name, util.row(x, p, F))
          want[p + 1] = negate == "true" and (v ~= v and ref.nan or -v) or v
        end
        suite:case {
          insn = "tensor_reduce", name = o.name .. " negate=" .. negate, engine = "vector",
          targets = util.since(o.gen), inputs = {a = ref.tensor(x, "float32", {P, F})},
          outputs = {o = {"float32", {P, 1}}},
          body = string.format(" tensor_reduce o, a, op=%s, axes=1, negate=%s", o.name, negate),
          expect = {o = ref.tensor(want, "float32", {P, 1})},
        }
      end
    elseif o.reduces and o.class == "bit" then
      local bits, want = {}, {}
      for i = 1, P * F do bits[i] = (i * 0x9E3779B1 ~ i << 9) & 0xffff end
      for p = 0, P - 1 do
        local acc = bits[p * F + 1]
        for i = 2, F do acc = ref.bit_op(o.name, acc, bits[p * F + i], 16) end
        want[p + 1] = acc
      end
      suite:case {
        insn = "tensor_reduce", name = o.name, engine = "vector",
        inputs = {a = ref.from_bits(bits, "uint16", {P, F})}, outputs = {o = {"uint16", {P, 1}}},
        body = " tensor_reduce o, a, op=" .. o.name .. ", axes=1",
        expect = {o = ref.from_bits(want, "uint16", {P, 1})},
      }
    end
  end
  for k = 1, #ref.types do
    local t, u = util.types(k)
    local a = ref.tensor(ref.tame(2 * 3 * 21, k), t, {2, 3, 21})
    local x, want = ref.list(a), {}
    for r = 0, 5 do want[r + 1] = ref.sixteen("add", util.row(x, r, 21)) end
    suite:case {
      insn = "tensor_reduce", name = t .. " to " .. u .. ", the last of two axes", engine = "vector",
      inputs = {a = a}, outputs = {o = {u, {2, 3}}}, body = " tensor_reduce o, a, op=add, axes=1",
      expect = {o = ref.tensor(want, u, {2, 3})},
    }
    want = {}
    for p = 0, 1 do want[p + 1] = ref.sixteen("max", util.row(x, p, 63)) end
    suite:case {
      insn = "tensor_reduce", name = t .. " max over both axes", engine = "vector",
      inputs = {a = a}, outputs = {o = {t, {2, 1}}}, body = " tensor_reduce o, a, op=max, axes=2",
      expect = {o = ref.tensor(want, t, {2, 1})},
    }
  end
  local x, want = ref.tame(128 * 7, 9), {}
  for p = 0, 127 do want[p + 1] = ref.sixteen("add", util.row(x, p, 7)) end
  suite:case {
    insn = "tensor_reduce", name = "128 partitions from PSUM, fewer than sixteen", engine = "vector",
    psum = {a = true}, inputs = {a = ref.tensor(x, "float32", {128, 7})}, outputs = {o = {"float32", {128, 1}}},
    body = " tensor_reduce o, a, op=add, axes=1", expect = {o = ref.tensor(want, "float32", {128, 1})},
  }
  suite:case {
    insn = "tensor_reduce", name = "refused: a shape that does not fit the axes", engine = "vector",
    inputs = {a = soma.ones({2, 3, 4}, "float32")}, outputs = {o = {"float32", {2, 1}}},
    body = " tensor_reduce o, a, op=add, axes=1", refuse = "3",
  }
  suite:case {
    insn = "tensor_reduce", name = "refused: no reduction", engine = "vector",
    inputs = {a = soma.ones({2, 4}, "float32")}, outputs = {o = {"float32", {2, 1}}},
    body = " tensor_reduce o, a, op=is_equal, axes=1", refuse = "reduction",
  }
end
