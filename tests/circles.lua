-- circles.lua BUILD MOST: object files of BUILD/isa, asm, kernel and vm that need one another in a
-- circle, as the linker sees it. Prints each circle of more than MOST.
local build, most = arg[1], tonumber(arg[2])

local defined_in, needs, objects = {}, {}, {}
local function has_source(object) -- else it is left from before
  local name = object:sub(#build + 2):gsub("%.o$", ""):gsub("/level/(%w+)%.%w+$", "/level/%1")
  local f <close> = io.open(name .. ".c")
  return f ~= nil
end

local find = ("cd %s && find isa asm kernel vm -name '*.o' | sort"):format(build)
for object in io.popen(find):lines() do
  object = build .. "/" .. object
  if not has_source(object) then goto next end
  objects[#objects + 1] = object
  needs[object] = {}
  for line in io.popen("nm -P " .. object):lines() do
    local name, kind = line:match "^(%S+) (%S)"
    if kind == "U" then needs[object][name] = true
    elseif kind and kind:match "[TDRBC]" then defined_in[name] = object end
  end
  ::next::
end

-- Tarjan's circles: an object and all that it needs, as far as they need it too.
local number, low, stack, waits, n = {}, {}, {}, {}, 0
local function visit(v)
  n = n + 1
  number[v], low[v], waits[v] = n, n, true
  stack[#stack + 1] = v
  for name in pairs(needs[v]) do
    local w = defined_in[name]
    if w and not number[w] then
      visit(w)
      low[v] = math.min(low[v], low[w])
    elseif w and waits[w] then
      low[v] = math.min(low[v], number[w])
    end
  end
  if low[v] ~= number[v] then return end
  local circle = {}
  repeat
    local w = table.remove(stack)
    waits[w] = nil
    circle[#circle + 1] = w:sub(#build + 2):gsub("%.o$", "")
  until w == v
  if #circle > most then
    table.sort(circle)
    print(#circle .. " files, " .. most .. " are allowed: " .. table.concat(circle, " "))
  end
end
for _, object in ipairs(objects) do if not number[object] then visit(object) end end
