"""Element types, and how they meet NumPy's.

`float32.name`, `.size` (bytes), `.code` (soma_dtype), `.integer`, `.float`. A type compares equal
to its name and to the NumPy type of the same bits: `x.dtype == np.float32`, `x.dtype == "float32"`.
Types that NumPy does not have (bfloat16 and the 8-bit floats) are those of ml_dtypes where it is
installed, else raw bits (arrays.py).
"""
import numpy as np

from .lib import lib

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class DType:
    """An element type. One object for each; compare with == or `is`."""

    __slots__ = ("name", "code", "size", "kind", "numpy", "integer", "float", "packed",
                 "__weakref__")

    def __init__(self, name, code, size, kind):
        self.name, self.code, self.size, self.kind = name, code, size, kind
        self.integer, self.float, self.packed = kind in "iu", kind == "f", kind == "p"
        self.numpy = _numpy_type(name, size, kind)

    @property
    def dtype(self):
        """The result of np.dtype(self)."""
        return self.numpy

    itemsize = property(lambda self: self.size)

    def __eq__(self, other):
        if self is other:
            return True
        try:
            return find(other) is self
        except TypeError:
            return False

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return self.name

    __str__ = __repr__

    def __reduce__(self):
        return (find, (self.name,))

    def __deepcopy__(self, memo):
        return self

    __copy__ = None


def _copy(self):
    return self


DType.__copy__ = _copy


def _numpy_type(name, size, kind):
    if kind in "iu" or name in ("float16", "float32"):
        return np.dtype(name)
    if kind == "b":
        return np.dtype(np.bool_)
    if name == "tfloat32":
        return np.dtype(np.float32, metadata={"soma": name})
    theirs = {"float8_e4m3": "float8_e4m3"}.get(name, name)
    if ml_dtypes is not None and hasattr(ml_dtypes, theirs):
        return np.dtype(getattr(ml_dtypes, theirs))
    # Void: NumPy refuses to convert numbers to it, so that no value is mistaken for bits.
    return np.dtype("V%d" % size, metadata={"soma": name})


def _rows():
    """(name, code, size, kind) of each type of the library; its codes begin at 1."""
    code = 1
    while lib.soma_dtype_size(code):
        name = lib.soma_dtype_name(code).decode()
        kind = "p" if name.endswith("_x4") else name[0]  # unsigned, int, float, packed, bool
        yield name, code, lib.soma_dtype_size(code), "f" if name[:2] in ("bf", "tf") else kind
        code += 1


TYPES = {row[0]: DType(*row) for row in _rows()}
BY_CODE = {t.code: t for t in TYPES.values()}
globals().update(TYPES)
bool_ = TYPES["bool"]
float32, float16, bfloat16 = TYPES["float32"], TYPES["float16"], TYPES["bfloat16"]
int32, uint32, uint8, uint16 = TYPES["int32"], TYPES["uint32"], TYPES["uint8"], TYPES["uint16"]

# Other names that libraries use for the same bits.
_ALIASES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "half": "float16",
            "float": "float32", "bool_": "bool", "float8e4": "float8_e4m3",
            "float8e5": "float8_e5m2", "float8_e4m3fnuz": None, "int": None}
known = {}  # types by what has been asked for


def find(x):
    """The type of a DType, a name, a NumPy type or anything that np.dtype takes, or a type of
    ml_dtypes, torch or jax by its name. TypeError for a type that the machine does not have."""
    if x.__class__ is DType:
        return x
    try:
        found = known.get(x)
    except TypeError:
        found = None
    if found is None:
        found = _find(x)
        try:
            known[x] = found
        except TypeError:
            pass
    return found


def _find(x):
    if isinstance(x, str):
        name = x.replace("torch.", "").replace("nki.language.", "")
        name = _ALIASES.get(name, name)
        if name in TYPES:
            return TYPES[name]
    elif x is None or x is float or x is int:
        pass
    else:
        name = str(x)
        if name.startswith("torch."):
            return _find(name)
        try:
            d = np.dtype(x)
        except TypeError:
            d = None
        if d is not None:
            if d.metadata and "soma" in d.metadata:
                return TYPES[d.metadata["soma"]]
            if d.name in TYPES:
                return TYPES[d.name]
            x = d.name
        elif getattr(x, "__name__", None) in TYPES:
            return TYPES[x.__name__]
    raise TypeError("%s is not a type of the machine; it has %s" % (x, ", ".join(TYPES)))


def is_type(x):
    """Whether find(x) would succeed."""
    try:
        find(x)
        return True
    except TypeError:
        return False


# Widest first: the type of an operation on two tiles.
_RANK = {name: i for i, name in enumerate(
    "bool uint8 int8 uint16 int16 uint32 int32 float8_e5m2 float8_e4m3 float8_e4m3fn float8_e3m4 "
    "float16 bfloat16 tfloat32 float32".split())}


def promote(a, b):
    """The type of the result of an operation on a and b: the wider one, floats above integers;
    float16 with bfloat16 gives float32."""
    if a is b:
        return a
    if {a.name, b.name} == {"float16", "bfloat16"}:
        return float32
    return a if _RANK.get(a.name, 99) >= _RANK.get(b.name, 99) else b
