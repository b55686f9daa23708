-- Collectives: each operation, type and engine, from and to HBM and SBUF, on worlds of two to four ranks. The first
-- dimension of a case's tensors is the rank. Data that only moves are any bits. Sums are of any values between two
-- ranks, where every order gives the same rounding, and of small whole numbers between more.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"
local M = {}

local engines = {"tensor", "vector", "scalar", "gpsimd", "sync"}
local algorithms = {"auto", "ring", "mesh", "mesh-single", "rdh"}
-- By the number of ranks: groups whose lists are not in the order of ranks; of four, two lists at once as well.
local groups = {[2] = {{{1, 0}}}, [3] = {{{2, 0, 1}}}, [4] = {{{2, 0, 3, 1}}, {{3, 0}, {1, 2}}}}

local function group_line(lists)
  local parts = {}
  for i, l in ipairs(lists) do parts[i] = "[" .. table.concat(l, ",") .. "]" end
  return "tp group [" .. table.concat(parts, ",") .. "]\n"
end

-- The list of a rank and its place in it, from 1.
local function place_of(lists, rank)
  for _, list in ipairs(lists) do
    for place, r in ipairs(list) do if r == rank then return list, place end end
  end
end

-- n elements of any bits for each of so many ranks, as strings.
local function bits(dtype, ranks, n, seed)
  local size, all = ref.bytes(dtype), {}
  for _, d in ipairs(soma.isa.dtypes) do if d.name == dtype then size = d.bytes end end
  for r = 0, ranks - 1 do
    all[r] = {}
    for i = 1, n do
      local x = (i + 1000 * r + 77 * seed) * 0x9E3779B97F4A7C15
      x = dtype == "bool" and (x >> 40) & 1 or x
      all[r][i] = string.pack("<I8", x):sub(1, size)
    end
  end
  return all
end
local function tensor(by_rank, dtype, ranks, shape)
  local all = {}
  for r = 0, ranks - 1 do all[r + 1] = table.concat(by_rank[r]) end
  return soma.frombytes(table.concat(all), dtype, {ranks, table.unpack(shape)})
end

local function join(a, b) return table.move(b, 1, #b, #a + 1, a) end
local function part(v, i, n) return table.move(v, (i - 1) * #v // n + 1, i * #v // n, 1, {}) end

-- What place p (from 1) of a list gets of the data of its places.
local gets = {
  all_gather = function(data)
    local out = {}
    for _, v in ipairs(data) do join(out, v) end
    return out
  end,
  all_to_all = function(data, p)
    local out = {}
    for _, v in ipairs(data) do join(out, part(v, p, #data)) end
    return out
  end,
  collective_permute_implicit = function(data, p) return data[(p - 2) % #data + 1] end,
  all_reduce = function(data, _, f)
    local out = data[1]
    for p = 2, #data do out = f(out, data[p]) end
    return out
  end,
}
function gets.reduce_scatter(data, p, f) return part(gets.all_reduce(data, p, f), p, #data) end
-- srcs1 are srcs0 of the place before that
function gets.collective_permute_implicit_reduce(data, p, f) return f(data[(p - 2) % #data + 1], data[(p - 3) % #data + 1]) end

local function want(insn, all, lists, ranks, f)
  local out = {}
  for r = 0, ranks - 1 do
    local list, p = place_of(lists, r)
    local data = {}
    for i, q in ipairs(list) do data[i] = all[q] end
    out[r] = gets[insn](data, p, f)
  end
  return out
end

-- Numbers of a type, as strings, and the operator on lists of them.
local function numbers(dtype, ranks, n, seed)
  local all = {}
  for r = 0, ranks - 1 do
    local v = {}
    for i = 1, n do v[i] = dtype == "bool" and (i + r) % 2 or (i * 7 + r * 5 + i // 3) % (ranks < 3 and 9 or 4) end
    if ranks == 2 then v = (r == 0 and ref.values or ref.shuffled)(n, seed) end
    all[r] = {}
    for i, x in ipairs(v) do all[r][i] = string.pack("<I" .. ref.bytes(dtype), ref.encode(dtype, x)) end
  end
  return all
end
local function operator(op, dtype)
  local fmt = "<I" .. ref.bytes(dtype)
  return function(a, b)
    return util.map(function(x, y)
      local v = ref.ops[op](ref.decode(dtype, (string.unpack(fmt, x))), ref.decode(dtype, (string.unpack(fmt, y))))
      return string.pack(fmt, ref.encode(dtype, v))
    end, a, b)
  end
end

-- One case. o: insn, dtype, ranks, lists, engine, sbuf, dim, op, algorithm, cores (2: both=true).
local function collective(suite, o)
  local n, rows, to_rows = #o.lists[1], o.rows or 4, o.rows or 4
  if o.insn == "all_to_all" or o.insn == "reduce_scatter" then rows = 2 * n end
  to_rows = rows
  if o.insn == "all_gather" and o.dim ~= 1 then to_rows = rows * n end
  if o.insn == "reduce_scatter" then to_rows = 2 end
  local columns = 7
  local to_columns = o.dim == 1 and columns * n or columns
  local all = o.op and numbers(o.dtype, o.ranks, rows * columns, o.seed) or bits(o.dtype, o.ranks, rows * columns, o.seed)
  local f = o.op and operator(o.op, o.dtype)
  local out = want(o.insn, all, o.lists, o.ranks, f)
  if o.dim == 1 then -- columns of the ranks, one after another
    for r = 0, o.ranks - 1 do
      local turned = {}
      for i = 0, rows - 1 do
        for p = 0, n - 1 do table.move(out[r], (p * rows + i) * columns + 1, (p * rows + i + 1) * columns, #turned + 1, turned) end
      end
      out[r] = turned
    end
  end
  local before = {}
  for r = 0, o.ranks - 1 do
    local list, p = place_of(o.lists, r)
    before[r] = all[list[(p - 2) % n + 1]]
  end
  local inputs, hbm = {a = tensor(all, o.dtype, o.ranks, {rows, columns})}, {}
  local reduces_two = o.insn == "collective_permute_implicit_reduce"
  if reduces_two then inputs.b = tensor(before, o.dtype, o.ranks, {rows, columns}) end
  if not o.sbuf then for name in pairs {a = 1, b = 1, o = 1} do hbm[name] = true end end
  local src, dst = o.sbuf and "a" or "in_a", o.sbuf and "o" or "out_o"
  local args = reduces_two and ("srcs0=[%s], srcs1=[%s]"):format(src, o.sbuf and "b" or "in_b") or "srcs=[" .. src .. "]"
  if o.op then args = args .. ", op=" .. o.op end
  if o.dim == 1 then args = args .. ", dim=1" end
  if o.cores then args = args .. ", both=true" end
  if o.args then args = args .. o.args end
  if o.cores then -- one operation of the rank: both cores see its tensors
    for _, t in ipairs {"a", "b"} do inputs[t] = inputs[t] and inputs[t]:reshape {o.ranks, 1, rows, columns} end
    src, dst = "in_a[0]", "out_o[0]"
    args = args:gsub("in_(%w)%]", "in_%1[0]]")
  end
  local shape = {o.ranks, to_rows, to_columns}
  if o.cores then shape = {o.ranks, 1, to_rows, to_columns} end
  local expect = tensor(out, o.dtype, o.ranks, {table.unpack(shape, 2)})
  suite:case {
    insn = o.insn, engine = o.engine, ranks = o.ranks, cores = o.cores, algorithm = o.algorithm, hbm = hbm, inputs = inputs,
    name = ("%s%s of %d ranks %s%s in %s by %s on %s"):format(o.op and o.op .. " " or "", o.dtype, o.ranks, group_line(o.lists):match "%[.*%]",
      o.cores and ", both cores" or "", o.sbuf and "sbuf" .. (o.dim and ", dim=" .. o.dim or "") or "hbm", o.algorithm, o.engine),
    outputs = {o = {o.dtype, shape}}, expect = {o = expect}, extra = group_line(o.lists) .. "done sem" .. (o.cores and " core=*" or ""),
    targets = o.targets or o.cores and util.since(3) or nil,
    body = (" %s dsts=[%s], %s, group=tp $done++\n nop $done>=1"):format(o.insn, dst, args),
  }
end

-- Every type, engine, algorithm and memory, in turn.
local function of_types(suite)
  local k = 0
  local function each(insn, dtype, op, memories)
    k = k + 1
    local ranks = k % 3 + 2
    if op then ranks = k % 2 == 0 and 2 or ranks end
    local lists = groups[ranks][k // 3 % #groups[ranks] + 1]
    local memory = memories[k % #memories + 1]
    collective(suite, {insn = insn, dtype = dtype, op = op, ranks = ranks, lists = lists, engine = engines[k % 5 + 1], seed = k,
      algorithm = algorithms[k // 5 % 5 + 1], sbuf = memory ~= "hbm", dim = memory == "columns" and 1 or nil})
  end
  for _, d in ipairs(soma.isa.dtypes) do
    if d.bytes < 8 then
      for _ = 1, 2 do each("all_gather", d.name, nil, {"hbm", "sbuf", "columns"}) end
      each("all_to_all", d.name, nil, {"hbm"})
      each("collective_permute_implicit", d.name, nil, {"hbm", "sbuf"})
    end
  end
  for _, d in ipairs(ref.types) do
    for _, op in ipairs {"add", "min", "max"} do
      for _, insn in ipairs {"all_reduce", "reduce_scatter", "collective_permute_implicit_reduce"} do each(insn, d, op, {"hbm", "sbuf"}) end
    end
  end
  -- what the turns above may have left out
  for i, insn in ipairs {"all_gather", "all_to_all", "collective_permute_implicit", "all_reduce", "reduce_scatter", "collective_permute_implicit_reduce"} do
    for e, engine in ipairs(engines) do
      local o = {insn = insn, dtype = "float32", op = i > 3 and "add" or nil, ranks = 3, lists = groups[3][1], engine = engine, algorithm = algorithms[e], seed = e}
      collective(suite, o)
      o.cores, o.ranks, o.lists = 2, e % 2 == 0 and 2 or 4, e % 2 == 0 and groups[2][1] or groups[4][2]
      collective(suite, o)
    end
    collective(suite, {insn = insn, dtype = "float32", op = i > 3 and "add" or nil, ranks = 2, lists = groups[2][1], engine = "sync", algorithm = "auto",
      seed = 1, args = ", prio=2", targets = util.since(4)})
  end
  -- pairs of ranks of a device, one device after another
  for i, insn in ipairs {"all_gather", "all_reduce", "reduce_scatter"} do
    for k, dtype in ipairs {"float32", "bfloat16", "int32"} do
      local o = {insn = insn, dtype = dtype, op = i > 1 and ({"add", "max", "min"})[k] or nil, ranks = 8, lists = {{2, 3, 1, 0, 6, 7, 5, 4}},
        engine = engines[k + 1], algorithm = "kangaring", seed = 10 * i + k, sbuf = k == 2}
      collective(suite, o)
      o.cores, o.ranks, o.lists, o.sbuf = 2, 4, groups[4][1], false
      collective(suite, o)
    end
  end
end

-- Several operands at once, in place, strided, channels, and a group of one rank.
local function of_operands(suite)
  local function case(insn, name, ranks, lists, shape, body, f, more)
    local all, out = numbers("float32", ranks, shape[1] * shape[2], 5), {}
    for r = 0, ranks - 1 do
      local v = {}
      for i = 1, #all[r] do v[i] = (i * 3 + r * 7) % 11 + 0.0 end
      all[r] = v
    end
    for r = 0, ranks - 1 do
      local list, p = place_of(lists, r)
      local data = {}
      for i, q in ipairs(list) do data[i] = all[q] end
      out[r] = f(data, p)
    end
    local a, o = {}, {}
    for r = 0, ranks - 1 do join(a, all[r]) join(o, out[r]) end
    local to = more or shape
    suite:case {
      insn = insn, name = name, engine = "gpsimd", ranks = ranks, hbm = {a = true, o = true}, inputs = {a = ref.tensor(a, "float32", {ranks, table.unpack(shape)})},
      outputs = {o = {"float32", {ranks, table.unpack(to)}}}, expect = {o = ref.tensor(o, "float32", {ranks, table.unpack(to)})},
      extra = group_line(lists) .. "done sem\nmoved sem\nw queue dge=none", body = body,
    }
  end
  local function sum(a, b) return util.map(function(x, y) return x + y end, a, b) end
  local function total(data)
    local s = data[1]
    for p = 2, #data do s = sum(s, data[p]) end
    return s
  end
  local three = groups[3][1]
  case("all_reduce", "three operands at once", 3, three, {6, 8},
    " all_reduce dsts=[out_o[4:6], out_o[0:2], out_o[2:4]], srcs=[in_a[4:6], in_a[0:2], in_a[2:4]], group=tp, op=add $done++\n nop $done>=1", total)
  case("all_gather", "two operands at once, of different sizes", 3, three, {3, 8},
    " all_gather dsts=[out_o[0:3], out_o[3:9]], srcs=[in_a[0], in_a[1:3]], group=tp $done++\n nop $done>=1", function(data)
      local out = {}
      for _, v in ipairs(data) do table.move(v, 1, 8, #out + 1, out) end
      for _, v in ipairs(data) do table.move(v, 9, 24, #out + 1, out) end
      return out
    end, {9, 8})
  case("all_reduce", "in place", 3, three, {6, 8},
    " dma_copy out_o, in_a, queue=w $moved\n nop $moved>=16\n all_reduce dsts=[out_o], srcs=[out_o], group=tp, op=add $done++\n nop $done>=1", total)
  case("all_reduce", "columns of a tensor into others; the rest stays", 3, three, {6, 8},
    " all_reduce dsts=[out_o[:, 1:4]], srcs=[in_a[:, 4:7]], group=tp, op=add $done++\n nop $done>=1", function(data)
      local s, out = total(data), {}
      for i = 0, 5 do for k = 0, 7 do out[#out + 1] = k >= 1 and k < 4 and s[i * 8 + k + 4] or 0.0 end end
      return out
    end)
  case("all_to_all", "rows in another order", 4, groups[4][1], {8, 8},
    " all_to_all dsts=[out_o.ap([[-8, 8], [1, 8]], offset=56)], srcs=[in_a], group=tp $done++\n nop $done>=1", function(data, p)
      local got, out = gets.all_to_all(data, p), {}
      for i = 7, 0, -1 do table.move(got, i * 8 + 1, i * 8 + 8, #out + 1, out) end
      return out
    end)
  for insn, op in pairs {all_reduce = "add", reduce_scatter = "max", all_gather = false, all_to_all = false, collective_permute_implicit = false} do
    case(insn, "lists of one rank: a copy", 3, {{0}, {1}, {2}}, {4, 8},
      (" %s dsts=[out_o], srcs=[in_a], group=tp%s $done++\n nop $done>=1"):format(insn, op and ", op=" .. op or ""), function(data) return data[1] end)
  end
  for channels = 1, 4 do
    local dsts, srcs, list = {}, {}, {}
    for i = 1, channels do dsts[i], srcs[i], list[i] = ("out_o[%d]"):format(i - 1), ("in_a[%d]"):format(i - 1), i - 1 end
    case("collective_permute_implicit", channels .. " channels", 4, groups[4][1], {channels, 8},
      (" collective_permute_implicit dsts=[%s], srcs=[%s], group=tp, channels=[%s] $done++\n nop $done>=1"):format(table.concat(dsts, ", "),
        table.concat(srcs, ", "), table.concat(list, ", ")), function(data, p) return data[(p - 2) % 4 + 1] end)
    case("collective_permute_implicit_reduce", channels .. " channels", 4, groups[4][1], {channels, 8},
      (" collective_permute_implicit_reduce dsts=[%s], srcs0=[%s], srcs1=[%s], group=tp, channels=[%s], op=add $done++\n nop $done>=1"):format(
        table.concat(dsts, ", "), table.concat(srcs, ", "), table.concat(srcs, ", "), table.concat(list, ", ")), function(data, p)
        return sum(data[(p - 2) % 4 + 1], data[(p - 2) % 4 + 1])
      end)
  end
  case("all_reduce", "again and again, before the other ranks are there", 4, groups[4][2], {4, 8}, [==[
 rank_id r1
 mul r1, r1, 3000
late: sub r1, r1, 1
 bge r1, 0, late
 mov r2, 5
again:
 all_reduce dsts=[out_o], srcs=[in_a], group=tp, op=add, stream=1 $done++
 event_semaphore $done>=1 $done--
 sub r2, r2, 1
 bne r2, 0, again]==], total)
end

-- By pairs; a rank that is no target keeps what it has.
local function permutes(suite)
  local k = 0
  local function case(dtype, ranks, pairs_, cores)
    k = k + 1
    local all, old, out, list = bits(dtype, ranks, 40, k), bits(dtype, ranks, 40, k + 500), {}, {}
    for r = 0, ranks - 1 do out[r] = old[r] end
    for i, p in ipairs(pairs_) do
      out[p[2]] = all[p[1]]
      list[i] = ("[%d, %d]"):format(p[1], p[2])
    end
    local shape = cores and {1, 5, 8} or {5, 8}
    suite:case {
      insn = "collective_permute", name = ("%s by pairs %s%s"):format(dtype, table.concat(list), cores and " of both cores" or ""), engine = engines[k % 5 + 1],
      ranks = ranks, cores = cores, hbm = {a = true, b = true, o = true}, targets = cores and util.since(3) or nil,
      inputs = {a = tensor(all, dtype, ranks, shape), b = tensor(old, dtype, ranks, shape)}, outputs = {o = {dtype, {ranks, table.unpack(shape)}}},
      expect = {o = tensor(out, dtype, ranks, shape)}, extra = ("done sem%s\nmoved sem%s"):format(cores and " core=*" or "", cores and " core=*" or ""),
      body = (" %score_barrier 99\n collective_permute dsts=[out_o], srcs=[in_a], pairs=[%s]%s $done++\n nop $done>=1"):format(
        "dma_copy out_o, in_b, queue=q_ $moved\n nop $moved>=16\n ", table.concat(list, ", "), cores and ", both=true" or ""):gsub("core_barrier 99\n", cores and "%0" or ""),
    }
  end
  for i, d in ipairs(soma.isa.dtypes) do
    if d.bytes < 8 then
      case(d.name, i % 3 + 2, ({{{0, 1}, {1, 0}}, {{1, 0}}, {{0, 1}, {1, 2}, {2, 0}}, {{2, 1}, {0, 0}}})[i % 3 == 0 and i % 2 + 1 or i % 4 + 1])
    end
  end
  for _ = 1, 5 do case("float32", 4, {{0, 3}, {3, 1}, {2, 2}}, 2) end
end

-- Sizes that metadata give: counts and displacements of each rank; the counts come back in row 2.
local function counted(suite)
  local k = 0
  local function case(insn, dtype, o)
    k = k + 1
    local ranks = insn == "all_gather_v" and 4 or k % 3 + 2
    local lists = groups[ranks][1]
    local slot, all, m, told, out = 10, bits(dtype, ranks, 30, k), {}, {}, {}
    local rows = o.rows or 3
    for r = 0, ranks - 1 do
      m[r] = {}
      for p = 0, ranks - 1 do m[r][p], m[r][ranks + p], m[r][2 * ranks + p] = (r * 3 + p * 5 + k) % (slot + 1), (r * 7 + p * 2) % 20, 77 end
      local at = 0 -- row 3: one after another, in the order of ranks backwards
      for p = ranks - 1, 0, -1 do m[r][3 * ranks + p], at = at, at + slot end
    end
    for r = 0, ranks - 1 do
      local list, place = place_of(lists, r)
      out[r], told[r] = {}, table.move(m[r], 0, 2 * ranks - 1, 0, {})
      for i = 1, slot * ranks do out[r][i] = ("\0"):rep(#all[0][1]) end
      for s, sender in ipairs(list) do
        local column = insn == "all_gather_v" and 0 or place - 1
        local n, from = m[sender][column], m[sender][ranks + column]
        local to = o.rdispls and m[r][3 * ranks + s - 1] or (s - 1) * slot
        table.move(all[sender], from + 1, from + n, to + 1, out[r])
        told[r][2 * ranks + s - 1] = o.known and 77 or n
      end
      if rows == 4 then table.move(m[r], 3 * ranks, 4 * ranks - 1, 3 * ranks, told[r]) end
    end
    local function rows_of(x)
      local list = {}
      for r = 0, ranks - 1 do for i = 0, rows * ranks - 1 do list[#list + 1] = x[r][i] end end
      return ref.from_bits(list, "uint32", {ranks, table.unpack(o.sbuf and {1, rows, ranks} or {rows, ranks})})
    end
    local names = (o.known and ", recv_counts_known=true" or "") .. (o.rdispls and ", has_rdispls=true" or "")
    local body = o.sbuf and " dma_copy n, m, queue=w $moved\n nop $moved>=16\n" or " dma_copy out_n, in_m, queue=w $moved\n nop $moved>=16\n"
    suite:case {
      insn = insn, name = ("%s of %d ranks%s%s"):format(dtype, ranks, names, o.sbuf and ", metadata in sbuf" or ""), engine = o.engine or engines[k % 5 + 1], ranks = ranks,
      hbm = {a = true, o = true, m = not o.sbuf, n = not o.sbuf}, inputs = {a = tensor(all, dtype, ranks, {30}), m = rows_of(m)}, targets = o.targets,
      outputs = {o = {dtype, {ranks, slot * ranks}}, n = {"uint32", {ranks, table.unpack(o.sbuf and {1, rows, ranks} or {rows, ranks})}}},
      expect = {o = tensor(out, dtype, ranks, {slot * ranks}), n = rows_of(told)}, extra = group_line(lists) .. "done sem\nmoved sem\nw queue dge=none",
      body = body .. (" %s dsts=[out_o], srcs=[in_a], group=tp, metadata=%s%s $done++\n nop $done>=1"):format(insn, o.sbuf and "n" or "out_n", names),
    }
  end
  for i, d in ipairs(soma.isa.dtypes) do
    if d.bytes < 8 then
      for _, insn in ipairs {"all_gather_v", "all_to_all_v"} do
        case(insn, d.name, {sbuf = i % 2 == 0, known = i % 3 == 0, rows = insn == "all_to_all_v" and i % 4 == 1 and 4 or 3, engine = engines[i % 5 + 1]})
      end
      case("all_to_all_v", d.name, {sbuf = i % 2 == 1, known = i % 3 == 1, rows = 4, rdispls = true, targets = util.since(4)})
    end
  end
  -- one operation of both cores
  for _, insn in ipairs {"all_gather_v", "all_to_all_v"} do
    local ones = {}
    for r = 0, 3 do for i = 1, 12 do ones[r * 12 + i] = i <= 4 and 2 or 0 end end
    local x, y = {}, {}
    for r = 0, 3 do
      for i = 1, 8 do x[r * 8 + i] = r * 8.0 + i end
      for p = 0, 3 do for i = 1, 2 do y[#y + 1] = p * 8.0 + i end end
    end
    for _, engine in ipairs(engines) do
      suite:case {
        insn = insn, name = "of both cores on " .. engine, engine = engine, ranks = 4, cores = 2, hbm = {a = true, o = true, m = true}, targets = util.since(3),
        inputs = {a = ref.tensor(x, "float32", {4, 1, 8}), m = ref.from_bits(ones, "uint32", {4, 1, 3, 4})}, outputs = {o = {"float32", {4, 1, 8}}},
        expect = {o = ref.tensor(y, "float32", {4, 1, 8})}, extra = "tp group [[0, 1, 2, 3]]\ndone sem core=*",
        body = (" %s dsts=[out_o], srcs=[in_a], group=tp, metadata=in_m[0], recv_counts_known=true, both=true $done++\n nop $done>=1"):format(insn),
      }
    end
  end
end

-- Which rank one is, and whose data a round has.
local function numbers_of_ranks(suite)
  for e, engine in ipairs(engines) do
    suite:case {
      insn = "rank_id", name = "of a world on " .. engine, engine = engine, ranks = 3, hbm = {o = true}, outputs = {o = {"int32", {3, 1}}},
      body = " rank_id r7\n tensor_store out_o[0], r7", expect = {o = ref.from_bits({0, 1, 2}, "int32", {3, 1})},
    }
    local list, out = groups[4][1][1], {}
    for r = 0, 3 do
      local _, p = place_of({list}, r)
      for i = 0, 5 do out[#out + 1] = list[(p - 1 - i) % 4 + 1] end
    end
    suite:case {
      insn = "current_processing_rank_id", name = "rounds 0 to 5 on " .. engine, engine = engine, ranks = 4, hbm = {o = true}, outputs = {o = {"int32", {4, 6}}},
      body = (" loop r0, 0, 6\n current_processing_rank_id r2, r0, group=tp, channel=%d\n tensor_store out_o[r0], r2\n endloop"):format(e % 4),
      expect = {o = ref.from_bits(out, "int32", {4, 6})}, extra = group_line {list},
    }
  end
end

return function(suite)
  of_types(suite)
  of_operands(suite)
  permutes(suite)
  counted(suite)
  numbers_of_ranks(suite)
end
