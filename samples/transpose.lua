-- Three ways to transpose blocks that are in SBUF, and what each costs: the tensor engine with an
-- identity, the vector engine by 32 x 32, the DMA engines.
--   build/soma samples/transpose.lua [FOLDER for the picture]
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"

-- The result has each block of x turned.
local function reference(x, size, count)
  local blocks = {}
  for k = 0, count - 1 do
    blocks[k + 1] = x:slice({}, {k * size, (k + 1) * size}):transpose():copy()
  end
  return soma.concat(blocks, 1)
end

local function turn(v)
  local from, to -- when the input was there, and when the last block was turned
  local core = soma.core {events = function(e)
    if e.kind ~= "semaphore" then return end
    if e.name == "ready" then from = e.start_ns elseif e.name == "turned" then to = e.start_ns end
  end}
  local prog = soma.assemble_file(here .. "transpose.s",
    {defines = {WAY = v.way, TYPE = v.type, SIZE = v.size, COUNT = v.count}})
  local x = soma.randn({v.size, v.count * v.size}, v.type, {seed = 7})
  local run = core:run(prog, {x = x})
  assert(soma.equal(run.out.y, reference(x, v.size, v.count)))
  local tensor, vector = run.stats.engine.tensor, run.stats.engine.vector
  return {
    ns = to - from, ns_a_block = (to - from) / v.count, tensor_ns = tensor.busy_ns,
    vector_ns = vector.busy_ns,
    instructions = tensor.data_instructions + vector.data_instructions,
  }
end

local result = soma.sweep {
  over = {
    {"type", "bfloat16", "float32"}, {"size", 32, 64, 128}, {"way", "tensor", "vector", "dma"},
    {"count", 1, 8},
  },
  run = turn,
  columns = {
    "type", "size", "way", "count", "ns", "ns_a_block", "tensor_ns", "vector_ns", "instructions",
  },
}:check()
print(result)

-- The fastest way of each size, for one block and for eight.
print()
for _, count in ipairs {1, 8} do
  for _, size in ipairs {32, 64, 128} do
    local best
    for _, row in ipairs(result.rows) do
      local wanted = row.type == "bfloat16" and row.size == size and row.count == count
      if wanted and (not best or row.ns < best.ns) then best = row end
    end
    print(string.format("%d of %3d x %3d bfloat16: %s, %.0f ns each", count, size, size, best.way,
      best.ns_a_block))
  end
end

if arg and arg[1] then
  assert(result:plot {
    x = "size", y = "ns_a_block", series = "way", log = "xy", file = arg[1] .. "/transpose.svg",
    where = function(row) return row.count == 8 and row.type == "bfloat16" end,
    title = "Three ways to transpose eight bfloat16 blocks", xlabel = "rows and columns of a block",
    ylabel = "ns per block",
    labels = {
      tensor = "tensor engine and identity", vector = "vector engine, 32 x 32", dma = "DMA",
    },
  })
end
