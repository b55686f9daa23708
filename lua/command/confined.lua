-- What a script in a sandbox sees: {module, environment}. module(inputs) is a copy of the module with
-- what a stranger may call; environment(module) the globals.
local soma = require "soma"

-- Of the module: what reads no file, writes only those that were named, and starts no process there.
-- A list of what is allowed, not of what is not: new functions are closed until
-- somebody looks at them.
local allowed = {}
for name in ([[abs allclose arange assemble ceil checks concat core cos costs device disassemble dtypes empty equal erf exp
  expm1 floor frombytes full isa isfinite isnan jit kernel load log log1p matmul maximum minimum neg ones randn
  reciprocal relu round rsqrt save_safetensors sigmoid sign sin spmd sqrt square sweep tanh tensor uniform
  version where zeros]]):gmatch "%S+" do
  allowed[name] = true
end

-- Copies, so that a script cannot change what the command itself uses.
local function copy(t)
  local c = {}
  for k, v in pairs(t) do c[k] = v end
  return c
end

local function module(inputs)
  -- The script's tensors come and go through these two tables.
  local m = {inputs = inputs, outputs = {}}
  for name, value in pairs(soma) do
    -- Level 2: the message has the script's line.
    m[name] = allowed[name] and value or function()
      error("soma." .. name .. ": not in a sandbox", 2)
    end
  end
  return m
end

-- The globals. Nothing in here leads to the environment of this file: metatables that scripts
-- share with it are locked, and libraries are copies.
local function environment(m)
  local env = {}
  -- Functions of Lua that neither open a file nor load code.
  for name in ([[assert error ipairs next pairs pcall print rawequal rawget rawlen
    rawset select tonumber tostring type xpcall _VERSION]]):gmatch "%S+" do
    env[name] = _G[name]
  end
  -- It gives bytecode, which only trusted code may load.
  string.dump = nil
  -- Strings share one metatable with the command.
  getmetatable("").__metatable = "protected"
  for _, name in ipairs {"coroutine", "math", "string", "table", "utf8"} do
    env[name] = copy(_G[name])
  end
  -- Clocks only: nothing of the host's files and variables.
  env.os = {clock = os.clock, time = os.time, difftime = os.difftime}
  -- As in Lua, so that scripts find their globals there.
  env._G = env
  -- Kept before env has functions of these names.
  local load, setmetatable, getmetatable = load, setmetatable, getmetatable
  local rawget, type, select = rawget, type, select
  local collectgarbage = collectgarbage
  -- Bytecode that no compiler made can do anything; a chunk without an environment has this one.
  function env.load(chunk, name, mode, ...)
    -- All modes that Lua has but "b", which is only bytecode.
    if mode ~= nil and mode ~= "t" and mode ~= "bt" then
      error("load: a sandbox allows only text, mode \"t\"", 2)
    end
    -- An environment of the script's own, nil too.
    if select("#", ...) > 0 then return load(chunk, name, "t", (...)) end
    return load(chunk, name, "t", env)
  end
  -- A finaliser would run at times of the collector's choosing, within code that is trusted.
  function env.setmetatable(t, meta)
    if type(meta) == "table" and rawget(meta, "__gc") ~= nil then
      error("setmetatable: no __gc in a sandbox", 2)
    end
    return setmetatable(t, meta)
  end
  -- Nor through a class of the module that is written in Lua.
  function env.getmetatable(x)
    -- The command's classes are locked, not the script's own tables.
    local meta = getmetatable(x)
    local name = type(meta) == "table" and rawget(meta, "__name")
    if type(name) == "string" and name:find "^soma%." then return "protected" end
    return meta
  end
  function env.collectgarbage(what)
    -- Other modes would change how the collector works for the command.
    if what ~= nil and what ~= "collect" and what ~= "count" and what ~= "step" then
      error("collectgarbage: a sandbox allows only collect, count and step", 2)
    end
    return collectgarbage(what)
  end
  function env.require(name)
    if name ~= "soma" then
      error("require: there is only soma in a sandbox, not '" .. tostring(name) .. "'", 2)
    end
    return m
  end
  return env
end

return {module = module, environment = environment}
