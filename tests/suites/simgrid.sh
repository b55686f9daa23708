#!/bin/sh
# SimGrid as judge of links: the same CC sequencers' pushes and waits, with flows that share links in place of messages
# that are served first come first served. Transfers cost next to nothing, so that the time is that of links.
: "${BUILD:=build}" "${CC:=cc}"
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
if ! echo '#include <simgrid/s4u.hpp>' | ${CXX:-g++} -std=c++17 -E -x c++ - >/dev/null 2>&1; then
  echo "skipped: there is no SimGrid (libsimgrid-dev, g++)"
  echo "0 passed, 0 failed"
  exit 0
fi
case $BUILD in *asan*) flags=-fsanitize=address,undefined ;; *) flags= ;; esac
# shellcheck disable=SC2086
$CC -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror $flags tests/simgrid/plan.c "$BUILD/libsoma.a" -lm -lpthread -o "$work/plan" &&
  ${CXX:-g++} -std=c++17 -O1 -Wall -Wextra -Werror tests/simgrid/links.cpp -lsimgrid -o "$work/links" || {
  echo "failed: the programs of tests/simgrid do not compile"
  echo "0 passed, 1 failed"
  exit 1
}
judge() { # PERCENT INSTANCE RANKS STRIDE LNC ALGORITHM OP ELEMENTS [RATE]
  percent=$1
  shift
  "$work/plan" "$@" >"$work/steps" || : >"$work/steps"
  soma=$(sed -n 's/^soma [^ ]* //p' "$work/steps")
  simgrid=$(timeout 300 "$work/links" --log=root.thres:error --cfg=network/model:CM02 --cfg=network/TCP-gamma:0 \
    --cfg=network/crosstraffic:0 --cfg=maxmin/concurrency-limit:-1 "$work/steps")
  if awk "BEGIN {s = ${soma:-0}; g = ${simgrid:-0}; if (s > 0 && g > 0) x = 100 * (s / g - 1); else x = 1000
    print \"$*:\", x, \"%\"; exit !(x >= -$percent && x <= $percent)}" >"$work/line"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $(cat "$work/line"): ${soma:-nothing} ns, by SimGrid ${simgrid:-nothing}"
  fi
  [ -z "${SHOW:-}" ] || cat "$work/line"
}
# Blocks of 48 KiB, which one CC sequencer moves. One rank a device, of a 4x4 torus, a ring of twelve, half of an
# UltraServer; KangaRing has all ranks.
for list in "16 trn1.32xlarge 32 2" "12 inf2.48xlarge 24 2" "32 trn2u.48xlarge 256 8"; do
  n=${list%% *} list=${list#* }
  for op in all_reduce all_gather reduce_scatter; do
    judge 10 $list 1 ring $op $((12288 * n))
    judge 10 $list 1 mesh $op $((12288 * n))
  done
  judge 10 $list 1 mesh-single all_reduce 12288
  judge 10 $list 1 mesh all_to_all $((12288 * n))
done
for list in "trn1.32xlarge 32 2" "trn2u.48xlarge 256 8"; do
  for op in all_reduce all_gather reduce_scatter; do judge 10 $list 1 rdh $op 65536; done
done
for list in "trn1.32xlarge 32" "inf2.48xlarge 24" "trn2u.48xlarge 64"; do
  for op in all_reduce all_gather; do judge 10 $list 1 1 kangaring $op 49152; done
done
# Several ranks that send over one link at a step, at its rate together: DMA rings of half a link's. Were they faster, what
# comes first would wait there as a whole and go as a whole, and those behind it would end later than by sharing.
for op in all_reduce all_gather reduce_scatter; do
  judge 10 inf2.48xlarge 16 2 1 rdh $op 65536 24000
  judge 10 trn1.32xlarge 32 1 1 rdh $op 65536 24000
  judge 10 trn2u.48xlarge 256 2 1 rdh $op 262144 43000
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
