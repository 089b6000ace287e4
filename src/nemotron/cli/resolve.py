"""`--dry-run --resolve`: the platform is asked for what only it knows; nothing is made or changed there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemo_runspec.backends import get_backend
from nemo_runspec.console import note
from nemo_runspec.errors import UserError

if TYPE_CHECKING:
    from nemo_runspec.backends.base import Rendering
    from nemo_runspec.planning.planned import Planned
    from nemo_runspec.plans.model import Plan


def check_resolve(resolve: bool, dry_run: bool) -> None:
    """Raises `UserError` where `--resolve` was given without `--dry-run`."""
    if resolve and not dry_run:
        raise UserError("--resolve belongs to --dry-run", remedy="add --dry-run: --dry-run --resolve")


def resolved(planned: Planned) -> Rendering | None:
    """The exact texts with what the platform says; None where an executor has nothing to ask for.

    Raises:
        UserError: the platform cannot be asked, or what the plan needs is not there.
    """
    from nemo_runspec.backends.capabilities import ResolvesPlaceholders
    from nemo_runspec.backends.provider import Parts
    from nemo_runspec.submission.bundle import read_bundle

    plan = planned.plan
    backend = get_backend(plan.executor)
    provider = backend.load_provider() if backend.remote else None
    if not isinstance(provider, ResolvesPlaceholders):
        return None
    return provider.resolve(planned.submission(), Parts(read_bundle(plan.bundle)), _say)


def say_if_nothing(plan: Plan, rendering: Rendering | None) -> None:
    """Says of a plan that its executor had nothing to ask for, where it had not."""
    if rendering is None:
        _say(f"--resolve: executor '{plan.executor}' has nothing to resolve; the dry run shows all there is")


def _say(line: str) -> None:
    note(line)
