-- Which legal pairs (instruction, type), (instruction, operator), (instruction, flag),
-- (instruction, engine) and (instruction, target) have run. A pair is legal when some case's program,
-- changed to it, still assembles; a legal pair that no case ran is a gap. So is an instruction with
-- fewer than four cases, or with none that must be refused.
local soma = require "soma"
local program = require "conform.program"
local M = {}

local LEAST = 4
local rows = {}
for _, row in ipairs(soma.isa.instructions) do rows[row.name] = row end
local aluops, actfns, dtypes = {}, {}, {}
local engines = {"tensor", "vector", "scalar", "gpsimd", "sync"}
for _, o in ipairs(soma.isa.aluops) do aluops[#aluops + 1] = o.name end
for _, o in ipairs(soma.isa.actfns) do actfns[#actfns + 1] = o.name end
for _, d in ipairs(soma.isa.dtypes) do dtypes[#dtypes + 1] = d.name end

local covered = {}  -- instruction -> "kind value" -> true
local operand_types = {} -- instruction -> type -> true: of its operands, not of an index of theirs
local examples = {} -- instruction -> list of {case, target, source}
local cases, refused = {}, {} -- instruction -> how many ran, were refused

local function cover(insn, key)
  covered[insn] = covered[insn] or {}
  covered[insn][key] = true
end

-- Keyword fields whose values are counted: field -> values.
local function keyword_values(field)
  if field.kind == "ALU" then return aluops end
  if field.kind == "ACTF" then return actfns end
  if field.kind == "ENUM" then return field.items end
end

-- What the canonical source has of a static transfer: `dma queue, operands`.
local function static_transfer(insn, line)
  local queue, rest = line:match("^dma ([%w_]+), (.*)")
  if not queue or queue == "io_" then return false end
  if rest:match("^dma_transpose ") then return insn == "dma_transpose" end
  if rest:find("dsts=", 1, true) then return insn == "dma_copy_lists" end
  return insn == (rest:find("srcs=", 1, true) and "dma_compute" or "dma_copy")
end

-- The text of each operand of a canonical line: split at the commas outside of brackets.
local function operands(line, insn)
  local list, depth, from = {}, 0, line:find(insn, 1, true) + #insn
  for i = from, #line do
    local ch = line:sub(i, i)
    if ch:find "[%[(]" then depth = depth + 1 elseif ch:find "[%])]" then depth = depth - 1 end
    if ch == "," and depth == 0 then
      list[#list + 1] = line:sub(from, i - 1)
      from = i + 1
    end
  end
  list[#list + 1] = line:sub(from)
  return list
end

-- Which of its fields a canonical line has as `.indirect`: positional ones come first, in order.
local function cover_indirect(row, line)
  local at = {}
  for _, f in ipairs(row.fields) do if f.mode == "positional" then at[#at + 1] = f.name end end
  for i, text in ipairs(operands(line, row.name)) do
    if text:find(".indirect(", 1, true) then
      cover(row.name, "indirect " .. (text:match("^%s*([%w_]+)=") or at[i]))
    end
  end
end

-- Lines of a program's canonical source that hold the instruction.
local function uses(insn, prog)
  local list = {}
  for line in prog:source():gmatch("[^\n]+") do
    if line:match("^%s*" .. insn .. "%s") or static_transfer(insn, line) then list[#list + 1] = line end
  end
  return list
end

-- Whether the instruction has an operand with a type.
local function is_typed(row)
  for _, f in ipairs(row.fields) do
    if f.kind == "AP" or f.kind == "APS" then return true end
  end
  return false
end

function M.ran(case, target, source, prog)
  local insn = case.insn
  if case.source then return end
  cover(insn, "target " .. target)
  if case.engine then cover(insn, "engine " .. case.engine) end
  if not examples[insn] or examples[insn][#examples[insn]].case ~= case then
    cases[insn] = (cases[insn] or 0) + 1
  end
  for _, line in ipairs(uses(insn, prog or soma.assemble(source))) do
    if line:find(".indirect(", 1, true) then cover_indirect(rows[insn], line) end
    for dtype in line:gmatch("([%w_]+)@") do cover(insn, "type " .. dtype) end
    operand_types[insn] = operand_types[insn] or {}
    for dtype in line:gsub("%.indirect%b()", ""):gmatch("([%w_]+)@") do operand_types[insn][dtype] = true end
    for _, f in ipairs(rows[insn].fields) do
      local values = keyword_values(f)
      if values then
        local value = line:match("[ ,]" .. f.name .. "=([%w_]+)")
        cover(insn, f.name .. " " .. (value or values[1]))
      end
    end
  end
  examples[insn] = examples[insn] or {}
  table.insert(examples[insn], {case = case, target = target, source = source})
end

function M.refused(case) refused[case.insn] = (refused[case.insn] or 0) + 1 end

-- The examples' programs with a gap where a value is to be tried, as the pieces between the gaps. Many
-- examples differ in that value alone: such programs are tried once.
local GAP <const> = "\1"
local tried = {} -- "instruction what" -> list of pieces
local function with_gaps(insn, what, build)
  local key = insn .. " " .. what
  if not tried[key] then
    local list, seen = {}, {}
    for _, e in ipairs(examples[insn]) do
      local source = build(e)
      if source and not seen[source] then
        local pieces = {}
        for piece in (source .. GAP):gmatch("([^" .. GAP .. "]*)" .. GAP) do pieces[#pieces + 1] = piece end
        seen[source], list[#list + 1] = true, pieces
      end
    end
    tried[key] = list
  end
  return tried[key]
end

-- Does some of these programs assemble with the value in its gaps?
local function accepted(programs, value)
  for _, pieces in ipairs(programs) do
    if pcall(soma.assemble, table.concat(pieces, value)) then return true end
  end
  return false
end

-- Does some example assemble with every operand's type changed to dtype?
local function type_is_legal(insn, dtype)
  return accepted(with_gaps(insn, "type", function(e)
    if e.case.no_probe then return end
    local used = {}
    for _, t in pairs(e.case.inputs or {}) do used[t.dtype] = GAP end
    for _, o in pairs(e.case.outputs or {}) do used[o[1]] = GAP end
    for _, o in pairs(e.case.tiles or {}) do used[o[1]] = GAP end
    return (program.build(e.case, e.target, used))
  end), dtype)
end

-- The source with field=value in every use of the instruction.
local function with_value(source, insn, field, value)
  return (source:gsub("[^\n]+", function(line)
    if not line:match("^%s*" .. insn .. "%s") or line:find("queue=io_", 1, true) then return end
    local text, n = line:gsub("([ ,]" .. field .. "=)[%w_]+", "%1" .. value)
    if n > 0 then return text end
    local operands, clauses = line:match("^(.-)(%s*%$.*)$")
    return string.format("%s, %s=%s%s", operands or line, field, value, clauses or "")
  end))
end

-- Does some example assemble with that value of the field?
local function value_is_legal(insn, field, value)
  return accepted(with_gaps(insn, field, function(e) return with_value(e.source, insn, field, GAP) end), value)
end

-- Does some example assemble on another engine?
local function engine_is_legal(insn, engine)
  return accepted(with_gaps(insn, "engine " .. engine, function(e)
    return type(e.case.body) == "string" and (program.build(e.case, e.target, nil, engine)) or nil
  end), "")
end

function M.gaps()
  local gaps = {}
  local function need(insn, key, legal)
    if not (covered[insn] and covered[insn][key]) and legal() then
      gaps[#gaps + 1] = "no case runs " .. insn .. " with " .. key
    end
  end
  for _, row in ipairs(soma.isa.instructions) do
    local insn = row.name
    if row.status == "done" and insn ~= "halt" then -- with which every section ends
      if not examples[insn] then
        gaps[#gaps + 1] = insn .. " is DONE in isa/opcodes.def and has no case in tests/conform"
      else
        for _, t in ipairs(soma.isa.targets) do
          need(insn, "target " .. t.name, function() return t.gen >= row.gen end)
        end
        for _, d in ipairs(is_typed(row) and dtypes or {}) do
          need(insn, "type " .. d, function() return type_is_legal(insn, d) end)
        end
        for _, e in ipairs(engines) do
          need(insn, "engine " .. e, function() return engine_is_legal(insn, e) end)
        end
        if cases[insn] < LEAST then
          gaps[#gaps + 1] = string.format("only %d cases run %s: at least %d", cases[insn], insn, LEAST)
        end
        if not refused[insn] then gaps[#gaps + 1] = "no case has " .. insn .. " refused" end
        for _, f in ipairs(row.fields) do
          if f.indirect then need(insn, "indirect " .. f.name, function() return true end) end
          for _, v in ipairs(keyword_values(f) or {}) do
            need(insn, f.name .. " " .. v, function() return value_is_legal(insn, f.name, v) end)
          end
        end
      end
    end
  end
  return gaps
end

-- The manual's types against those that have run, which are those that the verifier takes: a type
-- that the manual names has run, and where it has names alone, no other type has.
function M.manual()
  local wrong = {}
  for _, row in ipairs(soma.isa.instructions) do
    local text, ran = row.types, operand_types[row.name]
    if text and ran and row.status == "done" and row.number >= 0x80 then
      local named, open = {}, false
      for word in text:gsub("any but packed", "any but"):gmatch "[%w_]+" do
        named[word] = true
        open = open or word == "any" or word == "as" or word == "of" or word == "integers"
      end
      for _, d in ipairs(dtypes) do
        if named[d] and not ran[d] and not text:find("but [^;]*" .. d) then
          wrong[#wrong + 1] = "the manual gives " .. row.name .. " the type " .. d .. ", which no case runs"
        elseif not named[d] and not open and ran[d] then
          wrong[#wrong + 1] = "the manual does not give " .. row.name .. " the type " .. d .. ", which a case runs"
        end
      end
    end
  end
  return wrong
end

function M.summary()
  local pairs_run, insns = 0, 0
  for _, set in pairs(covered) do
    insns = insns + 1
    for _ in pairs(set) do pairs_run = pairs_run + 1 end
  end
  return string.format("coverage: %d instructions, %d pairs with a type, operator, flag, engine or target", insns, pairs_run)
end

return M
