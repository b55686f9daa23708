-- Tensors on a device: allocation without the host, options, views, and operators that run there.
local soma = require "soma"
local t = require "harness"
local case, eq, fails, raises = t.case, t.eq, t.fails, t.raises
local on <const> = {device = "neuron"}

local a = soma.randn({37, 19}, "float32", {seed = 1})
local b = soma.randn({37, 19}, "float32", {seed = 2})

-- A fresh neuron:0 under all checks, so that the operators' own programs are judged as well.
local function with_core(f, target)
  local core <close> = soma.core {device = "neuron:0", target = target or "trn2", checks = "all"}
  f(core)
end
local function same(got, expected, about) eq({soma.equal(got:to "cpu", expected)}, {true}, about) end
local function close(got, expected, about)
  local ok, text = soma.allclose(got:to "cpu", expected, {rtol = 1e-4, atol = 1e-5})
  eq(ok, true, tostring(about) .. ": " .. tostring(text))
end

local function resident_kib()
  local f = io.open "/proc/self/statm"
  if not f then return 0 end
  local pages = math.tointeger(f:read("a"):match "%d+ (%d+)")
  f:close()
  return pages * 4
end

case("20 GiB of zeros take nothing of the host and move no byte", function()
  with_core(function(core)
    local before = resident_kib()
    local x, y = soma.zeros({5, 1 << 30}, "float32", on), soma.empty({1 << 30}, "bfloat16", on)
    eq(resident_kib() - before < 1024, true)
    eq(core.hbm_bytes, (20 << 30) + (2 << 30)) eq(core.host_to_device, 0)
    eq(x:get(4, (1 << 30) - 1), 0.0) eq(y[7], 0.0)
    same(soma.full({2, 3}, 7, "int8", on), soma.full({2, 3}, 7, "int8"))
    same(soma.ones({2, 3}, "bfloat16", on), soma.ones({2, 3}, "bfloat16"))
    eq(core.host_to_device, 0) eq(core.arithmetic.runs, 0)
  end)
end)

case("a device's name without a number means 0", function()
  with_core(function(core)
    for _, name in ipairs {"neuron", "neuron:0", "privateuseone", "privateuseone:0"} do
      eq(soma.device(name) == core, true) eq(soma.zeros(1, "int8", {device = name}).device, "neuron:0")
      eq(a:to(name).device, "neuron:0")
    end
    eq(soma.device {device = "neuron"} == core, true)
  end)
  local core <close> = soma.core {device = "privateuseone"}
  eq(core.device, "neuron:0")
end)

case("options may come as soon as what follows is left out, and are never ignored", function()
  with_core(function()
    for i, x in ipairs {
      soma.zeros({2}, on), soma.empty({2}, on), soma.ones({2}, on), soma.full({2}, 3, on), soma.arange(3, on),
      soma.arange(0, 3, on), soma.tensor(2.5, on), soma.tensor(2.5, "bfloat16", on), soma.tensor({1, 2}, on),
      soma.tensor({1, 2}, "int8", {2, 1}, on), soma.frombytes("abcd", "uint8", on),
      soma.frombytes("abcd", "uint8", {2, 2}, on), soma.randn({2}, {seed = 1, device = "neuron"}),
      soma.uniform({2}, {seed = 1, device = "neuron"}), soma.concat({a, b}, on), soma.concat({a, b}, 1, on),
    } do eq(x.device, "neuron:0", i) end
    same(soma.tensor({5}, "int32", {}, on), soma.tensor(5, "int32"))
    same(soma.frombytes("abcd", "uint8", on), soma.tensor({97, 98, 99, 100}, "uint8"))
  end)
  for _, f in ipairs {
    function(o) soma.zeros({2}, o) end, function(o) soma.zeros({2}, "int8", o) end, function(o) soma.empty(2, o) end,
    function(o) soma.ones({2}, o) end, function(o) soma.full({2}, 3, o) end, function(o) soma.arange(3, o) end,
    function(o) soma.tensor(2.5, o) end, function(o) soma.tensor(2.5, "int8", o) end,
    function(o) soma.frombytes("ab", "uint8", o) end, function(o) soma.concat({a, b}, o) end,
  } do raises("unknown option 'devise' (did you mean 'device'?); it takes: device", f, {devise = "neuron"}) end
  raises("unknown option 'sed' (did you mean 'seed'?)", soma.randn, 2, {sed = 1})
  raises("is too many: the options come last", soma.zeros, 2, "int8", on, on)
  raises("is too many", soma.randn, 2, "float32", {seed = 1}, 3)
  raises("is too many", soma.frombytes, "ab", "uint8", on, on)
end)

case("what takes no options says so", function()
  local prog = soma.assemble_file "tests/lua/add.s"
  local o <const> = {rtol = 1}
  raises("equal takes no options; allclose has tolerances", soma.equal, a, b, o)
  raises("matmul takes no options", soma.matmul, a, b:transpose(), o)
  raises("save_npy takes no options", a.save_npy, a, "/nowhere/x.npy", o)
  raises("to takes a device and no options", a.to, a, "cpu", o)
  raises("load takes no options", soma.load, prog:bytes(), o)
  raises("disassemble takes no options", soma.disassemble, prog, o)
  raises("save takes no options", prog.save, prog, "/nowhere/x.sbc", o)
  raises("queue has no option 'rtol'; it takes: dge, engine, priority", function() soma.kernel {}:queue(o) end)
  with_core(function()
    local x = a:to "neuron"
    fails("add on a device takes no options", function() return x:add(x, o) end)
    fails("exp on a device takes no options", function() return x:exp(o) end)
  end)
end)

case("views: no copy, the same memory, elements", function()
  with_core(function(core)
    local x = a:to "neuron"
    local moved = core.host_to_device
    local v = x:slice({1, 30, 3}, {2, 17, 2})
    same(v, a:slice({1, 30, 3}, {2, 17, 2}):copy())
    same(x[5], a[5]:copy()) same(x:transpose(), a:transpose():copy()) same(x:reshape {19, -1}, a:reshape {19, -1})
    same(x:view "uint32", a:view "uint32") same(x:view "uint8":slice({}, {4, 8}):view "float32", a:slice({}, {1, 2}):copy())
    eq(#x, 37) eq(x[{3, 4}], a[{3, 4}]) eq(x[3][4], a[3][4]) eq(x:get(3, 4), a:get(3, 4))
    local read = core.device_to_host
    v:to "cpu" x:get(3, 4) -- so many bytes and no more
    eq(core.device_to_host - read, v.nbytes + 4)
    v:fill(7)
    local h = a:copy()
    h:slice({1, 30, 3}, {2, 17, 2}):fill(7)
    same(x, h)
    eq(core.host_to_device, moved) eq(core.hbm_bytes, a.nbytes)
    x:close()
    eq(core.hbm_bytes, a.nbytes) -- v keeps it
    same(v:copy(), soma.full({10, 8}, 7))
    v = nil
    collectgarbage() collectgarbage()
    eq(core.hbm_bytes, 0)
    local y = b:to "neuron"
    fails("float32[0, 19]: a view of a tensor on a device must have at least one element", function() return y:slice {{0, 0}} end)
    fails("reshape: float32[19, 37] is a view that is not dense: use t:copy() first", function() return y:transpose():reshape {703} end)
    fails("float32[6, 1]: a view of a tensor on a device must step by whole elements of its type", function()
      return soma.zeros({6, 6}, "uint8", on):slice({}, {0, 4}):view "float32"
    end)
  end)
end)

case("runs take views that are dense", function()
  local prog = soma.assemble_file "tests/lua/add.s" -- c = a + b, float32[4, 8]
  with_core(function(core)
    local x = a:to "neuron"
    local flat = x:reshape {703}
    local p, q = flat:slice({0, 32}):reshape {4, 8}, flat:slice({100, 132}):reshape {4, 8}
    local h = a:reshape {703}
    same(core:run(prog, {a = p, b = q}).out.c, h:slice({0, 32}):reshape {4, 8} + h:slice({100, 132}):reshape {4, 8})
    local r = soma.zeros({8, 4}, on):transpose()
    fails("run: input 'a' is a view that is not dense: use a:copy()", core.run, core, prog, {a = r, b = p})
    same(core:run(prog, {a = r:copy(), b = p}).out.c, h:slice({0, 32}):reshape {4, 8})
  end)
end)

-- Operands of every layout, with what the host makes of them.
local shapes = {
  {"plain", function(x, y) return x, y end},
  {"column", function(x, y) return x, y:slice({}, {3, 4}) end},
  {"row", function(x, y) return x[4], y end},
  {"one element", function(x, y) return x:slice({3, 4}, {5, 6}), y end},
  {"turned", function(x, y) return x:transpose(), y:transpose() end},
  {"turned and not", function(x, y) return x:slice({0, 19}):transpose(), y:slice({0, 19}) end},
  {"steps", function(x, y) return x:slice({1, 30, 3}, {2, 17, 2}), y:slice({0, 10}, {0, 8}) end},
}

case("two operands: the bits of the host", function()
  with_core(function()
    local x, y = a:to "neuron", b:to "neuron"
    for _, op in ipairs {"add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"} do
      for _, s in ipairs(shapes) do
        local p, q = s[2](x, y)
        local hp, hq = s[2](a, b)
        same(p[op](p, q), hp[op](hp, hq), op .. " " .. s[1])
      end
      same(x[op](x, 0.25), a[op](a, 0.25), op)
    end
    same(x + y, a + b) same(1 - x, 1 - a) same(-x, -a) same(x * y - 3, a * b - 3)
    same(soma.maximum(x, y), soma.maximum(a, b)) same(soma.minimum(0, x), soma.minimum(0, a))
    close(x / y, a / b) close(2 / y, 2 / b) close(x / 3, a / 3)
    close(soma.exp(x) ^ 2.5, soma.exp(a) ^ 2.5) close(soma.exp(x) ^ y, soma.exp(a) ^ b)
    same(soma.where(x:gt(0), x, y), soma.where(a:gt(0), a, b)) same(soma.where(x:gt(0), x, 0), soma.where(a:gt(0), a, 0))
    same(soma.where(x:gt(0), 1, y), soma.where(a:gt(0), 1.0, b))
  end)
end)

case("types: the result's is the host's", function()
  with_core(function()
    for _, dtype in ipairs {"bfloat16", "float16", "float8_e4m3", "int8", "uint8", "int16", "int32", "uint32"} do
      local p = soma.uniform({9, 33}, dtype, {seed = 1, low = 0, high = 10})
      local q = soma.uniform({9, 33}, dtype, {seed = 2, low = 1, high = 9})
      local x, y = p:to "neuron", q:to "neuron"
      same(x + y, p + q, dtype) same(x * y, p * q, dtype) same(x:lt(y), p:lt(q), dtype) same(x + 1, p + 1, dtype)
      same(x:astype "float32", p:astype "float32", dtype) same((x + 0):astype(dtype), (p + 0):astype(dtype), dtype)
      if dtype:find "int" then same(x & y, p & q, dtype) same(x | 5, p | 5, dtype) same(x ~ y, p ~ q, dtype) end
    end
    local x = soma.tensor({1, 2}, "int64", on)
    same(x:copy(), soma.tensor({1, 2}, "int64"))
    raises("add on a device: tensor_tensor dst: int64: 64-bit types are for dma_copy only", function() return x + x end)
    raises("int8 cannot hold 300", function() return soma.zeros(2, "int8", on) + 300 end)
  end)
end)

case("functions", function()
  with_core(function()
    local x = a:to "neuron"
    for _, f in ipairs {"exp", "tanh", "sigmoid", "square", "erf", "relu", "abs", "sign", "neg", "reciprocal"} do
      close(soma[f](x), soma[f](a), f) close(x[f](x), a[f](a), f)
    end
    for _, f in ipairs {"log", "sqrt", "rsqrt"} do close(x:abs()[f](x:abs()), a:abs()[f](a:abs()), f) end
    fails("exp on a device takes floats, not int32: use astype", function() return soma.zeros(2, "int32", on):exp() end)
  end)
end)

case("sums along each axis and of all", function()
  with_core(function()
    local h = soma.randn({5, 130, 7}, "float32", {seed = 3})
    local x = h:to "neuron"
    for _, f in ipairs {"sum", "mean", "max", "min"} do
      for axis = -3, 2 do
        close(x[f](x, axis), h[f](h, axis), f .. axis) close(x[f](x, axis, true), h[f](h, axis, true), f .. axis)
      end
      eq(x[f](x).ndim, 0)
      close(x[f](x):reshape {1}, soma.full(1, h[f](h)), f)
      close(x:transpose()[f](x:transpose(), 0), h[f](h, 2):transpose():copy(), f)
    end
    local long = soma.uniform(30000, "float32", {seed = 1})
    close(long:to "neuron":sum():reshape {1} / 1e4, soma.full(1, long:sum() / 1e4))
    fails("sum: axis 3 of a tensor with 3 dimensions", function() return x:sum(3) end)
  end)
end)

case("products", function()
  with_core(function()
    for _, s in ipairs {{5, 7, 9}, {128, 128, 128}, {200, 300, 600}, {130, 257, 1}} do
      local p = soma.randn({s[1], s[2]}, "float32", {seed = 1}) / 8
      local q = soma.randn({s[2], s[3]}, "float32", {seed = 2}) / 8
      local x, y = p:to "neuron", q:to "neuron"
      close(x:matmul(y), p:matmul(q)) close(soma.matmul(y:transpose(), x:transpose()), p:matmul(q):transpose():copy())
      local half, other = p:astype "bfloat16", q:astype "bfloat16"
      close(half:to "neuron":matmul(other:to "neuron"), half:matmul(other))
    end
    local x = a:to "neuron"
    fails("matmul: float32[37, 19] and float32[37, 19]: [M, K] and [K, N] are needed", function() return x:matmul(x) end)
    fails("matmul of float32 and bfloat16 on a device: use astype", function()
      return x:matmul(soma.zeros({19, 2}, "bfloat16", on))
    end)
  end)
end)

case("assign: broadcast, converted, over itself, from the host", function()
  with_core(function(core)
    local x, h = soma.zeros({37, 19}, on), soma.zeros {37, 19}
    x:slice({0, 37, 2}):assign(a:to "neuron"[3]) h:slice({0, 37, 2}):assign(a[3])
    same(x, h)
    x:slice({1, 37}):assign(x:slice({0, 36})) h:slice({1, 37}):assign(h:slice({0, 36}):copy())
    same(x, h)
    local half = soma.empty({37, 19}, "bfloat16", on)
    local before = core.host_to_device
    same(half:assign(a), a:astype "bfloat16")
    eq(core.host_to_device - before, a.nbytes)
    fails("assign: float32[5, 4] does not fit in float32[4]", function() soma.zeros(4, on):assign(soma.zeros {5, 4}) end)
  end)
end)

case("many pieces and many rounds", function()
  with_core(function(core)
    local h = soma.randn({2, 3, 4, 5, 6, 7}, "float32", {seed = 1})
    local x = h:to "neuron"
    same(x:transpose(5, 3, 1, 0, 2, 4) * 2, h:transpose(5, 3, 1, 0, 2, 4) * 2)
    same(x:transpose(5, 3, 1, 0, 2, 4):copy(), h:transpose(5, 3, 1, 0, 2, 4):copy())
    local long = soma.randn(300007, "float32", {seed = 2})
    same(long:to "neuron" + 1, long + 1)
    local wide = soma.randn({2500, 40}, "float32", {seed = 3})
    same(wide:to "neuron" + wide:to "neuron"[0], wide + wide[0])
    eq(core.host_to_device, h.nbytes + long.nbytes + 2 * wide.nbytes)
  end)
end)

case("a program is assembled once, counted and timed", function()
  with_core(function(core)
    local x = soma.ones({100, 300}, on)
    local y = x + x
    local first = core.arithmetic
    eq({first.runs, first.programs}, {1, 1})
    eq(first.time_ns > 1000, true)
    for _ = 1, 5 do y = y + x end
    y = y:reshape {300, 100} + x:reshape {300, 100} -- lies the same
    eq({core.arithmetic.runs, core.arithmetic.programs}, {7, 1})
    eq(math.abs(core.arithmetic.time_ns - 7 * first.time_ns) < 1e-3, true)
    y = y + x:reshape {300, 100}:slice({}, {0, 1})
    eq(core.arithmetic.programs, 2)
    eq(y[0][0], 9.0) eq(core.host_to_device, 0)
  end)
end)

case("on every generation", function()
  for _, target in ipairs {"trn1", "trn3"} do
    with_core(function()
      local x, y = a:to "neuron", b:to "neuron"
      same(x * y + 1, a * b + 1, target) close(x:transpose():matmul(y), a:transpose():copy():matmul(b), target)
      close(x:sum(1), a:sum(1), target)
    end, target)
  end
end)

case("what is refused: other places, closed ones, a run in progress", function()
  local prog = soma.assemble_file "tests/lua/add.s"
  with_core(function(core)
    local x = soma.zeros({4, 8}, on)
    fails("add: operand 2 is on the host, another one on neuron:0: use t:to", function() return x + soma.zeros {4, 8} end)
    fails("add: operand 1 is on the host, another one on neuron:0: use t:to", function() return soma.zeros {4, 8} + x end)
    fails("add: operand 2 must be a tensor or a number, not a string", function() return x:add "x" end)
    fails("add: float32[4, 8] and float32[3] do not broadcast", function() return x + soma.zeros(3, on) end)
    fails("idiv is not built for tensors on a device: use t:to \"cpu\"", function() return x // 2 end)
    local other <close> = soma.core {device = "neuron:1"}
    fails("add: operands on neuron:0 and neuron:1: use t:to", function() return x + soma.zeros({4, 8}, {device = "neuron:1"}) end)
    local run = core:start(prog, {a = x, b = x})
    fails("add: neuron:0 has a run that has not ended: continue it, or close it", function() return x + 1 end)
    run:continue()
    same(x + 1, soma.ones {4, 8})
    same(run.out.c, soma.zeros {4, 8})
    local y = x:copy()
    x:close()
    fails("add: operand 1 is closed", function() return x + 1 end)
    core:close()
    fails("add: the core of neuron:0 is closed", function() return y + 1 end)
  end)
end)

case("soma.isa.targets has what the machine's table has", function()
  local trn2 = soma.isa.targets[3]
  eq({trn2.name, trn2.gen, trn2.cores, trn2.hbm_stacks, trn2.hbm_gib, trn2.dma_engines, trn2.dma_rings, trn2.khz.vector,
      trn2.khz.sync, trn2.mm_fp32, trn2.mm_bf16, trn2.hwdge, trn2.sbuf_bytes == trn2.sbuf_usable},
    {"trn2", 3, 8, 4, 96, 128, 16, 960000, 1200000, 512, 512, true, true})
end)

t.finish()
