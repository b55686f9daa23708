"""Calls of libsoma that call Python back. Two things go wrong without this: a handler of a signal,
such as Ctrl-C, may raise its error inside a callback, before its first line; and ctypes prints what
a callback raises and goes on, with a result that is not defined. A page then lacks a part, or
libsoma reads through a wild pointer.

    write = WRITE(wrap(keep_a_part, failed=1))
    call(lib.soma_write_page, ..., write, None)   # raises what keep_a_part has raised
"""
import _signal  # the module signal makes an enum of each answer, which takes longer than a call
import sys
import threading

_SIGNALS = tuple(int(s) for s in _signal.valid_signals())


class _Call:
    """A call that goes on: `error` is the first that a callback has raised. Signals wait in
    `signals` until a callback or the end of the call."""

    def __init__(self, outer):
        self.outer, self.error, self.signals, self.handlers = outer, None, [], {}

    def hold(self):
        """Python handles signals in its main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler):
                self.handlers[number] = handler
                _signal.signal(number, self._note)

    def _note(self, number, _frame):
        self.signals.append(number)

    def deliver(self):
        while self.signals:
            number = self.signals.pop(0)
            self.handlers[number](number, sys._getframe(1))

    def release(self):
        """Gives the handlers back, even if one raises its error as soon as it is there."""
        error = None
        while True:
            try:
                for number, handler in self.handlers.items():
                    _signal.signal(number, handler)
                break
            except BaseException as raised:
                error = raised
        self.deliver()
        if error is not None:
            raise error


class _Now(threading.local):
    call = None


_now = _Now()


def call(function, *arguments):
    """function(*arguments). What signals' handlers and callbacks raise meanwhile is raised."""
    now = _Call(_now.call)
    try:
        now.hold()
        _now.call = now
        result = function(*arguments)
    finally:
        _now.call = now.outer
        now.release()
    if now.error is not None:
        raise now.error
    return result


def wrap(function, failed=None):
    """The function as a callback. It gives `failed` when it raises an error, and is not called
    again in that call of libsoma."""
    def called(*arguments):
        now = _now.call
        if now is None:  # of a thread of libsoma
            return function(*arguments)
        if now.error is not None:
            return failed
        try:
            now.deliver()
            return function(*arguments)
        except BaseException as error:
            now.error = error
            return failed
    return called
