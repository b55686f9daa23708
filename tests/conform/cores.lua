-- Between the two cores of a logical core: sendrecv, sendrecv_gpsimd, core_barrier, rank_id, updates of the
-- other core's semaphores, and transfers to and from its SBUF. The first dimension of a case's tensors is
-- the core.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local shape, N = {6, 10}, 60
local engines = {"tensor", "vector", "scalar", "gpsimd", "sync"}
-- Every queue that an engine can use, by the engine.
local queues = {
  {"sync", "dge=none"}, {"tensor", "dge=none"}, {"vector", "dge=none"}, {"scalar", "dge=none"}, {"gpsimd", "dge=none"},
  {"gpsimd", "dge=swdge"}, {"sync", "dge=hwdge"}, {"scalar", "dge=hwdge"},
}
local bytes_of = {}
for _, d in ipairs(soma.isa.dtypes) do bytes_of[d.name] = d.bytes end

-- Any bits, for both cores, and the same with the cores changed.
local function halves(dtype, each, n, seed)
  local size, half = bytes_of[dtype], {}
  for c = 1, 2 do
    local s = {}
    for i = 1, n do s[i] = string.pack("<I8", (i + 1000 * c + (seed or 0)) * 0x9E3779B97F4A7C15):sub(1, size) end
    half[c] = table.concat(s)
  end
  if dtype == "bool" then for c = 1, 2 do half[c] = half[c]:gsub(".", function(ch) return string.char(ch:byte() & 1) end) end end
  return soma.frombytes(half[1] .. half[2], dtype, {2, table.unpack(each)}),
    soma.frombytes(half[2] .. half[1], dtype, {2, table.unpack(each)})
end

local function of_engines(suite)
  local a, b = halves("float32", shape, N)
  for _, q in ipairs(queues) do
    local c = {
      insn = "sendrecv", name = q[2] .. " on " .. q[1], engine = q[1], cores = 2, inputs = {a = a},
      outputs = {o = {"float32", {2, table.unpack(shape)}}}, expect = {o = b}, extra = "s sem core=*\nw queue " .. q[2] .. ", core=*",
      body = " sendrecv o, a, queue=w $s\n nop $s>=16",
    }
    suite:case(c)
    c = util.copy(c)
    c.insn, c.name = "dma_copy", "to the other core, " .. q[2] .. " on " .. q[1]
    c.targets = util.since(3)
    c.body = " dma_copy o.peer, a, queue=w $peer.s\n nop $s>=16"
    suite:case(c)
    c = util.copy(c)
    c.name = "from the other core, " .. q[2] .. " on " .. q[1]
    c.body = " core_barrier 99\n dma_copy o, a.peer, queue=w $s\n nop $s>=16"
    suite:case(c)
  end
  suite:case {
    insn = "sendrecv", name = "one ring", engine = "vector", cores = 2, inputs = {a = a}, expect = {o = b},
    outputs = {o = {"float32", {2, table.unpack(shape)}}}, extra = "s sem core=*\nw queue dge=none, rings=1, core=*",
    body = " sendrecv o, a, queue=w $s\n nop $s>=1",
  }
end

-- Every type of both instructions; with whole partitions of both sizes that gpsimd's DMA takes.
local function of_types(suite)
  for k, d in ipairs(soma.isa.dtypes) do
    local a, b = halves(d.name, shape, N, k)
    suite:case {
      insn = "sendrecv", name = d.name, engine = engines[k % 5 + 1], cores = 2, inputs = {a = a}, expect = {o = b},
      outputs = {o = {d.name, {2, table.unpack(shape)}}}, extra = "s sem core=*",
      body = string.format(" sendrecv o, a, queue=q_, pipe=%d $s\n nop $s>=16", k),
    }
    suite:case {
      insn = "core_barrier", name = "data of " .. d.name, engine = engines[k % 5 + 1], cores = 2, hbm = {a = true, o = true},
      inputs = {a = a}, outputs = {o = {d.name, {2, table.unpack(shape)}}}, expect = {o = b}, extra = "s sem core=*",
      body = " dma_copy out_o[1 - CORE], in_a[CORE], queue=q_ $s\n core_barrier 100, data=out_o $s>=16",
    }
    if d.bytes < 8 then
      local each = k % 2 == 0 and {128, 256} or {40, 17}
      a, b = halves(d.name, each, each[1] * each[2], k)
      suite:case {
        insn = "sendrecv_gpsimd", name = d.name, engine = "gpsimd", cores = 2, inputs = {a = a}, expect = {o = b},
        outputs = {o = {d.name, {2, table.unpack(each)}}}, extra = "s sem core=*",
        body = string.format(" sendrecv_gpsimd o, a, pipe=%d $s++\n nop $s>=1", k),
      }
    end
  end
end

-- Parts of tiles, transposed and backwards; many one after another; pipes.
local function of_patterns(suite)
  local x, y = ref.tame(N, 3), ref.tame(N, 4)
  local function both(first, second)
    local list = {table.unpack(first)}
    for i = 1, N do list[N + i] = second[i] end
    return ref.tensor(list, "float32", {2, table.unpack(shape)})
  end
  local a, b = both(x, y), both(y, x)
  local function case(insn, name, engine, body, want, extra, o)
    suite:case {
      insn = insn, name = name, engine = engine, cores = 2, inputs = {a = a}, expect = {o = want or b},
      outputs = {o = o or {"float32", {2, table.unpack(shape)}}}, extra = "s sem core=*\n" .. (extra or ""), body = body,
    }
  end
  local function backwards(list)
    local r = {}
    for i = 0, N - 1 do r[i + 1] = list[i // 10 * 10 + 10 - i % 10] end
    return r
  end
  local reversed = both(backwards(y), backwards(x))
  for _, m in ipairs {{"sendrecv", "vector", ", queue=q_ $s\n nop $s>=16"}, {"sendrecv_gpsimd", "gpsimd", " $s++\n nop $s>=1"}} do
    case(m[1], "to another order of elements", m[2], string.format(" %s o, a.ap([[-1, 10]], offset=9)%s", m[1], m[3]), reversed)
  end
  case("sendrecv", "the other core's destination lies elsewhere", "sync",
    " mov r1, 16 * CORE\n sendrecv t[:, r1:+10], a, queue=h $s\n nop $s>=16\n dma_copy o, t[:, r1:+10], queue=h $s\n nop $s>=32",
    b, "t tile sbuf float32[6, 32]\nh queue dge=hwdge, core=*")
  case("sendrecv", "a hundred on two pipes in turn", "sync",
    " loop r0, 0, 50\n sendrecv o, a, queue=h, pipe=0 $s\n event_semaphore $s>=16 $s-=16\n" ..
    " sendrecv a, o, queue=h, pipe=1 $s\n event_semaphore $s>=16 $s-=16\n endloop\n" ..
    " sendrecv o, a, queue=h $s\n nop $s>=16", b, "h queue dge=hwdge, core=*")
  case("sendrecv_gpsimd", "a hundred on two pipes in turn", "gpsimd",
    " loop r0, 0, 50\n sendrecv_gpsimd o, a, pipe=0\n sendrecv_gpsimd a, o, pipe=1\n endloop\n sendrecv_gpsimd o, a $s++\n nop $s>=1")
  case("sendrecv_gpsimd", "what gpsimd has just written", "gpsimd",
    " memset t, 2.0\n tensor_tensor t, t, a, op=mult\n sendrecv_gpsimd o, t $s++\n memset t, 0.0\n nop $s>=1",
    both(util.map(function(v) return 2.0 * v end, y), util.map(function(v) return 2.0 * v end, x)), "t tile sbuf float32[6, 10]")
end

-- Who may update the other core's semaphore, and transposes to and from its SBUF.
local function across(suite)
  local a, b = halves("float32", shape, N)
  local function case(insn, name, engine, body, extra, o)
    suite:case {
      insn = insn, name = name, engine = engine, cores = 2, inputs = {a = a}, expect = {o = o or a},
      outputs = {o = {"float32", {2, table.unpack(shape)}}}, extra = "s sem core=*\n" .. (extra or ""), body = body, targets = util.since(3),
    }
  end
  for _, i in ipairs {{"vector", "tensor_copy o, a"}, {"scalar", "activate o, a, fn=copy"}, {"gpsimd", "tensor_copy o, a"}} do
    for when, update in pairs {["its end"] = "$peer.s++", ["its reading"] = "$peer.s+=4@read", ["its writing"] = "$peer.s=7@complete"} do
      local n = update:match "[47]" or "1"
      case(i[2]:match "^%S+", "at " .. when .. " it updates the other core's on " .. i[1], i[1], (" %s %s\n nop $s==%s\n core_barrier 97"):format(i[2], update, n))
    end
  end
  case("ldweights", "at its end it updates the other core's", "tensor", " ldweights a $peer.s++\n nop $s>=1\n dma_copy o, a, queue=q_ $s\n nop $s>=17")
  case("dma_trigger", "the rings update the other core's", "vector", " dma_trigger w, 1 $peer.s\n nop $s>=16\n core_barrier 97",
    "w queue dge=none, core=*\ndma w, o, a")
  case("sendrecv", "the rings update the other core's", "vector", " sendrecv o, a, queue=q_ $peer.s\n nop $s>=16\n core_barrier 97", nil, b)
  case("sendrecv_gpsimd", "its end updates the other core's", "gpsimd", " sendrecv_gpsimd o, a $peer.s++\n nop $s>=1\n core_barrier 97", nil, b)
  for _, dtype in ipairs {"bfloat16", "float16", "uint16"} do
    local x, y = halves(dtype, {16, 32}, 512)
    local function turned(t)
      local raw, out = t:bytes(), {}
      for c = 0, 1 do for i = 0, 31 do for p = 0, 15 do
        local at = ((c * 16 + p) * 32 + i) * 2
        out[#out + 1] = raw:sub(at + 1, at + 2)
      end end end
      return soma.frombytes(table.concat(out), dtype, {2, 32, 16})
    end
    for name, body in pairs {["to the other core"] = "dma_transpose o.peer, a, queue=%s $peer.s", ["from the other core"] = "dma_transpose o, a.peer, queue=%s $s"} do
      for _, q in ipairs {{"vector", "none"}, {"sync", "hwdge"}} do
        suite:case {
          insn = "dma_transpose", name = ("%s %s, %s"):format(dtype, name, q[2]), engine = q[1], cores = 2, inputs = {a = x}, expect = {o = turned(y)},
          outputs = {o = {dtype, {2, 32, 16}}}, extra = "s sem core=*\nw queue dge=" .. q[2] .. ", core=*", targets = util.since(3),
          body = " core_barrier 97\n " .. body:format "w" .. "\n nop $s>=16\n core_barrier 97",
        }
      end
    end
  end
end

-- A thousand barriers: each core counts its rounds in hbm and, past a barrier, reads the other one's.
local function barriers(suite)
  local sum = ref.from_bits({500500, 500500}, "int32", {2, 1, 1})
  for _, engine in ipairs(engines) do
    suite:case {
      insn = "core_barrier", name = "a thousand times on " .. engine, engine = engine, cores = 2, hbm = {o = true},
      outputs = {o = {"int32", {2, 1, 1}}}, expect = {o = sum}, extra = "n_ tensor int32[2]",
      body = " loop r0, 1, 1001\n tensor_store n_[CORE], r0\n core_barrier 100, data=n_\n tensor_load r1, n_[1 - CORE]\n add r2, r2, r1\n"
        .. " core_barrier 101\n endloop\n tensor_store out_o[CORE, 0, 0], r2",
    }
  end
  local one = ref.from_bits({1, 1}, "int32", {2, 1, 1})
  local function passes(insn, name, engine, body, fault)
    suite:case {
      insn = insn, name = name, engine = engine, cores = 2, hbm = {o = true}, outputs = {o = {"int32", {2, 1, 1}}}, expect = {o = one},
      extra = "u_ sem core=*\nt tile sbuf int8[4, 4]\nv tile sbuf int8[4, 4]", body = body .. "\n mov r1, 1\n tensor_store out_o[CORE, 0, 0], r1", targets = util.since(3), fault = fault,
    }
  end
  for _, engine in ipairs(engines) do
    passes("event_semaphore", "every update of the other core's on " .. engine, engine,
      " event_semaphore $peer.u_++\n nop $u_>=1\n event_semaphore $u_==1\n core_barrier 98\n event_semaphore $peer.u_+=6\n nop $u_==7\n core_barrier 98\n" ..
      " event_semaphore $peer.u_--\n nop $u_==6\n core_barrier 98\n event_semaphore $peer.u_-=4\n nop $u_==2\n core_barrier 98\n" ..
      " event_semaphore $peer.u_=9\n nop $u_==9\n core_barrier 98\n event_semaphore $u_>=9 $u_-=9\n nop $u_==0")
    passes("nop", "updates the other core's on " .. engine, engine, " nop $peer.u_+=5\n nop $u_==5")
  end
  passes("core_barrier", "the clauses are around it", "gpsimd", " nop $u_++\n core_barrier 100 $u_>=1 $peer.u_+=2\n nop $u_>=3")
  passes("core_barrier", "fails: the other core does not come", "vector", " mov r1, CORE\n if r1 == 0\n core_barrier 100\n endif", "waits at its core_barrier for core 1")
  passes("sendrecv", "fails: the other core comes to another pipe", "vector",
    " mov r1, CORE\n if r1 == 0\n sendrecv t, v, queue=q_\n else\n sendrecv t, v, queue=q_, pipe=1\n endif", "waits at its sendrecv of pipe 0 for core 1")
end

local function ranks(suite)
  for _, engine in ipairs(engines) do
    suite:case {
      insn = "rank_id", name = "of the one logical core on " .. engine, engine = engine, hbm = {o = true}, outputs = {o = {"int32", {1, 1}}},
      body = " mov r7, 5\n rank_id r7\n tensor_store out_o[0:1, 0:1], r7", expect = {o = ref.from_bits({0}, "int32", {1, 1})},
    }
  end
end

local function refusals(suite)
  local tiles = "a float32[4,8]; b float32[4,8];"
  local function refused(insn, engine, line, text, decl, targets)
    util.refused(suite, {insn, engine, decl or tiles, line, text, 3, targets})
  end
  refused("rank_id", "sync", "rank_id 5", "expected a register")
  refused("core_barrier", "sync", "core_barrier 5", "the program has one core")
  refused("core_barrier", "sync", "core_barrier 256", "it must be from 0 to 255")
  refused("core_barrier", "sync", "core_barrier 5", "core_barrier needs gen3", nil, {"trn1", "inf2"})
  refused("sendrecv", "vector", "sendrecv a, b, queue=q_", "the program has one core")
  refused("sendrecv", "vector", "sendrecv a, b, queue=q_", "sendrecv needs gen3", nil, {"trn1", "inf2"})
  refused("sendrecv_gpsimd", "gpsimd", "sendrecv_gpsimd a, b", "the program has one core")
  local function pair(insn, engine, body, text, extra)
    suite:case {
      insn = insn, name = "refused: " .. body .. " on " .. engine, engine = engine, cores = 2, body = " " .. body, refuse = text,
      tiles = {a = {"float32", {4, 8}}, b = {"float32", {4, 8}}, c = {"float32", {8, 4}}, d = {"int32", {4, 8}},
        e = {"float32", {4, 300}}, f = {"float32", {4, 300}}}, extra = extra or "",
    }
  end
  pair("core_barrier", "vector", "core_barrier mine", "`mine` belongs to core 0", "mine sem")
  pair("core_barrier", "vector", "core_barrier 5, data=t[r1]", "at a fixed place", "t tensor int32[4]")
  pair("core_barrier", "vector", "core_barrier 5, data=p", "only hbm and sbuf", "p tile psum float32[4, 4]")
  pair("sendrecv", "vector", "sendrecv a, a, queue=q_", "share no byte")
  pair("sendrecv", "vector", "sendrecv a, c, queue=q_", "8 partitions")
  pair("sendrecv", "vector", "sendrecv a, b[:, 0:4], queue=q_", "4 elements")
  pair("sendrecv", "vector", "sendrecv a, d, queue=q_", "int32")
  pair("sendrecv", "vector", "sendrecv a[:, r0:+4], b[:, 0:4], queue=q_", "a register or element in the pattern")
  pair("sendrecv", "vector", "sendrecv a, b.peer, queue=q_", "does not reach the other core's sbuf here")
  pair("sendrecv", "vector", "sendrecv a, p, queue=q_", "DMA does not reach psum", "p tile psum float32[4, 8]")
  pair("sendrecv", "vector", "sendrecv a, b, queue=q_, pipe=256", "it must be from 0 to 255")
  pair("sendrecv_gpsimd", "gpsimd", "sendrecv_gpsimd e, f", "300 elements of float32 in a partition: gpsimd's own DMA takes at most 256, 1024 bytes")
  pair("sendrecv_gpsimd", "gpsimd", "sendrecv_gpsimd a, d", "int32")
  pair("sendrecv_gpsimd", "gpsimd", "sendrecv_gpsimd a, a", "share no byte")
  pair("sendrecv_gpsimd", "gpsimd", "sendrecv_gpsimd a, b $s++@read", "finishes with src and dst together", "s sem core=*")
end

return function(suite)
  of_engines(suite)
  of_types(suite)
  of_patterns(suite)
  across(suite)
  barriers(suite)
  ranks(suite)
  refusals(suite)
end
