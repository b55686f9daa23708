-- What the commands of the debugger name: tiles and tensors with slices, registers, semaphores,
-- places in the code. Each may begin with `core 1` or `core1`; without it, it is of the core in focus. In a
-- world `rank 2` may come first; without it, it is of the rank in focus.
-- Everything that is wrong is raised as {message = text}.
local soma, host = ...

-- A table, so that the session tells its own refusals from faults.
local function refuse(...) error({message = string.format(...)}, 0) end

-- The name of `names` that is nearest to word, as " (did you mean 'x'?)"; "".
local function hint(word, names)
  local near = host.nearest(word, names)
  return near and " (did you mean '" .. near .. "'?)" or ""
end

local ENGINES = {"tensor", "vector", "scalar", "gpsimd", "sync", "cc0", "cc1", "cc2"} -- cc: of collectives
-- For looking up; the list above is for the order.
local is_engine = {}
for _, e in ipairs(ENGINES) do is_engine[e] = true end

-- "core 1 vector", "vector": as all of Soma names an engine of a core.
-- Core 0 is not named, as most programs have no other.
local function core_name(core, rest) return core > 0 and "core " .. core .. " " .. rest or rest end

-- ---- Ranks ----------------------------------------------------------------------------------

-- "rank 2 " of a world.
local function rank_name(s, rank) return s.runs and "rank " .. (rank or s.rank) .. " " or "" end

-- The run of an engine, a hit or an instruction.
local function run_of(s, at) return s.runs and s.runs[at.rank or s.rank] or s.run end

-- From now on names are those of that rank. Its program has those of its CC sequencers.
-- Names, tiles and semaphores of a rank are in its program.
local function at_rank(s, rank)
  if not s.runs or rank == s.rank then return end
  s.rank, s.run, s.core = rank, s.runs[rank], s.world.cores[rank]
  s.progs[rank] = s.progs[rank] or s.world:program(rank)
  s.prog = s.progs[rank]
end

local function rank_number(s, digits)
  -- Ranks of what is no world do not exist.
  local rank = math.tointeger(tonumber(digits))
  if not s.runs then refuse("rank %s: this is no world of ranks", digits) end
  if rank > #s.runs then refuse("rank %s: the ranks are 0 to %d", digits, #s.runs) end
  return rank
end

-- Takes "rank 2" off the arguments of a command: the rank, or nil, and the rest.
local function rank_of(s, args)
  -- The rank stands after the verb of a command that has one.
  for _, word in ipairs {"", "write ", "wrote ", "reads ", "read "} do
    -- A verb without a blank after it would be a name.
    local digits, rest = args:sub(#word + 1):match "^%s*rank%s*(%d+)%f[%s\0]%s*(.*)$"
    if digits and args:sub(1, #word) == word then return rank_number(s, digits), word .. rest end
  end
  return nil, args
end

-- Moves the focus to an engine {rank, core, engine}.
local function focus(s, e)
  -- The rank may be the one that is in focus already.
  at_rank(s, e.rank)
  s.focus = {rank = s.rank, core = e.core, engine = e.engine}
end

-- The number of a core of the program.
local function core_number(s, digits)
  -- Two cores at most.
  local core = math.tointeger(tonumber(digits))
  if core < s.cores then return core end
  refuse("core %s: the program has %s", digits, s.cores > 1 and "cores 0 and 1" or "one core, core 0")
end

-- Takes "core 1" off the beginning of a text that goes on: the core, or nil, and the rest.
local function core_of(s, text)
  -- A letter after `core` is a name where a number was meant.
  if text:match "^%s*core%s+[%a$]" then refuse("'%s': write core 0 or core 1 before a name", text) end
  local digits, rest = text:match "^%s*core%s*(%d+)%s+(%S.*)$"
  if not digits then return nil, text end
  return core_number(s, digits), rest
end

-- ---- Slices ---------------------------------------------------------------------------------

-- One index of a slice, `3`, `2:7`, `:8`, `4:+2`, `0:8:2`: first, count, step, and whether the
-- dimension stays.
local function range_of(word, size, what)
  local number = word:match "^%s*(%d+)%s*$"
  if number then
    -- A single index drops the dimension, as in the source.
    local i = math.tointeger(tonumber(number))
    if i >= size then refuse("%s: index %d; the dimension has 0..%d", what, i, size - 1) end
    return {first = i, count = 1, step = 1, dropped = true}
  end
  local from, plus, to, step = word:match "^%s*(%d*)%s*:%s*(%+?)(%d*)%s*:?%s*(%d*)%s*$"
  if not from then refuse("%s: '%s' is not an index: write 3, 2:7, :8, 4:+2 or 0:8:2", what, word) end
  -- What is left out is the beginning, the end, and 1.
  from, step = math.tointeger(tonumber(from) or 0), math.tointeger(tonumber(step) or 1)
  to = math.tointeger(tonumber(to) or (plus == "+" and 1 or size))
  if plus == "+" then to = from + to end
  if step < 1 then refuse("%s: a step must be 1 or more", what) end
  -- Nothing would be shown of an empty range.
  if to > size or from >= to then
    refuse("%s: %s is %d..%d; the dimension has 0..%d", what, word:match "^%s*(.-)%s*$", from, to - 1, size - 1)
  end
  -- Rounded up: the last step may be a short one.
  return {first = from, count = (to - from + step - 1) // step, step = step}
end

-- The ranges of "[0:4, 3]" for a shape; without brackets all of it.
local function ranges_of(text, shape, what)
  local ranges = {}
  -- What is not in brackets has no words.
  for word in ((text or ""):match "^%[(.*)%]$" or ""):gmatch "[^,]+" do
    local d = #ranges + 1
    if d > #shape then refuse("%s has %d dimensions", what, #shape) end
    ranges[d] = range_of(word, shape[d], what)
  end
  -- Dimensions that are not named are whole.
  for d = #ranges + 1, #shape do ranges[d] = {first = 0, count = shape[d], step = 1} end
  return ranges
end

-- A tile or tensor of the program by name, nil when none exists.
-- A tile and a tensor of one name are two things; the tile is found first.
local function find_memory(s, name)
  for _, t in ipairs(s.prog:tiles()) do
    if t.name == name then return {kind = "tile", info = t, shape = t.shape} end
  end
  for _, t in ipairs(s.prog:tensors()) do
    if t.name == name then return {kind = "tensor", info = t, shape = t.shape} end
  end
end

-- A tile's name with `.peer`: of the other core, as in the source.
local function find_peer(s, name, core)
  -- Only tiles are a core's own.
  local own = name:match "^(.+)%.peer$"
  local m = own and s.cores > 1 and find_memory(s, own)
  if m and m.kind == "tile" then return m, own, 1 - core end
end

-- "ta[0:4, 3]" as {kind, info, core, ranges, text}.
local function memory(s, text)
  local core, rest = core_of(s, text)
  core = core or s.focus.core
  -- A name, and perhaps one pair of brackets to the end.
  local name, slice = rest:match "^%s*([%w_.$@]+)%s*(%[?.-%]?)%s*$"
  if not name or slice ~= "" and not slice:match "^%[.*%]$" then
    refuse("'%s' is not a tile or tensor: write a name, or a name with a slice, as in t[0:4, 3]", text)
  end
  local m = find_memory(s, name)
  -- As the source writes the other core's tile.
  if not m then m, name, core = find_peer(s, name, core) end
  if not m then
    name = rest:match "^%s*([%w_.$@]+)"
    local names = {}
    for _, t in ipairs(s.prog:tiles()) do names[#names + 1] = t.name end
    for _, t in ipairs(s.prog:tensors()) do names[#names + 1] = t.name end
    refuse("the program has no tile or tensor '%s'%s", name, hint(name, names))
  end
  m.core = m.kind == "tile" and core or 0 -- HBM is both cores'
  m.text = rank_name(s) .. core_name(m.core, name .. (slice ~= "" and slice or ""))
  m.rank = s.rank
  m.ranges = ranges_of(slice ~= "" and slice or nil, m.shape, name)
  return m
end

-- Its elements now.
local function read(s, m)
  local t
  -- A tile is in one of two memories, a tensor in HBM.
  if m.kind == "tile" then t = s.core[m.info.memory]:read(m.info.name, {core = m.core})
  else t = s.run:fetch(m.info.name) end
  local slices = {}
  for d, r in ipairs(m.ranges) do
    -- The end of a range is exclusive, one after its last step.
    slices[d] = r.dropped and r.first or {r.first, r.first + (r.count - 1) * r.step + 1, r.step}
  end
  if #slices == 0 then return t end
  t = t:slice(table.unpack(slices))
  -- All dimensions dropped: a number, which the printing functions take as a tensor.
  return type(t) == "userdata" and t or soma.tensor(t)
end

-- ---- Bytes ----------------------------------------------------------------------------------

-- Each piece becomes a stop, and stops cost time.
local MOST_PIECES = 512

-- The contiguous runs of bytes of dimensions first .. last: a sequence of {offset, bytes}.
-- From the innermost dimension outwards.
local function runs_of(m, first, size)
  local runs, stride = {{0, size}}, size
  for d = #m.shape, first, -1 do
    local r, longer = m.ranges[d], {}
    -- So far a whole dimension is one run, and goes on into the next.
    local whole = runs[1][2] == stride and #runs == 1
    if whole and r.step == 1 then
      longer[1] = {runs[1][1] + r.first * stride, r.count * stride}
    else
      if r.count * #runs > MOST_PIECES then
        refuse("%s lies in more than %d pieces; name a smaller slice", m.text, MOST_PIECES)
      end
      -- Every index of this dimension, with all runs inside of it.
      for i = 0, r.count - 1 do
        for _, run in ipairs(runs) do
          longer[#longer + 1] = {run[1] + (r.first + i * r.step) * stride, run[2]}
        end
      end
    end
    runs, stride = longer, stride * m.shape[d]
  end
  return runs
end

local function size_of(dtype)
  for _, d in ipairs(soma.isa.dtypes) do
    if d.name == dtype then return d.bytes end
  end
end

-- The stops of that kind ("write" or "read") that watch the bytes.
local function watches(m, kind)
  local stops, size = {}, size_of(m.info.dtype)
  -- Tensors have no partitions: all dimensions are in one row of bytes.
  if m.kind == "tensor" then
    for _, run in ipairs(runs_of(m, 1, size)) do
      stops[#stops + 1] = {kind = kind, rank = m.rank, tensor = m.info.name, offset = run[1], bytes = run[2]}
    end
    return stops
  end
  -- The first dimension is the partitions; in each the bytes are the same.
  local p, runs = m.ranges[1], runs_of(m, 2, size)
  -- Partitions next to each other are one stop.
  local groups = p.step == 1 and 1 or p.count
  if groups * #runs > MOST_PIECES then
    refuse("%s lies in more than %d pieces; name a smaller slice", m.text, MOST_PIECES)
  end
  for i = 0, groups - 1 do
    for _, run in ipairs(runs) do
      stops[#stops + 1] = {kind = kind, rank = m.rank, memory = m.info.memory, offset = m.info.offset + run[1], bytes = run[2],
        partition = m.info.partition + p.first + i * p.step, partitions = groups == 1 and p.count or 1, core = m.core}
    end
  end
  return stops
end

-- ---- Semaphores, times, code ----------------------------------------------------------------

-- Its number and its core; "peer.NAME" is the other core's.
local function semaphore(s, name, core)
  local names, its = {}, name:match "^peer%.(.+)$"
  core = core or s.focus.core
  -- The core that is named, or the focus, decides which one is the other.
  if its and s.cores > 1 then name, core = its, 1 - core end
  for _, sem in ipairs(s.prog:semaphores {core = core}) do
    if sem.name == name then return sem.number, core end
    names[#names + 1] = sem.name
  end
  -- Semaphores without a name go by number.
  local number = math.tointeger(tonumber(name:match "^S%[(%d+)%]$" or ""))
  if number and number < 256 then return number, core end
  refuse("%s has no semaphore '%s'%s", core > 0 and "core " .. core or "the program", name, hint(name, names))
end

local function semaphore_value(s, name, core)
  local number, of = semaphore(s, name, core)
  return s.core:semaphore(number, {core = of})
end

-- "2014.5", "2 us": nanoseconds.
local function time(text)
  -- The unit may be left out: nanoseconds, as everything here is printed.
  local number, unit = text:match "^%s*([%d.]+)%s*(%a*)%s*$"
  local scale = ({[""] = 1, ns = 1, us = 1e3, ms = 1e6})[unit]
  if not tonumber(number) or not scale then refuse("'%s' is not a time: write 2014.5 or 2.5us", text) end
  return tonumber(number) * scale
end

-- The first line of a file after this one that instructions come from, as a hint; "" if none does.
-- A line without instructions is mostly a comment or a declaration.
local function next_line(s, file, line)
  local best
  for core = 0, s.cores - 1 do
    for _, i in ipairs(s.prog:instructions {core = core}) do
      -- A whole path, or the end of one after a slash.
      local here = i.file == file or i.file and i.file:sub(-#file - 1) == "/" .. file
      if here and i.line > line and (not best or i.line < best) then best = i.line end
    end
  end
  return best and ("; the next that has one is %s:%d"):format(file, best) or ""
end

-- The instructions of that core, or of both when it is nil.
local function instructions(s, core, what)
  local found = {}
  for k = core or 0, core or s.cores - 1 do
    what.core = k
    for _, i in ipairs(s.prog:instructions(what)) do found[#found + 1] = i end
  end
  return found
end

local MOST_PLACES = 4096 -- of a line

-- Of the instructions of one line those that begin a stretch of it in their engine; a line of a kernel
-- whose loop is unrolled begins anew where its first instruction comes again.
local function heads(s, core, file, line)
  local what = {file = file, line = line, heads = "", most = MOST_PLACES + 1}
  local found = instructions(s, core, what)
  -- Kernels repeat a line for each of their loops' rounds.
  local text = found[1] and host.show.source_line(s, found[1])
  if text then
    what.heads = text
    found = instructions(s, core, what)
  end
  local own = {} -- a collective's line is that of its blocks too
  for _, i in ipairs(found) do
    if not i.engine:match "^cc" then own[#own + 1] = i end
  end
  if #own > 0 then found = own end
  if #found > MOST_PLACES then
    local i = found[1]
    refuse("%s:%d stands for more than %d places in the code; name one of them, as %s:%d", file, line, MOST_PLACES, i.engine, i.pc)
  end
  return found
end

-- The instructions that a place names: FILE:LINE, LINE, LABEL of either core; ENGINE:PC.
local function code(s, given)
  local core, text = core_of(s, given)
  local name, number = text:match "^(.-):?(%d+)$"
  if text:match "^cc%d:%d+$" then name, number = text:match "^(cc%d):(%d+)$" end
  -- ENGINE:PC is of one core only.
  if number and is_engine[name] then
    core = core or s.focus.core
    local found = instructions(s, core, {engine = name, pc = math.tointeger(tonumber(number))})
    if #found == 0 then refuse("%s has no pc %s", core_name(core, name), number) end
    return found
  end
  -- A label comes before a file of that name.
  local labelled = instructions(s, core, {label = text})
  if #labelled > 0 then return labelled end
  if number and (name == "" or text:match ":%d+$") then
    -- Without a name it is the program's own file.
    local file = name ~= "" and name or s.file
    if not file then refuse("the program has no line table: assemble it from source") end
    local line = math.tointeger(tonumber(number))
    local found = heads(s, core, file, line)
    if #found == 0 then refuse("no instruction%s comes from %s:%s%s", core and " of core " .. core or "", file, number, next_line(s, file, line)) end
    return found
  end
  refuse("'%s' is not a place: write FILE:LINE, LINE, ENGINE:PC, a label, $sem>=n, write TILE, time T", text)
end

return {refuse = refuse, hint = hint, memory = memory, read = read, watches = watches,
        semaphore = semaphore, semaphore_value = semaphore_value, time = time, code = code, engines = ENGINES, is_engine = is_engine,
        core_name = core_name, core_number = core_number, core_of = core_of,
        rank_name = rank_name, rank_number = rank_number, rank_of = rank_of, run_of = run_of, most = MOST_PLACES, at_rank = at_rank, focus = focus}
