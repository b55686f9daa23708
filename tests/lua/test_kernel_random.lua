-- Random kernels of nearly all instructions: with optimize 0, 1 and 2, with spills, with merges, under four timings, they
-- give the bits, the state of generators and registers, and the prints that they give one instruction at a time, and no finding
-- that they do not have as written. Kernels that just fit as written fit in each of these ways.
--   KERNEL_RANDOM=10000 KERNEL_FIRST=1 build/soma tests/lua/test_kernel_random.lua
local soma = require "soma"
local t = require "harness"

local COUNT <const>, FIRST <const> = tonumber(os.getenv "KERNEL_RANDOM"), tonumber(os.getenv "KERNEL_FIRST" or 1)
local P <const>, F <const>, PLACE <const> = 128, 64, 32768 -- PLACE: bytes of a partition below tiles at fixed places
local TARGETS <const> = {[0] = "trn2", "trn1", "trn3"}
local SHAPES <const> = {{0, 128}, {0, 128}, {0, 128}, {0, 64}, {64, 64}, {32, 32}, {96, 32}, {0, 32}} -- partitions
local COLUMNS <const> = {F, F, F, 32, 16, 8, 1, 5}
local OPS <const> = {"add", "mult", "max", "min", "subtract"}

-- Whole numbers from 0 to below n, from a generator outside of Lua: a loop at run time records its round twice.
local function r(n) return math.random(0, n - 1) end
local function pick(list) return list[1 + r(#list)] end

-- ---- What a kernel has -----------------------------------------------------------------------

local function tiles(k, target)
  local b = {k = k, target = target, x = k:input("x", "float32", {8, P, F}), whole = k:input("i", "int32", {P, F})}
  b.temp, b.rows, b.shared = k:temp("z", "float32", {4, P, F}), k:temp("rows", "float32", {P, F}), k:output("shared", "float32", {2, 4, P, F})
  b.f, b.half, b.int, b.byte, b.sum, b.over = {}, {}, {}, {}, {}, {}
  local function tile(dtype, columns, options) return k:tile(dtype, {P, columns}, options) end
  for n = 1, 5 do b.f[n] = tile("float32", F) k.any.dma_copy(b.f[n], b.x[n]) end
  for n = 1, 2 do b.half[n] = tile("bfloat16", F) k.any.tensor_copy(b.half[n], b.f[n]) end
  for n = 1, 2 do b.int[n] = tile("int32", F) k.any.dma_copy(b.int[n], b.whole) end
  for n = 1, 2 do b.byte[n] = tile("uint8", F) k.any.tensor_scalar(b.byte[n], b.f[n], {op0 = "is_gt", imm0 = 0.0}) end
  for n = 1, 3 do b.sum[n] = tile("float32", F, {memory = "psum"}) k.any.memset(b.sum[n], 0.0) end
  for n, place in ipairs {{"float32", 0}, {"float32", 128}, {"bfloat16", 64}} do -- they share bytes
    b.over[n] = tile(place[1], F, {offset = PLACE + place[2]})
  end
  k.any.memset(b.over[1], 1.5) k.any.memset(b.over[2], 2.5)
  b.places, b.index = tile("uint32", F), tile("int32", 1)
  k.any.iota(b.places, {pattern = {{1, F}}, multiplier = 0})
  k.any.iota(b.index, {pattern = {{1, 1}}, multiplier = 1})
  b.eight, b.found, b.stats, b.column = tile("float32", 8), tile("uint32", 8), tile("float32", 6), tile("float32", 1)
  k.any.max8(b.eight, b.f[1])
  k.any.bn_stats(b.stats, b.f[1])
  k.any.tensor_reduce(b.column, b.f[1], {op = "max"})
  return b
end

-- What engines keep beside memory.
local function states(b)
  local k, mask = b.k, {}
  for n = 1, 32 do mask[n] = n * 5 % 32 end
  b.seed, b.state = k:tile("uint32", {1, 1}), b.target ~= "trn1" and k:tile("uint32", {P, 6})
  k.any.memset(b.seed, 17)
  k.any.set_rng_seed(b.seed)
  if b.state then k.any.memset(b.state, 99) k.gpsimd.rand_set_state(b.state) end
  k.any.match_value_load(b.eight)
  k.any.find_index8(b.found, b.f[1])
  k.any.load_mask_register(mask)
  k.any.ldweights(b.half[1])
  k.any.activate(b.f[5], b.f[1], {fn = "exp", reduce = "reset_reduce"})
  k.any.tensor_scalar_reduce(b.f[5], b.f[1], {op0 = "mult", imm0 = 2.0, op1 = "add", reduce = "reset_reduce"})
  for n = 0, 3 do k:store(b.temp[n], b.f[n + 1]) k:store(b.shared[k.core][n], b.f[n + 1]) end
  k:store(b.rows, b.f[2])
  if k.cores == 2 then k.any.core_barrier({data = b.shared}) end
end

-- All that there is at the end.
local function outputs(b)
  local k, y, n = b.k, b.k:output("y", "float32", {2, 24, P, F}), 0
  local function put(v) k:store(y[k.core][n], v) n = n + 1 end
  local f, g = b.f[1], b.f[2]
  for _, v in ipairs(b.f) do put(v) end
  for _, list in ipairs {b.sum, b.half, b.byte, {b.over[1], b.over[2]}} do
    for _, v in ipairs(list) do k.any.tensor_copy(f, v) put(f) end
  end
  for _, v in ipairs {b.int[1], b.int[2], b.places} do k.any.tensor_copy(f, v:view "float32") put(f) end
  k.any.memset(g, 0.0)
  for column, v in pairs {[0] = b.eight, [8] = b.found:view "float32", [16] = b.stats, [22] = b.column, [23] = b.index:view "float32"} do
    k.any.tensor_copy(g:slice(2, column, v.shape[2]), v)
  end
  if b.state then k.gpsimd.rand_get_state(b.state) k.any.tensor_copy(g:slice(2, 24, 6), b.state:view "float32") end
  k.any.act_read_acc(g:slice(2, 30, 1))
  k.any.dve_read_acc(g:slice(2, 31, 1))
  k.any.find_index8(b.found, b.f[3])
  k.any.tensor_copy(g:slice(2, 32, 8), b.found:view "float32")
  put(g)
  k.any.shuffle(g, b.f[3]) put(g)
  k.any.rng(b.int[1]) k.any.tensor_copy(f, b.int[1]:view "float32") put(f)
  for q = 0, 2 do k.any.dma_copy(f, b.temp[q]) put(f) end
  k.any.dma_copy(f, b.rows) put(f)
end

-- ---- Views ----------------------------------------------------------------------------------

local function float(b, psum)
  if r(16) == 0 then return pick(b.over) end
  if r(8) == 0 then return pick(b.half) end
  return psum and r(5) == 0 and pick(b.sum) or pick(b.f)
end

-- Some partitions and columns of a tile, now and then at a column in the register of the open loop.
local function part_of(b, v, shape, columns)
  local step = columns * 2 <= F and r(4) == 0 and 2 or 1
  local first = r(F - (columns - 1) * step)
  local moves = b.register and v == b.f[1] and columns <= 16 and r(3) == 0
  if shape[2] < P then v = v[{shape[1], shape[2]}] end
  if columns == F then return v end
  return moves and v:slice(2, b.register, columns) or v:slice(2, first, columns, step)
end

-- n operands of one shape; the first may be in PSUM.
local function parts(b, n)
  local shape, columns, out = pick(SHAPES), pick(COLUMNS), {}
  for i = 1, n do out[i] = part_of(b, float(b, i < 3), shape, columns) end
  return table.unpack(out)
end
local function rows(b) return pick {b.x, b.temp, b.shared[b.k.core]}[r(4)] end

-- ---- Instructions ---------------------------------------------------------------------------

local add <const> = {}
function add.copy(b, e) e.tensor_copy(parts(b, 2)) end
function add.copy_all(b, e) e.tensor_copy(float(b, true), float(b, true)) end
function add.two(b, e)
  local dst, a, c = parts(b, 3)
  e.tensor_tensor(dst, a, c, {op = pick(OPS)})
end
function add.two_all(b, e) e.tensor_tensor(pick(b.f), pick(b.f), pick(b.f), {op = pick(OPS)}) end
function add.scalars(b, e)
  local dst, a = parts(b, 2)
  e.tensor_scalar(dst, a, {op0 = pick(OPS), imm0 = r(5) - 2.0, op1 = pick {"add", "max"}, imm1 = 0.5})
end
function add.scaled(b, e) e.tensor_scalar(pick(b.f), float(b, true), {op0 = pick {"mult", "add"}, imm0 = b.column}) end
function add.three(b, e)
  local dst, a, c = parts(b, 3)
  e.scalar_tensor_tensor(dst, a, c, {op0 = "mult", imm0 = 0.5, op1 = pick(OPS)})
end
function add.activate(b)
  local dst, a = parts(b, 2)
  b.k.any.activate(dst, a, {fn = pick {"tanh", "relu", "copy", "sigmoid", "square"}, scale = pick {0.5, 1.0}})
end
function add.activate_sum(b) b.k.any.activate(pick(b.f), float(b, true), {fn = "relu", reduce = pick {"reduce", "reset_reduce", "reset"}}) end
function add.read_sum(b) b.k.any.act_read_acc(b.column) end
function add.reduced(b) b.k.any.tensor_scalar_reduce(pick(b.f), float(b, true), {op0 = "mult", imm0 = 0.25, op1 = "max", reduce = pick {"reduce", "reset_reduce"}}) end
function add.cumulative(b) b.k.any.tensor_scalar_cumulative(pick(b.f), float(b), {op0 = "mult", imm0 = 0.25, op1 = "max", reduce = pick {"reduce", "reset_reduce"}}) end
function add.read_max(b) b.k.any.dve_read_acc(pick {b.column, pick(b.f):slice(2, r(F), 1)}) end
function add.select(b) b.k.any.select_reduce(pick(b.f), pick(b.f), -1.0, {pred = pick(b.byte), reduce = pick {"idle", "reduce", "reset_reduce"}, reduce_op = "max"}) end
function add.range(b) b.k.any.range_select(pick(b.f), pick(b.f), {bound0 = b.column, bound1 = b.column, op0 = "is_ge", op1 = "is_le", start = r(9), reduce = pick {"idle", "reset_reduce"}, reduce_op = "max"}) end
function add.largest(b) b.k.any.max8(b.eight, float(b)) end
function add.match(b) b.k.any.match_value_load(pick {b.eight, pick(b.f):slice(2, 8 * r(8), 8)}) end
function add.find(b) b.k.any.find_index8(b.found, float(b)) end
function add.replace(b) b.k.any.match_replace8(pick(b.f), pick(b.f), r(2) == 0 and {imm = -9.0} or {imm = -9.0, dst_idx = b.found}) end
function add.mask(b)
  local mask, by = {}, 1 + r(31)
  for n = 1, 32 do mask[n] = r(20) == 0 and 255 or (n * by + r(3)) % 32 end
  b.k.any.load_mask_register(mask)
end
function add.same_mask(b)
  local mask = {}
  for n = 1, 32 do mask[n] = 3 end
  b.k.any.load_mask_register(mask)
end
function add.shuffle(b)
  local shape = pick(SHAPES)
  b.k.any.shuffle(part_of(b, pick(b.f), shape, F), part_of(b, pick(b.f), shape, F))
end
function add.dropout(b) b.k.any.dropout(pick(b.f), pick(b.f), {prob = 0.5, threshold = "keep_rate"}) end
function add.random(b) pick {b.k.any, b.k.vector, b.k.gpsimd}.rng(pick {b.int[1], b.int[2], b.byte[1]}) end
function add.seed(b) b.k.any.memset(b.seed, r(100)) b.k.any.set_rng_seed(b.seed) end
function add.get_state(b) b.k.gpsimd.rand_get_state(b.state) end
function add.set_state(b) b.k.gpsimd.rand_set_state(b.state) end
function add.iota(b)
  local columns = pick(COLUMNS)
  b.k.any.iota(part_of(b, pick {b.f[1], b.int[1]}, pick(SHAPES), columns), {pattern = {{1 + r(2), columns}}, offset = r(5), multiplier = r(3)})
end
function add.places(b) b.k.any.iota(b.places, {pattern = {{r(2), F}}, offset = 0, multiplier = 0}) end
function add.index(b) b.k.any.iota(b.index, {pattern = {{1, 1}}, offset = 0, multiplier = 1}) end
function add.backwards(b) b.k.any.iota(b.index, {pattern = {{1, 1}}, offset = 127, multiplier = -1}) end
function add.affine(b) b.k.any.affine_select(pick(b.f), pick(b.f), -5.0, {pattern = {{1, F}}, offset = r(9), multiplier = -1, cmp = "is_ge"}) end
function add.gather_columns(b) b.k.any.n_gather(pick(b.f), pick(b.f), b.places) end
function add.predicated(b) b.k.any.copy_predicated(pick(b.f), r(2) == 0 and {src = pick(b.f), pred = pick(b.byte)} or {imm = 3.0, pred = pick(b.byte)}) end
function add.compare(b, e) e.tensor_scalar(pick(b.byte), float(b, true), {op0 = pick {"is_gt", "is_lt"}, imm0 = r(3) - 1.0}) end
function add.over_partitions(b) b.k.any.partition_reduce(pick(b.f)[{0, 1}], pick(b.f), {op = "max"}) end
function add.scan(b) b.k.any.tensor_tensor_scan(pick(b.f), pick(b.f), pick(b.f), pick {0.0, 1.0, b.column}, {op0 = "mult", op1 = "max"}) end
function add.norm(b) b.k.any.bn_stats(b.stats, float(b)) b.k.any.bn_aggr(pick(b.f):slice(2, 2 * r(30), 2), b.stats) end
function add.blocks(b) b.k.any.transpose32(pick(b.f), pick(b.f)) end
function add.reciprocal(b, e) e.reciprocal(pick(b.f), float(b, true)) end
function add.reduce(b) b.k.any.tensor_reduce(pick {b.column, pick(b.f):slice(2, r(F), 1)}, float(b, true), {op = pick {"max", "add"}}) end
function add.set(b, e) e.memset(parts(b, 1), r(3) - 1.0) end
function add.set_all(b) b.k.any.memset(float(b, true), r(2) + 0.0) end

-- Products, now and then with a quarter of the array.
function add.products(b)
  local k, w, v = b.k, pick(b.half), pick(b.half)
  if r(6) == 0 then
    local row, column = 64 * r(2), 64 * r(2)
    local at = {tile_row = row, tile_col = column, tile_rows = 64, tile_cols = 64}
    k.any.ldweights(w[{row, 64}], at)
    at.acc = pick {"write", "add"}
    k.any.matmul(pick(b.sum)[{column, 64}], v[{row, 64}], at)
    k.any.ldweights(v)
    return
  end
  k.any.ldweights(w)
  for _ = 0, r(3) do k.any.matmul(pick(b.sum)[{0, F}], v, pick {{acc = "write"}, {acc = "add"}, {}}) end
end
function add.product(b) b.k.any.matmul(pick(b.sum)[{0, F}], pick(b.half), {acc = "add"}) end
function add.zeros_and_sums(b)
  local sum = pick(b.sum)
  b.k.any.memset(sum, 0.0)
  for _ = 0, r(3) do b.k.any.ldweights(b.half[1]) b.k.any.matmul(sum[{0, F}], b.half[2], {acc = "add"}) end
end

function add.load(b) b.k.any.dma_copy(pick(b.f), rows(b)) end
function add.load_by(b)
  local from = rows(b)
  if not b.register then b.k.any.dma_copy(pick(b.f), from, {dge = pick {"none", "swdge"}}) end
end
function add.load_part(b)
  local shape, columns = pick(SHAPES), pick(COLUMNS)
  b.k.any.dma_copy(part_of(b, pick(b.f), shape, columns), rows(b)[{shape[1], shape[2]}]:slice(2, r(F - columns + 1), columns))
end
function add.store(b) b.k.any.dma_copy(pick {b.temp, b.shared[b.k.core]}[r(4)], pick(b.f)) end
function add.store_part(b)
  local shape, columns = pick(SHAPES), pick(COLUMNS)
  local to = pick {b.temp, b.shared[b.k.core]}[r(4)]
  b.k.any.dma_copy(to[{shape[1], shape[2]}]:slice(2, r(F - columns + 1), columns), part_of(b, pick(b.f), shape, columns))
end
function add.move(b) b.k.any.dma_copy(b.temp[r(4)], pick {b.x, b.temp}[r(4)]) end
function add.load_add(b) b.k.any.dma_copy(pick(b.f), pick {b.x, b.temp}[r(4)], {op = "add", dge = "swdge"}) end
function add.compute(b) if not b.register then b.k.any.dma_compute(pick(b.f), {srcs = {pick(b.f), b.x[r(4)]}, op = "add", dge = "none"}) end end
function add.lists(b)
  local n = 1 + r(4)
  if not b.register then b.k.any.dma_copy_lists({dsts = {b.f[n], b.f[n + 1]}, srcs = {b.x[r(4)], b.temp[r(4)]}, dge = pick {"none", "swdge"}}) end
end
function add.turn(b) if not b.register then b.k.any.dma_transpose(b.half[1][{0, F}], b.half[2][{0, F}]) end end
function add.gather(b) b.k.any.dma_copy(pick(b.f), b.rows:gather(b.index), {dge = "swdge"}) end
function add.scatter(b) b.k.any.dma_copy(b.rows:gather(b.index), pick(b.f), {dge = "swdge"}) end

-- Tiles of their own: what is loaded or computed again, copies, what is written to one of two between.
function add.loaded(b)
  local a, c = b.k:tile("float32", {P, F}), b.k:tile("float32", {P, F})
  b.k.any.dma_copy(a, pick {b.x, b.temp, b.shared[b.k.core]}[r(2)])
  b.k.any.activate(c, a, {fn = "relu"})
  if r(3) == 0 then b.k.any.memset(a[{0, 64}], 0.0) end
  b.k.any.tensor_tensor(pick(b.f), c, a, {op = "add"})
end
function add.copies(b)
  local k, a, c = b.k, b.k:tile("float32", {P, F}), b.k:tile("float32", {P, F})
  k.any.tensor_copy(a, pick {pick(b.f), pick(b.sum), pick(b.half)})
  if r(2) == 0 then k.any.tensor_scalar(pick(b.f), pick(b.f), {op0 = "mult", imm0 = 0.5}) end
  k.any.tensor_copy(c, a)
  if r(3) == 0 then k.any.memset(c:slice(2, 0, 4), 7.0) end
  k.any.tensor_tensor(pick(b.f), c, a, {op = pick {"subtract", "add"}})
  if r(3) == 0 then k.any.memset(pick {a, c}:slice(2, 8, 4), 5.0) k.any.tensor_tensor(pick(b.f), c, a, {op = "add"}) end
end
function add.casts(b)
  local a, c = b.k:tile("bfloat16", {P, F}), b.k:tile("bfloat16", {P, F})
  b.k.any.tensor_copy(a, pick(b.f))
  b.k.any.tensor_copy(c, a)
  b.k.any.tensor_copy(pick(b.f), pick {a, c})
end
function add.as_whole_numbers(b) b.k.any.tensor_copy(pick(b.int), pick(b.f):view "int32") end
function add.pieces(b)
  local four = b.k:tile("float32", {P, 4, F})
  for n = 0, 3 do b.k.any.dma_copy(four[{{}, n}], pick {b.x, b.temp}[r(4)]) end
  for n = 0, 3 do
    b.k.any.tensor_tensor(pick(b.f), four[{{}, n}], pick(b.f), {op = "max"})
    if r(2) == 0 then b.k.any.dma_copy(four[{{}, r(4)}], b.x[r(4)]) end
  end
end

-- Loads, copies and stores of one line, round after round: what merges make one, but for what comes between.
local function between(b, four, n)
  local what = r(9)
  if what == 0 then b.k.any.dma_copy(b.temp[r(4)], pick(b.f))
  elseif what == 1 then b.k.any.memset(pick(b.f):slice(2, 8 * r(8), 8), 4.0)
  elseif what == 2 then b.k.any.memset(four:slice(2, 16 * r(4), 8), 3.0)
  elseif what == 3 and n then b.k.any.tensor_tensor(pick(b.f):slice(2, 0, 16), n, n, {op = "max"})
  elseif what == 4 then b.k.any.tensor_copy(pick(b.over), pick(b.f))
  elseif what == 5 then b.k.any.dma_copy(pick {b.temp, b.shared[b.k.core]}[r(4)]:slice(2, r(F), 1), pick(b.f):slice(2, 0, 1)) end
end
local function rounds_of(b, move, distance)
  local seen, four = {}, pick {pick(b.f), pick(b.over)}
  for n = 0, 1 + r(4) do
    if n < 4 then
      seen[n + 1] = move(n, distance * n)
      if r(3) == 0 then between(b, four, seen[n + 1]) end
    end
  end
  for _, v in ipairs(seen) do b.k.any.tensor_tensor(pick(b.f):slice(2, 16 * r(4), 16), v, v, {op = pick {"max", "add"}}) end
end
function add.rounds_loaded(b)
  local from = rows(b)
  rounds_of(b, function(_, at)
    local t = b.k:tile("float32", {P, 16})
    b.k.any.dma_copy(t, from:slice(2, at, 16))
    return t
  end, pick {16, 16, 16, 8})
end
function add.rounds_copied(b)
  local from = pick {pick(b.f), pick(b.over), pick(b.sum)}
  rounds_of(b, function(_, at)
    local t = b.k:tile("float32", {P, 16})
    b.k.any.tensor_copy(t, from:slice(2, at, 16))
    return t
  end, pick {16, 16, 16, 12})
end
function add.rounds_stored(b)
  local to, source = pick {b.temp, b.shared[b.k.core]}[r(4)], r(2) == 0 and pick(b.f)
  rounds_of(b, function(n, at)
    local t = source and source:slice(2, 16 * n, 16)
    if not source then
      t = b.k:tile("float32", {P, 16})
      b.k.any.activate(t, pick(b.f):slice(2, 16 * n, 16), {fn = "relu"})
    end
    b.k.any.dma_copy(to:slice(2, at, 16), t)
    return t
  end, pick {16, 16, 16, 8})
end
function add.rounds_gathered(b) -- into one tile
  local to, from = pick {pick(b.f), pick(b.over)}, rows(b)
  rounds_of(b, function(_, at)
    b.k.any.dma_copy(to:slice(2, at, 16), from:slice(2, at, 16))
    return to:slice(2, at, 16)
  end, pick {16, 16, 16, 8})
end

function add.print(b) b.k.any.device_print("p", pick {b.f[1], b.f[2], b.column, b.temp[0]}:slice(2, 0, 1)[{r(3), 1}]) end
function add.at_place(b)
  local place = b.k:register()
  b.k.any.tensor_load(place, b.places[{0, 1}]:slice(2, r(F), 1))
  b.k.any["and"](place, place, 15)
  b.k.any.tensor_copy(b.f[1]:slice(2, place, 8), b.f[2]:slice(2, 8, 8))
end
function add.poke(b) b.k[pick {"any", "sync", "vector"}].tensor_store(b.places[{0, 1}]:slice(2, r(F), 1), b.k:register(r(9))) end
function add.order(b)
  local before = b.k.last
  b.k.any.tensor_scalar(pick(b.f), pick(b.f), {op0 = "add", imm0 = 1.0})
  b.k:order(before, b.k.last)
end
function add.meet(b)
  local k, what = b.k, r(3)
  if k.cores < 2 or b.register then return end
  if what == 0 then k.any.sendrecv(b.f[1 + r(2)], b.f[3 + r(2)]) return end
  k:store(b.shared[k.core][r(4)], b.f[1])
  k.any.core_barrier({data = b.shared})
  k.any.dma_copy(pick(b.f), b.shared[1 - k.core][r(4)])
  k.any.core_barrier({data = b.shared})
end

local NAMES <const> = {}
for name in pairs(add) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

-- n of them; those that a rule or the target refuses are left out.
local function some(b, n)
  for _ = 1, n do
    if b.depth < 2 and r(70) == 0 then
      local seed, rounds, count, outer = r(1 << 20), r(4), 1 + r(6), b.register
      local inside = setmetatable({depth = b.depth + 1}, {__index = b})
      b.k:loop(rounds, function(i)
        math.randomseed(seed)
        rawset(inside, "register", i)
        some(inside, count)
      end)
      math.randomseed(seed + 1)
    else
      local what = add[pick(NAMES)]
      pcall(what, b, b.k[r(4) == 0 and pick {"vector", "gpsimd", "scalar"} or "any"])
    end
  end
end

-- full: SBUF has hardly more room than below the tiles at fixed places, where another one lies.
local function kernel(seed, target, full)
  return function(k)
    local below = full and k:tile("float32", {P, PLACE // 4}, {offset = 0})
    if full then k.any.memset(below:slice(2, 0, 1), 0.0) end
    math.randomseed(seed)
    local b = tiles(k, target)
    b.depth = 0
    states(b)
    some(b, 8 + r(50))
    outputs(b)
    if full then k.any.memset(below:slice(2, 0, 1), 1.0) end
  end
end

-- ---- Bits, prints, findings -----------------------------------------------------------------

local inputs <const> = {x = soma.randn({8, P, F}, "float32", {seed = 3}), i = soma.zeros({P, F}, "int32")}

local function build(seed, target, cores, options)
  options.target, options.cores, options.advice = target, cores, false
  local k = soma.kernel(options, kernel(seed, target, options.spill))
  return k:program(), k
end

-- Cores are kept: what they have of the host's memory takes longer to make than most of these kernels to run.
local cores_of = {}
local function core_of(target, schedule, checks)
  local key = ("%s %d %s"):format(target, schedule, checks)
  local kept = cores_of[key]
  if not kept then
    kept = {lines = {}}
    kept.core = soma.core {target = target, schedule = schedule, checks = checks, print = function(text) kept.lines[#kept.lines + 1] = text end}
    cores_of[key] = kept
  end
  kept.core:clear()
  kept.lines = {}
  return kept
end

local function run(program, target, schedule, checks)
  local found, kept = {}, core_of(target, schedule, checks)
  local out, lines = kept.core:run(program, inputs, {faults = "return"}), kept.lines
  for _, f in ipairs(out.findings) do found[f.check .. " " .. f.line] = f.text end
  return out, table.concat(lines), found
end

local function same_run(what, want, prints, got, printed, cores)
  assert(not got.fault or got.fault.kind == "check", what .. ": " .. tostring(got.fault))
  for _, name in ipairs {"y", "shared"} do
    local equal, how = soma.equal(got.out[name], want.out[name])
    assert(equal, ("%s: other bits in %s: %s"):format(what, name, how))
  end
  assert(cores or prints == printed, what .. ": other prints") -- of two cores they come in the order of their times
end

local WAYS <const> = {{optimize = 0}, {optimize = 1}, {optimize = 2}, {optimize = 1, spill = true}, {optimize = 1, front_end = "neuronxcc.nki"}}

-- How often each pass did something, as the report says it: {name, words of the report}.
local SAYS <const> = {
  {"merges", "(%d+) of %d+: those of several rounds are one"}, {"overwritten", "(%d+) of %d+: it is overwritten"},
  {"there", "(%d+) of %d+: another tile has"}, {"computed", "(%d+) of %d+: it was computed"},
  {"reloads", "loaded again before ()"}, {"stored", "to HBM after ()"}, {"out of PSUM", "from PSUM to SBUF after ()"},
}
local function count(k, way, fired)
  local figures, text = k:figures(), k:report()
  for _, name in ipairs {"versions", "left_out", "moved"} do
    if way == WAYS[2] then fired[name] = (fired[name] or 0) + figures[name] end
  end
  for _, says in ipairs(SAYS) do
    for n in text:gmatch(says[2]) do
      fired[says[1]] = (fired[says[1]] or 0) + (says[2]:find("(%d", 1, true) and tonumber(n) or 1)
    end
  end
end

-- Whether the kernel ran: a register may move a destination over its source, which is a fault.
local function check(seed, fired)
  local target = TARGETS[seed % 3]
  local cores = target ~= "trn1" and seed % 2 == 0 and 2 or nil
  local ok, program = pcall(build, seed, target, cores, {keep_order = true, fixed_engines = true, optimize = 0})
  if not ok then return false end -- a rule of loops
  local want, prints = run(program, target, 0)
  if want.fault then return false end
  local written
  for _, way in ipairs(WAYS) do
    local what = ("kernel %d on %s, optimize %d%s"):format(seed, target, way.optimize, way.spill and ", spills" or way.front_end or "")
    local fits, p, k = pcall(build, seed, target, cores, {optimize = way.optimize, spill = way.spill, front_end = way.front_end,
                                                          sbuf_bytes = way.spill and PLACE + 384 + 256 * (5 + seed % 4) or nil})
    assert(fits or way.spill and p:find("not fit in", 1, true), p)
    if fits then count(k, way, fired) end
    for schedule = 0, fits and (way == WAYS[2] and 3 or 0) or -1 do
      local got, printed, found = run(p, target, schedule, "race,uninit,psum,port")
      same_run(what .. ", schedule " .. schedule, want, prints, got, printed, cores)
      written = written or found
      for key, text in pairs(found) do assert(written[key], what .. ": a finding that is not one as written: " .. text) end
    end
  end
  return true
end

t.case("random kernels", function()
  local fired, ran = {}, 0
  for seed = FIRST, FIRST + (COUNT or 24) - 1 do ran = ran + (check(seed, fired) and 1 or 0) end
  local names = {}
  for name in pairs(fired) do names[#names + 1] = name end
  table.sort(names)
  for n, name in ipairs(names) do names[n] = name .. " " .. fired[name] end
  if COUNT then io.stderr:write(("# %d ran: %s\n"):format(ran, table.concat(names, ", "))) end
  t.eq(ran > 0.7 * (COUNT or 24), true)
  for _, name in ipairs {"versions", "left_out", "moved"} do assert(fired[name] > 4 * ran, name) end
  for n = 1, 6 do assert(COUNT or fired[SAYS[n][1]], SAYS[n][1]) end
end)

-- ---- Room -----------------------------------------------------------------------------------

-- Tiles of many sizes that are overwritten, read, and replaced by others.
local function tight(seed)
  return function(k)
    math.randomseed(seed)
    local x, y, n = k:input("x", "float32", {8, P, 256}), k:output("y", "float32", {64, P, 256}), 0
    local live = {}
    local function store(v) if n < 64 then k:store(y[n]:slice(2, 0, v.shape[2]), v) n = n + 1 end end
    for i = 1, 2 + r(6) do
      live[i] = k:tile("float32", {P, 32 * (1 + r(8))})
      k.any.dma_copy(live[i], x[0]:slice(2, 0, live[i].shape[2]))
    end
    for _ = 1, 10 + r(30) do
      local v, what = pick(live), r(seed < 1000 and 6 or 8)
      if what <= 1 then
        k.any.dma_copy(v, x[r(4)]:slice(2, 0, v.shape[2]))
      elseif what == 2 then
        local s = k:tile("float32", v.shape)
        k.any.activate(s, v, {fn = "relu"})
        live[1 + r(#live)] = s
      elseif what == 3 then
        k.any.activate(v:slice(2, 0, 32), pick(live):slice(2, 0, 32), {fn = "relu"})
      elseif what == 4 then
        store(v)
      elseif what == 6 then
        k:loop(2, function() k.any.tensor_scalar(v, v, {op0 = "mult", imm0 = 0.5}) end)
      elseif what == 7 then
        local w = pick(live)
        k.any.tensor_scalar(v, v, {op0 = "mult", imm0 = 3.0})
        k.any.memset(w:slice(2, 0, 8), 2.0)
        k:order(k.last - 1, k.last)
      else
        k.any.tensor_scalar(v, v, {op0 = "add", imm0 = 1.0})
      end
    end
    for _, v in ipairs(live) do store(v) end
  end
end

local function fits(seed, optimize, bytes)
  local k = soma.kernel({optimize = optimize, sbuf_bytes = bytes}, tight(seed))
  local ok, message = pcall(k.program, k)
  return ok or message, k
end

t.case("what fits as written fits", function()
  local seeds, unchanged = {192, 210, 324, 1048, 1076, 1118, 1135, 1166, 1168, 1246}, 0 -- where versions leave gaps
  for i = 1, COUNT or 20 do seeds[#seeds + 1] = FIRST + i end
  local x = soma.randn({8, P, 256}, "float32", {seed = 4})
  for _, seed in ipairs(seeds) do
    local low, high, written = 1024, 16384, nil
    while high - low > 64 do
      local middle = (low + high) // 128 * 64
      if fits(seed, 0, middle) == true then high = middle else low = middle end
    end
    for optimize = 1, 2 do
      local ok, k = fits(seed, optimize, high)
      assert(ok == true, ("%d, optimize %d: %s"):format(seed, optimize, ok))
      if k:report():find("the tiles would not fit then", 1, true) then
        unchanged = unchanged + 1
        written = written or soma.core {}:run(select(2, fits(seed, 0, high)):program(), {x = x}).out.y
        t.eq(soma.equal(soma.core {}:run(k:program(), {x = x}).out.y, written), true)
        local left = 0 -- what the tries before left out does not count
        for some in k:report():gmatch "(%d+) of %d+: [%a ]-already\n" do left = left + tonumber(some) end
        for some in k:report():gmatch "(%d+) of %d+: it is overwritten" do left = left + tonumber(some) end
        t.eq(left, k:figures().left_out)
      end
    end
  end
  assert(unchanged > 0, "no list was too large with its passes")
end)

t.finish()
