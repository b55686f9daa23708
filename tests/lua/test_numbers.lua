-- Numbers that do not fit are refused by a kernel of Lua, at the line of the call and with their value;
-- none is cut to 32 or 64 bits.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq

local bad <const> = {1 << 31, (1 << 32) + 8, (1 << 40) + 8, math.maxinteger, math.mininteger}
local f32 <const> = "'float32'"
local calls <const> = {
  "k:tile(F, {N, 4})", "k:tile(F, {4, N})", "k:tile(F, {2, 2, N})", "k:tile(F, {4, 4}, {offset = N})",
  "k:tile(F, {4, 4}, {partition = N})", "k:queue{priority = N}", "k:order(N, 0)", "k:order(0, N)",
  "k:loop(N, work)", "k:loop(N, 2, work)", "k:loop(0, N, 2, work)", "k:loop(0, 4, N, work)", "k:register(N)",
  "k.any.mov(r, N)", "k.any.add(r, r, N)", "k.any.tensor_copy(d[{{}, {r + N, 8}}], s[{{}, {0, 8}}])",
  "k.any.tensor_copy(d[{{}, {r * N, 8}}], s[{{}, {0, 8}}])", "local x = (r + 5) * N", "local x = (r * 3) * N",
  "k.any.tensor_copy(d[{{}, {N, 8}}], s[{{}, {0, 8}}])", "k.any.tensor_copy(d[{{}, {0, N}}], s)",
  "k.any.tensor_copy(d[{{}, {0, 2, N}}], s[{{}, {0, 2}}])", "k.any.tensor_copy(d[{N, 8}], s[{0, 8}])",
  "local x = d[N]", "local x = a:block(N, 128)", "local x = a:block(N, N)", "local x = d:slice(N, 0, 1)",
  "k.any.tensor_copy(d, s[{{}, {0, 1}}]:broadcast(2, N))", "local x = d:reshape{128, N}",
  "local x = a:reshape{N, N}", "k.any.memset(i, N)", "k.any.memset(u, N)",
  "k.gpsimd.iota(i, {pattern = {{1, 64}}, offset = N})", "k.gpsimd.iota(i, {pattern = {{N, 64}}})",
  "k.gpsimd.iota(i, {pattern = {{1, N}}})", "k.gpsimd.iota(i, {pattern = {{1, 64}}, multiplier = N})",
  "k.any.dma_copy(d, a[{0, 128}], {prio = N})", "k:fill(F, {N, 4}, 1.0)", "k:load(a[{0, 1}], {partitions = N})",
}

local function refused(call, n)
  local k = soma.kernel {target = "trn2"}
  local names = {k = k, a = k:input("a", "float32", {256, 64}), r = k:register(0), math = math}
  for name, dtype in pairs {d = "float32", s = "float32", i = "int32", u = "uint8"} do
    names[name] = k:tile(dtype, {128, 64})
    k.any.memset(names[name], 0)
  end
  names.work = function() k.any.tensor_copy(names.d, names.s) end
  local number = n == math.mininteger and "math.mininteger" or ("(%d)"):format(n)
  local source = call:gsub("F", f32):gsub("N", number)
  local ok, message = pcall(assert(load(source, "=case", "t", names)))
  assert(not ok, source .. " is not refused")
  assert(message:find("case:1:", 1, true), source .. ": " .. message)
end

case("each call refuses what does not fit", function()
  for _, call in ipairs(calls) do
    for _, n in ipairs(bad) do refused(call, n) end
  end
end)

case("a value is named", function()
  local k = soma.kernel {target = "trn2"}
  local i = k:tile("int32", {4, 4})
  for _, of in ipairs {
    {function() k.any.memset(i, 1 << 31) end, "memset: value is 2147483648: int32 has -2147483648 to 2147483647"},
    {function() k:loop((1 << 32) + 2, print) end, "a loop's bound is 4294967298: it must be -2147483648 to 2147483647"},
    {function() k:tile("int32", {4, 4}, {offset = (1 << 32) + 8}) end, "the offset of a tile is 4294967304"},
    {function() k:loop(0, 0x7fffffff, 1 << 30, print) end, "its register would end at 2147483648"},
    {function() soma.spmd({1 << 32, 1 << 32}, print) end, "more than 2147483647 programs"},
  } do
    local ok, message = pcall(of[1])
    assert(not ok and message:find(of[2], 1, true), tostring(message))
  end
  eq(select("#", k:tile("int32", {4, 4}, {offset = 64})), 1)
end)

t.finish()
