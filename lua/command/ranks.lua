-- soma --ranks N: a program on a world of ranks. Gets where data are, how to complain, the options of each
-- rank's core, what gives the timeline of a run and saves a world, and how many findings are shown, unless all are asked for.
local data, complain, bad_usage, core_options, timeline, keep, SHOWN = ...
local soma = require "soma"

local ROWS <const> = 32 -- of collectives, that are printed

local function output(o) return o.stdout_taken and io.stderr or io.stdout end

-- What a flag gives rank r by name: `2:x=FILE` is for rank 2 alone, and %r stands for the rank.
local function of_rank(given, r)
  -- The rank's own word comes over the one for all.
  local all, own = {}, {}
  for name, file in pairs(given) do
    local rank, plain = name:match "^(%d+):(.+)$"
    local to = not rank and all or tonumber(rank) == r and own
    -- A name without a rank is for all; with another's it is for nobody here.
    if to then to[plain or name] = file:gsub("%%r", r) end
  end
  for name, file in pairs(own) do all[name] = file end
  return all
end

local function whole_of_rank(list, r)
  local files = {}
  -- Whole files have no name before them that a rank could stand in.
  for i, path in ipairs(list) do files[i] = path:gsub("%%r", r) end
  return files
end

-- The command line as it is for rank r.
local function options_of(o, r)
  local own = {}
  for _, flag in ipairs {"--in", "--out"} do own[flag] = of_rank(o[flag], r) end
  own["--csv"] = of_rank(o["--csv"] or {}, r)
  own["--html"] = o["--html"] and o["--html"]:gsub("%%r", r)
  for _, flag in ipairs {"--in whole", "--out whole"} do own[flag] = whole_of_rank(o[flag], r) end
  -- All other options are the same for each rank.
  return setmetatable(own, {__index = o})
end

-- A file that all ranks would write, as it is named after a flag; what is wrong, or nil.
local function of_all(o, flag, file, what, example)
  -- One rank writes alone; a device takes what comes.
  if o["--ranks"] == 1 or file:find("%r", 1, true) or file:find "^/dev/" then return end
  return flag .. file .. ": each rank has " .. what .. "; %r in the file's name stands for the rank, as in " .. example
end

-- Names of ranks that do not exist, and files that all ranks would write; what is wrong, or nil.
local function check(o)
  -- The first message is kept, but a rank that does not exist comes before it.
  local n, message = o["--ranks"], nil
  for _, flag in ipairs {"--in", "--out"} do
    for name, file in pairs(o[flag]) do
      local rank = name:match "^(%d+):"
      if rank and tonumber(rank) >= n then return flag .. " " .. name .. ": the ranks are 0 to " .. n - 1 end
      if flag == "--out" and not rank then message = message or of_all(o, "--out " .. name .. "=", file, "one", name .. "-%r.npy") end
    end
  end
  for name, file in pairs(o["--csv"] or {}) do
    message = message or of_all(o, "--csv " .. name .. "=", file, "one", name .. "-%r.csv")
  end
  for _, path in ipairs(o["--out whole"]) do message = message or of_all(o, "--out ", path, "its outputs", "rank-%r.npz") end
  return message
end

-- A line for each collective of each rank: when it was issued, and how long it took.
local function put_collectives(out, rows)
  for i = 1, math.min(#rows, ROWS) do
    local c = rows[i]
    -- Some collectives only meet: they move nothing and have no rates.
    local moved = c.bytes == 0 and "" or string.format(" of %d ranks, %d bytes", c.ranks, c.bytes)
    local rates = c.bytes == 0 and "" or string.format(", algbw %.2f, busbw %.2f GB/s", c.algbw, c.busbw)
    out:write(string.format("collective    rank %d: %s by %s%s, at %.3f us for %.3f us%s%s\n", c.rank, c.op, c.algorithm, moved,
      c.start_ns / 1000, c.ns / 1000, rates, c.place and " (" .. c.place .. ")" or ""))
  end
  if #rows > ROWS then out:write("              and ", #rows - ROWS, " more\n") end
end

local LINKS <const> = 8 -- of links, that are printed

-- The links that carried most of what they could.
local function put_links(out, links)
  local used = {}
  -- Links that carried nothing are left out.
  for _, l in ipairs(links) do
    if l.bytes > 0 then used[#used + 1] = l end
  end
  table.sort(used, function(a, b)
    if a.percent ~= b.percent then return a.percent > b.percent end
    -- By name among equals, so that the text is the same each time.
    if a.from ~= b.from then return tostring(a.from) < tostring(b.from) end
    return tostring(a.to) < tostring(b.to)
  end)
  for i = 1, math.min(#used, LINKS) do
    local l = used[i]
    out:write(string.format("%-13s %d bytes, %.2f GB/s, %.1f %% of %.0f; at most %d bytes waiting\n", "link " .. l.from .. "-" .. l.to, l.bytes,
      l.gbs, l.percent, l.rate, l.waiting))
  end
  if #used > LINKS then out:write("              and ", #used - LINKS, " more, of less of their rate\n") end
end

local function report(world, runs, o)
  if o["--quiet"] then return end
  local out = output(o)
  out:write(string.format("world         %d ranks on %s\n", world.ranks, world.instance))
  -- A known target is one word; with a blank it is made from one.
  local target = world.cores[0].target
  -- The same for all ranks.
  if target:find " " then out:write("machine       ", target, "\n") end -- a hypothetical one
  if #runs.collectives > 0 then out:write("collectives   ", world.trust, "\n") end
  out:write(string.format("time          %.3f us\n", runs.time_ns / 1000))
  for r = 0, world.ranks - 1 do
    -- What each rank did by itself; collectives have their own lines.
    local s = runs[r].stats
    out:write(string.format("%-13s %d instructions, %d transfers, %d bytes by DMA\n", "rank " .. r, s.instructions, s.dma_transfers, s.dma_bytes))
  end
  if o["--check"] and o["--check"] ~= "none" then out:write("checks        ", o["--check"], ": nothing found\n") end
  if o["--schedule"] then out:write("schedules     ", o["--schedule"], " more, the same bits\n") end
  put_collectives(out, runs.collectives)
  put_links(out, runs.links)
end

-- What stopped the world: findings of checks, each once, or a fault, after which come what had been found before it.
local function put_fault(runs, all)
  local n = #runs.findings
  -- A fault that is the first finding is printed once.
  local only = n > 0 and runs.fault:sub(1, #runs.findings[1].text) == runs.findings[1].text
  if not only then io.stderr:write("soma: ", runs.fault, "\n") end
  for i = 1, all and n or math.min(n, SHOWN) do io.stderr:write(i == 1 and only and "soma: " or "", runs.findings[i].text, "\n") end
  if n > 1 then io.stderr:write(n, " findings", (all or n <= SHOWN) and "" or "; all of them: --all-findings", "\n") end
end

-- The same under o["--schedule"] other timings; a message when one gives other bits, or fails.
local function try_schedules(prog, inputs, o, how, runs)
  -- A copy, because the first world's options are still needed.
  local own = {}
  for name, value in pairs(how) do own[name] = value end
  own.trace, own.progress, own.print = nil, nil, function() end -- it has been printed
  for seed = 1, o["--schedule"] do
    own.schedule = seed
    -- Closed at the end of each turn: a world has threads and memory.
    local world <close> = soma.world(own)
    local others = world:run(prog, inputs, {faults = "return", rows = o["--rows"]})
    local again = "\n  again: --schedule-seed " .. seed
    if others.fault then return "under schedule " .. seed .. ": " .. others.fault .. again end
    -- All outputs of all ranks.
    for r = 0, own.ranks - 1 do
      for name, value in pairs(runs[r].out) do
        local same, difference = soma.equal(others[r].out[name], value)
        if not same then return ("schedule %d gives other bits in tensor %s of rank %d: %s%s"):format(seed, name, r, difference, again) end
      end
    end
  end
end

-- The critical path of the rank that ends last, over all ranks.
local function explain(runs, o)
  -- From 1 on: rank 0 is the first candidate.
  local last = 0
  for r = 1, o["--ranks"] - 1 do
    if runs[r].time_ns > runs[last].time_ns then last = r end
  end
  -- Its path goes over other ranks where it waited for them.
  local out = output(o)
  out:write("rank ", last, " ends last\n", runs[last]:explain_time(), "\n")
end

-- What shows the ranks in time; of a run that faulted as well. A message when a file cannot be written.
local function draw(runs, o, of)
  local one = o["--html"] and not o["--html"]:find("%r", 1, true) -- page of all ranks
  if one then
    local ok, message = runs:save_html(o["--html"], o.program)
    -- All ranks on one page, in one time.
    if not ok then return message end
  end
  for r = 0, o["--ranks"] - 1 do
    local ok, message = true, nil
    if of[r]["--html"] and not one then ok, message = runs[r]:save_html(of[r]["--html"], o.program .. ", rank " .. r) end
    for name, file in pairs(of[r]["--csv"]) do
      if ok then ok, message = runs[r]:save_table(file, name) end
    end
    if not ok then return message end
  end
  if o["--timeline"] then
    local out = output(o)
    for r = 0, o["--ranks"] - 1 do out:write("rank ", r, "\n", timeline(runs[r])) end
  end
  -- One trace of all ranks.
  if not o["--trace"] then return end
  local ok, message = runs:save_trace(o["--trace"])
  return not ok and message or nil
end

-- Each rank by its own names.
local function save_outputs(runs, o, of)
  for r = 0, o["--ranks"] - 1 do
    local message = data.save(runs[r], of[r])
    if message then return message end
  end
end

-- What has run, or has been stopped; done: false if the error in runs has been raised; try: other schedules, or nil.
local function finish(world, done, runs, o, of, try)
  -- An interrupted world is an error as well, but may be saved.
  local message
  if not done then
    runs = data.without_place(runs):gsub("^run: ", "")
    complain(runs)
    if not runs:find("interrupted", 1, true) then return 1 end
    keep(world, o, "world")
    return 130
  end
  -- After a fault nothing is saved but the world, when that can go on.
  if runs.fault then
    put_fault(runs, o["--all-findings"])
    if runs.kind == "limit" or runs.kind == "stopped" then keep(world, o, "world") end
    message = draw(runs, o, of)
    if message then complain(message) end
    return runs.kind == "stopped" and 130 or 1
  end
  message = try and try()
  if message then return complain(message) end
  -- Outputs before the report, so that it tells of what is on disk.
  message = save_outputs(runs, o, of)
  if message then return complain(message) end
  report(world, runs, o)
  if o["--explain-time"] then explain(runs, o) end
  message = draw(runs, o, of)
  return message and complain(message) or 0
end

local function name_files(prog, o, of)
  local message = check(o)
  if message then return bad_usage(message) end
  for r = 0, o["--ranks"] - 1 do
    -- Each rank has names of its own after %r is replaced.
    of[r] = options_of(o, r)
    message = data.name_whole_files(prog(r), of[r])
    if message then return complain(message) end
    message = data.check_names(prog(r), of[r])
    if message then return bad_usage("rank " .. r .. ": " .. message) end
  end
end

-- The debugger; what the world has given is saved when it has come to its end there.
local function debug_world(world, runs, o, of)
  local ok, message = pcall(world.debug, world, {script = o["-x"], sources = o["--source"]})
  if not ok then return complain(data.without_place(message)) end
  if not runs.fault then keep(world, o, "world") end
  if next(o["--out"]) == nil and #o["--out whole"] == 0 then return 0 end
  -- All ranks end together, so that the first tells.
  if runs.fault or not runs[0].ended then return complain "--out: the world has not ended; nothing is saved" end
  message = save_outputs(runs, o, of)
  return message and complain(message) or 0
end

-- Moves a world that has been started to its end, or as its user says.
local function go_on(world, runs, o, of, try)
  -- Lines carry their rank, since all of them go to one stream.
  if o["--debug"] then return debug_world(world, runs, o, of) end
  if o["--log"] then
    for r = 0, o["--ranks"] - 1 do
      runs[r]:log_lines(function(text) io.stderr:write("rank ", r, "  ", text, "\n") end)
    end
  end
  local done, moved = pcall(world.continue, world, {faults = "return"})
  return finish(world, done, moved, o, of, try)
end

local function resume(o)
  local how, of = {}, {}
  -- A copy: causes and target are of a new world only.
  for name, value in pairs(core_options) do how[name] = value end
  how.causes, how.target = nil, o["--target"]
  local ok, world, runs = pcall(soma.load_world, o["--resume"], how)
  if not ok then return complain(data.without_place(world)) end
  if not world then return complain(runs) end
  -- The file knows how many ranks there are.
  o["--ranks"] = world.ranks
  local status = name_files(function(r) return world:program(r) end, o, of)
  if status then return status end
  return go_on(world, runs, o, of)
end

-- The program of a rank: it needs no inputs.
local function show_plan(prog, o)
  local ok, text = pcall(function()
    return soma.plan {program = prog, ranks = o["--ranks"], rank = o["--plan"], lnc = o["--lnc"], instance = o["--instance"],
                      algorithm = o["--algorithm"], costs = core_options.costs, target = o["--target"]}:source()
  end)
  if not ok then return complain((data.without_place(text):gsub("^run: ", ""))) end
  -- An instance or a number of ranks that cannot be is a message, not a fault.
  io.write(text)
  return 0
end

return function(prog, o)
  -- No program: the options name a saved world.
  if not prog then return resume(o) end
  if o["--plan"] then return show_plan(prog, o) end
  local of, inputs, message = {}, {}, nil
  local status = name_files(function() return prog end, o, of)
  if status then return status end
  for r = 0, o["--ranks"] - 1 do
    inputs[r], message = data.load(prog, of[r], "--in")
    -- Loaded for each rank, as names with %r are different files.
    if not inputs[r] then return complain(message) end
  end
  local how = {ranks = o["--ranks"], lnc = o["--lnc"], instance = o["--instance"], algorithm = o["--algorithm"]}
  -- Everything a single run would take, for each rank's core.
  for name, value in pairs(core_options) do how[name] = value end
  -- Causes take memory for each event; only what shows the critical path needs them.
  how.causes = o["--explain-time"] or how.causes and o["--html"] and not o["--html"]:find("%r", 1, true)
  if not how.target then how.target = prog:target() end
  local ok, world = pcall(soma.world, how)
  if not ok then return complain(data.without_place(world)) end
  local options, done, runs = {faults = "return", in_place = true, rows = o["--rows"]}, nil, nil
  -- The debugger and the log need a world that has been started and not moved.
  if o["--debug"] or o["--log"] then
    done, runs = pcall(world.start, world, prog, inputs, options)
    if not done then return finish(world, done, runs, o, of) end
    return go_on(world, runs, o, of)
  end
  done, runs = pcall(world.run, world, prog, inputs, options)
  return finish(world, done, runs, o, of, o["--schedule"] and function() return try_schedules(prog, inputs, o, how, runs) end)
end
