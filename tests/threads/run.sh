#!/bin/sh
# What runs on several threads of the host, for builds with a sanitizer (`make tsan`, `make
# asan-threads`): the unit tests of threads, 64 machines in 8 threads among them, and on 1, 2, 3 and
# 8 threads the programs of tests/digest.lua, some samples and tests of worlds, which look at their
# results themselves, and the kernels of the conformance suite. Uses $BUILD; ends with "N passed, N
# failed".
cd "$(dirname "$0")/../.." || exit 2
: "${BUILD:=build}"
export LUA_PATH="./tests/?.lua;./tests/lua/?.lua;;" CMOCKA_MESSAGE_OUTPUT=TAP
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
run=$BUILD/tests/soma-threads
passed=0 failed=0
verdict() { # NAME THREADS STATUS
  if [ "$3" -eq 0 ]; then passed=$((passed + 1)) && return; fi
  failed=$((failed + 1))
  echo "threads: $1 on $2 threads: status $3"
  grep -v '^$' "$dir/log" | head -40
}
ends_well() { # NAME THREADS COMMAND...
  name=$1 threads=$2
  shift 2
  SOMA_CORES=$threads "$@" >"$dir/$name" 2>"$dir/log"
  verdict "$name" "$threads" $?
}
# It also prints what it prints on one thread, which comes first.
prints_the_same() { # NAME THREADS COMMAND...
  ends_well "$@"
  [ -e "$dir/$1.one" ] || cp "$dir/$1" "$dir/$1.one"
  diff "$dir/$1.one" "$dir/$1" >"$dir/log"
  verdict "$1" "$2" $?
}
for test in test_threads test_work test_late; do ends_well $test 8 "$BUILD/tests/$test"; done
for n in 1 2 3 8; do
  prints_the_same digest $n "$run" tests/digest.lua
  prints_the_same kernels $n "$run" tests/conform.lua --digest ^kernel
  for sample in softmax attention transpose layernorm; do
    ends_well $sample $n "$run" samples/$sample.lua
  done
  for worlds in test_planned test_world_random; do
    ends_well $worlds $n "$run" tests/lua/$worlds.lua
  done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
