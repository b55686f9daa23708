-- Transfers and copies of one line, round after round, become one (kernel/merge.c): where they may, and where what comes
-- between forbids it. Each kernel has the bits that it has as written.
local soma = require "soma"
local t = require "harness"

local P <const>, F <const>, N <const> = 128, 64, 4
local x = soma.randn({P, N * F}, "float32", {seed = 1})

-- n: how many a report says that one stands for, 0 for none.
local function merged(name, n, kernel, options)
  t.case(name, function()
    local want
    for optimize = 0, 1 do
      local o = {optimize = optimize, front_end = "neuronxcc.nki"}
      for key, value in pairs(options or {}) do o[key] = value end
      local k = soma.kernel(o, kernel)
      local out = soma.core {checks = "race,uninit", schedule = optimize}:run(k:program(), {x = x})
      want = want or out.out.y
      local left = 0
      for some in k:report():gmatch "(%d+) of %d+: those of several rounds are one" do left = left + tonumber(some) end
      t.eq(left, optimize * n)
      t.eq(#out.findings, 0)
      local equal, how = soma.equal(out.out.y, want)
      assert(equal, how)
    end
  end)
end

local function tensors(k) return k:input("x", "float32", {P, N * F}), k:output("y", "float32", {2, P, N * F}) end
local function columns(v, n, width, step) return v:slice(2, n * (step or F), width or F) end

-- Loads of x, round after round; between(k, n, tile, x): after each. Then what they brought is stored, doubled.
local function loads(between, step, load)
  return function(k)
    local x, y = tensors(k)
    local z, tiles = k:temp("z", "float32", {P, N * F}), {}
    local all = k:load(x)
    k:store(z, all)
    for n = 0, N - 1 do
      local v = k:tile("float32", {P, F})
      tiles[n] = v;
      (load or function() k.any.dma_copy(v, columns(z, n, F, step)) end)(k, n, v, z)
      if between then between(k, n, v, z) end
    end
    for n = 0, N - 1 do
      local twice = k:tile("float32", {P, F})
      k.any.tensor_scalar(twice, tiles[n], {op0 = "mult", imm0 = 2.0})
      k.any.dma_copy(columns(y[k.core], n), twice, {dge = n % 2 == 0 and "hwdge" or "swdge"}) -- two kinds: they stay apart
    end
  end
end
merged("loads", 3, loads())
merged("a write of their source between", 0, loads(function(k, n, _, z) k:store(columns(z, N - 1), k:fill("float32", {P, F}, n)) end))
merged("a write of other bytes of it is one of it", 0, loads(function(k, n, _, z) k:store(z:slice(2, 0, 1), k:fill("float32", {P, 1}, n)) end))
merged("loads that overlap", 0, loads(nil, F // 2))
merged("distances that differ", 1, function(k)
  local x, y = tensors(k)
  local tiles, last = {}, k:tile("float32", {P, 3 * F // 2})
  for n = 0, 2 do
    tiles[n] = k:tile("float32", {P, F // 2})
    k.any.dma_copy(tiles[n], columns(x, n == 2 and 3 or n, F // 2, F // 2))
  end
  for n = 0, 2 do k.any.tensor_scalar(columns(last, n, F // 2, F // 2), tiles[n], {op0 = "mult", imm0 = 2.0}) end
  k.any.dma_copy(y[0]:slice(2, 0, 3 * F // 2), last)
end)
merged("an order of the caller's", 1, loads(nil, nil, function(k, n, v, z)
  k.any.dma_copy(v, columns(z, n))
  if n == 2 then k:order(k.last - 1, k.last) end
end))
merged("a second write of one of them", 2, loads(function(k, n, v) if n == 3 then k.any.memset(v:slice(2, 0, 8), 1.0) end end))
merged("a part of a tile", 2, loads(nil, nil, function(k, n, v, z)
  if n == 3 then
    k.any.memset(v, 1.0)
    k.any.dma_copy(v:slice(2, 0, 8), z:slice(2, 3 * F, 8))
  else
    k.any.dma_copy(v, columns(z, n))
  end
end))
merged("halves of tiles", 0, function(k)
  local x, y = tensors(k)
  local tiles, last = {}, k:tile("float32", {P, N * F // 2})
  for n = 0, N - 1 do
    tiles[n] = k:tile("float32", {P, F})
    k.any.dma_copy(columns(tiles[n], 1, F // 2, F // 2), columns(x, n, F // 2))
  end
  for n = 0, N - 1 do k.any.tensor_scalar(columns(last, n, F // 2, F // 2), columns(tiles[n], 1, F // 2, F // 2), {op0 = "mult", imm0 = 2.0}) end
  k.any.dma_copy(y[0]:slice(2, 0, N * F // 2), last)
end)
merged("what was read before it came", 2, loads(nil, nil, function(k, n, v, z)
  if n == 3 then
    k.any.memset(v, 1.0)
    k.any.tensor_copy(k:tile("float32", {P, F}), v)
    k.any.dma_copy(v, columns(z, n))
  else
    k.any.dma_copy(v, columns(z, n))
  end
end), {without = 4}) -- else that is a version
merged("tiles at one fixed place", 0, function(k) -- with another one beside it
  local x, y = tensors(k)
  local beside, last = k:tile("float32", {P, F}, {offset = 131072 + 256}), k:tile("float32", {P, N * F})
  k.any.memset(beside, 0.5)
  for n = 0, N - 1 do
    local v = k:tile("float32", {P, F}, {offset = 131072})
    k.any.dma_copy(v, columns(x, n))
    k.any.tensor_tensor(columns(last, n), v, beside, {op = "add"})
  end
  k:store(y[0], last)
end)
merged("more bytes than one instruction moves", 0, function(k) -- of one partition
  local x, y = tensors(k)
  local z, tiles = k:temp("z", "float32", {2, P, 1024}), {}
  local all = k:load(x)
  for n = 0, 3 do k.any.dma_copy(z[n // 2]:slice(2, n % 2 * 512, 256), all) k.any.dma_copy(z[n // 2]:slice(2, n % 2 * 512 + 256, 256), all) end
  for n = 0, 1 do
    tiles[n] = k:tile("float32", {P, 1024})
    k.any.dma_copy(tiles[n], z[n])
    k.any.dma_copy(y[n], tiles[n]:slice(2, 0, N * F), {dge = n == 0 and "hwdge" or "swdge"})
  end
end, {without = 2 | 8})
merged("rows from HBM to HBM, which have no partitions", 0, function(k)
  local x, y = tensors(k)
  for n = 0, N - 1 do k.any.dma_copy(y[0]:slice(1, n * 4, 4), x:slice(1, n * 4, 4)) end
  for n = 0, N - 1 do k.any.dma_copy(columns(y[1], n), columns(x, n)) end
end)

-- Copies out of one tile into tiles of their own, then doubled.
local function copies(from, between)
  return function(k)
    local x, y = tensors(k)
    local v, other = from(k)
    k.any.dma_copy(v, x)
    local tiles = {}
    for n = 0, N - 1 do
      tiles[n] = k:tile("float32", {P, F})
      k.any.tensor_copy(tiles[n], columns(v, n))
      if between then between(k, n, v, other) end
    end
    for n = 0, N - 1 do
      local twice = k:tile("float32", {P, F})
      k.any.tensor_scalar(twice, tiles[n], {op0 = "mult", imm0 = 2.0})
      k.any.dma_copy(columns(y[0], n), twice, {dge = n % 2 == 0 and "hwdge" or "swdge"})
    end
  end
end
local function one(k) return k:tile("float32", {P, N * F}) end
local function two_at_one_place(k)
  local v = k:tile("float32", {P, N * F}, {offset = 131072})
  return v, k:tile("float32", {P, N * F}, {offset = 131072})
end
local function add_one(k, _, v)
  local some = v:slice(2, 3 * F, 8)
  k.any.tensor_scalar(some, some, {op0 = "add", imm0 = 1.0})
end
merged("copies", 3, copies(one))
merged("a write of what is copied between", 0, copies(one, add_one))
merged("a write of it by another tile of its place", 0,
  copies(two_at_one_place, function(k, _, _, other) add_one(k, nil, other) end))

-- Stores of tiles of their own, round after round, to z, which is read then.
local function stores(between, step)
  return function(k)
    local x, y = tensors(k)
    local z = k:temp("z", "float32", {P, N * F})
    local all, seen = k:load(x), k:tile("float32", {P, N * F})
    k:store(z, all)
    for n = 0, N - 1 do
      local v = k:tile("float32", {P, F})
      k.any.tensor_scalar(v, columns(all, n), {op0 = "mult", imm0 = 3.0})
      k.any.dma_copy(columns(z, n, F, step), v)
      if between then between(k, n, v, z, seen, y) end
    end
    k.any.dma_copy(seen, z)
    k.any.tensor_scalar(seen, seen, {op0 = "mult", imm0 = 2.0})
    k:store(y[k.core], seen)
  end
end
merged("stores", 3, stores())
merged("stores that overlap", 0, stores(nil, F // 2))
merged("a read of where they go between", 0, stores(function(k, _, _, z, _, y)
  local v = k:tile("float32", {P, N * F})
  k.any.dma_copy(v, z)
  k.any.tensor_scalar(v, v, {op0 = "add", imm0 = 1.0})
  k:store(y[1], v)
end))
merged("a write of where they go between", 0, stores(function(k, n, _, z) k.any.dma_copy(z:slice(2, 3, 1), k:fill("float32", {P, 1}, n)) end))
merged("a write of what is stored after it", 1, stores(function(k, n, v) if n == 1 then k.any.memset(v:slice(2, 0, 3), 9.0) end end))

-- From tiles of their own to tiles of their own, which come where the last one stood: one of them is read before.
merged("a read of a copy before the last one", 2, function(k)
  local x, y = tensors(k)
  local from, to, all = {}, {}, k:load(x)
  for n = 0, N - 1 do
    from[n], to[n] = k:tile("float32", {P, F}), k:tile("float32", {P, F}, {memory = "psum"})
    k.any.tensor_scalar(from[n], columns(all, n), {op0 = "mult", imm0 = 3.0})
    k.any.tensor_copy(to[n], from[n])
    if n == 1 then
      local v = k:tile("float32", {P, F})
      k.any.tensor_scalar(v, to[0], {op0 = "mult", imm0 = 2.0})
      k:store(columns(y[1], 0), v)
    end
  end
  local last = k:tile("float32", {P, N * F})
  for n = 0, N - 1 do k.any.tensor_scalar(columns(last, n), to[n], {op0 = "add", imm0 = 1.0}) end
  k:store(y[0], last)
end)

-- What a merged load brought is stored again from the same tiles, round after round.
merged("stores of what is merged itself", 3, function(k)
  local x, y = tensors(k)
  local whole = k:tile("float32", {P, N * F})
  local others = {}
  for n = 0, 1 do -- two rounds of whole tiles
    others[n] = k:tile("float32", {P, 2 * F})
    k.any.dma_copy(others[n], x:slice(2, 2 * n * F, 2 * F))
  end
  for n = 0, 1 do k.any.dma_copy(columns(y[1], n), columns(others[0], n)) end -- halves of one of them
  for n = 0, 1 do k.any.tensor_scalar(whole:slice(2, 2 * n * F, 2 * F), others[n], {op0 = "mult", imm0 = 2.0}) end
  for n = 0, 1 do k.any.dma_copy(y[0]:slice(2, 2 * n * F, 2 * F), whole:slice(2, 2 * n * F, 2 * F)) end
end)

merged("in a loop at run time", 0, function(k)
  local x, y = tensors(k)
  local v = k:load(x)
  k:loop(2, function()
    for n = 0, N - 1 do k.any.dma_copy(columns(y[0], n), columns(v, n)) end
    k.any.tensor_scalar(v, v, {op0 = "mult", imm0 = 2.0})
  end)
end)

-- Each core's halves of what both can see, with barriers between.
local function shared(barrier)
  return function(k)
    local x, y = tensors(k)
    local parts = k:output("parts", "float32", {2, P, N * F})
    k:store(parts[k.core], k:load(x))
    k.any.core_barrier({data = parts})
    local seen = {}
    for n = 0, N - 1 do
      seen[n] = k:tile("float32", {P, F})
      k.any.dma_copy(seen[n], columns(parts[1 - k.core], n))
      if barrier then
        k.any.core_barrier({data = parts})
        if n == 1 then k:store(parts[k.core], k:fill("float32", {P, N * F}, k.core)) end
        k.any.core_barrier({data = parts})
      end
    end
    for n = 0, N - 1 do
      local v = k:tile("float32", {P, F})
      k.any.tensor_scalar(v, seen[n], {op0 = "mult", imm0 = 2.0})
      k.any.dma_copy(columns(y[k.core], n), v, {dge = n % 2 == 0 and "hwdge" or "swdge"})
    end
  end
end
merged("loads of what the other core has written", 6, shared(false), {cores = 2})
merged("barriers between", 0, shared(true), {cores = 2})
merged("barriers of other data", 0, function(k)
  local x, y = tensors(k)
  local other = k:output("other", "float32", {2, P, N * F})
  k:store(other[k.core], k:load(x))
  for n = 0, N - 1 do
    local v = k:tile("float32", {P, F})
    k.any.dma_copy(v, columns(x, n)) -- an input is what the other core can reach too
    k.any.core_barrier({data = other})
    local more = k:tile("float32", {P, F})
    k.any.tensor_scalar(more, v, {op0 = "mult", imm0 = n + 1.0})
    k.any.dma_copy(columns(y[k.core], n), more, {dge = n % 2 == 0 and "hwdge" or "swdge"})
  end
end, {cores = 2})

t.finish()
