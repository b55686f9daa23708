-- Static checks: each finding, the near misses that must not be one, and that no program that runs
-- well is said to be stuck.
local soma = require "soma"
local t = require "harness"
local linting = require "lint_cases"
local lint, finds = linting.lint, linting.finds

-- ---- Waits that nothing can satisfy ------------------------------------------------------------

finds("never signalled", "s sem\nsection vector\n nop $s>=1\n halt\n",
  "4: warning: nothing updates the semaphore `s`, so this wait never ends [-w+never-signalled]")

finds("a wait that holds from the start", "s sem\nsection vector\n nop $s>=0\n nop $s==0\n nop $s<1\n halt\n")

local rings = [[
x tensor float32[128, 64], input
u tile sbuf float32[128, 64]
v tile sbuf float32[128, 64]
y tensor float32[128, 64], output
s sem
d sem
q queue rings=16, dge=hwdge
section sync
 dma_copy u, x, queue=q $s
 dma_copy u, x, queue=q $s
 dma_copy y, v, queue=q $d>=1
 halt
section vector
 nop $s%s
 tensor_copy v, u $d++
 halt
]]
finds("one step too high", rings:format ">=33",
  "15: warning: the wait $s>=33 cannot hold: all updates together bring it to 32; fix: wait for 32 [-w+impossible-wait]")
finds("just high enough", rings:format ">=32")
finds("more than all", rings:format ">32",
  "15: warning: the wait $s>32 cannot hold: all updates together bring it to 32; fix: wait for more than 31 [-w+impossible-wait]")
finds("more than all but one", rings:format ">31")
finds("rings pass every value", rings:format "==7")
finds("equal to more than all", rings:format "==40",
  "15: warning: the wait $s==40 cannot hold: all updates together bring it to 32 [-w+impossible-wait]")

local steps = "s sem\nsection sync\n nop $s+=%d\n nop $s+=%d\n halt\nsection vector\n nop $s==%d\n halt\n"
finds("== between the steps", steps:format(4, 6, 5),
  "8: warning: the wait $s==5 cannot hold: it changes in steps of 2 [-w+impossible-wait]")
finds("== on a step", steps:format(4, 6, 6))
finds("== and steps of one", steps:format(4, 5, 7))

finds("a loop with a round too few", [[
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
]], "10: warning: this wait, now $s>=4, cannot hold a 4. time: all updates together bring it to 3 [-w+impossible-wait]")

finds("a loop with as many rounds", [[
s sem
section sync
 loop r0, 0, 4
 nop $s++
 endloop
 halt
section scalar
 loop r0, 1, 5
 nop $s>=r0
 endloop
 halt
]])

finds("taken faster than given", [[
s sem
section sync
 loop r0, 0, 4
 nop $s+=8
 endloop
 halt
section scalar
 loop r0, 0, 4
 event_semaphore $s>=16 $s-=16
 endloop
 halt
]], "10: warning: this wait, now $s>=16, cannot hold a 3. time: all updates together bring it to 32, of which this engine has taken 32 [-w+impossible-wait]")

finds("it has risen for good", [[
s sem
section sync
 nop $s+=8
 halt
section vector
 nop $s>=8
 nop $s<8
 halt
]], "8: warning: the wait $s<8 cannot hold: it is at least 8, as this engine has waited for that and nothing lowers it [-w+impossible-wait]")

finds("it may fall again", [[
s sem
n sem
section sync
 nop $s+=8
 nop $n>=1
 nop $s=0
 halt
section vector
 nop $s>=8
 nop $n++
 nop $s<8
 halt
]])

finds("== on a value that this engine has passed", "s sem\nsection sync\n nop $s++\n nop $s++\n halt\n" ..
  "section vector\n nop $s>=2\n nop $s==1\n halt\n",
  "9: warning: the wait $s==1 cannot hold: it is at least 2, as this engine has waited for that and nothing lowers it [-w+impossible-wait]")

finds("!= what it always is", "s sem\nsection sync\n nop $s=0\n halt\nsection vector\n nop $s!=0\n halt\n",
  "7: warning: the wait $s!=0 cannot hold: it is always 0 [-w+impossible-wait]")

finds("an update in code that the engine does not reach", [[
s sem
section sync
 mov r0, 3
 bne r0, 0, .end
 nop $s++
.end: halt
section vector
 nop $s>=1
 halt
]], "9: warning: the wait $s>=1 cannot hold: all updates together bring it to 0 [-w+impossible-wait]")

finds("an update after a branch on data", [[
c tensor int32[1, 1], const = [1]
k tile sbuf int32[1, 1]
l sem
s sem
q queue dge=hwdge
section sync
 dma_copy k, c, queue=q $l
 nop $l>=16
 tensor_load r0, k
 beq r0, 0, .end
.on: nop $s++
 sub r0, r0, 1
 bne r0, 0, .on
.end: halt
section vector
 nop $s>=1000
 halt
]])

finds("a count from a register that was loaded", [[
c tensor int32[1, 1], const = [1]
k tile sbuf int32[1, 1]
l sem
s sem
q queue dge=hwdge
section sync
 dma_copy k, c, queue=q $l
 nop $l>=16
 tensor_load r0, k
 nop $s>=r0
 halt
section vector
 nop $s++
 halt
]])

local static = [[
x tensor float32[128, 64], input
u tile sbuf float32[128, 64]
v tile sbuf float32[128, 64]
s sem
q queue rings=16, dge=none
 dma q, u, x
section sync
 mov r1, 2
 dma_trigger q, r1 $s
 halt
section vector
 nop $s>=%d
 tensor_reduce v[:, 0:1], u, op=add
 tensor_scalar v[:, 0:1], v[:, 0:1], op0=add, imm0=1.0
 halt
]]
finds("triggers by a register", static:format(32))
finds("triggers by a register, and one more", static:format(48),
  "13: warning: the wait $s>=48 cannot hold: all updates together bring it to 32; fix: wait for 32 [-w+impossible-wait]")

-- ---- Loops that drift --------------------------------------------------------------------------

local drift = [[
x tensor float32[128, 64], input
y tensor float32[128, 64], output
u tile sbuf float32[128, 64]
v tile sbuf float32[128, 64]
s sem
d sem
o sem
q queue rings=16, dge=hwdge
section sync
 mov r1, 0
 mov r2, 1
 loop r0, 0, %d
 dma_copy u, x, queue=q $d>=r1 $s
 add r1, r1, 1
 endloop
 dma_copy y, v, queue=q $d>=r1 $o
 nop $o>=16
 halt
section vector
 loop r0, 0, 4
 %s
 tensor_copy v, u $d++
 %s
 endloop
 halt
]]
finds("a fixed wait in a loop, and nothing takes", drift:format(4, "nop $s>=16", ""),
  "22: warning: each of 4 rounds adds 16 to $s and nothing takes it: from the second round on this wait for 16 holds at once; fix: wait for 16 more each round [-w+unbalanced-semaphore]")
finds("what is waited for is taken", drift:format(4, "event_semaphore $s>=16 $s-=16", ""))
finds("less is taken than is added", drift:format(4, "nop $s>=16", "event_semaphore $s-=8"),
  "22: warning: each of 4 rounds adds 16 to $s and takes 8 (l.s:24), so that this wait holds too early; fix: take 16 [-w+unbalanced-semaphore]")
finds("what is waited for grows", drift:format(4, "nop $s>=r3", "add r3, r3, 16"))

local ahead = [[
x tensor float32[128, 64], input
y tensor float32[128, 64], output
u tile sbuf float32[128, 64]
v tile sbuf float32[128, 64]
s sem
d sem
q queue rings=16, dge=hwdge
section sync
 loop r0, 0, %d, 16
 dma_copy u[:, r0:+16], x[:, r0:+16], queue=q $s
 endloop
 dma_copy y, v, queue=q $d>=4
 halt
section vector
 loop r0, 0, 64, 16
 nop $s>=%d
 tensor_copy v[:, r0:+16], u[:, r0:+16] $d++
 endloop
 halt
]]
finds("waiting for all rounds each time", ahead:format(64, 64))
finds("waiting for the first one each time", ahead:format(64, 16),
  "17: warning: each of 4 rounds adds 16 to $s and nothing takes it: from the second round on this wait for 16 holds at once; fix: wait for 16 more each round [-w+unbalanced-semaphore]")
finds("other numbers of rounds are not judged, but what they leave out", ahead:format(48, 16),
  "18: warning: byte 192 of partition 0 of `u` is read here, and l.s:11, which writes where a register says, has not written it [-w+read-before-write]")

-- ---- Tiles -------------------------------------------------------------------------------------

local copy = [[
x tensor float32[128, 64], input
y tensor float32[128, 64], output
u tile sbuf float32[128, 64]
v tile sbuf float32[128, 64]
s sem
d sem
q queue rings=16, dge=hwdge
section sync
%s
 dma_copy y, v, queue=q $d>=1
 halt
section vector
 tensor_copy v, u %s $d++
 halt
]]
finds("written before it is read", copy:format(" dma_copy u, x, queue=q $s", "$s>=16"))
finds("nobody writes it", copy:format("", ""),
  "14: warning: byte 0 of partition 0 of `u` is read here, and nothing writes it [-w+unwritten-tile]")
finds("nobody writes all of it", copy:format(" dma_copy u[:, 0:48], x[:, 0:48], queue=q $s", "$s>=16"),
  "14: warning: byte 192 of partition 0 of `u` is read here, and nothing writes it [-w+unwritten-tile]")
finds("the last partition is missing", copy:format(" dma_copy u[0:127], x[0:127], queue=q $s", "$s>=16"),
  "14: warning: byte 0 of partition 127 of `u` is read here, and nothing writes it [-w+unwritten-tile]")
finds("two halves make a whole",
  copy:format(" dma_copy u[:, 0:48], x[:, 0:48], queue=q $s\n dma_copy u[:, 48:64], x[:, 48:64], queue=q $s", "$s>=32"))
finds("a read without its wait may come late",
  copy:format(" dma_copy u, x, queue=q $s\n nop $s>=16", ""))

finds("written only after the read", [[
y tensor float32[128, 64], output
u tile sbuf float32[128, 64]
v tile sbuf float32[128, 64]
d sem
q queue rings=16, dge=hwdge
section vector
 tensor_copy v, u $d++
 memset u, 0
 tensor_copy v, u
 halt
section sync
 dma_copy y, v, queue=q $d>=1
 halt
]], "8: warning: byte 0 of partition 0 of `u` is read here before anything can have written it; it is written at l.s:9 [-w+read-before-write]")

finds("another engine writes it, when this one has read", [[
y tensor float32[128, 64], output
u tile sbuf float32[128, 64]
v tile sbuf float32[128, 64]
d sem
q queue rings=16, dge=hwdge
section vector
 tensor_copy v, u $d++
 halt
section gpsimd
 memset u, 0 $d>=1
 halt
section sync
 dma_copy y, v, queue=q $d>=1
 halt
]], "8: warning: byte 0 of partition 0 of `u` is read here before anything can have written it; it is written at l.s:11 [-w+read-before-write]")

finds("a sum that is never begun", [[
y tensor float32[128, 64], output
u tile sbuf float32[128, 64]
d sem
q queue rings=16, dge=hwdge
section vector
 loop r0, 0, 4
 tensor_scalar u, u, op0=add, imm0=1.0 $d++
 endloop
 halt
section sync
 dma_copy y, u, queue=q $d>=4
 halt
]], "8: warning: byte 0 of partition 0 of `u` is read here before anything but this instruction can have written it [-w+read-before-write]")

local other = [[
y tensor float32[128, 32], output
u tile sbuf float32[128, 64]
d sem
q queue rings=16, dge=hwdge
section vector
 memset u[:, 0:64:2], 0 $d++
 halt
section sync
 dma_copy y, u[:, %d:64:2], queue=q $d>=1
 halt
]]
finds("every even element", other:format(0))
finds("every odd element", other:format(1),
  "10: warning: byte 4 of partition 0 of `u` is read here, and nothing writes it [-w+unwritten-tile]")

local moving = [[
x tensor float32[128, 64], input
y tensor float32[128, 64], output
u tile sbuf float32[128, 128]
s sem
q queue rings=16, dge=hwdge
section sync
 loop r1, 0, 2
 dma_copy u[:, r1:+64], x, queue=q $s
 endloop
 dma_copy y, u[:, %s], queue=q $s>=32
 halt
]]
finds("a place by a register is where the register says", moving:format "0:64")
finds("and not elsewhere", moving:format "64:128",
  "11: warning: byte 260 of partition 0 of `u` is read here, and l.s:9, which writes where a register says, has not written it [-w+read-before-write]")
finds("a place by a register that data gives counts as its whole tile", [[
x tensor float32[128, 64], input
k tensor int32[1], const = {3}
y tensor float32[128, 64], output
u tile sbuf float32[128, 128]
n tile sbuf int32[1, 1]
s sem
q queue rings=16, dge=hwdge
section sync
 dma_copy n, k, queue=q $s
 tensor_load r1, n $s>=16
 dma_copy u[:, r1:+64], x, queue=q $s
 dma_copy y, u[:, 64:128], queue=q $s>=32
 halt
]])
finds("and so does a read by a register", moving:gsub("dma_copy u%[:, r1:%+64%]", "dma_copy u[:, 0:64]"):format "r2:+64")

finds("tiles on the same bytes", [[
x tensor float32[128, 64], input
y tensor float32[128, 64], output
u tile sbuf float32[128, 64], overlay=g
v tile sbuf float32[128, 64], overlay=g
s sem
q queue rings=16, dge=hwdge
section sync
 dma_copy u, x, queue=q $s
 dma_copy y, v, queue=q $s>=16
 halt
]])

finds("tiles that nobody needs", [[
x tensor float32[128, 64], input
u tile sbuf float32[128, 64]
v tile sbuf float32[128, 64]
q queue rings=16, dge=hwdge
section sync
 dma_copy u, x, queue=q
 halt
]], "note: no instruction uses the tile `v` [-w+unused-tile]",
  "note: the tile `u` is written and never read [-w+unread-tile]")

finds("an output that the instruction has to have", [[
u tile sbuf float32[128, 64]
e tile sbuf float32[128, 64]
m tile sbuf float32[128, 1]
y tensor float32[128, 1], output
d sem
q queue rings=16, dge=hwdge
section gpsimd
 memset u, 0 $d++
 halt
section scalar
 activation e, u, fn=exp, reduce_res=m $d>=1 $d++
 halt
section sync
 dma_copy y, m, queue=q $d>=2
 halt
]])

-- ---- Code --------------------------------------------------------------------------------------

finds("code that nothing leads to", [[
section sync
 jmp .end
.a: add r0, r0, 1
 add r0, r0, 2
.end: halt
]], "4: warning: nothing leads to these 2 instructions [-w+unreachable-code]")
finds("a loop that nothing leads to", "section sync\n halt\n.a: add r0, r0, 1\n jmp .a\n",
  "4: warning: nothing leads to these 2 instructions [-w+unreachable-code]")
finds("routines", [[
section sync
 call r9, one
 call r9, one
 halt
one:
 add r0, r0, 1
 ret r9
two:
 ret r9
]], "10: warning: nothing leads to this instruction [-w+unreachable-code]")
finds("a routine that others may call", "section sync\n halt\nglobal two\ntwo: ret r9\n")
finds("a computed return may go anywhere", "section sync\n mov r9, 3\n ret r9\n halt\n nop\n halt\n")

finds("an update that nobody waits for", "s sem\nsection sync\n nop $s++\n halt\n",
  "4: note: nothing waits for the semaphore `s` [-w+never-waited]")

t.case("notes are not counted, and nothing is nil", function()
  t.eq(select(2, lint "s sem\nsection sync\n nop $s++\n halt\n"), 0)
  t.eq(select(2, lint "s sem\nsection sync\n nop $s>=1\n halt\n"), 1)
  t.eq(soma.assemble("section sync\n halt\n"):lint(), nil)
end)

t.case("the line table may be missing", function()
  local prog = soma.assemble("target trn2\ns sem\nsection sync\n nop\n nop $s>=1\n halt\n")
  t.eq(soma.load(prog:bytes()):lint():find("text:5: warning:", 1, true), 1)
end)

-- ---- No false reports --------------------------------------------------------------------------

-- Programs that are right have no warning: samples and kernels, whatever their parameters.
local function clean(path, defines)
  t.case("clean: " .. path, function()
    local found, warnings = soma.assemble_file(path, {defines = defines}):lint()
    if found and warnings > 0 then error(found, 0) end
  end)
end
for _, name in ipairs {"attention", "buffering", "free_dim", "matmul", "softmax", "transpose",
                       "vector_add", "vector_add_naive", "vector_add_tiled"} do
  clean("samples/" .. name .. ".s")
end
for _, n in ipairs {1024, 2048} do clean("samples/matmul.s", {M = n, N = n, K = n}) end
for _, name in ipairs {"avgpool", "conv2d", "cumsum", "layernorm", "mlp", "rmsnorm", "rope", "topk",
                       "transpose"} do
  clean("tests/conform/kernels/" .. name .. ".s")
end
clean "tests/lua/add.s"

-- Random programs of waits, updates and loops: whoever is said to be stuck must be so under every
-- timing, and a program that ends well under one is not said to be stuck.
local stuck = {["never-signalled"] = true, ["impossible-wait"] = true, ["circular-wait"] = true}
local engines = {"tensor", "vector", "scalar", "gpsimd", "sync"}
local conditions = {">=", ">=", ">=", ">", "==", "<", "<=", "!="}

local function random_program(rnd)
  local text = {"a sem", "b sem", "c sem"}
  local names = {"a", "b", "c"}
  local function clause()
    local sem, kind = names[rnd(1, 3)], rnd(1, 9)
    if kind <= 3 then return "nop $" .. sem .. conditions[rnd(1, #conditions)] .. rnd(0, 4) end
    if kind <= 6 then return "nop $" .. sem .. "+=" .. rnd(1, 2) end
    if kind == 7 then return "nop $" .. sem .. "=" .. rnd(0, 3) end
    if kind == 8 then return "nop $" .. sem .. ">=r1 $" .. names[rnd(1, 3)] .. "++" end
    local n = rnd(1, 2)
    return ("event_semaphore $%s>=%d $%s-=%d"):format(sem, n, sem, n)
  end
  for e = 1, rnd(2, 4) do
    text[#text + 1] = "section " .. engines[e]
    for _ = 1, rnd(1, 3) do text[#text + 1] = " " .. clause() end
    if rnd(1, 2) == 1 then
      text[#text + 1] = " loop r1, 0, " .. rnd(1, 3)
      for _ = 1, rnd(1, 2) do text[#text + 1] = " " .. clause() end
      text[#text + 1] = " endloop"
    end
    text[#text + 1] = " halt"
  end
  return table.concat(text, "\n") .. "\n"
end

t.case("no program that ends well is said to be stuck", function()
  local seed, said, ended = 12345, 0, 0
  local function rnd(lo, hi) -- the same numbers on every machine
    seed = (seed * 1103515245 + 12345) % 2147483648
    return lo + (seed >> 12) % (hi - lo + 1)
  end
  local cores = {} -- of each schedule
  for schedule = 0, 8 do cores[schedule] = soma.core {schedule = schedule > 0 and schedule or nil} end
  for _ = 1, 3000 do
    local text = random_program(rnd)
    local prog = soma.assemble("target trn2\n" .. text)
    local found = prog:lint() or ""
    local claims
    for name in found:gmatch "%[%-w%+([%w-]+)%]" do claims = claims or stuck[name] end
    local well
    for schedule = 0, claims and 8 or 0 do
      if not cores[schedule]:run(prog, nil, {faults = "return"}).fault then well = true end
    end
    if claims and well then error(text .. found, 0) end
    said, ended = said + (claims and 1 or 0), ended + (well and 1 or 0)
  end
  if said < 500 or ended < 200 then error(("%d said, %d ended"):format(said, ended), 0) end
end)

t.finish()
