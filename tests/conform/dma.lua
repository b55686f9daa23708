-- dma_copy, dma_transpose, dma_compute. Programs are built around the DMA itself, so the operands
-- stay in HBM where a case says so.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local shape = {6, 10}
local N = 60

local function copies(suite)
  for k, t in ipairs(ref.types) do
    for _, u in ipairs {t, ref.types[k % #ref.types + 1]} do
      local a = ref.tensor(ref.values(N, k), t, shape)
      suite:case { -- into SBUF and out again, both ways with a cast when the types differ
        insn = "dma_copy", name = t .. " to " .. u, engine = "sync", hbm = {a = true}, inputs = {a = a},
        outputs = {o = {u, shape}}, extra = "s sem",
        body = " dma_copy o, in_a, queue=q_ $s\n nop $s>=16",
        expect = {o = t == u and a or ref.tensor(ref.list(a), u, shape)},
      }
    end
  end
  for _, t in ipairs {"int64", "uint64", "float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"} do
    local bytes = ({float8_e5m2_x4 = 4, float8_e4m3fn_x4 = 4, float4_e2m1fn_x4 = 2})[t] or 8
    local s = {}
    for i = 1, N do s[i] = string.pack("<I8", i * 0x9E3779B97F4A7C15):sub(1, bytes) end
    local a = soma.frombytes(table.concat(s), t, shape)
    suite:case {
      insn = "dma_copy", name = t .. " bit for bit", engine = "sync", hbm = {a = true, o = true}, inputs = {a = a},
      outputs = {o = {t, shape}}, extra = "s sem", body = " dma_copy out_o, in_a, queue=q_ $s\n nop $s>=16",
      expect = {o = a},
    }
  end
  local x = ref.tame(N, 4)
  local turned = {}
  for i = 0, 9 do for p = 0, 5 do turned[i * 6 + p + 1] = x[p * 10 + i + 1] end end
  suite:case {
    insn = "dma_copy", name = "a transposing pattern, HBM to HBM", engine = "sync", hbm = {a = true, o = true},
    inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", {10, 6}}}, extra = "s sem",
    body = " dma_copy out_o, in_a.ap([[1, 10], [10, 6]]), queue=q_ $s\n nop $s>=16",
    expect = {o = ref.tensor(turned, "float32", {10, 6})},
  }
  suite:case {
    insn = "dma_copy", name = "refused: PSUM", engine = "sync", psum = {o = true}, hbm = {a = true},
    inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", shape}},
    body = " dma_copy o, in_a, queue=q_", refuse = "psum",
  }
  suite:case {
    insn = "dma_copy", name = "refused: unequal counts", engine = "sync", hbm = {a = true},
    inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", {6, 9}}},
    body = " dma_copy o, in_a, queue=q_", refuse = "54",
  }
end

return function(suite)
  copies(suite)
end
