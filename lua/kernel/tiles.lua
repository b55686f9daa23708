-- Tiles as values: helpers of a kernel that make a tile for what they compute. Each is a few
-- instructions that the user could write. Gives a table of methods.
local soma, host = ...
local V = host.view
local tiles = {}

-- Views make a new list each time they are asked.
local function shape_of(v) return v.shape end
-- Elements of a partition.
local function size_of(shape)
  local n = 1
  for d = 2, #shape do n = n * shape[d] end
  return n
end

-- Instructions work on tiles; HBM is reached by transfers.
local function need_tile(k, v, what)
  if not V.is_view(v) then k:refuse(what .. " takes a tile, not " .. tostring(v)) end
  if v.memory == "hbm" then k:refuse(what .. " takes a tile; " .. v.name .. " is in HBM: load it first") end
end

-- The type of v, unless an option or the caller gives another.
-- A new tile of the shape of v; options dtype and memory.
local function like(k, v, o, dtype)
  return k:tile(o and o.dtype or dtype or v.dtype, shape_of(v), {memory = o and o.memory})
end

-- ---- Memory -------------------------------------------------------------------------------------

-- k:load(view [, options]): a tile with the elements of a view of HBM, whose first dimension becomes
-- the partitions (one partition when the view has one dimension). Options dtype: converted on the
-- way; partitions: a view of one row goes to so many partitions; dge, queue: of the transfer.
function tiles:load(v, o)
  o = o or {}
  if not V.is_view(v) or v.memory ~= "hbm" then self:refuse("load takes a tensor in HBM or a slice of one, not " .. tostring(v)) end
  local shape, from = v.shape, v
  -- A vector is one row.
  if #shape == 1 then
    shape = {1, shape[1]}
    from = v:reshape(shape)
  end
  if o.partitions then
    -- Repeating is what a broadcast of one row means.
    if shape[1] ~= 1 then self:refuse(("load: one row goes to %d partitions, not %d rows"):format(o.partitions, shape[1])) end
    shape[1] = o.partitions
    from = from:broadcast(1, o.partitions)
  end
  if shape[1] > 128 then self:refuse(("load: %s has %d rows, but a tile has at most 128 partitions"):format(v.name, shape[1])) end
  local t = self:tile(o.dtype or v.dtype, shape, {name = o.name})
  -- A copy between types converts on the way.
  self.any.dma_copy(t, from, {dge = o.dge, queue = o.queue})
  return t
end

-- k:store(view, tile [, options]): a tile to a view of HBM of as many elements.
function tiles:store(v, t, o)
  o = o or {}
  if not V.is_view(v) or v.memory ~= "hbm" then self:refuse("store writes to HBM, not to " .. tostring(v)) end
  need_tile(self, t, "store")
  -- A tile of PSUM goes by way of SBUF.
  if t.memory == "psum" then t = self:copy(t, {dtype = t.dtype}) end
  local to = v
  -- A vector in HBM gets the rows of the tile one after another.
  if #v.shape == 1 then to = v:reshape {t.shape[1], v.shape[1] // t.shape[1]} end
  self.any.dma_copy(to, t, {dge = o.dge, queue = o.queue})
end

-- k:copy(tile [, {dtype=, memory=}]), k:cast(tile, dtype), k:fill(dtype, shape, value)
function tiles:copy(t, o)
  need_tile(self, t, "copy")
  local out = like(self, t, o)
  self.any.tensor_copy(out, t)
  return out
end
function tiles:cast(t, dtype) return self:copy(t, {dtype = dtype}) end
function tiles:fill(dtype, shape, value, o)
  local out = self:tile(dtype, shape, o)
  self.any.memset(out, value)
  return out
end

-- ---- Arithmetic ---------------------------------------------------------------------------------

-- One element for each partition.
local function is_column(v) return V.is_view(v) and size_of(v.shape) == 1 end

-- dst = a op b, where one may be a number, or a [P, 1] tile that goes with each row.
local function binary(k, op, a, b, o)
  local what = op
  if not V.is_view(a) and not V.is_view(b) then k:refuse(what .. " takes a tile and a tile or a number") end
  -- Numbers and tiles only; a register has no value yet.
  for _, x in ipairs {a, b} do
    if V.is_view(x) then need_tile(k, x, what) elseif type(x) ~= "number" then
      k:refuse(what .. " takes tiles and numbers, not " .. tostring(x))
    end
  end
  -- The first operand of tensor_scalar is a tile: a number or a column before it turns the
  -- operator around.
  local reverse = not V.is_view(a) or is_column(a) and V.is_view(b) and not is_column(b)
  local t, other = a, b
  if reverse then t, other = b, a end
  local out = o and o.into or like(k, t, o)
  if op == "pow" and type(other) == "number" then -- gpsimd alone has it, and takes tensors there
    local filled = k:fill("float32", shape_of(t), other)
    a, b = reverse and filled or a, reverse and b or filled
    other = nil
  end
  -- A column goes with every element of its row.
  if type(other) == "number" or is_column(other) and not is_column(t) then
    -- Columns are read as fp32.
    if V.is_view(other) and other.dtype ~= "float32" then other = k:cast(other, "float32") end
    k.vector.tensor_scalar(out, t, {op0 = op, imm0 = other, reverse0 = reverse or nil})
  else
    -- Element by element both must have as many.
    if size_of(a.shape) ~= size_of(b.shape) or a.shape[1] ~= b.shape[1] then
      k:refuse(("%s of %s and %s: the shapes differ"):format(what, tostring(a), tostring(b)))
    end
    k.any.tensor_tensor(out, a, b, {op = op})
  end
  return out
end

-- k:add(a, b), sub, mul, maximum, minimum, power
-- By the names of the instruction set.
for name, op in pairs {add = "add", sub = "subtract", mul = "mult", maximum = "max", minimum = "min", power = "pow"} do
  tiles[name] = function(k, a, b, o) return binary(k, op, a, b, o) end
end

-- k:eq(a, b), ne, lt, le, gt, ge: 1 where it holds, else 0, as uint8, which is what `where` takes.
for name, op in pairs {eq = "is_equal", ne = "not_equal", lt = "is_lt", le = "is_le", gt = "is_gt", ge = "is_ge"} do
  tiles[name] = function(k, a, b, o)
    return binary(k, op, a, b, {dtype = o and o.dtype or "uint8", into = o and o.into})
  end
end

-- k:div(a, b): a * (1 / b), two roundings, as the machine has no division.
function tiles:div(a, b, o)
  -- A number is turned into its reciprocal here, with one rounding.
  if type(b) == "number" then return self:mul(a, 1 / b, o) end
  return self:mul(self:reciprocal(b), a, o)
end

function tiles:reciprocal(t, o)
  need_tile(self, t, "reciprocal")
  local out = like(self, t, o, "float32")
  self.vector.reciprocal(out, t)
  return out
end

-- k:activate(fn, tile [, {scale=, bias=, dtype=, sum=}]): fn(tile * scale + bias). With sum the second
-- result is a [P, 1] tile of the row sums.
function tiles:activate(fn, t, o)
  o = o or {}
  need_tile(self, t, fn)
  -- `into` is a tile that the caller has already.
  local out = o.into or like(self, t, o)
  self.scalar.activate(out, t, {fn = fn, scale = o.scale, bias = o.bias, reduce = o.sum and "reset_reduce" or nil})
  if not o.sum then return out end
  -- The engine adds up the row while it goes over it.
  local sums = self:tile("float32", {t.shape[1], 1})
  self.scalar.act_read_acc(sums)
  return out, sums
end
for _, fn in ipairs {"exp", "log", "tanh", "sigmoid", "gelu", "silu", "relu", "sqrt", "rsqrt", "square", "sin", "erf",
                     "softplus", "mish", "arctan", "abs", "sign"} do
  tiles[fn] = function(k, t, o) return k:activate(fn, t, o) end
end

-- k:where(mask, a, b): a where mask is not 0, else b.
function tiles:where(mask, a, b, o)
  need_tile(self, mask, "where")
  -- A mask of another type is compared with 0 first.
  if not mask.dtype:find "^uint" then mask = self:ne(mask, 0.0) end
  local t = V.is_view(a) and a or b
  local out = o and o.into or like(self, V.is_view(t) and t or mask, o)
  -- First b everywhere, then a over it.
  if V.is_view(b) then self.any.tensor_copy(out, b) else self.any.memset(out, b) end
  self.vector.copy_predicated(out, {pred = mask, [V.is_view(a) and "src" or "imm"] = a})
  return out
end

-- ---- Reductions ---------------------------------------------------------------------------------

-- One instruction, whatever the shape of the free dimensions.
-- k:sum(tile [, 1]), max, min: over all free elements, a [P, 1] tile of float32. Option negate: of max,
-- minus it, as a softmax wants.
local function reduce(op)
  return function(k, t, o)
    if o == 1 then o = {} end -- the axis: the only one that there is
    if o ~= nil and type(o) ~= "table" then k:refuse(("%s is over axis 1, the free elements, not %s"):format(op, tostring(o))) end
    o = o or {}
    need_tile(k, t, op)
    local out = k:tile("float32", {t.shape[1], 1})
    k.vector.tensor_reduce(out, t, {op = op, negate = o.negate})
    return out
  end
end
tiles.sum, tiles.max, tiles.min = reduce "add", reduce "max", reduce "min"
-- By multiplication: the machine has no division.
function tiles:mean(t)
  return self:mul(self:sum(t), 1 / size_of(t.shape))
end

-- k:softmax(tile): over the free elements of each row.
function tiles:softmax(t, o)
  -- Minus the largest of each row as bias: no exponent is above 0, so that none overflows.
  -- One pass gives both the exponentials and their sum.
  local e, s = self:exp(t, {bias = self:max(t, {negate = true}), sum = true, dtype = "float32"})
  return self:mul(e, self:reciprocal(s), {dtype = o and o.dtype or t.dtype})
end

-- ---- The tensor engine --------------------------------------------------------------------------

-- k:matmul(a, b [, {into=}]): a[K, M] and b[K, N] give a[K, M]^T b[K, N], a [M, N] tile of PSUM in
-- float32. `into` adds to such a tile, which the first matmul of its life overwrites.
function tiles:matmul(a, b, o)
  o = o or {}
  need_tile(self, a, "matmul")
  need_tile(self, b, "matmul")
  -- Both operands have K on the partitions.
  if a.shape[1] ~= b.shape[1] then
    self:refuse(("matmul: %s and %s do not contract over the same partitions"):format(tostring(a), tostring(b)))
  end
  local out = o.into or self:tile("float32", {size_of(a.shape), size_of(b.shape)}, {memory = "psum"})
  -- The weights are loaded just before the product that uses them.
  self.tensor.ldweights(a)
  self.tensor.matmul(out, b)
  return out
end

-- An n x n identity in SBUF, made once for what stands in the same loop: ones where the partition is
-- the column.
function tiles:identity(dtype, n)
  local key = dtype .. n .. ":" .. #self.loops
  local known = self.loops[#self.loops] and self.loops[#self.loops].identities or self.identities
  if not known[key] then
    local one = self:tile(dtype, {n, n}, {name = "identity"})
    self.gpsimd.memset(one, 1.0)
    self.gpsimd.affine_select(one, one, 0.0, {pattern = {{-1, n}}, multiplier = 1, cmp = "is_equal"})
    known[key] = one
  end
  return known[key]
end

-- k:transpose(tile [, {into=}]): [P, F] to [F, P], both at most 128, in PSUM.
function tiles:transpose(t, o)
  need_tile(self, t, "transpose")
  if size_of(t.shape) > 128 then self:refuse("transpose takes up to 128 columns, not " .. size_of(t.shape)) end
  -- Before gen3 a transpose is a product like others, whose sums are fp32; from gen3 on it moves bits.
  local gen2 = soma.isa.target(self.target).gen == 2
  local out = o and o.into
    or self:tile(gen2 and "float32" or t.dtype, {size_of(t.shape), t.shape[1]}, {memory = "psum"})
  self.tensor.ldweights(t)
  self.tensor.matmul(out, self:identity(t.dtype, t.shape[1]), {transpose = true, acc = "write"})
  -- A product with the identity moves each element to its place.
  return out
end

-- ---- Options ------------------------------------------------------------------------------------

local takes = {load = "dtype name partitions dge queue", store = "dge queue", copy = "dtype memory",
               reciprocal = "dtype memory", activate = "scale bias sum dtype memory into", where = "dtype memory into",
               sum = "negate", max = "negate", min = "negate", softmax = "dtype", matmul = "into", transpose = "into"}
-- What all helpers of two operands take.
local binary_takes <const> = "dtype memory into"
for _, name in ipairs {"add", "sub", "mul", "maximum", "minimum", "power", "div"} do takes[name] = binary_takes end
for _, name in ipairs {"eq", "ne", "lt", "le", "gt", "ge"} do takes[name] = "dtype into" end

-- A table at the end of a helper's arguments has its options: others are refused.
for name, list in pairs(takes) do
  local f, known = tiles[name], {}
  for option in list:gmatch "%a+" do known[option] = true end
  tiles[name] = function(k, ...)
    local last = select(-1, nil, ...)
    if type(last) == "table" and getmetatable(last) == nil then V.check_options(k, name, last, known) end
    return f(k, ...)
  end
end

return tiles
