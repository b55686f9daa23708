-- Where tensors live: host or HBM, what a run does with them, and what each move costs.
--   build/soma samples/placement.lua
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"
local prog = soma.assemble_file(here .. "vector_add_naive.s") -- c = a + b, float32[128, 1] each
local BYTES = 128 * 4

local core = soma.core {device = "neuron:0", max_hbm_bytes = 1 << 20}
local function say(what, ...)
  print(string.format("%-44s %6d B in, %6d B out", string.format(what, ...), core.host_to_device,
    core.device_to_host))
end

-- 1. Every constructor and loader takes a device; t.device tells.
local a = soma.randn({128, 1}, "float32", {seed = 1, device = "neuron:0"})
local b = soma.load_npy(here .. "data/add_b.npy", {device = "neuron:0"})
assert(a.device == "neuron:0" and b.device == "neuron:0" and soma.ones(3).device == "cpu")
assert(soma.zeros(8, "float32", {device = "privateuseone:0"}).device == "neuron:0", "an alias")
assert(core.host_to_device == 2 * BYTES) -- zeros are made there
say "three tensors made on neuron:0"

-- 2. All inputs on the device: the output stays there, and nothing is copied.
local before = core.host_to_device
local c = core:run(prog, {a = a, b = b}).out.c
assert(c.device == "neuron:0" and core.host_to_device == before and core.device_to_host == 0)
say "a run with both inputs on the device"

-- 3. So kernels chain without the host: c + b, and that + b.
local d = core:run(prog, {a = core:run(prog, {a = c, b = b}).out.c, b = b}).out.c
assert(d.device == "neuron:0" and core.host_to_device == before and core.device_to_host == 0)
say "two more runs, each on the output of the last"

-- 4. A look at a tensor is a move: explicit, and counted.
local host_a, host_b = a:to "cpu", b:to "cpu"
assert(soma.equal(d:to "cpu", host_a + host_b + host_b + host_b))
assert(core.device_to_host == 3 * BYTES)
say "three tensors read by the host"

-- 5. One input on the host brings all outputs to the host.
local run = core:run(prog, {a = a, b = host_b})
assert(run.out.c.device == "cpu" and soma.equal(run.out.c, host_a + host_b))
assert(run.stats.host_to_device == BYTES and run.stats.device_to_host == BYTES)
say "a run with one input on the host"

-- 6. HBM ends: the error has the sizes.
local ok, message = pcall(soma.zeros, 1 << 20, "float32", {device = "neuron:0"})
assert(not ok)
print("exhausted: " .. message:match "%[1048576%] (needs.*)$")

-- 7. What is in HBM, by address, and what is free.
local s = core.hbm:stats()
print(string.format("%d of %d B in %d blocks; free: %d B, %d in one block", s.used, s.capacity, s.blocks,
  s.free, s.largest_free))
for _, block in ipairs(core.hbm:list()) do
  print(string.format("  0x%05x %6d B  %s %s", block.address, block.bytes, block.owner, block.name))
end
assert(s.used == core.hbm_bytes and s.used <= s.high_water and s.largest_free <= s.free)

-- 8. Constants come with a program: each run copies them, or they are moved to the device once.
local shift = soma.assemble [[
        target  trn2
x       tensor  float32[128, 1], input
w       tensor  float32[128, 1], const = [times 128 3]
y       tensor  float32[128, 1], output
q       queue   dge=none
section sync
        dma_compute  y, srcs=[x, w], op=add, queue=q
        dma_trigger  q, 1
        halt
]]
run = core:run(shift, {x = a})
assert(run.stats.host_to_device == BYTES and run.out.y.device == "neuron:0")
say "a run that copies its constants"
shift:move_to_device "neuron:0"
say "its constants moved to the device"
for _ = 1, 3 do
  run = core:run(shift, {x = a})
  assert(run.stats.host_to_device == 0)
end
say "three runs with them there"
assert(soma.equal(run.out.y:to "cpu", host_a + 3))

-- 9. Each device has its own HBM.
local other = soma.core {device = "neuron:1"}
ok, message = pcall(other.run, other, prog, {a = a, b = b})
assert(not ok)
print("elsewhere: " .. message:match "run: (.*)$")
assert(a:to "neuron:1".device == "neuron:1" and a.device == "neuron:0")
