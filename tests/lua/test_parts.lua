-- Which operands an instruction reads in part: the flags of forms.def against what it does. In the
-- cases of the conformance suite single elements of an operand are changed. Of an operand without a
-- flag some case must depend on each of them; else `uninit` would report what is never read.
local t = require "harness"
local soma = require "soma"
local program = require "conform.program"

local SAMPLES, CASES = 9, 64
-- Read whole, though results do not show it: a search ends at its first hit, chance drops elements.
local untold = {find_index8 = true, dropout = true}
local sizes = {}
for _, d in ipairs(soma.isa.dtypes) do sizes[d.name] = d.bytes end

local cases, list = {}, {}
for _, file in ipairs(require "conform.files") do
  require("conform." .. file) {case = function(_, c)
    if c.source or c.refuse or c.fault or c.custom or type(c.body) ~= "string" then return end
    if not cases[c.insn] then cases[c.insn], list[#list + 1] = {}, c.insn end
    table.insert(cases[c.insn], c)
  end}
end
table.sort(list)

-- The text of each operand of the only line of a body with that instruction, by field.
local function operands(case, fields)
  local line, again = case.body:match("%f[%w_]" .. case.insn .. "%s+([^\n;$]*)(.*)")
  if not line or again:find("%f[%w_]" .. case.insn .. "%f[^%w_]") then return {} end
  local found, at, depth, text = {}, 0, 0, ""
  local function add()
    local name, value = text:match("^%s*([%w_]+)%s*=%s*(.-)%s*$")
    at = name and at or at + 1
    found[name or fields[at] and fields[at].name or at] = value or text:match("^%s*(.-)%s*$")
  end
  for ch in line:gmatch "." do
    if ch:find "[%[(]" then depth = depth + 1 elseif ch:find "[%])]" then depth = depth - 1 end
    if ch == "," and depth == 0 then add() text = "" else text = text .. ch end
  end
  add()
  return found
end

local function result(case, target, inputs)
  local ok, out = pcall(function()
    local source = program.build(case, target)
    local names, all = {}, {}
    local core = soma.core {print = function(...) all[#all + 1] = table.concat({...}, " ") end}
    local run = core:run(soma.assemble(source, {name = "case.s"}), inputs)
    for k in pairs(run.out) do names[#names + 1] = k end
    table.sort(names)
    for _, k in ipairs(names) do all[#all + 1] = run.out[k]:bytes() end
    return table.concat(all, "|")
  end)
  return tostring(out), ok
end

-- An element with other bits: all 0, all 1, another exponent, another sign, another last bit.
local changes = {
  function(e) return ("\0"):rep(#e) end,
  function(e) return ("\255"):rep(#e) end,
  function(e) return e:sub(1, -2) .. string.char(e:byte(-1) ~ 0x40) end,
  function(e) return e:sub(1, -2) .. string.char(e:byte(-1) ~ 0x80) end,
  function(e) return string.char(e:byte(1) ~ 1) .. e:sub(2) end,
}

-- Whether the case depends on each of some elements of that input; nil: it does not run.
local function reads_all(case, target, name)
  local _, inputs = program.build(case, target)
  local tensor = inputs["in_" .. name]
  local bytes, size = tensor:bytes(), sizes[tensor.dtype]
  local n = #bytes // size
  local before, ran = result(case, target, inputs)
  if not ran or n == 0 then return nil end
  for k = 0, SAMPLES - 1 do
    local at = (k * (n - 1) // math.max(SAMPLES - 1, 1)) * size
    local element, seen = bytes:sub(at + 1, at + size), false
    for _, change in ipairs(changes) do
      local other = change(element)
      if other ~= element and not seen then
        local shape = {}
        for i = 1, #tensor.shape do shape[i] = tensor.shape[i] end
        local copy = {}
        for key, value in pairs(inputs) do copy[key] = value end
        copy["in_" .. name] = soma.frombytes(bytes:sub(1, at) .. other .. bytes:sub(at + size + 1), tensor.dtype, shape)
        seen = result(case, target, copy) ~= before
      end
    end
    if not seen then return false end
  end
  return true
end

local rows = {}
for _, row in ipairs(soma.isa.instructions) do rows[row.name] = row end
local looked, parts = 0, 0
for _, insn in ipairs(list) do
  local row = rows[insn]
  for _, field in ipairs(row and row.fields or {}) do
    if field.kind == "AP" and field.reads and not untold[insn] then
      local tried, whole, part = 0, 0, 0
      for _, case in ipairs(cases[insn]) do
        local used = operands(case, row.fields)
        local name, times = used[field.name], 0
        for _, text in pairs(used) do times = times + (text == name and 1 or 0) end
        local known = name and (case.inputs or {})[name] and not (case.hbm or {})[name] and times == 1
        local settled = field.in_part and part > 0 or not field.in_part and whole > 0
        if known and tried < CASES and not settled then
          local all = reads_all(case, program.targets(case)[1], name)
          tried = tried + (all ~= nil and 1 or 0)
          whole, part = whole + (all == true and 1 or 0), part + (all == false and 1 or 0)
        end
      end
      looked = looked + (tried > 0 and 1 or 0)
      parts = parts + (field.in_part and part > 0 and 1 or 0)
      t.case(insn .. " " .. field.name, function()
        if tried > 0 and not field.in_part and whole == 0 then
          error(("each of %d cases leaves some of it unread: its field in forms.def needs a flag that says which")
            :format(tried), 0)
        end
      end)
    end
  end
end
t.case("operands that were looked at", function() assert(looked >= 30, looked) end)
t.case("operands that some case reads in part", function() assert(parts >= 6, parts) end)
t.finish()
