-- The examples of README.md print what README.md says: a block of a program, a line with its command
-- that ends in "prints", and a block of its output. With --write it puts in what they print now.
local build = os.getenv "BUILD" or "build"
local f = assert(io.open "README.md")
local text = f:read "a"
f:close()
local dir = io.popen("mktemp -d"):read "l"
local passed, failed, skipped = 0, 0, 0

local here = io.popen("pwd"):read "l"

-- Runs the command of a line such as "`build/soma tanh.lua` prints", in a folder that has that file.
local function output_of(line, code)
  local command, name, arguments = line:match "`build/(%S+) (%S+)([^`]*)` prints"
  assert(command, "README.md has an example without its command: " .. line)
  local file = assert(io.open(dir .. "/" .. name, "w"))
  file:write(code)
  file:close()
  local path = (build:sub(1, 1) == "/" and "" or here .. "/") .. build .. "/" .. command
  local p = io.popen(("cd '%s' && '%s' %s%s 2>&1"):format(dir, path, name, arguments))
  local out = p:read "a"
  p:close()
  return out
end

-- What soma-nki says when there is no NumPy.
local has_numpy = os.execute "${SOMA_PYTHON:-/usr/bin/python3} -c 'import numpy' >/dev/null 2>&1"

local new = text:gsub("```(%l+)\n(.-)```(\n+[^\n]*prints\n+)```\n(.-)```", function(language, code, between, want)
  if language == "python" and not has_numpy then
    print "skipped: the Python example of README.md, as there is no NumPy"
    skipped = skipped + 1
    return nil
  end
  local got = output_of(between, code)
  if got == want then
    passed = passed + 1
  else
    failed = failed + 1
    print("FAILED README.md, the example in " .. language .. ": it says\n" .. want .. "and prints\n" .. got)
  end
  return "```" .. language .. "\n" .. code .. "```" .. between .. "```\n" .. got .. "```"
end)
os.execute("rm -r " .. dir)
if arg[1] == "--write" then
  local out = assert(io.open("README.md", "w"))
  out:write(new)
  out:close()
end
if passed + failed + skipped < 4 then
  failed = failed + 1
  print "FAILED README.md has fewer than four examples"
end
print(passed .. " passed, " .. failed .. " failed")
os.exit(failed == 0)
