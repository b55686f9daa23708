-- A Lua script that an editor debugs: `soma --dap=IN,OUT SCRIPT.lua ARGUMENTS`, which python/soma/dap_lua.py
-- starts with two pipes. The script stands at its lines, and at runs of cores and worlds; while it does, the
-- adapter asks by lines {name, ...} of Lua on IN, and gets a length and as much JSON on OUT. Without an answer:
-- `lines` {breakpoints by path and line}, `pause`, `go`, `leave`.
local host, args = ...
local soma = require "soma"
local json = host.part "json"

-- The numbers of the two pipes, which were open when the command was started.
local from, to = args[1]:match "^%-%-dap=(%d+),(%d+)$"
local input = assert(io.open("/dev/fd/" .. from, "rb"))
local output = assert(io.open("/dev/fd/" .. to, "wb"))
-- A buffer of the library would hide requests that have come already.
input:setvbuf "no" -- what host.pending sees is all that has come
local process = host.pid()

local breaks = {}     -- by path: conditions by line, "" where there is none
local mode            -- where the script stops next: "in", at any line; a depth, where it is not deeper
local driving = false -- a run is moved for the editor, or one of its expressions is at work
local held = {}       -- what numbers in answers stand for

local function list(t) return setmetatable(t, {__metatable = "list"}) end

-- The length first, so that the reader knows how much to wait for.
local function tell(t)
  local text = json(t)
  output:write(#text, "\n", text)
  output:flush()
end
local function answer(t, wrong) tell(t or {error = wrong}) end

-- A request is text of Lua, loaded without any globals.
local function request()
  local line = input:read "l"
  if not line then os.exit(1) end -- the adapter has gone
  return assert(load("return " .. line, "=request", "t", {}))()
end

-- Whether the editor wants the script or its run to stand.
-- Takes all that has come, and forgets what is no pause.
local function paused()
  local found = false
  while host.pending(math.tointeger(tonumber(from))) do
    local r = request()
    -- Lines that came while the script ran change its breakpoints at once.
    if r[1] == "lines" then breaks = r[2] else found = found or r[1] == "pause" end
  end
  return found
end

-- ---- Frames and variables -----------------------------------------------------------------------

local folder = args[2]:match "^(.*)/[^/]*$" or "."

-- The path of a chunk that is a file's; else nil. Names that do not begin with / are of the folder where
-- the script was started.
-- Chunks have few sources and many lines, so paths are kept.
local paths = {}
local function path_of(source)
  local path = paths[source]
  if path == nil then
    path = source:match "^@(.*)$" or false
    if path and path:sub(1, 1) ~= "/" then path = (os.getenv "PWD" or folder) .. "/" .. path:gsub("^%./", "") end
    paths[source] = path
  end
  return path
end

-- How deep the stack is, without the caller's own level.
local function levels()
  local n = 0
  while debug.getinfo(n + 1, "l") do n = n + 1 end
  return n - 1
end

-- The frames of files from a level of the caller on: {name, path, line, from the bottom}.
local function frames(level)
  -- Levels are counted from the top, `bottom` from the other end: it stays while the
  -- hook's own frames come and go.
  local found, all = {}, levels()
  while true do
    local info = debug.getinfo(level + 1, "nSl")
    if not info then return found end
    local path = path_of(info.source)
    if path then
      local name = info.what == "main" and "main chunk" or info.name or "function"
      found[#found + 1] = {name = name, path = path, line = info.currentline, bottom = all - level - 1}
    end
    level = level + 1
  end
end

-- What the function takes from around it first, so that locals of the same name win.
-- Names and values of a frame: its locals, the last of equal names, and what it takes from around it.
local function variables(frame)
  local level, names, values = levels() - frame.bottom, {}, {}
  local function add(name, value)
    if values[name] == nil then names[#names + 1] = name end
    values[name] = {value}
  end
  local info = debug.getinfo(level, "f")
  for i = 1, math.huge do
    local name, value = debug.getupvalue(info.func, i)
    if not name then break end
    if name ~= "_ENV" then add(name, value) end
  end
  for i = 1, math.huge do
    local name, value = debug.getlocal(level, i)
    if not name then break end
    -- Names in parentheses are Lua's own, as those of loops.
    if not name:match "^%(" then add(name, value) end
  end
  return names, values
end

local standing = {} -- frames of what stands

local SHOWN <const>, NUMBERS <const> = 200, 8 -- of a table; of a tensor on a line

-- A tensor on one line: its type, its first numbers and the last.
local function line_of(t)
  -- Type and shape before numbers, as they are what most mistakes are about.
  local words = {t.dtype .. "[" .. table.concat(t.shape, ", ") .. "]"}
  if t.size == 0 then return words[1] .. " empty" end
  -- In one row, so that the first and the last number are easy to find.
  local flat = t:reshape {t.size}
  local function number(i)
    local v = flat:get(i)
    return math.type(v) == "float" and ("%.6g"):format(v) or tostring(v)
  end
  for i = 0, math.min(NUMBERS, t.size) - 1 do words[#words + 1] = number(i) end
  if t.size > NUMBERS then words[#words + 1] = "... " .. number(t.size - 1) end
  return table.concat(words, " ")
end

-- A value of Lua on one line.
local function text_of(x)
  -- Quoted, on one line.
  if type(x) == "string" then return (("%q"):format(x):gsub("\\\n", "\\n")) end
  if type(x) == "userdata" then
    -- Only tensors have a line of their own; other objects say what they are.
    local ok, text = pcall(line_of, x)
    if ok then return text end
  end
  local ok, text = pcall(tostring, x)
  return (tostring(text):gsub("%s+", " "))
end

-- What is in a table, by its names in order.
local function inside(t)
  local keys, found = {}, list {}
  -- next and rawget: no method of the script's table runs.
  for k in next, t do keys[#keys + 1] = k end
  -- Numbers in their order, everything else by its text.
  table.sort(keys, function(a, b)
    if math.type(a) == "integer" and math.type(b) == "integer" then return a < b end
    return tostring(a) < tostring(b)
  end)
  for i = 1, math.min(#keys, SHOWN) do found[i] = {name = tostring(keys[i]), value = rawget(t, keys[i])} end
  return found
end

-- A variable for the editor: its text, and a number if there is something in it.
local function shown(name, value)
  local number = 0
  -- An empty table has nothing to open.
  if type(value) == "table" and next(value) ~= nil then
    held[#held + 1] = value
    number = #held
  end
  -- `holds` tells conditions: whether the value is true for Lua.
  return {name = name, text = text_of(value), inside = number, holds = not not value}
end

local asked = {} -- what the adapter asks of the script, by name

function asked.scopes(level)
  local found = list {}
  local names, values = variables(standing[level])
  for i, name in ipairs(names) do found[i] = shown(name, values[name][1]) end
  return {variables = found}
end
function asked.inside(number)
  local found = list {}
  for i, v in ipairs(inside(held[number])) do found[i] = shown(v.name, v.value) end
  return {variables = found}
end
local function expression(text, frame)
  -- Locals first, then globals, as the frame would see them.
  local _, values = variables(frame)
  local env = setmetatable({}, {__index = function(_, name)
    if values[name] then return values[name][1] end
    return _G[name]
  end})
  local f, wrong = load("return " .. text, "=expression", "t", env)
  if not f then error(wrong, 0) end
  return f()
end
function asked.expression(text, level) return shown("", expression(text, standing[level])) end

-- The next request that is not about the script's own frames.
local function ask()
  while true do
    local r = request()
    local own = asked[r[1]]
    -- While an expression is at work no line of it stops the script.
    if own then
      local before = driving
      driving = true
      local ok, result = pcall(own, table.unpack(r, 2, r.n))
      driving = before
      answer(ok and result, tostring(result))
    elseif r[1] == "lines" then
      breaks = r[2]
    -- A pause that comes while the script stands is there already.
    elseif r[1] ~= "pause" then
      return r
    end
  end
end

local function begin_standing(level)
  -- Numbers of an earlier stop mean nothing any more.
  standing, held = frames(level + 1), {}
  local told = list {}
  for i, f in ipairs(standing) do told[i] = {name = f.name, path = f.path, line = f.line} end
  return told
end

-- How the script goes on after a move of the editor.
local function go(move)
  -- A move that is not one of these goes on without a stop.
  mode = ({stepIn = "in", next = #standing, stepOut = #standing - 1})[move]
end

-- ---- Lines of the script ------------------------------------------------------------------------

-- Whether a function of a file is at work for soma.kernel: its lines stop the run of what it records.
local function recording()
  for level = 3, math.huge do
    local info = debug.getinfo(level, "S")
    -- The bottom of the stack, without the recorder.
    if not info then return false end
    if info.short_src == "soma.kernel" then return true end
  end
end

-- A step ends where the script is not deeper than where it began.
local function reason(path, line)
  -- A step comes before a breakpoint: the user asked for it last.
  if mode and (mode == "in" or #frames(3) <= mode) then return "step" end
  local condition = breaks[path] and breaks[path][line]
  -- Breakpoints in a function that soma.kernel records stop the run instead.
  if not condition or recording() then return nil end
  if condition == "" then return "breakpoint" end
  -- A condition is looked at in the frame of the line.
  local frame = frames(3)[1]
  driving = true
  local ok, value = pcall(expression, condition, frame)
  driving = false
  -- A condition that fails stops, so that the user sees it.
  if not ok then tell {said = condition .. ": " .. tostring(value)} end
  return (not ok or value) and "breakpoint" or nil
end

local lines, PATIENCE <const> = 0, 256 -- lines between looks at what the editor says

local function on_line(_, line)
  -- In a child of a sweep the pipes are still open, and must not be used.
  if driving or host.pid() ~= process then return end -- a child of a sweep is no part of the session
  lines = lines + 1
  -- Rarely, because each look is a system call.
  local why = lines % PATIENCE == 0 and paused() and "pause"
  -- Without breakpoints, a step or a pause no path has to be known.
  local path = (mode or why or next(breaks)) and path_of(debug.getinfo(2, "S").source)
  if not path then return end
  why = why or reason(path, line)
  if not why then return end
  mode = nil
  -- The script stands until the editor moves it.
  tell {stopped = "line", reason = why, frames = begin_standing(2)}
  go(ask()[2])
end

-- ---- Runs ---------------------------------------------------------------------------------------

local editor = {answer = answer, paused = paused, text_of = text_of} -- for lua/debug/adapter.lua
function editor.ask()
  local r = ask()
  -- A run that was left by a step lets the script go on with that step.
  if r[1] == "leave" and r[2] then go(r[2]) end -- else it never stood
  return r
end

-- Hands a run, or a world, to the editor, which brings it to its end; false if it cannot be debugged.
local function drive(of)
  if driving or host.pid() ~= process then return false end
  -- The editor steps into the run if the script was stepped into.
  local into = mode == "in"
  tell {stopped = "run", into = into, frames = begin_standing(2)}
  driving = true
  local ok, wrong = pcall(of.debug, of, {adapter = editor})
  driving = false
  if ok then return true end
  tell {said = "this run has no stops: " .. tostring(wrong)}
  return false
end

-- The table of methods is what the class's __index has taken from around it.
local function methods_of(class) return select(2, debug.getupvalue(debug.getregistry()[class].__index, 1)) end

-- From now on what moves a run to its end hands it to the editor.
local function intercept()
  local runs, cores, worlds = methods_of "soma.run", methods_of "soma.core", methods_of "soma.world"
  -- The functions as they were; the new ones call them.
  local go_on, start, run, world_run, world_on = runs.continue, cores.start, cores.run, worlds.run, worlds.continue
  local returns = setmetatable({}, {__mode = "k"}) -- runs that return their faults
  local function returned(o) return type(o) == "table" and o.faults == "return" end

  -- Errors name the script's line, as without an editor.
  local function begin(level, core, program, inputs, o)
    local ok, r = pcall(start, core, program, inputs, o)
    if not ok then error(type(r) == "string" and r:gsub("^soma:%d+: ", "") or r, level + 1) end
    returns[r] = returned(o)
    return r
  end
  function cores.start(...) return (begin(2, ...)) end
  function runs.continue(r)
    if type(r) ~= "userdata" or r.ended or not drive(r) then return go_on(r) end
    if r.fault and not returns[r] then error(r.fault, 0) end
    return r
  end
  function cores.run(core, program, inputs, o)
    if driving then return run(core, program, inputs, o) end
    -- With in_place the run uses the inputs themselves, as run does.
    local all = {in_place = true}
    for name, value in pairs(type(o) == "table" and o or {}) do all[name] = value end
    return runs.continue((begin(2, core, program, inputs, type(o) == "table" and all or o or all)))
  end
  function worlds.continue(world, o)
    if type(o) == "table" and o.until_ns or not drive(world) then return world_on(world, o) end
    return world_on(world, o) -- it has ended: this gives its runs, or its fault
  end
  function worlds.run(world, program, inputs, o)
    if driving then return world_run(world, program, inputs, o) end
    world:start(program, inputs, o)
    return worlds.continue(world, type(o) == "table" and {faults = o.faults} or nil)
  end
end

-- ---- The script ---------------------------------------------------------------------------------

local function main()
  io.stdout:setvbuf "line"
  local script, wrong = loadfile(args[2])
  if not script then
    io.stderr:write("soma: ", wrong, "\n")
    return 1
  end
  arg = {[-1] = "soma", [0] = args[2], table.unpack(args, 3)}
  intercept()
  go(ask()[2]) -- with the first breakpoints
  debug.sethook(on_line, "l")
  local ok, result = xpcall(script, function(e) return type(e) == "string" and debug.traceback(e, 2) or tostring(e) end,
    table.unpack(args, 3))
  debug.sethook()
  if not ok then
    io.stderr:write("soma: ", result, "\n")
    return 1
  end
  return math.type(result) == "integer" and result or 0
end

return main()
