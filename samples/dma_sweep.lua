-- Throughput of one load of 128 partitions by the bytes of a partition, beside the published curve:
-- below 2 KiB per partition the fixed cost of each element rules (on trn1, whose static rings have one;
-- the curve's text does not name its generation).
--   build/soma samples/dma_sweep.lua [FOLDER for the picture]
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"
local published = { -- bytes per partition, throughput as a part of that of 32 KiB
  {32, 0.013}, {64, 0.026}, {128, 0.052}, {256, 0.103}, {512, 0.207}, {1024, 0.423}, {2048, 0.813},
  {4096, 0.966}, {8192, 0.983}, {16384, 0.990},
}
local LARGEST = 32768

local sizes = {"bytes"}
for shift = 5, 15 do sizes[#sizes + 1] = 1 << shift end

-- Bytes per ns while the engines are at it: all bytes by the longest share of an engine.
local function load(v)
  local longest = 0
  local core = soma.core {events = function(e)
    if e.kind == "dma" then longest = math.max(longest, e.end_ns - e.start_ns) end
  end}
  local prog = soma.assemble_file(here .. "dma_load.s",
    {defines = {TARGET = v.target, P = 128, COLS = v.bytes, TYPE = "uint8", DGE = "none"}})
  local x = soma.uniform({128, v.bytes}, "uint8", {seed = v.bytes, low = 0, high = 256})
  local run = core:run(prog, {x = x})
  assert(soma.equal(core.sbuf:read "t", x))
  assert(run.stats.dma_bytes == 128 * v.bytes and core:semaphore "loaded" == 16)
  return {GB_s = 128 * v.bytes / longest, engine_ns = longest}
end

local result = soma.sweep {over = {{"target", "trn1", "trn2", "trn3"}, sizes}, run = load}:check()
local most = {}
for _, row in ipairs(result.rows) do
  if row.bytes == LARGEST then most[row.target] = row.GB_s end
end
for _, row in ipairs(result.rows) do row.part = row.GB_s / most[row.target] end
result.columns = {"target", "bytes", "engine_ns", "GB_s", "part"}
print(result)

print "\nbytes a partition  published  trn1    error"
local worst = 0
for i, p in ipairs(published) do
  local row = result.rows[i]
  assert(row.target == "trn1" and row.bytes == p[1])
  local off = 100 * (row.part / p[2] - 1)
  worst = math.max(worst, math.abs(off))
  print(string.format("%17d %10.3f %6.3f %+6.1f %%", p[1], p[2], row.part, off))
end
print(string.format("the worst is %.1f %% off", worst))
assert(worst < 12, "more than 12 % from the published curve")

if arg and arg[1] then
  local points = {label = "published", table.unpack(published)}
  assert(result:plot {
    x = "bytes", y = "part", series = "target", log = "x", file = arg[1] .. "/dma_sweep.svg",
    title = "Throughput of a load by bytes of a partition",
    xlabel = "bytes of a partition, 128 partitions",
    ylabel = "part of the throughput at 32 KiB", points = {points},
    labels = {trn1 = "trn1, simulated", trn2 = "trn2, simulated", trn3 = "trn3, simulated"},
  })
end
