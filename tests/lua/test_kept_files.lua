-- Files that were written before still load: tests/data/sbc keeps a program and two objects of each
-- version of the format.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq

case("a program of version 1", function()
  local program = soma.load "tests/data/sbc/version1.sbc"
  local x = soma.randn({128, 4}, "float32", {seed = 1})
  eq(soma.equal(soma.core {}:run(program, {x = x}).out.y, x * 2), true)
end)

case("objects of version 1, which do not say where their names are declared", function()
  local build, out = os.getenv "BUILD" or "build", os.tmpname()
  local objects = "tests/data/sbc/version1_x.o tests/data/sbc/version1_there.o"
  eq(os.execute(("'%s/soma-as' -o '%s' %s"):format(build, out, objects)), true)
  eq(soma.load(out):source():match "jmp [^\n;]*", "jmp there")
  os.remove(out)
end)

case("a file of another program that has the name of a temporary one stays", function()
  local build, dir = os.getenv "BUILD" or "build", os.tmpname()
  os.remove(dir)
  local shell = [[mkdir '%s' && cd '%s' && printf 'section sync\n halt\n' >x.s &&
    sh -c 'echo mine >x.sbc.$$.tmp; echo mine >x.sbc.$$.0.tmp; exec "$0" -o x.sbc x.s' "$OLDPWD/%s/soma-as" &&
    test -s x.sbc && test "$(cat x.sbc.*.0.tmp)" = mine && test "$(ls | wc -l)" = 4]]
  if build:sub(1, 1) == "/" then shell = shell:gsub("%$OLDPWD/", "") end
  eq(os.execute(shell:format(dir, dir, build)), true)
  os.execute(("rm -r '%s'"):format(dir))
end)

t.finish()
