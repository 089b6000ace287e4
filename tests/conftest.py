"""Fixtures every test may use, and what is said about the lab: suites that need more than Python."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import support
from hypothesis import HealthCheck, settings
from support import Outcome, Project

REQUIRED = os.environ.get("REQUIRE_LAB") == "1"

settings.register_profile(
    "nemotron",
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
def nemo_run_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """NeMo-Run's home is not the user's: where nobody has set it nemotron does, for the rest of this process's life.

    Nor does its path hold `/nemo_run`, which NeMo-Run replaces in jobs without a container.
    """
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("runs")
        patch.setenv("NEMORUN_HOME", str(folder))
        yield folder


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

    def run(*args: str, cwd: Path | None = None, timeout: float = 300, **environment: str) -> Outcome:
        return support.process(project, *args, cwd=cwd, timeout=timeout, **environment)

    return run


def pytest_configure(config: pytest.Config) -> None:
    """Notes how the behaviours of tests/behaviour fared: from here, as a parallel run's controller loads no other."""
    if (Path(__file__).parent / "behaviour").is_dir():
        from behaviour.results import Results

        config.pluginmanager.register(Results(config.rootpath / ".pytest_cache" / "behaviours.json"))


# A lab suite is marked lab("slurm", how="what to do to get it") and left out unless REQUIRE_LAB=1.


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves lab suites out unless they are required."""
    for item in items:
        mark = item.get_closest_marker("lab")
        if mark is not None and not REQUIRED:
            item.add_marker(pytest.mark.skip(reason=f"lab: {_suite(mark)}"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Under REQUIRE_LAB=1 a skipped test has failed."""
    outcome = yield
    report = outcome.get_result()
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
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
    """Says which lab suites were left out, and how to get them."""
    left_out = Counter(
        report.longrepr[2].partition("lab: ")[2]
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and "lab: " in report.longrepr[2]
    )
    if left_out:
        terminalreporter.section("lab suites left out (REQUIRE_LAB=1 runs them and accepts no skip)")
        for suite, tests in sorted(left_out.items()):
            terminalreporter.write_line(f"{suite}  [{tests} tests]")


def _suite(mark: pytest.Mark) -> str:
    name = mark.args[0] if mark.args else "lab"
    how = mark.kwargs.get("how")
    return f"{name}: {how}" if how else str(name)
