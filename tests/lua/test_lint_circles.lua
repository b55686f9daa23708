-- Static checks: circles of waits, tensors, instructions that read a part of an operand.
local t = require "harness"
local linting = require "lint_cases"
local lint, finds = linting.lint, linting.finds

-- ---- Circles -----------------------------------------------------------------------------------

finds("a circle of three", [[
a sem
b sem
c sem
section tensor
 nop $a>=1
 nop $b++
 halt
section vector
 nop $b>=1
 nop $c++
 halt
section scalar
 nop $c>=1
 nop $a++
 halt
]], "6: warning: these wait for updates that come after one another's waits: tensor (l.s:6) waits for $a>=1, " ..
  "vector (l.s:10) waits for $b>=1, scalar (l.s:14) waits for $c>=1 [-w+circular-wait]")

finds("two circles", [[
a sem
b sem
c sem
d sem
section tensor
 nop $a>=1
 nop $b++
 halt
section vector
 nop $b>=1
 nop $a++
 halt
section scalar
 nop $c>=1
 nop $d++
 halt
section gpsimd
 nop $d>=1
 nop $c++
 halt
]], "7: warning: these wait for updates that come after one another's waits: tensor (l.s:7) waits for $a>=1, " ..
  "vector (l.s:11) waits for $b>=1 [-w+circular-wait]",
  "15: warning: these wait for updates that come after one another's waits: scalar (l.s:15) waits for $c>=1, " ..
  "gpsimd (l.s:19) waits for $d>=1 [-w+circular-wait]")

finds("a circle beside a wait that nothing can satisfy", [[
a sem
b sem
c sem
section tensor
 nop $c>=2
 halt
section vector
 nop $c++
 nop $a>=1
 nop $b++
 halt
section scalar
 nop $b>=1
 nop $a++
 halt
]], "6: warning: the wait $c>=2 cannot hold: all updates together bring it to 1; fix: wait for 1 [-w+impossible-wait]",
  "10: warning: these wait for updates that come after one another's waits: vector (l.s:10) waits for $a>=1, " ..
  "scalar (l.s:14) waits for $b>=1 [-w+circular-wait]")

finds("an engine that waits for a circle is not part of it", [[
a sem
b sem
c sem
section tensor
 nop $a>=1
 nop $b++
 halt
section vector
 nop $b>=1
 nop $c++
 nop $a++
 halt
section scalar
 nop $c>=1
 halt
]], "6: warning: these wait for updates that come after one another's waits: tensor (l.s:6) waits for $a>=1, " ..
  "vector (l.s:10) waits for $b>=1 [-w+circular-wait]")

finds("each impossible wait of an engine, one per semaphore", [[
a sem
b sem
c sem
section tensor
 nop $a++
 nop $b++
 halt
section vector
 nop $a>=2
 nop $a>=3
 nop $b>=2
 nop $c>=1
 halt
]], "10: warning: the wait $a>=2 cannot hold: all updates together bring it to 1; fix: wait for 1 [-w+impossible-wait]",
  "12: warning: the wait $b>=2 cannot hold: all updates together bring it to 1; fix: wait for 1 [-w+impossible-wait]",
  "13: warning: nothing updates the semaphore `c`, so this wait never ends [-w+never-signalled]")

finds("no circle with one update in front", [[
a sem
b sem
section tensor
 nop $b++
 nop $a>=1
 halt
section vector
 nop $b>=1
 nop $a++
 halt
]])

finds("its own update, after the wait", "s sem\nsection sync\n nop $s>=1\n nop $s++\n halt\n",
  "4: warning: these wait for updates that come after one another's waits: sync (l.s:4) waits for $s>=1 [-w+circular-wait]")

-- ---- Tensors -----------------------------------------------------------------------------------

local tensors = [[
i tensor float32[128, 64], input
t tensor float32[128, 64]
o tensor float32[128, 64], output
u tile sbuf float32[128, 64]
k tile sbuf int32[128, 1]
s sem
q queue rings=16, dge=hwdge
qs queue rings=16, dge=swdge
section %s
]]
local hw, sw = tensors:format "sync", tensors:format "gpsimd"

-- The findings without the notes.
local function warns(name, text, ...)
  local want = {...}
  t.case(name, function()
    local list = {}
    for _, l in ipairs((lint(text))) do if not l:find "^note" then list[#list + 1] = l end end
    t.eq(list, want)
  end)
end

warns("a temporary that nothing writes", hw .. " dma_copy u, t, queue=q $s\n nop $s>=16\n dma_copy o, u, queue=q $s\n halt\n",
  "11: warning: byte 0 of the tensor `t` is read here, and nothing writes it [-w+unwritten-tensor]")
warns("an output read before its store", hw .. " dma_copy u, o, queue=q $s\n nop $s>=16\n dma_copy o, u, queue=q $s\n halt\n",
  "11: warning: byte 0 of the tensor `o` is read here before anything can have written it; it is written at l.s:13 " ..
  "[-w+read-before-write]")
warns("a row of a temporary", hw .. " dma_copy t[0:127, :], i[0:127, :], queue=q $s\n nop $s>=16\n" ..
  " dma_copy o, t, queue=q $s\n halt\n",
  "13: warning: byte 32512 of the tensor `t` is read here, and nothing writes it [-w+unwritten-tensor]")
warns("a temporary that is written first", hw .. " dma_copy t, i, queue=q $s\n nop $s>=16\n dma_copy o, t, queue=q $s\n halt\n")
warns("a temporary that another engine can have written", hw .. " dma_copy o, t, queue=q $s\n nop $s>=16\n halt\n" ..
  "section gpsimd\n dma_copy t, i, queue=qs $s\n halt\n")
warns("a sum onto an output without contents", sw .. " dma_copy u, i, queue=qs $s\n nop $s>=16\n" ..
  " dma_copy o, u, queue=qs, op=add $s\n halt\n",
  "13: warning: byte 0 of the tensor `o` is read here before anything but this instruction can have written it " ..
  "[-w+read-before-write]")
warns("rows by an index, of a temporary that has some", sw .. " memset k, 0\n dma_copy t[0:1, :], i[0:1, :], queue=qs $s\n" ..
  " dma_copy u, t.gather(k, 0), queue=qs $s>=16 $s\n nop $s>=32\n dma_copy o, u, queue=qs $s\n halt\n")
warns("rows by an index, of a temporary that has none", sw .. " memset k, 0\n" ..
  " dma_copy u, t.gather(k, 0), queue=qs $s\n nop $s>=16\n dma_copy o, u, queue=qs $s\n halt\n",
  "12: warning: byte 0 of the tensor `t` is read here, and nothing writes it [-w+unwritten-tensor]")

-- ---- Instructions that choose ------------------------------------------------------------------

local choose = [=[
u tile sbuf float32[128, 64]
v tile sbuf float32[128, 64]
w tile sbuf float32[128, 64]
section gpsimd
%s affine_select v, u, 0.0, pattern=[[-1, 64]], offset=31, cmp=is_ge
 tensor_copy w, v
 tensor_copy v, w
 halt
]=]
finds("what is not chosen need not be there", choose:format " memset u[:, 0:32], 1.0\n")
finds("nothing is there to choose from", choose:format "",
  "6: warning: byte 0 of partition 0 of `u` is read here, and nothing writes it [-w+unwritten-tile]")

finds("who only waits for the stuck is not named", [[
a sem
b sem
section tensor
 nop $a>=2
 nop $b++
 halt
section vector
 nop $a++
 halt
section scalar
 nop $b>=1
 halt
]], "5: warning: the wait $a>=2 cannot hold: all updates together bring it to 1; fix: wait for 1 [-w+impossible-wait]")

t.finish()
