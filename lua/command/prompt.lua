-- soma -e CODE [arguments] and soma -i: Lua with the module as `soma`. A line of the prompt is an
-- expression, whose values are printed, or statements; it continues while it is not complete. Returns
-- the exit status: 0 ok, 1 the code failed, 2 bad usage.
local host, args = ...
_G.soma = require "soma"

local function complain(text, status)
  io.stderr:write("soma: ", text, "\n")
  return status
end

local readable = debug.getregistry()["soma.readable"] -- how results of runs print

-- A plain table is printed with what is in it; objects print as they say.
local function show(ok, ...)
  if not ok then return complain(tostring((...)), 1) end
  -- packed, so that nils between values are kept.
  local values = table.pack(...)
  for i = 1, values.n do
    local x = values[i]
    values[i] = type(x) == "table" and getmetatable(x) == nil and next(x) ~= nil and readable.__tostring(x) or tostring(x)
  end
  if values.n > 0 then print(table.concat(values, "\t")) end
  return 0
end

-- As an expression first: `x` alone would be no statement.
-- The code as a function: of an expression one that returns it. With `more` when it only lacks an end.
local function compile(code, name)
  local f = load("return " .. code, name)
  if f then return f end
  local message
  f, message = load(code, name)
  -- Lua names the end of the text when more could follow.
  return f, message, not f and message:match "<eof>$" ~= nil
end

-- A line of the prompt, edited where there is a terminal and an editor.
local function reader()
  local editor = require "soma.lines"
  editor.attend(true)
  -- Nothing is completed here.
  if editor.read and host.input_terminal then
    return function(text) return editor.read(text, function() return {} end) end
  end
  return function(text)
    io.write(text)
    io.flush()
    return io.read()
  end
end

-- What `help` prints, and help().
local function help_text()
  local names, line = {}, "soma:"
  for name in pairs(soma) do names[#names + 1] = name end
  table.sort(names)
  local lines = {
    "A line is an expression, whose values are printed, or statements; it goes on until it is complete.",
    "A variable stays when it is global: x = 1. A `local` is gone after its line.",
    "",
    '  p = soma.assemble_file "add.s"           a program from its source',
    '  r = soma.core {target = "trn2"}:run(p, {a = soma.randn {4, 8}})',
    "  r.out.c                                  an output; r.stats: what the run took",
    "",
  }
  for _, name in ipairs(names) do
    if #line + #name > 90 then
      lines[#lines + 1] = line
      line = "     "
    end
    line = line .. " " .. name
  end
  lines[#lines + 1] = line
  lines[#lines + 1] = "lua/README.md is the manual. Ctrl-C stops what runs, Ctrl-D ends."
  return table.concat(lines, "\n")
end

local function prompt()
  _G.help = setmetatable({}, {__tostring = help_text, __call = help_text})
  local read = reader()
  local code = ""
  -- The version first, as interpreters do.
  io.write("soma ", soma.version, ", ", _VERSION, "; `help` explains, Ctrl-D ends\n")
  while true do
    -- The second prompt shows that a statement is not complete.
    local line = read(code == "" and "> " or ">> ")
    if not line then
      io.write "\n"
      return 0
    end
    code = code .. line .. "\n"
    local f, message, more = compile(code, "=input")
    if f then
      show(pcall(f))
      -- A Ctrl-C that stopped the line does not stop the next.
      host.listen()
    elseif not more then
      complain(message, 1)
    end
    -- A wrong statement is dropped, and the next line begins anew.
    if not more then code = "" end
  end
end

if args[1] == "-i" then
  if args[2] then return complain("-i takes no arguments: '" .. args[2] .. "'", 2) end
  return prompt()
end
local code = args[2]
if not code then return complain("-e needs Lua code", 2) end
-- As a script has it.
_G.arg = {[0] = "-e", table.unpack(args, 3)}
local f, message = load(code, "=-e")
if not f then return complain(message, 1) end
-- An integer is the exit status.
return f(table.unpack(arg)) or 0
