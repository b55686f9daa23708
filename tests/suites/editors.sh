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

# Completions of bash: those of the commands as they are now, and they work.
lua5.4 asm/editors/completions.lua "$BUILD" >"$work/soma.bash"
cmp -s "$work/soma.bash" asm/editors/soma.bash
check "asm/editors/soma.bash: run make generated" $?
bash -n asm/editors/soma.bash
check "soma.bash is not a script of bash" $?
touch "$work/a.s" "$work/a.lua" "$work/a.txt" "$work/x.npy"
mkdir "$work/folder"
complete() { # WANT WORD...: what bash offers for the last of these words
  want=$1
  shift
  got=$(cd "$work" && bash -c '. ./soma.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    _soma_complete; printf "%s\n" "${COMPREPLY[@]}" | sort | tr "\n" " "' bash "$@")
  [ "$got" = "$want" ]
  check "completion of: $* gives: $got" $?
}
complete "a.lua a.s folder " soma ""
complete "a.s folder " soma-as ""
complete "folder " soma-dis f
complete "--timeline --timing-only " soma --tim
complete "trn1 trn2 trn3 " soma --target t
complete "race range " soma a.s --check ra
complete "race range " soma a.s --check = ra
complete "x.npy " soma a.s --in a = x
complete "Summary= " soma --csv Su
complete "a.lua a.s a.txt " soma --csv Summary = a
complete "folder " soma -I ""
complete "gpsimd " soma-dis --engine g
complete "lst " soma-as -f l
complete "dma_transpose " soma-as --explain dma_tran
complete "race range " soma --explain ra
complete "--file " soma --sandbox --fi
complete " " soma --fi
complete "--max-output " soma --sandbox --max-o
complete "-m " soma-nki -m
# Each option that is offered is one, and each of the table is offered.
bash -c '. asm/editors/soma.bash; for c in "${!_soma_options[@]}"; do
  for o in ${_soma_options[$c]}; do echo "$c $o"; done; done' >"$work/offered"
unknown=$(while read -r command option; do
  [ "$command" = sandbox ] && command="soma --sandbox"
  # shellcheck disable=SC2086
  SOMA_PYTHON=true timeout 10 "$BUILD"/$command "$option" </dev/null 2>&1 |
    grep -E 'unknown option|no option' | sed "s/^/$command $option: /"
done <"$work/offered")
[ -z "$unknown" ] && [ "$(wc -l <"$work/offered")" -gt 70 ]
check "an option that is offered: $unknown" $?
missing=$(grep -oE '\["-[^"]*"\] = (take_|"flag"|"perhaps")' lua/command/options.lua | cut -d'"' -f2 |
  while read -r option; do grep -qx -- "soma $option" "$work/offered" || echo "$option"; done)
[ -z "$missing" ]
check "options of soma that are not offered: $missing" $?
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
