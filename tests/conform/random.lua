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

-- Words of a lane after set_rng_seed: the finaliser of MurmurHash3, 1 in place of 0.
local function seeded(seed, lane)
  local words = {}
  for i = 1, 24 do
    local x = (seed + 0x9e3779b9 * (24 * lane + i)) & u32
    x = (x ~ (x >> 16)) * 0x85ebca6b & u32
    x = (x ~ (x >> 13)) * 0xc2b2ae35 & u32
    x = x ~ (x >> 16)
    words[i] = x ~= 0 and x or 1
  end
  return words
end

-- Numbers of vector after a seed: before gen4 a shift register of 32 bits in the first word.
local function vector_numbers(seed, lanes, n, gen)
  local out = {}
  for lane = 0, lanes - 1 do
    local s, states = seeded(seed, lane), {}
    for k = 0, 3 do states[k] = {table.unpack(s, k * 6 + 1, k * 6 + 6)} end
    local r = s[1]
    for i = 0, n - 1 do
      if gen < 4 then
        r = (r ~ (r << 13)) & u32
        r = r ~ (r >> 17)
        r = (r ~ (r << 5)) & u32
      end
      out[lane * n + i + 1] = gen < 4 and r or xorwow(states[i % 4])
    end
  end
  return out
end
local generation = {}
for _, t in ipairs(soma.isa.targets) do generation[t.name] = t.gen end

local function seeds(suite)
  local s3 = {5, 13}
  for _, insn in ipairs {"set_rng_seed", "rng"} do
    for _, seed in ipairs {0, 1, 0xdeadbeef, u32} do
      suite:case {
        insn = insn, name = "numbers of seed " .. seed, engine = "vector",
        inputs = {s = ref.from_bits({seed}, "uint32", {1, 1})}, outputs = {o = {"uint32", s3}, q = {"uint32", {5, 3}}},
        body = " set_rng_seed s\n rng o\n set_rng_seed s\n rng q[:, 0:1]\n rng q[:, 1:2]\n rng q[:, 2:3]",
        expect = function(target)
          local gen = generation[target]
          local list, short = vector_numbers(seed, 5, 13, gen), {}
          for p = 0, 4 do -- an instruction starts at the first state again
            for i = 0, 2 do
              short[p * 3 + i + 1] = list[p * 13 + 1 + (gen < 4 and i or 4 * i)]
            end
          end
          return {o = ref.from_bits(list, "uint32", s3), q = ref.from_bits(short, "uint32", {5, 3})}
        end,
      }
    end
  end
  suite:case {
    insn = "rng", name = "an unseeded run is one of seed 0", engine = "vector", outputs = {o = {"uint32", s3}}, body = " rng o",
    expect = function(target) return {o = ref.from_bits(vector_numbers(0, 5, 13, generation[target]), "uint32", s3)} end,
  }
  for _, t in ipairs {"uint16", "int8"} do
    suite:case {
      insn = "rng", name = t .. " takes the low bits of a seeded number", engine = "vector",
      inputs = {s = ref.from_bits({9}, "uint32", {1, 1})}, outputs = {o = {t, s3}}, body = " set_rng_seed s\n rng o",
      expect = function(target)
        local mask = (1 << 8 * ref.bytes(t)) - 1
        return {o = ref.from_bits(util.map(function(v) return v & mask end, vector_numbers(9, 5, 13, generation[target])), t, s3)}
      end,
    }
  end
  local x = ref.tame(65, 3)
  suite:case {
    insn = "dropout", name = "by seeded numbers, a column of rates", engine = "vector",
    inputs = {s = ref.from_bits({7}, "uint32", {1, 1}), a = ref.tensor(x, "float32", s3),
      r = ref.tensor({0.0, 0.25, 0.5, 0.75, 1.0}, "float32", {5, 1})},
    outputs = {o = {"float32", s3}}, body = " set_rng_seed s\n dropout o, a, prob=r",
    expect = function(target)
      local list, want = vector_numbers(7, 5, 13, generation[target]), {}
      for i = 1, 65 do want[i] = (list[i] >> 8) * 2.0 ^ -24 < (i - 1) // 13 * 0.25 and 0.0 or x[i] end
      return {o = ref.tensor(want, "float32", s3)}
    end,
  }
end

local engines = {{"gpsimd", 6, util.since(3)}, {"vector", 24, util.since(4)}}
local ints = {"uint32", "int32", "uint16", "int16", "uint8", "int8"}

return function(suite)
  seeds(suite)
  for _, e in ipairs(engines) do
    local engine, words, targets = table.unpack(e)
    local st = state(words)
    local numbers, after = draw(words, st)
    local s = ref.from_bits(st, "uint32", {P, words})
    for _, insn in ipairs {"rand_set_state", "rand_get_state", "rng"} do
      suite:case {
        insn = insn, name = "numbers and the state after them on " .. engine, engine = engine, targets = targets,
        inputs = {s = s}, outputs = {o = {"uint32", shape}, g = {"uint32", {P, words}}},
        body = " rand_set_state s\n rng o\n rand_get_state g",
        expect = {o = ref.from_bits(numbers, "uint32", shape), g = ref.from_bits(after, "uint32", {P, words})},
      }
    end
    suite:case { -- lanes count from each operand's first partition
      insn = "rng", name = "states of other partitions on " .. engine, engine = engine, targets = targets,
      inputs = {s = s}, outputs = {o = {"uint32", shape}, g = {"uint32", {P, words}}}, part = {s = 32, o = 64, g = 96},
      body = " rand_set_state s\n rng o\n rand_get_state g",
      expect = {o = ref.from_bits(numbers, "uint32", shape), g = ref.from_bits(after, "uint32", {P, words})},
    }
    -- a state goes in and out unchanged; two instructions are one longer one
    local half = {}
    for p = 0, P - 1 do for i = 1, 5 do half[p * 5 + i] = numbers[p * N + i] end end
    for _, insn in ipairs {"rand_set_state", "rand_get_state"} do
      suite:case {
        insn = insn, name = "in and out on " .. engine, engine = engine, targets = targets, inputs = {s = s},
        outputs = {g = {"uint32", {P, words}}}, body = " rand_set_state s\n rand_get_state g", expect = {g = s},
      }
      suite:case {
        insn = insn, name = "half as many numbers on " .. engine, engine = engine, targets = targets, inputs = {s = s},
        outputs = {o = {"uint32", {P, 5}}}, tiles = {g = {"uint32", {P, words}}},
        body = " rand_set_state s\n rng o\n rand_get_state g\n rand_set_state s\n rng o",
        expect = {o = ref.from_bits(half, "uint32", {P, 5})},
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
