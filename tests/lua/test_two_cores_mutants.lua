-- Programs of two cores with one clause changed: the checks, or the machine, find what is wrong with
-- them; the others are those that no legal timing changes, which the judge of all schedules decides.
local soma = require "soma"
local t = require "harness"
local two = require "two_cores"
local case, eq = t.case, t.eq

local x = soma.randn({2, 128, 64}, "float32", {seed = 1})
local a, b = soma.randn({2, 128, 512}, "float32", {seed = 2}), soma.randn({2, 128, 512}, "float32", {seed = 3})
-- Transfers on a queue of their own are not kept in order by their rings.
local apart = two.give:gsub("q queue dge=hwdge, core=%*\n", "%0r       queue   dge=hwdge, core=*\n")
  :gsub("dma_copy other.peer, own, queue=q", "dma_copy other.peer, own, queue=r")
-- What the cores swap goes by two pipes, then by gpsimd; both cores see it all after a barrier.
local swap = [[
target  trn2
ready   sem     core=*
got     sem     core=*
made    sem     core=*
q       queue   dge=hwdge, core=*
x       tensor  float32[2, 128, 64], input
both    tensor  float32[128, 64]
y       tensor  float32[2, 128, 64], output
a       tile    sbuf float32[128, 64]
b       tile    sbuf float32[128, 64]
c       tile    sbuf float32[128, 64]
section sync core=*
        dma_copy  a, x[CORE], queue=q                      $got
        sendrecv  b, a, queue=q, pipe=0                    $got>=16 $got
        sendrecv  c, a, queue=q, pipe=1                    $got
        dma_copy  both[64 * CORE:+64], c[0:64], queue=q    $made>=2 $got
        core_barrier ready, data=both                      $got>=64
        dma_copy  y[CORE], both, queue=q
        halt
section vector core=*
        tensor_tensor c, b, c, op=add                      $got>=48 $made++
        halt
section gpsimd core=*
        sendrecv_gpsimd b, c, pipe=2                       $made>=1
        tensor_copy c, b                                   $made++
        halt
]]
-- By two engines, each on a pipe of its own.
local engines = [[
target  trn2
got     sem     core=*
done    sem     core=*
q       queue   dge=hwdge, core=*
r       queue   dge=none, core=*
s       queue   dge=none, core=*
x       tensor  float32[2, 128, 64], input
y       tensor  float32[2, 128, 64], output
a       tile    sbuf float32[128, 64]
b       tile    sbuf float32[128, 64]
section sync core=*
        dma_copy  a, x[CORE], queue=q                      $got
        sendrecv  b[:, 0:32], a[:, 0:32], queue=r, pipe=0  $got>=16 $done
        dma_copy  y[CORE], b, queue=q                      $done>=32
        halt
section scalar core=*
        sendrecv  b[:, 32:64], a[:, 32:64], queue=s, pipe=1  $got>=16 $done
        halt
]]
local programs = {
  {"swap", swap, {x = x}}, {"engines", engines, {x = x}},
  {"give", two.give, {x = x}}, {"apart", apart, {x = x}}, {"exchange", two.exchange, {x = x}},
  {"sum", two.sum, {a = a, b = b}},
}

-- What tells that a source is wrong; nil: nothing does. Second: what all schedules do then. A result
-- that differs from y tells it too.
local function killed(source, inputs, y)
  local ok, prog = pcall(soma.assemble, source, {name = "m.s"})
  if not ok then return "refused" end
  local run = soma.core {checks = "race,uninit", max_instructions = 10000}:run(prog, inputs, {faults = "return"})
  if run.fault then return run.fault.kind end
  if y and not soma.equal(run.out.y, y) then return "result" end
  return nil, soma.core {schedule = "all"}:run(prog, inputs, {faults = "return"}).schedules.verdict
end

-- Each clause dropped, one less or one more, and of the other core's semaphore; a pipe of another
-- number, on both cores and on core 0; a meeting after the line that follows it.
local function mutants(source)
  local lines, out = {}, {}
  for line in source:gmatch "[^\n]*\n" do lines[#lines + 1] = line end
  local function add(i, line)
    local copy = {table.unpack(lines)}
    copy[i] = line
    out[#out + 1] = {text = table.concat(copy), at = line}
  end
  for i, line in ipairs(lines) do
    for s, e in line:gmatch "()%$[%w.]+[^%s]*()" do
      local clause, before, after = line:sub(s, e - 1), line:sub(1, s - 1), line:sub(e)
      local n = math.tointeger(clause:match ">=(%d+)$" or "")
      add(i, before .. after)
      for by = -1, n and 1 or -2, 2 do add(i, before .. clause:gsub("%d+$", tostring(n + by)) .. after) end
      if clause:find "peer" then add(i, before .. clause:gsub("peer%.", "") .. after)
      elseif not n then add(i, before .. clause:gsub("%$", "$peer.") .. after) end
    end
    local pipe = line:match "pipe=(%d)"
    if pipe then
      add(i, (line:gsub("pipe=%d", "pipe=" .. (pipe + 1) % 3)))
      local swapped = source:gsub("pipe=(%d)", function(n) return "pipe=(" .. n .. " + CORE) % 2" end)
      out[#out + 1] = {text = swapped, at = "swapped pipes"}
      add(i, (line:gsub("pipe=%d", "pipe=" .. (pipe + 2) % 3 .. " + CORE")))
    end
    if (pipe or line:find "barrier") and lines[i + 1]:find "%w" and not lines[i + 1]:find "halt" then
      add(i, lines[i + 1])
      local last = out[#out]
      last.text = last.text:gsub(lines[i + 1]:gsub("%p", "%%%0"):rep(2), (lines[i + 1] .. line:gsub("%%", "%%%%")))
    end
  end
  return out
end

case("mutants of programs of two cores are found, or change nothing", function()
  local found, missed = 0, {}
  for _, p in ipairs(programs) do
    eq(killed(p[2], p[3]), nil, p[1])
    local y = soma.core {}:run(soma.assemble(p[2]), p[3]).out.y
    for _, m in ipairs(mutants(p[2])) do
      local by, verdict = killed(m.text, p[3], y)
      if by then found = found + 1
      elseif verdict ~= "same" then missed[#missed + 1] = p[1] .. ": " .. m.at end
    end
  end
  eq(found >= 90, true, found)
  eq(missed, {})
end)

t.finish()
