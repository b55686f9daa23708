"""Makes a wheel of this folder for pip, with Python's own modules alone.

The wheel has the package soma, and in soma/names the packages nki and neuronxcc, which `soma-nki`
puts on sys.path: installed as they are they would take the place of the vendor's. `pip install .`
makes one without what is compiled, for any machine; `make wheel` calls

    wheel_backend.py LIBRARY MODULE FOLDER

which puts libsoma.so and _soma.abi3.so into it and says in the wheel's name which machines it is
for. MODULE FOLDER writes to the folder what pip would install, with that module."""
import base64
import hashlib
import os
import re
import struct
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "soma_neuron"


def _version():
    header = os.path.join(HERE, "..", "vm", "api", "soma.h")
    if os.path.exists(header):
        with open(header) as f:
            return re.search(r'SOMA_VERSION "([^"]+)"', f.read()).group(1)
    return "0.1.0"


def _files():
    """(path in the wheel, bytes) of each file."""
    for package, place in (("soma", "soma"), ("nki", "soma/names/nki"),
                           ("neuronxcc", "soma/names/neuronxcc"),
                           ("compat", "soma/names/compat")):
        for folder, _, names in sorted(os.walk(os.path.join(HERE, package))):
            for name in sorted(n for n in names if n.endswith((".py", ".cpp"))):
                path = os.path.join(folder, name)
                inside = os.path.relpath(path, os.path.join(HERE, package)).replace(os.sep, "/")
                with open(path, "rb") as f:
                    yield place + "/" + inside, f.read()
    for name in sorted(os.listdir(os.path.join(HERE, "soma", "bin"))):
        with open(os.path.join(HERE, "soma", "bin", name), "rb") as f:
            yield "soma/bin/" + name, f.read()


def _metadata(version):
    return ("Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: Emulated AWS NeuronCores over "
            "libsoma; NKI kernels run unmodified\nRequires-Python: >=3.11\nRequires-Dist: numpy\n"
            % (NAME.replace("_", "-"), version))


# e_machine of an ELF file, as pip names it.
_PROCESSORS = {62: "x86_64", 183: "aarch64", 243: "riscv64", 22: "s390x", 21: "ppc64le"}
# What manylinux lets a library need.
_EVERYWHERE = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}


def platform_of(library, name="libsoma.so"):
    """The tag of the platforms on which this library runs: manylinux_2_34_x86_64 for one that needs
    glibc 2.34; linux_x86_64 for one of another C library. What it needs stands in its table of
    strings."""
    if library[:4] != b"\x7fELF" or len(library) < 20:
        raise ValueError("%s is not an ELF file" % name)
    machine, = struct.unpack_from("<>"[library[5] - 1] + "H", library, 18)
    if machine not in _PROCESSORS:
        raise ValueError("%s is for a processor that pip has no name for (%d)" % (name, machine))
    needed = {n.decode() for n in re.findall(rb"\0((?:lib|ld-)[\w+-]+\.so[.\d]*)(?=\0)", library)}
    other = {n for n in needed if not n.startswith(("libsoma.", "ld-linux"))} - _EVERYWHERE
    versions = [tuple(map(int, v.decode().split(".")[:2]))
                for v in re.findall(rb"\0GLIBC_(\d+\.\d+)[.\d]*(?=\0)", library)]
    if other and versions:
        raise ValueError("%s needs %s, which other machines may not have: build it without"
                         % (name, ", ".join(sorted(other))))
    system = "manylinux_%d_%d" % max(versions) if versions else "linux"
    return "%s_%s" % (system, _PROCESSORS[machine])


def _contents(*compiled):
    """(the wheel's name, [(path, bytes, mode)] of the files in it); compiled: paths of libsoma.so
    and of the module."""
    version = _version()
    info = "%s-%s.dist-info" % (NAME, version)
    tag, own = "py3-none-any", []
    for path in compiled:
        with open(path, "rb") as f:
            own.append(("soma/" + os.path.basename(path), f.read()))
    if own:
        tag = "cp311-abi3-" + platform_of(b"".join(data for _, data in own), compiled[0])
    files = list(_files()) + own + [
        (info + "/METADATA", _metadata(version).encode()),
        (info + "/WHEEL", ("Wheel-Version: 1.0\nGenerator: soma\nRoot-Is-Purelib: %s\nTag: %s\n" % (
            "false" if own else "true", tag)).encode()),
        (info + "/entry_points.txt", b"[console_scripts]\nsoma-nki = soma.nki_main:command\n"
         # by the name of the module, so that PYTEST_PLUGINS may name it as well
         b"[pytest11]\nsoma.pytest_plugin = soma.pytest_plugin\n")]
    record = "".join("%s,sha256=%s,%d\n" % (
        path, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(),
        len(data)) for path, data in files) + info + "/RECORD,,\n"
    runs = ("soma/bin/", "soma/libsoma.so", "soma/_soma.")
    return "%s-%s-%s.whl" % (NAME, version, tag), [
        (path, data, 0o755 if path.startswith(runs) else 0o644)
        for path, data in files + [(info + "/RECORD", record.encode())]]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None, compiled=()):
    name, files = _contents(*compiled)
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as z:
        for path, data, mode in files:
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


def unpack(module, folder):
    """What pip would install there of the wheel without the library, for other packagers."""
    for path, data, mode in _contents(module)[1]:
        if path.endswith("/RECORD"):
            continue  # pip's own
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, mode)


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("install from the folder: pip install ./python")


if __name__ == "__main__":
    try:
        if len(sys.argv) == 3:
            unpack(*sys.argv[1:])
        elif len(sys.argv) == 4:
            *compiled, folder = sys.argv[1:]
            os.makedirs(folder, exist_ok=True)
            print(os.path.join(folder, build_wheel(folder, compiled=compiled)))
        else:
            sys.exit("usage: wheel_backend.py [LIBRARY] MODULE FOLDER")
    except (OSError, ValueError) as error:
        sys.exit("wheel: %s" % error)
