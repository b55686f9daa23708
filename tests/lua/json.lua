-- A JSON reader, for what the command writes: json(text) is the value; it refuses keys that come twice.
local read_value
local function space(s, i) return s:match("^%s*()", i) end
local function read_string(s, i)
  local j = i + 1
  while s:sub(j, j) ~= '"' do
    if j > #s or s:byte(j) < 32 then error("bad string at " .. i) end
    j = j + (s:sub(j, j) == "\\" and 2 or 1)
  end
  return s:sub(i + 1, j - 1), j + 1
end
local function read_members(s, i, close, one)
  i = space(s, i)
  if s:sub(i, i) == close then return i + 1 end
  while true do
    i = space(s, one(i))
    local c = s:sub(i, i)
    if c == close then return i + 1 end
    if c ~= "," then error("expected , or " .. close .. " at " .. i) end
    i = space(s, i + 1)
  end
end
function read_value(s, i)
  i = space(s, i)
  local c, out = s:sub(i, i), {}
  if c == "{" then
    return out, read_members(s, i + 1, "}", function(at)
      local key, value
      if s:sub(at, at) ~= '"' then error("expected a name at " .. at) end
      key, at = read_string(s, at)
      at = space(s, at)
      if s:sub(at, at) ~= ":" then error("expected : at " .. at) end
      value, at = read_value(s, at + 1)
      if out[key] ~= nil then error("twice: " .. key) end
      out[key] = value
      return at
    end)
  elseif c == "[" then
    return out, read_members(s, i + 1, "]", function(at)
      out[#out + 1], at = read_value(s, at)
      return at
    end)
  elseif c == '"' then
    return read_string(s, i)
  end
  for word, value in pairs {["true"] = true, ["false"] = false, null = "null"} do
    if s:sub(i, i + #word - 1) == word then return value, i + #word end
  end
  local number, after = s:match("^(%-?%d[%d.eE+-]*)()", i)
  if not tonumber(number or "") then error("no value at " .. i) end
  return tonumber(number), after
end
return function(s)
  local value, after = read_value(s, 1)
  if space(s, after) <= #s then error("text after the value") end
  return value
end
