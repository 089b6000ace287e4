"""Resolves an address as `ssh -G` does with the user's configuration, without any network."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.lines import text_lines
from nemo_runspec.paths import user_home
from nemo_runspec.transport.master import no_ssh

LOCAL_S = 5.0
"""How long ssh may take for something that needs no network."""

_DECIDES = (
    b"hostname", b"port", b"user", b"hostkeyalias", b"proxyjump", b"proxycommand", b"identityfile", b"identityagent",
    b"certificatefile", b"bindaddress", b"bindinterface", b"addressfamily", b"userknownhostsfile",
    b"globalknownhostsfile",
)  # fmt: skip
"""What decides who is at the other end, and as whom it lets us in. `-G` writes them in small letters (OpenSSH 9.2)."""

_MOST_JUMPS = 8
"""Jump hosts looked up; a circle of them ends here."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What `ssh -G` said.

    Args:
        who: what decides who is at the other end, of the address and of the jump hosts before it; nothing where ssh
            gave no answer.
        control_path: of a connection the user keeps open, by their own `ControlPath`.
    """

    who: tuple[bytes, ...] = ()
    control_path: Path | None = None


def resolve(words: Sequence[str], host: str, config: Path | None = None) -> Resolved:
    """Asks ssh, once more for each jump host: an alias among them may lead elsewhere too.

    Args:
        words: ssh's options for the address.
        config: the only ones among them that ssh hands on to a jump host.

    Raises:
        UserError: there is no ssh.
    """
    own = _lines([*words, "--", host])
    who, hops = _deciding(own), _jumps(own)
    for_jumps = ["-F", str(config)] if config is not None else []
    for _ in range(_MOST_JUMPS):
        if not hops:
            break
        found = _lines([*for_jumps, "--", hops[0]])
        who += [b"through " + os.fsencode(hops[0]), *_deciding(found)]
        hops = hops[1:] + _jumps(found)
    paths = [line.partition(b" ")[2] for line in own if line.startswith(b"controlpath /")]
    return Resolved(tuple(who), Path(os.fsdecode(paths[0])) if paths else None)


def local(command: Sequence[str]) -> subprocess.CompletedProcess[bytes] | None:
    """Runs ssh for something that needs no network; None where it does not answer.

    Raises:
        UserError: there is no ssh.
    """
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LOCAL_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    except FileNotFoundError:
        raise no_ssh() from None


def _lines(words: Sequence[str]) -> list[bytes]:
    done = local(["ssh", "-G", *words])
    return done.stdout.splitlines() if done is not None and done.returncode == 0 else []


def _deciding(lines: Sequence[bytes]) -> list[bytes]:
    return [line for line in lines if line.partition(b" ")[0] in _DECIDES]


def _jumps(lines: Sequence[bytes]) -> list[str]:
    """The jump hosts as ssh takes them by themselves: `user@host:port` is only understood as a URI."""
    said = next((os.fsdecode(line[10:]) for line in lines if line.startswith(b"proxyjump ")), "none")
    hops = [hop for hop in said.split(",") if hop not in ("", "none")]
    return [hop if hop.startswith("ssh://") else f"ssh://{hop}" for hop in hops]


def aliases() -> list[str]:
    """Hosts that `~/.ssh/config` names, in its order, without patterns. Nothing where it cannot be read."""
    try:
        text = (user_home() / ".ssh" / "config").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = (line.replace("=", " ", 1).split() for line in text_lines(text))
    names = [name.strip('"') for words in lines if words and words[0].lower() == "host" for name in words[1:]]
    return list(dict.fromkeys(name for name in names if not set("*?!") & set(name)))
