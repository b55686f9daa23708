"""Loops at run time while a kernel is recorded.

The body of `for i in nl.dynamic_range(n)` is Python, and Python runs it twice here. The first run
records the loop's instructions. The second one, with what the first has left in variables, must
give the same instructions, and is then forgotten. If it does not, the kernel is built again with
its first round apart, a loop of at most one round, and the second and the third run are compared.
And as two rounds do not show what begins in the third, variables that later code reads must hold
the same at the end of both.
"""
from . import live, record
from .errors import KernelError
from .register import Register

ADVICE = "a loop at run time runs the same instructions in each round: write into the same tile " \
    "(`a[...] = `), keep what changes in a register (nisa.register_alloc), or use " \
    "nl.static_range, which unrolls the loop"


class Log:
    """What the open loops have recorded: [(what, place, words, result)]. While a round is compared
    `at` is where, else None; `limit` is where that round ends."""

    __slots__ = ("entries", "at", "limit", "orders")

    def __init__(self):
        self.entries, self.at, self.limit = [], None, 0
        self.orders = {}  # the numbers of tiles that were made in a loop, by their order

    def here(self):
        return len(self.entries) if self.at is None else self.at

    def compare(self, rec, what, place, words):
        """The result of an entry that is recorded again."""
        at = self.at
        self.at = at + 1
        # Beyond `limit` the round before had no entry.
        known = self.entries[at] if at < self.limit else None
        if known is None or known[0] != what or known[1] != place or known[2] != words:
            differs(rec, what, place, known)
        return known[3]


def _said(rec, what, place):
    what = next((n for n, op in record.insn.OP.items() if op == what), what)
    file, line = rec.place_of(place)
    return "%s (%s:%d)" % (what, file, line) if file else what


def differs(rec, what, place, known):
    """A round differs from the one before it: what it does at a place; known: an entry, what the
    round before did, or None."""
    # The innermost that is being compared.
    loop = next(lp for lp in reversed(rec.loops) if lp.compared)
    does = _said(rec, what, place) if what else "ends"
    did = _said(rec, known[0], known[1]) if known else "ended"
    # The same instruction: its operands are what differs.
    if known and what == known[0] and place == known[1]:
        does, did = "%s has other operands" % does, None
    names = live.differences(loop.before, loop.last)
    # Variables by name are clearer than what they reach.
    names = [n for n in names if n.isidentifier()] or names
    why = "; what changes is %s" % ", ".join("`%s`" % n for n in names[:3]) if names else ""
    text = "round %d of this loop at run time differs from round %d: %s%s%s; %s" % (
        loop.round, loop.round - 1, does, "" if not did else ", where round %d %s" % (
            loop.round - 1, did if did == "ended" else "did " + did), why, ADVICE)
    error = KernelError(text, *rec.place_of(loop.place))
    if not loop.peeled:
        # The next build begins with the first round apart.
        rec.hints[loop.calls] = error
        raise record.Redo()
    # The round after the first differs too: the error that led here says more.
    raise rec.hints.get(loop.calls, error)


class Loop:
    """A loop at run time that is open. bounds: (start, stop, step), each of the first two
    ("value", n) or ("register", r); None: a while, of a register."""

    def __init__(self, rec, bounds=None, condition=None):
        self.rec, self.bounds, self.condition = rec, bounds, condition
        self.place, self.round, self.compared = rec.where(), 1, False
        self.register = self.key = self.outer = None

        self.total = None  # the number of its rounds, where its bounds say it
        if bounds is not None and bounds[0][0] == bounds[1][0] == "value":
            # As Python counts a range: rounded up.
            self.total = max(0, -((bounds[0][1] - bounds[1][1]) // bounds[2]))

    def begin(self, frame, roots=()):
        """Begins it; the first round follows."""
        rec = self.rec
        # What is held back belongs before the loop.
        rec.flush()
        self.before = self.last = self.first = live.state(frame, roots)
        self.calls = ("peel", self.place) + live.calls(frame)
        # With one round there is no other to compare.
        self.peeled = self.calls in rec.hints and self.total != 1
        whole = ("loop", self.bounds) if self.bounds else ("while", (self.condition,))
        if self.peeled:
            one, rest = self._apart() if self.bounds else (self._not_zero(), whole[1])
            self.rest = whole[0], rest
            self._open("loop", one)
        else:
            self._open(*whole)

    def _not_zero(self):
        """The bounds of a loop of one round if the condition is not 0, else of none."""
        rec, OP, r = self.rec, record.insn.OP, self.rec.new_register()
        rec.emit(OP["mul"], -1, ((r, self.condition, 0, -1),))  # r | -r has the sign bit
        rec.emit(OP["or"], -1, ((r, r, 1, self.condition),))
        rec.emit(OP["shr"], -1, ((r, r, 0, 31),))
        return ("value", 0), ("register", r), 1

    def _apart(self):
        """The bounds of a loop of at most one round, and of one of the others."""
        start, stop, step = self.bounds
        if self.total is not None:
            next_, end = start[1] + step, stop[1]
            return (start, ("value", min(next_, end)), step), (("value", min(next_, end)), stop,
                                                               step)
        rec, OP = self.rec, record.insn.OP
        second, last, end = (rec.new_register() for _ in range(3))
        for register, of in ((second, start), (end, stop)):
            rec.emit(OP["mov"], -1, ((register, int(of[0] == "register"), of[1]),))
        # second is the first register after the first round; last is the end of the first loop.
        rec.emit(OP["add"], -1, ((second, second, 0, step),))
        rec.emit(OP["min"], -1, ((last, second, 1, end),))
        return (start, ("register", last), step), (("register", second), ("register", end), step)

    def _open(self, kind, words):
        rec = self.rec
        # Zeros that are due must not be written once a round.
        rec.fill_zeros()
        if rec.log is None:
            rec.log = Log()
        number = rec.step(kind, self.place, words,
                          lambda: rec.builder.begin(kind, words, *self.place))
        rec.loops.append(self)
        self._count()
        self.register = None
        if kind == "loop":
            (of, start), (also, stop), step = words
            # Its last value is where the steps end before `stop`.
            known = of == also == "value" and start < stop
            self.register = Register(number, True, (start, stop - 1 - (stop - 1 - start) % step)
                                     if known else None)
        # Where the next round begins again.
        self.start = rec.log.here(), rec.count, rec.numbering, rec.ordered
        self.computed, rec.weights = {}, None

    def _count(self):
        """The begin and the end of a loop have numbers as instructions have. All engines meet
        there, which keeps their order."""
        self.rec.count += 1
        self.rec.ordered = min(self.rec.ordered, 1)

    def _close(self):
        rec = self.rec
        rec.step("endloop", self.place, (), rec.builder.endloop)
        rec.loops.pop()
        rec.weights = None
        self._count()
        self._forget()
        if self.register is not None:
            self.register.ended = True
        if not rec.loops:
            rec.log = None

    def again(self, frame, roots=(), exits=None):
        """A round has ended. Whether Python is to run another one; else the loop has ended. exits:
        gives the names that are read after it."""
        rec = self.rec
        rec.flush()
        # An inner loop that Python has left without its end, by break or return.
        if not rec.loops or rec.loops[-1] is not self:
            raise left(rec, rec.loops[-1] if rec.loops else self)
        state = live.state(frame, roots)
        if self.peeled and self.round == 1:
            self._close_first()
            self.round, self.last, self.first = 2, state, state
            return True
        if self.compared:
            self._same(state)
        # A loop of one round has no second; in a round that is compared, equal variables will do.
        elif self.total != self.round and (rec.log.at is None or
                                           live.differences(self.last, state)):
            self._rewind(state)
            return True
        self._close()
        self._no_rounds(state, exits() if exits else ())
        return False

    def _close_first(self):
        rec = self.rec
        rec.step("endloop", self.place, (), rec.builder.endloop)
        rec.loops.pop()
        self._count()
        self.register.ended = True
        self._open(*self.rest)

    def _forget(self):
        """Zeros of tiles that this loop has made are no matter of loops that come later."""
        rec = self.rec
        rec.zeros = [z for z in rec.zeros if z.storage.order <= self.start[2]]

    def _rewind(self, state):
        """The next round is compared with the one before it."""
        rec = self.rec
        log = rec.log
        self._forget()
        self.compared, self.last = True, state
        self.outer, self.end = (log.at, log.limit), (log.here(), rec.numbering)
        self.round += 1
        log.at, rec.count, rec.numbering, rec.ordered = self.start
        # The outermost compared loop sets the limit.
        if self.outer[0] is None:
            log.limit = self.end[0]
        self.computed, rec.weights = {}, None

    def _same(self, state):
        """Whether a compared round has ended where the one before did, with the same variables."""
        rec = self.rec
        log = rec.log
        if log.at != self.end[0]:
            differs(rec, None, self.place, log.entries[log.at])
        changed = live.differences(self.last, state)
        if changed and self.total != self.round:
            raise KernelError(
                "`%s` changes in each round of this loop at run time, and is read again later: %s; "
                "%s" % (changed[0], said(self.last.get(changed[0]), state.get(changed[0])), ADVICE),
                *rec.place_of(self.place))
        log.at, log.limit = self.outer
        # Numbers of tiles go on after the ones that were made.
        rec.numbering = max(rec.numbering, self.end[1])
        self.compared = False

    def _no_rounds(self, state, exits):
        """Refuses variables that are others after the loop, if it may have no rounds, or, where the
        first is apart, just one."""
        # The loop runs as often as Python has seen.
        if self.total is not None:
            return
        before = dict(self.first, **self.before)
        for path in live.differences(self.first, state) + live.differences(self.before, state):
            # The variable that the path begins at.
            name = path.split("[")[0].split(".")[0]
            if path in before and (name in exits or name != path or path.endswith("()")):
                raise KernelError(
                    "`%s` is read after this loop at run time, which changes it, %s; the number of "
                    "rounds is known only when the kernel runs, and may be %s: %s"
                    % (path, said(before[path], state.get(path)),
                       "0 or 1" if self.peeled else "0", ADVICE),
                    *self.rec.place_of(self.place))


def run(bounds, frame, roots, body):
    """A loop whose body is a function of the register that counts."""
    loop = Loop(record.active(), bounds)
    if loop.total == 0:
        return
    loop.begin(frame, roots)
    more = True
    while more:
        body(loop.register)
        more = loop.again(frame, roots, lambda: live.read_later(frame))


def ask(register, frame):
    """A `while reg:` asks for the truth value: before the first round and after each."""
    rec = record.active()
    # A line can be reached again by recursion: the frame tells them apart.
    key = frame.f_code, frame.f_lineno, id(frame)
    loop = next((lp for lp in reversed(rec.loops) if lp.key == key), None)
    if loop is None:
        loop = Loop(rec, None, register.number())
        loop.key, loop.test = key, frame.f_lasti
        loop.begin(frame)
        return True
    if frame.f_lasti == loop.test and live.has_break(frame):  # not the test after its body
        raise left(rec, loop)
    if loop.condition != register.number():
        raise KernelError("`while` at run time: its register is another one after a round: write "
                          "the condition into the first one by nisa.register_move",
                          *rec.place_of(loop.place))
    return loop.again(frame, (), lambda: live.read_after_loop(frame))


def said(a, b):
    """Two values of a state in words."""
    def one(x):
        if x is None:
            return "nothing"
        if x[0] == "tile":
            return "a tile"
        return str(x[1])[:40] if len(x) > 1 else "a %s" % x[0]
    first, second = one(a), one(b)
    if first == second:
        return "another %s in each" % first.replace("a ", "")
    return "%s, then %s" % (first, second)


def left(rec, loop):
    """The error of a loop that was left before the end of its body."""
    return KernelError("a loop at run time was left by break or return, or a `while` asks for more "
                       "than `while reg:`: the body is recorded to its end",
                       *rec.place_of(loop.place))
