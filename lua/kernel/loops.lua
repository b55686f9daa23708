-- The body of a loop at run time is a function of the user's, and runs twice here: the first run records
-- the loop's instructions; what the second one records must be the same, and is forgotten. Two rounds do
-- not show what begins in the third, so what the function reaches (its upvalues, the tables and functions
-- in these, global values) must be the same after both. A loop in a round that is compared runs once.
local soma, host = ...
local V = host.view

local advice = "a loop at run time runs the same instructions in each round: write into the same tile, keep what " ..
  "changes in a register, or unroll the loop in Lua"

-- ---- What a body remembers ----------------------------------------------------------------------

local MOST = 4000 -- values of one state; what lies beyond is not compared

-- Registers and sums of them are values, although they have metatables.
local function is_plain(x)
  local meta = getmetatable(x)
  return meta == nil or meta == V.Register or meta == V.Affine
end

-- {path: value that can be compared} of what `f` reaches. Kernels and modules are not looked into.
local function state_of(k, f)
  local found, paths, seen, n = {}, {}, {}, 0
  -- Modules hold caches and counters of their own, which change without meaning.
  for _, module in pairs(package and package.loaded or {}) do seen[module] = "a module" end
  seen[soma], seen[k] = "soma", "the kernel"
  local visit
  local function note(path, value)
    n = n + 1
    found[path], paths[n] = value, path
  end
  -- Paths keep their order, so that the first difference is told.
  local function table_of(path, x)
    local count = 0
    -- next, as __pairs of a user's table must not run.
    for key, value in next, x do
      count = count + 1
      if type(key) == "string" or type(key) == "number" then
        -- Other keys have no text that would be the same in both rounds.
        visit(("%s[%s]"):format(path, type(key) == "string" and ("%q"):format(key) or key), value)
      end
    end
    -- The count tells of keys that are not looked at.
    note(path, "a table of " .. count)
  end
  local function function_of(path, x)
    note(path, "a function")
    -- As many upvalues as Lua allows.
    for i = 1, 255 do
      local name, value = debug.getupvalue(x, i)
      if not name then return end
      if name == "_ENV" then
        for key, its in next, value do
          -- Functions of the libraries and of the script do not change by being called.
          if type(its) ~= "function" and not seen[its] and type(key) == "string" then visit(key, its) end
        end
      else
        visit(name, value)
      end
    end
  end
  function visit(path, x)
    local kind = type(x)
    -- A state this large is compared in part.
    if n >= MOST then return end
    -- Values without parts, by their text.
    if kind == "nil" or kind == "number" or kind == "string" or kind == "boolean" then return note(path, tostring(x)) end
    if V.is_view(x) then return note(path, V.same_as(x)) end
    -- Seen before: the path of the first time stands for it.
    if seen[x] then return note(path, seen[x]) end
    seen[x] = path
    if kind == "function" then
      -- Functions in C have no upvalues with names.
      if debug.getinfo(x, "S").what ~= "C" then function_of(path, x) end
    elseif kind == "table" and is_plain(x) then
      table_of(path, x)
    end
  end
  visit("the function", f)
  return found, paths
end

-- A path whose value differs between two states, nil if none does.
local function difference(a, b)
  -- What the second state has; then what it has no more.
  for _, path in ipairs(b.paths) do
    if a.found[path] ~= b.found[path] then return path, a.found[path], b.found[path] end
  end
  for _, path in ipairs(a.paths) do
    if b.found[path] == nil then return path, a.found[path], nil end
  end
end

local function state(k, f)
  local found, paths = state_of(k, f)
  return {found = found, paths = paths}
end

-- ---- What is recorded ---------------------------------------------------------------------------

-- The calls of the builder that a round makes, while a loop is open. rounds: of the kernel, with `log`, the
-- calls, and `at`: the last one that was compared, false while none is.
local changes = {tile = true, end_life = true, queue = true, register = true, emit = true, order = true,
                 loop = true, while_ = true, endloop = true}

local function same(a, b)
  -- Lists of words are compared one by one.
  if a == b then return true end
  if type(a) ~= "table" or type(b) ~= "table" or #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

local function same_call(known, name, arguments)
  -- As many arguments, each the same.
  if not known or known.name ~= name or known.arguments.n ~= arguments.n then return false end
  for i = 1, arguments.n do
    if not same(known.arguments[i], arguments[i]) then return false end
  end
  return true
end

-- Names of instructions by their numbers, for messages.
local names = {}
for name, op in pairs(host.opcodes) do names[op.number] = name end

local function said(k, entry)
  local words = entry.name == "emit" and entry.arguments[1]
  local text = words and names[words[2]] or entry.name:gsub("_$", "")
  return ("%s (%s:%d)"):format(text, entry.file, entry.line)
end

local function differs(k, rounds, name, arguments)
  -- Beyond the limit the first round had nothing more.
  local known = rounds.at <= rounds.limit and rounds.log[rounds.at] or nil
  local file, line = k:at()
  local own = name and said(k, {name = name, arguments = arguments, file = file, line = line}) or "it ends"
  k:refuse(("the second round of a loop at run time differs from the first: %s, where the first %s; %s"):format(
    own, known and "did " .. said(k, known) or "ended", advice))
end

-- The builder as a kernel's loops see it: what is recorded is kept, and compared in a second round.
local function watched(k, rounds)
  return setmetatable({}, {__index = function(_, name)
    local method = rounds.handle[name]
    -- Calls that change nothing, such as figures, go through.
    if not changes[name] then return function(_, ...) return method(rounds.handle, ...) end end
    return function(_, ...)
      local arguments = table.pack(...)
      -- In the second round the builder is not called: the first one's result is given
      -- again.
      if rounds.at then
        rounds.at = rounds.at + 1
        local known = rounds.at <= rounds.limit and rounds.log[rounds.at]
        if not same_call(known, name, arguments) then differs(k, rounds, name, arguments) end
        return true, known.result
      end
      local file, line = k:at()
      local ok, result, has_place = method(rounds.handle, ...)
      -- A call that was refused is no part of the loop.
      if ok then rounds.log[#rounds.log + 1] = {name = name, arguments = arguments, result = result, file = file, line = line} end
      return ok, result, has_place
    end
  end})
end

-- ---- Loops --------------------------------------------------------------------------------------

-- Runs f(...) as the body of the loop that was begun, and ends it; finish: ends it in the builder.
return function(k, f, finish, ...)
  -- Loops within a loop share the outermost one's log.
  local rounds = k.rounds or {handle = k.handle, log = {}, at = false, limit = 0}
  local outermost = not k.rounds
  -- While a loop is open the kernel's calls go by way of the log.
  if outermost then k.rounds, k.handle = rounds, watched(k, rounds) end
  local function round(...)
    -- Views of the body are told apart from those outside.
    k.loops[#k.loops + 1] = {identities = {}}
    f(...)
    k.loops[#k.loops] = nil
    return state(k, f)
  end
  -- Where this loop's calls begin in the log.
  local start = rounds.at or #rounds.log
  local before = state(k, f)
  local first = round(...)
  -- In a round that is compared an inner loop has been seen twice already, unless something has
  -- changed.
  if not rounds.at or difference(before, first) then
    local at, limit, last = rounds.at, rounds.limit, rounds.at or #rounds.log
    rounds.at, rounds.limit = start, at and limit or last
    local second = round(...)
    -- The second round made fewer calls.
    if rounds.at ~= last then
      rounds.at = rounds.at + 1
      differs(k, rounds)
    end
    rounds.at, rounds.limit = at and last or false, limit
    -- Both states were taken at the end of a round.
    local path, was, is = difference(first, second)
    if path then
      k:refuse(("'%s' changes in each round of a loop at run time: %s, then %s; %s"):format(path, tostring(was), tostring(is), advice))
    end
  end
  finish()
  if outermost then k.rounds, k.handle = false, rounds.handle end
end
