"""Ray on one node: with which Python, words and variables it is started, and what its observer says."""

import _thread
import os

from nemo_runspec.jobside import processes, values
from nemo_runspec.jobside.address import free_ports, is_free
from nemo_runspec.jobside.barriers import Failure
from nemo_runspec.jobside.ray_home import TOKEN, RayHome
from nemo_runspec.jobside.ray_observer import DASHBOARD
from nemo_runspec.jobside.ray_processes import MARK, RayProcesses, Warden
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Optional

    from nemo_runspec.jobside.job import JobTask

_SAID = 3
_LAST = 3
_WORDS = 400
"""Lines of Ray's own that a failure to start is told with."""
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_COLOR_PREFIX": "0"}
_AGENTS = ("metrics-export", "dashboard-agent-listen", "dashboard-agent-grpc", "runtime-env-agent")
_PORT_FILE = "dashboard_agent_listen_port"
_SLOW_MS = 600000
_SLOW = ("RAY_raylet_start_wait_time_s", "RAY_DASHBOARD_STARTUP_TIMEOUT_S", "RAY_gcs_server_port_wait_time_s")
"""Limits of Ray's own for its start, in seconds: on a crowded machine they are over too soon."""
_TRIES = 2
_QUOTA = "/sys/fs/cgroup/cpu.max"


class RayNode:
    """Ray on this node. Nothing of it has been started yet.

    Args:
        job: this task of the job; its `ray` is what the plan says (`plans.model.RayCluster`).
    """

    def __init__(self, job: "JobTask") -> None:
        self.job = job
        self.name = name_of(job.node)
        self.python = python_of(str(job.ray.get("venv") or ""))
        self.dashboard = dashboard_port(job)
        if job.node == 0:
            _heed_ports({"ray_port": int(job.ray.get("port") or 0), "ray_dashboard_port": self.dashboard})
        self.home = RayHome()
        self.ray = RayProcesses("%s-%s-%d-%s" % (job.name, job.attempt, job.node, os.urandom(4).hex()))
        self.warden = Warden(self.ray, self.home.path)
        self.said: "Dict[str, Any]" = {}
        self.observer: "Optional[processes.Child]" = None
        self._servers: "List[int]" = []
        self._told = -1
        self._tries = 0
        self._listens = 0
        self._address = ""

    def environment(self) -> "Dict[str, str]":
        """The variables of Ray, and of the command, which is among what ends with it."""
        found = dict(os.environ)
        found.update({MARK: self.ray.mark, **_QUIET})
        found.setdefault("RAY_AUTH_MODE", "token")
        found["RAY_AUTH_TOKEN_PATH"] = self.home.file(TOKEN)
        found.setdefault("RAY_agent_register_timeout_ms", str(_SLOW_MS))
        for name in _SLOW:
            found.setdefault(name, str(_SLOW_MS // 1000))
        # The interface that collectives use: right on whole nodes of 8 GPUs alone, unless somebody has said so here.
        if self.job.gpus_per_node != 8 and not self.job.ray.get("own_interface"):
            found.pop("NCCL_SOCKET_IFNAME", None)
        return found

    def prepare(self) -> None:
        """Starts the observer, which loads Ray; a worker's waits for the head's address. Raises `Failure`."""
        self._tries += 1
        told = {"head": self.job.node == 0, "words": self._words(), "folder": self.home.ray, "count": self.job.nodes}
        if self.job.node == 0:
            told["report"] = self._facts()
            told["may_lack"] = [DASHBOARD] if self.job.ray.get("dashboard") is None else []
        program = self.job.root + "/supervisor.py"
        source, self._told = os.pipe()
        mine, out = os.pipe()
        log = os.open(self.home.file("start.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        words = [self.python, program, "ray-node", "-", values.write(told)]
        try:
            fds = {0: source, 1: log, 2: log, _SAID: out}
            self.observer = processes.start(words, self.environment(), fds, session=True)
        except OSError as error:
            raise Failure("Ray: %s cannot be started: %s" % (self.python, error.strerror), 1, "ray") from None
        finally:
            for number in (source, out, log):
                os.close(number)
        self._servers = []
        self.ray.session = self.observer.pid
        self.warden.tell_session(self.observer.pid)
        _thread.start_new_thread(self._listen, (mine,))

    def join(self, address: str) -> None:
        """Has a worker join the head at this address."""
        self._address = address
        try:
            os.write(self._told, (address + "\n").encode())
        except OSError:
            return  # it has ended, which is seen

    def starts(self) -> bool:
        """True if Ray does not run here yet. Raises `Failure` where it could not be started."""
        if self.said.get("ray") == "":
            other = "" if self.job.ray.get("venv") else beside_ray()
            if other in ("", self.python):
                raise Failure("Ray: %s on node %d has no Ray" % (self.python, self.job.node), 1, "ray")
            self.python, self.said, self._tries = other, {}, 0
            self.ray.end()
            self.prepare()
            return True
        if "address" in self.said:
            if DASHBOARD in self.said.get("lacks", ()):
                self.dashboard = 0
            self._servers = self.ray.servers()
            return False
        if self._has_failed() and "address" not in self.said:
            if self._tries >= _TRIES:
                raise Failure("Ray could not be started on node %d: %s" % (self.job.node, self._why()), 1, "ray")
            say("Ray did not start on node %d, and is started once more: %s" % (self.job.node, self._why()))
            self.ray.end()
            self.prepare()
            if self._address:
                self.join(self._address)
        return True

    def _has_failed(self) -> bool:
        """True if what starts Ray has ended, or one of the servers that it waits for."""
        if self.observer is None or (self.observer.has_ended() and self.observer.exit_code):
            return True
        if self.is_lost():
            return True
        self._servers = self.ray.servers()
        self._tell_port()
        return False

    def _tell_port(self) -> None:
        """Writes down where the raylet's agent will listen, as the agent does once it is there.

        Of the agents' ports a raylet is told all but this one, and awaits the file.
        """
        for pid in self._servers:
            pairs = (word.lstrip("-").partition("=") for word in processes.words_of(pid))
            told = {name.replace("-", "_"): value for name, _, value in pairs}
            path = "%s/%s_%s" % (told.get("session_dir"), _PORT_FILE, told.get("node_id"))
            if told.get("session_dir") and told.get("node_id") and not os.path.exists(path):
                with open(path + ".new", "w") as stream:
                    stream.write(str(self._listens))
                os.replace(path + ".new", path)

    def _why(self) -> str:
        said = self.home.first_line("raylet.err") or "; ".join(self.home.last_lines("start.log", _LAST))
        return said[-_WORDS:] or "it says nothing"

    def is_lost(self) -> bool:
        """True if Ray has ended on this node, once it had started."""
        return any(not _lives(pid) for pid in self._servers)

    def end(self, logs: str, hidden: "List[bytes]") -> None:
        """Ends all of it, keeps its logs in a folder and removes everything else."""
        self.ray.end()
        if self.observer is not None:
            self.observer.has_ended()
        self.home.keep_logs(logs, hidden)
        self.home.remove()

    def _facts(self) -> "Dict[str, Any]":
        """What does not change of what `ray_report` writes down of this cluster."""
        dashboard = {"port": self.dashboard, "token": self.home.file(TOKEN)} if self.dashboard else None
        return {"root": self.job.root, "count": self.job.nodes, "interpreter": self.python, "dashboard": dashboard}

    def _words(self) -> "List[str]":
        """What `ray start` is told: this job's part of the node, and ports that nobody else has."""
        job, told = self.job, self.job.ray
        resources = dict(told.get("resources") or {})
        words = [
            "--node-name=" + self.name,
            "--num-cpus=%d" % (told.get("cpus") or cpus()),
            "--num-gpus=%d" % self._gpus(),
            "--temp-dir=" + self.home.ray,
            "--min-worker-port=0",
            "--max-worker-port=0",
            "--disable-usage-stats",
        ]
        # Nobody waits for an agent whose port is known beforehand. Else a raylet ends itself where one of them is not
        # there within 15 s, as it is on a crowded machine (Ray 2.60; see `_tell_port` for the one that it is not told).
        dashboard, *agents = free_ports(1 + len(_AGENTS))
        words += ["--%s-port=%d" % (name, agents[number]) for number, name in enumerate(_AGENTS)]
        self._listens = agents[_AGENTS.index("dashboard-agent-listen")]
        own = (os.environ.get("NEMOTRON_NODE_IPS") or "").split("\n")
        if job.nodes > 1 and job.node < len(own) and own[job.node].replace(".", "").isdigit():
            words.append("--node-ip-address=" + own[job.node])
        if job.node == 0:
            words += ["--head", "--port=%d" % int(told.get("port") or 0), "--dashboard-host=127.0.0.1"]
            words.append("--include-dashboard=" + ("true" if self.dashboard else "false"))
            words.append("--dashboard-port=%d" % (self.dashboard or dashboard))
        else:
            resources.update(told.get("worker_resources") or {})
        if resources:
            words.append("--resources=" + values.write(resources))
        return words

    def _gpus(self) -> int:
        """How many Ray shares out: none where somebody has hidden all of them, else it would not start."""
        return 0 if os.environ.get("CUDA_VISIBLE_DEVICES") == "-1" else self.job.gpus_per_node

    def _listen(self, source: int) -> None:
        held = b""
        while True:
            chunk = os.read(source, 65536)
            if not chunk:
                break
            *lines, held = (held + chunk).split(b"\n")
            for line in lines:
                self.said.update(values.read(line.decode("ascii")))
            processes.wake()
        os.close(source)
        processes.wake()


def name_of(node: int) -> str:
    """A node as Ray names it."""
    return "node-%d" % node


def python_of(venv: str) -> str:
    """The Python that has Ray: in a virtual environment, or its folder of programs; else the one on `PATH`.

    Raises:
        Failure: there is none.
    """
    folders = [venv, venv + "/bin"] if venv else (os.environ.get("PATH") or os.defpath).split(":")
    names = ("python", "python3")
    for path in (folder + "/" + name for folder in folders for name in names):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise Failure("Ray: there is no python in %s" % (venv or "PATH"), 1, "ray")


def on_path(name: str) -> str:
    """The path of a program on `PATH`, '' for none."""
    folders = (os.environ.get("PATH") or os.defpath).split(":") if name else []
    found = (folder + "/" + name for folder in folders)
    return next((path for path in found if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def beside_ray() -> str:
    """The Python beside the first `ray` on `PATH`: an image's own, where the command's has none. '' for none."""
    for folder in (os.environ.get("PATH") or os.defpath).split(":"):
        if os.access(folder + "/ray", os.X_OK):
            return folder + "/python" if os.access(folder + "/python", os.X_OK) else ""
    return ""


def dashboard_port(job: "JobTask") -> int:
    """Where the dashboard listens on node 0's loopback; 0 for none: by default, a job of one node has none."""
    asked = job.ray.get("dashboard")
    return (free_ports(1)[0] if job.nodes > 1 else 0) if asked is None else int(asked)


def _heed_ports(ports: "Dict[str, int]") -> None:
    """Raises `Failure` for one where somebody listens already, such as another job's Ray."""
    for key, port in ports.items():
        if port and not is_free(port):
            why = "%s = %d is taken on node 0 (%s), perhaps by another job's" % (key, port, os.uname().nodename)
            raise Failure("Ray: %s; without that key it takes a free one" % why, 1, "ray")


def cpus() -> int:
    """CPU cores that this node's part of the job may use, by its affinity and its control group's quota."""
    found = len(os.sched_getaffinity(0))
    try:
        with open(_QUOTA) as source:
            quota, period = source.read().split()
        if quota != "max":
            found = min(found, int(quota) // int(period))
    except (OSError, ValueError):
        pass
    granted = os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE") or ""
    return max(1, min(found, int(granted)) if granted.isdigit() else found)


def _lives(pid: int) -> bool:
    fields = processes.stat_of(pid)
    return bool(fields) and fields is not None and fields[0] not in "ZX"
