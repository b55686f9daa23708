#!/bin/sh
# Installs into a scratch tree, looks at what is there, and takes it away again; builds the examples of
# vm/api/README.md against it, as C and C++, and expects the output that the README shows.
: "${BUILD:=build}" "${CC:=gcc}"
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
check() { # NAME COMMAND...
  name=$1
  shift
  if "$@" >"$dir/log" 2>&1; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "install: $name failed"
    cat "$dir/log"
  fi
}
awk '/<!-- example -->/ {on = 1} on && /^```$/ {exit} on && code {print} on && /^```c$/ {code = 1}' \
  vm/api/README.md >"$dir/example.c"
awk '/<!-- output -->/ {on = 1} on && /^    / {sub(/^    /, ""); print; exit}' vm/api/README.md >"$dir/want"
cp "$dir/example.c" "$dir/example.cc"
# What stands there before is there afterwards, and nothing else.
root="$dir/a root"
mkdir -p "$root/usr/bin" "$root/usr/share/man" "$root/usr/lib/empty"
echo mine >"$root/usr/bin/other"
contents() { (cd "$root" && find . | sort); }
contents >"$dir/before"
check "make install" make BUILD="$BUILD" install PREFIX=/usr DESTDIR="$root"
(cd "$root" && find . ! -type d) | sed 's/^\.//' | grep -v /usr/bin/other | sort >"$dir/there"
sed -n 's/^f //p' "$root/usr/share/soma/installed" | sort >"$dir/listed"
check "the list of what is installed" diff -u "$dir/listed" "$dir/there"
echo gone >"$root/usr/bin/soma-old"
echo "f /usr/bin/soma-old" >>"$root/usr/share/soma/installed"
check "make install again" make BUILD="$BUILD" install PREFIX=/usr DESTDIR="$root"
check "what an older version had is gone" test ! -e "$root/usr/bin/soma-old"
mkdir -p "$root/usr/lib/soma/python/soma/__pycache__" # as Python makes it
check "make uninstall" make BUILD="$BUILD" uninstall PREFIX=/usr DESTDIR="$root"
contents >"$dir/after"
check "nothing else is left or gone" diff -u "$dir/before" "$dir/after"
nothing() { make BUILD="$BUILD" uninstall PREFIX=/usr DESTDIR="$root" | grep -q "^nothing to remove"; }
check "make uninstall of nothing" nothing
refused() { ! make BUILD="$BUILD" install PREFIX="$1" DESTDIR="$dir/no" && [ ! -e "$dir/no" ]; }
check "a relative PREFIX" refused usr
check "a PREFIX with a space" refused "/usr/my own"
# In a folder where nothing has been built: soma-mpi is not of `make all`.
builds_mpi() {
  ! command -v mpicc || make -n BUILD="$dir/none" install PREFIX=/usr DESTDIR="$dir/no" | grep -q -e "-o $dir/none/soma-mpi"
}
check "make install builds soma-mpi if there is an mpicc" builds_mpi
check "make install" make BUILD="$BUILD" install PREFIX=/usr DESTDIR="$dir/root"
for f in bin/soma bin/soma-as bin/soma-dis include/soma.h lib/libsoma.a lib/libsoma.so \
  lib/lua/5.4/soma.so lib/pkgconfig/soma.pc share/man/man1/soma.1 share/man/man1/soma-as.1 \
  share/man/man1/soma-dis.1 share/man/man1/soma-nki.1 bin/soma-nki \
  lib/soma/python/soma/lib.py lib/soma/python/soma/_soma.abi3.so lib/soma/python/soma/bin/neuron-profile \
  lib/soma/python/nki/isa/__init__.py lib/soma/python/compat/torch_xla/__init__.py \
  share/doc/soma/README.md share/doc/soma/isa/manual.md share/doc/soma/CHANGELOG.md \
  share/doc/soma/samples/softmax.s share/doc/soma/samples/nki/race.py share/doc/soma/samples/data/softmax_x.npy \
  share/bash-completion/completions/soma share/bash-completion/completions/soma-nki \
  share/vim/vimfiles/syntax/soma.vim share/soma/soma.tmLanguage.json; do
  check "$f is installed" test -s "$dir/root/usr/$f"
done
for command in "$dir"/root/usr/bin/*; do
  base=${command##*/}
  check "a man page of $base" test -s "$dir/root/usr/share/man/man1/$base.1"
  check "completions of $base" bash -c ". '$dir/root/usr/share/bash-completion/completions/$base' && complete -p $base"
done
# Each link of an installed manual leads to an installed file.
broken=$(cd "$dir/root/usr/share/doc/soma" && find . -name '*.md' | while read -r f; do
  sed 's/`[^`]*`//g' "$f" | grep -oE '\]\([^)#: ]+' | sed 's/^](//' | while read -r to; do
    [ -e "${f%/*}/$to" ] || echo "$f: $to"
  done
done)
check "links of the manuals: $broken" test -z "$broken"
samples="$dir/root/usr/share/doc/soma/samples"
check "an installed sample" "$dir/root/usr/bin/soma" "$samples/softmax.lua"
check "an installed program" "$dir/root/usr/bin/soma" "$samples/softmax.s" --in x=randn:1 --quiet
# The rockspec: by LuaRocks where it is installed, else as what it is, a table in Lua.
spec=lua/soma-scm-1.rockspec
check "the rockspec" lua5.4 -e 'local e = {} assert(loadfile(arg[0], "t", e))()
  assert(e.package == "soma" and arg[0]:find("soma%-" .. e.version:gsub("%-", "%%-") .. "%.rockspec$"))
  for _, f in pairs(e.build.install.lib) do assert(f == e.build.build_target) end' "$spec"
command -v luarocks >/dev/null && check "luarocks lint" luarocks --lua-version 5.4 lint "$spec"
# The newest version of the list of changes is the header's.
version=$(sed -n 's/^#define SOMA_VERSION "\(.*\)"/\1/p' vm/api/soma.h)
check "CHANGELOG.md" test "$(sed -n 's/^## //p' CHANGELOG.md | head -n 1)" = "$version"
run() { LD_LIBRARY_PATH="$dir/root/usr/lib" "$1" | diff -u "$dir/want" -; }
for std in c99 c11; do
  check "example as $std" $CC -std=$std -Wall -Wextra -Wpedantic -Werror -I"$dir/root/usr/include" \
    "$dir/example.c" -L"$dir/root/usr/lib" -lsoma -o "$dir/$std"
  check "its output" run "$dir/$std"
done
check "example as C++" g++ -Wall -Wextra -Wpedantic -Werror -I"$dir/root/usr/include" \
  "$dir/example.cc" -L"$dir/root/usr/lib" -lsoma -o "$dir/cxx"
check "its output" run "$dir/cxx"
check "example against libsoma.a" $CC -I"$dir/root/usr/include" "$dir/example.c" \
  "$dir/root/usr/lib/libsoma.a" -lm -o "$dir/static"
check "its output" run "$dir/static"
# The example of "Kernels without semaphores".
awk '/<!-- kernel example -->/ {on = 1} on && /^```$/ {exit} on && code {print} on && /^```c$/ {code = 1}' \
  vm/api/README.md >"$dir/kernel.c"
awk '/<!-- kernel output -->/ {on = 1} on && /^    / {sub(/^    /, ""); print; exit}' vm/api/README.md >"$dir/want"
cp "$dir/kernel.c" "$dir/kernel.cc"
for std in c99 c11; do
  check "the kernel as $std" $CC -std=$std -Wall -Wextra -Wpedantic -Werror \
    -I"$dir/root/usr/include" "$dir/kernel.c" -L"$dir/root/usr/lib" -lsoma -o "$dir/kernel-$std"
  check "its output" run "$dir/kernel-$std"
done
check "the kernel as C++" g++ -Wall -Wextra -Wpedantic -Werror -I"$dir/root/usr/include" \
  "$dir/kernel.cc" -L"$dir/root/usr/lib" -lsoma -o "$dir/kernel-cxx"
check "its output" run "$dir/kernel-cxx"
# The operator of "Custom operators", in a program that clamps -3, 0.25 and 3 to -1 .. 1.
{
  printf '#include <soma.h>\n#include <stdio.h>\n#include <string.h>\n'
  awk '/^## Custom operators/ {on = 1} on && /^```$/ {exit} on && code {print} on && /^```c$/ {code = 1}' vm/api/README.md
  cat <<'END'
int main(void) {
  static const char source[] = "target trn2\nx tile sbuf float32[1, 3]\nsection gpsimd\n"
                               " custom_op \"clamp\", dsts=[x], srcs=[x], imms=[-1.0, 1.0]\n halt\n";
  float x[3] = {-3.0f, 0.25f, 3.0f};
  soma_machine *m;
  soma_program *p;
  soma_run *r;
  if (soma_machine_new(NULL, &m) != SOMA_OK || register_clamp(m) != SOMA_OK ||
      soma_assemble(m, source, strlen(source), "clamp.s", NULL, &p, NULL) != SOMA_OK ||
      soma_run_start(m, p, &r) != SOMA_OK ||
      soma_memory_write(m, SOMA_SBUF, 0, 0, x, sizeof x) != SOMA_OK ||
      soma_run_until(r, SOMA_END, SOMA_SYNC, 0) != SOMA_OK ||
      soma_memory_read(m, SOMA_SBUF, 0, 0, x, sizeof x) != SOMA_OK)
    return 1;
  printf("%g %g %g\n", x[0], x[1], x[2]);
  soma_run_free(r);
  soma_program_free(p);
  soma_machine_free(m);
  return 0;
}
END
} >"$dir/clamp.c"
echo "-1 0.25 1" >"$dir/want"
for std in c99 c11; do
  check "the custom operator as $std" $CC -std=$std -Wall -Wextra -Wpedantic -Werror \
    -I"$dir/root/usr/include" "$dir/clamp.c" -L"$dir/root/usr/lib" -lsoma -o "$dir/clamp-$std"
  check "its output" run "$dir/clamp-$std"
done
nm -D --defined-only "$dir/root/usr/lib/libsoma.so" | awk '{print $3}' | grep -v -e '^soma_' -e '^SOMA_0' >"$dir/extra"
check "only soma_* is exported" test ! -s "$dir/extra"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
