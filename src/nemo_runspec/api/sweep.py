"""A sweep as an object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.api.given import seconds, text
from nemo_runspec.api.given import words as given_words
from nemo_runspec.api.job import BY, Job, raise_problem, remove_named
from nemo_runspec.api.listener import Listener, caller
from nemo_runspec.api.submit import recipe_words
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.html import rows_table
from nemo_runspec.planning.given import GivenVariable
from nemo_runspec.planning.request import plan_request
from nemo_runspec.plans.labels import Labels
from nemo_runspec.polling import TimeLimit
from nemo_runspec.records import JobStore
from nemo_runspec.records.cancel_request import GRACE
from nemo_runspec.remote.wait import wait_for
from nemo_runspec.sweeps import control, model
from nemo_runspec.sweeps.array_end import look_again
from nemo_runspec.sweeps.cancel import end
from nemo_runspec.sweeps.overview import Overview
from nemo_runspec.sweeps.status import Status, exit_code_of, status_of
from nemo_runspec.sweeps.store import SweepStore
from nemo_runspec.sweeps.submit import submit_retry, submit_sweep
from nemo_runspec.sweeps.table import Table, TableRow, make_table
from nemo_runspec.text import count


class SubmittedSweep:
    """Several runs of one recipe, found again by their name from any process.

    Attributes:
        name: the sweep's name, as `nemotron jobs` knows it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def wait(self, timeout: float | None = None, *, say: Say | None = None) -> int:
        """Waits until every run is over; 0 where all have succeeded, else the exit code of the first that has not.

        Args:
            timeout: seconds; None for as long as it takes.
            say: takes what keeps a platform from answering; it is asked again.

        Raises:
            TimeoutError: the time is up, and the sweep goes on.
            UserError: it was removed, or a platform refuses to be asked; or that is no length of time.
        """
        limit = TimeLimit(None if timeout is None else seconds("timeout", timeout))
        store = SweepStore()
        led = control.wait_for_end(store, [self.name], limit.left)
        records = wait_for(JobStore(), self._names(), seconds=limit.left, trouble=Listener(say).say) if led else []
        if not led or not all(record.over for record in records):
            raise TimeoutError(f"sweep '{self.name}' is not over after {timeout} seconds")
        return exit_code_of(status_of(look_again(store, store.get(self.name), Listener(say).say)))

    def status(self) -> Status:
        """How the sweep is now: `state`, `reason`, `exit_code` (None while it goes on), `over`.

        Raises:
            UserError: there is no such sweep, it cannot be read, or a platform cannot be asked.
        """
        return status_of(self._now())

    @property
    def runs(self) -> list[Job]:
        """The runs that have been started, the first one first.

        Raises:
            UserError: there is no such sweep, or it cannot be read.
        """
        return [Job(member.name) for member in SweepStore().get(self.name).members if member.started]

    def best(self) -> Job | None:
        """The run with the best metric, as the sweep's table marks it; None where none can be compared.

        Raises:
            UserError: there is no such sweep, it cannot be read, or a platform cannot be asked.
        """
        best = self._table().best
        return None if best is None else Job(best.member.name)

    def results(self) -> list[dict[str, Any]]:
        """A row of plain values for each run, the best one first: `pandas.DataFrame(sweep.results())`.

        Returns: `job`, `state`, `exit_code`, `seconds`, `best`, the overrides that differ and the metrics.

        Raises:
            UserError: there is no such sweep, it cannot be read, or a platform cannot be asked.
        """
        table = self._table()
        return [
            {
                "job": row.member.name,
                "state": row.member.state,
                "exit_code": row.member.code,
                "seconds": row.member.record.elapsed if row.member.record else None,
                "best": row.best,
                **dict(zip(table.keys, row.values, strict=True)),
                **row.member.metrics,
            }
            for row in table.rows
        ]

    def cancel(self, *, grace: float = GRACE, say: Say | None = None) -> Status:
        """Ends all runs and starts no more. A sweep that is over stays so. Returns: its status afterwards.

        Args:
            grace: seconds the runs have to save their work before they are ended.
            say: takes what happens on the way.

        Raises:
            UserError: one cannot be ended, or what a platform keeps of it cannot be deleted. The others are ended.
        """
        time, tell, names = seconds("grace", grace), Listener(say).say, self._names()
        raise_problem(end(JobStore(), SweepStore(), names, [self.name], grace=time, by=BY, delete=True, say=tell))
        return self.status()

    def remove(self, *, force: bool = False, say: Say | None = None) -> None:
        """Removes a sweep that is over, and its jobs, as `nemotron jobs rm` does. Arguments, errors as `Job.remove`."""
        overview = Overview()
        remove_named(overview, overview.sweeps, self.name, force, say)

    def retry(self, *, say: Say | None = None) -> SubmittedSweep:
        """Runs the failed runs once more; the new jobs take their places in this sweep, which is returned.

        Raises:
            UserError: it is not over, none has failed, or what one needs is gone.
        """
        argv = SweepStore().get(self.name).argv
        submit_retry(self.name, caller(argv, say))
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubmittedSweep) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        try:
            sweep = SweepStore().get(self.name)
        except UserError as error:
            return f"<Sweep {self.name}: {error.what}>"
        return f"<Sweep {self.name}: {status_of(sweep).state}, {count(len(sweep.members), 'run')} of {sweep.recipe}>"

    def _repr_html_(self) -> str:
        try:
            table = make_table(SweepStore().get(self.name))
        except UserError as error:
            return rows_table(f"{self.name}: {error.what}", (), ())
        head = ("", *table.keys, *table.metrics, "state", "job")
        return rows_table(repr(self).strip("<>"), head, [_cells(row, table) for row in table.rows])

    def _names(self) -> list[str]:
        return [entry.name for entry in Overview().members(self.name)]

    def _table(self) -> Table:
        return make_table(self._now())

    def _now(self) -> model.Sweep:
        """The sweep; one that nobody watches over is asked about."""
        store = SweepStore()
        return look_again(store, store.get(self.name))


def sweep(
    recipe: str | Path,
    *,
    config: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    args: Sequence[str] = (),
    mode: str = "batch",
    env_file: str | Path | None = None,
    labels: Labels,
    variables: Sequence[GivenVariable] = (),
    say: Say | None = None,
) -> SubmittedSweep:
    """As `nemo_runspec.sweep`."""
    request = plan_request(
        recipe, config=config, profile=profile, overrides=overrides, args=args, mode=mode, env_file=env_file,
        labels=labels, variables=variables,
    )  # fmt: skip
    words = [*recipe_words(request.recipe.path, str(request.recipe.script)), "-m"]
    words += ["-c", request.config] if request.config else []
    words += ["--batch", profile] if profile else []
    words += given_words(labels, variables)
    argv = [*words, *request.overrides, *(["--", *request.args] if request.args else [])]
    return SubmittedSweep(submit_sweep(request, caller(argv, say)))


def find(word: str) -> SubmittedSweep:
    """As `nemo_runspec.find_sweep`."""
    entry = Overview().one(text("name", word), "sweep")
    if not entry.is_sweep:
        raise UserError(f"'{entry.name}' is a job, and a sweep is needed", remedy=f"nemo_runspec.job('{entry.name}')")
    return SubmittedSweep(entry.name)


def _cells(row: TableRow, table: Table) -> list[object]:
    metrics = [row.member.metrics.get(name, "") for name in table.metrics]
    return ["*" if row.best else "", *row.values, *metrics, row.member.state, row.member.name]
