#!/bin/sh
# The debugger in a terminal, which tmux is: editing of a line, history, completion, Ctrl-C. A text is
# waited for at most 20 seconds; nothing depends on how long something takes. Whatever ends this
# script, its tmux ends with it, or else when the commands in it are over.
: "${BUILD:=build}"
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
if ! command -v tmux >/dev/null; then
  echo "skipped: tmux is not installed"
  echo "0 passed, 0 failed"
  exit 0
fi
work=$(mktemp -d) || exit 2
mux() { tmux -S "$work/socket" -f /dev/null "$@"; }
trap 'mux kill-server 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
passed=0 failed=0

screen() { mux capture-pane -p -S - -t debug; }
shows() { screen | grep -qE -e "$1"; }
# NAME PATTERN [KEYS...]: types the keys; then a line of the screen must match the pattern.
says() {
  name=$1 pattern=$2
  shift 2
  [ $# -eq 0 ] || mux send-keys -t debug "$@"
  i=0
  while [ $i -lt 400 ] && ! shows "$pattern"; do
    sleep 0.05
    i=$((i + 1))
  done
  if [ $i -lt 400 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $name: no line matches $pattern; the screen is"
    screen | sed '/^$/d'
  fi
}

cat >"$work/spin.s" <<'END'
        target  trn2
t       tile    sbuf float32[4, 8]
total   tile    sbuf float32[4, 8]
section vector
        memset  t, 3.0
        tensor_copy total, t
again:  add     r1, r1, 1
        jmp     again
END
# What the debugger shows after it stays on the screen: its status
mux new-session -d -s debug -x 100 -y 100 \
  "cd '$work' && TERM=screen timeout --foreground 300 '$BUILD/soma' --debug spin.s
  echo status \$?; exec timeout 60 cat"

says "the first prompt" '^\(soma\) *$'
says "the place" 'vector 0  spin\.s:5  memset t, 3\.0'
says "backspace" '^stop 1: vector 1' 'break 9' BSpace 6 Enter
# "stepp" loses a letter in its middle: three to the left and one deleted before the cursor
says "the cursor keys" 'vector 1  spin\.s:6  tensor_copy total, t' 'sttep' Left Left BSpace Enter
says "an answer" '^42$' 'lua 6*7' Enter
says "the line before, changed" '^48$' Up BSpace 8 Enter
says "completion of a name" '^total\[0, 0\] = float32 0' 'print to' Tab '[0, 0]' Enter
says "completion of a command" '^\(soma\) continue' conti Tab
mux send-keys -t debug C-u
says "the run is under way" '^going$' 'break time 5us if print("going")' Enter 'continue' Enter
says "Ctrl-C during a long run" 'interrupted' C-c
says "the prompt again" '^far[[:space:]]*true' 'lua "far", r1 > 100' Enter
says "quit" '^status 0' quit Enter
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
