-- soma.sweep: the variants of an experiment, each in a process of its own, and a table of what came
-- out of them, in the order of the variants. lua/README.md describes it.
local soma, host = ...

-- ---- Arguments ----------------------------------------------------------------------------------

local function list_of(names) return table.concat(names, ", ") end

local wrong_options = host.wrong_options

local scalar = {number = true, string = true, boolean = true}
local not_scalar = ", not a number, string or boolean"

local function wrong_variant(i, v)
  local where = "sweep: variant " .. i
  if type(v) ~= "table" then return where .. " is a " .. type(v) .. ", not a table" end
  for name, value in pairs(v) do
    if type(name) ~= "string" then return where .. ": parameters must be given by name" end
    if not scalar[type(value)] then
      return where .. ": parameter '" .. name .. "' is a " .. type(value) .. not_scalar
    end
  end
end

-- All combinations of {{name, value, ...}, ...}, the last parameter changing fastest.
local function product(over)
  local variants, names = {{}}, {}
  for i, p in ipairs(over) do
    if type(p) ~= "table" or type(p[1]) ~= "string" or #p < 2 then
      return nil, "sweep: entry " .. i .. " of 'over' must be {name, value, ...}"
    end
    names[i] = p[1]
    local more = {}
    for _, v in ipairs(variants) do
      for k = 2, #p do
        local w = {}
        for name, value in pairs(v) do w[name] = value end
        w[p[1]] = p[k]
        more[#more + 1] = w
      end
    end
    variants = more
  end
  return variants, names
end

local function parameter_names(variants)
  local seen, names = {}, {}
  for _, v in ipairs(variants) do
    for name in pairs(v) do
      if not seen[name] then names[#names + 1] = name end
      seen[name] = true
    end
  end
  table.sort(names)
  return names
end

local known = {
  variants = "table", over = "table", run = "function", program = "string|function|userdata",
  inputs = "table|function", core = "table|function", measure = "function", jobs = "number",
  columns = "table", journal = "string",
}

-- The variants and the names of their parameters; nil and what is wrong.
local function check(o)
  local message = wrong_options("sweep", o, known)
  if message then return nil, message end
  if (o.variants == nil) == (o.over == nil) then
    return nil, "sweep: give either 'variants' or 'over'"
  end
  if (o.run == nil) == (o.program == nil) then
    return nil, "sweep: give either 'run' or 'program'"
  end
  if o.run and (o.inputs or o.core or o.measure) then
    return nil, "sweep: 'inputs', 'core' and 'measure' go with 'program'; 'run' does that itself"
  end
  if o.jobs and (math.type(o.jobs) ~= "integer" or o.jobs < 1 or o.jobs > 256) then
    return nil, "sweep: option 'jobs' is " .. o.jobs .. ", not an integer from 1 to 256"
  end
  for _, name in ipairs(o.columns or {}) do
    if type(name) ~= "string" then return nil, "sweep: option 'columns' must be a list of names" end
  end
  local variants, names = o.variants, nil
  if o.over then
    variants, names = product(o.over)
    if not variants then return nil, names end
  end
  if #variants == 0 then return nil, "sweep: there are no variants" end
  for i, v in ipairs(variants) do
    message = wrong_variant(i, v)
    if message then return nil, message end
  end
  return variants, names or parameter_names(variants)
end

-- ---- One variant, in its process ----------------------------------------------------------------

local engines = {"tensor", "vector", "scalar", "gpsimd"}

-- What every run says of itself: time in us, busy shares in percent, bytes moved by DMA.
local function figures(run)
  local s = run.stats
  local percent = s.time_ns > 0 and 100 / s.time_ns or 0
  local row = {time_us = s.time_ns / 1000, dma_bytes = s.dma_bytes}
  row.dma_busy = s.dma_busy_ns / s.dma_engines * percent
  for _, e in ipairs(engines) do
    -- Engines that computed nothing have no column.
    if s.engine[e].data_instructions > 0 then row[e .. "_busy"] = s.engine[e].busy_ns * percent end
  end
  if run.fault then row.fault = tostring(run.fault) end
  return row
end

local function given(x, v) -- an option that may be a function of the variant
  if type(x) == "function" then return x(v) end
  return x
end

local function program_of(o, v)
  local p = given(o.program, v)
  -- A program may be a source file or a program.
  if type(p) ~= "string" then return p end
  local defines = {}
  -- A parameter is a macro of the source.
  for name, value in pairs(v) do defines[name] = value or nil end -- a false one is not defined
  return soma.assemble_file(p, {defines = defines})
end

-- Hashes of the programs of all variants, 0: it does not assemble; nil: the sweep names no source file.
local function hashes(o, variants)
  if type(o.program) ~= "string" then return nil end
  local list = {}
  for n, v in ipairs(variants) do
    local ok, program = pcall(program_of, o, v)
    -- A variant that does not assemble fails when it runs, and not here.
    list[n] = ok and program and host.hash(program:bytes()) or 0
  end
  return list
end

-- The options of a variant's core. The variants have the host's cores already: each works on one thread.
local function options_of(o, v)
  local options = {threads = 1}
  -- The user's options come over this one.
  for name, value in pairs(given(o.core, v) or {}) do options[name] = value end
  return options
end

-- A parameter of `over` that the source does not read and no function of the sweep could.
local function check_parameters(o, program)
  for _, name in ipairs {"program", "inputs", "core", "measure"} do
    -- With a function anything may depend on the parameter.
    if type(o[name]) == "function" then return end
  end
  local warning = o.over and (program:warnings() or ""):match "warning: ([^\n]*) %[%-w%+unused%-define%]"
  if warning then error("a parameter changes nothing: " .. warning, 0) end
end

-- A run, a table of values, or a run and a table.
local function perform(o, v)
  if o.run then return o.run(v) end
  -- The variant's values are in the program; inputs and core may depend on them too.
  local program = program_of(o, v)
  check_parameters(o, program)
  local run = soma.core(options_of(o, v)):run(program, given(o.inputs, v))
  return run, o.measure and o.measure(run, v)
end

-- By its text, as the class is not visible here.
local function is_run(x) return type(x) == "userdata" and tostring(x):match "^soma%.run" ~= nil end

local function values(o, v)
  local run, more = perform(o, v)
  local row = {}
  -- Without a run all values are the user's.
  if is_run(run) then row = figures(run) else more = run end
  if more ~= nil and type(more) ~= "table" then
    error("sweep: a variant must give a run, a table of values, or both, not a " .. type(more), 0)
  end
  -- More values come over the figures of the same name.
  for name, value in pairs(more or {}) do
    if type(name) ~= "string" or not scalar[type(value)] then
      error("sweep: value '" .. tostring(name) .. "' is a " .. type(value) .. not_scalar, 0)
    end
    row[name] = value
  end
  return row
end

-- As string.pack wants them.
local formats = {integer = "j", float = "n", string = "s8", boolean = "B"}

-- A row as a string, with its numbers to the bit.
local function pack(row)
  local parts = {"row"}
  for name, value in pairs(row) do
    -- As raw bytes: a number printed and read again could have other bits.
    local kind = math.type(value) or type(value)
    if kind == "boolean" then value = value and 1 or 0 end
    parts[#parts + 1] = string.pack("s8s8" .. formats[kind], name, kind, value)
  end
  return table.concat(parts)
end

local function unpack_row(s, row)
  local at, name, kind, value = 4, nil, nil, nil
  while at <= #s do
    name, kind, at = string.unpack("s8s8", s, at)
    value, at = string.unpack(formats[kind], s, at)
    if kind == "boolean" then value = value == 1 end
    row[name] = value
  end
end

local function attempt(o, v)
  -- An error of one variant is a row with a fault.
  local ok, row = pcall(values, o, v)
  return pack(ok and row or {fault = tostring(row)})
end

-- ---- All of them --------------------------------------------------------------------------------

-- Variants may be changed by what runs them.
local function copy(t)
  local c = {}
  for k, v in pairs(t) do c[k] = v end
  return c
end

-- In a sandbox, which starts no process: one after another in this one.
local function run_here(o, variants)
  local packed = {}
  for i, v in ipairs(variants) do packed[i] = attempt(o, copy(v)) end
  return packed
end

local function new_pool(o, variants, jobs)
  -- Each process gets the number of a variant.
  return host.pool(o.jobs or jobs, function(n) return attempt(o, copy(variants[n])) end,
    function(ending) return pack {fault = ending} end)
end

local function words_of(seconds)
  -- Rounded to what one cares about while waiting.
  if seconds < 100 then return string.format("%.0f s", seconds) end
  if seconds < 6000 then return string.format("%.0f min", seconds / 60) end
  return string.format("%.1f hours", seconds / 3600)
end

-- What is called with each row as it comes: what variants print comes out in their order. On a
-- terminal a line says how far the sweep is.
local function taker(variants, book)
  local packed, printed, shown = {}, {}, 0
  local begun, fresh, total = host.seconds(), 0, 0
  local function clear() if host.watched() then io.stderr:write "\r\27[K" end end
  local function show()
    -- Rows are printed in order: one that comes early waits.
    while printed[shown + 1] do
      shown = shown + 1
      if printed[shown] ~= "" then clear() end
      io.write(printed[shown])
      printed[shown] = false
    end
    -- Without a fresh row, as of a journal alone, nothing is known of the time that is left.
    if not host.watched() or fresh == 0 or total == #variants then return clear() end
    -- By the rows of this run alone, as old ones took no time.
    local left = (host.seconds() - begun) / fresh * (#variants - total)
    io.stderr:write(string.format("\r\27[Ksweep: %d of %d, about %s left", total, #variants, words_of(left)))
  end
  return packed, function(n, row, text, known)
    -- A row without a text has printed nothing.
    packed[n], printed[n], total = row, text, total + 1
    if not known then fresh = fresh + 1 end
    -- What was in the journal is not written to it again.
    if book and not known then
      local values = {}
      unpack_row(row, values)
      book:add(n, values, text)
    end
    show()
  end
end

-- Runs the variants, at most `jobs` at a time. An error here, such as Ctrl-C, ends them all.
local function run_all(o, variants)
  local job = host.job
  local pool <close> = new_pool(o, variants, job and 1 or host.processors())
  -- All processes but the first work for it.
  if job and job.rank ~= 0 then return host.share.work(variants, pool) end
  local book <close> = o.journal and host.journal(o.journal, variants, hashes(o, variants)) or nil
  local packed, take = taker(variants, book)
  local missing, at = {}, 1
  -- Rows of the journal are taken over; the rest has to be run.
  for n = 1, #variants do
    local old = book and book.rows[n]
    if old then take(n, pack(old.row), old.printed, true) else missing[#missing + 1] = n end
  end
  if job then
    host.share.hand_out(variants, missing, pool, take)
    host.share.give(packed)
    return packed
  end
  -- As many at a time as there is room for.
  local left = #missing
  while left > 0 do
    while missing[at] and pool:has_room() and pool:start(missing[at]) do at = at + 1 end
    local n, row, printed = pool:wait()
    if n then
      take(n, row, printed)
      left = left - 1
    end
  end
  return packed
end

-- ---- The result ---------------------------------------------------------------------------------

local usual = {
  "time_us", "tensor_busy", "vector_busy", "scalar_busy", "gpsimd_busy", "dma_busy", "dma_bytes",
}

-- Parameters, the usual figures, what else was measured, the fault.
-- Only columns that some row has a value for.
local function all_columns(rows, parameters)
  local present, columns, seen, rest = {}, {}, {fault = true}, {}
  for _, row in ipairs(rows) do
    for name in pairs(row) do present[name] = true end
  end
  local function add(name)
    if present[name] and not seen[name] then columns[#columns + 1] = name end
    seen[name] = true
  end
  for _, name in ipairs(parameters) do add(name) end
  for _, name in ipairs(usual) do add(name) end
  -- What else was measured has no order of its own.
  for name in pairs(present) do rest[#rest + 1] = name end
  table.sort(rest)
  for _, name in ipairs(rest) do add(name) end
  return columns, present.fault
end

-- Decimals so that the largest number of a column shows four digits; none when all are whole.
local function decimals(rows, name)
  -- Whole numbers need no point.
  local most, whole = 0, true
  for _, row in ipairs(rows) do
    local v = row[name]
    if math.type(v) == "float" and v == v and math.abs(v) < 1e300 then
      most = math.max(most, math.abs(v))
      whole = whole and v % 1 == 0
    end
  end
  if whole or most == 0 then return 0 end
  -- Four digits of the largest number, six decimals at most.
  return math.max(0, math.min(6, 3 - math.floor(math.log(most, 10))))
end

local function cell(v, digits)
  if v == nil then return "" end
  if math.type(v) == "float" then return string.format("%." .. digits .. "f", v) end
  -- Only the first line of a text, such as that of a fault.
  return (tostring(v):match "^[^\n]*")
end

local result = {} -- methods
local meta = {__index = result, __name = "soma.sweep", __metatable = "protected"}

-- An aligned table: numbers to the right, text to the left.
function meta:__tostring()
  local lines, align = {}, {}
  for n = 0, #self.rows do lines[n] = {} end
  for c, name in ipairs(self.columns) do
    local digits, width = decimals(self.rows, name), #name
    local cells = {[0] = name}
    for n, row in ipairs(self.rows) do
      -- One text makes the whole column a column of text.
      if type(row[name]) == "string" then align[c] = "-" end
      cells[n] = cell(row[name], digits)
      width = math.max(width, #cells[n])
    end
    for n = 0, #self.rows do
      local pad = string.rep(" ", width - #cells[n])
      lines[n][c] = align[c] and cells[n] .. pad or pad .. cells[n]
    end
  end
  for n = 0, #lines do lines[n] = table.concat(lines[n], "  "):gsub(" +$", "") end
  return table.concat(lines, "\n", 0)
end

-- The shortest text that reads back as the same number.
local function exact(v)
  -- Seventeen digits always suffice; fifteen mostly do.
  for digits = 15, 17 do
    local s = string.format("%." .. digits .. "g", v)
    if tonumber(s) == v or digits == 17 then return s end
  end
end

local function quoted(v)
  if v == nil then return "" end
  local s = math.type(v) == "float" and exact(v) or tostring(v)
  -- As RFC 4180 has it: quotes around, quotes inside doubled.
  if s:find '[,"\r\n]' then s = '"' .. s:gsub('"', '""') .. '"' end
  return s
end

-- In an MPI job only the first process writes.
local function write(path, text)
  if host.job and host.job.rank ~= 0 then return true end
  return host.write(path, text)
end

-- result:csv(path): true, or nil and a message; without a path the text.
function result:csv(path)
  local lines = {}
  for n = 0, #self.rows do
    local cells = {}
    for c, name in ipairs(self.columns) do
      cells[c] = quoted(n == 0 and name or n > 0 and self.rows[n][name])
    end
    lines[#lines + 1] = table.concat(cells, ",") .. "\n"
  end
  local text = table.concat(lines)
  if path == nil then return text end
  return write(path, text)
end

-- result:check(): the result; an error when a variant failed.
function result:check()
  -- The first fault is the one that is told.
  for _, row in ipairs(self.rows) do
    if row.fault then
      local words = {}
      for _, name in ipairs(self.parameters) do
        words[#words + 1] = row[name] ~= nil and name .. " = " .. tostring(row[name]) or nil
      end
      error("sweep: with " .. table.concat(words, ", ") .. ": " .. row.fault, 2)
    end
  end
  return self
end

-- ---- Pictures -----------------------------------------------------------------------------------

local plot_known = {
  x = "string", y = "string|table", series = "string", log = "boolean|string", title = "string",
  xlabel = "string", ylabel = "string", file = "string", points = "table", labels = "table",
  where = "function",
}

-- What is wrong with the options of a plot, or nil.
local function wrong_plot(self, o)
  -- Each option is looked at before anything is drawn.
  local message = wrong_options("plot", o, plot_known)
  if message then return message end
  if not o.x or not o.y then return "plot: 'x' and 'y' name the columns to draw" end
  local names = type(o.y) == "table" and copy(o.y) or {o.y}
  if #names == 0 then return "plot: 'y' names no column" end
  -- Several columns are series already.
  if #names > 1 and o.series then return "plot: 'series' goes with only one column 'y'" end
  table.insert(names, o.x)
  if o.series then table.insert(names, o.series) end
  local there = {}
  for _, name in ipairs(self.columns) do there[name] = true end
  for _, name in ipairs(names) do
    if not there[name] then
      local near = type(name) == "string" and host.nearest(name, self.columns)
      return string.format("plot: there is no column '%s'%s; there are: %s", tostring(name),
        near and " (did you mean '" .. near .. "'?)" or "", list_of(self.columns))
    end
  end
  for name, text in pairs(o.labels or {}) do
    if type(text) ~= "string" then
      return "plot: the label of '" .. tostring(name) .. "' is not a string"
    end
  end
  local axes = {[true] = true, [false] = true, x = true, y = true, xy = true}
  if o.log ~= nil and not axes[o.log] then return "plot: 'log' must be true, \"x\", \"y\" or \"xy\"" end
  for i, s in ipairs(o.points or {}) do
    if type(s) ~= "table" or type(s.label) ~= "string" then
      return "plot: entry " .. i .. " of 'points' must be {label = text, {x, y}, ...}"
    end
    for _, p in ipairs(s) do
      if type(p) ~= "table" or type(p[1]) ~= "number" or type(p[2]) ~= "number" then
        return "plot: '" .. s.label .. "' of 'points' has an entry that is not {x, y}"
      end
    end
  end
end

-- Rows that have numbers to draw, as series in the order in which they appear.
local function series_of(self, o, category)
  local list, by_label = {}, {}
  -- Each column of y, or each value of `series`, is a line.
  for _, y in ipairs(type(o.y) == "table" and o.y or {o.y}) do
    for _, row in ipairs(self.rows) do
      -- A label of the user's comes over the name.
      local label = o.series and o.series .. " = " .. tostring(row[o.series]) or y
      label = o.labels and o.labels[o.series and row[o.series] or y] or label
      local x = category and category[tostring(row[o.x])] or row[o.x]
      -- Rows with a fault have no values to draw.
      local wanted = not row.fault and (not o.where or o.where(row))
      if wanted and type(x) == "number" and type(row[y]) == "number" then
        if not by_label[label] then
          by_label[label] = {label = label, points = {}}
          list[#list + 1] = by_label[label]
        end
        table.insert(by_label[label].points, {x, row[y]})
      end
    end
  end
  return list
end

-- The values of column x as categories, when one of them is not a number.
local function categories_of(self, x)
  local names, index, text = {}, {}, false
  for _, row in ipairs(self.rows) do
    -- Categories are texts, in the order in which they appear.
    local name = tostring(row[x])
    text = text or type(row[x]) ~= "number"
    if not index[name] then
      names[#names + 1] = name
      index[name] = #names
    end
  end
  if text then return names, index end
end

-- An axis has to hold every value.
local function wrong_values(chart)
  local n = 0
  for _, s in ipairs(chart.series) do
    for _, p in ipairs(s.points) do
      n = n + 1
      for i, is_log in ipairs {chart.logx, chart.logy} do
        local v = p[i]
        if v ~= v or v == math.huge or v == -math.huge then return "plot: a value is not finite" end
        if is_log and v <= 0 then return "plot: a logarithmic axis cannot show " .. v end
      end
    end
  end
  if n == 0 then return "plot: there is nothing to draw" end
end

-- result:plot{x, y, ...}: the SVG's text, or with `file` true, or nil and a message.
function result:plot(o)
  local message = wrong_plot(self, o)
  if message then error(message, 2) end
  local names, index = categories_of(self, o.x)
  local ylabel = type(o.y) == "table" and table.concat(o.y, ", ") or o.y
  local chart = {
    title = o.title or ylabel .. " by " .. o.x, xlabel = o.xlabel or o.x,
    ylabel = o.ylabel or ylabel, categories = names, series = series_of(self, o, index),
    -- Categories have no logarithm.
    logx = not names and (o.log == true or o.log == "x" or o.log == "xy"),
    logy = o.log == "y" or o.log == "xy",
  }
  if names and (chart.logy or o.points) then
    error("plot: bars take neither a logarithmic axis nor points", 2)
  end
  for _, s in ipairs(o.points or {}) do
    local points = table.move(s, 1, #s, 1, {})
    table.insert(chart.series, {label = s.label, points = points, marks = true})
  end
  message = wrong_values(chart)
  if message then error(message, 2) end
  local svg = host.plot(chart)
  if not o.file then return svg end
  return write(o.file, svg)
end

return function(o)
  local variants, names = check(o)
  if not variants then error(names, 2) end
  if o.journal and not host.trusted() then error("sweep: a sandbox cannot keep a journal", 2) end
  local rows = {}
  for n, packed in ipairs((host.trusted() and run_all or run_here)(o, variants)) do
    rows[n] = copy(variants[n])
    unpack_row(packed, rows[n])
  end
  local columns, faults = all_columns(rows, names)
  -- The user's columns come instead, but a fault is never hidden.
  if o.columns then columns = copy(o.columns) end
  for _, name in ipairs(columns) do faults = faults and name ~= "fault" end
  if faults then columns[#columns + 1] = "fault" end
  return setmetatable({rows = rows, columns = columns, parameters = names}, meta)
end
