-- Programs that cannot continue, and what the report must say of each: who waits on what and how much
-- is missing, the last values, the moment that was missed, who could still help. A case is a
-- program, whose first line is line 2 of d.s; `has` and `hasnt` are parts of the text.
local soma = require "soma"
local t = require "harness"

local function fault(c)
  local prog = soma.assemble("target trn2\n" .. c.text, {name = "d.s"})
  local core = soma.core(c.core or {})
  return core:run(prog, c.inputs, {faults = "return"}).fault
end

local function check(c)
  t.case(c[1], function()
    local f = assert(fault(c), "the run ended well")
    t.eq(f.kind, c.kind or "deadlock")
    for _, part in ipairs(c.has) do
      if not f.text:find(part, 1, true) then error("no '" .. part .. "' in:\n" .. f.text, 0) end
    end
    for _, part in ipairs(c.hasnt or {}) do
      if f.text:find(part, 1, true) then error("'" .. part .. "' in:\n" .. f.text, 0) end
    end
  end)
end

-- ---- Nobody can help ---------------------------------------------------------------------------

check {"never signalled", text = "s sem\nsection vector\n nop $s>=2\n halt\n",
  has = {"vector at d.s:4 waits for $s>=2; $s is 0, 2 short, never updated",
         "nothing that could still run changes it"},
  hasnt = {"updates:", "circle", "held earlier"}}

check {"one step too high", text = [[
s sem
section sync
 nop $s++
 nop $s++
 nop $s++
 halt
section vector
 nop $s>=4
 halt
]], has = {"vector at d.s:9 waits for $s>=4; $s is 3, 1 short",
  "updates: to 1 at 30 ns by sync (d.s:4), to 2 at 31 ns by sync (d.s:5), to 3 at 32 ns by sync (d.s:6)",
  "nothing that could still run changes it: sync (d.s:4, d.s:5, d.s:6) has halted"},
  hasnt = {"circle", "held earlier"}}

check {"strictly greater", text = "s sem\nsection sync\n nop $s+=5\n halt\nsection vector\n nop $s>5\n halt\n",
  has = {"waits for $s>5; $s is 5, 1 short"}}

check {"halted producer: a loop with a round too few", text = [[
s sem
section sync
 loop r0, 0, 3
 nop $s++
 endloop
 halt
section scalar
 loop r0, 1, 5
 nop $s>=r0
 endloop
 halt
]], has = {"scalar at d.s:10 (round 4 of the loop at d.s:9) waits for $s>=4; $s is 3, 1 short", "to 1..3 at ",
  "sync (d.s:5) has halted"}}

check {"the wrong engine's semaphore", text = [[
mine sem
yours sem
section sync
 nop $yours++
 halt
section vector
 nop $mine>=1
 halt
section scalar
 nop $yours>=1
 halt
]], has = {"vector at d.s:8 waits for $mine>=1; $mine is 0, 1 short, never updated",
  "nothing that could still run changes it"}, hasnt = {"scalar", "sync"}}

check {"a producer that jumps over its update", text = [[
s sem
section sync
 mov r0, 1
 bne r0, 0, .over
 nop $s++
.over: nop $s>=1
 halt
]], has = {"sync at d.s:7 waits for $s>=1; $s is 0, 1 short, never updated",
  "nothing that could still run changes it: sync (d.s:6) is past it"}}

check {"the update is after the wait itself", text = "s sem\nsection sync\n nop $s>=1\n nop $s++\n halt\n",
  has = {"sync at d.s:4 waits for $s>=1", "it could still be changed by sync (d.s:5) after this wait"},
  hasnt = {"circle"}}

check {"two wait for what one may take", text = [[
s sem
section sync
 nop $s+=4
 halt
section vector
 event_semaphore $s>=4 $s-=4
 halt
section scalar
 event_semaphore $s>=4 $s-=4
 halt
]], has = {"waits for $s>=4; $s is 0, 4 short", "to 4 at 30 ns by sync (d.s:4), to 0 at ",
  "it held earlier: $s was 4 from 30 to 30 ns"}}

check {"drain does not help", text = [[
u tile sbuf float32[128, 64]
s sem
section vector
 memset u, 0
 drain
 nop $s>=1
 halt
section gpsimd
 drain
 halt
]], has = {"vector at d.s:7 waits for $s>=1", "never updated"}, hasnt = {"gpsimd"}}

check {"a drain in front of the update", text = [[
u tile sbuf float32[128, 64]
a sem
b sem
section vector
 memset u, 0 $a>=1
 drain
 nop $b++
 halt
section scalar
 nop $b>=1
 nop $a++
 halt
]], has = {"vector at d.s:6 waits for $a>=1", "scalar at d.s:11 waits for $b>=1",
  "could still be changed by vector (d.s:8)", "they wait in a circle: vector for scalar for vector"}}

-- ---- Passing values ----------------------------------------------------------------------------

check {"== on a passing value", text = [[
s sem
section sync
 nop $s++
 nop $s++
 nop $s++
 halt
section vector
 loop r0, 0, 100
 endloop
 nop $s==2
 halt
]], has = {"vector at d.s:11 waits for $s==2; $s is 3\n",
  "it held earlier: $s was 2 from 31 to 32 ns, when d.s:6 made it 3; this wait began at "}}

check {"== that the steps skip", text = [[
s sem
section sync
 nop $s+=2
 nop $s+=2
 halt
section vector
 nop $s==3
 halt
]], has = {"waits for $s==3; $s is 4", "to 2 at 30 ns by sync (d.s:4), to 4 at 31 ns by sync (d.s:5)"},
  hasnt = {"held earlier"}}

check {"== on the rings of a transfer", text = [[
x tensor float32[128, 64], temp
u tile sbuf float32[128, 64]
s sem
q queue rings=16, dge=hwdge
section sync
 dma_copy u, x, queue=q $s
 nop $s>=16
 nop $s==8
 halt
]], has = {"sync at d.s:9 waits for $s==8; $s is 16", "to 1..16 at ", "by sync (d.s:7)",
  "it held earlier: $s was 8 from "}}

check {"the value of the start has gone by", text = [[
s sem
section vector
 nop $s+=3
 nop $s>=3
 nop $s==0
 halt
]], has = {"it held earlier: $s was 0 from 0 to 30 ns, when d.s:4 made it 3; this wait began at "}}

check {"less than, after it rose", text = [[
s sem
section sync
 nop $s+=8
 halt
section vector
 nop $s>=8
 nop $s<8
 halt
]], has = {"vector at d.s:8 waits for $s<8; $s is 8", "it held earlier: $s was 0 from 0 to 30 ns"}}

check {"a semaphore reused too early", text = [[
; sync clears the semaphore for the next block before vector has seen it
s sem
section sync
 nop $s+=16
 nop $s>=16
 nop $s=0
 halt
section vector
 loop r0, 0, 200
 endloop
 nop $s>=16
 halt
]], has = {"vector at d.s:12 waits for $s>=16; $s is 0, 16 short",
  "to 16 at 30 ns by sync (d.s:5), to 0 at ", "by sync (d.s:7)",
  "it held earlier: $s was 16 from 30 to ", "when d.s:7 made it 0; this wait began at "}}

check {"sem_range_clear races with the waiter", text = [[
s sem 0
n sem 1
section sync
 nop $s+=4
 nop $s>=4
 sem_range_clear first=0, count=1
 nop $n++
 halt
section gpsimd
 nop $n>=1
 nop $s>=4
 halt
]], has = {"gpsimd at d.s:12 waits for $s>=4; $s is 0, 4 short", "by sync (d.s:7)",
  "it held earlier: $s was 4 from 30 to ", "sync (d.s:5, d.s:7) has halted"}}

check {"a decrement below what is waited for", text = [[
s sem
section sync
 nop $s+=3
 nop $s>=3
 nop $s--
 halt
section scalar
 loop r0, 0, 200
 endloop
 nop $s>=3
 halt
]], has = {"scalar at d.s:11 waits for $s>=3; $s is 2, 1 short",
  "to 3 at 30 ns by sync (d.s:4), to 2 at ", "it held earlier: $s was 3 from 30 to "}}

check {"not equal, and it came back", text = [[
s sem
section sync
 nop $s++
 nop $s>=1
 nop $s--
 halt
section scalar
 loop r0, 0, 200
 endloop
 nop $s!=0
 halt
]], has = {"scalar at d.s:11 waits for $s!=0; $s is 0", "it held earlier: $s was 1 from 30 to "}}

check {"only the last values are kept", text = [[
s sem
section sync
 loop r0, 0, 40
 nop $s++
 endloop
 nop $s>=40
 nop $s==2
 halt
]], has = {"$s is 40", "last updates: to 25..40 at "}, hasnt = {"held earlier"}}

-- ---- Circles -----------------------------------------------------------------------------------

local engines = {"tensor", "vector", "scalar", "gpsimd", "sync"}
for n = 2, 5 do
  local text, has = {"s" .. 1 .. " sem"}, {}
  for i = 2, n do text[#text + 1] = "s" .. i .. " sem" end
  for i = 1, n do -- engine i waits for semaphore i, and updates the one before
    local before = (i - 2) % n + 1
    text[#text + 1] = ("section %s\n nop $s%d>=1\n nop $s%d++\n halt"):format(engines[i], i, before)
    has[i] = ("%s at d.s:%d waits for $s%d>=1; $s%d is 0"):format(engines[i], n + 4 * i - 1, i, i)
  end
  has[n + 1] = "they wait in a circle: tensor for " .. table.concat(engines, " for ", 2, n) .. " for tensor"
  check {"a circle of " .. n, text = table.concat(text, "\n") .. "\n", has = has}
end

check {"a circle beside one who only waits for it", text = [[
a sem
b sem
c sem
section tensor
 nop $c>=1
 halt
section vector
 nop $a>=1
 nop $b++
 nop $c++
 halt
section scalar
 nop $b>=1
 nop $a++
 halt
]], has = {"they wait in a circle: vector for scalar for vector", "tensor at d.s:6 waits for $c>=1"},
  hasnt = {"circle: tensor"}}

check {"a chain is not a circle", text = [[
a sem
b sem
section vector
 nop $a>=1
 halt
section scalar
 nop $b>=1
 nop $a++
 halt
]], has = {"could still be changed by scalar (d.s:9)", "nothing that could still run changes it"},
  hasnt = {"circle"}}

check {"a routine that does not come back", text = [[
s sem
go sem
section vector
 call r1, routine
 nop $s++
 halt
routine:
 nop $go>=1
 ret r1
section scalar
 nop $s>=1
 nop $go++
 halt
]], has = {"vector at d.s:9 waits for $go>=1", "could still be changed by vector (d.s:6)",
  "circle: vector for scalar for vector"}}

-- ---- Transfers ---------------------------------------------------------------------------------

local static = [[
x tensor float32[128, 64], temp
u tile sbuf float32[128, 64]
s sem
go sem
q queue rings=16, dge=none
 dma q, u, x
]]

check {"a static transfer is never triggered", text = static .. [[
section sync
 nop $go>=1
 dma_trigger q, 1 $s
 halt
section vector
 nop $s>=16
 halt
]], has = {"vector at d.s:13 waits for $s>=16; $s is 0, 16 short, never updated",
  "could still be changed by sync (d.s:10 by queue q)", "sync at d.s:9 waits for $go>=1"}}

check {"a transfer too few is triggered", text = static .. [[
section sync
 dma_trigger q, 2 $s
 halt
section vector
 nop $s>=48
 halt
]], has = {"vector at d.s:12 waits for $s>=48; $s is 32, 16 short", "last updates: to 17..32 at ",
  "sync (d.s:9 by queue q) has halted"}}

check {"fewer rings than the wait counts", text = [[
x tensor float32[128, 64], temp
u tile sbuf float32[128, 64]
s sem
q queue rings=8, dge=hwdge
section sync
 dma_copy u, x, queue=q $s
 nop $s>=16
 halt
]], has = {"sync at d.s:8 waits for $s>=16; $s is 8, 8 short", "updates: to 1..8 at ",
  "sync (d.s:7 by queue q) is past it"}}

check {"full rings empty themselves, and are not blamed", text = [[
x tensor float32[128, 64], temp
u tile sbuf float32[128, 64]
s sem
q queue rings=1, dge=hwdge
section sync
 loop r0, 0, 100
 dma_copy u, x, queue=q $s
 endloop
 nop $s>=101
 halt
]], has = {"$s is 100, 1 short", "last updates: to 85..100 at "}, hasnt = {"place in the rings"}}

check {"no names and no lines", text = "section sync\n nop $S[7]>=1\n halt\n",
  has = {"sync at d.s:3 waits for $S[7]>=1; $S[7] is 0, 1 short, never updated"}}

-- ---- Livelock: a limit ends it -----------------------------------------------------------------

for _, limit in ipairs {{max_instructions = 20000}, {max_time = 2e4}, {max_seconds = 0.1}} do
  check {"spinning while another waits, until " .. next(limit), kind = "limit", core = limit, text = [[
s sem
section sync
.l: add r0, r0, 1
 jmp .l
section vector
 nop $s>=1
 halt
]], has = {"\n  sync at d.s:", " spun ", " instructions without touching shared state",
    "\n  vector at d.s:7 waits for $s>=1; $s is 0, 1 short, never updated",
    "nothing that could still run changes it"}, hasnt = {"vector at d.s:7 spun"}}
end

check {"spinning before the update", kind = "limit", core = {max_instructions = 20000}, text = [[
s sem
section sync
.l: add r0, r0, 1
 bne r0, 0, .l
 nop $s++
 halt
section vector
 nop $s>=1
 halt
]], has = {"sync at d.s:", " spun ", "could still be changed by sync (d.s:6)"}}

check {"whoever works does not spin", kind = "limit", core = {max_instructions = 5000}, text = [[
a sem
b sem
section sync
.l: nop $a++
 event_semaphore $b>=1 $b--
 jmp .l
section vector
.l: event_semaphore $a>=1 $a--
 nop $b++
 jmp .l
]], has = {"5000 instructions have run, which is the limit"}, hasnt = {"spun", "waits for"}}

t.finish()
