#!/bin/sh
# The editors' files are those that the tables give now, and are well formed.
: "${BUILD:=build}"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # NAME STATUS
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "not as it should be: $1"; fi
}
"$BUILD"/soma-as --words >"$work/words"
for f in vim:soma.vim textmate:soma.tmLanguage.json; do
  lua5.4 asm/editors/generate.lua "${f%%:*}" <"$work/words" >"$work/out"
  cmp -s "$work/out" "asm/editors/${f#*:}"
  check "asm/editors/${f#*:}: run make generated" $?
done
# A JSON value by its brackets: every string closed, every bracket answered.
lua5.4 - asm/editors/soma.tmLanguage.json <<'EOF'
local text = io.open(arg[1]):read("a"):gsub('\\.', ""):gsub('"[^"]*"', "s")
assert(text:match("^%b{}%s*$") and not text:find('"', 1, true))
EOF
check "soma.tmLanguage.json is not JSON" $?
sed 's/^instruction matmul$/instruction matmull/' "$work/words" |
  lua5.4 asm/editors/generate.lua vim >"$work/out"
! cmp -s "$work/out" asm/editors/soma.vim
check "another word gives the same file" $?
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
