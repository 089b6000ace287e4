"""The request of a plan, together with what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemo_runspec.catalog import Recipe
from nemo_runspec.planning.given import GivenVariable
from nemo_runspec.plans.labels import Labels
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.wandb import in_group
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.profile import Profile
from nemo_runspec.source import Source
from nemo_runspec.submission.request import RetriedJob, Submission


@dataclass(frozen=True, slots=True)
class PinnedVersion:
    """What a reference has been found to be.

    Args:
        path: as a job sees it.
        version: the word for it, as `v3`.
        is_fetched: the job brings it there itself.
    """

    path: str
    version: str
    is_fetched: bool = False


@dataclass(frozen=True)
class PlanRequest:
    """What was asked for.

    Args:
        recipe: the recipe, step or script.
        config: a config's name or the path of a YAML file; None for the recipe's default.
        profile: the resolved profile; None for a plain local run.
        env_file: for its system sections.
        mode: `run` or `batch`.
        overrides: Hydra overrides without sweeps.
        args: for the script itself.
        places: of overrides that do not stand on the command line: where they do.
        folder: the working directory of the call.
        versions: input → the job whose version of its artifact is read.
        pinned: reference → the version that it is at W&B.
        after: ids of jobs of its platform that have to succeed before it starts.
        labels: what the job is called.
        variables: laid over those of the profile, the last one last.
        over_ceiling: whether it may use more GPU-hours than the profile allows: a person has said so.
    """

    recipe: Recipe
    config: str | None = None
    profile: Profile | None = None
    env_file: EnvFile | None = None
    mode: str = "run"
    overrides: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    folder: Path = field(default_factory=Path.cwd)
    versions: Mapping[str, str] = field(default_factory=dict)
    pinned: Mapping[str, PinnedVersion] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    labels: Labels = field(default_factory=Labels)
    variables: tuple[GivenVariable, ...] = ()
    over_ceiling: bool = False
    places: Mapping[str, Source] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """A plan, and beside it the secret values found while it was made. Those never enter the plan."""

    plan: Plan
    secret_values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def submission(
        self,
        argv: Sequence[str] = (),
        *,
        group: str | None = None,
        retried: RetriedJob | None = None,
        needs: Sequence[str] = (),
    ) -> Submission:
        """What is handed over to be run. Args: as of a `Submission`."""
        from nemo_runspec.planning.codec import plan_to_json

        plan = in_group(self.plan, group) if group else self.plan
        text = plan_to_json(plan)
        return Submission(plan, text, self.secret_values, tuple(argv), group, retried, tuple(needs))
