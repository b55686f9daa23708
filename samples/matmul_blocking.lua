-- c = a^T b in bfloat16 with fp32 sums, blocked as in the four steps of the matmul tutorial of NKI:
-- what each step saves in HBM traffic and gains in use of the tensor engine. The programs are made
-- here: every loop is written out, so that each wait is a number.
--   build/soma samples/matmul_blocking.lua [FOLDER for the picture]
local soma = require "soma"

local PEAK = 2 * 128 * 128 * 2.4e9 -- flop/s of trn2's tensor engine: a row of 128 x 128 a cycle

-- The text of a program: lines by section, declarations first.
local function writer()
  local w = {parts = {}, order = {"head", "sync", "tensor", "vector", "scalar"}}
  for _, s in ipairs(w.order) do w.parts[s] = {} end
  function w.emit(section, fmt, ...) table.insert(w.parts[section], (select("#", ...) > 0 and fmt:format(...) or fmt)) end
  function w.text()
    local all = {}
    for _, s in ipairs(w.order) do
      if s ~= "head" then all[#all + 1] = "section " .. s end
      all[#all + 1] = table.concat(w.parts[s], "\n")
      if s ~= "head" then all[#all + 1] = " halt" end
    end
    return table.concat(all, "\n") .. "\n"
  end
  return w
end

-- Two or more buffers in SBUF, filled in turn by sync. pool.fill(sources) loads {slice, source}
-- pairs and gives the tile's name and the wait that says it is full; the wait for its last user
-- comes first. Its last user, or someone who knows that it is done, does `$NAMEfreeI++`.
local function pool(w, name, depth, shape)
  local uses = 0
  for i = 0, depth - 1 do
    w.emit("head", "%s%d tile sbuf bfloat16%s\n%sfull%d sem\n%sfree%d sem", name, i, shape, name, i, name, i)
  end
  return {fill = function(loads)
    local i, use = uses % depth, uses // depth
    uses = uses + 1
    for k, l in ipairs(loads) do
      local wait = k == 1 and string.format("$%sfree%d>=%d", name, i, use) or ""
      w.emit("sync", " dma_copy %s%d%s, %s, queue=ql %s $%sfull%d", name, i, l[1], l[2], wait, name, i)
    end
    return {tile = name .. i, full = string.format("$%sfull%d>=%d", name, i, 16 * #loads * (use + 1)),
      free = string.format("$%sfree%d++", name, i)}
  end}
end

-- Sums in PSUM, four banks in turn. sums.add(products, evict): products are {stationary, moving,
-- waits, free}, the last one's `free` being done by vector; evict(sum, wait, update) writes the
-- vector instructions that take the sum away.
local function sums(w)
  local uses = 0
  for i = 0, 3 do
    w.emit("head", "s%d tile psum float32[128, 512]\nsummed%d sem\ncopied%d sem", i, i, i)
  end
  return {add = function(products, evict)
    local i, use = uses % 4, uses // 4
    uses = uses + 1
    w.emit("tensor", " nop $copied%d>=%d", i, use)
    for k, p in ipairs(products) do
      for _, wait in ipairs(p.waits) do w.emit("tensor", " nop %s", wait) end
      w.emit("tensor", " ldweights %s", p[1])
      w.emit("tensor", " matmul s%d, %s, acc=%s %s", i, p[2], k == 1 and "write" or "add",
        k == #products and "$summed" .. i .. "++" or p.free or "")
    end
    evict("s" .. i, string.format("$summed%d>=%d", i, use + 1), string.format("$copied%d++", i))
    return string.format("$copied%d>=%d", i, use + 1)
  end}
end

-- Copies a sum to c[m, n] through two tiles of SBUF.
local function store_tiles(w)
  local uses = 0
  for i = 0, 1 do w.emit("head", "o%d tile sbuf bfloat16[128, 512]\nstored%d sem", i, i) end
  return function(m, n)
    local i, use = uses % 2, uses // 2
    uses = uses + 1
    return function(sum, wait, update)
      w.emit("vector", " nop $stored%d>=%d\n tensor_copy o%d, %s %s %s", i, 16 * use, i, sum, wait, update)
    end, function(copied)
      w.emit("scalar", " dma_copy c[%d:%d, %d:%d], o%d, queue=qs %s $stored%d", m, m + 128, n, n + 512, i, copied, i)
    end
  end
end

local function slice(name, k, at, width) return string.format("%s[%d:%d, %d:%d]", name, k, k + 128, at, at + width) end

-- 1. Every product loads both of its tiles.
local function tiled(w, p)
  local pairs_, s, store = pool(w, "t", 8, "[128, 640]"), sums(w), store_tiles(w)
  for m = 0, p.M - 1, 128 do
    for n = 0, p.N - 1, 512 do
      local products, last = {}, nil
      for k = 0, p.K - 1, 128 do
        last = pairs_.fill {{"[:, 0:128]", slice("a", k, m, 128)}, {"[:, 128:640]", slice("b", k, n, 512)}}
        products[#products + 1] = {last.tile .. "[:, 0:128]", last.tile .. "[:, 128:640]", waits = {last.full}, free = last.free}
      end
      local evict, out = store(m, n)
      out(s.add(products, function(sum, wait, update)
        evict(sum, wait, update)
        w.emit("vector", " event_semaphore %s", last.free)
      end))
    end
  end
end

-- Loads of K x (tiles of `width`), side by side in one buffer, and where such a tile is in it.
local function columns(name, k0, k1, at, tiles, width, wide)
  local list, n = {}, 0
  for k = k0, k1 - 1, 128 do
    for t = 0, tiles - 1, wide and tiles or 1 do
      local w = wide and tiles * width or width
      list[#list + 1] = {string.format("[:, %d:%d]", n, n + w), slice(name, k, at + t * width, w)}
      n = n + w
    end
  end
  return list
end
local function tile_at(buffer, k, t, tiles, width)
  local at = (k * tiles + t) * width
  return string.format("%s[:, %d:%d]", buffer.tile, at, at + width)
end

-- 2 and 3. Blocks of bm x bn tiles of c with all of K: a block of a is loaded once, one of b once a
-- block of a. With 1 x 1 the loads are only hoisted out of the loops.
local function blocked_free(w, p, bm, bn)
  local KT = p.K // 128
  local pa = pool(w, "a_", 2, string.format("[128, %d]", KT * bm * 128))
  local pb = pool(w, "b_", 2, string.format("[128, %d]", KT * bn * 512))
  local s, store = sums(w), store_tiles(w)
  for m = 0, p.M - 1, bm * 128 do
    local a = pa.fill(columns("a", 0, p.K, m, bm, 128))
    for n = 0, p.N - 1, bn * 512 do
      local b = pb.fill(columns("b", 0, p.K, n, bn, 512))
      for i = 0, bm * bn - 1 do
        local mt, nt, products = i // bn, i % bn, {}
        for k = 0, KT - 1 do
          products[k + 1] = {tile_at(a, k, mt, bm, 128), tile_at(b, k, nt, bn, 512), waits = k == 0 and {a.full, b.full} or {}}
        end
        local evict, out = store(m + mt * 128, n + nt * 512)
        out(s.add(products, function(sum, wait, update)
          evict(sum, wait, update)
          if i == bm * bn - 1 then w.emit("vector", " event_semaphore %s", b.free) end
          if i == bm * bn - 1 and n + bn * 512 == p.N then w.emit("vector", " event_semaphore %s", a.free) end
        end))
      end
    end
  end
end

-- 4. Blocks of K too: a column of c of all M stays in SBUF while the blocks of K are added to it.
local function blocked_all(w, p, bm, bn, bk)
  local pa = pool(w, "a_", 2, string.format("[128, %d]", bk * bm * 128))
  local pb = pool(w, "b_", 2, string.format("[128, %d]", bk * bn * 512))
  local s = sums(w)
  for m = 0, p.M // 128 - 1 do w.emit("head", "row%d tile sbuf bfloat16[128, %d]\nout%d sem", m, bn * 512, m) end
  for n = 0, p.N - 1, bn * 512 do
    for k = 0, p.K - 1, bk * 128 do
      local b = pb.fill(columns("b", k, k + bk * 128, n, bn, 512, true))
      for m = 0, p.M - 1, bm * 128 do
        local a = pa.fill(columns("a", k, k + bk * 128, m, bm, 128, true))
        for i = 0, bm * bn - 1 do
          local nt, mt, products = i // bm, i % bm, {}
          for j = 0, bk - 1 do
            products[j + 1] = {tile_at(a, j, mt, bm, 128), tile_at(b, j, nt, bn, 512), waits = j == 0 and {a.full, b.full} or {}}
          end
          local row = m // 128 + mt
          local copied = s.add(products, function(sum, wait, update)
            local r = string.format("row%d[:, %d:%d]", row, nt * 512, nt * 512 + 512)
            if k == 0 then
              w.emit("vector", " nop $out%d>=%d\n tensor_copy %s, %s %s %s", row, n // (bn * 512) * 16, r, sum, wait, update)
            else
              w.emit("vector", " tensor_tensor %s, %s, %s, op=add %s %s", r, r, sum, wait, update)
            end
            if i == bm * bn - 1 then w.emit("vector", " event_semaphore %s", a.free) end
            if i == bm * bn - 1 and m + bm * 128 == p.M then w.emit("vector", " event_semaphore %s", b.free) end
          end)
          if nt == bn - 1 and k + bk * 128 == p.K then
            w.emit("scalar", " dma_copy c[%d:%d, %d:%d], row%d, queue=qs %s $out%d", row * 128, row * 128 + 128, n,
              n + bn * 512, row, copied, row)
          end
        end
      end
    end
  end
end

-- Tiles of a block of M, N and K in the two blocked versions.
local big = {M = 4096, N = 4096, K = 4096, free = {2, 2}, all = {16, 2, 8}}
local small = {M = 512, N = 2048, K = 256, free = {2, 2}, all = {2, 2, 1}}

local versions = {
  tiled = tiled,
  hoisted = function(w, p) blocked_free(w, p, 1, 1) end,
  ["free blocked"] = function(w, p) blocked_free(w, p, p.free[1], p.free[2]) end,
  ["all blocked"] = function(w, p) blocked_all(w, p, p.all[1], p.all[2], p.all[3]) end,
}

-- Elements that cross between HBM and SBUF, from the loops alone.
local function traffic(version, p)
  local a, b, c = p.M * p.K, p.K * p.N, p.M * p.N
  if version == "tiled" then a, b = a * (p.N // 512), b * (p.M // 128)
  elseif version == "hoisted" then b = b * (p.M // 128)
  elseif version == "free blocked" then b = b * (p.M // (128 * p.free[1]))
  else a = a * (p.N // (512 * p.all[2])) end
  return 2 * (a + b + c)
end

local function assemble(version, p, role_in, role_out)
  local w = writer()
  w.emit("head", " target trn2\na tensor bfloat16[%d, %d], %s\nb tensor bfloat16[%d, %d], %s\nc tensor bfloat16[%d, %d], %s",
    p.K, p.M, role_in, p.K, p.N, role_in, p.M, p.N, role_out)
  w.emit("head", "ql queue dge=none\nqs queue dge=none")
  versions[version](w, p)
  return soma.assemble(w.text(), {name = version})
end

-- Sums of 256 products of -1, 0 and 1 are exact in every order and in bfloat16: results must be equal.
local function signs(shape, seed)
  return soma.uniform(shape, "int32", {seed = seed, low = -1, high = 2})
end
local a, b = signs({small.K, small.M}, 1), signs({small.K, small.N}, 2)
local want = soma.matmul(a:transpose():astype "float32", b:astype "float32"):astype "bfloat16"
a, b = a:astype "bfloat16", b:astype "bfloat16"

local result = soma.sweep {
  over = {{"version", "tiled", "hoisted", "free blocked", "all blocked"}},
  run = function(v)
    -- Results on a small problem.
    local run = soma.core {}:run(assemble(v.version, small, "input", "output"), {a = a, b = b})
    assert(soma.equal(run.out.c, want))
    assert(run.stats.dma_bytes == traffic(v.version, small))
    -- Time on a large one.
    run = soma.core {timing_only = true}:run(assemble(v.version, big, "temp", "temp"))
    local flops = 2.0 * big.M * big.N * big.K
    assert(run.stats.dma_bytes == traffic(v.version, big))
    return {
      time_us = run.time_ns / 1000, mfu = 100 * flops / (run.time_ns * 1e-9 * PEAK), HBM_MB = run.stats.dma_bytes / 1e6,
      flops_per_byte = flops / run.stats.dma_bytes, dma_busy = 100 * run.stats.dma_busy_ns / 16 / run.time_ns,
    }
  end,
  columns = {"version", "time_us", "mfu", "HBM_MB", "flops_per_byte", "dma_busy"},
}:check()

print(string.format("bfloat16 %d x %d x %d on trn2, mfu and dma_busy in percent", big.M, big.N, big.K))
print(result)
local rows = result.rows
for i = 2, 4 do assert(rows[i].time_us < rows[i - 1].time_us, rows[i].version .. " is not faster") end
assert(rows[4].mfu > 80 and rows[4].mfu <= 100)

if arg and arg[1] then
  assert(result:plot {
    x = "version", y = "mfu", file = arg[1] .. "/matmul_blocking.svg", xlabel = "version of the tutorial",
    title = "Matmul 4096 x 4096 x 4096 in bfloat16: use of the tensor engine", ylabel = "percent of peak flops",
  })
end
