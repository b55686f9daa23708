-- A Lua value as JSON: tables by their names in order, lists where __metatable says "list"; numbers that JSON has, else null; bytes
-- of a string that are not UTF-8 become U+FFFD. json(value [, indent])
local short = {["\n"] = "\\n", ["\t"] = "\\t", ['"'] = '\\"', ["\\"] = "\\\\"}

-- A valid run of bytes at a time, from the first wrong one on the next.
local function text(s)
  local out, at = {}, 1
  while at <= #s do
    local n, bad = utf8.len(s, at)
    out[#out + 1] = s:sub(at, n and #s or bad - 1)
    if n then break end
    out[#out + 1] = "\u{FFFD}"
    at = bad + 1
  end
  return '"' .. table.concat(out):gsub('[%c"\\]', function(c)
    return short[c] or string.format("\\u%04x", c:byte())
  end) .. '"'
end

local function json(v, indent)
  -- The blanks before a line of this depth.
  indent = indent or ""
  if getmetatable(v) == "list" then
    local items = {}
    for i, item in ipairs(v) do items[i] = indent .. "  " .. json(item, indent .. "  ") end
    -- An empty list stays one.
    return #v == 0 and "[]" or "[\n" .. table.concat(items, ",\n") .. "\n" .. indent .. "]"
  elseif type(v) == "table" then
    -- Sorted, so that equal values have equal texts.
    local keys, lines = {}, {}
    for k in pairs(v) do keys[#keys + 1] = k end
    -- Keys are strings, or can be compared with each other.
    table.sort(keys)
    for _, k in ipairs(keys) do
      lines[#lines + 1] = indent .. "  " .. text(tostring(k)) .. ": " .. json(v[k], indent .. "  ")
    end
    return "{\n" .. table.concat(lines, ",\n") .. "\n" .. indent .. "}"
  elseif type(v) == "string" then
    return text(v)
  elseif math.type(v) == "float" then
    -- NaN and the two infinities.
    if v ~= v or v - v ~= 0 then return "null" end
    local s = string.format("%.15g", v) -- without digits that say nothing, if it reads back as the same
    return tonumber(s) == v and s or string.format("%.17g", v)
  end
  -- Integers and booleans are written as Lua does; nil is not in a table.
  return tostring(v)
end

return json
