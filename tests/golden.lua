-- Golden tests of the assembler and of traces: one file of tests/golden is one case.
--
--   lua5.4 tests/golden.lua [PATTERN]           run the cases whose name matches (plain or of Lua)
--   lua5.4 tests/golden.lua update [PATTERN]    run them and write what came out into the cases
--   lua5.4 tests/golden.lua extract DIR         write the files of every case into DIR/CASE/
--
-- Run from the root of the project. A case looks like this:
--
--   Text before the first section says what the case is for.
--   -- cmd --
--   $AS -E -o - in.s
--   -- in.s --
--   section vector
--   -- want.out --
--   section vector
--
-- cmd is a line of shell, run in a folder that holds the case's other files, with the programs
-- $AS, $DIS and $SOMA; without one it is `$AS -f lst -o - in.s`. want.out, want.err and want.exit
-- are standard output, standard error and the exit status; without want.exit the status must be 1
-- when there is only a want.err, else 0. `-- NAME = CASE --` takes the file NAME of another case,
-- `-- NAME = DIR/FILE --` a file of the project; `-- NAME hex --` holds bytes as hexadecimal digits.
-- The programs are those in $BUILD (build), or those of the environment's SOMA_AS and SOMA_DIS. The
-- trace-* cases are runs whose events are compared: they change with the constants of the clock.

local FOLDER <const> = "tests/golden/"
local DEFAULT_CMD <const> = "$AS -f lst -o - in.s"
local EXPECTED <const> = { "want.out", "want.err", "want.exit" }

local function read(path)
  local f = assert(io.open(path, "rb"))
  local s = f:read("a")
  f:close()
  return s
end

local function write(path, s)
  local f = assert(io.open(path, "wb"))
  assert(f:write(s))
  assert(f:close())
end

local function lines(command)
  local p = assert(io.popen(command))
  local out = {}
  for line in p:lines() do out[#out + 1] = line end
  p:close()
  return out
end

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

-- ---- Cases ------------------------------------------------------------------------------------

-- A case as { head = text, { name =, text =, kind = "hex" or nil, from = name or nil }... }.
local function parse(case)
  local sections = { head = "" }
  local now
  for line in read(FOLDER .. case .. ".txt"):gmatch("[^\n]*\n?") do
    local title = line:match("^%-%- (.+) %-%-\n$")
    if title then
      local name, from = title:match("^(.-) = (.+)$")
      local hex = title:match("^(.+) hex$")
      now = { name = name or hex or title, from = from, kind = hex and "hex", text = "" }
      if sections[now.name] then error(case .. ": two sections " .. now.name, 0) end
      sections[#sections + 1], sections[now.name] = now, now
    elseif now then
      now.text = now.text .. line
    else
      sections.head = sections.head .. line
    end
  end
  return sections
end

local function unparse(case, sections)
  local out = { sections.head }
  for _, s in ipairs(sections) do
    local more = s.kind and " " .. s.kind or s.from and " = " .. s.from or ""
    if ("\n" .. s.text):find("\n%-%- [^\n]+ %-%-\n") or s.text:find("[^\n]$") then
      error(case .. ": " .. s.name .. " has a line like a section's, or no newline at its end", 0)
    end
    out[#out + 1] = "-- " .. s.name .. more .. " --\n" .. s.text
  end
  return table.concat(out)
end

-- The bytes of a section.
local function content(section)
  if section.kind == "hex" then
    return (section.text:gsub("%s", ""):gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end))
  elseif section.from and section.from:find("/", 1, true) then
    return read(section.from)
  elseif section.from then
    local other = parse(section.from)[section.name]
    return content(other or error("case " .. section.from .. " has no " .. section.name, 0))
  end
  return section.text
end

local function is_file(section) return section.name ~= "cmd" and not section.name:find("^want%.") end

local function extract(sections, dir)
  for _, s in ipairs(sections) do
    if is_file(s) then write(dir .. "/" .. s.name, content(s)) end
  end
end

local function wanted(sections)
  local function text(name) return sections[name] and sections[name].text end
  local out, err = text("want.out"), text("want.err")
  return { out = out or "", err = err or "", any = out or err,
           exit = tonumber(text("want.exit")) or (err and not out and 1 or 0) }
end

-- Puts what came out into the case, in place of what was expected.
local function save(case, sections, got)
  local default = got.err ~= "" and got.out == "" and 1 or 0
  local text = { ["want.out"] = got.out, ["want.err"] = got.err,
                 ["want.exit"] = got.exit ~= default and got.exit .. "\n" or "" }
  local kept = { head = sections.head }
  for _, s in ipairs(sections) do
    if not text[s.name] then kept[#kept + 1] = s end
  end
  for _, name in ipairs(EXPECTED) do
    if text[name] ~= "" then kept[#kept + 1] = { name = name, text = text[name] } end
  end
  write(FOLDER .. case .. ".txt", unparse(case, kept))
end

-- ---- Running ----------------------------------------------------------------------------------

local root = lines("pwd")[1]
local function program(variable, name)
  local p = os.getenv(variable) or (os.getenv("BUILD") or "build") .. "/" .. name
  return quote(p:sub(1, 1) == "/" and p or root .. "/" .. p)
end
local programs = ("export AS=%s DIS=%s SOMA=%s"):format(
  program("SOMA_AS", "soma-as"), program("SOMA_DIS", "soma-dis"), program("SOMA", "soma"))

local function run(sections, work, case)
  local dir = work .. "/" .. case
  extract(sections, dir)
  local cmd = sections.cmd and sections.cmd.text:gsub("%s+$", "") or DEFAULT_CMD
  local shell = ("cd %s && %s && { %s\n} >../out 2>../err </dev/null"):format(
    quote(dir), programs, cmd)
  local _, how, code = os.execute(shell)
  if how ~= "exit" then code = 128 + code end
  return { out = read(work .. "/out"), err = read(work .. "/err"), exit = code }
end

local function show(work, what, want, got)
  if want == got then return end
  write(work .. "/want", want)
  write(work .. "/got", got)
  print("# " .. what .. ":")
  for _, line in ipairs(lines("cd " .. quote(work) .. " && diff -u want got")) do print("#   " .. line) end
end

-- The cases whose names match, and a folder for each in `work`.
local function select_cases(pattern, work)
  local cases, folders = {}, {}
  for _, file in ipairs(lines("LC_ALL=C ls " .. FOLDER)) do
    local case = file:match("^(.+)%.txt$")
    if not case then
      error(FOLDER .. file .. " is not a case: a case is one file NAME.txt", 0)
    elseif not pattern or case:find(pattern) or case:find(pattern, 1, true) then
      cases[#cases + 1], folders[#folders + 1] = case, quote(work .. "/" .. case)
    end
  end
  if #cases > 0 then assert(os.execute("mkdir -p " .. table.concat(folders, " "))) end
  return cases
end

-- Runs a case; true when all is as expected.
local function check(i, case, work, update)
  local sections = parse(case)
  local got = run(sections, work, case)
  if update then
    save(case, sections, got)
    sections = parse(case)
  end
  local want = wanted(sections)
  local ok = want.any and want.out == got.out and want.err == got.err and want.exit == got.exit
  print(("%sok %d - %s"):format(ok and "" or "not ", i, case))
  if not ok then
    if not want.any then print("# neither want.out nor want.err; see `update` in tests/golden.lua") end
    show(work, "standard output", want.out, got.out)
    show(work, "standard error", want.err, got.err)
    if want.exit ~= got.exit then print("# exit status " .. got.exit .. ", not " .. want.exit) end
  end
  return ok
end

if arg[1] == "extract" then
  local dir = arg[2] or error("extract needs a folder", 0)
  for _, case in ipairs(select_cases(nil, dir)) do extract(parse(case), dir .. "/" .. case) end
  os.exit(true)
end

local update = arg[1] == "update"
local work = lines("mktemp -d")[1]
local cases = select_cases(arg[update and 2 or 1], work)
local failed = 0
for i, case in ipairs(cases) do
  local ok, result = pcall(check, i, case, work, update)
  if not ok then print(("not ok %d - %s\n# %s"):format(i, case, result)) end
  if not (ok and result) then failed = failed + 1 end
end
os.execute("rm -rf " .. quote(work))
print(("1..%d"):format(#cases))
print(("# %d of %d golden cases as expected"):format(#cases - failed, #cases))
os.exit(failed == 0 and #cases > 0)
