#!/bin/sh
# Every `make` target that a document names: it runs at its smallest size, or, where it runs the tests
# themselves, changes the tree or takes a build of its own, `make -n` knows it and the scripts that it
# calls are there. A target in a document that stands in neither list fails.
unset MAKEFLAGS MFLAGS
: "${BUILD:=build}"
passed=0 failed=0
check() { # NAME STATUS
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $1"; fi
}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# An implementation for `conform --dut`: this one, as another program.
cat >"$work/dut" <<EOF
#!/bin/sh
set --  "\$1" \$(sed -n 's/^\([a-z_0-9]*\)[[:space:]]*tensor.*output.*/\1/p' "\$1/program.s")
dir=\$1; shift
for name; do outs="\$outs --out \$name=\$dir/\$name.npy"; done
ins=''
for f in "\$dir"/in_*.npy; do [ -e "\$f" ] && ins="\$ins --in \$(basename "\$f" .npy)=\$f"; done
exec "$PWD/$BUILD/soma" "\$dir/program.s" \$ins \$outs >"\$dir/said" 2>&1
EOF
chmod +x "$work/dut"

small="
conform PATTERN=^tensor_copy
conform PATTERN=^iota DUT=$work/dut
judge COUNT=20
lists LISTS=20
mutants PATTERN=softmax
ulp POINTS=64 PATTERN=tanh
nki-random COUNT=10
nki-random-views COUNT=10
advice COUNT=20
nki DIR=$work
timing
"
echo "$small" | while read -r target settings; do
  [ -n "$target" ] || continue
  # shellcheck disable=SC2086
  make -s BUILD="$BUILD" "$target" $settings >"$work/log" 2>&1
  status=$?
  [ $status -eq 0 ] || { echo "make $target $settings:"; tail -5 "$work/log"; }
  check "make $target $settings" $status
  echo "$passed $failed" >"$work/count"
done
read -r passed failed <"$work/count"

dry='test check test-ui bench bench-ui bench-compare picture-ui pictures figures examples generated repro tsan
asan-threads fuzz fuzz-smoke fuzz-guided mutants-all pass-mutants asan ubsan debug lint format install uninstall mpi wheel deb clean'
for target in $dry; do
  make -n BUILD="$BUILD" "$target" >"$work/log" 2>&1
  status=$?
  for script in $(grep -oE 'tests/[a-z/_]+\.(sh|lua|py)' "$work/log" | sort -u); do
    [ -e "$script" ] || { echo "make $target calls $script, which is not there"; status=1; }
  done
  check "make -n $target" $status
done
lua5.4 tests/mutants/passes.lua . --texts
check "make pass-mutants finds what it changes" $?

known=" $(echo $dry) $(echo "$small" | sed 's/ .*//' | tr '\n' ' ')"
for target in $(git ls-files '*.md' | xargs grep -ohE '`make [a-z][a-z-]*' | sed 's/.* //' | sort -u); do
  case $known in *" $target "*) ;; *) false ;; esac
  check "a document names make $target, which tests/suites/targets.sh does not know" $?
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
