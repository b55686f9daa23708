-- Snapshots of a run whose tensors in HBM are large: what has changed since is copied, and nothing else,
-- whoever has written it, and wherever the run then goes.
local soma = require "soma"
local t = require "harness"

-- x, y, s and z take four pieces of 64 KiB each. Written by transfers from SBUF and within HBM, by rows
-- that an index chooses, by a sum in memory, and by a register.
local prog = soma.assemble([[
        target  trn2
x       tensor  float32[256, 256], input
y       tensor  float32[256, 256], output
s       tensor  float32[256, 256], temp
z       tensor  float32[256, 256], output
i       tensor  int32[128, 1], input
t       tile    sbuf float32[128, 256]
it      tile    sbuf int32[128, 1]
loaded  sem
moved   sem
ready   sem
q       queue   dge=swdge
section gpsimd
        dma_copy  it, i, queue=q                        $ready
        dma_copy  t, x[0:128], queue=q                  $ready
        mov       r0, 0
        mov       r1, 0
again:  nop                                             $ready>=32
        dma_copy  y[r0:+64], t[0:64], queue=q           $moved
        add       r1, r1, 16
        nop                                             $moved>=r1
        dma_copy  z[r0:+32], y[r0:+32], queue=q         $moved
        add       r1, r1, 16
        nop                                             $moved>=r1
        dma_copy  s[0:128].gather(it), t, queue=q       $moved
        add       r1, r1, 16
        nop                                             $moved>=r1
        dma_copy  s[r0:+64], t[64:128], op=add, queue=q $moved
        add       r1, r1, 16
        nop                                             $moved>=r1
        tensor_store z[r0, 3], r1
        add       r0, r0, 64
        blt       r0, 256, again
        dma_copy  y, s, queue=q                         $moved
        add       r1, r1, 16
        nop                                             $moved>=r1
        halt
]], {name = "rows.s"})

local x = soma.randn({256, 256}, "float32", {seed = 3})
local rows = {}
for k = 0, 127 do rows[k + 1] = {(k * 37) % 256} end
local i = soma.tensor(rows, "int32")

local function start(options, how)
  local core = soma.core(options or {})
  return core:start(prog, {x = x, i = i}, how), core
end
local names = {"x", "y", "s", "z"}
local function contents(run)
  local c = {run.stats.trace_hash, run.stats.instructions}
  for k, name in ipairs(names) do c[2 + k] = run:fetch(name):bytes() end
  return c
end

-- The run has these contents: the names of what differs are in the message.
local function has(run, want)
  local now, differ = contents(run), {}
  for k, v in ipairs(want) do
    if now[k] ~= v then differ[#differ + 1] = ({"hash", "instructions", table.unpack(names)})[k] end
  end
  t.eq(table.concat(differ, ", "), "")
end

local plain = start():continue()
local STEPS = 12

-- Moments of a run: {its snapshot, its contents}, each snapshot shared with the one before.
local function moments(run)
  local list = {{run:snapshot(), contents(run)}}
  for k = 1, STEPS - 1 do
    run:until_time(k * plain.time_ns / STEPS)
    list[k + 1] = {run:snapshot(list[k][1]), contents(run)}
  end
  return list
end

t.case("the program changes all its tensors, at different times", function()
  local list, changes = moments(start()), {}
  for k = 2, #list do
    for n = 1, #names do
      if list[k][2][2 + n] ~= list[k - 1][2][2 + n] then changes[n] = (changes[n] or 0) + 1 end
    end
  end
  t.eq(changes[1], nil)
  for n = 2, 4 do t.eq(changes[n] >= 3, true) end
end)

-- From any moment to any other: 5 and 12 have no common divisor, so that each is come to.
local function wander(run, list)
  for n = 0, STEPS + 2 do
    local m = list[(n * 5) % STEPS + 1]
    run:restore(m[1])
    has(run, m[2])
    if n % 3 == 0 then run:until_time(run.time_ns + plain.time_ns / STEPS * (n % 7)) end
  end
  run:restore(list[3][1]):continue()
  has(run, contents(plain))
end

t.case("back and forth between moments", function()
  local run = start()
  wander(run, moments(run))
  local placed = start({}, {in_place = true})
  wander(placed, moments(placed))
  local careful = start({checks = "all"}, {faults = "return"})
  wander(careful, moments(careful))
  t.eq(#careful.findings > 0, true)
  t.same_findings(careful, start({checks = "all"}, {faults = "return"}):continue())
end)

t.case("a snapshot after going back shares with an earlier one, and with later ones", function()
  local run = start()
  local list = moments(run)
  for n = 1, STEPS do
    local m = list[(n * 7) % STEPS + 1]
    run:restore(m[1])
    run:until_time(run.time_ns + plain.time_ns / STEPS / 2)
    local now = contents(run)
    local kept = run:snapshot(list[(n * 11) % STEPS + 1][1])
    run:continue()
    run:restore(kept)
    has(run, now)
    kept:close()
  end
  wander(run, list)
end)

t.case("snapshots in another run of the program, whose tensors have other bytes", function()
  local run = start()
  local list = moments(run)
  local core = soma.core {}
  local other = core:start(prog, {x = soma.ones({256, 256}, "float32"), i = i})
  other:snapshot():close()
  other:until_time(plain.time_ns * 0.8)
  wander(other, list)
end)

t.case("back from the end, with outputs that their owner has changed since", function()
  local run = start()
  local list = moments(run)
  run:continue()
  run.out.y:fill(7)
  local ended = run:snapshot(list[STEPS][1])
  local mine = run.out.y
  wander(run, list)
  t.eq(mine:get(5, 5), 7.0)
  run:restore(ended)
  t.eq(run.ended, true)
  run:restore(list[1][1])
  run:restore(ended)
  t.eq(run:fetch("y"):get(5, 5), 7.0)
end)

t.case("what has not changed takes no memory once more", function()
  local run = start()
  run:until_time(plain.time_ns / 2)
  local first = run:snapshot()
  local alone = first.bytes
  local second = run:snapshot(first)
  t.eq(second.bytes < alone * 0.6, true)
  t.eq(first.bytes, second.bytes)
  first:close()
  t.eq(second.bytes, alone)
  run:continue():restore(second)
  second:close()
  run:continue()
  has(run, contents(plain))
end)

t.case("first dimensions that the run gives: back to another size", function()
  local sized = soma.assemble([[
        target  trn2
x       tensor  float32[r10 <= 512, 256], input
y       tensor  float32[r10 <= 512, 256], output
done    sem
q       queue   dge=hwdge
section sync
        dma_copy  y, x, queue=q        $done
        nop                            $done>=16
        halt
]], {name = "sized.s"})
  local core = soma.core {}
  local large, small = soma.ones({512, 256}, "float32"), soma.full({100, 256}, 2)
  local run = core:start(sized, {x = large})
  local kept = run:snapshot()
  run:continue()
  run = core:start(sized, {x = small})
  run:continue():restore(kept)
  t.eq(soma.equal(run:continue().out.y, large), true)
end)

t.finish()
