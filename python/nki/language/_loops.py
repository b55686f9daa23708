"""Loops, programs of a grid, order."""
import sys

from soma import live, loops, record
from soma.checked import between, whole, word
from soma.errors import KernelError
from soma.loops import Loop
from soma.register import RegisterValue

from ..isa._common import number_of


def affine_range(start, stop=None, step=1, **other):
    """range(): the loop is unrolled."""
    return range(*_bounds(start, stop, step))


def sequential_range(start, stop=None, step=1, **other):
    """range(): the loop is unrolled."""
    return range(*_bounds(start, stop, step))


def static_range(start, stop=None, step=1, **other):
    """range(): the loop is unrolled."""
    return range(*_bounds(start, stop, step))


def _bounds(start, stop, step):
    start, stop = (0, start) if stop is None else (start, stop)
    found = [whole(x) for x in (start, stop, step)]
    if None in found:
        raise KernelError("range(%s, %s, %s): bounds are whole numbers; nl.dynamic_range takes "
                          "registers" % (start, stop, step))
    return found


def _bound(x):
    from soma.insn import plain_register
    if isinstance(x, RegisterValue):
        return ("register", plain_register(x))
    if whole(x) is None:
        raise KernelError("the bound of a loop is %r: expected a whole number or a register" % (x,))
    return ("value", word(x, "the bound of a loop at run time"))


def _range_of(start, stop, step):
    k = whole(step)
    if k is None or k < 1:
        raise KernelError("step %r of a loop at run time: it must be a whole number, 1 or more"
                          % (step,))
    record.active().flush()
    return _bound(start), _bound(stop), word(k, "the step of a loop at run time")


class dynamic_range:
    """A loop at run time: `for i in nl.dynamic_range(n)`, in which i is a register that counts. Its
    body is recorded, and once more to see that each round is the same."""

    def __init__(self, start, stop=None, step=1):
        self.start, self.stop = (0, start) if stop is None else (start, stop)
        self.step = step

    def __iter__(self):
        frame = sys._getframe(1)
        if not live.in_for(frame):
            raise _not_taken(frame)
        return _Rounds(_range_of(self.start, self.stop, self.step))


def _not_taken(frame):
    return KernelError("nl.dynamic_range counts when the kernel runs: Python's list(), "
                       "enumerate(), zip(), comprehensions and the like cannot take it; write "
                       "`for i in nl.dynamic_range(...)`, or use nl.static_range",
                       record.shown(frame.f_code.co_filename), frame.f_lineno)


class _Rounds:
    """A loop over a dynamic_range."""

    def __init__(self, bounds):
        self.loop = Loop(record.active(), bounds)

    def __iter__(self):
        return self

    def __next__(self):
        loop, frame = self.loop, sys._getframe(1)
        if loop.register is None:
            if loop.total == 0:
                raise StopIteration
            if live.in_iterator(frame):
                raise _not_taken(frame.f_back)
            loop.begin(frame)
        elif not loop.again(frame, (), lambda: live.read_after_loop(frame)):
            raise StopIteration
        return loop.register


def fori_loop(lower, upper, body_fun, step=1):
    """body_fun(i) at run time for each i from lower to below upper."""
    loops.run(_range_of(lower, upper, step), sys._getframe(1), [("body_fun", body_fun)], body_fun)


def while_loop(init, body_fun):
    """Runs r = body_fun(r) at run time as long as the register r is not 0."""
    from ..isa._move import register_alloc, register_move
    rec, frame, roots = record.active(), sys._getframe(1), [("body_fun", body_fun)]
    rec.flush()
    condition = register_alloc()
    register_move(condition, init)
    loop = Loop(rec, None, condition.number())
    loop.begin(frame, roots)
    more = True
    while more:
        given = register_alloc()
        register_move(given, condition)
        result = body_fun(given)
        if not isinstance(result, RegisterValue):
            raise KernelError("while_loop: body_fun returned %r; it must return the register of "
                              "the next condition" % (result,))
        register_move(condition, result)
        more = loop.again(frame, roots, lambda: live.read_later(frame))


class nc:
    """A number of cores in a grid: nl.nc(2), nl.nc(2) * 4."""

    def __init__(self, n):
        self.n = int(n)
        if not 1 <= self.n <= 2:
            raise KernelError("nl.nc(%d): a logical core is one core, or two" % self.n)
        self.stride = 1 if self.n == 2 else None

    def __mul__(self, other):
        return spmd_dim(self, other)

    def __rmul__(self, other):
        return spmd_dim(other, self)

    def __int__(self):
        return self.n

    __index__ = __int__


class spmd_dim:
    """A dimension of a grid in parts, one of which can be cores: as many programs as the product.
    Program i of it runs on core i // stride % 2; stride is None if no part is two cores."""

    def __init__(self, *parts):
        self.n, self.stride = 1, None
        for p in reversed(parts):
            stride = getattr(p, "stride", None)
            if stride and self.stride:
                raise KernelError("spmd_dim%r: only one part of it can be two cores" % (parts,))
            self.stride = stride * self.n if stride else self.stride
            self.n *= p.n if isinstance(p, (nc, spmd_dim)) else int(p)

    def __mul__(self, other):
        return spmd_dim(self, other)

    __rmul__ = __mul__

    def __int__(self):
        return self.n

    __index__ = __int__


def program_id(axis=0):
    """Number of this program along an axis of the grid."""
    grid, axis = record.active(), number_of(axis, "axis", "nl.program_id")
    if not 0 <= axis < max(len(grid.grid), 1):
        raise KernelError("program_id(%d) of a grid of %d dimensions: kernel[4, 2](...) gives "
                          "one of two" % (axis, len(grid.grid)))
    return grid.program[axis] if grid.program else 0


def num_programs(axes=None):
    """The number of programs along one axis or several; without axes, of the whole grid."""
    grid = record.active().grid
    axes = range(len(grid)) if axes is None else (axes,) if isinstance(axes, int) else axes
    n = 1
    for a in axes:
        a = between(a, 0, max(len(grid), 1) - 1, "the axis of nl.num_programs")
        n *= grid[a] if a < len(grid) else 1
    return n


def program_ndim():
    """The number of dimensions of the grid, 0 without one."""
    return len(record.active().grid)


class no_reorder:
    """`with nl.no_reorder():` keeps what is in it in the order of the program."""

    def __enter__(self):
        rec = record.active()
        rec.flush()
        rec.ordered = 1
        return self

    def __exit__(self, *error):
        rec = record.active()
        if error[0] is None:
            rec.flush()
        rec.ordered = 0

    def __call__(self, function=None):
        return function
