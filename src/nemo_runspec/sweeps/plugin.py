"""Lets a Hydra sweeper run, with our own way to run its jobs.

In Hydra 1.3 (`hydra/core/plugins.py`) a sweeper's `setup` asks `Plugins.instance().instantiate_launcher` for its
launcher, and its `sweep` calls that launcher's `launch` once for every batch.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_runspec.errors import UserError, first_line
from nemo_runspec.sweeps.search import Search


@dataclass(frozen=True)
class TrialResult:
    """What a sweeper is told of one job: the metric, or why there is none."""

    value: float | None = None
    problem: str = ""


class Stopped(BaseException):
    """No more jobs are to be started. Not an `Exception`: no sweeper may take it for a failed trial."""


LaunchTrials = Callable[[Sequence[Sequence[str]]], Sequence[TrialResult]]
"""Runs a batch of jobs, each with these overrides beside those of the command line."""


def run_search(search: Search, launch: LaunchTrials, log: Path) -> None:
    """Lets the sweeper run; it calls `launch` for every batch of jobs. What it and its libraries log goes to `log`.

    Raises:
        UserError: it cannot be made, or it has failed by itself.
        Stopped: what `launch` raised. So is any other exception of `launch`, whatever the sweeper makes of it.
    """
    raised: list[BaseException] = []

    def guarded(jobs: Sequence[Sequence[str]]) -> Sequence[TrialResult]:
        try:
            return launch(jobs)
        except BaseException as error:
            raised.append(error)
            raise

    arguments = [*_overruling(search), *search.swept]
    with _logging_to(log), _launching_with(_make_launcher(guarded)):
        try:
            sweeper = _make_sweeper(search)
            _quieten()
            sweeper.sweep(arguments)
        except UserError:
            raise
        except Exception as error:
            if raised:
                raise raised[0] from None
            logging.getLogger(__name__).exception("the sweeper '%s' has failed", search.name)
            raise UserError(f"the sweeper '{search.name}' has failed: {first_line(error)}", where=str(log)) from None


def _make_sweeper(search: Search) -> Any:
    from hydra._internal.callbacks import Callbacks
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext

    context = HydraContext(config_loader=search.loader, callbacks=Callbacks())
    return Plugins.instance().instantiate_sweeper(
        config=search.config, hydra_context=context, task_function=lambda _: None
    )


def _make_launcher(launch: LaunchTrials) -> Any:
    from hydra.core.utils import JobReturn, JobStatus
    from hydra.plugins.launcher import Launcher

    class Returned(JobReturn):  # type: ignore[misc]  # Hydra is not typed
        """Hydra's own prints a line for every failed job."""

        @property
        def return_value(self) -> Any:
            if isinstance(self._return_value, Exception):
                raise self._return_value
            return self._return_value

    class NemotronLauncher(Launcher):  # type: ignore[misc]
        def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
            """Nothing: it knows all it needs."""

        def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[Any]:
            """Runs a batch and gives back what came of it."""
            jobs = [list(job) for job in job_overrides]
            return [returned(job, trial) for job, trial in zip(jobs, launch(jobs), strict=True)]

    def returned(job: list[str], trial: TrialResult) -> Any:
        status = JobStatus.FAILED if trial.problem else JobStatus.COMPLETED
        value = RuntimeError(trial.problem) if trial.problem else trial.value
        return Returned(overrides=job, status=status, _return_value=value)

    return NemotronLauncher()


@contextmanager
def _launching_with(launcher: Any) -> Iterator[None]:
    """Meanwhile every sweeper gets this launcher. Hydra makes launchers only of modules below `hydra_plugins`."""
    from hydra.core.plugins import Plugins

    plugins = Plugins.instance()
    plugins.instantiate_launcher = lambda **_: launcher
    try:
        yield
    finally:
        del plugins.instantiate_launcher


def _overruling(search: Search) -> list[str]:
    """Fixed overrides of keys that the sweeper's own settings would vary: they win, so it must know them."""
    return [text for text in search.fixed if text.partition("=")[0].lstrip("+") in search.space]


@contextmanager
def _logging_to(file: Path) -> Iterator[None]:
    """Meanwhile everything that is logged, and every warning, goes to a file and not to the terminal."""
    root, before = logging.getLogger(), logging.getLogger().level
    file.touch(mode=0o600)
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            logging.captureWarnings(True)
            yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)
        root.setLevel(before)
        handler.close()


def _quieten() -> None:
    """Loggers that libraries have given a way to the terminal of their own (Optuna does) lose it."""
    for logger in [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]:
        for handler in list(logger.handlers):
            if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.stdout):
                logger.removeHandler(handler)
                logger.propagate = True
