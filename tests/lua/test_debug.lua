-- Looking on while a run goes: stops, snapshots, the log and the map. Whatever is asked of a run, its
-- events and results are those of a run that nobody looked at.
local soma = require "soma"
local t = require "harness"

local source = [[
        target  trn2
x       tensor  float32[128, 64], input
y       tensor  float32[128, 64], output
tx      tile    sbuf float32[128, 64]
acc     tile    sbuf float32[128, 64]
loaded  sem
summed  sem
done    sem
q       queue   dge=hwdge
o       queue   dge=hwdge
%macro  TWICE 1
        tensor_scalar %1, %1, imm0=2.0, op0=mult
%endmacro
section sync
        mov     r1, 0
again:  dma_copy  tx, x, queue=q    $loaded
        add     r1, r1, 1
        nop     $summed>=r1
        blt     r1, 4, again
        dma_copy  y, acc, queue=o   $done
        nop     $done>=16
        halt
section vector
        mov     r2, 0
        memset  acc, 0.0
round:  add     r2, r2, 16
        TWICE   acc
        tensor_tensor acc, acc, tx, op=add  $loaded>=r2 $summed++
        blt     r2, 64, round
        halt
]]
local prog = soma.assemble(source, {name = "dir/sum.s"})
local x = soma.randn({128, 64}, "float32", {seed = 1})
local plain = soma.core {}:run(prog, {x = x})
local function start(options)
  local core = soma.core(options or {})
  return core:start(prog, {x = x}, {faults = "return"}), core
end
local function same(run)
  t.eq(run.ended, true)
  t.eq(run.fault, nil)
  t.eq(run.stats.trace_hash, plain.stats.trace_hash)
  t.eq(run.stats.time_ns, plain.stats.time_ns)
  t.eq(run.stats.instructions, plain.stats.instructions)
  t.eq(soma.equal(run.out.y, plain.out.y), true)
end
local function refuses(what, f, ...)
  local ok, message = pcall(f, ...)
  t.eq(ok, false)
  message = tostring(message)
  if not message:find(what, 1, true) then error("no '" .. what .. "' in: " .. message, 0) end
end

t.case("stops at every instruction change nothing", function()
  local run, stops = start(), 0
  for _, i in ipairs(prog:instructions()) do run:add_stop {kind = "pc", engine = i.engine, pc = i.pc} end
  repeat
    run:continue()
    stops = stops + #run.stopped
  until run.ended
  t.eq(stops, plain.stats.instructions)
  same(run)
end)

t.case("nor under each check", function()
  local checked = soma.core {checks = "all"}:run(prog, {x = x}, {faults = "return"})
  local run = start {checks = "all"}
  for _, i in ipairs(prog:instructions()) do run:add_stop {kind = "pc", engine = i.engine, pc = i.pc} end
  repeat run:continue() until run.ended
  t.eq(run.stats.trace_hash, checked.stats.trace_hash)
  t.eq(#run.findings, #checked.findings)
  for k, f in ipairs(checked.findings) do t.eq(run.findings[k].text, f.text) end
end)

t.case("a stop is passed when the run goes on, and is gone when it is removed", function()
  local run = start()
  local stop = run:add_stop {kind = "pc", engine = "sync", pc = 1}
  for round = 0, 3 do
    run:continue()
    t.eq(run.stopped[1].stop, stop)
    t.eq(run.stopped[1].pc, 1)
    t.eq(run:engine "sync".instructions, 1 + 4 * round)
  end
  t.eq(run:stop_hits(stop), 4)
  run:continue()
  t.eq(#run.stopped, 0)
  same(run)
  run = start()
  stop = run:add_stop {kind = "pc", engine = "sync", pc = 1}
  run:remove_stop(stop):continue()
  same(run)
end)

t.case("an instruction that waits is stopped at when its wait holds", function()
  local run, core = start()
  run:add_stop {kind = "pc", engine = "vector", pc = 4}
  run:continue()
  t.eq(core:semaphore "loaded", 16)
  t.eq(run:engine "vector".pc, 4)
  t.eq(run:engine "sync".status, "waiting")
  t.eq(run:engine "sync".want, 1)
  t.eq(run:engine "sync".semaphore_name, "summed")
  t.eq(run:waits():find("it could still be changed by vector", 1, true) ~= nil, true)
end)

t.case("a count is reached once, by register instructions too", function()
  for n = 1, plain.stats.engine.vector.instructions do
    local run = start()
    local stop = run:add_stop {kind = "count", engine = "vector", count = n}
    run:continue()
    t.eq(run.stopped[1].stop, stop)
    t.eq(run:engine "vector".instructions, n)
    run:continue()
    same(run)
  end
end)

t.case("a semaphore's condition holds when it begins to", function()
  local run, core = start()
  run:add_stop {kind = "semaphore", semaphore = "loaded", condition = ">", value = 20}
  run:continue()
  t.eq(run.stopped[1].value, 21)
  t.eq(core:semaphore "loaded", 21)
  run:continue()
  same(run)
end)

t.case("done: the result is there", function()
  local run, core = start()
  run:add_stop {kind = "done", engine = "vector", pc = 4, count = 2}
  run:continue()
  t.eq(run:engine "vector".pc >= 5 or run:engine "vector".instructions > 10, true)
  t.eq(soma.equal(core.sbuf:read "acc", x * 3), true) -- 2 (2 * 0 + x) + x
  run:add_stop {kind = "done", engine = "sync", pc = 5}
  run:continue()
  t.eq(run.stopped[1].pc, 5)
  t.eq(soma.equal(run:fetch "y", plain.out.y), true)
end)

t.case("writes and reads of a byte, by instructions and by shares of transfers", function()
  local run = start()
  local function watch(kind, partition, offset)
    local tile
    for _, k in ipairs(prog:tiles()) do tile = k.name == "tx" and k or tile end
    return run:add_stop {kind = kind, quiet = true, memory = "sbuf", partition = partition, offset = tile.offset + offset, bytes = 4}
  end
  local wrote, beside, reads = watch("write", 20, 128), watch("write", 127, 252), watch("read", 20, 128)
  local outside = run:add_stop {kind = "write", quiet = true, memory = "sbuf", partition = 0, partitions = 128, offset = 4096, bytes = 64}
  local acc = run:add_stop {kind = "write", quiet = true, tile = "acc"}
  local y = run:add_stop {kind = "write", quiet = true, tensor = "y", offset = 64 * 4 * 20, bytes = 4}
  local from = run:add_stop {kind = "read", quiet = true, tensor = "x", offset = 64 * 4 * 20, bytes = 4}
  run:continue()
  same(run)
  t.eq(run:stop_hits(wrote), 4)
  t.eq(select(2, run:stop_hits(wrote)).dma_engine, 2)
  t.eq(select(2, run:stop_hits(beside)).dma_engine, 15)
  t.eq(run:stop_hits(reads), 4)
  t.eq(select(2, run:stop_hits(reads)).engine, "vector")
  t.eq(run:stop_hits(outside), 0)
  t.eq(run:stop_hits(acc), 9)
  t.eq(run:stop_hits(y), 1)
  t.eq(select(2, run:stop_hits(y)).pc, 5)
  t.eq(run:stop_hits(from), 4)
end)

t.case("a strided operand writes what it says, and one that chooses says so", function()
  local p = soma.assemble([[
        target trn2
t       tile sbuf float32[4, 8]
m       tile sbuf uint8[4, 8]
section vector
        memset t[:, 0:8:2], 1.0
        memset m, 1
        copy_predicated t, src=t, pred=m
        halt
]], {name = "strided.s"})
  local core = soma.core {}
  local run = core:start(p)
  local tile = p:tiles()[1]
  local ids = {}
  for k = 0, 3 do
    ids[k] = run:add_stop {kind = "write", quiet = true, memory = "sbuf", offset = tile.offset + 4 * k, bytes = 4, partition = 1}
  end
  run:until_time(200)
  t.eq(run:stop_hits(ids[0]), 1)
  t.eq(run:stop_hits(ids[1]), 0)
  t.eq(run:stop_hits(ids[2]), 1)
  run:continue()
  t.eq(run:stop_hits(ids[3]), 1)
  local _, last = run:stop_hits(ids[3])
  t.eq(last.part, true)
  t.eq(last.pc, 2)
end)

t.case("back and forward again, from any moment and from the end", function()
  local run = start()
  local kept = t.snapshots(run, plain.time_ns, 20)
  same(run)
  for k = #kept, 1, -3 do
    run:restore(kept[k])
    t.eq(run.ended, false)
    t.eq(next(run.out), nil)
    run:continue()
    same(run)
  end
end)

t.case("stops and the log stay when the run goes back", function()
  local run = start()
  local here, lines = run:snapshot(), 0
  run:add_stop {kind = "pc", engine = "vector", pc = 0}
  run:log(function() lines = lines + 1 end)
  run:continue()
  t.eq(run.stopped[1].pc, 0)
  run:restore(here):continue()
  t.eq(run.stopped[1].pc, 0)
  run:continue()
  t.eq(lines, plain.stats.instructions)
  same(run)
  run:restore(here):mute(true)
  run:continue():continue()
  t.eq(lines, plain.stats.instructions)
  same(run)
end)

t.case("back from a fault", function()
  local bad = soma.assemble("target trn2\nsection sync\n mov r1, 3\n mov r3, 6\nagain: sub r1, r1, 1\n div r2, r3, r1\n jmp again\n", {name = "bad.s"})
  local core = soma.core {}
  local run = core:start(bad, nil, {faults = "return"})
  local here = run:snapshot()
  run:continue()
  t.eq(run.fault.line, 6)
  refuses("cannot be saved", run.snapshot, run)
  run:restore(here)
  t.eq(run.fault, nil)
  run:add_stop {kind = "pc", engine = "sync", pc = 3}
  run:continue():continue()
  t.eq(core:register("sync", 1), 1)
  run:continue():continue()
  t.eq(run.fault.line, 6)
end)

t.case("what cannot be is refused", function()
  local run, core = start()
  refuses("option 'kind'", run.add_stop, run, {})
  refuses("is not an engine", run.add_stop, run, {kind = "pc", engine = "vectro", pc = 0})
  refuses("sync has 8 instructions", run.add_stop, run, {kind = "pc", engine = "sync", pc = 8})
  refuses("tensor has 0 instructions", run.add_stop, run, {kind = "pc", engine = "tensor", pc = 0})
  refuses("no semaphore 'lost'", run.add_stop, run, {kind = "semaphore", semaphore = "lost"})
  refuses("'=' is not a condition", run.add_stop, run, {kind = "semaphore", semaphore = "done", condition = "="})
  refuses("no tile 'z'", run.add_stop, run, {kind = "write", tile = "z"})
  refuses("no tensor z", run.add_stop, run, {kind = "write", tensor = "z", bytes = 4})
  refuses("partitions", run.add_stop, run, {kind = "write", memory = "sbuf", partition = 127, partitions = 2, bytes = 4})
  refuses("partitions", run.add_stop, run, {kind = "write", memory = "psum", offset = 1 << 40, bytes = 4})
  refuses("neither SBUF nor PSUM", run.add_stop, run, {kind = "write", bytes = 4})
  refuses("no stop 9", run.remove_stop, run, 9)
  refuses("no stop 9", run.stop_hits, run, 9)
  refuses("no instruction comes from", run.until_line, run, "sum.s", 1)
  local lines, said = {"break p.s:1", "quit"}, {}
  soma.core {}:start(soma.assemble("\n\nsection sync\n nop\n halt\n", {name = "d/p.s"})):debug {
    read = function() return table.remove(lines, 1) end, print = function(text) said[#said + 1] = text end}
  t.eq(said[#said], "error: no instruction comes from p.s:1; the next that has one is p.s:4")
  local other = soma.assemble("target trn2\nsection sync\n halt\n")
  local foreign = soma.core {}:start(other):snapshot()
  refuses("another program", run.restore, run, foreign)
  foreign:close()
  refuses("closed", run.restore, run, foreign)
  local recorded = start {trace = true}
  refuses("recorded", recorded.restore, recorded, recorded:snapshot())
  run:until_line("sum.s", 26)
  t.eq(run.stopped[1].engine, "vector")
  core:close()
  refuses("closed", run.engine, run, "sync")
end)

t.case("a run on device tensors cannot go back, and says which", function()
  local core = soma.core {device = "neuron:9"}
  local run = core:start(prog, {x = x:to "neuron:9"})
  refuses("device tensor", run.restore, run, run:snapshot())
  run:close()
  core:close()
end)

t.case("the map: lines, labels, macro calls", function()
  local found = prog:instructions {file = "sum.s", line = 12}
  t.eq(found[1].pc, 3)
  t.eq(found[1].calls[1], "macro TWICE from dir/sum.s:27")
  t.eq(#prog:instructions {file = "um.s", line = 12}, 0)
  t.eq(prog:instructions({label = "round"})[1].pc, 2)
  t.eq(prog:instructions({engine = "vector", pc = 5})[1].target, 2)
  local top, last = prog:loop("vector", 3)
  t.eq(top .. ".." .. last, "2..5")
  t.eq(prog:loop("vector", 6), nil)
  t.eq(#prog:instructions {engine = "vector", pc = 7}, 0)
  refuses("go together", prog.instructions, prog, {line = 3})
end)

t.case("run:debug: commands from a function, what it prints to another; an error in the run's callback", function()
  local lines, said = {"continue", "print acc[0, 0]", "quit"}, {}
  local run = start()
  run:debug {read = function() return table.remove(lines, 1) end, print = function(text) said[#said + 1] = text end}
  t.eq(said[3]:match "ended well" ~= nil, true)
  same(run)
  local failing = soma.core {events = function() error("not today", 0) end}:start(prog, {x = x})
  lines, said = {"continue", "info engines", "quit"}, {}
  failing:debug {read = function() return table.remove(lines, 1) end, print = function(text) said[#said + 1] = text end}
  t.eq(said[3], "error: not today")
  refuses("unknown option", run.debug, run, {scirpt = "x"})
  refuses("cannot read", run.debug, run, {script = "/nowhere/x"})
end)

t.case("faults that are raised are raised again after the debugger", function()
  local bad = soma.assemble("target trn2\nsection sync\n div r2, r1, r1\n halt\n", {name = "bad.s"})
  local run = soma.core {}:start(bad)
  local lines, said = {"continue", "quit"}, {}
  run:debug {read = function() return table.remove(lines, 1) end, print = function(text) said[#said + 1] = text end}
  t.eq(said[3]:match "division by zero" ~= nil, true)
  t.eq(select(2, pcall(run.continue, run)).kind, "fault")
end)

-- Sessions of random commands, forward and back, under a checker as well: whatever they do, the run then
-- ends as it would have.
t.case("random sessions end as the run ends", function()
  local commands = {
    "continue", "continue", "step", "step sync", "step vector 3", "next", "next sync", "back", "back 2", "finish", "finish",
    "focus sync", "focus vector", "break again", "tbreak round", "break 25 if r2 > 20", "break $loaded>=%d", "break $summed==%d",
    "break write acc[%d, 3]", "break write y[%d]", "break time %d00", "delete", "until %d00", "until %d0", "until 2us",
    "who wrote tx[%d, 1]", "who wrote acc", "who reads x[%d]", "who wrote y", "print tx[%d]/stats", "info engines", "info transfers",
    "info sems", "log on", "log off", "disas", "lua r1 + r2", "print acc[0:2]", "info break",
  }
  local state = 12345
  local function random(n)
    state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
    return (state >> 33) % n
  end
  local checked = soma.core {checks = "uninit,race"}:run(prog, {x = x}, {faults = "return"})
  for session = 1, 24 do
    local run = start(session % 3 == 0 and {checks = "uninit,race"} or nil)
    local n, done = 0, {}
    local function print_(text)
      if text:match "attempt to" then error(table.concat(done, "\n") .. "\n" .. text, 0) end
    end
    run:debug {print = print_, read = function()
      n = n + 1
      if n == 30 then return "quit" end
      done[n] = commands[1 + random(#commands)]:gsub("%%d", function() return tostring(random(64)) end)
      return done[n]
    end}
    if run.ended == false then run:log(nil):continue() end
    local want = session % 3 == 0 and checked or plain
    if run.stats.trace_hash ~= want.stats.trace_hash or run.stats.instructions ~= want.stats.instructions or
       not soma.equal(run:fetch "y", plain.out.y) or #run.findings ~= #want.findings then
      error("session " .. session .. " ends otherwise:\n" .. table.concat(done, "\n"), 0)
    end
  end
end)

t.finish()
