#!/usr/bin/env bash
# Runs every test of the build in $BUILD, several suites at once, and ends with "N passed, N failed".
#
#   tests/run.sh [--full] [PATTERN...]   the suites whose name matches one of the patterns; all of them
#   tests/run.sh [--full] --failed       those that failed when they last ran
#
# --full (`make check`) adds the suite in a browser and the points that are too slow for `make test`;
# suites see it as FULL=1. JOBS suites run at once (as many as there are cores). A suite is a program
# that prints TAP lines (the unit tests) or ends with a line "N passed, N failed" (the others); it
# may take SUITE_SECONDS (1200). Results come in the order of the list, with the processor time of each.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}" "${JOBS:=$(nproc)}" "${SUITE_SECONDS:=1200}" "${FULL:=}"
only_failed='' patterns=()
for a; do
  case $a in
    --full) FULL=1 ;;
    --failed) only_failed=yes ;;
    -*) echo "usage: tests/run.sh [--full] [--failed | PATTERN...]" >&2 && exit 2 ;;
    *) patterns+=("$a") ;;
  esac
done
export BUILD FULL
export LUA_PATH="./tests/?.lua;./tests/lua/?.lua;;" LUA_CPATH="./$BUILD/?.so;;"
export CMOCKA_MESSAGE_OUTPUT=TAP

# What is known of earlier runs: a line "CENTISECONDS FAILED NAME" for each suite.
history=$BUILD/tests.last
declare -A cost=() failures=()
if [ -e "$history" ]; then
  while read -r time failed name; do cost[$name]=$time failures[$name]=$failed; done <"$history"
fi

# ---- The list ------------------------------------------------------------------------------------
names=() commands=()
wanted() { # NAME
  [ -z "$only_failed" ] || [ "${failures[$1]:-0}" -gt 0 ] || return 1
  [ ${#patterns[@]} -gt 0 ] || return 0
  for p in "${patterns[@]}"; do [[ $1 =~ $p ]] && return 0; done
  return 1
}
suite() { # NAME COMMAND...
  wanted "$1" || return 0
  names+=("$1")
  shift
  commands+=("$*")
}
suite lint sh tests/lint.sh
for t in tests/unit/test_*.c; do
  name=$(basename "$t" .c)
  [ ! -x "$BUILD/tests/$name" ] || suite "unit/$name" "$BUILD/tests/$name"
done
suite golden lua5.4 tests/golden.lua
suite findings lua5.4 tests/findings.lua
for t in tests/lua/test_*.lua; do suite "lua/$(basename "$t" .lua)" lua5.4 "$t"; done
for t in tests/suites/*.lua; do suite "$(basename "$t" .lua)" lua5.4 "$t"; done
suite conform lua5.4 tests/conform.lua
suite mutants lua5.4 tests/mutants.lua
for t in tests/suites/*.sh; do suite "$(basename "$t" .sh)" sh "$t"; done
python=${SOMA_PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3
if "$python" -c 'import numpy' 2>/dev/null; then
  export SOMA_LIB="$PWD/$BUILD/libsoma.so"
  for t in tests/python/test_*.py; do
    suite "python/$(basename "$t" .py)" "$python" tests/python/run.py "$t"
  done
else
  echo "python/: skipped, $python has no NumPy"
fi
[ -z "$FULL" ] || suite viewer sh tests/ui/run.sh
count=${#names[@]}
if [ "$count" -eq 0 ] && [ -n "$only_failed" ]; then
  echo "nothing failed last time"
  exit 0
fi
# The longest first, so that none is left over at the end; before them those that never ran here, of
# which these take long.
slow=(fuzz repro viewer conform mutants unit/test_alloc unit/test_save_check lua/test_schedules findings
  samples lua/test_sandbox saved cli lua/test_parts unit/test_dma_props)
declare -A first=()
for i in "${!slow[@]}"; do first[${slow[i]}]=$((99999999 + ${#slow[@]} - i)); done
mapfile -t order < <(for i in "${!names[@]}"; do
  name=${names[i]}
  echo "${cost[$name]:-${first[$name]:-99999999}} $i"
done | sort -k1,1nr -k2,2nr | cut -d' ' -f2)

# ---- Running -------------------------------------------------------------------------------------
dir=$(mktemp -d) || exit 2
mkfifo "$dir/ended" && exec 3<>"$dir/ended" || exit 2
declare -A pid=() since=()
stop() {
  for i in "${!pid[@]}"; do kill -KILL -- "-${pid[$i]}" 2>/dev/null; done
}
trap 'rm -rf "$dir"' EXIT
# A run that is stopped keeps what it has learnt too.
remember() {
  for name in "${!cost[@]}"; do echo "${cost[$name]:-0} ${failures[$name]} $name"; done >"$history"
}
trap 'stop; remember; exit 130' INT TERM HUP
set -m # a suite is a process group, which can be ended whole

TIMEFORMAT='%U %S'
start() { # INDEX: runs a suite; its status goes to INDEX.status, its time to INDEX.time
  (
    # shellcheck disable=SC2086
    { time ${commands[$1]} >"$dir/$1.out" 2>&1 </dev/null 3>&-; } 2>"$dir/$1.time"
    echo $? >"$dir/$1.status"
    echo >&3
  ) &
  pid[$1]=$! since[$1]=$SECONDS
  disown
}
too_long() {
  for i in "${!pid[@]}"; do
    [ $((SECONDS - since[$i])) -ge "$SUITE_SECONDS" ] || continue
    kill -KILL -- "-${pid[$i]}"
    echo "not ok - ended after $SUITE_SECONDS seconds" >>"$dir/$i.out"
    echo 124 >"$dir/$i.status"
  done
}

total_passed=0 total_failed=0 ended=0 shown=0
progress() {
  [ -t 1 ] || return 0
  local running=
  for i in "${!pid[@]}"; do running+=" ${names[$i]}"; done
  printf '\r\033[K%.79s' "[$ended of $count, $total_failed failed]$running"
}
clear_progress() { [ ! -t 1 ] || printf '\r\033[K'; }

# Counts a suite that has ended; show prints it.
passed=() failed=()
judge() { # INDEX
  local out=$dir/$1.out status p f line
  status=$(cat "$dir/$1.status")
  p=$(grep -c '^ok ' "$out")
  f=$(grep -c '^not ok ' "$out")
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$out" | tail -1)
  [ -z "$line" ] || { p=${line%% *} f=${line#*, } f=${f%% *}; }
  # A suite that dies, or that runs nothing and does not say why, has failed.
  if [ "$f" -eq 0 ] && { [ "$status" -ne 0 ] || { [ "$p" -eq 0 ] && ! grep -q '^skipped: ' "$out"; }; }; then
    f=1
  fi
  passed[$1]=$p failed[$1]=$f
  total_passed=$((total_passed + p)) total_failed=$((total_failed + f))
  cost[${names[$1]}]=$(tail -n 1 "$dir/$1.time" | awk '{printf "%d", 100 * ($1 + $2)}')
  failures[${names[$1]}]=$f
}
show() { # INDEX
  clear_progress
  if [ "${failed[$1]}" -gt 0 ]; then grep -v '^ok ' "$dir/$1.out"; else grep '^skipped: ' "$dir/$1.out"; fi
  local c=${cost[${names[$1]}]:-0}
  printf '%-28s %5d.%d s %6d passed %4d failed\n' "${names[$1]}" $((c / 100)) $((c / 10 % 10)) \
    "${passed[$1]}" "${failed[$1]}"
}

next=0
while [ "$ended" -lt "$count" ]; do
  while [ ${#pid[@]} -lt "$JOBS" ] && [ "$next" -lt "$count" ]; do
    start "${order[next]}"
    next=$((next + 1))
  done
  progress
  read -r -t 1 <&3 || too_long # a line only wakes: a timeout in the middle of one would lose it
  for i in "${!pid[@]}"; do
    [ -s "$dir/$i.status" ] || continue
    unset "pid[$i]"
    ended=$((ended + 1))
    judge "$i"
  done
  while [ "$shown" -lt "$count" ] && [ -n "${failed[$shown]:-}" ]; do
    show "$shown"
    shown=$((shown + 1))
  done
done
clear_progress
remember
sum=0
for name in "${names[@]}"; do sum=$((sum + ${cost[$name]:-0})); done
echo "processor time: $((sum / 100)) s, $JOBS at once: $SECONDS s"
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" -eq 0 ] && [ "$total_passed" -gt 0 ] # a pattern that nothing matches has failed
