-- The soma command: exit statuses, messages, files.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

local command = (os.getenv "BUILD" or "build") .. "/soma"
-- Runs the command: its exit status, standard output, standard error.
local function run(arguments)
  local out, err = t.temp(), t.temp()
  local _, _, status = os.execute(command .. " " .. arguments .. " >" .. out .. " 2>" .. err)
  return status, t.read(out), t.read(err)
end
local function has(text, part)
  if not text:find(part, 1, true) then error("missing '" .. part .. "' in:\n" .. text, 2) end
end
-- A failing command: its status and what its standard error contains; no traceback, no output.
local function fails(status, part, arguments)
  local s, out, err = run(arguments)
  eq(s, status, arguments .. "\n" .. err)
  has(err, part)
  eq(err:find("traceback", 1, true), nil, err)
  eq(out, "", arguments)
end

local prog = "tests/lua/add.s"
local fa, fb = t.temp(), t.temp()
local a = soma.randn({4, 8}, "float32", {seed = 1})
local b = soma.randn({4, 8}, "float32", {seed = 2})
a:save_npy(fa) b:save_npy(fb)
local racy, right = t.temp() .. ".s", t.temp() .. ".s"
local function program(path, wait)
  local f = io.open(path, "w")
  f:write((([[
        target trn2
a       tensor float32[128, 64], input
c       tensor float32[128, 64], output
ta      tile   sbuf float32[128, 64]
tc      tile   sbuf float32[128, 64]
loaded  sem
done    sem
q       queue rings=16, dge=hwdge
section sync
        dma_copy ta, a, queue=q $loaded
        dma_copy c, tc, queue=q $done>=1
        halt
section vector
        tensor_copy tc, ta  $loaded>=WAIT $done++
        halt
]]):gsub("WAIT", wait)))
  f:close()
end
program(racy, 3)
program(right, 16)
local fin, fout = t.temp(), t.temp()
soma.randn({128, 64}, "float32", {seed = 3}):save_npy(fin)

case("--check reports, and the run fails", function()
  local status, out, err = run(racy .. " --quiet --check all --in a=" .. fin)
  eq(status, 1)
  eq(out, "")
  has(err, "race: vector reads what a transfer of queue q writes")
  has(err, "fix: vector must wait for $loaded >= 16")
  eq(run(racy .. " --quiet --in a=" .. fin), 0)
  eq(run(right .. " --quiet --check race,uninit,psum --in a=" .. fin), 0)
  fails(2, "unknown check 'rice'", right .. " --check race,rice --in a=" .. fin)
end)

case("--schedule names a seed that gives other bits, and the seed alone gives them again", function()
  fails(1, "gives other bits in tensor c", racy .. " --quiet --schedule 20 --in a=" .. fin)
  local _, _, err = run(racy .. " --quiet --schedule 20 --in a=" .. fin)
  local seed = err:match "again: %-%-schedule%-seed (%d+)"
  eq(run(racy .. " --quiet --schedule-seed " .. seed .. " --in a=" .. fin .. " --out c=" .. fout), 0)
  eq(soma.equal(soma.load_npy(fout), soma.load_npy(fin)), false)
  eq(run(right .. " --quiet --schedule 8 --check all --in a=" .. fin .. " --out c=" .. fout), 0)
  eq(soma.equal(soma.load_npy(fout), soma.load_npy(fin)), true)
end)

local inputs = " --in a=" .. fa .. " --in b=" .. fb

case("a program with files", function()
  local out = t.temp()
  local status, text, err = run(prog .. inputs .. " --out c=" .. out)
  eq(status, 0) eq(err, "")
  has(text, "simulated time") has(text, "instructions/s")
  eq(text:find("\27", 1, true), nil)
  eq(soma.equal(soma.load_npy(out), a + b), true)
  eq(select(2, run(prog .. inputs .. " --quiet")), "")
end)

case("a program with archives", function()
  local dir = t.temp()
  os.remove(dir)
  os.execute("mkdir " .. dir)
  local function path(name) return dir .. "/" .. name end
  soma.save_npz(path "in.npz", {a = a, b = b, other = soma.ones(3)}, {compress = true})
  soma.save_npz(path "a.npz", {a = a})
  soma.save_safetensors(path "in.safetensors", {a = a, x = b, z = soma.ones(1)})
  local function sum(arguments)
    local status, _, err = run(prog .. " --quiet " .. arguments .. " --out c=" .. path "c.npy")
    eq(err, "") eq(status, 0)
    eq(soma.equal(soma.load_npy(path "c.npy"), a + b), true, arguments)
    os.remove(path "c.npy")
  end
  sum("--in " .. path "in.npz")
  sum("--in a=" .. path "in.npz" .. " --in b=" .. path "in.npz")
  sum("--in a=" .. path "in.safetensors" .. " --in b=" .. path "in.safetensors:x")
  sum("--in " .. path "in.safetensors" .. " --in b=" .. fb)
  sum("--in " .. path "a.npz" .. " --in=b=" .. path "in.npz:b")
  -- a name given wins over a whole file
  soma.save_npz(path "wrong.npz", {a = soma.ones(1), b = b})
  sum("--in " .. path "wrong.npz" .. " --in a=" .. fa)

  local inputs = " --quiet --in " .. path "in.npz"
  eq(run(prog .. inputs .. " --out " .. path "all.npz"), 0)
  eq(soma.npz_names(path "all.npz"), {"c"})
  eq(soma.equal(soma.load_npz(path "all.npz").c, a + b), true)
  eq(run(prog .. inputs .. " --out c=" .. path "o.safetensors:sum" .. " --out a=" .. path "o.safetensors"), 0)
  eq(soma.safetensors_names(path "o.safetensors"), {"a", "sum"})
  eq(soma.equal(soma.load_safetensors(path "o.safetensors").sum, a + b), true)
  eq(run(prog .. inputs .. " --out " .. path "o.npz" .. " --out b=" .. path "o.npz:c2"), 0)
  eq(soma.npz_names(path "o.npz"), {"c", "c2"})
  os.execute("rm -r " .. dir)
end)

case("a type that NumPy lacks, from raw bits", function()
  local source, data, out = t.temp() .. ".s", t.temp() .. ".npz", t.temp() .. ".npz"
  local f = assert(io.open(source, "w"))
  f:write "target trn2\nx tensor bfloat16[2], input\ny tensor bfloat16[2], output\nq queue dge=hwdge\nsection sync\n dma_copy y, x, queue=q\n halt\n"
  f:close()
  soma.save_npz(data, {x = soma.tensor({0x3f80, 0xc040}, "uint16")})
  local status, _, err = run(source .. " --quiet --in " .. data .. " --out y=" .. out)
  eq(err, "") eq(status, 0)
  local y = soma.load_npz(out).y
  eq(y.dtype, "bfloat16") eq(y:tolist(), {1.0, -3.0})
  for _, path in ipairs {source, data, out} do os.remove(path) end
end)

case("a .sbc file, defines", function()
  local sbc = t.temp() .. ".sbc"
  soma.assemble_file(prog):save(sbc)
  local out = t.temp()
  eq(run(sbc .. inputs .. " --out c=" .. out), 0)
  eq(soma.equal(soma.load_npy(out), a + b), true)
  os.remove(sbc)
  fails(1, "float32[4, 16], but the data given is float32[4, 8]", prog .. inputs .. " -D N=16")
  fails(1, "float32[4, 16], but the data given is float32[4, 8]", prog .. inputs .. " -DN=16")
end)

case("json and trace", function()
  local trace = t.temp()
  local status, text = run(prog .. inputs .. " --json --trace " .. trace)
  eq(status, 0)
  has(text, '"instructions": 8') has(text, '"trace_hash": "')
  has(t.read(trace), '"traceEvents":[') has(t.read(trace), '"name":"tensor_tensor"')
end)

case("bad usage is 2", function()
  fails(2, "no program given", "")
  fails(2, "did you mean --target?", prog .. " --taget trn2")
  fails(2, "input tensors without data: a, b", prog)
  fails(2, "the program has no tensor 'd'; its tensors: a, b, c", prog .. inputs .. " --in d=" .. fa)
  fails(2, "the program has no tensor 'd'", prog .. inputs .. " --out d=x.npy")
  fails(2, "--in takes NAME=FILE.npy, not 'a'", prog .. " --in a")
  fails(2, "--in names 'a' twice", prog .. inputs .. " --in a=" .. fa)
  fails(2, "--in needs a value", prog .. " --in")
  fails(2, "takes a positive number", prog .. inputs .. " --max-ns soon")
  fails(2, "takes a whole number of at least 1, not '2.5'", prog .. inputs .. " --max-instructions 2.5")
  fails(1, "cannot read 'other.s'", prog .. " other.s")
  fails(2, "--target takes one of trn1, inf2, trn2, trn3, not 'trn9'", prog .. inputs .. " --target trn9")
end)

case("what fails is 1, and leaves no file", function()
  local dir = os.tmpname()
  os.remove(dir)
  local bad = t.temp("junk")
  fails(1, "does not start with the .npy magic", prog .. " --in a=" .. bad .. " --in b=" .. fb)
  fails(1, "the limit", prog .. inputs .. " --max-instructions 3 --out c=" .. dir)
  eq(io.open(dir), nil)
  fails(1, "cannot write '/nonexistent/c.npy'", prog .. inputs .. " --quiet --out c=/nonexistent/c.npy")
  fails(1, "cannot write '/nonexistent/t'", prog .. inputs .. " --quiet --trace /nonexistent/t")
  fails(1, "nonexistent.s", "tests/lua/nonexistent.s")
  fails(1, "cannot read '/nonexistent/a.npy'", prog .. " --in a=/nonexistent/a.npy --in b=" .. fb)
  local syntax = t.temp("  bogus\n")
  fails(1, syntax .. ":1:", syntax)
  local div = t.temp("target trn2\nsection sync\n mov r1, 0\n div r0, r1, r1\n halt\n")
  fails(1, div .. ":4: fault: ", div)
  local sbc = t.temp() .. ".sbc"
  local f = io.open(sbc, "wb") f:write("SOMA\0\0\0") f:close()
  fails(1, "", sbc)
  os.remove(sbc)
end)

case("scripts", function()
  local script = t.temp() .. ".lua"
  local function with(text, arguments)
    local f = io.open(script, "w") f:write(text) f:close()
    return run(script .. " " .. (arguments or ""))
  end
  local status, out = with("local soma = require 'soma' print(arg[1], soma.zeros(2).size, ...)", "x y")
  eq(status, 0) eq(out, "x\t2\tx\ty\n")
  local err
  status, _, err = with("error('boom')")
  eq(status, 1) has(err, "boom")
  status, _, err = with("assert(false, 'wrong')")
  eq(status, 1) has(err, "wrong")
  eq((with("os.exit(3)")), 3) eq((with("syntax error here")), 1)
  status, _, err = with("error(setmetatable({}, {__tostring = function() return 'mine' end}))")
  eq(status, 1) has(err, "mine")
  os.remove(script)
  fails(1, "nonexistent.lua", "nonexistent.lua")
end)

case("help, version, interrupt", function()
  local status, out = run("--help")
  eq(status, 0) has(out, "usage: soma PROGRAM.s")
  eq(select(2, run("--version")):match "^[^\n]*\n", "soma " .. soma.version .. "\n")
  local loop = t.temp("target trn2\nsection sync\n.l: jmp .l\n")
  local err = t.temp()
  local _, _, code = os.execute("timeout -s INT 0.5 " .. command .. " " .. loop .. " >" .. err .. " 2>&1")
  eq(code, 124) -- timeout's own; the command has ended by itself
  has(t.read(err), "interrupted") has(t.read(err), "simulated time")
end)

t.finish()
