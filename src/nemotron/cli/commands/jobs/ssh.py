"""`nemotron jobs ssh`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemotron.cli.commands.jobs.reach import installed, running

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore


def call(job: str, command: Sequence[str], node: str | None) -> int:
    """Runs a shell, or a command, in a running job; does not come back, so that the exit code is the command's."""
    from nemo_runspec.records import JobStore

    store = JobStore()
    record = running(store, job, "a shell")
    words = way_in(store, record, node, command, terminal=sys.stdin.isatty() and sys.stdout.isatty())
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp(words[0], installed(words))


def way_in(
    store: JobStore, record: JobRecord, node: str | None, command: Sequence[str], *, terminal: bool
) -> Sequence[str]:
    """The command of this machine that runs another in a running job. Raises `UserError` where there is none.

    Args:
        node: as the platform lists it, or its number; None for the first.
        command: its words; none for a shell.
    """
    from nemo_runspec.remote.refresh import is_remote

    return (_elsewhere if is_remote(record) else _here)(store, record, node, tuple(command), terminal)


def _elsewhere(
    store: JobStore, record: JobRecord, node: str | None, command: tuple[str, ...], terminal: bool
) -> Sequence[str]:
    from nemo_runspec.backends import get_backend
    from nemo_runspec.backends.capabilities import OpensShells
    from nemo_runspec.script.enter import ShellRequest

    backend = get_backend(record.executor)
    provider = backend.load_provider()
    if not isinstance(provider, OpensShells):
        raise UserError(
            f"{record.executor} offers no way into job '{record.name}' from here",
            remedy=backend.no_shell or "let the job write to its log what you want to know",
        )
    name, rank = _place(record, node)
    return provider.shell(record.handle, ShellRequest(record.job_dir, rank, name, command, terminal))


def _here(
    store: JobStore, record: JobRecord, node: str | None, command: tuple[str, ...], terminal: bool
) -> Sequence[str]:
    from nemo_runspec.backends import get_backend
    from nemo_runspec.backends.worker import ShellWorker
    from nemo_runspec.script.enter import ShellRequest

    worker = get_backend(record.executor).load_worker()
    if not isinstance(worker, ShellWorker):
        raise UserError(f"{record.executor} offers no way into job '{record.name}'")
    if node not in (None, "0", os.uname().nodename):
        raise UserError(f"job '{record.name}' has no node '{node}'", remedy="it has one, on this machine: 0")
    folder = store.folder(record.name)
    return worker.shell(record, folder, ShellRequest(str(folder), 0, None, command, terminal))


def _place(record: JobRecord, node: str | None) -> tuple[str | None, int]:
    """A node as the platform lists it, and its number; the first one unless it is named or numbered."""
    from nemo_runspec.remote.hostlist import expand, require_node

    nodes = expand(record.facts.nodes)
    if node is None:
        return (nodes[0] if nodes else None), 0
    if node not in nodes and node.isdecimal() and int(node) < len(nodes):
        return nodes[int(node)], int(node)
    require_node(record.name, record.facts.nodes, node)
    return node, nodes.index(node) if node in nodes else 0
