-- Programs of two cores with one clause changed: the checks, or the machine, find what is wrong with
-- them; the others are those that no legal timing changes, which the judge of all schedules decides.
local soma = require "soma"
local t = require "harness"
local two = require "two_cores"
local case, eq = t.case, t.eq

local x = soma.randn({2, 128, 64}, "float32", {seed = 1})
local a, b = soma.randn({2, 128, 512}, "float32", {seed = 2}), soma.randn({2, 128, 512}, "float32", {seed = 3})
-- Transfers on a queue of their own are not kept in order by their rings.
local apart = two.give:gsub("q       queue   dge=hwdge, core=%*\n", "%0r       queue   dge=hwdge, core=*\n")
  :gsub("dma_copy other.peer, own, queue=q", "dma_copy other.peer, own, queue=r")
local programs = {
  {"give", two.give, {x = x}}, {"apart", apart, {x = x}}, {"exchange", two.exchange, {x = x}},
  {"sum", two.sum, {a = a, b = b}},
}

-- What tells that a source is wrong; nil: nothing does. Second: what all schedules do then.
local function killed(source, inputs)
  local ok, prog = pcall(soma.assemble, source, {name = "m.s"})
  if not ok then return "refused" end
  local run = soma.core {checks = "race,uninit", max_instructions = 10000}:run(prog, inputs, {faults = "return"})
  if run.fault then return run.fault.kind end
  return nil, soma.core {schedule = "all"}:run(prog, inputs, {faults = "return"}).schedules.verdict
end

-- Each clause dropped, one less or one more, and of the other core's semaphore.
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
  end
  return out
end

case("mutants of programs of two cores are found, or change nothing", function()
  local found, missed = 0, {}
  for _, p in ipairs(programs) do
    eq(killed(p[2], p[3]), nil, p[1])
    for _, m in ipairs(mutants(p[2])) do
      local by, verdict = killed(m.text, p[3])
      if by then found = found + 1
      elseif verdict ~= "same" then missed[#missed + 1] = p[1] .. ": " .. m.at end
    end
  end
  eq(found > 40, true, found)
  eq(missed, {})
end)

t.finish()
