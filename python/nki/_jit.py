"""nki.jit and the ways to run a kernel."""
import difflib
import functools
import inspect
import math
import os
import sys
import threading
import warnings

from soma import (Machine, arrays, checking, compare, files, inside, launch, look, processes,
                  profile_main, record, sessions, show)
from soma.checked import whole
from soma.devices import DeviceArray
from soma.errors import KernelError, SomaError
from soma import __version__ as soma_version
from soma.lib import lib as machine_lib
from soma.targets import GENERATION
from soma.machine import _OPTIONS as MACHINE_OPTIONS

from . import _benchmark, _ranks
from ._benchmark import BenchmarkResult
from ._target import target_of


# What run() takes in addition to the kernel's own arguments.
RUN_OPTIONS = ("target", "checks", "twins") + tuple(sorted(MACHINE_OPTIONS))
_one_at_a_time = threading.RLock()  # builds and runs of several threads follow one another


def _short(method):
    """A method whose errors show the kernel's frames, none of this package's between the call and
    the kernel."""
    @functools.wraps(method)
    def call(*args, **kwargs):
        try:
            return method(*args, **kwargs)
        except KeyboardInterrupt as error:
            raise launch.users(error)
        except Exception as error:
            raise launch.below(error)
    return call


class KernelRun:
    """A run of a kernel: `result` (what a call returns), `time_us`, `stats`, `figures`, `findings`,
    summary(); table(), page(), trace(), timeline() and explain() of a recorded run; `source()` and
    `report()` of its program."""

    def __init__(self, run, built, result, again=None):
        self.run, self.built, self.result, self._again = run, built, result, again
        self.stats, self.findings = run.stats, run.findings
        self.time_ns, self.time_us = run.time_ns, run.time_ns / 1e3

    def source(self):
        return self.built.program.source()

    def report(self):
        return show.Text(self.built.report())

    def advice(self):
        """What would make the kernel faster, each variant tried without values."""
        return self.built.advice()

    def __repr__(self):
        return "<run of %s on %s: %s, %s>" % (
            self.built.name, self.built.target, show.span(self.time_ns),
            show.count(len(self.findings)))

    def _repr_html_(self):
        return show.of_run(self.run, repr(self), self.built.name)

    @property
    def figures(self):
        """What the run achieved of what the machine can; `built.figures()` is the builder's."""
        return self.run.figures

    @property
    def schedules(self):
        """Of a run with schedule="all", what every legal timing does; else None."""
        return self.run.schedules

    def summary(self):
        return self.run.summary()

    def table(self, name):
        return self.run.table(name)

    def page(self, path=None, *, title=None):
        """The run as a page for a browser, titled by the kernel's name unless another is given;
        written to a file if `path` is given, compressed if that ends in .gz."""
        return self.run.page(path, title=title or self.built.name)

    def trace(self):
        return self.run.trace()

    def timeline(self, width=0):
        return self.run.timeline(width)

    def explain(self):
        return self.run.explain()

    def critical_path(self):
        return self.run.critical_path()

    def idle_gaps(self, most=None):
        return self.run.idle_gaps(most)

    def tile(self, name, at=None, nth=1, core=0):
        """A tile of the kernel as an array: when the nth instruction of the line at="kernel.py:33"
        that reads or writes it is done, in order of time; without `at`, at the end of the run. The
        program runs again for this, with the same arguments."""
        if self._again is None:
            raise SomaError("tile(%r): a tile of a rank is not built" % (name,))
        with _one_at_a_time:
            return inside.tile_of(self.run, self._again, name, at, nth, core)

    def compare(self, other):
        """This run beside another of the same kernel or another one: a soma.Comparison, which
        prints what takes longer by engine and line; its page() has the pages of both."""
        return compare.Comparison(self, other)


class Tuning:
    """What Kernel.tune has tried: `policies`, a list of (name, microseconds or None, whether it was
    chosen), which is empty if nothing could be tried; `time_us` of the chosen one; `kernel`."""

    def __init__(self, kernel, policies):
        self.kernel, self.policies = kernel, policies
        self.time_us = next((us for _, us, chosen in policies if chosen), None)

    def __repr__(self):
        lines = ["%-40s %12s%s" % (name, "-" if us is None else "%.3f" % us,
                                   "  chosen" if chosen else "")
                 for name, us, chosen in self.policies]
        return "\n".join(lines) or "nothing was tried: the kernel is too large, or does not end"


class Kernel:
    """A kernel: call it with NumPy arrays (or tensors of torch) and it runs on the emulated core.
    kernel[2] launches it on two cores, as program 0 and program 1; kernel[grid] launches a grid of
    programs, which run one after another."""

    def __init__(self, function, grid=(), target=None, builds=None, **options):
        self.function, self.grid, self.asked, self.options = function, grid, target, options
        self.split = None
        self.builds = {} if builds is None else builds  # of all that are made of this kernel
        self.kind = self.front_end, repr(options.get("schedule", ()))
        self.benchmark_result = None
        functools.update_wrapper(self, function)

    func = property(lambda self: self.function)

    def __deepcopy__(self, memo):
        return self  # as a function

    def __getitem__(self, grid):
        kernel = Kernel(self.function, _grid(grid), self.asked, self.builds, **self.options)
        if math.prod(kernel.grid) > 1:  # one program is on core 0
            kernel.split = _split(grid, self.options.get("style"))
        return kernel

    def __eq__(self, other):
        return self is other or (isinstance(other, Kernel) and self.function is other.function
                                 and self.grid == other.grid and self.split == other.split)

    def __hash__(self):
        return hash(self.function)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self):
        return "<kernel %s%s>" % (self.function.__name__, list(self.grid) or "")

    @property
    def target(self):
        return target_of(self.asked)

    @property
    def front_end(self):
        """The package whose jit, benchmark and so on made the kernel."""
        return "neuronxcc.nki" if self.options.get("style") == "neuronxcc" else "nki"

    def _flags(self):
        """Of the builder, by what the compiler or soma-nki is told."""
        told = str(self.options.get("additional_compile_opt") or "").split()
        without = "--disable-dge" in told or os.environ.get("SOMA_DISABLE_DGE") == "1"
        return launch.K.NO_DGE if without else 0

    def _optimize(self):
        """What jit's `optimize` says, else SOMA_OPTIMIZE, else 1."""
        given = self.options.get("optimize", os.environ.get("SOMA_OPTIMIZE", "1"))
        if str(given) not in ("0", "1", "2"):
            raise KernelError("optimize=%r: it is 0 (the program in the order of its lines), 1 or "
                              "2 (the fastest of several policies)" % (given,))
        return int(given)

    def build(self, args, kwargs, debugged=False):
        """The program of these arguments, built once for equal shapes, types and scalars, and again
        when a global that its functions read has changed. `debugged`: transfers are not merged."""
        with _one_at_a_time:
            return self._build(args, kwargs, debugged or look.debugs())

    def _build(self, args, kwargs, debugged):
        bound = launch.arguments(self.function, args, kwargs)
        key = launch.key_of(dict(bound.arguments))
        without = launch.K.without(self.function) | (launch.K.MERGES if debugged else 0)
        if key is not None:
            key = (self.target, self.grid, self.split, self._optimize(), self._flags(), without,
                   self.kind, key)
        try:
            built = None if key is None else self.builds.get(key)
            if built and built.around.holds():
                return built, bound
        except TypeError:
            key = None
        built = launch.build(self.function, args, kwargs, self.target, self.grid,
                             self.options.get("schedule", ()), core_of=self._core_of(),
                             flags=self._flags(), front_end=self.front_end,
                             older=self.options.get("style") == "neuronxcc",
                             optimize=self._optimize(), without=without)
        if key is not None:
            self.builds[key] = built
        return built, bound

    def _core_of(self):
        """With two cores, a function from a program's place in the grid to its core."""
        if not self.split:
            return None
        axis, stride, explicit = self.split
        if GENERATION[self.target] < 3:  # a grid of an older kernel
            if explicit:
                raise KernelError("nl.nc(2): two cores as one need gen3; %s is gen2" % self.target)
            return None
        return lambda ids: ids[axis] // stride % 2

    def _launch(self, args, kwargs, machine=None, **options):
        with _one_at_a_time:
            return self._run(args, kwargs, machine, **options)

    def _run(self, args, kwargs, machine=None, log=None, **options):
        built, bound = self.build(args, kwargs)
        seen = look.call(built.name)
        if seen:
            options, log = seen.machine_options(options), seen.log(log)
        if built.ranks and processes.peers():
            return _ranks.run_of_all(self, built, bound, args, kwargs, seen, options)
        if seen and seen.wants_checks():  # first: the run may write its arguments
            seen.found(self._check(args, kwargs, built=(built, bound), **seen.check_options()))
        values, owners = launch.bind(built, bound)
        again = inside.again(built, values, options) if options.get("record") else None
        convert = None
        if machine is None:
            machine, convert = launch.machine_for(built, values, options)
        if built.unknown:
            machine.clear()
        run = seen.run(machine, built.program, values, log) if seen else \
            machine.run(built.program, values, log)
        run = KernelRun(run, built, self._results(run, built, owners, args, kwargs, convert), again)
        sessions.ran(built.name, built.target, run.run)
        if seen:
            seen.done(run)
        return run

    def run_in(self, world, arguments):
        """Runs as the ranks of a soma.World; arguments: of each rank's call, by name."""
        with _one_at_a_time:
            return _ranks.run_in(self, world, arguments)

    def _results(self, run, built, owners, args, kwargs, convert=None):
        """Returns what the kernel returns; arrays that the kernel writes are written."""
        launch.write_back(run, owners)
        given = list(args) + list(kwargs.values())
        give = _giver(given)
        if give is _torch and any(getattr(a, "requires_grad", False) for a in given) and \
                sys.modules["torch"].is_grad_enabled():
            warnings.warn("%s: an argument requires a gradient, and kernels have none: its results "
                          "are constants for torch; call it in a torch.autograd.Function, or under "
                          "torch.no_grad()" % self.function.__name__, stacklevel=6)
        return launch.results(run, built.result,
                              give if convert is None else lambda x: give(convert(x)))

    def move_to_device(self, device, *args, **kwargs):
        """Copies the constants of the program for these arguments to a device, where they stay from
        call to call."""
        with _one_at_a_time:
            built, _ = self.build(args, kwargs)
            machine = device._open()
            machine._check(machine_lib.soma_move_to_device(machine.handle, built.program.handle))

    @_short
    def __call__(self, *args, **kwargs):
        if record.recording():
            return self.function(*args, **kwargs)
        kwargs.pop("compiler_flags", None)
        self.benchmark_result = None  # the memory of the last run serves the next
        run = self._launch(args, kwargs)
        self.benchmark_result = BenchmarkResult(run)
        return run.result

    @_short
    def run(self, *args, **kwargs):
        """Runs and records: a KernelRun. target, and options of soma.Machine (checks, schedule,
        costs, timing_only, threads, rounding_seed ...), by name; a name that the kernel has as a
        parameter is the kernel's."""
        kwargs.pop("compiler_flags", None)
        kwargs, options = self._run_options(kwargs)
        target = options.pop("target", None)
        kernel = self if target is None else _as_kernel(self, {"platform_target": target})
        return kernel._launch(args, kwargs, record=True, **options)

    def _run_options(self, kwargs):
        """(arguments of the kernel, options of its run)."""
        parameters = inspect.signature(self.function).parameters
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            own = set(kwargs) - set(RUN_OPTIONS)
        else:
            own = set()
        own |= set(parameters)
        options = {n: v for n, v in kwargs.items() if n not in own}
        for name in sorted(set(options) - set(RUN_OPTIONS)):
            raise TypeError("%s has no parameter %s, and run() no such option; its options are %s"
                            % (self.function.__name__, name, ", ".join(RUN_OPTIONS)))
        return {n: v for n, v in kwargs.items() if n not in options}, options

    @_short
    def time(self, *args, target=None, costs=None, **kwargs):
        """Simulated microseconds of a run, without the launch. No value is calculated, so a kernel
        that moves terabytes takes seconds; arguments are not written. costs: constants of the clock
        that differ, as text. An address, a size or a branch that depends on data takes the time
        that zeros give."""
        kernel = self if target is None else _as_kernel(self, {"platform_target": target})
        with _one_at_a_time:
            built, bound = kernel.build(args, kwargs)
            values, _ = launch.bind(built, bound)
            options = {} if costs is None else {"costs": costs}
            machine = Machine(built.target, timing_only=True, **options)
            return machine.run(built.program, values).time_ns / 1e3

    @_short
    def log(self, *args, file=None, **kwargs):
        """Runs and writes a line for each instruction that is done, with the kernel's file and
        line, to standard error or an open file. Returns what a call returns."""
        file = sys.stderr if file is None else file
        return self._launch(args, kwargs, log=lambda line: file.write(line + "\n")).result

    @_short
    def debug(self, *args, commands=None, **kwargs):
        """Runs under the debugger, with the kernel's lines; commands come from the lines of
        `commands` first, and then from standard input. Returns what a call returns, None if the run
        was left before its end."""
        with _one_at_a_time:
            built, bound = self.build(args, kwargs, debugged=True)
            values, owners = launch.bind(built, bound)
            run = Machine(built.target).debug(built.program, values, commands)
            return None if run is None else self._results(run, built, owners, args, kwargs)

    @_short
    def program(self, *args, **kwargs):
        """The soma.Program that these arguments make, without a run."""
        return self.build(args, kwargs)[0].program

    @_short
    def source(self, *args, **kwargs):
        """The program as assembly."""
        return self.build(args, kwargs)[0].program.source()

    @_short
    def report(self, *args, **kwargs):
        """What the builder did: tiles over time, loads of engines, and what each wait is for."""
        return show.Text(self.build(args, kwargs)[0].report())

    @_short
    def advice(self, *args, **kwargs):
        """What would make the kernel faster, with the lines of its file and the time that each
        saves: variants are built and run without values."""
        return self.build(args, kwargs)[0].advice()

    @_short
    def tune(self, *args, **kwargs):
        """Tries the policies of optimize=2 for these arguments: a Tuning, whose `kernel` uses the
        fastest of them."""
        kernel = _as_kernel(self, {"optimize": 2})
        return Tuning(kernel, kernel.build(args, kwargs)[0].builders[0].policies())

    @_short
    def check(self, *args, checks="all", schedules=1, twins=True, **kwargs):
        """Runs with checks, under `schedules` legal timings or all ("all"), and returns what they
        found, each once; arguments are not written back. schedule=N runs that timing alone, unless
        the kernel itself has an argument of this name. twins=False: it is a finding too that both
        cores write the same bytes from one line."""
        with _one_at_a_time:
            return self._check(args, kwargs, checks, schedules, twins)

    def _check(self, args, kwargs, checks, schedules, twins=True, built=None):
        seeds = checking.seeds(self.function, schedules, kwargs)
        with sessions.paused():
            return checking.check(self, args, kwargs, checks, seeds, twins, built)

    def with_schedule(self, schedule):
        """The kernel with more edges: [(later, earlier)] by the `name` of instructions, earlier one
        name or a list of them."""
        edges = tuple((later, tuple([earlier] if isinstance(earlier, str) else earlier))
                      for later, earlier in schedule)
        kernel = Kernel(self.function, self.grid, self.asked, self.builds,
                        **dict(self.options, schedule=edges))
        kernel.split = self.split
        return kernel


def _same(x):
    return x


def _giver(args):
    """What makes a result of the arguments' kind from an array: a tensor of torch, an array of jax
    or of another library that has `__array_namespace__`; else NumPy's."""
    for a in args:
        library = type(a).__module__.split(".")[0]
        if library == "torch":
            return _torch
        if library in ("jax", "jaxlib"):
            return sys.modules["jax.numpy"].asarray
        if library not in ("numpy", "soma", "ml_dtypes") and hasattr(a, "__array_namespace__"):
            return a.__array_namespace__().asarray
    return _same


def _torch(x):
    torch = sys.modules["torch"]
    if isinstance(x, DeviceArray):
        return sys.modules["soma.torch"].tensor_of(x) if "soma.torch" in sys.modules else x
    if isinstance(x, arrays.RawArray):
        return torch.from_numpy(x.bits().view("i%d" % x.itemsize)).view(
            getattr(torch, str(x.soma_dtype)))
    return torch.from_numpy(x)


MOST_PROGRAMS = 1 << 16  # of a grid: each is recorded on its own


def _grid(grid):
    """Its sizes. [0] is how some scripts write that there is one program, also in (0, 1)."""
    parts = grid if isinstance(grid, (tuple, list)) else (grid,)
    sizes, counts = [], [whole(p) for p in parts]
    if 0 in counts and set(counts) <= {0, 1}:
        return (1,) * len(parts) if len(parts) > 1 else ()
    for p in parts:
        n = whole(p)
        if n is None or n < 1:
            raise KernelError("a grid of %r: sizes must be whole numbers, 1 or more" % (grid,))
        sizes.append(n)
    if math.prod(sizes) > MOST_PROGRAMS:
        raise KernelError("a grid of %r has %d programs: each is recorded, and there may be %d; "
                          "let a program do more in a loop"
                          % (grid, math.prod(sizes), MOST_PROGRAMS))
    return tuple(sizes)


def _split(grid, style):
    """How the programs of a grid go to two cores: (axis, stride, whether nl.nc says so), so that a
    program's core is its place along the axis // stride % 2. None: all run on one core. A grid of 2
    means two cores; in kernels for neuronxcc.nki, whose grids are programs of one core, only nl.nc
    means them."""
    parts = grid if isinstance(grid, (tuple, list)) else (grid,)
    found = [(i, p.stride, True) for i, p in enumerate(parts) if getattr(p, "stride", None)]
    if len(found) > 1:
        raise KernelError("a grid of %r: only one part of it can be two cores" % (grid,))
    if found:
        return found[0]
    return (0, 1, False) if style != "neuronxcc" and [whole(p) for p in parts] == [2] else None


# Keywords of nki.jit, and of its older forms; those after the first line have no effect.
_KEYWORDS = ("platform_target schedule optimize style "
             "mode kernel_return debug_kernel show_compiler_tb experimental_flags log_level grid "
             "additional_compile_opt disable_allocation_opt enable_cache enable_out_of_bound_check "
             "artifacts_dir compiler_args").split()


def _as_kernel(f, options):
    for name in options.keys() - _KEYWORDS:
        near = difflib.get_close_matches(name, _KEYWORDS, 1)
        warnings.warn("nki.jit has no keyword %s%s: it has no effect"
                      % (name, "; did you mean %s" % near[0] if near else ""), stacklevel=3)
        del options[name]
    if isinstance(f, Kernel):
        merged = dict(f.options, **options)
        merged.pop("platform_target", None)
        kernel = Kernel(f.function, f.grid, options.get("platform_target") or f.asked, f.builds,
                        **merged)
        kernel.split = f.split
        return kernel
    if not callable(f):
        raise TypeError("a kernel must be a function, not %r" % (f,))
    target, grid = options.pop("platform_target", None), options.pop("grid", ())
    kernel = Kernel(f, (), target, **options)
    return kernel[grid] if grid != () else kernel


def jit(fn=None, **options):
    """A kernel from a function: @nki.jit, or nki.jit(function, platform_target="trn2"). optimize=0
    keeps the program as it is written. Options of the compiler (mode, debug_kernel, kernel_return
    ...) have no effect."""
    if fn is None:
        return lambda f: _as_kernel(f, dict(options))
    return _as_kernel(fn, dict(options))


trace = jit


def _made(kernel, style, told=None):
    """A kernel from what a user gives to run; one that jit made keeps its own style. told: options
    of the compiler."""
    options = {} if isinstance(kernel, Kernel) or not style else {"style": style}
    return _as_kernel(kernel, dict(options, additional_compile_opt=told) if told else options)


def simulate(kernel, _style=None):
    """The kernel as a callable, as the vendor's simulator gives it."""
    return _made(kernel, _style)


def simulate_kernel(kernel, *args, _style=None, **kwargs):
    """Runs a kernel; arrays that it writes are written."""
    return _made(kernel, _style)(*args, **kwargs)


class _Runner:
    """A kernel with what nki.benchmark and nki.profile add: files, and benchmark_result."""

    def __init__(self, kernel, options):
        self.kernel, self.options = _made(kernel, options.get("style"),
                                          options.get("additional_compile_opt")), options
        self.benchmark_result = None
        functools.update_wrapper(self, self.kernel.function)

    def __deepcopy__(self, memo):
        return self

    def __getitem__(self, grid):
        return _Runner(self.kernel[grid], self.options)

    def __getattr__(self, name):
        return getattr(self.__dict__["kernel"], name)

    def __call__(self, *args, **kwargs):
        run = self.kernel.run(*args, **kwargs)
        self.benchmark_result = self.kernel.benchmark_result = BenchmarkResult(run)
        if self.options.get("prints"):
            _benchmark.show(run, self.options,
                            self.benchmark_result.nc_latency.get_latency_percentile(50))
        folder = self.options.get("working_directory") or "."
        program = self.options.get("save_neff_name")
        trace_name = self.options.get("save_trace_name")
        for name in filter(None, (program, trace_name)):
            _write(folder, name + profile_main.SUFFIX, _summary(run).encode())
        if program:
            _write(folder, program, run.built.program.bytes())
        if trace_name:
            _write(folder, trace_name, files.named(trace_name, run.trace()))
            _write(folder, trace_name + ".html", run.page().encode())
        return run.result


def _summary(run):
    """The figures that the command neuron-profile shows."""
    figures = {name: column[0].item() for name, column in run.table("Summary").items()}
    return profile_main.saved(figures, run.built.name, run.built.target, soma_version)


def _write(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    files.write(os.path.join(folder, name), data)


def _decorator(kernel, options):
    if kernel is None or isinstance(kernel, str):
        return lambda f: _Runner(f, options)
    return _Runner(kernel, options)


def benchmark(kernel=None, **options):
    """Runs a kernel, prints the vendor's table and keeps the simulated latency, launch included, in
    `.benchmark_result`. save_neff_name writes the program (.sbc), save_trace_name the trace and
    beside it a page (.html)."""
    _benchmark.check_options("nki.benchmark", options)
    return _decorator(kernel, dict(options, prints=True))


def profile(kernel=None, **options):
    """As benchmark without its table, its files in working_directory."""
    return _decorator(kernel, options)


def baremetal(kernel=None, **options):
    """Runs a kernel and gives its results."""
    return _decorator(kernel, options)
