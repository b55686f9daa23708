-- What the debugger prints: tensors as matrices, as figures and as pictures; engines, semaphores,
-- queues, tiles, transfers; source and instructions.
local soma, host = ...
local place = host.place
local core_name = place.core_name

-- Three digits after the point, without zeros at the end.
local function ns(t) return (string.format("%.3f", t):gsub("%.?0+$", "")) .. " ns" end

-- "add.s:14" or nothing.
local function where(i)
  return i.file and i.file .. ":" .. i.line or ""
end
-- "vector 3  add.s:14  tensor_tensor ...": an instruction on one line.
local function instruction(i)
  -- Two blanks between the parts, as in all lists of the debugger.
  local at = where(i)
  return string.format("%s %d  %s%s", core_name(i.core, i.engine), i.pc, at ~= "" and at .. "  " or "", i.text)
end

-- Rows of texts as aligned columns.
local function columns(rows, indent)
  local width, out = {}, {}
  -- First the widths of all rows, then the rows.
  for _, row in ipairs(rows) do
    for k, cell in ipairs(row) do width[k] = math.max(width[k] or 0, #tostring(cell)) end
  end
  for _, row in ipairs(rows) do
    local line = {}
    for k, cell in ipairs(row) do line[k] = tostring(cell) .. (" "):rep(width[k] - #tostring(cell)) end
    -- The last column needs no padding.
    out[#out + 1] = (indent or "  ") .. (table.concat(line, "  "):gsub("%s+$", ""))
  end
  return table.concat(out, "\n")
end

-- ---- Tensors --------------------------------------------------------------------------------

-- What a terminal shows without scrolling.
local ROWS, COLUMNS, WIDTH = 16, 32, 78

-- Booleans are printed as words.
local function number(v)
  if type(v) ~= "number" then return tostring(v) end
  if math.type(v) == "integer" then return tostring(v) end
  if v ~= v then return "nan" end
  -- Six digits are enough to see, and align well.
  return (string.format("%.6g", v))
end

-- The elements as rows of the last dimension: a view, rows, columns.
local function rows_of(t)
  local n = t.ndim > 0 and t.shape[t.ndim] or 1
  -- Empty tensors have no rows.
  local rows = n > 0 and t.size // n or 0
  return rows > 0 and t:reshape({rows, n}) or nil, rows, n
end

local PIECE = 1 << 16 -- elements that are a table of Lua at once

-- Calls fn(value, row, column) for each element; booleans are 0 and 1.
local function each(t, fn)
  local m, rows, n = rows_of(t)
  -- Whole rows, at least one.
  local step = math.max(1, PIECE // n)
  -- A part at a time: a table of all elements of a large tensor would take many times its
  -- memory.
  for first = 0, rows - 1, step do
    for r, row in ipairs(m:slice({first, math.min(rows, first + step)}, {}):tolist()) do
      for k, v in ipairs(row) do
        -- Figures count true and false as numbers.
        if v == true then v = 1 elseif v == false then v = 0 end
        fn(v, first + r - 1, k - 1)
      end
    end
  end
end

-- As programs write types.
local function type_of(t)
  local shape = {}
  for d, n in ipairs(t.shape) do shape[d] = n end
  return t.dtype .. "[" .. table.concat(shape, ", ") .. "]"
end

local function matrix(t)
  local m, rows, n = rows_of(t)
  if not m then return type_of(t) .. ": no elements" end
  -- A single number needs no matrix.
  if t.size == 1 then return (type_of(t):gsub("%[%]$", "")) .. " " .. number(m:get(0, 0)) end
  local out, cells, width = {type_of(t)}, {}, 1
  -- Only what is shown becomes a table.
  for r, row in ipairs(m:slice({0, math.min(rows, ROWS)}, {0, math.min(n, COLUMNS)}):tolist()) do
    cells[r] = {}
    for k, v in ipairs(row) do
      cells[r][k] = number(v)
      width = math.max(width, #cells[r][k])
    end
  end
  -- As many columns as fit in the width, with the row's number before them.
  local shown = math.max(1, math.min(n, COLUMNS, (WIDTH - 6) // (width + 1)))
  for r, row in ipairs(cells) do
    local line = {}
    for k = 1, shown do line[k] = string.format("%" .. width .. "s", row[k]) end
    -- Rows are numbered from 0, as in slices.
    out[#out + 1] = string.format("%5d  %s%s", r - 1, table.concat(line, " "), shown < n and " ..." or "")
  end
  if rows > ROWS then out[#out + 1] = string.format("  ... %d more rows", rows - ROWS) end
  return table.concat(out, "\n")
end

-- Figures of the elements: least, largest, where, mean, NaNs and infinities; also(value, row, column)
-- sees each.
local function figures(t, also)
  local f = {n = t.size, nans = 0, infs = 0, zeros = 0, sum = 0}
  each(t, function(v, r, k)
    if also then also(v, r, k) end
    -- A NaN is counted, and takes part in nothing else.
    if v ~= v then
      f.nans = f.nans + 1
      return
    end
    -- An infinity may be the least or the largest.
    if v == math.huge or v == -math.huge then f.infs = f.infs + 1 end
    if v == 0 then f.zeros = f.zeros + 1 end
    f.sum = f.sum + v
    if not f.low or v < f.low then f.low, f.low_at = v, {r, k} end
    if not f.high or v > f.high then f.high, f.high_at = v, {r, k} end
  end)
  return f
end

local function stats_of(t, f)
  -- Where all are NaN there is no least.
  if not f.low then return type_of(t) .. ": " .. f.nans .. " NaN, no numbers" end
  local function at(v, where_)
    -- A vector's place is one number.
    return number(v) .. " at [" .. (t.ndim > 1 and where_[1] .. ", " or "") .. where_[2] .. "]"
  end
  return string.format("%s: min %s, max %s, mean %s; %d NaN, %d infinite, %d zero of %d", type_of(t),
    at(f.low, f.low_at), at(f.high, f.high_at), number(f.sum / (f.n - f.nans)), f.nans, f.infs, f.zeros, f.n)
end
local function stats(t) return t.size > 0 and stats_of(t, figures(t)) or type_of(t) .. ": no elements" end

local SHADES = " .:-=+*#%@"

-- A coarse picture: the mean of each block of elements, from the least to the largest; ! where a
-- NaN or an infinity is.
local function heat(t)
  if t.size == 0 then return type_of(t) .. ": no elements" end
  local _, rows, n = rows_of(t)
  -- The picture has at most so many rows and columns.
  local high, wide, sums, counts, bad = math.min(rows, 24), math.min(n, 64), {}, {}, {}
  local f = figures(t, function(v, r, k)
    -- The block that an element belongs to.
    local i = r * high // rows * wide + k * wide // n
    -- v - v is 0 for every finite number.
    if v ~= v or v - v ~= 0 then bad[i] = true
    else sums[i], counts[i] = (sums[i] or 0) + v, (counts[i] or 0) + 1 end
  end)
  local low, span = f.low or 0, (f.high or 0) - (f.low or 0)
  local out = {stats_of(t, f)}
  for y = 0, high - 1 do
    local line = {}
    for i = y * wide, y * wide + wide - 1 do
      -- A block without numbers, or a tensor of one value, is drawn as the least.
      local shade = counts[i] and span > 0 and span < math.huge and (sums[i] / counts[i] - low) / span * 9 or 0
      local at = math.floor(shade + 0.5) + 1
      line[#line + 1] = bad[i] and "!" or SHADES:sub(at, at)
    end
    -- The number of the first row of each line.
    out[#out + 1] = string.format("%5d |%s|", (y * rows + high - 1) // high, table.concat(line))
  end
  return table.concat(out, "\n")
end

-- ---- Engines and so on ----------------------------------------------------------------------

local function at(s, core, engine, pc) return s.prog:instructions({core = core, engine = engine, pc = pc})[1] end

-- By its name, or as the source would write a number.
local function sem_name(e) return "$" .. (e.semaphore_name or "S[" .. e.semaphore .. "]") end

-- Calls fn(core, engine's name, its state) for the engines of both cores.
local function each_engine(s, fn)
  for core = 0, s.cores - 1 do
    for _, name in ipairs(s.engines) do fn(core, name, s.run:engine(name, {core = core})) end
  end
end

-- In the words of the manual.
local function doing(e)
  if e.status == "halted" then return "halted" end
  if e.status == "meeting" then return "waits for the other core's sendrecv" end
  if e.status == "idle" then return "no collective has started" end
  if e.status == "leaving" then return "waits until its transfers have left" end
  if e.status == "crowded" then return "waits until an earlier collective is complete" end
  if e.status == "ring" then return "waits for a place in the rings of queue " .. e.queue end
  if e.status == "waiting" then
    return string.format("waits for %s%s%d, has %d, since %s", sem_name(e), e.condition, e.want, e.have, ns(e.since_ns))
  end
  return "ready at " .. ns(e.time_ns)
end

-- It has no next instruction.
local function rests(e) return e.status == "halted" or e.status == "idle" end

local function engines(s)
  local rows = {}
  each_engine(s, function(core, name, e)
    -- Engines without code are no rows.
    local i = at(s, core, name, e.pc)
    if not i then return end
    -- The star is where commands are about.
    local here = name == s.focus.engine and core == s.focus.core
    rows[#rows + 1] = {(here and "* " or "  ") .. core_name(core, name), "pc " .. e.pc, doing(e),
      rests(e) and "" or where(i), rests(e) and "" or i.text}
    -- What is in the data path stands below its engine.
    for _, f in ipairs(e.in_flight) do
      local flying = at(s, core, name, f.pc)
      rows[#rows + 1] = {"", "", "in its data path from " .. ns(f.start_ns) .. " to " .. ns(f.end_ns), where(flying), flying.text}
    end
  end)
  local waits = s.run:waits():gsub("^\n", "")
  return columns(rows, "") .. (waits ~= "" and "\n" .. waits or "")
end

-- Who is still writing a tile or tensor, by the first operand of what is under way: what is shown of it
-- is not what it will be.
local function writers(s, m)
  -- As the instruction's text has it: without rank and core before it.
  local name = m.text:match "([%w_.$@]+)[%[%]%d:,+ ]*$"
  local function tell(i, till)
    -- The first operand is what an instruction writes.
    if i.text:match "^%S+%s+([%w_.$@]+)" ~= name then return end
    -- A halted engine has nothing more to issue, and waits for nothing.
    local halted = rests(s.run:engine(i.engine, {core = i.core}))
    s.print("  being written by " .. instruction(i) .. till ..
      (halted and "" or ": next " .. core_name(i.core, i.engine) .. " waits for it"))
  end
  each_engine(s, function(core, engine, e)
    -- A result may still come.
    for _, f in ipairs(e.in_flight) do
      tell(at(s, core, engine, f.pc), ", until " .. ns(f.end_ns))
    end
  end)
  for core = 0, s.cores - 1 do
    -- Transfers are not in an engine's path.
    for _, t in ipairs(s.run:transfers {core = core}) do
      tell(at(s, core, t.engine, t.pc), string.format(", %d bytes left", t.bytes - t.moved))
    end
  end
end

-- A line for each rank: its time, and what its engines do that have not halted.
local function ranks(s)
  if not s.runs then place.refuse "this is no world of ranks" end
  local rows, was = {}, s.rank
  for r = 0, #s.runs do
    -- The focus is put back below.
    place.at_rank(s, r)
    local busy = {}
    each_engine(s, function(core, name, e)
      if rests(e) or not at(s, core, name, e.pc) then return end
      local i = at(s, core, name, e.pc)
      -- Since when is too much for one line.
      local what = e.status == "ready" and i.text:match "^%S+" or doing(e):gsub(", since .*", "")
      busy[#busy + 1] = core_name(core, name) .. " " .. (where(i) ~= "" and where(i) .. " " or "") .. what
    end)
    rows[#rows + 1] = {(r == was and "* " or "  ") .. "rank " .. r, #busy > 0 and table.concat(busy, "; ") or "has come to its end"}
  end
  place.at_rank(s, was)
  return columns(rows, "")
end

local function sems(s)
  -- By core, and by number within it.
  local rows, waiting = {}, {[0] = {}, {}}
  each_engine(s, function(core, name, e)
    if e.status == "waiting" then
      waiting[core][e.semaphore] = (waiting[core][e.semaphore] or "") .. string.format("; %s waits for %s%d", name, e.condition, e.want)
    end
  end)
  for core = 0, s.cores - 1 do
    for _, sem in ipairs(s.prog:semaphores {core = core}) do
      local value, waits = s.core:semaphore(sem.number, {core = core}), waiting[core][sem.number] or ""
      -- Names that the builder of collectives gives.
      local planned = sem.name:match "^cc%d?_" -- of collectives: most are not in use
      if not planned or value > 0 or waits ~= "" then rows[#rows + 1] = {core_name(core, "$" .. sem.name), value .. waits} end
    end
  end
  return #rows > 0 and columns(rows) or "  the program has no semaphores"
end

local function transfers(s)
  local rows = {}
  for core = 0, s.cores - 1 do
    for _, t in ipairs(s.run:transfers {core = core}) do
      local i = at(s, core, t.engine, t.pc)
      -- A transfer may signal a semaphore of either core.
      local its = t.semaphore and (t.semaphore_core == core and "" or "the other core's ") .. sem_name(t)
      rows[#rows + 1] = {core_name(core, t.queue), t.engine, where(i), t.shares .. " shares left", t.moved .. " of " .. t.bytes .. " bytes of them",
        its and "each adds 1 to " .. its or "", i.text}
    end
  end
  return #rows > 0 and columns(rows) or "  no transfer is in progress"
end

local function queues(s)
  local rows = {}
  for core = 0, s.cores - 1 do
    -- Numbers of each queue, by its name.
    local n, bytes = {}, {}
    for _, t in ipairs(s.run:transfers {core = core}) do
      n[t.queue], bytes[t.queue] = (n[t.queue] or 0) + 1, (bytes[t.queue] or 0) + t.bytes - t.moved
    end
    for _, q in ipairs(s.prog:queues {core = core}) do
      rows[#rows + 1] = {core_name(core, q.name), (n[q.name] or 0) .. " transfers in progress", (bytes[q.name] or 0) .. " bytes left"}
    end
  end
  return #rows > 0 and columns(rows) or "  the program has no queues"
end

local function tiles(s)
  local rows = {}
  -- Tiles are declared once, for both cores.
  for _, t in ipairs(s.prog:tiles()) do
    rows[#rows + 1] = {t.name, t.memory, t.dtype .. "[" .. table.concat(t.shape, ", ") .. "]",
      "partitions " .. t.partition .. ".." .. t.partition + t.shape[1] - 1,
      "bytes " .. t.offset .. ".." .. t.offset + t.bytes - 1, t.origin}
  end
  for _, t in ipairs(s.prog:tensors()) do
    rows[#rows + 1] = {t.name, "hbm", t.dtype .. "[" .. table.concat(t.shape, ", ") .. "]", t.role, t.bytes .. " bytes"}
  end
  return #rows > 0 and columns(rows) or "  the program has no tiles and no tensors"
end

-- ---- Source and instructions ----------------------------------------------------------------

local MOST_SOURCE = 1 << 24 -- bytes of a file

-- Lines of a file; nil and a message.
-- A file is read once for a session.
local function lines_of(s, file)
  if not s.sources[file] then
    -- The user may have named another place for it.
    local f, message = io.open(s.found[file] or file, "r")
    local text
    if f then
      text, message = f:read(MOST_SOURCE)
      f:close()
    end
    -- An empty file gives nothing to read.
    if not text then return nil, "cannot read the source: " .. (message or "'" .. file .. "' is empty") end
    local lines = {}
    -- The last line may have no newline.
    for line in (text:gsub("\n$", "") .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
    s.sources[file] = lines
  end
  return s.sources[file]
end

-- The line that an instruction came from, when its text is another: of a kernel in Python or Lua, of a
-- macro or a loop. nil: it is the same, or not there.
local function source_line(s, i)
  local lines = i.file and lines_of(s, i.file)
  -- Blanks around the text do not count.
  local text = lines and lines[i.line] and lines[i.line]:match "^%s*(.-)%s*$"
  if not text or text == "" then return nil end
  -- A label before the instruction is not part of it.
  local code = text:gsub("^[%w_.$@]+:%s*", "")
  if code:sub(1, #i.name) == i.name and not code:match("^[%w_]", #i.name + 1) then return nil end
  return text
end

local function source(s, file, line, marked)
  local lines, message = lines_of(s, file)
  if not lines then place.refuse("%s", message) end
  local out = {}
  -- Five lines before and after.
  for n = math.max(1, line - 5), math.min(#lines, line + 5) do
    out[#out + 1] = (string.format("%s%5d  %s", n == marked and ">" or " ", n, lines[n]):gsub("%s+$", ""))
  end
  if #out == 0 then place.refuse("%s has %d lines", file, #lines) end
  return table.concat(out, "\n")
end

local function disas(s, core, engine, pc)
  local rows = {}
  -- Beyond the code there is nothing to show.
  for n = math.max(0, pc - 5), pc + 5 do
    local i = at(s, core, engine, n)
    if i then
      rows[#rows + 1] = {(n == pc and "> " or "  ") .. n, i.label and i.label .. ":" or "", where(i), i.text}
    end
  end
  if #rows == 0 then place.refuse("%s has no instructions", core_name(core, engine)) end
  return columns(rows, "")
end

return {ns = ns, writers = writers, where = where, instruction = instruction, matrix = matrix, stats = stats, heat = heat, number = number,
        engines = engines, ranks = ranks, sems = sems, queues = queues, tiles = tiles, transfers = transfers, columns = columns,
        source = source, source_line = source_line, disas = disas, at = at}
