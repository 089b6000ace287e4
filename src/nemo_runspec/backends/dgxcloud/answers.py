"""run:ai's answers as what they should be. One of another shape says nothing of what was asked about."""

from __future__ import annotations

from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.transport.reading import tables
from nemo_runspec.transport.web import Malformed, Refused, Reply

_OTHER_NAMES = ("entries", "items")
"""Names by which a list's answer may have its rows instead of its own."""

_REMEDY = "see base_url, and proxies on the way"


def told(reply: Reply) -> Any:
    """The JSON of an answer. What is none comes from something between here and there, and passes by itself.

    Raises:
        Malformed: it is no JSON.
    """
    try:
        return reply.json()
    except UserError as error:
        raise Malformed(error.what, where=error.where, remedy=_REMEDY) from None


def workload_of(reply: Reply, id: str) -> dict[str, Any]:
    """The workload of this id. Raises `Malformed` where it is something else."""
    row = told(reply)
    if not isinstance(row, dict) or id not in (row.get("id"), row.get("workloadId")):
        raise _malformed(reply, "is not that workload")
    return row


def page_of(reply: Reply, key: str) -> Any:
    """A list's answer: rows below `key` or one of the usual other names (null where there are none), or bare ones.

    Raises:
        Malformed: it is something else.
    """
    answer = found = told(reply)
    if isinstance(answer, dict):
        named = [answer[name] for name in (key, *_OTHER_NAMES) if name in answer]
        found = named[0] or [] if named else None
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise _malformed(reply, "is no such list")
    return answer


def no_such_list(error: Refused) -> Malformed:
    """A 404 for a list that every run:ai has: whoever says that is not run:ai."""
    return Malformed("run:ai's answer is that there is no such list (HTTP 404)", where=error.where, remedy=_REMEDY)


def rows_of(answer: Any, key: str) -> list[dict[str, Any]]:
    """The rows of a list's answer: below `key`, below the usual other names, or the answer itself."""
    if isinstance(answer, dict):
        answer = next((answer[name] for name in (key, *_OTHER_NAMES) if isinstance(answer.get(name), list)), [])
    return tables(answer)


def _malformed(reply: Reply, what: str) -> Malformed:
    return Malformed(f"run:ai's answer {what}", where=reply.url, remedy=_REMEDY)
