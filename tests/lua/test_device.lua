-- Tensors on devices: where they are, what runs do with them, what is copied, when HBM ends.
local soma = require "soma"
local t = require "harness"
local case, eq, fails, raises = t.case, t.eq, t.fails, t.raises

local prog = soma.assemble_file "tests/lua/add.s" -- c = a + b, float32[4, 8]
local BYTES = 4 * 8 * 4
local host_a = soma.randn({4, 8}, "float32", {seed = 1})
local host_b = soma.randn({4, 8}, "float32", {seed = 2})

-- A fresh neuron:0, closed at the end of the case; with its counts since it was made.
local function with_core(options, f)
  options.device = options.device or "neuron:0"
  local core <close> = soma.core(options)
  f(core)
end
local function moved(core, to_device, to_host)
  eq(core.host_to_device, to_device, "to the device") eq(core.device_to_host, to_host, "to the host")
end

case("every constructor and loader takes a device", function()
  with_core({}, function(core)
    local path = t.temp()
    assert(host_a:save_npy(path))
    local on = {device = "neuron:0"}
    local made = {
      soma.zeros({2, 3}, "int8", on), soma.ones(4, "bfloat16", on), soma.full(2, 1.5, nil, on),
      soma.arange(5, on), soma.arange(0, 4, 2, "uint8", on), soma.tensor({1, 2}, nil, nil, on),
      soma.tensor({1, 2, 3, 4}, "int32", {2, 2}, on), soma.frombytes("abcd", "uint8", nil, on),
      soma.randn(3, "float32", {seed = 1, device = "neuron:0"}),
      soma.uniform(3, "int8", {seed = 1, device = "neuron:0"}),
      soma.uniform(3, "float32", {seed = 1, device = "privateuseone:0"}),
      soma.load_npy(path, on), soma.concat({host_a, host_b}, on), soma.concat({host_a, host_b}, 1, on),
    }
    local on_host = {
      soma.zeros({2, 3}, "int8"), soma.ones(4, "bfloat16"), soma.full(2, 1.5), soma.arange(5),
      soma.arange(0, 4, 2, "uint8"), soma.tensor({1, 2}), soma.tensor({1, 2, 3, 4}, "int32", {2, 2}),
      soma.frombytes("abcd", "uint8"), soma.randn(3, "float32", {seed = 1}),
      soma.uniform(3, "int8", {seed = 1}), soma.uniform(3, "float32", {seed = 1}), host_a,
      soma.concat {host_a, host_b}, soma.concat({host_a, host_b}, 1),
    }
    local bytes, filled = 0, 0
    for i, x in ipairs(made) do
      local h = on_host[i]
      eq(x.device, "neuron:0") eq(h.device, "cpu")
      eq(x.shape, h.shape) eq(x.dtype, h.dtype) eq(x.ndim, h.ndim) eq(x.size, h.size) eq(x.nbytes, h.nbytes)
      eq(soma.equal(x:to "cpu", h), true, i)
      bytes = bytes + x.nbytes
      if i <= 3 then filled = filled + x.nbytes end -- zeros, ones and full come from nowhere
    end
    moved(core, bytes - filled, bytes)
    eq(core.hbm_bytes, bytes) eq(core.device, "neuron:0")
  end)
end)

case("to: itself where it is, else a copy", function()
  with_core({}, function(core)
    local a = host_a:to "neuron:0"
    moved(core, BYTES, 0)
    eq(a:to "neuron:0" == a, true) eq(host_a:to "cpu" == host_a, true) eq(a:to "privateuseone:0" == a, true)
    moved(core, BYTES, 0)
    eq(soma.equal(a:to "cpu", host_a), true)
    moved(core, BYTES, BYTES)
    local strided = host_a:transpose():to "neuron:0"
    eq(soma.equal(strided:to "cpu", host_a:transpose():copy()), true)
    with_core({device = "neuron:1"}, function(other)
      eq(soma.equal(a:to "neuron:1":to "cpu", host_a), true)
      moved(other, BYTES, BYTES)
    end)
    moved(core, 2 * BYTES, 3 * BYTES)
    eq(tostring(a), "float32[4, 8] on neuron:0")
  end)
end)

case("a run that had ended and is resumed has copied what it had copied", function()
  local path = t.temp()
  local run = soma.core {}:run(prog, {a = host_a, b = host_b})
  eq(run.stats.device_to_host, BYTES)
  assert(run:save(path))
  local again = soma.core {}:resume(path)
  eq(soma.equal(again.out.c, run.out.c), true)
  eq(again.stats.host_to_device, run.stats.host_to_device)
  eq(again.stats.device_to_host, run.stats.device_to_host)
end)

case("all inputs on the device: outputs stay, nothing is copied, runs chain", function()
  with_core({}, function(core)
    local a, b = host_a:to "neuron:0", host_b:to "neuron:0"
    local run = core:run(prog, {a = a, b = b})
    eq(run.out.c.device, "neuron:0")
    eq(run.stats.host_to_device, 0) eq(run.stats.device_to_host, 0)
    local second = core:run(prog, {a = run.out.c, b = b})
    moved(core, 2 * BYTES, 0)
    eq(soma.equal(second.out.c:to "cpu", host_a + host_b + host_b), true)
    eq(soma.equal(run.out.c:to "cpu", host_a + host_b), true) -- it outlived its run
    eq(soma.equal(a:to "cpu", host_a), true)
    -- the same tensor twice, and an output given by the caller
    local c = soma.zeros({4, 8}, nil, {device = "neuron:0"})
    run = core:run(prog, {a = a, b = a, c = c})
    eq(run.out.c == c, true) eq(soma.equal(c:to "cpu", host_a + host_a), true)
    eq(soma.equal(run:fetch "c", host_a + host_a), true)
    -- step by step
    run = core:start(prog, {a = a, b = b})
    eq(run.out.c, nil)
    run:continue()
    eq(soma.equal(run.out.c:to "cpu", host_a + host_b), true)
  end)
end)

case("one input on the host brings all outputs to the host", function()
  with_core({}, function(core)
    local a = host_a:to "neuron:0"
    for _, inputs in ipairs {{a = a, b = host_b}, {a = host_b, b = a}} do
      local run = core:run(prog, inputs)
      eq(run.out.c.device, "cpu") eq(soma.equal(run.out.c, host_a + host_b), true)
      eq(run.stats.host_to_device, BYTES) eq(run.stats.device_to_host, BYTES)
      eq(run:summary():match "host%-device +(%d+ B in, %d+ B out)", "128 B in, 128 B out")
      run:fetch "b" -- this is one more
      eq(run:summary():match "host%-device +(%d+ B in, %d+ B out)", "128 B in, 256 B out")
    end
    local run = core:run(prog, {a = host_a, b = host_b})
    eq(run.out.c.device, "cpu")
    moved(core, 5 * BYTES, 5 * BYTES)
    -- no inputs at all: to the host
    local constant = soma.assemble "target trn2\nc tensor float32[4, 8], output\nsection sync\n halt\n"
    eq(core:run(constant).out.c.device, "cpu")
  end)
end)

case("the results are those of host tensors", function()
  with_core({}, function(core)
    local h = core:run(prog, {a = host_a, b = host_b}).stats
    local d = core:run(prog, {a = host_a:to "neuron:0", b = host_b:to "neuron:0"}).stats
    eq(d.time_ns, h.time_ns) eq(d.dma_bytes, h.dma_bytes) eq(d.trace_hash, h.trace_hash)
  end)
end)

case("exhausted HBM", function()
  with_core({max_hbm_bytes = 1024}, function(core)
    local on = {device = "neuron:0"}
    fails("zeros: device tensor uint8[1025] needs 1025 bytes of HBM; 0 of 1024 are taken, the largest of 1 "
      .. "free block has 1024", soma.zeros, 1025, "uint8", on)
    local x = soma.zeros(1000, "uint8", on)
    local full = "; 1000 of 1024 are taken, no block is free\n  1000 bytes at 0x0: device tensor uint8[1000]"
    fails("ones: device tensor uint8[25] needs 25 bytes of HBM" .. full, soma.ones, 25, "uint8", on)
    fails("to: device tensor float32[4, 8] needs 128 bytes of HBM" .. full, host_a.to, host_a, "neuron:0")
    raises("needs 128 bytes of HBM; 1000 of 1024 are taken", core.run, core, prog, {a = host_a, b = host_b})
    moved(core, 0, 0)
    x:close() x:close()
    eq(core.hbm_bytes, 0)
    eq(core:run(prog, {a = host_a, b = host_b}).ended, true)
    for _ = 1, 20 do soma.zeros(600, "uint8", on) end -- dropped ones are collected in time
    -- an output that finds no room: nothing is left bound
    collectgarbage() collectgarbage()
    local a, b = host_a:to "neuron:0", host_b:to "neuron:0"
    local rest = soma.zeros(1024 - 3 * BYTES + 1, "uint8", on)
    fails("run: output 'c': device tensor float32[4, 8] needs 128 bytes of HBM; 897 of 1024 are taken, the largest of 1 free "
      .. "block has 64\n  641 bytes at 0x100: device tensor uint8[641]\n  128 bytes at 0x0: device tensor "
      .. "float32[4, 8]\n  128 bytes at 0x80: device tensor float32[4, 8]", core.run, core, prog, {a = a, b = b})
    rest:close()
    eq(soma.equal(core:run(prog, {a = a, b = b}).out.c:to "cpu", host_a + host_b), true)
    -- a run that has not ended holds its own HBM
    local run = core:start(prog, {a = host_a, b = host_b})
    eq(core.hbm_bytes >= 3 * BYTES, true)
    run:close()
  end)
end)

case("hbm: figures and a list", function()
  with_core({target = "trn2"}, function(core)
    local GIB = 1 << 30
    local s = core.hbm:stats()
    eq(s.capacity, 96 * GIB) eq(s.used, 0) eq(s.free, 96 * GIB) eq(s.largest_free, 96 * GIB)
    eq(s.blocks, 0) eq(s.free_blocks, 1) eq(#s.stacks, 4) eq(s.stacks[4].capacity, 24 * GIB)
    local on = {device = "neuron:0"}
    local x, y, z = soma.zeros(100, "uint8", on), soma.zeros(64, "uint8", on), soma.zeros({8, 8}, "uint8", on)
    y:close()
    s = soma.device "neuron:0".hbm:stats()
    eq(s.used, 164) eq(s.high_water, 228) eq(s.free, 96 * GIB - 192) eq(s.largest_free, 96 * GIB - 256)
    eq(s.blocks, 2) eq(s.free_blocks, 2) eq(s.stacks[1].used, 164) eq(s.stacks[2].used, 0)
    local list = core.hbm:list()
    eq(#list, 2) eq(list[1].name, "uint8[100]") eq(list[1].owner, "tensor") eq(list[1].address, 0)
    eq(list[2].name, "uint8[8, 8]") eq(list[2].address, 192) eq(list[2].bytes, 64) eq(list[2].stack, 0)
    -- a run's tensors, and the names that its outputs keep
    local run = core:start(prog, {a = host_a, b = host_b})
    local names = {}
    for _, r in ipairs(core.hbm:list()) do names[#names + 1] = r.owner .. " " .. r.name end
    eq(names, {"tensor uint8[100]", "tensor uint8[8, 8]", "program a", "program b", "program c"})
    run:continue()
    eq(#core.hbm:list(), 2)
    run = core:run(prog, {a = host_a:to "neuron:0", b = host_b:to "neuron:0"})
    eq(core.hbm:list()[#core.hbm:list()].name, "c")
    x:close() z:close()
  end)
  local core = soma.core {}
  local hbm = core.hbm
  core:close()
  raises("hbm: the core is closed", hbm.stats, hbm)
  raises("hbm: the core is closed", hbm.list, hbm)
  raises("soma.hbm expected", hbm.stats, core)
end)

case("soma.device of a name or of options", function()
  local core = soma.device {max_hbm_bytes = 4096} -- neuron:0 when it is not said
  eq(core.device, "neuron:0") eq(core.hbm:stats().capacity, 4096)
  eq(soma.device {} == core, true) eq(soma.device {device = "privateuseone:0"} == core, true)
  fails("core: neuron:0 is another core, which is not closed", soma.device, {device = "neuron:0", target = "trn2"})
  core:close()
  local other <close> = soma.device {device = "neuron:5", target = "trn1"}
  eq(other.device, "neuron:5") eq(soma.device {device = "neuron:5"}.hbm:stats().stacks[2].capacity, 16 << 30)
  raises("the host is not a core", soma.device, {device = "cpu"})
  raises("unknown option 'size'", soma.device, {device = "neuron:6", size = 1})
  raises("option 'device' must be a string", soma.device, {device = 1})
end)

-- y = x + w, w constant
local with_const = soma.assemble [[
        target  trn2
x       tensor  float32[2, 4], input
w       tensor  float32[2, 4], const = [1, 2, 3, 4, 5, 6, 7, 8]
y       tensor  float32[2, 4], output
q       queue   dge=none
section sync
        dma_compute  y, srcs=[x, w], op=add, queue=q
        dma_trigger  q, 1
        halt
]]
local x8, sum8 = soma.ones({2, 4}), soma.arange(2, 10, "float32"):reshape {2, 4}

case("move_to_device: constants are copied once", function()
  with_core({}, function(core)
    eq(soma.equal(core:run(with_const, {x = x8}).out.y, sum8), true)
    moved(core, 64, 32) -- x and w
    eq(with_const:move_to_device "privateuseone:0" == with_const, true)
    with_const:move_to_device(core) -- they are there
    moved(core, 96, 32)
    eq(core.hbm:list()[1].name, "w") eq(core.hbm:list()[1].owner, "const")
    local x = x8:to "neuron:0"
    for _ = 1, 3 do
      local run = core:run(with_const, {x = x})
      eq(run.stats.host_to_device, 0) eq(run.out.y.device, "neuron:0")
    end
    moved(core, 128, 32)
    eq(soma.equal(core:run(with_const, {x = x}).out.y:to "cpu", sum8), true)
    with_const:drop_from_device "neuron:0"
    eq(core:run(with_const, {x = x}).stats.host_to_device, 32)
  end)
end)

case("move_to_device: how long they stay, and what is refused", function()
  with_core({max_hbm_bytes = 100}, function(core)
    with_const:move_to_device "neuron:0"
    local other = soma.load(with_const:bytes())
    other:move_to_device(core)
    eq(core.hbm_bytes, 64)
    fails("move_to_device: device const w needs 32 bytes of HBM; 64 of 100 are taken, no block "
      .. "is free\n  32 bytes at 0x0: device const w\n  32 bytes at 0x40: device const w", function()
      local third <close> = soma.load(with_const:bytes())
      third:move_to_device "neuron:0"
    end)
    other:close()
    eq(core.hbm_bytes, 32)
    raises("the program is closed", other.move_to_device, other, core)
    do soma.load(with_const:bytes()):move_to_device(core) end
    soma.load(with_const:bytes()):move_to_device(core) -- the dropped one is collected
    collectgarbage() collectgarbage()
    eq(core.hbm_bytes, 32)
    raises("the host is not a device", with_const.move_to_device, with_const, "cpu")
    fails("move_to_device: 'x' is not a device; there are: cpu, neuron:0 to neuron:63", with_const.move_to_device, with_const, "x")
    raises("soma.core expected", with_const.move_to_device, with_const, 1)
    local trn1 <close> = soma.core {target = "trn1"}
    raises("the program is for trn2, but the machine is a trn1", with_const.move_to_device, with_const, trn1)
  end)
  with_const:drop_from_device(soma.device "neuron:0") -- there are none
  soma.device "neuron:0":close()
end)

case("large inputs are used in place by run, copied by start", function()
  local core <close> = soma.core {}
  local big = soma.assemble [[
        target  trn2
a       tensor  float32[2048, 128], input
b       tensor  float32[2048, 128], input
c       tensor  float32[128, 128], output
t       tile    sbuf float32[128, 128]
s       sem
q       queue   dge=hwdge
section sync
        dma_copy  t, a[1920:2048, :], queue=q   $s
        dma_copy  c, t, queue=q                 $s>=16 $s
        dma_copy  b[0:128, :], t, queue=q       $s>=32 $s
        halt
]]
  local a, b = soma.randn({2048, 128}, "float32", {seed = 1}), soma.ones {2048, 128}
  local tail = a:slice({1920, 2048}):copy()
  local run = core:run(big, {a = a, b = b})
  eq(soma.equal(run.out.c, tail), true)
  eq(run.stats.host_to_device, 2 * 2048 * 128 * 4)
  eq(b:min(), 1.0) eq(b:max(), 1.0) -- the program writes b: that was a copy
  eq(soma.equal(run:fetch("b"):slice({0, 128}):copy(), tail), true)
  eq(soma.equal(run:fetch "a", a), true)
  a:set(0, 0, 5) -- a is where the run reads it
  eq(run:fetch("a"):get(0, 0), 5.0)
  run = core:start(big, {a = a, b = b})
  a:fill(0)
  run:continue()
  eq(soma.equal(run.out.c, tail), true)
  -- an input that nobody else holds lives as long as the run may read it
  run = core:run(big, {a = soma.full({2048, 128}, 3), b = b})
  collectgarbage() collectgarbage()
  eq(run:fetch("a"):min(), 3.0)
  run:close()
  -- in_place says otherwise, for either
  a:set(0, 0, 6)
  run = core:start(big, {a = a, b = b}, {in_place = true})
  a:set(0, 0, 7)
  eq(run:fetch("a"):get(0, 0), 7.0)
  run = core:run(big, {a = a, b = b}, {in_place = false})
  a:set(0, 0, 8)
  eq(run:fetch("a"):get(0, 0), 7.0)
  fails("run: option 'in_place' must be a boolean, not number", core.start, core, big, {a = a, b = b}, {in_place = 1})
end)

case("names of devices", function()
  for _, name in ipairs {"gpu", "neuro", "privateuse", "neuron:", "neuron:-1", "neuron:64", "neuron:01", "neuron:1x", "neuron:999", "", "CPU"} do
    fails("zeros: '" .. name .. "' is not a device; there are: cpu, neuron:0 to neuron:63", soma.zeros, 1, "int8", {device = name})
  end
  fails("to: 'x' is not a device; there are: cpu, neuron:0 to neuron:63", host_a.to, host_a, "x")
  fails("core: 'x' is not a device; there are: cpu, neuron:0 to neuron:63", soma.core, {device = "x"})
  raises("the host is not a core", soma.device, "cpu")
  raises("option 'device' must be a string, not number", soma.zeros, 1, "int8", {device = 0})
end)

case("cores and devices", function()
  local made = soma.device "neuron:7" -- made on demand, and kept
  collectgarbage() collectgarbage()
  eq(soma.device "neuron:7" == made, true) eq(made.device, "neuron:7")
  fails("core: neuron:7 is another core, which is not closed", soma.core, {device = "neuron:7"})
  made:close()
  local again <close> = soma.core {device = "neuron:7"}
  eq(soma.device "privateuseone:7" == again, true) eq(soma.core {}.device, nil)
  local a = host_a:to "neuron:7"
  with_core({}, function(core)
    fails("run: input 'a' is on neuron:7, but this core is neuron:0", core.run, core, prog, {a = a, b = host_b})
  end)
  local plain = soma.core {}
  fails("run: input 'a' is on neuron:7, but this core is not on a device: make it with soma.core{device = \"neuron:7\"}",
    plain.run, plain, prog, {a = a, b = host_b})
end)

case("closed tensors and closed devices", function()
  local core = soma.core {device = "neuron:0"}
  local a, b = host_a:to "neuron:0", host_b:to "neuron:0"
  local run = core:start(prog, {a = a, b = b})
  a:close()
  raises("the tensor is closed", a.to, a, "cpu")
  eq(tostring(a), "float32[4, 8] on neuron:0 (closed)")
  run:continue() -- it holds what it needs
  local c = run.out.c
  eq(soma.equal(c:to "cpu", host_a + host_b), true)
  fails("run: input 'a' is a tensor that is closed", core.run, core, prog, {a = a, b = b})
  core:close()
  eq(tostring(b), "float32[4, 8] on neuron:0 (which is closed)")
  fails("to: the core of neuron:0 is closed", b.to, b, "cpu")
  fails("to: the core of neuron:0 is closed", b.to, b, "neuron:0")
  b:close()
  do local x <close> = host_a:to "neuron:0" end
  soma.device "neuron:0":close()
end)

case("the host's functions refuse tensors on a device, and say how to move them", function()
  with_core({}, function()
    local a = host_a:to "neuron:0"
    local name = "tensor on a device: use t:to \"cpu\""
    fails("cos is not built for tensors on a device; t:to \"cpu\" has it", soma.cos, a)
    raises("soma.tensor expected, got " .. name, soma.equal, a, host_a)
    fails("add: operand 1 is on the host, another one on neuron:0: use t:to", function() return host_a + a end)
    fails("a tensor on a device has no field or method 'any'; t:to \"cpu\" has more", function() return a:any() end)
    fails("a tensor on a device cannot be written by elements: use t:fill, t:assign or t:to \"cpu\"", function() a[0] = 1 end)
    raises("float32[4, 8], but the data given is int8[4, 8]", function()
      soma.device "neuron:0":run(prog, {a = soma.zeros({4, 8}, "int8", {device = "neuron:0"}), b = a})
    end)
    fails("zeros: a tensor in HBM has a type, at most 8 dimensions, and at least one element", soma.zeros, {0, 3}, "int8", {device = "neuron:0"})
  end)
end)

t.finish()
