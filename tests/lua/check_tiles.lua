-- Tensors, tiles, semaphores and queues in front of the programs of the tests of checks.
local soma = require "soma"

local DECLARED <const> = [[
        target TARGET
a       tensor float32[128, 512], input
c       tensor float32[128, 512], output
ta      tile   sbuf float32[128, 512]
tb      tile   sbuf float32[128, 512]
tc      tile   sbuf float32[128, 512]
w       tile   sbuf bfloat16[128, 128]
x       tile   sbuf bfloat16[128, 512]
pa      tile   psum float32[128, 512]
pb      tile   psum float32[128, 512]
loaded  sem
done    sem
ack     sem
go      sem
q       queue  rings=16, dge=DGE
qs      queue  rings=16, dge=swdge
]]

local tiles = {inputs = {a = soma.randn({128, 512}, "float32", {seed = 1})}}

-- Declarations for a target: TARGET is its name, DGE the best way it has to make descriptors.
function tiles.declare(text, target)
  target = target or "trn2"
  return (text:gsub("TARGET", target):gsub("DGE", target == "trn1" and "swdge" or "hwdge"))
end

-- The source of a program: the declarations without those of the names in `without`, then `body`.
function tiles.source(body, target, without)
  local text = tiles.declare(DECLARED, target)
  for name in (without or ""):gmatch "%S+" do text = text:gsub("\n" .. name .. " [^\n]*", "", 1) end
  return text .. body
end

-- That source, assembled under the name p.s.
function tiles.assemble(...) return soma.assemble(tiles.source(...), {name = "p.s"}) end

return tiles
