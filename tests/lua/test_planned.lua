-- Collectives as the planner makes them, in worlds of ranks: each form, type and algorithm against plain sums and
-- copies of Lua numbers, for any number of ranks, any order of a group's list, two groups at once.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

local algorithms = {"auto", "ring", "mesh", "mesh-single", "rdh"}

-- A group's list of the ranks in an order that is not theirs: 0 2 4 ... 1 3 5.
local function shuffled(n)
  local list = {}
  for r = 0, n - 1, 2 do list[#list + 1] = r end
  for r = 1, n - 1, 2 do list[#list + 1] = r end
  return list
end

local function group_text(lists)
  local parts = {}
  for i, list in ipairs(lists) do parts[i] = "[" .. table.concat(list, ", ") .. "]" end
  return "[" .. table.concat(parts, ", ") .. "]"
end

local function flat(x) return x:reshape({-1}):tolist() end

-- Small integers, which every type holds and sums exactly.
local function input(rank, n, dtype)
  local v = {}
  for i = 1, n do v[i] = (i * 7 + rank * 5 + i // 3) % 9 - (dtype:match "^u" and 0 or 4) end
  return v
end

local folds = {
  add = function(a, b) return a + b end,
  min = math.min,
  max = math.max,
}

-- What place `place` of a list gets of all lists' inputs.
local wants = {}
function wants.all_reduce(inputs, _, op)
  local out = {}
  for i = 1, #inputs[1] do
    out[i] = inputs[1][i]
    for p = 2, #inputs do out[i] = folds[op](out[i], inputs[p][i]) end
  end
  return out
end
function wants.reduce_scatter(inputs, place, op)
  local all, n = wants.all_reduce(inputs, place, op), #inputs[1] // #inputs
  return table.move(all, place * n + 1, place * n + n, 1, {})
end
function wants.all_gather(inputs)
  local out = {}
  for _, v in ipairs(inputs) do table.move(v, 1, #v, #out + 1, out) end
  return out
end
function wants.all_to_all(inputs, place)
  local out, n = {}, #inputs[1] // #inputs
  for _, v in ipairs(inputs) do table.move(v, place * n + 1, place * n + n, #out + 1, out) end
  return out
end
function wants.collective_permute_implicit(inputs, place) return inputs[(place - 1) % #inputs + 1] end

-- Elements of dst for a src of n elements.
local function dst_elems(op, n, ranks)
  if op == "all_gather" then return n * ranks end
  if op == "reduce_scatter" then return n // ranks end
  return n
end

-- Runs one collective on `c.lists`, `repeats` times, and compares what each rank has.
local function check(c)
  local ranks = 0
  for _, list in ipairs(c.lists) do ranks = ranks + #list end
  local n, per = c.n, #c.lists[1]
  local m = dst_elems(c.op, n, per)
  local fold = c.fold and (", op=" .. c.fold) or ""
  local source = ([==[
target trn2
tp group %s
x tensor %s[%d], input
y tensor %s[%d], output
done sem
section gpsimd
mov r1, %d
again: %s dsts=[y], srcs=[x], group=tp%s $done++
event_semaphore $done>=1 $done--
sub r1, r1, 1
bne r1, 0, again
halt
]==]):format(group_text(c.lists), c.dtype, n, c.dtype, m, c.repeats or 1, c.op, fold)
  local w = soma.world {ranks = ranks, algorithm = c.algorithm, checks = c.checks}
  local runs = w:run(soma.assemble(source), function(r) return {x = soma.tensor(input(r, n, c.dtype), c.dtype)} end)
  local what = ("%s %s %s of %d, %s, %s"):format(c.op, c.fold or "", c.dtype, n, c.algorithm, group_text(c.lists))
  for _, list in ipairs(c.lists) do
    local inputs = {}
    for p, r in ipairs(list) do inputs[p] = input(r, n, c.dtype) end
    for p, r in ipairs(list) do
      local got, want = flat(runs[r].out.y), wants[c.op](inputs, p - 1, c.fold)
      for i = 1, m do
        if got[i] ~= want[i] then error(("%s: rank %d has %s at %d, not %s"):format(what, r, got[i], i - 1, want[i]), 0) end
      end
    end
  end
  w:close()
end

local reduces = {all_reduce = true, reduce_scatter = true}
local ops = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute_implicit"}

for _, op in ipairs(ops) do
  case(op .. " of 1 to 8 ranks by each algorithm", function()
    for ranks = 1, 8 do
      for i, algorithm in ipairs(algorithms) do
        -- sizes that are and are not multiples of sixteen rings, and of one element a rank
        local n = ranks * ({1, 16, 33, 250, 1024})[(ranks + i) % 5 + 1]
        check {op = op, dtype = "float32", n = n, algorithm = algorithm, lists = {shuffled(ranks)}, fold = reduces[op] and "add"}
      end
    end
  end)

  case(op .. " over devices, along their links", function()
    for _, ranks in ipairs {16, 32} do
      local list = {}
      for r = 1, ranks do list[r] = r - 1 end
      for _, algorithm in ipairs(algorithms) do
        check {op = op, dtype = "float32", n = ranks * 5, algorithm = algorithm, lists = {list}, fold = reduces[op] and "add"}
      end
    end
  end)

  case(op .. " of types, two lists at once, again and again", function()
    for i, dtype in ipairs {"bfloat16", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float8_e5m2", "float32"} do
      check {op = op, dtype = dtype, n = 12 * 7 * (i % 3 + 1), algorithm = algorithms[i % 5 + 1], lists = {{3, 0, 4}, {5, 1, 2}},
        fold = reduces[op] and ({"add", "min", "max"})[i % 3 + 1], repeats = i % 3 + 1}
    end
  end)

  case(op .. " of large blocks, which are moved in slices by both CC sequencers", function()
    for _, algorithm in ipairs(algorithms) do
      check {op = op, dtype = "float32", n = 4 * 20000, algorithm = algorithm, lists = {{2, 0, 3, 1}}, fold = reduces[op] and "add"}
    end
  end)
end

-- Random numbers, in bits: additions in other orders differ, but never between ranks.
local function bits(op, algorithm, dtype, ranks, n)
  local source = ([==[
target trn2
tp group %s
x tensor %s[%d], input
y tensor %s[%d], output
z tensor %s[%d], output
part tensor %s[%d]
done sem
section gpsimd
all_reduce dsts=[y], srcs=[x], group=tp, op=%s $done++
reduce_scatter dsts=[part], srcs=[x], group=tp, op=%s $done++
nop $done>=2
all_gather dsts=[z], srcs=[part], group=tp $done++
nop $done>=3
halt
]==]):format(group_text {shuffled(ranks)}, dtype, n, dtype, n, dtype, n, dtype, n // ranks, op, op)
  local w = soma.world {ranks = ranks, algorithm = algorithm}
  local runs = w:run(soma.assemble(source), function(r) return {x = soma.randn({n}, dtype, {seed = r + 1, std = 100})} end)
  for r = 1, ranks - 1 do
    eq(runs[r].out.y:bytes() == runs[0].out.y:bytes(), true)
    eq(runs[r].out.z:bytes() == runs[0].out.z:bytes(), true)
  end
  return runs[0].out.y:bytes() == runs[0].out.z:bytes()
end

case("all ranks have the same bits; by ring, reduce_scatter and all_gather are all_reduce", function()
  for ranks = 2, 8 do
    for i, algorithm in ipairs(algorithms) do
      local dtype = ({"float32", "bfloat16", "float16"})[(ranks + i) % 3 + 1]
      local same = bits("add", algorithm, dtype, ranks, ranks * 100)
      if algorithm == "ring" then eq(same, true) end
    end
  end
end)


-- ---- Operands ---------------------------------------------------------------------------------

-- Runs `lines` on gpsimd in a world, with x by rank from input(); gives the runs.
local function world(ranks, head, lines, options)
  options = options or {}
  local lnc = options.lnc or 1
  local source = "target " .. (options.target or "trn2") .. "\n" .. head .. "\ndone sem" .. (lnc > 1 and " core=*" or "") .. "\nsection gpsimd"
    .. (lnc > 1 and " core=*" or "") .. "\n" .. lines .. "\nhalt\n"
  local w = soma.world {ranks = ranks, lnc = lnc, algorithm = options.algorithm, timing_only = options.timing_only}
  return w:run(soma.assemble(source), options.inputs or function(r) return {x = soma.tensor(input(r, options.n, "int32"), "float32"):reshape(options.shape)} end)
end

local function same(got, want, what)
  for i = 1, math.max(#got, #want) do
    if got[i] ~= want[i] then error(("%s: %s at %d, not %s"):format(what, got[i], i - 1, want[i]), 0) end
  end
end

case("strided slices: columns of x to columns of y; the rest of y stays", function()
  for _, algorithm in ipairs(algorithms) do
    local runs = world(3, "tp group [[1, 2, 0]]\nx tensor float32[6, 20], input\ny tensor float32[6, 30], output",
      "all_reduce dsts=[y[:, 3:13]], srcs=[x[:, 10:20]], group=tp, op=add $done++\nnop $done>=1", {n = 120, shape = {6, 20}, algorithm = algorithm})
    for r = 0, 2 do
      local y = runs[r].out.y:tolist()
      for i = 1, 6 do
        for k = 1, 30 do
          local want = 0
          for q = 0, 2 do want = want + (k > 3 and k <= 13 and input(q, 120, "int32")[(i - 1) * 20 + k - 3 + 10] or 0) end
          eq(y[i][k], want + 0.0)
        end
      end
    end
  end
end)

case("in SBUF: partitions or columns one after another, sums, parts", function()
  local head = [==[
tp group [[3, 1, 0, 2]]
x tensor float32[8, 64], input
y tensor float32[%d, %d], output
a tile sbuf float32[8, 64]
b tile sbuf float32[%d, %d]
q queue dge=swdge
s sem]==]
  local function sbuf(op, rows, columns, want)
    for _, algorithm in ipairs(algorithms) do
      local runs = world(4, head:format(rows, columns, rows, columns), ("dma_copy a, x, queue=q $s\nnop $s>=16\n%s dsts=[b], srcs=[a], group=tp%s $done++\n"):format(op:match "^[%w_]+",
        op:match "^[%w_]+(.*)") .. "nop $done>=1\ndma_copy y, b, queue=q $s\nnop $s>=32", {n = 512, shape = {8, 64}, algorithm = algorithm})
      for place, r in ipairs {3, 1, 0, 2} do same(flat(runs[r].out.y), want(place - 1), op .. " " .. algorithm) end
    end
  end
  local inputs = {}
  for i, r in ipairs {3, 1, 0, 2} do inputs[i] = input(r, 512, "int32") end
  sbuf("all_reduce, op=max", 8, 64, function() return wants.all_reduce(inputs, 0, "max") end)
  sbuf("all_gather", 32, 64, function() return wants.all_gather(inputs) end)
  sbuf("all_gather, dim=1", 8, 256, function()
    local out = {}
    for row = 0, 7 do for p = 1, 4 do table.move(inputs[p], row * 64 + 1, row * 64 + 64, #out + 1, out) end end
    return out
  end)
  sbuf("reduce_scatter, op=add", 2, 64, function(place) return wants.reduce_scatter(inputs, place, "add") end)
end)

-- x[channels] of two ranks, doubled, to the other one; with the check for races.
local function check_race(channels, line)
  local source = ("target trn2\ntp group [[0, 1]]\nx tensor float32[4, 3000], input\ny tensor float32[4, 3000], output\ndone sem\nsection gpsimd\n%s $done++\nnop $done>=1\nhalt\n"):format(line)
  local w <close> = soma.world {ranks = 2, checks = "race"}
  local runs = w:run(soma.assemble(source), function(r) return {x = soma.arange(r, r + 12000):astype "float32":reshape {4, 3000}} end)
  for r = 0, 1 do
    local y = flat(runs[r].out.y)
    for i = 1, 3000 * channels do eq(y[i], 2.0 * (1 - r + i - 1)) end
  end
end

case("pairs: a rank in none does nothing, one that is no target keeps its dst; cycles and chains", function()
  local runs = world(5, "x tensor float32[40], input\ny tensor float32[40], output", "collective_permute dsts=[y], srcs=[x], pairs=[[0, 3], [3, 1], [2, 2]] $done++\nnop $done>=1",
    {n = 40, shape = {40}})
  local from = {[3] = 0, [1] = 3, [2] = 2}
  for r = 0, 4 do
    local want = from[r] and input(from[r], 40, "int32") or {}
    if not from[r] then for i = 1, 40 do want[i] = 0 end end
    same(flat(runs[r].out.y), want, "rank " .. r)
  end
end)

case("implicit rings by channels, with a sum before they send, round after round", function()
  local runs = world(4, "tp group [[2, 0, 1, 3]]\nx tensor float32[4, 30], input\ny tensor float32[4, 30], output", [==[
collective_permute_implicit dsts=[y[0], y[1]], srcs=[x[0], x[1]], group=tp, channels=[0, 1] $done++
collective_permute_implicit_reduce dsts=[y[2]], srcs0=[x[2]], srcs1=[x[3]], group=tp, op=add $done++
nop $done>=2]==], {n = 120, shape = {4, 30}})
  local list = {2, 0, 1, 3}
  for place, r in ipairs(list) do
    local before, want = input(list[(place - 2) % 4 + 1], 120, "int32"), {}
    for i = 1, 60 do want[i] = before[i] end
    for i = 61, 90 do want[i] = before[i] + before[i + 30] end
    for i = 91, 120 do want[i] = 0 end
    same(flat(runs[r].out.y), want, "rank " .. r)
  end
end)

case("channels of one CC sequencer do not share what they send", function()
  for channels = 1, 4 do
    local dsts, srcs, list = {}, {}, {}
    for i = 0, channels - 1 do dsts[i + 1], srcs[i + 1], list[i + 1] = ("y[%d]"):format(i), ("x[%d]"):format(i), i end
    check_race(channels, ("collective_permute_implicit_reduce dsts=[%s], srcs0=[%s], srcs1=[%s], group=tp, channels=[%s], op=add"):format(table.concat(dsts, ", "),
      table.concat(srcs, ", "), table.concat(srcs, ", "), table.concat(list, ", ")))
  end
end)

case("the rank whose data a round has: the own one, then those before it", function()
  local runs = world(4, "tp group [[2, 0, 1, 3]]\none group [[0], [1], [2], [3]]\nx tensor float32[1], input\ny tensor int32[6], output", [==[
mov r1, 0
again: current_processing_rank_id r2, r1, group=tp, channel=0
tensor_store y[r1], r2
add r1, r1, 1
blt r1, 5, again
current_processing_rank_id r2, 3, group=one, channel=1
tensor_store y[5], r2]==], {n = 1, shape = {1}})
  local list = {2, 0, 1, 3}
  for place, r in ipairs(list) do
    local want = {}
    for i = 0, 4 do want[i + 1] = list[(place - 1 - i) % 4 + 1] end
    want[6] = r
    eq(runs[r].out.y:tolist(), want)
  end
  raises("rank 1 is in no list of group tp", world, 2, "tp group [[0]]\nx tensor float32[1], input", "current_processing_rank_id r2, 0, group=tp, channel=0", {n = 1, shape = {1}})
end)

-- ---- Sizes that are known as the program runs ----------------------------------------------------

-- Rows of metadata of rank r: counts, where they begin, 77.
local function metadata(r, seed, most, last)
  local s, rows = seed * 97 + r * 31, {{}, {}, {77, 77, 77, 77}}
  local function random(k)
    s = (s * 1103515245 + 12345) % 2147483648
    return s // 65536 % k
  end
  for c = 1, 4 do
    rows[1][c] = random(most + 1)
    rows[2][c] = random(last - rows[1][c] + 1)
  end
  return rows
end

local function counted(op, elems, in_sbuf, known, seed, options)
  local list, slot = {2, 0, 3, 1}, elems // 4
  local head = ([==[
tp group [[2, 0, 3, 1]]
x tensor float32[64], input
y tensor float32[%d], output
m tensor uint32[3, 4], input
told tensor uint32[3, 4], output
tile tile sbuf uint32[1, 12]
q queue dge=swdge
s sem]==]):format(elems):gsub("tile tile", "t tile")
  local there = in_sbuf and "t" or "told"
  local all = ".ap([[12, 1], [1, 12]])"
  local lines = in_sbuf and "dma_copy t, m" .. all .. ", queue=q $s" or "dma_copy told, m, queue=q $s"
  lines = lines .. ("\nnop $s>=16\n%s dsts=[y], srcs=[x], group=tp, metadata=%s%s $done++\nnop $done>=1"):format(op, there, known and ", recv_counts_known=true" or "")
  if in_sbuf then lines = lines .. "\ndma_copy told" .. all .. ", t, queue=q $s\nnop $s>=32" end
  local o = {inputs = function(r)
    return {x = soma.arange(r * 100, r * 100 + 64):astype "float32", m = soma.tensor(options and options.rows or metadata(r, seed, slot, 64), "uint32")}
  end}
  local runs = world(4, head, lines, o)
  for place, r in ipairs(list) do
    local y, told = flat(runs[r].out.y), runs[r].out.told:tolist()
    for from, sender in ipairs(list) do
      local rows, column = metadata(sender, seed, slot, 64), op == "all_to_all_v" and place or 1
      local n, first = rows[1][column], rows[2][column]
      for i = 1, slot do eq(y[(from - 1) * slot + i], (i <= n and sender * 100 + first + i - 1 or 0) + 0.0) end
      eq(told[3][from], known and 77 or n)
    end
  end
end

case("all_to_all_v and all_gather_v move what metadata says, and tell how much", function()
  for seed = 1, 6 do
    counted("all_to_all_v", 64, seed % 2 == 0, seed % 3 == 0, seed)
    counted("all_gather_v", 96, seed % 2 == 1, seed % 3 == 1, seed)
  end
  raises("size r1 is 17, outside its bound 0..16", counted, "all_to_all_v", 64, false, false, 1, {rows = {{0, 17, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}})
  raises("r2 = 60, r1 = 16 is elements 60..75; x has elements 0..63", counted, "all_to_all_v", 64, false, false, 1, {rows = {{0, 16, 0, 0}, {0, 60, 0, 0}, {0, 0, 0, 0}}})
end)

-- Each rank says where it wants what comes; again and again, other places each time, with ranks that are late.
case("all_to_all_v to places that the receiver chooses", function()
  local list, rounds, size = {2, 0, 3, 1}, 3, 24
  local function rows(r, round) -- counts and displacements of what it sends, 0, places of what comes
    local m = {{}, {}, {0, 0, 0, 0}, {}}
    for p = 1, 4 do
      m[1][p], m[2][p] = (r + p + round) % 6, r * 3 + p
      m[4][p] = (p * 7 + r * 2 + round * 5) % 4 * 6
    end
    return m
  end
  local source = [==[
target trn3
tp group [[2, 0, 3, 1]]
x tensor float32[64], input
m tensor uint32[3, 4, 4], input
y tensor float32[3, 24], output
done sem
section gpsimd
rank_id r1
mul r1, r1, LATE
late: sub r1, r1, 1
bge r1, 0, late
]==]
  for round = 0, rounds - 1 do
    source = source .. ("all_to_all_v dsts=[y[%d]], srcs=[x], group=tp, metadata=m[%d], has_rdispls=true, recv_counts_known=%s $done++\nnop $done>=%d\n"):format(round, round,
      tostring(round == 1), round + 1)
  end
  for _, late in ipairs {0, 2000, -1} do
    local w <close> = soma.world {ranks = 4, checks = "race,uninit", target = "trn3"}
    local runs = w:run(soma.assemble(((source .. "halt\n"):gsub("LATE", late))), function(r)
      return {x = soma.arange(r * 100, r * 100 + 64):astype "float32", m = soma.tensor({rows(r, 0), rows(r, 1), rows(r, 2)}, "uint32")}
    end)
    for place, r in ipairs(list) do
      for round = 0, rounds - 1 do
        local want, got = {}, runs[r].out.y:tolist()[round + 1]
        for i = 1, size do want[i] = 0.0 end
        for from, sender in ipairs(list) do
          local m, at = rows(sender, round), rows(r, round)[4][from]
          for i = 1, m[1][place] do want[at + i] = sender * 100.0 + m[2][place] + i - 1 end
        end
        eq(got, want)
      end
    end
  end
end)

case("what both cores do is complete on each core when both have done their part", function()
  local head = "tp group [[1, 0, 2, 3]]\nx tensor float32[64], input\ny tensor float32[64], output\nz tensor float32[64], output\nm tensor uint32[4, 4], input\nq queue dge=swdge, core=*"
  local function both(line)
    local source = ("target trn2\n%s\ndone sem core=*\nsection gpsimd core=0\n%s\nnop $done>=1\nhalt\nsection gpsimd core=1\n%s\nnop $done>=1\ndma_copy z, y, queue=q\nhalt\n"):format(head, line, line)
    local runs = soma.world {ranks = 4, lnc = 2}:run(soma.assemble(source), function(r)
      return {x = soma.full({64}, r + 1), m = soma.tensor({{16, 16, 16, 16}, {0, 16, 32, 48}, {0, 0, 0, 0}, {9, 9, 9, 9}}, "uint32")}
    end)
    for r = 0, 3 do eq(runs[r].out.z:bytes(), runs[r].out.y:bytes()) end
    eq(runs[0].out.y:get(0) ~= 0, true)
  end
  both "all_to_all_v dsts=[y], srcs=[x], group=tp, metadata=m, both=true $done++"
  both "all_reduce dsts=[y], srcs=[x], group=tp, op=add, both=true $done++"
end)

case("what is refused before time passes", function()
  local head = "tp group [[0, 1]]\nx tensor float32[64], input\ny tensor float32[64], output\nm tensor uint32[4, 2]"
  local function wrong(text, lines, options, more)
    options = options or {}
    options.n, options.shape = 64, {64}
    raises(text, world, 2, head .. (more or ""), lines, options)
  end
  wrong("unknown algorithm 'rings'; there are: auto, ring, mesh", "nop", {algorithm = "rings"})
  wrong("all_to_all_v: metadata says how much it moves, and timing_only has no values", "all_to_all_v dsts=[y], srcs=[x], group=tp, metadata=m $done++", {timing_only = true})
  wrong("the group [[0]] does not have rank 1", "all_reduce dsts=[y], srcs=[x], group=one, op=add $done++", nil, "\none group [[0]]")
  wrong("the group [[0, 7]] has rank 7, the world has 0..1", "all_reduce dsts=[y], srcs=[x], group=far, op=add $done++", nil, "\nfar group [[0, 7]]")
end)

case("groups that do not agree are told with both places", function()
  local function prog(list)
    return soma.assemble(("target trn2\ntp group %s\nx tensor float32[64], input\ny tensor float32[64], output\ndone sem\nsection gpsimd\n" ..
      "all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++\nhalt\n"):format(list), {name = list})
  end
  local one, all, turned = prog "[[0, 1], [2, 3]]", prog "[[0, 1, 2, 3]]", prog "[[1, 0], [3, 2]]"
  local w = soma.world {ranks = 4}
  local x = {x = soma.ones {64}}
  raises("rank 0: all_reduce add float32[64] ([[0, 1], [2, 3]]:7): it is number 1 of ranks 0, 1, and rank 1 has no such collective; " ..
    "its all_reduce add float32[64] ([[0, 1, 2, 3]]:7) is of ranks 0, 1, 2, 3", w.run, w, {[0] = one, all, one, one}, x)
  raises("it is number 1 of ranks 0, 1, and rank 1 has no such collective; its all_reduce add float32[64] ([[1, 0], [3, 2]]:7) is of ranks 1, 0",
    w.run, w, {[0] = one, turned, one, one}, x)
end)

-- b is float32[8, 256], temp; its first four rows begin as x.
local function in_place(instruction, algorithm)
  local runs = world(4, "tp group [[0, 1, 2, 3]]\nx tensor float32[4, 256], input\nb tensor float32[8, 256], temp\ny tensor float32[4, 256], output\nq queue dge=swdge\nd sem\nf sem",
    "dma_copy b[0:4], x, queue=q $d\nnop $d>=16\n" .. instruction .. " $done++\nnop $done>=1\ndma_copy y, b[0:4], queue=q $f\nnop $f>=16",
    {algorithm = algorithm, inputs = function(r) return {x = soma.arange(r * 1024, r * 1024 + 1024):astype "float32":reshape {4, 256}} end})
  local list = flat(runs[0].out.y)
  for i = 1, 1024 do eq(list[i], 4.0 * (i - 1) + 6 * 1024) end
end

case("an operand that others may write before it is sent is refused", function()
  for _, algorithm in ipairs {"ring", "mesh", "mesh-single", "rdh"} do
    in_place("all_reduce dsts=[b[0:4]], srcs=[b[0:4]], group=tp, op=add", algorithm)
    raises("rank 0: all_reduce add float32[1024] (text:13): dst overlaps src: dst may be src itself, not a part of it",
      in_place, "all_reduce dsts=[b[1:5]], srcs=[b[0:4]], group=tp, op=add", algorithm)
  end
  for text, instruction in pairs {
    ["rank 1: all_gather float32[256] (text:13): dst overlaps src: src may be this rank's part of dst, no other"] = "all_gather dsts=[b[0:4]], srcs=[b[0]], group=tp",
    ["rank 1: reduce_scatter add float32[1024] (text:13): dst overlaps src: dst may be this rank's part of src, no other"] = "reduce_scatter dsts=[b[0]], srcs=[b[0:4]], group=tp, op=add",
    ["all_to_all float32[1024] (text:13): dst overlaps src: others may write dst before src is sent: use another tensor"] = "all_to_all dsts=[b[0:4]], srcs=[b[0:4]], group=tp",
    ["collective_permute_implicit_reduce add float32[1024] (text:13): dst overlaps src1"] = "collective_permute_implicit_reduce dsts=[b[0:4]], srcs0=[x], srcs1=[b[0:4]], group=tp, op=add, channels=[0]",
    ["collective_permute float32[1024] (text:13): dst overlaps src: others may write dst"] = "collective_permute dsts=[b[0:4]], srcs=[b[0:4]], pairs=[[0, 1], [1, 0]]",
    ["operand 0 of dst overlaps operand 1 of src"] = "all_reduce dsts=[b[0:2], b[2:4]], srcs=[b[4:6], b[0:2]], group=tp, op=add",
  } do raises(text, in_place, instruction) end
end)

-- ---- Programs of CC sequencers --------------------------------------------------------------------

local sum = [==[
target trn2
tp group [[0, 1, 2, 3]]
x tensor float32[%d], input
y tensor float32[%d], output
done sem
section gpsimd
all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++
nop $done>=1
halt
]==]

-- What rank 0 of four runs for an all_reduce, by each algorithm.
local function programs(algorithm, n)
  local w = soma.world {ranks = 4, algorithm = algorithm}
  local prog, list = soma.assemble(sum:format(n, n)), {}
  w:run(prog, function(r) return {x = soma.tensor(input(r, n, "int32"), "float32")} end)
  for r = 0, 3 do list[r] = w:program(r) end
  w:close()
  return list
end

case("the planner's programs print, assemble to the same bytes, and run as the user's own", function()
  for _, algorithm in ipairs(algorithms) do
    for _, n in ipairs {4, 130, 80000} do
      local list, own = programs(algorithm, n), {}
      for r = 0, 3 do
        local again = soma.assemble(list[r]:source())
        eq(again:source(), list[r]:source())
        eq(soma.assemble(again:source()):bytes(), again:bytes())
        own[r] = again
      end
      local w = soma.world {ranks = 4}
      local runs = w:run(function(r) return own[r] end, function(r) return {x = soma.tensor(input(r, n, "int32"), "float32")} end)
      local inputs = {}
      for r = 0, 3 do inputs[r + 1] = input(r, n, "int32") end
      for r = 0, 3 do same(flat(runs[r].out.y), wants.all_reduce(inputs, 0, "add"), algorithm) end
      w:close()
    end
  end
end)

case("by halving and doubling a rank pushes once to each peer of a step, also what no number divides", function()
  for _, n in ipairs {4, 1001, 16385} do
    for _, p in pairs(programs("rdh", n)) do
      local pushes, sums = 0, 0
      for line in p:source():gmatch "[^\n]+" do
        if line:find "^dma .*%.rank%[" then pushes = pushes + 1 end
        if line:find "^dma .*op=add" then sums = sums + 1 end
      end
      eq({pushes, sums}, {4, 2}) -- two steps of each
    end
  end
end)

-- ---- soma.plan ------------------------------------------------------------------------------------

case("the program of a rank, of a program or of one collective, runs in its place", function()
  for _, op in ipairs {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"} do
    local planned, plain = {}, {}
    for r = 0, 3 do
      planned[r] = soma.plan {op = op, shape = {8, 64}, ranks = 4, rank = r, target = "trn1", algorithm = op ~= "all_to_all" and "ring" or nil}
      eq(planned[r]:source():find("section cc0", 1, true) ~= nil, true)
    end
    local function inputs(r) return {x = soma.full({8, 64}, r + 1)} end
    local runs = soma.world {ranks = 4, target = "trn1"}:run(planned, inputs)
    eq(runs.collectives[1].algorithm, "section")
    local y = runs[1].out.y
    if op == "all_reduce" or op == "reduce_scatter" then eq(y[0][0], 10.0) end
    if op == "all_gather" then eq({y.shape[1], y[0][0], y[31][0]}, {32, 1.0, 4.0}) end
    if op == "all_to_all" then eq({y[0][0], y[7][0]}, {1.0, 4.0}) end
  end
  local two = soma.plan {op = "all_reduce", shape = {4, 16}, dtype = "int32", reduce = "max", ranks = 2}
  eq(two:source():find("op=max", 1, true) ~= nil, true)
  eq(soma.plan {program = two, ranks = 2, rank = 1}:source():find("section cc0", 1, true) ~= nil, true) -- keeps its own blocks
end)

case("what soma.plan refuses", function()
  t.raises("did you mean 'all_reduce'?", soma.plan, {op = "allreduce", shape = {8}, ranks = 2})
  t.raises("option 'shape' is missing", soma.plan, {op = "all_reduce", ranks = 2})
  t.raises("'shape' has 8.5", soma.plan, {op = "all_reduce", shape = {8.5}, ranks = 2})
  t.raises("9 rows are not a multiple of 2 ranks", soma.plan, {op = "reduce_scatter", shape = {9}, ranks = 2})
  t.raises("the ranks are 0 to 1", soma.plan, {op = "all_reduce", shape = {8}, ranks = 2, rank = 2})
  t.raises("'ranks' is missing", soma.plan, {op = "all_reduce", shape = {8}})
  t.raises("unknown option 'algo'", soma.plan, {op = "all_reduce", shape = {8}, ranks = 2, algo = "ring"})
  t.raises("unknown algorithm 'rings'", soma.plan, {op = "all_reduce", shape = {8}, ranks = 2, algorithm = "rings"})
  t.raises("table of options", soma.plan, 3)
end)
t.finish()
