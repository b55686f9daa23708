-- c = a + b for 25600 elements: how the free dimension of a tile decides the time. Short rows make
-- many tiles of tiny elements; long rows leave partitions, and so DMA engines, without work.
--   build/soma samples/free_dim.lua [FOLDER for the picture]
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"
local N = 25600
local sizes = {"FREE_DIM"}
local divisors = {1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800}
for _, free in ipairs(divisors) do
  sizes[#sizes + 1] = free
end

local a = soma.randn({N}, "float32", {seed = 1})
local b = soma.randn({N}, "float32", {seed = 2})
local want = a + b

local result = soma.sweep {
  over = {sizes},
  program = here .. "free_dim.s",
  inputs = function(v)
    return {a = a:reshape {-1, v.FREE_DIM}, b = b:reshape {-1, v.FREE_DIM}}
  end,
  measure = function(run, v)
    assert(soma.equal(run.out.c:reshape {N}, want))
    local rows = N // v.FREE_DIM
    return {
      partitions = math.min(rows, 128), tiles = math.max(1, rows // 128),
      -- The published time includes what launching a kernel takes.
      launched_us = run.time_ns / 1000 + run.stats.launch_ns / 1000,
    }
  end,
  columns = {
    "FREE_DIM", "partitions", "tiles", "time_us", "launched_us", "vector_busy", "dma_busy",
  },
}:check()

print(result)
local at_200, best = nil, result.rows[1]
for _, row in ipairs(result.rows) do
  if row.FREE_DIM == 200 then at_200 = row end
  if row.time_us < best.time_us then best = row end
end
print(string.format("\nFREE_DIM = 200 with its launch: %.1f us, published on trn2: 15 us",
  at_200.launched_us))
print(string.format("the fastest: FREE_DIM = %d", best.FREE_DIM))
assert(math.abs(at_200.launched_us / 15 - 1) < 0.12, "more than 12 % from the published time")
assert(result.rows[1].time_us > 50 * best.time_us, "rows of one element are not slow")

if arg and arg[1] then
  assert(result:plot {
    x = "FREE_DIM", y = "launched_us", log = "xy", file = arg[1] .. "/free_dim.svg",
    title = "Adding 25600 elements: time by the length of a row",
    xlabel = "FREE_DIM, elements of a partition",
    ylabel = "time with launch, us", labels = {launched_us = "simulated"},
    points = {{label = "published, trn2", {200, 15}}},
  })
end
