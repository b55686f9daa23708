-- Mutants of the planner's programs of CC sequencers, each of them in rank 1's:
--   wait        a wait is left out
--   order       a wait is left out with what it subtracts
--   15 of 16    a wait is for one ring's share less than what it subtracts, or with what it subtracts
--   update      an update is left out, or a trigger starts one transfer less
--   peer        a word that a rank is ready, an update or a push goes to another rank
--   swap        two pushes go to one another's ranks
--   rings       a queue has a ring less
--   chunk       a transfer begins an element later at one of its ends, or is an element shorter
-- Each runs once, and twice in a row, in worlds in which nobody is late, or one of the ranks: it writes its dst, over and
-- over, before it begins. Found: the world cannot go on, faults, a value is wrong, or the race check finds something. Some waits
-- are not needed, so neither "order" nor "15 of 16" of them is found:
--   - for its own transfers, where only `complete` comes after them, which waits until all of them have left;
--   - for the others of an all_reduce to be ready: what it pushes first lands where a rank has read before it has sent
--     what this one needed to end the round before.
--   - by kangaring, where rank 1 is the second of a pair: the same of its part; and for all but the last of the pushes that the
--     first of the pair sends it, which come in order through one queue.
-- These give no finding, and the right values under eight other timings of all ranks.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq
local RANKS <const>, N <const> = 4, 1040

local source = [==[
target TARGET
tp group [[0, 1, 2, 3]]
late tensor int32[2], input
x tensor float32[FROM], input
zero tensor float32[TO], input
y tensor float32[TO], output
z tensor float32[TO], output
there tile sbuf int32[1, 2]
done sem
moved sem
q queue dge=swdge
section gpsimd
dma_copy there, late.ap([[2, 1], [1, 2]]), queue=q $moved
event_semaphore $moved>=16 $moved-=16
tensor_load r1, there[0, 0]
tensor_load r2, there[0, 1]
again: dma_copy y, zero, queue=q $moved
event_semaphore $moved>=16 $moved-=16
sub r1, r1, 1
bgt r1, 0, again
round: OP dsts=[y], srcs=[x], group=tpARGS $done++
event_semaphore $done>=1 $done--
dma_copy z, y, queue=q $moved
event_semaphore $moved>=16 $moved-=16
sub r2, r2, 1
bgt r2, 0, round
halt
]==]
local ops = {
  {"all_reduce", ", op=add", N, N, {"ring", "mesh", "mesh-single", "rdh", "kangaring"}}, {"all_gather", "", N, RANKS * N, {"ring", "mesh", "rdh", "kangaring"}},
  {"reduce_scatter", ", op=add", N, N // RANKS, {"ring", "mesh", "rdh", "kangaring"}}, {"all_to_all", "", N, N, {"mesh"}},
}

-- What all ranks have in the end, or why they do not come to it.
local function run(programs, op, late, rounds, schedule)
  local w <close> = soma.world {ranks = RANKS, target = programs[0]:target(), checks = not schedule and "race" or nil, schedule = schedule}
  local ok, runs = pcall(w.run, w, programs, function(r)
    return {x = soma.randn({op[3]}, "float32", {seed = r + 5}), zero = soma.zeros {op[4]}, late = soma.tensor({r == late and 30 or 1, rounds}, "int32")}
  end)
  if not ok then return tostring(runs) end
  local bytes = {}
  for r = 0, RANKS - 1 do bytes[#bytes + 1] = runs[r].out.z:bytes() end
  return table.concat(bytes)
end

local function planned(op, algorithm)
  local target = algorithm == "kangaring" and "trn1" or "trn2" -- of two ranks a device, two of them
  local w <close> = soma.world {ranks = RANKS, target = target, algorithm = algorithm}
  local text = source:gsub("%u+", {TARGET = target, OP = op[1], ARGS = op[2], FROM = tostring(op[3]), TO = tostring(op[4])})
  w:run(soma.assemble(text), function(r) return {late = soma.tensor({1, 1}, "int32"), zero = soma.zeros {op[4]}, x = soma.full({op[3]}, r, "float32")} end)
  local list = {}
  for r = 0, RANKS - 1 do list[r] = w:program(r) end
  return list
end

-- Kinds, names and texts of rank 1's mutants.
local function mutants(text)
  local lines, list = {}, {}
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  local function add(kind, i, line, k, other)
    local copy = table.move(lines, 1, #lines, 1, {})
    copy[i] = line
    if k then copy[k] = other end
    list[#list + 1] = {kind, kind .. ":" .. lines[i] .. " ->" .. line, table.concat(copy, "\n")}
  end
  local cc
  for i, line in ipairs(lines) do
    cc = cc or line:find "^section cc0"
    local peer = line:match "%.rank%[(%w+)%]" -- dst: that of each transfer
    if line:find "^dma qcc0" then
      for from, offset, to in line:gmatch "()@hbm%[[%w_]+,(%d+)()%]" do
        add("chunk", i, ("%s,%d%s"):format(line:sub(1, from - 1) .. line:sub(from, to - 1):match "^(.*),%d+$", offset + 4, line:sub(to)))
      end
      local n = tonumber(line:match "%[1%]%[(%d+)%]")
      if n and n > 1 then add("chunk", i, (line:gsub("%[1%]%[%d+%]", "[1][" .. n - 1 .. "]"))) end
      local after = peer and lines[i + 1]:match "^dma qcc0,.*%.rank%[(%d)%]"
      if after and after ~= peer then
        local a, b = line:gsub("%.rank%[%d%]", ".rank[" .. after .. "]"), lines[i + 1]:gsub("%.rank%[%d%]", ".rank[" .. peer .. "]")
        if a ~= lines[i + 1] then add("swap", i, a, i + 1, b) end -- else each sends what the other does
      end
    end
    local queue = line:match "^(qcc0[%w_]*) queue rings="
    if queue and text:find("dma_trigger " .. queue .. ",", 1, true) then add("rings", i, (line:gsub("rings=(%d+)", function(n) return "rings=" .. n - 1 end))) end
    if cc and line:find "^%s*event_semaphore" then
      add("wait", i, (line:gsub("%$%S+>=%S+", ""):gsub("event_semaphore", "nop")))
      add("order", i, "")
      local n = tonumber(line:match ">=(%d+)")
      if n > 1 then
        add("15 of 16", i, (line:gsub(">=%d+", ">=" .. n - 1)))
        add("15 of 16", i, (line:gsub("=%d+", "=" .. n - 1)))
      end
    end
    if cc and peer then add("update", i, (line:gsub("%$%S+%.rank%S+", ""))) end
    if peer and (cc or line:find "^dma qcc0") then
      local other = peer == "dst" and 2 or (tonumber(peer) + 1) % RANKS
      add("peer", i, (line:gsub("%.rank%[%w+%]", ".rank[" .. other .. "]")))
    end
    if cc and line:find "dma_trigger" then add("update", i, (line:gsub("(dma_trigger%s+[%w_]+,%s*)(%d+)", function(to, n) return to .. n - 1 end))) end
  end
  return list
end

local kinds <const> = {"wait", "order", "15 of 16", "update", "peer", "swap", "rings", "chunk"}
case("mutants are found", function()
  local found, all, lost, spare = {}, {}, {}, 0
  for _, kind in ipairs(kinds) do found[kind], all[kind] = 0, 0 end
  for _, op in ipairs(ops) do
    for _, algorithm in ipairs(op[5]) do
      local list = planned(op, algorithm)
      local right = {run(list, op, -1, 1)}
      eq(#right[1], RANKS * op[4] * 4)
      right[2] = run(list, op, -1, 2)
      eq(right[2], right[1])
      for late = 0, RANKS - 1 do eq(run(list, op, late, 2) == right[1], true) end
      for _, m in ipairs(mutants(list[1]:source())) do
        local ok, prog = pcall(soma.assemble, m[3])
        local programs, is_found, kind = {[0] = list[0], prog, list[2], list[3]}, not ok, m[1]
        for late = -1, RANKS - 1 do
          for rounds = 1, 2 do is_found = is_found or run(programs, op, late, rounds) ~= right[1] end
        end
        all[kind] = all[kind] + 1
        local pairs_ = algorithm == "kangaring"
        local sums = op[1] == "all_reduce" or pairs_ and op[1] == "reduce_scatter"
        local own = (kind == "order" or kind == "15 of 16") and (m[2]:find "cc0_done" or (sums and m[2]:find "cc_ready") or
          (pairs_ and m[2]:find "cc0_from1[0-4]>"))
        for seed = 1, own and not is_found and 8 or 0 do own = own and run(programs, op, -1, 2, seed) == right[1] end
        if is_found then found[kind] = found[kind] + 1
        elseif own then spare = spare + 1
        else lost[#lost + 1] = op[1] .. " by " .. algorithm .. ": " .. m[2] end
      end
    end
  end
  local sum, of = 0, -spare
  for _, kind in ipairs(kinds) do
    print(("# %-9s %3d of %3d found"):format(kind, found[kind], all[kind]))
    sum, of = sum + found[kind], of + all[kind]
    eq(all[kind] > 5, true)
  end
  print(("# all       %3d of %3d found; %d more are not needed"):format(sum, of, spare))
  if #lost > 0 then print("# not found: " .. table.concat(lost, "\n# ")) end
  eq(sum >= 0.98 * of, true)
  eq(spare <= 30, true)
end)
t.finish()
