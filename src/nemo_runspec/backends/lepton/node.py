"""Which node a pod is, by Lepton's variables, as its lepton_env_to_pytorch.sh reads them. Runs in the pod.

That script has had two forms of the host names; which one a cluster knows is found out. Nothing is downloaded for it.
"""

import os
import time

from nemo_runspec.jobside.barriers import Failure
from nemo_runspec.jobside.pod.pod import GROUP
from nemo_runspec.jobside.pod.values import PodAddress, seconds
from nemo_runspec.jobside.pod.variables import check, need

MYPY = False
if MYPY:
    from nemo_runspec.jobside.pod.pod import PodRun

INDEX = ("LEPTON_JOB_WORKER_INDEX",)
"""Variables that say which node this is."""

_PORT = "29400"
_NAMES = ("LEPTON_JOB_WORKER_PREFIX", "LEPTON_JOB_SERVICE_PREFIX", "LEPTON_JOB_NAME")
_ASK = "import socket; socket.getaddrinfo(%r, None)"


def place(pod: "PodRun") -> PodAddress:
    """Where this node stands among the others. Raises `Failure`."""
    given, count = pod.environment, pod.job.nodes
    if count == 1:
        return PodAddress()
    need(pod, "Lepton", ("LEPTON_JOB_WORKER_INDEX", "LEPTON_JOB_TOTAL_WORKERS", "LEPTON_SUBDOMAIN"))
    check(pod, "LEPTON_JOB_WORKER_INDEX", "LEPTON_JOB_TOTAL_WORKERS")
    worker, service, name = (given.get(one, "") for one in _NAMES)
    prefixes = [prefix for prefix in (worker, service or name) if prefix]
    if not prefixes:
        raise Failure("Lepton has set none of %s: node 0 has no name" % ", ".join(_NAMES))
    prefix, domain = _resolve(pod, prefixes), given["LEPTON_SUBDOMAIN"]
    names = ["%s-%d.%s" % (prefix, node, domain) for node in range(count)]
    return PodAddress(names[0], _PORT, ",".join(names[1:]))


def _resolve(pod: "PodRun", prefixes: "list[str]") -> str:
    """The first prefix whose node 0 has an address."""
    patience = seconds(pod.environment, "NEMOTRON_RESOLVE_SECONDS", 300)
    until = time.monotonic() + patience
    names = {"%s-0.%s" % (prefix, pod.environment["LEPTON_SUBDOMAIN"]): prefix for prefix in prefixes}
    while True:
        for name, prefix in names.items():
            if _has_address(pod, name):
                return prefix
        if pod.told or time.monotonic() >= until:
            raise Failure("node 0 is not to be found within %d s: no address for %s" % (patience, " ".join(names)))
        pod.pause(1.0)
        pod.heed_failures()


def _has_address(pod: "PodRun", name: str) -> bool:
    """Asked by a program, which ends when the pod is told to stop; getent knows names that Python's libc may not."""
    for program in (["getent", "hosts", name], [pod.python, "-I", "-S", "-c", _ASK % name]):
        nothing = os.open(os.devnull, os.O_WRONLY)
        try:
            return pod.run(program, GROUP, {1: nothing, 2: nothing}) == 0
        except FileNotFoundError:
            continue
    return False
