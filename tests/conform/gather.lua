-- gpsimd's gathers and index instructions, transpose32, shuffle, and sums over partitions.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local function floats(l) return util.map(function(v) return v + 0.0 end, l) end

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

local function nonzeros(suite)
  local P, T = 33, 8
  for _, t in ipairs {"float32", "int32"} do
    local x, want = {}, {}
    for p = 0, P - 1 do for i = 0, T - 1 do x[p * T + i + 1] = (p + i * i) % 3 == 0 and 0.0 or (i - 4.0 == 0 and 1.0 or i - 4.0) end end
    for p = 0, P - 1 do
      local row = {}
      for i = 0, T - 1 do if x[p * T + i + 1] ~= 0 then row[#row + 1] = i + 16 end end
      local n = #row
      for i = n + 1, T do row[i] = -7 end
      row[T + 1] = n
      for i = 1, T + 1 do want[p * (T + 1) + i] = p % 16 == 0 and row[i] or 5 end -- others are not touched
    end
    suite:case {
      insn = "nonzero_with_count", name = t, engine = "gpsimd", targets = util.since(3),
      inputs = {a = ref.tensor(x, t, {P, T}), o = ref.tensor(util.map(function() return 5.0 end, want), "int32", {P, T + 1})},
      outputs = {o = {"int32", {P, T + 1}}}, body = " nonzero_with_count o, a, index_offset=16, padding=-7",
      expect = {o = ref.tensor(floats(want), "int32", {P, T + 1})},
    }
  end
  suite:case {
    insn = "nonzero_with_count", name = "refused: no room for the count", engine = "gpsimd", targets = util.since(3),
    inputs = {a = soma.ones({16, 4}, "float32")}, outputs = {o = {"int32", {16, 4}}}, body = " nonzero_with_count o, a", refuse = "4",
  }
end

-- The snake: element e of the sixteen partitions is partition e % 16, column e // 16. Results lie in
-- the same snake, ascending.
local function top_k(suite)
  local P, X, n, k = 32, 3, 42, 8
  local x = {}
  for i = 1, P * X do x[i] = ((i * 37) % 101 - 50) / 4 end
  local a = ref.tensor(x, "bfloat16", {P, X})
  local v, o = ref.list(a), ref.tensor(util.map(function() return 99.0 end, floats(util.map(function(z) return z end, ref.tame(P * k, 1)))), "bfloat16", {P, k})
  local vals, idxs = {}, {}
  for i = 1, P * k do vals[i], idxs[i] = 99.0, 99.0 end
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
    insn = "topk", name = "42 of a snake, ties to the lower index", engine = "gpsimd",
    inputs = {a = a, o = o, i = ref.tensor(util.map(function() return 99.0 end, vals), "uint32", {P, k})},
    outputs = {o = {"bfloat16", {P, k}}, i = {"uint32", {P, k}}}, body = " topk o, i, a, n=42",
    expect = {o = ref.tensor(vals, "bfloat16", {P, k}), i = ref.tensor(idxs, "uint32", {P, k})},
  }
  suite:case {
    insn = "topk", name = "refused: fewer than eight", engine = "gpsimd", inputs = {a = a},
    outputs = {o = {"bfloat16", {P, 2}}, i = {"uint32", {P, 2}}}, body = " topk o, i, a, n=7", refuse = "7",
  }
end

local function sums_over_partitions(suite)
  local P, F = 9, 6
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

local function bounds(suite)
  local ids = {1, 1, 2, 2, 2, 0, 0, 5, 7, 7, 0, 1}
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
      insn = "sequence_bounds", name = t, engine = "gpsimd", inputs = {a = ref.tensor(floats(ids), t, {1, n})},
      outputs = {o = {t, {1, 2, n}}}, body = " sequence_bounds o, a", expect = {o = ref.tensor(floats(first), t, {1, 2, n})},
    }
  end
end

local function blocks(suite)
  for _, t in ipairs(ref.types) do
    local a = ref.tensor(ref.values(64 * 32, 3), t, {64, 32})
    local bits, want = ref.bits(a), {}
    for b = 0, 1 do
      for i = 0, 31 do
        for j = 0, 31 do want[(b * 32 + i) * 32 + j + 1] = bits[(b * 32 + j) * 32 + i + 1] end
      end
    end
    suite:case {
      insn = "transpose32", name = t .. ", two blocks", engine = "vector", inputs = {a = a}, outputs = {o = {t, {64, 32}}},
      body = " transpose32 o, a", expect = {o = ref.from_bits(want, t, {64, 32})},
    }
  end
end

local function shuffles(suite)
  local mask, text = {}, {}
  for i = 0, 31 do
    mask[i] = i % 5 == 4 and 255 or (i * 11 + 3) % 32
    text[i + 1] = tostring(mask[i])
  end
  for _, t in ipairs(ref.types) do
    local a, o = ref.tensor(ref.values(64 * 3, 5), t, {64, 3}), ref.tensor(ref.shuffled(64 * 3, 6), t, {64, 3})
    local ba, bo, want = ref.bits(a), ref.bits(o), {}
    for p = 0, 63 do
      local q, m = p // 32 * 32, mask[p % 32]
      for j = 1, 3 do want[p * 3 + j] = m == 255 and bo[p * 3 + j] or ba[(q + m) * 3 + j] end
    end
    for _, insn in ipairs {"shuffle", "load_mask_register"} do
      suite:case {
        insn = insn, name = t .. ", 255 keeps", engine = "vector", inputs = {a = a, o = o}, outputs = {o = {t, {64, 3}}},
        body = " load_mask_register [" .. table.concat(text, ", ") .. "]\n shuffle o, a",
        expect = {o = ref.from_bits(want, t, {64, 3})},
      }
    end
  end
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
