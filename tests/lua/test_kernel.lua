-- soma.kernel, soma.spmd and soma.jit: values under checks, loops, views, and what is refused.
local soma = require "soma"
local t = require "harness"
local checks = "race,uninit,psum,overlap,port"

local function run(k, inputs, target)
  return soma.core {target = target or "trn2", checks = checks}:run(k:program(), inputs)
end
local function close(a, b, tolerance)
  local same, why = soma.allclose(a, b, {rtol = tolerance or 1e-5, atol = tolerance or 1e-6})
  assert(same, why)
end
-- What calling f raises; fails when it raises nothing.
local function wrong(f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok, "nothing was refused")
  return tostring(message)
end
local function here() return debug.getinfo(2, "l").currentline end

t.case("a view that a register has moved can be seen as another type", function()
  local k = soma.kernel {target = "trn2"}
  local x, y = k:input("x", "float32", {8, 128, 4}), k:output("y", "bfloat16", {8, 128, 8})
  k:loop(8, function(r)
    local half = k:tile("bfloat16", {128, 8})
    k.any.dma_copy(half, x[r]:view "bfloat16")
    k.any.dma_copy(y[r], half)
  end)
  local a = soma.randn({8, 128, 4}, "float32", {seed = 2})
  assert(soma.equal(run(k, {x = a}).out.y, a:view "bfloat16"))
end)

t.case("rows by an index vector; explicit dimensions", function()
  local k = soma.kernel {target = "trn2"}
  local x, i = k:input("x", "float32", {64, 16}), k:input("i", "uint32", {32, 1})
  local y, z, rows = k:output("y", "float32", {32, 16}), k:output("z", "float32", {8, 15}), {}
  local index, some = k:load(i), k:tile("float32", {32, 16})
  k.gpsimd.dma_copy(some, x[{0, 32}]:gather(index), {dge = "swdge"})
  k:store(y, some)
  k:store(z, k:load(x:ap({{32, 8}, {1, 15}}, 17)))
  for r = 1, 32 do rows[r] = {(r * 37) % 64} end
  local a = soma.randn({64, 16}, "float32", {seed = 1})
  local out = run(k, {x = a, i = soma.tensor(rows, "uint32")}).out
  for r = 0, 31 do
    for c = 0, 15 do t.eq(out.y:get(r, c), a:get(rows[r + 1][1], c)) end
  end
  for r = 0, 7 do
    for c = 0, 14 do t.eq(out.z:get(r, c), a:get((17 + 32 * r + c) // 16, (17 + 32 * r + c) % 16)) end
  end
end)

t.case("a softmax of four blocks", function()
  local k = soma.kernel {target = "trn2"}
  local x, y = k:input("x", "float32", {512, 256}), k:output("y", "float32", {512, 256})
  for i = 0, 3 do k:store(y[{i * 128, 128}], k:softmax(k:load(x[{i * 128, 128}]))) end
  local a = soma.randn({512, 256}, "float32", {seed = 1})
  local e = soma.exp(a - a:max(1, true))
  close(run(k, {x = a}).out.y, e / e:sum(1, true))
end)

t.case("matmuls accumulate, operands are transposed", function()
  for _, target in ipairs {"trn1", "trn2", "trn3"} do
    local k = soma.kernel {target = target}
    local a, b, c = k:input("a", "float32", {64, 256}), k:input("b", "float32", {256, 96}), k:output("c", "float32", {64, 96})
    local sum
    for i = 0, 1 do
      local at = k:copy(k:transpose(k:load(a[{{}, {i * 128, 128}}])), {memory = "sbuf"})
      sum = k:matmul(at, k:load(b[{i * 128, 128}]), {into = sum})
    end
    k:store(c, sum)
    local x, y = soma.randn({64, 256}, "float32", {seed = 1}), soma.randn({256, 96}, "float32", {seed = 2})
    close(run(k, {a = x, b = y}, target).out.c, soma.matmul(x, y), 1e-4)
  end
end)

t.case("a masked add of 1000 elements in blocks of 256", function()
  local k = soma.spmd({4}, function(k, i)
    local x, y, z = k:input("x", "float32", {1000}), k:input("y", "float32", {1000}), k:output("z", "float32", {1000})
    k:store(z:block(i, 256), k:add(k:load(x:block(i, 256)), k:load(y:block(i, 256))))
  end, {target = "trn2"})
  local x, y = soma.randn({1000}, "float32", {seed = 1}), soma.randn({1000}, "float32", {seed = 2})
  assert(soma.equal(run(k, {x = x, y = y}).out.z, x + y))
end)

t.case("a loop at run time moves by its register", function()
  local k = soma.kernel {target = "trn2"}
  local x, y = k:input("x", "float32", {1024, 64}), k:output("y", "float32", {1024, 64})
  k:loop(0, 1024, 128, function(i)
    k:store(y[{i, 128}], k:mul(k:load(x[{i, 128}]), 3.0))
  end)
  local a = soma.randn({1024, 64}, "float32", {seed = 4})
  assert(soma.equal(run(k, {x = a}).out.y, a * 3))
end)

t.case("arithmetic, comparisons, where", function()
  local k = soma.kernel {target = "trn2"}
  local x, y = k:input("x", "float32", {8, 32}), k:output("y", "float32", {8, 32})
  local a = k:load(x)
  local m = k:mean(a)
  local big = k:gt(a, m)
  local chosen = k:where(big, k:sub(a, m), k:div(1.0, k:add(k:abs(a), 2.0)))
  k:store(y, k:where(k:sub(a, a), 7.0, chosen)) -- a mask of zeros
  local v = soma.randn({8, 32}, "float32", {seed = 9})
  local mean = v:mean(1, true)
  close(run(k, {x = v}).out.y, soma.where(v:gt(mean), v - mean, soma.full({8, 32}, 1, "float32") / (soma.abs(v) + 2)), 1e-4)
end)

t.case("jit runs, caches, checks", function()
  local recorded = 0
  local double = soma.jit(function(k, x, scale)
    recorded = recorded + 1
    local y = k:output("y", x.dtype, x.shape)
    k:store(y, k:mul(k:load(x), scale))
    return y
  end, {target = "trn2"})
  local a = soma.randn({16, 8}, "float32", {seed = 1})
  assert(soma.equal(double(a, 2.0), a * 2) and soma.equal(double(a * 2, 2.0), a * 4))
  assert(recorded == 1)
  assert(soma.equal(double(a, 3.0), a * 3) and recorded == 2)
  assert(#double:check().findings == 0)
  assert(double:source():find("tensor_scalar", 1, true) and double:report():find("waits", 1, true))
  assert(double.run.stats.time_ns == nil or double.run.stats.time_ns > 0)
end)

t.case("mistakes name the line of the script and the rule", function()
  local k = soma.kernel {target = "trn2"}
  local x = k:input("x", "float32", {256, 64})
  local file = debug.getinfo(1, "S").source:match "^@(.*)$"
  local function expect(message, line, ...)
    assert(message:sub(1, #file + #tostring(line) + 2) == file .. ":" .. line .. ":", message)
    for _, part in ipairs {...} do assert(message:find(part, 1, true), message) end
  end
  local line = here() + 1
  expect(wrong(function() k:load(x) end), line, "x has 256 rows, but a tile has at most 128 partitions")
  line = here() + 1
  expect(wrong(function() return x[{200, 64}] end), line, "200 to 263 of dimension 1 of x[256, 64]: it has 256")
  line = here() + 1
  expect(wrong(function() k.vector.tensor_coppy(x, x) end), line, "no instruction 'tensor_coppy'")
  local a = k:load(x[{0, 128}])
  line = here() + 1
  expect(wrong(function() k.vector.tensor_scalar(a, a, {op0 = "mul", imm0 = 2.0}) end), line, "tensor_scalar: op0 must be one of", "not mul")
  line = here() + 1
  expect(wrong(function() k.scalar.tensor_tensor(a, a, a, {op = "add"}) end), line, "tensor_tensor", "scalar")
  line = here() + 1
  expect(wrong(function() k.vector.tensor_tensor(a, a, a, {op = "add", opp = 1}) end), line, "tensor_tensor has no option 'opp'")
  local fresh = k:tile("float32", {128, 64})
  k:store(k:output("y", "float32", {128, 64}), fresh)
  expect(wrong(function() k:program() end), here() - 1, "fresh")
end)

t.case("memory that does not fit says what is live", function()
  local k = soma.kernel {target = "trn2"}
  local y = k:output("y", "float32", {128, 40000})
  local a = k:fill("float32", {128, 40000}, 1.0)
  local b = k:fill("float32", {128, 40000}, 2.0)
  k:store(y, k:add(a, b))
  local message = wrong(function() k:program() end)
  for _, part in ipairs {"a", "160000", "test_kernel.lua:"} do assert(message:find(part, 1, true), message) end
end)

t.case("the report shows memory over time and what spilling moves", function()
  local k = soma.kernel {target = "trn2", spill = true, sbuf_bytes = 4096, optimize = 0}
  local y, tiles = k:output("y", "float32", {384, 512}), {}
  for i = 0, 2 do tiles[i] = k:fill("float32", {128, 512}, i) end
  for i = 0, 2 do k:store(y[{i * 128, 128}], tiles[i]) end
  k:program()
  local report, line = k:report(), here() - 3
  assert(report:find("%d of them spill tiles: %d+ bytes, [%d.]+ us of dma\n"), report)
  assert(report:find("sbuf over time, most bytes of a partition in use out of 4096 by instruction:\n", 1, true), report)
  assert(report:find("\n         0..0            2048  ############\n", 1, true), report)
  assert(report:find("  most, 4096 bytes, at instruction 1, [^\n]*test_kernel.lua:" .. line .. "\n"), report)
  assert(not report:find("psum over time", 1, true))
  assert(report:find("\nspills:\n  [^\n]-: 262144 bytes, to HBM after [^\n]*lua:" .. line .. ", back before [^\n]*lua:" .. line + 1 .. "\n"), report)
end)

t.case("memory over time is all that places of the source may lie in", function()
  local k = soma.kernel {target = "trn2", front_end = "neuronxcc.nki"} -- whose toolchain keeps the last 16 KiB
  local y, v = k:output("y", "float32", {128, 1024}), k:tile("float32", {128, 1024}, {offset = 221184})
  k.any.memset(v, 1.0)
  k:store(y, v)
  k:program()
  assert(k:report():find("sbuf over time, most bytes of a partition in use out of 229376 by instruction:\n", 1, true), k:report())
end)

-- Six tiles of which four fit where room is short, each loaded and used twice. `between` comes after all have been
-- used once.
local function six(options, between)
  local strided = options.strided
  options.strided = nil
  return soma.kernel(options, function(k)
    local x, y = k:input("x", "float32", {6, 128, 256}), k:output("y", "float32", {2, 2, 6, 128, 256})
    local from, tiles = k:output("from", "float32", {6, 128, 256}), {}
    for i = 0, 5 do k.any.dma_copy(from[i], x[i]) end
    if k.cores == 2 then k.any.core_barrier({data = from}) end
    for i = 0, 5 do tiles[i] = k:load(strided and from[i]:reshape {256, 128}:permute {2, 1} or from[i]) end
    for i = 0, 5 do k:store(y[k.core][0][i], tiles[i]) end
    if between then between(k, from, tiles) end
    for i = 0, 5 do k:store(y[k.core][1][i], tiles[i]) end
  end)
end

t.case("what HBM has still is loaded again, what has changed since is stored", function()
  local x = soma.randn({6, 128, 256}, "float32", {seed = 8})
  local stored = 0
  local function spills(what, between, options, want_loads, want_stores)
    options = options or {}
    options.optimize = 0 -- an order of the builder's would store what it has twice, and spill nothing
    local cores, strided = options.cores, options.strided
    local checks = options.checks or "race,uninit"
    local compare = options.compare
    options.checks, options.compare = nil, nil
    options.spill, options.sbuf_bytes = true, 4096
    local k = six(options, between)
    local loads, stores = select(2, k:report():gsub("loaded again before", "")), select(2, k:report():gsub("to HBM after", ""))
    stored = stored + stores
    assert(want_loads == nil or (loads > 0) == want_loads and (stores > 0) == want_stores, ("%s: %d loads, %d stores"):format(what, loads, stores))
    local want = six({keep_order = true, optimize = 0, cores = cores, strided = strided}, between)
    for schedule = 0, 1 do
      local got = soma.core {schedule = schedule, checks = checks}:run(k:program(), {x = x})
      local right = run(want, {x = x})
      for _, name in ipairs {"y", compare} do t.eq(soma.equal(got.out[name], right.out[name]), true, what) end
    end
  end
  spills("nothing changes", nil, nil, true, false)
  for i = 0, 5 do
    spills("the rows of " .. i, function(k, from) k:store(from[i], k:fill("float32", {128, 256}, i)) end)
  end
  t.eq(stored > 0, true)
  spills("a row of each", function(k, from)
    for i = 0, 5 do k:store(from[i]:slice(1, 0, 1), k:fill("float32", {1, 256}, i)) end
  end, nil, true, true) -- those that come back before
  spills("the tiles", function(k, _, tiles) for i = 0, 5 do k.any.memset(tiles[i]:slice(2, 0, 1), i) end end, nil, true, true)
  spills("two cores", nil, {cores = 2}, true, false)
  spills("the other core, between meetings about something else", function(k, from)
    local other = k:output("other", "float32", {128, 256})
    k:store(other:slice(2, 128 * k.core, 128), k:fill("float32", {128, 128}, 0))
    k.any.core_barrier({data = other})
    for i = 0, 5 * k.core do if k.core == 1 then k:store(from[i], k:fill("float32", {128, 256}, 7)) end end
    for _ = 1, 20 do -- the rows have arrived then
      k:store(other:slice(2, 128 * k.core, 128), k:fill("float32", {128, 128}, 0))
      k.any.core_barrier({data = other})
    end
  end, {cores = 2, checks = "uninit"}, true, true) -- only barriers of the rows order what is done with them
  spills("tiles that came back are loaded whole", function(k, from, tiles)
    for i = 0, 5 do k.any.tensor_scalar(tiles[i], tiles[i], {op0 = "add", imm0 = 1.0}) end
    for i = 0, 5 do k.any.tensor_scalar(tiles[i]:slice(2, 0, 8), tiles[5 - i]:slice(2, 8, 8), {op0 = "add", imm0 = 1.0}) end
    for i = 0, 5 do k.any.dma_copy(tiles[i], from[5 - i]) end
    for i = 0, 5 do k:store(from[i], tiles[i]) end
  end, nil, true, true)
  spills("pieces of four bytes", nil, {strided = true}, false, true)
  spills("more writes of other rows than are looked at", function(k, from)
    for i = 1, 70 do k:store(from[5]:slice(1, i, 1), k:fill("float32", {1, 256}, i)) end
    for i = 0, 4 do k:store(from[i], k:fill("float32", {128, 256}, i)) end
  end)
  spills("tiles that a temporary has had are loaded whole, and used by turns", function(k, from, tiles)
    for i = 0, 5 do k.any.tensor_scalar(tiles[i], tiles[i], {op0 = "add", imm0 = 1.0}) end
    for i = 0, 5 do k.any.dma_copy(tiles[i], from[5 - i]) end
    local z = k:output("z", "float32", {4, 6, 128, 256})
    for j = 0, 3 do
      for i = 0, 5 do k:store(z[j][j % 2 == 0 and i or 5 - i], tiles[j % 2 == 0 and i or 5 - i]) end
    end
  end, {compare = "z"}, true, true)
end)

-- Twelve tiles of a bank of PSUM each, of which eight fit: all are written, then all are read.
local function twelve(options, summed)
  local k = soma.kernel(options)
  local x, y = k:input("x", "float32", {1536, 512}), k:output("y", "float32", {1536, 512})
  local w, z, p = k:load(x[{{0, 128}, {0, 128}}]), k:load(x[{0, 128}]), {}
  for i = 0, 11 do
    p[i] = k:tile("float32", {128, 512}, {memory = "psum", name = "p"})
    k.vector.tensor_copy(p[i], k:load(x[{i * 128, 128}]))
  end
  for i = 0, 11 do
    if summed then k:matmul(w, z, {into = p[i]}) end
    k:store(y[{i * 128, 128}], k:add(p[i], 1.0))
  end
  return k
end

t.case("tiles that do not fit in psum are read in sbuf from then on", function()
  local x = soma.randn({1536, 512}, "float32", {seed = 5})
  for _, sbuf in ipairs {196608, 6144} do -- enough, and so little that they go on to HBM
    local k = twelve {target = "trn2", spill = true, sbuf_bytes = sbuf}
    assert(soma.equal(run(k, {x = x}).out.y, x + 1.0))
    local report = k:report()
    assert(report:find("\n  p[^\n]-: 262144 bytes, from PSUM to SBUF after [^\n]*lua:%d+, read there from [^\n]*lua:%d+\n"), report)
    t.eq(report:find("to HBM after", 1, true) ~= nil, sbuf == 6144)
  end
end)

t.case("without spilling, or where it must stay in psum, the error shows what is there", function()
  local message = wrong(function() twelve({target = "trn2"}):program() end)
  assert(message:find("does not fit in psum: of 16384 bytes 16384 are taken by 8 tiles in use here:", 1, true), message)
  message = wrong(function()
    twelve({target = "trn2", spill = true}, true):program()
  end)
  assert(message:find("8 tiles in use here, none of which can be spilled:", 1, true), message)
end)

t.case("wrong uses are refused at their line", function()
  local file = debug.getinfo(1, "S").source:match "^@(.*)$"
  local k, other = soma.kernel {target = "trn2"}, soma.kernel {target = "trn2"}
  local x, a = k:input("x", "float32", {128, 64}), k:tile("float32", {128, 64})
  local theirs, a1 = other:tile("float32", {128, 64}), soma.randn({2, 2}, "float32", {seed = 1})
  local uses <const> = {
    {"kernel takes a table of options, not trn2", function() soma.kernel "trn2" end},
    {"sbuf_bytes must be a whole number of bytes, not 1.5", function() soma.kernel {sbuf_bytes = 1.5} end},
    {"sbuf_bytes must be a whole number of bytes, not -1", function() soma.kernel {sbuf_bytes = -1} end},
    {"unknown target 'trn9'", function() soma.kernel {target = "trn9"} end},
    {"the name of a tensor must be a string, not nil", function() k:input(nil, "float32", {2}) end},
    {"a list of 1 to 8 whole numbers of at least 1, not 5", function() k:input("s", "float32", 5) end},
    {"a list of 1 to 8 whole numbers of at least 1, not [4, 0]", function() k:input("s", "float32", {4, 0}) end},
    {"x is a tensor of role input already, not output", function() k:output("x", "float32", {128, 64}) end},
    {"x is float32[128, 64] already, not float32[64]", function() k:input("x", "float32", {64}) end},
    {"a list of 1 to 5 whole numbers of at least 1, not [128, -4]", function() k:tile("float32", {128, -4}) end},
    {"the offset of a tile must be a whole number, not x", function() k:tile("float32", {128, 4}, {offset = "x"}) end},
    {"tile has no option 'memroy'; it takes: memory, name, offset, partition", function() k:tile("float32", {128, 4}, {memroy = "psum"}) end},
    {"copy has no option 'into'; it takes: dtype, memory", function() k:copy(a, {into = a}) end},
    {"constant takes a soma.tensor, not x", function() k:constant "x" end},
    {"finish_with takes a tile of this kernel, not nil", function() k:finish_with(nil) end},
    {"theirs belongs to another kernel", function() k.vector.memset(theirs, 0.0) end},
    {"an instruction's number must be a whole number, not a", function() k:order("a", 2) end},
    {"add is over axis 1, the free elements, not 0", function() k:sum(a, 0) end},
    {"gather takes a view of whole numbers in SBUF, not 3", function() local _ = x:gather(3) end},
    {"an index vector goes by a dimension of all of x, with its step", function() local _ = x[0]:gather(a) end},
    {"an index vector goes by a dimension of all of x, with its step", function() local _ = x[{0, 64, 2}]:gather(a) end},
    {"bound takes a register, not 3", function() local _ = x:bound(3) end},
    {"reshape takes a list of whole numbers", function() local _ = x:reshape {8192.0} end},
    {"0 to 199 of dimension 1 of x[128, 64]: it has 128", function() local _ = x[{0, 200}] end},
    {"a slice of x must start at a whole number or a register, not at 3.5", function() local _ = x[3.5] end},
    {"x has dimensions 1 to 2, not 3", function() local _ = x:slice(3, 0, 1) end},
    {"x has fewer dimensions than the key has entries", function() local _ = x[{{0, 1}, 2, {}}] end},
    {"elements 1 to 8192 of x: the tensor has 0 to 8191", function() local _ = x:ap({{1, 8192}}, 1) end},
    {"what x goes by is known only at run time itself", function() local _ = x:gather(a:bound(k:register())) end},
    {"block %s of nil rows: x has 128", function() local _ = x:block("%s") end},
    {"ap takes a list of {step, num} and an offset", function() local _ = x:ap {{1, 2}, 3} end},
    {"permute takes each dimension of x once: 1 comes twice", function() local _ = x:permute {1, 1} end},
    {"permute: dimension 1 of x is the partitions, which stay the first", function() local _ = a:permute {2, 1} end},
    {"cannot be viewed as float32", function() local _ = x:view("uint8")[{{}, {2, 8}}]:view "float32" end},
    {"permute takes a list of dimensions, not nil", function() local _ = x:permute() end},
    {"broadcast takes a dimension and a whole number of times", function() local _ = x:broadcast(1, 0) end},
    {"spmd takes a list of sizes and a function", function() soma.spmd(4, print) end},
    {"a size of spmd's grid must be a whole number, not 1.5", function() soma.spmd({1.5}, print) end},
    {"a kernel must return tensors that k:output gave, not 5", function() soma.jit(function() return 5 end)(a1) end},
  }
  for _, use in ipairs(uses) do
    local message, line = wrong(use[2]), debug.getinfo(use[2], "S").linedefined
    assert(message:find(use[1], 1, true), message)
    if not use[1]:find "returns" then assert(message:find(file .. ":" .. line .. ":", 1, true), message) end
  end
end)

t.case("a kernel that is refused says so again", function()
  local k = soma.kernel {target = "trn2"}
  k:store(k:output("y", "float32", {128, 4}), k:tile("float32", {128, 4}))
  local first = wrong(k.program, k)
  assert(first:find("nothing has written", 1, true), first)
  t.eq(wrong(k.program, k), first)
  t.eq(wrong(k.report, k), first)
end)

t.case("optimize = 2 takes the fastest of what it tries, jit tunes", function()
  local function blocks(k, x)
    local y = k:output("y", "float32", x.shape)
    for i = 0, x.shape[1] // 128 - 1 do k:store(y:block(i, 128), k:exp(k:load(x:block(i, 128)))) end
    return y
  end
  local k = soma.kernel {optimize = 2}
  blocks(k, k:input("x", "float32", {512, 64}))
  local x, chosen, least = soma.randn({512, 64}, "float32", {seed = 1}), nil, math.huge
  for _, p in ipairs(k:policies()) do
    chosen = p.chosen and p or chosen
    least = math.min(least, p.time_ns)
  end
  t.eq(chosen.time_ns, least)
  t.eq(run(k, {x = x}).time_ns, least)
  assert(k:report():find("policies, us of a run:\n  as the front end says +[%d.]+"))
  assert(#k:policies() >= 6)

  local f = soma.jit(blocks)
  local before = f(x)
  t.eq(#f:tune(x), #k:policies())
  assert(soma.equal(f(x), before))
  t.eq(f.run.time_ns, least)
  local plain = soma.kernel {}
  blocks(plain, plain:input("x", "float32", {512, 64}))
  t.eq(plain:policies(), nil)
end)

t.case("advice names the line, and what it saves", function()
  local function make(engine)
    local k = soma.kernel {optimize = 0}
    local x, y = k:input("x", "float32", {128, 2048}), k:output("y", "float32", {128, 2048})
    local a, b = k:load(x), k:tile("float32", {128, 2048}, {name = "b"})
    for _ = 1, 4 do
      k.scalar.activate(b, a, {fn = "exp"})
      k[engine].tensor_copy(a, b)
    end
    k:store(y, a)
    return k
  end
  local k, line = make "scalar", here() - 5
  local a = k:advice()[1]
  t.eq({a.kind, a.engine, a.line, a.instruction, a.times, a.text}, {"engine", "vector", line, "tensor_copy", 4, "engine=vector"})
  assert(a.file:find "test_kernel.lua$")
  local x = soma.randn({128, 2048}, "float32", {seed = 1})
  local slow, fast = run(k, {x = x}).time_ns, run(make "vector", {x = x}).time_ns
  assert(math.abs(slow - fast - a.saved_ns) < 1e-3)
  assert(k:report():find(("advice, us that each saves alone, of %.3f"):format(slow / 1e3), 1, true))
  t.eq(#make("vector"):advice(), 0)
end)

t.case("a tile whose zeros are left out can go before its last columns are written", function()
  local k = soma.kernel {target = "trn2", spill = true, sbuf_bytes = 4096}
  local x, y = k:input("x", "float32", {3, 128, 512}), k:output("y", "float32", {2, 128, 512})
  local sum = k:tile("float32", {128, 512})
  k.vector.memset(sum, 0)
  local first = k:load(x[0])
  k.vector.tensor_copy(sum, first) -- the zeros go, and all of the tile is written from here on
  local b, c = k:load(x[1]), k:load(x[2])
  k.vector.tensor_tensor(b, b, c, {op = "add"}) -- b and c take all the room
  k:store(y[0], b)
  k.vector.tensor_copy(sum[{{}, {0, 8}}], b[{{}, {8, 8}}])
  k:store(y[1], sum)
  local v = soma.randn({3, 128, 512}, "float32", {seed = 3})
  local r = run(k, {x = v}).out
  assert(not k:report():find("would not fit", 1, true)) -- with all passes
  t.eq(r.y[1][5][100], v[0][5][100])
  t.eq(r.y[1][5][0], r.y[0][5][8])
end)

t.case("arguments of a jit may be left out", function()
  local f = soma.jit(function(k, x, _, y)
    local out = k:output("out", "float32", {2, 2})
    k:store(out, k:add(k:load(x), k:load(y)))
    return out
  end, {target = "trn2"})
  local a, b = soma.randn({2, 2}, "float32", {seed = 1}), soma.randn({2, 2}, "float32", {seed = 2})
  assert(soma.equal(f(a, nil, b), a + b))
end)

t.finish()
