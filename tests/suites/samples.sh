#!/bin/sh
# Every sample's driver runs to its end; each checks its own results and raises an error otherwise.
# No check finds anything in a program of the samples, under three timings.
: "${BUILD:=build}"
passed=0 failed=0
result() { # STATUS NAME OUTPUT
  if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "$2: $3"
  fi
}
for s in samples/*.lua; do
  out=$("$BUILD/soma" "$s" 2>&1)
  result $? "$s" "$out"
done
for s in samples/*.s samples/solutions/*.s; do
  case $s in */dma_load.s | */vector_add_refused.s) continue ;; esac # needs defines; is wrong
  set --
  for x in $(sed -n 's/^\([a-z0-9_]*\) *tensor .*, input.*/\1/p' "$s"); do set -- "$@" --in "$x=randn:1"; done
  out=$("$BUILD/soma" "$s" "$@" --check all --schedule 2 2>&1)
  case $out in *'checks        all: nothing found'*'2 more, the same bits'*) found=0 ;; *) found=1 ;; esac
  result "$found" "$s" "$out"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
