-- What tests/suites/bad.lua runs. A source is assembled as t.s and must be refused; an image is the
-- program below with some bytes changed, for soma-dis or (run) soma; a command is a line of shell.
-- N and H stand for times and hashes.
local names = [[
a tensor float32[128, 64], input
c tensor float32[128, 64], output
k tensor int32[4], const = {1, 2, 3, 4}
x tile sbuf float32[128, 64]
y tile sbuf float32[128, 64]
n tile sbuf int32[128, 64]
h tile sbuf bfloat16[64, 32]
p tile psum float32[128, 512]
s sem
q queue dge=hwdge
g queue dge=swdge
st queue dge=none
]]
local function on(engine, line) return names .. "section " .. engine .. "\n" .. line .. "\n        halt\n" end
local function vec(line) return on("vector", line) end
local function queues(n)
  local s = ""
  for i = 0, n - 1 do s = s .. "q" .. i .. " queue\n" end
  return s
end
local B = string.char

-- A .npy file of n zero bytes.
local function npy(descr, shape, n)
  local h = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"):format(descr, shape)
  h = h .. (" "):rep(117 - #h) .. "\n"
  return "\x93NUMPY\1\0" .. string.pack("<I2", #h) .. h .. ("\0"):rep(n)
end

local program = [[
target trn2
a tensor float32[128, 64], input
c tensor float32[128, 64], output
x tile sbuf float32[128, 64]
y tile sbuf float32[128, 64]
s sem
q queue dge=hwdge
section vector
top:    tensor_copy y, x  $s>=16
        add r0, r0, 1
        blt r0, 2, top
        halt
section sync
        dma_copy x, a, queue=q $s
        dma_copy c, y, queue=q
        halt
]]
local head = [[
target trn2
c tensor int32[4], output
x tile sbuf int32[1, 4]
s sem
q queue dge=hwdge
section sync
        nop $s++
]]

local sources = {
  { name = "engine", source = on("scalar", "        tensor_tensor x, x, y, op=add"), err = [[
t.s:14:9: error: tensor_tensor is not an instruction of the scalar engine: vector, gpsimd
          tensor_tensor x, x, y, op=add
          ^~~~~~~~~~~~~
]] },
  { name = "generation", source = "target trn1\nx tile sbuf float32[128, 8]\nsection scalar\n        tensor_copy x, x\n        halt\n", err = [[
t.s:4:9: error: tensor_copy on the scalar engine needs gen3: use activate with fn=copy
          tensor_copy x, x
          ^~~~~~~~~~~
]] },
  { name = "partitions differ", source = vec("        tensor_copy x, h"), err = [[
t.s:14:24: error: 64 partitions: dst has 128
          tensor_copy x, h
                         ^
]] },
  { name = "elements differ", source = vec("        tensor_copy x, y[:, 0:32]"), err = [[
t.s:14:24: error: 32 elements per partition: dst has 64
          tensor_copy x, y[:, 0:32]
                         ^~~~~~~~~~
]] },
  { name = "start partition", source = vec("        memset x[16:48, :], 0.0"), err = [[
t.s:14:16: error: start partition 16: an operand of 32 partitions must start at 0, 32, 64 or 96
          memset x[16:48, :], 0.0
                 ^~~~~~~~~~~
]] },
  { name = "two in psum", source = vec("        tensor_tensor x, p[:, 0:64], p[:, 64:128], op=add"), err = [[
t.s:14:38: error: src0 and src1 are both in psum: one of them must be in sbuf
          tensor_tensor x, p[:, 0:64], p[:, 64:128], op=add
                                       ^~~~~~~~~~~~
]] },
  { name = "overlap", source = vec("        tensor_copy x[:, 1:64], x[:, 0:63]"), err = [[
t.s:14:21: error: overlaps src: a destination must have exactly the elements of a source or share no byte with it
          tensor_copy x[:, 1:64], x[:, 0:63]
                      ^~~~~~~~~~
]] },
  { name = "gpsimd and psum", source = on("gpsimd", "        memset p, 0.0"), err = [[
t.s:14:16: error: gpsimd does not reach psum: use vector or scalar
          memset p, 0.0
                 ^
]] },
  { name = "dma to psum", source = on("sync", "        dma_copy p[:, 0:64], a, queue=q"), err = [[
t.s:14:18: error: DMA does not reach psum: copy to or from sbuf with an engine first
          dma_copy p[:, 0:64], a, queue=q
                   ^~~~~~~~~~
]] },
  { name = "hbm operand", source = vec("        tensor_copy x, a"), err = [[
t.s:14:24: error: tensor_copy does not take an hbm operand here: copy it to sbuf with DMA
          tensor_copy x, a
                         ^
]] },
  { name = "write to const", source = on("sync", "        dma_copy k, n[0:1, 0:4], queue=q"), err = [[
t.s:14:18: error: tensor k is const: it cannot be written
          dma_copy k, n[0:1, 0:4], queue=q
                   ^
]] },
  { name = "unary operator", source = vec("        tensor_tensor x, x, y, op=abs"), err = [[
t.s:14:35: error: abs takes one operand: tensor_tensor needs an operator of two
          tensor_tensor x, x, y, op=abs
                                    ^~~
]] },
  { name = "bit operator on floats", source = vec("        tensor_tensor x, x, y, op=bitwise_and"), err = [[
t.s:14:26: error: float32: bitwise_and works on bit patterns of integer types
          tensor_tensor x, x, y, op=bitwise_and
                           ^
]] },
  { name = "not a reduction", source = vec("        tensor_reduce x[:, 0:1], y, op=pow"), err = [[
t.s:14:40: error: pow is not a reduction
          tensor_reduce x[:, 0:1], y, op=pow
                                         ^~~
]] },
  { name = "reduced shape", source = vec("        tensor_reduce x[:, 0:2], y, op=add"), err = [[
t.s:14:23: error: 2 elements per partition: reducing the last 1 dimensions of src leaves 1
          tensor_reduce x[:, 0:2], y, op=add
                        ^~~~~~~~~
]] },
  { name = "missing scalar", source = vec("        tensor_scalar x, y, op0=mult"), err = [[
t.s:14:9: error: imm0 is missing: mult takes two operands
          tensor_scalar x, y, op0=mult
          ^~~~~~~~~~~~~
]] },
  { name = "needless scalar", source = vec("        tensor_scalar x, y, op0=abs, imm0=2.0"), err = [[
t.s:14:43: error: abs takes one operand: leave it out
          tensor_scalar x, y, op0=abs, imm0=2.0
                                            ^~~
]] },
  { name = "operator of gen4", source = vec("        tensor_tensor x, x, y, op=abs_max"), err = [[
t.s:14:35: error: the operator abs_max needs gen4: trn2 is gen3
          tensor_tensor x, x, y, op=abs_max
                                    ^~~~~~~
]] },
  { name = "operator without hardware", source = vec("        tensor_tensor x, x, y, op=divide"), err = [[
t.s:14:35: error: no hardware has the operator divide
          tensor_tensor x, x, y, op=divide
                                    ^~~~~~
note: -w-no-hardware-op allows it
]] },
  { name = "matmul too wide", source = on("tensor", "        ldweights h\n        matmul p, x"), err = [[
t.s:15:19: error: 64 columns: dst has 512
          matmul p, x
                    ^
]] },
  { name = "matmul into sbuf", source = on("tensor", "        matmul x, y"), err = [[
t.s:14:16: error: the tensor engine does not write sbuf in matmul: use psum
          matmul x, y
                 ^
]] },
  { name = "completion on data path", source = vec("        memset x, 0.0 $s"), err = [[
t.s:14:23: error: a `$` name alone is the completion semaphore of a DMA instruction; `memset` is not one
          memset x, 0.0 $s
                        ^~
note: an update is `$name++` or `$name+=n`, a wait `$name>=n`
]] },
  { name = "update of a transfer", source = on("sync", "        dma_copy x, a, queue=q $s++"), err = [[
t.s:14:9: error: dma_copy: the update of a DMA line is its completion semaphore, a bare $name
          dma_copy x, a, queue=q $s++
          ^~~~~~~~
]] },
  { name = "a number after peer.", source = vec("        nop $peer.5"), err = [[
t.s:14:19: error: expected the name of a semaphore after `peer.`, not `5`
          nop $peer.5
                    ^
]] },
  { name = "nothing after peer.", source = vec("        nop $peer.>=1"), err = [[
t.s:14:19: error: expected the name of a semaphore after `peer.`, not `>=`
          nop $peer.>=1
                    ^~
]] },
  { name = "semaphore number", source = vec("        nop $S[256]>=1"), err = [[
t.s:14:13: error: there is no semaphore 256 of core 0; cores are 0 and 1, semaphores 0 to 255
          nop $S[256]>=1
              ^~~~~~
]] },
  { name = "update too large", source = vec("        nop $s+=2147483648"), err = [[
t.s:14:17: error: the value of an update is 2147483648; it must be from 0 to 2147483647
          nop $s+=2147483648
                  ^~~~~~~~~~
]] },
  { name = "read update of nop", source = vec("        nop $s++@read"), err = [[
t.s:14:9: error: @read: nop does not run in a data path; its update comes when it completes
          nop $s++@read
          ^~~
]] },
  { name = "queue of gpsimd", source = on("sync", "        dma_copy x, a, queue=g"), err = [[
t.s:14:30: error: queue g belongs to the gpsimd engine, not to sync
          dma_copy x, a, queue=g
                               ^
]] },
  { name = "hwdge on vector", source = vec("        dma_copy x, a, queue=q"), err = [[
t.s:14:30: error: queue q has dge=hwdge: only sync and scalar can use it
          dma_copy x, a, queue=q
                               ^
]] },
  { name = "cast by hwdge", source = on("sync", "        dma_copy h, a[0:64, 0:32], queue=q"), err = [[
t.s:14:21: error: float32 to bfloat16: a queue with dge=hwdge does not convert
          dma_copy h, a[0:64, 0:32], queue=q
                      ^~~~~~~~~~~~~
]] },
  { name = "trigger without transfers", source = on("sync", "        dma_trigger st, 1"), err = [[
t.s:14:21: error: queue st has no static transfer
          dma_trigger st, 1
                      ^~
]] },
  { name = "trigger of hwdge", source = on("sync", "        dma_trigger q, 1"), err = [[
t.s:14:21: error: queue q has dge=hwdge: dma_trigger starts static transfers (dge=none)
          dma_trigger q, 1
                      ^
]] },
  { name = "register number", source = vec("        mov r64, 0"), err = [[
t.s:14:13: error: expected a register (r0 to r63), not `r64`
          mov r64, 0
              ^~~
]] },
  { name = "falls off", source = names .. "section vector\n        nop\n", err = [[
t.s:14:9: error: control falls off the end of section vector: nothing comes after `nop`; end it with halt, jmp or ret
          nop
          ^
]] },
  { name = "label missing", source = vec("        jmp there"), err = [[
t.s:15:9: warning: nothing leads to this `halt`: no label after `jmp` [-w+unreachable-code]
          halt
          ^~~~
t.s:14:13: error: there is no label `there` in section vector
          jmp there
              ^~~~~
]] },
  { name = "slice too long", source = vec("        memset x[:, 0:65], 0.0"), err = [[
t.s:14:21: error: the end 65 does not fit dimension 1, which has 64
          memset x[:, 0:65], 0.0
                      ^~~~
]] },
  { name = "three dynamic parts", source = on("sync", "        dma_copy x, a[r0:+128, r1:+64], queue=q\n        dma_copy x[r0:+1, r1:+1], a[r2:+1, r3:+1], queue=q"), err = [[
t.s:15:20: error: the start partition of a tile is static; a register cannot give it
          dma_copy x[r0:+1, r1:+1], a[r2:+1, r3:+1], queue=q
                     ^~~~~
]] },
  { name = "tile too large", source = "t tile sbuf float32[128, 65536]\n", err = [[
t.s:1:1: error: no room for `t` in sbuf: 262144 bytes in each of partitions 0 to 127, of 229376
  t tile sbuf float32[128, 65536]
  ^
note: the longest free run has 229376 bytes, 0 to 229375
]] },
  { name = "psum bank", source = "t tile psum float32[128, 513]\n", err = [[
t.s:1:1: error: `t` has 2052 bytes in a partition; 1 bank of PSUM has 2048
  t tile psum float32[128, 513]
  ^
note: banks=2 gives it room
]] },
  { name = "tiles collide", source = "t tile sbuf float32[128, 8], at=[0,0]\nu tile sbuf float32[128, 8], at=[0,16]\n", err = [[
t.s:2:1: error: `u` shares bytes with `t`
  u tile sbuf float32[128, 8], at=[0,16]
  ^
note: sbuf `t` has partitions 0 to 127, bytes 0 to 31
note: tiles of one overlay= group may share bytes
]] },
  { name = "tensor too large", source = "t tensor float32[1099511627776], input\n", err = [[
t.s:1:18: error: a dimension is 1099511627776; it must be from 1 to 4294967295
  t tensor float32[1099511627776], input
                   ^~~~~~~~~~~~~
]] },
  { name = "tensor of nothing", source = "t tensor float32[0], input\n", err = [[
t.s:1:18: error: a dimension is 0; it must be from 1 to 4294967295
  t tensor float32[0], input
                   ^
]] },
  { name = "const with too few", source = "t tensor float32[3], const = {1.0, 2.0}\n", err = [[
t.s:1:31: error: expected an integer, not a float
  t tensor float32[3], const = {1.0, 2.0}
                                ^~~
]] },
  { name = "too many queues", source = queues(17), err = [[
t.s:17:1: error: a core has at most 16 queues
  q16 queue
  ^~~
]] },
  { name = "queue rings", source = "q queue rings=17\n", err = [[
t.s:1:15: error: rings is 17; it must be from 1 to 16
  q queue rings=17
                ^~
]] },
  { name = "label like a definition", source = "section vector\nsem:    jmp sem\n", err = [[
t.s:2:1: error: `sem` defines names and cannot be a label; choose another
  sem:    jmp sem
  ^~~
]] },
  { name = "target", source = "target trn9\n", err = [[
t.s:1:8: error: unknown target `trn9`; did you mean `trn1`?
  target trn9
         ^~~~
]] },
  { name = "macro without end", source = "%macro m 1\n        nop\n", err = [[
t.s:1:1: error: `%macro` without `%endmacro`
  %macro m 1
  ^~~~~~
]] },
  { name = "macro without arguments", source = "%macro m 1\n        nop\n%endmacro\nsection vector\n        m\n        halt\n", err = [[
t.s:5:9: error: macro `m` does not take 0 parameters
          m
          ^
t.s:1:8: note: this form takes 1
  %macro m 1
         ^
]] },
  { name = "include of itself", source = "%include \"t.s\"\n", err = [[
t.s:1:1: fatal error: %include nested deeper than 64
  %include "t.s"
  ^
]] },
  { name = "include of nothing", source = "%include \"nothing.s\"\n", err = [[
t.s:1:1: error: cannot read `nothing.s`
  %include "nothing.s"
  ^~~~~~~~
note: looked in `.`
]] },
  { name = "error directive", source = "%error stop \"here\" 3\n", err = [[
t.s:1:1: error: stop here 3
  %error stop "here" 3
  ^~~~~~
]] },
  { name = "error without text", source = "%error\n", err = [[
t.s:1:1: error: %error without a text
  %error
  ^~~~~~
]] },
  { name = "if without end", source = "%if 1\n        nop\n", err = [[
t.s:2:9: error: `nop` is not in a section; write `section vector` before it
          nop
          ^~~
t.s:1:1: error: `%if` without `%endif`
  %if 1
  ^
]] },
  { name = "division by zero", source = "n equ 1 / 0\n", err = [[
t.s:1:9: error: division by zero
  n equ 1 / 0
          ^
]] },
  { name = "number too large", source = "n equ 18446744073709551616\n", err = [[
t.s:1:7: error: number of more than 64 bits `18446744073709551616`
  n equ 18446744073709551616
        ^~~~~~~~~~~~~~~~~~~~
]] },
  { name = "elements without end", source = vec("        tensor_reduce x[:, 0:1], float32@sbuf[0,128,0][0,0,0,0][65535,65535,65535,65535], op=add"), err = [[
t.s:14:34: error: 18445618199572250625 elements per partition: at most 262144
          tensor_reduce x[:, 0:1], float32@sbuf[0,128,0][0,0,0,0][65535,65535,65535,65535], op=add
                                   ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
]] },
  { name = "prefix of a transpose", source = on("sync", "        dma_transpose x, y, queue=q"), err = [[
t.s:14:23: error: dimension 0 has 128: it gets dimension 1 of src, which has 64
          dma_transpose x, y, queue=q
                        ^
]] },
}

local images = {
  { name = "shorter than a header", damage = function(f) return f:sub(1, 40) end, raw = true, err = [[
soma-dis: t.sbc: 40 bytes: a program file has at least 48
]] },
  { name = "empty", damage = function(f) return "" end, raw = true, err = [[
soma-dis: t.sbc: 0 bytes: a program file has at least 48
]] },
  { name = "magic", damage = {"head", 0, B(0x7e)}, err = [[
soma-dis: t.sbc: byte 0x0: not a program file: it does not begin with \x7fSBC
]] },
  { name = "text for a program", damage = function(f) return "section sync\n        halt\n" .. (" "):rep(40) end, raw = true, err = [[
soma-dis: t.sbc: byte 0x0: not a program file: it does not begin with \x7fSBC
]] },
  { name = "version", damage = {"head", 4, B(2)}, err = [[
soma-dis: t.sbc: format version 2: this reader knows 1
]] },
  { name = "hash", damage = {"head", 8, B(0)}, raw = true, err = [[
soma-dis: t.sbc: the content's hash is H, the header says H: the file is damaged
]] },
  { name = "target", damage = {"head", 16, "trn9"}, err = [[
soma-dis: t.sbc: byte 0x10: no such target
]] },
  { name = "features", damage = {"head", 32, B(128)}, err = [[
soma-dis: t.sbc: unknown feature bits 0x80
]] },
  { name = "a feature that nothing uses", damage = {"head", 32, B(1)}, err = [[
soma-dis: t.sbc: the header has feature bits 0x1, but the contents need 0x0
]] },
  { name = "cores", damage = {"head", 36, B(3)}, err = [[
soma-dis: t.sbc: byte 0x24: 3 cores: a program has 1 or 2
]] },
  { name = "too many sections", damage = {"head", 40, B(255,255)}, err = [[
soma-dis: t.sbc: 65535 sections do not fit in 1553 bytes
]] },
  { name = "cut off", damage = function(f) return f:sub(1, -9) end, err = [[
soma-dis: t.sbc: section 8: 17 bytes at 0x600; it should begin at 0x600 and not be empty, and the file has 1545 bytes
]] },
  { name = "more at the end", damage = function(f) return f .. "12345678" end, err = [[
soma-dis: t.sbc: the last section ends at byte 0x611, but the file has 1561 bytes
]] },
  { name = "unknown section", damage = {"@TILE", 0, "WHAT"}, err = [[
soma-dis: t.sbc: unknown section with tag 0x54414857
]] },
  { name = "link it first", damage = {"@TILE", 0, "EXTN"}, err = [[
soma-dis: t.sbc: unresolved external symbols: link it first
]] },
  { name = "sections in another order", damage = {"@QUES", 0, "FILE\1"}, err = [[
soma-dis: t.sbc: section FILE at byte 0x418: it comes after a section that it should come before
]] },
  { name = "opcode", damage = {"CODE", 0, B(0xff, 0x7f)}, err = [[
soma-dis: t.sbc: section CODE of core 0, vector at byte 0x430: pc 0: byte 0: no instruction has the opcode 0x7fff
]] },
  { name = "register", damage = {"CODE", 64 + 16, B(64)}, err = [[
soma-dis: t.sbc: section CODE of core 0, vector at byte 0x430: pc 1: byte 16, operand rd: a register is 0 to 63, found 64
]] },
  { name = "reserved byte", damage = {"CODE", 64 + 7, B(1)}, err = [[
soma-dis: t.sbc: section CODE of core 0, vector at byte 0x430: pc 1: byte 7, which is reserved: it must be 0, found 1
]] },
  { name = "byte after the operands", damage = {"CODE", 64 + 63, B(1)}, err = [[
soma-dis: t.sbc: section CODE of core 0, vector at byte 0x430: pc 1: byte 63, after the last operand: it must be 0, found 1
]] },
  { name = "condition", damage = {"CODE", 2, B(9)}, err = [[
soma-dis: t.sbc: section CODE of core 0, vector at byte 0x430: pc 0: byte 2, wait: a condition is 0 to 6, found 9
]] },
  { name = "pattern number", damage = {"CODE", 16, B(9)}, err = [[
soma-dis: t.sbc: section CODE of core 0, vector at byte 0x430: pc 0: operand dst: pattern 9 of only 4
]] },
  { name = "queue number", damage = {"CODE2", 24, B(5)}, err = [[
soma-dis: t.sbc: section CODE of core 0, sync at byte 0x530: pc 0: operand queue: queue 5 of only 1
]] },
  { name = "pattern's type", damage = {"PATS", 0, B(99)}, err = [[
soma-dis: t.sbc: section PATS of core 0 at byte 0x218: pattern 1: pattern, byte 0, dtype: no such type, found 99
]] },
  { name = "pattern's tile", damage = {"PATS", 12, B(7)}, err = [[
soma-dis: t.sbc: section PATS of core 0 at byte 0x218: pattern 1: it names tile 7, but there are 2
]] },
  { name = "pattern's step", damage = {"PATS", 32 + 12 * 3, B(1)}, err = [[
soma-dis: t.sbc: section PATS of core 0 at byte 0x218: pattern 1: pattern, byte 68, step: 0 after the last dimension, found 1
]] },
  { name = "tensor's size", damage = {"TNSR", 72, B(1)}, err = [[
soma-dis: t.sbc: section TNSR at byte 0x108: tensor 0: 32769 bytes, but its shape and type make 32768
]] },
  { name = "tensor's name", damage = {"TNSR", 0, B(200)}, err = [[
soma-dis: t.sbc: section TNSR at byte 0x108: record 0: no name at offset 200; the next one is at 1, STRS has 17 bytes
]] },
  { name = "tile's space", damage = {"TILE", 9, B(3)}, err = [[
soma-dis: t.sbc: section TILE at byte 0x1b8: tile 0: invalid type 17, memory 3, 2 dimensions or partition 0
]] },
  { name = "rings", damage = {"QUES", 5, B(17)}, err = [[
soma-dis: t.sbc: section QUES of core 0 at byte 0x418: queue 0: invalid dge 2, 17 rings, owner 4 or priority 0
]] },
  { name = "symbol after the end", damage = {"SYMB", 8, B(77)}, err = [[
soma-dis: t.sbc: section SYMB at byte 0x5f0: symbol 0: pc 77, but the engine has 4 instructions
]] },
  { name = "control character in a name", damage = {"STRS", 1, B(10)}, err = [[
soma-dis: t.sbc: section STRS at byte 0x600: control character 10 at 0x1 of the names
]] },
  { name = "branch out of the section", damage = {"CODE", 128 + 22, B(200)}, run = true, err = [[
soma: error: vector, pc 2: target 200: section vector has 4 instructions
  blt r0, 2, L200
]] },
  { name = "partition", damage = {"PATS", 8, B(16)}, run = true, err = [[
soma: error: pattern 1: partitions 16..143: a memory has 128 (start 16, count 128)
]] },
  { name = "out of the tile", damage = {"PATS", 24, B(4)}, run = true, err = [[
soma: error: pattern 1: bytes 4..259: tile y has 0..255
]] },
  { name = "tile elsewhere", damage = {"TILE", 36, B(0, 0x7f, 3)}, run = true, err = [[
soma: error: pattern 2: bytes -229120..-228865: tile x has 0..255
]] },
  { name = "owner", damage = {"QUES", 6, B(3)}, run = true, err = [[
soma: error: queue q: dge=hwdge belongs to sync or scalar
]] },
  { name = "falls off", damage = {"CODE", 192, B(1)}, run = true, err = [[
soma: error: vector, pc 3: falls off the end of section vector: the last instruction must be halt, jmp or ret
  nop
]] },
}

local commands = {
  { name = "made data, a seed that is none", command = "$SOMA t.s --in a=randn:x", exit = 1, err = [=[
soma: error: --in a: data can be made by zeros, ones, arange, randn[:SEED] or uniform[:SEED[:LO:HI]], not by 'randn:x'
]=] },
  { name = "made data, half a range", command = "$SOMA t.s --in a=uniform:1:2", exit = 1, err = [=[
soma: error: --in a: data can be made by zeros, ones, arange, randn[:SEED] or uniform[:SEED[:LO:HI]], not by 'uniform:1:2'
]=] },
  { name = "made data, an empty range", command = "$SOMA t.s --in a=uniform:1:5:2", exit = 1, err = [[
soma: error: --in a: uniform:SEED:LO:HI needs LO below HI, not 5 and 2
]] },
  { name = "made data, nearly", command = "$SOMA t.s --in a=one", exit = 1, err = [[
soma: error: cannot read 'one': No such file or directory; did you mean ones?
]] },
  { name = "a few bytes of text as a program file", command = "echo '; no file' >u.sbc; $SOMA u.sbc; s=$?; rm u.sbc; exit $s", exit = 1, err = [[
soma: error: u.sbc: byte 0x0: not a program file: it does not begin with \x7fSBC
]] },
  { name = "no check", command = "$SOMA t.s --in a=a.npy --check ''", err = [[
soma: error: --check takes all, or names of checks with commas between them, not ''
try soma --help
]] },
  { name = "memory", command = "$SOMA t.s --in a=a.npy --max-memory 1K", exit = 1, err = [[
soma: error: not enough memory: --max-memory is 1024 bytes
]] },
  { name = "constants of no target", command = "$SOMA --costs trn9", err = [[
soma: error: --costs takes one of trn1, inf2, trn2, trn3, not 'trn9'; it runs nothing
try soma --help
]] },
  { name = "as: warnings as of other compilers", command = "$AS -Wall t.s", err = [[
soma-as: unknown option `-Wall`; warnings are turned on and off by -w+NAME, -w-NAME, -w+all, and -Werror makes them errors
try soma-as --help
]] },
  { name = "as: format of messages", command = "$AS --error-format=xml t.s", err = [[
soma-as: --error-format=xml: write --error-format=text or --error-format=json
try soma-as --help
]] },
  { name = "as: an instruction that is none", command = "$AS --explain tensor_coppy", err = [[
soma-as: nothing is called `tensor_coppy`; did you mean `tensor_copy`?
]] },
  { name = "dis: engine", command = "$DIS --engine pe t.sbc", err = [[
soma-dis: no engine is called `pe`; there are tensor, vector, scalar, gpsimd, sync, cc0, cc1, cc2
try soma-dis --help
]] },
  { name = "two to standard output", command = "$SOMA t.s --in a=a.npy --trace - --html -", err = [[
soma: error: --trace and --html both write to standard output
try soma --help
]] },
  { name = "table", command = "$SOMA t.s --in a=a.npy --csv Foo=x.csv", err = [[
soma: error: --csv: there is no table 'Foo'; there are: Instruction, DmaPacket, SemaphoreUpdate, ActiveTime, Summary, CcOp, CcInstruction, CcStream
try soma --help
]] },
  { name = "engines of a trace", command = "$SOMA t.s --in a=a.npy --trace-engines vec", err = [[
soma: error: --trace-engines takes names of engines with commas between them, not 'vec'; there are: tensor, vector, scalar, gpsimd, sync
try soma --help
]] },
  { name = "not a saved run", command = "$SOMA --resume t.s", exit = 1, err = [[
soma: error: t.s: this is not a saved run
]] },
  { name = "no such constant", command = "echo 'FOO = 3' >x.cost; $SOMA t.s --in a=a.npy --cost x.cost; s=$?; rm x.cost; exit $s", exit = 1, err = [[
soma: error: x.cost:1: there is no constant FOO
]] },
  { name = "expected data without a run's", command = "$SOMA t.s --in a=a.npy --expect c=zeros --timing-only", err = [[
soma: error: --expect does not go with --timing-only, which computes nothing
try soma --help
]] },
  { name = "sandbox: no time", command = "$SOMA --sandbox --max-seconds 0 x.lua", err = [[
soma: --max-seconds takes a number of seconds, above 0 and up to 1000000, not '0'
try soma --sandbox --help
]] },
  { name = "a device that never ends", command = "$DIS /dev/zero", exit = 1, err = [[
soma-dis: /dev/zero is larger than 256 MiB, the limit
]] },
  { name = "no file", command = "$SOMA", err = [[
soma: error: no program given
try soma --help
]] },
  { name = "unknown option", command = "$SOMA --inn a=a.npy t.s", err = [[
soma: error: unknown option --inn, did you mean --in?
try soma --help
]] },
  { name = "two programs, one assembled", command = "$AS t.s -o u.sbc; $SOMA t.s u.sbc; s=$?; rm u.sbc; exit $s", exit = 1, err = [[
error: u.sbc: not an object file: a program, linked already
]] },
  { name = "not there", command = "$SOMA nothing.s", exit = 1, err = [[
soma: error: cannot read 'nothing.s': No such file or directory
]] },
  { name = "no input", command = "$SOMA t.s", err = [[
soma: error: input tensor 'a' has no data: give --in a=FILE.npy, or --in a=randn:1
try soma --help
]] },
  { name = "no such tensor", command = "$SOMA t.s --in b=a.npy", err = [[
soma: error: --in b: the program has no tensor 'b'; its tensors: a, c
try soma --help
]] },
  { name = "input without a file", command = "$SOMA t.s --in a", err = [[
soma: error: --in takes NAME=FILE.npy, not 'a'
try soma --help
]] },
  { name = "no such npy", command = "$SOMA t.s --in a=nothing.npy", exit = 1, err = [[
soma: error: cannot read 'nothing.npy': No such file or directory
]] },
  { name = "npy of text", command = "$SOMA t.s --in a=t.s", exit = 1, err = [[
soma: error: t.s: not a valid .npy file: it does not start with the .npy magic
]] },
  { name = "npy cut", command = "$SOMA t.s --in a=cut.npy", exit = 1, err = [[
soma: error: cut.npy: not a valid .npy file: 872 bytes of data, but its shape and type need 32768
]] },
  { name = "npy type", command = "$SOMA t.s --in a=int.npy", exit = 1, err = [[
soma: error: tensor a is float32[128, 64], but the data given is int32[128, 64]
]] },
  { name = "npy shape", command = "$SOMA t.s --in a=flat.npy", exit = 1, err = [[
soma: error: tensor a is float32[128, 64], but the data given is float32[8192]
]] },
  { name = "target", command = "$SOMA t.s --in a=a.npy --target trn9", err = [[
soma: error: --target takes one of trn1, inf2, trn2, trn3, not 'trn9'
try soma --help
]] },
  { name = "limit no number", command = "$SOMA t.s --in a=a.npy --max-instructions x", err = [[
soma: error: --max-instructions takes a whole number of at least 1, not 'x'
try soma --help
]] },
  { name = "limit negative", command = "$SOMA t.s --in a=a.npy --max-ns -1", err = [[
soma: error: --max-ns takes a positive number, not '-1'
try soma --help
]] },
  { name = "output of no tensor", command = "$SOMA t.s --in a=a.npy --out z=z.npy", err = [[
soma: error: --out z: the program has no tensor 'z'; its tensors: a, c
try soma --help
]] },
  { name = "output unwritable", command = "$SOMA t.s --in a=a.npy --out c=no/c.npy", exit = 1, err = [[
soma: error: cannot write 'no/c.npy': No such file or directory
]] },
  { name = "limit reached", command = "$SOMA t.s --in a=a.npy --out c=c.npy --max-instructions 3", exit = 1, err = [[
t.s:9: limit: 3 instructions have run, which is the limit
  tensor_copy y, x $s>=16
  on vector, pc 0, at N ns
]] },
  { name = "time reached", command = "$SOMA t.s --in a=a.npy --out c=c.npy --max-ns 10", exit = 1, err = [[
limit: simulated time reached its limit of 10 ns
  at N ns
]] },
  { name = "deadlock", command = "$SOMA dead.s --out c=c.npy", exit = 1, err = [[
dead.s:8: deadlock: no engine can move and no transfer is in flight
  sync at dead.s:8 waits for $s>=2; $s is 1, 1 short
    updates: to 1 at N ns by sync (dead.s:7)
    nothing that could still run changes it: sync (dead.s:7) is past it
  nop $s>=2
  on sync, pc 1, at N ns
]] },
  { name = "division", command = "$SOMA div.s --out c=c.npy", exit = 1, err = [[
div.s:9: fault: division by zero
  div r2, r1, r3
  on sync, pc 2, at N ns
]] },
  { name = "bounds", command = "$SOMA bounds.s --out c=c.npy", exit = 1, err = [[
bounds.s:9: fault: operand dst: x[:, r1:+1] with r1 = 100 is column 100; x has columns 0..3
  dma_copy x[:, r1:+1], c[0:1], queue=q
  on sync, pc 2, at N ns
]] },
  { name = "semaphore below zero", command = "$SOMA below.s --out c=c.npy", exit = 1, err = [[
below.s:9: fault: semaphore s (number 0) would go from 1 to -1; its values are 0..2147483647
  nop $s-=2
  on sync, pc 2, at N ns
]] },
  { name = "the earlier of two faults", command = "$SOMA early.s", exit = 1, err = [[
early.s:3: fault: semaphore s (number 0) would go from 0 to -1; its values are 0..2147483647
  nop $s--
  on vector, pc 0, at N ns
]] },
  { name = "source with an error", command = "$SOMA wrong.s --out c=c.npy", exit = 1, err = [[
wrong.s:8:13: error: expected a register (r0 to r63), not `r64`
          mov r64, 1
              ^~~
]] },
  { name = "as: no file", command = "$AS", err = [[
soma-as: no source file
try soma-as --help
]] },
  { name = "as: format", command = "$AS -f elf t.s", err = [[
soma-as: unknown format `elf`: sbc, lst or json
try soma-as --help
]] },
  { name = "as: target", command = "$AS -t trn9 t.s", err = [[
soma-as: unknown target 'trn9'; there are: trn1, inf2, trn2, trn3
try soma-as --help
]] },
  { name = "as: value", command = "$AS t.s -o", err = [[
soma-as: -o needs a value
try soma-as --help
]] },
  { name = "as: -E and -f", command = "$AS -E -f sbc t.s", err = [[
soma-as: -E and -f sbc do not go together
try soma-as --help
]] },
  { name = "as: not there", command = "$AS nothing.s -o t.sbc", exit = 1, err = [[
error: cannot read `nothing.s`
]] },
  { name = "as: unwritable", command = "$AS t.s -o no/t.sbc", exit = 1, err = [[
soma-as: cannot write no/t.sbc: No such file or directory
]] },
  { name = "as: warning", command = "$AS -w+nothing t.s -o t.sbc", exit = 1, err = [[
error: no warning is called `nothing`
]] },
  { name = "as: an error in a loop", exit = 1, err = [[
u.s:3:2: error: unknown instruction `bogus`
   bogus
   ^~~~~
u.s:2:1: note: in round 1 of this %rep
  %rep 30
  ^~~~
u.s:6:2: error: unknown instruction `other`
   other
   ^~~~~
u.s:8:1: note: in the expansion of macro `m`
  m
  ^
u.s:6:2: error: unknown instruction `other`
   other
   ^~~~~
u.s:9:1: note: in the expansion of macro `m`
  m
  ^
]], command = "printf 'section vector\\n%%rep 30\\n bogus\\n%%endrep\\n%%macro m 0\\n other\\n%%endmacro\\nm\\nm\\n' >u.s; " ..
    "$AS u.s -o t.sbc; s=$?; rm u.s; exit $s" },
  { name = "as: names of habit", exit = 1, err = [[
u.s:1:10: error: expected a data type, not `fp32`; did you mean `float32`?
  x tensor fp32[4]
           ^~~~
u.s:2:13: error: unknown descriptor generation mode `hw`; one of none, swdge, hwdge
  q queue dge=hw
              ^~
u.s:5:28: error: unknown operator `multiply`; did you mean `mult`?
   tensor_tensor t, t, t, op=multiply
                             ^~~~~~~~
u.s:6:20: error: unknown activation function `GELU`; did you mean `gelu`?
   activate t, t, fn=GELU
                     ^~~~
u.s:7:2: error: unknown instruction `wait`; did you mean `event_semaphore`?
   wait
   ^~~~
]], command = "printf 'x tensor fp32[4]\\nq queue dge=hw\\nt tile sbuf float32[4,4]\\nsection vector\\n " ..
    "tensor_tensor t, t, t, op=multiply\\n activate t, t, fn=GELU\\n wait\\n' >u.s; $AS u.s -o t.sbc; s=$?; rm u.s; exit $s" },
  { name = "as: warning, nearly", command = "$AS -w-unused-tle t.s -o t.sbc", exit = 1, err = [[
error: no warning is called `unused-tle`; did you mean `unused-tile`?
]] },
  { name = "as: a name with blanks", command = "$AS '-Da b=3' t.s -o t.sbc", err = [[
soma-as: -D: `a b` is not a name
try soma-as --help
]] },
  { name = "as: a define that no source reads", exit = 0, err = [[
<command line>:3:9: warning: nothing reads `BUF`; did you mean `BUFS`? [-w+unused-define]
  %define BUF 4
          ^~~
]], command = "echo 'x equ A' >v.s; echo 'y equ B' >w.s; printf '%%include \"w.s\"\\n%%ifndef BUFS\\n%%define BUFS 2\\n%%endif' >u.s; " ..
    "$AS v.s u.s -D A=1 -D B=2 -D BUF=4 -o u.sbc; s=$?; rm v.s u.s w.s u.sbc; exit $s" },
  { name = "as: --explain of an operand as it is written", command = "$AS --explain op0= | grep -q 'an operand' && $AS --explain =", err = [[
soma-as: nothing is called `=`; soma --explain has constants of the clock and checks
]] },
  { name = "as: global before the declaration", exit = 1, err = [[
u.s:1:8: error: nothing called `t` is declared before this line; `global` comes after the declaration, and for a label in its section
  global t
         ^
]], command = "printf 'global t\\nt tile sbuf float32[128,8]\\n' >u.s; $AS -r u.s -o u.o; s=$?; rm u.s; exit $s" },
  { name = "as: output onto its source", err = [[
soma-as: the output t.s is a file that is read
try soma-as --help
]], command = "cp t.s u.s; $AS t.s -o ./../$(basename $PWD)/t.s -l t.lst 2>&1 | sed 's:is ./.*/:is :; s:output .*/:output :' >&2; cmp t.s u.s >&2 && rm u.s && exit 2" },
  { name = "as: listing onto an included file", command = "echo '%include \"t.s\"' >u.s; $AS u.s -o u.sbc -l t.s; s=$?; rm u.s; exit $s", err = [[
soma-as: the output t.s is a file that is read
try soma-as --help
]] },
  { name = "as: link onto an object", command = "$AS -r t.s -o t.o; $AS t.o -o t.o; s=$?; rm t.o; exit $s", err = [[
soma-as: the output t.o is a file that is read
try soma-as --help
]] },
  { name = "as: two outputs, one file", command = "$AS t.s -o t.out -l t.out", err = [[
soma-as: two outputs go to t.out
try soma-as --help
]] },
  { name = "as: a folder", command = "mkdir d; $AS d; s=$?; rmdir d; exit $s", exit = 1, err = [[
error: cannot read `d`: Is a directory
]] },
  { name = "as: control characters", command = "printf 'a\\033[31mb\\n' >u.s; $AS u.s -o t.sbc; s=$?; rm u.s; exit $s", exit = 1, err = [[
u.s:1:2: error: byte 0x1b is not allowed outside strings and comments
  a?[31mb
   ^
u.s:1:4: error: malformed number `31mb`
  a?[31mb
     ^~~~
]] },
  { name = "as: manual to a full device", command = "$AS --manual >/dev/full", exit = 1, err = [[
soma-as: cannot write standard output: No space left on device
]] },
  { name = "as: help to a full device", command = "$AS --help >/dev/full", exit = 1, err = [[
soma-as: cannot write standard output: No space left on device
]] },
  { name = "dis: help to a full device", command = "$DIS --help >/dev/full", exit = 1, err = [[
soma-dis: cannot write standard output: No space left on device
]] },
  { name = "dis: output onto the program", command = "$AS t.s -o t.sbc; $DIS t.sbc -o t.sbc; s=$?; $DIS t.sbc -o t.sbc.s; rm t.sbc t.sbc.s; exit $s", err = [[
soma-dis: the output t.sbc is the program file
try soma-dis --help
]] },
  { name = "dis: two forms", command = "$AS t.s -o t.sbc; $DIS --json --graph t.sbc; s=$?; rm t.sbc; exit $s", err = [[
soma-dis: give either --json or --graph, not both
try soma-dis --help
]] },
  { name = "as: list and error", command = "$AS wrong.s -o t.sbc -l t.lst -MD t.d", exit = 1, err = [[
wrong.s:8:13: error: expected a register (r0 to r63), not `r64`
          mov r64, 1
              ^~~
]] },
  { name = "dis: no file", command = "$DIS", err = [[
soma-dis: no program file
try soma-dis --help
]] },
  { name = "dis: two files", command = "$DIS t.sbc t.sbc", err = [[
soma-dis: one file at a time: `t.sbc` and `t.sbc`
try soma-dis --help
]] },
  { name = "dis: option", command = "$DIS --jso t.sbc", err = [[
soma-dis: unknown option `--jso`; did you mean `--json`?
try soma-dis --help
]] },
  { name = "dis: not there", command = "$DIS nothing.sbc -o t.s", exit = 1, err = [[
soma-dis: cannot read nothing.sbc: No such file or directory
]] },
  { name = "dis: source", command = "$DIS t.s -o x.s", exit = 1, err = [[
soma-dis: t.s: byte 0x0: not a program file: it does not begin with \x7fSBC
]] },
  { name = "as: unknown long option", command = "$AS --versoin t.s", err = [[
soma-as: unknown option `--versoin`; did you mean `--version`?
try soma-as --help
]] },
  { name = "as: argument file", command = "$AS -@ nothing t.s", err = [[
soma-as: cannot read nothing: No such file or directory
]] },
}

local files = {
  ["t.s"] = program,
  ["dead.s"] = head .. "        nop $s>=2\n        halt\n",
  ["div.s"] = head .. "        mov r1, 7\n        div r2, r1, r3\n        halt\n",
  ["bounds.s"] = head .. "        mov r1, 100\n        dma_copy x[:, r1:+1], c[0:1], queue=q\n        halt\n",
  ["below.s"] = head .. "        drain\n        nop $s-=2\n        drain\n        halt\n",
  -- The division comes later in simulated time, though sync runs ahead to it.
  ["early.s"] = "s sem\nsection vector\n        nop $s--\n        halt\nsection sync\n" ..
    "more:   add r0, r0, 1\n        blt r0, 1000, more\n        div r1, r0, r2\n        halt\n",
  ["wrong.s"] = head .. "        mov r64, 1\n        halt\n",
  ["a.npy"] = npy("<f4", "128, 64", 128 * 64 * 4),
  ["int.npy"] = npy("<i4", "128, 64", 128 * 64 * 4),
  ["flat.npy"] = npy("<f4", "8192,", 128 * 64 * 4),
}
files["cut.npy"] = files["a.npy"]:sub(1, 1000)
require "formats" (files, commands)

return { program = program, files = files, sources = sources, images = images, commands = commands }
