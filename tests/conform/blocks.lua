-- Programs of CC sequencers: blocks from `wait_start` to `complete`, pushes into other ranks' memory and updates of their
-- semaphores. The first dimension of a case's tensors is the rank. And what of collectives is refused, or fails as it runs.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local N = 40
local function data(ranks, seed)
  local all = {}
  for r = 0, ranks - 1 do all[r] = ref.tame(N, seed + r) end
  return all
end
local function tensor(by_rank, ranks, shape)
  local list = {}
  for r = 0, ranks - 1 do table.move(by_rank[r], 1, #by_rank[r], #list + 1, list) end
  return ref.tensor(list, "float32", {ranks, table.unpack(shape)})
end

-- Rank r gets what from(r) has; extra, engines' bodies and sections by name.
local function case(suite, insn, name, ranks, bodies, from, o)
  local all, out = data(ranks, 7), {}
  for r = 0, ranks - 1 do
    local f = from(r)
    out[r] = type(f) == "table" and f or f and all[f] or all[r]
  end
  o = o or {}
  suite:case {
    insn = insn, name = name, engine = "gpsimd", ranks = ranks, hbm = {a = true, o = true}, inputs = {a = tensor(all, ranks, {5, 8})},
    outputs = {o = {"float32", {ranks, 5, 8}}}, expect = {o = tensor(out, ranks, {5, 8})}, targets = o.targets, fault = o.fault,
    extra = ("tp group [[%s]]\n"):format(table.concat({0, 1, 2, 3}, ", ", 1, ranks)) .. "done sem\nready sem\ncame sem\nmoved sem\nqcc queue dge=none, owner=cc0\n" .. (o.extra or ""),
    body = bodies,
  }
end

local swap = "x: collective_permute dsts=[out_o], srcs=[in_a], pairs=[[0, 1], [1, 0]] $done++\n nop $done>=1"
local function other(r) return 1 - r end
local function before(n) return function(r) return (r - 1) % n end end

local function blocks(suite)
  case(suite, "wait_start", "a push to the next rank", 2, {gpsimd = " " .. swap,
    cc0 = " wait_start gpsimd.x\n dma_copy out_o.rank[tp.next], in_a, queue=qcc $came.rank[tp.next]\n nop $came>=16\n complete gpsimd.x"}, other)
  case(suite, "wait_start", "blocks are entered in the order of starts, not of their text", 3, {
    gpsimd = [==[
x: collective_permute_implicit dsts=[out_o], srcs=[in_a], group=tp $done++
 nop $done>=1
y: collective_permute_implicit dsts=[out_o], srcs=[t_], group=tp $done++
 nop $done>=2]==],
    cc0 = [==[
 wait_start gpsimd.y
 nop $ready.rank[tp.prev]
 event_semaphore $ready>=1 $ready--
 dma_copy out_o.rank[tp.next], t_, queue=qcc $came.rank[tp.next]
 event_semaphore $came>=16 $came-=16
 complete gpsimd.y
 wait_start gpsimd.x
 dma_copy t_.rank[tp.next], in_a, queue=qcc $came.rank[tp.next]
 event_semaphore $came>=16 $came-=16
 complete gpsimd.x]==]}, function(r) return (r - 2) % 3 end, {extra = "t_ tensor float32[5, 8]"})
  case(suite, "wait_start", "one collective again and again", 2, {
    gpsimd = " mov r1, 6\nx: collective_permute dsts=[out_o], srcs=[in_a], pairs=[[0, 1], [1, 0]] $done++\n event_semaphore $done>=1 $done--\n sub r1, r1, 1\n bne r1, 0, x",
    cc0 = [==[
 wait_start gpsimd.x
 nop $ready.rank[tp.next]
 event_semaphore $ready>=1 $ready--
 dma_copy out_o.rank[tp.next], in_a, queue=qcc $came.rank[tp.next]
 event_semaphore $came>=16 $came-=16
 complete gpsimd.x]==]}, other)
  case(suite, "wait_start", "one sequencer serves two engines", 2, {
    gpsimd = "x: collective_permute dsts=[out_o[0:2]], srcs=[in_a[0:2]], pairs=[[0, 1], [1, 0]] $done++\n nop $done>=1",
    vector = " nop $done>=1\ny: collective_permute dsts=[out_o[2:5]], srcs=[in_a[2:5]], pairs=[[0, 1], [1, 0]] $moved++\n nop $moved>=1",
    cc0 = [==[
 wait_start gpsimd.x
 dma_copy out_o[0:2].rank[tp.next], in_a[0:2], queue=qcc $came.rank[tp.xor 1]
 event_semaphore $came>=16 $came-=16
 complete gpsimd.x
 wait_start vector.y
 dma_copy out_o[2:5].rank[tp.xor 1], in_a[2:5], queue=qcc $ready.rank[tp.xor 1]
 event_semaphore $ready>=16 $ready-=16
 complete vector.y]==]}, other)
end

local function ends(suite)
  case(suite, "complete", "two sequencers serve one collective, which ends with the later", 2, {gpsimd = " " .. swap,
    cc0 = " wait_start gpsimd.x\n dma_copy out_o[0:1].rank[tp.next], in_a[0:1], queue=qcc $came.rank[tp.next]\n nop $came>=16\n complete gpsimd.x",
    cc1 = " wait_start gpsimd.x\n mov r1, 5000\nlate: sub r1, r1, 1\n bne r1, 0, late\n dma_copy out_o[1:5].rank[tp.next], in_a[1:5], queue=qcd $moved.rank[tp.next]\n nop $moved>=16\n complete gpsimd.x"},
    other, {extra = "qcd queue dge=none, owner=cc1"})
  case(suite, "complete", "what it has sent has left: src may be overwritten", 2, {
    gpsimd = " dma_copy t_, in_a, queue=q_ $moved\n nop $moved>=16\nx: collective_permute dsts=[out_o], srcs=[t_], pairs=[[0, 1], [1, 0]] $done++\n"
      .. " nop $done>=1\n dma_copy t_, z_, queue=q_ $moved\n nop $moved>=32\n nop $came>=16",
    cc0 = " wait_start gpsimd.x\n dma_copy out_o.rank[tp.next], t_, queue=qcc $came.rank[tp.next]\n complete gpsimd.x"},
    other, {extra = "t_ tensor float32[5, 8]\nz_ tensor float32[5, 8], const = [times 40 0.0]\n"})
  case(suite, "complete", "a loop in a block: a row each time", 2, {gpsimd = " " .. swap,
    cc0 = " wait_start gpsimd.x\n mov r1, 0\nagain: add r2, r1, 1\n dma_trigger qcc, 1 $came.rank[tp.next]\n add r1, r1, 1\n bne r1, 5, again\n event_semaphore $came>=80\n complete gpsimd.x"},
    other, {extra = (function()
      local l = {}
      for i = 0, 4 do l[#l + 1] = (" dma qcc, out_o[%d].rank[tp.next], in_a[%d]"):format(i, i) end
      return table.concat(l, "\n")
    end)()})
  local all = data(2, 7)
  local sum = util.map(ref.ops.add, all[0], all[1])
  case(suite, "complete", "a sum of its own", 2, {gpsimd = "x: all_reduce dsts=[out_o], srcs=[in_a], group=tp, op=add $done++\n nop $done>=1",
    cc0 = [==[
 wait_start gpsimd.x
 dma_copy t_.rank[tp.next], in_a, queue=qcc $came.rank[tp.next]
 event_semaphore $came>=16 $came-=16
 dma_compute out_o, srcs=[in_a, t_], op=add, queue=qcc $moved
 event_semaphore $moved>=16 $moved-=16
 complete gpsimd.x]==]}, function() return sum end, {extra = "t_ tensor float32[5, 8]"})
end

-- Peers of every kind, in HBM and SBUF.
local function peers(suite)
  local give = "x: collective_permute_implicit dsts=[out_o], srcs=[in_a], group=tp $done++\n nop $done>=1"
  for name, how in pairs {["next"] = "tp.next", ["the place before the own one, round the ring"] = "tp.prev", ["xor 1"] = "tp.xor 1", ["xor 3"] = "tp.xor 3"} do
    case(suite, "dma_copy", "into another rank's hbm: " .. name, 4, {gpsimd = " " .. give,
      cc0 = (" wait_start gpsimd.x\n dma_copy out_o.rank[%s], in_a, queue=qcc $came.rank[%s]\n nop $came>=16\n complete gpsimd.x"):format(how, how)},
      function(r) return ({["tp.next"] = (r - 1) % 4, ["tp.prev"] = (r + 1) % 4, ["tp.xor 1"] = r ~ 1, ["tp.xor 3"] = r ~ 3})[how] end)
  end
  case(suite, "dma_copy", "into another rank's sbuf, from its sbuf", 2, {
    gpsimd = " dma_copy u_, in_a, queue=q_ $moved\n nop $moved>=16\nx: all_reduce dsts=[v_], srcs=[u_], group=tp, op=max $done++\n nop $done>=1\n dma_copy out_o, v_, queue=q_ $moved\n nop $moved>=32",
    cc0 = " wait_start gpsimd.x\n nop $ready.rank[tp.next]\n nop $ready>=1\n dma_copy v_.rank[tp.next], u_, queue=qcc $came.rank[tp.next]\n nop $came>=16\n complete gpsimd.x"},
    other, {extra = "u_ tile sbuf float32[5, 8]\nv_ tile sbuf float32[5, 8]"})
  case(suite, "dma_copy", "as many rows as a register says, into another rank", 2, {gpsimd = " dma_copy out_o, in_a, queue=q_ $moved\n nop $moved>=16\n " .. swap,
    cc0 = " wait_start gpsimd.x\n nop $ready.rank[tp.next]\n nop $ready>=1\n mov r1, 2\n mov r2, 3\n dma_copy out_o[r2:+r1<=4, :].rank[tp.next], in_a[1:+r1<=4, :], queue=qcc $came.rank[tp.next]\n nop $came>=16\n complete gpsimd.x"},
    function(r)
      local mine, others = data(2, 7)[r], data(2, 7)[1 - r]
      return table.move(others, 9, 24, 25, table.move(mine, 1, N, 1, {}))
    end)
  case(suite, "dma_copy_lists", "several pieces into another rank", 2, {gpsimd = " " .. swap,
    cc0 = " wait_start gpsimd.x\n dma_copy_lists dsts=[out_o[3:5].rank[tp.next], out_o[0:3].rank[tp.next]], srcs=[in_a[3:5], in_a[0:3]], queue=qcc $came.rank[tp.next]\n nop $came>=16\n complete gpsimd.x"}, other)
  case(suite, "dma_trigger", "each push adds at the rank that it writes", 3, {gpsimd = "x: all_gather dsts=[g_], srcs=[in_a], group=tp $done++\n nop $done>=1\n dma_copy out_o, g_[2], queue=q_ $moved\n nop $moved>=16",
    cc0 = " wait_start gpsimd.x\n nop $ready.rank[tp.next]\n nop $ready.rank[tp.prev]\n nop $ready>=2\n dma_trigger qcc, 2, first=1 $came.rank[dst]\n nop $came>=32\n complete gpsimd.x"},
    function(r) return (r + 1) % 3 end, {extra = "g_ tensor float32[3, 5, 8]\n dma qcc, g_[1].rank[tp.next], in_a\n dma qcc, g_[2].rank[tp.prev], in_a"})
  case(suite, "nop", "updates of another rank's semaphore, by number and place", 3, {
    gpsimd = "x: all_gather dsts=[g_], srcs=[in_a], group=tp $done++\n nop $done>=1\n dma_copy out_o, in_a, queue=q_ $moved\n nop $moved>=16",
    cc0 = " wait_start gpsimd.x\n nop $ready.rank[0]\n nop $ready.rank[tp[1]]\n event_semaphore $ready.rank[2]\n nop $ready>=3\n complete gpsimd.x"},
    function(r) return r end, {extra = "g_ tensor float32[3, 5, 8]"})
end

-- ---- Refusals ------------------------------------------------------------------------------------------

local head = "tp group [[0, 1, 2, 3]]\nuneven group [[0, 1], [2, 3, 4]]\npair group [[0, 1]]\nhq tensor float32[4, 8]\nhx tensor float32[4, 8]\nhy tensor float32[4, 8]\n"
  .. "hz tensor float32[16, 8]\nhb tensor bfloat16[4, 8]\nhp tensor float8_e4m3fn_x4[4, 8]\nhv tensor float8_e4m3fn_x4[4, 8]\nhl tensor int64[4, 8]\nhk tensor int64[4, 8]\n"
  .. "hi tensor uint32[3, 4]\nhj tensor int32[3, 4]\nh4 tensor uint32[4, 4]\nh5 tensor uint32[5, 4]\n"
local tiles = "s float32[4,8]; t float32[4,8]; u float32[16,8]; p float32[4,8] psum; m uint32[2,12]; "
local any = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_gather_v", "all_to_all_v", "collective_permute",
  "collective_permute_implicit", "collective_permute_implicit_reduce"}
-- A right line of each, with names for what is changed.
local lines = {
  all_reduce = "all_reduce dsts=[DST], srcs=[SRC], group=GROUP, op=add",
  all_gather = "all_gather dsts=[BIG], srcs=[SRC], group=GROUP",
  reduce_scatter = "reduce_scatter dsts=[DST], srcs=[BIG], group=GROUP, op=add",
  all_to_all = "all_to_all dsts=[DST], srcs=[SRC], group=GROUP",
  all_gather_v = "all_gather_v dsts=[BIG], srcs=[SRC], group=GROUP, metadata=META",
  all_to_all_v = "all_to_all_v dsts=[BIG], srcs=[SRC], group=GROUP, metadata=META",
  collective_permute = "collective_permute dsts=[DST], srcs=[SRC], pairs=PAIRS",
  collective_permute_implicit = "collective_permute_implicit dsts=[DST], srcs=[SRC], group=GROUP",
  collective_permute_implicit_reduce = "collective_permute_implicit_reduce dsts=[DST], srcs0=[SRC], srcs1=[hq], group=GROUP, op=add",
}
local right = {DST = "hy", SRC = "hx", BIG = "hz", GROUP = "tp", META = "hi", PAIRS = "[[0, 1]]"}
local function line(insn, changes)
  return (lines[insn]:gsub("%u%u%u+", function(word) return changes and changes[word] or right[word] end))
end

local function refusals(suite)
  local k = 0
  local engines = {"tensor", "vector", "scalar", "gpsimd", "sync"}
  local function refused(insn, text, what, gen, targets)
    k = k + 1
    util.refused(suite, {insn, engines[k % 5 + 1], tiles, what, text, gen or 2, targets}, head)
  end
  local function change(insn, changes, text) refused(insn, text, line(insn, changes)) end
  for _, insn in ipairs(any) do
    local big = insn == "all_gather" or insn:find "_v$"
    local src = insn == "reduce_scatter" and "BIG" or "SRC"
    local hbm_only = insn == "collective_permute" or insn:find "_v$" or insn == "all_to_all"
    refused(insn, "prio", line(insn) .. ", prio=1", 2, {"trn1", "inf2", "trn2"})
    change(insn, {[big and "BIG" or "DST"] = "hb"}, "a collective does not convert")
    change(insn, {[src] = "p"}, "psum")
    if not hbm_only then
      change(insn, {[src] = insn == "reduce_scatter" and "u" or "s"}, "operand 0: all must be in hbm, or all in sbuf")
      if not insn:find "implicit" then refused(insn, "operands in sbuf: there can be only one", (line(insn):gsub("%[[%w, ]+%]", function(list)
        return list == "[hz]" and "[u[0:8, :], u[8:16, :]]" or list == "[hy]" and "[s[0:2, :], s[2:4, :]]" or "[t[0:2, :], t[2:4, :]]"
      end))) end
    end
    local moves = insn == "reduce_scatter" and {BIG = "hz[r1:+4, :]", DST = "hy[0, :]"} or {SRC = "hx[r1:+2, :]", DST = "hy[0:2, :]", BIG = insn == "all_gather" and "hz[0:8, :]" or nil}
    change(insn, moves, "which no register moves")
    change(insn, {DST = "hk", SRC = "hl", BIG = "hl"}, "int64")
    if insn ~= "collective_permute" then
      change(insn, {GROUP = "5"}, "expected")
      if big or insn == "reduce_scatter" or insn == "all_to_all" then change(insn, {GROUP = "uneven"}, "group uneven has lists of 2 and of 3 ranks: all lists must have equally many") end
    end
    refused(insn, "it must be from 0 to 255", line(insn) .. ", stream=256")
  end
  for _, insn in ipairs {"all_reduce", "reduce_scatter", "collective_permute_implicit_reduce"} do
    refused(insn, "op=mult: " .. insn .. " has add, min and max", (line(insn):gsub("op=add", "op=mult")))
    change(insn, {DST = "hv", SRC = "hp", BIG = "hp"}, insn == "collective_permute_implicit_reduce" and "float8_e4m3fn_x4" or insn == "reduce_scatter" and "elements" or "packed types are not summed")
  end
  for _, insn in ipairs {"all_gather", "all_to_all"} do refused(insn, "computes nothing", line(insn) .. ", op=add") end
  for _, insn in ipairs {"all_reduce", "reduce_scatter", "all_to_all", "all_gather"} do refused(insn, "dim=1", line(insn) .. ", dim=1") end
  change("all_reduce", {SRC = "hx[0:2, :]"}, "operand 0: 16 elements, but its dst has 32; it needs 16")
  change("all_gather", {SRC = "hx[0:2, :]"}, "operand 0: 16 elements, but its dst has 128; it needs 64")
  change("reduce_scatter", {DST = "hy[0:2, :]"}, "operand 0: 128 elements, but its dst has 16; it needs 32")
  change("all_to_all", {DST = "hy[0:3, 0:3]", SRC = "hx[0:3, 0:3]"}, "operand 0: 9 elements for 4 ranks: each must get the same number")
  change("all_to_all", {DST = "t", SRC = "s"}, "those of all_to_all must be in hbm")
  refused("all_reduce", "1 of srcs, but 2 of dsts", "all_reduce dsts=[hy[0:2, :], hy[2:4, :]], srcs=[hx], group=tp, op=add")
  refused("all_reduce", "operands 0 and 1 share bytes", "all_reduce dsts=[hy[0:2, :], hy[1:3, :]], srcs=[hx[0:2, :], hx[2:4, :]], group=tp, op=add")
  change("all_gather_v", {GROUP = "pair"}, "lists of 2 ranks: all_gather_v takes 4")
  refused("all_gather_v", "has_rdispls: all_gather_v does not take it", line("all_gather_v", {META = "h4"}) .. ", has_rdispls=true", 4)
  for _, insn in ipairs {"all_gather_v", "all_to_all_v"} do
    change(insn, {META = "hj"}, "int32: metadata must be uint32")
    change(insn, {META = "h5"}, "20 elements: metadata has 3")
    change(insn, {META = "m[:, 0:6]"}, "2 partitions: metadata in sbuf must lie in one")
    change(insn, {META = "h4[:, 0:3]"}, "12 elements: metadata has 3")
    refused(insn, "has one src and one dst", (line(insn):gsub("%[hx%]", "[hx[0:2, :], hx[2:4, :]]")))
  end
  refused("all_to_all_v", "metadata has 4 rows", line("all_to_all_v") .. ", has_rdispls=true", 4)
  refused("all_to_all_v", "has_rdispls", line("all_to_all_v", {META = "h4"}) .. ", has_rdispls=true", 2, {"trn1", "inf2", "trn2"})
  change("collective_permute", {PAIRS = "[[0, 1], [0, 2]]"}, "rank 0 sends twice")
  change("collective_permute", {PAIRS = "[[1, 0], [2, 0]]"}, "rank 0 receives twice")
  change("collective_permute", {DST = "hy[0:2, :]"}, "operand 0: 32 elements, but its dst has 16")
  refused("collective_permute", "has one src and one dst", "collective_permute dsts=[hy[0:2, :], hy[2:4, :]], srcs=[hx[0:2, :], hx[2:4, :]], pairs=[[0, 1]]")
  refused("collective_permute_implicit", "channel 1 at place 0: channels are 0, 1 and so on", line "collective_permute_implicit" .. ", channels=[1]")
  refused("collective_permute_implicit", "1 operands for 2 channels", line "collective_permute_implicit" .. ", channels=[0, 1]")
  refused("collective_permute_implicit_reduce", "1 operands for 2 channels", line "collective_permute_implicit_reduce" .. ", channels=[0, 1]")
  refused("current_processing_rank_id", "expected a register", "current_processing_rank_id 5, r1, group=tp")
  refused("current_processing_rank_id", "it must be from 0 to 3", "current_processing_rank_id r2, r1, group=tp, channel=4")
  refused("wait_start", "wait_start is not an instruction of the", "wait_start gpsimd.x\nx: nop")
  refused("complete", "complete is not an instruction of the", "complete gpsimd.x\nx: nop")
  for text, pieces in pairs {
    ["an instruction outside of a block"] = {"nop"}, ["a second block for the same collective"] = {"wait_start gpsimd.x\ncomplete gpsimd.x\nwait_start gpsimd.x\ncomplete gpsimd.x"},
    ["wait_start, but the block before it has no complete"] = {"wait_start gpsimd.x\nwait_start gpsimd.y\ncomplete gpsimd.x"},
    ["complete, but no wait_start is before it"] = {"complete gpsimd.x"}, ["its last block has no complete"] = {"wait_start gpsimd.x\nnop"},
    ["complete of another collective than its block's wait_start"] = {"wait_start gpsimd.x\ncomplete gpsimd.y"},
    ["leaves its block"] = {"wait_start gpsimd.x\njmp out\ncomplete gpsimd.x\nwait_start gpsimd.y\nout: nop\ncomplete gpsimd.y"},
    ["is nop, not a collective"] = {"wait_start gpsimd.z\ncomplete gpsimd.z"},
    ["rank 0 sends to rank 4000; the world has 2 ranks"] = {"wait_start gpsimd.x\nnop $done.rank[4000]\ncomplete gpsimd.x"},
    ["has no sign: it adds 1"] = {"wait_start gpsimd.x\nnop $done.rank[1]++\ncomplete gpsimd.x"},
    ["only a destination of a dma_copy"] = {"wait_start gpsimd.x\ndma_copy hy, hx.rank[1], queue=qcc\ncomplete gpsimd.x"},
    ["may give the size of the outermost dimension alone"] = {"wait_start gpsimd.x\ndma_copy hy[:, 0:+r1<=8].rank[1], hx[:, 0:+r1<=8], queue=qcc\ncomplete gpsimd.x"},
    ["an op= reads it as well"] = {"wait_start gpsimd.x\ndma_copy hy.rank[1], hx, queue=qcc, op=add\ncomplete gpsimd.x"},
  } do
    suite:case {
      insn = text:find "complete" and "complete" or "wait_start", name = "refused: " .. pieces[1]:gsub("\n", "; "), engine = "gpsimd", ranks = 2, refuse = text,
      extra = head .. "done sem\nqcc queue dge=none, owner=cc0", targets = util.since(3),
      body = {gpsimd = "x: " .. line("all_reduce", {GROUP = "pair"}) .. "\ny: " .. line("all_to_all", {GROUP = "pair"}) .. "\nz: nop", cc0 = pieces[1]:gsub("^", " ")},
    }
  end
  for text, body in pairs {
    ["only a CC sequencer reaches other"] = " nop $done.rank[1]", ["needs a queue with owner=cc0"] = " dma_copy hy.rank[1], hx, queue=q_",
  } do
    suite:case {insn = "nop", name = "refused: " .. body, engine = "gpsimd", refuse = text, extra = head .. "done sem", body = body}
  end
end

-- What the ranks of a world do not agree about: refused before time passes. bodies: by rank.
local function disagreements(suite)
  local function disagree(insn, name, text, bodies, o)
    o = o or {}
    suite:case {
      insn = insn, name = "refused: " .. name, engine = "gpsimd", ranks = 2, cores = o.cores, hbm = {a = true, o = true}, refuse = text, targets = o.cores and util.since(3) or nil,
      inputs = {a = tensor(data(2, 3), 2, {5, 8})}, outputs = {o = {"float32", {2, 5, 8}}}, extra = "tp group [[0, 1]]\nturned group [[1, 0]]\none group [[0]]\nfar group [[0, 7]]\n"
        .. "t_ tensor float32[10, 8]\ni_ tensor int32[5, 8]\nj_ tensor int32[5, 8]\nd_ sem\nu_ tile sbuf float32[5, 8]\nv_ tile sbuf float32[5, 8]",
      body = function(r) return " " .. (bodies[r + 1] or bodies[1]) end,
    }
  end
  local sum = "all_reduce dsts=[out_o], srcs=[in_a], group=tp, op=add"
  disagree("all_reduce", "another reduction", "but rank 1 has all_reduce max float32[40]", {sum, (sum:gsub("add", "max"))})
  disagree("all_reduce", "another size", "but rank 1 has all_reduce add float32[32]", {sum, "all_reduce dsts=[out_o[0:4]], srcs=[in_a[0:4]], group=tp, op=add"})
  disagree("all_reduce", "another type", "but rank 1 has all_reduce add int32[40]", {sum, "all_reduce dsts=[i_], srcs=[j_], group=tp, op=add"})
  disagree("all_reduce", "another memory", "but rank 1 has all_reduce add float32[40]", {sum, "all_reduce dsts=[u_], srcs=[v_], group=tp, op=add"})
  disagree("all_gather", "another operation", "but rank 1 has all_reduce add float32[40]", {"all_gather dsts=[t_], srcs=[in_a], group=tp", sum})
  disagree("all_to_all", "another list", "of ranks 1, 0", {"all_to_all dsts=[out_o], srcs=[in_a], group=tp", "all_to_all dsts=[out_o], srcs=[in_a], group=turned"})
  disagree("reduce_scatter", "another stream", "in stream 1", {"reduce_scatter dsts=[in_a], srcs=[t_], group=tp, op=add", "reduce_scatter dsts=[in_a], srcs=[t_], group=tp, op=add, stream=1"})
  disagree("all_reduce", "a rank that has none", "rank 1 has no such collective", {sum, "nop"})
  disagree("all_reduce", "a rank that has one more", "it is number 2 of ranks 0, 1, and rank 0 has no such collective", {sum, sum .. "\n " .. sum})
  disagree("all_reduce", "a group without the rank", "the group [[0]] does not have rank 1", {"all_reduce dsts=[out_o], srcs=[in_a], group=one, op=add"})
  disagree("all_reduce", "a rank that the world does not have", "the group [[0, 7]] has rank 7, the world has 0..1", {"all_reduce dsts=[out_o], srcs=[in_a], group=far, op=add"})
  disagree("collective_permute", "a pair with a rank that the world does not have", "7", {"collective_permute dsts=[out_o], srcs=[in_a], pairs=[[0, 7]]"})
  disagree("collective_permute", "a target that has none", "rank 1 has no such collective", {"collective_permute dsts=[out_o], srcs=[in_a], pairs=[[0, 1]]", "nop"})
  disagree("collective_permute_implicit", "a rank that has none", "rank 1 has no such collective", {"collective_permute_implicit dsts=[out_o], srcs=[in_a], group=tp", "nop"})
  disagree("collective_permute_implicit_reduce", "another reduction", "but rank 1 has collective_permute_implicit_reduce min",
    {"collective_permute_implicit_reduce dsts=[out_o], srcs0=[in_a], srcs1=[t_[0:5]], group=tp, op=add", "collective_permute_implicit_reduce dsts=[out_o], srcs0=[in_a], srcs1=[t_[0:5]], group=tp, op=min"})
  disagree("all_reduce", "dst begins within src", "dst overlaps src: dst may be src itself, not a part of it", {"all_reduce dsts=[t_[1:6]], srcs=[t_[0:5]], group=tp, op=add"})
  disagree("all_to_all", "in place", "dst overlaps src: others may write dst before src is sent", {"all_to_all dsts=[t_], srcs=[t_], group=tp"})
  -- as it runs
  suite:case {
    insn = "current_processing_rank_id", name = "fails: a group without the rank", engine = "sync", ranks = 2, fault = "rank 1 is in no list of group one", extra = "one group [[0]]",
    body = " current_processing_rank_id r1, 0, group=one",
  }
  for text, m in pairs {["size r1 is 21, outside its bound 0..20"] = {21, 0}, ["is elements 30..49; in_a has elements 0..39"] = {20, 30}} do
    local rows = {}
    for r = 0, 1 do for i = 1, 6 do rows[r * 6 + i] = r == 0 and (i <= 2 and m[1] or i <= 4 and m[2]) or 0 end end
    suite:case {
      insn = "all_to_all_v", name = "fails: " .. text, engine = "gpsimd", ranks = 2, hbm = {a = true, o = true, m = true}, fault = text,
      inputs = {a = tensor(data(2, 3), 2, {40}), m = ref.from_bits(rows, "uint32", {2, 3, 2})}, outputs = {o = {"float32", {2, 40}}}, extra = "tp group [[0, 1]]\nd_ sem",
      body = " all_to_all_v dsts=[out_o], srcs=[in_a], group=tp, metadata=in_m $d_++\n nop $d_>=1",
    }
  end
  suite:case {
    insn = "complete", name = "fails: what a block waits for never comes", engine = "gpsimd", ranks = 2, fault = "the world cannot go on", extra = "tp group [[0, 1]]\nd_ sem\nhx_ tensor float32[8]\nhy_ tensor float32[8]",
    body = {gpsimd = "x: all_reduce dsts=[hy_], srcs=[hx_], group=tp, op=add $d_++\n nop $d_>=1", cc0 = " wait_start gpsimd.x\n nop $d_>=5\n complete gpsimd.x"},
  }
end

return function(suite)
  blocks(suite)
  ends(suite)
  peers(suite)
  refusals(suite)
  disagreements(suite)
end
