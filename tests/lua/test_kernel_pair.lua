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

-- A product whose contracted dimension is in halves: each core has the partial sums of one, and gets
-- the other's by `exchange`.
local function halves(exchange)
  return function(k)
    local x, w, y = k:input("x", "float32", {256, 128}), k:input("w", "float32", {256, 64}), k:output("y", "float32", {128, 64})
    local sums
    for i = k.core, 1, k.cores do sums = k:matmul(k:load(x:block(i, 128)), k:load(w:block(i, 128)), {into = sums}) end
    if k.cores == 2 then
      local mine = k:copy(sums, {memory = "sbuf"})
      sums = k:add(mine, exchange(k, mine))
    end
    local n = 128 // k.cores
    k:store(y[{k.core * n, n}], sums[{k.core * n, n}])
  end
end
local ways = {
  sendrecv = function(k, mine)
    local other = k:tile("float32", {128, 64})
    k.any.sendrecv(other, mine, {pipe = 3})
    return other
  end,
  sendrecv_gpsimd = function(k, mine)
    local other = k:tile("float32", {128, 64})
    k.any.sendrecv_gpsimd(other, mine)
    return other
  end,
  core_barrier = function(k, mine)
    local parts = k:output("parts", "float32", {2, 128, 64})
    k:store(parts[k.core], mine)
    k.gpsimd.core_barrier({data = parts})
    return k:load(parts[1 - k.core])
  end,
}

t.case("cores exchange by sendrecv, by gpsimd's own, and by hbm with a barrier", function()
  local x, w = soma.randn({256, 128}, "float32", {seed = 2}), soma.randn({256, 64}, "float32", {seed = 3})
  local one = run(soma.kernel({}, halves()), {x = x, w = w})
  for name, way in pairs(ways) do
    local k = soma.kernel({cores = 2}, halves(way))
    local two = run(k, {x = x, w = w})
    eq(soma.equal(two.out.y, one.out.y), true)
    local again = soma.assemble(k:source())
    eq(soma.assemble(again:source()):bytes() == again:bytes(), true)
    for seed = 1, 10 do
      eq(soma.equal(soma.core {schedule = seed}:run(k:program(), {x = x, w = w}).out.y, two.out.y), true)
    end
  end
end)

t.case("a barrier has one semaphore for both cores, whatever else they count", function()
  local source = soma.kernel({cores = 2}, function(k)
    local x = k:input("x", "float32", {128, 64})
    local parts = k:output("y", "float32", {2, 128, 64})
    for _ = 0, 3 * k.core do k:store(parts[k.core], k:exp(k:load(x))) end
    k.any.core_barrier({data = parts})
    k.vector.core_barrier({data = parts})
    k:store(k:output("z", "float32", {2, 128, 64})[k.core], k:load(parts[1 - k.core]))
  end):source()
  assert(source:find("\nbarrier sem 0, core=*\n", 1, true), source)
  local _, n = source:gsub("core_barrier barrier,", "")
  eq(n, 4)
  for section in source:gsub("\nsection ", "\1section "):gmatch "\1([^\1]+)" do
    if section:find "\n%s+halt" then -- not static descriptors
      eq(select(2, section:gsub("core_barrier", "")), section:find "^section sync" and 2 or 0)
    end
  end
end)

t.case("sendrecvs of a pipe keep their order on several engines, and have a queue of their own", function()
  local k = soma.kernel({cores = 2}, function(k)
    local x, y = k:input("x", "float32", {2, 2, 128, 64}), k:output("y", "float32", {2, 2, 128, 64})
    for i, engine in ipairs(k.core == 0 and {"scalar", "sync"} or {"sync", "scalar"}) do
      local t, u = k:load(x[k.core][i - 1]), k:tile("float32", {128, 64})
      k[engine].sendrecv(u, t)
      k:store(y[k.core][i - 1], u)
    end
  end)
  local x = soma.randn({2, 2, 128, 64}, "float32", {seed = 4})
  for seed = 0, 20 do
    local out = soma.core {schedule = seed}:run(k:program(), {x = x}).out.y
    eq(soma.equal(out[0], x[1]) and soma.equal(out[1], x[0]), true)
  end
  assert(k:source():find("q_pipe0_scalar queue", 1, true), k:source())
  wrong("sendrecvs of a pipe need a queue of their own", function()
    return soma.kernel({cores = 2}, function(k)
      local q, t, u = k:queue {engine = "sync"}, k:tile("float32", {128, 64}), k:tile("float32", {128, 64})
      k.any.dma_copy(t, k:input("x", "float32", {128, 64}), {queue = q})
      k.any.sendrecv(u, t, {queue = q})
    end):program()
  end)
end)

-- What a random kernel does is drawn once for both cores, so that their meetings pair; which tiles and
-- engines are drawn for each.
local function random_kernel(seed)
  local state = seed * 2654435761 % 4294967296
  local function draw(n)
    state = (state * 1664525 + 1013904223) % 4294967296
    return state // 65536 % n
  end
  local plan = {}
  for i = 1, 24 do
    plan[i] = {what = draw(12), fixed = draw(2), pipe = draw(2), tile = {[0] = draw(4), draw(4)}, other = {[0] = 1 + draw(3), 1 + draw(3)},
               place = draw(3), engine = {[0] = draw(3), draw(3)}, queue = {[0] = draw(3), draw(3)}}
  end
  return function(k)
    local x, y = k:input("x", "float32", {2, 4, 128, 32}), k:output("y", "float32", {2, 4, 128, 32})
    local shared, tiles, queues = k:output("shared", "float32", {2, 3, 128, 32}), {}, {}
    local engines = {[0] = k.any, k.sync, k.scalar}
    for i = 0, 3 do tiles[i] = k:load(x[k.core][i]) end
    local kept, half = k:temp("kept", "float32", {3, 128, 32}), k:load(x[k.core][0])
    for i = 0, 2 do k:store(kept[i], half) end
    local over = {[0] = k:tile("float32", {128, 32}, {offset = 131072}), k:tile("float32", {128, 32}, {offset = 131072 + 64})}
    k.any.memset(over[0], 1.0)
    k.any.memset(over[1], 2.0)
    for i = 0, 2 do k:store(shared[k.core][i], tiles[i]) end
    k.any.core_barrier({data = shared})
    for _, p in ipairs(plan) do
      local a = tiles[p.tile[k.core]]
      local b = tiles[(p.tile[k.core] + p.other[k.core]) % 4]
      if p.what == 0 then
        local pipe = p.pipe * 3 + p.queue[k.core] -- a queue is of one pipe
        if p.queue[k.core] == 0 then
          engines[p.engine[k.core]].sendrecv(a, b, {pipe = p.pipe})
        else
          queues[pipe] = queues[pipe] or k:queue {engine = p.queue[k.core] == 1 and "sync" or "scalar"}
          k.any.sendrecv(a, b, {pipe = p.pipe, queue = queues[pipe]})
        end
      elseif p.what == 1 then
        k.gpsimd.sendrecv_gpsimd(a, b, {pipe = p.pipe})
      elseif p.what == 2 then -- one writes, both wait, the other reads, both wait
        k:store(shared[k.core][p.place], a)
        engines[p.engine[k.core]].core_barrier({data = shared})
        k.any.dma_copy(b, shared[1 - k.core][p.place])
        k.any.core_barrier({data = shared})
      elseif p.what < 5 then
        k.any.tensor_tensor(a, a, b, {op = "max"})
      elseif p.what == 5 then
        k.any.tensor_scalar(a, b, {op0 = "add", imm0 = p.what})
      elseif p.what == 6 then -- what both cores may have written, twice
        k.any.dma_copy(a, shared[k.core][p.place])
        k.any.dma_copy(b, shared[k.core][p.place])
      elseif p.what == 7 then -- whole overwrites of a tile, and a part of another one
        k.any.memset(a, p.place)
        k.any.tensor_copy(a, b)
        k.any.memset(b:slice(2, 8 * p.place, 16), p.place)
      elseif p.what == 8 then -- the same twice
        local sums = {}
        for i = 1, 2 do
          sums[i] = k:tile("float32", {128, 32}, {name = "sum"})
          k.any.tensor_tensor(sums[i], a, b, {op = "max"})
          if p.place == 0 then k.any.memset(b:slice(2, 0, 1), 3.0) end
        end
        k.any.tensor_tensor(a, sums[1], sums[2], {op = "min"})
      elseif p.what == 9 then -- a temporary that is overwritten, in whole or in part, and read again
        k:store(kept[p.place], a)
        if p.fixed == 1 then k.any.dma_copy(half, kept[p.place]) end
        local columns = p.fixed == 1 and 32 or 16
        k:store(kept[p.place]:slice(2, 0, columns), b:slice(2, 0, columns))
        k.any.dma_copy(half, kept[p.place])
        k.any.tensor_tensor(a, a, half, {op = "max"})
      elseif p.what == 10 then -- tiles that share bytes by their places
        k.any.tensor_copy(over[p.fixed], a)
        k.any.tensor_tensor(a, a, over[1 - p.fixed], {op = "max"})
      else
        k:store(y[k.core][p.place], a)
      end
    end
    for i = 0, 3 do k:store(y[k.core][i], tiles[i]) end
  end
end

t.case("random kernels have the bits that they have one instruction at a time", function()
  local x = soma.randn({2, 4, 128, 32}, "float32", {seed = 5})
  local n, first = tonumber(os.getenv "PAIR_RANDOM" or 40), tonumber(os.getenv "PAIR_FIRST" or 1)
  local fired = {versions = 0, left_out = 0, moved = 0}
  for seed = first, first + n - 1 do
    local want = run(soma.kernel({cores = 2, keep_order = true}, random_kernel(seed)), {x = x})
    for optimize = 0, 2 do
      local k = soma.kernel({cores = 2, optimize = optimize}, random_kernel(seed))
      for schedule = 0, optimize == 1 and 3 or 0 do
        local got = soma.core {schedule = schedule, checks = "race"}:run(k:program(), {x = x})
        t.eq(#got.findings, 0)
        for _, name in ipairs {"y", "shared"} do
          assert(soma.equal(got.out[name], want.out[name]),
                 ("kernel %d, optimize %d, schedule %d: %s"):format(seed, optimize, schedule, name))
        end
      end
      for name, times in pairs(fired) do
        if optimize == 1 then fired[name] = times + k:figures()[name] end
      end
    end
  end
  for _, name in ipairs {"versions", "left_out", "moved"} do
    if os.getenv "PAIR_RANDOM" then io.stderr:write(("# %s: %d\n"):format(name, fired[name])) end
    assert(fired[name] > n, name)
  end
end)

t.case("what meets nothing is refused", function()
  local function only_core(which, f)
    return function()
      return soma.kernel({cores = 2}, function(k)
        local t = k:fill("float32", {128, 64}, k.core)
        if k.core == which then f(k, t, k:tile("float32", {128, 64}), k:output("y", "float32", {128, 64})) end
      end):program()
    end
  end
  wrong("core 1: sendrecv of pipe 2: it would wait for ever; it is number 1 of this core, and the other core has 0",
    only_core(1, function(k, t, u) k.any.sendrecv(u, t, {pipe = 2}) end))
  wrong("core 0: sendrecv_gpsimd of pipe 0: it would wait", only_core(0, function(k, t, u) k.any.sendrecv_gpsimd(u, t) end))
  wrong("core 0: core_barrier: it would wait", only_core(0, function(k, _, _, y) k.any.core_barrier({data = y}) end))
  -- also where a loop at run time says how often
  wrong("core 1: core_barrier: it would wait for ever; it is number 1 of this core, and the other core has 0", only_core(1, function(k, _, _, y)
    local n = k:register()
    k.any.rank_id(n)
    k:loop(0, n, function() k.any.core_barrier({data = y}) end)
  end))
  wrong("core_barrier needs data in a kernel", only_core(0, function(k) k.any.core_barrier() end))
  wrong("the program has one core", soma.kernel, {}, function(k)
    k.any.sendrecv(k:tile("float32", {128, 64}), k:fill("float32", {128, 64}, 1))
  end)
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
  wrong("cores must be 1 or 2, not 3", soma.kernel, {cores = 3}, blocks)
  wrong("with two cores a function must record each", soma.kernel, {cores = 2})
  wrong("after the options must come a function", soma.kernel, {}, 1)
  wrong("two cores as one need gen3; trn1 is gen2", soma.kernel, {cores = 2, target = "trn1"}, blocks)
end)

t.finish()
