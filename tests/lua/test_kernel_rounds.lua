-- The body of a loop at run time is recorded a second time: what would differ in a later round is
-- refused with its name and both lines; what is right gives what unrolled Lua gives.
local soma = require "soma"
local t = require "harness"

local function line() return debug.getinfo(2, "l").currentline end
local function kernel() return soma.kernel {target = "trn2"} end
local function tiles(k, n)
  local made = {}
  for i = 1, n do made[i] = k:fill("float32", {8, 4}, i - 1.0) end
  return table.unpack(made)
end
local function refused(what, f)
  local ok, message = pcall(f)
  assert(not ok, "nothing was refused")
  assert(tostring(message):find(what), message)
end
-- The first number of what body(k, tile of zeros) leaves in the tile, or returns.
local function number(body)
  local k = kernel()
  local y = k:output("y", "float32", {8, 4})
  local s = tiles(k, 1)
  k:store(y, body(k, s) or s)
  return soma.core {target = "trn2", checks = "race,uninit"}:run(k:program(), {}).out.y[{0, 0}]
end
local function inc(k, s, by) k.vector.tensor_scalar(s, s, {op0 = "add", imm0 = by or 1.0}) end

t.case("what changes in each round is refused by name", function()
  local function swapped(k, s)
    local a, b = s, tiles(k, 1)
    k:loop(3, function() k.any.tensor_copy(b, a); a, b = b, a end)
  end
  local function counter(k, s)
    local n = 0
    k:loop(4, function()
      n = n + 1
      if n < 3 then inc(k, s) end
    end)
  end
  local function growing(k, s)
    local made = {}
    k:loop(4, function() made[#made + 1] = k:copy(s) end)
  end
  local function helper(k, s)
    local seen = {n = 0}
    local function step() seen.n = seen.n + 1 return seen.n end
    k:loop(4, function() if step() < 3 then inc(k, s) end end)
  end
  local function global(k, s)
    rounds_seen = 0
    k:loop(4, function() rounds_seen = rounds_seen + 1 end)
  end
  local function at_while(k, s)
    local n, r = 0, k:register(3)
    k:while_(r, function()
      n = n + 1
      k.any.sub(r, r, 1)
    end)
  end
  refused("the second round of a loop at run time differs", function() number(swapped) end)
  refused("'n' changes in each round", function() number(counter) end)
  refused("'made.*changes in each round", function() number(growing) end)
  refused("'seen%[\"n\"%]' changes in each round", function() number(helper) end)
  refused("'rounds_seen' changes in each round", function() number(global) end)
  refused("'n' changes in each round", function() number(at_while) end)
end)

t.case("both lines are said", function()
  local first
  local ok, message = pcall(number, function(k, s)
    local odd = false
    k:loop(4, function()
      if odd then
        k.any.memset(s, 1.0)
      else
        k.any.tensor_copy(s, s) first = line()
      end
      odd = not odd
    end)
  end)
  local want = ("memset %%(.*:%d%%), where the first did tensor_copy %%(.*:%d%%)"):format(first - 2, first)
  assert(not ok and message:find(want), message)
end)

t.case("a round that ends early, and one that goes on", function()
  for _, more in ipairs {true, false} do
    refused(more and "where the first ended" or "it ends, where the first did", function()
      number(function(k, s)
        local n = 0
        k:loop(4, function()
          inc(k, s)
          if (n > 0) == more then inc(k, s) end
          n = n + 1
        end)
      end)
    end)
  end
end)

t.case("what is right", function()
  local runs = setmetatable({n = 0}, {__call = function(r) r.n = r.n + 1 end}) -- it is not looked into
  assert(number(function(k, s)
    local kept
    k:loop(3, function()
      runs()
      kept = k:copy(s)
      inc(k, kept)
      k.any.tensor_copy(s, kept)
    end)
    return kept
  end) == 3)
  assert(runs.n == 2, runs.n)
  assert(number(function(k, s)
    k:loop(2, function()
      k:loop(3, function() runs() inc(k, s) end)
    end)
  end) == 6)
  assert(runs.n == 5, runs.n)
  assert(number(function(k, s)
    k:loop(3, function()
      local total = 0
      for i = 1, 2 do
        total = total + i
        inc(k, s, total + 0.0)
      end
    end)
  end) == 12)
end)

t.case("a bound is that at the loop's begin", function()
  assert(number(function(k, s)
    local r = k:register(4)
    k:loop(r, function()
      k.any.mov(r, 1)
      inc(k, s)
    end)
  end) == 4)
end)

t.case("a loop's register has no value after the loop", function()
  refused("no register of that number", function()
    number(function(k, s)
      local last
      k:loop(3, function(i)
        last = i
        inc(k, s)
      end)
      k.any.mov(k:register(), last)
    end)
  end)
end)

-- A list with many loads of weights, of which seed 109 once left the scheduler none to take: the first of those that
-- wait for nothing were all weights that could not be loaded yet.
t.case("weights that cannot be loaded yet hide nothing that can come", function()
  math.randomseed(109)
  local R = math.random
  local k = soma.kernel {target = "trn2"}
  local wide, out = k:input("wide", "float32", {16, 128, 128}), k:output("out", "float32", {128, 64})
  local acc = k:tile("float32", {128, 64}, {memory = "psum"})
  local x, a, ps = k:tile("float32", {128, 64}), nil, {}
  k.vector.memset(x, 1.0)
  a = k:tile("float32", {128, 128})
  k.vector.memset(a, 1.0)
  local xs, ws, n = {x}, {a}, R(60, 160)
  for i = 1, 4 do ps[i] = k:tile("float32", {128, 64}, {memory = "psum"}) end
  for _ = 1, n do
    local c = R(10)
    if c == 1 then
      ws[#ws + 1] = k:load(wide[{{R(0, 15), 1}, {}, {}}]:reshape {128, 128})
    elseif c == 2 then
      local p, v = ps[R(4)], k:tile("float32", {128, 64})
      k.tensor.ldweights(ws[R(#ws)]) k.tensor.matmul(p, xs[R(#xs)], {acc = "write"})
      k.vector.tensor_copy(v, p)
      xs[#xs + 1] = v
    elseif c == 3 then
      local w = k:tile("float32", {128, 128})
      k.vector.tensor_scalar(w, ws[R(#ws)], {op0 = "add", imm0 = 1.0})
      ws[#ws + 1] = w
    else
      for _ = 1, R(1, 12) do
        k.tensor.ldweights(ws[R(math.max(1, #ws - 3), #ws)]) k.tensor.matmul(ps[R(4)], xs[R(2) == 1 and #xs or R(#xs)], {acc = "write"})
      end
    end
  end
  k.tensor.ldweights(a) k.tensor.matmul(acc, x, {acc = "write"})
  local v = k:tile("float32", {128, 64})
  k.vector.tensor_copy(v, acc)
  k:store(out, v)
  local run = soma.core {target = "trn2"}:run(k:program(), {wide = soma.zeros({16, 128, 128}, "float32")})
  t.eq(run.out.out:get(127, 63), 128.0)
end)

t.finish()
