-- The command line of soma-ccom: nccom-test's arguments, and a few of its own. Gives {usage, parse, of_stream}.
local host = ...
local soma = require "soma"

local usage = [[
usage: soma-ccom -r RANKS OPERATION [options]     times a collective in a simulated world
Its arguments, columns and JSON are those of nccom-test.
  OPERATION              all_reduce (allr), all_gather (allg), all_gatherv (allgv), reduce_scatter
                         (redsct), sendrecv, alltoall, alltoallv or permute
  -r, --nworkers N       ranks in all
  -N, --nnodes N         instances, each with as many ranks, joined by EFA; by default 1
  -b, --minbytes SIZE    the first size, as 1024, 2kb or 1GB; by default 32M
  -e, --maxbytes SIZE    the last; by default 32M. A size that the ranks do not divide is rounded up
  -i, --stepbytes SIZE   from one to the next; by default a tenth of the way
  -f, --stepfactor N     or times that
  -n, --iters N          operations that are measured; by default 20
  -w, --warmup_iters N   and those before them that are not; by default 5
  -I, --neff_iters N     runs of the program of these; -W, --neff_warmup_iters N: and runs before
                         them. All runs of a program are alike here, so one is simulated
  -d, --datatype TYPE    uint8, int8, uint16, int16, uint32, int32, fp8, fp16, bf16 or fp32
  -c, --check [HOW]      check the values too: random or all_ones; by default random
  --seed N               of the random values; by default 1
  --unique-buff          buffers of its own for each operation
  --coalesced-cc-size-ratio [1,2,1]     operations of several tensors
  --shared-output-buff   one output for both cores of a rank: so it is here, where --lnc is 2
  --variable-size-op-metadata FILE      JSON: counts and displacements of alltoallv and all_gatherv
  --sb2sb                from SBUF to SBUF: all_reduce, all_gather and reduce_scatter
  --input-shape, --output-shape SHAPE   [step0,step1][num0,num1]; 0 is the free dimension
  --cc-dim N             0: all_gather in the free dimension, 1: in that of the partitions
  --data-parallel-dimension N           groups of N ranks, one of each N-th part of all ranks
  --custom-replica-groups FILE          JSON: groups of ranks
  --custom-src-target-pairs FILE        JSON: pairs of a permute
  --streams-json FILE    JSON: an operation for each stream
  -t, --stats STAT...    avg, and percentiles as p50; by default avg
  --show-algorithm       a column more; --show-input-output-size: two, bytes of each rank
  --report-to-json-file FILE            the table as JSON
  --instance NAME        as trn2.48xlarge, each of them; by default the smallest trn2 that holds
                         the ranks
  --lnc N                cores of a rank; by default NEURON_LOGICAL_NC_CONFIG, else as on the
                         machine: 2 of trn2 and trn3, 1 of trn1 and inf2
  --algorithm NAME       of all operations; by default by size
  --threads N            of the host; times are the same
  -h, --help, --version
These are of launching on real hosts, and change nothing: -s, --hosts, --hosts-file, --mpi-log-dir,
-S, --slurm-mode, -u, --slurm-vcpus-per-node, --slurm-setup-script, --slurm-job-id,
--slurm-use-head-node-neuron-bench, --non-interactive, --debug, --vcpu-pin-mode,
--data-collector-port, --data-collector-host.
Exit status: 0 ok, 1 a size failed or a value is wrong, 2 bad usage.
]]

-- Long and short names of nccom-test; the value is what the other files know.
local operations = {
  all_reduce = "all_reduce", allr = "all_reduce", all_gather = "all_gather", allg = "all_gather",
  all_gatherv = "all_gatherv", allgv = "all_gatherv", reduce_scatter = "reduce_scatter",
  redsct = "reduce_scatter", sendrecv = "sendrecv", alltoall = "alltoall", alltoallv = "alltoallv",
  permute = "permute",
}
-- nccom-test's names on the left, Soma's types on the right.
local types = {
  uint8 = "uint8", int8 = "int8", uint16 = "uint16", int16 = "int16", uint32 = "uint32", int32 = "int32",
  fp8 = "float8_e4m3", fp8e4 = "float8_e4m3", fp16 = "float16", bf16 = "bfloat16", fp32 = "float32",
}
-- As powers of two.
local units = {[""] = 0, k = 10, m = 20, g = 30}

-- ---- Values ---------------------------------------------------------------------------------------

-- In order, so that messages are the same each time.
local function names_of(map)
  local list = {}
  for name in pairs(map) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, ", ")
end

local function fail(flag, wants, value)
  error({usage = flag .. " takes " .. wants .. ", not '" .. tostring(value) .. "'"}, 0)
end

-- Each takes the flag, for its message, and the word or the value from JSON.
local take = {}
-- On a command line a flag's presence is its value; in JSON it may be false.
function take.flag(_, value) return value == nil or value == true end
function take.text(_, value) return tostring(value) end

-- Integers only: 1.5 ranks would be rounded silently otherwise.
local function whole(least, most)
  return function(flag, value)
    local n = math.tointeger(tonumber(value))
    if not n or n < least or n > most then fail(flag, ("a whole number from %d to %d"):format(least, most), value) end
    return n
  end
end

function take.size(flag, value)
  local digits, unit = tostring(value):lower():match "^(%d+)([kmg]?)b?$"
  local n = digits and math.tointeger(tonumber(digits))
  -- The shift would lose the upper bits of a number that is too large.
  if not n or n < 1 or n > 1 << 40 >> units[unit] then fail(flag, "a size from 1 to 1024GB, as 1024, 2kb or 1GB", value) end
  return n << units[unit]
end

function take.operation(flag, value)
  return operations[value] or fail(flag, "one of " .. names_of(operations), value)
end

function take.type(flag, value)
  -- Both names are one type; the table prints the shorter.
  if not types[value] then fail(flag, "one of " .. names_of(types), value) end
  return value == "fp8e4" and "fp8" or value
end

function take.how(flag, value)
  -- The flag alone.
  if value == true then return "random" end
  if value ~= "random" and value ~= "all_ones" then fail(flag, "random or all_ones", value) end
  return value
end

-- [1,2,1], of a command line or of JSON
function take.ratio(flag, value)
  local list = type(value) == "table" and value or {}
  if type(value) == "string" and value:match "^%s*%[[%d,%s]+%]%s*$" then
    -- Blanks between the numbers are allowed, as a shell's quotes keep them.
    for n in value:gmatch "%d+" do list[#list + 1] = math.tointeger(tonumber(n)) end
  end
  for _, n in ipairs(list) do
    -- An empty list is what the check below refuses.
    if math.type(n) ~= "integer" or n < 1 or n > 1 << 20 then list = {} end
  end
  if #list < 1 or #list > 16 then fail(flag, "a list of 1 to 16 whole numbers, as [1,2,1]", value) end
  return list
end

-- "[1,512][512,128]": {free, partitions}
function take.shape(flag, value)
  local s0, s1, n0, n1 = tostring(value):gsub("%s", ""):match "^%[(%d+),(%d+)%]%[(%d+),(%d+)%]$"
  -- Without all four numbers n1 is nil.
  s0, s1, n0, n1 = tonumber(s0), tonumber(s1), tonumber(n0), tonumber(n1)
  if not n1 then fail(flag, "[step0,step1][num0,num1]", value) end
  -- Rows and columns of a dense tile; anything else would need strides in SBUF.
  if s0 ~= 1 or s1 ~= n0 or n0 < 1 or n1 < 1 or n1 > 128 then
    fail(flag, "a dense shape of at most 128 partitions: [1,num0][num0,num1]", value)
  end
  return {free = n0, partitions = n1}
end

function take.stats(flag, value)
  local list = type(value) == "table" and value or {value}
  for _, s in ipairs(list) do
    -- p50 is the median; p100 the greatest.
    local p = tonumber(tostring(s):match "^p(%d+)$")
    if s ~= "avg" and not (p and p <= 100) then fail(flag, "avg and percentiles, as p50", s) end
  end
  if #list == 0 then fail(flag, "avg and percentiles, as p50", "") end
  return list
end

-- ---- The options ------------------------------------------------------------------------------------

-- The name; how a value is read; those with `of`: more than one word, or perhaps none, of that pattern.
-- Zero may be meant for warmups, but not for what is measured.
local count, many = whole(0, 1000000), whole(1, 1000000)
local options = {
  {"operation", take.operation, hidden = true},
  {"nworkers", whole(1, 4096), "-r"}, {"nnodes", whole(1, 4096), "-N"},
  {"minbytes", take.size, "-b"}, {"maxbytes", take.size, "-e"}, {"stepbytes", take.size, "-i"},
  {"stepfactor", take.size, "-f"}, {"iters", many, "-n"}, {"warmup_iters", count, "-w"},
  {"neff_iters", many, "-I"}, {"neff_warmup_iters", count, "-W"}, {"datatype", take.type, "-d"},
  {"check", take.how, "-c", of = {"^random$", "^all_ones$"}, most = 1}, {"seed", whole(0, math.maxinteger)},
  {"unique_buff", take.flag, flag = true}, {"coalesced_cc_size_ratio", take.ratio},
  {"shared_output_buff", take.flag, flag = true}, {"variable_size_op_metadata", take.text},
  {"sb2sb", take.flag, flag = true}, {"input_shape", take.shape}, {"output_shape", take.shape},
  {"cc_dim", whole(0, 1)}, {"data_parallel_dimension", whole(1, 4096)},
  {"custom_replica_groups", take.text}, {"custom_src_target_pairs", take.text}, {"streams_json", take.text},
  {"stats", take.stats, "-t", of = {"^avg$", "^p%d+$"}, most = 100},
  {"show_algorithm", take.flag, flag = true}, {"show_input_output_size", take.flag, flag = true},
  {"report_to_json_file", take.text}, {"instance", take.text}, {"lnc", whole(1, 2)}, {"algorithm", take.text},
  {"threads", whole(1, 256)},
  {"hosts", take.text, "-s", of = {"^[^-]"}, most = 4096, launch = true}, {"hosts_file", take.text, launch = true},
  {"mpi_log_dir", take.text, launch = true}, {"slurm_mode", take.flag, "-S", flag = true, launch = true},
  {"slurm_vcpus_per_node", many, "-u", launch = true}, {"slurm_setup_script", take.text, launch = true},
  {"slurm_job_id", take.text, launch = true},
  {"slurm_use_head_node_neuron_bench", take.flag, flag = true, launch = true},
  {"non_interactive", take.flag, flag = true}, {"debug", take.flag, flag = true},
  {"vcpu_pin_mode", take.flag, flag = true}, {"data_collector_port", whole(1, 65535)},
  {"data_collector_host", take.text}, {"ops_per_iter", many, hidden = true},
}
-- By the words of a command line, by the names in JSON, and all long words for
-- suggestions.
local by_flag, by_name, flags = {}, {}, {}
for _, option in ipairs(options) do
  local name, short = option[1], option[3]
  by_name[name] = option
  if not option.hidden then
    local long = "--" .. name:gsub("_", "-")
    by_flag[long], by_flag["--" .. name] = option, option -- nccom-test spells some with _
    flags[#flags + 1] = long
    if short then by_flag[short] = option end
  end
end

-- Words after a flag that may have several or none: those that fit its patterns, but not the operation.
-- Stops at the first word that does not fit, which may be the operation.
local function words_of(option, args, at, operation_given)
  local list = {}
  while args[at] and #list < option.most do
    local word, fits = args[at], false
    for _, pattern in ipairs(option.of) do fits = fits or word:find(pattern) ~= nil end
    -- An operation's name ends the list, unless the operation has been given.
    if not fits or (operations[word] and not operation_given) then break end
    list[#list + 1] = word
    at = at + 1
  end
  return list, at
end

local function put(o, option, flag, value)
  -- The second value would silently replace the first.
  if o[option[1]] ~= nil then error({usage = flag .. " is given twice"}, 0) end
  o[option[1]] = option[2](flag, value)
end

local function unknown(word, operation_given)
  -- Without a dash it can only have been meant as an operation.
  if word:sub(1, 1) ~= "-" then
    error({usage = operation_given and "'" .. word .. "' is one operation too many" or
      "unknown operation '" .. word .. "'; there are: " .. names_of(operations)}, 0)
  end
  -- Short words are near to everything.
  local near = #word > 3 and host.nearest(word, flags)
  error({usage = "unknown option " .. word .. (near and ", did you mean " .. near .. "?" or "")}, 0)
end

-- The options of a command line by nccom-test's long names with _; raises {usage = what is wrong}.
local function parse(args)
  local o, at = {}, 1
  while args[at] do
    local word, value = args[at], nil
    local name, rest = word:match "^(%-%-[^=]+)=(.*)$"
    -- Only a known option is split at =; other words stay as they are.
    if name and by_flag[name] then word, value = name, rest end
    local option = by_flag[word]
    at = at + 1
    -- These two stand in for the whole command line.
    if word == "-h" or word == "--help" or word == "--version" then
      o[word == "--version" and "version" or "help"] = true
    elseif not option and operations[word] and not o.operation then
      o.operation = operations[word]
    elseif not option then
      unknown(word, o.operation)
    elseif option.flag then
      if value then error({usage = word .. " takes no value"}, 0) end
      put(o, option, word, true)
    elseif option.of and not value then
      local list
      list, at = words_of(option, args, at, o.operation)
      -- --check alone means random; others need a word.
      if #list == 0 and option[1] ~= "check" then error({usage = word .. " takes a value"}, 0) end
      put(o, option, word, option.most > 1 and list or list[1] or true)
    else
      if not value then
        -- The value is the next word, even if it begins with a dash.
        value, at = args[at], at + 1
        if not value then error({usage = word .. " takes a value"}, 0) end
      end
      put(o, option, word, value)
    end
  end
  return o
end

-- The options of a stream: those of the command line, and over them its own.
local function of_stream(o, stream, i)
  -- What a stream does not say comes from the command line, through __index.
  local own = {}
  if type(stream) ~= "table" then error({usage = ("stream %d is not an object"):format(i)}, 0) end
  for name, value in pairs(stream) do
    local option = by_name[name]
    -- Options of the whole run cannot differ between its streams.
    if not option or option.launch or name == "nworkers" or name == "streams_json" then
      error({usage = ("stream %d: '%s' is not an option of an operation"):format(i, tostring(name))}, 0)
    end
    own[name] = option[2](("stream %d: %s"):format(i, name), value)
  end
  return setmetatable(own, {__index = o})
end

-- Which options of launching are there.
local function launching(o)
  local list = {}
  for _, option in ipairs(options) do
    -- What they are called, for the note that they do nothing here.
    if option.launch and o[option[1]] ~= nil then list[#list + 1] = "--" .. option[1]:gsub("_", "-") end
  end
  return list
end

local function instance_of(name)
  for _, i in ipairs(soma.isa.instances) do
    if i.name == name then return i end
  end
end

return {
  usage = usage, parse = parse, of_stream = of_stream, launching = launching, types = types,
  instance_of = instance_of,
}
