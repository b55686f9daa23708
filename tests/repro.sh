#!/bin/sh
# The same bits everywhere. Builds with each compiler and level of optimisation, runs
# tests/digest.lua (the samples' programs, functions, operators) with each SIMD level, the samples
# and the conformance suite, and compares what they print. Builds stay
# in $BUILD-NAME. Ends with "N passed, N failed"; what is absent here is skipped with a line.
#   tests/repro.sh smoke   digests of this build, on one thread and on 8; with FULL also on 2 and 3,
#                          and of -O0 and -O3 (clang's sanitized build is compared where it is made:
#                          suites/fuzz.sh); these two take over what they would compile to the same
#                          code, and what digests do not run: -O0 measures that for -O3
#   tests/repro.sh all [PATTERN]   everything, also aarch64 under qemu-user; for `make repro`.
#                          With a pattern only the builds whose name matches, such as clang-O3
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}"
export LUA_PATH="./tests/?.lua;./tests/lua/?.lua;;"
full=$([ "$1" = smoke ] || echo yes)
pattern=${2:-.}
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
skip() { echo "repro: $1: skipped, $2"; }

# What a build's command ($run) gives: one line per kernel, with hashes of its results and its trace.
digest() { # LEVEL
  SIMD=$1 $run tests/digest.lua
}
same() { # NAME DIGESTS
  if [ "$2" = "$want" ]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "repro: $1 differs"
    echo "$2" >"$dir/got"
    echo "$want" | diff - "$dir/got"
  fi
}
# Samples, which check their results themselves, and conformance with a digest of every case.
suites() { # NAME
  for s in samples/*.lua; do
    if $run "$s" "$dir" >"$dir/log" 2>&1; then passed=$((passed + 1)); else
      failed=$((failed + 1))
      echo "repro: $1: $s"
      tail -5 "$dir/log"
    fi
  done
  $run tests/conform.lua --digest >"$dir/conform" 2>&1
  status=$?
  [ -e "$dir/want-conform" ] || cp "$dir/conform" "$dir/want-conform"
  if [ "$status" -eq 0 ] && cmp -s "$dir/conform" "$dir/want-conform"; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "repro: $1: conformance differs"
    diff "$dir/want-conform" "$dir/conform" | head -10
  fi
}
threads() { # NUMBER
  make -s BUILD="$BUILD" "$BUILD/tests/soma-threads" >/dev/null 2>&1
  run=$BUILD/tests/soma-threads
  same "$1 threads" "$(SOMA_CORES=$1 digest "")"
  run=$BUILD/soma
}
variant() { # NAME MAKE-ARGUMENTS...
  name=$1
  shift
  echo "$name" | grep -q -e "$pattern" || return 0
  if ! make -s -j"$(nproc)" BUILD="$BUILD-$name" DEBUG_INFO= FROM="$BUILD" TAKEN="$taken" "$@" "$BUILD-$name/soma" >/dev/null 2>"$dir/log"; then
    failed=$((failed + 1))
    echo "repro: $name does not build"
    tail -20 "$dir/log"
    return 1
  fi
  run="$emulator $BUILD-$name/soma"
  same "$name" "$(digest "")"
  [ "$full" ] || return 0
  [ "$emulator" ] || for level in plain avx2 avx512; do same "$name, $level" "$(digest $level)"; done
  suites "$name"
}
# Objects of gcc-O0-counted of which its digest, just made, has run no function.
never_ran() {
  find "$BUILD-gcc-O0-counted" -name '*.gcda' >"$dir/ran"
  # shellcheck disable=SC2046
  gcov -n $(cat "$dir/ran") 2>/dev/null | awk -F"'" '
    /^File/ { source = $2 }
    /^Lines executed:0.00%/ && source ~ /^[a-z]+\/.*\.c$/ { sub(/c$/, "o", source); print source }
    /^Lines/ { source = "" }'
}
aarch64() {
  cross=aarch64-linux-gnu-gcc libs=/usr/lib/aarch64-linux-gnu
  for need in "$cross" qemu-aarch64-static; do
    command -v "$need" >/dev/null || { skip aarch64 "$need is absent"; return; }
  done
  for need in lua5.4:liblua5.4 zip:libzip z:zlib1g jansson:libjansson; do
    [ -e "$libs/lib${need%:*}.so" ] || { skip aarch64 "${need#*:}-dev:arm64 is absent"; return; }
  done
  emulator=qemu-aarch64-static
  for o in -O0 -O2; do
    variant "aarch64$o" CC=$cross OPT=$o LUA_CFLAGS=-I/usr/include/lua5.4 LUA_LIBS=-llua5.4
  done
  emulator=
}

emulator='' run=$BUILD/soma taken=
want=$(digest "") || { echo "0 passed, 1 failed"; exit 1; }
for level in plain avx2 avx512; do same "$level" "$(digest $level)"; done
same "second run" "$(digest "")"
threads 8
if [ "$full" ]; then
  suites "this build"
  for n in 1 2 3; do threads $n; done
  run=$BUILD/tests/soma-threads
  SOMA_CORES=3 suites "3 threads"
  run=$BUILD/soma
  for cc in gcc clang; do
    command -v $cc >/dev/null || { skip $cc "it is absent"; continue; }
    for o in -O0 -O2 -O3; do variant "$cc$o" CC=$cc OPT=$o; done
  done
  aarch64
elif [ -n "$FULL" ]; then
  for n in 1 2 3; do threads $n; done
  taken='vm/legal/% vm/record/% kernel/% isa/lint/%'
  # The level's own -O3 counts for its files; they are gcc's when this build is.
  [ "${CC:-gcc}" != gcc ] || taken="$taken vm/simd/level/%"
  ! nm "$BUILD/isa/base.o" | grep -q -e __asan_ -e __tsan_ || taken= # they do not link into others
  [ ! -d "$BUILD-gcc-O0-counted" ] || find "$BUILD-gcc-O0-counted" -name '*.gcda' -delete
  variant gcc-O0-counted CC=gcc OPT=-O0 ${taken:+SAN=--coverage}
  [ -z "$taken" ] || taken="$taken $(never_ran | tr '\n' ' ')"
  variant gcc-O3 CC=gcc OPT=-O3
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
