"""Tells a process from another one with the same id, before it, elsewhere, or in another container."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from nemo_runspec.digests import short_digest

_MARK = re.compile(r"([0-9a-f]{8})-([0-9]{1,10})-([0-9a-f]{8})(?:-|$)", re.ASCII)


def machine() -> str:
    """What a process id is valid in: host, boot and process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return _boot_session() or os.uname().nodename


def started(pid: int) -> str | None:
    """When a process started, as the system says it (clock ticks since boot, or `ps`'s text); None: there is none."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in ("Z", "X") else fields[19]
    state, _, began = _said("ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)).partition(" ")
    return None if state.startswith("Z") else began.strip() or None


@cache
def _boot_session() -> str:
    """What macOS calls this boot, '' elsewhere. A laptop's name is another one in each network."""
    return _said("sysctl", "-n", "kern.bootsessionuuid")


def _said(*words: str) -> str:
    """What a program of the system says, the same in any language and time zone; '' where it fails."""
    given = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/bin:/bin:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(
            words, env={**given, "LC_ALL": "C", "TZ": "UTC"}, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def hide_command_line(words: Sequence[str], values: Iterable[str] = ()) -> None:
    """Where secrets stand on this process's command line, the list of processes shows it without them from now on.

    Everybody on a machine may read `/proc/PID/cmdline`. What importing setproctitle costs, some milliseconds, only a
    command line with secrets pays.

    Args:
        words: the command line.
        values: secrets that it may hold under other names.
    """
    from nemo_runspec.redact import redact_argv

    shown = redact_argv(words, values)
    if shown != list(words):
        import shlex

        from setproctitle import setproctitle

        setproctitle(shlex.join(shown))


def mark() -> str:
    """This process, as a part of a file name: `MACHINE-PID-START`; an id is of one machine, and of one time."""
    return f"{short_digest(machine())}-{os.getpid()}-{short_digest(started(os.getpid()) or '')}"


def is_left_over(name: str) -> bool | None:
    """True if the process whose mark a name begins with is gone. None where that is not known: of another machine."""
    found = _MARK.match(name)
    if found is None or found[1] != short_digest(machine()):
        return None
    return short_digest(started(int(found[2])) or "") != found[3]


def user_name() -> str:
    """Whose process this is: a name, or the number of a user without one."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
