-- A line for each of some kernels: its name, a hash of the results' bytes, the trace's hash. Two
-- builds that print the same lines give the same bits. $SIMD bounds the SIMD level.
local soma = require "soma"
local simd = os.getenv "SIMD"
if simd == "" then simd = nil end

-- FNV-1a over the bytes of a string.
local function hash(s)
  local h = 0xcbf29ce484222325
  for i = 1, #s do h = (h ~ s:byte(i)) * 0x100000001b3 end
  return string.format("%016x", h)
end

local function show(name, run)
  local names, all = {}, {}
  for k in pairs(run.out) do names[#names + 1] = k end
  table.sort(names)
  for _, k in ipairs(names) do all[#all + 1] = run.out[k]:bytes() end
  print(name, hash(table.concat(all)), run.stats.trace_hash)
end

-- A host that lacks the level runs its best one, which must give the same bits anyway.
local function new_core(checks)
  local ok, core = pcall(soma.core, {simd = simd, checks = checks})
  return ok and core or soma.core {checks = checks}
end

local function run(name, prog, inputs) show(name, new_core():run(prog, inputs)) end

-- The same in two parts, with the file between them: of one content, so that any build can continue
-- with what any other has saved.
local function run_in_parts(name, prog, inputs, checks)
  local path = os.tmpname()
  local first = new_core(checks):start(prog, inputs)
  for _ = 1, 60 do first:step_event() end
  assert(not first.ended and first:save(path))
  local file <close> = assert(io.open(path, "rb"))
  print(name .. ", saved", hash(file:read("a")))
  show(name .. ", resumed", (new_core():resume(path)):continue())
  os.remove(path)
end

local function sample(name, defines)
  return soma.assemble_file("samples/" .. name .. ".s", {defines = defines})
end

run("vector_add", sample("vector_add", {N = 65536, FREE_DIM = 64}),
  {a = soma.randn({65536}, "float32", {seed = 1}), b = soma.randn({65536}, "float32", {seed = 2})})
run("matmul", sample("matmul", {M = 128, N = 512, K = 256}),
  {a = soma.randn({256, 128}, "bfloat16", {seed = 3}), b = soma.randn({256, 512}, "bfloat16", {seed = 4})})
run("softmax", sample("softmax", {ROWS = 256, COLS = 300}),
  {x = soma.randn({256, 300}, "float32", {seed = 5, std = 4})})

run_in_parts("vector_add", sample("vector_add", {N = 65536, FREE_DIM = 64}),
  {a = soma.randn({65536}, "float32", {seed = 1}), b = soma.randn({65536}, "float32", {seed = 2})})
run_in_parts("matmul", sample("matmul", {M = 128, N = 512, K = 256}),
  {a = soma.randn({256, 128}, "bfloat16", {seed = 3}), b = soma.randn({256, 512}, "bfloat16", {seed = 4})})
run_in_parts("softmax", sample("softmax", {ROWS = 256, COLS = 300}),
  {x = soma.randn({256, 300}, "float32", {seed = 5, std = 4})})
run_in_parts("softmax with checks", sample("softmax", {ROWS = 256, COLS = 300}),
  {x = soma.randn({256, 300}, "float32", {seed = 5, std = 4})}, "all")
run_in_parts("matmul with checks", sample("matmul", {M = 128, N = 512, K = 256}),
  {a = soma.randn({256, 128}, "bfloat16", {seed = 3}), b = soma.randn({256, 512}, "bfloat16", {seed = 4})}, "all")

-- Every activation function and operator over all magnitudes, signs and special values.
local bits = {}
for i = 0, 128 * 64 - 1 do bits[#bits + 1] = string.pack("<I4", (i * 0x80001 + (i >> 3)) & 0xffffffff) end
local x = soma.frombytes(table.concat(bits), "float32", {128, 64})
local head = [[
target trn3
x tensor float32[128, 64], input
y tensor float32[128, 64], output
z tensor bfloat16[128, 64], output
w tensor float8_e4m3[128, 64], output
tx tile sbuf float32[128, 64]
ty tile sbuf float32[128, 64]
tz tile sbuf bfloat16[128, 64]
tw tile sbuf float8_e4m3[128, 64]
l sem
d sem
q queue dge=hwdge
]]
local function elementwise(name, engine, first, narrow)
  run(name, soma.assemble(head .. "section sync\n dma_copy tx, x, queue=q $l\n dma_copy y, ty, queue=q $d>=3\n"
    .. " dma_copy z, tz, queue=q\n dma_copy w, tw, queue=q\n halt\nsection " .. engine .. "\n " .. first
    .. " $l>=16 $d++\n " .. narrow:gsub("DST", "tz") .. " $d++\n " .. narrow:gsub("DST", "tw") .. " $d++\n halt\n"),
    {x = x})
end
for _, fn in ipairs {"copy", "square", "sigmoid", "relu", "gelu", "gelu_dx", "gelu_apprx_tanh",
  "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx", "silu", "silu_dx", "tanh", "softplus", "mish", "erf",
  "erf_dx", "exp", "log", "sin", "arctan", "sqrt", "rsqrt", "reciprocal", "sign", "abs"} do
  elementwise("activate " .. fn, "scalar", "activate ty, tx, fn=" .. fn, "activate DST, tx, fn=" .. fn)
end
for _, op in ipairs {"add", "subtract", "mult", "max", "min", "is_equal", "is_ge", "is_gt", "is_le",
  "is_lt", "logical_and", "logical_xor"} do
  elementwise("tensor_scalar " .. op, "vector", "tensor_scalar ty, tx, op0=" .. op .. ", imm0=1.5",
    "tensor_scalar DST, tx, op0=" .. op .. ", imm0=-0.375")
end
for _, op in ipairs {"add", "mult", "max", "min"} do
  elementwise("tensor_reduce " .. op, "vector", "tensor_reduce ty[:, 0:1], tx, op=" .. op .. ", axes=1",
    "tensor_reduce DST[:, 0:1], tx, op=" .. op .. ", axes=1")
end
