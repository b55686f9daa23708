-- From a case to a program: loads the inputs into tiles, runs the body on its engine, stores the
-- outputs. These transfers are static, on the queue io_ of sync, so every generation can run them;
-- a body has the static queue q_.
--
-- A case: insn, name, engine, body (lines of assembly; or {engine = lines} for several), and
--   inputs   {name = tensor}        loaded into a tile of that name, shape and type
--   outputs  {name = {dtype, shape}} tiles that are stored at the end, zero before
--   tiles    {name = {dtype, shape}} further tiles
--   psum     {name = true}           which of them lie in PSUM
--   part     {name = n}              start partition; 0
--   hbm      {name = true}           inputs and outputs that stay tensors, for DMA cases
--   expect   {name = tensor}, or a function of the target giving that; or refuse = "text" of
--            what assembles to nothing, or fault = "text" of what assembles and fails when it runs
--   targets  {"trn1", ...}           default: every target of the instruction's generation on
--   ulp      outputs may be that many units in the last place off; default exact
--   custom   {name = options}        operators that core:custom registers for it
--   extra    further lines before the sections (queues, tensors, equ)
--   cores    2: the body runs on both cores. The first dimension of inputs, outputs and expect is then
--            the core; a tile has the others
--   ranks    how many: the program runs on all of a world. The first dimension of inputs, outputs and expect is
--            then the rank, before the core's. body: the same of all, or a function of the rank. A section of a
--            CC sequencer (`{gpsimd = lines, cc0 = lines}`) stands as it is
--   algorithm  of a world's collectives; default by size
-- or a whole program: insn = "kernel", source = text without a target line, inputs, expect, and
--   rtol, atol  what the outputs may be off by; default exact
local soma = require "soma"
local M = {}

local rows = {}
for _, row in ipairs(soma.isa.instructions) do rows[row.name] = row end

function M.output_name(name) return "out_" .. name end

function M.targets(case)
  if case.targets then return case.targets end
  local row = rows[case.insn]
  if not (row or case.source) then error(case.insn .. " has cases and no row in isa/opcodes.def", 0) end
  local list, gen = {}, case.source and 2 or row.gen
  for _, t in ipairs(soma.isa.targets) do
    if t.gen >= gen then list[#list + 1] = t.name end
  end
  return list
end

local function sorted(t)
  local keys = {}
  for k in pairs(t or {}) do keys[#keys + 1] = k end
  table.sort(keys)
  return keys
end

local function type_text(dtype, shape) return dtype .. "[" .. table.concat(shape, ", ") .. "]" end

local function shape_of(t)
  local s = {}
  for i = 1, #t.shape do s[i] = t.shape[i] end
  return s
end

local function kernel(case, target)
  local inputs = {}
  for name, t in pairs(case.inputs) do inputs["in_" .. name] = t end
  return string.format(" target %s\n%s", target, case.source), inputs
end

-- The program's text and the table of its inputs. Coverage probes change it: retype maps a type to
-- another, engine replaces the case's. rank: whose program, 0 if not given.
function M.build(case, target, retype, engine, rank)
  if case.source then return kernel(case, target) end
  local lines, inputs = {}, {}
  local sync, first, before, after = {}, {}, {}, {}
  local function add(...) lines[#lines + 1] = string.format(...) end
  local function ty(d) return retype and retype[d] or d end
  local psum, part, hbm = case.psum or {}, case.part or {}, case.hbm or {}
  local loads, moves, backs = 0, 0, 0
  local both = case.cores and " core=*" or ""
  local function here(shape) return case.ranks and {table.unpack(shape, 2)} or shape end -- of the rank
  local function own(shape) return case.cores and {table.unpack(here(shape), 2)} or here(shape) end
  local slice = case.cores and "[CORE]" or ""
  local function tile(name, dtype, shape)
    add("%s tile %s %s%s", name, psum[name] and "psum" or "sbuf", type_text(ty(dtype), shape),
      part[name] and ", part=" .. part[name] or "")
    if psum[name] then add("%s_s tile sbuf %s%s", name, type_text(ty(dtype), shape),
      part[name] and ", part=" .. part[name] or "") end
  end
  add("target %s", target)
  for _, name in ipairs(sorted(case.inputs)) do
    local t = case.inputs[name]
    add("in_%s tensor %s, input", name, type_text(ty(t.dtype), here(shape_of(t))))
    inputs["in_" .. name] = t
    if not hbm[name] then
      tile(name, t.dtype, own(shape_of(t)))
      loads = loads + 16
      sync[#sync + 1] = string.format(" dma_copy %s, in_%s%s, queue=io_ $l_", psum[name] and name .. "_s" or name, name, slice)
      if psum[name] then
        moves = moves + 1
        before[#before + 1] = string.format(" tensor_copy %s, %s_s $m_++", name, name)
      end
    end
  end
  for _, name in ipairs(sorted(case.outputs)) do
    local dtype, shape = table.unpack(case.outputs[name])
    add("%s tensor %s, output", M.output_name(name), type_text(ty(dtype), here(shape)))
    if not hbm[name] then
      if not (case.inputs or {})[name] then tile(name, dtype, own(shape)) end
      if psum[name] then
        backs = backs + 1
        after[#after + 1] = string.format(" tensor_copy %s_s, %s $k_++", name, name)
      end
      first[#first + 1] = string.format(" dma_copy %s%s, %s, queue=io_", M.output_name(name), slice, psum[name] and name .. "_s" or name)
    end
  end
  for _, name in ipairs(sorted(case.tiles)) do tile(name, table.unpack(case.tiles[name])) end
  for _, sem in ipairs {"l_", "m_", "b_", "k_"} do add("%s sem%s", sem, both) end
  for _, queue in ipairs {"io_", "q_"} do add("%s queue dge=none%s", queue, case.cores and ", core=*" or "") end
  if case.extra then add("%s", case.extra) end
  local body = case.body
  if type(body) == "function" then body = body(rank or 0) end
  local bodies = type(body) == "table" and body or {[engine or case.engine] = body}
  local sections, count, blocks = {}, 0, {}
  for engine, body in pairs(bodies) do
    if engine:find "^cc" then blocks[#blocks + 1] = string.format("section %s%s\n%s", engine, both, body) goto next end
    count = count + 1
    sections[engine] = string.format(" nop $l_>=%d\n nop $m_>=%d\n%s\n drain\n nop $b_++\n", loads, moves, body)
    ::next::
  end
  local vector = sections.vector or ""
  if #before > 0 then vector = string.format(" nop $l_>=%d\n%s\n", loads, table.concat(before, "\n")) .. vector end
  if #after > 0 then vector = vector .. string.format(" nop $b_>=%d\n%s\n", count, table.concat(after, "\n")) end
  if vector ~= "" then sections.vector = vector end
  local load = table.concat(sync, "\n") .. "\n"
  sections.sync = load .. (sections.sync or "") ..
    string.format(" nop $b_>=%d\n nop $k_>=%d\n", count, backs) .. table.concat(first, "\n") .. "\n"
  for _, engine in ipairs {"tensor", "vector", "scalar", "gpsimd", "sync"} do
    if sections[engine] then add("section %s%s\n%s halt", engine, both, sections[engine]) end
  end
  table.sort(blocks)
  for _, block in ipairs(blocks) do add("%s", block) end
  return table.concat(lines, "\n") .. "\n", inputs
end

return M
