"""Makes a wheel of this folder for pip, with Python's own modules alone.

The wheel has the package soma, and in soma/names the packages nki and neuronxcc, which `soma-nki`
puts on sys.path: installed as they are they would take the place of the vendor's. libsoma.so is not
in it."""
import base64
import hashlib
import os
import re
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
            "libsoma; NKI kernels run unmodified\nRequires-Python: >=3.9\nRequires-Dist: numpy\n"
            % (NAME.replace("_", "-"), version))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version = _version()
    info = "%s-%s.dist-info" % (NAME, version)
    files = list(_files()) + [
        (info + "/METADATA", _metadata(version).encode()),
        (info + "/WHEEL", b"Wheel-Version: 1.0\nGenerator: soma\nRoot-Is-Purelib: true\n"
         b"Tag: py3-none-any\n"),
        (info + "/entry_points.txt", b"[console_scripts]\nsoma-nki = soma.nki_main:command\n"
         # by the name of the module, so that PYTEST_PLUGINS may name it as well
         b"[pytest11]\nsoma.pytest_plugin = soma.pytest_plugin\n")]
    record = "".join("%s,sha256=%s,%d\n" % (
        path, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(),
        len(data)) for path, data in files) + info + "/RECORD,,\n"
    name = "%s-%s-py3-none-any.whl" % (NAME, version)
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in files + [(info + "/RECORD", record.encode())]:
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if path.startswith("soma/bin/") else 0o100644) << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("install from the folder: pip install ./python")
