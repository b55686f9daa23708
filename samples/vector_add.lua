-- c = a + b four ways: what tiling, overlap and transfer size cost.
--   build/soma samples/vector_add.lua
local soma = require "soma"

local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"
local function source(name) return here .. name end

local function check(name, ok, report)
  if not ok then error(name .. " gives wrong results: " .. tostring(report), 0) end
end

-- 1. 128 elements from files that NumPy wrote; the sum must be NumPy's, bit for bit.
do
  local run = soma.core {}:run(soma.assemble_file(source "vector_add_naive.s"), {
    a = soma.load_npy(here .. "data/add_a.npy"),
    b = soma.load_npy(here .. "data/add_b.npy"),
  })
  check("naive", soma.equal(run.out.c, soma.load_npy(here .. "data/add_c.npy")))
  print(string.format("naive: 128 elements in %.0f ns, exact", run.time_ns))
end

-- 2. [512, 2048] in blocks of 128 rows.
do
  local a = soma.randn({512, 2048}, "float32", {seed = 1})
  local b = soma.randn({512, 2048}, "float32", {seed = 2})
  local run = soma.core {}:run(soma.assemble_file(source "vector_add_tiled.s"), {a = a, b = b})
  check("tiled", soma.equal(run.out.c, a + b))
  print(string.format("tiled: [512, 2048] in %.1f us, exact", run.time_ns / 1000))
end

-- 3. More than 128 partitions do not exist, and the assembler says so.
do
  local ok, message = pcall(soma.assemble_file, source "vector_add_refused.s")
  check("refused", not ok, "160 partitions were accepted")
  message = tostring(message)
  check("refused", message:find("160 partitions", 1, true), message)
  print("refused: " .. message:match("error: ([^\n]*)"))
end

-- 4. The same vector in chunks of 128 x FREE_DIM: small chunks pay the fixed cost of a transfer
-- again and again; the largest leaves nothing to overlap with.
local N = 2 ^ 20 | 0
local a = soma.randn({N}, "float32", {seed = 3})
local b = soma.randn({N}, "float32", {seed = 4})
local want = a + b
print(string.format("\nstreamed: %d elements, two buffers", N))
print("FREE_DIM  chunks  bytes/row   time us   GB/s  vector busy")
for shift = 5, 13 do
  local free = 1 << shift
  local prog = soma.assemble_file(source "vector_add.s", {defines = {FREE_DIM = free, N = N}})
  local run = soma.core {}:run(prog, {a = a, b = b})
  check("streamed", soma.equal(run.out.c, want))
  local us = run.time_ns / 1000
  print(string.format("%8d %7d %10d %9.1f %6.1f %11.1f%%", free, N // (128 * free), 4 * free, us,
    3 * 4 * N / (us * 1000), 100 * run.stats.engine.vector.busy_ns / run.time_ns))
end
