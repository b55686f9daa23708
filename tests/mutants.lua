-- Mutation evidence of the checks; tests/README.md describes it. Prints what killed the mutants,
-- each that is alive, and "N passed, N failed".
--   lua5.4 tests/mutants.lua [--all] [--jobs N] [--verbose] [PATTERN of a subject]
local soma = require "soma"
local source = require "mutants.source"
local mutate = require "mutants.mutate"
local trial = require "mutants.trial"
local equal = require "mutants.equal"

local all, verbose, jobs, part, pattern = false, false, 2, nil, "."
do
  local i = 1
  while arg[i] do
    if arg[i] == "--all" then all = true
    elseif arg[i] == "--verbose" then verbose = true
    elseif arg[i] == "--jobs" then jobs, i = tonumber(arg[i + 1]), i + 1
    elseif arg[i] == "--part" then part, i = tonumber(arg[i + 1]), i + 1
    else pattern = arg[i] end
    i = i + 1
  end
end
local full = (os.getenv "FULL" or "") ~= ""
local EVERY = all and 1 or full and 4 or 16 -- of the sample: one mutant in so many

local function subject_lines(subject, count, say)
  local base, why = trial.base(subject)
  if not base then return say("false report", subject.name .. ": " .. why:gsub("\n", " ")) end
  say("clean", subject.name)
  if base.port then say("port", base.port) end
  local p = source.parse(subject.text)
  for _, m in ipairs(mutate.mutants(p)) do
    count = count + 1
    if count % EVERY == 0 and count // EVERY % jobs == part then
      local killer, text = trial.kill(m, base, subject.inputs)
      local rule = equal.rule(m, subject)
      if rule and killer and killer ~= "refused" then
        say("contradiction", string.format("%s\t%s: %s  %s, but %s", m.kind, subject.name, m.at, rule, text))
      elseif rule and not killer then
        killer = "equivalent"
      end
      say(killer or "alive", m.kind .. "\t" .. subject.name .. ": " .. m.at ..
        (verbose and text and "  " .. text:gsub("\n", " | ") or "") ..
        (killer == "equivalent" and " (" .. rule .. ")" or ""))
    end
  end
  return count
end

if part then
  local count = 0
  for _, subject in ipairs(require "mutants.subjects"()) do
    if subject.name:find(pattern) and (all or not subject.slow) then
      count = subject_lines(subject, count, function(k, text) print(k .. "\t" .. text) end) or count
    end
  end
  os.exit(0)
end

-- ---- The parts in processes, and the count ------------------------------------------------------

local function quoted(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local parts = {}
for k = 0, jobs - 1 do
  parts[k] = assert(io.popen(string.format("lua5.4 %s --part %d --jobs %d %s %s %s && echo done", quoted(arg[0]), k,
    jobs, all and "--all" or "", verbose and "--verbose" or "", quoted(pattern))))
end
local killers = {"refused", "check", "deadlock", "fault", "limit", "schedule", "output"}
local count, by_rule, alive, ports, wrong, ended, clean = {}, {}, {}, {}, {}, 0, {}

local function add(kind, what)
  count[kind] = count[kind] or {}
  count[kind][what] = (count[kind][what] or 0) + 1
  count[what] = (count[what] or 0) + 1
end

local function heard(line)
  local what, kind, text = line:match "^([^\t]*)\t([^\t]*)\t?(.*)$"
  if what == "clean" then clean[kind] = true
  elseif what == "port" then ports[kind] = true
  elseif not what or what == "false report" or what == "contradiction" then wrong[#wrong + 1] = line
  else
    add(kind, what)
    if what == "equivalent" then
      local rule = text:match "%((.-)%)$"
      by_rule[rule] = (by_rule[rule] or 0) + 1
    end
    if what == "alive" then alive[#alive + 1] = kind .. ", " .. text end
    if verbose then print(line) end
  end
end

for k = 0, jobs - 1 do
  for line in parts[k]:lines() do
    if line == "done" then ended = ended + 1 else heard(line) end
  end
end
if ended < jobs then wrong[#wrong + 1] = "a process that ran mutants has died" end

-- ---- Report -------------------------------------------------------------------------------------

local function row(name, f)
  io.write(string.format("%-20s", name))
  for _, w in ipairs(killers) do io.write(string.format("%10s", f(w))) end
  print(string.format("%12s%8s", f "equivalent", f "alive"))
end
row("", function(w) return w end)
for _, kind in ipairs(mutate.kinds) do
  row(kind, function(w) return tostring(count[kind] and count[kind][w] or 0) end)
end
row("all", function(w) return tostring(count[w] or 0) end)

local killed, programs = 0, 0
for _, w in ipairs(killers) do killed = killed + (count[w] or 0) end
for _ in pairs(clean) do programs = programs + 1 end
local equivalent, left = count.equivalent or 0, #alive
local outputs = count.output or 0
local score = 100 * killed / math.max(killed + left, 1)
print(string.format("%d mutants of %d programs: %d killed, %d equivalent, %d alive", killed + equivalent + left, programs,
  killed, equivalent, left))
print(string.format("Of %d mutants %d were killed, %d of them by their outputs alone, %d equivalent and %d alive.",
  killed + equivalent + left, killed, outputs, equivalent, left))
print(string.format("killed of those not equivalent: %.2f %%; without a look at the outputs: %.2f %%", score,
  100 * (killed - outputs) / math.max(killed + left, 1)))
for rule, n in pairs(by_rule) do print(string.format("equivalent by %s: %d", rule, n)) end
for text in pairs(ports) do print("unmutated: " .. text) end
for _, text in ipairs(alive) do print("alive: " .. text) end
for _, text in ipairs(wrong) do print("WRONG " .. text) end
local failed = #wrong + (score < 98 and 1 or 0)
print(string.format("%d passed, %d failed", killed + equivalent + programs, failed))
os.exit(failed == 0 and killed > 0, true)
