-- Tensors whose first dimension the host gives when a run starts: `x tensor float32[r10 <= 1024, 64]`.
local soma = require "soma"
local t = require "harness"
local two = require "two_cores"
local case, eq, raises = t.case, t.eq, t.raises

local function data(n, seed) return soma.randn({n, 64}, "float32", {seed = seed or n}) end

-- y = 2 x, in tiles of 128 rows and what is left.
local head = [[
        target  trn2
x       tensor  float32[r10 <= 1024, 64], input
y       tensor  float32[r10 <= 1024, 64], output
t       tile    sbuf float32[128, 64]
in      sem
ready   sem
done    sem
]]
local rounds = [[
        mov     r2, %d
        loop    r0, 0, r10, 128
        sub     r1, r10, r0
        min     r1, r1, 128
%s
        endloop
        halt
]]
local function section(engine, start, body) return "section " .. engine .. "\n" .. rounds:format(start, body) end
local double = head .. "q queue dge=hwdge, owner=sync\no queue dge=hwdge, owner=scalar\n" ..
  section("sync", -16, "add r2, r2, 16\ndma_copy t[0:+r1<=128], x[r0:+r1<=128], queue=q $done>=r2 $in\n") ..
  section("vector", 0, "add r2, r2, 16\ntensor_scalar t[0:+r1<=128], t[0:+r1<=128], op0=mult, imm0=2.0 $in>=r2 $ready++\n") ..
  section("scalar", 0, "add r2, r2, 1\ndma_copy y[r0:+r1<=128], t[0:+r1<=128], queue=o $ready>=r2 $done\n")
local doubles = soma.assemble(double, {name = "double.s"})

-- Two engines, a transfer of all there is.
local whole = soma.assemble [[
        target  trn2
x       tensor  float32[r10 <= 1024, 64], input
z       tensor  float32[r10 <= 1024, 64]
y       tensor  float32[r10 <= 1024, 64], output
d       sem
q       queue   dge=hwdge
section sync
        dma_copy z, x, queue=q $d
        dma_copy y, z, queue=q $d>=16 $d
        nop $d>=32
        halt
]]

for _, n in ipairs {1, 100, 128, 129, 1024} do
  case(n .. " rows: the result has them, the checks find nothing", function()
    local x = data(n)
    for _, prog in ipairs {doubles, whole} do
      local core = soma.core {checks = "all"}
      local run = core:run(prog, {x = x})
      eq(run.out.y.shape[1], n)
      eq(soma.equal(run.out.y, prog == doubles and x * 2 or x), true)
      eq(#run.findings, 0)
      eq(core:register("gpsimd", 10), n)
      eq(run:fetch("x").shape[1], n)
    end
  end)
end

case("the file of a program and its text keep it", function()
  local path = t.temp()
  assert(doubles:save(path))
  local again = soma.load(path)
  eq(again:source(), doubles:source())
  eq(soma.assemble(again:source()):source(), doubles:source())
  local x = again:tensors()[1]
  eq(x.rows_register, 10) eq(x.shape[1], 1024)
  eq(soma.equal(soma.core {}:run(again, {x = data(77)}).out.y, data(77) * 2), true)
end)

case("one program runs with one size after another, also on the device", function()
  local core = soma.core {device = "neuron:6"}
  for _, n in ipairs {300, 5, 1024, 5} do
    local x = data(n)
    eq(soma.equal(core:run(doubles, {x = x}).out.y, x * 2), true)
    local run = core:run(doubles, {x = x:to "neuron:6"})
    eq(run.out.y.shape[1], n)
    eq(soma.equal(run.out.y:to "cpu", x * 2), true)
  end
  core:close()
end)

case("what is given must fit: the message has the tensors and the sizes", function()
  local core, x = soma.core {}, data(5)
  local function refused(text, inputs, options, prog)
    raises(text, function() core:run(prog or doubles, inputs, options) end)
  end
  refused("tensor x is float32[r10<=1024, 64], but the data given is float32[1025, 64]", {x = soma.zeros({1025, 64}, "float32")})
  refused("tensor x is float32[r10<=1024, 64], but the data given is float32[5, 63]", {x = soma.zeros({5, 63}, "float32")})
  refused("input tensor x is not bound; it takes float32[r10<=1024, 64]", {})
  refused("input tensor x is not bound; it takes float32[r10<=1024, 64]", {}, {rows = {x = 5}})
  refused("tensors x and y share the first dimension in r10, but x has 5 and y has 6", {x = x}, {rows = {y = 6}})
  refused("tensor x: its data have a first dimension of 5, not 6", {x = x}, {rows = {x = 6}})
  eq(core:run(doubles, {x = x}, {rows = {x = 5}}).out.y.shape[1], 5)
  refused("the program has no tensor z", {x = x}, {rows = {z = 6}})
  refused("tensor y: its first dimension must be 1 to 1024, not 0", {x = x}, {rows = {y = 0}})
  refused("option 'rows' must have whole numbers", {x = x}, {rows = {y = 1.5}})
  refused("option 'rows' must have whole numbers", {x = x}, {rows = {5}})
  refused("option 'rows' must be a table, not number", {x = x}, {rows = 5})
  refused("tensor k, float32[2]: its first dimension is not left to the run", {}, {rows = {k = 1}},
    soma.assemble "k tensor float32[2]\nsection sync\nhalt\n")
  refused("tensor b has a first dimension of at most 8, but tensor a, with the same register r1, is given one of 9", {}, {rows = {a = 9}},
    soma.assemble "a tensor float32[r1 <= 16]\nb tensor float32[r1 <= 8]\nsection sync\nhalt\n")
  refused("tensor b, float32[r2<=8]: nothing says what its first dimension is in this run", {}, {rows = {a = 9}},
    soma.assemble "a tensor float32[r1 <= 16]\nb tensor float32[r2 <= 8], output\nsection sync\nhalt\n")
  eq(soma.equal(core:run(doubles, {x = x}).out.y, x * 2), true) -- nothing of what was refused is left
end)

case("timing alone takes the size that is given", function()
  local function time(n)
    local core = soma.core {timing_only = true}
    return core:run(doubles, {}, {rows = {y = n}}).time_ns
  end
  eq(time(300), soma.core {}:run(doubles, {x = data(300)}).time_ns)
  eq(time(300) < time(600), true)
end)

-- The fault of a body in a section of sync, with 100 rows.
local function fault(body, prog_head)
  local prog = soma.assemble((prog_head or head .. "q queue dge=hwdge\ng queue dge=swdge\ns queue dge=none\ni tile sbuf int32[128, 1]\n") .. body,
                             {name = "f.s"})
  return tostring(soma.core {}:run(prog, {x = data(100)}, {faults = "return"}).fault)
end
local function faults(text, body)
  local got = fault(body)
  eq(got:find(text, 1, true) ~= nil, true, got)
end

case("an access beyond the rows of the run faults, with both", function()
  faults("x[0:128] is rows 0..127; x has rows 0..99", "section sync\ndma_copy t, x[0:128], queue=q\nhalt\n")
  raises("static transfer 0 of queue s: x[0:128] is rows 0..127; x has rows 0..99", fault, "dma s, t, x[0:128]\nsection sync\ndma_trigger s, 1\nhalt\n")
  faults("x[r0:+128] with r0 = 96 is rows 96..223; x has rows 0..99", "section sync\nmov r0, 96\ndma_copy t, x[r0:+128], queue=q\nhalt\n")
  faults("y with r10 = 101 is rows 0..100; y has rows 0..99", "section sync\nmov r10, 101\ndma_copy y, x, queue=q\nhalt\n")
  faults("x[100, 3:4] is row 100; x has rows 0..99", "section sync\ntensor_load r1, x[100, 3]\nhalt\n")
  faults("is bytes 0..32767; x has bytes 0..25599", "section sync\ndma_copy t, x.ap([[32, 256], [1, 32]]), queue=q\nhalt\n")
  faults("is 100: x has 0..99 there",
    "section gpsimd\niota i, pattern=[[1, 1]], multiplier=1\ndrain\ndma_copy t, x[0:128].gather(i), queue=g\nhalt\n")
end)

case("`oob=skip` leaves out what is beyond them", function()
  local prog = soma.assemble(head .. [==[
q queue dge=hwdge
g queue dge=swdge
i tile sbuf int32[128, 1]
z tensor float32[128, 64], output
section gpsimd
        memset  t, 0
        iota    i, pattern=[[1, 1]], multiplier=1   $ready++
        nop     $ready>=1
        dma_copy t, x[0:128].gather(i), queue=g, oob=skip  $in
        nop     $in>=16
        dma_copy z, t, queue=g
        halt
]==])
  local z = soma.core {}:run(prog, {x = data(100)}).out.z
  eq(soma.equal(z:slice {0, 100}, data(100)), true)
  eq(soma.equal(z:slice {100, 128}, soma.zeros({28, 64}, "float32")), true)
end)

case("`output` and `uninit` look at the rows that there are", function()
  local function text(body, outputs)
    local prog = soma.assemble(head .. "q queue dge=hwdge\nw tensor float32[r10 <= 1024, 64]\n" .. body, {name = "f.s"})
    return tostring(soma.core {checks = "all"}:run(prog, {x = data(100)}, {faults = "return"}).fault)
  end
  local function finds(want, body)
    local got = text(body)
    eq(got:find(want, 1, true) ~= nil, true, got)
  end
  finds("tensor y: rows 60..99 were never written", "section sync\ndma_copy y[0:60], x[0:60], queue=q\nhalt\n")
  finds("tensor y: [0, 32] to [0, 63] were never written; 12800 of its 25600 bytes are missing",
    "section sync\ndma_copy y[:, 0:32], x[:, 0:32], queue=q\nhalt\n")
  finds("uninit", "section sync\ndma_copy w[0:99], x[0:99], queue=q $in\ndma_copy y, w, queue=q $in>=16\nhalt\n")
  eq(text "section sync\ndma_copy w, x, queue=q $in\ndma_copy y, w, queue=q $in>=16\nhalt\n", "nil")
end)

case("a saved run, stopped anywhere, goes on with its size; going back keeps it too", function()
  local x, path = data(300), t.temp()
  local want = soma.core {checks = "all"}:run(doubles, {x = x})
  for _, at in ipairs {0.0, 900.0, 2100.0, 4000.0, 1e6} do
    local run = soma.core {checks = "all"}:start(doubles, {x = x})
    run:until_time(at)
    assert(run:save(path))
    local again = soma.core {}:resume(path):continue()
    eq(again.out.y.shape[1], 300)
    eq(soma.equal(again.out.y, want.out.y), true)
    eq(again.stats.trace_hash, want.stats.trace_hash)
  end
  local core = soma.core {}
  local run = core:start(doubles, {x = x})
  run:until_time(900.0)
  local shot = run:snapshot()
  run:continue()
  run:restore(shot)
  eq(core:register("sync", 10), 300)
  eq(soma.equal(run:continue().out.y, x * 2), true)
end)

case("two cores: the register is there on both", function()
  local prog = soma.assemble(two.head("d", "t") .. [[
x tensor float32[r20 <= 256, 64], input
y tensor float32[r20 <= 256, 64], output
section sync core=*
        sub      r1, r20, 0
        shr      r1, r1, 1
        mul      r0, r1, CORE
        dma_copy t[0:+r1<=128], x[r0:+r1<=128], queue=q $d
        nop      $d>=16
        dma_copy y[r0:+r1<=128], t[0:+r1<=128], queue=q $d
        halt
]])
  for _, n in ipairs {2, 90, 256} do
    local run = soma.core {checks = "all"}:run(prog, {x = data(n)})
    eq(soma.equal(run.out.y, data(n)), true)
    eq(#run.findings, 0)
  end
end)

case("the static checks take any size, and say what is wrong for all", function()
  eq(doubles:lint(), nil)
  local text = soma.assemble(head .. "section sync\nhalt\n"):lint()
  eq(text:find("nothing writes the output `y`", 1, true) ~= nil, true, text)
  text = soma.assemble(head .. [[
q queue dge=hwdge
section sync
        mov r0, 1000
        dma_copy t, x[r0:+128], queue=q
        halt
]], {name = "f.s"}):lint()
  eq(text:find("x[r0:+128] with r0 = 1000 is rows 1000..1127; x has rows 0..1023", 1, true) ~= nil, true, text)
end)

case("all schedules: the judges know the sizes", function()
  local run = soma.core {schedule = "all"}:run(doubles, {x = data(200)})
  eq(run.schedules.verdict, "same", run.schedules.text)
end)

t.finish()
