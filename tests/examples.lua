-- The listings of a manual run as they stand there, and print what it says.
--
--   ```asm ... ```             a listing; its file is the last name such as `tile.s` before it, else
--                              the one in the command after it
--   `soma tile.s` prints       a command, and then a block of what it prints; a line of ... stands
--                              for any lines; "prints nothing" has no block
--       soma tile.s            an indented line: a command that prints nothing
--
-- All run in one new folder, with the commands of the build in PATH and as build/COMMAND, and samples/.
local examples = {}
local build = os.getenv "BUILD" or "build"
local files = {s = true, lua = true, py = true}

local function read(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read "a"
  f:close()
  return text
end

local function write(path, text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

local function line_of(command)
  local p = assert(io.popen(command))
  local line = p:read "l"
  p:close()
  return line
end

-- Whether got is want, where a line of ... stands for any lines.
local function fits(got, want)
  if not ("\n" .. want):find "\n%.%.%.\n" then return got == want end
  local pattern = "^" .. ("\n" .. want):gsub("%p", "%%%0"):gsub("\n%%%.%%%.%%%.", "\n.-"):sub(2) .. "$"
  return ("\n" .. got):find("^\n" .. pattern:sub(2)) ~= nil
end

-- A folder to run in, and a function of a command that gives what it prints and whether it started.
local function place()
  local dir = line_of "mktemp -d"
  local path = build:sub(1, 1) == "/" and build or line_of "pwd" .. "/" .. build
  assert(os.execute(("ln -s '%s' '%s/build' && ln -s \"$PWD/samples\" '%s/samples'"):format(path, dir, dir)))
  return dir, function(command)
    local file = dir .. "/.command"
    write(file, command .. "\n")
    local p = assert(io.popen(("cd '%s' && PATH=\"$PWD/build:$PATH\" COLUMNS=80 timeout 120 sh ./.command 2>&1 </dev/null")
      :format(dir)))
    local out = p:read "a"
    local _, _, status = p:close()
    return out, status
  end
end

-- The parts of a manual, in order: {kind = "text", "code", "command" or "output", text, language}.
local function parts_of(text)
  local parts, fence, language, body = {}, false, "", {}
  local function flush(kind)
    if #body > 0 or kind ~= "text" then
      parts[#parts + 1] = {kind = kind, text = table.concat(body), language = language}
    end
    body = {}
  end
  for line in text:gmatch "[^\n]*\n" do
    local mark = line:match "^```(%l*)\n"
    if mark and not fence then
      flush "text"
      fence, language = true, mark
    elseif mark then
      flush(language == "" and "output" or "code")
      fence = false
    elseif not fence and line:match "^    %S" then
      flush "text"
      body[1] = line:sub(5)
      flush "command"
    else
      body[#body + 1] = line
    end
  end
  flush "text"
  return parts
end

local function fence_of(part)
  if part.kind == "text" then return part.text end
  if part.kind == "command" then return "    " .. part.text end
  return "```" .. (part.kind == "code" and part.language or "") .. "\n" .. part.text .. "```\n"
end

-- Runs the examples of the file at path. commands: indented lines are commands. With write, puts in
-- what is printed now. Gives the numbers of those that passed, failed and were skipped.
function examples.run(path, options)
  local dir, shell = place()
  local parts = parts_of(read(path))
  local passed, failed, skipped = 0, 0, 0
  local has_numpy = os.execute "${SOMA_PYTHON:-/usr/bin/python3} -c 'import numpy' >/dev/null 2>&1"
  local listing, command
  local function verdict(ok, text)
    if ok then passed = passed + 1 return end
    failed = failed + 1
    print("FAILED " .. path .. ": " .. text)
  end
  local function wanted(line)
    local needs = line:find("soma-nki", 1, true) and not has_numpy
    if needs then skipped = skipped + 1 end
    return not needs
  end
  local names = {}
  for i, part in ipairs(parts) do
    if part.kind == "text" then
      local name
      for word, extension in part.text:gmatch "`([%w_]+%.(%l+))`" do
        if files[extension] then name = word end
      end
      if listing and not listing.name then
        listing.name = part.text:match "`%S+ (%S+)[^`]*` prints\n"
        if not listing.name then verdict(false, "a listing without a name:\n" .. listing.text) end
        if listing.name then write(dir .. "/" .. listing.name, listing.text) end
      end
      for silent in part.text:gmatch "`([^`]*)` prints nothing" do
        if wanted(silent) then
          local out = shell(silent)
          verdict(out == "", "`" .. silent .. "` prints " .. out)
        end
      end
      command = part.text:match "`([^`]*)` prints\n+$"
      listing, names.last = nil, parts[i + 1] and parts[i + 1].kind == "code" and name
    elseif part.kind == "code" then
      listing = {text = part.text, name = names.last}
      if names.last then write(dir .. "/" .. names.last, part.text) end
    elseif part.kind == "command" and options.commands then
      if wanted(part.text) then
        local out, status = shell(part.text)
        verdict(out == "" and status == 0, part.text .. "prints " .. out .. "and ends with " .. tostring(status))
      end
    elseif part.kind == "output" and command then
      if wanted(command) then
        local got = shell(command)
        verdict(fits(got, part.text), "`" .. command .. "`: it says\n" .. part.text .. "and prints\n" .. got)
        local excerpt = ("\n" .. part.text):find "\n%.%.%.\n" -- is chosen by hand
        if options.write and not excerpt then part.text = got end
      end
      command = nil
    end
  end
  os.execute("rm -r '" .. dir .. "'")
  if options.write then
    local out = {}
    for i, part in ipairs(parts) do out[i] = fence_of(part) end
    write(path, table.concat(out))
  end
  return passed, failed, skipped
end

-- What a suite does: the same, with at least so many examples; ends the process.
function examples.suite(path, least, options)
  options.write = arg[1] == "--write"
  local passed, failed, skipped = examples.run(path, options)
  if passed + failed + skipped < least then
    failed = failed + 1
    print("FAILED " .. path .. " has fewer than " .. least .. " examples")
  end
  print(passed .. " passed, " .. failed .. " failed" .. (skipped > 0 and ", " .. skipped .. " skipped: no NumPy" or ""))
  os.exit(failed == 0)
end

return examples
