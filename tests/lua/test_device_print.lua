-- device_print and device_assert from Lua: what a host gets, of one core and two, once however the
-- run is cut, gone back in or judged; and from the kernel builder.
local soma = require "soma"
local t = require "harness"
local eq, case = t.eq, t.case

local function printed(source, options, how)
  local lines = {}
  options = options or {}
  options.print = function(text, to_stderr) lines[#lines + 1] = (to_stderr and "! " or "") .. text:match "^[^\n]*" end
  local core = soma.core(options)
  local run = how and how(core) or core:run(type(source) == "string" and soma.assemble(source) or source, {}, {faults = "return"})
  return lines, run
end

local source = [[
        target  trn2
t       tile    sbuf float32[1, 2]
x       tensor  float32[1, 2], output
done    sem
q       queue   dge=hwdge
section vector
        memset  t, 1.5          $done++
        loop    r1, 0, 3
        device_print "round", r1
        device_assert r1 < 3, "rounds"
        endloop
        device_print "done", $done      $done>=1
        device_assert t, "t"
        device_print "end", to=stderr
        halt
section sync
        dma_copy x, t, queue=q  $done>=1 $done
        halt
]]
local want = {"round 0", "round 1", "round 2", "done 1", "! end"}

case("each line comes once", function()
  eq((printed(source)), want)
  eq((printed(source, {checks = "all"})), want)
end)

case("a run that is saved on its way and resumed prints each line once", function()
  local path, prog, lines = t.temp(), soma.assemble(source), {}
  local options = {print = function(text, err) lines[#lines + 1] = (err and "! " or "") .. text:match "^[^\n]*" end}
  local run = soma.core(options):start(prog, {})
  while not run.ended do
    run:step_event()
    if not run.ended then
      assert(run:save(path))
      run = soma.core(options):resume(path)
    end
  end
  eq(lines, want)
end)

case("going back in the debugger is silent, going on is not", function()
  local folder = t.temp()
  os.remove(folder)
  local file, script = folder .. ".s", folder .. ".x"
  for path, text in pairs {[file] = source, [script] = "break 12\ncontinue\nback 3\ncontinue\n"} do
    local f = assert(io.open(path, "w"))
    f:write(text)
    f:close()
  end
  local p = assert(io.popen(("%s/soma --debug %s -x %s </dev/null 2>&1"):format(os.getenv "BUILD" or "build", file, script)))
  local text = p:read "a"
  p:close()
  os.remove(file) os.remove(script)
  local rounds = select(2, text:gsub("round %d", "")) -- of the way there; then of what is run again from where it went back to
  local first = text:find "round 2"
  eq(first ~= nil, true)
  eq(rounds >= 3 and rounds <= 5, true, text)
  eq(select(2, text:gsub("round 0", "")), 1, text)
end)

case("two cores: each line has its core, a semaphore is the core's own", function()
  local lines = printed [[
s       sem     core=*
section vector core=*
        nop     $s+=CORE + 5
        device_print "hello"    $s>=5
        device_print "s", $s
        device_print "core", CORE
        mov     r1, CORE
        device_assert r1 < 2, "cores"
        device_print "cores", __NCORES__
        halt
]]
  table.sort(lines)
  eq(lines, {"core 0: core 0", "core 0: cores 2", "core 0: hello", "core 0: s 5", "core 1: core 1", "core 1: cores 2", "core 1: hello", "core 1: s 6"})
end)

case("an object's semaphore is the program's", function()
  local dir = t.temp()
  os.remove(dir)
  local names = {}
  for i, text in ipairs {"a sem\nb sem\n global b\nsection vector\n nop $a++\n nop $a>=1 $b+=7\n halt\n",
                         " extern b sem\nsection scalar\n device_print 'b', $b  $b>=7\n halt\n"} do
    names[i] = dir .. i .. ".o"
    local f = assert(io.open(dir .. i .. ".s", "w"))
    f:write(text)
    f:close()
    assert(os.execute(("%s/soma-as -r -o %s %s"):format(os.getenv "BUILD" or "build", names[i], dir .. i .. ".s")))
    os.remove(dir .. i .. ".s")
  end
  assert(os.execute(("%s/soma-as -o %s %s"):format(os.getenv "BUILD" or "build", dir .. ".sbc", table.concat(names, " "))))
  local lines = printed(soma.load(dir .. ".sbc"))
  for _, name in ipairs(names) do os.remove(name) end
  os.remove(dir .. ".sbc")
  eq(lines, {"b 7"})
end)

case("checks see what is read: a register, a tile that nothing wrote, a race", function()
  local _, run = printed([[
t       tile    sbuf float32[1, 2]
u       tile    sbuf float32[1, 2]
section vector
        device_print "r", r5
        device_assert r6 == r7, "r"
        memset  u, 1.0
        drain
        loop    r1, 0, 2000
        nop
        endloop
        device_print "t", t
        device_assert t, "t"
        halt
section scalar
        loop    r1, 0, 200
        nop
        endloop
        device_assert u, "u"
        halt
]], {checks = "uninit,race"})
  local found = {}
  for _, f in ipairs(run.findings) do found[#found + 1] = ("%s %d"):format(f.check, f.line) end
  table.sort(found)
  eq(found, {"race 18", "uninit 11", "uninit 12", "uninit 4", "uninit 5"})
  eq(run.fault.line, 12)
end)

case("of the kernel builder", function()
  local k = soma.kernel {target = "trn2"}
  local y = k:output("y", "float32", {128, 4})
  local tile = k:tile("float32", {128, 4})
  k.vector.memset(tile, 2)
  k.any.device_print "text"
  k.any.device_print("t", tile[{0, 1}])
  k:loop(4, function(i)
    k.any.device_print("i =", i, {to = "stderr"})
    k.any.device_assert(i, "lt", 2, "too far")
  end)
  k:store(y, tile)
  local lines, run = printed(k:program())
  eq(lines[1], "text")
  eq({lines[2], lines[3], lines[4], lines[5]}, {"t float32[1, 4]", "! i = 0", "! i = 1", "! i = 2"})
  eq(tostring(run.fault):find("device_assert: too far: r%d+ is 2") ~= nil, true, tostring(run.fault))
  k = soma.kernel {target = "trn2"}
  y = k:output("y", "float32", {128, 4})
  tile = k:tile("float32", {128, 4})
  k.vector.memset(tile, 0)
  k.any.device_assert(tile, "none is 0")
  k:store(y, tile)
  _, run = printed(k:program())
  eq(tostring(run.fault):find("none is 0: element [0, 0]", 1, true) ~= nil, true, tostring(run.fault))
  for call, why in pairs {
    [function() k.any.device_print_semaphore("s", 0) end] = "made by the builder",
    [function() k.any.device_assert(5, "about", 0, "s") end] = "cond must be one of eq",
    [function() k.any.device_assert(5, "lt", 0) end] = "needs text",
    [function() k.any.device_print(5) end] = "text must be a string",
  } do
    local ok, message = pcall(call)
    eq(ok, false)
    eq(message:find(why, 1, true) ~= nil, true, message)
  end
end)

t.finish()
