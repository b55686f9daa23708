-- Results of runs as text: what print shows of run.stats, run.out, run.findings. Gives the function.
-- Larger ones are told by their type.
local SMALL <const> = 64 -- elements of a tensor that are shown

-- Nothing after the last number: all keys are 1 to n.
local function is_sequence(t) return #t > 0 and next(t, #t) == nil end

-- By text, as keys may be of several types.
local function names_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  return names
end

local function value_of(x)
  -- Ten digits, without the noise of the last ones.
  if math.type(x) == "float" then return string.format("%.10g", x) end
  if type(x) == "string" then return x end
  -- Only tensors have sizes here.
  if type(x) == "userdata" and x.size and x.size > SMALL then
    return x.dtype .. "[" .. table.concat(x.shape, ", ") .. "]" .. (x.device ~= "cpu" and " on " .. x.device or "")
  end
  return tostring(x)
end

-- {a = 1, b = 2} on one line.
local function on_a_line(t)
  local parts = {}
  for i, name in ipairs(names_of(t)) do
    local x = t[name]
    local text = type(x) == "table" and on_a_line(x) or value_of(x)
    parts[i] = is_sequence(t) and text or tostring(name) .. " = " .. text
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- Whether there are tables within it.
local function is_deep(t)
  for _, x in pairs(t) do
    if type(x) == "table" then return true end
  end
end

-- An element of a sequence.
local function line_of(x)
  if type(x) ~= "table" then return value_of(x) end
  -- Findings and faults have a text of their own.
  return type(x.text) == "string" and x.text or on_a_line(x)
end

-- Lines with that indent.
local function put(lines, t, indent)
  -- Items of a sequence have a line each.
  if is_sequence(t) then
    for i, x in ipairs(t) do
      -- A row with tables in it does not fit on a line.
      if type(x) == "table" and not x.text and is_deep(x) then
        lines[#lines + 1] = indent .. i .. ":"
        put(lines, x, indent .. "  ")
      else
        lines[#lines + 1] = indent .. line_of(x):gsub("\n", "\n" .. indent)
      end
    end
    return
  end
  for _, name in ipairs(names_of(t)) do
    local x = t[name]
    -- An empty table needs no lines of its own.
    if type(x) == "table" and next(x) ~= nil then
      lines[#lines + 1] = indent .. tostring(name) .. ":"
      put(lines, x, indent .. "  ")
    else
      local text = type(x) == "table" and "{}" or value_of(x)
      lines[#lines + 1] = indent .. tostring(name) .. " = " .. text:gsub("\n", "\n" .. indent .. "  ")
    end
  end
end

return function(t)
  local lines = {}
  put(lines, t, "")
  return #lines > 0 and table.concat(lines, "\n") or "{}"
end
