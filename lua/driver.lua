-- The soma command on a program: soma prog.(s|sbc) [options]. Gets the host's facts and the
-- arguments; returns the exit status: 0 ok, 1 the program or its source failed, 2 bad usage.
local host, args = ...
local soma = require "soma"

local usage = [[
usage: soma PROGRAM.s|PROGRAM.sbc [options]     run a program
       soma SCRIPT.lua [arguments]              run an experiment
  --in NAME=FILE.npy     data of an input tensor; may be repeated
  --out NAME=FILE.npy    save a tensor when the run has ended well; may be repeated
  --target TARGET        trn1 inf2 trn2 trn3; default: the program's
  -D NAME[=VALUE]        define a macro of the source; -I DIR searches for included files
  --max-instructions N   stop a run that goes on; also --max-ns N, --max-seconds N
  --trace FILE.json      save the run's events for ui.perfetto.dev
  --json                 print the summary as JSON
  --quiet                print nothing when the run ends well
  --help, --version
Exit status: 0 ok, 1 a fault or an error in the source, 2 bad usage.
]]

local function paint(text)
  if host.color then return "\27[1;31m" .. text .. "\27[0m" end
  return text
end

local function complain(text)
  io.stderr:write("soma: ", paint "error: ", text, "\n")
end

local function bad_usage(text)
  complain(text)
  io.stderr:write("try soma --help\n")
  return 2
end

-- What each option takes: "pair" NAME=FILE, "number", "text", or nothing.
local options = {
  ["--in"] = "pair", ["--out"] = "pair", ["--target"] = "text", ["-D"] = "text", ["-I"] = "text",
  ["--max-instructions"] = "number", ["--max-ns"] = "number", ["--max-seconds"] = "number",
  ["--trace"] = "text", ["--json"] = "flag", ["--quiet"] = "flag",
}

local function nearest(word)
  local known = {}
  for name in pairs(options) do known[#known + 1] = name end
  table.sort(known)
  return host.nearest(word, known)
end

-- Fills o from the arguments; nil and a message when they are wrong.
local function parse(o)
  local i = 1
  while i <= #args do
    local word = args[i]
    local kind = options[word]
    if not kind and word:match("^%-[DI].") then
      word, kind = word:sub(1, 2), "text"
      table.insert(args, i + 1, (args[i]:sub(3)))
    end
    if kind == "flag" then
      o[word] = true
    elseif kind then
      i = i + 1
      local value = args[i]
      if not value then return nil, word .. " needs a value" end
      if kind == "pair" then
        local name, file = value:match("^([^=]+)=(.+)$")
        if not name then return nil, word .. " takes NAME=FILE.npy, not '" .. value .. "'" end
        if o[word][name] then return nil, word .. " names '" .. name .. "' twice" end
        o[word][name] = file
      elseif kind == "number" then
        o[word] = tonumber(value)
        if not o[word] or o[word] <= 0 then
          return nil, word .. " takes a positive number, not '" .. value .. "'"
        end
      elseif word == "-D" or word == "-I" then
        table.insert(o[word], value)
      else
        o[word] = value
      end
    elseif word:match("^%-.") then
      local near = nearest(word)
      return nil, "unknown option " .. word .. (near and "; did you mean " .. near .. "?" or "")
    elseif o.program then
      return nil, "one program at a time: '" .. o.program .. "' and '" .. word .. "'"
    else
      o.program = word
    end
    i = i + 1
  end
  if not o.program then return nil, "no program given" end
  return o
end

local function defines_of(list)
  local t = {}
  for _, d in ipairs(list) do
    local name, value = d:match("^([^=]+)=(.*)$")
    t[name or d] = value or "1"
  end
  return t
end

local function load_program(o)
  if o.program:match("%.sbc$") then return assert(soma.load(o.program)) end
  return soma.assemble_file(o.program,
    {defines = defines_of(o["-D"]), include = o["-I"], target = o["--target"]})
end

local function names(list)
  return #list == 0 and "none" or table.concat(list, ", ")
end

-- The tensors named on the command line against the program's; nil and a message.
local function load_inputs(prog, o)
  local inputs, known, all = {}, {}, {}
  for _, t in ipairs(prog:tensors()) do
    all[t.name] = t
    if t.role == "input" then known[#known + 1] = t.name end
  end
  for _, flag in ipairs {"--in", "--out"} do
    for name in pairs(o[flag]) do
      if not all[name] then
        return nil, flag .. " " .. name .. ": the program has no such tensor; its inputs: " .. names(known)
      end
    end
  end
  for _, name in ipairs(known) do
    local file = o["--in"][name]
    if not file then
      return nil, "input tensor '" .. name .. "' has no data; give --in " .. name .. "=FILE.npy"
    end
  end
  for name, file in pairs(o["--in"]) do
    local t, message = soma.load_npy(file, {dtype = host.dtype_hint(all[name].dtype)})
    if not t then return nil, message end
    inputs[name] = t
  end
  return inputs
end

local function json_of(v, indent)
  if type(v) == "table" then
    local keys, lines = {}, {}
    for k in pairs(v) do keys[#keys + 1] = k end
    table.sort(keys)
    for _, k in ipairs(keys) do
      lines[#lines + 1] = indent .. '  "' .. k .. '": ' .. json_of(v[k], indent .. "  ")
    end
    return "{\n" .. table.concat(lines, ",\n") .. "\n" .. indent .. "}"
  elseif type(v) == "string" then
    return '"' .. v:gsub('[%c"\\]', function(c) return string.format("\\u%04x", c:byte()) end) .. '"'
  elseif math.type(v) == "float" then
    return v == v and v - v == 0 and string.format("%.17g", v) or "null"
  end
  return tostring(v)
end

-- A line on a terminal for runs that take more than two seconds.
local shown = false
local function progress(instructions, ns, seconds)
  if seconds < 2 then return end
  shown = true
  io.stderr:write(string.format("\r%.1f s: %d instructions, %.1f us simulated \27[K", seconds,
    instructions, ns / 1000))
end
local function clear_progress()
  if shown then io.stderr:write("\r\27[K") end
  shown = false
end

local function save(run, o)
  local done = {}
  for name, file in pairs(o["--out"]) do
    local ok, message = (run.out[name] or run:fetch(name)):save_npy(file)
    if not ok then return nil, message end
    done[#done + 1] = file
  end
  if o["--trace"] then
    local ok, message = run:save_trace(o["--trace"])
    if not ok then return nil, message end
  end
  return done
end

local function report(run, o)
  if o["--json"] then
    local t = run.stats
    if run.fault then
      t.fault = {}
      for k, v in pairs(run.fault) do t.fault[k] = v end
    end
    print(json_of(t, ""))
  elseif not o["--quiet"] then
    print(run:summary())
  end
end

local function main()
  if args[1] == "--help" then io.write(usage) return 0 end
  if args[1] == "--version" then print("soma " .. soma.version) return 0 end
  local o, message = parse {["--in"] = {}, ["--out"] = {}, ["-D"] = {}, ["-I"] = {}}
  if not o then return bad_usage(message) end
  local ok, prog = pcall(load_program, o)
  if not ok then
    local text = tostring(prog):gsub("^soma:%d+: ", "")
    local diagnostics = text:match("^[%w_]+: %d+ errors?\n(.*)$")
    if diagnostics then
      io.stderr:write((diagnostics:gsub("\n*$", "\n")))
    else
      complain((text:gsub("^[%w_]+: ", "")))
    end
    return 1
  end
  if prog:warnings() then io.stderr:write((prog:warnings():gsub("\n*$", "\n"))) end
  local inputs
  inputs, message = load_inputs(prog, o)
  if not inputs then return bad_usage(message) end
  local core = soma.core {
    target = o["--target"], max_instructions = o["--max-instructions"], max_time = o["--max-ns"],
    max_seconds = o["--max-seconds"], trace = o["--trace"] and true or false,
    progress = host.terminal and progress or nil,
  }
  local run
  ok, run = pcall(core.start, core, prog, inputs, {faults = "return"})
  if not ok then
    complain((tostring(run):gsub("^soma:%d+: ", ""):gsub("^run: ", "")))
    return 1
  end
  ok, message = pcall(run.continue, run)
  clear_progress()
  if not ok then -- Ctrl-C; the run stands where it was
    complain(tostring(message))
    report(run, o)
    return 130
  end
  if run.fault then
    io.stderr:write((tostring(run.fault):gsub("fault: ", paint "fault: ", 1)), "\n")
    if o["--json"] then report(run, o) end
    return 1
  end
  local done
  done, message = save(run, o)
  if not done then
    complain(message)
    return 1
  end
  report(run, o)
  return 0
end

return main()
