-- Collectives and the programs of CC sequencers: what assembles, prints and is encoded, and what is refused.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises
local function has(text, part) eq(text:find(part, 1, true) ~= nil, true, text) end

local head = [==[
target  trn3
tp      group   [[0, 1, 2, 3], [4, 5, 6, 7]]
uneven  group   [[0, 1, 2], [3, 4]]
done    sem
x       tensor  bfloat16[4, 64]
y       tensor  bfloat16[4, 64]
z       tensor  bfloat16[16, 64]
f       tensor  float32[4, 64]
m       tensor  uint32[3, 4]
m4      tensor  uint32[4, 4]
a       tile    sbuf bfloat16[4, 64]
b       tile    sbuf bfloat16[4, 64]
c       tile    sbuf bfloat16[4, 256]
n       tile    sbuf uint32[1, 12]
section gpsimd
]==]
local lines = {
  "all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++",
  "all_reduce dsts=[b], srcs=[a], group=uneven, op=max, stream=1, channel=2, prio=3 $done>=1 $done++",
  "all_gather dsts=[z], srcs=[x], group=tp",
  "all_gather dsts=[c], srcs=[a], group=tp, dim=1",
  "all_gather_v dsts=[z], srcs=[x], group=tp, metadata=m, recv_counts_known=true",
  "reduce_scatter dsts=[x], srcs=[z], group=tp, op=min",
  "all_to_all dsts=[y], srcs=[x], group=tp",
  "all_to_all_v dsts=[y], srcs=[x], group=tp, metadata=n",
  "all_to_all_v dsts=[y], srcs=[x], group=tp, metadata=m4, both=true",
  "all_reduce dsts=[y], srcs=[x], group=tp, op=add, both=true",
  "collective_permute dsts=[y], srcs=[x], pairs=[[0,1]], both=true",
  "collective_permute_implicit dsts=[y], srcs=[x], group=tp, both=true",
  "collective_permute_implicit_reduce dsts=[y], srcs0=[x], srcs1=[x], group=tp, op=max, both=true",
  "collective_permute dsts=[y], srcs=[x], pairs=[[0,1],[1,2],[2,0]]",
  "collective_permute_implicit dsts=[y,b_], srcs=[x,c_], group=tp, channels=[0,1]",
  "collective_permute_implicit_reduce dsts=[y], srcs0=[x], srcs1=[x], group=tp, op=add",
  "current_processing_rank_id r3, r1, group=tp, channel=1",
}
local more = "b_ tensor bfloat16[4, 64]\nc_ tensor bfloat16[4, 64]\n"
local source = head:gsub("section", more .. "section") .. table.concat(lines, "\n") .. "\nhalt\n"

case("each assembles, prints as it was written, and comes back from a file", function()
  local prog = soma.assemble(source)
  local text = prog:source()
  has(text, "tp group [[0,1,2,3],[4,5,6,7]]\nuneven group [[0,1,2],[3,4]]\n")
  local again = soma.assemble(text)
  eq(again:bytes(), prog:bytes())
  eq(soma.load(prog:bytes()):source(), text)
  eq(soma.load(prog:bytes()):bytes(), prog:bytes())
  for _, part in ipairs {"pairs=[[0,1],[1,2],[2,0]]", "channels=[0,1]", "group=uneven, op=max, stream=1, channel=2, prio=3",
                         "recv_counts_known=true", "srcs0=[", "group=tp, dim=1", "r3, r1, group=tp, channel=1"} do
    has(text, part)
  end
end)

case("a machine alone is one rank, and says how to start a world", function()
  for _, line in ipairs(lines) do
    local prog = soma.assemble((head:gsub("section", more .. "section")) .. line .. "\nhalt\n")
    local name = line:match "^[%w_]+"
    if name ~= "current_processing_rank_id" then raises("Ranks that run together are a world", function() soma.core {target = "trn3"}:run(prog, {}) end) end
  end
end)

case("groups", function()
  local function wrong(text, line) raises(text, soma.assemble, "target trn2\n" .. line .. "\nsection sync\nhalt\n") end
  wrong("rank 1 appears twice: a rank can be in only one list", "g group [[0, 1], [1, 2]]")
  wrong("a rank is -1; it must be from 0", "g group [[0, -1]]")
  wrong("expected", "g group [0, 1]")
  wrong("expected", "g group [[0, 1]")
  wrong("expected", "g group [[]]")
  wrong("`g` is already a group of ranks", "g group [[0]]\ng group [[0]]")
  wrong("unknown group of ranks `h`", "g group [[0]]\nx tensor int8[4]\ny tensor int8[4]\nsection sync\nall_to_all dsts=[y], srcs=[x], group=h")
  wrong("`g` is a group of ranks, not a number", "g group [[0]]\nn equ g + 1")
end)

case("what the operands must be", function()
  local function wrong(text, line) raises(text, soma.assemble, (head:gsub("section", more .. "section")) .. line .. "\nhalt\n") end
  wrong("has add, min and max", "all_reduce dsts=[y], srcs=[x], group=tp")
  wrong("all_gather computes nothing", "all_gather dsts=[z], srcs=[x], group=tp, op=add")
  wrong("operand 0: 256 elements, but its dst has 256; it needs 1024", "all_gather dsts=[y], srcs=[x], group=tp")
  wrong("it needs 64", "reduce_scatter dsts=[y], srcs=[x], group=tp, op=add")
  wrong("lists of 3 and of 2 ranks", "all_gather dsts=[z], srcs=[x], group=uneven")
  wrong("all must be in hbm, or all in sbuf", "all_reduce dsts=[y], srcs=[a], group=tp, op=add")
  wrong("a collective does not convert", "all_reduce dsts=[f], srcs=[x], group=tp, op=add")
  wrong("1 of srcs, but 2 of dsts: there must be as many", "all_reduce dsts=[y, b_], srcs=[x], group=tp, op=add")
  wrong("2 operands in sbuf: there can be only one", "all_reduce dsts=[a[0:2], a[2:4]], srcs=[b[0:2], b[2:4]], group=tp, op=add")
  wrong("share bytes: each byte must be written once", "all_reduce dsts=[y, y], srcs=[x, b_], group=tp, op=add")
  wrong("dim=1: all_gather takes 0 here", "all_gather dsts=[z], srcs=[x], group=tp, dim=1")
  wrong("those of all_to_all must be in hbm", "all_to_all dsts=[b], srcs=[a], group=tp")
  wrong("at fixed places", "all_reduce dsts=[y[r0:+2]], srcs=[x[0:2]], group=tp, op=add")
  wrong("metadata has 3 rows of 4 ranks", "all_gather_v dsts=[z], srcs=[x], group=tp, metadata=m4")
  wrong("metadata has 3 or 4 rows of 4 ranks", "all_to_all_v dsts=[y], srcs=[x], group=tp, metadata=m4[0:2]")
  wrong("metadata has 4 rows of 4 ranks", "all_to_all_v dsts=[y], srcs=[x], group=tp, metadata=m, has_rdispls=true")
  wrong("metadata must be uint32", "all_to_all_v dsts=[y], srcs=[x], group=tp, metadata=f")
  wrong("has one src and one dst", "collective_permute dsts=[y, b_], srcs=[x, c_], pairs=[[0,1]]")
  wrong("rank 0 sends twice", "collective_permute dsts=[y], srcs=[x], pairs=[[0,1],[0,2]]")
  wrong("rank 1 receives twice", "collective_permute dsts=[y], srcs=[x], pairs=[[0,1],[2,1]]")
  wrong("channel 1 at place 0", "collective_permute_implicit dsts=[y], srcs=[x], group=tp, channels=[1]")
  wrong("1 operands for 2 channels", "collective_permute_implicit dsts=[y], srcs=[x], group=tp, channels=[0,1]")
  wrong("it must be from 0 to 3", "current_processing_rank_id r0, 1, group=tp, channel=4")
  raises("prio=1 needs gen4", soma.assemble,
    "target trn2\ng group [[0, 1]]\nx tensor int8[4]\ny tensor int8[4]\nsection sync\nall_to_all dsts=[y], srcs=[x], group=g, prio=1\nhalt\n")
end)

-- ---- Sections of CC sequencers -------------------------------------------------------------------

local ring = [==[
target  trn2
tp      group   [[0, 1], [2, 3]]
x       tensor  float32[2, 1024], input
y       tensor  float32[2, 1024], output
part    tensor  float32[1024]
there   tensor  float32[1024], remote
a       tile    sbuf float32[128, 64]
b       tile    sbuf float32[128, 64]
done    sem     core=*
ready   sem     core=*
from    sem     core=*
moved   sem
own     sem     core=1
qcc     queue   dge=none, owner=cc0, core=*
qc2     queue   dge=none, owner=cc1
q       queue   dge=none
section gpsimd core=*
sum:    all_reduce dsts=[y], srcs=[x], group=tp, op=add     $done++
last:   all_gather dsts=[y], srcs=[x[0]], group=tp          $done++
        nop     $done>=2
        halt
section cc0 core=*
]==]
local block = [==[
        wait_start  gpsimd.sum
        nop                                                 $ready.rank[tp.prev]
        nop                                     $ready>=1   $ready--
        dma_copy    part.rank[tp.next], x[1], queue=qcc     $from.rank[tp.next]
        mov         r1, 4
again:  dma_copy    there.rank[3], x[0], queue=qcc          $from.rank[3]
        sub         r1, r1, 1
        bne         r1, 0, again
        dma_copy    b[64:128].rank[tp[1]], a[0:64], queue=qcc
        nop                                     $from>=16   $from-=16
        dma_compute y[0], srcs=[x[0], part], op=add, queue=qcc $from
        dma_trigger qcc, 2, first=3                         $done.rank[tp.xor 1]
        complete    gpsimd.sum
        wait_start  gpsimd.last
        complete    gpsimd.last
]==]

case("a section of a CC sequencer assembles, prints as it was written, and comes back from a file", function()
  local prog = soma.assemble(ring .. block)
  local text = prog:source()
  eq(soma.assemble(text):bytes(), prog:bytes())
  eq(soma.load(prog:bytes()):source(), text)
  eq(soma.load(prog:bytes()):bytes(), prog:bytes())
  for _, part in ipairs {"there tensor float32[1024], remote", "qcc queue rings=16, dge=none, owner=cc0, core=*", "section cc0 core=1",
    "wait_start gpsimd.sum", "complete gpsimd.last", "$ready.rank[tp.prev]", "$from.rank[tp.next]", "$from.rank[3]", "dma_trigger qcc, 2, first=3",
    "float32@hbm[part,0][1][1024].rank[tp.next]", "float32@sbuf[64,64,256,b][1][64].rank[tp[1]]", "float32@hbm[there,0][1][1024].rank[3]", "$done.rank[tp.xor 1]"} do has(text, part) end
end)

case("where no label is, a block names the instruction's number", function()
  local prog = soma.assemble(((ring .. block):gsub("last:", ""):gsub("gpsimd%.last", "gpsimd.L1")))
  has(prog:source(), "wait_start gpsimd.L1")
  eq(soma.assemble(prog:source()):bytes(), prog:bytes())
end)

case("what a section of a CC sequencer cannot have", function()
  local function wrong(text, lines)
    raises(text, soma.assemble, (ring:gsub(" core=%*\n$", "\n")) .. "wait_start gpsimd.sum\n" .. lines .. "\ncomplete gpsimd.sum\n")
  end
  wrong("matmul is not an instruction of the cc0 engine: tensor", "matmul y, x")
  wrong("all_reduce is not an instruction of the cc0 engine", "all_reduce dsts=[y], srcs=[x], group=tp, op=add")
  wrong("halt is not an instruction of the cc0 engine", "halt")
  wrong("queue q belongs to the engines: a CC sequencer needs one with owner=cc0", "dma_copy y, x, queue=q")
  wrong("queue qc2 belongs to cc1, not to cc0", "dma_copy y, x, queue=qc2")
  wrong("another rank's memory is only a destination of a dma_copy or dma_copy_lists; nothing reads it: let that rank send", "dma_copy y, x.rank[1], queue=qcc")
  wrong("is only a destination of a dma_copy or dma_copy_lists", "dma_compute y.rank[1], srcs=[x, x], op=add, queue=qcc")
  wrong("another rank's memory is only written: an op= reads it as well", "dma_copy y.rank[1], x, op=add, queue=qcc")
  wrong("only a CC sequencer reaches other ranks: dma_copy needs a queue with owner=cc0", "dma_copy y.rank[1], x, queue=q")
  wrong("tensor there is remote: other ranks have it, and `.rank[...]` says which", "dma_copy there, x[0], queue=qcc")
  wrong("tensor there is remote", "dma_copy y[0], there, queue=qcc")
  wrong("a wait must be on a semaphore of its own rank", "nop $from.rank[1]>=1")
  wrong("the update of another rank's semaphore has no sign", "nop $from.rank[1]++")
  wrong("`.rank` is given twice", "dma_copy y.rank[1].rank[0], x, queue=qcc")
  wrong("expected next, prev or xor after a group", "nop $from.rank[tp.left]")
  wrong("a rank is -1; it must be from 0 to 65535", "nop $from.rank[-1]")
  wrong("first=9: queue qcc has 1 static transfers, from 1 on", "dma_copy y, x, queue=qcc\ndma_trigger qcc, 1, first=9")
  wrong("the place at the other rank has no index or .peer", "dma_copy a.peer.rank[1], b, queue=qcc")
  wrong("expected an engine and a label of its section", "wait_start sum")
  wrong("there is no label `none` in section gpsimd", "complete gpsimd.sum\nwait_start gpsimd.none\ncomplete gpsimd.none\nwait_start gpsimd.last")
end)

case("what needs a CC sequencer", function()
  local function wrong(text, lines, target)
    raises(text, soma.assemble, (ring:gsub("trn2", target or "trn2"):gsub("section cc0.*", "")) .. lines .. "\n")
  end
  wrong("an update of another rank's semaphore: only a CC sequencer reaches other ranks", "section sync\nnop $from.rank[1]\nhalt")
  wrong("queue qcc belongs to cc0, not to sync", "section sync\ndma_copy y, x, queue=qcc\nhalt")
  wrong("wait_start is not an instruction of the sync engine: cc0, cc1, cc2", "section sync\nwait_start gpsimd.sum\nhalt")
  wrong("a core of trn2 has 2 CC sequencers, from cc0 on", "section cc2\n")
  wrong("a core of trn2 has 2 CC sequencers, from cc0 on", "qd queue dge=none, owner=cc2\n")
  wrong("swdge must be owned by gpsimd, not by cc0", "qd queue dge=swdge, owner=cc0\n")
  local lines = {}
  for i = 1, 8 do lines[i] = ("q%d queue dge=none, owner=cc1"):format(i) end
  wrong("a core has at most 8 queues of CC sequencers", table.concat(lines, "\n"))
end)

case("blocks", function()
  local function wrong(text, lines)
    local prog = soma.assemble((ring:gsub(" core=%*\n$", "\n"):gsub(", input", "")) .. lines .. "\n")
    raises(text, function() soma.core {target = "trn2"}:run(prog, {}) end)
  end
  local sum, last = {"wait_start gpsimd.sum", "complete gpsimd.sum"}, {"wait_start gpsimd.last", "complete gpsimd.last"}
  wrong("an instruction outside of a block", "nop\n" .. sum[1] .. "\n" .. sum[2])
  wrong("its last block has no complete", sum[1] .. "\nnop")
  wrong("the block before it has no complete", sum[1] .. "\n" .. last[1] .. "\n" .. last[2])
  wrong("complete of another collective", sum[1] .. "\n" .. last[2])
  wrong("no wait_start is before it", sum[2])
  wrong("a second block for the same collective", (sum[1] .. "\n" .. sum[2] .. "\n"):rep(2))
  for _, order in ipairs {{sum, last, sum}, {last, sum, last}} do
    local lines = {}
    for _, block in ipairs(order) do table.move(block, 1, 2, #lines + 1, lines) end
    wrong("a second block for the same collective", table.concat(lines, "\n"))
  end
  wrong("gpsimd pc 2 is nop, not a collective", "wait_start gpsimd.L2\ncomplete gpsimd.L2")
  wrong("a branch to 4 leaves its block, which is 1..2", sum[1] .. "\nl: jmp far\n" .. sum[2] .. "\n" .. last[1] .. "\nfar: nop\nfar2: jmp far\n" .. last[2])
end)

case("files of programs without them have the bytes that they had", function()
  local plain = soma.assemble "x tensor int8[4]\ny tensor int8[4]\nq queue dge=none\nsection sync\ndma_copy y, x, queue=q\nhalt\n":bytes()
  eq(plain:byte(33), 0) -- feature bits
  eq(plain:find("PEER", 1, true), nil)
  local world = soma.assemble(ring .. block):bytes()
  eq(world:byte(33), 4)
  local at = world:find("\1\0\0\0\0\0\0\0\1\0\0\0", 1, true) -- group 1, next
  eq(at ~= nil, true)
  for _, change in ipairs {{0, "\9"}, {8, "\9"}, {8, "\2"}} do
    eq(pcall(soma.load, world:sub(1, at + change[1] - 1) .. change[2] .. world:sub(at + change[1] + 1)), false)
  end
end)

case("a file whose groups are wrong is refused", function()
  local bytes = soma.assemble(source):bytes()
  local at = bytes:find("\4\0\0\0\4\0\0\0\0\0\0\0\1\0\0\0", 1, true) -- the lists of tp: 4 and 4; its ranks
  eq(at ~= nil, true)
  for i = at - 12, at + 8, 4 do
    local changed = bytes:sub(1, i - 1) .. "\255\255\255\127" .. bytes:sub(i + 4)
    eq(pcall(soma.load, changed), false)
  end
end)

t.finish()
