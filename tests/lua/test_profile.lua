-- Where the time went, from Lua and from the command: figures, gaps, critical path, constants of the
-- clock, bounded recordings; and that every output keeps its schema.
local soma = require "soma"
local t = require "harness"
local json = require "json"
local case, eq, raises = t.case, t.eq, t.raises

local command = (os.getenv "BUILD" or "build") .. "/soma"
local function run(arguments)
  local out, err = t.temp(), t.temp()
  local _, _, status = os.execute(command .. " " .. arguments .. " >" .. out .. " 2>" .. err)
  return status, t.read(out), t.read(err)
end
local function has(text, part)
  if not text:find(part, 1, true) then error("missing '" .. part .. "' in:\n" .. text, 2) end
end

-- Rows of a CSV text, each a table by column; and the columns.
local function csv(s)
  local rows, columns = {}, nil
  for line in s:gmatch "([^\n]*)\n" do
    local cells, i = {}, 1
    while i <= #line + 1 do
      local cell, after
      if line:sub(i, i) == '"' then
        cell, after = "", i + 1
        while true do
          local part, close = line:match('^([^"]*)"()', after)
          cell, after = cell .. part, close
          if line:sub(after, after) ~= '"' then break end
          cell, after = cell .. '"', after + 1
        end
      else
        cell, after = line:match("^([^,]*)()", i)
      end
      cells[#cells + 1], i = cell, after + 1
    end
    if not columns then
      columns = cells
    else
      eq(#cells, #columns)
      local row = {}
      for k, name in ipairs(columns) do row[name] = tonumber(cells[k]) or cells[k] end
      rows[#rows + 1] = row
    end
  end
  return rows, columns
end

-- ---- A program: loads, sums and stores through one buffer -----------------------------------

local source = [[
        target  trn2
a       tensor  float32[512, 256]
c       tensor  float32[512, 256], output
t       tile    sbuf float32[128, 256]
u       tile    sbuf float32[128, 256]
loaded  sem
added   sem
stored  sem
qi      queue   rings=4, dge=hwdge
qo      queue   rings=4, dge=hwdge
section sync
.l:     dma_copy t, a[r0:+128, 0:256], queue=qi  $added>=r1  $loaded
        add     r1, r1, 1
        add     r0, r0, 128
        blt     r0, 512, .l
        halt
section vector
        mov     r1, 4
.l:     nop     $stored>=r2
        tensor_tensor u, t, t, op=add  $loaded>=r1  $added++
        add     r1, r1, 4
        add     r2, r2, 4
        ble     r1, 16, .l
        halt
section scalar
        mov     r1, 1
.l:     dma_copy c[r0:+128, 0:256], u, queue=qo  $added>=r1  $stored
        add     r1, r1, 1
        add     r0, r0, 128
        blt     r0, 512, .l
        halt
]]
local prog = soma.assemble(source, {name = "loop.s"})
local file = t.temp(source)
local whole = soma.core {trace = true, causes = true}:run(prog)

-- ---- From Lua -------------------------------------------------------------------------------

case("figures by the vendor's names", function()
  local s, time = whole.stats.summary, whole.time_ns * 1e-9
  local function near(got, want) if math.abs(got - want) > 1e-9 * math.abs(want) then eq(got, want) end end
  near(s.total_time, time)
  near(s.launch_time, 10e-6)
  eq(s.hbm_read_bytes, 524288) eq(s.hbm_write_bytes, 524288)
  near(s.mbu_estimated_percent, 100 * 1048576 / time / 716e9)
  near(s.dma_transfer_average_bytes, 131072)
  near(s.peak_flops_per_second, 2 * 128 * 128 * 2.4e9)
  eq(s.mfu_estimated_percent, 0.0) eq(s.hardware_flops, 0)
  near(s.vector_engine_active_time_percent, 100 * whole.stats.engine.vector.busy_ns * 1e-9 / time)
  eq(s.sbuf_touched_partition_bytes, 2048)
  eq(whole.stats.launch_ns, 10000.0)
  has(whole:summary(), "launch        10.00 us, not part of the simulated time")
  has(whole:summary(), "524.29 kB read, 524.29 kB written, MBU ")
  eq(whole:summary():find("roofline", 1, true), nil) -- no matmul
end)

case("the critical path has no gap and ends with the run", function()
  local path, at, kinds = whole:critical_path(), 0.0, {}
  for _, s in ipairs(path) do
    eq(s.start_ns, at)
    at = s.end_ns
    kinds[s.kind] = true
    if s.kind == "transfer" then eq(s.queue == "qi" or s.queue == "qo", true) end
    if s.cause == "semaphore" then eq(s.semaphore ~= nil, true) end
    eq(s.file, "loop.s")
  end
  eq(kinds.data and kinds.transfer and kinds.delay, true)
  eq(at <= whole.time_ns and whole.time_ns - at < 331, true)
  raises("causes = true", function() soma.core {}:run(prog):critical_path() end)
  raises("core: trace: 'foo' is not an engine; there are: tensor, vector", soma.core, {trace = {engines = {"foo"}}})
  raises("core: trace: '7' is not an engine", soma.core, {trace = {engines = {7}}})
  raises("option 'until_ns' must be more than 'from_ns'", soma.core, {trace = {from_ns = 5, until_ns = 5}})
  raises("save_table: there is no table 'Foo'; there are: Instruction, DmaPacket, SemaphoreUpdate, ActiveTime, Summary, CcOp, CcInstruction, CcStream",
    function() soma.core {trace = true}:run(prog):save_table("/nowhere/x", "Foo") end)
  raises("causes = true", function() soma.core {}:run(prog):explain_time() end)
end)

case("shares sum to 100 %", function()
  local sum, n = 0, 0
  local shares = whole:explain_time():match "shares of the critical path\n(.-)\nthe path"
  for whole_part, tenth in shares:gmatch "(%d+)%.(%d)%%" do
    sum, n = sum + 10 * math.tointeger(whole_part) + math.tointeger(tenth), n + 1
  end
  eq(sum, 1000) eq(n > 5, true)
end)

case("gaps and busy time are all", function()
  local idle, last = 0, math.huge
  for _, g in ipairs(whole:idle_gaps()) do
    eq(g.engine, "vector")
    eq(g.end_ns - g.start_ns < last + 1e-6, true)
    last = g.end_ns - g.start_ns
    idle = idle + last
  end
  local off = idle + whole.stats.engine.vector.busy_ns - whole.time_ns
  eq(math.abs(off) < 1e-6, true)
  local g = whole:idle_gaps(1)
  eq(#g, 1)
  eq(g[1].kind, "semaphore") eq(g[1].semaphore, "stored") eq(g[1].late_queue, "qo")
  eq(g[1].late_name, "dma_copy") eq(g[1].late_line, 27) eq(g[1].condition, ">=r2")
  raises("trace = true", function() soma.core {}:run(prog):idle_gaps() end)
  raises("expected a number of gaps", function() whole:idle_gaps(-1) end)
end)

case("constants of the clock", function()
  local c, text = soma.costs "trn2"
  eq(c.OVH_VECTOR.value, 70) eq(c.OVH_VECTOR.tag, "MEAS") eq(c.OVH_VECTOR.unit, "CYC")
  eq(soma.costs("trn1").OVH_VECTOR.value, 68)
  eq(c.PE_FP32.value, 25) eq(c.HBM_PEAK.value, 716000)
  has(text, "\nDMA_HWDGE ")
  eq(soma.costs("trn2", text).OVH_VECTOR.value, 70) -- what it prints can be read
  c = soma.costs("trn2", {OVH_VECTOR = 3})
  eq(c.OVH_VECTOR.value, 3) eq(c.OVH_VECTOR.tag, "SET")
  eq(soma.costs("trn2", "OVH_VECTOR trn1 3").OVH_VECTOR.value, 70)
  raises("costs, line 1: there is no constant BOGUS", soma.costs, "trn2", {BOGUS = 1})
  raises("costs: OVH_VECTOR = 1.5: expected a whole number by name", soma.costs, "trn2", {OVH_VECTOR = 1.5})
  raises("a text or a table", soma.costs, "trn2", 7)
  raises("trn9", soma.costs, "trn9")
end)

case("a core with its own constants, and one without data", function()
  local slow = soma.core {costs = {DMA_HWDGE = 60000}}:run(prog)
  eq(slow.time_ns > whole.time_ns + 59000, true)
  eq(soma.core {costs = "DMA_HWDGE 60000"}:run(prog).stats.trace_hash, slow.stats.trace_hash)
  raises("costs, line 2: there is no constant X", soma.core, {costs = "\nX 1\n"})
  raises("a text or a table", soma.core, {costs = true})
  local p = soma.assemble(source:gsub("%[512, 256%]\n", "[512, 256], input\n", 1), {name = "loop.s"})
  eq(soma.core {timing_only = true}:run(p).time_ns, whole.time_ns)
end)

case("bounded recordings", function()
  local path = t.temp() .. ".jsonl"
  local function count(trace, name)
    local r = soma.core {trace = trace}:run(prog)
    r:save_table(path, name)
    local n, text = 0, t.read(path)
    for line in text:gmatch "[^\n]+" do n = n + 1 json(line) end
    return n, text
  end
  local all = count(true, "Instruction") + count(true, "DmaPacket") + count(true, "SemaphoreUpdate")
  eq(count(true, "DmaPacket"), 64) eq(count({}, "DmaPacket"), 64) -- shares, and what their rings then write
  eq(json((select(2, count({last = 7}, "Summary")))).dropped_events > 0, true)
  eq(json((select(2, count({last = 7}, "Summary")))).trace_count, 7)
  eq(json((select(2, count({limit = 9}, "Summary")))).trace_count, 9)
  eq(json((select(2, count({limit = 1000000}, "Summary")))).dropped_events, 0)
  eq(all > 50, true)
  eq(count({engines = {"scalar"}}, "DmaPacket"), 32) -- the stores
  eq(count({engines = {"scalar", "vector"}}, "Instruction"), 8) -- sums and triggers
  eq(count({engines = {"scalar"}}, "Instruction"), 4) -- triggers
  local half = whole.time_ns / 2
  local before, after = count({until_ns = half}, "DmaPacket"), count({from_ns = half}, "DmaPacket")
  eq(before > 0 and after > 0 and before + after >= 64 and before < 64 and after < 64, true)
  os.remove(path)
  raises("either 'limit' or 'last'", soma.core, {trace = {limit = 1, last = 1}})
  raises("not an integer from 1", soma.core, {trace = {limit = 0}})
  raises("unknown option 'lst'", soma.core, {trace = {lst = 1}})
  raises("a time in nanoseconds", soma.core, {trace = {from_ns = -1}})
  raises("is not an engine", soma.core, {trace = {engines = {"dma"}}})
  raises("must be a table of names", soma.core, {trace = {engines = "vector"}})
  raises("must be a boolean or a table", soma.core, {trace = 5})
end)

-- ---- Schemas --------------------------------------------------------------------------------

local columns = {
  Instruction = "start_ts end_ts duration_ns engine pcore_idx opcode operands compiler_opcode id pc " ..
    "evt_wait_time_ns nki_source_location start_fs duration_fs packet_aggregation_id queue_name " ..
    "dma_trigger_start_ts dma_trigger_end_ts dma_wait_time_ns semaphore_id semaphore_increment",
  DmaPacket = "start_ts end_ts duration_ns pcore_idx id packet_idx packet_aggregation_id engine_idx " ..
    "read_bytes write_bytes transfer_bytes throughput queue_type variable queue_name queue_idx " ..
    "start_fs duration_fs",
  SemaphoreUpdate = "timestamp id value update_source update_operation_type update_trigger_timing " ..
    "pcore_idx timestamp_fs",
  ActiveTime = "start_ts end_ts engine pcore_idx duration_ns start_fs duration_fs",
}

case("tables keep their columns, CSV and JSON lines agree", function()
  for _, name in ipairs {"Instruction", "DmaPacket", "SemaphoreUpdate", "ActiveTime", "Summary"} do
    local lines = t.temp() .. ".jsonl"
    local table_path = t.temp()
    whole:save_table(table_path, name)
    whole:save_table(lines, name)
    local rows, heads = csv(t.read(table_path))
    if columns[name] then eq(table.concat(heads, " "), columns[name]) end
    local n = 0
    for line in t.read(lines):gmatch "[^\n]+" do
      n = n + 1
      local object = json(line)
      for _, head in ipairs(heads) do
        eq(object[head] == "null" and "" or object[head], rows[n][head], name .. "." .. head)
      end
    end
    eq(n, #rows)
    os.remove(lines)
  end
end)

case("bytes balance, engines do not overlap themselves, time is monotone", function()
  local path = t.temp()
  whole:save_table(path, "DmaPacket")
  local bytes, ends = 0, {}
  for _, row in ipairs((csv(t.read(path)))) do
    if row.duration_fs > 0 then bytes = bytes + row.transfer_bytes else eq(row.transfer_bytes, 4) end
    eq(row.start_fs >= (ends[row.engine_idx] or 0), true) -- a DMA engine serves a share at a time
    ends[row.engine_idx] = row.start_fs + row.duration_fs
  end
  eq(bytes, whole.stats.dma_bytes)
  whole:save_table(path, "ActiveTime")
  local active, last = 0, 0
  for _, row in ipairs((csv(t.read(path)))) do
    eq(row.engine, "vector")
    eq(row.start_fs > last or active == 0, true)
    last = row.start_fs + row.duration_fs
    active = active + row.duration_fs
  end
  eq(active, math.floor(whole.stats.engine.vector.busy_ns * 1e6 + 0.5))
  for _, name in ipairs {"Instruction", "SemaphoreUpdate"} do
    whole:save_table(path, name)
    local before = 0
    for _, row in ipairs((csv(t.read(path)))) do
      local at = row.start_fs or row.timestamp_fs
      eq(at >= before, true)
      before = at
    end
  end
end)

case("the trace has what Chrome's format asks for", function()
  local path = t.temp()
  whole:save_trace(path)
  local trace, flows, counters = json(t.read(path)), {}, 0
  eq(trace.otherData.target, "trn2")
  for _, e in ipairs(trace.traceEvents) do
    eq(type(e.ph) == "string" and math.type(e.pid) == "integer", true)
    if e.ph == "X" then
      local bound = e.cat == "dma" or e.cat == "transfer" -- to a trigger, which says the source
      eq(e.ts >= 0 and e.dur >= 0 and type(e.name) == "string", true)
      eq(type(bound and e.bind_id or e.args.source), "string")
      eq(e.args.operands ~= nil, not bound)
    elseif e.ph == "s" or e.ph == "f" then
      flows[e.id] = (flows[e.id] or 0) + (e.ph == "s" and 1 or 100)
    elseif e.ph == "C" then
      counters = counters + 1
    else
      eq(e.ph, "M")
    end
  end
  eq(#flows > 5 and counters > 20, true)
  for _, n in ipairs(flows) do eq(n, 101) end
end)

case("a trigger is in the trace and leads to its transfer and shares", function()
  local path = t.temp()
  whole:save_trace(path)
  local process, pending, moved, bound = {}, {}, 0, {}
  for _, e in ipairs(json(t.read(path)).traceEvents) do
    if e.name == "process_name" then process[e.pid] = e.args.name end
    if e.name == "pending transfers" then pending[#pending + 1] = e.args.pending end
    if e.bind_id then
      bound[e.bind_id] = bound[e.bind_id] or {}
      bound[e.bind_id][#bound[e.bind_id] + 1] = e
    end
  end
  eq({process[2], process[3]}, {"DMA queues", "DMA engines"})
  eq({pending[1], pending[#pending]}, {1, 0})
  local n = 0
  for _, list in pairs(bound) do
    n = n + 1
    local trigger, transfer, shares = nil, nil, 0
    for _, e in ipairs(list) do
      if e.cat == "trigger" then trigger = e end
      if e.cat == "transfer" then transfer = e end
    end
    eq(process[trigger.pid] .. process[transfer.pid], "enginesDMA queues")
    local load = trigger.args.queue == "qi"
    eq(trigger.args.source, load and "loop.s:12" or "loop.s:27")
    eq({trigger.name, trigger.args.semaphore, trigger.args.increment, trigger.args.bytes},
      {"dma_copy", load and "loaded" or "stored", 4, 131072})
    for _, e in ipairs(list) do
      if e.cat == "dma" then
        shares = shares + e.args.bytes
        eq({process[e.pid], e.args.queue, e.args["4 B to"]}, {"DMA engines", trigger.args.queue, trigger.args.semaphore})
        eq(e.ts >= transfer.ts and e.ts + e.dur < transfer.ts + transfer.dur + 1e-9 and e.ts > trigger.ts, true)
      end
    end
    eq({shares, transfer.args.bytes}, {131072, 131072})
    moved = moved + shares
  end
  eq({n, moved}, {8, whole.stats.dma_bytes})
end)

case("of a resumed run, transfers whose trigger was before say their instruction", function()
  local saved, path, bytes, orphans = t.temp(), t.temp(), {}, 0
  local first = soma.core {}:start(prog):until_time(1000)
  eq(first:save(saved), true)
  soma.core {trace = true}:resume(saved):continue():save_trace(path)
  local triggered = {}
  for _, e in ipairs(json(t.read(path)).traceEvents) do
    if e.cat == "trigger" then triggered[e.bind_id] = true end
    if e.cat == "dma" then bytes[e.bind_id] = (bytes[e.bind_id] or 0) + e.args.bytes end
    if e.cat == "transfer" and e.args.operands then
      orphans = orphans + 1
      eq({triggered[e.bind_id] == nil, e.args.source}, {true, "loop.s:12"})
    end
  end
  eq(orphans, 1)
  for _, n in pairs(bytes) do eq(n, 131072) end
end)

case("throughput in the trace adds up to the bytes", function()
  local path = t.temp()
  whole:save_trace(path)
  local sum, last, rate = 0, 0, 0
  for _, e in ipairs(json(t.read(path)).traceEvents) do
    if e.name == "GB/s" then
      sum, last, rate = sum + rate * (e.ts - last) * 1000, e.ts, e.args["GB/s"]
    end
  end
  eq(rate, 0.0)
  t.near(sum / whole.stats.dma_bytes, 1, 1e-3)
end)

case("rows of triggers name queue, semaphore and transfer", function()
  local path, by_id = t.temp(), {}
  whole:save_table(path, "Instruction")
  for _, row in ipairs((csv(t.read(path)))) do
    if row.opcode ~= "TENSOR_TENSOR" then
      eq(row.opcode, "DMA_COPY")
      eq(row.semaphore_increment, 4)
      eq(row.semaphore_id, row.queue_name == "qi" and "S[0] (loaded)" or "S[2] (stored)")
      by_id[row.packet_aggregation_id] = row
    else
      eq({row.queue_name, row.semaphore_id, row.packet_aggregation_id}, {"", "", ""})
    end
  end
  whole:save_table(path, "DmaPacket")
  local first, writes = {}, 0
  for _, row in ipairs((csv(t.read(path)))) do
    local trigger = by_id[row.packet_aggregation_id]
    eq(row.queue_name, trigger.queue_name)
    eq(row.start_fs >= trigger.start_fs, true)
    first[trigger] = first[trigger] or row.start_ts
    if row.transfer_bytes == 4 then
      writes = writes + 1
      eq({row.variable, row.end_ts <= trigger.dma_trigger_end_ts}, {trigger.semaphore_id, true})
    end
  end
  eq(writes, 32)
  for trigger, start in pairs(first) do eq(trigger.dma_trigger_start_ts, start) end
end)

case("rings without a share write their semaphore too; a repeated trigger keeps its transfers apart", function()
  local run = soma.core {trace = true}:run(soma.assemble([[
        target  trn2
a       tensor  float32[8, 64]
t       tile    sbuf float32[8, 64]
l       sem
q       queue   dge=none, rings=16
        dma     q, t, a
section sync
        dma_trigger q, 3   $l
        nop     $l>=48
        halt
]], {name = "static.s"}), {a = soma.zeros({8, 64}, "float32")})
  local path, writes, by = t.temp(), 0, {}
  run:save_table(path, "DmaPacket")
  for _, row in ipairs((csv(t.read(path)))) do
    if row.transfer_bytes == 4 then writes = writes + 1 else by[row.packet_aggregation_id] = row.transfer_bytes end
  end
  eq({writes, by[0], by[1], by[2], by[3] == nil}, {48, 2048, 2048, 2048, true})
  run:save_trace(path)
  local marks, triggers = 0, 0
  for _, e in ipairs(json(t.read(path)).traceEvents) do
    if e.ph == "i" and e.name == "4 B to l" then marks = marks + 1 end
    if e.cat == "trigger" then triggers = triggers + 1 end
  end
  eq({marks, triggers}, {45, 3})
end)

-- The texts of source files that a page has.
local function sources_of(path)
  local d = json((t.read(path):match '<script id="trace" type="application/json">(.-)</script>'))
  for k, text in ipairs(d.sources) do -- the reader leaves \u000a and \" as they are
    d.sources[k] = text:gsub("\\u00(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end):gsub('\\"', '"')
  end
  return d.sources, d.files
end

case("the page has the source: given text, files, none of a stranger's", function()
  local page = t.temp()
  whole:save_html(page)
  eq(sources_of(page), {source}) -- the text that soma.assemble got, under a name that is no file
  local script = t.temp()
  soma.core {trace = true}:run(soma.assemble_file(file)):save_html(page)
  eq(sources_of(page), {source})
  local sbc = t.temp()
  soma.assemble_file(file):save(sbc)
  soma.core {trace = true}:run(soma.load(sbc)):save_html(page)
  local texts, files = sources_of(page)
  eq({texts[1], files[1]}, {"null", file})
  local out = assert(io.open(script, "w")) -- a kernel's lines are those of its script
  out:write [[
local soma = require "soma"
local k = soma.kernel {target = "trn2"}
local x, y = k:input("x", "float32", {128, 64}), k:output("y", "float32", {128, 64})
k:store(y, k:exp(k:load(x)))
return k:program()
]]
  out:close()
  local program = assert(loadfile(script))()
  soma.core {trace = true}:run(program, {x = soma.zeros({128, 64}, "float32")}):save_html(page)
  local kernel, names = sources_of(page)
  eq({kernel[1], names[1]}, {t.read(script), script})
end)

-- ---- From the command -----------------------------------------------------------------------

case("--explain-time, --json", function()
  local status, out, err = run(file .. " --quiet --explain-time")
  eq(status, 0) eq(err, "")
  has(out, "critical path: ") has(out, "queue qo was late (dma_copy at " .. file .. ":27)")
  status, out = run(file .. " --json")
  eq(status, 0)
  local s = json(out)
  eq(s.launch_ns == 10000, true) eq(s.summary.hbm_read_bytes, 524288) eq(s.engine.vector.halted, true)
end)

case("--costs and --cost", function()
  local status, out = run "--costs"
  eq(status, 0) eq(out, (select(2, soma.costs "trn2")))
  eq(select(2, run "--costs trn3"), (select(2, soma.costs "trn3")))
  eq(select(2, run "--costs=trn1"), (select(2, soma.costs "trn1")))
  local good = t.temp("; slower\nDMA_HWDGE 60000\n")
  has(select(2, run("--costs --cost " .. good)), "DMA_HWDGE         60000  # NS   SET ")
  local _, text = run(file .. " --json --cost " .. good)
  eq(json(text).time_ns > whole.time_ns + 59000, true)
  local bad = t.temp("\nDMA_HWDGE soon\n")
  for _, words in ipairs {"--costs", file} do
    local err
    status, out, err = run(words .. " --cost " .. bad)
    eq(status, 1) eq(out, "")
    has(err, bad .. ":2: DMA_HWDGE is soon, not a whole number")
  end
  status, _, text = run "--costs --cost /nonexistent/costs"
  eq(status, 1) has(text, "cannot read '/nonexistent/costs'")
  status, _, text = run "--costs trn9"
  eq(status, 2) has(text, "--costs takes one of trn1, inf2, trn2, trn3, not 'trn9'; it runs nothing")
  status, _, text = run "--costs=trn9"
  eq(status, 2) has(text, "--costs takes one of trn1, inf2, trn2, trn3, not 'trn9'")
end)

case("bounded traces", function()
  local path = t.temp() .. ".jsonl"
  local function rows(flags, name)
    eq((run(file .. " --quiet " .. flags .. " --csv " .. name .. "=" .. path)), 0)
    local n, last = 0, nil
    for line in t.read(path):gmatch "[^\n]+" do n, last = n + 1, json(line) end
    return n, last
  end
  eq(select(2, rows("--trace-last 5", "Summary")).trace_count, 5)
  eq(select(2, rows("--trace-limit 6", "Summary")).trace_count, 6)
  eq(rows("--trace-engines scalar", "DmaPacket"), 32)
  eq(rows("--trace-engines scalar,sync", "DmaPacket"), 64)
  eq(rows("--trace-until 1", "DmaPacket"), 0)
  eq(rows("--trace-from 1", "DmaPacket"), 64)
  os.remove(path)
  local function bad(flags, part)
    local status, _, err = run(file .. " " .. flags)
    eq(status, 2) has(err, part)
  end
  bad("--trace-last 1 --trace-limit 2", "give either --trace-last or --trace-limit")
  bad("--trace-engines vector,dma", "not 'dma'; there are: tensor, vector, scalar, gpsimd, sync")
  bad("--trace-last many", "takes a whole number of at least 1")
end)

case("--html has the critical path, unless the trace is bounded", function()
  local page = t.temp()
  local function data(flags)
    eq((run(file .. " --quiet --html " .. page .. " " .. (flags or ""))), 0)
    return json((t.read(page):match '<script id="trace" type="application/json">(.-)</script>'))
  end
  local d, segments, sum = data(), whole:critical_path(), 0
  eq(#d.path.steps, 8 * #segments)
  for i = 8, #d.path.steps, 8 do sum = sum + d.path.steps[i] end
  eq(math.abs(sum - segments[#segments].end_ns * 1000) < 1, true) -- in ps
  eq(d.findings, 0) eq(#d.marks, 0)
  eq(d.figures.hbm[1], 524288)
  eq(data("--trace-last 5").path, nil)
  eq(data("--trace-limit 6").path, nil)
end)

t.finish()
