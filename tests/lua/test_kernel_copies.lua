-- Instructions that break a rule and are mended by copies, where the kernel allows it: values against
-- a reference, under checks; without `copies` each is refused with its rule.
local soma = require "soma"
local t = require "harness"

local CHECKS <const> = "race,uninit,psum,overlap,port"
local ROWS <const>, COLS <const> = 128, 96

-- body(k, x, y, z) records a kernel that makes z from x and y; want(x, y) is the reference. rule: what
-- the refusal without copies says; nil: it is legal on that target.
local function case(name, body, want, rule, o)
  o = o or {}
  for _, target in ipairs(o.targets or {"trn1", "trn2", "trn3"}) do
    t.case(name .. ", " .. target, function()
      local function record(copies)
        local k = soma.kernel {target = target, copies = copies}
        local shape = o.shape or {ROWS, COLS}
        body(k, k:input("x", "float32", shape), k:input("y", "float32", shape),
             k:output("z", o.dtype or "float32", o.out or shape))
        return k
      end
      local ok, message = pcall(record, false)
      assert(not ok and message:find(rule, 1, true), tostring(message))
      local k = record(true)
      local x, y = soma.randn(o.shape or {ROWS, COLS}, "float32", {seed = 1}), soma.randn(o.shape or {ROWS, COLS}, "float32", {seed = 2})
      local got = soma.core {target = target, checks = CHECKS}:run(k:program(), {x = x, y = y}).out.z
      local same, why = soma.allclose(got, want(x, y), {rtol = o.rtol or 0, atol = 0})
      assert(same, why)
      assert(k:figures().copies > 0 and k:report():find("copies make instructions legal", 1, true))
    end)
  end
end

local function in_psum(k, v)
  local p = k:tile("float32", {ROWS, COLS}, {memory = "psum"})
  k.vector.tensor_copy(p, k:load(v))
  return p
end

case("two sources in psum", function(k, x, y, z)
  local out = k:tile("float32", {ROWS, COLS})
  k.vector.tensor_tensor(out, in_psum(k, x), in_psum(k, y), {op = "subtract"})
  k:store(z, out)
end, function(x, y) return x - y end, "psum")

case("a load to psum and a store from there", function(k, x, _, z)
  local p = k:tile("float32", {ROWS, COLS}, {memory = "psum"})
  k.any.dma_copy(p, x)
  k.any.dma_copy(z, p)
end, function(x) return x end, "psum")

case("operands in hbm", function(k, x, y, z)
  k.vector.tensor_tensor(z, x, y, {op = "mult"})
end, function(x, y) return x * y end, "hbm")

case("start partitions", function(k, x, y, z)
  local a, b, out = k:load(x), k:load(y), k:fill("float32", {ROWS, COLS}, 0.0)
  k.vector.tensor_tensor(out[{5, 40}], a[{5, 40}], b[{5, 40}], {op = "add"})
  k:store(z, out)
end, function(x, y)
  local z = soma.zeros({ROWS, COLS}, "float32")
  z:slice({5, 45}, {}):assign(x:slice({5, 45}, {}) + y:slice({5, 45}, {}))
  return z
end, "partition")

case("one partition where all are needed", function(k, x, y, z)
  local out = k:tile("float32", {ROWS, COLS})
  local row = k:load(y[{3, 1}])
  k.vector.tensor_tensor(out, k:load(x), row, {op = "add"})
  k:store(z, out)
end, function(x, y) return x + y:slice({3, 4}, {}) end, "partition")

case("more free dimensions than an engine has", function(k, x, _, z)
  local a, out = k:load(x):reshape {ROWS, 2, 3, 2, 4, 2}, k:tile("float32", {ROWS, COLS})
  k.vector.tensor_scalar(out:reshape {ROWS, 2, 3, 2, 4, 2}, a:permute {1, 6, 5, 4, 3, 2}, {op0 = "mult", imm0 = 2.0})
  k:store(z, out)
end, function(x)
  return (x:reshape {ROWS, 2, 3, 2, 4, 2}):transpose {0, 5, 4, 3, 2, 1}:reshape {ROWS, COLS} * 2
end, "dimensions")

case("types that a hardware queue does not convert", function(k, x, _, z)
  local narrow = k:tile("bfloat16", {ROWS, COLS})
  k.any.dma_copy(narrow, x, {dge = "hwdge"})
  k.any.dma_copy(z, narrow, {dge = "hwdge"})
end, function(x) return x:astype "bfloat16":astype "float32" end, "hwdge", {targets = {"trn2", "trn3"}})

case("in a loop, by its register", function(k, x, y, z)
  k:loop(0, 2 * ROWS, ROWS, function(i)
    k.vector.tensor_tensor(z[{i, ROWS}], x[{i, ROWS}], y[{i, ROWS}], {op = "max"})
  end)
end, function(x, y) return soma.maximum(x, y) end, "hbm", {shape = {2 * ROWS, COLS}})

t.case("what no copy mends is refused with its own rule", function()
  local k = soma.kernel {target = "trn2", copies = true}
  local a = k:fill("float32", {ROWS, COLS}, 1.0)
  local count = k.last
  local ok, message = pcall(function() k.scalar.tensor_tensor(a, a, a, {op = "add"}) end)
  assert(not ok and message:find("scalar", 1, true), message)
  ok, message = pcall(function() k.vector.tensor_tensor(a, a, a[{{}, {0, 7}}], {op = "add"}) end)
  assert(not ok and message:find("tensor_tensor", 1, true), message)
  assert(k.last == count)
end)

t.case("legal instructions are not touched", function()
  local k = soma.kernel {target = "trn2", copies = true}
  local x, y = k:input("x", "float32", {ROWS, COLS}), k:output("y", "float32", {ROWS, COLS})
  k:store(y, k:add(k:load(x), 1.0))
  k:program()
  assert(k:figures().copies == 0 and k:figures().instructions == 3)
end)

t.finish()
