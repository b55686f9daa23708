-- The tables of asm/reference.md that compare the preprocessor with NASM's: what they say about Soma is
-- true, and what they say about NASM 2.16 too where that is installed. Each directive and function of NASM
-- 2.16 is there or refused by name.
local build = os.getenv "BUILD" or "build"
local passed, failed = 0, 0
local function check(ok, what)
  if ok then passed = passed + 1 else failed = failed + 1; print("failed: " .. what) end
end

local dir = io.popen "mktemp -d":read "l"
local function write(name, text)
  local f = assert(io.open(dir .. "/" .. name, "w"))
  f:write(text)
  f:close()
end

local here = io.popen "pwd":read "l"
local as = (build:sub(1, 1) == "/" and "" or here .. "/") .. build .. "/soma-as"
local version = io.popen "nasm -v 2>/dev/null":read "a"
local nasm = version:find("version 2.16", 1, true) and "nasm"

-- What a preprocessor makes of the lines, without blanks and marks; its messages; whether it ran.
local function preprocess(program, lines)
  write("t.s", table.concat(lines, "\n") .. "\n")
  local p = io.popen(("cd '%s' && timeout 60 '%s' -E t.s 2>err"):format(dir, program))
  local out = {}
  for line in p:lines() do
    line = line:gsub("%s+", ""):gsub("'", '"')
    if line ~= "" and not line:find "^%%line" then out[#out + 1] = line end
  end
  local ok = p:close()
  local f = assert(io.open(dir .. "/err"))
  local messages = f:read "a"
  f:close()
  return table.concat(out, "\n"), messages, ok
end

-- The lines in the backquotes of a cell; nil when it has none.
local function code(cell)
  local lines = {}
  cell = cell:gsub("\\|", "|")
  while true do
    local line, rest = cell:match "^`([^`]*)`(.*)$"
    if not line then break end
    lines[#lines + 1] = line
    cell = rest:match "^<br>(.*)$"
    if not cell then break end
  end
  return #lines > 0 and lines
end

local function plain(lines)
  return (table.concat(lines, "\n"):gsub("[ \t]+", ""):gsub("'", '"'))
end

-- One side of a row: `result`, "refused...", "nothing", or empty where nothing is said.
local function compare(who, program, lines, cell)
  local what = ("%s of %s"):format(who, table.concat(lines, " / "))
  local out, messages, ok = preprocess(program, lines)
  if cell:find "^refused" then
    check(not ok and messages:find "error:" and not messages:find "unknown", what .. ": not refused by name")
  elseif cell:find "^nothing" then
    check(ok and out == "", what .. ": " .. out)
  elseif cell:find "warning" then
    check(ok and messages:find "warning:", what .. ": no warning")
  else
    local want = code(cell)
    if want then check(out == plain(want), what .. ":\n" .. out .. messages) end
  end
end

local f = assert(io.open "asm/reference.md")
local text = f:read("a"):match "\n### Compared with NASM 2.16\n(.-)\n## "
f:close()
local rows, refused = 0, 0
for line in text:gmatch "[^\n]+" do
  local cells = {}
  local body = line:match "^| (.*)|$"
  if body then
    body = body:gsub("\\|", "\0")
    for cell in body:gmatch "([^|]*)|?" do cells[#cells + 1] = (cell:gsub("%z", "\\|"):gsub("^%s+", ""):gsub("%s+$", "")) end
    while cells[#cells] == "" and #cells > 3 do cells[#cells] = nil end
  end
  local lines = body and code(cells[1])
  if lines then
    rows = rows + 1
    local two = not cells[3] or cells[3] == ""
    local ours = two and cells[2] or cells[3]
    if ours:find "^refused" then refused = refused + 1 end
    compare("soma-as", as, lines, ours)
    -- NASM's conditions have other names.
    if nasm and cells[2] ~= "" and not line:find "`jlt x`" then
      compare("nasm", nasm, lines, cells[2])
    end
  end
end
check(rows >= 45 and refused >= 12, ("only %d rows, %d of them refused"):format(rows, refused))

-- Every directive and function of NASM 2.16.
local directives = [[
assign iassign defalias idefalias define idefine defstr idefstr deftok ideftok macro imacro
pathsearch ipathsearch rmacro irmacro strcat istrcat strlen istrlen substr isubstr xdefine ixdefine
unmacro unimacro aliases arg clear depend else endif endm endmacro endrep error exitmacro exitrep
fatal include line local null pop pragma push rep repl require rotate stacksize undef undefalias use
warning if ifn elif elifn]]
local conditions = "ctx def defalias empty env id idn idni macro num str token usable using"
local functions = "abs cond count eval is isn num sel str strcat strlen substr tok"
for c in conditions:gmatch "%S+" do
  functions = functions .. " is" .. c .. " isn" .. c
  for _, head in ipairs { "if", "ifn", "elif", "elifn" } do directives = directives .. " " .. head .. c end
end
local known = {}
for line in io.popen("'" .. as .. "' --words"):lines() do
  known[line:match "^preprocessor (%S+)$" or ""] = true
end
local def = assert(io.open "asm/pp/directives.def")
for name in def:read("a"):gmatch 'REFUSED%("(%w+)"' do known[name] = true end
def:close()
for name in (directives .. " " .. functions):gmatch "%S+" do
  check(known[name], "%" .. name .. " is neither there nor refused by name")
end

os.execute("rm -rf '" .. dir .. "'")
print(("%d passed, %d failed%s"):format(passed, failed, nasm and "" or " (NASM 2.16 is not there)"))
os.exit(failed == 0)
