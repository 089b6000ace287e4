"""What the lab's server keeps: who may ask, the workspace, its jobs, and where replicas are placed."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labs.lepton.container import directory
from labs.lepton.job import Attempt, Job, suffix
from labs.lepton.life import Life
from labs.lepton.rules import groups_of
from labs.lepton.scenario import Ordered, Scenario, Timings, ordered
from labs.lepton.world import Group, Node, World
from labs.pods import Pods
from labs.web import HttpError, Request, WebLab

WORKSPACE = "ws-lab"
MODES = ("alive_only", "archive_only", "alive_and_archive")


class LeptonBase(WebLab):
    """The state. `world`, `timings`, `hosts`, `private` and the other attributes are for tests to change."""

    prefix = f"/api/v2/workspaces/{WORKSPACE}"

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder = folder
        self.workspace = WORKSPACE
        self.pods = Pods(folder / "pods")
        self.lives: list[Life] = []
        self._places = threading.Lock()
        self._renew()
        super().__init__(port)

    def _renew(self) -> None:
        self.token = f"lab-{secrets.token_hex(12)}"
        self.other_token = f"other-{secrets.token_hex(12)}"
        """The token of another workspace: 403."""
        self.expired: set[str] = set()
        self.world = World(self.folder)
        self.timings = Timings()
        self.scenarios: list[Ordered] = []
        self.hosts = "worker"
        """Which form of host names resolves: `worker`, `service` or `none`."""
        self.private: dict[str, str] = {}
        """Beginning of private images → the password that an image pull secret must have."""
        self.log_resolution_ns = 1
        """What the log's times are rounded down to: larger, and several lines have the same."""

    @property
    def url(self) -> str:
        """The base of all paths, as `LEPTON_WORKSPACE_URL` has it."""
        return self.origin + self.prefix

    @property
    def jobs(self) -> list[Job]:
        """All jobs there were since the last reset, the oldest first; the deleted ones too."""
        return [life.job for life in list(self.lives)]

    @property
    def volumes(self) -> Mapping[str, Path]:
        """Volume → the directory of this machine that is its `/`."""
        return {name: self.world.directory(name) for name in self.world.volumes}

    @property
    def running(self) -> list[str]:
        """The replicas that have processes."""
        return [pod.name for pod in self.pods.running]

    def environment(self) -> dict[str, str]:
        """The variables that lead clients here."""
        return {
            "LEPTON_WORKSPACE_ID": self.workspace,
            "LEPTON_WORKSPACE_TOKEN": self.token,
            "LEPTON_WORKSPACE_URL": self.url,
        }

    def scenario(self, prefix: str | None = None, kind: str = "ok", **settings: Any) -> Ordered:
        """What happens to the next start of a job whose name begins so (None: of any job); see `labs.lepton.scenario`.

        Args:
            settings: fields of `Scenario`; and `times`: for how many starts, by default 1, None for all.
        """
        made = ordered(prefix, kind, settings)
        self.scenarios.append(made)
        return made

    def diagnose(self) -> str:
        """What happened, for a person: calls, jobs, their output."""
        calls = [str(call) for call in self.calls[-60:]]
        return "\n".join([*calls, *map(_told, self.jobs)])

    def expire_token(self) -> None:
        """The token is refused from now on."""
        self.expired.add(self.token)

    def renew_token(self) -> str:
        """A new token, which `environment()` has from now on; the old one is refused."""
        self.expire_token()
        self.token = f"lab-{secrets.token_hex(12)}"
        return self.token

    def reset(self) -> None:
        """As new: no job, no process, no scenario, no fault, empty volumes. Returns when nothing is left."""
        with self.quiet():
            self._end_jobs()
            for kept in ("volumes", "node-local", "pods"):
                shutil.rmtree(self.folder / kept, ignore_errors=True)
            self._renew()
            super().reset()

    def close(self) -> None:
        """Stops listening and ends everything; what is on the volumes stays."""
        super().close()
        self._end_jobs()

    def _end_jobs(self) -> None:
        for life in self.lives:
            life.ask("delete")
        self.pods.close()
        for life in self.lives:
            life.join()
        # A job may have started one more between the two.
        self.pods.close()
        self.lives.clear()

    def admit(self, request: Request) -> None:
        """Auth first: no or a bad token 401, another workspace's 403, then an unknown workspace 404."""
        word, _, token = request.headers.get("Authorization", "").partition(" ")
        if word != "Bearer" or token in self.expired or token not in (self.token, self.other_token):
            raise HttpError(401, "token expired" if token in self.expired else "invalid or missing token")
        if token == self.other_token:
            raise HttpError(403, "the token is not one of this workspace")
        if request.path.startswith("/api/v2/workspaces/") and not f"{request.path}/".startswith(f"{self.prefix}/"):
            raise HttpError(404, "workspace not found")

    def scenario_for(self, job: Job) -> Scenario:
        """The scenario of a job's next start, used up by it."""
        with self._places:
            found = next((each.scenario for each in self.scenarios if each.takes(job.name)), Scenario())
        if found.bad_node == "*":
            found = replace(found, bad_node=self._candidates(job.spec)[0][0].id)
        return found

    def add(self, body: dict[str, Any], name: str) -> Job:
        """A new job, started."""
        job = Job(f"{name}-{suffix(4)}", name, body)
        life = Life(self, job)
        self.lives.append(life)
        life.start()
        return job

    def life_of(self, job: Job) -> Life:
        """What drives a job."""
        return next(life for life in self.lives if life.job is job)

    def place(self, job: Job, attempt: Attempt, gpus: int) -> bool:
        """Gives every replica a node, the emptiest first; False, and none has one, where there is not enough room."""
        allowed = job.spec.get("affinity", {}).get("allowed_nodes_in_node_group")
        with self._places:
            nodes = [pair for pair in self._candidates(job.spec) if not allowed or pair[0].id in allowed]
            free = {node.id: node.gpus - node.taken - self._used(node.id) for node, _ in nodes}
            groups = {node.id: group.id for node, group in nodes}
            chosen: list[str] = []
            for _ in attempt.replicas:
                fitting = [id for id in free if free[id] >= gpus]
                if not fitting:
                    return False
                best = max(fitting, key=lambda id: (id == attempt.scenario.bad_node, -chosen.count(id), free[id]))
                free[best] -= gpus
                chosen.append(best)
            for each, id in zip(attempt.replicas, chosen, strict=True):
                each.group, each.node = groups[id], id
        return True

    def workloads(self, node: str) -> list[dict[str, Any]]:
        """What the jobs have on a node."""
        found = []
        for job in self.jobs:
            shape = self.world.shape(job.spec["resource_shape"])
            for each in job.latest.replicas if job.latest and not job.latest.state else []:
                if each.node == node and not each.gone and each.code is None:
                    row = {"type": "job", "name": job.name, "id": job.id, "replica_id": each.id}
                    gpus = float(shape.accelerator_num if shape else 0)
                    found.append({**row, "workspace": self.workspace, "gpu_count": gpus})
        return found

    def may_pull(self, spec: Mapping[str, Any]) -> bool:
        """Whether the job's image is public, or one of its image pull secrets opens it."""
        image = spec["container"]["image"]
        wanted = [password for prefix, password in self.private.items() if image.startswith(prefix)]
        given = {self.world.registries.get(name, {}).get("password") for name in spec.get("image_pull_secrets", [])}
        return not wanted or wanted[0] in given

    def mounts_there(self, spec: Mapping[str, Any]) -> bool:
        """Whether all that is to be mounted is there, or is made."""
        volumes = [(self.world.sources[mount["from"]], directory(self, mount)) for mount in spec.get("mounts", [])]
        return all(volume is None or volume.mkdir or path.is_dir() for volume, path in volumes)

    def _used(self, node: str) -> int:
        return sum(int(workload["gpu_count"]) for workload in self.workloads(node))

    def _candidates(self, spec: Mapping[str, Any]) -> list[tuple[Node, Group]]:
        shape = self.world.shape(spec["resource_shape"])
        offering = [group for group in self.world.groups if shape and group.id in shape.groups]
        groups = groups_of(spec, self.world) or offering
        return [(node, group) for group in groups for node in group.nodes if node.ready]


def _told(job: Job) -> str:
    codes = [(replica.id, replica.code) for replica in job.replicas]
    return f"{job.id}: {job.state} {codes}\n{job.text[-2000:]}"
