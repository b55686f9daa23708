#!/bin/sh
# The same bits everywhere: the samples and conformance kernels give one digest of results and
# traces with gcc and clang, -O0 and -O3, and with every SIMD level. Builds go to $BUILD-*.
: "${BUILD:=build}"
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
digest() { # BUILD LEVEL: a line a kernel
  SIMD=$2 LUA_CPATH="./$1/?.so" lua5.4 tests/digest.lua
}
want=$(digest "$BUILD" "") || { echo "0 passed, 1 failed"; exit 1; }
same() { # NAME DIGESTS
  if [ "$2" = "$want" ]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "repro: $1 differs"
    echo "$2" >"$dir/got"
    echo "$want" | diff - "$dir/got"
  fi
}
for level in plain avx2 avx512; do
  same "$level" "$(digest "$BUILD" $level)"
done
same "second run" "$(digest "$BUILD" "")"
variant() { # NAME MAKE-ARGUMENTS...
  name=$1
  shift
  if make -s -j"$(nproc)" BUILD="$BUILD-$name" "$@" "$BUILD-$name/soma.so" >/dev/null 2>"$dir/log"; then
    same "$name" "$(digest "$BUILD-$name" "")"
  else
    failed=$((failed + 1))
    cat "$dir/log"
  fi
}
variant gcc-O0 CC=gcc OPT=-O0
variant gcc-O3 CC=gcc OPT=-O3
command -v clang >/dev/null && variant clang CC=clang
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
