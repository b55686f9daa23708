-- soma --sandbox: runs a script or a program that is not trusted. Gets the host's functions and the
-- arguments; returns the exit status (verdicts, below).
local host, args = ...
local soma = require "soma"

local data = host.part("data", host)
local json = host.part "json"

local usage = [[
usage: soma --sandbox [options] SCRIPT.lua [arguments]
       soma --sandbox [options] PROGRAM.s [options of soma that name no folder]
  --in NAME=FILE.npy     the script finds it as soma.inputs.NAME; may be repeated
  --out NAME=FILE.npy    where soma.outputs.NAME goes when the script has ended well; likewise
  --file NAME[=PATH]     a file that the script writes by this name: run:save_html "NAME",
                         save_trace, result:plot {file = "NAME"}, result:csv; likewise
  --max-seconds N        end it after so long; default 60
  --max-cpu-seconds N    end it when it has used so much processor time; default: no such limit
  --max-memory BYTES     of Lua, tensors and machines together, as 512M or 2G; default 1G
  --max-output BYTES     of what it prints; default 1M
  --json                 print the verdict, and what was printed, as JSON
  --no-filter            without the filter of system calls, where the system has none
  --help
Exit status: 0 ok, 1 an error in the script or the program (or what it returns, up to 99), 2 the
command line or its files, and nothing is known of the script; 101 over a limit of time, 102 of
memory, 103 of output; 104 its process has crashed, or made a system call that is not allowed.
]]
local limits = {["--max-seconds"] = 60, ["--max-memory"] = 1 << 30, ["--max-output"] = 1 << 20}
local OWN, HOST = 99, 2 -- the highest status of a script's own; which says that it was none
local verdicts = {[0] = "ok", [2] = "host", [101] = "time", [102] = "memory", [103] = "output", [104] = "crash"}
local hints = {[102] = ": see --max-memory", [103] = ": see --max-output"}

-- ---- Arguments ------------------------------------------------------------------------------

local options = host.part("options", host, data)
local take = {}
take["--in"] = function(o, word, value)
  local name, file = value:match "^([^=]+)=(.+)$"
  if not name then return word .. " takes NAME=FILE.npy, not '" .. value .. "'" end
  return options.put_named(o, word, name, file)
end
take["--out"] = function(o, word, value)
  -- Several tensors of one file would need the script to name them.
  if select(3, data.place(value)) then
    return "--out takes NAME=FILE.npy, not '" .. value .. "'; safetensors go by --file"
  end
  return take["--in"](o, word, value)
end
take["--file"] = function(o, word, value)
  local name, file = value:match "^([^=]+)=(.+)$"
  -- Without a name the script uses the file's own.
  if not name then name, file = value:match "([^/]+)$", value end
  if not name or value:find "^=" then return word .. " takes NAME or NAME=PATH, not '" .. value .. "'" end
  return options.put_named(o, word, name, file)
end
local take_seconds = options.reads("a number of seconds, above 0 and up to 1000000",
                                   options.real(function(n) return n > 0 and n <= 1e6 end))
take["--max-seconds"], take["--max-cpu-seconds"] = take_seconds, take_seconds
take["--max-memory"], take["--max-output"] = options.bytes, options.bytes
local flags = {["--json"] = "json", ["--no-filter"] = "unfiltered", ["--help"] = "help", ["--sandbox"] = "sandbox"}
-- What a program's own run does not take in a sandbox, and why.
-- What names a folder or other files, or would talk to the host.
local not_here = {["--save"] = true, ["--resume"] = true, ["--debug"] = true, ["-x"] = true, ["--source"] = true, ["-I"] = true,
                  ["--costs"] = true, ["--explain"] = true, ["--version"] = true}

-- Takes the word at i, if it is an option of the sandbox; the number of words, and what is wrong.
local function take_option(o, i, known)
  local word, value = args[i], nil
  if flags[word] then
    o[flags[word]] = true
    return 1
  end
  -- Only the sandbox's own words are split at =.
  if not take[word] then
    local head, rest = word:match "^(%-%-[%w-]+)=(.*)$"
    if take[head] then word, value = head, rest end
  end
  -- Words that stand for something else after a program are left alone.
  if not take[word] or not known(word) then return 0 end
  local n = value and 1 or 2
  value = value or args[i + 1]
  if not value then return n, word .. " needs a value" end
  return n, take[word](o, word, value)
end

-- A script is known by its name; everything else is a program.
local function has_script()
  for _, word in ipairs(args) do
    if word:match "%.lua$" then return true end
  end
  return false
end

local function is_limit(word) return word:match "^%-%-max" ~= nil end

-- The words of the driver: all that are not the sandbox's. What is wrong, or nil.
local function parse_program(o)
  local i, words = 1, {}
  while args[i] do
    local n, wrong = take_option(o, i, is_limit)
    if wrong then return wrong end
    -- The driver sees what the sandbox does not keep for itself.
    local word = args[i]
    if word:match "^%-%-file%f[=%z]" then return "--file is for a script.lua, and none is given" end
    if not_here[word:match "^[^=]*"] or word:match "^%-I" then return "a sandbox has no option " .. word end
    if n == 0 or word == "--json" then words[#words + 1] = word end
    i = i + math.max(n, 1)
  end
  o.words = words
  -- Help needs no program.
  if o.help then return end
  local program, wrong = options.parse(words)
  if not program then return wrong end
  -- Standard input would be read before the walls are there.
  if program.program == "-" then return "a sandbox's program is a file, not standard input" end
  if program.programs[2] then return "a sandbox runs one program" end
  o.program = program
end

-- The options, with the script's name and arguments; and what is wrong.
local function parse()
  -- Filled in even where parsing stops, so that a verdict can be given.
  local o = {["--in"] = {}, ["--out"] = {}, ["--file"] = {}}
  for key, value in pairs(limits) do o[key] = value end
  -- Before the words are read, as reading them may fail.
  for _, word in ipairs(args) do -- what is wrong is said as JSON, too
    if word:match "%.lua$" then break end
    o.json = o.json or word == "--json"
  end
  if not has_script() then return o, parse_program(o) end
  local i = 1
  -- The script's name ends the sandbox's options.
  while args[i] and not o.script do
    local n, wrong = take_option(o, i, function() return true end)
    if wrong then return o, wrong end
    if n == 0 and args[i]:match "^%-" then return o, "a sandbox has no option " .. args[i] .. " for a script.lua" end
    if n == 0 and not args[i]:match "%.lua$" then
      return o, "a sandbox runs one script.lua or program.s, not '" .. args[i] .. "'"
    end
    if n == 0 then o.script = args[i] end
    i = i + math.max(n, 1)
  end
  -- With its count, since an argument may be anything.
  o.arguments = table.pack(table.unpack(args, i))
  return o
end

-- ---- Files ----------------------------------------------------------------------------------

-- What is wrong with the command line or its files, and nothing of the script's.
local function host_error(text) error({host = text}, 0) end

local function open_input(path)
  local file, message = io.open(path, "rb")
  -- A folder opens, but cannot be read.
  if not file or not file:read(0) and file:seek "end" ~= 0 then
    host_error("cannot read '" .. path .. "': " .. (message or "Is a directory"):gsub("^.*: ", ""))
  end
  return file
end

-- The text of a file that is not trusted, of no more bytes than the limit of memory.
local function read_text(path, most)
  -- Before it is opened, as a pipe could keep this process waiting.
  local plain, wrong = host.check_source(path)
  if not plain then host_error(wrong) end
  local file <close> = open_input(path)
  local n = file:seek "end"
  -- A verdict on memory, since such a source would not fit.
  if n > most then error({status = 102, message = "'" .. path .. "' has " .. n .. " bytes"}, 0) end
  file:seek "set"
  return file:read "a"
end

-- An open file without a name for what will be saved at path.
local function open_output(o, path)
  local ok, wrong = host.check_output(path)
  if not ok then host_error(wrong) end
  -- Paths as they are given: two spellings of one file are not found here.
  for _, out in ipairs(o.saves) do
    if out.path == path then host_error("two outputs go to '" .. path .. "'") end
  end
  -- A temporary file: what a script writes gets its name only when the script has ended well.
  local out = {path = path, file = assert(io.tmpfile())}
  o.saves[#o.saves + 1] = out
  return out.file
end

-- only_written: results that a program left out do not overwrite a file.
local function save_all(o, only_written)
  local saved = {}
  for _, out in ipairs(o.saves) do
    if not only_written or out.file:seek "end" > 0 then
      local ok, wrong = host.save_output(out.file, out.path)
      if not ok then host_error(wrong) end
      saved[#saved + 1] = out.path
    end
  end
  return saved
end

-- ---- A script -------------------------------------------------------------------------------

local function handler(e)
  -- Strings get a trace of the script's own calls.
  if type(e) == "string" then
    return (debug.traceback(e, 2):gsub("\n\t%[C%]: in function 'xpcall'.*", ""))
  end
  -- An object of the script may have a method for its text, which may fail.
  local ok, text = pcall(tostring, e)
  if ok and text:find "^%l+: 0x%x+$" then return "an error that is a " .. type(e) end
  return ok and text or "an error that cannot be shown"
end

-- Writes soma.outputs to the open files, and looks for what else was asked for.
local function write_outputs(m, o, files, save)
  local names, outputs = o["--out"], rawget(m, "outputs")
  -- The script may have replaced it.
  if type(outputs) ~= "table" then error("soma.outputs is not a table any more", 0) end
  for name in next, outputs do
    if type(name) ~= "string" or not names[name] then
      error("soma.outputs." .. (type(name) == "string" and name or type(name)) ..
        ": no --out names it", 0)
    end
  end
  for name in pairs(names) do
    local t = rawget(outputs, name)
    if t == nil then error("the script has not set soma.outputs." .. name, 0) end
    local ok, wrong, message = pcall(save, t, "--out " .. name)
    if not ok then error("soma.outputs." .. name .. ": " .. tostring(wrong), 0) end
    -- Saving may raise an error or give one.
    if not wrong then error(message, 0) end
  end
  for name in pairs(o["--file"]) do
    if files[name]:seek "end" == 0 then error("the script has not written the file " .. name, 0) end
  end
end

-- Runs in a process of its own; its exit status, or an error whose text is shown.
local function run_script(o, text, m, env, files)
  -- Taken before the script runs, which could replace it.
  local save = soma.zeros({1}).save_npy
  host.limit_memory(o["--max-memory"])
  host.forbid_files(files)
  -- A script may begin with the line that names its interpreter.
  local chunk, wrong = load((text:gsub("^#[^\n]*", "")), "@" .. o.script, "t", env)
  -- The text is not needed any more, and counts as memory.
  text = nil
  if not chunk then error(wrong, 0) end
  io, package = nil, nil -- the module's own Lua files have these globals
  local results = table.pack(xpcall(chunk, handler, table.unpack(o.arguments, 1, o.arguments.n)))
  if not results[1] then error(results[2], 0) end
  -- Only a whole number is a status, as elsewhere in the command.
  local status = math.type(results[2]) == "integer" and results[2] or 0
  if status < 0 or status > OWN or status == HOST then
    error("the script returned " .. status .. ": a script's own exit status is 0 to " .. OWN ..
      ", but not " .. HOST, 0)
  end
  if status == 0 then write_outputs(m, o, files, save) end
  return status
end

local function load_inputs(o)
  -- By the parent: the script's process opens nothing.
  local inputs = {}
  for name, file in pairs(o["--in"]) do
    local path, member, archive = data.place(file, name)
    local t, message = data.try(archive and archive.load or soma.load_npy, path, archive and {names = {member}})
    if not t then host_error(message) end
    inputs[name] = archive and t[member] or t
  end
  return inputs
end

local function prepare_script(o)
  local files = {}
  for name, path in pairs(o["--out"]) do files["--out " .. name] = open_output(o, path) end
  -- Files are opened before the process is started.
  for name, path in pairs(o["--file"]) do files[name] = open_output(o, path) end
  local sees = host.part "confined"
  local m = sees.module(load_inputs(o))
  local env = sees.environment(m)
  env.arg = {[0] = o.script, table.unpack(o.arguments, 1, o.arguments.n)}
  local text = read_text(o.script, o["--max-memory"])
  return files, function() return run_script(o, text, m, env, files) end
end

-- ---- A program ------------------------------------------------------------------------------

-- The files that the driver will ask for, open: it finds them by their names.
local function open_files(o)
  local p, files = o.program, {}
  local function input(file)
    local path, _, archive = data.place(file)
    if archive and path:match "%.npz$" then host_error("'" .. path .. "': a program in a sandbox takes .npy and .safetensors") end
    -- One file may have several inputs.
    if not files[path] and not data.is_made(path) then files[path] = open_input(path) end
  end
  local function output(file)
    local path = data.place(file)
    if path:match "%.npz$" then host_error("'" .. path .. "': a program in a sandbox gives .npy and .safetensors") end
    if path:match "^/dev/" then host_error("'" .. file .. "': in a sandbox results go to plain files") end
    -- Several outputs in one archive are one file.
    if not files[path] then files[path] = open_output(o, path) end
  end
  for _, flag in ipairs {"--in", "--in whole", "--expect"} do
    for _, file in pairs(p[flag]) do input(file) end
  end
  for _, flag in ipairs {"--out", "--out whole", "--csv"} do
    for _, file in pairs(p[flag] or {}) do output(file) end
  end
  for _, flag in ipairs {"--trace", "--html"} do
    if p[flag] then output(p[flag]) end
  end
  local plain, wrong = host.check_source(p.program) -- before it is opened: a pipe may have no end
  if not plain then host_error(wrong) end
  files[p.program] = files[p.program] or open_input(p.program)
  return files
end

-- Why a program was not ok: the first line of what the driver said that is neither a warning nor part of a
-- message.
-- Warnings come first on standard error; they are no reason.
local function first_error(text)
  for line in text:gmatch "[^\n]+" do
    if line:find "^%S" and not line:find("warning: ", 1, true) then return (line:gsub("^soma: error: ", ""):gsub("; the first:$", "")) end
  end
end

-- Lets the driver's own words on standard error be told from what the program prints there; a function that
-- gives the first of them.
-- A limit on what is kept, as a program can print for ever.
local function listen(inside)
  local stderr, said, n = io.stderr, {}, 0
  inside.print = function(text) stderr:write(text) end
  io.stderr = setmetatable({write = function(self, ...)
    for _, text in ipairs {...} do
      if n < 1 << 14 then said[#said + 1] = text end
      n = n + #tostring(text)
    end
    stderr:write(...)
    return self
  end}, {__index = stderr})
  return function() return first_error(table.concat(said)) end
end

local function prepare_program(o)
  local p, texts = o.program, {}
  local files = open_files(o)
  texts[p.program] = read_text(p.program, o["--max-memory"])
  if p["--cost"] then texts[p["--cost"]] = open_input(p["--cost"]):read "a" end
  -- The run stops itself before its process is ended, so that it can tell how far it came.
  local words = {"--max-seconds=" .. o["--max-seconds"], o["--max-cpu-seconds"] and "--max-cpu-seconds=" .. o["--max-cpu-seconds"]} -- an orderly end, if it can be
  table.move(o.words, 1, #o.words, #words + 1, words)
  -- The driver sees the host's functions through this table.
  local inside = setmetatable({texts = texts, terminal = false, color = false}, {__index = host})
  return files, function()
    host.limit_memory(o["--max-memory"])
    host.forbid_files(files)
    local why = o.json and listen(inside) or function() end
    local status = inside.part("driver", inside, words)
    -- An allocation that was refused ended the driver: then memory is the verdict.
    if status == 1 and host.memory_refused() then return 102 end
    if status == 2 then status = 1 end -- names that the program does not have: this process knows no more of it
    return status, status > 0 and why() or nil
  end
end

-- ---- The verdict ----------------------------------------------------------------------------

local function complain(text) io.stderr:write("soma: ", text, "\n") end

-- Prints how it ended; the exit status. finish: of host.confine, or {status, message}.
local function judge(o, finish)
  -- With a reason of the process, or one that its status implies.
  local status = finish.status
  local message = finish.message or status == 102 and "the limit of memory is reached"
  message = message and message .. (hints[status] or "")
  -- A status that a script chose itself is worth a line.
  if not message and status > 0 and status <= OWN and not o.words then
    message = "the script returned " .. status
  end
  if o.json then
    local v = {verdict = verdicts[status] or "error", status = status, message = message or "",
               stdout = finish.stdout or "", stderr = finish.stderr or "", seconds = finish.seconds,
               cpu_seconds = finish.cpu_seconds, memory_bytes = finish.memory_bytes,
               -- Which filter there was is part of a verdict's worth.
               filter = not o.unfiltered and host.filter() or false}
    io.write(json(v), "\n")
  elseif message and status > OWN or finish.message then
    complain(message)
  end
  return status
end

local function run(o)
  o.saves = {}
  local files, f = (o.words and prepare_program or prepare_script)(o)
  local finish = host.confine({seconds = o["--max-seconds"], cpu_seconds = o["--max-cpu-seconds"], memory = o["--max-memory"],
                               output = o["--max-output"], filter = not o.unfiltered,
                               hook = not o.words, capture = o.json or false}, files, f)
  if finish.interrupted then error("interrupted", 0) end
  -- A program's files are saved even when it failed: traces show why.
  if finish.status == 0 or o.words then save_all(o, o.words ~= nil) end
  return finish
end

local asked = {} -- the options, once they are known
local function main()
  -- Kept, because an error may come before run is through.
  local o, wrong = parse()
  asked = o
  if o.help and not wrong then
    io.write(usage, host.filter() and "System calls are filtered by " .. host.filter() .. ".\n" or
      "This build has no filter of system calls (it was made without libseccomp).\n")
    return 0
  elseif wrong then
    if o.json then return judge(o, {status = HOST, message = wrong}) end
    complain(wrong)
    io.stderr:write "try soma --sandbox --help\n"
    return HOST
  end
  local ok, finish = pcall(run, o)
  -- An error of the host, or a verdict that was known early.
  if not ok and type(finish) == "table" then
    finish = finish.host and {status = HOST, message = finish.host} or finish
  elseif not ok then
    error(finish, 0)
  end
  return judge(o, finish)
end

local ok, status = pcall(main)
if ok then return status end
status = tostring(status)
if status:match "interrupted$" then
  -- As the command does it everywhere.
  complain "interrupted"
  return 130
end
return judge({json = asked.json}, {status = HOST, message = (status:gsub("^soma:%d+: ", ""))})
