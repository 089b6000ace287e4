"""The keeper of one node's Ray: node 0's starts the head, awaits the others and runs the command; the others serve it.

It is what a node's command is under `launch = "ray"` (`supervisor.py ray`): the supervisor above it passes signals on
and watches the other nodes. The nodes tell each other by files (`barriers`): `ray.head`, how the head is
reached; `ray.here.N`, which machine a node is; `ray.driver`, how the command has ended, and with it all of Ray;
`ray.end.N`, how this part has ended, for the supervisor.
"""

import os
import time

from nemo_runspec.jobside import ray_versions, signals, values
from nemo_runspec.jobside.barriers import Barriers, Failure
from nemo_runspec.jobside.rank import hidden_values
from nemo_runspec.jobside.ray_driver import Driver
from nemo_runspec.jobside.ray_home import TOKEN
from nemo_runspec.jobside.ray_node import RayNode, on_path
from nemo_runspec.jobside.ray_report import tell_end
from nemo_runspec.jobside.ray_watch import HERE, RayWatch
from nemo_runspec.jobside.shell import OUTPUT
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Dict, List, Optional

    from nemo_runspec.jobside.job import JobTask

HEAD, DRIVER, END = "ray.head", "ray.driver", "ray.end"
_RUNTIME = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""What `ray.init()` reads a runtime_env from (Ray 2.60), and adds its own to."""
_PYTHONS = ("python", "python3")
"""What a command is run by that is one Python's; of others, such as `uv run`, nobody knows which they take."""
_TICK = 0.5
_LOOK = 2.0
_GRACE = 30.0
"""Seconds that a command has after TERM, where its cluster has lost a node."""
_HEAD = 600.0
"""Seconds that the head has at least: how long a node waits for others is no measure for how long itself takes."""
_ASKED = 60.0
"""Seconds that the command's Python has to say which Ray it has; one that takes longer is left to Ray."""
_LAST_LOOK = 5.0
"""Seconds in which Ray may still say why a command that has just failed did so."""


def keep(job: "JobTask", script: str) -> int:
    """Keeps this node's Ray until the job's command has ended; its exit code, or never where a signal ended that."""
    keeper = Keeper(job, script)
    driver: "Optional[Driver]" = None
    try:
        code = keeper.run()
        driver = keeper.driver
    except Failure as failure:
        code = failure.exit_code
        keeper.note_end(failure)
    finally:
        keeper.end()
    if driver is not None and driver.signal:
        signals.end_by(driver.signal)
    return code


class Keeper:
    """One node's part of the cluster. `script`: the job script, for the command."""

    def __init__(self, job: "JobTask", script: str) -> None:
        self.job = job
        self.script = script
        self.barriers = Barriers(job.barriers, job.task, job.tasks, 0)
        self.driver: "Optional[Driver]" = None
        self.stopped = False
        self._parent = os.getppid()
        self._token = ""
        self._early: "List[int]" = []
        self._node: "Optional[RayNode]" = None

    def run(self) -> int:
        """The exit code of this node's part. Raises `Failure`."""
        os.set_inheritable(OUTPUT, False)  # of the command alone
        node = self._node = RayNode(self.job)
        self._tell(HERE, {"host": os.uname().nodename})
        if self.job.node == 0:
            self._write_token(node, os.urandom(32).hex())
            return self._lead(node)
        return self._serve(node)

    def _lead(self, node: RayNode) -> int:
        """Node 0."""
        node.prepare()
        until = self._limit(_HEAD)
        while node.starts():
            self._pause(until, "Ray's head did not start on node 0")
        head = {key: node.said[key] for key in ("address", "python", "ray")}
        head.update({"token": self._token, "dashboard": node.dashboard})
        self._tell(HEAD, head)
        watch = RayWatch(self.job, node, self.barriers.folder)
        until = self._limit()
        while watch.missing():
            self._pause(until, watch.missing_words())
        del head["token"]
        self._tell(HEAD, head)
        say("Ray %s: %s" % (head["ray"], watch.summary()))
        environment = node.environment()
        self._heed_versions(node, environment)
        environment["RAY_ADDRESS"] = head["address"]
        if self.job.ray.get("runtime_env"):
            environment[_RUNTIME] = values.write({"runtime_env": self.job.ray["runtime_env"]})
        self.driver = Driver(self.script, environment)
        for number in self._early:
            self.driver.tell(number)
        return self._follow(node, watch, self.driver)

    def _follow(self, node: RayNode, watch: RayWatch, driver: Driver) -> int:
        """Watches the cluster until the command has ended. Raises `Failure` where it has lost what it may not lose."""
        lost = ""
        while not driver.has_ended():
            found = signals.wait(driver.pause(_LOOK))
            if found is not None:
                self.stopped |= found.stops
                driver.tell(found.number)
            driver.go_on()
            self._heed_parent()
            if not self.stopped and not lost:
                lost = watch.loss()
                if lost:
                    driver.end_within(_GRACE)
        self.barriers.folder.note(DRIVER, '{"exit_code": %d}\n' % driver.exit_code)
        if driver.exit_code and not self.stopped and not lost:
            lost = watch.loss_soon(_LAST_LOOK)
        if lost:
            code = driver.exit_code if not driver.was_ended else 1
            raise Failure(lost, code or 1, "ray_node", watch.lost_node)
        return driver.exit_code

    def _serve(self, node: RayNode) -> int:
        """Any other node: until the command has ended on node 0."""
        node.prepare()
        head: "Dict[str, object]" = {}
        until = self._limit(2 * _HEAD)  # node 0 gives up before
        while not head or not node.said:
            self._pause(until, "node %d saw no head of Ray" % self.job.node)
            node.starts()
            head = self.barriers.folder.read(HEAD)
        self.same_version(node, head)
        self._write_token(node, str(head["token"]))
        node.join(str(head["address"]))
        while node.starts():
            self._pause(until, "node %d did not join Ray's head" % self.job.node)
        tolerated = False
        while True:
            ended = self.barriers.folder.read(DRIVER)
            if ended:
                return int(ended.get("exit_code", 1))
            self._pause(None, "")
            if node.is_lost() and not self.stopped and not tolerated:
                why = "Ray ended on node %d (%s)" % (self.job.node, os.uname().nodename)
                if not self.job.ray.get("tolerate"):
                    raise Failure(why, 1, "ray_node")
                say(why + "; the job goes on, as ray_tolerate_lost says")
                tolerated = True

    def same_version(self, node: RayNode, head: "Dict[str, object]") -> None:
        """Raises `Failure` for a node whose Ray, or whose Python, is not the head's."""
        if not ray_versions.are_same(node.said, head):
            words = (self.job.node, ray_versions.in_words(node.said), ray_versions.in_words(head))
            raise Failure("Ray: node %d has %s, and node 0 has %s" % words, 1, "ray")

    def _heed_versions(self, node: RayNode, environment: "Dict[str, str]") -> None:
        """Raises `Failure` where the command's Python is known and has another Ray than the cluster."""
        if not ray_versions.has_tokens(str(node.said["ray"])) and environment["RAY_AUTH_MODE"] == "token":
            say("Ray %s knows no tokens: whoever reaches its ports may use it (Ray 2.52 does)" % node.said["ray"])
        by = str(self.job.ray.get("by") or _PYTHONS[0])
        python = on_path(by) if by in _PYTHONS else ""
        if python in ("", node.python):
            return
        asked = ray_versions.RayQuery(python, self.job.root + "/supervisor.py", environment)
        until = time.monotonic() + _ASKED
        while not asked.has_ended() and time.monotonic() < until:
            self._pause(None, "")
        asked.end()
        if asked.said.get("ray") and not ray_versions.are_same(asked.said, node.said):
            words = (python, ray_versions.in_words(asked.said), node.python, ray_versions.in_words(node.said))
            raise Failure("Ray: the command's %s has %s, and the cluster's %s has %s" % words, 1, "ray")

    def _tell(self, name: str, record: "Dict[str, object]") -> None:
        """Tells the other nodes. Raises `Failure`."""
        try:
            self.barriers.folder.write(name if name == HEAD else "%s.%d" % (name, self.job.node), record)
        except OSError as error:
            raise Failure("the job's directory cannot be written: %s" % (error.strerror or error)) from None

    def _write_token(self, node: RayNode, token: str) -> None:
        self._token = token
        node.home.put(TOKEN, token)

    def _pause(self, until: "Optional[float]", why: str) -> None:
        """Waits a moment. Raises `Failure` for a time that is up, a stop before the command, another's failure."""
        found = signals.wait(_TICK)
        if found is not None and not found.stops:
            self._early.append(found.number)
        elif found is not None:
            self.stopped = True
            if self.job.node == 0:
                raise Failure("the job was told to stop (SIG%s)" % found.name, signals.exit_code(found.number))
        self._heed_parent()
        self.barriers.heed_failures()
        if until is not None and time.monotonic() >= until:
            raise Failure("%s in time (ray_start_timeout = %ds)" % (why, self.job.ray["timeout"]), 1, "ray_node")

    def _limit(self, least: float = 0.0) -> float:
        return time.monotonic() + max(least, float(self.job.ray["timeout"]))

    def _heed_parent(self) -> None:
        if os.getppid() != self._parent:
            if self.driver is not None:
                self.driver.end_now()
            raise Failure("the node's supervisor is gone")

    def note_end(self, failure: Failure) -> None:
        """How this part has ended, where it was not the command's doing, for the supervisor."""
        record = {"reason": failure.reason, "code": failure.code, "exit_code": failure.exit_code}
        record.update({} if failure.blames is None else {"blames": failure.blames})
        try:
            self.barriers.folder.write("%s.%d" % (END, self.job.task), record)
        except OSError:
            say(failure.reason)

    def end(self) -> None:
        """Ends Ray on this node and keeps its logs."""
        if self._node is not None:
            hidden = hidden_values(self.job.hidden, dict(os.environ))
            self._node.end("%s/logs/ray/node-%d" % (self.job.root, self.job.node), hidden)
            if self.job.node == 0:
                tell_end(self.job.root)
