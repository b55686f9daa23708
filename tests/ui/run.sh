#!/bin/sh
# The trace viewer in a headless browser: makes pages with $BUILD/tests/page and runs viewer.js.
# Needs node, npm and chromium ($CHROMIUM, else the one in PATH). Ends with "N passed, N failed".
set -e
cd "$(dirname "$0")/../.."
: "${BUILD:=build}"
: "${CHROMIUM:=$(command -v chromium)}"
export CHROMIUM
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
ui=$BUILD/ui
mkdir -p "$ui"
cp tests/ui/package.json tests/ui/package-lock.json "$ui"
(cd "$ui" && npm ci --silent --no-audit --no-fund)
"$BUILD/tests/page" samples/vector_add.s "$ui/small.html" >/dev/null
"$BUILD/tests/page" samples/matmul.s "$ui/large.html" M=2048 N=2048 K=3072 >"$ui/large.count"
NODE_PATH=$ui/node_modules node tests/ui/viewer.js "$ui"
