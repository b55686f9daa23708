-- soma-ccom: nccom-test's command line on a simulated world. Returns the exit status: 0 ok, 1 a size failed or a value is
-- wrong, 2 bad usage.
local host, args = ...
local soma = require "soma"
local options = host.part("ccom_options", host)
local runs = host.part("ccom_run", options)

-- With the command's own name: in a script's log several commands may speak.
local function complain(text, status)
  io.stderr:write("soma-ccom: ", text, "\n")
  if status == 2 then io.stderr:write "try soma-ccom --help\n" end
  return status
end

-- As a table, so that main can tell bad usage from a fault of this file.
local function refuse(fmt, ...) error({usage = fmt:format(...)}, 0) end

-- A JSON file's value.
local function read_json(path)
  local file, message = io.open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  -- A folder can be opened, but not read: then there is no text and no message.
  if not text then refuse("cannot read '%s': %s", path, (message or "it is not a file"):gsub("^.*: ", "")) end
  local value = host.value(text)
  if value == nil then refuse("'%s' is not JSON", path) end
  return value
end

-- ---- What is to be run -----------------------------------------------------------------------------------

-- Bytes of a stream, from the first to the last.
local function sizes_of(o)
  -- One size of 32 MiB, when nothing is said of sizes.
  local least, most = o.minbytes or 32 << 20, o.maxbytes or 32 << 20
  if least > most then refuse("--minbytes is %d, more than --maxbytes, which is %d", least, most) end
  if o.stepbytes and o.stepfactor then refuse "--stepbytes and --stepfactor are both given" end
  if o.stepfactor == 1 and least < most then refuse "--stepfactor 1 does not come to --maxbytes" end
  -- Without a step, ten of them, as nccom-test has it.
  local list, step = {}, o.stepbytes or math.max((most - least) // 10, 1)
  -- From here the sizes are counted up; both ends belong to the list.
  local bytes = least
  while bytes <= most do
    if #list == 10000 then refuse("more than %d sizes", #list) end
    list[#list + 1] = bytes
    -- Times the factor may be beyond what a number holds.
    -- Also ends a range of one size, which has no step.
    if least == most or o.stepfactor and bytes > most // o.stepfactor then break end
    bytes = o.stepfactor and bytes * o.stepfactor or bytes + step
  end
  return list
end

local function streams_of(o)
  -- Without a file the command line is the one stream.
  if not o.streams_json then return {options.of_stream(o, {}, 0)} end
  local value, list = read_json(o.streams_json), {}
  if type(value) ~= "table" or type(value.streams) ~= "table" or #value.streams == 0 then
    refuse("%s: it has no list of streams", o.streams_json)
  end
  if #value.streams > 16 then refuse("%s: %d streams; there are at most 16", o.streams_json, #value.streams) end
  for i, stream in ipairs(value.streams) do list[i] = options.of_stream(o, stream, i - 1) end
  return list
end

-- Of several instances: o.instance, which each is; o.per_node, ranks of each; o.room, those that it has cores for.
local function choose_nodes(o, instance)
  local n = o.nnodes or 1
  -- One instance needs no EFA, and may be any.
  if n == 1 then return end
  if o.nworkers % n ~= 0 then refuse("--nnodes %d does not divide %d ranks", n, o.nworkers) end
  o.per_node = o.nworkers // n
  -- Cores in all: a rank may have two.
  local need = o.per_node * o.lnc
  -- Without an instance named, the first that is large enough.
  for _, i in ipairs(soma.isa.instances) do
    if not instance and i.target == o.target and i.efa > 0 and i.cores >= need then instance = i end
  end
  if not instance then refuse("--nnodes %d: no instance of %s has %d cores, for %d ranks of %d", n, o.target, need, o.per_node, o.lnc) end
  if instance.efa == 0 then refuse("--nnodes %d: %s has no EFA, so several of them are not connected", n, instance.name) end
  if instance.cores < need then
    refuse("--nnodes %d: %s has %d cores, but %d ranks of %d need %d", n, instance.name, instance.cores, o.per_node, o.lnc, need)
  end
  o.instance, o.room = instance.name, instance.cores // o.lnc
end

-- Where it runs: o.target and o.lnc.
local function choose_machine(o)
  -- Without an instance the target is trn2, as the ranks of most users are.
  local instance = o.instance and options.instance_of(o.instance)
  if o.instance and not instance then
    local names = {}
    for i, known in ipairs(soma.isa.instances) do names[i] = known.name end
    refuse("unknown instance '%s'; there are: %s", o.instance, table.concat(names, ", "))
  end
  o.target = instance and instance.target or "trn2"
  local asked = os.getenv "NEURON_LOGICAL_NC_CONFIG"
  -- Anything else would be taken for 1 silently; an error is kinder.
  if asked and asked ~= "1" and asked ~= "2" then refuse("NEURON_LOGICAL_NC_CONFIG is '%s'; it is 1 or 2", asked) end
  -- As on the machine: a rank is one core of trn1 and inf2, two of those after them.
  o.lnc = o.lnc or math.tointeger(tonumber(asked)) or soma.isa.target(o.target).gen == 2 and 1 or 2
  if o.shared_output_buff and o.lnc ~= 2 then refuse "--shared-output-buff: both cores of a rank share it, so --lnc is 2" end
  choose_nodes(o, instance)
end

local function check_whole(o)
  if not o.nworkers then refuse "-r is missing: it says how many ranks" end
  if not o.operation and not o.streams_json then refuse "an operation is missing, as all_reduce" end
  if o.neff_warmup_iters and not o.neff_iters then refuse "--neff_warmup_iters is of --neff_iters" end
  -- What sb2sb alone has would change nothing without it.
  if o.input_shape and not o.sb2sb or o.output_shape and not o.sb2sb or o.cc_dim and not o.sb2sb then
    refuse "--input-shape, --output-shape and --cc-dim are of --sb2sb"
  end
  if o.seed and not o.check then refuse "--seed is of --check" end
end

-- ---- The table -------------------------------------------------------------------------------------------------

local factors = { -- of the bus's bandwidth, of n ranks (nccom-test.rst)
  all_reduce = function(n) return 2 * (n - 1) / n end,
  sendrecv = function() return 1 end,
  permute = function() return 1 end,
}
local function gathers(n) return (n - 1) / n end

local function statistic(times, name)
  if name == "avg" then
    -- The mean, of all ranks and iterations.
    local sum = 0
    for _, t in ipairs(times) do sum = sum + t end
    return sum / #times
  end
  -- The p-th percentile is the smallest time that so many are not above.
  local p = tonumber(name:sub(2))
  return times[math.max(1, math.ceil(p / 100 * #times))]
end

local function row_of(o, s, times)
  -- Percentiles go by place, so the times are sorted first.
  table.sort(times)
  local row = {}
  -- A cell has its column's name, its value for JSON and its text for the table.
  local function put(column, value, text) row[#row + 1] = {column, value, text or tostring(value)} end
  put("size(B)", s.bytes)
  put("count(elems)", s.elems)
  if o.show_input_output_size then
    put("total_input_size(B)", s.input * s.width)
    put("total_output_size(B)", s.output * s.width)
  end
  put("type", s.type)
  for _, name in ipairs(s.o.stats or {"avg"}) do
    local us = statistic(times, name)
    put(("time:%s(us)"):format(name), us, ("%.2f"):format(us))
  end
  -- Bytes in microseconds, over 1000: gigabytes in seconds.
  local algbw = s.bytes / statistic(times, "avg") / 1000
  -- What the links carry, whatever the number of ranks.
  local busbw = algbw * (factors[s.op] or gathers)(s.n)
  put("algbw(GB/s)", algbw, ("%.2f"):format(algbw))
  put("busbw(GB/s)", busbw, ("%.2f"):format(busbw))
  if o.show_algorithm then put("algorithm", times.algorithm) end
  row.busbw = busbw
  return row
end

local function print_table(rows)
  local widths, sum = {}, 0
  for _, row in ipairs(rows) do
    -- As wide as the widest text of the column, its heading included.
    for c, cell in ipairs(row) do widths[c] = math.max(widths[c] or 0, #cell[1], #cell[3]) end
  end
  local function put(i, of)
    local cells = {}
    for c, cell in ipairs(rows[i]) do cells[c] = (" "):rep(widths[c] - #cell[of]) .. cell[of] end
    io.write(table.concat(cells, "    "), "\n")
  end
  -- All rows have the same columns, so the first one has the headings.
  put(1, 1)
  for i, row in ipairs(rows) do
    put(i, 3)
    sum = sum + row.busbw
  end
  -- The mean of all sizes, as nccom-test ends its table.
  io.write(("Avg bus bandwidth:\t%.4fGB/s\n"):format(sum / #rows))
end

-- The table as nccom-test writes it: {"results": [{column: value}]}; of several streams with the number of each.
local function write_json(path, tables)
  -- An empty list would be an object in JSON otherwise.
  local results = setmetatable({}, {__metatable = "list"})
  for i, rows in ipairs(tables) do
    for _, row in ipairs(rows) do
      local object = {stream = #tables > 1 and i - 1 or nil}
      for _, cell in ipairs(row) do object[cell[1]] = cell[2] end
      results[#results + 1] = object
    end
  end
  local file, message = io.open(path, "wb")
  local done = file and file:write(host.part "json" {results = results}, "\n") and file:close()
  if not done then return "cannot write '" .. path .. "': " .. (message or "no room"):gsub("^.*: ", "") end
end

-- ---- All of it -----------------------------------------------------------------------------------------------------

-- The steps: for each the operations of all streams. A stream that is through its sizes stays at its last.
local function steps_of(o)
  local streams, sizes, steps, most = streams_of(o), {}, {}, 0
  for i, own in ipairs(streams) do
    -- Without an operation there is nothing to plan; check_whole lets a streams file be
    -- the only one.
    if not own.operation then refuse("stream %d has no operation", i - 1) end
    sizes[i] = sizes_of(own)
    most = math.max(most, #sizes[i])
  end
  for k = 1, most do
    steps[k] = {}
    -- As many steps as the longest stream has sizes.
    for i, own in ipairs(streams) do
      steps[k][i] = runs.plan(own, sizes[i][math.min(k, #sizes[i])], read_json)
      if own.check then runs.range_of(steps[k][i]) end -- refuses before anything is simulated
    end
  end
  return steps
end

-- Times a step and checks it; what is wrong, or nil.
local function take_step(o, step, tables)
  -- The values are checked in a run of their own, after the one that is timed.
  local checks = false
  for _, s in ipairs(step) do checks = checks or s.o.check end
  local times = runs.measure(o, step)
  for i, s in ipairs(step) do table.insert(tables[i], row_of(o, s, times[i])) end
  return checks and runs.check(o, step)
end

-- What of the result is not of the machine.
local function notes(o)
  -- Not an error: the options are read and do nothing.
  local launching = options.launching(o)
  if #launching > 0 then complain(table.concat(launching, ", ") .. ": all ranks are simulated here") end
  complain("simulated: rates and starts are fitted to few published times, latencies of links are assumed" ..
    (o.target == "trn3" and "; all of trn3 is assumed" or ""))
end

local function main()
  local o = options.parse(args)
  if o.help then return io.write(options.usage) and 0 end
  if o.version then return io.write("soma-ccom ", soma.version, "\n") and 0 end
  check_whole(o)
  choose_machine(o)
  local steps, tables, errors = steps_of(o), {}, 0
  -- A table for each stream, in the order of the file.
  for i in ipairs(steps[1]) do tables[i] = {} end
  for _, step in ipairs(steps) do
    -- A size that fails does not end the others: the row is missing and the errors are
    -- counted.
    local ok, wrong = pcall(take_step, o, step, tables)
    -- What main raised by itself is bad usage and ends the command.
    if not ok and type(wrong) == "table" then error(wrong, 0) end
    -- After Ctrl-C nothing more is tried.
    if not ok and tostring(wrong):find("interrupted", 1, true) then return complain("interrupted", 130) end
    if wrong then
      errors = errors + 1
      complain(("%d bytes: %s"):format(step[1].bytes, tostring(wrong):gsub("^soma:%d+: ", "")))
    end
  end
  for _, rows in ipairs(tables) do
    if #rows > 0 then print_table(rows) end
  end
  if errors > 0 then return complain(errors .. " errors found - test failed", 1) end
  -- Said only of results that are there.
  notes(o)
  local message = o.report_to_json_file and write_json(o.report_to_json_file, tables)
  return message and complain(message, 1) or 0
end

local ok, status = pcall(main)
if ok then return status end
-- An error of this file has its text from the command's own handler.
if type(status) == "table" and status.usage then return complain(status.usage, 2) end
error(status, 0)
