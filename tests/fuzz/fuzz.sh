#!/bin/sh
# Runs the fuzz harnesses of $BUILD/fuzz. Both forms begin with the seeds: the samples, the golden
# cases and tests/fuzz/corpus, where every input lies that once broke something.
#   fuzz.sh smoke    a fixed number of inputs with fixed seeds; ends with "N passed, N failed"
#   fuzz.sh long     libFuzzer, FUZZ_SECONDS for each; new inputs stay in $BUILD/fuzz/X-corpus
# The harnesses are AFL++'s as well:
#   make BUILD=build-afl CC=afl-clang-fast SAN=-Wno-pass-failed FUZZ_MAIN=-fsanitize=fuzzer fuzz-build
#   BUILD=build-afl tests/fuzz/fuzz.sh seeds
#   afl-fuzz -i build-afl/fuzz/asm-seeds -o build-afl/out -x build-afl/fuzz/dictionary build-afl/fuzz/asm
cd "$(dirname "$0")/../.." || exit 2
: "${BUILD:=build-asan}" "${FUZZ_SECONDS:=60}"
case $BUILD in /*) root=$BUILD ;; *) root=$PWD/$BUILD ;; esac
out=$root/fuzz
for h in asm sbc run save file; do
  rm -rf "$out/$h-seeds"
  mkdir -p "$out/$h-seeds" || exit 2
done
cp tests/data/np[yz]/*.np[yz] tests/data/safetensors/*.safetensors "$out/file-seeds/" || exit 2
lua5.4 tests/fuzz/dict.lua >"$out/dictionary" || exit 2
for h in asm sbc run save file; do
  for f in "tests/fuzz/corpus/$h"/*; do [ -f "$f" ] && cp "$f" "$out/$h-seeds/"; done
done
for s in samples/*.s tests/golden/*/in.s; do
  name=$(echo "$s" | tr / _)
  cp "$s" "$out/asm-seeds/$name"
  (cd "$(dirname "$s")" && "$root/soma-as" -g -o "$out/sbc-seeds/$name.sbc" "$(basename "$s")" 2>/dev/null)
done

smoke() { # NAME COUNT [OPTION...]
  name=$1 count=$2
  shift 2
  for f in "$out/$name-seeds"/*; do [ -f "$f" ] && set -- "$@" "$f"; done
  "$out/$name" -n "$count" -s 1 -k "$out/$name-kept" "$@" >"$out/$name.log" 2>&1 ||
    tail -30 "$out/$name.log"
}

case $1 in
seeds) ;;
smoke)
  rm -f "$out"/*.log
  smoke run "${FUZZ_RUNS:-1500}" &
  smoke save "${FUZZ_SAVES:-600}" &
  smoke asm "${FUZZ_TEXTS:-30000}" -d "$out/dictionary"
  smoke sbc "${FUZZ_FILES:-60000}"
  smoke file "${FUZZ_DATA:-20000}"
  wait
  passed=0 failed=0
  for h in asm sbc run save file; do
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
  for h in asm sbc run save file; do
    mkdir -p "$out/$h-corpus"
    "$out/$h" -max_total_time="$FUZZ_SECONDS" -timeout=30 -rss_limit_mb=2048 -max_len=8192 \
      -artifact_prefix="$out/$h-" -dict="$out/dictionary" -print_final_stats=1 \
      "$out/$h-corpus" "$out/$h-seeds" || exit 1
  done
  ;;
*) echo "usage: fuzz.sh smoke|long|seeds" >&2; exit 2 ;;
esac
