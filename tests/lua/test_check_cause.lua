-- One cause, one finding: what the first finding says to do is done to the source, and the run is clean.
local soma = require "soma"
local harness = require "harness"
local source = require "mutants.source"
local mutate = require "mutants.mutate"
local fixes = require "fix_apply"
local case, eq = harness.case, harness.eq

local function lines_of(text)
  local t = {}
  for l in text:gmatch "[^\n]+" do t[#t + 1] = l end
  return t
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
    local again = run(assert(fixes.apply(broken, r.findings)), inputs)
    eq(again.fault and tostring(again.fault), nil)
  end)
end

-- ---- Samples and kernels --------------------------------------------------------------------

local subjects = {}
for _, s in ipairs(require "mutants.subjects"()) do
  subjects[s.name] = {text = s.text:gsub("%%line[^\n]*\n", ""), inputs = s.inputs}
end

-- The program of a mutant, by its kind and place.
local function broken(name, kind, at)
  for _, m in ipairs(mutate.mutants(source.parse(subjects[name].text))) do
    if m.kind == kind and m.at == at then return m.text, subjects[name].inputs end
  end
  error("no mutant " .. at)
end

local function cures(name, subject, kind, at, fix)
  local text, inputs = broken(subject, kind, at)
  cured(name, text, inputs, fix)
end

cures("softmax: no wait for the maximum", "samples/softmax", "drop wait", "scalar 6",
  "fix: scalar must wait for $maxed1 >= 1 before p.s:52, and for 1 more in each round")
cures("softmax: no wait for the sum", "samples/softmax", "drop wait", "vector 8",
  "fix: vector must wait for $summed1 >= 1 before p.s:36, and for 1 more in each round")
cures("tiled matmul: a strip of the left side is loaded over one that is multiplied", "samples/matmul", "drop wait", "sync 9",
  "fix: p.s:89 overwrites too early what p.s:32 reads: sync must wait for $used0 >= 1 before p.s:89")
cures("tiled matmul: a sum overwritten before it is copied", "samples/matmul", "drop wait", "tensor 5",
  "fix: p.s:33 overwrites too early what p.s:56 reads: tensor must wait for $copied0 >= 1 before p.s:33")
cures("rmsnorm: a wait for the load, short by one", "kernels/rmsnorm on trn2", "lower wait", "scalar 0 by 1",
  "fix: scalar must wait for $full >= 16 before p.s:")
cures("rmsnorm: a wait for the root, short by one", "kernels/rmsnorm on trn2", "lower wait", "vector 2 by 1",
  "fix: vector must wait for $root >= 1 before p.s:")

-- ---- A softmax whose semaphores are taken ----------------------------------------------------

local function replace(text, what, by)
  local at, last = text:find(what, 1, true)
  assert(at, what)
  return text:sub(1, at - 1) .. by .. text:sub(last + 1)
end

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
case("a wait for the load, short by one", function()
  local text = replace(softmax, "$loaded>=16 $loaded-=16", "$loaded>=15 $loaded-=15")
  local fix = run(text, rows).findings[1].text:match "fix: ([^\n]*)"
  eq(fix, "vector must wait for $loaded >= 16 before p.s:27; it waits for 15 at p.s:26. One way: " ..
    "event_semaphore $loaded>=16 $loaded-=16")
  local lines = lines_of(text) -- the way in place of the wait that is there
  lines[26] = " " .. fix:match "One way: (.*)"
  eq(run(table.concat(lines, "\n") .. "\n", rows).fault, nil)
end)

case("fp32 with bf16 in one nc_matmul", function()
  harness.raises("moving is bfloat16, stationary is float32: a 32-bit type needs another on the other side", soma.assemble, [[
        target trn2
ta      tile   sbuf float32[128, 512]
x       tile   sbuf bfloat16[128, 512]
pa      tile   psum float32[128, 512]
section tensor
        nc_matmul pa, ta[:, 0:128], x, acc=write
        halt
]])
end)

harness.finish()
