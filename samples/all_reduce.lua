-- How long an all-reduce takes, by its bytes and by how many ranks have part in it: a small one takes as
-- long as its messages are on the way, a large one as long as the DMA rings move its bytes.
--   build/soma samples/all_reduce.lua [FOLDER for the picture]
-- samples/nki/all_reduce.py takes one apart: it prints the program that the CC sequencers run.
local soma = require "soma"

local SOURCE = [==[
        target  trn2
all     group   [[%s]]
x       tensor  float32[%d], input
y       tensor  float32[%d], output
done    sem
section gpsimd
        all_reduce  dsts=[y], srcs=[x], group=all, op=add   $done++
        nop         $done>=1
        halt
]==]

local function program(ranks, n)
  local list = {}
  for r = 0, ranks - 1 do list[#list + 1] = r end
  return soma.assemble(SOURCE:format(table.concat(list, ", "), n, n))
end

-- Small ones with values, against the sum; large ones without.
local function time(v)
  local n, values = v.bytes // 4, v.bytes <= 65536
  local sum
  local runs = soma.world {ranks = v.ranks, timing_only = not values}:run(program(v.ranks, n), function(rank)
    local x = soma.full({n}, rank + 1, "float32")
    sum = sum and sum + x or x
    return {x = x}
  end)
  for r = 0, v.ranks - 1 do assert(not values or soma.equal(runs[r].out.y, sum)) end
  return {us = runs.time_ns / 1000}
end

local sizes = {"bytes"}
for shift = 10, 26, 2 do sizes[#sizes + 1] = 1 << shift end
local result = soma.sweep {over = {{"ranks", 2, 4, 8, 16}, sizes}, run = time}:check()
result.columns = {"ranks", "bytes", "us"}
print(result)

if arg and arg[1] then
  assert(result:plot {
    x = "bytes", y = "us", series = "ranks", log = "xy", file = arg[1] .. "/all_reduce.svg",
    title = "Time of an all-reduce", xlabel = "bytes", ylabel = "us, simulated",
    labels = {["2"] = "2 ranks", ["4"] = "4 ranks", ["8"] = "8 ranks", ["16"] = "16 ranks"},
  })
end
