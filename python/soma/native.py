"""The recorder in C, `_soma`: a module in CPython's limited API that is built beside libsoma.so. It
is looked for there, then in this folder, where installations and wheels have it."""
import importlib.machinery
import importlib.util
import os
import sys

from .lib import lib

NAME = "_soma.abi3.so"


def _load():
    folders = [os.path.dirname(os.path.abspath(__file__))]
    if os.sep in lib._name:
        library = os.path.dirname(os.path.abspath(lib._name))
        folders = [library] + folders + [os.path.join(library, "soma", "python", "soma")]
    places = [os.path.join(folder, NAME) for folder in folders]
    path = next(filter(os.path.exists, places), None)
    if path is None:
        raise ImportError("%s, which records kernels, was not found: install python3-dev (Debian's "
                          "package) and build Soma with `make`. Tried:\n  %s"
                          % (NAME, "\n  ".join(places)))
    name = __package__ + "._soma"
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


_soma = _load()
