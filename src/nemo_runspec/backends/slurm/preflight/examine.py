"""The whole examination of a Slurm profile: connect, ask once, and say what the answer means."""

from __future__ import annotations

import time
from collections.abc import Iterator

from nemo_runspec.backends import machine
from nemo_runspec.backends.slurm.preflight import accounts, image, login, place, shape
from nemo_runspec.backends.slurm.preflight.asking import TIMEOUT, Answer, Asked, answer_of, asked_of
from nemo_runspec.backends.slurm.preflight.job import job_checks
from nemo_runspec.backends.slurm.preflight.reach import not_reached, reached
from nemo_runspec.doctor.check import Check, Question, of_error, skipped
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Broken, Host
from nemo_runspec.transport.connect import connect

_ORDER = (login.checks, shape.checks, accounts.checks, image.checks, place.checks)
_CONNECTION = ("host", "user", "port", "identity")


class NoAnswer(UserError):
    """What came back is not the answer of a login node."""


def examine(question: Question) -> Iterator[Check]:
    """Every check, each as soon as it is known. One round trip, one more with `question.job`."""
    env = question.env
    yield from _here(question)
    asked, ssh = asked_of(env), env.get("tunnel") == "ssh"
    try:
        host = host_of(question)
        answer = ask(host, asked)
    except (Broken, NoAnswer) as error:
        yield from reached(host, ssh=ssh)
        yield of_error("answer", error)
        yield skipped("the rest", "not checked: the login node did not answer")
        return
    except UserError as error:
        yield from not_reached(error)
        yield skipped("the rest", "not checked: the login node cannot be asked")
        return
    yield from reached(host, ssh=ssh)
    for checks in _ORDER:
        yield from checks(question, asked, answer)
    yield from job_checks(question, asked, answer, host)


def ask(host: Host, asked: Asked) -> Answer:
    """The login node's answer. One round trip.

    Raises:
        NoAnswer: one that is none. UserError, Unreachable: as `Host.run`.
    """
    began = time.time()
    done = host.run(asked.script(), timeout=TIMEOUT)
    answer = answer_of(done.text, began, time.time())
    if "host" not in answer:
        raise NoAnswer(
            f"{host.name} does not answer as a login node does: {done.said or 'it says nothing'}",
            remedy="log in by hand and see whether bash works there",
        )
    return answer


def host_of(question: Question) -> Host:
    """The machine that the profile's jobs are submitted from."""
    env = question.env
    return connect(
        str(env.get("tunnel") or "local"),
        **{key: env.get(key) or None for key in _CONNECTION},
        accept_new_host_key=bool(env.get("accept_new_host_key")),
    )


def _here(question: Question) -> Iterator[Check]:
    """What is needed on this side: ssh, and git where it packs the code."""
    if question.env.get("tunnel") == "ssh":
        yield machine.program(machine.SSH)
    packager = question.env.get("packager")
    if packager in (None, "git", "hybrid"):
        yield machine.program(machine.GIT, needed=packager is not None)
