-- The programs of tests/findings/*.txt, whose form tests/findings.lua describes.
local soma = require "soma"
local harness = require "harness"
local tiles = require "check_tiles"
local M = {}

local MORE <const> = [[
b       tensor float32[128, 512], input
h       tensor float32[128, 512]
h2      tensor float32[128, 512]
free    sem
q2      queue  rings=16, dge=DGE
]]
local ENGINES <const> = {tensor = true, vector = true, scalar = true, gpsimd = true, sync = true}

-- The names of the files.
function M.files()
  local p, list = assert(io.popen "ls tests/findings/*.txt"), {}
  for path in p:lines() do list[#list + 1] = path end
  p:close()
  return list
end

-- A file as text in front and programs {kind, name, options, lines = {}, found = {}}.
function M.parse(path)
  local front, programs = {}, {}
  for line in harness.read(path):gmatch "([^\n]*)\n" do
    local kind, name = line:match "^(wrong): (.*)$"
    if not kind then kind, name = line:match "^(right): (.*)$" end
    local last = programs[#programs]
    if kind then
      programs[#programs + 1] = {kind = kind, name = name:gsub(" %[[^]]*%]$", ""),
        options = name:match " %[([^]]*)%]$" or "", lines = {}, found = {}}
    elseif not last then
      front[#front + 1] = line
    elseif line:find "^>" then
      last.found[#last.found + 1] = line:sub(3)
    elseif line ~= "" then
      last.lines[#last.lines + 1] = line:gsub("^    ", "")
    end
  end
  return front, programs
end

function M.assemble(p)
  local target = p.options:match "trn%d" or "trn2"
  local out = {tiles.source(tiles.declare(MORE, target), target), '%line 1 "line"'}
  local open = false
  for n, line in ipairs(p.lines) do
    local core, engine, rest = line:match "^(core [%d*]) (%l+): *(.*)"
    if not core then engine, rest = line:match "^(%l+): *(.*)" end
    if engine and ENGINES[engine] then
      if open then out[#out + 1] = " halt" end
      out[#out + 1] = "section " .. engine .. (core and " " .. core:gsub(" ", "=") or "")
      out[#out + 1] = string.format('%%line %d "line"', n)
      open, line = true, rest
    end
    out[#out + 1] = (open and line:find "^[^.%%]" and " " or "") .. line
  end
  out[#out + 1] = " halt\n"
  return soma.assemble(table.concat(out, "\n"), {name = "line"})
end

M.inputs = {
  a = soma.randn({128, 512}, "float32", {seed = 1}),
  b = soma.randn({128, 512}, "float32", {seed = 2}),
}

return M
