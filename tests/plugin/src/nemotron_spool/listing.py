"""`nemotron spool jobs`, and what `nemotron doctor` looks at."""

import os
from collections.abc import Iterator
from pathlib import Path

from nemo_runspec.backends.listing import Listing, ListingRequest, ListingRow, Listings
from nemo_runspec.check import Check, CheckRequest, failed, ok

_MEND = "choose another spool_dir"


def _jobs(request: ListingRequest) -> Iterator[ListingRow]:
    for folder in sorted((request.api / "jobs").glob("*")):
        yield {"job": folder.name, "nodes": len(list(folder.glob("logs/node-*.log")))}


LISTINGS = Listings(
    connect=lambda env, profile, env_file: Path(str(env["spool_dir"])),
    lists=(Listing("jobs", "Jobs in the spool.", {"JOB": "job", "NODES": "nodes"}, _jobs),),
    needs_profile=True,
)


def checks(question: CheckRequest) -> Iterator[Check]:
    """Whether jobs of a profile can be spooled."""
    folder = Path(str(question.env.get("spool_dir")))
    there = os.access(folder.parent, os.W_OK)
    yield ok("spool", f"{folder} can be written") if there else failed("spool", f"{folder} cannot be written", _MEND)
