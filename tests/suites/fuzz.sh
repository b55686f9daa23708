#!/bin/sh
# A short form of `make fuzz-smoke`: every harness with fixed seeds. With FULL they are built with
# ASan and UBSan, else as this build is. One that passes all its inputs counts as a test.
unset MAKEFLAGS MFLAGS
export FUZZ_RUNS=60 FUZZ_SAVES=40 FUZZ_TEXTS=3000 FUZZ_FILES=10000 FUZZ_DATA=2000 FUZZ_KERNELS=300
if [ -n "$FULL" ]; then
  export BUILD="$BUILD/asan" FUZZ_RUNS=200 FUZZ_SAVES=100 FUZZ_TEXTS=6000 FUZZ_FILES=20000 FUZZ_DATA=4000
  export FUZZ_KERNELS=1000
  target=fuzz-sanitized
elif [ ! -x "$BUILD/fuzz/kernel" ]; then # make test has built them
  target=fuzz-build
fi
log=$BUILD/fuzz.log
mkdir -p "$BUILD" || exit 2
if [ -n "$target" ]; then
  make -s -j"$(nproc)" BUILD="$BUILD" "$target" >"$log" 2>&1 || { cat "$log"; exit 1; }
fi
tests/fuzz/fuzz.sh smoke >"$log" 2>&1 || cat "$log"
awk '/^[a-z]+: [1-9][0-9]* passed, 0 failed$/ { passed++ }
     /^of [0-9]+ harnesses$/ { all = $2 }
     END { print passed + 0 " passed, " (all ? all - passed : 1) " failed"; exit !all || passed != all }' "$log"
