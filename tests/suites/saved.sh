#!/bin/sh
# Runs that are stopped, saved and resumed: by the command, with limits and signals, and by the
# conformance cases of instructions that leave much in flight.
: "${BUILD:=build}"
soma=$PWD/$BUILD/soma
case $BUILD in /*) soma=$BUILD/soma ;; esac
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
check() { # NAME COMMAND...
  name=$1
  shift
  if "$@" >"$dir/log" 2>&1; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "saved: $name"
    cat "$dir/log"
  fi
}
status() { # STATUS COMMAND...: its exit status, and its messages in $dir/said
  want=$1
  shift
  "$@" >"$dir/said" 2>&1
  got=$?
  [ "$got" -eq "$want" ] || { echo "exit status $got, not $want"; cat "$dir/said"; return 1; }
}
says() { grep -qF -e "$1" "$dir/said" || { echo "it does not say: $1"; cat "$dir/said"; return 1; }; }
data=$PWD/samples/data
cp samples/softmax.s "$dir/"
cat >"$dir/forever.s" <<'END'
        target  trn2
c       tensor  float32[1, 1], output
section sync
.l:     add     r0, r0, 1
        jmp     .l
END
cd "$dir" || exit 2
inputs="-D ROWS=256 -D COLS=96 --in x=$data/softmax_x.npy"

# In parts as in one go.
check "one go" "$soma" softmax.s $inputs --out y=want.npy --quiet
check "a limit stops it" status 1 "$soma" softmax.s $inputs --max-ns 2500 --save part.run
check "how to continue" says "soma --resume part.run"
check "a second part" status 1 "$soma" --resume part.run --max-instructions 12 --save part.run --out y=early.npy
check "no output before the end" test ! -e early.npy
check "the rest" "$soma" --resume part.run --out y=got.npy --quiet
check "the same result" cmp want.npy got.npy
cat >part.lua <<'END'
local soma = require "soma"
assert(soma.equal(soma.load_npz("got.npz").y, soma.load_npy "want.npy"))
END
check "a part again" status 1 "$soma" softmax.s $inputs --max-ns 2500 --save part.run
check "the rest, into an archive" "$soma" --resume part.run --out got.npz --quiet
check "the same result in it" "$soma" part.lua

# A large input that the run reads where the file is mapped is in the saved run.
cat >large.s <<'END'
        target  trn2
x       tensor  uint8[1024, 16384], input
y       tensor  uint8[4, 16384], output
q       queue   dge=hwdge
section sync
        nop
        dma_copy  y, x[1020:1024], queue=q
        halt
END
cat >large.lua <<'END'
local soma = require "soma"
if arg[1] == "make" then
  soma.uniform({1024, 16384}, "uint8", {seed = 1, low = 0, high = 256}):save_npy "x.npy"
else
  assert(soma.equal(soma.load_npy "y.npy", soma.uniform({1024, 16384}, "uint8", {seed = 1, low = 0, high = 256}):slice({1020, 1024})))
end
END
check "make a large input" "$soma" large.lua make
check "a limit stops its run" status 1 "$soma" large.s --in x=x.npy --max-instructions 1 --save large.run
rm -f x.npy
check "it continues without the file" "$soma" --resume large.run --out y=y.npy --quiet
check "as with it" "$soma" large.lua

# A run with checks finds what it finds in one go, in the same words.
cat >race.s <<'END'
        target  trn2
x       tensor  float32[128, 256], input
y       tensor  float32[128, 256], output
t       tile    sbuf float32[128, 256]
u       tile    sbuf float32[128, 256]
s       sem
d       sem
q       queue   dge=hwdge
section sync
        dma_copy  t, x, queue=q   $s
        dma_copy  y, u, queue=q   $d>=1
        halt
section vector
        tensor_copy  u[:, 0:200], t[:, 0:200]   $s>=15 $d++
        tensor_copy  u[:, 0:8], t[:, 0:8]
        halt
END
cat >x.lua <<'END'
local soma = require "soma"
soma.randn({128, 256}, "float32", {seed = 1}):save_npy "x.npy"
END
same_said() { # FILE: what it said, without the command's own messages
  sed '/^soma: /d; / warning: /d' "$dir/said" >"$1"
}
check "its input" "$soma" x.lua
check "checks in one go" status 1 "$soma" race.s --in x=x.npy --check all --quiet
check "they find a race" says "vector must wait for \$s >= 16"
same_said want.said
check "a run with checks is stopped" status 1 "$soma" race.s --in x=x.npy --check all --max-ns 2250 --save race.run --quiet
check "and saved" says "soma --resume race.run"
check "it continues with them" status 1 "$soma" --resume race.run --quiet
same_said got.said
check "the same findings" cmp want.said got.said
check "no other checks" status 2 "$soma" --resume race.run --check race

# What cannot be.
check "no saved run" status 1 "$soma" --resume softmax.s
check "no saved run is named" says "softmax.s: this is not a saved run"
cp part.run other.run
printf '\377' | dd of=other.run bs=1 seek=22 conv=notrunc 2>/dev/null
check "a file in another layout" status 1 "$soma" --resume other.run
check "both layouts are named" says "the run was saved in layout 255 of version "
check "that of the program too" says ", this one reads layout 5: a run is resumed by the version that saved it"
check "a file that is not there" status 1 "$soma" --resume nothing.run
check "a program and a run" status 2 "$soma" --resume part.run softmax.s
check "inputs of a run" status 2 "$soma" --resume part.run $inputs
check "inputs of a run in one file" status 2 "$soma" --resume part.run --in x.npz
check "an output it has not" status 2 "$soma" --resume part.run --out z=z.npy
check "a folder that is not there" status 1 "$soma" softmax.s $inputs --max-ns 2500 --save nowhere/part.run
check "it is named" says "cannot write 'nowhere/part.run'"
printf 'section sync\n div r0, r1, 0\n halt\n' >zero.s
check "a fault is not saved" status 1 "$soma" zero.s --save zero.run
check "and leaves no file" test ! -e zero.run

# Signals: the run is saved and its trace written, and nothing else is left.
mkdir empty
signal() { # NAME STATUS
  check "$1" status "$2" timeout --preserve-status -s "$1" 1 "$soma" forever.s --quiet --save empty/run \
    --trace empty/trace.json --out c=empty/c.npy
}
signal INT 130
signal TERM 143
signal HUP 129
check "it is saved" says "soma --resume empty/run"
check "nothing else is left" test "$(echo $(ls empty))" = "run trace.json"
check "and continues" status 1 "$soma" --resume empty/run --max-instructions 4000000000 --max-seconds 1
cd - >/dev/null || exit 2
# In one process, since the cases of all are made first; each must match some.
set -- "^rng" "^tensor_copy/one element" "^copy_predicated/both ways"
[ -z "$FULL" ] || set -- "$@" "^dma_transpose/bfloat16" "^tensor_scalar/gpsimd gathers"
check "cases of instructions" lua5.4 tests/conform.lua --saved "$@"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
