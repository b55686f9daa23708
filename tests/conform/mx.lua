-- quantize_mx, ldweights_mx, matmul_mx: data of four lanes an element, one scale for each 8
-- partitions x 4 lanes.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local g4 = util.since(4)
local lane = {
  float8_e5m2_x4 = {"float8_e5m2", 8, 15, 57344}, float8_e4m3fn_x4 = {"float8_e4m3fn", 8, 8, 448},
}
local fp4 = {[0] = 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}
local function decode_lane(t, u)
  if t == "float4_e2m1fn_x4" then return (u & 8 ~= 0 and -1 or 1) * fp4[u & 7] end
  return ref.decode(lane[t][1], u)
end
local function pack(t, codes) -- codes: four a packed element, lane 0 in the low bits
  local bits, s = t == "float4_e2m1fn_x4" and 4 or 8, {}
  for i = 1, #codes, 4 do
    local u = 0
    for l = 0, 3 do u = u | codes[i + l] << bits * l end
    s[#s + 1] = string.pack("<I" .. bits // 2, u)
  end
  return table.concat(s)
end

local K, M, N = 32, 4, 6

-- Scales of 32 partitions lie in 4 of them: row r (eight partitions) at partition r; n rows here.
local function scales(cols, seed, n)
  local codes = {}
  for r = 0, (n or 4) - 1 do for c = 0, cols - 1 do codes[r * cols + c + 1] = 126 + (r * 3 + c * 5 + seed) % 4 end end
  return codes
end
local function operand(t, cols, seed, parts)
  local codes = {}
  for i = 1, (parts or K) * cols * 4 do
    codes[i] = t == "float4_e2m1fn_x4" and (i * 7 + seed) % 16 or ref.encode(lane[t][1], ((i * 5 + seed) % 17 - 8) / 4)
  end
  return codes
end
-- The same rows in the layout of up to 128 partitions: row r at partition r // 4 * 32 + r % 4. What
-- is between is not read, nor written.
local function quadrants(codes, cols, between)
  local out, n = {}, #codes // cols
  for i = 1, (n // 4 * 32 - 28) * cols do out[i] = between end
  for r = 0, n - 1 do
    for c = 1, cols do out[(r // 4 * 32 + r % 4) * cols + c] = codes[r * cols + c] end
  end
  return out
end
-- fp32 values [k][lane][col] of an operand with its scales.
local function values(t, codes, sc, cols, parts)
  local v = {}
  for k = 0, (parts or K) - 1 do
    for c = 0, cols - 1 do
      for l = 0, 3 do
        local s = sc[k // 8 * cols + c + 1]
        v[(k * 4 + l) * cols + c + 1] = s == 255 and ref.nan
          or ref.round(decode_lane(t, codes[(k * cols + c) * 4 + l + 1]) * 2.0 ^ (s - 127))
      end
    end
  end
  return v
end

local function products(suite)
  local types = {"float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"}
  for i, t in ipairs(types) do
    local u = types[i % 3 + 1]
    local cw, cx, sw, sx = operand(t, M, 1), operand(u, N, 2), scales(M, 0), scales(N, 1)
    for _, nan in ipairs {false, true} do
      if nan then sx[2] = 255 end
      local w, x, want = values(t, cw, sw, M), values(u, cx, sx, N), {}
      for m = 1, M do
        for n = 1, N do
          local s = 0.0
          for k = 0, 4 * K - 1 do s = ref.round(s + w[k * M + m] * x[k * N + n]) end
          want[(m - 1) * N + n] = s
        end
      end
      for _, insn in ipairs {"ldweights_mx", "matmul_mx"} do
        for _, st in ipairs {"float8_e8m0fnu", "uint8"} do
          for _, out in ipairs {"float32", "bfloat16"} do
            suite:case {
              insn = insn, name = string.format("%s by %s, scales as %s, into %s%s", t, u, st, out, nan and ", one NaN" or ""),
              engine = "tensor", targets = g4, psum = {o = true},
              inputs = {
                w = soma.frombytes(pack(t, cw), t, {K, M}), x = soma.frombytes(pack(u, cx), u, {K, N}),
                sw = ref.from_bits(sw, st == "uint8" and "uint8" or st, {4, M}),
                sx = ref.from_bits(sx, st == "uint8" and "uint8" or st, {4, N}),
              },
              outputs = {o = {out, {M, N}}}, body = " ldweights_mx w, sw\n matmul_mx o, x, sx",
              expect = {o = ref.tensor(want, out, {M, N})},
            }
          end
        end
      end
      for mode, f in pairs {["write"] = function(v) return v end, ["add"] = function(v) return ref.round(v + v) end} do
        suite:case {
          insn = "matmul_mx", name = t .. " acc=" .. mode .. (nan and ", one NaN" or ""), engine = "tensor", targets = g4,
          psum = {o = true}, inputs = {
            w = soma.frombytes(pack(t, cw), t, {K, M}), x = soma.frombytes(pack(u, cx), u, {K, N}),
            sw = ref.from_bits(sw, "uint8", {4, M}), sx = ref.from_bits(sx, "uint8", {4, N}),
          },
          outputs = {o = {"float32", {M, N}}},
          body = " ldweights_mx w, sw\n matmul_mx o, x, sx, acc=write\n matmul_mx o, x, sx, acc=" .. mode,
          expect = {o = ref.tensor(util.map(f, want), "float32", {M, N})},
        }
      end
    end
  end
end

-- More partitions than a quadrant, and tiles of rows.
local function layouts(suite)
  local t, u = "float8_e4m3fn_x4", "float4_e2m1fn_x4"
  for _, way in ipairs {{128, ""}, {64, ""}, {96, ""}, {64, ", tile_row=64, tile_rows=64"}, {32, ", tile_row=96, tile_rows=32"}} do
    local parts, tile = way[1], way[2]
    local rows = parts // 8
    local cw, cx = operand(t, M, 5, parts), operand(u, N, 6, parts)
    local sw, sx = scales(M, 2, rows), scales(N, 3, rows)
    local w, x, want = values(t, cw, sw, M, parts), values(u, cx, sx, N, parts), {}
    for m = 1, M do
      for n = 1, N do
        local s = 0.0
        for k = 0, 4 * parts - 1 do s = ref.round(s + w[k * M + m] * x[k * N + n]) end
        want[(m - 1) * N + n] = s
      end
    end
    for _, insn in ipairs {"ldweights_mx", "matmul_mx"} do
      suite:case {
        insn = insn, name = parts .. " partitions" .. tile, engine = "tensor", targets = g4, psum = {o = true},
        inputs = {
          w = soma.frombytes(pack(t, cw), t, {parts, M}), x = soma.frombytes(pack(u, cx), u, {parts, N}),
          sw = ref.from_bits(quadrants(sw, M, 255), "uint8", {parts - 28, M}),
          sx = ref.from_bits(quadrants(sx, N, 255), "uint8", {parts - 28, N}),
        },
        outputs = {o = {"float32", {M, N}}}, body = string.format(" ldweights_mx w, sw%s\n matmul_mx o, x, sx%s", tile, tile),
        expect = {o = ref.tensor(want, "float32", {M, N})},
      }
    end
  end
end

-- scale 2^(floor(log2 amax) - (Emax - 1)) of each 8 partitions x 4 elements; a zero group: code 0
local function quantize(suite, K)
  local F = 3
  for t, info in pairs(lane) do
    for _, from in ipairs {"bfloat16", "float16"} do
      local x = ref.tame(K * 4 * F, 9)
      for k = 8, 15 do for l = 1, 4 do x[k * 4 * F + l] = 0.0 end end
      local a = ref.tensor(x, from, {K, 4 * F})
      local v, codes, sc = ref.list(a), {}, {}
      for r = 0, K // 8 - 1 do
        for c = 0, F - 1 do
          local top = 0.0
          for k = 8 * r, 8 * r + 7 do for l = 1, 4 do top = math.max(top, math.abs(v[(k * F + c) * 4 + l])) end end
          local e = 0
          if top > 0 then
            while 2.0 ^ (e + 1) <= top do e = e + 1 end
            while 2.0 ^ e > top do e = e - 1 end
          end
          local code = top == 0 and 0 or math.max(0, e - (info[3] - 1) + 127)
          sc[r * F + c + 1] = code
          for k = 8 * r, 8 * r + 7 do
            for l = 1, 4 do
              local q = v[(k * F + c) * 4 + l] / 2.0 ^ (code - 127)
              q = math.max(-info[4], math.min(info[4], q))
              codes[(k * F + c) * 4 + l] = ref.encode(info[1], top == 0 and 0.0 or q)
            end
          end
        end
      end
      for _, st in ipairs {"uint8", "float8_e8m0fnu"} do
        suite:case {
          insn = "quantize_mx", name = string.format("%s to %s, scales as %s, %d partitions", from, t, st, K), engine = "vector", targets = g4,
          inputs = {a = a, s = ref.from_bits(util.map(function() return 7 end, quadrants(sc, F, 7)), st, {K - 28, F})},
          outputs = {o = {t, {K, F}}, s = {st, {K - 28, F}}}, body = " quantize_mx o, s, a",
          expect = {o = soma.frombytes(pack(t, codes), t, {K, F}), s = ref.from_bits(quadrants(sc, F, 7), st, {K - 28, F})},
        }
      end
    end
  end
  suite:case {
    insn = "quantize_mx", name = "refused: fp32", engine = "vector", targets = g4, inputs = {a = soma.ones({32, 4}, "float32")},
    outputs = {o = {"float8_e4m3fn_x4", {32, 1}}, s = {"uint8", {4, 1}}}, body = " quantize_mx o, s, a", refuse = "float32",
  }
end

-- Corners: scales at both ends and NaN, products beyond fp32's range and below its normal numbers,
-- groups of zeros, of a NaN, of an infinity, of numbers below what a scale can have.
local function corners(suite)
  local ends = {0, 1, 253, 254, 255, 127}
  for t, code in pairs {float8_e4m3fn_x4 = {0x01, 0x7e}, float8_e5m2_x4 = {0x01, 0x7b}, float4_e2m1fn_x4 = {1, 7}} do
    for i, which in ipairs {"least", "greatest"} do
      local cw, cx, sw, sx = {}, {}, {}, {}
      for k = 1, K * M * 4 do cw[k] = k == 1 and (t == "float4_e2m1fn_x4" and 2 or ref.encode(lane[t][1], 1.0)) or 0 end
      for k = 1, K * N * 4 do cx[k] = k <= N * 4 and k % 4 == 1 and code[i] or 0 end
      for k = 1, 4 * M do sw[k] = 127 end
      for k = 1, 4 * N do sx[k] = k <= N and ends[k] or 127 end
      local w, x, want = values(t, cw, sw, M), values(t, cx, sx, N), {}
      for m = 1, M do
        for n = 1, N do
          local s = 0.0
          for k = 0, 4 * K - 1 do s = ref.round(s + w[k * M + m] * x[k * N + n]) end
          want[(m - 1) * N + n] = s
        end
      end
      suite:case {
        insn = "matmul_mx", name = "scales at their ends, the " .. which .. " " .. t, engine = "tensor", targets = g4, psum = {o = true},
        inputs = {
          w = soma.frombytes(pack(t, cw), t, {K, M}), x = soma.frombytes(pack(t, cx), t, {K, N}),
          sw = ref.from_bits(sw, "uint8", {4, M}), sx = ref.from_bits(sx, "float8_e8m0fnu", {4, N}),
        },
        outputs = {o = {"float32", {M, N}}}, body = " ldweights_mx w, sw\n matmul_mx o, x, sx",
        expect = {o = ref.tensor(want, "float32", {M, N})},
      }
    end
  end
  -- bfloat16 bits of each group's first four elements (the rest are 1.0 or, in the last, 0), its scale,
  -- and the elements' codes; rest: the codes of the others.
  local groups = {
    {{0x0000, 0x8000, 0x0000, 0x0000}, 0x0000, 0, {0x00, 0x80, 0x00, 0x00}, 0x00},
    {{0x7fc0, 0x3f80, 0xbf80, 0x0000}, 0x3f80, 255, {0x7f, 0x7f, 0x7f, 0x7f}, 0x7f},
    {{0xff80, 0x3f80, 0xbf80, 0x0000}, 0x3f80, 255, {0x7f, 0x7f, 0x7f, 0x7f}, 0x7f},
    {{0x0080, 0x0001, 0x8001, 0x0000}, 0x0000, 0, {0x40, 0x08, 0x88, 0x00}, 0x00},
  }
  local bits, codes, sc = {}, {}, {}
  for g, row in ipairs(groups) do
    for i = 1, 32 do
      bits[#bits + 1] = row[1][i] or row[2]
      codes[#codes + 1] = row[4][i] or row[5]
    end
    sc[g] = row[3]
  end
  local t = "float8_e4m3fn_x4"
  suite:case {
    insn = "quantize_mx", name = "groups of zeros, a NaN, an infinity, subnormal numbers", engine = "vector", targets = g4,
    inputs = {a = ref.from_bits(bits, "bfloat16", {K, 4}), s = ref.from_bits({7, 7, 7, 7}, "uint8", {4, 1})},
    outputs = {o = {t, {K, 1}}, s = {"uint8", {4, 1}}}, body = " quantize_mx o, s, a",
    expect = {o = soma.frombytes(pack(t, codes), t, {K, 1}), s = ref.from_bits(sc, "uint8", {4, 1})},
  }
end

return function(suite)
  products(suite)
  corners(suite)
  layouts(suite)
  for _, parts in ipairs {32, 64, 128} do quantize(suite, parts) end
end
