"""A Slurm profile: the cluster is asked for accounts, partitions, GPUs and a place for jobs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.setup import (
    IMAGE,
    Interview,
    Setup,
    SetupChoice,
    SetupQuestion,
    best,
    helps_of,
    set_values,
)
from nemo_runspec.backends.slurm.cluster import FIELD, Answer, run_script, script_of
from nemo_runspec.backends.slurm.fields import FIELDS
from nemo_runspec.backends.slurm.preflight import SCRIPT, SECONDS
from nemo_runspec.backends.slurm.values import gpus_in
from nemo_runspec.duration import hours
from nemo_runspec.errors import UserError
from nemo_runspec.field import defaults_of
from nemo_runspec.text import count
from nemo_runspec.transport.connect import connect
from nemo_runspec.transport.ssh_config import aliases

_TIMEOUT = 90.0
_TIME = str(defaults_of(FIELDS)["time"])
_KEYS = ("user", "port", "identity", "account", "partition", "gpus_per_node", "time", "remote_job_dir", IMAGE)
_MOST = 12
"""Hosts that are offered."""


def _found() -> str:
    return "sbatch is on this machine" if shutil.which("sbatch") else ""


def _ask(interview: Interview) -> Mapping[str, Any]:
    values = _ask_host(interview)
    answer = _asked(interview, values)
    values |= _ask_account(interview, answer) | _ask_partition(interview, answer)
    if values.get("tunnel") == "ssh":
        values["remote_job_dir"] = interview.ask(_place(answer))
    return set_values(values | {IMAGE: interview.given(IMAGE)})


def _ask_host(interview: Interview) -> dict[str, Any]:
    """Where sbatch is. `me@host` is taken apart."""
    here = bool(_found())
    hosts = tuple(SetupChoice(name, "of ~/.ssh/config") for name in aliases()[:_MOST])
    text = "Login node, or an alias of ~/.ssh/config" + (" (empty: this machine)" if here else "")
    named = interview.ask(SetupQuestion("host", text, choices=hosts, needed=not here))
    user, _, host = named.rpartition("@")
    port = interview.given("port")
    if port and not port.isdecimal():
        raise UserError(f"port is a whole number, not '{port}'")
    if not host:
        return {}
    more = {"user": user or interview.given("user"), "port": int(port or 0) or None}
    return set_values({"tunnel": "ssh", "host": host, **more, "identity": interview.given("identity")})


def _asked(interview: Interview, values: Mapping[str, Any]) -> Answer:
    """What the cluster says; an empty answer where it cannot be asked."""
    if not values and not _found():
        return Answer({})
    name = values.get("host", "this machine")
    script = script_of(SCRIPT, "show_offers", seconds=str(SECONDS), field=FIELD)
    try:
        answer = run_script(connect(**{"tunnel": "local", **values}), script, timeout=_TIMEOUT)
    except UserError as error:
        interview.say("\n".join(filter(None, (f"not asked: {error.what}", error.remedy))))
        return Answer({})
    partitions, accounts = len(answer.column("partitions", 0)), _accounts(answer)
    if "sbatch" not in answer:
        interview.say(f"{name} answers, and has no sbatch on its PATH")
    elif answer["partitions"].code:
        interview.say(f"Slurm does not answer on {name}: {answer['partitions'].reason}")
    else:
        yours = f", {count(len(accounts), 'account')} of yours" if accounts else ""
        interview.say(f"{name} answers: {count(partitions, 'partition')}{yours}")
    return answer


def _accounts(answer: Answer) -> list[str]:
    """Those that may submit, the default one first."""
    found = answer.column("accounts", 0)
    first = [line for line in answer["default"].lines if line in found]
    return list(dict.fromkeys([*first, *found]))


def _ask_account(interview: Interview, answer: Answer) -> dict[str, Any]:
    accounts = tuple(map(SetupChoice, _accounts(answer)))
    if "sbatch" in answer and not accounts:  # a cluster without accounting needs none
        return {"account": interview.given("account")}
    return {"account": interview.ask(SetupQuestion("account", "Account", best(accounts), accounts, needed=False))}


def _ask_partition(interview: Interview, answer: Answer) -> dict[str, Any]:
    rows = [row for row in answer["partitions"].rows if len(row) == 4]
    found = {row[0].rstrip("*"): row for row in sorted(rows, key=lambda row: not row[0].endswith("*"))}
    gpus = {name: max(gpus_in(row[2]) or 0 for row in rows if row[0].rstrip("*") == name) for name in found}
    choices = tuple(SetupChoice(name, _described(row, gpus[name])) for name, row in found.items())
    named = interview.ask(
        SetupQuestion("partition", "Partition", best(choices), choices, needed=False, closed=bool(choices))
    )
    values = {"partition": named, "time": interview.given("time") or _time(found.get(named))}
    if gpus.get(named):
        most = gpus[named]
        question = SetupQuestion("gpus_per_node", f"GPUs per node, of {most}", str(most), number=True)
        return values | {"gpus_per_node": int(interview.ask(question) or 0)}
    return values | {"gpus_per_node": int(interview.given("gpus_per_node") or 0) or None}


def _described(row: list[str], gpus: int) -> str:
    limit = "no time limit" if row[1] == "infinite" else f"up to {row[1]}"
    return ", ".join(
        filter(None, (limit, f"{gpus} GPUs per node" if gpus else "no GPUs", "" if row[3] == "up" else row[3]))
    )


def _time(row: list[str] | None) -> str:
    """The usual time limit, or the partition's where that is shorter."""
    limit = hours(row[1]) if row else None
    return row[1] if row and limit is not None and limit < (hours(_TIME) or 0) else _TIME


def _place(answer: Answer) -> SetupQuestion:
    scratch = answer.cell("host", 2).strip()
    text = "Directory for jobs and outputs, which all nodes see"
    return SetupQuestion("remote_job_dir", text, f"{scratch.rstrip('/')}/nemotron" if scratch else "~/.nemotron/run")


SETUP = Setup(
    _ask,
    "Slurm",
    {
        "host": "Login node, or an alias of ~/.ssh/config; also me@host. Not on a login node itself.",
        **helps_of(FIELDS, *_KEYS),
    },
    found=_found,
    preferred=True,
    profile="cluster",
)
