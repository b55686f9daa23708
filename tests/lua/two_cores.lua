-- Programs of two cores that several suites run.
local two = {}

-- How most of them begin: a queue q, semaphores and tiles by name, all of both cores; with_xy: an input x
-- and an output y, a half of each for a core.
function two.head(sems, tiles, with_xy)
  local text = "target  trn2\n" .. sems:gsub("%S+ ?", function(n) return n:gsub(" ", "") .. " sem core=*\n" end) .. "q queue dge=hwdge, core=*\n"
  if with_xy then text = text .. "x tensor float32[2, 128, 64], input\ny tensor float32[2, 128, 64], output\n" end
  return text .. tiles:gsub("%S+ ?", function(n) return n:gsub(" ", "") .. " tile sbuf float32[128, 64]\n" end)
end

-- Each core's half of x goes through the other's SBUF.
two.exchange = two.head("ready", "out in", true) .. [[
section sync core=*
        dma_copy  out, x[CORE], queue=q    $ready
        nop                                $ready>=16
        dma_copy  in.peer, out, queue=q    $peer.ready
        dma_copy  y[CORE], in, queue=q     $ready>=32
        halt
]]

-- Two halves of a sum on two cores, and the same on one.
local function halves(head)
  return "target trn2\nq queue dge=hwdge, core=*\ngot sem core=*\nsum sem core=*\n" ..
    "a tensor float32[2, 128, 512], input\nb tensor float32[2, 128, 512], input\n" ..
    "y tensor float32[2, 128, 512], output\nta tile sbuf float32[128, 512]\ntb tile sbuf float32[128, 512]\n" .. head
end
two.sum = halves [[
section sync core=*
        dma_copy  ta, a[CORE], queue=q   $got
        dma_copy  tb, b[CORE], queue=q   $got
        dma_copy  y[CORE], ta, queue=q   $sum>=1
        halt
section vector core=*
        tensor_tensor ta, ta, tb, op=add $got>=32 $sum++
        halt
]]

-- Each core gives its half of x to the other, and adds what it was given.
two.give = two.head("loaded given added", "own other sum", true) .. [[
section sync core=*
        dma_copy own, x[CORE], queue=q    $loaded
        nop                               $loaded>=16
        dma_copy other.peer, own, queue=q $peer.given
        dma_copy y[CORE], sum, queue=q    $added>=1
        halt
section vector core=*
        nop                               $loaded>=16
        tensor_tensor sum, own, other, op=add $given>=16 $added++
        halt
]]

-- A chain: core 0's vector, core 1's, and core 0's again, each after the one before.
two.chain = [[
target  trn2
go      sem     core=*
t       tile    sbuf float32[128, 512]
section vector
        memset  t, 1.0                  $peer.go++
        tensor_tensor t, t, t, op=add   $go>=1
        halt
section vector core=1
        tensor_tensor t, t, t, op=add   $go>=1 $peer.go++
        halt
]]

-- The second half of y is not waited for when the barrier hands it over.
two.barrier = [[
target  trn2
here    sem     core=*
got     sem     core=*
q       queue   dge=hwdge, core=*
both    tensor  float32[128, 64]
t       tile    sbuf float32[64, 64]
u       tile    sbuf float32[128, 64]
made    sem     core=*
section vector core=*
        memset    t, 1.0                                $made++
        halt
section sync core=*
        dma_copy  both[64 * CORE:+64], t, queue=q       $made>=1 $got
        core_barrier here, data=both
        dma_copy  u, both, queue=q
        halt
]]

return two
