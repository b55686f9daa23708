#!/bin/sh
# README.md's example prints what README.md says.
: "${BUILD:=build}"
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
awk '/^```lua$/ {on = 1; next} /^```/ {on = 0} on' README.md >"$dir/example.lua"
awk '/^prints$/ {said = 1} said && /^```$/ {if (on) exit; on = 1; next} on' README.md >"$dir/want"
"$BUILD/soma" "$dir/example.lua" >"$dir/got" 2>&1
if [ -s "$dir/want" ] && diff -u "$dir/want" "$dir/got"; then
  echo "1 passed, 0 failed"
else
  echo "0 passed, 1 failed"
  exit 1
fi
