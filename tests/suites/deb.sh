#!/bin/sh
# Debian's packages, of `make deb`: lintian, and what they install runs. With FULL=1 they are built and
# unpacked by dpkg-deb -x, and with SOMA_CHROOT=1 also installed by apt in a new Debian, which mmdebstrap
# makes (root, a network). SOMA_DEBS=FOLDER takes packages that are there.
: "${BUILD:=build}"
unset MAKEFLAGS MFLAGS MAKELEVEL
passed=0 failed=0
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
check() { # NAME COMMAND...
  name=$1
  shift
  if "$@" >"$dir/log" 2>&1; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "failed: $name"
    tail -n 20 "$dir/log"
  fi
}
finish() {
  echo "$passed passed, $failed failed"
  exit $((failed > 0))
}
version=$(sed -n 's/^#define SOMA_VERSION "\(.*\)"/\1/p' vm/api/soma.h)
check "the changelog of the packages is of this version" grep -q "^soma ($version-[0-9]*)" .ci/debian/changelog
if ! command -v dh >/dev/null || ! command -v dh_python3 >/dev/null; then
  echo "skipped: the packages: debhelper or dh-python is not installed"
  check "make deb says what it needs" sh -c "make BUILD='$BUILD' DEB='$dir/deb' deb 2>&1 | grep 'debhelper and dh-python'"
  finish
fi
debs=$SOMA_DEBS
if [ -z "$debs" ]; then
  [ -n "$FULL" ] || { echo "skipped: the packages are built by make check"; finish; }
  debs=$dir/deb
  check "make deb" make BUILD="$BUILD" DEB="$debs" deb
fi
if command -v lintian >/dev/null; then
  # It is not an upload to Debian, which would close a bug.
  check "lintian" lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
    "$debs"/*.changes
else
  echo "skipped: lintian is not installed"
fi
for p in libsoma0 libsoma-dev soma lua-soma python3-soma; do
  check "unpack $p" dpkg-deb -x "$debs/${p}_"*.deb "$dir/root"
done
cat >"$dir/one.py" <<'END'
import numpy as np, nki, nki.language as nl, soma.lib
@nki.jit
def twice(x):
    nl.store(x, nl.load(x) * 2)
x = np.ones((128, 64), np.float32)
twice(x)
assert (x == 2).all() and soma.__file__.endswith("/usr/lib/python3/dist-packages/soma/__init__.py")
twice.debug(x, commands="continue")
END
usr=$dir/root/usr
libs=$(dirname "$usr"/lib/*/libsoma.so.0)
unpacked() { # COMMAND...: as if it were installed
  env -u SOMA_LIB -u SOMA_PYTHON PATH="$usr/bin:/usr/bin:/bin" LD_LIBRARY_PATH="$libs" \
    LUA_CPATH="$libs/lua/5.4/?.so" PYTHONPATH="$usr/lib/python3/dist-packages" \
    PYTHONDONTWRITEBYTECODE=1 "$@" </dev/null
}
check "soma" unpacked soma "$usr/share/doc/soma/samples/softmax.lua"
check "lua-soma" unpacked lua5.4 -e 'require "soma"'
check "python3-soma" unpacked soma-nki --check "$dir/one.py"
if [ -n "$SOMA_CHROOT" ]; then
  cat >"$dir/try" <<'END'
set -e
soma-nki --check /root/one.py </dev/null
soma /usr/share/doc/soma/samples/softmax.lua
lua5.4 -e 'require "soma"'
printf '#include <soma.h>\nint main(void) { return !soma_version(); }\n' >/tmp/x.c
gcc /tmp/x.c $(pkg-config --cflags --libs soma) -o /tmp/x
/tmp/x
END
  debs=$(ls "$debs"/*.deb | grep -v dbgsym | tr '\n' ',')
  check "in a new Debian" mmdebstrap --variant=minbase --include="lua5.4,gcc,libc6-dev,pkg-config,$debs" \
    --hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount \
    --customize-hook="copy-in $dir/one.py $dir/try /root" --customize-hook='chroot "$1" sh /root/try' \
    "${SOMA_SUITE:-bookworm}" /dev/null
fi
finish
