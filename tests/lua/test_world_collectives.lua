-- Collectives in a world: every operation, by every algorithm, of several numbers of ranks, from and to HBM and SBUF.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq

local seed = 7
local function random(n) -- 0 .. n - 1
  seed = (seed * 1103515245 + 12345) % 2147483648
  return (seed // 65536) % n
end

-- Small numbers: their sums are exact in any order.
local function numbers(rows, cols)
  local v = {}
  for i = 1, rows do
    v[i] = {}
    for k = 1, cols do v[i][k] = random(64) - 32 end
  end
  return v
end

local function list_of(n)
  local ranks = {}
  for i = 1, n do table.insert(ranks, random(i) + 1, i - 1) end
  return ranks
end

local function text_of(ranks) return "[[" .. table.concat(ranks, ",") .. "]]" end

-- What each op gives the rank at place p of `ranks`, whose data is x[rank]: rows.
local fold = {add = function(a, b) return a + b end, max = math.max, min = math.min}
local function reduced(x, ranks, op)
  local sum = {}
  for i, row in ipairs(x[ranks[1]]) do
    sum[i] = {}
    for k in ipairs(row) do
      local s = x[ranks[1]][i][k]
      for p = 2, #ranks do s = fold[op](s, x[ranks[p]][i][k]) end
      sum[i][k] = s
    end
  end
  return sum
end
local want = {}
function want.all_reduce(x, ranks, _, op) return reduced(x, ranks, op) end
function want.all_gather(x, ranks)
  local all = {}
  for _, r in ipairs(ranks) do
    for _, row in ipairs(x[r]) do all[#all + 1] = row end
  end
  return all
end
function want.reduce_scatter(x, ranks, p, op)
  local sum, part = reduced(x, ranks, op), {}
  local n = #sum // #ranks
  for i = 1, n do part[i] = sum[(p - 1) * n + i] end
  return part
end
function want.all_to_all(x, ranks, p)
  local all = {}
  for _, r in ipairs(ranks) do
    local n = #x[r] // #ranks
    for i = 1, n do all[#all + 1] = x[r][(p - 1) * n + i] end
  end
  return all
end
function want.collective_permute_implicit(x, ranks, p) return x[ranks[(p - 2) % #ranks + 1]] end

local function rows_of(op, n, rows)
  if op == "all_gather" then return rows, rows * n end
  if op == "reduce_scatter" then return rows * n, rows end
  if op == "all_to_all" then return rows * n, rows * n end
  return rows, rows
end

local head = [==[
target trn2
tp group %s
done sem
loaded sem
x tensor float32[%d, %d], input
y tensor float32[%d, %d], output
]==]
local hbm = [==[
section gpsimd
  %s dsts=[y], srcs=[x], group=tp%s $done++
  nop $done>=1
  halt
]==]
local sbuf = [==[
a tile sbuf float32[%d, %d]
b tile sbuf float32[%d, %d]
q queue dge=none, rings=16
section gpsimd
  dma_copy a, x, queue=q $loaded
  nop $loaded>=16
  %s dsts=[b], srcs=[a], group=tp%s $done++
  nop $done>=1
  dma_copy y, b, queue=q $loaded
  nop $loaded>=32
  halt
]==]

local function same(got, rows, what)
  for i, row in ipairs(rows) do
    for k, v in ipairs(row) do
      if got[i - 1][k - 1] ~= v then
        error(string.format("%s: row %d, column %d is %s, not %s", what, i - 1, k - 1, got[i - 1][k - 1], v))
      end
    end
  end
end

local function try(op, fn, n, memory, algorithm, rows, cols)
  local from, to = rows_of(op, n, rows)
  local ranks, x = list_of(n), {}
  local args = fn and ", op=" .. fn or ""
  local text = head:format(text_of(ranks), from, cols, to, cols)
  if memory == "hbm" then
    text = text .. hbm:format(op, args)
  else
    text = text .. sbuf:format(from, cols, to, cols, op, args)
  end
  for r = 0, n - 1 do x[r] = numbers(from, cols) end
  local w <close> = soma.world {ranks = n, algorithm = algorithm}
  local runs = w:run(soma.assemble(text), function(rank) return {x = soma.tensor(x[rank])} end)
  local what = string.format("%s %s of %d ranks %s in %s by %s", op, fn or "", n, text_of(ranks), memory, algorithm or "size")
  for p, r in ipairs(ranks) do same(runs[r].out.y, want[op](x, ranks, p, fn), what .. ", rank " .. r) end
  return runs
end

local algorithms = {false, "ring", "mesh", "mesh-single", "rdh"}
for _, op in ipairs {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute_implicit"} do
  local reduces = op == "all_reduce" or op == "reduce_scatter"
  case(op .. " in hbm", function()
    for _, a in ipairs(algorithms) do
      for n = 1, 5 do
        try(op, reduces and (n % 2 == 0 and "add" or "max") or nil, n, "hbm", a or nil, 1 + random(4), 1 + random(40))
      end
    end
  end)
  if op ~= "all_to_all" then
    case(op .. " in sbuf", function()
      for _, a in ipairs(algorithms) do
        for n = 1, 4 do try(op, reduces and "add" or nil, n, "sbuf", a or nil, 1 + random(24), 1 + random(40)) end
      end
    end)
  end
end

case("large ones, by the documented ranges", function()
  for _, rows in ipairs {4, 1100} do
    for _, op in ipairs {"all_reduce", "all_gather", "reduce_scatter"} do
      try(op, op ~= "all_gather" and "add" or nil, 4, "hbm", nil, rows, 64)
      try(op, op ~= "all_gather" and "min" or nil, 3, "hbm", "ring", rows, 64)
    end
  end
end)

-- KangaRing: all ranks of each device, in pairs. For example 3, 2, 6, 7, 1, 0, 4, 5 on trn1, whose devices have two.
local pair = [==[
target %s
tp group %s
x tensor float32[%d], input
y tensor float32[%d], output
done sem core=*
section gpsimd core=*
  %s dsts=[y], srcs=[x], group=tp%s $done++
  nop $done>=1
  halt
]==]
local function kangaring(target, lnc, list, op, n, options)
  local from, to, ranks = n, n, #list
  if op == "all_gather" then from = n // ranks elseif op == "reduce_scatter" then to = n // ranks end
  local args = (op == "all_gather" and "" or ", op=add") .. (lnc == 2 and ", both=true" or "")
  local text = pair:format(target, text_of(list), from, to, op, args)
  if lnc == 1 then text = text:gsub(" core=%*", "") end
  local o = {ranks = ranks, lnc = lnc, target = target, algorithm = "kangaring"}
  for k, v in pairs(options or {}) do o[k] = v end
  local w <close> = soma.world(o)
  local function input(r) return soma.arange(r * 1000, r * 1000 + from):astype "float32" end
  local runs = w:run(soma.assemble(text), function(r) return {x = input(r)} end)
  local sum = soma.zeros {from}
  for _, r in ipairs(list) do sum = sum + input(r) end
  for p, r in ipairs(list) do
    local wanted = sum
    if op == "all_gather" then
      local all = {}
      for i, q in ipairs(list) do all[i] = input(q) end
      wanted = soma.concat(all)
    elseif op == "reduce_scatter" then
      wanted = sum:slice({(p - 1) * to, p * to})
    end
    eq(runs[r].out.y:bytes() == wanted:astype "float32":bytes(), true, op .. ", rank " .. r)
  end
  return runs
end

case("kangaring: pairs of a device's ranks", function()
  local orders = {{0, 1, 2, 3}, {3, 2, 6, 7, 1, 0, 4, 5}}
  for _, op in ipairs {"all_reduce", "all_gather", "reduce_scatter"} do
    for _, list in ipairs(orders) do
      local runs = kangaring("trn1", 1, list, op, 24 * #list, {checks = "all"})
      eq(runs.collectives[1].algorithm, "kangaring") eq(#runs.findings, 0)
    end
    kangaring("trn2", 2, {0, 1, 2, 3, 4, 5, 6, 7}, op, 8 * 20480, {})
  end
  local all = {}
  for r = 0, 31 do all[r + 1] = r end
  kangaring("trn1", 1, all, "all_reduce", 32 * 16400, {}) -- along the links of a torus
  for _, op in ipairs {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"} do -- the last is a mesh
    local fn = op:find "reduce" and "max" or nil
    try(op, fn, 8, "hbm", "kangaring", 3, 1 + random(40))
    if op ~= "all_to_all" then try(op, fn, 8, "sbuf", "kangaring", 1 + random(12), 1 + random(40)) end
  end
end)

case("kangaring is refused where a device's ranks are not all in the list, and taken above 56 MB where they are", function()
  local why = ": kangaring: it needs all ranks of each device that has one in the list, one after another"
  t.raises("rank 0: all_reduce add float32[96] (text:7)" .. why, kangaring, "trn1", 1, {0, 2, 1, 3}, "all_reduce", 96)
  t.raises(why, kangaring, "trn2", 1, {0, 1, 2, 3}, "all_reduce", 96)
  t.raises("kangaring: its ranks are on several instances", kangaring, "trn1", 1, {0, 1, 2, 3}, "all_reduce", 96, {instance = "trn1.2xlarge x 2"})
  for mb, wanted in pairs {[40] = "rdh", [60] = "kangaring"} do
    local w <close> = soma.world {ranks = 4, lnc = 2, target = "trn2", timing_only = true}
    local text = pair:format("trn2", "[[0, 1, 2, 3]]", mb * 250000, mb * 250000, "all_reduce", ", op=add, both=true")
    eq(w:run(soma.assemble(text)).collectives[1].algorithm, wanted)
  end
end)

-- Rank 3 still writes y when the others have come to the next collective, whose second ring runs the other way.
local late = [==[
target trn2
tp group [[0, 1, 2, 3]]
x tensor float32[2, 64], input
y tensor float32[2, 64], output
a tensor float32[4, 20000], input
b tensor float32[4, 20000], output
done sem
moved sem
q queue dge=swdge
section gpsimd
LATE
collective_permute_implicit dsts=[y[0:1], y[1:2]], srcs=[x[0:1], x[1:2]], group=tp, channels=[0, 1] $done++
all_reduce dsts=[b], srcs=[a], group=tp, op=add $done++
nop $done>=2
halt
]==]
local work = [==[
mov r1, 400
again: dma_copy y, x, queue=q $moved
event_semaphore $moved>=16 $moved-=16
sub r1, r1, 1
bne r1, 0, again]==]
case("a rank that is late is not written before it is ready", function()
  local w <close> = soma.world {ranks = 4, algorithm = "ring"}
  local runs = w:run(function(r) return soma.assemble((late:gsub("LATE", r == 3 and work or ""))) end, function(r)
    return {x = soma.full({2, 64}, r, "float32"), a = soma.full({4, 20000}, r, "float32")}
  end)
  for r = 0, 3 do
    local y = runs[r].out.y
    eq({y[0][0], y[1][63], runs[r].out.b[3][7]}, {(r + 3) % 4 + 0.0, (r + 3) % 4 + 0.0, 6.0})
  end
end)
t.finish()
