-- Saved worlds: one that is resumed ends as the one that goes on, with the same bytes and hash; what is no saved world is refused.
-- Random worlds are saved in the middle in test_world_random.lua.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

local function program(target, ranks, more)
  local list = {}
  for r = 0, ranks - 1 do list[#list + 1] = r end
  return soma.assemble(([==[
        target  %s
tp      group   [[%s]]
x       tensor  float32[%d, 512], input
y       tensor  float32[%d, 512], output
z       tensor  float32[%d, 512], output
done    sem
section gpsimd
        all_reduce dsts=[y], srcs=[x], group=tp, op=add   $done++
        nop     $done>=1
        all_to_all dsts=[z], srcs=[y], group=tp   $done++
        nop     $done>=2
        halt
%s]==]):format(target, table.concat(list, ", "), ranks, ranks, ranks, more or ""), {name = "save.s"})
end
local function world(options, extra)
  local o = {}
  for k, v in pairs(options) do o[k] = v end
  for k, v in pairs(extra or {}) do o[k] = v end
  return soma.world(o)
end
local function inputs(n) return function(r) return {x = soma.randn({n, 512}, {seed = r + 1})} end end
local path = t.temp()

-- Saves at some times, with windows cut in three ways; all files of a time are one, and all ends.
local function saved_alike(options, change, prepare)
  local n = options.ranks
  local prog = program(options.target, n)
  local function new(extra)
    local w = world(options, extra)
    if prepare then prepare(w) end
    return w
  end
  local whole = new():run(prog, inputs(n))
  for k = 0, 8 do
    local at, file = math.tointeger(whole.time_ns * k // 7), nil
    for _, cut in ipairs {{0, 1}, {137, 3}, {2000, 2}} do
      local w <close> = new {window_ns = cut[1], threads = cut[2]}
      w:start(prog, inputs(n))
      local reached = w:continue {until_ns = at}
      eq(reached.time_ns == math.min(at, whole.time_ns) or reached.time_ns == whole.time_ns, true)
      eq(w:save(path), true)
      local bytes = t.read(path)
      eq(file or bytes, bytes)
      file = bytes
      local again <close>, runs = soma.load_world(path, {threads = cut[2], window_ns = cut[1]})
      if change then change(again) end
      eq(again:save(path), true)
      eq(t.read(path), bytes)
      again:continue()
      eq({runs.hash, runs.time_ns, #runs.collectives, runs.fault}, {whole.hash, whole.time_ns, #whole.collectives, nil})
      for i, l in ipairs(whole.links) do eq({runs.links[i].bytes, runs.links[i].busy_ns, runs.links[i].waited_ns}, {l.bytes, l.busy_ns, l.waited_ns}) end
      for r = 0, n - 1 do eq(runs[r].out.z:bytes(), whole[r].out.z:bytes()) end
      w:continue()
    end
  end
end

case("worlds inside a device", function()
  saved_alike {ranks = 3, target = "trn2", algorithm = "ring"}
  saved_alike {ranks = 4, target = "trn2", algorithm = "rdh"}
end)
case("a world with messages on links", function() saved_alike {ranks = 5, target = "trn1"} end)
case("packets of a share on links, of sizes that no element has", function()
  saved_alike {ranks = 4, target = "trn1", algorithm = "rdh", costs = {CC_PACKET = 301}}
end)
case("two instances, joined by EFA", function()
  saved_alike({ranks = 4, target = "trn1", instance = "trn1.2xlarge x 2"}, function(w) eq(w.instance, "trn1.2xlarge x 2") end)
end)
case("slow links and a late rank", function()
  saved_alike({ranks = 4, target = "trn1", algorithm = "mesh"}, nil, function(w)
    w:slow_link(0, 1, 0.2, 3000)
    w:delay_rank(2, 1500)
  end)
end)

case("a stop by a limit, and one in a rank's own section", function()
  local prog = program("trn1", 2)
  local whole = world({ranks = 2, target = "trn1"}):run(prog, inputs(2))
  local w = world {ranks = 2, target = "trn1", max_time = 5000}
  local stopped = w:run(prog, inputs(2), {faults = "return"})
  eq({stopped.kind, stopped.fault}, {"limit", "simulated time reached its limit of 5000 ns"})
  eq(w:save(path), true)
  local again, runs = soma.load_world(path)
  eq({again.ranks, again.instance, runs.hash, runs.time_ns}, {2, w.instance, stopped.hash, stopped.time_ns})
  eq(again:continue().hash, whole.hash)
  eq(runs[1].out.y:bytes(), whole[1].out.y:bytes())
  eq(again:save(path), true) -- one that has ended
  local ended, theirs = soma.load_world(path)
  eq({ended:continue().hash, theirs[0].out.z:bytes()}, {whole.hash, whole[0].out.z:bytes()})
end)

case("timing only, and other constants of the clock", function()
  local prog = program("trn2", 4)
  local options = {ranks = 4, target = "trn2", timing_only = true, costs = {CC_START = 5000, CC_RINGS = 3}}
  local whole = world(options):run(prog, {})
  local w = world(options)
  w:start(prog, {})
  w:continue {until_ns = 9000}
  w:save(path)
  local again, runs = soma.load_world(path) -- its constants are in the file
  again:continue()
  eq({runs.hash, runs.time_ns}, {whole.hash, whole.time_ns})
end)

case("a rank alone whose collectives are of itself", function()
  local prog = program("trn1", 1)
  local whole = soma.core {}:run(prog, inputs(1)(0))
  local run = soma.core {}:start(prog, inputs(1)(0))
  for _ = 1, 12 do run:step "gpsimd" end
  eq(run:save(path), true)
  eq(soma.core {}:resume(path):continue().out.z:bytes(), whole.out.z:bytes())
end)

-- Sums of eight sources in two tensors, which lie apart in the host's memory with others between them: what a file has of
-- them does not depend on where.
case("a file does not depend on where the host has its tensors", function()
  local parts = {"target trn2\ntp group [[0, 1, 2, 3, 4, 5, 6, 7]]\ndone sem core=*"}
  for i = 0, 1 do
    parts[#parts + 1] = ("x%d tensor float32[24, 40], input\ny%d tensor float32[24, 40], output"):format(i, i)
    parts[#parts + 3] = ("section gpsimd core=%d\nmov r1, 3\nagain:\nall_reduce dsts=[y%d], srcs=[x%d], group=tp, op=add $done++\nevent_semaphore $done>=1 $done--\n"):format(i, i, i) ..
      "sub r1, r1, 1\nbne r1, 0, again\nhalt"
  end
  local list = {}
  for i = 1, 5 do list[#list + 1] = parts[i] end
  local prog = soma.assemble(table.concat(list, "\n"))
  local files, kept, seed = {}, {}, 1
  for _ = 1, 6 do
    for i = 1, 60 do -- what is free in the host's memory
      seed = (seed * 1103515245 + 12345) % 2147483648
      kept[i] = seed // 65536 % 2 == 0 and soma.zeros {seed // 65536 % 3000} or nil
    end
    collectgarbage()
    local w <close> = soma.world {ranks = 8, lnc = 2, algorithm = "mesh"}
    w:start(prog, {x0 = soma.full({24, 40}, 1), x1 = soma.full({24, 40}, 2)})
    for at = 4000, 40000, 200 do
      w:continue {until_ns = at}
      w:save(path)
      local bytes = t.read(path)
      eq((files[at] or bytes) == bytes, true)
      files[at] = bytes
    end
  end
end)

case("what cannot be saved or resumed is told", function()
  local prog = program("trn1", 2)
  local w = world {ranks = 2, target = "trn1"}
  raises("save: the world does not run: nothing is to be saved", w.save, w, path)
  raises("continue: the world has not been started", w.continue, w)
  local runs = w:start(prog, inputs(2))
  raises("save: a rank is saved with its world", runs[0].save, runs[0], path)
  w:continue {until_ns = 4000}
  w:save(path)
  local bytes = t.read(path)
  local function wrong(text, data)
    local other = t.temp()
    local file <close> = io.open(other, "wb")
    file:write(data)
    file:close()
    raises(text, soma.load_world, other)
  end
  wrong("this is not a saved world", "nothing")
  wrong("the saved world has " .. #bytes - 1 .. " bytes, but was written with " .. #bytes, bytes:sub(1, -2))
  wrong("the saved world is damaged: its hash does not match", bytes:sub(1, 500) .. string.char(bytes:byte(501) ~ 1) .. bytes:sub(502))
  wrong("the world was saved by version 9", bytes:sub(1, 8) .. "9" .. bytes:sub(10))
  raises("this is a saved world, not a saved run", function() soma.core {}:resume(path) end)
  soma.core {}:start(program("trn1", 1), inputs(1)(0)):save(path)
  raises("this is a saved run, not a saved world", soma.load_world, path)
  eq({soma.load_world "/nowhere/w"}, {nil, "cannot read '/nowhere/w': No such file or directory"})
end)

t.finish()
