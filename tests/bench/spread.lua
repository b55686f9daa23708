-- A world of ranks, as one process of it or all of several: matmuls on each rank, and an all_reduce after each few.
--   build/soma tests/bench/spread.lua THREADS [timing]                       one process
--   mpirun -n N build/soma-mpi tests/bench/spread.lua THREADS [timing]       N of them
-- 16 ranks with values; or 128, all cores of the 16 devices of a trn2.48xlarge, timing only. Prints seconds (the least of some
-- runs, by the wall clock), those of the processor, simulated milliseconds, windows, calls of MPI, bytes that came to process 0,
-- the most memory that it had in MB, the hash.
local soma = require "soma"
local timing = arg[2] == "timing"
local ranks, phases, matmuls = timing and 128 or 16, timing and 4 or 12, 24
local COLUMNS <const>, RUNS <const> = 512, 3

local list = {}
for r = 1, ranks do list[r] = r - 1 end
local program = soma.kernel({target = "trn2"}, function(k)
  local w = k:load(k:input("w", "bfloat16", {128, 128}))
  local x = k:load(k:input("x", "bfloat16", {128, COLUMNS}))
  for p = 1, phases do
    local part, sum = k:temp("part" .. p, "bfloat16", {128, COLUMNS}), k:temp("sum" .. p, "bfloat16", {128, COLUMNS})
    for _ = 1, matmuls do x = k:mul(k:matmul(w, x), 0.1, {dtype = "bfloat16"}) end
    k:store(part, x)
    k.gpsimd.all_reduce {dsts = {sum}, srcs = {part}, group = {list}, op = "add"}
    x = k:load(sum)
  end
  k:store(k:output("y", "bfloat16", {128, COLUMNS}), x)
end):program()

local function read(path, pattern)
  local f <close> = assert(io.open(path))
  return tonumber((f:read "a":match(pattern)))
end
local function now() return read("/proc/uptime", "^%S+") end

local world <close> = soma.world {ranks = ranks, target = "trn2", threads = tonumber(arg[1]), timing_only = timing}
local best, least, runs = math.huge, math.huge, nil
local function inputs(r)
  return {w = soma.randn({128, 128}, "bfloat16", {seed = r}), x = soma.randn({128, COLUMNS}, "bfloat16", {seed = 100 + r})}
end
for _ = 1, RUNS do
  local from, used = now(), os.clock()
  runs = world:run(program, timing and {} or inputs)
  best, least = math.min(best, now() - from), math.min(least, os.clock() - used)
end
local transport = runs.transport or {calls = 0, bytes = 0}
print(best, least, runs.time_ns / 1e6, runs.windows, transport.calls, transport.bytes, read("/proc/self/status", "VmHWM:%s*(%d+)") // 1024, runs.hash)
