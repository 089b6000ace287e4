"""Counts the processes of a control group that the kernel has killed for want of memory."""

MYPY = False
if MYPY:
    from typing import Iterator, Optional, Union


class OomKills:
    """OOM kills of this process's control group since this object was made."""

    def __init__(self) -> None:
        self._file = _file("self")
        self._before = _count(self._file) or 0

    def follow(self, pid: int) -> None:
        """Counts those of another process's control group from now on, where that is another one."""
        file = _file(pid)
        if file != self._file:
            self._file, self._before = file, _count(file) or 0

    @property
    def any(self) -> bool:
        """True if there were any."""
        return (_count(self._file) or 0) > self._before


def _file(pid: "Union[int, str]") -> str:
    """The first of a process's control groups that has the figure (version 1 or 2), '' where none has."""
    return next((file for file in _files(pid) if _count(file) is not None), "")


def _count(file: str) -> "Optional[int]":
    try:
        with open(file) as lines:
            for line in lines:
                key, _, count = line.partition(" ")
                if key == "oom_kill":
                    return int(count)
    except (OSError, ValueError):
        pass
    return None


def _files(pid: "Union[int, str]") -> "Iterator[str]":
    first = second = ""
    try:
        with open("/proc/%s/cgroup" % pid) as lines:
            for line in lines:
                number, controllers, path = line.rstrip("\n").split(":", 2)
                if number == "0" and not controllers:
                    second = path.rstrip("/")
                elif "memory" in controllers:
                    first = path.rstrip("/")
    except (OSError, ValueError):
        pass
    yield "/sys/fs/cgroup/memory%s/memory.oom_control" % first
    yield "/sys/fs/cgroup/memory/memory.oom_control"
    yield "/sys/fs/cgroup%s/memory.events" % second
    yield "/sys/fs/cgroup/memory.events"
