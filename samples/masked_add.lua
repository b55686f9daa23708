-- x + y of 1000 elements in blocks of 256, the way a GPU kernel is written: a program for each block,
-- and the last one has a tail. Here a block of a view is cropped, so no mask is needed.
--   build/soma samples/masked_add.lua
local soma = require "soma"
local N, BLOCK = 1000, 256

local kernel = soma.spmd({(N + BLOCK - 1) // BLOCK}, function(k, i)
  local x, y = k:input("x", "float32", {N}), k:input("y", "float32", {N})
  local out = k:output("out", "float32", {N})
  k:store(out:block(i, BLOCK), k:add(k:load(x:block(i, BLOCK)), k:load(y:block(i, BLOCK))))
end, {target = "trn2"})

local x, y = soma.randn({N}, "float32", {seed = 1}), soma.randn({N}, "float32", {seed = 2})
local run = soma.core {checks = "race,uninit,psum,overlap,port"}:run(kernel:program(), {x = x, y = y})
assert(soma.equal(run.out.out, x + y))
print(string.format("%d elements in blocks of %d: equal to the bit, %.2f us, %d instructions", N, BLOCK,
  run.time_ns / 1000, run.stats.instructions))
