"""How many processes of this control group the kernel has killed for want of memory."""

MYPY = False
if MYPY:
    from typing import Iterator


def oom_kills() -> int:
    """As the first control group says that has the figure (version 1 or 2), 0 where none has."""
    for file in _files():
        try:
            with open(file) as lines:
                for line in lines:
                    key, _, count = line.partition(" ")
                    if key == "oom_kill":
                        return int(count)
        except (OSError, ValueError):
            continue
    return 0


def _files() -> "Iterator[str]":
    first = second = ""
    try:
        with open("/proc/self/cgroup") as lines:
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
