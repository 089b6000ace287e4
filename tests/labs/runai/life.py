"""A workload from its submission to its end, in a thread: phases that take time, pods that really run."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labs.pods import stop_together
from labs.ports import free_port
from labs.runai import container, scenes
from labs.runai.model import LabPod, Scenario, Workload, pods_of

if TYPE_CHECKING:
    from labs.runai.server import RunaiLab

NODES = tuple(f"gpu-node-{number}" for number in range(1, 9))
GPUS = 8
"""GPUs of each node."""
_POLL = 0.02


@dataclass
class Timing:
    """Seconds that each phase takes, that a failed container waits for its restart, and after which Kubeflow ends what
    still runs when the job is over. On the real platform all of them are longer."""

    pending: float = 0.1
    creating: float = 0.1
    initializing: float = 0.1
    backoff: float = 0.2
    clean: float = 1.0
    grace: float = 10.0
    """For terminationGracePeriodSeconds, which is 30 by default."""


class _Halted(Exception):
    """The workload was suspended or deleted."""


class Life:
    """Takes one workload through its phases."""

    def __init__(self, lab: RunaiLab, workload: Workload) -> None:
        self.lab, self.workload = lab, workload
        self._halt = threading.Event()
        self._struck = False
        workload.over.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def halt(self) -> None:
        """Ends what runs, as `workload.desired` says."""
        self._halt.set()

    def join(self) -> None:
        """Waits until nothing of it is left."""
        self._thread.join(300)
        assert not self._thread.is_alive(), f"{self.workload.name} does not end"

    def _run(self) -> None:
        workload = self.workload
        workload.pods = pods_of(workload)
        try:
            self._start()
            while (success := self._watch()) is None:
                self._end_pods(workload.pods)
                self._remove(workload.pods)
                workload.pods = pods_of(workload)
                self._start()
            self._finish(success)
        except _Halted:
            self._end_pods(workload.pods)
        with self.lab.guard:  # one that is suspended or deleted now is so before this, or after all of it
            if workload.desired != "Running":
                self._remove(workload.pods)
            if workload.desired == "Stopped":
                workload.enter("Stopped")
            workload.over.set()

    # Until it runs

    def _start(self) -> None:
        workload = self.workload
        workload.enter("Pending")
        self._rest("pending")
        self._schedule()
        scenario = self._scenario
        workload.enter("Creating")
        self._rest("creating")
        if scenario.kind == "badnode" and not scenario.get("lost", False):
            scenes.unmountable(workload, str(scenario.get("node", workload.pods[0].node)))
            self._stick()
        workload.enter("Initializing")
        for pod in workload.pods:
            pod.waiting = ("ContainerCreating", "")
            workload.tell("Pulling", f'Pulling image "{pod.image}"', pod)
        self._rest("initializing")
        if scenario.kind == "imagepull":
            scenes.unpullable(workload, scenario, workload.pods)
            self._stick()
        self._launch()
        if scenario.kind != "quickfail":
            workload.enter("Running")

    def _schedule(self) -> None:
        workload, scenario = self.workload, self._scenario
        if scenario.kind == "nocapacity":
            scenes.unschedulable(workload, "0/8 nodes are available: 8 Insufficient nvidia.com/gpu.")
            self._wait(float(scenario.get("seconds", -1)))
            workload.pending_reason = ""
        nodes = [node for node in NODES if _allowed(node, workload.spec)]
        gpus = (workload.spec.get("compute") or {}).get("gpuDevicesRequest") or 0
        if len(workload.pods) > len(nodes) or gpus > GPUS:
            why = f"{len(nodes)}/{len(NODES)} nodes may be used, each with {GPUS} nvidia.com/gpu"
            scenes.unschedulable(workload, f"{why}; requested: {len(workload.pods)} with {gpus}")
            self._stick()
        for pod, node in zip(workload.pods, nodes, strict=False):
            pod.node = node
            workload.tell("Scheduled", f"Successfully assigned {pod.name} to {node}", pod)
        workload.scenario = workload.scenario or self.lab.scenario_for(workload.name, nodes[: len(workload.pods)])

    def _launch(self) -> None:
        port = free_port()  # Kubeflow's is always 23456, but the containers of this lab share one network
        lame = self._scenario.get("lame", None) if self._scenario.kind == "degraded" else None
        for pod in self.workload.pods:
            if pod.index + (pod.role == "worker") == lame:
                scenes.unpullable(self.workload, self._scenario, [pod])
            else:
                self._launch_pod(pod, port)

    def _launch_pod(self, pod: LabPod, port: int) -> None:
        workload = self.workload
        try:
            variables = container.environment(self.lab, workload, pod, port)
            words = container.command(workload, pod, variables)
        except container.Unconfigured as error:
            scenes.unconfigured(workload, pod, str(error))
            self._stick()
        if self._scenario.kind == "quickfail":
            pod.reason = "StartError"
            words = ["/bin/sh", "-c", self._scenario.get("script", f"exit {self._scenario.get('exit_code', 128)}")]
        process = self.lab.pods.start(
            pod.name,
            words,
            variables,
            list(container.mounts(self.lab, workload, pod)),
            [other.name for other in workload.pods if other is not pod],
            workdir=container.spec_of(workload, pod).get("workingDir") or "/",
        )
        pod.previous, pod.waiting, pod.started, pod.finished = pod.process, ("", ""), process.started, None
        pod.process = process
        self._ports = port
        workload.tell("Started", f"Started container {pod.container}", pod)

    # While it runs

    def _watch(self) -> bool | None:
        """Waits for the end; whether it is a success, None when it is to be scheduled anew."""
        pods = self.workload.pods
        while True:
            if self._halt.wait(_POLL):
                raise _Halted
            self._strike()
            for pod in pods:
                if pod.finished is None and pod.exit_code is not None:
                    pod.finished = time.time()
            if pods[0].phase == "Succeeded" and (pods[0].role == "master" or all(p.phase == "Succeeded" for p in pods)):
                return True
            failed = [pod for pod in pods if pod.phase == "Failed"]
            if any(pod.status_reason for pod in failed) and self._scenario.get("again", False):
                return None
            if failed and not self._again(failed):
                return False

    def _strike(self) -> None:
        scenario = self._scenario
        if self._struck or scenario.kind not in scenes.STRIKING:
            return
        pods = self.workload.pods
        text = scenario.get("when", "")
        written = text and any(pod.process and text in pod.process.text for pod in pods)
        started = max(pod.started or 0 for pod in pods)
        if written or (not text and time.time() >= started + float(scenario.get("after", 0.3))):
            self._struck = True
            scenes.strike(self, self.workload, scenario)

    def _again(self, failed: list[LabPod]) -> bool:
        """Runs failed containers once more, where the limit allows; whether all of them are.

        A training is made anew up to backoffLimit times, by default 6; a pod of a distributed training is restarted
        unless its restartPolicy is Never.
        """
        spec = self.workload.spec
        limit = spec.get("backoffLimit")
        most = 6 if limit is None else int(limit)
        if self.workload.kind == "distributed" and spec.get("restartPolicy") == "Never":
            most = 0
        if any(pod.restarts >= most for pod in failed):
            return False
        self._wait(self.lab.timing.backoff)
        for pod in failed:
            pod.restarts += 1
            self.workload.tell("BackOff", "Back-off restarting failed container", pod, kind="Warning")
            self._launch_pod(pod, self._ports)
        return True

    # At its end

    def _finish(self, success: bool) -> None:
        workload = self.workload
        workload.enter("Completed" if success else "Failed")
        policy = workload.spec.get("cleanPodPolicy") or "Running"
        if workload.kind == "distributed" and policy != "None":
            self._wait_for_pods(self.lab.timing.clean)
            running = [pod for pod in workload.pods if pod.phase in ("Running", "Pending")]
            self._end_pods(running)
            self._remove(workload.pods if policy == "All" else running)
        if self._scenario.kind == "vanished":
            self._remove(workload.pods)

    def _end_pods(self, pods: list[LabPod]) -> None:
        grace = self.workload.spec.get("terminationGracePeriodSeconds")
        seconds = self.lab.timing.grace if grace is None else min(float(grace), self.lab.timing.grace)
        processes = [pod.process for pod in pods if pod.process and pod.exit_code is None]
        stop_together(processes, seconds)
        for pod in pods:
            pod.finished = pod.finished or time.time()

    def _remove(self, pods: list[LabPod]) -> None:
        self.workload.removed += pods
        self.workload.pods = [pod for pod in self.workload.pods if pod not in pods]

    # Time

    @property
    def _scenario(self) -> Scenario:
        return self.workload.scenario or Scenario("")

    def _rest(self, phase: str) -> None:
        usual = getattr(self.lab.timing, phase)
        slow = self._scenario.get("seconds", 1.0) if self._scenario.kind == "slow_start" else usual
        self._wait(float(self._scenario.get(phase, slow)))

    def _wait_for_pods(self, seconds: float) -> None:
        """Until all have ended, or so long."""
        end = time.monotonic() + seconds
        while any(pod.phase in ("Running", "Pending") for pod in self.workload.pods) and time.monotonic() < end:
            self._wait(_POLL)

    def _wait(self, seconds: float) -> None:
        if self._halt.wait(None if seconds < 0 else seconds):
            raise _Halted

    def _stick(self) -> None:
        self._wait(-1)


def _allowed(node: str, spec: Mapping[str, Any]) -> bool:
    """Whether the required affinity allows a node, whose labels are its host name and its pool's."""
    terms = (spec.get("nodeAffinityRequired") or {}).get("nodeSelectorTerms") or []
    return not terms or any(all(_holds(node, part) for part in term.get("matchExpressions") or []) for term in terms)


def _holds(node: str, part: Mapping[str, Any]) -> bool:
    have = {"kubernetes.io/hostname": node, "runai/node-pool": "default"}.get(part["key"])
    values = part.get("values") or []
    tests = {
        "In": have in values,
        "NotIn": have not in values,
        "Exists": have is not None,
        "DoesNotExist": have is None,
    }
    return tests.get(part["operator"], False)
