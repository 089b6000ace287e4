"""Slurm's errands: what `remote.provider.Provider` asks for, done with the modules of `cluster/`.

NeMo-Run's executor is built for every submission and its batch script compared with the one that was shown; what it
does after that (its tunnel, its waiting, its log reading) is not used: it opens a connection per command, copies with a
shell, and takes a job that `sacct` does not list for one that runs on.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec import paths
from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.capabilities import (
    ForwardsPorts,
    KeepsFiles,
    KeepsStore,
    KeptFiles,
    OpensShells,
    SubmitsArrays,
)
from nemo_runspec.backends.provider import Cursors, Handle, LogChunk, Parts, Prepared, Results, offset_of
from nemo_runspec.backends.slurm.cluster import script_of
from nemo_runspec.backends.slurm.executor import job_name, sbatch_script
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.values import HOME, array_size
from nemo_runspec.console import Say
from nemo_runspec.digests import digest_of
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.enter import ShellRequest
from nemo_runspec.submission.request import Submission
from nemo_runspec.transport.base import Host
from nemo_runspec.transport.connect import connect

if TYPE_CHECKING:
    from nemo_runspec.backends.slurm.array import SlurmArray
    from nemo_runspec.transport.connection import Address

_CONNECTION = ("tunnel", "host", "user", "port", "identity", "accept_new_host_key")
"""Keys of a profile that say which machine is meant."""


class SlurmProvider(SubmitsArrays, KeepsFiles, KeepsStore, ForwardsPorts, OpensShells):
    """One object without state; connections are shared by the process."""

    def check(self, plan: Plan) -> None:
        """As `Provider.check`."""
        host_in(connection_of(target_of(plan, SlurmTarget)))

    def make_handle(self, plan: Plan) -> Handle:
        """As `Provider.make_handle`. `job_dir` may begin with `HOME`."""
        target = target_of(plan, SlurmTarget)
        outputs = {a.name: a.path for a in plan.produces if a.path}
        return {
            **({"tasks": array_size(target.array)} if target.array is not None else {}),
            **connection_of(target),
            "name": job_name(plan),
            "job_dir": plan.job_dir,
            "nodes": plan.resources.nodes,
            "attempts": target.attempts(),
            **({"health_check": True} if target.health_check else {}),
            "outputs": outputs,
            **({"place": source.place()} if (source := plan.sources.get("run.env.remote_job_dir")) else {}),
        }

    def prepare(self, submission: Submission, parts: Parts, say: Say) -> Prepared:
        """As `Provider.prepare`. Three round trips, one more for a package that is not there and each repository."""
        from nemo_runspec.backends.slurm.cluster.stage import StagedFiles, probe, send
        from nemo_runspec.backends.slurm.render import programs_of, render
        from nemo_runspec.backends.slurm.values import fill_home
        from nemo_runspec.backends.slurm.verified import require_same
        from nemo_runspec.submission.layout import own_files

        host, archive = host_in(connection_of(target_of(submission.plan, SlurmTarget))), parts.archive
        digest = digest_of(archive) if archive else ""
        found = probe(host, submission.plan.job_dir, digest, programs_of(submission.plan))
        plan = fill_home(submission.plan, found.home)
        rendering = render(plan)
        texts = own_files(plan, rendering)
        require_same(plan)
        check_there(host, plan, say)
        if target_of(plan, SlurmTarget).build_cache_dir:
            from nemo_runspec.backends.slurm.build import make_ready

            make_ready(host, plan, say)
        store = target_of(plan, SlurmTarget).store or ""
        files = StagedFiles(
            texts,
            rendering.programs,
            parts.contents,
            submission.secrets,
            archive,
            digest,
            store,
            mounts=parts.mounts,
        )
        send(host, plan, files, found, say)
        handle = {**self.make_handle(plan), "slurm": found.slurm}
        return Prepared(handle, rendering, plan, _by_hand(plan, rendering.command))

    def submit(self, prepared: Prepared, say: Say) -> Handle:
        """As `Provider.submit`. One round trip."""
        from nemo_runspec.backends.slurm.cluster.submit import submission_of, submit

        submitted = submit(host_in(prepared.handle), submission_of(prepared.plan), say)
        return {**prepared.handle, "id": submitted.id}

    def array_key(self, plan: Plan) -> str | None:
        """As `SubmitsArrays.array_key`."""
        from nemo_runspec.backends.slurm.array import array_key

        return array_key(plan)

    def make_array(self, name: str, plans: Sequence[Plan], *, parallel: int | None, ends_all: bool) -> SlurmArray:
        """As `SubmitsArrays.make_array`: a job array."""
        from nemo_runspec.backends.slurm.array import SlurmArray

        return SlurmArray(name, plans, parallel=parallel, ends_all=ends_all)

    def renderings(
        self, name: str, plans: Sequence[Plan], *, parallel: int | None, ends_all: bool
    ) -> Sequence[Rendering]:
        """As `SubmitsArrays.renderings`."""
        from nemo_runspec.backends.slurm.array import make_array

        return make_array(name, plans, parallel=parallel, ends_all=ends_all).renderings

    def endpoint(self, handle: Handle) -> str:
        """As `Provider.endpoint`. Jobs of two clusters that one alias has led to may have the same id."""
        return "|".join(str(handle.get(key) or "") for key in (*_CONNECTION, "slurm"))

    def same_endpoint(self, plan: Plan, handle: Handle) -> bool:
        """As `Provider.same_endpoint`. Which Slurm stands behind a login node is known of submitted jobs alone."""
        return self.endpoint({**self.make_handle(plan), "slurm": handle.get("slurm")}) == self.endpoint(handle)

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> Sequence[JobStatus]:
        """As `Provider.status`. One round trip for all that have an id, one for each that has none."""
        from nemo_runspec.backends.slurm.observe import job_statuses

        return job_statuses(host_in(handles[0]), handles, positions=places) if handles else []

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        """As `Provider.stop`. One round trip, one more where there are tasks of arrays."""
        from nemo_runspec.backends.slurm.array import stop_tasks
        from nemo_runspec.backends.slurm.cluster.stop import request_stop
        from nemo_runspec.backends.slurm.observe import job_ref

        alone = [handle for handle in handles if not self.in_array(handle)]
        tasks = [handle for handle in handles if self.in_array(handle)]
        if alone:
            request_stop(host_in(alone[0]), [job_ref(handle) for handle in alone], by, hard=hard)
        if tasks:
            stop_tasks(host_in(tasks[0]), tasks, by, hard=hard)

    def read_log(self, handle: Handle, cursors: Cursors, limit: int, *, platform: bool = False) -> Sequence[LogChunk]:
        """As `Provider.read_log`. One round trip."""
        from nemo_runspec.backends.slurm.observe import batch_log, read_chunks, task_logs

        if not handle.get("id"):
            return []
        # The tasks of an array that a profile asks for write into one folder, each under a number of its own.
        id = "*" if handle.get("tasks") else str(handle["id"])
        job = (str(handle["job_dir"]), str(handle["name"]), id)
        status = f"{handle['job_dir']}/status"
        # The first two come at a node's end and at an attempt's: then Slurm is worth being asked, and hardly before.
        patterns = [batch_log(*job)] if platform else [f"{status}/node-*", f"{status}/attempts*", task_logs(*job)]
        offsets = {path: offset_of(cursor) for path, cursor in cursors.items()}
        chunks = read_chunks(host_in(handle), patterns, offsets, limit=limit)
        return [replace(chunk, silent=chunk.path.startswith(f"{status}/")) for chunk in chunks]

    def read_metrics(
        self, handles: Sequence[Handle], sizes: Sequence[int], limit: int
    ) -> Sequence[tuple[int, LogChunk]]:
        """As `SubmitsArrays.read_metrics`. One round trip."""
        from nemo_runspec.backends.slurm.observe import read_chunks

        numbers = {f"{handle['job_dir']}/metrics.jsonl": number for number, handle in enumerate(handles)}
        offsets = dict(zip(numbers, sizes, strict=True))
        chunks = read_chunks(host_in(handles[0]), numbers, offsets, limit=limit) if handles else []
        return [(numbers[chunk.path], chunk) for chunk in chunks]

    def collect(self, handles: Sequence[Handle], statuses: Sequence[JobStatus]) -> Sequence[Results]:
        """As `Provider.collect`. One round trip."""
        from nemo_runspec.backends.slurm.observe import collect_results

        return collect_results(host_in(handles[0]), handles, statuses) if handles else []

    def delete_files(self, handle: Handle) -> None:
        """As `Provider.delete_files`."""
        if self.in_array(handle):
            self.delete_all_files([handle])
            return
        folder = str(handle["job_dir"])
        if "/jobs/" not in folder or ".." in folder:
            raise UserError(f"{folder} is no directory of a job", remedy="remove it by hand, if it is not needed")
        host = host_in(handle)
        done = host.run(script_of("cluster/stage.sh", "remove_job", job=folder, home=HOME), timeout=600.0)
        if done.code:
            raise UserError(f"the job's files cannot be removed: {done.said}", where=f"{host.name}:{folder}")

    def in_array(self, handle: Handle) -> bool:
        """As `SubmitsArrays.in_array`."""
        return bool(handle.get("array"))

    def delete_all_files(self, handles: Sequence[Handle]) -> None:
        """As `SubmitsArrays.delete_all_files`. One round trip."""
        from nemo_runspec.backends.slurm.array import remove_tasks

        if handles:
            remove_tasks(host_in(handles[0]), handles)

    def files_of(self, handle: Handle, plan: Plan) -> KeptFiles:
        """As `KeepsFiles.files_of`: the login node sees them."""
        from nemo_runspec.transport.tree import HostFiles

        return KeptFiles(HostFiles(host_in(handle)), str(handle["job_dir"]))

    def store_of(self, plan: Plan, root: str) -> tuple[Host | None, str]:
        """As `KeepsStore.store_of`: the login node sees what is mounted into jobs."""
        target = target_of(plan, SlurmTarget)
        folder = target.storage(plan.job_dir).source_of(root)
        if folder is None:
            raise UserError(f"the jobs' folder of artifacts, {root}, is on none of mounts", remedy="mount it")
        host = None if target.tunnel != "ssh" else host_in(connection_of(target))
        return host, folder.replace(HOME, "$HOME")

    def forward(self, handle: Handle, node: str, port: int, here: int) -> Sequence[str]:
        """As `ForwardsPorts.forward`: through the login node, which reaches its nodes by their names."""
        if handle.get("tunnel") != "ssh":
            raise UserError(
                f"this machine is the login node, and reaches the job's node itself: {node}:{port}",
                remedy=f"from elsewhere: ssh -L {here}:{node}:{port} this machine",
            )
        address = _address(handle)
        lead = f"127.0.0.1:{here}:{node}:{port}"
        # No shared connection: this one lasts as long as the forwarding, and says so where it cannot be made.
        alone = ("-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=30")
        return ("ssh", "-N", *alone, "-L", lead, *address.words(), "--", address.host)

    def shell(self, handle: Handle, entry: ShellRequest) -> Sequence[str]:
        """As `OpensShells.shell`: a step beside the job's own, and from there into its container.

        `--overlap` is needed since Slurm 20.11: without it the step waits for free resources of the allocation.
        """
        where = (f"--nodelist={entry.node}",) if entry.node else ()
        terminal = ("--pty",) if entry.terminal else ()
        step = (*_srun_in(handle), "--overlap", "--nodes=1", "--ntasks=1", *where, *terminal, *entry.words)
        if handle.get("tunnel") != "ssh":
            return step
        address, line = _address(handle), f"bash -lc {shlex.quote(shlex.join(step))}"
        return ("ssh", "-t" if entry.terminal else "-T", *address.words(), "--", address.host, line)


def _address(handle: Handle) -> Address:
    from nemo_runspec.transport.connection import Address

    identity = paths.expanded(str(handle["identity"])) if handle.get("identity") else None
    return Address(str(handle["host"]), handle.get("user"), handle.get("port"), identity)


def host_in(handle: Handle) -> Host:
    """The machine that a job was, or is to be, submitted from.

    Raises:
        UserError: values that cannot be an address.
    """
    address = {key: handle.get(key) or None for key in ("host", "user", "port", "identity")}
    accepts = bool(handle.get("accept_new_host_key"))
    return connect(str(handle.get("tunnel") or "local"), **address, accept_new_host_key=accepts)


def _srun_in(handle: Handle) -> tuple[str, ...]:
    """srun in a job's allocation. It takes no `12_3` (seen with 22.05): a task of an array has a number of its own."""
    id = str(handle["id"]).partition(";")[0]
    if "_" not in id:
        return ("srun", f"--jobid={id}")
    number = 'number=$(squeue --noheader --jobs="$0" --Format=JobID:32 | tr -d " " | grep -x -m 1 "[0-9][0-9]*")'
    return ("bash", "-c", f'{number} && exec srun --jobid="$number" "$@"', id)


def connection_of(target: SlurmTarget) -> dict[str, Any]:
    """The keys of a handle that say which machine a job is submitted from."""
    if target.tunnel != "ssh":
        return {"tunnel": "local"}
    found = {name: getattr(target, name) for name in _CONNECTION}
    return {name: value for name, value in found.items() if value}


def _by_hand(plan: Plan, command: Sequence[str]) -> tuple[str, ...]:
    return (
        f"look:    {plan.job_dir} there; {Path(sbatch_script(plan)).name} is the batch script",
        f"submit:  {shlex.join(command)}",
        f"after:   nemotron jobs status {plan.name}, which finds the job by its name",
    )


def check_there(host: Host, plan: Plan, say: Say) -> None:
    """What the cluster would refuse is refused before anything is sent; what is odd is said.

    Raises:
        UserError: the first thing that is wrong.
    """
    from nemo_runspec.backends.slurm.preflight.checks import fast_checks

    for check in fast_checks(host, plan):
        if check.verdict == "failed":
            raise check.error()
        say(f"warning: {check.seen}{f'; {check.remedy}' if check.remedy else ''}")
