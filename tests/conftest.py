"""Fixtures every test may use, and what is said about the lab: suites that need more than Python."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import support
import together
from durations import Durations
from hypothesis import HealthCheck, settings
from labs.cache import CACHE, UV_CACHE
from support import Outcome, Project

FULL = os.environ.get("REQUIRE_LAB") == "full"
REQUIRED = FULL or os.environ.get("REQUIRE_LAB") == "1"
_LONG_TESTS = Path(__file__).parent / "data" / "slow.json"
_LONG = frozenset(json.loads(_LONG_TESTS.read_text(encoding="utf-8"))) if _LONG_TESTS.exists() else frozenset()
"""Functions that need no lab and took over half a second of processor time, all their cases together."""

settings.register_profile(
    "nemotron",
    max_examples=100 if FULL else 50,  # others in every run
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    print_blob=True,
)
settings.load_profile("nemotron")


# Ignored by whoever starts the tests in the background or below nohup, these would be so in every process of theirs.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


@pytest.fixture(scope="session", autouse=True)
def nobodys_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The environment of all tests, of those too that have no `project`: an empty home, and no variable of the user's.

    Programs of the Python that runs the tests come first, as `uv run` has it, however the tests were started.
    This is NeMo-Run's home, set because where nobody has set it nemotron does, for the rest of this process's life. Its
    path does not hold `/nemo_run`, which NeMo-Run replaces in jobs without a container.
    """
    own = {"HOME": tmp_path_factory.mktemp("home"), "NEMORUN_HOME": tmp_path_factory.mktemp("runs")}
    caches = {"NEMOTRON_TEST_CACHE": CACHE, "UV_CACHE_DIR": UV_CACHE}
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(support.is_users, list(os.environ)):
            patch.delenv(name)
        for name, folder in {**own, **caches}.items():
            patch.setenv(name, str(folder))
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield own["NEMORUN_HOME"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project to stand in: this process's environment, home and working directory are those of the project."""
    made = support.make_project(tmp_path)
    support.enter(made, monkeypatch)
    return made


@pytest.fixture
def nemotron(project: Project) -> Callable[..., Outcome]:
    """`nemotron("list", "--json")` in this process, inside the project."""
    return support.call


@pytest.fixture
def nemotron_process(project: Project) -> Callable[..., Outcome]:
    """`nemotron_process("list", "--json", cwd=…, NAME="value")` as a process, inside the project."""

    def run(
        *args: str, cwd: Path | None = None, timeout: float = 300, cold: bool = False, **environment: str
    ) -> Outcome:
        return support.process(project, *args, cwd=cwd, timeout=timeout, cold=cold, **environment)

    return run


def pytest_configure(config: pytest.Config) -> None:
    """What stands in a parallel run's controller too, which loads no other conftest: see `Durations` and `Results`."""
    cache = config.rootpath / ".pytest_cache"
    config.pluginmanager.register(Durations(cache / "durations.json"))
    config.pluginmanager.register(together)
    if (Path(__file__).parent / "behaviour").is_dir():
        from behaviour.results import Results

        config.pluginmanager.register(Results(cache / "behaviours.json"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Three processes for two cores: half of the time tests wait for something. xdist's own variable says otherwise."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return None if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") else max(1, 3 * cores // 2)


# A lab suite is marked lab("slurm", how="what to do to get it"), a test that takes seconds is marked slow, or stands in
# data/slow.json; both are left out unless REQUIRE_LAB=1. A test marked full is left out of that too, and runs with
# REQUIRE_LAB=full alone.

SLOW = "slow: tests that take long; REQUIRE_LAB=1 uv run --group dev pytest"
LARGE = "full: tests over 2 minutes, or with over 1 GB of packages; REQUIRE_LAB=full uv run --group dev pytest"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out lab suites, slow tests and the full tier unless they are required."""
    for item in items:
        if reason := _left_out(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def _left_out(item: pytest.Item) -> str | None:
    if item.get_closest_marker("full") and not FULL:
        return LARGE
    if REQUIRED:
        return None
    mark = item.get_closest_marker("lab")
    if mark is not None:
        return f"lab: {_suite(mark)}"
    return SLOW if item.get_closest_marker("slow") or item.nodeid.partition("[")[0] in _LONG else None


def pytest_collection_finish() -> None:
    """Ten thousand tests stay to the end: nothing of them is looked at again for what may be thrown away."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Under REQUIRE_LAB=1 a skipped test has failed, unless it is of the full tier."""
    outcome = yield
    report = outcome.get_result()
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail") and _left_out(item) is None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"REQUIRE_LAB=1 allows no skipped test, and this one was: {reason}"


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    """Under REQUIRE_LAB=1 a skipped file has failed too."""
    outcome = yield
    report = outcome.get_result()
    if REQUIRED and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"REQUIRE_LAB=1 allows no skipped file, and this one was: {report.longrepr}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says which lab suites and how many slow and large tests were left out, and how to get them."""
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", []))
    reasons = (told[2].removeprefix("Skipped: ") for told in skipped if isinstance(told, tuple))
    left_out = Counter(reason for reason in reasons if reason.startswith(("lab: ", "slow: ", "full: ")))
    if left_out:
        terminalreporter.section("left out (REQUIRE_LAB=1 runs all but the full tier, and accepts no other skip)")
        for reason, tests in sorted(left_out.items()):
            terminalreporter.write_line(f"{reason.removeprefix('lab: ')}  [{tests} tests]")


def _suite(mark: pytest.Mark) -> str:
    name = mark.args[0] if mark.args else "lab"
    how = mark.kwargs.get("how")
    return f"{name}: {how}" if how else str(name)
