#!/bin/sh
# make advice COUNT=10000: tests/lua/test_check_fixes.lua in JOBS processes, and their sum.
# KEEP=FOLDER keeps each program whose fix is wrong.
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}" "${COUNT:=10000}" "${JOBS:=2}"
export LUA_PATH="./tests/?.lua;./tests/lua/?.lua;;" LUA_CPATH="./$BUILD/?.so;;" COUNT BUILD
out=$(mktemp -d) || exit 2
trap 'rm -rf "$out"' EXIT
part=0
while [ "$part" -lt "$JOBS" ]; do
  PART=$part PARTS=$JOBS nice lua5.4 tests/lua/test_check_fixes.lua >"$out/$part" &
  part=$((part + 1))
done
wait
cat "$out"/* | lua5.4 tests/lua/fix_sum.lua
