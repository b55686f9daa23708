-- soma --schedule all and soma.core {schedule = "all"}: what every legal timing does.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

local command = (os.getenv "BUILD" or "build") .. "/soma"
local file = t.temp() .. ".s"
-- Runs the command on a program: its exit status, standard output, standard error.
local function command_only(arguments)
  local out, err = t.temp(), t.temp()
  local _, _, status = os.execute(command .. " " .. arguments .. " >" .. out .. " 2>" .. err)
  return status, t.read(out), (t.read(err):gsub(file:gsub("%p", "%%%0"), "p.s"))
end
local function run(text, arguments)
  local f <close> = io.open(file, "w")
  f:write(text)
  f:close()
  return command_only(file .. " " .. arguments)
end

local function program(lines)
  return " target trn2\nx tensor float32[128, 4], input\nt tile sbuf float32[128, 4]\n" ..
    "u tile sbuf float32[128, 4]\na sem\nb sem\nq queue rings=2, dge=hwdge\n" .. lines
end
local load_then_copy = program "section sync\n dma_copy t, x, queue=q $a\n halt\n" ..
  "section vector\n tensor_copy u, t $a>=WANT\n halt\n"
local function judged(text, options)
  options = options or {}
  options.schedule = "all"
  local core = soma.core(options)
  local p = soma.assemble(text, {name = "p.s"})
  local inputs = text:find "\nx tensor" and {x = soma.zeros({128, 4}, "float32")} or {}
  return core:run(p, inputs, {faults = "return"})
end
local function verdict(lines) return judged(program(lines)).schedules.verdict end

case("a wait for all rings, and for one of two", function()
  local s = judged((load_then_copy:gsub("WANT", "2"))).schedules
  eq(s.verdict, "same")
  eq(s.text, "does not depend on timing (" .. s.states .. " states)")
  s = judged((load_then_copy:gsub("WANT", "1"))).schedules
  eq(s.verdict, "depends")
  eq((s.text:gsub("at [%d.]+ ns", "at T")), [[
depends on timing: vector reads at p.s:12 what a transfer of queue q writes at p.s:9, and nothing orders the two
  sync p.s:9, at T: dma_copy t, x, queue=q $a
    writes bytes 0..15 of sbuf partitions 0..63 (tile t), ring 0
  vector p.s:12, at T: tensor_copy u, t $a>=1
    reads bytes 0..15 of sbuf partitions 0..127 (tile t)
  a schedule in which sync p.s:9's transfer comes first: sync p.s:9 triggers; ring 1 of sync p.s:9 ends; ]] ..
    [[vector p.s:12 starts; ring 0 of sync p.s:9 ends; vector p.s:12 ends
  a schedule in which vector p.s:12 comes first: sync p.s:9 triggers; ring 1 of sync p.s:9 ends; ]] ..
    [[vector p.s:12 starts; vector p.s:12 ends; ring 0 of sync p.s:9 ends]])
end)

case("== of all that ever comes is decided as >=; of less it may be passed", function()
  eq(verdict(load_then_copy:match "section.*":gsub("$a>=WANT", "$a==2")), "same")
  local s = judged(program "section sync\n nop $a++\n nop $a++\n halt\nsection vector\n nop $a==1\n halt\n").schedules
  eq(s.verdict, "depends")
  eq(s.text:match "^[^\n]*", "depends on timing: vector can wait for ever for $a == 1 at p.s:13")
  eq(s.text:match "does: (.*)$", "sync p.s:9 goes on; sync p.s:10 goes on; the update of sync p.s:9 is seen; " ..
    "the update of sync p.s:10 is seen")
end)

case("semaphores that go down, are set and taken", function()
  eq(verdict "section sync\n nop $a++\n nop $b>=1 $a++\n halt\nsection vector\n nop $a==1 $b++\n nop $a==2\n halt\n", "same")
  eq(verdict "section sync\n nop $a-=1 $b>=1\n halt\nsection vector\n nop $a++\n nop $a>=1 $b++\n halt\n", "same")
  local s = judged(program "section sync\n nop $a-=1 $b>=1\n halt\nsection vector\n nop $a++\n nop $b++\n halt\n")
  if s.schedules then
    eq(s.schedules.text:match "^[^\n]*", "depends on timing: sync can take $a below zero at p.s:9")
  else
    eq(s.fault ~= nil, true)
  end
  eq(verdict("section sync\n nop $a+=2\n halt\nsection vector\n event_semaphore $a>=1 $a-=1\n" ..
    " event_semaphore $a>=1 $a-=1\n halt\n"), "same")
end)

case("the sequencer's own accesses, drains and two engines that trigger one queue", function()
  eq(verdict "section vector\n memset t, 1.0\n tensor_load r0, t[0, 0]\n halt\n", "same")
  eq(verdict "section vector\n memset t, 1.0 $a++\n halt\nsection sync\n tensor_load r0, t[0, 0] $a>=1\n halt\n", "same")
  eq(verdict "section vector\n memset t, 1.0\n halt\nsection sync\n tensor_load r0, t[0, 0]\n halt\n", "depends")
  eq(verdict "section vector\n memset t, 1.0\n drain\n nop $a++\n halt\nsection scalar\n tensor_copy u, t $a>=1\n halt\n", "same")
  eq(verdict "section vector\n memset t, 1.0\n nop $a++\n halt\nsection scalar\n tensor_copy u, t $a>=1\n halt\n", "depends")
  local static = [[
 target trn2
z tensor float32[128, 4]
t tile sbuf float32[128, 4]
u tile sbuf float32[128, 4]
a sem
b sem
q queue rings=2, dge=none
section sync
 dma_copy t, z, queue=q $a
 nop $b++
 halt
section scalar
 dma_copy u, z, queue=q WAIT $a
 halt
section vector
 tensor_tensor t, t, u, op=add $a>=4
 halt
]]
  eq(judged((static:gsub("WAIT", "$b>=1"))).schedules.verdict, "same")
  local s = judged((static:gsub(" WAIT", ""))).schedules
  eq(s.text:match "^[^\n]*",
    "depends on timing: scalar at p.s:13 and sync at p.s:9 trigger queue q, and nothing orders the two")
end)

-- What one run of the race check says: its first finding, nil when it has none.
local function found(lines)
  local core = soma.core {checks = "race"}
  local r = core:run(soma.assemble(program(lines), {name = "p.s"}), {x = soma.zeros({128, 4}, "float32")}, {faults = "return"})
  return r.findings[1] and r.findings[1].text:match "^[^\n]*"
end

case("the check and the judge: what an update at read tells, and values that go below zero", function()
  -- vector's second starts when its first has ended, for it writes what that one reads.
  local told = "section vector\n tensor_copy u[0:64], t[0:64]\n memset t, 1.0 $a++@read\n halt\n" ..
    "section scalar\n tensor_copy u, u $a>=1\n halt\n"
  eq(verdict(told), "same")
  eq(found(told), nil)
  local untold = told:gsub("memset t", "memset t[64:128]")
  eq(verdict(untold), "depends")
  eq(found(untold), "p.s:13: race: scalar reads what vector writes, and nothing orders the two")
  local below = "section vector\n nop $a+=2\n nop $b++\n halt\nsection sync\n drain\n nop\n nop $a-=1 $b>=WANT\n halt\n"
  eq(verdict((below:gsub(" $b>=WANT", ""))), "depends")
  eq(found((below:gsub(" $b>=WANT", ""))), "p.s:15: race: sync takes 1 from $a, which can go below zero: " ..
    "nothing orders it after the update by vector that it needs")
  -- What the first semaphore gets can arrive after what the second one tells.
  eq(verdict((below:gsub("WANT", "1"))), "depends")
  eq(found((below:gsub("WANT", "1"))), "p.s:15: race: sync takes 1 from $a, which can go below zero: " ..
    "nothing orders it after what raises it")
  below = below:gsub("nop $b%+%+", "nop $a>=2 $b++"):gsub("WANT", "1")
  eq(verdict(below), "same")
  eq(found(below), nil)
  local own = "section vector\n memset t, 1.0 $a++\n ORDER\n nop $a-=1\n halt\n"
  eq(verdict((own:gsub("ORDER", "drain"))), "same")
  eq(found((own:gsub("ORDER", "drain"))), nil)
end)

-- An event_semaphore that adds to what it waits for only counts up: no states are searched.
case("increments at once, in a program of many rings", function()
  local lines = program [[
r       queue rings=16, dge=swdge
section sync
 dma_copy t, x, queue=q $a
 halt
section scalar
 event_semaphore $a>=4 $a+=2
 halt
section gpsimd
 event_semaphore $a>=6 $a+=2
 dma_copy t, x, queue=r $a
 halt
section vector
 tensor_copy u, t $a>=WANT
 halt
]]
  lines = lines:gsub("rings=2", "rings=16"):gsub("t, x, queue=r", "t[0:64], u[0:64], queue=r")
  eq(judged((lines:gsub("WANT", "36"):gsub("$a>=6", "$a>=18"))).schedules.verdict, "same")
  eq(judged((lines:gsub("WANT", "35"):gsub("$a>=6", "$a>=18"))).schedules.verdict, "depends")
end)

case("too many states", function()
  local lines = {" target trn2\nt tile sbuf float32[128, 4]\n"}
  for i = 1, 5 do lines[#lines + 1] = "a" .. i .. " sem\n" end
  for i, engine in ipairs {"vector", "scalar", "gpsimd", "sync", "tensor"} do
    lines[#lines + 1] = "section " .. engine .. "\n" .. (" nop $a" .. i .. "++\n"):rep(12) ..
      " nop $a" .. i % 5 + 1 .. "<=12 $a" .. i .. "-=1\n nop $a" .. i % 5 + 1 .. "!=40\n halt\n"
  end
  local s = judged(table.concat(lines)).schedules
  eq(s.verdict, "not decided")
  eq(s.text:match "^not decided: stopped after 10%d%d%d%d%d states at p.s:%d+$" ~= nil, true, s.text)
  local status, out, err = run(table.concat(lines), "--schedule all --quiet")
  eq(status, 3, err)
  eq(out, "")
  eq(err, (s.text:gsub("p%.s", "p.s")) .. "\n")
end)

case("the command: sentence and exit status", function()
  local status, out, err = run(load_then_copy:gsub("WANT", "2"), "--schedule all --in x=zeros")
  eq(status, 0, err)
  eq(out:match "\ndoes not depend on timing %(%d+ states%)\n$" ~= nil, true, out)
  status, out, err = run(load_then_copy:gsub("WANT", "1"), "--schedule all --in x=zeros --quiet")
  eq(status, 1)
  eq(out, "")
  eq(err:match "\ndepends on timing: vector reads at p.s:12 what" ~= nil, true, err)
  status, out = run(load_then_copy:gsub("WANT", "1"), "--schedule all --in x=zeros --json")
  eq(status, 1)
  eq(out:match '"verdict": "(%w+)"', "depends")
  status, _, err = run(load_then_copy:gsub("WANT", "1"), "--schedule all --check race --in x=zeros")
  eq(status, 1)
  eq(err:match "fix: vector must wait for $a >= 2" ~= nil and err:match "\ndepends on timing:" ~= nil, true, err)
  eq(select(3, run(load_then_copy, "--schedule some")):match "^[^\n]*",
    "soma: error: --schedule takes a whole number of at least 1, or all, not 'some'")
  eq(select(3, run(load_then_copy, "--schedule all --schedule-seed 3")):match "^[^\n]*",
    "soma: error: --schedule all does not go with --schedule-seed")
end)

case("a run that is stopped and saved has the verdict when it is resumed", function()
  for want, status in pairs {["1"] = 1, ["2"] = 0} do
    local text, file = load_then_copy:gsub("WANT", want), t.temp()
    local _, out, err = run(text, "--schedule all --in x=zeros")
    local got, _, said = run(text, "--schedule all --in x=zeros --max-instructions 2 --save " .. file)
    eq(got, 1) eq(said:match "2 instructions have run" ~= nil, true, said)
    local again, out2, err2 = command_only("--resume " .. file)
    eq(again, status)
    eq(out2:match "does not depend[^\n]*", out:match "does not depend[^\n]*")
    eq(err2:match "depends on timing.*", err:match "depends on timing.*")
    os.remove(file)
  end
end)

case("only a run that has ended well, and was asked to", function()
  local p = soma.assemble(program "section vector\n memset t, 1.0\n halt\n", {name = "p.s"})
  local x = soma.zeros({128, 4}, "float32")
  eq(soma.core {}:run(p, {x = x}).schedules, nil)
  local r = soma.core {schedule = "all"}:start(p, {x = x})
  eq(r.schedules, nil)
  r:continue()
  eq(r.schedules.verdict, "same")
  raises("option 'schedule' must be an integer", soma.core, {schedule = "every"})
  r = soma.core {schedule = "all"}:start(p, {x = x})
  r:close()
end)

t.finish()
