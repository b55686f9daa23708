-- The soma command on a program: soma prog.(s|sbc) [options]. Gets the host's facts and the
-- arguments; returns the exit status: 0 ok, 1 the program or its source failed, 2 bad usage,
-- 3 not decided, 130 interrupted.
local host, args = ...
local soma = require "soma"

local json = host.part "json"
local data = host.part("data", host)
local options = host.part("options", host, data)
local try, without_place = data.try, data.without_place

-- Bold red, only where the terminal shows colours.
local function paint(text)
  if host.color then return "\27[1;31m" .. text .. "\27[0m" end
  return text
end

local limit = "" -- ": --max-memory is 4096 bytes", made before there is no memory for it
-- Out of memory names the limit of --max-memory, if there is one.
local function complain(text)
  local more = text:find "memory$" and limit or ""
  io.stderr:write("soma: ", paint "error:", " ", text, more, "\n")
  return 1
end

-- One line of help, since the usage has many.
local function bad_usage(text)
  complain(text)
  io.stderr:write("try soma --help\n")
  return 2
end

-- ---- The program and its data ---------------------------------------------------------------

-- A file's text; nil and a message. In a sandbox the files have been read.
local function read_file(name)
  if host.texts then return host.texts[name] end
  -- Bytes: a program file is no text.
  local file, message = io.open(name, "rb")
  local text
  if file then
    text, message = file:read "a"
    file:close()
  end
  if text then return text end
  return nil, "cannot read '" .. name .. "': " .. message:gsub("^.*: ", "")
end

-- The first bytes of each program file.
local magic = "\127SBC"

-- The program of a source file or a .sbc file, whatever its name; nil and what is wrong with the
-- command line.
local function load_program(o)
  local text, message
  local source = {defines = o["-D"], include = o["-I"], target = o["--target"],
                  env = host.texts == nil} -- a stranger's source reads no variables
  -- Several files are linked, sources and objects alike.
  if o.programs[2] then
    local files = {}
    for i, name in ipairs(o.programs) do
      text, message = read_file(name)
      if not text then error(message, 0) end
      -- The name tells the linker which kind it is, and messages where.
      files[i] = {name = name, text = text}
    end
    return soma.link(files, source)
  end
  if o.program == "-" then
    text, message = io.read "a"
    message = not text and "cannot read standard input: " .. message
  else
    text, message = read_file(o.program)
  end
  if not text then error(message, 0) end
  -- A program file is known by its first bytes, even from standard input.
  if text:sub(1, #magic) == magic or o.program:match "%.sbc$" then
    -- Given for nothing, they would be silently ignored.
    if #o["-D"] > 0 or #o["-I"] > 0 then
      return nil, "-D and -I are for source text; '" .. o.program .. "' is assembled already"
    end
    return assert(soma.load(o.program == "-" and text or o.program))
  end
  source.name = o.program == "-" and "standard input" or o.program
  return soma.assemble(text, source)
end

-- The assembler's own messages go out as they are, others with the command's name.
local function report_source(text)
  -- The module's place in its own code says nothing to a user.
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

-- ---- The run --------------------------------------------------------------------------------

-- A line on a terminal for runs that take more than two seconds.
-- Whether there is a line to be wiped before something else is printed.
local shown = false
local function progress(instructions, ns, seconds)
  -- Short runs print no progress.
  if seconds < 2 then return end
  shown = true
  io.stderr:write(string.format("\r%.1f s: %d instructions, %.1f us simulated \27[K", seconds,
    instructions, ns / 1000))
end
local function clear_progress()
  if shown then io.stderr:write("\r\27[K") end
  shown = false
end

-- Events are recorded only for what shows them: they take memory.
local function wants_events(o)
  if not (o["--trace"] or o["--html"] or o["--csv"] or o["--timeline"] or o["--explain-time"]) then
    return false
  end
  return {last = o["--trace-last"], limit = o["--trace-limit"], engines = o["--trace-engines"],
          from_ns = o["--trace-from"], until_ns = o["--trace-until"]}
end

-- The text of --cost's file, nil without one; false and a message that names file and line.
local function read_costs(o)
  -- nil, not false: no file is no fault.
  local name = o["--cost"]
  if not name then return nil end
  local text, message = read_file(name)
  if not text then return false, message end
  local ok, wrong = pcall(soma.costs, nil, text)
  if ok then return text end
  wrong = tostring(wrong)
  -- A message with a line gets the file's name before it, as compilers do.
  local line, what = wrong:match "costs, line (%d+): (.*)$"
  return false, line and name .. ":" .. line .. ": " .. what or wrong
end

local function print_costs(o)
  local text, message = read_costs(o)
  if text == false then return complain(message) end
  io.write((select(2, soma.costs(o["--target"], text))))
  return 0
end

local checks = {} -- what each finds, by name
for _, check in ipairs(soma.checks) do checks[check.name] = check.text end

-- A name may be both; all that is known of it is printed.
-- A constant of the clock, on each target, or a check.
local function explain(name)
  local known = false
  if checks[name] then
    io.write(name, ": a check: ", checks[name], "\n  soma PROGRAM.s --check ", name, "; vm/check/README.md\n")
    known = true
  end
  for _, t in ipairs(soma.isa.targets) do
    -- A target may lack a constant that others have.
    local c = soma.costs(t.name)[name]
    if c then
      if not known then io.write(name, ": a constant of the clock; --cost FILE changes it\n") end
      io.write(string.format("  %s %d %s, %s %s\n", t.name, c.value, c.unit, c.tag, c.source))
      known = true
    end
  end
  if known then return 0 end
  local names = {}
  -- Suggestions from both lists.
  for word in pairs(checks) do names[#names + 1] = word end
  for word in pairs(soma.costs "trn2") do names[#names + 1] = word end
  table.sort(names)
  local near = host.nearest(name, names)
  return complain("no constant of the clock and no check is called '" .. name .. "'" ..
    (near and "; did you mean " .. near .. "?" or "") .. "; soma-as --explain has the words of the language")
end

-- The timeline of a run, as wide as the terminal.
local function timeline(run)
  -- Narrower than forty columns nothing can be read; wider than a thousand nobody has.
  local columns = tonumber(os.getenv "COLUMNS" or "") or 80
  return run:timeline(math.max(40, math.min(1000, columns // 1)))
end

-- What shows the run in time; of a run that faulted as well. A message when a file cannot be written.
-- Drawn before the summary, so that a file that cannot be written is an error.
local function draw(run, o)
  local ok, message = true, nil
  -- What is machine-readable keeps standard output for itself.
  local out = (o["--json"] or o.stdout_taken) and io.stderr or io.stdout
  if o["--trace"] then ok, message = run:save_trace(o["--trace"]) end
  if ok and o["--html"] then ok, message = run:save_html(o["--html"], o.program) end
  for name, file in pairs(o["--csv"] or {}) do
    if ok then ok, message = run:save_table(file, name) end
  end
  if ok and o["--timeline"] then out:write(timeline(run)) end
  if ok and o["--explain-time"] then out:write(run:explain_time()) end
  return not ok and message or nil
end

local function report(run, o)
  local out = o.stdout_taken and io.stderr or io.stdout
  if o["--json"] then
    -- The run's own statistics, and what the command adds.
    local t = run.stats
    t.schedules = run.schedules
    if run.fault then
      t.fault = {}
      -- A copy: the fault itself is an object that cannot be written as JSON.
      for k, v in pairs(run.fault) do t.fault[k] = v end
    end
    if o["--check"] and o["--check"] ~= "none" then
      t.findings = setmetatable({}, {__metatable = "list"})
      for i, f in ipairs(run.findings) do t.findings[i] = {check = f.check, file = f.file, line = f.line, text = f.text} end
    end
    print(json(t))
  elseif not o["--quiet"] then
    out:write(run:summary(), "\n")
    if o["--check"] and o["--check"] ~= "none" and not run.fault and run.ended then
      out:write("checks        ", o["--check"], ": nothing found\n")
    end
    if run.schedules and run.schedules.verdict == "same" then out:write(run.schedules.text, "\n") end
    if o.schedules_agree then out:write("schedules     ", o["--schedule"], " more, the same bits\n") end
    -- Each --expect that has been met.
    for name in pairs(o.expected or {}) do out:write("as expected   ", name, "\n") end
  end
end

local SHOWN = 3 -- findings, unless all are asked for

-- The findings of the checks but the first where that is the run's fault.
local function report_findings(run, all)
  local n = #run.findings
  -- The first finding is the fault's text, which has been printed.
  for i = run.fault.kind == "check" and 2 or 1, all and n or math.min(n, SHOWN) do
    local f = run.findings[i]
    io.stderr:write((f.text:gsub(": " .. f.check .. ": ", function(s) return paint(s) end, 1)), "\n")
  end
  if n > 1 then
    io.stderr:write(n, n == 64 and " findings or more" or " findings",
      (all or n <= SHOWN) and "" or "; all of them: --all-findings", "\n")
  end
end

-- What all legal timings do: the exit status, and where that is not 0 the text.
local function judge_schedules(run)
  local s = run.schedules
  if not s or s.verdict == "same" then return 0 end
  -- In red up to the first colon.
  io.stderr:write((s.text:gsub("^[^:]*:", paint, 1)), "\n")
  return s.verdict == "depends" and 1 or 3
end

-- The same program under n other timings, with those checks; a message when one gives other bits, or fails.
local function try_schedules(prog, inputs, o, run, checks)
  for seed = 1, o["--schedule"] do
    local core = soma.core {costs = o.costs, target = o["--target"], schedule = seed, checks = checks, twins = not o["--no-twins"],
      max_instructions = o["--max-instructions"], max_time = o["--max-ns"],
      max_seconds = o["--max-seconds"], max_cpu_seconds = o["--max-cpu-seconds"], threads = o["--threads"],
      print = function() end} -- it has been printed
    -- Faults are returned, so that the seed can be said with them.
    local other = core:run(prog, inputs, {faults = "return", rows = o["--rows"]})
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

-- Seconds of the host after which a run stops that was given no limit, where somebody waits for it.
-- Long enough for most programs, short enough for a user who waits.
local PATIENCE <const> = 60
-- Only on a terminal: a script's long run is not stopped by surprise.
local function patience(o)
  local limited = o["--max-instructions"] or o["--max-ns"] or o["--max-seconds"] or o["--max-cpu-seconds"]
  if not host.terminal or limited or o["--debug"] then return nil end
  return tonumber(os.getenv "SOMA_MAX_SECONDS" or "") or PATIENCE
end

-- Says how to go on after that, when it is what has stopped the run.
local function explain_limit(run, o)
  -- Only its own limit is explained, not one that was given.
  if run.fault.kind ~= "limit" or not o.patience or not run.fault.text:find("host time", 1, true) then return end
  io.stderr:write("soma: on a terminal a run without a limit stops after ", string.format("%.15g", o.patience),
    " s; --max-seconds 0 lifts that, --max-seconds N sets another limit\n")
end

local function make_options(o)
  o.patience = patience(o)
  return {
    -- One table for a core and for the ranks of a world.
    checks = o["--check"], twins = not o["--no-twins"], schedule = o["--schedule"] == "all" and "all" or o["--schedule-seed"],
    costs = o.costs, causes = wants_causes(o),
    target = o["--target"], max_instructions = o["--max-instructions"], max_time = o["--max-ns"],
    max_seconds = o["--max-seconds"] or o.patience, max_cpu_seconds = o["--max-cpu-seconds"], threads = o["--threads"],
    trace = wants_events(o), timing_only = o["--timing-only"],
    progress = host.terminal and progress or nil,
    print = host.print or (o["--json"] or o.stdout_taken) and function(text) io.stderr:write(text) end or nil,
  }
end
local function make_core(o) return soma.core(make_options(o)) end

-- Saves a run or a world that has been stopped, if that was asked for.
local function keep(run, o, what)
  local file = o["--save"]
  -- Saving may raise an error or give one.
  if not file then return end
  local ok, done, message = pcall(run.save, run, file)
  if not ok or not done then return complain(without_place(ok and message or done)) end
  if o["--debug"] and o["--quiet"] then return end
  io.stderr:write("soma: the ", what or "run", " is saved; continue with: soma --resume ", file, "\n")
end

-- The debugger; what the run has given is saved when it has come to its end there.
local function debug_run(run, o)
  local ok, message = pcall(run.debug, run, {script = o["-x"], sources = o["--source"]})
  if not ok then return complain(without_place(message)) end
  -- A debugged run is saved where it stands; a fault is not.
  if not run.fault then keep(run, o) end
  if next(o["--out"]) == nil then return 0 end
  if not run.ended or run.fault then return complain "--out: the run has not ended; nothing is saved" end
  message = data.save(run, o)
  return message and complain(message) or 0
end

-- A run with findings has come to its end: its results are there, and other schedules may be tried.
local function after_findings(run, o, prog, inputs)
  local more = inputs and o["--schedule"] ~= "all" and o["--schedule"]
  -- All three are tried, so that one run tells everything.
  local said = {more and try_schedules(prog, inputs, o, run, nil) or false, data.save(run, o) or false,
                o.expected and data.compare(run, o, o.expected) or false}
  for _, message in ipairs(said) do
    if message then complain(message) end
  end
end

-- inputs: nil when the run was resumed, which is alone.
local function finish_run(run, o, prog, inputs)
  if o["--debug"] then return debug_run(run, o) end
  if o["--log"] then
    -- The lines go out while the run is moved.
    local done, wrong = pcall(run.log_lines, run, function(text) io.stderr:write(text, "\n") end)
    if not done then return complain(without_place(wrong)) end
  end
  local ok, message = pcall(run.continue, run)
  clear_progress()
  if not ok then -- Ctrl-C; the run stands where it was
    complain(without_place(message))
    keep(run, o)
    message = draw(run, o) -- the trace and the page of what ran
    if message then complain(message) end
    report(run, o)
    return 130
  end
  local fault = run.fault
  -- After the run: the line of progress is gone by now.
  if fault then
    local text = tostring(fault):gsub(fault.kind .. ": ", function(kind) return paint(kind) end, 1)
    io.stderr:write(text, "\n")
    report_findings(run, o["--all-findings"])
    explain_limit(run, o)
    -- What all timings do is worth knowing after a fault too.
    judge_schedules(run)
    if fault.kind == "limit" or fault.kind == "stopped" then keep(run, o) end
    message = draw(run, o)
    if message then complain(message) end
    -- Findings do not end a run before its results are there.
    if fault.kind == "check" then after_findings(run, o, prog, inputs) end
    if o["--json"] then report(run, o) end
    return 1
  end
  local more = inputs and o["--schedule"] ~= "all" and o["--schedule"]
  -- Other timings before the files: results that depend on them are not saved.
  message = more and try_schedules(prog, inputs, o, run, o["--check"])
  if message then return complain(message) end
  o.schedules_agree = more
  message = data.save(run, o) or draw(run, o)
  if message then return complain(message) end
  report(run, o)
  -- Expectations last: all files are there by then.
  message = o.expected and data.compare(run, o, o.expected)
  local status = judge_schedules(run)
  return message and complain(message) or status
end

local function run_program(prog, inputs, o)
  local core = make_core(o)
  -- Starting may fail on inputs of the wrong shape.
  local ok, run = pcall(core.start, core, prog, inputs, {faults = "return", in_place = true, rows = o["--rows"]})
  if not ok then return complain((tostring(run):gsub("^run: ", ""))) end
  return finish_run(run, o, prog, inputs)
end

local function resume(o)
  local core = make_core(o)
  local ok, run, prog = pcall(core.resume, core, o["--resume"], {faults = "return"})
  if not ok then return complain(without_place(run)) end
  if not run then return complain(prog) end
  -- The file's program has the names.
  local message = data.name_whole_files(prog, o) or data.check_names(prog, o)
  if message then return bad_usage(message) end
  return finish_run(run, o)
end

-- Whether the assembler has warned of the same on the same line.
local function warned(prog, finding)
  -- The same line and the same name of a warning.
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

local function is_world(path)
  -- A saved world begins with these bytes; a saved run has others.
  local file <close> = io.open(path, "rb")
  return file and file:read(8) == "SomaWld\n"
end

local function main()
  local o, message = options.parse(args)
  if not o then return bad_usage(message) end
  if o["--help"] then
    io.write(options.usage)
    return 0
  elseif o["--version"] then
    print("soma " .. soma.version)
    -- Without a filter the sandbox still has its other walls.
    local filter = host.filter()
    print("sandbox: " .. (filter and "system calls filtered by " .. filter or "without a filter of system calls"))
    return 0
  elseif o["--explain"] then
    return explain(o["--explain"])
  elseif o["--costs"] then
    return print_costs(o)
  end
  -- As early as possible: all that follows counts.
  if o["--max-memory"] then
    limit = ": --max-memory is " .. o["--max-memory"] .. " bytes"
    host.limit_memory(o["--max-memory"])
  end
  o.costs, message = read_costs(o)
  if o.costs == false then return complain(message) end
  if o["--resume"] then
    if is_world(o["--resume"]) then return host.part("ranks", data, complain, bad_usage, make_options(o), timeline, keep, SHOWN)(nil, o) end
    if o["--target"] then return bad_usage "--target does not go with --resume of a run: it has its machine; a world of a hypothetical one needs it" end
    return resume(o)
  end
  local ok, prog, wrong = pcall(load_program, o)
  if not ok then return report_source(prog) end
  if not prog then return bad_usage(wrong) end
  -- Warnings do not stop anything.
  local warnings = prog:warnings()
  if warnings then io.stderr:write(warnings, "\n") end
  if o["--lint"] or o["--check"] then
    message = lint(prog, o["--lint"])
    if message then return complain(message) end
    if o["--lint"] then return 0 end
  end
  if o["--ranks"] then return host.part("ranks", data, complain, bad_usage, make_options(o), timeline, keep, SHOWN)(prog, o) end
  message = data.name_whole_files(prog, o)
  if message then return complain(message) end
  message = data.check_names(prog, o)
  if message then return bad_usage(message) end
  local inputs
  inputs, message = data.load(prog, o, "--in")
  if not inputs then return complain(message) end
  -- Both inputs and expectations are loaded before the run, so that a bad file costs no
  -- time.
  o.expected, message = data.load(prog, o, "--expect")
  if not o.expected then return complain(message) end
  return run_program(prog, inputs, o)
end

return main()
