"""What is looked at before a job of any cloud: room on nodes, the image's registry, data and S3, transports of code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.storage.bucket import Bucket, from_environment
from nemo_runspec.backends.registry_check import NO_IMAGE, registry_check
from nemo_runspec.check import Check, failed, of_error, ok, skipped, warning
from nemo_runspec.errors import Code, UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.s3_names import PAIRS
from nemo_runspec.secrets import NGC_KEYS, find
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.registry import NGC, NGC_USER, Image, RegistryAnswer, RegistryLogin, ask, image_of
from nemo_runspec.transport.web import Refused

Api = TypeVar("Api")
T = TypeVar("T", bound=CloudTarget)
R = TypeVar("R")

_PATIENCE = 10.0
"""Seconds that a question to S3 may take in all: pods may reach what this machine does not."""

_SCHEME = re.compile(r"\b(?:lepton|dgxcloud|dgx|runai)://(\S*)")
"""Addresses that people write by the platform's name; data lies on S3 all the same."""


@dataclass(frozen=True, slots=True)
class Room:
    """GPUs of one machine. `total`: that it has; `free`: that nobody uses; 0 of them on one that takes no jobs."""

    total: int
    free: int


@dataclass(frozen=True)
class JobRequest(Generic[Api, T]):
    """What a job asks of a platform.

    Args:
        gpus: per node, None where nobody says.
        given: what it is to run in, a node group or a project, where that was asked for already.
    """

    api: Api
    target: T
    nodes: int
    gpus: int | None
    given: Mapping[str, Any] | None = None


def profile_checks(
    platform: Iterable[Check], target: CloudTarget, env: Mapping[str, Any], kept: str
) -> Iterator[Check]:
    """Everything that is looked at for a profile: what the platform says, the image's registry, data, the code's ways.

    Args:
        kept: where the platform's own credentials for registries are, for a person.
    """
    yield from platform
    yield image_check(str(env.get("container_image") or ""), kept)
    yield from storage_checks(target)
    yield from transport_checks(target, str(env.get("packager") or "none"))


def platform_checks(
    platform: str,
    connect: Callable[[], R],
    reached: Callable[[R], Iterable[Check]],
    checks: Callable[[R], Iterable[Check]],
) -> Iterator[Check]:
    """What a platform says of a job's request, as far as it can be asked.

    Args:
        connect: makes the request; raises `UserError` where there are no credentials.
        reached: whether it answers, and accepts them. `checks`: the rest.
    """
    try:
        request = connect()
    except UserError as error:
        yield of_error("credentials", error)
        yield skipped(platform, "not checked: there are no credentials")
        return
    instead = skipped(f"the rest of {platform}", "not checked: it does not answer as it should")
    yield from unless_failed(reached(request), checks(request), [instead])


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
    """Whether a platform answers, and accepts the credentials.

    Args:
        platform: what is reached, and `credentials`: where they are from, both for a person.
        answered: what the answer says. `refused`: what a refusal of it says.
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


def room_check(where: str, rooms: Sequence[Room], nodes: int, gpus: int) -> Check:
    """Whether so many pods fit: not at all is a failure, not now a warning, as the job will wait.

    Args:
        where: in words. `rooms`: one for each machine that takes jobs. `gpus`: of one pod; 0 fits anywhere.
    """
    wanted = f"{nodes} node{'' if nodes == 1 else 's'} of {gpus} GPU{'' if gpus == 1 else 's'}"
    if gpus == 0:
        return ok("room", f"{where}: {len(rooms)} machines; the job asks for no GPU")
    ever, now = (sum(getattr(each, side) // gpus for each in rooms) for side in ("total", "free"))
    seen = f"{where}: {wanted} wanted, {now} free now, {ever} in all"
    if ever < nodes:
        return failed("room", seen, "ask for less (nodes, gpus_per_node), or for other nodes")
    if now < nodes:
        return warning("room", f"{seen}: the job will wait", "wait, or take other nodes; queue_timeout says how long")
    return ok("room", seen)


def image_check(text: str, kept: str) -> Check:
    """Whether the registry has the image, as far as it says so, with `NGC_KEY` for NVIDIA's.

    Args:
        kept: where the platform's own credentials for registries are, for a person.
    """
    if not text:
        return skipped("image", NO_IMAGE)
    image = image_of(text)
    if not image.url:
        return failed("image", f"{text} is no image of a registry", "write REGISTRY/IMAGE:TAG; a file cannot be pulled")
    login = _ngc_login() if image.registry == NGC else None
    return _of_registry(image, ask(image, login), login, kept)


def _of_registry(image: Image, answer: RegistryAnswer, login: RegistryLogin | None, kept: str) -> Check:
    key = login.variable if login else ""
    if not answer.accepted:
        return failed("image", f"{image.registry} does not accept {key}", f"make a new key there, and export {key}=…")
    if answer.status in ("401", "403") and answer.login:
        seen = f"{image.registry} does not let the owner of {key} have {image.text}"
        return failed("image", seen, "correct container_image, or take a key of an organization that has it")
    return registry_check(
        image,
        answer.status,
        where="this machine",
        note=f", for {key}" if answer.login else "",
        private="export NGC_KEY=…" if image.registry == NGC else f"see that {kept} has credentials for it",
        unreached="see that the registry's name is right; this machine may not reach it",
    )


def _ngc_login() -> RegistryLogin | None:
    found, key = find(NGC_KEYS[0])
    return RegistryLogin(NGC_USER, key, found.detail) if key else None


def address_checks(config: Mapping[str, Any]) -> Iterator[Check]:
    """Addresses in a recipe's configuration that no storage has, such as `lepton://bucket/x`: how they are spelt."""
    for where, text in _texts(config):
        found = _SCHEME.search(text)
        if found:
            yield failed("data", f"{where}: {found[0]} is no address of data", f"write s3://{found[1]}")


def _texts(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, f"{where}.{key}" if where else str(key))
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from _texts(each, f"{where}[{number}]")


def names_check(name: str, wanted: Iterable[str], there: Iterable[str], kind: str, mend: str) -> Check:
    """Whether everything that a profile names is there.

    Args:
        kind: what they are, such as `secret of the workspace`.
    """
    wanted, there = list(dict.fromkeys(wanted)), set(there)
    missing = [each for each in wanted if each not in there]
    if missing:
        have = ", ".join(sorted(there)) or "none"
        return failed(name, f"there is no {kind} {', '.join(missing)}; there are: {have}", mend)
    return ok(name, f"{', '.join(wanted)}: there")


def storage_checks(target: CloudTarget, *, fast: bool = False) -> Iterator[Check]:
    """Whether this machine's keys read every input, and write where outputs and code go. One request or two for each.

    Where the platform keeps the job's keys, those found here may be others: what they may not do is a warning. So is
    a place for code that may not be needed.

    Args:
        fast: only what the job cannot do without.
    """
    uses = [use for use in _uses(target) if use.needed or not fast]
    if not uses:
        return
    kept = any(name in target.secret_vars for pair in PAIRS for name in pair)
    bucket = from_environment(target.s3_endpoint, target.s3_region, patience=_PATIENCE)
    if bucket is None and kept:
        yield skipped("S3", "not known: the job's keys are the platform's, and there are none here")
    elif bucket is None:
        verdict = failed if any(use.needed for use in uses) else warning
        yield verdict("S3", "no ACCESS_KEY and SECRET_KEY are found here", "export ACCESS_KEY=… SECRET_KEY=…")
    else:
        yield from (_storage(bucket, use, sure=use.needed and not kept) for use in uses)


@dataclass(frozen=True, slots=True)
class _Use:
    """What a job does with a place on S3: `read` or `write`."""

    url: str
    how: str
    needed: bool = True


def _uses(target: CloudTarget) -> list[_Use]:
    found = [_Use(url, "read") for url in dict.fromkeys(target.inputs.values())]
    if target.outputs and target.output_url:
        found.append(_Use(target.output_url, "write"))
    if target.code_url and target.code_transport in ("auto", "s3"):
        found.append(_Use(target.code_url, "write", needed=target.code_transport == "s3"))
    return found


def _storage(bucket: Bucket, use: _Use, *, sure: bool) -> Check:
    try:
        if use.how == "write":
            bucket.writable(use.url)
            return ok("S3", f"{use.url}: may be written")
        return ok("S3", f"{use.url}: may be read, {bucket.readable(use.url)}")
    except Unreachable as error:
        return warning("S3", f"{use.url}: not known from here: {error.what}", error.remedy or "")
    except UserError as error:
        done = f"{use.url} cannot be {'written' if use.how == 'write' else 'read'}"
        seen = error.what if error.what.startswith(done) else f"{done}: {error.what}"
        return (failed if sure else warning)("S3", seen, error.remedy or "")


def transport_checks(target: CloudTarget, packager: str = "git") -> Iterator[Check]:
    """By which ways the job's files may reach its pods; which of them is taken depends on their size."""
    ways = {
        "inline": "",
        "volume": _no_volume(target),
        "s3": _no_s3(target),
        "git": "" if packager == "git" else f"packager is {packager}",
    }
    chosen = target.code_transport
    if chosen != "auto" and ways.get(chosen):
        yield failed("code", f"code_transport is {chosen}: {ways[chosen]}", "set what is missing, or auto")
        return
    open_ways = [way for way, missing in ways.items() if not missing]
    shown = f"{chosen}" if chosen != "auto" else f"by size: {', '.join(open_ways)}"
    closed = ", ".join(f"{way} ({missing})" for way, missing in ways.items() if missing) if chosen == "auto" else ""
    yield ok("code", f"{shown}{f'; not {closed}' if closed else ''}")


def _no_volume(target: CloudTarget) -> str:
    """Why files cannot be put on the job's volume from here, '' where they can."""
    folder = target.run_dir_here
    if not folder:
        return "no run_dir_here"
    return "" if Path(folder).is_dir() and os.access(folder, os.W_OK) else f"{folder} cannot be written here"


def _no_s3(target: CloudTarget) -> str:
    """The same for a presigned object."""
    if not target.code_url:
        return "no code_url"
    there = from_environment(target.s3_endpoint, target.s3_region)
    return "" if there else "no ACCESS_KEY and SECRET_KEY are found here"
