-- The matmul, the softmax and the attention of the .s files beside this one, written with soma.kernel:
-- no semaphores, addresses or queues. Both forms are checked against a reference in double precision,
-- then their lines and simulated times are compared.
--   build/soma samples/kernels.lua
local soma = require "soma"
local here = arg and arg[0] and arg[0]:match("^(.*/)") or "samples/"
local checks = "race,uninit,psum,overlap,port"
local kernels = {}

-- c[M, N] = a[K, M]^T b[K, N]: the tiles of a and b that a row of blocks needs are loaded once.
function kernels.matmul(k, a, b)
  local depth, m, n = a.shape[1], a.shape[2], b.shape[2]
  local c = k:output("c", "float32", {m, n})
  for i = 0, m - 1, 128 do
    local left = {}
    for d = 0, depth - 1, 128 do left[d] = k:load(a[{{d, 128}, {i, 128}}]) end
    for j = 0, n - 1, 512 do
      local sum
      for d = 0, depth - 1, 128 do
        sum = k:matmul(left[d], k:load(b[{{d, 128}, {j, 512}}]), {into = sum})
      end
      k:store(c[{{i, 128}, {j, 512}}], sum)
    end
  end
  return c
end

-- y = softmax(x) by rows, two blocks of 128 at a time: an engine works in the order written, and so
-- vector finds the second maximum while scalar is at the first exponentials.
function kernels.softmax(k, x)
  local y = k:output("y", "float32", x.shape)
  for r = 0, x.shape[1] - 1, 256 do
    local blocks = {[0] = k:load(x[{r, 128}]), k:load(x[{r + 128, 128}])}
    local tops = {[0] = k:max(blocks[0], {negate = true}), k:max(blocks[1], {negate = true})}
    for i = 0, 1 do
      local e, sum = k:exp(blocks[i], {bias = tops[i], sum = true})
      k:store(y[{r + i * 128, 128}], k:mul(e, k:reciprocal(sum)))
    end
  end
  return y
end

-- out[SQ, 128] = softmax(q^T keys / sqrt(128)) v, whole rows of scores at a time.
function kernels.attention(k, q, keys, v)
  local sq, s, scale = q.shape[2], keys.shape[2], 1 / math.sqrt(128)
  local out = k:output("out", "float32", {sq, 128})
  local all, queries = k:load(keys), k:load(q)
  local values = k:load(v:reshape {s // 128, 128, 128}:permute {2, 1, 3}) -- row 128 c + p to partition p
  for i = 0, sq - 1, 128 do
    local query = queries[{{}, {i, 128}}]
    local scores = k:tile("float32", {128, s}, {memory = "psum"})
    for j = 0, s - 1, 512 do k:matmul(query, all[{{}, {j, 512}}], {into = scores[{{}, {j, 512}}]}) end
    local top = k:mul(k:max(scores, {negate = true}), scale)
    local p, sum = k:exp(scores, {scale = scale, bias = top, sum = true, dtype = "bfloat16"})
    local part
    for j = 0, s - 1, 512 do -- four transposes, one copy
      local turned = k:tile("bfloat16", {128, 512}, {memory = "psum"})
      for at = 0, 511, 128 do k:transpose(p[{{}, {j + at, 128}}], {into = turned[{{}, {at, 128}}]}) end
      local back = k:copy(turned, {memory = "sbuf"})
      for at = 0, 511, 128 do part = k:matmul(back[{{}, {at, 128}}], values[{{}, (j + at) // 128, {}}], {into = part}) end
    end
    k:store(out[{i, 128}], k:mul(part, k:reciprocal(sum)))
  end
  return out
end

local function close(name, got, want, tolerance)
  local ok, report = soma.allclose(got, want, tolerance)
  if not ok then error(name .. ": " .. report, 0) end
end

-- Lines of code: neither blank nor comment alone.
local function lines_of(file, from, to)
  local n, inside = 0, from == nil
  for line in io.lines(file) do
    if from and line:find(from, 1, true) then inside = true end
    if inside and line:find "%S" and not line:find "^%s*;" and not line:find "^%s*%-%-" then n = n + 1 end
    if from and inside and line == to then break end
  end
  return n
end

local function compare(name, inputs, order, defines, want, tolerance)
  local kernel, values = soma.jit(kernels[name], {target = "trn2"}), {}
  for i, input in ipairs(order) do values[i] = inputs[input] end
  close(name, kernel(table.unpack(values)), want, tolerance)
  assert(#kernel:check(checks).findings == 0)
  local by_name = {}
  for input, x in pairs(inputs) do by_name[input == "keys" and "k" or input] = x end
  local written = soma.core {}:run(soma.assemble_file(here .. name .. ".s", {defines = defines}), by_name)
  local output = next(written.out)
  close(name .. ".s", written.out[output], want, tolerance)
  print(string.format("%-10s %6d %6d %10.2f %10.2f %8.2f", name, lines_of(here .. name .. ".s"),
    lines_of(here .. "kernels.lua", "function kernels." .. name .. "(", "end"), written.time_ns / 1000,
    kernel.run.time_ns / 1000, kernel.run.time_ns / written.time_ns))
end

local function softmax_of(scores)
  local e = soma.exp(scores - scores:max(1, true))
  return e, e:sum(1, true)
end

print("            lines           time us              builder")
print("               .s kernel         .s     kernel   to .s")
local a, b = soma.randn({1024, 512}, "bfloat16", {seed = 1}), soma.randn({1024, 1024}, "bfloat16", {seed = 2})
compare("matmul", {a = a, b = b}, {"a", "b"}, {M = 512, N = 1024, K = 1024}, soma.matmul(a:transpose(), b),
  {rtol = 1e-5, atol = 1e-3}) -- sums of 1024 products, rounded once each
local x = soma.randn({512, 2048}, "float32", {seed = 5})
local e, sum = softmax_of(x)
compare("softmax", {x = x}, {"x"}, {ROWS = 512, COLS = 2048}, e / sum, {rtol = 2e-6, atol = 1e-37})
local q, keys, v = soma.randn({128, 256}, "bfloat16", {seed = 1}), soma.randn({128, 1024}, "bfloat16", {seed = 2}),
  soma.randn({1024, 128}, "bfloat16", {seed = 3})
local p, total = softmax_of(soma.matmul(q:transpose(), keys) * (1 / math.sqrt(128)))
compare("attention", {q = q, keys = keys, v = v}, {"q", "keys", "v"}, {SQ = 256, S = 1024},
  soma.matmul(p:astype "bfloat16", v) / total, {rtol = 0, atol = 1e-4}) -- p is rounded for the product alone
