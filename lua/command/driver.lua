-- The soma command on a program: soma prog.(s|sbc) [options]. Gets the host's facts and the
-- arguments; returns the exit status: 0 ok, 1 the program or its source failed, 2 bad usage,
-- 130 interrupted.
local host, args = ...
local soma = require "soma"

local usage = [[
usage: soma PROGRAM.s|PROGRAM.sbc [options]     run a program; - reads source from standard input
       soma --resume FILE [options]             go on with a run that --save has saved
       soma SCRIPT.lua [arguments]              run an experiment
       soma --sandbox [options] SCRIPT.lua [arguments]    run one that is not trusted
  --in NAME=FILE.npy     data of an input tensor; may be repeated. From FILE.npz or FILE.safetensors
                         its tensor NAME, or FILE.npz:OTHER; --in FILE.npz binds every input in it
  --out NAME=FILE.npy    save a tensor when the run has ended well; may be repeated, for one
                         FILE.npz or FILE.safetensors too; --out FILE.npz saves every output
  --target TARGET        trn1, inf2, trn2 or trn3; default: the program's own, else trn2
  -D NAME[=VALUE]        define a macro of the source
  -I DIRECTORY           search for included files; may be repeated, as -D may
  --max-instructions N   stop a run that goes on; so do --max-ns N (simulated time) and
                         --max-seconds N (time of the host)
  --max-memory BYTES     let the command take no more memory of the host, as 512M or 2G
  --save FILE            when a limit or Ctrl-C stops the run, save it for --resume
  --trace FILE.json      save the run's events for ui.perfetto.dev
  --html FILE.html       save them as a page to look at in a browser, with the critical path
  --csv NAME=FILE.csv    save a table: Instruction, DmaPacket, SemaphoreUpdate, ActiveTime, Summary
  --timeline             print a timeline of the engines and queues
  --check CHECKS         all, or some of uninit,race,psum,overlap,range,port: report what the
                         machine leaves undefined, and what only the timing made right
  --lint                 look for what is wrong under every timing, and do not run; --check, too,
                         tells before it runs
  --schedule N           run N more times under other legal timings; the bits must be the same
  --schedule-seed SEED   run under one of them
  --explain-time         print the critical path, what it went into, and who kept engines idle
  --trace-last N         record only the last N events; or --trace-limit N, the first N
  --trace-engines A,B    record only these engines' instructions and what they cause
  --trace-from NS        record from this simulated time on, and --trace-until NS to that
  --costs [TARGET]       print the constants of the clock; --cost FILE changes some, of a run too
  --json                 print the summary as JSON
  --quiet                print nothing when the run ends well
  --help, --version
Exit status: 0 ok, 1 a fault or an error in the source or a file, 2 bad usage, 130 interrupted.
]]

local function paint(text)
  if host.color then return "\27[1;31m" .. text .. "\27[0m" end
  return text
end

local function complain(text)
  io.stderr:write("soma: ", paint "error:", " ", text, "\n")
  return 1
end

local function bad_usage(text)
  complain(text)
  io.stderr:write("try soma --help\n")
  return 2
end

-- ---- Arguments ------------------------------------------------------------------------------

local function nearest(word, known)
  table.sort(known)
  local near = #word > 3 and host.nearest(word, known)
  return near and ", did you mean " .. near .. "?" or ""
end

-- Where a tensor is, or goes: the path, the name in it, and which functions have to do with it.
-- FILE.npy has one tensor, FILE.npz and FILE.safetensors have several, FILE.npz:NAME is one of them.
local archives = {
  npz = {load = soma.load_npz, save = soma.save_npz, names = soma.npz_names},
  safetensors = {load = soma.load_safetensors, save = soma.save_safetensors, names = soma.safetensors_names},
}
local function place(file, name)
  for extension, archive in pairs(archives) do
    local path, member = file:match("^(.+%." .. extension .. "):(.+)$")
    if path then return path, member, archive end
    if file:match("%." .. extension .. "$") then return file, name, archive end
  end
  return file
end

local function take_pair(o, word, value)
  local name, file = value:match("^([^=]+)=(.+)$")
  if not name and select(3, place(value)) then
    local path, member = place(value)
    if member then return word .. " " .. value .. ": say for which tensor, " .. word .. " NAME=" .. value end
    table.insert(o[word .. " whole"], path)
    return
  end
  if not name then return word .. " takes NAME=FILE.npy, not '" .. value .. "'" end
  if o[word][name] then return word .. " names '" .. name .. "' twice" end
  o[word][name] = file
end

local tables = {Instruction = 1, DmaPacket = 1, SemaphoreUpdate = 1, ActiveTime = 1, Summary = 1}
local function take_table(o, word, value)
  local name, file = value:match("^([^=]+)=(.+)$")
  if not name then return word .. " takes TABLE=FILE.csv, not '" .. value .. "'" end
  if not tables[name] then
    return word .. ": there is no table '" .. name ..
      "'; there are: Instruction, DmaPacket, SemaphoreUpdate, ActiveTime, Summary"
  end
  o[word] = o[word] or {}
  if o[word][name] then return word .. " names '" .. name .. "' twice" end
  o[word][name] = file
end

local function take_number(o, word, value)
  local n = tonumber(value)
  if not n or n <= 0 or n == math.huge then
    return word .. " takes a positive number, not '" .. value .. "'"
  end
  o[word] = n
end

local function take_count(o, word, value)
  local n = math.tointeger(tonumber(value))
  if not n or n <= 0 then
    return word .. " takes a whole number of at least 1, not '" .. value .. "'"
  end
  o[word] = n
end

local function take_bytes(o, word, value)
  o[word] = host.bytes(value)
  if not o[word] then
    return word .. " takes a number of bytes, as 4096, 64K, 512M or 2G, not '" .. value .. "'"
  end
end

local function take_define(o, word, value)
  local name = value:match("^([^=]*)=?")
  if not name:match("^[%a_.?@$][%w_.?@$]*$") then
    return word .. " takes NAME or NAME=VALUE, not '" .. value .. "'"
  end
  table.insert(o[word], value)
end

local function take_target(o, word, value)
  local known = {}
  for _, t in ipairs(soma.isa.targets) do
    if t.name == value then o[word] = value end
    known[#known + 1] = t.name
  end
  if not o[word] then
    return word .. " takes one of " .. table.concat(known, ", ") .. ", not '" .. value .. "'"
  end
end

local function take_engines(o, word, value)
  local known = {tensor = 1, vector = 1, scalar = 1, gpsimd = 1, sync = 1}
  o[word] = {}
  for name in (value .. ","):gmatch "([^,]*)," do
    if not known[name] then
      return word .. " takes names of engines with commas between them, not '" .. name ..
        "'; there are: tensor, vector, scalar, gpsimd, sync"
    end
    table.insert(o[word], name)
  end
end

local function take_list(o, word, value) table.insert(o[word], value) end
local function take_file(o, word, value)
  if o[word] then return word .. " is given twice" end
  o[word] = value
end

local function take_checks(o, word, value)
  local ok, message = pcall(soma.core, {checks = value})
  if not ok then return word .. ": " .. message:gsub("^.-unknown", "unknown") end
  o[word] = value
end

-- What each option does with its value: nil, or what is wrong. Flags take none.
local options = {
  ["--in"] = take_pair, ["--out"] = take_pair, ["--target"] = take_target,
  ["-D"] = take_define, ["-I"] = take_list, ["--trace"] = take_file,
  ["--html"] = take_file, ["--csv"] = take_table, ["--timeline"] = "flag",
  ["--max-instructions"] = take_count, ["--max-ns"] = take_number, ["--max-seconds"] = take_number,
  ["--max-memory"] = take_bytes,
  ["--check"] = take_checks, ["--lint"] = "flag", ["--schedule"] = take_count, ["--schedule-seed"] = take_count,
  ["--trace-last"] = take_count, ["--trace-limit"] = take_count,
  ["--trace-engines"] = take_engines, ["--trace-from"] = take_number,
  ["--trace-until"] = take_number, ["--explain-time"] = "flag", ["--cost"] = take_file,
  ["--save"] = take_file, ["--resume"] = take_file,
  ["--costs"] = "perhaps", ["--json"] = "flag", ["--quiet"] = "flag", ["--help"] = "flag", ["--version"] = "flag",
}

-- Splits --option=VALUE, -DNAME and -IDIR.
local function split(word)
  if options[word] then return word end
  local head, value = word:match("^(%-%-[%w-]+)=(.*)$")
  if head and options[head] then return head, value end
  head, value = word:match("^(%-[DI])(.+)$")
  if head then return head, value end
  return word
end

-- A limit of what is recorded; what is wrong, or nil.
local function check_record(o)
  if o["--trace-last"] and o["--trace-limit"] then return "either --trace-last or --trace-limit" end
  if o["--trace-from"] and o["--trace-until"] and o["--trace-from"] >= o["--trace-until"] then
    return "--trace-until must be more than --trace-from"
  end
  if o["--trace"] or o["--html"] or o["--csv"] or o["--timeline"] or o["--explain-time"] then return end
  for _, flag in ipairs {"--trace-last", "--trace-limit", "--trace-engines", "--trace-from", "--trace-until"} do
    if o[flag] then
      return flag .. " is for --trace, --html, --csv, --timeline and --explain-time: none is given"
    end
  end
end

-- A saved run brings its program, its inputs and what they were made with.
local function check_resume(o)
  if o.program then return nil, "--resume brings its program: '" .. o.program .. "' is one more" end
  if o["--target"] or next(o["--in"]) or #o["--in whole"] > 0 or #o["-D"] > 0 or #o["-I"] > 0 then
    return nil, "--in, --target, -D and -I do not go with --resume: the run has started already"
  end
  for _, flag in ipairs {"--check", "--lint", "--schedule", "--schedule-seed", "--cost", "--explain-time"} do
    if o[flag] then return nil, flag .. " does not go with --resume: a saved run goes on as it began" end
  end
  o.program = o["--resume"]
  return o
end

-- The options as a table; nil and what is wrong.
local function parse()
  local o = {["--in"] = {}, ["--out"] = {}, ["--in whole"] = {}, ["--out whole"] = {}, ["-D"] = {}, ["-I"] = {}}
  local i = 1
  while i <= #args do
    local word, value = split(args[i])
    local take = options[word]
    if take == "flag" then
      if value then return nil, word .. " takes no value" end
      o[word] = true
    elseif take == "perhaps" then -- the next word is its value when it is a target
      for _, t in ipairs(soma.isa.targets) do
        if not value and t.name == args[i + 1] then
          value = t.name
          i = i + 1
        end
      end
      o[word] = value or true
    elseif take then
      if not value then
        i = i + 1
        value = args[i]
      end
      if not value then return nil, word .. " needs a value" end
      local wrong = take(o, word, value)
      if wrong then return nil, wrong end
    elseif word:match("^%-.") then
      local known = {}
      for name in pairs(options) do known[#known + 1] = name end
      return nil, "unknown option " .. word .. nearest(word, known)
    elseif o.program then
      return nil, "one program at a time: '" .. o.program .. "' and '" .. word .. "'"
    else
      o.program = word
    end
    i = i + 1
  end
  if o["--help"] or o["--version"] then return o end
  local wrong = check_record(o)
  if wrong then return nil, wrong end
  if o["--costs"] then
    wrong = o["--costs"] ~= true and take_target(o, "--target", o["--costs"])
    if wrong then return nil, (wrong:gsub("^%-%-target", "--costs")) end
    if o.program then
      return nil, "--costs runs nothing, and '" .. o.program .. "' is no target"
    end
    return o
  end
  if o["--resume"] then return check_resume(o) end
  if not o.program then return nil, "no program given" end
  return o
end

-- ---- The program and its data ---------------------------------------------------------------

-- A file's text; nil and a message.
local function read_file(name)
  local file, message = io.open(name, "rb")
  local text
  if file then
    text, message = file:read "a"
    file:close()
  end
  if text then return text end
  return nil, "cannot read '" .. name .. "': " .. message:gsub("^.*: ", "")
end

local magic = "\127SBC"

-- The program of a source file or a .sbc file, whatever its name; nil and what is wrong with the
-- command line.
local function load_program(o)
  local text, message
  if o.program == "-" then
    text, message = io.read "a"
    message = not text and "cannot read standard input: " .. message
  else
    text, message = read_file(o.program)
  end
  if not text then error(message, 0) end
  if text:sub(1, #magic) == magic or o.program:match "%.sbc$" then
    if #o["-D"] > 0 or #o["-I"] > 0 then
      return nil, "-D and -I are for source text; '" .. o.program .. "' is assembled already"
    end
    return assert(soma.load(o.program == "-" and text or o.program))
  end
  return soma.assemble(text, {defines = o["-D"], include = o["-I"], target = o["--target"],
                              name = o.program == "-" and "standard input" or o.program})
end

-- The assembler's own messages go out as they are, others with the command's name.
local function report_source(text)
  text = tostring(text):gsub("^soma:%d+: ", "")
  local diagnostics = text:match("^[%w_]+: %d+ errors?\n(.*)$")
  if not diagnostics then return complain((text:gsub("^[%w_]+: ", ""))) end
  for line in (diagnostics .. "\n"):gmatch("(.-)\n") do
    io.stderr:write((line:gsub("^([^ ]+:%d+:%d+: )error:", function(place)
      return place .. paint "error:"
    end)), "\n")
  end
  return 1
end

local function without_place(message) return (tostring(message):gsub("^soma:%d+: ", "")) end

-- Calls a loader: what it gives, or nil and a message when the file is bad.
local function try(f, ...)
  local ok, result, message = pcall(f, ...)
  if not ok then return nil, without_place(result) end
  return result, message
end

-- Files without a name stand for each input that they have and that is not given by name, and for
-- each output. What is wrong, or nil.
local function name_whole_files(prog, o)
  for _, path in ipairs(o["--out whole"]) do
    for _, t in ipairs(prog:tensors()) do
      if t.role == "output" and not o["--out"][t.name] then o["--out"][t.name] = path end
    end
  end
  local from = {}
  for _, path in ipairs(o["--in whole"]) do
    local names, message = try(select(3, place(path)).names, path)
    if not names then return message end
    local has, found = {}, false
    for _, name in ipairs(names) do has[name] = true end
    for _, t in ipairs(prog:tensors()) do
      if t.role == "input" and has[t.name] then
        found = true
        if from[t.name] then
          return "input tensor '" .. t.name .. "' is in " .. from[t.name] .. " and in " .. path
        elseif not o["--in"][t.name] then
          o["--in"][t.name], from[t.name] = path, path
        end
      end
    end
    if not found then return path .. " has no input tensor of the program" end
  end
end

-- A file has one writer, a {who, path}, or several of one name, and is not the program's (but a
-- resumed run may be saved where it was); what is wrong, or nil. Devices take what comes.
local function check_writers(writers, program, resumed)
  table.sort(writers, function(a, b) return a[1] < b[1] end)
  local by = {}
  for _, w in ipairs(writers) do
    local who, path = w[1], w[2]
    if path == program and not (resumed and who == "--save") then
      return who .. " would write over the program, " .. path
    end
    if not path:match "^/dev/" and (by[path] or who) ~= who then
      return by[path] .. " and " .. who .. " both write " .. path
    end
    by[path] = who
  end
end

-- Two tensors cannot be one member of a file; what is wrong, or nil.
local function check_outputs(o)
  local taken = {}
  local writers = {}
  for name, file in pairs(o["--out"]) do
    local path, member, archive = place(file, name)
    local key = archive and path .. "\0" .. member
    if key and taken[key] then
      return "--out: two tensors would be '" .. member .. "' of " .. path
    end
    if key then taken[key] = true end
    writers[#writers + 1] = {archive and "--out " .. path or "--out " .. name, path}
  end
  for name, path in pairs(o["--csv"] or {}) do writers[#writers + 1] = {"--csv " .. name, path} end
  for _, flag in ipairs {"--trace", "--html", "--save"} do
    if o[flag] then writers[#writers + 1] = {flag, o[flag]} end
  end
  return check_writers(writers, o.program, o["--resume"])
end

-- Checks the names on the command line against the program's tensors; what is wrong, or nil.
local function check_names(prog, o)
  local inputs, all, roles = {}, {}, {}
  for _, t in ipairs(prog:tensors()) do
    roles[t.name] = t.role
    all[#all + 1] = t.name
    if t.role == "input" then inputs[#inputs + 1] = t.name end
  end
  for _, flag in ipairs {"--in", "--out"} do
    for name in pairs(o[flag]) do
      if not roles[name] then
        return flag .. " " .. name .. ": the program has no tensor '" .. name .. "'" ..
          (#all == 0 and "" or "; its tensors: " .. table.concat(all, ", "))
      end
    end
  end
  for _, name in ipairs(inputs) do
    if not o["--in"][name] and not o["--resume"] then
      return "input tensor '" .. name .. "' has no data: give --in " .. name .. "=FILE.npy"
    end
  end
  for name in pairs(o["--in"]) do
    if roles[name] == "const" then
      return "--in " .. name .. ": the program brings the data of its const tensors itself"
    end
  end
  return check_outputs(o)
end

-- The input tensors by name; nil and a message when a file is bad.
local function load_inputs(prog, o)
  local inputs = {}
  for _, t in ipairs(prog:tensors()) do
    local file = o["--in"][t.name]
    if file then
      local path, member, archive = place(file, t.name)
      local how = {dtype = host.dtype_hint(t.dtype), names = archive and {member}}
      local data, message = try(archive and archive.load or soma.load_npy, path, how)
      if not data then return nil, message end
      if archive then data = data[member] end
      inputs[t.name] = data
    end
  end
  return inputs
end

-- ---- The run --------------------------------------------------------------------------------

local function json_of(v, indent)
  if type(v) == "table" then
    local keys, lines = {}, {}
    for k in pairs(v) do keys[#keys + 1] = k end
    table.sort(keys)
    for _, k in ipairs(keys) do
      lines[#lines + 1] = indent .. '  "' .. k .. '": ' .. json_of(v[k], indent .. "  ")
    end
    return "{\n" .. table.concat(lines, ",\n") .. "\n" .. indent .. "}"
  elseif type(v) == "string" then
    return '"' .. v:gsub('[%c"\\]', function(c) return string.format("\\u%04x", c:byte()) end) .. '"'
  elseif math.type(v) == "float" then
    return v == v and v - v == 0 and string.format("%.17g", v) or "null"
  end
  return tostring(v)
end

-- A line on a terminal for runs that take more than two seconds.
local shown = false
local function progress(instructions, ns, seconds)
  if seconds < 2 then return end
  shown = true
  io.stderr:write(string.format("\r%.1f s: %d instructions, %.1f us simulated \27[K", seconds,
    instructions, ns / 1000))
end
local function clear_progress()
  if shown then io.stderr:write("\r\27[K") end
  shown = false
end

-- Saves what was asked for, each file at once; nil, or a message.
local function save(run, o)
  local names, several = {}, {}
  for name in pairs(o["--out"]) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local path, member, archive = place(o["--out"][name], name)
    local t, ok, message = run.out[name] or run:fetch(name), true, nil
    if not archive then
      ok, message = t:save_npy(path)
    elseif several[path] then
      several[path][member] = t
    else
      several[path] = {[member] = t}
      several[#several + 1] = path
    end
    if not ok then return message end
  end
  for _, path in ipairs(several) do
    local ok, message = try(select(3, place(path)).save, path, several[path])
    if not ok then return message end
  end
end

local function wants_events(o)
  if not (o["--trace"] or o["--html"] or o["--csv"] or o["--timeline"] or o["--explain-time"]) then
    return false
  end
  return {last = o["--trace-last"], limit = o["--trace-limit"], engines = o["--trace-engines"],
          from_ns = o["--trace-from"], until_ns = o["--trace-until"]}
end

-- The text of --cost's file, nil without one; false and a message that names file and line.
local function read_costs(o)
  local name = o["--cost"]
  if not name then return nil end
  local text, message = read_file(name)
  if not text then return false, message end
  local ok, wrong = pcall(soma.costs, nil, text)
  if ok then return text end
  wrong = tostring(wrong)
  local line, what = wrong:match "costs, line (%d+): (.*)$"
  return false, line and name .. ":" .. line .. ": " .. what or wrong
end

local function print_costs(o)
  local text, message = read_costs(o)
  if text == false then return complain(message) end
  io.write((select(2, soma.costs(o["--target"], text))))
  return 0
end

-- What shows the run in time; of a run that faulted as well. A message when a file cannot be written.
local function draw(run, o)
  local ok, message = true, nil
  local out = o["--json"] and io.stderr or io.stdout
  if o["--trace"] then ok, message = run:save_trace(o["--trace"]) end
  if ok and o["--html"] then ok, message = run:save_html(o["--html"], o.program) end
  for name, file in pairs(o["--csv"] or {}) do
    if ok then ok, message = run:save_table(file, name) end
  end
  if ok and o["--timeline"] then
    local columns = tonumber(os.getenv "COLUMNS" or "") or 80
    out:write(run:timeline(math.max(40, math.min(1000, columns // 1))))
  end
  if ok and o["--explain-time"] then out:write(run:explain_time()) end
  return not ok and message or nil
end

local function report(run, o)
  if o["--json"] then
    local t = run.stats
    if run.fault then
      t.fault = {}
      for k, v in pairs(run.fault) do t.fault[k] = v end
    end
    print(json_of(t, ""))
  elseif not o["--quiet"] then
    print(run:summary())
    if o["--check"] and o["--check"] ~= "none" and not run.fault and run.ended then
      print("checks        " .. o["--check"] .. ": nothing found")
    end
    if o.schedules_agree then print("schedules     " .. o["--schedule"] .. " more, the same bits") end
  end
end

-- Every finding of the checks but the first where that is the run's fault.
local function report_findings(run)
  local n = #run.findings
  for i = run.fault.kind == "check" and 2 or 1, n do
    local f = run.findings[i]
    io.stderr:write((f.text:gsub(": " .. f.check .. ": ", function(s) return paint(s) end, 1)), "\n")
  end
  if n > 1 then io.stderr:write(n, n == 64 and " findings or more" or " findings", "\n") end
end

-- The same program under n other timings; a message when one gives other bits, or fails.
local function try_schedules(prog, inputs, o, run)
  for seed = 1, o["--schedule"] do
    local core = soma.core {costs = o.costs, target = o["--target"], schedule = seed, checks = o["--check"],
      max_instructions = o["--max-instructions"], max_time = o["--max-ns"],
      max_seconds = o["--max-seconds"]}
    local other = core:run(prog, inputs, {faults = "return"})
    local again = "\n  again: --schedule-seed " .. seed
    if other.fault then return "under schedule " .. seed .. ": " .. tostring(other.fault) .. again end
    for name, value in pairs(run.out) do
      local same, difference = soma.equal(other.out[name], value)
      if not same then
        return string.format("schedule %d gives other bits in tensor %s: %s%s", seed, name,
          difference, again)
      end
    end
  end
end

-- The page shows the critical path. Its record has no limit, so that a trace with one does without.
local function wants_causes(o)
  return o["--explain-time"] or o["--html"] and not (o["--trace-last"] or o["--trace-limit"])
end

local function make_core(o)
  return soma.core {
    checks = o["--check"], schedule = o["--schedule-seed"],
    costs = o.costs, causes = wants_causes(o),
    target = o["--target"], max_instructions = o["--max-instructions"], max_time = o["--max-ns"],
    max_seconds = o["--max-seconds"], trace = wants_events(o),
    progress = host.terminal and progress or nil,
    print = o["--json"] and function(text) io.stderr:write(text) end or nil,
  }
end

-- Saves a run that has been stopped, if that was asked for.
local function keep(run, o)
  local file = o["--save"]
  if not file then return end
  local ok, done, message = pcall(run.save, run, file)
  if not ok then return complain(without_place(done)) end
  if not done then return complain(message) end
  io.stderr:write("soma: the run is saved; go on with: soma --resume ", file, "\n")
end

-- inputs: nil when the run was resumed, which is alone.
local function finish_run(run, o, prog, inputs)
  local ok, message = pcall(run.continue, run)
  clear_progress()
  if not ok then -- Ctrl-C; the run stands where it was
    complain(without_place(message))
    keep(run, o)
    report(run, o)
    return 130
  end
  local fault = run.fault
  if fault then
    local text = tostring(fault):gsub(fault.kind .. ": ", function(kind) return paint(kind) end, 1)
    io.stderr:write(text, "\n")
    report_findings(run)
    if fault.kind == "limit" or fault.kind == "stopped" then keep(run, o) end
    message = draw(run, o)
    if message then complain(message) end
    if o["--json"] then report(run, o) end
    return 1
  end
  message = inputs and o["--schedule"] and try_schedules(prog, inputs, o, run)
  if message then return complain(message) end
  o.schedules_agree = inputs and o["--schedule"]
  message = save(run, o) or draw(run, o)
  if message then return complain(message) end
  report(run, o)
  return 0
end

local function run_program(prog, inputs, o)
  local core = make_core(o)
  local ok, run = pcall(core.start, core, prog, inputs, {faults = "return", in_place = true})
  if not ok then return complain((tostring(run):gsub("^run: ", ""))) end
  return finish_run(run, o, prog, inputs)
end

local function resume(o)
  local core = make_core(o)
  local ok, run, prog = pcall(core.resume, core, o["--resume"], {faults = "return"})
  if not ok then return complain(without_place(run)) end
  if not run then return complain(prog) end
  local message = name_whole_files(prog, o) or check_names(prog, o)
  if message then return bad_usage(message) end
  return finish_run(run, o)
end

-- Whether the assembler has warned of the same on the same line.
local function warned(prog, finding)
  local place, name = finding:match "^(.-:%d+:)", finding:match "%[%-w%+[%w-]+%]$"
  for line in (place and prog:warnings() or ""):gmatch "[^\n]+" do
    if line:sub(1, #place) == place and line:sub(-#name) == name then return true end
  end
end

-- Prints what the static checks find: of a run only warnings, and a refused program is the run's to
-- refuse. Returns what is wrong with the program, if that is asked for.
local function lint(prog, alone)
  local ok, text, warnings = pcall(prog.lint, prog)
  if not ok then return alone and (tostring(text):gsub("^lint: ", "")) or nil end
  if not text or not alone and warnings == 0 then return end
  for line in text:gmatch "[^\n]+" do
    if not warned(prog, line) then io.stderr:write(line, "\n") end
  end
end

local function main()
  local o, message = parse()
  if not o then return bad_usage(message) end
  if o["--help"] then
    io.write(usage)
    return 0
  elseif o["--version"] then
    print("soma " .. soma.version)
    return 0
  elseif o["--costs"] then
    return print_costs(o)
  end
  if o["--max-memory"] then host.limit_memory(o["--max-memory"]) end
  o.costs, message = read_costs(o)
  if o.costs == false then return complain(message) end
  if o["--resume"] then return resume(o) end
  local ok, prog, wrong = pcall(load_program, o)
  if not ok then return report_source(prog) end
  if not prog then return bad_usage(wrong) end
  local warnings = prog:warnings()
  if warnings then io.stderr:write(warnings, "\n") end
  if o["--lint"] or o["--check"] then
    message = lint(prog, o["--lint"])
    if message then return complain(message) end
    if o["--lint"] then return 0 end
  end
  message = name_whole_files(prog, o)
  if message then return complain(message) end
  message = check_names(prog, o)
  if message then return bad_usage(message) end
  local inputs
  inputs, message = load_inputs(prog, o)
  if not inputs then return complain(message) end
  return run_program(prog, inputs, o)
end

return main()
