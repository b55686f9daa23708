-- A run, or a world, that stands for an editor: answers what its adapter (python/soma/dap_lua.py)
-- asks of a session, and moves it, until the adapter leaves it. Cores are named by their number, in a world
-- by {rank, core}.
local _, host = ...
local place, show, replay, stops = host.place, host.show, host.replay, host.stops

-- An empty list stays a list in JSON.
local function list(t) return setmetatable(t, {__metatable = "list"}) end

-- {rank, core, engine} of what a request names.
local function at(s, core, engine)
  -- A world's core is {rank, core}; a program's is a number.
  local e = type(core) == "table" and {rank = core[1], core = core[2], engine = engine} or {core = core, engine = engine}
  place.at_rank(s, e.rank or 0)
  return e
end
local function core_of(s, rank, core) return s.runs and list {rank, core} or core end

-- Calls fn(rank, core, instructions) for each core of each rank.
local function each_core(s, fn)
  -- The focus of names comes back when all have been seen.
  local was = s.rank
  for rank = 0, s.runs and #s.runs or 0 do
    place.at_rank(s, rank)
    for core = 0, s.cores - 1 do fn(rank, core, s.prog:instructions {core = core}) end
  end
  place.at_rank(s, was)
end

-- By the name of a request; each gives a table or a value.
local ops = {}

-- What does not change: engines that have more to do than to halt, names, and where instructions come from.
function ops.program(s)
  local engines, instructions, names = list {}, list {}, {tiles = list {}, tensors = list {}, origins = {}}
  each_core(s, function(rank, core, found)
    -- An engine whose first instruction is its last does nothing but halt.
    for n, i in ipairs(found) do
      -- Instructions are in the order of their engines.
      local last = not found[n + 1] or found[n + 1].engine ~= i.engine
      if last and i.pc > 0 then
        local name = (s.runs and "rank " .. rank .. " " or "") .. (s.cores > 1 and "core " .. core .. " " or "") .. i.engine
        table.insert(engines, list {core_of(s, rank, core), i.engine, name})
      end
      if i.file then table.insert(instructions, list {core_of(s, rank, core), i.engine, i.pc, i.file, i.line}) end
    end
  end)
  for _, t in ipairs(s.prog:tiles()) do
    table.insert(names.tiles, t.name)
    names.origins[t.name] = t.origin
  end
  for _, t in ipairs(s.prog:tensors()) do table.insert(names.tensors, t.name) end
  return {engines = engines, instructions = instructions, tiles = names.tiles, tensors = names.tensors, origins = names.origins}
end

function ops.engine(s, _, core, engine)
  local e = at(s, core, engine)
  local state = stops.state_of(s, e)
  -- At its end an engine has no next instruction.
  local i = show.at(s, e.core, e.engine, state.pc) or {}
  return {status = state.status, pc = state.pc, file = i.file or false, line = i.line or false, name = i.name or false, text = i.text or ""}
end

local function memory(s, core, name)
  local e = at(s, core)
  -- The name as a command would have it.
  return place.memory(s, s.cores > 1 and "core " .. e.core .. " " .. name or name)
end
function ops.value(s, editor, core, name) return editor.text_of(place.read(s, memory(s, core, name))) end

function ops.semaphores(s, _, core)
  local found, e = list {}, at(s, core)
  for i, sem in ipairs(s.prog:semaphores {core = e.core}) do
    -- By name, though the value is asked by number.
    found[i] = list {sem.name, s.core:semaphore(sem.number, {core = e.core})}
  end
  return found
end
function ops.registers(s, _, core, engine)
  local found, e = list {}, at(s, core)
  -- All 64, as the editor shows those it wants.
  for r = 0, 63 do found[r + 1] = s.core:register(engine, r, {core = e.core}) end
  return found
end

-- An expression as the debugger's `lua` has it; whether it is true, and its value as a line.
function ops.evaluate(s, editor, text, core, engine)
  -- Registers in an expression are those of the focus.
  if engine then place.focus(s, at(s, core, engine)) end
  local value = stops.expression(s, text)()
  return {holds = not not value, text = editor.text_of(value)}
end

function ops.step(s, _, core, engine)
  local e = at(s, core, engine)
  s.whole:step(engine, {rank = e.rank, core = e.core})
end

-- To one of the stops {core, engine, pc} or writes {core, name}, or the end: which it was, from 1 on, of
-- what core and engine, and who wrote; nothing when it was none. The editor may end it before, and so does a
-- stop that the script itself has set, to which it then goes back (own).
function ops.go(s, editor, wanted, writes)
  -- Stops of this move alone: they are taken away again.
  local numbers, n = {}, 0
  for _, w in ipairs(wanted) do
    local e = at(s, w[1], w[2])
    n = n + 1
    numbers[s.whole:add_stop {kind = "pc", rank = e.rank or s.runs and 0, core = e.core, engine = w[2], pc = w[3]}] = n
  end
  for _, w in ipairs(writes) do
    n = n + 1
    -- A tile may need several stops, which stand for one name.
    for _, stop in ipairs(place.watches(memory(s, w[1], w[2]), "write")) do numbers[s.whole:add_stop(stop)] = n end
  end
  local cursor = s.whole.time_ns
  local ok, message = pcall(function()
    repeat
      -- In slices, so that the editor's wish to stand is seen.
      cursor = math.max(cursor, s.whole.time_ns) + 4 * s.slice
      replay.forward(s, cursor)
    until s.whole.ended or #s.whole.stopped > 0 or editor.paused()
  end)
  local hit
  -- Its own stop is gone before the editor looks around.
  for _, h in ipairs(ok and s.whole.stopped or {}) do hit = hit or numbers[h.stop] and h end
  for number in pairs(numbers) do pcall(s.whole.remove_stop, s.whole, number) end
  if not ok then error(message, 0) end
  -- A stop of the script, or the end.
  if not hit then return {own = not s.whole.ended and #s.whole.stopped > 0} end
  local words = ""
  local from = hit.from_rank or hit.rank
  if hit.engine then
    -- The instruction may be of another rank than the bytes.
    if from then place.at_rank(s, from) end
    words = "written by " .. place.rank_name(s, from) .. show.instruction(show.at(s, hit.core, hit.engine, hit.pc))
  end
  return {which = numbers[hit.stop], core = core_of(s, from, hit.core), engine = hit.engine or false, words = words}
end

-- A world has no summary.
function ops.summary(s) return s.whole.summary and s.whole:summary() or "" end

-- How the session moves back: the states that `keep` has noted.
function ops.keep(s)
  local ok, state = pcall(s.whole.snapshot, s.whole, s.kept_states[#s.kept_states])
  -- A run that cannot be kept, as one that is recorded, has no way back; it still goes on.
  s.kept_states[#s.kept_states + 1] = ok and state or nil
end
function ops.back(s)
  -- The states are used from the last one on.
  local state = table.remove(s.kept_states)
  if state then s.whole:restore(state) end
  return state ~= nil
end

-- editor: {ask = function that gives a request {name, ...}, answer = function(table, or nil and a message),
-- paused = function: whether the editor wants it to stand, text_of = function(value)}
local function serve(s, editor)
  -- What commands would print, the editor shows itself.
  s.kept_states, s.print = {}, function() end
  while true do
    -- Until the adapter leaves; then the script goes on.
    local request = editor.ask()
    if request[1] == "leave" then break end
    local op = ops[request[1]]
    local ok, result = pcall(op, s, editor, table.unpack(request, 2, request.n))
    -- A plain value is wrapped, so that time and end can go with it.
    if ok then
      result = type(result) == "table" and getmetatable(result) == nil and result or {value = result}
      result.time_ns, result.ended = s.whole.time_ns, s.whole.ended
      editor.answer(result)
    else
      -- Refusals of commands are tables with a text.
      editor.answer(nil, type(result) == "table" and result.message or tostring(result))
    end
  end
  -- Snapshots take memory that nobody needs after the session.
  for _, state in ipairs(s.kept_states) do state:close() end
end

return {serve = serve}
