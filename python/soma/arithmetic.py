"""Arithmetic on tensors of a device: each operator is a kernel, which is built for the types of its
operands and how they lie, and kept."""
import functools
import weakref

from .errors import SomaError
from .layout import PARTITIONS, Lies, boxes, joined, part_of, parts, same_memory

PROGRAMS = 256  # that are kept
WIDE = 512  # columns of a product in PSUM
PRODUCTS = 256  # of 128 x 128 x 512 in one program
LONG = 4096  # columns of a sum
REDUCE = {"sum": "add", "mean": "add", "max": "maximum", "min": "minimum"}


def _language():
    """nki.language and nki.isa of this package."""
    try:
        import nki
        import nki.isa
        import nki.language
        own = hasattr(nki, "_target")
    except ImportError:
        own = False
    if not own:
        raise SomaError("arithmetic on a device needs Soma's nki: start the script with soma-nki")
    return nki


# ---- Programs ----

@functools.lru_cache(PROGRAMS)
def _kernel(target, name, kind, *key):
    """A kernel for a key: it writes the last of its arguments, which are flat tensors."""
    function = _RECORD[kind](name, *key)
    function.__name__ = function.__qualname__ = name
    kernel = _language().jit(function, platform_target=target)
    kernel.has_constants = weakref.WeakSet()  # the devices on which its constants are
    return kernel


def _run(operands, name, kind, *key):
    """Runs the kernel of a key over the operands; the last is written."""
    device = operands[-1].array.device
    before = _kernel.cache_info().misses
    kernel, flat = _kernel(device.target, name, kind, *key), tuple(x.flat() for x in operands)
    if device not in kernel.has_constants:
        kernel.move_to_device(device, *flat)
        kernel.has_constants.add(device)
    run = kernel._launch(flat, {})
    device.arithmetic["runs"] += 1
    device.arithmetic["programs"] += _kernel.cache_info().misses - before
    device.arithmetic["time_ns"] += run.time_ns


def _view(t, at, rows, columns):
    return t.ap([[rows[1], rows[0]], [columns[1], columns[0]]], offset=at)


def _each_box(tensors, dims):
    """For each tile: its views, its rows and columns. A column that repeats is loaded once."""
    for rows, columns, at in boxes(dims):
        views = []
        for j, t in enumerate(tensors):
            width = 1 if columns[1][j] == 0 and j < len(tensors) - 1 else columns[0]
            views.append(_view(t, at[j], (rows[0], rows[1][j]), (width, columns[1][j] or 1)))
        yield views, rows[0], columns[0]


def _load(view):
    nki = _language()
    t = nki.language.ndarray(view.shape, dtype=view.dtype, buffer=nki.language.sbuf)
    nki.isa.dma_copy(dst=t, src=view)
    return t


def _record_elementwise(name, dims, numbers):
    """numbers: operands that are numbers, None for those that are tensors."""
    def function(*tensors):
        nki = _language()
        for views, rows, columns in _each_box(tensors, dims):
            tiles = iter([_load(v) for v in views[:-1]])
            given = [next(tiles) if n is None else n for n in numbers]
            found = getattr(nki.language, name)(*given, dtype=views[-1].dtype)
            if found.shape[1] != columns:
                found = nki.language.broadcast_to(found, (rows, columns))
            nki.isa.dma_copy(dst=views[-1], src=found)
    return function


def _record_copy(name, dims):
    def function(source, out):
        for views, _, columns in _each_box((source, out), dims):
            if views[0].shape[1] != columns:
                views[0] = _load(views[0]).broadcast(1, columns)
            _language().isa.dma_copy(dst=views[1], src=views[0])
    return function


def _record_reduce(name, dims, line):
    """line: (size, step) of the axis; dims walk over what is left, a tile over one of them."""
    def function(source, out):
        nki = _language()
        nl = nki.language
        for rows, _, at in boxes(dims):
            whole = None
            for begin in range(0, line[0], LONG):
                part = _load(_view(source, at[0] + begin * line[1], (rows[0], rows[1][0]),
                                   (min(LONG, line[0] - begin), line[1])))
                found = getattr(nl, "sum" if name == "mean" else name)(
                    part, axis=1, dtype=nl.float32, keepdims=True)
                whole = found if whole is None else getattr(nl, REDUCE[name])(whole, found)
            scale = 1 / line[0] if name == "mean" else 1.0
            nki.isa.dma_copy(dst=_view(out, at[1], (rows[0], rows[1][1]), (1, 1)),
                             src=nl.multiply(whole, scale, dtype=out.dtype))
    return function


def _block(t, m, row, rows, column, columns):
    """A tile of [rows, columns] of the matrix m = (row step, column step) in t."""
    nki = _language()
    nl = nki.language
    if m[1] == 1 or m[0] != 1:
        return _load(_view(t, row * m[0] + column * m[1], (rows, m[0]), (columns, m[1])))
    tile = nl.ndarray((rows, columns), dtype=t.dtype, buffer=nl.sbuf)
    for c in range(0, columns, PARTITIONS):
        n = min(PARTITIONS, columns - c)
        part = _load(_view(t, row + (column + c) * m[1], (n, m[1]), (rows, 1)))
        nki.isa.tensor_copy(dst=tile[:, c:c + n], src=_turned(part))
    return tile


def _turned(tile):
    nki = _language()
    out = nki.language.ndarray(tile.shape[::-1], dtype=tile.dtype, buffer=nki.language.psum)
    nki.isa.nc_transpose(dst=out, data=tile)
    return out


def _record_matmul(name, sizes, x, y, o):
    """sizes: rows, inner, columns; x, y, o: (row step, column step) of each matrix."""
    def function(left, right, out):
        nki = _language()
        nl = nki.language
        rows, inner, columns = sizes
        for row in range(0, rows, PARTITIONS):
            m = min(PARTITIONS, rows - row)
            bands = [_block(left, x[::-1], k, min(PARTITIONS, inner - k), row, m)
                     for k in range(0, inner, PARTITIONS)]
            for column in range(0, columns, WIDE):
                n = min(WIDE, columns - column)
                sums = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
                for i, band in enumerate(bands):
                    k = i * PARTITIONS
                    nki.isa.nc_matmul(dst=sums, stationary=band, accumulate=i > 0,
                                      moving=_block(right, y, k, min(PARTITIONS, inner - k),
                                                    column, n))
                done = nl.copy(sums, dtype=out.dtype)
                nki.isa.dma_copy(dst=_view(out, row * o[0] + column, (m, o[0]), (n, 1)), src=done)
    return function


_RECORD = {"elementwise": _record_elementwise, "copy": _record_copy, "reduce": _record_reduce,
           "matmul": _record_matmul}


# ---- On operands ----

def elementwise(name, operands, out):
    """out = name(operands), which are Lies or numbers; they are broadcast to the shape of out,
    which is Lies. An operand that lies otherwise in the memory of out is copied first."""
    tensors = [x.spread(out.shape) for x in operands if isinstance(x, Lies)]
    of_floats = any(x.dtype.float for x in tensors + [out])
    for j, x in enumerate(tensors):
        if same_memory(x, out) and (x.offset, x.steps, x.dtype) != (out.offset, out.steps,
                                                                   out.dtype):
            tensors[j] = copied(x)
    numbers = tuple(None if isinstance(x, Lies) else float(x) if of_floats else x
                    for x in operands)
    _in_parts(tensors + [out], name, "elementwise", numbers)
    return out


def _in_parts(operands, name, kind, *more):
    for dims, ats in parts(joined(operands)):
        for at in ats:
            _run([part_of(x, j, dims, at) for j, x in enumerate(operands)], name, kind,
                 tuple(dims), *more)


def copied(x):
    """A dense copy on the device."""
    return copy(x, Lies(x.array.device.zeros(x.shape, x.dtype)))


def copy(source, out):
    """out = source, broadcast; between two types it is converted."""
    if source.dtype is not out.dtype:
        return elementwise("copy", [source], out)
    source = source.spread(out.shape)
    if same_memory(source, out):
        source = copied(source)
    _in_parts([source, out], "copy", "copy")
    return out


def reduce(name, x, axis, out):
    """Along one axis; out has the shape of x without it."""
    line = x.shape[axis], x.steps[axis] if x.shape[axis] > 1 else 1
    rest = x.at(0, x.shape[:axis] + x.shape[axis + 1:], x.steps[:axis] + x.steps[axis + 1:])
    for dims, ats in parts(joined([rest, out]) + [(1, (1, 1))]):
        for at in ats:
            span = 1 + (line[0] - 1) * line[1] + sum((n - 1) * s[0] for n, s in dims)
            _run([x.at(at[0], (span,), (1,)), part_of(out, 1, dims, at)], name, "reduce",
                 tuple(dims), line)
    return out


def matmul(x, y, out):
    """out[M, N] = x[M, K] @ y[K, N], summed in float32; rows of out are dense."""
    inner, columns = y.shape
    tiles = -(-inner // PARTITIONS) * -(-columns // WIDE)
    most = max(PRODUCTS // tiles, 1) * PARTITIONS
    for row in range(0, x.shape[0], most):
        n = min(most, x.shape[0] - row)
        _run([x.at(row * x.steps[0], (n, inner), x.steps), y,
              out.at(row * out.steps[0], (n, columns), out.steps)],
             "matmul", "matmul", (n, inner, columns), x.steps, y.steps, out.steps)
    return out
