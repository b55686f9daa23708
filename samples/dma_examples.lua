-- The two transfers of the machine's documentation, engine by engine: as many bytes, but four
-- partitions belong to one DMA engine and 128 to all sixteen.
--   build/soma samples/dma_examples.lua
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"

-- Runs a load and prints what each engine did; gives the run, the engines' shares by number, and
-- when the waiting engine continued.
local function load(shape, dge)
  local shares, resumed = {}, nil
  local core = soma.core {events = function(e)
    if e.kind == "dma" then shares[e.dma_engine] = e end
    if e.kind == "wait" and e.engine == "vector" then resumed = e.end_ns end
  end}
  local prog = soma.assemble_file(here .. "dma_load.s",
    {defines = {TARGET = "trn2", P = shape[1], COLS = shape[2], TYPE = "bfloat16", DGE = dge}})
  local x = soma.randn(shape, "bfloat16", {seed = 1})
  local run = core:run(prog, {x = x})
  assert(soma.equal(core.sbuf:read "t", x))
  assert(core:semaphore "loaded" == 16, "sixteen rings signal, whatever they move")
  print(string.format("A[%d, %d] bfloat16, descriptors %s", shape[1], shape[2],
    dge == "none" and "made at load time" or "made by gpsimd"))
  print "  engine   bytes  start ns    end ns        ns"
  for e = 0, 15 do
    local s = shares[e]
    if s then
      print(string.format("  %6d %7d %9.0f %9.0f %9.0f", e, s.bytes, s.start_ns, s.end_ns,
        s.end_ns - s.start_ns))
    else
      print(string.format("  %6d       0         signals only", e))
    end
  end
  return run, shares, resumed
end

local function compare(what, ns, published)
  local off = 100 * (ns / published - 1)
  print(string.format("  %-44s %6.0f ns, published %4d ns, %+.1f %%", what, ns, published, off))
  assert(math.abs(off) < 12, "more than 12 % from the published time")
end

do
  local run, shares, resumed = load({4, 4096}, "none")
  assert(shares[0].bytes == 32 << 10, "one engine moves it all")
  for e = 1, 15 do assert(not shares[e], "the others only signal") end
  compare("the engine that moves 32 KiB", shares[0].end_ns - shares[0].start_ns, 1416)
  compare("from the trigger to the waiting engine", resumed, 2741)
  assert(run.stats.dma_bytes == 32 << 10)
end
print()
do
  local run, shares, resumed = load({128, 128}, "swdge")
  for e = 0, 15 do assert(shares[e].bytes == 2 << 10, "2 KiB each") end
  local made = run.stats.engine.gpsimd.busy_ns -- when the descriptors are there
  compare("from the descriptors to the waiting engine", resumed - made, 1502)
  assert(run.stats.dma_bytes == 32 << 10)
end
