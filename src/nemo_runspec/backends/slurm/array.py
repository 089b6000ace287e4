"""Several plans as the tasks of one job array: one batch script, and for each task a directory like any job's.

    <run>/jobs/<array>/                 the batch script, batch.sh, bundle/ and code/, which the tasks share
    <run>/jobs/<array>/members/<task>/  its script, train.yaml, status/, log, metrics.jsonl, secrets.env
                                        bundle and code are links to the array's

The batch script is that of one plan under the array's name, so that it is compared with NeMo-Run's like any other.
`batch.sh` (see `render.py`) says so, and each task finds its own directory (`jobside/job.py`). Its files go to the
cluster in one stream, are submitted once, and its tasks end together.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.backends.base import RenderedFile, Rendering
from nemo_runspec.backends.capabilities import JobArray
from nemo_runspec.backends.provider import Handle, Parts
from nemo_runspec.backends.slurm.client import SlurmProvider, check_there, host_in
from nemo_runspec.backends.slurm.cluster import FIELD, program, run_script
from nemo_runspec.backends.slurm.cluster.job import task_id
from nemo_runspec.backends.slurm.cluster.stage import StagedFiles, probe, send
from nemo_runspec.backends.slurm.cluster.stop import require_stopped, stopping_script
from nemo_runspec.backends.slurm.cluster.submit import submission_of, submit
from nemo_runspec.backends.slurm.executor import BATCH_LINES, job_layout, job_name, job_script
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.observe import slurm_of
from nemo_runspec.backends.slurm.render import (
    batch_files,
    batch_text,
    programs_of,
    render,
    render_sbatch,
    version_files,
)
from nemo_runspec.backends.slurm.values import HOME, fill_home
from nemo_runspec.backends.slurm.verified import require_same
from nemo_runspec.console import Say
from nemo_runspec.digests import digest_of, digest_of_text
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.programs import PROGRAMS, checks_programs
from nemo_runspec.script.render import job_file, render_job_script
from nemo_runspec.submission.layout import own_files, programs_list
from nemo_runspec.transport.base import Host

_ANY = "array"


@dataclass(frozen=True)
class Array:
    """A job array.

    Args:
        plan: the one that is submitted: the first task's, with the array's name and directory.
        members: the plans of the tasks, in the tasks' directories.
        ends_all: a task that fails ends all others.
    """

    plan: Plan
    members: tuple[Plan, ...]
    ends_all: bool = False

    @property
    def shared(self) -> tuple[RenderedFile, ...]:
        """The texts in the array's own directory, the batch script first."""
        text = batch_text(self.plan, members=True, ends_all=self.ends_all)
        return tuple(
            dataclasses.replace(file, text=text) if file.name == BATCH_LINES else file
            for file in render(self.plan).files
            if file.name != job_script(self.plan)
        )

    @property
    def links(self) -> Mapping[str, str]:
        """What lies in each task's directory as a link: name → the array's own."""
        names = ["bundle", *PROGRAMS, *checks_programs(self.plan)]
        if self.plan.package.kind != "none":
            names.append("code")
        return {name: "/".join(("..", "..", *[".."] * name.count("/"), name)) for name in names}

    @property
    def renderings(self) -> list[Rendering]:
        """What would be sent for each task: its own script, and what is the array's."""
        whole, shared = render(self.plan), self.shared
        return [
            dataclasses.replace(
                whole,
                files=(*(dataclasses.replace(s, name=f"{folder_of(task)}/{s.name}") for s in self.own(task)), *shared),
            )
            for task in range(len(self.members))
        ]

    def own(self, task: int) -> tuple[RenderedFile, ...]:
        """The texts in a task's own directory: its job script, and its versions of artifacts."""
        plan = self.members[task]
        script = job_file(job_script(self.plan), render_job_script(plan, self._layout(task)))
        return (script, *version_files(plan))

    def _layout(self, task: int) -> JobLayout:
        return JobLayout(f"{job_layout(self.plan).root}/{folder_of(task)}")


def make_array(name: str, plans: Sequence[Plan], *, parallel: int | None = None, ends_all: bool = False) -> Array:
    """The array of plans of one shape, see `array_key`.

    Args:
        name: unique, as a job's is.
        parallel: how many tasks may run at a time; None for as many as there is room.
    """
    first = plans[0]
    folder = posixpath.join(posixpath.dirname(first.job_dir), name)
    limit = f"%{parallel}" if parallel is not None and parallel < len(plans) else ""
    target = dataclasses.replace(first.target, array=f"0-{len(plans) - 1}{limit}")
    return Array(
        dataclasses.replace(first, name=name, job_dir=folder, target=target),
        tuple(dataclasses.replace(plan, job_dir=f"{folder}/{folder_of(number)}") for number, plan in enumerate(plans)),
        ends_all,
    )


def folder_of(task: int) -> str:
    """A task's directory below the array's."""
    return f"members/{task}"


def array_key(plan: Plan) -> str | None:
    """Plans with the same answer may be tasks of one array: they differ in nothing that is submitted or shared.

    None for a plan that is to be submitted by itself: an array of its own, or a container build.
    """
    target = target_of(plan, SlurmTarget)
    if target.array is not None or target.build_cache_dir:
        return None
    folder = posixpath.join(posixpath.dirname(plan.job_dir), _ANY)
    bare = dataclasses.replace(plan, name=_ANY, job_dir=folder)
    contents = [plan.bundle.digest, dataclasses.asdict(plan.package), [secret.name for secret in plan.secrets]]
    mounts = [(mount.url, mount.ref, mount.target, mount.commit, mount.there) for mount in plan.auto_mounts]
    own = [file.text for file in batch_files(bare)]
    text = json.dumps([render_sbatch(bare), own, contents, mounts, target.tunnel], default=str)
    return digest_of_text(text)


_SECONDS = 60.0


class SlurmArray(JobArray):
    """Several plans of one shape that are submitted together. `open`, then `send`, then `submit`.

    Args:
        name: unique, as a job's is.
        parallel: how many may run at a time; None for as many as there is room.
        ends_all: one that fails ends all others.
    """

    def __init__(self, name: str, plans: Sequence[Plan], *, parallel: int | None, ends_all: bool) -> None:
        self.array = make_array(name, plans, parallel=parallel, ends_all=ends_all)
        self.host = host_in(SlurmProvider().make_handle(self.array.plan))
        self._made: dict[int, dict[str, str]] = {}

    def open(self, archive: Path | None, say: Say) -> None:
        """Asks what the cluster is, and whether it would refuse this. Two round trips.

        Raises:
            UserError: it would; or NeMo-Run would submit something else.
        """
        self._archive, self._digest = archive, digest_of(archive) if archive else ""
        self._programs = programs_of(self.array.plan)
        self._found = probe(self.host, self.array.plan.job_dir, self._digest, self._programs)
        if HOME in self.array.plan.job_dir:
            self.array = fill_home(self.array, self._found.home)
        require_same(self.array.plan)
        self._check(say)
        self._shared = {file.name: file.text for file in self.array.shared}

    def _check(self, say: Say) -> None:
        try:
            check_there(self.host, self.array.plan, say)
        except UserError as error:
            if error.key != "array":
                raise
            raise UserError(
                f"Slurm does not take an array of {len(self.array.members)} tasks",
                where=self.host.name,
                remedy="sweep fewer values at a time; the cluster's limit: scontrol show config | grep MaxArraySize",
            ) from None

    def handles(self) -> list[Handle]:
        """How each is found, as far as it is known now."""
        make_handle, plan = SlurmProvider().make_handle, self.array.plan
        shared = {"name": job_name(plan), "array": plan.job_dir, "slurm": self._found.slurm}
        return [{**make_handle(member), **shared, "task": task} for task, member in enumerate(self.array.members)]

    def job_dirs(self) -> list[str]:
        """As `JobArray.job_dirs`: below the array's."""
        return [member.job_dir for member in self.array.members]

    def texts(self, task: int) -> dict[str, str]:
        """As `JobArray.texts`: its own script and configuration, and what it shares."""
        return self._shared | programs_list(self._programs) | self._own(task)

    def send(self, parts: Parts, secrets: Sequence[Mapping[str, str]], say: Say) -> None:
        """Puts the array's files there. One round trip, one more for a package that is not there.

        Args:
            secrets: each task's.

        Raises:
            UserError: they cannot be written. Nothing is left of them then.
        """
        send(self.host, self.array.plan, self._files(parts, secrets), self._found, say)

    def submit(self, say: Say) -> list[Handle]:
        """Submits exactly once, however often it is called; the handles with their ids. One round trip.

        Raises:
            As `cluster.submit.submit`.
        """
        submitted = submit(self.host, submission_of(self.array.plan), say)
        return [{**handle, "id": task_id(submitted.id, int(handle["task"]))} for handle in self.handles()]

    def remove(self) -> None:
        """Removes the array's directory. Raises `UserError` where it cannot."""
        SlurmProvider().delete_files(SlurmProvider().make_handle(self.array.plan))

    def _own(self, task: int) -> dict[str, str]:
        if task not in self._made:
            self._made[task] = own_files(self.array.members[task], Rendering(self.array.own(task), ()))
        return self._made[task]

    def _files(self, parts: Parts, secrets: Sequence[Mapping[str, str]]) -> StagedFiles:
        array, tasks = self.array, range(len(self.array.members))
        own = ((f"{folder_of(task)}/{name}", text) for task in tasks for name, text in self._own(task).items())
        return StagedFiles(
            self._shared | dict(own),
            self._programs,
            parts.contents,
            archive=self._archive,
            digest=self._digest,
            store=target_of(array.plan, SlurmTarget).store or "",
            folders=[] if "code" in array.links else [f"{folder_of(task)}/code" for task in tasks],
            links={f"{folder_of(task)}/{name}": to for name, to in array.links.items() for task in tasks},
            mounts=parts.mounts,
            secret_files={f"{folder_of(task)}/secrets.env": values for task, values in enumerate(secrets)},
        )


def stop_tasks(host: Host, handles: Sequence[Handle], by: str, *, hard: bool) -> None:
    """Ends tasks of arrays, each array's with one scancel for those that wait and one for those that run.

    As `cluster.stop.request_stop`; any number of them in one round trip.
    """
    arrays: dict[str, list[Handle]] = {}
    for handle in handles:
        number, _, cluster = str(handle["id"]).partition(";")
        arrays.setdefault(FIELD.join((number.partition("_")[0], cluster, str(handle["array"]))), []).append(handle)
    lines = (
        FIELD.join((key, " ".join(str(t["task"]) for t in tasks), slurm_of(tasks[0]), str(tasks[0].get("name") or "")))
        for key, tasks in arrays.items()
    )
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    script = stopping_script("stop_tasks", by, hard=hard)
    answer = run_script(host, script, data=data, timeout=_SECONDS * 3 * len(arrays))
    for key, some in arrays.items():
        number = key.split(FIELD)[0]
        require_stopped(host, f"array {number}", str(some[0].get("name")), answer, number)


def remove_tasks(host: Host, handles: Sequence[Handle]) -> None:
    """Removes the directories of tasks, and with its last task the array's. One round trip.

    Raises:
        UserError: they cannot be removed.
    """
    lines = "".join(f"{handle['array']}{FIELD}{int(handle['task'])}\n" for handle in handles)
    done = host.run(
        program("cluster/stop.sh", "remove_tasks"), data=lines.encode("utf-8", "surrogateescape"), timeout=600.0
    )
    if done.code:
        raise UserError(f"the jobs' files cannot be removed: {done.said}", where=f"{host.name}:{handles[0]['array']}")
