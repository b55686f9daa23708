"""The marks of pytest that public tests use; they do nothing here but xfail and skip."""
import functools
import unittest


class _Mark:
    def __getattr__(self, name):
        if name == "xfail":
            return lambda **k: unittest.expectedFailure
        if name == "skip":
            return lambda reason="", **k: unittest.skip(reason)
        return lambda *a, **k: (lambda f: f)


mark = _Mark()


def fixture(function=None, **options):
    return function or functools.partial(fixture, **options)


def main(*arguments):
    return 0
