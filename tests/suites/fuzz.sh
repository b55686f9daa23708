#!/bin/sh
# A short form of `make fuzz-smoke`: every harness with fixed seeds. One that passes all its inputs
# counts as a test. With FULL they are built with ASan and UBSan, by clang where it is, else as this
# build is; the sanitized build must give this one's digests too (see tests/repro.sh). It compiles at
# -O0, since these few inputs take less time than -O1 does, and takes over the SIMD level that no
# harness runs here: they run `plain` and the host's best.
unset MAKEFLAGS MFLAGS
export FUZZ_RUNS=60 FUZZ_SAVES=40 FUZZ_WORLDS=30 FUZZ_TEXTS=3000 FUZZ_FILES=10000 FUZZ_DATA=2000 FUZZ_KERNELS=300
if [ -n "$FULL" ]; then
  plain=$BUILD
  export BUILD="$BUILD/asan" FUZZ_RUNS=200 FUZZ_SAVES=100 FUZZ_WORLDS=60 FUZZ_TEXTS=6000 FUZZ_FILES=20000 FUZZ_DATA=4000
  export FUZZ_KERNELS=1000
  target=fuzz-sanitized
  command -v clang >/dev/null && export CC=clang
  export FUZZ_OPT=-O0 KERN_OPT=-O0 FUZZ_DEBUG_INFO='' FUZZ_PARTS=fuzz-harnesses SEEDS_FROM="$plain"
  if ! nm "$plain/isa/base.o" | grep -q -e __asan_ -e __tsan_; then # else these objects do not link into others
    level=avx2
    lua5.4 -e "require('soma').core {simd = 'avx512'}" 2>/dev/null || level=avx512
    export FROM="$plain" TAKEN="%.$level.o"
  fi
elif [ ! -x "$BUILD/fuzz/kernel" ]; then # make test has built them
  target=fuzz-build
fi
log=$BUILD/fuzz.log
mkdir -p "$BUILD" || exit 2
if [ -n "$target" ]; then
  make -s -j"$(nproc)" BUILD="$BUILD" "$target" >"$log" 2>&1 || { cat "$log"; exit 1; }
fi
tests/fuzz/fuzz.sh smoke >"$log" 2>&1 || cat "$log"
if [ -n "$FULL" ]; then
  "$plain/soma" tests/digest.lua >"$BUILD/digest.want"
  "$BUILD/soma" tests/digest.lua >"$BUILD/digest" 2>&1
  diff "$BUILD/digest.want" "$BUILD/digest" && echo "digest: 1 passed, 0 failed" >>"$log"
fi
awk -v more="${FULL:+1}" '/^[a-z]+: [1-9][0-9]* passed, 0 failed$/ { passed++ }
     /^of [0-9]+ harnesses$/ { all = $2 + more }
     END { print passed + 0 " passed, " (all ? all - passed : 1) " failed"; exit !all || passed != all }' "$log"
