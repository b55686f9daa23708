-- The debugger: run:debug() and soma --debug. lua/debug/README.md is its manual. A session holds a
-- run, its stops, and which engine its commands are about (the focus).
local soma, host = ...
local place, show, replay = host.debug_place, host.debug_show, host.debug_replay
local refuse, ns = place.refuse, show.ns

-- ---- Where it stands ------------------------------------------------------------------------

local function next_of(s, engine)
  return show.at(s, engine, s.run:engine(engine).pc)
end

local function tell_calls(s, i)
  for _, call in ipairs(i.calls or {}) do s.print("    in " .. call) end
end

-- The line of the engine in focus, with what it waits for; before it the time, unless a stop has
-- told it.
local function tell_place(s, time_ns)
  local e = s.run:engine(s.focus)
  local now = e.status == "halted" and s.run.time_ns or math.max(s.run.time_ns, e.time_ns)
  if not s.told then s.print("at " .. ns(time_ns or now)) end
  s.told = false
  if e.status == "halted" then
    s.print("  " .. s.focus .. " has halted")
    return
  end
  local i = next_of(s, s.focus)
  s.print("  " .. show.instruction(i))
  tell_calls(s, i)
  if e.status == "waiting" then
    s.print(string.format("    it waits for $%s%s%d, which is %d", e.semaphore_name or "S[" .. e.semaphore .. "]",
      e.condition, e.want, e.have))
  end
end

local function tell_end(s)
  local f = s.run.fault
  if not f then
    s.print("the run has ended well at " .. ns(s.run.time_ns))
  else
    s.print(tostring(f))
    if f.engine then s.focus = f.engine end
    s.print("the run has ended at " .. ns(s.run.time_ns) .. (s.no_way_back and "" or "; back goes to before it"))
  end
end

-- ---- Stops ----------------------------------------------------------------------------------

-- What a condition and `lua` see: registers of the engine in focus, tiles and tensors, the module.
local function environment(s)
  local env = {soma = soma, run = s.run, core = s.core, prog = s.prog}
  return setmetatable(env, {__index = function(_, name)
    local r = math.tointeger(tonumber(tostring(name):match "^r(%d+)$" or ""))
    if r and r < 64 then return s.core:register(s.focus, r) end
    if name == "time" then return s.run.time_ns end
    if name == "engine" then return s.focus end
    if name == "sem" then return function(which) return s.core:semaphore(place.semaphore(s, which)) end end
    local ok, m = pcall(place.memory, s, tostring(name))
    if ok then return place.read(s, m) end
    return _G[name]
  end})
end

-- An expression of Lua, in which $name is a semaphore's value, as a function.
local function expression(s, text)
  local lua = text:gsub("%$([%a_][%w_]*)", 'sem("%1")')
  local env = environment(s)
  local f, message = load("return " .. lua, "=expression", "t", env)
  if not f then f, message = load(lua, "=expression", "t", env) end
  if not f then refuse("%s", message) end
  return f
end

-- The stops of the run that a text names, and what to call them.
local function stops_of(s, text)
  local what = text:match "^write%s+(.+)$"
  if what then
    local m = place.memory(s, what)
    return place.watches(m, "write"), "a write to " .. m.text
  end
  what = text:match "^time%s+(.+)$"
  if what then
    local t = place.time(what)
    return {}, "time " .. ns(t), t
  end
  local sem, cond, value = text:match "^%$([%w_%[%]]+)%s*([<>=!]=?)%s*(%d+)$"
  if sem then
    local number = place.semaphore(s, sem)
    return {{kind = "semaphore", semaphore = number, condition = cond, value = math.tointeger(tonumber(value))}},
      "$" .. sem .. cond .. value
  end
  if text:match "^%$" then refuse("'%s' is no condition of a semaphore: $name>=4", text) end
  local stops, words = {}, {}
  for k, i in ipairs(place.code(s, text)) do
    stops[k] = {kind = "pc", engine = i.engine, pc = i.pc}
    if k <= 3 then words[k] = i.engine .. " " .. i.pc .. (i.file and " (" .. show.where(i) .. ")" or "") end
  end
  return stops, table.concat(words, ", ") .. (#stops > 3 and " and " .. #stops - 3 .. " more" or "")
end

local function add_break(s, text, once)
  local spot, cond = text:match "^(.-)%s+if%s+(.+)$"
  spot = (spot or text):match "^%s*(.-)%s*$"
  if spot == "" then refuse "break where? FILE:LINE, LINE, ENGINE:PC, a label, $sem>=n, write TILE, time T" end
  local stops, what, t = stops_of(s, spot)
  local b = {stops = stops, what = what, time_ns = t, once = once, hits = 0, cond = cond, test = cond and expression(s, cond)}
  for _, stop in ipairs(stops) do -- what cannot be is refused now
    s.run:remove_stop(s.run:add_stop(stop))
  end
  s.last_break = s.last_break + 1
  b.number = s.last_break
  s.breaks[#s.breaks + 1] = b
  s.print(string.format("stop %d: %s%s%s", b.number, b.what, cond and " if " .. cond or "", once and ", once" or ""))
end

local function remove_break(s, b)
  for i, k in ipairs(s.breaks) do
    if k == b then table.remove(s.breaks, i) end
  end
end

local function arm(s)
  s.armed = {}
  for _, b in ipairs(s.breaks) do
    for _, stop in ipairs(b.stops) do s.armed[s.run:add_stop(stop)] = b end
  end
end
local function disarm(s)
  for id in pairs(s.armed) do pcall(s.run.remove_stop, s.run, id) end
  s.armed = {}
end

-- The time that the run has come to: there need be no event at it.
local function now(s) return math.max(s.run.time_ns, s.came_to) end

-- The next stop by time; nil: none.
local function next_time(s)
  local best
  for _, b in ipairs(s.breaks) do
    if b.time_ns and b.time_ns > now(s) and (not best or b.time_ns < best.time_ns) then best = b end
  end
  return best
end

-- Whether the stop holds with its condition; tells of it.
local function holds(s, b, hit)
  if hit.engine then s.focus = hit.engine end
  if b.test then
    local ok, value = pcall(b.test)
    if not ok then
      s.print("stop " .. b.number .. ": its condition fails: " .. tostring(type(value) == "table" and value.message or value))
    elseif not value then
      return false
    end
  end
  b.hits = b.hits + 1
  s.told = true
  s.print(string.format("stop %d at %s: %s", b.number, ns(b.time_ns or s.run.time_ns), b.what))
  if b.once then remove_break(s, b) end
  return true
end

-- Tells of a write: who it was. The engine itself has gone on since.
local function tell_writer(s, hit)
  local i = show.at(s, hit.engine, hit.pc)
  s.print(string.format("  written by %s%s, from %s to %s%s", show.instruction(i),
    hit.dma_engine and ", DMA engine " .. hit.dma_engine or "", ns(hit.start_ns), ns(hit.time_ns),
    hit.part and " (it may have left these bytes alone)" or ""))
end

-- Runs on by `go(limit)` until a stop that holds, the end, or what go itself stops at, and says
-- where it stands. Own stops of the caller are in `mine`, by number: true when one has held.
local function move(s, go, mine)
  if s.run.ended then
    refuse(s.run.fault and "the run has ended with a fault; back goes to before it" or "the run has ended; back and until go back")
  end
  local done, own = false, false
  s.told = false
  local focus = s.focus
  repeat
    local timed = next_time(s)
    arm(s)
    local ok, message = pcall(go, timed and timed.time_ns)
    local hits = s.run.stopped
    local armed = s.armed
    disarm(s)
    if not ok then error(message, 0) end
    for _, hit in ipairs(hits) do
      if mine and mine[hit.stop] then done, own = true, true end
    end
    for _, hit in ipairs(hits) do
      local b = armed[hit.stop]
      if b and holds(s, b, hit) then
        done = true
        if b.stops[1].kind == "write" and hit.engine then tell_writer(s, hit) end
        focus = s.focus
      end
    end
    local at_time = timed and #hits == 0 and not s.run.ended and s.reached == timed.time_ns
    if at_time and holds(s, timed, {}) then done = true end
    if #hits == 0 and not at_time then done = true end
  until done or s.run.ended
  s.focus = focus
  if s.run.ended then tell_end(s) end
  return own
end

-- For move: to a time or the end, whichever limit comes first.
local function run_to(s, until_ns)
  return function(limit)
    local to = until_ns
    if limit and (not to or limit < to) then to = limit end
    s.reached = nil
    replay.forward(s, to)
    if to and not s.run.ended and #s.run.stopped == 0 then s.reached, s.came_to = to, to end
  end
end

-- ---- Commands -------------------------------------------------------------------------------

local commands = {} -- by name: {fn, usage, text}
local order = {}
local function command(name, usage, text, fn)
  commands[name] = {fn = fn, usage = usage, text = text, name = name}
  order[#order + 1] = name
end

-- An engine's name at the beginning of the arguments, taken off; the focus otherwise.
local function engine_of(s, args)
  local word, rest = args:match "^(%a+)%s*(.*)$"
  if not word or not place.is_engine[word] then return s.focus, args end
  if not show.at(s, word, 0) then refuse("%s has no instructions in this program", word) end
  return word, rest
end

local function count_of(text)
  if text == "" then return 1 end
  local n = math.tointeger(tonumber(text))
  if not n or n < 1 then refuse("'%s' is no count: a whole number from 1 on", text) end
  return n
end

command("break", "PLACE [if COND]", "stop before the instruction at PLACE issues: FILE:LINE, LINE, ENGINE:PC, a label; or when\n$sem>=n begins to hold; after a write TILE[slice]; at time T. COND is Lua: r1 == 3, $done >= 2, t:max() > 1",
  function(s, args) add_break(s, args, false) end)
command("tbreak", "PLACE [if COND]", "the same, once", function(s, args) add_break(s, args, true) end)
command("delete", "[NUMBER]", "remove a stop, or all", function(s, args)
  if args == "" then
    s.breaks = {}
    return
  end
  for _, b in ipairs(s.breaks) do
    if tostring(b.number) == args then return remove_break(s, b) end
  end
  refuse("there is no stop %s", args)
end)
command("continue", "", "run to the next stop or the end", function(s)
  move(s, run_to(s))
  if not s.run.ended then tell_place(s) end
end)
command("until", "TIME", "run to that time, forward or back", function(s, args)
  local t = place.time(args)
  if t < now(s) or s.run.ended then
    replay.to_time(s, t)
    s.came_to = t
  else
    move(s, run_to(s, t))
    if s.told then t = nil end
  end
  if not s.run.ended then tell_place(s, t) end
end)

-- One instruction of the engine; true when it was that and no stop.
local function step_once(s, engine)
  local before = s.run:engine(engine)
  if before.status == "halted" then refuse("%s has halted", engine) end
  move(s, function() s.run:step(engine) end)
  return not s.run.ended and s.run:engine(engine).instructions > before.instructions
end
command("step", "[ENGINE] [N]", "until the engine in focus has issued its instruction, N times", function(s, args)
  local engine, rest = engine_of(s, args)
  local n = count_of(rest)
  s.focus = engine
  for _ = 1, n do
    if not step_once(s, engine) then break end
  end
  if not s.run.ended then tell_place(s) end
end)

-- How many of what the engine issued at pc are not done.
local function under_way(s, engine, pc)
  local n = 0
  for _, f in ipairs(s.run:engine(engine).in_flight) do
    if f.pc == pc then n = n + 1 end
  end
  for _, t in ipairs(s.run:transfers()) do
    if t.engine == engine and t.pc == pc then n = n + 1 end
  end
  return n
end
command("next", "[ENGINE]", "the same, and until its result is there", function(s, args)
  local engine = engine_of(s, args)
  s.focus = engine
  local pc = s.run:engine(engine).pc
  if step_once(s, engine) then
    local n = under_way(s, engine, pc)
    if n > 0 then
      local stop = s.run:add_stop {kind = "done", engine = engine, pc = pc, count = n}
      local ok, message = pcall(move, s, run_to(s), {[stop] = true})
      pcall(s.run.remove_stop, s.run, stop)
      if not ok then error(message, 0) end
    end
  end
  if not s.run.ended then tell_place(s) end
end)

-- Where an engine comes out of the code that it is in: pcs, and whether one more step is to be taken.
local function exits(s, engine, pc)
  local top, last = s.prog:loop(engine, pc)
  local pcs = {}
  if not top then
    for n = pc, math.huge do
      local i = show.at(s, engine, n)
      if not i then refuse("%s is in no loop, and in no code that was called", engine) end
      if i.name == "ret" then return {n}, true end
    end
  end
  for n = top, last do
    local i = show.at(s, engine, n)
    if i.target and (i.target < top or i.target > last) and i.name ~= "call" then pcs[#pcs + 1] = i.target end
  end
  if show.at(s, engine, last + 1) then pcs[#pcs + 1] = last + 1 end
  if #pcs == 0 then refuse("nothing leads out of the loop of %s from pc %d to %d", engine, top, last) end
  return pcs
end
command("finish", "", "to the end of the loop that the engine in focus is in, else of the code that was called", function(s)
  local engine, mine = s.focus, {}
  local pcs, returns = exits(s, engine, s.run:engine(engine).pc)
  for _, pc in ipairs(pcs) do mine[s.run:add_stop {kind = "pc", engine = engine, pc = pc}] = true end
  local ok, message = pcall(move, s, run_to(s), mine)
  for id in pairs(mine) do pcall(s.run.remove_stop, s.run, id) end
  if not ok then error(message, 0) end
  if returns and message then
    s.told = false
    step_once(s, engine)
  end
  if not s.run.ended then tell_place(s) end
end)
command("back", "[N]", "undo N instructions of the engine in focus; after a fault: to the moment before it", function(s, args)
  local n, fault = count_of(args), s.run.fault
  if fault then
    replay.to_time(s, math.max(0, fault.time_ns - 1e-5))
  else
    local have = s.run:engine(s.focus).instructions
    if have < n then refuse("%s has issued %d instructions", s.focus, have) end
    replay.to_count(s, s.focus, have - n)
  end
  s.came_to = 0
  tell_place(s)
end)

local how = {heat = show.heat, stats = show.stats}
command("print", "WHAT[/heat|/stats]", "a tile or tensor, as in t[0:4, :8]; a register r3 or vector.r3; a semaphore $s", function(s, args)
  local what, form = args:match "^(.-)%s*/%s*(%a+)$"
  what = what or args
  if what == "" then refuse "print what? A tile, a tensor, r3, $s" end
  if form and not how[form] then refuse("'/%s': /heat or /stats%s", form, place.hint(form, {"heat", "stats"})) end
  local engine, r = what:match "^(%a+)%.r(%d+)$"
  if not engine then engine, r = s.focus, what:match "^r(%d+)$" end
  if r and place.is_engine[engine] then
    if tonumber(r) > 63 then refuse("there are registers r0 to r63") end
    s.print(string.format("%s.r%s = %d", engine, r, s.core:register(engine, math.tointeger(tonumber(r)))))
  elseif what:match "^%$" then
    s.print(what .. " = " .. s.core:semaphore(place.semaphore(s, what:sub(2))))
  else
    local m = place.memory(s, what)
    s.print(m.text .. " = " .. (how[form] or show.matrix)(place.read(s, m)))
  end
end)

local function info_break(s)
  local rows = {}
  for _, b in ipairs(s.breaks) do
    rows[#rows + 1] = {b.number, b.what .. (b.cond and " if " .. b.cond or ""), b.once and "once" or "", b.hits .. " times"}
  end
  return #rows > 0 and show.columns(rows) or "  no stops"
end
local infos = {engines = show.engines, sems = show.sems, queues = show.queues, tiles = show.tiles,
               transfers = show.transfers, ["break"] = info_break}
local function names_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end
command("info", "break|engines|queues|sems|tiles|transfers", "what there is, and what it does now", function(s, args)
  local several = {}
  for _, name in ipairs(names_of(infos)) do
    if args ~= "" and name:sub(1, #args) == args then several[#several + 1] = name end
  end
  local f = infos[#several == 1 and several[1] or args]
  if not f then refuse("info %s%s", table.concat(names_of(infos), ", "), place.hint(args, names_of(infos))) end
  s.print(f(s))
end)
command("focus", "ENGINE", "the engine that step, next, back, print r3 are about", function(s, args)
  if not place.is_engine[args] then refuse("'%s' is no engine: %s", args, table.concat(place.engines, ", ")) end
  s.focus = engine_of(s, args)
  tell_place(s)
end)
command("who", "wrote|reads WHAT", "the last instruction that has written a byte of it, or read one, so far", function(s, args)
  local kind, what = args:match "^(%a+)%s+(.+)$"
  local watch = ({wrote = "write", reads = "read", read = "read"})[kind]
  if not watch then refuse "who wrote TILE[p, i], or who reads TILE[p, i]" end
  local m = place.memory(s, what)
  local hit = replay.who(s, place.watches(m, watch))
  if not hit then
    s.print(string.format("nothing has %s %s so far", watch == "write" and "written" or "read", m.text))
  elseif watch == "write" then
    tell_writer(s, hit)
  else
    s.print("  read by " .. show.instruction(show.at(s, hit.engine, hit.pc)) .. ", at " .. ns(hit.start_ns))
  end
end)

command("list", "[FILE:LINE|LINE]", "source around it, or around the next instruction", function(s, args)
  local i = next_of(s, s.focus)
  local here = i and i.line
  if args == "" then
    if not here then refuse "the program does not say its lines: assemble it from source" end
    return s.print(show.source(s, i.file, here, here))
  end
  local file, line = args:match "^(.-):?(%d+)$"
  if not line then refuse("'%s' is no place in a file: FILE:LINE or LINE", args) end
  file = file ~= "" and file or s.file
  if not file then refuse "which file?" end
  s.print(show.source(s, file, math.tointeger(tonumber(line)), i and i.file == file and here))
end)
command("disas", "[ENGINE]", "instructions around the next one", function(s, args)
  local engine = engine_of(s, args)
  s.print(show.disas(s, engine, s.run:engine(engine).pc))
end)
command("log", "on|off", "a line for each instruction that is done", function(s, args)
  if args ~= "on" and args ~= "off" then refuse "log on, or log off" end
  s.run:log_lines(args == "on" and s.print or nil)
end)
command("lua", "CODE", "an expression or statements, with soma, run, core, prog, registers, tiles; what it changes is lost\nwhen the run goes back", function(s, args)
  local results = table.pack(expression(s, args)())
  for i = 1, results.n do results[i] = tostring(results[i]) end
  if results.n > 0 then s.print(table.concat(results, "\t")) end
end)
command("save", "FILE", "the run, for soma --resume", function(s, args)
  if args == "" then refuse "save to which file?" end
  local ok, message = s.run:save(args)
  if not ok then refuse("%s", message) end
end)
command("help", "[COMMAND]", "this", function(s, args)
  local rows = {}
  if args ~= "" then
    local c = host.debug_find(args)
    return s.print(c.name .. " " .. c.usage .. "\n  " .. c.text:gsub("\n", "\n  "))
  end
  for _, name in ipairs(order) do
    local c = commands[name]
    rows[#rows + 1] = {name .. " " .. c.usage, (c.text:gsub("\n.*$", " ..."))}
  end
  s.print(show.columns(rows, ""))
end)
command("quit", "", "end", function(s) s.over = true end)

local short = {b = "break", c = "continue", d = "delete", i = "info", l = "list", n = "next", p = "print", q = "quit", s = "step", u = "until", h = "help"}

-- The command that a word names, or begins.
local function find(word)
  local found = commands[short[word] or word]
  if found then return found end
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
  if type(message) == "table" and message.message then return message.message end
  return (tostring(message):gsub("^soma%.%a+:%d+: ", ""))
end

-- What an empty line does once more, on a terminal.
local repeats = {step = true, next = true, back = true, continue = true, finish = true}

-- Runs one line; false when it failed.
local function run_line(s, line)
  line = line:match "^%s*(.-)%s*$"
  if line == "" and s.again then line = s.again end
  if line == "" or line:sub(1, 1) == "#" then return true end
  local word, args = line:match "^([%a]+)%s*(.*)$"
  local ok, message = pcall(function()
    if not word then refuse("'%s' is no command; help lists them", line) end
    local c = find(word)
    s.again = host.terminal() and repeats[c.name] and line or nil
    c.fn(s, args)
  end)
  if not ok then s.print("error: " .. text_of(message)) end
  return ok
end

-- Words that may come next, for completion.
local function complete(s, line)
  local before, word = line:match "^(.-)([%w_.$]*)$"
  local names, out = {}, {}
  if before:match "^%s*$" then names = order
  else
    for _, t in ipairs(s.prog:tiles()) do names[#names + 1] = t.name end
    for _, t in ipairs(s.prog:tensors()) do names[#names + 1] = t.name end
    for _, t in ipairs(s.prog:semaphores()) do names[#names + 1] = "$" .. t.name end
    for _, e in ipairs(place.engines) do names[#names + 1] = e end
    for name in pairs(infos) do names[#names + 1] = name end
  end
  for _, name in ipairs(names) do
    if name:sub(1, #word) == word then out[#out + 1] = name end
  end
  table.sort(out)
  return out
end

local function open(run, o)
  local s = {run = run, core = host.core_of(run), prog = host.program_of(run), breaks = {}, last_break = 0,
             armed = {}, sources = {}, came_to = 0, print = o.print or function(text) io.write(text, "\n") end}
  for _, name in ipairs(place.engines) do
    local first = show.at(s, name, 0)
    if first and not s.focus then s.focus, s.file = name, first.file end
    if first and first.file and not s.file then s.file = first.file end
  end
  if not s.focus then refuse "debug: the program has no instructions" end
  if #run.stats.core > 1 then refuse "debug: the debugger does not take programs of two cores in this version" end
  replay.begin(s)
  return s
end

-- Reads a line: edited where the command brings an editor, else plainly. What is no terminal is
-- echoed, so that a transcript can be read.
local function reader()
  local ok, editor = pcall(require, "soma.lines")
  if not host.terminal() then
    return function(prompt)
      local line = io.read()
      if line then io.write(prompt, line, "\n") end
      return line
    end
  end
  if ok then return editor.read end
  return function(prompt)
    io.write(prompt)
    io.flush()
    return io.read()
  end
end

-- run:debug{script = path, read = function(prompt, complete), print = function(text)}
local function debug(run, o)
  o = o or {}
  if not host.trusted() then error("debug: a script in the sandbox has no standard input", 2) end
  local wrong = host.wrong_options("debug", o, {script = "string", read = "function", print = "function"})
  if wrong then error(wrong, 2) end
  local lines, message
  if o.script then lines, message = io.open(o.script) end
  if o.script and not lines then error("cannot read '" .. o.script .. "': " .. message:gsub("^.*: ", ""), 0) end
  local ok, s = pcall(open, run, o)
  if not ok then error(type(s) == "table" and s.message or s, 0) end
  local faults = host.return_faults(run, true)
  local read = o.read or reader()
  if run.ended then tell_end(s) else tell_place(s) end
  local function close(...)
    host.return_faults(run, faults)
    return ...
  end
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
  return close(run)
end

-- run:until_line(file, line): until an instruction of that line can issue, or the end.
local function until_line(run, file, line)
  local prog, ids = host.program_of(run), {}
  local list = prog:instructions {file = file, line = line}
  if #list == 0 then error("until_line: no instruction comes from " .. file .. ":" .. line, 2) end
  for k, i in ipairs(list) do ids[k] = run:add_stop {kind = "pc", engine = i.engine, pc = i.pc} end
  local ok, message = pcall(run.continue, run)
  for _, id in ipairs(ids) do pcall(run.remove_stop, run, id) end
  if not ok then error(message, 0) end
  return run
end

-- run:log_lines(fn): fn gets a line of text for each instruction that is done; nil: no more.
local function log_lines(run, fn)
  local prog = host.program_of(run)
  return run:log(fn and function(l) fn(show.logged(prog, l)) end or nil)
end

return {debug = debug, until_line = until_line, log_lines = log_lines}
