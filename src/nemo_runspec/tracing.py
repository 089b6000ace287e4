"""Traces questions to other machines for whoever wants to hear: who, what, how long it took. Never a secret."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PROGRAMS = re.compile(
    r"(?<![\w./$-])(sbatch|squeue|sacct|sacctmgr|scancel|scontrol|sinfo|srun|sprio|enroot|git|tar|tail|cat|mkdir|rm|mv)\b"
    r"(?![\w=/.-])"
)
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)

_listener: Callable[[str], None] | None = None


def tell_to(listener: Callable[[str], None] | None) -> None:
    """Tells the listener from now on, a line each; None for nobody."""
    global _listener
    _listener = listener


def is_heard() -> bool:
    """True if somebody listens."""
    return _listener is not None


def tell(line: str) -> None:
    """Tells a line."""
    if _listener is not None:
        _listener(line)


class TracedCall:
    """What one question has come to. `answer`: in a few words, once there is one."""

    answer = ""


@contextmanager
def asked(who: str, what: Callable[[], str]) -> Iterator[TracedCall]:
    """Tells, once the block has ended, what somebody was asked in it.

    Args:
        who: a machine or a platform.
        what: its words, made only where somebody listens; no secret stands in them.
    """
    question, begun = TracedCall(), time.monotonic()
    try:
        yield question
    except BaseException as error:
        question.answer = question.answer or f"no answer: {type(error).__name__}"
        raise
    finally:
        if _listener is not None:
            answer = f", {question.answer}" if question.answer else ""
            tell(f"{who}: {what()}  ({time.monotonic() - begun:.2f} s{answer})")


def programs_of(script: str) -> str:
    """A script by the programs that it may run: a page of shell tells nobody anything."""
    found = dict.fromkeys(_PROGRAMS.findall(_COMMENT.sub("", script)))
    return f"bash: {', '.join(found)}" if found else "bash"
