"""aws-neuron/aws-neuron-sdk: the unit tests in nki/test, with NumPy references inside."""
import glob
import os
import unittest

import harness

FOLDER = "aws-neuron-sdk"


# Why a test cannot pass here.
WHY = {
    "test_activation": "its reference is not rounded to the bfloat16 that the kernel asks for",
    "test_indirect_load_oob_err_negative": "it wants the type and the words of the error of the "
    "vendor's simulator, which name neither line nor tensor",
    "test_double_row_gen3": "NumPy makes arrays of float8_e5m2 with ml_dtypes alone",
    "test_range_select_example": "NumPy makes arrays of float8_e4m3 with ml_dtypes alone",
}
WHY["test_indirect_store_oob_err_negative"] = WHY["test_indirect_load_oob_err_negative"]
# What the checks find in kernels themselves: (check, words of the finding, why).
KNOWN = {"test_nc_match_replace_indices8_mask": (
    "uninit", "stores elements that nothing has written",
    "it stores the whole of a tile of which a mask leaves out three quarters")}


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
            told = " / ".join(text.strip().splitlines()[-3:])
            why = WHY.get(test.id().split(".")[-1])
            raise AssertionError("%s (%s)" % (why, told) if why else told)
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
            name = test.id().split(".")[-1]
            table.case(FOLDER, file, name, _run(test), known=KNOWN.get(name))
