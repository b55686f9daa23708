-- soma --sandbox: runs a script that is not trusted. Gets the host's functions and the arguments;
-- returns the exit status as driver.lua does.
local host, args = ...
local soma = require "soma"

local usage = [[
usage: soma --sandbox [options] SCRIPT.lua [arguments]
  --in NAME=FILE.npy     the script finds it as soma.inputs.NAME; may be repeated
  --out NAME=FILE.npy    where soma.outputs.NAME goes when the script has ended well; likewise
  --max-seconds N        end the script after so long; default 60
  --max-memory BYTES     of Lua, tensors and machines together, as 512M or 2G; default 1G
  --help
]]
local SECONDS, MEMORY = 60, 1 << 30

-- ---- Arguments ------------------------------------------------------------------------------

local function complain(text)
  io.stderr:write("soma: ", text, "\n")
  return 1
end

local take = {}
local function take_file(o, word, value)
  local name, file = value:match "^([^=]+)=(.+)$"
  if not name then return word .. " takes NAME=FILE.npy, not '" .. value .. "'" end
  if o[word][name] then return word .. " names '" .. name .. "' twice" end
  o[word][name] = file
end
take["--in"], take["--out"] = take_file, take_file
take["--max-seconds"] = function(o, word, value)
  local n = tonumber(value)
  if not n or not (n > 0 and n <= 1e6) then
    return word .. " takes a number of seconds, above 0 and up to 1000000, not '" .. value .. "'"
  end
  o.seconds = n
end
take["--max-memory"] = function(o, word, value)
  o.memory = host.bytes(value)
  if not o.memory then
    return word .. " takes a number of bytes, as 4096, 64K, 512M or 2G, not '" .. value .. "'"
  end
end

-- The options, with the script's name and arguments; nil and what is wrong.
local function parse()
  local o = {["--in"] = {}, ["--out"] = {}, seconds = SECONDS, memory = MEMORY}
  local i = 1
  while args[i] and not o.script do
    local word, value = args[i], nil
    if not take[word] then
      local head, rest = word:match "^(%-%-[%w-]+)=(.*)$"
      if take[head] then word, value = head, rest end
    end
    if take[word] then
      if not value then
        i = i + 1
        value = args[i]
      end
      local wrong = value and take[word](o, word, value)
      if wrong or not value then return nil, wrong or word .. " needs a value" end
    elseif word == "--help" then
      return {help = true}
    elseif word:match "^%-" and word ~= "--sandbox" then
      return nil, "a sandbox has no option " .. word
    elseif word ~= "--sandbox" then
      if not word:match "%.lua$" then return nil, "a sandbox runs a script.lua, not '" .. word .. "'" end
      o.script = word
    end
    i = i + 1
  end
  if not o.script then return nil, "no script given" end
  o.arguments = table.pack(table.unpack(args, i))
  return o
end

-- ---- What the script sees -------------------------------------------------------------------

-- Of the module: what reads and writes no file and starts no process by itself.
local allowed = {}
for name in ([[abs allclose arange assemble ceil concat core cos costs device disassemble dtypes equal erf exp
  expm1 floor frombytes full isa isfinite isnan load log log1p matmul maximum minimum neg ones randn
  reciprocal relu round rsqrt sigmoid sign sin sqrt square tanh tensor uniform version where
  zeros]]):gmatch "%S+" do
  allowed[name] = true
end

local function copy(t)
  local c = {}
  for k, v in pairs(t) do c[k] = v end
  return c
end

local function module(inputs)
  local m = {inputs = inputs, outputs = {}}
  for name, value in pairs(soma) do
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
  for name in ([[assert error getmetatable ipairs next pairs pcall print rawequal rawget rawlen
    rawset select tonumber tostring type xpcall _VERSION]]):gmatch "%S+" do
    env[name] = _G[name]
  end
  string.dump = nil
  getmetatable("").__metatable = "protected"
  for _, name in ipairs {"coroutine", "math", "string", "table", "utf8"} do
    env[name] = copy(_G[name])
  end
  env.os = {clock = os.clock, time = os.time, difftime = os.difftime}
  env._G = env
  local load, setmetatable, rawget, type, select = load, setmetatable, rawget, type, select
  local collectgarbage = collectgarbage
  -- Bytecode that no compiler made can do anything; a chunk without an environment has this one.
  function env.load(chunk, name, mode, ...)
    if mode ~= nil and mode ~= "t" and mode ~= "bt" then
      error("load: only text, mode \"t\", in a sandbox", 2)
    end
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
  function env.collectgarbage(what)
    if what ~= nil and what ~= "collect" and what ~= "count" and what ~= "step" then
      error("collectgarbage: only collect, count and step in a sandbox", 2)
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

-- ---- The run --------------------------------------------------------------------------------

local function handler(e)
  if type(e) == "string" then
    return (debug.traceback(e, 2):gsub("\n\t%[C%]: in function 'xpcall'.*", ""))
  end
  local ok, text = pcall(tostring, e)
  return ok and text or "an error that cannot be shown"
end

-- Writes soma.outputs to the open files.
local function write_outputs(m, names, save)
  local outputs = rawget(m, "outputs")
  if type(outputs) ~= "table" then error("soma.outputs is not a table any more", 0) end
  for name in next, outputs do
    if type(name) ~= "string" or not names[name] then
      error("soma.outputs." .. (type(name) == "string" and name or type(name)) ..
        ": no --out names it", 0)
    end
  end
  for name in pairs(names) do
    local t = rawget(outputs, name)
    if t == nil then error("the script has not set soma.outputs." .. name, 0) end
    local ok, wrong, message = pcall(save, t, "--out " .. name)
    if not ok then error("soma.outputs." .. name .. ": " .. tostring(wrong), 0) end
    if not wrong then error(message, 0) end
  end
end

-- Runs in a process of its own; its exit status, or an error whose text is shown.
local function run(o, chunk, m, files)
  local save = soma.zeros({1}).save_npy
  host.limit_memory(o.memory)
  host.forbid_files(files)
  local results = table.pack(xpcall(chunk, handler, table.unpack(o.arguments, 1, o.arguments.n)))
  if not results[1] then error(results[2], 0) end
  local status = math.type(results[2]) == "integer" and results[2] or 0
  if status < 0 or status > 255 then
    error("the script returned " .. status .. ": an exit status is 0 to 255", 0)
  end
  if status == 0 then write_outputs(m, o["--out"], save) end
  return status
end

local function load_inputs(o)
  local inputs = {}
  for name, file in pairs(o["--in"]) do
    local t, message = soma.load_npy(file)
    if not t then error(message, 0) end
    inputs[name] = t
  end
  return inputs
end

local function load_script(o, env)
  local file, message = io.open(o.script, "rb")
  local text
  if file then text, message = file:read "a" end
  if not text then error("cannot read '" .. o.script .. "': " .. message:gsub("^.*: ", ""), 0) end
  local chunk
  chunk, message = load((text:gsub("^#[^\n]*", "")), "@" .. o.script, "t", env)
  if not chunk then error(message, 0) end
  return chunk
end

local function main()
  local o, message = parse()
  if not o then
    complain(message)
    io.stderr:write "try soma --sandbox --help\n"
    return 2
  elseif o.help then
    io.write(usage)
    return 0
  end
  local files = {}
  for name, path in pairs(o["--out"]) do
    local ok, wrong = host.check_output(path)
    if not ok then return complain(wrong) end
    files["--out " .. name] = assert(io.tmpfile())
  end
  local m = module(load_inputs(o))
  local env = environment(m)
  env.arg = {[0] = o.script, table.unpack(o.arguments, 1, o.arguments.n)}
  local chunk = load_script(o, env)
  local status
  status, message = host.confine(o.seconds, o.memory, function() return run(o, chunk, m, files) end)
  if not status then return complain(message) end
  if status ~= 0 then return status end
  for name, path in pairs(o["--out"]) do
    local ok, wrong = host.save_output(files["--out " .. name], path)
    if not ok then return complain(wrong) end
  end
  return 0
end

local ok, status = pcall(main)
if ok then return status end
if tostring(status):match "interrupted$" then
  complain "interrupted"
  return 130
end
return complain((tostring(status):gsub("^soma:%d+: ", "")))
