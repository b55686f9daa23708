-- Where two cores meet: core_barrier, sendrecv, sendrecv_gpsimd, rank_id.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises
local function has(text, part) eq(text:find(part, 1, true) ~= nil, true, text) end

-- A program of two cores: x in, y out, halves by core; tiles a, b of 128 x 64.
local function program(body, target)
  return "target " .. (target or "trn2") .. "\nready sem core=*\nloaded sem core=*\ndone sem core=*\n" ..
    "q queue dge=hwdge, core=*\nst queue dge=none, core=*\nsw queue dge=swdge, core=*\n" ..
    "x tensor float32[2, 128, 64], input\ny tensor float32[2, 128, 64], output\n" ..
    "a tile sbuf float32[128, 64]\nb tile sbuf float32[128, 64]\n" .. body
end
local x = soma.randn({2, 128, 64}, "float32", {seed = 1})
local function run(body, options, how)
  return soma.core(options or {}):run(soma.assemble(program(body), {name = "m.s"}), {x = x}, how)
end
local function fault(body) return run(body, nil, {faults = "return"}).fault end

-- Each core's engine moves its half to the other core and stores what came.
local function swap(engine, queue, insn)
  local gp = queue == nil
  local store = [[
section sync core=*
        dma_copy  a, x[CORE], queue=q     $loaded
        dma_copy  y[CORE], b, queue=q     ]] .. (gp and "$done>=1\n" or "$done>=16\n")
  local move = string.format("%s b, a%s%s $loaded>=16 %s\n", insn or "sendrecv", gp and "" or ", queue=" .. queue,
    ", pipe=3", gp and "$done++" or "$done")
  if engine == "sync" then store = store:gsub("\n        dma_copy  y", "\n" .. move .. "        dma_copy  y") move = "" end
  return store .. "        halt\n" .. (move ~= "" and "section " .. engine .. " core=*\n" .. move .. "halt\n" or "")
end

case("sendrecv on each engine and queue: each core has what the other sent", function()
  for _, m in ipairs {{"sync", "q"}, {"sync", "st"}, {"tensor", "st"}, {"vector", "st"}, {"scalar", "st"},
                      {"gpsimd", "st"}, {"gpsimd", "sw"}, {"gpsimd", nil, "sendrecv_gpsimd"}} do
    local r = run(swap(table.unpack(m, 1, 3)))
    eq(soma.equal(r.out.y[0], x[1]), true, m[1])
    eq(soma.equal(r.out.y[1], x[0]), true, m[1])
  end
end)

case("the same under other timings", function()
  for seed = 1, 20 do
    for _, m in ipairs {{"sync", "q"}, {"gpsimd", nil, "sendrecv_gpsimd"}} do
      local r = run(swap(table.unpack(m, 1, 3)), {schedule = seed})
      eq(soma.equal(r.out.y[0], x[1]), true)
      eq(soma.equal(r.out.y[1], x[0]), true)
    end
  end
end)

case("a semaphore of a sendrecv follows both ways: what is sent has left, what comes is there", function()
  -- Core 1's queue is busy with other transfers, so that what it sends comes late.
  local prog = soma.assemble(program [[
section sync
        dma_copy  a, x[0], queue=q        $loaded
        sendrecv  b, a, queue=q           $loaded>=16 $done
        dma_copy  y[0], b, queue=q        $done>=16
        halt
section sync core=1
        dma_copy  a, x[1], queue=q        $loaded
        nop                               $loaded>=16
        loop r0, 0, 20
        dma_copy  x[0], x[1], queue=q
        endloop
        sendrecv  b, a, queue=q           $loaded>=16 $done
        dma_copy  y[1], b, queue=q        $done>=16
        halt
]])
  local at = {}
  local core = soma.core {events = function(e)
    if e.kind == "semaphore" and e.name == "done" then at[e.core] = e.start_ns end
  end}
  local r = core:run(prog, {x = x})
  eq(soma.equal(r.out.y[0], x[1]), true)
  eq(core:semaphore("done"), 16) eq(core:semaphore("done", {core = 1}), 16)
  eq(at[0], at[1])
end)

case("one core waits for the other, and starts SEM_PEER after it came", function()
  local first
  local core = soma.core {events = function(e) if e.kind == "transfer" and not first then first = e end end}
  local r = core:run(soma.assemble(program [[
section sync
        sendrecv  b, a, queue=q
        halt
section sync core=1
        loop r0, 0, 2000
        endloop
        sendrecv  b, a, queue=q
        halt
]]), {x = x})
  eq(r.stats.core[1].engine.sync.waiting_ns > 2000, true)
  eq(r.stats.core[2].engine.sync.waiting_ns < 20, true)
end)

case("the wait for the other core's sendrecv is on the critical path", function()
  local core = soma.core {causes = true}
  local text = core:run(soma.assemble(program [[
section sync core=1
        loop r0, 0, 2000
        endloop
        sendrecv  b, a, queue=q
        halt
section sync
        sendrecv  b, a, queue=q
        dma_copy  y[0], b, queue=q
        halt
]], {name = "m.s"}), {x = x}):explain_time()
  has(text, "core 1 sync: sequencer")
  has(text, "core 0 q: wait: other core's sendrecv")
end)

case("pipes are in order and do not wait for one another", function()
  local r = run [[
section sync core=*
        dma_copy  a, x[CORE], queue=q     $loaded
        sendrecv  b, a, queue=q, pipe=1   $loaded>=16 $done
        dma_copy  y[CORE], b, queue=q     $done>=16
        halt
section scalar
        sendrecv  a[0:1], b[0:1], queue=st, pipe=2
        halt
section vector core=1
        nop                               $done>=16
        sendrecv  b[0:1], a[0:1], queue=st, pipe=2
        halt
]]
  eq(soma.equal(r.out.y[0], x[1]), true)
end)

case("operands by registers are those of each core", function()
  local r = run [[
section sync core=*
        mov       r1, 32 * CORE
        dma_copy  a, x[CORE], queue=q     $loaded
        sendrecv  b[0:64, r1:+32], a[64:128, r1:+32], queue=q $loaded>=16 $done
        dma_copy  y[CORE], b, queue=q     $done>=16
        halt
]]
  local y = r.out.y
  for p = 0, 63, 9 do
    for i = 0, 31 do
      eq(y[{0, p, i}], x[{1, p + 64, 32 + i}])
      eq(y[{1, p, 32 + i}], x[{0, p + 64, i}])
    end
  end
end)

case("two sendrecvs that differ fault with both places and sizes", function()
  local function differ(a, b, ...)
    local f = fault("section sync\n" .. a .. "\nhalt\nsection sync core=1\nnop\n" .. b .. "\nhalt\nsection gpsimd core=1\nhalt\n")
    eq(f.kind, "fault")
    for _, text in ipairs {...} do has(f.text, text) end
  end
  differ("sendrecv b, a, queue=q", "sendrecv b[:, 0:32], a[:, 0:32], queue=q",
    "sendrecv of pipe 0 moves 128 x 32 of float32 by 16 rings, but core 0 meets it with sendrecv, 128 x 64 of float32 by 16 rings, on sync at m.s:13")
  differ("sendrecv b, a, queue=q", "sendrecv b.view(int32), a.view(int32), queue=q", "128 x 64 of int32", "128 x 64 of float32")
  differ("sendrecv b[0:64], a[0:64], queue=q", "sendrecv b[0:64, 0:32], a[0:64, 0:32], queue=q", "64 x 64", "64 x 32")
  local f = fault "section sync\nsendrecv b, a, queue=q\nhalt\nsection gpsimd core=1\nsendrecv_gpsimd b, a\nhalt\n"
  has(f.text, "sendrecv of pipe 0 moves 128 x 64 of float32 by 16 rings, but core 1 meets it with sendrecv_gpsimd, 128 x 64 of float32, on gpsimd at m.s:16")
end)

case("core_barrier a thousand times: nobody is ahead by more than one", function()
  local core = soma.core {}
  local r = core:run(soma.assemble(program [[
n       tile    sbuf int32[1, 1000]
m       tile    sbuf int32[1, 1000]
section sync core=*
        loop r0, 0, 1000
        mul          r3, r0, CORE + 1
        tensor_store n[0, r0], r3
        core_barrier ready, data=n
        endloop
        halt
]]), {x = x})
  eq(r.fault, nil)
  eq(core:semaphore("ready"), 0) eq(core:semaphore("ready", {core = 1}), 0)
  eq(core.sbuf:read("n", {core = 1})[{0, 999}], 1998)
  eq(r.stats.engine.sync.instructions > 4000, true)
end)

case("core_barrier waits on its engine alone, and its clauses are around it", function()
  local seen = {}
  local core = soma.core {events = function(e)
    if e.kind == "semaphore" then seen[#seen + 1] = {e.name, e.core, e.value, e.start_ns} end
  end}
  core:run(soma.assemble(program [[
section scalar
        nop                               $loaded++
        halt
section sync
        core_barrier ready                $loaded>=1 $done++
        halt
section gpsimd core=1
        loop r0, 0, 1000
        endloop
        core_barrier ready                $done++
        halt
]]), {x = x})
  local function when(name, c, value)
    for _, s in ipairs(seen) do if s[1] == name and s[2] == c and s[3] == value then return s[4] end end
  end
  local late = when("ready", 0, 1) -- core 1 has come: seen here
  eq(late > 700, true)
  eq(when("ready", 1, 1) < 300, true)
  eq(when("ready", 0, 0), late)
  eq(when("done", 0, 1) - late < 40, true)
  eq(when("done", 1, 1) < late, true) -- it saw core 0's long ago
end)

case("reports of those who wait for ever", function()
  local f = fault "section sync\ncore_barrier ready\nhalt\nsection sync core=1\nnop\nhalt\n"
  eq(f.kind, "deadlock")
  has(f.text, "sync at m.s:13 waits at its core_barrier for core 1: $ready>=1; $ready is 0, 1 short, never updated")
  has(f.text, "nothing that could still run changes it")
  f = fault "section sync\nsendrecv b, a, queue=q, pipe=2\nhalt\nsection vector core=1\nsendrecv b, a, queue=st, pipe=1\nsendrecv b, a, queue=st, pipe=2\nhalt\n"
  eq(f.kind, "deadlock")
  has(f.text, "sync at m.s:13 waits at its sendrecv of pipe 2 for core 1\n    still to come: core 1 vector (m.s:17 by queue st)")
  has(f.text, "core 1 vector at m.s:16 waits at its sendrecv of pipe 1 for core 0\n    nothing that could still run on core 0 reaches it")
  f = fault "section sync\nsendrecv b, a, queue=q, pipe=2\nsendrecv b, a, queue=q, pipe=1\nhalt\nsection vector core=1\nsendrecv b, a, queue=st, pipe=1\nsendrecv b, a, queue=st, pipe=2\nhalt\n"
  has(f.text, "they wait in a circle: sync for core 1 vector for sync")
end)

case("gpsimd's own DMA moves 153 bytes a nanosecond", function()
  local span
  local core = soma.core {events = function(e) if e.kind == "instruction" then span = e.end_ns - e.start_ns end end}
  core:run(soma.assemble "target trn2\na tile sbuf float32[128, 256]\nb tile sbuf float32[128, 256]\nsection gpsimd core=*\nsendrecv_gpsimd b, a\nhalt\n", {})
  local bytes = 128 * 1024
  eq(math.abs((span - 150 / 1.2) / (bytes / 153) - 1) < 0.02, true, span)
end)

case("a run is saved while a core waits at a barrier", function()
  local prog = soma.assemble(program [[
section sync core=*
        dma_copy  a, x[CORE], queue=q     $loaded
        core_barrier ready                $loaded>=16
        dma_copy  y[1 - CORE], a, queue=q
        core_barrier ready
        halt
]])
  local want = soma.core {}:run(prog, {x = x})
  local path, at = os.tmpname(), 0
  repeat
    local core = soma.core {}
    local r = core:start(prog, {x = x})
    for _ = 1, at do r:step_event() end
    assert(r:save(path))
    core:close()
    r = soma.core {}:resume(path):continue()
    eq(r.stats.trace_hash, want.stats.trace_hash)
    eq(soma.equal(r.out.y, want.out.y), true)
    at = at + 7
  until at > 140
  os.remove(path)
end)

case("the barriers of a semaphore belong to one engine", function()
  local source = [[
there   sem     core=*
section %s core=*
        core_barrier here
        halt
section vector core=*
        core_barrier %s
        halt
]]
  source = "here    sem     core=*\n" .. source
  local ok = soma.core {}:run(soma.assemble(source:format("sync", "there"), {name = "b.s"}), {})
  assert(ok.ended)
  for _, wanted in ipairs {{"sync", "here", "b.s:4: .*semaphore here belongs to the core_barriers of vector: sync needs one"},
                           {"tensor", "here", "b.s:7: .*semaphore here belongs to the core_barriers of tensor: vector needs one"}} do
    local prog = soma.assemble(source:format(wanted[1], wanted[2]), {name = "b.s"})
    local good, message = pcall(function() return soma.core {}:run(prog, {}) end)
    assert(not good and tostring(message):find(wanted[3]), message)
  end
end)

case("rank_id is that of the logical core", function()
  local core = soma.core {}
  core:run(soma.assemble "section vector core=*\nmov r3, 7\nrank_id r3\nhalt\n", {})
  eq(core:register("vector", 3), 0) eq(core:register("vector", 3, {core = 1}), 0)
  core = soma.core {target = "trn1"}
  core:run(soma.assemble "target trn1\nsection vector\nmov r3, 7\nrank_id r3\nhalt\n", {})
  eq(core:register("vector", 3), 0)
end)

case("wrong use", function()
  local function wrong(text, body) raises(text, soma.assemble, program(body)) end
  local function alone(text, source) raises(text, soma.assemble, source) end
  alone("core_barrier: the program has one core; this needs the two of a logical core",
    "section sync\ncore_barrier 3\nhalt\n")
  alone("sendrecv: the program has one core",
    "q queue dge=hwdge\na tile sbuf int8[4, 4]\nb tile sbuf int8[4, 4]\nsection sync\nsendrecv b, a, queue=q\nhalt\n")
  alone("core_barrier needs gen3: trn1 is gen2", "target trn1\nsection sync\ncore_barrier 3\nhalt\n")
  alone("sendrecv needs gen3: inf2 is gen2",
    "target inf2\nq queue dge=none\na tile sbuf int8[4, 4]\nb tile sbuf int8[4, 4]\nsection sync\nsendrecv b, a, queue=q\nhalt\n")
  wrong("the semaphore of a barrier must belong to both cores; `s` belongs to core 0", "s sem\nsection sync core=*\ncore_barrier s\nhalt\n")
  wrong("semaphore is 256; it must be from 0 to 255", "section sync core=*\ncore_barrier 256\nhalt\n")
  wrong("a barrier names what lies at a fixed place", "section sync core=*\ncore_barrier ready, data=x[r0]\nhalt\n")
  wrong("overlaps src: the two must share no byte", "section sync core=*\nsendrecv a, a, queue=q\nhalt\n")
  wrong("float32", "section sync core=*\nsendrecv a, b.view(int32), queue=q\nhalt\n")
  wrong("unknown tile or tensor `sendrecv`", "section sync core=*\nnop\nhalt\ndma st, sendrecv a, b\n")
  wrong("queue sw belongs to the gpsimd engine", "section sync core=*\nsendrecv a, b, queue=sw\nhalt\n")
  wrong("a register or element in the pattern", "section sync core=*\nsendrecv a[:, r0:+4], b[:, 0:4], queue=st\nhalt\n")
  wrong("does not reach the other core's sbuf here", "section sync core=*\nsendrecv a.peer, b, queue=q\nhalt\n")
  wrong("not an instruction of the vector engine", "section vector core=*\nsendrecv_gpsimd a, b\nhalt\n")
  wrong("@read: sendrecv_gpsimd finishes with src and dst together", "section gpsimd core=*\nsendrecv_gpsimd a, b $done++@read\nhalt\n")
  alone("257 elements of float32 in a partition: gpsimd's own DMA takes at most 256, 1024 bytes",
    "a tile sbuf float32[4, 257]\nb tile sbuf float32[4, 257]\nsection gpsimd core=*\nsendrecv_gpsimd a, b\nhalt\n")
end)

t.finish()
