"""The structs and enumerations that python/soma writes again are those of the headers:
every field, where it stands and how large it is."""
import ctypes as C
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from soma import kernel, lib, machine

API = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "vm", "api")
COMPILER = os.environ.get("CC", "gcc").split()
# Of those whose names differ by more than case.
NAMES = {"Fault": "soma_fault", "TileInfo": "soma_kernel_tile_info",
         "Unwritten": "soma_kernel_unwritten", "Field": "soma_field",
         "ProgramTile": "soma_tile_info"}
# {name in C: value here}
VALUES = {
    "SOMA_OK": lib.OK, "SOMA_NOMEM": lib.NOMEM, "SOMA_ARG": lib.ARG, "SOMA_IO": lib.IO,
    "SOMA_SYNTAX": lib.SYNTAX, "SOMA_FORMAT": lib.FORMAT, "SOMA_ILLEGAL": lib.ILLEGAL,
    "SOMA_UNBUILT": lib.UNBUILT, "SOMA_FAULT": lib.FAULT, "SOMA_DEADLOCK": lib.DEADLOCK,
    "SOMA_LIMIT": lib.LIMIT, "SOMA_STOPPED": lib.STOPPED, "SOMA_BUSY": lib.BUSY,
    "SOMA_CHECK": lib.CHECK, "SOMA_SBUF": lib.SBUF, "SOMA_PSUM": lib.PSUM, "SOMA_END": lib.END,
    "SOMA_TIME": lib.TIME, "SOMA_TEMP": lib.ROLE_TEMP, "SOMA_INPUT": lib.ROLE_INPUT,
    "SOMA_OUTPUT": lib.ROLE_OUTPUT, "SOMA_CONST": lib.ROLE_CONST,
    "SOMA_ENGINES": len(lib.ENGINES), "SOMA_CHECKS": len(machine.CHECKS),
    **{"SOMA_" + name.upper(): i for i, name in enumerate(lib.ENGINES)},
    "SOMA_KERNEL_KEEP_ORDER": kernel.KEEP_ORDER, "SOMA_KERNEL_ADVICE": kernel.ADVICE,
    "SOMA_KERNEL_FIXED_ENGINES": kernel.FIXED_ENGINES, "SOMA_KERNEL_COPIES": kernel.COPIES,
    "SOMA_KERNEL_STATIC": kernel.NO_DGE, "SOMA_PASS_MERGES": kernel.MERGES,
    "SOMA_RECORD_ACCUMULATE": kernel.ACCUMULATE, "SOMA_RECORD_STATIC": kernel.STATIC,
    "SOMA_RECORD_SWDGE": kernel.SWDGE, "SOMA_RECORD_HWDGE": kernel.HWDGE,
}


def headers():
    """soma.h and what it includes, without comments and macros."""
    done = subprocess.run(COMPILER + ["-E", "-P", "-I", API, os.path.join(API, "soma.h")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fields(body):
    """The names of a struct's fields, in order."""
    found = []
    for line in body.split(";"):
        line = re.sub(r"\[[^]]*\]", "", line).strip()
        function = re.match(r".*\(\*(\w+)\)\(", line, re.S)
        if function:
            found.append(function.group(1))
        elif line:
            found += [re.sub(r".*[\s*]", "", part.strip()) for part in line.split(",")]
    return found


def ours():
    """(class, name of its struct in C)."""
    for name, kind in sorted(vars(lib).items()):
        if isinstance(kind, type) and issubclass(kind, C.Structure) and kind is not C.Structure:
            snake = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
            yield kind, NAMES.get(name, "soma_" + snake)


@unittest.skipUnless(shutil.which(COMPILER[0]), "there is no C compiler")
class Structs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = headers()
        cls.structs = {m.group(2): fields(m.group(1)) for m in re.finditer(
            r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.S)}
        lines = []
        for _, name in ours():
            for field in cls.structs.get(name, ()):
                lines.append('printf("%s.%s %%zu %%zu\\n", offsetof(%s, %s), sizeof((%s *)0)->%s);'
                             .replace("sizeof((%s *)0)->%s", "sizeof ((%s *)0)->%s")
                             % (name, field, name, field, name, field))
            if name in cls.structs:
                lines.append('printf("%s %%zu 0\\n", sizeof(%s));' % (name, name))
        for name in VALUES:
            lines.append('printf("%s %%zu 0\\n", (size_t)%s);' % (name, name))
        program = "#include <stddef.h>\n#include <stdio.h>\n#include \"soma.h\"\n" \
            "#include \"soma_debug.h\"\nint main(void) {\n%s\nreturn 0;\n}\n" % "\n".join(lines)
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "structs.c")
            with open(source, "w") as f:
                f.write(program)
            done = subprocess.run(COMPILER + ["-I", API, source, "-o", source + ".out"],
                                  capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            said = subprocess.run([source + ".out"], capture_output=True, text=True).stdout
        cls.c = {line.split()[0]: tuple(map(int, line.split()[1:])) for line in said.splitlines()}

    def test_every_struct_is_that_of_the_header(self):
        seen = 0
        for kind, name in ours():
            with self.subTest(name):
                self.assertIn(name, self.structs, "no header has this struct")
                self.assertEqual([f[0] for f in kind._fields_], self.structs[name])
                for field in self.structs[name]:
                    at = getattr(kind, field)
                    self.assertEqual((at.offset, at.size), self.c["%s.%s" % (name, field)],
                                     "%s.%s" % (name, field))
                self.assertEqual(C.sizeof(kind), self.c[name][0])
            seen += 1
        self.assertGreater(seen, 37)

    def test_every_value_is_that_of_the_header(self):
        self.assertEqual({name: self.c[name][0] for name in VALUES}, VALUES)


if __name__ == "__main__":
    unittest.main()
