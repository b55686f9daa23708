#!/bin/sh
# Sweeps over the processes of an MPI job: what one process prints and writes, byte for byte; a
# process that is killed; an error in one; a job that was killed goes on from its journal.
: "${BUILD:=build}"
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # NAME STATUS
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $1"; fi
}
if [ ! -x "$BUILD/soma-mpi" ] || ! command -v mpirun >/dev/null; then
  echo "skipped: there is no mpicc or no mpirun (libopenmpi-dev, openmpi-bin)"
  make -s BUILD="$BUILD" mpi >"$work/log" 2>&1 # which must say so
  [ $? -ne 0 ] && grep -q mpicc "$work/log"
  check "make mpi without mpicc" $?
  echo "$passed passed, $failed failed"
  exit "$failed"
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
job() { # PROCESSES ARGUMENT...
  n=$1
  shift
  timeout 120 mpirun --oversubscribe -n "$n" "$BUILD/soma-mpi" "$@"
}
# Two sweeps, the second of the first one's rows; a failure, prints, a table, CSV and a chart.
cat >"$work/two.lua" <<'E'
local soma = require "soma"
local r = soma.sweep {over = {{"n", 1, 2, 3, 4, 5, 6, 7}}, run = function(v)
  print("variant", v.n)
  if v.n == 5 then error("five", 0) end
  return {third = v.n / 3, name = ("x"):rep(v.n)}
end}
local q = soma.sweep {over = {{"m", r.rows[2].n, 7}, {"k", 1, 2}}, run = function(v) return {y = v.m + v.k} end}
print(r)
print(q)
print(r:csv(arg[1] .. "/r.csv"), q:plot {x = "m", y = "y", series = "k", file = arg[1] .. "/q.svg"})
os.exit(tonumber(arg[2] or 0))
E
mkdir "$work/1" "$work/now"
"$BUILD/soma" "$work/two.lua" "$work/1" >"$work/1/out"
for n in 1 2 4; do
  rm -f "$work"/now/*
  job "$n" "$work/two.lua" "$work/now" >"$work/now/out" 2>"$work/err"
  check "status of $n: $(cat "$work/err")" $?
  diff -r "$work/1" "$work/now"
  check "$n processes give what one gives" $?
done
job 2 "$work/two.lua" "$work/now" 3 >/dev/null 2>&1
[ $? -eq 3 ]
check "an exit status" $?

# An error in process 1 alone names it; all are gone within five seconds, and nothing was written.
cat >"$work/error.lua" <<'E'
local soma = require "soma"
local rank = tonumber(os.getenv "OMPI_COMM_WORLD_RANK" or os.getenv "PMI_RANK")
if rank == 1 then error("only here") end
local r = soma.sweep {over = {{"n", 1, 2, 3}}, run = function(v) os.execute "sleep 20" return {} end}
r:csv(arg[1])
E
start=$(date +%s)
job 3 "$work/error.lua" "$work/none.csv" >"$work/out" 2>"$work/err"
[ $? -ne 0 ] && [ $(($(date +%s) - start)) -le 10 ]
check "an error in one ends all" $?
grep -q "soma-mpi: process 1 of 3: .*error.lua:3: only here" "$work/err"
check "the error names its process: $(cat "$work/err")" $?
[ ! -s "$work/out" ] && [ ! -e "$work/none.csv" ]
check "nothing is printed or written" $?
sleep 1
! pgrep -f "$work/error.lua" >/dev/null
check "no process is left" $?

# Processes that disagree about the variants are told so.
cat >"$work/other.lua" <<'E'
local rank = tonumber(os.getenv "OMPI_COMM_WORLD_RANK" or os.getenv "PMI_RANK")
require "soma".sweep {over = {{"n", 1, 2 + rank}}, run = function(v) os.execute "sleep 0.5" return {} end}
E
job 2 "$work/other.lua" >/dev/null 2>"$work/err"
grep -q "process 1 of 2 has different variants from process 0" "$work/err"
check "other variants: $(cat "$work/err")" $?

# Process 0 ends without the sweep of the others.
cat >"$work/first.lua" <<'E'
local rank = tonumber(os.getenv "OMPI_COMM_WORLD_RANK" or os.getenv "PMI_RANK")
if rank == 0 then os.exit(0) end
require "soma".sweep {over = {{"n", 1, 2}}, run = function(v) return {} end}
E
job 2 "$work/first.lua" >/dev/null 2>"$work/err"
[ $? -eq 1 ] && grep -q "process 1 of 2: sweep: process 0 has ended its script" "$work/err"
check "process 0 ends before a sweep: $(cat "$work/err")" $?

# A killed process ends the job; the journal has what was done, and the next job goes on from it.
cat >"$work/killed.lua" <<'E'
local soma = require "soma"
print(soma.sweep {over = {{"n", 1, 2, 3, 4, 5, 6}}, journal = arg[1], run = function(v)
  print("variant", v.n)
  if v.n == 5 and arg[2] then
    os.execute "sleep 1"
    os.execute("kill -9 " .. io.open("/proc/self/stat"):read("a"):match "%) %a (%d+)")
  end
  return {square = v.n ^ 2}
end})
E
"$BUILD/soma" "$work/killed.lua" "$work/whole.jsonl" >"$work/whole"
job 2 "$work/killed.lua" "$work/j.jsonl" kill >/dev/null 2>&1
[ $? -ne 0 ] && [ "$(wc -l <"$work/j.jsonl")" -ge 4 ]
check "the journal of a killed job" $?
job 2 "$work/killed.lua" "$work/j.jsonl" >"$work/again" 2>"$work/err"
cmp "$work/again" "$work/whole"
check "the next job goes on: $(cat "$work/err")" $?

job 2 "$BUILD/../samples/softmax.s" >/dev/null 2>"$work/err"
grep -q "it runs a script: mpirun -n N soma-mpi SCRIPT.lua" "$work/err"
check "no script: $(cat "$work/err")" $?
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
