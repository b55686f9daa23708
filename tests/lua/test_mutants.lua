-- The tool of `make mutants`: its reading of programs, its mutations, and each rule by which a mutant
-- counts as equivalent, with a near miss.
local soma = require "soma"
local harness = require "harness"
local source = require "mutants.source"
local mutate = require "mutants.mutate"
local order = require "mutants.order"
local equal = require "mutants.equal"
local trial = require "mutants.trial"
local eq = harness.eq
local function case(name, f, ...)
  local args = table.pack(...)
  harness.case(name, function() f(table.unpack(args, 1, args.n)) end)
end

local head = [[
        target trn2
x       tensor float32[128, 16], input
y       tensor float32[128, 16], output
ta      tile   sbuf float32[128, 16]
tb      tile   sbuf float32[128, 16]
tc      tile   sbuf float32[128, 16]
w       tile   sbuf bfloat16[128, 128]
v       tile   sbuf bfloat16[128, 16]
p       tile   psum float32[128, 16]
full    sem
made    sem
out     sem
q       queue  rings=16, dge=hwdge
]]
local function subject(body)
  return {name = "s", text = soma.assemble(head .. body, {name = "s"}):source(),
    inputs = {x = soma.randn({128, 16}, "float32", {seed = 1})}}
end

-- Mutants of one kind, by place.
local function mutants(s, kind)
  local list = {}
  for _, m in ipairs(mutate.mutants(source.parse(s.text))) do
    if m.kind == kind then list[m.at] = m end
  end
  return list
end

local function rule(body, kind, at, want)
  local s = subject(body)
  local m = assert(mutants(s, kind)[at], "no mutant " .. at)
  eq(equal.rule(m, s), want)
  if want then
    eq(trial.kill(m, assert(trial.base(s)), s.inputs), nil)
  else
    eq(trial.kill(m, assert(trial.base(s)), s.inputs) ~= nil, true, "it is killed")
  end
end

-- equivalent: the rule holds of the mutant of `good`, and nothing kills it. A near miss: no rule
-- holds, and it is killed.
local function both(name, good, kind, at, want, bad)
  case(name, rule, good, kind, at, want)
  case(name .. ", near miss", rule, bad, kind, at, nil)
end
-- ---- Programs as text -----------------------------------------------------------------------

local copy = [[
section sync
        dma_copy ta, x, queue=q  $full
        dma_copy y, tb, queue=q  $made>=1 $out
        halt
section vector
        tensor_copy tb, ta       $full>=16 $made++
        halt
]]

case("clauses", function()
  local p = source.parse(subject(copy).text)
  local found = {}
  for _, l in ipairs(p.lines) do
    if type(l) == "table" and l.wait then
      found[#found + 1] = l.section .. l.pc .. l.wait.sem .. l.wait.cond .. l.wait.value .. l.update.sem .. l.update.text
    end
  end
  table.sort(found)
  eq(found, {"sync1made>=1out", "vector0full>=16made++"})
  eq(p.sems, {"full", "made", "out"})
  eq(#p.tiles, 6)
end)

case("the text of a program assembles to the same bytes", function()
  local s = subject(copy)
  eq(soma.assemble(source.text(source.parse(s.text)), {name = "s"}):bytes() == soma.assemble(s.text, {name = "s"}):bytes(), true)
end)

case("a tile that is moved", function()
  local s = subject(copy)
  local prog = soma.load(source.move_tile(soma.assemble(s.text, {name = "s"}):bytes(), 2, -64))
  eq(prog:tiles()[2].offset, 0)
  eq(prog:source():find("tensor_copy float32@sbuf[0,128,0,tb][1][16], float32@sbuf[0,128,0,ta]", 1, true) ~= nil, true)
end)

case("mutants of a copy", function()
  local n = {}
  for _, m in ipairs(mutate.mutants(source.parse(subject(copy).text))) do n[m.kind] = (n[m.kind] or 0) + 1 end
  eq({n["drop wait"], n["drop update"], n["lower wait"], n["swap updates"], n["retarget update"],
    n["drop initialisation"]}, {2, 3, 3, 1, 6, 1})
end)

case("a register that a wait compares with", function()
  local s = subject [[
section sync
        mov r1, 16
        dma_copy ta, x, queue=q  $full
        nop                      $full>=r1
        halt
]]
  local lower = mutants(s, "lower wait")
  eq(lower["sync 2 by 1"].text:find("sub r62, r1, 1\n        max r62, r62, 0\n        nop $full>=r62", 1, true) ~= nil, true)
  eq(mutants(s, "lower register")["sync 0 by 16"].text:find("mov r1, 0", 1, true) ~= nil, true)
end)

-- ---- Same order -----------------------------------------------------------------------------

local function two_waits(first)
  return [[
section sync
        dma_copy ta, x, queue=q  $full
        dma_copy y, tb, queue=q  $made>=1 $out
        halt
section vector
        nop                      $full>=]] .. first .. [[

        tensor_copy tb, ta       $full>=16 $made++
        halt
]]
end
both("a wait that another implies", two_waits(16), "drop wait", "vector 1", "same order", two_waits(15))

local function third(wait)
  return [[
section sync
        dma_copy ta, x, queue=q  $full
        halt
section vector
        tensor_copy tb, ta       $full>=16 $made++
        halt
section scalar
        activate tc, tb, fn=copy $made>=1
        tensor_copy tb, ta ]] .. wait .. [[

        drain
        dma_copy y, tb, queue=qs $out
        halt
]]
end
head = head .. "qs      queue  rings=16, dge=hwdge\n"
both("a wait that a chain over another engine implies", third "$full>=16", "drop wait", "scalar 1", "same order", [[
section sync
        dma_copy ta, x, queue=q  $full
        halt
section vector
        memset tb, 1.0           $made++
        halt
section scalar
        activate tc, tb, fn=copy $made>=1
        tensor_copy tb, ta       $full>=16
        drain
        dma_copy y, tb, queue=qs $out
        halt
]])

both("an update that nobody waits for", copy, "drop update", "sync 1", "same order", copy .. [[
section scalar
        nop                      $out>=16
        tensor_copy tc, tb
        halt
]])

local function two_sources(value)
  return [[
section sync
        dma_copy ta, x, queue=q  $full
        halt
section gpsimd
        memset tc, 1.0           $made++
        halt
section vector
        tensor_copy tb, ta       $full>=16 $made++
        halt
section scalar
        nop                      $made>=2
        dma_copy y, tb, queue=qs $made>=]] .. value .. [[ $out
        halt
]]
end
case("a count of two sources is sure of neither alone", function()
  local s = subject(two_sources(1))
  eq(order.conflicts(assert(order.analyse(s.text))) ~= nil, true)
  eq(equal.rule(mutants(s, "lower wait")["scalar 0 by 1"], s), nil)
  eq(equal.rule(mutants(s, "drop wait")["scalar 1"], s), "same order")
end)

-- ---- Dead bytes -----------------------------------------------------------------------------

local function chain(last)
  return [[
section sync
        dma_copy ta, x, queue=q  $full
        halt
section vector
        tensor_copy tb, ta       $full>=16
        tensor_copy tc, ]] .. last .. [[         $made++
        halt
section scalar
        dma_copy y, tc, queue=qs $made>=1 $out
        halt
]]
end
both("a tile whose bytes are dead", chain "tb", "shift tile", "tc onto tb", "dead bytes", [[
section sync
        dma_copy ta, x, queue=q  $full
        halt
section vector
        tensor_copy tb, ta       $full>=16
        tensor_copy tc, ta
        tensor_copy tc, tb       $made++
        halt
section scalar
        dma_copy y, tc, queue=qs $made>=1 $out
        halt
]])

-- ---- Fresh bank -----------------------------------------------------------------------------

local function product(matmuls)
  return [[
section vector
        memset w, 1.0
        memset v, 1.0            $full++
        tensor_copy tb, p        $made>=1 $full++
        tensor_copy tb, p        $made>=2 $full++
        halt
section tensor
        ldweights w              $full>=1
        mov r0, 0
]] .. matmuls .. [[
        halt
section scalar
        dma_copy y, tb, queue=qs $full>=3 $out
        halt
]]
end
local once = "        matmul p, v, acc=write  $made+=2\n"
both("acc=auto in a fresh bank", product(once), "drop first flag", "tensor 2 acc=auto", "fresh bank",
  product ".next: matmul p, v, acc=write  $full>=r0 $made++\n add r0, r0, 2\n blt r0, 4, .next\n")
case("acc=auto after another matmul", rule, product("        matmul p, v, acc=write  $made++\n        matmul p, v, acc=write  $full>=2 $made++\n"), "drop first flag",
  "tensor 3 acc=auto", nil)

harness.finish()
