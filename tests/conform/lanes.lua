-- Lanes count from an operand's first partition: what an instruction leaves in the registers of sources
-- that start at one partition, another one finds there with operands that start at others.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local shape, column = {2, 4}, {2, 1}
local a = ref.tensor({1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -5.0}, "float32", shape)
local b = ref.tensor({10.0, 20.0, 30.0, 40.0, 6.0, 7.0, 8.0, 9.0}, "float32", shape)

-- insn, engine, generation, the line without its command and with two tiles, the registers after both.
local list = {
  {"tensor_scalar_reduce", "vector", 2, "tensor_scalar_reduce %s, %s, op0=mult, imm0=1.0, op1=add", {110.0, 19.0}},
  {"tensor_scalar_cumulative", "vector", 2, "tensor_scalar_cumulative %s, %s, op0=mult, imm0=1.0, op1=add", {110.0, 19.0}},
  {"select_reduce", "vector", 2, "select_reduce %s, %s, -9.0, pred=p", {40.0, 9.0}},
  {"range_select", "vector", 3, "range_select %s, %s, bound0=l, bound1=h, op0=is_ge, op1=is_lt", {20.0, 7.0}},
  {"exponential", "vector", 4, "exponential %s, %s, max=-inf", {math.huge, math.huge}},
  {"activate", "scalar", 2, "activate %s, %s, fn=copy", {110.0, 19.0}},
  {"activate2", "scalar", 4, "activate2 %s, %s, fn=copy, reduce_op=max", {40.0, 9.0}},
}

return function(suite)
  for _, row in ipairs(list) do
    local insn, engine, gen, line, want = table.unpack(row)
    local read = engine == "scalar" and "act_read_acc" or "dve_read_acc"
    for _, name in ipairs {insn, read} do
      suite:case {
        insn = name, name = "lanes of " .. insn, engine = engine, targets = util.since(gen),
        inputs = {a = a, b = b, p = soma.ones(shape, "uint8"), l = ref.tensor({0.0, 0.0}, "float32", column),
          h = ref.tensor({2.0, 2.0}, "float32", column)},
        part = {a = 32, b = 96, r = 64, h = 32}, tiles = {t = {"float32", shape}},
        outputs = {r = {"float32", column}},
        body = string.format(" %s, reduce=reset_reduce\n %s, reduce=reduce\n %s r", line:format("t", "a"),
          line:format("t", "b"), read),
        expect = {r = ref.tensor(want, "float32", column)},
      }
    end
  end
end
