-- gpsimd's gathers and index instructions, transpose32, shuffle, and sums over partitions.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local function floats(l) return util.map(function(v) return v + 0.0 end, l) end

-- Packed elements are moved whole.
local packed = {float8_e5m2_x4 = 4, float8_e4m3fn_x4 = 4, float4_e2m1fn_x4 = 2}
local function all_types()
  local list = {table.unpack(ref.types)}
  for t in pairs(packed) do list[#list + 1] = t end
  table.sort(list)
  return list
end
local function from_bits(list, t, shape)
  if not packed[t] then return ref.from_bits(list, t, shape) end
  return soma.frombytes(table.concat(util.map(function(u) return string.pack("<I" .. packed[t], u) end, list)), t, shape)
end
local function any_bits(n, t, seed)
  local list = {}
  for i = 1, n do list[i] = ((i + seed) * 0x9E3779B1 ~ i << 9) & (1 << 8 * (packed[t] or ref.bytes(t))) - 1 end
  return list
end

local function gathers(suite)
  local P, F, K = 32, 20, 6
  for k, t in ipairs(ref.types) do
    local a = ref.tensor(ref.values(P * F, k), t, {P, F})
    local bits, index, want = ref.bits(a), {}, {}
    for p = 0, P - 1 do
      for i = 0, K - 1 do
        local j = (p * 7 + i * 5) % F
        index[p * K + i + 1] = j
        want[p * K + i + 1] = bits[p * F + j + 1]
      end
    end
    suite:case {
      insn = "n_gather", name = t, engine = "gpsimd",
      inputs = {a = a, i = ref.from_bits(index, "uint32", {P, K})}, outputs = {o = {t, {P, K}}},
      body = " n_gather o, a, i", expect = {o = ref.from_bits(want, t, {P, K})},
    }
  end
  suite:case {
    insn = "n_gather", name = "refused: 16-bit indices", engine = "gpsimd",
    inputs = {a = soma.ones({P, F}, "float32"), i = soma.zeros({P, K}, "uint16")}, outputs = {o = {"float32", {P, K}}},
    body = " n_gather o, a, i", refuse = "uint16",
  }
end

-- Each group of sixteen partitions has its own indices, flattened partition first; an index is an
-- element offset in each of the sixteen.
local function local_gathers(suite)
  local P, F, C = 32, 16, 3
  for k, t in ipairs(ref.types) do
    for _, each in ipairs {1, 2} do
      local a = ref.tensor(ref.values(P * F, k), t, {P, F})
      local bits, index, want = ref.bits(a), {}, {}
      for p = 0, P - 1 do for c = 0, C - 1 do index[p * C + c + 1] = (p * 5 + c * 3) % (F - each + 1) end end
      for p = 0, P - 1 do
        local base, row = p // 16 * 16, {}
        for c = 0, C - 1 do
          for q = base, base + 15 do
            for e = 0, each - 1 do row[#row + 1] = bits[p * F + index[q * C + c + 1] + e + 1] end
          end
        end
        table.move(row, 1, #row, p * 16 * C * each + 1, want)
      end
      suite:case {
        insn = "local_gather", name = t .. ", " .. each .. " an index", engine = "gpsimd",
        inputs = {a = a, i = ref.from_bits(index, "uint16", {P, C})}, outputs = {o = {t, {P, 16 * C * each}}},
        body = " local_gather o, a, i, elems_per_index=" .. each,
        expect = {o = ref.from_bits(want, t, {P, 16 * C * each})},
      }
    end
  end
  suite:case {
    insn = "local_gather", name = "refused: 20 partitions", engine = "gpsimd",
    inputs = {a = soma.ones({20, F}, "float32"), i = soma.zeros({20, 1}, "uint16")}, outputs = {o = {"float32", {20, 16}}},
    body = " local_gather o, a, i", refuse = "16",
  }
end

local function nonzeros_of(suite, P, T, offset, padding, every)
  for _, t in ipairs {"float32", "int32"} do
    local x, want = {}, {}
    for p = 0, P - 1 do for i = 0, T - 1 do x[p * T + i + 1] = (p + i * i) % 3 ~= 0 and every ~= 0 and (i - 4.0 == 0 and 1.0 or i - 4.0) or every end end
    for p = 0, P - 1 do
      local row = {}
      for i = 0, T - 1 do if x[p * T + i + 1] ~= 0 then row[#row + 1] = i + offset end end
      local n = #row
      for i = n + 1, T do row[i] = padding end
      row[T + 1] = n
      for i = 1, T + 1 do want[p * (T + 1) + i] = p % 16 == 0 and row[i] or 5 end -- others are not touched
    end
    suite:case {
      insn = "nonzero_with_count", name = string.format("%s %d x %d, zeros are %g", t, P, T, every), engine = "gpsimd", targets = util.since(3),
      inputs = {a = ref.tensor(x, t, {P, T}), o = ref.tensor(util.map(function() return 5.0 end, want), "int32", {P, T + 1})},
      outputs = {o = {"int32", {P, T + 1}}}, body = string.format(" nonzero_with_count o, a, index_offset=%d, padding=%d", offset, padding),
      expect = {o = ref.tensor(floats(want), "int32", {P, T + 1})},
    }
  end
end

local function nonzeros(suite)
  nonzeros_of(suite, 33, 8, 16, -7, 0.0)
  nonzeros_of(suite, 33, 8, 16, -7, -0.0)
  nonzeros_of(suite, 128, 1, -5, 0, 0.0)
  nonzeros_of(suite, 1, 50, 0, -1, 2.0)
  suite:case {
    insn = "nonzero_with_count", name = "refused: no room for the count", engine = "gpsimd", targets = util.since(3),
    inputs = {a = soma.ones({16, 4}, "float32")}, outputs = {o = {"int32", {16, 4}}}, body = " nonzero_with_count o, a, padding=-1", refuse = "4",
  }
end

-- The snake: element e of the sixteen partitions is partition e % 16, column e // 16. Results lie in
-- the same snake, ascending.
local function top_k_of(suite, name, P, X, n, k)
  local x = {}
  for i = 1, P * X do x[i] = ((i * 37) % 101 - 50) / 4 end
  local a = ref.tensor(x, "bfloat16", {P, X})
  local v, old, vals, idxs = ref.list(a), {}, {}, {}
  for i = 1, P * k do old[i], vals[i], idxs[i] = 99.0, 99.0, 99.0 end
  for g = 0, P // 16 - 1 do
    local list = {}
    for e = 0, n - 1 do list[e + 1] = {v[(g * 16 + e % 16) * X + e // 16 + 1], e} end
    table.sort(list, function(p, q) return p[1] > q[1] or (p[1] == q[1] and p[2] < q[2]) end)
    for j = 0, k - 1 do
      local best = list[k - j]
      local at = (g * 16 + j % 16) * k + j // 16 + 1
      vals[at], idxs[at] = best[1], best[2] + 0.0
    end
  end
  suite:case {
    insn = "topk", name = name, engine = "gpsimd",
    inputs = {a = a, o = ref.tensor(old, "bfloat16", {P, k}), i = ref.tensor(old, "uint32", {P, k})},
    outputs = {o = {"bfloat16", {P, k}}, i = {"uint32", {P, k}}}, body = " topk o, i, a, n=" .. n,
    expect = {o = ref.tensor(vals, "bfloat16", {P, k}), i = ref.tensor(idxs, "uint32", {P, k})},
  }
end

local function top_k(suite)
  top_k_of(suite, "42 of a snake, ties to the lower index", 32, 3, 42, 8)
  top_k_of(suite, "all of them: a sort", 16, 2, 32, 32)
  top_k_of(suite, "the largest", 128, 4, 64, 1)
  top_k_of(suite, "17 of 200", 16, 13, 200, 17)
  suite:case {
    insn = "topk", name = "refused: fewer than eight", engine = "gpsimd", inputs = {a = soma.ones({32, 3}, "bfloat16")},
    outputs = {o = {"bfloat16", {32, 2}}, i = {"uint32", {32, 2}}}, body = " topk o, i, a, n=7", refuse = "7",
  }
end

local function sums_over_partitions(suite)
  local P, F = 9, 6
  for _, n in ipairs {1, 9, 128} do -- the sum over the count, each rounded
    local t, u = util.types(n)
    local a, want = ref.tensor(ref.tame(n * F, n), t, {n, F}), {}
    local x = ref.list(a)
    for i = 1, F do
      local s = 0.0
      for p = 0, n - 1 do s = ref.round(s + x[p * F + i]) end
      want[i] = ref.round(s / n)
    end
    suite:case {
      insn = "partition_reduce", name = "average of " .. n, engine = "gpsimd", inputs = {a = a},
      outputs = {o = {u, {1, F}}}, body = " partition_reduce o, a, op=average", expect = {o = ref.tensor(want, u, {1, F})},
    }
  end
  for t in pairs(ref.ints) do
    for _, op in ipairs {"bitwise_and", "bitwise_or"} do
      local bits, want = any_bits(P * F, t, 1), {}
      for i = 1, F do
        local s = bits[i]
        for p = 1, P - 1 do s = ref.bit_op(op, s, bits[p * F + i], 8 * ref.bytes(t)) end
        want[i] = s
      end
      suite:case {
        insn = "partition_reduce", name = op .. " of " .. t, engine = "gpsimd", inputs = {a = ref.from_bits(bits, t, {P, F})},
        outputs = {o = {t, {1, F}}}, body = " partition_reduce o, a, op=" .. op, expect = {o = ref.from_bits(want, t, {1, F})},
      }
    end
  end
  for _, op in ipairs {"add", "max"} do
    for k = 1, #ref.types do
      local t, u = util.types(k)
      local a = ref.tensor(ref.tame(P * F, k), t, {P, F})
      local x, want = ref.list(a), {}
      for i = 1, F do
        local s = op == "add" and 0.0 or -math.huge
        for p = 0, P - 1 do s = ref.ops[op](s, x[p * F + i]) end
        want[i] = s
      end
      suite:case {
        insn = "partition_reduce", name = op .. " " .. t .. " to " .. u, engine = "gpsimd", inputs = {a = a},
        outputs = {o = {u, {1, F}}}, body = " partition_reduce o, a, op=" .. op, expect = {o = ref.tensor(want, u, {1, F})},
      }
    end
  end
end

local function bounds_of(suite, name, ids)
  local n, first, last = #ids, {}, {}
  for i = 1, n do
    local s, e = i, i
    while s > 1 and ids[s - 1] == ids[i] do s = s - 1 end
    while e < n and ids[e + 1] == ids[i] do e = e + 1 end
    first[i], last[i] = s - 1, e
    if ids[i] == 0 then first[i], last[i] = n, -1 end
  end
  table.move(last, 1, n, n + 1, first)
  for _, t in ipairs {"float32", "int32"} do
    suite:case {
      insn = "sequence_bounds", name = name .. ", " .. t, engine = "gpsimd", inputs = {a = ref.tensor(floats(ids), t, {1, n})},
      outputs = {o = {t, {1, 2, n}}}, body = " sequence_bounds o, a", expect = {o = ref.tensor(floats(first), t, {1, 2, n})},
    }
  end
end

local function bounds(suite)
  bounds_of(suite, "segments and padding", {1, 1, 2, 2, 2, 0, 0, 5, 7, 7, 0, 1})
  bounds_of(suite, "one element", {4})
  bounds_of(suite, "one element of padding", {0})
  bounds_of(suite, "nothing but padding", {0, 0, 0})
  bounds_of(suite, "one segment", {3, 3, 3, 3, 3})
  bounds_of(suite, "all differ", {5, 4, 3, 2, 1})
end

local function blocks(suite)
  for _, t in ipairs(all_types()) do
    local bits, want = any_bits(64 * 32, t, 3), {}
    for b = 0, 1 do
      for i = 0, 31 do
        for j = 0, 31 do want[(b * 32 + i) * 32 + j + 1] = bits[(b * 32 + j) * 32 + i + 1] end
      end
    end
    suite:case {
      insn = "transpose32", name = t .. ", two blocks", engine = "vector", inputs = {a = from_bits(bits, t, {64, 32})},
      outputs = {o = {t, {64, 32}}}, body = " transpose32 o, a", expect = {o = from_bits(want, t, {64, 32})},
    }
  end
  for _, s in ipairs {{1, 1}, {5, 7}, {32, 1}, {1, 32}} do -- less than a block
    local bits, want = any_bits(s[1] * s[2], "float32", 2), {}
    for i = 0, s[1] - 1 do for j = 0, s[2] - 1 do want[j * s[1] + i + 1] = bits[i * s[2] + j + 1] end end
    suite:case {
      insn = "transpose32", name = s[1] .. " x " .. s[2], engine = "vector", inputs = {a = from_bits(bits, "float32", s)},
      outputs = {o = {"float32", {s[2], s[1]}}}, body = " transpose32 o, a",
      expect = {o = from_bits(want, "float32", {s[2], s[1]})},
    }
  end
  local bits, want = any_bits(32 * 96, "uint16", 4), {}
  for b = 0, 2 do
    for i = 0, 31 do for j = 0, 31 do want[i * 96 + b * 32 + j + 1] = bits[j * 96 + b * 32 + i + 1] end end
  end
  suite:case {
    insn = "transpose32", name = "three blocks in place, from PSUM", engine = "vector", psum = {a = true},
    inputs = {a = from_bits(bits, "uint16", {32, 96})}, outputs = {a = {"uint16", {32, 96}}}, body = " transpose32 a, a",
    expect = {a = from_bits(want, "uint16", {32, 96})},
  }
end

local function shuffles(suite)
  local mask, text = {}, {}
  for i = 0, 31 do
    mask[i] = i % 5 == 4 and 255 or (i * 11 + 3) % 32
    text[i + 1] = tostring(mask[i])
  end
  for _, t in ipairs(all_types()) do
    local ba, bo, want = any_bits(64 * 3, t, 5), any_bits(64 * 3, t, 6), {}
    local a, o = from_bits(ba, t, {64, 3}), from_bits(bo, t, {64, 3})
    for p = 0, 63 do
      local q, m = p // 32 * 32, mask[p % 32]
      for j = 1, 3 do want[p * 3 + j] = m == 255 and bo[p * 3 + j] or ba[(q + m) * 3 + j] end
    end
    for _, insn in ipairs {"shuffle", "load_mask_register"} do
      suite:case {
        insn = insn, name = t .. ", 255 keeps", engine = "vector", inputs = {a = a, o = o}, outputs = {o = {t, {64, 3}}},
        body = " load_mask_register [" .. table.concat(text, ", ") .. "]\n shuffle o, a",
        expect = {o = from_bits(want, t, {64, 3})},
      }
    end
  end
  local x, y = ref.tame(32 * 5, 1), {}
  for p = 0, 31 do for j = 1, 5 do y[p * 5 + j] = x[(mask[p] == 255 and p or mask[p]) * 5 + j] end end
  suite:case {
    insn = "shuffle", name = "in place reads everything first", engine = "vector", inputs = {a = ref.tensor(x, "float32", {32, 5})},
    outputs = {a = {"float32", {32, 5}}}, body = " load_mask_register [" .. table.concat(text, ", ") .. "]\n shuffle a, a",
    expect = {a = ref.tensor(y, "float32", {32, 5})},
  }
  suite:case {
    insn = "shuffle", name = "fails: no mask is loaded", engine = "vector", inputs = {a = soma.ones({32, 5}, "float32")},
    outputs = {o = {"float32", {32, 5}}}, body = " shuffle o, a", fault = "no mask",
  }
end

return function(suite)
  gathers(suite)
  local_gathers(suite)
  nonzeros(suite)
  top_k(suite)
  sums_over_partitions(suite)
  bounds(suite)
  blocks(suite)
  shuffles(suite)
end
