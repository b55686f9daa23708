-- Checks of programs of two cores: what one core does to the other's memory, and when.
local soma = require "soma"
local t = require "harness"
local two = require "two_cores"
local case, eq = t.case, t.eq
local function has(text, part)
  if not text:find(part, 1, true) then error("missing '" .. part .. "' in:\n" .. text, 2) end
end

local function check(source, options, inputs)
  options = options or {}
  options.checks = options.checks or "all"
  return soma.core(options):run(soma.assemble(source, {name = "p.s"}), inputs or {}, {faults = "return"})
end
local function right(source, options, inputs)
  local run = check(source, options, inputs)
  if run.fault then error(tostring(run.fault), 2) end
end
-- The first finding is of this check, on this core, and says so.
local function wrong(source, kind, core, text, options, inputs)
  local run = check(source, options, inputs)
  local f = run.findings[1]
  if not f then error("nothing was found", 2) end
  eq({f.check, f.core}, {kind, core}, f.text)
  if not f.text:find(text, 1, true) then error("missing '" .. text .. "' in:\n" .. f.text, 2) end
  return run
end

local x = soma.randn({2, 128, 64}, "float32", {seed = 1})
local inputs = {x = x}

case("programs that wait for what they need are right", function()
  right(two.exchange, {}, inputs)
  right(two.give, {}, inputs)
  local a, b = soma.randn({2, 128, 512}, "float32", {seed = 2}), soma.randn({2, 128, 512}, "float32", {seed = 3})
  right(two.sum, {}, {a = a, b = b})
  for seed = 1, 10 do right(two.give, {schedule = seed}, inputs) end
end)

case("a wait for 15 of the other core's 16 rings is found on every schedule", function()
  local late = two.give:gsub("%$given>=16", "$given>=15")
  for seed = 0, 30 do
    local run = check(late, {schedule = seed, checks = "race"}, inputs)
    eq(#run.findings, 2)
    for _, f in ipairs(run.findings) do
      has(f.text, ("fix: core %d vector must wait for $given of core %d >= 16 before p.s:19; it waits for 15"):format(f.core, f.core))
      has(f.text, ("core %d vector reads what a transfer of core %d's queue q writes"):format(f.core, 1 - f.core))
      has(f.text, (" of core %d sbuf partitions 0..7 (tile other), ring 0"):format(f.core))
    end
    eq(run.findings[1].core + run.findings[2].core, 1)
  end
end)

case("a transfer into the other core's SBUF that nobody waits for", function()
  wrong(two.give:gsub("%$given>=16 ", ""), "race", 0, "it does not wait for it at all", {}, inputs)
end)

case("an update that comes before the transfer has ended does not tell of it", function()
  -- The vector engine of the other core is told when the transfer is triggered, not when it is over.
  wrong(two.give:gsub("queue=q %$peer.given", "queue=q\n        nop $peer.given+=16"), "race", 0,
    "core 0 vector reads what a transfer of core 1's queue q writes", {checks = "race"}, inputs)
end)

case("what is sent must not be overwritten on the way", function()
  local source = two.head("got made", "a b") .. [[
section vector
        memset  a, 1.0                  $made++
        memset  a, 2.0
        halt
section sync
        dma_copy b.peer, a, queue=q     $made>=1 $peer.got
        halt
section vector core=1
        tensor_copy a, b                $got>=16
        halt
]]
  local run = wrong(source, "race", 0, "core 0 vector writes what a transfer of core 0's queue q reads")
  has(run.findings[1].text, "overwrites too early")
  -- the other core can tell that it is over
  right(source:gsub("memset  a, 2.0", "memset  a, 2.0     $got>=1")
    :gsub("%$got>=16", "$got>=16 $peer.got++"), {})
end)

case("both cores see one HBM", function()
  local source = [[
target  trn2
done    sem     core=*
q       queue   dge=hwdge, core=*
z       tensor  float32[128, 64]
y       tensor  float32[128, 64], output
a       tile    sbuf float32[128, 64]
section vector
        memset  a, 1.0                  $done++
        halt
section sync
        dma_copy z, a, queue=q          $done>=1 $peer.done
        halt
section sync core=1
        dma_copy a, z, queue=q          $done>=16 $done
        dma_copy y, a, queue=q          $done>=32
        halt
]]
  right(source)
  wrong(source:gsub("%$done>=16 %$done", "$done>=15 $done"):gsub(">=32", ">=31"), "race", 1,
    "a transfer of core 1's queue q reads what a transfer of core 0's queue q writes", {checks = "race"})
  wrong(source:gsub("dma_copy z, a, queue=q          %$done>=1 %$peer.done", "nop $done>=1 $peer.done+=16"), "uninit", 1,
    "a transfer of core 1's queue q reads bytes that nothing has written since load", {checks = "uninit"})
end)

case("what a transfer has written into the other core's SBUF counts as written there alone", function()
  local source = [[
target  trn2
got     sem     core=*
q       queue   dge=hwdge, core=*
x       tensor  float32[128, 64], input
a       tile    sbuf float32[128, 64]
b       tile    sbuf float32[128, 64]
section sync
        dma_copy a.peer, x, queue=q     $peer.got
        halt
section vector core=1
        tensor_copy b, a                $got>=16
        halt
]]
  right(source, {}, {x = x[0]})
  local run = wrong(source .. "section vector\ntensor_copy b, a\nhalt\n", "uninit", 0,
    "core 0 vector reads bytes that nothing has written since load", {}, {x = x[0]})
  has(run.findings[1].text, "of core 0 sbuf partitions 0..127 (tile a)")
end)

case("a semaphore of the other core orders what went before", function()
  local source = two.head("go loaded", "a", true) .. [[
section sync core=*
        dma_copy a, x[CORE], queue=q    $loaded
        nop                             $loaded>=16 $peer.go++
        dma_copy a.peer, x[CORE], queue=q  $go>=1 $peer.loaded
        dma_copy y[CORE], a, queue=q    $loaded>=32
        halt
]]
  right(source, {}, inputs)
  wrong(source:gsub("%$loaded>=16 %$peer.go%+%+", "$peer.go++"), "race", 0, "nothing orders the two", {checks = "race"}, inputs)
end)

case("a wait that a core takes back in one step, with updates of both", function()
  local barrier = two.head("here own", "t u") .. [[
section vector core=*
        mov     r1, 0
l:      memset  t, 1.0                      $own++
        event_semaphore                     $own>=1 $own-=1
        nop                                 $peer.here++
        event_semaphore                     $here>=1 $here-=1
        add     r1, r1, 1
        blt     r1, 5, l
        halt
]]
  right(barrier)
  right((barrier:gsub("core=%*\n        mov", "core=*\n        mov")), {schedule = 7})
end)

case("a value that only the timing satisfied, across cores", function()
  wrong([[
target  trn2
s       sem     core=*
section vector
        nop     $s==1
        halt
section vector core=1
        nop     $peer.s++
        nop     $peer.s++
        halt
]], "race", 1, "core 0 vector waits for $s of core 0", {checks = "race"})
end)

case("groups of PSUM, tiles that share bytes and outputs are looked at on each core", function()
  local psum = [[
target  trn2
a       tile    sbuf bfloat16[128, 128]
p       tile    psum float32[128, 128]
made    sem     core=*
section vector core=*
        memset  a, 1.0                  $made++
        halt
section tensor core=*
        ldweights a                     $made>=1
        matmul  p, a, acc=write
        halt
section tensor
        nop
        halt
]]
  psum = psum:gsub("section tensor\n.*$", "")
  right(psum, {checks = "uninit,race,psum,overlap"})
  wrong(psum:gsub("acc=write", "acc=add"), "psum", 0, "a matmul accumulates where no matmul has started a group",
    {checks = "psum"})
  local run = check(psum:gsub("acc=write", "acc=add"), {checks = "psum"})
  eq(#run.findings, 2) eq(run.findings[2].core, 1)
  has(run.findings[2].text, "core 1 psum partitions")
  local tiles = [[
target  trn2
a       tile    sbuf float32[128, 64], overlay=g, own
b       tile    sbuf float32[128, 64], overlay=g, own
c       tile    sbuf float32[128, 64]
section vector
        memset  a, 1.0
        tensor_copy c, a
        halt
section vector core=1
        memset  b, 1.0
        tensor_copy c, b
        halt
]]
  right(tiles)
  wrong(tiles:gsub("tensor_copy c, b", "tensor_copy c, a"), "overlap", 1,
    "core 1 vector reads bytes that tile b has written, through a tile that is `own`", {checks = "overlap"})
  wrong([[
target  trn2
q       queue   dge=hwdge, core=*
y       tensor  float32[2, 128, 64], output
a       tile    sbuf float32[128, 64]
made    sem     core=*
section vector core=1
        memset  a, 1.0                  $made++
        halt
section sync core=1
        dma_copy y[1], a, queue=q       $made>=1
        halt
]], "output", 1, "row 0 was never written", {checks = "output"})
end)

case("registers are those of each core", function()
  wrong("section vector\nmov r1, 1\nhalt\nsection vector core=1\nadd r2, r1, 1\nhalt\n", "uninit", 1,
    "core 1 vector reads register r1, which nothing has written")
end)

case("two engines that trigger one static queue, each core its own", function()
  local source = [[
target  trn2
x       tensor  float32[128, 64], input
a       tile    sbuf float32[128, 64]
q       queue   core=*
dma     q, a, x
section sync core=*
        dma_trigger q, 1
        halt
]]
  right(source, {}, {x = x[0]})
end)

-- Each core's tile goes to the other by a sendrecv, then both halves of one tensor to both.
local meet = [[
target  trn2
ready   sem     core=*
got     sem     core=*
q       queue   dge=hwdge, core=*
x       tensor  float32[2, 128, 64], input
both    tensor  float32[128, 64]
y       tensor  float32[2, 128, 64], output
mine    tile    sbuf float32[128, 64]
its     tile    sbuf float32[128, 64]
section sync core=*
        dma_copy  mine, x[CORE], queue=q                $got
        sendrecv  its, mine, queue=q, pipe=0            $got>=16 $got
        dma_copy  both[64 * CORE:+64], its[0:64], queue=q  $got>=32 $got
        core_barrier ready, data=both                   $got>=48
        dma_copy  y[CORE], both, queue=q
        halt
]]

case("a sendrecv and a core_barrier order what they are for", function()
  right(meet, {}, inputs)
  for seed = 1, 10 do right(meet, {schedule = seed}, inputs) end
  for seed = 0, 10 do -- 15 of the 16 rings of what the other core sends
    local run = check(meet:gsub("%$got>=32", "$got>=31"), {checks = "race", schedule = seed}, inputs)
    eq(#run.findings, 2)
    for _, f in ipairs(run.findings) do
      has(f.text, ("fix: core %d sync must wait for $got of core %d >= 32 before p.s:13; it waits for 31"):format(f.core, f.core))
    end
  end
end)

case("a core_barrier does not wait for transfers that its engine has not waited for", function()
  local run = check(meet:gsub("data=both                   %$got>=48", "data=both"), {checks = "race"}, inputs)
  eq(#run.findings, 2)
  for _, f in ipairs(run.findings) do
    has(f.text, ("race: core %d sync hands over what a transfer of core %d's queue q writes"):format(f.core, f.core))
    has(f.text, ("fix: core %d sync must wait for $got of core %d >= 48 before p.s:14"):format(f.core, f.core))
  end
  -- without it the other core's half is not there
  run = check(meet:gsub("core_barrier ready, data=both", "nop"), {checks = "race"}, inputs)
  eq(#run.findings, 2)
  for _, f in ipairs(run.findings) do
    has(f.text, ("core %d must update a semaphore of core %d when p.s:13 is over, and core %d sync wait for it before p.s:15")
      :format(1 - f.core, f.core, f.core))
  end
end)

case("gpsimd's own sendrecv tells of both halves when it is complete", function()
  local source = two.head("got done", "mine its", true) .. [[
section sync core=*
        dma_copy  mine, x[CORE], queue=q        $got
        dma_copy  y[CORE], its, queue=q         $done>=1
        halt
section gpsimd core=*
        sendrecv_gpsimd  its, mine, pipe=0      $got>=16 $done++
        halt
section vector core=*
        memset  mine, 0.0                       $done>=1
        halt
]]
  right(source, {}, inputs)
  local run = check(source:gsub("memset  mine, 0.0                       %$done>=1", "memset  mine, 0.0   $got>=16"),
    {checks = "race"}, inputs)
  eq(#run.findings >= 2, true)
  has(run.findings[1].text, "vector writes what core")
end)

case("gpsimd's own accesses to what it sends are in order without a wait", function()
  local source = [[
target  trn2
done    sem     core=*
q       queue   dge=hwdge, core=*
y       tensor  float32[2, 128, 64], output
mine    tile    sbuf float32[128, 64]
its     tile    sbuf float32[128, 64]
section gpsimd core=*
        memset  mine, 1.0
        sendrecv_gpsimd  its, mine, pipe=0
        memset  mine, 2.0
        tensor_copy  mine, its                  $done++
        halt
section sync core=*
        dma_copy  y[CORE], mine, queue=q        $done>=1
        halt
]]
  for seed = 0, 10 do
    local run = check(source, {schedule = seed})
    if run.fault then error(tostring(run.fault)) end
    eq(soma.equal(run.out.y, soma.full({2, 128, 64}, 1, "float32")), true)
  end
  -- another engine's are not
  local run = check(source:gsub("memset  mine, 2.0", "nop") .. "section vector core=*\n memset mine, 2.0\n halt\n", {checks = "race"})
  has(run.findings[1].text, "vector")
end)

-- What all legal timings of a program do: the verdict, and the first line of its text.
local function all(source, given)
  local run = soma.core {schedule = "all"}:run(soma.assemble(source, {name = "p.s"}), given or {}, {faults = "return"})
  return run.schedules.verdict, run.schedules.text
end

case("schedules of sendrecvs are judged", function()
  eq(all(meet, inputs), "same")
  local verdict, text = all((meet:gsub("%$got>=32", "$got>=31")), inputs)
  eq(verdict, "depends")
  has(text, "'s queue q reads at p.s:13 what a transfer of core")
  local swap = [[
target  trn2
made    sem     core=*
done    sem     core=*
a       tile    sbuf float32[128, 64]
b       tile    sbuf float32[128, 64]
section vector core=*
        memset  a, 1.0                          $made++
        memset  a, 2.0                          $done>=1
        halt
section gpsimd core=*
        sendrecv_gpsimd  b, a                   $made>=1 $done++
        memset  b, 0.0
        halt
]]
  eq(all(swap), "same")
  verdict, text = all((swap:gsub("memset  a, 2.0 +%$done>=1", "memset a, 2.0")))
  eq(verdict, "depends")
  has(text, "gpsimd reads at p.s:11 what core")
end)

case("the update of a sendrecv does not stand for a later transfer of its ring", function()
  -- A ring tells of a sendrecv when the other core's half is over too, and so it may be after the next
  -- transfer: sixteen updates can be those of either.
  local source = [[
target  trn2
got     sem     core=*
q       queue   dge=hwdge, core=*
x       tensor  float32[2, 128, 64], input
a       tile    sbuf float32[128, 64]
b       tile    sbuf float32[128, 64]
c       tile    sbuf float32[128, 64]
section sync core=*
        sendrecv  b, a, queue=q                 $got
        dma_copy  c, x[CORE], queue=q           $got
        halt
section vector core=*
        tensor_copy  b, b                       $got>=16
        halt
]]
  eq(all(source, inputs), "depends")
  eq(check(source, {checks = "race"}, inputs).fault.kind, "check")
end)

local rings = [[
target  trn2
s       sem     core=*
t       sem     core=*
q       queue   dge=hwdge, rings=1, core=*
r       queue   dge=hwdge, rings=1, core=*
a       tile    sbuf float32[128, 8]
b       tile    sbuf float32[128, 8]
c       tile    sbuf float32[128, 8]
d       tile    sbuf float32[128, 8]
e       tile    sbuf float32[128, 8]
]]

case("a later transfer of its ring does not stand for a sendrecv", function()
  local source = rings .. [[
section sync
        sendrecv  a, b, queue=q                 $s
        dma_copy  c, d, queue=q                 $s
        halt
section scalar
        activate  e, a, fn=copy                 $s>=1
        halt
section sync core=1
        sendrecv  a, b, queue=q                 $t
        halt
]]
  eq(all(source), "depends")
  wrong(source, "race", 0, "core 0 scalar reads what a transfer of core 1's queue q writes", {checks = "race"})
  eq(all((source:gsub("$s>=1", "$s>=2"))), "same")
  right((source:gsub("$s>=1", "$s>=2")), {checks = "race"})
end)

case("a wait for a sendrecv of which the ring's own half is known", function()
  -- Scalar knows by $t that core 1's ring has gone on, and waits for both halves by $s; only the two
  -- memsets are not in order.
  local source = rings .. [[
section vector
        memset    e, 0.0
        halt
section gpsimd
        memset    e, 0.0
        halt
section scalar
        nop                                     $t>=1
        dma_copy  b.peer, c, queue=r            $s>=2
        halt
section sync
        sendrecv  b, a, queue=q
        halt
section sync core=1
        sendrecv  b, a, queue=q                 $peer.s
        dma_copy  c, d, queue=q                 $s
        dma_copy  c, d, queue=q                 $peer.s
        halt
section vector core=1
        nop                                     $s>=1 $peer.t++
        halt
]]
  eq(#wrong(source, "race", 0, "memset e, 0.0", {checks = "race"}).findings, 1)
end)

case("schedules of a barrier with an update of its own", function()
  local source = rings .. [[
x       tensor  float32[128, 8]
section sync
        core_barrier  s                         $peer.t++
        core_barrier  s
        dma_copy  x, c, queue=q
        halt
section sync core=1
        dma_copy  x, d, queue=q                 $t
        core_barrier  s
        core_barrier  s                         $t>=2
        halt
]]
  eq(all(source), "same")
  eq(all((source:gsub("$t>=2", "$t>=1"))), "depends")
end)

case("a wait that the other core's sendrecv needs may never end", function()
  -- Once $s is 1, gpsimd waits for what scalar adds after its sendrecv, and that for gpsimd's own.
  local source = [[
target  trn2
s       sem     core=*
q       queue   dge=none, rings=1, core=*
a       tile    sbuf float32[128, 2]
b       tile    sbuf float32[128, 2]
c       tile    sbuf float32[128, 2]
section scalar
        sendrecv  b, a, queue=q, pipe=5         $s
        halt
section gpsimd
        sendrecv_gpsimd  c, a, pipe=10          $s!=1
        halt
section sync
        nop                                     $s++
        halt
section scalar core=1
        sendrecv  b, a, queue=q, pipe=5         $s>=1
        halt
section gpsimd core=1
        sendrecv_gpsimd  c, a, pipe=10          $s++
        halt
]]
  local run = check(source, {checks = "race"})
  has(run.findings[1].text, "core 0 gpsimd waits for $s of core 0 != 1, which holds only by luck of timing")
  local verdict, text = all(source)
  eq(verdict, "depends")
  has(text, "core 0 gpsimd can wait for ever for $s of core 0 != 1")
end)

case("gpsimd's own sendrecv begins when its data path has left the operands, and ends on both cores", function()
  -- The copy ends after the first sendrecv_gpsimd, which wrote what it reads; the second waits for the copy.
  local source = [[
target  trn2
q       queue   dge=none, core=*
here    sem     core=*
a       tile    sbuf float32[128, 2]
b       tile    sbuf float32[128, 2]
c       tile    sbuf float32[128, 2]
d       tile    sbuf float32[128, 2]
section gpsimd core=*
        memset  b, 0.0
        memset  a, 1.0
        sendrecv_gpsimd  b, a
        tensor_copy  c, b
        sendrecv_gpsimd  c, a
        sendrecv  d, b, queue=q
        halt
]]
  right(source, {checks = "race"})
  eq(all(source), "same")
  local later = source:gsub("sendrecv_gpsimd  c, a", "nop")
  eq(check(later, {checks = "race"}).fault.kind, "check")
  eq(all(later), "depends")
  local other = source:gsub("sendrecv_gpsimd  c, a", "drain")
  right(other, {checks = "race"})
  eq(all(other), "same")
end)

case("two engines of a core that come to one pipe in no order", function()
  local source = [[
target  trn2
turn    sem     core=*
q       queue   dge=none, core=*
r       queue   dge=none, core=*
a       tile    sbuf float32[128, 64]
b       tile    sbuf float32[128, 64]
c       tile    sbuf float32[128, 64]
d       tile    sbuf float32[128, 64]
section sync core=*
        sendrecv  b, a, queue=q, pipe=3
        nop                                     $turn++
        halt
section scalar core=*
        nop                                     $turn>=1
        sendrecv  d, c, queue=r, pipe=3
        halt
]]
  eq(all(source), "same")
  right(source, {checks = "race"})
  for _, wrong_one in ipairs {(source:gsub("%$turn>=1", "")), (source:gsub("%$turn>=1", "$turn>=0"))} do
    local verdict, text = all(wrong_one)
    eq(verdict, "depends")
    has(text, "use pipe 3, and nothing orders the two")
    for seed = 0, 5 do
      local run = check(wrong_one, {checks = "race", schedule = seed})
      eq(#run.findings, 2)
      has(run.findings[1].text, "use pipe 3, and nothing orders the two: the other core meets whichever comes first")
      has(run.findings[1].text, "or one of the two takes another pipe")
    end
  end
end)

case("barriers in a loop are in order", function()
  local source = [[
target  trn2
here    sem     core=*
sent    sem     core=*
swq     queue   dge=swdge, core=*
a       tile    sbuf float32[128, 64]
b       tile    sbuf float32[128, 64]
section gpsimd core=*
        memset    a, 1.0
        mov       r1, 0
l:      drain
        dma_copy  b.peer, a, queue=swq          $sent
        event_semaphore                         $sent>=16 $sent-=16
        core_barrier here
        tensor_copy a, b
        drain
        core_barrier here
        add       r1, r1, 1
        blt       r1, 6, l
        halt
]]
  right(source)
  -- a barrier does not wait for the data path of its engine
  wrong(source:gsub("b\n        drain", "b"), "race", 0, "p.s:11 overwrites too early what p.s:14 reads", {checks = "race"})
end)

case("findings are the same after saving and resuming", function()
  for _, source in ipairs {two.give, (two.give:gsub("%$given>=16", "$given>=15")), two.chain, two.barrier} do
    local prog, given = soma.assemble(source, {name = "p.s"}), source:find("input") and inputs or {}
    local whole = soma.core {checks = "all"}:run(prog, given, {faults = "return"})
    t.same_findings(whole, t.in_parts({checks = "all"}, prog, given))
  end
end)

case("checks change neither results nor time", function()
  local plain = soma.core {}:run(soma.assemble(two.give), inputs)
  local checked = soma.core {checks = "all"}:run(soma.assemble(two.give), inputs)
  eq(checked.stats.trace_hash, plain.stats.trace_hash)
  eq(soma.equal(checked.out.y, plain.out.y), true)
end)

t.finish()
