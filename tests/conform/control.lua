-- Control instructions: registers, branches, calls, loads and stores of the sequencer, semaphores,
-- static transfers. Registers come out through tensor_store, semaphores through waits that only the
-- right value passes.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local engines = {"tensor", "vector", "scalar", "gpsimd", "sync"}
local function signed(v) return (v & 0xffffffff ~ 0x80000000) - 0x80000000 end
local function words(list) return ref.from_bits(util.map(function(v) return v & 0xffffffff end, list), "int32", {1, #list}) end

-- A body of pieces that each leave a number in r1, and what they must leave.
local function numbers(suite, insn, name, engine, pieces, want)
  local body = {}
  for k, piece in ipairs(pieces) do
    body[k] = string.format("%s\n tensor_store out_o[0:1, %d:%d], r1\n", piece, k - 1, k)
  end
  suite:case {
    insn = insn, name = name .. " on " .. engine, engine = engine, hbm = {o = true}, outputs = {o = {"int32", {1, #want}}},
    body = table.concat(body), expect = {o = words(want)},
  }
end

-- ---- Registers ---------------------------------------------------------------------------------

local function toward_zero(a, b)
  local q = math.abs(a) // math.abs(b)
  return (a < 0) ~= (b < 0) and -q or q
end
local alu = {
  add = function(a, b) return a + b end, sub = function(a, b) return a - b end, mul = function(a, b) return a * b end,
  div = toward_zero, mod = function(a, b) return a - toward_zero(a, b) * b end,
  ["and"] = function(a, b) return a & b end, ["or"] = function(a, b) return a | b end, xor = function(a, b) return a ~ b end,
  shl = function(a, b) return b & 0xffffffff < 32 and a << b or 0 end,
  shr = function(a, b) return b & 0xffffffff < 32 and (a & 0xffffffff) >> b or 0 end,
  sra = function(a, b) return b & 0xffffffff < 32 and a // (1 << b) or (a < 0 and -1 or 0) end,
  min = math.min, max = math.max,
}
local pairs_of = {
  {7, 2}, {-7, 2}, {7, -2}, {-7, -2}, {0, 5}, {5, 5}, {1, 31}, {-1, 31}, {1, 32}, {-8, 40}, {-8, -1}, {1, 1},
  {0x7fffffff, 1}, {-0x80000000, -1}, {-0x80000000, 1}, {65536, 65537}, {-0x80000000, 0x7fffffff}, {123456789, -987},
}

local function registers(suite)
  for op, f in pairs(alu) do
    local with_reg, with_imm, want = {}, {}, {}
    for k, p in ipairs(pairs_of) do
      with_reg[k] = string.format(" mov r2, %d\n mov r3, %d\n %s r1, r2, r3", p[1], p[2], op)
      with_imm[k] = string.format(" mov r1, %d\n %s r1, r1, %d", p[1], op, p[2])
      want[k] = f(p[1], p[2])
    end
    for k, engine in ipairs(engines) do
      numbers(suite, op, k % 2 == 1 and "registers" or "a number", engine, k % 2 == 1 and with_reg or with_imm, want)
    end
    util.refused(suite, {op, "sync", "", op .. " r1, r2, 4294967296", "4294967296"})
  end
  for _, engine in ipairs(engines) do
    numbers(suite, "mov", "numbers and registers", engine, {" mov r1, -5", " mov r1, 4294967295", " mov r63, 77\n mov r1, r63"}, {-5, -1, 77})
    numbers(suite, "notify", "numbers and registers", engine, {" mov r1, 7\n notify 5\n notify r1"}, {7})
    local prints = {device_print_text = {" device_print 'a'\n", " device_print 'a', to=stderr\n"}, device_print_value = {" device_print 'a', r1\n", " device_print '', -5, to=stderr\n"},
      device_print_semaphore = {" device_print 'a', $S[3]\n", " device_print 'a', $S[3], to=stderr\n"}} -- what they write is another test's
    for insn, lines in pairs(prints) do numbers(suite, insn, "all operands", engine, {" mov r1, 7\n" .. table.concat(lines)}, {7}) end
    numbers(suite, "drain", "nothing is left", engine, {" drain\n mov r1, 7\n drain"}, {7})
    numbers(suite, "not", "numbers and registers", engine, {" not r1, 5", " mov r2, -1\n not r1, r2"}, {-6, 0})
  end
  for _, row in ipairs {
    {"mov", "sync", "", "mov r64, 1", "r64"}, {"not", "sync", "", "not r1", "operand"}, {"notify", "sync", "", "notify", "operand"},
    {"drain", "sync", "", "drain $S[1]", "completion semaphore"}, {"device_print_text", "sync", "", "device_print 5", "string"},
    {"device_print_value", "sync", "", "device_print 'a', r64", "r64"}, {"device_print_semaphore", "sync", "", "device_print 'a', $S[256]", "256"}, {"nop", "sync", "", "nop $S[256]++", "256"},
  } do util.refused(suite, row) end
  for _, op in ipairs {"div", "mod"} do
    suite:case {
      insn = op, name = "fails: by zero", engine = "sync", outputs = {o = {"int32", {1, 1}}},
      body = " mov r1, 3\n " .. op .. " r1, r1, 0", fault = "division by zero",
    }
  end
end

-- ---- Control flow ------------------------------------------------------------------------------

local function branches(suite)
  local u = function(v) return v & 0xffffffff end
  local tests = {
    beq = function(a, b) return a == b end, bne = function(a, b) return a ~= b end, blt = function(a, b) return a < b end,
    ble = function(a, b) return a <= b end, bgt = function(a, b) return a > b end, bge = function(a, b) return a >= b end,
    bltu = function(a, b) return u(a) < u(b) end, bgeu = function(a, b) return u(a) >= u(b) end,
  }
  local compared = {{1, 2}, {2, 1}, {2, 2}, {-1, 1}, {1, -1}, {-0x80000000, 0x7fffffff}, {0, 0}}
  for op, holds in pairs(tests) do
    local pieces, want = {}, {}
    for _, p in ipairs(compared) do
      local second = #pieces % 2 == 0 and tostring(p[2]) or "r3"
      pieces[#pieces + 1] = string.format(" mov r2, %d\n mov r3, %d\n mov r1, 1\n %s r2, %s, l%d\n mov r1, 0\nl%d:", p[1], p[2], op,
        second, #pieces, #pieces)
      want[#want + 1] = holds(p[1], p[2]) and 1 or 0
    end
    for _, engine in ipairs(engines) do numbers(suite, op, "both ways", engine, pieces, want) end
    util.refused(suite, {op, "sync", "", op .. " r1, 2, nowhere", "nowhere"})
  end
  for branch, holds in pairs(tests) do -- what holds passes; each that does not faults
    local cond = branch:sub(2)
    local k, passes = 0, ""
    for _, p in ipairs(compared) do
      k = k + 1
      local engine = engines[k % 5 + 1]
      local set = string.format(" mov r2, %d\n mov r3, %d\n", p[1], p[2])
      local b = k % 2 == 0 and tostring(p[2]) or "r3"
      local line = string.format(" device_assert r2, %s, %s, 'no'\n", cond, b)
      if holds(p[1], p[2]) then
        passes = passes .. set .. line .. string.format(" device_assert %d, %s, r3, 'no'\n", p[1], cond)
      else
        suite:case {
          insn = "device_assert", name = ("fails: %d %s %s on %s"):format(p[1], cond, b, engine), engine = engine,
          outputs = {o = {"int32", {1, 1}}}, body = set .. line, fault = "device_assert: no: r2 is " .. p[1],
        }
      end
    end
    for _, engine in ipairs(engines) do numbers(suite, "device_assert", cond, engine, {passes .. " mov r1, 3"}, {3}) end
  end
  for _, row in ipairs {
    {"device_assert", "sync", "", "device_assert r64 < 1, 'a'", "r64"},
    {"device_assert", "sync", "", "device_assert r1, about, 1, 'a'", "about"},
  } do util.refused(suite, row) end
  for _, row in ipairs {
    {"call", "sync", "", "call r9, nowhere", "nowhere"}, {"jmp", "sync", "", "jmp nowhere", "nowhere"},
    {"ret", "sync", "", "ret 5", "register"},
  } do util.refused(suite, row) end
  for _, engine in ipairs(engines) do -- a call inside a call, each with a register of its own
    local body = " mov r1, 1\n call r9, f\n jmp e\nf: call r8, g\n mul r1, r1, 3\n call r8, g\n ret r9\ng: add r1, r1, 10\n ret r8\ne:"
    for _, insn in ipairs {"call", "ret", "jmp"} do numbers(suite, insn, "two levels", engine, {body}, {43}) end
  end
  for _, to in ipairs {1000, -1} do
    suite:case {
      insn = "ret", name = "fails: to " .. to, engine = "sync", outputs = {o = {"int32", {1, 1}}},
      body = " mov r1, " .. to .. "\n ret r1", fault = "ret to pc",
    }
  end
end

-- ---- Loads and stores --------------------------------------------------------------------------

-- Registers of the elements of a tensor: an integer's value, a float's fp32 bits.
local function registers_of(t)
  if ref.ints[t.dtype] or t.dtype == "bool" then return util.map(math.tointeger, ref.list(t)) end
  return util.map(function(v) return string.unpack("<i4", string.pack("<f", v)) end, ref.list(t))
end

local function memory(suite)
  local N = 12
  for k, t in ipairs(ref.types) do
    local a = ref.tensor(ref.tame(N, k), t, {1, N})
    local held, engine = registers_of(a), engines[k % 5 + 1]
    for _, hbm in ipairs {true, false} do
      local name, from = t .. (hbm and " in HBM" or " in SBUF"), hbm and "in_a" or "a"
      local loads, stores = {}, {}
      for i = 1, N do
        loads[i] = string.format(" tensor_load r1, %s[0:1, %d:%d]\n tensor_store out_o[0:1, %d:%d], r1\n", from, i - 1, i, i - 1, i)
        stores[i] = string.format(" mov r1, %d\n tensor_store %s[0:1, %d:%d], r1\n", held[i], hbm and "out_o" or "o", i - 1, i)
      end
      suite:case {
        insn = "tensor_load", name = name, engine = engine, hbm = {a = hbm, o = true}, inputs = {a = a},
        outputs = {o = {"int32", {1, N}}}, body = table.concat(loads), expect = {o = words(held)},
      }
      suite:case { -- what it writes is another test's
        insn = "device_print", name = name, engine = engine, hbm = {a = hbm, o = true}, inputs = {a = a},
        outputs = {o = {"int32", {1, 1}}}, body = ' device_print "a", ' .. from .. ", to=" .. (hbm and "stdout" or "stderr"),
        expect = {o = words {0}},
      }
      local none, one = ref.tensor(util.map(function() return 1 end, ref.tame(N, k)), t, {1, N}), {}
      for i = 1, N do one[i] = i == N - 1 and 0 or 1 end
      for zeros, values in pairs {["no zero"] = none, ["a zero"] = ref.tensor(one, t, {1, N})} do
        local fails = zeros == "a zero" and t ~= "float8_e8m0fnu" -- it has no 0: that is 2^-127
        if not (hbm and fails) then suite:case {
          insn = "device_assert_all", name = (fails and "fails: " or "") .. name .. ", " .. zeros, engine = engine, hbm = {a = hbm, o = true},
          inputs = {a = values}, outputs = {o = {"int32", {1, 1}}}, body = " device_assert " .. from .. ', "no"',
          expect = not fails and {o = words {0}} or nil,
          fault = fails and ("device_assert: no: element [0, %d] of %s is 0"):format(N - 2, from) or nil,
        } end
      end
      suite:case {
        insn = "tensor_store", name = name, engine = engine, hbm = {o = hbm}, outputs = {o = {t, {1, N}}},
        body = table.concat(stores), expect = {o = a},
      }
    end
  end
  for t, list in pairs {uint8 = {0x1ff, -1, 256}, int16 = {0x18000, -32769, 65536}, bool = {256, 0, -1}} do -- the low bits; of bool one
    local body, bytes = "", t == "int16" and 2 or 1
    local want = util.map(function(v)
      return string.pack("<I" .. bytes, t == "bool" and (v == 0 and 0 or 1) or v & (1 << 8 * bytes) - 1)
    end, list)
    for i, v in ipairs(list) do body = body .. string.format(" mov r1, %d\n tensor_store out_o[0:1, %d:%d], r1\n", v, i - 1, i) end
    suite:case {
      insn = "tensor_store", name = t .. " of more bits", engine = "vector", hbm = {o = true}, outputs = {o = {t, {1, 3}}},
      body = body, expect = {o = soma.frombytes(table.concat(want), t, {1, 3})},
    }
  end
  local f4 = "a float32[4,8]; p float32[4,8] psum; z float4_e2m1fn_x4[1,1]; "
  for _, row in ipairs {
    {"tensor_load", "sync", f4, "tensor_load r1, a[0:1, 0:2]", "single element"},
    {"tensor_load", "sync", f4, "tensor_load r1, p[0:1, 0:1]", "psum"},
    {"tensor_store", "sync", f4, "tensor_store z, r1", "packed"},
    {"device_print", "sync", f4, 'device_print "p", p', "psum"},
    {"device_assert_all", "sync", f4, 'device_assert p, "no"', "psum"},
    {"tensor_store", "sync", f4, "tensor_store a[0:2, 0:1], r1", "single element"},
  } do util.refused(suite, row) end
end

-- ---- Semaphores --------------------------------------------------------------------------------

local function semaphores(suite)
  local max = 2147483647
  local function passes(insn, name, body)
    for k, engine in ipairs(engines) do -- whoever passes says so
      if insn ~= "nop" or k % 2 == 1 then
        numbers(suite, insn, name, engine, {body .. "\n mov r1, 1"}, {1})
      end
    end
  end
  local sem = "u_ sem\n"
  local function case(c)
    c.extra, c.outputs = sem, c.outputs or {o = {"int32", {1, 1}}}
    suite:case(c)
  end
  local every = " event_semaphore $u_++\n nop $u_==1\n event_semaphore $u_+=6\n nop $u_==7\n event_semaphore $u_--\n nop $u_==6\n"
    .. " event_semaphore $u_-=4\n nop $u_==2\n event_semaphore $u_=9\n nop $u_==9\n"
    .. " nop $u_>=9\n nop $u_>8\n nop $u_<=9\n nop $u_<10\n nop $u_!=8\n mov r2, 9\n nop $u_==r2\n nop $u_>=r2\n nop $u_<=r2\n"
    .. " mov r2, -1\n nop $u_<r2\n nop $u_!=r2\n event_semaphore $u_>=9 $u_-=9\n nop $u_==0\n nop $u_=" .. max .. "\n nop $u_==" .. max .. "\n"
    .. " mov r1, 1\n tensor_store out_o[0:1, 0:1], r1"
  for _, engine in ipairs(engines) do
    for _, insn in ipairs {"event_semaphore", "nop"} do
      case {
        insn = insn, name = "every update and wait on " .. engine, engine = engine, hbm = {o = true}, body = every,
        expect = {o = words {1}},
      }
    end
    case {
      insn = "sem_range_clear", name = "some of three on " .. engine, engine = engine, hbm = {o = true},
      body = " nop $S[200]=5\n nop $S[201]=6\n nop $S[202]=7\n nop $S[202]==7\n sem_range_clear 200, 2\n"
        .. " nop $S[200]==0\n nop $S[201]==0\n nop $S[202]==7\n mov r1, 4\n tensor_store out_o[0:1, 0:1], r1",
      expect = {o = words {4}},
    }
  end
  local last = " nop $u_==" .. max .. "\n"
  for name, body in pairs {
    ["past the maximum"] = " nop $u_=" .. max .. "\n" .. last .. " event_semaphore $u_++\n" .. last,
    ["below zero"] = " event_semaphore $u_--\n nop $u_>0",
    ["a sum past the maximum"] = " nop $u_=" .. max .. "\n" .. last .. " event_semaphore $u_+=" .. max .. "\n nop $u_==0",
    ["a wait and less than it takes"] = " event_semaphore $u_<=3 $u_-=1",
  } do
    case {insn = "event_semaphore", name = "fails: " .. name, engine = "gpsimd", body = body, fault = "its values are 0..2147483647"}
  end
  for _, row in ipairs {
    {"event_semaphore", "sync", "", "event_semaphore", "needs a wait or an update"},
    {"event_semaphore", "sync", "", "event_semaphore $S[3]>=2147483648", "2147483647"},
    {"event_semaphore", "sync", "", "event_semaphore $S[3]+=-1", "-1"},
    {"event_semaphore", "sync", "", "event_semaphore $S[256]++", "256"},
    {"sem_range_clear", "sync", "", "sem_range_clear 3, 0", "the least is 1"},
    {"sem_range_clear", "sync", "", "sem_range_clear 255, 2", "255"},
  } do util.refused(suite, row) end
end

-- ---- Static transfers --------------------------------------------------------------------------

-- Transfer k of three copies row k of a to row k of o.
local function triggers(suite)
  local x = ref.tame(12, 3)
  local a = ref.tensor(x, "float32", {3, 4})
  local function case(name, engine, body, rows, fault)
    local want = {table.unpack(x, 1, 4 * (rows or 0))}
    for i = #want + 1, 12 do want[i] = 0.0 end
    local extra = "w queue dge=none\nu_ sem"
    for k = 0, 2 do extra = extra .. string.format("\ndma w, out_o[%d:%d, :], in_a[%d:%d, :]", k, k + 1, k, k + 1) end
    suite:case {
      insn = "dma_trigger", name = name, engine = engine, hbm = {a = true, o = true}, inputs = {a = a},
      outputs = {o = {"float32", {3, 4}}}, extra = extra, body = body, fault = fault,
      expect = not fault and {o = ref.tensor(want, "float32", {3, 4})} or nil,
    }
  end
  for _, engine in ipairs(engines) do
    case("two of three on " .. engine, engine, " dma_trigger w, 2 $u_\n nop $u_==32", 2)
    case("by a register, one after another, on " .. engine, engine,
      " mov r1, 1\n dma_trigger w, r1 $u_\n nop $u_==16\n dma_trigger w, r1 $u_\n nop $u_==32", 2)
  end
  case("none", "vector", " dma_trigger w, 0 $u_\n nop $u_==0", 0)
  case("more than there are: from the first again", "scalar", " dma_trigger w, 7 $u_\n nop $u_==112", 3)
  case("fails: less than none", "sync", " mov r1, -1\n dma_trigger w, r1", 0, "-1 transfers")
  local queues = "w queue dge=none\ng queue dge=swdge"
  for _, row in ipairs {
    {"dma_trigger", "sync", "", "dma_trigger w, 1", "no static transfer"},
    {"dma_trigger", "gpsimd", "", "dma_trigger g, 1", "dge=none"},
  } do util.refused(suite, row, queues) end
end

return function(suite)
  registers(suite)
  branches(suite)
  memory(suite)
  semaphores(suite)
  triggers(suite)
end
