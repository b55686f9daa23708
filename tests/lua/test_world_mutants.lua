-- Mutants of the planner's programs of CC sequencers: in rank 1's, a wait, a word that a rank is ready, or an update is
-- left out, or goes to another rank. Each runs once, and twice in a row, in worlds in which nobody is late, or one of the ranks:
-- it writes its dst, over and over, before it begins. Found: the world cannot go on, faults, a value is wrong, or the race
-- check finds something. Of the waits that are left out with what they subtract ("order") some are not needed:
--   - for its own transfers, where only `complete` comes after them, which waits until all of them have left;
--   - for the others of an all_reduce to be ready: what it pushes first lands where a rank has read before it has sent
--     what this one needed to end the round before.
-- These give no finding, and the right values under eight other timings of all ranks.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq
local RANKS <const>, N <const> = 4, 1040

local source = [==[
target trn2
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
  {"all_reduce", ", op=add", N, N, {"ring", "mesh", "mesh-single", "rdh"}}, {"all_gather", "", N, RANKS * N, {"ring", "mesh", "rdh"}},
  {"reduce_scatter", ", op=add", N, N // RANKS, {"ring", "mesh", "rdh"}}, {"all_to_all", "", N, N, {"mesh"}},
}

-- What all ranks have in the end, or why they do not come to it.
local function run(programs, op, late, rounds, schedule)
  local w <close> = soma.world {ranks = RANKS, checks = not schedule and "race" or nil, schedule = schedule}
  local ok, runs = pcall(w.run, w, programs, function(r)
    return {x = soma.randn({op[3]}, "float32", {seed = r + 5}), zero = soma.zeros {op[4]}, late = soma.tensor({r == late and 30 or 1, rounds}, "int32")}
  end)
  if not ok then return tostring(runs) end
  local bytes = {}
  for r = 0, RANKS - 1 do bytes[#bytes + 1] = runs[r].out.z:bytes() end
  return table.concat(bytes)
end

local function planned(op, algorithm)
  local w <close> = soma.world {ranks = RANKS, algorithm = algorithm}
  local text = source:gsub("%u+", {OP = op[1], ARGS = op[2], FROM = tostring(op[3]), TO = tostring(op[4])})
  w:run(soma.assemble(text), function(r) return {late = soma.tensor({1, 1}, "int32"), zero = soma.zeros {op[4]}, x = soma.full({op[3]}, r, "float32")} end)
  local list = {}
  for r = 0, RANKS - 1 do list[r] = w:program(r) end
  return list
end

-- Names and texts of rank 1's mutants.
local function mutants(text)
  local before, cc = text:match "^(.-)(\nsection cc0.*)$"
  local lines, list = {}, {}
  for line in (cc .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  local function add(what, i, line, order)
    local copy = table.move(lines, 1, #lines, 1, {})
    copy[i] = line
    list[#list + 1] = {what .. lines[i], before .. table.concat(copy, "\n"), order and 2 or 1}
  end
  for i, line in ipairs(lines) do
    local peer = line:match "%.rank%[(%w+)%]" -- dst: that of each transfer
    if line:find "^%s*event_semaphore" then
      add("no wait", i, (line:gsub("%$%S+>=%S+", ""):gsub("event_semaphore", "nop")))
      add("nothing of", i, "", true)
    end
    if peer then
      add("no update by", i, (line:gsub("%$%S+%.rank%S+", "")))
      local other = peer == "dst" and 2 or (tonumber(peer) + 1) % RANKS
      add("another rank in", i, (line:gsub("%.rank%[%w+%]", ".rank[" .. other .. "]")))
      if peer == "dst" then add("one transfer less in", i, (line:gsub("(dma_trigger%s+%w+,%s*)(%d+)", function(to, n) return to .. n - 1 end))) end
    end
  end
  return list
end

case("mutants are found", function()
  local found, all, lost, spare = {0, 0}, {0, 0}, {}, 0
  for _, op in ipairs(ops) do
    for _, algorithm in ipairs(op[5]) do
      local list = planned(op, algorithm)
      local right = run(list, op, -1, 1)
      eq(#right, RANKS * op[4] * 4)
      for late = -1, RANKS - 1 do eq(run(list, op, late, 2) == right, true) end
      for _, m in ipairs(mutants(list[1]:source())) do
        local ok, prog = pcall(soma.assemble, m[2])
        local programs, is_found = {[0] = list[0], prog, list[2], list[3]}, not ok
        for late = -1, RANKS - 1 do 
          for rounds = 1, 2 do is_found = is_found or run(programs, op, late, rounds) ~= right end
        end
        local kind = m[3]
        all[kind] = all[kind] + 1
        local own = m[1]:find "cc0_done" or (op[1] == "all_reduce" and m[1]:find "cc_ready")
        for seed = 1, is_found and 0 or 8 do own = own and run(programs, op, -1, 2, seed) == right end
        if is_found then found[kind] = found[kind] + 1
        elseif kind == 2 and own then spare = spare + 1
        else lost[#lost + 1] = op[1] .. " by " .. algorithm .. ": " .. m[1] end
      end
    end
  end
  print(("# %d of %d mutants found, and %d of %d of the order; %d are not needed"):format(found[1], all[1], found[2], all[2], spare))
  if #lost > 0 then error("not found: " .. table.concat(lost, "; "), 0) end
  eq({found[2] >= 45, spare <= 10}, {true, true})
  eq(all[1] > 150, true)
end)
t.finish()
