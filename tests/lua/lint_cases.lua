-- Cases of the static checks. A case's text is line 2 and on of l.s.
local soma = require "soma"
local harness = require "harness"

local cases = {}

-- The findings of a text, without the file's name, in order; and their number.
function cases.lint(text)
  local found, n = soma.assemble("target trn2\n" .. text, {name = "l.s"}):lint()
  local list = {}
  for line in (found or ""):gmatch "[^\n]+" do list[#list + 1] = (line:gsub("^l%.s:", "")) end
  return list, n
end

-- The whole findings of a text are these.
function cases.finds(name, text, ...)
  local want = {...}
  harness.case(name, function() harness.eq((cases.lint(text)), want) end)
end

return cases
