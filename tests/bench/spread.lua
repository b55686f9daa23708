-- A world of sixteen ranks with values, as one process of it or all: matmuls on each rank, and an all_reduce after each few.
--   build/soma tests/bench/spread.lua THREADS                       one process
--   mpirun -n N build/soma-mpi tests/bench/spread.lua THREADS       N of them
-- Prints seconds (the least of some runs, by the wall clock), windows, calls of MPI, bytes that came to process 0, the most
-- memory that it had in MB, the hash.
local soma = require "soma"
local RANKS <const>, PHASES <const>, MATMULS <const>, COLUMNS <const>, RUNS <const> = 16, 4, 24, 512, 3

local list = {}
for r = 1, RANKS do list[r] = r - 1 end
local program = soma.kernel({target = "trn2"}, function(k)
  local w = k:load(k:input("w", "bfloat16", {128, 128}))
  local x = k:load(k:input("x", "bfloat16", {128, COLUMNS}))
  for p = 1, PHASES do
    local part, sum = k:temp("part" .. p, "bfloat16", {128, COLUMNS}), k:temp("sum" .. p, "bfloat16", {128, COLUMNS})
    for _ = 1, MATMULS do x = k:mul(k:matmul(w, x), 0.1, {dtype = "bfloat16"}) end
    k:store(part, x)
    k.gpsimd.all_reduce {dsts = {sum}, srcs = {part}, group = {list}, op = "add"}
    x = k:load(sum)
  end
  k:store(k:output("y", "bfloat16", {128, COLUMNS}), x)
end):program()

local function read(path, pattern)
  local f <close> = assert(io.open(path))
  return tonumber(f:read "a":match(pattern))
end
local function now() return read("/proc/uptime", "^%S+") end
local world <close> = soma.world {ranks = RANKS, target = "trn2", threads = tonumber(arg[1])}
local best, runs = math.huge, nil
local function inputs(r)
  return {w = soma.randn({128, 128}, "bfloat16", {seed = r}), x = soma.randn({128, COLUMNS}, "bfloat16", {seed = 100 + r})}
end
for _ = 1, RUNS do
  local from = now()
  runs = world:run(program, inputs)
  best = math.min(best, now() - from)
end
local transport = runs.transport or {calls = 0, bytes = 0}
print(best, runs.windows, transport.calls, transport.bytes, read("/proc/self/status", "VmHWM:%s*(%d+)") // 1024, runs.hash)
