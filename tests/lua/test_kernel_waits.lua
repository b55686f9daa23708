-- In the samples of soma.kernel, a wait for data that is removed is found by `race`; and few waits only
-- protect a semaphore that is used again. A race is one of places and times, so nothing is computed.
-- FULL: each wait of each kernel, else some of them.
local soma = require "soma"
local t = require "harness"
local samples = require "kernel_samples"
local MOST, EVERY = 500, (os.getenv "FULL" or "") ~= "" and 1 or 24

-- The lines of the instructions of a source, by engine and pc.
local function lines_of(text)
  local lines, at, engine, pc = {}, {}, nil, 0
  for line in text:gmatch "[^\n]*" do
    lines[#lines + 1] = line
    local section = line:match "^section (%a+)"
    if section then engine, pc = section, 0
    elseif engine and line:find "^%s+%S" then
      at[engine .. " " .. pc], pc = #lines, pc + 1
    end
  end
  return lines, at
end

-- The waits of a kernel, by engine and pc, as its report tells them.
local function waits_of(k)
  local waits = {}
  for place, rest in k:report():match "\nwaits:\n(.*)":gmatch "  (%a+ %d+): ([^\n]*)" do
    waits[#waits + 1] = {place = place, text = rest, reuse = rest:find "semaphore is used again" ~= nil}
  end
  return waits
end

local function race(program, inputs, target)
  local core <close> = soma.core {target = target, checks = "race", max_seconds = 60, timing_only = true}
  local run = core:run(program, inputs, {faults = "return"})
  return run.fault and tostring(run.fault) or nil
end

local count = 0
samples.each(function(name, k, inputs)
  local waits, lines, at = waits_of(k), lines_of(k:source())
  t.case(name .. ": waits for data alone are found", function()
    local reuse, tried = 0, 0
    t.eq(#waits, k:figures().waits)
    assert(#waits <= MOST, #waits .. " waits: take a smaller size")
    for _, w in ipairs(waits) do
      local n = at[w.place]
      local without, found = lines[n]:gsub("%s%$[%w_]+>=%w+", "", 1)
      t.eq(found, 1, w.place .. ": " .. lines[n])
      count = count + 1
      if w.reuse then
        reuse = reuse + 1
      elseif count % EVERY == 0 then
        local kept = lines[n]
        lines[n] = without
        local text = table.concat(lines, "\n")
        lines[n] = kept
        tried = tried + 1
        assert(race(soma.assemble(text, {name = name}), inputs, k.target), "nothing found without: " .. w.place .. ": " .. w.text)
      end
    end
    t.eq(reuse, k:figures().reuse_waits)
    assert(reuse * 20 <= #waits, reuse .. " of " .. #waits .. " waits only protect the reuse of a semaphore")
  end)
  assert(not race(k:program(), inputs, k.target))
end)
t.finish()
