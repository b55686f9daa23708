-- What soma-ccom simulates: a world whose ranks run a loop of collectives, one for each stream. Gives
-- {plan, measure, check} and what tests call. A "step" is the list of the streams' operations at one size.
local options = ...
local soma = require "soma"

local function refuse(fmt, ...) error({usage = fmt:format(...)}, 0) end

local names = { -- of the instructions
  all_reduce = "all_reduce", all_gather = "all_gather", all_gatherv = "all_gather_v",
  reduce_scatter = "reduce_scatter", alltoall = "all_to_all", alltoallv = "all_to_all_v",
  permute = "collective_permute", sendrecv = "collective_permute",
}
-- These take an operator; the others only move.
local reduces = {all_reduce = true, reduce_scatter = true}
local sized = {all_gatherv = true, alltoallv = true} -- by metadata

-- ---- Who takes part -----------------------------------------------------------------------------------

-- Lists of numbers from JSON that may stand in one list more, as nccom-test has them.
local function lists_of(value, what)
  local list = type(value) == "table" and value[what]
  -- Three levels deep: a list of sets, each a list of lists.
  if type(list) == "table" and type(list[1]) == "table" and type(list[1][1]) == "table" then
    if #list > 1 then refuse("%s: it has %d sets, of which Soma takes one", what, #list) end
    list = list[1]
  end
  if type(list) ~= "table" or #list == 0 then refuse("%s: the file has no such list of lists", what) end
  for _, ranks in ipairs(list) do
    -- An empty group has no rank to take part.
    if type(ranks) ~= "table" or #ranks == 0 then refuse("%s: each item is a list of ranks", what) end
  end
  return list
end

local function check_ranks(lists, o, what)
  for _, list in ipairs(lists) do
    for _, r in ipairs(list) do
      -- Numbers from JSON may be floats.
      if math.type(r) ~= "integer" or r < 0 or r >= o.nworkers then
        refuse("%s: %s is no rank; they are 0 to %d", what, tostring(r), o.nworkers - 1)
      end
    end
    -- Groups of one operation have one size.
    if #list ~= #lists[1] then refuse("%s: lists of %d and of %d ranks", what, #lists[1], #list) end
  end
  return lists
end

local function groups_of(o, read)
  local n, lists = o.nworkers, {}
  -- A file takes the place of the rule below.
  if o.custom_replica_groups then
    return check_ranks(lists_of(read(o.custom_replica_groups), "replica_groups"), o, "replica_groups")
  end
  local size = o.data_parallel_dimension or n
  if n % size ~= 0 then refuse("--data-parallel-dimension %d does not divide %d ranks", size, n) end
  for g = 1, n // size do
    lists[g] = {}
    -- Ranks of a group are as far apart as there are groups.
    for k = 1, size do lists[g][k] = g - 1 + (k - 1) * (n // size) end
  end
  return lists
end

-- {from, to} of a permute; without a file each rank of a group sends to the next.
local function pairs_of(o, groups, read)
  local list = {}
  if o.custom_src_target_pairs then
    list = check_ranks(lists_of(read(o.custom_src_target_pairs), "src_target_pairs"), o, "src_target_pairs")
    -- A pair is read as a list of ranks, so its length is checked apart.
    if #list[1] ~= 2 then refuse("src_target_pairs: each item is [from, to]") end
    return list
  end
  for _, ranks in ipairs(groups) do
    -- The last sends to the first: a ring.
    for i, r in ipairs(ranks) do list[#list + 1] = {r, ranks[i % #ranks + 1]} end
  end
  return list
end

-- ---- Metadata -------------------------------------------------------------------------------------------

local function counts(entry, name, n, what)
  local list = entry[name]
  -- Exactly as many as there are ranks to send to, or one for all_gatherv.
  if type(list) ~= "table" or #list ~= n then refuse("metadata: %s has %s numbers; %s takes %d", name, type(list) == "table" and #list or "no", what, n) end
  for _, v in ipairs(list) do
    if math.type(v) ~= "integer" or v < 0 then refuse("metadata: %s has %s", name, tostring(v)) end
  end
  return list
end

-- What the ranks say they will get agrees with what is sent, and lies where the machine puts it.
local function check_receives(s, list, entries, by_rank)
  for place, r in ipairs(list) do
    -- One entry may stand for all ranks.
    local entry = entries[r + 1] or entries[1]
    for _, name in ipairs {"recv_counts", "recv_displs"} do
      -- An empty list is not given; the machine knows where parts come to lie.
      if entry[name] and #entry[name] > 0 then
        for from, v in ipairs(counts(entry, name, s.n, s.op)) do
          -- Each sender has a slot of its own in the receiver.
          local want = (from - 1) * s.slot
          if name == "recv_counts" then want = by_rank[list[from]].counts[s.op == "alltoallv" and place or 1] end
          if v ~= want then refuse("metadata: %s of rank %d is %d from place %d, but it is %d there", name, r, v, from - 1, want) end
        end
      end
    end
  end
end

-- By rank: counts and displacements of what it sends.
local function read_metadata(s, o, read)
  -- all_gatherv sends the same to everybody, so one count is enough.
  local width, by_rank, entries = s.op == "alltoallv" and s.n or 1, {}, nil
  if o.variable_size_op_metadata then
    local value = read(o.variable_size_op_metadata)
    entries = type(value) == "table" and value.metadata
    if type(entries) ~= "table" or (#entries ~= 1 and #entries ~= o.nworkers) then
      refuse("metadata: it has one entry for all ranks, or one for each of %d", o.nworkers)
    end
  end
  for r = 0, o.nworkers - 1 do
    local entry = entries and (entries[r + 1] or entries[1])
    by_rank[r] = {counts = {}, displs = {}}
    for i = 1, width do
      -- Without a file each part is full, one after the other.
      by_rank[r].counts[i] = entry and counts(entry, "send_counts", width, s.op)[i] or s.slot
      by_rank[r].displs[i] = entry and counts(entry, "send_displs", width, s.op)[i] or (i - 1) * s.slot
      local n, first = by_rank[r].counts[i], by_rank[r].displs[i]
      -- More than a slot would run into the next sender's.
      if n > s.slot then refuse("metadata: rank %d sends %d elements; of %d bytes each place has %d", r, n, s.bytes, s.slot) end
      -- The input is as long as its last part reaches.
      s.input = math.max(s.input, first + n)
    end
  end
  -- Without metadata there are no receives to compare.
  for _, list in ipairs(entries and s.groups or {}) do check_receives(s, list, entries, by_rank) end
  return by_rank
end

-- ---- One operation at one size ------------------------------------------------------------------------------

-- Elements of each part of the src and of the dst of a rank, for coalesced operations.
-- In units, so that each part can be cut for all ranks.
local function split(total, ratio, unit)
  local sum, parts, left = 0, {}, total // unit
  for _, v in ipairs(ratio) do sum = sum + v end
  for i, v in ipairs(ratio) do
    -- The last part takes what rounding has left.
    local n = i == #ratio and left or total // unit * v // sum
    if n < 1 then refuse("--coalesced-cc-size-ratio: part %d of %d elements has none", i, total) end
    parts[i], left = n * unit, left - n
  end
  return parts
end

-- The greatest one up to `most` that divides n: partitions have to divide what lies in
-- them.
local function power_of_two(n, most)
  local p = 1
  while p * 2 <= most and n % (p * 2) == 0 do p = p * 2 end
  return p
end

-- Shapes in SBUF: {partitions, free} of the src and of the dst.
local function place_in_sbuf(s, o)
  if names[s.op]:find "_v$" or not (reduces[s.op] or s.op == "all_gather") then refuse("--sb2sb: all_reduce, all_gather and reduce_scatter, not %s", s.op) end
  if #s.parts > 1 then refuse "--sb2sb has one src and one dst, so no --coalesced-cc-size-ratio" end
  -- How often the larger side has the smaller one's partitions.
  local down = s.op == "all_reduce" and 1 or s.op == "all_gather" and o.cc_dim == 0 and 1 or s.n -- partitions, times that
  if s.n > 128 and down > 1 then refuse("--sb2sb: %d ranks do not fit into 128 partitions", s.n) end
  local less = math.min(s.input, s.output)
  local p = power_of_two(less, 128 // down)
  -- A shape from the command line has to hold exactly what the operation moves.
  local function shape(elems, given, partitions, flag)
    given = given or {partitions = partitions, free = elems // partitions}
    if given.partitions * given.free ~= elems then refuse("%s has %d elements, but it is %d", flag, given.partitions * given.free, elems) end
    return {given.partitions, given.free}
  end
  s.sbuf = true
  s.shape_in = shape(s.input, o.input_shape, s.op == "reduce_scatter" and p * down or p, "--input-shape")
  s.shape_out = shape(s.output, o.output_shape, s.op == "all_gather" and p * down or p, "--output-shape")
  s.dim = s.op == "all_gather" and (o.cc_dim == 0 and 1 or 0)
end

-- What stream i does at `bytes` of the whole result. read: a file's JSON.
local function plan(o, bytes, read)
  -- Everything about the operation at this size; the other functions only read it.
  local s = {op = o.operation, type = o.datatype or "uint8", o = o, lnc = o.lnc}
  s.dtype = options.types[s.type]
  -- The type's bytes, from the machine's own table.
  for _, d in ipairs(soma.isa.dtypes) do s.width = d.name == s.dtype and d.bytes or s.width end
  s.groups = groups_of(o, read)
  -- All groups have one size; the first tells it.
  s.n = #s.groups[1]
  s.ranks = s.n
  if s.op == "permute" or s.op == "sendrecv" then
    s.pairs = pairs_of(o, s.groups, read)
  elseif o.custom_src_target_pairs then
    refuse("--custom-src-target-pairs is of permute, not of %s", s.op)
  end
  -- Each rank's part is whole elements; a size between two is rounded up.
  -- What the size is rounded to: a whole element of each rank.
  local unit = s.width * (s.op == "all_reduce" and 1 or s.pairs and 1 or s.n)
  s.bytes = (bytes + unit - 1) // unit * unit
  s.elems = s.bytes // s.width
  local part = s.elems // s.n
  s.slot = part
  s.input = (s.op == "all_gather" or s.op == "all_gatherv") and part or s.elems
  s.output = s.op == "reduce_scatter" and part or s.elems
  if sized[s.op] then
    if s.op == "all_gatherv" and s.n ~= 4 then refuse("all_gatherv: groups have 4 ranks, not %d", s.n) end
    s.metadata = read_metadata(s, o, read)
  elseif o.variable_size_op_metadata then
    refuse("--variable-size-op-metadata is of alltoallv and all_gatherv, not of %s", s.op)
  end
  local ratio = o.coalesced_cc_size_ratio or {1}
  if #ratio > 1 and (s.pairs or s.metadata) then refuse("--coalesced-cc-size-ratio: %s has one src and one dst", s.op) end
  -- The side that is split further decides what the parts must be multiples of.
  local times = s.input > s.output and s.n or 1
  s.parts = split(s.input, ratio, times * (s.op == "alltoall" and s.n or 1))
  if o.sb2sb then place_in_sbuf(s, o) end
  return s
end

-- ---- The program ---------------------------------------------------------------------------------------------

-- The rank of the world that is rank r of the command line: of several instances each has as many.
-- Other ranks of an instance idle.
local function place_of(o, r) return o.per_node and r // o.per_node * o.room + r % o.per_node or r end

-- Places of the world, as the program's text names ranks.
local function list_text(lists, o)
  local parts = {}
  for i, list in ipairs(lists) do
    local places = {}
    for k, r in ipairs(list) do places[k] = place_of(o, r) end
    parts[i] = "[" .. table.concat(places, ", ") .. "]"
  end
  return "[" .. table.concat(parts, ", ") .. "]"
end

-- What a part of src becomes in dst, by the ratio of the whole.
local function out_elems(s, n) return s.input == 0 and n or n * s.output // s.input end

local function shape_text(shape) return "[" .. table.concat(shape, ", ") .. "]" end

-- Names of a part of a stream's src or dst in buffer b.
local function name(what, i, k, b) return ("%s%d_%d_%d"):format(what, i, k, b) end

local function declare(add, s, i, buffers)
  -- The group is named once and used in each instruction.
  add("g%d group %s", i, list_text(s.groups, s.o))
  if s.metadata then add("m%d tensor uint32[3, %d], input", i, s.n) end
  -- Without unique buffers all rounds use the first ones.
  for b = 1, buffers do
    for k, n in ipairs(s.parts) do
      -- A tensor has one dimension, unless SBUF gives it partitions.
      local x, y = s.sbuf and s.shape_in or {n}, s.sbuf and s.shape_out or {s.metadata and s.output or out_elems(s, n)}
      add("%s tensor %s%s, input", name("x", i, k, b), s.dtype, shape_text(x))
      add("%s tensor %s%s, output", name("y", i, k, b), s.dtype, shape_text(y))
      if s.sbuf then
        add("%s tile sbuf %s%s", name("a", i, k, b), s.dtype, shape_text(x))
        add("%s tile sbuf %s%s", name("b", i, k, b), s.dtype, shape_text(y))
      end
    end
  end
end

local function instruction(s, i, b)
  local x, y = {}, {}
  for k in ipairs(s.parts) do
    x[k], y[k] = name(s.sbuf and "a" or "x", i, k, b), name(s.sbuf and "b" or "y", i, k, b)
  end
  -- Lists even for one tensor, so that all operations read alike.
  local text = ("%s dsts=[%s], srcs=[%s]"):format(names[s.op], table.concat(y, ", "), table.concat(x, ", "))
  -- A permute names its pairs; all others go by groups.
  text = text .. (s.pairs and ", pairs=" .. list_text(s.pairs, s.o) or ", group=g" .. i)
  if reduces[s.op] then text = text .. ", op=add" end
  if s.metadata then text = text .. ", metadata=m" .. i .. ", recv_counts_known=true" end
  if s.dim then text = text .. ", dim=" .. s.dim end
  -- Both cores of a rank share the work, except in SBUF, which only one of them has.
  if s.lnc == 2 and not s.sbuf then text = text .. ", both=true" end
  return text .. ", stream=" .. i - 1 .. " $done++"
end

-- Copies to the tiles of SBUF (into), or back; gives what the semaphore has come to.
local function move(add, step, buffers, waited, into)
  for i, s in ipairs(step) do
    for b = 1, s.sbuf and buffers or 0 do
      add("dma_copy %s, %s, queue=q $moved", name(into and "a" or "y", i, 1, b), name(into and "x" or "b", i, 1, b))
      -- A transfer over 16 rings adds one for each of them.
      waited = waited + 16
      -- The wait is on the sum so far: the semaphore only counts up.
      add("nop $moved>=%d", waited)
    end
  end
  return waited
end

-- One round on a core: each stream's operations, then the wait for all of them. True: it has some.
local function add_round(add, step, core, b)
  local ops = 0
  for i, s in ipairs(step) do
    -- SBUF is a core's own: one of the two is enough there.
    for _ = 1, (core == 0 or not s.sbuf) and (s.o.ops_per_iter or 1) or 0 do
      add(instruction(s, i, b), i)
      ops = ops + 1
    end
  end
  -- The wait and the taking are one instruction, so that the next round starts from
  -- zero.
  if ops > 0 then add(("event_semaphore $done>=%d $done-=%d"):format(ops, ops)) end
end

-- The program of `rounds` rounds, and the stream of each line. With unique buffers it is not a loop.
local function program(step, rounds, target)
  local lines, stream_of, unique, all_sbuf = {}, {}, step[1].o.unique_buff, true
  -- Lines of the program are counted, because collectives are told by their line.
  local function line(text, stream)
    lines[#lines + 1] = text
    stream_of[#lines] = stream
  end
  local function add(fmt, ...) line(fmt:format(...)) end
  local buffers, waited = unique and rounds or 1, 0
  add("target %s", target)
  -- A semaphore and a queue for each core of the rank.
  local cores = step[1].lnc == 2 and "core=*" or ""
  add("done sem %s", cores)
  add("moved sem %s", cores)
  add("q queue dge=none, rings=16%s", step[1].lnc == 2 and ", core=*" or "")
  for i, s in ipairs(step) do
    declare(add, s, i, buffers)
    all_sbuf = all_sbuf and s.sbuf
  end
  -- If all streams are in SBUF the second core has nothing to do.
  for core = 0, all_sbuf and 0 or step[1].lnc - 1 do
    add("section gpsimd%s", core == 1 and " core=1" or "")
    -- Only the first core copies: tensors belong to the rank.
    if core == 0 then waited = move(add, step, buffers, waited, true) end
    if not unique then
      add("mov r1, %d", rounds)
      -- A loop keeps the program small, whatever the number of iterations.
      add "again:"
    end
    for b = 1, buffers do add_round(line, step, core, b) end
    if not unique then
      add "sub r1, r1, 1"
      add "bne r1, 0, again"
    end
    -- Results come back after the last round.
    if core == 0 then waited = move(add, step, buffers, waited, false) end
    add "halt"
  end
  return table.concat(lines, "\n") .. "\n", stream_of
end

-- ---- Values ----------------------------------------------------------------------------------------------------

-- Whole numbers up to there are exact in the type; of floating-point ones the relative error of one rounding.
local exact = {float32 = 1 << 24, float16 = 2048, bfloat16 = 256, float8_e4m3 = 16}
local rounding = {float32 = 2.0 ^ -24, float16 = 2.0 ^ -11, bfloat16 = 2.0 ^ -8, float8_e4m3 = 2.0 ^ -4}

-- The largest value of the inputs, so that no sum leaves the type, and whether all sums are exact.
local function range_of(s)
  local bits = s.width * 8
  local most = exact[s.dtype] or (s.dtype:find "^u" and (1 << bits) - 1 or (1 << bits - 1) - 1)
  local terms = reduces[s.op] and s.n or 1
  if most // terms >= 1 then return math.min(most // terms, 1000), true end
  if not exact[s.dtype] then refuse("--check: a sum of %d ranks does not fit %s", s.n, s.type) end
  return 1, false
end

local function input(s, i, k, r)
  -- The same for each buffer, so that all rounds of unique buffers do the same work.
  local shape = s.sbuf and s.shape_in or {s.parts[k]}
  if s.o.check == "all_ones" then return soma.ones(shape, s.dtype) end
  local most = range_of(s)
  -- Different numbers for each rank, stream and part; multiplied by numbers that share
  -- no factor.
  local seed = ((s.o.seed or 1) * 1000003 + r * 8191 + i * 131 + k) & math.maxinteger
  -- Small whole numbers, so that sums are exact in most types.
  local x = soma.uniform(shape, "int32", {seed = seed, low = s.dtype:find "^u" and 0 or -most, high = most + 1})
  return x:astype(s.dtype)
end

local function inputs_of(step, buffers, r)
  local all = {}
  for i, s in ipairs(step) do
    if s.metadata then
      local rows = {{}, {}, {}}
      for c = 1, s.n do
        rows[1][c], rows[2][c], rows[3][c] = s.metadata[r].counts[c] or 0, s.metadata[r].displs[c] or 0, 0
      end
      all["m" .. i] = soma.tensor(rows, "uint32")
    end
    for k in ipairs(s.parts) do
      -- A part has one value for all its buffers.
      local x = input(s, i, k, r)
      for b = 1, buffers do all[name("x", i, k, b)] = x end
    end
  end
  return all
end

local golden = {}
function golden.all_reduce(s, x, list)
  -- Sums in a wide type, rounded once, as a reference.
  local wide = exact[s.dtype] and "float32" or "int64"
  local sum
  for _, r in ipairs(list) do sum = sum and sum + x(r):astype(wide) or x(r):astype(wide) end
  return sum:astype(s.dtype)
end
-- Of a list that all its ranks share, once: `made` keeps them.
local function once(s, x, list, made, op)
  made[list] = made[list] or golden[op](s, x, list)
  return made[list]
end
function golden.all_gather(s, x, list)
  local parts = {}
  for p, r in ipairs(list) do parts[p] = x(r) end
  return soma.concat(parts, s.dim or 0)
end
function golden.reduce_scatter(s, x, list, place, made)
  -- Each rank's part of the sum over all.
  local sum = once(s, x, list, made, "all_reduce")
  local n = sum.shape[1] // s.n
  return sum:slice {(place - 1) * n, place * n}
end
function golden.alltoall(s, x, list, place)
  local parts = {}
  for p, r in ipairs(list) do
    -- The place of the rank in the list, not its number, tells its part.
    local n = x(r).shape[1] // s.n
    parts[p] = x(r):slice {(place - 1) * n, place * n}
  end
  return soma.concat(parts)
end
local function by_metadata(s, x, list, column)
  local y = soma.zeros({s.output}, s.dtype)
  -- Places that nobody sends to stay as zeros.
  for p, r in ipairs(list) do
    local n, first = s.metadata[r].counts[column], s.metadata[r].displs[column]
    if n > 0 then y:slice({(p - 1) * s.slot, (p - 1) * s.slot + n}):assign(x(r):slice {first, first + n}) end
  end
  return y
end
function golden.alltoallv(s, x, list, place) return by_metadata(s, x, list, place) end
function golden.all_gatherv(s, x, list) return by_metadata(s, x, list, 1) end

-- What rank r has to have; nil: nothing that anyone has sent.
local function wanted(s, x, r, made)
  for _, pair in ipairs(s.pairs or {}) do
    if pair[2] == r then return x(pair[1]) end
  end
  -- A permute gives nothing to a rank that no pair names.
  for _, list in ipairs(s.pairs and {} or s.groups) do
    for place, member in ipairs(list) do
      if member == r and (s.op == "all_reduce" or s.op == "all_gather") then return once(s, x, list, made, s.op) end
      if member == r then return golden[s.op](s, x, list, place, made) end
    end
  end
end

-- What is wrong with y of rank r, where x gives inputs by rank; nil: nothing.
local function compare(s, x, r, y, made)
  local want = wanted(s, x, r, made)
  if not want then return end
  local _, sums = range_of(s)
  local ok, message
  if sums then
    ok, message = soma.equal(y, want)
  else
    -- The machine rounds after each rank in an order of its own: the error grows with the terms
    -- and with their sum.
    ok, message = soma.allclose(y:astype "float32", want:astype "float32", {rtol = 0, atol = s.n ^ 1.5 * rounding[s.dtype]})
  end
  return not ok and ("rank %d: %s"):format(r, message) or nil
end

-- ---- Running ---------------------------------------------------------------------------------------------------

local function world_of(o, timing_only)
  local several = o.nnodes and o.nnodes > 1
  -- Several instances are one world, as `trn2.48xlarge x 2`.
  return soma.world {ranks = place_of(o, o.nworkers - 1) + 1, lnc = o.lnc,
    instance = several and o.instance .. " x " .. o.nnodes or o.instance, target = not o.instance and o.target or nil,
    algorithm = o.algorithm, threads = o.threads, timing_only = timing_only}
end

-- Of an instance with more cores than ranks those that are left over halt.
local function idle(o)
  -- A place without a rank of the command line still has to run something.
  return soma.assemble(("target %s\nsection gpsimd\nhalt\n"):format(o.target) ..
    (o.lnc == 2 and "section gpsimd core=1\nhalt\n" or ""))
end

local function run(o, step, rounds, values)
  local w <close> = world_of(o, not values)
  -- The text is assembled anew for each size: shapes are in it.
  local text, stream_of = program(step, rounds, o.target)
  local buffers = step[1].o.unique_buff and rounds or 1
  local works, rests, rank_of, by_rank = soma.assemble(text), idle(o), {}, {}
  for r = 0, o.nworkers - 1 do rank_of[place_of(o, r)] = r end
  -- Places without a rank of the command line run an empty program.
  local runs = w:run(function(place) return rank_of[place] and works or rests end,
    function(place) return values and rank_of[place] and inputs_of(step, buffers, rank_of[place]) or {} end)
  for place, r in pairs(rank_of) do by_rank[r] = runs[place] end
  by_rank.collectives = runs.collectives
  return by_rank, stream_of
end

-- Times of the measured operations of each stream, in us, of all ranks, and their algorithms.
local function measure(o, step)
  -- The defaults that the usage states.
  local warmup, iters, values = o.warmup_iters or 5, o.iters or 20, false
  for _, s in ipairs(step) do values = values or s.metadata ~= nil end -- how much is moved is a value
  -- Values are simulated only where they are needed: metadata say how much is moved.
  local runs, stream_of = run(o, step, warmup + iters, values)
  local times, seen = {}, {}
  for i in ipairs(step) do times[i], seen[i] = {}, {} end
  for _, c in ipairs(runs.collectives) do
    -- The line number in a collective's place tells its stream.
    local i = stream_of[tonumber(c.place:match ":(%d+)$")]
    seen[i][c.rank] = (seen[i][c.rank] or 0) + 1
    -- Warmups are counted for each rank, since ranks interleave.
    if seen[i][c.rank] > warmup * (step[i].o.ops_per_iter or 1) then table.insert(times[i], c.ns / 1000) end
    times[i].algorithm = c.algorithm
  end
  return times
end

-- What is wrong with part k of stream i; nil: nothing.
local function check_part(o, s, i, k, runs)
  -- Made once for each rank, however many results need it.
  local inputs, made = {}, {}
  local function x(rank)
    inputs[rank] = inputs[rank] or input(s, i, k, rank)
    return inputs[rank]
  end
  -- All ranks must have the same bits after an all_reduce over everybody.
  local first = runs[s.groups[1][1]].out[name("y", i, k, 1)]
  for r = 0, o.nworkers - 1 do
    local y = runs[r].out[name("y", i, k, 1)]
    local wrong = compare(s, x, r, y, made)
    if wrong then return wrong end
    if s.op == "all_reduce" and #s.groups == 1 and s.n == o.nworkers and not soma.equal(y, first) then
      return ("rank %d has other bits than rank %d"):format(r, s.groups[1][1])
    end
  end
end

-- Runs each operation once with values; what is wrong, or nil.
local function check(o, step)
  -- One round is enough: all rounds do the same.
  local runs = run(o, step, 1, true)
  for i, s in ipairs(step) do
    -- Streams without --check run all the same, but nobody looks at their values.
    for k in ipairs(s.o.check and s.parts or {}) do
      local wrong = check_part(o, s, i, k, runs)
      if wrong then return wrong end
    end
  end
end

return {plan = plan, measure = measure, check = check, check_part = check_part, range_of = range_of, program = program, inputs_of = inputs_of}
