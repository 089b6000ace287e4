"""A job's data: addresses that no storage has, and what this machine's keys may do on S3."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from nemo_runspec.backends import find_backend, known_executors
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.storage.bucket import Bucket, from_environment
from nemo_runspec.check import Check, failed, ok, skipped, warning
from nemo_runspec.errors import UserError
from nemo_runspec.s3_names import PAIRS
from nemo_runspec.transport.base import Unreachable

_PATIENCE = 10.0
"""Seconds that a question to S3 may take in all: pods may reach what this machine does not."""

_ADDRESS = re.compile(r"\b(\w+)://(\S*)")


def address_checks(config: Mapping[str, Any]) -> Iterator[Check]:
    """Addresses in a recipe's configuration that no storage has, such as `lepton://bucket/x`: how they are spelt."""
    for where, text in _texts(config):
        for found in _ADDRESS.finditer(text):
            if found[1] in _platforms():
                yield failed("data", f"{where}: {found[0]} is no address of data", f"write s3://{found[2]}")


@cache
def _platforms() -> frozenset[str]:
    """Names of platforms, by which people write addresses; data lies on S3 all the same."""
    backends = filter(None, map(find_backend, known_executors()))
    of_data = [backend for backend in backends if any(key.on_s3 for key in backend.fields)]
    return frozenset(name for backend in of_data for name in (backend.name, *backend.other_names))


def _texts(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, f"{where}.{key}" if where else str(key))
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from _texts(each, f"{where}[{number}]")


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
    except UserError as error:  # which names the place
        return (failed if sure else warning)("S3", error.what, error.remedy or "")
