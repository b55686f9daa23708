-- soma.sweep: rows in the order of the variants, values to the bit, failures, interruption, tables,
-- CSV and charts.
local soma = require "soma"
local t = require "harness"
local case, eq, raises, fails = t.case, t.eq, t.raises, t.fails
local command = "./" .. (os.getenv "BUILD" or "build") .. "/soma"

local function values(f, over, more)
  local o = {over = over or {{"n", 1, 2, 3, 4, 5, 6, 7, 8}}, run = f}
  for k, v in pairs(more or {}) do o[k] = v end
  return soma.sweep(o)
end

-- Runs a script with the command; its output with errors, and the exit status.
local function script(text)
  local path = t.temp() .. ".lua"
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
  local p = io.popen(command .. " " .. path .. " 2>&1; echo \"status $?\"")
  local all = p:read("a")
  p:close()
  os.remove(path)
  return all:match "^(.*)status (%d+)\n$"
end

-- ---- Rows -----------------------------------------------------------------------------------------

case("rows are in the order of the variants, however many processes there are", function()
  local function work(v) -- the first take longest
    local x = 0
    for i = 1, (9 - v.n) * 200000 do x = x + i % 7 end
    return {square = v.n * v.n, x = x}
  end
  local one = values(work, nil, {jobs = 1})
  for n = 1, 8 do eq(one.rows[n].n, n) eq(one.rows[n].square, n * n) end
  for _, jobs in ipairs {2, 3, 8, 200} do
    local r = values(work, nil, {jobs = jobs})
    eq(tostring(r), tostring(one)) eq(r:csv(), one:csv())
  end
  eq(tostring(values(work)), tostring(one))
end)

case("all combinations, the last parameter fastest", function()
  local r = values(function(v) return {sum = v.a + (v.b and 10 or 0)} end, {{"b", true, false}, {"a", 1, 2, 3}})
  local seen = {}
  for i, row in ipairs(r.rows) do seen[i] = row.sum end
  eq(seen, {11, 12, 13, 1, 2, 3}) eq(r.parameters, {"b", "a"}) eq(r.columns, {"b", "a", "sum"})
  r = soma.sweep {variants = {{z = 1}, {a = 2, z = 3}}, run = function(v) return {y = v.z} end}
  eq(r.columns, {"a", "z", "y"}) eq(r.rows[1].a, nil) eq(r.rows[2].a, 2) eq(r.rows[2].y, 3)
end)

case("values come back to the bit", function()
  local list = {0.1, -0.0, 1 / 0, -1 / 0, 0 / 0, 5e-324, math.maxinteger, math.mininteger, 2 ^ 53, 3, 3.0, true, false,
    "", "a\0b\n,\"c", string.rep("long", 50000)}
  local r = values(function(v) return {value = list[v.n]} end, {{"n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}})
  for i, v in ipairs(list) do eq(r.rows[i].value, v, "value " .. i) end
end)

case("what a run says of itself", function()
  local source = t.read "tests/lua/add.s"
  local a, b = soma.ones({4, 8}), soma.full({4, 8}, 2)
  local run = soma.core {}:run(soma.assemble(source), {a = a, b = b})
  local r = soma.sweep {
    variants = {{}, {FALSE = false}}, program = "tests/lua/add.s", inputs = {a = a, b = b},
    measure = function(got, v) return {right = soma.equal(got.out.c, a + b), given = v.FALSE} end,
  }
  for i, row in ipairs(r.rows) do
    eq(row.time_us, run.time_ns / 1000) eq(row.dma_bytes, 384) eq(row.right, true) eq(row.fault, nil)
    eq(row.vector_busy, 100 / run.time_ns * run.stats.engine.vector.busy_ns)
    eq(row.dma_busy, run.stats.dma_busy_ns / 16 * (100 / run.time_ns))
    eq(row.tensor_busy, nil)
    if i == 2 then eq(row.given, false) else eq(row.given, nil) end
  end
  eq(r.columns, {"FALSE", "time_us", "vector_busy", "dma_busy", "dma_bytes", "given", "right"})
  eq(run.stats.launch_ns > 0, true)
end)

case("a parameter that nothing reads", function()
  local inputs = {a = soma.zeros({4, 8}, "float32"), b = soma.zeros({4, 8}, "float32")}
  local o = {over = {{"NO_SUCH", 1, 2}}, program = "tests/lua/add.s", inputs = inputs}
  for _, row in ipairs(soma.sweep(o).rows) do
    eq(row.fault, "a parameter changes nothing: nothing reads `NO_SUCH`")
  end
  o.measure = function(_, v) return {same = v.NO_SUCH} end -- it may be for this
  eq(soma.sweep(o):check().rows[2].same, 2)
  eq(soma.sweep({variants = {{label = "first"}}, program = o.program, inputs = inputs}):check().rows[1].label, "first")
end)

case("programs, inputs and cores may depend on the variant", function()
  local r = soma.sweep {
    over = {{"target", "trn1", "trn2"}, {"n", 4, 8}},
    program = function(v)
      return soma.assemble(string.format("x tensor float32[4, %d], input\ny tensor float32[4, %d], output\nt tile sbuf " ..
        "float32[4, %d]\ns sem\nq queue dge=none\nsection sync\n dma_copy t, x, queue=q $s\n dma_copy y, t, queue=q " ..
        "$s>=16\n halt\n", v.n, v.n, v.n), {target = v.target})
    end,
    inputs = function(v) return {x = soma.full({4, v.n}, v.n)} end, core = function(v) return {target = v.target} end,
    measure = function(run) return {first = run.out.y:get(0, 0)} end, columns = {"target", "n", "first"},
  }:check()
  for _, row in ipairs(r.rows) do eq(row.first, row.n + 0.0) eq(row.dma_bytes, 2 * 16 * row.n) end
  eq(tostring(r):match "^[^\n]*", "target  n  first")
end)

case("timing only: time without data", function()
  local p = soma.assemble(t.read "tests/lua/add.s")
  local a = soma.ones({4, 8})
  local run = soma.core {timing_only = true}:run(p)
  eq(run.time_ns, soma.core {}:run(p, {a = a, b = a}).time_ns)
  eq(run.out.c:max(), 0.0)
end)

-- ---- Failures -----------------------------------------------------------------------------------------

case("a variant that fails says so in its row", function()
  local bad = soma.assemble("target trn2\nsection sync\n mov r1, 0\n div r0, r1, r1\n halt\n", {name = "bad.s"})
  local r = values(function(v)
    if v.n == 1 then error("no luck", 0) end
    if v.n == 2 then return soma.core {}:run(bad) end
    if v.n == 3 then return soma.core {}:run(bad, nil, {faults = "return"}) end
    if v.n == 4 then os.exit(3) end
    if v.n == 5 then os.execute "kill -9 $PPID" end
    if v.n == 6 then return {x = {}} end
    if v.n == 7 then return 5 end
    return {x = 1}
  end)
  eq(r.rows[1].fault, "no luck")
  local named = soma.sweep {over = {{"n", 1}}, columns = {"fault", "n"}, run = function() error("no luck", 0) end}
  eq(tostring(named):match "^[^\n]*", "fault    n")
  eq(r.rows[2].fault:match "^[^\n]*", "bad.s:4: fault: division by zero")
  eq(r.rows[3].fault:match "^[^\n]*", "bad.s:4: fault: division by zero")
  eq(r.rows[4].fault, "its process ended early, with status 3")
  eq(r.rows[5].fault, "its process was ended by signal 9, and again by signal 9")
  eq(r.rows[6].fault, "sweep: value 'x' is a table, not a number, string or boolean")
  eq(r.rows[7].fault, "sweep: a variant must give a run, a table of values, or both, not a number")
  eq(r.rows[8].fault, nil) eq(r.rows[8].x, 1)
  eq(r.columns[#r.columns], "fault")
  fails("sweep: with n = 1: no luck", r.check, r)
end)

case("a variant sees its own copy of the parameters, and of everything", function()
  local outside = 0
  local r = values(function(v)
    outside, v.n = outside + 1, 100
    return {outside = outside}
  end, {{"n", 1, 2}})
  eq(outside, 0) eq(r.rows[1].n, 1) eq(r.rows[1].outside, 1) eq(r.rows[2].outside, 1)
end)

case("sweeps within variants", function()
  local r = values(function(v)
    local inner = values(function(w) return {x = w.n * v.n} end, {{"n", 1, 2}})
    return {x = inner.rows[1].x + inner.rows[2].x}
  end, {{"n", 5, 6}})
  eq(r.rows[1].x, 15) eq(r.rows[2].x, 18)
end)

case("what variants print comes out once, in their order", function()
  local out, status = script [[
    local soma = require "soma"
    io.write "before "
    local r = soma.sweep {over = {{"n", 1, 2, 3, 4}}, run = function(v)
      local x = 0
      for i = 1, (5 - v.n) * 300000 do x = x + i % 7 end
      io.write("variant ", v.n, " ")
      return {n2 = 2 * v.n}
    end}
    io.write("after ", #r.rows, "\n")]]
  eq(out, "before variant 1 variant 2 variant 3 variant 4 after 4\n") eq(status, "0")
end)

-- Of the command, and of the stock interpreter, whose status is 1.
for name, program in pairs {["130"] = command, ["1"] = "lua5.4"} do
  case("Ctrl-C ends a sweep and its processes: " .. program, function()
    local pids = t.temp ""
    local path = t.temp() .. ".lua"
    local f = assert(io.open(path, "w"))
    f:write(string.format([[
      local soma = require "soma"
      soma.sweep {over = {{"n", 1, 2, 3}}, jobs = 2, run = function()
        os.execute "echo $PPID >>%s"
        while true do end
      end}]], pids))
    f:close()
    -- The interruption comes when both processes have written; only the parent gets it.
    local p = io.popen(string.format("%s %s 2>&1 & pid=$!; i=0; while [ $(wc -l <%s) -lt 2 ] && [ $i -lt 600 ]; do " ..
      "sleep 0.05; i=$((i + 1)); done; kill -INT $pid; wait $pid; echo \"status $?\"", program, path, pids))
    local all = p:read("a")
    p:close()
    os.remove(path)
    eq(all:match "status (%d+)\n$", name) eq(all:find("interrupted", 1, true) ~= nil, true)
    local n = 0
    for pid in t.read(pids):gmatch "%d+" do
      n = n + 1
      eq(os.execute("kill -0 " .. pid .. " 2>/dev/null"), nil, "process " .. pid .. " is alive")
    end
    eq(n, 2)
  end)
end

-- ---- Arguments --------------------------------------------------------------------------------------

case("wrong options", function()
  local function run() return {} end
  local over = {{"n", 1}}
  fails("sweep: expected a table of options, not number", soma.sweep, 5)
  fails("sweep: unknown option 'job' (did you mean 'jobs'?); it takes: columns, core, inputs, jobs, journal, measure, over, program, "
    .. "run, variants", soma.sweep, {over = over, run = run, job = 1})
  fails("sweep: option 'over' must be a table, not a number", soma.sweep, {over = 1, run = run})
  fails("sweep: option 'inputs' must be a table or a function, not a string",
    soma.sweep, {over = over, program = "x", inputs = "y"})
  fails("sweep: give either 'variants' or 'over'", soma.sweep, {run = run})
  fails("sweep: give either 'variants' or 'over'", soma.sweep, {run = run, over = over, variants = {{}}})
  fails("sweep: give either 'run' or 'program'", soma.sweep, {over = over})
  fails("sweep: 'inputs', 'core' and 'measure' go with 'program'; 'run' does that itself",
    soma.sweep, {over = over, run = run, inputs = {}})
  for _, jobs in ipairs {0, -1, 1.5, 257} do
    fails("sweep: option 'jobs' is " .. jobs .. ", not an integer from 1 to 256", soma.sweep, {over = over, run = run, jobs = jobs})
  end
  fails("sweep: entry 2 of 'over' must be {name, value, ...}", soma.sweep, {over = {{"n", 1}, {"m"}}, run = run})
  fails("sweep: there are no variants", soma.sweep, {variants = {}, run = run})
  fails("sweep: variant 2 is a number, not a table", soma.sweep, {variants = {{}, 5}, run = run})
  fails("sweep: variant 1: parameters must be given by name", soma.sweep, {variants = {{5}}, run = run})
  fails("sweep: variant 1: parameter 'a' is a table, not a number, string or boolean",
    soma.sweep, {variants = {{a = {}}}, run = run})
  fails("sweep: option 'columns' must be a list of names", soma.sweep, {over = over, run = run, columns = {1}})
  local message = raises("sweep: expected a table of options", function() local _ = soma.sweep(5) end)
  eq(message:match "^[^:]*", "tests/lua/test_sweep.lua")
  message = raises("plot: 'x'", function()
    local _ = soma.sweep({over = over, run = run}):plot {}
  end)
  eq(message:match "^[^:]*", "tests/lua/test_sweep.lua")
end)

-- ---- Tables ---------------------------------------------------------------------------------------

local result = values(function(v)
  if v.n == 3 then error("lost, \"alas\"\nfor ever", 0) end
  return {time = v.n * 0.5, name = v.n == 1 and "one" or "another, two", whole = v.n * 3.0}
end, {{"n", 1, 2, 3}})

case("the table is aligned", function()
  eq(tostring(result), [[
n  name           time  whole  fault
1  one           0.500      3
2  another, two  1.000      6
3                              lost, "alas"]])
end)

case("CSV quotes what needs it, and numbers read back", function()
  eq(result:csv(), 'n,name,time,whole,fault\n1,one,0.5,3,\n2,"another, two",1,6,\n3,,,,"lost, ""alas""\nfor ever"\n')
  local path = t.temp()
  eq(result:csv(path), true) eq(t.read(path), result:csv())
  local ok, message = result:csv "/nowhere/x.csv"
  eq(ok, nil) eq(message, "cannot write '/nowhere/x.csv': No such file or directory")
  local r = values(function() return {third = 1 / 3, big = 2 ^ 70} end, {{"n", 1}})
  local big, third = r:csv():match "\n1,([^,]*),(.*)\n"
  eq(tonumber(third), 1 / 3) eq(tonumber(big), 2 ^ 70)
end)

-- ---- Charts -------------------------------------------------------------------------------------------

local powers = values(function(v) return {twice = 2 * v.x, cube = v.x ^ 3} end, {{"x", 1, 2, 4, 8, 16, 32, 64}})

-- The corners of the line of a class; the legend's has an h.
local function corners(svg, class)
  local list = {}
  for x, y in svg:match('class="l ' .. class .. '" d="([^"h]*)"'):gmatch "[ML]([%d.]+) ([%d.]+)" do
    list[#list + 1] = {tonumber(x), tonumber(y)}
  end
  return list
end

case("lines go through the points: logarithmic axes", function()
  local svg = powers:plot {x = "x", y = {"twice", "cube"}, log = "xy"}
  local a, b = corners(svg, "c1"), corners(svg, "c2")
  eq(#a, 7) eq(#b, 7)
  for i = 2, 7 do -- even steps, and a cube climbs three times as fast
    local dx, dy = a[i][1] - a[i - 1][1], a[i - 1][2] - a[i][2]
    t.near(dx, a[2][1] - a[1][1], 0.01) t.near(dy, a[1][2] - a[2][2], 0.02)
    t.near((b[i - 1][2] - b[i][2]) / dy, 3, 0.03)
  end
end)

case("linear axes", function()
  local svg = powers:plot {x = "x", y = "twice"}
  local a = corners(svg, "c1")
  for i = 2, 7 do
    t.near((a[i][1] - a[1][1]) / (a[7][1] - a[1][1]), (2 ^ (i - 1) - 1) / 63, 0.02)
    t.near((a[1][2] - a[i][2]) / (a[1][2] - a[7][2]), (2 ^ (i - 1) - 1) / 63, 0.02)
  end
  local labels = {}
  for label in svg:gmatch 'text%-anchor="end"[^>]*>([^<]*)<' do labels[#labels + 1] = label end
  eq(labels, {"0", "50", "100", "150"})
end)

case("a chart has its texts, its legend and both schemes", function()
  local svg = powers:plot {
    x = "x", y = "twice", title = "a < b & \"c\"", xlabel = "ex", ylabel = "why", labels = {twice = "double"},
    points = {{label = "published", {8, 20}, {16, 40}}},
  }
  for _, text in ipairs {"<title>a &lt; b &amp; &quot;c&quot;</title>", ">ex<", ">why<", ">double<", ">published<",
    "prefers-color-scheme:dark", 'xmlns="http://www.w3.org/2000/svg"'} do
    eq(svg:find(text, 1, true) ~= nil, true, text)
  end
  eq(select(2, svg:gsub("<circle", "")), 7 + 1) -- one in the legend
  eq(select(2, svg:gsub('class="c2 o"', "")), 2 + 1)
  eq(select(2, svg:gsub("\n", "")) < 100, true)
  eq(powers:plot {x = "x", y = "twice"}, powers:plot {x = "x", y = "twice"})
end)

case("series, rows chosen, and rows that failed", function()
  local r = values(function(v)
    if v.x == 3 and v.k == "b" then error "no" end
    return {y = v.x}
  end, {{"k", "a", "b"}, {"x", 1, 2, 3, 4}})
  local svg = r:plot {x = "x", y = "y", series = "k"}
  eq(#corners(svg, "c1"), 4) eq(#corners(svg, "c2"), 3)
  svg = r:plot {x = "x", y = "y", series = "k", where = function(row) return row.x < 3 end}
  eq(#corners(svg, "c1"), 2)
end)

case("bars by category", function()
  local svg = result:plot {x = "name", y = {"time", "whole"}}
  eq(svg:find(">one<", 1, true) ~= nil, true)
  local heights = {}
  for class, h in svg:gmatch '<rect class="(c%d)" x="[%d.]+" y="[%d.]+" width="[%d.]+" height="([%d.]+)"' do
    if h:find ".%." then table.insert(heights, tonumber(h)) end
  end
  eq(#heights, 4)
  t.near(heights[2] / heights[1], 2, 0.02) t.near(heights[3] / heights[1], 6, 0.02)
end)

case("bars of values below zero hang from it", function()
  local r = values(function(v) return {y = v.k == "a" and -2 or 4} end, {{"k", "a", "b"}})
  local tops, heights = {}, {}
  for y, h in r:plot({x = "k", y = "y"}):gmatch '<rect class="c1" x="[%d.]+" y="([%d.]+)" width="[%d.]+" height="([%d.]+)"' do
    tops[#tops + 1], heights[#heights + 1] = tonumber(y), tonumber(h)
  end
  eq(#tops, 2)
  t.near(heights[2], 2 * heights[1], 0.02) t.near(tops[1], tops[2] + heights[2], 0.002)
end)

case("a file, or what is wrong", function()
  local path = t.temp()
  eq(powers:plot {x = "x", y = "cube", file = path}, true)
  eq(t.read(path), powers:plot {x = "x", y = "cube"})
  local ok, message = powers:plot {x = "x", y = "cube", file = "/nowhere/x.svg"}
  eq(ok, nil) eq(message, "cannot write '/nowhere/x.svg': No such file or directory")
  local function wrong(text, o) fails(text, powers.plot, powers, o) end
  wrong("plot: 'x' and 'y' name the columns to draw", {x = "x"})
  wrong("plot: unknown option 'tile' (did you mean 'file'?); it takes: file, labels, log, points, series, title, where, x, "
    .. "xlabel, y, ylabel", {x = "x", y = "cube", tile = "t"})
  wrong("plot: there is no column 'cub' (did you mean 'cube'?); there are: x, cube, twice", {x = "x", y = "cub"})
  wrong("plot: 'y' names no column", {x = "x", y = {}})
  wrong("plot: 'series' goes with only one column 'y'", {x = "x", y = {"cube", "twice"}, series = "x"})
  wrong("plot: 'log' must be true, \"x\", \"y\" or \"xy\"", {x = "x", y = "cube", log = "z"})
  wrong("plot: entry 1 of 'points' must be {label = text, {x, y}, ...}", {x = "x", y = "cube", points = {{}}})
  wrong("plot: 'p' of 'points' has an entry that is not {x, y}", {x = "x", y = "cube", points = {{label = "p", {1}}}})
  wrong("plot: the label of 'cube' is not a string", {x = "x", y = "cube", labels = {cube = 1}})
  wrong("plot: there is nothing to draw", {x = "x", y = "cube", where = function() end})
  fails("plot: bars take neither a logarithmic axis nor points", result.plot, result, {x = "name", y = "time", log = "y"})
  local odd = values(function(v) return {y = v.n == 1 and 0 or 0 / 0} end, {{"n", 1, 2}})
  fails("plot: a logarithmic axis cannot show 0", odd.plot, odd, {x = "n", y = "y", log = "y"})
  fails("plot: a value is not finite", odd.plot, odd, {x = "n", y = "y"})
end)

case("charts of one point, and of equal values", function()
  local far = values(function(v) return {y = 1e100 * v.n} end, {{"n", 1e17}, {"m", 1, 2}})
  local svg = far:plot {x = "n", y = "y"}
  eq(svg:find "nan" or svg:find "inf", nil)
  local r = values(function() return {y = 5} end, {{"n", 3}})
  for _, log in ipairs {false, true, "y", "xy"} do
    svg = r:plot {x = "n", y = "y", log = log}
    eq(svg:find "nan" or svg:find "inf", nil) eq(#corners(svg, "c1"), 1)
  end
end)

t.finish()
