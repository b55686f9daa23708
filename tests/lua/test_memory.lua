-- Memory of tensors and results: whose it is, what is taken when, what is given back.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

-- y = x in the first rows; the others, of 3 MiB, stay zero.
local text = [[
        target  trn2
x       tensor  float32[128, 6], input
y       tensor  float32[1024, 128, 6], output
a       tile    sbuf float32[128, 6]
s       sem
q       queue   dge=hwdge
section sync
        dma_copy  a, x, queue=q   $s
        dma_copy  y[0], a, queue=q   $s>=16 $s
        nop  $s>=32
        halt
]]
local prog = soma.assemble(text)
local x = soma.randn({128, 6}, "float32", {seed = 1})
local want = soma.zeros {1024, 128, 6}
want[0]:assign(x)
local function same(y) assert(y:bytes() == want:bytes(), "the output is another") end

-- From /proc: pages that this process has, and the faults that were served without reading.
local function resident_mib()
  local f <close> = assert(io.open "/proc/self/statm")
  f:read "n"
  return f:read "n" * 4096 / 2 ^ 20
end
local function faults()
  local f <close> = assert(io.open "/proc/self/stat")
  return math.tointeger((f:read "a"):match("%) %a" .. (" %-?%d+"):rep(6) .. " (%d+)"))
end

case("a result is the run's memory, and outlives run and core", function()
  local core = soma.core {}
  local run = core:run(prog, {x = x})
  local y = run.out.y
  same(y)
  y:set(5, 1, 1, 7)
  eq(run:fetch "y":get(5, 1, 1), 7.0)
  y:set(5, 1, 1, 0)
  local row = y[0]
  run:close()
  core:close()
  collectgarbage()
  same(y)
  y, run = nil, nil
  collectgarbage()
  assert(row:bytes() == x:bytes()) -- a view holds the whole
end)

case("results of one core are each their own", function()
  local core, kept = soma.core {}, {}
  for i = 1, 12 do
    kept[i] = core:run(prog, {x = x}).out.y
    kept[i]:set(9, 0, 0, i)
  end
  collectgarbage()
  for i = 1, 12 do
    eq(kept[i]:get(9, 0, 0), i * 1.0)
    kept[i]:set(9, 0, 0, 0)
    same(kept[i])
  end
end)

case("a used block is clear again", function()
  local core = soma.core {}
  for _ = 1, 6 do
    local y = core:run(prog, {x = x}).out.y
    same(y)
    y:fill(0 / 0)
    y = nil
    collectgarbage()
  end
end)

case("a run that an error stopped goes on", function()
  local failing = true
  local core = soma.core {events = function() if failing then error "now" end end}
  local run = core:start(prog, {x = x})
  raises("now", function() run:continue() end)
  failing = false
  run:fetch "y":fill(0 / 0)
  run:continue()
  same(run.out.y)
end)

case("an error in a callback leaves results whole", function()
  local core = soma.core {}
  local y = core:run(prog, {x = x}).out.y
  local bad = soma.core {events = function() error "no" end}
  for _ = 1, 5 do raises("no", function() bad:run(prog, {x = x}) end) end
  bad, core = nil, nil
  collectgarbage()
  same(y)
end)

case("a run that has ended is saved after its result was taken", function()
  local path = t.temp()
  local run = soma.core {}:run(prog, {x = x})
  local y = run.out.y
  assert(run:save(path))
  y:fill(3)
  same(soma.core {}:resume(path):fetch "y")
end)

case("runs in a loop take their memory once", function()
  local core = soma.core {}
  local function some(n)
    local run
    for _ = 1, n do run = core:run(prog, {x = x}) end
    return run
  end
  some(150) -- more than what makes the collector look
  local before, mib = faults(), resident_mib()
  some(150)
  -- A result has 768 pages: without a pool this is 115000 faults.
  local each = (faults() - before) / 150
  assert(each < 200, "a run takes " .. each .. " new pages")
  assert(resident_mib() - mib < 160, "150 results of 3 MiB stay")
end)

case("large results of runs in a loop take turns", function()
  local large = soma.assemble [[
target trn2
y tensor float32[8192, 1024], output
t tile sbuf float32[128, 1024]
s sem
q queue dge=hwdge
section vector
 memset t, 1.0 $s++
 halt
section sync
 loop r0, 0, 8192, 128
 dma_copy y[r0:+128], t, queue=q $s>=1
 endloop
 halt
]]
  collectgarbage()
  local core, before = soma.core {}, resident_mib()
  local run
  for _ = 1, 10 do run = core:run(large) end
  local taken = resident_mib() - before -- a result has 32 MiB: two, and what the machine has
  assert(taken < 90, "ten results of 32 MiB take " .. taken)
  eq(run.out.y:get(8191, 1023), 1.0)
end)

case("zeros touches no page", function()
  local before = resident_mib()
  local z = soma.zeros({512, 1024, 1024}, "uint8")
  assert(resident_mib() - before < 64)
  eq(z:get(511, 1023, 1023), 0)
  z:set(511, 1023, 1023, 9)
  eq(z:get(511, 1023, 1023), 9)
  assert(resident_mib() - before < 64)
end)

case("large tensors that are dropped go", function()
  local before = resident_mib()
  for i = 1, 60 do soma.full({16, 1024, 1024}, i, "uint8") end
  assert(resident_mib() - before < 300, "60 tensors of 16 MiB stay")
end)

case("more than the host has is refused", function()
  raises("not enough memory", function() soma.zeros({1 << 20, 1 << 20, 8}) end)
end)

t.finish()
