-- Programs of two cores: what each sees of the other, in which order, and what is refused.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises
local function has(text, part) eq(text:find(part, 1, true) ~= nil, true, text) end

local two = require "two_cores"
local exchange, pair_sum = two.exchange, two.sum
local x = soma.randn({2, 128, 64}, "float32", {seed = 1})

case("each core's tile goes into the other's SBUF", function()
  local core = soma.core {}
  local run = core:run(soma.assemble(exchange), {x = x})
  eq(soma.equal(run.out.y[0], x[1]), true)
  eq(soma.equal(run.out.y[1], x[0]), true)
  eq(soma.equal(core.sbuf:read("in", {core = 1}), x[0]), true)
  eq(soma.equal(core.sbuf:read {partitions = 128, dtype = "float32", count = 64, core = 1}, x[1]), true)
  eq(core:semaphore("ready"), 32)
  eq(core:semaphore("ready", {core = 1}), 32)
end)

case("statistics are of both and of each", function()
  local s = soma.core {}:run(soma.assemble(exchange), {x = x}).stats
  eq(s.instructions, 10) eq(#s.core, 2)
  eq(s.core[1].instructions, 5) eq(s.core[2].instructions, 5)
  eq(s.dma_transfers, 6) eq(s.core[2].dma_transfers, 3)
  eq(s.engine.sync.halted, true)
  eq(s.core[1].summary.hbm_read_bytes, 32768)
  local one = soma.core {}:run(soma.assemble "section sync\nhalt\n", {}).stats
  eq(#one.core, 1) eq(one.core[1].instructions, one.instructions)
end)

case("static descriptors of either core are in hbm_bytes", function()
  local source = "target trn2\nq queue dge=none, core=*\nx tensor float32[128, 64]\nt tile sbuf float32[128, 64]\n"
  local copy, none = " dma_copy t, x, queue=q\n halt\n", " halt\n"
  local function bytes(first, second)
    local text = source .. "section sync\n" .. first .. "section sync core=1\n" .. second
    return soma.core {}:run(soma.assemble(text), {}).stats.hbm_bytes
  end
  eq(bytes(none, copy), bytes(copy, none))
  eq(bytes(copy, copy) - bytes(copy, none), bytes(copy, none) - bytes(none, none))
  eq(bytes(copy, none) > bytes(none, none), true)
end)

case("the same program runs the same way each time, and under other timings to the same bits", function()
  local prog = soma.assemble(exchange)
  local first = soma.core {}:run(prog, {x = x})
  eq(soma.core {}:run(prog, {x = x}).stats.trace_hash, first.stats.trace_hash)
  for seed = 1, 20 do
    local run = soma.core {schedule = seed}:run(prog, {x = x})
    eq(run.fault, nil)
    eq(soma.equal(run.out.y, first.out.y), true)
  end
end)

case("a sum in halves on two cores", function()
  local a, b = soma.randn({2, 128, 512}, "float32", {seed = 2}), soma.randn({2, 128, 512}, "float32", {seed = 3})
  local run = soma.core {}:run(soma.assemble(pair_sum), {a = a, b = b})
  eq(soma.equal(run.out.y, a + b), true)
end)

-- 32 loads of 4 MiB on one core or on both: bytes read in a nanosecond, which is GB/s.
local function streams(cores)
  local section = cores == 2 and "section sync core=*\n" or "section sync\n"
  local run = soma.core {timing_only = true}:run(soma.assemble("target trn2\nq queue dge=hwdge, core=*\n" ..
    "x tensor float32[128, 8192]\nt tile sbuf float32[128, 8192]\n" .. section ..
    ("dma_copy t, x, queue=q\n"):rep(32) .. "drain\nhalt\n"), {})
  return run.stats.summary.hbm_read_bytes / run.time_ns
end
-- 668 GB/s: what the published times of kernels on two cores fit to.
case("both cores share the bandwidth of their stack", function()
  local one, both = streams(1), streams(2)
  eq(both < 1.9 * one, true)
  eq(math.abs(both / 668 - 1) < 0.05, true)
end)

case("an update of the other core is seen SEM_PEER later", function()
  local seen = {}
  local prog = soma.assemble [[
go      sem     core=1
section sync
        nop     $go++
        halt
section sync core=1
        nop     $go>=1
        halt
]]
  local core = soma.core {events = function(e) if e.kind == "semaphore" then seen[#seen + 1] = e end end}
  eq(core:run(prog, {}).fault, nil)
  eq(#seen, 1) eq(seen[1].core, 1) eq(seen[1].by_core, 0) eq(seen[1].name, "go")
  eq(seen[1].start_ns >= 200 and seen[1].start_ns < 202, true)
end)

case("event_semaphore applies an update of the other core there, not here", function()
  local prog = soma.assemble [[
s       sem     core=*
section sync core=*
        event_semaphore $peer.s+=3
        event_semaphore $s>=3 $s-=3
        event_semaphore $peer.s++
        event_semaphore $s>=1
        halt
]]
  local core = soma.core {}
  eq(core:run(prog, {}).fault, nil)
  eq(core:semaphore("s"), 1) eq(core:semaphore("s", {core = 1}), 1)
end)

case("a deadlock names the cores", function()
  local fault = soma.core {}:run(soma.assemble([[
ready   sem     core=*
section sync core=*
        nop $peer.ready++
        event_semaphore $ready>=2
        halt
]], {name = "d.s"}), {}, {faults = "return"}).fault
  eq(fault.kind, "deadlock")
  has(fault.text, "core 1 sync at d.s:4 waits for $ready>=2; $ready is 1, 1 short")
  has(fault.text, "updates: to 1 at 200 ns by core 1 sync (d.s:3)")
end)

case("a fault of core 1 ends the run and gives its place", function()
  local fault = soma.core {}:run(soma.assemble([[
section sync
l:      jmp l
section sync core=1
        mov r1, 0
        div r0, r1, r1
        halt
]], {name = "f.s"}), {}, {faults = "return"}).fault
  eq(fault.kind, "fault") eq(fault.line, 5) eq(fault.text, "division by zero") eq(fault.core, 1)
  has(tostring(fault), "on core 1 sync, pc 1")
end)

case("limits count both cores", function()
  local fault = soma.core {max_instructions = 1000}:run(soma.assemble "section sync core=*\nl: jmp l\n", {}, {faults = "return"}).fault
  eq(fault.kind, "limit")
  has(fault.text, "1000 instructions have run, which is the limit")
end)

case("registers and memory of core 1", function()
  local core = soma.core {}
  core:run(soma.assemble "section vector core=*\nmov r3, CORE + 4\nhalt\n", {})
  eq(core:register("vector", 3), 4) eq(core:register("vector", 3, {core = 1}), 5)
  core:set_register("vector", 3, -1, {core = 1})
  eq(core:register("vector", 3, {core = 1}), -1)
  core.sbuf:write({partition = 7, core = 1}, soma.tensor({1, 2}, "float32"))
  eq(core.sbuf:read {partition = 7, dtype = "float32", count = 2, core = 1}[{0, 1}], 2.0)
  eq(core.sbuf:read {partition = 7, dtype = "float32", count = 2}[{0, 1}], 0.0)
  raises("core 1 does not exist: the program of the run has 1", function()
    local c = soma.core {}
    c:run(soma.assemble "section sync\nhalt\n", {})
    c:semaphore(0, {core = 1})
  end)
end)

case("wrong use", function()
  local function wrong(text, source) raises(text, soma.assemble, source) end
  wrong("a wait must be on a semaphore of its own core, 0; let core 1 update one of those",
        "s sem core=*\nsection sync\nnop $peer.s>=1\nhalt\n")
  wrong("`peer` needs a semaphore that both cores have; `s` belongs only to core 1",
        "s sem core=1\nsection sync\nnop $peer.s++\nhalt\n")
  wrong("two cores as one need gen3; trn1 is gen2", "target trn1\ns sem core=*\n")
  wrong("`CORE` has a value only in the instructions of a program for two cores",
        "section sync\nmov r0, CORE\nhalt\n")
  wrong("`CORE` has a value", "s sem core=*\n%if CORE\n%endif\n")
  wrong(".peer: the program has one core",
        "q queue dge=hwdge\na tile sbuf float32[1, 4]\nb tile sbuf float32[1, 4]\nsection sync\n" ..
        "dma_copy a.peer, b, queue=q\nhalt\n")
  wrong(".peer: tensor_copy does not reach the other core's sbuf here",
        "a tile sbuf float32[1, 4]\nb tile sbuf float32[1, 4]\nsection vector core=*\ntensor_copy a.peer, b\nhalt\n")
  wrong("`.peer` is the other core's SBUF: both cores see one HBM",
        "q queue dge=hwdge, core=*\na tile sbuf float32[1, 4]\nx tensor float32[1, 4]\nsection sync core=*\n" ..
        "dma_copy a, x.peer, queue=q\nhalt\n")
end)

t.finish()
