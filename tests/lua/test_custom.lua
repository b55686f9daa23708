-- core:custom: what a function gets, what its mistakes become, and how long it is kept.
local soma = require "soma"
local t = require "harness"
local case, eq, fails = t.case, t.eq, t.raises

local prog = soma.assemble([[
        target  trn2
x       tensor  float32[4, 8], input
o       tensor  float32[4, 8], output
t       tile    sbuf float32[4, 8]
u       tile    sbuf float32[4, 8]
in      sem
out     sem
q       queue   dge=swdge
section gpsimd
        dma_copy t, x, queue=q                                  $in
        custom_op "f", dsts=[u], srcs=[t], imms=[2.5, 3.0]      $in>=16
        drain
        dma_copy o, u, queue=q                                  $out
        nop     $out>=16
        halt
]], {name = "custom.s"})
local x = soma.randn({4, 8}, "float32", {seed = 1})

local function core_with(f, options)
  local core = soma.core {}
  options = options or {}
  options.fn = f
  core:custom("f", options)
  return core
end
local function fault(f) return core_with(f):run(prog, {x = x}, {faults = "return"}).fault end

case("the name and the lists survive the file, the text and the disassembly", function()
  for _, p in ipairs {soma.load(prog:bytes()), soma.assemble(prog:source())} do
    local r = core_with(function(_, s, k, c) return s * k + c end):run(p, {x = x})
    eq(soma.equal(r.out.o, x * 2.5 + 3), true)
    eq(p:bytes() == prog:bytes() or p:source() == prog:source(), true)
  end
end)
case("what a function gets", function()
  local got
  core_with(function(...) got = {...} end):run(prog, {x = x})
  eq(#got, 4)
  eq(got[1].dtype .. got[1].shape[1] .. got[1].shape[2], "float3248")
  eq(soma.equal(got[2], x), true)
  eq({got[3], got[4]}, {2.5, 3.0})
  got[1]:fill(7) -- a tensor that is kept is a copy
end)
case("stored elements and returned tensors", function()
  local r = core_with(function(d, s) d:assign(s) d:set(1, 1, 5) end):run(prog, {x = x})
  eq(r.out.o:get(1, 1), 5.0)
  eq(r.out.o:get(0, 0), x:get(0, 0))
  r = core_with(function(d) d:fill(1) return nil end):run(prog, {x = x})
  eq(soma.equal(r.out.o, soma.ones {4, 8}), true)
end)
case("an error is a fault at the instruction", function()
  local f = fault(function() error("of its own", 0) end)
  eq(f.kind .. f.file .. f.line .. f.engine .. f.text, 'faultcustom.s11gpsimdcustom_op "f": of its own')
  eq(f.instruction:match "^custom_op \"f\"", 'custom_op "f"')
  fails("of its own", function() core_with(function() error "of its own" end):run(prog, {x = x}) end)
end)
case("errors of every kind", function()
  eq(fault(function() error {} end).text, 'custom_op "f": an error that is a table, not a string')
  eq(fault(function() error(setmetatable({}, {__tostring = function() return "said" end})) end).text,
    'custom_op "f": said')
  local other = core_with(function() error("inside", 0) end)
  eq(fault(function() other:run(prog, {x = x}) end).text:match "custom.s:11: fault:.*inside" ~= nil, true)
  eq(fault(function() error(setmetatable({}, {__tostring = function() error("again", 0) end})) end).text,
    'custom_op "f": again')
  eq(fault(function() error(setmetatable({}, {__tostring = function() return {} end})) end).text,
    "custom_op \"f\": '__tostring' must return a string")
  eq(fault(function() coroutine.yield() end).text:find("yield", 1, true) ~= nil, true)
  eq(fault(function() local function f() return f() + 1 end f() end).text:find("overflow", 1, true) ~= nil, true)
  eq(fault(function() return 1 end).text:match("it returns.*"), "it returns a number for dst0; expected a tensor or nil")
  eq(fault(function(_, s) return s, s end).text, 'custom_op "f": it returns 2 values for 1 destinations')
end)
case("a failed call stores nothing, and the core continues", function()
  local core = core_with(function(d) d:fill(9) error "no" end)
  core:run(prog, {x = x}, {faults = "return"})
  eq(core.sbuf:read("u"):get(0, 0), 0.0)
  core:custom("f", {fn = function(_, s) return s end})
  eq(soma.equal(core:run(prog, {x = x}).out.o, x), true)
end)
case("the machine is out of reach", function()
  local core, run
  local device = soma.core {device = "neuron:7"}
  local there = x:to "neuron:7"
  local tries = {
    function() core:run(prog, {x = x}) end, function() core:close() end, function() core:semaphore(0) end,
    function() core.sbuf:read "t" end, function() core:custom("g", {fn = print}) end, function() run:step "sync" end,
    function() run:fetch "x" end, function() run:close() end,
  }
  for i, f in ipairs(tries) do
    core = soma.core {}
    local ok, why
    core:custom("f", {fn = function(_, s) ok, why = pcall(f) return s end})
    run = core:start(prog, {x = x})
    run:continue()
    eq({i, ok}, {i, false})
    eq(soma.equal(run.out.o, x), true)
  end
  device:custom("f", {fn = function() there:to "cpu" end})
  fails("custom operator is being called", function() device:run(prog, {x = there}) end)
  device:close()
end)
case("another core may run inside", function()
  local other = core_with(function(_, s) return s + 1 end)
  local r = core_with(function(_, s) return other:run(prog, {x = s}).out.o * 2 end):run(prog, {x = x})
  eq(soma.equal(r.out.o, (x + 1) * 2), true)
end)
case("declared operands and cost", function()
  local one = function(_, s) return s end
  fails('takes 2 srcs, not 1', function() core_with(one, {srcs = 2}):run(prog, {x = x}) end)
  fails('does not take float32 as dst0', function() core_with(one, {dsts = {"bfloat16"}}):run(prog, {x = x}) end)
  core_with(one, {dsts = {"any"}, srcs = {{"int8", "float32"}}, imms = 2}):run(prog, {x = x})
  local free = core_with(one):run(prog, {x = x}).time_ns
  -- 1.2 GHz: 1200 cycles are a microsecond; eight elements per partition.
  local slow = core_with(one, {cycles = 1000, cycles_per_element = 25}):run(prog, {x = x}).time_ns
  eq(math.abs(slow - free - 1000) < 1, true)
end)
case("wrong arguments", function()
  local core = soma.core {}
  local f = function() end
  fails("must be a function", function() core:custom("f", {}) end)
  fails("must be a function", function() core:custom("f", {fn = 1}) end)
  fails("unknown option", function() core:custom("f", {fn = f, cost = 1}) end)
  fails("'float33'", function() core:custom("f", {fn = f, dsts = {"float33"}}) end)
  fails("a boolean", function() core:custom("f", {fn = f, dsts = {{true}}}) end)
  fails("srcs", function() core:custom("f", {fn = f, srcs = 17}) end)
  fails("'srcs' has an empty sequence", function() core:custom("f", {fn = f, srcs = {{}}}) end)
  fails("zero byte", function() core:custom("f\0g", {fn = f}) end)
  fails("its cost", function() core:custom("f", {fn = f, cycles_per_element = -1}) end)
  fails("1 to 255 bytes", function() core:custom("", {fn = f}) end)
  fails("no operator \"f\"", function() core:custom("f", nil) end)
  fails("table expected", function() core:custom("f", f) end)
  core:custom("f", {fn = f})
  core:custom("f", nil)
  fails('no operator "f" is registered', function() core:run(prog, {x = x}) end)
end)
case("functions live as long as they are registered", function()
  local seen = setmetatable({}, {__mode = "k"})
  local function fresh() local up = {} local function f() return up and nil end seen[f] = true return f end
  local function left() collectgarbage() collectgarbage() local n = 0 for _ in pairs(seen) do n = n + 1 end return n end
  local core = soma.core {}
  core:custom("f", {fn = fresh()})
  eq(left(), 1)
  core:run(prog, {x = x})
  core:custom("f", {fn = fresh()})
  eq(left(), 1)
  core:custom("f", nil)
  eq(left(), 0)
end)
t.finish()
