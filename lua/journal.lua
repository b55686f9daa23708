-- The journal of a sweep: a line of JSON for the sweep, then one for each row as it is finished, so
-- that a sweep that was interrupted goes on where it stood. A line ends with a sum of its text:
-- {"printed":"","row":{"square":4},"variant":2,"sum":"6c62272e07bb0142"}
local _, host = ...
local VERSION = 2

local journal = {}
journal.__index = journal
-- At the end of the sweep, also after an error.
function journal:__close() self.file:close() end

local function refuse(path, what) error("sweep: journal " .. path .. ": " .. what, 0) end

-- Texts in quotes, so that a number is told from its text.
local function show(v)
  return v == nil and "absent" or type(v) == "string" and string.format("%q", v) or tostring(v)
end

-- A line of the journal without its newline; nil of what has no JSON.
local function line_of(value)
  local text = host.json(value)
  -- The sum goes into the object, as its last member.
  return text and text:sub(1, -2) .. string.format(',"sum":"%016x"}', host.hash(text))
end

-- The value of a line that line_of made; nil of any other line.
local function value_of(line)
  local text, sum = line:match '^(.*),"sum":"(%x+)"}$'
  return text and string.format("%016x", host.hash(text .. "}")) == sum and host.value(text .. "}") or nil
end

-- The first difference between the variants of the journal and those of the sweep, in words.
-- Another number of variants is another sweep.
local function differs(old, new)
  if #old ~= #new then return "it has " .. #old .. " variants, but the sweep has " .. #new end
  for i = 1, #new do
    local names = {}
    -- Parameters of both, as one may lack what the other has.
    for name in pairs(old[i]) do names[name] = true end
    for name in pairs(new[i]) do names[name] = true end
    for name in pairs(names) do
      local a, b = old[i][name], new[i][name]
      if host.json(a) ~= host.json(b) then
        return "in its variant " .. i .. " " .. name .. " is " .. show(a) .. ", but in the sweep's " .. show(b)
      end
    end
  end
end

-- The script that runs, which called all others, and a hash of its text.
local function script()
  local name
  for level = 2, math.huge do
    local info = debug.getinfo(level, "S")
    if not info then break end
    -- The last one found is the outermost: the main chunk.
    if info.source:sub(1, 1) == "@" then name = info.source:sub(2) end
  end
  -- A script that cannot be read has no hash to compare.
  local file <close> = name and io.open(name, "rb") or nil
  return name or "", file and host.hash(file:read("a")) or 0
end

local function check(path, line, want)
  -- A line whose sum is wrong may still tell its version, which explains more.
  local head = value_of(line) or host.value(line)
  -- Any other file must not be written over.
  if type(head) ~= "table" or head.soma ~= "sweep" then refuse(path, "line 1 is not that of a journal") end
  if head.version ~= VERSION then
    refuse(path, "it has version " .. tostring(head.version) .. ", but this Soma reads version " .. VERSION)
  end
  if not value_of(line) then
    refuse(path, "line 1 is damaged: its sum is not that of its text; delete the journal to start again")
  end
  if type(head.variants) ~= "table" then refuse(path, "line 1 has no variants") end
  local other = differs(head.variants, want.variants)
  if other then refuse(path, other .. "; delete the journal to start again, or name another") end
  if head.text ~= want.text then
    refuse(path, want.script .. " has changed since the journal was begun; delete the journal to start again, or name another")
  end
  -- Only where both have hashes.
  for n, hash in ipairs(head.programs and want.programs or {}) do
    if head.programs[n] ~= hash then
      refuse(path, "the program of variant " .. n .. " has changed since the journal was begun; " ..
        "delete the journal to start again, or name another")
    end
  end
end

-- Gives the rows there are, by variant: {row, printed}; and where the last whole line ends.
local function read(path, text, want)
  local rows, number, at = {}, 0, 1
  -- What has no newline was cut off by an interruption, and its variant is run again.
  for line, after in text:gmatch "([^\n]*)\n()" do
    number, at = number + 1, after
    if number == 1 then
      check(path, line, want)
    else
      local value = value_of(line)
      if not value then
        refuse(path, "line " .. number .. " is damaged: its sum is not that of its text; delete the line, " ..
          "and its variant is run again")
      end
      -- A sum that fits proves the text, not that it makes sense.
      local n = type(value) == "table" and value.variant
      if math.type(n) ~= "integer" or not want.variants[n] or type(value.row) ~= "table" or
        type(value.printed) ~= "string" then
        refuse(path, "line " .. number .. " is not a row of a journal")
      end
      -- A later row of a variant replaces an earlier one.
      rows[n] = {row = value.row, printed = value.printed}
    end
  end
  return rows, at
end

-- A row that is finished: appended at once.
function journal:add(n, row, printed)
  local line = line_of {variant = n, row = row, printed = printed}
  -- On each row, so that an interruption loses only what was at work.
  local ok, message = self.file:write(line or refuse(self.path, "row " .. n .. " cannot be written as JSON"), "\n")
  if ok then ok, message = self.file:flush() end
  if not ok then refuse(self.path, message) end
end

-- programs: a hash of each variant's program; nil: they are not known before the variants run.
return function(path, variants, programs)
  local want = {soma = "sweep", version = VERSION, variants = variants, programs = programs}
  want.script, want.text = script()
  local text = ""
  -- No file yet is a journal without rows.
  local old = io.open(path, "rb")
  if old then
    text = old:read("a")
    old:close()
    if not text then refuse(path, "it cannot be read") end
  end
  local rows, at = read(path, text, want)
  text = text:sub(1, at - 1) -- without a line that was not finished
  if text == "" then
    local head = line_of(want)
    if not head then refuse(path, "a parameter's name is not UTF-8 text") end
    text = head .. "\n"
  end
  -- Written anew without its broken end, whole or not at all.
  local ok, message = host.write(path, text)
  if not ok then refuse(path, message) end
  local file
  -- From here on only rows are added.
  file, message = io.open(path, "ab")
  if not file then refuse(path, message) end
  return setmetatable({path = path, rows = rows, file = file}, journal)
end
