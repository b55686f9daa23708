-- Where the time of two cores went: critical path, idle gaps, traces, tables, timeline and page.
local soma = require "soma"
local t = require "harness"
local json = require "json"
local two = require "two_cores"
local case, eq = t.case, t.eq
local function has(text, part)
  if not text:find(part, 1, true) then error("missing '" .. part .. "' in:\n" .. text, 2) end
end

local function recorded(source, inputs)
  return soma.core {trace = true, causes = true}:run(soma.assemble(source, {name = "two.s"}), inputs or {})
end
local chain = recorded(two.chain)
local x = soma.randn({2, 128, 64}, "float32", {seed = 1})
local exchange = recorded(two.exchange, {x = x})

case("the critical path goes from core to core", function()
  local at, data = 0.0, {}
  for _, s in ipairs(chain:critical_path()) do
    eq(s.start_ns, at)
    at = s.end_ns
    if s.kind == "data" then data[#data + 1] = s.core .. " " .. s.name end
    if s.kind == "delay" then eq(s.semaphore, "go") eq(s.end_ns - s.start_ns, 200.0) end
  end
  eq(data, {"0 memset", "1 tensor_tensor", "0 tensor_tensor"})
  eq(at <= chain.time_ns, true)
end)

case("--explain-time says whose engines, queues and semaphores they are", function()
  local text = chain:explain_time()
  has(text, "core 0 vector: data path")
  has(text, "core 1 vector: data path")
  has(text, "core 1 wait: until semaphore go was seen")
  has(text, "core 0 vector   tensor_tensor  two.s:6")
  has(text, "waiting for $go>=1: core 1 vector was late (tensor_tensor at two.s:9)")
  has(text, "core 1 vector idle")
  text = exchange:explain_time()
  has(text, "core 1 q: moving data")
end)

case("a path through transfers into the other core", function()
  local cores, last = {}, nil
  for _, s in ipairs(exchange:critical_path()) do
    cores[s.core] = true
    if s.kind == "transfer" then last = s end
  end
  eq(last.queue, "q") eq(cores[0] and cores[1], true)
end)

case("idle gaps name the core that was late", function()
  local late = {}
  for _, g in ipairs(chain:idle_gaps()) do
    eq(g.engine, "vector")
    if g.kind == "semaphore" then late[#late + 1] = g.core .. " for " .. g.late_core end
  end
  table.sort(late)
  eq(late, {"0 for 1", "1 for 0"})
  for core = 0, 1 do -- busy time and gaps are all
    local idle = 0
    for _, g in ipairs(chain:idle_gaps()) do
      if g.core == core then idle = idle + g.end_ns - g.start_ns end
    end
    eq(math.abs(idle + chain.stats.core[core + 1].engine.vector.busy_ns - chain.time_ns) < 1e-6, true)
  end
end)

case("each core has processes of its own in the trace", function()
  local path = t.temp()
  exchange:save_trace(path)
  local names, slices, flows = {}, {}, {}
  for _, e in ipairs(json(t.read(path)).traceEvents) do
    if e.name == "process_name" then names[e.pid] = e.args.name end
    if e.ph == "X" then slices[e.pid] = (slices[e.pid] or 0) + 1 end
    if e.ph == "s" or e.ph == "f" then flows[e.id] = (flows[e.id] or "") .. e.ph .. names[e.pid] .. ";" end
  end
  eq(names, {"core 0 engines", "core 0 DMA queues", "core 0 DMA engines", "core 0 semaphores", "core 0 memory",
    "core 1 engines", "core 1 DMA queues", "core 1 DMA engines", "core 1 semaphores", "core 1 memory"})
  -- of each two waits and three triggers; three transfers; their shares
  eq({slices[1], slices[2], slices[3], slices[6], slices[7], slices[8]}, {5, 3, 48, 5, 3, 48})
  local across = 0
  for _, ends in ipairs(flows) do
    if ends == "score 0 DMA engines;fcore 1 engines;" or ends == "score 1 DMA engines;fcore 0 engines;" then across = across + 1 end
  end
  eq(across, 2) -- each waits for the other's transfer
end)

local function rows(run, name)
  local path, out = t.temp() .. ".jsonl", {}
  run:save_table(path, name)
  for line in t.read(path):gmatch "[^\n]+" do out[#out + 1] = json(line) end
  os.remove(path)
  return out
end

case("rows of tables have their core", function()
  local cores = {}
  for _, row in ipairs(rows(chain, "Instruction")) do cores[#cores + 1] = row.pcore_idx .. row.compiler_opcode end
  eq(cores, {"0memset", "1tensor_tensor", "0tensor_tensor"})
  local shares, updates = {[0] = 0, 0}, {[0] = 0, 0}
  for _, row in ipairs(rows(exchange, "DmaPacket")) do shares[row.pcore_idx] = shares[row.pcore_idx] + 1 end
  for _, row in ipairs(rows(exchange, "SemaphoreUpdate")) do updates[row.pcore_idx] = updates[row.pcore_idx] + 1 end
  eq({shares[0], shares[1]}, {80, 80}) -- and 32 writes of a semaphore
  eq({updates[0], updates[1]}, {32, 32})
  eq(#rows(chain, "ActiveTime"), 3)
  local s = rows(chain, "Summary")[1]
  eq(s.vector_engine_instruction_count, 5) -- with the halts
  local busy = chain.stats.core[1].engine.vector.busy_ns + chain.stats.core[2].engine.vector.busy_ns
  t.near(s.vector_engine_active_time, busy / 1e9, 1e-9)
  t.near(s.vector_engine_active_time_percent, 100 * busy / (2 * chain.time_ns), 1e-5)
end)

case("the timeline shows one core after the other", function()
  local text = chain:timeline(60)
  local order = {}
  for word in text:gmatch "\n(%a+ ?%d?)" do order[#order + 1] = word end
  eq(order, {"core 0", "vector ", "core 1", "vector "})
end)

case("the page has both cores", function()
  local path = t.temp()
  exchange:save_html(path, "two cores")
  local d = json((t.read(path):match '<script id="trace" type="application/json">(.-)</script>'))
  eq(d.cores, 2) eq(#d.queues, 2) eq(d.queues[2][1], 24) eq(d.queues[2][2], "q")
  eq(#d.summary.engines, 10) eq(#d.figures.utilization, 10)
  eq(#d.use, 2) eq(d.peak[1], {65536, 0}) eq(d.peak[2], {65536, 0})
  local engines, events = {}, {}
  for _, c in ipairs(d.code) do engines[c[1]] = (engines[c[1]] or 0) + 1 end
  eq({engines[4], engines[9]}, {4, 4})
  for i = 1, #d.events, 9 do
    local key = d.events[i] .. ":" .. d.events[i + 3] -- kind and number
    events[key] = (events[key] or 0) + 1
  end
  eq({events["2:0"], events["2:24"], events["3:0"], events["3:256"]}, {48, 48, 32, 32})
end)

local meeting = t.read "tests/ui/meet.s"

case("the wait in a sendrecv is an event that both forms have", function()
  local told, kinds = {}, {}
  local run = soma.core {events = function(e)
    if e.kind == "meeting" then told[#told + 1] = ("%d %s pipe %d"):format(e.core, e.name, e.id) end
    if e.kind == "meeting" or e.kind == "trigger" then kinds[#kinds + 1] = e.kind end
  end}:run(soma.assemble(meeting), {})
  -- the later core's first; a trigger after the meetings it waited for
  eq(told, {"0 sendrecv_gpsimd pipe 2", "1 sendrecv_gpsimd pipe 2", "1 sendrecv pipe 0", "0 sendrecv pipe 0"})
  eq(kinds, {"meeting", "meeting", "meeting", "meeting", "trigger", "trigger"})
  eq(recorded(meeting).stats.trace_hash, run.stats.trace_hash)
end)

case("the wait in a sendrecv is a gap, a slice and a time of waiting", function()
  local run, late = recorded(meeting), nil
  for _, g in ipairs(run:idle_gaps()) do if g.kind == "meeting" then late = late or g end end
  eq({late.core, late.engine, late.line, late.late_core, late.late_engine, late.late_name, late.late_line},
    {1, "gpsimd", 15, 0, "gpsimd", "sendrecv_gpsimd", 15})
  eq(late.waited_ns > 2500 and late.waited_ns <= late.end_ns - late.start_ns, true)
  eq({late.semaphore, late.late_queue}, {})
  has(run:explain_time(), "waiting for the other core's sendrecv")
  has(run:explain_time(), "core 0 gpsimd was late (sendrecv_gpsimd at two.s:15)")
  has(run:timeline(60), "gpsimd    |+...........+-")
  local path, slices, ends, waits = t.temp(), {}, {}, {}
  run:save_trace(path)
  for _, e in ipairs(json(t.read(path)).traceEvents) do
    if e.ph == "X" and e.name:match "^wait for the other core's" then
      slices[#slices + 1] = e.name:match "%S+$" .. " " .. e.pid .. " line " .. e.args.source:match "%d+$"
      waits[e.pid] = (waits[e.pid] or 0) + e.dur * 1000
    end
    if e.ph == "s" or e.ph == "f" then ends[e.id] = (ends[e.id] or "") .. e.ph .. e.pid end
  end
  table.sort(slices)
  eq(slices, {"sendrecv 1 line 22", "sendrecv 6 line 22", "sendrecv_gpsimd 1 line 15", "sendrecv_gpsimd 6 line 15"})
  local arrows = {}
  for _, e in ipairs(ends) do arrows[e] = true end
  eq({arrows.s1f6, arrows.s6f1}, {true, true}) -- from whom came later
  local all = {0, 0}
  for core = 1, 2 do -- what a core's engines waited, in semaphores too
    for _, e in pairs(run.stats.core[core].engine) do all[core] = all[core] + e.waiting_ns end
  end
  eq(waits[1] <= all[1] + 1e-3 and waits[6] <= all[2] + 1e-3, true)
  for _, row in ipairs(rows(run, "Instruction")) do
    if row.compiler_opcode == "sendrecv_gpsimd" and row.pcore_idx == 1 then eq(row.evt_wait_time_ns > 2500, true) all.seen = true end
  end
  eq(all.seen, true)
end)

case("device_print says which core prints", function()
  local lines = {}
  soma.core {print = function(text) lines[#lines + 1] = text:match "^[^\n]*" end}:run(soma.assemble [[
t       tile    sbuf float32[1, 2]
section vector core=*
        memset  t, 1.0
        drain
        device_print "t", t
        halt
]], {})
  table.sort(lines)
  eq(lines, {"core 0: t float32[1, 2]", "core 1: t float32[1, 2]"})
end)

t.finish()
