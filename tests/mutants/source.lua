-- Canonical text of a program as lines that can be changed one by one, and tiles of its .sbc file
-- that can be moved.
local M = {}

-- An instruction's line: {section, pc, label?, head, wait?, update?}, head being mnemonic and
-- operands. wait: {sem, cond, value} (value an integer or "rN"); update: {sem, text}, text what
-- follows the semaphore's name, "" for the completion of a transfer.
local function instruction(line, section, pc)
  local i = {section = section, pc = pc, head = line:match "^%s+(.-)%s*$"}
  while true do
    local rest, clause = i.head:match "^(.*%S)%s+(%$%S+)$"
    if not rest then break end
    local sem, cond, value = clause:match "^%$([^<>=!+@-]+)([<>=!]=?)(.+)$"
    if sem and cond ~= "=" then
      i.wait = {sem = sem, cond = cond, value = math.tointeger(tonumber(value)) or value}
    else
      sem, value = clause:match "^%$([^<>=!+@-]+)(.*)$"
      i.update = {sem = sem, text = value}
    end
    i.head = rest
  end
  i.op = i.head:match "^%S+"
  return i
end

-- A program: {lines}, each a string or an instruction. Comments go.
function M.parse(text)
  local p, section, pc = {lines = {}, sems = {}, tiles = {}, matmuls = {}}, nil, 0
  for line in text:gmatch "[^\n]+" do
    line = line:gsub("%s*;.*$", "")
    if line:find "^section" then section, pc = line:match "^section (%S+)", 0 end
    if section and line:find "^%s" then
      p.lines[#p.lines + 1] = instruction(line, section, pc)
      pc = pc + 1
    else
      p.lines[#p.lines + 1] = line
      local name = line:match "^(%S+) sem "
      if name then p.sems[#p.sems + 1] = name end
      local tile, space, what, part, offset = line:match "^(%S+) tile (%S+) (%S+), at=%[(%d+),(%d+)%]"
      if tile then
        p.tiles[#p.tiles + 1] = {name = tile, space = space, what = what, part = tonumber(part),
          offset = tonumber(offset)}
      end
    end
  end
  return p
end

function M.clauses(i)
  local w, u = i.wait, i.update
  return (w and string.format(" $%s%s%s", w.sem, w.cond, w.value) or "") ..
    (u and " $" .. u.sem .. u.text or "")
end

-- The text again, with the lines of `changes` (by index: a string, or an instruction) in place.
function M.text(p, changes)
  local out = {}
  for k, line in ipairs(p.lines) do
    local l = changes and changes[k]
    if l == nil then l = line end
    out[#out + 1] = type(l) == "table" and "        " .. l.head .. M.clauses(l) or l
  end
  return table.concat(out, "\n") .. "\n"
end

-- A copy of an instruction with some fields changed; false takes one away.
function M.changed(i, fields)
  local c = {}
  for k, v in pairs(i) do c[k] = v end
  for k, v in pairs(fields) do c[k] = v or nil end
  return c
end

-- ---- Files --------------------------------------------------------------------------------------

local function fnv(s, from)
  local h = 0xcbf29ce484222325
  for i = from, #s do h = (h ~ s:byte(i)) * 0x100000001b3 end
  return h
end

local function sections(bytes)
  local n, t = string.unpack("<I4", bytes, 41), {}
  for i = 0, n - 1 do
    local tag, _, offset, size = string.unpack("<c4I4I8I8", bytes, 49 + 24 * i)
    t[tag] = {at = offset + 1, size = size}
  end
  return t
end

local function put(bytes, at, format, v)
  return bytes:sub(1, at - 1) .. string.pack(format, v) .. bytes:sub(at + string.packsize(format))
end

-- The .sbc file with tile number `tile` (from 1), and every pattern in it, `delta` bytes further.
-- The assembler refuses tiles that share bytes; a program made by other tools may have them.
function M.move_tile(bytes, tile, delta)
  local s = sections(bytes)
  local at = s.TILE.at + 48 * (tile - 1)
  local space = bytes:byte(at + 9)
  bytes = put(bytes, at + 36, "<I4", string.unpack("<I4", bytes, at + 36) + delta)
  for r = s.PATS.at, s.PATS.at + s.PATS.size - 1, 128 do
    if bytes:byte(r + 1) == space and string.unpack("<I4", bytes, r + 12) == tile then
      bytes = put(bytes, r + 24, "<i8", string.unpack("<i8", bytes, r + 24) + delta)
    end
  end
  return put(bytes, 9, "<i8", fnv(bytes, 17))
end

return M
