#!/bin/sh
# Assembles every block marked asm of the language's manual, and what it says is linked; checks that
# the manual and the man pages name every option, warning and directive.
: "${BUILD:=build}"
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # NAME STATUS
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $1"; fi
}

# Block n goes to n.s, its options (a comment before it) to n.args.
awk -v dir="$work" '
  /^<!-- soma-as / {args = $0; sub(/^<!-- soma-as /, "", args); sub(/ -->$/, "", args)}
  /^```$/ && inside {inside = 0; close(file); next}
  inside {print > file}
  /^```asm$/ {inside = 1; n++; file = dir "/" n ".s"; print args > (dir "/" n ".args"); args = ""}
' asm/README.md asm/reference.md
printf '%%define INCLUDED_ROWS 128\n' >"$work/rows.inc"
printf '0123456789' >"$work/table.bin"
# Three float32 1.0: a version 1.0 file with a header of 55 bytes.
printf '\223NUMPY\001\000\067\000%s' "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}" |
  cat >"$work/scale.npy"
printf '\000\000\200\077\000\000\200\077\000\000\200\077' >>"$work/scale.npy"

"$BUILD"/soma-as --manual | cmp -s - isa/manual.md
check "isa/manual.md is not what soma-as --manual prints: run make generated" $?

{ "$BUILD"/soma-as --words && sed -n 's/^\(CALL([A-Z_0-9]*, *\|TERM(\)"\([a-zA-Z_0-9]*\)".*/term \2/p' asm/text/terms.def; } | while read -r class word; do
  [ "$class" = preprocessor ] && word=%$word
  "$BUILD"/soma-as --explain "$word" >/dev/null 2>&1 || echo "no explanation of $word"
done >"$work/unexplained"
test ! -s "$work/unexplained" || cat "$work/unexplained"
check "--explain has every word of --words and terms.def" "$(wc -l <"$work/unexplained")"

blocks=$(ls "$work" | grep -c '\.args$')
[ "$blocks" -ge 15 ]
check "the manual has only $blocks examples" $?
i=0
while [ $i -lt "$blocks" ]; do
  i=$((i + 1))
  # shellcheck disable=SC2046
  (cd "$work" && "$BUILD"/soma-as $(cat $i.args) -w-all -w+no-hardware-op -o $i.out $i.s) >"$work/log" 2>&1
  status=$?
  [ $status -eq 0 ] || cat "$work/log"
  check "example $i of asm's manuals" $status
  [ -s "$work/$i.args" ] && grep -q . "$work/$i.args" && continue
  (cd "$work" && "$BUILD"/soma-dis $i.out >$i.d && "$BUILD"/soma-as -w-all -o $i.again $i.d &&
    cmp -s $i.out $i.again)
  check "example $i of asm's manuals: round trip" $?
done
objects=$(grep -l -e -r "$work"/*.args | sed 's/args$/out/' | tr '\n' ' ')
# shellcheck disable=SC2086
"$BUILD"/soma-as $objects -o "$work/linked" >"$work/log" 2>&1
status=$?
[ $status -eq 0 ] || cat "$work/log"
check "the objects of the manual do not link" $status

for w in $(sed -n 's/^WARNING([a-z_]*, *"\([^"]*\)".*/\1/p' asm/text/warnings.def); do
  cat asm/README.md asm/reference.md | grep -q -e "$w"
  check "the manual does not name the warning $w" $?
done
for w in $(sed -n 's/^WORD(\([a-z]*\),.*/\1/p' isa/words.def); do
  cat asm/README.md asm/reference.md | grep -q -e "\`[^\`]*$w\|^ *$w "
  check "the manual does not name the directive $w" $?
done
for w in $(sed -n 's/^DIRECTIVE([a-z]*, "\([a-z]*\)").*/\1/p' asm/pp/directives.def); do
  case $w in i*define | iassign | idef* | istr* | isubstr | ipathsearch | imacro | irmacro | unimacro | endm) continue ;; esac
  cat asm/README.md asm/reference.md | grep -q -e "%$w"
  check "the manual does not name %$w" $?
done
for program in soma-as soma-dis; do
  for o in $("$BUILD"/$program --help | grep -o -e '^  --*[A-Za-z@+-]*' -e ' --[a-z]*' | tr -d ' ' | sed 's/^-w+.*/-w+/' | sort -u); do
    grep -q -e "$(echo "$o" | sed 's/-/\\\\\\{0,1\\}-/g')" asm/tools/$program.1
    check "asm/tools/$program.1 does not name $o" $?
  done
  if command -v groff >/dev/null; then
    [ -z "$(groff -man -Tutf8 -wall asm/tools/$program.1 2>&1 >/dev/null)" ]
    check "asm/tools/$program.1 is not well formed" $?
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
