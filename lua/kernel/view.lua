-- Views: what an instruction of a kernel reads or writes, as a slice of a tensor in HBM or of a tile.
-- A view never copies. Its first dimension is the partitions when it is of a tile. Gives the class,
-- and what the other files need of it.
--
--   x[{128, 64}]            rows 128 to 191 of the first dimension
--   x[{{0, 64}, {8, 16}}]   of two dimensions; {} is a whole one, a number takes one index and drops
--                           the dimension, {start, count, step} leaves elements out
--   x[3]                    index 3 of the first dimension, which is dropped
local soma, host = ...

local View, Register, Affine = {}, {}, {}
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
Register.__name, Affine.__name = "soma.kernel.register", "soma.kernel.affine"

-- ---- Views --------------------------------------------------------------------------------------

local function refuse(v, text, ...) v._k:refuse(text:format(...)) end

local function copy(v)
  local w = {}
  for key, value in pairs(v) do w[key] = value end
  w.dims, w.dyn = {}, {}
  for i, d in ipairs(v.dims) do w.dims[i] = {step = d.step, num = d.num} end
  for i, d in ipairs(v.dyn) do w.dyn[i] = d end
  return setmetatable(w, View)
end

-- Sizes of all dimensions, outermost first; the partitions of a tile are the first.
local function shape_of(v)
  local shape = {}
  if v.parts then shape[1] = v.parts end
  for _, d in ipairs(v.dims) do shape[#shape + 1] = d.num end
  return shape
end
local function text_of(shape) return "[" .. table.concat(shape, ", ") .. "]" end

-- A whole tensor (parts nil) or tile.
local function whole(k, buffer, name, memory, dtype, shape)
  local v = {_k = k, buffer = buffer, name = name, memory = memory, dtype = dtype, part = 0, offset = 0,
             dims = {}, dyn = {}}
  local first = 1
  if memory ~= "hbm" then v.parts, first = shape[1], 2 end
  local step = 1
  for d = #shape, first, -1 do
    table.insert(v.dims, 1, {step = step, num = shape[d]})
    step = step * shape[d]
  end
  return setmetatable(v, View)
end

-- The index in v.dims of dimension d (from 1), 0 of the partitions.
local function dimension(v, d)
  local n = #v.dims + (v.parts and 1 or 0)
  if math.type(d) ~= "integer" or d < 1 or d > n then
    refuse(v, "%s has dimensions 1 to %d, not %s", v.name, n, tostring(d))
  end
  return v.parts and d - 1 or d
end

local function move(v, i, start)
  local d = v.dims[i]
  v.offset = v.offset + start.constant * d.step * size[v.dtype]
  if start.register and start.scale * d.step ~= 0 then
    if #v.dyn == 2 then refuse(v, "%s moves by two registers already; a view takes at most two", v.name) end
    local stride = product(start.scale, d.step)
    if math.abs(stride) > 1 << 40 then refuse(v, "%s moves by %d elements for each of a register: at most 2^40", v.name, stride) end
    v.dyn[#v.dyn + 1] = {kind = 1, register = start.register, stride = stride}
  end
end

local function check_range(v, d, num, start, count, step)
  if math.type(count) ~= "integer" or count < 1 or math.type(step) ~= "integer" or step == 0 then
    refuse(v, "a slice of %s must be {start, count} or {start, count, step} in whole numbers, count at least 1", v.name)
  end
  if count > num or math.abs(step) > MOST then
    refuse(v, "%d elements by %d in dimension %d of %s: it has %d", count, step, d, v.name, num)
  end
  local last = start.constant + (count - 1) * step
  if start.register then
    if count > num then refuse(v, "%d of %d elements in dimension %d of %s", count, num, d, v.name) end
  elseif start.constant < 0 or start.constant >= num or last < 0 or last >= num then
    refuse(v, "%d to %d of dimension %d of %s%s: it has %d", start.constant, last, d, v.name,
      text_of(shape_of(v)), num)
  end
end

local function slice(v, d, start, count, step)
  local w, i, from = copy(v), dimension(v, d), affine(start)
  if not from then refuse(v, "a slice of %s must start at a whole number or a register, not at %s", v.name, tostring(start)) end
  step = step or 1
  check_range(v, d, i == 0 and v.parts or v.dims[i].num, from, count, step)
  if i > 0 then
    move(w, i, from)
    w.dims[i] = {step = v.dims[i].step * step, num = count}
    return w
  end
  if from.register then refuse(v, "the first partition of %s cannot come from a register", v.name) end
  if step ~= 1 and count > 1 then refuse(v, "partitions of %s are taken one after another, not by %d", v.name, step) end
  w.part, w.parts = v.part + from.constant, count
  return w
end

-- One index of a dimension, which is dropped; of a tile's partitions one is left.
local function index(v, d, at)
  local w, i = slice(v, d, at, 1), dimension(v, d)
  if i > 0 then table.remove(w.dims, i) end
  return w
end

local function is_list(x) return type(x) == "table" and getmetatable(x) == nil end

local function subscript(v, key)
  if not is_list(key) then return index(v, 1, key) end
  local by_dimension = false
  for _, x in ipairs(key) do by_dimension = by_dimension or is_list(x) end
  if not by_dimension then return slice(v, 1, key[1], key[2], key[3]) end
  local w, d = v, 1
  for _, x in ipairs(key) do
    if not is_list(x) then
      local tile_rows = d == 1 and v.parts
      w = index(w, d, x)
      if tile_rows then d = d + 1 end
    else
      if #x > 0 then w = slice(w, d, x[1], x[2], x[3]) end
      d = d + 1
    end
  end
  return w
end

local methods = {}

-- v:slice(dimension, start, count [, step]); dimensions count from 1.
function methods:slice(d, start, count, step) return slice(self, d, start, count, step) end

-- v:block(i, n): rows i * n to i * n + n - 1, or fewer at the end.
function methods:block(i, n)
  local rows = shape_of(self)[1]
  if math.type(i) ~= "integer" or math.type(n) ~= "integer" or i < 0 or n < 1 or i > (rows - 1) // n then
    refuse(self, "block %s of %s rows: %s has %d", tostring(i), tostring(n), self.name, rows)
  end
  return slice(self, 1, i * n, math.min(n, rows - i * n))
end

-- v:broadcast(dimension, n): a dimension of one element, n times.
function methods:broadcast(d, n)
  if math.type(n) ~= "integer" or n < 1 or n > MOST then refuse(self, "broadcast takes a dimension and a whole number of times, not %s", tostring(n)) end
  local w, i = copy(self), dimension(self, d)
  if i == 0 then refuse(self, "partitions of %s are not repeated by a view; load or copy them", self.name) end
  if w.dims[i].num ~= 1 then refuse(self, "dimension %d of %s has %d elements, not 1", d, self.name, w.dims[i].num) end
  w.dims[i] = {step = 0, num = n}
  return w
end

-- v:permute{2, 1}: dimensions in another order; the partitions of a tile stay the first.
function methods:permute(order)
  if not is_list(order) then refuse(self, "permute takes a list of dimensions, not %s", tostring(order)) end
  local w, seen = copy(self), {}
  w.dims = {}
  for _, d in ipairs(order) do
    local i = dimension(self, d)
    if seen[i] or i == 0 and #w.dims > 0 then refuse(self, "permute takes each dimension of %s once, partitions first", self.name) end
    seen[i] = true
    if i > 0 then w.dims[#w.dims + 1] = {step = self.dims[i].step, num = self.dims[i].num} end
  end
  if #w.dims ~= #self.dims then refuse(self, "permute takes each dimension of %s once", self.name) end
  return w
end

-- v:reshape{...}: the same elements in the same order; those of a tile's partitions stay.
function methods:reshape(shape)
  for _, n in ipairs(is_list(shape) and shape or {0}) do
    if math.type(n) ~= "integer" or n < 1 then refuse(self, "reshape takes a list of whole numbers of at least 1") end
  end
  local w, want, have, step = copy(self), 1, 1, nil
  for i = #self.dims, 1, -1 do
    local d = self.dims[i]
    if d.num > 1 then
      step = step or d.step
      if d.step ~= step * have then refuse(self, "%s%s is not dense: reshape before slicing", self.name, text_of(shape_of(self))) end
    end
    have = have * d.num
  end
  local first = 1
  if self.parts then
    first = 2
    if shape[1] ~= self.parts then refuse(self, "reshape keeps the %d partitions of %s", self.parts, self.name) end
  end
  w.dims = {}
  for d = #shape, first, -1 do
    table.insert(w.dims, 1, {step = (step or 1) * want, num = shape[d]})
    want = product(want, shape[d])
  end
  if want ~= have then refuse(self, "%s has %d elements%s, but %s has %d", self.name, have, self.parts and " in a partition" or "", text_of(shape), want) end
  return w
end

-- v:view(dtype): the same bytes as another type.
function methods:view(dtype)
  if not code[dtype] then refuse(self, "'%s' is not a data type", tostring(dtype)) end
  local w, last = copy(self), self.dims[#self.dims]
  local from, to = size[self.dtype], size[dtype]
  w.dtype = dtype
  if from == to then return w end
  if not last or last.step ~= 1 or last.num * from % to ~= 0 then
    refuse(self, "the last dimension of %s does not hold whole elements of %s", self.name, dtype)
  end
  for i, d in ipairs(w.dims) do
    if i < #w.dims and d.step * from % to ~= 0 then refuse(self, "steps of %s are not whole elements of %s", self.name, dtype) end
    if i < #w.dims then d.step = d.step * from // to end
  end
  w.dims[#w.dims].num = last.num * from // to
  return w
end

local function check_index(v, what, by)
  if not is_list(by) and type(by) == "table" and getmetatable(by) == View then return by end
  refuse(v, "%s takes a view of whole numbers in SBUF, not %s", what, tostring(by))
end

-- v:gather(index [, dimension]): of a DMA: that dimension (default 1) goes by an index vector of SBUF.
function methods:gather(by, d)
  local w = copy(self)
  w.dyn[#w.dyn + 1] = {kind = 4, dimension = dimension(self, d or 1) - 1, operand = check_index(self, "gather", by)}
  return w
end

-- v:indirect(index): on trn3, free elements at places that the index gives.
function methods:indirect(by)
  local w = copy(self)
  w.dyn[#w.dyn + 1] = {kind = 5, operand = check_index(self, "indirect", by)}
  return w
end

-- v:bound(register): as many partitions of a tile (rows of a tensor) as the register says, at most
-- those of the view.
function methods:bound(register)
  if type(register) ~= "table" or getmetatable(register) ~= Register then refuse(self, "bound takes a register, not %s", tostring(register)) end
  local w = copy(self)
  w.dyn[#w.dyn + 1] = {kind = 3, dimension = self.parts and -1 or 0, register = register}
  return w
end

function View.__index(v, key)
  if type(key) == "string" then
    if key == "shape" then return shape_of(v) end
    return methods[key]
  end
  return subscript(v, key)
end
function View.__tostring(v) return v.name .. " " .. v.dtype .. text_of(shape_of(v)) .. " in " .. v.memory end
View.__name = "soma.kernel.view"
local function is_view(x) return type(x) == "table" and getmetatable(x) == View end

-- ---- Operands -----------------------------------------------------------------------------------

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

-- Adds the words of v as an operand of a record (soma_kernel.h) of kernel k to the list.
local function put_operand(words, v, k)
  if v._k ~= k then k:refuse(v.name .. " belongs to another kernel") end
  local at = #words + 1
  words[at] = 0
  local function put(x) words[#words + 1] = x end
  put(v.buffer)
  put(code[v.dtype])
  put(v.part)
  put(v.parts or 0)
  put(v.offset)
  put(#v.dims)
  for _, d in ipairs(v.dims) do
    put(d.step)
    put(d.num)
  end
  for _, d in ipairs(v.dyn) do
    put(d.kind)
    if d.kind == 1 then
      put(d.register.id)
      put(d.stride)
    elseif d.kind == 3 then
      put(d.dimension)
      put(d.register.id)
    else
      if d.kind == 4 then put(d.dimension) end
      put_operand(words, d.operand, k)
    end
  end
  words[at] = #words - at
end

return {View = View, Register = Register, Affine = Affine, is_view = is_view, whole = whole, affine = affine, code = code, size = size,
        MOST = MOST, put_operand = put_operand, check_options = check_options, memory_code = memory_code, text_of = text_of, methods = methods}
