"""A plugin of pytest: kernels that tests call are checked.

    soma-nki -m pytest --soma-check --soma-schedules 4 tests/

def test_add(soma_check):
    assert (soma_check(add, a, b) == a + b).all()
"""
import pytest


def pytest_addoption(parser):
    group = parser.getgroup("soma", "kernels on Soma")
    group.addoption("--soma-check", nargs="?", const="all", default=None, metavar="LIST",
                    help="check each kernel call of the tests (all, or names as in race,uninit); a "
                    "test whose kernels have findings fails")
    group.addoption("--soma-schedules", default=None, metavar="N",
                    help="check under N legal timings, or all; 4 for the fixture soma_check, "
                    "else 1")


def _options(config):
    """The options of soma-nki that those of pytest mean."""
    checks, schedules = config.getoption("soma_check"), config.getoption("soma_schedules")
    if checks is None and schedules is None:
        return []
    return ["--check=" + (checks or "all"), "--schedules=" + (schedules or "1")]


def pytest_configure(config):
    words = _options(config)
    if not words:
        return
    from soma import look
    try:
        look.add(words)
    except look.OptionError as error:
        raise pytest.UsageError("soma: %s" % error) from None
    config.pluginmanager.register(_Checks(look.state()), "soma-checks")


class _Checks:
    """Fails the tests whose kernel calls have findings."""

    def __init__(self, state):
        self.state, self.seen = state, len(state.calls)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        calls, self.seen = self.state.calls[self.seen:], len(self.state.calls)
        found = ["kernel call %d, %s: %s" % (c["call"], c["kernel"], f["text"].rstrip("\n"))
                 for c in calls for f in c["findings"]]
        if found and report.passed:
            report.outcome, report.longrepr = "failed", "\n".join(found)


@pytest.fixture
def soma_check(request):
    """A function that checks a kernel with arguments under several legal timings, fails the test
    with what is found, and gives the kernel's results: soma_check(kernel, *args, checks="all",
    schedules=4)."""
    asked = request.config.getoption("soma_schedules")
    usual = {"checks": request.config.getoption("soma_check") or "all",
             "schedules": 4 if asked is None else asked if asked == "all" else int(asked)}

    def check(kernel, *args, **kwargs):
        __tracebackhide__ = True
        if not hasattr(kernel, "check"):
            pytest.fail("%r is no kernel of Soma's: run the tests by `soma-nki -m pytest`"
                        % (kernel,), pytrace=False)
        options = {name: kwargs.pop(name, value) for name, value in usual.items()}
        found = kernel.check(*args, **kwargs, **options)
        if found:
            pytest.fail("\n".join(f.text.rstrip("\n") for f in found), pytrace=False)
        return kernel(*args, **kwargs)
    return check
