-- Static checks of memory that a whole path decides: parts of outputs that nothing writes, operands
-- that a register moves out of bounds.
local soma = require "soma"
local t = require "harness"
local linting = require "lint_cases"
local lint = linting.lint

-- The warnings of a text are these; its notes are of no interest here.
local function finds(name, text, ...)
  local want = {...}
  t.case(name, function()
    local found = {}
    for _, line in ipairs((lint(text))) do
      if not line:find "^note" then found[#found + 1] = line end
    end
    t.eq(found, want)
  end)
end

-- ---- Parts of outputs ---------------------------------------------------------------------------

local names = [[
y tensor float32[512, 64], output
t tile sbuf float32[128, 64]
s sem
q queue dge=hwdge
section vector
 memset t, 1.0 $s++
 halt
section sync
]]
local function stores(...)
  local text = names
  for _, line in ipairs {...} do text = text .. " " .. line .. "\n" end
  return text .. " halt\n"
end

finds("an output written as a whole", stores(" loop r0, 0, 512, 128", "dma_copy y[r0:+128], t, queue=q $s>=1", " endloop"))
finds("a loop that ends a round early", stores(" loop r0, 0, 384, 128", "dma_copy y[r0:+128], t, queue=q $s>=1", " endloop"),
  "11: warning: the output `y`: rows 384..511 are never written [-w+partial-output]")
finds("one row", stores("dma_copy y[0:128], t, queue=q $s>=1", "dma_copy y[128:256], t, queue=q",
    "dma_copy y[256:384], t, queue=q", "dma_copy y[384:511], t[0:127], queue=q"),
  "10: warning: the output `y`: row 511 is never written [-w+partial-output]")
finds("columns", stores(" loop r0, 0, 512, 128", "dma_copy y[r0:+128, 0:60], t[:, 0:60], queue=q $s>=1", " endloop"),
  "11: warning: the output `y`: [0, 60] to [0, 63] are never written; of its 131072 bytes 8192 are missing [-w+partial-output]")
finds("one element", stores(" loop r0, 0, 512, 128", "dma_copy y[r0:+128, 1:64], t[:, 1:64], queue=q $s>=1", " endloop",
    "dma_copy y[1:129, 0:1], t[:, 0:1], queue=q", "dma_copy y[128:256, 0:1], t[:, 0:1], queue=q",
    "dma_copy y[256:384, 0:1], t[:, 0:1], queue=q", "dma_copy y[384:512, 0:1], t[:, 0:1], queue=q"),
  "11: warning: the output `y`: [0, 0] is never written [-w+partial-output]")
finds("the first rows", stores("dma_copy y[64:128], t[0:64], queue=q $s>=1"),
  "10: warning: the output `y`: rows 0..63 are never written; of its 131072 bytes 114688 are missing [-w+partial-output]")
finds("nothing at all", "y tensor float32[4], output\nz tensor float32[4, 4]\nsection sync\n nop\n halt\n",
  "warning: nothing writes the output `y` [-w+partial-output]")
finds("a row that only data chooses may be any", stores("tensor_load r0, t[0:1, 0:1].view(int32)  $s>=1",
  "dma_copy y[r0:+128], t, queue=q"))
finds("a branch on data may go anywhere", stores("tensor_load r0, t[0:1, 0:1].view(int32)  $s>=1",
  " loop r1, 0, 512, 128", "blt r0, 7, next", "dma_copy y[r1:+128], t, queue=q", "next: nop", " endloop"))
finds("what stops an engine is said, not what is then missing", stores("dma_copy y[0:128], t, queue=q $s>=2"),
  "10: warning: the wait $s>=2 cannot hold: all updates together bring it to 1; fix: wait for 1 [-w+impossible-wait]")
finds("static transfers write too", [[
y tensor float32[256, 64], output
t tile sbuf float32[128, 64]
q queue dge=none
section vector
 memset t, 1.0
 halt
dma q, y[0:128], t
section sync
 dma_trigger q, 1
 halt
]], "warning: the output `y`: rows 128..255 are never written [-w+partial-output]")

-- ---- Bounds -------------------------------------------------------------------------------------

local loads = [[
x tensor float32[1000, 64], input
y tensor float32[128, 64], output
t tile sbuf float32[128, 64]
s sem
q queue dge=hwdge
section sync
 loop r0, 0, %s, 128
 dma_copy t, x[r0:+128], queue=q $s
 endloop
 mov r1, 0
more:
 dma_copy y[:, r1:+32], t[:, r1:+32], queue=q $s>=16
 add r1, r1, 32
 blt r1, %s, more
 halt
]]
finds("loops that end where the tensors do", loads:format(896, 64))
finds("a round too many past a tensor", loads:format(1000, 64),
  "9: warning: x[r0:+128] with r0 = 896 is rows 896..1023; x has rows 0..999 (round 8 of the loop at l.s:8) [-w+out-of-bounds]")
finds("and past a tile, each instruction once", loads:format(896, 128),
  "13: warning: y[:, r1:+32] with r1 = 64 is columns 64..95; y has columns 0..63 (round 3 of the loop at l.s:13) [-w+out-of-bounds]")
finds("outside of a loop", "x tensor float32[8, 4], input\nt tile sbuf float32[8, 4]\nq queue dge=hwdge\nsection sync\n" ..
  " mov r0, -1\n dma_copy t, x[r0:+8], queue=q\n halt\n",
  "7: warning: x[r0:+8] with r0 = -1 is rows -1..6; x has rows 0..7 [-w+out-of-bounds]")
finds("oob=skip leaves them out", "x tensor float32[8, 4], input\nt tile sbuf float32[8, 4]\nq queue dge=hwdge\nsection sync\n" ..
  " mov r0, 4\n dma_copy t, x[r0:+8], queue=q, oob=skip\n halt\n")
local size = "x tensor float32[8, 4], input\nt tile sbuf float32[8, 4]\nq queue dge=hwdge\nsection sync\n" ..
  " mov r0, %d\n dma_copy t[0:+r0<=8], x[0:+r0<=8], queue=q\n halt\n"
finds("a size within its bound", size:format(8))
finds("a size of nothing", size:format(0))
finds("a size above its bound", size:format(9),
  "7: warning: the size r0 is 9, outside its bound 0..8 [-w+out-of-bounds]")
finds("a register that data gives may be right", "x tensor float32[8, 4], input\nt tile sbuf float32[8, 4]\n" ..
  "c tensor int32[1], const = {100}\nn tile sbuf int32[1, 1]\nq queue dge=hwdge\ns sem\nsection sync\n dma_copy n, c, queue=q $s\n" ..
  " tensor_load r0, n $s>=16\n dma_copy t, x[r0:+8], queue=q\n halt\n")
finds("what stops an engine before comes first", "x tensor float32[8, 4], input\nt tile sbuf float32[8, 4]\nq queue dge=hwdge\ns sem\n" ..
  "section sync\n mov r0, 4\n nop $s>=1\n dma_copy t, x[r0:+8], queue=q\n halt\n",
  "8: warning: nothing updates the semaphore `s`, so this wait never ends [-w+never-signalled]")

-- What is said of an operand is what the run says when it comes there.
t.case("the run faults with the same words", function()
  local prog = soma.assemble("target trn2\n" .. loads:format(1000, 64), {name = "l.s"})
  local fault = soma.core():run(prog, {x = soma.zeros({1000, 64}, "float32")}, {faults = "return"}).fault
  local said = prog:lint():match "warning: (.-) %[%-w"
  t.eq(fault.text:match "operand src: ([^\n]*)", said)
end)

-- ---- Reads and writes that registers move -------------------------------------------------------

local early = [[
z tensor float32[256, 64]
y tensor float32[128, 64], output
t tile sbuf float32[128, 64]
d sem
q queue dge=hwdge
section vector
 memset t, 1.0 $d++
 halt
section sync
 mov r0, %d
 dma_copy z[r0:+128], t, queue=q $d>=1
 dma_copy y, z[0:128], queue=q
 halt
]]
finds("rows that a register says are written", early:format(0))
finds("other rows are", early:format(128),
  "13: warning: byte 0 of the tensor `z` is read here, and l.s:12, which writes where a register says, has not written it [-w+read-before-write]")
finds("every other byte of many is a pattern, not what lies between", [[
z tensor uint8[128, 2048]
y tensor uint8[128, 1024], output
t tile sbuf uint8[128, 1024]
q queue dge=none
s sem
section vector
 memset t, 1 $s++
 halt
section sync
 dma_copy z[:, ::2], t, queue=q $s>=1
 dma_copy y, z[:, ::2], queue=q
 halt
]])

t.finish()
