-- Checks: each finding on a program that deserves it, and none on its corrected twin.
local soma = require "soma"
local harness = require "harness"
local case, eq = harness.case, harness.eq

local tiles = require "check_tiles"
local UNUSED <const> = "tc go qs" -- not declared here
local a = tiles.inputs.a

local function findings(checks, body, target)
  if checks == "all" then checks = "uninit,race,psum,overlap,range,port" end -- few write their output
  local prog = tiles.assemble(body, target, UNUSED)
  local core = soma.core {checks = checks, max_instructions = 100000}
  local run = core:run(prog, tiles.inputs, {faults = "return"})
  if run.fault and run.fault.kind ~= "check" then error(tostring(run.fault)) end
  harness.same_findings(run, harness.in_parts({checks = checks, max_instructions = 100000}, prog, tiles.inputs))
  return run.findings, run
end

-- text: what the first finding must contain; nil: there must be none. count: how many.
local function expect(name, checks, body, text, target, count)
  case(name, function()
    local list = findings(checks, body, target)
    if not text then return eq(list[1] and list[1].text, nil) end
    eq(list[1] ~= nil, true)
    eq(list[1].text:find(text, 1, true) and text or list[1].text, text)
    if count then eq(#list, count) end
  end)
end

local load = "section sync\n dma_copy ta, a, queue=q $loaded\n"
local function both(name, check, bad, text, good, target)
  expect(name, check, bad, text, target)
  expect(name .. ", corrected", "all", good, nil, target)
end

-- ---- race -----------------------------------------------------------------------------------

both("a read before a load has ended", "race",
  load .. " halt\nsection vector\n tensor_copy tb, ta $loaded>=15\n halt\n",
  "vector must wait for $loaded >= 16 before p.s:18; it waits for 15",
  load .. " halt\nsection vector\n tensor_copy tb, ta $loaded>=16\n halt\n")

both("an own instruction and a transfer without drain", "race",
  "section scalar\n tensor_copy tb, ta\n dma_copy c, tb, queue=q $done\n halt\n",
  "scalar must drain before it triggers the transfer",
  "section scalar\n dma_copy ta, a, queue=q $loaded\n tensor_copy tb, ta $loaded>=16\n drain\n dma_copy c, tb, queue=q $done\n halt\n")

both("a control update says nothing of the data path", "race", [[
section vector
        memset tb, 1.0
        nop                 $done++
        halt
section scalar
        tensor_copy ta, tb  $done>=1
        halt
]], "nothing orders the two", [[
section vector
        memset tb, 1.0      $done++
        halt
section scalar
        tensor_copy ta, tb  $done>=1
        halt
]])

both("@read releases sources alone", "race", [[
section vector
        memset ta, 1.0
        tensor_copy tb, ta  $done++@read
        halt
section scalar
        tensor_copy pa, tb  $done>=1
        halt
]], "scalar reads what vector writes", [[
section vector
        memset ta, 1.0
        tensor_copy tb, ta  $done++@read
        halt
section gpsimd
        memset ta, 2.0      $done>=1
        halt
]])

both("transfers are in order ring by ring", "race",
  "q2 queue rings=16, dge=hwdge\n" .. load .. " dma_copy c, ta, queue=q2 $done\n halt\n",
  "a transfer of queue q2 reads what a transfer of queue q writes",
  load .. " dma_copy c, ta, queue=q $done\n halt\n")

both("interleaved columns do not meet", "race", [[
section vector
        memset tb[:, 0:512:2], 1.0
        halt
section gpsimd
        memset tb[:, 0:512:2], 2.0
        halt
]], "gpsimd", [[
section vector
        memset tb[:, 0:512:2], 1.0
        halt
section gpsimd
        memset tb[:, 1:512:2], 2.0
        halt
]])

both("a wait of two sources is sure of none alone", "race", [[
section vector
        memset ta, 1.0      $done++
        halt
section gpsimd
        memset x, 1.0       $done++
        halt
section scalar
        tensor_copy tb, ta  $done>=1
        halt
]], "adds to it as well; it waits for 1. A semaphore of its own would do too", [[
section vector
        memset ta, 1.0      $done++
        halt
section gpsimd
        memset x, 1.0       $done++
        halt
section scalar
        tensor_copy tb, ta  $done>=2
        halt
]])

both("order continues through a third engine", "race", [[
section vector
        memset ta, 1.0      $done++
        halt
section gpsimd
        memset x, 1.0       $ack++
        halt
section scalar
        tensor_copy tb, ta  $ack>=1
        halt
]], "it does not wait for it at all", [[
section vector
        memset ta, 1.0      $done++
        halt
section gpsimd
        memset x, 1.0       $done>=1 $ack++
        halt
section scalar
        tensor_copy tb, ta  $ack>=1
        halt
]])

both("== on a passing value", "race", [[
section vector
        nop $done++
        nop $done++
        halt
section scalar
        nop $done==1
        halt
]], "which holds only by luck of timing", [[
section vector
        nop $done++
        nop $ack>=1 $done++
        halt
section scalar
        nop $done==1 $ack++
        halt
]])

both("a semaphore set back before its waiter is sure to have seen it", "race", [[
section vector
        nop $done++
        event_semaphore $done=0
        halt
section scalar
        nop $done>=1
        halt
]], "which holds only by luck of timing", [[
section vector
        nop $done++
        event_semaphore $ack>=1 $done=0
        halt
section scalar
        nop $done>=1 $ack++
        halt
]])

both("an engine's own reset, which it does not see yet", "race", [[
section sync
        dma_copy ta, a, queue=q $loaded
        nop $loaded>=16 $loaded=0
        dma_copy tb, a, queue=q $loaded
        nop $loaded>=16
        halt
]], "fix: its own update had not arrived yet: one event_semaphore", [[
section sync
        dma_copy ta, a, queue=q $loaded
        event_semaphore $loaded>=16 $loaded-=16
        dma_copy tb, a, queue=q $loaded
        nop $loaded>=16
        halt
]])

both("an index vector that is still being loaded", "race", [[
index   tensor int32[128, 1], const = {times 128 0}
ti      tile sbuf int32[128, 1]
qs      queue rings=16, dge=swdge
section gpsimd
        dma_copy ti, index, queue=qs $loaded
        dma_copy ta, a.gather(ti, 0), queue=qs $done
        halt
]], "gpsimd reads what a transfer of queue qs writes", [[
index   tensor int32[128, 1], const = {times 128 0}
ti      tile sbuf int32[128, 1]
qs      queue rings=16, dge=swdge
section gpsimd
        dma_copy ti, index, queue=qs $loaded
        dma_copy ta, a.gather(ti, 0), queue=qs $loaded>=16 $done
        halt
]])

-- ---- uninit ---------------------------------------------------------------------------------

both("a tile that nobody wrote", "uninit",
  "section vector\n tensor_copy ta, tb\n halt\n",
  "uninit: vector reads bytes that nothing has written since load",
  "section vector\n memset tb, 0.0\n tensor_copy ta, tb\n halt\n")

both("a row of it", "uninit",
  "section vector\n memset tb[0:96, :], 0.0\n tensor_copy ta, tb\n halt\n",
  "the first that was not written is in partition 96",
  "section vector\n memset tb[0:96, :], 0.0\n memset tb[96:128, :], 0.0\n tensor_copy ta, tb\n halt\n")

both("every other element of it", "uninit",
  "section vector\n memset tb[:, 0:512:2], 0.0\n tensor_copy ta, tb\n halt\n",
  "reads bytes 2048..4095 of sbuf partitions 0..127 (tile tb)",
  "section vector\n memset tb[:, 0:512:2], 0.0\n memset tb[:, 1:512:2], 0.0\n tensor_copy ta, tb\n halt\n")

both("a transfer of such bytes", "uninit",
  "section sync\n dma_copy c, tb, queue=q $done\n halt\n",
  "uninit: a transfer of queue q reads bytes",
  "section vector\n memset tb, 0.0 $ack++\n halt\nsection sync\n dma_copy c, tb, queue=q $ack>=1 $done\n halt\n")

-- nonzero_with_count works on every sixteenth partition, topk on so many elements of its snakes.
local sixteenths = [[
z       tile    sbuf float32[64, 4]
n       tile    sbuf int32[64, 5]
m       tile    sbuf int32[64, 5]
l       tile    sbuf bfloat16[32, 3]
v       tile    sbuf bfloat16[32, 18]
i       tile    sbuf uint32[32, 18]
k       tile    sbuf uint32[32, 18]
g       queue   dge=swdge
section gpsimd
]]
for p = 0, 48, 16 do
  sixteenths = sixteenths .. string.format(" dma_copy z[%d:%d, :], a[%d:%d, 0:4], queue=g $loaded\n", p, p + 1, p, p + 1)
end
sixteenths = sixteenths .. " nop $loaded>=64\n nonzero_with_count n, z, padding=-1\n"
both("the count on other partitions than 0, 16, ...", "uninit", sixteenths .. " tensor_copy m[0:1, :], n[0:1, :]\n"
  .. " tensor_copy m[0:17, :], n[0:17, :]\n halt\n", "the first that was not written is in partition 1",
  sixteenths .. " tensor_copy m[0:1, :], n[0:1, :]\n tensor_copy m[32:33, :], n[32:33, :]\n halt\n")
local snake = sixteenths:gsub(" dma_copy.*", "") .. " memset l[:, 0:2], 1.0\n memset l[0:3, 2:3], 2.0\n"
both("what topk leaves", "uninit", snake .. " topk v[0:16, :], i[0:16, :], l[0:16, :], n=35\n tensor_copy k[0:16, 0:1], i[0:16, 0:1]\n"
  .. " tensor_copy k[0:3, 0:2], i[0:3, 0:2]\n halt\n", "the first that was not written is in partition 2",
  snake .. " topk v[0:16, :], i[0:16, :], l[0:16, :], n=35\n tensor_copy k[0:16, 0:1], i[0:16, 0:1]\n"
  .. " tensor_copy k[0:2, 0:2], i[0:2, 0:2]\n halt\n")
both("what topk sorts", "uninit", snake .. " topk v[0:16, :], i[0:16, :], l[0:16, :], n=36\n halt\n",
  "the first that was not written is in partition 3", snake .. " topk v[0:16, :], i[0:16, :], l[0:16, :], n=35\n halt\n")
local short = sixteenths:gsub(" dma_copy.*", "") .. " memset l[:, 0:1], 1.0\n memset l[0:5, 1:2], 2.0\n"
both("what topk sorts beyond the first k", "uninit", short .. " topk v[0:16, :], i[0:16, :], l[0:16, :], n=32\n halt\n",
  "the first that was not written is in partition 5", short .. " topk v[0:16, :], i[0:16, :], l[0:16, :], n=21\n halt\n")
local beside = "section sync\n dma_copy n[%s, :].view(float32), a[1:2, 0:5], queue=q $done\n halt\n"
both("a transfer into what nonzero_with_count writes", "race", sixteenths .. " halt\n" .. beside:format "16:17",
  "nothing orders the two", sixteenths .. " halt\n" .. beside:format "17:18")

-- Rows of a scatter that several rings write are in no order; those of one ring are.
local function scatter(p, row)
  return "i tile sbuf uint32[128, 1]\ng queue dge=swdge\nsection gpsimd\n dma_copy ta, a, queue=g $loaded\n"
    .. " iota i, pattern=[[0, 1]], multiplier=1\n mov r1, " .. row .. "\n tensor_store i[" .. p .. "], r1\n nop $loaded>=16\n"
    .. " dma_copy c.ap([[512, 128], [1, 512]]).gather(i), ta, queue=g $done\n halt\n"
end
both("a row that a scatter writes by two rings", "race", scatter(8, 7), "fix: let the index vector name each row",
  scatter(7, 6))
case("of two rows of a scatter in one ring the later stays", function()
  local _, run = findings("all", scatter(7, 6))
  eq(run.out.c:get(6, 3), a:get(7, 3))
  eq(run.out.c:get(7, 3), 0.0)
end)

both("a temporary in HBM", "uninit", [[
t       tensor float32[128, 512]
section sync
        dma_copy ta, t, queue=q $loaded
        halt
]], "of tensor t", [[
t       tensor float32[128, 512]
section sync
        dma_copy t, a, queue=q $done
        dma_copy ta, t, queue=q $done>=16 $loaded
        halt
]])

both("a register", "uninit",
  "section vector\n add r1, r2, 1\n halt\n", "reads register r2, which nothing has written",
  "section vector\n mov r2, 1\n add r1, r2, 1\n halt\n")

-- Register instructions run in batches ahead of simulated time; each has its own time all the same.
case("the time of a register that is read is that of its instruction", function()
  local prog = soma.assemble "section sync\n mov r1, 1\n mov r2, 2\n mov r3, 3\n add r4, r9, r1\n add r5, r10, r1\n halt\n"
  local run = soma.core {checks = "uninit"}:run(prog, nil, {faults = "return"})
  local cycle = 1 / 1.2 -- ns
  eq(#run.findings, 2)
  for i, f in ipairs(run.findings) do eq(math.abs(f.time_ns - (i + 2) * cycle) < 1e-3, true, f.text) end
  harness.same_findings(run, harness.in_parts({checks = "uninit"}, prog))
end)

-- ---- psum -----------------------------------------------------------------------------------

local operands = "section vector\n memset w, 1.0\n memset x, 1.0 $ack++\n"
both("accumulation that no matmul has started", "psum", operands .. [[
        halt
section tensor
        ldweights w         $ack>=1
        matmul pa, x, acc=add
        halt
]], "a matmul accumulates where no matmul has started a group", operands .. [[
        halt
section tensor
        ldweights w         $ack>=1
        matmul pa, x, acc=write
        matmul pa, x, acc=add
        halt
]])

local filled = "section vector\n memset w, 0.0, filler=true\n memset w[0:64], 1.0\n memset x, 1.0 $ack++\n halt\n"
both("sums of rows that a filler stands for", "uninit", filled .. [[
section tensor
        ldweights w         $ack>=1
        matmul pa, x, acc=write
        halt
]], "a result is made of elements that are written and of others", filled .. [[
section tensor
        ldweights w[0:64]   $ack>=1
        matmul pa, x[0:64], acc=write
        halt
]])

both("a group that is read before it is complete", "psum", operands .. [[
        tensor_copy tb, pa  $done>=1 $loaded++
        halt
section tensor
        ldweights w         $ack>=1
        matmul pa, x, acc=write $done++
        matmul pa, x, acc=add   $loaded>=1
        halt
]], "a matmul adds to a group that has been read already", operands .. [[
        tensor_copy tb, pa  $done>=1 $loaded++
        halt
section tensor
        ldweights w         $ack>=1
        matmul pa, x, acc=write
        matmul pa, x, acc=add   $done++
        halt
]])

-- From gen3 on vector and scalar meet in a bank at the cost of time alone; on gen2 programs must not.
local meet = [[
section vector
        memset pa[0:64, :], 1.0
        halt
section scalar
        activate %s[64:128, :], ta[64:128, :], fn=copy
        halt
]]
local fill = "section gpsimd\n memset ta, 0.0 $ack++\n halt\n"
local after = meet:gsub("section scalar\n", "section scalar\n nop $ack>=1\n")
expect("two engines at once in a bank", "all", fill .. after:format "pa", nil, "trn2")
case("two engines in a bank are slower than in two", function()
  local function ns(bank)
    return soma.core {target = "trn2"}:run(tiles.assemble(meet:format(bank), nil, "trn2"), tiles.inputs).stats.time_ns
  end
  assert(ns "pa" > ns "pb")
end)
both("vector and scalar in psum", "port", meet:format "pb", "scalar and vector need the port of psum at once", fill .. [[
section vector
        memset pa[0:64, :], 1.0  $done++
        halt
section scalar
        nop                      $ack>=1
        activate pb[64:128, :], ta[64:128, :], fn=copy  $done>=1
        halt
]], "trn1")

-- ---- overlap --------------------------------------------------------------------------------

-- The assembler refuses undeclared overlaps; a program made by hand may have them.
case("tiles that share bytes", function()
  local prog = tiles.assemble([[
o1      tile sbuf float32[128, 64], overlay=g
o2      tile sbuf float32[128, 64], overlay=g
section vector
        memset o1, 1.0
        memset o2, 2.0
        tensor_copy tb[:, 0:64], o1
        halt
]], nil, UNUSED)
  local core = soma.core {checks = "overlap"}
  eq(#core:run(prog, tiles.inputs).findings, 0)
end)

case("a race that is found last is told first, however much was found before", function()
  local lines = {[[
ta2 tile sbuf float32[128, 512]
section sync
        dma_copy tc, a, queue=q $loaded
        halt
section vector]]}
  for i = 0, 99 do
    lines[#lines + 1] = ("        tensor_copy tb[:, %d:%d], ta2[:, %d:%d]"):format(i, i + 1, i, i + 1)
  end
  lines[#lines + 1] = "        tensor_copy tb, tc\n        halt\n"
  local core = soma.core {checks = "uninit,race"}
  local r = core:run(tiles.assemble(table.concat(lines, "\n")), tiles.inputs, {faults = "return"})
  eq(#r.findings, 64)
  eq(r.findings[1].check, "race")
  eq(tostring(r.fault):find("(the first of 101 findings)", 1, true) ~= nil, true)
end)

-- ---- range, port ----------------------------------------------------------------------------

both("an input outside a function's range", "range",
  "section vector\n memset tb, 4.0 $ack++\n halt\nsection scalar\n activate ta, tb, fn=sin $ack>=1\n halt\n",
  "sin of 4 (element [0, 0] of tile tb)",
  "section vector\n memset tb, 3.0 $ack++\n halt\nsection scalar\n activate ta, tb, fn=sin $ack>=1\n halt\n")

both("the range is that of what the function gets", "range",
  "section vector\n memset tb, 3.0 $ack++\n halt\nsection scalar\n activate ta, tb, fn=sin, scale=2.0 $ack>=1\n halt\n",
  "sin of 6",
  "section vector\n memset tb, 4.0 $ack++\n halt\nsection scalar\n activate ta, tb, fn=sin, scale=0.5 $ack>=1\n halt\n")

both("a new infinity", "range",
  "section vector\n memset tb, 1e30\n tensor_tensor ta, tb, tb, op=mult\n halt\n",
  "the result has an infinity, and no operand had one",
  "section vector\n memset tb, 1e19\n tensor_tensor ta, tb, tb, op=mult\n halt\n")

both("a new NaN", "range",
  "section vector\n memset tb, inf\n tensor_tensor ta, tb, tb, op=subtract\n halt\n",
  "the result has a NaN, and no operand had one",
  "section vector\n memset tb, inf\n tensor_tensor ta, tb, tb, op=max\n halt\n")

both("a port that two engines need", "port", [[
section vector
        memset ta, 1.0
        halt
section gpsimd
        memset tb, 1.0
        halt
]], "need the port of sbuf at once", [[
section vector
        memset ta, 1.0 $ack++
        halt
section gpsimd
        memset tb, 1.0 $ack>=1
        halt
]], "trn1")

-- ---- Findings as such -----------------------------------------------------------------------

case("a pair of places is reported once, and outputs are there all the same", function()
  local list, run = findings("race", [[
section sync
        mov r0, 0
.next:  dma_copy ta, a, queue=q $loaded
        add r0, r0, 1
        blt r0, 20, .next
        dma_copy c, a, queue=q $done
        halt
section vector
        mov r0, 0
.next:  tensor_copy tb, ta $loaded>=1
        add r0, r0, 1
        blt r0, 20, .next
        halt
]])
  eq(#list, 1) -- the read after a write, and the write after a read, are one pair
  eq(list[1].check, "race")
  eq(list[1].file, "p.s")
  eq(run.fault.kind, "check")
  eq(soma.equal(run.out.c, a), true)
end)

case("checks change neither results nor time", function()
  local prog = soma.assemble_file("samples/vector_add.s", {defines = {N = 2 ^ 17 | 0}})
  local v = soma.randn({2 ^ 17 | 0}, "float32", {seed = 2})
  local plain = soma.core {}:run(prog, {a = v, b = v})
  local run = soma.core {checks = "all"}:run(prog, {a = v, b = v})
  eq(run.stats.trace_hash, plain.stats.trace_hash)
  eq(soma.equal(run.out.c, plain.out.c), true)
end)

case("a schedule changes the time, not the bits of a right program", function()
  local prog = soma.assemble_file("samples/vector_add.s", {defines = {N = 2 ^ 17 | 0}})
  local v = soma.randn({2 ^ 17 | 0}, "float32", {seed = 2})
  local plain, times = soma.core {}:run(prog, {a = v, b = v}), {}
  for seed = 1, 6 do
    local run = soma.core {checks = "all", schedule = seed}:run(prog, {a = v, b = v})
    eq(soma.equal(run.out.c, plain.out.c), true)
    times[run.time_ns] = true
    eq(soma.core {schedule = seed}:run(prog, {a = v, b = v}).time_ns, run.time_ns)
  end
  local n = 0
  for _ in pairs(times) do n = n + 1 end
  eq(n, 6)
end)

case("what an earlier run of the machine has written counts for nothing", function()
  local core = soma.core {checks = "uninit", max_instructions = 100000}
  local writes = tiles.assemble("section vector\n memset ta, 1.0\n memset pa, 1.0\n halt\n", nil, UNUSED)
  local reads = tiles.assemble("section vector\n tensor_copy tb, ta\n tensor_copy tb, pa\n tensor_copy ta, tb\n halt\n", nil, UNUSED)
  local list = core:run(reads, tiles.inputs, {faults = "return"}).findings
  eq(#list, 2)
  for _, ends in ipairs {true, false} do -- also where the host writes after the end
    local run = core:run(writes, tiles.inputs)
    if ends then run = nil end
    collectgarbage()
    core.sbuf:write({partition = 0, offset = 8192}, tiles.inputs.a)
    run = nil
    collectgarbage()
    local again = core:run(reads, tiles.inputs, {faults = "return"}).findings
    eq(#again, #list)
    for i, f in ipairs(list) do eq(again[i].text, f.text) end
  end
end)

harness.finish()
