"""`nemotron jobs forward`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemotron.cli.commands.jobs.messages import say
from nemotron.cli.commands.jobs.reach import installed, running

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore

_PORTS = re.compile(r"(?:(\d{1,5}):)?(\d{1,5})")


def call(job: str, ports: str, node: str | None) -> int:
    """Lets a port of this machine lead to a running job's; comes back only where nothing need be forwarded."""
    from nemo_runspec.backends import get_backend
    from nemo_runspec.backends.capabilities import ForwardsPorts
    from nemo_runspec.records import JobStore
    from nemo_runspec.remote.hostlist import require_node
    from nemo_runspec.remote.refresh import is_remote

    here, there = _ports(ports)
    store = JobStore()
    record = running(store, job, "a port")
    if not is_remote(record):
        return _here(store, record, here, there)
    provider = get_backend(record.executor).load_provider()
    if not isinstance(provider, ForwardsPorts):
        raise UserError(
            f"{record.executor} offers no way to a port of job '{record.name}' from here",
            remedy=f"let the job open the way itself, such as: ssh -f -N -R {here}:localhost:{there} USER@HOST",
        )
    if node is not None:
        require_node(record.name, record.facts.nodes, node)
    where = node or _first(record)
    command = installed(provider.forward(record.handle, where, there, here))
    say(f"http://127.0.0.1:{here} leads to {where}:{there} of {record.name}; Ctrl-C ends it, not the job")
    return os.execvp(command[0], command)


def _ports(text: str) -> tuple[int, int]:
    match = _PORTS.fullmatch(text)
    here, there = (int(match[1] or match[2]), int(match[2])) if match else (0, 0)
    if not (0 < here < 65536 and 0 < there < 65536):
        raise UserError(f"'{text}' is no port", remedy="PORT, or PORT-HERE:PORT-THERE, such as 8265 or 9000:8265")
    return here, there


def _first(record: JobRecord) -> str:
    from nemo_runspec.remote.hostlist import expand

    nodes = expand(record.facts.nodes)
    if not nodes:
        raise UserError(
            f"where job '{record.name}' runs is not known yet", remedy=f"nemotron jobs status {record.name}"
        )
    return nodes[0]


def _here(store: JobStore, record: JobRecord, here: int, there: int) -> int:
    """A job of this machine listens on it, or in a container that this machine reaches."""
    from nemo_runspec.backends import get_backend

    if here != there:
        raise UserError(
            f"job '{record.name}' runs on this machine, which reaches port {there} itself", remedy=f"use {there}"
        )
    address = get_backend(record.executor).load_worker().address(record, store.folder(record.name))
    print(f"http://{address}:{there}")
    say(f"{record.name} runs on this machine: nothing need be forwarded")
    return 0
