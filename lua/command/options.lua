-- The command line of soma: what each option takes, and the words of --help. Gets the host's facts
-- and where data are (data.lua); gives {usage, parse, nearest}.
local host, data = ...
local soma = require "soma"

local usage = [[
usage: soma PROGRAM.s|PROGRAM.sbc [options]     run a program; - is source on standard input
       soma A.s B.s ... [options]               run one of several sources and objects, linked
       soma --resume FILE [options]             continue a run that --save has saved
       soma SCRIPT.lua [arguments]              run a Lua script
       soma --sandbox [options] SCRIPT.lua|PROGRAM.s    run one that you do not trust
       soma -e CODE [arguments]                 run Lua code, with the module as soma
       soma -i                                  a Lua prompt, with the module as soma
       soma --dap                               for editors, which name the program or script
  --in NAME=FILE.npy     data of an input tensor; may be repeated. From FILE.npz or FILE.safetensors
                         its tensor NAME, or FILE.npz:OTHER; --in FILE.npz binds every input in it.
                         Or generated data: zeros, ones, arange, randn:SEED, uniform:SEED:LO:HI
  --rows NAME=N          the first dimension of a tensor, if the program leaves it to the run and
                         no file gives it; may be repeated
  --out NAME=FILE.npy    save a tensor when the run has ended well; may be repeated, for one
                         FILE.npz or FILE.safetensors too; --out FILE.npz saves every output
  --expect NAME=FILE     compare a tensor with FILE.npy (or what --in takes) when the run has ended
                         well; --rtol X and --atol X: allowed error, by default 1e-5, 1e-8
  --ranks N              run a world of N ranks, whose collectives meet; --lnc 2: of two cores each;
                         --instance NAME: where; --algorithm NAME: of all collectives (ring, mesh,
                         mesh-single, rdh, kangaring; without it by their size).
                         --in 2:x=FILE is for rank 2 alone, and %r in a file's name stands for the
                         rank: --out y=y-%r.npy
  --plan RANK            print the program of a rank of --ranks, with those that its CC sequencers
                         get for its collectives, as soma-as takes it, and do not run
  --timing-only          simulate only the time: inputs may be left out, nothing is saved
  --target TARGET        @TARGETS@; default: the program's own, else trn2. Or
                         a hypothetical machine: 'trn2, sbuf_kib=384, pe_clock_ghz=2.8', or a
                         FILE with such a text; isa/README.md has the keys
  -D NAME[=VALUE]        define a macro of the source
  -I DIRECTORY           search for included files; may be repeated, as -D may
  --max-instructions N   stop a run that does not end; so do --max-ns N (simulated time) and
                         --max-seconds N (time of the host; 0: no limit, else 60 on a terminal)
                         and --max-cpu-seconds N (time on its processors, of all threads)
  --max-memory BYTES     limit of memory on the host, for example 512M or 2G
  --threads N            threads of the host, by default as many as its cores; results are the same
  --save FILE            when a limit or Ctrl-C stops the run, or the debugger is left, save it
                         for --resume
  --trace FILE.json      save the run's events for ui.perfetto.dev; FILE.json.gz: compressed, as
                         --html and --csv do with a name that ends in .gz
  --html FILE.html       save the events as a page for a browser, with the critical path
  --csv NAME=FILE.csv    save a table: Instruction, DmaPacket, SemaphoreUpdate, ActiveTime, Summary,
                         CcOp, CcInstruction, CcStream (of a rank)
  --timeline             print a timeline of the engines and queues
  --check CHECKS         all, or some of @CHECKS@: report what
                         the machine leaves undefined, and what works only by luck of timing
  --no-twins             report also that both cores write the same bytes from one line
  --all-findings         print all findings, not the first three
  --lint                 look for what is wrong under every timing, and do not run; --check also
                         reports this before the run
  --schedule N           run N more times under other legal timings; the bits must be the same
  --schedule all         judge all legal timings: print whether the program depends on timing, and
                         if so the two places and a schedule for each order
  --schedule-seed SEED   run under one of these timings
  --explain-time         print the critical path, where its time went, and what kept engines idle
  --trace-last N         record only the last N events; or --trace-limit N, the first N
  --trace-engines A,B    record only these engines' instructions and what they cause
  --trace-from NS        record from this simulated time on, and --trace-until NS to that
  --debug                stop before the first instruction and take commands (help lists them) from
                         standard input; -x FILE: from a file first
  --source NAME=FILE     the debugger finds the text of source file NAME in FILE; may be repeated
  --log                  print a line for each instruction that is done, on standard error
  --costs [TARGET]       print the constants of the clock; --cost FILE changes some
  --explain NAME         explain a constant of the clock or a check; soma-as knows other names
  --json                 print the summary as JSON
  --quiet                print nothing when the run ends well
  --help, --version
A FILE that is - or /dev/stdout is standard output; the summary then goes to standard error.
Exit status: 0 ok, 1 a fault or an error in the source or a file, 2 bad usage, 3 --schedule all does
not decide, 130 interrupted.
]]

-- The names of a list of tables with one `sep` between them, `last` before the last one.
local function names(list, sep, last)
  local all = {}
  for i, x in ipairs(list) do all[i] = x.name end
  local n = #all
  return table.concat(all, sep, 1, n - 1) .. last .. all[n]
end
usage = usage:gsub("@(%u+)@", {CHECKS = names(soma.checks, ",", ","), TARGETS = names(soma.isa.targets, ", ", " or ")})

local function nearest(word, known)
  table.sort(known)
  local near = #word > 3 and host.nearest(word, known)
  return near and ", did you mean " .. near .. "?" or ""
end

-- How an option takes its value: `read` gives what it means, or nil if it is not what the option wants.
local function reads(wants, read)
  return function(o, word, value)
    o[word] = read(value)
    if o[word] == nil then return word .. " takes " .. wants .. ", not '" .. value .. "'" end
  end
end

local function real(fits)
  return function(value)
    local n = tonumber(value)
    return n and n < math.huge and fits(n) and n or nil
  end
end
local function whole(least, most)
  return function(value)
    local n = math.tointeger(tonumber(value))
    return n and n >= least and n <= most and n or nil
  end
end
local function is_positive(n) return n > 0 end
local function is_not_negative(n) return n >= 0 end

local take_number = reads("a positive number", real(is_positive))
local take_seconds = reads("a number of seconds, 0 for no limit", real(is_not_negative))
local take_tolerance = reads("a number of at least 0", real(is_not_negative))
local take_count = reads("a whole number of at least 1", whole(1, math.maxinteger))
local take_rank = reads("the number of a rank, from 0 on", whole(0, math.maxinteger))
local take_threads = reads("a whole number from 1 to 256", whole(1, 256))
local take_bytes = reads("a number of bytes, such as 4096, 64K, 512M or 2G", host.bytes)
local take_schedule = reads("a whole number of at least 1, or all", function(value)
  return value == "all" and value or whole(1, math.maxinteger)(value)
end)

-- NAME=VALUE, each name once.
local function put_named(o, word, name, value)
  o[word] = o[word] or {}
  if o[word][name] then return word .. " names '" .. name .. "' twice" end
  o[word][name] = value
end

local function take_pair(o, word, value)
  local name, file = value:match("^([^=]+)=(.+)$")
  local path, member, archive = data.place(value)
  if name then return put_named(o, word, name, file) end
  if not archive then return word .. " takes NAME=FILE.npy, not '" .. value .. "'" end
  if member then return word .. " " .. value .. ": say for which tensor, " .. word .. " NAME=" .. value end
  table.insert(o[word .. " whole"], path)
end

local function take_rows(o, word, value)
  local name, n = value:match("^([^=]+)=(%d+)$")
  n = math.tointeger(tonumber(n or ""))
  if not n then return word .. " takes NAME=N, as in x=100, not '" .. value .. "'" end
  return put_named(o, word, name, n)
end

local tables = {"Instruction", "DmaPacket", "SemaphoreUpdate", "ActiveTime", "Summary", "CcOp", "CcInstruction", "CcStream"}
local function take_table(o, word, value)
  local name, file = value:match("^([^=]+)=(.+)$")
  if not name then return word .. " takes TABLE=FILE.csv, not '" .. value .. "'" end
  for _, known in ipairs(tables) do
    if name == known then return put_named(o, word, name, file) end
  end
  return word .. ": there is no table '" .. name .. "'; there are: " .. table.concat(tables, ", ")
end

local function take_source(o, word, value)
  local name, file = value:match("^([^=]+)=(.+)$")
  if not name then return word .. " takes NAME=FILE, not '" .. value .. "'" end
  return put_named(o, word, name, file)
end

local function take_define(o, word, value)
  local name = value:match("^([^=]*)=?")
  if not name:match("^[%a_.?@$][%w_.?@$]*$") then
    return word .. " takes NAME or NAME=VALUE, not '" .. value .. "'"
  end
  table.insert(o[word], value)
end

-- A target, or a hypothetical machine: its text, or a file that has it.
-- A word without = or comma that is no target is a file's name.
local function take_target(o, word, value)
  local text, file = value, nil
  if not value:find "[=,]" and not pcall(soma.isa.target, value) then
    file = io.open(value, "rb")
    if not file then
      return word .. " takes one of " .. names(soma.isa.targets, ", ", ", ") .. ", not '" .. value .. "'"
    end
    text = file:read "a" or ""
    file:close()
  end
  local ok, wrong = pcall(soma.costs, text)
  if not ok then return word .. (file and " " .. value or "") .. ": " .. wrong:gsub("^costs: ", "") end
  o[word] = text
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
  if not value:match "%w" then return word .. " takes all, or names of checks with commas between them, not '" .. value .. "'" end
  local ok, message = pcall(soma.core, {checks = value})
  if not ok then return word .. ": " .. message:gsub("^.-unknown", "unknown") end
  o[word] = value
end

-- What each option does with its value: nil, or what is wrong. Flags take none.
local options = {
  ["--in"] = take_pair, ["--out"] = take_pair, ["--expect"] = take_pair, ["--rows"] = take_rows,
  ["--rtol"] = take_tolerance, ["--atol"] = take_tolerance, ["--timing-only"] = "flag",
  ["--target"] = take_target, ["--ranks"] = take_count, ["--lnc"] = take_count, ["--instance"] = take_file,
  ["--algorithm"] = take_file, ["--plan"] = take_rank,
  ["-D"] = take_define, ["-I"] = take_list, ["--trace"] = take_file,
  ["--html"] = take_file, ["--csv"] = take_table, ["--timeline"] = "flag",
  ["--max-instructions"] = take_count, ["--max-ns"] = take_number, ["--max-seconds"] = take_seconds, ["--max-cpu-seconds"] = take_number,
  ["--max-memory"] = take_bytes, ["--threads"] = take_threads,
  ["--check"] = take_checks, ["--lint"] = "flag", ["--schedule"] = take_schedule, ["--schedule-seed"] = take_count,
  ["--trace-last"] = take_count, ["--trace-limit"] = take_count,
  ["--trace-engines"] = take_engines, ["--trace-from"] = take_number,
  ["--trace-until"] = take_number, ["--explain-time"] = "flag", ["--all-findings"] = "flag", ["--no-twins"] = "flag", ["--cost"] = take_file,
  ["--save"] = take_file, ["--resume"] = take_file, ["--debug"] = "flag", ["-x"] = take_file, ["--source"] = take_source, ["--log"] = "flag",
  ["--costs"] = "perhaps", ["--explain"] = take_file, ["--json"] = "flag", ["--quiet"] = "flag", ["--help"] = "flag", ["--version"] = "flag",
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

-- Whether an option is given: it may be a list of what it was given.
local function given(o, flag)
  local value = o[flag]
  return #(o[flag .. " whole"] or {}) > 0 or value and (type(value) ~= "table" or next(value) ~= nil)
end

local function first_given(o, flags)
  for _, flag in ipairs(flags) do
    if given(o, flag) then return flag end
  end
end

-- Options that say nothing without another one.
local needs = {
  {"--expect", {"--rtol", "--atol"}}, {"--debug", {"-x", "--source"}},
  {"--ranks", {"--lnc", "--instance", "--algorithm", "--plan"}},
}

-- What does not go together: the first with those of the list, and why.
local apart = {
  {"--timing-only", {"--out", "--expect", "--check", "--schedule"}, ", which computes nothing"},
  -- The debugger goes back and forth: what records a run, or speaks at its end, does not go with it.
  {"--debug", {"--trace", "--html", "--csv", "--timeline", "--explain-time", "--schedule", "--json", "--lint", "--expect"}, ""},
  {"--debug", {"--log"}, ": its command is log on"},
  {"--ranks", {"--json", "--lint", "--resume", "--expect"}, ": it is not built for a world of ranks"},
  {"--resume", {"--check", "--no-twins", "--lint", "--schedule", "--schedule-seed", "--cost", "--explain-time", "--expect",
                "--timing-only"}, ": a saved run continues as it began"},
}

-- What is wrong with the options together, or nil.
local function check_together(o)
  for _, row in ipairs(needs) do
    local lost = not given(o, row[1]) and first_given(o, row[2])
    if lost then return lost .. " is for " .. row[1] .. ", which is not given" end
  end
  for _, row in ipairs(apart) do
    local other = given(o, row[1]) and first_given(o, row[2])
    if other then return other .. " does not go with " .. row[1] .. row[3] end
  end
end

-- A limit of what is recorded; what is wrong, or nil.
local function check_record(o)
  if o["--trace-last"] and o["--trace-limit"] then return "give either --trace-last or --trace-limit" end
  if o["--trace-from"] and o["--trace-until"] and o["--trace-from"] >= o["--trace-until"] then
    return "--trace-until must be more than --trace-from"
  end
  if first_given(o, {"--trace", "--html", "--csv", "--timeline", "--explain-time"}) then return end
  local flag = first_given(o, {"--trace-last", "--trace-limit", "--trace-engines", "--trace-from", "--trace-until"})
  return flag and flag .. " is for --trace, --html, --csv, --timeline and --explain-time: none is given"
end

-- A saved run brings its program, its inputs and what they were made with; what is wrong, or nil.
local function check_resume(o)
  if not o["--resume"] then return end
  if o.program then return "--resume has its own program: '" .. o.program .. "' is a second one" end
  if first_given(o, {"--in", "--rows", "-D", "-I"}) then
    return "--in, --rows, -D and -I do not go with --resume: the run has started already"
  end
  o.program, o.programs = o["--resume"], {o["--resume"]}
end

-- Values that do not fit; what is wrong, or nil.
local function check_values(o)
  if #o["--expect whole"] > 0 then return "--expect takes NAME=FILE, not '" .. o["--expect whole"][1] .. "'" end
  if o["--debug"] and o.program == "-" and not o["-x"] then
    return "the program is standard input, so the commands of --debug need -x FILE"
  end
  if not o["--ranks"] then return end
  if o["--plan"] and o["--plan"] >= o["--ranks"] then return "--plan " .. o["--plan"] .. ": the ranks are 0 to " .. o["--ranks"] - 1 end
  if o["--schedule"] == "all" then return "--schedule all does not go with --ranks: it is not built for a world of ranks; --schedule 20 tries 20 timings" end
end

-- Names of files that stand for standard output; what is wrong, or nil.
local function redirect(o)
  local by
  local function take(flag, name)
    if not data.standard[name] then return name end
    if by then error {by .. " and " .. flag .. " both write to standard output"} end
    by = flag
    return data.standard[name]
  end
  local ok, wrong = pcall(function()
    for _, flag in ipairs {"--trace", "--html", "--save"} do o[flag] = o[flag] and take(flag, o[flag]) end
    for _, flag in ipairs {"--out", "--csv"} do
      for name, file in pairs(o[flag] or {}) do o[flag][name] = take(flag .. " " .. name, file) end
    end
  end)
  if not ok then return wrong[1] or error(wrong) end
  if by and o["--json"] then return by .. " and --json both write to standard output" end
  o.stdout_taken = by ~= nil
end

-- The options as a table; nil and what is wrong.
local function parse(args)
  local o = {["--in"] = {}, ["--rows"] = {}, ["--out"] = {}, ["--expect"] = {}, ["--expect whole"] = {}, ["--in whole"] = {}, ["--out whole"] = {}, ["-D"] = {}, ["-I"] = {}, programs = {}}
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
    else
      o.programs[#o.programs + 1] = word
      o.program = o.programs[1]
    end
    i = i + 1
  end
  if o["--help"] or o["--version"] then return o end
  local wrong = check_record(o)
  if wrong then return nil, wrong end
  if o["--explain"] then
    return not o.program and o or nil, "--explain takes one name and runs nothing"
  end
  if o["--costs"] then
    wrong = o["--costs"] ~= true and take_target(o, "--target", o["--costs"])
    if wrong then return nil, (wrong:gsub("^%-%-target", "--costs")) end
    if o.program then
      return nil, (take_target({}, "--costs", o.program) or "--costs takes one target") .. "; it runs nothing"
    end
    return o
  end
  wrong = check_values(o) or check_together(o) or redirect(o) or check_resume(o)
  if wrong then return nil, wrong end
  if o["--resume"] then return o end
  if o["--schedule"] == "all" and o["--schedule-seed"] then return nil, "--schedule all does not go with --schedule-seed" end
  if not o.program then return nil, "no program given" end
  for _, name in ipairs(o.programs) do
    if name == "-" and o.programs[2] then return nil, "several files are linked: each needs a name, not -" end
    if name:match "%.lua$" then
      return nil, "'" .. name .. "' is a script, whose arguments follow it: soma " .. name .. " [arguments]"
    end
  end
  return o
end

return {usage = usage, parse = parse, take_target = take_target, put_named = put_named, reads = reads, real = real, bytes = take_bytes}
