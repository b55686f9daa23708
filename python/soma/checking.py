"""kernel.check() and world.check(): what the checks find under several timings."""
import contextlib
import ctypes as C
import inspect
import os
import re
import threading
import warnings

import numpy as np

from . import launch, moves, show
from .checked import whole
from .devices import DeviceArray
from .errors import KernelError, SomaError
from .lib import SCHEDULE_ALL, Instruction, lib
from .machine import CHECKS, Finding, Machine, check_mask
from .record import shown

_UNINIT = 1 << CHECKS.index("uninit")


def seeds(function, schedules, kwargs):
    """The schedules that a call of check() asks for; takes `schedule` out of its arguments."""
    asked, name = schedules, "schedules"
    # A kernel may have an argument of that name, which is its own.
    if "schedule" in kwargs and "schedule" not in inspect.signature(function).parameters:
        asked, name = kwargs.pop("schedule"), "schedule"
    if isinstance(asked, str) and asked == "all":
        return ["all"]
    # Schedule 0 exists, but 0 schedules would check nothing.
    n, least = whole(asked), int(name == "schedules")
    if n is None or isinstance(asked, bool) or not least <= n < 1 << 63:
        raise ValueError("%s=%r: it must be a whole number, %d or more, or \"all\""
                         % (name, asked, least))
    return range(n) if name == "schedules" else [n]


def check(kernel, args, kwargs, checks, seeds, twins, built=None):
    """The findings of a kernel's runs under these schedules, each once. built: what kernel.build()
    gave for these arguments."""
    mask = check_mask(checks)
    if not mask and not isinstance(checks, int):
        raise ValueError("checks=%r: no check is named; there are all, %s"
                         % (checks, ", ".join(CHECKS)))
    try:
        built, bound = built or kernel.build(args, kwargs)
    except KernelError as error:
        # Readings of tiles that nothing has written are findings of this check.
        if not error.unwritten or not mask & _UNINIT:
            raise
        return show.Findings(_of_readings(error.unwritten))
    readings, found = _of_readings(built.unwritten), _Found()
    # Runs would change memory on the device.
    values = {name: value.numpy() if isinstance(value, DeviceArray) else value
              for name, value in launch.bind(built, bound)[0].items()}

    with _Runs(built.program, values, seeds, (built.target, mask, twins)) as runs:
        # They go on while the next lines look at the program.
        runs.begin()
        for tile, file, line in _unread_loads(built.program):
            launch.warn(kernel.function, "tile %s is loaded, and nothing reads it" % tile, file,
                        line)
        for seed, run, error in runs:
            if error is not None:
                # The first run's own error is the kernel's, and no finding.
                if not error.findings and not found.kept and seed == seeds[0]:
                    raise error
                found.add(seed, _for_kernels(_first_reading(error.findings, readings)))
                found.ends(seed, error)
                continue
            found.add(seed, _for_kernels(_first_reading(run.findings, readings)))
            found.kept.twins = max(found.kept.twins, run.stats.twins)
            found.compare(seed, run.out)
            if run.schedules:
                found.judged(run.schedules)
    return found.kept


_UNREAD = re.compile("the tile `([^`]+)` is written and never read")


def _unread_loads(program):
    """[(tile, file, line)] of tiles that only transfers write, and nothing reads. The program keeps
    it: it takes as long as half a run."""
    if program.unread is None:
        program.unread = _find_unread(program)
    return program.unread


# The assembler's lint knows what is never read.
def _find_unread(program):
    unread, found = set(_UNREAD.findall(program.lint())), {}
    i = Instruction()
    for core, e, pc in moves.instructions(program) if unread else ():
        lib.soma_program_instruction(program.handle, core, e, pc, C.byref(i), C.sizeof(i))
        text = moves.text_of(program, core, e, pc)
        for tile in unread.intersection(re.findall(r"[A-Za-z_]\w*", text)):
            if i.name != b"dma_copy":
                # What an engine writes as well is no load.
                unread.discard(tile)
            elif i.file:
                found.setdefault(tile, (tile, i.file.decode(), i.line))
    return [found[tile] for tile in sorted(unread & set(found))]


_kept = []  # (how they were made, machines) of the check before: new memory costs half a run


def _machines_for(jobs, target, mask, twins):
    """So many machines, for runs at once."""
    how = jobs, target, mask, twins
    before = _kept.pop() if _kept else (None, None)
    # One check after another of the same kind, as in a loop of a test.
    if before[0] == how:
        return before[1]

    def machine():
        on = []  # not empty: it prints
        made = Machine(target, checks=mask, twins=twins, threads=int(jobs > 1),
                       # Only the first run prints: all would print the same.
                       print=lambda *said: launch._print(*said) if on else None)
        made.prints = on
        return made
    return [machine() for _ in range(jobs)]


def check_world(world, what, arguments, checks, schedules, twins):
    """The same of a world's ranks, which run at once; arguments: by rank."""
    n = whole(schedules)
    if schedules == "all":
        raise SomaError("all schedules of a world of ranks are not built: their judge has the "
                        "steps of one run; schedules=20 tries 20")
    if n is None or isinstance(schedules, bool) or n < 1:
        raise ValueError("schedules=%r: it must be a whole number, 1 or more" % (schedules,))
    check_mask(checks)
    found = _Found()
    for seed in range(n):
        # Each run gets its own copies, since kernels may write their arguments.
        given = [{name: value.copy() if isinstance(value, np.ndarray) else value
                  for name, value in of_rank.items()} for of_rank in arguments]
        try:
            again = world.again(checks=checks, schedule=seed, twins=twins)
            again._looked = False  # as the checks of a kernel
            run = again._run(what, given)
        except SomaError as error:
            if not getattr(error, "findings", None) and not found.kept and seed == 0:
                raise
            found.add(seed, _for_kernels(getattr(error, "findings", [])))
            found.ends(seed, error)
            continue
        found.add(seed, _for_kernels(run.findings))
        outs = [getattr(r, "run", r).out for r in run.runs]
        found.compare(seed, {"%s of rank %d" % (name, rank): value
                             for rank, out in enumerate(outs) for name, value in out.items()})
    return found.kept


class _Runs:
    """The runs of a program under several schedules, in their order: (schedule, run or None, error
    or None). As many as the host has cores go on at once, each in a thread with a machine of its
    own, and none is further ahead than that."""

    def __init__(self, program, values, seeds, how):
        self.program, self.values, self.seeds = program, values, list(seeds)
        # As many as there are schedules, or processors that this process may use.
        self.how = (min(len(self.seeds), len(os.sched_getaffinity(0))),) + how
        self.machines = _machines_for(*self.how)
        self.threads, self.changed = [], threading.Condition()
        self.next, self.done = 0, {}  # the next to begin; what others gave, by their number

    def __enter__(self):
        return self

    def begin(self):
        """Lets them go on while the caller does something else."""
        for machine in self.machines if len(self.machines) > 1 else ():
            self.threads.append(threading.Thread(target=self._work, args=(machine,)))
            try:
                self.threads[-1].start()
            except RuntimeError:  # a sandbox allows none; the runs follow one another
                self.threads.pop()
                break

    def __exit__(self, kind, *error):
        with self.changed:
            # None begins any more, and those at work stop soon.
            self.next = len(self.seeds)
            for machine in self.machines:
                machine.stopped = True
            self.changed.notify_all()
        for thread in self.threads:
            with contextlib.suppress(RuntimeError):  # Ctrl-C came before it began
                thread.join()
        # After an error the machines may be in the middle of something.
        if kind is None:
            for machine in self.machines:
                machine.stopped = False
            _kept[:] = [(self.how, self.machines)]

    def __iter__(self):
        for number, seed in enumerate(self.seeds):
            if self.threads:
                with self.changed:
                    # In the order of the schedules, whichever ends first.
                    self.changed.wait_for(lambda: number in self.done)
                    run, error = self.done.pop(number)
                    self.changed.notify_all()
            else:
                run, error = self._result(self.machines[0], number)
            # An error of the caller's, such as Ctrl-C: not a kernel's.
            if error is not None and not isinstance(error, SomaError):
                raise error
            yield seed, run, error

    def _work(self, machine):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.next == len(self.seeds) or
                                      # Results that wait take memory: no more than there are
                                      # machines.
                                      len(self.done) < len(self.machines))
                number = self.next
                if number == len(self.seeds):
                    return
                self.next += 1
            result = self._result(machine, number)
            with self.changed:
                self.done[number] = result
                self.changed.notify_all()

    def _result(self, machine, number):
        """What run `number` gives. The machine is as new: only memory keeps what was there."""
        try:
            seed = self.seeds[number]
            machine.clear()
            machine.prints[:] = [True] * (number == 0)
            machine._check(lib.soma_set_schedule(
                machine.handle, SCHEDULE_ALL if seed == "all" else seed))
            run = machine.run(self.program, self.values)
            assert run.out is not None  # its memory would be the next run's
            return run, None
        except BaseException as error:  # Ctrl-C too: who takes it raises it
            return None, error


def _of_readings(unwritten):
    """Findings of readings of tiles that nothing has written, which the builder has found."""
    found = []
    for text, file, line in unwritten:
        file = file and shown(file)
        place = "%s:%d: " % (file, line) if file else ""
        found.append(Finding("uninit", "%suninit: %s" % (place, text), file, line))
    return found


def _first_reading(findings, readings):
    """What needs elements that nothing has written is reported where a kernel first reads them."""
    # By file and line, as a run knows of where the element is needed.
    places = {(r.file, r.line): r for r in readings}
    found = []
    for f in findings:
        at = (f.other_file, f.other_line)
        if f.check == "uninit" and at in places:
            reading = places[at]
            made = Finding("uninit", reading.text + "\n  needed at " + f.text.split("\n")[0],
                           f.other_file, f.other_line)
            made.core = f.core
            f = made
        found.append(f)
    return found


class _Found:
    """The findings of several runs; the first of each check and pair of places is kept."""

    def __init__(self):
        self.kept, self.keys, self.first, self.bits = show.Findings(), set(), None, None

    def add(self, seed, findings):
        if self.first is None:
            self.first = seed
        for f in findings:
            # A finding without a line is known by its text.
            key = (f.check, f.file, f.line, f.core, f.other_file, f.other_line, f.other_core) \
                if f.line else f.text
            if key in self.keys:
                continue
            self.keys.add(key)
            # With the schedule it can be seen again.
            if seed != self.first:
                f.text += "\n  again: schedule=%s" % seed
            self.kept.append(f)

    def compare(self, seed, out):
        """Bits of an output that differ from those of the first schedule are a finding."""
        if self.bits is None:
            self.bits = out
            return
        for name, value in out.items():
            other = _difference(value, self.bits[name])
            if other and ("bits", name) not in self.keys:
                self.keys.add(("bits", name))
                self.kept.append(Finding(
                    "schedule", "schedule: schedule %s gives other bits than schedule %s in "
                    "tensor %s: %s\n  again: schedule=%s" % (seed, self.first, name, other, seed)))

    def ends(self, seed, error):
        """A run that did not end well, after others did or after it had findings."""
        text = str(error)
        if text not in self.keys:
            self.keys.add(text)
            self.kept.append(Finding("schedule", "schedule: under schedule %s the kernel fails: "
                                     "%s\n  again: schedule=%s" % (seed, text, seed)))

    def judged(self, schedules):
        """What all legal timings do."""
        if schedules.verdict == "depends":
            self.kept.append(Finding("schedule", "schedule: " + schedules.text))
        # Too many timings to try is no finding.
        elif schedules.verdict != "same":
            warnings.warn(schedules.text, UserWarning, stacklevel=6)


def _difference(a, b):
    """What the first element of array a is that differs in bits from b, what it is there, and how
    many differ; "" if none does."""
    bits, others = (np.ascontiguousarray(x.view(np.ndarray)).reshape(-1).view("u1") for x in (a, b))
    # Eight bytes at a time, the last ones apart.
    most = len(bits) & ~7
    if np.array_equal(bits[:most].view("u8"), others[:most].view("u8")) and \
            np.array_equal(bits[most:], others[most:]):
        return ""
    bits, others = bits.reshape(-1, a.itemsize), others.reshape(-1, a.itemsize)
    differ = np.flatnonzero((bits != others).any(axis=1))
    at = tuple(int(i) for i in np.unravel_index(differ[0], a.shape))
    values = [x.astype(np.float32)[at] if hasattr(x, "soma_dtype") else x[at] for x in (a, b)]
    return "element %s is %s, not %s; %d of %d differ" % (list(at), *values, len(differ), a.size)


def _for_kernels(findings):
    """The findings of a run, fixes of races between cores in words of NKI, as kernels have no
    semaphores. Of those that are the same in each round of a loop the first is kept."""
    kept, early = {}, set()
    for f in findings:
        u = f.unsignalled
        # Only those of a barrier that is missing have other words.
        if not u or not u.tensor or not f.line or not u.other_line:
            kept[f] = f
            continue
        first, second = "%s:%d" % (u.other_file, u.other_line), "%s:%d" % (f.file, f.line)
        # The other direction of a pair: both have one fix.
        if (second, first) in early:
            continue  # follows from it: the barrier that it asks for orders this too
        if " overwrites too early what " in f.text:
            early.add((first, second))
        if first == second:
            words = "%s runs on both cores: let one of them write these bytes, as `if " \
                "nl.program_id(0) == 0:` does, or each its own part" % first
        else:
            words = "on both cores nisa.core_barrier(data=%s, cores=(0, 1)): core %d after %s, " \
                "core %d before %s" % (u.tensor, u.other_core, first, u.core, second)
        start, end = u.fix
        f.text = f.text[:start] + words + f.text[end:]
        f.unsignalled = None
        kept.setdefault((f.file, f.line, words), f)
    return list(kept.values())
