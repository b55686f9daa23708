-- Collectives: what assembles, prints and is encoded, and what is refused. No machine runs them yet.
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

case("a machine refuses them with the name", function()
  for _, line in ipairs(lines) do
    local prog = soma.assemble((head:gsub("section", more .. "section")) .. line .. "\nhalt\n")
    raises(line:match "^[%w_]+" .. " is known but not built in this version", function() soma.core {target = "trn3"}:run(prog, {}) end)
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
