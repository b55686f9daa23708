-- Gen4's `.indirect`: sources gathered and destinations scattered by an index, the same in all
-- partitions, and what is refused.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local g4 = util.since(4)
local P, F, N = 32, 40, 20
local UNREAD = 99 -- out of range: in every element of an index that is not an offset

-- N offsets below F, all different; and N of which some come twice, for sources.
local function spread(step)
  local list = {}
  for i = 0, N - 1 do list[i + 1] = (i * step + 5) % F end
  return list
end
local once, twice = spread(7), spread(8)

-- Offset i is element [i mod group, i div group] of the index.
local function index(offsets, group, dtype)
  local cols, bits = (#offsets + group - 1) // group, {}
  for i = 1, P * cols do bits[i] = UNREAD end
  for i, v in ipairs(offsets) do
    i = i - 1
    bits[i % group * cols + i // group + 1] = v & (1 << 8 * ref.bytes(dtype or "uint32")) - 1
  end
  return ref.from_bits(bits, dtype or "uint32", {P, cols})
end
-- Columns of a list of rows of `wide` numbers.
local function gather(x, offsets, wide)
  local out = {}
  for p = 0, #x // wide - 1 do
    for _, o in ipairs(offsets) do out[#out + 1] = x[p * wide + o + 1] end
  end
  return out
end
local function scatter(y, offsets, wide)
  local out, n = {}, #offsets
  for i = 1, #y // n * wide do out[i] = 0.0 end
  for p = 0, #y // n - 1 do
    for i, o in ipairs(offsets) do out[p * wide + o + 1] = y[p * n + i] end
  end
  return out
end

-- One instruction on its engines: gathered, scattered, both. line is formatted with dst and src; f
-- gives the result's rows of N numbers from the source's.
local function both_ways(suite, insn, engines, line, f, more)
  more = more or {}
  local x = ref.tame(P * F, #insn)
  local y = f(gather(x, twice, F))
  local n = #y // P
  local dst_at = {table.unpack(once, 1, n)}
  for _, engine in ipairs(engines) do
    local function case(name, inputs, dst, src, shape, expect)
      for k, t in pairs(more.inputs or {}) do inputs[k] = t end
      suite:case {
        insn = insn, name = name, engine = engine, targets = g4, inputs = inputs, ulp = more.ulp,
        indirect = more.fields, tiles = more.tiles, outputs = {o = {"float32", shape}},
        body = " " .. line:format(dst, src), expect = {o = ref.tensor(expect, "float32", shape)},
      }
    end
    local a = ref.tensor(x, "float32", {P, F})
    local i, j = index(twice, 16), index(dst_at, 16)
    local g = ref.tensor(gather(x, twice, F), "float32", {P, N})
    case(engine .. " gathers", {a = a, i = i}, "o", "a.indirect(i, " .. N .. ")", {P, n}, y)
    case(engine .. " scatters", {g = g, j = j}, "o.indirect(j, " .. n .. ")", "g", {P, F}, scatter(y, dst_at, F))
    case(engine .. " gathers and scatters", {a = a, i = i, j = j}, "o.indirect(j, " .. n .. ")",
      "a.indirect(i, " .. N .. ")", {P, F}, scatter(y, dst_at, F))
  end
end

local function elementwise(suite)
  local r = ref.round
  local function each(g) return function(x) return util.map(g, x) end end
  local b = ref.tame(P * N, 77)
  local tensor_b = {inputs = {b = ref.tensor(b, "float32", {P, N})}}
  both_ways(suite, "tensor_copy", {"vector", "scalar"}, "tensor_copy %s, %s", each(function(v) return v end))
  both_ways(suite, "tensor_tensor", {"vector"}, "tensor_tensor %s, %s, b, op=mult",
    function(x) return util.map(function(v, w) return r(v * w) end, x, b) end, tensor_b)
  both_ways(suite, "tensor_scalar", {"vector", "scalar"}, "tensor_scalar %s, %s, op0=mult, imm0=2.5, op1=add, imm1=0.5",
    each(function(v) return r(r(v * 2.5) + 0.5) end))
  both_ways(suite, "activate", {"scalar"}, "activate %s, %s, fn=square, scale=1.5", each(function(v)
    v = r(v * 1.5)
    return r(v * v)
  end))
  both_ways(suite, "activate2", {"scalar"}, "activate2 %s, %s, fn=copy, op0=add, imm0=0.25", each(function(v) return r(v + 0.25) end))
  both_ways(suite, "exponential", {"vector"}, "exponential %s, %s, max=0.5",
    each(function(v) return r(math.exp(r(v - 0.5))) end), {ulp = 1})
  both_ways(suite, "tensor_scalar_reduce", {"vector"}, "tensor_scalar_reduce %s, %s, op0=add, imm0=0.5, op1=add, reduce=reset_reduce",
    each(function(v) return r(v + 0.5) end))
  both_ways(suite, "tensor_scalar_cumulative", {"vector"},
    "tensor_scalar_cumulative %s, %s, op0=mult, imm0=2.0, op1=add, reduce=reset_reduce", function(x)
      local out = {}
      for p = 0, P - 1 do
        local s = 0.0
        for i = 1, N do
          s = r(r(x[p * N + i] * 2) + s)
          out[p * N + i] = s
        end
      end
      return out
    end)
  both_ways(suite, "tensor_reduce", {"vector"}, "tensor_reduce %s, %s, op=max", function(x)
    local out = {}
    for p = 0, P - 1 do out[p + 1] = ref.sixteen("max", util.row(x, p, N)) end
    return out
  end)
  -- Integers of gpsimd, whose index may have any integer type.
  local u, v = {}, {}
  for i = 1, P * F do u[i] = i * 0x01000193 & 0xffffffff end
  for i = 1, P * N do v[i] = i * 77777 end
  for _, t in ipairs {"uint8", "int8", "uint16", "int16", "uint32", "int32"} do
    local want = util.map(function(x, y) return x + y & 0xffffffff end, gather(u, twice, F), v)
    suite:case {
      insn = "tensor_tensor", name = "gpsimd gathers by " .. t, engine = "gpsimd", targets = g4, outputs = {o = {"int32", {P, F}}},
      inputs = {a = ref.from_bits(u, "int32", {P, F}), b = ref.from_bits(v, "int32", {P, N}), i = index(twice, 16, t), j = index(once, 16, t)},
      body = " tensor_tensor o.indirect(j, 20), a.indirect(i, 20), b, op=add",
      expect = {o = ref.from_bits(util.map(math.tointeger, scatter(want, once, F)), "int32", {P, F})},
    }
  end
  local rs = ref.tame(P * F, 9)
  for i = 1, P * F do rs[i] = 4.0 ^ (math.abs(rs[i]) // 1) end
  suite:case {
    insn = "tensor_scalar", name = "gpsimd gathers", engine = "gpsimd", targets = g4, outputs = {o = {"float32", {P, N}}},
    inputs = {a = ref.tensor(rs, "float32", {P, F}), i = index(twice, 16)}, body = " tensor_scalar o, a.indirect(i, 20), op0=rsqrt",
    expect = {o = ref.tensor(util.map(function(x) return 1 / math.sqrt(x) end, gather(rs, twice, F)), "float32", {P, N})},
  }
end

local function predicated(suite)
  local a, old = ref.tame(P * N, 1), ref.tame(P * F, 2)
  local pred = {}
  for i = 1, P * F do pred[i] = i * 7 % 3 == 0 and i % 255 + 1 or 0 end
  for _, reverse in ipairs {false, true} do
    local chosen, want = gather(pred, twice, F), {table.unpack(old)}
    for p = 0, P - 1 do
      for i, o in ipairs(once) do
        if (chosen[p * N + i] ~= 0) ~= reverse then want[p * F + o + 1] = a[p * N + i] end
      end
    end
    suite:case {
      insn = "copy_predicated", name = "both ways, reversed " .. tostring(reverse), engine = "vector", targets = g4,
      inputs = {o = ref.tensor(old, "float32", {P, F}), a = ref.tensor(a, "float32", {P, N}), m = ref.from_bits(pred, "uint16", {P, F}),
        i = index(twice, 16), j = index(once, 16)},
      outputs = {o = {"float32", {P, F}}}, expect = {o = ref.tensor(want, "float32", {P, F})},
      body = " copy_predicated o.indirect(j, 20), src=a, pred=m.indirect(i, 20), reverse_pred=" .. tostring(reverse),
    }
  end
end

-- Whole numbers, so that sums are exact in any order.
local function whole(n, seed)
  local list = {}
  for i = 1, n do list[i] = (i * 37 + seed) % 9 - 4.0 end
  return list
end
local function product(w, x, K, M, cols)
  local out = {}
  for m = 0, M - 1 do
    for c = 0, cols - 1 do
      local s = 0.0
      for k = 0, K - 1 do s = s + w[k * M + m + 1] * x[k * cols + c + 1] end
      out[m * cols + c + 1] = s
    end
  end
  return out
end

local function matmul(suite)
  local w, x = whole(P * F, 1), whole(P * F, 2)
  local wide = {} -- 40 offsets of 32 a column: the index has two
  for i = 0, F - 1 do wide[i + 1] = (i * 11 + 3) % F end
  for _, t in ipairs {"bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn"} do
    local y = product(gather(w, twice, F), gather(x, wide, F), P, N, F)
    for _, insn in ipairs {"ldweights", "matmul"} do
      suite:case {
        insn = insn, name = t .. " gathered and scattered", engine = "tensor", targets = g4, psum = {o = true},
        inputs = {w = ref.tensor(w, t, {P, F}), x = ref.tensor(x, t, {P, F}), i = index(twice, 32), j = index(wide, 32)},
        outputs = {o = {"float32", {N, F}}}, expect = {o = ref.tensor(scatter(y, wide, F), "float32", {N, F})},
        body = " ldweights w.indirect(i, 20)\n matmul o.indirect(j, 40), x.indirect(j, 40)",
      }
    end
  end
  -- What a scatter writes is no longer fresh: of the second, elements 0..9 add and the others write.
  local a, b, want = {}, {}, {}
  for i = 1, 20 do a[i], b[i] = i - 1, i + 9 end
  local y = product(w, x, P, F, F)
  for m = 0, F - 1 do
    for c = 0, 29 do want[m * 30 + c + 1] = (c < 20 and y[m * F + c + 1] or 0) + (c >= 10 and y[m * F + c - 10 + 1] or 0) end
  end
  for _, t in ipairs {"float32", "bfloat16"} do
    suite:case {
      insn = "matmul", name = "scatters overlap, acc=auto, " .. t, engine = "tensor", targets = g4, psum = {o = true},
      inputs = {w = ref.tensor(w, "bfloat16", {P, F}), x = ref.tensor(x, "bfloat16", {P, F}), i = index(a, 32), j = index(b, 32)},
      outputs = {o = {t, {F, 30}}}, expect = {o = ref.tensor(want, t, {F, 30})},
      body = " ldweights w\n matmul o.indirect(i, 20), x[:, 0:20], acc=auto\n matmul o.indirect(j, 20), x[:, 0:20], acc=auto",
    }
  end
  suite:case {
    insn = "matmul", name = "a transpose scatters", engine = "tensor", targets = g4, psum = {o = true},
    inputs = {w = ref.tensor(w, "bfloat16", {P, F}), x = ref.tensor((function()
      local one = {}
      for i = 1, P * P do one[i] = (i - 1) % (P + 1) == 0 and 1.0 or 0.0 end
      return one
    end)(), "bfloat16", {P, P}), j = index({table.unpack(wide, 1, P)}, 32)},
    outputs = {o = {"bfloat16", {F, F}}}, body = " ldweights w\n matmul o.indirect(j, 32), x, transpose=true",
    expect = {o = (function()
      local t = {}
      for k = 0, P - 1 do for m = 0, F - 1 do t[m * P + k + 1] = w[k * F + m + 1] end end
      return ref.tensor(scatter(t, {table.unpack(wide, 1, P)}, F), "bfloat16", {F, F})
    end)()},
  }
end

-- MX: data and scales go by one index. Four whole numbers an element; scales 1, 2 and 4.
local function mx(suite)
  local function operand(seed, cols)
    local values, bytes, codes = {}, {}, {}
    for g = 0, 3 do for c = 0, cols - 1 do codes[g * cols + c + 1] = 127 + (g + c + seed) % 3 end end
    for k = 0, P - 1 do
      for c = 0, cols - 1 do
        for l = 0, 3 do
          local v = (k * 5 + c * 3 + l + seed) % 7 - 3
          bytes[#bytes + 1] = string.char(ref.encode("float8_e4m3fn", v))
          values[(4 * k + l) * cols + c + 1] = v * 2.0 ^ (codes[k // 8 * cols + c + 1] - 127)
        end
      end
    end
    return soma.frombytes(table.concat(bytes), "float8_e4m3fn_x4", {P, cols}), ref.from_bits(codes, "float8_e8m0fnu", {4, cols}), values
  end
  local w, sw, wv = operand(1, F)
  local x, sx, xv = operand(2, F)
  local y = product(gather(wv, twice, F), gather(xv, once, F), 4 * P, N, N)
  for _, insn in ipairs {"ldweights_mx", "matmul_mx"} do
    suite:case {
      insn = insn, name = "gathered and scattered", engine = "tensor", targets = g4, psum = {o = true},
      inputs = {w = w, sw = sw, x = x, sx = sx, i = index(twice, 32), j = index(once, 32)},
      outputs = {o = {"float32", {N, F}}}, expect = {o = ref.tensor(scatter(y, once, F), "float32", {N, F})},
      body = " ldweights_mx w.indirect(i, 20), sw.indirect(i, 20)\n"
        .. " matmul_mx o.indirect(j, 20), x.indirect(j, 20), sx.indirect(j, 20)",
    }
  end
end

local function shapes(suite)
  local x = ref.tame(128 * F, 5)
  local function case(c)
    c.targets = g4
    suite:case(c)
  end
  -- More offsets than the tile has elements; 128 partitions read the first sixteen rows.
  local many, bits = {}, {}
  for i = 0, 99 do many[i + 1] = i * i % F end
  for i = 1, 128 * 7 do bits[i] = UNREAD end
  for i, v in ipairs(many) do bits[(i - 1) % 16 * 7 + (i - 1) // 16 + 1] = v end
  case {
    insn = "tensor_copy", name = "100 elements of a tile of 40, 128 partitions", engine = "vector",
    inputs = {a = ref.tensor(x, "float32", {128, F}), i = ref.from_bits(bits, "int32", {128, 7})},
    outputs = {o = {"float32", {128, 100}}}, body = " tensor_copy o, a.indirect(i, 100)",
    expect = {o = ref.tensor(gather(x, many, F), "float32", {128, 100})},
  }
  local row = {table.unpack(x, 1, F)}
  case {
    insn = "tensor_copy", name = "one partition, an index of fewer than sixteen rows", engine = "scalar",
    inputs = {a = ref.tensor(row, "float32", {1, F}), i = ref.from_bits({3, 39, 0}, "uint8", {3, 1})},
    outputs = {o = {"float32", {1, 3}}}, body = " tensor_copy o, a.indirect(i, 3)",
    expect = {o = ref.tensor({row[4], row[40], row[1]}, "float32", {1, 3})},
  }
  case {
    insn = "tensor_copy", name = "one element", engine = "vector",
    inputs = {a = ref.tensor(x, "float32", {128, F}), i = ref.from_bits({17}, "uint8", {1, 1}), j = ref.from_bits({2}, "uint8", {1, 1})},
    outputs = {o = {"float32", {128, 4}}}, body = " tensor_copy o.indirect(j, 1), a.indirect(i, 1)",
    expect = {o = ref.tensor(scatter(gather(x, {17}, F), {2}, 4), "float32", {128, 4})},
  }
  -- Offsets count from the operand's first element, and may be negative while they stay in the tile.
  case {
    insn = "tensor_copy", name = "from the middle of a tile, negative offsets", engine = "vector",
    inputs = {a = ref.tensor(row, "bfloat16", {1, F}), i = ref.from_bits({0xfffb, 0, 19, 0xffec}, "int16", {4, 1})},
    outputs = {o = {"bfloat16", {1, 4}}}, body = " tensor_copy o, a[:, 20:40].indirect(i, 4)",
    expect = {o = ref.tensor({row[16], row[21], row[40], row[1]}, "bfloat16", {1, 4})},
  }
  -- The shape stays without a count, so that an axis may be reduced.
  local g = gather(x, {5, 1, 9, 30, 2, 2}, F)
  local sums = {}
  for i = 1, 128 * 2 do sums[i] = ref.sixteen("add", {g[3 * i - 2], g[3 * i - 1], g[3 * i]}) end
  case {
    insn = "tensor_reduce", name = "an operand of two dimensions", engine = "vector",
    inputs = {a = ref.tensor(x, "float32", {128, F}), i = ref.from_bits({5, 1, 9, 30, 2, 2}, "uint32", {6, 1})},
    outputs = {o = {"float32", {128, 2}}}, body = " tensor_reduce o, a.ap([[3, 2], [1, 3]]).indirect(i), op=add, axes=1",
    expect = {o = ref.tensor(sums, "float32", {128, 2})},
  }
  -- In place by one index; and a gather from the tile that is written, elsewhere.
  local wide = util.map(function(v) return v end, x)
  for p = 0, 127 do
    for _, o in ipairs(once) do wide[p * F + o + 1] = ref.round(wide[p * F + o + 1] + 1) end
  end
  local all = {}
  for i = 1, 128 * 2 do all[i] = UNREAD end
  for i, v in ipairs(once) do all[(i - 1) % 16 * 2 + (i - 1) // 16 + 1] = v end
  case {
    insn = "tensor_scalar", name = "in place", engine = "vector", inputs = {o = ref.tensor(x, "float32", {128, F}),
      i = ref.from_bits(all, "uint32", {128, 2})}, outputs = {o = {"float32", {128, F}}},
    body = " tensor_scalar o.indirect(i, 20), o.indirect(i, 20), op0=add, imm0=1.0",
    expect = {o = ref.tensor(wide, "float32", {128, F})},
  }
  local moved = {table.unpack(x, 1, F)}
  moved[1], moved[2] = moved[40], moved[7]
  case {
    insn = "tensor_copy", name = "within a tile", engine = "vector",
    inputs = {o = ref.tensor(row, "float32", {1, F}), i = ref.from_bits({39, 6}, "uint32", {2, 1})}, outputs = {o = {"float32", {1, F}}},
    body = " tensor_copy o[:, 0:2], o.indirect(i, 2)", expect = {o = ref.tensor(moved, "float32", {1, F})},
  }
  -- An index that the same engine has just written is waited for; one in psum's order of writing.
  case {
    insn = "tensor_copy", name = "an index just written", engine = "vector", inputs = {a = ref.tensor(row, "float32", {1, F})},
    tiles = {i = {"uint32", {4, 1}}}, outputs = {o = {"float32", {1, 4}}},
    body = " memset i, 11\n tensor_copy o, a.indirect(i, 4)",
    expect = {o = ref.tensor({row[12], row[12], row[12], row[12]}, "float32", {1, 4})},
  }
end

local function faults(suite)
  local function fault(name, body, offsets, text, dtype)
    suite:case {
      insn = "tensor_copy", name = name, engine = "vector", targets = g4, outputs = {o = {"float32", {1, 8}}},
      inputs = {a = soma.ones({1, 8}, "float32"), i = ref.from_bits(offsets, dtype or "uint32", {#offsets, 1})}, body = " " .. body, fault = text,
    }
  end
  fault("past the tile", "tensor_copy o[:, 0:2], a.indirect(i, 2)", {7, 8}, "offset 8, number 1 of the index")
  fault("before the tile", "tensor_copy o[:, 0:2], a.indirect(i, 2)", {0, 0xff}, "offset -1, number 1 of the index", "int8")
  fault("an unsigned offset", "tensor_copy o[:, 0:2], a.indirect(i, 2)", {0, 0xffffffff}, "offset 4294967295")
  fault("a destination twice", "tensor_copy o.indirect(i, 3), a[:, 0:3]", {4, 2, 4}, "element 2 of the destination coincides")
  fault("a source that is written", "tensor_copy a[:, 0:2], a.indirect(i, 2)", {5, 1}, "overlaps src")
  fault("a source under a scatter", "tensor_copy a.indirect(i, 2), a[:, 0:2]", {5, 1}, "overlaps src")
end

local tiles = "a float32[64,40]; o float32[64,20]; p float32[64,40] psum; i uint32[64,2]; k uint32[32,2] part=32; h uint32[15,2]; "
  .. "f float32[64,2]; w uint32[64,1]; b bfloat16[64,40]; c bfloat16[32,40] part=32; d uint32[64,40]; q float32[32,20] psum; "
  .. "z float32[32,40] part=64; y uint32[32,2] part=64; m uint32[64,20]; "
local refused = {
  {"tensor_copy", "gpsimd", "tensor_copy o, a.indirect(i, 20)", "vector and scalar"},
  {"tensor_copy", "vector", "tensor_copy o, a.indirect(h, 20)", "20 offsets lie in 16 x 2"},
  {"tensor_copy", "vector", "tensor_copy o, a.indirect(w, 20)", "is 64 x 1"},
  {"tensor_copy", "vector", "tensor_copy o, a.indirect(f, 20)", "integer type"},
  {"tensor_copy", "vector", "tensor_copy o, a.indirect(p, 20)", "sbuf"},
  {"tensor_copy", "vector", "tensor_copy o, a.indirect(i[16:64, :], 20)", "multiple of 32"},
  {"tensor_copy", "vector", "tensor_copy o, a.indirect(k, 20)", "must start at the same one"},
  {"tensor_copy", "vector", "tensor_copy a.indirect(k, 20), o", "0, as for the source"},
  {"tensor_copy", "vector", "tensor_copy a.indirect(k, 20), p.indirect(i, 20)", "0, as for the source"},
  {"tensor_copy", "vector", "tensor_copy o, a.ap([[2, 20]]).indirect(i)", "step 2, not 1"},
  {"tensor_copy", "vector", "tensor_copy o, a[:, 0:21].indirect(i)", "21 elements"},
  {"tensor_copy", "vector", "tensor_copy o, a.ap([[2, 20]]).indirect(i, 20)", "dense"},
  {"tensor_copy", "scalar", "tensor_copy p.indirect(i, 20), o", "does not scatter to psum"},
  {"tensor_tensor", "vector", "tensor_tensor o, o, a.indirect(i, 20), op=add", "does not take .indirect here"},
  {"scalar_tensor_tensor", "vector", "scalar_tensor_tensor o, a.indirect(i, 20), op0=mult, imm0=2.0, op1=add, src1=o", "does not take .indirect"},
  {"reciprocal", "vector", "reciprocal o, a.indirect(i, 20)", "does not take .indirect here"},
  {"copy_predicated", "vector", "copy_predicated o, src=a.indirect(i, 20), pred=m", "does not take .indirect here"},
  {"ldweights", "tensor", "ldweights a.indirect(i, 20)", "gathers float16"},
  {"ldweights", "tensor", "ldweights b[0:32, :].indirect(i, 20), tile_row=32, tile_rows=32, tile_cols=128", "(32, 0)"},
  {"matmul", "tensor", "matmul q, c.indirect(i, 20)", "must start at the same one"},
  {"matmul", "tensor", "matmul q, b[0:32, :].indirect(i, 20), tile_row=32, tile_rows=32, tile_cols=128", "(32, 0)"},
  {"matmul", "tensor", "matmul q.indirect(k, 20), b[0:32, 0:20]", "0, as for the source"},
  {"matmul", "tensor", "matmul p[0:20, 0:10].view(bfloat16), b.indirect(i, 20), transpose=true", "moves its operand in order"},
  {"dma_copy", "sync", "dma_copy o, a.indirect(i, 20), queue=q_", "does not take .indirect here"},
}

return function(suite)
  elementwise(suite)
  predicated(suite)
  matmul(suite)
  mx(suite)
  shapes(suite)
  faults(suite)
  for _, r in ipairs(refused) do
    util.refused(suite, {r[1], r[2], tiles, r[3], r[4], 4})
  end
  util.refused(suite, {"tensor_copy", "vector", tiles, "tensor_copy o, a.indirect(i, 20)", "needs gen4", 2, {"trn1", "inf2", "trn2"}})
end
