"""A client that finds what macOS has and no more, as far as Linux can show that: a `sitecustomize.py` for a process.

Names that Python has on Linux alone are gone, so is `/proc`, the system calls itself Darwin, and of the programs that
macOS has in another kind only what both kinds understand goes through.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

NOT_THERE: Mapping[str, str] = {
    "select": "epoll EPOLLIN EPOLLOUT EPOLLERR EPOLLHUP EPOLLET EPOLLONESHOT EPOLL_CLOEXEC POLLRDHUP",
    "os": (
        "sched_getaffinity sched_setaffinity sched_setscheduler posix_fallocate posix_fadvise pidfd_open eventfd "
        "memfd_create splice copy_file_range getrandom unshare setns getxattr setxattr listxattr removexattr waitid "
        "P_ALL P_PID WNOWAIT WEXITED pipe2 O_TMPFILE O_PATH O_DIRECT O_NOATIME O_LARGEFILE O_RSYNC POSIX_FADV_DONTNEED "
        "getresuid getresgid setresuid setresgid fdatasync RTLD_DEEPBIND GRND_NONBLOCK EFD_CLOEXEC"
    ),
    "signal": (
        "sigtimedwait sigwaitinfo pidfd_send_signal SIGPWR SIGSTKFLT SIGPOLL SIGCLD SIGRTMIN SIGRTMAX struct_siginfo"
    ),
    "fcntl": "F_SETPIPE_SZ F_GETPIPE_SZ F_OFD_SETLK F_OFD_GETLK F_OFD_SETLKW F_ADD_SEALS F_NOTIFY F_SETSIG F_SETLEASE",
    "socket": (
        "SO_PEERCRED SO_BINDTODEVICE SO_MARK SO_DOMAIN SO_PROTOCOL AF_NETLINK AF_PACKET AF_ALG TCP_USER_TIMEOUT "
        "TCP_QUICKACK TCP_CORK TCP_DEFER_ACCEPT SOCK_CLOEXEC SOCK_NONBLOCK MSG_NOSIGNAL MSG_CMSG_CLOEXEC"
    ),
    "resource": "prlimit RUSAGE_THREAD RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_SIGPENDING RLIMIT_MSGQUEUE",
    "time": "CLOCK_BOOTTIME CLOCK_TAI CLOCK_MONOTONIC_COARSE",
    "errno": "EREMOTEIO ECHRNG EBADE EBADR ENONET ECOMM ENOTUNIQ EBADFD EREMCHG ELIBACC ERESTART ENOMEDIUM ENOKEY",
}  # fmt: skip
"""Of each module the names that it has on Linux and not on macOS: the availability notes of Python's documentation, and
`errno.h`. Python before 3.13 has no `waitid` there."""

SITE = """\
import importlib

for module, names in {names!r}.items():  # select before what imports it
    here = vars(importlib.import_module(module))
    for name in names.split():
        here.pop(name, None)

import builtins, errno, io, os, platform, sys, types


def without_proc(call):
    def called(path, *more, **given):
        if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(("/proc", "/sys/")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return call(path, *more, **given)
    return called


for module, names in ((os, "stat lstat open listdir scandir readlink access"), (io, "open"), (builtins, "open")):
    for name in names.split():
        setattr(module, name, without_proc(getattr(module, name)))
host = os.uname().nodename
os.uname = lambda: os.uname_result(("Darwin", host, "24.6.0", "Darwin Kernel Version 24.6.0", "arm64"))
platform.system = lambda: "Darwin"
platform.machine = lambda: "arm64"
sys.platform = "darwin"
sys.modules["_scproxy"] = proxies = types.ModuleType("_scproxy")
proxies._get_proxy_settings = proxies._get_proxies = dict
"""

_PROGRAMS = {
    "sysctl": 'test "$*" = "-n kern.bootsessionuuid" && echo 6F0A7B0B-3B3C-4F0E-9B43-0C3E0E4F6D11',
    **dict.fromkeys(
        ("timeout", "flock", "setsid", "nproc", "getent", "sha256sum", "realpath", "ip", "free"),
        'echo "$0: command not found" >&2; exit 127',
    ),
}


def client_variables(folder: Path) -> dict[str, str]:
    """Makes such a client below `folder`; the variables by which a process becomes one.

    `sysctl` answers as there, and GNU's own options of others are refused.
    """
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "sitecustomize.py").write_text(SITE.format(names=dict(NOT_THERE)), encoding="utf-8")
    programs = folder / "bin"
    programs.mkdir()
    for name, text in _PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    return {"PYTHONPATH": str(folder / "site"), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
