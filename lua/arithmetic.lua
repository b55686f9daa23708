-- Arithmetic on tensors of a device. Each operator is a program that runs there: it depends on
-- the operator, the types and how its operands lie, is built once, and is kept. Gives the methods and
-- metamethods.
local soma, host = ...
local tiling = host.tiling

-- A program that was built long ago is built again when it is needed.
local PROGRAMS <const> = 256 -- that are kept
local ROWS <const>, UNROLLED <const> = tiling.ROWS, tiling.UNROLLED
local COLUMNS <const> = 2048 -- most of a tile
local LONG <const> = 8192 -- columns of a sum
local PARTS <const> = 4096 -- of an axis, or of a product
local CHUNK <const> = "soma.arithmetic"

-- ---- Errors -------------------------------------------------------------------------------------

-- Raises the text with the place of the user's call: the first function outside this file.
-- Level 2 is whoever refuses.
local function refuse(text, ...)
  local level, place = 2, ""
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.what ~= "C" and info.short_src ~= CHUNK and info.currentline > 0 then
      place = info.short_src .. ":" .. info.currentline .. ": "
      break
    end
    level = level + 1
  end
  error(place .. (select("#", ...) > 0 and text:format(...) or text), 0)
end

-- As messages of host tensors write it.
local function text_of(t) return t.dtype .. "[" .. table.concat(t.shape, ", ") .. "]" end
local function is_host(x) return type(x) == "userdata" and not host.on_device(x) end

-- The text of an error of C, which names a place here.
-- The place would be one in this file, which says nothing to a user.
local function told(message)
  message = tostring(message):gsub("^" .. CHUNK .. ":%d+: ", "")
  return message:match "^bad argument #%d+ to '[%w_?]+' %((.*)%)$" or message
end

-- Errors of memory are raised at the user's line.
local function new(beside, dtype, shape, what)
  local ok, t = pcall(host.new, beside, dtype, shape, what)
  return ok and t or refuse("%s", told(t))
end

-- The core of the operands; some must be on a device, and none on another or on the host.
-- First the device is found, then everything else is held against it.
local function core_of(what, list)
  local core, home
  for i = 1, #list do
    local x = list[i]
    if type(x) == "userdata" and host.on_device(x) then
      local its = host.core(x)
      -- nil and false are two ways of being closed.
      if its == nil then refuse("%s: operand %d is closed", what, i) end
      if its == false then refuse("%s: the core of %s is closed", what, x.device) end
      if core and its ~= core then refuse("%s: operands on %s and %s: use t:to", what, home.device, x.device) end
      core, home = its, home or x
    end
  end
  for i = 1, #list do
    local x = list[i]
    if type(x) ~= "userdata" and type(x) ~= "number" and type(x) ~= "boolean" then
      refuse("%s: operand %d must be a tensor or a number, not a %s", what, i, type(x))
    end
    if is_host(x) then
      refuse("%s: operand %d is on the host, another one on %s: use t:to", what, i, home.device)
    end
  end
  return core, home
end

-- ---- How operands lie ---------------------------------------------------------------------------

-- Any number of tensors, as where has three.
-- The common shape of tensors; the dimensions of one are counted from the last.
local function broadcast(what, tensors)
  local shape = {}
  for _, t in ipairs(tensors) do
    local own = t.shape
    -- Dimensions that one of them lacks count as 1.
    for back = 0, math.max(#own, #shape) - 1 do
      local n, m = own[#own - back] or 1, shape[#shape - back] or 1
      if n ~= m and n ~= 1 and m ~= 1 then
        local all = {}
        for i, x in ipairs(tensors) do all[i] = text_of(x) end
        refuse("%s: %s do not broadcast", what, table.concat(all, " and "))
      end
    end
    -- Missing dimensions come in front.
    while #shape < #own do table.insert(shape, 1, 1) end
    for back = 0, #own - 1 do
      local d = #shape - back
      shape[d] = shape[d] == 1 and own[#own - back] or shape[d]
    end
  end
  return shape
end

local row = tiling.row

-- ---- Programs -----------------------------------------------------------------------------------

-- Programs by their key, and the keys by age.
local kept, order = {}, {}

local function keep(key, program)
  kept[key] = program
  order[#order + 1] = key
  -- The oldest goes, used or not.
  if #order > PROGRAMS then kept[table.remove(order, 1)] = nil end
end

-- The program of that key for the core's target; record(k, views) makes it, with a view of each
-- tensor from its first element to its last.
local function program_of(core, what, key, tensors, record)
  -- A core that has not run yet has no target: it gets the usual one.
  local target = core.target or "trn2"
  key = table.concat({target, what, key}, " ")
  if kept[key] then return kept[key], false end
  -- The kernel may refuse, and its message is about what it records.
  local ok, program = pcall(function()
    local k, views = soma.kernel {target = target}, {}
    -- The last is the result, which alone is written.
    for j, t in ipairs(tensors) do
      local role = j == #tensors and k.output or k.input
      views[j] = role(k, j == #tensors and "result" or "operand" .. j, t.dtype, t.shape)
    end
    record(k, views)
    return k:program()
  end)
  if not ok then refuse("%s on a device: %s", what, told(program)) end
  keep(key, program)
  return program, true
end

-- Runs it with the tensors; the last is the result.
local function run(core, what, key, tensors, record)
  -- A core has one run: another would take the place of the one that stands there.
  if host.busy(core) then
    refuse("%s: %s has a run that has not ended: continue it, or close it", what, tensors[1].device)
  end
  -- The run sees each operand from its first element to its last.
  local flat, inputs = {}, {}
  for j, t in ipairs(tensors) do
    flat[j] = host.flat(t)
    inputs[j == #tensors and "result" or "operand" .. j] = flat[j]
  end
  local program, new = program_of(core, what, key, flat, record)
  host.count(core, new, core:run(program, inputs).time_ns)
end

-- Types and sizes of all operands: everything that the program depends on.
local function key_of(tensors, dims, ...)
  local words = {...}
  for _, t in ipairs(tensors) do words[#words + 1] = t.dtype end
  -- The program has sizes and steps as numbers, so that another layout needs another program.
  for _, d in ipairs(dims) do words[#words + 1] = d.n .. ":" .. table.concat(d, ",") end
  return table.concat(words, " ")
end

-- Each element of `out` from the same place of the others: f(k, tiles) gives a tile.
local function elementwise(core, what, tensors, out, f, key)
  local all, steps, shape = table.move(tensors, 1, #tensors, 1, {}), {}, out.shape
  all[#all + 1] = out
  -- Steps of the operands along the shape of the result.
  for j, t in ipairs(all) do steps[j] = tiling.steps_of(t, shape) end
  local dims = tiling.dimensions(shape, steps)
  local list = tiling.boxes(dims, #all, COLUMNS)
  -- Loops over the first dimension, one program after another.
  -- Row by row: each is smaller, and most of them are one program.
  if tiling.too_many(list) then
    for i = 0, shape[1] - 1 do
      local rows = {}
      for j, t in ipairs(tensors) do rows[j] = row(t, #shape, i) end
      elementwise(core, what, rows, row(out, #shape, i), f, key)
    end
    return out
  end
  run(core, what, key_of(all, dims, key), all, function(k, views)
    for _, box in ipairs(list) do
      tiling.each_tile(k, box, views, function(parts)
        -- Every operand of a tile is loaded, the result is stored.
        local tiles = {}
        for j = 1, #tensors do tiles[j] = tiling.load(k, parts[j]) end
        k:store(parts[#all], f(k, tiles))
      end)
    end
  end)
  return out
end

-- ---- Operators ----------------------------------------------------------------------------------

-- Both tables are given to the tensors' class.
local methods, meta = {}, {}

local bits = {band = "bitwise_and", bor = "bitwise_or", bxor = "bitwise_xor"}

-- The tile of a op b, one of which may be a number.
local function apply(k, name, a, b, dtype)
  -- All but the bit operators have helpers of the kernel.
  if not bits[name] then return k[name == "pow" and "power" or name](k, a, b, {dtype = dtype}) end
  -- These have no helper that takes a number: it becomes a column, repeated.
  local function tile(x, other)
    return type(x) ~= "number" and x or k:fill(dtype, {other.shape[1], 1}, x):broadcast(2, other.shape[2])
  end
  -- The shape of whichever is a tile.
  local out = k:tile(dtype, (type(a) == "number" and b or a).shape)
  k.any.tensor_tensor(out, tile(a, b), tile(b, a), {op = bits[name]})
  return out
end

local function binary(name)
  return function(a, b, more)
    if type(more) == "table" then refuse("%s on a device takes no options", name) end
    if a == nil or b == nil then refuse("%s takes two operands", name) end
    local core, home = core_of(name, {a, b})
    -- Numbers are not loaded, so they are not among the tensors.
    local tensors, types = {}, {}
    for i, x in ipairs {a, b} do
      types[i] = x
      if type(x) == "userdata" then tensors[#tensors + 1], types[i] = x, x.dtype end
    end
    local ok, computed, result = pcall(host.binary_type, name, types[1], types[2])
    if not ok then refuse("%s", told(computed)) end
    local number = type(a) == "number" and a or type(b) == "number" and b or nil
    -- The result is broadcast from the tensors alone.
    local out = new(home, result, broadcast(name, tensors), name)
    -- The program and its key have a float then, whatever the user wrote.
    if result == "float32" and computed == "float32" and number then number = number + 0.0 end
    return elementwise(core, name, tensors, out, function(k, tiles)
      local x, y = tiles[1], tiles[2]
      if type(a) == "number" then x, y = number, tiles[1] elseif type(b) == "number" then y = number end
      return apply(k, name, x, y, result)
    end, number and (a == number and "first " or "second ") .. string.format("%q", number) or "")
  end
end
for _, name in ipairs {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
                       "band", "bor", "bxor"} do
  methods[name] = binary(name)
end
-- Comparisons have no metamethods here: Lua makes booleans of their results.
for _, name in ipairs {"add", "sub", "mul", "div", "pow", "band", "bor", "bxor"} do meta["__" .. name] = methods[name] end
for _, name in ipairs {"idiv", "mod", "shl", "shr", "bnot"} do
  methods[name] = function(a, b)
    -- Operands of two devices are refused first.
    core_of(name, {a, b})
    refuse("%s is not built for tensors on a device: use t:to \"cpu\"", name)
  end
  meta["__" .. name] = methods[name]
end

-- Packed types have x4 in their name.
local function need_float(what, t)
  if not t.dtype:find "float" or t.dtype:find "_x4" then
    refuse("%s on a device takes floats, not %s: use astype", what, t.dtype)
  end
end

-- ---- Functions ----------------------------------------------------------------------------------

local function unary(name, f)
  return function(t, more)
    if type(more) == "table" then refuse("%s on a device takes no options", name) end
    local core = core_of(name, {t})
    need_float(name, t)
    return elementwise(core, name, {t}, new(t, "float32", t.shape, name), function(k, tiles)
      return f(k, tiles[1])
    end, "")
  end
end
for _, name in ipairs {"exp", "log", "tanh", "sigmoid", "sqrt", "rsqrt", "square", "erf", "relu", "abs", "sign"} do
  -- The helpers of the kernel have these names.
  methods[name] = unary(name, function(k, t) return k[name](k, t, {dtype = "float32"}) end)
end
methods.reciprocal = unary("reciprocal", function(k, t) return k:reciprocal(t) end)
methods.neg = unary("neg", function(k, t) return k:mul(t, -1.0, {dtype = "float32"}) end)
function meta.__unm(t) return methods.neg(t) end

-- soma.where(condition, a, b)
function methods.where(c, a, b)
  local core, home = core_of("where", {c, a, b})
  if type(c) ~= "userdata" or c.dtype ~= "bool" then refuse("where: the condition must be a bool tensor") end
  -- A bool is a byte: the view lets it be loaded.
  local tensors, types = {c:view "uint8"}, {}
  for i, x in ipairs {a, b} do
    types[i] = x
    if type(x) == "userdata" then tensors[#tensors + 1], types[i] = x, x.dtype end
  end
  -- As on the host, where two numbers choose between floats.
  if type(types[1]) == "number" and type(types[2]) == "number" then types[1] = "float32" end
  local result = types[1]
  if types[1] ~= types[2] then result = host.binary_type("add", types[1], types[2]) end
  local out = new(home, result, broadcast("where", tensors), "where")
  -- Tile 1 is the condition; the others follow where they are tensors.
  return elementwise(core, "where", tensors, out, function(k, tiles)
    local n = 1
    local function operand(x)
      if type(x) == "number" then return x + 0.0 end
      n = n + 1
      return tiles[n]
    end
    local x, y = operand(a), operand(b)
    -- First b everywhere, then a over it where the condition holds.
    local to = k:tile(result, tiles[1].shape)
    if type(y) == "number" then k.any.memset(to, y) else k.any.tensor_copy(to, y) end
    if type(x) ~= "number" and x.dtype ~= result then x = k:copy(x, {dtype = result}) end
    k.vector.copy_predicated(to, {pred = tiles[1], [type(x) == "number" and "imm" or "src"] = x})
    return to
  end, string.format("%s %s", type(a) == "number" and a or "", type(b) == "number" and b or ""))
end

-- ---- Copies -------------------------------------------------------------------------------------

-- dst = src, broadcast and converted.
local function copy(what, dst, src)
  local core, shape = core_of(what, {src, dst}), dst.shape
  -- Another type needs the engines; the same type only moves.
  if src.dtype ~= dst.dtype then
    return elementwise(core, what, {src}, dst, function(k, tiles) return k:copy(tiles[1], {dtype = dst.dtype}) end, "")
  end
  local dims = tiling.dimensions(shape, {tiling.steps_of(src, shape), tiling.steps_of(dst, shape)})
  local list = tiling.boxes(dims, 2, COLUMNS)
  if tiling.too_many(list) then
    for i = 0, shape[1] - 1 do copy(what, row(dst, #shape, i), row(src, #shape, i)) end
    return dst
  end
  run(core, what, key_of({src, dst}, dims), {src, dst}, function(k, views)
    for _, box in ipairs(list) do
      -- HBM to HBM, without a tile in between.
      tiling.each_tile(k, box, views, function(parts) k.any.dma_copy(parts[2], parts[1]) end)
    end
  end)
  return dst
end

-- t:copy(): dense, on the same device.
function methods.copy(t)
  core_of("copy", {t})
  return copy("copy", new(t, t.dtype, t.shape, "copy"), t)
end

-- t:astype(dtype)
function methods.astype(t, dtype, o)
  core_of("astype", {t})
  if o ~= nil then refuse "astype on a device takes no options: `saturate` is one of its core" end
  if type(dtype) ~= "string" then refuse("astype takes a dtype, not %s", type(dtype)) end
  return copy("astype", new(t, dtype, t.shape, "astype"), t)
end

-- t:assign(source): t may be a view; the source may be on the host, and is then moved first.
function methods.assign(t, source)
  if type(source) ~= "userdata" then refuse("assign takes a tensor, not %s", type(source)) end
  -- The target must be on a device; the source comes to it.
  core_of("assign", {t})
  if is_host(source) then source = source:to(t.device) end
  local shape, own = broadcast("assign", {t, source}), t.shape
  -- The source may be repeated, but the target keeps its shape.
  for d = 1, #shape do
    if #shape ~= #own or shape[d] ~= own[d] then refuse("assign: %s does not fit in %s", text_of(source), text_of(t)) end
  end
  -- A view of its own memory: what is written must not be read after.
  if host.share(t, source) then source = methods.copy(source) end
  return copy("assign", t, source)
end

-- ---- Reductions ---------------------------------------------------------------------------------

-- Along an axis from 0: tiles of [rows, part of the axis], each reduced, their results put together.
local function reduce_axis(what, t, axis, keep_dimension)
  local shape, steps = t.shape, host.steps(t)
  -- Step and start of the line along the axis.
  local line = {n = shape[axis + 1], steps[axis + 1] or 1, 0}
  -- The step of a single element does not matter; one value makes fewer programs.
  if line.n == 1 then line[1] = 1 end
  -- The result has one element there.
  shape[axis + 1] = 1
  local out = new(t, what ~= "sum" and what ~= "mean" and t.dtype or "float32", shape, what)
  steps[axis + 1] = 0
  local dims = tiling.dimensions(shape, {steps, host.steps(out)})
  if tiling.too_many(tiling.boxes(dims, 2, 1)) then refuse("%s: %s lies in too many pieces: use t:copy() first", what, text_of(t)) end
  -- The innermost dimension that stays becomes the partitions: each reduces its own elements.
  local rows = table.remove(dims) or tiling.one(2)
  local walk = table.move(dims, 1, #dims, 1, {})
  walk[#walk + 1], walk[#walk + 2] = rows, {n = 1, 1, 1}
  local op = what == "mean" and "sum" or what
  -- Each part of the line is an instruction of its own.
  if line.n > LONG * PARTS then refuse("%s: an axis of %d elements: use reshape first", what, line.n) end
  run(host.core(t), what, key_of({t, out}, walk, line.n .. ":" .. line[1]), {t, out}, function(k, views)
    for _, box in ipairs(tiling.boxes(walk, 2, 1)) do
      tiling.each_tile(k, box, views, function(parts)
        local total
        -- The first part begins the total, the others are added to it.
        for from = 0, line.n - 1, LONG do
          local part = parts[1]:ap({{box.rows[1], box.rows.n}, {line[1], math.min(LONG, line.n - from)}}, from * line[1])
          local partial = k[op](k, k:load(part))
          total = total and k[op == "sum" and "add" or op .. "imum"](k, total, partial) or partial
        end
        -- A mean is a sum, scaled at the end.
        if what == "mean" then total = k:mul(total, 1 / line.n) end
        if total.dtype ~= out.dtype then total = k:cast(total, out.dtype) end
        k:store(parts[2], total)
      end)
    end
  end)
  if not keep_dimension then
    -- Only the dimension of one element goes.
    table.remove(shape, axis + 1)
    out = out:reshape(shape)
  end
  return out
end

-- t:sum([axis [, keepdims]]), mean, max, min; without an axis a tensor of no dimensions.
for _, what in ipairs {"sum", "mean", "max", "min"} do
  methods[what] = function(t, axis, keep_dimensions)
    core_of(what, {t})
    need_float(what, t)
    local n = t.ndim
    if axis ~= nil then
      if math.type(axis) ~= "integer" or axis < -n or axis >= n then
        refuse("%s: axis %s of a tensor with %d dimensions", what, tostring(axis), n)
      end
      return reduce_axis(what, t, axis % n, keep_dimensions)
    end
    local shape = {}
    -- Without an axis all dimensions go, or become 1.
    for d = 1, keep_dimensions and n or 0 do shape[d] = 1 end
    -- In 128 rows, which the partitions reduce side by side; a view that is not dense cannot be
    -- reshaped.
    if t.size % ROWS == 0 and t.size > LONG and pcall(t.reshape, t, {-1}) then t = t:reshape {ROWS, -1} end
    -- One axis after another, from the last.
    repeat
      if t.ndim == 0 then t = t:reshape {1} end
      t = reduce_axis(what, t, t.ndim - 1)
    until t.ndim == 0
    return t:reshape(shape)
  end
end

-- ---- Products -----------------------------------------------------------------------------------

local WIDE <const> = 512 -- columns of a product in PSUM
local RESIDENT <const> = 96 << 10 -- bytes of a partition that the second operand may take as a whole

-- [rows, columns] of a matrix {view, n rows, n columns, step of a row, step of a column}.
-- row may be a register times a number.
local function block(m, row, rows, column, columns)
  local register = type(row) == "table" and row
  local w = m.view:slice(1, (register and 0 or row) * m.row + column * m.column, 1)
  -- A register moves the slice by a multiple of its value, after what is known now.
  if register then w = w:slice(1, register * m.row, 1) end
  return w:ap {{m.row, rows}, {m.column, columns}}
end

-- x, y and out as matrices: a band of `rows` rows from `row` on.
local function product_rows(k, x, y, out, row, rows, resident)
  local left = {}
  -- K in parts of the partitions that the engine has.
  for inner = 0, x.columns - 1, ROWS do
    local n = math.min(ROWS, x.columns - inner)
    -- A product needs K on the partitions. Row-major x would come an element at a time that
    -- way; it is loaded by rows, and turned on the engine.
    local direct = x.column ~= 1
    local part = block(x, row, rows, inner, n)
    if direct then part = part:permute {2, 1} end
    local t = k:load(part)
    left[#left + 1] = direct and t or k:copy(k:transpose(t), {memory = "sbuf", dtype = t.dtype})
  end
  -- Columns of the result in parts of a bank.
  for column = 0, y.columns - 1, WIDE do
    local n, sum = math.min(WIDE, y.columns - column), nil
    -- All parts of K add up in one tile of PSUM.
    for i, t in ipairs(left) do
      local inner = (i - 1) * ROWS
      local right = resident and resident[i][{{}, {column, n}}]
        or k:load(block(y, inner, math.min(ROWS, y.rows - inner), column, n))
      sum = k:matmul(t, right, {into = sum})
    end
    k:store(block(out, row, rows, column, n), k:copy(sum, {memory = "sbuf"}))
  end
end

local function record_product(k, x, y, out)
  -- What all tiles of y along K take of a partition: when it fits, y is loaded once for all bands.
  local bytes, resident = y.bytes * y.columns * (-(-y.rows // ROWS)), nil
  if bytes <= RESIDENT then
    resident = {}
    for inner = 0, y.rows - 1, ROWS do
      resident[#resident + 1] = k:load(block(y, inner, math.min(ROWS, y.rows - inner), 0, y.columns))
    end
  end
  -- Bands of 128 rows, and what is left.
  local bands, rest = x.rows // ROWS, x.rows % ROWS
  if bands > UNROLLED then
    k:loop(bands, function(i) product_rows(k, x, y, out, i * ROWS, ROWS, resident) end)
  else
    for i = 0, bands - 1 do product_rows(k, x, y, out, i * ROWS, ROWS, resident) end
  end
  if rest > 0 then product_rows(k, x, y, out, bands * ROWS, rest, resident) end
end

-- What block needs of a tensor.
local function matrix(t)
  local shape, steps = t.shape, host.steps(t)
  return {rows = shape[1], columns = shape[2], row = steps[1], column = steps[2], bytes = t.nbytes // t.size}
end

-- soma.matmul(x, y): [M, K] times [K, N], float32.
function methods.matmul(x, y)
  if type(x) ~= "userdata" or type(y) ~= "userdata" then refuse "matmul takes two tensors" end
  local core = core_of("matmul", {x, y})
  -- The usual rule of matrices.
  if x.ndim ~= 2 or y.ndim ~= 2 or x.shape[2] ~= y.shape[1] then
    refuse("matmul: %s and %s: [M, K] and [K, N] are needed", text_of(x), text_of(y))
  end
  need_float("matmul", x)
  -- The engine takes two operands of one type here.
  if x.dtype ~= y.dtype then refuse("matmul of %s and %s on a device: use astype", x.dtype, y.dtype) end
  local out = new(x, "float32", {x.shape[1], y.shape[2]}, "matmul")
  local all, words = {x, y, out}, {}
  for j, t in ipairs(all) do
    local m = matrix(t)
    all[j], words[j] = m, table.concat({t.dtype, m.rows, m.columns, m.row, m.column}, ",")
  end
  -- Each pair of tiles is an instruction of the program.
  local tiles = -(-x.shape[2] // ROWS) * -(-y.shape[2] // WIDE)
  if tiles > PARTS then refuse("matmul: %s and %s are too large for one program: multiply slices", text_of(x), text_of(y)) end
  run(core, "matmul", table.concat(words, " "), {x, y, out}, function(k, views)
    -- The views come with the program's recording.
    for j, m in ipairs(all) do m.view = views[j] end
    record_product(k, all[1], all[2], all[3])
  end)
  return out
end

return {methods = methods, meta = meta}
