-- Tiles that own their bytes, by the checks that look at them alone.
local soma = require "soma"
local harness = require "harness"
local bed = require "check_bed"
local case, eq = harness.case, harness.eq

local function finds(name, checks, body, text)
  case(name, function()
    local prog, inputs = bed.assemble(body)
    local r = soma.core {checks = checks, max_instructions = 100000}:run(prog, inputs, {faults = "return"})
    local first = r.findings[1] and r.findings[1].text
    if not text then return eq(first, nil) end
    eq(first and first:find(text, 1, true) and text or first, text)
    harness.same_findings(r, harness.in_parts({checks = checks, max_instructions = 100000}, prog, inputs))
  end)
end

-- Bytes 0..127 of o1 are given away while its last reader is at the others.
local given = [=[
o1 tile sbuf float32[128, 64], overlay=g, own
o2 tile sbuf float32[128, 32], overlay=g, own
m tile sbuf uint32[128, 32]
vector: memset o1, 1.0 $loaded++; memset o2, 2.0; %s
sync: dma_copy c[:, 0:8], o1[:, %s], queue=q $loaded>=1 $go
]=]
for _, checks in ipairs {"overlap", "uninit", "overlap,uninit"} do
  local check = checks:match "uninit" or "overlap"
  finds("bytes given away while the rest is read, " .. checks, checks, given:format("tensor_copy ta[:, 0:32], o1[:, 32:64]", "32:40"))
  finds("bytes that were given away, " .. checks, checks, given:format("tensor_copy ta[:, 0:32], o1[:, 31:63]", "32:40"),
    check .. ": vector reads bytes that tile o2 has written, through a tile that is `own`")
  finds("bytes of it that stay, strided, " .. checks, checks,
    given:format("tensor_tensor ta[:, 0:32], o1[:, 32:64], o2, op=add", "56:64"))
  finds("a transfer of bytes that were given away, " .. checks, checks,
    (given:gsub("$loaded>=1", "$done>=1")):format("nop; tensor_copy ta[:, 0:8], o1[:, 40:48] $done++", "28:36"),
    check .. ": a transfer of queue q reads bytes that tile o2 has written")
  finds("what it chooses from bytes that were given away, " .. checks, checks, given:format(
    "memset m, 1; memset ta[:, 0:32], 0.0; copy_predicated ta[:, 0:32], src=o1[:, 0:32], pred=m", "32:40"),
    check .. ": vector reads bytes that were written through another tile")
end
finds("a tile of its own that nothing has written", "uninit", given:format("nop", "32:40"):gsub("memset o1, 1.0 $loaded", "nop $loaded"),
  "uninit: a transfer of queue q reads bytes that nothing has written since load")

-- Both tiles are read, and written again: by an engine, by a transfer, in part.
local turns = [=[
o1 tile sbuf float32[128, 64], overlay=g, own
o2 tile sbuf float32[128, 32], overlay=g, own
vector: memset o1, 1.0; tensor_copy ta[:, 0:64], o1; %s
%s
]=]
local other = "uninit: vector reads bytes that tile o2 has written, through a tile that is `own`"
for _, c in ipairs {
  {"right: one after the other", "memset o2, 2.0; tensor_copy ta[:, 0:32], o2; memset o1, 1.0; tensor_copy ta[:, 0:64], o1"},
  {"read again, after the other", "memset o2, 2.0; tensor_copy ta[:, 0:32], o2; tensor_copy ta[:, 0:64], o1", "", other},
  {"read again, after a part of the other", "memset o2[64:128, 3:5], 2.0; tensor_copy ta[:, 0:64], o1", "", other},
  {"right: the part that the other has left", "memset o2[64:128, 3:5], 2.0; tensor_copy ta[:, 0:59], o1[:, 5:64]; tensor_copy ta[0:64, 0:64], o1[0:64, :]"},
  {"read again, after every second of the other", "memset o2[:, 0:32:2], 2.0; tensor_copy ta[:, 0:64], o1", "", other},
  {"read again, after a transfer to the other", "nop $done++; tensor_copy ta[:, 0:64], o1 $loaded>=16",
    "sync: dma_copy o2, a[:, 0:32], queue=q $done>=1 $loaded", other},
  {"right: a transfer to it again", "memset o2, 2.0 $done++; tensor_copy ta[:, 0:64], o1 $loaded>=16",
    "sync: dma_copy o1, a[:, 0:64], queue=q $done>=1 $loaded"},
} do
  finds(c[1], "uninit", turns:format(c[2], c[3] or ""), c[4])
end
harness.finish()
