-- Random worlds of ranks: for each rank a program of collectives (and of what goes on beside them), its inputs, and
-- what its tensors hold in the end. make(seed) gives {options, source = by rank, inputs = by rank, want = by rank}.
-- Values are whole numbers that the type holds, so sums are exact in any order. A cell is half a row of a tensor:
-- a list of numbers that nobody changes, so moving rows moves references.
local random = math.random
local ROWS <const>, SUMS <const> = 24, 4 -- SUMS: at most so many of own_work
local folds = {add = function(a, b) return a + b end, max = math.max, min = math.min}
local most = {float32 = 2 ^ 23, int32 = 2 ^ 23, bfloat16 = 2 ^ 8, float16 = 2 ^ 11, int16 = 2 ^ 14}
local types = {"float32", "float32", "int32", "bfloat16", "float16", "int16"}

local function one_of(list) return list[random(#list)] end

local function shuffled(n)
  local list = {}
  for i = 1, n do table.insert(list, random(i), i - 1) end
  return list
end

-- ---- Regions: rows of a tensor, all columns or a half ----------------------------------------

local function overlap(a, b)
  return a.t == b.t and a.r0 < b.r0 + b.rows and b.r0 < a.r0 + a.rows and (a.seg == b.seg or a.seg == "all" or b.seg == "all")
end

local function cells(state, r)
  local list = {}
  for i = r.r0, r.r0 + r.rows - 1 do
    for half = r.seg == "right" and 2 or 1, r.seg == "left" and 1 or 2 do list[#list + 1] = {state[r.t], i, half} end
  end
  return list
end
local function read(state, r)
  local list = cells(state, r)
  for i, c in ipairs(list) do list[i] = c[1][c[2]][c[3]] end
  return list
end
local function write(state, r, values)
  for i, c in ipairs(cells(state, r)) do c[1][c[2]][c[3]] = values[i] end
end

local function text(w, r)
  local columns = r.seg == "left" and ", 0:" .. w.half or r.seg == "right" and (", %d:%d"):format(w.half, 2 * w.half) or ""
  return ("%s[%d:%d%s]"):format(r.t, r.r0, r.r0 + r.rows, columns)
end

-- A region of one of the tensors that meets none of `others`; nil: none was found.
local function pick(tensors, rows, seg, others)
  for _ = 1, 60 do
    local r, free = {t = one_of(tensors), r0 = random(0, ROWS - rows), rows = rows, seg = seg}, true
    for _, o in ipairs(others) do free = free and not overlap(r, o) end
    if free then return r end
  end
end

-- ---- What each operation does ------------------------------------------------------------------

local function fold(op, all)
  local out = {}
  for i = 1, #all[1] do
    local sum = all[1][i]
    for p = 2, #all do
      local row = {}
      for k, v in ipairs(sum) do row[k] = folds[op](v, all[p][i][k]) end
      sum = row
    end
    out[i] = sum
  end
  return out
end
local function part(v, p, k)
  local n = #v // k
  return table.move(v, p * n + 1, p * n + n, 1, {})
end

-- Rows of src and dst for m, and what the rank at place p (from 0) of k gets.
local forms = {
  all_reduce = {rows = function(m) return m, m end, fold = true, get = function(all, _, op) return fold(op, all) end},
  all_gather = {rows = function(m, k) return m, m * k end, get = function(all)
    local out = {}
    for _, v in ipairs(all) do table.move(v, 1, #v, #out + 1, out) end
    return out
  end},
  reduce_scatter = {rows = function(m, k) return m * k, m end, fold = true, get = function(all, p, op) return part(fold(op, all), p, #all) end},
  all_to_all = {rows = function(m, k) return m * k, m * k end, hbm = true, get = function(all, p)
    local out = {}
    for _, v in ipairs(all) do
      local mine = part(v, p, #all)
      table.move(mine, 1, #mine, #out + 1, out)
    end
    return out
  end},
  collective_permute_implicit = {rows = function(m) return m, m end, channels = true, get = function(all, p) return all[(p - 1) % #all + 1] end},
}
local names = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute_implicit"}

-- ---- One collective ------------------------------------------------------------------------------

-- Operands of one rank: n pairs of src and dst that do not meet; some in place.
local function operands(o, lane, place, k)
  local from, to = o.form.rows(o.m, k)
  local srcs, dsts, all = {}, {}, {}
  for i = 1, o.n do
    dsts[i] = pick(lane.written, to, o.seg, all)
    if not dsts[i] then return end
    all[#all + 1] = dsts[i]
  end
  for i = 1, o.n do
    local d = dsts[i]
    if o.in_place then -- all of dst, or the own part of it
      local at = from < to and place * from or 0
      srcs[i] = {t = d.t, r0 = d.r0 + at, rows = from, seg = o.seg}
    else
      srcs[i] = pick(lane.read, from, o.seg, all)
      if not srcs[i] then return end
    end
  end
  return srcs, dsts
end

local function list_text(w, regions)
  local list = {}
  for i, r in ipairs(regions) do list[i] = text(w, r) end
  return "[" .. table.concat(list, ", ") .. "]"
end

-- Lines of a rank; before them, a wait if what it touches is still in use.
local function emit(rank, lane, touched, lines)
  local out = lane.code[rank]
  local meets = random(4) == 1
  for _, r in ipairs(touched) do
    for _, o in ipairs(lane.open[rank]) do meets = meets or overlap(r, o) end
  end
  if meets then lane.settle(rank) end
  if random(8) == 1 then -- late
    lane.delays = lane.delays + 1
    local label = lane.name .. "late" .. lane.delays
    table.move({"mov r2, " .. random(4000), label .. ":", "sub r2, r2, 1", "bne r2, 0, " .. label}, 1, 4, #out + 1, out)
  end
  for _, line in ipairs(lines) do out[#out + 1] = line end
end

local function issue(w, rank, lane, o, srcs, dsts)
  local args = ", stream=" .. o.stream .. (o.fold and ", op=" .. o.fold or "") .. (lane.both and ", both=true" or "")
  local touched = table.move(srcs, 1, #srcs, #dsts + 1, table.move(dsts, 1, #dsts, 1, {}))
  if not o.sbuf then
    if o.channels then
      local channels = {}
      for i = 1, o.n do channels[i] = i - 1 end
      args = args .. ", channels=[" .. table.concat(channels, ", ") .. "]"
    end
    emit(rank, lane, touched, {("%s dsts=%s, srcs=%s, group=%s%s $done++"):format(o.name, list_text(w, dsts), list_text(w, srcs), o.group.name, args)})
    lane.opened(rank, touched)
    return
  end
  -- by way of two tiles
  local s, d, width = srcs[1], dsts[1], o.seg == "all" and 2 * w.half or w.half
  local a = ("ta[0:%d, 0:%d]"):format(s.rows, width)
  local b = ("tb[0:%d, 0:%d]"):format(d.rows, width)
  if o.dim == 1 then b, args = ("tb[0:%d, 0:%d]"):format(s.rows, width * d.rows // s.rows), args .. ", dim=1" end
  lane.settle(rank)
  local lines = {"dma_copy " .. a .. ", " .. text(w, s) .. ", queue=q $moved", "event_semaphore $moved>=16 $moved-=16",
    ("%s dsts=[%s], srcs=[%s], group=%s%s $done++"):format(o.name, b, a, o.group.name, args), "event_semaphore $done>=1 $done--"}
  local pieces = o.dim == 1 and d.rows // s.rows or 1
  for p = 0, pieces - 1 do
    local from, to = b, d
    if o.dim == 1 then
      from = ("tb[0:%d, %d:%d]"):format(s.rows, p * width, (p + 1) * width)
      to = {t = d.t, r0 = d.r0 + p * s.rows, rows = s.rows, seg = d.seg}
    end
    lines[#lines + 1] = "dma_copy " .. text(w, to) .. ", " .. from .. ", queue=q $moved"
  end
  lines[#lines + 1] = ("event_semaphore $moved>=%d $moved-=%d"):format(16 * pieces, 16 * pieces)
  emit(rank, lane, touched, lines)
end

-- Whether values may grow so many times in each round of the loop.
local function grows(w, lane, by)
  local now = w.bound[lane.name] * by ^ lane.times
  if now > most[w.dtype] then return false end
  w.bound[lane.name] = now
  return true
end

local function collective(w, lane)
  local g = one_of(w.groups)
  local o = {name = one_of(names), group = g, m = random(2), n = random(3) == 1 and random(2, 3) or 1, seg = one_of {"all", "all", "left", "right"}, stream = random(0, 1)}
  o.form = forms[o.name]
  o.channels = o.form.channels
  o.fold = o.form.fold and (grows(w, lane, #g.lists[1]) and "add" or one_of {"max", "min"}) or nil
  o.in_place = (o.name == "all_reduce" or o.name == "all_gather") and random(4) == 1
  o.sbuf = not o.form.hbm and not lane.both and random(3) == 1
  if o.sbuf then o.n, o.in_place, o.channels, o.m = 1, false, false, random(3) end
  o.dim = o.sbuf and o.name == "all_gather" and random(0, 1) or 0
  local by_rank = {}
  for _, list in ipairs(g.lists) do
    local k = #list
    if ROWS < o.m * k then return end
    for place, r in ipairs(list) do
      local srcs, dsts = operands(o, lane, place - 1, k)
      if not srcs then return end
      by_rank[r] = {srcs, dsts}
    end
  end
  for r, x in pairs(by_rank) do issue(w, r, lane, o, x[1], x[2]) end
  lane.does(function(states)
    for _, list in ipairs(g.lists) do
      local got = {}
      for i = 1, o.n do
        local all = {}
        for p, r in ipairs(list) do all[p] = read(states[r], by_rank[r][1][i]) end
        for p in ipairs(list) do got[#got + 1] = {p, i, o.form.get(all, p - 1, o.fold)} end
      end
      for _, x in ipairs(got) do write(states[list[x[1]]], by_rank[list[x[1]]][2][x[2]], x[3]) end
    end
  end)
  return true
end

-- Of pairs; ranks in none have it too, or not.
local function permute(w, lane)
  local to, pairs_, seg, rows, stream = shuffled(w.ranks), {}, one_of {"all", "left", "right"}, random(4), random(0, 1)
  local from, inside = shuffled(w.ranks), {}
  for i = 1, random(w.ranks) do
    pairs_[i] = ("[%d, %d]"):format(from[i], to[i])
    inside[from[i]], inside[to[i]] = true, true
  end
  local n, by_rank, outsiders = #pairs_, {}, random(2) == 1
  for r = 0, w.ranks - 1 do
    local dst = pick(lane.written, rows, seg, {})
    local src = pick(lane.read, rows, seg, {dst})
    if not src then return end
    by_rank[r] = {src, dst}
  end
  for r = 0, w.ranks - 1 do
    local src, dst = by_rank[r][1], by_rank[r][2]
    if outsiders or inside[r] then
      emit(r, lane, {src, dst}, {("collective_permute dsts=[%s], srcs=[%s], pairs=[%s], stream=%d%s $done++"):format(text(w, dst), text(w, src),
        table.concat(pairs_, ", "), stream, lane.both and ", both=true" or "")})
      lane.opened(r, {src, dst})
    end
  end
  lane.does(function(states)
    local sent = {}
    for i = 1, n do sent[i] = read(states[from[i]], by_rank[from[i]][1]) end
    for i = 1, n do write(states[to[i]], by_rank[to[i]][2], sent[i]) end
  end)
  return true
end

-- Sends op(src0, src1) to the next place, of each channel.
local function permute_reduce(w, lane)
  local g, seg, rows, stream, by_rank = one_of(w.groups), one_of {"all", "left"}, random(4), random(0, 1), {}
  local op, n = grows(w, lane, 2) and "add" or "max", random(3) == 1 and random(2, 4) or 1
  if n > 1 then rows = random(2) end
  for _, list in ipairs(g.lists) do
    for _, r in ipairs(list) do
      local x, all = {{}, {}, {}}, {}
      for i = 1, n do
        x[3][i] = pick(lane.written, rows, seg, all)
        all[#all + 1] = x[3][i]
        if #all < i then return end
      end
      for i = 1, 2 * n do
        local src = pick(lane.read, rows, seg, x[3])
        if not src then return end
        x[i > n and 2 or 1][(i - 1) % n + 1] = src
        all[#all + 1] = src
      end
      by_rank[r] = {x, all}
    end
  end
  local channels = n > 1 and (", channels=[%s]"):format(table.concat({0, 1, 2, 3}, ", ", 1, n)) or ""
  for r, y in pairs(by_rank) do
    local x = y[1]
    emit(r, lane, y[2], {("collective_permute_implicit_reduce dsts=%s, srcs0=%s, srcs1=%s, group=%s, op=%s, stream=%d%s%s $done++"):format(list_text(w, x[3]),
      list_text(w, x[1]), list_text(w, x[2]), g.name, op, stream, channels, lane.both and ", both=true" or "")})
    lane.opened(r, y[2])
  end
  lane.does(function(states)
    for _, list in ipairs(g.lists) do
      for i = 1, n do
        local sent = {}
        for p, r in ipairs(list) do sent[p] = fold(op, {read(states[r], by_rank[r][1][1][i]), read(states[r], by_rank[r][1][2][i])}) end
        for p, r in ipairs(list) do write(states[r], by_rank[r][1][3][i], sent[(p - 2) % #list + 1]) end
      end
    end
  end)
  return true
end

-- As many cells as metadata says, which each rank has as an input; on trn3 some to places that the receiver chooses.
local function counted(w, lane)
  local g, stream, by_rank, slot, from = one_of(w.groups), random(0, 1), {}, random(2), random(3)
  local k = #g.lists[1]
  local gathers, placed = k == 4 and random(2) == 1, false
  if not gathers then placed = w.target == "trn3" and random(2) == 1 end
  if k * slot > ROWS then return end
  for _, list in ipairs(g.lists) do
    for _, r in ipairs(list) do
      local dst = pick(lane.written, k * slot, "all", {})
      local src = pick(lane.read, from, "all", {dst})
      if not src then return end
      by_rank[r] = {src, dst, counts = {}, from = {}, to = shuffled(k)}
      for p = 1, k do
        local most = math.min(2 * slot, 2 * src.rows)
        by_rank[r].counts[p] = random(0, most)
        by_rank[r].from[p] = random(0, 2 * src.rows - by_rank[r].counts[p])
        by_rank[r].to[p] = 2 * slot * by_rank[r].to[p]
      end
    end
  end
  w.metadata = w.metadata + 1
  local name = "m" .. w.metadata
  for r, x in pairs(by_rank) do
    local m = {dtype = "uint32", shape = {placed and 4 or 3, k}}
    for p = 1, k do m[p], m[k + p], m[2 * k + p], m[3 * k + p] = x.counts[p] * w.half, x.from[p] * w.half, 0, placed and x.to[p] * w.half or nil end
    w.rows_of[r][name] = m
    local touched = {x[1], x[2]}
    emit(r, lane, touched, {("%s dsts=[%s], srcs=[%s], group=%s, metadata=%s, stream=%d%s%s%s $done++"):format(gathers and "all_gather_v" or "all_to_all_v", text(w, x[2]),
      text(w, x[1]), g.name, name, stream, placed and ", has_rdispls=true" or "", random(2) == 1 and ", recv_counts_known=true" or "", lane.both and ", both=true" or "")})
    lane.opened(r, touched)
  end
  lane.does(function(states)
    for _, list in ipairs(g.lists) do
      local sent = {}
      for p, r in ipairs(list) do sent[p] = read(states[r], by_rank[r][1]) end
      for p, r in ipairs(list) do
        local x = by_rank[r]
        local got = read(states[r], x[2])
        for s, sender in ipairs(list) do
          local y, column = by_rank[sender], gathers and 1 or p
          table.move(sent[s], y.from[column] + 1, y.from[column] + y.counts[column], (placed and x.to[s] or 2 * slot * (s - 1)) + 1, got)
        end
        write(states[r], x[2], got)
      end
    end
  end)
  return true
end

-- A rank's own work on what collectives move.
local function own_work(w, lane)
  if lane.both or lane.sums == SUMS then return end
  local r, rows, seg = random(0, w.ranks - 1), random(4), one_of {"all", "left", "right"}
  local dst = pick(lane.written, rows, seg, {})
  local a, b = pick(lane.read, rows, seg, {dst}), pick(lane.read, rows, seg, {dst})
  if not a or not b then return end
  local op = grows(w, lane, 2) and "add" or "min"
  lane.settle(r)
  lane.sums = lane.sums + 1
  emit(r, lane, {}, {("dma_compute %s, srcs=[%s, %s], op=%s, queue=qn%d $moved"):format(text(w, dst), text(w, a), text(w, b), op, lane.sums), "event_semaphore $moved>=16 $moved-=16"})
  lane.does(function(states) write(states[r], dst, fold(op, {read(states[r], a), read(states[r], b)})) end)
  return true
end

-- ---- A world ---------------------------------------------------------------------------------------

-- Groups of whole devices, `each` ranks of one, whose ranks stand together: kangaring takes no others.
local function device_groups(n, each)
  local list = {}
  for i = 1, random(3) do
    local ranks, parts = {}, {}
    local devices = shuffled(n // each)
    if #devices > 2 and random(3) == 1 then devices[#devices] = nil end
    for _, d in ipairs(devices) do
      for _, k in ipairs(shuffled(each)) do ranks[#ranks + 1] = d * each + k end
    end
    local cut = #ranks % (2 * each) == 0 and random(3) == 1 and #ranks // 2 or #ranks
    local lists = {table.move(ranks, 1, cut, 1, {}), cut < #ranks and table.move(ranks, cut + 1, #ranks, 1, {}) or nil}
    for k, l in ipairs(lists) do parts[k] = "[" .. table.concat(l, ", ") .. "]" end
    list[i] = {name = "g" .. i, lists = lists, line = ("g%d group [%s]"):format(i, table.concat(parts, ", "))}
  end
  return list
end

-- Groups of all ranks, of two parts, or of some of them, in any order.
local function groups(n)
  local list = {}
  for i = 1, random(3) do
    local ranks, lists = shuffled(n), {}
    local cut = n % 2 == 0 and random(3) == 1 and n // 2 or nil
    if cut then
      lists = {table.move(ranks, 1, cut, 1, {}), table.move(ranks, cut + 1, n, 1, {})}
    else
      lists = {random(3) == 1 and table.move(ranks, 1, random(n), 1, {}) or ranks}
    end
    local parts = {}
    for k, l in ipairs(lists) do parts[k] = "[" .. table.concat(l, ", ") .. "]" end
    list[i] = {name = "g" .. i, lists = lists, line = ("g%d group [%s]"):format(i, table.concat(parts, ", "))}
  end
  return list
end

local function new_lane(w, name, core, both)
  local lane = {name = name, core = core, both = both, code = {}, open = {}, waits = {}, times = 1, segments = {}, sums = 0, delays = 0}
  lane.read = {name .. "x", name .. "a", name .. "b", name .. "c", name .. "d"}
  lane.written = table.move(lane.read, 2, 5, 1, {})
  for r = 0, w.ranks - 1 do lane.code[r], lane.open[r], lane.waits[r] = {}, {}, 0 end
  function lane.settle(r)
    if lane.waits[r] > 0 then table.insert(lane.code[r], ("event_semaphore $done>=%d $done-=%d"):format(lane.waits[r], lane.waits[r])) end
    lane.open[r], lane.waits[r] = {}, 0
  end
  function lane.opened(r, touched)
    table.move(touched, 1, #touched, #lane.open[r] + 1, lane.open[r])
    lane.waits[r] = lane.waits[r] + 1
  end
  function lane.does(f) table.insert(lane.segments[#lane.segments].does, f) end
  return lane
end

-- Some operations in a row, in some worlds in a loop.
local function segment(w, lane)
  lane.times = random(3) == 1 and random(2, 4) or 1
  lane.segments[#lane.segments + 1] = {times = lane.times, does = {}}
  local label = ("%s%d"):format(lane.name, #lane.segments)
  for r = 0, w.ranks - 1 do
    lane.settle(r)
    if lane.times > 1 then table.move({"mov r1, " .. lane.times, label .. ":"}, 1, 2, #lane.code[r] + 1, lane.code[r]) end
  end
  for _ = 1, random(4) do one_of {collective, collective, collective, collective, permute, permute_reduce, counted, own_work}(w, lane) end
  for r = 0, w.ranks - 1 do
    lane.settle(r)
    if lane.times > 1 then table.move({"sub r1, r1, 1", "bne r1, 0, " .. label}, 1, 2, #lane.code[r] + 1, lane.code[r]) end
  end
end

-- Loads and sums beside the collectives, in loops of a length of the rank's own.
local beside = [==[
section vector core=CORE
memset v, 0.0
mov r1, TURNS
again: tensor_scalar v, v, op0=add, imm0=1.0
sub r1, r1, 1
bne r1, 0, again
tensor_scalar v, v, op0=add, imm0=0.0 $counted++
halt
section sync core=CORE
mov r1, LOADS
again: dma_copy u, LANEx, queue=qu $loaded
event_semaphore $loaded>=16 $loaded-=16
sub r1, r1, 1
bne r1, 0, again
nop $counted>=1
dma_copy LANEv, v, queue=quv $loaded
nop $loaded>=16
halt
]==]

local function source_of(w, r, lanes, wanted)
  local out = {"target " .. w.target}
  local function put(fmt, ...) out[#out + 1] = fmt:format(...) end
  for _, g in ipairs(w.groups) do put("%s", g.line) end
  for i = 1, w.metadata do
    local m = w.rows_of[r]["m" .. i] -- one of another rank's list: nothing reads it
    if m then put("m%d tensor uint32[%d, %d], input", i, m.shape[1], m.shape[2]) end
  end
  for _, lane in ipairs(lanes) do
    put("%sx tensor %s[%d, %d], input", lane.name, w.dtype, ROWS, 2 * w.half)
    for _, t in ipairs(lane.written) do put("%s tensor %s[%d, %d], output", t, w.dtype, ROWS, 2 * w.half) end
    if not lane.both then put("%sv tensor float32[64, 8], output", lane.name) end
  end
  local cores = w.lnc == 2 and " core=*" or ""
  for _, s in ipairs {"done", "moved", "loaded", "counted"} do put("%s sem%s", s, cores) end
  local dge = w.target == "trn1" and "none" or "hwdge"
  for _, q in ipairs {"q queue dge=swdge", "qu queue dge=" .. dge, "quv queue dge=" .. dge} do put("%s%s", q, w.lnc == 2 and ", core=*" or "") end
  -- a queue of its own for each, so that in a loop the next transfer is the same
  for i = 1, SUMS do put("qn%d queue dge=none%s", i, w.lnc == 2 and ", core=*" or "") end
  put("ta tile sbuf %s[%d, %d]\ntb tile sbuf %s[%d, %d]", w.dtype, ROWS, 2 * w.half, w.dtype, ROWS, 2 * w.half * 8)
  put("u tile sbuf %s[%d, %d]\nv tile sbuf float32[64, 8]", w.dtype, ROWS, 2 * w.half)
  for core = 0, w.lnc - 1 do
    put("section gpsimd core=%d", core)
    for _, lane in ipairs(lanes) do
      if lane.core == core or lane.both then put("%s", table.concat(lane.code[r], "\n")) end
    end
    put("halt")
    local turns = random(40)
    put("%s", (beside:gsub("%u+", {CORE = core, TURNS = turns, LOADS = random(6), LANE = lanes[core + 1].name})))
    wanted[lanes[core + 1].name .. "v"] = turns
  end
  return table.concat(out, "\n") .. "\n"
end

local function new_state(w, lanes)
  local state, inputs = {}, {}
  local limit = w.dtype == "int32" and 100 or 8
  for _, lane in ipairs(lanes) do
    for _, t in ipairs(lane.read) do
      local rows, all = {}, {}
      for i = 0, ROWS - 1 do
        rows[i] = {{}, {}}
        for half = 1, 2 do
          for k = 1, w.half do
            local v = t == lane.read[1] and random(-limit, limit) or 0
            rows[i][half][k] = v
            all[#all + 1] = v
          end
        end
      end
      state[t] = rows
      if t == lane.read[1] then inputs[t] = all end
    end
    w.bound[lane.name] = limit
  end
  return state, inputs
end

local function make(seed)
  math.randomseed(seed)
  local w = {ranks = random(8), target = one_of {"trn1", "trn2", "trn2", "trn3"}, dtype = one_of(types), bound = {}, metadata = 0, rows_of = {}}
  w.lnc = w.target ~= "trn1" and random(2) or 1
  local paired = random(5) == 1
  if paired then w.ranks = w.target == "trn1" and 2 * random(2, 4) or 8 // w.lnc end
  w.half = random(8) == 1 and random(400, 2400) or random(24)
  w.groups = paired and device_groups(w.ranks, w.target == "trn1" and 2 or w.ranks) or groups(w.ranks)
  local lanes = {new_lane(w, "p", 0, false)}
  if w.lnc == 2 then lanes[2], lanes[3] = new_lane(w, "q", 1, false), new_lane(w, "s", 0, true) end
  local states, source, inputs, turns = {}, {}, {}, {}
  for r = 0, w.ranks - 1 do
    states[r], inputs[r] = new_state(w, lanes)
    w.rows_of[r] = inputs[r]
  end
  for _, lane in ipairs(lanes) do
    for _ = 1, random(3) do segment(w, lane) end
    for _, s in ipairs(lane.segments) do
      for _ = 1, s.times do
        for _, f in ipairs(s.does) do f(states) end
      end
    end
  end
  for r = 0, w.ranks - 1 do
    turns[r] = {}
    source[r] = source_of(w, r, lanes, turns[r])
  end
  return {options = {ranks = w.ranks, lnc = w.lnc, target = w.target, algorithm = paired and "kangaring" or one_of {false, "ring", "mesh", "mesh-single", "rdh"} or nil},
    dtype = w.dtype, rows = ROWS, columns = 2 * w.half, source = source, inputs = inputs, want = states, turns = turns}
end
return make
