#!/bin/sh
# Runs the fuzz harnesses of $BUILD/fuzz. Both forms begin with the seeds: the samples, the golden
# cases, tests/fuzz/worlds (programs of ranks) and tests/fuzz/corpus, where every input lies that once broke something.
#   fuzz.sh smoke    a fixed number of inputs with fixed seeds; ends with "N passed, N failed"
#   fuzz.sh many     about FUZZ_COUNT inputs (10^7: 36 % programs of run, of which an input makes 3.6 on
#                    average, 41 % of sbc, the rest of the others) in FUZZ_JOBS processes;
#                    the inputs are the same whatever the number of processes; each call takes
#                    another seed and prints it, FUZZ_SEED=N takes that one again
#   fuzz.sh long     libFuzzer, FUZZ_SECONDS for each; new inputs stay in $BUILD/fuzz/X-corpus
# The harnesses are AFL++'s as well:
#   make BUILD=build-afl CC=afl-clang-fast SAN=-Wno-pass-failed FUZZ_MAIN=-fsanitize=fuzzer fuzz-build
#   BUILD=build-afl tests/fuzz/fuzz.sh seeds
#   afl-fuzz -i build-afl/fuzz/asm-seeds -o build-afl/out -x build-afl/fuzz/dictionary build-afl/fuzz/asm
# SEEDS_FROM is the build whose soma-as makes program files of the seeds ($BUILD).
cd "$(dirname "$0")/../.." || exit 2
: "${BUILD:=build-asan}" "${FUZZ_SECONDS:=60}" "${SEEDS_FROM:=$BUILD}"
case $BUILD in /*) root=$BUILD ;; *) root=$PWD/$BUILD ;; esac
case $SEEDS_FROM in /*) as=$SEEDS_FROM/soma-as ;; *) as=$PWD/$SEEDS_FROM/soma-as ;; esac
out=$root/fuzz
for h in asm sbc run save world file kernel; do
  rm -rf "$out/$h-seeds"
  mkdir -p "$out/$h-seeds" || exit 2
done
cp tests/data/np[yz]/*.np[yz] tests/data/safetensors/*.safetensors "$out/file-seeds/" || exit 2
lua5.4 tests/fuzz/dict.lua >"$out/dictionary" || exit 2
for h in asm sbc run save world file kernel; do
  for f in "tests/fuzz/corpus/$h"/*; do [ -f "$f" ] && cp "$f" "$out/$h-seeds/"; done
done
rm -rf "$out/golden"
lua5.4 tests/golden.lua extract "$out/golden" || exit 2
for s in samples/*.s tests/fuzz/worlds/*.s "$out"/golden/*/in.s; do
  name=$(echo "${s#"$out"/}" | tr / _)
  cp "$s" "$out/asm-seeds/$name"
  (cd "$(dirname "$s")" && "$as" -g -o "$out/sbc-seeds/$name.sbc" "$(basename "$s")" 2>/dev/null)
done

smoke() { # NAME COUNT [OPTION...]
  name=$1 count=$2
  shift 2
  for f in "$out/$name-seeds"/*; do [ -f "$f" ] && set -- "$@" "$f"; done
  "$out/$name" -n "$count" -s 1 -k "$out/$name-kept" "$@" >"$out/$name.log" 2>&1 ||
    tail -30 "$out/$name.log"
}

# Inputs number J * COUNT / FUZZ_JOBS and up of a harness; the options come last
share() { # NAME J COUNT [OPTION...]
  name=$1 from=$((($2 * $3) / FUZZ_JOBS)) to=$((($2 + 1) * $3 / FUZZ_JOBS)) log=$out/$1-$2
  shift 3
  for f in "$out/$name-seeds"/*; do [ -f "$f" ] && set -- "$@" "$f"; done
  nice "$out/$name" -i "$from" -n "$((to - from))" -s "$FUZZ_SEED" -k "$log-kept" "$@" >"$log.log" 2>&1 ||
    tail -30 "$log.log"
}
# Adds up the statistics of all processes of a harness
total() { # NAME
  sed -n 's/^ *\([0-9][0-9]*\) *[0-9.]* %  /\1 /p' "$out/$1"-*.log |
    awk -v name="$1" '{n = $1; sub(/^[0-9]+ /, ""); if (!($0 in sum)) order[++k] = $0; sum[$0] += n}
      END {for (i = 1; i <= k; i++)
        printf "%s: %12d %5.1f %%  %s\n", name, sum[order[i]], 100 * sum[order[i]] / sum[order[1]], order[i]}'
}

case $1 in
seeds) ;;
many)
  : "${FUZZ_COUNT:=10000000}" "${FUZZ_JOBS:=$(nproc)}"
  : "${FUZZ_SEED:=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"
  echo "FUZZ_SEED=$FUZZ_SEED"
  rm -f "$out"/*.log
  j=0
  while [ "$j" -lt "$FUZZ_JOBS" ]; do
    (share sbc "$j" "$((FUZZ_COUNT * 41 / 100))"
    share asm "$j" "$((FUZZ_COUNT * 17 / 100))" -d "$out/dictionary"
    share file "$j" "$((FUZZ_COUNT / 20))"
    share save "$j" "$((FUZZ_COUNT / 50))"
    share world "$j" "$((FUZZ_COUNT / 200))"
    share kernel "$j" "$((FUZZ_COUNT / 50))"
    share run "$j" "$((FUZZ_COUNT / 10))") &
    j=$((j + 1))
  done
  wait
  for h in asm sbc run save world file kernel; do total $h; done
  grep -h -E '^[0-9]+ passed, [0-9]+ failed$' "$out"/*-*.log |
    awk -v jobs="$((7 * FUZZ_JOBS))" '{p += $1; f += $3; n++} END {if (n < jobs) f += jobs - n
      printf "%d passed, %d failed\n", p, f; exit f > 0}'
  ;;
smoke)
  rm -f "$out"/*.log
  smoke run "${FUZZ_RUNS:-500}" &
  smoke save "${FUZZ_SAVES:-600}" &
  smoke world "${FUZZ_WORLDS:-300}" &
  smoke asm "${FUZZ_TEXTS:-30000}" -d "$out/dictionary"
  smoke sbc "${FUZZ_FILES:-60000}"
  smoke file "${FUZZ_DATA:-20000}"
  smoke kernel "${FUZZ_KERNELS:-3000}"
  wait
  passed=0 failed=0
  set -- asm sbc run save world file kernel
  echo "of $# harnesses"
  for h; do
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$out/$h.log" | tail -1)
    : "${line:=0 passed, 1 failed}" # it died without a word
    sed "s/^/$h: /" "$out/$h.log" | grep -E '%|passed'
    passed=$((passed + ${line%% *}))
    line=${line#*, }
    failed=$((failed + ${line%% *}))
  done
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  ;;
long)
  for h in asm sbc run save world file kernel; do
    mkdir -p "$out/$h-corpus"
    "$out/$h" -max_total_time="$FUZZ_SECONDS" -timeout=30 -rss_limit_mb=2048 -max_len=8192 \
      -artifact_prefix="$out/$h-" -dict="$out/dictionary" -print_final_stats=1 \
      "$out/$h-corpus" "$out/$h-seeds" || exit 1
  done
  ;;
*) echo "usage: fuzz.sh smoke|many|long|seeds" >&2; exit 2 ;;
esac
