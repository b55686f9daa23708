-- A working set beyond SBUF: sixty tiles of 8 KiB a partition (480 KiB) are made, then added up in the
-- order that is worst for a cache. With spill = true those with the furthest next use wait in HBM.
--   build/soma samples/spill.lua
local soma = require "soma"
local TILES, COLS = 60, 2048

local function build(spill)
  local k = soma.kernel {target = "trn2", spill = spill}
  local x, y = k:input("x", "float32", {128, COLS}), k:output("y", "float32", {128, COLS})
  local first, tiles = k:load(x), {}
  for i = 1, TILES do tiles[i] = k:mul(first, i * 1.0) end
  local sum = tiles[1]
  for i = 2, TILES do sum = k:add(sum, tiles[i]) end
  k:store(y, sum)
  return k
end

local ok, message = pcall(function() build(false):program() end)
assert(not ok)
print("without spill it is refused:")
print("  " .. tostring(message):match "[^\n]*")

local k = build(true)
local x = soma.randn({128, COLS}, "float32", {seed = 1})
local run = soma.core {checks = "race,uninit,psum,overlap,port"}:run(k:program(), {x = x})
local want = x
for i = 2, TILES do want = want + x * i end
local same, report = soma.allclose(run.out.y, want, {rtol = 1e-5, atol = 1e-4})
if not same then error(report, 0) end
local f = k:figures()
assert(f.spills > 0)
print(string.format("with spill: %d transfers of %.1f MB in all, %.1f us, right, no finding", f.spills,
  f.spilled_bytes / 1e6, run.time_ns / 1000))
