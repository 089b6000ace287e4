"""A platform's variables, which may be missing or say something else than was planned."""

from nemo_runspec.jobside.barriers import Failure
from nemo_runspec.jobside.pod.values import is_number

MYPY = False
if MYPY:
    from typing import Sequence

    from nemo_runspec.jobside.pod.pod import PodRun


def need(pod: "PodRun", platform: str, names: "Sequence[str]") -> None:
    """Raises `Failure` where one of these is not set."""
    for name in names:
        if not pod.environment.get(name):
            raise Failure("%s has not set %s: %d nodes cannot find each other" % (platform, name, pod.job.nodes))


def check(pod: "PodRun", index: str, count: str) -> None:
    """This node must be one of those that were planned.

    Args:
        index: the name of the variable that says which node this is.
        count: of that which says how many there are,
            '' for none.

    Raises:
        Failure: it is not.
    """
    given, planned = pod.environment, pod.job.nodes
    number = given[index]
    if not is_number(number):
        raise Failure("%s is no number: %s" % (index, number))
    if count and given[count] != str(planned):
        raise Failure("the platform has started %s pods (%s) for a job of %d nodes" % (given[count], count, planned))
    if int(number) >= planned:
        raise Failure("this is pod %s (%s, from 0) of a job of %d nodes" % (number, index, planned))
