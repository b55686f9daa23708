-- Sums of matmuls in loops at run time: the first round writes where nothing has been written, the
-- others add; under checks and against a host's matmul.
local soma = require "soma"
local t = require "harness"

local CHECKS <const> = "race,uninit,psum,overlap,port"
local function wrong(f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok, "nothing was refused")
  return tostring(message)
end
local function same(k, target, a, b, want)
  local got = soma.core {target = target, checks = CHECKS}:run(k:program(), {a = a, b = b}).out.c
  local ok, why = soma.allclose(got, want, {rtol = 1e-4, atol = 1e-4})
  assert(ok, target .. ": " .. tostring(why))
end

local M <const>, N <const> = 64, 96
local function operands(k_rows)
  return soma.randn({k_rows, M}, "float32", {seed = 1}), soma.randn({k_rows, N}, "float32", {seed = 2})
end
local function kernel(target, rows)
  local k = soma.kernel {target = target}
  return k, k:input("a", "float32", {rows, M}), k:input("b", "float32", {rows, N}), k:output("c", "float32", {M, N})
end

for _, target in ipairs {"trn1", "trn2", "trn3"} do
  t.case(target .. ": a sum over the rounds", function()
    local k, a, b, c = kernel(target, 512)
    local sum = k:tile("float32", {M, N}, {memory = "psum"})
    k:loop(0, 512, 128, function(i) k:matmul(k:load(a[{i, 128}]), k:load(b[{i, 128}]), {into = sum}) end)
    k:store(c, sum)
    local x, y = operands(512)
    same(k, target, x, y, soma.matmul(x:transpose(), y))
  end)

  t.case(target .. ": a sum of each round, stored there", function()
    local k, a, b, c = kernel(target, 512)
    local total = k:fill("float32", {M, N}, 0.0)
    k:loop(0, 512, 256, function(i)
      local sum = k:matmul(k:load(a[{i, 128}]), k:load(b[{i, 128}]))
      k:matmul(k:load(a[{i + 128, 128}]), k:load(b[{i + 128, 128}]), {into = sum})
      k:add(total, sum, {into = total})
    end)
    k:store(c, total)
    local x, y = operands(512)
    same(k, target, x, y, soma.matmul(x:transpose(), y))
  end)

  t.case(target .. ": two loops, one in the other", function()
    local k, a, b, c = kernel(target, 768)
    local sum = k:tile("float32", {M, N}, {memory = "psum"})
    k:loop(0, 768, 384, function(i)
      k:loop(0, 384, 128, function(j)
        local at = k:register(0)
        k.any.add(at, i, j)
        k:matmul(k:load(a[{at, 128}]), k:load(b[{at, 128}]), {into = sum})
      end)
    end)
    k:store(c, sum)
    local x, y = operands(768)
    same(k, target, x, y, soma.matmul(x:transpose(), y))
  end)

  t.case(target .. ": bounds in registers, downwards, and a sum that has begun before", function()
    local k, a, b, c = kernel(target, 640)
    local first, last = k:register(384), k:register(-1)
    local sum = k:matmul(k:load(a[{512, 128}]), k:load(b[{512, 128}]))
    local other = k:tile("float32", {M, N}, {memory = "psum"})
    k:loop(first, last, -128, function(i)
      local at, bt = k:load(a[{i, 128}]), k:load(b[{i, 128}])
      k:matmul(at, bt, {into = sum})
      k:matmul(at, bt, {into = other})
    end)
    k:store(c, k:add(sum, k:copy(other, {memory = "sbuf"})))
    local x, y = operands(640)
    local rest = soma.matmul(x:slice({0, 512}, {}):transpose(), y:slice({0, 512}, {}))
    same(k, target, x, y, soma.matmul(x:transpose(), y) + rest)
  end)
end

-- gpsimd comes to the end of the outer loop while scalar is late at the inner one's.
t.case("an engine outside of the loops waits for their end, not for the inner one's", function()
  local k = soma.kernel {target = "trn2"}
  local x, y, z = k:input("x", "float32", {128, 512}), k:output("y", "float32", {128, 512}), k:output("z", "float32", {128, 8})
  local own = k:tile("float32", {128, 8})
  k.gpsimd.memset(own, 1.0)
  local a = k:load(x)
  local b, c, d = k:tile("float32", {128, 512}), k:tile("float32", {128, 512}), k:tile("float32", {128, 8})
  k.scalar.activate(c, a, {fn = "copy"})
  k:loop(0, 2, 1, function()
    k:loop(0, 3, 1, function()
      k.vector.tensor_copy(d, c[{{}, {0, 8}}])
      k.scalar.activate(b, a, {fn = "copy"})
      k.vector.tensor_scalar(a[{{}, {0, 8}}], b[{{}, {0, 8}}], {op0 = "add", imm0 = 1.0})
      for _ = 1, 4 do k.scalar.activate(c, b, {fn = "copy"}) end
    end)
  end)
  k.gpsimd.tensor_copy(own, own)
  k:store(y, a)
  k:store(z, own)
  local p, input = k:program(), soma.randn({128, 512}, "float32", {seed = 1})
  for schedule = 0, 4 do
    local run = soma.core {target = "trn2", checks = "race,uninit", schedule = schedule}:run(p, {x = input})
    assert(soma.allclose(run.out.y:slice({}, {0, 8}), input:slice({}, {0, 8}) + 6, {rtol = 1e-5, atol = 1e-5}))
  end
end)

t.case("one round, and rounds that a register counts", function()
  for _, n in ipairs {128, 256, 512} do
    local k, a, b, c = kernel("trn2", 512)
    local stop = k:register(n)
    local sum = k:tile("float32", {M, N}, {memory = "psum"})
    k:loop(0, stop, 128, function(i) k:matmul(k:load(a[{i, 128}]), k:load(b[{i, 128}]), {into = sum}) end)
    k:store(c, sum)
    local x, y = operands(512)
    same(k, "trn2", x, y, soma.matmul(x:slice({0, n}, {}):transpose(), y:slice({0, n}, {})))
  end
end)

t.case("columns that a register moves are sums of their own", function()
  local k, a, b, c = kernel("trn2", 256)
  local sum = k:tile("float32", {M, N}, {memory = "psum"})
  local ats, bts = {}, {}
  for i = 0, 1 do ats[i], bts[i] = k:load(a[{i * 128, 128}]), k:load(b[{i * 128, 128}]) end
  k:loop(0, N, 32, function(j)
    for i = 0, 1 do k:matmul(ats[i], bts[i]:slice(2, j, 32), {into = sum:slice(2, j, 32)}) end
  end)
  k:store(c, sum)
  local x, y = operands(256)
  same(k, "trn2", x, y, soma.matmul(x:transpose(), y))
end)

t.case("what a loop needs apart counts as emitted", function()
  local k, a, b, c = kernel("trn2", 512)
  local sum = k:tile("float32", {M, N}, {memory = "psum"})
  k:loop(0, 512, 128, function(i) k:matmul(k:load(a[{i, 128}]), k:load(b[{i, 128}]), {into = sum}) end)
  local out = k:copy(sum, {memory = "sbuf"})
  k:store(c, out)
  k:program()
  assert(k:figures().instructions == 6, k:figures().instructions)
  assert(k:life(out).first == 6 and k:life(out).last == 7, k:life(out).first)
end)

t.case("a while is refused where its rounds differ", function()
  local k, a, b = kernel("trn2", 128)
  local sum = k:tile("float32", {M, N}, {memory = "psum"})
  local at, bt, n = k:load(a), k:load(b), k:register(3)
  k:while_(n, function()
    k:matmul(at, bt, {into = sum})
    k.any.sub(n, n, 1)
  end)
  local message = wrong(function() k:program() end)
  assert(message:find("matmul: in a while at run time acc must be write or add", 1, true), message)
end)

t.finish()
