"""static_cast(array, dtype), as scripts use it to make inputs."""
from soma import arrays, dtypes


def static_cast(array, dtype):
    """The array's values as another type."""
    return arrays.array(array, dtype) if dtypes.is_type(dtype) else array.astype(dtype)
