-- dma_copy over lists of buffers: the elements of one list go to those of the other, in order.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local shape, N = {6, 10}, 60
local engines = {"sync", "tensor", "vector", "scalar", "gpsimd"}

-- dsts=[two parts of o], srcs=[three parts of a], whose ends do not meet.
local cut = "dsts=[%s[0:4], %s[4:6]], srcs=[%s[0:1], %s[1:3], %s[3:6]]"
local function parts(o, a) return cut:format(o, o, a, a, a) end

local function of_types(suite)
  local packed = {float8_e5m2_x4 = 4, float8_e4m3fn_x4 = 4, float4_e2m1fn_x4 = 2, int64 = 8, uint64 = 8}
  for k, t in ipairs(ref.types) do
    for j, u in ipairs {t, ref.types[k % #ref.types + 1]} do
      local a = ref.tensor(ref.values(N, k), t, shape)
      suite:case {
        insn = "dma_copy_lists", name = t .. " to " .. u, engine = engines[(k + j) % 5 + 1], hbm = {a = true}, inputs = {a = a},
        outputs = {o = {u, shape}}, extra = "s sem", body = " dma_copy " .. parts("o", "in_a") .. ", queue=q_ $s\n nop $s>=16",
        expect = {o = t == u and a or ref.tensor(ref.list(a), u, shape)},
      }
    end
  end
  for t, bytes in pairs(packed) do
    local s = {}
    for i = 1, N do s[i] = string.pack("<I8", i * 0x9E3779B97F4A7C15):sub(1, bytes) end
    local a = soma.frombytes(table.concat(s), t, shape)
    suite:case {
      insn = "dma_copy_lists", name = t .. " bit for bit", engine = "sync", hbm = {a = true, o = true}, inputs = {a = a},
      outputs = {o = {t, shape}}, extra = "s sem", body = " dma_copy " .. parts("out_o", "in_a") .. ", queue=q_ $s\n nop $s>=16",
      expect = {o = a},
    }
  end
end

local function of_places(suite)
  local x = ref.tame(N, 4)
  local a = ref.tensor(x, "float32", shape)
  local function case(name, engine, body, o, t)
    t = t or {}
    suite:case {
      insn = "dma_copy_lists", name = name, engine = engine, targets = t.targets, hbm = t.hbm, inputs = {a = a},
      outputs = {o = o and {"float32", o} or {"float32", shape}}, extra = "s sem\n" .. (t.extra or ""), body = body, part = t.part,
      expect = t.expect or {o = ref.tensor(x, "float32", o or shape)}, fault = t.fault,
    }
  end
  for _, m in ipairs {{"sync", "none"}, {"tensor", "none"}, {"vector", "none"}, {"scalar", "none"}, {"gpsimd", "none"}, {"gpsimd", "swdge"}} do
    local extra = "w queue dge=" .. m[2]
    for _, k in ipairs {{"o", "a"}, {"out_o", "a"}, {"o", "in_a"}, {"out_o", "in_a"}} do -- SBUF and HBM on both sides
      case(string.format("%s on %s, %s of %s", m[2], m[1], k[1], k[2]), m[1],
        string.format(" dma_copy %s, queue=w $s\n nop $s>=16", parts(k[1], k[2])), nil,
        {extra = extra, hbm = {o = k[1] == "out_o", a = k[2] == "in_a"}})
    end
  end
  local names = {}
  for i = 0, 14 do names[#names + 1] = "in_a.ap([[1, 1]], offset=" .. i .. ")" end
  names[16] = "in_a.ap([[1, 45]], offset=15)"
  case("sixteen of sixteen", "sync", " dma_copy dsts=[" ..
    table.concat({"out_o[0:1, 0:3]", "out_o[0:1, 3:10]", "out_o[1]", "out_o[2]", "out_o[3]", "out_o[4]", "out_o[5, 0]", "out_o[5, 1]",
      "out_o[5, 2]", "out_o[5, 3]", "out_o[5, 4]", "out_o[5, 5]", "out_o[5, 6]", "out_o[5, 7]", "out_o[5, 8]", "out_o[5, 9]"}, ", ")
    .. "], srcs=[" .. table.concat(names, ", ") .. "], queue=q_ $s\n nop $s>=16", nil, {hbm = {a = true, o = true}})
  case("one of each is a dma_copy", "vector", " dma_copy dsts=[o], srcs=[a], queue=q_ $s\n nop $s>=16")
  case("one ring", "vector", string.format(" dma_copy %s, queue=w $s\n nop $s>=1", parts("o", "a")), nil, {extra = "w queue dge=none, rings=1"})
  case("in a list of static transfers, twice", "sync", " dma_trigger w, 1 $s\n dma_trigger w, 1 $s>=16 $s\n nop $s>=32", nil,
    {extra = "t_ tile sbuf float32[6, 10], part=32\nw queue dge=none\ndma w, " .. parts("t_", "in_a") .. "\ndma w, " .. parts("o", "t_"), hbm = {a = true}})
  case("from other partitions, backwards in a row", "scalar",
    " dma_copy dsts=[o[0:2], o[2:6]], srcs=[a[0:3].ap([[-1, 10]], offset=9), a[3:6].ap([[-1, 10]], offset=9)], queue=q_ $s\n nop $s>=16",
    nil, {part = {o = 64}, expect = {o = ref.tensor((function()
      local r = {}
      for i = 0, N - 1 do r[i + 1] = x[i // 10 * 10 + 10 - i % 10] end
      return r
    end)(), "float32", shape)}})
  local software = {extra = "w queue dge=swdge", hbm = {a = true}}
  case("registers say where", "gpsimd",
    " mov r1, 2\n mov r2, 4\n dma_copy dsts=[o[0:2], o[2:4], o[4:6]], srcs=[in_a[r0:+2], in_a[r1:+2], in_a[r2:+2]], queue=w $s\n nop $s>=16",
    nil, software)
  case("fails: registers put one over another", "gpsimd",
    " mov r1, 3\n mov r2, 4\n dma_copy dsts=[out_o[r1:+2], out_o[r2:+2]], srcs=[in_a[0:2], in_a[2:4]], queue=w $s\n nop $s>=16",
    nil, {extra = "w queue dge=swdge", hbm = {a = true, o = true}, fault = "operand dsts: a buffer at bytes 120.. shares bytes with one of dsts, at bytes 160.."})
  case("fails: a register puts one over a source", "gpsimd",
    " mov r1, 3\n dma_copy dsts=[out_o[r1:+2], out_o[0:1]], srcs=[out_o[4:6], in_a[0:1]], queue=w $s\n nop $s>=16",
    nil, {extra = "w queue dge=swdge", hbm = {a = true, o = true}, fault = "shares bytes with one of srcs, at bytes 160.."})
  case("fails: a register puts one out of bounds", "gpsimd",
    " mov r1, 5\n dma_copy dsts=[o[0:2], o[2:4]], srcs=[in_a[r1:+2], in_a[2:4]], queue=w $s\n nop $s>=16", nil,
    {extra = "w queue dge=swdge", hbm = {a = true}, fault = "operand srcs:"})
end

local function of_cores(suite)
  local s = {}
  for i = 1, 2 * N do s[i] = i * 1.5 end
  local a, b = ref.tensor(s, "float32", {2, 6, 10}), {}
  for i = 1, 2 * N do b[i] = s[(i - 1 + N) % (2 * N) + 1] end
  suite:case {
    insn = "dma_copy_lists", name = "to the other core and from it", engine = "sync", cores = 2, inputs = {a = a}, targets = util.since(3),
    outputs = {o = {"float32", {2, 6, 10}}}, expect = {o = ref.tensor(b, "float32", {2, 6, 10})}, extra = "s sem core=*",
    body = " core_barrier 99\n dma_copy dsts=[o[0:3].peer, o[3:4]], srcs=[a[0:3], a[3:4].peer], queue=q_ $s\n" ..
      " dma_copy dsts=[o[4:6].peer], srcs=[a[4:5], a[5:6]], queue=q_ $s\n nop $s>=32\n core_barrier 99",
  }
end

local function refusals(suite)
  local tiles = "a float32[6,10]; o float32[6,10]; b bfloat16[6,10]; z float8_e5m2_x4[6,10]; "
  local function refused(engine, operands, text, gen, decl, targets)
    util.refused(suite, {"dma_copy_lists", engine, (decl or "") .. tiles, "dma_copy " .. operands, text, gen, targets},
      "w_ queue dge=swdge")
  end
  refused("sync", "dsts=[o], srcs=[a], queue=h_", "lists of buffers need dge=none or dge=swdge", 3)
  refused("sync", "dsts=[o[0:3], o[3:6]], srcs=[a[0:2], a[2:5]], queue=q_", "50 elements: dsts have 60")
  refused("sync", "dsts=[o[0:3], o[2:6]], srcs=[a, a[0:1]], queue=q_", "buffer 1 shares bytes with buffer 0 of dsts")
  refused("sync", "dsts=[o[0:3], o[3:6]], srcs=[a[0:3], o[0:3]], queue=q_", "buffer 0 shares bytes with buffer 1 of srcs")
  refused("sync", "dsts=[o], srcs=[a[0:3], b[3:6]], queue=q_", "buffer 1 is bfloat16, but buffer 0 is float32: a list must have one type")
  refused("sync", "dsts=[o], srcs=[z], queue=q_", "copied, not converted")
  refused("gpsimd", "dsts=[o[0:+r1<=6]], srcs=[a[0:+r1<=6]], queue=w_", "a size is a register")
  refused("sync", "dsts=[o], srcs=[a[:, r0:+10]], queue=q_", "a register or element in the pattern")
  refused("sync", "dsts=[o], srcs=[" .. ("a, "):rep(16) .. "a], queue=q_", "17 items: at most 16")
  refused("sync", "dsts=[o], srcs=[a.peer], queue=q_", "the program has one core")
  refused("sync", "dsts=[o], srcs=[p], queue=q_", "psum", nil, "p float32[6,10] psum; ")
  refused("sync", "dsts=[o], queue=q_", "needs the keyword operand `srcs=`")
  refused("sync", "dsts=[], srcs=[a], queue=q_", "dsts is missing")
  refused("sync", "dsts=[o], srcs=[a], queue=q_, prio=1", "prio=1 needs gen4", 2, nil, {"trn1", "inf2", "trn2"})
end

return function(suite)
  of_types(suite)
  of_places(suite)
  of_cores(suite)
  refusals(suite)
end
