-- Bad programs, damaged files and bad command lines (tests/bad/cases.lua): each must end with the
-- exit status and exactly the text on standard error that its case says, and leave no file behind.
--
--   lua5.4 tests/suites/bad.lua [PATTERN]     from the root of the project; $BUILD holds the programs
package.path = "./tests/bad/?.lua;./tests/lua/?.lua;" .. package.path
local cases = require "cases"

local function lines(command)
  local p <close> = assert(io.popen(command))
  local out = {}
  for line in p:lines() do out[#out + 1] = line end
  return out
end

local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read("a")
end

local function write(path, s)
  local f <close> = assert(io.open(path, "wb"))
  f:write(s)
end

local build = os.getenv("BUILD") or "build"
if build:sub(1, 1) ~= "/" then build = lines("pwd")[1] .. "/" .. build end
local dir = lines("mktemp -d")[1]
local programs = ("AS=%s/soma-as DIS=%s/soma-dis SOMA=%s/soma"):format(build, build, build)

-- Runs a line of shell in the directory; gives standard error and the exit status.
local function run(command)
  local _, how, code = os.execute(("cd %s && export %s && { %s\n} </dev/null >/dev/null 2>%s.err")
    :format(dir, programs, command, dir))
  local err = read(dir .. ".err"):gsub("%f[%w]at %d+ ns", "at N ns"):gsub("s " .. ("%x"):rep(16), "s H")
  return err, how == "exit" and code or 128 + code
end

local function list() return table.concat(lines("LC_ALL=C ls -A " .. dir), " ") end

local function clear(files)
  os.execute("rm -rf " .. dir .. " && mkdir " .. dir)
  for name, s in pairs(files) do write(dir .. "/" .. name, s) end
end

-- ---- Damage to a file ----------------------------------------------------------------------

-- The n-th section of a tag: places of its table entry and of its bytes, from 1.
local function section(image, tag, n)
  for i = 0, string.unpack("<I4", image, 41) - 1 do
    local entry = 49 + 24 * i
    if image:sub(entry, entry + 3) == tag then
      n = n - 1
      if n == 0 then return entry, string.unpack("<I8", image, entry + 8) + 1 end
    end
  end
  error("no section " .. tag)
end

local function put(image, at, s) return image:sub(1, at - 1) .. s .. image:sub(at + #s) end

-- FNV-1a of all from byte 16 on.
local function with_hash(image)
  local h = 0xcbf29ce484222325
  for i = 17, #image do h = (h ~ image:byte(i)) * 0x100000001b3 end
  return put(image, 9, string.pack("<i8", h))
end

-- damage: {"CODE", offset, bytes}; CODE2 is the second such section, @CODE the entry of the table,
-- head the file's first bytes. Or a function of the bytes. The hash is made right unless `raw`.
local function damaged(image, case)
  local how = case.damage
  if type(how) == "function" then
    image = how(image)
  else
    local entry, tag, n = how[1]:match("(@?)(%a+)(%d*)")
    local at = 1
    if tag ~= "head" then
      local e, s = section(image, tag, tonumber(n) or 1)
      at = entry == "@" and e or s
    end
    image = put(image, at + how[2], how[3])
  end
  return case.raw and image or with_hash(image)
end

-- ---- Cases ---------------------------------------------------------------------------------

local passed, failed = 0, 0

local function check(case, err, status, want_status, files)
  local now = list()
  local ok = err == case.err and status == want_status and now == files
  if ok then
    passed = passed + 1
    return
  end
  failed = failed + 1
  print("not as it should be: " .. case.name)
  if err ~= case.err then print("it says:\n" .. err .. "instead of:\n" .. case.err) end
  if status ~= want_status then print("exit status " .. status .. ", not " .. want_status) end
  if now ~= files then print("files: " .. now .. "; there should be: " .. files) end
end

local function wanted(case) return not arg[1] or case.name:find(arg[1]) end

for _, case in ipairs(cases.sources) do
  if wanted(case) then
    clear { ["t.s"] = case.source }
    local err, status = run("$AS -o t.sbc -l t.lst -MD t.d t.s")
    check(case, err, status, 1, "t.s")
  end
end

clear { ["t.s"] = cases.program }
local err, status = run("$AS -o t.sbc t.s")
assert(status == 0, err)
local image = read(dir .. "/t.sbc")
for _, case in ipairs(cases.images) do
  if wanted(case) then
    clear { ["t.sbc"] = damaged(image, case), ["a.npy"] = cases.files["a.npy"] }
    local command = case.run and "$SOMA t.sbc --in a=a.npy --out c=c.npy" or "$DIS -o t.s t.sbc"
    local text, code = run(command)
    check(case, text, code, 1, "a.npy t.sbc")
  end
end

clear(cases.files)
local before = list()
for _, case in ipairs(cases.commands) do
  if wanted(case) then
    local text, code = run(case.command)
    check(case, text, code, case.exit or 2, before)
  end
end

os.execute("rm -rf " .. dir .. " " .. dir .. ".err")
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and passed > 0)
