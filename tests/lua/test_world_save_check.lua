-- Saved worlds with checks and with the record of causes: one that is resumed finds what the one finds that goes on, in the
-- same words, and has the same critical paths.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises
local path = t.temp()
local RANKS <const>, ROWS <const> = 4, 4

local source = [==[
target TARGET
tp group [[0, 1, 2, 3]]
x tensor float32[4, 96], input
y tensor float32[4, 96], output
g tensor float32[16, 96], output
z tensor float32[4, 96], output
s tile sbuf float32[4, 96]
d tile sbuf float32[4, 96]
done sem
moved sem
q queue dge=none
section gpsimd
        all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++
        all_gather dsts=[g], srcs=[x], group=tp $done++
        nop $done>=2
        dma_copy s, y, queue=q $moved
        nop $moved>=16
        all_reduce dsts=[d], srcs=[s], group=tp, op=max $done++
        nop $done>=3
        dma_copy z, d, queue=q $moved
        nop $moved>=32
        halt
]==]
local function inputs(r) return {x = soma.randn({ROWS, 96}, "float32", {seed = r + 1})} end

-- What is said of a world: findings with their ranks, twins, faults, and where its ranks' time went.
local function told(runs)
  local list = {runs.hash, runs.time_ns, tostring(runs.fault)}
  for _, f in ipairs(runs.findings) do list[#list + 1] = table.concat(f.ranks, " ") .. ": " .. f.text end
  for r = 0, RANKS - 1 do
    list[#list + 1] = tostring(runs[r].stats.twins)
    local ok, text = pcall(runs[r].explain_time, runs[r])
    list[#list + 1] = ok and text or ""
  end
  return table.concat(list, "\n")
end

local function world(options, more)
  local o = {ranks = RANKS}
  for k, v in pairs(options) do o[k] = v end
  for k, v in pairs(more or {}) do o[k] = v end
  return soma.world(o)
end

-- Saved at `times` times, with windows and threads of several kinds, and resumed with others. Returns what is told.
local function saved_alike(programs, options, times, cuts)
  local w <close> = world(options)
  local whole = w:run(programs, inputs, {faults = "return"})
  local want = told(whole)
  for k = 0, times do
    local file
    for i, cut in ipairs(cuts or {{0, 1}, {137, 3}}) do
      local before <close> = world(options, {window_ns = cut[1], threads = cut[2]})
      before:start(programs, inputs)
      local ok = before:continue {until_ns = math.tointeger(whole.time_ns * k // times), faults = "return"}
      if ok.fault then break end -- a world that has ended with a fault is not saved
      eq(before:save(path), true)
      local bytes = t.read(path)
      eq((file or bytes) == bytes, true)
      file = bytes
      local again <close>, runs = soma.load_world(path, {threads = cut[2] % 3 + 1, window_ns = i * 300, checks = options.checks, causes = options.causes})
      eq(again:save(path), true)
      eq(t.read(path) == bytes, true)
      again:continue {faults = "return"}
      eq(told(runs), want)
    end
  end
  return whole, want
end

local function program(target) return soma.assemble(source:gsub("TARGET", target), {name = "save.s"}) end

case("checks of right programs, by every algorithm", function()
  for _, target in ipairs {"trn2", "trn1"} do
    for _, algorithm in ipairs {"ring", "mesh", "rdh"} do
      local whole = saved_alike(program(target), {target = target, algorithm = algorithm, checks = "all"}, 6)
      eq(#whole.findings, 0)
    end
  end
end)

case("causes of all ranks", function()
  for _, target in ipairs {"trn2", "trn1"} do
    local _, text = saved_alike(program(target), {target = target, causes = true}, 8)
    eq(text:find("on the way to another rank", 1, true) ~= nil, true)
  end
  saved_alike(program "trn2", {causes = true, checks = "all", timing_only = true}, 3)
end)

-- Rank 1 leaves out a wait of its CC sequencer, or rank 0 reads too early.
local function without(target, algorithm, rank, nth)
  local w <close> = world {target = target, algorithm = algorithm}
  w:run(program(target), inputs)
  local list, seen = {}, 0
  for r = 0, RANKS - 1 do list[r] = w:program(r) end
  local text = list[rank]:source():gsub("event_semaphore %$%S+>=%S+( %$%S+)", function()
    seen = seen + 1
    if seen == nth then return "nop" end
  end)
  list[rank] = soma.assemble(text)
  return list, seen
end

case("findings of what other ranks push", function()
  local found, tried = 0, 0
  for _, target in ipairs {"trn2", "trn1"} do
    for _, algorithm in ipairs {"ring", "mesh"} do
      local _, n = without(target, algorithm, 1, 0)
      for nth = 1, n, 2 do
        local whole = saved_alike(without(target, algorithm, 1, nth), {target = target, checks = "race,uninit"}, 3, {{400, 2}})
        tried, found = tried + 1, found + (#whole.findings > 0 and 1 or 0)
      end
    end
  end
  if found * 2 < tried then error(("findings in %d of %d"):format(found, tried)) end
end)

case("all ranks read too early", function()
  local early = soma.assemble((source:gsub("TARGET", "trn2"):gsub("nop %$done>=2", "nop")), {name = "early.s"})
  local whole = saved_alike(early, {checks = "all", causes = true}, 8)
  eq(#whole.findings > 0, true)
  eq(#whole.findings[1].ranks > 1, true)
end)

-- Both cores of a rank store one result, and ranks 0 and 1 push the same bytes into rank 2's y.
local twins = [==[
target trn2
tp group [[0, 1, 2, 3]]
x tensor float32[4, 96], input
y tensor float32[4, 96]
g tensor float32[16, 96]
z tensor float32[4, 96], output
done sem
a sem
b sem
moved sem
q queue dge=none
qcc queue dge=none, owner=cc0
section gpsimd
give: all_gather dsts=[g], srcs=[x], group=tp $done++
nop $done>=1
READ
halt
section cc0
wait_start gpsimd.give
PUSH
WAIT
complete gpsimd.give
]==]
case("twins", function()
  local list = {}
  for r = 0, RANKS - 1 do
    local push = r < 2 and ("dma_copy y.rank[2], x, queue=qcc $%s.rank[2]"):format(r == 0 and "a" or "b") or "nop"
    local text = twins:gsub("%f[%u]%u%u%u%u%f[%U]", {PUSH = push, WAIT = r == 2 and "nop $a>=16" or "nop",
      READ = r == 2 and "dma_copy z, y, queue=q $moved" or "nop"})
    list[r] = soma.assemble(text, {name = "twins.s"})
  end
  local own = inputs
  inputs = function() return own(0) end
  local whole = saved_alike(list, {checks = "race"}, 10)
  eq({#whole.findings, whole[2].stats.twins}, {0, 2})
  inputs = own
end)

case("a rank alone whose collectives are of itself", function()
  for _, wait in ipairs {"nop $done>=1", "nop"} do
    local prog = soma.assemble(([==[
target trn2
tp group [[0]]
x tensor float32[4, 96], input
m tensor float32[4, 96]
y tensor float32[4, 96], output
done sem
moved sem
q queue dge=none
section gpsimd
all_reduce dsts=[m], srcs=[x], group=tp, op=add $done++
%s
dma_copy y, m, queue=q $moved
nop $moved>=16
all_gather dsts=[m], srcs=[x], group=tp $done++
nop $done>=2
halt
]==]):format(wait), {name = "alone.s"})
    for _, options in ipairs {{checks = "all"}, {causes = true}} do
      local function texts(run)
        local list = {}
        for i, f in ipairs(run.findings) do list[i] = f.text end
        if options.causes then list[#list + 1] = run:explain_time() end
        return table.concat(list, "\n")
      end
      local whole = soma.core(options):run(prog, inputs(0), {faults = "return"})
      eq(#whole.findings > 0, wait == "nop" and options.checks ~= nil)
      local steps, run = 0, nil
      repeat
        run = soma.core(options):start(prog, inputs(0))
        steps = steps + 1
        for _ = 1, steps do pcall(run.step_event, run) end
        if not run.ended then
          eq(run:save(path), true)
          local again = soma.core(options):resume(path)
          pcall(again.continue, again)
          eq(texts(again), texts(whole))
        end
      until run.ended
      eq(steps > 20, true)
    end
  end
end)

case("options that the file has not are refused", function()
  local w <close> = world {}
  w:start(program "trn2", inputs)
  w:continue {until_ns = 4000}
  w:save(path)
  raises("causes are kept from a world's start on: this one was saved with none", soma.load_world, path, {causes = true})
  raises("checks are chosen when a run starts: this one was saved with none", soma.load_world, path, {checks = "all"})
end)

t.finish()
