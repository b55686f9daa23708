-- Random programs over four engines and three queues, in which each instruction waits for every
-- earlier one that touches its bytes; if `drop` is given, one in so many of these waits is left out.

local head = [[
        target %s
a       tensor float32[128, 512], input
h       tensor float32[128, 512]
c       tensor float32[128, 512], output
c2      tensor float32[128, 512], output
ta      tile   sbuf float32[128, 512]
go      sem
fin     sem
dq      sem
q       queue  rings=16, dge=hwdge
q2      queue  rings=4, dge=hwdge
qs      queue  rings=16, dge=swdge
]]
local engines = {"vector", "scalar", "gpsimd", "sync"}
local random = math.random

-- 64 columns of all partitions or of the upper half, one apart or two.
local function region(space)
  local r = {space = space, p0 = 0, lo = random(0, 3) * 64, step = 1}
  local kind = random(5)
  if kind == 1 then r.p0 = 64 end
  if kind == 2 then r.lo = r.lo + 32 end
  if kind >= 4 then r.step, r.lo = 2, r.lo + kind - 4 end
  return r
end

local function meet(x, y)
  if x.space ~= y.space then return false end
  for k = 0, 63 do
    local at = x.lo + k * x.step - y.lo
    if at % y.step == 0 and at // y.step >= 0 and at // y.step < 64 then return true end
  end
  return false
end

local function text(r)
  local last = r.lo + 63 * r.step + 1
  return string.format("%s[%d:128, %d:%d%s]", r.space, r.p0, r.lo, last, r.step == 2 and ":2" or "")
end

local function operands(dma)
  local function space() return dma and random(2) == 1 and "h" or "ta" end
  local d, x
  repeat
    d, x = region(space()), region(space())
  until d.p0 == x.p0 and not meet(d, x)
  return d, x
end

local function instruction(op, wait)
  local d, x = text(op.d), text(op.x)
  if op.dma then
    return string.format(" dma_copy %s, %s, queue=%s%s $o%d", d, x, op.queue, wait, op.i)
  elseif op.e == "gpsimd" then
    return string.format(" tensor_copy %s, %s%s $o%d++", d, x, wait, op.i)
  end
  return string.format(" tensor_scalar %s, %s, op0=add, imm0=%d.0%s $o%d++", d, x, random(9), wait, op.i)
end

-- Appends an instruction and its waits; of these, one in `drop` is left out.
local function add(ops, code, waited, i, drop)
  local e = engines[random(4)]
  local op = {e = e, i = i, dma = e == "sync" or (e == "gpsimd" and random(3) == 1), updates = 1}
  op.d, op.x = operands(op.dma)
  if op.dma then
    op.queue = e == "gpsimd" and "qs" or random(2) == 1 and "q" or "q2"
    op.updates = op.queue == "q2" and 4 or 16
  end
  local list, last = code[e], ""
  for _, o in ipairs(ops) do
    local conflict = meet(o.d, op.d) or meet(o.d, op.x) or meet(o.x, op.d)
    local in_order = o.e == e and not o.dma and not op.dma
    if conflict and not in_order and not waited[e][o.i] and not (drop and random(drop) == 1) then
      waited[e][o.i] = true
      if last ~= "" then list[#list + 1] = " nop" .. last end
      last = string.format(" $o%d>=%d", o.i, o.updates)
    end
  end
  list[#list + 1] = instruction(op, last)
  ops[#ops + 1] = op
end

local function program(seed, target, drop)
  math.randomseed(seed)
  local ops, code, waited, t = {}, {}, {}, {(head:format(target))}
  for _, e in ipairs(engines) do code[e], waited[e] = {}, {} end
  for i = 1, random(5, 24) do add(ops, code, waited, i, drop) end
  for _, o in ipairs(ops) do t[#t + 1] = "o" .. o.i .. " sem" end
  for _, e in ipairs {"vector", "scalar", "gpsimd"} do
    t[#t + 1] = "section " .. e .. (e == "vector" and "\n memset ta, 1.0 $go++" or "")
    t[#t + 1] = " nop $go>=17\n" .. table.concat(code[e], "\n") .. "\n drain\n nop $fin++\n halt"
  end
  t[#t + 1] = "section sync\n dma_copy h, a, queue=q $go\n nop $go>=17\n" .. table.concat(code.sync, "\n")
  for _, o in ipairs(ops) do t[#t + 1] = o.dma and string.format(" nop $o%d>=%d", o.i, o.updates) or "" end
  t[#t + 1] = " nop $fin>=3\n dma_copy c, ta, queue=q $dq\n dma_copy c2, h, queue=q $dq\n halt\n"
  return table.concat(t, "\n")
end

return program
