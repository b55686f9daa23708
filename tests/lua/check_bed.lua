-- Programs for the checks in few lines: "ENGINE: instruction; instruction ..." opens a section, which
-- ends with a halt; lines in front of the first are declarations.
local soma = require "soma"
local tiles = require "check_tiles"

-- What these programs have beside the declarations of check_tiles.
local MORE <const> = [[
b       tensor float32[128, 512], input
h       tensor float32[128, 512]
h2      tensor float32[128, 512]
free    sem
q2      queue  rings=16, dge=DGE
]]
local inputs = {
  a = tiles.inputs.a,
  b = soma.randn({128, 512}, "float32", {seed = 2}),
}
local engines = {tensor = true, vector = true, scalar = true, gpsimd = true, sync = true}

local function source(body)
  local lines, open = {}, false
  for line in body:gsub(";%s*", "\n"):gmatch "[^\n]+" do
    local engine, rest = line:match "^(%l+): *(.*)"
    if engine and engines[engine] then
      if open then lines[#lines + 1] = " halt" end
      lines[#lines + 1] = "section " .. engine
      open, line = true, rest
    end
    lines[#lines + 1] = line:find "^%." and line or open and " " .. line or line
  end
  lines[#lines + 1] = " halt\n"
  return table.concat(lines, "\n")
end

local bed = {}

-- The program of a body, with the inputs it has.
function bed.assemble(body, target)
  return tiles.assemble(tiles.declare(MORE, target) .. source(body), target), inputs
end

return bed
