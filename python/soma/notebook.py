"""Notebooks: the lines of cells under %%time, and the kernel of `soma-nki --install-kernelspec`."""
import ast
import json
import linecache
import os
import sys
import tempfile

KERNEL = "soma-nki"  # the kernelspec's name


def _shell():
    """IPython's shell, if this is a notebook, else None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if hasattr(ipython, "get_ipython") else None


def cell_of(filename):
    """The name that IPython gives to the cell of this file name, such as In[3]; else None."""
    compiler = getattr(_shell(), "compile", None)
    if hasattr(compiler, "format_code_name"):
        cell = compiler.format_code_name(filename)  # ("Cell", "In[3]")
        return cell[1] if cell else None
    number = getattr(compiler, "_filename_map", {}).get(filename)  # IPython before 8.6
    return number and "In[%s]" % number


def name_timed_cells():
    """IPython compiles a cell under %%time as a file <timed exec>, whose lines nobody has. From now
    on such a cell is what it is without %%time: In[3], with its text and its lines."""
    shell = _shell()
    compiler = getattr(shell, "compile", None)
    if not hasattr(compiler, "cache") or getattr(compiler, "soma_names_cells", False):
        return
    kind = type(compiler)

    class Compiler(kind):
        soma_names_cells = True

        def __call__(self, source, filename, *args, **kwargs):
            if filename in ("<timed exec>", "<timed eval>") and isinstance(source, ast.AST):
                filename = _cell(shell, source) or filename
            return kind.__call__(self, source, filename, *args, **kwargs)

    try:
        compiler.__class__ = Compiler
    except TypeError:
        pass  # of another make: cells keep IPython's names


def _cell(shell, tree):
    """The name of the cell that runs, if it begins with %%time; its tree gets the cell's lines."""
    past = getattr(getattr(shell, "history_manager", None), "input_hist_raw", None)
    lines = past[-1].splitlines(True) if past else []
    filled = [i for i, line in enumerate(lines) if line.strip()]
    if len(filled) < 2 or not lines[filled[0]].startswith("%%time"):
        return None
    name = shell.compile.cache("".join(lines), shell.execution_count)
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    ast.increment_lineno(tree, filled[1])  # IPython drops empty lines before the code
    return name


def install_kernelspec(prefix=None):
    """Gives Jupyter a kernel in which `import nki` is Soma's, with the options of this call;
    returns its folder. It is the user's, or the virtual environment's, or below `prefix`."""
    from jupyter_client.kernelspec import KernelSpecManager
    import ipykernel  # noqa: F401
    from . import look, nki_main
    if prefix is None and sys.prefix != sys.base_prefix:
        prefix = sys.prefix
    # Not `soma-nki -m ipykernel_launcher`: !python3 x.py of a cell has the variables as well.
    spec = {"display_name": "Python (soma-nki)", "language": "python",
            "argv": ["/bin/sh", "-c", 'eval "$("$0" "$1" --env)" && '
                     'exec "$0" -m ipykernel_launcher -f "$2"',
                     sys.executable, nki_main.__file__, "{connection_file}"],
            "env": {n: os.environ[n] for n in ("SOMA_LIB", look.VARIABLE) if os.environ.get(n)},
            "metadata": {"debugger": True}}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "kernel.json"), "w", encoding="utf-8") as f:
            json.dump(spec, f, indent=1)
        return KernelSpecManager().install_kernel_spec(
            folder, KERNEL, user=prefix is None, prefix=prefix)
