"""Functions of the older nki.language.constants."""
from soma import dtypes as _dtypes


def sizeinbytes(dtype):
    """Bytes of an element of a type."""
    return _dtypes.find(dtype).size
