#!/bin/sh
# A world of ranks over the processes of an MPI job: what one process prints and writes, byte for byte, for
# any number of processes and threads; faults, deadlocks, limits; sweeps and worlds in one script; a process
# that is killed, has an error, ends early or has another world. Each job is killed after 60 s.
: "${BUILD:=build}"
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # NAME STATUS
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $1"; fi
}
if [ ! -x "$BUILD/soma-mpi" ] || ! command -v mpirun >/dev/null; then
  echo "mpi_world: skipped, there is no mpicc or no mpirun (libopenmpi-dev, openmpi-bin)"
  echo "0 passed, 0 failed"
  exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
job() { # PROCESSES ARGUMENT...
  n=$1
  shift
  timeout 60 mpirun --oversubscribe -n "$n" "$BUILD/soma-mpi" "$@"
}
# The same of one process, and of jobs of several.
same() { # NAME JOBS SCRIPT ARGUMENT...
  name=$1 jobs=$2
  shift 2
  rm -rf "$work/1"
  mkdir "$work/1"
  (cd "$work/1" && timeout 60 "$BUILD/soma" "$@") >"$work/out" 2>"$work/err1"
  status=$?
  sed 's/^soma: //' "$work/err1" >"$work/want"
  for n in $jobs; do
    rm -rf "$work/now"
    mkdir "$work/now"
    (cd "$work/now" && job "$n" "$@") >"$work/out.$n" 2>"$work/err"
    [ $? -eq "$status" ]
    check "$name: the status of $n processes: $(cat "$work/err")" $?
    diff "$work/out" "$work/out.$n" >"$work/diff"
    check "$name: $n processes print what one prints: $(head -c 500 "$work/diff")" $?
    diff -r "$work/1" "$work/now" >"$work/diff"
    check "$name: $n processes write what one writes: $(head -c 500 "$work/diff")" $?
    sed -n "s/^soma-mpi: process 0 of $n: //p" "$work/err" >"$work/said"
    [ "$(head -1 "$work/said")" = "$(head -1 "$work/want")" ]
    check "$name: $n processes say what one says: $(cat "$work/err")" $?
  done
}

# An all_reduce again and again, then a part of the result in SBUF; all that can be asked is printed.
cat >"$work/world.lua" <<'END'
local soma = require "soma"
local n, algorithm, timing, threads = tonumber(arg[1]), arg[2], arg[3] == "timing", tonumber(arg[4])
local lnc = tonumber(arg[5] or 1)
local list = {}
for r = 0, n - 1 do list[#list + 1] = r end
table.sort(list, function(a, b) return (a * 7 + 1) % 37 < (b * 7 + 1) % 37 end)
local cores = lnc == 2 and "core=*" or ""
local prog = soma.assemble(([==[
target trn2
tp group [[%s]]
x tensor float32[%d], input
y tensor float32[%d], output
z tensor float32[%d], output
t tile sbuf float32[1, 64]
q queue dge=none%s
m sem %s
done sem %s
section gpsimd
mov r1, 3
again: all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++
event_semaphore $done>=1 $done--
sub r1, r1, 1
bne r1, 0, again
all_to_all dsts=[z], srcs=[y], group=tp $done++
nop $done>=1
dma_copy t, y[0:64].ap([[64, 1], [1, 64]]), queue=q $m
nop $m>=16
halt
%s]==]):format(table.concat(list, ","), n * 96, n * 96, n * 96, lnc == 2 and ", core=*" or "", cores, cores,
  lnc == 2 and "section gpsimd core=1\nmov r1, 7\nhalt\n" or ""))
local w = soma.world {
  ranks = n, lnc = lnc, algorithm = algorithm ~= "auto" and algorithm or nil, timing_only = timing, threads = threads, max_time = 1000000,
}
for _ = 1, 2 do
  local runs = w:run(prog, function(rank) return {x = soma.randn({n * 96}, "float32", {seed = rank + 1})} end)
  print(w, runs.time_ns, runs.hash, runs.windows)
  local spread = tonumber(os.getenv "OMPI_COMM_WORLD_SIZE" or 1) > 1
  spread = spread and n > 2 -- two share a stack of HBM, which one process moves
  assert(not spread == not runs.transport and (not spread or runs.transport.calls >= 2 * runs.windows))
  for r = 0, n - 1 do
    if not timing then
      print(r, runs[r].out.y:bytes():byte(1, 8))
      print(r, runs[r].out.z:sum(), w.cores[r].sbuf:read "t":sum(), runs[r]:fetch "x":sum())
    end
    local keys = {}
    for k, v in pairs(runs[r].stats) do
      if type(v) ~= "table" and not k:find "host" and not k:find "cpu" and not k:find "per_second" then keys[#keys + 1] = k .. "=" .. tostring(v) end
    end
    table.sort(keys)
    print(table.concat(keys, " "))
  end
  for _, c in ipairs(runs.collectives) do print(c.rank, c.op, c.algorithm, c.bytes, c.start_ns, c.end_ns) end
  for _, l in ipairs(runs.links) do print(l.from, l.to, l.bytes, l.messages, l.waiting, l.waited_ns) end
end
END
same "four ranks of a device" "1 2 4" "$work/world.lua" 4 ring values 1
same "ranks of one stack" "2" "$work/world.lua" 2 auto values 1
same "ranks of two cores" "2" "$work/world.lua" 6 mesh values 1 2
same "three devices, threads" "2 3" "$work/world.lua" 24 mesh values 2
same "four devices, timing only" "3" "$work/world.lua" 32 ring timing 1

# Prints, traces and pages of ranks; such a world is moved whole by each process.
cat >"$work/told.lua" <<'END'
local soma = require "soma"
local text = [==[
target trn2
tp group [[0, 1, 2]]
x tensor float32[64], input
y tensor float32[64], output
done sem
section gpsimd
rank_id r1
%s
all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++
nop $done>=1
halt
]==]
local w = soma.world {ranks = 3, trace = true, print = true}
local runs = w:run(soma.assemble(text:format 'device_print "rank {r1}"'), function(rank) return {x = soma.full({64}, rank)} end)
assert(runs:save_trace "all.json")
assert(runs[1]:save_html "page.html")
assert(runs[2].out.y:save_npy "y.npy")
print(runs[0]:timeline(60), runs.hash)
w:close()
print(soma.world {ranks = 3}:run(soma.assemble(text:format ""), {x = soma.ones {64}}).hash)
END
same "prints, traces, a page" "2" "$work/told.lua"

# A rank that waits for ever, faults, goes on too long.
cat >"$work/bad.lua" <<'END'
local soma = require "soma"
local what = {stuck = "nop $done>=2", fault = "mov r1, 3\nmov r2, 0\ndiv r1, r1, r2", long = "mov r1, 0\nagain: bne r1, 1, again"}
local text = [==[
target trn2
tp group [[0, 1, 2, 3]]
x tensor float32[64], input
y tensor float32[64], output
done sem
section gpsimd
all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++
nop $done>=1
%s
halt
]==]
local good, bad = soma.assemble(text:format ""), soma.assemble(text:format(what[arg[1]] or what.long))
local w = soma.world {ranks = 4, max_time = 200000, max_instructions = arg[1] == "many" and 5000 or nil}
local progs = {[0] = good, good, bad, good}
local runs = w:run(progs, {x = soma.ones {64}}, {faults = "return"})
print(runs.fault, runs.time_ns, runs.hash)
for r = 0, 3 do print(r, runs[r].fault and runs[r].fault.text, runs[r].stats.instructions, runs[r]:fetch "y":sum()) end
w:run(progs, {x = soma.ones {64}})
END
for kind in stuck fault long many; do same "a world that ends badly: $kind" "2" "$work/bad.lua" $kind; done

# SBUF and temporary tensors, which stay where their rank was moved: read late, zeros over what was there, by a
# later program of a world that each process runs whole, in a saved world that has ended.
cat >"$work/late.lua" <<'END'
local soma = require "soma"
local text = [==[
target trn2
tp group [[0, 1, 2, 3, 4, 5]]
x tensor float32[768], input
u tensor float32[768], temp
y tensor float32[1, 64], output
t tile sbuf float32[1, 64]
q queue dge=none
m sem
done sem
section gpsimd
all_reduce dsts=[u], srcs=[x], group=tp, op=add $done++
event_semaphore $done>=1 $done--
%s
nop $m>=16
halt
]==]
local fill = soma.assemble(text:format "dma_copy t, u[0:64].ap([[64, 1], [1, 64]]), queue=q $m")
local look = soma.assemble(text:format "dma_copy y, t, queue=q $m")
local w = soma.world {ranks = 6, max_time = 1000000}
local function tile(r) return w.cores[r].sbuf:read "t":sum() end
local runs = w:run(fill, function(rank) return {x = soma.full({768}, rank + 1)} end)
print(runs[4]:fetch "u":sum(), tile(1), tile(5), tile(5))
local name = "ended.world"
assert(w:save(name))
local _, saved = soma.load_world(name)
print(saved[2]:fetch "u":sum())
runs = w:run(look, {x = soma.ones {768}})
print(runs[1].out.y:sum(), runs[3].out.y:sum(), runs.hash)
runs = w:run(fill, {x = soma.zeros {768}})
print(tile(1), tile(5), runs[0]:fetch "u":sum())
w:run(fill, {x = soma.ones {768}})
w:start(look, {x = soma.ones {768}})
runs = w:continue {until_ns = 5000}
runs = w:continue()
for r = 0, 5 do print(runs[r].out.y:sum(), tile(r)) end
END
same "memories that stay in a process" "1 2 3" "$work/late.lua"

# A world that is saved on the way, read by all processes, and goes on in them; in a folder that is not there.
cat >"$work/saved.lua" <<'END'
local soma = require "soma"
local prog = soma.assemble [==[
target trn2
tp group [[0, 1, 2, 3, 4, 5]]
x tensor float32[3072], input
y tensor float32[3072], output
done sem
section gpsimd
mov r1, 3
again: all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++
event_semaphore $done>=1 $done--
sub r1, r1, 1
bne r1, 0, again
halt
]==]
local function inputs(rank) return {x = soma.randn({3072}, "float32", {seed = rank + 1})} end
local w = soma.world {ranks = 6, max_time = 1000000}
local whole = w:run(prog, inputs)
for _, ns in ipairs {0, 20000, 41000} do
  w:start(prog, inputs)
  w:continue {until_ns = ns}
  local name = ("at%d.world"):format(ns)
  assert(w:save(name))
  print(w:save("none/" .. name))
  local again, runs = soma.load_world(name)
  local ended = again:continue()
  assert(ended.hash == whole.hash and runs[3].out.y:bytes() == whole[3].out.y:bytes())
  print(ended.hash, ended.time_ns, runs[5].out.y:sum())
  w:continue()
end
END
same "saved worlds" "1 2 3" "$work/saved.lua"

# Sweeps and worlds in one script; a world in a variant is of that process alone.
cat >"$work/both.lua" <<'END'
local soma = require "soma"
local prog = soma.assemble [==[
target trn2
tp group [[0, 1]]
x tensor float32[64], input
y tensor float32[64], output
done sem
section gpsimd
all_gather dsts=[y], srcs=[x[0:32]], group=tp $done++
nop $done>=1
halt
]==]
local function world(v)
  return soma.world {ranks = 2, max_time = 1000000}:run(prog, function(rank) return {x = soma.full({64}, v + rank)} end)
end
print(world(1).hash)
local rows = soma.sweep {over = {{"v", 1, 2, 3, 4, 5}}, run = function(v) return {sum = world(v.v)[1].out.y:sum()} end}
print(rows)
print(world(rows.rows[2].sum)[0].out.y:sum())
print(world(7)[0].out.y:sum())
print(soma.sweep {over = {{"v", 1, 2}}, run = function(v) return {a = v.v} end})
print(soma.sweep {over = {{"v", 3, 4}}, run = function(v) return {a = v.v} end})
print(world(8)[1].out.y:sum())
END
same "sweeps and worlds" "1 2 3" "$work/both.lua"

# ---- Processes that do not do the same ------------------------------------------------------------------
cat >"$work/head.lua" <<'END'
local soma = require "soma"
local rank = tonumber(os.getenv "OMPI_COMM_WORLD_RANK" or os.getenv "PMI_RANK")
local text = [==[
target trn2
tp group [[0, 1, 2, 3]]
x tensor float32[64], input
y tensor float32[64], output
done sem
section gpsimd
mov r1, 200000
again: all_reduce dsts=[y], srcs=[x], group=tp, op=%s $done++
event_semaphore $done>=1 $done--
sub r1, r1, 1
bne r1, 0, again
halt
]==]
local w = soma.world {ranks = 4, max_time = 1e10}
local function run(op, inputs)
  local runs = w:run(soma.assemble(text:format(op)), inputs or {x = soma.ones {64}})
  runs[0].out.y:save_npy(arg[1])
  print "done"
end
END
nothing() { # NAME: the job has printed and written nothing
  [ ! -s "$work/out" ] && ! ls "$work" | grep -q y.npy
  check "$1: nothing is printed or written" $?
}
ends() { # NAME SCRIPT TEXT: the job of two ends soon, with that text, without a file
  { cat "$work/head.lua" && printf '%s\n' "$2"; } >"$work/ends.lua"
  start=$(date +%s)
  job 2 "$work/ends.lua" "$work/y.npy" >"$work/out" 2>"$work/err"
  [ $? -ne 0 ] && [ $(($(date +%s) - start)) -le 20 ]
  check "$1 ends all: $(cat "$work/err")" $?
  grep -q "$3" "$work/err"
  check "$1 says so: $(cat "$work/err")" $?
  nothing "$1"
}
ends "an error in one" 'if rank == 1 then error("only here") end run "add"' "soma-mpi: process 1 of 2: .*ends.lua:[0-9]*: only here"
ends "an error of a rank's inputs" 'run("add", function(r) if rank == 1 and r == 3 then error("none", 0) end return {x = soma.ones {64}} end)' \
  "soma-mpi: process 1 of 2: .*the inputs of rank 3: none"
ends "another world" 'run(rank == 1 and "max" or "add")' "process 1 of 2 has a different world from process 0"
ends "other inputs" 'run("add", {x = soma.full({64}, rank)})' "process 1 of 2 has different inputs from process 0: .*need a seed"
ends "reads of other ranks" 'local w = soma.world {ranks = 4} w:run(soma.assemble(text:gsub("200000", "1"):gsub("done sem", "done sem\nt tile sbuf float32[1, 4]"):format "add"), {x = soma.ones {64}}) w.cores[rank].sbuf:read "t"' \
  "process 1 of 2 asks for memories of rank 1, process 0 for those of rank 0"
ends "reads of a world that is closed" 'local w = soma.world {ranks = 4} w:run(soma.assemble(text:gsub("200000", "1"):gsub("done sem", "done sem\nt tile sbuf float32[1, 4]"):format "add"), {x = soma.ones {64}}) local c = w.cores[3] w:close() c.sbuf:read "t"' \
  "process 0 of 2: .*SBUF and PSUM of this rank are in a process of its world, which is closed"
ends "an end before a world" 'if rank == 1 then os.exit(0) end run "add"' "process 0 of 2: process 1 has ended its script, but this one runs a world"
ends "an end of the first before a world" 'if rank == 0 then os.exit(0) end run "add"' "process 1 of 2: process 0 has ended its script, but this one runs a world"

# A process that is killed in the middle of a world.
{ cat "$work/head.lua" && echo 'if rank == 1 then io.open(arg[2], "w"):write((io.open "/proc/self/stat":read "a")):close() end run "add"'; } >"$work/killed.lua"
job 2 "$work/killed.lua" "$work/y.npy" "$work/pid" >"$work/out" 2>"$work/err" &
waited=0
until [ -s "$work/pid" ] || [ $waited -ge 200 ]; do sleep 0.1 && waited=$((waited + 1)); done
sleep 1
kill -9 "$(cut -d' ' -f1 "$work/pid")"
check "a process of a world was killed" $?
start=$(date +%s)
wait $!
[ $? -ne 0 ] && [ $(($(date +%s) - start)) -le 5 ]
check "a killed process ends all within 5 s: $(cat "$work/err")" $?
nothing "a killed process"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
