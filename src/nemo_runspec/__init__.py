"""The toolkit under `nemotron`: recipe headers, profiles, configuration, plans, backends, jobs.

    import nemo_runspec

    profile = nemo_runspec.load_profile("my-cluster")
    planned = nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster", overrides=["run.env.nodes=2"])
    job = nemo_runspec.submit(planned)
    code = job.wait()
    executor = nemo_runspec.executor("my-cluster")      # a NeMo-Run executor for scripts you already have

Importing this package imports nothing else but its version; each function imports what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nemo_runspec.version import __version__ as __version__

if TYPE_CHECKING:
    from nemo_runspec.api.job import Job
    from nemo_runspec.api.sweep import SubmittedSweep
    from nemo_runspec.plans.model import Plan
    from nemo_runspec.profiles.profile import Profile

__all__ = ["executor", "find_sweep", "job", "jobs", "load_plan", "load_profile", "plan", "submit", "sweep"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


def load_profile(name: str, *, env_file: str | Path | None = None) -> Profile:
    """A profile of the env file in force, with `extends` followed and `${oc.env:…}` resolved.

    Args:
        name: the section.
        env_file: a file to read instead of the one in force.

    Raises:
        nemo_runspec.errors.UserError: no env file, no such profile, or any problem in its chain.
    """
    from nemo_runspec.profiles.load import load_profile as load

    return load(name, Path(env_file) if env_file else None)[0]


def plan(
    recipe: str | Path,
    *,
    config: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    args: Sequence[str] = (),
    mode: str = "run",
    env_file: str | Path | None = None,
    name: str | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
    env: Mapping[str, str] = _NOTHING,
) -> Plan:
    """The plan of one job. Nothing is run, written or asked of a network.

    Args:
        recipe: a recipe's path (`nano3/pretrain`) or a script's (`./train.py`).
        config: a config's name or a YAML file.
        profile: None for this machine.
        overrides: Hydra's syntax.
        args: arguments for the script itself.
        mode: `run` (attached) or `batch` (detached).
        env_file: an `env.toml` to read instead of the one in force.
        name: what the job's name begins with.
        tags, note: to find it by, and what it is for.
        env: variables of the job's environment, over those of the profile. A secret's value stays out of the plan.

    Raises:
        nemo_runspec.errors.UserError: anything that keeps the plan from being made.
    """
    from nemo_runspec.api.given import labels, variables
    from nemo_runspec.api.submit import plan as make

    called, given = labels(name, tags, note), variables(env)
    return make(
        recipe, config=config, profile=profile, overrides=overrides, args=args, mode=mode, env_file=env_file,
        labels=called, variables=given,
    )  # fmt: skip


def load_plan(path: str | Path) -> Plan:
    """A plan that was saved with `Plan.save` or `--dry-run --out`.

    Args:
        path: the file; `~` is the home directory.

    Raises:
        nemo_runspec.errors.UserError: it cannot be read, or is no plan.
    """
    from nemo_runspec.api.submit import load_plan as load

    return load(path)


def submit(plan: Plan, *, say: Callable[[str], object] | None = None) -> Job:
    """Starts the job of a plan and leaves it alone; the job. Nothing is printed.

    A plan made in this process has its missing inputs made first, where its config declares that (`make = if-missing`).
    A loaded one is run as it is, and its secrets are looked up where they come from. A plan that has been run before is
    run under a new name.

    Args:
        plan: what `plan` or `load_plan` has returned.
        say: takes lines of what happens on the way, such as `print`. Where it fails, it is told nothing more.

    Raises:
        nemo_runspec.errors.UserError: it cannot be submitted, or an input is missing.
    """
    from nemo_runspec.api.submit import submit as start

    return start(plan, say=say)


def job(name: str) -> Job:
    """A job of yours, whatever process has submitted it.

    Args:
        name: its name, the beginning or the last part of it, or `last`.

    Raises:
        nemo_runspec.errors.UserError: there is no such job, several, or it is a sweep.
    """
    from nemo_runspec.api.job import find

    return find(name)


def jobs() -> list[Job]:
    """All jobs on record, the newest first, those of sweeps among them. No platform is asked."""
    from nemo_runspec.api.job import everything

    return everything()


def sweep(
    recipe: str | Path,
    *,
    config: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    args: Sequence[str] = (),
    mode: str = "batch",
    env_file: str | Path | None = None,
    name: str | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
    env: Mapping[str, str] = _NOTHING,
    say: Callable[[str], object] | None = None,
) -> SubmittedSweep:
    """Starts several runs of a recipe and leaves them alone; the sweep. Nothing is printed.

    Args:
        recipe, config, profile, args, mode, env_file, name, tags, note, env: as for `plan`.
        overrides: Hydra's syntax; every combination of the values that they name is a run: `lr=1e-3,1e-4`.
        say: takes lines of what happens on the way, such as `print`. Where it fails, it is told nothing more.

    Raises:
        nemo_runspec.errors.UserError: a run that cannot be planned or submitted; nothing is started then.
    """
    from nemo_runspec.api.given import labels, variables
    from nemo_runspec.api.sweep import sweep as start

    called, given = labels(name, tags, note), variables(env)
    return start(
        recipe, config=config, profile=profile, overrides=overrides, args=args, mode=mode, env_file=env_file,
        labels=called, variables=given, say=say,
    )  # fmt: skip


def executor(
    profile: str, *, overrides: Sequence[str] = (), mode: str = "run", env_file: str | Path | None = None
) -> Any:
    """A NeMo-Run executor made from a profile, for scripts that call NeMo-Run themselves. Imports NeMo-Run.

    Args:
        profile: the section.
        overrides: Hydra's syntax, such as `run.env.nodes=2`.

    Raises:
        nemo_runspec.errors.UserError: a problem of the profile, or required fields it leaves open.
    """
    from nemo_runspec.backends import get_backend
    from nemo_runspec.planning.build import build_plan
    from nemo_runspec.planning.missing_values import refuse_unfilled
    from nemo_runspec.planning.request import bare_request

    made = build_plan(bare_request(profile, overrides=overrides, mode=mode, env_file=env_file))
    refuse_unfilled(made.plan)
    return get_backend(made.plan.executor).make_executor(made.plan, made.secret_values, environment=True)


def find_sweep(name: str) -> SubmittedSweep:
    """A sweep of yours, whatever process has started it.

    Args:
        name: its name, the beginning or the last part of it, or `last` for the newest of jobs and sweeps.

    Raises:
        nemo_runspec.errors.UserError: there is no such sweep, several, or it is a job.
    """
    from nemo_runspec.api.sweep import find

    return find(name)


def __dir__() -> list[str]:
    """What this package offers."""
    return sorted(__all__)
