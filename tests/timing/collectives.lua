-- Published times of collectives against simulated ones: those that constants of the clock were fitted to, then others. Prints
-- published, simulated, error, as timing.c does. Sizes are nccom-test's: of the whole result.
--   soma tests/timing/collectives.lua
local soma = require "soma"

local KIB <const>, MIB <const> = 1024, 1048576
local source = [==[
target TARGET
tp group [[LIST]]
x tensor TYPE[FROM], input
y tensor TYPE[TO], output
done sem core=*
section gpsimd core=*
  OP dsts=[y], srcs=[x], group=tpARGS $done++
  nop $done>=1
  halt
]==]

-- Of a collective over the first `ranks` ranks, in ns, and its algorithm.
local function time_of(c, bytes)
  local list = {}
  for r = 1, c.ranks do list[r] = r - 1 end
  local size = c.type == "float32" and 4 or 2
  local w <close> = soma.world {ranks = c.ranks, lnc = c.lnc, instance = c.instance, timing_only = true, threads = 1}
  local n = bytes // size
  local text = source:gsub("%u%u+", {
    TARGET = w.instance:match "^(%a+%d)", LIST = table.concat(list, ","), TYPE = c.type, TO = tostring(n), OP = c.op,
    FROM = tostring(c.op == "all_gather" and n // c.ranks or n),
    ARGS = (c.op == "all_gather" and "" or ", op=add") .. (c.lnc == 2 and ", both=true" or ""),
  })
  if c.lnc ~= 2 then text = text:gsub(" core=%*", "") end
  local runs = w:run(soma.assemble(text))
  return runs.collectives[1].ns, runs.collectives[1].algorithm
end

local pair = {op = "all_reduce", type = "float32", ranks = 2, instance = "trn1.2xlarge"}
local gather = {op = "all_gather", type = "float32", ranks = 32, instance = "trn1.32xlarge"}
local wide = {op = "all_gather", type = "bfloat16", ranks = 32, instance = "trn1.32xlarge"}
local sixteen = {op = "all_reduce", type = "float32", ranks = 16, lnc = 2, instance = "trn2.48xlarge"}
local fitted = { -- published ns; less: of a smaller one
  {"trn1 all_reduce 64 MiB, 2 cores of a device", pair, 64 * MIB, 1214e3},
  {"trn1 all_reduce 1 GiB, 2 cores of a device", pair, 1024 * MIB, 18930e3},
  {"trn1 all_gather 1 KiB, 32 ranks", gather, KIB, 6160},
  {"trn1 all_gather bf16 32 MiB, 32 ranks", wide, 32 * MIB, 1030e3},
  {"trn2 all_reduce, 16 ranks, 512 less 32 MiB", sixteen, 512 * MIB, 6935e3, less = 32 * MIB},
}

-- From nccom-test's page too, which names no machine for the gathers: taken for the same as the fitted one. What a launch
-- takes is in the time of an all_reduce over instances, so it is a difference.
local far = {op = "all_reduce", type = "float32", ranks = 64, instance = "trn1.32xlarge x 2"}
local other = {
  {"trn1 all_reduce 16 MiB, 2 cores of a device", pair, 16 * MIB, 332e3},
  {"trn1 all_reduce 256 MiB, 2 cores of a device", pair, 256 * MIB, 4750e3},
  {"trn1 all_gather 8 KiB, 32 ranks", gather, 8 * KIB, 6480},
  {"trn1 all_gather 64 KiB, 32 ranks", gather, 64 * KIB, 8170},
  {"trn1 all_gather 512 KiB, 32 ranks", gather, 512 * KIB, 23160},
  {"two trn1 all_reduce, 64 ranks, 256 less 64 MiB", far, 256 * MIB, 7991e3, less = 64 * MIB},
  {"two trn1 all_reduce, 64 ranks, 1024 less 64 MiB", far, 1024 * MIB, 37843e3, less = 64 * MIB},
}

local function compare(title, rows)
  local errors = {}
  print(("%-48s %14s %14s %8s"):format(title, "published ns", "simulated ns", "error %"))
  for i, row in ipairs(rows) do
    local name, c, bytes, ns = table.unpack(row)
    local got, algorithm = time_of(c, bytes)
    if row.less then got = got - time_of(c, row.less) end
    errors[i] = math.abs(100 * (got / ns - 1))
    print(("%-48s %14.0f %14.1f %+8.1f   %s"):format(name, ns, got, 100 * (got / ns - 1), algorithm))
  end
  table.sort(errors)
  print(("%-48s median error %5.1f %%, worst %5.1f %%"):format(title, errors[(#errors + 1) // 2], errors[#errors]))
end
compare("fitted, collectives", fitted)
compare("others, collectives", other)
