-- Instructions of a loop: what is kept of a round says nothing wrong of the next one. Each body runs
-- as a loop, as the same lines one after another, and as a loop that is saved on the way.
local soma = require "soma"
local t = require "harness"

local ROUNDS = 4
local x = soma.randn({128, 64}, "float32", {seed = 7})

local function program(lines)
  return soma.assemble([[
        target trn2
x       tensor float32[128, 64], input
y       tensor float32[128, 64], output
a       tile   sbuf float32[128, 64]
b       tile   sbuf float32[128, 64]
w       tile   sbuf bfloat16[128, 64]
q       queue
loaded  sem
ready   sem
stored  sem
section sync
        dma_copy a, x, queue=q $loaded
        dma_copy y, b, queue=q $stored $ready>=1
        halt
section vector
        tensor_copy w, a $loaded>=16
        memset b, 1.0
]] .. lines .. "        drain\n        nop $ready++\n        halt\n", {name = "rounds.s"})
end

-- Rounds of a body: r0 counts them.
local function loop(body)
  return program(".l:\n" .. body .. "        add r0, r0, 1\n        blt r0, " .. ROUNDS .. ", .l\n")
end
local function unrolled(body)
  return program((body .. "        add r0, r0, 1\n"):rep(ROUNDS))
end

local function moved(run)
  local e = run.stats.engine.vector
  return {e.sbuf_read_bytes, e.sbuf_write_bytes, e.psum_read_bytes, e.psum_write_bytes}
end

local function check(name, body)
  t.case(name, function()
    local want = soma.core():run(unrolled(body), {x = x})
    local got = soma.core():run(loop(body), {x = x})
    t.eq(soma.equal(got.out.y, want.out.y), true, "results")
    t.eq(moved(got), moved(want), "bytes")
    local parts = t.in_parts({}, loop(body), {x = x})
    t.eq(soma.equal(parts.out.y, got.out.y), true, "saved and resumed")
    t.eq(parts.stats.trace_hash, got.stats.trace_hash, "trace of the resumed run")
  end)
end

local many = {}
for i = 1, 700 do -- more than an engine keeps
  many[i] = string.format("        tensor_scalar b[:, %d:%d], b[:, %d:%d], op0=%s, imm0=%g\n", i % 60, i % 60 + 1 + i % 4,
    i % 60, i % 60 + 1 + i % 4, i % 3 == 0 and "mult" or "add", 1 + i / 1024)
end
check("more instructions than are kept", table.concat(many))
check("registers that move, give sizes and numbers", [[
        shl r1, r0, 2
        add r2, r0, 3
        shl r3, r0, 23
        add r3, r3, 0x3f800000
        tensor_copy b[:, r1:+8], a[:, r0:+8]
        tensor_scalar b[:, 0:+r2<=64], b[:, 0:+r2<=64], op0=add, imm0=r3
        tensor_tensor b, b, a, op=add
]])
check("a source that is overwritten before it is read", [[
        tensor_tensor b, b, a, op=add
        tensor_copy w, b
        tensor_tensor b, w, a, op=mult
]])
t.finish()
