-- The generators: XORWOW where the machine says so, from a state that the case sets; dropout; rand2.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local u32 = 0xffffffff

-- XORWOW (Marsaglia): words x y z w v and the counter d; changes the list.
local function xorwow(s)
  local t = s[1] ~ (s[1] >> 2)
  s[1], s[2], s[3], s[4] = s[2], s[3], s[4], s[5]
  s[5] = (s[5] ~ (s[5] << 4) ~ (t ~ (t << 1))) & u32
  s[6] = (s[6] + 362437) & u32
  return (s[5] + s[6]) & u32
end

local P, N = 3, 10
local shape = {P, N}
local function state(words)
  local t = {}
  for i = 1, P * words do t[i] = (i * 0x9E3779B1 ~ (i << 13)) & u32 end
  return t
end

-- N numbers a partition; element i comes from state i mod (words / 6). Also the states afterwards.
local function draw(words, list)
  local out, after, ways = {}, {}, words // 6
  for p = 0, P - 1 do
    local states = {}
    for k = 0, ways - 1 do states[k] = {table.unpack(list, p * words + k * 6 + 1, p * words + k * 6 + 6)} end
    for i = 0, N - 1 do out[p * N + i + 1] = xorwow(states[i % ways]) end
    for k = 0, ways - 1 do table.move(states[k], 1, 6, p * words + k * 6 + 1, after) end
  end
  return out, after
end

local engines = {{"gpsimd", 6, util.since(3)}, {"vector", 24, util.since(4)}}
local ints = {"uint32", "int32", "uint16", "int16", "uint8", "int8"}

return function(suite)
  for _, e in ipairs(engines) do
    local engine, words, targets = table.unpack(e)
    local st = state(words)
    local numbers, after = draw(words, st)
    local s = ref.from_bits(st, "uint32", {P, words})
    for _, insn in ipairs {"rand_set_state", "rand_get_state", "rng"} do
      suite:case {
        insn = insn, name = "numbers and the state behind them on " .. engine, engine = engine, targets = targets,
        inputs = {s = s}, outputs = {o = {"uint32", shape}, g = {"uint32", {P, words}}},
        body = " rand_set_state s\n rng o\n rand_get_state g",
        expect = {o = ref.from_bits(numbers, "uint32", shape), g = ref.from_bits(after, "uint32", {P, words})},
      }
    end
    for _, t in ipairs(ints) do
      local mask = (1 << 8 * ref.ints[t][1]) - 1
      suite:case {
        insn = "rng", name = t .. " takes the low bits, on " .. engine, engine = engine, targets = targets,
        inputs = {s = s}, outputs = {o = {t, shape}}, body = " rand_set_state s\n rng o",
        expect = {o = ref.from_bits(util.map(function(v) return v & mask end, numbers), t, shape)},
      }
    end
    suite:case {
      insn = "rand_set_state", name = "refused: five words, " .. engine, engine = engine, targets = targets,
      inputs = {s = ref.from_bits({1, 2, 3, 4, 5}, "uint32", {1, 5})}, body = " rand_set_state s", refuse = "5",
    }
  end
  -- before gen4 a documented generator stands in; the same seed gives the same numbers
  for _, t in ipairs {"uint32", "int32", "float32", "tfloat32"} do
    suite:case {
      insn = "set_rng_seed", name = t .. ": the same seed twice", engine = "vector",
      inputs = {s = ref.from_bits({0x3f800000}, t, {1, 1})}, outputs = {o = {"uint32", {2, 8}}},
      tiles = {a = {"uint32", {2, 8}}},
      body = " set_rng_seed s\n rng a\n set_rng_seed s\n rng o\n tensor_tensor o, o, a, op=bitwise_xor",
      expect = {o = soma.zeros({2, 8}, "uint32")},
    }
  end
  suite:case {
    insn = "rng", name = "refused: a float destination", engine = "vector", outputs = {o = {"float32", {2, 8}}},
    body = " rng o", refuse = "float32",
  }
  -- rand2: min + (max - min) * (24 bits * 2^-24), each step rounded
  local st = state(24)
  local numbers = draw(24, st)
  local s = ref.from_bits(st, "uint32", {P, 24})
  for _, t in ipairs {"float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "tfloat32", "uint8", "int8", "uint16",
    "int16", "uint32", "int32"} do
    suite:case {
      insn = "rand2", name = t, engine = "vector", targets = util.since(4), inputs = {s = s}, outputs = {o = {t, shape}},
      body = " rand_set_state s\n rand2 o, min=-3.0, max=7.5",
      expect = {o = ref.tensor(util.map(function(v)
        return ref.round(-3.0 + ref.round(10.5 * ((v >> 8) * 2.0 ^ -24)))
      end, numbers), t, shape)},
    }
  end
  suite:case {
    insn = "rand2", name = "refused: an empty range", engine = "vector", targets = util.since(4),
    outputs = {o = {"float32", shape}}, body = " rand2 o, min=1.0, max=1.0", refuse = "max",
  }
  -- dropout: a kept element keeps its bits, a dropped one is 0, NaN too; nothing is rescaled
  for _, t in ipairs(ref.types) do
    for _, mode in ipairs {"drop_rate", "keep_rate"} do
      local a = ref.tensor(ref.values(P * N, 8), t, shape)
      local bits, want = ref.bits(a), {}
      for i = 1, P * N do
        local below = (numbers[i] >> 8) * 2.0 ^ -24 < 0.5
        want[i] = (below == (mode == "keep_rate")) and bits[i] or 0
      end
      suite:case {
        insn = "dropout", name = t .. " " .. mode, engine = "vector", targets = util.since(4), inputs = {a = a, s = s},
        outputs = {o = {t, shape}}, body = " rand_set_state s\n dropout o, a, prob=0.5, threshold=" .. mode,
        expect = {o = ref.from_bits(want, t, shape)},
      }
    end
  end
  for _, rate in ipairs {0, 1} do
    local x = ref.tame(P * N, 2)
    suite:case {
      insn = "dropout", name = "rate " .. rate, engine = "vector", inputs = {a = ref.tensor(x, "float32", shape)},
      outputs = {o = {"float32", shape}}, body = string.format(" dropout o, a, prob=%d.0", rate),
      expect = {o = rate == 0 and ref.tensor(x, "float32", shape) or soma.zeros(shape, "float32")},
    }
  end
end
