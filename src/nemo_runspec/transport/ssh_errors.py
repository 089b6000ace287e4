"""Errors of OpenSSH's client that gets no connection, in plain words with a remedy.

The texts are those of OpenSSH 9.2, whose client speaks English in every locale; older ones say the same.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from nemo_runspec.errors import Code, UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.transport.base import Unreachable


@dataclass(frozen=True, slots=True)
class FailedConnection:
    """A connection that did not come about.

    Args:
        name: of the host, for a person.
        log: what `ssh -v` wrote.
        by_hand: the command that makes the same connection in a terminal.
        known: there was a connection before, so that its name and address are right.
    """

    name: str
    log: str
    by_hand: Sequence[str]
    known: bool = False

    @property
    def words(self) -> list[str]:
        """What ssh said for people."""
        return for_people(self.log)

    @property
    def last(self) -> str:
        """The best of its words: the one that names a reason."""
        said = [line for line in self.words if not _EMPTY_WORDS.match(line)] or self.words
        return said[-1] if said else "ssh ended without a word"

    @property
    def hand(self) -> str:
        """The command to type."""
        return shlex.join(self.by_hand)

    @property
    def target(self) -> str:
        """The machine it got to last, a jump host perhaps, as `address:port`; else the name."""
        found = _AT.findall(self.log)
        return found[-1] if found else self.name

    @property
    def got_through(self) -> bool:
        """True if the host itself answered; False where that was only a jump host on the way, or nobody."""
        return len(_AT.findall(self.log)) > len(_JUMP.findall(self.log))

    def after_hello(self) -> str:
        """The log since the last machine was asked to let us in."""
        return self.log[self.log.rfind("Authenticating to ") :]


_DEBUG = re.compile(r"debug[123]: |OpenSSH_|Pseudo-terminal will not|\*\*\* |Transferred: |Bytes per second")
_EMPTY_WORDS = re.compile(
    r"Connection closed by UNKNOWN|kex_exchange_identification: |@@@|Host key verification failed"
)
_AT = re.compile(r"Authenticating to (\S+) as ")
_JUMP = re.compile(r"Executing proxy command: exec \S*ssh .*-v")
"""A jump host of `ProxyJump`, whose ssh speaks as much as the first one."""
_OFFERED = re.compile(r"Offering public key: (.+)$", re.M)
_SERVER_KEY = re.compile(r"Server host key: (\S+) (\S+)")
_OFFENDING = re.compile(r"Offending \S+ key in (\S+:\d+)|Offending key for IP in (\S+:\d+)")
_FORGET = re.compile(r"(ssh-keygen -f .+ -R .+)$", re.M)


def a_person_may_help(attempt: FailedConnection) -> bool:
    """True where somebody at a terminal could be asked: for a password, or whether a host's key is right."""
    tell = next((tell for pattern, tell in _TABLE if pattern.search(attempt.log)), None)
    return tell in (_denied, _key_unknown)


def for_people(log: str) -> list[str]:
    """The lines of `ssh -v` that are not about its own workings."""
    lines = (line.strip() for line in text_lines(log))
    return [line for line in lines if line and not _DEBUG.match(line)]


def explain(attempt: FailedConnection) -> UserError:
    """The error for a failed connection: an `Unreachable` where the machine did not answer, else a refusal."""
    for pattern, tell in _TABLE:
        if pattern.search(attempt.log):
            return tell(attempt)
    return Unreachable(f"no connection to {attempt.name}: {attempt.last}", remedy=f"try by hand: {attempt.hand}")


def _name_unknown(attempt: FailedConnection) -> UserError:
    error = Unreachable(
        f"{attempt.name}: {_line(attempt, 'Could not resolve')}",
        remedy="check the profile's host and ~/.ssh/config; a cluster's own names often need its VPN",
    )
    error.transient = attempt.known or "Temporary failure" in attempt.log
    return error


def _refused(attempt: FailedConnection) -> UserError:
    return Unreachable(
        f"{attempt.name} refused the connection: nothing takes SSH connections there",
        where=_line(attempt, "refused"),
        remedy="check host and port; is the SSH server up?",
    )


def _no_way(attempt: FailedConnection) -> UserError:
    return Unreachable(
        f"{attempt.name} did not answer: {attempt.last}",
        remedy=f"check the network or VPN, host and port, then: {attempt.hand}",
    )


def _denied(attempt: FailedConnection) -> UserError:
    offered = _OFFERED.findall(attempt.after_hello())
    tried = "; ".join(dict.fromkeys(offered)) if offered else "no key at all: none was found"
    mend = "set identity in the profile or IdentityFile in ~/.ssh/config, or ssh-add the key"
    unusable = [line for line in attempt.words if line.startswith("Load key")]
    return UserError(
        f"{attempt.name} refused to let us in: {_line(attempt, 'Permission denied')}",
        where="; ".join([f"tried {tried}", *unusable]),
        remedy=f"{mend}; then: {attempt.hand}",
        code=_if_asked(attempt, Code.LOGIN),
    )


def _key_changed(attempt: FailedConnection) -> UserError:
    place = _OFFENDING.search(attempt.log)
    forget = _FORGET.search(attempt.log)
    known = f"; the known one is in {place.group(1) or place.group(2)}" if place else ""
    mend = f", then: {forget.group(1).strip()}" if forget else " and remove the old key from known_hosts"
    return UserError(
        f"the host key of {attempt.target} has CHANGED: it was reinstalled, or somebody stands between{known}",
        where=_shown(attempt),
        remedy=f"ask whoever runs it whether the new key is right{mend}",
        code=_if_asked(attempt, Code.HOST_KEY),
    )


def _key_unknown(attempt: FailedConnection) -> UserError:
    return UserError(
        f"the host key of {attempt.target} is not known here",
        where=_shown(attempt),
        remedy="compare the fingerprint with the one your site publishes, and answer yes to: "
        f"{attempt.hand}\n       (or set accept_new_host_key = true in the profile)",
        code=_if_asked(attempt, Code.HOST_KEY),
    )


def _shown(attempt: FailedConnection) -> str:
    keys = _SERVER_KEY.findall(attempt.log)
    return f"it shows {keys[-1][0]} {keys[-1][1]}" if keys else attempt.target


def _too_many_keys(attempt: FailedConnection) -> UserError:
    return UserError(
        f"{attempt.name} gave up: too many keys were tried before the right one",
        remedy='name the key: identity = "~/.ssh/…" in the profile, or IdentitiesOnly yes in ~/.ssh/config',
        code=_if_asked(attempt, Code.LOGIN),
    )


def _config(attempt: FailedConnection) -> UserError:
    return UserError(f"ssh cannot read its settings: {attempt.last}", remedy="mend that line of ~/.ssh/config")


def _no_agreement(attempt: FailedConnection) -> UserError:
    return UserError(
        f"{attempt.name} and this machine's ssh share no method: {attempt.last}",
        remedy=f"allow one of its methods in ~/.ssh/config, then: {attempt.hand}",
    )


def _closed(attempt: FailedConnection) -> UserError:
    return Unreachable(
        f"{attempt.target} closed the connection before it let us in: {attempt.last}",
        remedy="it may be overloaded or limit connections: try again later",
    )


def _if_asked(attempt: FailedConnection, code: Code) -> Code:
    """The code where it is the host that refused us; a jump host's refusal says nothing of the host behind it."""
    return code if attempt.got_through else Code.NONE


def _line(attempt: FailedConnection, words: str) -> str:
    return next((line for line in reversed(attempt.words) if words in line), attempt.last).removeprefix("ssh: ")


_TABLE = tuple(
    (re.compile(pattern), tell)
    for pattern, tell in (
        (r"IDENTIFICATION HAS CHANGED|REVOKED HOST KEY|Offending \S+ key in", _key_changed),
        (r"Host key verification failed|you have requested strict checking", _key_unknown),
        (r"Bad configuration option|Bad owner or permissions|terminating, \d+ bad", _config),
        (r"Too many authentication failures", _too_many_keys),
        (r"(?m)^(?!debug).*Permission denied \(", _denied),
        (r"Could not resolve hostname", _name_unknown),
        (r"Unable to negotiate|no matching \w+", _no_agreement),
        (r"(?m)^(?!debug).*Connection refused", _refused),
        (r"timed out|No route to host|is unreachable|Operation timed out", _no_way),
        (r"Connection (closed|reset) by|kex_exchange_identification|Broken pipe", _closed),
    )
)
