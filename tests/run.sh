#!/bin/sh
# Runs every test of the build in $BUILD and ends with "N passed, N failed". A suite is a program
# that prints TAP lines (the unit tests) or ends with a line "N passed, N failed" (the others).
# Usage: tests/run.sh [pattern]   only suites whose name matches the pattern
# With WITH_UI=1 the viewer's tests in a browser are one of the suites; they need tests/page of the
# build, node, npm and chromium, and fail without.
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}"
export BUILD
export LUA_PATH="./tests/?.lua;./tests/lua/?.lua;;" LUA_CPATH="./$BUILD/?.so;;"
export CMOCKA_MESSAGE_OUTPUT=TAP
pattern=${1:-.}
passed=0 failed=0
out=$(mktemp) || exit 2
trap 'rm -f "$out"' EXIT

# suite NAME COMMAND...: adds the suite's counts; shows its output when something failed
suite() {
  name=$1
  shift
  echo "$name" | grep -q -E -e "$pattern" || return 0
  timeout "${SUITE_SECONDS:-600}" "$@" >"$out" 2>&1
  status=$?
  p=$(grep -c '^ok ' "$out")
  f=$(grep -c '^not ok ' "$out")
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$out" | tail -1)
  if [ -n "$line" ]; then
    p=$(echo "$line" | sed 's/ passed.*//')
    f=$(echo "$line" | sed 's/.*passed, //; s/ failed.*//')
  fi
  # A suite that dies, or that runs nothing, has failed.
  if [ "$status" -ne 0 ] || [ "$p" -eq 0 ]; then
    [ "$f" -eq 0 ] && f=1
    cat "$out"
  fi
  passed=$((passed + p)) failed=$((failed + f))
  printf '%-28s %6d passed %4d failed\n' "$name" "$p" "$f"
}

for t in "$BUILD"/tests/test_*; do
  case $t in *.d) ;; *) [ -x "$t" ] && suite "unit/$(basename "$t")" "$t" ;; esac
done
suite golden lua5.4 tests/golden.lua
for t in tests/lua/test_*.lua; do
  [ -e "$t" ] || continue
  suite "lua/$(basename "$t" .lua)" lua5.4 "$t"
done
for t in tests/suites/*.lua; do
  [ -e "$t" ] || continue
  suite "$(basename "$t" .lua)" lua5.4 "$t"
done
suite conform lua5.4 tests/conform.lua
suite mutants lua5.4 tests/mutants.lua
for t in tests/suites/*.sh; do
  suite "$(basename "$t" .sh)" sh "$t"
done
[ -z "$WITH_UI" ] || suite viewer sh tests/ui/run.sh
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ] # a pattern that nothing matches has failed
