-- soma.kernel on two cores: one program of both, equal to that of one, and what is refused.
local soma = require "soma"
local t = require "harness"
local eq = t.eq

-- What calling f raises; fails when it raises nothing.
local function wrong(part, f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok, "nothing was refused")
  message = tostring(message)
  assert(message:find(part, 1, true), ("expected %q in: %s"):format(part, message))
end
local function here() return debug.getinfo(2, "l").currentline end
local function run(k, inputs) return soma.core {target = k.target}:run(k:program(), inputs) end
local x = soma.randn({512, 64}, "float32", {seed = 1})

-- Blocks of x in turns, each by way of a temporary; core 1 takes more instructions for the same.
local function blocks(k)
  local x, y = k:input("x", "float32", {512, 64}), k:output("y", "float32", {512, 64})
  local kept = k:temp("kept", "float32", {128, 64})
  for i = k.core, 3, k.cores do
    local e = k:exp(k:load(x:block(i, 128)))
    if k.core == 1 then e = k:mul(e, 1.0) end
    k:store(kept, e)
    k:store(y:block(i, 128), k:mul(k:load(kept), k:load(k:constant(soma.ones({128, 1})))))
  end
end

t.case("one core and two give equal bits", function()
  for _, target in ipairs {"trn2", "trn3"} do
    local one, two = soma.kernel({target = target}, blocks), soma.kernel({target = target, cores = 2}, blocks)
    local a, b = run(one, {x = x}), run(two, {x = x})
    eq(soma.equal(a.out.y, b.out.y), true)
    eq(b.time_ns < 0.75 * a.time_ns, true)
    eq(#b.stats.core, 2)
  end
end)

t.case("shared tensors are one, temporaries are each core's own, equal tiles have one name", function()
  local two = soma.kernel({cores = 2}, blocks)
  local source = two:source()
  for _, part in ipairs {"\nx tensor", "\ny tensor", "\nkept tensor", "\nkept_2 tensor", "const1 tensor"} do
    assert(source:find(part, 1, true), part .. "\n" .. source)
  end
  eq(source:find("const1_2", 1, true), nil)
  local again = soma.assemble(source)
  eq(soma.assemble(again:source()):bytes() == again:bytes(), true)
  eq(soma.equal(soma.core {}:run(again, {x = x}).out.y, run(two, {x = x}).out.y), true)
  local alike = soma.kernel({cores = 2}, function(k) k:store(k:output("y", "float32", {2, 64})[{k.core, 1}], k:exp(k:load(k:input("x", "float32", {2, 64})[{k.core, 1}]))) end)
  local _, tiles = alike:source():gsub(" tile ", "")
  eq(tiles, 2)
end)

t.case("many tiles of one name, in other places on the other core", function()
  local k = soma.kernel({cores = 2}, function(k)
    local x, y = k:input("x", "float32", {512, 64}), k:output("y", "float32", {512, 64})
    if k.core == 1 then k:tile("float32", {128, 40}) end
    for i = 0, 199 do
      local t = k:load(x:block(i % 4, 128):slice(2, 0, 1 + (i * 7 + k.core) % 60))
      if i % 2 == k.core then k:store(y:block(i % 4, 128):slice(2, 0, t.shape[2]), t) end
    end
  end)
  local again = soma.assemble(k:source())
  eq(soma.equal(run(k, {x = x}).out.y, soma.core {}:run(again, {x = x}).out.y), true)
end)

t.case("loops at run time and static queues on both", function()
  local function kernel(k)
    local x, y = k:input("x", "float32", {512, 64}), k:output("y", "float32", {512, 64})
    local n = 512 // k.cores
    k:loop(n // 64, function(i)
      k:store(y[{k.core * n, n}][{i * 64, 64}], k:exp(k:load(x[{k.core * n, n}][{i * 64, 64}])))
    end)
    local t = k:tile("float32", {128, 64})
    k.any.dma_copy(t, x[{k.core * 128, 128}], {dge = "none"})
    k.any.dma_copy(k:output("z", "float32", {2, 128, 64})[k.core], t, {dge = "none"})
    if k.cores == 1 then
      k.any.dma_copy(t, x[{128, 128}], {dge = "none"})
      k.any.dma_copy(k:output("z", "float32", {2, 128, 64})[1], t, {dge = "none"})
    end
  end
  local a, b = run(soma.kernel({}, kernel), {x = x}), run(soma.kernel({cores = 2}, kernel), {x = x})
  eq(soma.equal(a.out.y, b.out.y), true)
  eq(soma.equal(a.out.z, b.out.z), true)
end)

t.case("spmd gives each core half of the grid, jit runs on both", function()
  local seen = {}
  local k = soma.spmd({3, 2}, function(k, i, j)
    seen[#seen + 1] = ("%d%d%d"):format(k.core, i, j)
    local x, y = k:input("x", "float32", {6, 64}), k:output("y", "float32", {6, 64})
    k:store(y[{2 * i + j, 1}], k:load(x[{2 * i + j, 1}]))
  end, {cores = 2})
  eq(table.concat(seen, " "), "000 001 010 111 120 121")
  local rows = x:slice {0, 6}
  eq(soma.equal(run(k, {x = rows}).out.y, rows), true)
  local function double(k, x)
    local y = k:output("y", x.dtype, x.shape)
    local n = x.shape[1] // k.cores
    k:store(y[{k.core * n, n}], k:mul(k:load(x[{k.core * n, n}]), 2.0))
    return y
  end
  local two = soma.jit(double, {cores = 2})
  eq(soma.equal(two(x:slice {0, 128}), x:slice {0, 128} * 2), true)
  eq(#two.run.stats.core, 2)
end)

t.case("report, figures and lives are of each core", function()
  local tiles = {}
  local k = soma.kernel({cores = 2}, function(k)
    local x, y = k:input("x", "float32", {128, 64}), k:output("y", "float32", {2, 128, 64})
    if k.core == 1 then k:store(y[1], k:fill("float32", {128, 64}, 0)) end
    tiles[k.core] = k:load(x)
    k:store(y[k.core], tiles[k.core])
  end)
  local report, figures = k:report(), k:figures()
  assert(report:find("^core 0\n") and report:find("\ncore 1\n"), report)
  eq(#figures.core, 2) eq(figures.core[1].instructions, 2) eq(figures.core[2].instructions, 4)
  eq(k:life(tiles[0]).first, 0) eq(k:life(tiles[1]).first, 2)
end)

t.case("errors name the core and the line", function()
  local line
  local function late(k)
    local t = k:tile("float32", {128, 64})
    if k.core == 0 then k.any.memset(t, 0) end
    line = here() + 1
    k:store(k:output("y", "float32", {2, 128, 64})[k.core], t)
  end
  local ok, message = pcall(function() return soma.kernel({cores = 2}, late):program() end)
  eq(ok, false)
  assert(message:find(("test_kernel_pair.lua:%d: core 1: dma_copy src: reads byte 0"):format(line), 1, true), message)
  wrong("core 1: tensor_copy src: 32 elements", soma.kernel, {cores = 2}, function(k)
    if k.core == 1 then k.any.tensor_copy(k:tile("float32", {128, 64}), k:tile("float32", {128, 32})) end
  end)
  wrong("core 1: y is float32[128, 64] on core 0, not float32[128, 65]", soma.kernel, {cores = 2}, function(k)
    k:output("y", "float32", {128, 64 + k.core})
  end)
  wrong("core 1: y is a tensor of role input on core 0, not output", soma.kernel, {cores = 2}, function(k)
    k[k.core == 0 and "input" or "output"](k, "y", "float32", {128, 64})
  end)
  wrong("core 0: load: x has 256 rows", soma.kernel, {cores = 2}, function(k) k:load(k:input("x", "float32", {256, 4})) end)
  wrong("cores is 1 or 2, not 3", soma.kernel, {cores = 3}, blocks)
  wrong("of two cores a function records each", soma.kernel, {cores = 2})
  wrong("after the options comes a function", soma.kernel, {}, 1)
  wrong("two cores as one need gen3; trn1 is gen2", soma.kernel, {cores = 2, target = "trn1"}, blocks)
end)

t.finish()
