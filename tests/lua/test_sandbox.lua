-- soma --sandbox: what a script may do, and every way out that we could think of; --max-memory.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq

local command = (os.getenv "BUILD" or "build") .. "/soma"
local secret = "4711-the-canary-sings"
local canary = t.temp(secret)
local dir = os.tmpname()
os.remove(dir)
assert(os.execute("mkdir " .. dir))

-- Runs a script in a sandbox with these options: its exit status, standard output and error.
local function run(options, text, arguments)
  local script, out, err = t.temp() .. ".lua", t.temp(), t.temp()
  local f = assert(io.open(script, "wb"))
  f:write(text)
  f:close()
  local _, _, status = os.execute("timeout 60 " .. command .. " --sandbox " .. options .. " " .. script ..
    " " .. (arguments or "") .. " >" .. out .. " 2>" .. err .. " </dev/null")
  os.remove(script)
  return status, t.read(out), t.read(err)
end
local function has(text, part)
  if not text:find(part, 1, true) then error("missing '" .. part .. "' in:\n" .. text, 2) end
end
local function listing()
  local p = assert(io.popen("ls -A " .. dir))
  local s = p:read "a"
  p:close()
  return s
end

local fa, fc = dir .. "/a.npy", dir .. "/c.npy"
local a = soma.randn({4, 8}, "float32", {seed = 1})

case("a large instruction, for which there is no second thread", function()
  local status, out, err = run("", [[
    local soma = require "soma"
    local prog = soma.assemble("\ttarget trn2\nx\ttile sbuf float32[128, 1024]\nsection vector\n" ..
      "\tmemset x, 1.5\n\ttensor_tensor x, x, x, op=add\n\thalt\n")
    print(soma.core {threads = 2}:run(prog).ended)
  ]])
  eq(err, "") eq(status, 0)
  eq(out, "true\n")
end)

case("inputs, outputs, arguments", function()
  a:save_npy(fa)
  local status, out, err = run("--in a=" .. fa .. " --out=c=" .. fc .. " --max-seconds=50", [[
    local soma = require "soma"
    local run = soma.core {target = "trn2"}:run(soma.assemble(
      "\ttarget trn2\nx\ttensor float32[4, 8], input\ny\ttensor float32[4, 8], output\n" ..
      "tx\ttile sbuf float32[4, 8]\nin\tsem\nq\tqueue dge=hwdge\nsection sync\n" ..
      "\tdma_copy tx, x, queue=q $in\n\tdma_copy y, tx, queue=q $in>=16\n\thalt\n"),
      {x = soma.inputs.a})
    soma.outputs.c = run.out.y * 2
    print(run.ended, #arg, arg[0]:match "%.lua$", ...)
    print(type(os.clock()), coroutine.wrap(function() return "co" end)(), load("return 1 + 1")(),
      load("return x", "c", "t", {x = 5})(), math.type(collectgarbage "count"), ("x"):rep(2), _G._G == _G)
  ]], "p 'q r' --sandbox")
  eq(err, "") eq(status, 0)
  eq(out, "true\t3\t.lua\tp\tq r\t--sandbox\nnumber\tco\t2\t5\tfloat\txx\ttrue\n")
  eq(soma.equal(soma.load_npy(fc), a * 2), true)
  os.remove(fa) os.remove(fc)
  eq(listing(), "")
end)

case("exit status; no output of a script that failed", function()
  eq(run("", "return 3"), 3)
  eq(run("", "return 99"), 99)
  eq(run("", "return 2"), 1) -- that status is the command line's
  eq(run("", "error('interrupted', 0)"), 1)
  local ours, _, said = run("", "return 100")
  eq(ours, 1) eq(said, "soma: the script returned 100: a script's own exit status is 0 to 99, but not 2\n")
  local status, _, err = run("--out c=" .. fc, "require'soma'.outputs.c = require'soma'.zeros{2} error 'no'")
  eq(status, 1) has(err, "no") eq(listing(), "")
  eq(run("--out c=" .. fc, "require'soma'.outputs.c = require'soma'.zeros{2} return 4"), 4)
  eq(listing(), "")
end)

-- A script that must fail with this message and status (1), and leave nothing in the folder of its output.
local function held(name, message, text, options, want)
  case(name, function()
    local status, out, err = run("--max-seconds 20 --max-memory 96M " .. (options or "") ..
      " --out c=" .. fc, (text:gsub("CANARY", canary)))
    eq(status, want or 1, out .. err)
    has(err, message)
    eq(out, "")
    eq(err:find(secret, 1, true), nil, err)
    eq(listing(), "")
    eq(t.read(canary), secret)
  end)
end

-- Reading.
held("io.open", "global 'io'", "print(io.open('CANARY'):read 'a')")
held("io.lines", "global 'io'", "for l in io.lines 'CANARY' do print(l) end")
held("dofile", "global 'dofile'", "dofile 'CANARY'")
held("loadfile", "global 'loadfile'", "print(loadfile 'CANARY')")
held("load_npy", "not in a sandbox", "require 'soma'.load_npy 'CANARY'")
held("assemble_file", "not in a sandbox", "require 'soma'.assemble_file 'CANARY'")
held("load of a file", "a sandbox opens no files", "print(require 'soma'.load 'CANARY')")
held("a saved run", "a sandbox opens no files", "require 'soma'.core{}:resume 'CANARY'")
held("%include", "this source may not read files", [[require 'soma'.assemble '%include "CANARY"\n']])
held("%include by a define", "this source may not read files",
  [[require 'soma'.assemble('%include F\n', {defines = {F = '"CANARY"'}})]])
held("%include by a folder", "this source may not read files",
  [[require 'soma'.assemble('%include "passwd"\n', {include = "/etc"})]])
held("incbin", "this source may not read files",
  [[require 'soma'.assemble 'x\ttensor uint8[4], const\n\tincbin "CANARY"\n']])
held("npy", "this source may not read files",
  [[require 'soma'.assemble 'x\ttensor uint8[4], const\n\tnpy "CANARY"\n']])
held("a source named as a file", "this source may not read files",
  [[require 'soma'.assemble('%include "c"\n', {name = "CANARY"})]])
held("the environment", "field 'getenv'", "print(os.getenv 'HOME')")

-- Writing, other processes.
held("io.open to write", "global 'io'", "io.open('CANARY', 'w'):write 'x'")
held("os.remove", "field 'remove'", "os.remove 'CANARY'")
held("os.rename", "field 'rename'", "os.rename('CANARY', 'CANARY.b')")
held("os.tmpname", "field 'tmpname'", "os.tmpname()")
held("save_npy", "a sandbox opens no files", "require 'soma'.zeros{2}:save_npy 'CANARY'")
held("save_npy to its own output", "a sandbox opens no files", "require 'soma'.zeros{2}:save_npy '" .. fc .. "'")
held("save of a program", "a sandbox opens no files", "require 'soma'.assemble 'section sync\\n halt\\n':save 'CANARY'")
for name, call in pairs {trace = "save_trace(F)", html = "save_html(F)", csv = "save_table(F, 'Summary')",
                         run = "save(F)"} do
  held("save of a run: " .. name, "a sandbox opens no files", [[
    local soma, F = require 'soma', 'CANARY'
    local core = soma.core {trace = true, target = "trn2"}
    core:start(soma.assemble 'section sync\n\thalt\n'):]] .. call)
end
held("os.execute", "field 'execute'", "os.execute 'cat CANARY'")
held("os.exit", "field 'exit'", "os.exit(0)")
held("io.popen", "global 'io'", "print(io.popen 'cat CANARY':read 'a')")

-- C code and the interpreter's inside.
held("require of a C module", "there is only soma", "require 'lfs'")
held("require of io", "there is only soma", "require 'io'.open 'CANARY'")
held("package.loadlib", "global 'package'", "package.loadlib('libc.so.6', 'system')")
held("package.loaded", "global 'package'", "package.loaded.os.execute 'cat CANARY'")
held("debug.getregistry", "global 'debug'", "debug.getregistry()")
held("debug.sethook", "global 'debug'", "debug.sethook()")
held("string.dump", "field 'dump'", "load(string.dump(function() end))")
held("dump as a method", "method 'dump'", "(''):dump()")
held("bytecode", "attempt to load a binary chunk", [[assert(load "\27Lua\x54\0\x19\x93\r\n\x1a\n")]])
held("bytecode, asked for", "only text", [[load("\27Lua", "x", "b")]])
held("bytecode from a reader", "attempt to load a binary chunk",
  [[local i = 0 assert(load(function() i = i + 1 return i == 1 and "\27Lua" or nil end, "x", "bt"))]])
held("globals of a loaded chunk", "global 'io'", "assert(load 'return io.open')()")
held("globals of _ENV in a loaded chunk", "global 'io'", "assert(load('return _ENV'))() io.open 'CANARY'")
held("the metatable of strings", "field '__index'",
  "getmetatable('').__index.rep = nil")
held("a new metatable for strings", "table expected", "setmetatable('', {})")
held("string functions changed under trusted code", "has not set soma.outputs.c",
  "string.match, string.gsub = nil, nil table.concat = error next = error pairs = error")
held("the metatable of a tensor", "attempt to index",
  "getmetatable(require 'soma'.zeros{2}).__index = nil")
held("__gc", "no __gc in a sandbox", "setmetatable({}, {__gc = function() while true do end end})")
held("__gc after __index", "has not set soma.outputs.c",
  "setmetatable({}, setmetatable({}, {__index = {__gc = function() print 'late' end}})) collectgarbage()")
held("__gc that comes later", "has not set soma.outputs.c",
  "local m = {} setmetatable({}, m) m.__gc = function() print 'late' end m = nil collectgarbage()")
held("the collector stopped", "only collect, count and step", "collectgarbage 'stop'")
held("an error that is not text", "an error that cannot be shown",
  "error(setmetatable({}, {__tostring = function() error 'again' end}))")

-- Time.
local function ends(name, text)
  held(name, "the time limit of --max-seconds is reached", text, "--max-seconds 0.2", 101)
end
held("a loop, by processor time", "the limit of processor time of --max-cpu-seconds is reached", "while true do end",
  "--max-cpu-seconds 0.2", 101)
held("a search without end, by processor time", "the limit of processor time of --max-cpu-seconds is reached",
  "string.find(('a'):rep(3e4), ('.-'):rep(4) .. 'b')", "--max-cpu-seconds 0.2", 101)
ends("a loop", "while true do end")
ends("a loop in pcall", "while true do pcall(function() while true do end end) end")
ends("nested pcall", "local function f() pcall(f) pcall(f) end while true do f() end")
ends("a handler that loops", "xpcall(error, function() while true do end end)")
ends("a coroutine", "coroutine.wrap(function() while true do end end)()")
ends("coroutines without end",
  "while true do coroutine.resume(coroutine.create(function() while true do pcall(error) end end)) end")
ends("a coroutine that was there before", [[
  local co = coroutine.wrap(function() while true do coroutine.yield() pcall(string.rep, 'x', 9) end end)
  while true do pcall(co) end]])
ends("sort", "table.sort({1, 2, 3, 4}, function() while true do end end)")
ends("gsub", "('x'):gsub('x', function() while true do end end)")
ends("a metamethod", "return setmetatable({}, {__index = function(t, k) return t[k .. 1] end, __len = " ..
  "function() while true do end end}), #setmetatable({}, {__len = function() while true do end end})")
ends("__close", "local x <close> = setmetatable({}, {__close = function() while true do end end})")
ends("__tostring of an error", "error(setmetatable({}, {__tostring = function() while true do end end}))")
ends("a pattern without end", "string.find(('a'):rep(200000), ('.-'):rep(60) .. 'b')")
ends("table.move", "table.move({}, 1, 1 << 60, 2)")
ends("a run without end", [[
  local soma = require 'soma'
  soma.core {target = 'trn2'}:run(soma.assemble 'section sync\nl:\tjmp l\n')]])
ends("a run within a coroutine within pcall", [[
  local soma = require 'soma'
  local p = soma.assemble 'section sync\nl:\tjmp l\n'
  while true do
    coroutine.wrap(function() pcall(function() soma.core {target = 'trn2'}:run(p) end) end)()
  end]])
ends("a callback of a run", [[
  local soma = require 'soma'
  soma.core {target = 'trn2', events = function() while true do end end}:run(
    soma.assemble 's\tsem\nsection sync\n\tnop $s++\n\tnop $s>=1\n\thalt\n')]])

-- Memory.
local function full(name, text) held(name, "memory", text, nil, 102) end
full("a table", "local t = {} while true do t[#t + 1] = {} end")
full("string.rep", "('x'):rep(1 << 30)")
full("concatenation", "local s = 'x' while true do s = s .. s end")
full("table.concat", "local t = {} for i = 1, 1 << 16 do t[i] = ('x'):rep(4096) end table.concat(t)")
full("again and again", "local t = {} while true do if not pcall(function() while true do " ..
  "t[#t + 1] = ('x'):rep(1 << 20) end end) and #t > 10 then error 'memory is out' end end")
full("a tensor", "require 'soma'.zeros{1 << 40}")
full("tensors", "local s, t = require 'soma', {} while true do t[#t + 1] = s.ones{1 << 18} end")
full("cores", "local s, t = require 'soma', {} for i = 1, 9 do t[i] = s.core {target = 'trn2'} end")
full("HBM", [[
  local soma = require 'soma'
  soma.core {}:run(soma.assemble '\ttarget trn2\nx\ttensor uint8[64, 1 << 27]\nsection sync\n\thalt\n')]])
full("device tensors", [[
  local soma, t = require 'soma', {}
  while true do t[#t + 1] = soma.zeros({1 << 20}, 'float32', {device = 'neuron:0'}) end]])
full("a recorder", [[
  local soma = require 'soma'
  local core = soma.core {target = 'trn2', trace = true}
  local run = core:run(soma.assemble(
    's\tsem\nsection sync\n\tloop r1, 0, 4000000\n\tnop $s++\n\tendloop\n\thalt\n'))
  run:timeline()]])
full("%rep", "require 'soma'.assemble('section sync\\n%rep 60000\\n%rep 1000\\n nop\\n%endrep\\n%endrep\\n')")
held("a macro that calls itself", "error",
  "require 'soma'.assemble '%macro m 0\\n m\\n m\\n%endmacro\\nsection sync\\n m\\n'")
held("deep recursion", "stack overflow", "local function f() return f() + 1 end f()")
held("deep text", "error: ", "error('error: ' .. tostring(select(2, load(('('):rep(1e6)))):sub(1, 40))")

-- Outputs.
held("an output nobody named", "no --out names it", "require 'soma'.outputs.d = require 'soma'.zeros{2}")
held("an output that is not a tensor", "soma.outputs.c", "require 'soma'.outputs.c = {}")
held("outputs that fake a tensor", "soma.outputs.c",
  "require 'soma'.outputs.c = setmetatable({}, {__index = function() return print end, __name = 'soma.tensor'})")
held("outputs replaced", "not a table any more", "require 'soma'.outputs = 1")
held("outputs with a metatable", "has not set soma.outputs.c",
  "setmetatable(require 'soma'.outputs, {__index = function() print 'called' end, __pairs = print})")

-- Output.
case("output is cut at its bound", function()
  for _, text in ipairs {"while true do print(('x'):rep(99)) end", "for i = 1, 1e9 do print(i) end",
                         "while true do pcall(print, ('y'):rep(1 << 20)) end"} do
    local status, out, err = run("--max-output 10000", text)
    eq(status, 103) eq(#out, 10000)
    has(err, "it has printed more than --max-output allows: see --max-output")
  end
  local status, out = run("--max-output 10000", "print(('x'):rep(9999))")
  eq(status, 0) eq(#out, 10000)
  status, _, out = run("--max-output 2000", "error(('x'):rep(1 << 20))")
  eq(status, 1) eq(#out < 20000, true)
  local prints = "section sync\\n loop r1, 0, 100000\\n device_print 'a text'\\n endloop\\n halt\\n"
  status, out = run("--max-output 500", "require 'soma'.core{target='trn2'}:run(require 'soma'.assemble[[" ..
    prints:gsub("\\n", "\n"):gsub("\\\\n", "\n") .. "]])")
  eq(status == 103 or status == 1, true) eq(#out <= 500, true)
end)

case("inputs of archives", function()
  soma.save_npz(dir .. "/in.npz", {a = a, b = a * 3})
  soma.save_safetensors(dir .. "/in.safetensors", {a = a})
  local status, out, err = run("--in b=" .. dir .. "/in.npz --in c=" .. dir .. "/in.npz:a --in a=" .. dir ..
    "/in.safetensors", [[
    local i = require "soma".inputs
    print(require "soma".equal(i.b, i.a * 3), require "soma".equal(i.c, i.a))]])
  eq(err, "") eq(status, 0) eq(out, "true\ttrue\n")
  os.execute("rm " .. dir .. "/*")
end)

-- What comes of it as JSON.
local json = require "json" -- which leaves strings as they are written
local function plain(s)
  return (s:gsub("\\u(%x%x%x%x)", function(x) return utf8.char(tonumber(x, 16)) end)
    :gsub("\\(.)", {n = "\n", t = "\t", ['"'] = '"', ["\\"] = "\\"}))
end
local function parse(text)
  local v = json(text)
  for key, value in pairs(v) do
    if type(value) == "string" then v[key] = plain(value) end
  end
  return v
end
local function verdict(options, text)
  local status, out, err = run(options .. " --json", text)
  eq(err, "")
  local v = parse(out)
  eq(v.status, status)
  return v
end
case("a verdict for every ending", function()
  local v = verdict("", "print 'a \"text\"\\n' print('\\0\\255\\u{e9}') return 0")
  eq(v.verdict, "ok") eq(v.stdout, 'a "text"\n\n\0\u{FFFD}\u{e9}\n') eq(v.message, "")
  eq(v.seconds > 0 and v.cpu_seconds > 0 and v.memory_bytes > 1 << 20, true)
  v = verdict("", "print 'before' error 'no'")
  eq(v.verdict, "error") eq(v.status, 1) eq(v.stdout, "before\n") has(v.message, ":1: no")
  v = verdict("", "return 7")
  eq(v.verdict, "error") eq(v.status, 7) eq(v.message, "the script returned 7")
  v = verdict("", "x = = 1")
  eq(v.verdict, "error") eq(v.status, 1) has(v.message, "unexpected symbol")
  v = verdict("--max-seconds 0.2", "while true do end")
  eq(v.verdict, "time") eq(v.status, 101) has(v.message, "--max-seconds")
  v = verdict("--max-memory 64M", "local t = {} for i = 1, 1e9 do t[i] = {} end")
  eq(v.verdict, "memory") eq(v.status, 102) has(v.message, "--max-memory")
  v = verdict("--max-output 64", "while true do print 'x' end")
  eq(v.verdict, "output") eq(v.status, 103) eq(#v.stdout, 64)
  v = verdict("--in a=" .. dir .. "/none.npy", "")
  eq(v.verdict, "host") eq(v.status, 2) has(v.message, "cannot read")
  v = verdict("--no-such", "")
  eq(v.verdict, "host") eq(v.status, 2)
end)
case("a verdict of a program says what was wrong first, and lists what checks found", function()
  local soma = require "soma"
  local x, want, prog, out = t.temp() .. ".npy", t.temp() .. ".npy", t.temp() .. ".s", t.temp()
  local ones, twos = soma.ones({128, 64}, "float32"), soma.full({128, 64}, 2.0, "float32")
  ones:save_npy(x) twos:save_npy(want)
  local function grade(count, options, first)
    local f = assert(io.open(prog, "w"))
    f:write("x tensor float32[128, 64], input\ny tensor float32[128, 64], output\nt tile sbuf float32[128, 64]\n",
      "l sem\ns sem\nq queue dge=hwdge\nsection sync\n", first or "", " dma_copy t, x, queue=q $l\n dma_copy y, t, queue=q $s>=1\n halt\n",
      "section scalar\n activate t, t, fn=square $l>=", count, " $s++\n halt\n")
    f:close()
    os.execute(("%s/soma --sandbox --json --in x=%s %s %s >%s 2>&1"):format(os.getenv "BUILD" or "build", x, options, prog, out))
    local v = parse(t.read(out))
    return v, v.stdout ~= "" and parse(v.stdout).findings
  end
  local v, findings = grade(16, "--check all")
  eq(v.verdict, "ok") eq(v.message, "") eq(#findings, 0)
  v, findings = grade(15, "--check all")
  eq(v.verdict, "error") eq(v.status, 1) has(v.message, ".s:12: race: ")
  eq(#findings, 1) eq(findings[1].check, "race") eq(findings[1].line, 12)
  v = grade(16, "--expect y=" .. want)
  eq(v.verdict, "error") has(v.message, "y")
  eq(v.message:find "warning", nil)
  v = grade("x", "")
  eq(v.verdict, "error") has(v.message, ".s:12:")
  v = grade(17, "")
  eq(v.verdict, "error") has(v.message, "deadlock")
  -- What the program prints is not the reason, and is still in the text.
  v = grade(17, "", ' device_print "soma: error: y is as expected"\n')
  has(v.message, "deadlock") has(v.stderr, "y is as expected")
  for _, name in ipairs {x, want, prog, out} do os.remove(name) end
end)
case("a script of more bytes than memory allows", function()
  local v = verdict("--max-memory 64K", "--" .. ("x"):rep(1 << 17))
  eq(v.verdict, "memory") eq(v.status, 102)
end)
case("text that takes the compiler long, or much", function()
  local status, _, err = run("--max-memory 64M", "local x = " .. ("{"):rep(1 << 16))
  eq(status, 1, err)
  status = run("--max-memory 12M", "return {" .. ("1.5,"):rep(1 << 20) .. "}")
  eq(status, 102)
end)

-- Files that the script writes by their names.
case("page, trace, table, chart and tensors leave by name", function()
  local status, out, err = run("--file " .. dir .. "/page.html --file t.json=" .. dir .. "/trace.json --file " .. dir ..
    "/chart.svg --file rows=" .. dir .. "/rows.csv --file all.safetensors=" .. dir .. "/all.safetensors", [[
    local soma = require "soma"
    local run = soma.core {target = "trn2", trace = true}:run(soma.assemble "section sync\n\thalt\n")
    print(run:save_html "page.html", run:save_trace "t.json")
    local result = soma.sweep {over = {{"n", 1, 2, 3}}, run = function(v)
      print(v.n)
      if v.n == 3 then error("three", 0) end
      return {square = v.n ^ 2}
    end}
    print(#result.rows, result.rows[2].square, result.rows[3].fault)
    print(result:plot {x = "n", y = "square", file = "chart.svg"}, result:csv "rows",
      soma.save_safetensors("all.safetensors", {x = soma.ones {2}}))]])
  eq(err, "") eq(status, 0)
  eq(out, "true\ttrue\n1\n2\n3\n3\t4.0\tthree\ntrue\ttrue\ttrue\n")
  has(t.read(dir .. "/page.html"), "</html>")
  has(t.read(dir .. "/trace.json"), "traceEvents")
  has(t.read(dir .. "/chart.svg"), "</svg>")
  eq(t.read(dir .. "/rows.csv"), "n,square,fault\n1,1,\n2,4,\n3,,three\n")
  eq(soma.load_safetensors(dir .. "/all.safetensors").x:get(1), 1.0)
  os.execute("rm " .. dir .. "/*")
end)
held("a file that nobody named", "a sandbox opens no files",
  "require 'soma'.sweep {over = {{'n', 1}}, run = function() return {} end}:csv 'CANARY'")
held("a file that is not written", "the script has not written the file page.html",
  "require 'soma'.outputs.c = require 'soma'.zeros{2}", "--file " .. dir .. "/page.html")
case("files of a script that failed do not appear", function()
  eq(run("--file " .. dir .. "/rows", "require 'soma'.sweep {over = {{'n', 1}}, run = function() return {} end}:csv 'rows' error 'x'"), 1)
  eq(listing(), "")
end)

-- Kernels.
case("soma.kernel, soma.spmd and soma.jit", function()
  local status, out, err = run("", [[
    local soma = require "soma"
    local f = soma.jit(function(k, x)
      local y = k:output("y", x.dtype, x.shape)
      k:store(y, k:exp(k:load(x)))
      return y
    end, {target = "trn2"})
    local x = soma.randn({128, 64}, "float32", {seed = 1})
    print(soma.allclose(f(x), soma.exp(x), {rtol = 1e-5}), #f:check().findings)
    local k = soma.spmd({2}, function(k, i) k:store(k:output("o", "float32", {256, 8}):block(i, 128), k:fill("float32", {128, 8}, i)) end)
    print(soma.core {}:run(k:program()).out.o:sum())
    print(getmetatable(f), getmetatable(k), f.__index, k.__gc == nil and "" or "a finaliser")]])
  eq(err:match "[^\n]*", "soma: " .. err:match "soma: ([^\n]*)", err)
  eq(out:match "^[^\n]*\n[^\n]*\n", "true\t0\n1024.0\n")
  has(err, "a kernel has no '__gc'") eq(status, 1)
end)
held("a kernel in a chunk that is named as a file", "load takes a tensor in HBM", [[
  local chunk = "local soma = ... \nsecret = soma.kernel {}:load(1)"
  load(chunk, "@/etc/passwd")(require "soma")]])

-- Programs.
local function program_in(text, options)
  local source = t.temp(text)
  os.rename(source, source .. ".s")
  local out, err = t.temp(), t.temp()
  local _, _, status = os.execute("timeout 60 " .. command .. " --sandbox " .. source .. ".s " .. options ..
    " >" .. out .. " 2>" .. err .. " </dev/null")
  os.remove(source .. ".s")
  return status, t.read(out), t.read(err)
end
local doubled = [[
        target trn2
x       tensor float32[4, 8], input
y       tensor float32[4, 8], output
t       tile   sbuf float32[4, 8]
in      sem
done    sem
q       queue  dge=hwdge
section sync
        dma_copy  t, x, queue=q $in
        dma_copy  y, t, queue=q $done>=1
        halt
section vector
        tensor_scalar t, t, op0=mult, imm0=2.0 $in>=16 $done++
        halt
]]
case("a program, with its files", function()
  a:save_npy(fa)
  local status, out, err = program_in(doubled, "--in x=" .. fa .. " --out y=" .. fc .. " --check all --html " ..
    dir .. "/page.html --trace " .. dir .. "/t.json --csv Summary=" .. dir .. "/s.csv --timeline --json")
  eq(err, "") eq(status, 0)
  local v = parse(out)
  eq(v.verdict, "ok") eq(parse(v.stdout).time_ns > 0, true) has(v.stderr, "sync")
  eq(soma.equal(soma.load_npy(fc), a * 2), true)
  has(t.read(dir .. "/page.html"), "</html>") has(t.read(dir .. "/t.json"), "traceEvents")
  eq(program_in(doubled, "--in x=" .. fa .. " --expect y=" .. fc .. " --quiet"), 0)
  os.execute("rm " .. dir .. "/*")
end)
case("a program that fails, in each way", function()
  local function fails(status, message, text, options)
    local s, out, err = program_in(text, options or "")
    eq(s, status, out .. err)
    has(err, message)
    eq(err:find(secret, 1, true), nil)
  end
  fails(1, "may not read files", '%include "' .. canary .. '"\n')
  fails(1, "may not read files", 'x tensor uint8[4], const\n incbin "' .. canary .. '"\n')
  fails(1, "has no data", doubled) -- a name that the program does not have
  fails(1, "deadlock", "s sem\nsection sync\n nop $s>=1\n halt\n")
  fails(101, "--max-seconds", "section sync\nl: jmp l\n", "--max-seconds 0.3")
  fails(101, "--max-cpu-seconds", "section sync\nl: jmp l\n", "--max-cpu-seconds 0.3")
  fails(102, "--max-memory", "x tensor uint8[64, 1 << 27]\nsection sync\n halt\n", "--max-memory 96M")
  fails(102, "--max-memory", "section sync\n%rep 60000\n%rep 1000\n nop\n%endrep\n%endrep\n", "--max-memory 96M")
  fails(103, "--max-output", "section sync\n" .. (" bogus\n"):rep(100), "--max-output 900")
  fails(2, "no option -I", doubled, "-I /etc")
  fails(2, "no option --save", doubled, "--save " .. fc)
  fails(2, "plain files", doubled, "--in x=randn:1 --out y=-")
  fails(2, "cannot read", doubled, "--in x=" .. dir .. "/none.npy")
  fails(2, "a symbolic link", doubled, "--in x=randn:1 --out y=/proc/self/exe")
  eq(listing(), "")
end)
case("the page of a program that deadlocks, and none of its outputs", function()
  local status = program_in(doubled:gsub("in>=16", "in>=17"), "--in x=randn:1 --html " .. dir .. "/p.html --out y=" .. fc)
  eq(status, 1) eq(listing(), "p.html\n")
  os.execute("rm " .. dir .. "/*")
end)

-- Files that whoever starts the command has open are not the script's.
case("no other file is open", function()
  local script = t.temp() .. ".lua"
  local f = assert(io.open(script, "w"))
  f:write("local t = os.clock() while os.clock() - t < 9 do end")
  f:close()
  local out = t.temp()
  os.execute(string.format([[
    exec 7<%s
    %s --sandbox %s >%s 2>&1 & p=$!
    for i in $(seq 100); do
      child=$(cat /proc/$p/task/$p/children 2>/dev/null | tr -d ' ')
      [ -n "$child" ] && grep -q 'Seccomp:.*2' /proc/$child/status && break
      [ $i -gt 40 ] && grep -q 'open files *0 *0 ' /proc/$child/limits && break
      sleep 0.05
    done
    ls /proc/$child/fd >%s; grep Seccomp: /proc/$child/status >>%s
    kill -9 $p]], canary, command, script, out, out, out))
  os.remove(script)
  local text = t.read(out)
  eq(text:match "^7\n" or text:match "\n7\n", nil, text)
  local _, _, help = 0, 0, select(2, run("--help", ""))
  if help:find("are filtered by", 1, true) then has(text, "Seccomp:\t2") end
end)

local function refused(name, status, message, options)
  case(name, function()
    local s, out, err = run(options, "print 'ran'")
    eq(s, status, err)
    eq(out, "")
    has(err, message)
  end)
end
case("an output that is a link", function()
  assert(os.execute("ln -s " .. canary .. " " .. fc))
  local s, out, err = run("--out c=" .. fc, "print 'ran'")
  os.remove(fc)
  eq(s, 2) eq(out, "") has(err, "a symbolic link")
  eq(t.read(canary), secret)
end)
refused("an output that is a folder", 2, "a folder, not a plain file", "--out c=" .. dir)
refused("an output that is a device", 2, "a device or a pipe", "--out c=/dev/null")
refused("an output nowhere", 2, "cannot write", "--out c=" .. dir .. "/none/c.npy")
refused("an input that is not there", 2, "cannot read", "--in a=" .. dir .. "/none.npy")
refused("an unknown option", 2, "no option --trace", "--trace x.json")
refused("no pair", 2, "takes NAME=FILE.npy", "--in a")
refused("an output of another format", 2, "safetensors go by --file", "--out c=" .. dir .. "/c.npz")
refused("twice", 2, "twice", "--out c=" .. fc .. " --out c=" .. fc)
refused("a time", 2, "takes a number of seconds", "--max-seconds 0")
refused("a processor time", 2, "takes a number of seconds", "--max-cpu-seconds nan")
refused("a memory", 2, "takes a number of bytes", "--max-memory 12X")
refused("a memory past all bounds", 2, "takes a number of bytes", "--max-memory 99999999999G")
refused("two to run", 2, "a sandbox runs one script.lua or program.s", "prog.s")

-- A fault in Lua or in Soma, as far as a process can tell: the C function under os.clock() does what
-- was never meant. The filter is what stands in its way.
local filtered = select(2, run("--help", "")):find("are filtered by", 1, true)
local function compile(source, object)
  assert(os.execute(("${CC:-cc} -D_GNU_SOURCE -shared -fPIC -w -x c %s -o %s"):format(source, object)))
end
case("code that got out of Lua", function()
  local source, object = t.temp [[
    #include <fcntl.h>
    #include <stdlib.h>
    #include <sys/socket.h>
    #include <time.h>
    #include <unistd.h>
    clock_t clock(void) {
      switch (atoi(getenv("ESCAPE"))) {
      case 0: return open("CANARY", O_RDONLY) < 0 ? 5000000 : 0;
      case 1: return fork() < 0 ? 5000000 : 0;
      case 2: socket(AF_INET, SOCK_STREAM, 0); break;
      case 3: execl("/bin/cat", "cat", "CANARY", (char *)0); break;
      case 4: unlink("CANARY"); break;
      case 5: truncate("CANARY", 0); break;
      }
      return 0;
    }
  ]], t.temp()
  assert(os.execute(("sed -i 's|CANARY|%s|' %s"):format(canary, source)))
  compile(source, object)
  if not filtered then return end
  for i = 0, 5 do
    local script, out = t.temp "print(os.clock())", t.temp()
    os.rename(script, script .. ".lua")
    local _, _, status = os.execute(("ESCAPE=%d LD_PRELOAD=%s timeout 20 %s --sandbox %s.lua >%s 2>&1")
      :format(i, object, command, script, out))
    os.remove(script .. ".lua")
    eq(status, i < 2 and 0 or 104, "escape " .. i .. ": " .. t.read(out))
    has(t.read(out), i < 2 and "5.0" or "it has made a system call that a sandbox does not allow")
  end
  eq(t.read(canary), secret)
end)

case("a system without filters", function()
  local object, out, script = t.temp(), t.temp(), t.temp "print 'ran'"
  if not filtered then return end
  os.rename(script, script .. ".lua")
  compile(t.temp "int seccomp_load(void *c) { return -22; }", object)
  for options, status in pairs {[""] = 2, ["--no-filter"] = 0} do
    local _, _, got = os.execute(("LD_PRELOAD=%s %s --sandbox %s %s.lua >%s 2>&1"):format(object, command, options, script, out))
    eq(got, status)
    has(t.read(out), status == 0 and "ran" or "the sandbox cannot be closed: this system lets no filter of system " ..
      "calls be set; --no-filter runs without one")
  end
  os.remove(script .. ".lua")
end)

-- What a stranger hands in may be no file at all.
case("a script that is a link, a pipe or a folder", function()
  for made, message in pairs {["ln -s " .. canary] = "a symbolic link", mkfifo = "a device or a pipe", mkdir = "a folder"} do
    for _, name in ipairs {"/s.lua", "/s.s"} do
      assert(os.execute(made .. " " .. dir .. name))
      local out = t.temp()
      local _, _, status = os.execute("timeout 10 " .. command .. " --sandbox " .. dir .. name .. " >" .. out .. " 2>&1")
      os.execute("rm -r " .. dir .. name)
      eq(status, 2, made) has(t.read(out), "it is " .. message .. ", not a plain file")
      eq(t.read(out):find(secret, 1, true), nil)
    end
  end
end)
case("an error that is a table", function()
  local _, _, err = run("", "error {}")
  eq(err, "soma: an error that is a table\n")
end)

-- Whoever adds a function to the module decides here and in sandbox.lua what a stranger gets.
case("what is refused of the module", function()
  local _, out = run("", [[
    local soma, names = require "soma", {}
    for name, value in pairs(soma) do
      local ok, message = pcall(type(value) == "function" and value or type)
      if tostring(message):find("not in a sandbox", 1, true) then names[#names + 1] = name end
    end
    table.sort(names)
    print(table.concat(names, " "))]])
  eq(out, "assemble_file link load_npy load_npz load_safetensors load_world npz_names plan safetensors_names save_npz world\n")
end)

case("a program as text, but not a file's", function()
  local _, out = run("", [[
    local soma = require "soma"
    local p = soma.assemble("section sync\n halt\n")
    print(soma.disassemble(p) == soma.disassemble(p:bytes()), pcall(soma.disassemble, "x.sbc"))]])
  has(out, "true\tfalse\t") has(out, "'x.sbc': a sandbox opens no files")
end)

-- The system's limits around a script's process, and what a signal leaves of it.
case("the second wall, and signals", function()
  local script, out = t.temp "while true do end" .. ".lua", t.temp()
  assert(os.rename(script:sub(1, -5), script))
  local status = select(3, os.execute(string.format([[
    %s --sandbox --out c=%s %s >%s 2>&1 & p=$!
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      child=$(cat /proc/$p/task/$p/children 2>/dev/null | tr -d ' ')
      [ -n "$child" ] && grep -q 'open files *0 *0 ' /proc/$child/limits && break
      sleep 0.1
    done
    [ -d /proc/self ] && { cat /proc/$child/limits; ls /proc/$child/fd; } >>%s
    kill -TERM $p
    wait $p]], command, fc, script, out, out)))
  os.remove(script)
  eq(status, 143)
  eq(listing(), "")
  local text = t.read(out)
  if io.open "/proc/self/limits" then
    for _, limit in ipairs {"Max open files", "Max processes", "Max core file size"} do
      if not text:match(limit .. " +0 +0 ") then error(limit .. " in:\n" .. text) end
    end
    eq(text:match "\n0\n", nil, "standard input is open")
  end
end)

-- ---- Ordinary runs ------------------------------------------------------------------------

local function program(options)
  local out, err = t.temp(), t.temp()
  local _, _, status = os.execute(command .. " " .. options .. " >" .. out .. " 2>" .. err)
  return status, t.read(out), t.read(err)
end

case("--max-memory of the command", function()
  local source = t.temp "\ttarget trn2\nx\ttensor uint8[1 << 28]\nsection sync\n\thalt\n"
  local status, out, err = program(source .. " --max-memory 64M")
  eq(status, 1) eq(out, "") has(err, "out of host memory")
  eq(program(source .. " --max-memory 400M"), 0)
  eq(program(source .. " --max-memory 1K --quiet"), 1)
  status, _, err = program(source .. " --max-memory -1")
  eq(status, 2) has(err, "takes a number of bytes")
end)

case("max_memory of a core", function()
  local prog = soma.assemble "\ttarget trn2\nx\ttensor uint8[1 << 25]\nsection sync\n\thalt\n"
  t.raises("out of memory", soma.core, {target = "trn2", max_memory = 1 << 20})
  local core = soma.core {target = "trn2", max_memory = 1 << 26}
  for _ = 1, 20 do core:run(prog) end -- what a run took is given back
  core:close()
  core = soma.core {target = "trn2", max_memory = 1 << 25}
  t.raises("out of host memory", core.run, core, prog)
  eq(core:run(soma.assemble "section sync\n\thalt\n").ended, true)
  t.raises("max_memory", soma.core, {max_memory = -1})
  t.raises("max_memory", soma.core, {max_memory = "1G"})
end)

case("memory of a core is counted back to nothing", function()
  local d
  do
    local core <close> = soma.core {device = "neuron:3", target = "trn2", max_memory = 1 << 26, trace = true}
    d = soma.ones({1 << 10}, "float32"):to "neuron:3"
    local run = core:run(soma.assemble "section sync\n\thalt\n")
    eq(#run:timeline() > 0, true)
  end
  d = nil -- outlived its core: the budget goes with it
  collectgarbage() collectgarbage()
end)

assert(os.execute("rm -r " .. dir))
t.finish()
