#!/bin/sh
# Each picture of samples/pictures is what its sample draws, is small; those of README.md exist.
: "${BUILD:=build}"
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
verdict() { # STATUS TEXT
  if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "pictures: $2"
  fi
}
python=${SOMA_PYTHON:-/usr/bin/python3}
"$python" -c 'import numpy' 2>/dev/null || python=
for picture in samples/pictures/*.svg; do
  name=$(basename "$picture" .svg)
  if [ -f "samples/$name.lua" ] || [ "${name#nki_}" != "$name" ]; then
    if [ -f "samples/$name.lua" ]; then
      set -- "$BUILD/soma" "samples/$name.lua"
    else
      [ -n "$python" ] || continue
      set -- "$BUILD/soma-nki" "samples/nki/${name#nki_}.py"
    fi
    "$@" "$dir" >"$dir/log" 2>&1 || cat "$dir/log"
    cmp "$picture" "$dir/$name.svg"
    verdict $? "$picture is not what the sample draws; see the difference, then: make pictures"
  else # a sample that needs a checkout of kernels
    [ -f "samples/nki/$name.py" ]
    verdict $? "$picture is of no sample"
  fi
  [ "$(wc -c <"$picture")" -lt 30720 ]
  verdict $? "$picture has 30 KB or more"
done
for picture in $(grep -o 'samples/pictures/[a-z_]*\.[a-z]*' README.md); do
  [ -s "$picture" ]
  verdict $? "README.md shows $picture, which does not exist"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
