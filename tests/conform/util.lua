-- What the case files share.
local soma = require "soma"
local ref = require "conform.ref"
local M = {}

-- f over lists, element by element.
function M.map(f, ...)
  local lists, out = {...}, {}
  for i = 1, #lists[1] do
    local args = {}
    for k = 1, #lists do args[k] = lists[k][i] end
    out[i] = f(table.unpack(args))
  end
  return out
end

-- A table's fields in another one.
function M.copy(t)
  local c = {}
  for k, v in pairs(t) do c[k] = v end
  return c
end

-- Names of the targets of a generation and later ones.
function M.since(gen)
  local list = {}
  for _, t in ipairs(soma.isa.targets) do if t.gen >= gen then list[#list + 1] = t.name end end
  return list
end

-- Rows of a list of P * F numbers.
function M.row(list, p, f) return {table.unpack(list, p * f + 1, (p + 1) * f)} end

-- Type k and another one, for mixing.
function M.types(k) return ref.types[(k - 1) % #ref.types + 1], ref.types[(k + 3) % #ref.types + 1] end

-- A refusal as a row: instruction, engine, tiles, line, part of the message, and the first generation
-- where the rest of the line is legal (2), or a list of targets. extra: lines before the sections.
function M.refused(suite, row, extra)
  local insn, engine, decl, line, text, gen, targets = table.unpack(row)
  local tiles, psum, part = {}, {}, {}
  for name, dtype, shape, rest in decl:gmatch("(%w+) ([%w_]+)%[([%d,]+)%]([^;]*);") do
    local s = {}
    for d in shape:gmatch("%d+") do s[#s + 1] = math.tointeger(tonumber(d)) end
    tiles[name], psum[name], part[name] = {dtype, s}, rest:find("psum") and true or nil, rest:match("part=(.*)")
  end
  suite:case {
    insn = insn, name = "refused: " .. line .. " on " .. engine, engine = engine, targets = targets or M.since(gen or 2),
    tiles = tiles, psum = psum, part = part, extra = (extra or "") .. (line:find("=h_") and "\nh_ queue dge=hwdge" or ""),
    body = " " .. line, refuse = text,
  }
end

return M
