-- soma.plan {program | op, shape, ...}: the program of a rank with those of its CC sequencers, of a world that is
-- made and does not run.
local soma, host = ...

local known = {program = "userdata", op = "string", shape = "table", dtype = "string", reduce = "string", ranks = "number", rank = "number",
               lnc = "number", instance = "string", algorithm = "string", target = "string", costs = "string"}
-- The second number divides the first dimension.
-- Of one collective: how many times the first dimension of dst is that of src, for n ranks.
local ops = {all_reduce = function() return 1, 1 end, all_gather = function(n) return n, 1 end,
             reduce_scatter = function(n) return 1, n end, all_to_all = function() return 1, 1 end}
local reduces = {all_reduce = true, reduce_scatter = true}

-- Without a place: the message names the option.
local function refuse(...) error("plan: " .. string.format(...), 0) end

-- Whole numbers that are floats are taken, too.
local function numbers(shape)
  local list = {}
  for i = 1, #shape do
    list[i] = math.tointeger(shape[i]) or refuse("option 'shape' has %s; it is a list of whole numbers", tostring(shape[i]))
  end
  if #list == 0 then refuse "option 'shape' is missing: it is that of what each rank has, as {128, 512}" end
  return list
end

-- A program of that collective alone.
local function program_of(o)
  if not ops[o.op] then
    local names = {"all_gather", "all_reduce", "all_to_all", "reduce_scatter"}
    local near = host.nearest(tostring(o.op), names)
    refuse("option 'op' is %s: %s%s", tostring(o.op), table.concat(names, ", "), near and "; did you mean '" .. near .. "'?" or "")
  end
  -- src and dst begin with the same shape.
  local x, y, ranks = numbers(o.shape or {}), numbers(o.shape or {}), {}
  local times, part = ops[o.op](o.ranks)
  if x[1] % part ~= 0 then refuse("%s: %d rows are not a multiple of %d ranks", o.op, x[1], part) end
  y[1] = y[1] * times // part
  -- One group of all ranks.
  for r = 1, o.ranks do ranks[r] = r - 1 end
  local dtype = o.dtype or "float32"
  -- The smallest program with that collective: it issues it and waits.
  return soma.assemble(([==[
        target  %s
g       group   [[%s]]
x       tensor  %s[%s], input
y       tensor  %s[%s], output
done    sem
section gpsimd
        %s dsts=[y], srcs=[x], group=g%s  $done++
        nop     $done>=1
        halt
]==]):format(o.target or "trn2", table.concat(ranks, ", "), dtype, table.concat(x, ", "), dtype, table.concat(y, ", "), o.op,
           reduces[o.op] and ", op=" .. (o.reduce or "add") or ""), {name = o.op})
end

local function plan(o)
  -- A table is needed before its fields can be looked at.
  if type(o) ~= "table" then error("plan: expected a table of options", 2) end
  local wrong = host.wrong_options("plan", o, known)
  if wrong then error(wrong, 2) end
  local rank = o.rank or 0
  if not o.ranks then error("plan: option 'ranks' is missing: it says how many", 2) end
  if math.type(o.ranks) ~= "integer" or o.ranks < 1 then error("plan: option 'ranks' is " .. tostring(o.ranks) .. "; it is a whole number from 1 on", 2) end
  if math.type(rank) ~= "integer" or rank < 0 or rank >= o.ranks then error(("plan: option 'rank' is %s; the ranks are 0 to %d"):format(rank, o.ranks - 1), 2) end
  local program = o.program or program_of(o)
  -- Plans are made when a world starts; no inputs are needed to make them.
  -- Times only: no tensor gets any values.
  local world <close> = soma.world {ranks = o.ranks, lnc = o.lnc, instance = o.instance, algorithm = o.algorithm, costs = o.costs,
                                    target = o.target or program:target(), timing_only = true}
  world:start(program, {})
  return world:program(rank)
end

return {plan = plan}
