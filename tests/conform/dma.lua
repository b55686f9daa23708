-- dma_copy, dma_compute. Programs are built around the DMA itself, so the operands stay in HBM
-- where a case says so.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local shape = {6, 10}
local N = 60
local packed = {float8_e5m2_x4 = 4, float8_e4m3fn_x4 = 4, float4_e2m1fn_x4 = 2}

-- Which queue an engine can make descriptors for, by generation.
local makers = {
  {"sync", "dge=none", 2}, {"tensor", "dge=none", 2}, {"vector", "dge=none", 2}, {"scalar", "dge=none", 2},
  {"gpsimd", "dge=none", 2}, {"gpsimd", "dge=swdge", 2}, {"sync", "dge=hwdge", 3}, {"scalar", "dge=hwdge", 3},
}

local function copies(suite)
  for k, t in ipairs(ref.types) do
    for _, u in ipairs {t, ref.types[k % #ref.types + 1]} do
      local a = ref.tensor(ref.values(N, k), t, shape)
      suite:case { -- with a cast when the types differ
        insn = "dma_copy", name = t .. " to " .. u, engine = "sync", hbm = {a = true}, inputs = {a = a},
        outputs = {o = {u, shape}}, extra = "s sem",
        body = " dma_copy o, in_a, queue=q_ $s\n nop $s>=16",
        expect = {o = t == u and a or ref.tensor(ref.list(a), u, shape)},
      }
    end
  end
  for _, t in ipairs {"int64", "uint64", "float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"} do
    local s = {}
    for i = 1, N do s[i] = string.pack("<I8", i * 0x9E3779B97F4A7C15):sub(1, packed[t] or 8) end
    local a = soma.frombytes(table.concat(s), t, shape)
    suite:case {
      insn = "dma_copy", name = t .. " bit for bit", engine = "sync", hbm = {a = true, o = true}, inputs = {a = a},
      outputs = {o = {t, shape}}, extra = "s sem", body = " dma_copy out_o, in_a, queue=q_ $s\n nop $s>=16",
      expect = {o = a},
    }
  end
  local nans = {}
  for i = 1, N do nans[i] = 0x7f800000 | i * 77 | i % 2 << 31 end
  for _, m in ipairs(makers) do -- every engine and queue; NaN payloads survive
    local a = ref.from_bits(nans, "float32", shape)
    suite:case {
      insn = "dma_copy", name = m[2] .. " on " .. m[1], engine = m[1], targets = util.since(m[3]), inputs = {a = a},
      outputs = {o = {"float32", shape}}, extra = "s sem\nw queue " .. m[2],
      body = " dma_copy o, a, queue=w $s\n nop $s>=16", expect = {o = a},
    }
  end
  local x = ref.tame(N, 4)
  local a = ref.tensor(x, "float32", shape)
  local turned, backwards, twice = {}, {}, {}
  for i = 0, 9 do for p = 0, 5 do turned[i * 6 + p + 1] = x[p * 10 + i + 1] end end
  for i = 1, N do backwards[i] = x[N + 1 - i] end
  for i = 0, 2 * N - 1 do twice[i + 1] = x[i // 20 * 10 + i % 10 + 1] end
  local function pattern(name, src, want, s)
    suite:case {
      insn = "dma_copy", name = name, engine = "sync", hbm = {a = true, o = true}, inputs = {a = a},
      outputs = {o = {"float32", s}}, extra = "s sem", body = " dma_copy out_o, " .. src .. ", queue=q_ $s\n nop $s>=16",
      expect = {o = ref.tensor(want, "float32", s)},
    }
  end
  pattern("a transposing pattern, HBM to HBM", "in_a.ap([[1, 10], [10, 6]])", turned, {10, 6})
  pattern("backwards", "in_a.ap([[-1, 60]], offset=59)", backwards, {60})
  pattern("every row twice: a step of 0", "in_a.ap([[10, 6], [0, 2], [1, 10]])", twice, {6, 2, 10})
  pattern("one element", "in_a[5:6, 9:10]", {x[60]}, {1, 1})
  local full = ref.values(128 * 33, 5)
  suite:case {
    insn = "dma_copy", name = "128 partitions, a slice that starts anywhere", engine = "sync", hbm = {a = true},
    inputs = {a = ref.tensor(full, "float32", {128, 33})}, outputs = {o = {"bfloat16", {128, 33}}}, extra = "s sem",
    body = " dma_copy o[0:5, :], in_a[0:5, :], queue=q_ $s\n dma_copy o[5:128, :], in_a[5:128, :], queue=q_ $s\n nop $s>=32",
    expect = {o = ref.tensor(full, "bfloat16", {128, 33})},
  }
  for value, row in pairs {[0] = 0, [3] = 3} do
    suite:case {
      insn = "dma_copy", name = "row " .. value .. " by a register", engine = "gpsimd", inputs = {a = a}, hbm = {a = true},
      outputs = {o = {"float32", {1, 10}}}, extra = "s sem\nw queue dge=swdge",
      body = " mov r9, " .. value .. "\n dma_copy o, in_a[r9:+1, :], queue=w $s\n nop $s>=16",
      expect = {o = ref.tensor(util.row(x, row, 10), "float32", {1, 10})},
    }
  end
  local old = ref.tame(10, 7)
  for _, c in ipairs {{"int32", -1, 1}, {"int32", 3, 5}, {"uint32", 3, 5}, {"uint32", 0xffffffff}, {"uint32", 0xfffffffe}} do
    local dtype, value, row = table.unpack(c) -- an element is signed when its type is
    suite:case {
      insn = "dma_copy", name = "row 2 + " .. value .. " by an element, " .. dtype, engine = "gpsimd", hbm = {a = true},
      inputs = {a = a, i = ref.from_bits({value & 0xffffffff}, dtype, {1, 1}), o = ref.tensor(old, "float32", {1, 10})},
      outputs = {o = {"float32", {1, 10}}}, extra = "s sem\nw queue dge=swdge",
      body = " dma_copy o, in_a[(i)+2:+1, :], queue=w, oob=skip $s\n nop $s>=16",
      expect = {o = ref.tensor(row and util.row(x, row, 10) or old, "float32", {1, 10})},
    }
  end
  for _, value in ipairs {6, -1} do
    suite:case {
      insn = "dma_copy", name = "oob=skip with row " .. value .. " keeps what is there", engine = "gpsimd", hbm = {a = true},
      inputs = {a = a, o = ref.tensor(old, "float32", {1, 10})}, outputs = {o = {"float32", {1, 10}}},
      extra = "s sem\nw queue dge=swdge",
      body = " mov r9, " .. value .. "\n dma_copy o, in_a[r9:+1, :], queue=w, oob=skip $s\n nop $s>=16",
      expect = {o = ref.tensor(old, "float32", {1, 10})},
    }
  end
end

-- Rows of a tensor by an index vector; the stride between rows is the tensor's own.
local function gathers(suite)
  local x, old = ref.values(N, 9), ref.tame(8 * 10, 3)
  local function gathered(index, dtype)
    local want = {}
    for p = 0, 7 do
      local r = index[p + 1]
      for i = 1, 10 do want[p * 10 + i] = r < 6 and x[r * 10 + i] or old[p * 10 + i] end
    end
    return ref.tensor(want, dtype, {8, 10})
  end
  local inside, outside = {5, 0, 3, 3, 1, 0, 2, 4}, {5, 6, 3, 0xffffffff, 1, 7, 2, 4}
  for _, c in ipairs {{"error", inside, "uint32"}, {"error", inside, "int32"}, {"skip", inside, "uint32"},
    {"skip", outside, "uint32"}, {"skip", outside, "int32"}} do
    for _, u in ipairs {"float32", "bfloat16"} do
      suite:case {
        insn = "dma_copy", name = string.format("gather by %s%s, oob=%s, to %s", c[3], c[2] == outside and " with some outside" or "",
          c[1], u), engine = "gpsimd", targets = util.since(3), hbm = {a = true},
        inputs = {a = ref.tensor(x, "float32", shape), i = ref.from_bits(c[2], c[3], {8, 1}), o = ref.tensor(old, u, {8, 10})},
        outputs = {o = {u, {8, 10}}}, extra = "s sem\nw queue dge=swdge",
        body = " dma_copy o, in_a.ap([[10, 8], [1, 10]]).gather(i), queue=w, oob=" .. c[1] .. " $s\n nop $s>=16",
        expect = {o = gathered(c[2], u)},
      }
    end
  end
  local to, want, source = {7, 2, 9, 4}, {}, ref.tame(4 * 10, 5)
  for i = 1, 80 do want[i] = 0.0 end
  for p, r in ipairs(to) do if r < 8 then table.move(source, p * 10 - 9, p * 10, r * 10 + 1, want) end end
  suite:case {
    insn = "dma_copy", name = "scatter, one row outside", engine = "gpsimd", targets = util.since(3), hbm = {o = true},
    inputs = {a = ref.tensor(source, "float32", {4, 10}), i = ref.from_bits(to, "uint32", {4, 1})},
    outputs = {o = {"float32", {8, 10}}}, extra = "s sem\nw queue dge=swdge",
    body = " dma_copy out_o.ap([[10, 4], [1, 10]]).gather(i), a, queue=w, oob=skip $s\n nop $s>=16",
    expect = {o = ref.tensor(want, "float32", {8, 10})},
  }
end

-- dst += src, in fp32, one rounding and one conversion.
local function sums(suite)
  local x, y = ref.values(N, 3), ref.shuffled(N, 4)
  for k, t in ipairs(ref.types) do
    local u = util.types(k + 2)
    for _, s in ipairs {t, u} do
      local o, a = ref.tensor(x, t, shape), ref.tensor(y, s, shape)
      suite:case {
        insn = "dma_copy", name = t .. " += " .. s, engine = "gpsimd", inputs = {a = a, o = o}, outputs = {o = {t, shape}},
        extra = "s sem\nw queue dge=swdge", body = " dma_copy o, a, queue=w, op=add $s\n nop $s>=16",
        expect = {o = ref.tensor(util.map(ref.ops.add, ref.list(o), ref.list(a)), t, shape)},
      }
    end
  end
  for _, t in ipairs {"float32", "bfloat16"} do
    local o, a = ref.tensor(x, t, shape), ref.tensor(y, t, shape)
    suite:case {
      insn = "dma_copy", name = t .. " near SBUF", engine = "sync", targets = util.since(4), inputs = {a = a, o = o},
      outputs = {o = {t, shape}}, extra = "s sem\nw queue dge=hwdge", body = " dma_copy o, a, queue=w, op=add $s\n nop $s>=16",
      expect = {o = ref.tensor(util.map(ref.ops.add, ref.list(o), ref.list(a)), t, shape)},
    }
  end
end

-- Sources by ascending number, in fp32.
local function computes(suite)
  local function fold(op, tensors, dtype)
    local acc = ref.list(tensors[1])
    for k = 2, #tensors do acc = util.map(ref.ops[op], acc, ref.list(tensors[k])) end
    return ref.tensor(acc, dtype, shape)
  end
  local names = {"a", "b", "c"}
  for k, t in ipairs(ref.types) do
    local u, v = util.types(k + 1), util.types(k + 7)
    local types = {t, u, v}
    for j, op in ipairs {"add", "max", "min"} do
      local inputs, list = {}, {}
      for i = 1, 3 do
        list[i] = ref.tensor((i == 1 and ref.values or ref.shuffled)(N, k + i), types[i], shape)
        inputs[names[i]] = list[i]
      end
      suite:case {
        insn = "dma_compute", name = string.format("%s of %s, %s, %s", op, t, u, v), engine = makers[(k + j) % 5 + 1][1],
        inputs = inputs, hbm = {b = true}, outputs = {o = {t, shape}}, extra = "s sem",
        body = " dma_compute o, srcs=[a, in_b, c], op=" .. op .. ", queue=q_ $s\n nop $s>=16",
        expect = {o = fold(op, list, t)},
      }
    end
  end
  local inputs, list, sixteen = {}, {}, {}
  for i = 1, 16 do
    list[i] = ref.tensor(ref.shuffled(N, i), "float32", shape)
    inputs["i" .. i], sixteen[i] = list[i], "i" .. i
  end
  suite:case {
    insn = "dma_compute", name = "sixteen sources, in order", engine = "sync", inputs = inputs, outputs = {o = {"float32", shape}},
    extra = "s sem", body = " dma_compute o, srcs=[" .. table.concat(sixteen, ", ") .. "], op=add, queue=q_ $s\n nop $s>=16",
    expect = {o = fold("add", list, "float32")},
  }
  suite:case {
    insn = "dma_compute", name = "in place of a source, scales of 1", engine = "sync", inputs = {a = list[1], o = list[2]},
    outputs = {o = {"float32", shape}}, extra = "s sem",
    body = " dma_compute o, srcs=[a, o], op=add, scales=[1.0, 1.0], queue=q_ $s\n nop $s>=16",
    expect = {o = fold("add", {list[1], list[2]}, "float32")},
  }
  -- read-modify-write by an index vector
  local table_, rows, index = ref.tame(60, 2), ref.tame(40, 3), {4, 1, 77, 0}
  local scattered, gathered = {table.unpack(table_)}, {table.unpack(rows)}
  for p, r in ipairs(index) do
    for i = 1, 10 do
      if r < 6 then
        scattered[r * 10 + i] = ref.round(table_[r * 10 + i] + rows[p * 10 - 10 + i])
        gathered[p * 10 - 10 + i] = ref.round(rows[p * 10 - 10 + i] + table_[r * 10 + i])
      end
    end
  end
  local view = ".ap([[10, 4], [1, 10]]).gather(i)"
  suite:case {
    insn = "dma_compute", name = "scatter-add, one row outside", engine = "gpsimd", targets = util.since(3),
    hbm = {o = true}, inputs = {t = ref.tensor(table_, "float32", shape), r = ref.tensor(rows, "float32", {4, 10}),
      i = ref.from_bits(index, "uint32", {4, 1})},
    outputs = {o = {"float32", shape}}, extra = "s sem\nw queue dge=swdge",
    body = " dma_copy out_o, t, queue=w $s\n nop $s>=16\n dma_compute out_o" .. view .. ", srcs=[out_o" .. view
      .. ", r], op=add, oob=skip, queue=w $s\n nop $s>=32",
    expect = {o = ref.tensor(scattered, "float32", shape)},
  }
  suite:case {
    insn = "dma_compute", name = "gather-add, one row outside", engine = "gpsimd", targets = util.since(3),
    hbm = {t = true}, inputs = {t = ref.tensor(table_, "float32", shape), o = ref.tensor(rows, "float32", {4, 10}),
      i = ref.from_bits(index, "uint32", {4, 1})},
    outputs = {o = {"float32", {4, 10}}}, extra = "s sem\nw queue dge=swdge",
    body = " dma_compute o, srcs=[o, in_t" .. view .. "], op=add, oob=skip, queue=w $s\n nop $s>=16",
    expect = {o = ref.tensor(gathered, "float32", {4, 10})},
  }
end

return function(suite)
  copies(suite)
  gathers(suite)
  sums(suite)
  computes(suite)
end
