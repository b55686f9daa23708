-- soma.kernel, soma.spmd and soma.jit. A kernel records calls and hands them to the builder; what is
-- wrong is raised with the line of the user's call.
local soma, host = ...
local V, record, tiles, run_body = host.view, host.record, host.tiles, host.loops

local Kernel = {}
for name, f in pairs(tiles) do Kernel[name] = f end
-- The builder's numbers; -1 lets it choose.
local engines = {any = -1, tensor = 0, vector = 1, scalar = 2, gpsimd = 3, sync = 4}
local roles = {temp = 0, input = 1, output = 2}
local CHUNK = "soma.kernel"

-- ---- Places and errors --------------------------------------------------------------------------

-- The user's call that is at work: the first function outside these files.
-- Level 1 is this function, 2 its caller, so the search begins at 3.
local function place()
  local level = 3
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then return "?", 0 end
    if info.what ~= "C" and info.short_src ~= CHUNK and info.currentline > 0 then
      return info.source:match "^@(.*)$" or info.short_src, info.currentline
    end
    level = level + 1
  end
end

-- Number of the file and line of the user's call, for records and tiles.
function Kernel:here()
  local file, line = place()
  local number = self.files[file]
  if not number then
    -- A table of files that is full is no reason to refuse an instruction: its place is then
    -- unknown.
    local ok, n = self.handle:file(file)
    number = ok and n or 0
    self.files[file] = number
  end
  return number, line
end

-- The same by its name.
function Kernel:at() return place() end

function Kernel:refuse(text)
  -- Core 0 and 1 record the same function; the message tells which of them it was.
  local file, line = place()
  local core = ("core %d: "):format(self.core)
  if self.cores > 1 and text:sub(1, #core) ~= core then text = core .. text end
  error(("%s:%d: %s"):format(file, line, text), 0)
end

-- What a call of the builder gives, or its message as an error.
local function check(k, ok, result, has_place)
  -- A text with a place was made when the instruction was recorded.
  if ok then return result end
  -- Such a text names its place already.
  if has_place then error(result, 0) end
  k:refuse(result)
end

-- The name that the user's line gives what a call returns: `local t = k:load(...)` makes "t".
-- Lines of the user's files, read when the first name is asked for.
local sources = {}
local function name_of_line()
  local file, line = place()
  local lines = sources[file]
  if not lines then
    lines = {}
    local f = io and io.open(file)
    -- A sandbox has no io.
    for text in f and f:lines() or function() end do lines[#lines + 1] = text end
    if f then f:close() end
    sources[file] = lines
  end
  local text = lines[line] or ""
  -- Both forms, `local t =` and `t =`; the name goes into reports and into the program.
  return text:match "^%s*local%s+([%a_][%w_]*)[%s,=]" or text:match "^%s*([%a_][%w_]*)%s*="
end

-- ---- What a kernel works on ---------------------------------------------------------------------

local function check_dtype(k, dtype)
  -- A number or nil would be a missing argument in most cases.
  if type(dtype) ~= "string" then
    k:refuse(("the data type must be a string, such as 'float32', not a %s"):format(type(dtype)))
  end
  if not V.code[dtype] then k:refuse(("'%s' is not a data type; soma.dtypes lists them"):format(tostring(dtype))) end
end

-- A list of whole numbers, as many as from `least` to `most`, each at least 1.
local function check_shape(k, what, shape, least, most)
  -- Plain tables only: a view has a shape of its own, but is none.
  local fine = type(shape) == "table" and getmetatable(shape) == nil and #shape >= least and #shape <= most
  for _, n in ipairs(fine and shape or {}) do fine = fine and math.type(n) == "integer" and n >= 1 end
  if not fine then
    k:refuse(("the shape of %s must be a list of %d to %d whole numbers of at least 1, not %s"):format(what, least, most,
      type(shape) == "table" and getmetatable(shape) == nil and V.text_of(shape) or tostring(shape)))
  end
end

-- 32 bits, as everything that the builder takes.
local function check_whole(k, what, n, low, high)
  if math.type(n) ~= "integer" then k:refuse(("%s must be a whole number, not %s"):format(what, tostring(n))) end
  if n < low or n > high then k:refuse(("%s is %d: it must be %d to %d"):format(what, n, low, high)) end
  return n
end

local function tensor(k, name, dtype, shape, role)
  if type(name) ~= "string" then k:refuse("the name of a tensor must be a string, not " .. tostring(name)) end
  check_dtype(k, dtype)
  check_shape(k, "tensor " .. name, shape, 1, 8)
  -- The second core sees what the first one has declared.
  for _, of in ipairs {k, k.first or nil} do
    local known, its = of.tensors[name], of.roles[name]
    -- Inputs and outputs are shared by both cores; temporary tensors are each core's own.
    local shared = of == k or its == "input" or its == "output" or role ~= "temp"
    if known and shared then
      local where = of == k and "already" or "on core 0"
      if its ~= role then k:refuse(("%s is a tensor of role %s %s, not %s"):format(name, its, where, role)) end
      if known.dtype ~= dtype or V.text_of(known.shape) ~= V.text_of(shape) then
        k:refuse(("%s is %s%s %s, not %s%s"):format(name, known.dtype, V.text_of(known.shape), where, dtype, V.text_of(shape)))
      end
    end
  end
  -- Declared again, it is the same tensor.
  if k.tensors[name] then return k.tensors[name] end
  local buffer = check(k, k.handle:tensor(name, V.code[dtype], shape, roles[role]))
  k.tensors[name], k.roles[name] = V.whole(k, buffer, name, "hbm", dtype, shape), role
  return k.tensors[name]
end
function Kernel:input(name, dtype, shape) return tensor(self, name, dtype, shape, "input") end
function Kernel:output(name, dtype, shape) return tensor(self, name, dtype, shape, "output") end
function Kernel:temp(name, dtype, shape) return tensor(self, name, dtype, shape, "temp") end
function Kernel:constant(t)
  -- Its values go into the program.
  if type(t) ~= "userdata" then self:refuse("constant takes a soma.tensor, not " .. tostring(t)) end
  local buffer = check(self, self.handle:constant(t))
  return V.whole(self, buffer, "constant", "hbm", t.dtype, t.shape)
end

local tile_options = {memory = true, name = true, partition = true, offset = true}

-- k:tile(dtype, shape [, {memory = "sbuf", name =, partition =, offset =}]): without a value yet.
function Kernel:tile(dtype, shape, o)
  o = o or {}
  V.check_options(self, "tile", o, tile_options)
  check_dtype(self, dtype)
  check_shape(self, "a tile", shape, 1, 5)
  local memory = o.memory or "sbuf"
  if not V.memory_code[memory] then self:refuse("memory must be sbuf or psum, not " .. tostring(memory)) end
  for d, n in ipairs(shape) do check_whole(self, ("dimension %d of a tile"):format(d), n, 1, V.MOST) end
  -- -1: the builder places it.
  local partition = o.partition and check_whole(self, "the partition of a tile", o.partition, 0, 127) or -1
  local offset = o.offset and check_whole(self, "the offset of a tile", o.offset, 0, V.MOST) or -1
  local file, line = self:here()
  -- Without a name in the source all are called t.
  local name = o.name or name_of_line() or "t"
  local buffer = check(self, self.handle:tile(name, V.memory_code[memory], V.code[dtype], shape, partition,
                                              offset, file, line))
  return V.whole(self, buffer, name, memory, dtype, shape)
end

-- k:finish_with(tile): its life ends here; uses that follow are refused.
function Kernel:finish_with(t)
  -- A tile of another kernel has the same methods, but not the same numbers.
  if not V.is_view(t) or t._k ~= self then self:refuse("finish_with takes a tile of this kernel, not " .. tostring(t)) end
  check(self, self.handle:end_life(t.buffer))
end

-- k:queue{dge = "hwdge", engine = "sync", priority = 0}: for the option queue of transfers.
function Kernel:queue(o)
  local modes = {none = 0, swdge = 1, hwdge = 2}
  o = o or {}
  V.check_options(self, "queue", o, {dge = true, engine = true, priority = true})
  local mode, engine = modes[o.dge or "hwdge"], engines[o.engine or "sync"]
  -- Only a queue with an engine can be used from there.
  if not mode or not engine or engine < 0 then self:refuse "queue takes dge = none, swdge or hwdge and the name of an engine" end
  local priority = check_whole(self, "the priority of a queue", o.priority or 0, 0, V.MOST)
  return {queue = check(self, self.handle:queue(mode, engine, priority))}
end

-- k:register([value]): a 32-bit register that lives on each engine that uses it.
function Kernel:register(value)
  -- An id of 0 is a register that has no value any more.
  local r = setmetatable({id = check(self, self.handle:register())}, V.Register)
  if value then self.any.mov(r, value) end
  return r
end

-- ---- Instructions -------------------------------------------------------------------------------

-- As the assembler has it: the operands say which of its instructions a mnemonic is.
-- Values, texts and tiles are different instructions under one mnemonic.
local function of_operands(op, arguments)
  local x = arguments[op == "device_print" and 2 or 1]
  local value = math.type(x) == "integer" or (type(x) == "table" and getmetatable(x) == V.Register)
  if op == "device_assert" then return V.is_view(x) and "device_assert_all" or op end
  if value then return "device_print_value" end
  -- A table without a metatable holds options.
  local options = type(x) == "table" and getmetatable(x) == nil
  return (arguments.n == 1 or (options and arguments.n == 2)) and "device_print_text" or op
end
local by_operands = {device_print = true, device_assert = true}

-- Instructions are looked up by name when they are first used.
local function engine_table(k, engine, name)
  return setmetatable({}, {__index = function(t, instruction)
    local op = host.opcodes[instruction]
    if not op then k:refuse(("there is no instruction '%s'; isa/manual.md lists them"):format(tostring(instruction))) end
    if not op.recorded then k:refuse(instruction .. " is made by the builder, or is for CC sequencers alone") end
    local function call(...)
      -- The operands may choose another instruction of the same name.
      local arguments = table.pack(...)
      local of = by_operands[instruction] and host.opcodes[of_operands(instruction, arguments)] or op
      k.last = check(k, k.handle:emit(record(k, engine, of, arguments)))
    end
    -- Kept: the next use of the name does not come here.
    rawset(t, instruction, call)
    return call
  end})
end

-- k:order(earlier, later): numbers of instructions, as k.last is after one.
-- Instructions are numbered in the order of their recording.
function Kernel:order(earlier, later)
  local what = "an instruction's number"
  local a, b = check_whole(self, what, earlier, 0, V.MOST), check_whole(self, what, later, 0, V.MOST)
  check(self, self.handle:order(a, b))
end

-- ---- Loops --------------------------------------------------------------------------------------

-- The end of the loop comes after both rounds have been recorded.
local function body(k, f, register)
  run_body(k, f, function() check(k, k.handle:endloop()) end, register)
  if register then register.id = 0 end -- it has no value after its loop
end

-- k:loop(n, f) or k:loop(start, stop [, step], f): f records a round, with the loop's register.
-- Bounds may be registers.
function Kernel:loop(...)
  local a = table.pack(...)
  -- The function is the last argument, whatever comes before it.
  local f = a[a.n]
  local start, stop, step = 0, a[1], 1
  if a.n > 2 then start, stop, step = a[1], a[2], a.n > 3 and a[3] or 1 end
  if type(f) ~= "function" then self:refuse "loop takes bounds and a function of the loop's register" end
  local numbers, regs = {}, {}
  for i, x in ipairs {start, stop} do
    local r = type(x) == "table" and getmetatable(x) == V.Register
    if not r and math.type(x) ~= "integer" then self:refuse("a loop's bound must be a whole number or a register, not " .. tostring(x)) end
    -- A bound is a number or a register; the other of the two is 0.
    numbers[i], regs[i] = r and 0 or check_whole(self, "a loop's bound", x, -V.MOST - 1, V.MOST), r and x.id or 0
  end
  check_whole(self, "a loop's step", step, -V.MOST - 1, V.MOST)
  local file, line = self:here()
  local id = check(self, self.handle:loop(numbers[1], numbers[2], step, regs[1], regs[2], file, line))
  body(self, f, setmetatable({id = id}, V.Register))
end

-- k:while_(register, f): rounds as long as the register is not 0, looked at before each.
function Kernel:while_(register, f)
  if type(register) ~= "table" or getmetatable(register) ~= V.Register then self:refuse "while_ takes a register" end
  local file, line = self:here()
  -- The builder looks at the register before each round.
  check(self, self.handle:while_(register.id, file, line))
  body(self, f)
end

-- ---- The program --------------------------------------------------------------------------------

function Kernel:program()
  if self.first then return self.first:program() end
  -- An error of the build is given again, rather than tried again.
  if self.wrong then error(self.wrong, 0) end
  if not self.made then
    local ok, result, has_place = self.handle:finish(self.second and self.second.handle or nil)
    if not ok then
      self.wrong = select(2, pcall(check, self, ok, result, has_place))
      error(self.wrong, 0)
    end
    self.made = result
  end
  return self.made
end
function Kernel:source()
  local program = self:program()
  return program:source()
end
-- What a kernel that is built says of itself; of two cores the program is core 0's to build.
-- All that is said of a kernel needs it to be built.
local function built(k)
  k:program()
  return k.handle
end
-- Each core has a report of its own.
function Kernel:report()
  local text = built(self):report()
  return self.second and ("core 0\n%s\ncore 1\n%s"):format(text, self.second:report()) or text
end
function Kernel:figures()
  local figures = built(self):figures()
  if self.second then figures.core = {built(self):figures(), self.second:figures()} end
  return figures
end
-- k:policies(): what optimize = 2 has tried, as {name =, time_ns =, chosen =}; nil if nothing was.
function Kernel:policies() return (self.first or self).handle.policies(built(self)) end
-- k:advice(): what would make it faster, each tried: {kind =, saved_ns =, text =, file =, line =, name =,
-- instruction =, times =, engine =}.
function Kernel:advice() return (self.first or self).handle.advice(built(self)) end
-- k:life(tile): where it was placed, and its first and last instruction.
function Kernel:life(t)
  return built(t._k):life(t.buffer)
end

function Kernel.__index(k, key)
  local value = Kernel[key]
  if value ~= nil then return value end
  k:refuse(("a kernel has no '%s'; lua/README.md lists its methods"):format(tostring(key)))
end
Kernel.__name = "soma.kernel"

local known = {target = "string", cores = "number", spill = "boolean", advice = "boolean", keep_order = "boolean", fixed_engines = "boolean",
               copies = "boolean", sbuf_bytes = "number", optimize = "number", front_end = "string",
               policy = "number", without = "number"} -- these two: for tests/bench/policies.lua

local function new(o, core)
  if type(o) ~= "table" then error("kernel takes a table of options, not " .. tostring(o), 3) end
  for name, value in pairs(o) do
    if not known[name] then error(("kernel: unknown option '%s'; it takes: advice, copies, cores, fixed_engines, front_end, keep_order, optimize, sbuf_bytes, spill, target"):format(tostring(name)), 3) end
    if type(value) ~= known[name] then error(("kernel: option '%s' must be a %s, not a %s"):format(name, known[name], type(value)), 3) end
  end
  -- As soma_kernel.h numbers them; 32 is that of advice, which is tried only when it is asked for.
  local flags = (o.spill and 1 or 0) | (o.keep_order and 2 or 0) | (o.fixed_engines and 4 or 0) | (o.copies and 8 or 0) | (o.advice == false and 0 or 32) | (o.policy or 0)
  if o.sbuf_bytes and (math.type(o.sbuf_bytes) ~= "integer" or o.sbuf_bytes < 1 or o.sbuf_bytes > 1 << 30) then
    error("kernel: sbuf_bytes must be a whole number of bytes, not " .. o.sbuf_bytes, 3)
  end
  local optimize = o.optimize or 1
  if optimize ~= 0 and optimize ~= 1 and optimize ~= 2 then error("kernel: optimize must be 0, 1 or 2, not " .. optimize, 3) end
  local cores = o.cores or 1
  if cores ~= 1 and cores ~= 2 then error("kernel: cores must be 1 or 2, not " .. tostring(cores), 3) end
  local k = {core = core, cores = cores, first = false, second = false, files = {}, tensors = {}, roles = {}, identities = {}, loops = {}, rounds = false, made = false, wrong = false, last = false}
  local ok, handle = pcall(host.new, o.target, flags, o.sbuf_bytes or 0, core, cores, math.tointeger(optimize), o.without or 0, o.front_end)
  if not ok then error(handle, 3) end
  k.handle = handle
  k.target = k.handle:target()
  for name, code in pairs(engines) do k[name] = engine_table(setmetatable(k, Kernel), code, name) end
  return setmetatable(k, Kernel)
end

-- soma.kernel{target = "trn2"}, or soma.kernel({target = "trn2", cores = 2}, function(k) ... end): the
-- function records what each core does, with a kernel of its own whose k.core is 0, then 1. What comes
-- back is core 0's, which builds the program of both.
local function kernel(o, f)
  o = o or {}
  local k = new(o, 0)
  if f ~= nil and type(f) ~= "function" then error("kernel: after the options must come a function of a kernel, not " .. tostring(f), 2) end
  if k.cores == 2 and not f then error("kernel: with two cores a function must record each: kernel({cores = 2}, function(k) ... end)", 2) end
  if f then f(k) end
  if k.cores == 2 then
    k.second = new(o, 1)
    k.second.first = k
    f(k.second)
  end
  return k
end

-- soma.spmd({rows, columns}, function(k, i, j) ... end [, options]): one kernel of a program for each
-- id of the grid, one after another; of two cores the first half is core 0's, the rest core 1's.
local function spmd(grid, f, o)
  -- Sizes may be 0: then nothing is recorded.
  if type(grid) ~= "table" or type(f) ~= "function" then error("spmd takes a list of sizes and a function of a kernel and its ids", 2) end
  for _, n in ipairs(grid) do
    if math.type(n) ~= "integer" or n < 0 then error("a size of spmd's grid must be a whole number, not " .. tostring(n), 2) end
  end
  local all = 1
  for _, n in ipairs(grid) do
    -- Divided rather than multiplied, so that nothing overflows.
    if n > 0 and all > V.MOST // n then error(("spmd: a grid of %s has more than %d programs"):format(V.text_of(grid), V.MOST), 2) end
    all = all * n
  end
  -- Every core goes through all ids, and records its own.
  return soma.kernel(o, function(k)
    local ids, program = {}, 0
    local function visit(d)
      if d > #grid then
        -- The first half of all programs, in the order of their ids.
        -- Counted in programs, not in ids of one dimension.
        local core = 2 * program < all and 0 or 1
        program = program + 1
        if k.cores == 1 or k.core == core then f(k, table.unpack(ids, 1, #grid)) end
        return
      end
      -- The last id changes fastest.
      for i = 0, grid[d] - 1 do
        ids[d] = i
        visit(d + 1)
      end
    end
    visit(1)
  end)
end

-- ---- Kernels as functions -----------------------------------------------------------------------

local Jit, jit_methods = {__name = "soma.jit"}, {}
Jit.__index = jit_methods -- not Jit itself: a script in a sandbox could give it a finaliser

-- Tensors by type and shape, everything else by its value: what is built depends on
-- these.
local function signature(values)
  local parts = {}
  for i = 1, values.n do
    local x = values[i]
    parts[i] = type(x) == "userdata" and x.dtype .. V.text_of(x.shape) or type(x) .. ":" .. tostring(x)
  end
  return table.concat(parts, ",")
end

-- Records the kernel for these arguments: tensors become inputs, the rest is given as it is.
local function build(jit, values, optimize)
  local names, outputs
  local o = {}
  for name, value in pairs(jit.options or {}) do o[name] = value end
  -- An option of this call comes before that of the kernel.
  o.optimize = optimize or o.optimize
  local k = soma.kernel(o, function(k)
    local given = {}
    names = {}
    for i = 1, values.n do
      local x = values[i]
      -- The first parameter is the kernel itself.
      local name = debug.getlocal(jit.f, i + 1) or "x" .. i
      given[i] = x
      if type(x) == "userdata" then
        given[i] = k:input(name, x.dtype, x.shape)
        -- Where the value is found when the kernel is run.
        names[#names + 1] = {name = name, at = i}
      end
    end
    local results = table.pack(jit.f(k, table.unpack(given, 1, values.n)))
    for i = 1, results.n do
      -- A tile is gone when the program has ended.
      if not V.is_view(results[i]) or results[i].memory ~= "hbm" then
        k:refuse("a kernel must return tensors that k:output gave, not " .. tostring(results[i]))
      end
    end
    -- Both cores record; the first one's tensors are those that are asked for.
    outputs = outputs or results
  end)
  return {kernel = k, program = k:program(), inputs = names, outputs = outputs}
end

local function core_of(jit, checks)
  -- The trace has the causes that a page shows.
  return soma.core {target = jit.kernel.target, checks = checks, trace = jit.trace, causes = jit.trace}
end

local function run(jit, built, values, checks)
  local inputs = {}
  -- Values of the call, by the names that the parameters have.
  for _, i in ipairs(built.inputs) do inputs[i.name] = values[i.at] end
  jit.kernel = built.kernel
  -- Checks are an option of a core, so that each set of them has its own.
  local key = checks or "plain"
  if not jit.cores[key] then jit.cores[key] = core_of(jit, checks) end
  return jit.cores[key]:run(built.program, inputs)
end

function Jit:__call(...)
  local values = table.pack(...)
  -- Built once for each signature.
  local key = signature(values)
  local built = self.built[key]
  if not built then
    built = build(self, values)
    self.built[key] = built
  end
  self.last, self.values = built, values
  self.run = run(self, built, values)
  local out = {}
  -- The outputs in the order in which the function has returned them.
  for i = 1, built.outputs.n do out[i] = self.run.out[built.outputs[i].name] end
  return table.unpack(out, 1, built.outputs.n)
end

-- Level 3: the message has the script's line.
local function called(jit, what)
  if not jit.last then error(what .. ": call the kernel first", 3) end
  return jit.last
end
function jit_methods:source() return called(self, "source").kernel:source() end
-- kernel:tune(...): policies tried for these arguments; calls with such arguments then use the fastest.
function jit_methods:tune(...)
  local values = table.pack(...)
  local built = build(self, values, 2)
  -- The fastest policy is in what was built.
  self.built[signature(values)], self.last, self.values = built, built, values
  return built.kernel:policies()
end
function jit_methods:report() return called(self, "report").kernel:report() end
-- kernel:check([checks]): the last call again under checks; its run.
function jit_methods:check(checks)
  local built = called(self, "check")
  if not checks then
    local usual = {}
    -- The usual checks are those that a user should begin with.
    for _, c in ipairs(soma.checks) do if c.usual then usual[#usual + 1] = c.name end end
    checks = table.concat(usual, ",")
  end
  return run(self, built, self.values, checks)
end
-- kernel:page(path): the last call again, as a page; true, or nil and a message.
function jit_methods:page(path)
  local built = called(self, "page")
  -- A core of its own, so that the kernel's cores record nothing.
  local recorder = setmetatable({kernel = built.kernel, cores = {}, trace = true}, Jit)
  return run(recorder, built, self.values):save_html(path)
end

-- soma.jit(function(k, x, y) ... end [, options of soma.kernel])
local function jit(f, o)
  if type(f) ~= "function" then error("jit takes a function of a kernel and its arguments", 2) end
  -- False rather than nil: the metatable would look further for nil.
  return setmetatable({f = f, options = o, built = {}, cores = {}, run = false, last = false, trace = false}, Jit)
end

return {kernel = kernel, spmd = spmd, jit = jit}
