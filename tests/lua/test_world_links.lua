-- Links between devices: contention, failures, slow links, late ranks; the same bits for any windows and threads.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises
local function has(text, part) if not text:find(part, 1, true) then error("no " .. part .. " in " .. text, 2) end end
local function near(got, want, part)
  if math.abs(got - want) > part * want then error(string.format("%s, not %s", got, want), 2) end
end

local function list_of(n)
  local list = {}
  for i = 1, n do list[i] = i - 1 end
  return "[[" .. table.concat(list, ", ") .. "]]"
end

-- Pairs of ranks, from and to, move `cols` floats each; two ranks a device.
local permute = [==[
target trn1
x tensor float32[1, %d], input
y tensor float32[1, %d], output
done sem
section gpsimd
  collective_permute dsts=[y], srcs=[x], pairs=%s $done++
  nop $done>=1
  halt
]==]
local function pairs_of(pairs, cols) return soma.assemble(permute:format(cols, cols, pairs)) end

local function between(links, from, to)
  for _, l in ipairs(links) do
    if l.from == from and l.to == to then return l end
  end
  error(string.format("no link %s-%s", from, to), 2)
end

local MOST <const> = 1 << 20 -- floats
local function time_of(pairs, change)
  local w <close> = soma.world {ranks = 32, target = "trn1", timing_only = true}
  if change then change(w) end
  local runs = w:run(pairs_of(pairs, MOST))
  return runs.time_ns, runs.links
end

case("what two ranks send over one link takes as long as one after the other, and on two links as one alone", function()
  local function slow(w) w:slow_link(0, 1, 0.1) w:slow_link(2, 3, 0.1) end
  local one = time_of("[[0, 2]]", slow)
  local both, links = time_of("[[0, 2], [1, 3]]", slow)
  local apart = time_of("[[0, 2], [4, 6]]", slow)
  local bytes = 4 * MOST
  near(both, 2 * bytes / 4.8, 0.05)
  near(one, bytes / 4.8, 0.1)
  near(apart, one, 0.001)
  local l = between(links, 0, 1)
  eq(l.rate, 48.0)
  eq(l.bytes >= 2 * bytes and l.bytes < 2 * bytes + 10000, true)
  eq(l.waiting > 0, true) eq(l.waited_ns > 0, true)
  near(l.percent, 100, 0.05)
  near(l.gbs, l.bytes / both, 1e-6)
  eq(between(links, 1, 5).bytes, 0)
end)

case("no link carries more than its rate, in no collective", function()
  for _, op in ipairs {"all_to_all", "all_gather"} do
    local n, cols = 32, 1 << 15
    local from, to = op == "all_to_all" and n or 1, n
    local w <close> = soma.world {ranks = n, target = "trn1", timing_only = true}
    w:slow_link(0, 1, 0.2)
    local runs = w:run(soma.assemble(([==[
target trn1
tp group %s
x tensor float32[%d, %d], input
y tensor float32[%d, %d], output
done sem
section gpsimd
  %s dsts=[y], srcs=[x], group=tp $done++
  nop $done>=1
  halt
]==]):format(list_of(n), from, cols, to, cols, op)))
    for _, l in ipairs(runs.links) do
      eq(l.busy_ns <= runs.time_ns, true)
      local rate = (l.from + l.to == 1) and l.rate * 0.2 or l.rate
      eq(l.bytes <= runs.time_ns * rate, true)
    end
  end
end)

local reduce = [==[
target trn1
tp group %s
x tensor float32[32, 100], input
y tensor float32[32, 100], output
done sem
section gpsimd
  all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++
  nop $done>=1
  halt
]==]
local function input(r) return {x = soma.full({32, 100}, r, "float32")} end

case("packets: links carry each byte once, messages are as many; what one link carries for several takes turns", function()
  local gather = soma.assemble(([==[
target trn1
tp group %s
x tensor float32[25000], input
y tensor float32[200000], output
done sem
section gpsimd
  all_gather dsts=[y], srcs=[x], group=tp $done++
  nop $done>=1
  halt
]==]):format(list_of(8)))
  local function run(packet)
    local w <close> = soma.world {ranks = 8, target = "trn1", algorithm = "rdh", costs = {CC_PACKET = packet}}
    w:slow_link(0, 1, 0.1)
    local runs = w:run(gather, function(r) return {x = soma.arange(25000, "float32") + r} end)
    for r = 0, 7 do eq({runs[r].out.y[25000 * 3 + 7], runs[r].out.y[199999]}, {10.0, 25006.0}) end
    return runs
  end
  local whole, cut = run(10000000), run(997)
  for i, l in ipairs(whole.links) do eq({cut.links[i].bytes, cut.links[i].messages}, {l.bytes, l.messages}) end
  eq(whole.time_ns ~= cut.time_ns, true)
end)

case("the same bits for any windows and threads, also with changes", function()
  local prog = soma.assemble(reduce:format(list_of(32)))
  for _, algorithm in ipairs {"mesh", "ring", "rdh"} do
    local first
    for _, how in ipairs {{0, 1}, {0, 3}, {70, 2}, {137, 1}, {1000, 4}, {5000, 2}} do
      local w <close> = soma.world {
        ranks = 32, target = "trn1", algorithm = algorithm, window_ns = how[1], threads = how[2], costs = {CC_PACKET = algorithm == "ring" and 90 or nil},
      }
      w:fail_link(0, 4)
      w:slow_link(2, 3, 0.05, 6000)
      w:delay_rank(7, 2500.5)
      local runs = w:run(prog, input)
      first = first or runs
      eq(runs.hash, first.hash) eq(runs.time_ns, first.time_ns)
      for i, l in ipairs(runs.links) do
        for _, name in ipairs {"bytes", "messages", "waiting", "busy_ns", "waited_ns"} do eq(l[name], first.links[i][name]) end
      end
    end
    for r = 0, 31 do eq(first[r].out.y[31][99], 496.0) end
    eq(between(first.links, 0, 4).messages, 0)
  end
end)

case("a link that has failed costs time, and results stay", function()
  local prog = soma.assemble(reduce:format(list_of(32)))
  local w <close> = soma.world {ranks = 32, target = "trn1", algorithm = "rdh"}
  local before = w:run(prog, input)
  w:fail_link(0, 1)
  local after = w:run(prog, input)
  eq(after.time_ns > before.time_ns, true)
  eq(soma.equal(after[5].out.y, before[5].out.y), true)
  w:slow_link(0, 1, 1) -- what is said last counts
  eq(w:run(prog, input).time_ns, before.time_ns)
end)

case("an all_reduce by rings in instances: every rank gets the sum, and each part crosses EFA once each way", function()
  for _, c in ipairs {{"trn1.2xlarge x 3", 6, 1}, {"trn1.32xlarge x 2", 64, 1}, {"trn2.3xlarge x 2", 8, 2}} do
    local name, ranks, lnc = table.unpack(c)
    for _, n in ipairs {1, 130, ranks * (ranks > 8 and 500 or 20000)} do
      local text = reduce:gsub("trn1", name:match "^%w+"):gsub("float32%[[^%]]*%]", "float32[" .. n .. "]")
      if lnc == 2 then text = text:gsub("sem", "sem core=*"):gsub("section gpsimd", "section gpsimd core=*"):gsub("op=add", "op=add, both=true") end
      local w <close> = soma.world {ranks = ranks, instance = name, lnc = lnc, algorithm = "ring"}
      local runs = w:run(soma.assemble(text:format(list_of(ranks))), function(rank) return {x = soma.full({n}, rank + 1)} end)
      for r = 0, ranks - 1, ranks // 2 - 1 do
        eq(soma.equal(runs[r].out.y, soma.full({n}, ranks * (ranks + 1) // 2)), true)
      end
      local out = 0
      for _, l in ipairs(runs.links) do if l.to == "efa" and n > 130 then out = out + l.bytes end end
      local instances = tonumber(name:match "%d+$")
      -- Each instance sends what others add, and what it has added to all others.
      if n > 130 then near(out, 2 * (instances - 1) * n * 4, 0.02) end
    end
  end
end)

case("rings in instances: blocks of an all_gather and a reduce_scatter, also of ranks that are no power of two", function()
  for _, c in ipairs {{"trn1.2xlarge x 3", 6}, {"trn1.2xlarge x 5", 10}, {"trn1.32xlarge x 2", 64}} do
    local name, ranks = table.unpack(c)
    for _, cols in ipairs {1, 33, ranks > 10 and 300 or 20000} do
      local base = (soma.arange(ranks * cols, "int32") % 8191):astype "float32":reshape {ranks, cols}
      for _, op in ipairs {"all_gather", "reduce_scatter"} do
        local gathers = op == "all_gather"
        local text = reduce:gsub("all_reduce", op):gsub("x tensor float32%[[^%]]*%]", ("x tensor float32[%d, %d]"):format(gathers and 1 or ranks, cols))
          :gsub("y tensor float32%[[^%]]*%]", ("y tensor float32[%d, %d]"):format(gathers and ranks or 1, cols))
        if gathers then text = text:gsub(", op=add", "") end
        local w <close> = soma.world {ranks = ranks, instance = name, algorithm = "ring"}
        local runs = w:run(soma.assemble(text:format(list_of(ranks))), function(r) return {x = gathers and base:slice({r, r + 1}) or base + r * 7} end)
        local sum = base * ranks + 7 * ranks * (ranks - 1) // 2
        for r = 0, ranks - 1, ranks // 2 - 1 do
          eq(soma.equal(runs[r].out.y, gathers and base or sum:slice({r, r + 1})), true)
        end
        local out = 0
        for _, l in ipairs(runs.links) do if l.to == "efa" then out = out + l.bytes end end
        if cols > 33 then near(out, (tonumber(name:match "%d+$") - 1) * ranks * cols * 4, 0.06) end
      end
    end
  end
end)

case("without a route the world does not start, and a link that fails later stops it: both say which", function()
  local prog = soma.assemble(reduce:format(list_of(4)))
  local ring = soma.assemble((reduce:format(list_of(4)):gsub("trn1", "inf2")))
  local v <close> = soma.world {ranks = 4, instance = "inf2.24xlarge", target = "inf2"}
  v:fail_link(0, 1)
  v:run(ring, input)
  v:fail_link(0, 5)
  local ok, message = pcall(v.run, v, ring, input)
  eq(ok, false)
  has(message, "rank 0 sends to rank 2, but there is no route from device 0 to device 1 of inf2.24xlarge: failed are the links 0-1, 0-5")
  local u <close> = soma.world {ranks = 4, target = "trn1"}
  u:fail_link(0, 1, 4500)
  ok, message = pcall(u.run, u, prog, input)
  eq(ok, false)
  has(message, "the world cannot go on: rank 0 waits in all_reduce")
  has(message, "; link 0-1 failed at 4500.000 ns, and ")
end)

case("a rank that begins later ends later", function()
  local prog = soma.assemble(reduce:format(list_of(4)))
  local w <close> = soma.world {ranks = 4, target = "trn1"}
  local before = w:run(prog, input).time_ns
  w:delay_rank(2, 10000)
  local runs = w:run(prog, input)
  near(runs.time_ns, before + 10000, 0.01)
  eq(runs[0].out.y[0][0], 6.0)
end)

case("wrong arguments", function()
  local w <close> = soma.world {ranks = 32, target = "trn1"}
  raises("there is no link 0-5 in trn1.32xlarge; device 0 has links to 1, 3, 4, 12", function() w:fail_link(0, 5) end)
  raises("there is no link 0-switch", function() w:fail_link(0, "switch") end)
  raises("0 to 1", function() w:slow_link(0, 1, 1.5) end)
  raises("0.001", function() w:slow_link(0, 1, 0.0001) end)
  raises("no such rank", function() w:delay_rank(32, 1) end)
  raises("1e12", function() w:delay_rank(3, -1) end)
  local one <close> = soma.world {ranks = 2, target = "trn1"}
  raises("there is no link 0-1 in trn1.2xlarge", function() one:fail_link(0, 1) end)
end)

case("devices of an instance with a switch share no link but their own", function()
  local w <close> = soma.world {ranks = 32, target = "trn3", timing_only = true, instance = "trn3-gen1"}
  local runs = w:run(soma.assemble((permute:format(1000, 1000, "[[0, 9], [1, 8], [16, 2]]"):gsub("trn1", "trn3"))))
  eq(between(runs.links, 0, "switch").bytes >= 8000, true)
  eq(between(runs.links, "switch", 1).bytes >= 8000, true)
  eq(between(runs.links, 3, "switch").bytes, 0)
end)
-- Two rings through all devices without a common link, in both directions: all links carry the same.
case("rings go along the links of a torus, and use all of them alike", function()
  for _, op in ipairs {"all_reduce", "reduce_scatter", "all_gather"} do
    local rows = 32
    local from, to = op == "all_gather" and 1 or rows, op == "reduce_scatter" and 1 or rows
    local prog = soma.assemble(([==[
target trn1
tp group %s
x tensor float32[%d, 16640], input
y tensor float32[%d, 16640], output
done sem
section gpsimd
  %s dsts=[y], srcs=[x], group=tp%s $done++
  nop $done>=1
  halt
]==]):format(list_of(32), from, to, op, op == "all_gather" and "" or ", op=add"))
    local w <close> = soma.world {ranks = 32, target = "trn1", algorithm = "ring"}
    local runs = w:run(prog, function(r) return {x = soma.full({from, 16640}, r, "float32")} end)
    for r = 0, 31, 5 do
      for row = 0, to - 1, 3 do
        for _, col in ipairs {0, 4159, 4160, 8320, 12480, 16639} do
          eq(runs[r].out.y[row][col], op == "all_gather" and row + 0.0 or 496.0)
        end
      end
    end
    eq(#runs.links, 64)
    for _, l in ipairs(runs.links) do near(l.bytes, runs.links[1].bytes, 0.001) end
  end
end)

-- What a rank sends to the other devices is what theirs lack, once: 15 devices' parts of its own number.
case("halving and doubling take one link at each step, different ones for the ranks of a device", function()
  local cols = 16384
  local prog = soma.assemble(([==[
target trn1
tp group %s
x tensor float32[1, %d], input
y tensor float32[32, %d], output
done sem
section gpsimd
  all_gather dsts=[y], srcs=[x], group=tp $done++
  nop $done>=1
  halt
]==]):format(list_of(32), cols, cols))
  local w <close> = soma.world {ranks = 32, target = "trn1", algorithm = "rdh"}
  local runs = w:run(prog, function(r) return {x = soma.full({1, cols}, r, "float32")} end)
  local sum = 0
  for _, l in ipairs(runs.links) do sum = sum + l.bytes end
  near(sum, 32 * 15 * 4 * cols, 0.01)
  for r = 0, 31 do
    for q = 0, 31, 3 do eq(runs[r].out.y[q][cols - 1], q + 0.0) end
  end
end)

case("a world says how far its times may be trusted", function()
  local trust = {["trn1.32xlarge"] = "fitted to published", ["inf2.48xlarge"] = "no time of this instance", ["trn3-gen1"] = "assumed"}
  for instance, text in pairs(trust) do
    local w <close> = soma.world {ranks = 2, instance = instance, target = instance:match "%a+%d"}
    has(w.trust, text)
  end
end)

case("on an UltraServer they go from plane to plane", function()
  local n, cols, list = 64, 80000, {}
  local w <close> = soma.world {ranks = 4 * n, lnc = 2, timing_only = true, algorithm = "ring"}
  eq(w.instance, "trn2u.48xlarge")
  for d = 1, n do list[d] = 4 * (d - 1) end
  local prog = soma.assemble(([==[
target trn2
tp group [[%s]]
x tensor float32[1, %d], input
y tensor float32[%d, %d], output
done sem core=*
section gpsimd core=*
  all_gather dsts=[y], srcs=[x], group=tp, both=true $done++
  nop $done>=1
  halt
]==]):format(table.concat(list, ","), cols, n, cols))
  local idle = soma.assemble "target trn2\nsection gpsimd core=*\n halt"
  local runs = w:run(function(r) return r % 4 == 0 and prog or idle end)
  local most, sum = 0, 0
  for _, l in ipairs(runs.links) do
    most = math.max(most, l.bytes)
    sum = sum + l.bytes
  end
  -- Each of the 4 rings has 64 steps from device to device, of one link each; two of them may share one.
  near(sum, (n - 1) * cols * 4 * 64, 0.01)
  eq(most < 2.01 * (n - 1) * cols * 4 / 4, true)
end)
-- Between instances each rank sends the one of its number there what it has of its own instance, once.
case("several instances are joined by EFA, and collectives cross it as little as they can", function()
  local n, cols = 64, 1000
  local w <close> = soma.world {ranks = n, instance = "trn1.32xlarge x 2", target = "trn1"}
  eq(w.instance, "trn1.32xlarge x 2")
  local prog = soma.assemble(([==[
target trn1
tp group %s
x tensor float32[1, %d], input
y tensor float32[64, %d], output
done sem
section gpsimd
  all_gather dsts=[y], srcs=[x], group=tp $done++
  nop $done>=1
  halt
]==]):format(list_of(n), cols, cols))
  local runs = w:run(prog, function(r) return {x = soma.full({1, cols}, r, "float32")} end)
  for r = 0, 63, 7 do
    for q = 0, 63 do eq(runs[r].out.y[q][cols - 1], q + 0.0) end
  end
  eq(runs.collectives[1].algorithm, "rdh")
  eq(runs.time_ns > 15000, true)
  for d = 0, 31 do
    local out = between(runs.links, d, "efa")
    near(out.bytes, 2 * 4 * cols, 0.05)
    eq(out.rate, 6.25)
  end
  for _, algorithm in ipairs {"ring", "mesh", "rdh"} do
    local v <close> = soma.world {ranks = 8, instance = "trn1.2xlarge x 4", target = "trn1", algorithm = algorithm}
    local sums = v:run(soma.assemble(reduce:format(list_of(8))), input)
    for r = 0, 7 do eq(sums[r].out.y[31][99], 28.0) end
    v:fail_link(3, "efa")
    raises("but there is no route from device", function() v:run(soma.assemble(reduce:format(list_of(8))), input) end)
  end
  raises("trn1.32xlarge x 2 has 64 cores, but 65 ranks of 1 need 65", soma.world, {ranks = 65, instance = "trn1.32xlarge x 2", target = "trn1"})
  raises("inf2.48xlarge has no EFA", soma.world, {ranks = 2, instance = "inf2.48xlarge x 2", target = "inf2"})
  for _, wrong in ipairs {"trn1.32xlarge x 0", "trn1.32xlarge x 2y", "trn1.32xlarge x 300", "trn9 x 2", " x 2"} do
    raises("unknown instance '" .. wrong .. "'", soma.world, {ranks = 2, instance = wrong, target = "trn1"})
  end
end)
-- Values that differ in each element, so that a block in another's place is wrong.
case("collectives of all devices of a torus, by every algorithm", function()
  for _, c in ipairs {{"trn1", 32, "rdh", 50}, {"trn2", 64, "rdh", 17}, {"trn1", 32, "ring", 50}, {"trn1", 32, "ring", 16640}, {"trn1", 32, "mesh", 40}} do
    local target, n, algorithm, cols = table.unpack(c)
    for _, op in ipairs {"all_gather", "all_reduce", "reduce_scatter"} do
      local from, to = op == "all_gather" and 1 or n, op == "reduce_scatter" and 1 or n
      local prog = soma.assemble(([==[
target %s
tp group %s
x tensor float32[%d, %d], input
y tensor float32[%d, %d], output
done sem
section gpsimd
  %s dsts=[y], srcs=[x], group=tp%s $done++
  nop $done>=1
  halt
]==]):format(target, list_of(n), from, cols, to, cols, op, op == "all_gather" and "" or ", op=add"))
      local w <close> = soma.world {ranks = n, target = target, algorithm = algorithm}
      -- Element e of rank r is r * 7 + e % 8191: whole numbers, whose sums are exact.
      local base = (soma.arange(from * cols, "int32") % 8191):astype "float32":reshape {from, cols}
      local runs = w:run(prog, function(r) return {x = base + r * 7} end)
      eq(runs.collectives[1].algorithm, algorithm)
      local sum = base * n + 7 * n * (n - 1) // 2
      for r = 0, n - 1, 3 do
        for row = 0, to - 1 do
          local at = op == "reduce_scatter" and r or row
          local want = op == "all_gather" and base + row * 7 or sum:slice({at, at + 1})
          eq(soma.equal(runs[r].out.y:slice({row, row + 1}), want), true)
        end
      end
    end
  end
end)
t.finish()
