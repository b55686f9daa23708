-- What if a link between two devices fails? An all-reduce of all 32 ranks of a trn1.32xlarge, whose 16 devices are a 4x4 torus, by
-- bytes: as it is, with the link between devices 0 and 1 broken, and with that link at a tenth of its rate. Where messages go round a
-- broken link they share other links.
--   build/soma samples/failed_link.lua [FOLDER for the picture]
local soma = require "soma"
local RANKS <const> = 32

local SOURCE = [==[
        target  trn1
all     group   [[%s]]
x       tensor  float32[%d], input
y       tensor  float32[%d], output
done    sem
section gpsimd
        all_reduce  dsts=[y], srcs=[x], group=all, op=add   $done++
        nop         $done>=1
        halt
]==]

local function program(n)
  local list = {}
  for r = 0, RANKS - 1 do list[#list + 1] = r end
  return soma.assemble(SOURCE:format(table.concat(list, ", "), n, n))
end

local changes = {
  none = function() end,
  failed = function(world) world:fail_link(0, 1) end,
  slow = function(world) world:slow_link(0, 1, 0.1) end,
}

-- The link with the most to do, and how much of its rate that is.
local function busiest(links)
  local most = links[1]
  for _, l in ipairs(links) do
    if l.percent > most.percent then most = l end
  end
  return ("%s-%s"):format(most.from, most.to), most.percent
end

-- Results do not depend on links: small sums are looked at.
do
  local world <close> = soma.world {ranks = RANKS, target = "trn1"}
  world:fail_link(0, 1)
  local runs = world:run(program(256), function(rank) return {x = soma.full({256}, rank, "float32")} end)
  for r = 0, RANKS - 1 do assert(soma.equal(runs[r].out.y, soma.full({256}, RANKS * (RANKS - 1) // 2, "float32"))) end
end

local function time(v)
  local world <close> = soma.world {ranks = RANKS, target = "trn1", timing_only = true}
  changes[v.link](world)
  local runs = world:run(program(v.bytes // 4))
  local link, percent = busiest(runs.links)
  return {us = runs.time_ns / 1000, algorithm = runs.collectives[1].algorithm, busiest = link, percent = percent // 1}
end

local sizes = {"bytes"}
for shift = 12, 26, 2 do sizes[#sizes + 1] = 1 << shift end
local result = soma.sweep {over = {{"link", "none", "failed", "slow"}, sizes}, run = time}:check()
result.columns = {"link", "bytes", "algorithm", "us", "busiest", "percent"}
print(result)

if arg and arg[1] then
  assert(result:plot {
    x = "bytes", y = "us", series = "link", log = "xy", file = arg[1] .. "/failed_link.svg",
    title = "All-reduce of 32 ranks on a 4x4 torus", xlabel = "bytes", ylabel = "us, simulated",
    labels = {none = "as it is", failed = "link 0-1 failed", slow = "link 0-1 at a tenth"},
  })
end
