"""nki.dtype: the element types, as nki.language has them."""
from soma import dtypes as _dtypes

for _name, _type in _dtypes.TYPES.items():
    globals()["bool_" if _name == "bool" else _name] = _type
globals()["bool"] = _dtypes.bool_
