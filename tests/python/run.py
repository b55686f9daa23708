"""Runs one file of tests: `run.py FILE`. Says what was skipped, and why; ends with "N passed, N
failed"."""
import collections
import importlib.util
import os
import signal
import sys
import unittest

here = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(here, "..", "..", "python"), here]


def main(path):
    # A shell's background jobs begin with it ignored, and so would what is tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
    bad = result.failures + result.errors
    for test, text in bad:
        print("not ok: %s\n%s" % (test.id(), text))
    for why, n in sorted(collections.Counter(why for _, why in result.skipped).items()):
        print("skipped: %d test%s: %s" % (n, "" if n == 1 else "s", why))
    failed = len({getattr(t, "test_case", t).id() for t, _ in bad})
    print("%d passed, %d failed" % (max(result.testsRun - failed - len(result.skipped), 0), failed))
    return 1 if bad or not result.testsRun else 0


sys.exit(main(sys.argv[1]))
