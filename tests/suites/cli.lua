-- The soma command as a user meets it: every option, its exit status, and each message to the
-- letter. Ends with "N passed, N failed".
local command = (os.getenv "BUILD" or "build") .. "/soma"
local passed, failed = 0, 0

local function lines_of(shell)
  local p = assert(io.popen(shell))
  local s = p:read("a")
  p:close()
  return s
end
local dir = lines_of("mktemp -d"):gsub("\n$", "")
local function path(name) return dir .. "/" .. name end
local function write(name, text)
  local f = assert(io.open(path(name), "wb"))
  f:write(text)
  f:close()
  return path(name)
end
local function read(name)
  local f = io.open(path(name), "rb")
  if not f then return nil end
  local s = f:read("a")
  f:close()
  return s
end

-- Runs `soma arguments` by the shell: status, standard output, standard error. before: shell words
-- in front of the command, such as variables.
local function run(arguments, before)
  local _, how, code = os.execute(("%s %s %s >%s/out 2>%s/err"):format(before or "", command, arguments, dir, dir))
  return how == "exit" and code or 128 + code, read "out", read "err"
end

local function verdict(name, wrong)
  if not wrong then passed = passed + 1 return end
  failed = failed + 1
  print("FAILED " .. name .. ": " .. wrong)
end

-- Exact texts; `out` and `err` default to "".
local function check(name, arguments, want, before)
  local status, out, err = run(arguments, before)
  local wrong = {}
  if status ~= (want.status or 0) then wrong[1] = "exit " .. status .. ", not " .. (want.status or 0) end
  if want.out ~= false and out ~= (want.out or "") then wrong[#wrong + 1] = "standard output:\n" .. out end
  if err ~= (want.err or "") then wrong[#wrong + 1] = "standard error:\n" .. err end
  verdict(name, #wrong > 0 and table.concat(wrong, "\n"))
end
local function usage(name, arguments, message)
  check(name, arguments, {status = 2, err = "soma: error: " .. message .. "\ntry soma --help\n"})
end
local function fails(name, arguments, message, before)
  check(name, arguments, {status = 1, err = "soma: error: " .. message .. "\n"}, before)
end
local function expect(name, condition, what) verdict(name, not condition and (what or "it is not so")) end

-- ---- Programs and data --------------------------------------------------------------------------

local add = write("add.s", [[
        target  trn2
        %ifndef N
        %define N 2
        %endif
x       tensor  float32[4, N], input
k       tensor  float32[4, N], output
t       tile    sbuf float32[4, N]
loaded  sem
done    sem
q       queue   dge=hwdge
section sync
        dma_copy  t, x, queue=q              $loaded
        dma_copy  k, t, queue=q    $done>=1
        halt
section vector
        tensor_tensor t, t, t, op=add  $loaded>=16 $done++
        halt
]])
local loop = write("loop.s", "        target trn2\nsection sync\nagain:  jmp again\n")
local div = write("div.s", "target trn2\nsection sync\n mov r1, 0\n div r0, r1, r1\n halt\n")
local dead = write("dead.s", "target trn2\ns sem\nsection vector\n event_semaphore $s>=1\n halt\n")

local function npy(name, descr, shape, data)
  local head = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }"):format(descr, shape)
  return write(name, "\x93NUMPY\1\0" .. string.pack("<s2", head .. (" "):rep(117 - #head) .. "\n") .. data)
end
local function floats(from, n)
  local v = {}
  for i = 1, n do v[i] = string.pack("<f", from + i) end
  return table.concat(v)
end
local doubled = string.pack("<ffffffff", 2, 4, 6, 8, 10, 12, 14, 16)
local x = npy("x.npy", "<f4", "(4, 2)", floats(0, 8))
local ins = " --in x=" .. x

-- ---- Running ------------------------------------------------------------------------------------

do
  local status, out, err = run(add .. ins .. " --out k=" .. path "k.npy")
  expect("a program runs", status == 0 and err == "", err)
  expect("its output is a .npy file", read "k.npy" and read("k.npy"):sub(-32) == doubled)
  local order = {}
  for word in out:gmatch("%f[^\n\0]([%w-]+)") do order[#order + 1] = word end
  expect("the summary", out:match("^simulated time  %d+ ns\nengine +busy  waiting  instructions  data path  utilised\n" ..
    "  vector +[%d.]+%% +[%d.]+%% +2 +1 +[%d.]+%%\n" ..
    "  sync +0.0%% +[%d.]+%% +3 +0 +0.0%%\n" ..
    "dma +2 transfers, 64 B, [%d.]+ %a?B/s, active [%d.]+%%, sixteen engines busy [%d.]+%%, 32 B a transfer\n" ..
    "hbm +32 B read, 32 B written, MBU 0.0%% of 716.00 GB/s\n" ..
    "touched +sbuf 0.0 of 224 KiB per partition, psum 0.0 of 16\n" ..
    "sbuf +64 B read, 32 B written by engines, [%d.]+ %a?B/s, [%d.]+ times HBM's\n" ..
    "launch +10.00 us, not part of the simulated time\n" ..
    "host%-device   32 B in, 32 B out, %d+ ns\nhost +[%d.]+ s, [%d.]+ %a?instructions/s\n$"), out)
end
check("--quiet", add .. ins .. " --quiet", {})
check("options before the program", "--quiet" .. ins .. " " .. add, {})
check("--in=NAME=FILE", add .. " --in=x=" .. x .. " --quiet", {})
check("from standard input", "-" .. ins .. " --quiet <" .. add, {})
check("-D NAME=VALUE", add .. " -D N=4 --in x=" .. npy("x4.npy", "<f4", "(4, 4)", floats(0, 16)) .. " --quiet", {})
check("-DNAME=VALUE", add .. " -DN=4 --quiet --in x=" .. path "x4.npy", {})
check("-I", write("inc.s", "%include \"add.s\"\n") .. " -I " .. dir .. ins .. " --quiet", {})
check("--target of a source without one", write("bare.s", "section sync\n halt\n") .. " --target trn1 --quiet", {})
check("any tensor can be saved", add .. ins .. " --quiet --out x=" .. path "x2.npy --out k=" .. path "k2.npy", {})
expect("and is what it was", read("x2.npy"):sub(-32) == floats(0, 8))
do
  local lua = write("save.lua", ("local soma = require 'soma'\nassert(soma.assemble_file('%s'):save('%s'))\n")
    :format(add, path "add.sbc"))
  check("a script makes a .sbc file", lua, {})
  check("which runs", path "add.sbc" .. ins .. " --quiet --out k=" .. path "k3.npy", {})
  expect("with the same result", read "k3.npy" == read "k.npy")
end
do
  local status, out = run(add .. ins .. " --json --trace " .. path "t.json")
  expect("--json", status == 0 and out:sub(1, 2) == "{\n" and out:find('\n  "instructions": 5,\n', 1, true)
    and out:find('\n    "sync": {\n', 1, true) and out:find('\n  "time_ns": %d+[.%d]*[,\n]')
    and out:find('\n  "trace_hash": "%x+",\n  "transpose_flops": 0,\n  "twins": 0\n}\n$'), out)
  if os.execute("command -v python3 >/dev/null") then
    expect("--json and --trace are JSON", os.execute(("python3 -m json.tool %s/out >/dev/null && python3 -m json.tool %s/t.json >/dev/null"):format(dir, dir)))
  end
  expect("--trace", read "t.json" and read("t.json"):find '"tensor_tensor"')
end

-- Texts go out as gzip where the name says so, and are then the same texts.
do
  run(add .. ins .. " --quiet --trace " .. path "t.json" .. " --html " .. path "t.html" .. " --csv Summary=" .. path "t.jsonl")
  local status = run(add .. ins .. " --quiet --trace " .. path "u.json.gz" .. " --html " .. path "u.html.gz" ..
    " --csv Summary=" .. path "u.jsonl.gz")
  for _, name in ipairs {"json", "html", "jsonl"} do
    local plain, packed = read("t." .. name), read("u." .. name .. ".gz")
    os.execute(("gzip -dc %s >%s"):format(path("u." .. name .. ".gz"), path "unpacked"))
    expect("." .. name .. ".gz", status == 0 and #plain > 100 and read "unpacked" == plain and #packed < #plain and
      packed:sub(1, 10) == "\x1f\x8b\8\0\0\0\0\0\0\3", packed:sub(1, 10))
  end
end
usage("a trace as .xz", add .. ins .. " --trace " .. path "t.json.xz", "--trace: cannot write '" .. path "t.json.xz" ..
  "': .xz is not built; the only compression is .gz")
usage("a table as .zip", add .. ins .. " --csv Summary=" .. path "t.zip", "--csv Summary: cannot write '" .. path "t.zip" .. "': .zip is not built; the only compression is .gz")
usage("data as .gz", add .. ins .. " --out k=" .. path "k.npy.gz", "--out k: cannot write '" .. path "k.npy.gz" ..
  "': only texts (traces, pages, tables) are compressed, as .gz; this is data")
usage("a saved run as .gz", add .. ins .. " --save " .. path "k.gz", "--save: cannot write '" .. path "k.gz" ..
  "': only texts (traces, pages, tables) are compressed, as .gz; this is data")

-- ---- Faults -------------------------------------------------------------------------------------

check("a fault", div, {status = 1, err = div .. ":4: fault: division by zero\n" ..
  "  div r0, r1, r1\n  on sync, pc 1, at 1 ns\n"})
check("--quiet does not hide it", div .. " --quiet", {status = 1, err = div .. ":4: fault: division by zero\n" ..
  "  div r0, r1, r1\n  on sync, pc 1, at 1 ns\n"})
do
  local status, out, err = run(div .. " --json")
  expect("--json of a fault", status == 1 and out:find('"fault": {\n', 1, true) and out:find('"kind": "fault"', 1, true)
    and err:find(": fault: ", 1, true), out)
  status, out, err = run(dead)
  expect("a deadlock", status == 1 and out == "" and err:find("deadlock: ", 1, true) and err:find("vector", 1, true), err)
  for _, limit in ipairs {"--max-instructions 1000", "--max-ns 1e4", "--max-seconds 0.2", "--max-cpu-seconds 0.2"} do
    status, out, err = run(loop .. " " .. limit .. " --out x=" .. path "none.npy")
    expect(limit .. ": a wrong name first", status == 2, err)
    status, out, err = run(loop .. " " .. limit)
    expect(limit, status == 1 and out == "" and err:find("limit: ", 1, true), err)
  end
  run(add .. ins .. " --max-instructions 3 --out k=" .. path "none.npy")
  expect("no output of a run that failed", read "none.npy" == nil)
end

-- ---- Variables of the environment ---------------------------------------------------------------

do
  local asks = write("env.s", "%if %!SOMA_TEST_N != 3\n%error it is %!SOMA_TEST_N\n%endif\nsection sync\n halt\n")
  check("%!NAME", asks .. " --quiet", {}, "SOMA_TEST_N=3")
  local status, _, err = run(asks .. " --quiet", "SOMA_TEST_N=4")
  expect("%!NAME is another", status == 1 and err:find("it is 4", 1, true), err)
  status, _, err = run("--sandbox " .. asks, "SOMA_TEST_N=3")
  expect("%!NAME in a sandbox", status ~= 0 and err:find("this source may not read environment variables", 1, true), err)
end

-- ---- Explanations -----------------------------------------------------------------------------

do
  local status, out = run("--explain OVH_VECTOR")
  expect("--explain of a constant", status == 0 and out:find("^OVH_VECTOR: a constant of the clock; ") and
    out:find("\n  trn2 %d+ CYC, %u+ ") and out:find("\n  trn1 "), out)
  for name in ("uninit race psum overlap range port output"):gmatch "%a+" do
    status, out = run("--explain " .. name)
    expect("--explain " .. name, status == 0 and out:find("^" .. name .. ": a check: %l.*%-%-check " .. name), out)
  end
  fails("--explain of no name", "--explain OVH_VECTR", "no constant of the clock and no check is called 'OVH_VECTR'; " ..
    "did you mean OVH_VECTOR?; soma-as --explain has the words of the language")
  usage("--explain runs nothing", "--explain race " .. add, "--explain takes one name and runs nothing")
end

-- ---- Findings ------------------------------------------------------------------------------------

do
  local racy = write("racy.s", [[
        target  trn2
x       tensor  float32[128, 4], input
y       tensor  float32[128, 4], output
t       tile    sbuf float32[128, 4]
loaded  sem
done    sem
q       queue   dge=hwdge
section sync
        dma_copy  t, x, queue=q   $loaded
        dma_copy  y, t, queue=q   $done>=1
        halt
section vector
        tensor_scalar t, t, op0=mult, imm0=2.0  $loaded>=1 $done++
        halt
]])
  local status, out, err = run(racy .. " --in x=ones --check race --schedule 4 --expect y=zeros --out y=" .. path "racy.npy")
  expect("with findings outputs are saved", status == 1 and read "racy.npy" ~= nil, err)
  expect("and compared, and other schedules are tried", err:find("racy.s:13: race: ", 1, true) and
    err:find("y differs from zeros", 1, true) and err:find("gives other bits in tensor y", 1, true), err)
end

-- ---- Static checks ------------------------------------------------------------------------------

local high = write("high.s", "target trn2\ns sem\nsection sync\n nop $s++\n halt\nsection vector\n nop $s>=2\n halt\n")
local never = high .. ":7: warning: the wait $s>=2 cannot hold: all updates together bring it to 1; " ..
  "fix: wait for 1 [-w+impossible-wait]\n"
check("--lint", high .. " --lint", {err = never})
check("--lint says nothing twice", dead .. " --lint", {err = dead .. ":4:18: warning: nothing updates the " ..
  "semaphore `s`, so this wait never ends [-w+never-signalled]\n   event_semaphore $s>=1\n                   ^~~~~\n"})
check("--lint of what is right", add .. " --lint", {})
do
  local status, _, err = run(high .. " --check all")
  expect("--check tells before the run", status == 1 and err:find(never, 1, true) == 1 and
    err:find(": deadlock: ", 1, true), err)
end

-- ---- Bad usage ----------------------------------------------------------------------------------

usage("nothing given", "", "no program given")
usage("an unknown option", add .. " --taget trn2", "unknown option --taget, did you mean --target?")
usage("a strange option", add .. " --frobnicate", "unknown option --frobnicate")
usage("-x without --debug", add .. " -x f", "-x is for --debug, which is not given")
usage("--debug and a trace", add .. " --debug --trace t.json", "--trace does not go with --debug")
usage("--debug and --log", add .. " --debug --log", "--log does not go with --debug: its command is log on")
usage("--debug of standard input", "- --debug", "the program is standard input, so the commands of --debug need -x FILE")
usage("a short option", add .. " -y", "unknown option -y")
fails("two programs, one not there", add .. " " .. path "none.s", "cannot read '" .. path "none.s" .. "': No such file or directory")
usage("two programs, one without a name", add .. " -", "several files are linked: each needs a name, not -")
do -- several sources, linked on the way
  local main = write("main.s", "n equ ROUNDS\ny tensor float32[4, 4], output\nt tile sbuf float32[4, 4]\nq queue\nextern done sem\nglobal t\n" ..
    "section vector\nextern fill\n mov r1, n\n call r63, fill\n halt\nsection sync\n dma_copy y, t, queue=q $done>=1\n halt\n")
  local part = write("part.s", "extern t tile sbuf float32[4, 4]\ndone sem\nglobal done\nsection vector\nglobal fill\n" ..
    "fill: memset t, VALUE $done++\n ret r63\n")
  local both = main .. " " .. part .. " -D ROUNDS=2 -D VALUE=3.0"
  check("two sources", both .. " --expect y=" .. npy("threes.npy", "<f4", "(4, 4)", string.rep(string.pack("<f", 3), 16)) .. " --quiet", {})
  check("two sources, a define that neither reads", both .. " -D NONE --quiet",
    {err = "<command line>:3:9: warning: nothing reads `NONE` [-w+unused-define]\n  %define NONE 1\n          ^~~~\n"})
  os.execute(command:gsub("soma$", "soma-as") .. " -r -D VALUE=3.0 " .. part .. " -o " .. path "part.o")
  check("a source and an object", main .. " " .. path "part.o" .. " -D ROUNDS=1 --expect y=" .. path "threes.npy" .. " --quiet", {})
  check("two sources, an error in the second", main .. " " .. part .. " -D ROUNDS=1 --quiet", {status = 1, err =
    part .. ":6:17: error: `VALUE` is not defined\n  fill: memset t, VALUE $done++\n                  ^~~~~\n"})
  check("two sources, a name that is missing", main .. " " .. add .. " -D ROUNDS=1 -D N=4 --quiet", {status = 1, err =
    main .. ":5: error: the semaphore `done`, which " .. main .. " uses, is not global in " .. add .. "\nnote: " .. add ..
    " needs the line `global done`\n" .. main .. ":8: error: no object has the label `fill`, which " .. main .. " uses\n"})
  usage("two sources, an output over one", both .. " --out y=" .. part, "--out y would write over the program, " .. part)
  check("two sources in a sandbox", "--sandbox " .. both, {status = 2,
    err = "soma: a sandbox runs one program\ntry soma --sandbox --help\n"})
  for _, name in ipairs {"main.s", "part.s", "part.o", "threes.npy"} do os.remove(path(name)) end
end
usage("--in without a value", add .. " --in", "--in needs a value")
usage("--in without a file", add .. " --in x", "--in takes NAME=FILE.npy, not 'x'")
usage("--in without a name", add .. " --in =x.npy", "--in takes NAME=FILE.npy, not '=x.npy'")
usage("--out twice", add .. " --out k=a --out k=b", "--out names 'k' twice")
usage("--in of no tensor", add .. ins .. " --in y=" .. x, "--in y: the program has no tensor 'y'; its tensors: x, k")
usage("--out of no tensor", add .. ins .. " --out y=" .. x, "--out y: the program has no tensor 'y'; its tensors: x, k")
usage("--in of a program without tensors", loop .. ins, "--in x: the program has no tensor 'x'")
usage("an input without data", add, "input tensor 'x' has no data: give --in x=FILE.npy, or --in x=randn:1")
usage("--target", add .. " --target trn9", "--target takes one of trn1, inf2, trn2, trn3, not 'trn9'")
check("-D that nothing reads", add .. " -DM=4 -DN=4 --quiet --in x=" .. path "x4.npy",
  {err = "<command line>:1:9: warning: nothing reads `M` [-w+unused-define]\n  %define M 4\n          ^\n"})
usage("-D without a name", add .. " -D =3", "-D takes NAME or NAME=VALUE, not '=3'")
usage("-D of a number", add .. " -D3=4", "-D takes NAME or NAME=VALUE, not '3=4'")
usage("-D of a .sbc", path "add.sbc" .. " -D N=3", "-D and -I are for source text; '" .. path "add.sbc" .. "' is assembled already")
usage("--max-instructions of words", add .. " --max-instructions many", "--max-instructions takes a whole number of at least 1, not 'many'")
usage("--max-instructions of a half", add .. " --max-instructions 2.5", "--max-instructions takes a whole number of at least 1, not '2.5'")
usage("--max-instructions 0", add .. " --max-instructions 0", "--max-instructions takes a whole number of at least 1, not '0'")
for _, n in ipairs {"0", "257", "1.5", "all"} do
  usage("--threads " .. n, add .. " --threads " .. n, "--threads takes a whole number from 1 to 256, not '" .. n .. "'")
end
usage("--max-ns", add .. " --max-ns -1", "--max-ns takes a positive number, not '-1'")
usage("--max-cpu-seconds", add .. " --max-cpu-seconds 0", "--max-cpu-seconds takes a positive number, not '0'")
usage("--max-seconds", add .. " --max-seconds nan", "--max-seconds takes a number of seconds, 0 for no limit, not 'nan'")
usage("two tensors, one .npy", add .. ins .. " --out k=" .. path "o.npy" .. " --out x=" .. path "o.npy",
  "--out k and --out x both write " .. path "o.npy")
usage("two outputs, one file", add .. ins .. " --html " .. path "o" .. " --csv Summary=" .. path "o",
  "--csv Summary and --html both write " .. path "o")
usage("an output onto the program", add .. ins .. " --trace " .. add, "--trace would write over the program, " .. add)
usage("saving onto the program", add .. ins .. " --save " .. add, "--save would write over the program, " .. add)
usage("--html twice", add .. ins .. " --html a --html b", "--html is given twice")
usage("a table twice", add .. ins .. " --csv Summary=a --csv Summary=b", "--csv names 'Summary' twice")
usage("no such table", add .. ins .. " --csv Foo=a", "--csv: there is no table 'Foo'; there are: " ..
  "Instruction, DmaPacket, SemaphoreUpdate, ActiveTime, Summary, CcOp, CcInstruction, CcStream")
usage("a time that ends before it begins", add .. ins .. " --trace-from 9 --trace-until 9 --timeline",
  "--trace-until must be more than --trace-from")
usage("a limit of nothing", add .. ins .. " --trace-last 5",
  "--trace-last is for --trace, --html, --csv, --timeline and --explain-time: none is given")
usage("--quiet=yes", add .. " --quiet=yes", "--quiet takes no value")

-- ---- What cannot be done ------------------------------------------------------------------------

fails("no such source", path "no.s", "cannot read '" .. path "no.s" .. "': No such file or directory")
fails("no such .sbc", path "no.sbc", "cannot read '" .. path "no.sbc" .. "': No such file or directory")
fails("a folder", dir, "cannot read '" .. dir .. "': Is a directory")
fails("not a .sbc", write("bad.sbc", "hello"), path "bad.sbc" .. ": byte 0x0: not a program file: it does not begin with \\x7fSBC")
fails("no such .npy", add .. " --in x=" .. path "no.npy", "cannot read '" .. path "no.npy" .. "': No such file or directory")
fails("not a .npy", add .. " --in x=" .. add, add .. ": not a valid .npy file: it does not start with the .npy magic")
fails("another type", add .. " --in x=" .. npy("i.npy", "<i4", "(4, 2)", floats(0, 8)), "tensor x is float32[4, 2], but the data given is int32[4, 2]")
fails("another shape", add .. " --in x=" .. path "x4.npy", "tensor x is float32[4, 2], but the data given is float32[4, 4]")
fails("float64", add .. " --in x=" .. npy("d.npy", "<f8", "(4, 2)", floats(0, 16)),
  path "d.npy" .. ": holds float64, which the machine lacks: store it as float32, or load it with {dtype = \"float32\"}")
fails("another target", add .. ins .. " --target trn1", "the program is for trn2, but the machine is a trn1")
fails("no place for the output", add .. ins .. " --out k=" .. path "no/k.npy", "cannot write '" .. path "no/k.npy" .. "': No such file or directory")
fails("no place for the trace", add .. ins .. " --trace " .. path "no/t", "cannot write '" .. path "no/t" .. "': No such file or directory")
fails("a full device", add .. ins .. " --out k=/dev/full", "cannot write '/dev/full': No space left on device")
check("standard output is full", add .. ins, {status = 1, err = "soma: cannot write to standard output\n"}, "sh -c 'exec \"$@\" >/dev/full' sh")
check("an error in the source", write("bad.s", "  bogus r1\n"), {status = 1, err = lines_of(
  (os.getenv "BUILD" or "build") .. "/soma-as -o /dev/null " .. path "bad.s" .. " 2>&1")})

fails("standard input is closed", "-", "cannot read standard input: Bad file descriptor", "0<&-")
fails("a folder of constants", add .. " --cost " .. dir, "cannot read '" .. dir .. "': Is a directory")
fails("constants that are not text", add .. " --cost " .. write("bad.cost", "\147\27[31mX 1\n"),
  path "bad.cost" .. ":1: there is no constant ??[31mX")

-- ---- What went well is said ---------------------------------------------------------------------

do
  local _, out = run(add .. ins .. " --check race,uninit --schedule 2")
  expect("checks and schedules in the summary", out:find("\nchecks        race,uninit: nothing found\n" ..
    "schedules     2 more, the same bits\n$"), out)
  local _, figures, text = run(add .. ins .. " --json --timeline --explain-time")
  expect("--json is alone on standard output", figures:sub(1, 2) == "{\n" and figures:sub(-2) == "}\n", figures)
  expect("the rest is on standard error", text:find("timeline", 1, true) or text:find("critical path: ", 1, true), text)
  local file = write("prog", lines_of((os.getenv "BUILD" or "build") .. "/soma-as -o - " .. add))
  check("a program file of another name", file .. ins .. " --quiet", {})
  check("a program file on standard input", "-" .. ins .. " --quiet <" .. file, {})
  usage("-D of such a program", file .. " -D N=3", "-D and -I are for source text; '" .. file .. "' is assembled already")
end

-- ---- Scripts ------------------------------------------------------------------------------------

local function script(text) return write("s.lua", text) end
check("arguments", script "print(arg[0], arg[1], arg[2], #arg, ...)" .. " a 'b c'",
  {out = path "s.lua" .. "\ta\tb c\t2\ta\tb c\n"})
for _, n in ipairs {45, 60, 1000, 20000} do -- Lua's stack has room for 40
  local numbers = {}
  for i = 1, n do numbers[i] = i end
  check(n .. " arguments", script "print(#arg, arg[#arg], select('#', ...), (select(-1, ...)))" .. " " .. table.concat(numbers, " "),
    {out = ("%d\t%d\t%d\t%d\n"):format(n, n, n, n)})
end
check("options after the script are its own", script "print(...)" .. " --json --help", {out = "--json\t--help\n"})
check("require", script "print(require('soma').version, require 'soma' == require 'soma')", {out = read "out" and
  lines_of(command .. " --version"):match("soma (.-)\n") .. "\ttrue\n"})
check("os.exit", script "os.exit(3)", {status = 3})
check("return", script "return 4", {status = 4})
for _, n in ipairs {256, 300, -1, 1 << 40} do
  local said = ("an exit status is 0 to 255, not %d)\nstack traceback:\n\t[C]: in function 'os.exit'\n\t%s:1: in main chunk\n\t[C]: in ?\n")
    :format(n, path "s.lua")
  check("os.exit of what would wrap", script("os.exit(" .. n .. ")"),
    {status = 1, err = "soma: " .. path "s.lua" .. ":1: bad argument #1 to 'exit' (" .. said})
  check("return of what would wrap", script("return " .. n),
    {status = 1, err = ("soma: the script returned %d: an exit status is 0 to 255\n"):format(n)})
end
check("os.exit with a boolean", script "os.exit(false)", {status = 1})
check("os.exit of the last that does not", script "os.exit(255, true)", {status = 255})
check("os.exit alone", script "os.exit()", {})
check("an error", script "error('boom', 0)", {status = 1, err =
  "soma: boom\nstack traceback:\n\t[C]: in function 'error'\n\t" .. path "s.lua" .. ":1: in main chunk\n\t[C]: in ?\n"})
check("an error that is a table", script "error(setmetatable({}, {__tostring = function() return 'mine' end}))",
  {status = 1, err = "soma: mine\n"})
check("a fault in a script", script(("local soma = require 'soma'\nsoma.core {}:run(soma.assemble_file '%s')\n"):format(div)),
  {status = 1, err = "soma: " .. div .. ":4: fault: division by zero\n  div r0, r1, r1\n  on sync, pc 1, at 1 ns\n"})
check("a syntax error", script "for", {status = 1, err = "soma: " .. path "s.lua" .. ":1: <name> expected near <eof>\n"})
check("no such script", path "no.lua", {status = 1, err = "soma: cannot open " .. path "no.lua" .. ": No such file or directory\n"})

-- ---- Data that are made, results that are expected, standard output -------------------------------

local double = write("double.s", [[
        target  trn2
x       tensor  float32[4, 8], input
y       tensor  float32[4, 8], output
t       tile    sbuf float32[4, 8]
l       sem
d       sem
q       queue   dge=hwdge
section sync
        dma_copy t, x, queue=q $l
        dma_copy y, t, queue=q $d>=1
        halt
section vector
        tensor_scalar t, t, op0=mult, imm0=2.0 $l>=16 $d++
        halt
]])
local function made(spec, want)
  check("--in x=" .. spec, double .. " --quiet --in x=" .. spec .. " --out y=" .. path "y.npy", {})
  local soma = require "soma"
  local got = soma.load_npy(path "y.npy")
  expect("the values of " .. spec, soma.equal(got, want(soma) * 2))
end
made("zeros", function(s) return s.zeros({4, 8}, "float32") end)
made("ones", function(s) return s.ones({4, 8}, "float32") end)
made("arange", function(s) return s.arange(32, "float32"):reshape {4, 8} end)
made("randn:7", function(s) return s.randn({4, 8}, "float32", {seed = 7}) end)
made("uniform:3:-1:5", function(s) return s.uniform({4, 8}, "float32", {seed = 3, low = -1, high = 5}) end)
fails("uniform upside down", double .. " --in x=uniform:1:3:2", "--in x: uniform:SEED:LO:HI needs LO below HI, not 3 and 2")
fails("randn of a word", double .. " --in x=randn:1:2",
  "--in x: data can be made by zeros, ones, arange, randn[:SEED] or uniform[:SEED[:LO:HI]], not by 'randn:1:2'")
check("--expect", double .. " --quiet --in x=ones --expect y=" .. path "y.npy" .. " --atol 100", {})
do
  local status, out, err = run(double .. " --quiet --in x=ones --expect y=ones")
  expect("--expect of another", status == 1 and out == "" and
    err:find("soma: error: y differs from ones: not close: 32 of 32 elements differ", 1, true), err)
  status, out, err = run(double .. " --in x=ones --out y=-")
  expect("--out -", status == 0 and out:sub(1, 6) == "\147NUMPY" and err:find "^simulated time", err)
  status, out = run(double .. " --in x=ones --csv Summary=/dev/stdout --quiet")
  expect("a table to standard output that is a file", status == 0 and out:find "^total_time,", out)
  status, out = run(double .. " --timing-only")
  expect("--timing-only", status == 0 and out:find "^simulated time", out)
end
usage("two to standard output", double .. " --in x=ones --out y=- --trace -", "--trace and --out y both write to standard output")
usage("--json and a file to standard output", double .. " --in x=ones --out y=- --json", "--out y and --json both write to standard output")
usage("--timing-only saves nothing", double .. " --timing-only --out y=y.npy", "--out does not go with --timing-only, which computes nothing")
usage("--rtol alone", double .. " --in x=ones --rtol 1", "--rtol is for --expect, which is not given")
usage("--atol of a word", double .. " --in x=ones --atol no", "--atol takes a number of at least 0, not 'no'")
usage("--expect of no tensor", double .. " --in x=ones --expect z=ones", "--expect z: the program has no tensor 'z'; its tensors: x, y")

-- ---- Lua on the command line ----------------------------------------------------------------------

check("-e", [[-e 'print(soma.pi or soma.version == require("soma").version, ..., arg[2])' a b]], {out = "true\ta\tb\n"})
check("-e has a status", "-e 'return 7'", {status = 7})
check("a status does not wrap", "-e 'return 256'", {status = 1, err = "soma: the script returned 256: an exit status is 0 to 255\n"})
check("-e without code", "-e", {status = 2, err = "soma: -e needs Lua code\n"})
check("-e of no code", "-e 'x('", {status = 1, err = "soma: -e:1: unexpected symbol near <eof>\n"})
check("-i", "-i", {out = "soma " .. require "soma".version .. ", Lua 5.4; `help` explains, Ctrl-D ends\n> 2\n> >> > 1\n> > \n",
  err = "soma: input:1: no\n"}, "printf '1 + 1\\nx = {\\n1}\\nprint(#x)\\nerror(\"no\")' |")
do
  local text = lines_of("printf 'help\\nhelp()\\n' | " .. command .. " -i"):match "\n> (.*)\n> \n$"
  local first, second = text:match "^(.-)\n> (.*)$"
  expect("-i has help", first and first == second and first:find("assemble_file", 1, true) and first:find " zeros\n")
end
check("-i with arguments", "-i x", {status = 2, err = "soma: -i takes no arguments: 'x'\n"})

-- ---- Help, colours, interrupts --------------------------------------------------------------------

do
  local status, out, err = run "--help"
  expect("--help", status == 0 and err == "" and out:match "^usage: soma PROGRAM")
  for option in pairs {["--in"] = 1, ["--out"] = 1, ["--target"] = 1, ["-D"] = 1, ["-I"] = 1, ["--json"] = 1,
    ["--trace"] = 1, ["--quiet"] = 1, ["--max-instructions"] = 1, ["--max-ns"] = 1, ["--max-seconds"] = 1, ["--max-cpu-seconds"] = 1,
    ["--explain-time"] = 1, ["--costs"] = 1, ["--cost "] = 1, ["--trace-last"] = 1, ["--trace-limit"] = 1,
    ["--trace-engines"] = 1, ["--trace-from"] = 1, ["--trace-until"] = 1, ["--version"] = 1, ["--threads"] = 1,
    ["--expect"] = 1, ["--rtol"] = 1, ["--atol"] = 1, ["--timing-only"] = 1, ["-e "] = 1, ["-i "] = 1} do
    expect("--help tells of " .. option, out:find(option, 1, true))
  end
  for line in out:gmatch "[^\n]+" do expect("--help fits a terminal", #line <= 100, line) end
  status, out, err = run(add .. " --help")
  expect("--help anywhere", status == 0 and out:match "^usage: ")
  status, out, err = run "--version"
  expect("--version", status == 0 and err == "" and out:match "^soma %d+%.%d+%.%d+\nsandbox: [^\n]*filter[^\n]*\n$")
end
do -- the debugger and the log
  local status, out, err = run(add .. ins .. " --debug --out k=" .. path "debugged.npy", "printf 'continue\\n' |")
  expect("--out after --debug", status == 0 and err == "" and out:find("ended well", 1, true) and read "debugged.npy", out .. err)
  status, out, err = run(add .. ins .. " --debug --out k=" .. path "not.npy", "printf 'step\\n' |")
  expect("--out of a run that has not ended", status == 1 and err:find("nothing is saved", 1, true) and not read "not.npy", err)
  status, out, err = run(add .. ins .. " --log --quiet")
  local n = select(2, err:gsub("\n", ""))
  expect("--log", status == 0 and out == "" and n == 5 and err:find("waited [%d.]+ ns ; min [-%d.]+ max [-%d.]+ NaN 0"), err)
  status, out, err = run(add .. ins .. " --debug -x /nowhere/commands")
  expect("-x of no file", status == 1 and err == "soma: error: cannot read '/nowhere/commands': No such file or directory\n", err)
  local saved = path "half.run"
  run(add .. ins .. " --debug", "printf 'until 1us\\nsave " .. saved .. "\\n' |")
  run(add .. ins .. " --debug --save " .. saved, "printf 'until 1us\\n' |")
  status, out, err = run("--resume " .. saved .. " --quiet --out k=" .. path "rest.npy")
  expect("--debug with --save, and on from there", status == 0 and err == "" and read "rest.npy" == read "debugged.npy", out .. err)
  status, out, err = run(div .. " --debug --save " .. path "fault.run", "printf 'continue\\n' |")
  expect("--debug with --save after a fault", status == 0 and err == "" and not read "fault.run", out .. err)
  status, out, err = run("--resume " .. saved .. " --debug", "printf 'back\\nuntil 500\\ncontinue\\n' |")
  expect("--resume with --debug", status == 0 and out:find("cannot go back before", 1, true) and out:find("ended well", 1, true), out .. err)
end
if os.execute("command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1") then
  local function terminal(shell) return lines_of("script -qec '" .. shell .. "' /dev/null </dev/null") end
  expect("colours on a terminal", terminal(command .. " --bad") == "soma: \27[1;31merror:\27[0m unknown option --bad\r\ntry soma --help\r\n")
  expect("NO_COLOR", terminal("NO_COLOR=1 " .. command .. " --bad") == "soma: error: unknown option --bad\r\ntry soma --help\r\n")
  expect("NO_COLOR empty is no wish", terminal("NO_COLOR= " .. command .. " --bad"):find("\27", 1, true))
  expect("colours of diagnostics", terminal(command .. " " .. path "bad.s"):find(":1:3: \27[1;31merror:\27[0m", 1, true))
  expect("colours of faults", terminal(command .. " " .. div):find(":4: \27[1;31mfault: \27[0m", 1, true))
  if os.execute("ldd " .. command .. " | grep -q libedit") then
    local keys = "(sleep 0.3; printf 'br\\t16\\n'; sleep 0.3; printf 'contin\\t\\n'; sleep 0.3; printf 'print $lo\\t\\nq\\n'; sleep 0.3)"
    local text = lines_of(keys .. " | TERM=dumb script -qec '" .. command .. " --debug " .. add .. ins .. "' /dev/null")
    expect("completion in the debugger", text:find("stop 1 at", 1, true) and text:find("$loaded = 16\r\n", 1, true), text)
  end
  local stopped = terminal("SOMA_MAX_SECONDS=0.2 " .. command .. " " .. loop)
  expect("a run without a limit stops on a terminal", stopped:find("%d+%.%d s of host time have passed, the limit is 0%.2 s") and
    stopped:find("soma: on a terminal a run without a limit stops after 0.2 s; --max-seconds 0 lifts that, --max-seconds N sets another limit\r\n", 1, true), stopped)
  for _, limit in ipairs {"--max-seconds 0 --max-instructions 100000", "--max-seconds 0.3", "--max-ns 1e5"} do
    stopped = terminal("SOMA_MAX_SECONDS=1e-9 " .. command .. " " .. loop .. " " .. limit)
    expect("with " .. limit .. " there is no other", stopped:find("limit", 1, true) and not stopped:find("on a terminal", 1, true), stopped)
  end
  local said = terminal("timeout -s INT 3 " .. command .. " " .. loop)
  expect("a progress line after two seconds", said:find("\r%d+%.%d s: %d+ instructions, [%d.]+ us simulated \27%[K"), said)
end
for name, file in pairs {program = loop, script = script(
  ("local soma = require 'soma'\nsoma.core {}:run(soma.assemble_file '%s')\n"):format(loop)),
  ["script without a run"] = write("spin.lua", "while true do end\n")} do
  local status, out, err = run(file, "timeout --preserve-status -s INT 1")
  expect("Ctrl-C in a " .. name, status == 130 and err:find("interrupted", 1, true), status .. ": " .. err)
  if name == "program" then
    expect("with a summary", err == "soma: error: interrupted\n" and out:find "^simulated time", err .. out)
  end
end

-- ---- Worlds of ranks ------------------------------------------------------------------------------

do
  local swap = write("swap.s", [==[
        target  trn1
g       group   [[0, 1]]
x       tensor  float32[64], input
y       tensor  float32[64], output
done    sem
came    sem
qcc     queue   dge=none, owner=cc0
section gpsimd
swap:   collective_permute dsts=[y], srcs=[x], pairs=[[0, 1], [1, 0]]   $done++
        nop     $done>=1
        halt
section cc0
        wait_start  gpsimd.swap
        dma_copy    y.rank[g.next], x, queue=qcc   $came.rank[g.next]
        nop         $came>=16
        complete    gpsimd.swap
]==])
  check("--ranks", swap .. " --ranks 2 --in x=zeros --in 1:x=ones --out y=" .. path "y-%r.npy" .. " --quiet", {})
  local soma = require "soma"
  verdict("--ranks gives each rank its own", soma.load_npy(path "y-0.npy")[0] ~= 1.0 or soma.load_npy(path "y-1.npy")[0] ~= 0.0)
  check("--ranks reports", swap .. " --ranks 2 --in x=ones", {out = "world         2 ranks on trn1.2xlarge\ncollectives   fitted to published times of this instance: other large messages may be off by a fifth, those below 64 KiB by half\n" ..
    "time          5.111 us\nrank 0        7 instructions, 1 transfers, 256 bytes by DMA\nrank 1        7 instructions, 1 transfers, 256 bytes by DMA\n" ..
    "collective    rank 0: collective_permute by section, at 0.000 us for 5.080 us (" .. swap .. ":9)\n" ..
    "collective    rank 1: collective_permute by section, at 0.000 us for 5.080 us (" .. swap .. ":9)\n"})
  local _, changed = run(swap .. " --ranks 2 --in x=ones --target 'trn1, DMA_R_IN=40000'")
  expect("--ranks names a hypothetical machine", changed:find "^world .*\nmachine       hypothetical trn1, DMA_R_IN=40000\ncollectives ", changed)
  local hyp, saved = " --target 'trn1, DMA_R_IN=40000'", path "hyp.world"
  run(swap .. " --ranks 2 --in x=ones --max-ns 3000 --save " .. saved .. hyp)
  local _, whole = run("--resume " .. saved .. hyp)
  expect("--resume of a world of a hypothetical machine", whole == changed, whole)
  local _, named = run("--resume " .. saved)
  expect("--resume of it, whose file has its target", named == changed, named)
  fails("--resume of it on another one", "--resume " .. saved .. " --target trn1",
    saved .. ": the program of rank 0 is for hypothetical trn1, DMA_R_IN=40000, but trn1.2xlarge is of trn1")
  usage("--ranks of a script", "--ranks 2 x.lua", "'x.lua' is a script, whose arguments follow it: soma x.lua [arguments]")
  usage("--ranks: one file for all", swap .. " --ranks 2 --in x=ones --out y=y.npy",
    "--out y=y.npy: each rank has one; %r in the file's name stands for the rank, as in y-%r.npy")
  usage("--ranks: no such rank", swap .. " --ranks 2 --in x=ones --in 2:x=ones", "--in 2:x: the ranks are 0 to 1")
  usage("--ranks: one rank has no data", swap .. " --ranks 2 --in 0:x=ones", "rank 1: input tensor 'x' has no data: give --in x=FILE.npy, or --in x=randn:1")
  local _, shown = run(swap .. " --ranks 2 --in x=ones --quiet --timeline --trace " .. path "ranks.json")
  local trace <close> = io.open(path "ranks.json")
  local both = trace and trace:read "a" or ""
  expect("--ranks --trace", both:find('"rank 0 engines"', 1, true) and both:find('"rank 1 engines"', 1, true), both:sub(1, 300))
  expect("--ranks --timeline", shown:find "^rank 0\n.*\ncc0 .*\nrank 1\n.*\ncc0 ", shown)
  fails("--ranks --trace where no folder is", swap .. " --ranks 2 --in x=ones --quiet --trace " .. path "none/t.json",
    "cannot write '" .. path "none/t.json" .. "': No such file or directory")
  run(swap .. " --ranks 2 --in x=ones --quiet --html " .. path "r%r.html" .. " --csv Instruction=" .. path "r%r.csv")
  for r = 0, 1 do
    local page <close> = io.open(path("r" .. r .. ".html"))
    local rows <close> = io.open(path("r" .. r .. ".csv"))
    expect("--ranks --html --csv", page and page:read "a":find("swap.s, rank " .. r, 1, true) and rows and #rows:read "a" > 100, tostring(rows))
  end
  run(swap .. " --ranks 2 --in x=ones --quiet --html " .. path "all.html")
  local all <close> = io.open(path "all.html")
  local text = all and all:read "a" or ""
  expect("--ranks --html, one page", text:find('"world":{"instance":', 1, true) and text:find('"path":{"rank":', 1, true), text:sub(1, 200))
  usage("--ranks: one archive for all", swap .. " --ranks 2 --in x=ones --out y.npz",
    "--out y.npz: each rank has its outputs; %r in the file's name stands for the rank, as in rank-%r.npz")
  usage("--ranks: one table for all", swap .. " --ranks 2 --in x=ones --csv Summary=s.csv",
    "--csv Summary=s.csv: each rank has one; %r in the file's name stands for the rank, as in Summary-%r.csv")
  fails("--ranks: no such algorithm", swap .. " --ranks 2 --in x=ones --algorithm rings", "world: unknown algorithm 'rings'; there are: auto, ring, mesh, mesh-single, rdh, kangaring")
  usage("--algorithm alone", swap .. " --in x=ones --algorithm ring", "--algorithm is for --ranks, which is not given")
  local _, checked = run(swap .. " --ranks 2 --in x=ones --check all --schedule 2")
  expect("--ranks and checks", checked:find("\nchecks        all: nothing found\nschedules     2 more, the same bits\ncollective ", 1, true), checked)
  local text <close> = io.open(swap)
  local early = write("early.s", (text:read "a":gsub("came    sem", "%0\nz       tensor  float32[64], output\nq       queue   dge=none")
    .. "section sync\n        dma_copy    z, y, queue=q\n        halt\n"))
  local _, _, found = run(early .. " --ranks 2 --in x=ones --check race")
  expect("--ranks tells a race once", found:find("^soma: rank 0: [^\n]*early.s:%d+: race: a transfer of queue q reads what a push of rank 1 writes, and nothing orders the two\n"), found)
  expect("--ranks tells who has a race", found:find("\n  also in rank 1\n$"), found)
  usage("--ranks and all schedules", swap .. " --ranks 2 --in x=ones --schedule all", "--schedule all does not go with --ranks: it is not built for a world of ranks; --schedule 20 tries 20 timings")
  local sum = write("sum.s", "target trn1\ng group [[0, 1]]\nx tensor float32[64], input\ny tensor float32[64], output\ndone sem\n" ..
    "section gpsimd\n all_reduce dsts=[y], srcs=[x], group=g, op=add $done++\n nop $done>=1\n halt\n")
  local planned = {}
  for r = 0, 1 do
    local status, text = run(sum .. " --ranks 2 --plan " .. r)
    expect("--plan", status == 0 and text:find("section cc0", 1, true) and text:find "wait_start" and text:find "all_reduce", text)
    planned[r] = soma.assemble(text)
  end
  local x = {[0] = soma.ones {64}, soma.full({64}, 3)}
  local function sums(p) return soma.world {ranks = 2, target = "trn1"}:run(p, function(r) return {x = x[r]} end) end
  expect("--plan gives what runs", sums(planned).hash == sums(soma.assemble_file(sum)).hash)
  usage("--plan of no rank", sum .. " --ranks 2 --plan 2", "--plan 2: the ranks are 0 to 1")
  usage("--plan alone", sum .. " --plan 0", "--plan is for --ranks, which is not given")
  local stop = path "stopped.world"
  check("--ranks --save", swap .. " --ranks 2 --in x=ones --max-ns 3000 --save " .. stop,
    {status = 1, err = "soma: simulated time reached its limit of 3000 ns\nsoma: the world is saved; continue with: soma --resume " .. stop .. "\n"})
  check("--resume of a world", "--resume " .. stop .. " --out y=" .. path "z-%r.npy" .. " --quiet", {})
  expect("--resume of a world ends as the world", (soma.equal(soma.load_npy(path "z-1.npy"), soma.ones {64})))
  usage("--resume of a world: one file for all", "--resume " .. stop .. " --out y=y.npy", "--out y=y.npy: each rank has one; %r in the file's name stands for the rank, as in y-%r.npy")
  usage("--lnc alone", swap .. " --lnc 2 --in x=ones", "--lnc is for --ranks, which is not given")
  fails("--ranks needs room", swap .. " --ranks 40 --in x=ones", "world: no instance of trn1 has 40 cores, for 40 ranks of 1; trn1.32xlarge has 32")
  fails("one core alone", swap .. " --in x=ones", "the program sends to other ranks of a world: start one with `soma --ranks N PROGRAM.s` or soma.world{ranks = N}")
end

os.execute("rm -r " .. dir)
print(passed .. " passed, " .. failed .. " failed")
os.exit(failed == 0)
