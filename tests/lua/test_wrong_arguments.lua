-- Every function and method of the module with wrong arguments: a Lua error or an answer, never a
-- crash, and everything still works afterwards. Made for the address sanitizer as well:
-- `build-asan/soma tests/lua/test_wrong_arguments.lua`. WRONG_ROUNDS and WRONG_SEED make it longer and other.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq

local prog = soma.assemble_file "tests/lua/add.s"
local a = soma.randn({4, 8}, "float32", {seed = 1})
local b = soma.randn({4, 8}, "float32", {seed = 2})

local function closed_core() local c = soma.core {} c:close() return c end
local function closed_program() local p = soma.assemble "target trn2\n" p:close() return p end
local function closed_run() local r = soma.core {}:run(prog, {a = a, b = b}) r:close() return r end
local function left_run() -- its core has gone on
  local c = soma.core {}
  local r = c:start(prog, {a = a, b = b})
  c:run(prog, {a = a, b = b})
  return r
end

local on_device = a:to "neuron:0"
local function closed_tensor() local x = a:to "neuron:0" x:close() return x end

local deep = {}
for _ = 1, 300 do deep = {deep} end
local loop = {}
loop[1] = loop
local thrower = setmetatable({}, {__index = function() error "index" end, __len = function() return 1 << 60 end,
  __tostring = function() return 5 end, __name = "thrower"})

-- Values of every type, and of every kind that has gone wrong somewhere before.
local nan, inf = 0 / 0, math.huge
local function make_values() return {
  false, true, 0, 1, -1, 2, 3, 7, 8, 127, 128, 129, 255, 256, 65536, 1 << 31, 1 << 32, 1 << 62,
  math.maxinteger, math.mininteger, 0.5, -0.0, nan, inf, -inf, 1e300, 2^53, 2^63, -2^63,
  "", "x", "1", "float32", "bfloat16", "float4_e2m1fn_x4", "bool", "uint64", "cpu", "neuron:0", "vector",
  "ta", "c", "loaded", "a\0b", ("y"):rep(5000), "%s%n", "\x93NUMPY\1\0\255\255", "SOMA\0\0\0\0",
  {}, {1}, {-1}, {0, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1 << 62}, {math.maxinteger, 2}, {0, math.maxinteger},
  {nan}, {"x"}, {{1, 2}, {3}}, {{}}, {{{}}, 1}, {x = 1}, {dtype = "float32"}, {dtype = 3}, {seed = 1},
  {seed = 1, low = 5, high = -5}, {seed = 0.5}, {rtol = nan}, {rtol = -1}, {partition = 127, partitions = 2, bytes = 8},
  {partition = 0, offset = 2^31 - 1 | 0, count = 1}, {partitions = 128, count = 1 << 20, dtype = "int64"},
  {a = 1}, {a = a}, {a = b, b = a, c = a}, {defines = {N = 1 << 40}}, {include = {}}, {target = "trn1"}, {faults = "return"},
  {device = "neuron:0"}, {axis = 9}, deep, loop, thrower, print, function() error "called" end,
  coroutine.create(function() end), io.stdout,
  soma.zeros({}), soma.zeros({0}), soma.zeros({0, 3}), soma.ones({2, 2}, "bool"), soma.ones({4, 8}, "int8"),
  soma.ones({4}, "float4_e2m1fn_x4"), soma.arange(24):reshape({4, 6}):slice({0, 4, 3}, {1, 6, 2}),
  soma.arange(24):reshape({4, 6}):transpose(), a, soma.tensor({math.mininteger}, "int64"),
  soma.assemble_file "tests/lua/add.s", closed_program(), soma.core {}, closed_core(), closed_run(), left_run(),
  soma.core {}:run(prog, {a = a, b = b}), soma.core {}.sbuf, closed_core().psum,
  on_device, closed_tensor(), {a = on_device, b = on_device}, {device = "neuron:1", seed = 1},
} end
local values = make_values()
local nothing = #values + 1 -- a nil among them

-- A deterministic generator, so that a crash can be found again.
local state = tonumber(os.getenv "WRONG_SEED") or 12345
local full = (os.getenv "FULL" or "") ~= ""
local rounds = tonumber(os.getenv "WRONG_ROUNDS") or full and 1 or 0.2
local function pick(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n + 1
end

local calls, errors = 0, 0
local function call(f, ...)
  calls = calls + 1
  local ok, message = pcall(f, ...)
  if ok then return end
  errors = errors + 1
  -- an error that cannot be shown is an error too
  local shown = pcall(tostring, message)
  if not shown then error("an error without a text") end
end

-- Big results are dropped at once: these calls may allocate.
local function try(f, ...)
  call(f, ...)
  if calls % 50 == 0 then collectgarbage() end
end

-- These write a file when their first argument is a path.
local writes = {save_npy = true, save_npz = true, save_safetensors = true, save = true, save_trace = true}

-- 2^31 elements or 10^6 assembled lines would only cost time here.
local function too_costly(name, x)
  if type(x) ~= "number" then return false end
  return (name == "zeros" or name == "ones" or name == "full" or name == "arange" or name == "uniform"
    or name == "randn") and x >= 1 << 31 and x < 1 << 50
end

local function exercise(name, f, self)
  if name == "close" or pick(4) == 1 then values = make_values() end -- open ones again
  local first = self ~= nil
  local function with(...) -- as a method of self, or as a function
    if writes[name] and type((...)) == "string" then return end
    if too_costly(name, (...)) then return end
    if first then try(f, self, ...) else try(f, ...) end
  end
  with()
  for _, v in ipairs(values) do
    with(v)
    with(nil, v)
    with(v, v)
    with(v, v, v, v)
    if first and not writes[name] then try(f, v) end -- another self
  end
  for _ = 1, 150 * rounds // 1 do
    local list, n = {}, pick(6)
    for i = 1, n do
      local k = pick(nothing)
      list[i] = k < nothing and values[k] or nil
    end
    with(table.unpack(list, 1, n))
  end
  with(table.unpack(values, 1, 60))
end

local function functions(object, names)
  local list = {}
  for _, name in ipairs(names) do
    local ok, f = pcall(function() return object[name] end)
    if ok and type(f) == "function" then list[#list + 1] = {name, f} end
  end
  return list
end

case("functions of the module", function()
  local names = {}
  for name, f in pairs(soma) do
    if type(f) == "function" then names[#names + 1] = name end
  end
  table.sort(names)
  eq(#names > 40, true)
  for _, name in ipairs(names) do exercise(name, soma[name]) end
  -- and of the tables in it
  for _, part in ipairs {"plot", "isa", "stats"} do
    for name, f in pairs(type(soma[part]) == "table" and soma[part] or {}) do
      if type(f) == "function" and not writes[name] then exercise(name, f) end
    end
  end
end)

local method_names = {
  tensor = {"get", "set", "slice", "reshape", "transpose", "view", "astype", "copy", "fill", "assign",
    "bytes", "tolist", "to", "tostring", "save_npy", "add", "sub", "mul", "div", "idiv", "mod", "pow", "maximum",
    "minimum", "eq", "ne", "lt", "le", "gt", "ge", "band", "bor", "bxor", "shl", "shr", "bnot", "exp",
    "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "erf", "sin", "cos",
    "square", "abs", "neg", "sign", "relu", "floor", "ceil", "round", "isnan", "isfinite", "sum", "mean",
    "max", "min", "any", "all", "matmul"},
  program = {"tensors", "tiles", "bytes", "source", "save", "warnings", "target", "close"},
  core = {"run", "start", "close", "semaphore", "set_semaphore", "register", "set_register"},
  run = {"step", "step_event", "until_time", "continue", "fetch", "summary", "close", "save_trace"},
  memory = {"read", "write"}, device = {"to", "close"},
}

-- Options and tensors of the functions that save, which the above calls with other values as paths.
case("functions that save, to one path", function()
  local path = t.temp()
  for _, name in ipairs {"save_npz", "save_safetensors"} do
    for _, v in ipairs(values) do
      try(soma[name], path, v)
      try(soma[name], path, {a = v})
      try(soma[name], path, {a = a}, v)
      try(soma[name], path, {a = a}, {metadata = v})
      try(soma[name], path, {a = a}, {compress = v})
      if v == v and v ~= nil then try(soma[name], path, {[v] = a}) end
    end
  end
  for _, name in ipairs {"load_npy", "load_npz", "load_safetensors"} do
    for _, v in ipairs(values) do
      for _, option in ipairs {"names", "dtype", "device", "map"} do try(soma[name], path, {[option] = v}) end
    end
  end
end)

case("methods of tensors", function()
  for _, make in ipairs {
    function() return soma.arange(24):reshape({4, 6}) end,
    function() return soma.arange(24):reshape({4, 6}):transpose():slice({0, 6, 2}, {1, 4}) end,
    function() return soma.tensor({nan, inf, -0.0, 1}, "float8_e4m3") end,
    function() return soma.zeros({3, 0}, "int8") end,
    function() return soma.tensor(2.5) end,
    function() return soma.ones({2, 4}, "float8_e5m2_x4") end,
  } do
    local x = make()
    local list = functions(x, method_names.tensor)
    eq(#list, #method_names.tensor)
    for _, f in ipairs(list) do exercise(f[1], f[2], x) end
    for _, v in ipairs(values) do -- operators and fields
      for _, f in ipairs {function() return x + v end, function() return v / x end, function() return x // v end,
        function() return x % v end, function() return v ^ x end, function() return x & v end,
        function() return v << x end, function() return x[v] end, function() x[v] = v end,
        function() return x == v, -x, #x, tostring(x) end, function() return x .. v end, function() return x < v end} do
        try(f)
      end
    end
  end
end)

case("methods of programs, cores, runs and memories, open and closed", function()
  local short = {max_instructions = 2000, max_seconds = 5}
  local function objects()
    local core = soma.core(short)
    local run = core:start(prog, {a = a, b = b})
    return {
      {"program", soma.assemble_file "tests/lua/add.s"}, {"program", closed_program()},
      {"core", soma.device "neuron:0"}, {"core", soma.core(short)}, {"core", core}, {"core", closed_core()},
      {"run", run}, {"run", closed_run()}, {"run", left_run()},
      {"memory", core.sbuf}, {"memory", core.psum}, {"memory", closed_core().sbuf},
      {"device", a:to "neuron:0"}, {"device", closed_tensor()},
    }
  end
  for i = 1, #objects() do
    for k = 1, #method_names[objects()[i][1]] do -- fresh ones: `close` is a method too
      local kind, object = table.unpack(objects()[i])
      local name = method_names[kind][k]
      exercise(name, object[name], object)
      for _, v in ipairs(values) do
        try(function() return object[v] end)
        try(function() object[v] = v end)
        try(function() return tostring(object), object == v, #object end)
      end
    end
  end
end)

-- Every function in a metatable, and in its __index, with this object and with wrong ones: what
-- the lists above do not name is here.
case("all of the metatables", function()
  local seen, found = {}, 0
  local function walk(object, list, depth)
    local names = {}
    for name, f in pairs(list) do
      if type(name) == "string" and not seen[f] then names[#names + 1] = name end
    end
    table.sort(names)
    for _, name in ipairs(names) do
      local f = list[name]
      if type(f) == "function" and name ~= "__gc" and name ~= "__close" then
        seen[f], found = true, found + 1
        exercise(name == "close" and "close" or name, f, object())
      elseif type(f) == "table" and depth < 3 and not seen[f] then
        seen[f] = true
        walk(object, f, depth + 1)
      end
    end
  end
  for _, object in ipairs {function() return soma.arange(6):reshape({2, 3}) end,
    function() return soma.assemble_file "tests/lua/add.s" end, function() return soma.core {max_instructions = 2000} end,
    function() return soma.core {}:run(prog, {a = a, b = b}) end, function() return soma.core {}.sbuf end,
    function() return a:to "neuron:0" end} do
    walk(object, debug.getmetatable(object()) or {}, 0)
  end
  eq(found > 20, true)
end)

case("callbacks that do wrong things", function()
  for _, v in ipairs(values) do
    local wrong = function() error(v) end
    for _, name in ipairs {"events", "progress", "print"} do
      try(function() soma.core {[name] = wrong}:run(prog, {a = a, b = b}) end)
    end
  end
  local core, run
  for _, f in ipairs {function() core:close() end, function() run:close() end, function() run:continue() end,
    function() core = nil run = nil collectgarbage() end, function() coroutine.yield() end,
    function() core:run(prog, {a = a, b = b}) end, function() return run.out.c end, function() run:fetch "c" end} do
    core = soma.core {events = f}
    run = core:start(prog, {a = a, b = b})
    try(function() return run:continue() end)
    try(coroutine.wrap(function() return run and run:continue() end))
  end
end)

case("after all this", function()
  eq(calls > 20000, true) eq(errors > calls // 2, true)
  eq(soma.equal(soma.core {}:run(prog, {a = a, b = b}).out.c, a + b), true)
end)

t.finish()
