-- Functions whose text is loaded when they are first called: the first call is like any other.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq

local prog = soma.assemble("\ttarget trn2\nsection sync\n\thalt\n", {name = "p.s"})
local function told(f, ...)
  local ok, message = pcall(f, ...)
  eq(ok, false)
  return message
end

case("an error of the first call names the caller's line, as one of the second does", function()
  local run = soma.core {}:start(prog)
  local calls = {
    {function() soma.jit(1) end, "jit takes a function of a kernel and its arguments"},
    {function() soma.sweep {x = 1} end, "sweep: unknown option 'x'; it takes: .*"},
    {function() run:until_line("p.s", 90) end, "until_line: no instruction comes from p.s:90"},
    {function() run:debug {x = 1} end, "debug: unknown option 'x'; it takes: adapter, print, read, script, sources"},
  }
  for _, c in ipairs(calls) do
    local line = debug.getinfo(c[1], "S").linedefined
    for _ = 1, 2 do
      local file, at, text = told(c[1]):match "^(.-):(%d+): (.*)$"
      eq({file, tonumber(at)}, {"tests/lua/test_first_use.lua", line})
      eq(text:match("^" .. c[2] .. "$"), text)
    end
  end
end)

case("afterwards the function itself stands in the module", function()
  local jit = soma.jit
  eq(debug.getinfo(jit, "S").short_src, "soma.kernel")
  eq(debug.getinfo(soma.sweep, "S").short_src, "soma.sweep")
end)

t.finish()
