-- What the checks note of whole rows instead of marking each byte (vm/check/known.c) finds the same: in a program with a
-- filler nothing is noted so. Random programs of one instruction after another, with and without one, of tiles that share
-- bytes, parts of rows, columns that are apart, and what nothing has written.
--   COUNT=1000 FIRST=1 build/soma tests/lua/test_check_facts.lua
local soma = require "soma"
local harness = require "harness"
local random = math.random

local COUNT <const>, FIRST <const> = tonumber(os.getenv "COUNT" or 40), tonumber(os.getenv "FIRST" or 1)
local SHAPES <const> = {{0, 128}, {0, 128}, {0, 128}, {0, 64}, {64, 64}, {32, 32}, {96, 32}} -- partitions
local COLUMNS <const> = {256, 256, 128, 64, 16, 8, 1, 5, 33}
local a = soma.randn({128, 512}, "float32", {seed = 1})

local function pick(list) return list[random(#list)] end

-- Four tiles of fp32 and two of bfloat16: apart, or in one place, each its own.
local function declarations(own)
  local lines, o = {"target trn2", "a tensor float32[128, 512], input", "h tensor float32[128, 512]",
    "c tensor float32[128, 512], output", "z tile sbuf float32[128, 8]", "q queue rings=16, dge=hwdge", "d sem"},
    own and ", overlay=g, own" or ""
  for i = 1, 4 do lines[#lines + 1] = ("t%d tile sbuf float32[128, 256]%s"):format(i, o) end
  for i = 1, 2 do lines[#lines + 1] = ("b%d tile sbuf bfloat16[128, 256]%s"):format(i, o) end
  lines[#lines + 1] = "p tile psum float32[128, 256]"
  return lines
end

-- n columns of some partitions; of all of a tile now and then without saying so.
local function view(name, shape, n)
  local step = n * 2 <= 256 and random(4) == 1 and 2 or 1
  local lo = random(0, 256 - (n - 1) * step - 1)
  if n == 256 and shape[2] == 128 and random(2) == 1 and #name == 2 then return name end
  return ("%s[%d:%d, %d:%d:%d]"):format(name, shape[1], shape[1] + shape[2], lo, lo + (n - 1) * step + 1, step)
end
local function tile(shape, n) return view(pick {"t1", "t2", "t3", "t4", "b1", "b2", "p"}, shape, n) end

-- A transfer for sync, or an instruction for vector. Neither waits for the other: what is read too early is found, too.
local function instruction(i)
  local shape, n = pick(SHAPES), pick(COLUMNS)
  local kind = random(6)
  if kind <= 2 then
    local mine, other = view(pick {"t1", "t2", "t3", "t4"}, shape, n), view(pick {"a", "h"}, shape, n)
    if kind == 2 then mine, other = view(pick {"h", "c"}, shape, n), mine end
    return "sync", (" dma_copy %s, %s, queue=q $d"):format(mine, other)
  end
  if kind == 3 then return "vector", (" memset %s, %d.0"):format(tile(shape, n), i) end
  if kind == 4 and n > 1 then
    return "vector", (" tensor_reduce %s, %s, op=max"):format(view("t1", shape, 1), tile(shape, n))
  end
  return "vector", (" tensor_copy %s, %s"):format(tile(shape, n), tile(shape, n))
end

-- Lines that the assembler refuses are left out.
local function assemble(lines)
  for _ = 1, 9 do
    local ok, p = pcall(soma.assemble, table.concat(lines, "\n") .. "\n", {name = "p.s"})
    if ok then return p end
    for n in tostring(p):gmatch "p%.s:(%d+):" do lines[tonumber(n)] = " nop" end
  end
end

local function program(seed, filler)
  math.randomseed(seed)
  local lines, code = declarations(random(2) == 1), {vector = {}, sync = {}}
  code.vector[1] = " memset z, 0.0" .. (filler and ", filler=true" or "")
  for i = 1, 8 + random(30) do
    local engine, text = instruction(i)
    code[engine][#code[engine] + 1] = text
  end
  for _, engine in ipairs {"vector", "sync"} do
    lines[#lines + 1] = "section " .. engine
    for _, line in ipairs(code[engine]) do lines[#lines + 1] = line end
    lines[#lines + 1] = " halt"
  end
  return assemble(lines)
end

harness.case("facts and marks find the same", function()
  local found = 0
  for seed = FIRST, FIRST + COUNT - 1 do
    local texts = {}
    for i, filler in ipairs {false, true} do
      local run = soma.core({checks = "uninit,overlap"}):run(program(seed, filler), {a = a}, {faults = "return"})
      texts[i] = {}
      for n, f in ipairs(run.findings) do texts[i][n] = f.text end
      found = found + #texts[i]
    end
    harness.eq(table.concat(texts[1], "\n"), table.concat(texts[2], "\n"), "program " .. seed)
  end
  harness.eq(found > 10 * COUNT, true, found .. " findings")
end)

harness.finish()
