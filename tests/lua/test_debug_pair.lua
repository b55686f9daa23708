-- Looking on while a program of two cores runs: stops, watches, the log and going back, of either core.
local soma = require "soma"
local t = require "harness"
local two = require "two_cores"

local x = soma.randn({2, 128, 64}, "float32", {seed = 1})
local prog = soma.assemble(two.give, {name = "dir/give.s"})
local plain = soma.core {}:run(prog, {x = x})
local function start(options)
  local core = soma.core(options or {})
  return core:start(prog, {x = x}, {faults = "return"}), core
end
local function same(run, than)
  t.eq(run.ended, true)
  t.eq(run.fault, nil)
  t.eq(run.stats.trace_hash, (than or plain).stats.trace_hash)
  t.eq(soma.equal(run.out.y, plain.out.y), true)
end
local function refuses(what, f, ...)
  local ok, message = pcall(f, ...)
  t.eq(ok, false)
  t.eq(tostring(message):find(what, 1, true) ~= nil, true, tostring(message))
end
local function tile(name)
  for _, k in ipairs(prog:tiles()) do
    if k.name == name then return k end
  end
end
-- The line of the program whose text begins so.
local function line_of(text)
  local n = 0
  for line in two.give:gmatch "([^\n]*)\n" do
    n = n + 1
    if line:match "^%s*(.*)":sub(1, #text) == text then return n end
  end
end

t.case("stops at every instruction of both cores change nothing, under checks as well", function()
  for _, options in ipairs {{}, {checks = "all"}} do
    local than = soma.core(options):run(prog, {x = x}, {faults = "return"})
    local run, stops, of = start(options), 0, {[0] = 0, 0}
    for core = 0, 1 do
      for _, i in ipairs(prog:instructions {core = core}) do
        t.eq(i.core, core)
        run:add_stop {kind = "pc", core = core, engine = i.engine, pc = i.pc}
      end
    end
    repeat
      run:continue()
      stops = stops + #run.stopped
      for _, hit in ipairs(run.stopped) do of[hit.core] = of[hit.core] + 1 end
    until run.ended
    t.eq(stops, plain.stats.instructions)
    t.eq(of[1], plain.stats.core[2].instructions)
    t.eq(#run.findings, #than.findings)
    same(run, than)
  end
end)

t.case("a stop is of one core; engines are stepped and looked at by core", function()
  local run, core = start()
  run:add_stop {kind = "pc", core = 1, engine = "vector", pc = 1}
  run:continue()
  t.eq(run.stopped[1].core, 1)
  t.eq(run:engine("vector", {core = 1}).pc, 1)
  t.eq(run:engine("vector", {core = 1}).passes, true)
  t.eq(run:engine("sync", {core = 1}).semaphore_name, "added")
  t.eq(core:semaphore("given", {core = 1}), 16)
  local before = run:engine "vector".instructions
  run:step("vector", {core = 1})
  t.eq(run:engine("vector", {core = 1}).instructions, 2)
  t.eq(run:engine("vector", {core = 1}).in_flight[1].pc, 1)
  t.eq(run:engine "vector".instructions - before <= 1, true)
  run:continue()
  same(run)
end)

t.case("a count, a semaphore's condition and a result, of core 1", function()
  local run, core = start()
  run:add_stop {kind = "count", core = 1, engine = "sync", count = 3}
  run:continue()
  t.eq(run:engine("sync", {core = 1}).instructions, 3)
  run = start()
  run:add_stop {kind = "semaphore", core = 1, semaphore = "given", condition = ">=", value = 16}
  run:continue()
  t.eq(run.stopped[1].core, 0) -- core 0's transfer counts core 1's semaphore
  t.eq(run.stopped[1].engine, "sync")
  run, core = start()
  run:add_stop {kind = "done", core = 1, engine = "vector", pc = 1}
  run:continue()
  t.eq(run.stopped[1].core, 1)
  t.eq(soma.equal(core.sbuf:read("sum", {core = 1}), x[0] + x[1]), true)
  run:continue()
  same(run)
end)

t.case("writes of the other core's SBUF and of shared HBM say who, on which core", function()
  local run, other = start(), tile "other"
  local function watch(core)
    return run:add_stop {kind = "write", quiet = true, core = core, memory = "sbuf", partition = 7, offset = other.offset, bytes = 4}
  end
  local here, there = watch(0), watch(1)
  local its = run:add_stop {kind = "write", quiet = true, core = 1, tile = "own"}
  local half = 128 * 64 * 4
  local y0 = run:add_stop {kind = "write", quiet = true, tensor = "y", offset = 0, bytes = half}
  local y1 = run:add_stop {kind = "write", quiet = true, tensor = "y", offset = half, bytes = half}
  local read = run:add_stop {kind = "read", quiet = true, core = 1, tile = "own"}
  run:continue()
  same(run)
  local function last(id) return select(2, run:stop_hits(id)) end
  t.eq(run:stop_hits(here), 1)
  t.eq(run:stop_hits(there), 1)
  t.eq(last(here).core, 1)
  t.eq(last(there).core, 0)
  t.eq(last(there).pc, 2)
  t.eq(last(its).core, 1)
  t.eq(last(its).pc, 0)
  t.eq(run:stop_hits(y0), 16)
  t.eq(last(y0).core, 0)
  t.eq(last(y1).core, 1)
  t.eq(last(read).core, 1)
  t.eq(last(read).engine, "vector")
end)

t.case("the log tells of both", function()
  local run, of, lines = start(), {[0] = 0, 0}, {}
  run:log(function(l) of[l.core] = of[l.core] + 1 end)
  run:continue()
  same(run)
  t.eq(of[0], plain.stats.core[1].instructions)
  t.eq(of[1], plain.stats.core[2].instructions)
  run = start()
  run:log_lines(function(line) lines[#lines + 1] = line end):continue()
  t.eq(#lines, plain.stats.instructions)
  local found = 0
  for _, line in ipairs(lines) do
    if line:find("core 1 vector     1  dir/give.s:" .. line_of "tensor_tensor", 1, true) then found = found + 1 end
  end
  t.eq(found, 1)
end)

t.case("back and forward again, stops and the log stay", function()
  local run = start()
  local kept = t.snapshots(run, plain.time_ns, 10)
  for k = #kept, 1, -2 do
    run:restore(kept[k])
    run:continue()
    same(run)
  end
  local lines = 0
  local stop = run:restore(kept[1]):add_stop {kind = "pc", core = 1, engine = "sync", pc = 2}
  run:log(function() lines = lines + 1 end)
  run:continue()
  t.eq(run.stopped[1].stop, stop)
  run:restore(kept[1]):continue()
  t.eq(run.stopped[1].stop, stop)
  lines = 0
  run:restore(kept[1]):remove_stop(stop):continue()
  t.eq(lines, plain.stats.instructions)
  same(run)
end)

t.case("until_line stops on each core", function()
  local run, line = start(), line_of "tensor_tensor"
  run:until_line("give.s", line)
  t.eq(run.stopped[1].core, 0)
  run:until_line("give.s", line)
  t.eq(run.stopped[1].core, 1)
  run:continue()
  same(run)
end)

t.case("where the cores meet: sendrecv and core_barrier", function()
  local text = two.head("here got done ", "mine its sum ") .. [[
x tensor float32[2, 128, 64], input
y tensor float32[2, 128, 64], output
section sync core=*
        dma_copy  mine, x[CORE], queue=q         $got
        sendrecv  its, mine, queue=q, pipe=0     $got>=16 $got
        core_barrier here                        $got>=32
        dma_copy  y[CORE], its, queue=q          $got>=32
        halt
]]
  local p = soma.assemble(text, {name = "meet.s"})
  local core = soma.core {}
  local whole = soma.core {}:run(p, {x = x})
  local run = core:start(p, {x = x})
  run:add_stop {kind = "pc", core = 1, engine = "sync", pc = 1}
  local its = run:add_stop {kind = "write", quiet = true, core = 1, tile = "its"}
  run:continue()
  t.eq(run.stopped[1].core, 1)
  t.eq(run:engine("sync", {core = 1}).pc, 1)
  run:step "sync" -- core 0's has met core 1's
  t.eq(run:engine "sync".pc, 2)
  t.eq(#run:transfers(), 1)
  t.eq(#run:transfers {core = 1}, 1)
  run:add_stop {kind = "done", core = 1, engine = "sync", pc = 1}
  run:continue()
  t.eq(run.stopped[1].core, 1)
  t.eq(soma.equal(core.sbuf:read("its", {core = 1}), x[0]), true)
  t.eq(run:stop_hits(its) > 0, true)
  t.eq(select(2, run:stop_hits(its)).core, 0) -- each moves its source into the other's destination
  run:continue()
  t.eq(run.stats.trace_hash, whole.stats.trace_hash)
end)

t.case("what cannot be is refused", function()
  local run = start()
  local one = soma.core {}:start(soma.assemble "target trn2\nsection sync\n halt\n")
  refuses("core 1 does not exist: the program of the run has 1", one.add_stop, one, {kind = "pc", engine = "sync", pc = 0, core = 1})
  refuses("the program has one core", one.engine, one, "sync", {core = 1})
  refuses("the program has one core", one.step, one, "sync", {core = 1})
  refuses("the program has one core", one.transfers, one, {core = 1})
  refuses("the program has one core", one.pass, one, "sync", {core = 1})
  refuses("'core'", run.add_stop, run, {kind = "pc", engine = "sync", pc = 0, core = 2})
  refuses("unknown option", run.engine, run, "sync", {cores = 1})
  refuses("core 1 has no semaphore 'lost'", run.add_stop, run, {kind = "semaphore", semaphore = "lost", core = 1})
end)

t.case("after who wrote and back the run does not stop once more where it stands", function()
  local lines, said = {"break core 1 vector:1", "continue", "who wrote other", "continue", "back", "continue", "quit"}, {}
  local run = start()
  run:debug {read = function() return table.remove(lines, 1) end, print = function(text) said[#said + 1] = text end}
  local stops = 0
  for _, text in ipairs(said) do
    if text:match "^stop 1 at" then stops = stops + 1 end
  end
  t.eq(stops, 1)
  same(run)
end)

-- Sessions of random commands, as in test_debug.lua, on both cores.
t.case("random sessions end as the run ends", function()
  local commands = {
    "continue", "continue", "step", "step core 1 sync", "step vector 2", "step core1", "next", "next core 1 vector", "back",
    "back 2", "core 0", "core 1", "core 1 vector", "focus sync", "break tensor_tensor", "break core 1 vector:1",
    "break $given>=%d", "break core 1 $given==%d", "break $peer.loaded>%d", "break write other[%d, 3]",
    "break write core 1 own[%d]", "break write y[1, %d]", "break time %d00", "delete", "until %d00", "until 2us",
    "who wrote other[%d, 1]", "who wrote core 1 other", "who reads own.peer[%d]", "who wrote y[0]", "print core 1 own[%d]/stats",
    "info engines", "info transfers", "info sems", "info queues", "log on", "log off", "disas core 1", "lua $loaded + $peer.loaded",
    "print core 1 sync.r1", "print $peer.given", "info break", "break 20 if core_number == 1", "finish",
  }
  local state = 4711
  local function random(n)
    state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
    return (state >> 33) % n
  end
  for session = 1, 16 do
    local run, n, done = start(), 0, {}
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
    if run.stats.trace_hash ~= plain.stats.trace_hash or not soma.equal(run:fetch "y", plain.out.y) then
      error("session " .. session .. " ends otherwise:\n" .. table.concat(done, "\n"), 0)
    end
  end
end)

t.finish()
