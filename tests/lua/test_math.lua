-- Elementwise operators and functions, types, reductions, products, comparison.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises
local inf, nan = math.huge, 0 / 0

local A = {0x1.19999ap+0, 0x1.19999ap+1, 0x1.a66666p+1, 0x1.93e594p+99, -0x1.eccccCp+2}
local B = {0x1.99999ap-4, 0x1.7d7840p+26, -0x1.a66666p+1, 0x1.b7cdfep-34, 0x1.4p+1}

case("float32 arithmetic is NumPy's, bit for bit", function()
  local a, b = soma.tensor(A), soma.tensor(B)
  eq((a + b):tolist(), {0x1.333334p+0, 0x1.7d784p+26, 0.0, 0x1.93e594p+99, -0x1.4ccccCp+2})
  eq((a - b):tolist(), {1.0, -0x1.7d784p+26, 0x1.a66666p+2, 0x1.93e594p+99, -0x1.466666p+3})
  eq((a * b):tolist(), {0x1.c28f5ep-4, 0x1.a39dep+27, -0x1.5c7aep+3, 0x1.5af1d8p+66, -0x1.34p+4})
  eq((a / b):tolist(), {0x1.6p+3, 0x1.79f506p-26, -1.0, inf, -0x1.8a3d7p+1})
  eq((-a):tolist()[5], 0x1.eccccCp+2)
end)

case("result types", function()
  local function type_of(x, y) return (soma.ones(1, x) + soma.ones(1, y)).dtype end
  eq(type_of("float32", "float32"), "float32") eq(type_of("bfloat16", "bfloat16"), "float32")
  eq(type_of("int8", "int8"), "int8") eq(type_of("int8", "uint8"), "int16")
  eq(type_of("uint16", "int32"), "int32") eq(type_of("uint32", "int8"), "int64")
  eq(type_of("bool", "bool"), "int32") eq(type_of("int64", "float16"), "float32")
  eq(type_of("uint8", "uint64"), "uint64")
  raises("no integer type holds both", type_of, "uint64", "int8")
  raises("no arithmetic on float4_e2m1fn_x4", type_of, "float4_e2m1fn_x4", "float32")
  eq((soma.ones(1, "int8") + 1).dtype, "int8") eq((soma.ones(1, "int8") + 0.5).dtype, "float32")
  eq((soma.ones(1, "int8") / 2).dtype, "float32") eq((2 - soma.ones(1)):tolist(), {1.0})
  raises("int8 cannot hold 200", function() return soma.ones(1, "int8") + 200 end)
  raises("must be a tensor or a number, not string", function() return soma.ones(1) + "x" end)
end)

case("integers wrap, divide and shift", function()
  local a, b = soma.tensor({127, -128, 5}, "int8"), soma.tensor({1, -1, 3}, "int8")
  eq((a + b):tolist(), {-128, 127, 8})
  local x, y = soma.tensor({5, -5, 5, -5}, "int32"), soma.tensor({3, 3, -3, -3}, "int32")
  eq((x // y):tolist(), {1, -2, -2, 1}) eq((x % y):tolist(), {2, 1, -1, -2})
  local m = soma.tensor({math.mininteger}, "int64")
  eq((m // -1):tolist(), {math.mininteger}) eq((m % -1):tolist(), {0})
  raises("divided by zero", function() return x // 0 end)
  raises("divided by zero", function() return x % 0 end)
  raises("negative integer exponent", function() return x ^ -1 end)
  eq((soma.tensor({2, 3}, "int32") ^ 5):tolist(), {32, 243})
  local u = soma.tensor({0x80, 0x81}, "uint8")
  eq((u >> 1):tolist(), {0x40, 0x40}) eq((u << 1):tolist(), {0, 2}) eq((u >> 8):tolist(), {0, 0})
  local s = soma.tensor({-128, 64}, "int8")
  eq((s >> 1):tolist(), {-64, 32}) eq((s >> 9):tolist(), {-1, 0}) eq((~s):tolist(), {127, -65})
  eq((u & 0x0f):tolist(), {0, 1}) eq((u | 1):tolist(), {0x81, 0x81}) eq((u ~ 0xff):tolist(), {0x7f, 0x7e})
  raises("needs integers", function() return soma.ones(1) & 1 end)
  eq((~soma.tensor({true, false})):tolist(), {false, true})
end)

case("float mod, floor division, power", function()
  local x, y = soma.tensor({5, -5, 5, -5, 7.5}), soma.tensor({3, 3, -3, -3, 2})
  eq((x % y):tolist(), {2.0, 1.0, -1.0, -2.0, 1.5}) eq((x // y):tolist(), {1.0, -2.0, -2.0, 1.0, 3.0})
  eq((soma.tensor({1e30}) % 7):tolist(), {1.0}) -- 1000000015047466219876688855040
  eq((soma.tensor({1, inf, nan}) % soma.tensor({inf, 1, 1})):tolist(), {1.0, nan, nan})
  eq((soma.tensor({2, -2, 0, 4}) ^ soma.tensor({-2, 3, 0, 0.5})):tolist(), {0.25, -8.0, 1.0, 2.0})
  eq((soma.tensor({-8, 0, inf, 2}) ^ soma.tensor({1 / 3, -1, -1, 200})):tolist(), {nan, inf, 0.0, inf})
end)

case("maximum and minimum skip NaN and order zeros", function()
  local x, y = soma.tensor({nan, 1, -0.0, 0.0, nan}), soma.tensor({2, nan, 0.0, -0.0, nan})
  eq(soma.maximum(x, y):tolist(), {2.0, 1.0, 0.0, 0.0, nan})
  eq(soma.minimum(x, y):tolist(), {2.0, 1.0, -0.0, -0.0, nan})
  eq(soma.maximum(soma.tensor({-1}, "int64"):view("uint64"), soma.ones(1, "uint64")):tolist(), {-1})
end)

case("comparisons", function()
  local x, y = soma.tensor({1, 2, 3, nan}), soma.tensor({2, 2, 2, nan})
  eq(x:lt(y):tolist(), {true, false, false, false}) eq(x:ge(y):tolist(), {false, true, true, false})
  eq(x:eq(2):tolist(), {false, true, false, false}) eq(x:ne(y):tolist(), {true, false, true, true})
  local big = soma.tensor({math.maxinteger, math.maxinteger - 1}, "int64")
  eq(big:eq(math.maxinteger):tolist(), {true, false})
  eq(x:gt(0):any(), true) eq(x:gt(0):all(), false)
end)

case("broadcasting", function()
  local x = soma.arange(3):reshape {3, 1} + soma.arange(4):reshape {1, 4}
  eq(x:tolist(), {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}})
  eq((soma.ones({2, 1, 3}) * soma.ones({4, 1})).shape, {2, 4, 3})
  eq((soma.zeros({0, 3}) + soma.ones({1, 3})).shape, {0, 3})
  eq((soma.arange(6):reshape({2, 3}):transpose() + soma.arange(2)):tolist(), {{0, 4}, {1, 5}, {2, 6}})
  raises("float32[2] and float32[3] do not broadcast: 2 and 3 in dimension 0", function()
    return soma.ones(2) + soma.ones(3)
  end)
end)

case("functions, within one rounding of the exact value", function()
  local cases = { -- argument, the exact value rounded to float32
    exp = {{0.0, 1.0}, {1.0, 0x1.5bf0a8p+1}, {-1.0, 0x1.78b564p-2}, {10.0, 0x1.5829dcp+14},
      {-0x1.5d3334p+6, 0x1.098716p-126}, {0x1.62ccccp+6, 0x1.f46ff8p+127}, {0x1.0624dep-10, 0x1.004192p+0},
      {-inf, 0.0}, {inf, inf}, {nan, nan}, {100.0, inf}},
    tanh = {{0x1.99999ap-4, 0x1.983d78p-4}, {1.0, 0x1.85efacp-1}, {5.0, 0x1.fff41ap-1},
      {-0x1.333334p-2, -0x1.2a4ddcp-2}, {-inf, -1.0}, {inf, 1.0}, {-0.0, -0.0}},
    erf = {{0x1.99999ap-4, 0x1.cca5eap-4}, {1.0, 0x1.af767ap-1}, {2.5, 0x1.ffcaa8p-1},
      {-3.5, -0x1.ffffe8p-1}, {inf, 1.0}, {-40.0, -1.0}, {-0.0, -0.0}},
    log = {{0x1.4484cp-100, -0x1.144f6ap+6}, {0.5, -0x1.62e43p-1}, {2.0, 0x1.62e43p-1},
      {10.0, 0x1.26bb1cp+1}, {0x1.00068ep+0, 0x1.a37aa2p-14}, {1.0, 0.0}, {0.0, -inf}, {-1.0, nan}},
    sin = {{1.0, 0x1.aed548p-1}, {3.0, 0x1.210386p-3}, {100.0, -0x1.03425cp-1}, {1000.0, 0x1.a75cc2p-1},
      {-0.0, -0.0}},
    cos = {{1.0, 0x1.14a28p-1}, {3.0, -0x1.fae04cp-1}, {100.0, 0x1.b981dcp-1}, {1000.0, 0x1.1ff026p-1},
      {0.0, 1.0}},
    log1p = {{0x1.0c6f7ap-20, 0x1.0c6f72p-20}, {0x1.99999ap-3, 0x1.756502p-3}, {3.0, 0x1.62e43p+0}},
    expm1 = {{0x1.0c6f7ap-20, 0x1.0c6f82p-20}, {0x1.333334p-2, 0x1.664164p-2}, {3.0, 0x1.315e5cp+4}},
    sqrt = {{2.0, 0x1.6a09e6p+0}, {4.0, 2.0}, {-1.0, nan}},
    round = {{0.5, 0.0}, {1.5, 2.0}, {2.5, 2.0}, {-0.4, -0.0}}, floor = {{-0.5, -1.0}, {2.0, 2.0}},
    ceil = {{0.5, 1.0}, {2.0, 2.0}}, sign = {{-3.0, -1.0}, {0.0, 0.0}, {nan, nan}},
    sigmoid = {{0.0, 0.5}, {-inf, 0.0}, {inf, 1.0}}, relu = {{-1.0, 0.0}, {2.0, 2.0}},
    reciprocal = {{4.0, 0.25}}, rsqrt = {{4.0, 0.5}}, square = {{3.0, 9.0}}, abs = {{-0.0, 0.0}},
  }
  for name, list in pairs(cases) do
    for _, c in ipairs(list) do
      local x = soma.tensor({c[1]})
      eq(soma[name](x):get(0), c[2], name .. "(" .. c[1] .. ")")
      eq(x[name](x):get(0), c[2], name)
    end
  end
end)

case("functions of integers", function()
  eq(soma.abs(soma.tensor({-5, 5}, "int8")):tolist(), {5, 5})
  eq(soma.sign(soma.tensor({-1}, "int64"):view("uint64")):tolist(), {1})
  eq(soma.relu(soma.tensor({-1}, "int64"):view("uint64")):tolist(), {-1})
  eq(soma.exp(soma.zeros(1, "int8")).dtype, "float32")
  eq(soma.isnan(soma.tensor({nan, 1})):tolist(), {true, false})
  eq(soma.isfinite(soma.tensor({inf, 1})):tolist(), {false, true})
end)

case("where", function()
  local c = soma.tensor({true, false})
  eq(soma.where(c, soma.tensor({1, 2}), 0):tolist(), {1.0, 0.0})
  local payload = soma.tensor({0x7fc01234, 0x7f800001}, "uint32"):view("float32")
  eq(soma.where(c, payload, payload):view("uint32"):tolist(), {0x7fc01234, 0x7f800001})
  eq(soma.where(c:reshape {2, 1}, soma.ones({1, 2}, "int8"), soma.zeros(1, "int8")):tolist(), {{1, 1}, {0, 0}})
  raises("must be bool", soma.where, soma.ones(2), 1, 2)
end)

case("reductions", function()
  local x = soma.arange(6):reshape({2, 3}):astype("float32")
  eq(x:sum(), 15.0) eq(x:sum(0):tolist(), {3.0, 5.0, 7.0}) eq(x:sum(-1):tolist(), {3.0, 12.0})
  eq(x:sum(1, true):tolist(), {{3.0}, {12.0}}) eq(x:sum(nil, true):tolist(), {{15.0}})
  eq(x:max(), 5.0) eq(x:min(0):tolist(), {0.0, 1.0, 2.0}) eq(x:mean(1):tolist(), {1.0, 4.0})
  eq(x:transpose():sum(0):tolist(), {3.0, 12.0})
  -- in double: 2^24 + 1 + 1 would lose both ones in fp32
  eq(soma.tensor({2^24, 1, 1}):sum(), 2.0^24 + 2)
  eq(soma.full(1000, 127, "int8"):sum(), 127000) eq(soma.full(3, 255, "uint8"):sum(0).ndim, 0)
  eq(soma.full({1, 3}, 255, "uint8"):sum(1).dtype, "uint64") eq(soma.tensor({true, true}):sum(), 2)
  eq(soma.tensor({nan, 1, -2}):max(), 1.0) eq(soma.tensor({nan, 1, -2}):min(), -2.0)
  eq(soma.tensor({-0.0, 0.0}):max(), 0.0) eq(soma.tensor({0.0, -0.0}):min(), -0.0)
  eq(soma.tensor({nan}):max(), nan)
  eq(soma.zeros({0}):sum(), 0.0) eq(soma.zeros({2, 0}):sum(1):tolist(), {0.0, 0.0})
  raises("no elements in float32[0]", function() soma.zeros({0}):max() end)
  raises("axis 2 of a tensor with 2", x.sum, x, 2)
end)

case("matmul", function()
  local a, b = soma.arange(6):reshape({2, 3}), soma.arange(12):reshape({3, 4}) - 5
  eq(soma.matmul(a, b):tolist(), {{5, 8, 11, 14}, {-4, 8, 20, 32}})
  eq(soma.matmul(a:astype("float32"), b):tolist(), {{5.0, 8.0, 11.0, 14.0}, {-4.0, 8.0, 20.0, 32.0}})
  eq(soma.matmul(a:transpose(), a).shape, {3, 3})
  eq(soma.matmul(soma.zeros({2, 0}), soma.zeros({0, 3})):tolist(), {{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}})
  raises("needs [M, K] and [K, N], got int32[2, 3] and int32[2, 3]", soma.matmul, a, a)
end)

-- The contraction in order, in double: sums that another order would round otherwise.
case("matmul in order", function()
  for k = 1, 9 do
    local n = 2 * k + 5
    local a = soma.randn({2, k}, "float32", {seed = k}) * 1e9
    local b = soma.randn({k, n}, "float32", {seed = 20 + k}) * 1e-9
    local x, y, want = a:tolist(), b:tolist(), {{}, {}}
    for m = 1, 2 do
      for j = 1, n do
        local sum = 0.0
        for i = 1, k do sum = sum + x[m][i] * y[i][j] end
        want[m][j] = string.unpack("f", string.pack("f", sum))
      end
    end
    eq(soma.matmul(a, b):tolist(), want)
  end
end)

case("allclose reports the worst", function()
  local x, y = soma.tensor({{1, 2}, {3, 4}}), soma.tensor({{1, 2.5}, {3, 14}})
  local ok, report = soma.allclose(x, y, {rtol = 0, atol = 0})
  eq(ok, false)
  eq(report, "not close: 2 of 4 elements differ by more than 0 + 0 * |expected|; the worst:\n" ..
    "  [1, 1]  4, expected 14, difference 10\n  [0, 1]  2, expected 2.5, difference 0.5")
  eq(soma.allclose(x, x, {rtol = 0, atol = 0}), true) eq(soma.allclose(x, y, {atol = 10}), true)
  eq(soma.allclose(soma.tensor({nan}), soma.tensor({nan})), false)
  eq(soma.allclose(soma.tensor({nan}), soma.tensor({nan}), {equal_nan = true}), true)
  eq(soma.allclose(soma.tensor({inf}), soma.tensor({inf})), true)
  eq(soma.allclose(soma.tensor({inf}), soma.tensor({-inf}), {atol = inf}), false)
  eq(soma.allclose(soma.ones({2, 2}), 1), true)
  eq(select(2, soma.allclose(x, soma.ones(4))), "shapes differ: float32[2, 2], expected float32[4]")
  local big = soma.tensor({math.maxinteger}, "int64")
  eq(soma.allclose(big, big - 1, {rtol = 0, atol = 0}), false)
  raises("did you mean 'rtol'", soma.allclose, x, x, {rtoll = 1})
  raises("negative", soma.allclose, x, x, {rtol = -1})
  raises("allclose: operand 2 must be a tensor or a number, not nil", soma.allclose, x, nil)
end)

case("equal compares bits", function()
  local z = soma.tensor({0.0, 1}) local m = soma.tensor({-0.0, 1})
  local ok, report = soma.equal(z, m)
  eq(ok, false)
  eq(report, "1 of 2 elements differ in their bits; the first:\n  [0]  0, expected -0 (bits 0, expected 80000000)")
  eq(soma.equal(z, z:copy()), true)
  eq(select(2, soma.equal(z, z:astype("float16"))), "types differ: float32[2], expected float16[2]")
end)

case("random numbers are the documented generator's", function()
  -- xoshiro256** after splitmix64(1); quantiles by another implementation of AS 241
  local u = soma.uniform(6, "float32", {seed = 1})
  eq(u:tolist(), {0x1.67e55ep-1, 0x1.0a76acp-1, 0x1.25f12ep-1, 0x1.90b872p-2, 0x1.64f492p-1, 0x1.260918p-3})
  eq(soma.uniform(6, "int32", {seed = 1, low = 0, high = 10}):tolist(), {7, 5, 5, 3, 6, 1})
  eq(soma.randn(6, "float32", {seed = 1}):tolist(), {0x1.10ce22p-1, 0x1.a3d5dap-5, 0x1.7ea44ap-3,
    -0x1.1a7a7ep-2, 0x1.0858ccp-1, -0x1.107d04p+0})
  local big = soma.randn(100000, "float32", {seed = 7})
  eq(math.abs(big:mean()) < 0.02, true) eq(math.abs((big * big):mean() - 1) < 0.02, true)
  raises("'seed' is required", soma.randn, 3)
  raises("'seed' is required", soma.uniform, 3, "float32", {low = 1})
  raises("low < high", soma.uniform, 3, "int8", {seed = 1, low = 3, high = 3})
  raises("int8 cannot hold 199", soma.uniform, 3, "int8", {seed = 1, low = 0, high = 200})
end)

t.finish()
