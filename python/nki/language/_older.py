"""Parameters of nki.language as the older reference calls them."""
import functools

# The older name of a parameter and the one here; None: it is taken and changes nothing.
PARAMETERS = {
    "broadcast_to": {"src": "x"},
    "copy": {"src": "x"},
    "device_print": {"prefix": "print_prefix", "x": "tensor"},
    "empty_like": {"a": "x"},
    "expand_dims": {"data": "x"},
    "ndarray": {"lazy_initialization": None},
    "random_seed": {"mask": None},
    "softmax": {"compute_dtype": None},  # always float32
    "static_cast": {"value": "x"},
    "zeros_like": {"a": "x"},
}


def taken(function):
    """The function, which takes those names as well."""
    older = PARAMETERS[function.__name__]

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not older.keys().isdisjoint(kwargs):
            for name in older.keys() & kwargs.keys():
                value, new = kwargs.pop(name), older[name]
                if new in kwargs:
                    raise TypeError("%s() got both %s and %s, its older name"
                                    % (function.__name__, new, name))
                if new is not None:
                    kwargs[new] = value
        return function(*args, **kwargs)
    return call
