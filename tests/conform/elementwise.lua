-- tensor_copy, tensor_tensor, tensor_scalar, memset, reciprocal.
local soma = require "soma"
local ref = require "conform.ref"

local P, F = 4, 24
local N = P * F
local shape = {P, F}

local function map(f, ...)
  local lists, out = {...}, {}
  for i = 1, #lists[1] do
    local args = {}
    for k = 1, #lists do args[k] = lists[k][i] end
    out[i] = f(table.unpack(args))
  end
  return out
end

local arith, bitvec = {}, {}
for _, o in ipairs(soma.isa.aluops) do
  if o.in_hardware then
    if o.class == "bit" then bitvec[#bitvec + 1] = o
    elseif o.class == "arith" then arith[#arith + 1] = o end
  end
end
local function on(o, engine)
  for _, e in ipairs(o.engines) do if e == engine then return true end end
end
local function targets_of(gen)
  local list = {}
  for _, t in ipairs(soma.isa.targets) do if t.gen >= gen then list[#list + 1] = t.name end end
  return list
end

local function tensor_tensor(suite)
  for _, o in ipairs(arith) do -- every operator on adversarial pairs
    if on(o, "vector") and o.arity == 2 then
      local x, y = ref.values(N, 3), ref.shuffled(N, 7)
      suite:case {
        insn = "tensor_tensor", name = o.name, engine = "vector", targets = targets_of(o.gen),
        inputs = {a = ref.tensor(x, "float32", shape), b = ref.tensor(y, "float32", shape)},
        outputs = {o = {"float32", shape}}, body = " tensor_tensor o, a, b, op=" .. o.name,
        expect = {o = ref.tensor(map(ref.ops[o.name], x, y), "float32", shape)},
      }
    end
  end
  for k, t in ipairs(ref.types) do -- every type in, another out
    local u = ref.types[k % #ref.types + 1]
    local a, b = ref.tensor(ref.values(N, k), t, shape), ref.tensor(ref.shuffled(N, k + 1), u, shape)
    suite:case {
      insn = "tensor_tensor", name = t .. " + " .. u, engine = "vector",
      inputs = {a = a, b = b}, outputs = {o = {t, shape}}, body = " tensor_tensor o, a, b, op=add",
      expect = {o = ref.tensor(map(ref.ops.add, ref.list(a), ref.list(b)), t, shape)},
    }
  end
  for k, t in ipairs {"uint8", "int8", "uint16", "int16", "uint32", "int32"} do
    local w, signed = 8 * ref.ints[t][1], ref.ints[t][2]
    local x, y = {}, {}
    for i = 1, N do
      x[i] = (i * 0x9E3779B1 ~ i << 7) & ((1 << w) - 1)
      y[i] = i % 3 == 0 and i % (w + 3) or (i * 0x85EBCA6B) & ((1 << w) - 1)
    end
    for _, o in ipairs(bitvec) do
      if o.arity == 2 then
        suite:case {
          insn = "tensor_tensor", name = t .. " " .. o.name, engine = "vector",
          inputs = {a = ref.from_bits(x, t, shape), b = ref.from_bits(y, t, shape)},
          outputs = {o = {t, shape}}, body = " tensor_tensor o, a, b, op=" .. o.name,
          expect = {o = ref.from_bits(map(function(p, q) return ref.bit_op(o.name, p, q, w, signed) end, x, y), t, shape)},
        }
      end
    end
    if w == 32 then -- gpsimd: native, wrapping; vector: through fp32, so large values lose bits
      local function wrap(v) return v & 0xffffffff end
      for op, f in pairs {add = function(p, q) return wrap(p + q) end, subtract = function(p, q) return wrap(p - q) end,
        mult = function(p, q) return wrap(p * q) end} do
        suite:case {
          insn = "tensor_tensor", name = "gpsimd " .. t .. " " .. op, engine = "gpsimd",
          inputs = {a = ref.from_bits(x, t, shape), b = ref.from_bits(y, t, shape)},
          outputs = {o = {t, shape}}, body = " tensor_tensor o, a, b, op=" .. op,
          expect = {o = ref.from_bits(map(f, x, y), t, shape)},
        }
      end
    end
  end
  do -- pow: C's special cases; the rest within a unit in the last place
    local base = {0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.7, -3.7, math.huge, -math.huge, ref.nan, 0x1p-149,
      0x1.fffffep127, 0x1.000002p0, -0x1p-126}
    local power = {0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1e30, -1e30, math.huge, -math.huge, ref.nan,
      16777216.0, 16777215.0, 127.0, 2.5, 0.1}
    local p, q = {}, {}
    for _, v in ipairs(base) do
      for _, w in ipairs(power) do p[#p + 1], q[#q + 1] = ref.round(v), ref.round(w) end
    end
    local s = {#base, #power}
    suite:case {
      insn = "tensor_tensor", name = "pow, special cases", engine = "gpsimd", ulp = 1,
      inputs = {a = ref.tensor(p, "float32", s), b = ref.tensor(q, "float32", s)}, outputs = {o = {"float32", s}},
      body = " tensor_tensor o, a, b, op=pow",
      expect = {o = ref.tensor(map(function(v, w) return ref.round(v ^ w) end, p, q), "float32", s)},
    }
    local c, d = map(math.abs, ref.tame(N, 5)), ref.tame(N, 6)
    for k, t in ipairs {"float32", "bfloat16", "float16"} do
      local a, b = ref.tensor(c, t, shape), ref.tensor(d, "float32", shape)
      suite:case {
        insn = "tensor_tensor", name = "pow of " .. t, engine = "gpsimd", ulp = 1, inputs = {a = a, b = b},
        outputs = {o = {"float32", shape}}, body = " tensor_tensor o, a, b, op=pow",
        expect = {o = ref.tensor(map(function(v, w) return ref.round(v ^ w) end, ref.list(a), ref.list(b)), "float32", shape)},
      }
    end
    -- native integers: wrapping; 1 / a^-b truncated for a negative power
    local i, j, want, unsigned = {}, {}, {}, {}
    for n = 1, N do
      i[n], j[n] = (n % 13 - 6) & 0xffffffff, (n % 9 - 3) & 0xffffffff
      local v, e, r = n % 13 - 6, n % 9 - 3, 1
      for _ = 1, math.abs(e) do r = r * v end
      if e < 0 then r = (r == 1 or r == -1) and r or 0 end
      want[n] = r & 0xffffffff
      local u = 1
      for bit = 31, 0, -1 do
        u = u * u & 0xffffffff
        if j[n] >> bit & 1 == 1 then u = u * i[n] & 0xffffffff end
      end
      unsigned[n] = u
    end
    for t, list in pairs {int32 = want, uint32 = unsigned} do
      suite:case {
        insn = "tensor_tensor", name = "pow of " .. t, engine = "gpsimd",
        inputs = {a = ref.from_bits(i, t, shape), b = ref.from_bits(j, t, shape)}, outputs = {o = {t, shape}},
        body = " tensor_tensor o, a, b, op=pow", expect = {o = ref.from_bits(list, t, shape)},
      }
    end
  end
  for _, o in ipairs(arith) do -- gpsimd's floats are the same
    if on(o, "gpsimd") and o.arity == 2 and ref.ops[o.name] then
      local x, y = ref.values(N, 3), ref.shuffled(N, 7)
      suite:case {
        insn = "tensor_tensor", name = o.name .. " on gpsimd", engine = "gpsimd", targets = targets_of(o.gen),
        inputs = {a = ref.tensor(x, "float32", shape), b = ref.tensor(y, "float32", shape)},
        outputs = {o = {"float32", shape}}, body = " tensor_tensor o, a, b, op=" .. o.name,
        expect = {o = ref.tensor(map(ref.ops[o.name], x, y), "float32", shape)},
      }
    end
  end
  local x, y = ref.tame(3, 1), ref.tame(3 * 5, 2)
  local sums = {}
  for p = 0, 2 do for i = 1, 5 do sums[p * 5 + i] = ref.round(x[p + 1] + y[p * 5 + i]) end end
  suite:case {
    insn = "tensor_tensor", name = "a column broadcast, from PSUM", engine = "vector", psum = {a = true},
    inputs = {a = ref.tensor(x, "float32", {3, 1}), b = ref.tensor(y, "float32", {3, 5})},
    outputs = {o = {"float32", {3, 5}}}, body = " tensor_tensor o, a.broadcast(1, 5), b, op=add",
    expect = {o = ref.tensor(sums, "float32", {3, 5})},
  }
  local full = ref.values(128 * 33, 5)
  suite:case {
    insn = "tensor_tensor", name = "128 partitions, odd count, in place", engine = "vector",
    inputs = {a = ref.tensor(full, "float32", {128, 33})}, outputs = {a = {"float32", {128, 33}}},
    body = " tensor_tensor a, a, a, op=mult",
    expect = {a = ref.tensor(map(function(v) return ref.round(v * v) end, full), "float32", {128, 33})},
  }
  for name, body in pairs {
    ["both in PSUM"] = " tensor_tensor o, a, b, op=add",
  } do
    suite:case {
      insn = "tensor_tensor", name = "refused: " .. name, engine = "vector", psum = {a = true, b = true},
      inputs = {a = soma.ones({4, 4}, "float32"), b = soma.ones({4, 4}, "float32")},
      outputs = {o = {"float32", {4, 4}}}, body = body, refuse = "src0 and src1 are both in psum",
    }
  end
  suite:case {
    insn = "tensor_tensor", name = "refused: bit patterns of floats", engine = "vector",
    inputs = {a = soma.ones({4, 4}, "float32"), b = soma.ones({4, 4}, "float32")},
    outputs = {o = {"float32", {4, 4}}}, body = " tensor_tensor o, a, b, op=bitwise_and", refuse = "integer",
  }
  suite:case {
    insn = "tensor_tensor", name = "refused: unequal counts", engine = "vector",
    inputs = {a = soma.ones({4, 4}, "float32"), b = soma.ones({4, 5}, "float32")},
    outputs = {o = {"float32", {4, 4}}}, body = " tensor_tensor o, a, b, op=add", refuse = "5",
  }
end

local function tensor_scalar(suite)
  local x, s = ref.values(N, 11), ref.tame(P, 3)
  local column = {}
  for i = 1, N do column[i] = s[(i - 1) // F + 1] end
  for _, o in ipairs(arith) do
    local f = ref.ops[o.name]
    if on(o, "vector") and f and o.name ~= "bypass" then
      suite:case {
        insn = "tensor_scalar", name = o.name .. " by a number, then a column", engine = "vector",
        targets = targets_of(o.gen), inputs = {a = ref.tensor(x, "float32", shape), s = ref.tensor(s, "float32", {P, 1})},
        outputs = {o = {"float32", shape}},
        body = string.format(" tensor_scalar o, a, op0=%s%s, op1=mult, imm1=s", o.name, o.arity == 2 and ", imm0=1.5" or ""),
        expect = {o = ref.tensor(map(function(v, c) return ref.round(f(v, 1.5) * c) end, x, column), "float32", shape)},
      }
      suite:case {
        insn = "tensor_scalar", name = "add, then " .. o.name, engine = "vector",
        targets = targets_of(o.gen), inputs = {a = ref.tensor(x, "float32", shape)},
        outputs = {o = {"float32", shape}},
        body = string.format(" tensor_scalar o, a, op0=add, imm0=0.25, op1=%s%s", o.name, o.arity == 2 and ", imm1=-2.0" or ""),
        expect = {o = ref.tensor(map(function(v) return f(ref.round(v + 0.25), -2.0) end, x), "float32", shape)},
      }
    end
  end
  for _, t in ipairs(ref.types) do -- bypass alone goes through fp32
    local a = ref.tensor(x, t, shape)
    suite:case {
      insn = "tensor_scalar", name = "bypass of " .. t, engine = "vector", inputs = {a = a},
      outputs = {o = {"float32", shape}}, body = " tensor_scalar o, a, op0=bypass",
      expect = {o = ref.tensor(ref.list(a), "float32", shape)},
    }
  end
  suite:case {
    insn = "tensor_scalar", name = "bypass, then add", engine = "vector", inputs = {a = ref.tensor(x, "float32", shape)},
    outputs = {o = {"float32", shape}}, body = " tensor_scalar o, a, op0=bypass, op1=add, imm1=0.25",
    expect = {o = ref.tensor(map(function(v) return ref.round(v + 0.25) end, x), "float32", shape)},
  }
  for k, t in ipairs(ref.types) do
    local u = ref.types[(k + 4) % #ref.types + 1]
    local a = ref.tensor(ref.values(N, k + 20), t, shape)
    suite:case {
      insn = "tensor_scalar", name = t .. " to " .. u .. ", reversed", engine = "vector",
      inputs = {a = a}, outputs = {o = {u, shape}},
      body = " tensor_scalar o, a, op0=subtract, imm0=3.0, reverse0=true, op1=subtract, imm1=0.5, reverse1=true",
      expect = {o = ref.tensor(map(function(v) return ref.round(0.5 - ref.round(3.0 - v)) end, ref.list(a)), u, shape)},
    }
  end
  for _, o in ipairs(bitvec) do
    local w, bits = 16, {}
    for i = 1, N do bits[i] = (i * 0x9E37) & 0xffff end
    for _, second in ipairs {"bitwise_xor", "bypass"} do
      suite:case {
        insn = "tensor_scalar", name = "uint16 " .. o.name .. ", " .. second, engine = "vector",
        inputs = {a = ref.from_bits(bits, "uint16", shape)}, outputs = {o = {"uint16", shape}},
        body = string.format(" tensor_scalar o, a, op0=%s%s%s", o.name, o.arity == 2 and ", imm0=5" or "",
          second ~= "bypass" and ", op1=" .. second .. ", imm1=0x0ff0" or ""),
        expect = {o = ref.from_bits(map(function(v)
          v = ref.bit_op(o.name, v, 5, w, false)
          return second == "bypass" and v or v ~ 0x0ff0
        end, bits), "uint16", shape)},
      }
    end
    suite:case {
      insn = "tensor_scalar", name = "int32 bitwise_or, " .. o.name, engine = "vector",
      inputs = {a = ref.from_bits(bits, "int32", shape)}, outputs = {o = {"int32", shape}},
      body = string.format(" tensor_scalar o, a, op0=bitwise_or, imm0=0x80000000, op1=%s%s", o.name, o.arity == 2 and ", imm1=7" or ""),
      expect = {o = ref.from_bits(map(function(v) return ref.bit_op(o.name, v | 0x80000000, 7, 32, true) end, bits), "int32", shape)},
    }
  end
  local positive = map(math.abs, ref.tame(N, 8))
  suite:case {
    insn = "tensor_scalar", name = "gpsimd rsqrt", engine = "gpsimd", ulp = 1,
    inputs = {a = ref.tensor(positive, "float32", shape)}, outputs = {o = {"float32", shape}},
    body = " tensor_scalar o, a, op0=rsqrt",
    expect = {o = ref.tensor(map(ref.ops.rsqrt, positive), "float32", shape)},
  }
  suite:case {
    insn = "tensor_scalar", name = "scalar engine, mult and add", engine = "scalar", targets = targets_of(3),
    inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"bfloat16", shape}},
    body = " tensor_scalar o, a, op0=mult, imm0=3.0, op1=add, imm1=0.1",
    expect = {o = ref.tensor(map(function(v) return ref.round(ref.round(v * 3) + ref.round(0.1)) end, x), "bfloat16", shape)},
  }
  suite:case {
    insn = "tensor_scalar", name = "refused: a bf16 column", engine = "vector",
    inputs = {a = soma.ones(shape, "float32"), s = soma.ones({P, 1}, "bfloat16")}, outputs = {o = {"float32", shape}},
    body = " tensor_scalar o, a, op0=mult, imm0=s", refuse = "float32",
  }
  suite:case {
    insn = "tensor_scalar", name = "refused: operators of both classes", engine = "vector",
    inputs = {a = soma.ones(shape, "int32")}, outputs = {o = {"int32", shape}},
    body = " tensor_scalar o, a, op0=bitwise_and, imm0=1, op1=add, imm1=1", refuse = "both operators",
  }
end

local function copies(suite)
  for k, t in ipairs(ref.types) do
    for _, u in ipairs {t, ref.types[k % #ref.types + 1], "float32"} do
      local a = ref.tensor(ref.values(N, k + 40), t, shape)
      local want = t == u and a or ref.tensor(ref.list(a), u, shape)
      for _, engine in ipairs {"vector", "gpsimd", "scalar"} do
        suite:case {
          insn = "tensor_copy", name = string.format("%s to %s on %s", t, u, engine), engine = engine,
          targets = engine == "scalar" and targets_of(3) or nil,
          inputs = {a = a}, outputs = {o = {u, shape}}, body = " tensor_copy o, a", expect = {o = want},
        }
      end
    end
  end
  for _, t in ipairs {"float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"} do
    local bits, bytes = {}, t == "float4_e2m1fn_x4" and 2 or 4
    for i = 1, N do bits[i] = string.pack("<I" .. bytes, (i * 0x9E3779B1) & ((1 << 8 * bytes) - 1)) end
    local a = soma.frombytes(table.concat(bits), t, shape)
    suite:case {
      insn = "tensor_copy", name = t .. " bit for bit", engine = "vector", inputs = {a = a},
      outputs = {o = {t, shape}}, body = " tensor_copy o, a", expect = {o = a},
    }
  end
  local nans = {}
  for i = 1, N do nans[i] = 0x7f800000 | i * 77 end
  suite:case {
    insn = "tensor_copy", name = "NaN payloads survive", engine = "vector",
    inputs = {a = ref.from_bits(nans, "float32", shape)}, outputs = {o = {"float32", shape}},
    body = " tensor_copy o, a", expect = {o = ref.from_bits(nans, "float32", shape)},
  }
  local x = ref.tame(2 * 12, 4)
  local reversed = {}
  for p = 0, 1 do for i = 0, 5 do reversed[p * 6 + i + 1] = x[p * 12 + 10 - 2 * i + 1] end end
  suite:case {
    insn = "tensor_copy", name = "every other element backwards", engine = "vector",
    inputs = {a = ref.tensor(x, "float32", {2, 12})}, outputs = {o = {"float32", {2, 6}}},
    body = " tensor_copy o, a[:, 10:11].ap([[-2, 6]])",
    expect = {o = ref.tensor(reversed, "float32", {2, 6})},
  }
end

local function fills(suite)
  local shape1 = {3, 7}
  local integers = { -- the least and the greatest, and what no float32 holds
    uint8 = {0, 7, 255}, int8 = {0, -128, 127}, uint16 = {300, 65535}, int16 = {-32768, 32767},
    uint32 = {1, 16777217, 0xffffffff}, int32 = {-16777217, 0x7fffffff, -0x80000000, 0}, bool = {1, 0},
  }
  for _, t in ipairs {"uint8", "int8", "uint16", "int16", "uint32", "int32", "bool"} do
    local bytes = t == "bool" and 1 or ref.bytes(t)
    local lo, hi = t:find "^i" and -(1 << 8 * bytes - 1) or 0, (1 << 8 * bytes - (t:find "^i" and 1 or 0)) - 1
    if t == "bool" then hi = 1 end
    local function fill(engine, v, body)
      suite:case {
        insn = "memset", name = string.format("%s %s on %s", t, body:match "memset.*", engine), engine = engine,
        outputs = {o = {t, shape1}}, body = body,
        expect = {o = soma.frombytes(string.pack("<I" .. bytes, v & (1 << 8 * bytes) - 1):rep(21), t, shape1)},
      }
    end
    for _, engine in ipairs {"vector", "gpsimd"} do
      for _, v in ipairs(integers[t]) do
        fill(engine, v, " memset o, " .. v)
        fill(engine, v, " mov r3, " .. v .. "\n memset o, r3")
        fill(engine, v, " memset o, " .. v .. ", filler=true")
      end
    end
    for _, v in ipairs {lo - 1, hi + 1, "1.0", "-2.5"} do
      suite:case {
        insn = "memset", name = "refused: " .. t .. " " .. v, engine = "vector", outputs = {o = {t, shape1}},
        body = " memset o, " .. v, refuse = t,
      }
    end
  end
  for _, t in ipairs(ref.types) do
    for _, engine in ipairs {"vector", "gpsimd"} do
      for _, v in ipairs(integers[t] and {} or {0.0, 1.0, -2.5, 300.0}) do
        local want = {}
        for i = 1, 21 do want[i] = v end
        suite:case {
          insn = "memset", name = string.format("%s %g on %s", t, v, engine), engine = engine,
          outputs = {o = {t, shape1}}, body = string.format(" memset o, %.9g", v),
          expect = {o = ref.tensor(want, t, shape1)},
        }
      end
    end
  end
  for _, t in ipairs {"float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"} do
    suite:case {
      insn = "memset", name = t .. " 0", engine = "vector", outputs = {o = {t, shape1}},
      body = " memset o, 0.0", expect = {o = soma.zeros(shape1, t)},
    }
    suite:case {
      insn = "memset", name = "refused: " .. t .. " 1", engine = "vector", outputs = {o = {t, shape1}},
      body = " memset o, 1.0", refuse = "0",
    }
  end
end

local function reciprocal(suite)
  for k, t in ipairs(ref.types) do
    local a = ref.tensor(ref.values(N, k + 60), t, shape)
    for _, engine in ipairs {"vector", "scalar"} do
      suite:case {
        insn = "reciprocal", name = t .. ", " .. engine, engine = engine, inputs = {a = a},
        outputs = {o = {"float32", shape}}, body = " reciprocal o, a",
        expect = {o = ref.tensor(map(ref.ops.reciprocal, ref.list(a)), "float32", shape)},
      }
    end
  end
end

return function(suite)
  tensor_tensor(suite)
  tensor_scalar(suite)
  copies(suite)
  fills(suite)
  reciprocal(suite)
end
