-- Golden tests of the assembler and of traces: one directory of tests/golden is one case.
--
--   lua5.4 tests/golden.lua [update] [PATTERN]     a name or a pattern of Lua
--
-- Run from the root of the project. A case has in.s and what is expected: want.lst (standard
-- output), want.err (standard error), want.exit (the exit status; without it 1 when there is only
-- a want.err, else 0). `args` replaces the arguments "-f lst -o - in.s"; `cmd` replaces the whole
-- command, a line of shell that runs in a copy of the case with $AS, $DIS and $SOMA. The programs are
-- those in $BUILD (build), or those of the environment's SOMA_AS and SOMA_DIS. The trace-* cases are
-- runs whose events are compared: they change with the constants of the clock.

local update, pattern = false, nil
for _, a in ipairs(arg) do
  if a == "update" then update = true else pattern = a end
end

local function read(path)
  local f = io.open(path, "rb")
  if not f then return nil end
  local s = f:read("a")
  f:close()
  return s
end

local function write(path, s)
  if s == nil or s == "" then
    os.remove(path)
    return
  end
  local f = assert(io.open(path, "wb"))
  f:write(s)
  f:close()
end

local function lines(command)
  local p = assert(io.popen(command))
  local out = {}
  for line in p:lines() do out[#out + 1] = line end
  p:close()
  return out
end

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local root = lines("pwd")[1]
local function program(variable, path)
  local p = os.getenv(variable) or path
  return p:sub(1, 1) == "/" and p or root .. "/" .. p
end
local build = os.getenv("BUILD") or "build"
local as, dis = program("SOMA_AS", build .. "/soma-as"), program("SOMA_DIS", build .. "/soma-dis")
local soma = program("SOMA", build .. "/soma")
local work = lines("mktemp -d")[1]

local function run(case)
  local dir = "tests/golden/" .. case
  os.execute("rm -rf " .. quote(work) .. "/case && cp -r " .. quote(dir) .. " " ..
             quote(work) .. "/case")
  local cmd = read(dir .. "/cmd")
  cmd = cmd or "$AS " .. (read(dir .. "/args") or "-f lst -o - in.s")
  local shell = ("cd %s/case && export AS=%s DIS=%s SOMA=%s && { %s\n} >../out 2>../err </dev/null"):format(
    quote(work), quote(as), quote(dis), quote(soma), cmd:gsub("%s+$", ""))
  local _, how, code = os.execute(shell)
  if how ~= "exit" then code = 128 + code end
  return { lst = read(work .. "/out") or "", err = read(work .. "/err") or "", exit = code }
end

local function wanted(case)
  local dir = "tests/golden/" .. case
  local lst, err = read(dir .. "/want.lst"), read(dir .. "/want.err")
  local exit = tonumber(read(dir .. "/want.exit") or "") or (err and not lst and 1 or 0)
  return { lst = lst or "", err = err or "", exit = exit, any = lst or err }
end

local function save(case, got)
  local dir = "tests/golden/" .. case
  write(dir .. "/want.lst", got.lst)
  write(dir .. "/want.err", got.err)
  local default = got.err ~= "" and got.lst == "" and 1 or 0
  write(dir .. "/want.exit", got.exit ~= default and got.exit .. "\n" or nil)
end

local function show(what, want, got)
  if want == got then return end
  write(work .. "/want", want)
  write(work .. "/got", got)
  io.write("# ", what, ":\n")
  for _, line in ipairs(lines("cd " .. quote(work) .. " && touch want got && diff -u want got")) do
    io.write("#   ", line, "\n")
  end
end

local cases = {}
for _, case in ipairs(lines("LC_ALL=C ls tests/golden")) do
  if not pattern or case:find(pattern) or case:find(pattern, 1, true) then cases[#cases + 1] = case end
end
local failed = 0
for i, case in ipairs(cases) do
  local got = run(case)
  if update then save(case, got) end
  local want = wanted(case)
  local ok = want.any and want.lst == got.lst and want.err == got.err and want.exit == got.exit
  print(("%sok %d - %s"):format(ok and "" or "not ", i, case))
  if not ok then
    failed = failed + 1
    show("standard output", want.lst, got.lst)
    show("standard error", want.err, got.err)
    if want.exit ~= got.exit then print("# exit status " .. got.exit .. ", not " .. want.exit) end
  end
end
os.execute("rm -rf " .. quote(work))
print(("1..%d"):format(#cases))
print(("# %d of %d golden cases as expected"):format(#cases - failed, #cases))
os.exit(failed == 0 and #cases > 0)
