-- Views and numbers of registers. A view is what an instruction of a kernel reads or writes: a slice of a
-- tensor in HBM or of a tile. It never copies; its first dimension is the partitions when it is of a tile.
-- What it can do is in view.c, over soma_view. Gives what the other files need of both.
--
--   x[{128, 64}]            rows 128 to 191 of the first dimension
--   x[{{0, 64}, {8, 16}}]   of two dimensions; {} is a whole one, a number takes one index and drops
--                           the dimension, {start, count, step} leaves elements out
--   x[3]                    index 3 of the first dimension, which is dropped
local soma, host = ...

local Register, Affine = host.Register, host.Affine
local MOST = 0x7fffffff -- registers, and most numbers of an instruction, have 32 bits
local code = {}
for i, name in ipairs(soma.dtypes) do code[name] = i end
local size = {}
for _, row in ipairs(soma.isa.dtypes or {}) do size[row.name] = row.bytes end
local memory_code = {sbuf = 1, psum = 2}

-- ---- Numbers that a register gives --------------------------------------------------------------

-- register * scale + constant, of at most one register; nil when v is something else.
local function affine(x)
  local meta = type(x) == "table" and getmetatable(x)
  if math.type(x) == "integer" then return {constant = x, scale = 0} end
  if meta == Register then return {register = x, scale = 1, constant = 0} end
  return meta == Affine and x or nil
end

-- An error at the user's line.
local function wrong(text)
  local level, info = 2, nil
  repeat
    level = level + 1
    info = debug.getinfo(level, "Sl")
  until not info or info.what ~= "C" and info.short_src ~= "soma.kernel" and info.currentline > 0
  error(text, info and level or 0)
end

local function fit(...)
  for _, n in ipairs {...} do
    if n < -MOST - 1 or n > MOST then wrong(("an index of a register has the number %d: it must fit in 32 bits"):format(n)) end
  end
end

local function sum_of(register, scale, constant)
  fit(scale, constant)
  return setmetatable({register = register, scale = scale, constant = constant}, Affine)
end

-- a * b, or a number that does not fit where the product does not fit in 64 bits.
local function product(a, b)
  local x = a * b
  -- Half of the largest is kept, so that a sum of two products cannot wrap before it is
  -- refused.
  return (a == 0 or (x // a == b and x % a == 0)) and math.abs(x) <= 1 << 62 and x or 1 << 62
end

local function add(a, b, sign)
  local x, y = affine(a), affine(b)
  if not x or not y then error("a register takes whole numbers, not " .. tostring(x and b or a), 3) end
  if x.register and y.register and x.register ~= y.register then
    error("an index can use only one register; add two registers with k.any.add first", 3)
  end
  fit(x.constant, y.constant)
  return sum_of(x.register or y.register, x.scale + sign * y.scale, x.constant + sign * y.constant)
end
local arithmetic = {
  __add = function(a, b) return add(a, b, 1) end,
  __sub = function(a, b) return add(a, b, -1) end,
  __mul = function(a, b)
    if math.type(a) == "integer" then a, b = b, a end
    local x = affine(a)
    if not x or math.type(b) ~= "integer" then error("a register can be multiplied only by a whole number", 2) end
    return sum_of(x.register, product(x.scale, b), product(x.constant, b))
  end,
}
for name, f in pairs(arithmetic) do Register[name], Affine[name] = f, f end

-- ---- Lists ---------------------------------------------------------------------------------------

local function text_of(shape) return "[" .. table.concat(shape, ", ") .. "]" end
local function is_list(x) return type(x) == "table" and getmetatable(x) == nil end

-- Refuses options that a call does not know; known: a set of names.
local function check_options(k, what, o, known)
  if not is_list(o) then k:refuse(("the options of %s must be a table, not %s"):format(what, tostring(o))) end
  for name in pairs(o) do
    if not known[name] then
      local all = {}
      for other in pairs(known) do all[#all + 1] = other end
      table.sort(all)
      k:refuse(("%s has no option '%s'; it takes: %s"):format(what, tostring(name), table.concat(all, ", ")))
    end
  end
end

return {Register = Register, Affine = Affine, is_view = host.is_view, whole = host.whole, same_as = host.same_as, code = code,
        size = size, MOST = MOST, put_operand = host.put_operand, check_options = check_options, memory_code = memory_code,
        text_of = text_of}
