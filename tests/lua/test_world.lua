-- Worlds of ranks: collectives by hand-written sections of CC sequencers, windows, ends.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises
local function has(text, part) if not text:find(part, 1, true) then error("no " .. part .. " in " .. text, 2) end end
local function same(got, want) assert(soma.equal(got, want)) end

-- A ring all_reduce of two ranks, one block each: MINE is the block that a rank sums.
local ring = [==[
        target  TARGET
tp      group   [[0, 1]]
x       tensor  float32[2, N], input
y       tensor  float32[2, N], output
z       tensor  float32[128, 2048], input
part    tensor  float32[N]
t       tile    sbuf float32[128, 2048]
done    sem     0
ready   sem     1
from    sem     2
moved   sem     3
loaded  sem     4
qcc     queue   dge=none, owner=cc0
q       queue   dge=none
section gpsimd
sum:    all_reduce dsts=[y], srcs=[x], group=tp, op=add     $done++
        nop     $done>=1
        halt
section sync
        LOAD
        halt
section cc0
        wait_start  gpsimd.sum
        nop                                                 $ready.rank[tp.prev]
        nop                                     $ready>=1   $ready--
        dma_copy    part.rank[tp.next], x[OTHER], queue=qcc FIRST
        nop                                     $from>=16   $from-=16
        dma_compute y[MINE], srcs=[x[MINE], part], op=add, queue=qcc $moved
        nop                                     $moved>=16  $moved-=16
        dma_copy    y[MINE].rank[tp.next], y[MINE], queue=qcc $from.rank[tp.next]
        nop                                     $from>=16   $from-=16
        complete    gpsimd.sum
]==]
local values = {MINE = 0, OTHER = 1, TARGET = "trn1", N = 4096, LOAD = "nop", FIRST = "$from.rank[tp.next]"}
local function ring_of(rank, changes)
  local v = setmetatable({MINE = rank, OTHER = 1 - rank}, {__index = function(_, k)
    local change = (changes or {})[k]
    return change ~= nil and change or values[k]
  end})
  local source = ring:gsub("%f[%w]%u+%f[^%w]", function(word) return v[word] and tostring(v[word]) end)
  return soma.assemble(source)
end
local function programs(changes) return {[0] = ring_of(0, changes), ring_of(1, changes)} end

local n = 4096
local x = {[0] = soma.randn({2, n}, {seed = 1}), soma.randn({2, n}, {seed = 2})}
local z = soma.randn({128, 2048}, {seed = 3})
local function inputs(rank) return {x = x[rank], z = z} end

case("two ranks sum in a ring, on stacks of their own and on one", function()
  for _, target in ipairs {"trn1", "trn2"} do
    local w = soma.world {ranks = 2, target = target}
    eq(w.ranks, 2)
    local runs = w:run(programs {TARGET = target}, inputs)
    for r = 0, 1 do same(runs[r].out.y, x[0] + x[1]) end
    eq(runs[0].ended, true)
    eq(runs.time_ns > 4000, true)
  end
end)

case("soma-dis prints the section", function()
  local text = ring_of(0):source()
  for _, part in ipairs {"section cc0", "wait_start gpsimd.sum", "$ready.rank[tp.prev]", "complete gpsimd.sum"} do
    has(text, part)
  end
end)

case("the same bits wherever windows end, and on any number of threads", function()
  local hash, time
  for _, grid in ipairs {0, 137, 1000, 5000} do
    for _, threads in ipairs {1, 2, 3} do
      local w <close> = soma.world {ranks = 2, target = "trn1", window_ns = grid, threads = threads}
      local runs = w:run(programs(), inputs)
      hash, time = hash or runs.hash, time or runs.time_ns
      eq(runs.hash, hash) eq(runs.time_ns, time)
      for r = 0, 1 do same(runs[r].out.y, x[0] + x[1]) end
    end
  end
end)

-- Each rank computes for a time of its own between two collectives, round after round.
local rounds = [==[
        target  trn1
all     group   [[0, 1, 2, 3, 4, 5]]
pairs   group   [[0, 3], [1, 4], [2, 5]]
x       tensor  float32[128, 60], input
y       tensor  float32[128, 60], output
s       tensor  float32[128, 60]
t       tile    sbuf float32[128, 60]
done    sem
moved   sem
ready   sem
q       queue   dge=none
section gpsimd
        mov     r9, 4
        dma_copy t, x, queue=q                              $moved
again:  event_semaphore $moved>=16 $moved-=16
        rank_id r1
        mul     r1, r1, 700
wait:   sub     r1, r1, 1
        bgt     r1, 0, wait
        tensor_tensor t, t, t, op=add                       $ready++
        dma_copy s, t, queue=q                              $ready>=1 $moved
        event_semaphore $moved>=16 $moved-=16
        event_semaphore $ready>=1 $ready--
        all_reduce dsts=[y], srcs=[s], group=all, op=add    $done++
        event_semaphore $done>=1 $done--
        all_reduce dsts=[s], srcs=[y], group=pairs, op=max  $done++
        event_semaphore $done>=1 $done--
        dma_copy t, s, queue=q                              $moved
        sub     r9, r9, 1
        bgt     r9, 0, again
        halt
]==]

case("planned collectives between computing: the same bits for any windows, most of which are long", function()
  local prog, first = soma.assemble(rounds), nil
  for _, how in ipairs {{0, 1}, {0, 3}, {50, 1}, {333, 2}, {1000, 8}} do
    local w <close> = soma.world {ranks = 6, target = "trn1", window_ns = how[1], threads = how[2]}
    local runs = w:run(prog, function(r) return {x = soma.randn({128, 60}, {seed = r})} end)
    first = first or runs
    eq(runs.hash, first.hash) eq(runs.time_ns, first.time_ns)
    same(runs[4].out.y, first[4].out.y)
    eq(first.windows <= runs.windows, true)
  end
  same(first[0].out.y, first[5].out.y)
  eq(first.windows * 300 < first.time_ns, true)
end)

case("under a schedule ranks of one program change each in its own way", function()
  local seen = {}
  for _, threads in ipairs {1, 2} do
    local w <close> = soma.world {ranks = 2, target = "trn1", schedule = 3, threads = threads}
    local first = w:run(programs(), inputs)
    local runs = w:run(programs(), inputs)
    eq(first.hash, runs.hash)
    local at = {}
    for i, c in ipairs(runs.collectives) do at[i] = c.end_ns end
    seen[threads] = table.concat(at, " ")
    assert(at[1] ~= at[2], "both ranks end at " .. at[1])
  end
  eq(seen[1], seen[2])
  local w <close> = soma.world {ranks = 2, target = "trn1"}
  local plain = w:run(programs(), inputs).collectives
  eq(plain[1].end_ns, plain[2].end_ns)
end)

case("a rank that never comes is told first, and of many that wait for it only some", function()
  local n, list = 20, {}
  for r = 0, n - 1 do list[#list + 1] = r end
  local prog = soma.assemble([==[
        target  trn2
tp      group   [[]==] .. table.concat(list, ", ") .. [==[]]
x       tensor  float32[1024], input
y       tensor  float32[1024], output
done    sem
never   sem
section gpsimd
        rank_id r0
        bne     r0, 17, sum
        nop     $never>=1
sum:    all_reduce dsts=[y], srcs=[x], group=tp, op=add   $done++
        nop     $done>=1
        halt
]==])
  local w <close> = soma.world {ranks = n, algorithm = "mesh"}
  local runs = w:run(prog, {x = soma.ones {1024}}, {faults = "return"})
  has(runs.fault, "the world cannot go on: rank 17 waits at text:10 for $never>=1; rank 0 waits in all_reduce (text:11) " ..
    "for rank 17 (cc0 text:11), which waits at text:10 for $never>=1, for rank 1 (cc0 text:11)")
  has(runs.fault, ", for 15 more; rank 1 waits") has(runs.fault, "; 16 more ranks wait\nrank 17: ")
  eq(#runs.fault < 6000, true)
  for r = 0, n - 1 do eq(runs[r].fault.kind, "deadlock") end
end)

case("programs and inputs of a wrong type", function()
  local w <close> = soma.world {ranks = 2, target = "trn1"}
  local progs = programs()
  raises("run: rank 0 has nil, not a program; one for all, or a table by rank, from 0", w.run, w, {progs[0], progs[1]}, inputs)
  raises("run: rank 0 has string, not a program", w.run, w, "a.s", inputs)
  raises("run: the inputs of rank 0 are number, not a table", w.run, w, progs, function() return 3 end)
end)

case("an update that is missing: both ranks are named", function()
  local w = soma.world {ranks = 2, target = "trn1"}
  local progs = {[0] = ring_of(0), ring_of(1, {FIRST = "$moved"})}
  local runs = w:run(progs, inputs, {faults = "return"})
  has(runs.fault, "the world cannot go on: rank 0 waits in all_reduce (text:16) for rank 1 (cc0 text:30), which has ended")
  has(runs.fault, "to 2..16 at")
  has(runs.fault, "by rank 1")
  eq(runs[0].fault.kind, "deadlock")
  eq(runs[1].fault, nil)
  raises("the world cannot go on", w.run, w, progs, inputs)
  -- the machine can go on
  local good = w:run(programs(), inputs)
  same(good[0].out.y, x[0] + x[1])
end)

case("its transfers delay loads of the same core", function()
  local loads = ("dma_copy t, z, queue=q $loaded\n nop $loaded>=16 $loaded-=16\n"):rep(24)
  local big = {[0] = soma.zeros {2, 262144}, soma.zeros {2, 262144}}
  local function ends(rows)
    local w <close> = soma.world {ranks = 2, target = "trn1", timing_only = true}
    local runs = w:run(programs {LOAD = loads, N = rows}, function(r) return {x = rows == 262144 and big[r] or nil} end)
    return runs[0].stats.engine.sync.waiting_ns
  end
  local alone, beside = ends(16), ends(262144)
  eq(beside > alone * 1.05, true)
  eq(beside < alone * 2.5, true)
end)

case("a fault of a rank has its place and its instruction", function()
  local prog = soma.assemble("target trn2\na tile sbuf float32[128, 128]\ng tile sbuf bfloat16[128, 128]\np tile psum float32[128, 128]\n" ..
    "section tensor\n ldweights a\n matmul p, g\n halt\n", {name = "two.s"})
  local w = soma.world {ranks = 2}
  raises("rank 0: two.s:7: matmul: moving bfloat16 with stationary float32: a 32-bit type needs a 32-bit type on both sides\n  matmul p, g",
    w.run, w, prog)
end)

case("what a world refuses", function()
  raises("option 'ranks' is missing", soma.world, {})
  raises("world: unknown option 'rank' (did you mean 'ranks'?); it takes: ranks, lnc, instance, threads, algorithm, window_ns, device, target",
    soma.world, {rank = 2})
  raises("unknown instance 'trn9'; there are: trn1.2xlarge", soma.world, {ranks = 2, instance = "trn9"})
  raises("trn1.2xlarge has 2 cores, but 4 ranks of 1 need 4; trn1.32xlarge has 32", soma.world, {ranks = 4, instance = "trn1.2xlarge"})
  raises("no instance of trn1 has 2000 cores, for 2000 ranks of 1; trn1.32xlarge has 32", soma.world, {ranks = 2000, target = "trn1"})
  raises("trn1.2xlarge is of trn1, but the target is trn2", soma.world, {ranks = 2, instance = "trn1.2xlarge", target = "trn2"})
  local w = soma.world {ranks = 2, target = "trn1"}
  raises("the program of rank 0 is for trn2", w.run, w, programs {TARGET = "trn2"}, inputs)
  raises("unknown algorithm ''; there are: auto, ring", soma.world, {ranks = 2, algorithm = ""})
  raises("run: the inputs of rank 1: mine", w.run, w, ring_of(0), function(r) return r == 0 and inputs(0) or error("mine", 0) end)
  raises("the core is a rank of a world", w.cores[0].run, w.cores[0], ring_of(0), inputs(0))
  raises("the program sends to other ranks of a world: start one with `soma --ranks N PROGRAM.s` or soma.world",
    function() soma.core {}:run(ring_of(0), inputs(0)) end)
  raises("Ranks that run together are a world: soma.world in Lua and Python, soma_world_new in C, `soma --ranks N`", function()
    soma.core {}:run(soma.assemble "g group [[0, 1]]\nx tensor int8[4]\ny tensor int8[4]\nsection sync\nall_reduce dsts=[y], srcs=[x], group=g, op=add\nhalt\n")
  end)
  local other = programs()
  other[1] = soma.assemble("target trn1\nx tensor float32[2, 4096], input\nsection sync\nhalt\n")
  raises("rank 0 pushes to tensor part of rank 1, which has none", w.run, w, other, function(r) return {x = x[r], z = r == 0 and z or nil} end)
  local larger = {[0] = ring_of(0), ring_of(1, {N = 8192})}
  raises("rank 0 pushes to tensor part of rank 1, which has 32768 bytes there and 16384 here", w.run, w, larger,
    function(r) return r == 0 and inputs(0) or {x = soma.zeros {2, 8192}, z = z} end)
end)

-- The runs are memory of the collector's, which their cores must not look at once it is gone.
case("runs that a world could not start may be collected before its cores", function()
  local prog = soma.assemble "g group [[0]]\nx tensor float32[4], input\ny tensor float32[4], output\nsection gpsimd\nall_reduce dsts=[y], srcs=[x], group=g, op=add\nhalt"
  for i = 1, 8 do
    local w, kept = soma.world {ranks = 2}, {}
    raises("the group [[0]] does not have rank 1", w.run, w, prog, {x = soma.zeros {4}})
    collectgarbage()
    collectgarbage()
    for size = 100, 3000, 20 do kept[#kept + 1] = ("x"):rep(size) end
    w:close()
  end
end)

case("limits end ranks that never do", function()
  local spin = soma.assemble "target trn1\nsection sync\nagain: jmp again\n"
  local rest = soma.assemble "target trn1\nsection sync\nhalt\n"
  for _, ranks in ipairs {1, 2} do
    for text, limit in pairs {["0.2 s of host time have passed"] = {max_seconds = 0.2}, ["0.2 s of processor time"] = {max_cpu_seconds = 0.2},
                              ["simulated time reached its limit of 300000 ns"] = {max_time = 300000},
                              ["rank 0: 5000 instructions have run"] = {max_instructions = 5000}} do
      limit.ranks, limit.target = ranks, "trn1"
      local w <close> = soma.world(limit)
      raises(text, w.run, w, {[0] = spin, rest}, {})
    end
  end
end)

case("ranks print in one thread, and a callback's error ends the world", function()
  local prog = soma.assemble "target trn1\nsection sync\nrank_id r1\ndevice_print_value \"rank \", r1\nhalt\n"
  local said = {}
  local w <close> = soma.world {ranks = 6, target = "trn1", threads = 3, print = function(line) said[#said + 1] = line:match "%d+" end}
  w:run(prog, {})
  table.sort(said)
  eq(said, {"0", "1", "2", "3", "4", "5"})
  local bad <close> = soma.world {ranks = 2, target = "trn1", print = function() error "no printing" end}
  raises("no printing", bad.run, bad, prog, {})
end)

case("ranks know their numbers", function()
  local w = soma.world {ranks = 4, target = "trn1"}
  local prog = soma.assemble [==[
        target  trn1
g       group   [[3, 1, 0, 2]]
y       tensor  int32[2], output
n       tile    sbuf int32[1, 2]
ok      sem
q       queue   dge=none
section sync
        rank_id r1
        tensor_store n[0, 0], r1
        current_processing_rank_id r2, 1, group=g
        tensor_store n[0, 1], r2
        dma_copy y, n, queue=q $ok
        nop $ok>=16
        halt
]==]
  local runs = w:run(prog, {})
  for r = 0, 3 do eq({runs[r].out.y[0], runs[r].out.y[1]}, {r, ({[3] = 2, [1] = 3, [0] = 1, [2] = 0})[r]}) end
end)

-- One trigger sends to three ranks, and adds at each.
local spread = [==[
        target  trn2
tp      group   [[0, 1, 2, 3]]
x       tensor  float32[4, 64], input
y       tensor  float32[4, 64], output
done    sem
came    sem
ready   sem
qcc     queue   dge=none, owner=cc0, rings=2
        dma     qcc, y[ROW].rank[tp.next], x[0]
        dma     qcc, y[ROW].rank[tp.xor 2], x[1]
        dma     qcc, y[ROW].rank[tp.prev], x[2]
section gpsimd
give:   all_gather dsts=[y], srcs=[x[0]], group=tp  $done++
        nop     $done>=1
        halt
section cc0
        wait_start gpsimd.give
        nop                             $ready.rank[tp.next]
        nop                             $ready.rank[tp.xor 2]
        nop                             $ready.rank[tp.prev]
        nop     $ready>=3 $ready-=3
        dma_trigger qcc, 3, first=1     $came.rank[dst]
        nop     $came>=6 $came-=6
        complete gpsimd.give
]==]
case("a trigger of several pushes adds at the rank that each writes", function()
  local programs = {}
  for r = 0, 3 do
    programs[r] = soma.assemble((spread:gsub("ROW", r)))
    local text = programs[r]:source()
    has(text, "$came.rank[dst]")
    eq(soma.assemble(text):source(), text)
  end
  local w <close> = soma.world {ranks = 4}
  local runs = w:run(programs, function(r) return {x = soma.full({4, 64}, r + 1, "float32")} end)
  for r = 0, 3 do
    for q = 0, 3 do eq(runs[r].out.y[q][63], q == r and 0.0 or q + 1.0) end
  end
  local short = programs[2]:source():gsub("dma_trigger qcc, 3", "dma_trigger qcc, 2")
  programs[2] = soma.assemble(short)
  local ok, message = pcall(w.run, w, programs, {x = soma.ones {4, 64}})
  eq(ok, false)
  has(message, "the world cannot go on: rank 1 waits in all_gather")
end)

case("$name.rank[dst] is only of triggers whose transfers all push", function()
  raises("only a dma_trigger has transfers that write ranks", function()
    soma.assemble((spread:gsub("ROW", "1"):gsub("%$ready%.rank%[tp%.next%]", "$ready.rank[dst]")))
  end)
  raises("transfer 2 of queue qcc writes no other rank", function()
    soma.assemble((spread:gsub("ROW", "1"):gsub("%.rank%[tp%.xor 2%], x", ", x")))
  end)
  -- a transfer that this trigger does not start may stay here
  local more = spread:gsub("ROW", "1"):gsub("section gpsimd", "        dma     qcc, y[ROW], x[3]\nsection gpsimd")
  soma.assemble((more:gsub("ROW", "1")))
  raises("transfer 4 of queue qcc writes no other rank", function() soma.assemble((more:gsub("ROW", "1"):gsub("qcc, 3, first=1", "qcc, 3, first=2"))) end)
  raises("a wait must be on a semaphore of its own rank", function() soma.assemble((spread:gsub("ROW", "1"):gsub("%$came>=6", "$came.rank[dst]>=6"))) end)
end)
t.finish()
