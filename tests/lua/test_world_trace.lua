-- Traces of ranks: timelines, Chrome traces, pages and events with the CC sequencers.
local soma = require "soma"
local t = require "harness"
local json = require "json"
local case, eq, raises = t.case, t.eq, t.raises
local function has(text, part) if not text:find(part, 1, true) then error("no " .. part .. " in " .. text, 2) end end

local sum = soma.assemble([==[
        target  trn1
tp      group   [[0, 1, 2]]
x       tensor  float32[3, 1024], input
y       tensor  float32[3, 1024], output
done    sem
section gpsimd
        all_reduce dsts=[y], srcs=[x], group=tp, op=add   $done++
        nop     $done>=1
        halt
]==], {name = "sum.s"})
local x = {[0] = soma.randn({3, 1024}, {seed = 1}), soma.randn({3, 1024}, {seed = 2}), soma.randn({3, 1024}, {seed = 3})}
local function run(options, faults)
  local how = {ranks = 3, target = "trn1", algorithm = "ring"}
  for k, v in pairs(options) do how[k] = v end
  local world = soma.world(how)
  return world:run(sum, function(r) return {x = x[r]} end, faults), world
end
local runs, world = run {trace = true} -- a page needs its world

case("a trace changes nothing", function()
  local plain = run {}
  eq({runs.hash, runs.time_ns}, {plain.hash, plain.time_ns})
  for r = 0, 2 do eq(soma.equal(runs[r].out.y, plain[r].out.y), true) end
end)

case("the timeline of a rank has a row for its CC sequencer and that one's queue", function()
  for r = 0, 2 do
    local text = runs[r]:timeline(100)
    for _, row in ipairs {"\ngpsimd  ", "\ncc0   ", "\nqcc0_"} do has(text, row) end
    eq(text:find("\ncc1", 1, true), nil)
    has(text:match "\ncc0[^\n]*", "...")
  end
end)

case("the Chrome trace of a rank has the CC sequencer's triggers and waits", function()
  local path = t.temp()
  eq(runs[1]:save_trace(path), true)
  local threads, triggers, waits, bytes, queues = {}, 0, 0, 0, 0
  local names = {}
  for _, e in ipairs(json(t.read(path)).traceEvents) do
    if e.name == "thread_name" then names[e.pid .. "." .. e.tid] = e.args.name end
    if e.ph == "X" then
      local on = names[e.pid .. "." .. e.tid]
      threads[on] = true
      if on == "cc0: DMA triggers" then
        triggers = triggers + 1
        eq(e.name, "dma_trigger")
        bytes = bytes + e.args.bytes
      elseif on == "cc0 sequencer: waits" then
        waits = waits + 1
        eq(e.name:match "^wait ", "wait ")
        eq(e.args.source, "sum.s:7")
      elseif on:match "^qcc0" then
        queues = queues + 1
        eq(e.args["triggered by"], "cc0")
      end
    end
  end
  eq({threads["cc0: DMA triggers"], threads["cc0 sequencer: waits"], threads["gpsimd sequencer: waits"], queues > 0}, {true, true, true, true})
  eq(waits >= 4, true)
  eq(triggers >= 4, true)
  eq(bytes >= 4 * 4096, true) -- to the next rank: two blocks to sum and two sums
end)

case("one Chrome trace of all ranks: processes are named after them, ids are not shared", function()
  local path, one, all, bound = t.temp(), {}, {}, {}
  eq(runs:save_trace(path), true)
  local whole = json(t.read(path))
  local name, count = {}, 0
  for _, e in ipairs(whole.traceEvents) do
    if e.name == "process_name" then
      name[e.pid] = e.args.name
      count = count + 1
    end
  end
  eq(count, 16) -- five of each rank, and that of the links
  local begins = {}
  for _, e in ipairs(whole.traceEvents) do
    local rank = tonumber(name[e.pid]:match "^rank (%d) %a") or -1
    eq(rank >= 0 or name[e.pid] == "links", true)
    if e.ph == "s" then begins[e.id] = rank end
    all[rank] = (all[rank] or 0) + 1
    if e.ph == "f" and begins[e.id] ~= rank then -- an arrow from another rank
      all[rank], all[begins[e.id]] = all[rank] - 1, all[begins[e.id]] - 1
    end
    local key = e.bind_id or e.ph == "s" and "arrow " .. e.id
    if key then
      eq(bound[key] or rank, rank)
      bound[key] = rank
    end
  end
  for r = 0, 2 do
    runs[r]:save_trace(path)
    local own = json(t.read(path))
    one[r] = #own.traceEvents
    eq(whole.otherData.total_us >= own.otherData.total_us, true)
  end
  eq(all, one)
  local plain = run {}
  raises("save_trace: the core was not made with trace = true", plain.save_trace, plain, path)
end)

case("arrows lead from the pushes of a rank to the waits of another", function()
  local path, slices, begins, ends, seen = t.temp(), {}, {}, {}, 0
  for _, algorithm in ipairs {"ring", "mesh"} do
    local all <close> = soma.world {ranks = 3, target = "trn1", algorithm = algorithm, trace = true}
    all:run(sum, function(r) return {x = x[r]} end):save_trace(path)
    local events, name, track = json(t.read(path)).traceEvents, {}, {}
    for _, e in ipairs(events) do
      if e.name == "process_name" then name[e.pid] = e.args.name end
      if e.name == "thread_name" then track[e.pid .. "." .. e.tid] = e.args.name end
      if e.ph == "X" then slices[#slices + 1] = e end
      if e.ph == "s" then begins[e.id] = e elseif e.ph == "f" then ends[e.id] = e end
    end
    local function slice_of(e, cat)
      for _, s in ipairs(slices) do
        if s.pid == e.pid and s.tid == e.tid and s.cat == cat and s.ts <= e.ts and e.ts <= s.ts + s.dur then return s end
      end
    end
    local reached = {}
    for id, e in pairs(begins) do
      local from, to = tonumber(name[e.pid]:match "^rank (%d)"), tonumber(name[ends[id].pid]:match "^rank (%d)")
      if from ~= to then
        local share, wait = slice_of(e, "dma"), slice_of(ends[id], "wait")
        has(track[e.pid .. "." .. e.tid], "DMA engine ")
        has(wait.name, "wait cc0_from")
        reached[wait], seen = true, seen + 1
        if algorithm == "ring" then eq(to, (from + 1) % 3) end
        local took = wait.ts + wait.dur - share.ts - share.dur -- LINK_LAT and the time until it is seen, and links
        eq(took > 0.5299 and (from // 2 ~= to // 2 or took < 0.5301), true)
      end
    end
    for _, s in ipairs(slices) do eq(reached[s] or not s.name:find "wait cc0_from", true) end
    slices, begins, ends = {}, {}, {}
  end
  eq(seen > 12, true)
end)

case("what a CC sequencer pushes and what it adds have DMA engines of their own", function()
  local path, engines, number = t.temp(), {}, {}
  eq(runs[1]:save_trace(path), true)
  local trace = json(t.read(path)).traceEvents
  for _, e in ipairs(trace) do
    if e.name == "thread_name" then number[e.pid .. "." .. e.tid] = tonumber(e.args.name:match "(%d+)$") end
  end
  for _, e in ipairs(trace) do
    if e.cat == "dma" then
      local set = engines[e.args.queue] or {}
      set[number[e.pid .. "." .. e.tid]] = true
      engines[e.args.queue] = set
    end
  end
  local list = {}
  for queue, set in pairs(engines) do
    local of = {}
    for engine in pairs(set) do of[#of + 1] = engine end
    table.sort(of)
    list[#list + 1] = queue .. ": " .. table.concat(of, " ")
  end
  table.sort(list)
  eq(list, {"qcc0_links: 0 1", "qcc0_local: 2 3 4 5 6"})
end)

case("the page of a rank has the CC sequencers after the engines", function()
  local path = t.temp()
  eq(runs[2]:save_html(path, "rank 2"), true)
  local d = json((t.read(path):match '<script id="trace" type="application/json">(.-)</script>'))
  eq({d.firstCc, d.ccs[1], #d.ccs, #d.summary.ccs, #d.summary.engines}, {10, "cc0", 3, 6, 5})
  eq(d.summary.ccs[1][3] > 0, true) -- it waited
  local of = {}
  for _, c in ipairs(d.code) do of[c[1] .. " " .. c[3]] = true end
  eq({of["10 dma_trigger"], of["3 nop"]}, {true, true})
end)

-- Whole picoseconds, and nanoseconds.
local function near(ps, ns)
  for i, v in ipairs(ps) do eq(math.abs(v - ns[i] * 1000) <= 1, true, v .. " and " .. ns[i]) end
end
local function page_of(path) return json((t.read(path):match '<script id="trace" type="application/json">(.-)</script>')) end

case("the page of a world has all ranks as their own pages have them, collectives, links and who updated", function()
  local path = t.temp()
  eq(runs:save_html(path, "a world"), true)
  local d = page_of(path)
  for r = 0, 2 do
    eq(runs[r]:save_html(path, "a world"), true)
    eq(d.ranks[r + 1], page_of(path))
  end
  eq({#d.ranks, d.world.instance, d.world.path}, {3, "trn1.32xlarge", nil})
  eq(#d.world.collectives, 3)
  for i, c in ipairs(runs.collectives) do
    local own = d.world.collectives[i]
    eq({own[1], own[3], own[4], own[5], own[6]}, {c.rank, c.op, c.algorithm, c.ranks, c.bytes})
    near({own[7], own[8]}, {c.start_ns, c.end_ns})
    eq(math.abs(own[10] - c.busbw * 1000) <= 0.5, true)
  end
  local bytes, carried = 0, 0
  for _, l in ipairs(d.world.links) do bytes = bytes + l[4] end
  for i = 4, #d.world.passes, 7 do carried = carried + d.world.passes[i] end
  eq({bytes > 0, carried}, {true, bytes})
  local by = {}
  for k = 1, #d.ranks[1].events, 9 do -- updates by other ranks have them as -2 - rank
    if d.ranks[1].events[k] == 3 and d.ranks[1].events[k + 1] == 254 then by[-2 - d.ranks[1].events[k + 2]] = true end
  end
  eq({by[0], by[1], by[2]}, {nil, true, true})
  eq(tostring(world), "soma.world of 3 ranks on trn1.32xlarge")
  local plain = run {}
  raises("save_html: the core was not made with trace = true", plain.save_html, plain, path)
end)

case("the critical path on pages: over ranks, and of one rank with the others as waits", function()
  local path, caused, open <close> = t.temp(), run {trace = true, causes = true}
  eq(caused:save_html(path), true)
  local d, ends, seen = page_of(path), 0, {}
  for i = 1, #d.world.path.steps, 7 do
    ends = ends + d.world.path.steps[i + 6]
    seen[d.world.path.steps[i]] = true
  end
  local last = caused[d.world.path.rank]:critical_path()
  near({ends}, {last[#last].end_ns})
  eq(#d.world.path.steps // 7, #last)
  eq(next(seen, next(seen)) ~= nil, true) -- two ranks or more
  for r = 0, 2 do
    local own, n = d.ranks[r + 1].path, 0
    for i = 8, #own.steps, 8 do n = n + own.steps[i] end
    local p = caused[r]:critical_path()
    near({n}, {p[#p].end_ns})
    local other = false
    for _, c in ipairs(own.causes) do other = other or c == "other ranks" end
    eq(other, true)
  end
end)

case("tables of a rank's collectives, of what its CC sequencers do, and of its streams", function()
  local path = t.temp()
  local function rows(r, name)
    eq(runs[r]:save_table(path .. ".jsonl", name), true)
    local list = {}
    for line in io.lines(path .. ".jsonl") do list[#list + 1] = json(line) end
    os.remove(path .. ".jsonl")
    return list
  end
  for r = 0, 2 do
    local own, ops = nil, rows(r, "CcOp")
    for _, c in ipairs(runs.collectives) do own = c.rank == r and c or own end
    local o = ops[1]
    eq({#ops, o.operation, o.algorithm, o.num_elements, o.dtype, o.op_id, o.stream_id, o.trigger_engine}, {1, "AllReduce", "Ring", 3072, "float32", 0, 0, "gpsimd"})
    eq({o.input_size, o.output_size, o.replica_group_id, o.replica_group, o.nki_source_location}, {12288, 12288, 0, "[[0, 1, 2]]", "sum.s:7"})
    eq({o.start_ts, o.end_ts}, {math.tointeger(own.start_ns // 1), math.tointeger(own.end_ns // 1)})
    eq(math.abs(o.algorithm_bandwidth / (o.output_size / own.ns * 1e9) - 1) < 1e-4, true)
    eq(math.abs(o.bus_bandwidth / o.algorithm_bandwidth - 4 / 3) < 1e-4, true)
    local waits, triggers = 0, 0
    for _, i in ipairs(rows(r, "CcInstruction")) do
      eq({i.core_idx, i.trigger_engine, i.trigger_start_ts, i.end_ts - i.start_ts}, {0, "gpsimd", 0, i.duration_ns})
      if i.kind == "wait" then waits = waits + 1 else triggers = triggers + 1 end
      eq(i.description, i.operands:match "^%$" and "event_semaphore" or "dma_trigger")
    end
    eq({waits > 3, triggers > 3}, {true, true})
    local streams = rows(r, "CcStream")
    eq({#streams, streams[1].stream_id, streams[1].cc_core_ids}, {1, 0, "[0]"})
  end
  eq(runs[0]:save_table(path, "CcOp"), true)
  eq(t.read(path):match "^[^\n]*", "start_ts,end_ts,duration_ns,operation,algorithm,num_elements,dtype,op_id,stream_id,stream_index,trigger_engine," ..
    "input_size,output_size,algorithm_bandwidth,bus_bandwidth,trigger_start_ts,replica_group_id,replica_group,pcore_idx,nki_source_location,start_fs,duration_fs")
end)

case("tables of a rank name the CC sequencer, and who updated", function()
  local path = t.temp()
  eq(runs[0]:save_table(path .. ".jsonl", "SemaphoreUpdate"), true)
  local by = {}
  for line in io.lines(path .. ".jsonl") do by[json(line).update_source] = true end
  os.remove(path .. ".jsonl")
  eq({by.rank, by.GpSimd}, {true, true})
end)

case("events of ranks come in one thread, and an error in a callback ends the world", function()
  local kinds, main = {}, coroutine.running()
  local told = run {threads = 3, events = function(e)
    eq(coroutine.running() == main, true)
    local key = tostring(e.engine) .. " " .. e.kind
    kinds[key] = (kinds[key] or 0) + 1
  end}
  eq(told.hash, runs.hash)
  eq((kinds["cc0 wait"] or 0) % 3, 0)
  eq(kinds["cc0 wait"] >= 12 and kinds["cc0 trigger"] >= 12, true)
  raises("no more", run, {events = function() error "no more" end})
end)

case("what is not built is refused", function()
  local alone = soma.assemble "target trn1\ng group [[0]]\nx tensor int8[4]\ny tensor int8[4]\nd sem\nsection gpsimd\nall_reduce dsts=[y], srcs=[x], group=g, op=add $d++\nnop $d>=1\nhalt\n"
  soma.core {}:run(alone)
  raises("the program has collectives: its trace is built for a rank of a world only", function() soma.core {trace = true}:run(alone) end)
  local w <close> = soma.world {ranks = 3, target = "trn1", trace = true}
  local own = w:run(sum, function(r) return {x = x[r]} end)
  raises("explain_time: the core was not made with causes = true", own[0].explain_time, own[0])
end)

case("the critical path goes over ranks", function()
  local plain <close> = soma.world {ranks = 3, target = "trn1"}
  local hash = plain:run(sum, function(r) return {x = x[r]} end).hash
  for threads = 1, 3, 2 do
    local w <close> = soma.world {ranks = 3, target = "trn1", causes = true, threads = threads}
    local own = w:run(sum, function(r) return {x = x[r]} end)
    eq(own.hash, hash)
    for r = 0, 2 do
      local at, ranks, ways = 0, {}, 0
      for _, s in ipairs(own[r]:critical_path()) do
        assert(math.abs(s.start_ns - at) < 1e-3, "a gap before " .. s.start_ns)
        at = s.end_ns
        ranks[s.rank or r] = true
        if s.cause == "on the way to another rank" then
          ways = ways + 1
          eq({s.engine, s.name ~= nil, s.line ~= nil}, {"cc0", true, true})
        end
      end
      assert(math.abs(at - own[r].time_ns) < 1e-3, at .. " of " .. own[r].time_ns)
      eq({ways > 0, next(ranks) ~= nil, next(ranks, next(ranks)) ~= nil}, {true, true, true})
      assert(own[r]:explain_time():find "rank %d q?cc0[%w_]*: wait: on the way to another rank")
    end
  end
end)

case("the trace has a process of links: a track for each, whose slices follow one another and move all bytes", function()
  local w <close> = soma.world {ranks = 8, target = "trn1", trace = true}
  local runs = w:run(soma.assemble [==[
target trn1
g group [[0, 1, 2, 3, 4, 5, 6, 7]]
x tensor float32[4096], input
y tensor float32[4096], output
d sem
section gpsimd
all_reduce dsts=[y], srcs=[x], group=g, op=add $d++
nop $d>=1
halt
]==], {x = soma.ones {4096}})
  local path = os.tmpname()
  eq(runs:save_trace(path), true)
  local events, pid, names, bytes, ends = json(t.read(path)).traceEvents, nil, {}, {}, {}
  os.remove(path)
  for _, e in ipairs(events) do
    if e.name == "process_name" and e.args.name == "links" then pid = e.pid end
  end
  local slices = {}
  for _, e in ipairs(events) do
    if e.pid == pid and e.name == "thread_name" then names[e.tid] = e.args.name end
    if e.pid == pid and e.ph == "X" then
      slices[#slices + 1] = e
      bytes[e.tid] = (bytes[e.tid] or 0) + e.args.bytes
    end
  end
  table.sort(slices, function(a, b) return a.ts < b.ts end)
  for _, e in ipairs(slices) do
    eq(e.ts >= (ends[e.tid] or 0) - 1e-5, true)
    ends[e.tid] = e.ts + e.dur
  end
  local used = 0
  for i, l in ipairs(runs.links) do
    eq(bytes[i] or 0, l.bytes)
    if l.bytes > 0 then
      used = used + 1
      eq(names[i], ("link %d-%d: %.2f GB/s, %.1f %% of 48"):format(l.from, l.to, l.gbs, l.percent))
    end
  end
  eq(used > 4, true)
end)

t.finish()
