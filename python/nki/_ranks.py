"""Kernels as the ranks of a world, and as one of the processes of soma-nki -n."""
from soma import launch, processes
from soma.errors import KernelError
from soma.worlds import WorldRun, of_rank


def run_in(kernel, world, arguments):
    """A WorldRun; arguments: of each rank's call, by name."""
    from ._jit import KernelRun, _as_kernel
    target = world.target or kernel.asked or world.default_target
    if target is not None:
        kernel = _as_kernel(kernel, {"platform_target": target})
    calls = [of_rank(rank, kernel.build, (), given) for rank, given in enumerate(arguments)]
    bound = [launch.bind(built, b, True) for built, b in calls]
    ranks, runs = world.start([built.program for built, _ in calls],
                              [values for values, _ in bound],
                              clear=any(built.unknown for built, _ in calls))
    found = [KernelRun(run, built, kernel._results(run, built, owners, (), given))
             for run, (built, _), (_, owners), given in zip(runs, calls, bound, arguments)]
    return WorldRun(found, ranks, kernel.function.__name__)


def run_of_all(kernel, built, bound, args, kwargs, seen, options):
    """This process's rank of the next run that all processes have in common."""
    from ._jit import KernelRun
    if seen and seen.wants_checks():
        asked = seen.check_options()
        if asked["schedules"] not in (1, "1"):
            raise KernelError("--schedules does not go with soma-nki -n: soma.world(ranks=%d)."
                              "check(%s, ..., schedules=N) tries other timings"
                              % (processes.ranks(), kernel.function.__name__))
        options = dict(options, checks=asked["checks"])
    if seen:
        options = seen.world_options(options)
    values, owners = launch.bind(built, bound, True)
    run, whole = processes.call(built, values, options)
    run = KernelRun(run, built, kernel._results(run, built, owners, args, kwargs))
    if seen:
        seen.found(run.findings)
        if whole:
            seen.done(run, WorldRun(*whole, built.name, session=False))
    return run
