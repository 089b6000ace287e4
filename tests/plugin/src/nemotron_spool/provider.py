"""The errands: a job's files are put into its directory, and one process for each node is started there."""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nemo_runspec.backends import shared_directory
from nemo_runspec.backends.local.processes import kill_all
from nemo_runspec.backends.provider import Cursors, Handle, LogChunk, Parts, Prepared, Provider, Results, Say
from nemo_runspec.plans.model import Plan
from nemo_runspec.processes import started
from nemo_runspec.records.status import JobFacts, JobStatus
from nemo_runspec.submission.request import Submission

# Whoever makes the folder starts the job: however often this runs, and whoever is killed, that is once.
START = """\
mkdir .started || exit 0
for node in $(seq 0 $(({nodes} - 1))); do
  SPOOL_NODE=$node SPOOL_NODES={nodes} setsid {command} >"logs/node-$node.log" 2>&1 </dev/null &
  echo $! "$(cut -d ' ' -f 22 /proc/$!/stat)" >".started/$node"
done
touch .started/all
"""


class SpoolProvider(Provider):
    """The spool. A job's handle is its directory, and how many nodes it has."""

    def make_handle(self, plan: Plan) -> Handle:
        """As `Provider.make_handle`."""
        outputs = {artifact.name: artifact.path for artifact in plan.produces if artifact.path}
        return {"name": plan.name, "root": plan.job_dir, "nodes": plan.resources.nodes, "outputs": outputs}

    def prepare(self, submission: Submission, parts: Parts, say: Say) -> Prepared:
        """As `Provider.prepare`."""
        from nemotron_spool import render

        plan, rendering = submission.plan, render(submission.plan)
        shared_directory.fill(Path(plan.job_dir), plan, parts, rendering, submission.secrets)
        return Prepared(self.make_handle(plan), rendering, plan, (shlex.join(rendering.command),))

    def submit(self, prepared: Prepared, say: Say) -> Handle:
        """As `Provider.submit`."""
        start = START.format(nodes=prepared.handle["nodes"], command=shlex.join(prepared.rendering.command))
        known = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "USER") if name in os.environ}
        root, quiet = prepared.handle["root"], subprocess.DEVNULL
        subprocess.run(["sh", "-c", start], cwd=root, env=known, start_new_session=True, check=True, stderr=quiet)
        return {**prepared.handle, "id": prepared.handle["name"]}

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> Sequence[JobStatus]:
        """As `Provider.status`."""
        return [self._look(Path(handle["root"]), handle["nodes"]) for handle in handles]

    def _look(self, root: Path, nodes: int) -> JobStatus:
        if not (root / ".started" / "all").exists():
            return JobStatus("unknown", "it was not submitted", gone=not (root / ".started").exists())
        running = [node for node in range(nodes) if self._process(root, node)]  # before the markers, which come first
        stopped = (root / ".stopped").exists()
        found = shared_directory.ended(root, nodes, stopped=stopped)
        if found or running:
            return found or JobStatus("running", facts=JobFacts(id=root.name, nodes=f"{len(running)} of {nodes}"))
        return JobStatus("cancelled" if stopped else "failed", "its processes are gone without a word", exit_code=137)

    def _process(self, root: Path, node: int) -> int | None:
        with suppress(OSError, ValueError):
            pid, began = (root / ".started" / str(node)).read_text().split()
            if started(int(pid)) == began:  # else the number is another's by now
                return int(pid)
        return None

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        """As `Provider.stop`."""
        for handle in handles:
            root = Path(handle["root"])
            (root / ".stopped").write_text(by)
            for pid in filter(None, (self._process(root, node) for node in range(handle["nodes"]))):
                with suppress(ProcessLookupError):
                    kill_all(str(root), pid) if hard else os.kill(pid, signal.SIGTERM)

    def read_log(self, handle: Handle, cursors: Cursors, limit: int, *, platform: bool = False) -> Sequence[LogChunk]:
        """As `Provider.read_log`."""
        return [] if platform else list(shared_directory.log_chunks(Path(handle["root"]), cursors, limit))

    def collect(self, handles: Sequence[Handle], seen: Sequence[JobStatus]) -> Sequence[Results]:
        """As `Provider.collect`."""
        return [shared_directory.results(Path(handle["root"]), handle["outputs"]) for handle in handles]

    def delete_files(self, handle: Handle) -> None:
        """As `Provider.delete_files`."""
        shutil.rmtree(handle["root"], ignore_errors=True)
