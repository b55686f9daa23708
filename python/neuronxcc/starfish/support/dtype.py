"""static_cast(array, dtype), as scripts use it to make inputs."""
from soma.arrays import cast as static_cast  # noqa: F401
