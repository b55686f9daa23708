-- The journal of soma.sweep: an interrupted sweep goes on where it stood, another one is refused.
local soma = require "soma"
local t = require "harness"
local case, eq, raises, slurp = t.case, t.eq, t.raises, t.read

local function spill(path, text)
  local f <close> = assert(io.open(path, "wb"))
  f:write(text)
end

-- The texts of lines without their sums, and a line with its sum (FNV-1a, 64 bits).
local function bare(line) return (line:gsub(',"sum":"%x+"}', "}")) end
local function summed(text)
  local h = 0xcbf29ce484222325
  for i = 1, #text do h = (h ~ text:byte(i)) * 0x100000001b3 end
  return ('%s,"sum":"%016x"}\n'):format(text:sub(1, -2), h)
end

local odd = {0.1, -0.0, 1 / 0, -1 / 0, 0 / 0, 5e-324, math.maxinteger, 3, 3.0, true, false, "", "a\0b\n\xff", "\u{fc}"}
local function sweep(path, over, run)
  return soma.sweep {over = over or {{"n", 1, 2, 3, 4}}, journal = path, jobs = 2, run = run or function(v)
    return {square = v.n * v.n, odd = odd[v.n]}
  end}
end

case("what is finished is not done again, to the bit", function()
  local path = t.temp()
  os.remove(path)
  local over = {{"n"}}
  for n = 1, #odd do over[1][n + 1] = n end
  local first = sweep(path, over)
  local function never() error("done again", 0) end
  local again = sweep(path, over, never)
  eq(again:csv(), first:csv()) eq(tostring(again), tostring(first))
  for n, v in ipairs(odd) do
    eq(math.type(again.rows[n].odd), math.type(v)) eq(string.format("%q", again.rows[n].odd), string.format("%q", v))
  end
  -- Three rows are lost, one in the middle of its line: these alone are done again.
  local lines = {}
  for line in slurp(path):gmatch "[^\n]+\n" do lines[#lines + 1] = line end
  eq(#lines, 1 + #odd)
  local lost = {}
  for i = #lines - 2, #lines do lost[tonumber(lines[i]:match '"variant":(%d+),"sum"')] = true end
  spill(path, table.concat(lines, "", 1, #lines - 3) .. lines[#lines - 2]:sub(1, -5))
  local third = sweep(path, over, function(v)
    if not lost[v.n] then error("done again", 0) end
    return {square = v.n * v.n, odd = odd[v.n]}
  end)
  eq(third:csv(), first:csv()) eq(#slurp(path), #table.concat(lines))
  os.remove(path)
end)

case("a sweep that is killed leaves whole rows, and goes on", function()
  local path, script = t.temp(), t.temp() .. ".lua"
  os.remove(path)
  spill(script, [[local soma = require "soma"
    print(soma.sweep {over = {{"n", 1, 2, 3, 4, 5, 6}}, jobs = 1, journal = arg[1], run = function(v)
      print("variant " .. v.n)
      if v.n == 4 and arg[2] then os.execute("kill -9 " .. io.open("/proc/self/stat"):read("a"):match "%) %a (%d+)") end
      return {square = v.n ^ 2}
    end})]])
  local command = "./" .. (os.getenv "BUILD" or "build") .. "/soma " .. script .. " "
  local function output(arguments)
    local p <close> = io.popen(command .. arguments .. " 2>/dev/null")
    return p:read("a")
  end
  local other = t.temp()
  os.remove(other)
  local whole = output(other)
  output(path .. " kill") -- the process that sweeps is killed by its fourth variant
  local _, rows = slurp(path):gsub("\n", "")
  eq(rows, 4)
  eq(output(path), whole)
  for _, p in ipairs {path, script, other} do os.remove(p) end
end)

case("another sweep is refused with what differs", function()
  local path = t.temp()
  os.remove(path)
  sweep(path)
  local function refused(text, over, run)
    local before = slurp(path)
    raises(text, sweep, path, over, run)
    eq(slurp(path), before)
  end
  refused("it has 4 variants, but the sweep has 3", {{"n", 1, 2, 3}})
  refused("in its variant 2 n is 2, but in the sweep's 5", {{"n", 1, 5, 3, 4}})
  refused("n is 1, but in the sweep's 1.0", {{"n", 1.0, 2, 3, 4}})
  refused("m is absent, but in the sweep's \"x\"", {{"n", 1, 2, 3, 4}, {"m", "x"}})
  local head, rest = slurp(path):match "^([^\n]*)\n(.*)$"
  head = bare(head)
  eq(summed(head) .. rest, slurp(path))
  spill(path, summed((head:gsub('"text":%-?%d+', '"text":1', 1))) .. rest)
  refused("has changed since the journal was begun")
  for _, line in ipairs {head .. "\n", summed(head)} do
    spill(path, (line:gsub('"version":2', '"version":1', 1)) .. rest)
    refused("it has version 1, but this Soma reads version 2")
  end
  spill(path, "hello\n")
  refused("line 1 is not that of a journal")
  spill(path, summed(head) .. summed '{"variant":9,"row":{},"printed":""}')
  refused("line 2 is not a row of a journal")
  os.remove(path)
  raises("journal /nowhere/sweep.jsonl: ", sweep, "/nowhere/sweep.jsonl")
end)

case("no journal that is damaged gives other values", function()
  local path = t.temp()
  os.remove(path)
  local want = sweep(path):csv()
  local good = slurp(path)
  local refused, same, seed = 0, 0, 9
  for _ = 1, 400 do
    seed = seed * 6364136223846793005 + 1442695040888963407
    local at, bit = (seed >> 33) % #good + 1, 1 << (seed >> 20) % 8
    local text = good:sub(1, at - 1) .. string.char(good:byte(at) ~ bit) .. good:sub(at + 1)
    spill(path, text)
    local ok, result = pcall(sweep, path)
    if ok then
      eq(result:csv(), want)
      same = same + 1
    else
      eq(result:find("journal " .. path .. ": ", 1, true) ~= nil, true)
      eq(slurp(path), text) -- nothing is lost by it
      refused = refused + 1
    end
  end
  eq(refused > 390, true) eq(same, 400 - refused) -- the last newline: the line counts as incomplete
  os.remove(path)
end)

case("a program that has changed is refused with its variant", function()
  local path, source = t.temp(), t.temp() .. ".s"
  os.remove(path)
  local text = "target trn2\nsection vector\n%rep N\nnop\n%endrep\n%ifn N - 2\nnop\n%endif\nhalt\n"
  local function run() return soma.sweep {over = {{"N", 1, 2, 3}}, program = source, journal = path} end
  spill(source, text)
  local first = run()
  eq(run():csv(), first:csv())
  spill(source, (text:gsub("%%ifn N %- 2\nnop", "%%ifn N - 2\ndrain")))
  raises("the program of variant 2 has changed since the journal was begun", run)
  spill(source, text)
  -- A sweep whose programs are not known says nothing of them.
  local head, rest = slurp(path):match "^([^\n]*)\n(.*)$"
  spill(path, summed((bare(head):gsub('"programs":%b[],', "", 1))) .. rest)
  eq(run():csv(), first:csv())
  os.remove(path)
  os.remove(source)
end)

case("a variant that is killed is begun once more", function()
  local once = t.temp()
  os.remove(once)
  local r = soma.sweep {over = {{"n", 1, 2}}, run = function(v)
    local f = io.open(once)
    if v.n == 2 and not f then
      spill(once, "killed")
      os.execute("kill -9 " .. io.open("/proc/self/stat"):read(10):match "%d+")
    end
    return {n2 = v.n * 2}
  end}
  eq(r.rows[2].n2, 4) eq(r.rows[2].fault, nil)
  os.remove(once)
end)

t.finish()
