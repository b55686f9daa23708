#!/bin/sh
# Signals, and limits that come as signals, leave no file behind: neither a part of an output nor
# the new file that was to become one. A fifo without a reader keeps a command in the middle of
# writing its files, for as long as the test wants.
: "${BUILD:=build}"
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # NAME STATUS
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $1"; fi
}
files() { (cd "$work" && echo *); }
# Waits until a file matches the pattern, at most ten seconds
wait_for() {
  i=0
  while [ $i -lt 100 ] && ! ls $1 >/dev/null 2>&1; do sleep 0.1; i=$((i + 1)); done
}

printf ' section sync\n%%rep 20000\n nop\n%%endrep\n halt\n' >"$work/big.s"
printf ' section sync\nl: jmp l\n' >"$work/loop.s"
mkfifo "$work/fifo"
before=$(files)
for sig in INT TERM HUP; do
  # soma-as has its listing in a new file, and waits for the fifo. A shell's background job ignores
  # INT, which the command respects: env gives it back.
  env --default-signal="$sig" "$BUILD"/soma-as -l "$work/list" -o "$work/fifo" "$work/loop.s" &
  pid=$!
  wait_for "$work/list.*.tmp"
  [ "$(files)" != "$before" ]
  check "soma-as does not wait for the fifo" $?
  kill -s "$sig" $pid
  wait $pid 2>/dev/null
  [ $? -gt 128 ]
  check "soma-as survives $sig" $?
  [ "$(files)" = "$before" ]
  check "soma-as leaves on $sig: $(files)" $?
done
for sig in INT TERM HUP; do
  timeout -s "$sig" 0.3 "$BUILD"/soma "$work/loop.s" --trace "$work/trace" >"$work/../out.$$" 2>&1
  grep -q interrupted "$work/../out.$$"
  check "soma does not say that $sig interrupted it" $?
  rm -f "$work/../out.$$"
  grep -q traceEvents "$work/trace" 2>/dev/null # what ran can be looked at, whole
  check "soma has no trace after $sig" $?
  rm -f "$work/trace"
  [ "$(files)" = "$before" ]
  check "soma leaves on $sig: $(files)" $?
done
# The debugger and the prompt end, whether they run something or wait for a line.
attended() { # SIGNAL STATUS OPTIONS LINES: the lines make the file "there"
  (cd "$work" && exec env --default-signal="$1" "$BUILD"/soma $3 <fifo >said 2>&1) &
  pid=$!
  exec 7>"$work/fifo"
  echo "$4" >&7
  wait_for "$work/there"
  kill -s "$1" $pid
  (sleep 10 && kill -s KILL $pid) 2>/dev/null &
  killer=$!
  wait $pid 2>/dev/null
  status=$?
  kill $killer
  [ $status -eq "$2" ]
  check "soma $3 does not end by $1" $?
  exec 7>&-
  grep -q interrupted "$work/said"
  check "soma $3 does not say that $1 interrupted it" $?
  rm -f "$work/said" "$work/there"
}
there='io.open("there", "w"):close()'
attended TERM 143 "--debug loop.s" "lua $there
continue"
attended HUP 129 "--debug loop.s" "lua $there"
attended HUP 129 -i "$there while true do end"
attended TERM 143 -i "$there"
# A pattern that is matched for ever makes no call: the first Ctrl-C asks, a second ends it.
cat >"$work/forever.lua" <<'LUA'
local text, pattern = ("a"):rep(60), ("a*"):rep(60) .. "b"
string.find(text, pattern, io.open(arg[1], "w"):close() and 1)
LUA
for sig in INT TERM; do
  env --default-signal="$sig" "$BUILD"/soma "$work/forever.lua" "$work/there" 2>"$work/said" &
  pid=$!
  wait_for "$work/there"
  sleep 0.2 # it matches by now: an interrupt between two calls would end it at once
  kill -s "$sig" $pid
  sleep 0.5
  kill -0 $pid 2>/dev/null
  check "one $sig ends a pattern" $?
  kill -s "$sig" $pid
  wait $pid 2>/dev/null
  [ $? -gt 128 ]
  check "soma survives two $sig" $?
  grep -q "interrupted twice" "$work/said"
  check "soma does not say that a second $sig ended it" $?
  rm -f "$work/there" "$work/said"
done
rm -f "$work/forever.lua"
# A limit of the file's size: an error, no file.
(ulimit -f 4 && "$BUILD"/soma-as -o "$work/big.sbc" "$work/big.s") 2>/dev/null
[ $? -eq 1 ]
check "soma-as does not give 1 at the limit of a file's size" $?
[ "$(files)" = "$before" ]
check "soma-as leaves at the limit: $(files)" $?
cat >"$work/big.lua" <<'LUA'
local soma = require "soma"
assert(soma.zeros({100000}):save_npy(arg[1]))
LUA
before=$(files)
(ulimit -f 4 && "$BUILD"/soma "$work/big.lua" "$work/big.npy") >/dev/null 2>&1
[ $? -eq 1 ]
check "soma does not give 1 at the limit of a file's size" $?
[ "$(files)" = "$before" ]
check "soma leaves at the limit: $(files)" $?
# A reader that goes away
"$BUILD"/soma-as -l "$work/list" -o - "$work/big.s" 2>/dev/null | head -c 1 >/dev/null
rm -f "$work/list"
[ "$(files)" = "$before" ]
check "soma-as leaves when its reader goes: $(files)" $?
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
