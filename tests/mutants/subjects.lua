-- What is mutated: every sample in assembly, in sizes that keep a run short, and every kernel of
-- the conformance suite on each of its targets.
local soma = require "soma"
local program = require "conform.program"

local root = package.searchpath("mutants.subjects", package.path):gsub("tests/mutants/subjects.lua$", "")

local function normal(shape, seed) return soma.randn(shape, "float32", {seed = seed}) end

local samples = {
  {"vector_add_naive", "", {}, {a = {128, 1}, b = {128, 1}}},
  {"vector_add_tiled", "", {}, {a = {512, 2048}, b = {512, 2048}}},
  {"vector_add", " one", {FREE_DIM = 32, N = 4096}, {a = {4096}, b = {4096}}},
  {"vector_add", " six", {FREE_DIM = 32, N = 24576}, {a = {24576}, b = {24576}}},
  {"free_dim", "", {FREE_DIM = 16, N = 12288}, {a = {768, 16}, b = {768, 16}}},
  {"buffering", " one", {BUFS = 1, COLS = 32, CHUNKS = 3}, {x = {384, 32}}},
  {"buffering", " two", {BUFS = 2, COLS = 32, CHUNKS = 5}, {x = {640, 32}}},
  {"softmax", "", {ROWS = 768, COLS = 32}, {x = {768, 32}}},
  {"matmul", "", {M = 256, N = 1024, K = 256}, {a = {256, 256}, b = {256, 1024}}, "bfloat16"},
  {"transpose", " tensor", {WAY = "tensor", SIZE = 32, COUNT = 2, TYPE = "float32"}, {x = {32, 64}}},
  {"transpose", " vector", {WAY = "vector", SIZE = 64, COUNT = 1, TYPE = "float32"}, {x = {64, 64}}},
  {"transpose", " dma", {WAY = "dma", SIZE = 32, COUNT = 2}, {x = {32, 64}}, "bfloat16"},
  {"dma_load", "", {TARGET = "trn2", P = 128, COLS = 16, TYPE = "float32", DGE = "swdge"}, {x = {128, 16}}},
}

local function sample(s)
  local name, variant, defines, shapes, dtype = table.unpack(s, 1, 5)
  local prog = soma.assemble_file(root .. "samples/" .. name .. ".s", {defines = defines})
  local inputs = {}
  for k, shape in pairs(shapes) do
    inputs[k] = normal(shape, k:byte())
    if dtype then inputs[k] = inputs[k]:astype(dtype) end
  end
  return {name = "samples/" .. name .. variant, text = prog:source(), inputs = inputs}
end

-- The programs that samples/matmul_blocking.lua writes, of two tiles each way.
local function blockings(list)
  local f = assert(io.open(root .. "samples/matmul_blocking.lua"))
  local text, n = f:read "a":gsub("local small = {M = 512, N = 2048,", "local small = {M = 256, N = 1024,")
  f:close()
  assert(n == 1, "the size of the sample")
  local sources, stub = {}, {}
  function stub.assemble(source, options) sources[options.name] = source; error "taken" end
  function stub.sweep(o)
    for i = 2, #o.over[1] do pcall(o.run, {version = o.over[1][i]}) end
    error "taken"
  end
  setmetatable(stub, {__index = soma})
  pcall(assert(load(text, "=matmul_blocking", "t",
    setmetatable({require = function() return stub end, arg = false}, {__index = _G}))))
  for _, version in ipairs {"tiled", "hoisted", "free blocked", "all blocked"} do
    list[#list + 1] = {name = "samples/matmul_blocking " .. version, slow = true,
      text = soma.assemble(assert(sources[version]), {name = version}):source(),
      inputs = {a = normal({256, 256}, 1):astype "bfloat16", b = normal({256, 1024}, 2):astype "bfloat16"}}
  end
end

-- A sequence of {name, text, inputs, slow}: canonical text that assembles to the program.
return function()
  local list = {}
  for _, s in ipairs(samples) do list[#list + 1] = sample(s) end
  blockings(list)
  require "conform.kernels" {case = function(_, case)
    for _, target in ipairs(program.targets(case)) do
      local text, inputs = program.build(case, target)
      list[#list + 1] = {name = "kernels/" .. case.name .. " on " .. target,
        text = soma.assemble(text, {name = case.name}):source(), inputs = inputs}
    end
  end}
  return list
end
