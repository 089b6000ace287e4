"""The toolkit under `nemotron`: recipe headers, profiles, configuration, plans, backends, jobs.

    import nemo_runspec

    profile = nemo_runspec.load_profile("my-cluster")
    planned = nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster", overrides=["run.env.nodes=2"])
    executor = nemo_runspec.executor("my-cluster")      # a NeMo-Run executor for scripts you already have

Importing this package imports nothing else; each function imports what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_runspec.planning.model import Plan
    from nemo_runspec.profiles.profile import Profile

__version__ = "0.1.0"
__all__ = ["executor", "load_profile", "plan"]


def load_profile(name: str, *, env_file: str | Path | None = None) -> Profile:
    """A profile of the env file in force, with `extends` followed and `${oc.env:…}` resolved.

    Args:
        name: the section. `env_file`: a file to read instead of the one in force.

    Raises:
        nemo_runspec.errors.UserError: no env file, no such profile, or any problem in its chain.
    """
    from nemo_runspec.profiles.load import load_profile as load

    return load(name, Path(env_file) if env_file else None)[0]


def plan(
    recipe: str,
    *,
    config: str | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    args: Sequence[str] = (),
    mode: str = "run",
    env_file: str | Path | None = None,
) -> Plan:
    """The plan of one job. Nothing is run, written or asked of a network.

    Args:
        recipe: a recipe's path (`nano3/pretrain`) or a script's (`./train.py`).
        config: a config's name or a YAML file. `profile`: None for this machine. `overrides`: Hydra's syntax.
        args: arguments for the script itself. `mode`: `run` (attached) or `batch` (detached).

    Raises:
        nemo_runspec.errors.UserError: anything that keeps the plan from being made.
    """
    from nemo_runspec.planning.build import build_plan
    from nemo_runspec.planning.request import plan_request

    request = plan_request(
        recipe, config=config, profile=profile, overrides=overrides, args=args, mode=mode, env_file=env_file
    )
    return build_plan(request).plan


def executor(
    profile: str, *, overrides: Sequence[str] = (), mode: str = "run", env_file: str | Path | None = None
) -> Any:
    """A NeMo-Run executor made from a profile, for scripts that call NeMo-Run themselves. Imports NeMo-Run.

    Args:
        profile: the section. `overrides`: Hydra's syntax, such as `run.env.nodes=2`.

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
