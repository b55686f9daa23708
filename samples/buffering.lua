-- One, two, three and four buffers in a loop of load, compute, store: what overlap is worth, by the
-- size of a chunk.
--   build/soma samples/buffering.lua [FOLDER for the picture]
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"
local CHUNKS = 12

local function input(cols) return soma.randn({CHUNKS * 128, cols}, "float32", {seed = cols}) end
local inputs, wants = {}, {}
for _, cols in ipairs {256, 1024, 4096} do
  inputs[cols] = input(cols)
  wants[cols] = soma.tanh(inputs[cols] * 0.5)
end

-- Each variant runs in a process of its own and finds these ready.
local result = soma.sweep {
  over = {{"COLS", 256, 1024, 4096}, {"BUFS", 1, 2, 3, 4}},
  program = function(v)
    local defines = {COLS = v.COLS, BUFS = v.BUFS, CHUNKS = CHUNKS}
    return soma.assemble_file(here .. "buffering.s", {defines = defines})
  end,
  inputs = function(v) return {x = inputs[v.COLS]} end,
  measure = function(run, v)
    assert(soma.allclose(run.out.y, wants[v.COLS], {rtol = 1e-6, atol = 0}))
    return {us_a_chunk = run.time_ns / 1000 / CHUNKS, GB_s = run.stats.dma_bytes / run.time_ns}
  end,
  columns = {"COLS", "BUFS", "time_us", "us_a_chunk", "GB_s", "scalar_busy", "dma_busy"},
}:check()
print(result)
print()

-- A chunk's stages are as long whatever the buffers; more buffers never take longer.
for i, row in ipairs(result.rows) do
  if row.BUFS > 1 then
    assert(row.time_us <= result.rows[i - 1].time_us, "a further buffer made it slower")
  end
  if row.BUFS == 2 then
    local gain = result.rows[i - 1].time_us / row.time_us
    print(string.format("%d columns: two buffers are %.2f times as fast as one", row.COLS, gain))
    assert(gain > 1.3 and gain < 2.05, "two buffers overlap two stages at most")
  end
end

if arg and arg[1] then
  assert(result:plot {
    x = "BUFS", y = "GB_s", series = "COLS", file = arg[1] .. "/buffering.svg",
    title = "Load, compute, store: bytes moved by the number of buffers", xlabel = "buffers",
    ylabel = "GB/s, loads and stores", 
    labels = {[256] = "chunks of 128 KiB", [1024] = "512 KiB", [4096] = "2 MiB"},
  })
end
