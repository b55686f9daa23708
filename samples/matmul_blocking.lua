-- c = a^T b in bfloat16 with fp32 sums, blocked as in the four steps of NKI's matmul tutorial: what
-- each step saves in HBM traffic, and gains in use of the tensor engine. The programs are made
-- here, with every loop written out, so that each wait is for a number.
--   build/soma samples/matmul_blocking.lua [FOLDER for the picture]
local soma = require "soma"

local PEAK = 2 * 128 * 128 * 2.4e9 -- flop/s of trn2's tensor engine: 128 x 128 a cycle

-- ---- Parts of a program -----------------------------------------------------------------------

-- Lines by section; `head` is for declarations.
local function writer()
  local parts = {head = {}, sync = {}, tensor = {}, vector = {}, scalar = {}}
  local w = {}
  function w.emit(section, fmt, ...) table.insert(parts[section], string.format(fmt, ...)) end
  function w.text()
    local all = {table.concat(parts.head, "\n")}
    for _, s in ipairs {"sync", "tensor", "vector", "scalar"} do
      all[#all + 1] = "section " .. s .. "\n" .. table.concat(parts[s], "\n") .. "\n halt"
    end
    return table.concat(all, "\n") .. "\n"
  end
  return w
end

-- A buffer in SBUF of two or more tiles that sync fills in turn. fill{{slice, source}, ...} loads a
-- tile, once it is free, and gives its name, the wait that says it is full, and the update that its
-- last user makes.
local function buffer(w, name, depth, columns)
  local uses = 0
  for i = 0, depth - 1 do
    w.emit("head", "%s%d tile sbuf bfloat16[128, %d]", name, i, columns)
    w.emit("head", "%sfull%d sem\n%sfree%d sem", name, i, name, i)
  end
  return function(loads)
    local i, use = uses % depth, uses // depth
    uses = uses + 1
    for k, l in ipairs(loads) do
      local wait = k == 1 and string.format("$%sfree%d>=%d", name, i, use) or ""
      w.emit("sync", " dma_copy %s%d%s, %s, queue=qin %s $%sfull%d", name, i, l[1], l[2], wait,
        name, i)
    end
    return {
      tile = name .. i,
      full = string.format("$%sfull%d>=%d", name, i, 16 * #loads * (use + 1)),
      free = string.format("$%sfree%d++", name, i),
    }
  end
end

-- Sums in PSUM, four banks in turn. A sum is a list of products {stationary, moving, waits, free};
-- the last product's `free` is for vector to do. evict(sum, wait, update) writes the instructions
-- by which vector takes the sum away. Gives the wait that says it has been taken.
local function summing(w)
  local uses = 0
  for i = 0, 3 do
    w.emit("head", "sum%d tile psum float32[128, 512]\nsummed%d sem\ntaken%d sem", i, i, i)
  end
  return function(products, evict)
    local i, use = uses % 4, uses // 4
    uses = uses + 1
    w.emit("tensor", " nop $taken%d>=%d", i, use)
    for k, p in ipairs(products) do
      for _, wait in ipairs(p.waits or {}) do w.emit("tensor", " nop %s", wait) end
      w.emit("tensor", " ldweights %s", p[1])
      w.emit("tensor", " matmul sum%d, %s, acc=%s %s", i, p[2], k == 1 and "write" or "add",
        k == #products and "$summed" .. i .. "++" or p.free or "")
    end
    evict("sum" .. i, string.format("$summed%d>=%d", i, use + 1), string.format("$taken%d++", i))
    return string.format("$taken%d>=%d", i, use + 1)
  end
end

-- Sums to c through two tiles: store(m, n, products, done) adds the products up and stores the sum
-- at c[m, n]; `done` are updates that vector makes when the sum is complete.
local function storing(w)
  local uses, sum_of = 0, summing(w)
  for i = 0, 1 do w.emit("head", "out%d tile sbuf bfloat16[128, 512]\nstored%d sem", i, i) end
  return function(m, n, products, done)
    local i, use = uses % 2, uses // 2
    uses = uses + 1
    local taken = sum_of(products, function(sum, wait, update)
      w.emit("vector", " nop $stored%d>=%d", i, 16 * use)
      w.emit("vector", " tensor_copy out%d, %s %s %s", i, sum, wait, update)
      for _, d in ipairs(done) do w.emit("vector", " event_semaphore %s", d) end
    end)
    w.emit("scalar", " dma_copy c[%d:%d, %d:%d], out%d, queue=qout %s $stored%d", m, m + 128, n,
      n + 512, i, taken, i)
  end
end

local function source(name, k, at, width)
  return string.format("%s[%d:%d, %d:%d]", name, k, k + 128, at, at + width)
end

-- The loads of rows k0 to k1 and `width` columns of a tensor, 128 rows beside 128 rows in the
-- buffer, in transfers of `part` columns.
local function block_of(name, k0, k1, at, width, part)
  local loads, to = {}, 0
  for k = k0, k1 - 1, 128 do
    for x = at, at + width - 1, part do
      loads[#loads + 1] = {string.format("[:, %d:%d]", to, to + part), source(name, k, x, part)}
      to = to + part
    end
  end
  return loads
end

-- The products of tile m of a block of a, and tile n of one of b, over kt tiles of K.
local function products_of(a, b, m, n, kt, bm, bn)
  local list = {}
  for k = 0, kt - 1 do
    local x, y = (k * bm + m) * 128, (k * bn + n) * 512
    list[k + 1] = {
      string.format("%s[:, %d:%d]", a.tile, x, x + 128),
      string.format("%s[:, %d:%d]", b.tile, y, y + 512),
      waits = k == 0 and {a.full, b.full} or nil,
    }
  end
  return list
end

-- ---- The four versions --------------------------------------------------------------------------

-- 1. Every product loads both of its tiles, a's 128 columns and b's 512, into one of eight buffers.
local function tiled(w, p)
  local fill, store = buffer(w, "t", 8, 640), storing(w)
  for m = 0, p.M - 1, 128 do
    for n = 0, p.N - 1, 512 do
      local products, t = {}, nil
      for k = 0, p.K - 1, 128 do
        t = fill {{"[:, 0:128]", source("a", k, m, 128)}, {"[:, 128:640]", source("b", k, n, 512)}}
        table.insert(products,
          {t.tile .. "[:, 0:128]", t.tile .. "[:, 128:640]", waits = {t.full}, free = t.free})
      end
      store(m, n, products, {t.free})
    end
  end
end

-- 2 and 3. Blocks of bm x bn tiles of c with all of K: a block of a is loaded once, one of b once a
-- block of a. With 1 x 1 the loads are only hoisted out of the innermost loop.
local function blocked_free(w, p, bm, bn)
  local KT = p.K // 128
  local fill_a, fill_b = buffer(w, "a_", 2, KT * bm * 128), buffer(w, "b_", 2, KT * bn * 512)
  local store = storing(w)
  for m = 0, p.M - 1, bm * 128 do
    local a = fill_a(block_of("a", 0, p.K, m, bm * 128, 128))
    for n = 0, p.N - 1, bn * 512 do
      local b = fill_b(block_of("b", 0, p.K, n, bn * 512, 512))
      for i = 0, bm * bn - 1 do
        local mt, nt, done = i // bn, i % bn, {}
        if i == bm * bn - 1 then
          done[1] = b.free
          if n + bn * 512 == p.N then done[2] = a.free end
        end
        store(m + mt * 128, n + nt * 512, products_of(a, b, mt, nt, KT, bm, bn), done)
      end
    end
  end
end

-- 4. Blocks of K too: columns of c with all of M stay in SBUF while the blocks of K are added up.
local function blocked_all(w, p, bm, bn, bk)
  local fill_a, fill_b = buffer(w, "a_", 2, bk * bm * 128), buffer(w, "b_", 2, bk * bn * 512)
  local sum_of = summing(w)
  for row = 0, p.M // 128 - 1 do
    w.emit("head", "row%d tile sbuf bfloat16[128, %d]\nstored%d sem", row, bn * 512, row)
  end

  -- Vector's part: the first block of K is copied to its row, the others are added to it.
  local function add_to(row, n, nt, first)
    return function(sum, wait, update)
      local to = string.format("row%d[:, %d:%d]", row, nt * 512, nt * 512 + 512)
      if first then
        w.emit("vector", " nop $stored%d>=%d", row, n // (bn * 512) * 16)
        w.emit("vector", " tensor_copy %s, %s %s %s", to, sum, wait, update)
      else
        w.emit("vector", " tensor_tensor %s, %s, %s, op=add %s %s", to, to, sum, wait, update)
      end
    end
  end

  local function multiply(a, b, m, n, first, last)
    for i = 0, bm * bn - 1 do
      local nt, row = i // bm, m // 128 + i % bm
      local products = products_of(a, b, i % bm, nt, bk, bm, bn)
      local taken = sum_of(products, add_to(row, n, nt, first))
      if last and nt == bn - 1 then
        w.emit("scalar", " dma_copy c[%d:%d, %d:%d], row%d, queue=qout %s $stored%d", row * 128,
          row * 128 + 128, n, n + bn * 512, row, taken, row)
      end
    end
  end

  for n = 0, p.N - 1, bn * 512 do
    for k = 0, p.K - 1, bk * 128 do
      local k1 = k + bk * 128
      local b = fill_b(block_of("b", k, k1, n, bn * 512, bn * 512))
      for m = 0, p.M - 1, bm * 128 do
        local a = fill_a(block_of("a", k, k1, m, bm * 128, bm * 128))
        multiply(a, b, m, n, k == 0, k1 == p.K)
        w.emit("vector", " event_semaphore %s", a.free) -- after the last sum of the block
      end
      w.emit("vector", " event_semaphore %s", b.free)
    end
  end
end

-- ---- The sweep ----------------------------------------------------------------------------------

-- Tiles of a block of M, N and K: `free` of version 3, `all` of version 4.
local big = {M = 4096, N = 4096, K = 4096, free = {2, 2}, all = {16, 2, 8}}
local small = {M = 512, N = 2048, K = 256, free = {2, 2}, all = {2, 2, 1}}

local versions = {
  tiled = tiled,
  hoisted = function(w, p) blocked_free(w, p, 1, 1) end,
  ["free blocked"] = function(w, p) blocked_free(w, p, table.unpack(p.free)) end,
  ["all blocked"] = function(w, p) blocked_all(w, p, table.unpack(p.all)) end,
}

local function program(version, p, role_in, role_out)
  local w = writer()
  w.emit("head", " target trn2")
  w.emit("head", "a tensor bfloat16[%d, %d], %s", p.K, p.M, role_in)
  w.emit("head", "b tensor bfloat16[%d, %d], %s", p.K, p.N, role_in)
  w.emit("head", "c tensor bfloat16[%d, %d], %s", p.M, p.N, role_out)
  w.emit("head", "qin queue dge=none\nqout queue dge=none")
  versions[version](w, p)
  return soma.assemble(w.text(), {name = version})
end

-- Bytes that cross between HBM and SBUF, from the order of the loops alone.
local function traffic(version, p)
  local a, b, c = p.M * p.K, p.K * p.N, p.M * p.N
  if version == "tiled" then a, b = a * (p.N // 512), b * (p.M // 128)
  elseif version == "hoisted" then b = b * (p.M // 128)
  elseif version == "free blocked" then b = b * (p.M // (128 * p.free[1]))
  else a = a * (p.N // (512 * p.all[2])) end
  return 2 * (a + b + c)
end

-- Sums of 256 products of -1, 0 and 1 are exact in any order, and in bfloat16: results are
-- equal.
local function signs(shape, seed)
  return soma.uniform(shape, "int32", {seed = seed, low = -1, high = 2})
end
local a, b = signs({small.K, small.M}, 1), signs({small.K, small.N}, 2)
local want = soma.matmul(a:transpose(), b):astype "bfloat16"
a, b = a:astype "bfloat16", b:astype "bfloat16"

local function measure(v)
  local run = soma.core {}:run(program(v.version, small, "input", "output"), {a = a, b = b})
  assert(soma.equal(run.out.c, want))
  assert(run.stats.dma_bytes == traffic(v.version, small))
  run = soma.core {timing_only = true}:run(program(v.version, big, "temp", "temp"))
  local s, flops = run.stats, 2.0 * big.M * big.N * big.K
  assert(s.dma_bytes == traffic(v.version, big))
  return {
    time_us = run.time_ns / 1000, mfu = 100 * flops / (run.time_ns * 1e-9 * PEAK),
    HBM_MB = s.dma_bytes / 1e6, flops_per_byte = flops / s.dma_bytes,
    dma_busy = 100 * s.dma_busy_ns / 16 / run.time_ns,
  }
end

local result = soma.sweep {
  over = {{"version", "tiled", "hoisted", "free blocked", "all blocked"}},
  run = measure,
  columns = {"version", "time_us", "mfu", "HBM_MB", "flops_per_byte", "dma_busy"},
}:check()

print(string.format("bfloat16 %d x %d x %d on trn2; mfu and dma_busy in percent", big.M, big.N,
  big.K))
print(result)
local rows = result.rows
for i = 2, 4 do
  assert(rows[i].time_us < rows[i - 1].time_us, rows[i].version .. " is not faster")
end
assert(rows[4].mfu > 80 and rows[4].mfu <= 100)

if arg and arg[1] then
  assert(result:plot {
    x = "version", y = "mfu", file = arg[1] .. "/matmul_blocking.svg",
    title = "Matmul 4096 x 4096 x 4096 in bfloat16: use of the tensor engine",
    xlabel = "version of the tutorial", ylabel = "percent of peak flops",
  })
end
