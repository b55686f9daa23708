-- How operands on a device lie, and their tiles: for arithmetic.lua.
local _, host = ...

local ROWS <const> = 128 -- of a tile
local NARROW <const> = 512 -- columns of a tile, at least, where there are enough elements
local UNROLLED <const> = 16 -- tiles of a program without a loop
local PIECES <const> = 64 -- most tiles or loops that a program names one by one

-- Steps of t in elements for each dimension of a shape that it is broadcast to.
local function steps_of(t, shape)
  local own, its, steps = t.shape, host.steps(t), {}
  for d = 1, #shape do
    -- Dimensions are aligned at the last one.
    local i = d - (#shape - #own)
    -- What is repeated along a dimension has the step 0 there.
    steps[d] = i >= 1 and own[i] > 1 and its[i] or 0
  end
  return steps
end

-- Dimensions as {n = size, step of operand 1, step of operand 2, ...}, outermost first, without
-- those of one element, and joined where for all operands one goes on where the next ends.
-- From the last dimension on, as those lie closest together.
local function dimensions(shape, steps)
  local dims = {}
  for d = #shape, 1, -1 do
    local dim, inner = {n = shape[d]}, dims[1]
    for j = 1, #steps do dim[j] = steps[j][d] end
    local joins = inner ~= nil
    -- Its own step is that of a whole run of the inner one.
    for j = 1, #steps do joins = joins and dim[j] == inner[j] * inner.n end
    if shape[d] == 1 then
      -- nothing to walk
    elseif joins then
      inner.n = inner.n * dim.n
    else
      table.insert(dims, 1, dim)
    end
  end
  return dims
end

-- A dimension that is not there.
local function one(count)
  local dim = {n = 1}
  for j = 1, count do dim[j] = 1 end
  return dim
end

-- A dimension in parts of `size`: the number of parts as a dimension, a part, and what is left over
-- with the steps to it; each nil when none exists.
-- Steps of the outer dimension are those of whole parts.
local function cut(dim, size)
  local full, rest = dim.n // size, dim.n % size
  local outer, part, last, from = {n = full}, {n = size}, {n = rest}, {}
  for j = 1, #dim do
    outer[j], part[j], last[j], from[j] = dim[j] * size, dim[j], dim[j], dim[j] * size * full
  end
  return full > 0 and outer or nil, part, rest > 0 and last or nil, from
end

-- Every element of the operands is in exactly one box.
-- What is to be done as boxes {loops, rows, columns, from}: tiles of rows and columns, repeated by
-- loops, from an element of each operand on.
local function boxes(dims, count, most)
  local list, zero = {}, {}
  -- Another element to begin with.
  for j = 1, count do zero[j] = 0 end
  local function moved(from, by)
    local to = {}
    for j = 1, count do to[j] = from[j] + by[j] end
    return to
  end
  -- Loops are shared between boxes, so a list is copied before it grows.
  local function with(loops, dim)
    local all = table.move(loops, 1, #loops, 1, {})
    if dim and dim.n > 1 then all[#all + 1] = dim end
    return all
  end
  local function by_rows(loops, rows, columns, from)
    local outer, part, rest, start = cut(rows, ROWS)
    -- As many full tiles as there are, then a smaller one.
    if outer then list[#list + 1] = {loops = with(loops, outer), rows = part, columns = columns, from = from} end
    if rest then list[#list + 1] = {loops = loops, rows = rest, columns = columns, from = moved(from, start)} end
  end
  local n = #dims
  -- One dimension only: both sides of the tile come from it.
  if n < 2 then
    local line = dims[1] or one(count)
    -- A line is spread over the partitions, but not into pieces so narrow that their transfers
    -- cost more than they move.
    local width = math.min(line.n, math.max(NARROW, math.min(most, -(-line.n // ROWS))))
    local outer, part, rest, start = cut(line, width)
    by_rows({}, outer, part, zero)
    if rest then by_rows({}, one(count), rest, start) end
    return list
  end
  -- The last two dimensions make the tile, the others are loops.
  local loops = table.move(dims, 1, n - 2, 1, {})
  local outer, part, rest, start = cut(dims[n], most)
  if outer then by_rows(with(loops, outer), dims[n - 1], part, zero) end
  if rest then by_rows(loops, dims[n - 1], rest, start) end
  return list
end

-- A part of an operand: rows and columns of box from element `at` on, moved by a register times a
-- step for each operand, {register = r, step, ...}, or nil.
local function part_of(view, box, j, at, moves)
  -- All elements after `at`, of which ap then takes its own.
  local w = view:slice(1, at, 1)
  if moves and moves[j] ~= 0 then w = w:slice(1, moves.register * moves[j], 1) end
  return w:ap {{box.rows[j], box.rows.n}, {box.columns[j], box.columns.n}}
end

-- The loops of a box that its program names one by one, and the one that runs on the machine (an
-- address moves by one register), nil when there are few rounds.
-- The first loop, until a longer one is found.
local function split_loops(box)
  local named, machine, all = table.move(box.loops, 1, #box.loops, 1, {}), 1, 1
  -- Only one loop can run on the machine; the longest saves most.
  for i, l in ipairs(named) do
    all = all * l.n
    if l.n > named[machine].n then machine = i end
  end
  -- Few rounds are named one by one, without a loop.
  if all <= UNROLLED then return named, nil, all end
  local most = table.remove(named, machine)
  return named, most, all // most.n
end

-- Records each tile of a box: f(parts), a view of each operand.
local function each_tile(k, box, views, f)
  local named, machine = split_loops(box)
  local function tile(at, moves)
    local parts = {}
    for j, v in ipairs(views) do parts[j] = part_of(v, box, j, at[j], moves) end
    return f(parts)
  end
  -- Loops that are named, one within the other.
  local function walk(i, at)
    local l = named[i]
    if not l and machine then
      return k:loop(machine.n, function(r) tile(at, table.move(machine, 1, #views, 1, {register = r})) end)
    end
    if not l then return tile(at) end
    for round = 0, l.n - 1 do
      local there = {}
      -- Each round moves every operand by its own step.
      for j = 1, #views do there[j] = at[j] + round * l[j] end
      walk(i + 1, there)
    end
  end
  walk(1, box.from)
end

-- Whether a program would name too many pieces.
local function too_many(list)
  local all = 0
  for _, box in ipairs(list) do
    local _, _, named = split_loops(box)
    all = all + named
  end
  return all > PIECES
end

-- Row i of what goes with tensors of so many dimensions.
local function row(t, ndim, i)
  -- A tensor of fewer dimensions is repeated for each row.
  if t.ndim < ndim then return t end
  return t[t.shape[1] == 1 and 0 or i]
end

-- A tile of a part; where all columns are one element, it is loaded once and repeated.
local function load(k, part)
  local rows, columns = table.unpack(part.shape)
  -- A step of 0 along the columns: one element for all.
  if part.steps[2] ~= 0 or columns == 1 then return k:load(part) end
  return k:load(part:ap {{part.steps[1], rows}, {1, 1}}):broadcast(2, columns)
end

return {ROWS = ROWS, UNROLLED = UNROLLED, steps_of = steps_of, dimensions = dimensions, one = one, boxes = boxes,
        each_tile = each_tile, too_many = too_many, row = row, load = load}
