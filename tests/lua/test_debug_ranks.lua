-- Looking on while a world runs: stops, steps, the log, going back; what stops names its rank, and all ranks stand at one
-- moment. Random worlds are debugged in test_world_random.lua, a session is tests/golden/debug-ranks.txt.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

local source = [==[
        target  trn1
tp      group   [[0, 1, 2, 3]]
x       tensor  float32[128, 64], input
y       tensor  float32[128, 64], output
z       tensor  float32[128, 64], output
a       tile    sbuf float32[128, 64]
done    sem
loaded  sem
ready   sem
q       queue   dge=none
section sync
        dma_copy a, x, queue=q            $loaded
        dma_copy z, a, queue=q            $ready>=1
        halt
section vector
        tensor_scalar a, a, imm0=2.0, op0=mult  $loaded>=16 $ready++
        halt
section gpsimd
        mov     r1, 4
again:  sub     r1, r1, 1
        bne     r1, 0, again
        all_reduce dsts=[y], srcs=[x], group=tp, op=add   $done++
        nop     $done>=1
        halt
]==]
local prog = soma.assemble(source, {name = "sum.s"})
local function inputs(r) return {x = soma.randn({128, 64}, {seed = r + 1})} end
local function start(options)
  local o = {ranks = 4, target = "trn1"}
  for k, v in pairs(options or {}) do o[k] = v end
  local w = soma.world(o)
  return w, w:start(prog, inputs)
end
local plain = soma.world {ranks = 4, target = "trn1"}:run(prog, inputs)
local function same(runs)
  eq({runs.hash, runs.time_ns, runs.fault}, {plain.hash, plain.time_ns, nil})
  for r = 0, 3 do
    eq(runs[r].out.y:bytes(), plain[r].out.y:bytes())
    eq(runs[r].out.z:bytes(), plain[r].out.z:bytes())
  end
end

case("stops at every instruction of all ranks, and of CC sequencers, change nothing; nobody is ahead of one", function()
  local w, runs = start()
  local before, stops, of = {}, 0, {[0] = 0, 0, 0, 0}
  for r = 0, 3 do
    for _, i in ipairs(w:program(r):instructions()) do runs[r]:add_stop {kind = "pc", engine = i.engine, pc = i.pc} end
  end
  repeat
    w:continue()
    for _, hit in ipairs(runs.stopped) do
      stops, of[hit.rank] = stops + 1, of[hit.rank] + 1
      eq(hit.time_ns, runs.time_ns)
      eq(runs[hit.rank].stopped[1].pc, hit.pc)
    end
    for r = 0, 3 do
      eq(runs[r].time_ns <= runs.time_ns, true)
      eq(runs[r].time_ns >= (before[r] or 0), true)
      before[r] = runs[r].time_ns
    end
  until runs[0].ended
  local issued = 0
  for r = 0, 3 do issued = issued + plain[r].stats.instructions end
  eq(stops, issued)
  eq(of[3], plain[3].stats.instructions)
  same(runs)
end)

case("by single events, and by instructions of one engine", function()
  local w, runs = start()
  local n = 0
  repeat
    w:step_event()
    n = n + 1
  until runs[0].ended
  eq(n > 400, true)
  same(runs)
  w, runs = start()
  for i = 1, 6 do
    w:step(3, "gpsimd")
    eq(runs[3]:engine "gpsimd".instructions, i)
  end
  eq(runs[3]:engine "cc0".status, "idle")
  for _ = 1, 3 do w:step(1, "cc0") end
  eq(runs[1]:engine "cc0".instructions, 3)
  eq(runs[1]:engine "cc0".pc, 3)
  eq(runs[0].time_ns > 1000, true)
  w:continue()
  same(runs)
end)

case("who pushed: bytes and a semaphore from another rank", function()
  local w, runs = start()
  local sems, hit = {}, nil
  for _, sem in ipairs(w:program(2):semaphores()) do
    if sem.name:match "^cc0_from" then sems[#sems + 1] = runs[2]:add_stop {kind = "semaphore", semaphore = sem.number, value = 3} end
  end
  w:continue()
  hit = runs.stopped[1]
  eq({hit.rank, hit.value, hit.engine, hit.from_rank ~= nil}, {2, 3, nil, true})
  for _, id in ipairs(sems) do runs[2]:remove_stop(id) end
  local bytes = runs[2]:add_stop {kind = "write", tensor = "y", offset = 0, bytes = 4}
  w:continue()
  hit = runs.stopped[1]
  eq({hit.rank, hit.stop, hit.engine, hit.from_rank ~= nil and hit.from_rank ~= 2}, {2, bytes, "cc0", true})
  eq(w:program(hit.from_rank):instructions {engine = "cc0", pc = hit.pc}[1].name, "dma_trigger")
  w:continue()
  same(runs)
end)

case("the log has all ranks in the order of time, and changes nothing", function()
  local w, runs = start {threads = 3}
  local last, of = 0, {[0] = 0, 0, 0, 0}
  for r = 0, 3 do
    runs[r]:log(function(l)
      eq(runs[r] ~= nil, true)
      last, of[r] = math.max(last, l.end_ns), of[r] + 1
    end)
  end
  w:continue()
  eq({of[0] > 20, of[0] == of[1]}, {true, true})
  same(runs)
end)

case("snapshots go back and forth, share memory, and keep stops", function()
  local w, runs = start()
  local stop = runs[1]:add_stop {kind = "pc", engine = "gpsimd", pc = 3}
  w:continue()
  local first = w:snapshot()
  w:until_time(runs.time_ns + 2000)
  local second = w:snapshot(first)
  eq(second.bytes < first.bytes * 3, true)
  local there = runs.time_ns
  w:continue()
  same(runs)
  w:restore(second)
  eq({runs.time_ns, runs[0].ended, runs[3].out.y}, {there, false, nil})
  w:restore(first)
  eq(runs.time_ns < there, true)
  eq(runs[1]:engine "gpsimd".pc, 3)
  w:continue() -- the stop holds once more
  eq({#runs.stopped, runs.stopped[1].stop, runs.stopped[1].rank}, {1, stop, 1})
  w:continue()
  same(runs)
  w:restore(second)
  w:continue()
  same(runs)
  first:close()
  raises("the snapshot is closed", w.restore, w, first)
end)

case("back from a world that cannot go on", function()
  local other = soma.assemble(source:gsub("again\n.-halt", "again\n        halt"), {name = "none.s"})
  local w = soma.world {ranks = 4, target = "trn1"}
  raises("rank 3", w.start, w, {[0] = prog, prog, prog, other}, inputs)
  local waits = soma.assemble(source:gsub("nop     %$done>=1", "nop     $done>=2"), {name = "waits.s"})
  local runs = w:start({[0] = prog, prog, prog, waits}, inputs)
  w:until_time(3000)
  local s = w:snapshot()
  w:continue {faults = "return"}
  eq(runs.kind, "deadlock")
  raises("fault", w.snapshot, w)
  w:restore(s)
  eq({runs.fault, runs.time_ns}, {nil, s.time_ns})
  eq(runs[3]:waits():find("it is changed when the collective is complete of waits.s:22", 1, true) ~= nil, true, runs[3]:waits())
  w:continue {faults = "return"}
  eq(runs.kind, "deadlock")
end)

case("two cores a rank", function()
  local pair = soma.assemble([==[
        target  trn2
tp      group   [[0, 1]]
x       tensor  float32[2, 128, 64], input
y       tensor  float32[2, 128, 64], output
done    sem     core=*
section gpsimd core=*
        all_reduce dsts=[y], srcs=[x], group=tp, op=add, both=true  $done++
        nop     $done>=1
        halt
]==], {name = "pair.s"})
  local function two() return {x = soma.ones {2, 128, 64}} end
  local whole = soma.world {ranks = 2, lnc = 2, target = "trn2"}:run(pair, two)
  local w = soma.world {ranks = 2, lnc = 2, target = "trn2"}
  local runs = w:start(pair, two)
  runs[1]:add_stop {kind = "pc", core = 1, engine = "gpsimd", pc = 0}
  w:continue()
  eq({runs.stopped[1].rank, runs.stopped[1].core}, {1, 1})
  local have = runs[0]:engine("cc0", {core = 1}).instructions
  w:step(0, "cc0", {core = 1})
  eq(runs[0]:engine("cc0", {core = 1}).instructions, have + 1)
  w:continue()
  eq(runs.hash, whole.hash)
end)

case("what cannot be is refused", function()
  local w, runs = start()
  raises("no such rank", w.step, w, 4, "gpsimd")
  raises("'cc9' is not an engine", w.step, w, 0, "cc9")
  raises("core 1 of rank 0 has no engine", w.step, w, 0, "vector", {core = 1})
  raises("0 to 1e13", w.until_time, w, -1)
  raises("engine", runs[0].add_stop, runs[0], {kind = "pc", engine = "cc7", pc = 0})
  raises("cc0 has", runs[0].add_stop, runs[0], {kind = "pc", engine = "cc0", pc = 10000})
  raises("a rank of a world, which moves it", runs[0].continue, runs[0])
  raises("soma_world_return", runs[0].restore, runs[0], soma.core {}:start(soma.assemble "target trn1\nsection sync\n halt\n", {}):snapshot())
  raises("with its world", runs[0].snapshot, runs[0])
  local s = w:snapshot()
  w:continue()
  local again = soma.world {ranks = 4, target = "trn1"}
  raises("has not been started", again.restore, again, s)
  raises("has not been started", again.debug, again)
  again:start(prog, inputs)
  raises("of another world", again.restore, again, s)
  local traced = soma.world {ranks = 4, target = "trn1", trace = true}
  traced:start(prog, inputs)
  raises("recorded cannot go back", traced.restore, traced, traced:snapshot())
end)

case("a world with checks and causes goes back, and finds and tells the same", function()
  local w = soma.world {ranks = 4, target = "trn1", checks = "all", causes = true}
  local runs = w:start(prog, inputs)
  local function told()
    local list = {runs.hash}
    for _, f in ipairs(runs.findings) do list[#list + 1] = f.text end
    for r = 0, 3 do list[#list + 1] = runs[r]:explain_time() end
    return table.concat(list, "\n")
  end
  w:until_time(3000)
  local s = w:snapshot()
  w:continue()
  local first = told()
  w:restore(s)
  w:continue()
  eq(told(), first)
end)

case("world:debug, with commands from a file", function()
  local w, runs = start()
  local path, said = t.temp("break rank 2 22\ncontinue\nprint rank 1 a[0, :2]\nback\ndelete\nuntil 4us\nwho wrote rank 3 a[0, 0]\nquit\n"), {}
  eq(w:debug {script = path, print = function(text) said[#said + 1] = text end}, runs)
  local text = table.concat(said, "\n")
  eq(text:find("stop 1 at 6.429 ns: rank 2 gpsimd 3 (sum.s:22)", 1, true) ~= nil, true, text)
  eq(text:find("rank 1 a[0, :2] = float32[2]", 1, true) ~= nil, true, text)
  eq(text:find("written by rank 3 vector 0  sum.s:16", 1, true) ~= nil, true, text)
  w:continue()
  same(runs)
end)
t.finish()
