#!/bin/sh
# The rules of the source tree that a compiler does not check; prints each breach and a count.
#   includes  each folder is a room, and the list of arrows below says which it may include; of vm/
#             only vm/api includes asm/
#   names     what a header declares begins with its room's prefix; seven parameters at most
#   circles   at most 20 object files of isa/, asm/, kernel/ and vm/ need one another
#   headers   each compiles alone; soma.h as C99, C11 and C++
#   budgets   functions of 60 lines, files of 600, lines of 100 columns, ASCII
#   top       nothing stands at the top level but the rooms and the files listed here
cd "$(dirname "$0")/.." || exit 2
: "${CC:=gcc}"
counts=$(mktemp) || exit 2
trap 'rm -f "$counts"' EXIT
rule() { # NAME: reads breaches from standard input, one per line
  breaches=$(cat)
  if [ -z "$breaches" ]; then
    echo passed >>"$counts" # a pipe's end is a subshell, so the count goes through a file
  else
    echo failed >>"$counts"
    echo "$breaches" | sed "s/^/$1: /"
  fi
}
sources=$(git ls-files '*.c' '*.h' '*.def' 2>/dev/null || find isa asm kernel vm lua python tests -name '*.[ch]')
ours=$(echo "$sources" | grep -E '^(isa|asm|kernel|vm|lua|python/recorder)/')

# ROOM: the rooms that its files may include, besides itself. Rooms stand in layers; only engine,
# time and dma know one another, through one header each.
arrows='
isa:
isa/verify: isa
isa/lint: isa
asm: isa isa/lint
asm/text: isa asm
asm/object: isa asm
asm/pp: isa asm/text
asm/line: isa asm asm/text asm/object asm/pp
asm/link: isa asm/text asm/object asm/line
asm/dis: isa asm asm/line
kernel: isa
asm/tools: asm asm/text asm/pp asm/line asm/dis kernel isa
vm/simd: isa
vm/simd/level: isa vm/simd
vm/work: isa
vm/op: isa vm/simd vm/work
vm: isa vm/op
vm/engine: isa vm vm/op vm/work vm/time vm/dma
vm/time: isa vm vm/op vm/engine vm/dma
vm/dma: isa vm vm/op vm/work vm/engine vm/time
vm/debug: isa vm vm/op vm/engine vm/dma
vm/legal: isa
vm/world: vm/save isa vm vm/op vm/work vm/engine vm/time
vm/check: isa vm vm/op vm/engine vm/time vm/dma vm/legal
vm/save: isa vm vm/op vm/engine vm/time vm/dma vm/check
vm/api: asm asm/dis kernel isa isa/lint vm vm/op vm/work vm/engine vm/time vm/dma vm/check vm/debug vm/save vm/world
vm/record: isa vm vm/op vm/engine vm/time vm/dma vm/check vm/api
lua/base: isa vm/api
lua/tensor: isa vm/api lua/base
lua/machine: isa vm/api lua/base lua/tensor
lua/kernel: vm/api lua/base lua/tensor lua/machine
lua: isa vm/api lua/base lua/tensor lua/machine lua/kernel
lua/command: isa vm/api lua/base lua
python/recorder: vm/api
'
# shellcheck disable=SC2086
grep -n '#include "' $ours | grep -v '\.inc"' | awk -v arrows="$arrows" '
  BEGIN {
    n = split(arrows, line, "\n")
    for (i = 1; i <= n; i++) {
      m = split(line[i], w, "[: ]+")
      if (m) room[w[1]] = 1
      for (j = 1; j <= m; j++) may[w[1], w[j]] = 1
    }
  }
  {
    split($0, part, ":"); file = part[1]
    match($0, /"[^"]*"/); path = substr($0, RSTART + 1, RLENGTH - 2)
    from = file; sub(/\/[^\/]*$/, "", from)
    to = from
    while (sub(/^\.\.\//, "", path)) if (!sub(/\/[^\/]*$/, "", to)) to = ""
    if (index(path, "/")) { dir = path; sub(/\/[^\/]*$/, "", dir); to = to (to == "" ? "" : "/") dir }
    if (!(from in room)) print file ": " from " is not a room; tests/lint.sh lists them"
    else if (from != to && !((from, to) in may)) print file ":" part[2] ": " from " includes " to
  }' | rule "an arrow between rooms that is not allowed"
grep -n '#include "[^"]*/\(engine\|time\|dma\|check\|debug\)/' vm/engine/*.[ch] vm/time/*.[ch] vm/dma/*.[ch] vm/check/*.[ch] vm/debug/*.[ch] |
  grep -vE '/(engine/engine|time/clock|dma/dma|dma/hbm|check/check|debug/debug)\.h"|costs\.def"' |
  rule "a room beside includes more than its one header"

# What has been built: files that need one another in a circle can only be read together.
: "${BUILD:=build}"
if [ -d "$BUILD/vm" ]; then
  lua5.4 tests/circles.lua "$BUILD" 20 2>&1 | rule "a circle of files"
fi

python_headers=$(pkg-config --cflags python3 2>/dev/null)
for h in $(echo "$ours" | grep '\.h$'); do
  # shellcheck disable=SC2086
  $CC -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -DKERN_LEVEL=plain -I/usr/include/lua5.4 \
    $python_headers -fsyntax-only -x c "$h" 2>/dev/null || echo "$h"
done | rule "header does not compile alone"
for mode in "c -std=c99" "c -std=c11" "c++ -std=c++11"; do
  # shellcheck disable=SC2086
  $CC -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x $mode vm/api/soma.h 2>&1 | grep error
done | rule "soma.h is not clean"

git ls-files 2>/dev/null | sed 's|/.*||' | sort -u | grep -vxE '\.ci|\.clang-format|\.gitignore|CHANGELOG\.md|CONTRIBUTING\.md|LICENSE|Makefile|README\.md|asm|isa|kernel|lua|python|samples|tests|vm' |
  rule "a file at the top level that has no place there"

# shellcheck disable=SC2086
wc -l $ours | awk '$2 != "total" && $2 !~ /\.def$/ && $1 > 600 {print $2 " has " $1 " lines, 600 are allowed"}' |
  rule "long file"
# shellcheck disable=SC2086
awk 'length($0) > 100 {print FILENAME ":" FNR ": " length($0) " columns"}' $(echo "$ours" | grep -v '\.def$') |
  rule "long line"
# A function's body runs from a line with `{` at its end and no indent to the next `}` in column 1.
# shellcheck disable=SC2086
awk 'FNR == 1 {open = 0}
     /^[a-zA-Z_].*\)( \{|$)/ || /^    .*\) \{$/ {if ($0 ~ /\{$/) {open = FNR; name = $0}}
     /^}$/ && open {if (FNR - open > 60) print FILENAME ":" open ": " FNR - open " lines, 60 are allowed"; open = 0}' \
  $(echo "$ours" | grep '\.c$') | rule "long function"
# Each function at the left margin: "FILE:LINE NAME PARAMETERS", and `inline` where it is.
functions='
  FNR == 1 { open = 0 }
  {
    line = $0
    gsub(/"([^"\\\\]|\\\\.)*"/, "", line)
    gsub(/\/\*[^*]*\*\//, "", line)
    if (!open && line ~ /^[a-zA-Z_].*[a-z0-9_]\(/ && line !~ /^(typedef|_Static_assert)/) {
      open = 1; sig = ""; at = FNR
    }
    if (!open) next
    sig = sig " " line
    if (line !~ /[{;]/) next
    open = 0; i = index(sig, "(")
    if (match(sig, /=/) && RSTART < i) next
    name = substr(sig, 1, i - 1); sub(/^.*[ *]/, "", name)
    depth = 0; n = 1
    for (; i <= length(sig); i++) {
      c = substr(sig, i, 1)
      if (c == "(") depth++
      if (c == ")" && --depth == 0) break
      if (c == "," && depth == 1) n++
    }
    print FILENAME ":" at, name, n, (sig ~ / inline / ? "inline" : "")
  }'
# shellcheck disable=SC2086
awk "$functions" $(echo "$ours" | grep '\.[ch]$' | grep -v '^vm/simd/') |
  awk '$3 > 7 {print $1 ": " $2 " has " $3 " parameters, seven are allowed"}' | rule "long list of parameters"
# ROOM PREFIXES: what a function that a header declares begins with, so that its name says its
# room. (vm/simd pastes its names together.)
prefixes='
isa isa_|soma_view_
isa/verify isa_
isa/lint isa_lint|isa_findings_
asm as_
asm/text as_
asm/object as_
asm/pp as_pp_
asm/line as_
asm/link as_
asm/dis as_
kernel as_kernel_|as_k_
asm/tools as_
vm vm_
vm/engine vm_
vm/op vm_
vm/work vm_work_
vm/time vm_clock|vm_cost|vm_path_|vm_jitter
vm/dma vm_dma_|vm_hbm_
vm/legal vm_legal_|vm_lg_
vm/world vm_world_|vm_links_|vm_plan_|vm_cc_|cc_
vm/check vm_check_|vm_ck_
vm/save vm_save
vm/debug vm_debug_
vm/api soma_
vm/record vm_rec_
lua lb_|luaopen_
lua/base lb_
lua/machine lb_
lua/kernel lk_
lua/tensor lt_|dm_
python/recorder py_|PyInit_
'
# shellcheck disable=SC2086
awk "$functions" $(echo "$ours" | grep '\.h$') | awk -v prefixes="$prefixes" '
  BEGIN {
    n = split(prefixes, line, "\n")
    for (i = 1; i <= n; i++) if (split(line[i], w, " ") == 2) may[w[1]] = w[2]
  }
  {
    room = $1; sub(/\/[^\/]*$/, "", room)
    if ($4 == "" && room in may && $2 !~ "^(" may[room] ")") print $1 ": " $2 " begins with none of " may[room]
  }' | rule "a name that does not say its room"
# shellcheck disable=SC2086
grep -nE '^ *(/\*|//) Of ' $sources | rule "a comment begins with \"Of\" and lacks its subject"
# shellcheck disable=SC2086
LC_ALL=C grep -nP '[^\x00-\x7F]' $sources | rule "not ASCII"
# shellcheck disable=SC2086
grep -nE 'TODO|FIXME|XXX' $ours | rule "unfinished"
# shellcheck disable=SC2086
grep -nE '\b(printf|puts|exit|abort|perror)\(' $(echo "$ours" | grep '\.c$' | grep -vE '^(asm/tools/|lua/command/)') |
  grep -vE '(isa_buf_printf|isa_buf_puts|vsnprintf|snprintf)' | rule "library code prints or exits"
# The same budgets for Python.
python=$(git ls-files 'python/*.py' 'samples/nki/*.py' 'tests/python/*.py' 2>/dev/null)
# shellcheck disable=SC2086
[ -z "$python" ] || wc -l $python | awk '$2 != "total" && $1 > 600 {print $2 " has " $1 " lines"}' | rule "long Python file"
# shellcheck disable=SC2086
[ -z "$python" ] || awk 'length($0) > 100 {print FILENAME ":" FNR ": " length($0) " columns"}' $python | rule "long Python line"
# shellcheck disable=SC2086
[ -z "$python" ] || LC_ALL=C grep -nP '[^\x00-\x7F]|[ \t]$' $python | rule "Python: not ASCII, or space at the end"
passed=$(grep -c passed "$counts")
failed=$(grep -c failed "$counts")
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
