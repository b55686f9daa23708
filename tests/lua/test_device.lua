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
      soma.load_npy(path, on),
    }
    local on_host = {
      soma.zeros({2, 3}, "int8"), soma.ones(4, "bfloat16"), soma.full(2, 1.5), soma.arange(5),
      soma.arange(0, 4, 2, "uint8"), soma.tensor({1, 2}), soma.tensor({1, 2, 3, 4}, "int32", {2, 2}),
      soma.frombytes("abcd", "uint8"), soma.randn(3, "float32", {seed = 1}),
      soma.uniform(3, "int8", {seed = 1}), soma.uniform(3, "float32", {seed = 1}), host_a,
    }
    local bytes = 0
    for i, x in ipairs(made) do
      local h = on_host[i]
      eq(x.device, "neuron:0") eq(h.device, "cpu")
      eq(x.shape, h.shape) eq(x.dtype, h.dtype) eq(x.ndim, h.ndim) eq(x.size, h.size) eq(x.nbytes, h.nbytes)
      eq(soma.equal(x:to "cpu", h), true, i)
      bytes = bytes + x.nbytes
    end
    moved(core, bytes, bytes)
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
    end
    local run = core:run(prog, {a = host_a, b = host_b})
    eq(run.out.c.device, "cpu")
    moved(core, 5 * BYTES, 3 * BYTES)
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
    fails("zeros: a tensor needs 1025 bytes of HBM; 0 of 1024 are taken", soma.zeros, 1025, "uint8", on)
    local x = soma.zeros(1000, "uint8", on)
    fails("ones: a tensor needs 25 bytes of HBM; 1000 of 1024 are taken", soma.ones, 25, "uint8", on)
    fails("to: a tensor needs 128 bytes of HBM; 1000 of 1024 are taken", host_a.to, host_a, "neuron:0")
    raises("needs 128 bytes of HBM; 1000 of 1024 are taken", core.run, core, prog, {a = host_a, b = host_b})
    moved(core, 1000, 0)
    x:close() x:close()
    eq(core.hbm_bytes, 0)
    eq(core:run(prog, {a = host_a, b = host_b}).ended, true)
    for _ = 1, 20 do soma.zeros(600, "uint8", on) end -- dropped ones are collected in time
    -- an output that finds no room: nothing is left bound
    collectgarbage() collectgarbage()
    local a, b = host_a:to "neuron:0", host_b:to "neuron:0"
    local rest = soma.zeros(1024 - 3 * BYTES + 1, "uint8", on)
    fails("run: a tensor needs 128 bytes of HBM; 897 of 1024 are taken", core.run, core, prog, {a = a, b = b})
    rest:close()
    eq(soma.equal(core:run(prog, {a = a, b = b}).out.c:to "cpu", host_a + host_b), true)
    -- a run that has not ended holds its own HBM
    local run = core:start(prog, {a = host_a, b = host_b})
    eq(core.hbm_bytes >= 3 * BYTES, true)
    run:close()
  end)
end)

case("names of devices", function()
  for _, name in ipairs {"gpu", "neuron", "neuron:", "neuron:-1", "neuron:64", "neuron:01", "neuron:1x", "neuron:999", "", "CPU"} do
    fails("zeros: '" .. name .. "' is no device; there are: cpu, neuron:0 to neuron:63", soma.zeros, 1, "int8", {device = name})
  end
  fails("to: 'x' is no device; there are: cpu, neuron:0 to neuron:63", host_a.to, host_a, "x")
  fails("core: 'x' is no device; there are: cpu, neuron:0 to neuron:63", soma.core, {device = "x"})
  raises("the host is no core", soma.device, "cpu")
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
    fails("run: input 'a' is on neuron:7, this core is neuron:0", core.run, core, prog, {a = a, b = host_b})
  end)
  local plain = soma.core {}
  fails("run: input 'a' is on neuron:7, this core is no device: make it with soma.core{device = \"neuron:7\"}",
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
    raises("soma.tensor expected, got " .. name, soma.exp, a)
    raises("soma.tensor expected, got " .. name, soma.equal, a, host_a)
    fails("add: operand 2 must be a tensor or a number, not " .. name, function() return host_a + a end)
    raises("attempt to perform arithmetic on a " .. name, function() return a + a end)
    fails("a tensor on a device has no field or method 'sum'; t:to \"cpu\" has more", function() return a:sum() end)
    fails("a tensor on a device cannot be written by elements: use t:to \"cpu\"", function() a[0] = 1 end)
    raises("float32[4, 8], the data given is int8[4, 8]", function()
      soma.device "neuron:0":run(prog, {a = soma.zeros({4, 8}, "int8", {device = "neuron:0"}), b = a})
    end)
    fails("zeros: a tensor in HBM has a type, at most 8 dimensions, and at least one element", soma.zeros, {0, 3}, "int8", {device = "neuron:0"})
  end)
end)

t.finish()
