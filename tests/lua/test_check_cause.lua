-- One cause, one finding: what the first finding says to do is done, and the run is clean.
local soma = require "soma"
local harness = require "harness"
local bed = require "check_bed"
local case, eq = harness.case, harness.eq

local function lines_of(text)
  local t = {}
  for l in (text .. "\n"):gmatch "(.-)\n" do t[#t + 1] = l end
  return t
end

-- The program with the fix of a finding, whose waits are for numbers: a wait that is there is
-- raised, another one stands in front of the instruction.
local function apply(text, finding)
  local t = lines_of(text)
  local fix = finding:match "fix: ([^\n]*)"
  local sem, value, at = fix:match "must wait for (%$[%w_]+) >= (%d+) before p%.s:(%d+)"
  local there = tonumber(fix:match "it waits for %d+ at p%.s:(%d+)" or fix:match "; it waits for %d+" and at)
  local takes = fix:match "One way: (event_semaphore .*)$"
  if there then
    local line, n = t[there]:gsub(sem:gsub("%$", "%%$") .. ">=[%w]+", sem .. ">=" .. value, 1)
    eq(n, 1, "a wait in line " .. there)
    t[there] = takes and " " .. takes or line
  else
    table.insert(t, assert(tonumber(at), fix), takes or " nop " .. sem .. ">=" .. value)
  end
  return table.concat(t, "\n")
end

local function run(text, inputs)
  local prog = soma.assemble(text, {name = "p.s"})
  return soma.core {checks = "all", max_instructions = 1000000}:run(prog, inputs, {faults = "return"})
end

-- The finding of `broken`: one to three, of which the first says `fix`; applied, all is clean.
local function cured(name, broken, inputs, fix)
  case(name, function()
    local r = run(broken, inputs)
    eq(r.fault ~= nil and r.fault.kind, "check")
    eq(#r.findings >= 1 and #r.findings <= 3, true, #r.findings .. " findings")
    local first = r.findings[1].text
    eq(first:find(fix, 1, true) and fix or first, fix)
    local again = run(apply(broken, first), inputs)
    eq(again.fault and tostring(again.fault), nil)
  end)
end

local function file(name) return assert(io.open(name)):read "a" end
local function replace(text, what, by)
  local at, last = text:find(what, 1, true)
  assert(at, what)
  return text:sub(1, at - 1) .. by .. text:sub(last + 1)
end

-- ---- Kernels --------------------------------------------------------------------------------

local softmax = [[
        target  trn2
ROWS    equ     512
COLS    equ     1024
x       tensor  float32[ROWS, COLS], input
y       tensor  float32[ROWS, COLS], output
t       tile    sbuf float32[128, COLS]
m       tile    sbuf float32[128, 1]
s       tile    sbuf float32[128, 1]
loaded  sem
maxed   sem
exped   sem
scaled  sem
stored  sem
q       queue   dge=hwdge
section sync
        mov r1, 0
        loop    r0, 0, ROWS, 128
        dma_copy t, x[r0:+128], queue=q   $stored>=r1 $loaded
        add     r1, r1, 16
        dma_copy y[r0:+128], t, queue=q   $scaled>=1 $stored
        event_semaphore $scaled>=1 $scaled-=1
        endloop
        halt
section vector
        loop    r0, 0, ROWS, 128
        event_semaphore $loaded>=16 $loaded-=16
        tensor_reduce m, t, op=max, negate=true  $maxed++
        event_semaphore $exped>=1 $exped--
        reciprocal s, s
        tensor_scalar t, t, op0=mult, imm0=s  $scaled++
        endloop
        halt
section scalar
        loop    r0, 0, ROWS, 128
        event_semaphore $maxed>=1 $maxed--
        activation t, t, fn=exp, bias=m, reduce_res=s $exped++
        endloop
        halt
]]
local rows = {x = soma.randn({512, 1024}, "float32", {seed = 1})}
case("the softmax is right", function() eq(run(softmax, rows).fault, nil) end)
cured("a wait for the exponentials that waits for nothing",
  replace(softmax, "event_semaphore $exped>=1 $exped--", "event_semaphore $exped>=0"), rows,
  "fix: vector must wait for $exped >= 1 before p.s:29")
cured("no wait for the exponentials",
  replace(softmax, "        event_semaphore $exped>=1 $exped--\n", ""), rows,
  "fix: vector must wait for $exped >= 1 before p.s:28")
cured("a wait for the load, short by one",
  replace(softmax, "$loaded>=16 $loaded-=16", "$loaded>=15 $loaded-=15"), rows, "vector must wait for $loaded >= 16")

-- ---- Two that look wrong, one that looks right -----------------------------------------------

bed.good("a consumer that comes late to a load that the loader has waited for", [=[
sync: dma_copy ta, a, queue=q $loaded; nop $loaded>=16; dma_copy tb, b, queue=q $loaded;
    nop $loaded>=32; dma_copy c, tb, queue=q
vector: memset tc, 1.0; memset tc, 2.0; memset tc, 3.0; memset tc, 4.0; memset tc, 5.0; memset tc, 6.0;
    memset tc, 1.0; memset tc, 2.0; memset tc, 3.0; memset tc, 4.0; memset tc, 5.0; memset tc, 6.0;
    memset tc, 1.0; memset tc, 2.0; memset tc, 3.0; memset tc, 4.0; memset tc, 5.0; memset tc, 6.0;
    tensor_copy tc, ta $loaded>=16
]=])
bed.good("any one of two updates that both follow the write", [=[
vector: memset ta, 1.0 $done++
gpsimd: nop $done>=1 $go++
scalar: nop $done>=1 $go++
sync: dma_copy c, ta, queue=q $go>=1
]=])
bed.bad("two producers of one semaphore, one always late",
  "fix: sync must wait for $done >= 2 before p.s:36; it waits for 1 at p.s:35, which p.s:32 can bring as well", [=[
vector: memset ta, 1.0 $done++
gpsimd: memset tb, 2.0; memset tb, 2.0; memset tb, 2.0; memset tb, 2.0; memset tb, 2.0; memset tb, 2.0;
    memset tc, 2.0 $done++
sync: nop $done>=1; dma_copy c, ta, queue=q; dma_copy h, tc, queue=q $done>=2
]=])
bed.bad("a load into a buffer that is still read", "p.s:24 overwrites too early what p.s:27 reads: sync must wait for $done >= 1 before p.s:24", [=[
sync: dma_copy ta, a, queue=q $loaded; dma_copy ta, b, queue=q $loaded
vector: tensor_copy tb, ta $loaded>=16 $done++; tensor_copy tc, ta $loaded>=32 $done++
]=])

-- ---- Found now --------------------------------------------------------------------------------

local function finds(name, checks, body, text)
  case(name, function()
    local prog, inputs = bed.assemble(body)
    local r = soma.core {checks = checks, max_instructions = 100000}:run(prog, inputs, {faults = "return"})
    local first = r.findings[1] and r.findings[1].text
    if not text then return eq(first, nil) end
    eq(first and first:find(text, 1, true) and text or first, text)
    harness.same_findings(r, harness.in_parts({checks = checks, max_instructions = 100000}, prog, inputs))
  end)
end

finds("half of an output", "output", [=[
vector: memset ta, 1.0 $done++
sync: dma_copy c[0:64, :], ta[0:64, :], queue=q $done>=1
]=], "output: tensor c: rows 64..127 were never written")
finds("a column of an output", "output", [=[
vector: memset ta, 1.0 $done++
sync: dma_copy c[:, 0:511], ta[:, 0:511], queue=q $done>=1
]=], "output: tensor c: bytes 2044..2047 were never written; 512 of its 262144 bytes are missing")
finds("an output that nothing writes", "output", "vector: memset ta, 1.0",
  "output: tensor c: rows 0..127 were never written; no instruction writes it")
finds("all of an output", "output", [=[
vector: memset ta, 1.0 $done++
sync: dma_copy c, ta, queue=q $done>=1
]=])
finds("accumulators that nothing has reset", "uninit", [=[
vector: dve_read_acc ta[:, 0:1]
]=], "uninit: vector reads its accumulators before anything has reset them")
finds("a reduction onto accumulators that nothing has reset", "uninit", [=[
vector: memset ta, 1.0 $done++
scalar: activate tb, ta, fn=copy, reduce=reduce $done>=1; act_read_acc tc[:, 0:1]
]=], "uninit: scalar adds to its accumulators before anything has reset them")
finds("accumulators that have been reset", "uninit", [=[
vector: memset ta, 1.0 $done++
scalar: activate tb, ta, fn=copy, reduce=reset_reduce $done>=1; act_read_acc tc[:, 0:1]
]=])
finds("a sum in PSUM that nothing reads", "psum", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++
tensor: ldweights w $ack>=1; matmul pa, x, acc=write; matmul pa, x, acc=add; matmul pa, x, acc=write
]=], "psum: a matmul starts a group over one that nothing has read")
finds("a sum in PSUM that is read before the next", "psum", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=1 $go++
tensor: ldweights w $ack>=1; matmul pa, x, acc=write; matmul pa, x, acc=add $done++;
    matmul pa, x, acc=write $go>=1
]=])
local overlay = [=[
o1 tile sbuf float32[128, 64], overlay=g%s
o2 tile sbuf float32[128, 64], overlay=g
vector: memset o1, 1.0; memset o2, 2.0;%s tensor_copy ta[:, 0:64], o1
]=]
finds("a tile of its own that another has overwritten", "overlap", overlay:format(", own", ""),
  "overlap: vector reads bytes that tile o2 has written, through a tile that is `own`")
finds("a tile of its own that is written again", "overlap", overlay:format(", own", " memset o1, 3.0;"))
finds("a tile that need not be its own", "overlap", overlay:format("", ""))
-- Bytes 0..127 of o1 are given away while its last reader is at the others.
local given = [=[
o1 tile sbuf float32[128, 64], overlay=g, own
o2 tile sbuf float32[128, 32], overlay=g, own
m tile sbuf uint32[128, 32]
vector: memset o1, 1.0 $loaded++; memset o2, 2.0; %s
sync: dma_copy c[:, 0:8], o1[:, %s], queue=q $loaded>=1 $go
]=]
for _, checks in ipairs {"overlap", "uninit", "overlap,uninit"} do
  local check = checks:match "uninit" or "overlap"
  finds("bytes given away while the rest is read, " .. checks, checks, given:format("tensor_copy ta[:, 0:32], o1[:, 32:64]", "32:40"))
  finds("bytes that were given away, " .. checks, checks, given:format("tensor_copy ta[:, 0:32], o1[:, 31:63]", "32:40"),
    check .. ": vector reads bytes that tile o2 has written, through a tile that is `own`")
  finds("bytes of it that stay, strided, " .. checks, checks,
    given:format("tensor_tensor ta[:, 0:32], o1[:, 32:64], o2, op=add", "56:64"))
  finds("a transfer of bytes that were given away, " .. checks, checks,
    (given:gsub("$loaded>=1", "$done>=1")):format("nop; tensor_copy ta[:, 0:8], o1[:, 40:48] $done++", "28:36"),
    check .. ": a transfer of queue q reads bytes that tile o2 has written")
  finds("what it chooses from bytes that were given away, " .. checks, checks, given:format(
    "memset m, 1; memset ta[:, 0:32], 0.0; copy_predicated ta[:, 0:32], src=o1[:, 0:32], pred=m", "32:40"),
    check .. ": vector reads bytes that were written through another tile")
end
finds("a tile of its own that nothing has written", "uninit", given:format("nop", "32:40"):gsub("memset o1, 1.0 $loaded", "nop $loaded"),
  "uninit: a transfer of queue q reads bytes that nothing has written since load")
finds("range_select into 16 bits", "range", [=[
d tile sbuf bfloat16[128, 512]
b0 tile sbuf float32[128, 1]
b1 tile sbuf float32[128, 1]
vector: memset ta, 1.0; memset b0, 0.0; memset b1, 4.0; drain;
    range_select d, ta, bound0=b0, bound1=b1, op0=is_ge, op1=is_lt, reduce=reset_reduce; dve_read_acc tc[:, 0:1]
]=])
case("fp32 with bf16 in one nc_matmul", function()
  local ok, message = pcall(bed.assemble, "tensor: nc_matmul pa, ta[:, 0:128], x, acc=write")
  eq(ok, false)
  eq(tostring(message):find("moving is bfloat16, stationary float32: a 32-bit type needs a 32-bit type on both sides", 1, true) ~= nil, true)
end)

harness.finish()
