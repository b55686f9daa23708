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

return M
