-- Saved runs of two cores: what follows is bit by bit what would have followed.
local soma = require "soma"
local t = require "harness"
local two = require "two_cores"
local case, eq, raises = t.case, t.eq, t.raises

local x = soma.randn({2, 128, 64}, "float32", {seed = 1})
local a, b = soma.randn({2, 128, 512}, "float32", {seed = 2}), soma.randn({2, 128, 512}, "float32", {seed = 3})
local programs = {
  exchange = {two.exchange, {x = x}},
  sum = {two.sum, {a = a, b = b}},
  chain = {two.chain, {}},
  -- Registers that move operands, on both cores; transfers of both directions under way.
  dynamic = {two.head("ready", "t u", true) .. [[
section sync core=*
        mov r1, CORE
        xor r2, r1, 1
        dma_copy  t, x[r1], queue=q        $ready
        nop                                $ready>=16
        mov r3, 0
l:      dma_copy  u[:, r3:+16].peer, t[:, r3:+16], queue=q $peer.ready
        add r3, r3, 16
        blt r3, 64, l
        dma_copy  y[r2], u, queue=q        $ready>=80
        halt
]], {x = x}},
  -- A sendrecv that waits, some under way at once, and registers that change while they are.
  sendrecv = {[[
target  trn2
loaded  sem     core=*
swapped sem     core=*
q       queue   dge=hwdge, core=*
st      queue   dge=none, core=*
x       tensor  float32[2, 128, 64], input
y       tensor  float32[2, 128, 64], output
t       tile    sbuf float32[128, 64]
u       tile    sbuf float32[128, 64]
section sync
        loop      r0, 0, 1500
        endloop
section sync core=*
        dma_copy  t, x[CORE], queue=q        $loaded
        nop                                  $loaded>=16
        mov       r1, 16 * CORE
        sendrecv  u[:, r1:+16], t[:, r1:+16], queue=q, pipe=4 $swapped
        add       r1, r1, 32
        sendrecv  u[:, r1:+16], t[:, r1:+16], queue=q, pipe=4 $swapped
        mov       r1, 0
        dma_copy  y[CORE], u, queue=q        $swapped>=64
        halt
section scalar core=*
        nop                                  $loaded>=16
        sendrecv  u[0:64, 32 - 16 * CORE:+8], t[64:128, 16:24], queue=st, pipe=5 $swapped
        sendrecv  u[0:64, 24 - 16 * CORE:+8], t[64:128, 8:16], queue=st, pipe=5 $swapped
        halt
section vector
        memset    u, 0.0
        halt
]], {x = x}},
  -- The source of core 0's is overwritten while it is under way: it has been copied.
  sendrecv_gpsimd = {two.head("loaded swapped", "t u", true) .. [[
section sync core=*
        dma_copy  t, x[CORE], queue=q        $loaded
        dma_copy  y[CORE], u, queue=q        $swapped>=2
        halt
section gpsimd core=*
        nop                                  $loaded>=16
        mov       r1, 32 * CORE
        sendrecv_gpsimd  u[:, r1:+32], t[:, r1:+32], pipe=1  $swapped++
        xor       r1, r1, 32
        sendrecv_gpsimd  u[:, r1:+32], t[:, r1:+32], pipe=1  $swapped++
        mov       r1, 0
        halt
section vector
        nop                                  $loaded>=16
        loop      r0, 0, 40
        memset    t[:, 0:8], 7.0
        endloop
        halt
]], {x = x}},
}

-- Ends the run event by event; saves and resumes on another core after every `each` events.
local function in_steps(prog, inputs, options, each)
  local path = t.temp()
  local run = soma.core(options):start(prog, inputs, {faults = "return"})
  while not run.ended do
    for _ = 1, each do
      if not run.ended then run:step_event() end
    end
    if run.ended then break end
    assert(run:save(path))
    local bytes = t.read(path)
    run = soma.core(options):resume(path, {faults = "return"})
    if run.ended then break end -- it has its outputs, which counts as bytes to the host
    assert(run:save(path))
    eq(t.read(path) == bytes, true, "saved again it is the same")
  end
  return run
end

local function same(run, whole)
  eq(run.fault, whole.fault)
  eq(run.stats.trace_hash, whole.stats.trace_hash)
  eq(run.time_ns, whole.time_ns)
  for name, value in pairs(whole.out) do eq(soma.equal(run:fetch(name), value), true, name) end
  for core = 1, 2 do
    eq(run.stats.core[core].instructions, whole.stats.core[core].instructions)
    eq(run.stats.core[core].dma_transfers, whole.stats.core[core].dma_transfers)
  end
end

for name, p in pairs(programs) do
  case(name .. " in parts", function()
    local prog = soma.assemble(p[1], {name = name .. ".s"})
    local whole = soma.core {}:run(prog, p[2])
    for _, each in ipairs {41} do same(in_steps(prog, p[2], {}, each), whole) end
  end)
  case(name .. " in parts, under other timings and with its causes", function()
    local prog = soma.assemble(p[1], {name = name .. ".s"})
    for seed = 1, 1 do
      local options = {schedule = seed, causes = true}
      local whole = soma.core(options):run(prog, p[2])
      local run = in_steps(prog, p[2], options, 53)
      same(run, whole)
      eq(run:explain_time(), whole:explain_time())
    end
  end)
end

case("a stop in time, and a limit", function()
  local prog, path = soma.assemble(two.exchange), t.temp()
  local whole = soma.core {}:run(prog, {x = x})
  local run = soma.core {}:start(prog, {x = x})
  run:until_time(1500.0)
  assert(run:save(path))
  same(soma.core {}:resume(path):continue(), whole)
  local limited = soma.core {max_instructions = 7}:start(prog, {x = x}, {faults = "return"}):continue()
  eq(limited.fault.kind, "limit")
  assert(limited:save(path))
  same(soma.core {}:resume(path):continue(), whole)
end)

case("memories, registers and semaphores of core 1 come back", function()
  local path, core = t.temp(), soma.core {}
  local run = core:start(soma.assemble [[
s sem core=*
section vector core=*
        mov r3, CORE + 4
        nop $s>=1
        halt
section sync
        mov r1, 2000
l:      sub r1, r1, 1
        bne r1, 0, l
        halt
]], {})
  run:until_time(100.0)
  core:set_register("vector", 5, 77, {core = 1})
  core.sbuf:write({partition = 7, core = 1}, soma.tensor({1, 2}, "float32"))
  core:set_semaphore("s", 1, {core = 1})
  core:set_semaphore("s", 1)
  assert(run:save(path))
  local other = soma.core {}
  run = other:resume(path)
  eq(other:register("vector", 5, {core = 1}), 77) eq(other:register("vector", 3, {core = 1}), 5)
  eq(other.sbuf:read {partition = 7, dtype = "float32", count = 2, core = 1}[{0, 1}], 2.0)
  eq(other:semaphore("s", {core = 1}), 1)
  run:continue()
  eq(run.ended, true) eq(run.fault, nil)
end)

case("a deadlock after resuming names the cores as before", function()
  local prog, path = soma.assemble([[
ready   sem     core=*
section sync core=*
        nop $peer.ready++
        event_semaphore $ready>=2
        halt
]], {name = "d.s"}), t.temp()
  local whole = soma.core {}:run(prog, {}, {faults = "return"}).fault
  local run = soma.core {}:start(prog, {}, {faults = "return"})
  run:until_time(100.0)
  assert(run:save(path))
  eq(tostring(soma.core {}:resume(path, {faults = "return"}):continue().fault), tostring(whole))
end)


case("a core that runs on one core resumes two", function()
  local path = t.temp()
  local run = soma.core {}:start(soma.assemble(two.exchange), {x = x})
  run:until_time(1500.0)
  assert(run:save(path))
  local core = soma.core {}
  core:run(soma.assemble "section sync\nhalt\n", {})
  local again = core:resume(path):continue()
  eq(soma.equal(again:fetch "y", soma.core {}:run(soma.assemble(two.exchange), {x = x}).out.y), true)
  raises("core 1 does not exist: the program of the run has 1", function()
    core:run(soma.assemble "section sync\nhalt\n", {})
    core:semaphore(0, {core = 1})
  end)
end)

t.finish()
