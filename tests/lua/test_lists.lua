-- dma_copy over lists of buffers is one transfer: of its semaphore, its time, its place in the checks.
-- What it moves is in tests/conform/lists.lua.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

local head = [[
        target  trn2
a       tensor  float32[128, 64], input
b       tensor  float32[128, 64], input
y       tensor  float32[2, 128, 64], output
t       tile    sbuf float32[128, 64]
u       tile    sbuf float32[128, 64]
in      sem
done    sem
q       queue   dge=none
w       queue   dge=swdge
]]
local function program(body) return soma.assemble(head .. body) end
local a, b = soma.randn({128, 64}, "float32", {seed = 1}), soma.randn({128, 64}, "float32", {seed = 2})

-- A load of both, an instruction on each, a store of both.
local function copy(queue, loaded, vector)
  return program(([=[
section %s
        dma_copy dsts=[t, u], srcs=[a, b], queue=%s   $in
        dma_copy dsts=[y[0], y[1]], srcs=[t, u], queue=%s   $done>=1 $in
        halt
section vector
%s
        tensor_scalar t, t, op0=mult, imm0=2.0 $in>=%d
        tensor_scalar u, u, op0=mult, imm0=2.0 $done++
        halt
]=]):format(queue == "w" and "gpsimd" or "sync", queue, queue, vector or "", loaded or 16))
end

for _, queue in ipairs {"q", "w"} do
  case("it adds 16 once and is one transfer: queue " .. queue, function()
    local core = soma.core {checks = "all"}
    local run = core:run(copy(queue), {a = a, b = b})
    eq(soma.equal(run.out.y[0], a * 2), true)
    eq(soma.equal(run.out.y[1], b * 2), true)
    eq(core:semaphore("in"), 32)
    eq(run.stats.dma_transfers, 2)
    eq(run.stats.dma_bytes, 4 * 128 * 64 * 4)
    eq(#run.findings, 0)
  end)
end

case("a wait for fifteen of the sixteen is a race with every buffer; without a wait `uninit` says which is not there", function()
  local run = soma.core {checks = "all"}:run(copy("q", 15), {a = a, b = b}, {faults = "return"})
  local text = ""
  for _, f in ipairs(run.findings) do text = text .. f.text .. "\n" end
  eq(run.findings[1].check, "race")
  eq(text:find("it waits for 15", 1, true) ~= nil, true, text)
  local unwritten = program [=[
section sync
        dma_copy dsts=[t], srcs=[a], queue=q   $in
        nop $in>=16
        dma_copy dsts=[y[0], y[1]], srcs=[t, u], queue=q  $in
        halt
]=]
  run = soma.core {checks = "uninit"}:run(unwritten, {a = a, b = b}, {faults = "return"})
  eq(run.findings[1].text:find("tile u", 1, true) ~= nil, true, run.findings[1].text)
  eq(run.findings[1].text:find("text:14", 1, true) ~= nil, true, run.findings[1].text)
end)

case("under every timing the bits are the same, and all of them are decided", function()
  local prog = copy("q")
  local want = soma.core {}:run(prog, {a = a, b = b}).out.y
  for seed = 1, 8 do eq(soma.equal(soma.core {schedule = seed}:run(prog, {a = a, b = b}).out.y, want), true) end
end)

-- Of a queue: the time of one instruction over lists and of the same buffers one by one.
local function time(body) return soma.core {}:run(program("section gpsimd\n" .. body .. " halt\n"), {a = a, b = b}).time_ns end

case("it costs less than its buffers one by one, and no less than one buffer of that size", function()
  for _, queue in ipairs {"q", "w"} do
    local one = time(" dma_copy dsts=[t, u], srcs=[a, b], queue=" .. queue .. " $in\n nop $in>=16\n")
    local two = time(((" dma_copy t, a, queue=Q $in\n dma_copy u, b, queue=Q $in\n nop $in>=32\n"):gsub("Q", queue)))
    local part = time(" dma_copy t, a, queue=" .. queue .. " $in\n nop $in>=16\n")
    eq(part < one and one < two, true, ("%s: %g < %g < %g"):format(queue, part, one, two))
  end
end)

case("saved after every few events it ends the same", function()
  for _, queue in ipairs {"q", "w"} do
    local prog, path = copy(queue), t.temp()
    local whole = soma.core {}:run(prog, {a = a, b = b})
    local run = soma.core {}:start(prog, {a = a, b = b})
    while not run.ended do
      for _ = 1, 13 do if not run.ended then run:step_event() end end
      if run.ended then break end
      assert(run:save(path))
      run = soma.core {}:resume(path)
    end
    eq(run.stats.trace_hash, whole.stats.trace_hash)
    eq(soma.equal(run:fetch "y", whole.out.y), true)
  end
end)

case("its text assembles to the same program", function()
  for _, queue in ipairs {"q", "w"} do
    local prog = copy(queue)
    eq(soma.assemble(prog:source()):source(), prog:source())
  end
  local text = copy("w"):source()
  eq(text:find("dma_copy_lists dsts=[float32@sbuf[0,128,0,t]", 1, true) ~= nil, true, text)
  raises("1 elements: dsts have 8192", program, "section gpsimd\n dma_copy dsts=[t], srcs=[a[0, 0:1]], queue=w\n halt\n")
end)

t.finish()
