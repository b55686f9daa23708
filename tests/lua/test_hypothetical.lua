-- Hypothetical machines: a target with other values, wherever a target is named.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

local source = [[
        target  trn2
x       tensor  float32[128, 512], input
y       tensor  float32[128, 512], output
t       tile    sbuf float32[128, 512]
loaded  sem
squared sem
q       queue   dge=hwdge
section sync
        dma_copy  t, x, queue=q                 $loaded
        dma_copy  y, t, queue=q  $squared>=1
        halt
section scalar
        activate  t, t, fn=square  $loaded>=__NDMA__  $squared++
        halt
]]
local x = soma.randn({128, 512}, "float32", {seed = 1})

local function run(target, text, options)
  local core = soma.core(setmetatable({target = target, checks = "all"}, {__index = options}))
  local r = core:run(soma.assemble(text or source, {target = target, name = "square.s"}), {x = x})
  eq(#r.findings, 0)
  return r, core
end

case("what it changes has its effect, and no other value", function()
  local base, core = run "trn2"
  eq(core.target, "trn2")
  local same = {y = base.out.y:tolist()}
  for _, c in ipairs {
    {"trn2, scalar_clock_ghz=2.4", -360}, -- 720 ns of 512 columns and the rest of activate, at 1.2 GHz
    {"trn2, scalar_clock_ghz=0.6", 720},
    {"trn2, sbuf_kib=384", 0}, {"trn2, hbm_gib=1", 0}, {"trn2, psum_banks=1", 0},
    {"trn2, pe_clock_ghz=9.5, vector_clock_ghz=0.5", 0},
  } do
    local r, other = run(c[1])
    eq(other.target, "hypothetical " .. c[1])
    eq(math.tointeger(math.floor(r.time_ns - base.time_ns + 0.5)), c[2])
    eq(r.out.y:tolist(), same.y)
  end
  eq(run "trn2, DMA_R_IN=11550".time_ns > base.time_ns + 500, true)
  eq(run "trn2, dma_engines=8".time_ns > base.time_ns + 500, true)
  eq(run "trn2, dma_engines=8".stats.dma_engines, 8)
end)

case("without a change it is the target", function()
  for _, text in ipairs {"trn2, sbuf_kib=224", "base = trn2", "hypothetical trn2", 'base="trn2" # mine', " trn2 "} do
    eq(soma.isa.target(text).name, "trn2")
  end
  eq(soma.isa.target("base = trn2 # mine\n\n sbuf_kib = 384 ; KiB\npe_clock_ghz=2.800\n").name,
    "hypothetical trn2, sbuf_kib=384, pe_clock_ghz=2.8")
  eq(soma.isa.target("trn2, sbuf_kib=384").sbuf_usable, 384 * 1024)
end)

case("what is no key, or no value of one, is refused by name", function()
  for text, message in pairs {
    ["trn2, foo=1"] = "there is no 'foo'; there are base, sbuf_kib, psum_banks,",
    ["trn2, sbuf_kib=0"] = "sbuf_kib is 0; it is a whole number from 16 to 1024: KiB of a partition of SBUF",
    ["trn2, sbuf_kib=1025"] = "sbuf_kib is 1025",
    ["trn2, sbuf_kib=20.5"] = "sbuf_kib is 20.5; it is a whole number",
    ["trn2, sbuf_kib=99999999999999999999999"] = "sbuf_kib is 9999",
    ["trn2, dma_engines=17"] = "dma_engines is 17; it is a whole number from 1 to 16",
    ["trn2, psum_banks=9"] = "psum_banks is 9",
    ["trn2, pe_clock_ghz=2.8.1"] = "pe_clock_ghz is 2.8.1; it is a number from 0.1 to 100",
    ["trn2, pe_clock_ghz="] = "pe_clock_ghz is ;",
    ["trn2, pe_clock_ghz=18446744073711"] = "pe_clock_ghz is 18446744073711", -- 2^64 millionths and more
    ["trn2, pe_clock_ghz=-1"] = "pe_clock_ghz is -1",
    ["trn2, sbuf_kib=1, sbuf_kib=1"] = "sbuf_kib is 1",
    ["trn2, sbuf_kib=32, sbuf_kib=32"] = "sbuf_kib is given twice",
    ["sbuf_kib=384"] = "it begins with the target that it changes",
    ["trn2, trn3"] = "its base is trn2, and then trn3; it has one base",
    ["trn2, FOO=1"] = "there is no constant FOO",
    ["trn2, DMA_R_IN=0"] = "DMA_R_IN is 0, not a whole number from 1000",
    ["trn2, DMA_R_IN=1.5"] = "a constant of the clock is a whole number",
    ["trn9"] = "unknown target 'trn9'; there are: trn1, inf2, trn2, trn3",
    ["hypothetical"] = "unknown target 'hypothetical'",
    [""] = "unknown target ''", ["\1x"] = "unknown target '?x'",
    ["trn2" .. (", DMA_R_IN=20000"):rep(30)] = "what it changes takes more than",
  } do
    raises(message, soma.core, {target = text})
  end
  raises("no 'foo'", soma.kernel, {target = "trn2, foo=1"})
  raises("no 'foo'", soma.assemble, source, {target = "trn2, foo=1"})
  raises("no 'foo'", soma.assemble, source:gsub("trn2", "trn2, foo=1"), {})
end)

case("a program keeps its machine in source and in its file", function()
  local text = source:gsub("trn2", "trn2, dma_engines=8, DMA_R_IN=20000")
  local name = "hypothetical trn2, dma_engines=8, DMA_R_IN=20000"
  local p = soma.assemble(text, {})
  eq(p:target(), name)
  local time = soma.core {}:run(p, {x = x}).time_ns
  for _, again in ipairs {soma.load(p:bytes()), soma.assemble(p:source(), {})} do
    eq(again:target(), name)
    local core = soma.core {}
    eq(core:run(again, {x = x}).time_ns, time)
    eq(core.target, name)
  end
  eq(soma.load(p:bytes()):bytes(), p:bytes())
  raises("the program is for hypothetical trn2, dma_engines=8, DMA_R_IN=20000, but the machine is a trn2",
    function() soma.core {target = "trn2"}:run(p, {x = x}) end)
  raises("the program is for trn2, but the machine is a hypothetical trn2, sbuf_kib=384",
    function() soma.core {target = "trn2, sbuf_kib=384"}:run(soma.assemble(source, {}), {x = x}) end)
  -- the base in the text is what was asked for; another target is not
  eq(soma.assemble(source, {target = "trn2, sbuf_kib=384"}):target(), "hypothetical trn2, sbuf_kib=384")
  eq(soma.assemble(source, {target = "trn3, sbuf_kib=384"}):target(), "trn2")
end)

case("memories have the machine's sizes", function()
  local big = source:gsub("128, 512%]\nloaded", "128, 512], at=[0, 300 * 1024]\nloaded")
  raises("300", soma.assemble, big, {})
  eq(run("trn2, sbuf_kib=384", big).out.y:tolist(), run "trn2".out.y:tolist())
  local p = source:gsub("section sync", "u tile psum float32[128, 512]\nv tile psum float32[128, 512]\nsection sync")
  eq(pcall(soma.assemble, p, {target = "trn2, psum_banks=2"}), true)
  raises("`v`", soma.assemble, p, {target = "trn2, psum_banks=1"})
end)

case("a scatter far into a large partition is checked as everywhere", function()
  local function scatter(to)
    local text = [[
        target  trn3, sbuf_kib=1024
a       tensor  float32[32, 4], input
i       tensor  uint8[16, 1], input
b       tensor  float32[32, 8], output
src     tile    sbuf float32[32, 4]
idx     tile    sbuf uint8[16, 1]
dst     tile    sbuf float32[32, 8], at=[0, 1023 * 1024]
loaded  sem
done    sem
q       queue   dge=hwdge
section sync
        dma_copy  src, a, queue=q                 $loaded
        dma_copy  idx, i, queue=q                 $loaded
        dma_copy  b, dst, queue=q  $done>=1
        halt
section vector
        memset    dst, 0.0
        tensor_copy  dst.indirect(idx, 4), src  $loaded>=32  $done++
        halt
]]
    local a = soma.randn({32, 4}, "float32", {seed = 1})
    for n = #to + 1, 16 do to[n] = 0 end
    local r = soma.core {}:run(soma.assemble(text, {}), {a = a, i = soma.tensor(to, "uint8"):reshape {16, 1}})
    return a:tolist()[1], r.out.b:tolist()[1]
  end
  local a, b = scatter {1, 3, 5, 7}
  eq(b, {0.0, a[1], 0.0, a[2], 0.0, a[3], 0.0, a[4]})
  raises("element 2 of the destination coincides with an earlier one", scatter, {1, 3, 1, 7})
end)

case("kernels are built for it", function()
  local function build(target)
    local k = soma.kernel {target = target}
    local a = k:input("a", "float32", {128, 512})
    local b = k:output("b", "float32", {128, 512})
    local tile = k:load(a)
    k:store(b, k:exp(tile))
    return k:program()
  end
  local p = build "trn2, dma_engines=4"
  eq(p:target(), "hypothetical trn2, dma_engines=4")
  local r = soma.core {checks = "all"}:run(p, {a = x})
  eq(#r.findings, 0)
  eq(r.out.b:tolist(), soma.core {}:run(build "trn2", {a = x}).out.b:tolist())
end)

case("a run says so, and is saved and resumed with it", function()
  local target = "trn2, dma_engines=8, scalar_clock_ghz=2.4"
  local core = soma.core {target = target, trace = true}
  local p = soma.assemble(source, {target = target})
  local r = core:run(p, {x = x})
  local name = "hypothetical trn2, dma_engines=8, scalar_clock_ghz=2.4"
  eq(r:summary():match "machine%s+([^\n]*)", name)
  eq(r:summary():match ", 8 engines busy" ~= nil, true)
  eq(r:timeline(60):match ", on ([^\n]*)", name)
  local file = os.tmpname()
  for _, save in ipairs {"save_trace", "save_html"} do
    eq(r[save](r, file), true)
    eq(assert(io.open(file)):read "a":find('"target":"' .. name .. '"', 1, true) ~= nil, true)
  end
  os.remove(file)
  local half = soma.core {target = target}
  local s = half:start(p, {x = x})
  s:until_time(2000)
  local path = os.tmpname()
  eq(s:save(path), true)
  local other = soma.core {}
  local resumed = other:resume(path)
  os.remove(path)
  resumed:continue()
  eq(other.target, name)
  eq(resumed.time_ns, r.time_ns)
end)

case("a world of its ranks", function()
  local text = source:gsub("section scalar", "section gpsimd\n halt\nsection scalar")
  local w = soma.world {ranks = 2, target = "trn2, dma_engines=8"}
  local p = soma.assemble(text, {target = "trn2, dma_engines=8"})
  local runs = w:run(p, {x = x})
  eq(runs[1].out.y:tolist(), run "trn2".out.y:tolist())
  eq(runs[0].time_ns, soma.core {target = "trn2, dma_engines=8"}:run(p, {x = x}).time_ns)
end)

case("the manual has its keys", function()
  local f = assert(io.open "isa/target_keys.def")
  local manual = assert(io.open "isa/README.md"):read "a"
  local n = 0
  for key in f:read "a":gmatch "\nKEY%(([%w_]+)" do
    eq(manual:find("`" .. key .. "`", 1, true) ~= nil, true, key)
    n = n + 1
  end
  eq(n, 9)
end)

t.finish()
