"""Several plans as the tasks of one job array: one batch script, and for each task a directory like any job's. Pure.

    <run>/jobs/<array>/                 the batch script, batch.sh, bundle/ and code/, which the tasks share
    <run>/jobs/<array>/members/<task>/  its script, train.yaml, status/, log, metrics.jsonl, secrets.env
                                        bundle and code are links to the array's

The batch script is that of one plan under the array's name, so that it is compared with NeMo-Run's like any other.
`batch.sh` (see `batch.py`) says so, and each task finds its own directory (`jobside/array.py`).
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemo_runspec.backends.base import RenderedFile, Rendering
from nemo_runspec.backends.slurm import batch
from nemo_runspec.backends.slurm.arguments import BATCH_LINES, job_layout, job_script
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.render import render, render_sbatch
from nemo_runspec.digests import digest_of_text
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.programs import PROGRAMS, checks_programs
from nemo_runspec.script.render import job_file, render_job_script

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
        return tuple(
            dataclasses.replace(file, text=self._batch_text) if file.name == BATCH_LINES else file
            for file in render(self.plan).files
            if file.name != job_script(self.plan)
        )

    @property
    def _batch_text(self) -> str:
        return batch.batch_text(self.plan, members=True, ends_all=self.ends_all)

    @property
    def shared_texts(self) -> dict[str, str]:
        """What lies in the array's own directory, beside our programs: path → text."""
        return {file.name: file.text for file in self.shared}

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
        return (script, *batch.version_files(plan))

    def _layout(self, task: int) -> JobLayout:
        return JobLayout(f"{job_layout(self.plan).root}/{folder_of(task)}")


def make_array(name: str, plans: Sequence[Plan], *, parallel: int | None = None, ends_all: bool = False) -> Array:
    """The array of plans of one shape, see `shape_of`.

    Args:
        name: unique, as a job's is. `parallel`: how many tasks may run at a time; None for as many as there is room.
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


def shape_of(plan: Plan) -> str | None:
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
    own = [file.text for file in batch.batch_files(bare)]
    text = json.dumps([render_sbatch(bare), own, contents, mounts, target.tunnel], default=str)
    return digest_of_text(text)
