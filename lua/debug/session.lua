-- The debugger: run:debug(), world:debug() and soma --debug. lua/debug/README.md is its manual. A session
-- holds a run or the runs of a world, stops, and which engine of which core and rank its commands are
-- about (the focus).
local _, host = ...
local place, show, replay, stops, ranks = host.place, host.show, host.replay, host.stops, host.ranks
local refuse, ns, core_name = place.refuse, show.ns, place.core_name
local tell_place, tell_end, move, run_to = stops.tell_place, stops.tell_end, stops.move, stops.run_to

-- ---- Commands -------------------------------------------------------------------------------

-- In the order of their definition, which is that of help.
local commands = {} -- by name: {fn, usage, text}
local order = {}
local function command(name, usage, text, fn)
  commands[name] = {fn = fn, usage = usage, text = text, name = name}
  order[#order + 1] = name
end

-- The first engine of that core that has instructions, nil: none has.
-- Engines without instructions are not worth a focus.
local function first_engine(s, core)
  for _, name in ipairs(s.engines) do
    if show.at(s, core, name, 0) then return name end
  end
end

-- "core 1 vector", "core 1" or "vector" at the beginning of the arguments, taken off: an engine {core,
-- engine}, the focus when there is neither. Of a core alone it is the engine of the focus, if that core
-- has it.
local function engine_of(s, args)
  local digits, after = args:match "^core%s*(%d+)%f[%s\0]%s*(.*)$"
  -- A core that is not named is that of the focus.
  local core = digits and place.core_number(s, digits) or s.focus.core
  if digits then args = after end
  local word, rest = args:match "^(%a+)%f[%s\0]%s*(.*)$"
  -- CC sequencers have a digit in their name, which the pattern above does not take.
  if args:match "^cc%d%f[%s\0]" then word, rest = args:match "^(cc%d)%s*(.*)$" end
  local name = place.is_engine[word] and word or s.focus.engine
  if place.is_engine[word] then args = rest
  -- The engine of the focus may have nothing to do on that core.
  elseif (digits or s.given_rank) and not show.at(s, core, name, 0) then name = first_engine(s, core) end
  if not name or not show.at(s, core, name, 0) then
    refuse("%s has no instructions in this program", name and core_name(core, name) or "core " .. core)
  end
  return {rank = s.rank, core = core, engine = name}, args
end
local function name_of(e) return (e.rank and "rank " .. e.rank .. " " or "") .. core_name(e.core, e.engine) end
-- A stop of that kind at an engine's pc.
local function stop_at(kind, e, pc) return {kind = kind, rank = e.rank, core = e.core, engine = e.engine, pc = pc} end

-- Without a number once.
local function count_of(text)
  if text == "" then return 1 end
  local n = math.tointeger(tonumber(text))
  if not n or n < 1 then refuse("'%s' is not a count: write a whole number from 1 on", text) end
  return n
end

command("break", "PLACE [if COND]", "stop before the instruction at PLACE issues: FILE:LINE, LINE, ENGINE:PC, a label; or when\n$sem>=n begins to hold; after a write TILE[slice]; at time T. COND is Lua: r1 == 3, $done >= 2, t:max() > 1\nWith two cores a line or a label means both; `break core 1 PLACE` means one. In a world it means all ranks;\n`break rank 2 PLACE` means one",
  function(s, args) stops.add(s, args, false) end)
command("tbreak", "PLACE [if COND]", "the same, once", function(s, args) stops.add(s, args, true) end)
command("watch", "WHAT [if COND]", "stop after a write to a tile, a tensor or a part of it, as break write WHAT, and show it: was it changed?", function(s, args)
  if args == "" then refuse "watch what? A tile or a tensor, as in t[0:4, 3]" end
  stops.add(s, "write " .. args, false, true)
end)
command("delete", "[NUMBER]", "remove a stop, or all", function(s, args)
  -- All of them, also those that have not been hit.
  if args == "" then
    s.breaks = {}
    return
  end
  for _, b in ipairs(s.breaks) do
    -- Numbers are compared as text: what is no number matches none.
    if tostring(b.number) == args then return stops.remove(s, b) end
  end
  refuse("there is no stop %s", args)
end)
command("continue", "", "run to the next stop or the end", function(s)
  move(s, run_to(s))
  if not s.whole.ended then tell_place(s) end
end)
command("until", "TIME", "run to that time, forward or back", function(s, args)
  -- Nanoseconds, or with a unit.
  local t = place.time(args)
  if t < stops.now(s) or s.whole.ended then
    -- There need be no event at that time: the prompt tells the time that was asked for.
    replay.to_time(s, t)
    s.came_to = t
  else
    move(s, run_to(s, t))
    -- A stop before that time has told its place.
    if s.told then t = nil end
  end
  if not s.whole.ended then tell_place(s, t) end
end)

-- One instruction of the engine; true when it was that and no stop.
local function step_once(s, e)
  local before = stops.state_of(s, e)
  -- A halted engine never issues anything again.
  if before.status == "halted" then refuse("%s has halted", name_of(e)) end
  -- The engine may have to wait first, while all others move on.
  move(s, function() s.whole:step(e.engine, {rank = e.rank, core = e.core}) end)
  return not s.whole.ended and stops.state_of(s, e).instructions > before.instructions
end
command("step", "[ENGINE] [N]", "until the engine in focus has issued its instruction, N times", function(s, args)
  local engine, rest = engine_of(s, args)
  local n = count_of(rest)
  place.focus(s, engine)
  -- A stop ends the steps, as the user wants to look at it.
  for _ = 1, n do
    if not step_once(s, engine) then break end
  end
  if not s.whole.ended then tell_place(s) end
end)

-- How many of what the engine issued at pc are not done.
local function under_way(s, e, pc)
  local n = 0
  -- Both the data path and the queues may have work of that instruction.
  for _, f in ipairs(stops.state_of(s, e).in_flight) do
    if f.pc == pc then n = n + 1 end
  end
  for _, t in ipairs(s.run:transfers {core = e.core}) do
    if t.engine == e.engine and t.pc == pc then n = n + 1 end
  end
  return n
end
command("next", "[ENGINE]", "the same, and until its result is there", function(s, args)
  local engine = engine_of(s, args)
  -- The instruction that is next now is the one whose result is awaited.
  place.focus(s, engine)
  local pc = stops.state_of(s, engine).pc
  if step_once(s, engine) then
    local n = under_way(s, engine, pc)
    if n > 0 then
      -- It counts results: all that it has issued at that pc must be done.
      local wanted = stop_at("done", engine, pc)
      wanted.count = n
      local stop = s.whole:add_stop(wanted)
      local ok, message = pcall(move, s, run_to(s), {[stop] = true})
      -- It may have gone with the run.
      pcall(s.whole.remove_stop, s.whole, stop)
      if not ok then error(message, 0) end
    end
  end
  if not s.whole.ended then tell_place(s) end
end)

-- Where an engine comes out of the code that it is in: pcs, and whether one more step is to be taken.
local function exits(s, e, pc)
  local function at(n) return show.at(s, e.core, e.engine, n) end
  local top, last = s.prog:loop(e.engine, pc, e.core)
  local pcs = {}
  -- Not in a loop: to the return, and one step more.
  if not top then
    for n = pc, math.huge do
      local i = at(n)
      if not i then refuse("%s is not in a loop, and not in code that was called", name_of(e)) end
      if i.name == "ret" then return {n}, true end
    end
  end
  -- A branch out of the loop is an exit; a call comes back.
  for n = top, last do
    -- Also a loop that nothing leaves has an end to its code.
    local i = at(n)
    if i.target and (i.target < top or i.target > last) and i.name ~= "call" then pcs[#pcs + 1] = i.target end
  end
  if at(last + 1) then pcs[#pcs + 1] = last + 1 end
  if #pcs == 0 then refuse("nothing leads out of the loop of %s from pc %d to %d", name_of(e), top, last) end
  return pcs
end
command("finish", "", "to the end of the loop that the engine in focus is in, else of the code that was called", function(s)
  local engine, mine = s.focus, {}
  local pcs, returns = exits(s, engine, stops.state_of(s, engine).pc)
  -- Stops of this command alone.
  for _, pc in ipairs(pcs) do mine[s.whole:add_stop(stop_at("pc", engine, pc))] = true end
  local ok, message = pcall(move, s, run_to(s), mine)
  for id in pairs(mine) do pcall(s.whole.remove_stop, s.whole, id) end
  if not ok then error(message, 0) end
  -- `message` is what move gave: whether one of these stops has held.
  if returns and message then
    s.told = false
    step_once(s, engine)
  end
  if not s.whole.ended then tell_place(s) end
end)
command("back", "[N]", "undo N instructions of the engine in focus; after a fault: to the moment before it", function(s, args)
  -- A fault has no instruction that could be undone one by one.
  local n, fault = count_of(args), s.whole.fault
  if fault then
    -- Just before the fault, whose event is then the next.
    replay.to_time(s, math.max(0, fault.time_ns - 1e-5))
  else
    local have = stops.state_of(s, s.focus).instructions
    -- Never before the beginning.
    if have < n then refuse("%s has issued %d instructions", name_of(s.focus), have) end
    replay.to_count(s, s.focus, have - n)
  end
  s.came_to = 0
  tell_place(s)
end)

local how = {heat = show.heat, stats = show.stats}
command("print", "WHAT[/heat|/stats]", "a tile or tensor, as in t[0:4, :8]; a register r3 or vector.r3; a semaphore $s", function(s, args)
  -- As the manual writes it: what, then how.
  local what, form = args:match "^(.-)%s*/%s*(%a+)$"
  if not what then form, what = args:match "^/%s*(%a+)%s+(.+)$" end -- as gdb has it
  what = what or args
  if what == "" then refuse "print what? A tile, a tensor, r3, $s" end
  if form and not how[form] then refuse("'/%s': /heat or /stats%s", form, place.hint(form, {"heat", "stats"})) end
  -- The prefix counts for registers and semaphores; memory takes it off itself.
  local prefix, rest = place.core_of(s, what)
  local core = prefix or s.focus.core
  local engine, r = rest:match "^(%a+%d?)%.r(%d+)$"
  if not engine then engine, r = s.focus.engine, rest:match "^r(%d+)$" end
  if r and place.is_engine[engine] then
    -- Sixty-four registers.
    if tonumber(r) > 63 then refuse("the registers are r0 to r63") end
    s.print(string.format("%s%s.r%s = %d", place.rank_name(s), core_name(core, engine), r, s.core:register(engine, math.tointeger(tonumber(r)), {core = core})))
  elseif rest:match "^%$" then
    s.print(place.rank_name(s) .. core_name(core, rest) .. " = " .. place.semaphore_value(s, rest:sub(2), core))
  else
    local m = place.memory(s, what)
    -- The value first, then who is about to change it.
    s.print(m.text .. " = " .. (how[form] or show.matrix)(place.read(s, m)))
    show.writers(s, m)
  end
end)

local function info_break(s)
  local rows = {}
  for _, b in ipairs(s.breaks) do
    -- A row for each stop.
    rows[#rows + 1] = {b.number, b.what .. (b.cond and " if " .. b.cond or ""), b.once and "once" or "", b.hits .. " times"}
  end
  return #rows > 0 and show.columns(rows) or "  no stops"
end
local infos = {engines = show.engines, ranks = show.ranks, sems = show.sems, queues = show.queues, tiles = show.tiles,
               transfers = show.transfers, ["break"] = info_break}
-- In order, for messages.
local function names_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end
command("info", "break|engines|queues|ranks|sems|tiles|transfers", "what there is, and what it does now", function(s, args)
  local several = {}
  for _, name in ipairs(names_of(infos)) do
    -- A prefix is enough where it means one only.
    if args ~= "" and name:sub(1, #args) == args then several[#several + 1] = name end
  end
  local f = infos[#several == 1 and several[1] or args]
  if not f then refuse("info %s%s", table.concat(names_of(infos), ", "), place.hint(args, names_of(infos))) end
  if s.runs and f ~= show.ranks and f ~= info_break then s.print("rank " .. s.rank) end
  s.print(f(s))
end)
local function set_focus(s, args)
  -- A core without a number is a mistake that engine_of would take for an engine.
  if args:match "^core%f[%W]" and not args:match "^core%s*%d" then
    refuse("core N [ENGINE]: N is the number of a core%s", s.cores > 1 and ", 0 or 1" or ": the program has one, core 0")
  end
  if args == "" and not s.given_rank then refuse("focus ENGINE: which? %s%s", s.cores > 1 and "core 0, core 1, " or "", table.concat(s.engines, ", ")) end
  local e, rest = engine_of(s, args)
  if args == "" and not s.given_rank or rest ~= "" then
    refuse("'%s' is not an engine: %s%s", rest, s.cores > 1 and "core 0, core 1, " or "", table.concat(s.engines, ", "))
  end
  place.focus(s, e)
  tell_place(s)
end
command("focus", "ENGINE", "the engine that step, next, back, print r3 are about: vector, core 1, core 1 vector", set_focus)
command("core", "N [ENGINE]", "focus core N; `core N` in front of an engine, a tile, a semaphore or a place means that core's,\nas in: print core 1 t[0:4], step core 1 vector", function(s, args) set_focus(s, "core " .. args) end)
command("rank", "N [ENGINE]", "focus rank N of a world; `rank N` first after a command means that rank's, as in: print rank 1 t[0:4],\nstep rank 1 vector, break rank 1 19", function(s, args)
  -- The rank is checked before the focus is moved.
  local digits, rest = args:match "^(%d+)%f[%s\0]%s*(.*)$"
  if not digits then refuse("rank N [ENGINE]: N is the number of a rank%s", s.runs and ", 0 to " .. #s.runs or ": this is no world of ranks") end
  s.given_rank = place.rank_number(s, digits)
  place.at_rank(s, s.given_rank)
  set_focus(s, rest)
end)
command("who", "wrote|reads WHAT", "the last instruction that has written a byte of it, or read one, so far", function(s, args)
  local kind, what = args:match "^(%a+)%s+(.+)$"
  -- Both forms, as people ask in both.
  local watch = ({wrote = "write", reads = "read", read = "read"})[kind]
  if not watch then refuse "who wrote TILE[p, i], or who reads TILE[p, i]" end
  local m = place.memory(s, what)
  local hit = replay.who(s, place.watches(m, watch))
  -- Without a hit nothing so far has touched the bytes.
  if not hit then
    s.print(string.format("nothing has %s %s so far", watch == "write" and "written" or "read", m.text))
  elseif watch == "write" then
    stops.tell_writer(s, hit)
  else
    s.print("  read by " .. place.rank_name(s) .. show.instruction(show.at(s, hit.core, hit.engine, hit.pc)) .. ", at " .. ns(hit.start_ns))
  end
end)

command("list", "[FILE:LINE|LINE]", "source around it, or around the next instruction", function(s, args)
  -- Where the engine stands, if it stands anywhere.
  local i = stops.next_of(s, s.focus)
  local here = i and i.line
  if args == "" then
    if not here and s.file then refuse("the next instruction of %s comes from no line of the source: name a line, as in list 12", name_of(s.focus)) end
    if not here then refuse "the program has no line table: assemble it from source" end
    return s.print(show.source(s, i.file, here, here))
  end
  local file, line = args:match "^(.-):?(%d+)$"
  if not line then refuse("'%s' is not a place in a file: write FILE:LINE or LINE", args) end
  -- Without a name the file of the first instruction.
  file = file ~= "" and file or s.file
  if not file then refuse "which file?" end
  s.print(show.source(s, file, math.tointeger(tonumber(line)), i and i.file == file and here))
end)
command("disas", "[ENGINE]", "instructions around the next one", function(s, args)
  local engine = engine_of(s, args)
  s.print(show.disas(s, engine.core, engine.engine, stops.state_of(s, engine).pc))
end)
command("log", "on|off", "a line for each instruction that is done", function(s, args)
  -- Nothing else turns it on or off.
  if args ~= "on" and args ~= "off" then refuse "log on, or log off" end
  s.whole:log_lines(args == "on" and s.print or nil)
end)
command("lua", "CODE", "an expression or statements, with soma, run, core, prog, registers, tiles; what it changes is lost\nwhen the run goes back", function(s, args)
  -- All values of an expression, as Lua prints them.
  local results = table.pack(stops.expression(s, args)())
  for i = 1, results.n do results[i] = tostring(results[i]) end
  if results.n > 0 then s.print(table.concat(results, "\t")) end
end)
command("save", "FILE", "the run, for soma --resume", function(s, args)
  -- The name is all that is needed.
  if args == "" then refuse "save to which file?" end
  local ok, message = s.whole:save(args)
  if not ok then refuse("%s", message) end
end)
command("help", "[COMMAND]", "this", function(s, args)
  local rows = {}
  if args ~= "" then
    local c = host.debug_find(args)
    return s.print(c.name .. " " .. c.usage .. "\n  " .. c.text:gsub("\n", "\n  "))
  end
  -- The first line of each text; the whole is in help COMMAND.
  for _, name in ipairs(order) do
    local c = commands[name]
    rows[#rows + 1] = {name .. " " .. c.usage, (c.text:gsub("\n.*$", " ..."))}
  end
  s.print(show.columns(rows, ""))
end)
command("quit", "", "end", function(s) s.over = true end)

-- As gdb has them.
local short = {b = "break", c = "continue", d = "delete", i = "info", l = "list", n = "next", p = "print", q = "quit", s = "step", u = "until", h = "help"}

-- The command that a word names, or begins.
local function find(word)
  local found = commands[short[word] or word]
  if found then return found end
  -- A beginning that fits one command alone.
  local several = {}
  for _, name in ipairs(order) do
    if name:sub(1, #word) == word then several[#several + 1] = name end
  end
  if #several == 1 then return commands[several[1]] end
  if #several > 1 then refuse("'%s' may be %s", word, table.concat(several, ", ")) end
  refuse("there is no command '%s'%s; help lists them", word, place.hint(word, order))
end
host.debug_find = find

-- ---- The session ----------------------------------------------------------------------------

local function text_of(message)
  -- The place within these files says nothing to a user.
  if type(message) == "table" and message.message then return message.message end
  return (tostring(message):gsub("^soma%.%a+:%d+: ", ""))
end

-- What an empty line does once more, on a terminal.
local repeats = {step = true, next = true, back = true, continue = true, finish = true}

-- Runs one line; false when it failed.
local function run_line(s, line)
  line = line:match "^%s*(.-)%s*$"
  if line == "" and s.again then line = s.again end
  -- A script of commands may have comments.
  if line == "" or line:sub(1, 1) == "#" then return true end
  local word, args = line:match "^([%a]+)%s*(.*)$"
  local ok, message = pcall(function()
    if not word then refuse("'%s' is not a command; help lists them", line) end
    local c = find(word)
    -- Only where somebody types: a transcript has empty lines of its own.
    s.again = host.terminal() and repeats[c.name] and line or nil
    -- Code may have the word `rank` itself.
    if c.name ~= "lua" then s.given_rank, args = place.rank_of(s, args) end
    if s.given_rank then place.at_rank(s, s.given_rank) end
    c.fn(s, args)
  end)
  s.given_rank = nil
  if s.runs then place.at_rank(s, s.focus.rank) end
  -- An error ends the line, not the session.
  if not ok then s.print("error: " .. text_of(message)) end
  return ok
end

-- Words that may come next, for completion.
local function complete(s, line)
  local before, word = line:match "^(.-)([%w_.$]*)$"
  local names, out = {}, {}
  -- The first word is a command, everything after it a name.
  if before:match "^%s*$" then names = order
  else
    for _, t in ipairs(s.prog:tiles()) do names[#names + 1] = t.name end
    for _, t in ipairs(s.prog:tensors()) do names[#names + 1] = t.name end
    for _, t in ipairs(s.prog:semaphores {core = s.focus.core}) do names[#names + 1] = "$" .. t.name end
    if s.cores > 1 then names[#names + 1] = "core" end
    if s.runs then names[#names + 1] = "rank" end
    for _, e in ipairs(s.engines) do names[#names + 1] = e end
    for name in pairs(infos) do names[#names + 1] = name end
  end
  for _, name in ipairs(names) do
    if name:sub(1, #word) == word then out[#out + 1] = name end
  end
  table.sort(out)
  return out
end

-- The engines of the run, and the CC sequencers if they have programs.
local function engines_of(s)
  s.engines = {}
  for _, name in ipairs(place.engines) do
    -- The five engines are always there, at least to be named.
    local there = not name:match "^cc"
    for rank = 0, s.runs and #s.runs or 0 do
      place.at_rank(s, rank)
      for core = 0, s.cores - 1 do there = there or show.at(s, core, name, 0) ~= nil end
    end
    if there then s.engines[#s.engines + 1] = name end
  end
  place.at_rank(s, 0)
end

local function find_focus(s)
  for core = 0, s.cores - 1 do
    for _, name in ipairs(s.engines) do
      local first = show.at(s, core, name, 0)
      -- The first engine with instructions, and the first that has a line of source.
      if first and not s.focus then s.focus, s.file = {rank = s.rank, core = core, engine = name}, first.file end
      if first and first.file and not s.file then s.file = first.file end
    end
  end
  if not s.focus then refuse "debug: the program has no instructions" end
end

-- of: a run, or of a world its runs by rank.
local function open(of, world, o)
  local s = {breaks = {}, last_break = 0, armed = {}, sources = {}, found = o.sources or {}, came_to = 0,
             print = o.print or function(text) io.write(text, "\n") end}
  if world then
    s.world, s.runs, s.progs, s.whole = world, of, {}, ranks.whole_of(world, of)
    place.at_rank(s, 0)
  else
    s.run, s.whole, s.core, s.prog = of, of, host.core_of(of), host.program_of(of)
  end
  s.cores = #s.run.stats.core
  engines_of(s)
  find_focus(s)
  replay.begin(s)
  return s
end

-- Reads a line: edited where the command brings an editor, else plainly. What is no terminal is
-- echoed, so that a transcript can be read.
local function reader(editor)
  if not host.terminal() then
    return function(prompt)
      local line = io.read()
      if line then io.write(prompt, line, "\n") end
      return line
    end
  end
  if editor and editor.read then return editor.read end
  return function(prompt)
    io.write(prompt)
    io.flush()
    return io.read()
  end
end

-- Reads commands until the user leaves.
local function converse(s, o, lines, found, editor)
  local read = o.read or reader(found and editor)
  if s.whole.ended then tell_end(s) else tell_place(s) end
  while not s.over do
    local line
    if lines then
      line = lines:read()
      if line then s.print("(soma) " .. line) end
      if not line then lines = lines:close() and nil end
    end
    if not line then line = read("(soma) ", function(text) return complete(s, text) end) end
    if not line then break end
    run_line(s, line)
  end
end

-- What is wrong with options of debug, or nil.
local function unusable(o)
  if not host.trusted() then return "debug: a script in the sandbox has no standard input" end
  return host.wrong_options("debug", o or {}, {script = "string", sources = "table", read = "function", print = "function", adapter = "table"})
end

-- {script = path, sources = {NAME = path}, read = function(prompt, complete), print = function(text)}; adapter:
-- the editor of adapter.lua, which is there instead of a user's commands
local function debug_with(of, world, o)
  local lines, message
  if o.script then lines, message = io.open(o.script) end
  if o.script and not lines then error("cannot read '" .. o.script .. "': " .. message:gsub("^.*: ", ""), 0) end
  local ok, s = pcall(open, of, world, o)
  if not ok then error(type(s) == "table" and s.message or s, 0) end
  if o.adapter then
    host.adapter.serve(s, o.adapter)
    return of
  end
  local found, editor = pcall(require, "soma.lines") -- of the command
  local attended = found and editor.attend(true)
  converse(s, o, lines, found, editor)
  if found then editor.attend(attended) end
  return of
end

-- run:debug{...}
local function debug(run, o)
  local wrong = unusable(o)
  if wrong then error(wrong, 2) end
  -- A fault would else leave the debugger as an error, and with it the session.
  local faults = host.return_faults(run, true)
  local ok, message = pcall(debug_with, run, nil, o or {})
  host.return_faults(run, faults)
  if not ok then error(message, 0) end
  return run
end

-- world:debug{...}, of a world that has been started.
local function debug_world(world, o)
  local wrong, runs = unusable(o), host.runs_of(world)
  if wrong then error(wrong, 2) end
  if not runs then error("debug: the world has not been started: world:start(program, inputs)", 2) end
  return debug_with(runs, world, o or {})
end

-- run:until_line(file, line): until an instruction of that line can issue, or the end.
local function until_line(run, file, line)
  local prog, ids = host.program_of(run), {}
  for core = 0, #run.stats.core - 1 do
    for _, i in ipairs(prog:instructions {file = file, line = line, core = core}) do
      ids[#ids + 1] = run:add_stop {kind = "pc", core = core, engine = i.engine, pc = i.pc}
    end
  end
  if #ids == 0 then error("until_line: no instruction comes from " .. file .. ":" .. line, 2) end
  local ok, message = pcall(run.continue, run)
  for _, id in ipairs(ids) do pcall(run.remove_stop, run, id) end
  if not ok then error(message, 0) end
  return run
end

return {debug = debug, debug_world = debug_world, until_line = until_line}
