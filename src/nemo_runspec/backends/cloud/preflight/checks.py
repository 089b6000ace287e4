"""The order of what is looked at before a job of any cloud, and what becomes of an answer that does not come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.preflight.image import image_check
from nemo_runspec.backends.cloud.preflight.storage import address_checks, storage_checks
from nemo_runspec.backends.cloud.preflight.ways import transport_checks
from nemo_runspec.check import Check, failed, of_error, ok, skipped, warning
from nemo_runspec.errors import Code, UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import narrowed, target_of
from nemo_runspec.profiles.common import nodes_of
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.web import Refused

AnyApi = TypeVar("AnyApi")
T = TypeVar("T", bound=CloudTarget)
R = TypeVar("R")
J = TypeVar("J")

PATIENCE = 20.0
"""Seconds that a question of the doctor's may take in all, and of those that a new profile is made of."""


@dataclass(frozen=True)
class JobRequest(Generic[AnyApi, T]):
    """What a job asks of a platform.

    Args:
        gpus: per node, None where nobody says.
        given: what it is to run in, a node group or a project, where that was asked for already.
    """

    api: AnyApi
    target: T
    nodes: int
    gpus: int | None
    given: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PlatformPreflight(Generic[AnyApi, T, J]):
    """How a platform is asked whether a profile is going to work.

    Args:
        name: for a person.
        kept: where its own credentials for registries are, for a person.
        target: the type of its jobs' targets.
        request: that of what they ask of it.
        connect: raises `UserError` where there are no credentials, or they cannot be used.
        reached: whether it answers, and accepts them.
        checks: the rest.
    """

    name: str
    kept: str
    target: type[T]
    request: Callable[[AnyApi, T, int, int | None], J]
    connect: Callable[[T], AnyApi]
    reached: Callable[[J], Iterable[Check]]
    checks: Callable[[J], Iterable[Check]]


def profile_checks(platform: PlatformPreflight[AnyApi, T, J], executor: str, env: Mapping[str, Any]) -> Iterator[Check]:
    """Everything that is looked at for a profile: what the platform says, the image's registry, data, the code's ways.

    Each check as soon as it is known.
    """
    target = narrowed(get_backend(executor).target_alone(env), platform.target)
    yield from _platform_checks(platform, target, env)
    yield image_check(str(env.get("container_image") or ""), platform.kept)
    yield from storage_checks(target)
    yield from transport_checks(target, str(env.get("packager") or "none"))


def _platform_checks(platform: PlatformPreflight[AnyApi, T, J], target: T, env: Mapping[str, Any]) -> Iterator[Check]:
    """What a platform says of a job's request, as far as it can be asked."""
    try:
        api = platform.connect(target)
    except UserError as error:
        yield of_error("credentials", error)
        yield skipped(platform.name, "not checked: it takes credentials")
        return
    request = platform.request(api, target, nodes_of(env), env.get("gpus_per_node"))
    instead = skipped(f"the rest of {platform.name}", "not checked: it does not answer as it should")
    yield from unless_failed(platform.reached(request), platform.checks(request), [instead])


def run_dir_check(target: CloudTarget, key: str, there: str, otherwise: Callable[[str, str], Check]) -> Check:
    """Checks whether the directory for jobs, which a profile names by that key, outlives them.

    Args:
        there: what it lies on then, for a person.
        otherwise: takes the key and the directory.
    """
    folder = str(getattr(target, key))
    return ok(key, f"{folder} is on {there}") if target.shared else otherwise(key, folder)


def submission_checks(plan: Plan, platform: Iterable[Check]) -> list[Check]:
    """What is wrong with a submission; empty where nothing is.

    `failed`: it cannot work; `Check.error` is the refusal to raise. `warning`: it may work, or will wait.

    Args:
        platform: what the platform says.
    """
    found = [*address_checks(plan.config), *platform, *storage_checks(target_of(plan, CloudTarget), fast=True)]
    return [check for check in found if check.verdict in ("failed", "warning")]


def unless_failed(first: Iterable[Check], rest: Iterable[Check], instead: Iterable[Check]) -> Iterator[Check]:
    """The first checks, and the rest where none of them failed. Generators: what is not reached is not asked for."""
    found = list(first)
    yield from found
    yield from instead if any(check.verdict == "failed" for check in found) else rest


def reached(
    platform: str,
    credentials: str,
    ask: Callable[[], R],
    answered: Callable[[R], Iterable[Check]],
    refused: Callable[[Refused], Check],
) -> Iterator[Check]:
    """Checks whether a platform answers, and accepts the credentials.

    Args:
        platform: what is reached, and `credentials`: where they are from, both for a person.
        answered: what the answer says.
        refused: what a refusal of it says.
    """
    try:
        answer = ask()
    except Refused as error:
        yield refused(error)
    except UserError as error:
        if error.code is not Code.CREDENTIALS:
            yield skipped("credentials", f"{credentials}: found; whether they are accepted is not known")
        yield of_error("credentials" if error.code is Code.CREDENTIALS else platform, error)
    else:
        yield ok("credentials", f"{credentials}: accepted")
        yield from answered(answer)


def run_checks(
    checks: Mapping[str, Callable[[R], Iterable[Check]]], request: R, *, patient: bool = False
) -> Iterator[Check]:
    """What a table of checks says of a job's request, in its order. `patient`: as `run_check`."""
    for name, check in checks.items():
        yield from run_check(name, check, request, patient=patient)


def run_check(
    name: str, check: Callable[[R], Iterable[Check]], request: R, *, patient: bool = False
) -> Iterator[Check]:
    """Checks, or what was raised instead of them. What one may not ask is not known, which is no failure.

    Args:
        patient: before a submission: no answer at all is not a check, but raised, and what is not known is warned of.
    """
    try:
        yield from check(request)
    except Unreachable as error:
        if patient:
            raise
        yield of_error(name, error)
    except Refused as error:
        yield (warning if patient else skipped)(name, f"not known: {error.what}", error.remedy or "")
    except UserError as error:
        yield of_error(name, error)


def names_check(name: str, wanted: Iterable[str], there: Iterable[str], kind: str, mend: str) -> Check:
    """Checks whether everything that a profile names is there.

    Args:
        kind: what they are, such as `secret of the workspace`.
    """
    wanted, there = list(dict.fromkeys(wanted)), set(there)
    missing = [each for each in wanted if each not in there]
    if missing:
        have = ", ".join(sorted(there)) or "none"
        return failed(name, f"there is no {kind} {', '.join(missing)}; there are: {have}", mend)
    return ok(name, f"{', '.join(wanted)}: there")
