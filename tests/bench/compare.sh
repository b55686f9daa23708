#!/bin/sh
# Builds another revision and compares the benchmarks of both, run in turn, by processor time:
#   BASE=REVISION tests/bench/compare.sh [PATTERN]   `make bench-compare BASE=REVISION [BENCHES=PATTERN]`
# PATTERN chooses benchmarks (`vm` for bench_vm, `check` for the checks). ROUNDS (5) runs of each.
# The revision's files stay in $BUILD-base-COMMIT for the next comparison.
cd "$(dirname "$0")/../.." || exit 2
: "${BUILD:=build}" "${ROUNDS:=5}"
[ -n "$BASE" ] || { echo "BASE=REVISION says what to compare with, such as BASE=HEAD~3" >&2; exit 2; }
commit=$(git rev-parse --short --verify "$BASE^{commit}") || exit 2
base=$BUILD-base-$commit
if [ ! -e "$base/Makefile" ]; then
  mkdir -p "$base" && git archive "$commit" | tar -x -C "$base" || exit 2
fi
set --
for b in tests/bench/bench_*.c; do
  name=$(basename "$b" .c)
  echo "$name" | grep -q -E -e "${BENCHES:-.}" || continue
  [ -e "$base/$b" ] || { echo "$name: not in $BASE"; continue; }
  set -- "$@" "$name"
done
echo check.lua | grep -q -E -e "${BENCHES:-.}" && set -- "$@" check.lua
[ $# -gt 0 ] || { echo "no benchmark of $BASE matches $BENCHES" >&2; exit 2; }
unset MAKEFLAGS MFLAGS MAKELEVEL
# shellcheck disable=SC2046
make -s -C "$base" BUILD=build build/soma \
  $(for b; do case $b in *.lua) ;; *) printf 'build/tests/%s ' "$b" ;; esac; done) || exit 2
${CC:-cc} -O2 -shared -fPIC tests/bench/cputime.c -o "$BUILD/tests/cputime.so" || exit 2
exec lua5.4 tests/bench/compare.lua "$PWD/$BUILD/tests/cputime.so" "$base" . "$BUILD" "$ROUNDS" "$@"
