-- dma_transpose: axes [1, 0], [2, 1, 0], [3, 1, 2, 0]; direct and by an index vector.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local g3 = util.since(3)
local axes = {[2] = {2, 1}, [3] = {3, 2, 1}, [4] = {4, 2, 3, 1}}

local function size(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return n
end

-- Bits of a tensor with its axes permuted, and the new shape.
local function turn(bits, shape)
  local order, rank, steps, to = axes[#shape], #shape, {}, {}
  local step = 1
  for i = rank, 1, -1 do steps[i], step = step, step * shape[i] end
  for i = 1, rank do to[i] = shape[order[i]] end
  local out = {}
  local function walk(d, at)
    if d > rank then out[#out + 1] = bits[at + 1] return end
    for i = 0, to[d] - 1 do walk(d + 1, at + i * steps[order[d]]) end
  end
  walk(1, 0)
  return out, to
end

local function bits(n, bytes, seed) -- every pattern, NaN payloads among them
  local list = {}
  for i = 1, n do list[i] = ((i + seed) * 0x9E3779B1 ~ i << 9) & (1 << 8 * bytes) - 1 end
  return list
end

local function case(suite, name, dtype, shape, engine, dge, from_hbm)
  local b = bits(size(shape), ref.bytes(dtype), #shape)
  local want, to = turn(b, shape)
  suite:case {
    insn = "dma_transpose", name = name, engine = engine, targets = g3, hbm = {a = from_hbm},
    inputs = {a = ref.from_bits(b, dtype, shape)}, outputs = {o = {dtype, to}}, extra = "s sem\nw queue " .. dge,
    body = string.format(" dma_transpose o, %s, queue=w $s\n nop $s>=16", from_hbm and "in_a" or "a"),
    expect = {o = ref.from_bits(want, dtype, to)},
  }
end

local function direct(suite)
  local engines = {"tensor", "vector", "scalar", "gpsimd", "sync"}
  local k = 0
  for _, t in ipairs(ref.types) do
    if ref.bytes(t) > 1 then
      for _, shape in ipairs {{6, 10}, {5, 3, 4}, {3, 2, 5, 4}, {1, 7}, {7, 1}} do
        for _, hbm in ipairs {true, false} do
          k = k + 1
          case(suite, string.format("%s %s from %s", t, table.concat(shape, " x "), hbm and "HBM" or "SBUF"), t, shape,
            engines[k % 5 + 1], "dge=none", hbm)
        end
      end
      if ref.bytes(t) == 2 then
        for _, shape in ipairs {{16, 128}, {16, 1}, {2, 8, 16}, {1, 16, 3}, {8, 5, 2, 128}, {4, 2, 4, 9}} do
          for _, engine in ipairs {"sync", "scalar"} do
            case(suite, string.format("%s %s, hwdge on %s", t, table.concat(shape, " x "), engine), t, shape, engine,
              "dge=hwdge", engine == "sync")
          end
        end
      end
    end
  end
  case(suite, "128 x 128", "float32", {128, 128}, "sync", "dge=none", true)
  case(suite, "128 x 33", "bfloat16", {128, 33}, "sync", "dge=none", false)
  for t, bytes in pairs {float8_e5m2_x4 = 4, float8_e4m3fn_x4 = 4, float4_e2m1fn_x4 = 2} do
    local b = bits(60, bytes, 5)
    local function pack(list)
      return soma.frombytes(table.concat(util.map(function(u) return string.pack("<I" .. bytes, u) end, list)), t,
        list == b and {6, 10} or {10, 6})
    end
    suite:case {
      insn = "dma_transpose", name = t, engine = "sync", targets = g3, hbm = {a = true}, inputs = {a = pack(b)},
      outputs = {o = {t, {10, 6}}}, extra = "s sem", body = " dma_transpose o, in_a, queue=q_ $s\n nop $s>=16",
      expect = {o = pack((turn(b, {6, 10})))},
    }
  end
end

-- Rows index[0], index[1], ... of a tensor, the index vector taken column by column, then turned.
local function gathered(suite)
  local R = 40
  local function by_index(name, t, inner, P, C, rows, oob)
    local index, row = {}, size(inner)
    for p = 0, P - 1 do
      for c = 0, C - 1 do
        local n = c * P + p -- its place in the order
        index[p * C + c + 1] = oob == "skip" and n % 5 == 2 and R + n or (n * 11) % R
      end
    end
    local table_, old = bits(R * row, 2, 3), bits(rows * row, 2, 8)
    local taken, kept, shape = {}, {}, {rows, table.unpack(inner)}
    for n = 0, rows - 1 do
      local r = index[n % P * C + n // P + 1]
      for i = 1, row do
        taken[n * row + i] = r < R and table_[r * row + i] or 0
        kept[n * row + i] = r >= R
      end
    end
    local want, to = turn(taken, shape)
    local skipped = turn(kept, shape)
    for i = 1, #want do if skipped[i] then want[i] = old[i] end end
    local pattern, step = {}, row
    pattern[1] = string.format("[%d, %d]", row, rows)
    for _, s in ipairs(inner) do
      step = step // s
      pattern[#pattern + 1] = string.format("[%d, %d]", step, s)
    end
    suite:case {
      insn = "dma_transpose", name = name .. " of " .. t .. ", oob=" .. oob, engine = "gpsimd", targets = g3, hbm = {a = true},
      inputs = {a = ref.from_bits(table_, t, {R, table.unpack(inner)}), i = ref.from_bits(index, "uint32", {P, C}),
        o = ref.from_bits(old, t, to)},
      outputs = {o = {t, to}}, extra = "s sem\nw queue dge=swdge",
      body = string.format(" dma_transpose o, in_a.ap([%s]).gather(i), queue=w, oob=%s $s\n nop $s>=16",
        table.concat(pattern, ", "), oob),
      expect = {o = ref.from_bits(want, t, to)},
    }
  end
  for _, t in ipairs {"bfloat16", "float16", "uint16", "int16"} do
    for _, oob in ipairs {"error", "skip"} do
      by_index("16 rows", t, {24}, 16, 1, 16, oob)
      by_index("48 of 128 rows", t, {128}, 128, 1, 48, oob)
      by_index("144 rows, two columns", t, {24}, 128, 2, 144, oob)
      by_index("32 rows of 3 x 8", t, {3, 8}, 32, 1, 32, oob)
      by_index("16 rows of 1 x 5 x 4", t, {1, 5, 4}, 16, 1, 16, oob)
      by_index("16 rows of 5 x 1 x 4", t, {5, 1, 4}, 16, 1, 16, oob)
    end
  end
end

return function(suite)
  direct(suite)
  gathered(suite)
end
