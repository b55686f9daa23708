"""aws-neuron/aws-neuron-sdk: the unit tests in nki/test, with NumPy references inside."""
import glob
import os
import unittest

import harness

FOLDER = "aws-neuron-sdk"


def _tests(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from _tests(t)
        else:
            yield t


def _run(test):
    def run():
        result = unittest.TestResult()
        test.run(result)
        for _, text in result.errors + result.failures:
            raise AssertionError(" / ".join(text.strip().splitlines()[-3:]))
        for _, why in result.skipped:
            raise harness.Skip(why)
    return run


def cases(table, folder):
    for path in sorted(glob.glob(os.path.join(folder, "nki", "test", "test_*.py"))):
        file = os.path.relpath(path, folder)
        if not table.wants(FOLDER, file):
            continue
        try:
            module = harness.load(path)
        except Exception as error:
            def fail(error=error):
                raise error
            table.case(FOLDER, file, "import", fail)
            continue
        for test in _tests(unittest.defaultTestLoader.loadTestsFromModule(module)):
            table.case(FOLDER, file, test.id().split(".")[-1], _run(test))
