#!/bin/sh
# The trace viewer in a headless browser: makes pages with $BUILD/tests/page and runs viewer.js, or
# with the argument bench bench.js, with picture picture.js. Needs node, npm and chromium ($CHROMIUM,
# else the one in PATH). viewer.js ends with "N passed, N failed".
set -e
cd "$(dirname "$0")/../.."
: "${BUILD:=build}"
: "${CHROMIUM:=$(command -v chromium || true)}"
export CHROMIUM
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
for tool in node npm "${CHROMIUM:-chromium}"; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install nodejs npm chromium" >&2; exit 2; }
done
ui=$BUILD/ui
mkdir -p "$ui"
page() { # NAME FLAGS PROGRAM DEFINES...
  name=$1 flags=$2 program=$3
  shift 3
  "$BUILD/tests/page" "$flags" "$program" "$ui/$name.html" "$@" >"$ui/$name.txt"
}
# Downloaded once for a version.
if ! cmp -s tests/ui/package-lock.json "$ui/installed.json"; then
  cp tests/ui/package.json tests/ui/package-lock.json "$ui"
  (cd "$ui" && npm ci --silent --no-audit --no-fund)
  cp tests/ui/package-lock.json "$ui/installed.json"
fi
export NODE_PATH="$ui/node_modules"
page mm c samples/matmul.s M=512 N=1024 K=1024
"$BUILD/soma" --ranks 8 tests/ui/world.s --algorithm rdh --in x=ones --html "$ui/world.html" >"$ui/world.txt"
if [ "$1" = picture ]; then
  exec node tests/ui/picture.js "$ui/mm.html" "$ui/world.html" samples/pictures
fi
page large ct samples/matmul.s M=2048 N=2048 K=3072
page huge ct samples/matmul.s M=4096 N=8192 K=4096
if [ "$1" = bench ]; then
  exec node tests/ui/bench.js "$ui/large.html" "$ui/huge.html"
fi
page small ce samples/vector_add.s
page nocauses - samples/vector_add.s
page part l samples/vector_add.s
page alone r samples/vector_add.s
page fault c tests/ui/fault.s
page race ck tests/ui/race.s
page empty c tests/ui/empty.s
page pair c tests/ui/pair.s
page meet c tests/ui/meet.s
exec node tests/ui/viewer.js "$ui"
