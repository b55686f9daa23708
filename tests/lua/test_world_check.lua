-- Checks of worlds: what other ranks push is an access, and what they say orders it.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq
local RANKS <const>, N <const> = 4, 1040
local function has(text, part) if not tostring(text):find(part, 1, true) then error("no " .. part .. " in " .. tostring(text), 2) end end

local source = [==[
target trn2
tp group [[0, 1, 2, 3]]
x tensor float32[FROM], input
y tensor float32[TO], output
done sem
section gpsimd
OP dsts=[y], srcs=[x], group=tpARGS $done++
event_semaphore $done>=1 $done--
OP dsts=[y], srcs=[x], group=tpARGS $done++
nop $done>=1
halt
]==]
local sum, gather = {"all_reduce", ", op=add", N, N}, {"all_gather", "", N, RANKS * N}
local scatter, turn = {"reduce_scatter", ", op=add", N, N // RANKS}, {"all_to_all", "", N, N}
local function program(op)
  local text = source:gsub("%u%u+", {OP = op[1], ARGS = op[2], FROM = op[3], TO = op[4]})
  return soma.assemble(text, {name = op[1] .. ".s"})
end
local function run(programs, op, options)
  local o = {ranks = RANKS}
  for k, v in pairs(options or {}) do o[k] = v end
  local w <close> = soma.world(o)
  local runs = w:run(programs, function(r) return {x = soma.randn({op[3]}, "float32", {seed = r + 1})} end, {faults = "return"})
  local whole = {}
  for r = 0, RANKS - 1 do whole[r] = w:program(r) end
  return runs, whole
end
local function texts(runs)
  local list = {}
  for i, f in ipairs(runs.findings) do list[i] = f.text end
  return table.concat(list, "\n")
end

case("right collectives have no findings, and are the same with checks and without", function()
  for op, algorithms in pairs {[sum] = {"ring", "mesh", "mesh-single", "rdh"}, [gather] = {"ring", "mesh", "rdh"}, [scatter] = {"ring", "mesh", "rdh"}, [turn] = {"mesh"}} do
    for _, algorithm in ipairs(algorithms) do
      local plain = run(program(op), op, {algorithm = algorithm})
      for threads = 1, 3, 2 do
        local runs = run(program(op), op, {algorithm = algorithm, checks = "all", threads = threads, window_ns = threads * 700})
        eq({runs.fault or "none", #runs.findings, runs.hash}, {"none", 0, plain.hash})
      end
    end
  end
end)

-- All ranks' programs of two collectives; those of ranks where `of` holds with a change.
local function changed(op, algorithm, of, pattern, to)
  local _, whole = run(program(op), op, {algorithm = algorithm})
  for r = 0, RANKS - 1 do
    if of(r) then
      local text, n = whole[r]:source():gsub(pattern, to)
      eq(n >= 1, true)
      whole[r] = soma.assemble(text)
    end
  end
  return whole
end
local function first(r) return r == 1 end

case("a wait for a push that is left out is a race, at the user's line and with both ranks", function()
  local programs, before = changed(sum, "ring", first, "event_semaphore %$cc0_from1>=%d+ %$cc0_from1%-=%d+", "nop")
  for threads = 1, 3, 2 do
    local runs = run(programs, sum, {checks = "race", threads = threads, window_ns = threads * 900})
    local found = texts(runs)
    has(found, "rank 1: all_reduce.s:7: race: a transfer of queue qcc0_local reads what a push of rank 0 writes, and nothing orders the two")
    has(found, "  rank 0 cc0 all_reduce.s:7, at ")
    has(found, "  fix: cc0 must wait for $cc0_from1 >= ")
    before = before or found
    eq(found, before)
    eq(runs.fault, runs.findings[1].text .. ("\n(the first of %d findings)"):format(#runs.findings))
  end
end)

case("a push that waits for nobody overwrites what a rank still reads", function()
  local runs = run(changed(scatter, "ring", first, "event_semaphore %$cc_ready0>=1 %$cc_ready0%-=1", "nop"), scatter, {checks = "race"})
  has(texts(runs), "a push of rank 1 writes what a transfer of queue qcc0_local reads, and nothing orders the two")
  has(texts(runs), "rank 1 must wait before reduce_scatter.s:")
end)

case("what several ranks have is found once, with the ranks", function()
  local text = source:gsub("%u%u+", {OP = gather[1], ARGS = gather[2], FROM = gather[3], TO = gather[4]})
  text = text:gsub("done sem", "z tensor float32[4160], output\nq queue dge=none\ndone sem") .. "section sync\ndma_copy z, y, queue=q\nhalt\n"
  local runs = run(soma.assemble(text, {name = "early.s"}), gather, {checks = "race", algorithm = "mesh"})
  local pushed
  for _, f in ipairs(runs.findings) do pushed = pushed or f.text:find "what a push of rank" and f end
  eq({pushed.check, pushed.file, pushed.ranks}, {"race", "early.s", {0, 1, 2, 3}})
  has(pushed.text, "rank 0: early.s:15: race: a transfer of queue q reads what a push of rank ")
  has(pushed.text, "\n  also in ranks 1, 2, 3")
end)

case("what is pushed counts as written, and what nobody pushes does not", function()
  local whole = changed(gather, "mesh", first, "\n[^\n]*dma_trigger qcc0,[^\n]*", "")
  local runs = run(program(gather), gather, {checks = "uninit,output"})
  eq(#runs.findings, 0)
  local ok, message = pcall(run, whole, gather, {checks = "uninit,output"})
  eq(ok, true)
  has(message.fault, "the world cannot go on")
end)

case("what is pushed into a tile is not taken for what was there", function()
  local text = [==[
target trn2
tp group [[0, 1, 2, 3]]
x tensor float32[1], input
s tile sbuf float32[32, 64]
t tile sbuf float32[128, 64]
u tile sbuf float32[128, 64]
go sem
done sem
section vector
memset s, inf
memset t[32:64, :], 1.0
tensor_copy u[32:64, :], t[32:64, :] $go++
tensor_copy u[32:64, :], t[32:64, :] $done>=1
halt
section gpsimd
all_gather dsts=[t], srcs=[s], group=tp $go>=1 $done++
halt
]==]
  for _, checks in ipairs {"range", "uninit,range"} do
    local runs = run(soma.assemble(text, {name = "inf.s"}), {"", "", 1}, {algorithm = "mesh", checks = checks})
    eq({runs.fault or "none", texts(runs)}, {"none", ""})
  end
end)

-- Ranks 0 and 1, of one stack, push into y of rank 2; 3 into that of 0, where 1 does too. Rank 2 waits for rank 0's alone.
local twins = [==[
target trn2
tp group [[0, 1, 2, 3]]
x tensor float32[64], input
y tensor float32[64]
g tensor float32[4, 64]
z tensor float32[64], output
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
local function pushed(options)
  local o = {ranks = 4, checks = "race"}
  for k, v in pairs(options) do o[k] = v end
  o.to, o.by, o.values = nil, nil, nil
  local w <close> = soma.world(o)
  local to, by = options.to or 2, options.by or {0, 1}
  return w:run(function(r)
    local sem = r == by[1] and "a" or r == by[2] and "b"
    local push = sem and ("dma_copy y.rank[%d], x, queue=qcc $%s.rank[%d]"):format(to, sem, to) or "nop"
    local text = twins:gsub("%u%u%u%u+", {PUSH = push, WAIT = r == to and "nop $a>=16" or "nop", READ = r == to and "dma_copy z, y, queue=q $moved" or "nop"})
    return soma.assemble(text, {name = "twins.s"})
  end, function(r) return {x = soma.full({64}, options.values and options.values[r] or 3)} end, {faults = "return"})
end
case("pushes of two ranks of one stack, from one line and of the same bytes, need no order", function()
  local runs = pushed {}
  eq({texts(runs), runs[2].stats.twins}, {"", 2}) -- of the writes, and of the read with rank 1's
  has(texts(pushed {twins = false}), "race: ")
  has(texts(pushed {values = {[0] = 3, 4}}), "race: ")
  has(texts(pushed {by = {1, 2}, to = 0}), "race: ") -- of two stacks
  for _, o in ipairs {{threads = 3, window_ns = 300}, {window_ns = 137}} do eq(texts(pushed(o)), "") end
end)

case("a rank alone has checks too", function()
  local alone = soma.assemble "target trn1\ng group [[0]]\nx tensor int8[4]\ny tensor int8[4]\nd sem\nsection gpsimd\nall_reduce dsts=[y], srcs=[x], group=g, op=add $d++\nnop $d>=1\nhalt\n"
  eq(#soma.core {checks = "race"}:run(alone).findings, 0)
end)
t.finish()
