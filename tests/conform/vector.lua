-- scalar_tensor_tensor, scans, selections, reductions into the accumulator registers, bn_stats and
-- bn_aggr, max8, match_value_load, find_index8, match_replace8.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local P, F = 4, 24
local shape = {P, F}
local inf = math.huge

local arith = {}
for _, o in ipairs(soma.isa.aluops) do
  if o.in_hardware and o.class == "arith" and ref.ops[o.name] then
    for _, e in ipairs(o.engines) do if e == "vector" then arith[#arith + 1] = o end end
  end
end

local function scalar_tensor_tensor(suite)
  local x, y = ref.values(P * F, 31), ref.shuffled(P * F, 32)
  local function case(name, body, f, gen, t, u)
    local a, b = ref.tensor(x, t or "float32", shape), ref.tensor(y, t or "float32", shape)
    suite:case {
      insn = "scalar_tensor_tensor", name = name, engine = "vector", targets = util.since(gen or 2),
      inputs = {a = a, b = b}, outputs = {o = {u or "float32", shape}}, body = " scalar_tensor_tensor o, a, " .. body,
      expect = {o = ref.tensor(util.map(f, ref.list(a), ref.list(b)), u or "float32", shape)},
    }
  end
  for _, o in ipairs(arith) do
    local f = ref.ops[o.name]
    if o.arity == 2 then
      case(o.name .. ", add", "b, op0=" .. o.name .. ", imm0=0.75, op1=add", function(p, q) return ref.round(f(p, 0.75) + q) end, o.gen)
      case("mult, " .. o.name, "b, op0=mult, imm0=2.0, op1=" .. o.name, function(p, q) return f(ref.round(p * 2), q) end, o.gen)
    else
      case(o.name .. ", add", "b, op0=" .. o.name .. ", op1=add", function(p, q) return ref.round(f(p) + q) end, o.gen)
    end
  end
  case("bypass, subtract", "b, op0=bypass, op1=subtract", function(p, q) return ref.round(p - q) end)
  case("in place of src1", "b, op0=mult, imm0=-1.0, op1=add", function(p, q) return ref.round(-p + q) end)
  for k = 1, #ref.types do
    local t, u = util.types(k)
    case(t .. " to " .. u .. ", both reversed", "b, op0=subtract, imm0=1.0, op1=subtract, reverse0=true, reverse1=true",
      function(p, q) return ref.round(q - ref.round(1 - p)) end, 2, t, u)
  end
end

local function scans(suite)
  local function scan(x, y, init, f0, f1, r0, r1)
    local out = {}
    for p = 0, P - 1 do
      local s = init
      for i = p * F + 1, (p + 1) * F do
        local v = r0 and f0(s, x[i]) or f0(x[i], s)
        s = r1 and f1(y[i], v) or f1(v, y[i])
        out[i] = s
      end
    end
    return out
  end
  local x, y = ref.tame(P * F, 41), ref.tame(P * F, 42)
  for i = 1, P * F do x[i], y[i] = ref.round(x[i] / 8), ref.round(y[i] / 4) end
  for _, o in ipairs(arith) do
    if o.arity == 2 then
      local f = ref.ops[o.name]
      for _, way in ipairs {{o.name, "add", f, ref.ops.add}, {"mult", o.name, ref.ops.mult, f}} do
        suite:case {
          insn = "tensor_tensor_scan", name = way[1] .. ", " .. way[2], engine = "vector", targets = util.since(o.gen),
          inputs = {a = ref.tensor(x, "float32", shape), b = ref.tensor(y, "float32", shape)},
          outputs = {o = {"float32", shape}},
          body = string.format(" tensor_tensor_scan o, a, b, 0.5, op0=%s, op1=%s", way[1], way[2]),
          expect = {o = ref.tensor(scan(x, y, 0.5, way[3], way[4]), "float32", shape)},
        }
      end
    end
  end
  for k = 1, #ref.types do
    local t, u = util.types(k)
    local a, b, s = ref.tensor(x, t, shape), ref.tensor(y, t, shape), ref.tensor({1.0, -1.0, 0.5, 0.0}, "float32", {P, 1})
    local want, la, lb = {}, ref.list(a), ref.list(b)
    for p = 0, P - 1 do
      local state = ref.list(s)[p + 1]
      for i = p * F + 1, (p + 1) * F do
        state = ref.round(lb[i] - ref.round(state - la[i]))
        want[i] = state
      end
    end
    suite:case {
      insn = "tensor_tensor_scan", name = t .. " to " .. u .. ", column, reversed: the state stays fp32", engine = "vector",
      inputs = {a = a, b = b, s = s}, outputs = {o = {u, shape}},
      body = " tensor_tensor_scan o, a, b, s, op0=subtract, op1=subtract, reverse0=true, reverse1=true",
      expect = {o = ref.tensor(want, u, shape)},
    }
  end
end

-- rows reduced by op in sixteen partials
local function rows(op, list)
  local out = {}
  for p = 0, P - 1 do out[p + 1] = ref.sixteen(op, util.row(list, p, F)) end
  return out
end

local function reductions(suite)
  local x = ref.tame(P * F, 51)
  local first = {add = 0.0, mult = 1.0, max = -inf, min = inf}
  for _, op in ipairs {"add", "mult", "max", "min"} do
    local once = rows(op, x)
    local f = ref.ops[op]
    local function case(name, body, want, insn)
      suite:case {
        insn = insn or "tensor_scalar_reduce", name = op .. " " .. name, engine = "vector",
        inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", shape}, r = {"float32", {P, 1}}},
        body = body .. "\n dve_read_acc r",
        expect = {r = ref.tensor(want, "float32", {P, 1}), o = ref.tensor(x, "float32", shape)},
      }
    end
    local line = " tensor_scalar_reduce o, a, op0=mult, imm0=1.0, op1=" .. op
    for _, insn in ipairs {"tensor_scalar_reduce", "dve_read_acc"} do
      case("reset_reduce", line .. ", reduce=reset_reduce", util.map(function(v) return f(first[op], v) end, once), insn)
      case("reduce on top", line .. ", reduce=reset_reduce\n" .. line .. ", reduce=reduce", util.map(function(v) return f(f(first[op], v), v) end, once), insn)
      case("load_reduce", line .. ", imm1=1.5, reduce=load_reduce", util.map(function(v) return f(1.5, v) end, once), insn)
    end
  end
  for _, o in ipairs(arith) do
    local f = ref.ops[o.name]
    local want = util.map(function(v) return f(v, 0.5) end, x)
    suite:case {
      insn = "tensor_scalar_reduce", name = o.name .. " and max", engine = "vector", targets = util.since(o.gen),
      inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", shape}, r = {"float32", {P, 1}}},
      body = string.format(" tensor_scalar_reduce o, a, op0=%s%s, op1=max, reduce=reset_reduce\n dve_read_acc r", o.name,
        o.arity == 2 and ", imm0=0.5" or ""),
      expect = {o = ref.tensor(want, "float32", shape), r = ref.tensor(rows("max", want), "float32", {P, 1})},
    }
  end
  for _, way in ipairs {{"bypass", "op0=bypass", function(v) return v end},
    {"subtract", "op0=subtract, imm0=0.5", function(v) return ref.round(v - 0.5) end},
    {"subtract reversed", "op0=subtract, imm0=0.5, reverse0=true", function(v) return ref.round(0.5 - v) end}} do
    local want = util.map(way[3], x)
    suite:case {
      insn = "tensor_scalar_reduce", name = way[1] .. ", add", engine = "vector", inputs = {a = ref.tensor(x, "float32", shape)},
      outputs = {o = {"float32", shape}, r = {"float32", {P, 1}}},
      body = " tensor_scalar_reduce o, a, " .. way[2] .. ", op1=add, reduce=reset_reduce\n dve_read_acc r",
      expect = {o = ref.tensor(want, "float32", shape), r = ref.tensor(rows("add", want), "float32", {P, 1})},
    }
  end
  for k = 1, #ref.types do
    local t, u = util.types(k)
    local a = ref.tensor(x, t, shape)
    local want = util.map(function(v) return ref.round(v + 0.25) end, ref.list(a))
    suite:case {
      insn = "tensor_scalar_reduce", name = t .. " to " .. u, engine = "vector", inputs = {a = a},
      outputs = {o = {u, shape}, r = {u, {P, 1}}},
      body = " tensor_scalar_reduce o, a, op0=add, imm0=0.25, op1=add, reduce=reset_reduce\n dve_read_acc r",
      expect = {o = ref.tensor(want, u, shape), r = ref.tensor(rows("add", want), u, {P, 1})},
    }
    suite:case {
      insn = "dve_read_acc", name = "negated, as " .. t, engine = "vector", inputs = {a = ref.tensor(x, "float32", shape)},
      outputs = {r = {t, {P, 1}}}, tiles = {o = {"float32", shape}},
      body = " tensor_scalar_reduce o, a, op0=mult, imm0=1.0, op1=add, reduce=reset_reduce\n dve_read_acc r, negate=true",
      expect = {r = ref.tensor(util.map(function(v) return -v end, rows("add", x)), t, {P, 1})},
    }
  end
end

local function cumulative(suite)
  local x = ref.tame(P * F, 61)
  local first = {add = 0.0, subtract = 0.0, mult = 1.0, max = -inf, min = inf}
  local function run(list, f0, op, init)
    local out = {}
    for p = 0, P - 1 do
      local r = init
      for i = p * F + 1, (p + 1) * F do
        r = ref.ops[op](f0(list[i]), r)
        out[i] = r
      end
    end
    return out
  end
  for _, op in ipairs {"add", "subtract", "mult", "max", "min"} do
    suite:case {
      insn = "tensor_scalar_cumulative", name = op, engine = "vector", inputs = {a = ref.tensor(x, "float32", shape)},
      outputs = {o = {"float32", shape}},
      body = " tensor_scalar_cumulative o, a, op0=mult, imm0=0.5, op1=" .. op .. ", reduce=reset_reduce",
      expect = {o = ref.tensor(run(x, function(v) return ref.round(v * 0.5) end, op, first[op]), "float32", shape)},
    }
    suite:case {
      insn = "tensor_scalar_cumulative", name = op .. " from 2", engine = "vector", inputs = {a = ref.tensor(x, "float32", shape)},
      outputs = {o = {"float32", shape}},
      body = " tensor_scalar_cumulative o, a, op0=mult, imm0=0.5, op1=" .. op .. ", imm1=2.0, reduce=load_reduce",
      expect = {o = ref.tensor(run(x, function(v) return ref.round(v * 0.5) end, op, 2.0), "float32", shape)},
    }
  end
  for _, o in ipairs(arith) do
    local f = ref.ops[o.name]
    suite:case {
      insn = "tensor_scalar_cumulative", name = o.name .. ", add", engine = "vector", targets = util.since(o.gen),
      inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", shape}},
      body = string.format(" tensor_scalar_cumulative o, a, op0=%s%s, op1=add, reduce=reset_reduce", o.name, o.arity == 2 and ", imm0=0.5" or ""),
      expect = {o = ref.tensor(run(x, function(v) return f(v, 0.5) end, "add", 0.0), "float32", shape)},
    }
  end
  suite:case {
    insn = "tensor_scalar_cumulative", name = "bypass, mult", engine = "vector", inputs = {a = ref.tensor(x, "float32", shape)},
    outputs = {o = {"float32", shape}}, body = " tensor_scalar_cumulative o, a, op0=bypass, op1=mult, reduce=reset_reduce",
    expect = {o = ref.tensor(run(x, function(v) return v end, "mult", 1.0), "float32", shape)},
  }
  local sum = run(x, function(v) return ref.round(v + 0.0) end, "add", 0.0)
  local again = {}
  for p = 0, P - 1 do
    local r = sum[(p + 1) * F]
    for i = p * F + 1, (p + 1) * F do
      r = ref.round(x[i] + r)
      again[i] = r
    end
  end
  suite:case {
    insn = "tensor_scalar_cumulative", name = "continues from the register", engine = "vector",
    inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", shape}},
    body = " tensor_scalar_cumulative o, a, op0=add, imm0=0.0, op1=add, reduce=reset_reduce\n"
      .. " tensor_scalar_cumulative o, a, op0=add, imm0=0.0, op1=add, reduce=reduce",
    expect = {o = ref.tensor(again, "float32", shape)},
  }
  for _, t in ipairs {"bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float8_e3m4", "float8_e4m3fn", "uint8", "int8",
    "uint16", "int16"} do
    local a = ref.tensor(x, t, shape)
    suite:case {
      insn = "tensor_scalar_cumulative", name = t .. ", reversed", engine = "vector", inputs = {a = a},
      outputs = {o = {t, shape}},
      body = " tensor_scalar_cumulative o, a, op0=subtract, imm0=1.0, op1=max, reverse0=true, reduce=reset_reduce",
      expect = {o = ref.tensor(run(ref.list(a), function(v) return ref.round(1 - v) end, "max", -inf), t, shape)},
    }
  end
end

local function selections(suite)
  local x, y = ref.values(P * F, 71), ref.shuffled(P * F, 72)
  local function predicate(t)
    local bits = {}
    for i = 1, P * F do bits[i] = i % 3 == 0 and i % 200 + 1 or 0 end
    return ref.from_bits(bits, t, shape), function(i) return i % 3 == 0 end
  end
  for k, t in ipairs(ref.types) do
    local a, b = ref.tensor(x, t, shape), ref.tensor(y, t, shape)
    for _, reverse in ipairs {"false", "true"} do
      local pt = ({"uint8", "uint16", "uint32"})[k % 3 + 1]
      local pred, holds = predicate(pt)
      local want, ba, bb = {}, ref.bits(a), ref.bits(b)
      for i = 1, P * F do want[i] = (holds(i) ~= (reverse == "true")) and ba[i] or bb[i] end
      suite:case {
        insn = "copy_predicated", name = string.format("%s by %s, reverse_pred=%s", t, pt, reverse), engine = "vector",
        inputs = {a = a, o = b, p = pred}, outputs = {o = {t, shape}},
        body = " copy_predicated o, src=a, pred=p, reverse_pred=" .. reverse, expect = {o = ref.from_bits(want, t, shape)},
      }
    end
  end
  local pred, holds = predicate("uint8")
  local want = {}
  for i = 1, P * F do want[i] = holds(i) and -7.5 or y[i] end
  suite:case {
    insn = "copy_predicated", name = "a number", engine = "vector", inputs = {o = ref.tensor(y, "float32", shape), p = pred},
    outputs = {o = {"float32", shape}}, body = " copy_predicated o, imm=-7.5, pred=p",
    expect = {o = ref.tensor(want, "float32", shape)},
  }
  suite:case {
    insn = "copy_predicated", name = "refused: types differ", engine = "vector",
    inputs = {a = soma.ones(shape, "bfloat16"), p = pred}, outputs = {o = {"float32", shape}},
    body = " copy_predicated o, src=a, pred=p", refuse = "bfloat16",
  }
  -- select_reduce
  for k, t in ipairs(ref.types) do
    if t ~= "tfloat32" and t ~= "int32" and t ~= "uint32" then
      local pt = ({"uint8", "int8", "uint16", "int16"})[k % 4 + 1]
      for _, reverse in ipairs {"false", "true"} do
        local p2 = predicate(pt)
        local a, s = ref.tensor(x, t, shape), ref.tensor({1.0, -2.0, 3.0, 0.5}, "float32", {P, 1})
        local la, col, out = ref.list(a), ref.list(s), {}
        for i = 1, P * F do
          local v = (holds(i) ~= (reverse == "true")) and la[i] or col[(i - 1) // F + 1]
          out[i] = v
        end
        suite:case {
          insn = "select_reduce", name = string.format("%s by %s, reverse_pred=%s", t, pt, reverse), engine = "vector",
          inputs = {a = a, s = s, p = p2}, outputs = {o = {"float32", shape}, r = {"float32", {P, 1}}},
          body = " select_reduce o, a, s, pred=p, reverse_pred=" .. reverse .. ", reduce=reset_reduce, reduce_op=max\n dve_read_acc r",
          expect = {o = ref.tensor(out, "float32", shape), r = ref.tensor(rows("max", out), "float32", {P, 1})},
        }
      end
    end
  end
  local out = {}
  for i = 1, P * F do out[i] = holds(i) and x[i] or 0.25 end
  local top = rows("max", out)
  for _, mode in ipairs {"idle", "reduce"} do
    suite:case {
      insn = "select_reduce", name = "a number, " .. mode, engine = "vector",
      inputs = {a = ref.tensor(x, "float32", shape), p = pred}, outputs = {o = {"float32", shape}, r = {"float32", {P, 1}}},
      body = " select_reduce o, a, 0.25, pred=p, reduce=reset_reduce, reduce_op=max\n"
        .. " select_reduce o, a, 0.25, pred=p, reduce=" .. mode .. (mode == "idle" and "" or ", reduce_op=max") .. "\n dve_read_acc r",
      expect = mode == "idle" and {o = ref.tensor(out, "float32", shape)}
        or {o = ref.tensor(out, "float32", shape), r = ref.tensor(top, "float32", {P, 1})},
    }
  end
  -- range_select: compares index + start with both bounds in fp32
  local fmin = -0x1.fffffep127
  local compare = {is_equal = function(i, b) return i == b end, is_lt = function(i, b) return i < b end,
    is_le = function(i, b) return i <= b end, is_gt = function(i, b) return i > b end, is_ge = function(i, b) return i >= b end}
  local b0, b1 = {3.0, 0.0, 10.5, -5.0}, {9.0, 23.0, 12.0, 100.0}
  local function range(name, t, u, op0, op1, start)
    local a = ref.tensor(x, t, shape)
    local la, res = ref.list(a), {}
    for i = 1, P * F do
      local p, index = (i - 1) // F + 1, (i - 1) % F + start
      res[i] = compare[op0](index, b0[p]) and compare[op1](index, b1[p]) and la[i] or fmin
    end
    suite:case {
      insn = "range_select", name = name, engine = "vector", targets = util.since(3),
      inputs = {a = a, l = ref.tensor(b0, "float32", {P, 1}), h = ref.tensor(b1, "float32", {P, 1})},
      outputs = {o = {u, shape}, r = {"float32", {P, 1}}},
      body = string.format(" range_select o, a, bound0=l, bound1=h, op0=%s, op1=%s, start=%d.0, reduce=reset_reduce, reduce_op=max\n dve_read_acc r",
        op0, op1, start),
      expect = {o = ref.tensor(res, u, shape), r = ref.tensor(rows("max", res), "float32", {P, 1})},
    }
  end
  -- the registers: idle leaves, reset gives max's identity, reduce continues
  for name, way in pairs {
    idle = {"reduce=idle", function() return 7.5 end}, reset = {"reduce=reset, reduce_op=max", function() return -inf end},
    reduce = {"reduce=reduce, reduce_op=max", function(m) return ref.ops.max(7.5, m) end},
    ["reset_reduce, reduce_op left out"] = {"reduce=reset_reduce", function(m) return m end},
  } do
    local res = {}
    for i = 1, P * F do
      local index, p = (i - 1) % F, (i - 1) // F + 1
      res[i] = index >= b0[p] and index < b1[p] and y[i] or fmin
    end
    suite:case {
      insn = "range_select", name = "registers, " .. name, engine = "vector", targets = util.since(3),
      inputs = {a = ref.tensor(y, "float32", shape), l = ref.tensor(b0, "float32", {P, 1}), h = ref.tensor(b1, "float32", {P, 1}),
        s = ref.tensor({7.5, 7.5, 7.5, 7.5}, "float32", {P, 1})},
      outputs = {o = {"float32", shape}, r = {"float32", {P, 1}}},
      body = " tensor_scalar_reduce s, s, op0=bypass, op1=max, reduce=reset_reduce\n"
        .. " range_select o, a, bound0=l, bound1=h, op0=is_ge, op1=is_lt, " .. way[1] .. "\n dve_read_acc r",
      expect = {o = ref.tensor(res, "float32", shape), r = ref.tensor(util.map(way[2], rows("max", res)), "float32", {P, 1})},
    }
  end
  local late = {}
  for i = 1, P * F do late[i] = (i - 1) // F ~= 1 and (i - 1) % F + 16777190 > 16777203 and x[i] or fmin end
  suite:case { -- one bound beyond all of them, the other NaN in one row
    insn = "range_select", name = "indices up to 2^24, a NaN bound", engine = "vector", targets = util.since(3),
    inputs = {a = ref.tensor(x, "float32", shape), l = ref.tensor({16777203.0, ref.nan, 16777203.0, 16777203.0}, "float32", {P, 1}),
      h = ref.tensor({inf, inf, inf, inf}, "float32", {P, 1})},
    outputs = {o = {"float32", shape}},
    body = " range_select o, a, bound0=l, bound1=h, op0=is_gt, op1=is_le, start=16777190.0",
    expect = {o = ref.tensor(late, "float32", shape)},
  }
  for op in pairs(compare) do
    range(op .. " and is_lt", "float32", "float32", op, "is_lt", 0)
    range("is_ge and " .. op, "float32", "float32", "is_ge", op, 3)
  end
  for t in pairs(ref.floats) do range(t, t, "bfloat16", "is_ge", "is_lt", 1) end
  suite:case {
    insn = "range_select", name = "refused on gen2", engine = "vector", targets = {"trn1", "inf2"},
    inputs = {a = soma.ones(shape, "float32"), l = soma.ones({P, 1}, "float32")}, outputs = {o = {"float32", shape}},
    body = " range_select o, a, bound0=l, bound1=l, op0=is_ge, op1=is_lt", refuse = "range_select",
  }
end

local function norms(suite)
  local function half(list)
    local n = #list
    local mean = n > 0 and ref.round(ref.sixteen("add", list) / n) or 0.0
    local squares = {}
    for i, v in ipairs(list) do
      local d = ref.round(v - mean)
      squares[i] = ref.round(d * d)
    end
    return n + 0.0, mean, ref.sixteen("add", squares)
  end
  for k = 1, #ref.types do
    local t, u = util.types(k)
    for _, f in ipairs {1, 7, 24} do
      local a = ref.tensor(ref.tame(P * f, k + f), t, {P, f})
      local list, want = ref.list(a), {}
      for p = 0, P - 1 do
        local even, odd = {}, {}
        for i, v in ipairs(util.row(list, p, f)) do table.insert(i % 2 == 1 and even or odd, v) end
        local c0, m0, v0 = half(even)
        local c1, m1, v1 = half(odd)
        for _, v in ipairs {c0, m0, v0, c1, m1, v1} do want[#want + 1] = v end
      end
      suite:case {
        insn = "bn_stats", name = string.format("%s to %s, %d elements", t, u, f), engine = "vector", inputs = {a = a},
        outputs = {o = {u, {P, 6}}}, body = " bn_stats o, a", expect = {o = ref.tensor(want, u, {P, 6})},
      }
    end
  end
  suite:case {
    insn = "bn_stats", name = "refused: 513 elements", engine = "vector", inputs = {a = soma.ones({P, 513}, "float32")},
    outputs = {o = {"float32", {P, 6}}}, body = " bn_stats o, a", refuse = "513",
  }
  -- bn_aggr: counts weigh; the population variance of all elements
  for k, t in ipairs(ref.types) do
    local groups, want = {}, {}
    for p = 0, P - 1 do
      local n, sum, all = 0, 0, {}
      for g = 1, 3 do
        local c, m, v = g * 2 + p, (g - 2) * 2.0, g * 0.5
        table.move({c + 0.0, m, v}, 1, 3, #groups + 1, groups)
      end
    end
    local a = ref.tensor(groups, t, {P, 9})
    local l = ref.list(a)
    for p = 0, P - 1 do
      local n, s, v = 0.0, 0.0, 0.0
      for g = 0, 2 do n, s = n + l[p * 9 + g * 3 + 1], s + l[p * 9 + g * 3 + 1] * l[p * 9 + g * 3 + 2] end
      local mean = n ~= 0 and s / n or ref.nan
      for g = 0, 2 do
        local c, m, q = l[p * 9 + g * 3 + 1], l[p * 9 + g * 3 + 2], l[p * 9 + g * 3 + 3]
        v = v + q + c * (m - mean) ^ 2
      end
      want[#want + 1], want[#want + 2] = ref.round(mean), ref.round(v / n)
    end
    suite:case {
      insn = "bn_aggr", name = t, engine = "vector", ulp = 8, inputs = {a = a}, outputs = {o = {"float32", {P, 2}}},
      body = " bn_aggr o, a", expect = {o = ref.tensor(want, "float32", {P, 2})},
    }
  end
  suite:case {
    insn = "bn_aggr", name = "refused: not triples", engine = "vector", inputs = {a = soma.ones({P, 8}, "float32")},
    outputs = {o = {"float32", {P, 2}}}, body = " bn_aggr o, a", refuse = "8",
  }
end

local function top8(suite)
  for k = 1, #ref.types do
    local t, u = util.types(k)
    local a = ref.tensor(util.map(function(v) return t == "float8_e8m0fnu" and math.abs(v) or v end, ref.tame(P * F, k + 80)), t, shape)
    local list, want = ref.list(a), {}
    for p = 0, P - 1 do
      local row = util.row(list, p, F)
      table.sort(row, function(x, y) return x > y end)
      for i = 1, 8 do want[p * 8 + i] = row[i] end
    end
    suite:case {
      insn = "max8", name = t .. " to " .. u, engine = "vector", inputs = {a = a}, outputs = {o = {u, {P, 8}}},
      body = " max8 o, a", expect = {o = ref.tensor(want, u, {P, 8})},
    }
  end
  suite:case {
    insn = "max8", name = "refused: seven elements", engine = "vector", inputs = {a = soma.ones({P, 7}, "float32")},
    outputs = {o = {"float32", {P, 8}}}, body = " max8 o, a", refuse = "7",
  }
  -- find_index8 and match_replace8: the documented example, and every type
  local data = {1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8, 5}
  local vals = {3, 8, 8, 8, 8, 8, 8, 8}
  local function floats(l) return util.map(function(v) return v + 0.0 end, l) end
  for _, t in ipairs(ref.types) do
    local ok = true
    for _, v in ipairs {1, 2, 3, 4, 5, 8} do ok = ok and ref.decode(t, ref.encode(t, v + 0.0)) == v end
    if ok then
      local a, v = ref.tensor(floats(data), t, {1, 12}), ref.tensor(floats(vals), t, {1, 8})
      for _, u in ipairs {"uint16", "uint32"} do
        for _, insn in ipairs {"find_index8", "match_value_load"} do
          suite:case {
            insn = insn, name = t .. ", duplicates ascending, " .. u, engine = "vector", inputs = {a = a, v = v},
            outputs = {o = {u, {1, 8}}}, body = " match_value_load v\n find_index8 o, a",
            expect = {o = ref.tensor(floats {2, 4, 5, 6, 7, 8, 9, 10}, u, {1, 8})},
          }
        end
      end
      suite:case {
        insn = "match_replace8", name = t .. ", duplicates descending", engine = "vector", inputs = {a = a, v = v},
        outputs = {o = {t, {1, 12}}, i = {"uint32", {1, 8}}},
        body = " match_value_load v\n match_replace8 o, a, imm=5.0, dst_idx=i",
        expect = {o = ref.tensor(floats {1, 2, 5, 4, 5, 5, 5, 5, 5, 5, 5, 5}, t, {1, 12}),
          i = ref.tensor(floats {2, 10, 9, 8, 7, 6, 5, 4}, "uint32", {1, 8})},
      }
    end
  end
  for insn, body in pairs {find_index8 = "find_index8 i, a", match_replace8 = "match_replace8 a, a, imm=5.0, dst_idx=i"} do
    suite:case { -- each lane has values of its own
      insn = insn, name = "fewer partitions loaded", engine = "vector",
      inputs = {a = soma.ones({4, 8}, "float32"), v = soma.ones({2, 8}, "float32")},
      tiles = {i = {"uint32", {4, 8}}}, body = " match_value_load v\n " .. body,
      fault = "no values are loaded, run match_value_load first: lane 2",
    }
    suite:case { -- which counts from the operand's first partition
      insn = insn, name = "values in other partitions", engine = "vector",
      inputs = {a = ref.tensor(floats {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}, "float32", {2, 8}),
        v = ref.tensor(floats {8, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1}, "float32", {2, 8})},
      part = {a = 64, v = 32, i = 96}, outputs = {i = {"uint32", {2, 8}}}, body = " match_value_load v\n " .. body,
      expect = {i = ref.tensor(floats {7, 6, 5, 4, 3, 2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7}, "uint32", {2, 8})},
    }
  end
  suite:case { -- a row shorter than the registers
    insn = "match_replace8", name = "three elements", engine = "vector",
    inputs = {a = ref.tensor(floats {8, 3, 8}, "float32", {1, 3}), v = ref.tensor(floats(vals), "float32", {1, 8})},
    outputs = {o = {"float32", {1, 3}}, i = {"uint16", {1, 8}}},
    body = " match_value_load v\n match_replace8 o, a, imm=5.0, dst_idx=i",
    expect = {o = ref.tensor(floats {5, 5, 5}, "float32", {1, 3}),
      i = ref.tensor(floats {1, 65535, 65535, 65535, 65535, 65535, 2, 0}, "uint16", {1, 8})},
  }
  local a = ref.tensor(floats {5, 6, 7, 8, 9, 10, 11, 12}, "float32", {1, 8})
  local v = ref.tensor(floats {12, 1, 6, 6, 5, 2, 9, 8}, "float32", {1, 8})
  for u, none in pairs {uint16 = 0xffff, uint32 = 0xffffffff} do
    suite:case {
      insn = "find_index8", name = "missing values give all ones, " .. u, engine = "vector", inputs = {a = a, v = v},
      outputs = {o = {u, {1, 8}}}, body = " match_value_load v\n find_index8 o, a",
      expect = {o = ref.from_bits({7, none, 1, none, 0, none, 4, 3}, u, {1, 8})},
    }
  end
  suite:case {
    insn = "find_index8", name = "refused: a float destination", engine = "vector", inputs = {a = a, v = v},
    outputs = {o = {"float32", {1, 8}}}, body = " match_value_load v\n find_index8 o, a", refuse = "float32",
  }
  suite:case {
    insn = "match_value_load", name = "refused: nine values", engine = "vector", inputs = {v = soma.ones({1, 9}, "float32"), a = a},
    outputs = {o = {"uint32", {1, 8}}}, body = " match_value_load v\n find_index8 o, a", refuse = "9",
  }
end

return function(suite)
  scalar_tensor_tensor(suite)
  scans(suite)
  reductions(suite)
  cumulative(suite)
  selections(suite)
  norms(suite)
  top8(suite)
end
