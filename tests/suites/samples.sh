#!/bin/sh
# Every sample's driver runs to its end; each checks its own results and raises an error otherwise.
: "${BUILD:=build}"
passed=0 failed=0
for s in samples/*.lua; do
  if out=$("$BUILD/soma" "$s" 2>&1); then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "$s: $out"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
