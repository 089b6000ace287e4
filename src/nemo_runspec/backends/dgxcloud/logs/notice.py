"""What stands in a log that cannot be read: why, and what to set up. It is said once, and plainly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nemo_runspec.remote.provider import Handle, Piece

PATH = "nemotron"


def tail(handle: Handle, offsets: Mapping[str, int]) -> list[Piece]:
    """The words, unless they were said before."""
    if offsets.get(PATH):
        return []
    return [said(PATH, words(handle))]


def said(path: str, lines: Iterable[str]) -> Piece:
    """Lines of nemotron's own, as a piece that comes once."""
    return Piece(path, 0, "".join(f"nemotron: {line}\n" for line in lines).encode(), next=1)


def words(handle: Handle) -> tuple[str, ...]:
    """Why there is no log, and the ways to one."""
    where = f"{handle['job_dir']}/logs on the claim"
    if handle.get("logs_url"):
        return (f"run:ai gives no logs to the outside; what the job writes is in {where}, and is fetched once it ends",)
    ways = (
        "kube_apiserver_url (logs of the pods while they are there), "
        "run_dir_here (the claim's storage as this machine sees it), "
        "or output_url or code_url on S3 (fetched once the job has ended)"
    )
    again = " any more: its pods are gone" if handle.get("kube") else ""
    return (
        f"this job's log cannot be read from here{again}. run:ai gives none to the outside; it is in {where}",
        f"to have it here, set one of these in the profile: {ways}",
    )
