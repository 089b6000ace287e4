"""By which ways a job's files may reach its pods."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.storage.bucket import from_environment
from nemo_runspec.check import Check, failed, ok


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
