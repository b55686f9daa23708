-- A layer of a language model on all 16 devices of a trn1.32xlarge, as large models are split. Tensor parallel: each of the
-- ranks has some of the heads and of the hidden units, and what it calculates is one term of the result. Sequence parallel:
-- between these parts each rank has some of the tokens, which it normalises and adds alone. So tokens are gathered before each
-- part, and the terms of all ranks are added and scattered after it:
--   x -> norm -> all_gather -> attention -> reduce_scatter -> + -> norm -> all_gather -> MLP -> reduce_scatter -> +
-- A small layer on four ranks is compared with double precision; then a large one is timed on 4 to 32 ranks.
--   build/soma samples/layer.lua [FOLDER for the picture]
local soma = require "soma"
local HEAD <const>, EPS <const> = 128, 1e-5

-- x / deviation by rows, without its mean.
local function norm(k, x)
  local rows, cols = x.shape[1], x.shape[2]
  local stats, both = k:tile("float32", {rows, 6 * cols // 512}), k:tile("float32", {rows, 2})
  for c = 0, cols // 512 - 1 do k.vector.bn_stats(stats[{{}, {6 * c, 6}}], x[{{}, {512 * c, 512}}]) end
  k.vector.bn_aggr(both, stats)
  local deviation = k:sqrt(k:add(both[{{}, {1, 1}}], EPS))
  return k:mul(k:sub(x, both[{{}, {0, 1}}]), k:reciprocal(deviation))
end

-- x [tokens, width] in HBM turned: a tile [128, tokens] for each 128 of the width.
local function turned(k, x)
  local tokens, tiles, blocks = x.shape[1], {}, {}
  for s = 0, tokens - 1, 128 do blocks[s] = k:load(x[{s, 128}]) end
  for d = 0, x.shape[2] - 1, 128 do
    local t = k:tile("float32", {128, tokens}, {memory = "psum"})
    for s = 0, tokens - 1, 128 do k:transpose(blocks[s][{{}, {d, 128}}], {into = t[{{}, {s, 128}}]}) end
    tiles[#tiles + 1] = k:copy(t, {memory = "sbuf", dtype = x.dtype})
  end
  return tiles
end

-- left^T right over the tiles of both, as a tile of SBUF.
local function product(k, left, right, dtype)
  local sum
  for i = 1, #left do sum = k:matmul(left[i], right[i], {into = sum}) end
  return k:copy(sum, {memory = "sbuf", dtype = dtype})
end

-- Columns of w in tiles of 128 rows.
local function columns(k, w, from)
  local tiles = {}
  for d = 0, w.shape[1] - 1, 128 do tiles[#tiles + 1] = k:load(w[{{d, 128}, {from, 128}}]) end
  return tiles
end

local function rows_of(tiles, i)
  local part = {}
  for d, t in ipairs(tiles) do part[d] = t[{{}, {i, 128}}] end
  return part
end

-- terms = sum of left[h]^T right[h], where right[h] are 128 rows of w.
local function put_terms(k, terms, left, w, i)
  for c = 0, w.shape[2] - 1, 512 do
    local sum
    for h, l in ipairs(left) do sum = k:matmul(l, k:load(w[{{(h - 1) * 128, 128}, {c, 512}}]), {into = sum}) end
    k:store(terms[{{i, 128}, {c, 512}}], k:copy(sum, {memory = "sbuf", dtype = terms.dtype}))
  end
end

-- softmax(q^T keys / sqrt(128)) values of 128 tokens, turned: [HEAD, 128].
local function attend(k, q, keys, values, dtype)
  local tokens = keys.shape[2]
  local scores = k:matmul(q, keys)
  local top = k:mul(k:max(scores, {negate = true}), HEAD ^ -0.5)
  local p, sum = k:exp(scores, {scale = HEAD ^ -0.5, bias = top, sum = true, dtype = dtype})
  local t, part = k:tile("float32", {128, tokens}, {memory = "psum"}), nil
  for s = 0, tokens - 1, 128 do k:transpose(p[{{}, {s, 128}}], {into = t[{{}, {s, 128}}]}) end
  local back = k:copy(t, {memory = "sbuf", dtype = dtype})
  for s = 0, tokens - 1, 128 do part = k:matmul(back[{{}, {s, 128}}], values[s // 128 + 1], {into = part}) end
  local out = k:tile("float32", {128, 128}, {memory = "psum"})
  k:transpose(k:mul(part, k:reciprocal(sum), {dtype = dtype}), {into = out})
  return k:copy(out, {memory = "sbuf", dtype = dtype})
end

local function attention(k, c, all, terms)
  local x, o = turned(k, all), {}
  local wq, wk, wv, wo = c.input "wq", c.input "wk", c.input "wv", c.input "wo"
  for h = 0, wq.shape[2] - 1, HEAD do
    local q, keys = product(k, columns(k, wq, h), x, c.dtype), product(k, columns(k, wk, h), x, c.dtype)
    local v, values = columns(k, wv, h), {}
    for s = 0, c.tokens - 1, 128 do values[#values + 1] = product(k, rows_of(x, s), v, c.dtype) end
    for s = 0, c.tokens - 1, 128 do
      o[s] = o[s] or {}
      table.insert(o[s], attend(k, q[{{}, {s, 128}}], keys, values, c.dtype))
    end
  end
  for s = 0, c.tokens - 1, 128 do put_terms(k, terms, o[s], wo, s) end
end

local function mlp(k, c, all, terms)
  local x, hidden = turned(k, all), {}
  local w1, w2 = c.input "w1", c.input "w2"
  for f = 0, w1.shape[2] - 1, 128 do hidden[#hidden + 1] = k:relu(product(k, columns(k, w1, f), x, c.dtype)) end
  for s = 0, c.tokens - 1, 128 do put_terms(k, terms, rows_of(hidden, s), w2, s) end
end

-- Gathers the tokens of all ranks, does a part, and gives this rank's tokens of the sum of all terms.
local function together(k, c, name, h, part)
  local rows = c.tokens // #c.group
  local function temp(what, n) return k:temp(name .. what, c.dtype, {n, c.width}) end
  local mine, all, terms, sum = temp("_mine", rows), temp("_all", c.tokens), temp("_terms", c.tokens), temp("_sum", rows)
  k:store(mine, h)
  k.gpsimd.all_gather {dsts = {all}, srcs = {mine}, group = {c.group}}
  part(k, c, all, terms)
  k.gpsimd.reduce_scatter {dsts = {sum}, srcs = {terms}, group = {c.group}, op = "add"}
  return k:load(sum)
end

local function layer(c)
  return soma.kernel({target = "trn1"}, function(k)
    local rows, n = c.tokens // #c.group, #c.group
    local shapes = {
      wq = {c.width, c.heads // n * HEAD}, wk = {c.width, c.heads // n * HEAD}, wv = {c.width, c.heads // n * HEAD},
      wo = {c.heads // n * HEAD, c.width}, w1 = {c.width, c.hidden // n}, w2 = {c.hidden // n, c.width},
    }
    c.input = function(name) return k:input(name, c.dtype, shapes[name]) end
    local x = k:load(k:input("x", c.dtype, {rows, c.width}))
    local middle = k:add(x, together(k, c, "attention", norm(k, x), attention))
    k:store(k:output("y", c.dtype, {rows, c.width}), k:add(middle, together(k, c, "mlp", norm(k, middle), mlp)))
  end):program()
end

local function list_of(n)
  local ranks = {}
  for r = 1, n do ranks[r] = r - 1 end
  return ranks
end

-- ---- Values ------------------------------------------------------------------------------------

-- The i-th n rows, or columns, of a tensor.
local function rows_at(t, i, n) return t:slice({i * n, (i + 1) * n}):copy() end
local function columns_of(t, i, n) return t:slice({}, {i * n, (i + 1) * n}):copy() end

local function check()
  local n, c = 4, {dtype = "float32", tokens = 256, width = 512, heads = 4, hidden = 512, group = list_of(4)}
  local function random(seed, rows, cols, scale) return soma.randn({rows, cols}, "float32", {seed = seed}) * scale end
  local x = random(1, c.tokens, c.width, 1)
  local w = {wo = random(5, c.heads * HEAD, c.width, 0.04), w1 = random(6, c.width, c.hidden, 0.04), w2 = random(7, c.hidden, c.width, 0.04)}
  for i, name in ipairs {"wq", "wk", "wv"} do w[name] = random(1 + i, c.width, c.heads * HEAD, 0.04) end
  local function normal(t)
    local d = t - t:mean(1, true)
    return d / soma.sqrt((d * d):mean(1, true) + EPS)
  end
  local h, want = normal(x), x
  for i = 0, c.heads - 1 do
    local function of(name) return h:matmul(columns_of(w[name], i, HEAD)) end
    local e = soma.exp(of "wq":matmul(of "wk":transpose()) * HEAD ^ -0.5)
    want = want + (e / e:sum(1, true)):matmul(of "wv"):matmul(rows_at(w.wo, i, HEAD))
  end
  want = want + normal(want):matmul(w.w1):relu():matmul(w.w2)
  local world <close> = soma.world {ranks = n, target = "trn1"}
  local rows, part = c.tokens // n, c.hidden // n
  local runs = world:run(layer(c), function(r)
    local own = {x = rows_at(x, r, rows), wo = rows_at(w.wo, r, HEAD), w1 = columns_of(w.w1, r, part), w2 = rows_at(w.w2, r, part)}
    for _, name in ipairs {"wq", "wk", "wv"} do own[name] = columns_of(w[name], r, HEAD) end
    return own
  end)
  for r = 0, n - 1 do
    local ok, report = soma.allclose(runs[r].out.y, rows_at(want, r, rows), {rtol = 1e-3, atol = 1e-3})
    if not ok then error("rank " .. r .. ": " .. report, 0) end
  end
end
check()

-- ---- Time --------------------------------------------------------------------------------------

-- How long some collective of rank 0 is on its way, in all, and the link with the most to do.
local function time(v)
  local c = {dtype = "bfloat16", tokens = 512, width = 4096, heads = 32, hidden = 16384, group = list_of(v.ranks)}
  local world <close> = soma.world {ranks = v.ranks, target = "trn1", timing_only = true}
  local runs = world:run(layer(c))
  local collectives, most = 0, 0
  for _, x in ipairs(runs.collectives) do
    if x.rank == 0 then collectives = collectives + x.ns / 1000 end
  end
  for _, l in ipairs(runs.links) do most = math.max(most, l.percent) end
  return {us = runs.time_ns / 1000, collectives = collectives, link = most}
end

local result = soma.sweep {over = {{"ranks", 4, 8, 16, 32}}, run = time}:check()
result.columns = {"ranks", "us", "collectives", "link"}
print(result)

if arg and arg[1] then
  assert(result:plot {
    x = "ranks", y = {"us", "collectives"}, log = "xy", file = arg[1] .. "/layer.svg",
    title = "A layer by ranks, two a device", xlabel = "ranks", ylabel = "us, simulated",
    labels = {us = "the layer", collectives = "its collectives"},
  })
end
