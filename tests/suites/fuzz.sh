#!/bin/sh
# A short form of `make fuzz-smoke`: every harness under ASan and UBSan, with fixed seeds. One that
# passes all its inputs counts as a test.
unset MAKEFLAGS MFLAGS
export BUILD="$BUILD/asan"
log=$BUILD/log
mkdir -p "$BUILD" || exit 2
make -s -j"$(nproc)" BUILD="$BUILD" fuzz-sanitized >"$log" 2>&1 || { cat "$log"; exit 1; }
export FUZZ_RUNS=200 FUZZ_SAVES=100 FUZZ_TEXTS=6000 FUZZ_FILES=20000 FUZZ_DATA=4000
tests/fuzz/fuzz.sh smoke >"$log" 2>&1 || cat "$log"
awk '/^[a-z]+: [1-9][0-9]* passed, 0 failed$/ { passed++ }
     END { print passed + 0 " passed, " 5 - passed " failed"; exit passed != 5 }' "$log"
