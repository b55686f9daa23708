-- Programs, cores and runs from Lua: results, stepping, faults, callbacks, lifetimes.
local soma = require "soma"
local t = require "harness"
local case, eq, fails, raises = t.case, t.eq, t.fails, t.raises

local path = "tests/lua/add.s"
local source = t.read(path)
local prog = soma.assemble_file(path)
local a = soma.randn({4, 8}, "float32", {seed = 1})
local b = soma.randn({4, 8}, "float32", {seed = 2})

local function program(body) return soma.assemble("target trn2\n" .. body .. "\n") end

case("a program and what it has", function()
  eq(prog:target(), "trn2")
  local list = prog:tensors()
  eq(#list, 3) eq(list[1].name, "a") eq(list[1].role, "input") eq(list[3].role, "output")
  eq(list[1].shape, {4, 8}) eq(list[1].bytes, 128) eq(list[1].dtype, "float32")
  local tile = prog:tiles()[2]
  eq(tile.name, "tb") eq(tile.memory, "sbuf") eq(tile.shape, {4, 8}) eq(tile.bytes, 32) eq(tile.partition, 0)
  eq(prog:warnings(), nil) eq(tostring(prog), "soma.program for trn2")
end)

case("a run gives the exact sum", function()
  local run = soma.core {}:run(prog, {a = a, b = b})
  eq(soma.equal(run.out.c, a + b), true)
  eq(run.ended, true) eq(run.fault, nil)
  local s = run.stats
  eq(s.instructions, 8) eq(s.dma_transfers, 3) eq(s.dma_bytes, 384)
  eq(s.host_to_device, 256) eq(s.engine.vector.data_instructions, 1) eq(s.engine.sync.halted, true)
  eq(run.time_ns, s.time_ns) eq(run.time_ns > 0, true)
  eq(run:summary():find("simulated time", 1, true), 1)
  raises("no field or method 'outs'", function() return run.outs end)
end)

case("strided inputs are read through their strides", function()
  local run = soma.core {}:run(prog, {a = a:transpose():copy():transpose(), b = b})
  eq(soma.equal(run.out.c, a + b), true)
end)

case("two runs give one trace", function()
  local h1 = soma.core {}:run(prog, {a = a, b = b}).stats.trace_hash
  local core = soma.core {}
  eq(core:run(prog, {a = a, b = b}).stats.trace_hash, h1)
  eq(core:run(prog, {a = a, b = b}).stats.trace_hash, h1)
end)

case("assembling: options and errors", function()
  eq(soma.assemble(source, {defines = {N = 16}}):tensors()[1].shape, {4, 16})
  eq(soma.assemble(source, {defines = {"N=24"}, name = "x.s"}):tensors()[1].shape, {4, 24})
  local message = raises("x.s:1:", soma.assemble, "  bogus r1\n", {name = "x.s"})
  eq(message:find("assemble: 1 error\n", 1, true) ~= nil, true)
  raises("nonexistent.s", soma.assemble_file, "tests/lua/nonexistent.s")
  raises("unknown target 'trn7'; there are: trn1, inf2, trn2, trn3", soma.assemble, "", {target = "trn7"})
  raises("did you mean 'defines'", soma.assemble, "", {define = {}})
  raises("define 'N' is a table", soma.assemble, "", {defines = {N = {}}})
  raises("must be a table", soma.assemble, "", {defines = 1})
  raises("'include' must hold strings", soma.assemble, "", {include = {1}})
end)

case("saving, loading, printing", function()
  local file = t.temp()
  eq(prog:save(file), true)
  local loaded = soma.load(file)
  eq(loaded:bytes(), prog:bytes()) eq(soma.load(prog:bytes()):bytes(), prog:bytes())
  eq(soma.equal(soma.core {}:run(loaded, {a = a, b = b}).out.c, a + b), true)
  local x, message = soma.load("/nonexistent/x.sbc")
  eq(x, nil) eq(message, "cannot read '/nonexistent/x.sbc': No such file or directory")
  local bytes = prog:bytes()
  for _, n in ipairs {4, 8, 47, 48, 100, #bytes - 1} do eq(pcall(soma.load, bytes:sub(1, n)), false) end
  raises("neither a path nor", soma.load, "\0\0\0")
  eq(prog:save("/nonexistent/x.sbc"), nil)
  eq(soma.assemble(prog:source()):tensors()[3].name, "c")
end)

case("disassembling", function()
  local file = t.temp()
  eq(prog:save(file), true)
  local dis = assert(io.popen((os.getenv "BUILD" or "build") .. "/soma-dis " .. file))
  local want = dis:read "a"
  eq(dis:close(), true)
  eq(want:find("; updated by ", 1, true) ~= nil, true)
  eq(soma.disassemble(prog), want) eq(soma.disassemble(prog:bytes()), want) eq(soma.disassemble(file), want)
  eq(soma.assemble(want):bytes(), prog:bytes())
  local x, message = soma.disassemble "/nonexistent/x.sbc"
  eq(x, nil) eq(message, "cannot read '/nonexistent/x.sbc': No such file or directory")
  raises("(program or string expected, got no value)", soma.disassemble)
  raises("(program or string expected, got table)", soma.disassemble, {})
  raises("disassemble: neither a path nor", soma.disassemble, "\0\0\0")
  raises("disassemble: ", soma.disassemble, prog:bytes():sub(1, -2))
  local closed = soma.load(file)
  closed:close()
  raises("the program is closed", soma.disassemble, closed)
end)

case("inputs are checked by name", function()
  local core = soma.core {}
  raises("input tensor b is not bound", core.run, core, prog, {a = a})
  raises("input tensor a is not bound", core.run, core, prog)
  raises("no tensor d", core.run, core, prog, {a = a, b = b, d = a})
  raises("input 'a' must be a tensor, not a number", core.run, core, prog, {a = 1, b = b})
  raises("inputs must be given by name", core.run, core, prog, {a = a, b = b, [1] = a})
  raises("float32[4, 8], but the data given is float32[4, 4]", core.run, core, prog, {a = soma.ones({4, 4}), b = b})
  raises("the data given is int32[4, 8]", core.run, core, prog, {a = soma.ones({4, 8}, "int32"), b = b})
  raises("table expected", core.run, core, prog, 5)
  raises("soma.program expected", core.run, core, {}, {})
  raises("option 'faults'", core.run, core, prog, {a = a, b = b}, {faults = "maybe"})
  raises("unknown option 'fault'", core.run, core, prog, {a = a, b = b}, {fault = "return"})
end)

case("a start that failed leaves nothing behind", function()
  local core = soma.core {}
  pcall(core.run, core, prog, {a = soma.full({4, 8}, 7), b = soma.ones(3)})
  collectgarbage() collectgarbage()
  raises("input tensor a is not bound", core.run, core, prog, {b = b})
  eq(soma.equal(core:run(prog, {a = a, b = b}).out.c, a + b), true)
end)

case("options of a core", function()
  raises("did you mean 'target'?", soma.core, {tagret = "trn2"})
  raises("unknown check 'al'; there are: uninit, race, psum, overlap, range, port, output,",
    soma.core, {checks = "race,al"})
  raises("'schedule' is -1", soma.core, {schedule = -1})
  raises("unknown target 'trn9'", soma.core, {target = "trn9"})
  raises("'events' must be a function", soma.core, {events = 1})
  raises("'max_seconds' is negative", soma.core, {max_seconds = -1})
  raises("'max_seconds' is not a number", soma.core, {max_seconds = 0 / 0})
  raises("'max_cpu_seconds' is negative", soma.core, {max_cpu_seconds = -1})
  raises("costs, line 1: there is no constant NO_SUCH", soma.core, {costs = "NO_SUCH 4"})
  raises("'max_instructions' is -1", soma.core, {max_instructions = -1})
  raises("unknown simd level 'sse'", soma.core, {simd = "sse"})
  raises("'trace' must be a boolean", soma.core, {trace = 1})
  eq(soma.core {checks = "none", target = "trn2"}.target, "trn2")
  local other = soma.core {target = "trn3"}
  raises("program is for trn2, but the machine is a trn3", other.run, other, prog, {a = a, b = b})
  eq(soma.equal(soma.core {simd = "plain"}:run(prog, {a = a, b = b}).out.c, a + b), true)
end)

case("stepping", function()
  local core = soma.core {}
  local run = core:start(prog, {a = a, b = b})
  eq(run.ended, false) eq(run.time_ns, 0.0)
  run:step("sync")
  eq(run.stats.engine.sync.instructions, 1) eq(run.stats.engine.vector.instructions, 0)
  run:until_time(100)
  eq(run.ended, false)
  run:step_event()
  run:continue()
  eq(run.ended, true) eq(soma.equal(run.out.c, a + b), true)
  eq(run.time_ns, soma.core {}:run(prog, {a = a, b = b}).time_ns)
  run:continue()
  raises("'vectr' is not an engine; there are: tensor, vector, scalar, gpsimd, sync", run.step, run, "vectr")
  raises("a time in nanoseconds", run.until_time, run, -1)
  raises("a time in nanoseconds", run.until_time, run, 0 / 0)
  eq(soma.equal(run:fetch("a"), a), true)
  raises("no tensor 'x'", run.fetch, run, "x")
end)

case("semaphores, registers, memories", function()
  local core = soma.core {}
  raises("no program yet", core.semaphore, core, "loaded")
  local run = core:start(prog, {a = a, b = b})
  raises("soma.tensor expected", core.sbuf.write, core.sbuf, "ta", 1)
  core.sbuf:write("tc", a)
  eq(soma.equal(core.sbuf:read("tc"), a), true)
  run:continue()
  eq(core:semaphore("loaded"), 32) eq(core:semaphore("added"), 1) eq(core:register("sync", 5), -7)
  core:set_register("gpsimd", 0, 0xffffffff)
  eq(core:register("gpsimd", 0), -1)
  core:set_semaphore("added", 9)
  eq(core:semaphore("added"), 9)
  eq(soma.equal(core.sbuf:read("tc"), a + b), true)
  eq(core.sbuf:read {partition = 1, offset = 0, dtype = "float32", count = 8}:tolist()[1], a[1]:tolist())
  eq(core.sbuf:read {partition = 1, partitions = 2, bytes = 6}.shape, {2, 6})
  core.psum:write({partition = 3, offset = 64}, soma.tensor({1, 2, 3}))
  eq(core.psum:read {partition = 3, offset = 64, dtype = "float32", count = 3}:tolist(), {{1.0, 2.0, 3.0}})
  eq(soma.equal(core.sbuf:read("ta"), a), true)
  raises("tile 'ta' is in sbuf, not in psum", core.psum.read, core.psum, "ta")
  raises("no tile 'tz'", core.sbuf.read, core.sbuf, "tz")
  raises("psum has 128 partitions of 16384", core.psum.read, core.psum, {offset = 16384, bytes = 1})
  raises("psum has 128 partitions of 16384", core.psum.read, core.psum, {partition = 127, partitions = 2, bytes = 1})
  raises("not an integer from 0 to 127", core.psum.read, core.psum, {partition = 128, bytes = 1})
  raises("not a whole number of float32", core.psum.read, core.psum, {dtype = "float32", bytes = 7})
  raises("is float32[4, 8], the tensor float32[2]", core.sbuf.write, core.sbuf, "ta", soma.ones(2))
  raises("more rows than", core.sbuf.write, core.sbuf, {}, soma.ones({129, 1}))
  raises("0 to 255", core.semaphore, core, 256) raises("0 to 255", core.semaphore, core, -1)
  raises("no semaphore 'x'", core.semaphore, core, "x")
  raises("0 to 2147483647", core.set_semaphore, core, 0, 1 << 31)
  raises("0 to 63", core.register, core, "sync", 64)
  raises("32 bits", core.set_register, core, "sync", 0, 1 << 32)
  raises("no field or method 'hbm2'", function() return core.hbm2 end)
end)

local div = "section sync\n mov r1, 0\n div r0, r1, r1\n halt\n"

case("faults are tables", function()
  local core = soma.core {}
  local ok, fault = pcall(core.run, core, program(div))
  eq(ok, false) eq(type(fault), "table")
  eq(fault.kind, "fault") eq(fault.engine, "sync") eq(fault.pc, 1) eq(fault.line, 4)
  eq(type(fault.text), "string") eq(type(fault.time_ns), "number")
  eq(fault.instruction, "div r0, r1, r1")
  eq(tostring(fault):find(fault.file .. ":4: fault: ", 1, true), 1)
  local run = core:run(program(div), nil, {faults = "return"})
  eq(run.fault.kind, "fault") eq(run.ended, true)
  local dead = program("s sem\nsection vector\n event_semaphore $s>=1\n halt\n")
  eq(core:run(dead, {}, {faults = "return"}).fault.kind, "deadlock")
  local loop = program("section sync\n.l: jmp .l\n")
  eq(soma.core {max_instructions = 1000}:run(loop, {}, {faults = "return"}).fault.kind, "limit")
  eq(soma.core {max_time = 1e4}:run(loop, {}, {faults = "return"}).fault.kind, "limit")
  eq(soma.core {max_seconds = 0.2}:run(loop, {}, {faults = "return"}).fault.kind, "limit")
  local cpu = soma.core {max_cpu_seconds = 0.1}:run(loop, {}, {faults = "return"}).fault
  eq(cpu.kind, "limit") eq(cpu.text:match "processor time", "processor time")
  eq(tostring(setmetatable({}, getmetatable(fault))):find("fault", 1, true) ~= nil, true)
  eq(soma.equal(core:run(prog, {a = a, b = b}).out.c, a + b), true) -- the core is as good as new
end)

case("callbacks", function()
  local kinds, last = {}, 0
  local core = soma.core {events = function(e)
    kinds[e.kind] = (kinds[e.kind] or 0) + 1
    assert(e.end_ns >= e.start_ns)
  end}
  core:run(prog, {a = a, b = b})
  eq(kinds.instruction, 1) eq(kinds.dma ~= nil, true) eq(kinds.semaphore ~= nil, true)
  -- an error in a callback stops the run and comes out as it was raised
  local token = {}
  local stops = soma.core {events = function() error(token) end}
  local ok, message = pcall(stops.run, stops, prog, {a = a, b = b})
  eq(ok, false) eq(message == token, true)
  -- a long run reports progress; an error there ends it
  local n = 0
  local slow = soma.core {progress = function(instructions, ns, seconds)
    n = n + 1
    assert(instructions > 0 and ns >= 0 and seconds >= 0)
    if n == 3 then error("enough", 0) end
  end}
  local loop = program("section sync\n.l: jmp .l\n")
  eq(select(2, pcall(slow.run, slow, loop)), "enough") eq(n, 3)
  -- a debug hook gets to run during a run, as the interpreter's Ctrl-C needs it
  local hooked = soma.core {}
  local calls = 0 -- the first is the call of run itself
  debug.sethook(function()
    calls = calls + 1
    if calls == 3 then error("hooked", 0) end
  end, "c")
  local _, why = pcall(hooked.run, hooked, loop)
  debug.sethook()
  eq(why, "hooked")
end)

case("a core is not entered from its own callback", function()
  local core, run
  local seen = {}
  core = soma.core {events = function()
    if #seen > 0 then return end
    for i, f in ipairs {function() run:continue() end, function() core:run(prog, {a = a, b = b}) end,
      function() core:close() end, function() run:close() end, function() core:semaphore(0) end,
      function() core.sbuf:read("ta") end} do
      seen[i] = tostring(select(2, pcall(f)))
    end
  end}
  run = core:start(prog, {a = a, b = b})
  run:continue()
  eq(#seen, 6)
  for i = 1, 6 do eq(seen[i]:find("callback", 1, true) ~= nil, true, i .. ": " .. seen[i]) end
  eq(soma.equal(run.out.c, a + b), true)
end)

case("closed and abandoned objects", function()
  local core = soma.core {}
  local run = core:start(prog, {a = a, b = b})
  local memory = core.sbuf
  core:close() core:close()
  raises("closed", run.continue, run) raises("closed", core.run, core, prog, {})
  raises("closed", memory.read, memory, "ta") raises("closed", core.semaphore, core, 0)
  eq(run.stats.instructions, 0) eq(tostring(core), "soma.core (closed)")
  local p = soma.assemble(source)
  core = soma.core {trace = true}
  run = core:start(p, {a = a, b = b})
  p:close()
  raises("the program is closed", p.bytes, p) raises("the program is closed", core.run, core, p, {})
  run:continue()
  eq(soma.equal(run.out.c, a + b), true)
  p = nil
  local second = core:run(prog, {a = b, b = b}) -- the first run's outputs and trace stay
  collectgarbage() collectgarbage()
  eq(soma.equal(run.out.c, a + b), true) eq(soma.equal(second.out.c, b + b), true)
  eq(run:save_trace(t.temp()), true)
  raises("has started another run", run.fetch, run, "c")
  run:close() run:close() second:close()
  do local c <close> = soma.core {} c:run(prog, {a = a, b = b}) end
  for _ = 1, 50 do soma.core {}:start(prog, {a = a, b = b}) end
  collectgarbage() collectgarbage()
  local orphan = soma.core {}:run(prog, {a = a, b = b})
  collectgarbage() collectgarbage()
  eq(soma.equal(orphan:fetch("c"), a + b), true)
end)

case("a core in a coroutine", function()
  local run = coroutine.wrap(function() return soma.core {}:run(prog, {a = a, b = b}) end)()
  eq(soma.equal(run.out.c, a + b), true)
end)

case("threads", function()
  for _, n in ipairs {0, 1, 2, 256} do
    local run = soma.core {threads = n}:run(prog, {a = a, b = b})
    eq(soma.equal(run.out.c, a + b), true)
  end
  raises("core: option 'threads' is 257, not an integer from 0 to 256", function() soma.core {threads = 257} end)
  raises("core: option 'threads' is -1, not an integer from 0 to 256", function() soma.core {threads = -1} end)
  raises("core: option 'threads' is 1.5, not an integer from 0 to 256", function() soma.core {threads = 1.5} end)
end)

case("wrong things never crash", function()
  local core = soma.core {}
  local run = core:run(prog, {a = a, b = b})
  local things = {core, prog, run, core.sbuf, a, {}, 1, "x", print, 0 / 0, -1, math.maxinteger, true}
  for _, object in ipairs {core, prog, run, core.sbuf, core.psum} do
    for _, name in ipairs {"run", "start", "semaphore", "set_semaphore", "register", "set_register",
      "tensors", "tiles", "bytes", "source", "warnings", "target", "step", "step_event", "until_time",
      "fetch", "summary", "read", "write"} do
      local ok, f = pcall(function() return object[name] end)
      if ok and type(f) == "function" then
        pcall(f)
        for _, x in ipairs(things) do
          pcall(f, x)
          for _, y in ipairs(things) do pcall(f, object, x, y) pcall(f, object, x, 1, y) end
        end
      end
    end
  end
  eq(soma.equal(soma.core {}:run(prog, {a = a, b = b}).out.c, a + b), true)
end)

case("what one core alone cannot run", function()
  local sum = soma.assemble "target trn2\nt tensor float32[4, 8]\nu tensor float32[4, 8]\nsection gpsimd\n collective_permute dsts=[t], srcs=[u], pairs=[[0,1]]\n halt\n"
  raises("rank 1 in its pairs, the world has 0..0", function() soma.core {}:run(sum) end)
end)

case("a run that had ended says so after resuming", function()
  local prog = soma.assemble_file "tests/lua/add.s"
  local a, path = soma.ones {4, 8}, t.temp()
  local run = soma.core {}:run(prog, {a = a, b = a})
  assert(run:save(path))
  local again = assert(soma.core {}:resume(path))
  t.eq(again.ended, true)
  t.eq(soma.equal(again.out.c, a + a), true)
  t.eq(again:continue().time_ns, run.time_ns)
end)

case("results of a run print as text", function()
  local prog = soma.assemble_file "tests/lua/add.s"
  local a = soma.ones {4, 8}
  local run = soma.core {}:run(prog, {a = a, b = a})
  t.eq(tostring(run.out), "c = " .. tostring(a + a):gsub("\n", "\n  "))
  t.eq(tostring(run.stats.engine.tensor):match "^[^\n]*\n[^\n]*", "busy_ns = 0\ndata_instructions = 0")
  local text = tostring(run.stats)
  for _, line in ipairs {"core:\n  1:\n    adjusted_flops = 0\n", "\nengine:\n  gpsimd:\n    busy_ns = 0\n", "\ndma_bytes = 384\n",
                         "\ntrace_hash = " .. run.stats.trace_hash} do
    t.eq(text:find(line, 1, true) ~= nil, true, line)
  end
  t.eq(tostring(run.findings), "{}")
  local long = soma.assemble "target trn2\nx tensor float32[100, 8], output\nsection sync\n halt\n"
  t.eq(tostring(soma.core {}:run(long).out), "x = float32[100, 8]")
end)

t.case("vector's busy time beside gpsimd does not depend on how gpsimd's work is cut", function()
  local source = [[
        target  trn2
x       tile    sbuf bfloat16[128, 4096]
y       tile    sbuf bfloat16[128, 4096]
g       tile    sbuf float32[128, 8192]
h       tile    sbuf float32[128, 8192]
section vector
%%rep 24
        tensor_copy y, x
%%endrep
        halt
section gpsimd
%%rep %d
        tensor_copy h[:, 0:%d], g[:, 0:%d]
%%endrep
        halt
]]
  for _, cut in ipairs {{4, 8192}, {16, 2048}, {64, 512}} do
    local run = soma.core {timing_only = true}:run(soma.assemble(source:format(cut[1], cut[2], cut[2])), {})
    local busy = run.stats.engine.vector.busy_ns
    assert(busy <= run.time_ns and busy > run.time_ns - 1000, string.format("%d: %g of %g", cut[1], busy, run.time_ns))
  end
end)

t.finish()
