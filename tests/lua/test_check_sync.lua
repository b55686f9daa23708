-- Checks on correct but unusual synchronisation, each with a broken twin; and what mutation of the
-- samples has taught.
local soma = require "soma"
local harness = require "harness"
local case, eq = harness.case, harness.eq

local tiles = require "check_tiles"

local function run(body, target, seed)
  local prog = tiles.assemble(body, target)
  local options = {checks = "uninit,race,psum,overlap,range", max_instructions = 100000, schedule = seed}
  local r = soma.core(options):run(prog, tiles.inputs, {faults = "return"})
  if seed == 0 then harness.same_findings(r, harness.in_parts(options, prog, tiles.inputs)) end
  return r
end

-- good: clean and with the same bits under eight schedules. bad: `text` is in a finding.
local function both(name, good, text, bad, target)
  case(name, function()
    local want
    for seed = 0, 8 do
      local r = run(good, target, seed)
      eq(r.fault and tostring(r.fault), nil)
      want = want or r.out.c:bytes()
      eq(r.out.c:bytes() == want, true, "the bits under schedule " .. seed)
    end
  end)
  case(name .. ", broken", function()
    local r = run(bad, target, 0)
    eq(r.fault ~= nil, true, "a fault")
    local all = {}
    for _, f in ipairs(r.findings) do all[#all + 1] = f.text end
    all = table.concat(all, "\n")
    eq(all:find(text, 1, true) and text or all .. tostring(r.fault), text)
  end)
end

-- ---- Taught by mutants ----------------------------------------------------------------------

-- A source that another engine overwrites while the instruction is under way is copied first: the
-- copy lies in no memory.
case("a source in PSUM that is copied", function()
  local r = run([[
section tensor
        ldweights w         $loaded>=1
        matmul pa, x, acc=write $done++
        matmul pa, x, acc=write
        halt
section vector
        memset w, 1.0
        memset x, 1.0       $loaded++
        tensor_copy tb, pa  $done>=1
        halt
]])
  eq(r.fault.kind, "check")
end)

both("bytes that nobody wrote, in a source that is copied", [[
section vector
        memset ta, 1.0
        tensor_copy tb, ta  $done++@read
        halt
section gpsimd
        memset ta, 2.0      $done>=1
        halt
]], "uninit: vector reads bytes that nothing has written", [[
section vector
        tensor_copy tb, ta  $done++@read
        halt
section gpsimd
        memset ta, 2.0      $done>=1
        halt
]])

local operands = "section vector\n memset w, 1.0\n memset x, 1.0 $ack++\n"
for _, target in ipairs {"trn2", "trn3"} do
  both("accumulation where nothing is, on " .. target, operands .. [[
        halt
section tensor
        ldweights w         $ack>=1
        matmul pa, x, acc=write
        matmul pa, x, acc=add
        halt
]], "a matmul accumulates where no matmul has started a group", operands .. [[
        halt
section tensor
        ldweights w         $ack>=1
        matmul pa, x, acc=add
        halt
]], target)
end

both("accumulation onto what vector wrote, from trn3 on", operands .. [[
        memset pa, 1.0      $go++
        halt
section tensor
        ldweights w         $ack>=1
        matmul pa, x, acc=add $go>=1
        halt
]], "nothing orders the two", operands .. [[
        memset pa, 1.0      $go++
        halt
section tensor
        ldweights w         $ack>=1
        matmul pa, x, acc=add
        halt
]], "trn3")

-- A slot of four bytes holds two elements of bfloat16; only one of the last is written.
both("an odd number of bfloat16 sums, on trn3", "pc tile psum bfloat16[128, 33]\n" .. operands .. [[
        halt
section tensor
        ldweights w         $ack>=1
        matmul pc, x[:, 0:33], acc=write
        matmul pc, x[:, 0:33], acc=add
        halt
]], "a matmul accumulates where no matmul has started a group", "pc tile psum bfloat16[128, 33]\n" .. operands .. [[
        halt
section tensor
        ldweights w         $ack>=1
        matmul pc, x[:, 0:33], acc=write
        matmul pc[:, 0:32], x[:, 0:32], acc=add
        matmul pb[:, 0:33], x[:, 0:33], acc=add
        halt
]], "trn3")

both("an even number of bfloat16 sums, on trn3", "pc tile psum bfloat16[128, 64]\n" .. operands .. [[
        halt
section tensor
        ldweights w         $ack>=1
        matmul pc[:, 0:62], x[:, 0:62], acc=write
        matmul pc[:, 62:64], x[:, 0:2], acc=write
        matmul pc, x[:, 0:64], acc=add
        matmul pc[:, 1:33], x[:, 0:32], acc=add
        halt
]], "a matmul accumulates where no matmul has started a group", "pc tile psum bfloat16[128, 64]\n" .. operands .. [[
        halt
section tensor
        ldweights w         $ack>=1
        matmul pc[:, 0:62], x[:, 0:62], acc=write
        matmul pc[:, 63:64], x[:, 0:1], acc=write
        matmul pc, x[:, 0:64], acc=add
        halt
]], "trn3")

-- ---- Unusual, and right ---------------------------------------------------------------------

both("credits: a taker decrements what it takes", [[
section gpsimd
        mov r0, 0
.next:  event_semaphore $go>=1 $go--
        memset tb, 3.0      $done++
        add r0, r0, 1
        blt r0, 3, .next
        halt
section scalar
        mov r0, 0
        nop                 $go+=1
.next:  event_semaphore $done>=1 $done--
        activate tc, tb, fn=copy  $go++
        add r0, r0, 1
        blt r0, 3, .next
        halt
]], "nothing orders the two", [[
section gpsimd
        mov r0, 0
.next:  event_semaphore $go>=1 $go--
        memset tb, 3.0      $done++
        add r0, r0, 1
        blt r0, 3, .next
        halt
section scalar
        mov r0, 0
        nop                 $go+=2
.next:  event_semaphore $done>=1 $done--
        activate tc, tb, fn=copy  $go++
        add r0, r0, 1
        blt r0, 3, .next
        halt
]])

both("a flag that is written", [[
section vector
        memset tb, 1.0
        drain
        event_semaphore $go=7
        halt
section scalar
        activate tc, tb, fn=copy  $go>=7
        halt
]], "nothing orders the two", [[
section vector
        memset tb, 1.0
        event_semaphore $go=7
        halt
section scalar
        activate tc, tb, fn=copy  $go>=7
        halt
]])

both("a wait for <= of a count that falls", [[
section sync
        nop                 $go+=2
        nop                 $ack+=1
        halt
section vector
        memset tb, 1.0      $ack>=1 $go--
        halt
section gpsimd
        memset tc, 1.0      $ack>=1 $go--
        halt
section scalar
        nop                 $ack>=1
        nop                 $go<=0
        activate ta, tb, fn=copy
        activate ta, tc, fn=copy
        halt
]], "nothing orders the two", [[
section sync
        nop                 $go+=2
        nop                 $ack+=1
        halt
section vector
        memset tb, 1.0      $ack>=1 $go--
        halt
section gpsimd
        memset tc, 1.0      $ack>=1 $go--
        halt
section scalar
        nop                 $ack>=1
        nop                 $go<=1
        activate ta, tb, fn=copy
        activate ta, tc, fn=copy
        halt
]])

both("== with an answer", [[
section vector
        memset tb, 1.0      $go++
        memset tc, 2.0      $ack>=1 $go++
        halt
section scalar
        activate ta, tb, fn=copy  $go==1
        nop                 $ack++
        activate ta, tc, fn=copy  $go==2
        halt
]], "which only the timing satisfied", [[
section vector
        memset tb, 1.0      $go++
        memset tc, 2.0      $go++
        halt
section scalar
        activate ta, tb, fn=copy  $go==1
        nop                 $ack++
        activate ta, tc, fn=copy  $go==2
        halt
]])

both("a buffer that @read gives back", [[
section vector
        memset tb, 1.0      $go++
        memset tb, 2.0      $ack>=1 $go++
        halt
section scalar
        activate tc, tb, fn=copy  $go>=1 $ack++@read
        activate ta, tb, fn=copy  $go>=2
        halt
]], "nothing orders the two", [[
section vector
        memset tb, 1.0      $go++
        memset tb, 2.0      $ack>=1 $go++
        halt
section scalar
        nop                 $go>=1 $ack++
        activate tc, tb, fn=copy
        activate ta, tb, fn=copy  $go>=2
        halt
]])

both("drain before a transfer", [[
section gpsimd
        memset tb, 1.0
        drain
        dma_copy c, tb, queue=qs $done
        halt
]], "gpsimd must drain", [[
section gpsimd
        memset tb, 1.0
        dma_copy c, tb, queue=qs $done
        halt
]])

both("two engines trigger one static queue", [[
qt      queue rings=16, dge=none
dma     qt, ta, a
dma     qt, c, ta
section sync
        dma_trigger qt, 1   $loaded
        halt
section scalar
        nop                 $loaded>=16
        dma_trigger qt, 1   $done
        halt
]], "sync and scalar trigger queue qt, and nothing orders the two", [[
qt      queue rings=16, dge=none
dma     qt, ta, a
dma     qt, c, ta
section sync
        dma_trigger qt, 1   $loaded
        halt
section scalar
        dma_trigger qt, 1   $done
        halt
]])

both("a chain over three engines", [[
section vector
        memset tb, 1.0      $go++
        halt
section gpsimd
        memset tc, 1.0      $go>=1 $ack++
        halt
section scalar
        activate ta, tb, fn=copy  $ack>=1 $done++
        halt
section sync
        dma_copy c, ta, queue=q   $done>=1 $loaded
        halt
]], "nothing orders the two", [[
section vector
        memset tb, 1.0      $go++
        halt
section gpsimd
        memset tc, 1.0      $ack++
        nop                 $go>=1
        halt
section scalar
        activate ta, tb, fn=copy  $ack>=1 $done++
        halt
section sync
        dma_copy c, ta, queue=q   $done>=1 $loaded
        halt
]])

both("a barrier that clears its semaphores", [[
section vector
        memset tb, 1.0      $done++
        nop                 $go>=1
        memset tb, 2.0      $done++
        halt
section scalar
        activate tc, tb, fn=copy  $done>=1
        drain
        nop                 $ack++
        nop                 $loaded>=1
        activate ta, tb, fn=copy  $done>=1
        halt
section sync
        nop                 $ack>=1
        sem_range_clear 1, 2
        nop                 $go++
        nop                 $loaded++
        halt
]], "race", [[
section vector
        memset tb, 1.0      $done++
        nop                 $go>=1
        memset tb, 2.0      $done++
        halt
section scalar
        activate tc, tb, fn=copy  $done>=1
        nop                 $ack++
        drain
        nop                 $loaded>=1
        activate ta, tb, fn=copy  $done>=1
        halt
section sync
        nop                 $ack>=1
        sem_range_clear 1, 2
        nop                 $go++
        nop                 $loaded++
        halt
]])

both("a mutex that event_semaphore takes", [[
section sync
        nop                 $go++
        halt
section vector
        event_semaphore     $go>=1 $go--
        memset tb, 1.0      $go++
        halt
section gpsimd
        event_semaphore     $go>=1 $go--
        memset tb, 1.0      $go++
        halt
]], "nothing orders the two", [[
section sync
        nop                 $go+=2
        halt
section vector
        event_semaphore     $go>=1 $go--
        memset tb, 1.0      $go++
        halt
section gpsimd
        event_semaphore     $go>=1 $go--
        memset tb, 1.0      $go++
        halt
]])

harness.finish()
